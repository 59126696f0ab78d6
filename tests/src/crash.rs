//! Stories that are recorded once and cut short at many points.
//!
//! A [`Story`] is the recorded I/O of the real binary (`recorder.rs`) while loads ran on the mount
//! (`loads.rs`). [`try_states`] takes cuts of it, makes the contents that the disks may have then
//! (`replay.rs`), and has the real binary mount them on a host that has booted since: everything
//! acknowledged must be there, every mirror equal, the group usable.
//!
//! A state costs a tenth of a second or two. It is so cheap because disks are in memory, made of
//! shared chunks; there is one instance for all states of a thread; and no instance or mount waits
//! for anything but its own work.

use crate::{
    Host, Image, Instance, Memory,
    loads::Load,
    recorder::{Recorder, Recording},
    replay::{Cut, Lie, Replay, State},
    wait_for,
};
use plinth_workload::lock;
use std::{
    any::Any,
    fs,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Instant, SystemTime},
};

/// Loads and how many operations each does; the number of a load is that of its stream.
pub type Loads = Arc<Vec<(Box<dyn Load>, u64)>>;

/// The recorded I/O of the disks.
pub struct Story {
    pub recording: Recording,
    /// The point from which on cuts are of interest.
    pub from: usize,
    pub loads: Loads,
    between: Between,
    /// The boot in which it was recorded.
    boot: String,
}

/// The event between the thirds of the loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    Nothing,
    /// The engine is killed and recovers; the group is dismounted and mounted. No load may have
    /// files open.
    Stops,
    /// A disk is taken offline; it is brought back while the last third runs.
    Absence,
    /// The last disk replaces the first one, disks get other names, all are made smaller, and half
    /// of all mirrors are taken and made again, while loads run.
    Movement,
}

/// A state that was not survived.
pub struct Failure {
    pub cut: Cut,
    pub text: String,
}

/// Brings a group's disks into use, given a mounted instance and the disks' paths.
pub type Recovery = dyn Fn(&Instance, &[PathBuf]) + Sync;

/// By a mount, as a database's host does after a boot.
pub fn by_mount(instance: &Instance, _: &[PathBuf]) {
    instance.sql("ALTER DISKGROUP data MOUNT");
}

/// By `plinth check --repair` on the disks, before the mount: it finds nothing that it cannot
/// repair, and a second check finds nothing at all.
///
/// # Panics
/// If it does.
pub fn by_repair(instance: &Instance, disks: &[PathBuf]) {
    let repaired = check(instance, true, disks);
    assert!(matches!(repaired.code, Some(0 | 1)), "{repaired}");
    check(instance, false, disks).ok();
    by_mount(instance, disks);
}

/// `plinth check` on disks.
pub fn check(instance: &Instance, repair: bool, disks: &[PathBuf]) -> crate::Finished {
    let words =
        ["check", "--repair"].into_iter().take(if repair { 2 } else { 1 }).map(PathBuf::from);
    instance.plinth(words.chain(disks.iter().cloned()))
}

impl Story {
    /// Records a group that is made, written, and dismounted.
    pub fn record(
        instance: &Instance,
        host: &Host,
        redundancy: &str,
        disks: usize,
        size: u64,
        loads: &Loads,
        between: Between,
    ) -> Self {
        let names: Vec<_> = (0..disks).map(|number| format!("f{number}d0")).collect();
        let used = |(seed, name): (u64, &String)| (name.clone(), Image::used(size, seed));
        let recorder = Recorder::new((0..).zip(&names).map(used).collect());
        let boot = host.boot();
        show(&recorder, &names, instance);
        let group = [size];
        let sizes =
            vec![group.as_slice(); if between == Between::Movement { disks - 1 } else { disks }];
        // The deadline of an I/O is longer than any delay of this machine.
        instance.create_group(
            "data",
            redundancy,
            &sizes,
            "'au_size' = '1M', 'disk_timeout' = '60'",
        );
        let mount = instance.mount("DATA");
        loads.iter().for_each(|(load, _)| load.prepare(&mount));
        let from = recorder.length();
        run(&recorder, &mount, loads, 0);
        match between {
            Between::Nothing | Between::Movement => {}
            Between::Stops => {
                let killed = instance.engine("DATA");
                instance.kill_engine("DATA");
                wait_for("another engine", || {
                    instance.engine("DATA").is_some_and(|pid| Some(pid) != killed)
                });
                instance.mount_again("DATA");
            }
            Between::Absence => drop(instance.sql("ALTER DISKGROUP data OFFLINE DISK data_0001")),
        }
        thread::scope(|scope| {
            scope.spawn(|| run(&recorder, &mount, loads, 1));
            if between == Between::Movement {
                let last = instance.disk(&names[disks - 1]);
                instance.sql(&format!(
                    "ALTER DISKGROUP data ADD FAILGROUP other DISK '{}' DROP DISK data_0000 REBALANCE POWER 8 WAIT",
                    last.display()
                ));
            }
        });
        if between == Between::Stops {
            let_go(instance, &mount);
            instance.sql("ALTER DISKGROUP data DISMOUNT");
            instance.sql("ALTER DISKGROUP data MOUNT");
            instance.mount("DATA");
        }
        thread::scope(|scope| {
            scope.spawn(|| run(&recorder, &mount, loads, 2));
            if between == Between::Absence {
                instance.sql("ALTER DISKGROUP data ONLINE DISK data_0001");
                instance.wait_until_whole("DATA");
            }
            if between == Between::Movement {
                instance.sql("ALTER DISKGROUP data RENAME DISK data_0001 TO data_0002, data_0002 TO data_0001");
                let size = size / 8 * 7;
                instance
                    .sql(&format!("ALTER DISKGROUP data RESIZE ALL SIZE {size} REBALANCE WITH BALANCE, COMPACT WAIT"));
                for redundancy in ["EXTERNAL", "NORMAL"] {
                    instance.sql(&format!(
                        "ALTER DISKGROUP data CONVERT REDUNDANCY TO {redundancy} REBALANCE WAIT"
                    ));
                }
            }
        });
        loads.iter().for_each(|(load, _)| load.finish());
        let_go(instance, &mount);
        instance.sql("ALTER DISKGROUP data DISMOUNT");
        Self { recording: recorder.recording(), from, loads: Arc::clone(loads), between, boot }
    }

