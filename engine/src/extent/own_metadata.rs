//! The engine's own metadata on the disks of a mounted group: verified, and rewritten where it is
//! not what the engine wrote.
//!
//! While a group is mounted its headers, stamps, memberships and activity logs are not read: the
//! engine has them in memory. If they are overwritten on a disk (a `dd` to the wrong device, a
//! partition tool), only the next mount would notice, when memory is gone. So the engine looks at
//! them, every [`LOOK`], and:
//!
//! - at a mount, before it serves: metadata that was torn or overwritten before is rewritten, and
//!   not counted
//! - when a disk has gone offline: the metadata that remains counts from now on
//! - before an operator takes disks offline, and at a dismount, before the stamp that says that it
//!   was clean
//! - in CHECK, and in a SCRUB of the whole group
//! - at stamps and memberships of the voters, before a membership is changed (`voters/look.rs`)
//!
//! The metadata that it knows:
//!
//! ```text
//!   what             on                  compared with             held while it is written
//!   header copies    all writable disks  each other, membership    `Data::renaming`
//!   stamps           all writable disks  the newest counter        the voters' turn
//!   memberships      voters              the one in force          the voters' turn
//!   activity log     voters              the newest log            the log's writer and the
//!                                                                  voters' turn
//!   checksum blocks  ONLINE mirrors      checksums in memory that  the extent's range; its
//!   of open regions                      are not newer than the    region is entered
//!                                        last release
//! ```
//!
//! A look:
//!
//!   1. Reads without any lock. Metadata that is written meanwhile may look wrong.
//!   2. Reads what seems wrong again, under the locks of its writers. Blocks that are wrong then
//!      are written from memory, and read back.
//!   3. Logs one line for each disk that says what was rewritten, and counts it
//!      ([`Trouble::Metadata`], `v$asm_disk.metadata_repaired`).
//!   4. Expels a disk that does not take the write, or in which something is wrong in [`LOOKS_MAX`]
//!      looks one after the other, if it can be spared (R5). If not, an ALARM says so, with each
//!      look.
//!
//! In closed regions checksum blocks are not looked at: a read of their data finds what is wrong
//! with them. In an open region no read does. A checksum that came from a zone and was not written
//! back since is not the engine's own knowledge: if the zones differ, the data says which is right
//! (`blocks.rs`). So the look compares checksums that a release has written to all zones of the
//! current mirrors.
//!
//! Invariants:
//!
//!   1. Nothing older is written over anything newer: a rewrite holds the locks that exclude new
//!      writes.
//!   2. A look that finds nothing delays no task: it takes the voters' turn only to note what was
//!      written last.

use crate::{
    admin::Problem,
    disk::{
        headers::{put_header, write_header},
        member::Member,
    },
    event::Severity,
    extent::data::Data,
    extent::{Extent, blocks::Patience, scope::ExtentScope},
    limits::Limit,
    membership::{
        voters::Refusal,
        wrong_metadata::{Finding, Findings, IS_DAMAGED, is_looked_at},
    },
    planted::{self, Bug},
    reached::{self, Mark},
};
use plinth_format::{
    Block, DiskNumber, header::DiskHeader, layout::HEADER_PLACE, membership::DiskState,
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// How often the engine looks. Twice as often as is promised, which is each minute: a look takes
/// its time.
pub(crate) const LOOK: Duration = Duration::from_secs(30);
/// A disk in which something is wrong in this many looks one after the other does not keep what it
/// is given.
const LOOKS_MAX: u64 = 3;
/// Extents whose checksum blocks are compared in one look, in turns; with two mirrors, as many
/// reads as a rotating disk does in three seconds.
const ZONES_MAX: Limit = Limit::new(256, 3);
/// Extents whose checksum blocks are read at the same time.
const ZONES_AT_ONCE: usize = 16;

/// How the engine looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MetadataLook {
    /// Rewrites what is wrong; else it is only reported.
    repair: bool,
    /// Checksum blocks of all open regions, not of the next few.
    all_zones: bool,
    /// The damage is from before the mount: a loss of power tore a write, or another program wrote
    /// there while the group was not mounted.
    at_mount: bool,
}

