//! Messages between our own processes: a length-prefixed head in JSON, bytes that belong to it,
//! perhaps descriptors.
//!
//! ```text
//!   head length u32 LE | body length u32 LE | head (JSON) | body (bytes)
//! ```
//!
//! Each side first sends a [`Hello`]; a side that finds another version reports that and
//! disconnects. Lengths beyond the limits end the connection before anything is allocated.
//! Descriptors, two at most, are sent with the first byte (`SCM_RIGHTS`).

use plinth_engine::admin::{AdminError, Code};
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    io::{self, IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

/// The version of the messages. It is increased by a change that the other side would misread.
pub const VERSION: u32 = 2;

/// The longest head, in bytes: a statement and its answer, a `CREATE DISKGROUP` of ten thousand
/// disks.
const HEAD_MAX: usize = 8 << 20;
/// The longest body, in bytes: some MiB of a file, or some thousand rows.
pub const BODY_MAX: usize = 8 << 20;
/// How long the other side may take for its greeting.
const GREETING: Duration = Duration::from_secs(10);

/// The first message in each direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    plinth: String,
    version: u32,
    /// The program's own version, for people.
    program: String,
}

/// A received message.
#[derive(Debug)]
pub struct Received<T> {
    pub head: T,
    pub body: Vec<u8>,
    pub descriptors: Vec<OwnedFd>,
}

/// A message that is too long for the other side. No byte of it was sent: the connection can be
/// used on, and the sender answers with this error in its place, so that the other side gets an
/// answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{bytes} bytes are more than one message between two processes of plinth may hold, which is {limit}"
)]
pub struct TooLong {
    bytes: usize,
    limit: usize,
}

impl TooLong {
    /// The error of this kind in an `io::Error`, if it is one.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }

    /// The answer that replaces one that is too long.
    #[must_use]
    pub fn refusal(self) -> AdminError {
        AdminError::new(Code::NotSupported, format!("the answer is too long: {self}"))
            .hint("ask for less at once, or for shorter values")
    }
}

/// One side of a connection.
#[derive(Debug)]
pub struct Frames {
    stream: UnixStream,
}

impl Frames {
    /// Connects to a socket and greets the other side. `what` names the kind of socket, and must be
    /// the same on both sides.
    ///
    /// # Errors
    /// If nothing listens there, or the other side speaks another protocol.
    pub fn connect(path: &Path, what: &str) -> io::Result<Self> {
        Self::greet(UnixStream::connect(path)?, what)
    }

    /// Greets the process that connected.
    ///
    /// # Errors
    /// If the other side sends nothing in time, or speaks another protocol.
    pub fn greet(stream: UnixStream, what: &str) -> io::Result<Self> {
        stream.set_read_timeout(Some(GREETING))?;
        stream.set_write_timeout(Some(GREETING))?;
        let frames = Self { stream };
        let ours = Hello {
            plinth: what.to_owned(),
            version: VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
        };
        frames.send(&ours, &[], None)?;
        let theirs = frames.receive::<Hello>()?.ok_or(io::ErrorKind::UnexpectedEof)?.head;
        if theirs.plinth != ours.plinth || theirs.version != ours.version {
            return Err(bad(format!(
                "the other side speaks {} {} (plinth {}), and this is {} {} (plinth {}); use the same version of plinth",
                theirs.plinth,
                theirs.version,
                theirs.program,
                ours.plinth,
                ours.version,
                ours.program
            )));
        }
        frames.set_timeout(None)?;
        Ok(frames)
    }

