//! INIT, the first request: which features the kernel and this front end use. Also the two headers
//! of the protocol.
//!
//! The features are constant. The kernel sends INIT once in the life of a mount, and a successor
//! that takes the mount over must behave as if it had answered it. The library could answer INIT
//! too, but does not know `DIRECT_IO_ALLOW_MMAP`.
//!
//! Used features:
//!
//! | flag | because |
//! | --- | --- |
//! | ASYNC_READ, ASYNC_DIO, PARALLEL_DIROPS | the engine serves any number of requests at a time |
//! | BIG_WRITES, MAX_PAGES | up to 1 MiB in one request |
//! | EXPLICIT_INVAL_DATA | only notifications drop cached pages, not a program's writes |
//! | HANDLE_KILLPRIV_V2 | a write clears set-id bits; `security.capability` is read less |
//! | DO_READDIRPLUS, READDIRPLUS_AUTO | `ls -l` costs one request per buffer; `ls` none more |
//! | CACHE_SYMLINKS | the target of a symbolic link never changes |
//! | DIRECT_IO_ALLOW_MMAP | a file opened with `O_DIRECT` can be mapped, as on ext4 |
//! | NO_OPENDIR_SUPPORT | directories are opened in the kernel and their pages cached |
//! | INIT_EXT, HAS_RESEND | a successor has unanswered requests sent again |
//!
//! Features that are not used:
//!
//! | flag | because |
//! | --- | --- |
//! | WRITEBACK_CACHE | the kernel would accept bytes before the engine can say ENOSPC |
//! | ATOMIC_O_TRUNC | without it OPEN asks nothing of the engine: the kernel truncates first |
//! | NO_OPEN_SUPPORT | only an answer to OPEN allows parallel direct writes |
//! | DONT_MASK | the kernel applies the umask |
//! | AUTO_INVAL_DATA | the opposite of EXPLICIT_INVAL_DATA |
//! | POSIX_LOCKS, FLOCK_LOCKS | locks stay in the kernel, which outlives this process |
//! | POSIX_ACL, EXPORT_SUPPORT, SECURITY_CTX | not supported |

use crate::DATA_MAX;

/// Opcodes that a worker distinguishes.
pub(crate) const INIT: u32 = 26;
const FORGET: u32 = 2;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

/// The version of the protocol: 7.38 has all features that are used. The kernel uses the lower of
/// its own version and this one.
const MAJOR: u32 = 7;
const MINOR: u32 = 38;
/// The oldest version that is served: 7.31, of Linux 5.4.
const MINOR_MIN: u32 = 31;

/// Requests that the kernel may have in the background (read-ahead, asynchronous direct I/O): the
/// most that the field holds.
const BACKGROUND_MAX: u16 = u16::MAX;

mod flag {
    pub const ASYNC_READ: u64 = 1;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub const ASYNC_DIO: u64 = 1 << 15;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    pub const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    pub const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub const INIT_EXT: u64 = 1 << 30;
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub const HAS_RESEND: u64 = 1 << 39;
}

const WANTED: u64 = flag::ASYNC_READ
    | flag::BIG_WRITES
    | flag::DO_READDIRPLUS
    | flag::READDIRPLUS_AUTO
    | flag::ASYNC_DIO
    | flag::PARALLEL_DIROPS
    | flag::MAX_PAGES
    | flag::CACHE_SYMLINKS
    | flag::NO_OPENDIR_SUPPORT
    | flag::EXPLICIT_INVAL_DATA
    | flag::HANDLE_KILLPRIV_V2
    | flag::INIT_EXT
    | flag::DIRECT_IO_ALLOW_MMAP
    | flag::HAS_RESEND;

pub(crate) const REQUEST_HEADER: usize = 40;
pub(crate) const ANSWER_HEADER: usize = 16;
const INIT_ANSWER: usize = 64;

/// Set by the kernel in the number of a request that it sends again.
const RESENT: u64 = 1 << 63;

/// The part of a request's header that a worker needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub opcode: u32,
    pub unique: u64,
}

impl Header {
    /// `None` if `length` bytes that begin with these are no request.
    pub fn parse(start: &[u8], length: usize) -> Option<Self> {
        if u32_at(start, 0)? as usize != length || length < REQUEST_HEADER {
            return None;
        }
        Some(Self { opcode: u32_at(start, 4)?, unique: u64_at(start, 8)? })
    }

    /// The request's number, which stays the same when the request is sent again.
    pub fn number(&self) -> u64 {
        self.unique & !RESENT
    }

    /// Whether the kernel sends it again: a predecessor may have carried it out.
    pub fn is_resent(&self) -> bool {
        self.unique & RESENT != 0
    }

    pub fn wants_answer(&self) -> bool {
        !matches!(self.opcode, FORGET | BATCH_FORGET | INTERRUPT)
    }

