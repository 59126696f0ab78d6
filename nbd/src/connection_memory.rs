//! The memory of a connection that outlives its engine.
//!
//! Whoever supervises engines keeps two descriptors of each connection: its socket, and a memory file that is mapped here. When an engine is
//! gone, killed at whatever instruction, the next one maps the same memory, and finds which bytes were taken from the socket, which requests
//! they hold, which of those were carried out, and which bytes of which reply were sent. It goes on there.
//!
//! What moves bytes and what notes it are one system call: `recvmmsg` and `sendmmsg` write how many bytes they moved into the memory itself
//! (`msg_len`), before the kernel can end the thread. All else are single stores, each of which leads from one consistent state to another:
//!
//! ```text
//!   receive   fill the idle half (bytes so far, where the next ones go, msg_len 0) -> RECEIVING names it -> recvmmsg
//!   take      copy the request into a free slot: TAKEN -> PARSED is behind it. A slot counts only if it begins before PARSED
//!   carry out the group has done it -> the slot is DONE, with the result -> whoever waits for the same bytes may begin (range_lock.rs)
//!   answer    stage the reply, list it in the idle batch -> fill the idle half -> SENDING names it -> sendmmsg ... -> the slots are FREE
//! ```
//!
//! At any instant: the bytes taken from the socket are BASE of the half that RECEIVING names, plus its `msg_len`; those given to it the same of
//! SENDING. A reply of the batch is answered if all of it was given to the socket, whatever its slot says; partly given, its rest is sent first,
//! a read's from the disks again.
//!
//! The stores of one thread are seen in their order: they are releases, and the memory is that of the processor until the thread is gone. A
//! half is filled only while it is idle, and has no meaning then.
//!
//! The payload of a large write is received where it stays: its half has the slot as its target, and everything before it in the stream is
//! parsed. Of a request that is refused nothing is kept but the header; PARSED moves through what is skipped.
//!
//! The layout is that of one version of the program and one kind of processor: another `VERSION` is not resumed, and the client cut.
#![allow(unsafe_code)]

use crate::{
    protocol::{REQUEST_HEADER, Request, command},
    transmit::SMALL_MAX,
};
use rustix::{
    fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    fs::{FallocateFlags, MemfdFlags, fallocate, fstat, ftruncate, memfd_create},
    io::{Errno, pread},
    mm::{MapFlags, ProtFlags, mlock, mmap, munlock, munmap},
    process::{Resource, getrlimit},
};
use std::{
    io::{self, IoSlice},
    mem::offset_of,
    ops::Range,
    ptr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
};

const MAGIC_VALUE: u64 = u64::from_le_bytes(*b"PLNTHNBD");
/// Of this layout, and of what the fields mean.
const VERSION_VALUE: u32 = 1;

// The head.
const MAGIC: usize = 0; //           u64
const VERSION: usize = 8; //         u32
const ENDED: usize = 12; //          u32; 1: the connection is over, and nothing of it is carried out again
const ID: usize = 16; //             u64
const SIZE: usize = 24; //           u64; the export's, as the client was told
const FILE: usize = 32; //           u64; which file it is: its node
const GENERATION: usize = 40; //     u64; and which of those that had this number
const TERMS: usize = 48; //          u32; bits: 1 structured replies, 2 base:allocation, 4 read-only
const NAME_LENGTH: usize = 52; //    u32
const PLACE_LENGTH: usize = 56; //   u32
const PARSED: usize = 64; //         u64; bytes of the stream that are in slots, or skipped
const RECEIVING: usize = 72; //      u32; the half that counts
const SENDING: usize = 76; //        u32; the same
const RECEIVE: usize = 128; //       two halves
const SEND: usize = 384; //          two halves
const HALF: usize = 128;
// A half.
const BASE: usize = 0; //            u64; bytes before this call
const ORIGIN: usize = 8; //          u64; receiving: the byte of the stream that is the first of the target
const TARGET: usize = 16; //         u32; receiving: 0 the ring, else a slot and one. Sending: the batch
const VECTOR: usize = 32; //         struct iovec
const MESSAGE: usize = 48; //        struct mmsghdr

const NAME: usize = 4096;
const PLACE: usize = 8192;
const TEXT_MAX: usize = 4096;

