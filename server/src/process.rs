//! Requests of a process to the operating system: signals, the peer of a socket, a lock that makes
//! a process the only one of its kind.
#![allow(unsafe_code)]

use rustix::{
    fd::AsFd,
    fs::{FlockOperation, flock},
    net::sockopt::socket_peercred,
};
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    mem::MaybeUninit,
    os::unix::{fs::OpenOptionsExt, process::CommandExt},
    path::Path,
    process::Command,
    ptr,
};

/// The process at the other end of a unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    pub pid: i32,
    pub uid: u32,
}

impl Peer {
    /// # Errors
    /// If the operating system refuses.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let credentials = socket_peercred(socket)?;
        Ok(Self { pid: credentials.pid.as_raw_nonzero().get(), uid: credentials.uid.as_raw() })
    }

    /// Whether the peer may administer: root may, and the user that this process runs as.
    #[must_use]
    pub fn administers(&self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }
}

/// Locks the file at `path`, as the only process of a kind, and writes this pid into it. The lock
/// is held until the file is dropped; `None` if another process holds it.
///
/// # Errors
/// If the file cannot be opened or written.
pub fn only_one(path: &Path) -> io::Result<Option<File>> {
    let mut file =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o644).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())?;
    Ok(Some(file))
}

/// Has threads share freed memory. Otherwise each of many threads keeps its own, and since an
/// engine's memory is locked, the kernel cannot take it back.
pub fn share_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: a number, and no other thread allocates differently for it.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 4);
    }
}

/// Raises the limit of open descriptors as far as allowed: an engine has five for each NBD client,
/// the instance two.
pub fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let most = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
}

/// Has a program begin with its standard input, output and error alone. Our descriptors are closed
/// in it anyway; those that this process was started with are not.
pub fn close_others(command: &mut Command) {
    let first: libc::c_uint = 3;
    let close = move || {
        // SAFETY: a system call with numbers only. Kernels before 5.11 refuse it.
        unsafe {
            libc::syscall(
                libc::SYS_close_range,
                first,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            );
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes one system call, and allocates nothing.
    unsafe {
        command.pre_exec(close);
    }
}

const ENDING: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

fn ending() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set, `sigaddset` changes it; both get a valid pointer.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in ENDING {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// Blocks the signals that end a process, so that [`wait_for_end`] gets them. To be called before
/// any thread starts; programs that are started later get the usual signals.
pub fn keep_signals() {
    let set = ending();
    // SAFETY: a valid set; the old one is not wanted.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
    }
}

/// Waits for a signal that ends this process.
pub fn wait_for_end() {
    let set = ending();
    let mut signal = 0;
    // SAFETY: a valid set and a place for the signal.
    while unsafe { libc::sigwait(&raw const set, &raw mut signal) } != 0 {}
}
