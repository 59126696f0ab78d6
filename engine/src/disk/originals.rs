//! Which of two devices with one disk id is the disk, and which is a copy of it.
//!
//! If an array's snapshot is mapped to the host of its group, disks are there twice, and nothing on
//! them tells one from the other. But this host knows which devices it used: an engine notes, for
//! each disk of its group, the identity of its device (`Identity`: a world-wide name, a device
//! number, a file) and its path. The note outlives engine and instance (`World::memorise`), and is
//! updated while the group is mounted. When the search for a group's disks finds two devices with
//! one id, the note decides: the device that was used here is the disk, the others are copies; they
//! are reported and not used. They are not even claimed: a backup may have them open.
//!
//! Invariants:
//!
//!   1. A device number is believed only on the boot on which it was noted; world-wide names and
//!      files always.
//!   2. A disk is as new as any copy of it. If the device that was used here is older than the
//!      other one, the group was used on that one since, and the note decides nothing.
//!   3. If one disk has visible copies, a device that carries the id of another disk and is not the
//!      one that was noted for it is a copy, too: disks and copies are never mixed.
//!   4. Without a note neither device is used (`mount_decision.rs`, step 2).

use crate::{
    admin::AdminError,
    disk::{
        identify::{self, Header},
        look::{Needs, Seen as Answered, look},
        members::Members,
    },
    planted::{self, Bug},
    sync::lock::Mutex,
    world::{Disk, Found, Identity, Task, World},
};
use plinth_format::{
    DiskId, GroupId, MembershipId,
    header::{DiskHeader, Status},
    membership::Membership,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    sync::Arc,
};

/// The device of one disk, as noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Noted {
    pub identity: Identity,
    pub path: String,
}

/// The devices of a group, as this host has noted them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Originals {
    /// Whether it was noted since the host was started.
    is_of_this_boot: bool,
    disks: BTreeMap<DiskId, Noted>,
}

