//! Freed space is discarded on thin devices, and no other I/O waits for that.

use super::*;
use plinth_engine::{api::Allocate, world::discard_limits::DiscardLimits};
use sim::scenario::{FINE, SECTORS};

const PIECE: u64 = 64 << 10;

impl Lab {
    pub fn wait_until_all_is_discarded(&self) {
        self.wait_for("the discards", || self.group().is_all_discarded());
    }

    /// The number of bytes that each disk has discarded.
    fn discarded(&self) -> Vec<u64> {
        self.disks().iter().map(|disk| disk.counts().bytes_discarded).collect()
    }

    /// Makes two synced files, `gone` of 8 MiB and `table` of 2 MiB, and returns the node of
    /// `table`.
    fn make_gone_and_table(&self) -> Node {
        let (gone, table) = (self.create_file("gone"), self.create_file("table"));
        self.write(gone, 0, &pattern(1, 8 << 20));
        self.write(table, 0, &pattern(2, 2 << 20));
        self.sync(gone);
        self.sync(table);
        table
    }

    fn remove(&self, name: &str) {
        block_on(self.session().unlink(ROOT, name.as_bytes())).expect("it is removed");
    }
}

/// Fails the test unless every disk has discarded at least `bytes` more than before.
fn more(before: &[u64], after: &[u64], bytes: u64) {
    assert!(
        before.iter().zip(after).all(|(before, after)| after - before >= bytes),
        "{before:?} {after:?}"
    );
}

/// Holes within extents, and slots that small files leave, are discarded, and the data between them
/// stays as it was.
#[test]
fn holes_and_freed_slots_are_discarded() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.wait_until_all_is_discarded();
    let session = lab.session();
    let bytes = pattern(1, 8 << 20);
    let node = lab.create_file("table");
    lab.write(node, 0, &bytes);
    for index in 0..64 {
        let small = lab.create_file(&format!("small{index}"));
        lab.write(small, 0, &pattern(100 + index, 8192));
        lab.sync(small);
    }
    lab.sync(node);
    let before = lab.discarded();
    for hole in 0..16 {
        let offset = (2 * hole + 1) * 4 * PIECE;
        block_on(session.allocate(node, offset, 4 * PIECE, Allocate::PunchHole, false))
            .expect("it is punched");
    }
    for index in (0..64).step_by(2) {
        lab.remove(&format!("small{index}"));
    }
    let all = 16 * 4 * PIECE + 32 * PIECE;
    lab.wait_for("the discards", || {
        lab.discarded().iter().zip(&before).all(|(now, before)| now - before >= all)
            && lab.group().is_all_discarded()
    });
    let check = |lab: &Lab| {
        for piece in 0..bytes.len() / PIECE as usize {
            let at = piece * PIECE as usize;
            let read = lab.read(lab.find("table"), at as u64, PIECE as usize);
            let is_hole = piece / 4 % 2 == 1;
            assert!(if is_hole {
                read.iter().all(|byte| *byte == 0)
            } else {
                read == bytes[at..at + PIECE as usize]
            });
        }
        for index in (1..64).step_by(2) {
            assert_eq!(
                lab.read(lab.find(&format!("small{index}")), 0, 8192),
                pattern(100 + index, 8192)
            );
        }
        lab.check();
    };
    check(&lab);
    // Data that is written there again reads back.
    lab.write(node, 4 * PIECE + 1000, &pattern(7, 1000));
    assert_eq!(lab.read(node, 4 * PIECE + 1000, 1000), pattern(7, 1000));
    block_on(session.allocate(node, 4 * PIECE, 4 * PIECE, Allocate::PunchHole, false))
        .expect("it is punched");
    drop(session);
    lab.kill();
    lab.mount();
    check(&lab);
}

