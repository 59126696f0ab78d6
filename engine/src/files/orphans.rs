//! Holders of files that have no name any more.
//!
//! A front end counts the references that it gave the kernel, and the kernel gives them back. An
//! engine that takes a mount over has not seen what its predecessor gave, so its count is too low
//! for every file that there was then, and may fall to nothing while the kernel holds the file. For
//! those files the count can mean only "held", never "not held". So:
//!
//! ```text
//!   count 0, no name, before the take-over --> ask the kernel --has it--> stays; ask at `forget`
//!                                                            \--not---> released
//! ```
//!
//! The kernel can be asked because it answers a notification on a file that it does not have with
//! an error. It has the file as long as a program or a name in its cache does. An answer of ours
//! that brings the file and is on its way is no danger: it holds its directory's lock, and no name
//! of the file is removed through that mount meanwhile; where another front end removed it, what
//! the answer brings is a file that is gone, and the kernel looks again.
//!
//! Files made after the take-over are counted as always. When a mount is gone, whatever only it may
//! have held is released.
//!
//! Invariants:
//!
//!   1. A file is released only when no front end counts it, and every taken-over mount that may
//!      hold it has answered that its kernel does not have it.
//!   2. A file that the engine before left without a name is not released before every mount that
//!      is to be taken over was asked, or given up.

use super::{Files, Result};
use crate::{
    api::{ConnectionId, Node, Watcher},
    catalog::tables::{counter, counter::Counter},
    error::FileError,
    files::Origin,
    planted::{self, Bug},
};
use rusqlite::Connection;
use std::{collections::BTreeSet, sync::Arc};

/// A mount that an engine before this one served.
pub(super) struct Heir {
    /// Its kernel may hold files with lower numbers, without a reference that is counted here.
    below: Node,
    /// Its front end, once it serves.
    origin: Option<Origin>,
    /// Files without names that it does not hold.
    without: BTreeSet<Node>,
}

impl Heir {
    fn may_hold(&self, node: Node) -> bool {
        node < self.below && !self.without.contains(&node)
    }
}

impl super::Cache {
    /// Whether some front end may hold the file.
    pub(super) fn may_be_held(&self, node: Node) -> bool {
        self.references.contains_key(&node) || self.heirs.values().any(|heir| heir.may_hold(node))
    }

    /// The file is deleted.
    pub(super) fn forget_holders(&mut self, node: Node) {
        self.heirs.values_mut().for_each(|heir| _ = heir.without.remove(&node));
    }
}

impl Files {
    /// Before any front end is served: `connections` are going to be taken over. State that the
    /// engine before left for other connections is deleted.
    ///
    /// # Errors
    /// If the catalog fails.
    pub async fn resume(&self, connections: &[ConnectionId]) -> Result<()> {
        self.inherit_replies(connections).await?;
        let next = |connection: &Connection| {
            let next = counter::value(connection, Counter::Node)?;
            next.ok_or_else(|| FileError::Catalog(rusqlite::Error::QueryReturnedNoRows))
        };
        let below = self.catalog.read(next).await?;
        let heir = |connection: &ConnectionId| {
            (*connection, Heir { below, origin: None, without: BTreeSet::new() })
        };
        self.cache.lock().heirs = connections.iter().map(heir).collect();
        Ok(())
    }

    /// A front end of a mount. If it takes the mount over, its kernel is asked about every file
    /// that has no name.
    #[must_use]
    pub fn attach_mount(&self, watcher: Arc<dyn Watcher>, connection: ConnectionId) -> Origin {
        let origin = self.attach(Some(Arc::clone(&watcher)));
        let questions: Vec<Node> = {
            let mut cache = self.cache.lock();
            let orphans: Vec<Node> = cache.orphans.iter().copied().collect();
            match cache.heirs.get_mut(&connection) {
                Some(heir) => {
                    heir.origin = Some(origin);
                    orphans.into_iter().filter(|node| heir.may_hold(*node)).collect()
                }
                None => {
                    self.replies.start(connection);
                    Vec::new()
                }
            }
        };
        questions.into_iter().for_each(|node| watcher.still_holds(node));
        origin
    }

    /// Whether no front end counts a reference to it.
    pub(super) fn is_uncounted(&self, node: Node) -> bool {
        !self.cache.lock().references.contains_key(&node)
    }

    /// A file without a name, and without a reference that is counted: asks the mounts that may
    /// hold it, or releases it.
    pub(super) async fn let_go(&self, node: Node) -> Result<()> {
        let (held, asked): (bool, Vec<Origin>) = {
            let cache = self.cache.lock();
            let heirs = cache.heirs.values().filter(|heir| heir.may_hold(node));
            (cache.may_be_held(node), heirs.filter_map(|heir| heir.origin).collect())
        };
        if !held {
            return self.reap(node).await;
        }
        let watchers: Vec<_> = {
            let watchers = self.watchers.load();
            asked.iter().filter_map(|origin| watchers.get(origin).cloned()).collect()
        };
        watchers.iter().for_each(|watcher| watcher.still_holds(node));
        Ok(())
    }

    /// The answer to [`Watcher::still_holds`]: the kernel does not have the file. Does not wait:
    /// the file is released by a task.
    pub fn release_reference(&self, connection: ConnectionId, node: Node) {
        {
            let mut cache = self.cache.lock();
            if !cache.orphans.contains(&node) {
                return;
            }
            if let Some(heir) = cache.heirs.get_mut(&connection) {
                heir.without.insert(node);
            }
            if cache.may_be_held(node) {
                return;
            }
            cache.to_reap.insert(node);
            if std::mem::replace(&mut cache.is_reaping, true) {
                return;
            }
        }
        let files = self.strong();
        let release = self.data.begin_release();
        let task = async move {
            let _release = release;
            loop {
                let next = {
                    let mut cache = files.cache.lock();
                    let next = cache.to_reap.pop_first();
                    cache.is_reaping = next.is_some();
                    next
                };
                let Some(node) = next else { return };
                // After a failure here the next mount finds it again.
                let _ = files.reap(node).await;
            }
        };
        self.world.spawn("release", Box::pin(task));
    }

    /// A mount is gone, or is not taken over: so is all that only it held, and what it may have
    /// asked again.
    ///
    /// # Errors
    /// If the catalog fails.
    pub async fn end_mount(&self, connection: ConnectionId) -> Result<()> {
        let was_heir = self.cache.lock().heirs.remove(&connection).is_some();
        self.delete_replies(connection).await?;
        if was_heir && !planted::has(Bug::HeirKeeps) {
            self.reap_orphans().await?;
        }
        Ok(())
    }
}
