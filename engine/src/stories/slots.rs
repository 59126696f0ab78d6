//! Small files and their slots, when other work takes long in between.

use super::*;
use crate::api::Allocate;
use crate::sync::transfer::Source;
use std::sync::mpsc::channel;

/// A reader still reads a small file when it is removed: its slot is not given to another file
/// until the read has ended, because it would return that file's bytes. Later reads and writes find
/// nothing.
#[test]
fn a_slot_is_not_reused_while_its_removed_file_is_read() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let (gone, other) = (lab.create_file("gone"), lab.create_file("other"));
    lab.write(gone, 0, &pattern(1, 8000));
    lab.write(other, 0, &pattern(2, 8000));
    lab.sync(gone);
    let group = lab.group();
    let file = block_on(group.files.get(gone)).expect("it is there");
    let reading = block_on(file.data.layout.read());
    let slot = reading.slot.clone().expect("it is small");
    let is_free = || {
        let free = group.slots().free();
        (0..free)
            .filter_map(|_| group.slots().take())
            .any(|free| free == (slot.extent.id, slot.piece))
    };
    block_on(lab.session().unlink(ROOT, b"gone")).expect("it is removed");
    block_on(group.reclaim(true)).expect("what can be freed is");
    assert!(!is_free(), "a reader reads there");
    drop(reading);
    assert!(block_on(group.reclaim(true)).expect("what can be freed is"), "the slot");
    assert!(is_free());
    let now = group.world.monotonic();
    if let Ok(read) = block_on(group.read_file(now, &file, 0, 8000)) {
        assert!(
            read.slices().flatten().all(|byte| *byte == 0),
            "not what another file has there by now"
        );
    }
    let late =
        block_on(group.write_file(now, &file, 100, &Source::from(&[7; 100][..]), false, false))
            .expect_err("it is gone");
    assert!(matches!(late, FileError::Stale(_)), "{late}");
    assert_eq!(lab.read(other, 0, 8000), pattern(2, 8000));
}

/// A write to a file that was removed gives it no space, neither a slot nor extents: that space
/// would never be freed.
#[test]
fn a_removed_file_gets_no_space() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let group = lab.group();
    let now = group.world.monotonic();
    for (name, before, at) in [
        ("none", 0, 0),
        ("slot", 5000, 70_000),
        ("extents", 2 << 20, 3 << 20),
        ("hole", 0, 5 << 20),
    ] {
        let node = lab.create_file(name);
        if before > 0 {
            lab.write(node, 0, &pattern(1, before));
        }
        let file = block_on(group.files.get(node)).expect("it is there");
        block_on(lab.session().unlink(ROOT, name.as_bytes())).expect("it is removed");
        // One of these files has the slot now.
        let others: Vec<Node> =
            (0..20).map(|other| lab.create_file(&format!("{name}{other}"))).collect();
        lab.wait_until_all_is_discarded();
        others.iter().for_each(|other| lab.write(*other, 0, &pattern(3, 9000)));
        let late =
            block_on(group.write_file(now, &file, at, &Source::from(&[7; 100][..]), false, false));
        assert!(matches!(late, Err(FileError::Stale(_))), "{name}: {late:?}");
        assert!(others.iter().all(|other| lab.read(*other, 0, 9000) == pattern(3, 9000)), "{name}");
        let reserve = Allocate::Reserve { keep_size: true };
        assert!(block_on(lab.session().allocate(node, at, 3 << 20, reserve, false)).is_err());
    }
    lab.check();
}

