//! Busy polling before sleeping: lower latency where the disks are fast, at the price of a
//! processor.
//!
//! Off by default (attribute `io_poll_time`), and only for threads that serve clients. An idle
//! thread polls for that time whether an I/O has ended or a client has sent something; after that
//! it sleeps.
//!
//! Only where it pays:
//!
//!   1. A thread that has polled in vain a number of times in a row rests: it sleeps at once for a
//!      number of waits, then tries again. Waits for disks and waits for clients are judged
//!      separately, since the ones may be short where the others are long.
//!   2. At most half of the processors, but at least one, poll for an engine at the same time: the
//!      processes that they wait for need some too.

use std::{
    cell::Cell,
    hint::spin_loop,
    num::NonZero,
    sync::{
        LazyLock,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// This many polls in vain in a row start a rest.
const MISSES: u32 = 8;
/// The number of waits without polling in a rest.
const REST: u32 = 256;

/// How long a thread polls at most; shared with the code that changes it.
#[derive(Debug, Default)]
pub struct PollTime(AtomicU64);

impl PollTime {
    /// Zero turns polling off.
    pub fn set(&self, time: Duration) {
        self.0.store(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    #[must_use]
    pub fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Relaxed))
    }
}

/// The two kinds of waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Disks,
    Clients,
}

/// The results of polling of a thread, for one kind of wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Habit {
    misses: u32,
    rest: u32,
}

impl Habit {
    /// Whether to poll this time.
    fn looks(&mut self) -> bool {
        let looks = self.rest == 0;
        self.rest = self.rest.saturating_sub(1);
        looks
    }

    fn learn(&mut self, came: bool) {
        if came {
            self.misses = 0;
        } else {
            self.misses += 1;
            if self.misses >= MISSES {
                // After the rest, a single poll in vain starts the next rest.
                *self = Self { misses: MISSES - 1, rest: REST };
            }
        }
    }
}

/// The results of polling of one thread.
#[derive(Default)]
pub(super) struct Habits([Cell<Habit>; 2]);

impl Habits {
    /// Permission for one poll, if it is likely to pay and a seat is free.
    pub fn begin<'a>(&'a self, kind: Kind, seats: &'a Seats) -> Option<Look<'a>> {
        let habit = &self.0[kind as usize];
        let mut now = habit.get();
        let looks = now.looks();
        habit.set(now);
        Some(Look { habit, _seat: looks.then(|| seats.take()).flatten()? })
    }
}

/// One poll by one thread.
pub(super) struct Look<'a> {
    habit: &'a Cell<Habit>,
    _seat: Seat<'a>,
}

impl Look<'_> {
    /// Polls until `has_come` is true, for `time` at most. Returns whether it was.
    pub fn until(self, time: Duration, has_come: impl FnMut() -> bool) -> bool {
        let came = look(time, has_come);
        let mut habit = self.habit.get();
        habit.learn(came);
        self.habit.set(habit);
        came
    }
}

fn look(time: Duration, mut has_come: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    loop {
        if has_come() {
            return true;
        }
        if began.elapsed() >= time {
            return false;
        }
        spin_loop();
    }
}

/// One seat for each thread that may poll at the same time.
pub(super) struct Seats {
    taken: AtomicUsize,
    all: usize,
}

struct Seat<'a>(&'a Seats);

pub(super) static SEATS: LazyLock<Seats> = LazyLock::new(|| {
    Seats::for_processors(thread::available_parallelism().map_or(1, NonZero::get))
});

impl Seats {
    fn for_processors(processors: usize) -> Self {
        Self { taken: AtomicUsize::new(0), all: (processors / 2).max(1) }
    }

    fn take(&self) -> Option<Seat<'_>> {
        let one_more = |taken| (taken < self.all).then_some(taken + 1);
        self.taken.fetch_update(Relaxed, Relaxed, one_more).ok().map(|_| Seat(self))
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often a thread polls in this many waits if every poll is in vain.
    fn looked_in_vain(habit: &mut Habit, waits: u32) -> u32 {
        let mut looked = 0;
        for _ in 0..waits {
            if habit.looks() {
                looked += 1;
                habit.learn(false);
            }
        }
        looked
    }

    #[test]
    fn a_thread_that_polls_in_vain_rests_and_tries_again() {
        let mut habit = Habit::default();
        assert_eq!(looked_in_vain(&mut habit, MISSES + REST), MISSES);
        assert_eq!(looked_in_vain(&mut habit, 10 * (REST + 1)), 10, "once after each rest");
        assert!(habit.looks());
        habit.learn(true);
        assert_eq!(
            looked_in_vain(&mut habit, MISSES),
            MISSES,
            "it was worth it, so it may fail as often as at first"
        );
    }

    #[test]
    fn waits_for_clients_say_nothing_about_disks() {
        let (habits, seats) = (Habits::default(), Seats::for_processors(1));
        for _ in 0..MISSES {
            let look = habits.begin(Kind::Clients, &seats).expect("it may be worth it");
            assert!(!look.until(Duration::ZERO, || false));
        }
        assert!(habits.begin(Kind::Clients, &seats).is_none(), "it rests");
        let look = habits.begin(Kind::Disks, &seats).expect("disks are another matter");
        assert!(habits.begin(Kind::Disks, &seats).is_none(), "the seat is taken");
        let mut looked = 0;
        let came = look.until(Duration::from_secs(60), || {
            looked += 1;
            looked == 3
        });
        assert!(came && habits.begin(Kind::Disks, &seats).is_some());
    }

    #[test]
    fn there_are_seats_for_half_of_the_processors() {
        for (processors, all) in [(1, 1), (2, 1), (3, 1), (4, 2), (64, 32)] {
            let seats = Seats::for_processors(processors);
            let mut taken: Vec<_> = (0..all).map(|_| seats.take().expect("there is one")).collect();
            assert!(seats.take().is_none(), "{processors} processors");
            taken.pop();
            assert!(seats.take().is_some(), "it was given back");
        }
    }
}
