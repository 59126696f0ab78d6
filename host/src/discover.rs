//! Discovery: from the discovery string to open disks.
//!
//! The string is a list of shell patterns, separated by commas. Regular files and block devices
//! that match are taken, even behind symbolic links; `AFD:PATTERN` means the disks whose label
//! matches (`labelled.rs`). Of a multipath map and its paths the map is taken, whichever matches
//! (`multipath.rs`).
//!
//! Nothing here touches a disk, a directory or a name, not even to find out what it is: that can
//! hang. A looker does (`probe.rs`), for all of them at once, and each is reported as soon as it
//! has answered. A device that has not answered after
//! [`DISK_TIMEOUT`](super::timeout::DISK_TIMEOUT), counted as in `waiting.rs`, is reported as timed
//! out. Until it answers it is not probed again: a discovery then reports at once that it hangs. A
//! discovery that finds a probe in flight that is not late yet waits for that probe's end, and then
//! probes itself.

use super::{
    IoEngine,
    disk::{About, Medium, NotADisk, RealDisk},
    hanging::{Asked, Hanging, Late},
    labelled,
    probe::{Looked, Looker, Opening},
    timeout::no_answer,
    waiting::{TICK, Waited},
};
use glob::{MatchOptions, Pattern};
use plinth_engine::world::{Disk, Found, Identity, PassedOver, Progress, Sign};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs, io,
    path::{Component, Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

/// An invalid pattern of the discovery string.
#[derive(Debug, thiserror::Error)]
#[error(
    "discovery string: {pattern:?}: {source}; separate patterns by commas, as in '/dev/disk/by-id/*,/srv/disks/*'"
)]
pub struct BadDiskstring {
    pub pattern: String,
    #[source]
    pub source: glob::PatternError,
}

/// The patterns of a discovery string.
///
/// # Errors
/// If one of them is not a pattern.
pub(super) fn patterns(diskstring: &str) -> Result<Vec<String>, BadDiskstring> {
    let mut parts = Vec::new();
    let mut rest = 0;
    for at in separators(diskstring) {
        parts.push(&diskstring[rest..at]);
        rest = at + 1;
    }
    parts.push(&diskstring[rest..]);
    let patterns = parts.into_iter().map(|pattern| pattern.trim().trim_matches('\'').trim());
    patterns
        .filter(|pattern| !pattern.is_empty())
        .map(|pattern| match glob::Pattern::new(pattern) {
            Ok(_) => Ok(pattern.to_owned()),
            Err(source) => Err(BadDiskstring { pattern: pattern.to_owned(), source }),
        })
        .collect()
}

/// The commas that separate patterns: all but those in brackets, as in `/srv/a[,]b`.
fn separators(diskstring: &str) -> Vec<usize> {
    let mut bracket = None;
    let mut separators = Vec::new();
    for (at, letter) in diskstring.char_indices() {
        match (bracket, letter) {
            (None, '[') => bracket = Some(at + 1),
            (None, ',') => separators.push(at),
            // The first letter in brackets may be one itself.
            (Some(begin), ']') if !matches!(&diskstring[begin..at], "" | "!") => bracket = None,
            _ => {}
        }
    }
    separators
}

/// The pattern of a discovery string that this path alone matches.
#[must_use]
pub fn pattern_of(path: &str) -> String {
    let escaped = Pattern::escape(path);
    let has_meaning = |letter: char| matches!(letter, ',' | '\'') || letter.is_whitespace();
    escaped
        .chars()
        .map(|letter| if has_meaning(letter) { format!("[{letter}]") } else { letter.to_string() })
        .collect()
}

/// A pattern as one of a discovery string: its commas separate nothing.
#[must_use]
pub fn one_pattern(pattern: &str) -> String {
    let mut one = pattern.to_owned();
    separators(pattern).into_iter().rev().for_each(|at| one.replace_range(at..=at, "[,]"));
    one
}

/// How many devices are probed at a time: each takes a thread of the looker, and a container may
/// have few.
const OPENING_MAX: usize = 256;

/// An event of a discovery.
enum Event {
    Paths(String, io::Result<Vec<String>>),
    /// A report on a path, and what the path leads to, if that is known.
    Opening(String, Opening, Option<Medium>),
    /// Another discovery probed the path, and that probe has ended.
    Answered(String),
}

