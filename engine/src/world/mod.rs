//! The engine's interface to the world: everything that it uses of its host.
//!
//! The engine has no clock, thread, socket or file of its own. In production the `host` crate
//! implements these traits with real disks and threads; in simulation a seeded scheduler does, so
//! that one seed is one history.
//!
//! Rules for an implementation:
//!
//!   1. An I/O transfers all its bytes or fails. It owns its memory until the device is done with
//!      it, even if it is not waited for any more.
//!   2. `Flush` covers every write of the same disk that had ended when it was submitted. A write
//!      is durable after that, not before, unless it was a durable write. If a durable write fails,
//!      a flush may have failed in it (R9).
//!   3. A disk that was claimed cannot be claimed again until its last clone is dropped *and* its
//!      last I/O has landed (R1).

pub mod discard_limits;

use self::discard_limits::{DiscardLimits, NoDiscards};
use crate::{
    completion::Completion,
    event::Event,
    sync::{
        buffer::{Buffer, Slice},
        lock,
    },
};
use futures::{Stream, StreamExt};
use std::{fmt, future::Future, io, ops::Range, pin::Pin, sync::Arc, time::Duration};

/// A future that can move between threads.
pub type Task<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Nanoseconds since 1970-01-01 00:00 UTC.
pub type Timestamp = i64;

/// One I/O on a disk. Offsets and lengths are bytes, multiples of the disk's
/// logical sector.
#[derive(Debug)]
pub enum Io {
    /// Fill the buffer, whole, from `offset`. It comes back in `Done`.
    Read { offset: u64, buffer: Buffer },
    /// Write the bytes at `offset`. `durably`: these bytes are durable when it has ended; other
    /// writes are not.
    Write { offset: u64, data: Slice, durably: bool },
    /// Make all ended writes durable.
    Flush,
    /// Discard the bytes: whole units of the disk's [`DiscardLimits`], and not more than they
    /// allow. Their content afterwards is undefined.
    Discard { offset: u64, length: u64 },
    /// Make the bytes zeros. The device may be able to do that without a transfer of zeros.
    WriteZeroes { offset: u64, length: u64 },
}

/// The sector sizes of a disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sectors {
    /// The unit of addressing: 512 or 4096.
    pub logical: u32,
    /// The unit that is written atomically: 512 or 4096, not below `logical`.
    pub physical: u32,
}

/// An open disk.
pub trait Disk: Send + Sync + fmt::Debug {
    /// The path at which it was found, as the operator knows it.
    fn path(&self) -> &str;
    /// Its present path: links and names move while a disk is open. Waits a little at most.
    fn present_path(&self) -> String {
        self.path().to_owned()
    }
    /// The path of its device: another one if it was found by its label.
    fn device(&self) -> String {
        self.path().to_owned()
    }
    /// Bytes that can be addressed.
    fn size(&self) -> u64;
    /// Asks the device for its present size: it may have been made larger. [`Disk::size`] returns
    /// that size from then on.
    fn measure(&self) -> u64 {
        self.size()
    }
    fn sectors(&self) -> Sectors;
    /// The identity of the device, independent of its path.
    fn identity(&self) -> Identity {
        Identity(format!("path:{}", self.path()))
    }
    /// Which `Discard`s give space back to the array or file system below; or why none does.
    fn discards(&self) -> Result<DiscardLimits, NoDiscards>;
    /// Whether `Discard` gives space back.
    fn can_discard(&self) -> bool {
        self.discards().is_ok()
    }
    /// The bytes that its space takes in the file system, where that can be seen: of a file, or of
    /// a loop device over a file. Waits a little at most.
    fn allocated(&self) -> Option<u64> {
        None
    }
    /// Those of the bytes in `ranges` that take no space in the file system, where that can be
    /// seen. Waits a little at most.
    fn unwritten(&self, _ranges: &[Range<u64>]) -> Option<u64> {
        None
    }
    /// Where its space comes from if it is thin. Waits a little at most.
    fn space_from(&self) -> SpaceFrom {
        SpaceFrom { words: format!("the storage below {}", self.present_path()), pool: None }
    }
    /// Whether it is a rotating disk: its beginning is faster than its end.
    fn rotates(&self) -> bool {
        false
    }
    /// Starts one I/O. It may start only when the thread next waits.
    fn submit(&self, io: Io) -> Completion;
    /// Claims the disk for writing, against every other engine on this host (R1), and against other
    /// users of a block device. Until then only reads may be submitted.
    ///
    /// # Errors
    /// `WouldBlock` while another engine, or I/O it left behind, still holds the disk; otherwise
    /// the operating system's error.
    fn claim(&self) -> io::Result<()>;
    /// Whether another process had claimed it when it was found, as far as can be seen.
    fn was_held(&self) -> bool {
        false
    }
    /// The process that has claimed it, in words for the operator. May take a while.
    fn holder(&self) -> Option<String> {
        None
    }
    /// Another use of the disk, in words for the operator: a file system, an LVM volume, a mount.
    /// `None` if nothing is recognised.
    fn in_use_by(&self) -> Option<String>;
    /// The present user of the disk, in words for the operator: a mount, a loop device. It must not
    /// be taken then.
    fn user(&self) -> Option<String>;
}

