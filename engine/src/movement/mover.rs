//! Mirrors of an extent that come and go, while it is read and written: one moves to another disk,
//! one more is made, one is taken.
//!
//! To move one:
//!
//!   1. Take an AU there. It becomes the extent's *target*: writes from now on go there as well,
//!      and no read does. When the whole range has been held once, earlier writes have ended, and
//!      marked their pieces.
//!   2. Copy piece by piece (`copy.rs`): only that piece is held meanwhile. Flush the disk.
//!   3. Enter the extent's region. From now on the disks that the extent will be on count for R5,
//!      besides those that it is on.
//!   4. One job changes the row, and swaps the two places: the target becomes a mirror, and the
//!      mirror the target. As the target the old place is written until the commit is durable:
//!      whichever row a crash leaves, nothing acknowledged is missing where it points.
//!   5. The old AU is free when no reads of it are in flight (`reclaim.rs`).
//!
//! One more is made in the same way; there is no old place. To take one:
//!
//!   1. Compare all mirrors, and mend what is wrong: bytes that only the leaving mirror still shows
//!      are on the others then. Flush their disks.
//!   2. Steps 3 to 5, with the leaving mirror as the target. One of those that stay is on an ONLINE
//!      disk.
//!
//! A crash before 4 leaves an AU without an owner, and the mirrors as they were. After a crash
//! after 4 the mount finds the region listed, and compares the mirrors. Nothing else is stored: a
//! change is made, or was never begun.
//!
//! A disk that fails meanwhile ends the move, and nothing else. When the old mirror's disk fails
//! the move goes on: the extent is read from the others, and has all its mirrors again when the
//! move is done.

use crate::{
    admin::Report,
    catalog::CommitNumber,
    disk::member::Member,
    error::FileError,
    extent::{self, Change, Extent, Mirror, copy::Copied, data::Data, layout::Freed},
    movement::Movement,
    planted::{self, Bug},
    reached::{self, Mark},
    space::Space,
};
use plinth_format::{Au, BLOCK_SIZE, Block, DiskNumber};
use std::sync::Arc;

/// How often it is tried to get an AU, as long as some become free.
const TRIES: usize = 8;

/// A change that was made.
struct Changed {
    /// The place that a mirror has left.
    old: Option<Mirror>,
    commit: CommitNumber,
}

/// The state of a disk when a move to it began, or when a mirror elsewhere began to be taken and
/// this one stays. It must not have changed when that ends.
#[derive(Clone)]
struct Arrival {
    to: Arc<Member>,
    losses: u64,
    broken: u64,
}

impl Arrival {
    fn new(to: &Arc<Member>) -> Self {
        Self { to: Arc::clone(to), losses: to.losses(), broken: to.broken() }
    }

    /// The disk has kept all that was written and flushed there since.
    fn is_good(&self) -> bool {
        self.to.is_readable() && self.to.losses() == self.losses && self.has_kept_all()
    }

    /// No flush has failed there since.
    fn has_kept_all(&self) -> bool {
        self.to.broken() == self.broken || planted::has(Bug::MoveForgetsFlush)
    }
}

/// The condition that must still hold when the row changes.
type Proviso = Box<dyn FnOnce() -> bool + Send>;

impl Movement {
    /// Moves the mirror of an extent that is on disk `from`, to an AU before `before` if that is
    /// given. Returns bytes copied. `None`: it is still where it was, or is not there; the extent
    /// was deleted, the disk has no room, or was lost.
    ///
    /// # Errors
    /// If the extent's region cannot be entered, its bytes cannot be read, or the catalog does not
    /// take the change.
    pub(crate) async fn move_mirror(
        &self,
        extent: &Arc<Extent>,
        from: DiskNumber,
        to: &Arc<Member>,
        before: Option<Au>,
    ) -> Result<Option<u64>, FileError> {
        let take = |space: &mut Space| match before {
            Some(before) => space.allocate_before(to.number, before),
            None => space.allocate_on(to.number),
        };
        let change = |target| Change::Move { target, from };
        self.place_mirror(extent, to, take, change, before.is_some()).await
    }

    /// Makes one mirror more of an extent, on a disk. Returns bytes copied. `None`: as in
    /// [`Self::move_mirror`].
    ///
    /// # Errors
    /// As [`Self::move_mirror`].
    pub(crate) async fn add_mirror(
        &self,
        extent: &Arc<Extent>,
        to: &Arc<Member>,
    ) -> Result<Option<u64>, FileError> {
        let take = |space: &mut Space| space.allocate_on(to.number);
        self.place_mirror(extent, to, take, |target| Change::Add { target }, false).await
    }

