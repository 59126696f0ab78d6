//! Freed space is discarded on thin devices, and no other I/O waits for that.

use super::*;
use crate::{api::Allocate, catalog::attributes, space::AuState};
use plinth_format::DiskNumber;

const PIECE: u64 = 64 << 10;

impl Lab {
    pub(super) fn wait_until_all_is_discarded(&self) {
        self.wait_for("the discards", || self.group().is_all_discarded());
    }

    /// The number of bytes that each disk has discarded.
    fn discarded(&self) -> Vec<u64> {
        self.disks.iter().map(|disk| disk.counts().bytes_discarded).collect()
    }

    /// Waits until the caretaker has made `rounds` more rounds.
    fn wait_for_care(&self, rounds: u64) {
        let ticks = || self.group().ticks.load(std::sync::atomic::Ordering::Relaxed);
        let now = ticks();
        self.wait_for("the caretaker", || ticks() >= now + rounds);
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

    fn room(&self) -> u64 {
        block_on(self.session().space()).expect("space").blocks_free * 4096
    }
}

/// Fails the test unless every disk has discarded at least `bytes` more than before.
fn more(before: &[u64], after: &[u64], bytes: u64) {
    assert!(
        before.iter().zip(after).all(|(before, after)| after - before >= bytes),
        "{before:?} {after:?}"
    );
}

/// Discards hang. Other free space is given out, files are made, written and synced, and no disk is
/// taken for a hanging one. A request for more space than that is refused in the end. When the
/// disks answer, all space is free again.
#[test]
fn hanging_discards_stop_no_other_io() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.wait_until_all_is_discarded();
    let gone = lab.create_file("gone");
    lab.write(gone, 0, &pattern(1, 8 << 20));
    lab.sync(gone);
    lab.disks.iter().for_each(|disk| disk.faults(|faults| faults.hang_discards = true));
    let before = lab.room();
    lab.remove("gone");
    let discarding = || {
        let space = lab.group().space();
        lab.group()
            .members
            .values()
            .map(|member| space.discarding(member.number))
            .collect::<Vec<_>>()
    };
    lab.wait_for("discards on all disks", || discarding().iter().all(|count| *count > 0));
    let stuck = discarding().into_iter().map(|count| u64::from(count) * MIB).max().expect("two");
    let file = lab.create_file("file");
    for round in 0..20 {
        lab.write(file, round * 8192, &pattern(round, 8192));
        lab.sync(file);
    }
    lab.wait_for("discards that are late", || {
        lab.group().members.values().all(|member| lab.group().discards.late(member.number) > 0)
    });
    assert!(
        (0..2).all(|disk| lab.state(disk) == DiskState::Online),
        "a disk that discards slowly is not a silent one"
    );
    lab.write(file, 160 << 10, &pattern(99, 1 << 20));
    let session = lab.session();
    let wish = lab.create_file("wish");
    let reserve = Allocate::Reserve { keep_size: true };
    let all = lab.room() / MIB * MIB;
    let refused = block_on(session.allocate(wish, 0, all, reserve, false));
    assert!(matches!(refused, Err(FileError::NoSpace)), "{refused:?}");
    block_on(session.allocate(wish, 0, all - stuck, reserve, false))
        .expect("all but what is being discarded");
    lab.disks.iter().for_each(MemoryDisk::heal);
    lab.wait_for("the end of the discards", || discarding().iter().all(|count| *count == 0));
    block_on(session.allocate(wish, 0, all, reserve, false)).expect("the rest");
    lab.remove("wish");
    lab.wait_until_all_is_discarded();
    assert!(lab.room() + 4 * MIB >= before + (8 << 20));
    assert_eq!(lab.read(file, 19 * 8192, 4096), pattern(19, 8192)[..4096]);
    lab.check();
}

