//! Discards: free space goes back to thin devices (TRIM, UNMAP), concurrently with everything else
//! and at the lowest priority.
//!
//! What is discarded, once R8 allows:
//!
//! - AUs that are free and *stained* (`space.rs`). Nothing waits for that: a caller that needs an
//!   AU before it is discarded takes it as it is.
//! - Pieces without data of extents that are in use: holes, and slots that no small file has. A job
//!   on the catalog's thread looks at their marks, and makes durable what cleared them. Then the
//!   pieces are held, as by a writer. If the extent has lost no mark since, and they have none,
//!   they are discarded on all mirrors. Reads of them return zeros without I/O, before and after.
//!
//! How it is found:
//!
//! - Space that is freed while the group is mounted is noted at the commit. An AU that is taken
//!   before it is discarded goes back in parts: its extent's pieces are noted, and those that stay
//!   without data are discarded as holes are.
//! - A *sweep* stains all free AUs, and goes through the extents for pieces without data. It finds
//!   what the engine before this one did not discard, and what was freed while a disk was away or
//!   while `thin_provisioned` was off. It begins with a mount, unless the engine before this one
//!   recorded that nothing was left to discard; when the attribute is switched on; when a disk
//!   comes ONLINE; and when a disk that was being dropped stays. Its position is not stored: a
//!   sweep that is cut short begins anew with the next mount, and discards some space twice. After
//!   a mount by FORCE, and where the catalog is damaged, there is none: space that seems free may
//!   hold all that is left of a file.
//!
//! How a device takes it: whole units of its granularity, wherever they begin, and no request
//! larger than it allows (`discard_limits.rs`). A run of AUs is cut inwards to whole units. Free
//! AUs beside the run that share a unit with it are taken along (`space/mod.rs`): so a unit goes
//! when its last AU is free, in whatever order they became free. The parts that are cut off share
//! a unit with data. Holes in AUs are cut the same way, each AU by itself.
//!
//! How fast: in rounds. A round is one discard on each disk that has none in flight, all at once,
//! or a few pieces; then comes a rest (`discard_pace.rs`). On an idle group there is hardly a rest.
//! AUs that are being discarded are not to be had, so a round takes no more than a part of those
//! that are free, and none while a request waits for space (`space/coming.rs`).
//!
//! A discard that does not end keeps its own space unusable, and blocks other discards of its disk.
//! It delays nothing else: it holds no lock that a commit needs, and no deadline (R2) counts its
//! disk as silent. When the disk is released its discards are abandoned; the disk does not come
//! back before they have landed (R1).
//!
//! A disk that fails a discard gets no other for some time, twice as long each time. Then all its
//! free space is swept.
//!
//! `RECLAIM` (`check/give_back.rs`) goes through all free space by an order of the operator, with
//! the same rules: [`Data::reclaim_units`], [`Data::look_at`] and [`Data::reclaim_pieces`].

mod queue;

pub use queue::Discards;
pub(crate) use queue::Ready;

use queue::InHand;

#[cfg(any(test, feature = "testing"))]
use crate::space::AuState;
use crate::{
    admin::ReclaimMethod,
    catalog::tables,
    disk::{
        counters::IoClient,
        disk_io::DiskIo,
        member::{Member, TICK_MS},
    },
    error::FileError,
    extent::{
        Extent, Mirror,
        blocks::BLOCKS_PER_PIECE,
        data::Data,
        discard_pace::{Pace, RESTS, Round},
        scope::find,
    },
    planted::{self, Bug},
    reached::{self, Mark},
    space::extent_id::ExtentId,
    sync::bits::Bits,
    world::{
        Task,
        discard_limits::{DiscardLimits, REQUEST_MAX},
    },
};
use futures::{
    StreamExt,
    future::{self, Either},
    stream::FuturesUnordered,
};
use plinth_format::{Au, DiskNumber, Piece, layout::PIECE_SIZE, membership::DiskState};
use rusqlite::Connection;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Range,
    pin::pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// How often the task checks whether there is something to discard, and whether to wait on for
