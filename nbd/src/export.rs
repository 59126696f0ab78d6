//! What is exported: a file of the group as a block device.
//!
//! The protocol's side of this crate knows [`Exports`] and [`Export`] alone. [`Files`] is the one that counts: names that an operator gave to
//! files of a group, over the group's [`Session`].
//!
//! A name stands for whatever file is at its path when a client opens it. From then on the client has that file, even if it is renamed or
//! removed, until it disconnects, and sees the size that it had. A file that is made shorter meanwhile reads as zeros behind its end, and
//! grows again with a write there; a volume cannot be made longer by a write, and says that there is no space.

use crate::protocol::Refused;
use futures::StreamExt;
use futures_buffered::FuturesUnorderedBounded;
use plinth_engine::{
    api::{Allocate, Attributes, Kind, Node},
    error::FileError,
    files::session::Session,
    sync::{
        buffer::Slice,
        transfer::{Found, Source},
    },
};
use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    os::fd::OwnedFd,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// Runs a task to its end on the calling thread.
pub type BlockOn = Arc<dyn Fn(Pin<&mut (dyn Future<Output = ()> + Send)>) + Send + Sync>;

/// Why a request failed: the protocol's word for it, and a text for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub error: Refused,
    pub text: String,
}

impl Failure {
    #[must_use]
    pub fn new(error: Refused, text: impl Into<String>) -> Self {
        Self { error, text: text.into() }
    }
}

pub type Result<T> = std::result::Result<T, Failure>;

/// Why there is no export to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotOpened {
    /// There is none of this name.
    Unknown,
    /// There is, but not for now.
    Refused(String),
}

/// All that a listener offers.
pub trait Exports: Send + Sync {
    fn list(&self) -> Vec<String>;

    /// Opens one.
    ///
    /// # Errors
    /// If it cannot be had.
    fn open(&self, name: &str) -> std::result::Result<Arc<dyn Export>, NotOpened>;

    /// Opens the one of this very name for a client who had it when an engine before this one ended: the same file, wherever it is now, with
    /// the size that the client knows.
    ///
    /// # Errors
    /// If it is not offered any more, or the file is gone.
    fn open_again(
        &self,
        name: &str,
        identity: (u64, u64),
        size: u64,
    ) -> std::result::Result<Arc<dyn Export>, NotOpened> {
        let export = self.open(name)?;
        if export.identity() == identity && export.size() == size {
            Ok(export)
        } else {
            Err(NotOpened::Unknown)
        }
    }
}

/// Requests that are carried out together on one thread, at most.
pub const UNDER_WAY_MAX: usize = 64;

/// A request that is carried out together with others.
#[derive(Debug)]
pub enum Small {
    Read {
        offset: u64,
        length: usize,
    },
    /// `durably`: it has ended when it is durable.
    Write {
        offset: u64,
        bytes: Slice,
        durably: bool,
    },
    Flush,
}

/// What came of one of several requests: its place, and what was found if it was a read.
pub type Ended = (usize, Result<Found>);

/// Where requests that are carried out together come from, and where their ends are told.
pub trait Feed: Send {
    /// The next one, with its place; `under_way`: so many have not ended. `None`: no more come, as with [`UNDER_WAY_MAX`] under way. Pending
    /// only where something is under way, or where the context's task will be woken.
    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        under_way: usize,
    ) -> Poll<Option<(usize, Small)>>;

    /// These have ended, and are taken out. Each is told once.
    fn ended(&mut self, ended: &mut Vec<Ended>);
}

/// What a thread of [`BlockOn`] can wait for beside the group.
pub trait Waits: Send + Sync {
    /// Until there is something to read, or for no reason. `None`: it cannot.
    fn readable(&self, socket: &Arc<OwnedFd>) -> Option<Waiting>;

    fn sleep(&self, time: Duration) -> Waiting;
}

pub type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A block device. Offsets and lengths are within its size: who calls has checked that. Calls come from many threads at a time.
pub trait Export: Send + Sync {
    fn name(&self) -> String;

    /// Which file it is, in this engine and in others: its number, and which of those that had it.
    fn identity(&self) -> (u64, u64);

    /// Bytes; fixed.
    fn size(&self) -> u64;

    fn is_read_only(&self) -> bool;

