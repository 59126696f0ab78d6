//! Discovery: from the discovery string to open disks.
//!
//! The string is a list of shell patterns, separated by commas. What they match is
//! sorted by path; regular files and block devices stay, also behind symbolic links.
//!
//! Nothing here touches a disk, not even to ask what it is: that can hang. Patterns are
//! matched against the names in directories. Each match is then examined and opened on a
//! thread of its own; after [`PATIENCE`] it is reported as timed out and its thread left
//! behind, and until that thread returns the path is not tried again.

use super::{
    IoEngine,
    disk::{NotADisk, RealDisk},
    patience::{PATIENCE, no_answer},
};
use glob::{MatchOptions, Pattern};
use plinth_engine::world::{Disk, Found, Identity};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Component, Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// Disks being opened at the same time.
const OPENING_MAX: usize = 64;

/// A pattern of the discovery string that is none.
#[derive(Debug, thiserror::Error)]
#[error("discovery string: {pattern:?}: {source}; separate patterns by commas, as in '/dev/disk/by-id/*,/srv/disks/*'")]
pub struct BadDiskstring {
    pub pattern: String,
    #[source]
    pub source: glob::PatternError,
}

/// Paths whose opening hangs, each with a flag that is set when it no longer does.
#[derive(Default)]
pub(super) struct Hanging(Mutex<BTreeMap<String, Arc<AtomicBool>>>);

impl Hanging {
    fn has(&self, path: &str) -> bool {
        let mut hanging = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        hanging.retain(|_, returned| !returned.load(Ordering::Acquire));
        hanging.contains_key(path)
    }

    fn add(&self, path: &str, returned: Arc<AtomicBool>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), returned);
    }
}

/// The patterns of a discovery string.
///
/// # Errors
/// If one of them is not a pattern.
pub(super) fn patterns(diskstring: &str) -> Result<Vec<String>, BadDiskstring> {
    let patterns = diskstring.split(',').map(|pattern| pattern.trim().trim_matches('\'').trim());
    patterns
        .filter(|pattern| !pattern.is_empty())
        .map(|pattern| match glob::Pattern::new(pattern) {
            Ok(_) => Ok(pattern.to_owned()),
            Err(source) => Err(BadDiskstring { pattern: pattern.to_owned(), source }),
        })
        .collect()
}

/// Opens every disk that the patterns match. Blocks, a little longer than [`PATIENCE`] at most
/// for every [`OPENING_MAX`] disks that hang.
pub(super) fn discover(patterns: &[String], engine: IoEngine, hanging: &Hanging) -> Vec<Found> {
    discover_with(patterns, hanging, PATIENCE, move |path| RealDisk::open(path, engine))
}

fn discover_with(
    patterns: &[String],
    hanging: &Hanging,
    patience: Duration,
    open: impl Fn(&str) -> io::Result<RealDisk> + Send + Clone + 'static,
) -> Vec<Found> {
    let paths: Vec<String> =
        patterns.iter().flat_map(|pattern| expand(pattern)).collect::<BTreeSet<_>>().into_iter().collect();
    let mut results: Vec<Option<io::Result<RealDisk>>> = paths.iter().map(|_| None).collect();
    let (report, reports) = mpsc::channel();
    let mut opening: BTreeMap<usize, (Instant, Arc<AtomicBool>)> = BTreeMap::new();
    let mut next = 0;
    loop {
        while next < paths.len() && opening.len() < OPENING_MAX {
            let (path, number) = (paths[next].clone(), next);
            next += 1;
            if hanging.has(&path) {
                results[number] = Some(Err(no_answer(patience)));
                continue;
            }
            let returned = Arc::new(AtomicBool::new(false));
            let (open, report, flag) = (open.clone(), report.clone(), Arc::clone(&returned));
            let work = move || {
                let result = open(&path);
                // Returned, for whoever looks; too late for this discovery, perhaps, and then the disk is closed here.
                flag.store(true, Ordering::Release);
                drop(report.send((number, result)));
            };
            match thread::Builder::new().name("disk-open".into()).spawn(work) {
                Ok(_) => drop(opening.insert(number, (Instant::now() + patience, returned))),
                Err(error) => results[number] = Some(Err(error)),
            }
        }
        // Threads start in the order of the numbers, so the lowest has the nearest deadline.
        let Some((_, (deadline, _))) = opening.first_key_value() else { break };
        match reports.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((number, result)) => {
                if opening.remove(&number).is_some() {
                    results[number] = Some(result);
                }
            }
            Err(_) => {
                if let Some((number, (_, returned))) = opening.pop_first() {
                    hanging.add(&paths[number], returned);
                    results[number] = Some(Err(no_answer(patience)));
                }
            }
        }
    }

    let found = paths.into_iter().zip(results).filter_map(|(path, result)| {
        let disk = match result.unwrap_or_else(|| Err(no_answer(patience))) {
            Ok(disk) => disk,
            // The name of a directory, or of nothing at all: no disk, and nobody's mistake.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) if error.get_ref().is_some_and(|inner| inner.is::<NotADisk>()) => return None,
            Err(error) => {
                // What does not let us look is known by its path alone.
                let identity = Identity(format!("path:{path}"));
                return Some(Found { path, identity, disk: Err(Arc::new(error)) });
            }
        };
        let identity = disk.identity();
        Some(Found { path, identity, disk: Ok(Arc::new(disk) as Arc<dyn Disk>) })
    });
    found.collect()
}