/// discards in flight.
const LOOK: Duration = Duration::from_secs(1);
/// A round that takes longer is over; the discards that it began go on.
const ROUND_MAX: Duration = Duration::from_secs(1);
/// Rests end early when the disks were idle for this time.
const UNUSED: Duration = Duration::from_secs(5);
/// At most this part of a disk's free AUs is discarded at once.
const PART_OF_FREE: u32 = 8;
/// Runs of pieces that are discarded at once.
pub(crate) const RUNS_AT_ONCE: usize = 4;
/// Extents whose pieces are looked at in one job; and in one query of a sweep.
pub(crate) const LOOKED_AT: usize = 64;
const SWEPT: i64 = 256;
/// A device may give space back in larger units than pieces: neighbours without data in the same
/// window are discarded once more. A window is a MiB; or the AU, where a disk has units that do not
/// fit into a MiB.
const WINDOW_BYTES: u64 = 1 << 20;
const WINDOW: usize = (WINDOW_BYTES / PIECE_SIZE) as usize;

/// Bytes that were given back, and that should have been.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Reclaimed {
    pub bytes: u64,
    pub failed: u64,
}

impl Reclaimed {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.failed += other.failed;
    }
}

/// A turn at the free AUs of a disk. Two runs at a time would both leave out a unit of the device
/// that they share.
pub(crate) enum UnitsTurn {
    /// Another run of the disk is being given back, or a request waits for space.
    OtherInFlight,
    /// There is no free AU from there on.
    NoneLeft,
    /// That much was given back, and it goes on at `next`.
    Ended { next: Au, done: Reclaimed },
}

/// Runs of pieces without marks that have one of the noted pieces in the same window of `window`
/// pieces.
fn runs(marked: &Bits, noted: &Bits, pieces: usize, window: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for start in (0..pieces).step_by(window) {
        let window = start..(start + window).min(pieces);
        if !window.clone().any(|piece| noted.has(Piece(piece))) {
            continue;
        }
        add_unmarked(&mut runs, window, marked);
    }
    runs
}

/// Ranges, with neighbours made one where `may_join` says so.
#[cfg(any(test, feature = "testing"))]
fn joined(
    ranges: impl Iterator<Item = Range<u64>>,
    may_join: impl Fn(&Range<u64>, &Range<u64>) -> bool,
) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end == range.start && may_join(last, &range) => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}

/// Whether a MiB of a disk holds whole units of it only.
fn fit(limits: &DiscardLimits) -> bool {
    limits.alignment == 0 && WINDOW_BYTES.is_multiple_of(limits.granularity)
}

/// Adds the pieces of a range that have no mark, run by run.
fn add_unmarked(runs: &mut Vec<Range<usize>>, pieces: Range<usize>, marked: &Bits) {
    for piece in pieces.filter(|piece| !marked.has(Piece(*piece))) {
        match runs.last_mut() {
            Some(last) if last.end == piece => last.end += 1,
            _ => runs.push(piece..piece + 1),
        }
    }
}

impl Data {
    /// From now on free space is discarded. `is_all_discarded`: the engine before this one left
    /// nothing to discard. `trusts`: space that seems free is free.
    pub(crate) fn begin_discards(self: &Arc<Self>, is_all_discarded: bool, trusts: bool) {
        let trusts = trusts && !self.space().is_contested();
        match (is_all_discarded || planted::has(Bug::QueueForgotten), trusts) {
            (true, _) => {}
            (false, true) => self.sweep(),
            (false, false) => self.discards.state().owes_sweep = true,
        }
        self.spawn_while_mounted("discards", discard_while_mounted);
    }

    /// All free space is to be discarded, whatever freed it, and whenever.
    pub(crate) fn sweep(&self) {
        let mut space = self.space();
        self.members.values().for_each(|member| space.stain(member.number));
        drop(space);
        let mut state = self.discards.state();
        state.owes_sweep = false;
        state.sweep_from(0);
    }