/// A file asks for more than there is, and is refused. The AUs that it almost got were not written:
/// they are not discarded again.
#[test]
fn space_that_a_refused_request_almost_got_is_not_discarded_again() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let wish = lab.create_file("wish");
    lab.wait_until_all_is_discarded();
    let before = lab.discarded();
    let reserve = Allocate::Reserve { keep_size: true };
    let refused =
        block_on(lab.session().allocate(wish, 0, lab.room() / MIB * MIB + MIB, reserve, false));
    assert!(matches!(refused, Err(FileError::NoSpace)), "{refused:?}");
    let space = lab.group().space();
    let stains: Vec<u32> =
        lab.group().members.values().map(|member| space.stains(member.number)).collect();
    drop(space);
    assert_eq!(stains, [0, 0]);
    lab.wait_for_care(2);
    assert_eq!(lab.discarded(), before);
    lab.check();
}

/// While a request waits for space, discards leave the free AUs to it.
#[test]
fn no_free_space_is_discarded_while_a_request_waits_for_space() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.make_gone_and_table();
    lab.wait_until_all_is_discarded();
    let before = lab.discarded();
    let waiting = lab.group().freeing.coming().wait();
    lab.remove("gone");
    lab.wait_for("the space of the file", || {
        let space = lab.group().space();
        lab.group().members.values().all(|member| space.stains(member.number) >= 8)
    });
    lab.wait_for_care(3);
    assert_eq!(lab.discarded(), before);
    drop(waiting);
    lab.wait_until_all_is_discarded();
    more(&before, &lab.discarded(), 8 << 20);
    lab.check();
}

/// Freed space is allocated again before it is discarded. Where the new owner writes nothing, it is
/// discarded all the same.
#[test]
fn space_reused_before_its_discard_is_discarded_where_it_stays_unwritten() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.wait_until_all_is_discarded();
    for (name, size) in [("first", 1 << 20), ("gone", 16 << 20)] {
        let file = lab.create_file(name);
        lab.write(file, 0, &pattern(1, size));
        lab.sync(file);
    }
    // A disk gets no other discard while one of its discards hangs.
    lab.disks.iter().for_each(|disk| disk.faults(|faults| faults.hang_discards = true));
    lab.remove("first");
    let is_discarding = || {
        let space = lab.group().space();
        lab.group().members.values().all(|member| space.discarding(member.number) > 0)
    };
    lab.wait_for("discards on all disks", is_discarding);
    let (before, room) = (lab.discarded(), lab.room());
    lab.remove("gone");
    lab.wait_for("room", || lab.room() >= room + (16 << 20));
    let (session, wish) = (lab.session(), lab.create_file("wish"));
    let reserve = Allocate::Reserve { keep_size: true };
    let stuck = lab
        .group()
        .members
        .values()
        .map(|member| lab.group().space().discarding(member.number))
        .max();
    let rest = (lab.room() / MIB - u64::from(stuck.expect("two"))) * MIB;
    block_on(session.allocate(wish, 0, rest, reserve, false))
        .expect("all but what is being discarded");
    lab.write(wish, 0, &pattern(2, 200 << 10));
    lab.disks.iter().for_each(MemoryDisk::heal);
    lab.wait_until_all_is_discarded();
    more(&before, &lab.discarded(), (16 << 20) - (256 << 10));
    assert_eq!(lab.read(wish, 0, 200 << 10), pattern(2, 200 << 10));
    assert_eq!(lab.read(wish, 1 << 20, 4096), vec![0; 4096][..0], "it is no longer than that");
    lab.check();
}

