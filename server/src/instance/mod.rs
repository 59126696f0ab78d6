//! The instance: the process that clients talk to. It starts, adopts and restarts engines, mounts
//! groups, and answers SQL. It is in no I/O path, and when it dies engines go on.
//!
//! ```text
//!   .s.PGSQL.5432 --pg---------+
//!                              +--> session.rs: one statement --> this file: groups --> engines
//!   control.sock --control.rs--+                \--> query: views
//! ```
//!
//! A group that shall be mounted has a supervisor, a thread that:
//!
//!   1. watches its engine, if one runs: the connection's end is the engine's end;
//!   2. otherwise starts an engine, has it mount the group and take over the mounts and the NBD
//!      clients (devices.rs and connections.rs have their descriptors). Programs that use them wait
//!      meanwhile. Mounts that cannot be taken over are unmounted and made again;
//!   3. waits longer before each start that follows soon upon the last;
//!   4. fails the requests that wait on the mounts when no engine could serve them for a while, or
//!      when one engine after the other dies of itself: it may be a request that kills them;
//!   5. gives up when that does not help, or one engine after the other stops because of its
//!      catalog: the group is BROKEN until a statement mounts it.
//!
//! Exports are made again with the mounts. Those whose address is not there have a thread that
//! tries again, until none is left.
//!
//! Invariants:
//!
//!   1. Code that mounts, dismounts or drops a group, or changes its mount points, holds the
//!      group's lock: statements and the supervisor never interfere.
//!   2. `instance.json` is written before a statement that changed it is answered.
//!   3. A group that is mounted according to `instance.json` is started again whatever happened,
//!      until a statement dismounts it.

mod connections;
pub mod control;
mod devices;
mod discovery;
pub mod filter;
pub mod health;
mod labels;
mod launch;
pub mod parameters;
pub mod passwords;
mod preferred;
pub mod session;
pub mod sessions;
pub mod start;
pub(crate) mod state;
mod supervisor;
pub(crate) mod systemd;
mod upgrade;

pub use preferred::Preferred;

use crate::{
    alarm::{Alarms, Tried},
    alert::Alert,
    engine::{
        client::Client,
        exports::{At, Export},
        protocol::{How, ProcessRequest},
    },
    paths::Paths,
    process::{self, Peer},
    query::Estimated,
    sql::{Role, statement::SystemParameter},
    sql_error::SqlError,
};
use connections::Connections;
use devices::{Device, Devices, new_connection};
use discovery::Discovery;
use launch::Children;
use plinth_engine::{
    admin::{AdminError, Code, NewGroup, Survey, Value},
    event::Severity,
};
use plinth_fuse::mount::{self, MountError, MountOptions};
use plinth_host::{IoChoice, lock};
use rustix::fd::AsFd;
use sessions::Sessions;
use state::State;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long the engine of a group that was dropped may take to exit.
const PARTING: Duration = Duration::from_secs(5);

type Result<T> = std::result::Result<T, AdminError>;

/// How long statements wait for the successor of an engine that died: for as long as programs wait
/// on its mounts.
const IN_SERVICE: Duration = Duration::from_secs(30);
/// How long queries wait for it. Shorter, so that monitoring soon reports a group that has no
/// engine.
const IN_VIEW: Duration = Duration::from_secs(5);
/// How often a statement looks whether the next engine is there.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// How long an engine may take to notice that a mount is gone: it first carries out all requests
/// that the kernel sends because of the unmount.
const LET_GO: Duration = Duration::from_secs(60);
/// Most estimates that `v$asm_estimate` shows.
const ESTIMATES_MAX: usize = 1000;

/// Which users may look without administering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looking {
    Nobody,
    /// The members of a unix group.
    Group(u32),
    Everybody,
}