/// The name of the note of a group.
pub(crate) fn note_of(group: GroupId) -> String {
    format!("disks.{group}")
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(crate) fn id(text: &str) -> Option<[u8; 16]> {
    let digits = text.as_bytes();
    let mut id = [0; 16];
    if digits.len() != 32 {
        return None;
    }
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(id)
}

impl Originals {
    /// Reads the note. A note that cannot be read, or is empty, decides nothing.
    pub fn recall(world: &dyn World, group: GroupId) -> Self {
        let text = world.recall(&note_of(group)).ok().flatten().unwrap_or_default();
        Self::parse(&text, world.boot_id())
    }

    /// One line for the boot, and one for each disk: id, identity, path, with tabs between them.
    fn parse(text: &str, boot: [u8; 16]) -> Self {
        let mut lines = text.lines();
        let is_of_this_boot = lines.next().and_then(id) == Some(boot);
        let entry = |line: &str| {
            let mut parts = line.splitn(3, '\t');
            let disk = DiskId(id(parts.next()?)?);
            let identity = Identity(parts.next()?.to_owned());
            Some((disk, Noted { identity, path: parts.next()?.to_owned() }))
        };
        Self { is_of_this_boot, disks: lines.filter_map(entry).collect() }
    }

    fn text(&self, boot: [u8; 16]) -> String {
        let mut text = hexadecimal(&boot) + "\n";
        for (disk, Noted { identity, path }) in &self.disks {
            // No path that a discovery string can usefully name contains these characters.
            if ![&identity.0, path].iter().any(|part| part.contains(['\n', '\t'])) {
                let _ = writeln!(text, "{}\t{}\t{path}", hexadecimal(&disk.0), identity.0);
            }
        }
        text
    }

    /// The device that was used for a disk, if that can be told (invariant 1).
    fn device(&self, disk: DiskId) -> Option<&Identity> {
        let noted = self.disks.get(&disk)?;
        (self.is_of_this_boot || !noted.identity.0.starts_with("block:")).then_some(&noted.identity)
    }

    /// Whether a device is the one that was used for a disk.
    pub fn is_original(&self, disk: DiskId, identity: &Identity) -> bool {
        self.device(disk) == Some(identity)
    }
}

/// One device that carries the header of a member, with what is needed to recognise copies.
#[derive(Debug, Clone)]
struct Seen {
    path: String,
    identity: Identity,
    disk: DiskId,
    name: String,
    /// The newest membership's generation and the newest stamp's counter.
    age: (u64, u64),
}

/// For each device that is a copy, the sentence that reports it.
fn tell_copies(seen: &[Seen], originals: &Originals) -> Vec<Option<String>> {
    let mut by_disk: BTreeMap<DiskId, Vec<&Seen>> = BTreeMap::new();
    for one in seen {
        by_disk.entry(one.disk).or_default().push(one);
    }
    // Disks with visible copies, and the path of the device that was used.
    let mut told: BTreeMap<DiskId, &str> = BTreeMap::new();
    for (disk, devices) in &by_disk {
        let (own, others): (Vec<&Seen>, Vec<&Seen>) =
            devices.iter().copied().partition(|one| originals.is_original(*disk, &one.identity));
        let Some(first) = own.first().filter(|_| !others.is_empty()) else { continue };
        if others.iter().all(|other| other.age <= first.age) {
            told.insert(*disk, &first.path);
        }
    }
    let is_copied = !told.is_empty();
    let word = |one: &Seen| {
        if originals.is_original(one.disk, &one.identity) {
            return None;
        }
        if let Some(path) = told.get(&one.disk) {
            return Some(format!(
                "{} is a copy of disk {} and is not used: this host uses {path}",
                one.path, one.name
            ));
        }
        // Invariant 3. A disk without a note may have joined since.
        let other =
            is_copied && by_disk[&one.disk].len() == 1 && originals.device(one.disk).is_some();
        other.then(|| {
            format!(
                "{} is a copy of disk {} and is not used: this host used another device",
                one.path, one.name
            )
        })
    };
    seen.iter().map(word).collect()
}

/// A device whose header names a member.
pub(crate) type Candidate = (Found, Arc<dyn Disk>, DiskHeader);

/// Removes the copies from the devices of groups. Returns also the sentences that report them.
pub(crate) async fn set_aside(
    world: &dyn World,
    found: Vec<Candidate>,
) -> (Vec<Candidate>, Vec<String>) {
    if planted::has(Bug::CloneAccepted) {
        return (found, Vec::new());
    }
    let mut groups: BTreeMap<GroupId, BTreeMap<DiskId, BTreeSet<Identity>>> = BTreeMap::new();
    for (one, _, header) in &found {
        groups
            .entry(header.group)
            .or_default()
            .entry(header.disk)
            .or_default()
            .insert(one.identity.clone());
    }
    groups.retain(|_, disks| disks.values().any(|devices| devices.len() > 1));
    let mut copies = Vec::new();
    for group in groups.keys() {
        let originals = Originals::recall(world, *group);
        let mut seen = Vec::new();
        let its =
            |(_, _, header): &&Candidate| header.group == *group && header.status == Status::Member;
        for (one, disk, header) in found.iter().filter(its) {
            let probe_result = identify::probe(world, one, &**disk, header.clone()).await;
            let generation =
                probe_result.memberships.iter().map(|one| one.generation).max().unwrap_or(0);
            let stamp = probe_result.stamps.iter().map(|stamp| stamp.counter).max().unwrap_or(0);
            seen.push(Seen {
                path: one.path.clone(),
                identity: one.identity.clone(),
                disk: header.disk,
                name: header.name.clone(),
                age: (generation, stamp),
            });
        }
        let words = tell_copies(&seen, &originals);
        copies
            .extend(seen.into_iter().zip(words).filter_map(|(one, word)| Some((one.path, word?))));
    }
    let is_copy = |path: &str| copies.iter().any(|(copy, _)| copy == path);
    let kept = found.into_iter().filter(|(one, ..)| !is_copy(&one.path)).collect();
    (kept, copies.into_iter().map(|(_, word)| word).collect())
}

/// The devices that carry the id of a disk.
pub(crate) struct FoundDisk {
    /// Two devices that are not two paths to one: neither may be used.
    pub matches: Vec<(Found, Arc<dyn Disk>, Header)>,
    /// Sentences about copies, which are not among the matches.
    pub copies: Vec<String>,
    /// A sentence for each device that does not answer: it may be the disk.
    pub silence: String,
}

/// Devices whose headers name this disk of a group. Copies are recognised by all visible devices of
/// the group.
///
/// # Errors
/// If the process that looks for disks has ended.
pub(crate) async fn find_disk(
    world: &dyn World,
    group: GroupId,
    id: DiskId,
) -> Result<FoundDisk, AdminError> {
    let originals = Originals::recall(world, group);
    let examine = |_: Found, disk: Arc<dyn Disk>| -> Task<'_, Option<Header>> {
        Box::pin(async move {
            identify::await_header(&*disk).await.filter(|header| header.best.group == group)
        })
    };
    let needs = |seen: &[Answered<Header>]| {
        let is_it = |one: &Answered<Header>| {
            one.what.best.disk == id && originals.is_original(id, &one.found.identity)
        };
        if seen.iter().any(is_it) { Needs::Nothing } else { Needs::Something }
    };
    let looked = look(world, examine, needs).await.whole()?;
    let silence = looked.silence();
    let mut matches: Vec<_> =
        looked.seen.into_iter().map(|one| (one.found, one.disk, one.what)).collect();
    let all = matches
        .iter()
        .map(|(found, disk, header)| (found.clone(), Arc::clone(disk), header.best.clone()));
    let (own, copies) = set_aside(world, all.collect()).await;
    matches.retain(|(found, _, header)| {
        header.best.disk == id && own.iter().any(|(one, ..)| one.path == found.path)
    });
    Ok(FoundDisk { matches, copies, silence })
}