    /// An extent has got its AUs, durably or not: pieces that the device still holds and that get
    /// no data are discarded.
    pub(crate) fn note_places(&self, extent: &Extent) {
        let stained = {
            let mut space = self.space();
            extent
                .mirrors()
                .iter()
                .filter(|mirror| space.take_stain(mirror.disk, mirror.au))
                .count()
        };
        if stained > 0 {
            self.discards.note_stained(extent.id, self.blocks_per_au() / BLOCKS_PER_PIECE);
        }
    }

    /// Disks take discards again: space that was freed while they took none may be there.
    pub(crate) fn sweep_disks(&self, disks: impl IntoIterator<Item = DiskNumber>) {
        if self.discards.state().owes_sweep {
            return;
        }
        for disk in disks {
            self.space().stain(disk);
            self.discards.state().refused.remove(&disk);
        }
        self.discards.state().sweep_from(0);
    }

    /// A round of the caretaker.
    pub(crate) fn tend_discards(&self) {
        self.note_waiting();
        if self.attributes().discard && self.members.values().any(|member| member.can_discard()) {
            self.discards.ripen();
            let takes = |disk| self.members.get(&disk).map(|member| self.could_discard(member));
            self.discards.try_again(self.world.monotonic(), takes);
        } else {
            self.discards.forget();
        }
    }