/// How long devices have kept a discovery waiting, and whether it can go on.
#[derive(Default)]
pub(super) struct Count {
    looker: OnceLock<(Arc<Looker>, Duration)>,
    /// No looker could be started.
    has_failed: AtomicBool,
    /// Time in which no device counted as waited for, in nanoseconds. It should not occur; but a
    /// discovery must end.
    idle: Waited,
}

impl Count {
    pub(super) fn begin(&self, looker: &Arc<Looker>) {
        let _ = self.looker.set((Arc::clone(looker), looker.waited().time()));
    }

    pub(super) fn fail(&self) {
        self.has_failed.store(true, Ordering::Release);
    }
}

impl Progress for Count {
    fn waited(&self) -> Duration {
        let own =
            self.looker.get().map_or(Duration::ZERO, |(looker, from)| looker.waited().since(*from));
        own + self.idle.time()
    }

    fn is_broken(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
            || self.looker.get().is_some_and(|(looker, _)| !looker.is_there())
    }
}

/// A discovery in progress.
struct Looks<'a> {
    /// The patterns of labels.
    labels: Vec<Pattern>,
    engine: IoEngine,
    hanging: &'a Arc<Hanging>,
    timeout: Duration,
    looker: Arc<Looker>,
    events: mpsc::Sender<Event>,
    /// Paths that have been matched.
    met: BTreeSet<String>,
    /// Patterns and paths whose answers are outstanding.
    expanding: BTreeSet<String>,
    /// `None` if another discovery probes the path.
    opening: BTreeMap<String, Option<Looked>>,
    /// Paths that are still to be probed.
    queue: VecDeque<String>,
    tell: &'a mut dyn FnMut(Sign),
}

/// Opens every disk that the patterns match, and reports each. Labels are read of the devices of
/// `scan`. Blocks for `timeout` at most, counted by `count`. Returns whether all have answered.
pub(super) fn look(
    (patterns, scan): (&[String], &[String]),
    engine: IoEngine,
    looker: Arc<Looker>,
    hanging: &Arc<Hanging>,
    (timeout, count): (Duration, &Count),
    tell: &mut dyn FnMut(Sign),
) -> bool {
    let (events, happened) = mpsc::channel();
    count.begin(&looker);
    let labels: Vec<_> = patterns.iter().filter_map(|one| labelled::label_pattern(one)).collect();
    let scan = if labels.is_empty() { Vec::new() } else { labelled::scan(scan) };
    let mut looks = Looks {
        labels,
        engine,
        hanging,
        timeout,
        looker,
        events,
        met: BTreeSet::new(),
        expanding: BTreeSet::new(),
        opening: BTreeMap::new(),
        queue: VecDeque::new(),
        tell,
    };
    let paths = patterns.iter().filter(|one| labelled::label_pattern(one).is_none());
    paths.chain(&scan).for_each(|pattern| looks.expand(pattern));
    let mut last = count.waited();
    while !looks.is_over() {
        match happened.recv_timeout(TICK) {
            Ok(Event::Paths(pattern, paths)) => {
                looks.expanding.remove(&pattern);
                match paths {
                    Ok(paths) => paths.into_iter().for_each(|path| looks.begin(path)),
                    Err(error) => looks.failed(&pattern, None, error),
                }
            }
            Ok(Event::Opening(path, opening, medium)) => looks.heard(path, opening, medium),
            Ok(Event::Answered(name)) => looks.ask_again(name),
            Err(_) => {
                looks.give_up_late();
                let now = count.waited();
                if now >= timeout {
                    break;
                }
                if now == last {
                    count.idle.count(TICK, false);
                }
                last = count.waited();
            }
        }
        looks.go_on();
    }
    let all_answered = looks.is_over();
    looks.give_up();
    all_answered
}

/// The report on a device that has hung for a while and is not probed.
fn still_silent(since: Duration) -> io::Error {
    let text = format!(
        "no answer for {} s: the device hangs, and is asked again when it has answered",
        since.as_secs()
    );
    io::Error::new(io::ErrorKind::TimedOut, text)
}

