//! Which pieces of an extent hold data, readable without a lock.
//!
//! The truth is in [`State`](super::State), from which these are set before its lock is released.

use super::State;
use plinth_format::Piece;
use std::sync::{
    OnceLock,
    atomic::{
        AtomicU64,
        Ordering::{Acquire, Release},
    },
};

/// Words beyond the first, for the largest AU: 1024 pieces.
const MORE: usize = 15;

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Marks {
    first: AtomicU64,
    more: OnceLock<Box<[AtomicU64; MORE]>>,
}

impl Marks {
    pub fn has(&self, piece: Piece) -> bool {
        let word = match (piece.0 / 64).checked_sub(1) {
            None => Some(&self.first),
            Some(other) => self.more.get().and_then(|more| more.get(other)),
        };
        word.is_some_and(|word| word.load(Acquire) & 1 << (piece.0 % 64) != 0)
    }

    /// They are as the state says.
    pub fn set(&self, state: &State) {
        let (written, pending) = (state.written.as_bytes(), state.pending.as_bytes());
        let byte =
            |index: usize| written.get(index).unwrap_or(&0) | pending.get(index).unwrap_or(&0);
        let word =
            |index: usize| u64::from_le_bytes(std::array::from_fn(|at| byte(index * 8 + at)));
        self.first.store(word(0), Release);
        let is_long = written.len().max(pending.len()) > 8;
        let more = if is_long {
            Some(self.more.get_or_init(|| Box::new([const { AtomicU64::new(0) }; MORE])))
        } else {
            self.more.get()
        };
        for (index, other) in (1..).zip(more.into_iter().flat_map(|more| more.iter())) {
            other.store(word(index), Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_those_of_the_state() {
        let marks = Marks::default();
        let mut state = State::default();
        let all =
            |marks: &Marks| (0..1100).filter(|piece| marks.has(Piece(*piece))).collect::<Vec<_>>();
        assert_eq!(all(&marks), []);
        state.written.add(Piece(3));
        state.pending.add(Piece(63));
        marks.set(&state);
        assert_eq!(all(&marks), [3, 63]);
        state.pending.add(Piece(64));
        state.pending.add(Piece(3));
        state.written.add(Piece(1023));
        marks.set(&state);
        assert_eq!(all(&marks), [3, 63, 64, 1023]);
        state.written.remove(Piece(1023));
        state.pending.remove(Piece(64));
        marks.set(&state);
        assert_eq!(all(&marks), [3, 63]);
    }
}
