//! The encoding of the NBD protocol:
//! <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>.
//!
//! Everything is big-endian. This file has constants, parsing and encoding: no I/O, no state.
//! Parsed bytes come from clients that are not trusted: any bytes give a value or `None`.
//!
//! ```text
//!   option     magic 8, option 4, length 4, data
//!   its reply  magic 8, option 4, kind 4, length 4, data
//!   request    magic 4, flags 2, kind 2, cookie 8, offset 8, length 4; a write's data follows
//!   reply      simple:      magic 4, error 4, cookie 8; a read's data follows
//!              structured:  magic 4, flags 2, kind 2, cookie 8, length 4, data
//! ```

use smallvec::SmallVec;

/// Bytes of a name, a query or a text, at most: the limit of the protocol.
pub(crate) const STRING_MAX: usize = 4096;

/// The first bytes from a server: `NBDMAGIC`, `IHAVEOPT`, and its flags.
pub(crate) const GREETING: [u8; 18] = *b"NBDMAGICIHAVEOPT\0\x03";
const OPTION_MAGIC: [u8; 8] = *b"IHAVEOPT";
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

/// Flags of both sides in the handshake.
pub(crate) const FIXED_NEWSTYLE: u32 = 1;
pub(crate) const NO_ZEROES: u32 = 1 << 1;

/// Options.
pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const STARTTLS: u32 = 5;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
}

/// Kinds of replies to options.
pub(crate) mod answer {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;

    const ERROR: u32 = 1 << 31;
    pub(crate) const UNSUPPORTED: u32 = ERROR | 1;
    pub(crate) const POLICY: u32 = ERROR | 2;
    pub(crate) const INVALID: u32 = ERROR | 3;
    pub(crate) const TLS_REQUIRED: u32 = ERROR | 5;
    pub(crate) const UNKNOWN: u32 = ERROR | 6;
    pub(crate) const TOO_BIG: u32 = ERROR | 9;
}

/// Kinds of information about an export.
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags.
pub(crate) mod can {
    pub(crate) const HAS_FLAGS: u16 = 1;
    pub(crate) const READ_ONLY: u16 = 1 << 1;
    pub(crate) const FLUSH: u16 = 1 << 2;
    pub(crate) const FUA: u16 = 1 << 3;
    pub(crate) const TRIM: u16 = 1 << 5;
    pub(crate) const WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const DF: u16 = 1 << 7;
    pub(crate) const MULTI_CONN: u16 = 1 << 8;
    pub(crate) const CACHE: u16 = 1 << 10;
    pub(crate) const FAST_ZERO: u16 = 1 << 11;
}

/// Kinds of requests.
pub(crate) mod command {
    pub(crate) const READ: u16 = 0;
    pub(crate) const WRITE: u16 = 1;
    pub(crate) const DISCONNECT: u16 = 2;
    pub(crate) const FLUSH: u16 = 3;
    pub(crate) const TRIM: u16 = 4;
    pub(crate) const CACHE: u16 = 5;
    pub(crate) const WRITE_ZEROES: u16 = 6;
    pub(crate) const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests.
pub(crate) mod flag {
    pub(crate) const FUA: u16 = 1;
    pub(crate) const NO_HOLE: u16 = 1 << 1;
    pub(crate) const DF: u16 = 1 << 2;
    pub(crate) const REQ_ONE: u16 = 1 << 3;
    pub(crate) const FAST_ZERO: u16 = 1 << 4;
}

const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_MAGIC: u32 = 0x6744_6698;
const STRUCTURED_MAGIC: u32 = 0x668e_33ef;

/// The last chunk of a structured reply.
const DONE: u16 = 1;
/// Kinds of chunks.
const CHUNK_NONE: u16 = 0;
const CHUNK_DATA: u16 = 1;
const CHUNK_STATUS: u16 = 5;
const CHUNK_ERROR: u16 = 1 << 15 | 1;

/// The only metadata context, and its id.
pub(crate) const ALLOCATION: &str = "base:allocation";
pub(crate) const ALLOCATION_ID: u32 = 1;
/// `base:allocation` of a range without data: a hole that reads as zeros.
const HOLE_AND_ZERO: u32 = 3;

/// Errors of the protocol, with their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Refused {
    NotPermitted = 1,
    Io = 5,
    NoMemory = 12,
    Invalid = 22,
    NoSpace = 28,
    Overflow = 75,
    NotSupported = 95,
    ShuttingDown = 108,
}

impl Refused {
    /// The error of a number; `None` for 0.
    pub(crate) fn of(number: u32) -> Option<Self> {
        use Refused::{
            Invalid, Io, NoMemory, NoSpace, NotPermitted, NotSupported, Overflow, ShuttingDown,
        };
        let all =
            [NotPermitted, Io, NoMemory, Invalid, NoSpace, Overflow, NotSupported, ShuttingDown];
        (number != 0).then(|| all.into_iter().find(|error| *error as u32 == number).unwrap_or(Io))
    }
}

