//! Disks whose thin pool is full: writes wait, or fail with `ENOSPC`; nothing acknowledged is lost,
//! the message names the disk, and everything goes on when there is room. `disk/full.rs`.

use super::{silence::Healed, *};
use crate::{catalog::on_disks, error::no_room, event::Severity, membership::voters::Refusal};
use plinth_format::DiskNumber;

impl Lab {
    /// From now on no write to these disks finds room, wherever it goes.
    fn fill_pools(&self, disks: &[usize]) {
        for disk in disks {
            self.disks[*disk].faults(|faults| faults.no_room.push(0..u64::MAX));
        }
    }

    fn empty(&self) {
        self.disks.iter().for_each(|disk| disk.faults(|faults| faults.no_room.clear()));
    }

    fn alarmed_of(&self, disk: &str) -> bool {
        self.world.events().iter().any(|event| {
            event.severity == Severity::Alarm
                && event.text.contains(disk)
                && event.text.contains("no room is left in the storage below /disk")
        })
    }
}

/// The only disk has no room for anything, the engine's own writes included: files and names wait,
/// reads go on, and the group is as good as before when there is room.
#[test]
fn everything_waits_while_the_only_disk_has_no_room() {
    let lab = Lab::new(Redundancy::External, 128 * MIB, &["A"]);
    let [node, grows] = ["old", "grows"].map(|name| lab.create_file(name));
    lab.write(node, 0, &pattern(1, 3_000_000));
    lab.sync(node);
    lab.fill_pools(&[0]);
    std::thread::scope(|scope| {
        let _healed = Healed(&lab);
        scope.spawn(|| block_on(lab.group().voters.restamp(false)));
        let writes = [
            scope.spawn(|| lab.write(node, 1_000_000, &pattern(2, 100_000))),
            scope.spawn(|| lab.write(grows, 0, &pattern(3, 3_000_000))),
            scope.spawn(|| lab.sync(lab.create_file("new"))),
        ];
        lab.wait_for("the alarm", || lab.alarmed_of("disk DATA_0000"));
        // Longer than the disk timeout: by then a disk that could be spared would be OFFLINE.
        let patience = lab.member(0).room.patience();
        block_on(lab.world.sleep(patience * 2));
        assert!(!writes.iter().any(std::thread::ScopedJoinHandle::is_finished));
        assert_eq!(lab.state(0), DiskState::Online);
        assert_eq!(lab.rows("SELECT state FROM v$asm_disk"), [["FULL"]]);
        assert_eq!(lab.read(node, 0, 900_000), pattern(1, 3_000_000)[..900_000]);
        lab.empty();
        writes.into_iter().for_each(|write| write.join().expect("it goes on"));
    });
    assert_eq!(lab.read(node, 1_000_000, 100_000), pattern(2, 100_000));
    assert_eq!(lab.read(grows, 0, 3_000_000), pattern(3, 3_000_000));
    lab.wait_for("the end to be told", || lab.told("writes find room again"));
    lab.check();
}

/// A group is mounted after a crash while the catalog finds no room in its pool: the mount waits,
/// says for what, and goes on when there is room.
#[test]
fn a_mount_that_finds_no_room_says_so_and_waits() {
    let mut lab = Lab::new(Redundancy::External, 128 * MIB, &["A"]);
    let node = lab.create_file("old");
    lab.write(node, 0, &pattern(1, 3_000_000));
    lab.sync(node);
    let layout = lab.member(0).layout();
    let catalog: Vec<_> = on_disks::units(&lab.group().voters.current())
        .into_iter()
        .map(|(_, au)| layout.au_bytes(au, 1))
        .collect();
    lab.kill();
    lab.no_fuse();
    lab.disks[0].faults(|faults| faults.no_room = catalog);
    let world = lab.world();
    std::thread::scope(|scope| {
        let _healed = Healed(&lab);
        let mount = scope.spawn(|| block_on(Group::mount(world, "DATA", false)));
        lab.wait_for("the alarm", || lab.alarmed_of("disk DATA_0000"));
        assert!(!mount.is_finished());
        lab.empty();
        let group = mount.join().expect("it goes on").expect("it mounts");
        lab.wait_for("the end to be told", || lab.told("writes find room again"));
        block_on(group.dismount(false)).expect("it dismounts");
    });
    lab.mount();
    assert_eq!(lab.read(node, 0, 3_000_000), pattern(1, 3_000_000));
    lab.check();
}

/// A program's write does not wait for ever: it gets `ENOSPC`, and the bytes from before are there.
#[test]
fn a_write_that_finds_no_room_for_long_fails_with_enospc() {
    let lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B"]);
    lab.set("disk_full_wait", "2");
    let node = lab.create_file("old");
    lab.write(node, 0, &pattern(1, 3_000_000));
    lab.sync(node);
    lab.close_regions();
    // Their records and the catalog have their space: only data lacks room.
    let data: Vec<_> = lab.extents_on(&[0, 1]).iter().flat_map(|extent| extent.mirrors()).collect();
    for (disk, member) in lab.group().members.values().enumerate() {
        let here = data.iter().filter(|mirror| mirror.disk == member.number);
        let ranges = here.map(|mirror| {
            let offset = member.layout().au_offset(mirror.au);
            offset..offset + MIB
        });
        lab.disks[disk].faults(|faults| faults.no_room = ranges.collect());
    }
    let refused = block_on(lab.session().write(node, 0, &pattern(2, 100_000), false));
    let error = refused.expect_err("there is no room");
    assert_eq!(error.errno(), libc::ENOSPC, "{error}");
    assert!(error.to_string().contains("the storage below /disk"), "{error}");
    assert_eq!([lab.state(0), lab.state(1)], [DiskState::Online; 2], "both are full");
    assert_eq!(lab.read(node, 0, 3_000_000), pattern(1, 3_000_000));
    lab.sync(node);
    lab.empty();
    lab.write(node, 0, &pattern(2, 100_000));
    assert_eq!(lab.read(node, 0, 100_000), pattern(2, 100_000));
    lab.check();
}

