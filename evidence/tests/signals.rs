//! Signals: the commands that write end early with what they have, and leave nothing behind.

use clap::Parser;
use plinth_evidence::command::Load;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    env,
    fs::{self, File},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The arguments of a command, one a line, for a process that a test starts.
const ARGUMENTS: &str = "PLINTH_EVIDENCE_ARGUMENTS";
/// After that a test has failed.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    load: Load,
}

#[test]
#[ignore = "it is the process that the other tests start"]
fn a_command_in_a_process_of_its_own() {
    let arguments = env::var(ARGUMENTS).expect("arguments");
    let load = Arguments::parse_from(arguments.lines()).load;
    let code = load.run(&mut std::io::stdout());
    std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS));
}

/// A process that does not outlive a test that fails.
struct Started(Option<Child>);

impl Started {
    fn child(&self) -> &Child {
        self.0.as_ref().expect("it is taken at its end only")
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start(arguments: &[&str]) -> Started {
    let all = ["load"].iter().chain(arguments).copied().collect::<Vec<_>>().join("\n");
    // A shell that starts the tests in the background has its children ignore SIGINT.
    let child = Command::new("env")
        .arg("--default-signal=INT,HUP,TERM")
        .arg(env::current_exe().expect("this program"))
        .args(["--exact", "a_command_in_a_process_of_its_own", "--ignored", "--nocapture"])
        .env(ARGUMENTS, all)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    Started(Some(child))
}

fn wait_for(wanted: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{wanted}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the process has a file in the directory open, by whatever name.
fn has_open(process: u32, directory: &Path) -> bool {
    let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|path| path.starts_with(directory))
}

fn send(child: &Started, signal: Signal) {
    let process = Pid::from_child(child.child());
    kill_process(process, signal).expect("it runs");
}

fn ended(mut child: Started) -> Output {
    child.0.take().expect("once").wait_with_output().expect("it ends")
}

fn names(directory: &Path) -> usize {
    fs::read_dir(directory).expect("it is there").count()
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

const MODEL: &str =
    "[random-read]\nrate = 100\nsize = 8192\n\n[log-write]\nrate = 50\nsize = 4096\n";

#[test]
fn no_signal_leaves_anything_in_a_directory() {
    let directory = directory();
    let model = directory.path().join("model.toml");
    fs::write(&model, MODEL).expect("written");
    let within = directory.path().join("within");
    fs::create_dir(&within).expect("a directory");
    let (model, path) = (model.to_str().expect("a path"), within.to_str().expect("a path"));
    let run = ["run", model, path, "--size", "16M", "--seconds", "600"];
    let distance = ["distance", path, "--writes", "100000"];
    for arguments in [&run[..], &distance] {
        for signals in [
            &[Signal::INT][..],
            &[Signal::INT, Signal::INT],
            &[Signal::TERM],
            &[Signal::HUP],
            &[Signal::KILL],
        ] {
            let child = start(arguments);
            wait_for("it opens a file", || has_open(child.child().id(), &within));
            // Wherever it is: at the filling, or later.
            for signal in signals {
                assert_eq!(names(&within), 0, "{arguments:?}");
                send(&child, *signal);
            }
            let output = ended(child);
            assert!(!output.status.success(), "{arguments:?}: {output:?}");
            assert_eq!(names(&within), 0, "{arguments:?} after {signals:?}");
        }
    }
}

#[test]
fn an_interrupted_measurement_of_distance_prints_what_it_has_and_empties_its_file() {
    let directory = directory();
    let file = directory.path().join("redo");
    File::create(&file).and_then(|file| file.set_len(3 << 20)).expect("a file of holes");
    let path = file.to_str().expect("a path");
    let child = start(&["distance", path, "--writes", "100000", "--sizes", "4k,8k,12k,16k"]);
    // A round of each size has 20 writes; ten rounds are more than it needs for results.
    let written = 33 * (1 << 20) + 11 * 20 * (40 << 10);
    let io = format!("/proc/{}/io", child.child().id());
    wait_for("it writes", || {
        let text = fs::read_to_string(&io).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("wchar: "));
        count.and_then(|count| count.parse::<u64>().ok()).is_some_and(|count| count > written)
    });
    send(&child, Signal::INT);
    let output = ended(child);
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), output.status.signal()), (Some(1), None), "{out}{err}");
    assert!(out.contains("Interrupted") && out.contains("overhead"), "{out}{err}");
    assert!(err.contains("interrupted: the results are those so far"), "{err}");
    let metadata = fs::metadata(&file).expect("it is there");
    assert_eq!(metadata.len(), 3 << 20);
    assert_eq!(std::os::unix::fs::MetadataExt::blocks(&metadata), 0, "it has holes only");
}
