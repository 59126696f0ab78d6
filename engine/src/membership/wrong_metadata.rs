//! Errors in the metadata that the engine keeps on a disk for itself, and the sentences that report
//! them.

use crate::{
    disk::{disk_errors::Trouble, member::Member},
    membership::voters::WrongRecord,
};
use plinth_format::{BLOCK_SIZE, DiskNumber};
use std::{collections::BTreeMap, sync::atomic::Ordering};

/// The errors on one disk.
#[derive(Debug, Default)]
pub(crate) struct Finding {
    /// As sentences.
    pub(crate) parts: Vec<String>,
    /// Records and blocks; 0: the disk has a record that was written, but not the current one.
    pub(crate) count: u64,
    /// The place of one of them.
    pub(crate) place: Option<u64>,
    /// Why it is not rewritten.
    pub(crate) failed: Option<String>,
}

impl Finding {
    pub fn add(&mut self, what: &str, places: &[u64], how: &str) {
        if let Some(first) = places.first() {
            let list: Vec<_> = places.iter().map(u64::to_string).collect();
            self.parts.push(format!("the {what} at offset {} {how}", list.join(", ")));
            self.count += places.len() as u64;
            self.place = Some(*first);
        }
    }

    pub fn of_disk(&self, member: &Member) -> String {
        format!("disk {} ({}): {}", member.name(), member.path(), self.parts.join("; "))
    }

    /// The line about errors from before the mount, which are repaired. They are not counted.
    pub fn written_at_mount(&self, member: &Member) -> String {
        format!("{}. It is written again", self.of_disk(member))
    }

    /// Counts repaired errors. Returns the line about them.
    pub fn written_again(&self, member: &Member) -> String {
        let text = self.parts.join("; ");
        member.counters.metadata_repaired.fetch_add(self.count, Ordering::Relaxed);
        member.note(Trouble::Metadata, self.place.map(|place| (place, BLOCK_SIZE as u64)), text);
        format!(
            "{}. It is written again. Find out which program writes there: the group owns the disk",
            self.of_disk(member)
        )
    }
}

/// Errors by disk.
#[derive(Debug, Default)]
pub(crate) struct Findings(pub(crate) BTreeMap<DiskNumber, Finding>);

pub(crate) const IS_DAMAGED: &str = "is missing or damaged";

const IS_UNREADABLE: &str = "cannot be read";

impl Findings {
    pub fn of(&mut self, disk: DiskNumber) -> &mut Finding {
        self.0.entry(disk).or_default()
    }

    pub fn add_record(&mut self, wrong: &WrongRecord) {
        let (finding, kind) = (self.of(wrong.disk), wrong.kind.to_string());
        finding.add(&kind, &wrong.places, IS_DAMAGED);
        finding.add(&kind, &wrong.unreadable, IS_UNREADABLE);
    }

    pub fn by_disk(self) -> BTreeMap<DiskNumber, Finding> {
        self.0
    }
}

/// Whether a disk has metadata that must be right: an offline disk has none, and one that hangs
/// does not answer.
pub(crate) fn is_looked_at(member: &Member) -> bool {
    !member.has_left() && member.is_writable() && !member.is_hung() && member.disk().is_some()
}
