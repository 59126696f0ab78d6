//! Bringing a disk back: from OFFLINE over SYNCING to ONLINE.
//!
//!   1. Find the device by the disk's id, open it afresh, claim it: its old I/O has landed (R1).
//!   2. Judge it: an image of another history, or one too old, is copied whole.
//!   3. Stamp it; record it as SYNCING. From now on it is written, never read.
//!   4. Copy each extent of each stale run: hold a piece's blocks, read a current mirror, checked,
//!      write. Flush, then take the run off the list.
//!   5. On the catalog's thread, so that the catalog is not written meanwhile: build the mirrors
//!      that the catalog should have there, then record the disk as ONLINE, and them, in one
//!      change. It may vote from then on. So a disk that is shown as ONLINE can carry the group
//!      alone if it can at all.
//!
//! A crash before 5 leaves it OFFLINE or SYNCING with what is left of its stale runs; the next
//! mount goes on from there, even if all of it was stale at first. Every region that was active
//! then is stale for it as well. A dismount before 5 leaves it SYNCING.

use crate::{
    admin::{AdminError, Code, OperationState, Selection},
    catalog::tables,
    disk::{
        identify,
        member::Member,
        originals::{self, FoundDisk},
        taken::unusable,
    },
    error::FileError,
    event::Severity,
    extent::{
        Extent,
        stale::{self, EVERYTHING, Runs},
    },
    membership::{
        mount_decision::{self, DiskVerdict},
        voters::{Refusal, find},
    },
    movement::{Movement, orders::POWER_MAX, progress::Progress},
    planted::{self, Bug},
    reached::{self, Mark},
    sync::lock::Mutex,
    world::{Disk, is_held},
};
use futures::stream::{self, StreamExt};
use plinth_format::{DiskNumber, layout::RecordArea, membership::DiskState};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Extents copied between two commits: few where groups are small, so that tests see a second
/// batch.
const BATCH: usize = if cfg!(any(test, feature = "testing")) { 5 } else { 32 };

/// How a disk comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Return {
    ByStatement,
    /// See `absent.rs`.
    ByItself,
}

/// Whether the disk is still SYNCING, and has not gone and come back meanwhile.
fn is_same(member: &Member, losses: u64) -> bool {
    member.state() == DiskState::Syncing && member.losses() == losses
}

fn not_online(member: &Member, why: &dyn std::fmt::Display) -> AdminError {
    AdminError::new(Code::Io, format!("{}: {why}", cannot_be_online(member)))
}

fn cannot_be_online(member: &Member) -> String {
    format!("disk {} cannot be brought online", member.name())
}

impl Movement {
    /// `ONLINE`: starts the resync of every selected disk that is offline.
    pub(crate) async fn bring_online(
        self: &Arc<Self>,
        selection: &Selection,
    ) -> Result<(), AdminError> {
        let mut trouble = None;
        for member in self.select(selection)? {
            self.resume_failed_resync(&member);
            if member.state() != DiskState::Offline {
                continue;
            }
            if let Err(error) = self.start_resync(&member, Return::ByStatement).await {
                // The others come back all the same.
                trouble = Some(error);
            }
        }
        trouble.map_or(Ok(()), Err)
    }

