//! The engine's own metadata is overwritten on disks of a mounted group.

use super::*;
use crate::{
    admin::{Problem, Renaming},
    disk::{headers, identify},
    event::Severity,
    extent::{
        Extent,
        own_metadata::{LOOK, MetadataLook},
        scope::ExtentScope,
    },
};
use plinth_format::layout::{ACTIVITY_SLOT, FIRST_AREA, Layout, MEMBERSHIP_SLOT, RecordArea};
use std::sync::atomic::{AtomicBool, Ordering};

const SIZE: u64 = 64 * MIB;

fn layout() -> Layout {
    Layout::new(SIZE, MIB).expect("large enough")
}

/// The slots of one kind of record, in both areas.
fn slots(of: fn(&RecordArea) -> [u64; 2]) -> Vec<u64> {
    [FIRST_AREA, layout().middle_area()].iter().flat_map(of).collect()
}

fn stamps() -> Vec<u64> {
    slots(|area| area.stamps)
}

fn memberships() -> Vec<u64> {
    slots(|area| area.memberships)
}

/// Every kind of record, how the report of a look names it, and where it is.
fn kinds() -> Vec<(&'static str, Vec<u64>, usize)> {
    vec![
        ("header", layout().header_places().to_vec(), 4096),
        ("header copy", layout().header_places()[1..].to_vec(), 4096),
        ("stamp", stamps(), 4096),
        ("membership", memberships(), MEMBERSHIP_SLOT),
        ("membership", FIRST_AREA.memberships.to_vec(), MEMBERSHIP_SLOT),
        ("activity log", slots(|area| area.activity), ACTIVITY_SLOT),
    ]
}

impl Lab {
    /// The look that the engine makes by itself each minute. Returns what it found.
    fn look(&self) -> Vec<Problem> {
        block_on(self.group().look_at_own_metadata(&ExtentScope::All, MetadataLook::PASSING))
    }

    fn problems(&self, repair: bool) -> Vec<Problem> {
        block_on(self.group().check(repair)).expect("the check runs").problems.to_vec()
    }

    /// Overwrites places of a disk with zeros, or with noise.
    fn overwrite(&self, disk: usize, places: &[u64], length: usize, noise: bool) {
        for place in places {
            let bytes = if noise { pattern(place + 7, length) } else { vec![0; length] };
            self.disks[disk].corrupt(*place, &bytes);
        }
    }

    fn repaired(&self, disk: usize) -> u64 {
        let member = self.group().members.values().nth(disk).expect("there is such a disk");
        member.counters.metadata_repaired.load(Ordering::Relaxed)
    }

    fn lines(&self, text: &str) -> usize {
        self.world.events().iter().filter(|event| event.text.contains(text)).count()
    }

    fn is_offline(&self, disk: usize) -> bool {
        self.state(disk) == DiskState::Offline
    }
}

/// Two failure groups, whose disks both vote, and a file whose region is open.
fn with_an_open_region() -> (Lab, Vec<u8>) {
    let lab = Lab::new(Redundancy::Normal, SIZE, &["A", "B"]);
    let bytes = pattern(3, 700_000);
    let node = lab.create_file("table");
    lab.write(node, 0, &bytes);
    lab.sync(node);
    (lab, bytes)
}

/// For any kind of record, all of its copies are overwritten, on either disk or on both, with zeros
/// or noise: one line for each disk names the record, the next look finds nothing, and the group
/// mounts after a kill and after a dismount.
#[test]
fn overwritten_records_are_written_again() {
    let (mut lab, bytes) = with_an_open_region();
    for (kind, places, length) in kinds() {
        for (round, disks) in [&[0][..], &[1], &[0, 1]].into_iter().enumerate() {
            for noise in [false, true] {
                let what = format!("{kind} on {disks:?}, noise: {noise}");
                let node = lab.find("table");
                lab.write(node, 0, &bytes);
                disks.iter().for_each(|disk| lab.overwrite(*disk, &places, length, noise));
                let found = lab.look();
                assert_eq!(found.len(), disks.len(), "{what}: {found:?}");
                assert!(
                    found.iter().all(|one| one.repaired && one.text.contains(kind)),
                    "{what}: {found:?}"
                );
                assert!(disks.iter().all(|disk| lab.repaired(*disk) > 0), "{what}");
                let told: Vec<_> = lab.world.events().into_iter().rev().take(disks.len()).collect();
                let is_line = |event: &crate::event::Event| {
                    event.severity == Severity::Warning
                        && event.text.contains(kind)
                        && event.text.contains("written again")
                };
                assert!(told.iter().all(is_line), "{what}: {told:?}");
                assert_eq!(lab.look(), [], "{what}");
                assert_eq!(lab.problems(false), [], "{what}");
                if round % 2 == 0 {
                    lab.kill();
                } else {
                    lab.dismount();
                }
                if let Err(error) = lab.try_mount(false) {
                    panic!("{what}: {error}");
                }
                assert!(!lab.is_offline(0) && !lab.is_offline(1), "{what}");
                assert!(lab.read(lab.find("table"), 0, bytes.len()) == bytes, "{what}");
                lab.check();
            }
        }
    }
}

