//! RECLAIM gives back space that was never given back, while the group is used.

use super::*;
use crate::{
    admin::{Operation, ReclaimMethod, ReclaimOrder, Reclaimable},
    catalog::attributes,
};

const PIECE: u64 = 64 << 10;

impl Lab {
    /// A group without discards, with a file that has a hole, and space that a file has left.
    fn never_given_back(groups: &[&str]) -> (Self, Node) {
        let mut lab = Self::new(Redundancy::Normal, 64 * MIB, groups);
        block_on(lab.group().set_attribute("thin_provisioned", "false")).expect("it is set");
        lab.dismount();
        lab.mount();
        let (gone, table) = (lab.create_file("gone"), lab.create_file("table"));
        lab.write(gone, 0, &pattern(1, 8 << 20));
        lab.write(table, 0, &pattern(2, 4 << 20));
        lab.sync(gone);
        lab.sync(table);
        block_on(lab.session().unlink(ROOT, b"gone")).expect("it is removed");
        let session = lab.session();
        block_on(session.allocate(table, MIB, 20 * PIECE, Allocate::PunchHole, false))
            .expect("it is punched");
        block_on(session.sync_directory(ROOT)).expect("it is durable");
        lab.sync(table);
        let is_free = || !lab.group().space().any_pending();
        lab.wait_for("the space of the removed file", is_free);
        (lab, table)
    }

    fn reclaim(&self, method: ReclaimMethod, power: Option<u32>) -> Result<(), Code> {
        self.reclaim_of(Selection::All, method, power)
    }

    fn reclaim_of(
        &self,
        which: Selection,
        method: ReclaimMethod,
        power: Option<u32>,
    ) -> Result<(), Code> {
        let order = ReclaimOrder { which, method, power };
        block_on(self.group().begin_reclaim(&order)).map_err(|error| error.code)
    }

    fn reclaim_operation(&self) -> Option<Operation> {
        self.group().operations().into_iter().find(|one| one.pass == OperationPass::Reclaim)
    }

    fn wait_until_reclaimed(&self) {
        self.wait_for("the end of the reclaim", || {
            self.reclaim_operation().is_none_or(|one| one.state != OperationState::Run)
        });
    }

    fn reclaimable(&self) -> Vec<Reclaimable> {
        block_on(self.group().reclaimable(&Selection::All)).expect("the catalog answers")
    }

    /// The position that the catalog has.
    fn stored(&self) -> Option<Vec<u64>> {
        let text = block_on(self.group().catalog.read(attributes::load_reclaim));
        let words =
            |text: String| text.split(' ').map(|word| word.parse().expect("a number")).collect();
        text.expect("the catalog answers").map(words)
    }

    fn free_room(&self) -> u64 {
        block_on(self.session().space()).expect("space").blocks_free * 4096
    }

    /// Whether the file has its bytes and its hole.
    fn check_table(&self, table: Node) {
        let mut expected = pattern(2, 4 << 20);
        expected[1 << 20..][..20 * PIECE as usize].fill(0);
        assert!(self.read(table, 0, 4 << 20) == expected);
        self.check();
    }

    /// Fails the test unless every unused byte of a disk is zero.
    fn check_zeroes(&self) {
        let unused = block_on(self.group().unused()).expect("the catalog answers");
        for (disk, (name, ranges)) in self.disks.iter().zip(unused) {
            for range in ranges {
                let bytes = disk.peek(range.start, (range.end - range.start) as usize);
                assert!(bytes.iter().all(|byte| *byte == 0), "{name}: {range:?}");
            }
        }
    }

    fn hang_discards(&self, disk: usize, hang: bool) {
        self.disks[disk].faults(|faults| faults.hang_discards = hang);
    }
}