const BATCH: usize = 12288; //       two of them
const BATCH_SIZE: usize = 4096;
// A batch.
const BEGIN: usize = 0; //           u64; the byte of the replies at which it begins
const COUNT: usize = 8; //           u32
const PART: usize = 64; //           its parts
const PART_SIZE: usize = 32;
// A part: a reply.
const PART_START: usize = 0; //      u64; the request's START
const PART_SLOT: usize = 8; //       u32
const PART_STAGED: usize = 12; //    u32; where its first bytes are staged
const PART_LENGTH: usize = 16; //    u32; how many those are
const PART_DATA: usize = 20; //      u32; so many bytes of the file follow them

const SLOT: usize = BATCH + 2 * BATCH_SIZE;
const SLOT_SIZE: usize = 64;
// A slot: a request.
const STATE: usize = 0; //           u32; FREE, TAKEN, DONE
const ROOM: usize = 4; //            u32; where its payload is: 0 nowhere, SMALL_ROOM, or a large room and two
const START: usize = 8; //           u64; the byte of the stream at which the request begins
const RESULT: usize = 16; //         u32; DONE: 0, or the error
const HEADER: usize = 24; //         as it came

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const DONE: u32 = 2;
const SMALL_ROOM: u32 = 1;
const FIRST_LARGE: u32 = 2;

/// Replies in one batch: all that one thread has under way.
pub(crate) const BATCH_MAX: usize = 64;
/// More than there can be requests: 16 workers with 64 each, and one for each of them that is large.
const SLOTS: usize = 1088;
/// Payloads of more than [`SMALL_MAX`]: one for each worker.
const LARGES: usize = 17;
const LARGE_SIZE: usize = 32 << 20;
/// Small rooms whose memory is kept when they are free: a queue of small requests. 4 MiB at most.
const SMALL_KEPT: u32 = 64;

/// So much memory of a large room is kept: enough for what kernels and copying programs write, many at a time or one MiB after the other. 7 MiB at
/// most.
const fn kept_of_large(room: u32) -> usize {
    if room < 4 { 1 << 20 } else { 256 << 10 }
}

const STAGE: usize = (SLOT + SLOTS * SLOT_SIZE).next_multiple_of(4096);
/// A batch of the longest errors, or one answer about data and holes.
const STAGE_SIZE: usize = 512 << 10;
const RING: usize = STAGE + STAGE_SIZE;
/// Bytes that are read ahead.
pub(crate) const RING_SIZE: usize = 256 << 10;
const SMALL: usize = RING + RING_SIZE;
const SMALL_SIZE: usize = SMALL_MAX as usize;
const LARGE: usize = SMALL + SLOTS * SMALL_SIZE;
/// Most of it is never touched, and takes no memory.
const TOTAL: usize = LARGE + LARGES * LARGE_SIZE;

const _: () = {
    assert!(
        MESSAGE + size_of::<libc::mmsghdr>() <= HALF
            && VECTOR + size_of::<libc::iovec>() <= MESSAGE
    );
    assert!(RECEIVE + 2 * HALF <= SEND && SEND + 2 * HALF <= NAME);
    assert!(PART + BATCH_MAX * PART_SIZE <= BATCH_SIZE && HEADER + REQUEST_HEADER <= SLOT_SIZE);
};

/// What a connection is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct About {
    /// Where its server listens.
    pub place: String,
    pub export: String,
    pub identity: (u64, u64),
    pub size: u64,
    pub read_only: bool,
    pub structured: bool,
    pub allocation: bool,
}

/// A request's place in the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlotNumber(u32);

/// A reply that is sent.
pub(crate) struct Reply<'a> {
    pub slot: Option<SlotNumber>,
    /// All of it, but for the bytes of a read.
    pub header: &'a [u8],
    /// So many bytes follow.
    pub data: usize,
}

/// What is free.
struct Unused {
    slots: Vec<u32>,
    larges: Vec<u32>,
}

/// The memory.
pub(crate) struct Kept {
    memory: *mut u8,
    file: OwnedFd,
    unused: Mutex<Unused>,
    /// Another engine goes on with it: nothing is noted, sent or ended here any more.
    frozen: AtomicBool,
    under_way: AtomicUsize,
}

// SAFETY: the memory is a mapping that lives as long as the value. Fields are accessed by atomic operations; payloads, staged bytes and the ring
// by one thread at a time: who has the turn to read, who holds the wire, or who has the slot.
unsafe impl Send for Kept {}
// SAFETY: the same.
unsafe impl Sync for Kept {}