/// The paths that a pattern may mean. Where it has no wildcards, nobody looks whether they exist.
fn expand(pattern: &str) -> Vec<String> {
    const LIKE_A_SHELL: MatchOptions =
        MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };
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
            let looked_at = if directory.as_os_str().is_empty() { Path::new(".") } else { &directory };
            let names = fs::read_dir(looked_at).into_iter().flatten().flatten().map(|entry| entry.file_name());
            let names = names.filter(|name| name.to_str().is_some_and(|name| wild.matches_with(name, LIKE_A_SHELL)));
            names.map(|name| directory.join(name)).collect::<Vec<_>>()
        };
        paths = paths.into_iter().flat_map(within).collect();
    }
    paths.into_iter().filter_map(|path| path.into_os_string().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_discovery_string_is_split_and_checked() {
        assert_eq!(patterns(" '/dev/sd*' , /x/*,,").expect("patterns"), ["/dev/sd*", "/x/*"]);
        assert!(patterns("").expect("patterns").is_empty());
        assert!(expand("").iter().all(String::is_empty));
        assert_eq!(expand("/no/such/disk"), ["/no/such/disk"]);
        assert!(expand("/no/such/*").is_empty());
        assert_eq!(expand("/proc/[s]elf/stat?s"), ["/proc/self/status"]);
        let error = patterns("/a/*,/b/[").expect_err("no pattern");
        assert!(error.to_string().contains("/b/["), "{error}");
    }

    /// One disk hangs when it is opened. The other is found, the sick one is named,
    /// and is left alone until its thread has come back.
    #[test]
    fn a_disk_that_hangs_does_not_hang_discovery() {
        let directory = tempfile::tempdir().expect("temporary directory");
        for name in ["sick", "well"] {
            fs::write(directory.path().join(name), [0; 8192]).expect("write");
        }
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(Mutex::new(released));
        let opens = Arc::new(Mutex::new(0));
        let open = {
            let opens = Arc::clone(&opens);
            move |path: &str| {
                if path.ends_with("sick") {
                    *opens.lock().expect("lock") += 1;
                    let _ = released.lock().expect("lock").recv();
                }
                RealDisk::open(path, IoEngine::Threads)
            }
        };
        let hanging = Hanging::default();
        let pattern = [format!("{}/*", directory.path().display())];
        for _ in 0..2 {
            let found = discover_with(&pattern, &hanging, Duration::from_millis(200), open.clone());
            assert_eq!(found.len(), 2);
            let error = found[0].disk.as_ref().expect_err("it hangs");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(found[1].disk.is_ok());
        }
        assert_eq!(*opens.lock().expect("lock"), 1, "a hanging disk is not opened again");
        drop(release);
        while hanging.has(&found_path(&pattern[0], "sick")) {
            thread::yield_now();
        }
        let found = discover_with(&pattern, &hanging, PATIENCE, open);
        assert!(found.iter().all(|found| found.disk.is_ok()));
    }

    fn found_path(pattern: &str, name: &str) -> String {
        pattern.replace('*', name)
    }
}
