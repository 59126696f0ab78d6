//! Devices and directories that were asked and have not answered.
//!
//! Nobody asks one of them twice: each would leave one more thread in the kernel. Who wants to know the same waits for the answer and then asks
//! itself, or is told at once that it hangs, if that has taken too long already (counted as in `waiting.rs`). The looker that asked is kept
//! until then: its end is no answer.

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
    /// Counts for as long as it is asked, from so much on.
    looker: Arc<Looker>,
    from: Duration,
    /// What its path leads to, if at least that could be learnt.
    medium: Option<Medium>,
    /// Whoever else wants to know, told when it has answered.
    waiting: Vec<Box<dyn FnOnce() + Send>>,
}

/// Says which time something is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token(u64);

/// What is to be done by somebody who wants to ask.
pub(super) enum Asked {
    /// Ask, and say when it has answered.
    Ask(Token),
    /// Somebody else asks; it is told when that is over.
    Waits,
    Hangs(Late),
}

/// Something that hangs.
pub(super) struct Late {
    /// By the clock.
    pub since: Duration,
    pub medium: Option<Medium>,
}

/// What is known of something that hangs, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silent {
    pub path: String,
    /// By the clock.
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

    /// Whether something may be asked by `looker`. If somebody else asks, `then` is called when that has answered.
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

    /// It leads to this.
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

    /// Whether something that is asked hangs by now.
    pub(super) fn late(&self, name: &str, timeout: Duration) -> Option<Late> {
        self.all().asked.get(name).and_then(|hung| hung.late(timeout))
    }

    /// What a path that has not answered leads to, if that could be learnt.
    pub(super) fn medium(&self, path: &str) -> Option<Medium> {
        self.all().asked.get(path).and_then(|hung| hung.medium)
    }

    /// What hangs, and is known by more than its path.
    pub(super) fn media(&self, timeout: Duration) -> Vec<Medium> {
        self.all().asked.values().filter_map(|hung| hung.late(timeout)?.medium).collect()
    }

    /// All that do not answer for so long.
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

    /// One asks, others wait for the answer to that and no other, and who comes late is told so.
    #[test]
    fn nobody_asks_twice_and_nobody_is_forgotten() {
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
