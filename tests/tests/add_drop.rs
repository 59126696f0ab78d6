//! Disks that are added and dropped under a database.

use plinth_tests::{Blocks, GIB, Instance, MIB, Postgres, noise, scaled, shell, wait_for};
use std::{thread, time::Duration};

/// pgbench runs while a group moves from four disks to four others, in one statement. No
/// transaction fails, and when the statement has returned the old disks belong to no group: they
/// are overwritten, and nothing is missing.
#[test]
fn a_group_moves_to_other_disks_under_pgbench() {
    let instance = Instance::new();
    let size = scaled(GIB, 3 * GIB);
    instance.create_group("data", "NORMAL", &[&[size, size], &[size, size]], "");
    let mount = instance.mount("DATA");
    let postgres = Postgres::new(&mount, "pg");
    postgres.fill(scaled(3, 20));
    let bench = postgres.bench(8, scaled(24, 60));
    thread::sleep(Duration::from_secs(3));
    let held =
        instance.number("SELECT sum(total_mb - free_mb) FROM v$asm_disk WHERE group_number = 1");
    let new: Vec<String> = ["n0", "n1", "n2", "n3"]
        .map(|name| instance.add_disk(name, size).display().to_string())
        .into();
    let statement = format!(
        "ALTER DISKGROUP data ADD FAILGROUP n0 DISK '{}', '{}' FAILGROUP n1 DISK '{}', '{}'
         DROP DISKS IN FAILGROUP f0, f1 REBALANCE POWER 16 WAIT",
        new[0], new[1], new[2], new[3]
    );
    let [work, least, estimate] = explain(&instance, "all", &statement);
    assert_eq!(work, least, "every mirror leaves the old disks, and goes straight where it stays");
    instance.sql(&statement);
    let old = ["f0d0", "f0d1", "f1d0", "f1d1"].map(|name| instance.disk(name));
    for disk in &old {
        assert_eq!(instance.disk_row(disk)["header_status"], "FORMER");
        noise(disk, 0, 64 << 20);
    }
    let bench = bench.finish();
    bench.must_not_have_noticed();
    let bytes = instance.number("SELECT bytes FROM v$asm_operation_ended WHERE pass = 'REBALANCE'");
    let held = held * MIB as f64;
    assert!(
        bytes < held * 1.25,
        "{bytes} bytes were copied, of {held} that there were at the beginning"
    );
    println!("{bytes} bytes copied; estimated {estimate} at most; least possible {least} AUs");
    postgres.verify();
    postgres.stop_and_verify_pages();
    instance.check("DATA");
    assert_eq!(instance.number("SELECT count(*) FROM v$asm_disk WHERE group_number = 1"), 4.0);
}