    /// A second handle of the same connection: messages must not be sent on both at the same time.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn duplicate(&self) -> io::Result<Self> {
        Ok(Self { stream: self.stream.try_clone()? })
    }

    /// A connection without a greeting: the other side is this very program.
    pub fn ungreeted(stream: UnixStream) -> Self {
        Self { stream }
    }

    /// How long a message may take; `None` for no limit.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(timeout)?;
        self.stream.set_write_timeout(timeout)
    }

    #[must_use]
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Whether the other side has closed the connection.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        matches!(rustix::net::recv(&self.stream, &mut [0_u8; 1], flags), Ok((0, _)))
    }

    /// Sends one message.
    ///
    /// # Errors
    /// If it is too long, or the other side is gone.
    pub fn send<T: Serialize>(
        &self,
        head: &T,
        body: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        self.send_with(head, body, descriptor.as_slice())
    }

    /// Sends one message, with up to two descriptors.
    ///
    /// # Errors
    /// If it is too long, or the other side is gone.
    pub fn send_with<T: Serialize>(
        &self,
        head: &T,
        body: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let head = serde_json::to_vec(head).map_err(io::Error::other)?;
        for (bytes, limit) in [(head.len(), HEAD_MAX), (body.len(), BODY_MAX)] {
            if bytes > limit {
                return Err(io::Error::new(io::ErrorKind::InvalidData, TooLong { bytes, limit }));
            }
        }
        let mut start = Vec::with_capacity(8 + head.len());
        start.extend_from_slice(&length(head.len()));
        start.extend_from_slice(&length(body.len()));
        start.extend_from_slice(&head);
        let mut stream = &self.stream;
        let sent = if descriptors.is_empty() {
            0
        } else {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
                return Err(bad("no room for so many descriptors".into()));
            }
            sendmsg(stream.as_fd(), &[IoSlice::new(&start)], &mut control, SendFlags::NOSIGNAL)?
        };
        stream.write_all(&start[sent..])?;
        stream.write_all(body)
    }

    /// Waits for one message; `None` if the other side has closed the connection between two
    /// messages.
    ///
    /// # Errors
    /// If it is too long, is malformed, or ends early.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<Received<T>>> {
        let mut lengths = [0; 8];
        let mut descriptors = Vec::new();
        let mut filled = 0;
        while filled < lengths.len() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let received = recvmsg(
                self.stream.as_fd(),
                &mut [IoSliceMut::new(&mut lengths[filled..])],
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            );
            let count = match received {
                Ok(message) => message.bytes,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = message {
                    descriptors.extend(received);
                }
            }
            match (count, filled) {
                (0, 0) => return Ok(None),
                (0, _) => return Err(io::ErrorKind::UnexpectedEof.into()),
                (count, _) => filled += count,
            }
        }
        let [a, b, c, d, e, f, g, h] = lengths;
        let head = u32::from_le_bytes([a, b, c, d]) as usize;
        let body = u32::from_le_bytes([e, f, g, h]) as usize;
        if head > HEAD_MAX || body > BODY_MAX {
            return Err(bad(format!("a message that says it has {head} + {body} bytes")));
        }
        let head = self.exactly(head)?;
        let body = self.exactly(body)?;
        let head = serde_json::from_slice(&head)
            .map_err(|error| bad(format!("not a message: {error}")))?;
        Ok(Some(Received { head, body, descriptors }))
    }

    /// Reads `count` bytes; memory grows only with the bytes that have arrived.
    fn exactly(&self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        (&self.stream).take(count as u64).read_to_end(&mut bytes)?;
        if bytes.len() == count { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).expect("limits are far below 4 GiB").to_le_bytes()
}

fn bad(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{thread, time::Duration};

    fn pair() -> (Frames, Frames) {
        let (one, other) = UnixStream::pair().expect("a pair of sockets");
        let greeted = thread::spawn(move || Frames::greet(other, "test").expect("greeted"));
        (Frames::greet(one, "test").expect("greeted"), greeted.join().expect("no panic"))
    }

    #[test]
    fn a_message_its_bytes_and_its_descriptor_arrive() {
        let (one, other) = pair();
        let file = std::fs::File::open("/dev/null").expect("/dev/null");
        let body = vec![7; 3 << 20];
        let sender = thread::spawn(move || {
            one.send(&("x", 5), &body, Some(file.as_fd())).expect("sent");
            one.send_with(&("y", 6), &[], &[file.as_fd(), one.stream.as_fd()]).expect("sent");
        });
        let first: Received<(String, u32)> = other.receive().expect("received").expect("a message");
        assert_eq!((first.head.0.as_str(), first.head.1, first.body.len()), ("x", 5, 3 << 20));
        assert_eq!(first.descriptors.len(), 1);
        let second: Received<(String, u32)> =
            other.receive().expect("received").expect("a message");
        assert_eq!((second.body.len(), second.descriptors.len()), (0, 2));
        drop(second);
        sender.join().expect("no panic");
        assert!(other.receive::<(String, u32)>().expect("the end").is_none());
    }

    /// The next message arrives: no byte of the one before was sent.
    #[test]
    fn a_message_that_is_too_long_is_refused_before_any_of_it_is_sent() {
        let (one, other) = pair();
        for (head, body) in
            [("x".repeat(HEAD_MAX), vec![]), ("x".to_owned(), vec![0; BODY_MAX + 1])]
        {
            let error = one.send(&head, &body, None).expect_err("too long");
            let refusal = TooLong::of(&error).expect("it says so").refusal();
            assert!(refusal.message.contains(&HEAD_MAX.to_string()), "{refusal}");
            one.send(&"next", &[], None).expect("sent");
            assert_eq!(
                other.receive::<String>().expect("received").expect("a message").head,
                "next"
            );
        }
        assert_eq!(TooLong::of(&io::ErrorKind::UnexpectedEof.into()), None);
    }

    #[test]
    fn another_version_is_refused() {
        let (one, other) = UnixStream::pair().expect("a pair of sockets");
        let old = Frames { stream: other };
        let hello = Hello { plinth: "test".into(), version: VERSION + 1, program: "9".into() };
        old.send(&hello, &[], None).expect("sent");
        let error = Frames::greet(one, "test").expect_err("refused");
        assert!(error.to_string().contains("same version"), "{error}");
    }

    #[test]
    fn garbage_and_giant_lengths_are_refused() {
        for noise in [&[0xFF; 8][..], &[4, 0, 0, 0, 0, 0, 0, 0, b'n', b'o', b'p', b'e'], &[1, 0, 0]]
        {
            let (one, mut other) = UnixStream::pair().expect("a pair of sockets");
            one.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
            other.write_all(noise).expect("written");
            drop(other);
            assert!(Frames { stream: one }.receive::<Hello>().is_err(), "{noise:?}");
        }
    }
}