impl Looks<'_> {
    fn is_over(&self) -> bool {
        self.expanding.is_empty() && self.opening.is_empty() && self.queue.is_empty()
    }

    /// Another discovery's probe of a device has ended: this one probes it now.
    fn ask_again(&mut self, name: String) {
        if self.expanding.remove(&name) {
            self.expand(&name);
        } else if self.opening.remove(&name).is_some() {
            self.ask(name);
        }
    }

    /// Reports the devices that other discoveries probe and that hang by now.
    fn give_up_late(&mut self) {
        let of_others: Vec<String> = self
            .opening
            .iter()
            .filter(|(_, own)| own.is_none())
            .map(|(path, _)| path.clone())
            .collect();
        for path in of_others {
            if let Some(Late { since, medium }) = self.hanging.late(&path, self.timeout) {
                self.opening.remove(&path);
                self.failed(&path, medium, still_silent(since));
            }
        }
        for pattern in self.expanding.clone() {
            if let Some(Late { since, .. }) = self.hanging.late(&pattern, self.timeout) {
                self.expanding.remove(&pattern);
                self.failed(&pattern, None, still_silent(since));
            }
        }
    }

    /// Reports all outstanding devices as timed out.
    fn give_up(&mut self) {
        let (hanging, timeout) = (Arc::clone(self.hanging), self.timeout);
        let silent =
            std::mem::take(&mut self.opening).into_keys().chain(std::mem::take(&mut self.queue));
        for path in silent.chain(std::mem::take(&mut self.expanding)).collect::<Vec<_>>() {
            self.failed(&path, hanging.medium(&path), no_answer(timeout));
        }
    }

    fn go_on(&mut self) {
        while self.opening.len() < OPENING_MAX
            && let Some(path) = self.queue.pop_front()
        {
            self.ask(path);
        }
    }

    fn expand(&mut self, pattern: &str) {
        if !pattern.contains(['*', '?', '[']) {
            return self.begin(pattern.to_owned());
        }
        if !self.expanding.insert(pattern.to_owned()) {
            return;
        }
        match self.may_ask(pattern) {
            Asked::Ask(token) => {
                let (events, hanging, name) =
                    (self.events.clone(), Arc::clone(self.hanging), pattern.to_owned());
                self.looker.expand(pattern, move |paths| {
                    hanging.answered(&name, token);
                    let _ = events.send(Event::Paths(name, paths));
                });
            }
            Asked::Waits => {}
            Asked::Hangs(late) => {
                self.expanding.remove(pattern);
                self.failed(pattern, None, still_silent(late.since));
            }
        }
    }

    fn may_ask(&self, name: &str) -> Asked {
        let (events, answered) = (self.events.clone(), name.to_owned());
        let then = move || drop(events.send(Event::Answered(answered)));
        self.hanging.ask(name, &self.looker, self.timeout, then)
    }

    fn begin(&mut self, path: String) {
        if self.met.insert(path.clone()) {
            (self.tell)(Sign::Begun(labelled::device_of(&path).0.to_owned()));
            self.queue.push_back(path);
        }
    }

    fn ask(&mut self, path: String) {
        let token = match self.may_ask(&path) {
            Asked::Ask(token) => token,
            Asked::Waits => {
                self.opening.insert(path, None);
                return;
            }
            Asked::Hangs(late) => return self.failed(&path, late.medium, still_silent(late.since)),
        };
        let (events, hanging, name) = (self.events.clone(), Arc::clone(self.hanging), path.clone());
        let mut known = None;
        let heard = move |opening: Opening| {
            let more = match &opening {
                Opening::Is(medium) => {
                    known = Some(*medium);
                    hanging.is(&name, token, *medium);
                    true
                }
                Opening::Hangs | Opening::Ended(_) => {
                    hanging.answered(&name, token);
                    false
                }
            };
            let _ = events.send(Event::Opening(name.clone(), opening, known));
            more
        };
        let (device, is_scanned) = labelled::device_of(&path);
        let media = self.hanging.media(self.timeout);
        let looked = self.looker.open(device, is_scanned, media, heard);
        self.opening.insert(path, Some(looked));
    }

    fn heard(&mut self, path: String, opening: Opening, medium: Option<Medium>) {
        let ended = match opening {
            Opening::Is(_) => return,
            Opening::Hangs => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "no answer by another path: the device hangs",
            )),
            Opening::Ended(ended) => ended,
        };
        let looked = self.opening.remove(&path).flatten();
        match (ended, looked) {
            (Ok(about), Some(looked)) => self.opened(&path, about, looked),
            // Its probe has been given up.
            (Ok(_), None) => {}
            // A directory, or a name that does not exist: not a disk, and not an error.
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => self.no_disk(&path),
            (Err(error), _) if error.get_ref().is_some_and(|inner| inner.is::<NotADisk>()) => {
                self.no_disk(&path)
            }
            (Err(error), _) if error.kind() == io::ErrorKind::TimedOut => {
                self.failed(&path, medium, error)
            }
            // One of all the devices of the host: it may have nothing to do with any group.
            (Err(_), _) if labelled::device_of(&path).1 => self.no_disk(&path),
            (Err(error), _) => self.failed(&path, None, error),
        }
    }

    /// Takes a device, or passes it over.
    fn opened(&mut self, name: &str, about: About, looked: Looked) {
        let (device, is_scanned) = labelled::device_of(name);
        let path = match is_scanned {
            true => labelled::path_by_label(&self.labels, about.label.as_deref()),
            false => Some(device.to_owned()),
        };
        match (path, about.map.clone()) {
            (Some(_), Some(map)) => {
                let why = format!("one path of the multipath map {map}, which is used instead");
                (self.tell)(Sign::PassedOver(PassedOver { path: device.to_owned(), why }));
                self.begin(labelled::name_of(&map, is_scanned));
            }
            (Some(path), None) => self.found(path, device, about, looked),
            (None, _) => {}
        }
        // Of that path there is nothing more to wait for: the disk's own is its label.
        if is_scanned {
            self.no_disk(name);
        }
    }

    fn no_disk(&mut self, name: &str) {
        (self.tell)(Sign::NoDisk(labelled::device_of(name).0.to_owned()));
    }

    fn found(&mut self, path: String, device: &str, about: About, looked: Looked) {
        let disk = RealDisk::looked(&path, device, about, self.engine, looked);
        let identity = disk.identity();
        (self.tell)(Sign::Answered(Found {
            path,
            identity,
            disk: Ok(Arc::new(disk) as Arc<dyn Disk>),
        }));
    }

    fn failed(&mut self, name: &str, medium: Option<Medium>, error: io::Error) {
        let path = labelled::device_of(name).0;
        // A device that did not answer is identified by its path alone, unless it was found what
        // the path leads to.
        let identity = match medium {
            Some(Medium::Block { major, minor }) => Identity(format!("block:{major}:{minor}")),
            Some(Medium::File { device, inode }) => Identity(format!("file:{device}:{inode}")),
            None => Identity(format!("path:{path}")),
        };
        (self.tell)(Sign::Answered(Found {
            path: path.to_owned(),
            identity,
            disk: Err(Arc::new(error)),
        }));
    }
}