/// ADD and DROP as two statements, while pgbench runs: when the second comes while the first is
/// carried out, both are one movement, which copies as much as one statement does. One after the
/// other, with a disk that replaces another, they copy 1.6 times as much.
#[test]
fn two_statements_are_one_movement() {
    let instance = Instance::new();
    let size = scaled(GIB, 3 * GIB);
    instance.create_group("data", "NORMAL", &[&[size], &[size], &[size], &[size]], "");
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("table"), 1, scaled(100_000, 400_000));
    let postgres = Postgres::new(&mount, "pg");
    postgres.fill(2);
    let bench = postgres.bench(4, scaled(30, 90));
    let old = ["f0", "f1", "f2", "f3"];
    let new = ["n0", "n1", "n2", "n3"];
    new.iter().for_each(|name| _ = instance.add_disk(name, size));
    let disk = |group: &str| {
        instance.disk(&if group.starts_with('f') { format!("{group}d0") } else { group.to_owned() })
    };
    let add = |groups: &[&str]| {
        let disks = groups
            .iter()
            .map(|group| format!(" FAILGROUP {group} DISK '{}'", disk(group).display()));
        format!("ADD{}", disks.collect::<String>())
    };
    let drop = |groups: &[&str]| format!("DROP DISKS IN FAILGROUP {}", groups.join(", "));
    let alter = |what: &str, how: &str| {
        instance.sql(&format!("ALTER DISKGROUP data {what} REBALANCE {how}"))
    };
    let bytes =
        || instance.number("SELECT bytes FROM v$asm_operation_ended WHERE pass = 'REBALANCE'");
    let least = |come: &[&str], go: &[&str], id: &str| {
        let statement = format!("ALTER DISKGROUP data {} {}", add(come), drop(go));
        let [work, least, bytes] = explain(&instance, id, &statement);
        println!("{id}: estimated {work} AUs, at least {least}: {bytes} bytes");
        assert!(work <= least * 1.02);
        bytes
    };
    // One statement; two that are one movement; two of which the second waits for the end of the
    // first.
    let together = |come: &[&str], go: &[&str]| {
        alter(&format!("{} {}", add(come), drop(go)), "POWER 32 WAIT");
        bytes()
    };
    let merged = |come: &[&str], go: &[&str]| {
        alter(&add(come), "POWER 1 NOWAIT");
        alter(&drop(go), "POWER 32 WAIT");
        bytes()
    };
    let apart = |come: &[&str], go: &[&str]| {
        alter(&add(come), "POWER 32 WAIT");
        let first = bytes();
        alter(&drop(go), "POWER 32 WAIT");
        first + bytes()
    };
    // pgbench makes more to move meanwhile: the bounds leave room for a fifth of what one statement
    // moves.
    for (case, come, go, factor) in [
        ("four for four", &new[..], &old[..], 0.9..1.2),
        ("one for one", &new[..1], &old[..1], 1.4..1.8),
    ] {
        let one = together(come, go);
        let expected = least(go, come, &format!("{case}, back"));
        let both = merged(go, come);
        let second = apart(come, go);
        alter(&format!("{} {}", add(go), drop(come)), "POWER 32 WAIT");
        println!(
            "{case}: one statement {one} bytes, two as one {both}, expected {expected}, apart {second}: {:.2} times as much",
            second / both
        );
        assert!(
            one <= expected * 1.02 && both <= expected * 1.2,
            "{one} and {both} bytes of {expected}"
        );
        assert!(factor.contains(&(second / both)), "{second} bytes, and {both} at once");
    }
    bench.finish().must_not_have_noticed();
    postgres.stop_and_verify_pages();
    blocks.must_read_right();
    instance.check("DATA");
}

/// The engine is killed thirty times while disks come and go: each time the rebalance goes on by
/// itself, and the writes to the disks are those of the same movement without a kill, those of a
/// mount, and those that were in flight.
#[test]
fn killed_during_a_rebalance() {
    const AU: u64 = 4 * MIB;
    const POWER: u64 = 2;
    let mut instance = Instance::new();
    let size = 3 * GIB;
    let disks = ["f0d0", "f1d0", "f2d0", "n0"].map(|name| instance.add_loop_disk(name, size, 512));
    instance.create_group("data", "NORMAL", &[&[0], &[0], &[0]], "");
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("table"), 1, 300_000);
    let written = || disks.iter().map(|disk| written_to(disk)).sum::<u64>();
    let device = |disk: usize| disks[disk].display().to_string();
    let exchange = |comes: usize, into: &str, goes: &str, wait: &str| {
        format!(
            "ALTER DISKGROUP data ADD FAILGROUP {into} DISK '{}' DROP DISKS IN FAILGROUP {goes} REBALANCE POWER {POWER} {wait}",
            device(comes)
        )
    };
    let killed_once = || {
        instance.kill_engine("DATA");
        wait_for("the next engine", || is_mounted(&instance));
    };
    // The writes without a kill, and the writes of a kill while nothing moves.
    let before = written();
    instance.sql(&exchange(3, "n", "f0", "WAIT"));
    let plain = written() - before;
    let before = written();
    (0..5).for_each(|_| killed_once());
    let mounted = (written() - before) / 5;

    let before = written();
    let (mut kills, mut movements) = (0, 0);
    let places = [(0, "f0", "n"), (3, "n", "f0")];
    let moving = || {
        instance.number(
            "SELECT count(*) FROM v$asm_operation WHERE pass = 'REBALANCE' AND state = 'RUN'",
        ) == 1.0
    };
    while kills < 30 {
        if !moving() {
            let (comes, into, goes) = places[movements % 2];
            instance.sql(&exchange(comes, into, goes, "NOWAIT"));
            movements += 1;
        }
        thread::sleep(Duration::from_millis(5 * (kills % 7)));
        if moving() {
            killed_once();
            kills += 1;
        }
    }
    wait_for("the end of the rebalance", || !moving());
    let (_, _, gone) = places[(movements - 1) % 2];
    let former = instance.disk_row(&disks[if gone == "n" { 3 } else { 0 }]);
    assert_eq!(former["header_status"], "FORMER");
    let all = written() - before;
    let expected = movements as u64 * plain + kills * (mounted + POWER * AU);
    println!(
        "{movements} movements and {kills} kills: {} MiB written; {} MiB by a movement without a kill, {mounted} bytes by a mount",
        all >> 20,
        plain >> 20
    );
    assert!(all <= expected + expected / 20, "{all} bytes were written, {expected} are explained");
    instance.mount_again("DATA");
    blocks.must_read_right();
    instance.check("DATA");
}

