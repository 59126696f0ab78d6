//! Blocking system calls with a timeout.
//!
//! Reads and writes have deadlines (R2). Opening, locking and closing have none and cannot be
//! interrupted: closing a file has its file system flush. They can hang as long as a disk does.
//! Each is done on a thread of its own; a caller whose timeout passes leaves that thread behind.

use std::{fs::File, io, ops::Deref, sync::mpsc, thread, time::Duration};

/// How long a disk may take to be opened, locked or probed: longer than the kernel's own retries on
/// a path that comes back.
pub(super) const DISK_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a close is waited for. It takes microseconds, and then a caller that dropped a disk
/// finds it free; a close that hangs must not hold up a thread that serves other disks.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(200);

/// Runs `work` on a thread of its own.
///
/// # Errors
/// `TimedOut` if it takes longer than `timeout`; its result is dropped later.
pub(super) fn within<T: Send + 'static>(
    timeout: Duration,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (tell, told) = mpsc::channel();
    thread::Builder::new().name(name.to_owned()).spawn(move || drop(tell.send(work())))?;
    told.recv_timeout(timeout).map_err(|_| no_answer(timeout))
}

/// The error of a disk that did not answer in time.
pub(super) fn no_answer(timeout: Duration) -> io::Error {
    let text = format!("no answer within {} s: the device hangs", timeout.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// An open file whose close does not hang.
#[derive(Debug)]
pub(super) struct Handle(Option<File>);

impl Handle {
    pub(super) fn new(file: File) -> Self {
        Self(Some(file))
    }
}

impl Deref for Handle {
    type Target = File;
    fn deref(&self) -> &File {
        self.0.as_ref().expect("closed only when dropped")
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let file = self.0.take();
        // Without a thread it is closed right here; after a timeout, some time later.
        let _ = within(CLOSE_TIMEOUT, "disk-close", move || drop(file));
    }
}
