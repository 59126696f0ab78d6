//! The extents of a scope, in batches: of the whole group, of some disks, of some files.
//!
//! A scope of files is a list of extents, made once, at the beginning: extents that are made
//! meanwhile are left out, extents that are deleted meanwhile are skipped.

use crate::{
    catalog::tables,
    error::FileError,
    extent::data::Data,
    extent::{self, Extent, Extents},
    space::extent_id::ExtentId,
};
use plinth_format::DiskNumber;
use rusqlite::Connection;
use std::sync::Arc;

/// Extents of one batch from the catalog.
const SOME: i64 = 256;
/// Extents of a file that are looked at in one go.
const AT_ONCE: usize = 256;

/// The extents that a [`Scope`](crate::admin::Scope) stands for.
#[derive(Debug, Clone)]
pub(crate) enum ExtentScope {
    All,
    /// Extents with a mirror on one of these.
    Disks(Vec<DiskNumber>),
    /// Ids of extents, ascending.
    Extents(Vec<ExtentId>),
}

/// Some extents of a part, and the id to go on from.
pub(crate) type Batch = (Vec<Arc<Extent>>, u64);

impl ExtentScope {
    /// Whether it is the whole group.
    pub fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }

    /// Whether a disk belongs to it; of files none does.
    pub fn has_disk(&self, disk: DiskNumber) -> bool {
        match self {
            Self::All => true,
            Self::Disks(disks) => disks.contains(&disk),
            Self::Extents(_) => false,
        }
    }

    fn wants(&self, extent: &Extent) -> bool {
        match self {
            Self::All | Self::Extents(_) => true,
            Self::Disks(disks) => extent.disks().any(|disk| disks.contains(&disk)),
        }
    }
}

impl Data {
    /// The next extents of a part; `None`: there are no more.
    pub(crate) async fn some_of(
        &self,
        part: &ExtentScope,
        from: u64,
    ) -> Result<Option<Batch>, FileError> {
        if let ExtentScope::Extents(ids) = part {
            let begin = ids.partition_point(|id| id.0 < from);
            let ids: Vec<ExtentId> = ids[begin..].iter().copied().take(AT_ONCE).collect();
            let Some(last) = ids.last().copied() else { return Ok(None) };
            return Ok(Some((self.alive(ids).await?, last.0 + 1)));
        }
        let Some((mut extents, next)) = self.some_alive(from).await? else { return Ok(None) };
        extents.retain(|extent| part.wants(extent));
        Ok(Some((extents, next)))
    }

    /// How many extents a part has from an id on.
    pub(crate) async fn count_of(&self, part: &ExtentScope, from: u64) -> Result<u64, FileError> {
        let disks = match part {
            ExtentScope::Extents(ids) => {
                let from = from.cast_signed();
                return Ok(ids.iter().filter(|id| id.cast_signed() >= from).count() as u64);
            }
            ExtentScope::All => None,
            ExtentScope::Disks(disks) => Some(disks.clone()),
        };
        let count = move |connection: &Connection| {
            Ok(match &disks {
                None => tables::extent::count_from(connection, from)?,
                Some(disks) => tables::extent::count_on_disks_from(connection, disks, from)?,
            })
        };
        self.catalog.read(count).await
    }

    /// Some of the extents that are alive, in the order of their ids, from `from` on; and where the
    /// next begin. `None`: there are none.
    pub(crate) async fn some_alive(
        &self,
        from: u64,
    ) -> Result<Option<(Vec<Arc<Extent>>, u64)>, FileError> {
        let ids: Vec<ExtentId> = self
            .catalog
            .read(move |connection| {
                Ok(tables::extent::ids_from(connection, from, SOME)?
                    .into_iter()
                    .map(ExtentId)
                    .collect())
            })
            .await?;
        let Some(last) = ids.last().copied() else { return Ok(None) };
        Ok(Some((self.alive(ids).await?, last.0 + 1)))
    }

    /// The extents with these ids that are alive, in memory. A caller that found the ids in a
    /// snapshot comes here: an extent may have been deleted since, and its AUs may have another
    /// owner. Deleting is the writer's job, and so is this.
    pub(crate) async fn alive(&self, ids: Vec<ExtentId>) -> Result<Vec<Arc<Extent>>, FileError> {
        let extents = Arc::clone(&self.extents);
        let look = move |connection: &Connection| {
            let mut alive = Vec::with_capacity(ids.len());
            for id in ids {
                alive.extend(find(connection, &extents, id)?);
            }
            Ok(alive)
        };
        self.catalog.release(false, look).await.map(|(alive, _)| alive)
    }
}

/// The extent with an id, in memory, if it is alive. For jobs: on the writer's thread extents begin
/// and end.
pub(crate) fn find(
    connection: &Connection,
    extents: &Extents,
    id: ExtentId,
) -> rusqlite::Result<Option<Arc<Extent>>> {
    match extents.get(id) {
        Some(extent) => Ok(Some(extent)),
        None => Ok(extent::load(connection, id)?.map(|extent| extents.get_or_insert(extent))),
    }
}
