//! Repairs of blocks while a disk with a mirror of them is silent or offline: no data that only
//! that disk has is lost or overwritten, and no late write of a repair lands on newer data.

use super::{silence::Healed, *};
use crate::extent::data::Data;
use plinth_format::BLOCK_SIZE;
use std::sync::mpsc;

/// Length of the file, and the distance from the block of a story to another block in the same
/// extent.
const LENGTH: usize = 40 << 20;
const BESIDE: u64 = 2 * BLOCK_SIZE as u64;

/// Where a disk has the first block of an extent and the checksums of its AU.
#[derive(Debug, Clone, Copy)]
struct Place {
    disk: usize,
    data: u64,
    sums: u64,
}

impl Place {
    fn bytes(self) -> std::ops::Range<u64> {
        self.data..self.data + BLOCK_SIZE as u64
    }
}

/// A table, and the first block of one of its extents.
struct Case {
    lab: Lab,
    node: Node,
    at: u64,
    /// The contents of that block.
    bytes: Vec<u8>,
    /// Where each mirror of the block lies, in the order of the extent's mirrors.
    places: Vec<Place>,
}

impl Case {
    /// The case of an extent with mirrors on these disks and no others.
    fn on(lab: Lab, disks: &[usize]) -> Self {
        let numbers: Vec<_> = disks.iter().map(|disk| u16::try_from(*disk).expect("few")).collect();
        let extent = lab.extents_on(&numbers).into_iter().next().expect("there is one");
        Self::of(lab, &extent)
    }

    fn of(lab: Lab, extent: &Extent) -> Self {
        let place = |mirror: &crate::extent::Mirror| {
            let member = Arc::clone(&lab.group().members[&mirror.disk]);
            let (data, sums) =
                (member.layout().au_offset(mirror.au), member.layout().sums_of(mirror.au).0);
            Place { disk: usize::from(mirror.disk.0), data, sums }
        };
        let places = extent.mirrors().iter().map(place).collect();
        let at = extent.number * MIB;
        let bytes = lab.read(lab.find("table"), at, BLOCK_SIZE);
        Self { node: lab.find("table"), lab, at, bytes, places }
    }

    fn lab(redundancy: Redundancy) -> Lab {
        let lab = Lab::new(redundancy, 64 * MIB, &["A", "B", "C", "D", "E"]);
        let node = lab.create_file("table");
        lab.write(node, 0, &pattern(1, LENGTH));
        lab.sync(node);
        lab.close_regions();
        lab
    }

    /// One mirror is on a disk that cannot be spared. The other one, from whose zone checksums are
    /// loaded, is on a disk that can be. Returns the case and the places of both.
    fn with_one_that_is_needed() -> (Self, Place, Place) {
        let lab = Self::lab(Redundancy::Normal);
        let (away, needed) = lab.leave_one_that_is_needed();
        let others = (0..5).filter(|disk| ![away, needed].contains(disk));
        let mut extents = others.flat_map(|other| lab.extents_on(&[needed, other]));
        let zone_of = |extent: &Extent| extent.mirrors()[Data::first_zone(extent, 2)].disk.0;
        let extent = extents.find(|extent| zone_of(extent) != needed).expect("there is one");
        let case = Self::of(lab, &extent);
        let needed = case.place(usize::from(needed));
        let other = *case.places.iter().find(|place| place.disk != needed.disk).expect("two");
        (case, needed, other)
    }

    fn place(&self, disk: usize) -> Place {
        *self.places.iter().find(|place| place.disk == disk).expect("it has one there")
    }

    /// Makes the extent's region active and loads its checksums now: a silent disk does not take
    /// the activity log.
    fn write_beside(&self) {
        self.lab.write(self.node, self.at + BESIDE, &pattern(2, BLOCK_SIZE));
    }

    fn has(&self, place: Place) -> Vec<u8> {
        self.lab.disks[place.disk].peek(place.data, BLOCK_SIZE)
    }

    fn rots(&self, place: Place) {
        self.lab.disks[place.disk].corrupt(place.data, &pattern(7, BLOCK_SIZE));
    }

