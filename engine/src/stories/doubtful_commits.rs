//! The catalog stops in the middle of a commit. The disks have the state before it or the one after
//! it, and only the next mount finds out which. Until then nothing may be done that is right for
//! only one of the two.

use super::*;
use crate::{api::Allocate, testing::Faults};
use std::sync::mpsc::channel;

/// Runs `work` in a thread, and has the commit of its job fail on the disks `failing`, which stops
/// the catalog. All other disks take the commit. The disks work again when this returns the result
/// of `work`.
fn in_a_commit_that_fails<T: Send + 'static>(
    lab: &Lab,
    failing: &[usize],
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let standstill = || {
        let (begun, is_begun) = channel();
        let (go_on, may_go_on) = channel::<()>();
        let group = Arc::clone(lab.group());
        let held = std::thread::spawn(move || {
            block_on(group.catalog.release(false, move |_| {
                begun.send(()).expect("the test waits for it");
                may_go_on.recv().map_err(|_| FileError::Dismounted)
            }))
        });
        (is_begun, go_on, held)
    };
    let waiting =
        |count: usize| lab.wait_for("the jobs", || lab.group().catalog.jobs_waiting() >= count);
    let (first_begun, end_first, first) = standstill();
    first_begun.recv().expect("the job runs");
    let working = std::thread::spawn(work);
    waiting(1);
    // This job runs behind it, in the same commit.
    let (second_begun, end_second, second) = standstill();
    waiting(2);
    end_first.send(()).expect("it waits");
    second_begun.recv().expect("the job runs");
    for disk in failing {
        lab.disks[*disk].faults(|faults| faults.fail_writes = true);
    }
    end_second.send(()).expect("it waits");
    let done = working.join().expect("no panic");
    first.join().expect("no panic").expect("it was committed before");
    second.join().expect("no panic").expect_err("the commit failed");
    for disk in failing {
        lab.disks[*disk].faults(|faults| *faults = Faults::default());
    }
    assert!(lab.group().failure().is_some());
    done
}

/// A group of two disks neither of which can be spared: each has files with one mirror, and a part
/// of the catalog.
fn lab() -> Lab {
    let lab = Lab::new(Redundancy::External, 64 * MIB, &["A", "B"]);
    for name in ["base0", "base1", "base2", "base3"] {
        let node = lab.create_file(name);
        lab.write(node, 0, &pattern(9, 100_000));
        lab.sync(node);
    }
    let has = |number: usize| {
        lab.group().space().used(lab.group().members.values().nth(number).expect("two").number)
    };
    assert!(has(0) > 0 && has(1) > 0);
    lab
}

/// Grows a file out of its slot, while the catalog stops in the middle of that commit, which
/// reaches only one of its mirrors.
fn grow_out_of_its_slot_in_doubt(lab: &Lab, node: Node) {
    let session = lab.session();
    let grow = move || {
        block_on(session.allocate(node, 0, 100_000, Allocate::Reserve { keep_size: true }, false))
    };
    let grown = in_a_commit_that_fails(lab, &[0], grow);
    assert!(matches!(grown, Err(FileError::CatalogStopped(_))), "{grown:?}");
}

fn has_grown_out_of_its_slot(lab: &Lab, node: Node) -> bool {
    let file = block_on(lab.group().files.get(node)).expect("it is there");
    let layout = block_on(lab.group().loaded_layout(&file)).expect("it is loaded");
    layout.slot.is_none() && !layout.extents.is_empty()
}

/// A small file grows out of its slot, and the catalog stops in the middle of the commit. Other
/// files that grow do not get its new AU, and it is not discarded: the next mount finds that it
/// belongs to the file.
#[test]
fn an_au_that_may_belong_to_a_file_is_not_given_out_or_discarded() {
    let mut lab = lab();
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 60_000));
    lab.sync(node);
    let others: Vec<Node> = (0..130)
        .map(|number| {
            let other = lab.create_file(&format!("other{number}"));
            lab.write(other, 0, &pattern(100 + number, 60_000));
            other
        })
        .collect();
    block_on(lab.session().sync_directory(ROOT)).expect("synced");
    grow_out_of_its_slot_in_doubt(&lab, node);
    for other in others {
        let reserve = Allocate::Reserve { keep_size: true };
        block_on(lab.session().allocate(other, 0, 100_000, reserve, false))
            .expect_err("the catalog has stopped");
    }
    let ticks = || lab.group().ticks.load(std::sync::atomic::Ordering::Relaxed);
    let now = ticks();
    lab.wait_for("discards, if there are any", || ticks() > now + 3);
    lab.kill();
    lab.mount();
    let node = lab.find("table");
    assert!(has_grown_out_of_its_slot(&lab, node), "the commit is on one of the disks");
    assert!(lab.read(node, 0, 60_000) == pattern(1, 60_000), "the bytes of another file");
    lab.check();
}

