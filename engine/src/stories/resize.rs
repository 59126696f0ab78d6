//! Disks are resized while the group is used.

use super::*;
use crate::{
    admin::{AdminError, Order, Phases, Resize},
    catalog::live::IntoLive,
    extent::Mirror,
    movement::goals::Finished,
};
use plinth_format::{
    Au, Layout,
    layout::{MEMBERSHIP_SLOT, RecordArea},
    membership::Membership,
};
use std::{ops::Range, pin::pin, sync::atomic::Ordering};

impl Lab {
    pub(super) fn resize(&self, disk: Option<&str>, size: Option<u64>) -> Result<(), AdminError> {
        let which = disk.map_or(Selection::All, |disk| Selection::Disks(vec![disk.to_owned()]));
        block_on(self.group().resize_disks(&[Resize { which, size }], Some(4)))
    }

    /// The used bytes of each disk according to the membership. Checks that the disk's header
    /// agrees.
    pub(super) fn sizes(&self) -> Vec<u64> {
        let membership = self.group().voters.current();
        for (disk, entry) in self.disks.iter().zip(&membership.disks) {
            let header =
                block_on(crate::disk::identify::read_header(&*self.world(), &*disk.open()))
                    .expect("it has a header");
            assert!(header.wrong.is_empty(), "{:?}", header.wrong);
            assert!(
                [Some(entry.size), entry.target].contains(&Some(header.best.layout.size())),
                "{entry:?}"
            );
        }
        membership.disks.iter().map(|disk| disk.size).collect()
    }

    /// Makes a file that lies partly at the end of the disks, and small files. The filler that was
    /// allocated before them is removed.
    pub(super) fn fill_the_end(&self, length: usize) {
        let filler = self.create_file("filler");
        let (mut end, step) = (0, 3 << 20);
        let room = || {
            let space = self.group().space();
            space.disks().map(|disk| space.unowned(disk) as usize).min()
        };
        while room() > Some((length >> 20) + 6) {
            self.write(filler, end, &vec![7; step as usize]);
            end += step;
        }
        let node = self.create_file("table");
        self.write(node, 0, &pattern(2, length));
        (0..20).for_each(|number| {
            self.write(self.create_file(&format!("small{number}")), 0, &pattern(number, 5000))
        });
        self.sync(node);
        block_on(self.session().unlink(ROOT, b"filler")).expect("removed");
    }

    /// Asserts that every record area in a disk's header has the newest membership, or the one
    /// before it.
    fn areas_have_records(&self) {
        for disk in &self.disks {
            let header =
                block_on(crate::disk::identify::read_header(&*self.world(), &*disk.open()))
                    .expect("it has a header");
            let newest = |area: &RecordArea| {
                let found = area.memberships.iter().filter_map(|place| {
                    Membership::decode(&disk.peek(*place, MEMBERSHIP_SLOT), *place)
                        .ok()
                        .map(|(_, found)| found.generation)
                });
                found.max().unwrap_or(0)
            };
            let all: Vec<u64> = header.best.record_areas().iter().map(newest).collect();
            let last = all.iter().max().expect("one area at least");
            assert!(all.iter().all(|found| found + 1 >= *last), "{all:?} of {:?}", header.best);
        }
    }

    /// The AUs of all extents' mirrors.
    fn places(&self) -> Vec<Mirror> {
        let extents = block_on(self.group().some_alive(0))
            .expect("the catalog is read")
            .map_or(Vec::new(), |(all, _)| all);
        extents.iter().flat_map(|extent| extent.mirrors().to_vec()).collect()
    }

    /// Truncates the devices to `size` bytes.
    fn saw_off(&mut self, size: u64) {
        self.dismount();
        for disk in &mut self.disks {
            self.world.detach(disk.path());
            *disk = disk.of_size(size);
            self.world.attach(disk);
        }
        self.mount();
    }
}

