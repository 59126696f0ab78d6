//! The alert log, read line by line as it grows.
//!
//! The log may be moved away at any time: then the rest of the old file is read, and the new one
//! from its beginning. A process that has opened the old file before may still write its line
//! there, so it is read once more, a look later. A log that became shorter is read again from its
//! beginning.
//!
//! `alarm.place` in STATE keeps how far it has been read: the inode of the log, the beginning of
//! its first line, an offset. The three tell a log that was moved away meanwhile from one that has
//! grown, also where a new file got the inode of an old one.

use super::message::harmless;
use plinth_engine::event::Severity;
use std::{
    fs::{self, File},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

/// Bytes that are read at a look. A line that is longer is left out.
const READ_MAX: usize = 256 << 10;
/// The length of a line's time: `2026-11-21T03:00:07.125Z`.
const TIME_LENGTH: usize = 24;
/// Characters of a line that are sent.
const TEXT_MAX: usize = 4000;

/// A line of the log, without control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub time: String,
    pub severity: Severity,
    /// A group, or `instance`.
    pub about: String,
    pub text: String,
}

impl Entry {
    pub fn parse(line: &str) -> Option<Self> {
        let (time, rest) = line.split_once(' ')?;
        let (severity, rest) = rest.split_once(' ')?;
        let (about, text) = rest.split_once(": ")?;
        let severity = match severity {
            "NOTE" => Severity::Note,
            "WARNING" => Severity::Warning,
            "ALARM" => Severity::Alarm,
            _ => return None,
        };
        let is_time = time.len() == TIME_LENGTH
            && time.ends_with('Z')
            && time.bytes().all(|byte| byte.is_ascii_digit() || b"-:.TZ".contains(&byte));
        is_time.then(|| Self {
            time: time.to_owned(),
            severity,
            about: harmless(&about.chars().take(TEXT_MAX).collect::<String>()),
            text: harmless(&text.chars().take(TEXT_MAX).collect::<String>()),
        })
    }

    /// As the log has it.
    pub fn line(&self) -> String {
        format!("{} {} {}: {}", self.time, self.severity, self.about, self.text)
    }
}

/// A place in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    inode: u64,
    /// The beginning of the first line; empty if there was none yet.
    head: String,
    offset: u64,
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let inode = words.next()?.parse().ok()?;
        let offset = words.next()?.parse().ok()?;
        Some(Self { inode, offset, head: words.next().unwrap_or_default().to_owned() })
    }

    fn text(&self) -> String {
        format!("{} {} {}\n", self.inode, self.offset, self.head)
    }
}

