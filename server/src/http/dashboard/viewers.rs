//! Viewers: open dashboards, and programs that ask for the state. And threads that read while there
//! are some.
//!
//! A thread for each source, because each may hang for itself. It keeps the last value with the
//! time at which it was read.

use plinth_host::{lock, priority::lower_priority};
use std::{
    io,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How long one question for the state counts as a viewer.
const QUESTION: Duration = Duration::from_secs(5);
/// Streams at one time: with that many, half of the seats are left.
pub(super) const STREAMS_MAX: usize = 64;

/// The viewers that there are.
#[derive(Default)]
pub(super) struct Viewers {
    present: Mutex<Present>,
    changed: Condvar,
}

#[derive(Default)]
struct Present {
    streams: usize,
    /// When the state was last asked for without a stream.
    asked: Option<Instant>,
}

impl Present {
    fn are_there(&self) -> bool {
        self.streams > 0 || self.asked.is_some_and(|asked| asked.elapsed() < QUESTION)
    }
}

/// A viewer with a stream, until it is dropped.
pub(in crate::http) struct Viewer(Arc<Viewers>);

impl Drop for Viewer {
    fn drop(&mut self) {
        let mut present = lock(&self.0.present);
        present.streams = present.streams.saturating_sub(1);
    }
}

impl Viewers {
    /// The state is asked for without a stream.
    pub fn note_question(&self) {
        lock(&self.present).asked = Some(Instant::now());
        self.changed.notify_all();
    }

    /// A viewer more. `None`: there are [`STREAMS_MAX`].
    pub fn admit(self: Arc<Self>) -> Option<Viewer> {
        let mut present = lock(&self.present);
        if present.streams >= STREAMS_MAX {
            return None;
        }
        present.streams += 1;
        drop(present);
        self.changed.notify_all();
        Some(Viewer(self))
    }

    /// Waits until there is a viewer.
    pub fn wait(&self) {
        let present = lock(&self.present);
        let waited = self.changed.wait_while(present, |present| !present.are_there());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Reads again and again while there are viewers, until the source is dropped. `None` of a
    /// reading keeps the value before.
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
        let (viewers, to) = (Arc::clone(self), Arc::downgrade(&source));
        thread::Builder::new().name(name.into()).spawn(move || {
            lower_priority();
            while to.strong_count() > 0 {
                viewers.wait();
                // A value is as old as the beginning of its reading.
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

/// The last reading of a thread.
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
    fn nothing_is_read_without_viewers_and_nothing_is_lost_when_a_reading_fails() {
        let viewers = Arc::<Viewers>::default();
        let (said, told) = mpsc::channel();
        let mut count = 0;
        let source = viewers
            .keep_reading("test", Duration::ZERO, move || {
                count += 1;
                said.send(count).ok()?;
                (count == 1).then_some(count)
            })
            .expect("a thread");
        assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "there is no viewer");
        assert!(source.last().is_none());
        let viewer = Arc::clone(&viewers).admit().expect("there is room");
        for meant in 1..4 {
            assert_eq!(told.recv(), Ok(meant));
        }
        assert_eq!(source.last().map(|(_, value)| *value), Some(1));
        // The thread ends, so its side of the channel closes.
        drop(source);
        while told.recv().is_ok() {}
        drop(viewer);
    }

    #[test]
    fn there_are_never_more_streams_than_may_be() {
        let viewers = Arc::<Viewers>::default();
        let admit = || Arc::clone(&viewers).admit();
        let all: Vec<_> = std::iter::from_fn(admit).take(1000).collect();
        assert_eq!(all.len(), STREAMS_MAX);
        assert!(admit().is_none() && lock(&viewers.present).are_there());
        drop(all);
        assert!(admit().is_some() && !lock(&viewers.present).are_there());
    }
}
