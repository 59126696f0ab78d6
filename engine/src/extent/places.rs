//! Where an extent is written: its mirrors, and the *target*, the place that one of them moves to
//! or has left.
//!
//! They change rarely, under a lock, and are read for every I/O, without one. Readers use a copy in
//! a few words with a number that is odd while they change, and another one afterwards (a sequence
//! lock). A reader that finds an odd number, or another one after it has read, takes the lock.

pub use crate::space::{mirrors::Mirrors, placement::Mirror};
use crate::{
    disk::members::MIRRORS_MAX,
    sync::lock::{Mutex, MutexGuard},
};
use plinth_format::{Au, DiskNumber};
use std::{
    ops::{Deref, DerefMut},
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
        fence,
    },
};

/// Where an extent is written. See `mover.rs`.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub mirrors: Mirrors,
    pub target: Option<Mirror>,
    /// The target is a copy on its way in, not an old place on its way out.
    pub arriving: bool,
    pub moves: u64,
}

/// A change of an extent's mirrors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The target takes the place of the mirror on a disk.
    Move { target: Mirror, from: DiskNumber },
    /// The target is one mirror more.
    Add { target: Mirror },
    /// The mirror on a disk is one no more.
    Remove { from: DiskNumber },
}

/// A change that was made in memory.
pub(super) struct Changed {
    /// The mirror that is none any more: it is the target now.
    pub old: Option<Mirror>,
    pub before: (Mirrors, Option<Mirror>, bool),
}

impl Places {
    /// The mirrors after a change, and which of them is none any more. `None`: the target was
    /// cancelled, that mirror is gone or the last one, or there is no room for one more.
    pub fn after(&self, change: Change) -> Option<(Mirrors, Option<Mirror>)> {
        let is_here = |target| self.arriving && self.target == Some(target);
        let mut next = self.mirrors;
        let index = |from| self.mirrors.iter().position(|mirror| mirror.disk == from);
        let old = match change {
            Change::Move { target, from } if is_here(target) => {
                Some(next.replace(index(from)?, target))
            }
            Change::Add { target } if is_here(target) && next.len() < MIRRORS_MAX => {
                next.push(target);
                None
            }
            Change::Remove { from } if self.target.is_none() && next.len() > 1 => {
                Some(next.remove(index(from)?))
            }
            _ => return None,
        };
        Some((next, old))
    }
}

/// The copy that is read without a lock: mirrors and target.
#[derive(Debug)]
struct Copied {
    number: AtomicU64,
    words: [AtomicU64; MIRRORS_MAX + 1],
}

/// Set in the word of a mirror that is there.
const THERE: u64 = 1 << 63;

fn word_of(mirror: Option<&Mirror>) -> u64 {
    mirror.map_or(0, |mirror| THERE | u64::from(mirror.disk.0) << 32 | u64::from(mirror.au.0))
}

fn mirror_of(word: u64) -> Option<Mirror> {
    (word & THERE != 0)
        .then_some(Mirror { disk: DiskNumber((word >> 32) as u16), au: Au(word as u32) })
}

impl Copied {
    fn store(&self, places: &Places) {
        let number = self.number.load(Relaxed);
        self.number.store(number + 1, Relaxed);
        fence(Release);
        let (target, mirrors) = self.words.split_last().expect("there is one for the target");
        for (index, word) in mirrors.iter().enumerate() {
            word.store(word_of(places.mirrors.get(index)), Relaxed);
        }
        target.store(word_of(places.target.as_ref()), Relaxed);
        self.number.store(number + 2, Release);
    }

    /// `None`: they change just now.
    fn load(&self) -> Option<(Mirrors, Option<Mirror>)> {
        let number = self.number.load(Acquire);
        let words = self.words.each_ref().map(|word| word.load(Relaxed));
        fence(Acquire);
        if number % 2 == 1 || self.number.load(Relaxed) != number {
            return None;
        }
        let mut mirrors = Mirrors::new(&[]);
        words[..MIRRORS_MAX]
            .iter()
            .copied()
            .map_while(mirror_of)
            .for_each(|mirror| mirrors.push(mirror));
        Some((mirrors, mirror_of(words[MIRRORS_MAX])))
    }
}

/// The places of an extent. See the module's description.
#[derive(Debug)]
pub(super) struct Placed {
    places: Mutex<Places>,
    copied: Copied,
}

/// The lock on the places; a change is published when it is dropped.
pub(super) struct PlacesGuard<'a> {
    places: MutexGuard<'a, Places>,
    copied: &'a Copied,
    changed: bool,
}

impl Placed {
    pub fn new(mirrors: &[Mirror]) -> Self {
        let places =
            Places { mirrors: Mirrors::new(mirrors), target: None, arriving: false, moves: 0 };
        let copied = Copied {
            number: AtomicU64::new(0),
            words: [const { AtomicU64::new(0) }; MIRRORS_MAX + 1],
        };
        copied.store(&places);
        Self { places: Mutex::new(places), copied }
    }

    pub fn lock(&self) -> PlacesGuard<'_> {
        PlacesGuard { places: self.places.lock(), copied: &self.copied, changed: false }
    }

    /// Mirrors and target, as they are at one moment.
    pub fn look(&self) -> (Mirrors, Option<Mirror>) {
        self.copied.load().unwrap_or_else(|| {
            let places = self.lock();
            (places.mirrors, places.target)
        })
    }
}

impl Deref for PlacesGuard<'_> {
    type Target = Places;

    fn deref(&self) -> &Places {
        &self.places
    }
}

impl DerefMut for PlacesGuard<'_> {
    fn deref_mut(&mut self) -> &mut Places {
        self.changed = true;
        &mut self.places
    }
}

impl Drop for PlacesGuard<'_> {
    fn drop(&mut self) {
        if self.changed {
            self.copied.store(&self.places);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// A reader sees mirrors and target of one moment, never some of before and some of after.
    #[test]
    fn readers_see_places_of_one_moment() {
        let at = |disk: u16, au: u32| Mirror { disk: DiskNumber(disk), au: Au(au) };
        let placed = Placed::new(&[at(0, 0), at(1, 0), at(u16::MAX, 0)]);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..20_000_u32 {
                    let mut places = placed.lock();
                    let count = 1 + round as usize % MIRRORS_MAX;
                    let mirrors: Vec<_> = (0..count).map(|disk| at(disk as u16, round)).collect();
                    places.mirrors = Mirrors::new(&mirrors);
                    places.target = (round % 2 == 1).then_some(at(7, round));
                }
                ended.store(true, Release);
            });
            while !ended.load(Acquire) {
                let (mirrors, target) = placed.look();
                let round = mirrors[0].au.0;
                assert!(mirrors.iter().all(|mirror| mirror.au.0 == round));
                assert!(round == 0 || mirrors.len() == 1 + round as usize % MIRRORS_MAX);
                assert_eq!(target, (round % 2 == 1).then_some(at(7, round)));
            }
        });
    }
}
