//! Asking engines for the facts of their groups. A caller never waits for an engine that hangs.
//!
//! A group has a slot. A thread that asks puts its answer there; a caller waits for an answer
//! that was begun after it came, until its deadline. So an engine that hangs costs one thread,
//! however often its group is looked at, and the thread ends when the engine answers, ends, or has
//! been silent for the time that the client allows.
//!
//! Beside that, counters are asked for every [`BETWEEN_SAMPLES`], for the latency of the last
//! minute.

use super::{
    super::{Instance, Result},
    facts::GroupFacts,
    history::{History, Sample},
};
use plinth_engine::admin::{AdminError, Code};
use plinth_host::{lock, priority::lower_priority};
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Condvar, Mutex, PoisonError, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

/// How often counters are read: the minute that is shown is at most this much longer.
const BETWEEN_SAMPLES: Duration = Duration::from_secs(10);
/// How long a group may be without an engine before that is a finding: a successor is usually there
/// after some tenths of a second.
const BETWEEN_ENGINES: Duration = Duration::from_secs(3);
const AGAIN: Duration = Duration::from_millis(50);

/// The slots of all groups.
#[derive(Default)]
pub struct Asking {
    slots: Mutex<BTreeMap<String, Slot>>,
    /// Notified when an answer has come.
    told: Condvar,
}

#[derive(Default)]
struct Slot {
    /// A thread asks, since then.
    since: Option<Instant>,
    last: Option<Asked>,
    history: History,
}

/// The result of asking.
struct Asked {
    began: Instant,
    result: Result<Arc<GroupFacts>>,
}

/// The knowledge of a group.
pub(super) enum Answer {
    Facts(Arc<GroupFacts>),
    /// No engine serves it, or its engine refuses to tell.
    Refused(AdminError),
    /// Its engine has been asked this long ago, and has not answered.
    Silent(Duration),
}

/// The question of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Facts,
    Counters,
}

impl Instance {
    /// Asks for the facts of a group, unless it is asked already: [`Self::answer_of`] waits for the
    /// answer.
    pub(super) fn ask_group(self: &Arc<Self>, group: &str, now: Instant) {
        let mut slots = lock(&self.asking.slots);
        self.begin(group, slots.entry(group.to_owned()).or_default(), What::Facts, now);
    }

    /// Starts the thread that asks, if there is none. The caller holds the slots.
    fn begin(self: &Arc<Self>, group: &str, slot: &mut Slot, what: What, now: Instant) {
        if slot.since.is_some() {
            return;
        }
        slot.since = Some(now);
        let (instance, name) = (Arc::clone(self), group.to_owned());
        let asking =
            thread::Builder::new().name("ask".into()).spawn(move || instance.ask(&name, what, now));
        if let Err(error) = asking {
            slot.since = None;
            let error = AdminError::new(Code::Io, format!("it cannot be asked: {error}"));
            slot.last = Some(Asked { began: now, result: Err(error) });
        }
    }

    fn ask(&self, group: &str, what: What, began: Instant) {
        lower_priority();
        let asked = match what {
            What::Facts => self.facts_of(group),
            What::Counters => {
                let asked = self.engine(group).and_then(|engine| Sample::ask(&engine));
                asked.map(GroupFacts::of_counters)
            }
        };
        let mut slots = lock(&self.asking.slots);
        let slot = slots.entry(group.to_owned()).or_default();
        slot.since = None;
        let result = asked.map(|mut facts| {
            facts.latency = slot.history.add(facts.sample.clone());
            Arc::new(facts)
        });
        if what == What::Facts {
            slot.last = Some(Asked { began, result });
        }
        drop(slots);
        self.asking.told.notify_all();
    }

    fn facts_of(&self, group: &str) -> Result<GroupFacts> {
        let began = Instant::now();
        loop {
            let asked = self.engine(group).and_then(|engine| GroupFacts::ask(&engine));
            let is_absent = asked
                .as_ref()
                .is_err_and(|error| matches!(error.code, Code::NotMounted | Code::Io));
            if !is_absent || !self.is_between_engines(group) || began.elapsed() > BETWEEN_ENGINES {
                return asked;
            }
            thread::sleep(AGAIN);
        }
    }

    /// Waits until `deadline` for an answer that was begun at `from` or later.
    pub(super) fn answer_of(
        self: &Arc<Self>,
        group: &str,
        from: Instant,
        deadline: Instant,
    ) -> Answer {
        let mut slots = lock(&self.asking.slots);
        loop {
            let slot = slots.entry(group.to_owned()).or_default();
            if let Some(Asked { result, .. }) = slot.last.as_ref().filter(|last| last.began >= from)
            {
                return match result {
                    Ok(facts) => Answer::Facts(Arc::clone(facts)),
                    Err(error) => Answer::Refused(error.clone()),
                };
            }
            let now = Instant::now();
            let Some(left) = deadline.checked_duration_since(now).filter(|left| !left.is_zero())
            else {
                return Answer::Silent(slot.since.map_or(Duration::ZERO, |since| now - since));
            };
            // The thread that asks may have begun before, or ask for counters only.
            self.begin(group, slot, What::Facts, now);
            slots = self
                .asking
                .told
                .wait_timeout(slots, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Starts the thread that reads counters, until the instance ends.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn keep_history(self: &Arc<Self>) -> io::Result<()> {
        let instance = Arc::downgrade(self);
        let keep = move || {
            loop {
                thread::sleep(BETWEEN_SAMPLES);
                let Some(instance) = instance.upgrade() else { return };
                if instance.ending.load(Ordering::Acquire) {
                    continue;
                }
                let groups = instance.groups();
                let mut slots = lock(&instance.asking.slots);
                slots.retain(|group, slot| groups.contains_key(group) || slot.since.is_some());
                for group in groups.keys() {
                    let slot = slots.entry(group.clone()).or_default();
                    instance.begin(group, slot, What::Counters, Instant::now());
                }
            }
        };
        thread::Builder::new().name("history".into()).spawn(keep).map(drop)
    }
}
