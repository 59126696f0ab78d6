//! Load that verifies itself, for minutes, while disks fail and return and engines are killed.

use plinth_tests::{Finished, Instance, MIB, in_turns, scaled, shell, wait_for};
use std::{
    ffi::OsStr,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::Duration,
};

/// Three failure groups, two of which are made of disks that can fail. One of them may be away
/// while the engine is killed: two of three votes are left.
fn group() -> Instance {
    let mut instance = Instance::new();
    let size = 512 * MIB;
    for disk in ["f1d0", "f2d0"] {
        instance.add_fault_disk(disk, size);
    }
    instance.create_group("data", "NORMAL", &[&[size], &[size], &[size]], "");
    instance
}

/// Disks that are not online; `None` while there is no engine that would know.
fn offline(instance: &Instance) -> Option<usize> {
    let rows = instance
        .try_query("SELECT g.state, d.mode_status FROM v$asm_disk d JOIN v$asm_diskgroup g USING (group_number)")?;
    let is_mounted = rows.len() == 3 && rows.iter().all(|row| row["state"] == "MOUNTED");
    is_mounted.then(|| rows.iter().filter(|row| row["mode_status"] != "ONLINE").count())
}

/// Fails a disk, and brings it back, again and again, each time until it is online again; returns
/// how often.
fn disks_fail_and_return(instance: &Instance, going: &AtomicBool) -> u32 {
    let mut times = 0;
    for disk in ["f1d0", "f2d0"].into_iter().cycle() {
        if !going.load(Ordering::Relaxed) {
            break;
        }
        instance.faulty(disk).fail();
        wait_for("the disk offline", || offline(instance) == Some(1));
        thread::sleep(Duration::from_secs(scaled(1, 3)));
        instance.faulty(disk).heal();
        wait_for("the disk online", || {
            // Refused while an engine is being replaced.
            instance.plinth(["sql", "-c", "ALTER DISKGROUP data ONLINE ALL"]);
            offline(instance) == Some(0)
        });
        times += 1;
        thread::sleep(Duration::from_secs(scaled(1, 5)));
    }
    times
}

/// How long the load goes on.
fn lasts() -> Duration {
    Duration::from_secs(scaled(12, 720))
}

/// fio finds the bytes that it wrote, and meets no error, while disks fail and return and the
/// engine is killed every 20 s.
fn nothing_is_noticed_by(instance: &Instance, fio: impl FnOnce() -> Finished + Send) {
    let (going, kills) = (AtomicBool::new(true), AtomicU32::new(0));
    let (said, times) = thread::scope(|scope| {
        let failing = scope.spawn(|| disks_fail_and_return(instance, &going));
        scope.spawn(|| {
            in_turns(lasts(), [Duration::from_secs(scaled(4, 20))], |_| {
                instance.replace_engine("DATA");
                kills.fetch_add(1, Ordering::Relaxed);
            });
        });
        let said = fio();
        going.store(false, Ordering::Relaxed);
        (said, failing.join().expect("disks"))
    });
    let kills = kills.into_inner();
    println!("{}\n{kills} engines killed, disks failed and returned {times} times", said.out);
    let said = said.ok();
    assert!(said.contains("err= 0") && said.contains("WRITE:") && said.contains("READ:"), "{said}");
    assert!(
        kills >= 2 && times >= 2,
        "{kills} engines killed, disks failed and returned {times} times"
    );
    instance.wait_until_whole("DATA");
    instance.check("DATA");
}

/// Blocks of any size at any place, written, read and verified in turns.
const FIO: &str = "fio --size=48M --rw=randrw --bsrange=512-128k --verify=crc32c --verify_fatal=1 --verify_backlog=512 \
                       --verify_state_save=0 --time_based --group_reporting";

fn run(script: &str, where_to: impl AsRef<OsStr>) -> Finished {
    let fio = shell(script).arg(where_to).arg(lasts().as_secs().to_string());
    fio.finish_within(lasts() + Duration::from_secs(300))
}

/// Over FUSE: through the page cache and past it.
#[test]
fn fio_finds_what_it_wrote_on_the_mount() {
    let instance = group();
    let mount = instance.mount("DATA");
    let jobs = "--name=cached --ioengine=psync --fsync=64 --numjobs=2 \
                --name=direct --ioengine=libaio --iodepth=8 --direct=1 --numjobs=2";
    nothing_is_noticed_by(&instance, || {
        run(&format!(r#"{FIO} --directory="$1" --runtime="$2" {jobs}"#), &mount)
    });
}

/// Over NBD. fio does not connect again when a connection is closed: its three connections are
/// those that it began with.
#[test]
fn fio_finds_what_it_wrote_over_nbd() {
    let instance = group();
    instance.plinth(["volcreate", "-G", "data", "-s", "160M", "vol1"]).ok();
    let uri = instance.plinth(["nbd", "vol1"]).ok();
    let jobs =
        "--name=blocks --ioengine=nbd --iodepth=8 --fsync=64 --numjobs=3 --offset_increment=48M";
    let script = format!(r#"exec {FIO} --runtime=$2 {jobs} --uri="$1""#);
    nothing_is_noticed_by(&instance, || run(&script, uri.trim()));
}
