//! Memory for one request and its answer, and how a request is read into it.
//!
//! The bytes of a write go to the disks from the memory that the kernel copied them to, so they
//! have to be aligned for direct I/O. Therefore a request is read in parts:
//!
//! ```text
//!   header of a write (80 bytes) --> request
//!   the bytes that follow        --> payload, an aligned buffer as large as recent writes
//!   the rest                     --> request, at its place behind the payload's bytes
//! ```
//!
//! A write takes the payload buffer along, and the next request gets another one. For any other
//! request the bytes in the payload are copied to their place in `request`: that is not much, since
//! names are short.
//!
//! The payload's pages exist before the kernel writes to them, as those of `LockedMemory` do, and
//! for the same reason. They stay because the process locks all of its memory, where it may.

use crate::{
    DATA_MAX,
    handshake::{Header, REQUEST_HEADER, u32_at},
    inline::{DATA_IN, InlineRequest, WRITE},
    mlock::LockedMemory,
};
use plinth_engine::sync::buffer::Buffer;
use rustix::io::Errno;
use std::{
    io::{self, IoSliceMut},
    os::fd::OwnedFd,
};

/// Room for the headers of a request or an answer.
const HEADERS_MAX: usize = 4096;
/// Bytes before the data of a write.
const WRITE_HEADER: usize = REQUEST_HEADER + DATA_IN;
/// A write holds the whole memory of its payload buffer until it is done. The buffer may have this
/// many bytes in any case, or this many times the bytes of the write; otherwise they are copied.
const WHOLE_MAX: usize = 16 << 10;
const WHOLE_TIMES: usize = 4;
/// After this many writes in a row that would fit half of the payload, the next payload is half as
/// large.
const SMALLER_AFTER: u32 = 64;

/// How large recent writes were.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    /// Bytes that a payload should have.
    expected: usize,
    /// Writes in a row that would fit half of that.
    smaller: u32,
}

impl Sizes {
    /// One larger write makes the payload larger; only many smaller ones make it smaller.
    fn learn(&mut self, size: usize) {
        if size > self.expected {
            *self = Self { expected: size, smaller: 0 };
        } else if size > self.expected / 2 {
            self.smaller = 0;
        } else {
            self.smaller += 1;
            if self.smaller == SMALLER_AFTER {
                *self = Self { expected: self.expected / 2, smaller: 0 };
            }
        }
    }
}

/// See the module's description.
pub(crate) struct Memory {
    request: LockedMemory,
    answer: LockedMemory,
    payload: Option<Buffer>,
    sizes: Sizes,
    /// Bytes of the request.
    length: usize,
    /// Of them, bytes in the payload.
    in_payload: usize,
}

impl Memory {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            request: LockedMemory::new(DATA_MAX + HEADERS_MAX)?,
            answer: LockedMemory::new(DATA_MAX + HEADERS_MAX)?,
            payload: None,
            sizes: Sizes::default(),
            length: 0,
            in_payload: 0,
        })
    }

    /// Reads the next request. Returns its length.
    pub fn read(&mut self, device: &OwnedFd) -> Result<usize, Errno> {
        let expected = self.sizes.expected;
        if self.payload().len() != expected {
            self.payload = if expected > 0 { Buffer::try_present(expected) } else { None };
        }
        (self.length, self.in_payload) = (0, 0);
        self.length = match &mut self.payload {
            None => rustix::io::read(device, &mut self.request[..])?,
            Some(payload) => {
                let (header, rest) = self.request.split_at_mut(WRITE_HEADER);
                let room = payload.len();
                let mut parts = [header, payload, &mut rest[room..]].map(IoSliceMut::new);
                rustix::io::readv(device, &mut parts)?
            }
        };
        let data = self.data();
        self.in_payload = data.min(self.payload().len());
        if u32_at(&self.request, 4) == Some(WRITE) {
            self.sizes.learn(data.min(DATA_MAX));
        } else {
            self.join();
        }
        Ok(self.length)
    }

    /// Frees the payload buffer: nothing is read into it for a while.
    pub fn release_payload(&mut self) {
        (self.payload, self.in_payload) = (None, 0);
    }

    fn payload(&self) -> &[u8] {
        self.payload.as_deref().unwrap_or_default()
    }

    /// Bytes behind the header of a write, if the request is one.
    fn data(&self) -> usize {
        self.length.saturating_sub(WRITE_HEADER)
    }

    /// `None` if what was read is no request.
    pub fn header(&self) -> Option<Header> {
        Header::parse(&self.request[..self.length.min(WRITE_HEADER)], self.length)
    }

    /// The request, in one piece.
    pub fn whole(&mut self) -> &mut [u8] {
        self.join();
        &mut self.request[..self.length]
    }

    /// The request, in one piece, and memory for its answer.
    pub fn with_answer(&mut self) -> (&mut [u8], &mut [u8]) {
        self.join();
        (&mut self.request[..self.length], &mut self.answer)
    }

    fn join(&mut self) {
        let in_payload = std::mem::take(&mut self.in_payload);
        if let Some(payload) = &self.payload {
            self.request[WRITE_HEADER..WRITE_HEADER + in_payload]
                .copy_from_slice(&payload[..in_payload]);
        }
    }

    /// The request as an inline request that reads or writes `most` bytes at most: see
    /// [`InlineRequest::parse`]. The bytes of a write are moved out of this memory.
    pub fn take(&mut self, header: Header, most: usize) -> Option<InlineRequest> {
        let data = self.data();
        let Self { request, payload, length, in_payload, .. } = self;
        let take = || take_data(payload, &request[WRITE_HEADER..WRITE_HEADER + data], in_payload);
        let start = if header.opcode == WRITE { WRITE_HEADER.min(*length) } else { *length };
        InlineRequest::parse(&request[..start], header, most, data, take)
    }
}