/// The names that a pattern may mean: paths, or devices of a scan for labels. Without wildcards
/// their existence is not checked. May hang as long as a directory does.
pub(super) fn expand(pattern: &str) -> Vec<String> {
    if let Some(names) = labelled::expand(pattern) {
        return names;
    }
    const LIKE_A_SHELL: MatchOptions = MatchOptions {
        case_sensitive: true,
        require_literal_separator: true,
        require_literal_leading_dot: true,
    };
    let mut paths = vec![PathBuf::new()];
    for component in Path::new(pattern).components() {
        let wild = match component {
            Component::Normal(name) => name.to_str().filter(|name| name.contains(['*', '?', '['])),
            _ => None,
        };
        let Some(Ok(wild)) = wild.map(Pattern::new) else {
            paths.iter_mut().for_each(|path| path.push(component));
            continue;
        };
        let within = |directory: PathBuf| {
            let looked_at =
                if directory.as_os_str().is_empty() { Path::new(".") } else { &directory };
            let names = fs::read_dir(looked_at)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.file_name());
            let names = names.filter(|name| {
                name.to_str().is_some_and(|name| wild.matches_with(name, LIKE_A_SHELL))
            });
            names.map(|name| directory.join(name)).collect::<Vec<_>>()
        };
        paths = paths.into_iter().flat_map(within).collect();
    }
    paths.into_iter().filter_map(|path| path.into_os_string().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plinth_engine::{sync::buffer::Buffer, world::Io};

    #[test]
    fn a_discovery_string_is_split_and_checked() {
        assert_eq!(patterns(" '/dev/sd*' , /x/*,,").expect("patterns"), ["/dev/sd*", "/x/*"]);
        assert!(patterns("").expect("patterns").is_empty());
        assert!(expand("").iter().all(String::is_empty));
        assert_eq!(expand("/no/such/disk"), ["/no/such/disk"]);
        assert!(expand("/no/such/*").is_empty());
        assert_eq!(expand("/proc/[s]elf/stat?s"), ["/proc/self/status"]);
        assert_eq!(patterns("/a[,]b,/c[],]*,/d").expect("patterns"), ["/a[,]b", "/c[],]*", "/d"]);
        let error = patterns("/a/*,/b/[").expect_err("no pattern");
        assert!(error.to_string().contains("/b/["), "{error}");
    }

    #[test]
    fn the_pattern_of_a_path_means_this_path_alone() {
        for path in ["/a,b", "/a b ", "/'a'", "/[a,b]*", "/,,", "/a\n"] {
            let pattern = pattern_of(path);
            let read = patterns(&pattern).expect("a pattern");
            assert_eq!(read, std::slice::from_ref(&pattern), "{path}");
            assert!(Pattern::new(&pattern).expect("a pattern").matches(path), "{pattern}");
        }
        let one = one_pattern("/a,*[b,],c");
        assert_eq!(one, "/a[,]*[b,][,]c");
        assert_eq!(patterns(&one).expect("a pattern"), [one]);
    }

    /// Runs a discovery to its end; the results by path.
    fn look_at(
        pattern: &str,
        hanging: &Arc<Hanging>,
        timeout: Duration,
    ) -> BTreeMap<String, Found> {
        let mut found = BTreeMap::new();
        let mut hear = |sign: Sign| {
            if let Sign::Answered(one) = sign {
                found.insert(one.path.clone(), one);
            }
        };
        let looker = Looker::start().expect("a looker");
        look(
            (&[pattern.to_owned()], &[]),
            IoEngine::Threads,
            looker,
            hanging,
            (timeout, &Count::default()),
            &mut hear,
        );
        found
    }

    /// A disk hangs when it is opened. The other disks are found, by every path; the hanging one is
    /// reported, and is not probed again by any path until it has answered. Then it is a disk like
    /// any other.
    #[test]
    fn a_disk_that_hangs_does_not_hang_discovery() {
        let directory = tempfile::tempdir().expect("temporary directory");
        for name in ["sick", "well"] {
            fs::write(directory.path().join(name), [7; 8192]).expect("write");
        }
        let at = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
        let lease = testing::Lease::take(&directory.path().join("sick"));
        let hanging = Arc::new(Hanging::default());
        let soon = Duration::from_millis(300);
        for round in 0..3 {
            let found = look_at(&at("*"), &hanging, soon);
            let error = found[&at("sick")].disk.as_ref().expect_err("it hangs");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
            let well = found[&at("well")].disk.as_ref().expect("it does not");
            let read = crate::block_on(
                well.submit(Io::Read { offset: 4096, buffer: Buffer::zeroed(4096) }),
            );
            read.result.expect("read");
            assert!(read.buffer.expect("its buffer")[..] == [7; 4096]);
            assert_eq!(hanging.list(Duration::ZERO).len(), 1, "round {round}");
            if round == 0 {
                std::os::unix::fs::symlink(at("sick"), at("link")).expect("link");
            }
            if round == 1 {
                let error = found[&at("link")].disk.as_ref().expect_err("it is the same device");
                assert!(error.to_string().contains("another path"), "{error}");
            }
        }
        drop(lease);
        while !hanging.list(Duration::ZERO).is_empty() {
            std::thread::yield_now();
        }
        let found = look_at(&at("*"), &hanging, Duration::from_secs(60));
        assert!(found.values().all(|found| found.disk.is_ok()), "{found:?}");
        assert_eq!(found[&at("sick")].identity, found[&at("link")].identity);
    }
}

#[cfg(test)]
pub(super) mod testing {
    #![allow(unsafe_code)]
    use std::{fs::File, os::fd::AsRawFd, path::Path};

    /// While the lease is held, `open` of the file blocks, as with a device that hangs.
    pub struct Lease(File);

    impl Lease {
        pub fn take(path: &Path) -> Self {
            let file = File::options().read(true).write(true).open(path).expect("open");
            const F_SETSIG: libc::c_int = 10;
            // SAFETY: no pointers. The signal that reports a waiting opener is one that is ignored.
            unsafe {
                assert_ne!(libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG), -1, "F_SETSIG");
                assert_ne!(
                    libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK),
                    -1,
                    "F_SETLEASE"
                );
            }
            Self(file)
        }
    }

    impl Drop for Lease {
        fn drop(&mut self) {
            // SAFETY: no pointers.
            unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
        }
    }
}
