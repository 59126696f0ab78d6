//! Memory for one request and its answer, and how a request comes into it.
//!
//! The kernel copies a request to where we say, and what is written goes to the disks from there: it has to begin where direct I/O wants
//! it. So requests are read in parts:
//!
//! ```text
//!   header of a write (80 bytes) --> request
//!   what follows                 --> payload, a buffer that has room for what was written lately
//!   what is left                 --> request, where it belongs
//! ```
//!
//! What is written goes to the disks in that buffer, and the next request gets another. Of any other request, what came into the payload is
//! copied to where it belongs: then the request is whole. Names are short.
//!
//! The payload has memory that is there before the kernel writes to it, as `Locked` has, and for the same reason. That it stays is the doing of
//! the process, which locks all that it has where it may.

use crate::{
    DATA_MAX,
    handshake::{Header, REQUEST_HEADER, u32_at},
    inline::{DATA_IN, Small, WRITE},
    mlock::Locked,
};
use plinth_engine::sync::buffer::Buffer;
use rustix::io::Errno;
use std::{
    io::{self, IoSliceMut},
    os::fd::OwnedFd,
};

/// Room for the headers of a request or an answer.
const HEADERS_MAX: usize = 4096;
/// Before the bytes of a write.
const WRITE_HEADER: usize = REQUEST_HEADER + DATA_IN;
/// What is written goes to the disks with all of the payload's memory, which nobody else has meanwhile. That may be so much in any case, or so many
/// times what is written.
const WHOLE_MAX: usize = 16 << 10;
const WHOLE_TIMES: usize = 4;
/// So many writes running that would have had room in half of the payload make it half as large.
const SMALLER_AFTER: u32 = 64;

/// How large the writes are that come.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    /// Bytes that a payload should have.
    expected: usize,
    smaller: u32,
}

impl Sizes {
    /// Larger ones may come again at once; smaller ones have to come often.
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
    request: Locked,
    answer: Locked,
    payload: Option<Buffer>,
    sizes: Sizes,
    /// Bytes of the request that is in it.
    length: usize,
    /// Of them, bytes in the payload.
    apart: usize,
}

impl Memory {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            request: Locked::new(DATA_MAX + HEADERS_MAX)?,
            answer: Locked::new(DATA_MAX + HEADERS_MAX)?,
            payload: None,
            sizes: Sizes::default(),
            length: 0,
            apart: 0,
        })
    }

    /// Reads the next request: its length.
    pub fn read(&mut self, device: &OwnedFd) -> Result<usize, Errno> {
        let expected = self.sizes.expected;
        if self.payload().len() != expected {
            self.payload = if expected > 0 { Buffer::try_present(expected) } else { None };
        }
        (self.length, self.apart) = (0, 0);
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
        self.apart = data.min(self.payload().len());
        if u32_at(&self.request, 4) == Some(WRITE) {
            self.sizes.learn(data.min(DATA_MAX));
        } else {
            self.join();
        }
        Ok(self.length)
    }

    /// Nothing is read into it for a while: others may have that memory.
    pub fn rest(&mut self) {
        (self.payload, self.apart) = (None, 0);
    }

    fn payload(&self) -> &[u8] {
        self.payload.as_deref().unwrap_or_default()
    }

    /// Bytes behind the header, were it a write.
    fn data(&self) -> usize {
        self.length.saturating_sub(WRITE_HEADER)
    }

    /// `None` if what was read is no request.
    pub fn header(&self) -> Option<Header> {
        Header::parse(&self.request[..self.length.min(WRITE_HEADER)], self.length)
    }

    /// The request, whole.
    pub fn whole(&mut self) -> &mut [u8] {
        self.join();
        &mut self.request[..self.length]
    }

    /// The request, whole, and memory for its answer.
    pub fn with_answer(&mut self) -> (&mut [u8], &mut [u8]) {
        self.join();
        (&mut self.request[..self.length], &mut self.answer)
    }

    fn join(&mut self) {
        let apart = std::mem::take(&mut self.apart);
        if let Some(payload) = &self.payload {
            self.request[WRITE_HEADER..WRITE_HEADER + apart].copy_from_slice(&payload[..apart]);
        }
    }

    /// The request as one that carries data of no more than `most` bytes, or asks for what is asked for often: see [`Small::parse`]. What is written
    /// is not in this memory any more then.
    pub fn take(&mut self, header: Header, most: usize) -> Option<Small> {
        let data = self.data();
        let Self { request, payload, length, apart, .. } = self;
        let take = || take_data(payload, &request[WRITE_HEADER..WRITE_HEADER + data], apart);
        let start = if header.opcode == WRITE { WRITE_HEADER.min(*length) } else { *length };
        Small::parse(&request[..start], header, most, data, take)
    }
}

