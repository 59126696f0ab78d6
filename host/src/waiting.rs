//! How long devices have kept a caller waiting.
//!
//! On a host that is too busy, a probing process that gets no processor looks by the clock like one
//! that a device keeps waiting. If that counted as hanging, healthy disks would be missing at a
//! mount and go OFFLINE. So such time is counted in ticks, not measured by the clock:
//!
//! ```text
//!   every TICK while a caller waits for an answer
//!     all probing threads wait for something,
//!     and all their answers have been read           + TICK       a device keeps them waiting
//!     otherwise                                      + TICK / 10  they may lack a processor
//!   a tick that comes late                           counts once  this process lacked one
//! ```
//!
//! A tenth is counted in any case: so the waiting ends even if a thread never stops running.

use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

pub(super) const TICK: Duration = Duration::from_millis(100);
/// The interval of checks once a caller has waited for longer than [`LONG`].
const SLOW_TICK: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60);

/// Time that was counted, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Waited(AtomicU64);

impl Waited {
    pub(super) fn time(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// The time counted since it was `from`.
    pub(super) fn since(&self, from: Duration) -> Duration {
        self.time().saturating_sub(from)
    }

    /// The length of the next tick, `since` a caller began to wait.
    pub(super) fn tick(since: Duration) -> Duration {
        if since < LONG { TICK } else { SLOW_TICK }
    }

    /// Counts a tick throughout which a caller waited. `by_device`: for a device, as far as can be
    /// seen.
    pub(super) fn count(&self, tick: Duration, by_device: bool) {
        let counted = if by_device { tick } else { tick / 10 };
        self.0.fetch_add(u64::try_from(counted.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Whether all threads of a process wait for something, so that none could go on if it had a
/// processor. True even if that cannot be found out.
pub(super) fn all_wait(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut states = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    states.all(|stat| !runs(&stat))
}

/// Whether the state of a thread in /proc means that it runs, or would if it got a processor: it
/// may be stopped. The name of a program may contain any characters.
fn runs(stat: &str) -> bool {
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['R', 'T', 't']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{process, thread};

    #[test]
    fn running_threads_are_told_from_waiting_ones() {
        assert!(runs("7 (look) R 1 7 7") && runs("7 (a) S (b) R 1") && runs("7 (look) T 1"));
        assert!(
            !runs("7 (look) S 1 7 7")
                && !runs("7 (look) D 1 7 7")
                && !runs("7 (R) S 1")
                && !runs("")
        );
        assert!(!all_wait(process::id()), "this thread runs");
        let mut child = process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        while !all_wait(child.id()) {
            thread::yield_now();
        }
        child.kill().expect("it is ours");
        child.wait().expect("it ended");
        assert!(all_wait(child.id()), "nobody is there");
    }

    #[test]
    fn a_busy_host_counts_a_tenth() {
        let waited = Waited::default();
        (0..10).for_each(|_| waited.count(TICK, false));
        assert_eq!(waited.time(), TICK);
        waited.count(TICK, true);
        assert_eq!(waited.since(TICK), TICK);
        assert!(Waited::tick(LONG) > Waited::tick(Duration::ZERO));
    }
}
