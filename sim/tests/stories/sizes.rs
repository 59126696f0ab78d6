//! Files that grow: their length after the end of an engine, whatever its cause.

use super::{
    lab::{End, cut_short_by},
    *,
};
use plinth_engine::api::RenameMode;
use std::sync::atomic::{AtomicBool, Ordering};

const PAGE: usize = 8 << 10;
const PAGES: u64 = 8;

fn size_of(lab: &Lab, node: Node) -> u64 {
    block_on(lab.session().attributes(node)).expect("it is there").size
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

/// More files grow than there are words for. Files that are removed, synced or left alone free
/// theirs.
#[test]
fn words_for_growing_files_are_freed() {
    let lab = lab();
    let files: Vec<Node> =
        (0..150).map(|number| lab.create_file(&format!("file{number}"))).collect();
    files.iter().for_each(|node| lab.write(*node, 0, b"1"));
    files.iter().for_each(|node| lab.write(*node, 1, b"2"));
    block_on(lab.session().sync_all()).expect("synced");
    let again: Vec<Node> = files.iter().copied().step_by(2).collect();
    again.iter().for_each(|node| lab.write(*node, 2, b"3"));
    lab.kill();
    lab.mount();
    for node in &files {
        let expected: &[u8] = if again.contains(node) { b"123" } else { b"12" };
        assert_eq!(lab.read(*node, 0, 10), expected);
    }
}

/// A file keeps its length until the commit that removes it is on the disks.
#[test]
fn a_file_keeps_its_length_when_its_replacement_is_cut_short() {
    static HAS_GROWN: AtomicBool = AtomicBool::new(false);
    let lab = lab();
    for name in ["file", "new"] {
        let node = lab.create_file(name);
        lab.write(node, 0, &pattern(0, PAGE));
        lab.sync(node);
    }
    block_on(lab.session().sync_directory(ROOT)).expect("synced");
    lab.dismount();
    cut_short_by(
        &[End::Kill],
        &lab,
        1,
        |doomed| {
            HAS_GROWN.store(false, Ordering::SeqCst);
            doomed.mount();
            let node = doomed.find("file");
            for page in 1..PAGES {
                doomed.write(node, page * PAGE as u64, &pattern(page, PAGE));
            }
            HAS_GROWN.store(true, Ordering::SeqCst);
            let session = doomed.session();
            block_on(session.rename((ROOT, b"new"), (ROOT, b"file"), RenameMode::Replace))
                .expect("it is replaced");
            doomed.dismount();
        },
        |heir, place| {
            heir.mount();
            let is_replaced = block_on(heir.session().lookup(ROOT, b"new")).is_err();
            if is_replaced {
                assert_eq!(size_of(heir, heir.find("file")), PAGE as u64, "{place}");
            } else if HAS_GROWN.load(Ordering::SeqCst) {
                assert_eq!(size_of(heir, heir.find("file")), PAGES * PAGE as u64, "{place}");
            }
            heir.dismount();
        },
    );
}

#[test]
fn a_growing_file_holds_its_own_bytes_or_zeros_when_its_growth_is_cut_short() {
    let lab = lab();
    let node = lab.create_file("file");
    lab.write(node, 0, &pattern(0, PAGE));
    lab.sync(node);
    block_on(lab.session().sync_directory(ROOT)).expect("synced");
    lab.dismount();
    // Not with torn sectors: a device that tears them may leave noise in what was not synced.
    cut_short_by(
        &[End::Kill, End::PowerCut],
        &lab,
        2,
        |doomed| {
            doomed.mount();
            let node = doomed.find("file");
            for page in 1..PAGES {
                doomed.write(node, page * PAGE as u64, &pattern(page, PAGE));
            }
            doomed.sync(node);
            let cut = Changes { size: Some(PAGE as u64), ..Changes::default() };
            block_on(doomed.session().change(node, cut)).expect("it is cut");
            doomed.write(node, PAGE as u64, &pattern(1, PAGE));
            doomed.dismount();
        },
        |heir, place| {
            heir.mount();
            let node = heir.find("file");
            let size = size_of(heir, node);
            assert!(size >= PAGE as u64 && size.is_multiple_of(PAGE as u64), "{place}: {size}");
            assert_own(heir, node, place);
            heir.check();
            heir.dismount();
        },
    );
}