/// State of a group's notes since it was mounted: the membership that was noted last, and whether
/// noting failed.
#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<(Option<MembershipId>, bool)>);

impl Notes {
    /// Notes which devices the group uses, if that may have changed. Called once a second. Returns
    /// the text of an alert, if there is one.
    pub fn note(
        &self,
        world: &dyn World,
        group: GroupId,
        known: &Membership,
        members: &Members,
    ) -> Option<String> {
        let boot = world.boot_id();
        if self.0.lock().0.replace(known.id) == Some(known.id) {
            return None;
        }
        let before = Originals::recall(world, group);
        let mut noted = before.clone();
        noted.disks.retain(|disk, _| known.disks.iter().any(|entry| entry.id == *disk));
        if !noted.is_of_this_boot {
            // The entries of disks that were not seen since are believed no more than before.
            noted.disks.retain(|_, noted| !noted.identity.0.starts_with("block:"));
        }
        for member in members.values() {
            if let Some(disk) = member.disk() {
                noted.disks.insert(
                    member.id(),
                    Noted { identity: disk.identity(), path: disk.path().to_owned() },
                );
            }
        }
        noted.is_of_this_boot = true;
        if noted == before {
            return None;
        }
        let error = world.memorise(&note_of(group), &noted.text(boot)).err()?;
        if std::mem::replace(&mut self.0.lock().1, true) {
            return None;
        }
        Some(format!(
            "which devices the disks are cannot be noted, so copies of them would not be told from them: {error}"
        ))
    }
}

