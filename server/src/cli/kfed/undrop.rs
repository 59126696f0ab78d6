//! `kfed undrop`: the disks of a dropped group are its members again.
//!
//! DROP DISKGROUP writes FORMER into the headers and nothing else: memberships, the catalog and the
//! data stay until the disks are used for something else. So the newest membership on the disks
//! says which of them were members at the end. These get the header back that says MEMBER; a disk
//! that was dropped from the group before that is none of them.

use super::{
    super::{
        Result,
        context::{Context, Run},
        raw_disk::{RawDisk, world},
    },
    before_image::{DiskChanges, apply},
    repair::{header_changes, newest},
};
use crate::sql_error::SqlError;
use clap::Args;
use plinth_engine::{
    admin::{AdminError, Code},
    disk::identify::probe,
    world::Found,
};
use plinth_format::{
    header::{DiskHeader, Status},
    membership::Membership,
};
use std::{path::PathBuf, sync::Arc};

/// Make the disks of a dropped disk group its members again.
///
/// The former content of the blocks is stored in a file first. Without --yes nothing is written.
#[derive(Debug, Args)]
pub(super) struct Undrop {
    /// All disks of the group.
    #[arg(required = true)]
    disks: Vec<PathBuf>,
    /// Write.
    #[arg(long)]
    yes: bool,
    /// Where to store what the blocks hold now.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

impl Run for Undrop {
    fn run(&self, context: &mut Context) -> Result<()> {
        let mut all = Vec::new();
        for path in &self.disks {
            let disk = RawDisk::open(path)?;
            if self.yes {
                disk.claim()?;
            }
            let header = newest(&disk)?;
            all.push((disk, header));
        }
        one_group(&all)?;
        no_twins(&all)?;
        let membership = newest_membership(&all)?;
        all_are_there(&all, &membership)?;
        let mut written = Vec::new();
        for (disk, header) in all {
            if !membership.disks.iter().any(|member| member.id == header.disk) {
                let text = "was no member any more when the group was dropped, and stays as it is";
                context.say(format!("{} (disk {}) {text}", disk.path, header.name));
                continue;
            }
            if header.status == Status::Member {
                context.say(format!("{} (disk {}) is a member", disk.path, header.name));
                continue;
            }
            let text = if self.yes { "is a member again" } else { "would be a member again" };
            context.say(format!("{} (disk {}) {text}", disk.path, header.name));
            let sequence = header.sequence.saturating_add(1);
            let member = DiskHeader { status: Status::Member, sequence, ..header };
            let changes = header_changes(&disk, &member)?;
            written.push(DiskChanges { disk, changes });
        }
        if written.is_empty() || !self.yes {
            let hint = if written.is_empty() { "" } else { "; --yes writes it" };
            context.say(format!("nothing is written{hint}"));
            return Ok(());
        }
        let saved = apply(context, "undrop", self.save.as_deref(), &written)?;
        context.say(format!("what was there before is in {}", saved.display()));
        context.say(format!("ALTER DISKGROUP {} MOUNT mounts it", membership.group_name));
        Ok(())
    }
}

pub(super) fn one_group(all: &[(RawDisk, DiskHeader)]) -> Result<()> {
    let Some((first, header)) = all.first() else { return Ok(()) };
    match all.iter().find(|(_, other)| other.group != header.group) {
        None => Ok(()),
        Some((other, _)) => {
            let text = format!("{} and {} are of two disk groups", first.path, other.path);
            Err(AdminError::new(Code::Invalid, text).hint("name the disks of one group").into())
        }
    }
}

/// Refuses two devices with one disk id: a mount would use neither.
fn no_twins(all: &[(RawDisk, DiskHeader)]) -> Result<()> {
    for (at, (disk, header)) in all.iter().enumerate() {
        let twin = all.iter().take(at).find(|(_, other)| other.disk == header.disk);
        if let Some((twin, _)) = twin {
            let text = format!("{} and {} are both disk {}", twin.path, disk.path, header.name);
            return Err(AdminError::new(Code::DuplicateDisk, text)
                .hint("name each disk once, and of a disk and its copy the disk")
                .into());
        }
    }
    Ok(())
}

/// Refuses a part of the disks that could be one of a group that went on without it: more than half
/// of the voters must be there, as for a mount.
fn all_are_there(all: &[(RawDisk, DiskHeader)], membership: &Membership) -> Result<()> {
    let is_there = |id| all.iter().any(|(_, header)| header.disk == id);
    let missing = membership.voters().filter(|voter| !is_there(voter.id));
    let missing: Vec<String> = missing.map(|voter| voter.name.clone()).collect();
    if missing.len() * 2 < membership.voters().count() {
        return Ok(());
    }
    let text = format!("too few disks of disk group {}", membership.group_name);
    let hint = format!("name all of them; {} is missing", missing.join(", "));
    Err(AdminError::new(Code::Invalid, text).hint(hint).into())
}

/// The newest membership on the disks.
pub(super) fn newest_membership(all: &[(RawDisk, DiskHeader)]) -> Result<Membership> {
    let world = world()?;
    let mut newest: Option<Membership> = None;
    for (disk, header) in all {
        let found = Found {
            path: disk.path.clone(),
            identity: disk.disk.identity(),
            disk: Ok(Arc::clone(&disk.disk)),
        };
        let probed = plinth_host::block_on(probe(&world, &found, &*disk.disk, header.clone()));
        newest = probed.memberships.into_iter().chain(newest).max_by_key(|one| one.generation);
    }
    newest.ok_or_else(|| {
        SqlError::from(
            AdminError::new(
                Code::Invalid,
                "no membership can be read on these disks, which says what the group's disks are",
            )
            .hint("name all disks of the group; kfed merge changes a single header"),
        )
    })
}
