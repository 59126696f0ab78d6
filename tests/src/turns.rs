//! Events that happen again and again while something else runs, each with its own period.

use crate::{Instance, wait_for};
use std::{
    thread,
    time::{Duration, Instant, SystemTime},
};

/// Calls `turn` with the number of each period whenever it is over, for as long as `lasts`; a call
/// that takes longer than its period misses turns.
pub fn in_turns<const N: usize>(
    lasts: Duration,
    periods: [Duration; N],
    mut turn: impl FnMut(usize),
) {
    let began = Instant::now();
    let mut next = periods;
    while let Some((which, at)) =
        next.into_iter().enumerate().min_by_key(|(_, at)| *at).filter(|(_, at)| *at < lasts)
    {
        thread::sleep((began + at).saturating_duration_since(Instant::now()));
        turn(which);
        while next[which] <= began.elapsed() {
            next[which] += periods[which];
        }
    }
}

/// A process of ours that was killed, and the time until another one served.
#[derive(Debug, Clone, Copy)]
pub struct Death {
    pub whose: &'static str,
    pub at: SystemTime,
    pub replaced: SystemTime,
}

impl Instance {
    /// `kill -9` to the engine of a group; returns when another one runs.
    ///
    /// # Panics
    /// If none comes.
    pub fn replace_engine(&self, group: &str) -> Death {
        let mut killed = None;
        wait_for("an engine to kill", || {
            killed = self.engine(group);
            killed.is_some()
        });
        let at = SystemTime::now();
        self.kill_engine(group);
        wait_for("another engine", || self.engine(group).is_some_and(|pid| Some(pid) != killed));
        Death { whose: "engine", at, replaced: SystemTime::now() }
    }

    /// `kill -9` to the instance; returns when another one answers.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn replace(&mut self) -> Death {
        let at = SystemTime::now();
        self.kill_instance();
        self.start();
        Death { whose: "instance", at, replaced: SystemTime::now() }
    }

    /// For as long as `lasts`, kills the engine of a group and the instance, each with its period:
    /// now and then one right after the other.
    ///
    /// # Panics
    /// If one is not replaced.
    pub fn die_in_turns(
        &mut self,
        group: &str,
        lasts: Duration,
        [engine, instance]: [Duration; 2],
    ) -> Vec<Death> {
        let mut deaths = Vec::new();
        in_turns(lasts, [engine, instance], |which| {
            deaths.push(if which == 0 { self.replace_engine(group) } else { self.replace() });
        });
        deaths
    }
}
