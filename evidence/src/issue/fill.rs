//! Fills targets with blocks that can be verified, before anything is measured.

use super::{
    engine::Kind,
    worker::{Due, Request, Source},
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Bytes of a write.
pub const SIZE: u64 = 1 << 20;
/// Writes in flight.
pub const DEPTH: usize = 8;

/// Writes all of the targets once.
pub struct Fill {
    /// Numbers of targets and their sizes.
    targets: Vec<(usize, u64)>,
    next: u64,
    version: u64,
    in_flight: usize,
    is_stopped: Arc<AtomicBool>,
}

impl Fill {
    #[must_use]
    pub fn new(targets: Vec<(usize, u64)>, version: u64, is_stopped: Arc<AtomicBool>) -> Self {
        Self { targets, next: 0, version, in_flight: 0, is_stopped }
    }
}

impl Source for Fill {
    fn due(&mut self, _: u64) -> Due {
        if self.is_stopped.load(Ordering::Relaxed) {
            return Due::Over;
        }
        let Some((target, size)) = self.targets.first().copied() else { return Due::Over };
        if self.next >= size {
            self.targets.remove(0);
            self.next = 0;
            return self.due(0);
        }
        if self.in_flight == DEPTH {
            return Due::Idle;
        }
        let offset = self.next;
        let length = SIZE.min(size - offset);
        self.next += length;
        self.in_flight += 1;
        Due::Now(Request {
            class: 0,
            target,
            offset,
            length: length as usize,
            kind: Kind::Write,
            start: None,
            ticket: Some(self.version),
            token: 0,
        })
    }

    fn ended(&mut self, _: &Request, _: u64) {
        self.in_flight -= 1;
    }

    fn is_open(&self) -> bool {
        false
    }
}
