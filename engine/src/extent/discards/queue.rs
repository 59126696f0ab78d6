//! Pieces that are to be discarded, discards in flight, and how each disk has taken them.
//!
//! It is in memory only. A sweep finds again what is lost with the process, and what finds no room
//! where very many extents have such pieces.

use crate::{
    extent::{Extent, data::Data},
    limits::Limit,
    planted::{self, Bug},
    reached::{self, Mark},
    space::extent_id::ExtentId,
    sync::{
        bits::Bits,
        lock::{Mutex, MutexGuard},
    },
};
use plinth_format::{DiskNumber, Piece};
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    sync::Arc,
    time::Duration,
};

/// A disk that has failed a discard is given no other for so long, at first and at most.
const REFUSED: Duration = if cfg!(any(test, feature = "testing")) {
    Duration::from_secs(1)
} else {
    Duration::from_secs(10)
};
const REFUSED_MAX: Duration = Duration::from_secs(3600);
/// Extents of which pieces without data are kept in mind because their AUs were stained.
const NOTED_MAX: Limit = Limit::new(1 << 16, 3);

/// Pieces of extents in use that are to be discarded, and discards in flight. Free AUs are in
/// `space.rs`.
#[derive(Debug, Default)]
pub struct Discards(Mutex<State>);

#[derive(Debug, Default)]
pub(super) struct State {
    /// Pieces that have lost their marks, by extent. The fresh ones rest: what makes a hole often
    /// fills it again.
    pub(super) fresh: BTreeMap<ExtentId, Bits>,
    pub(super) ripe: BTreeMap<ExtentId, Bits>,
    pub(super) ready: VecDeque<Ready>,
    /// Where the sweep goes on, and how often that was set.
    pub(super) sweep: Option<u64>,
    pub(super) sweeps_told: u64,
    /// There should have been one, and this mount makes none.
    pub(super) owes_sweep: bool,
    /// Pieces that were taken out of here to be looked at or discarded.
    pub(super) in_hand: usize,
    /// Discards in flight, and their bytes.
    pub(super) busy: BTreeMap<DiskNumber, (usize, u64)>,
    /// AUs whose discard takes longer than a disk may be silent: they are not waited for any more.
    pub(super) late: BTreeMap<DiskNumber, u32>,
    /// How the discards of this mount have ended.
    pub(super) ends: BTreeMap<DiskNumber, Ends>,
    /// Since when space waits to be discarded, by the monotonic clock.
    pub(super) waiting_since: BTreeMap<DiskNumber, Duration>,
    /// Disks that have failed a discard, and had none since that went well.
    pub(super) refused: BTreeMap<DiskNumber, Refused>,
}

/// How the discards of a disk have ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ends {
    /// Bytes of those that succeeded.
    given_back: u64,
    failures: u64,
}

/// How the discards of a disk fare: bytes, failures since the mount, and for how long some have
/// been waiting.
pub(in crate::extent) struct About {
    pub(in crate::extent) in_flight: u64,
    pub(in crate::extent) returned: u64,
    pub(in crate::extent) failures: u64,
    pub(in crate::extent) age: Duration,
}

/// How a disk is treated that has failed a discard.
#[derive(Debug)]
pub(super) struct Refused {
    /// By the monotonic clock. `None`: it is tried again.
    until: Option<Duration>,
    rest: Duration,
}

/// Pieces of an extent without data, durably so at the time of a look.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(super) extent: Arc<Extent>,
    /// How often it had lost marks then.
    pub(super) losses: u64,
    pub(super) pieces: Range<usize>,
}

impl State {
    /// The sweep goes on from there. Rows that a step of it has read before may not be all.
    pub(super) fn sweep_from(&mut self, extent: u64) {
        self.sweep = Some(extent);
        self.sweeps_told += 1;
    }
}

/// Something was taken out.
pub(super) struct InHand(pub(super) Arc<Data>);

