//! Which files are volumes: a front end can write those, and neither truncate them nor write behind
//! their end. How volumes are made and dropped is `group/volume.rs`.

use crate::{
    api::Node,
    sync::lock::{AsyncMutex, RwLock},
};
use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
};

/// The volumes of a mounted group.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    /// Held while a volume is made or dropped.
    pub turn: AsyncMutex<()>,
    any: AtomicBool,
    files: RwLock<BTreeSet<Node>>,
}

impl Volumes {
    /// Whether a file is a volume's.
    pub fn has(&self, node: Node) -> bool {
        // Mostly there are none, and then no lock is taken.
        self.any.load(Ordering::Acquire) && self.files.read().contains(&node)
    }

    /// From now on these files are volumes.
    pub fn are(&self, files: BTreeSet<Node>) {
        let any = !files.is_empty();
        *self.files.write() = files;
        self.any.store(any, Ordering::Release);
    }
}
