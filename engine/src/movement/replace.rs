//! REPLACE DISK: another device takes the place of an offline disk: its number, its name, its
//! failure group and its size. Only what that disk held is copied.
//!
//!   1. Check and claim the device, as ADD does.
//!   2. Everything on the disk is stale, durably.
//!   3. Wipe the device's system area, and write a header with an id of its own: the old device is
//!      a stranger from now on.
//!   4. Record the disk as SYNCING under the new id. The rest is a resync like any other: a crash,
//!      a dismount or a failure of the new device leaves a list of what is stale there, and the
//!      next mount, or ONLINE, goes on with that.
//!
//! A crash before 4 leaves a header that names the group on a device that is not its member: the
//! next mount writes FORMER there. So it does on the old device, if that comes back after 4.

use crate::{
    admin::{AdminError, Code, NewDisk, Replacement, Selection},
    disk::{
        headers::{header_of, write_header},
        look::find_paths,
        member::Member,
        taken::{Taken, Wanted, take_disks, wipe_system_area},
    },
    event::Severity,
    movement::Movement,
    planted::{self, Bug},
};
use plinth_format::{Redundancy, header::Status, membership::DiskState};
use std::sync::Arc;

type Result<T> = std::result::Result<T, AdminError>;

impl Movement {
    /// Puts other devices in the place of disks that are offline, and begins to copy what those
    /// had.
    ///
    /// # Errors
    /// What is wrong with a disk or a device, before anything was changed; or which device failed
    /// half way: then the disks before it are replaced, and it and those after it are not.
    pub async fn replace(self: &Arc<Self>, replacements: &[Replacement]) -> Result<()> {
        let _one_at_a_time = self.exchanging.lock().await;
        let _nobody_returns = self.onlining.lock().await;
        let mut pairs = Vec::new();
        for replacement in replacements {
            let member = self.select(&Selection::Disks(vec![replacement.disk.clone()]))?.remove(0);
            self.check_replaceable(&member, replacement)?;
            if pairs.iter().any(|(other, _): &(Arc<Member>, _)| other.number == member.number) {
                let text = format!("disk {} is named twice in this statement", member.name());
                return Err(AdminError::new(Code::Invalid, text));
            }
            pairs.push((member, replacement));
        }
        let taken = self.find_replacements(&pairs).await?;
        for ((member, _), taken) in pairs.into_iter().zip(taken) {
            self.put_in_place(&member, taken).await?;
            let losses = member.losses();
            if member.state() != DiskState::Online {
                self.spawn_resync(&member, losses);
            }
        }
        Ok(())
    }

    /// The statement that gives a member's failure group the other disk and drops the member: so no
    /// extent has two mirrors in one.
    fn said_as_exchange(&self, member: &Member, replacement: &Replacement) -> String {
        let within = match self.voters.current().wanted {
            Redundancy::External => String::new(),
            _ if member.quorum => format!("QUORUM FAILGROUP {} ", member.failure_group),
            _ => format!("FAILGROUP {} ", member.failure_group),
        };
        let force = if replacement.force { " FORCE" } else { "" };
        let path = replacement.path.replace('\'', "''");
        format!(
            "ALTER DISKGROUP {} ADD {within}DISK '{path}'{force} DROP DISK {}",
            self.name,
            member.name()
        )
    }

    fn check_replaceable(&self, member: &Member, replacement: &Replacement) -> Result<()> {
        let name = &*member.name();
        if member.state() != DiskState::Offline {
            let text = format!("disk {name} of disk group {} is not OFFLINE", self.name);
            let keep = match member.state() {
                DiskState::Online => {
                    format!(
                        "; or keep all mirrors meanwhile: {}",
                        self.said_as_exchange(member, replacement)
                    )
                }
                _ => String::new(),
            };
            return Err(
                AdminError::new(Code::Invalid, text).hint(format!("take it OFFLINE first{keep}"))
            );
        }
        let membership = self.voters.current();
        let entry = membership.disk(member.number);
        if entry.is_none_or(|entry| entry.leaving) {
            let text = format!("disk {name} of disk group {} is being dropped", self.name);
            return Err(AdminError::new(Code::Invalid, text)
                .hint("UNDROP DISKS first, or ADD the other one"));
        }
        if entry.is_some_and(|entry| entry.votes) {
            let text = format!("disk {name} of disk group {} still has a vote", self.name);
            return Err(AdminError::new(Code::Busy, text)
                .hint("bring more disks ONLINE, that can vote in its place"));
        }
        Ok(())
    }

