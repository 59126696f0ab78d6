//! Files that are less redundant than they should be: some of their mirrors are on disks that are
//! not ONLINE.
//!
//! Nothing is lost yet, but the next failure may lose them. The view `v$asm_missing_mirror` lists
//! all of them.

use crate::{
    admin::{AdminError, Report, Value},
    catalog::tables::missing_mirror::{self, MissingMirror},
    check::Upkeep,
    disk::member::Member,
    space::mirror_sets::MirrorCount,
};
use plinth_format::{Redundancy, membership::DiskState};
use std::sync::Arc;

/// Most files that a check names; the rest is counted.
const FILES_NAMED: usize = 50;

impl Report {
    /// Adds the result of [`Upkeep::missing_mirrors`]. An error does not fail the check.
    pub fn name_missing(&mut self, missing: Result<Vec<String>, AdminError>) {
        match missing {
            Ok(missing) => self.missing.extend(missing),
            Err(error) => self
                .remarks
                .push(format!("files without all their mirrors cannot be named: {error}")),
        }
    }
}

impl Upkeep {
    /// Sentences about files with missing mirrors, the most exposed first, and the number of the
    /// others.
    ///
    /// # Errors
    /// If the query on the catalog fails.
    pub async fn missing_mirrors(&self) -> Result<Vec<String>, AdminError> {
        let away = |member: &&Arc<Member>| !member.quorum && member.state() != DiskState::Online;
        let away: Vec<_> =
            self.members.values().filter(away).map(|member| member.name().to_string()).collect();
        let lacks =
            |(set, own, _): &(Vec<_>, MirrorCount, u64)| set.len() < usize::from(own.to_column());
        let reduced =
            self.redundancy() == Redundancy::Normal && self.mirror_sets.wishes().iter().any(lacks);
        if away.is_empty() && !reduced {
            return Ok(Vec::new());
        }
        let found = self.query(&missing_mirror::query(FILES_NAMED)).await?;
        let away = if away.is_empty() {
            "too few failure groups".to_owned()
        } else {
            format!("not ONLINE: {}", away.join(", "))
        };
        let mut texts = Vec::new();
        let mut total = 0;
        for row in &found.rows {
            let Some(row) = missing_mirror::of_row(row) else { continue };
            let wanted = match row.redundancy {
                Value::Text(word) if word == "HIGH" => 3,
                Value::Text(word) if word == "MIRROR" => 2,
                _ => 1,
            };
            total = usize::try_from(row.total).unwrap_or(0);
            let name = if let Value::Text(name) = row.name {
                name
            } else {
                "a file that is not in any directory"
            };
            let MissingMirror { number, extents, mirrors_left: left, .. } = row;
            texts.push(format!(
                "{name} (file {number}): of {extents} extents mirrors are missing, {left} of {wanted} are left; {away}"
            ));
        }
        if total > texts.len() {
            texts.push(format!(
                "and {} files more: v$asm_missing_mirror has them",
                total - texts.len()
            ));
        }
        Ok(texts)
    }
}
