//! Engine processes: starting one, and learning how it ended.
//!
//! An engine is a child of the instance that started it, which has to wait for its end, or it stays
//! as a zombie. The exit status distinguishes an engine that died of itself (crashed), as the next
//! one may, from one that was killed from outside. Of an engine that another instance started only
//! the fact that it ended is known.

use super::{Instance, Result, systemd};
use crate::engine::client::Client;
use plinth_engine::admin::{AdminError, Code};
use plinth_host::IoChoice;
use plinth_host::lock;
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::OpenOptions,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::OpenOptionsExt,
        process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How long a new engine may take until it listens.
const START: Duration = Duration::from_secs(30);
/// How long after its connections ended a process may take to be gone.
pub(super) const GONE: Duration = Duration::from_secs(2);

/// How processes ended, by pid; `None`: the process runs.
type Ends = BTreeMap<u32, Option<ExitStatus>>;

/// The instance's child processes, and how they ended.
#[derive(Debug, Default, Clone)]
pub(super) struct Children(Arc<(Mutex<Ends>, Condvar)>);

impl Children {
    /// Waits for the child's end on a thread of its own.
    fn watch(&self, mut child: Child) {
        let pid = child.id();
        {
            let mut known = lock(&self.0.0);
            // Children that have ended and whose status no thread has asked for are forgotten.
            known.retain(|_, end| end.is_none());
            known.insert(pid, None);
        }
        let children = self.clone();
        let waiting = move || {
            let status = child.wait();
            let mut known = lock(&children.0.0);
            match status {
                Ok(status) => known.insert(pid, Some(status)),
                Err(_) => known.remove(&pid),
            };
            children.0.1.notify_all();
        };
        if thread::Builder::new().name("reap".into()).spawn(waiting).is_err() {
            lock(&self.0.0).remove(&pid);
        }
    }

    /// Records a child that ended before it was watched.
    fn note(&self, pid: u32, status: ExitStatus) {
        lock(&self.0.0).insert(pid, Some(status));
    }

    /// Waits until a process has ended, for at most `timeout`, and returns its status; `None`: it
    /// is no child of this process, or has not ended.
    pub fn end_of(&self, pid: u32, timeout: Duration) -> Option<ExitStatus> {
        let began = Instant::now();
        let mut known = lock(&self.0.0);
        loop {
            if let Some(status) = *known.get(&pid)? {
                known.remove(&pid);
                return Some(status);
            }
            let left = timeout.checked_sub(began.elapsed())?;
            known = self.0.1.wait_timeout(known, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Whether an engine that ended with this status died of itself: a signal ended it, and none of
/// those that are sent from outside.
pub(super) fn died_of_itself(status: ExitStatus) -> bool {
    let from_outside = [libc::SIGKILL, libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
    status.signal().is_some_and(|signal| !from_outside.contains(&signal))
}

/// A program's path without the suffix that the kernel adds when the file was replaced.
fn installed(path: &Path) -> PathBuf {
    match path.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(path) => OsString::from_vec(path.to_vec()).into(),
        None => path.to_owned(),
    }
}

/// The program that is installed now at the path of this one; this one itself if there is none.
fn program() -> std::io::Result<PathBuf> {
    let program = installed(&std::env::current_exe()?);
    // Its file was removed: the running program can still be started, through `/proc`.
    Ok(if program.exists() { program } else { PathBuf::from("/proc/self/exe") })
}

impl Instance {
    /// Starts an engine process and waits until it listens.
    pub(super) fn start_engine(&self, group: &str) -> Result<Client> {
        self.launch(group, false)
    }

    /// Starts an engine beside the one that runs. It waits, and becomes the group's engine with its
    /// first request to mount it, when the other is gone.
    pub(super) fn start_successor(&self, group: &str) -> Result<Client> {
        self.launch(group, true)
    }

    fn launch(&self, group: &str, is_successor: bool) -> Result<Client> {
        let failed = |what: String| {
            AdminError::new(Code::Io, format!("starting the engine of {group}: {what}"))
        };
        let log = self.paths.engine_log(group);
        let open = || OpenOptions::new().create(true).append(true).mode(0o640).open(&log);
        let output = open().map_err(|error| failed(format!("{}: {error}", log.display())))?;
        let errors = output.try_clone().map_err(|error| failed(error.to_string()))?;
        let program = program().map_err(|error| failed(error.to_string()))?;
        let io = match self.io {
            IoChoice::Auto => "auto",
            IoChoice::Uring => "uring",
            IoChoice::Threads => "threads",
        };
        let mut command = Command::new(&program);
        command
            .arg0("plinth")
            .arg("engine")
            .arg("--dir")
            .arg(self.paths.dir())
            .arg("--state")
            .arg(self.paths.state())
            .args(["--group", group, "--io", io, "--diskstring", &self.diskstring()])
            .args(is_successor.then_some("--successor"))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        systemd::OURS.iter().for_each(|name| _ = command.env_remove(name));
        let mut child =
            command.spawn().map_err(|error| failed(format!("{}: {error}", program.display())))?;
        let socket =
            if is_successor { self.paths.successor(group) } else { self.paths.engine(group) };
        let began = Instant::now();
        loop {
            let last = match Client::connect_to(&socket, group) {
                Ok(engine) => match engine.status() {
                    Ok(status) if status.pid == child.id() => {
                        lock(&self.launched).insert(group.to_owned(), child.id());
                        self.children.watch(child);
                        self.tell_settings(&engine, group);
                        return Ok(engine);
                    }
                    _ => None,
                },
                Err(error) => Some(error),
            };
            if let Ok(Some(status)) = child.try_wait() {
                lock(&self.launched).insert(group.to_owned(), child.id());
                self.children.note(child.id(), status);
                return Err(failed(format!("it ended with {status}; see {}", log.display())));
            }
            // The process speaks another version of the protocol: to wait longer does not help.
            let is_strange = last.filter(|error| error.code == Code::Invalid);
            if is_strange.is_some() || began.elapsed() > START {
                let _ = child.kill();
                self.children.watch(child);
                let otherwise = || failed(format!("it does not listen; see {}", log.display()));
                return Err(is_strange.unwrap_or_else(otherwise));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_engine_did_not_die_of_itself() {
        let signal = |signal| died_of_itself(ExitStatus::from_raw(signal));
        assert!(signal(libc::SIGABRT) && signal(libc::SIGSEGV) && signal(libc::SIGBUS));
        assert!(!signal(libc::SIGKILL) && !signal(libc::SIGTERM));
        let code = |code: i32| died_of_itself(ExitStatus::from_raw(code << 8));
        assert!(
            !code(0) && !code(1) && !code(3),
            "a mount that was refused, a catalog that stopped"
        );
    }

    #[test]
    fn the_end_of_a_child_is_reported_once() {
        let children = Children::default();
        let child = Command::new("true").spawn().expect("started");
        let pid = child.id();
        children.watch(child);
        assert!(children.end_of(pid, GONE).is_some_and(|status| status.success()));
        assert!(children.end_of(pid, GONE).is_none());
        assert!(children.end_of(1, GONE).is_none());
    }

    #[test]
    fn a_program_that_was_replaced_is_found_where_it_was() {
        assert_eq!(installed(Path::new("/usr/bin/plinth (deleted)")), Path::new("/usr/bin/plinth"));
        assert_eq!(installed(Path::new("/usr/bin/plinth")), Path::new("/usr/bin/plinth"));
    }
}
