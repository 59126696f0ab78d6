//! Alert lines of one kind, gathered: a disk that fails 1000 times a second must not hide all other
//! lines.
//!
//! Lines are of one kind if they are about the same group, have the same severity, and differ in
//! numbers only: another disk's name or path makes another kind. The first [`FIRST`] lines of a
//! kind are written at once. Later ones are counted; a minute after the first one a line reports
//! their number and the last of them, and so each minute while they go on. After a minute without
//! such a line, the next counts as the first again.
//!
//! Notes are for the record, and each is written. This file does no I/O: the caller passes the
//! time.

use plinth_engine::event::Severity;
use std::{collections::BTreeMap, time::Duration};

/// Lines of a kind that are written at once.
pub const FIRST: u64 = 10;
/// The interval between two reports on gathered lines.
pub const TIME: Duration = Duration::from_secs(60);
/// Kinds that are tracked at a time; lines of further kinds are written as they come.
const KINDS_MAX: usize = 1000;

/// One line: its severity, its subject, its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    pub severity: Severity,
    pub about: String,
    pub text: String,
}

#[derive(Debug)]
struct Kind {
    since: Duration,
    written: u64,
    more: u64,
    last: Option<Text>,
}

/// See the module's description.
#[derive(Debug, Default)]
pub struct Gathered(BTreeMap<(u8, String), Kind>);

/// The text without its numbers: digits that stand by themselves.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for word in
        text.split_inclusive(|letter: char| !(letter.is_alphanumeric() || "_-/.:".contains(letter)))
    {
        let (inner, end) = match word.char_indices().last() {
            Some((at, letter)) if !letter.is_alphanumeric() => word.split_at(at),
            _ => (word, ""),
        };
        let is_number = inner.bytes().any(|byte| byte.is_ascii_digit())
            && inner.bytes().all(|byte| byte.is_ascii_digit() || b".:-".contains(&byte));
        kept.push_str(if is_number { "#" } else { inner });
        kept.push_str(end);
    }
    kept
}

impl Gathered {
    /// Takes a line. Returns it if it is to be written now.
    pub fn offer(&mut self, now: Duration, line: Text) -> Option<Text> {
        if line.severity == Severity::Note {
            return Some(line);
        }
        let key = (line.severity as u8, format!("{}: {}", line.about, without_numbers(&line.text)));
        if self.0.len() >= KINDS_MAX && !self.0.contains_key(&key) {
            return Some(line);
        }
        let kind =
            self.0.entry(key).or_insert(Kind { since: now, written: 0, more: 0, last: None });
        if kind.written < FIRST {
            kind.written += 1;
            return Some(line);
        }
        kind.more += 1;
        kind.last = Some(line);
        None
    }

    /// The time at which `take` may next have lines.
    #[must_use]
    pub fn next(&self) -> Option<Duration> {
        self.0.values().map(|kind| kind.since + TIME).min()
    }