impl MetadataLook {
    /// As it does by itself.
    pub const PASSING: Self = Self { repair: true, all_zones: false, at_mount: false };

    /// Before it serves.
    pub const AT_MOUNT: Self = Self { at_mount: true, ..Self::PASSING };

    /// By statement.
    pub fn thorough(repair: bool) -> Self {
        Self { repair, all_zones: true, at_mount: false }
    }
}

/// How the header copies of a disk are wrong.
#[derive(Debug)]
enum WrongHeader {
    /// These copies are not what the others are, and say what holds.
    Copies(DiskHeader, Vec<u64>),
    /// No copy is the disk's.
    Lost(DiskHeader),
    /// They say what was so before.
    Outdated(String),
}

impl Data {
    /// Looks at the engine's metadata on the disks of a scope. Returns what is wrong, disk by disk;
    /// with [`MetadataLook::repair`] it is rewritten, or the disk is offline, unless the problem
    /// says otherwise.
    pub(crate) async fn look_at_own_metadata(
        &self,
        part: &ExtentScope,
        look: MetadataLook,
    ) -> Vec<Problem> {
        if planted::has(Bug::OwnMetadataNotLookedAt) {
            return Vec::new();
        }
        let _one_at_a_time = self.looking.lock().await;
        let looked_at: Vec<_> = self
            .members
            .values()
            .filter(|member| part.has_disk(member.number) && is_looked_at(member))
            .cloned()
            .collect();
        let mut findings = Findings::default();
        self.look_at_headers(&looked_at, look, &mut findings).await;
        self.look_at_records(part, look, &mut findings).await;
        self.look_at_zones(part, look, &mut findings).await;
        let mut problems = Vec::new();
        for member in looked_at {
            match findings.0.remove(&member.number) {
                Some(finding) => problems.push(self.conclude(&member, finding, look).await),
                None => member.metadata_is_right(),
            }
        }
        problems
    }

    /// Steps 3 and 4.
    async fn conclude(
        &self,
        member: &Arc<Member>,
        mut finding: Finding,
        look: MetadataLook,
    ) -> Problem {
        let text = finding.of_disk(member);
        if !look.repair || self.voters.is_closing() {
            return Problem { text, repaired: false };
        }
        if look.at_mount && finding.failed.is_none() {
            self.tell(Severity::Note, Some(member.number), finding.written_at_mount(member));
            return Problem { text, repaired: true };
        }
        if finding.count > 0 && member.metadata_was_wrong() >= LOOKS_MAX && finding.failed.is_none()
        {
            finding.failed = Some(format!(
                "in {LOOKS_MAX} looks one after the other, {}",
                finding.parts.join("; ")
            ));
        }
        let Some(reason) = &finding.failed else {
            if finding.count > 0 {
                let line = finding.written_again(member);
                self.tell(Severity::Warning, Some(member.number), line);
            }
            return Problem { text, repaired: true };
        };
        let repaired = match self
            .voters
            .expel(member.number, &format!("its metadata: {reason}"), false)
            .await
        {
            Ok(()) => member.state() == DiskState::Offline,
            Err(Refusal::Closing | Refusal::Answers) => false,
            Err(refusal) => {
                let line = format!(
                    "disk {} ({}) does not keep its own metadata: {reason}. It cannot go offline, because {refusal}. While that \
                     is so the disk group may not mount again: bring the disks with the other mirrors ONLINE, and replace it",
                    member.name(),
                    member.path()
                );
                self.tell(Severity::Alarm, Some(member.number), line);
                false
            }
        };
        Problem { text, repaired }
    }

