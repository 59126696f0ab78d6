//! The memory of a connection that outlives its engine.
//!
//! The instance keeps two descriptors of each connection: its socket, and a memory file that is
//! mapped here. When an engine has ended, killed at any instruction, the next one maps the same
//! memory. There it finds which bytes were read from the socket, which requests they hold, which of
//! those were carried out, and which bytes of which reply were sent. It continues from there.
//!
//! One system call moves bytes and records how many: `recvmmsg` and `sendmmsg` write the number of
//! moved bytes into this memory (`msg_len`) before the kernel can end the thread. Every other step
//! is a single store that leads from one consistent state to the next:
//!
//! ```text
//!   receive   fill the idle half (bytes so far, target of the next ones, msg_len 0)
//!             -> RECEIVING names it -> recvmmsg
//!   take      copy the request into a free slot: TAKEN -> PARSED is behind it
//!             (a slot counts only if it begins before PARSED)
//!   carry out the engine has carried it out -> the slot is DONE, with the result
//!             -> the next change of the same bytes may begin (range_lock.rs)
//!   answer    stage the reply, list it in the idle batch -> fill the idle half
//!             -> SENDING names it -> sendmmsg ... -> the slots are FREE
//! ```
//!
//! At any instant, the number of bytes read from the socket is BASE of the half that RECEIVING
//! names, plus its `msg_len`; the number of bytes sent is the same of SENDING. A reply of the batch
//! is answered if all of its bytes were sent, whatever its slot says. If only a part was sent, the
//! rest is sent first; the bytes of a read are read from the disks again.
//!
//! The stores of one thread are seen in their order: they are releases, and stay in the processor's
//! memory until the thread has ended. A half is filled only while it is idle and has no meaning.
//!
//! The payload of a large write is received into its final place: its half has the slot as its
//! target, and everything before it in the stream is parsed. Of a refused request only the header
//! is kept; PARSED moves through the bytes that are skipped.
//!
//! The layout belongs to one version of the program and one kind of processor. The memory of
//! another `VERSION` is not resumed, and its client is disconnected.
#![allow(unsafe_code)]

