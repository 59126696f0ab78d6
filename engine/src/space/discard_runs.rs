//! The runs of AUs of a disk that are discarded at once, so that each unit of the device goes back
//! when the last AU in which it lies is free.
//!
//! A device may give space back in units that are larger than an AU, or lie across two. A discard
//! is cut inwards to whole units; a unit at its edge, which it shares with an AU beside it, is left
//! to that AU:
//!
//! ```text
//!   the AU beside it is      the unit goes
//!   free, not stained        with this run: the AU is taken along           with_neighbours
//!   free and stained         with that AU's own discard, which takes this one along
//!   taken                    with that AU's next discard: it is noted now   leave_to_neighbours
//! ```
//!
//! A released AU is stained, so it is discarded in any case. The note is for AUs that become free
//! in another way, and for a RECLAIM, which goes through all free AUs once and upwards: an AU that
//! it has passed is discarded again if the next one owes it a unit.

use super::{AuState, DiskSpace, au_of, place};
use crate::world::discard_limits::DiscardLimits;
use plinth_format::Au;
use std::ops::Range;

impl DiskSpace {
    /// The AUs of a word that are free and stained. Those being discarded are stained, too.
    fn to_discard(&self, word: usize) -> u64 {
        self.stained[word] & !self.taken(word)
    }

    pub(super) fn take_to_discard(
        &mut self,
        most: u32,
        limits: &DiscardLimits,
    ) -> Option<(Au, u32)> {
        let words = self.stained.len();
        let word = (self.first_stain..words).find(|word| self.to_discard(*word) != 0)?;
        if (self.first_stain..word).all(|word| self.stained[word] == 0) {
            self.first_stain = word;
        }
        let first = au_of(word, !self.to_discard(word));
        let is_ready = |au: Au| {
            let (word, bit) = place(au);
            word < words && self.to_discard(word) & bit != 0
        };
        let count = first.run(most.max(1)).take_while(|au| is_ready(*au)).count();
        let count = u32::try_from(count).expect("as many as a disk has");
        let (first, count) = self.with_neighbours(first, count, limits);
        first.run(count).for_each(|au| self.set(au, AuState::Discarding));
        self.leave_to_neighbours(first, count, limits);
        Some((first, count))
    }

    pub(super) fn take_free_to_discard(
        &mut self,
        from: Au,
        most: u32,
        limits: Option<&DiscardLimits>,
    ) -> Option<((Au, u32), Au)> {
        let words = self.low.len();
        let (start, bit) = place(from);
        let taken = |word: usize| self.taken(word) | if word == start { bit - 1 } else { 0 };
        let word = (start..words).find(|word| taken(*word) != u64::MAX)?;
        let first = au_of(word, taken(word));
        let is_free = |au: &Au| {
            let (word, bit) = place(*au);
            word < words && self.taken(word) & bit == 0
        };
        let size = self.layout.au_size();
        let coarse = limits.filter(|limits| self.has_shared_units(limits));
        let least = coarse.map_or(1, |limits| 2 * limits.granularity.div_ceil(size));
        let most = most.max(u32::try_from(least).unwrap_or(u32::MAX));
        let count = first.run(most).take_while(is_free).count();
        let mut count = u32::try_from(count).expect("as many as a disk has");
        let mut next = Au(first.0 + count);
        if let Some(limits) = coarse.filter(|_| count == most) {
            // More may follow: the run ends with a unit.
            let run = self.layout.au_bytes(first, count);
            let bytes = limits.inwards(run.clone()).end - run.start;
            count = u32::try_from(bytes.div_ceil(size)).expect("at most as many as before");
            next = Au(first.0 + u32::try_from(bytes / size).expect("as many or one less"));
            let behind = Au(first.0 + count);
            if next < behind && is_free(&behind) {
                // If no other run follows, discards complete the unit that begins in the last AU.
                self.stain(behind, true);
            }
        }
        let begin = match coarse.filter(|_| self.completes(first)) {
            Some(limits) => self.with_neighbours(first, count, limits).0,
            None => first,
        };
        let (first, count) = (begin, count + (first.0 - begin.0));
        for au in first.run(count) {
            self.stain(au, true);
            self.set(au, AuState::Discarding);
        }
        if let Some(limits) = coarse {
            self.leave_to_neighbours(first, count, limits);
        }
        Some(((first, count), next))
    }

    /// Whether units of the device lie across the borders of AUs.
    fn has_shared_units(&self, limits: &DiscardLimits) -> bool {
        limits.alignment > 0 || !self.layout.au_size().is_multiple_of(limits.granularity)
    }

    /// The AUs before a run, and those behind it, that share a unit of the device with it.
    fn beside(&self, first: Au, count: u32, limits: &DiscardLimits) -> [Range<u32>; 2] {
        let touched = limits.outwards(self.layout.au_bytes(first, count));
        let size = self.layout.au_size();
        let au = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let (begin, end) = (au(touched.start / size), au(touched.end.div_ceil(size)));
        [begin..first.0, first.0 + count..end.min(self.layout.au_count())]
    }