/// An engine ends before it has discarded what it freed: the next engine does. After an engine that
/// had nothing left to discard, nothing is discarded again.
#[test]
fn the_next_engine_discards_the_space_that_one_left() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.wait_until_all_is_discarded();
    let table = lab.make_gone_and_table();
    lab.disks.iter().for_each(|disk| disk.faults(|faults| faults.hang_discards = true));
    lab.remove("gone");
    block_on(lab.session().allocate(table, 0, 1 << 20, Allocate::PunchHole, false))
        .expect("it is punched");
    block_on(lab.session().allocate(table, 1 << 20, 4 * PIECE, Allocate::PunchHole, false))
        .expect("it is punched");
    lab.sync(table);
    block_on(lab.session().sync_directory(ROOT)).expect("it is durable");
    lab.kill();
    lab.disks.iter().for_each(|disk| disk.faults(|faults| faults.hang_discards = false));
    let before = lab.discarded();
    lab.mount();
    lab.wait_until_all_is_discarded();
    more(&before, &lab.discarded(), (9 << 20) + 4 * PIECE);
    lab.check();
    lab.dismount();
    let before = lab.discarded();
    lab.mount();
    lab.wait_for_care(3);
    assert_eq!(lab.discarded(), before, "there was nothing left");
    // The record of that engine, that all is discarded, does not cover space that is freed now.
    lab.disks.iter().for_each(|disk| disk.faults(|faults| faults.hang_discards = true));
    lab.remove("table");
    block_on(lab.session().sync_directory(ROOT)).expect("it is durable");
    lab.kill();
    lab.disks.iter().for_each(|disk| disk.faults(|faults| faults.hang_discards = false));
    let before = lab.discarded();
    lab.mount();
    lab.wait_until_all_is_discarded();
    more(&before, &lab.discarded(), 1 << 20);
    lab.check();
}

/// Nothing is discarded while `thin_provisioned` is off. When it is switched on, space that was
/// freed before is discarded.
#[test]
fn space_freed_before_thin_provisioned_is_on_is_discarded_then() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    block_on(lab.group().set_attribute("thin_provisioned", "false")).expect("it is set");
    lab.dismount();
    lab.mount();
    let table = lab.make_gone_and_table();
    let before = lab.discarded();
    lab.remove("gone");
    block_on(lab.session().allocate(table, PIECE, 4 * PIECE, Allocate::PunchHole, false))
        .expect("it is punched");
    lab.wait_for_care(3);
    assert_eq!(lab.discarded(), before);
    block_on(lab.group().set_attribute("thin_provisioned", "true")).expect("it is set");
    lab.wait_until_all_is_discarded();
    more(&before, &lab.discarded(), (8 << 20) + 4 * PIECE);
    assert_eq!(lab.read(table, 0, PIECE as usize), pattern(2, 2 << 20)[..PIECE as usize]);
    lab.check();
}

/// A disk that is being dropped gets no discards. When its drop is taken back, it gets those for
/// all space that was freed meanwhile.
#[test]
fn a_disk_whose_drop_is_taken_back_discards_what_it_missed() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    lab.wait_until_all_is_discarded();
    let table = lab.create_file("table");
    lab.write(table, 0, &pattern(1, 12 << 20));
    lab.sync(table);
    let group = lab.group();
    let parts =
        group.mirror_sets.counts().into_iter().filter(|(set, _)| set.contains(&DiskNumber(0)));
    let parts: u64 = parts.map(|(_, count)| count).sum();
    assert!(parts > 0);
    block_on(group.exchange(lab.wanted(&[], &["DATA_0000"], false), Some(0))).expect("it can go");
    let before = lab.discarded();
    for au in 0..12 {
        block_on(lab.session().allocate(table, au << 20, 4 * PIECE, Allocate::PunchHole, false))
            .expect("punched");
    }
    let others = || {
        lab.discarded().iter().zip(&before).skip(1).map(|(now, before)| now - before).sum::<u64>()
    };
    lab.wait_for("the others' discards", || others() >= (2 * 12 - parts) * 4 * PIECE);
    lab.wait_for_care(2);
    assert_eq!(lab.discarded()[0], before[0]);
    block_on(group.undrop()).expect("it stays");
    lab.wait_until_all_is_discarded();
    more(&before[..1], &lab.discarded()[..1], parts * 4 * PIECE);
    lab.check();
}