use crate::{
    protocol::{REQUEST_HEADER, Request, command},
    transmit::INLINE_MAX,
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
/// The version of this layout, and of the meaning of its fields.
const VERSION_VALUE: u32 = 1;

// The head.
const MAGIC: usize = 0; //           u64
const VERSION: usize = 8; //         u32
const ENDED: usize = 12; //          u32; 1: the connection has ended; nothing is carried out again
const ID: usize = 16; //             u64
const SIZE: usize = 24; //           u64; the export's, as sent to the client
const FILE: usize = 32; //           u64; the node of the file
const GENERATION: usize = 40; //     u64; the generation of the node
const TERMS: usize = 48; //          u32; bits: 1 structured replies, 2 base:allocation, 4 read-only
const NAME_LENGTH: usize = 52; //    u32
const PLACE_LENGTH: usize = 56; //   u32
const PARSED: usize = 64; //         u64; stream position; before it all is in slots or skipped
const RECEIVING: usize = 72; //      u32; the half that is valid
const SENDING: usize = 76; //        u32; the same
const RECEIVE: usize = 128; //       two halves
const SEND: usize = 384; //          two halves
const HALF: usize = 128;
// A half.
const BASE: usize = 0; //            u64; bytes before this call
const ORIGIN: usize = 8; //          u64; receiving: stream position of the target's first byte
const TARGET: usize = 16; //         u32; receiving: 0 the ring, else a slot + 1. Sending: the batch
const VECTOR: usize = 32; //         struct iovec
const MESSAGE: usize = 48; //        struct mmsghdr

const NAME: usize = 4096;
const PLACE: usize = 8192;
const TEXT_MAX: usize = 4096;

const BATCH: usize = 12288; //       two of them
const BATCH_SIZE: usize = 4096;
// A batch.
const BEGIN: usize = 0; //           u64; its position in the stream of replies
const COUNT: usize = 8; //           u32
const PART: usize = 64; //           its parts
const PART_SIZE: usize = 32;
// A part: a reply.
const PART_START: usize = 0; //      u64; the request's START
const PART_SLOT: usize = 8; //       u32
const PART_STAGED: usize = 12; //    u32; where its header is staged
const PART_LENGTH: usize = 16; //    u32; bytes of the header
const PART_DATA: usize = 20; //      u32; bytes of the file that follow

const SLOT: usize = BATCH + 2 * BATCH_SIZE;
const SLOT_SIZE: usize = 64;
// A slot: a request.
const STATE: usize = 0; //           u32; FREE, TAKEN, DONE
const ROOM: usize = 4; //            u32; its payload: 0 nowhere, SMALL_ROOM, or a large room + 2
const START: usize = 8; //           u64; its position in the stream
const RESULT: usize = 16; //         u32; DONE: 0, or the error
const HEADER: usize = 24; //         as received

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const DONE: u32 = 2;
const SMALL_ROOM: u32 = 1;
const FIRST_LARGE: u32 = 2;

/// Replies in one batch: as many as one thread has requests in flight.
pub(crate) const BATCH_MAX: usize = 64;
/// More than the requests of a connection: 16 workers with 64 small ones and a large one each.
const SLOTS: usize = 1088;
/// Payloads of more than [`INLINE_MAX`]: one for each worker.
const LARGES: usize = 17;
const LARGE_SIZE: usize = 32 << 20;
/// Small rooms whose memory is kept when they are free: a queue of small requests, 4 MiB at most.
const SMALL_KEPT: u32 = 64;

/// How much memory of a free large room is kept: enough for the writes of kernels and of programs
/// that copy, many at a time or 1 MiB at a time. 7 MiB in all rooms, at most.
const fn kept_of_large(room: u32) -> usize {
    if room < 4 { 1 << 20 } else { 256 << 10 }
}

const STAGE: usize = (SLOT + SLOTS * SLOT_SIZE).next_multiple_of(4096);
/// A batch of the longest errors, or one reply to BLOCK_STATUS.
const STAGE_SIZE: usize = 512 << 10;
const RING: usize = STAGE + STAGE_SIZE;
/// Bytes that are read ahead, at most.
pub(crate) const RING_SIZE: usize = 256 << 10;
const SMALL: usize = RING + RING_SIZE;
const SMALL_SIZE: usize = INLINE_MAX as usize;
const LARGE: usize = SMALL + SLOTS * SMALL_SIZE;
/// Most of it is never accessed, and takes no memory.
const TOTAL: usize = LARGE + LARGES * LARGE_SIZE;

const _: () = {
    assert!(
        MESSAGE + size_of::<libc::mmsghdr>() <= HALF
            && VECTOR + size_of::<libc::iovec>() <= MESSAGE
    );
    assert!(RECEIVE + 2 * HALF <= SEND && SEND + 2 * HALF <= NAME);
    assert!(PART + BATCH_MAX * PART_SIZE <= BATCH_SIZE && HEADER + REQUEST_HEADER <= SLOT_SIZE);
};

/// The terms of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct About {
    /// The name of its server's address.
    pub place: String,
    pub export: String,
    pub identity: (u64, u64),
    pub size: u64,
    pub read_only: bool,
    pub structured: bool,
    pub allocation: bool,
}

/// The slot of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlotNumber(u32);

/// A reply to be sent.
pub(crate) struct Reply<'a> {
    pub slot: Option<SlotNumber>,
    /// The reply without the bytes of a read.
    pub header: &'a [u8],
    /// Bytes of the read that follow.
    pub data: usize,
}

/// Free slots and rooms.
struct Unused {
    slots: Vec<u32>,
    larges: Vec<u32>,
}

/// The memory.
pub(crate) struct ConnectionMemory {
    memory: *mut u8,
    file: OwnedFd,
    unused: Mutex<Unused>,
    /// Another engine serves the connection on: this one records, sends and ends nothing any more.
    frozen: AtomicBool,
    in_flight: AtomicUsize,
}