/// The bytes of a write. The first `in_payload` of them are in the payload, the others in
/// `request`.
fn take_data(
    payload: &mut Option<Buffer>,
    request: &[u8],
    in_payload: &mut usize,
) -> Option<Buffer> {
    let data = request.len();
    let fits = |room: usize| *in_payload == data && room <= WHOLE_MAX.max(WHOLE_TIMES * data);
    let mut bytes = match payload.take_if(|payload| fits(payload.len())) {
        Some(bytes) => bytes,
        None => {
            let mut bytes = Buffer::try_unfilled(data)?;
            let (first, rest) = bytes.split_at_mut(*in_payload);
            first.copy_from_slice(&payload.as_deref().unwrap_or_default()[..*in_payload]);
            rest.copy_from_slice(&request[*in_payload..]);
            bytes
        }
    };
    bytes.truncate(data);
    *in_payload = 0;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    /// A request as the kernel would send it: with `data` bytes behind its header, each of which
    /// differs from its neighbours.
    fn request(opcode: u32, data: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..WRITE_HEADER + data).map(|at| (at % 251) as u8).collect();
        let length = bytes.len() as u32;
        bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        bytes[4..8].copy_from_slice(&opcode.to_ne_bytes());
        bytes[REQUEST_HEADER + 16..REQUEST_HEADER + 20]
            .copy_from_slice(&(data as u32).to_ne_bytes());
        bytes
    }

    fn receive(memory: &mut Memory, bytes: &[u8]) {
        // A read takes one whole request, as a read of the device does.
        let (ours, theirs) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::empty(),
            None,
        )
        .unwrap();
        let (ours, theirs): (OwnedFd, OwnedFd) = (ours, theirs);
        rustix::net::sockopt::set_socket_send_buffer_size(&theirs, 4 << 20).unwrap();
        rustix::io::write(&theirs, bytes).unwrap();
        assert_eq!(memory.read(&ours), Ok(bytes.len()));
    }

    /// Each write has its bytes, and every other request is in one piece, whatever sizes follow one
    /// another.
    #[test]
    fn requests_of_all_sizes_are_read_whole() {
        let mut memory = Memory::new().unwrap();
        let sizes = [
            8192,
            8192,
            0,
            512,
            65536,
            4096,
            8191,
            70_000,
            1,
            200 << 10,
            8192,
            100_000,
            180 << 10,
            16384,
        ];
        for (at, size) in sizes.into_iter().cycle().take(100).enumerate() {
            let bytes = request(WRITE, size);
            receive(&mut memory, &bytes);
            let header = memory.header().unwrap();
            if at % 3 == 2 {
                assert_eq!(memory.whole(), bytes);
            } else {
                let inline = memory.take(header, DATA_MAX).unwrap();
                assert_eq!(inline.data(), Some(&bytes[WRITE_HEADER..]), "{size} bytes");
            }
            // A name, longer than the header of a write.
            let bytes = request(1, at * 7);
            receive(&mut memory, &bytes);
            assert_eq!(memory.whole(), bytes);
        }
    }

    /// Writes of one size stay where the kernel has put them, except the first after other sizes.
    #[test]
    fn writes_of_one_size_are_not_copied() {
        let mut memory = Memory::new().unwrap();
        let mut is_copied = |size| {
            receive(&mut memory, &request(WRITE, size));
            let place = memory.payload.as_ref().map(|payload| payload.as_ptr());
            let inline = memory.take(memory.header().unwrap(), DATA_MAX).unwrap();
            let data = inline.data().unwrap();
            assert_eq!(data.as_ptr().align_offset(4096), 0);
            Some(data.as_ptr()) != place
        };
        let first: Vec<bool> = (0..4).map(|_| is_copied(8192)).collect();
        assert_eq!(first, [true, false, false, false]);
        assert!(is_copied(32768) && !is_copied(8192) && !is_copied(32768));
        // A small write does not hold a large buffer, and soon the buffers are small again.
        assert!(is_copied(180 << 10) && !is_copied(180 << 10) && is_copied(8192));
        let copied = (0..1000).filter(|_| is_copied(8192)).last();
        assert!(copied.is_some_and(|last| last < 5 * SMALLER_AFTER), "{copied:?}");
    }

    #[test]
    fn a_payload_grows_at_once_and_shrinks_slowly() {
        let mut sizes = Sizes::default();
        sizes.learn(8192);
        sizes.learn(65536);
        (0..SMALLER_AFTER - 1).for_each(|_| sizes.learn(8192));
        assert_eq!(sizes.expected, 65536);
        sizes.learn(8192);
        assert_eq!(sizes.expected, 32768);
        (0..10 * SMALLER_AFTER).for_each(|_| sizes.learn(8192));
        assert_eq!(sizes.expected, 8192, "half of it would be too small");
        sizes.learn(0);
        assert_eq!(sizes.expected, 8192);
    }

    #[test]
    fn a_write_that_is_too_long_or_malformed_is_not_inline() {
        let mut memory = Memory::new().unwrap();
        for _ in 0..2 {
            let bytes = request(WRITE, 8192);
            receive(&mut memory, &bytes);
            let header = memory.header().unwrap();
            assert!(memory.take(header, 8191).is_none());
            assert_eq!(memory.whole(), bytes);
            let mut short = bytes.clone();
            short[REQUEST_HEADER + 16] = 1;
            receive(&mut memory, &short);
            assert!(
                memory.take(memory.header().unwrap(), DATA_MAX).is_none(),
                "it says another size than it has"
            );
            assert_eq!(memory.whole(), short);
        }
    }
}
