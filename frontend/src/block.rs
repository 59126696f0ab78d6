//! A file as a block device, for protocols of block devices (NBD; vhost-user, ublk).
//!
//! A protocol calls the methods of [`BlockDevice`], each of which blocks the calling thread. Where
//! [`BlockDevice::can_multiplex`] says so, one thread can have many small requests in flight:
//!
//! ```text
//!   RequestSource::poll_next --request--> in flight --done--> RequestSource::completed
//!           ^                                                         |
//!           +---------------------------------------------------------+
//! ```
//!
//! The protocol implements [`RequestSource`]: it parses requests as they come, and sends replies.

use crate::Runner;
use plinth_engine::{
    error::FileError,
    sync::{buffer::Slice, transfer::Found},
};
use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

pub type Result<T> = std::result::Result<T, FileError>;

/// Requests in flight on one thread, at most.
pub const IN_FLIGHT_MAX: usize = 64;

/// A small request, which is carried out beside others on one thread.
#[derive(Debug)]
pub enum InlineRequest {
    Read {
        offset: u64,
        length: usize,
    },
    /// `durably`: it is complete when its bytes are durable.
    Write {
        offset: u64,
        bytes: Slice,
        durably: bool,
    },
    Flush,
}

/// The result of an inline request: the request's tag, and the bytes if it was a read.
pub type Completed = (usize, Result<Found>);

/// Where inline requests come from, and where their results go.
pub trait RequestSource: Send {
    /// The next request, with a tag that the source chose. `in_flight` requests are not complete
    /// yet. `None`: no more come; that is also the answer with [`IN_FLIGHT_MAX`] in flight. Pending
    /// only if requests are in flight, or if the context's task will be woken.
    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        in_flight: usize,
    ) -> Poll<Option<(usize, InlineRequest)>>;

    /// These are complete; the source takes all of them out. Each request is passed once.
    fn completed(&mut self, completed: &mut Vec<Completed>);
}

/// A block device. The caller has checked that offsets and lengths are within its size. Methods are
/// called by many threads at the same time.
pub trait BlockDevice: Send + Sync {
    fn name(&self) -> String;

    /// The file's number, and its generation: which of the files that had this number. Both are the
    /// same in every engine of the group.
    fn identity(&self) -> (u64, u64);

    /// Bytes; fixed.
    fn size(&self) -> u64;

    fn is_read_only(&self) -> bool;

    /// A text for people.
    fn description(&self) -> String;

    /// # Errors
    /// If it cannot be read.
    fn read(&self, offset: u64, length: usize) -> Result<Found>;

    /// # Errors
    /// If it cannot be written.
    fn write(&self, offset: u64, bytes: Slice) -> Result<()>;

    /// Whether [`Self::multiplex`] has several requests in flight, none of which waits for another.
    fn can_multiplex(&self) -> bool {
        false
    }

    /// Carries out the requests of a source on this thread, as many at a time as come, until no
    /// more come and all are complete.
    fn multiplex(&self, source: &mut dyn RequestSource) {
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some((tag, request))) = source.poll_next(&mut context, 0) {
            let done = match request {
                InlineRequest::Read { offset, length } => self.read(offset, length),
                InlineRequest::Write { offset, bytes, durably } => {
                    let written = self.write(offset, bytes);
                    if durably { written.and_then(|()| self.flush()) } else { written }
                        .map(|()| Found::default())
                }
                InlineRequest::Flush => self.flush().map(|()| Found::default()),
            };
            source.completed(&mut vec![(tag, done)]);
        }
    }

    /// The runner by which a source can wait in [`Self::multiplex`]. `None`: it cannot wait.
    fn runner(&self) -> Option<Arc<dyn Runner>> {
        None
    }

    /// Makes every write durable that was acknowledged before, to this client or to others.
    ///
    /// # Errors
    /// If something may be lost.
    fn flush(&self) -> Result<()>;

    /// The bytes are no longer needed.
    ///
    /// # Errors
    /// If their space cannot be freed.
    fn trim(&self, offset: u64, length: u64) -> Result<()>;

    /// Makes the bytes zeros, in no more time than writing them takes. `may_punch`: their space may
    /// be freed.
    ///
    /// # Errors
    /// If it cannot be written.
    fn zero(&self, offset: u64, length: u64, may_punch: bool) -> Result<()>;

    /// Where the device has data (`true`) and where holes, which read as zeros: lengths from
    /// `offset` on, at least one and `most` at most. They may end before `offset + length`.
    ///
    /// # Errors
    /// If the map cannot be read.
    fn status(&self, offset: u64, length: u64, most: usize) -> Result<Vec<(u64, bool)>>;
}
