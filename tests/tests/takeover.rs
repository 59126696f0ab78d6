//! Engines die, and are replaced on purpose, under programs that notice nothing.

use plinth_tests::{Blocks, Instance, MIB, Manager, scaled, shell, wait_for};
use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// A fraction of a second that differs from round to round, and not from run to run.
fn moment(round: u32) -> Duration {
    Duration::from_millis(400 + u64::from(round.wrapping_mul(2_654_435_761) >> 20) % 600)
}

/// Makes, links, renames and removes names; each of these operations fails if it is done twice or
/// not at all.
fn names(dir: &Path, program: usize, going: &AtomicBool) -> u64 {
    let path = |name: &str| dir.join(format!("names {program} {name}"));
    let (made, linked, renamed, directory) =
        (path("made"), path("linked"), path("renamed"), path("directory"));
    let mut rounds = 0;
    while going.load(Ordering::Relaxed) {
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).open(&made).expect("create");
        file.write_all_at(&[program as u8; 6000], 0).expect("write");
        fs::hard_link(&made, &linked).expect("link");
        assert_eq!(file.metadata().expect("fstat").nlink(), 2);
        fs::rename(&made, &renamed).expect("rename");
        fs::remove_file(&linked).expect("unlink");
        std::os::unix::fs::symlink("somewhere", &linked).expect("symlink");
        fs::create_dir(&directory).expect("mkdir");
        rustix::fs::setxattr(&renamed, "user.once", b"1", rustix::fs::XattrFlags::CREATE)
            .expect("setxattr");
        rustix::fs::removexattr(&renamed, "user.once").expect("removexattr");
        fs::remove_dir(&directory).expect("rmdir");
        fs::remove_file(&linked).expect("unlink");
        fs::remove_file(&renamed).expect("unlink");
        // Without a name it is read and written as before.
        let mut bytes = [0; 6000];
        file.read_exact_at(&mut bytes, 0).expect("read");
        assert_eq!(bytes, [program as u8; 6000]);
        assert_eq!(file.metadata().expect("fstat").nlink(), 0);
        rounds += 1;
    }
    rounds
}

/// Writes, syncs, and reads what it wrote, past the page cache.
fn blocks(dir: &Path, program: usize, going: &AtomicBool) -> u64 {
    const SIZE: usize = 8192;
    let path = dir.join(format!("blocks {program}"));
    let file = OpenOptions::new().write(true).create_new(true).open(&path).expect("create");
    let direct =
        OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path).expect("open");
    // Aligned memory for reads past the cache.
    let mut room = vec![0; SIZE + 4096];
    let start = room.as_ptr().align_offset(4096);
    let mut rounds = 0_u64;
    while going.load(Ordering::Relaxed) {
        let at = rounds % 64 * SIZE as u64;
        let bytes: Vec<u8> =
            (0..SIZE).map(|i| (rounds * 31 + i as u64 * 7 + program as u64) as u8).collect();
        file.write_all_at(&bytes, at).expect("write");
        file.sync_data().expect("sync");
        direct.read_exact_at(&mut room[start..start + SIZE], at).expect("read");
        assert!(
            room[start..start + SIZE] == bytes,
            "block {at} of program {program} in round {rounds}"
        );
        rounds += 1;
    }
    rounds
}

/// Runs programs on the mount while `story` runs. None of them may see an error.
fn under_load<T>(dir: &Path, story: impl FnOnce() -> T) -> T {
    struct Until<'a>(&'a AtomicBool);
    impl Drop for Until<'_> {
        fn drop(&mut self) {
            self.0.store(false, Ordering::Relaxed);
        }
    }
    let going = AtomicBool::new(true);
    let unlinked = dir.join("unlinked");
    let temporary =
        OpenOptions::new().read(true).write(true).create_new(true).open(&unlinked).expect("create");
    temporary.write_all_at(b"before", 0).expect("write");
    fs::remove_file(&unlinked).expect("unlink");
    let (told, done) = thread::scope(|scope| {
        let until = Until(&going);
        let going = &going;
        let programs: Vec<_> = (0..2)
            .map(|i| scope.spawn(move || names(dir, i, going)))
            .chain((2..4).map(|i| scope.spawn(move || blocks(dir, i, going))))
            .collect();
        let told = story();
        drop(until);
        (
            told,
            programs
                .into_iter()
                .map(|program| program.join().expect("a program"))
                .collect::<Vec<_>>(),
        )
    });
    println!("rounds: {done:?}");
    assert!(done.iter().all(|rounds| *rounds > 0), "{done:?}");
    let mut bytes = [0; 6];
    temporary.read_exact_at(&mut bytes, 0).expect("read");
    assert_eq!(&bytes, b"before");
    temporary.write_all_at(b"after!", 0).expect("write");
    temporary.sync_all().expect("sync");
    temporary.read_exact_at(&mut bytes, 0).expect("read");
    assert_eq!(&bytes, b"after!");
    told
}