/// The engine looks at its metadata without a statement.
#[test]
fn the_engine_checks_its_metadata_by_itself() {
    let (lab, _) = with_an_open_region();
    lab.overwrite(1, &memberships(), MEMBERSHIP_SLOT, true);
    lab.world.advance(LOOK);
    lab.wait_for("a look", || lab.repaired(1) > 0);
    assert_eq!(lab.look(), []);
}

/// A change of membership relies on the records of the voters, so it checks them first. The engine
/// is killed after it, and the group mounts.
#[test]
fn the_records_of_voters_are_repaired_before_the_membership_changes() {
    let mut lab = Lab::new(Redundancy::Normal, SIZE, &["A", "B", "C"]);
    // The newest slots of two of three: without a look, one voter would hold a membership.
    for disk in 1..3 {
        lab.overwrite(disk, &memberships(), MEMBERSHIP_SLOT, false);
        lab.overwrite(disk, &stamps(), 4096, true);
    }
    let name = lab.group().members.values().next().expect("a disk").name().to_string();
    let renaming = Renaming::Disks(vec![(name, "OTHER".to_owned())]);
    block_on(lab.group().rename(&renaming)).expect("it is renamed");
    assert_eq!(lab.lines("written again"), 2, "one line for each disk");
    lab.kill();
    lab.mount();
    lab.check();
    lab.dismount();
}

/// No copy of a header is left when a disk is renamed: the header is written from memory.
#[test]
fn a_disk_without_a_header_is_renamed() {
    let (mut lab, bytes) = with_an_open_region();
    lab.overwrite(1, &layout().header_places(), 4096, false);
    let name = lab.group().members.values().nth(1).expect("two disks").name().to_string();
    let renaming = Renaming::Disks(vec![(name, "OTHER".to_owned())]);
    block_on(lab.group().rename(&renaming)).expect("it is renamed");
    assert_eq!(lab.look(), []);
    lab.kill();
    lab.mount();
    assert!(lab.group().members().iter().any(|(name, _)| name == "OTHER"));
    assert!(lab.read(lab.find("table"), 0, bytes.len()) == bytes);
    lab.check();
}

/// A region is open, and the checksum blocks that its last release wrote are overwritten, on one
/// mirror or on both: they are written again.
#[test]
fn checksum_blocks_of_open_regions_are_written_again() {
    for spoilt in [&[0][..], &[1], &[0, 1]] {
        let (lab, bytes) = with_an_open_region();
        let node = lab.find("table");
        while block_on(lab.group().close_idle(true)).expect("regions are closed") {}
        lab.write(node, 0, &bytes[..4096]);
        let extents: Vec<Arc<Extent>> = lab.group().extents.all();
        let zone = |disk: usize| {
            let of = |extent: &Arc<Extent>| {
                let mirror = extent
                    .mirrors()
                    .into_iter()
                    .find(|mirror| usize::from(mirror.disk.0) == disk)?;
                Some(lab.group().members[&mirror.disk].layout().sums_of(mirror.au).0)
            };
            extents
                .iter()
                .filter(|extent| extent.file == node)
                .filter_map(of)
                .next()
                .expect("it has a mirror there")
        };
        let before: Vec<_> = (0..2).map(|disk| lab.disks[disk].peek(zone(disk), 1024)).collect();
        assert_eq!(lab.look(), []);
        spoilt.iter().for_each(|disk| lab.overwrite(*disk, &[zone(*disk)], 4096, *disk == 0));
        let found = lab.look();
        assert_eq!(found.len(), spoilt.len(), "{found:?}");
        assert!(
            found.iter().all(|one| one.repaired && one.text.contains("checksum block")),
            "{found:?}"
        );
        for (disk, was) in before.iter().enumerate() {
            // All checksums but that of the block that has been written since.
            assert!(
                lab.disks[disk].peek(zone(disk), 1024)[4..] == was[4..],
                "disk {disk} of {spoilt:?}"
            );
        }
        assert_eq!(lab.look(), []);
        while block_on(lab.group().close_idle(true)).expect("regions are closed") {}
        lab.check();
        assert!(lab.read(node, 0, bytes.len()) == bytes);
    }
}