    /// The block cannot be read until it is written.
    fn goes_bad(&self, place: Place) {
        self.lab.disks[place.disk].faults(|faults| faults.latent.push(place.bytes()));
    }

    /// Neither reads of the block nor writes to it end on a disk.
    fn hang(&self, place: Place) {
        self.lab.disks[place.disk].faults(|faults| faults.hang_in.push(place.bytes()));
    }

    fn read(&self) -> Result<Vec<u8>, FileError> {
        self.lab.try_read(self.node, self.at, BLOCK_SIZE)
    }
}

/// One mirror of a block has rotted. The other one is on a disk that could be spared and that does
/// not answer within the timeout when the block is read. The read waits for it, and the disk stays
/// ONLINE.
#[test]
fn a_silent_disk_with_the_only_good_mirror_of_a_block_is_waited_for() {
    let lab = Case::lab(Redundancy::Normal);
    // Without a copy of the catalog.
    let silent = lab.plain_disk();
    let case = Case::on(lab, &[silent, (silent + 1) % 5]);
    let lab = &case.lab;
    case.write_beside();
    let rotten = case.place((silent + 1) % 5);
    case.rots(rotten);
    case.hang(case.place(silent));
    std::thread::scope(|scope| {
        let _healed = Healed(lab);
        let reader = scope.spawn(|| case.read());
        lab.wait_for("the read", || lab.is_hung(silent));
        // A reader that gives up does so within this time.
        std::thread::sleep(Duration::from_secs(3));
        lab.disks[silent].answer();
        assert!(reader.join().expect("no panic").expect("it is read") == case.bytes);
    });
    lab.wait_for("the mend", || case.has(rotten) == case.bytes);
    assert!(lab.states().iter().all(|state| *state == DiskState::Online), "{:?}", lab.states());
    assert!(!lab.told("no good mirror"));
    lab.check();
}

/// A disk that cannot be spared has lost a write together with its checksum. It does not answer
/// when a check with repair compares mirrors, so the check does not overwrite its mirror. When it
/// answers the two mirrors are in dispute.
#[test]
fn a_check_does_not_overwrite_a_mirror_that_it_could_not_read() {
    let (mut case, needed, _) = Case::with_one_that_is_needed();
    let new = pattern(3, BLOCK_SIZE);
    case.lab.dismount();
    let kept =
        [needed.data, needed.sums].map(|place| case.lab.disks[needed.disk].peek(place, BLOCK_SIZE));
    case.lab.mount();
    case.lab.write(case.node, case.at, &new);
    case.lab.sync(case.node);
    case.lab.dismount();
    for (place, bytes) in [needed.data, needed.sums].iter().zip(&kept) {
        case.lab.disks[needed.disk].corrupt(*place, bytes);
    }
    case.lab.mount();
    let lab = &case.lab;
    case.write_beside();
    case.hang(needed);
    std::thread::scope(|scope| {
        let _healed = Healed(lab);
        let checker = scope.spawn(|| block_on(lab.group().check(true)).expect("the check runs"));
        lab.wait_for("its silence", || lab.is_hung(needed.disk));
        // A check that does not wait for the disk writes within this time.
        std::thread::sleep(Duration::from_secs(3));
        lab.disks[needed.disk].answer();
        let report = checker.join().expect("no panic");
        assert!(
            case.has(needed) == case.bytes,
            "a mirror was overwritten that the check could not read"
        );
        assert!(!report.is_good(), "the report does not say that all is good");
    });
    lab.wait_for("the alarm", || lab.told("are disputed"));
    assert!(case.has(needed) == case.bytes, "one of two valid mirrors was overwritten");
    // A client writes the block.
    lab.write(case.node, case.at, &new);
    lab.online_all();
    lab.check();
}

