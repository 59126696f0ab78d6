//! Runs the programs that take a message: each with a time limit, in a process group of its own.
//!
//! A program gets the message as its standard input: a file in memory, so that one that does not
//! read it holds up nothing. It has an environment of its own and no descriptor of ours but that
//! one, and no shell is between. Of its standard error the first bytes are kept, for the alert log.
//!
//! A program that is still there after the time limit gets SIGTERM with its whole process group,
//! and a moment later SIGKILL. It is not waited for (reaped) before that: so the group's number
//! cannot belong to another process.

use rustix::{
    fs::{MemfdFlags, OFlags, fcntl_getfl, fcntl_setfl, memfd_create},
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};
use std::{
    fs::{self, File},
    io::{self, Read, Seek, Write},
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::{CommandExt, ExitStatusExt},
    },
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// How long a program may still run when the instance ends.
pub(super) const LAST_GRACE: Duration = Duration::from_secs(2);
/// How often a program is looked at.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// Bytes of the standard error that are kept.
const SAID_MAX: usize = 300;
/// Variables that a program inherits.
const INHERITED: [&str; 4] = ["HOME", "LANG", "LC_ALL", "TZ"];
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// One program to be run.
pub(super) struct Job<'a> {
    pub program: &'a Path,
    pub arguments: &'a [String],
    pub environment: &'a [(&'static str, String)],
    pub input: &'a str,
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Run {
    Done,
    /// With the reason.
    Failed(String),
    /// The instance ends, and the program has not been quick enough.
    CutShort,
}

/// Whether a program can be run: it is there, and only root and this process's user can change it.
pub(super) fn check(program: &Path) -> Result<(), String> {
    let found = fs::metadata(program).map_err(|error| format!("it cannot be run: {error}"))?;
    let mode = found.permissions().mode() & 0o7777;
    if !found.is_file() || mode & 0o111 == 0 {
        return Err(format!("it cannot be run: it is no program (mode {mode:04o}); chmod 755"));
    }
    if found.uid() != 0 && found.uid() != rustix::process::geteuid().as_raw() {
        return Err(format!(
            "it is not run: it belongs to user {}, who could change it; chown root",
            found.uid()
        ));
    }
    if mode & 0o022 != 0 {
        return Err(format!("it is not run: others may change it (mode {mode:04o}); chmod go-w"));
    }
    Ok(())
}

/// A program that runs.
struct Running {
    child: Child,
    pid: Pid,
    errors: Option<ChildStderr>,
    said: Vec<u8>,
    began: Instant,
    /// When it was told to end.
    told: Option<Instant>,
    is_cut_short: bool,
}

