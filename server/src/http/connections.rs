//! Seats: how many connections there may be, and which one ends when more come.
//!
//! A connection ends [`IDLE_MAX`] after its last request began, or after it was accepted, whatever
//! it does meanwhile: so a client that reads a byte a minute ends too. To a stream of events each
//! event counts as a request that the client has made room for.
//!
//! When all seats are taken, the next client gets one of:
//!
//!   1. a connection that has not sent a whole request yet, the oldest, while more than half of the
//!      seats are theirs;
//!   2. otherwise the connection whose last request is the oldest.
//!
//! A client that sends its request at once is neither, however many others there are.

use plinth_host::lock;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    task::AbortHandle,
    time::{Instant, interval},
};

/// Connections at one time: some scrapers, some browsers, and room for those that misbehave. Each
/// costs some 20 KiB, with TLS 60.
pub(super) const SEATS: usize = 128;
/// A scraper that asks twice a minute keeps its connection.
const IDLE_MAX: Duration = Duration::from_secs(35);

/// The connections that there are.
#[derive(Default)]
pub(crate) struct Connections {
    taken: Mutex<Taken>,
    /// Connections that were ended for one of the limits.
    cut: AtomicU64,
    requests: AtomicU64,
}

/// The limits of connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    pub open: u64,
    /// Connections that were ended for a limit.
    pub cut: u64,
    pub requests: u64,
}

#[derive(Default)]
struct Taken {
    next: u64,
    seats: BTreeMap<u64, Occupied>,
}

struct Occupied {
    /// When its last request began; before the first, when it was accepted.
    since: Instant,
    has_asked: bool,
    task: Option<AbortHandle>,
}

/// The seat of one connection, until it is dropped.
pub(crate) struct Seat {
    number: u64,
    connections: Arc<Connections>,
}

impl Taken {
    /// The connection that ends for the next one.
    fn least(&self) -> Option<u64> {
        let oldest = |has_asked: bool| {
            let seats = self.seats.iter().filter(|(_, seat)| seat.has_asked == has_asked);
            seats.min_by_key(|(_, seat)| seat.since).map(|(number, _)| *number)
        };
        let silent = self.seats.values().filter(|seat| !seat.has_asked).count();
        if silent > SEATS / 2 { oldest(false) } else { oldest(true).or_else(|| oldest(false)) }
    }
}

impl Connections {
    /// A seat for a connection that was accepted; another connection may end for it.
    pub fn take_seat(self: &Arc<Self>) -> Seat {
        let mut taken = lock(&self.taken);
        if taken.seats.len() >= SEATS
            && let Some(least) = taken.least()
        {
            self.cut(&mut taken, least);
        }
        let number = taken.next;
        taken.next += 1;
        let occupied = Occupied { since: Instant::now(), has_asked: false, task: None };
        taken.seats.insert(number, occupied);
        Seat { number, connections: Arc::clone(self) }
    }

    /// The connection of a seat is served by this task.
    pub fn occupy(&self, number: u64, task: AbortHandle) {
        if let Some(seat) = lock(&self.taken).seats.get_mut(&number) {
            seat.task = Some(task);
        }
    }

    fn cut(&self, taken: &mut Taken, number: u64) {
        if let Some(seat) = taken.seats.remove(&number) {
            seat.task.iter().for_each(AbortHandle::abort);
            self.cut.fetch_add(1, Relaxed);
        }
    }

    /// Ends connections whose time is over, for ever.
    pub async fn tend(&self) {
        let mut ticks = interval(Duration::from_secs(1));
        loop {
            ticks.tick().await;
            let mut taken = lock(&self.taken);
            let is_over = |seat: &Occupied| seat.since.elapsed() > IDLE_MAX;
            let over: Vec<u64> = taken
                .seats
                .iter()
                .filter(|(_, seat)| is_over(seat))
                .map(|(number, _)| *number)
                .collect();
            over.into_iter().for_each(|number| self.cut(&mut taken, number));
        }
    }

    pub fn counts(&self) -> ConnectionCounts {
        ConnectionCounts {
            open: lock(&self.taken).seats.len() as u64,
            cut: self.cut.load(Relaxed),
            requests: self.requests.load(Relaxed),
        }
    }
}

impl Seat {
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn progress(&self) -> Progress {
        Progress { number: self.number, connections: Arc::clone(&self.connections) }
    }

    /// A whole head has come.
    pub fn note_request(&self) {
        self.connections.requests.fetch_add(1, Relaxed);
        if let Some(seat) = lock(&self.connections.taken).seats.get_mut(&self.number) {
            (seat.since, seat.has_asked) = (Instant::now(), true);
        }
    }
}

/// Notes that the client of a stream has made room for the next event.
pub(crate) struct Progress {
    number: u64,
    connections: Arc<Connections>,
}

impl Progress {
    pub fn note(&self) {
        if let Some(seat) = lock(&self.connections.taken).seats.get_mut(&self.number) {
            seat.since = Instant::now();
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.connections.taken).seats.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(connections: &Arc<Connections>, count: usize, ask: bool) -> Vec<Seat> {
        let seat = |_| {
            let seat = connections.take_seat();
            if ask {
                seat.note_request();
            }
            seat
        };
        (0..count).map(seat).collect()
    }

    fn is_seated(seat: &Seat) -> bool {
        lock(&seat.connections.taken).seats.contains_key(&seat.number)
    }

    #[test]
    fn silent_connections_end_before_those_that_ask() {
        let connections = Arc::<Connections>::default();
        let asking = fill(&connections, 10, true);
        let silent = fill(&connections, 1000, false);
        let counts = connections.counts();
        assert_eq!((counts.open, counts.cut), (SEATS as u64, 1010 - SEATS as u64));
        assert!(asking.iter().all(is_seated));
        assert!(silent.last().is_some_and(is_seated), "the newest has time to ask");
        drop((asking, silent));
        assert_eq!(connections.counts().open, 0);
    }

    /// Many that have asked and read nothing do not keep out one that is about to ask.
    #[test]
    fn a_new_connection_has_time_to_ask_among_many_that_have_asked() {
        let connections = Arc::<Connections>::default();
        let asked = fill(&connections, 1000, true);
        let new = connections.take_seat();
        let others = fill(&connections, SEATS / 4, false);
        assert!(is_seated(&new) && others.iter().all(is_seated));
        assert!(!asked.first().is_some_and(is_seated) && asked.last().is_some_and(is_seated));
        assert_eq!(connections.counts().open, SEATS as u64);
    }
}