    /// Whether this mount leaves what it found to another one, as it may be all that is left of
    /// something.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn owes_discards(&self) -> bool {
        self.discards.owes_sweep()
    }

    /// Whether nothing is left to discard, on any disk.
    pub fn is_all_discarded(&self) -> bool {
        let is_freeing = self.freeing.has_pending() && !planted::has(Bug::DiscardedSoon);
        if !self.attributes().discard || !self.discards.is_empty() || is_freeing {
            return false;
        }
        let space = self.space();
        let is_clean = |member: &Arc<Member>| {
            let stains = if member.can_discard() { space.stains(member.number) } else { 0 };
            member.quorum || (member.state() == DiskState::Online && stains == 0)
        };
        self.members.values().all(is_clean)
    }

    /// By the name of each disk, which of its bytes are unused: runs of free AUs, and in AUs of
    /// files the runs of pieces that hold no data.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    #[cfg(any(test, feature = "testing"))]
    pub async fn unused(&self) -> Result<Vec<(String, Vec<Range<u64>>)>, FileError> {
        let size = self.au_size;
        let pieces = self.blocks_per_au() / BLOCKS_PER_PIECE;
        let read = move |connection: &Connection| {
            let mut holes = Vec::new();
            tables::extent::each(connection, |row| {
                for mirror in row.extent.mirrors {
                    let empty = row.marks.holes(pieces);
                    holes.extend(empty.map(|piece| (mirror.disk, mirror.au, piece)));
                }
            })?;
            Ok(holes)
        };
        let holes = self.catalog.read(read).await?;
        let space = self.space();
        let of = |member: &Arc<Member>| {
            let layout = member.layout();
            let is_free = |au: &Au| space.state(member.number, *au) == Some(AuState::Free);
            let free = Au(0)
                .run(layout.au_count())
                .filter(is_free)
                .map(|au| layout.au_offset(au)..layout.au_offset(au) + size);
            let mut unused = joined(free, |_, _| true);
            let here = holes.iter().filter(|(disk, ..)| *disk == member.number);
            let pieces = here.map(|(_, au, piece)| {
                let first = layout.au_offset(*au) + piece.offset();
                first..first + PIECE_SIZE
            });
            unused.extend(joined(pieces, |before, next| before.start / size == next.start / size));
            (member.name().to_string(), unused)
        };
        Ok(self.members.values().filter(|member| !member.quorum).map(of).collect())
    }

    /// A number that changes with each use of the disks that has priority over discards.
    pub(crate) fn disk_use(&self) -> u64 {
        let of = |member: &Arc<Member>| {
            let (files, catalog) =
                (member.counters.of(IoClient::Files), member.counters.of(IoClient::Catalog));
            let tallies = [&files.reads, &files.writes, &catalog.writes];
            tallies.map(|tally| tally.count.load(Ordering::Relaxed)).iter().sum::<u64>()
        };
        self.members.values().map(of).sum()
    }

    /// Whether space on a disk is discarded. Space on a disk that leaves is not: the disk goes back
    /// whole, or not at all.
    fn takes_discards(&self, member: &Member) -> bool {
        self.could_discard(member) && !self.discards.rests(member.number)
    }

    fn could_discard(&self, member: &Member) -> bool {
        self.could_reclaim(member, ReclaimMethod::Discard)
    }

    /// Whether space on a disk could be given back by this method.
    pub(crate) fn could_reclaim(&self, member: &Member, method: ReclaimMethod) -> bool {
        let stays = self.voters.current().disk(member.number).is_some_and(|disk| !disk.leaving);
        let is_able = method == ReclaimMethod::Zero || member.can_discard();
        stays && !member.quorum && member.is_writable() && is_able
    }

    /// Gives back some free AUs of a disk, the first that are not before `from`.
    pub(crate) async fn reclaim_units(
        self: &Arc<Self>,
        member: &Arc<Member>,
        (from, most): (Au, u32),
        method: ReclaimMethod,
    ) -> UnitsTurn {
        let limits = member.discard_limits().filter(|_| method == ReclaimMethod::Discard);
        let taken = {
            let mut space = self.space();
            if space.discarding(member.number) > 0 || self.freeing.coming().is_awaited() {
                return UnitsTurn::OtherInFlight;
            }
            space.take_free_to_discard(member.number, from, most, limits.as_ref())
        };
        let Some((run, next)) = taken else { return UnitsTurn::NoneLeft };
        let done = discard_units(Arc::clone(self), Arc::clone(member), run, method).await;
        UnitsTurn::Ended { next, done }
    }

    /// Gives back pieces that were looked at, on some disks. Also those that were in use, and must
    /// be looked at again.
    pub(crate) async fn reclaim_pieces(
        self: &Arc<Self>,
        ready: Vec<Ready>,
        method: ReclaimMethod,
        disks: &BTreeSet<DiskNumber>,
    ) -> (Reclaimed, BTreeMap<ExtentId, Bits>) {
        let takes =
            |member: &Member| disks.contains(&member.number) && self.could_reclaim(member, method);
        let ends = ready.iter().map(|ready| try_pieces(self, ready, method, takes));
        let ends = future::join_all(ends).await;
        let mut all = Reclaimed::default();
        let mut again: BTreeMap<ExtentId, Bits> = BTreeMap::new();
        for (ready, end) in ready.iter().zip(ends) {
            match end {
                Some(end) => all.add(end),
                None => {
                    let left = again.entry(ready.extent.id).or_default();
                    ready.pieces.clone().for_each(|piece| left.add(Piece(piece)));
                }
            }
        }
        (all, again)
    }

    /// The next discards, and the bytes of the disk that has most of them.
    async fn next_round(self: &Arc<Self>, units: u32) -> (Vec<Task<'static, ()>>, u64) {
        let mut round: Vec<Task<'static, ()>> = Vec::new();
        let mut bytes = 0;
        let is_awaited = self.freeing.coming().is_awaited();
        let idle = |member: &&Arc<Member>| {
            let is_idle = self.discards.under_way(member.number) == 0;
            is_idle && !is_awaited && self.takes_discards(member)
        };
        for member in self.members.values().filter(idle) {
            let Some(limits) = member.discard_limits() else { continue };
            let run = {
                let mut space = self.space();
                if space.discarding(member.number) > 0 {
                    // A RECLAIM has taken some.
                    continue;
                }
                let most = units.min(space.free(member.number) / PART_OF_FREE).max(1);
                space.take_to_discard(member.number, most, &limits)
            };
            if let Some(run) = run {
                bytes = bytes.max(u64::from(run.1) * self.au_size);
                let discard = ReclaimMethod::Discard;
                let units = discard_units(Arc::clone(self), Arc::clone(member), run, discard);
                round.push(Box::pin(async { _ = units.await }));
            }
        }
        if !round.is_empty() {
            return (round, bytes);
        }
        let is_ready = !self.discards.state().ready.is_empty();
        if !is_ready && self.look_for_pieces().await.is_err() {
            // The catalog has stopped, or the group is dismounted.
            return (round, bytes);
        }
        while round.len() < RUNS_AT_ONCE {
            let in_hand = InHand::new(self);
            let Some(ready) = self.discards.state().ready.pop_front() else { break };
            if ready.extent.disks().any(|disk| self.discards.under_way(disk) >= RUNS_AT_ONCE) {
                // A disk that does not end its discards: later.
                if !planted::has(Bug::CrowdedHoleForgotten) {
                    self.discards.note(ready.extent.id, ready.pieces.map(Piece));
                }
                continue;
            }
            bytes += ready.pieces.len() as u64 * PIECE_SIZE;
            round.push(Box::pin(discard_pieces(in_hand, ready)));
        }
        (round, bytes)
    }

    /// Finds pieces without data, durably so.
    async fn look_for_pieces(self: &Arc<Self>) -> Result<(), FileError> {
        let _in_hand = InHand::new(self);
        while self.discards.wants_sweep() {
            self.sweep_some().await?;
        }
        let noted: Vec<(ExtentId, Bits)> = {
            let mut state = self.discards.state();
            std::iter::from_fn(|| state.ripe.pop_first()).take(LOOKED_AT).collect()
        };
        if !noted.is_empty() {
            let found = self.look_at(noted).await?;
            self.discards.state().ready.extend(found);
        }
        Ok(())
    }

    /// Of pieces that had no marks, those that have none, durably so.
    pub(crate) async fn look_at(
        &self,
        noted: Vec<(ExtentId, Bits)>,
    ) -> Result<VecDeque<Ready>, FileError> {
        let (extents, pieces) =
            (Arc::clone(&self.extents), self.blocks_per_au() / BLOCKS_PER_PIECE);
        let coarse: Vec<DiskNumber> = self
            .members
            .values()
            .filter(|member| member.discard_limits().is_some_and(|limits| !fit(&limits)))
            .map(|member| member.number)
            .collect();
        let look = move |connection: &Connection| {
            let mut found = VecDeque::new();
            for (id, noted) in noted {
                let Some(extent) = find(connection, &extents, id)? else { continue };
                let (losses, marked) = (extent.losses(), extent.state().marked());
                let is_coarse = extent.disks().any(|disk| coarse.contains(&disk));
                let window = if is_coarse { pieces } else { WINDOW };
                let ready = runs(&marked, &noted, pieces, window).into_iter();
                found.extend(ready.map(|pieces| Ready {
                    extent: Arc::clone(&extent),
                    losses,
                    pieces,
                }));
            }
            Ok(found)
        };
        // Durably: it is the last of all commits that took marks off so far.
        let (found, _) = self.catalog.release(!planted::has(Bug::DiscardedEarly), look).await?;
        Ok(found)
    }

    /// Pieces that seem to have no data, of some extents in the order of their ids; and the id to
    /// go on from, if there are more.
    pub(crate) async fn holes_from(
        &self,
        from: u64,
    ) -> Result<(Vec<(ExtentId, Bits)>, Option<u64>), FileError> {
        let pieces = self.blocks_per_au() / BLOCKS_PER_PIECE;
        let read = move |connection: &Connection| {
            let rows = tables::extent::marks_from(connection, from, SWEPT)?;
            let next = rows.last().map(|(id, _)| id + 1);
            let mut found = Vec::new();
            for (id, marks) in rows {
                let mut empty = Bits::default();
                marks.holes(pieces).for_each(|piece| empty.add(piece));
                if !empty.is_empty() {
                    found.push((ExtentId(id), empty));
                }
            }
            Ok((found, next))
        };
        self.catalog.read(read).await
    }

    /// One step of the sweep, if one is running.
    async fn sweep_some(&self) -> Result<(), FileError> {
        let (from, told) = {
            let state = self.discards.state();
            (state.sweep, state.sweeps_told)
        };
        let Some(from) = from else { return Ok(()) };
        let (found, next) = self.holes_from(from).await?;
        let mut state = self.discards.state();
        if state.sweeps_told != told && !planted::has(Bug::SweepOverruled) || state.sweep.is_none()
        {
            // The sweep was moved or called off meanwhile: what this step has read does not count.
            return Ok(());
        }
        state.sweep = next;
        for (id, pieces) in found {
            state.ripe.entry(id).or_default().add_all(&pieces);
        }
        Ok(())
    }
}

