//! A queue between tasks and the catalog's threads.

use crate::sync::lock::{Mutex, MutexGuard};
use std::{
    collections::VecDeque,
    future::poll_fn,
    task::{Poll, Waker},
};

struct State<T> {
    items: VecDeque<T>,
    closed: bool,
    waiting: Vec<Waker>,
}

/// A queue with several producers and several consumers; in order.
pub(super) struct Queue<T>(Mutex<State<T>>);

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State { items: VecDeque::new(), closed: false, waiting: Vec::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock()
    }

    /// Adds an item; returns it if the queue is closed.
    pub(super) fn put(&self, item: T) -> Result<(), T> {
        let waiting = {
            let mut state = self.lock();
            if state.closed {
                return Err(item);
            }
            state.items.push_back(item);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Closes the queue: nothing can be added any more; items in it can still be taken.
    pub(super) fn close(&self) {
        let waiting = {
            let mut state = self.lock();
            state.closed = true;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits for an item. `None` once the queue is closed and empty.
    pub(super) async fn take(&self) -> Option<T> {
        poll_fn(|context| {
            let mut state = self.lock();
            match state.items.pop_front() {
                Some(item) => Poll::Ready(Some(item)),
                None if state.closed => Poll::Ready(None),
                None => {
                    state.waiting.push(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// An item, if there is one now.
    pub(super) fn try_take(&self) -> Option<T> {
        self.lock().items.pop_front()
    }

    /// How many wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// Puts an item back at the front, even into a closed queue.
    pub(super) fn put_back(&self, item: T) {
        self.lock().items.push_front(item);
    }
}