    /// Takes the mirror of an extent that is on disk `from`. False: it was not taken, or is not
    /// there; those that stay could not be flushed, none is on an ONLINE disk, or the extent was
    /// deleted.
    ///
    /// # Errors
    /// As [`Self::move_mirror`].
    pub(crate) async fn remove_mirror(
        &self,
        extent: &Arc<Extent>,
        from: DiskNumber,
    ) -> Result<bool, FileError> {
        let others = self.mirrors(extent).filter(|(mirror, _)| mirror.disk != from);
        let stay: Vec<Arrival> = others
            .map(|(_, member)| member)
            .filter(|member| member.is_readable() && !member.is_hung())
            .map(Arrival::new)
            .collect();
        if stay.is_empty() {
            return Ok(false);
        }
        let mut found = Report::default();
        if !planted::has(Bug::MirrorTakenUnread) {
            self.check_data(extent, true, &mut found).await?;
        }
        if !found.problems.is_empty() {
            // Bytes that could not be mended may be on this mirror alone.
            let mut left = Report::default();
            self.check_data(extent, false, &mut left).await?;
            if let Some(problem) = left.problems.into_iter().next() {
                let disk = self
                    .members
                    .get(&from)
                    .map_or_else(|| from.to_string(), |member| member.name().to_string());
                reached::at(Mark::MirrorNotTaken);
                return Err(FileError::NotMended { disk, problem: problem.text });
            }
        }
        for Arrival { to: member, .. } in &stay {
            if !planted::has(Bug::StayNotFlushed) && !self.flush_or_expel(member).await? {
                return Ok(false);
            }
        }
        let is_sure = |Arrival { to: member, .. }: &Arrival| {
            let here = extent.mirrors().into_iter().find(|mirror| mirror.disk == member.number);
            here.is_some_and(|here| {
                let mut data = extent.data_in(&(0..self.blocks_per_au())).into_iter();
                data.all(|run| {
                    let length = (run.len() * BLOCK_SIZE) as u64;
                    !member.is_mend_uncertain(Data::offset(member, here, Block(run.start)), length)
                })
            })
        };
        let stay: Vec<Arrival> = stay.into_iter().filter(is_sure).collect();
        let one_is_current = Box::new(move || {
            planted::has(Bug::StayNotLookedAgain) || stay.iter().any(Arrival::is_good)
        });
        match self.change_places(extent, Change::Remove { from }, one_is_current).await? {
            Some(changed) => {
                self.leave(extent, changed);
                reached::at(Mark::MirrorTaken);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Places a mirror in an AU that `take` takes on a disk, as `change` says. `is_choice`: the
    /// extent may as well stay as it is.
    async fn place_mirror(
        &self,
        extent: &Arc<Extent>,
        to: &Arc<Member>,
        take: impl Fn(&mut Space) -> Option<Au>,
        change: impl FnOnce(Mirror) -> Change,
        is_choice: bool,
    ) -> Result<Option<u64>, FileError> {
        self.recover_extent(extent).await?;
        let _in_hand = self.take_in_hand();
        let mut au = None;
        for _ in 0..TRIES {
            let seen = self.freeing.coming().freed();
            au = take(&mut self.space());
            if au.is_some() || !self.wait_for_units(to.number, seen).await? {
                break;
            }
        }
        let Some(target) = au.map(|au| Mirror { disk: to.number, au }) else { return Ok(None) };
        let arrived = if extent.add_target(target) {
            self.bring_over(extent, to, target, change(target), is_choice).await
        } else {
            Ok(None)
        };
        if let Ok(Some((bytes, changed))) = arrived {
            self.note_places(extent);
            self.leave(extent, changed);
            return Ok(Some(bytes));
        }
        if extent.mirrors().contains(&target) {
            // The catalog stopped before the commit was on the disks: it is unknown which row the
            // next mount finds.
            return arrived.map(|_| None);
        }
        reached::at(Mark::MoveNotMade);
        extent.remove_target(target);
        // Writes to that place have ended when the range was held.
        if !planted::has(Bug::NewPlaceFreedEarly) {
            drop(extent.ranges.hold(0..self.blocks_per_au(), true).await);
        }
        self.space().cancel(target.disk, target.au);
        arrived.map(|_| None)
    }

    /// Step 5, if there is an old place.
    fn leave(&self, extent: &Arc<Extent>, Changed { old, commit }: Changed) {
        match old {
            Some(old) => {
                extent.remove_target(old);
                self.note_freed(
                    commit,
                    Freed { left: vec![(Arc::clone(extent), old)], ..Freed::default() },
                );
            }
            // A reader that has read its row before must find it in memory, with all its mirrors.
            None => {
                reached::at(Mark::MirrorMade);
                if !planted::has(Bug::MadeMirrorForgotten) {
                    self.extents.note_moved(extent);
                }
            }
        }
    }

    /// Steps 1 to 4, with the target there. Returns bytes copied as well.
    async fn bring_over(
        &self,
        extent: &Arc<Extent>,
        to: &Arc<Member>,
        target: Mirror,
        change: Change,
        is_choice: bool,
    ) -> Result<Option<(u64, Changed)>, FileError> {
        self.must_agree(extent).await?;
        let arrival = Arrival::new(to);
        if !planted::has(Bug::MoveOvertakesWriter) {
            drop(extent.ranges.hold(0..self.blocks_per_au(), true).await);
        }
        let goes_on = || arrival.is_good() && !extent.is_tombstone();
        let copy_permits = self.rebalance.copy_permits();
        let Copied { bytes, lost, unread } =
            self.copy_marked(extent, to, target, copy_permits.as_deref(), goes_on).await?;
        let moves_all = planted::has(Bug::UnreadableMovedByChoice) && is_choice;
        if lost && is_choice && !moves_all {
            return Ok(None);
        }
        // Where it is it may be readable later. On a disk that is not ONLINE nothing counts.
        let is_kept =
            |from| self.members.get(&from).is_some_and(|member: &Arc<Member>| member.is_readable());
        let leaves_it = matches!(change, Change::Move { from, .. } if is_kept(from));
        if unread && leaves_it && !moves_all && !planted::has(Bug::UnreadLeftBehind) {
            return Err(FileError::Unread { file: extent.file, extent: extent.number });
        }
        if !planted::has(Bug::MoveNotFlushed) && !self.flush_or_expel(to).await? {
            return Ok(None);
        }
        let changed =
            self.change_places(extent, change, Box::new(move || arrival.is_good())).await?;
        Ok(changed.map(|changed| (bytes, changed)))
    }

    /// Steps 3 and 4. `None`: the change cannot be made.
    async fn change_places(
        &self,
        extent: &Arc<Extent>,
        change: Change,
        proviso: Proviso,
    ) -> Result<Option<Changed>, FileError> {
        // Listed from before the row changes until its checksums are in the new place. The caller
        // holds no range here, so nothing waits.
        let _active = self.activate(extent).await?;
        self.load_sums(extent).await?;
        let before: Vec<DiskNumber> = extent.disks().collect();
        let Some(after) = extent.after(change) else { return Ok(None) };
        let after = || after.into_iter().map(|mirror| mirror.disk);
        // From here on these disks are not expelled if the extent would lose by it; decisions from
        // before are in force when the voters are ended.
        self.mirror_sets.add(after(), extent.own);
        if !planted::has(Bug::MoveBeforeVoters) {
            self.voters.wait_for_changes().await;
        }
        let changed = self.change_row(extent, change, proviso).await;
        match &changed {
            Ok(Some(_)) if planted::has(Bug::MovedMirrorCounted) => {}
            Ok(Some(_)) => self.mirror_sets.remove(before.into_iter(), extent.own),
            Ok(None) => self.mirror_sets.remove(after(), extent.own),
            // The row is as it was.
            Err(_) if self.catalog.failure().is_none() => {
                self.mirror_sets.remove(after(), extent.own)
            }
            // The row may be either; so both count.
            Err(_) => {}
        }
        changed
    }

    /// Step 4. `None`: the proviso does not hold, or the target was cancelled.
    async fn change_row(
        &self,
        extent: &Arc<Extent>,
        change: Change,
        proviso: Proviso,
    ) -> Result<Option<Changed>, FileError> {
        let (moving, blocks) = (Arc::clone(extent), self.blocks_per_au());
        let job = move |connection: &rusqlite::Connection| {
            if !proviso() || moving.is_tombstone() {
                return Ok(None);
            }
            let Some(old) = extent::change_mirrors(connection, &moving, change)? else {
                return Ok(None);
            };
            {
                // Without its range: no task may be about to drop them.
                let _state = moving.state();
                if moving.has_sums() && !planted::has(Bug::MovedSumsUnproved) {
                    // Its checksums are written there when the region closes. All zones agree: none
                    // keeps anything of its own.
                    moving.mark_proved(0..blocks);
                }
            }
            if let Some(old) = old
                && planted::has(Bug::OldPlaceLeft)
            {
                moving.remove_target(old);
            }
            Ok(Some(old))
        };
        let (old, commit) = self.catalog.release(true, job).await?;
        Ok(old.map(|old| Changed { old, commit }))
    }
}