/// The instance.
pub struct Instance {
    paths: Paths,
    io: IoChoice,
    looking: Looking,
    alert: Alert,
    alarms: Alarms,
    discovery: Discovery,
    state: Mutex<State>,
    locks: Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
    supervised: Mutex<BTreeSet<String>>,
    /// The groups that shall be mounted and that no engine serves, and when the last engine of each
    /// ended.
    unserved: Mutex<BTreeMap<String, Instant>>,
    /// Groups of which an export is missing and tried again.
    exporting: Mutex<BTreeSet<String>>,
    /// The devices of our mounts. While one is held, the end of an engine is not the end of the
    /// mount.
    devices: Devices,
    /// The connections of NBD clients, which outlive engines in the same way.
    nbd: Connections,
    children: Children,
    /// The last engine that was started for each group.
    launched: Mutex<BTreeMap<String, u32>>,
    /// Engines that end because another one takes over.
    handed_over: Mutex<BTreeSet<u32>>,
    /// How many engines of each group have ended and were followed by another.
    restarts: Mutex<BTreeMap<String, u64>>,
    /// Results of `EXPLAIN WORK`, the last at the end.
    estimates: Mutex<VecDeque<Estimated>>,
    /// Held by a thread that sends engines the preferred failure groups, or the power limit.
    preferring: Mutex<()>,
    /// Parameters that ALTER SYSTEM has set since the start.
    changed: Mutex<BTreeSet<SystemParameter>>,
    /// Held while members are protected or released.
    filter: Mutex<filter::Known>,
    sessions: Arc<Sessions>,
    /// Answers of engines about the health of their groups.
    asking: health::Asking,
    /// When it started: nanoseconds since 1970.
    began: i64,
    /// The instance shuts down: an engine that ends now is not started again.
    ending: AtomicBool,
}

impl From<MountError> for SqlError {
    fn from(error: MountError) -> Self {
        mount_refused(&error).into()
    }
}

/// The groups that shall be mounted, and their numbers.
fn groups_of(state: &State) -> BTreeMap<String, u32> {
    let mounted = state.groups.iter().filter(|(_, group)| group.mounted);
    mounted.map(|(name, group)| (name.clone(), group.number)).collect()
}

fn mount_refused(error: &MountError) -> AdminError {
    let code = match error {
        MountError::AlreadyMounted(..) | MountError::Busy(..) => Code::Busy,
        MountError::NotMounted(_) => Code::NotMounted,
        MountError::NoFuse(_)
        | MountError::Mount(..)
        | MountError::Remount(..)
        | MountError::Unmount(..) => Code::Io,
        _ => Code::Invalid,
    };
    AdminError::new(code, error)
}

impl Instance {
    /// The role of a client by its user; `None`: it may do nothing.
    #[must_use]
    pub fn access(&self, peer: Peer) -> Option<Role> {
        if peer.administers() {
            return Some(Role::Administer);
        }
        // If a unix group may look, the socket's permissions admit only its members.
        (self.looking != Looking::Nobody).then_some(Role::Look)
    }

    #[must_use]
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    #[must_use]
    pub fn alert(&self) -> &Alert {
        &self.alert
    }

    /// Sends a test by every way by which alarms are sent. `asker`: who has asked for it.
    ///
    /// # Errors
    /// If there is none, or another test runs.
    pub(crate) fn test_alarm(&self, asker: &str) -> std::result::Result<Vec<Tried>, SqlError> {
        self.alarms.test(asker).map_err(|reason| SqlError::new("55000", reason))
    }

    #[must_use]
    pub fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    #[must_use]
    pub fn diskstring(&self) -> String {
        lock(&self.state).diskstring.clone()
    }

    /// The groups that shall be mounted, and their numbers.
    #[must_use]
    pub fn groups(&self) -> BTreeMap<String, u32> {
        groups_of(&lock(&self.state))
    }

    /// As [`Self::groups`], for callers that must not wait for a disk: `None` while what is
    /// remembered is being written.
    #[must_use]
    pub fn groups_now(&self) -> Option<BTreeMap<String, u32>> {
        self.state.try_lock().ok().map(|state| groups_of(&state))
    }