/// Data and parts of the catalog in the last quarter of each disk move into the rest; then the
/// devices can be truncated.
#[test]
fn disks_are_made_smaller() {
    for (redundancy, groups) in
        [(Redundancy::Normal, &["A", "B", "C"][..]), (Redundancy::External, &["A"])]
    {
        let mut lab = Lab::new(redundancy, 64 * MIB, groups);
        lab.fill_the_end(24 << 20);
        let node = lab.find("table");
        let least = lab.places().iter().filter(|mirror| mirror.au >= Au(47)).count() as u64;
        assert!(least > 0);
        let all = [Resize { which: Selection::All, size: Some(48 * MIB + 8192) }];
        let estimate = block_on(lab.group().estimate_resize(&all)).expect("it fits");
        lab.resize(None, Some(48 * MIB + 8192)).expect("they are made smaller");
        let moved = lab.rebalanced();
        assert!(
            estimate.least >= least && moved <= estimate.work + 6,
            "{moved} moved, {estimate:?}"
        );
        assert!(moved <= least + 6, "{moved} moved, {least} had to");
        // Whole AUs, the last of which has a copy of the header.
        assert_eq!(lab.sizes(), vec![48 * MIB; groups.len()]);
        assert!(lab.places().iter().all(|mirror| mirror.au < Au(47)));
        assert!(lab.read(node, 0, 24 << 20) == pattern(2, 24 << 20));
        lab.check();
        lab.saw_off(48 * MIB);
        assert!(lab.read(lab.find("table"), 0, 24 << 20) == pattern(2, 24 << 20));
        lab.check();
        assert!(lab.resize(None, Some(20 * MIB)).is_err_and(|error| error.code == Code::NoSpace));
        lab.check();
    }
}

/// A check reads a disk while its records are being copied to another area: records that are not
/// there yet are not reported as missing.
#[test]
fn a_check_during_a_resize_reports_no_missing_records() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let member = Arc::clone(lab.group().members.values().next().expect("two"));
    let before = member.areas();
    // As RESIZE does before it copies the records.
    member.add_areas(&[Layout::new(48 * MIB, MIB).expect("it is large enough").middle_area()]);
    let report = block_on(lab.group().check(false)).expect("the check runs");
    assert!(report.is_good(), "{:?}", report.problems);
    member.set_areas(before.to_vec());
    lab.check();
}

/// The header with the new size cannot be written, and the size is changed back. Records are
/// written only where the header says, because the area that was meant for them is part of a file
/// by then.
#[test]
fn a_failed_resize_leaves_no_record_area_in_use() {
    let lab = Lab::new(Redundancy::External, 64 * MIB, &["A"]);
    let member = Arc::clone(lab.group().members.values().next().expect("one"));
    let before = member.areas();
    let less = Layout::new(48 * MIB, MIB).expect("large enough");
    let middle = less.header_places()[1];
    lab.disks[0].faults(|faults| faults.worn.push(middle..middle + 4096));
    lab.resize(None, Some(48 * MIB)).expect("it may be");
    lab.wait_for("the error", || lab.rebalance().state == OperationState::Errs);
    lab.resize(None, Some(64 * MIB)).expect("it stays as it is");
    assert_eq!(member.areas(), before);
    lab.disks[0].heal();
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 50 << 20));
    lab.sync(node);
    block_on(lab.group().voters.restamp(false));
    assert!(lab.read(node, 0, 50 << 20) == pattern(1, 50 << 20));
    lab.check();
}

/// In the AU of the middle header copy the records of both sizes overlap, or the header copy of one
/// size is where the other has a record. The records are whole afterwards, whenever the power
/// fails.
#[test]
fn records_are_whole_after_a_resize_with_overlapping_record_areas() {
    let middle = |size| Layout::new(size, MIB).expect("large enough").middle_area();
    let (less, more) = (64 * MIB, 65 * MIB);
    assert!(middle(less) != middle(more) && middle(less).overlaps(&middle(more)));
    let lab = Lab::of_size(Redundancy::External, 72 * MIB, &["A"], Some(more));
    for size in [less, more, less] {
        lab.resize(None, Some(size)).expect("it may be");
        lab.rebalanced();
        for place in middle(size).memberships {
            let found = Membership::decode(&lab.disks[0].peek(place, MEMBERSHIP_SLOT), place);
            assert!(found.is_ok(), "at {place}: {found:?}");
        }
        lab.check();
    }
    for cut in (0..40).step_by(3) {
        let mut lab = Lab::of_size(Redundancy::External, 72 * MIB, &["A"], Some(more));
        for size in [less, more] {
            let paused = [Resize { which: Selection::All, size: Some(size) }];
            block_on(lab.group().resize_disks(&paused, Some(0))).expect("it may be");
            let fuse = lab.light_fuse(4 + cut);
            let group = Arc::clone(lab.group());
            let goes_on = std::thread::spawn(move || drop(block_on(group.rebalance(Some(4)))));
            let is_done = |lab: &Lab| {
                let membership = lab.group().voters.current();
                membership.disks.iter().all(|disk| disk.size == size && disk.target.is_none())
            };
            lab.wait_for("the power or the end", || fuse.is_blown() || is_done(&lab));
            lab.cut_power(cut);
            lab.no_fuse();
            lab.areas_have_records();
            lab.mount();
            // The thread waits for ever if the engine has died meanwhile.
            drop(goes_on);
            block_on(lab.group().rebalance(Some(4))).expect("it goes on");
            lab.wait_for("the end", || is_done(&lab) && lab.nothing_moves());
            assert_eq!(lab.sizes(), [size]);
            lab.check();
        }
    }
}