/// A block has rotted on a disk that is needed, and the write that repairs it does not end. A
/// client that writes the block meanwhile has the last word: the repair does not overwrite what the
/// client wrote.
#[test]
fn a_repair_that_hangs_does_not_overwrite_a_later_write() {
    let (case, needed, other) = Case::with_one_that_is_needed();
    let (lab, new) = (&case.lab, pattern(3, BLOCK_SIZE));
    case.write_beside();
    case.rots(needed);
    lab.disks[needed.disk].faults(|faults| faults.hang_writes.push(needed.bytes()));
    std::thread::scope(|scope| {
        let _healed = Healed(lab);
        scope.spawn(|| block_on(lab.group().check(true)).expect("the check runs"));
        lab.wait_for("the mend", || lab.is_hung(needed.disk));
        // A repair that gives up does so within this time.
        std::thread::sleep(Duration::from_secs(3));
        // Later writes do not hang, and those that hang have not been carried out yet.
        lab.disks[needed.disk].faults(|faults| faults.hang_writes.clear());
        scope.spawn(|| lab.write(case.node, case.at, &new));
        // A write that does not wait for the repair is carried out within this time.
        std::thread::sleep(Duration::from_secs(1));
        lab.disks[needed.disk].heal();
    });
    assert!(
        case.has(needed) == new && case.has(other) == new,
        "the repair overwrote what was written after it"
    );
    assert!(case.read().expect("it is read") == new);
    lab.online_all();
    lab.check();
}

/// While a disk is offline a block goes bad on the other disk that has a mirror of it, so that no
/// online mirror has the block. The disk that returns still has it. The resync does not replace
/// that with a mark, but repairs the other mirror from it.
#[test]
fn a_returning_disk_restores_a_block_that_went_bad_on_the_other() {
    for is_mounted_anew in [false, true] {
        let mut case = Case::on(Case::lab(Redundancy::Normal), &[0, 1]);
        let [gone, stays] = [0, 1].map(|disk| case.place(disk));
        case.lab.offline(gone.disk);
        // So that the whole extent is stale on the disk that is offline.
        case.write_beside();
        case.lab.sync(case.node);
        case.lab.close_regions();
        if is_mounted_anew {
            case.lab.dismount();
        }
        case.goes_bad(stays);
        if is_mounted_anew {
            case.lab.mount();
        }
        assert!(
            matches!(case.read(), Err(FileError::ExtentLost { .. })),
            "no online mirror has it right"
        );
        case.lab.online_all();
        assert!(case.read().expect("it is there again") == case.bytes);
        assert!(case.has(gone) == case.bytes && case.has(stays) == case.bytes);
        case.lab.check();
    }
}

/// Of three mirrors one takes a write, one is on a disk that is needed and fails the write, and one
/// is on a silent disk. The client gets the error only after the third write has ended, too: so
/// that one cannot overwrite what the client writes next.
#[test]
fn a_failed_write_returns_only_after_the_write_to_a_silent_disk_has_ended() {
    let lab = Case::lab(Redundancy::High);
    // Extents with their other mirrors on these two need the one disk that is left.
    [3, 4].into_iter().for_each(|disk| lab.offline(disk));
    let case = Case::on(lab, &[0, 1, 2]);
    let (lab, last) = (&case.lab, pattern(4, BLOCK_SIZE));
    // In the order of the mirrors: a write that gives up at the first failure does not come to the
    // second.
    let [failing, silent, _] = case.places[..] else { panic!("it has three mirrors") };
    for place in [failing, silent] {
        let disk = u16::try_from(place.disk).expect("few");
        assert!(!lab.extents_on(&[disk, 3, 4]).is_empty(), "disk {disk} is needed");
    }
    case.write_beside();
    lab.disks[failing.disk].faults(|faults| faults.worn.push(failing.bytes()));
    case.hang(silent);
    let (go_on, may_go_on) = mpsc::channel();
    std::thread::scope(|scope| {
        let _healed = Healed(lab);
        let (case, last) = (&case, &last);
        let client = scope.spawn(move || {
            let end =
                block_on(lab.session().write(case.node, case.at, &pattern(3, BLOCK_SIZE), false));
            may_go_on.recv().expect("the story goes on");
            lab.write(case.node, case.at, last);
            end
        });
        lab.wait_for("the first write", || lab.is_hung(silent.disk));
        // A write that does not wait for the silent disk returns its error within this time.
        std::thread::sleep(Duration::from_secs(3));
        // Later writes are taken, and those that hang have not been carried out yet.
        lab.disks[failing.disk].heal();
        lab.disks[silent.disk].faults(|faults| faults.hang_in.clear());
        go_on.send(()).expect("the client waits for it");
        std::thread::sleep(Duration::from_secs(1));
        lab.disks[silent.disk].answer();
        let end = client.join().expect("no panic");
        assert!(matches!(end, Err(FileError::Refused { .. })), "{end:?}");
    });
    let have: Vec<_> = case.places.iter().map(|place| case.has(*place) == last).collect();
    assert_eq!(have, [true; 3], "the first write landed on the second");
    assert!(case.read().expect("it is read") == last);
    lab.online_all();
    lab.check();
}

