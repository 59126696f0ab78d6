//! `DROP DISKGROUP ... FORCE`: the disks of a group that cannot be mounted become free.
//!
//!   1. Claim every discovered disk whose header names the group (R1). If another engine, or its
//!      last I/O, holds one, nothing is done.
//!   2. Write to each a header that says FORMER.
//!
//! A crash half way leaves some disks FORMER and the others members of a group that may lack too
//! many: the same statement completes it. The content of the disks is not read, and a disk that is
//! missing is not known: its header still says that it is a member.

use crate::{
    admin::{AdminError, Code},
    disk::{headers::write_header, member::Member, originals::forget_group},
    event::{Event, Severity},
    group::{
        Group,
        claim::{Claimed, claim_members},
    },
    words::counted,
    world::World,
};
use plinth_format::header::{DiskHeader, Status};
use std::sync::Arc;

impl Group {
    /// Gives up a group that is not mounted. Returns the number of its discovered disks.
    ///
    /// # Errors
    /// If there is no such group, an engine holds one of its disks, or a disk cannot be written:
    /// then the others are given up.
    pub async fn drop_unmounted(world: &Arc<dyn World>, name: &str) -> Result<usize, AdminError> {
        let Claimed { probe_results, disks, unusable, .. } = claim_members(world, name).await?;
        let Some(first) = probe_results.first() else {
            return Err(AdminError::new(
                Code::NoGroup,
                format!("no disk of a disk group {name} was found"),
            )
            .hint("v$asm_disk shows the disks that there are"));
        };
        if let Some(other) = probe_results.iter().find(|one| one.header.group != first.header.group)
        {
            let text = format!(
                "{} and {} are of two disk groups that are both called {name}",
                first.path, other.path
            );
            return Err(AdminError::new(Code::DuplicateDisk, text)
                .hint("narrow the discovery string to the disks of the one that is meant"));
        }
        let tell = |severity, text: String| {
            world.event(Event { group: name.to_owned(), severity, disk: None, text });
        };
        let all = disks.len() + unusable.len();
        let mut failed: Vec<String> = unusable.into_iter().map(|disk| disk.why).collect();
        for (probe_result, disk) in probe_results.iter().zip(&disks) {
            let header = &probe_result.header;
            let former = DiskHeader {
                status: Status::Former,
                sequence: header.sequence + 1,
                ..header.clone()
            };
            let member = Member::stranger(header, Arc::clone(disk), world);
            match write_header(&member, &former, &former.layout.header_places()).await {
                Ok(()) => tell(
                    Severity::Note,
                    format!("disk {} ({}): its header says FORMER", header.name, probe_result.path),
                ),
                Err(reason) => {
                    failed.push(format!("disk {} ({}): {reason}", header.name, probe_result.path))
                }
            }
        }
        if let Some(first) = failed.first() {
            let text = format!(
                "disk group {name} is not dropped whole: {} of {} disks: {first}",
                failed.len(),
                all
            );
            return Err(AdminError::new(Code::Io, text)
                .hint("mend them or take them away, and give the statement again"));
        }
        forget_group(&**world, first.header.group);
        tell(
            Severity::Warning,
            format!(
                "disk group dropped by force, with all that it held: {}",
                counted(disks.len(), "disk")
            ),
        );
        Ok(disks.len())
    }
}