/// Removes all notes of a group that no longer exists.
pub(crate) fn forget_group(world: &dyn World, group: GroupId) {
    let _ = world.memorise(&note_of(group), "");
    world.forget_surviving_words(&group.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: [u8; 16] = [9; 16];

    fn originals(disks: &[(u8, &str)], is_of_this_boot: bool) -> Originals {
        let noted = |(disk, identity): &(u8, &str)| {
            (
                DiskId([*disk; 16]),
                Noted {
                    identity: Identity((*identity).to_owned()),
                    path: format!("/dev/{identity}"),
                },
            )
        };
        Originals { is_of_this_boot, disks: disks.iter().map(noted).collect() }
    }

    fn seen(disk: u8, identity: &str, age: (u64, u64)) -> Seen {
        Seen {
            path: format!("/dev/{identity}"),
            identity: Identity(identity.to_owned()),
            disk: DiskId([disk; 16]),
            name: format!("D{disk}"),
            age,
        }
    }

    /// The paths that are copies.
    fn copies(seen: &[Seen], originals: &Originals) -> Vec<String> {
        let words = tell_copies(seen, originals);
        seen.iter()
            .zip(words)
            .filter(|(_, word)| word.is_some())
            .map(|(one, _)| one.path.clone())
            .collect()
    }

    #[test]
    fn a_note_reads_back_as_it_was_written() {
        let noted = originals(&[(1, "wwid:naa.6 1"), (2, "block:8:16")], true);
        assert_eq!(Originals::parse(&noted.text(BOOT), BOOT), noted);
        assert!(!Originals::parse(&noted.text(BOOT), [8; 16]).is_of_this_boot);
        for nonsense in ["", "\n", "x\ny\tz\n", "\t\t\t\n00\tq\tr"] {
            assert_eq!(Originals::parse(nonsense, BOOT), Originals::default(), "{nonsense:?}");
        }
    }

    #[test]
    fn the_device_that_was_used_is_the_disk_and_the_others_are_copies() {
        let noted = originals(&[(1, "a"), (2, "b")], true);
        let all = [
            seen(1, "a", (5, 5)),
            seen(2, "b", (5, 5)),
            seen(1, "x", (5, 4)),
            seen(2, "y", (5, 5)),
        ];
        assert_eq!(copies(&all, &noted), ["/dev/x", "/dev/y"]);
        // Nothing is noted.
        assert!(copies(&all, &Originals::default()).is_empty());
        // No device is there twice: an array moved the disks.
        assert!(copies(&all[2..], &noted).is_empty());
    }

    /// Invariant 1.
    #[test]
    fn a_device_number_is_believed_on_one_boot_only() {
        let all = [seen(1, "block:8:0", (5, 5)), seen(1, "block:8:16", (5, 5))];
        assert_eq!(copies(&all, &originals(&[(1, "block:8:0")], true)), ["/dev/block:8:16"]);
        assert!(copies(&all, &originals(&[(1, "block:8:0")], false)).is_empty());
        let all = [seen(1, "wwid:1", (5, 5)), seen(1, "wwid:2", (5, 5))];
        assert_eq!(copies(&all, &originals(&[(1, "wwid:1")], false)), ["/dev/wwid:2"]);
    }

    /// Invariant 2.
    #[test]
    fn a_device_that_is_older_than_its_copy_is_not_used() {
        let noted = originals(&[(1, "a")], true);
        for newer in [(6, 0), (5, 6)] {
            assert!(
                copies(&[seen(1, "a", (5, 5)), seen(1, "x", newer)], &noted).is_empty(),
                "{newer:?}"
            );
        }
    }

    /// Invariant 3.
    #[test]
    fn disks_and_copies_are_not_mixed() {
        let noted = originals(&[(1, "a"), (2, "b")], true);
        let all = [
            seen(1, "a", (5, 5)),
            seen(1, "x", (5, 5)),
            seen(2, "y", (5, 5)),
            seen(3, "c", (5, 5)),
        ];
        assert_eq!(
            copies(&all, &noted),
            ["/dev/x", "/dev/y"],
            "disk 2 is missing, and 3 joined since"
        );
    }
}
