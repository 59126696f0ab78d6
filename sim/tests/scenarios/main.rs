//! A story for every case of the recovery tables, docs/format.md, section 8. `sim::scenario` has
//! their verbs.
//!
//! The seed decides how long each I/O takes and what survives a power cut; each story runs with
//! several.

mod disks;
mod ends;
mod halves;
mod headers;
mod logs;
mod mirrors;
mod mounts;
mod subsets;

use plinth_format::Redundancy;
use sim::scenario::World;

/// Seeds of a story: a few, or many.
fn seeds() -> std::ops::Range<u64> {
    0..if std::env::var_os("PLINTH_LONG").is_some() { 30 } else { 4 }
}

/// Two failure groups: as few as there can be.
fn pair(seed: u64) -> World {
    World::new(seed).disks(&["A", "B"]).group(Redundancy::Normal)
}

/// Three failure groups: one may be missing at a mount.
fn three(seed: u64) -> World {
    World::new(seed).disks(&["A", "B", "C"]).group(Redundancy::Normal)
}
