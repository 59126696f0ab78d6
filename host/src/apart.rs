//! Threads with a file table of their own, for I/O that may hang in the kernel.
//!
//! A killed process releases the content of its file table (locks, sockets, the lock file of the
//! only engine) when the last thread that shares the table has ended. A thread that waits in the
//! kernel for a hung device does not end, whatever signal it gets. So with one table for all
//! threads, an engine whose FUSE-backed disk hangs would keep all its *other* disks as well, and
//! its sockets, and its death would not be noticed. A thread that is started here has a table that
//! contains only the file that it works on: this thread alone keeps that file open, as R1 requires,
//! and nothing else.
//!
//! ```text
//!   main table:   starter --job, then the file (SCM_RIGHTS)--+
//!   nursery's:    nursery, which never has a disk:           |
//!                 one end of a socket; /dev/null as 0, 1, 2  |
//!   its own:      thread <--copy of the nursery's table------+--> takes the file from the socket,
//!                                                                 closes the socket, works
//! ```
//!
//! A table copied from the main one would contain everything for a moment, and closing a copied
//! descriptor of another hung disk may hang as well. So these threads are started by one thread,
//! the nursery, that was started before any disk was opened and that has closed all other
//! descriptors.
//!
//! Rules for code on such a thread, and on threads that it starts:
//!
//!   1. It uses no descriptor but the file that it was given. Numbers of the main table mean
//!      nothing here, or something else. In particular it wakes no thread and drops nothing that
//!      may own a descriptor: completed work goes to a thread of the main table.
//!   2. Descriptors 0, 1 and 2 are /dev/null, so that printed output cannot land on a disk.
//!
//! Where the kernel, or a container, does not allow a thread a file table of its own, these threads
//! share the main one, and a hung disk keeps everything in it open.
#![allow(unsafe_code)]

use rustix::{
    fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    fs::{Mode, OFlags},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    },
};
use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    sync::{Mutex, OnceLock, PoisonError, mpsc},
    thread,
};

type Work = Box<dyn FnOnce(File) + Send>;

struct Job {
    name: String,
    work: Work,
    /// Sent twice: when the thread is ready to take the file, and when it has it.
    tell: mpsc::Sender<io::Result<()>>,
}

struct Nursery {
    jobs: mpsc::Sender<Job>,
    socket: OwnedFd,
}

/// `None` if threads cannot have file tables of their own here.
static NURSERY: OnceLock<Option<Mutex<Nursery>>> = OnceLock::new();

/// Starts the nursery, once per process, before a disk is opened in it.
pub(super) fn prepare() {
    NURSERY.get_or_init(|| Nursery::start().ok().map(Mutex::new));
}

/// Starts a thread that has a file table of its own with a duplicate of `file` in it. When this
/// returns, the thread has the file.
///
/// # Errors
/// If no thread can be started, or no descriptor is left.
pub(super) fn start(
    name: &str,
    file: &File,
    work: impl FnOnce(File) + Send + 'static,
) -> io::Result<()> {
    prepare();
    let Some(nursery) = NURSERY.get().and_then(Option::as_ref) else {
        let file = file.try_clone()?;
        return thread::Builder::new().name(name.to_owned()).spawn(move || work(file)).map(drop);
    };
    // One start at a time: there is one socket, and the next thread that reads it gets the file.
    let nursery = nursery.lock().unwrap_or_else(PoisonError::into_inner);
    let (tell, told) = mpsc::channel();
    let gone = || io::Error::other("the thread that starts threads for disks is gone");
    nursery
        .jobs
        .send(Job { name: name.to_owned(), work: Box::new(work), tell })
        .map_err(|_| gone())?;
    told.recv().map_err(|_| gone())??;
    let sent = send(nursery.socket.as_fd(), Some(file.as_fd()));
    if sent.is_err() {
        // The thread waits on the socket. If it stayed there, it would get the file that is meant
        // for the next thread: another disk.
        if let Err(error) = send(nursery.socket.as_fd(), None) {
            panic!(
                "a thread waits for the file of its disk, and cannot be told that there is none: {error}"
            );
        }
    }
    let taken = told.recv().map_err(|_| gone())?;
    sent.and(taken)
}

impl Nursery {
    fn start() -> io::Result<Self> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(io::Error::from)?;
        let (jobs, todo) = mpsc::channel::<Job>();
        let (tell, told) = mpsc::channel();
        let socket = theirs.as_raw_fd();
        let serve = move || match leave_all_but(socket) {
            Ok(()) => {
                let _ = tell.send(Ok(()));
                todo.into_iter().for_each(|job| begin(job, socket));
            }
            Err(error) => drop(tell.send(Err(error))),
        };
        thread::Builder::new().name("nursery".into()).spawn(serve)?;
        told.recv().map_err(io::Error::other)??;
        Ok(Self { jobs, socket: ours })
        // `theirs` is closed here: the nursery has its own.
    }
}

