//! The supervisor of one group. The module above lists its steps.
//!
//! What happens after an engine has ended:
//!
//! ```text
//!   how it ended                  the next one    after several in a row
//!
//!   killed, or cause unknown      at once or      reported as an alarm; pauses up to 30 s
//!                                 soon
//!   of itself, soon after it      soon            after 5 the requests that wait on the mounts
//!   began to serve                                fail, and the mounts are made again; after 10
//!                                                 BROKEN
//!   its catalog stopped, soon     later           after 5 BROKEN
//!   another engine took over      runs already
//!   it could not mount the group  later           after 30 s the requests that wait on the mounts
//!                                                 fail
//! ```

use super::{
    Instance,
    devices::Device,
    launch::{GONE, died_of_itself},
};
use crate::engine::{
    client::Client,
    protocol::{How, Notice, ProcessRequest},
};
use plinth_engine::{admin::Code, event::Severity};
use plinth_fuse::mount;
use plinth_host::lock;
use rustix::fd::AsFd;
use std::{
    cell::RefCell,
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

/// How long to wait before the first start after an end, and at most.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(30);
/// The longest pause after an engine that could mount the group: databases wait, and whatever kills
/// engines usually stops soon. But the engines must not be started in a tight loop for ever.
const WAIT_MOUNTED: Duration = Duration::from_millis(500);
const WAIT_MOUNTED_ENDS: u32 = 100;
/// An engine that ran for this long did not die because it was started: another is started at once.
const RAN_WELL: Duration = Duration::from_secs(2);
/// The same after an engine that was killed from outside: this only keeps the host from doing
/// nothing but starting engines.
const RAN_KILLED: Duration = Duration::from_millis(300);
/// How long programs may wait on the mounts of a group that cannot be mounted: a dead engine's last
/// I/O may be as late (R1), and disks may come back.
const MOUNT_TIMEOUT: Duration = Duration::from_secs(30);
/// After this many engines in a row that died of themselves soon, the waiting requests fail: one of
/// them may be what kills the engines.
const FAULTS_PATIENT: u32 = 5;
/// After this many no more is started.
const FAULTS_MAX: u32 = 10;
/// An engine that ran for this long is not one of those that end again and again.
const RAN_LONG: Duration = Duration::from_secs(60);
/// How long to wait at first before an export is tried again that could not be made; at most it is
/// [`WAIT_MAX`].
const EXPORT_WAIT_MIN: Duration = Duration::from_millis(500);
/// This many ends in a row are reported as an alarm.
const ALARM: u32 = 5;

/// After this many engines in a row whose catalog stopped before they had run long, no more is
/// started: each that mounts and stops shows databases a healthy group, and then a broken one.
const STOPS_MAX: u32 = 5;

/// How long to wait before the next start. `wait`: the pause before the last start. That engine ran
/// for `ran` (zero: it could not mount the group) and was the last of `ends` in a row that ended.
/// `killed`: it did not die of itself, as far as is known.
fn next_wait(wait: Duration, ran: Duration, ends: u32, killed: bool) -> Duration {
    let well = if killed && ends <= WAIT_MOUNTED_ENDS { RAN_KILLED } else { RAN_WELL };
    let most = if ran.is_zero() || ends > WAIT_MOUNTED_ENDS { WAIT_MAX } else { WAIT_MOUNTED };
    if ran >= well { Duration::ZERO } else { (wait * 2).clamp(WAIT_MIN, most) }
}

/// How many engines in a row have ended because their catalog stopped, when one more has ended.
fn next_stops(stops: u32, stopped: bool, ran: Duration) -> u32 {
    match (stopped, ran > RAN_LONG) {
        (true, false) => stops + 1,
        (true, true) => 1,
        // Killed, or dead of a bug: that is no evidence about the disks.
        (false, long) => {
            if long {
                0
            } else {
                stops
            }
        }
    }
}

/// Whether a mount was unmounted while no engine served it. `false` if the mounts cannot be listed.
fn was_unmounted(mount_point: &Path) -> bool {
    mount::mounts().is_ok_and(|mounts| mounts.iter().all(|mount| mount.directory != mount_point))
}

/// The state of a group's supervisor, which lasts from one engine to the next.
struct History {
    /// No engine has been started yet, or the last one was handed over.
    is_first: bool,
    wait: Duration,
    /// Ends in a row, of engines that did not run for long.
    ends: u32,
    /// Of those, ends because of the catalog.
    stops: u32,
    /// Engines in a row that died of themselves.
    faults: u32,
    /// Since when no engine serves the mounts.
    since: Instant,
    /// The last error that was written to the alert log.
    told: Option<String>,
}

impl History {
    fn new() -> Self {
        let (wait, since) = (Duration::ZERO, Instant::now());
        Self { is_first: true, wait, ends: 0, stops: 0, faults: 0, since, told: None }
    }
}

/// How the last engine ended; the default if there was none.
#[derive(Default)]
struct LastEngine {
    ran: Duration,
    is_long: bool,
    was_killed: bool,
    status: Option<ExitStatus>,
}

impl Instance {
    /// Starts the supervisor of a group, unless it has one.
    pub(super) fn supervise(self: &Arc<Self>, group: &str) {
        if !lock(&self.supervised).insert(group.to_owned()) {
            return;
        }
        // An earlier supervisor may have left the time at which its last engine ended.
        lock(&self.unserved).insert(group.to_owned(), Instant::now());
        let instance = Arc::clone(self);
        let name = group.to_owned();
        if let Err(error) =
            thread::Builder::new().name("guard".into()).spawn(move || instance.watch_over(&name))
        {
            lock(&self.supervised).remove(group);
            self.alert.line(
                Severity::Alarm,
                group,
                &format!("its engine is not supervised: {error}"),
            );
        }
    }

    /// Whether the group shall still be mounted. If not, its supervisor ends.
    fn still_wanted(&self, group: &str) -> bool {
        let mut supervised = lock(&self.supervised);
        let mounted = lock(&self.state).groups.get(group).is_some_and(|group| group.mounted);
        let wanted = mounted && !self.ending.load(Ordering::Acquire);
        if !wanted {
            supervised.remove(group);
        }
        wanted
    }

    fn watch_over(self: &Arc<Self>, group: &str) {
        let mut history = History::new();
        while self.still_wanted(group) {
            // An engine that ended before it could be watched served for a moment, and the entry
            // was removed.
            lock(&self.unserved).entry(group.to_owned()).or_insert_with(Instant::now);
            let Some(mut last) = self.watch_engine(group, &mut history) else { return };
            if last.status.is_none() && !history.is_first {
                // The engine died before it could be watched.
                let pid = lock(&self.launched).get(group).copied();
                last.status = pid.and_then(|pid| self.children.end_of(pid, GONE));
            }
            if last.status.is_some_and(died_of_itself) {
                history.faults = if last.is_long { 1 } else { history.faults + 1 };
                if self.has_too_many(group, history.faults) {
                    return;
                }
            } else if last.is_long {
                history.faults = 0;
            }
            history.wait = if history.is_first {
                Duration::ZERO
            } else {
                next_wait(history.wait, last.ran, history.ends, last.was_killed)
            };
            history.is_first = false;
            thread::sleep(history.wait);
            self.try_to_revive(group, &mut history);
        }
    }

    /// Watches the engine that serves a group, if there is one, until it ends. `None`: the group is
    /// not to be served any more.
    fn watch_engine(self: &Arc<Self>, group: &str, history: &mut History) -> Option<LastEngine> {
        let began = Instant::now();
        let serving = self.engine(group).ok().and_then(|engine| {
            let status = engine.status().ok().filter(|status| status.mounted)?;
            Some((engine, status.pid))
        });
        let Some((engine, pid)) = serving else { return Some(LastEngine::default()) };
        lock(&self.unserved).remove(group);
        self.hear_of_clients(group, pid);
        // Returns at the engine's end.
        let stopped = RefCell::new(None);
        let watched = engine.watch(|notice| match notice {
            Notice::Stopped(reason) => drop(stopped.replace(Some(reason))),
            other => self.noticed(group, &other),
        });
        history.since = Instant::now();
        lock(&self.unserved).insert(group.to_owned(), history.since);
        if !self.still_wanted(group) {
            return None;
        }
        if watched.is_err() {
            return Some(LastEngine::default());
        }
        if lock(&self.handed_over).remove(&pid) {
            // The next start waits until the takeover is done: it needs the group's lock.
            history.is_first = true;
            return Some(LastEngine::default());
        }
        let (ran, status) = (began.elapsed(), self.children.end_of(pid, GONE));
        let is_long = ran > RAN_LONG;
        history.ends = if is_long { 1 } else { history.ends + 1 };
        history.stops = next_stops(history.stops, stopped.borrow().is_some(), ran);
        if history.stops >= STOPS_MAX {
            let reason = stopped.take().unwrap_or_default();
            let text = format!(
                "its catalog stopped {STOPS_MAX} times in a row, at last because: {reason}. It is not started again. \
                 Mend the disks that the lines above name, then ALTER DISKGROUP {group} MOUNT"
            );
            if self.give_up(group, &text) {
                return None;
            }
        }
        *lock(&self.restarts).entry(group.to_owned()).or_default() += 1;
        let (severity, times) = match history.ends {
            0..ALARM => (Severity::Warning, String::new()),
            ends => (Severity::Alarm, format!(", {ends} times in a row; see its log")),
        };
        let how = status.map_or_else(String::new, |status| format!(" ({status})"));
        self.alert.line(
            severity,
            group,
            &format!("its engine ended{how}{times}; it is started again"),
        );
        Some(LastEngine {
            // The reason for which it ended may still be there.
            ran: if history.stops > 0 { Duration::ZERO } else { ran },
            is_long,
            was_killed: !status.is_some_and(died_of_itself),
            status,
        })
    }

    fn try_to_revive(self: &Arc<Self>, group: &str, history: &mut History) {
        let error = match self.revive(group) {
            Ok(()) => {
                lock(&self.unserved).remove(group);
                (history.since, history.told) = (Instant::now(), None);
                return;
            }
            Err(error) => error,
        };
        // An engine of another version, which understands no request, may still serve.
        if history.since.elapsed() > MOUNT_TIMEOUT && error.code != Code::Invalid {
            let text = format!("it could not be mounted for {} s", MOUNT_TIMEOUT.as_secs());
            self.fail_waiting_requests(group, &text);
        }
        let text = error.to_string();
        if history.told.as_ref() != Some(&text) {
            let line = format!("cannot be mounted, tried again: {text}");
            self.alert.line(Severity::Alarm, group, &line);
            history.told = Some(text);
        }
    }

    /// Starts no engine any more until a statement mounts the group: it is BROKEN. `false`: a
    /// statement has mounted it meanwhile.
    fn give_up(&self, group: &str, text: &str) -> bool {
        let own = self.group_lock(group);
        let _held = lock(&own);
        if self.engine(group).and_then(|engine| engine.status()).is_ok_and(|status| status.mounted)
        {
            return false;
        }
        lock(&self.supervised).remove(group);
        self.end_waiting(group);
        self.alert.line(Severity::Alarm, group, text);
        true
    }

    /// Reacts to `faults` engines in a row that died of themselves. Returns whether no more is
    /// started.
    fn has_too_many(&self, group: &str, faults: u32) -> bool {
        let log = self.paths.engine_log(group);
        if faults == FAULTS_PATIENT {
            let what = "perhaps of what is asked of them";
            let why = format!(
                "its engines died of themselves {faults} times in a row, {what} (see {})",
                log.display()
            );
            self.fail_waiting_requests(group, &why);
        }
        let text = format!(
            "its engines died of themselves {faults} times in a row. None is started again. Read {}, install a version that does \
             not, then ALTER DISKGROUP {group} MOUNT",
            log.display()
        );
        faults >= FAULTS_MAX && self.give_up(group, &text)
    }

    /// Fails the requests that wait on the mounts, if there are mounts or NBD connections that an
    /// engine could take over.
    fn fail_waiting_requests(&self, group: &str, why: &str) {
        let own = self.group_lock(group);
        let _held = lock(&own);
        if self.connections(group).is_empty() && !self.nbd.has_any(group) {
            return;
        }
        self.end_waiting(group);
        let text = format!(
            "{why}: what waits on its mounts ends with an error. Databases have to be started again when it is mounted"
        );
        self.alert.line(Severity::Alarm, group, &text);
    }

    /// Makes sure that an engine runs and serves the mounts and exports that it should.
    fn revive(self: &Arc<Self>, group: &str) -> super::Result<()> {
        let own = self.group_lock(group);
        let _held = lock(&own);
        if !self.still_wanted(group) {
            return Ok(());
        }
        let began = Instant::now();
        let engine = match self.engine(group) {
            // The instance before this one may have died before it handed the engine the mounts.
            Ok(engine) if engine.status()?.mounted => return self.serve_again(&engine, group),
            Ok(engine) => Ok(engine),
            Err(_) => {
                self.heard_of_clients(group);
                self.start_engine(group)
            }
        };
        // Programs that use the mounts wait. The dead engine's process is gone when the new one
        // listens, and the mount of the group obeys R1.
        let engine = engine?;
        let restricted = lock(&self.state).groups.get(group).is_some_and(|group| group.restricted);
        let resume = self.connections(group);
        engine.ask(ProcessRequest::Mount { force: false, restricted, patient: true, resume })?;
        self.serve_again(&engine, group)?;
        self.alert.line(
            Severity::Note,
            group,
            &format!("mounted again after {} ms", began.elapsed().as_millis()),
        );
        Ok(())
    }

    /// Has the engine take over the group's mounts. Mounts that cannot be taken over are made
    /// again, and so are the exports. Mounts that the engine serves already stay. The caller holds
    /// the group's lock.
    ///
    /// # Errors
    /// If the engine has ended: the next one takes the mounts over.
    pub(super) fn serve_again(self: &Arc<Self>, engine: &Client, group: &str) -> super::Result<()> {
        let is_shared = self.mount_points(group).len() + self.exports(group).len() > 1;
        let serving: BTreeSet<PathBuf> = engine.status()?.serving.into_iter().collect();
        for (mount_point, options) in self.mount_points(group) {
            if serving.contains(&mount_point) {
                continue;
            }
            if let Some(Device { connection, descriptor }) = self.devices.get(&mount_point) {
                if was_unmounted(&mount_point) {
                    engine.ask(ProcessRequest::GiveUp(connection))?;
                    self.devices.remove(&mount_point);
                    self.remember_or_say(group, |state| {
                        drop(state.group(group).mount_points.remove(&mount_point))
                    });
                    continue;
                }
                let how = How::TakeOver { is_shared };
                let Err(error) =
                    engine.serve(mount_point.clone(), connection, descriptor.as_fd(), how)
                else {
                    continue;
                };
                engine.ask(ProcessRequest::GiveUp(connection))?;
                let text = format!(
                    "a mount is not taken over, but made again; programs have to open their files again: {error}"
                );
                self.alert.line(Severity::Alarm, group, &text);
            }
            self.forget_mount(group, &mount_point);
            if let Err(error) = self.serve_directory(engine, group, &mount_point, &options) {
                self.alert.line(
                    Severity::Alarm,
                    group,
                    &format!("is not mounted on a directory again: {error}"),
                );
            }
        }
        self.resume_clients(engine, group);
        self.export_again(engine, group);
        Ok(())
    }

    /// Gets from a running engine the descriptors of its mounts that the instance does not have.
    pub(super) fn take_devices(&self, engine: &Client, group: &str) -> super::Result<()> {
        for (mount_point, connection, descriptor) in engine.devices()? {
            if self.devices.get(&mount_point).is_none_or(|device| device.connection != connection) {
                self.remember_or_say(group, |state| {
                    state.group(group).connections.insert(mount_point.clone(), connection);
                });
                self.devices.insert(mount_point, Device { connection, descriptor });
            }
        }
        Ok(())
    }

    /// Makes the group's exports again; those that exist stay. An export that fails because of its
    /// address is tried again.
    pub(super) fn export_again(self: &Arc<Self>, engine: &Client, group: &str) {
        let mut waits = false;
        for export in self.exports(group) {
            if let Err(error) = engine.ask(ProcessRequest::Export(export.clone())) {
                waits |= error.code == Code::Io;
                self.alert.line(
                    Severity::Alarm,
                    group,
                    &format!("{export} is not exported again: {error}"),
                );
            }
        }
        if waits {
            self.go_on_exporting(group);
        } else {
            Self::clients_are_resumed(engine);
        }
    }

    /// Tries again and again to make the exports that could not be made: the host may get an
    /// address after the group is mounted.
    fn go_on_exporting(self: &Arc<Self>, group: &str) {
        if !lock(&self.exporting).insert(group.to_owned()) {
            return;
        }
        let (instance, name) = (Arc::clone(self), group.to_owned());
        let trying = move || {
            let mut wait = EXPORT_WAIT_MIN;
            while !instance.exports_what_it_should(&name) {
                thread::sleep(wait);
                wait = (wait * 2).min(WAIT_MAX);
            }
        };
        if let Err(error) = thread::Builder::new().name("exports".into()).spawn(trying) {
            lock(&self.exporting).remove(group);
            self.alert.line(
                Severity::Alarm,
                group,
                &format!("what is not exported is not tried again: {error}"),
            );
        }
    }

    /// Tries once. `true`: nothing is left to try, and the thread ends.
    fn exports_what_it_should(&self, group: &str) -> bool {
        let own = self.group_lock(group);
        let _held = lock(&own);
        if self.ending.load(Ordering::Acquire) {
            // The shutdown may still be refused.
            return false;
        }
        let mut missing = self.exports(group);
        // Without an engine the next one makes them, or the next try.
        if let Ok(engine) = self.engine(group)
            && let Ok(there) = engine.exports()
        {
            missing.retain(|export| !there.iter().any(|(other, _)| other == export));
            missing.retain(|export| {
                match engine.ask(ProcessRequest::Export(export.clone())) {
                    Ok(()) => self.alert.line(
                        Severity::Note,
                        group,
                        &format!("{export} is exported again"),
                    ),
                    Err(error) if error.code == Code::Io => return true,
                    // Not because of its address: another try would not help.
                    Err(error) => {
                        self.alert.line(
                            Severity::Alarm,
                            group,
                            &format!("{export} is not exported again: {error}"),
                        );
                    }
                }
                false
            });
            if missing.is_empty() {
                Self::clients_are_resumed(&engine);
            }
        }
        let is_done = missing.is_empty();
        if is_done {
            lock(&self.exporting).remove(group);
        }
        is_done
    }

    /// Takes over a group that an earlier instance left behind: its engine if it runs, with the
    /// mounts it still has.
    pub(super) fn adopt(self: &Arc<Self>, group: &str) {
        let own = self.group_lock(group);
        let _held = lock(&own);
        if let Ok(engine) = self.engine(group)
            && let Ok(status) = engine.status()
            && status.mounted
        {
            self.tell_settings(&engine, group);
            let serving: BTreeSet<PathBuf> = status.serving.into_iter().collect();
            let exports = engine.exports();
            self.remember_or_say(group, |state| {
                let entry = state.group(group);
                // A mount that the engine does not serve was unmounted meanwhile, or the instance
                // before this one died before it handed the mount over.
                entry.mount_points.retain(|mount_point, _| {
                    let may_be_there =
                        || self.devices.get(mount_point).is_some() || !was_unmounted(mount_point);
                    serving.contains(mount_point) || may_be_there()
                });
                exports
                    .unwrap_or_default()
                    .into_iter()
                    .for_each(|(export, _)| entry.add_export(export));
            });
            if let Err(error) = self.take_devices(&engine, group) {
                let text = format!("its mounts will not outlive its engine: {error}");
                self.alert.line(Severity::Warning, group, &text);
            }
            if let Err(error) = self.serve_again(&engine, group) {
                self.alert.line(
                    Severity::Alarm,
                    group,
                    &format!("what it should serve it does not: {error}"),
                );
            }
            self.alert.line(
                Severity::Note,
                group,
                &format!("engine {} runs and is adopted", status.pid),
            );
        }
        self.supervise(group);
    }

    fn noticed(&self, group: &str, notice: &Notice) {
        match notice {
            // By `umount`, and not through the instance: the directory shall not be mounted any
            // more.
            Notice::Unmounted(mount_point) => {
                let own = self.group_lock(group);
                let Ok(_held) = own.try_lock() else { return };
                self.devices.remove(mount_point);
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

    /// However often engines are killed: as long as they ran before, databases do not wait for the
    /// next.
    #[test]
    fn only_engines_that_end_at_once_are_waited_for() {
        let mut wait = Duration::ZERO;
        let soon = Duration::from_millis(10);
        for ends in 1..200 {
            wait = next_wait(wait, Duration::from_secs(5), ends, false);
            assert_eq!(wait, Duration::ZERO);
        }
        for ends in 1..=WAIT_MOUNTED_ENDS {
            assert_eq!(next_wait(wait, RAN_KILLED, ends, true), Duration::ZERO);
            wait = next_wait(wait, soon, ends, ends % 2 == 0);
            assert!((WAIT_MIN..=WAIT_MOUNTED).contains(&wait));
        }
        assert_eq!(wait, WAIT_MOUNTED);
        let for_ever =
            (0..10).fold(wait, |wait, _| next_wait(wait, soon, WAIT_MOUNTED_ENDS + 1, true));
        let not_mounted = (0..10).fold(wait, |wait, _| next_wait(wait, Duration::ZERO, 1, false));
        assert_eq!((for_ever, not_mounted), (WAIT_MAX, WAIT_MAX));
    }

    /// Engines that are killed are started again for ever; those that stop are not, unless they ran
    /// long.
    #[test]
    fn only_engines_that_stop_again_and_again_are_given_up() {
        let (soon, late) = (Duration::from_secs(5), Duration::from_secs(100));
        assert_eq!((0..50).fold(0, |stops, _| next_stops(stops, false, soon)), 0);
        assert_eq!((0..50).fold(0, |stops, _| next_stops(stops, true, late)), 1);
        assert_eq!((0..STOPS_MAX).fold(0, |stops, _| next_stops(stops, true, soon)), STOPS_MAX);
        assert_eq!(
            next_stops(next_stops(3, false, soon), true, soon),
            4,
            "a kill between them does not hide it"
        );
        assert_eq!(next_stops(3, false, late), 0);
    }
}