    /// Begins to bring a disk back that is OFFLINE.
    pub(crate) async fn start_resync(
        self: &Arc<Self>,
        member: &Arc<Member>,
        how: Return,
    ) -> Result<(), AdminError> {
        let _one_at_a_time = self.onlining.lock().await;
        if member.state() != DiskState::Offline {
            return Ok(());
        }
        if !planted::has(Bug::ReturnBeforeMarks) && !member.wait_for_marks().await {
            return Err(AdminError::new(
                Code::Io,
                format!("what disk {} misses could not be recorded", member.name()),
            ));
        }
        let (disk, verdict, areas) = self.find_device(member).await?;
        let whole = self.why_whole(member, &*disk, verdict, how)?;
        if let Some(reason) = &whole {
            let text = format!("disk {} is copied whole: {reason}", member.name());
            self.tell(Severity::Warning, Some(member.number), text);
            self.mark_everything_stale(member.number)
                .await
                .map_err(|error| error.while_doing(cannot_be_online(member)))?;
        }
        member.set_areas(areas);
        member.attach(disk);
        // Writes that failed flushes lost before are copied.
        member.take_broken();
        if let Err(reason) = self.repair_header(member).await {
            member.release();
            return Err(not_online(member, &reason));
        }
        let losses = member.losses();
        let forgets = whole.is_some() && !planted::has(Bug::HistoryKept);
        let forgotten = if forgets { self.voters.forget_history(member).await } else { Ok(()) };
        let admitted = match forgotten {
            Ok(()) => self.voters.admit(member).await,
            refused => refused,
        };
        if let Err(refusal) = admitted {
            member.release();
            return Err(not_online(member, &refusal));
        }
        self.renew_header_of_new(member).await;
        self.tell(
            Severity::Note,
            Some(member.number),
            format!("disk {} ({}) is back: resync begins", member.name(), member.path()),
        );
        if member.state() == DiskState::Online {
            // A quorum disk has nothing to copy.
            self.tell(
                Severity::Note,
                Some(member.number),
                format!("disk {} is online: 0 bytes copied", member.name()),
            );
        } else {
            self.spawn_resync(member, losses);
        }
        Ok(())
    }

    /// Step 2: the reason to copy a disk whole, if there is one.
    ///
    /// # Errors
    /// If the disk comes back by itself and another image was put in its place: only a statement
    /// writes over that.
    fn why_whole(
        &self,
        member: &Member,
        disk: &dyn Disk,
        verdict: Option<DiskVerdict>,
        how: Return,
    ) -> Result<Option<String>, AdminError> {
        let Some(verdict) = verdict.filter(|verdict| verdict.copy_whole()) else {
            return Ok(None);
        };
        let reason = match verdict {
            DiskVerdict::CopyWhole => "it was marked so",
            DiskVerdict::LosingBranch => "it went on in another history, or was away too long",
            _ => "it is an old image",
        };
        let was_put_there = matches!(verdict, DiskVerdict::LosingBranch | DiskVerdict::OldImage);
        if how == Return::ByItself && was_put_there {
            let text = format!("{} would be written over: {reason}", disk.path());
            let hint = format!(
                "if it is what is meant, ALTER DISKGROUP {} ONLINE DISK {}",
                self.name,
                member.name()
            );
            return Err(AdminError::new(Code::DuplicateDisk, text).hint(hint));
        }
        Ok(Some(reason.to_owned()))
    }

    /// The group is not dismounted after all: resyncs that paused for that go on.
    pub(crate) fn resume_resyncs(self: &Arc<Self>) {
        for member in self.members.values().filter(|member| member.state() == DiskState::Syncing) {
            let paused = {
                let resyncs = self.resyncs.lock();
                resyncs
                    .get(&member.number)
                    .is_some_and(|progress| progress.state == OperationState::Wait)
            };
            if paused {
                self.spawn_resync(member, member.losses());
            }
        }
    }

    /// Whether the disk's resync ended with an error, which left it SYNCING.
    pub(crate) fn has_failed_resync(&self, member: &Member) -> bool {
        let has_failed = self
            .resyncs
            .lock()
            .get(&member.number)
            .is_some_and(|progress| progress.state == OperationState::Errs);
        has_failed && member.state() == DiskState::Syncing
    }

    /// A resync that ended with an error goes on.
    pub(crate) fn resume_failed_resync(self: &Arc<Self>, member: &Arc<Member>) {
        if self.has_failed_resync(member) {
            self.spawn_resync(member, member.losses());
        }
    }

    /// `losses`: how often the disk had gone offline when it came back.
    pub(crate) fn spawn_resync(self: &Arc<Self>, member: &Arc<Member>, losses: u64) {
        let progress = Progress::begin(self.world.monotonic());
        self.resyncs.lock().insert(member.number, progress);
        let (group, member) = (Arc::clone(self), Arc::clone(member));
        self.world.spawn("resync", Box::pin(async move { group.resync(&member, losses).await }));
    }

