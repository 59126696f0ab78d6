//! The group looks at its disks every second: those that fail too often, and those far slower than
//! the others, go offline where they can be spared.
//!
//! The counters and limits are in `disk/health.rs`, the comparison with the others in
//! `disk/slow.rs`.

use crate::{
    disk::{
        counters::IoClient,
        disk_errors::Trouble,
        full,
        member::Member,
        members::Members,
        slow::{Change, WINDOW, totals},
    },
    error::no_room,
    event::Severity,
    extent::data::Data,
    space::AuState,
    world::World,
};
use plinth_format::{Au, BLOCK_SIZE, DiskNumber, layout::HEADER_PLACE, membership::DiskState};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

/// How often the group looks.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// The disks that have no room in the thin pool below them, or have it again (`disk/full.rs`), each
/// once: in words for the operator. To be asked every second.
pub(crate) fn full_disks(
    members: &Members,
    world: &dyn World,
) -> Vec<(Severity, DiskNumber, String)> {
    let of = |member: &Arc<Member>| {
        let change = member.room.change(world.monotonic())?;
        let disk = format!(
            "disk {} ({}) in failure group {}",
            member.name(),
            member.path(),
            member.failure_group
        );
        let (severity, text) = match change {
            full::Change::Full(from) => {
                (Severity::Alarm, format!("{disk}: writes wait: {}", no_room(&from.words)))
            }
            full::Change::Over => {
                (Severity::Note, format!("{disk}: writes find room again, and go on"))
            }
        };
        Some((severity, member.number, text))
    };
    members.values().filter_map(of).collect()
}

impl Data {
    /// Looks at all disks every second.
    pub(crate) fn spawn_health(self: &Arc<Self>) {
        let world = Arc::clone(&self.world);
        self.spawn_while_mounted("health", |group| async move {
            for round in 1_u64.. {
                world.sleep(LOOK).await;
                let group = group.upgrade().filter(|group| !group.voters.is_closing())?;
                if !group.is_stopping() {
                    for (severity, disk, text) in full_disks(&group.members, &*group.world) {
                        group.tell(severity, Some(disk), text);
                    }
                    group.judge_disks().await;
                    if round.is_multiple_of(WINDOW.as_secs() / LOOK.as_secs()) {
                        group.compare_speeds().await;
                    }
                }
            }
            None
        });
    }

    /// Takes disks offline that fail too often, or says that they cannot be spared.
    async fn judge_disks(&self) {
        let limits = self.attributes().limits();
        for member in self.members.values().filter(|member| member.state() == DiskState::Online) {
            let Some(many) = member.health.judge(self.world.monotonic(), &limits) else {
                member.health.has_alarmed.store(false, Relaxed);
                continue;
            };
            let name = member.name();
            let remedy = format!(
                "It should be replaced: ALTER DISKGROUP {} REPLACE DISK {name} WITH 'path'",
                self.name
            );
            // A block that is wrong on a disk with failures of its own may be right on this one
            // only.
            let failing = self.members.values().find(|other| {
                other.failure_group != member.failure_group
                    && other.is_readable()
                    && other.health.has_failed(self.world.monotonic(), &limits)
            });
            let refusal = match failing {
                Some(other) => format!("disk {} has failures, too", other.name()),
                None => match self
                    .voters
                    .expel(member.number, &format!("{many}. {remedy}"), false)
                    .await
                {
                    Ok(()) => continue,
                    Err(refusal) => refusal.to_string(),
                },
            };
            if self.is_stopping() || member.health.has_alarmed.swap(true, Relaxed) {
                continue;
            }
            let text = format!(
                "disk {name} ({}) in failure group {}: {many}, and it cannot go offline, because {refusal}. Bring the disks \
                 with the other mirrors ONLINE, or copy out what can be read. {remedy}",
                member.path(),
                member.failure_group
            );
            self.tell(Severity::Alarm, Some(member.number), text);
        }
    }

    /// Says which disks are far slower than the others: each [`WINDOW`].
    pub(crate) async fn compare_speeds(&self) {
        let members = self.members.values().filter(|member| member.is_readable() && !member.quorum);
        let totals = members.map(|member| (member.number, totals(member))).collect();
        let changes = self.speeds.lock().compare(&totals);
        for (disk, change) in changes {
            let Some(member) = self.members.get(&disk) else { continue };
            let name = member.name();
            let who = format!(
                "disk {name} ({}) in failure group {}",
                member.path(),
                member.failure_group
            );
            let slowness = match change {
                Change::Over => {
                    self.tell(
                        Severity::Note,
                        Some(disk),
                        format!("{who} is not slower than the others any more"),
                    );
                    continue;
                }
                Change::Slow(slowness) => {
                    let text = format!(
                        "{who} is slow: {slowness}. Writes wait for it. ALTER DISKGROUP {} OFFLINE DISK {name} lets the others \
                         go on without it; attribute disk_slow_time does so by itself",
                        self.name
                    );
                    self.tell(Severity::Warning, Some(disk), text);
                    slowness
                }
                Change::Stays(slowness) => slowness,
            };
            member.note(Trouble::Slower, None, slowness.to_string());
            let limit = self.attributes().disk_slow_time;
            // A disk that cannot be spared is tried again with the next window; that it is slow was
            // reported.
            if limit.is_some_and(|limit| slowness.time >= limit) {
                let reason = format!("it is slow: {slowness} (attribute disk_slow_time)");
                let _ = self.voters.expel(disk, &reason, false).await;
            }
        }
    }

    /// Before an operator takes disks offline: whether the others can be read where reads failed.
    /// Returns those that cannot.
    pub(crate) async fn ask_others_than(&self, leaving: &[Arc<Member>]) -> Vec<Arc<str>> {
        let stays = |member: &&Arc<Member>| {
            member.state() == DiskState::Online
                && !leaving.iter().any(|other| other.number == member.number)
        };
        let asked = self.members.values().filter(stays).map(|member| async {
            self.ask_disk(member).await;
            (member.is_hung() || member.health.has_unread()).then(|| member.name())
        });
        futures::future::join_all(asked).await.into_iter().flatten().collect()
    }

    async fn ask_disk(&self, member: &Member) {
        let au_size = member.layout().au_size();
        let header = (HEADER_PLACE, BLOCK_SIZE);
        for place in member.health.unread().into_iter().chain([header]) {
            let au = Au(u32::try_from(place.0 / au_size).unwrap_or(u32::MAX));
            let is_free = self.space().state(member.number, au) == Some(AuState::Free);
            let is_well = is_free
                || !member.is_hung()
                    && member
                        .start_read(place.0, place.1)
                        .of(IoClient::Checks)
                        .result()
                        .await
                        .is_ok();
            if !is_well {
                return;
            }
            member.health.note_mended(place);
        }
    }
}