/// Where the space of a thin disk comes from: a thin pool, a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceFrom {
    /// In words for the operator who is to make room.
    pub words: String,
    /// The same of two disks if they share it. `None`: not known, as with arrays.
    pub pool: Option<String>,
}

/// The identity of a device: two paths with the same identity are one device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity(pub String);

/// One match of the discovery string.
#[derive(Debug, Clone)]
pub struct Found {
    pub path: String,
    pub identity: Identity,
    /// The disk, just opened and not claimed; or why it could not be opened.
    pub disk: Result<Arc<dyn Disk>, Arc<io::Error>>,
}

/// Whether a claim failed because another process holds the disk. Otherwise the disk itself cannot
/// be used.
#[must_use]
pub fn is_held(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy)
}

impl<T: Progress + ?Sized> Progress for Arc<T> {
    fn waited(&self) -> Duration {
        (**self).waited()
    }

    fn is_broken(&self) -> bool {
        (**self).is_broken()
    }
}

/// A device that discovery does not use, and the reason, in words for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedOver {
    pub path: String,
    pub why: String,
}

/// An event of a discovery.
#[derive(Debug, Clone)]
pub enum Sign {
    /// A device is being opened. One of the others follows, sooner or later.
    Begun(String),
    /// It has answered; or it is known that it does not: an error of the kind `TimedOut`.
    Answered(Found),
    /// There is no disk at this path.
    NoDisk(String),
    /// There is one, and it is not used.
    PassedOver(PassedOver),
}

impl Sign {
    #[must_use]
    pub fn found(self) -> Option<Found> {
        match self {
            Self::Answered(found) => Some(found),
            Self::Begun(_) | Self::NoDisk(_) | Self::PassedOver(_) => None,
        }
    }
}

/// A discovery in progress.
pub struct Signs {
    /// Its events, until everything that matches the discovery string has answered or is known not
    /// to.
    pub heard: Pin<Box<dyn Stream<Item = Sign> + Send>>,
    /// `None`: the clock is the only measure.
    pub progress: Option<Box<dyn Progress>>,
}

/// The progress of a discovery.
pub trait Progress: Send + Sync {
    /// For how long devices have kept it waiting. Time in which the host was too busy to ask them
    /// does not count in full.
    fn waited(&self) -> Duration;
    /// The process that looks for disks has ended, before or after the last event: disks that were
    /// found cannot be read any more, and the list is not complete.
    fn is_broken(&self) -> bool;
}

/// Words that survive the process that stores them, however it ends.
pub trait SurvivingWords: Send + Sync {
    /// All of them, as they are now.
    ///
    /// # Errors
    /// The operating system's.
    fn words(&self) -> io::Result<Vec<u64>>;
    /// Stores one; without waiting, and each before the next.
    ///
    /// # Errors
    /// The operating system's; then the word keeps its former value.
    fn store(&self, at: usize, word: u64) -> io::Result<()>;
}

/// The stage of background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BackgroundStage {
    /// It has not begun, and blocks nothing.
    Starting,
    /// It holds a resource that other work will need before long.
    Running,
    /// Other work waits for its end.
    Awaited,
    /// It has ended, and holds nothing.
    Finished,
}