/// The bytes of a write, the first `apart` of which are in the payload, the others where they belong.
fn take_data(payload: &mut Option<Buffer>, request: &[u8], apart: &mut usize) -> Option<Buffer> {
    let data = request.len();
    let fits = |room: usize| *apart == data && room <= WHOLE_MAX.max(WHOLE_TIMES * data);
    let mut bytes = match payload.take_if(|payload| fits(payload.len())) {
        Some(bytes) => bytes,
        None => {
            let mut bytes = Buffer::try_unfilled(data)?;
            let (first, rest) = bytes.split_at_mut(*apart);
            first.copy_from_slice(&payload.as_deref().unwrap_or_default()[..*apart]);
            rest.copy_from_slice(&request[*apart..]);
            bytes
        }
    };
    bytes.truncate(data);
    *apart = 0;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    /// A request as the kernel would send it: that many bytes behind its header, none like its neighbour.
    fn request(opcode: u32, data: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..WRITE_HEADER + data).map(|at| (at % 251) as u8).collect();
        let length = bytes.len() as u32;
        bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        bytes[4..8].copy_from_slice(&opcode.to_ne_bytes());
        bytes[REQUEST_HEADER + 16..REQUEST_HEADER + 20]
            .copy_from_slice(&(data as u32).to_ne_bytes());
        bytes
    }

    fn come(memory: &mut Memory, bytes: &[u8]) {
        // As with the device, each read takes one request.
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

    /// Whatever sizes follow one another, and whatever came before, each write has its bytes, and every other request is whole.
    #[test]
    fn requests_of_all_sizes_come_whole() {
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
            come(&mut memory, &bytes);
            let header = memory.header().unwrap();
            if at % 3 == 2 {
                assert_eq!(memory.whole(), bytes);
            } else {
                let small = memory.take(header, DATA_MAX).unwrap();
                assert_eq!(small.data(), Some(&bytes[WRITE_HEADER..]), "{size} bytes");
            }
            // A name, longer than the header of a write.
            let bytes = request(1, at * 7);
            come(&mut memory, &bytes);
            assert_eq!(memory.whole(), bytes);
        }
    }

    /// In the steady state what is written stays where the kernel has put it, whatever was written before.
    #[test]
    fn writes_of_one_size_are_not_copied() {
        let mut memory = Memory::new().unwrap();
        let mut is_copied = |size| {
            come(&mut memory, &request(WRITE, size));
            let place = memory.payload.as_ref().map(|payload| payload.as_ptr());
            let small = memory.take(memory.header().unwrap(), DATA_MAX).unwrap();
            let data = small.data().unwrap();
            assert_eq!(data.as_ptr().align_offset(4096), 0);
            Some(data.as_ptr()) != place
        };
        let first: Vec<bool> = (0..4).map(|_| is_copied(8192)).collect();
        assert_eq!(first, [true, false, false, false]);
        assert!(is_copied(32768) && !is_copied(8192) && !is_copied(32768));
        // Much is not kept from others for little, but not for long either.
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
    fn a_write_that_is_too_long_or_not_in_order_stays_whole() {
        let mut memory = Memory::new().unwrap();
        for _ in 0..2 {
            let bytes = request(WRITE, 8192);
            come(&mut memory, &bytes);
            let header = memory.header().unwrap();
            assert!(memory.take(header, 8191).is_none());
            assert_eq!(memory.whole(), bytes);
            let mut short = bytes.clone();
            short[REQUEST_HEADER + 16] = 1;
            come(&mut memory, &short);
            assert!(
                memory.take(memory.header().unwrap(), DATA_MAX).is_none(),
                "it says another size than it has"
            );
            assert_eq!(memory.whole(), short);
        }
    }
}