/// A check finds a checksum block that has rotted at rest. The block is written again when its
/// region closes, and is not reported again until then.
#[test]
fn a_checksum_block_that_a_check_reported_is_not_reported_again() {
    let (lab, bytes) = with_an_open_region();
    while block_on(lab.group().close_idle(true)).expect("regions are closed") {}
    let node = lab.find("table");
    let extents: Vec<Arc<Extent>> = lab.group().extents.all();
    let extent = extents.iter().find(|extent| extent.file == node).expect("it has an extent");
    let mirror = extent
        .mirrors()
        .into_iter()
        .find(|mirror| mirror.disk.0 == 1)
        .expect("it has a mirror there");
    let (zone, length) = lab.group().members[&mirror.disk].layout().sums_of(mirror.au);
    lab.overwrite(1, &[zone], length, true);
    let found = lab.problems(true);
    assert!(
        !found.is_empty()
            && found.iter().all(|one| one.repaired && one.text.contains("checksum block")),
        "{found:?}"
    );
    assert_eq!(lab.look(), []);
    assert_eq!(lab.problems(false), []);
    while block_on(lab.group().close_idle(true)).expect("regions are closed") {}
    lab.write(node, 0, &bytes[..4096]);
    assert_eq!(lab.look(), []);
    lab.overwrite(1, &[zone], length, true);
    assert_eq!(lab.look().len(), 1, "the block is looked at as before");
    lab.check();
}

/// A checksum block also has entries of blocks that hold no data. Neither a check nor a look of the
/// engine reads those. Rot there, from when the region was closed, used to be reported by a check
/// that ran after one that had repaired everything.
#[test]
fn checksums_of_blocks_without_data_are_not_checked() {
    let (lab, bytes) = with_an_open_region();
    while block_on(lab.group().close_idle(true)).expect("regions are closed") {}
    let node = lab.find("table");
    lab.write(node, 0, &bytes[..4096]);
    let extents: Vec<Arc<Extent>> = lab.group().extents.all();
    let extent = extents.iter().find(|extent| extent.file == node).expect("it has an extent");
    let mirror = extent
        .mirrors()
        .into_iter()
        .find(|mirror| mirror.disk.0 == 1)
        .expect("it has a mirror there");
    let (zone, length) = lab.group().members[&mirror.disk].layout().sums_of(mirror.au);
    // 700,000 bytes are eleven pieces of 16 blocks, with four bytes for each.
    let used = 11 * 16 * 4;
    lab.overwrite(1, &[zone + used], length - used as usize, true);
    assert_eq!(lab.look(), []);
    assert_eq!(lab.problems(false), []);
    lab.overwrite(1, &[zone + used - 8], 8, true);
    assert!(
        lab.look().len() == 1 || !lab.problems(true).is_empty(),
        "the last entries that are used"
    );
    lab.check();
}

/// A disk goes offline where it can be spared when several looks in a row find something wrong on
/// it. For a disk that cannot be spared each further look is an ALARM. A look that finds nothing
/// resets the count.
#[test]
fn a_disk_that_does_not_keep_its_metadata_goes_offline() {
    let (lab, bytes) = with_an_open_region();
    let spoil = || lab.overwrite(1, &stamps(), 4096, true);
    for _ in 0..3 {
        spoil();
        assert!(lab.look().iter().all(|one| one.repaired));
        assert_eq!(lab.look(), []);
    }
    for look in 0..3 {
        assert!(!lab.is_offline(1), "look {look}");
        spoil();
        assert!(lab.look().iter().all(|one| one.repaired));
    }
    assert!(
        lab.is_offline(1) && lab.told("is offline: its metadata: in 3 looks one after the other")
    );
    assert!(lab.read(lab.find("table"), 0, bytes.len()) == bytes);

    // Only the other disk is left.
    let alarms = || {
        let events = lab.world.events();
        events
            .iter()
            .filter(|event| {
                event.severity == Severity::Alarm && event.text.contains("does not keep")
            })
            .count()
    };
    let mut looks = 0;
    // The engine itself looks at the remaining disks when one has gone offline, and may reset the
    // count once, or be the first to find the damage.
    while alarms() < 2 && looks < 8 {
        lab.overwrite(0, &memberships(), MEMBERSHIP_SLOT, false);
        lab.look();
        looks += 1;
    }
    assert!(!lab.is_offline(0));
    assert!(
        alarms() == 2 && looks >= 3,
        "with each look from the third on: {} alarms in {looks} looks",
        alarms()
    );
    assert_eq!(lab.look(), []);
}

/// A record that cannot be read until it is written is written again. A disk that takes no write
/// goes offline at the first look.
#[test]
fn a_disk_that_takes_no_records_goes_offline() {
    let (lab, _) = with_an_open_region();
    lab.disks[1].faults(|faults| {
        faults.latent.extend(stamps().into_iter().map(|place| place..place + 4096))
    });
    let found = lab.look();
    assert!(
        found.len() == 1 && found[0].repaired && found[0].text.contains("cannot be read"),
        "{found:?}"
    );
    assert_eq!(lab.look(), []);
    lab.overwrite(1, &layout().header_places(), 4096, false);
    lab.disks[1].faults(|faults| faults.fail_writes = true);
    lab.look();
    assert!(lab.is_offline(1));
}

