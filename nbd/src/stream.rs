//! The bytes of a connection: a unix socket or TCP, with TLS or without; read by one thread while
//! others write.
//!
//! The threads of a connection share its [`Stream`]; [`Incoming`] is the reading side, which one
//! thread has at a time. TLS is driven here: the TLS session is locked while bytes are encrypted or
//! decrypted, and never while a thread waits for the socket. So a client that reads slowly does not
//! stop its own requests from being read.
//!
//! Deadlines: a system call waits for [`POLL_INTERVAL`] at most, and then the deadline is checked.
//! So it also ends a connection on which single bytes arrive slowly.
//!
//! A connection without TLS may be kept for the next engine (`connection_memory.rs`). Then bytes
//! are read ahead into that memory, and every byte that is read or sent is recorded there.
//!
//! Lock order: `wire`, then `tls`.

use crate::connection_memory::{
    BATCH_MAX, ConnectionMemory, Into, Partial, RING_SIZE, Reply, SlotNumber,
};
use plinth_engine::sync::transfer::Found;

use rustix::{
    io::Errno,
    net::{RecvFlags, SendAncillaryBuffer, SendFlags, sockopt},
};
use rustls::{ServerConfig, ServerConnection};
use smallvec::SmallVec;
use std::{
    io::{self, IoSlice, Read, Write},
    net::{Shutdown, TcpStream},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// The longest wait of one system call.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How long a TCP connection may be silent before the kernel probes the client.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// Bytes of one blocking read ahead, at most: many small requests for one system call.
const AHEAD: usize = 64 << 10;
/// Bytes of a read ahead that does not block, at most: many small writes.
const AHEAD_MAX: usize = 256 << 10;
/// Bytes of replies that a client on a unix socket has not received yet, before its next reply has
/// to wait: those of all small requests that one thread has in flight. The kernel counts twice
/// that, for its own needs. TCP adjusts its buffer itself.
const SEND_BUFFER: usize = 512 << 10;
/// Parts that one system call sends, at most.
const PARTS_MAX: usize = 1024;
/// Bytes that are encrypted at a time.
const RECORDS: usize = 64 << 10;

/// A connection that was accepted.
#[derive(Debug)]
pub(crate) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
    #[cfg(any(test, feature = "fuzz"))]
    Memory(crate::fuzz::Memory),
}

impl Socket {
    /// The address of the client, for people.
    pub fn peer(&self) -> String {
        match self {
            Self::Tcp(socket) => socket
                .peer_addr()
                .map_or_else(|_| "an unknown address".to_owned(), |from| from.to_string()),
            Self::Unix(_) => "this host".to_owned(),
            #[cfg(any(test, feature = "fuzz"))]
            Self::Memory(_) => "memory".to_owned(),
        }
    }