    /// The answer to a request that failed; or, with 0, one without content.
    pub fn error(&self, errno: i32) -> [u8; ANSWER_HEADER] {
        self.answer(errno, 0)
    }

    /// The header of an answer with `length` bytes.
    pub fn success(&self, length: usize) -> [u8; ANSWER_HEADER] {
        self.answer(0, length)
    }

    fn answer(&self, errno: i32, length: usize) -> [u8; ANSWER_HEADER] {
        let mut answer = [0; ANSWER_HEADER];
        answer[0..4].copy_from_slice(&((ANSWER_HEADER + length) as u32).to_ne_bytes());
        answer[4..8].copy_from_slice(&(-errno).to_ne_bytes());
        answer[8..16].copy_from_slice(&self.unique.to_ne_bytes());
        answer
    }
}

/// The answer to INIT. Features that the kernel does not offer are not used; a kernel that is too
/// old gets EPROTO.
pub(crate) fn answer(request: &[u8], header: &Header) -> Vec<u8> {
    let body = &request[REQUEST_HEADER..];
    let word = |index: usize| u32_at(body, index * 4).unwrap_or(0);
    let (major, minor, readahead) = (word(0), word(1), word(2));
    if major < MAJOR || (major == MAJOR && minor < MINOR_MIN) {
        return header.error(libc::EPROTO).to_vec();
    }
    let mut offered = u64::from(word(3));
    if offered & flag::INIT_EXT != 0 {
        offered |= u64::from(word(4)) << 32;
    }
    let taken = offered & WANTED;
    let mut answer = Vec::with_capacity(ANSWER_HEADER + INIT_ANSWER);
    answer.extend(((ANSWER_HEADER + INIT_ANSWER) as u32).to_ne_bytes());
    answer.extend(0_i32.to_ne_bytes());
    answer.extend(header.unique.to_ne_bytes());
    // struct fuse_init_out, in its order.
    answer.extend(MAJOR.to_ne_bytes());
    answer.extend(MINOR.to_ne_bytes());
    answer.extend(readahead.to_ne_bytes());
    answer.extend((taken as u32).to_ne_bytes());
    answer.extend(BACKGROUND_MAX.to_ne_bytes());
    answer.extend((BACKGROUND_MAX / 4 * 3).to_ne_bytes()); // congestion threshold
    answer.extend((DATA_MAX as u32).to_ne_bytes()); // longest write
    answer.extend(1_u32.to_ne_bytes()); // time granularity, ns
    answer.extend(
        ((DATA_MAX / rustix::param::page_size()).clamp(1, u16::MAX.into()) as u16).to_ne_bytes(),
    );
    answer.extend(0_u16.to_ne_bytes()); // map alignment
    answer.extend(((taken >> 32) as u32).to_ne_bytes());
    answer.resize(ANSWER_HEADER + INIT_ANSWER, 0);
    answer
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(major: u32, minor: u32, flags: u64) -> Vec<u8> {
        let mut bytes = vec![0; REQUEST_HEADER];
        bytes[4..8].copy_from_slice(&INIT.to_ne_bytes());
        bytes[8..16].copy_from_slice(&7_u64.to_ne_bytes());
        for word in [major, minor, 131_072, flags as u32, (flags >> 32) as u32] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.resize(REQUEST_HEADER + 64, 0);
        let length = bytes.len() as u32;
        bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        bytes
    }

    fn taken(answer: &[u8]) -> u64 {
        u64::from(u32_at(answer, 16 + 12).unwrap())
            | u64::from(u32_at(answer, 16 + 32).unwrap()) << 32
    }

    #[test]
    fn only_features_that_are_offered_and_wanted_are_used() {
        let all = request(7, 45, u64::MAX);
        let header = Header::parse(&all, all.len()).unwrap();
        let reply = answer(&all, &header);
        assert_eq!(reply.len(), 80);
        assert_eq!(taken(&reply), WANTED);
        assert_eq!(u32_at(&reply, 0), Some(80));
        assert_eq!(u64_at(&reply, 8), Some(7));

        let old = request(7, 31, flag::ASYNC_READ | flag::HAS_RESEND);
        assert_eq!(
            taken(&answer(&old, &header)),
            flag::ASYNC_READ,
            "without INIT_EXT the upper half says nothing"
        );
    }

    #[test]
    fn an_old_kernel_is_refused() {
        let old = request(7, 12, u64::MAX);
        let header = Header::parse(&old, old.len()).unwrap();
        assert_eq!(answer(&old, &header), header.error(libc::EPROTO));
    }

    #[test]
    fn malformed_headers_are_not_parsed() {
        assert_eq!(Header::parse(&[], 0), None);
        assert_eq!(Header::parse(&[0; 39], 39), None);
        assert_eq!(Header::parse(&[0; 40], 40), None);
        let mut short = request(7, 45, 0);
        short.pop();
        assert_eq!(Header::parse(&short, short.len()), None);
    }
}
