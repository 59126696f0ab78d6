//! How many references the kernel holds to each file. They are given back when the mount goes: the
//! kernel sends no FORGET then.
//!
//! After a take-over the count starts at zero, which is too low: the kernel gives back more
//! references than this front end gave it. The surplus was counted by the predecessor, so it is not
//! passed to the engine. For such files the engine asks the kernel (its `files/orphans.rs`).

use plinth_engine::api::Node;
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

#[derive(Default)]
pub(crate) struct References(Mutex<BTreeMap<Node, u64>>);

impl References {
    pub fn add(&self, node: Node) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(node).or_default() += 1;
    }

    /// The kernel gives back `count` references. Returns how many of them this front end gave it.
    pub fn remove(&self, node: Node, count: u64) -> u64 {
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(held) = nodes.get_mut(&node) else { return 0 };
        let removed = count.min(*held);
        *held -= removed;
        if *held == 0 {
            nodes.remove(&node);
        }
        removed
    }

    pub fn take_all(&self) -> BTreeMap<Node, u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_references_are_removed_than_were_added() {
        let references = References::default();
        for node in [2, 2, 3] {
            references.add(node);
        }
        assert_eq!(references.remove(2, 1), 1);
        assert_eq!(references.remove(3, 9), 1);
        assert_eq!(references.remove(4, 1), 0);
        assert_eq!(references.take_all(), BTreeMap::from([(2, 1)]));
        assert!(references.take_all().is_empty());
    }
}