/// Devices whose units are larger than AUs, or lie across them: a unit goes back when its last AU
/// is free, in whatever order files go, and no unit with data is touched.
#[test]
fn units_larger_than_aus_go_back_when_all_of_them_is_free() {
    for (granularity, alignment, maximum) in
        [(4 * MIB, 0, 4 * MIB), (MIB, 3 * PIECE, u64::MAX), (3 * MIB, 2 * MIB + 4096, 5 * MIB)]
    {
        let lab = Lab::without_group();
        for name in ["A", "B"] {
            let limits = DiscardLimits { granularity, alignment, maximum, ..FINE };
            lab.world().add_disk_honouring(limits, 96 * MIB, SECTORS, name);
        }
        lab.create(Redundancy::Normal, MIB, None, false).expect("the group is made");
        lab.mount();
        let name = |index: u64| format!("file{index}");
        for index in 0..24 {
            let file = lab.create_file(&name(index));
            lab.write(file, 0, &pattern(index, 2 << 20));
            lab.sync(file);
        }
        let lent = |lab: &Lab| {
            let unused = block_on(lab.group().unused()).expect("the catalog can be read");
            let of_disks = lab.disks().into_iter().zip(unused);
            of_disks.map(|(disk, (_, places))| disk.lends(&places).len()).sum::<usize>()
        };
        let check = |lab: &Lab| {
            lab.wait_until_all_is_discarded();
            assert_eq!(lent(lab), 0, "granularity {granularity}, alignment {alignment}");
        };
        // Every third one, then every second one of those that are left, then all but one.
        for index in (0..24).step_by(3).chain((1..24).step_by(3)).chain((2..23).step_by(3)) {
            lab.remove(&name(index));
            if index % 5 == 0 {
                check(&lab);
            }
        }
        check(&lab);
        assert_eq!(lab.read(lab.find(&name(23)), 0, 2 << 20), pattern(23, 2 << 20));
        lab.check();
    }
}

/// A full group, whose disks take their time over discards: what is removed can be written anew at
/// once, over and over.
#[test]
fn a_long_queue_is_no_reason_for_an_error_of_no_space() {
    let lab = Lab::new(Redundancy::Normal, 96 * MIB, &["A", "B"]);
    let most = block_on(lab.session().space()).expect("space").blocks_free * 4096;
    let size = usize::try_from(most / 4 * 3).expect("small");
    for round in 0..6 {
        let file = lab.create_file("table");
        lab.write(file, 0, &pattern(round, size));
        lab.sync(file);
        assert_eq!(lab.read(file, 0, size), pattern(round, size), "round {round}");
        lab.remove("table");
    }
    lab.wait_until_all_is_discarded();
    lab.check();
}

/// Space that is freed while a disk is offline is discarded when the disk is back.
#[test]
fn a_disk_that_was_away_discards_what_it_missed() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.wait_until_all_is_discarded();
    let table = lab.make_gone_and_table();
    block_on(lab.group().offline(Selection::FailureGroups(vec!["B".to_owned()]), None))
        .expect("it can be spared");
    let before = lab.discarded();
    lab.remove("gone");
    block_on(lab.session().allocate(table, PIECE, 4 * PIECE, Allocate::PunchHole, false))
        .expect("it is punched");
    lab.wait_for("the other one's discards", || {
        lab.discarded()[0] - before[0] >= (8 << 20) + 4 * PIECE
    });
    assert_eq!(lab.discarded()[1], before[1]);
    lab.online_all();
    lab.wait_until_all_is_discarded();
    more(&before, &lab.discarded(), (8 << 20) + 4 * PIECE);
    lab.check();
}

/// Space that a disk gets by RESIZE may hold old data, like the space of a new disk, and is
/// discarded.
#[test]
fn a_disk_that_grows_discards_its_new_space() {
    let lab = Lab::of_size(Redundancy::Normal, 64 * MIB, &["A", "B"], Some(20 * MIB));
    lab.wait_until_all_is_discarded();
    let before = lab.discarded();
    lab.resize(None, None).expect("they are made larger");
    lab.rebalanced();
    lab.wait_until_all_is_discarded();
    more(&before, &lab.discarded(), 40 << 20);
    lab.check();
}
