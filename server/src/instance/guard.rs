//! The guard of one group: see step by step in the module above.

use super::{Instance, lock};
use crate::engine::{
    client::Client,
    protocol::{Notice, Request},
};
use plinth_engine::event::Severity;
use std::{
    cell::RefCell,
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

/// How long to wait before the first start after an end, and at most.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(30);
/// At most, after one that could be mounted: databases wait, and somebody who kills it is gone soon. But not for ever so.
const WAIT_MOUNTED: Duration = Duration::from_millis(500);
const WAIT_MOUNTED_ENDS: u32 = 100;
/// An engine that ran so long did not die because it was started: another is started at once.
const RAN_WELL: Duration = Duration::from_secs(2);
/// An engine that ran so long is not one of those that end again and again.
const RAN_LONG: Duration = Duration::from_secs(60);
/// So many ends in a row are told as an alarm.
const ALARM: u32 = 5;

/// So many engines in a row whose catalog stopped before they had run long, and no more is started: each that mounts and stops
/// tells databases that all is well, and then that it is not.
const STOPS_MAX: u32 = 5;

/// How long to wait before the next start, after `wait` before the last one, which gave an engine that ran for `ran` (zero: it could not be
/// mounted) and was the last of `ends` that ended in a row.
fn next_wait(wait: Duration, ran: Duration, ends: u32) -> Duration {
    let most = if ran.is_zero() || ends > WAIT_MOUNTED_ENDS { WAIT_MAX } else { WAIT_MOUNTED };
    if ran >= RAN_WELL { Duration::ZERO } else { (wait * 2).clamp(WAIT_MIN, most) }
}

/// How many engines in a row have ended because their catalog stopped, when one more has ended.
fn next_stops(stops: u32, stopped: bool, ran: Duration) -> u32 {
    match (stopped, ran > RAN_LONG) {
        (true, false) => stops + 1,
        (true, true) => 1,
        // Killed, or dead of a bug: that says nothing about the disks.
        (false, long) => {
            if long {
                0
            } else {
                stops
            }
        }
    }
}

impl Instance {
    /// Guards a group, unless it is guarded already.
    pub(super) fn guard(self: &Arc<Self>, group: &str) {
        if !lock(&self.guarded).insert(group.to_owned()) {
            return;
        }
        let instance = Arc::clone(self);
        let name = group.to_owned();
        if let Err(error) = thread::Builder::new().name("guard".into()).spawn(move || instance.watch_over(&name)) {
            lock(&self.guarded).remove(group);
            self.alert.line(Severity::Alarm, group, &format!("nobody watches its engine: {error}"));
        }
    }

    /// Whether the group shall still be mounted. If not, its guard is no longer one.
    fn still_wanted(&self, group: &str) -> bool {
        let mut guarded = lock(&self.guarded);
        let mounted = lock(&self.state).groups.get(group).is_some_and(|group| group.mounted);
        let wanted = mounted && !self.ending.load(Ordering::Acquire);
        if !wanted {
            guarded.remove(group);
        }
        wanted
    }

    fn watch_over(self: &Arc<Self>, group: &str) {
        let mut wait = Duration::ZERO;
        let mut first = true;
        let (mut ends, mut stops) = (0, 0);
        let mut told = None;
        while self.still_wanted(group) {
            let began = Instant::now();
            let mut ran = Duration::ZERO;
            if let Ok(engine) = self.engine(group)
                && engine.status().is_ok_and(|status| status.mounted)
            {
                // Returns at the engine's end.
                let stopped = RefCell::new(None);
                let watched = engine.watch(|notice| match notice {
                    Notice::Stopped(reason) => drop(stopped.replace(Some(reason))),
                    other => self.noticed(group, &other),
                });
                if !self.still_wanted(group) {
                    return;
                }
                if watched.is_ok() {
                    ran = began.elapsed();
                    ends = if ran > RAN_LONG { 1 } else { ends + 1 };
                    let (severity, times) = match ends {
                        0..ALARM => (Severity::Warning, String::new()),
                        _ => (Severity::Alarm, format!(", {ends} times in a row; see its log")),
                    };
                    stops = next_stops(stops, stopped.borrow().is_some(), ran);
                    if stops >= STOPS_MAX && self.give_up(group, &stopped.take().unwrap_or_default()) {
                        return;
                    }
                    self.alert.line(severity, group, &format!("its engine ended{times}; it is started again"));
                    if stops > 0 {
                        // It ended for a reason that may well be there still.
                        ran = Duration::ZERO;
                    }
                }
            }
            wait = if first { Duration::ZERO } else { next_wait(wait, ran, ends) };
            first = false;
            thread::sleep(wait);
            match self.revive(group) {
                Ok(()) => told = None,
                Err(error) => {
                    let text = error.to_string();
                    if told.as_ref() != Some(&text) {
                        self.alert.line(Severity::Alarm, group, &format!("cannot be mounted, tried again: {text}"));
                        told = Some(text);
                    }
                }
            }
        }
    }

    /// Starts no engine any more until somebody says so: the group is BROKEN. False: somebody has said so meanwhile.
    fn give_up(&self, group: &str, reason: &str) -> bool {
        let own = self.group_lock(group);
        let _held = lock(&own);
        if self.engine(group).and_then(|engine| engine.status()).is_ok_and(|status| status.mounted) {
            return false;
        }
        lock(&self.guarded).remove(group);
        self.end_waiting(group);
        let text = format!(
            "its catalog stopped {STOPS_MAX} times in a row, at last because: {reason}. It is not started again. Mend the disks \
             that the lines above name, then ALTER DISKGROUP {group} MOUNT"
        );
        self.alert.line(Severity::Alarm, group, &text);
        true
    }

    /// Has an engine run and serve what it should.
    fn revive(self: &Arc<Self>, group: &str) -> super::Result<()> {
        let own = self.group_lock(group);
        let _held = lock(&own);
        if !self.still_wanted(group) {
            return Ok(());
        }
        let began = Instant::now();
        let engine = match self.engine(group) {
            Ok(engine) if engine.status()?.mounted => return Ok(()),
            Ok(engine) => Ok(engine),
            Err(_) => self.start_engine(group),
        };
        // Until here whoever uses the dead mounts waits; and what is mounted nowhere else is not written below them.
        let engine = engine.and_then(|engine| {
            let restricted = lock(&self.state).groups.get(group).is_some_and(|group| group.restricted);
            engine.ask(&Request::Mount { force: false, restricted }).map(|()| engine)
        });
        let engine = engine.inspect_err(|_| self.end_waiting(group))?;
        self.serve_again(&engine, group);
        self.alert.line(Severity::Note, group, &format!("mounted again after {} ms", began.elapsed().as_millis()));
        Ok(())
    }

    /// Makes the mounts and exports of a group again that it had. The caller holds the group's lock.
    pub(super) fn serve_again(&self, engine: &Client, group: &str) {
        self.forget_mounts(group);
        for (mount_point, options) in self.mount_points(group) {
            if let Err(error) = self.serve_directory(engine, group, &mount_point, &options) {
                self.alert.line(Severity::Alarm, group, &format!("is not mounted on a directory again: {error}"));
            }
        }
        self.export_again(engine, group);
    }

    /// Makes its exports again; those that there are stay.
    pub(super) fn export_again(&self, engine: &Client, group: &str) {
        for export in self.exports(group) {
            let name = format!("{} at {}", export.name, export.at);
            if let Err(error) = engine.ask(&Request::Export(export)) {
                self.alert.line(Severity::Alarm, group, &format!("{name} is not exported again: {error}"));
            }
        }
    }

    /// Takes over a group that an earlier instance left behind: its engine if it runs, with the mounts it still has.
    pub(super) fn adopt(self: &Arc<Self>, group: &str) {
        let own = self.group_lock(group);
        let _held = lock(&own);
        if let Ok(engine) = self.engine(group)
            && let Ok(status) = engine.status()
            && status.mounted
        {
            self.tell_preferred(&engine, group);
            let serving: BTreeSet<PathBuf> = status.serving.into_iter().collect();
            let exports = engine.exports();
            self.remember_or_say(group, |state| {
                let entry = state.group(group);
                entry.mount_points.retain(|mount_point, _| serving.contains(mount_point));
                if let Ok(exports) = exports {
                    entry.exports = exports.into_iter().map(|(export, _)| export).collect();
                }
            });
            self.alert.line(Severity::Note, group, &format!("engine {} runs and is adopted", status.pid));
        }
        self.guard(group);
    }

    fn noticed(&self, group: &str, notice: &Notice) {
        match notice {
            // By `umount`, without a word to us: it was not to be mounted any more.
            Notice::Unmounted(mount_point) => {
                let own = self.group_lock(group);
                let Ok(_held) = own.try_lock() else { return };
                lock(&self.devices).remove(mount_point);
                self.remember_or_say(group, |state| {
                    if let Some(entry) = state.groups.get_mut(group) {
                        entry.mount_points.remove(mount_point);
                    }
                });
            }
            Notice::Stopped(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However often engines are killed: as long as they ran before, databases do not wait for the next.
    #[test]
    fn only_engines_that_end_at_once_are_waited_for() {
        let mut wait = Duration::ZERO;
        let soon = Duration::from_millis(10);
        for ends in 1..200 {
            wait = next_wait(wait, Duration::from_secs(5), ends);
            assert_eq!(wait, Duration::ZERO);
        }
        for ends in 1..=WAIT_MOUNTED_ENDS {
            wait = next_wait(wait, soon, ends);
            assert!((WAIT_MIN..=WAIT_MOUNTED).contains(&wait));
        }
        assert_eq!(wait, WAIT_MOUNTED);
        let for_ever = (0..10).fold(wait, |wait, _| next_wait(wait, soon, WAIT_MOUNTED_ENDS + 1));
        let not_mounted = (0..10).fold(wait, |wait, _| next_wait(wait, Duration::ZERO, 1));
        assert_eq!((for_ever, not_mounted), (WAIT_MAX, WAIT_MAX));
    }

    /// Engines that are killed are started again for ever; those that stop are not, unless they ran long.
    #[test]
    fn only_engines_that_stop_again_and_again_are_given_up() {
        let (soon, late) = (Duration::from_secs(5), Duration::from_secs(100));
        assert_eq!((0..50).fold(0, |stops, _| next_stops(stops, false, soon)), 0);
        assert_eq!((0..50).fold(0, |stops, _| next_stops(stops, true, late)), 1);
        assert_eq!((0..STOPS_MAX).fold(0, |stops, _| next_stops(stops, true, soon)), STOPS_MAX);
        assert_eq!(next_stops(next_stops(3, false, soon), true, soon), 4, "a kill between them does not hide it");
        assert_eq!(next_stops(3, false, late), 0);
    }
}