    /// Sets the options of the socket.
    fn prepare(&self) -> io::Result<()> {
        match self {
            Self::Unix(socket) => {
                socket.set_nonblocking(false)?;
                // Only a privileged process may exceed the limit of the system; others get the
                // limit.
                sockopt::set_socket_send_buffer_size_force(socket, SEND_BUFFER)
                    .or_else(|_| sockopt::set_socket_send_buffer_size(socket, SEND_BUFFER))?;
                socket.set_read_timeout(Some(POLL_INTERVAL))?;
                socket.set_write_timeout(Some(POLL_INTERVAL))
            }
            Self::Tcp(socket) => {
                socket.set_nonblocking(false)?;
                socket.set_nodelay(true)?;
                sockopt::set_socket_keepalive(socket, true)?;
                sockopt::set_tcp_keepidle(socket, KEEP_ALIVE)?;
                socket.set_read_timeout(Some(POLL_INTERVAL))?;
                socket.set_write_timeout(Some(POLL_INTERVAL))
            }
            #[cfg(any(test, feature = "fuzz"))]
            Self::Memory(memory) => memory.prepare(),
        }
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => (&*socket).read(into),
            Self::Tcp(socket) => (&*socket).read(into),
            #[cfg(any(test, feature = "fuzz"))]
            Self::Memory(memory) => memory.read(into),
        }
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => (&*socket).write_vectored(parts),
            Self::Tcp(socket) => (&*socket).write_vectored(parts),
            #[cfg(any(test, feature = "fuzz"))]
            Self::Memory(memory) => memory.write(parts),
        }
    }

    /// The descriptor; `None` if there is none.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Unix(socket) => Some(socket.as_fd()),
            Self::Tcp(socket) => Some(socket.as_fd()),
            #[cfg(any(test, feature = "fuzz"))]
            Self::Memory(_) => None,
        }
    }

    /// Waits for bytes and reads them; 0: the client has closed its side.
    fn read_before(&self, into: &mut [u8], deadline: Option<Instant>) -> io::Result<usize> {
        loop {
            in_time(deadline)?;
            match self.read(into) {
                Err(error) if is_timeout(&error) => {}
                other => return other,
            }
        }
    }

    fn write_before(&self, mut parts: &mut [IoSlice<'_>], deadline: Instant) -> io::Result<()> {
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            in_time(Some(deadline))?;
            match self.write(parts) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut parts, written),
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn in_time(deadline: Option<Instant>) -> io::Result<()> {
    match deadline {
        Some(deadline) if Instant::now() >= deadline => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

/// A connection.
pub(crate) struct Stream {
    socket: Socket,
    /// Locked while a thread sends, so that replies are not mixed. The bytes are encrypted and not
    /// sent yet.
    wire: Mutex<Vec<u8>>,
    tls: OnceLock<Mutex<ServerConnection>>,
    kept: OnceLock<Arc<ConnectionMemory>>,
    /// A reply was sent in part: no other can follow.
    is_broken: AtomicBool,
}

/// A reply: its beginning, or all of it, and the bytes of a read. Its slot, if the connection is
/// kept.
pub(crate) struct Answer<'a> {
    pub slot: Option<SlotNumber>,
    pub header: &'a [u8],
    pub found: &'a Found,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream {
    pub fn new(socket: Socket) -> io::Result<Arc<Self>> {
        socket.prepare()?;
        let (tls, kept) = (OnceLock::new(), OnceLock::new());
        Ok(Arc::new(Self {
            socket,
            wire: Mutex::default(),
            tls,
            kept,
            is_broken: AtomicBool::new(false),
        }))
    }

    /// The memory that records received and sent bytes, if the connection is kept.
    pub fn kept(&self) -> Option<&Arc<ConnectionMemory>> {
        self.kept.get()
    }

    /// From here on the connection is kept in this memory.
    pub fn keep(&self, kept: Arc<ConnectionMemory>) {
        let _ = self.kept.set(kept);
    }

    /// Whether the connection is left to another engine.
    pub fn is_frozen(&self) -> bool {
        self.kept().is_some_and(|kept| kept.is_frozen())
    }

    /// The descriptor of the socket; `None` if there is none.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.socket.descriptor()
    }

    /// Sends replies. `before_wait` is called before the thread waits, if it has to.
    pub fn answer(
        &self,
        answers: &[Answer<'_>],
        deadline: Instant,
        before_wait: impl FnOnce(),
    ) -> io::Result<()> {
        let Some(kept) = self.kept() else {
            // A header and one run of bytes each, as a rule.
            let mut parts: Vec<IoSlice<'_>> = Vec::with_capacity(2 * answers.len());
            for answer in answers {
                parts.push(IoSlice::new(answer.header));
                parts.extend(answer.found.slices().map(IoSlice::new));
            }
            return self.send_or(&mut parts, deadline, before_wait);
        };
        let mut before_wait = Some(before_wait);
        let wire = match self.wire.try_lock() {
            Ok(wire) => wire,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                before_wait.take().into_iter().for_each(|call| call());
                locked(&self.wire)
            }
        };
        for answers in answers.chunks(BATCH_MAX) {
            if kept.is_frozen() {
                break;
            }
            let replies: SmallVec<[Reply<'_>; 8]> = answers
                .iter()
                .map(|answer| Reply {
                    slot: answer.slot,
                    header: answer.header,
                    data: answer.found.len(),
                })
                .collect();
            let mut parts: Vec<IoSlice<'_>> = Vec::with_capacity(2 * answers.len());
            for answer in answers {
                parts.push(IoSlice::new(answer.header));
                parts.extend(answer.found.slices().map(IoSlice::new));
            }
            let batch = if self.is_broken() { 0 } else { kept.stage(&replies) };
            let call = || before_wait.take().into_iter().for_each(|call| call());
            if self.send_batch(kept, batch, &mut parts, deadline, call)? {
                kept.answered(&replies);
            }
        }
        drop(wire);
        Ok(())
    }

    /// Sends the rest of a reply that an earlier engine sent in part: of its staged bytes, and then
    /// of the bytes that were read again.
    pub fn answer_rest(
        &self,
        kept: &ConnectionMemory,
        partial: &Partial,
        found: &Found,
        deadline: Instant,
    ) -> io::Result<()> {
        let wire = locked(&self.wire);
        let batch = kept.stage_rest(partial);
        let staged = kept.staged(partial);
        let mut parts: Vec<IoSlice<'_>> =
            std::iter::once(staged).chain(found.slices()).map(IoSlice::new).collect();
        let mut parts = &mut parts[..];
        // `staged` is only the rest; the bytes that were read again are complete.
        IoSlice::advance_slices(&mut parts, partial.sent_of_data());
        let reply = Reply { slot: Some(partial.slot), header: &[], data: 0 };
        if self.send_batch(kept, batch, parts, deadline, || ())? {
            kept.answered(&[reply]);
        }
        drop(wire);
        Ok(())
    }

    /// Waits for bytes and receives them; 0: the client has closed its side. For a kept connection.
    fn receive(
        &self,
        kept: &ConnectionMemory,
        into: Into,
        deadline: Option<Instant>,
    ) -> io::Result<usize> {
        let descriptor = self.socket.descriptor().ok_or(io::ErrorKind::NotConnected)?;
        loop {
            in_time(deadline)?;
            if kept.is_frozen() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            match kept.receive(descriptor, into, 0) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other.map_err(io::Error::from),
            }
        }
    }

    fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::SeqCst)
    }

    /// Sends a whole batch; the caller has locked `wire`. `false`: the rest is left to another
    /// engine.
    fn send_batch(
        &self,
        kept: &ConnectionMemory,
        batch: u32,
        mut parts: &mut [IoSlice<'_>],
        deadline: Instant,
        before_wait: impl FnOnce(),
    ) -> io::Result<bool> {
        let descriptor = self.socket.descriptor().ok_or(io::ErrorKind::NotConnected)?;
        if self.is_broken() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut before_wait = Some(before_wait);
        let mut flags = (SendFlags::DONTWAIT | SendFlags::NOSIGNAL).bits();
        IoSlice::advance_slices(&mut parts, 0);
        let mut send = || {
            while let Some((now, _)) = parts
                .split_at_mut_checked(parts.len().min(PARTS_MAX))
                .filter(|(now, _)| !now.is_empty())
            {
                if kept.is_frozen() {
                    return Ok(false);
                }
                // A client that takes a few bytes at a time meets the deadline too.
                in_time(Some(deadline))?;
                match kept.send(descriptor, batch, now, flags) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(sent) => IoSlice::advance_slices(&mut parts, sent),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => {
                        before_wait.take().into_iter().for_each(|call| call());
                        flags = SendFlags::NOSIGNAL.bits();
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(true)
        };
        let sent = send();
        if sent.is_err() {
            self.is_broken.store(true, Ordering::SeqCst);
        }
        sent
    }

    /// A duplicate of the descriptor, for waiting until there is something to read.
    pub fn watched(&self) -> Option<Arc<OwnedFd>> {
        self.socket.descriptor()?.try_clone_to_owned().ok().map(Arc::new)
    }

    /// Sends all parts in order, without bytes of other threads between them. `before_wait` is
    /// called before the thread waits, if it has to.
    pub fn send_or(
        &self,
        parts: &mut [IoSlice<'_>],
        deadline: Instant,
        before_wait: impl FnOnce(),
    ) -> io::Result<()> {
        let (Some(descriptor), false) = (self.socket.descriptor(), self.is_encrypted()) else {
            before_wait();
            return self.send(&parts.iter().map(|part| &**part).collect::<Vec<_>>(), deadline);
        };
        let mut parts = parts;
        let wire = match self.wire.try_lock() {
            Ok(wire) => {
                IoSlice::advance_slices(&mut parts, 0);
                while let Some((now, _)) = parts
                    .split_at_checked(parts.len().min(PARTS_MAX))
                    .filter(|(now, _)| !now.is_empty())
                {
                    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                    match rustix::net::sendmsg(
                        descriptor,
                        now,
                        &mut SendAncillaryBuffer::default(),
                        flags,
                    ) {
                        Ok(sent) => IoSlice::advance_slices(&mut parts, sent),
                        Err(Errno::INTR) => {}
                        Err(Errno::AGAIN) => break,
                        Err(error) => return Err(error.into()),
                    }
                }
                if parts.is_empty() {
                    return Ok(());
                }
                before_wait();
                wire
            }
            Err(TryLockError::WouldBlock) => {
                before_wait();
                locked(&self.wire)
            }
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        let sent = self.socket.write_before(parts, deadline);
        drop(wire);
        sent
    }

    pub fn is_encrypted(&self) -> bool {
        self.tls.get().is_some()
    }

    /// Sends all parts in order, without bytes of other threads between them.
    pub fn send(&self, parts: &[&[u8]], deadline: Instant) -> io::Result<()> {
        let mut wire = locked(&self.wire);
        let Some(tls) = self.tls.get() else {
            let mut slices: Vec<IoSlice<'_>> =
                parts.iter().map(|part| IoSlice::new(part)).collect();
            return self.socket.write_before(&mut slices, deadline);
        };
        for piece in parts.iter().flat_map(|part| part.chunks(RECORDS)) {
            let mut left = piece;
            while !left.is_empty() {
                {
                    let mut session = locked(tls);
                    let taken = session.writer().write(left)?;
                    left = left.get(taken..).unwrap_or_default();
                    records(&mut session, &mut wire)?;
                }
                self.flush(&mut wire, deadline)?;
            }
        }
        Ok(())
    }

    fn flush(&self, wire: &mut Vec<u8>, deadline: Instant) -> io::Result<()> {
        let sent = self.socket.write_before(&mut [IoSlice::new(wire)], deadline);
        wire.clear();
        sent
    }

    /// Sends the records of TLS itself.
    fn flush_tls(&self, tls: &Mutex<ServerConnection>, deadline: Instant) -> io::Result<()> {
        let mut wire = locked(&self.wire);
        records(&mut locked(tls), &mut wire)?;
        self.flush(&mut wire, deadline)
    }

    /// Ends the connection in good order.
    pub fn close(&self) {
        if let Some(tls) = self.tls.get() {
            locked(tls).send_close_notify();
            let _ = self.flush_tls(tls, Instant::now() + POLL_INTERVAL);
        }
        self.cut();
    }

    /// Disconnects the client, even while threads read or write. A connection that is left to
    /// another engine stays as it is.
    pub fn cut(&self) {
        if self.is_frozen() {
            return;
        }
        // First, so that no engine carries out unanswered requests.
        self.kept().into_iter().for_each(|kept| kept.end());
        let _ = match &self.socket {
            Socket::Unix(socket) => socket.shutdown(Shutdown::Both),
            Socket::Tcp(socket) => socket.shutdown(Shutdown::Both),
            #[cfg(any(test, feature = "fuzz"))]
            Socket::Memory(memory) => memory.cut(),
        };
    }
}

/// Appends the records that TLS has ready.
fn records(session: &mut ServerConnection, into: &mut Vec<u8>) -> io::Result<()> {
    while session.wants_write() {
        session.write_tls(into)?;
    }
    Ok(())
}

/// The result of a read that does not block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum More {
    /// `all`: the socket had no more.
    Read { all: bool },
    /// The socket has nothing yet.
    Later,
    /// The client has closed its side.
    Completed,
}

/// The reading side of a connection.
pub(crate) struct Incoming {
    stream: Arc<Stream>,
    /// Bytes that were read ahead, of which the range `ahead` is not used yet. Empty for a kept
    /// connection, whose bytes are in its ring.
    buffer: Box<[u8]>,
    ahead: std::ops::Range<usize>,
    /// The position in the stream of the ring's first byte.
    origin: u64,
}

impl Incoming {
    pub fn new(stream: &Arc<Stream>) -> Self {
        // Pages of the buffer that are never used take no memory.
        Self {
            stream: Arc::clone(stream),
            buffer: vec![0; AHEAD_MAX].into_boxed_slice(),
            ahead: 0..0,
            origin: 0,
        }
    }

    /// The reading side that an earlier engine left: of the ring that begins at position `origin`,
    /// the range `ahead` is not used yet.
    pub fn resumed(stream: &Arc<Stream>, origin: u64, ahead: std::ops::Range<usize>) -> Self {
        Self { stream: Arc::clone(stream), buffer: Box::default(), ahead, origin }
    }

    /// From here on the connection is kept: the bytes that were read ahead are at the ring's
    /// beginning.
    pub fn keep(&mut self) {
        self.buffer = Box::default();
        self.ahead = 0..self.ahead.len();
        self.origin = 0;
    }

    /// For a kept connection: the position in the stream of the next byte to be used.
    pub fn position(&self) -> u64 {
        self.origin + self.ahead.start as u64
    }

    /// Receives the rest of a payload into its slot, behind `received` bytes. No bytes are ahead.
    pub fn receive_payload(
        &mut self,
        kept: &ConnectionMemory,
        slot: SlotNumber,
        mut received: usize,
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        let stream = Arc::clone(&self.stream);
        let start = self.position() - received as u64;
        let length = kept.payload(slot).len();
        while received < length {
            match stream.receive(kept, Into::Payload { slot, received }, deadline)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                more => received += more,
            }
        }
        self.origin = start + length as u64;
        self.ahead = 0..0;
        Ok(())
    }

    /// Fills `into`. `None`: the client has closed its side before the first byte.
    pub fn read_exact(
        &mut self,
        into: &mut [u8],
        deadline: Option<Instant>,
    ) -> io::Result<Option<()>> {
        let mut filled = 0;
        while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.read(rest, deadline)? {
                0 if filled == 0 => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => filled += read,
            }
        }
        Ok(Some(()))
    }

    /// Waits until bytes were read ahead, or the client has closed its side. With TLS it does not
    /// wait.
    pub fn wait(&mut self) -> io::Result<()> {
        if self.stream.kept().is_some() {
            if self.ahead.is_empty() {
                self.wait_for_more(None)?;
            }
        } else if self.ahead.is_empty() && !self.stream.is_encrypted() {
            self.fill(None)?;
        }
        Ok(())
    }

    /// Bytes that were read ahead and are not used yet. With TLS none: only the TLS session has
    /// them.
    pub fn ahead(&self) -> &[u8] {
        if let Some(kept) = self.stream.kept() {
            return kept.ring(self.ahead.clone());
        }
        let there =
            if self.stream.is_encrypted() { None } else { self.buffer.get(self.ahead.clone()) };
        there.unwrap_or_default()
    }

    /// Room in the ring behind its bytes; if it is empty, `most` at most.
    fn room_in_ring(&mut self, kept: &ConnectionMemory, most: usize) -> Into {
        let length = self.ahead.len();
        if kept.compact(&self.ahead) {
            self.origin += self.ahead.start as u64;
            self.ahead = 0..length;
        }
        Into::Ring {
            origin: self.origin,
            at: self.ahead.end,
            end: if length == 0 { most } else { RING_SIZE },
        }
    }

    /// Reads bytes and drops them.
    pub fn skip(&mut self, mut length: u64, deadline: Option<Instant>) -> io::Result<()> {
        let mut waste = [0; 16 << 10];
        while length > 0 {
            let part = usize::try_from(length).unwrap_or(usize::MAX).min(waste.len());
            let Some(into) = waste.get_mut(..part) else { break };
            match self.read(into, deadline)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => length = length.saturating_sub(read as u64),
            }
        }
        Ok(())
    }

    fn read(&mut self, into: &mut [u8], deadline: Option<Instant>) -> io::Result<usize> {
        let stream = Arc::clone(&self.stream);
        let Some(tls) = stream.tls.get() else {
            if self.ahead.is_empty() {
                if into.len() >= AHEAD {
                    return stream.socket.read_before(into, deadline);
                }
                self.fill(deadline)?;
            }
            return Ok(self.take(into));
        };
        loop {
            match locked(tls).reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            if !self.feed(tls, deadline)? {
                return Ok(0);
            }
        }
    }

    /// Reads ahead; 0: the client has closed its side.
    fn fill(&mut self, deadline: Option<Instant>) -> io::Result<usize> {
        let read = self
            .stream
            .socket
            .read_before(self.buffer.get_mut(..AHEAD).unwrap_or_default(), deadline)?;
        self.ahead = 0..read;
        Ok(read)
    }

    /// Room behind the bytes that were read ahead.
    fn room(&mut self) -> &mut [u8] {
        let length = self.ahead.len();
        if self.ahead.start > 0 {
            self.buffer.copy_within(self.ahead.clone(), 0);
            self.ahead = 0..length;
        }
        self.buffer.get_mut(length..).unwrap_or_default()
    }

    /// Waits until more bytes are read ahead; `false`: the client has closed its side.
    pub fn wait_for_more(&mut self, deadline: Option<Instant>) -> io::Result<bool> {
        let stream = Arc::clone(&self.stream);
        if let Some(kept) = stream.kept() {
            let room = self.room_in_ring(kept, AHEAD);
            let read = stream.receive(kept, room, deadline)?;
            self.ahead.end += read;
            return Ok(read > 0);
        }
        let read = stream.socket.read_before(self.room(), deadline)?;
        self.ahead.end += read;
        Ok(read > 0)
    }

    /// Reads more bytes ahead, without blocking.
    pub fn fill_at_once(&mut self) -> io::Result<More> {
        let stream = Arc::clone(&self.stream);
        let Some(descriptor) = stream.socket.descriptor() else { return Ok(More::Later) };
        if let Some(kept) = stream.kept() {
            let room = self.room_in_ring(kept, RING_SIZE);
            let space = RING_SIZE - self.ahead.end;
            loop {
                return match kept.receive(descriptor, room, RecvFlags::DONTWAIT.bits()) {
                    Ok(0) if space > 0 => Ok(More::Completed),
                    Ok(read) => {
                        self.ahead.end += read;
                        Ok(More::Read { all: read < space })
                    }
                    Err(Errno::INTR) => continue,
                    Err(Errno::AGAIN) => Ok(More::Later),
                    Err(error) => Err(error.into()),
                };
            }
        }
        let room = self.room();
        let space = room.len();
        loop {
            return match rustix::net::recv(descriptor, &mut *room, RecvFlags::DONTWAIT) {
                Ok((_, 0)) if space > 0 => Ok(More::Completed),
                Ok((_, read)) => {
                    self.ahead.end += read;
                    Ok(More::Read { all: read < space })
                }
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => Ok(More::Later),
                Err(error) => Err(error.into()),
            };
        }
    }

    /// Marks bytes of [`Self::ahead`] as used.
    pub fn used(&mut self, length: usize) {
        self.ahead.start = (self.ahead.start + length).min(self.ahead.end);
    }

    fn take(&mut self, into: &mut [u8]) -> usize {
        let there = self.buffer.get(self.ahead.clone()).unwrap_or_default();
        let count = there.len().min(into.len());
        if let (Some(into), Some(from)) = (into.get_mut(..count), there.get(..count)) {
            into.copy_from_slice(from);
        }
        self.ahead.start += count;
        count
    }

    /// Reads bytes for the TLS session; `false`: the client has closed its side.
    fn feed(
        &mut self,
        tls: &Mutex<ServerConnection>,
        deadline: Option<Instant>,
    ) -> io::Result<bool> {
        if self.ahead.is_empty() && self.fill(deadline)? == 0 {
            return Ok(false);
        }
        let (result, has_records) = {
            let mut session = locked(tls);
            let mut there = self.buffer.get(self.ahead.clone()).unwrap_or_default();
            let taken = session.read_tls(&mut there)?;
            self.ahead.start += taken;
            let result = session.process_new_packets();
            (result, session.wants_write())
        };
        if has_records {
            // If TLS has failed, this sends the alert with the reason.
            self.stream.flush_tls(tls, deadline.unwrap_or_else(|| Instant::now() + KEEP_ALIVE))?;
        }
        result.map(|_| true).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Starts TLS. An error if bytes were read ahead: bytes that were sent in clear must not be
    /// taken for bytes that were sent with TLS.
    pub fn encrypt(&mut self, config: Arc<ServerConfig>, deadline: Instant) -> io::Result<()> {
        if !self.ahead.is_empty() || self.stream.is_encrypted() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        let stream = Arc::clone(&self.stream);
        let tls = stream.tls.get_or_init(|| Mutex::new(session));
        while locked(tls).is_handshaking() {
            if !self.feed(tls, Some(deadline))? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        stream.flush_tls(tls, deadline)
    }
}