/// The beginning of a file's first line, without the unwanted.
fn head(file: &File) -> String {
    let mut bytes = [0; TIME_LENGTH];
    let length = file.read_at(&mut bytes, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned();
    let is_whole = length == TIME_LENGTH && !text.contains(char::is_whitespace);
    if is_whole { text } else { String::new() }
}

struct Open {
    file: File,
    inode: u64,
    offset: u64,
    /// The bytes up to the next line break belong to a line that is left out.
    is_within: bool,
    /// Another file has its name now.
    is_replaced: bool,
}

impl Open {
    fn new(path: &Path, offset: u64) -> io::Result<Self> {
        let file = File::open(path)?;
        let inode = file.metadata()?.ino();
        Ok(Self { file, inode, offset, is_within: false, is_replaced: false })
    }
}

/// See the module's description.
pub(super) struct Follower {
    log: PathBuf,
    kept_in: PathBuf,
    open: Option<Open>,
    kept: Option<Place>,
}

impl Follower {
    /// Goes on where the last one was; the first one at the end of the log.
    pub fn new(log: PathBuf, kept_in: PathBuf) -> Self {
        let kept = fs::read_to_string(&kept_in).ok().and_then(|text| Place::parse(&text));
        let mut open = Open::new(&log, 0).ok();
        if let Some(open) = &mut open {
            let length = open.file.metadata().map_or(0, |found| found.len());
            open.offset = match &kept {
                Some(kept) if kept.inode != open.inode || kept.offset > length => 0,
                Some(kept) if !kept.head.is_empty() && kept.head != head(&open.file) => 0,
                Some(kept) => kept.offset,
                None => length,
            };
        }
        let mut follower = Self { log, kept_in, open, kept };
        // An instance that ends before its first alarm leaves where it began.
        follower.keep();
        follower
    }

    /// The next lines, and whether there are more.
    pub fn read(&mut self) -> io::Result<(Vec<Entry>, bool)> {
        if self.open.is_none() {
            match Open::new(&self.log, 0) {
                Ok(open) => self.open = Some(open),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok((Vec::new(), false));
                }
                Err(error) => return Err(error),
            }
        }
        let Some(open) = &mut self.open else { return Ok((Vec::new(), false)) };
        // Before it is read: what is written later is read at the next look.
        let was_replaced = open.is_replaced;
        open.is_replaced = fs::metadata(&self.log).map_or(true, |found| found.ino() != open.inode);
        if open.file.metadata()?.len() < open.offset {
            (open.offset, open.is_within) = (0, false);
        }
        let mut bytes = vec![0; READ_MAX];
        let length = open.file.read_at(&mut bytes, open.offset)?;
        bytes.truncate(length);
        let is_full = length == READ_MAX;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map(|at| at.saturating_add(1));
        let Some(end) = end else {
            if is_full {
                open.offset = open.offset.saturating_add(length as u64);
                open.is_within = true;
            } else if was_replaced && open.is_replaced {
                self.open = None;
            }
            return Ok((Vec::new(), is_full));
        };
        open.offset = open.offset.saturating_add(end as u64);
        let text = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
        let skipped = usize::from(std::mem::take(&mut open.is_within));
        Ok((text.lines().skip(skipped).filter_map(Entry::parse).collect(), is_full))
    }

    /// Notes that everything that was read is done.
    pub fn keep(&mut self) {
        let Some(open) = &self.open else {
            // Whatever log there is later is new.
            return self.note(Place { inode: 0, head: String::new(), offset: 0 });
        };
        let is_same = |kept: &Place| {
            !kept.head.is_empty() && kept.inode == open.inode && kept.offset == open.offset
        };
        if self.kept.as_ref().is_some_and(is_same) {
            return;
        }
        let place = Place { inode: open.inode, head: head(&open.file), offset: open.offset };
        self.note(place);
    }

    fn note(&mut self, place: Place) {
        if self.kept.as_ref() == Some(&place) {
            return;
        }
        // Without it some lines are sent twice after the next start.
        let new = self.kept_in.with_extension("new");
        let _ = fs::write(&new, place.text()).and_then(|()| fs::rename(&new, &self.kept_in));
        self.kept = Some(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::OpenOptions, io::Write};

    struct Home(tempfile::TempDir);

    impl Home {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a directory"))
        }

        fn log(&self) -> PathBuf {
            self.0.path().join("alert.log")
        }

        fn write(&self, text: &str) {
            let log = OpenOptions::new().create(true).append(true).open(self.log());
            log.and_then(|mut log| log.write_all(text.as_bytes())).expect("written");
        }

        fn line(&self, text: &str) {
            self.write(&format!("2026-11-21T03:00:07.125Z ALARM DATA: {text}\n"));
        }

        fn follower(&self) -> Follower {
            Follower::new(self.log(), self.0.path().join("alarm.place"))
        }
    }

    fn texts(follower: &mut Follower) -> Vec<String> {
        let (entries, _) = follower.read().expect("read");
        entries.into_iter().map(|entry| entry.text).collect()
    }

    #[test]
    fn only_lines_of_the_log_are_understood() {
        let line = "2026-11-21T03:00:07.125Z ALARM DATA: disk D: bad\u{1b}[2J\u{202e}";
        let entry = Entry::parse(line).expect("a line");
        assert_eq!((entry.severity, &*entry.about), (Severity::Alarm, "DATA"));
        assert_eq!(entry.text, "disk D: bad\u{fffd}[2J\u{fffd}");
        assert!(entry.line().starts_with("2026-11-21T03:00:07.125Z ALARM DATA: disk D: bad"));
        for line in [
            "",
            "ALARM DATA: x",
            "2026-11-21T03:00:07.125Z ALERT DATA: x",
            "2026-11-21T03:00:07.125Z ALARM DATA",
            "2026-11-21T03:00:07.1;rmZ ALARM DATA: x",
        ] {
            assert_eq!(Entry::parse(line), None, "{line}");
        }
    }

    #[test]
    fn the_first_one_begins_at_the_end_and_the_next_where_the_last_was() {
        let home = Home::new();
        home.line("old");
        let mut follower = home.follower();
        assert_eq!(texts(&mut follower), [""; 0]);
        home.line("one");
        assert_eq!(texts(&mut follower), ["one"]);
        follower.keep();
        home.line("two");
        assert_eq!(texts(&mut follower), ["two"]);
        drop(follower);
        let mut next = home.follower();
        home.line("three");
        assert_eq!(texts(&mut next), ["two", "three"], "two was not kept as done");
    }

    #[test]
    fn a_log_that_is_not_there_yet_is_read_from_its_beginning() {
        let home = Home::new();
        let mut follower = home.follower();
        assert_eq!(texts(&mut follower), [""; 0]);
        home.line("one");
        home.write("2026-11-21T03:00:07.125Z ALARM DATA: half a");
        assert_eq!(texts(&mut follower), ["one"]);
        home.write(" line\n");
        assert_eq!(texts(&mut follower), ["half a line"]);
    }

    #[test]
    fn a_log_that_is_moved_away_is_read_to_its_end_and_then_the_new_one() {
        let home = Home::new();
        home.line("old");
        let mut follower = home.follower();
        home.line("one");
        let moved = home.0.path().join("alert.log.1");
        fs::rename(home.log(), &moved).expect("moved");
        home.line("three");
        assert_eq!(texts(&mut follower), ["one"]);
        let mut late = OpenOptions::new().append(true).open(&moved).expect("opened");
        late.write_all(b"2026-11-21T03:00:07.125Z ALARM DATA: two\n").expect("written");
        let mut all = Vec::new();
        while all.len() < 2 {
            all.extend(texts(&mut follower));
        }
        assert_eq!(all, ["two", "three"]);
        follower.keep();
        // Moved away while no instance ran.
        drop(follower);
        fs::rename(home.log(), &moved).expect("moved");
        home.line("four");
        assert_eq!(texts(&mut home.follower()), ["four"]);
    }

    #[test]
    fn a_log_that_is_cut_is_read_again_and_a_line_without_end_is_left_out() {
        let home = Home::new();
        home.line("a line that is longer than the next");
        let mut follower = home.follower();
        fs::write(home.log(), "").expect("cut");
        home.line("one");
        assert_eq!(texts(&mut follower), ["one"]);
        home.write(&"x".repeat(READ_MAX + 10));
        home.line("the end of the long line");
        home.line("two");
        let mut all = Vec::new();
        while all.is_empty() {
            all = texts(&mut follower);
        }
        assert_eq!(all, ["two"]);
    }
}