    /// The lines that report on gathered ones: of each kind whose interval is over, or of all
    /// kinds.
    pub fn take(&mut self, now: Duration, all: bool) -> Vec<Text> {
        let mut lines = Vec::new();
        self.0.retain(|_, kind| {
            let is_over = now >= kind.since + TIME;
            if !is_over && !all {
                return true;
            }
            let Some(last) = kind.last.take() else { return !is_over };
            let seconds = now.saturating_sub(kind.since).as_secs_f64().round();
            let time = if is_over && seconds < 90.0 {
                "minute".to_owned()
            } else {
                format!("{seconds} s")
            };
            let text = format!(
                "{} more like this in the last {time}, the last one: {}",
                kind.more, last.text
            );
            lines.push(Text { text, ..last });
            (kind.since, kind.more) = (now, 0);
            true
        });
        lines.sort_by(|one, other| (&one.about, &one.text).cmp(&(&other.about, &other.text)));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Text {
        Text { severity: Severity::Warning, about: "DATA".to_owned(), text: text.to_owned() }
    }

    fn repaired(offset: u64, disk: &str) -> Text {
        line(&format!(
            "repaired 4 KiB at offset {offset} of disk {disk} (/dev/sd1): AU 7, extent 3 of file {offset}.1"
        ))
    }

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// 100 lines a second for ten minutes, as from a disk whose reads all fail.
    #[test]
    fn a_flood_is_some_lines_a_minute() {
        let mut gathered = Gathered::default();
        let (mut written, mut told, mut flooded) = (Vec::new(), 0, 0);
        for step in 0..60_000_u64 {
            let now = at(step * 10);
            written.extend(gathered.offer(now, repaired(step * 4096, "DATA_0001")));
            flooded += 1;
            if gathered.next().is_some_and(|next| now >= next) {
                for text in gathered.take(now, false) {
                    assert_eq!(text.severity, Severity::Warning);
                    let (more, rest) = text.text.split_once(' ').expect("a number first");
                    assert!(
                        rest.starts_with(
                            "more like this in the last minute, the last one: repaired 4 KiB"
                        ),
                        "{rest}"
                    );
                    told += more.parse::<u64>().expect("a number");
                    written.push(text);
                }
            }
        }
        for text in gathered.take(at(600_000), true) {
            told += text
                .text
                .split_once(' ')
                .and_then(|(more, _)| more.parse::<u64>().ok())
                .expect("a number");
        }
        assert_eq!(told + FIRST, flooded, "each is counted");
        assert_eq!(written.len() as u64, FIRST + 9, "one line each minute");
    }

    /// One line a second for a long time, then a pause: the next line of the kind is written at
    /// once again.
    #[test]
    fn a_kind_that_has_ended_begins_anew() {
        let mut gathered = Gathered::default();
        let idle = || line("idle regions stay open: disk D cannot be spared");
        let written =
            (0..30).filter_map(|second| gathered.offer(at(second * 1000), idle())).count();
        assert_eq!(written as u64, FIRST);
        let told = gathered.take(at(60_000), false);
        assert_eq!(told.len(), 1);
        assert!(told[0].text.starts_with("20 more like this in the last minute"), "{told:?}");
        assert_eq!(gathered.offer(at(61_000), idle()), None, "it goes on");
        assert_eq!(gathered.take(at(120_000), false).len(), 1);
        assert_eq!(gathered.take(at(180_000), false), []);
        assert_eq!(gathered.next(), None);
        assert!(gathered.offer(at(181_000), idle()).is_some());
    }

    #[test]
    fn kinds_differ_in_more_than_numbers() {
        let mut gathered = Gathered::default();
        for step in 0..100 {
            gathered.offer(at(0), repaired(step, "DATA_0001"));
        }
        assert_eq!(gathered.offer(at(0), repaired(7, "DATA_0001")), None);
        let other = |line: Text| gathered.offer(at(0), line).is_some();
        let others = [
            repaired(7, "DATA_0002"),
            Text { about: "FRA".to_owned(), ..repaired(7, "DATA_0001") },
            Text { severity: Severity::Alarm, ..repaired(7, "DATA_0001") },
            line("disk DATA_0001 in failure group A is offline: it failed"),
        ];
        assert!(others.into_iter().all(other));
        let note = || Text { severity: Severity::Note, ..line("attribute disk_timeout is now 5") };
        assert!(
            (0..100).all(|_| gathered.offer(at(0), note()).is_some()),
            "notes are for the record"
        );
    }

    #[test]
    fn numbers_stand_by_themselves() {
        for (text, kept) in [
            (
                "at offset 4096 of disk DATA_0001 (/dev/sda1)",
                "at offset # of disk DATA_0001 (/dev/sda1)",
            ),
            ("extent 3 (2 tried); 12.5 s", "extent # (# tried); # s"),
            ("a 5", "a #"),
            ("5", "#"),
            ("", ""),
            ("...", "..."),
        ] {
            assert_eq!(without_numbers(text), kept);
        }
    }
}
