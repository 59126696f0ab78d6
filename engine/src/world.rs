//! Everything the engine may ask of the world, and nothing else.
//!
//! The engine has no clock, thread, socket or file of its own. In production the
//! `server` crate implements these traits with real disks and threads; in
//! simulation a seeded scheduler does, so that one seed is one history.
//!
//! What an implementation must hold:
//!
//!   1. An I/O transfers all its bytes or fails. It owns its memory until the
//!      device is done with it, also when nobody waits any more.
//!   2. `Flush` covers every write of the same disk that had ended when it was
//!      submitted. A write is durable after that, not before, unless it asked for that itself. Of a write that asked
//!      and failed, nobody knows whether it was a flush that failed (R9).
//!   3. A disk that was claimed can be claimed by nobody else until its last
//!      clone is dropped *and* its last I/O has landed (R1).

use crate::{
    completion::Completion,
    event::Event,
    sync::{
        buffer::{Buffer, Slice},
        lock,
    },
};
use futures::{Stream, StreamExt};
use std::{fmt, future::Future, io, pin::Pin, sync::Arc, time::Duration};

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
    /// Write the bytes at `offset`. `durably`: these bytes are durable when it has ended, and no others are for that.
    Write { offset: u64, data: Slice, durably: bool },
    /// Make all ended writes durable.
    Flush,
    /// Say that the bytes are no longer needed. What they read as afterwards is undefined.
    Discard { offset: u64, length: u64 },
}

/// The sizes a disk asks of its users, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sectors {
    /// The unit of addressing: 512 or 4096.
    pub logical: u32,
    /// The unit that is written atomically: 512 or 4096, not below `logical`.
    pub physical: u32,
}

/// An open disk.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Where it was found, as the operator knows it.
    fn path(&self) -> &str;
    /// Where it is now: links and names move while a disk is open. Waits a little at most.
    fn present_path(&self) -> String {
        self.path().to_owned()
    }
    /// Bytes that can be addressed.
    fn size(&self) -> u64;
    /// Asks the device how many there are now: it may have been made larger. [`Disk::size`] says so from then on.
    fn measure(&self) -> u64 {
        self.size()
    }
    fn sectors(&self) -> Sectors;
    /// What the device is, however it was reached.
    fn identity(&self) -> Identity {
        Identity(format!("path:{}", self.path()))
    }
    /// Whether `Discard` gives space back to whoever lends it.
    fn can_discard(&self) -> bool;
    /// Whether it has a beginning that is faster than its end.
    fn rotates(&self) -> bool {
        false
    }
    /// Starts one I/O. It may start only when the thread next waits.
    fn submit(&self, io: Io) -> Completion;
    /// Takes the disk for writing, against every other engine on this host (R1),
    /// and against other users of a block device. Until then only reads may be
    /// submitted.
    ///
    /// # Errors
    /// `WouldBlock` while another engine, or I/O it left behind, still holds the
    /// disk; otherwise what the operating system said.
    fn claim(&self) -> io::Result<()>;
    /// Whether somebody had claimed it when it was found, as far as one can see.
    fn was_held(&self) -> bool {
        false
    }
    /// Who has claimed it, in words for the operator. May take a while.
    fn holder(&self) -> Option<String> {
        None
    }
    /// What else lives on the disk, in words for the operator: a file system, an
    /// LVM volume, a mount. `None` if nothing is recognised.
    fn in_use_by(&self) -> Option<String>;
    /// Who uses the disk right now, in words for the operator: a mount, a loop device. It must not be taken then.
    fn user(&self) -> Option<String>;
}

/// What a device is, however it is reached: two paths with the same identity are
/// one device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity(pub String);

/// One match of the discovery string.
#[derive(Debug, Clone)]
pub struct Found {
    pub path: String,
    pub identity: Identity,
    /// The disk, opened afresh and not claimed; or why it could not be opened.
    pub disk: Result<Arc<dyn Disk>, Arc<io::Error>>,
}

/// Whether a claim failed as somebody holds the disk. Otherwise the disk itself cannot be used.
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

/// What is heard while disks are looked at.
#[derive(Debug, Clone)]
pub enum Sign {
    /// It is looked at. Nobody knows when it will answer; one of the others follows, sooner or later.
    Begun(String),
    /// It has answered; or it is known that it does not: an error of the kind `TimedOut`.
    Answered(Found),
    /// There is no disk at this path.
    NoDisk(String),
}

impl Sign {
    #[must_use]
    pub fn found(self) -> Option<Found> {
        match self {
            Self::Answered(found) => Some(found),
            Self::Begun(_) | Self::NoDisk(_) => None,
        }
    }
}

