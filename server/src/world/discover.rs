//! Discovery: from the discovery string to open disks.
//!
//! The string is a list of shell patterns, separated by commas. What they match is
//! sorted by path; regular files and block devices stay, also behind symbolic links.
//! Each is opened on a thread of its own, because opening a sick device can hang:
//! after [`PATIENCE`] it is reported as timed out and its thread left behind, and
//! until that thread returns the path is not tried again.

use super::{
    IoEngine,
    disk::{Medium, RealDisk},
};
use plinth_engine::world::{Disk, Found};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// How long opening a disk may take: longer than the kernel's own retries on a path that comes back.
const PATIENCE: Duration = Duration::from_secs(10);

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
    let matches = patterns.iter().filter_map(|pattern| glob::glob(pattern).ok()).flatten().flatten();
    let paths: BTreeSet<String> = matches.filter_map(|path| path.to_str().map(str::to_owned)).collect();
    let disks: Vec<(String, Medium)> = paths
        .into_iter()
        .filter_map(|path| Medium::of(&fs::metadata(&path).ok()?).map(|medium| (path, medium)))
        .collect();

    let timed_out = || {
        let text = format!("it could not be opened within {} s: the device hangs", patience.as_secs());
        io::Error::new(io::ErrorKind::TimedOut, text)
    };
    let mut results: Vec<Option<io::Result<RealDisk>>> = disks.iter().map(|_| None).collect();
    let (report, reports) = mpsc::channel();
    let mut opening: BTreeMap<usize, (Instant, Arc<AtomicBool>)> = BTreeMap::new();
    let mut next = 0;
    loop {
        while next < disks.len() && opening.len() < OPENING_MAX {
            let (path, number) = (disks[next].0.clone(), next);
            next += 1;
            if hanging.has(&path) {
                results[number] = Some(Err(timed_out()));
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
                    hanging.add(&disks[number].0, returned);
                    results[number] = Some(Err(timed_out()));
                }
            }
        }
    }

    let found = disks.into_iter().zip(results).map(|((path, medium), result)| {
        let result = result.unwrap_or_else(|| Err(timed_out()));
        // What was opened counts, should the path have changed since.
        let identity = result.as_ref().map_or_else(|_| medium.identity(), RealDisk::identity);
        let disk = result.map(|disk| Arc::new(disk) as Arc<dyn Disk>).map_err(Arc::new);
        Found { path, identity, disk }
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_discovery_string_is_split_and_checked() {
        assert_eq!(patterns(" '/dev/sd*' , /x/*,,").expect("patterns"), ["/dev/sd*", "/x/*"]);
        assert!(patterns("").expect("patterns").is_empty());
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