    /// What it is, for people.
    fn description(&self) -> String;

    /// # Errors
    /// If it cannot be read.
    fn read(&self, offset: u64, length: usize) -> Result<Found>;

    /// # Errors
    /// If it cannot be written.
    fn write(&self, offset: u64, bytes: Slice) -> Result<()>;

    /// Whether several requests can be under way on one thread, none of which waits for another.
    fn takes_several(&self) -> bool {
        false
    }

    /// Carries several out at the same time, and takes others as they come, until no more come and all have ended. Only where
    /// [`Self::takes_several`] says so.
    fn together(&self, feed: &mut dyn Feed) {
        // What is awaited is pinned where it is made: awaited by value it would be copied twice.
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some((place, request))) = feed.poll_next(&mut context, 0) {
            let done = match request {
                Small::Read { offset, length } => self.read(offset, length),
                Small::Write { offset, bytes, durably } => {
                    let written = self.write(offset, bytes);
                    if durably { written.and_then(|()| self.flush()) } else { written }
                        .map(|()| Found::default())
                }
                Small::Flush => self.flush().map(|()| Found::default()),
            };
            feed.ended(&mut vec![(place, done)]);
        }
    }

    /// What [`Self::together`] can wait for meanwhile.
    fn waits(&self) -> Option<Arc<dyn Waits>> {
        None
    }

    /// Makes durable whatever was acknowledged before, to whomever.
    ///
    /// # Errors
    /// If something may be lost.
    fn flush(&self) -> Result<()>;

    /// The bytes are not needed any more.
    ///
    /// # Errors
    /// If they cannot be let go.
    fn trim(&self, offset: u64, length: u64) -> Result<()>;

    /// Makes zeros, in no more time than writing them takes; `may_punch`: the space may be given back.
    ///
    /// # Errors
    /// If it cannot be written.
    fn zero(&self, offset: u64, length: u64, may_punch: bool) -> Result<()>;

    /// Where there is data and where there is none (it reads as zeros): lengths from `offset` on, `most` at most, which need not reach the end of
    /// what was asked for, and are more than none.
    ///
    /// # Errors
    /// If that cannot be found out.
    fn status(&self, offset: u64, length: u64, most: usize) -> Result<Vec<(u64, bool)>>;
}

/// A file that is offered under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Behind the group's name, as `db/disk.img`.
    pub path: String,
    pub read_only: bool,
}

/// Which of the names a client means: the very same, or else the only one that is alike but for upper and lower case; no name means the only
/// one that there is.
fn meant<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let only = |found: Vec<&'a str>| if let [one] = found[..] { Some(one) } else { None };
    if name.is_empty() {
        return only(names.to_vec());
    }
    let alike =
        || only(names.iter().copied().filter(|other| other.eq_ignore_ascii_case(name)).collect());
    names.iter().copied().find(|other| *other == name).or_else(alike)
}

/// Files of a group under names.
pub struct Files {
    session: Session,
    block_on: BlockOn,
    waits: Option<Arc<dyn Waits>>,
    offers: Mutex<BTreeMap<String, Offer>>,
}

