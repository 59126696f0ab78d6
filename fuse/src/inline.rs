//! The frequent requests, as futures: small ones are in flight together on one thread
//! (`multiplex.rs`).
//!
//! These are reads and writes, syncs, and two requests that Linux sends between writes of a file:
//! its attributes, and its extended attribute `security.capability`. All of them may be carried out
//! twice. `filesystem.rs` has their meaning; this file has their layout.
//!
//! Whole blocks are copied once, by the kernel: written bytes go to the disks from the memory that
//! the request was read into (`request.rs`), and read bytes are answered from the memory that the
//! disks filled.

use crate::{
    filesystem::{GroupFileSystem, durable},
    handshake::{ANSWER_HEADER, Header, REQUEST_HEADER, u32_at, u64_at},
};
use fuse_backend_rs::abi::fuse_abi::WRITE_KILL_PRIV;
use plinth_engine::{
    api::Node,
    sync::{buffer::Buffer, transfer::Found},
};
use smallvec::{SmallVec, smallvec};
use std::{ffi::CStr, io::IoSlice, os::fd::OwnedFd, pin::pin};

const GETATTR: u32 = 3;
pub(crate) const READ: u32 = 15;
pub(crate) const WRITE: u32 = 16;
const FSYNC: u32 = 20;
const GETXATTR: u32 = 22;

/// Bytes of a small read or write, at most: Linux's read-ahead. A larger one is carried out by a
/// thread that has nothing else in flight.
pub(crate) const INLINE_MAX: usize = 128 << 10;
/// Bytes of `struct fuse_read_in` and of `struct fuse_write_in`.
pub(crate) const DATA_IN: usize = 40;
/// FSYNC: times need not be made durable.
const DATA_ONLY: u32 = 1;

#[derive(Debug)]
enum Operation {
    Read { offset: u64, size: u32 },
    Write { handle: u64, offset: u64, bytes: Buffer, flags: u32, kill_set_id: bool },
    Sync { data_only: bool },
    Attributes,
    Xattr { name: Box<CStr>, room: u32 },
}

/// A request that can be in flight beside others, if it is small.
#[derive(Debug)]
pub(crate) struct InlineRequest {
    header: Header,
    node: Node,
    operation: Operation,
}

/// The answer behind its header.
enum Body {
    Bytes(Vec<u8>),
    Words([u32; 2]),
    Found(Found),
    Nothing,
}

/// An answer, ready to be sent.
pub(crate) struct Answer {
    header: [u8; ANSWER_HEADER],
    body: Body,
}

impl InlineRequest {
    /// Parses a request. `request` has it without its data, `data` is the length of its data, and
    /// `take` returns the data of a write. `None`: it is another kind of request, or malformed, or
    /// it reads or writes more than `most` bytes.
    pub fn parse(
        request: &[u8],
        header: Header,
        most: usize,
        data: usize,
        take: impl FnOnce() -> Option<Buffer>,
    ) -> Option<Self> {
        let node = u64_at(request, 16)?;
        let body = request.get(REQUEST_HEADER..)?;
        let operation = match header.opcode {
            READ | WRITE => {
                let (handle, offset, size, way) =
                    (u64_at(body, 0)?, u64_at(body, 8)?, u32_at(body, 16)?, u32_at(body, 20)?);
                let flags = u32_at(body, 32)?;
                if size as usize > most {
                    return None;
                }
                if header.opcode == READ {
                    Operation::Read { offset, size }
                } else {
                    let bytes = if data == size as usize { take() } else { None };
                    Operation::Write {
                        handle,
                        offset,
                        bytes: bytes?,
                        flags,
                        kill_set_id: way & WRITE_KILL_PRIV != 0,
                    }
                }
            }
            FSYNC => Operation::Sync { data_only: u32_at(body, 8)? & DATA_ONLY != 0 },
            GETATTR => Operation::Attributes,
            GETXATTR => {
                let name = CStr::from_bytes_until_nul(body.get(8..)?).ok()?;
                Operation::Xattr { name: name.into(), room: u32_at(body, 0)? }
            }
            _ => return None,
        };
        Some(Self { header, node, operation })
    }