/// The task.
async fn discard_while_mounted(group: Weak<Data>) -> Option<()> {
    let mut flying: FuturesUnordered<Task<'static, ()>> = FuturesUnordered::new();
    let mut pace = Pace::new(group.upgrade()?.au_size, REQUEST_MAX, RESTS);
    let (mut rest, mut used) = (LOOK, 0);
    loop {
        let group = rest_beside(&group, &mut flying, rest).await?;
        rest = LOOK;
        // When the catalog has stopped, it is unknown what the next mount finds free.
        let has_stopped =
            group.catalog.failure().is_some() && !planted::has(Bug::DoubtfulPlaceFreed);
        if group.is_stopping() || has_stopped || !group.attributes().discard {
            continue;
        }
        let began = group.world.monotonic();
        let (round, bytes) = group.next_round(pace.units()).await;
        if round.is_empty() {
            continue;
        }
        let left = Arc::new(AtomicUsize::new(round.len()));
        for discard in round {
            let left = Arc::clone(&left);
            flying.push(Box::pin(async move {
                discard.await;
                left.fetch_sub(1, Ordering::Relaxed);
            }));
        }
        let mut patience = group.world.sleep(ROUND_MAX);
        while left.load(Ordering::Relaxed) > 0 {
            if let Either::Right(_) = future::select(flying.next(), &mut patience).await {
                break;
            }
        }
        let now = group.disk_use();
        let took = group.world.monotonic().saturating_sub(began);
        rest = pace.rest_after(
            Round { took, bytes, is_used: now != used },
            group.throttle.strain_beside_discards(),
            group.attributes().discard_pace,
        );
        used = now;
    }
}