    /// Notes which AUs, taken now, complete the units of the device at the edges of a run that is
    /// discarded.
    fn leave_to_neighbours(&mut self, first: Au, count: u32, limits: &DiscardLimits) {
        let [before, behind] = self.beside(first, count, limits);
        let is_taken = |au: &Au| self.state(*au) != AuState::Free;
        let edges = [before.rev().map(Au).find(is_taken), behind.map(Au).find(is_taken)];
        for au in edges.into_iter().flatten() {
            let (word, bit) = place(au);
            self.completes[word] |= bit;
        }
    }

    /// Whether the next discard of an AU completes units of the device.
    pub(super) fn completes(&self, au: Au) -> bool {
        let (word, bit) = place(au);
        self.completes.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Adds the free AUs to a run that complete units of the device at its edges. Only those
    /// without a stain: a stained one completes its units itself, when it is discarded. So a free
    /// AU without a stain shares a unit that was not discarded only with AUs that are not free, or
    /// are stained: with them it will go.
    fn with_neighbours(&self, first: Au, count: u32, limits: &DiscardLimits) -> (Au, u32) {
        let end = Au(first.0 + count);
        let [before, behind] = self.beside(first, count, limits);
        let is_clean = |au: &Au| {
            let (word, bit) = place(*au);
            (self.taken(word) | self.stained[word]) & bit == 0
        };
        let before = before.rev().map(Au).take_while(is_clean);
        let behind = behind.map(Au).take_while(is_clean);
        let widest = before.last().unwrap_or(first)..behind.last().map_or(end, Au::next);
        let units =
            limits.inwards(self.layout.au_bytes(widest.start, widest.end.0 - widest.start.0));
        if units.is_empty() {
            return (first, count);
        }
        let has_units = |au: &Au| {
            self.layout.au_offset(*au) < units.end && self.layout.au_offset(au.next()) > units.start
        };
        let from = (widest.start.0..first.0).map(Au).find(has_units).unwrap_or(first);
        let to = (end.0..widest.end.0).map(Au).take_while(has_units).last().map_or(end, Au::next);
        (from, to.0 - from.0)
    }

    pub(super) fn cut_off(&self, limits: &DiscardLimits) -> u64 {
        if !self.has_shared_units(limits) {
            return 0;
        }
        let is_free = |au: Au| matches!(self.state(au), AuState::Free | AuState::Discarding);
        let mut cut_off = 0;
        let mut next = 0;
        while let Some(first) = (next..self.layout.au_count()).find(|au| is_free(Au(*au))) {
            next = (first..self.layout.au_count())
                .find(|au| !is_free(Au(*au)))
                .unwrap_or(self.layout.au_count());
            let run = self.layout.au_bytes(Au(first), next - first);
            let units = limits.inwards(run.clone());
            cut_off += (run.end - run.start) - (units.end - units.start);
        }
        cut_off
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Space,
        tests::{DISK, layout, limits, space},
        *,
    };
    use crate::testing::Numbers;
    use plinth_format::layout::MIB;
    use std::collections::BTreeSet;

    /// All free AUs are taken in order, stained or not, and no others; and all units of the device
    /// that lie in them go back.
    #[test]
    fn every_free_unit_is_taken_to_be_discarded() {
        let all_limits = [(4096, 0), (MIB, 4096), (3 * MIB, 0), (8 * MIB, 5 * MIB + 512)];
        let all = [13, 64, 65, 127, 128, 129, 1000];
        let all = all.into_iter().flat_map(|units| all_limits.map(|limits| (units, limits)));
        for (units, (granularity, alignment)) in all {
            let limits = limits(granularity, alignment);
            let layout = layout(units);
            let mut space = space(units);
            let total = space.total(DISK);
            let used: Vec<Au> = std::iter::from_fn(|| space.allocate_on(DISK)).collect();
            let is_kept = |au: &Au| au.0.is_multiple_of(31) || (60..70).contains(&au.0);
            used.iter().filter(|au| !is_kept(au)).for_each(|au| space.cancel(DISK, *au));
            let kept = u32::try_from(used.iter().filter(|au| is_kept(au)).count()).expect("few");
            let (mut from, mut taken, mut given_back) = (Au(0), BTreeSet::new(), 0);
            while let Some(((first, count), next)) =
                space.take_free_to_discard(DISK, from, 7, Some(&limits))
            {
                assert!(first >= from && next > first, "it goes on");
                assert_eq!(space.discarding(DISK), count);
                assert_eq!(space.available(DISK), total - kept, "none seems to be in use");
                let whole = limits.inwards(layout.au_bytes(first, count));
                given_back += whole.end - whole.start;
                taken.extend(first.run(count));
                space.discarded(DISK, first, count, true);
                from = next;
            }
            let free: BTreeSet<Au> = layout.data_units().filter(|au| !is_kept(au)).collect();
            assert_eq!(taken, free, "{units} {limits:?}");
            let whole = free.len() as u64 * MIB - space.cut_off(DISK, &limits);
            assert_eq!(given_back, whole, "{units} {limits:?}");
            assert_eq!(space.stains(DISK), 0);
            assert_eq!(space.take_free_to_discard(DISK, Au(u32::MAX), 7, None), None);
        }
    }

    /// Free AUs are taken to be discarded, and then no more: discards complete the unit that begins
    /// in the last of them.
    #[test]
    fn a_unit_that_was_begun_is_completed_by_discards() {
        for (granularity, alignment) in [(MIB, 4096), (3 * MIB, 0), (8 * MIB, 5 * MIB + 512)] {
            let limits = limits(granularity, alignment);
            for most in 1..40 {
                let mut space = space(130);
                let taken = space.take_free_to_discard(DISK, Au(0), most, Some(&limits));
                let ((first, count), _) = taken.expect("a run");
                space.discarded(DISK, first, count, true);
                let bytes = |au: Au| layout(130).au_offset(au);
                let mut end = limits.inwards(bytes(first)..bytes(Au(first.0 + count))).end;
                while let Some((next, count)) = space.take_to_discard(DISK, 1, &limits) {
                    let whole = limits.inwards(bytes(next)..bytes(Au(next.0 + count)));
                    assert!(whole.start <= end, "{limits:?} {most}: a gap");
                    end = end.max(whole.end);
                    space.discarded(DISK, next, count, true);
                }
                assert!(end >= bytes(Au(first.0 + count)), "{limits:?} {most}: it is left out");
            }
        }
    }

    /// In whatever order AUs are freed and discarded: every unit of the device that lies in free
    /// AUs only has gone back, and what has not is what `cut_off` says.
    #[test]
    fn every_unit_goes_back_when_its_last_au_is_free() {
        for (granularity, alignment) in
            [(4096, 0), (MIB / 4, MIB / 8), (MIB, 4096), (3 * MIB, 0), (8 * MIB, 5 * MIB + 512)]
        {
            let limits = limits(granularity, alignment);
            let mut numbers = Numbers::new(granularity + alignment);
            let mut space = space(70);
            let mut used: Vec<Au> = std::iter::from_fn(|| space.allocate_on(DISK)).collect();
            let keep = used.split_off(50);
            let mut given_back = vec![false; 70 * MIB as usize / 512];
            let mut reclaimed = Au(0);
            let mut discard_some = |space: &mut Space, runs: usize| {
                for run in 0..runs {
                    let taken = match run % 2 {
                        0 => space.take_to_discard(DISK, 3, &limits),
                        _ => space.take_free_to_discard(DISK, reclaimed, 3, Some(&limits)).map(
                            |(taken, next)| {
                                reclaimed = next;
                                taken
                            },
                        ),
                    };
                    let Some((first, count)) = taken else { return };
                    let at = layout(70).au_offset(first);
                    for request in limits.requests(at..at + u64::from(count) * MIB) {
                        let sectors = request.start / 512..request.end / 512;
                        sectors.for_each(|sector| given_back[sector as usize] = true);
                    }
                    space.discarded(DISK, first, count, true);
                }
            };
            while !used.is_empty() {
                let which = numbers.below(used.len() as u64) as usize;
                space.cancel(DISK, used.swap_remove(which));
                // Allocations that come to nothing while others are discarded.
                let taken = (0..numbers.below(4)).filter_map(|_| space.allocate_on(DISK));
                let taken: Vec<Au> = taken.collect();
                discard_some(&mut space, numbers.below(3) as usize);
                taken.into_iter().for_each(|au| space.put_back(DISK, au));
            }
            while space.stains(DISK) > 0 {
                discard_some(&mut space, 1);
            }
            assert_eq!(space.stains(DISK), 0);
            let is_free = |au: Au| space.state(DISK, au) == Some(AuState::Free);
            let sectors = (alignment / 512..70 * MIB / 512).step_by(granularity as usize / 512);
            let mut all = 0;
            for unit in sectors {
                let unit = unit..unit + granularity / 512;
                let is_whole = unit.clone().all(|sector| is_free(Au((sector * 512 / MIB) as u32)));
                let is_given = unit
                    .clone()
                    .all(|sector| given_back.get(sector as usize).copied().unwrap_or(false));
                assert_eq!(is_given, is_whole, "{limits:?} {unit:?}");
                all += if is_given { granularity } else { 0 };
            }
            let free = u64::from(space.free(DISK)) * MIB;
            assert_eq!(space.cut_off(DISK, &limits), free - all, "{limits:?}");
            drop(keep);
        }
    }
}