/// More of the devices is used, and the data spreads over it.
#[test]
fn disks_are_made_larger() {
    let mut lab = Lab::of_size(Redundancy::Normal, 64 * MIB, &["A", "B", "C"], Some(20 * MIB));
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 12 << 20));
    assert!(lab.places().len() == 24);
    assert!(
        block_on(lab.session().write(lab.create_file("more"), 0, &pattern(2, 40 << 20), false))
            .is_err(),
        "it is full"
    );
    lab.resize(None, None).expect("they are made larger");
    lab.rebalanced();
    assert_eq!(lab.sizes(), [64 * MIB; 3]);
    for member in lab.group().members.values() {
        let header_aus = member.layout().header_places().map(|place| place / MIB);
        assert_eq!(header_aus, [0, 32, 63, 1]);
        assert_eq!(lab.group().space().total(member.number), 60, "one AU more for checksums");
    }
    lab.check();
    let more = lab.create_file("much");
    lab.write(more, 0, &pattern(3, 50 << 20));
    lab.sync(more);
    assert!(lab.read(node, 0, 12 << 20) == pattern(1, 12 << 20));
    lab.check();
    lab.kill();
    lab.mount();
    assert_eq!(lab.sizes(), [64 * MIB; 3]);
    assert!(lab.read(lab.find("much"), 0, 50 << 20) == pattern(3, 50 << 20));
    lab.check();
}

/// No AU is free, not even for data that lies where a larger disk has its header: the enlarged
/// disks themselves provide the room.
#[test]
fn full_disks_are_made_larger() {
    for (redundancy, groups) in
        [(Redundancy::Normal, &["A", "B"][..]), (Redundancy::External, &["A"])]
    {
        for units in [24, 25, 26] {
            let mut lab = Lab::of_size(redundancy, 64 * MIB, groups, Some(units * MIB));
            let node = lab.create_file("table");
            let mut length = 0;
            while block_on(lab.session().write(
                node,
                length << 20,
                &pattern(length, 1 << 20),
                false,
            ))
            .is_ok()
            {
                length += 1;
            }
            lab.sync(node);
            let free = || -> u32 {
                let space = lab.group().space();
                space.disks().map(|disk| space.available(disk)).sum()
            };
            assert_eq!(free(), 0);
            let all = [Resize { which: Selection::All, size: None }];
            block_on(lab.group().estimate_resize(&all)).expect("it may be");
            lab.resize(None, None).expect("they are made larger");
            lab.rebalanced();
            assert_eq!(lab.sizes(), vec![64 * MIB; groups.len()]);
            assert!(free() > 30);
            lab.check();
            lab.kill();
            lab.mount();
            let node = lab.find("table");
            assert!(
                (0..length).all(|at| lab.read(node, at << 20, 1 << 20) == pattern(at, 1 << 20))
            );
            lab.check();
        }
    }
}