impl InHand {
    pub(super) fn new(group: &Arc<Data>) -> Self {
        group.discards.state().in_hand += 1;
        Self(Arc::clone(group))
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        self.0.discards.state().in_hand -= 1;
    }
}

/// A discard is in flight on a disk: its bytes.
pub(super) struct Busy<'a>(&'a Discards, DiskNumber, u64);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let Some((count, bytes)) = state.busy.get_mut(&self.1) {
            *count -= 1;
            *bytes -= self.2;
            if *count == 0 {
                state.busy.remove(&self.1);
            }
        }
    }
}

impl Discards {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// A commit cleared the marks of pieces of an extent, or freed a slot.
    pub fn note(&self, extent: ExtentId, pieces: impl IntoIterator<Item = Piece>) {
        let mut state = self.state();
        let noted = state.fresh.entry(extent).or_default();
        pieces.into_iter().for_each(|piece| noted.add(piece));
    }

    /// An extent has AUs that were stained: pieces that get no data are to be discarded. Of very
    /// many the sweep takes note.
    pub(super) fn note_stained(&self, extent: ExtentId, pieces: usize) {
        let mut state = self.state();
        if state.fresh.len() + state.ripe.len() < NOTED_MAX.get() {
            let noted = state.fresh.entry(extent).or_default();
            (0..pieces).map(Piece).for_each(|piece| noted.add(piece));
        } else if !planted::has(Bug::StainedNotNoted) {
            reached::at(Mark::SweepFromNote);
            let from = state.sweep.map_or(extent.0, |next| next.min(extent.0));
            state.sweep_from(from);
        }
    }

    /// Pieces that have rested are to be discarded.
    pub(super) fn ripen(&self) {
        let mut state = self.state();
        let State { fresh, ripe, .. } = &mut *state;
        for (extent, pieces) in std::mem::take(fresh) {
            ripe.entry(extent).or_default().add_all(&pieces);
        }
    }

    /// Discards were switched off.
    pub(super) fn forget(&self) {
        let mut state = self.state();
        state.fresh.clear();
        state.ripe.clear();
        state.ready.clear();
        state.refused.clear();
        state.sweep = None;
    }

    pub(super) fn is_empty(&self) -> bool {
        let state = self.state();
        let State { fresh, ripe, ready, sweep, owes_sweep, in_hand, busy, refused, .. } = &*state;
        // What a disk that is tried again still has to discard is among the stains and the pieces:
        // nothing, if that space was used again meanwhile.
        let is_resting = refused.values().any(|refused| refused.until.is_some());
        let is_idle = *in_hand == 0 && busy.is_empty() && !*owes_sweep && !is_resting;
        is_idle && fresh.is_empty() && ripe.is_empty() && ready.is_empty() && sweep.is_none()
    }

    /// AUs of a disk whose discard takes too long to be waited for.
    pub fn late(&self, disk: DiskNumber) -> u32 {
        self.state().late.get(&disk).copied().unwrap_or(0)
    }

    /// Whether nothing else is left but what the sweep finds.
    pub(super) fn wants_sweep(&self) -> bool {
        let state = self.state();
        state.ripe.is_empty() && state.sweep.is_some()
    }