// SAFETY: the memory is a mapping that lives as long as the value. Fields are accessed by atomic
// operations. The ring, staged bytes and payloads are accessed by one thread at a time: by the
// thread with the reader role, the thread that has the stream's lock for sending, and the thread of
// the slot.
unsafe impl Send for ConnectionMemory {}
// SAFETY: the same.
unsafe impl Sync for ConnectionMemory {}

/// Where received bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Into {
    /// The ring, from `at` to `end`; the ring's first byte is `origin` in the stream.
    Ring { origin: u64, at: usize, end: usize },
    /// A payload, behind its `received` bytes.
    Payload { slot: SlotNumber, received: usize },
}

/// A reply of which a part was sent.
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

/// A request without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unanswered {
    pub slot: SlotNumber,
    pub request: Request,
    /// The result, if it was carried out.
    pub done: Option<u32>,
    pub has_payload: bool,
    /// Bytes of its payload that were received or skipped, if not all were.
    pub receiving: Option<usize>,
}

/// The state of a connection whose engine has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub about: About,
    /// The range of the ring that is not parsed, and the stream position of the ring's first byte.
    pub ahead: Range<usize>,
    pub origin: u64,
    pub partial: Option<Partial>,
    /// In the order in which they were received.
    pub unanswered: Vec<Unanswered>,
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A crash point for tests; otherwise it does nothing.
#[inline]
fn step() {
    #[cfg(test)]
    crate::crash_points::step();
}

