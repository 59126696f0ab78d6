//! Extended attributes: all of a file's are read at once, and then answered from memory.
//!
//! The kernel reads `security.capability` before writes through its page cache, so the answer that
//! there are none has to come from memory.

use super::{File, Files, Origin, Result, Xattrs, reply_cache::Asked};
use crate::{
    api::{Invalidation, NAME_MAX, Node, SetXattr, XATTR_MAX},
    catalog::{CommitNumber, tables},
    error::FileError,
    planted::{self, Bug},
};
use rusqlite::Connection;
use std::sync::Arc;

/// Capabilities of a program, whichever user runs it. They go with a write, as set-id bits do.
const CAPABILITY: &[u8] = b"security.capability";

/// Inside a job: takes a file's capabilities away. Whether it had any; what is in memory of its
/// attributes is wrong then.
pub(super) fn delete_capability(connection: &Connection, node: Node) -> rusqlite::Result<bool> {
    tables::xattr::delete(connection, node, CAPABILITY)
}

fn check_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(FileError::Range);
    }
    // Access control lists would have to be obeyed, not only kept.
    if name.starts_with(b"system.posix_acl_") {
        return Err(FileError::NotSupported);
    }
    Ok(())
}

impl Files {
    async fn with_xattrs<T>(&self, node: Node, look: impl FnOnce(&Xattrs) -> T) -> Result<T> {
        let file = self.get(node).await?;
        if let Some(known) = &*file.xattrs.lock() {
            return Ok(look(known));
        }
        let seen = self.catalog.committed();
        let found =
            self.catalog.read(move |connection| Ok(tables::xattr::load(connection, node)?)).await?;
        let value = look(&found);
        let mut known = file.xattrs.lock();
        if known.is_none() && (seen >= file.last_commit() || planted::has(Bug::OldXattrsKept)) {
            *known = Some(found);
        }
        Ok(value)
    }

    /// # Errors
    /// `NoAttribute`.
    pub async fn xattr(&self, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        check_name(name)?;
        self.with_xattrs(node, |all| all.get(name).cloned()).await?.ok_or(FileError::NoAttribute)
    }

    /// The names, in a stable order.
    ///
    /// # Errors
    /// If the catalog fails.
    pub async fn xattrs(&self, node: Node) -> Result<Vec<Vec<u8>>> {
        self.with_xattrs(node, |all| all.keys().cloned().collect()).await
    }

    /// # Errors
    /// `Exists` or `NoAttribute` as `mode` requires, `Range` if it is too long, `NoSpace` if there
    /// are too many.
    pub async fn set_xattr(
        &self,
        asked: impl Into<Asked>,
        node: Node,
        name: &[u8],
        value: &[u8],
        mode: SetXattr,
    ) -> Result<()> {
        let asked = asked.into();
        check_name(name)?;
        if value.len() > XATTR_MAX {
            return Err(FileError::Range);
        }
        self.get(node).await?;
        let (files, name, value) = (self.strong(), name.to_vec(), value.to_vec());
        let job = move |connection: &Connection| {
            let mut all = files.xattrs_in(connection, node)?;
            match (mode, all.contains_key(&name)) {
                (SetXattr::Create, true) => return Err(FileError::Exists),
                (SetXattr::Replace, false) => return Err(FileError::NoAttribute),
                _ => {}
            }
            tables::xattr::set(connection, node, &name, &value)?;
            all.insert(name, value);
            if all.keys().map(|name| name.len() + 1).sum::<usize>() > XATTR_MAX {
                return Err(FileError::NoSpace);
            }
            asked.record(connection, None)?;
            files.xattrs_changed(connection, node, all)
        };
        self.catalog.write(false, job).await?;
        self.invalidate(asked.origin, &Invalidation::Node(node));
        Ok(())
    }

    /// # Errors
    /// `NoAttribute`.
    pub async fn remove_xattr(
        &self,
        asked: impl Into<Asked>,
        node: Node,
        name: &[u8],
    ) -> Result<()> {
        let asked = asked.into();
        check_name(name)?;
        self.get(node).await?;
        let (files, name) = (self.strong(), name.to_vec());
        let job = move |connection: &Connection| {
            let mut all = files.xattrs_in(connection, node)?;
            if all.remove(&name).is_none() {
                return Err(FileError::NoAttribute);
            }
            tables::xattr::delete(connection, node, &name)?;
            asked.record(connection, None)?;
            files.xattrs_changed(connection, node, all)
        };
        self.catalog.release(false, job).await?;
        self.invalidate(asked.origin, &Invalidation::Node(node));
        Ok(())
    }

    /// Takes a file's capabilities away, if it has any.
    ///
    /// # Errors
    /// If the catalog fails.
    pub async fn drop_capability(&self, origin: Origin, node: Node) -> Result<()> {
        if !self.with_xattrs(node, |all| all.contains_key(CAPABILITY)).await? {
            return Ok(());
        }
        match self.remove_xattr(origin, node, CAPABILITY).await {
            Err(FileError::NoAttribute) => Ok(()),
            other => other,
        }
    }

    fn cached(&self, node: Node) -> Option<Arc<File>> {
        self.cache.lock().files.get(&node).cloned()
    }

    fn xattrs_in(&self, connection: &Connection, node: Node) -> Result<Xattrs> {
        let known = self.cached(node).and_then(|file| file.xattrs.lock().clone());
        Ok(match known {
            Some(known) => known,
            None => tables::xattr::load(connection, node)?,
        })
    }

    /// The last act of a job that changed them.
    fn xattrs_changed(&self, connection: &Connection, node: Node, all: Xattrs) -> Result<()> {
        let now = self.world.now();
        let commit = CommitNumber(self.next_commit());
        let file = match self.cached(node) {
            Some(file) => file,
            None => {
                let file = File::new(
                    tables::file::load(connection, node)?.ok_or(FileError::Stale(node))?,
                    commit,
                );
                self.insert(&mut self.cache.lock(), Arc::clone(&file));
                file
            }
        };
        tables::file::set_changed(connection, node, now)?;
        file.attributes().changed = now;
        file.committed(commit);
        *file.xattrs.lock() = Some(all);
        Ok(())
    }
}