    /// The device that carries a member's id, claimed; the verdict on it; and where its records
    /// are.
    async fn find_device(
        &self,
        member: &Member,
    ) -> Result<(Arc<dyn Disk>, Option<DiskVerdict>, Vec<RecordArea>), AdminError> {
        let FoundDisk { matches, copies, silence } =
            originals::find_disk(&*self.world, self.id, member.id()).await?;
        let mut identities: Vec<_> =
            matches.iter().map(|(found, ..)| found.identity.clone()).collect();
        identities.dedup();
        if identities.len() > 1 && !planted::has(Bug::CloneAccepted) {
            let paths: Vec<_> = matches.iter().map(|(found, ..)| found.path.as_str()).collect();
            let text = format!(
                "{} are all disk {} of disk group {}",
                paths.join(" and "),
                member.name(),
                self.name
            );
            return Err(AdminError::new(Code::DuplicateDisk, text).hint("detach the copy"));
        }
        let Some((found, disk, header)) = matches.into_iter().next() else {
            let text =
                format!("disk {} of disk group {} is missing{silence}", member.name(), self.name);
            if !copies.is_empty() {
                let text = format!("{text}; there are only copies of it: {}", copies.join("; "));
                return Err(
                    AdminError::new(Code::DuplicateDisk, text).hint("attach the disk itself")
                );
            }
            return Err(AdminError::new(Code::CannotOpen, text)
                .hint("attach it, or correct ASM_DISKSTRING so that it matches its path"));
        };
        if header.case == identify::Case::Shrunk {
            let text = format!(
                "{} has shrunk: {} bytes, disk {} needs {}",
                found.path,
                disk.size(),
                member.name(),
                member.layout().size()
            );
            return Err(AdminError::new(Code::DiskMismatch, text).hint("give it its old size"));
        }
        let mut attempts = 0;
        while let Err(error) = disk.claim() {
            if !is_held(&error) {
                return Err(unusable(&format!("disk {}", member.name()), &error));
            }
            attempts += 1;
            if attempts > 50 {
                let text = format!("{} cannot be claimed: {error}", found.path);
                return Err(AdminError::new(Code::HeldElsewhere, text)
                    .hint("I/O from before it went offline may still be in flight; try again when it has ended"));
            }
            self.world.sleep(Duration::from_millis(100)).await;
        }
        member.set_origin(header.best.origin);
        member.set_label(header.best.label.clone());
        let probe_result = identify::probe(&*self.world, &found, &*disk, header.best).await;
        let membership = self.voters.current();
        let verdict = membership
            .disk(member.number)
            .map(|entry| mount_decision::returning(&probe_result, entry, &membership));
        Ok((disk, verdict, probe_result.header.record_areas()))
    }

    pub(crate) async fn mark_everything_stale(&self, disk: DiskNumber) -> Result<(), FileError> {
        let stale = Arc::clone(&self.stale);
        self.catalog
            .release(true, move |connection| {
                stale::change(connection, &stale, disk, |runs| _ = runs.add(0, EVERYTHING))?;
                Ok(())
            })
            .await?;
        Ok(())
    }

    async fn resync(self: &Arc<Self>, member: &Arc<Member>, losses: u64) {
        self.copy_and_promote(member, losses).await;
        let membership = self.voters.current();
        let entry = membership.disk(member.number).filter(|entry| entry.state == DiskState::Online);
        // Mirrors that could not move without it can now.
        if entry.is_some_and(|entry| {
            entry.target.is_some()
                || self.rebalance.has_stopped() && !planted::has(Bug::StoppedStays)
        }) && let Err(error) = self.pursue_goals_as_before().await
        {
            let text = format!(
                "disk {} is back, but the rebalance does not go on: {error}",
                member.name()
            );
            self.tell(Severity::Alarm, Some(member.number), text);
        }
    }

