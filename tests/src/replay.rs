//! The contents that disks may have after all of them lost power at the same moment.
//!
//! The moment is any point of a recording (`recorder.rs`): after some events, before the next. By
//! then each disk has
//!
//!   - durable: writes that had ended when a flush was submitted that has ended itself
//!   - cached: writes that ended since, or that are in flight at this moment
//!
//! A crash state is the durable part of each disk, and whatever of its cache the seed says:
//! nothing, everything, all but one write, one alone, or any; in any order; one of the writes torn
//! at sectors. Each disk has its own fate. Now and then all our processes are killed instead of a
//! power cut: then every write that had ended is there, and the host has not booted since.
//!
//! A [`Lie`] is a flush that ended and did nothing. With lies a state is one that must not be
//! survived, which is how a test shows that it can fail.

use crate::{
    Image,
    recorder::{Event, Io, Recording},
};
use plinth_workload::{pattern::SECTOR, random::Random};
use std::fmt;

/// The moment of the power cut, and the seed of its consequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cut {
    /// Events that had ended.
    pub at: usize,
    pub seed: u64,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cut at {} with seed {}", self.at, self.seed)
    }
}

/// Flushes that did nothing: given the disk and the number of the event.
pub type Lie<'a> = &'a (dyn Fn(usize, usize) -> bool + Sync);

/// No flush lies.
pub const HONEST: Lie<'static> = &|_, _| false;

/// The contents of the disks after a cut.
pub struct State {
    pub cut: Cut,
    pub images: Vec<Image>,
    /// The number up to which each stream was told that its work is durable.
    pub acknowledged: Vec<u64>,
    /// Only processes were killed: no write that had ended is lost.
    pub kept_power: bool,
    /// The fate of each disk's cache, for people.
    pub fate: String,
}

/// Goes through a recording from its beginning to its end.
pub struct Replay<'a> {
    recording: &'a Recording,
    lie: Lie<'a>,
    at: usize,
    durable: Vec<Image>,
    /// For each disk, the writes that have ended and are not durable, in the order of their ends.
    cached: Vec<Vec<usize>>,
    acknowledged: Vec<u64>,
}

impl<'a> Replay<'a> {
    #[must_use]
    pub fn new(recording: &'a Recording, streams: usize, lie: Lie<'a>) -> Self {
        Self {
            recording,
            lie,
            at: 0,
            durable: recording.base.clone(),
            cached: vec![Vec::new(); recording.base.len()],
            acknowledged: vec![0; streams],
        }
    }

    /// The state after a cut that is not before the last one.
    ///
    /// # Panics
    /// If it is.
    #[must_use]
    pub fn state(&mut self, cut: Cut) -> State {
        assert!(cut.at >= self.at && cut.at <= self.recording.events.len(), "{cut}");
        while self.at < cut.at {
            self.step();
        }
        let mut random = Random::new(cut.seed);
        let mut images = self.durable.clone();
        let mut fate = String::new();
        // Now and then all disks share a fate: above all, that of losing everything that may be
        // lost.
        let kept_power = random.below(8) == 0;
        let shared = random.below(3) == 0;
        let first = random.below(FATES);
        for (disk, image) in images.iter_mut().enumerate() {
            let mut cached: Vec<_> = self.under_way(disk).collect();
            if kept_power {
                self.cached[disk].iter().for_each(|write| self.apply(image, *write, None));
            } else {
                cached.splice(0..0, self.cached[disk].iter().copied());
            }
            let which = if shared { first } else { random.below(FATES) };
            let (kept, torn) = fate_of(&mut random, which, &cached);
            for (number, write) in kept.iter().enumerate() {
                let torn = torn == Some(number);
                self.apply(image, *write, torn.then_some(&mut random));
            }
            let what = if kept_power { "writes in flight" } else { "unflushed writes" };
            fate += &format!(
                "{}: {} of {} {what}",
                self.recording.names[disk],
                kept.len(),
                cached.len()
            );
            fate += &torn.map_or_else(String::new, |torn| format!(", event {} torn", kept[torn]));
            fate += "\n";
        }
        State { cut, images, acknowledged: self.acknowledged.clone(), kept_power, fate }
    }