    /// How many engines of the group have ended unasked since the instance started.
    #[must_use]
    pub fn restarts(&self, group: &str) -> u64 {
        lock(&self.restarts).get(group).copied().unwrap_or(0)
    }

    /// When it started: nanoseconds since 1970.
    #[must_use]
    pub fn began(&self) -> i64 {
        self.began
    }

    /// How many sessions there are.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions.all().len()
    }

    /// Results of `EXPLAIN WORK`, oldest first.
    #[must_use]
    pub fn estimates(&self) -> Vec<Estimated> {
        lock(&self.estimates).iter().cloned().collect()
    }

    /// Keeps the result of an `EXPLAIN WORK`: one for each group and id.
    fn keep_estimate(&self, new: Estimated) {
        let mut estimates = lock(&self.estimates);
        estimates.retain(|old| (&old.group, &old.id) != (&new.group, &new.id));
        estimates.push_back(new);
        let surplus = estimates.len().saturating_sub(ESTIMATES_MAX);
        estimates.drain(..surplus);
    }

    fn group_lock(&self, group: &str) -> Arc<Mutex<()>> {
        lock(&self.locks).entry(group.to_owned()).or_default().clone()
    }

    /// Changes what is remembered. If it cannot be written, nothing changes.
    fn remember(&self, change: impl FnOnce(&mut State)) -> Result<()> {
        let mut state = lock(&self.state);
        let mut changed = state.clone();
        change(&mut changed);
        if changed != *state {
            changed.store(&self.paths.instance()).map_err(|error| {
                AdminError::new(Code::Io, error).hint("make room there, or make it writable")
            })?;
            *state = changed;
        }
        Ok(())
    }

    /// As `remember`, for callers whose work is already done and cannot be taken back: an error
    /// goes to the alert log.
    fn remember_or_say(&self, group: &str, change: impl FnOnce(&mut State)) {
        if let Err(error) = self.remember(change) {
            self.alert.line(
                Severity::Alarm,
                group,
                &format!("what to mount at start could not be noted: {error}"),
            );
        }
    }

    /// Sets the discovery string, here and in every engine.
    ///
    /// # Errors
    /// If the text is no discovery string, or does not show a disk that a mounted group uses: the
    /// next mount would miss that disk.
    pub fn set_diskstring(&self, diskstring: &str) -> Result<()> {
        let before = self.diskstring();
        self.discovery.set_diskstring(diskstring)?;
        if let Err(refusal) = self.shows_mounted_disks(diskstring) {
            // It was valid before.
            let _ = self.discovery.set_diskstring(&before);
            return Err(refusal);
        }
        self.remember(|state| diskstring.clone_into(&mut state.diskstring))?;
        for group in self.groups().into_keys() {
            if let Ok(engine) = self.engine_within(&group, IN_VIEW)
                && let Err(error) = engine.ask(ProcessRequest::SetDiskstring(diskstring.to_owned()))
            {
                self.alert.line(
                    Severity::Warning,
                    &group,
                    &format!("keeps the old discovery string: {error}"),
                );
            }
        }
        Ok(())
    }

    /// Sets the devices whose labels are read; engines read that setting at each discovery.
    ///
    /// # Errors
    /// As [`Self::set_diskstring`].
    pub fn set_label_scan(&self, scan: &str) -> Result<()> {
        let before = self.discovery.label_scan();
        self.discovery.set_label_scan(scan)?;
        let shown = self.shows_mounted_disks(&self.diskstring());
        if shown.is_err() {
            self.discovery.set_label_scan(&before)?;
        }
        shown
    }

    /// Checks that discovery shows every disk that is ONLINE, by whatever path.
    fn shows_mounted_disks(&self, diskstring: &str) -> Result<()> {
        // A disk that hangs, and is to be taken out of the string, does not prevent that: a survey
        // ends without it.
        let seen = self.discovery.survey()?;
        let (mut hidden, mut groups) = (Vec::new(), BTreeSet::new());
        for group in self.groups().into_keys() {
            let Ok(engine) = self.engine_within(&group, IN_VIEW) else { continue };
            for row in
                engine.rows("SELECT name, path FROM v$asm_disk WHERE mode_status = 'ONLINE'")?
            {
                let [Value::Text(name), Value::Text(path)] = &row[..] else { continue };
                let is_it = |disk: &Survey| {
                    disk.is_at(path)
                        || (disk.group.as_ref() == Some(&group) && disk.name.as_ref() == Some(name))
                };
                if !seen.iter().any(is_it) {
                    hidden.push((path.clone(), format!("disk {name} of {group}")));
                    groups.insert(group.clone());
                }
            }
        }
        if hidden.is_empty() {
            return Ok(());
        }
        let list: Vec<String> =
            hidden.iter().map(|(path, disk)| format!("{path}, {disk}")).collect();
        let verb = if hidden.len() == 1 { "is" } else { "are" };
        let text = format!(
            "asm_diskstring '{diskstring}' does not show {}, which {verb} mounted",
            list.join("; ")
        );
        let paths: Vec<&str> = hidden.iter().map(|(path, _)| path.as_str()).collect();
        let (path, group) = (paths.join(","), groups.into_iter().collect::<Vec<_>>().join(", "));
        let hint = format!(
            "ALTER SYSTEM SET asm_diskstring = '{diskstring},{path}' does; or ALTER DISKGROUP {group} DISMOUNT first"
        );
        Err(AdminError::new(Code::UnknownDisk, text).hint(hint))
    }

    /// A connection to the group's engine.
    ///
    /// # Errors
    /// `NotMounted` if none runs.
    pub fn engine(&self, group: &str) -> Result<Client> {
        Client::connect(&self.paths, group)
    }

    /// Whether the group has no engine for now, and its supervisor is about to start another.
    fn is_between_engines(&self, group: &str) -> bool {
        let mounted = lock(&self.state).groups.get(group).is_some_and(|group| group.mounted);
        mounted && lock(&self.supervised).contains(group) && !self.ending.load(Ordering::Acquire)
    }

    /// As [`Self::engine`], for statements: one that is given between an engine's death and its
    /// successor waits for the successor. A caller that holds the group's lock must not use this:
    /// the successor's mount needs that lock.
    ///
    /// # Errors
    /// `NotMounted` if the group shall not be mounted, or none of its engines could mount it for a
    /// while.
    pub fn engine_in_service(&self, group: &str) -> Result<Client> {
        self.engine_within(group, IN_SERVICE)
    }

    /// Runs a SELECT in the group's engine, or in the next one if there is none just now, or it
    /// ends before it has handed out a part of the result.
    ///
    /// # Errors
    /// If the engine or the receiver refuses; `NotMounted` or `Io` if no engine answers within 5 s
    /// of the end of the last one.
    pub fn query(
        &self,
        group: &str,
        sql: &str,
        part: &mut dyn FnMut(usize, Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let began = Instant::now();
        loop {
            let mut is_begun = false;
            let asked = self.engine_within(group, IN_VIEW)?.query(sql, |rows, bytes| {
                is_begun = true;
                part(rows, bytes)
            });
            let ended = asked
                .as_ref()
                .is_err_and(|error| matches!(error.code, Code::Io | Code::NotMounted));
            if !ended || is_begun || !self.is_between_engines(group) || began.elapsed() > IN_VIEW {
                return asked;
            }
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// For requests that take mounts or exports away from clients. Unless clients may be
    /// disconnected, such a request waits for the next engine if there is none just now, because
    /// that engine refuses it if it serves clients.
    fn await_unless(&self, may_cut: bool, group: &str) {
        if !may_cut {
            // If no engine comes, no mount and no client is being served that could be lost.
            let _ = self.await_engine(group);
        }
    }

    /// As [`Self::engine_in_service`], but waits until `timeout` after the end of the last engine.
    fn engine_within(&self, group: &str, timeout: Duration) -> Result<Client> {
        let began = Instant::now();
        loop {
            let waits = self.is_between_engines(group);
            match self.engine(group) {
                // The engine may have started, and not have mounted the group yet.
                Ok(engine) if !waits || engine.status().is_ok_and(|status| status.mounted) => {
                    return Ok(engine);
                }
                Err(error) if !waits || error.code != Code::NotMounted => return Err(error),
                _ => {}
            }
            let since = lock(&self.unserved).get(group).copied().unwrap_or(began);
            if since.elapsed() > timeout {
                let text = format!(
                    "disk group {group} has no engine: the last one ended, and none could mount it since"
                );
                return Err(AdminError::new(Code::NotMounted, text)
                    .hint("the alert log says why; it is tried again until it can be"));
            }
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Waits for the next engine of a group that shall be mounted and has none; returns at once for
    /// any other group.
    ///
    /// # Errors
    /// `NotMounted` if none of its engines could mount it for a while.
    pub fn await_engine(&self, group: &str) -> Result<()> {
        if self.is_between_engines(group) {
            self.engine_in_service(group).map(drop)
        } else {
            Ok(())
        }
    }

    /// Makes a group and mounts it.
    ///
    /// # Errors
    /// If the engine refuses. Then there is no group, unless the error says that it was made, but
    /// not mounted.
    pub fn create_group(self: &Arc<Self>, new: NewGroup) -> Result<()> {
        let name = new.name.clone();
        let own = self.group_lock(&name);
        let _held = lock(&own);
        if self.engine(&name).is_ok() {
            return Err(AdminError::new(
                Code::GroupExists,
                format!("disk group {name} exists and is mounted"),
            ));
        }
        let engine = self.start_engine(&name)?;
        engine.ask(ProcessRequest::Create(new))?;
        engine
            .ask(ProcessRequest::Mount {
                force: false,
                restricted: false,
                patient: false,
                resume: Vec::new(),
            })
            .map_err(|error| {
                let hint =
                    error.hint.clone().unwrap_or_else(|| format!("ALTER DISKGROUP {name} MOUNT"));
                AdminError::new(error.code, format!("the group was made, but not mounted: {error}"))
                    .hint(hint)
            })?;
        self.mounted(&name, true, false)?;
        Ok(())
    }

    /// Records that the group is mounted, and starts its supervisor.
    fn mounted(self: &Arc<Self>, group: &str, new: bool, restricted: bool) -> Result<()> {
        self.remember(|state| {
            let entry = state.group(group);
            entry.mounted = true;
            entry.restricted = restricted;
            if new {
                entry.mount_points.clear();
                entry.exports.clear();
            }
        })?;
        self.supervise(group);
        Ok(())
    }

    /// # Errors
    /// If the engine refuses.
    pub fn mount_group(self: &Arc<Self>, group: &str, force: bool, restricted: bool) -> Result<()> {
        let own = self.group_lock(group);
        let _held = lock(&own);
        let engine = self.engine(group).or_else(|_| self.start_engine(group))?;
        let resume = if restricted { Vec::new() } else { self.connections(group) };
        engine.ask(ProcessRequest::Mount { force, restricted, patient: false, resume })?;
        // The mounts and exports that the group had when its supervisor gave it up; after a
        // dismount there are none.
        if !restricted {
            self.serve_again(&engine, group)?;
        }
        self.mounted(group, false, restricted)
    }

    /// Drops a group that is not mounted: the headers of its discovered disks become FORMER.
    ///
    /// # Errors
    /// If an engine holds one of its disks, or one cannot be written.
    pub fn drop_unmounted(self: &Arc<Self>, group: &str) -> Result<()> {
        let own = self.group_lock(group);
        let _held = lock(&own);
        // Its supervisor may be about to mount it again.
        let was_mounted = lock(&self.state).groups.get(group).is_some_and(|entry| entry.mounted);
        let note = |mounted: bool| {
            move |state: &mut State| {
                if let Some(entry) = state.groups.get_mut(group) {
                    entry.mounted = mounted;
                }
            }
        };
        self.remember(note(false))?;
        let engine = self.engine(group).or_else(|_| self.start_engine(group));
        let dropped = engine.and_then(|engine| engine.ask(ProcessRequest::DropUnmounted));
        if dropped.is_err() {
            self.remember_or_say(group, note(was_mounted));
            if was_mounted {
                self.supervise(group);
            }
            return dropped;
        }
        self.forget_mounts(group);
        self.remember_or_say(group, |state| drop(state.groups.remove(group)));
        self.clear_away(group);
        Ok(())
    }

    /// # Errors
    /// If the group is in use and `force` is not given, or the engine refuses.
    pub fn dismount_group(self: &Arc<Self>, group: &str, force: bool) -> Result<()> {
        self.await_unless(force, group);
        let own = self.group_lock(group);
        let _held = lock(&own);
        let engine = match self.engine(group) {
            Ok(engine) => engine,
            // Its engine is dead and will not be started any more.
            Err(error) if self.groups().contains_key(group) && error.code == Code::NotMounted => {
                self.forget_mounts(group);
                return self.remember(|state| {
                    let entry = state.group(group);
                    entry.mounted = false;
                    entry.mount_points.clear();
                    entry.exports.clear();
                });
            }
            Err(error) => return Err(error),
        };
        for mount_point in self.mount_points(group).into_keys() {
            self.unmount_directory(&mount_point, force).map_err(|error| {
                error.hint(format!("end what uses it, or ALTER DISKGROUP {group} DISMOUNT FORCE"))
            })?;
            self.remember(|state| drop(state.group(group).mount_points.remove(&mount_point)))?;
        }
        wait_until_unserved(&engine, |serving| serving.is_empty());
        // First, so that the supervisor does not start another engine when this one ends.
        self.remember(|state| state.group(group).mounted = false)?;
        let result = engine.ask(ProcessRequest::Dismount { force });
        if result.is_err()
            && let Ok(engine) = self.engine(group)
        {
            self.remember_or_say(group, |state| state.group(group).mounted = true);
            self.export_again(&engine, group);
        } else {
            self.remember_or_say(group, |state| state.group(group).exports.clear());
        }
        result
    }

    /// # Errors
    /// If the group is in use, is not empty and `contents` is not given, or the engine refuses.
    pub fn drop_group(&self, group: &str, contents: bool) -> Result<()> {
        drop(self.engine_in_service(group));
        let own = self.group_lock(group);
        let _held = lock(&own);
        let engine = self.engine(group)?;
        let mount_points = self.mount_points(group);
        if let Some(mount_point) = mount_points.keys().next() {
            return Err(AdminError::new(
                Code::Busy,
                format!("disk group {group} is mounted on {}", mount_point.display()),
            )
            .hint(format!("plinth umount {}", mount_point.display())));
        }
        // A directory of the group may have been unmounted a moment ago.
        wait_until_unserved(&engine, |serving| serving.is_empty());
        self.remember(|state| state.group(group).mounted = false)?;
        let result = engine.ask(ProcessRequest::Drop { contents });
        match &result {
            Ok(()) => {
                self.remember_or_say(group, |state| drop(state.groups.remove(group)));
                self.clear_away(group);
            }
            Err(_) if self.engine(group).is_ok() => {
                self.remember_or_say(group, |state| state.group(group).mounted = true);
            }
            Err(_) => {}
        }
        result
    }

    /// Removes the files that the engine of a dropped group leaves, once its process has ended.
    fn clear_away(&self, group: &str) {
        let sign = self.paths.engine_pid(group);
        let began = Instant::now();
        while began.elapsed() < PARTING {
            match process::only_one(&sign) {
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Ok(Some(_held)) => {
                    let left = [sign, self.paths.engine_log(group), self.paths.engine(group)];
                    left.iter().for_each(|path| _ = fs::remove_file(path));
                    return;
                }
                Err(_) => return,
            }
        }
    }

    /// The directories on which the group's files shall be mounted, and the options.
    #[must_use]
    pub fn mount_points(&self, group: &str) -> BTreeMap<PathBuf, String> {
        lock(&self.state)
            .groups
            .get(group)
            .map(|group| group.mount_points.clone())
            .unwrap_or_default()
    }

    /// The exports that the group shall have.
    #[must_use]
    pub fn exports(&self, group: &str) -> Vec<Export> {
        lock(&self.state).groups.get(group).map(|group| group.exports.clone()).unwrap_or_default()
    }

    /// Has the group's engine serve a file to NBD clients.
    ///
    /// # Errors
    /// If the group is not mounted, there is no such file, or its address will not do.
    pub fn export(&self, group: &str, export: &Export) -> Result<()> {
        drop(self.engine_in_service(group));
        let own = self.group_lock(group);
        let _held = lock(&own);
        self.engine(group)?.ask(ProcessRequest::Export(export.clone()))?;
        self.remember(|state| state.group(group).add_export(export.clone()))
    }

    /// Ends an export, for good.
    ///
    /// # Errors
    /// If there is none, or it has clients and they may not be cut.
    pub fn withdraw(&self, group: &str, at: &At, name: &str, cut: bool) -> Result<()> {
        self.await_unless(cut, group);
        let own = self.group_lock(group);
        let _held = lock(&own);
        let is_meant = |export: &Export| export.name == name && export.at.is_same_place(at);
        let is_known = self.exports(group).iter().any(is_meant);
        let ask = |engine: Client| {
            engine.ask(ProcessRequest::Withdraw { at: at.clone(), name: name.to_owned(), cut })
        };
        match self.engine(group).and_then(ask) {
            // An export that could not be made again, or whose engine is dead, is only removed from
            // the state.
            Err(error)
                if !is_known || !matches!(error.code, Code::NotMounted | Code::NoSuchFile) =>
            {
                Err(error)
            }
            _ => {
                self.remember(|state| state.group(group).exports.retain(|export| !is_meant(export)))
            }
        }
    }

    /// Mounts a group's files on a directory.
    ///
    /// # Errors
    /// If the group is not mounted, or the directory or the options will not do.
    pub fn mount_directory(&self, group: &str, directory: &Path, options: &str) -> Result<()> {
        drop(self.engine_in_service(group));
        let own = self.group_lock(group);
        let _held = lock(&own);
        let engine = self.engine(group)?;
        self.serve_directory(&engine, group, directory, options)?;
        self.remember(|state| {
            state.group(group).mount_points.insert(directory.to_owned(), options.to_owned());
        })
    }

    /// The mount itself. The caller holds the group's lock.
    fn serve_directory(
        &self,
        engine: &Client,
        group: &str,
        directory: &Path,
        options: &str,
    ) -> Result<()> {
        let options = MountOptions::parse(options).map_err(|error| mount_refused(&error))?;
        let connection = new_connection().map_err(|error| AdminError::new(Code::Io, error))?;
        let descriptor =
            mount::mount(group, directory, options).map_err(|error| mount_refused(&error))?;
        if let Err(error) =
            engine.serve(directory.to_owned(), connection, descriptor.as_fd(), How::New)
        {
            drop(descriptor);
            let _ = mount::unmount(directory, true);
            return Err(error);
        }
        self.remember_or_say(group, |state| {
            state.group(group).connections.insert(directory.to_owned(), connection);
        });
        self.devices.insert(directory.to_owned(), Device { connection, descriptor });
        Ok(())
    }

    /// Gives a mount other options, and remembers them.
    ///
    /// # Errors
    /// If it is no mount of this instance, or shall become read-only while files are open for
    /// writing.
    pub fn remount(&self, directory: &Path, options: &str) -> Result<()> {
        let parsed = MountOptions::parse(options).map_err(|error| mount_refused(&error))?;
        let Some(group) = self.owner_of(directory) else {
            return Err(mount_refused(&MountError::NotMounted(directory.to_owned())));
        };
        let own = self.group_lock(&group);
        let _held = lock(&own);
        mount::remount(directory, parsed).map_err(|error| mount_refused(&error))?;
        self.remember(|state| {
            state.group(&group).mount_points.insert(directory.to_owned(), options.to_owned());
        })
    }

    /// The group that is to be mounted on a directory.
    fn owner_of(&self, directory: &Path) -> Option<String> {
        let state = lock(&self.state);
        let owner =
            state.groups.iter().find(|(_, group)| group.mount_points.contains_key(directory));
        owner.map(|(name, _)| name.clone())
    }

    /// Unmounts a directory, for good.
    ///
    /// # Errors
    /// If it is no mount of this instance, or is in use and `force` is not given.
    pub fn unmount(&self, directory: &Path, force: bool) -> Result<()> {
        let Some(group) = self.owner_of(directory) else {
            return self.unmount_directory(directory, force);
        };
        let own = self.group_lock(&group);
        let _held = lock(&own);
        self.unmount_directory(directory, force)?;
        self.remember(|state| drop(state.group(&group).mount_points.remove(directory)))?;
        if let Ok(engine) = self.engine(&group) {
            wait_until_unserved(&engine, |serving| !serving.iter().any(|other| other == directory));
        }
        Ok(())
    }

    fn unmount_directory(&self, directory: &Path, force: bool) -> Result<()> {
        match mount::unmount(directory, force) {
            // `NotMounted`: another process was faster. The mount is gone, as requested.
            Ok(()) | Err(MountError::NotMounted(_)) if self.devices.remove(directory) => Ok(()),
            Ok(()) => Ok(()),
            Err(error) => Err(mount_refused(&error)),
        }
    }

    /// Fails the requests that wait on the group's dead mounts. The mounts stay, so that no program
    /// can write into the directories below them.
    fn end_waiting(&self, group: &str) {
        for mount_point in self.mount_points(group).into_keys() {
            self.devices.remove(&mount_point);
        }
        self.nbd.remove_all(group);
    }

    /// Removes the group's dead mounts.
    fn forget_mounts(&self, group: &str) {
        self.mount_points(group)
            .keys()
            .for_each(|mount_point| self.forget_mount(group, mount_point));
        self.nbd.remove_all(group);
    }

    /// Removes a dead mount, so that it can be made again.
    fn forget_mount(&self, group: &str, mount_point: &Path) {
        self.devices.remove(mount_point);
        match mount::unmount(mount_point, true) {
            Ok(()) | Err(MountError::NotMounted(_)) => {}
            Err(error) => {
                self.alert.line(
                    Severity::Warning,
                    group,
                    &format!("a dead mount could not be removed: {error}"),
                );
            }
        }
    }

    /// Unmounts everything and ends every engine. Then the caller ends the instance.
    ///
    /// # Errors
    /// If something is in use and `force` is not given. Then groups that were dismounted before it
    /// stay dismounted, and the others are as they were.
    pub fn shut_down(self: &Arc<Self>, force: bool) -> Result<()> {
        self.groups().keys().for_each(|group| self.await_unless(force, group));
        self.ending.store(true, Ordering::Release);
        self.shut_groups_down(force).inspect_err(|_| self.ending.store(false, Ordering::Release))
    }

    fn shut_groups_down(self: &Arc<Self>, force: bool) -> Result<()> {
        for group in self.groups().into_keys() {
            let (mount_points, exports) = (self.mount_points(&group), self.exports(&group));
            self.dismount_group(&group, force)?;
            // At the next start all is mounted again.
            self.remember(|state| {
                let entry = state.group(&group);
                entry.mounted = true;
                entry.mount_points = mount_points;
                entry.exports = exports;
            })?;
        }
        Ok(())
    }
}

/// Waits until the engine has noticed that mounts are gone, and has released the files that they
/// held open. After the removal of large files that takes a while.
fn wait_until_unserved(engine: &Client, is_done: impl Fn(&[PathBuf]) -> bool) {
    let began = Instant::now();
    while began.elapsed() < LET_GO {
        match engine.status() {
            Ok(status) if !is_done(&status.serving) => thread::sleep(Duration::from_millis(10)),
            _ => return,
        }
    }
}