fn group(instance: &Instance) -> PathBuf {
    instance.create_group("data", "NORMAL", &[&[512 * MIB], &[512 * MIB]], "");
    instance.mount("DATA")
}

/// A group whose mount the service manager keeps.
fn kept(manager: &Manager) -> (Instance, PathBuf) {
    let instance = Instance::under(manager);
    let mount = group(&instance);
    wait_for("the mount in the store", || manager.stored().len() == 1);
    (instance, mount)
}

fn another_engine(instance: &Instance, before: Option<i32>) {
    wait_for("another engine", || instance.engine("DATA").is_some_and(|pid| Some(pid) != before));
}

/// The files at the end: only those that the programs left, and none twice.
fn nothing_is_left_behind(instance: &Instance, mount: &Path, files: usize) {
    let mut names: Vec<_> =
        fs::read_dir(mount).expect("list").map(|entry| entry.expect("entry").file_name()).collect();
    names.sort();
    assert_eq!(names.len(), files, "{names:?}");
    let free = || instance.number("SELECT free_mb FROM v$asm_diskgroup");
    // A file from before the take-overs, and one without a name, are freed when the kernel lets
    // them go.
    let before = free();
    let path = mount.join("large");
    let large =
        OpenOptions::new().read(true).write(true).create_new(true).open(&path).expect("create");
    large.set_len(64 * MIB).expect("truncate");
    for at in 0..64 {
        large.write_all_at(&vec![1; MIB as usize], at * MIB).expect("write");
    }
    large.sync_all().expect("sync");
    let engine = instance.engine("DATA");
    instance.kill_engine("DATA");
    another_engine(instance, engine);
    let held = before - 100.0;
    wait_for("the group's space", || free() < held);
    fs::remove_file(&path).expect("unlink");
    let mut byte = [0];
    large.read_exact_at(&mut byte, 63 * MIB).expect("it is open");
    assert!(free() < held, "the file is open, and its space is free");
    drop(large);
    wait_for("the space of a file that is not open", || free() >= before - 8.0);
    instance.check("DATA");
}

/// The engine is killed again and again.
#[test]
fn programs_do_not_notice_the_death_of_engines() {
    let instance = Instance::new();
    let mount = group(&instance);
    under_load(&mount, || {
        for round in 0..scaled(15, 200) {
            thread::sleep(moment(round));
            let engine = instance.engine("DATA");
            instance.kill_engine("DATA");
            another_engine(&instance, engine);
        }
    });
    nothing_is_left_behind(&instance, &mount, 2);
}

/// The instance is killed, and its engine after it has come back: the next instance has the mounts
/// from the engine.
#[test]
fn an_instance_that_came_later_keeps_the_mounts_too() {
    let mut instance = Instance::new();
    let mount = group(&instance);
    under_load(&mount, || {
        for round in 0..scaled(3, 30) {
            thread::sleep(moment(round));
            instance.kill_instance();
            instance.start();
            let engine = instance.engine("DATA");
            instance.kill_engine("DATA");
            another_engine(&instance, engine);
        }
    });
    nothing_is_left_behind(&instance, &mount, 2);
}