    /// Step 1.
    async fn find_replacements(&self, pairs: &[(Arc<Member>, &Replacement)]) -> Result<Vec<Taken>> {
        let disks: Vec<NewDisk> = pairs
            .iter()
            .map(|(member, replacement)| NewDisk {
                path: replacement.path.clone(),
                name: Some(member.name().to_string()),
                failure_group: Some(member.failure_group.clone()),
                quorum: member.quorum,
                size: None,
                force: replacement.force,
            })
            .collect();
        let membership = self.voters.current();
        let wanted = Wanted {
            group: &self.name,
            au_size: self.au_size,
            disks: &disks,
            numbers: pairs.iter().map(|(member, _)| member.number).collect(),
            of: Some((self.id, &membership)),
        };
        let found = find_paths(&*self.world).await?;
        let taken = take_disks(&self.world, &wanted, &found).await?;
        for ((member, replacement), one) in pairs.iter().zip(&taken) {
            self.check_sectors(&*one.disk)?;
            // It gets the size that the other one was to have.
            let target = membership.disk(member.number).and_then(|entry| entry.target);
            let target = target.filter(|_| !planted::has(Bug::SmallReplacement)).unwrap_or(0);
            let (has, needs) = (one.layout.size(), member.layout().size().max(target));
            if has < needs {
                let text = format!(
                    "disk {} has {has} bytes, disk {} needs {needs}",
                    one.disk.path(),
                    member.name()
                );
                let hint = format!(
                    "take a larger one; or {} FORCE",
                    self.said_as_exchange(member, replacement)
                );
                return Err(AdminError::new(Code::DiskTooSmall, text).hint(hint));
            }
        }
        Ok(taken)
    }

    /// Steps 2 to 4.
    async fn put_in_place(&self, member: &Arc<Member>, taken: Taken) -> Result<()> {
        let path = taken.disk.path().to_owned();
        let cannot = format!("disk {path} cannot take the place of disk {}", member.name());
        let failed =
            |why: &dyn std::fmt::Display| AdminError::new(Code::Io, format!("{cannot}: {why}"));
        if !member.wait_for_marks().await {
            return Err(failed(&"what the disk misses could not be recorded"));
        }
        if !planted::has(Bug::ReplacedStaleLate) {
            self.mark_everything_stale(member.number)
                .await
                .map_err(|error| error.while_doing(&cannot))?;
        }
        wipe_system_area(&taken, member.layout(), self.world.now()).await?;
        let before = member.become_another(taken.entry.id);
        member.release();
        member.attach(taken.disk);
        let former_label = member.set_label(taken.label);
        member.take_broken();
        let header =
            header_of(self.id, &self.voters.current(), member, self.created, Status::Member, 1);
        member.set_areas(header.record_areas());
        let admitted = match write_header(member, &header, &header.layout.header_places()).await {
            Ok(()) => self.voters.admit(member).await.map_err(|refusal| refusal.to_string()),
            Err(reason) => Err(reason),
        };
        if let Err(reason) = admitted {
            member.release();
            member.become_another(before);
            member.set_label(former_label);
            return Err(failed(&reason));
        }
        // They were the former device's.
        member.counters.disk_errors.forget();
        if planted::has(Bug::ReplacedStaleLate) {
            self.mark_everything_stale(member.number)
                .await
                .map_err(|error| error.while_doing(&cannot))?;
        }
        self.renew_header_of_new(member).await;
        let text =
            format!("disk {}: {path} takes its place, and gets all that it had", member.name());
        self.tell(Severity::Note, Some(member.number), text);
        Ok(())
    }
}