    /// The bytes of a write.
    #[cfg(test)]
    pub fn data(&self) -> Option<&[u8]> {
        match &self.operation {
            Operation::Write { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    /// Carries it out. Futures are pinned where they are made: a future that is awaited by value is
    /// copied twice.
    pub async fn run(self, files: &GroupFileSystem) -> Answer {
        let Self { header, node, operation } = self;
        let done = match operation {
            Operation::Read { offset, size } => {
                pin!(files.find(node, offset, size as usize)).await.map(Body::Found)
            }
            // An empty write changes nothing.
            Operation::Write { bytes, .. } if bytes.is_empty() => Ok(Body::Words([0, 0])),
            Operation::Write { handle, offset, bytes, flags, kill_set_id } => {
                let size = bytes.len() as u32;
                let written = files.write_shared(
                    node,
                    offset,
                    bytes.share(),
                    kill_set_id,
                    durable(handle, flags),
                );
                pin!(written).await.map(|()| Body::Words([size, 0]))
            }
            Operation::Sync { data_only } => {
                pin!(files.sync(node, data_only)).await.map(|()| Body::Nothing)
            }
            Operation::Attributes => files.attributes(node).await.map(Body::Bytes),
            Operation::Xattr { name, room } => {
                files.xattr(node, &name, room).await.map(|value| match value {
                    Ok(value) => Body::Bytes(value),
                    Err(length) => Body::Words([length, 0]),
                })
            }
        };
        let body = match done {
            Ok(body) => body,
            Err(error) => {
                let code = error.raw_os_error().unwrap_or(libc::EIO);
                return Answer { header: header.error(code), body: Body::Nothing };
            }
        };
        let length = match &body {
            Body::Bytes(bytes) => bytes.len(),
            Body::Words(_) => 8,
            Body::Found(found) => found.len(),
            Body::Nothing => 0,
        };
        Answer { header: header.success(length), body }
    }
}

impl Answer {
    /// Sends it with one call. If the request is gone meanwhile, the kernel refuses the answer, and
    /// no program waits for it.
    pub fn send(&self, device: &OwnedFd) {
        let words;
        let header = IoSlice::new(&self.header);
        let _ = match &self.body {
            Body::Nothing => rustix::io::write(device, &self.header),
            Body::Bytes(bytes) => rustix::io::writev(device, &[header, IoSlice::new(bytes)]),
            Body::Words([first, second]) => {
                words = [first.to_ne_bytes(), second.to_ne_bytes()].concat();
                rustix::io::writev(device, &[header, IoSlice::new(&words)])
            }
            Body::Found(found) => {
                let mut parts: SmallVec<[IoSlice<'_>; 4]> = smallvec![header];
                parts.extend(found.slices().map(IoSlice::new));
                rustix::io::writev(device, &parts)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(opcode: u32, body: &[u8]) -> (Vec<u8>, Header) {
        let mut bytes = vec![0; REQUEST_HEADER];
        bytes[0..4].copy_from_slice(&((REQUEST_HEADER + body.len()) as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&opcode.to_ne_bytes());
        bytes[8..16].copy_from_slice(&7_u64.to_ne_bytes());
        bytes[16..24].copy_from_slice(&2_u64.to_ne_bytes());
        bytes.extend(body);
        let header = Header::parse(&bytes, bytes.len()).unwrap();
        (bytes, header)
    }

    fn data_in(size: u32, payload: usize) -> Vec<u8> {
        let mut body = vec![0; DATA_IN + payload];
        body[8..16].copy_from_slice(&4096_u64.to_ne_bytes());
        body[16..20].copy_from_slice(&size.to_ne_bytes());
        body
    }

    fn is_inline(opcode: u32, body: &[u8]) -> bool {
        let (bytes, header) = request(opcode, body);
        let data = bytes.get(REQUEST_HEADER + DATA_IN..).unwrap_or_default();
        InlineRequest::parse(&bytes, header, INLINE_MAX, data.len(), || Some(Buffer::copy_of(data)))
            .is_some()
    }

    #[test]
    fn only_small_and_well_formed_requests_are_inline() {
        assert!(is_inline(READ, &data_in(8192, 0)));
        assert!(
            is_inline(READ, &data_in(0, 0)) && !is_inline(READ, &data_in(INLINE_MAX as u32 + 1, 0))
        );
        assert!(!is_inline(READ, &data_in(8192, 0)[..20]), "cut off");
        assert!(is_inline(WRITE, &data_in(512, 512)));
        assert!(!is_inline(WRITE, &data_in(512, 511)) && !is_inline(WRITE, &data_in(512, 513)));
        assert!(is_inline(FSYNC, &[0; 16]) && !is_inline(FSYNC, &[0; 8]));
        assert!(is_inline(GETATTR, &[0; 16]));
        assert!(is_inline(GETXATTR, b"\0\0\0\0\0\0\0\0user.a\0"));
        assert!(
            !is_inline(GETXATTR, b"\0\0\0\0\0\0\0\0user.a") && !is_inline(GETXATTR, &[0; 7]),
            "the name has no end"
        );
        for opcode in
            (0..60).filter(|opcode| ![READ, WRITE, FSYNC, GETATTR, GETXATTR].contains(opcode))
        {
            assert!(!is_inline(opcode, &data_in(512, 512)));
        }
    }
}