/// A voter that cannot be spared fails to write a membership. It gets that membership as soon as it
/// takes writes again, not with the next change.
#[test]
fn a_voter_that_missed_a_membership_is_given_it() {
    let lab = Lab::new(Redundancy::External, 128 * MIB, &["A", "B", "C"]);
    lab.write(lab.create_file("table"), 0, &pattern(1, 24 << 20));
    let voter = (0..3).rev().find(|disk| lab.votes(*disk)).expect("some vote");
    let areas = lab.member(voter).areas().to_vec();
    let places = areas.iter().flat_map(|area| area.memberships);
    lab.disks[voter].faults(|faults| {
        faults.worn = places.map(|place| place..place + MEMBERSHIP_SLOT as u64).collect()
    });
    block_on(lab.group().set_attribute("mount_wait", "17")).expect("it is set");
    assert_eq!(lab.state(voter), DiskState::Online);
    lab.disks[voter].heal();
    let (_, without) = block_on(lab.group().voters.audit()).expect("nothing else changes");
    assert_eq!(without, []);
}

/// One copy of the only voter's newest membership is torn, and written again. Its place cannot be
/// written, or the power fails in between. The other copy is the only record of the membership, and
/// stays.
#[test]
fn the_good_copy_stays_while_the_other_is_written_again() {
    for cut in 0..14 {
        let mut lab = Lab::new(Redundancy::External, SIZE, &["A"]);
        let before = lab.group().voters.current();
        let place = layout().middle_area().memberships[usize::from(before.generation % 2 == 1)];
        lab.overwrite(0, &[place], 4096, true);
        if cut == 0 {
            lab.disks[0].faults(|faults| faults.worn.push(place..place + 4096));
        }
        let fuse = lab.light_fuse(if cut == 0 { 1 << 40 } else { cut - 1 });
        let group = Arc::clone(lab.group());
        let looking = std::thread::spawn(move || {
            block_on(group.look_at_own_metadata(&ExtentScope::All, MetadataLook::PASSING));
        });
        lab.wait_for("the power or the end", || fuse.is_blown() || looking.is_finished());
        // The thread waits for ever if the power fails.
        drop(looking);
        lab.cut_power(cut);
        lab.no_fuse();
        lab.mount();
        let membership = lab.group().voters.current();
        assert!(
            membership.generation > before.generation,
            "cut {cut}: {} is lost",
            before.generation
        );
    }
}

/// All records are rewritten all the time: no write in flight is taken for damage, and no old
/// contents are written back.
#[test]
fn records_that_are_being_written_are_not_reported_as_damage() {
    let lab = Lab::new(Redundancy::Normal, SIZE, &["A", "B", "C"]);
    let is_over = AtomicBool::new(false);
    let over = || is_over.load(Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let node = lab.create_file("table");
            let mut numbers = Numbers::new(5);
            while !over() {
                lab.write(node, numbers.below(30) * MIB, &pattern(1, 9000));
                lab.sync(node);
                let _ = block_on(lab.group().close_idle(true)).expect("regions are closed");
            }
        });
        scope.spawn(|| {
            let mut round = 0;
            while !over() {
                block_on(lab.group().voters.restamp(false));
                let renaming = Renaming::Disks(vec![(
                    lab.group().members.values().next().expect("a disk").name().to_string(),
                    format!("NAME{round}"),
                )]);
                block_on(lab.group().rename(&renaming)).expect("it is renamed");
                round += 1;
            }
        });
        for _ in 0..200 {
            assert_eq!(lab.look(), []);
        }
        is_over.store(true, Ordering::SeqCst);
    });
    assert!((0..3).all(|disk| lab.repaired(disk) == 0));
    lab.check();
}

/// The copies of a header are written one after the other, each durable before the next: a loss of
/// power tears one of them at most.
#[test]
fn header_copies_are_written_one_after_the_other() {
    let lab = Lab::new(Redundancy::Normal, SIZE, &["A", "B"]);
    let header = block_on(identify::read_header(&*lab.world(), &*lab.disks[0].open()))
        .expect("it has one")
        .best;
    let places = header.layout.header_places();
    let before = lab.disks[0].counts().flushes;
    block_on(headers::write_header(&lab.member(0), &header, &places)).expect("they are written");
    let flushes = lab.disks[0].counts().flushes - before;
    assert!(flushes >= places.len() as u64, "{flushes} flushes for {} copies", places.len());
    lab.check();
}