/// Reads fields one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A length, and a text of this length.
    fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.u32()?).ok().filter(|length| *length <= STRING_MAX)?;
        std::str::from_utf8(self.bytes(length)?).ok()
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// The header of an option: the option, and the length of its data. `None`: it is no option.
pub(crate) const OPTION_HEADER: usize = 16;

pub(crate) fn parse_option(bytes: &[u8; OPTION_HEADER]) -> Option<(u32, u32)> {
    let mut fields = Fields(bytes);
    (fields.array()? == OPTION_MAGIC).then_some(())?;
    Some((fields.u32()?, fields.u32()?))
}

/// The data of INFO and GO: an export's name, and the kinds of information that are requested.
pub(crate) fn parse_go(data: &[u8]) -> Option<(&str, Vec<u16>)> {
    let mut fields = Fields(data);
    let name = fields.text()?;
    let count = fields.u16()?;
    let wanted = (0..count).map(|_| fields.u16()).collect::<Option<Vec<u16>>>()?;
    fields.end()?;
    Some((name, wanted))
}

/// The data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`: an export's name, and queries.
pub(crate) fn parse_contexts(data: &[u8]) -> Option<(&str, Vec<&str>)> {
    let mut fields = Fields(data);
    let name = fields.text()?;
    let mut queries = Vec::new();
    for _ in 0..fields.u32()? {
        // Each takes at least the four bytes of its length: the count cannot make this long.
        queries.push(fields.text()?);
    }
    fields.end()?;
    Some((name, queries))
}

/// A reply to an option.
pub(crate) fn option_reply(option: u32, kind: u32, data: &[&[u8]]) -> Vec<u8> {
    let length = data.iter().map(|part| part.len()).sum::<usize>();
    let mut reply = Vec::with_capacity(20 + length);
    reply.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    reply.extend(option.to_be_bytes());
    reply.extend(kind.to_be_bytes());
    reply.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    data.iter().for_each(|part| reply.extend(*part));
    reply
}

/// A request, as received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub flags: u16,
    pub kind: u16,
    /// The client's tag, which the reply returns.
    pub cookie: u64,
    pub offset: u64,
    pub length: u32,
}

pub(crate) const REQUEST_HEADER: usize = 28;

impl Request {
    /// `None`: it is no request, and the beginning of the next one is unknown.
    pub fn parse(bytes: &[u8; REQUEST_HEADER]) -> Option<Self> {
        let mut fields = Fields(bytes);
        (fields.u32()? == REQUEST_MAGIC).then_some(())?;
        Some(Self {
            flags: fields.u16()?,
            kind: fields.u16()?,
            cookie: fields.u64()?,
            offset: fields.u64()?,
            length: fields.u32()?,
        })
    }

    /// As a client sends it.
    #[cfg(test)]
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend(self.flags.to_be_bytes());
        bytes.extend(self.kind.to_be_bytes());
        bytes.extend(self.cookie.to_be_bytes());
        bytes.extend(self.offset.to_be_bytes());
        bytes.extend(self.length.to_be_bytes());
        bytes
    }
}

/// A reply, or its beginning. The header of a read fits without an allocation.
pub(crate) type Reply = SmallVec<[u8; 32]>;

/// A simple reply; error 0: the request was carried out.
pub(crate) fn simple_reply(cookie: u64, error: u32) -> Reply {
    let mut reply = Reply::new();
    reply.extend_from_slice(&SIMPLE_MAGIC.to_be_bytes());
    reply.extend_from_slice(&error.to_be_bytes());
    reply.extend_from_slice(&cookie.to_be_bytes());
    reply
}

/// The only chunk of a structured reply, without the last `follow` bytes of its data.
fn chunk(cookie: u64, kind: u16, data: &[u8], follow: usize) -> Reply {
    let length = u32::try_from(data.len() + follow).unwrap_or(u32::MAX);
    let mut reply = Reply::new();
    reply.extend_from_slice(&STRUCTURED_MAGIC.to_be_bytes());
    reply.extend_from_slice(&DONE.to_be_bytes());
    reply.extend_from_slice(&kind.to_be_bytes());
    reply.extend_from_slice(&cookie.to_be_bytes());
    reply.extend_from_slice(&length.to_be_bytes());
    reply.extend_from_slice(data);
    reply
}

/// The header of a reply to a read at `offset`.
pub(crate) fn data_chunk(cookie: u64, offset: u64, length: usize) -> Reply {
    // A chunk of data has at least one byte.
    if length == 0 {
        return chunk(cookie, CHUNK_NONE, &[], 0);
    }
    chunk(cookie, CHUNK_DATA, &offset.to_be_bytes(), length)
}

pub(crate) fn error_chunk(cookie: u64, error: Refused, text: &str) -> Reply {
    let text = text.get(..text.floor_char_boundary(STRING_MAX)).unwrap_or_default();
    let mut data = (error as u32).to_be_bytes().to_vec();
    data.extend(u16::try_from(text.len()).unwrap_or(0).to_be_bytes());
    data.extend(text.as_bytes());
    chunk(cookie, CHUNK_ERROR, &data, 0)
}