/// A look at disks that is under way.
pub struct Signs {
    /// Signs, until everything that matches the discovery string has answered or is known not to.
    pub heard: Pin<Box<dyn Stream<Item = Sign> + Send>>,
    /// `None`: nobody knows better than the clock.
    pub progress: Option<Box<dyn Progress>>,
}

/// How a look goes.
pub trait Progress: Send + Sync {
    /// For how long devices have kept it waiting, as far as that can be told from a host that is too busy to look: such time does not count in
    /// full.
    fn waited(&self) -> Duration;
    /// Whoever looked has ended, before or after the last sign: what was found cannot be read any more, and what was not found says nothing.
    fn is_broken(&self) -> bool;
}

/// Words that outlive the process that stores them, whatever ends it.
pub trait SurvivingWords: Send + Sync {
    /// All of them, as they are now.
    ///
    /// # Errors
    /// What the operating system says.
    fn words(&self) -> io::Result<Vec<u64>>;
    /// Stores one; without waiting for anybody, and each before the next.
    ///
    /// # Errors
    /// What the operating system says; then it holds what it held.
    fn store(&self, at: usize, word: u64) -> io::Result<()>;
}

/// Where code is that nobody is in a hurry for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BackgroundStage {
    /// It has not begun, and keeps nobody waiting.
    Starting,
    /// It holds something that others will want before long.
    Running,
    /// Others wait for its end.
    Awaited,
    /// It has ended what it had begun, and holds nothing.
    Finished,
}

/// The world around an engine.
pub trait World: Send + Sync {
    /// The wall clock, for times that people see. May jump.
    fn now(&self) -> Timestamp;
    /// Time since some fixed point, which never goes back.
    fn monotonic(&self) -> Duration;
    fn sleep(&self, duration: Duration) -> Task<'static, ()>;
    /// Fills `bytes` with randomness that no other host repeats.
    fn random(&self, bytes: &mut [u8]);
    /// Changes when the host loses its memory: equal ids before and after mean
    /// that a process died, not the power.
    fn boot_id(&self) -> [u8; 16];
    /// So many words of that name, zero at first: the next engine on this host finds them as this one left them, if the host has not lost its
    /// memory meanwhile. If it has they hold anything. `None`: there is no such place.
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
    /// Nobody needs the words of that name any more.
    fn forget_surviving_words(&self, _name: &str) {}
    /// The note of that name, as it was stored last on this host; it outlives processes and the host's memory.
    ///
    /// # Errors
    /// If there is one, and it cannot be read.
    fn recall(&self, _name: &str) -> io::Result<Option<String>> {
        Ok(None)
    }
    /// Stores a note, durably, in place of the one before. An empty one is none.
    ///
    /// # Errors
    /// What the operating system says; then the one before is still there.
    fn memorise(&self, _name: &str, _text: &str) -> io::Result<()> {
        Ok(())
    }
    /// Runs a task to its end, beside the others.
    fn spawn(&self, name: &str, task: Task<'static, ()>);
    /// Runs synchronous code beside the tasks: the catalog. It waits by [`World::wait`] only.
    fn spawn_synchronous(&self, name: &str, code: Box<dyn FnOnce() + Send>);
    /// Waits for a task from inside synchronous code.
    fn wait(&self, task: Pin<&mut (dyn Future<Output = ()> + Send)>);
    /// Opens every disk that the discovery string matches, in a stable order.
    fn discover(&self) -> Task<'static, Vec<Found>>;
    /// The same, each as soon as it has answered, for who does not wait for all of them. In any order.
    fn look(&self) -> Signs {
        let found = futures::stream::once(self.discover());
        let heard =
            found.flat_map(|found| futures::stream::iter(found.into_iter().map(Sign::Answered)));
        Signs { heard: Box::pin(heard), progress: None }
    }
    /// Called every now and then by synchronous code that nobody is in a hurry for: may sleep a little, so that others go first.
    fn throttle(&self, _stage: BackgroundStage) {}
    /// For how long threads that serve clients may look for what comes next before they sleep; zero, as at first: not at all.
    fn set_poll_time(&self, _time: Duration) {}
    /// Tells the operator. Never blocks.
    fn event(&self, event: Event);
}

/// Waits for a task's value from inside synchronous code.
///
/// # Panics
/// In tests, if the thread has a lock: whoever wants it would wait with it.
pub fn wait_for<T: Send>(world: &dyn World, task: impl Future<Output = T> + Send) -> T {
    assert!(lock::none_is_held(), "a lock is held while somebody waits for a disk");
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