impl Files {
    #[must_use]
    pub fn new(session: Session, block_on: BlockOn, waits: Option<Arc<dyn Waits>>) -> Self {
        Self { session, block_on, waits, offers: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Offer>> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is offered.
    #[must_use]
    pub fn offers(&self) -> BTreeMap<String, Offer> {
        self.lock().clone()
    }

    /// Offers a file that is there; what had the name has it no more.
    ///
    /// # Errors
    /// If it is not there, or no regular file.
    pub fn offer(&self, name: &str, offer: Offer) -> std::result::Result<(), FileError> {
        self.find(&offer.path)?;
        self.lock().insert(name.to_owned(), offer);
        Ok(())
    }

    /// `false`: it was not offered.
    pub fn withdraw(&self, name: &str) -> bool {
        self.lock().remove(name).is_some()
    }

    /// The file at a path, now held, and what is known of it.
    fn find(&self, path: &str) -> std::result::Result<(Held, Attributes), FileError> {
        let found = run(&self.block_on, self.session.resolve(path))?.ok_or(FileError::NotFound)?;
        self.hold(found.node)
    }

    fn hold(&self, node: Node) -> std::result::Result<(Held, Attributes), FileError> {
        self.session.remember(node, 1);
        let held = Held {
            session: self.session.clone(),
            block_on: Arc::clone(&self.block_on),
            waits: self.waits.clone(),
            node,
        };
        // It may have gone before; from here on it cannot.
        let attributes = run(&held.block_on, held.session.attributes(held.node))?;
        if attributes.kind != Kind::Regular {
            return Err(FileError::Invalid("not a regular file"));
        }
        Ok((held, attributes))
    }

    fn refused(&self, name: &str, path: &str, error: &FileError) -> NotOpened {
        let (group, path) = (self.session.group_name(), path.trim_start_matches('/'));
        NotOpened::Refused(format!("export {name}: +{group}/{path}: {error}"))
    }
}

impl Exports for Files {
    fn list(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    fn open(&self, name: &str) -> std::result::Result<Arc<dyn Export>, NotOpened> {
        let (name, offer) = {
            let offers = self.lock();
            let name = meant(name, &offers.keys().map(String::as_str).collect::<Vec<_>>())
                .map(str::to_owned);
            let name = name.ok_or(NotOpened::Unknown)?;
            let offer = offers.get(&name).ok_or(NotOpened::Unknown)?.clone();
            (name, offer)
        };
        match self.find(&offer.path) {
            Ok((held, Attributes { generation, size, .. })) => {
                Ok(Arc::new(Device { name, size, generation, read_only: offer.read_only, held }))
            }
            Err(error) => Err(self.refused(&name, &offer.path, &error)),
        }
    }

    fn open_again(
        &self,
        name: &str,
        (node, generation): (u64, u64),
        size: u64,
    ) -> std::result::Result<Arc<dyn Export>, NotOpened> {
        let offer = self.lock().get(name).ok_or(NotOpened::Unknown)?.clone();
        match self.hold(node) {
            Ok((held, attributes)) if attributes.generation == generation => Ok(Arc::new(Device {
                name: name.to_owned(),
                size,
                generation,
                read_only: offer.read_only,
                held,
            })),
            Ok(_) => Err(self.refused(name, &offer.path, &FileError::NotFound)),
            Err(error) => Err(self.refused(name, &offer.path, &error)),
        }
    }
}

/// A file that is not freed while this is there.
struct Held {
    session: Session,
    block_on: BlockOn,
    waits: Option<Arc<dyn Waits>>,
    node: Node,
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = run(&self.block_on, async {
            self.session.forget(self.node, 1).await;
            Ok(())
        });
    }
}

/// A file as a block device.
struct Device {
    held: Held,
    name: String,
    size: u64,
    generation: u64,
    read_only: bool,
}

/// The most that is punched or made zero while everybody else who uses the file waits.
const AT_ONCE: u64 = 256 << 20;

fn run<T: Send>(
    block_on: &BlockOn,
    task: impl Future<Output = std::result::Result<T, FileError>> + Send,
) -> std::result::Result<T, FileError> {
    let mut value = None;
    {
        let mut task = pin!(async { value = Some(task.await) });
        block_on(task.as_mut());
    }
    value.expect("a runner returns when the task has ended")
}

fn failure(error: &FileError) -> Failure {
    let word = match error {
        FileError::NoSpace | FileError::TooLarge => Refused::NoSpace,
        FileError::NotPermitted => Refused::NotPermitted,
        FileError::Invalid(_) => Refused::Invalid,
        FileError::NotSupported => Refused::NotSupported,
        FileError::Dismounted => Refused::ShuttingDown,
        _ => Refused::Io,
    };
    Failure::new(word, error.to_string())
}

impl Device {
    fn run<T: Send>(
        &self,
        task: impl Future<Output = std::result::Result<T, FileError>> + Send,
    ) -> Result<T> {
        run(&self.held.block_on, task).map_err(|error| failure(&error))
    }

    fn session(&self) -> &Session {
        &self.held.session
    }

    /// Behind the end of a file that was made shorter there are zeros.
    async fn find(&self, offset: u64, length: usize) -> std::result::Result<Found, FileError> {
        let mut found = pin!(self.session().find(self.held.node, offset, length)).await?;
        found.push_zeros(length.saturating_sub(found.len()));
        Ok(found)
    }

    fn allocate(&self, mut offset: u64, length: u64, mode: Allocate) -> Result<()> {
        let end = offset.saturating_add(length);
        while offset < end {
            // Cut where no piece is cut in two.
            let next = ((offset / AT_ONCE + 1) * AT_ONCE).min(end);
            self.run(self.session().allocate(self.held.node, offset, next - offset, mode, false))?;
            offset = next;
        }
        Ok(())
    }
}

impl Export for Device {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn identity(&self) -> (u64, u64) {
        (self.held.node, self.generation)
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn description(&self) -> String {
        format!("a file of disk group {}", self.session().group_name())
    }

    fn read(&self, offset: u64, length: usize) -> Result<Found> {
        self.run(self.find(offset, length))
    }

    fn takes_several(&self) -> bool {
        true
    }

    fn together(&self, feed: &mut dyn Feed) {
        let one = async |(place, request)| {
            let done = match request {
                Small::Read { offset, length } => pin!(self.find(offset, length)).await,
                Small::Write { offset, bytes, durably } => {
                    let (session, node, bytes) =
                        (self.session(), self.held.node, Source::Shared(bytes));
                    let written = if durably {
                        pin!(session.write_durably(node, offset, bytes, false, true)).await
                    } else {
                        pin!(session.write_from(node, offset, bytes, false)).await
                    };
                    written.map(|()| Found::default())
                }
                Small::Flush => {
                    pin!(self.session().sync(self.held.node, true)).await.map(|()| Found::default())
                }
            };
            (place, done.map_err(|error| failure(&error)))
        };
        // Places that are used again: nothing is asked of the allocator for a request.
        let mut under_way = FuturesUnorderedBounded::new(UNDER_WAY_MAX);
        let mut ended = Vec::with_capacity(UNDER_WAY_MAX);
        let mut more = true;
        let all = poll_fn(|context| {
            loop {
                while more {
                    match feed.poll_next(context, under_way.len()) {
                        Poll::Ready(Some(next)) => under_way.push(one(next)),
                        Poll::Ready(None) => more = false,
                        Poll::Pending => break,
                    }
                }
                // What has ended at the same time is told at the same time.
                while let Poll::Ready(Some(next)) = under_way.poll_next_unpin(context) {
                    ended.push(next);
                }
                if ended.is_empty() {
                    return if more || !under_way.is_empty() {
                        Poll::Pending
                    } else {
                        Poll::Ready(Ok(()))
                    };
                }
                feed.ended(&mut ended);
            }
        });
        let _ = run(&self.held.block_on, all);
    }

    fn waits(&self) -> Option<Arc<dyn Waits>> {
        self.held.waits.clone()
    }

    fn write(&self, offset: u64, bytes: Slice) -> Result<()> {
        self.run(self.session().write_from(self.held.node, offset, Source::Shared(bytes), false))
    }

    fn flush(&self) -> Result<()> {
        self.run(self.session().sync(self.held.node, true))
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.allocate(offset, length, Allocate::PunchHole)
    }

    fn zero(&self, offset: u64, length: u64, may_punch: bool) -> Result<()> {
        let mode =
            if may_punch { Allocate::PunchHole } else { Allocate::ZeroRange { keep_size: true } };
        self.allocate(offset, length, mode)
    }

    fn status(&self, offset: u64, length: u64, most: usize) -> Result<Vec<(u64, bool)>> {
        let mut ranges = self.run(self.session().map(self.held.node, offset, length, most))?;
        // Behind the end of a file that was made shorter.
        let told: u64 = ranges.iter().map(|(length, _)| length).sum();
        if told < length && ranges.len() < most {
            ranges.push((length - told, false));
        }
        Ok(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_another_case_is_found_if_it_is_the_only_one() {
        assert_eq!(meant("vol1", &["VOL1", "VOL2"]), Some("VOL1"));
        assert_eq!(meant("vol1", &["VOL1", "vol1"]), Some("vol1"));
        assert_eq!(meant("Vol1", &["VOL1", "vol1"]), None);
        assert_eq!(meant("", &["VOL1"]), Some("VOL1"));
        assert_eq!(meant("", &["VOL1", "VOL2"]), None);
        assert_eq!(meant("vol3", &["VOL1"]), None);
    }
}
