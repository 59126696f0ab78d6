//! Moving one mirror of an extent to another disk, while the extent is read and written.
//!
//!   1. Take an AU there. It becomes the extent's *guest*: what is written from now on is written there, too, and no read goes
//!      there. Who began before has ended, and marked what he wrote, when the whole range has been held once.
//!   2. Copy piece by piece (`copy.rs`): only that piece is held meanwhile. Flush the disk.
//!   3. Enter the extent's region. From now on the disks that the extent will be on count for R5, besides those that it is on.
//!   4. One job changes the row, and makes the guest a mirror and the mirror the guest. As a guest the old place is written until the commit is
//!      durable: whichever row a crash leaves, nothing acknowledged is missing where it points.
//!   5. The old AU is free when nobody reads there any more (`reclaim.rs`).
//!
//! A crash before 4 leaves an AU that is nobody's, and a mirror where it was. A crash after it finds the region listed, and compares the
//! mirrors. Nothing else is to be remembered: a move is done, or was never begun.
//!
//! A disk that fails on the way ends the move, and nothing else. When the old mirror's disk fails the move goes on: the extent is read from the
//! others, and has all its mirrors again when it is done.

use crate::{
    catalog::CommitNumber,
    copy::Copied,
    error::FileError,
    extent::{self, Extent, Mirror},
    extents::Freed,
    group::Group,
    member::{Member, Settled},
    planted::{self, Bug},
};
use plinth_format::DiskNumber;
use std::sync::Arc;

/// A move that was made.
struct Changed {
    bytes: u64,
    /// The place that the mirror has left, by this commit.
    old: Mirror,
    commit: CommitNumber,
}

/// What a disk was when a move to it began. It must not have changed when it ends.
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

    /// What was written and flushed there since is there.
    fn is_good(&self) -> bool {
        self.to.is_readable() && self.to.losses() == self.losses && self.to.broken() == self.broken
    }
}

impl Group {
    /// Moves the mirror of an extent that is on disk `from`, to an AU before `before` if that is given. Returns bytes copied. `None`: it is still where it was, or is not there; the
    /// extent was deleted, the disk has no room, or was lost.
    ///
    /// # Errors
    /// If the extent's region cannot be entered, its bytes cannot be read, or the catalog does not take the change.
    pub(crate) async fn move_mirror(
        &self,
        extent: &Arc<Extent>,
        from: DiskNumber,
        to: &Arc<Member>,
        before: Option<u32>,
    ) -> Result<Option<u64>, FileError> {
        self.recover_extent(extent).await?;
        let _in_hand = self.take_in_hand();
        let au = match before {
            Some(before) => self.space().allocate_before(to.number, before),
            None => self.space().allocate_on(to.number),
        };
        let Some(guest) = au.map(|au| Mirror { disk: to.number, au }) else { return Ok(None) };
        let is_choice = before.is_some();
        let arrived =
            if extent.receive(guest) { self.bring_over(extent, from, to, guest, is_choice).await } else { Ok(None) };
        if let Ok(Some(Changed { bytes, old, commit })) = arrived {
            extent.dismiss(old);
            self.note_freed(commit, Freed { left: vec![(Arc::clone(extent), old)], ..Freed::default() });
            return Ok(Some(bytes));
        }
        if extent.mirrors().contains(&guest) {
            // The catalog stopped before the commit was on the disks: what the next mount finds is not known.
            return arrived.map(|_| None);
        }
        extent.dismiss(guest);
        // Who still writes there has ended when the range was held.
        drop(extent.ranges.hold(0..self.blocks_per_au(), true).await);
        self.space().cancel(guest.disk, guest.au);
        arrived.map(|_| None)
    }

    /// Steps 1 to 4, with the guest there. `is_choice`: it may as well stay.
    async fn bring_over(
        &self,
        extent: &Arc<Extent>,
        from: DiskNumber,
        to: &Arc<Member>,
        guest: Mirror,
        is_choice: bool,
    ) -> Result<Option<Changed>, FileError> {
        let arrival = Arrival::new(to);
        if !planted::has(Bug::MoveOvertakesWriter) {
            drop(extent.ranges.hold(0..self.blocks_per_au(), true).await);
        }
        let goes_on = || arrival.is_good() && !extent.is_buried();
        let Copied { bytes, lost } = self.copy_marked(extent, to, guest, goes_on).await?;
        if lost && is_choice {
            // What cannot be read now may be read later, where it is.
            return Ok(None);
        }
        let flushed = if planted::has(Bug::MoveNotFlushed) { Settled::Ok(None) } else { to.flush().await };
        if !flushed.is_ok() {
            self.give_up(to, &flushed).await?;
            return Ok(None);
        }
        // Listed from before the row changes until its checksums are in the new place. Nobody waits for a range with this.
        let _active = self.activate(extent).await?;
        self.load_sums(extent).await?;
        let before: Vec<DiskNumber> = extent.disks().collect();
        let Some(after) = extent.with_guest(guest, from) else { return Ok(None) };
        let after = || after.into_iter().map(|mirror| mirror.disk);
        // From here on these are not expelled if the extent would lose by it; what was decided before is in force when the voters are settled.
        self.mirror_sets.add(after());
        self.voters.settled().await;
        let changed = self.change_row(extent, from, guest, arrival).await;
        match &changed {
            Ok(Some(_)) => self.mirror_sets.remove(before.into_iter()),
            Ok(None) => self.mirror_sets.remove(after()),
            Err(_) => {}
        }
        Ok(changed?.map(|(old, commit)| Changed { bytes, old, commit }))
    }

    /// Step 4. `None`: the guest is not, or not any more, what it should be.
    async fn change_row(
        &self,
        extent: &Arc<Extent>,
        from: DiskNumber,
        guest: Mirror,
        arrival: Arrival,
    ) -> Result<Option<(Mirror, CommitNumber)>, FileError> {
        let moving = Arc::clone(extent);
        let job = move |connection: &rusqlite::Connection| {
            if !arrival.is_good() || moving.is_buried() {
                return Ok(None);
            }
            let Some(old) = extent::move_in(connection, &moving, guest, from)? else { return Ok(None) };
            {
                let mut state = moving.state();
                // Its checksums are written there when the region closes.
                state.dirty |= state.sums.is_some();
            }
            if planted::has(Bug::OldPlaceLeft) {
                moving.dismiss(old);
            }
            Ok(Some(old))
        };
        let (old, commit) = self.catalog.release(true, job).await?;
        Ok(old.map(|old| (old, commit)))
    }
}