/// A small file is removed while its first bytes are written. The next file in its slot reads none
/// of these bytes.
#[test]
fn a_slot_is_empty_for_its_next_file() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let group = lab.group();
    let gone = lab.create_file("gone");
    let reserve = Allocate::Reserve { keep_size: true };
    block_on(lab.session().allocate(gone, 0, 60_000, reserve, false)).expect("it has a slot");
    let file = block_on(group.files.get(gone)).expect("it is there");
    let (begun, is_begun) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let (removed, written) = std::thread::scope(|scope| {
        scope.spawn(move || {
            block_on(group.catalog.release(false, move |_| {
                begun.send(()).expect("the story waits");
                may_go_on.recv().map_err(|_| FileError::Dismounted)
            }))
        });
        is_begun.recv().expect("the job runs");
        let removing = scope.spawn(|| block_on(lab.session().unlink(ROOT, b"gone")));
        std::thread::sleep(Duration::from_millis(200));
        let writing = scope.spawn(|| {
            let now = group.world.monotonic();
            block_on(group.write_file(now, &file, 0, &Source::from(&[7; 60_000][..]), false, false))
        });
        std::thread::sleep(Duration::from_millis(200));
        go_on.send(()).expect("the job waits");
        (removing.join().expect("no panic"), writing.join().expect("no panic"))
    });
    removed.expect("it is removed");
    assert!(matches!(written, Err(FileError::Stale(_))), "{written:?}");
    block_on(group.reclaim(true)).expect("what can be freed is");
    let next = lab.create_file("next");
    lab.write(next, 0, &[1; 100]);
    let longer = Changes { size: Some(60_000), ..Changes::default() };
    block_on(lab.session().change(next, longer)).expect("it is longer");
    let mut bytes = vec![0; 60_000];
    bytes[..100].fill(1);
    assert!(lab.read(next, 0, 60_000) == bytes, "another file's bytes");
    lab.check();
}

/// A small file grows out of its slot, and the commit takes longer than regions stay open: its
/// checksums are written all the same.
#[test]
fn checksums_are_written_when_growing_out_of_a_slot_takes_long() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 60_000));
    lab.sync(node);
    // The catalog commits nothing until the story allows it.
    let (begun, is_begun) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let group = Arc::clone(lab.group());
    let holding = std::thread::spawn(move || {
        block_on(group.catalog.release(false, move |_| {
            begun.send(()).expect("the story waits");
            may_go_on.recv().map_err(|_| FileError::Dismounted)
        }))
    });
    is_begun.recv().expect("the job runs");
    let written = lab.disks.iter().map(|disk| disk.counts().bytes_written).max().expect("two");
    let session = lab.session();
    let growing = std::thread::spawn(move || {
        block_on(session.allocate(node, 0, 100_000, Allocate::Reserve { keep_size: true }, false))
    });
    lab.wait_for("the copy", || lab.disks.iter().any(|disk| disk.counts().bytes_written > written));
    for _ in 0..50 {
        block_on(lab.group().close_idle(true)).expect("unused regions are closed");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    go_on.send(()).expect("the job waits");
    holding.join().expect("no panic").expect("it is committed");
    growing.join().expect("no panic").expect("it has more space");
    block_on(lab.session().sync_directory(ROOT)).expect("the commit is durable");
    lab.kill();
    lab.mount();
    let node = lab.find("table");
    assert_eq!(lab.read(node, 0, 60_000), pattern(1, 60_000));
    lab.check();
}

/// A small file cannot grow, because its slot cannot be read. The extent that was allocated for it
/// is freed: several tries take no space.
#[test]
fn a_failed_growth_of_a_small_file_takes_no_space() {
    let lab = Lab::new(Redundancy::External, 64 * MIB, &["A"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 60_000));
    lab.sync(node);
    lab.close_regions();
    let group = lab.group();
    let file = block_on(group.files.get(node)).expect("it is there");
    let slot = block_on(file.data.layout.read()).slot.clone().expect("it is small");
    let first = lab.member(0).layout().au_offset(slot.extent.mirrors()[0].au) + slot.piece.offset();
    lab.wait_until_all_is_discarded();
    let used = || group.space().used(lab.member(0).number);
    let before = used();
    lab.disks[0].faults(|faults| faults.bad.push(first..first + 4096));
    for _ in 0..3 {
        let grown = block_on(lab.session().write(node, 65_000, &[7; 5000], false));
        assert!(grown.is_err(), "its first bytes cannot be read");
    }
    block_on(group.reclaim(true)).expect("what can be freed is");
    assert_eq!(used(), before);
    lab.disks[0].heal();
    lab.write(node, 65_000, &[7; 5000]);
    assert_eq!(lab.read(node, 0, 60_000), pattern(1, 60_000));
    lab.check();
}
