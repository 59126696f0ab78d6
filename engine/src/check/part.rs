//! A part of a group, and its extents: what CHECK and SCRUB are told to look at.
//!
//! Of files it is their extents, and the shared extents that small ones lie in; of disks, every extent with a mirror there. Which
//! extents a file has is asked once, at the beginning: what is made meanwhile is left out, what is deleted meanwhile is not looked at.
//!
//! Files are named as everywhere (`files/paths.rs`): `+DATA/pg/base/1`, `+DATA.259.1234`; what does not begin with `+` is a path from the
//! group's root.

use crate::{
    admin::{AdminError, Code, Scope},
    api::{Attributes, Kind},
    error::FileError,
    extent::Extent,
    files::paths,
    group::Group,
};
use plinth_format::DiskNumber;
use rusqlite::params;
use std::{collections::BTreeSet, sync::Arc};

/// Extents of a file that are looked at in one go.
const AT_ONCE: usize = 256;

/// What a [`Scope`] comes to.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    All,
    /// What has a mirror on one of these.
    Disks(Vec<DiskNumber>),
    /// Ids of extents, ascending.
    Extents(Vec<u64>),
}

/// Some extents of a part, and the id to go on from.
pub(crate) type Batch = (Vec<Arc<Extent>>, u64);

impl Part {
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

impl Group {
    /// # Errors
    /// If a disk, a failure group or a file is not there.
    pub(crate) async fn part(&self, scope: &Scope) -> Result<Part, AdminError> {
        match scope {
            Scope::All => Ok(Part::All),
            Scope::Disks(which) => Ok(Part::Disks(self.select(which)?.iter().map(|member| member.number).collect())),
            Scope::Files(names) => {
                let mut ids = BTreeSet::new();
                for name in names {
                    let file = self.file_named(name).await?;
                    if file.kind != Kind::Regular {
                        return Err(self.no_file(name, "it is not a regular file"));
                    }
                    let node = file.node.cast_signed();
                    let of = self.catalog.read(move |connection| {
                        let mut select = connection.prepare_cached(
                            "SELECT id FROM extent WHERE file = ?1 \
                             UNION SELECT shared_extent FROM file WHERE number = ?1 AND shared_extent IS NOT NULL",
                        )?;
                        let rows = select.query_map([node], |row| row.get::<_, i64>(0))?;
                        Ok(rows.map(|id| id.map(i64::cast_unsigned)).collect::<rusqlite::Result<Vec<u64>>>()?)
                    });
                    ids.extend(of.await.map_err(|error| AdminError::new(Code::Io, error))?);
                }
                Ok(Part::Extents(ids.into_iter().collect()))
            }
        }
    }

    /// The next extents of a part; `None`: there are no more.
    pub(crate) async fn some_of(&self, part: &Part, from: u64) -> Result<Option<Batch>, FileError> {
        if let Part::Extents(ids) = part {
            let begin = ids.partition_point(|id| *id < from);
            let ids: Vec<u64> = ids[begin..].iter().copied().take(AT_ONCE).collect();
            let Some(last) = ids.last().copied() else { return Ok(None) };
            return Ok(Some((self.alive(ids).await?, last + 1)));
        }
        let Some((mut extents, next)) = self.some_alive(from).await? else { return Ok(None) };
        extents.retain(|extent| part.wants(extent));
        Ok(Some((extents, next)))
    }

    /// How many extents a part has from an id on.
    pub(crate) async fn count_of(&self, part: &Part, from: u64) -> Result<u64, FileError> {
        let from = from.cast_signed();
        let counts = match part {
            Part::Extents(ids) => return Ok(ids.iter().filter(|id| id.cast_signed() >= from).count() as u64),
            Part::All => None,
            Part::Disks(disks) => Some(disks.clone()),
        };
        let count = self.catalog.read(move |connection| {
            let Some(disks) = &counts else {
                let all = "SELECT count(*) FROM extent WHERE id >= ?1";
                return Ok(connection.prepare_cached(all)?.query_row([from], |row| row.get::<_, i64>(0))?);
            };
            let list: Vec<String> = disks.iter().map(|disk| disk.0.to_string()).collect();
            let list = list.join(",");
            let some = format!(
                "SELECT count(*) FROM extent WHERE id >= ?1 AND (d0 IN ({list}) OR d1 IN ({list}) OR d2 IN ({list}))"
            );
            Ok(connection.query_row(&some, params![from], |row| row.get::<_, i64>(0))?)
        });
        Ok(count.await?.cast_unsigned())
    }

    /// The file that a statement names.
    ///
    /// # Errors
    /// If there is none of this name.
    pub async fn file_named(&self, name: &str) -> Result<Attributes, AdminError> {
        let form = if name.starts_with('+') { paths::parse(name, &self.name) } else { paths::behind_group(name, name) };
        let refused = |error: FileError| match error {
            FileError::Order(refusal) => *refusal,
            error => AdminError::new(Code::Io, format!("{name}: {error}")),
        };
        let node = self.files.resolve(form?).await.map_err(refused)?;
        let Some(node) = node else { return Err(self.no_file(name, "there is nothing of this name")) };
        match self.files.attributes(node).await {
            Ok(found) => Ok(found),
            Err(FileError::Stale(_) | FileError::NotFound) => Err(self.no_file(name, "it was removed just now")),
            Err(error) => Err(refused(error)),
        }
    }

    fn no_file(&self, name: &str, why: impl std::fmt::Display) -> AdminError {
        AdminError::new(Code::NoSuchFile, format!("disk group {} has no file '{name}': {why}", self.name))
            .hint("v$asm_alias has the names, v$asm_file the numbers")
    }
}