    /// Applies one event.
    fn step(&mut self) {
        let number = self.at;
        self.at += 1;
        match &self.recording.events[number] {
            Event::Mark { stream, number } => {
                self.acknowledged[*stream] = self.acknowledged[*stream].max(*number);
            }
            Event::Io { disk, began, io: Io::Flush } => {
                if !(self.lie)(*disk, number) {
                    let covered = self.cached[*disk].partition_point(|write| write < began);
                    let covered: Vec<_> = self.cached[*disk].drain(..covered).collect();
                    let mut image = std::mem::replace(&mut self.durable[*disk], Image::new(0));
                    covered.into_iter().for_each(|write| self.apply(&mut image, write, None));
                    self.durable[*disk] = image;
                }
            }
            Event::Io { disk, .. } => self.cached[*disk].push(number),
        }
    }

    /// Writes to a disk that had been submitted and had not ended.
    fn under_way(&self, disk: usize) -> impl Iterator<Item = usize> {
        /// More I/O than this is never in flight.
        const FAR: usize = 200;
        let later = self.at..self.recording.events.len().min(self.at + FAR);
        later.filter(move |number| match &self.recording.events[*number] {
            Event::Io { disk: own, began, io } => {
                *own == disk && *began <= self.at && !matches!(io, Io::Flush)
            }
            Event::Mark { .. } => false,
        })
    }

    fn apply(&self, image: &mut Image, event: usize, torn: Option<&mut Random>) {
        match (&self.recording.events[event], torn) {
            (Event::Io { io: Io::Write { offset, bytes }, .. }, None) => {
                image.write(*offset, bytes)
            }
            (Event::Io { io: Io::Write { offset, bytes }, .. }, Some(random)) => {
                let sectors = bytes.len().div_ceil(SECTOR);
                let edge = random.below(sectors + 1);
                let kind = random.below(3);
                for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                    let there = match kind {
                        0 => number < edge,
                        1 => number >= edge,
                        _ => random.below(2) == 0,
                    };
                    if there {
                        image.write(offset + (number * SECTOR) as u64, sector);
                    }
                }
            }
            (Event::Io { io: Io::Discard { offset, length }, .. }, _) => {
                image.discard(*offset, *length)
            }
            (Event::Io { io: Io::Flush, .. } | Event::Mark { .. }, _) => {
                unreachable!("only writes are cached")
            }
        }
    }
}

/// The possible fates of a disk's cache.
const FATES: usize = 6;

/// The writes that reach the disk, in their order, and which of them is torn.
fn fate_of(random: &mut Random, which: usize, cached: &[usize]) -> (Vec<usize>, Option<usize>) {
    let mut kept = cached.to_vec();
    match which {
        0 => kept.clear(),
        1 => return (kept, None),
        2 if !kept.is_empty() => drop(kept.remove(random.below(cached.len()))),
        3 if !kept.is_empty() => kept = vec![cached[random.below(cached.len())]],
        _ => kept.retain(|_| random.below(2) == 0),
    }
    if random.below(2) == 0 {
        random.shuffle(&mut kept);
    }
    let torn = (!kept.is_empty() && random.below(3) > 0).then(|| random.below(kept.len()));
    (kept, torn)
}