/// The same file is written and read after that, while the engine still runs. Acknowledged bytes
/// are there after the next mount, and no read returns zeros where there is data.
#[test]
fn writes_to_a_file_with_an_uncertain_layout_are_refused_or_kept() {
    let mut lab = lab();
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 60_000));
    lab.sync(node);
    let steady = lab.create_file("steady");
    lab.write(steady, 0, &pattern(3, 300_000));
    grow_out_of_its_slot_in_doubt(&lab, node);
    let write =
        |node: Node, at: u64| block_on(lab.session().write(node, at, &pattern(2, 8192), false));
    // A write of whole blocks, and one that is not.
    let acknowledged: Vec<u64> =
        [0, 20_001].into_iter().filter(|at| write(node, *at).is_ok()).collect();
    write(steady, 65_536).expect("a file without uncertain changes is written as before");
    let read = lab.try_read(node, 40_000, 1000);
    assert!(
        matches!(read, Err(FileError::CatalogStopped(_)))
            || read.is_ok_and(|read| read == pattern(1, 60_000)[40_000..41_000]),
        "zeros"
    );
    let hole = block_on(lab.session().seek(node, 0, Seek::Hole));
    assert!(
        hole.as_ref().is_ok_and(|at| *at == 60_000)
            || matches!(hole, Err(FileError::CatalogStopped(_))),
        "{hole:?}"
    );
    lab.kill();
    lab.mount();
    let node = lab.find("table");
    assert!(has_grown_out_of_its_slot(&lab, node), "the commit is on one of the disks");
    for at in &acknowledged {
        assert!(lab.read(node, *at, 8192) == pattern(2, 8192), "acknowledged at {at}, and gone");
    }
    assert_eq!(lab.read(lab.find("steady"), 65_536, 8192), pattern(2, 8192));
    lab.check();
}

/// The catalog stops in the middle of the commit that marks a piece's first data, and no disk has
/// that commit. A second write there is not acknowledged unless it is kept.
#[test]
fn a_write_to_a_piece_with_an_uncertain_mark_is_refused_or_kept() {
    let mut lab = lab();
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 400_000));
    block_on(lab.session().allocate(node, 65_536, 131_072, Allocate::PunchHole, false))
        .expect("a hole");
    lab.sync(node);
    let session = lab.session();
    let first = move || block_on(session.write(node, 65_536, &pattern(2, 8192), false));
    in_a_commit_that_fails(&lab, &[0, 1], first).expect_err("the catalog has stopped");
    let again = block_on(lab.session().write(node, 65_536, &pattern(3, 8192), false));
    lab.kill();
    lab.mount();
    let read = lab.read(lab.find("table"), 65_536, 8192);
    assert!(again.is_err() || read == pattern(3, 8192), "it was acknowledged, and is gone");
    assert!([pattern(2, 8192), pattern(3, 8192), vec![0; 8192]].contains(&read));
    lab.check();
}

/// A file is cut, and the catalog stops in the middle of the commit. Reads and writes behind the
/// new end report that, and not that the file is gone.
#[test]
fn io_behind_an_uncertain_truncation_reports_the_stopped_catalog() {
    let mut lab = lab();
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 3 << 20));
    lab.sync(node);
    let session = lab.session();
    let cut = move || {
        block_on(session.change(node, Changes { size: Some(100_000), ..Changes::default() }))
    };
    let cut = in_a_commit_that_fails(&lab, &[0], cut);
    assert!(matches!(cut, Err(FileError::CatalogStopped(_))), "{cut:?}");
    for at in [2 << 20, (2 << 20) + 1] {
        let written = block_on(lab.session().write(node, at, &pattern(2, 8192), false));
        assert!(matches!(written, Err(FileError::CatalogStopped(_))), "{written:?}");
        let read = lab.try_read(node, at, 8192);
        assert!(
            read.as_ref().is_ok_and(Vec::is_empty)
                || matches!(read, Err(FileError::CatalogStopped(_))),
            "{read:?}"
        );
    }
    lab.kill();
    lab.mount();
    assert!(lab.read(lab.find("table"), 0, 100_000) == pattern(1, 100_000));
    lab.check();
}