/// Everything that is free becomes zero, and nothing else: AUs, and pieces without data of files.
/// The estimate before says how much that is.
#[test]
fn zeroes_are_written_over_everything_free() {
    let (lab, table) = Lab::never_given_back(&["A", "B"]);
    let unused = block_on(lab.group().unused()).expect("the catalog answers");
    let unused: Vec<u64> = unused
        .iter()
        .map(|(_, ranges)| ranges.iter().map(|range| range.end - range.start).sum())
        .collect();
    let estimate = lab.reclaimable();
    assert_eq!(estimate.iter().map(Reclaimable::free).collect::<Vec<_>>(), unused);
    assert!(estimate.iter().all(|one| one.after() == one.size - one.free()));
    lab.reclaim(ReclaimMethod::Zero, Some(100)).expect("it begins");
    lab.wait_until_reclaimed();
    assert_eq!(lab.reclaim_operation().map(|one| one.state), Some(OperationState::Done));
    lab.check_zeroes();
    let zeroed: Vec<u64> = lab.disks.iter().map(|disk| disk.counts().bytes_zeroed).collect();
    assert_eq!(zeroed, unused);
    assert!(lab.stored().is_none() && lab.told("reclaim ended"));
    lab.check_table(table);
}

/// Everything that is free is discarded although `thin_provisioned` is off.
#[test]
fn everything_free_is_discarded_whatever_the_attribute_says() {
    let (lab, table) = Lab::never_given_back(&["A", "B"]);
    let unused: Vec<u64> = lab.reclaimable().iter().map(Reclaimable::free).collect();
    let discarded =
        || lab.disks.iter().map(|disk| disk.counts().bytes_discarded).collect::<Vec<_>>();
    let before = discarded();
    lab.reclaim(ReclaimMethod::Discard, None).expect("it begins");
    lab.wait_until_reclaimed();
    let after = discarded();
    let more: Vec<u64> = before.iter().zip(after).map(|(before, after)| after - before).collect();
    assert_eq!(more, unused);
    lab.check_table(table);
}

/// The engine is killed when one disk is done and the other one has hardly begun. The next engine
/// goes on with the other one.
#[test]
fn a_reclaim_that_was_killed_goes_on_where_it_was() {
    let (mut lab, table) = Lab::never_given_back(&["A", "B"]);
    let total = lab.reclaimable()[0].free();
    lab.hang_discards(1, true);
    lab.reclaim(ReclaimMethod::Zero, Some(100)).expect("it begins");
    let last = u64::from(lab.member(0).layout().au_count()) - 8;
    lab.wait_for("the first disk", || lab.stored().is_some_and(|words| words[6] > last));
    lab.kill();
    lab.hang_discards(1, false);
    let before = lab.disks[0].counts().bytes_zeroed;
    lab.mount();
    lab.wait_until_reclaimed();
    assert!(lab.told("reclaim goes on") && lab.told("reclaim ended"));
    let again = lab.disks[0].counts().bytes_zeroed - before;
    assert!(again < total / 4, "{again} of {total} once more");
    lab.check_zeroes();
    lab.check_table(table);
    lab.dismount();
    lab.mount();
    assert_eq!((lab.reclaim_operation(), lab.stored()), (None, None), "it was done");
}

/// The engine is killed, or loses its host, three times on the way, while a file is written. The
/// end is the same: all that is free is zero.
#[test]
fn a_reclaim_that_is_cut_short_three_times_ends_as_any_other() {
    let (mut lab, table) = Lab::never_given_back(&["A", "B"]);
    let busy = lab.create_file("busy");
    lab.reclaim(ReclaimMethod::Zero, Some(1)).expect("it begins");
    let mut last = Vec::new();
    for kill in 1..=3 {
        let is_there =
            |lab: &Lab| lab.reclaim_operation().is_none_or(|one| one.so_far * 4 >= one.work * kill);
        while !is_there(&lab) {
            last = pattern(kill, 8192);
            lab.write(busy, kill * 100_000, &last);
            lab.sync(busy);
        }
        assert!(lab.stored().is_some(), "it has not ended before");
        if kill == 2 {
            lab.cut_power(kill)
        } else {
            lab.kill()
        }
        lab.mount();
    }
    lab.wait_until_reclaimed();
    lab.check_zeroes();
    assert_eq!(lab.read(busy, 300_000, 8192), last);
    lab.check_table(table);
}

