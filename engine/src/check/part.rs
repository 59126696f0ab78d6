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
    extent::part::Part,
    files::paths,
    group::Group,
};
use std::collections::BTreeSet;

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
