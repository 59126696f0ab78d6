//! Files that grow: their length after the end of an engine, whatever its cause.

use super::*;
use crate::{extent::data::Data, files::store_times_of};
use plinth_format::Block;

const PAGE: usize = 8 << 10;
const PAGES: u64 = 8;

/// Makes a file of one page, and extends it page by page to all that its first piece holds. Returns
/// how many of the writes took a commit.
fn grow(lab: &Lab, name: &str) -> (Node, u64) {
    let node = lab.create_file(name);
    lab.write(node, 0, &pattern(0, PAGE));
    let catalog = &lab.group().catalog;
    let before = catalog.committed();
    for page in 1..PAGES {
        lab.write(node, page * PAGE as u64, &pattern(page, PAGE));
    }
    (node, catalog.committed().0 - before.0)
}

fn size_of(lab: &Lab, node: Node) -> u64 {
    block_on(lab.session().attributes(node)).expect("it is there").size
}

fn assert_whole(lab: &Lab, node: Node) {
    assert_eq!(size_of(lab, node), PAGES * PAGE as u64);
    let all: Vec<u8> = (0..PAGES).flat_map(|page| pattern(page, PAGE)).collect();
    assert!(lab.read(node, 0, all.len()) == all, "it holds what was written");
}

/// Whatever the length of the file: it holds its own bytes, or zeros where these were lost, sector
/// by sector.
fn assert_own(lab: &Lab, node: Node, place: &str) {
    let size = usize::try_from(size_of(lab, node)).expect("small");
    let all: Vec<u8> = (0..PAGES).flat_map(|page| pattern(page, PAGE)).collect();
    for (at, (found, own)) in lab.read(node, 0, size).chunks(512).zip(all.chunks(512)).enumerate() {
        assert!(found == own || found.iter().all(|byte| *byte == 0), "{place}: sector {at}");
    }
}

fn lab() -> Lab {
    Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"])
}

/// A write at a file's end fails: one mirror has it; the other, whose disk cannot be spared, does
/// not take it. When the file grows later, the bytes of that write are not returned.
#[test]
fn bytes_of_a_failed_write_beyond_the_end_of_a_file_are_not_read() {
    let lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B", "C", "D", "E"]);
    // The other file is on all disks when this one is truncated.
    let [_, node] = ["other", "table"].map(|name| {
        let node = lab.create_file(name);
        lab.write(node, 0, &pattern(1, 40 << 20));
        lab.sync(node);
        node
    });
    let (away, needed) = lab.leave_one_that_is_needed();
    let others = (0..5).filter(|other| ![away, needed].contains(other));
    let mut extents = others.flat_map(|other| lab.extents_on(&[needed, other]));
    // The other mirror is written before it.
    let extent = extents
        .find(|extent| extent.file == node && extent.mirrors()[1].disk.0 == needed)
        .expect("there is one");
    let end = extent.number * MIB + 4096;
    block_on(lab.session().change(node, Changes { size: Some(end), ..Changes::default() }))
        .expect("cut");
    let disk = usize::from(needed);
    let place = Data::offset(&lab.member(disk), extent.mirrors()[1], Block(1));
    lab.disks[disk].faults(|faults| faults.worn.push(place..place + 8192));
    block_on(lab.session().write(node, end, &pattern(2, 8192), false))
        .expect_err("one mirror does not take it");
    lab.disks[disk].heal();
    lab.write(node, end + 40_000, b"it grows");
    assert!(lab.read(node, end, 40_000).iter().all(|byte| *byte == 0));
}

#[test]
fn a_file_grows_without_a_commit_and_a_kill_loses_nothing_of_it() {
    let mut lab = lab();
    let fewest = (0..5).map(|turn| grow(&lab, &format!("file{turn}")).1).min();
    // The caretaker stores sizes once a second, and may do so just now.
    assert_eq!(fewest, Some(0), "a write that only makes a file longer is no commit");
    let node = lab.find("file4");
    lab.kill();
    lab.mount();
    assert_whole(&lab, node);
    // The next mount has words of its own.
    lab.kill();
    lab.mount();
    assert_whole(&lab, node);
    lab.check();
    lab.dismount();
    lab.mount();
    assert_whole(&lab, node);
}