/// Bytes that were ever written to a loop device.
fn written_to(disk: &std::path::Path) -> u64 {
    let device = std::fs::canonicalize(disk).expect("a link to a device");
    let name = device.file_name().expect("it has a name").to_string_lossy().into_owned();
    let numbers =
        std::fs::read_to_string(format!("/sys/block/{name}/stat")).expect("the kernel counts");
    let sectors: u64 =
        numbers.split_whitespace().nth(6).expect("sectors written").parse().expect("a number");
    sectors * 512
}

/// A group under pgbench gets a third mirror of everything, loses two of the three, and gets one
/// back: no transaction fails, and what is copied is what was estimated. An engine that is killed
/// on the way is followed by one that goes on.
#[test]
fn the_redundancy_is_changed_under_pgbench() {
    let mut instance = Instance::new();
    ["f0d0", "f1d0", "f2d0"]
        .into_iter()
        .for_each(|name| _ = instance.add_loop_disk(name, scaled(GIB, 3 * GIB), 4096));
    instance.create_group("data", "NORMAL", &[&[0], &[0], &[0]], "");
    let mount = instance.mount("DATA");
    let postgres = Postgres::new(&mount, "pg");
    postgres.fill(scaled(2, 10));
    let bench = postgres.bench(4, scaled(24, 90));
    thread::sleep(Duration::from_secs(2));
    let kind = || instance.text("SELECT type FROM v$asm_diskgroup");
    for (to, shown) in [("HIGH", "HIGH"), ("EXTERNAL", "EXTERN"), ("NORMAL", "NORMAL")] {
        let statement =
            format!("ALTER DISKGROUP data CONVERT REDUNDANCY TO {to} REBALANCE POWER 16");
        let [_, _, estimate] = explain(&instance, to, &statement);
        instance.sql(&format!("{statement} WAIT"));
        let bytes =
            instance.number("SELECT bytes FROM v$asm_operation_ended WHERE pass = 'REBALANCE'");
        println!("to {to}: {bytes} bytes copied; estimated {estimate} at most");
        // Removing mirrors copies nothing but the last few that make the disks even.
        let least = if to == "EXTERNAL" { 0.0 } else { 100.0 * MIB as f64 };
        assert!(
            bytes <= estimate * 1.25 + 40.0 * MIB as f64 && estimate >= least,
            "{bytes} of {estimate}"
        );
        assert_eq!(kind(), shown);
    }
    bench.finish().must_not_have_noticed();
    // Two mirrors are two mirrors: either is enough.
    instance.sql("ALTER DISKGROUP data OFFLINE DISK data_0001");
    postgres.verify();
    instance.sql("ALTER DISKGROUP data ONLINE ALL WAIT");
    postgres.stop_and_verify_pages();
    instance.sql("ALTER DISKGROUP data CONVERT REDUNDANCY TO HIGH REBALANCE POWER 1 NOWAIT");
    instance.kill_engine("DATA");
    wait_for("the rest", || is_mounted(&instance) && kind() == "HIGH");
    instance.check("DATA");
    let refused = instance.refused("ALTER DISKGROUP data CONVERT REDUNDANCY TO FLEX");
    assert!(refused.contains("use EXTERNAL, NORMAL or HIGH"), "{refused}");
}

