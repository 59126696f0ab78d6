//! Space that was never given back: estimated, and given back while the group is used.

use plinth_tests::{Blocks, Instance, MIB, Row, bytes, wait_for};
use std::{
    fs,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

const SIZE: u64 = 192 * MIB;

/// A group whose disks were copied in full, with a file, and the space of another one that is gone.
fn never_given_back(instance: &Instance, disks: &[&Path]) -> (PathBuf, Blocks) {
    for (number, disk) in (1..).zip(disks) {
        noise_all_over(disk, number);
    }
    kept_and_gone(instance)
}

/// A group with a file, and the space of another one that is gone.
fn kept_and_gone(instance: &Instance) -> (PathBuf, Blocks) {
    let attributes = "'au_size' = '1M', 'thin_provisioned' = 'false'";
    instance.create_group("data", "NORMAL", &[&[SIZE], &[SIZE]], attributes);
    let mount = instance.mount("DATA");
    let kept = Blocks::new(mount.join("kept"), 2, 10_000);
    let free = || instance.number("SELECT min(free_mb) FROM v$asm_disk");
    let before = free();
    let _ = Blocks::new(mount.join("gone"), 1, 10_000);
    fs::remove_file(mount.join("gone")).expect("remove");
    wait_for("the space to be free again", || free() >= before - 8.0);
    (mount, kept)
}

/// Fills a disk with bytes that are not zero.
fn noise_all_over(disk: &Path, seed: u64) {
    let file = fs::File::options().write(true).open(disk).expect("open");
    let mut state = seed;
    for offset in (0..SIZE).step_by(1 << 20) {
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u8 | 1
        };
        let bytes: Vec<u8> = (0..1 << 20).map(next).collect();
        file.write_all_at(&bytes, offset).expect("write");
    }
    file.sync_all().expect("sync");
}

/// The space of the files, as `du` shows it, in bytes.
fn du(files: &[PathBuf]) -> f64 {
    let blocks = files.iter().map(|file| fs::metadata(file).expect("metadata").blocks());
    (blocks.sum::<u64>() * 512) as f64
}

/// A number in the last row of an estimate, `TOTAL`, in bytes.
fn total(estimate: &[Row], column: &str) -> f64 {
    let value = &estimate.last().expect("a row")[column];
    value.as_f64().unwrap_or_else(|| panic!("{column}: {value}")) * MIB as f64
}

fn estimate(instance: &Instance) -> Vec<Row> {
    instance.query("EXPLAIN WORK FOR ALTER DISKGROUP data RECLAIM")
}

#[track_caller]
fn assert_close(found: f64, expected: f64) {
    let apart = (found - expected).abs() / expected;
    assert!(apart <= 0.02, "{found} and {expected} are {:.1} % apart", apart * 100.0);
}

/// Writes blocks of a file anew until it is told to end. Returns how often.
fn write_until(file: &Path, block: &[u8], is_over: &AtomicBool) -> u64 {
    let file = fs::File::options().write(true).open(file).expect("open");
    let mut written = 0;
    while !is_over.load(Ordering::Relaxed) {
        file.write_all_at(block, written * 7 % 500 * 4096).expect("write");
        file.sync_data().expect("sync");
        written += 1;
    }
    written
}