/// Rests, while discards in flight go on. Shorter if the disks are idle. `None`: the group is gone,
/// or dismounted.
async fn rest_beside(
    group: &Weak<Data>,
    flying: &mut FuturesUnordered<Task<'static, ()>>,
    rest: Duration,
) -> Option<Arc<Data>> {
    let (mut left, mut unused) = (rest, Duration::ZERO);
    loop {
        let nap = left.min(LOOK);
        let (world, used) = {
            let group = group.upgrade()?;
            (Arc::clone(&group.world), group.disk_use())
        };
        let mut sleep = world.sleep(nap);
        loop {
            if flying.is_empty() {
                sleep.await;
                break;
            }
            if let Either::Right(_) = future::select(flying.next(), &mut sleep).await {
                break;
            }
        }
        let group = group.upgrade().filter(|group| !group.voters.is_closing())?;
        left -= nap;
        unused = if group.disk_use() == used { unused + nap } else { Duration::ZERO };
        if left.is_zero() || unused >= UNUSED {
            return Some(group);
        }
    }
}

/// Gives back bytes of a disk, by discards those that are whole units of it: one request after the
/// other. Calls `be_late` from the time on after which a silent disk would have failed. After a
/// request that fails, or when the disk was released meanwhile, the rest has failed too.
async fn give_back(
    group: &Data,
    member: &Member,
    method: ReclaimMethod,
    bytes: Range<u64>,
    mut be_late: impl FnMut(),
) -> Reclaimed {
    let losses = member.losses();
    let requests: Vec<Range<u64>> = match (method, member.discard_limits()) {
        (ReclaimMethod::Discard, Some(limits)) => limits.requests(bytes).collect(),
        (ReclaimMethod::Discard, None) => {
            return Reclaimed { bytes: 0, failed: bytes.end - bytes.start };
        }
        (ReclaimMethod::Zero, _) => {
            let parts = bytes.clone().step_by(REQUEST_MAX as usize);
            parts.map(|start| start..bytes.end.min(start + REQUEST_MAX)).collect()
        }
    };
    let began = group.world.monotonic();
    let mut all = Reclaimed::default();
    for request in requests {
        let length = request.end - request.start;
        if all.failed > 0 || member.losses() != losses || member.has_left() {
            all.failed += length;
            continue;
        }
        let disk_io = match method {
            ReclaimMethod::Discard => member.start_discard(request.start, length),
            ReclaimMethod::Zero => member.start_write_zeroes(request.start, length),
        };
        let Some(is_good) =
            wait_for_end(group, member, (losses, began), disk_io, &mut be_late).await
        else {
            all.failed += length;
            continue;
        };
        let is_able = method == ReclaimMethod::Zero || member.can_discard();
        let given_back = is_good.then_some(if is_able { length } else { 0 });
        group.discards.note_end(member.number, group.world.monotonic(), given_back);
        if is_good && method == ReclaimMethod::Zero {
            // The next flush is for them, too.
            member.note_write_done();
        }
        let (bytes, failed) = if is_good { (length, 0) } else { (0, length) };
        all.add(Reclaimed { bytes, failed });
    }
    all
}