/// A disk without a free AU becomes so much larger that its checksums alone take more AUs than it
/// can be given at once: it grows in stages, and after a kill it goes on.
#[test]
fn a_full_disk_grows_in_stages() {
    let mut lab = Lab::of_size(Redundancy::External, 1400 * MIB, &["A"], Some(25 * MIB));
    let node = lab.create_file("table");
    let mut length = 0;
    while block_on(lab.session().write(node, length << 20, &pattern(length, 1 << 20), false))
        .is_ok()
    {
        length += 1;
    }
    lab.sync(node);
    let all = [Resize { which: Selection::All, size: None }];
    block_on(lab.group().resize_disks(&all, Some(0))).expect("it may be");
    let early = lab.sizes()[0];
    assert!((26 * MIB - 4096..1400 * MIB).contains(&early), "{early}");
    lab.kill();
    lab.mount();
    block_on(lab.group().rebalance(Some(4))).expect("it goes on");
    lab.rebalanced();
    assert_eq!(lab.sizes(), [1400 * MIB]);
    let node = lab.find("table");
    assert!((0..length).all(|at| lab.read(node, at << 20, 1 << 20) == pattern(at, 1 << 20)));
    lab.check();
    // The growth in stages leaves nothing behind.
    lab.resize(None, Some(1000 * MIB)).expect("it is made smaller");
    lab.rebalanced();
    lab.kill();
    lab.mount();
    block_on(lab.group().rebalance(Some(4))).expect("it begins");
    lab.rebalanced();
    assert_eq!(lab.sizes(), [1000 * MIB]);
    lab.check();
}

/// There is room for the data that is in the way of a larger disk, but files take that room before
/// any of the data has moved: the disk grows in stages.
#[test]
fn a_disk_grows_although_files_take_the_room_for_the_data_in_the_way() {
    let mut lab = Lab::of_size(Redundancy::External, 2000 * MIB, &["A"], Some(25 * MIB));
    // One extent each, until no AU is free.
    let fill = |lab: &Lab, name: &str| {
        let mut nodes = Vec::new();
        loop {
            let node = lab.create_file(&format!("{name}{}", nodes.len()));
            let bytes = pattern(nodes.len() as u64, 1 << 20);
            if block_on(lab.session().write(node, 0, &bytes, false)).is_err() {
                return nodes;
            }
            lab.sync(node);
            nodes.push(node);
        }
    };
    let before = fill(&lab, "before");
    // Files that are not in the way make room.
    let large = Layout::new(2000 * MIB, MIB).expect("a size");
    let stays: Vec<Node> = lab
        .extents_on(&[0])
        .iter()
        .filter(|extent| extent.mirrors().iter().all(|mirror| large.is_data(mirror.au)))
        .map(|extent| extent.file)
        .collect();
    let gone: Vec<usize> =
        (0..before.len()).filter(|at| stays.contains(&before[*at])).take(8).collect();
    for at in &gone {
        block_on(lab.session().unlink(ROOT, format!("before{at}").as_bytes())).expect("removed");
    }
    let free = |lab: &Lab| lab.group().space().available(lab.member(0).number);
    lab.wait_for("the room", || free(&lab) >= 8);
    let all = [Resize { which: Selection::All, size: None }];
    block_on(lab.group().resize_disks(&all, Some(0))).expect("it may be");
    let target = |lab: &Lab| lab.group().voters.current().disks[0].target;
    assert_eq!(
        (lab.sizes(), target(&lab)),
        (vec![25 * MIB], Some(2000 * MIB)),
        "there is room, and nothing has moved"
    );
    assert!(!fill(&lab, "after").is_empty());
    block_on(lab.group().rebalance(Some(4))).expect("it goes on");
    lab.rebalanced();
    assert_eq!((lab.sizes(), target(&lab)), (vec![2000 * MIB], None));
    assert!(free(&lab) > 30);
    lab.check();
    lab.kill();
    lab.mount();
    for at in (0..before.len()).filter(|at| !gone.contains(at)) {
        assert!(
            lab.read(lab.find(&format!("before{at}")), 0, 1 << 20) == pattern(at as u64, 1 << 20)
        );
    }
    lab.check();
}

/// All AUs whose checksums the disk has room for are in use, and the catalog lies where more
/// checksums are to be. There is never room for a whole mirror of it: single AUs of it move.
#[test]
fn the_catalog_moves_out_of_the_way_of_checksums() {
    let mut lab = Lab::of_size(Redundancy::External, 600 * MIB, &["A"], Some(256 * MIB));
    let node = lab.create_file("table");
    let mut length = 0;
    while block_on(lab.session().write(node, length << 20, &[7; 1 << 20], false)).is_ok() {
        length += 1;
    }
    lab.sync(node);
    lab.resize(None, None).expect("it is made larger");
    lab.rebalanced();
    assert_eq!(lab.sizes(), [600 * MIB]);
    lab.check();
    lab.kill();
    lab.mount();
    let node = lab.find("table");
    assert!((0..length).all(|at| lab.read(node, at << 20, 1 << 20) == [7; 1 << 20]));
    lab.check();
}