    async fn copy_and_promote(self: &Arc<Self>, member: &Arc<Member>, losses: u64) {
        let result = loop {
            match self.copy_stale(member, losses).await {
                Ok(true) => break self.finish_resync(member, losses).await,
                // The dismount that ended it was none.
                Ok(false) if !self.is_stopping() && is_same(member, losses) => {}
                ended => break ended,
            }
        };
        if self.is_stopping() && !matches!(result, Ok(true)) {
            // It stays SYNCING: the next mount goes on, or this one if it is not dismounted after
            // all.
            if let Some(progress) = self.resyncs.lock().get_mut(&member.number) {
                progress.state = OperationState::Wait;
            }
            reached::at(Mark::ResyncPaused);
            let text = format!(
                "resync of disk {} pauses: the disk group is being dismounted",
                member.name()
            );
            self.tell(Severity::Note, Some(member.number), text);
            return;
        }
        let (state, error) = match &result {
            Ok(true) => (OperationState::Done, None),
            Ok(false) => (OperationState::Errs, Some("the disk went offline".to_owned())),
            Err(error) => (OperationState::Errs, Some(error.to_string())),
        };
        let mut bytes = 0;
        // A resync that was overtaken leaves the stage to the one that came after it.
        if (result.is_ok_and(|done| done)
            || member.losses() == losses
            || member.state() == DiskState::Offline)
            && let Some(progress) = self.resyncs.lock().get_mut(&member.number)
        {
            progress.state = state;
            progress.error = error.clone();
            bytes = progress.bytes;
        }
        match error {
            None => self.tell(
                Severity::Note,
                Some(member.number),
                format!("disk {} is online: {bytes} bytes copied", member.name()),
            ),
            Some(error) => self.tell(
                Severity::Alarm,
                Some(member.number),
                format!(
                    "resync of disk {} ended: {error}. ALTER DISKGROUP {} ONLINE DISK {} goes on",
                    member.name(),
                    self.name,
                    member.name()
                ),
            ),
        }
    }

    /// False: it was ended before the end.
    async fn copy_stale(&self, member: &Arc<Member>, losses: u64) -> Result<bool, FileError> {
        let disk = member.number;
        // A promotion that began without this disk has written an extent that no row names yet.
        if !planted::has(Bug::ResyncOvertakesWriter) {
            drop(self.promoting.write().await);
        }
        self.count_work(disk).await?;
        let mut cursor = 0;
        loop {
            if self.is_stopping() || !is_same(member, losses) {
                return Ok(false);
            }
            let next = {
                let stale = self.stale.lock();
                stale.get(&disk).and_then(|runs| runs.next(cursor))
            };
            let Some((start, end)) = next else { return Ok(true) };
            let rows = self.extents_on(disk, start, end, BATCH).await?;
            let last = rows.len() < BATCH;
            let done = if last || planted::has(Bug::ResyncEndsAfterBatch) {
                end
            } else {
                rows.last().map_or(end, |extent| extent.id.0 + 1)
            };
            let broken = member.broken();
            self.copy_extents(self.alive(rows.iter().map(|row| row.id).collect()).await?, member)
                .await?;
            if !self.flush_or_expel(member).await? {
                return Ok(false);
            }
            if member.broken() != broken && !planted::has(Bug::BatchLostByFlush) {
                // Another task's flush has failed, and may have lost writes of this batch: it stays
                // marked, and if the disk is still there, is copied again (R9).
                continue;
            }
            cursor = done;
            let (stale, syncing) = (Arc::clone(&self.stale), Arc::clone(member));
            self.catalog
                .release(false, move |connection| {
                    // If it has gone offline, marks set since then must stay; while it is
                    // SYNCING here, the job that sets them comes later.
                    if !is_same(&syncing, losses) && !planted::has(Bug::MarksRemoved) {
                        return Ok(());
                    }
                    stale::change(connection, &stale, disk, |runs| runs.remove_below(done))?;
                    Ok(())
                })
                .await?;
        }
    }

    /// Copies what extents hold to their mirrors on a disk, as many at once as the power says. All
    /// that began have ended then.
    async fn copy_extents(
        &self,
        extents: Vec<Arc<Extent>>,
        member: &Arc<Member>,
    ) -> Result<(), FileError> {
        let trouble = Mutex::new(None);
        let power = self.resync_power.load(Ordering::Relaxed) as usize;
        let copies = stream::iter(extents).for_each_concurrent(power, |extent| {
            let trouble = &trouble;
            async move {
                if trouble.lock().is_some() {
                    return;
                }
                match self.copy_extent(&extent, member).await {
                    Ok(bytes) => {
                        let mut resyncs = self.resyncs.lock();
                        if let Some(progress) = resyncs.get_mut(&member.number) {
                            progress.advance(self.world.monotonic(), bytes);
                        }
                    }
                    Err(error) => *trouble.lock() = Some(error),
                }
            }
        });
        copies.await;
        trouble.into_inner().map_or(Ok(()), Err)
    }