/// The world around an engine.
pub trait World: Send + Sync {
    /// The wall clock, for times that people see. May jump.
    fn now(&self) -> Timestamp;
    /// Time since some fixed point, which never goes back.
    fn monotonic(&self) -> Duration;
    fn sleep(&self, duration: Duration) -> Task<'static, ()>;
    /// The same, exact to some microseconds: it may busy-poll at its end.
    fn sleep_precisely(&self, duration: Duration) -> Task<'static, ()> {
        self.sleep(duration)
    }
    /// Fills `bytes` with randomness that no other host repeats.
    fn random(&self, bytes: &mut [u8]);
    /// Changes when the host loses its memory: equal ids before and after mean
    /// that a process died, not the power.
    fn boot_id(&self) -> [u8; 16];
    /// `count` named words, zero at first use, that survive this process: the next engine on this
    /// host reads what this one wrote, unless the host has lost its memory. Then their content is
    /// undefined. `None`: there is no place for them.
    ///
    /// # Errors
    /// If there are such words, and they cannot be read.
    fn surviving_words(
        &self,
        _name: &str,
        _words: usize,
    ) -> io::Result<Option<Arc<dyn SurvivingWords>>> {
        Ok(None)
    }
    /// Removes the words of that name.
    fn forget_surviving_words(&self, _name: &str) {}
    /// The note of that name, as it was stored last on this host; it survives processes and the
    /// host's memory.
    ///
    /// # Errors
    /// If there is one, and it cannot be read.
    fn recall(&self, _name: &str) -> io::Result<Option<String>> {
        Ok(None)
    }
    /// Stores a note, durably, in place of the former one. An empty note removes it.
    ///
    /// # Errors
    /// The operating system's; then the former note is still there.
    fn memorise(&self, _name: &str, _text: &str) -> io::Result<()> {
        Ok(())
    }
    /// Runs a task to its end, concurrently with the others.
    fn spawn(&self, name: &str, task: Task<'static, ()>);
    /// Runs synchronous code, the catalog, concurrently with the tasks. It waits by [`World::wait`]
    /// only.
    fn spawn_synchronous(&self, name: &str, code: Box<dyn FnOnce() + Send>);
    /// Waits for a task from inside synchronous code.
    fn wait(&self, task: Pin<&mut (dyn Future<Output = ()> + Send)>);
    /// Opens every disk that the discovery string matches, in a stable order.
    fn discover(&self) -> Task<'static, Vec<Found>>;
    /// The same, but each disk is reported as soon as it has answered, in any order.
    fn look(&self) -> Signs {
        let found = futures::stream::once(self.discover());
        let heard =
            found.flat_map(|found| futures::stream::iter(found.into_iter().map(Sign::Answered)));
        Signs { heard: Box::pin(heard), progress: None }
    }
    /// Called now and then by synchronous background code: it may sleep a little, so that other
    /// work goes first.
    fn throttle(&self, _stage: BackgroundStage) {}
    /// For how long threads that serve clients may look for what comes next before they sleep;
    /// zero, as at first: not at all.
    fn set_poll_time(&self, _time: Duration) {}
    /// Tells the operator. Never blocks.
    fn event(&self, event: Event);
}

/// Waits for a task's value from inside synchronous code.
///
/// # Panics
/// In tests, if the thread has a lock: whoever wants it would wait with it.
pub fn wait_for<T: Send>(world: &dyn World, task: impl Future<Output = T> + Send) -> T {
    assert!(lock::none_is_held(), "a lock is held while a thread waits for a disk");
    run_for_value(|task| world.wait(task), task)
}

/// Runs a future for its value, by a runner that runs futures without one.
///
/// # Panics
/// If the runner returns before the future has ended.
pub fn run_for_value<T: Send>(
    run: impl FnOnce(Pin<&mut (dyn Future<Output = ()> + Send)>),
    task: impl Future<Output = T> + Send,
) -> T {
    let mut value = None;
    {
        let mut task = std::pin::pin!(async { value = Some(task.await) });
        run(task.as_mut());
    }
    value.expect("a runner returns when the future has ended")
}
