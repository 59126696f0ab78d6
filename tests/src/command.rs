//! Programs that a test runs, with all their output at hand when they fail.

use std::{
    ffi::OsStr,
    fmt,
    io::Read,
    os::unix::process::CommandExt,
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The longest that any program may take. Only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(300);

/// A program that ended.
#[derive(Debug, Clone)]
pub struct Finished {
    pub what: String,
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Finished {
    /// Its standard output.
    ///
    /// # Panics
    /// If it failed.
    #[track_caller]
    pub fn ok(self) -> String {
        assert!(self.code == Some(0), "{self}");
        self.out
    }

    /// Its standard error.
    ///
    /// # Panics
    /// If it succeeded, or crashed, or printed nothing.
    #[track_caller]
    pub fn refused(self) -> String {
        let said = format!("{}{}", self.err, self.out);
        assert!(
            self.code.is_some_and(|code| code != 0 && code != 101),
            "expected a refusal: {self}"
        );
        assert!(!said.contains("panicked at"), "{self}");
        assert!(!said.trim().is_empty(), "failed without a word: {self}");
        said
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code =
            self.code.map_or_else(|| "a signal or the patience".into(), |code| code.to_string());
        write!(f, "{}\nended with {code}\n{}{}", self.what, self.out, self.err)
    }
}

/// Runs a command to its end, or kills it after [`PATIENCE`].
pub fn finish(command: &mut Command) -> Finished {
    finish_within(command, PATIENCE)
}

pub fn finish_within(command: &mut Command, patience: Duration) -> Finished {
    let what = format!("{command:?}");
    // A group of its own, so that all of a script can be killed.
    let command =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            return Finished { what, code: Some(127), out: String::new(), err: error.to_string() };
        }
    };
    let reader = |mut from: Box<dyn Read + Send>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = reader(Box::new(child.stdout.take().expect("piped")));
    let err = reader(Box::new(child.stderr.take().expect("piped")));
    let pid = child.id();
    let waiter = thread::spawn(move || child.wait());
    let ended = |limit: Duration| -> bool {
        let deadline = Instant::now() + limit;
        while !waiter.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        waiter.is_finished()
    };
    let in_time = ended(patience);
    if !in_time {
        signal_group(pid, rustix::process::Signal::KILL);
        if !ended(Duration::from_secs(10)) {
            // The program waits in the kernel for a disk that hangs; it ends when the disk goes on.
            return Finished {
                what,
                code: None,
                out: String::new(),
                err: "hangs in the kernel".into(),
            };
        }
    }
    let status: Option<ExitStatus> = waiter.join().ok().and_then(Result::ok);
    let code = if in_time { status.and_then(|status| status.code()) } else { None };
    Finished {
        what,
        code,
        out: out.join().unwrap_or_default(),
        err: err.join().unwrap_or_default(),
    }
}

fn signal_group(pid: u32, signal: rustix::process::Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(pid, signal);
    }
}

/// A bash script that stops at its first failure.
pub struct Shell(Command);

/// A script; `$1`, `$2` ... are set by [`Shell::arg`].
pub fn shell(script: &str) -> Shell {
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", script, "bash"]);
    Shell(command)
}

impl Shell {
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.0.arg(arg);
        self
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    /// The command, to be run in another way.
    #[must_use]
    pub fn into_command(self) -> Command {
        self.0
    }

    pub fn finish(mut self) -> Finished {
        finish(&mut self.0)
    }

    pub fn finish_within(mut self, patience: Duration) -> Finished {
        finish_within(&mut self.0, patience)
    }

    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn ok(self) -> String {
        self.finish().ok()
    }
}

/// Prints how long something took. With `PLINTH_TIMES=1`, on a machine that does nothing else, it
/// has to be below the limit.
///
/// # Panics
/// If it is above the limit then.
pub fn limited(what: &str, took: Duration, limit: Duration) {
    println!("{what}: {took:.1?}, of at most {limit:?}");
    if std::env::var_os("PLINTH_TIMES").is_some() {
        assert!(took < limit, "{what} took {took:?}");
    }
}

/// Waits until `condition` holds.
///
/// # Panics
/// If it does not within five minutes: a hang, not a measurement.
#[track_caller]
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(300);
    while !condition() {
        assert!(Instant::now() < deadline, "waited five minutes for: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}