/// While space is being given back, and devices do not answer, the group does not look full, and
/// files get space. STOP ends it for good.
#[test]
fn a_group_that_is_reclaimed_does_not_look_full() {
    let (mut lab, table) = Lab::never_given_back(&["A", "B"]);
    let room = lab.free_room();
    (0..2).for_each(|disk| lab.hang_discards(disk, true));
    lab.reclaim(ReclaimMethod::Discard, Some(100)).expect("it begins");
    let taken = || {
        let space = lab.group().space();
        lab.group().members.values().map(|one| space.discarding(one.number)).collect::<Vec<_>>()
    };
    lab.wait_for("discards on all disks", || taken().iter().all(|count| *count > 0));
    assert_eq!(lab.free_room(), room);
    let file = lab.create_file("file");
    lab.write(file, 0, &pattern(5, 16 << 20));
    lab.sync(file);
    assert_eq!(lab.read(file, 0, 4096), pattern(5, 16 << 20)[..4096]);
    assert_eq!(lab.reclaim(ReclaimMethod::Zero, Some(3)), Err(Code::Busy));
    assert_eq!(lab.reclaim(ReclaimMethod::Discard, Some(3)), Ok(()));
    assert_eq!(lab.reclaim_operation().map(|one| one.power), Some(3));
    block_on(lab.group().stop_reclaim()).expect("it stops");
    lab.disks.iter().for_each(MemoryDisk::heal);
    lab.wait_until_reclaimed();
    assert!(lab.told("reclaim stopped"));
    lab.check_table(table);
    lab.kill();
    lab.mount();
    assert_eq!((lab.reclaim_operation(), lab.stored()), (None, None));
}

/// While a discard of a disk is in flight, a reclaim takes none of its AUs: the two would both
/// leave out a unit of the device that lies across their edges.
#[test]
fn a_reclaim_waits_for_a_discard_in_flight() {
    let (lab, table) = Lab::never_given_back(&["A", "B"]);
    (0..2).for_each(|disk| lab.hang_discards(disk, true));
    block_on(lab.group().set_attribute("thin_provisioned", "true")).expect("it is set");
    let taken = || {
        let space = lab.group().space();
        lab.group().members.values().map(|one| space.discarding(one.number)).collect::<Vec<_>>()
    };
    lab.wait_for("discards on all disks", || taken().iter().all(|count| *count > 0));
    let before = taken();
    lab.reclaim(ReclaimMethod::Discard, Some(100)).expect("it begins");
    block_on(lab.world.sleep(Duration::from_secs(1)));
    assert_eq!(taken(), before);
    lab.disks.iter().for_each(MemoryDisk::heal);
    lab.wait_until_reclaimed();
    lab.check_table(table);
}

/// A disk that fails is left out, the others are done, and the operation says so.
#[test]
fn a_disk_that_fails_is_left_out() {
    let (lab, table) = Lab::never_given_back(&["A", "B"]);
    lab.disks[1].faults(|faults| faults.fail_discards = true);
    lab.reclaim(ReclaimMethod::Zero, Some(100)).expect("it begins");
    lab.wait_until_reclaimed();
    let operation = lab.reclaim_operation().expect("it has ended with an error");
    assert_eq!(operation.state, OperationState::Errs);
    assert!(operation.error.is_some_and(|error| error.contains("DATA_0001")));
    let space = lab.reclaimable();
    assert_eq!(lab.disks[0].counts().bytes_zeroed, space[0].free());
    assert_eq!(lab.disks[1].counts().bytes_zeroed, 0);
    lab.disks[1].heal();
    let other = Selection::Disks(vec!["DATA_0001".to_owned()]);
    lab.reclaim_of(other, ReclaimMethod::Zero, None).expect("it begins");
    lab.wait_until_reclaimed();
    lab.check_zeroes();
    lab.check_table(table);
}

/// Not of a disk that is away, if it is named; and not after a mount by FORCE.
#[test]
fn a_reclaim_that_could_do_harm_is_refused() {
    let (mut lab, _) = Lab::never_given_back(&["A", "B", "C"]);
    lab.offline(2);
    let away = Selection::Disks(vec!["DATA_0002".to_owned()]);
    assert_eq!(lab.reclaim_of(away, ReclaimMethod::Discard, None), Err(Code::NotSupported));
    lab.reclaim(ReclaimMethod::Discard, None).expect("of the others");
    lab.wait_until_reclaimed();
    assert!(lab.told("reclaim leaves it out: it is not ONLINE"));
    assert_eq!(lab.reclaim_operation().map(|one| one.state), Some(OperationState::Done));
    lab.kill();
    lab.try_mount(true).expect("it mounts");
    assert_eq!(lab.reclaim(ReclaimMethod::Discard, None), Err(Code::WouldLoseData));
}