/// A reply to BLOCK_STATUS: lengths, and whether each range has data.
pub(crate) fn status_chunk(cookie: u64, ranges: impl Iterator<Item = (u32, bool)>) -> Reply {
    let mut data = ALLOCATION_ID.to_be_bytes().to_vec();
    for (length, has_data) in ranges {
        data.extend(length.to_be_bytes());
        data.extend(if has_data { 0 } else { HOLE_AND_ZERO }.to_be_bytes());
    }
    chunk(cookie, CHUNK_STATUS, &data, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greeting_is_that_of_the_protocol() {
        assert_eq!(&GREETING[..16], b"NBDMAGICIHAVEOPT");
        assert_eq!(
            u32::from(u16::from_be_bytes([GREETING[16], GREETING[17]])),
            FIXED_NEWSTYLE | NO_ZEROES
        );
    }

    #[test]
    fn options_and_their_replies() {
        let header = *b"IHAVEOPT\0\0\0\x07\0\0\x01\0";
        assert_eq!(parse_option(&header), Some((option::GO, 256)));
        assert_eq!(parse_option(b"IHAVEOPS\0\0\0\x07\0\0\x01\0"), None);
        let reply = option_reply(option::GO, answer::ACK, &[b"ab", b"c"]);
        assert_eq!(reply, b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\0\0\0\x01\0\0\0\x03abc");
    }

    #[test]
    fn names_and_queries_are_bounded_and_exact() {
        assert_eq!(parse_go(b"\0\0\0\x02hi\0\x02\0\x03\0\x01"), Some(("hi", vec![3, 1])));
        assert_eq!(parse_go(b"\0\0\0\0\0\0"), Some(("", vec![])));
        for wrong in [
            &b""[..],
            b"\0\0\0\x02hi",
            b"\0\0\0\x02hi\0\x02\0\x03",
            b"\0\0\0\x02hi\0\0x",
            b"\0\0\0\x03hi\0",
            b"\xff\xff\xff\xffhi\0\0",
            b"\0\0\0\x02\xff\xfe\0\0",
        ] {
            assert_eq!(parse_go(wrong), None, "{wrong:?}");
        }
        let mut long = u32::try_from(STRING_MAX + 1).unwrap().to_be_bytes().to_vec();
        long.extend(vec![b'x'; STRING_MAX + 1]);
        long.extend([0, 0]);
        assert_eq!(parse_go(&long), None);
        assert_eq!(
            parse_contexts(b"\0\0\0\x01v\0\0\0\x02\0\0\0\x01a\0\0\0\0"),
            Some(("v", vec!["a", ""]))
        );
        assert_eq!(parse_contexts(b"\0\0\0\x01v\xff\xff\xff\xff\0\0\0\x01a"), None);
        assert_eq!(parse_contexts(b"\0\0\0\x01v\0\0\0\0x"), None);
    }

    #[test]
    fn requests_and_replies() {
        let request = Request {
            flags: flag::FUA,
            kind: command::WRITE,
            cookie: 7,
            offset: 1 << 40,
            length: 512,
        };
        let bytes: [u8; REQUEST_HEADER] = request.bytes().try_into().unwrap();
        assert_eq!(Request::parse(&bytes), Some(request));
        assert_eq!(&bytes[..8], b"\x25\x60\x95\x13\0\x01\0\x01");
        assert_eq!(Request::parse(&[0; REQUEST_HEADER]), None);
        assert_eq!(&simple_reply(9, 22)[..], b"\x67\x44\x66\x98\0\0\0\x16\0\0\0\0\0\0\0\x09");
        assert_eq!(
            &data_chunk(9, 5, 3)[..],
            b"\x66\x8e\x33\xef\0\x01\0\x01\0\0\0\0\0\0\0\x09\0\0\0\x0b\0\0\0\0\0\0\0\x05"
        );
        assert_eq!(
            &data_chunk(9, 5, 0)[..],
            b"\x66\x8e\x33\xef\0\x01\0\0\0\0\0\0\0\0\0\x09\0\0\0\0"
        );
        assert_eq!(
            &error_chunk(9, Refused::NoSpace, "no")[..],
            b"\x66\x8e\x33\xef\0\x01\x80\x01\0\0\0\0\0\0\0\x09\0\0\0\x08\0\0\0\x1c\0\x02no"
        );
        let long = error_chunk(9, Refused::Io, &"ä".repeat(STRING_MAX));
        assert_eq!(long.len(), 20 + 6 + STRING_MAX);
        assert_eq!(
            &status_chunk(9, [(4096, true), (512, false)].into_iter())[..],
            b"\x66\x8e\x33\xef\0\x01\0\x05\0\0\0\0\0\0\0\x09\0\0\0\x14\0\0\0\x01\0\0\x10\0\0\0\0\0\0\0\x02\0\0\0\0\x03"
        );
    }
}