/// Where received bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Into {
    /// The ring, from this byte on, and no further than this.
    Ring { origin: u64, at: usize, end: usize },
    /// A payload.
    Payload { slot: SlotNumber, received: usize },
}

/// A reply that was sent in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Partial {
    pub slot: SlotNumber,
    /// Bytes of it that were sent.
    pub sent: usize,
    staged: usize,
    length: usize,
    pub data: usize,
    batch: u32,
}

impl Partial {
    /// Bytes of the file that were sent.
    pub fn sent_of_data(&self) -> usize {
        self.sent.saturating_sub(self.length)
    }
}

/// A request that was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unanswered {
    pub slot: SlotNumber,
    pub request: Request,
    /// It was carried out, with this result.
    pub done: Option<u32>,
    pub has_payload: bool,
    /// So much of its payload was received or skipped, less than all.
    pub receiving: Option<usize>,
}

/// What is found of a connection when its engine is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub about: About,
    /// What is in the ring and not parsed, and the byte of the stream that is the ring's first.
    pub ahead: Range<usize>,
    pub origin: u64,
    pub partial: Option<Partial>,
    /// In the order in which they came.
    pub unanswered: Vec<Unanswered>,
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Where a death is tried: nothing, but in tests.
#[inline]
fn step() {
    #[cfg(test)]
    crate::crash_points::step();
}

impl Kept {
    /// Memory for a new connection, of which `ahead` was read already.
    pub fn new(id: u64, about: &About, ahead: &[u8]) -> io::Result<Self> {
        if [about.place.len(), about.export.len()].iter().any(|length| *length > TEXT_MAX)
            || ahead.len() > RING_SIZE
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let file = memfd_create(c"plinth nbd", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, TOTAL as u64)?;
        let kept = Self::map(file)?;
        kept.u32(VERSION).store(VERSION_VALUE, Ordering::Relaxed);
        kept.u64(ID).store(id, Ordering::Relaxed);
        kept.u64(SIZE).store(about.size, Ordering::Relaxed);
        kept.u64(FILE).store(about.identity.0, Ordering::Relaxed);
        kept.u64(GENERATION).store(about.identity.1, Ordering::Relaxed);
        let bits = [about.structured, about.allocation, about.read_only].map(u32::from);
        kept.u32(TERMS).store(bits[0] | bits[1] << 1 | bits[2] << 2, Ordering::Relaxed);
        kept.put_text(NAME, NAME_LENGTH, &about.export);
        kept.put_text(PLACE, PLACE_LENGTH, &about.place);
        // What was read ahead stands at the beginning of the ring.
        kept.copy_in(RING, ahead);
        kept.u64(RECEIVE + BASE).store(ahead.len() as u64, Ordering::Relaxed);
        kept.u64(MAGIC).store(MAGIC_VALUE, Ordering::Release);
        Ok(kept)
    }

