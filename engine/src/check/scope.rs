//! A part of a group, and its extents: what CHECK and SCRUB look at.
//!
//! For files these are their extents, and the shared extents that small ones are in; for disks,
//! every extent with a mirror there. The extents of a file are listed once, at the beginning:
//! extents that are made meanwhile are left out, extents that are deleted meanwhile are skipped.
//!
//! Files are named as everywhere (`files/paths.rs`): `+DATA/pg/base/1`, `+DATA.259.1234`; a name
//! that does not begin with `+` is a path from the group's root.

use crate::{
    admin::{AdminError, Scope},
    api::Kind,
    catalog::tables,
    check::Upkeep,
    extent::scope::ExtentScope,
    space::extent_id::ExtentId,
};
use std::collections::BTreeSet;

impl Upkeep {
    /// # Errors
    /// If a disk, a failure group or a file is not there.
    pub(crate) async fn part(&self, scope: &Scope) -> Result<ExtentScope, AdminError> {
        match scope {
            Scope::All => Ok(ExtentScope::All),
            Scope::Disks(which) => Ok(ExtentScope::Disks(
                self.select(which)?.iter().map(|member| member.number).collect(),
            )),
            Scope::Files(names) => {
                let mut ids = BTreeSet::new();
                for name in names {
                    let file = self.file_named(name).await?;
                    if file.kind != Kind::Regular {
                        return Err(self.no_file(name, "it is not a regular file"));
                    }
                    let node = file.node;
                    let of = self
                        .catalog
                        .read(move |connection| Ok(tables::extent::ids_of_file(connection, node)?));
                    ids.extend(of.await?);
                }
                Ok(ExtentScope::Extents(ids.into_iter().map(ExtentId).collect()))
            }
        }
    }
}