/// A write ends in an error: one mirror has it, and the disk of the other, which cannot be spared,
/// has written a part of it. The block can be read: each sector is old or new.
#[test]
fn a_block_can_be_read_after_a_write_that_failed_half_way() {
    let (case, needed, _) = Case::with_one_that_is_needed();
    let (lab, new) = (&case.lab, pattern(3, BLOCK_SIZE));
    case.write_beside();
    lab.disks[needed.disk].faults(|faults| faults.worn.push(needed.bytes()));
    let end = block_on(lab.session().write(case.node, case.at, &new, false));
    assert!(matches!(end, Err(FileError::Refused { .. })), "{end:?}");
    lab.disks[needed.disk].heal();
    lab.disks[needed.disk].corrupt(needed.data, &new[..BLOCK_SIZE / 2]);
    let found = case.read().expect("no mirror is to be given up");
    let mut sectors = found.chunks(512).zip(case.bytes.chunks(512).zip(new.chunks(512)));
    assert!(sectors.all(|(found, (old, new))| found == old || found == new));
}

/// A disk returns that alone has a good mirror of a block, and the other disk, where the block has
/// gone bad, does not take it. The disk that returns keeps its mirror, and the block is read from
/// it.
#[test]
fn a_returning_disk_keeps_a_block_that_the_other_disk_does_not_take() {
    let case = Case::on(Case::lab(Redundancy::Normal), &[0, 1]);
    let (lab, [gone, stays]) = (&case.lab, [0, 1].map(|disk| case.place(disk)));
    lab.offline(gone.disk);
    case.write_beside();
    lab.sync(case.node);
    lab.close_regions();
    case.goes_bad(stays);
    lab.disks[stays.disk].faults(|faults| faults.worn.push(stays.bytes()));
    block_on(lab.group().online(Selection::All)).expect("its resync begins");
    let has_ended = || {
        lab.group()
            .operations()
            .iter()
            .any(|one| one.pass == OperationPass::Resync && one.state != OperationState::Run)
    };
    lab.wait_for("the end of the resync", || {
        has_ended() || lab.state(gone.disk) == DiskState::Online
    });
    assert!(case.read().expect("it is there again") == case.bytes);
    assert!(case.has(gone) == case.bytes);
    lab.disks[stays.disk].heal();
    lab.online_all();
    lab.wait_for("the mend", || case.has(stays) == case.bytes);
    lab.check();
}

/// A disk returns with the old contents of a block, and the checksum that the other disk stores
/// matches these, because a write of checksums was lost. The match does not make the old contents
/// right: the newer contents on the other disk are not overwritten.
#[test]
fn a_resync_does_not_overwrite_newer_contents_with_old_ones_that_match_a_checksum() {
    let case = Case::on(Case::lab(Redundancy::Normal), &[0, 1]);
    let (lab, [gone, stays]) = (&case.lab, [0, 1].map(|disk| case.place(disk)));
    lab.offline(gone.disk);
    case.write_beside();
    lab.sync(case.node);
    lab.close_regions();
    case.rots(stays);
    lab.online_all();
    assert!(matches!(case.read(), Err(FileError::ExtentLost { .. })), "no mirror has it right");
    assert!(case.has(stays) == pattern(7, BLOCK_SIZE));
}
