//! The failure groups that reads prefer, as `asm_preferred_read_failure_groups` names them for one
//! disk group.
//!
//! The group does not store them: they are a setting of this host, and the instance passes them to
//! each engine. The list may name failure groups that do not exist, and counts for their disks when
//! they come.

use crate::{
    admin::{AdminError, Code},
    extent::data::Data,
};
use std::collections::BTreeSet;

impl Data {
    /// From now on reads go to disks of these failure groups where they can; no names: nothing is
    /// preferred.
    pub fn prefer_reads(&self, failure_groups: &BTreeSet<String>) {
        self.members.prefer(failure_groups.clone());
    }

    /// Checks that there are such failure groups.
    ///
    /// # Errors
    /// `NoSuchDisk`, with the first that does not exist.
    pub fn check_failure_groups<'a>(
        &self,
        names: impl IntoIterator<Item = &'a String>,
    ) -> Result<(), AdminError> {
        let known: BTreeSet<&str> =
            self.members.values().map(|member| member.failure_group.as_str()).collect();
        let Some(unknown) = names.into_iter().find(|name| !known.contains(name.as_str())) else {
            return Ok(());
        };
        let known: Vec<&str> = known.into_iter().collect();
        Err(AdminError::new(
            Code::NoSuchDisk,
            format!("disk group {} has no failure group {unknown}", self.name),
        )
        .hint(format!("its failure groups are {}", known.join(", "))))
    }
}