    /// Records the recovery of a state of this story, which may be cut again. `work` is given the
    /// recorded disks.
    pub fn sequel(&self, host: &Host, state: &State, work: &Recovery) -> Self {
        let instance = Instance::new();
        let names = &self.recording.names;
        let recorder =
            Recorder::new(names.iter().cloned().zip(state.images.iter().cloned()).collect());
        state
            .acknowledged
            .iter()
            .enumerate()
            .for_each(|(stream, number)| recorder.mark(stream, *number));
        let from = recorder.length();
        let boot = if state.kept_power { self.boot.clone() } else { host.boot() };
        host.boot_is(&boot);
        show(&recorder, names, &instance);
        let disks: Vec<_> = names.iter().map(|name| instance.disk(name)).collect();
        work(&instance, &disks);
        Self {
            recording: recorder.recording(),
            from,
            loads: Arc::clone(&self.loads),
            between: self.between,
            boot,
        }
    }

    /// `count` cuts of the part that is of interest.
    #[must_use]
    pub fn cuts(&self, count: usize, seed: u64) -> Vec<Cut> {
        self.recording.cuts(self.from, self.recording.events.len(), count, seed)
    }

    /// The state after one cut.
    #[must_use]
    pub fn state(&self, cut: Cut) -> State {
        Replay::new(&self.recording, self.loads.len(), crate::replay::HONEST).state(cut)
    }

    /// The state after its end.
    #[must_use]
    pub fn end(&self) -> State {
        self.state(Cut { at: self.recording.events.len(), seed: 0 })
    }
}

/// Recorded disks, as the instance discovers them.
fn show(recorder: &Recorder, names: &[String], instance: &Instance) {
    for name in names {
        std::os::unix::fs::symlink(recorder.path(name), instance.disk(name))
            .expect("link to the disk");
    }
}

/// Runs a third of every load's operations, all loads at the same time.
fn run(recorder: &Recorder, mount: &Path, loads: &Loads, third: u64) {
    thread::scope(|scope| {
        for (stream, (load, count)) in loads.iter().enumerate() {
            let operations = count * third / 3 + 1..=count * (third + 1) / 3;
            scope.spawn(move || {
                load.run(mount, operations, &|number| recorder.mark(stream, number))
            });
        }
    });
}

/// Unmounts. A program that is being started elsewhere in this process has copies of all open files
/// for a moment.
fn let_go(instance: &Instance, mount: &Path) {
    wait_for("the mount to be let go of", || {
        instance.plinth(["umount".as_ref(), mount.as_os_str()]).code == Some(0)
    });
}

/// The place where states are tried: an instance that outlives them, with its disks in memory.
struct Station<'a> {
    host: &'a Host,
    _memory: Memory,
    instance: Instance,
}

impl<'a> Station<'a> {
    fn new(host: &'a Host) -> Self {
        let instance = Instance::new();
        Self { host, _memory: Memory::mount(&instance.path("disks")), instance }
    }