    fn map(file: OwnedFd) -> io::Result<Self> {
        // SAFETY: a new mapping, which is ours alone in this process until it is unmapped by `drop`.
        let memory = unsafe {
            mmap(
                ptr::null_mut(),
                TOTAL,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
        }?;
        if getrlimit(Resource::Memlock).current.is_some() {
            // A process that locks all its memory (the engine does) may have locked this as well, which is much more than it ever touches, and
            // leaves others nothing of a limit.
            // SAFETY: that mapping.
            let _ = unsafe { munlock(memory, TOTAL) };
        }
        // Where the kernel writes what it has moved must be there then: it cannot wait for a page when its thread is killed.
        // SAFETY: the first page of that mapping.
        let _ = unsafe { mlock(memory, 4096) };
        let unused = Unused {
            slots: (0..SLOTS as u32).rev().collect(),
            larges: (0..LARGES as u32).rev().collect(),
        };
        Ok(Self {
            memory: memory.cast(),
            file,
            unused: Mutex::new(unused),
            frozen: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
        })
    }

    /// Maps what an engine has left.
    pub fn attach(file: OwnedFd) -> io::Result<(Self, Found)> {
        if fstat(&file)?.st_size.cast_unsigned() != TOTAL as u64 {
            return Err(invalid("not the memory of a connection, or that of another version"));
        }
        let kept = Self::map(file)?;
        if kept.u64(MAGIC).load(Ordering::Acquire) != MAGIC_VALUE
            || kept.u32(VERSION).load(Ordering::Acquire) != VERSION_VALUE
        {
            return Err(invalid("the memory of another version"));
        }
        if kept.u32(ENDED).load(Ordering::Acquire) != 0 {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "the connection has ended"));
        }
        let found = kept.found()?;
        Ok((kept, found))
    }

    // Memory.

    fn at(&self, offset: usize, length: usize) -> *mut u8 {
        assert!(
            offset.checked_add(length).is_some_and(|end| end <= TOTAL),
            "{length} bytes at {offset} of the memory"
        );
        // SAFETY: within the mapping.
        unsafe { self.memory.add(offset) }
    }

    fn u32(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4));
        // SAFETY: within the mapping, aligned, and nobody accesses it in another way.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4).cast()) }
    }

    fn u64(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8));
        // SAFETY: the same.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8).cast()) }
    }

    fn copy_in(&self, offset: usize, bytes: &[u8]) {
        // SAFETY: within the mapping; who calls is the only one that has this part of it.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(offset, bytes.len()), bytes.len())
        }
    }

    fn bytes(&self, offset: usize, length: usize) -> &[u8] {
        // SAFETY: within the mapping; who calls is the only one that has this part of it, and nothing is written there meanwhile.
        unsafe { std::slice::from_raw_parts(self.at(offset, length), length) }
    }

    fn put_text(&self, at: usize, length: usize, text: &str) {
        self.copy_in(at, text.as_bytes());
        self.u32(length).store(text.len() as u32, Ordering::Relaxed);
    }

    fn text(&self, at: usize, length: usize) -> io::Result<String> {
        let length = self.u32(length).load(Ordering::Acquire) as usize;
        let bytes = if length > TEXT_MAX { &[][..] } else { self.bytes(at, length) };
        String::from_utf8(bytes.to_vec()).map_err(|_| invalid("a name is none"))
    }

    /// The id in a memory that somebody else may have.
    pub fn id_in(file: &OwnedFd) -> io::Result<u64> {
        let mut bytes = [0; 8];
        match pread(file, &mut bytes, ID as u64)? {
            8 => Ok(u64::from_ne_bytes(bytes)),
            _ => Err(invalid("not the memory of a connection")),
        }
    }

    /// The descriptor of the memory.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub fn id(&self) -> u64 {
        self.u64(ID).load(Ordering::Acquire)
    }

    fn unused(&self) -> MutexGuard<'_, Unused> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // Its life.

    /// It is over: nobody carries out what was not answered. Before the socket is cut: a client may ask for the same again elsewhere.
    pub fn end(&self) {
        if !self.is_frozen() {
            self.u32(ENDED).store(1, Ordering::Release);
            step();
        }
    }

    /// Leaves it, as it is now, to another engine.
    pub fn freeze(&self) {
        self.frozen.store(true, Ordering::SeqCst);
    }

    pub fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::SeqCst)
    }

    /// Requests that were begun and have not ended.
    pub fn under_way(&self) -> usize {
        self.under_way.load(Ordering::SeqCst)
    }

    // Receiving: by who has the turn to read.

    fn half(&self, first: usize, which: usize) -> (usize, usize) {
        let now = first + self.u32(which).load(Ordering::Acquire) as usize % 2 * HALF;
        let other = first + HALF - (now - first);
        (now, other)
    }

    fn moved(&self, half: usize) -> u64 {
        let length =
            self.u32(half + MESSAGE + offset_of!(libc::mmsghdr, msg_len)).load(Ordering::Acquire);
        self.u64(half + BASE).load(Ordering::Acquire) + u64::from(length)
    }

    /// Prepares the message of an idle half, with nothing moved.
    fn prepare(
        &self,
        half: usize,
        base: u64,
        vectors: *mut libc::iovec,
        count: usize,
    ) -> *mut libc::mmsghdr {
        self.u64(half + BASE).store(base, Ordering::Release);
        let message: *mut libc::mmsghdr =
            self.at(half + MESSAGE, size_of::<libc::mmsghdr>()).cast();
        // SAFETY: within the mapping and aligned; zeros are a valid value of the plain C structure; the half is idle.
        unsafe {
            message.write_bytes(0, 1);
            (*message).msg_hdr.msg_iov = vectors;
            (*message).msg_hdr.msg_iovlen = count as _;
        }
        message
    }

    /// Receives what is there, at least one byte, or as the flags say. 0: the other side has ended.
    pub fn receive(&self, socket: BorrowedFd<'_>, into: Into, flags: u32) -> Result<usize, Errno> {
        let (now, other) = self.half(RECEIVE, RECEIVING);
        let base = self.moved(now);
        let (target, origin, at, room) = match into {
            Into::Ring { origin, at, end } => {
                (0, origin, RING + at, end.min(RING_SIZE).saturating_sub(at))
            }
            Into::Payload { slot, received } => {
                let start = self.slot_start(slot);
                let (room, length) = self.room(slot).unwrap_or_default();
                (
                    slot.0 + 1,
                    start + REQUEST_HEADER as u64,
                    room + received,
                    length.saturating_sub(received),
                )
            }
        };
        self.u64(other + ORIGIN).store(origin, Ordering::Release);
        self.u32(other + TARGET).store(target, Ordering::Release);
        let vector: *mut libc::iovec = self.at(other + VECTOR, size_of::<libc::iovec>()).cast();
        // SAFETY: within the mapping and aligned; the half is idle.
        unsafe { vector.write(libc::iovec { iov_base: self.at(at, room).cast(), iov_len: room }) };
        let message = self.prepare(other, base, vector, 1);
        step();
        let which = ((other - RECEIVE) / HALF) as u32;
        self.u32(RECEIVING).store(which, Ordering::Release);
        step();
        // SAFETY: one message, whose vector names `room` bytes of the mapping that nobody else has.
        let done = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                message,
                1,
                flags.cast_signed() as _,
                ptr::null_mut(),
            )
        };
        let error = last_error();
        step();
        if done < 0 { Err(error) } else { Ok((self.moved(other) - base) as usize) }
    }

    /// What is in the ring.
    pub fn ring(&self, range: Range<usize>) -> &[u8] {
        let range = range.start.min(RING_SIZE)..range.end.min(RING_SIZE);
        self.bytes(RING + range.start, range.len())
    }

    /// Moves what is in the ring to its beginning, if that does not touch where it is: should this engine die, it is found there.
    pub fn compact(&self, range: &Range<usize>) -> bool {
        if range.is_empty() || range.len() > range.start {
            return range.is_empty();
        }
        let (from, to) = (self.at(RING + range.start, range.len()), self.at(RING, range.len()));
        // SAFETY: within the mapping, not overlapping, and the turn to read is the caller's.
        unsafe { ptr::copy_nonoverlapping(from, to, range.len()) };
        step();
        true
    }

    /// Up to here the stream is in slots, or skipped.
    pub fn parsed(&self, at: u64) {
        self.u64(PARSED).store(at, Ordering::Release);
        step();
    }

    // Slots.

    fn slot(slot: SlotNumber) -> usize {
        SLOT + (slot.0 as usize).min(SLOTS - 1) * SLOT_SIZE
    }

    fn slot_start(&self, slot: SlotNumber) -> u64 {
        self.u64(Self::slot(slot) + START).load(Ordering::Acquire)
    }

    fn request(&self, slot: SlotNumber) -> Option<Request> {
        self.bytes(Self::slot(slot) + HEADER, REQUEST_HEADER).first_chunk().and_then(Request::parse)
    }

    /// Where a slot's payload is, and how long.
    fn room(&self, slot: SlotNumber) -> Option<(usize, usize)> {
        let length = payload_of(&self.request(slot)?);
        let (at, size) = match self.u32(Self::slot(slot) + ROOM).load(Ordering::Acquire) {
            0 => return None,
            SMALL_ROOM => (SMALL + slot.0 as usize * SMALL_SIZE, SMALL_SIZE),
            large => {
                let large = (large - FIRST_LARGE) as usize;
                if large >= LARGES {
                    return None;
                }
                (LARGE + large * LARGE_SIZE, LARGE_SIZE)
            }
        };
        (length <= size).then_some((at, length))
    }

    /// Takes a request whose header is this and begins at `start`; with room for its payload, if that is to be kept and there is some: the second value
    /// says so. It counts when it was [`Self::parsed`]. `None`: there are too many.
    pub fn take(
        &self,
        header: &[u8; REQUEST_HEADER],
        start: u64,
        payload: Option<usize>,
    ) -> Option<(SlotNumber, bool)> {
        let (number, room) = {
            let mut unused = self.unused();
            let number = unused.slots.pop()?;
            let room = match payload {
                None | Some(0) => 0,
                Some(length) if length <= SMALL_SIZE => SMALL_ROOM,
                Some(length) if length <= LARGE_SIZE => {
                    unused.larges.pop().map_or(0, |large| large + FIRST_LARGE)
                }
                Some(_) => 0,
            };
            (number, room)
        };
        let (slot, at) = (SlotNumber(number), Self::slot(SlotNumber(number)));
        self.u64(at + START).store(start, Ordering::Release);
        self.u32(at + ROOM).store(room, Ordering::Release);
        self.copy_in(at + HEADER, header);
        self.u32(at + RESULT).store(0, Ordering::Release);
        step();
        self.u32(at + STATE).store(TAKEN, Ordering::Release);
        step();
        self.under_way.fetch_add(1, Ordering::SeqCst);
        Some((slot, room != 0))
    }

    /// Puts bytes of a slot's payload where they stay.
    pub fn put_payload(&self, slot: SlotNumber, at: usize, bytes: &[u8]) {
        let Some((room, length)) = self.room(slot) else { return };
        assert!(at + bytes.len() <= length);
        self.copy_in(room + at, bytes);
        step();
    }

    pub fn payload(&self, slot: SlotNumber) -> &[u8] {
        self.room(slot).map_or(&[], |(at, length)| self.bytes(at, length))
    }

    /// The group has carried it out, with this result.
    pub fn done(&self, slot: SlotNumber, result: u32) {
        let at = Self::slot(slot);
        step();
        self.u32(at + RESULT).store(result, Ordering::Release);
        self.u32(at + STATE).store(DONE, Ordering::Release);
        step();
    }

    /// Whatever was to be done for a request was done, or is left to another engine.
    pub fn has_ended(&self) {
        self.under_way.fetch_sub(1, Ordering::SeqCst);
    }

    fn free(&self, slot: SlotNumber) {
        let at = Self::slot(slot);
        let room = self.u32(at + ROOM).load(Ordering::Acquire);
        let length = self.room(slot).map_or(0, |(_, length)| length);
        self.u32(at + STATE).store(FREE, Ordering::Release);
        step();
        if room >= FIRST_LARGE {
            let keeps = kept_of_large(room - FIRST_LARGE);
            if length > keeps {
                self.forget(
                    LARGE + (room - FIRST_LARGE) as usize * LARGE_SIZE + keeps,
                    length - keeps,
                );
            }
        } else if room == SMALL_ROOM && slot.0 >= SMALL_KEPT {
            self.forget(SMALL + slot.0 as usize * SMALL_SIZE, length);
        }
        let mut unused = self.unused();
        if room >= FIRST_LARGE {
            unused.larges.push(room - FIRST_LARGE);
            // The first ones are used most, and are those whose memory stays.
            unused.larges.sort_unstable_by(|one, other| other.cmp(one));
        }
        unused.slots.push(slot.0);
    }

    /// Gives memory back.
    fn forget(&self, at: usize, length: usize) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = fallocate(&self.file, flags, at as u64, length.next_multiple_of(4096) as u64);
    }

    // Sending: by who holds the wire.

    fn batch(number: u32) -> usize {
        BATCH + number as usize % 2 * BATCH_SIZE
    }

    fn part(batch: u32, index: usize) -> usize {
        Self::batch(batch) + PART + index.min(BATCH_MAX - 1) * PART_SIZE
    }

    fn sending_batch(&self) -> u32 {
        let (now, _) = self.half(SEND, SENDING);
        self.u32(now + TARGET).load(Ordering::Acquire) % 2
    }

    /// Stages replies, which are sent next: [`BATCH_MAX`] at most. All that was sent before has been sent whole. Returns the batch.
    pub fn stage(&self, replies: &[Reply<'_>]) -> u32 {
        assert!(replies.len() <= BATCH_MAX);
        let batch = 1 - self.sending_batch();
        let (now, _) = self.half(SEND, SENDING);
        self.u64(Self::batch(batch) + BEGIN).store(self.moved(now), Ordering::Release);
        let mut at = 0;
        for (index, reply) in replies.iter().enumerate() {
            assert!(at + reply.header.len() <= STAGE_SIZE);
            self.copy_in(STAGE + at, reply.header);
            let part = Self::part(batch, index);
            let (slot, start) =
                reply.slot.map_or((u32::MAX, u64::MAX), |slot| (slot.0, self.slot_start(slot)));
            self.u64(part + PART_START).store(start, Ordering::Release);
            self.u32(part + PART_SLOT).store(slot, Ordering::Release);
            self.u32(part + PART_STAGED).store(at as u32, Ordering::Release);
            self.u32(part + PART_LENGTH).store(reply.header.len() as u32, Ordering::Release);
            self.u32(part + PART_DATA).store(reply.data as u32, Ordering::Release);
            at += reply.header.len();
        }
        self.u32(Self::batch(batch) + COUNT).store(replies.len() as u32, Ordering::Release);
        step();
        batch
    }

    /// Sends some of a batch: how many bytes.
    pub fn send(
        &self,
        socket: BorrowedFd<'_>,
        batch: u32,
        parts: &mut [IoSlice<'_>],
        flags: u32,
    ) -> Result<usize, Errno> {
        let (now, other) = self.half(SEND, SENDING);
        let base = self.moved(now);
        self.u32(other + TARGET).store(batch, Ordering::Release);
        let message = self.prepare(other, base, parts.as_mut_ptr().cast(), parts.len());
        step();
        self.u32(SENDING).store(((other - SEND) / HALF) as u32, Ordering::Release);
        step();
        // SAFETY: one message, whose vectors are those of `parts`: `IoSlice` is a `struct iovec`.
        let done =
            unsafe { libc::sendmmsg(socket.as_raw_fd(), message, 1, flags.cast_signed() as _) };
        let error = last_error();
        step();
        if done < 0 { Err(error) } else { Ok((self.moved(other) - base) as usize) }
    }

    /// All of it was sent: its requests are answered.
    pub fn answered(&self, replies: &[Reply<'_>]) {
        replies.iter().filter_map(|reply| reply.slot).for_each(|slot| self.free(slot));
    }

    // What another engine finds.

    /// How many bytes of a partial reply are staged, of which those are left.
    pub fn staged(&self, partial: &Partial) -> &[u8] {
        let bytes = self.bytes(STAGE + partial.staged, partial.length);
        bytes.get(partial.sent.min(bytes.len())..).unwrap_or_default()
    }

    /// Lists the rest of a reply alone, so that it can be sent. Returns its batch.
    pub fn stage_rest(&self, partial: &Partial) -> u32 {
        let batch = 1 - partial.batch;
        let (now, _) = self.half(SEND, SENDING);
        let begin = self.moved(now) - partial.sent as u64;
        self.u64(Self::batch(batch) + BEGIN).store(begin, Ordering::Release);
        let part = Self::part(batch, 0);
        self.u64(part + PART_START).store(self.slot_start(partial.slot), Ordering::Release);
        self.u32(part + PART_SLOT).store(partial.slot.0, Ordering::Release);
        self.u32(part + PART_STAGED).store(partial.staged as u32, Ordering::Release);
        self.u32(part + PART_LENGTH).store(partial.length as u32, Ordering::Release);
        self.u32(part + PART_DATA).store(partial.data as u32, Ordering::Release);
        self.u32(Self::batch(batch) + COUNT).store(1, Ordering::Release);
        step();
        batch
    }

    /// What was sent of the last batch: which requests are answered, and which one in part.
    fn sent(&self) -> io::Result<(Vec<SlotNumber>, Option<Partial>)> {
        let (now, _) = self.half(SEND, SENDING);
        let (sent, batch) = (self.moved(now), self.sending_batch());
        let count = self.u32(Self::batch(batch) + COUNT).load(Ordering::Acquire) as usize;
        let mut at = self.u64(Self::batch(batch) + BEGIN).load(Ordering::Acquire);
        let (mut answered, mut partial) = (Vec::new(), None);
        for index in 0..count.min(BATCH_MAX) {
            let part = Self::part(batch, index);
            let field = |offset: usize| self.u32(part + offset).load(Ordering::Acquire);
            let (length, data) = (field(PART_LENGTH) as usize, field(PART_DATA) as usize);
            let end = at + length as u64 + data as u64;
            let slot = SlotNumber(field(PART_SLOT));
            let is_it = (slot.0 as usize) < SLOTS
                && self.slot_start(slot) == self.u64(part + PART_START).load(Ordering::Acquire);
            if end <= sent {
                // Its slot may have another request by now.
                answered.extend(Some(slot).filter(|_| is_it));
            } else if at < sent {
                let staged = field(PART_STAGED) as usize;
                if !is_it || staged + length > STAGE_SIZE {
                    return Err(invalid("a reply belongs to no request"));
                }
                partial =
                    Some(Partial { slot, sent: (sent - at) as usize, staged, length, data, batch });
            }
            at = end;
        }
        Ok((answered, partial))
    }

    fn found(&self) -> io::Result<Found> {
        let terms = self.u32(TERMS).load(Ordering::Acquire);
        let about = About {
            place: self.text(PLACE, PLACE_LENGTH)?,
            export: self.text(NAME, NAME_LENGTH)?,
            identity: (
                self.u64(FILE).load(Ordering::Acquire),
                self.u64(GENERATION).load(Ordering::Acquire),
            ),
            size: self.u64(SIZE).load(Ordering::Acquire),
            structured: terms & 1 != 0,
            allocation: terms & 2 != 0,
            read_only: terms & 4 != 0,
        };
        let (half, _) = self.half(RECEIVE, RECEIVING);
        let received = self.moved(half);
        let published = self.u64(PARSED).load(Ordering::Acquire);
        let target = self.u32(half + TARGET).load(Ordering::Acquire);
        let (parsed, origin) = if target == 0 {
            (published, self.u64(half + ORIGIN).load(Ordering::Acquire))
        } else {
            // All of it is in the slot, and the ring is empty. The next bytes go there, and nothing else says then what was parsed.
            self.u64(PARSED).store(received, Ordering::Release);
            (received, received)
        };
        let place = |at: u64| at.checked_sub(origin).and_then(|at| usize::try_from(at).ok());
        let ahead = place(parsed).zip(place(received)).map(|(start, end)| start..end);
        let ahead = ahead.filter(|ahead| ahead.start <= ahead.end && ahead.end <= RING_SIZE);
        let ahead = ahead.ok_or_else(|| invalid("what was received lies nowhere"))?;

        let (answered, partial) = self.sent()?;
        let mut unanswered = Vec::new();
        let mut unused = self.unused();
        unused.slots.clear();
        for number in (0..SLOTS as u32).rev() {
            let slot = SlotNumber(number);
            let (at, start) = (Self::slot(slot), self.slot_start(slot));
            let state = self.u32(at + STATE).load(Ordering::Acquire);
            // Not one that was about to be taken, whose bytes are in the ring yet.
            let counts =
                matches!(state, TAKEN | DONE) && start < published && !answered.contains(&slot);
            if !counts {
                self.u32(at + STATE).store(FREE, Ordering::Release);
                unused.slots.push(number);
                continue;
            }
            let request = self.request(slot).ok_or_else(|| invalid("a request is none"))?;
            let room = self.u32(at + ROOM).load(Ordering::Acquire);
            if room >= FIRST_LARGE {
                unused.larges.retain(|large| large + FIRST_LARGE != room);
            }
            let length = payload_of(&request) as u64;
            let payload = start + REQUEST_HEADER as u64;
            let receiving =
                (parsed < payload + length).then(|| parsed.saturating_sub(payload) as usize);
            unanswered.push((
                start,
                Unanswered {
                    slot,
                    request,
                    done: (state == DONE).then(|| self.u32(at + RESULT).load(Ordering::Acquire)),
                    has_payload: room != 0,
                    receiving,
                },
            ));
        }
        drop(unused);
        unanswered.sort_unstable_by_key(|(start, _)| *start);
        let unanswered: Vec<_> = unanswered.into_iter().map(|(_, request)| request).collect();
        self.under_way.store(unanswered.len(), Ordering::SeqCst);
        Ok(Found { about, ahead, origin, partial, unanswered })
    }
}

/// Bytes that follow a request's header.
fn payload_of(request: &Request) -> usize {
    if request.kind == command::WRITE { request.length as usize } else { 0 }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, of which nobody has a part any more.
        let _ = unsafe { munmap(self.memory.cast(), TOTAL) };
    }
}