    pub(super) fn begin(&self, disk: DiskNumber, bytes: u64) -> Busy<'_> {
        let mut state = self.state();
        let busy = state.busy.entry(disk).or_default();
        *busy = (busy.0 + 1, busy.1 + bytes);
        Busy(self, disk, bytes)
    }

    /// A discard on a disk has ended. `given_back`: the bytes of one that succeeded.
    pub(super) fn note_end(&self, disk: DiskNumber, now: Duration, given_back: Option<u64>) {
        let mut state = self.state();
        let ends = state.ends.entry(disk).or_default();
        ends.given_back += given_back.unwrap_or(0);
        ends.failures += u64::from(given_back.is_none());
        if given_back.is_some() {
            // One that was begun before another one failed says nothing.
            if state.refused.get(&disk).is_some_and(|refused| refused.until.is_none()) {
                state.refused.remove(&disk);
            }
            return;
        }
        let refused = state.refused.entry(disk).or_insert(Refused { until: None, rest: REFUSED });
        if refused.until.is_none() {
            refused.until = Some(now + refused.rest);
            refused.rest = (refused.rest * 2).min(REFUSED_MAX);
        }
    }

    /// Whether a disk is given no discards for now, as it has failed some.
    pub(crate) fn rests(&self, disk: DiskNumber) -> bool {
        self.state().refused.get(&disk).is_some_and(|refused| refused.until.is_some())
    }

    /// Tries those disks again that have rested. `takes`: whether one could be given discards;
    /// `None`: it is gone.
    pub(super) fn try_again(&self, now: Duration, takes: impl Fn(DiskNumber) -> Option<bool>) {
        let mut state = self.state();
        state.refused.retain(|disk, _| takes(*disk).is_some());
        let is_due = |(disk, refused): &(&DiskNumber, &mut Refused)| {
            refused.until.is_some_and(|until| until <= now) && takes(**disk) == Some(true)
        };
        let due = state
            .refused
            .iter_mut()
            .filter(is_due)
            .map(|(_, refused)| refused.until = None)
            .count();
        if due > 0 {
            reached::at(Mark::DiscardRefused);
            state.sweep_from(0);
        }
    }

    /// In how long a disk is tried again that has failed a discard. `None`: it is not waited for.
    pub(in crate::extent) fn rest_of(&self, disk: DiskNumber, now: Duration) -> Option<Duration> {
        let until = self.state().refused.get(&disk)?.until?;
        Some(until.saturating_sub(now))
    }

    pub(in crate::extent) fn owes_sweep(&self) -> bool {
        self.state().owes_sweep
    }

    /// How many pieces of each extent are to be looked at or discarded.
    pub(in crate::extent) fn pieces_waiting(&self) -> Vec<(ExtentId, usize)> {
        let state = self.state();
        let noted = state.fresh.iter().chain(&state.ripe).map(|(id, pieces)| (*id, pieces.count()));
        let ready = state.ready.iter().map(|ready| (ready.extent.id, ready.pieces.len()));
        noted.chain(ready).collect()
    }

    /// Whether space of a disk waits to be discarded.
    pub(in crate::extent) fn note_waiting(&self, disk: DiskNumber, waits: bool, now: Duration) {
        let mut state = self.state();
        if waits {
            state.waiting_since.entry(disk).or_insert(now);
        } else {
            state.waiting_since.remove(&disk);
        }
    }

    /// How the discards of a disk fare.
    pub(in crate::extent) fn about(&self, disk: DiskNumber, now: Duration) -> About {
        let state = self.state();
        let ends = state.ends.get(&disk).copied().unwrap_or_default();
        let age = state.waiting_since.get(&disk).map(|since| now.saturating_sub(*since));
        About {
            in_flight: state.busy.get(&disk).map_or(0, |(_, bytes)| *bytes),
            returned: ends.given_back,
            failures: ends.failures,
            age: age.unwrap_or_default(),
        }
    }

    /// A discard takes longer than a disk may be silent: its AUs are not waited for any more.
    pub(super) fn note_late(&self, disk: DiskNumber, units: u32) -> Late<'_> {
        *self.state().late.entry(disk).or_default() += units;
        Late(self, disk, units)
    }

    pub(super) fn under_way(&self, disk: DiskNumber) -> usize {
        self.state().busy.get(&disk).map_or(0, |(count, _)| *count)
    }
}

/// AUs whose discard is not waited for any more.
pub(super) struct Late<'a>(&'a Discards, DiskNumber, u32);

impl Drop for Late<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.0.state().late.get_mut(&self.1) {
            *count = count.saturating_sub(self.2);
        }
    }
}
