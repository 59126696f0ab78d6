//! A server that is fed with any bytes, without sockets and threads: for the fuzzer in `fuzz/`, and
//! for a test with random bytes.
//!
//! It is the real server, handshake and transmission. Its bytes come from memory, and its export
//! asserts that each request was checked.

#![allow(clippy::unwrap_used)]

use crate::{
    Limits, Timeouts,
    negotiate::{HandshakeOptions, negotiate},
    stream::{Incoming, Socket, Stream},
    transmit::Connection,
};
use plinth_engine::{
    error::FileError,
    sync::{
        buffer::{Buffer, Slice},
        transfer::Found,
    },
};
use plinth_frontend::{BlockDevice, Exports, NotOpened, block::Result};
use std::{
    io::{self, IoSlice},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const SIZE: u64 = 64 << 10;

/// A connection whose client has sent everything already, and drops replies.
#[derive(Debug)]
pub struct Memory {
    left: Mutex<std::collections::VecDeque<u8>>,
    is_cut: AtomicBool,
}

impl Memory {
    fn new(input: &[u8]) -> Self {
        Self { left: Mutex::new(input.iter().copied().collect()), is_cut: AtomicBool::new(false) }
    }

    #[allow(clippy::unnecessary_wraps, clippy::unused_self)]
    pub(crate) fn prepare(&self) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        if self.is_cut.load(Ordering::SeqCst) {
            Ok(0)
        } else {
            io::Read::read(&mut *self.left.lock().unwrap(), into)
        }
    }

    pub(crate) fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.is_cut.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(parts.iter().map(|part| part.len()).sum())
    }

    #[allow(clippy::unnecessary_wraps)]
    pub(crate) fn cut(&self) -> io::Result<()> {
        self.is_cut.store(true, Ordering::SeqCst);
        Ok(())
    }
}

struct Checked {
    read_only: bool,
    several: bool,
}

impl Checked {
    fn change(&self, offset: u64, length: u64) -> Result<()> {
        assert!(!self.read_only, "a change of what is read-only");
        Self::look(offset, length)
    }

    fn look(offset: u64, length: u64) -> Result<()> {
        let end = offset.checked_add(length).expect("offset and length were checked");
        assert!(end <= SIZE && length > 0, "{length} bytes at {offset} of {SIZE}");
        // Some requests fail, and so have another reply.
        if offset % 7 == 3 {
            Err(FileError::ExtentLost { file: 0, extent: 0, tried: 2 })
        } else {
            Ok(())
        }
    }
}

impl BlockDevice for Checked {
    fn name(&self) -> String {
        if self.read_only { "ro" } else { "vol" }.to_owned()
    }
    fn identity(&self) -> (u64, u64) {
        (u64::from(self.read_only), 0)
    }
    fn size(&self) -> u64 {
        SIZE
    }
    fn is_read_only(&self) -> bool {
        self.read_only
    }
    fn description(&self) -> String {
        "checked".to_owned()
    }
    fn read(&self, offset: u64, length: usize) -> Result<Found> {
        Self::look(offset, length as u64)?;
        let mut found = Found::default();
        found.push(Buffer::copy_of(&vec![1; length]).share());
        Ok(found)
    }
    fn can_multiplex(&self) -> bool {
        self.several
    }
    fn write(&self, offset: u64, bytes: Slice) -> Result<()> {
        self.change(offset, bytes.len() as u64)
    }
    fn flush(&self) -> Result<()> {
        Ok(())
    }
    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.change(offset, length)
    }
    fn zero(&self, offset: u64, length: u64, _: bool) -> Result<()> {
        self.change(offset, length)
    }
    fn status(&self, offset: u64, length: u64, most: usize) -> Result<Vec<(u64, bool)>> {
        Self::look(offset, length)?;
        let first = length.div_ceil(2);
        let ranges = [(first, true), (length - first, false)];
        Ok(ranges.into_iter().filter(|(length, _)| *length > 0).take(most).collect())
    }
}

/// The exports `vol` and `ro`; `several`: small requests are multiplexed.
struct TestExports {
    several: bool,
}

impl Exports for TestExports {
    fn list(&self) -> Vec<String> {
        vec!["ro".to_owned(), "vol".to_owned()]
    }
    fn open(&self, name: &str) -> std::result::Result<Arc<dyn BlockDevice>, NotOpened> {
        match name {
            "vol" | "ro" => {
                Ok(Arc::new(Checked { read_only: name == "ro", several: self.several }))
            }
            _ if name.starts_with('b') => Err(NotOpened::Refused(format!("{name} is broken"))),
            _ => Err(NotOpened::Unknown),
        }
    }
}

/// Serves a client that sends these bytes and leaves, without multiplexed requests and with them.
/// Returns whether the handshake was completed.
///
/// # Panics
/// If the server has a fault.
#[must_use]
pub fn serve(input: &[u8]) -> bool {
    let agreed = [false, true].map(|several| serve_in(input, several));
    assert_eq!(agreed[0], agreed[1], "the handshake depends on how requests are carried out later");
    agreed[0]
}

fn serve_in(input: &[u8], several: bool) -> bool {
    let patience = Duration::from_secs(600);
    // Without workers beyond the first, so that there are no threads.
    let limits = Limits::of(1, 0, 64 << 20, Timeouts { handshake: patience, request: patience });
    let stream = Stream::new(Socket::Memory(Memory::new(input))).unwrap();
    let mut incoming = Incoming::new(&stream);
    let options = HandshakeOptions { tls: None, refused: &|_| (), closed: None, timeout: patience };
    let agreed =
        negotiate(&mut incoming, &stream, &TestExports { several }, &options).ok().flatten();
    let has_agreed = agreed.is_some();
    if let Some(agreed) = agreed {
        Connection::serve(stream, incoming, agreed, Arc::clone(&limits), Box::new(()));
    }
    assert_eq!(limits.bytes.used(), 0, "a client that has left holds bytes of the budget");
    has_agreed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::anything;

    /// Many more inputs than a test over sockets can try.
    #[test]
    fn any_bytes_are_served_or_refused() {
        let is_long = std::env::var_os("PLINTH_LONG").is_some_and(|value| value == "1");
        let count = if is_long { 2_000_000 } else { 20_000 };
        let agreed = (1..count).filter(|seed| serve(&anything(*seed, SIZE))).count();
        // Many get as far as requests: otherwise this would test the handshake alone.
        assert!(agreed > count as usize / 4, "{agreed} of {count}");
    }
}