/// Waits for the end of one request, and returns whether it succeeded. `None`: the disk was
/// released meanwhile. `losses` of the disk, and the time, are those when the first request began.
async fn wait_for_end(
    group: &Data,
    member: &Member,
    (losses, began): (u64, Duration),
    mut disk_io: DiskIo<'_>,
    be_late: &mut impl FnMut(),
) -> Option<bool> {
    let patience = Duration::from_millis(group.attributes().disk_timeout_ticks * TICK_MS);
    let mut end = pin!(disk_io.wait());
    loop {
        if let Either::Left((ended, _)) =
            future::select(end.as_mut(), group.world.sleep(LOOK)).await
        {
            return Some(ended.is_ok());
        }
        if member.disk().is_none() || member.losses() != losses || member.has_left() {
            return None;
        }
        if group.world.monotonic().saturating_sub(began) >= patience {
            be_late();
            reached::at(Mark::DiscardLate);
        }
    }
}

/// Gives back AUs that were taken for that.
async fn discard_units(
    group: Arc<Data>,
    member: Arc<Member>,
    (first, count): (Au, u32),
    method: ReclaimMethod,
) -> Reclaimed {
    let from = member.layout().au_offset(first);
    let length = u64::from(count) * group.au_size;
    let bytes = from..from + length;
    let _busy = group.discards.begin(member.number, length);
    if planted::has(Bug::DiscardBehindReuse) {
        group.space().discarded(member.number, first, count, true);
        return give_back(&group, &member, method, bytes, || {}).await;
    }
    let mut late = None;
    let be_late = || {
        if late.is_none() {
            late = Some(group.discards.note_late(member.number, count));
            group.freeing.coming().note_freed();
        }
    };
    let done = give_back(&group, &member, method, bytes, be_late).await;
    group.space().discarded(member.number, first, count, done.failed == 0);
    drop(late);
    group.freeing.coming().note_freed();
    done
}

async fn discard_pieces(in_hand: InHand, ready: Ready) {
    let group = &in_hand.0;
    let takes = |member: &Member| group.takes_discards(member);
    if try_pieces(group, &ready, ReclaimMethod::Discard, takes).await.is_none() {
        group.discards.note(ready.extent.id, ready.pieces.map(Piece));
    }
}