    async fn look_at_headers(
        &self,
        members: &[Arc<Member>],
        look: MetadataLook,
        findings: &mut Findings,
    ) {
        let first = members.iter().map(|member| self.wrong_header(member));
        let first = futures::future::join_all(first).await;
        for (member, _) in members.iter().zip(first).filter(|(_, seen)| matches!(seen, Ok(Some(_))))
        {
            // A disk that is just being renamed has its old name there for a moment; one that
            // leaves is written FORMER.
            let _nobody_else_writes = self.renaming.lock().await;
            let Ok(Some(wrong)) = self.wrong_header(member).await else { continue };
            let finding = findings.of(member.number);
            match &wrong {
                WrongHeader::Copies(_, places) => finding.add("header copy", places, IS_DAMAGED),
                WrongHeader::Lost(header) => {
                    finding.parts.push("no copy of its header is valid".to_owned());
                    (finding.count, finding.place) =
                        (header.layout.header_places().len() as u64, Some(HEADER_PLACE));
                }
                WrongHeader::Outdated(what) => finding.parts.push(format!("its header {what}")),
            }
            if look.repair && !self.voters.is_closing() {
                finding.failed = self.write_header_again(member, wrong).await.err();
            }
        }
    }

    /// Writes header copies again, and reads them back.
    async fn write_header_again(
        &self,
        member: &Arc<Member>,
        wrong: WrongHeader,
    ) -> Result<(), String> {
        reached::at(Mark::HeaderWrittenAgain);
        match wrong {
            WrongHeader::Copies(header, places) => write_header(member, &header, &places).await?,
            WrongHeader::Lost(header) => {
                put_header(member, &header, &header.layout.header_places()).await?
            }
            WrongHeader::Outdated(_) => self.repair_header(member).await?,
        }
        match self.wrong_header(member).await {
            Ok(None) => Ok(()),
            Ok(Some(WrongHeader::Copies(_, places))) => {
                let places: Vec<_> = places.iter().map(u64::to_string).collect();
                Err(format!("what was written at {} is not there", places.join(", ")))
            }
            Ok(Some(_)) => Err("the header that was written is not there".to_owned()),
            Err(silent) => Err(silent),
        }
    }

    /// How a disk's header is wrong, if the membership has the disk.
    async fn wrong_header(&self, member: &Member) -> Result<Option<WrongHeader>, String> {
        let membership = self.voters.current();
        let Some(disk) = member.disk().filter(|_| is_looked_at(member)) else { return Ok(None) };
        if membership.disk(member.number).is_none() || self.voters.is_closing() {
            return Ok(None);
        }
        let found = self.own_header(member, &*disk).await?;
        if !is_looked_at(member) {
            return Ok(None);
        }
        Ok(match found {
            None => Some(WrongHeader::Lost(self.header_from_memory(member))),
            Some((header, _)) if let Some(what) = self.outdated(member, &header) => {
                Some(WrongHeader::Outdated(what))
            }
            Some((_, wrong)) if wrong.is_empty() => None,
            Some((header, wrong)) => Some(WrongHeader::Copies(header, wrong)),
        })
    }

    async fn look_at_records(
        &self,
        part: &ExtentScope,
        look: MetadataLook,
        findings: &mut Findings,
    ) {
        let suspects = self.voters.seemingly_wrong(|disk| part.has_disk(disk)).await;
        if suspects.is_empty() {
            return;
        }
        let has_logs =
            suspects.iter().any(|one| one.kind == crate::membership::voters::Kind::ActivityLog);
        let log = if has_logs { self.activity.hold_log(&*self.world).await } else { None };
        let (wrong, failed) = self.voters.look_again(&suspects, log.is_some(), look.repair).await;
        drop(log);
        wrong.iter().for_each(|one| findings.add_record(one));
        for (disk, reason) in failed {
            findings.of(disk).failed.get_or_insert(reason);
        }
    }

