//! Devices and directories that were probed and have not answered.
//!
//! None of them is probed twice: each probe would leave one more thread in the kernel. A second
//! caller waits until the first one's probe has its answer and then probes itself; or, if that
//! probe has taken too long already (counted as in `waiting.rs`), it learns at once that the device
//! hangs. The looker that probes is kept until then: its end would not count as an answer.

use super::{disk::Medium, probe::Looker};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

#[derive(Default)]
pub(super) struct Hanging(Mutex<All>);

#[derive(Default)]
struct All {
    /// By path or pattern.
    asked: BTreeMap<String, Hung>,
    tokens: u64,
}

struct Hung {
    token: Token,
    since: Instant,
    /// Counts the duration of the probe, from `from` on.
    looker: Arc<Looker>,
    from: Duration,
    /// The device or file that the path leads to, once that is found.
    medium: Option<Medium>,
    /// Other callers, notified when the device has answered.
    waiting: Vec<Box<dyn FnOnce() + Send>>,
}

/// Distinguishes successive probes of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token(u64);

/// The next step of a caller that wants to probe.
pub(super) enum Asked {
    /// Probe, and call `answered` with this token at the end.
    Ask(Token),
    /// Another caller probes; this one is notified at the end.
    Waits,
    Hangs(Late),
}

/// A device that hangs.
pub(super) struct Late {
    /// By the clock, not counted.
    pub since: Duration,
    pub medium: Option<Medium>,
}

/// A device that hangs, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silent {
    pub path: String,
    /// By the clock, not counted.
    pub since: Duration,
}

impl Hung {
    fn late(&self, timeout: Duration) -> Option<Late> {
        let is_late = self.looker.waited().since(self.from) >= timeout;
        is_late.then(|| Late { since: self.since.elapsed(), medium: self.medium })
    }
}

impl Hanging {
    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether `looker` may probe a path. If another caller does, `then` is called when that probe
    /// has its answer.
    pub(super) fn ask(
        &self,
        name: &str,
        looker: &Arc<Looker>,
        timeout: Duration,
        then: impl FnOnce() + Send + 'static,
    ) -> Asked {
        let mut all = self.all();
        if let Some(hung) = all.asked.get_mut(name) {
            return match hung.late(timeout) {
                Some(late) => Asked::Hangs(late),
                None => {
                    hung.waiting.push(Box::new(then));
                    Asked::Waits
                }
            };
        }
        all.tokens += 1;
        let token = Token(all.tokens);
        let (looker, from) = (Arc::clone(looker), looker.waited().time());
        let hung =
            Hung { token, since: Instant::now(), looker, from, medium: None, waiting: Vec::new() };
        all.asked.insert(name.to_owned(), hung);
        Asked::Ask(token)
    }

    /// Records what the path leads to.
    pub(super) fn is(&self, name: &str, token: Token, medium: Medium) {
        if let Some(hung) = self.all().asked.get_mut(name).filter(|hung| hung.token == token) {
            hung.medium = Some(medium);
        }
    }

    pub(super) fn answered(&self, name: &str, token: Token) {
        let mut all = self.all();
        let is_it = all.asked.get(name).is_some_and(|hung| hung.token == token);
        let hung = if is_it { all.asked.remove(name) } else { None };
        drop(all);
        if let Some(hung) = hung {
            hung.waiting.into_iter().for_each(|tell| tell());
        }
    }

    /// Whether a path that is being probed hangs by now.
    pub(super) fn late(&self, name: &str, timeout: Duration) -> Option<Late> {
        self.all().asked.get(name).and_then(|hung| hung.late(timeout))
    }

    /// The device or file behind a path that has not answered, if it is known.
    pub(super) fn medium(&self, path: &str) -> Option<Medium> {
        self.all().asked.get(path).and_then(|hung| hung.medium)
    }

    /// The devices and files that hang, as far as they are known.
    pub(super) fn media(&self, timeout: Duration) -> Vec<Medium> {
        self.all().asked.values().filter_map(|hung| hung.late(timeout)?.medium).collect()
    }

    /// All paths that have not answered for `timeout`.
    pub(super) fn list(&self, timeout: Duration) -> Vec<Silent> {
        let all = self.all();
        let silent = |(path, hung): (&String, &Hung)| {
            Some(Silent { path: path.clone(), since: hung.late(timeout)?.since })
        };
        all.asked.iter().filter_map(silent).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// One caller probes, others wait for that probe and no later one, and a late caller learns at
    /// once that the device hangs.
    #[test]
    fn a_path_is_probed_once_and_all_waiters_are_notified() {
        let hanging = Hanging::default();
        let looker = Looker::start().expect("a looker");
        let (tell, told) = mpsc::channel();
        let ask = |timeout| {
            let tell = tell.clone();
            hanging.ask("/disk", &looker, timeout, move || tell.send(()).expect("the test waits"))
        };
        let long = Duration::from_secs(1000);
        let Asked::Ask(first) = ask(long) else { panic!("nobody has asked it") };
        assert!(matches!(ask(long), Asked::Waits) && matches!(ask(long), Asked::Waits));
        assert!(matches!(ask(Duration::ZERO), Asked::Hangs(_)));
        hanging.answered("/disk", Token(first.0 + 1));
        assert!(
            told.try_recv().is_err() && hanging.list(Duration::ZERO).len() == 1,
            "another one's answer"
        );
        hanging.answered("/disk", first);
        assert_eq!(told.try_iter().count(), 2);
        assert!(hanging.list(Duration::ZERO).is_empty());
        assert!(matches!(ask(long), Asked::Ask(_)));
    }
}