/// A disk is lost for good; another replaces it, and gets all its data.
#[test]
fn a_disk_is_replaced() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("table"), 1, 20_000);
    let new = instance.add_disk("n0", 256 * MIB).display().to_string();
    let replace = format!("ALTER DISKGROUP data REPLACE DISK data_0001 WITH '{new}' POWER 16 WAIT");
    let refused = instance.refused(&replace);
    assert!(refused.contains("is not OFFLINE"), "{refused}");
    instance.sql("ALTER DISKGROUP data OFFLINE DISK data_0001");
    instance.sql(&replace);
    assert_eq!(
        instance.number(
            "SELECT count(*) FROM v$asm_disk WHERE group_number = 1 AND name = 'DATA_0001' AND mode_status = 'ONLINE'"
        ),
        1.0
    );
    noise(&instance.disk("f1d0"), 0, 64 << 20);
    blocks.must_read_right();
    instance.check("DATA");
    instance.sql("ALTER DISKGROUP data OFFLINE DISK data_0000");
    instance.mount_again("DATA");
    blocks.must_read_right();
}

/// Devices are made larger under a group that is used, and it takes their space; then it gives up
/// more than half of that, and they are made smaller.
#[test]
fn devices_grow_and_shrink() {
    let mut instance = Instance::new();
    let devices = ["f0d0", "f1d0", "f2d0"].map(|name| instance.add_loop_disk(name, 256 * MIB, 512));
    instance.create_group("data", "NORMAL", &[&[0], &[0], &[0]], "");
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("table"), 1, 10_000);
    let cut = |size: u64| {
        let script = r#"truncate -s "$2" "$(losetup -nO BACK-FILE "$(realpath "$1")")"; losetup -c "$(realpath "$1")""#;
        devices.iter().for_each(|device| _ = shell(script).arg(device).arg(size.to_string()).ok());
    };
    let each = |what: &str| {
        let of = |least: &str| {
            instance
                .number(&format!("SELECT {least}({what}) FROM v$asm_disk WHERE group_number = 1"))
        };
        assert_eq!(of("min"), of("max"));
        of("min")
    };
    assert_eq!(each("os_mb"), 256.0);
    cut(GIB);
    let refused = instance.refused("ALTER DISKGROUP data RESIZE ALL SIZE 1025M");
    assert!(refused.contains("has 1073741824 bytes, SIZE says"), "{refused}");
    instance.sql("ALTER DISKGROUP data RESIZE ALL REBALANCE WAIT");
    assert_eq!(each("os_mb"), 1024.0);
    assert!(each("total_mb") > 1000.0);
    // Bytes that are written now lie behind the old end of the devices.
    let more = Blocks::new(mount.join("more"), 2, 40_000);
    let refused = instance.refused("ALTER DISKGROUP data RESIZE ALL SIZE 120M");
    assert!(refused.contains("does not fit on smaller disks"), "{refused}");
    drop(more);
    std::fs::remove_file(mount.join("more")).expect("removed");
    let late = Blocks::new(mount.join("late"), 3, 10_000);
    instance.sql("ALTER DISKGROUP data RESIZE DISK data_0000 SIZE 400M, data_0001 SIZE 400M REBALANCE POWER 4");
    instance.kill_engine("DATA");
    instance.mount_again("DATA");
    instance
        .sql("ALTER DISKGROUP data RESIZE DISKS IN FAILGROUP f2 SIZE 400M REBALANCE POWER 64 WAIT");
    wait_for("all three", || {
        instance.number("SELECT max(total_mb) FROM v$asm_disk WHERE group_number = 1") < 400.0
    });
    instance.check("DATA");
    instance.unmount(&mount);
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    cut(400 * MIB);
    instance.sql("ALTER DISKGROUP data MOUNT");
    instance.mount("DATA");
    blocks.must_read_right();
    late.must_read_right();
    instance.check("DATA");
}