/// Runs all of them, beside each other, each for `timeout` at most. `ending`: the instance ends.
pub(super) fn run_all<'a>(
    jobs: impl Iterator<Item = Job<'a>>,
    timeout: Duration,
    ending: &AtomicBool,
) -> Vec<Run> {
    let mut runs: Vec<Result<Running, Run>> =
        jobs.map(|job| start(&job).map_err(Run::Failed)).collect();
    let mut ends = None;
    while runs.iter().any(Result::is_ok) {
        if ends.is_none() && ending.load(Ordering::Acquire) {
            ends = Some(Instant::now());
        }
        for run in &mut runs {
            if let Ok(running) = run
                && let Some(end) = running.look(timeout, ends)
            {
                *run = Err(end);
            }
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    runs.into_iter().filter_map(Result::err).collect()
}

/// The message as a file.
fn input(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create(c"alarm", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

fn start(job: &Job<'_>) -> Result<Running, String> {
    check(job.program)?;
    let failed = |error: io::Error| format!("it cannot be run: {error}");
    let inherited = INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    let mut command = Command::new(job.program);
    command
        .args(job.arguments)
        .env_clear()
        .envs(inherited)
        .env("PATH", PATH)
        .envs(job.environment.iter().map(|(name, value)| (name, value)))
        .current_dir("/")
        .stdin(input(job.input).map_err(failed)?)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0);
    crate::process::close_others(&mut command);
    let mut child = command.spawn().map_err(failed)?;
    let errors = child.stderr.take();
    if let Some(errors) = &errors
        && let Ok(flags) = fcntl_getfl(errors)
    {
        // Otherwise a program that says nothing would hold this thread.
        let _ = fcntl_setfl(errors, flags | OFlags::NONBLOCK);
    }
    let pid = Pid::from_child(&child);
    let (said, began) = (Vec::new(), Instant::now());
    Ok(Running { child, pid, errors, said, began, told: None, is_cut_short: false })
}

impl Running {
    /// Looks at it. Returns how it ended, if it has ended. `ends`: since when the instance ends.
    fn look(&mut self, timeout: Duration, ends: Option<Instant>) -> Option<Run> {
        self.listen();
        let has_ended = self.has_ended();
        if let Some(told) = self.told {
            if !has_ended && told.elapsed() < GRACE {
                return None;
            }
            // Also what the program has started and left behind.
            let _ = kill_process_group(self.pid, Signal::KILL);
            let _ = self.child.wait();
            self.listen();
            return Some(if self.is_cut_short {
                Run::CutShort
            } else {
                let text = format!("it had not ended after {} s, and was ended", timeout.as_secs());
                Run::Failed(self.with_words(&text))
            });
        }
        if has_ended {
            let status = self.child.wait();
            self.listen();
            return Some(match status {
                Ok(status) if status.success() => Run::Done,
                Ok(status) => {
                    let how = match (status.code(), status.signal()) {
                        (Some(code), _) => format!("it ended with exit status {code}"),
                        (_, Some(signal)) => format!("signal {signal} ended it"),
                        _ => format!("it ended: {status}"),
                    };
                    Run::Failed(self.with_words(&how))
                }
                Err(error) => Run::Failed(format!("its end is not known: {error}")),
            });
        }
        let is_last = ends.is_some_and(|ends| ends.elapsed() >= LAST_GRACE);
        if is_last || self.began.elapsed() >= timeout {
            self.is_cut_short = is_last && self.began.elapsed() < timeout;
            let _ = kill_process_group(self.pid, Signal::TERM);
            self.told = Some(Instant::now());
        }
        None
    }

    /// Whether the program itself has ended. It stays as it is: its number is not given away.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // An error: it is no child any more.
        waitid(WaitId::Pid(self.pid), options).map_or(true, |end| end.is_some())
    }

    /// Takes what it has said; the first bytes are kept.
    fn listen(&mut self) {
        let Some(errors) = &mut self.errors else { return };
        let mut bytes = [0; 4096];
        // A program that does not stop is not listened to for ever.
        for _ in 0..16 {
            let Ok(length @ 1..) = errors.read(&mut bytes) else { return };
            let room = SAID_MAX.saturating_sub(self.said.len()).min(length);
            self.said.extend_from_slice(bytes.get(..room).unwrap_or_default());
        }
    }

    fn with_words(&self, how: &str) -> String {
        let said = String::from_utf8_lossy(&self.said);
        let said = said.trim().replace('\n', " | ");
        let said = said.trim_end_matches('.');
        if said.is_empty() {
            how.to_owned()
        } else {
            format!("{how}: {}", super::message::harmless(said))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const LONG: Duration = Duration::from_secs(60);

    fn script(home: &Path, text: &str) -> PathBuf {
        let path = home.join("script");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
        path
    }

    fn run(program: &Path, arguments: &[&str], timeout: Duration) -> Run {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        let environment = [("PLINTH_TEXT", "$(touch evil); `touch evil`".to_owned())];
        let input = "a line\n".repeat(100_000);
        let job = Job { program, arguments: &arguments, environment: &environment, input: &input };
        let mut runs = run_all([job].into_iter(), timeout, &AtomicBool::new(false));
        runs.pop().expect("one")
    }

    #[test]
    fn a_program_gets_arguments_variables_and_input_as_they_are() {
        let home = tempfile::tempdir().expect("a directory");
        let program = script(
            home.path(),
            "printf '%s\\n' \"$1\" \"$PLINTH_TEXT\" > \"$2\"; wc -l >> \"$2\"; pwd >> \"$2\"",
        );
        let out = home.path().join("out");
        let words = ["a ' b", out.to_str().expect("words")];
        assert_eq!(run(&program, &words, LONG), Run::Done);
        let said = fs::read_to_string(out).expect("read");
        assert_eq!(said, "a ' b\n$(touch evil); `touch evil`\n100000\n/\n");
    }

    /// A descriptor of ours in a program would keep a disk or a mount busy.
    #[test]
    fn a_program_has_no_descriptor_of_ours() {
        let home = tempfile::tempdir().expect("a directory");
        let program = script(home.path(), "exec > \"$1\"; exec ls /proc/self/fd");
        let out = home.path().join("out");
        let ours = File::open("/dev/null").expect("opened");
        rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::empty()).expect("inherited");
        assert_eq!(run(&program, &[out.to_str().expect("words")], LONG), Run::Done);
        // The last one is what ls reads.
        assert_eq!(fs::read_to_string(out).expect("read"), "0\n1\n2\n3\n");
    }

    #[test]
    fn a_failure_names_the_exit_status_and_the_first_words() {
        let home = tempfile::tempdir().expect("a directory");
        let program = script(home.path(), "echo 'no route\u{1b}[2J' >&2; exit 7");
        assert_eq!(
            run(&program, &[], LONG),
            Run::Failed("it ended with exit status 7: no route\u{fffd}[2J".to_owned())
        );
        let program =
            script(home.path(), "yes >&2 & yes | head -c 1000000 >&2; kill $!; kill -9 $$");
        let Run::Failed(reason) = run(&program, &[], LONG) else { panic!("it failed") };
        assert!(reason.starts_with("signal 9 ended it: y | y") && reason.len() < 700, "{reason}");
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_all_that_it_has_started() {
        let home = tempfile::tempdir().expect("a directory");
        let program = script(
            home.path(),
            "trap '' TERM; sh -c 'trap \"\" TERM; sleep 1000' & echo $$ $! > \"$1\"; while :; do sleep 1; done",
        );
        let out = home.path().join("out");
        let Run::Failed(reason) =
            run(&program, &[out.to_str().expect("words")], Duration::from_secs(1))
        else {
            panic!("it hangs")
        };
        assert_eq!(reason, "it had not ended after 1 s, and was ended");
        let pids = fs::read_to_string(out).expect("read");
        for pid in pids.split_whitespace() {
            // A process that has ended and was not reaped yet has no command line.
            let is_gone =
                || fs::read(format!("/proc/{pid}/cmdline")).map_or(true, |line| line.is_empty());
            while !is_gone() {
                thread::sleep(BETWEEN_LOOKS);
            }
        }
    }

    #[test]
    fn an_instance_that_ends_does_not_wait_for_long() {
        let home = tempfile::tempdir().expect("a directory");
        let program = script(home.path(), "exec sleep 1000");
        let job = Job { program: &program, arguments: &[], environment: &[], input: "" };
        let runs = run_all([job].into_iter(), Duration::from_secs(3600), &AtomicBool::new(true));
        assert_eq!(runs, [Run::CutShort]);
    }

    #[test]
    fn a_program_that_others_can_change_is_not_run() {
        let home = tempfile::tempdir().expect("a directory");
        let program = script(home.path(), "true");
        for (mode, words) in [(0o644, "no program"), (0o777, "others may change it")] {
            fs::set_permissions(&program, fs::Permissions::from_mode(mode)).expect("its mode");
            let Run::Failed(reason) = run(&program, &[], LONG) else { panic!("{mode:o}") };
            assert!(reason.contains(words), "{reason}");
        }
        assert!(check(home.path()).is_err_and(|reason| reason.contains("no program")));
        assert!(check(Path::new("/nowhere")).is_err_and(|reason| reason.contains("No such file")));
    }
}
