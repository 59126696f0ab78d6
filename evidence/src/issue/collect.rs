//! Tallies of all threads, put together interval by interval, and rounds of them.

use super::{
    recorder::{INTERVAL, Recorder, Tally},
    steady::WINDOW,
    verify::Wrong,
    worker::{Request, Sink},
};
use plinth_workload::lock;
use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::Mutex,
};

/// Messages about failures and wrong blocks that are kept.
const MESSAGES_MAX: usize = 10;

/// An interval that has ended on all threads.
#[derive(Debug)]
pub struct Interval {
    /// Its end, seconds since measuring began.
    pub at: f64,
    /// Of each class.
    pub tallies: Vec<Tally>,
}

/// See above.
pub struct Collector {
    state: Mutex<State>,
    /// Nanoseconds of the run's clock.
    begin: u64,
    classes: usize,
    /// Intervals of a round; None: the run is one round.
    round: Option<u64>,
}

struct State {
    /// Of each thread, how many intervals it has handed over; None: all.
    handed: Vec<Option<u64>>,
    pending: BTreeMap<u64, Vec<Tally>>,
    /// For the observer.
    ended: VecDeque<Interval>,
    /// Up to [`WINDOW`] rounds that have ended.
    rounds: VecDeque<Recorder>,
    rounds_ended: u32,
    current: Recorder,
    failed: Messages,
    wrong: Messages,
}

impl State {
    fn merge(&mut self, number: u64, tallies: &[Tally]) {
        let new = || vec![Tally::default(); tallies.len()];
        let all = self.pending.entry(number).or_insert_with(new);
        all.iter_mut().zip(tallies).for_each(|(sum, tally)| sum.merge(tally));
    }
}

/// The first few of many messages.
#[derive(Debug, Clone, Default)]
pub struct Messages {
    pub count: u64,
    pub first: Vec<String>,
}

impl Messages {
    fn add(&mut self, text: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < MESSAGES_MAX {
            let text = text();
            if !self.first.contains(&text) {
                self.first.push(text);
            }
        }
    }
}

impl Collector {
    #[must_use]
    pub fn new(threads: usize, classes: usize, begin: u64, round: Option<u64>) -> Self {
        let state = State {
            handed: vec![Some(0); threads],
            pending: BTreeMap::new(),
            ended: VecDeque::new(),
            rounds: VecDeque::new(),
            rounds_ended: 0,
            current: Recorder::new(classes, begin),
            failed: Messages::default(),
            wrong: Messages::default(),
        };
        Self { state: Mutex::new(state), begin, classes, round }
    }

    /// Intervals that have ended since the last call.
    pub fn ended(&self) -> Vec<Interval> {
        lock(&self.state).ended.drain(..).collect()
    }

    /// A thread hands nothing over any more.
    pub fn leave(&self, thread: usize) {
        let mut state = lock(&self.state);
        state.handed[thread] = None;
        self.advance(&mut state);
    }

    /// How many rounds have ended, and of the last [`WINDOW`] a value of each class.
    pub fn rounds(&self, value: impl Fn(&Tally, f64) -> f64) -> (u32, Vec<Vec<f64>>) {
        let state = lock(&self.state);
        let of_class = |class| {
            state.rounds.iter().map(|round| value(round.total(class), round.seconds())).collect()
        };
        (state.rounds_ended, (0..self.classes).map(of_class).collect())
    }

    /// All that was measured until `last`; with rounds, those of the window.
    #[must_use]
    pub fn result(self, last: u64) -> (Recorder, Messages, Messages) {
        let mut state = self.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        while let Some((number, tallies)) = state.pending.pop_first() {
            let end = self.begin + (number + 1) * INTERVAL;
            state.current.add(&tallies, end.min(last.max(self.begin + number * INTERVAL)));
        }
        state.current.close();
        let mut rounds: Vec<Recorder> = state.rounds.into();
        // A round that has only begun tells nothing beside whole ones.
        if rounds.is_empty() {
            rounds.push(state.current);
        }
        let mut rounds = rounds.into_iter();
        let mut all = rounds.next().expect("one was added if there was none");
        rounds.for_each(|next| all.append(&next));
        (all, state.failed, state.wrong)
    }

    fn advance(&self, state: &mut State) {
        let least = state.handed.iter().flatten().min().copied();
        while let Some(entry) = state.pending.first_entry()
            && least.is_some_and(|least| *entry.key() < least)
        {
            let (number, tallies) = entry.remove_entry();
            let end = self.begin + (number + 1) * INTERVAL;
            state.current.add(&tallies, end);
            let at = end.saturating_sub(self.begin) as f64 / 1e9;
            state.ended.push_back(Interval { at, tallies });
            if self.round.is_some_and(|round| (number + 1).is_multiple_of(round)) {
                let next = Recorder::new(self.classes, end);
                let mut round = std::mem::replace(&mut state.current, next);
                round.close();
                state.rounds.push_back(round);
                state.rounds_ended += 1;
                if state.rounds.len() > WINDOW {
                    state.rounds.pop_front();
                }
            }
        }
    }
}

impl Sink for Collector {
    fn interval(&self, thread: usize, number: u64, tallies: &[Tally]) {
        let mut state = lock(&self.state);
        state.merge(number, tallies);
        state.handed[thread] = Some(number + 1);
        self.advance(&mut state);
    }

    fn rest(&self, thread: usize, number: u64, tallies: &[Tally]) {
        let mut state = lock(&self.state);
        state.merge(number, tallies);
        state.handed[thread] = None;
        self.advance(&mut state);
    }

    fn wrong(&self, wrong: &Wrong) {
        lock(&self.state).wrong.add(|| format!("target {}, {wrong}", wrong.target + 1));
    }

    fn failed(&self, request: &Request, error: &io::Error) {
        lock(&self.state).failed.add(|| {
            let doing = if request.kind == super::engine::Kind::Read { "read" } else { "write" };
            format!(
                "target {}: {doing} of {} bytes at {}: {error}",
                request.target + 1,
                request.length,
                request.offset
            )
        });
    }
}