/// Two disks that hold every byte of their size. While a file is written, the engine is killed
/// three times on the way, and once the space has gone back, `du` shows what the estimate said.
/// There is no moment at which the group looks full.
#[test]
fn what_was_never_given_back_goes_back_through_three_kills() {
    let instance = Instance::new();
    let disks = [instance.add_disk("f0d0", SIZE), instance.add_disk("f1d0", SIZE)];
    let (mount, kept) = never_given_back(&instance, &[&disks[0], &disks[1]]);
    let busy = mount.join("busy");
    fs::write(&busy, vec![1; 4 << 20]).expect("write");
    fs::File::open(&busy).and_then(|file| file.sync_all()).expect("sync");
    let before = estimate(&instance);
    assert_close(du(&disks), total(&before, "allocated_mb"));
    assert!(total(&before, "returned_mb") > 0.5 * du(&disks), "{before:?}");
    let free = || instance.try_query("SELECT min(free_mb) AS free FROM v$asm_disk");
    let free = || free()?.first()?["free"].as_f64();
    let (least, is_over) = (free().expect("an answer"), AtomicBool::new(false));
    thread::scope(|scope| {
        let writer = scope.spawn(|| write_until(&busy, &[9; 4096], &is_over));
        let state = "SELECT sofar FROM v$asm_operation WHERE operation = 'RECLAIM'";
        for _ in 0..3 {
            wait_for("a reclaim on its way", || {
                let running = instance.try_query(state);
                if running.as_ref().is_some_and(Vec::is_empty) {
                    // The last one was faster than this test.
                    instance.sql("ALTER DISKGROUP data RECLAIM NOWAIT");
                }
                free().is_none_or(|free| free >= least - 16.0)
                    && running.is_some_and(|rows| {
                        rows.first().is_some_and(|row| row["sofar"].as_f64() > Some(0.0))
                    })
            });
            instance.kill_engine("DATA");
        }
        let said = instance.plinth(["reclaim", "data"]).ok();
        assert!(said.contains("TOTAL"), "{said}");
        assert!(free().is_some_and(|free| free >= least - 16.0));
        is_over.store(true, Ordering::Relaxed);
        assert!(writer.join().expect("it writes") > 0);
    });
    assert_close(du(&disks), total(&before, "after_mb"));
    assert_close(du(&disks), total(&estimate(&instance), "allocated_mb"));
    assert!(instance.alert_log().contains("reclaim ended"));
    kept.must_read_right();
    assert_eq!(fs::read(&busy).expect("read").len(), 4 << 20);
    instance.check("DATA");
}

/// Of sparse disks, a file and a loop device, the metadata that were never written take no space
/// now, nor after the reclaim.
#[test]
fn the_estimate_of_sparse_disks_counts_only_metadata_that_were_written() {
    let mut instance = Instance::new();
    let disks = [instance.add_disk("f0d0", SIZE), {
        instance.add_loop_disk("f1d0", SIZE, 512);
        instance.path("parts").join("f1d0")
    }];
    let (_, kept) = kept_and_gone(&instance);
    instance.quiesce("DATA");
    let before = estimate(&instance);
    assert_close(du(&disks), total(&before, "allocated_mb"));
    let more = total(&before, "used_mb") + total(&before, "metadata_mb");
    assert!(total(&before, "after_mb") < 0.9 * more, "metadata without space: {before:?}");
    instance.sql("ALTER DISKGROUP data RECLAIM POWER 100 WAIT");
    instance.quiesce("DATA");
    assert_close(du(&disks), total(&before, "after_mb"));
    kept.must_read_right();
}

/// The same on block devices, with zeros: what is free reads as zeros, nothing else does. STOP ends
/// it; it begins anew after that.
#[test]
fn zeroes_are_written_over_what_is_free() {
    let mut instance = Instance::new();
    let disks =
        [instance.add_loop_disk("f0d0", SIZE, 512), instance.add_loop_disk("f1d0", SIZE, 512)];
    let (_, kept) = never_given_back(&instance, &[&disks[0], &disks[1]]);
    let before = estimate(&instance);
    instance.sql("ALTER DISKGROUP data RECLAIM ZERO");
    let refused = instance.refused("ALTER DISKGROUP data RECLAIM ZERO POWER 0");
    assert!(refused.contains("ALTER DISKGROUP DATA RECLAIM STOP ends it"), "{refused}");
    instance.sql("ALTER DISKGROUP data RECLAIM STOP");
    instance.plinth(["reclaim", "--stop", "data"]).ok();
    wait_for("its end", || instance.query("SELECT * FROM v$asm_operation").is_empty());
    instance.sql("ALTER DISKGROUP data RECLAIM ZERO POWER 100 WAIT");
    instance.quiesce("DATA");
    const PIECE: usize = 64 << 10;
    let used = disks.iter().map(|disk| {
        let has_data = |offset: &u64| bytes(disk, *offset, PIECE).iter().any(|byte| *byte != 0);
        ((0..SIZE).step_by(PIECE).filter(has_data).count() * PIECE) as f64
    });
    // Of the catalog some blocks are zero.
    let (used, most): (f64, _) = (used.sum(), total(&before, "after_mb"));
    assert!(used <= most && used >= 0.9 * most, "{used} {most}");
    kept.must_read_right();
    instance.check("DATA");
    let refused = instance.refused("ALTER DISKGROUP data RECLAIM DISK nosuch");
    assert!(refused.contains("NOSUCH"), "{refused}");
}