/// The pool is full: the checksums of the last writes find no room there either, and wait. A file
/// is removed, and its space goes back all the same: that makes the room.
#[test]
fn a_removed_file_makes_room_while_the_engine_itself_waits_for_room() {
    let lab = Lab::new(Redundancy::External, 128 * MIB, &["A"]);
    let [kept, gone] = ["kept", "gone"].map(|name| lab.create_file(name));
    for node in [kept, gone] {
        lab.write(node, 0, &pattern(1, 3_000_000));
        lab.sync(node);
    }
    lab.wait_until_all_is_discarded();
    let member = lab.member(0);
    let extents = lab.extents_on(&[0]);
    let mirrors = extents.iter().flat_map(|extent| extent.mirrors());
    let sums: Vec<_> = mirrors
        .map(|mirror| {
            let (offset, _) = member.layout().sums_of(mirror.au);
            offset..offset + 1
        })
        .collect();
    let before = lab.disks[0].counts().bytes_discarded;
    {
        let _healed = Healed(&lab);
        lab.disks[0].faults(|faults| faults.no_room = sums);
        // The caretaker closes the idle regions.
        lab.wait_for("checksums that find no room", || member.room.is_short());
        block_on(lab.session().unlink(ROOT, b"gone")).expect("it is removed");
        lab.wait_for("the space of the file", || {
            lab.disks[0].counts().bytes_discarded >= before + (2 << 20)
        });
        assert!(member.room.is_short(), "the checksums of the other file still wait");
    }
    lab.empty();
    lab.wait_for("the regions to be closed", || lab.group().activity.regions().is_empty());
    assert_eq!(lab.read(kept, 0, 3_000_000), pattern(1, 3_000_000));
    lab.check();
}

/// Both disks take their space from one pool, and one is the first to find no room: it does not go
/// OFFLINE for the other, which is next.
#[test]
fn a_full_disk_does_not_go_offline_for_another_one_on_its_pool() {
    let lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("old");
    lab.write(node, 0, &pattern(1, 3_000_000));
    lab.sync(node);
    for disk in &lab.disks {
        disk.faults(|faults| faults.pool = Some("one".to_owned()));
    }
    let expelled = |disk: u16| {
        let reason = || lab.member(usize::from(disk)).room.is_short();
        lab.wait_for("a write that finds no room", reason);
        block_on(lab.group().voters.expel(DiskNumber(disk), &no_room("it").to_string(), false))
    };
    std::thread::scope(|scope| {
        let _healed = Healed(&lab);
        lab.fill_pools(&[1]);
        let write = scope.spawn(|| lab.write(node, 0, &pattern(2, 3_000_000)));
        assert_eq!(expelled(1), Err(Refusal::WouldLoseData));
        let patience = lab.member(1).room.patience();
        block_on(lab.world.sleep(patience * 2));
        assert_eq!(lab.state(1), DiskState::Online);
        lab.empty();
        write.join().expect("it goes on");
    });
    // The others on pools of their own: it goes.
    for (disk, pool) in lab.disks.iter().zip(["one", "two", "three"]) {
        disk.faults(|faults| faults.pool = Some(pool.to_owned()));
    }
    lab.fill_pools(&[1]);
    lab.write(node, 0, &pattern(3, 3_000_000));
    assert_eq!(lab.state(1), DiskState::Offline);
    assert_eq!(lab.read(node, 0, 3_000_000), pattern(3, 3_000_000));
    lab.empty();
    lab.check();
}

/// One of two disks has no room: the other goes on alone, for the catalog and the activity log too.
/// The full one is to come back by itself, even where the next engine is the one to do it.
#[test]
fn a_full_disk_that_can_be_spared_goes_offline_until_there_is_room() {
    let mut lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B"]);
    let node = lab.create_file("old");
    lab.write(node, 0, &pattern(1, 3_000_000));
    lab.sync(node);
    lab.fill_pools(&[1]);
    lab.write(node, 1_000_000, &pattern(2, 3_000_000));
    lab.sync(lab.create_file("new"));
    assert_eq!([lab.state(0), lab.state(1)], [DiskState::Online, DiskState::Offline]);
    assert!(lab.told("disk DATA_0001 in failure group B is offline: "));
    assert!(lab.told("no room is left in the storage below /disk1"));
    let entry = lab.group().voters.current().disks[1].clone();
    assert!(entry.absent && !entry.by_operator);
    assert!(lab.member(1).room.was_reason());
    lab.empty();
    lab.kill();
    lab.no_fuse();
    lab.mount();
    lab.wait_for("it is back", || lab.state(1) == DiskState::Online);
    assert_eq!(lab.read(node, 1_000_000, 3_000_000), pattern(2, 3_000_000));
    lab.check();
}