    /// How many extents each resync copies at once, from now on.
    pub fn set_resync_power(&self, power: u32) {
        self.resync_power.store(power.clamp(1, POWER_MAX), Ordering::Relaxed);
    }

    async fn extents_on(
        &self,
        disk: DiskNumber,
        start: u64,
        end: u64,
        most: usize,
    ) -> Result<Vec<Extent>, FileError> {
        self.catalog
            .read(move |connection| {
                let rows = tables::extent::on_disk(connection, disk, start..end, most)?;
                Ok(rows.into_iter().map(Extent::from).collect())
            })
            .await
    }

    async fn count_work(&self, disk: DiskNumber) -> Result<(), FileError> {
        let runs: Vec<_> = {
            let stale = self.stale.lock();
            let ids = |runs: &Runs| runs.iter().map(|(start, end)| start..end).collect();
            stale.get(&disk).map(ids).unwrap_or_default()
        };
        let work = self
            .catalog
            .read(move |connection| Ok(tables::extent::count_on_disk(connection, disk, &runs)?))
            .await?;
        if let Some(progress) = self.resyncs.lock().get_mut(&disk) {
            progress.work = work;
        }
        Ok(())
    }

    /// Copies what an extent holds to its mirror on a disk. Returns bytes.
    async fn copy_extent(&self, extent: &Extent, member: &Arc<Member>) -> Result<u64, FileError> {
        let Some((mirror, _)) =
            self.mirrors(extent).find(|(mirror, _)| mirror.disk == member.number)
        else {
            return Ok(0);
        };
        if !planted::has(Bug::CopiedBeforeRecovery) {
            self.recover_extent(extent).await?;
        }
        // Writes that began without this disk have ended, and marked what they wrote.
        if !planted::has(Bug::ResyncOvertakesWriter) {
            drop(extent.ranges.hold(0..self.blocks_per_au(), true).await);
        }
        let copied = self
            .copy_marked(extent, member, mirror, None, || member.state() == DiskState::Syncing)
            .await?;
        Ok(copied.bytes)
    }

    /// Whether the disk is online in the end.
    async fn finish_resync(&self, member: &Arc<Member>, losses: u64) -> Result<bool, FileError> {
        let is_online = self.promote_disk(member, losses).await?;
        // Where that needs more than one disk, and where a mirror could not be copied.
        self.rebuild_catalog().await;
        Ok(is_online)
    }

    /// Records a disk as ONLINE, with the catalog's mirrors on it; it may vote from then on. False
    /// if it went offline again as that was recorded.
    async fn promote_disk(&self, member: &Arc<Member>, losses: u64) -> Result<bool, FileError> {
        let (store, syncing) = (Arc::clone(&self.store), Arc::clone(member));
        let job = move |_: &rusqlite::Connection| {
            let number = syncing.number;
            let online = store.bring_online(number, |next| {
                let Some(entry) = find(next, number) else { return Ok(false) };
                if entry.state != DiskState::Syncing || !is_same(&syncing, losses) {
                    return Err(Refusal::Other("it is not SYNCING any more".to_owned()));
                }
                entry.state = DiskState::Online;
                entry.copy_whole = false;
                entry.by_operator = false;
                entry.since = 0;
                Ok(true)
            });
            online.map_err(|refusal| FileError::Refused {
                disk: syncing.name().to_string(),
                reason: "it could not be recorded as online".to_owned(),
                why: refusal.to_string(),
            })
        };
        self.mend_log().await;
        // It needs no space in the catalog.
        self.catalog.release(false, job).await?;
        // It may have failed as it was to get the record, and be offline again.
        let is_online = member.losses() == losses;
        if is_online {
            self.sweep_disks([member.number]);
        }
        Ok(is_online)
    }
}