/// The engine and the instance are killed again and again, each with its own period, for minutes.
/// Every request of the programs is carried out, and once.
#[test]
fn programs_do_not_notice_engines_and_instances_that_die_in_turns() {
    let manager = Manager::new();
    let (mut instance, mount) = kept(&manager);
    let lasts = Duration::from_secs(scaled(12, 300));
    let periods = scaled([3000, 2100], [10_000, 7000]).map(Duration::from_millis);
    let deaths = under_load(&mount, || instance.die_in_turns("DATA", lasts, periods));
    for whose in ["engine", "instance"] {
        let count = deaths.iter().filter(|death| death.whose == whose).count();
        println!("{whose}: killed {count} times");
        assert!(count > 2, "{deaths:?}");
    }
    nothing_is_left_behind(&instance, &mount, 2);
}

/// The instance dies while the next engine begins: before it has mounted the group, before it was
/// given the mounts, or after. The next instance adopts an engine that serves nothing yet, and must
/// not take that for what was wanted.
#[test]
fn an_instance_that_dies_while_an_engine_begins_leaves_no_mount_behind() {
    let manager = Manager::new();
    let (mut instance, mount) = kept(&manager);
    fs::write(mount.join("file"), "here").expect("written");
    let mounted = |instance: &Instance| instance.alert_log().matches("disk group mounted").count();
    for round in 0..scaled(80_u64, 800) {
        let (before, mounts) = (instance.engine("DATA"), mounted(&instance));
        // The alert log reports the moment just after it, so the test looks without a pause.
        let pause = Duration::from_micros(round * 17 % 700);
        instance.kill_engine("DATA");
        let began = Instant::now();
        while mounted(&instance) == mounts {
            assert!(began.elapsed() < Duration::from_secs(60), "no engine comes");
        }
        thread::sleep(pause);
        instance.kill_instance();
        instance.start();
        another_engine(&instance, before);
        let found = shell(r#"timeout 20 cat "$1/file""#).arg(&mount).finish();
        assert_eq!(found.out, "here", "after {pause:?}: {}\n{}", found.err, instance.alert_log());
    }
    instance.check("DATA");
}

/// A new engine takes over on purpose.
#[test]
fn programs_do_not_notice_an_upgrade() {
    let instance = Instance::new();
    let mount = group(&instance);
    let said = under_load(&mount, || {
        let mut said = Vec::new();
        for round in 0..scaled(6, 60) {
            thread::sleep(moment(round));
            let engine = instance.engine("DATA");
            said.push(instance.plinth(["upgrade", "data"]).ok());
            assert_ne!(instance.engine("DATA"), engine);
        }
        said
    });
    println!("{}", said.concat());
    let log = instance.alert_log();
    assert!(!log.contains("unclean") && !log.contains("its engine ended"), "{log}");
    nothing_is_left_behind(&instance, &mount, 2);
    assert!(instance.plinth(["upgrade", "nosuch"]).refused().contains("not mounted"));
}

/// Instance and engine are killed at once. The service manager has the descriptors, and passes them
/// to the next instance.
#[test]
fn descriptors_of_a_service_manager_outlive_everything() {
    let manager = Manager::new();
    let (mut instance, mount) = kept(&manager);
    under_load(&mount, || {
        for round in 0..scaled(3, 30) {
            thread::sleep(moment(round));
            instance.kill_instance();
            instance.kill_engine("DATA");
            instance.start();
            wait_for("the group to be mounted", || {
                instance
                    .query("SELECT state FROM v$asm_diskgroup")
                    .iter()
                    .any(|row| row["state"] == "MOUNTED")
            });
        }
    });
    let blocks = Blocks::new(mount.join("more"), 1, 500);
    blocks.must_read_right();
    nothing_is_left_behind(&instance, &mount, 3);
    instance.unmount(&mount);
    wait_for("the store to be empty", || manager.stored().is_empty());
}

/// An engine that dies by itself again and again may die of a request. Waiting requests are ended
/// with an error then, not kept for ever.
#[test]
fn engines_that_keep_dying_get_no_requests_for_ever() {
    let instance = Instance::new();
    let mount = group(&instance);
    let file = File::create(mount.join("file")).expect("create");
    for _ in 0..5 {
        wait_for("the group to be mounted", || {
            instance
                .query("SELECT state FROM v$asm_diskgroup")
                .iter()
                .any(|row| row["state"] == "MOUNTED")
        });
        let engine = instance.engine("DATA");
        instance.signal_engine("DATA", rustix::process::Signal::ABORT);
        another_engine(&instance, engine);
    }
    wait_for("the alarm", || instance.alert_log().contains("died of themselves 5 times in a row"));
    let mount = instance.mount_again("DATA");
    assert!(file.sync_all().is_err(), "the mount on which it was opened is gone");
    fs::write(mount.join("new"), "works").expect("the new mount works");
    drop(file);
    instance.check("DATA");
}

/// Statements that come between an engine's death and its successor wait for the successor; those
/// that wait for work to end go on waiting with it.
#[test]
fn statements_wait_for_the_next_engine() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[200 * MIB], &[200 * MIB]], "");
    let point = instance.mount("data");
    for statement in [
        "ALTER DISKGROUP data SET ATTRIBUTE 'disk_timeout' = '6'",
        "ALTER DISKGROUP data CHECK",
        "ALTER DISKGROUP data REBALANCE WAIT",
        "ALTER DISKGROUP data ADD DIRECTORY '+DATA/kept'",
        "ALTER DISKGROUP data UNDROP DISKS",
        "ALTER DISKGROUP data SCRUB WAIT",
    ] {
        let engine = instance.engine("data");
        instance.kill_engine("data");
        wait_for("its death", || instance.engine("data") != engine);
        instance.sql(statement);
    }
    let file = instance.path("file");
    fs::write(&file, "of the host").expect("write");
    let file = file.to_str().expect("UTF-8");
    for command in [
        &["check", "data"][..],
        &["mkdir", "+data/made"],
        &["cp", file, "+data/made/file"],
        &["ls", "+data/made"],
        &["cp", "+data/made/file", file],
        &["rm", "+data/made/file"],
    ] {
        let engine = instance.engine("data");
        instance.kill_engine("data");
        wait_for("its death", || instance.engine("data") != engine);
        instance.plinth(command).ok();
    }
    // Views too: a group that is about to be mounted is neither broken nor without rows.
    let disks = "SELECT COUNT(*) FROM v$asm_disk WHERE group_number = 1";
    for (view, answer) in [("SELECT state FROM v$asm_diskgroup", "MOUNTED"), (disks, "2")] {
        for is_dead in [true, false] {
            // Its mounts are served again, and it has run long enough for the next to be started at
            // once.
            instance.mount_again("data");
            thread::sleep(Duration::from_millis(500));
            let engine = instance.engine("data");
            instance.kill_engine("data");
            wait_for("its death", || !is_dead || instance.engine("data") != engine);
            assert_eq!(instance.text(view), answer);
        }
    }
    instance.mount_again("data");
    // Requests of programs that the next engine would serve are not taken from them.
    let mut file = File::create(point.join("held")).expect("create");
    for refusal in
        [&(|| instance.refused("ALTER DISKGROUP data DISMOUNT")) as &dyn Fn() -> String, &|| {
            instance.plinth(["shutdown"]).refused()
        }]
    {
        let engine = instance.engine("data");
        instance.kill_engine("data");
        wait_for("its death", || instance.engine("data") != engine);
        let said = refusal();
        assert!(said.contains("in use"), "{said}");
        file.write_all(b"goes on").expect("write");
    }
    drop(file);
    instance.unmount(&point);
    // A group that was dismounted is not waited for.
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    assert!(instance.refused("ALTER DISKGROUP data CHECK").contains("is not mounted"));
}

/// `plinth umount` returns when the engine has let go, even after many files were removed: the
/// group can be dropped at once.
#[test]
fn a_group_is_dropped_right_behind_its_unmount() {
    let instance = Instance::new();
    for round in 0..4 {
        instance.create_group("data", "EXTERNAL", &[&[400 * MIB]], "");
        let point = instance.mount("data");
        let directory = point.join("many");
        fs::create_dir(&directory).expect("mkdir");
        for number in 0..2000 {
            fs::write(directory.join(format!("file{number}")), [7; 20_000]).expect("write");
        }
        fs::remove_dir_all(&directory).expect("removed");
        instance.plinth(["umount".as_ref(), point.as_os_str()]).ok();
        let dropped = instance.plinth(["dropdg", "-r", "data"]);
        assert_eq!(dropped.code, Some(0), "round {round}: {dropped:?}");
    }
}
