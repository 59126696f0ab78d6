//! Whether somebody looks, and threads that read while somebody does.
//!
//! A thread for each source, because each may hang for itself. It keeps the last value with the time
//! at which it was read.

use plinth_host::lock;
use std::{
    io,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How long one question for the state counts as looking.
const LOOK: Duration = Duration::from_secs(5);
/// Streams at one time: with that many, half of the seats are left.
pub(super) const STREAMS_MAX: usize = 64;

/// Who looks.
#[derive(Default)]
pub(super) struct Watch {
    looks: Mutex<Looks>,
    changed: Condvar,
}

#[derive(Default)]
struct Looks {
    streams: usize,
    /// When somebody asked without a stream.
    asked: Option<Instant>,
}

impl Looks {
    fn are_there(&self) -> bool {
        self.streams > 0 || self.asked.is_some_and(|asked| asked.elapsed() < LOOK)
    }
}

/// One that looks until it is dropped.
pub(in crate::http) struct Attending(Arc<Watch>);

impl Drop for Attending {
    fn drop(&mut self) {
        let mut looks = lock(&self.0.looks);
        looks.streams = looks.streams.saturating_sub(1);
    }
}

impl Watch {
    /// Somebody wants to see the state once.
    pub fn want(&self) {
        lock(&self.looks).asked = Some(Instant::now());
        self.changed.notify_all();
    }

    /// Somebody looks from now on. `None`: there are [`STREAMS_MAX`].
    pub fn attend(self: Arc<Self>) -> Option<Attending> {
        let mut looks = lock(&self.looks);
        if looks.streams >= STREAMS_MAX {
            return None;
        }
        looks.streams += 1;
        drop(looks);
        self.changed.notify_all();
        Some(Attending(self))
    }

    /// Waits until somebody looks.
    pub fn wait(&self) {
        let looks = lock(&self.looks);
        let waited = self.changed.wait_while(looks, |looks| !looks.are_there());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Reads again and again while somebody looks, until the source is dropped. `None` of a reading
    /// keeps the value before.
    ///
    /// # Errors
    /// If there can be no more threads.
    pub fn keep_reading<T: Send + Sync + 'static>(
        self: &Arc<Self>,
        name: &str,
        pause: Duration,
        mut read: impl FnMut() -> Option<T> + Send + 'static,
    ) -> io::Result<Arc<Source<T>>> {
        let source = Arc::new(Source { last: Mutex::new(None) });
        let (watch, to) = (Arc::clone(self), Arc::downgrade(&source));
        thread::Builder::new().name(name.into()).spawn(move || {
            while to.strong_count() > 0 {
                watch.wait();
                // What is shown is as old as the beginning of its reading.
                let began = Instant::now();
                let found = read();
                let Some(source) = to.upgrade() else { return };
                if let Some(found) = found {
                    *lock(&source.last) = Some((began, Arc::new(found)));
                }
                drop(source);
                thread::sleep(pause);
            }
        })?;
        Ok(source)
    }
}

/// What a thread has read last.
pub(super) struct Source<T> {
    last: Mutex<Option<(Instant, Arc<T>)>>,
}

impl<T> Source<T> {
    /// The value and its age.
    pub fn last(&self) -> Option<(Duration, Arc<T>)> {
        lock(&self.last).as_ref().map(|(read, value)| (read.elapsed(), Arc::clone(value)))
    }

    #[cfg(test)]
    pub fn of(value: T) -> Self {
        Self { last: Mutex::new(Some((Instant::now(), Arc::new(value)))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn nothing_is_read_until_somebody_looks_and_nothing_is_lost_when_a_reading_fails() {
        let watch = Arc::<Watch>::default();
        let (said, told) = mpsc::channel();
        let mut count = 0;
        let source = watch
            .keep_reading("test", Duration::ZERO, move || {
                count += 1;
                said.send(count).ok()?;
                (count == 1).then_some(count)
            })
            .expect("a thread");
        assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "nobody looks");
        assert!(source.last().is_none());
        let attending = Arc::clone(&watch).attend().expect("there is room");
        for meant in 1..4 {
            assert_eq!(told.recv(), Ok(meant));
        }
        assert_eq!(source.last().map(|(_, value)| *value), Some(1));
        drop((attending, source));
        // The thread ends, so its side of the channel closes.
        while told.recv().is_ok() {}
    }

    #[test]
    fn there_are_never_more_streams_than_may_be() {
        let watch = Arc::<Watch>::default();
        let attend = || Arc::clone(&watch).attend();
        let all: Vec<_> = std::iter::from_fn(attend).take(1000).collect();
        assert_eq!(all.len(), STREAMS_MAX);
        assert!(attend().is_none() && lock(&watch.looks).are_there());
        drop(all);
        assert!(attend().is_some() && !lock(&watch.looks).are_there());
    }
}