impl Recording {
    /// `count` cuts between two points of the recording, in their order: half of them anywhere,
    /// half of them next to the end of a flush or to an acknowledgement, where something has just
    /// become certain.
    ///
    /// # Panics
    /// If there is nothing between the points.
    #[must_use]
    pub fn cuts(&self, from: usize, to: usize, count: usize, seed: u64) -> Vec<Cut> {
        assert!(from < to && to <= self.events.len(), "from {from} to {to}");
        let certain = |number: &usize| {
            matches!(&self.events[*number], Event::Io { io: Io::Flush, .. } | Event::Mark { .. })
        };
        let edges: Vec<_> = (from..to).filter(certain).collect();
        let mut random = Random::new(seed);
        let mut cuts: Vec<_> = (0..count)
            .map(|number| {
                // One from each part of the recording.
                let share = |length: usize, random: &mut Random| {
                    let (low, high) = (
                        length * number / count,
                        (length * (number + 1) / count).max(length * number / count + 1),
                    );
                    low + random.below(high - low)
                };
                let at = if number % 2 == 0 || edges.is_empty() {
                    from + share(to - from, &mut random)
                } else {
                    // Just before the end of it, or just after.
                    edges[share(edges.len(), &mut random)] + random.below(2)
                };
                Cut { at: at.min(to), seed: random.number() }
            })
            .collect();
        cuts.sort();
        cuts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Recording;

    fn write(disk: usize, began: usize, offset: u64, byte: u8) -> Event {
        Event::Io { disk, began, io: Io::Write { offset, bytes: vec![byte; 1024].into() } }
    }

    fn flush(disk: usize, began: usize) -> Event {
        Event::Io { disk, began, io: Io::Flush }
    }

    fn recording(events: Vec<Event>) -> Recording {
        Recording {
            names: vec!["a".into(), "b".into()],
            base: vec![Image::new(8192), Image::new(8192)],
            events,
        }
    }

    /// The first bytes of the four sectors in which the recording below writes, over many seeds.
    fn outcomes(
        recording: &Recording,
        disk: usize,
        at: usize,
        lie: Lie<'_>,
    ) -> std::collections::BTreeSet<[u8; 4]> {
        let mut replay = Replay::new(recording, 1, lie);
        (0..500)
            .map(|seed| {
                let state = replay.state(Cut { at, seed });
                let mut found = [0; 4];
                for (sector, found) in found.iter_mut().enumerate() {
                    state.images[disk].read((sector * SECTOR) as u64, std::slice::from_mut(found));
                }
                found
            })
            .collect()
    }

    /// A flush covers the writes that had ended when it was submitted, on its own disk.
    #[test]
    fn flushed_writes_are_there_and_others_may_be() {
        let recording = recording(vec![
            write(0, 0, 0, 1),    // 0: covered
            write(1, 0, 0, 1),    // 1: another disk's
            write(0, 0, 1024, 2), // 2: ended after the flush was submitted
            flush(0, 1),          // 3
            Event::Mark { stream: 0, number: 7 },
            write(0, 4, 0, 3), // 5: in flight at 4
        ]);
        let before = outcomes(&recording, 0, 3, HONEST);
        assert!(
            before.contains(&[0, 0, 0, 0])
                && before.contains(&[1, 1, 2, 2])
                && before.contains(&[0, 1, 0, 0])
        );
        let after = outcomes(&recording, 0, 4, HONEST);
        assert!(after.iter().all(|found| found[0] != 0 && found[1] != 0), "{after:?}");
        assert!(
            after.contains(&[1, 1, 0, 0])
                && after.contains(&[3, 3, 2, 2])
                && after.contains(&[1, 3, 0, 0])
        );
        let other = outcomes(&recording, 1, 4, HONEST);
        assert!(other.contains(&[0, 0, 0, 0]) && other.contains(&[1, 1, 0, 0]));
        assert!(
            outcomes(&recording, 0, 4, &|disk, event| disk == 0 && event == 3)
                .contains(&[0, 0, 0, 0])
        );
        let mut replay = Replay::new(&recording, 1, HONEST);
        assert_eq!(replay.state(Cut { at: 4, seed: 0 }).acknowledged, [0]);
        assert_eq!(replay.state(Cut { at: 5, seed: 0 }).acknowledged, [7]);
    }

    /// Cuts are spread over the whole range, and follow from the seed.
    #[test]
    fn cuts_are_everywhere() {
        let events = (0..100)
            .map(|number| if number % 10 == 0 { flush(0, 0) } else { write(0, number, 0, 1) });
        let recording = recording(events.collect());
        let cuts = recording.cuts(20, 100, 40, 5);
        assert_eq!(cuts, recording.cuts(20, 100, 40, 5));
        assert_ne!(cuts, recording.cuts(20, 100, 40, 6));
        assert!(cuts.is_sorted() && cuts.len() == 40);
        assert!(cuts.iter().all(|cut| (20..=100).contains(&cut.at)));
        assert!(cuts.iter().any(|cut| cut.at < 30) && cuts.iter().any(|cut| cut.at > 90));
    }
}