/// Gives pieces of an extent back, on those of its disks that take that. `None`: they must be
/// looked at again.
async fn try_pieces(
    group: &Data,
    Ready { extent, losses, pieces }: &Ready,
    method: ReclaimMethod,
    takes: impl Fn(&Member) -> bool,
) -> Option<Reclaimed> {
    let blocks = pieces.start * BLOCKS_PER_PIECE..pieces.end * BLOCKS_PER_PIECE;
    let careless = planted::has(Bug::HoleDiscardedUnheld);
    let held = extent.ranges.try_hold(blocks, true);
    if held.is_none() && !careless {
        // A task is using these pieces.
        reached::at(Mark::DiscardMetWriter);
        return planted::has(Bug::HoleInUseForgotten).then(Reclaimed::default);
    }
    if extent.is_tombstone() {
        // Its AUs go whole.
        return Some(Reclaimed::default());
    }
    // A piece that was written meanwhile is not a hole any more. In this order: a job counts before
    // it clears marks.
    let marked = if careless { Bits::default() } else { extent.state().marked() };
    if !careless && extent.losses() != *losses && !planted::has(Bug::HolePunchedAgain) {
        // A mark that was cleared since may not be durable.
        reached::at(Mark::DiscardMetLoss);
        return None;
    }
    let mut runs = Vec::new();
    add_unmarked(&mut runs, pieces.clone(), &marked);
    let (mirrors, target) = extent.places();
    let places: Vec<(Mirror, Arc<Member>)> = mirrors
        .into_iter()
        .chain(target)
        .filter_map(|mirror| Some((mirror, Arc::clone(group.members.get(&mirror.disk)?))))
        .filter(|(_, member)| takes(member))
        .collect();
    let mut discards = Vec::new();
    for run in &runs {
        for (mirror, member) in &places {
            let unit = member.layout().au_offset(mirror.au);
            let bytes = unit + run.start as u64 * PIECE_SIZE..unit + run.end as u64 * PIECE_SIZE;
            discards.push(give_back_run(group, member, method, bytes));
        }
    }
    let mut all = Reclaimed::default();
    future::join_all(discards).await.into_iter().for_each(|one| all.add(one));
    drop(held);
    Some(all)
}

#[cfg(test)]
impl Data {
    /// Discards pieces of an extent that were found to be without data when it had lost marks so
    /// often.
    pub(crate) async fn discard_found(
        self: &Arc<Self>,
        extent: &Arc<Extent>,
        losses: u64,
        pieces: Range<usize>,
    ) {
        discard_pieces(InHand::new(self), Ready { extent: Arc::clone(extent), losses, pieces })
            .await;
    }

    /// One step of the sweep.
    pub(crate) async fn sweep_step(&self) -> Result<(), FileError> {
        self.sweep_some().await
    }

    /// Where the sweep goes on.
    pub(crate) fn sweeps_from(&self) -> Option<u64> {
        self.discards.state().sweep
    }
}

/// On one mirror.
async fn give_back_run(
    group: &Data,
    member: &Member,
    method: ReclaimMethod,
    bytes: Range<u64>,
) -> Reclaimed {
    let _busy = group.discards.begin(member.number, bytes.end - bytes.start);
    give_back(group, member, method, bytes, || {}).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(pieces: &[usize]) -> Bits {
        let mut bits = Bits::default();
        pieces.iter().for_each(|piece| bits.add(Piece(*piece)));
        bits
    }

    #[test]
    fn neighbours_without_data_go_along() {
        assert_eq!(runs(&bits(&[0, 3, 20]), &bits(&[1]), 64, 16), [1..3, 4..16]);
        assert_eq!(runs(&bits(&[0]), &bits(&[17]), 64, 16), std::slice::from_ref(&(16..32)));
        assert_eq!(runs(&bits(&[]), &bits(&[15, 16]), 64, 16), std::slice::from_ref(&(0..32)));
        assert_eq!(runs(&bits(&[1]), &bits(&[1]), 16, 16), [0..1, 2..16]);
        assert!(runs(&bits(&[]), &bits(&[]), 64, 16).is_empty());
        assert_eq!(runs(&bits(&[5]), &bits(&[1]), 64, 64), [0..5, 6..64]);
    }
}