/// A disk that fails discards for some time gets all of them later; the other disks get them at
/// once.
#[test]
fn failed_discards_of_a_disk_are_repeated() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.wait_until_all_is_discarded();
    let table = lab.make_gone_and_table();
    let before = lab.discarded();
    lab.disks[1].faults(|faults| faults.fail_discards = true);
    lab.remove("gone");
    block_on(lab.session().allocate(table, PIECE, 4 * PIECE, Allocate::PunchHole, false))
        .expect("it is punched");
    lab.wait_for("the other one's discards", || {
        lab.discarded()[0] - before[0] >= (8 << 20) + 4 * PIECE
    });
    block_on(lab.session().allocate(table, 6 * PIECE, PIECE, Allocate::PunchHole, false))
        .expect("it is punched");
    lab.wait_for("the other one's discards", || {
        lab.discarded()[0] - before[0] >= (8 << 20) + 5 * PIECE
    });
    assert!(lab.discarded()[1] == before[1] && !lab.group().is_all_discarded());
    assert!(lab.group().members.values().all(|member| member.state() == DiskState::Online));
    lab.disks[1].heal();
    lab.wait_until_all_is_discarded();
    more(&before, &lab.discarded(), (8 << 20) + 5 * PIECE);
    lab.check();
}

/// A disk has failed a discard, and the space was used again before the disk was tried once more:
/// nothing is left to discard.
#[test]
fn a_failed_discard_of_space_that_was_used_again_is_not_waited_for() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let table = lab.make_gone_and_table();
    lab.wait_until_all_is_discarded();
    lab.disks[1].faults(|faults| faults.fail_discards = true);
    block_on(lab.session().allocate(table, PIECE, 4 * PIECE, Allocate::PunchHole, false))
        .expect("it is punched");
    let group = lab.group();
    let refused = || group.members.values().any(|member| group.discards.rests(member.number));
    lab.wait_for("a discard that failed", refused);
    lab.write(table, PIECE, &pattern(3, 4 * PIECE as usize));
    lab.sync(table);
    lab.disks[1].heal();
    lab.wait_until_all_is_discarded();
    lab.check();
}

/// After a mount by FORCE only space that this mount freed is discarded: other free space may hold
/// the last copy of some data.
#[test]
fn a_mount_by_force_discards_no_space_that_was_freed_before() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.wait_until_all_is_discarded();
    let gone = lab.create_file("gone");
    lab.write(gone, 0, &pattern(1, 8 << 20));
    lab.sync(gone);
    lab.disks.iter().for_each(|disk| disk.faults(|faults| faults.hang_discards = true));
    lab.remove("gone");
    block_on(lab.session().sync_directory(ROOT)).expect("it is durable");
    lab.kill();
    lab.disks.iter().for_each(|disk| disk.faults(|faults| faults.hang_discards = false));
    let before = lab.discarded();
    lab.try_mount(true).expect("it mounts");
    lab.wait_for_care(3);
    assert_eq!(lab.discarded(), before);
    lab.dismount();
    lab.mount();
    lab.wait_until_all_is_discarded();
    more(&before, &lab.discarded(), 8 << 20);
}

/// When all is discarded, a file is removed, and the group is dismounted at once. The next mount
/// discards the file's space.
#[test]
fn space_freed_just_before_a_dismount_is_discarded_by_the_next_mount() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let gone = lab.create_file("gone");
    lab.write(gone, 0, &pattern(1, 8 << 20));
    lab.sync(gone);
    lab.wait_until_all_is_discarded();
    let before = lab.discarded();
    lab.remove("gone");
    lab.dismount();
    lab.mount();
    lab.wait_until_all_is_discarded();
    lab.wait_for_care(3);
    more(&before, &lab.discarded(), 8 << 20);
}

/// The record that nothing is left to discard is in the catalog only while the group is dismounted.
#[test]
fn a_mount_erases_the_record_that_all_is_discarded() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.wait_until_all_is_discarded();
    lab.dismount();
    lab.mount();
    let said = block_on(lab.group().catalog.read(attributes::load_all_discarded))
        .expect("the catalog answers");
    assert!(!said);
}

