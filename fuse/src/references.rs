//! How many references the kernel holds to each file, so that they can be given back when the mount goes: the kernel
//! does not tell then. After a take-over the count starts anew, and is too low: the kernel gives back more than it was given here.
//! That surplus is nobody else's, so it is not passed on; who holds such a file the engine asks (its `files/orphans.rs`).

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

    /// The kernel gives back so many: how many of them were given here.
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
    fn counts_go_up_and_down_and_never_below_nothing() {
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