#[test]
fn a_loss_of_power_loses_only_what_was_not_synced() {
    let mut lab = lab();
    let (synced, _) = grow(&lab, "synced");
    lab.sync(synced);
    let (other, _) = grow(&lab, "other");
    block_on(lab.session().sync_directory(ROOT)).expect("synced");
    lab.cut_power(7);
    lab.mount();
    assert_whole(&lab, synced);
    assert_own(&lab, other, "");
    lab.check();
}

#[test]
fn a_truncated_file_stays_truncated_after_a_kill() {
    let mut lab = lab();
    let (node, _) = grow(&lab, "file");
    let cut = Changes { size: Some(5), ..Changes::default() };
    block_on(lab.session().change(node, cut)).expect("it is cut");
    lab.kill();
    lab.mount();
    assert_eq!(size_of(&lab, node), 5);
    lab.write(node, 5, b"more");
    lab.kill();
    lab.mount();
    assert_eq!((size_of(&lab, node), &lab.read(node, 5, 10)[..]), (9, &b"more"[..]));
}

#[test]
fn a_query_shows_the_length_of_a_file_that_grows() {
    let lab = lab();
    let shown = || {
        let rows =
            block_on(lab.group().query("SELECT count(*) FROM v$asm_file WHERE bytes = 65536"))
                .expect("asked");
        format!("{:?}", rows.rows)
    };
    let before = shown();
    let several: Vec<String> =
        (0..5).map(|turn| grow(&lab, &format!("file{turn}"))).map(|_| shown()).collect();
    assert!(several.iter().all(|now| *now != before), "{before}, {several:?}");
    assert!(several.windows(2).all(|pair| pair[0] != pair[1]), "{several:?}");
}

/// A task has stored a size, and reports it only after the file was truncated and grew again: the
/// later growth is not discarded.
#[test]
fn growth_after_a_truncation_outlives_a_late_report_of_an_older_size() {
    let mut lab = lab();
    let (node, _) = grow(&lab, "file");
    let files = Arc::clone(&lab.group().files);
    let file = block_on(files.get(node)).expect("it is there");
    let late = {
        let (file, files) = (Arc::clone(&file), Arc::clone(&files));
        let job = move |connection: &rusqlite::Connection| {
            // Once more, in case the caretaker has stored it just now.
            file.touch(1);
            Ok(store_times_of(connection, &file, files.next_commit())?)
        };
        block_on(lab.group().catalog.release(false, job))
            .expect("stored")
            .0
            .expect("there was something")
    };
    let kept = (0..20).any(|_| {
        let cut = Changes { size: Some(PAGE as u64), ..Changes::default() };
        block_on(lab.session().change(node, cut)).expect("it is cut");
        lab.write(node, PAGE as u64, &pattern(1, PAGE));
        file.has_grown()
    });
    assert!(kept, "its growth is kept, and not stored yet");
    files.sizes().let_go(&file, late);
    drop((file, files));
    lab.kill();
    lab.mount();
    assert_eq!(size_of(&lab, node), 2 * PAGE as u64);
}

/// Words that an earlier mount left do not count any more, whatever happened to the files since.
#[test]
fn words_of_an_earlier_mount_do_not_count() {
    let mut lab = lab();
    let (node, _) = grow(&lab, "file");
    lab.kill();
    // This host has no such words: the file is as long as the catalog says.
    let elsewhere = TestWorld::new();
    elsewhere.take_boot_of(&lab.world);
    lab.disks.iter().for_each(|disk| elsewhere.attach(disk));
    let here = std::mem::replace(&mut lab.world, elsewhere);
    lab.mount();
    let cut = Changes { size: Some(5), ..Changes::default() };
    block_on(lab.session().change(node, cut)).expect("it is cut");
    lab.kill();
    lab.world = here;
    lab.mount();
    assert_eq!(size_of(&lab, node), 5);
}