/// A hole is found to be durable. Before it is discarded it gets data, which is synced, and is
/// punched again. A power cut could take the second punch back, so it is not discarded as the hole
/// that was found.
#[test]
fn a_hole_that_had_data_meanwhile_is_not_discarded() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    // No other task discards anything.
    block_on(lab.group().set_attribute("thin_provisioned", "false")).expect("it is set");
    let node = lab.create_file("table");
    let punch = || {
        block_on(lab.session().allocate(node, 0, 4 * PIECE, Allocate::PunchHole, false))
            .expect("punched")
    };
    lab.write(node, 0, &pattern(1, 1 << 20));
    lab.sync(node);
    punch();
    lab.sync(node);
    let extent = lab
        .group()
        .extents
        .all()
        .into_iter()
        .find(|extent| extent.file == node)
        .expect("it has one");
    let losses = extent.losses();
    let new = pattern(2, 4 * PIECE as usize);
    lab.write(node, 0, &new);
    lab.sync(node);
    punch();
    let before = lab.discarded();
    block_on(lab.group().discard_found(&extent, losses, 0..4));
    assert_eq!(lab.discarded(), before, "synced bytes may come back");
    lab.sync(node);
    block_on(lab.group().discard_found(&extent, extent.losses(), 0..4));
    more(&before, &lab.discarded(), 4 * PIECE);
    lab.check();
    drop(extent);
    lab.dismount();
}

/// A reader has held an extent for longer than a disk may take to answer, and its file is removed:
/// its AUs are free when the reader has ended.
#[test]
fn aus_of_a_removed_file_are_not_free_while_a_reader_holds_them() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 1 << 20));
    lab.sync(node);
    let group = lab.group();
    let extent =
        group.extents.all().into_iter().find(|extent| extent.file == node).expect("it has one");
    let states = || {
        let space = group.space();
        extent
            .mirrors()
            .iter()
            .map(|mirror| space.state(mirror.disk, mirror.au))
            .collect::<Vec<_>>()
    };
    let reader = extent.ranges.try_hold(0..1, false).expect("no writer holds it");
    lab.remove("table");
    lab.wait_for("its end", || extent.is_tombstone());
    for _ in 0..2 {
        block_on(group.reclaim(true)).expect("the catalog answers");
        assert!(
            states().iter().all(|state| *state == Some(AuState::Reclaimable)),
            "{:?}",
            states()
        );
    }
    drop(reader);
    block_on(group.reclaim(true)).expect("the catalog answers");
    assert!(states().iter().all(|state| *state != Some(AuState::Reclaimable)), "{:?}", states());
    lab.check();
}

/// A hole is punched, and not yet durable. It is discarded only when it is durable: a power cut
/// must not bring discarded data back.
#[test]
fn a_hole_is_discarded_when_it_is_durable() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C", "D", "E", "F", "G"]);
    let node = lab.create_file("table");
    let reserve = Allocate::Reserve { keep_size: false };
    block_on(lab.session().allocate(node, 0, 48 * MIB, reserve, false)).expect("there is room");
    let has_log = |lab: &Lab, disk: usize| !lab.runs_of(CatalogFile::Wal, disk).is_empty();
    let (logs, plain): (Vec<usize>, Vec<usize>) = (0..7).partition(|disk| has_log(&lab, *disk));
    let is_plain =
        |extent: &Extent| extent.disks().all(|disk| plain.contains(&usize::from(disk.0)));
    let all = lab.group().extents.all();
    let extent = all
        .iter()
        .find(|extent| extent.file == node && is_plain(extent))
        .expect("every two disks have some");
    let at = extent.number * MIB;
    let place_of = |mirror: &crate::extent::Mirror| {
        let disk = usize::from(mirror.disk.0);
        (disk, lab.member(disk).layout().au_offset(mirror.au))
    };
    let places: Vec<(usize, u64)> = extent.mirrors().iter().map(place_of).collect();
    let bytes = pattern(1, 1 << 20);
    lab.write(node, at, &bytes);
    lab.sync(node);
    drop(all);
    lab.wait_until_all_is_discarded();
    lab.dismount();
    // No other task makes anything durable.
    ["discards", "caretaker", "stamp"].into_iter().for_each(|name| lab.world.hold_back(name));
    lab.mount();
    let hole = 4 * PIECE as usize;
    let punch = Allocate::PunchHole;
    block_on(lab.session().allocate(lab.find("table"), at, hole as u64, punch, false))
        .expect("it is punched");
    lab.group().tend_discards();
    let mut discards = lab.world.take_task("discards").expect("it was begun");
    let is_discarded =
        |(disk, place): &(usize, u64)| lab.disks[*disk].peek(*place, hole) != bytes[..hole];
    assert!(!places.iter().any(is_discarded));
    assert!(run_until(discards.as_mut(), || places.iter().all(is_discarded)).is_none());
    // The disks with the catalog's log keep nothing that was not flushed; the disks with the file's
    // data keep all of it.
    let end = |seed: u64, disk: usize| Numbers::new(seed * 1000 + disk as u64).below(4);
    let is_worst = |seed: &u64| {
        logs.iter().all(|disk| end(*seed, *disk) == 1)
            && places.iter().all(|(disk, _)| end(*seed, *disk) == 0)
    };
    let seed = (0..).find(is_worst).expect("one in 1024");
    drop(discards);
    lab.cut_power(seed);
    lab.mount();
    let found = lab.try_read(lab.find("table"), at, hole);
    assert!(found.is_ok_and(|found| found == vec![0; hole]), "the hole was discarded and is none");
    lab.check();
}