/// A disk gets a size for which the middle record area lies within a run of the catalog, and there
/// is no room for a whole mirror. The AU moves with its contents: the catalog is whole after a
/// kill.
#[test]
fn an_au_within_a_run_of_the_catalog_moves_with_its_contents() {
    const FILES: usize = 8000;
    let mut lab = Lab::of_size(Redundancy::External, 600 * MIB, &["A"], Some(256 * MIB));
    let node = lab.create_file("table");
    let mut length = 0;
    while block_on(lab.session().write(node, length << 20, &[7; 1 << 20], false)).is_ok() {
        length += 1;
    }
    lab.sync(node);
    lab.resize(None, None).expect("it is made larger");
    lab.rebalanced();
    block_on(lab.session().unlink(ROOT, b"table")).expect("removed");
    // The catalog is larger than an AU.
    for number in 0..FILES {
        lab.create_file(&format!("file{number}"));
    }
    let runs: Vec<_> = lab
        .group()
        .voters
        .current()
        .catalog
        .iter()
        .map(|run| run.first.0..run.first.0 + run.count)
        .collect();
    let catalog: usize = runs.iter().map(ExactSizeIterator::len).sum();
    let layouts = (34 * 16..600 * 16).filter_map(|part| Layout::new(part * MIB / 16, MIB).ok());
    let mut layouts = layouts.filter(|layout| {
        let is_cut = |run: &Range<u32>| {
            layout.is_data(Au(run.start)) && run.clone().map(Au).any(|au| !layout.is_data(au))
        };
        layout.data_units().count() > catalog + 4 && runs.iter().any(is_cut)
    });
    let layout = layouts.next().expect("some size has its middle there");
    lab.wait_until_all_is_discarded();
    let left = layout.data_units().count() - catalog - 3;
    lab.write(lab.create_file("filler"), 0, &pattern(1, left << 20));
    block_on(lab.group().flush_for_handover()).expect("the catalog's log is in the database");
    lab.resize(None, Some(layout.size())).expect("it is possible");
    lab.rebalanced();
    lab.check();
    lab.kill();
    lab.mount();
    assert!((0..FILES).all(|number| lab.find(&format!("file{number}")) > 0));
    lab.check();
}

/// One disk gives up half of its mirrors. They move to the others as far as these have fewer then.
#[test]
fn one_disk_is_made_smaller() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C", "D"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 60 << 20));
    lab.sync(node);
    let (before, places) = (lab.held(), lab.places());
    let least =
        places.iter().filter(|mirror| mirror.disk.0 == 1 && mirror.au >= Au(32)).count() as u64;
    lab.resize(Some("DATA_0001"), Some(32 * MIB)).expect("it is made smaller");
    let moved = lab.rebalanced();
    let after = lab.held();
    assert!(after[1] < before[1] && after[0] >= before[0], "{before:?} {after:?}");
    let least = least.max(before[1] - after[1]);
    assert!(moved <= least + 6, "{moved} moved, {least} had to");
    assert_eq!(lab.sizes(), [64 * MIB, 32 * MIB, 64 * MIB, 64 * MIB]);
    assert!(lab.read(node, 0, 60 << 20) == pattern(1, 60 << 20));
    lab.check();
}

/// A failure group was alone for a while, and has two mirrors of the catalog since then. One of
/// them is in the way of another size. The only place for it is on the disk of the other mirror,
/// and it is not needed any more: it is removed.
#[test]
fn a_surplus_mirror_of_the_catalog_does_not_prevent_a_resize() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "B"]);
    lab.offline(0);
    lab.write(lab.create_file("table"), 0, &pattern(1, 300_000));
    lab.online_all();
    let mirrors = || {
        let membership = lab.group().voters.current();
        membership
            .catalog
            .iter()
            .map(|run| (run.file, run.mirror))
            .collect::<std::collections::BTreeSet<_>>()
            .len()
    };
    lab.wait_for("the third mirror of each file", || mirrors() == 6);
    for units in (10..64).rev().step_by(2) {
        if lab.resize(Some("DATA_0002"), Some(units * MIB)).is_err() {
            break;
        }
        lab.rebalanced();
        assert_eq!(lab.sizes()[2], units * MIB);
    }
    assert!(mirrors() < 6, "none was in the way");
    lab.check();
}