/// On the nursery's thread: starts the thread of a job.
fn begin(job: Job, socket: RawFd) {
    let Job { name, work, tell } = job;
    let failed = tell.clone();
    let code = move || {
        let file = have_own_table().and_then(|()| {
            let _ = tell.send(Ok(()));
            // SAFETY: this table is a copy of the nursery's, in which that number is the socket,
            // and no other code uses this one.
            let socket = unsafe { OwnedFd::from_raw_fd(socket) };
            receive(socket.as_fd())
        });
        match file {
            Ok(file) => {
                let _ = tell.send(Ok(()));
                work(file);
            }
            Err(error) => drop(tell.send(Err(error))),
        }
    };
    if let Err(error) = thread::Builder::new().name(name).spawn(code) {
        let _ = failed.send(Err(error));
    }
}

/// Gives this thread a file table of its own that contains only `socket` and /dev/null.
fn leave_all_but(socket: RawFd) -> io::Result<()> {
    have_own_table()?;
    let socket_number = socket.cast_unsigned();
    let mut ranges = vec![(socket_number + 1, libc::c_uint::MAX)];
    if socket_number > 0 {
        ranges.push((0, socket_number - 1));
    }
    for (first, last) in ranges {
        // SAFETY: no other thread shares this table, and this thread owns no descriptor in it but
        // the socket.
        if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == -1 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::ENOSYS) {
                return Err(error);
            }
            close_each(socket)?;
        }
    }
    loop {
        let null: OwnedFd =
            rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        // It is to stay open.
        let number = std::mem::ManuallyDrop::new(null).as_raw_fd();
        if number >= 2 {
            return Ok(());
        }
    }
}

/// For kernels without `close_range` (before Linux 5.9).
fn close_each(socket: RawFd) -> io::Result<()> {
    let names = std::fs::read_dir("/proc/thread-self/fd")?.flatten();
    let numbers: Vec<RawFd> =
        names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number != socket) {
        // SAFETY: as above. One of them was the directory, which is closed already.
        unsafe { libc::close(number) };
    }
    Ok(())
}

/// Gives this thread a copy of its table, for itself. `close_range` may be allowed where containers
/// forbid `unshare`.
fn have_own_table() -> io::Result<()> {
    const CLOSE_RANGE_UNSHARE: libc::c_uint = 2;
    let last = libc::c_uint::MAX;
    // SAFETY: closes a descriptor that no process can have; otherwise it only gives this thread a
    // table of its own.
    if unsafe { libc::syscall(libc::SYS_close_range, last, last, CLOSE_RANGE_UNSHARE) } == 0 {
        return Ok(());
    }
    // SAFETY: every later use of a descriptor by this thread is in its own table.
    match unsafe { libc::unshare(libc::CLONE_FILES) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn send(socket: BorrowedFd<'_>, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd<'_>> = file.into_iter().collect();
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("no room for a descriptor"));
    }
    sendmsg(socket, &[IoSlice::new(&[1])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive(socket: BorrowedFd<'_>) -> io::Result<File> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    loop {
        match recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut byte)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let received = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    received.map(File::from).ok_or_else(|| io::Error::other("no file came with the message"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, fs, io::Write};

    /// The content of a thread's file table, by the kernel's names.
    fn table() -> BTreeSet<String> {
        let links = fs::read_dir("/proc/thread-self/fd").expect("/proc").flatten();
        links
            .filter_map(|link| Some(fs::read_link(link.path()).ok()?.to_str()?.to_owned()))
            .collect()
    }

    /// Whatever other files the process has open, such a thread has its file open and no other; and
    /// its printed output is discarded.
    #[test]
    fn a_thread_apart_holds_its_file_alone() {
        prepare();
        let directory = tempfile::tempdir().expect("temporary directory");
        let (mine, other) = (directory.path().join("mine"), directory.path().join("other"));
        fs::write(&mine, "bytes").expect("write");
        let _others: Vec<File> = (0..100).map(|_| File::create(&other).expect("open")).collect();
        let file = File::open(&mine).expect("open");
        let (tell, told) = mpsc::channel();
        start("apart", &file, move |file| {
            let _ = io::stderr().write_all(b"");
            let read = io::read_to_string(&file);
            tell.send((table(), read)).expect("the test waits");
        })
        .expect("a thread");
        let (held, read) = told.recv().expect("it answers");
        assert_eq!(read.expect("it reads"), "bytes");
        let strange: Vec<&String> = held
            .iter()
            .filter(|link| {
                *link != "/dev/null"
                    && !link.starts_with("/proc/")
                    && **link != *mine.to_str().expect("UTF-8")
            })
            .collect();
        assert!(strange.is_empty(), "it holds {strange:?}, too");
        assert!(held.contains(mine.to_str().expect("UTF-8")));
    }
}