/// A file is removed, and its AUs are wanted at once: they are free when the removal is durable. A
/// power cut does not bring the file back with AUs that may belong to another file.
#[test]
fn a_removed_file_whose_aus_are_free_is_gone_after_a_power_cut() {
    for seed in 0..3 {
        let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
        let gone = lab.create_file("gone");
        lab.write(gone, 0, &pattern(1, 8 << 20));
        lab.sync(gone);
        lab.wait_until_all_is_discarded();
        let used = || lab.group().space().used(lab.member(0).number);
        let before = used();
        lab.remove("gone");
        block_on(lab.group().reclaim(true)).expect("the catalog answers");
        assert!(used() < before, "nothing is free");
        lab.cut_power(seed);
        lab.mount();
        let found = block_on(lab.session().lookup(ROOT, b"gone"));
        assert!(matches!(found, Err(FileError::NotFound)), "{found:?}");
    }
}

/// A disk's discards hang, and no more are sent to it. Holes that are punched then are discarded
/// later, on all disks.
#[test]
fn holes_beyond_the_discards_that_a_disk_takes_are_discarded_later() {
    const HOLES: u64 = 8;
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.wait_until_all_is_discarded();
    let table = lab.create_file("table");
    lab.write(table, 0, &pattern(1, usize::try_from(HOLES * MIB).expect("small")));
    lab.sync(table);
    let before = lab.discarded();
    lab.disks[1].faults(|faults| faults.hang_discards = true);
    // One hole in each extent.
    for hole in 0..HOLES {
        block_on(lab.session().allocate(table, hole * MIB, PIECE, Allocate::PunchHole, false))
            .expect("it is punched");
    }
    lab.sync(table);
    lab.wait_for("discards that hang", || lab.disks[1].hung() >= 4);
    lab.wait_for_care(3);
    lab.disks[1].heal();
    lab.wait_until_all_is_discarded();
    more(&before, &lab.discarded(), HOLES * PIECE);
    lab.check();
}

/// A sweep is restarted, as a disk takes discards again, while one of its steps reads the catalog.
/// It begins anew, and does not continue behind that step.
#[test]
fn a_sweep_that_is_restarted_during_a_step_begins_anew() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.make_gone_and_table();
    lab.wait_until_all_is_discarded();
    // No other task sweeps.
    lab.world.hold_back("discards");
    lab.dismount();
    lab.mount();
    let group = lab.group();
    lab.wait_for("a step that still reads when the sweep is restarted", || {
        group.sweep();
        block_on(group.sweep_step()).expect("the catalog is read");
        assert!(group.sweeps_from().expect("there were extents") > 0);
        let mut step = std::pin::pin!(group.sweep_step());
        let reads = run_until(step.as_mut(), || true).is_none();
        if reads {
            group.sweep();
            block_on(step).expect("the catalog is read");
            assert_eq!(group.sweeps_from(), Some(0));
        }
        reads
    });
}