    async fn look_at_zones(&self, part: &ExtentScope, look: MetadataLook, findings: &mut Findings) {
        if matches!(part, ExtentScope::Extents(_)) {
            return;
        }
        let regions = self.activity.regions().into_iter();
        let mut extents: Vec<_> = regions
            .flat_map(|region| self.extents.in_run(region.first, region.count.into()))
            .filter(|extent| extent.sums().as_ref().is_some_and(|sums| sums.has_zones()))
            .collect();
        if !look.all_zones && !extents.is_empty() {
            let from = self.next_zone.load(Ordering::Relaxed);
            let begin = extents.partition_point(|extent| extent.id.0 < from) % extents.len();
            extents.rotate_left(begin);
            extents.truncate(ZONES_MAX.get());
            self.next_zone
                .store(extents.last().map_or(0, |extent| extent.id.0 + 1), Ordering::Relaxed);
        }
        for some in extents.chunks(ZONES_AT_ONCE) {
            let looks = some.iter().map(|extent| self.look_at_zone(extent, part, look));
            for (member, place, failed) in
                futures::future::join_all(looks).await.into_iter().flatten()
            {
                let finding = findings.of(member);
                finding.add("checksum block", &[place], IS_DAMAGED);
                if let Some(reason) = failed {
                    finding.failed.get_or_insert(reason);
                }
            }
        }
    }

    /// The checksum blocks of an extent that are wrong: where, and why they are not written again.
    async fn look_at_zone(
        &self,
        extent: &Arc<Extent>,
        part: &ExtentScope,
        look: MetadataLook,
    ) -> Vec<(DiskNumber, u64, Option<String>)> {
        let mut wrong = self.wrong_zones(extent).await;
        wrong.retain(|(member, _)| part.has_disk(member.number));
        if wrong.is_empty() {
            return Vec::new();
        }
        // Meanwhile no task changes its blocks, moves a mirror away, or closes the region.
        let _range = extent.ranges.hold(0..self.blocks_per_au(), false).await;
        let Some(_active) = self.activity.enter_if_open(extent, self.world.monotonic()) else {
            return Vec::new();
        };
        wrong = self.wrong_zones(extent).await;
        wrong.retain(|(member, _)| part.has_disk(member.number));
        if wrong.is_empty() || extent.is_tombstone() {
            return Vec::new();
        }
        let mut failed = None;
        let mut left = Vec::new();
        if look.repair {
            reached::at(Mark::ZoneWrittenAgain);
            // As when the region closes; and then once more.
            extent.mark_dirty();
            if self.flush_disks().await.is_err() {
                // No disk is to blame for the flush of another one. The next look sees to it.
                return Vec::new();
            }
            failed = self.write_sums(extent).await.err().map(|error| error.to_string());
            for (member, _) in &wrong {
                let flushed = member.flush().await;
                if !flushed.is_ok() {
                    failed.get_or_insert(flushed.reason());
                }
            }
            left = self.wrong_zones(extent).await;
        }
        let reason = |member: &Arc<Member>| {
            let is_left = left.iter().any(|(other, _)| other.number == member.number);
            failed.clone().or_else(|| {
                is_left.then(|| "the checksums that were written are not there".to_owned())
            })
        };
        wrong.iter().map(|(member, place)| (member.number, *place, reason(member))).collect()
    }

    /// Zones of an extent that do not hold what was written to them, as it seems.
    async fn wrong_zones(&self, extent: &Extent) -> Vec<(&Arc<Member>, u64)> {
        let Some(sums) = extent.sums().as_ref().map(Arc::clone) else { return Vec::new() };
        let mut wrong = Vec::new();
        for (mirror, member) in self.mirrors(extent) {
            if !member.is_readable() || !is_looked_at(member) {
                continue;
            }
            if !sums.are_in(extent.moves(), member.number, member.losses()) {
                continue;
            }
            let Ok(zone) = self.read_zone(member, mirror, Patience::Deadline).await else {
                continue;
            };
            if member.is_hung() || !sums.are_in(extent.moves(), member.number, member.losses()) {
                continue;
            }
            let is_right = zone.is_some_and(|zone| {
                // Of blocks that hold nothing it may have anything: it is what a check does not
                // look at either.
                let is_used =
                    |block: Block| extent.has_piece(block.piece()) && !sums.is_fresh(block);
                let all = sums.all().zip(zone.iter()).enumerate();
                all.into_iter()
                    .all(|(block, (sum, stored))| sum == *stored || !is_used(Block(block)))
            });
            if !is_right {
                wrong.push((member, member.layout().sums_of(mirror.au).0));
            }
        }
        wrong
    }
}
