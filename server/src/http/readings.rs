//! Readings: the figures of each engine, and whether it answers.
//!
//! Each group that shall be mounted has a thread, `figures`, with one connection to its engine. It
//! reads when it is asked to, and then waits for as long as the engine takes: an engine that hangs
//! costs this thread and one connection, and no other thread waits for it.
//!
//! ```text
//!   a scrape                      the threads
//!   asks all threads      ---->   does the engine answer, and has it mounted its group?  alive
//!   waits, WAIT_MAX at most       its figures                                            figures
//!   takes what is there   <----
//! ```
//!
//! Figures that did not come in time are those of the reading before, and their age is told. An
//! engine that gave no sign of life is down, however fresh its figures are.

use super::{
    connections::Connections,
    metrics::snapshot::{GroupSnapshot, Snapshot},
};
use crate::{
    alert,
    engine::{client::Client, protocol::EngineFigures},
    instance::Instance,
};
use plinth_host::{lock, priority::lower_priority};
use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How long a scrape waits for engines.
pub(super) const WAIT_MAX: Duration = Duration::from_millis(50);

/// The newest readings of the threads.
#[derive(Default)]
struct Board {
    groups: Mutex<BTreeMap<String, Seen>>,
    changed: Condvar,
}

/// The newest readings of one engine.
#[derive(Default)]
struct Seen {
    /// Of the thread that reads: an earlier one of the same group ends.
    serial: u64,
    /// Asked, and the thread has not begun.
    is_wanted: bool,
    /// The last reading has ended, well or not.
    is_done: bool,
    /// When the engine last answered.
    alive: Option<Instant>,
    figures: Option<(Instant, Arc<EngineFigures>)>,
}

/// The readings of all groups.
pub(super) struct Readings {
    instance: Arc<Instance>,
    connections: Arc<Connections>,
    board: Arc<Board>,
    groups: Vec<String>,
    serial: u64,
}

impl Readings {
    pub fn new(instance: &Arc<Instance>, connections: &Arc<Connections>) -> Self {
        Self {
            instance: Arc::clone(instance),
            connections: Arc::clone(connections),
            board: Arc::default(),
            groups: Vec::new(),
            serial: 0,
        }
    }

    /// Asks every engine, and returns what is known after [`WAIT_MAX`] at most.
    pub fn read(&mut self) -> Snapshot {
        // While what is to be mounted is being written to disk, the groups are those of before.
        if let Some(groups) = self.instance.groups_now() {
            self.groups = groups.into_keys().collect();
        }
        let began = Instant::now();
        self.ask();
        let mut seen = lock(&self.board.groups);
        while seen.values().any(|seen| !seen.is_done) {
            let Some(left) = WAIT_MAX.checked_sub(began.elapsed()) else { break };
            seen = self
                .board
                .changed
                .wait_timeout(seen, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let of_group = |(name, seen): (&String, &Seen)| {
            let age = seen.figures.as_ref().map(|(read, _)| read.elapsed());
            let group = GroupSnapshot {
                is_up: seen.alive.is_some_and(|alive| alive >= began),
                age,
                restarts: self.instance.restarts(name),
                engine: seen.figures.as_ref().map(|(_, figures)| Arc::clone(figures)),
            };
            (name.clone(), group)
        };
        let groups = seen.iter().map(of_group).collect();
        drop(seen);
        Snapshot {
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            read: alert::now(),
            began: self.instance.began(),
            sessions: self.instance.session_count() as u64,
            events: self.instance.alert().counts(),
            connections: self.connections.counts(),
            groups,
        }
    }

    /// Asks the threads, of which each group has one.
    fn ask(&mut self) {
        let mut seen = lock(&self.board.groups);
        seen.retain(|name, _| self.groups.contains(name));
        for name in &self.groups {
            let entry = seen.entry(name.clone()).or_default();
            if entry.serial == 0 {
                self.serial += 1;
                entry.serial = self.serial;
                entry.is_done = true;
                let (instance, board) = (Arc::clone(&self.instance), Arc::clone(&self.board));
                let (group, serial) = (name.clone(), self.serial);
                let reading = move || read_when_asked(&instance, &board, &group, serial);
                if thread::Builder::new().name("figures".into()).spawn(reading).is_err() {
                    // The next scrape tries again.
                    entry.serial = 0;
                    continue;
                }
            }
            // One that still waits for its engine is not asked again.
            if entry.is_done {
                (entry.is_wanted, entry.is_done) = (true, false);
            }
        }
        drop(seen);
        self.board.changed.notify_all();
    }
}

/// The thread of one group, until the group is not to be mounted any more.
fn read_when_asked(instance: &Instance, board: &Board, group: &str, serial: u64) {
    lower_priority();
    let mut client = None;
    loop {
        let mut groups = lock(&board.groups);
        loop {
            let Some(seen) = groups.get_mut(group).filter(|seen| seen.serial == serial) else {
                return;
            };
            if std::mem::take(&mut seen.is_wanted) {
                break;
            }
            groups = board.changed.wait(groups).unwrap_or_else(PoisonError::into_inner);
        }
        drop(groups);
        let note = |change: &dyn Fn(&mut Seen)| {
            let mut groups = lock(&board.groups);
            groups.get_mut(group).filter(|seen| seen.serial == serial).into_iter().for_each(change);
            drop(groups);
            board.changed.notify_all();
        };
        let read = read(instance, &mut client, group, || {
            note(&|seen| seen.alive = Some(Instant::now()));
        });
        let read = read.map(|figures| (Instant::now(), Arc::new(figures)));
        note(&|seen| {
            seen.is_done = true;
            if read.is_some() {
                seen.figures.clone_from(&read);
            }
        });
    }
}

/// One reading. `alive` is called when the engine has answered. `None`: there is no engine, it has
/// not mounted its group, or it is of a version that knows no figures.
fn read(
    instance: &Instance,
    kept: &mut Option<Client>,
    group: &str,
    alive: impl Fn(),
) -> Option<EngineFigures> {
    // The engine that the kept connection leads to may have ended since.
    let is_mounted = kept.as_ref().and_then(|client| client.is_mounted().ok());
    if is_mounted.is_none() {
        *kept = None;
        *kept = instance.engine(group).ok();
    }
    let client = kept.as_ref()?;
    let is_mounted = match is_mounted {
        Some(is_mounted) => is_mounted,
        None => client.is_mounted().ok()?,
    };
    if !is_mounted {
        return None;
    }
    alive();
    let figures = client.figures();
    if figures.is_err() {
        *kept = None;
    }
    figures.ok()
}
