//! Loads on files, and on a loop device where there is one to be had.

mod nbd_server;

use nbd_server::Server;
use plinth_evidence::{
    issue::{
        Closed, IssueError, Length, Outcome, Plan, Silent, measure,
        slob::{Amount, Parameters, Slob},
    },
    model::{Class, Stream},
    run::Loop,
};
use std::{
    collections::hash_map::DefaultHasher,
    fs,
    hash::{Hash, Hasher},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

const MIB: u64 = 1 << 20;

fn stream(class: Class, rate: f64, size: u64) -> Stream {
    Stream::of_mean(class, rate, size as f64)
}

fn plan(streams: Vec<Stream>) -> Plan {
    Plan { streams, length: Length::Seconds(1.0), ..Plan::default() }
}

fn mixed() -> Vec<Stream> {
    vec![
        stream(Class::RandomRead, 300.0, 8192),
        stream(Class::LargeRead, 20.0, 1_011_712),
        stream(Class::RandomWrite, 200.0, 8192),
        stream(Class::LargeWrite, 10.0, 462_336),
        stream(Class::LogWrite, 50.0, 9_216),
    ]
}

/// A directory on a file system with direct I/O.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

fn on(plan: &Plan, target: &Path) -> Result<Outcome, IssueError> {
    measure(plan, &[target.display().to_string()], &mut Silent)
}

fn hash(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    fs::read(path).expect("it is readable").hash(&mut hasher);
    hasher.finish()
}

#[test]
fn a_directory_gets_a_file_that_is_verified_and_goes_away() {
    let directory = directory();
    for without_ring in [false, true] {
        let plan = Plan { size: Some(64 * MIB), verify: true, without_ring, ..plan(mixed()) };
        let outcome = on(&plan, directory.path()).expect("it runs");
        assert_eq!((outcome.wrong, outcome.errors), (0, 0), "{:?}", outcome.run.notes);
        assert_eq!(outcome.run.issued, Loop::Open);
        for (class, wanted) in outcome.run.classes.iter().zip(&outcome.wanted) {
            // Those that were due in the second: all, give or take one.
            assert!((class.requests as f64 - wanted).abs() <= 1.0, "{} {wanted}", class.requests);
            assert_eq!(class.latency.requests(), class.requests);
        }
        let by_ring = !outcome.run.notes.iter().any(|note| note.contains("preadv2"));
        assert!(by_ring || without_ring || outcome.run.notes.iter().any(|n| n.contains("refused")));
    }
    assert_eq!(fs::read_dir(directory.path()).expect("it is there").count(), 0);
}

#[test]
fn a_file_that_carries_anything_is_refused_and_stays_as_it_is() {
    let directory = directory();
    let path = directory.path().join("file");
    let mut bytes = vec![0; 8 * MIB as usize];
    bytes[0x8001..0x8006].copy_from_slice(b"CD001");
    for (content, wanted) in [
        (bytes, "an ISO 9660 file system"),
        (vec![0; 8 * MIB as usize], "8388608 bytes: zeros"),
        (b"a few words".to_vec(), "data (byte 0 is not zero)"),
    ] {
        fs::write(&path, content).expect("written");
        let before = hash(&path);
        let error = on(&plan(mixed()), &path).expect_err("it is refused");
        assert!(error.is_usage() && error.to_string().contains(wanted), "{error}");
        assert!(error.to_string().contains("--force-overwrite"), "{error}");
        assert_eq!(hash(&path), before);
    }
}

#[test]
fn a_file_that_has_holes_only_is_filled_and_used() {
    let directory = directory();
    let path = directory.path().join("file");
    fs::File::create(&path).and_then(|file| file.set_len(16 * MIB)).expect("a file of holes");
    let plan = Plan { verify: true, ..plan(mixed()) };
    let outcome = on(&plan, &path).expect("it runs");
    assert_eq!((outcome.wrong, outcome.errors), (0, 0), "{:?}", outcome.run.notes);
    assert!(!outcome.run.notes.iter().any(|note| note.contains("holes")));
    let error = on(&plan, &path).expect_err("now it carries something").to_string();
    assert!(error.contains("16777216 bytes: data"), "{error}");
}

#[test]
fn a_model_that_only_reads_writes_nothing() {
    let directory = directory();
    let path = directory.path().join("file");
    fs::write(&path, vec![7; 8 * MIB as usize]).expect("written");
    let before = hash(&path);
    let outcome = on(&plan(vec![stream(Class::RandomRead, 500.0, 8192)]), &path).expect("it runs");
    assert!(outcome.run.classes[0].requests >= 499);
    assert_eq!(hash(&path), before);
}

#[test]
fn a_second_run_verifies_the_blocks_of_the_first() {
    let directory = directory();
    let path = directory.path().join("file");
    let first = Plan { size: Some(16 * MIB), verify: true, ..plan(mixed()) };
    assert_eq!(on(&first, &path).expect("it runs").wrong, 0);
    let reads = Plan { verify: true, ..plan(vec![stream(Class::RandomRead, 2_000.0, 8192)]) };
    assert_eq!(on(&reads, &path).expect("it runs").wrong, 0);
    // The first half is where the second was.
    let mut bytes = fs::read(&path).expect("it is readable");
    bytes.rotate_left(8 * MIB as usize);
    fs::write(&path, bytes).expect("written");
    let outcome = on(&reads, &path).expect("it runs");
    assert!(outcome.wrong > 1_000, "{}", outcome.wrong);
    let text = outcome.run.notes.join(" ");
    assert!(text.contains("it holds the block of byte"), "{text}");
}

#[test]
fn a_closed_loop_says_so_and_has_no_more_in_flight_than_its_depth() {
    let directory = directory();
    let closed = Some(Closed { depth: 1, is_paced: false });
    let streams = vec![stream(Class::RandomRead, 1.0, 8192)];
    let plan = Plan { size: Some(8 * MIB), closed, ..plan(streams) };
    let outcome = on(&plan, directory.path()).expect("it runs");
    assert_eq!(outcome.run.issued, Loop::Closed);
    assert!(outcome.run.notes.iter().any(|note| note.starts_with("closed loop")));
    // One after the other: their latencies fit into the time.
    let class = &outcome.run.classes[0];
    let sum = class.latency.moments.expect("of values").sum;
    assert!(sum <= outcome.run.seconds * 1e9 * 1.001, "{sum}");
    assert!(class.requests > 10);
}

/// Small rounds of an even load on a file: five are enough, or it gives up and says so.
#[test]
fn until_steady_ends_by_the_rule_with_the_results_of_five_rounds() {
    let directory = directory();
    let length = Length::UntilSteady { round: 1.0, rounds_max: 8 };
    let streams = vec![stream(Class::RandomRead, 200.0, 8192)];
    let plan = Plan { size: Some(8 * MIB), length, ..plan(streams) };
    let outcome = on(&plan, directory.path()).expect("it runs");
    assert!(outcome.is_steady.is_some());
    assert!((outcome.run.seconds - 5.0).abs() < 1e-6, "{}", outcome.run.seconds);
    assert!(outcome.run.classes[0].requests.abs_diff(1_000) <= 50);
}

fn slob(instances: u64) -> Slob {
    let parameters = Parameters {
        scale: Amount::Blocks(10_000),
        schemas: 2,
        threads_per_schema: 2,
        update_pct: 30,
        scan_pct: 10,
        run_time: 1.0,
        ..Parameters::default()
    };
    Slob {
        parameters,
        block: 8192,
        seed: 1,
        label: "test".to_owned(),
        force_overwrite: false,
        instances,
        verify: true,
        gate: None,
        ramp: 0.0,
    }
}

#[test]
fn slob_writes_reads_and_syncs_with_its_own_words() {
    let directory = directory();
    let target = [directory.path().display().to_string()];
    for instances in [1, 3] {
        let result = slob(instances).run(&target, &mut Silent).expect("it runs");
        let outcome = &result.outcome;
        let names: Vec<&str> =
            outcome.run.classes.iter().map(|class| class.name.as_str()).collect();
        for wanted in
            ["db file sequential read", "db file parallel write", "log file parallel write"]
        {
            assert!(names.contains(&wanted), "{names:?}");
        }
        assert_eq!((outcome.errors, outcome.wrong), (0, 0), "{:?}", outcome.run.notes);
        assert!(result.executes > 0);
        let summary = result.summary();
        let columns: Vec<usize> = summary.lines().map(|line| line.matches('|').count()).collect();
        assert_eq!(columns, [15, 15], "{summary}");
        assert!(summary.starts_with("FILE|SESSIONS|ELAPSED|EXECUTES|PREADS|"));
        assert!(summary.contains("\ntest|4|"), "{summary}");
        let report = result.report();
        assert!(report.contains("Redo Requests:") && report.contains("WAIT_TIME_MICRO"));
    }
    let mut reads = slob(1);
    reads.parameters.update_pct = 0;
    let summary = reads.run(&target, &mut Silent).expect("it runs").summary();
    assert!(!summary.contains("|-0"), "{summary}");
    let error = slob(5).run(&target, &mut Silent).expect_err("four sessions").to_string();
    assert!(error.contains("as many as there are sessions (4)"), "{error}");
}

#[test]
fn slob_that_verifies_finds_lost_writes() {
    let directory = directory();
    let mut slob = slob(2);
    slob.parameters.schemas = 1;
    slob.parameters.threads_per_schema = 4;
    slob.parameters.run_time = 2.0;
    for (lost_of, name) in [(0, "whole"), (10, "losing")] {
        let server = Server::losing(&directory.path().join(name), 400 << 20, lost_of);
        let outcome = slob.run(&[server.address], &mut Silent).expect("it runs").outcome;
        let notes = outcome.run.notes.join(" ");
        assert_eq!(outcome.wrong > 0, lost_of > 0, "{notes}");
        assert_eq!(notes.contains("older version"), lost_of > 0, "{notes}");
    }
}

/// A loop device that goes with its file; None where there is none to be had.
struct Device {
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Device {
    fn new(size: u64) -> Option<Self> {
        let directory = directory();
        let file = directory.path().join("disk");
        fs::File::create(&file).and_then(|file| file.set_len(size)).expect("a file");
        let made = Command::new("losetup").args(["-f", "--show"]).arg(&file).output().ok()?;
        let name = String::from_utf8(made.stdout).ok()?;
        made.status
            .success()
            .then(|| Self { path: PathBuf::from(name.trim()), _directory: directory })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.path).status();
    }
}

#[test]
fn a_device_with_a_signature_or_in_use_is_refused_and_an_empty_one_is_used() {
    let Some(device) = Device::new(64 * MIB) else {
        eprintln!("no loop device: not tested");
        return;
    };
    let plan = Plan { verify: true, ..plan(mixed()) };
    // Held for itself by a program.
    let holder = rustix::fs::open(
        &device.path,
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::EXCL,
        rustix::fs::Mode::empty(),
    )
    .expect("it opens");
    let forced = Plan { force_overwrite: true, ..plan.clone() };
    let error = on(&forced, &device.path).expect_err("it is refused").to_string();
    assert!(error.contains("has it for itself"), "{error}");
    drop(holder);
    assert_eq!(on(&plan, &device.path).expect("it runs").wrong, 0);
    let mut file = fs::OpenOptions::new().write(true).open(&device.path).expect("it opens");
    file.write_all(b"XFSB").and_then(|()| file.sync_all()).expect("written");
    let before = hash(&device.path);
    let error = on(&plan, &device.path).expect_err("it is refused").to_string();
    assert!(error.contains("an XFS file system"), "{error}");
    assert_eq!(hash(&device.path), before);
    assert!(on(&forced, &device.path).is_ok());
}

#[test]
fn an_nbd_export_is_a_target() {
    let directory = directory();
    let server = Server::start(&directory.path().join("socket"), 64 << 20);
    let target = server.address;
    let plan = Plan { verify: true, depth: Some(4), fill: true, ..plan(mixed()) };
    let outcome = measure(&plan, std::slice::from_ref(&target), &mut Silent).expect("it runs");
    assert_eq!((outcome.wrong, outcome.errors), (0, 0), "{:?}", outcome.run.notes);
    assert!(outcome.run.classes.iter().all(|class| class.requests > 0));
    let error = measure(&plan, &[target], &mut Silent).expect_err("it carries something");
    assert!(error.to_string().contains("it carries data"), "{error}");
}