/// A rebalance is paused, and goes on by command; a drop without another word returns when the disk
/// can be pulled.
#[test]
fn a_rebalance_by_command() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("table"), 1, 20_000);
    let new = instance.add_disk("n0", 256 * MIB);
    let statement = format!(
        "ALTER DISKGROUP data ADD FAILGROUP n DISK '{}' REBALANCE POWER 0 WAIT",
        new.display()
    );
    instance.sql(&statement);
    let state = || instance.text("SELECT state FROM v$asm_operation WHERE pass = 'REBALANCE'");
    assert_eq!(state(), "WAIT");
    for (arguments, says) in [
        (["rebal", "--power", "5000", "data"], "from 0 to 1024"),
        (["rebal", "--power", "5", "nosuch"], "NOSUCH"),
        (["rebal", "--power", "5", "data; DROP"], "cannot be the name of a disk group"),
    ] {
        let refused = instance.plinth(arguments);
        assert!(refused.code == Some(1) && refused.err.contains(says), "{refused}");
    }
    // On a terminal, so that there is a progress bar.
    let on_terminal = |command: &str| {
        let plinth = format!(
            "PLINTH_DIR='{}' '{}' {command}",
            instance.dir().display(),
            instance.program().display()
        );
        shell(r#"script -qec "$1" /dev/null"#).arg(plinth).ok()
    };
    on_terminal("rebal --power 64 -w data");
    assert_eq!(instance.number("SELECT count(*) FROM v$asm_operation"), 0.0);
    assert!(
        instance.number("SELECT bytes FROM v$asm_operation_ended WHERE pass = 'REBALANCE'")
            > 30.0 * MIB as f64
    );
    let said = on_terminal(r"sql -c 'ALTER DISKGROUP data DROP DISK data_0003'");
    assert!(said.contains("ALTER DISKGROUP"), "{said}");
    assert_eq!(instance.disk_row(&new)["header_status"], "FORMER");
    blocks.must_read_right();
    instance.check("DATA");
}

/// The AUs that a statement would move, and the least that is possible; and the first in bytes, at
/// most.
fn explain(instance: &Instance, id: &str, statement: &str) -> [f64; 3] {
    instance.sql(&format!("EXPLAIN WORK SET STATEMENT_ID = '{id}' FOR {statement}"));
    ["est_work", "least", "bytes"].map(|what| {
        instance.number(&format!("SELECT {what} FROM v$asm_estimate WHERE statement_id = '{id}'"))
    })
}

/// Whether the only group is there.
fn is_mounted(instance: &Instance) -> bool {
    instance.number("SELECT count(*) FROM v$asm_diskgroup WHERE state = 'MOUNTED'") == 1.0
}

/// Disks get other names while they are used, and an engine that is killed knows them by these.
#[test]
fn disks_are_renamed() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("table"), 1, 2_000);
    let name = |disk: &str| instance.disk_row(&instance.disk(disk))["name"].clone();
    instance.sql("ALTER DISKGROUP data RENAME DISK data_0000 TO shelf1, data_0001 TO data_0000");
    assert_eq!(
        (name("f0d0"), name("f1d0"), name("f2d0")),
        ("SHELF1".into(), "DATA_0000".into(), "DATA_0002".into())
    );
    let refused = instance.refused("ALTER DISKGROUP data RENAME DISK data_0002 TO shelf1");
    assert!(refused.contains("would have two disks SHELF1"), "{refused}");
    instance.sql("ALTER DISKGROUP data OFFLINE DISK shelf1 DROP AFTER 2 H");
    let timer = instance.number("SELECT repair_timer FROM v$asm_disk WHERE name = 'SHELF1'");
    assert!((7000.0..=7200.0).contains(&timer), "{timer}");
    let refused = instance.refused("ALTER DISKGROUP data RENAME DISKS ALL");
    assert!(refused.contains("SHELF1 of disk group DATA is not ONLINE"), "{refused}");
    instance.sql("ALTER DISKGROUP data ONLINE ALL WAIT");
    instance.kill_engine("DATA");
    wait_for("the next engine", || is_mounted(&instance));
    assert_eq!(name("f0d0"), "SHELF1");
    instance.sql("ALTER DISKGROUP data RENAME DISKS ALL");
    assert_eq!(name("f0d0"), "DATA_0000");
    blocks.must_read_right();
    instance.check("DATA");
}

/// A statement that cannot be carried out is refused, at its place and with a remedy, and changes
/// nothing.
#[test]
fn statements_that_cannot_be_carried_out_change_nothing() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let refused = instance.refused("ALTER DISKGROUP data DROP DISK DATA_0000");
    assert!(refused.contains("NotEnoughFailureGroups"), "{refused}");
    let refused = instance.refused("ALTER DISKGROUP data DROP DISK nobody");
    assert!(refused.contains("NoSuchDisk"), "{refused}");
    let own = instance.disk("f0d0").display().to_string();
    let refused = instance.refused(&format!("ALTER DISKGROUP data ADD DISK '{own}' FORCE"));
    assert!(refused.contains("DiskInUse"), "{refused}");
    let refused = instance.refused("ALTER DISKGROUP data REBALANCE POWER 4000");
    assert!(refused.contains("0 to 1024"), "{refused}");
    instance.check("DATA");
}