    /// Recovers the group, verifies it, checks it, uses it and dismounts it.
    fn survive(&self, story: &Story, state: &State, recovery: &Recovery) {
        let disks: Vec<_> =
            story.recording.names.iter().map(|name| self.instance.disk(name)).collect();
        for (disk, image) in disks.iter().zip(&state.images) {
            image.save(disk).expect("a disk in memory");
        }
        if state.kept_power {
            self.host.boot_is(&story.boot);
        } else {
            self.host.boot();
        }
        recovery(&self.instance, &disks);
        let mount = self.instance.mount("DATA");
        let verify = || {
            for ((load, last), acknowledged) in story.loads.iter().zip(&state.acknowledged) {
                load.verify(&mount, *acknowledged, *last).unwrap_or_else(|wrong| panic!("{wrong}"));
            }
        };
        verify();
        if story.between == Between::Absence {
            self.instance.sql("ALTER DISKGROUP data ONLINE ALL");
            self.instance.wait_until_whole("DATA");
            verify();
        }
        assert_eq!(
            self.instance.offline_disks("DATA"),
            0.0,
            "a disk is offline that was not taken offline"
        );
        if story.between == Between::Movement {
            let moving = "SELECT count(*) FROM v$asm_operation WHERE pass = 'REBALANCE' AND state IN ('RUN', 'WAIT')";
            wait_for("the end of the rebalance", || self.instance.number(moving) == 0.0);
            verify();
        }
        self.instance.check("DATA");
        fs::write(mount.join("after"), [7; 100_000]).expect("the group can be written");
        assert!(
            fs::read(mount.join("after")).is_ok_and(|read| read == [7; 100_000]),
            "the group can be read"
        );
        let_go(&self.instance, &mount);
        self.instance.sql("ALTER DISKGROUP data DISMOUNT");
    }
}

/// Tries a state for every cut, several at a time, until `enough` of them failed. Returns those
/// that did.
pub fn try_states(
    story: &Story,
    cuts: &[Cut],
    lie: Lie<'_>,
    recovery: &Recovery,
    enough: usize,
) -> Vec<Failure> {
    let began = Instant::now();
    let workers = thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 8));
    let failures = Mutex::new(Vec::new());
    let (next, tried, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        Host::run(|host| {
            let mut replay = Replay::new(&story.recording, story.loads.len(), lie);
            let mut station = None;
            while !stop.load(Ordering::Relaxed)
                && let Some(cut) = cuts.get(next.fetch_add(1, Ordering::Relaxed))
            {
                let state = replay.state(*cut);
                tried.fetch_add(1, Ordering::Relaxed);
                let here = station.get_or_insert_with(|| Station::new(host));
                if let Err(panic) =
                    panic::catch_unwind(AssertUnwindSafe(|| here.survive(story, &state, recovery)))
                {
                    let log = here.instance.alert_log();
                    let log: Vec<_> = log.lines().rev().take(12).collect();
                    let log = log.into_iter().rev().collect::<Vec<_>>().join("\n");
                    let text = format!("{cut}: {}\n{}{log}", said(&*panic), state.fate);
                    keep(story, &state, &text);
                    station = None;
                    let mut failures = lock(&failures);
                    failures.push(Failure { cut: *cut, text });
                    stop.store(failures.len() >= enough, Ordering::Relaxed);
                }
            }
        });
    };
    thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    let failures = failures.into_inner().expect("lock");
    println!(
        "{} states in {:.1?}, {} not survived",
        tried.into_inner(),
        began.elapsed(),
        failures.len()
    );
    failures
}

/// Every cut is survived.
///
/// # Panics
/// If not.
#[track_caller]
pub fn must_be_survived(story: &Story, cuts: &[Cut], recovery: &Recovery) {
    let failures = try_states(story, cuts, crate::replay::HONEST, recovery, 5);
    let texts: Vec<_> = failures.iter().take(3).map(|failure| failure.text.as_str()).collect();
    assert!(
        failures.is_empty(),
        "{} states were not survived\n{}",
        failures.len(),
        texts.join("\n\n")
    );
}

/// The message of a panic.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "a panic".into())
}

/// Keeps the disks of a failure, if `PLINTH_KEEP=DIR` is set.
fn keep(story: &Story, state: &State, text: &str) {
    let Some(dir) = std::env::var_os("PLINTH_KEEP") else { return };
    let dir = PathBuf::from(dir).join(format!("state.{}.{}", state.cut.at, state.cut.seed));
    let keep = || {
        fs::create_dir_all(&dir)?;
        story
            .recording
            .names
            .iter()
            .zip(&state.images)
            .try_for_each(|(name, image)| image.save(&dir.join(name)))?;
        fs::write(dir.join("recording"), story.recording.describe())?;
        fs::write(dir.join("why"), text)
    };
    keep().unwrap_or_else(|error| eprintln!("{}: {error}", dir.display()));
}

/// The seed from which the cuts and fates of a test follow: `PLINTH_SEED`, or the time. It is
/// printed.
#[must_use]
pub fn seed() -> u64 {
    let given = std::env::var("PLINTH_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = || {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.subsec_nanos().into())
    };
    let seed = given.unwrap_or_else(now);
    println!("PLINTH_SEED={seed}");
    seed
}