/// During a resize a disk is resized to another size, and back to its old one.
#[test]
fn a_resize_that_has_not_ended_is_changed_and_taken_back() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 40 << 20));
    lab.sync(node);
    let power =
        |lab: &Lab, power| block_on(lab.group().rebalance(Some(power))).expect("it takes it");
    for size in [48 * MIB, 40 * MIB, 64 * MIB] {
        lab.resize(None, Some(size)).expect("it may be");
        power(&lab, 0);
        // An operator who saw the new size now would truncate the device.
        assert!(
            lab.group().live().tables()["live_disk"]
                .iter()
                .all(|disk| disk.contains(&("total", (60 * MIB).into_live()))),
            "nothing has moved"
        );
    }
    power(&lab, 4);
    lab.rebalanced();
    assert_eq!(lab.sizes(), [64 * MIB; 3]);
    lab.check();
    lab.resize(None, Some(40 * MIB)).expect("it may be");
    power(&lab, 0);
    lab.dismount();
    lab.mount();
    assert_eq!(lab.sizes(), [64 * MIB; 3], "nothing has moved yet");
    lab.check();
    power(&lab, 4);
    lab.rebalanced();
    assert_eq!(lab.sizes(), [40 * MIB; 3]);
    assert!(lab.read(lab.find("table"), 0, 40 << 20) == pattern(1, 40 << 20));
    lab.check();
}

/// With COMPACT, data at the ends of disks fills the gaps at their beginnings, and nothing else
/// moves.
#[test]
fn disks_are_made_compact() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    lab.fill_the_end(24 << 20);
    block_on(lab.group().rebalance(Some(4))).expect("it begins");
    assert!(lab.rebalanced() < 12, "gaps are no reason to move");
    let behind = |lab: &Lab| {
        let space = lab.group().space();
        space.disks().map(|disk| space.compact_end(disk).1).sum::<u32>()
    };
    let (before, held) = (behind(&lab), lab.held());
    assert!(before > 6);
    let phases = Phases { balance: false, compact: Some(true) };
    block_on(lab.group().rebalance(Order { power: Some(4), phases: Some(phases) }))
        .expect("it begins");
    let moved = lab.rebalanced();
    assert!(moved <= u64::from(before), "{moved} moved, {before} lay behind");
    assert_eq!((behind(&lab), lab.held()), (0, held));
    let shown = lab.rows("SELECT state, sofar FROM v$asm_operation_ended WHERE pass = 'COMPACT'");
    assert_eq!(shown, [["DONE".to_owned(), moved.to_string()]]);
    for kill in [true, false] {
        assert!(lab.read(lab.find("table"), 0, 24 << 20) == pattern(2, 24 << 20));
        lab.check();
        if kill {
            lab.kill();
        } else {
            lab.dismount();
        }
        lab.mount();
    }
}

#[test]
fn an_impossible_size_is_refused() {
    let lab = Lab::of_size(Redundancy::Normal, 64 * MIB, &["A", "B", "C"], Some(40 * MIB));
    let code = |disk, size| lab.resize(disk, size).expect_err("it is refused").code;
    assert_eq!(code(None, Some(65 * MIB)), Code::DiskTooSmall);
    assert_eq!(code(Some("DATA_0001"), Some(4 * MIB)), Code::DiskTooSmall);
    assert_eq!(code(Some("DATA_0009"), None), Code::NoSuchDisk);
    lab.resize(None, Some(40 * MIB)).expect("nothing changes");
    assert_eq!(lab.sizes(), [40 * MIB; 3]);
}

