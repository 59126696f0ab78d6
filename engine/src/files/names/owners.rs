//! Owners and modes of many files, and the other changes of the statement, in one commit.

use super::{Edits, MODE_BITS};
use crate::{
    api::{Changes, Invalidation, Kind, Node, without_set_id},
    catalog::tables::entry,
    files::{Files, Origin, Result, xattrs::delete_capability},
};
use rusqlite::Connection;
use std::sync::atomic::Ordering;

impl Files {
    /// Permission bits that new regular files do not get from now on.
    pub fn set_creation_mask(&self, mask: u32) {
        self.creation_mask.store(mask, Ordering::Relaxed);
    }

    pub(super) fn creation_mask(&self) -> u32 {
        self.creation_mask.load(Ordering::Relaxed)
    }

    /// Runs a job that returns which files get another owner, group or mode, and gives them these.
    /// All of it is one durable commit, or nothing.
    ///
    /// # Errors
    /// The error of the job; `Stale` if one of the files is not there.
    pub async fn change_owners<T: Send + 'static>(
        &self,
        origin: Origin,
        job: impl FnOnce(&Connection) -> Result<(T, Vec<(Node, Changes)>)> + Send + 'static,
    ) -> Result<T> {
        let files = self.strong();
        let job = move |connection: &Connection| {
            let (value, changes) = job(connection)?;
            let now = files.world.now();
            let mut edits = Edits::new(&files, connection);
            let (mut nodes, mut bare) = (Vec::with_capacity(changes.len()), Vec::new());
            for (node, changes) in changes {
                let file = edits.edit(node)?;
                if (changes.uid.is_some() || changes.gid.is_some()) && file.kind != Kind::Directory
                {
                    file.mode = without_set_id(file.mode);
                    bare.push(node);
                }
                file.uid = changes.uid.unwrap_or(file.uid);
                file.gid = changes.gid.unwrap_or(file.gid);
                file.mode = changes.mode.map_or(file.mode, |mode| mode & MODE_BITS);
                file.changed = now;
                nodes.push(node);
            }
            let mut lost = Vec::new();
            for node in bare {
                // Capabilities go with the owner, as set-id bits do.
                if delete_capability(connection, node)? {
                    lost.push(node);
                }
            }
            edits.apply(None)?;
            for node in lost {
                if let Some(file) = files.cache.lock().files.get(&node) {
                    *file.xattrs.lock() = None;
                }
            }
            Ok((value, nodes))
        };
        let ((value, nodes), _) = self.catalog.write(true, job).await?;
        for node in nodes {
            self.invalidate(origin, &Invalidation::Node(node));
        }
        Ok(value)
    }

    /// Where a file's names are: directory and name of each.
    ///
    /// # Errors
    /// If the catalog fails.
    pub async fn names_of(&self, node: Node) -> Result<Vec<(Node, Vec<u8>)>> {
        let find = move |connection: &Connection| Ok(entry::names_of(connection, node)?);
        // On the writer's thread: a snapshot may be older than what the caller has just done.
        self.catalog.release(false, find).await.map(|(names, _)| names)
    }
}