impl ConnectionMemory {
    /// Memory for a new connection. `ahead`: bytes that were read ahead.
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
        // Bytes that were read ahead are at the beginning of the ring.
        kept.copy_in(RING, ahead);
        kept.u64(RECEIVE + BASE).store(ahead.len() as u64, Ordering::Relaxed);
        kept.u64(MAGIC).store(MAGIC_VALUE, Ordering::Release);
        Ok(kept)
    }

    fn map(file: OwnedFd) -> io::Result<Self> {
        // SAFETY: a new mapping, which no other code in this process has until `drop` unmaps it.
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
            // A process that locks all of its memory (the engine does) has locked this mapping as
            // well, which is much more than it accesses, and would use up the limit. SAFETY: that
            // mapping.
            let _ = unsafe { munlock(memory, TOTAL) };
        }
        // The page into which the kernel writes `msg_len` must exist: the kernel cannot wait for a
        // page while the thread is killed. SAFETY: the first page of that mapping.
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
            in_flight: AtomicUsize::new(0),
        })
    }

    /// Maps the memory that an earlier engine has left.
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
        // SAFETY: within the mapping, aligned, and accessed by atomic operations only.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4).cast()) }
    }

    fn u64(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8));
        // SAFETY: the same.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8).cast()) }
    }

    fn copy_in(&self, offset: usize, bytes: &[u8]) {
        // SAFETY: within the mapping; no other thread accesses this part of it meanwhile.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(offset, bytes.len()), bytes.len())
        }
    }

    fn bytes(&self, offset: usize, length: usize) -> &[u8] {
        // SAFETY: within the mapping; no other thread accesses this part of it meanwhile, and
        // nothing is written to it.
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

    /// The id in a memory that another thread may use.
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

    // End and hand-over.

    /// The connection ends: no engine carries out unanswered requests. To be called before the
    /// socket is shut down, because the client may send the same requests on another connection
    /// then.
    pub fn end(&self) {
        if !self.is_frozen() {
            self.u32(ENDED).store(1, Ordering::Release);
            step();
        }
    }

    /// Leaves the connection in its present state to another engine.
    pub fn freeze(&self) {
        self.frozen.store(true, Ordering::SeqCst);
    }

    pub fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::SeqCst)
    }

    /// Requests that were taken and are not complete.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    // Receiving: by the thread with the reader role.

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
        // SAFETY: within the mapping and aligned; zeros are a valid value of the plain C structure;
        // the half is idle.
        unsafe {
            message.write_bytes(0, 1);
            (*message).msg_hdr.msg_iov = vectors;
            (*message).msg_hdr.msg_iovlen = count as _;
        }
        message
    }

    /// Receives the bytes that the socket has; waits for one, unless the flags forbid it. 0: the
    /// client has closed its side.
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
        // SAFETY: one message, whose vector names `room` bytes of the mapping that no other thread
        // accesses.
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

    /// Bytes of the ring.
    pub fn ring(&self, range: Range<usize>) -> &[u8] {
        let range = range.start.min(RING_SIZE)..range.end.min(RING_SIZE);
        self.bytes(RING + range.start, range.len())
    }

    /// Moves a range of the ring to its beginning, if the two do not overlap: a successor may still
    /// need the bytes at their old place. Whether the range is at the beginning then, or empty.
    pub fn compact(&self, range: &Range<usize>) -> bool {
        if range.is_empty() || range.len() > range.start {
            return range.is_empty();
        }
        let (from, to) = (self.at(RING + range.start, range.len()), self.at(RING, range.len()));
        // SAFETY: within the mapping, not overlapping, and the caller has the reader role.
        unsafe { ptr::copy_nonoverlapping(from, to, range.len()) };
        step();
        true
    }

    /// Up to this position the stream is in slots, or skipped.
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

    /// Place and length of a slot's payload.
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

    /// Takes a request that begins at position `start` into a slot; with room for its payload, if
    /// `payload` is its length and there is room: the second value. The slot counts after
    /// [`Self::parsed`]. `None`: there are too many requests.
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
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        Some((slot, room != 0))
    }

    /// Copies bytes of a payload into their slot.
    pub fn put_payload(&self, slot: SlotNumber, at: usize, bytes: &[u8]) {
        let Some((room, length)) = self.room(slot) else { return };
        assert!(at + bytes.len() <= length);
        self.copy_in(room + at, bytes);
        step();
    }

    pub fn payload(&self, slot: SlotNumber) -> &[u8] {
        self.room(slot).map_or(&[], |(at, length)| self.bytes(at, length))
    }

    /// The engine has carried the request out, with this result.
    pub fn done(&self, slot: SlotNumber, result: u32) {
        let at = Self::slot(slot);
        step();
        self.u32(at + RESULT).store(result, Ordering::Release);
        self.u32(at + STATE).store(DONE, Ordering::Release);
        step();
    }

    /// A request is complete, or is left to another engine.
    pub fn has_ended(&self) {
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
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
            // The first rooms are used first: these keep their memory.
            unused.larges.sort_unstable_by(|one, other| other.cmp(one));
        }
        unused.slots.push(slot.0);
    }

    /// Frees memory.
    fn forget(&self, at: usize, length: usize) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = fallocate(&self.file, flags, at as u64, length.next_multiple_of(4096) as u64);
    }

    // Sending: by the thread that has the stream's lock for sending.

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

    /// Stages the replies that are sent next: [`BATCH_MAX`] at most. All earlier ones were sent
    /// whole. Returns the batch.
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

    /// Sends a part of a batch. Returns how many bytes.
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

    /// All replies were sent: their requests are answered.
    pub fn answered(&self, replies: &[Reply<'_>]) {
        replies.iter().filter_map(|reply| reply.slot).for_each(|slot| self.free(slot));
    }

    // The state that a successor finds.

    /// The staged bytes of a partial reply that were not sent.
    pub fn staged(&self, partial: &Partial) -> &[u8] {
        let bytes = self.bytes(STAGE + partial.staged, partial.length);
        bytes.get(partial.sent.min(bytes.len())..).unwrap_or_default()
    }

    /// Lists the rest of a partial reply in a batch of its own. Returns the batch.
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

    /// The last batch: which requests are answered, and of which the reply was sent in part.
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
                // The slot may have another request by now.
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
            // All received bytes are in the slot, and the ring is empty. The next bytes go to the
            // ring, and then only PARSED says that these were parsed.
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
            // A slot that was being taken does not count: its request is still in the ring.
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
        self.in_flight.store(unanswered.len(), Ordering::SeqCst);
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

impl Drop for ConnectionMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, to which no reference is left.
        let _ = unsafe { munmap(self.memory.cast(), TOTAL) };
    }
}
