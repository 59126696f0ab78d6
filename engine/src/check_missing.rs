//! Which files would not survive what their redundancy promises: those of which mirrors are on disks that are not ONLINE.
//!
//! Nothing is wrong with them, and everything may be with the next failure. The view `v$asm_missing_mirror` has all of them.

use crate::{
    admin::{AdminError, Report, Value},
    group::Group,
    member::Member,
};
use plinth_format::membership::DiskState;
use std::sync::Arc;

/// Files that a check names; the rest is counted.
const FILES_NAMED: usize = 50;

impl Report {
    /// Adds what [`Group::missing_mirrors`] says. That it cannot say it spoils no check.
    pub fn name_missing(&mut self, missing: Result<Vec<String>, AdminError>) {
        match missing {
            Ok(missing) => self.missing.extend(missing),
            Err(error) => self.remarks.push(format!("files without all their mirrors cannot be named: {error}")),
        }
    }
}

impl Group {
    /// Sentences on files of which mirrors are missing, the most exposed first, and how many more there are.
    ///
    /// # Errors
    /// What the catalog says.
    pub async fn missing_mirrors(&self) -> Result<Vec<String>, AdminError> {
        let away = |member: &&Arc<Member>| !member.quorum && member.state() != DiskState::Online;
        let away: Vec<_> = self.members.values().filter(away).map(|member| member.name().to_string()).collect();
        if away.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "SELECT file_number, name, extents, mirrors_left, count(*) OVER () FROM v$asm_missing_mirror ORDER BY mirrors_left, file_number";
        let found = self.query(&format!("{sql} LIMIT {FILES_NAMED}")).await?;
        let (wanted, away) = (self.redundancy().mirrors(), away.join(", "));
        let mut texts = Vec::new();
        let mut total = 0;
        for row in &found.rows {
            let [Value::Integer(number), name, Value::Integer(extents), Value::Integer(left), Value::Integer(all)] =
                &row[..]
            else {
                continue;
            };
            total = usize::try_from(*all).unwrap_or(0);
            let name = if let Value::Text(name) = name { name } else { "a file that is not in any directory" };
            texts.push(format!(
                "{name} (file {number}): of {extents} extents mirrors are missing, {left} of {wanted} are left; not ONLINE: {away}"
            ));
        }
        if total > texts.len() {
            texts.push(format!("and {} files more: v$asm_missing_mirror has them", total - texts.len()));
        }
        Ok(texts)
    }
}