/// A disk does not end the write that wipes an old copy of its header. That write would destroy
/// what is allocated there next, so the place is not given away before the write has ended.
#[test]
fn the_place_of_an_old_header_is_freed_after_the_write_that_wipes_it_has_ended() {
    let lab = Lab::of_size(Redundancy::External, 64 * MIB, &["A", "B"], Some(40 * MIB));
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 6 << 20));
    lab.sync(node);
    let group = lab.group();
    let member = Arc::clone(group.members.values().nth(1).expect("two"));
    let (before, after) = (member.layout(), Layout::new(48 * MIB, MIB).expect("large enough"));
    let old: Vec<u64> = before
        .header_places()
        .into_iter()
        .filter(|place| !after.header_places().contains(place))
        .collect();
    assert_eq!(old.len(), 2);
    let which = Selection::Disks(vec!["DATA_0001".to_owned()]);
    block_on(group.resize_disks(&[Resize { which, size: Some(48 * MIB) }], Some(0)))
        .expect("it may be");
    assert_eq!(group.space().reserved_in_use(member.number), 0, "nothing is in the way");
    lab.disks[1].faults(|faults| {
        faults.hang_writes = old.iter().map(|place| *place..place + 4096).collect()
    });
    let mut finish = pin!(group.finish_resizes());
    assert!(run_until(finish.as_mut(), || lab.disks[1].hung() > 0).is_none());
    let is_overdue = || member.counters.write_timeouts.load(Ordering::Relaxed) > 0;
    assert!(
        run_until(finish.as_mut(), is_overdue).is_none(),
        "the disk has another size while an old header is wiped"
    );
    assert_eq!(member.layout(), before);
    lab.disks[1].heal();
    assert!(matches!(block_on(finish), Ok(Finished::Changed)));
    assert_eq!(member.layout(), after);
    assert!(old.iter().all(|place| lab.disks[1].peek(*place, 4096) == [0; 4096]));
    block_on(group.rebalance(Some(4))).expect("it goes on");
    lab.rebalanced();
    assert!(lab.read(node, 0, 6 << 20) == pattern(1, 6 << 20));
    lab.check();
}

/// A failure group has two mirrors of the catalog, and one of them is in the way of another size.
/// It is removed when the other mirrors can be relied on, but not while these are on disks that
/// hung a moment ago.
#[test]
fn a_mirror_of_the_catalog_in_the_way_stays_while_it_is_needed() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "B"]);
    let second = (1..3)
        .find(|disk| lab.runs_of(CatalogFile::Wal, *disk).is_empty())
        .expect("two mirrors are enough");
    let number = lab.group().members.values().nth(second).expect("three").number;
    // A mirror that is placed there lies beyond the end of a small disk.
    (0..20).for_each(|_| _ = lab.group().space().allocate_reserved(number));
    lab.offline(0);
    lab.write(lab.create_file("table"), 0, &pattern(1, 12 << 20));
    lab.online_all();
    let runs = || {
        lab.runs_of(CatalogFile::Wal, second).len()
            + lab.runs_of(CatalogFile::Database, second).len()
    };
    let all = || (0..3).map(|disk| lab.runs_of(CatalogFile::Wal, disk).len()).collect::<Vec<_>>();
    lab.wait_for("the third mirror", || {
        all().iter().all(|runs| *runs > 0) && !lab.group().store.lacks_mirror()
    });
    let group = lab.group();
    let others: Vec<_> = group
        .members
        .values()
        .zip(&lab.disks)
        .filter(|(member, _)| member.number != number)
        .collect();
    for (member, disk) in &others {
        disk.faults(|faults| faults.hang = true);
        drop(member.start_read(0, 4096));
    }
    lab.wait_for("the timeouts", || others.iter().all(|(member, _)| member.is_hung()));
    // They hung less than a deadline ago from now on.
    group.deadline.store(100_000, Ordering::Relaxed);
    lab.disks.iter().for_each(MemoryDisk::heal);
    assert!((0..3).all(|disk| lab.state(disk) == DiskState::Online));
    group
        .space()
        .reserve_for_shrink(number, Some(Layout::new(13 * MIB, MIB).expect("large enough")));
    while group.space().allocate_reserved(number).is_some() {}
    assert_eq!(group.store.in_the_way(), Some(number));
    let before = runs();
    block_on(group.rebuild_catalog());
    assert_eq!(runs(), before, "it may be the only one that can be read");
    group.deadline.store(10, Ordering::Relaxed);
    lab.wait_for("its end", || {
        block_on(group.rebuild_catalog());
        runs() < before
    });
}
