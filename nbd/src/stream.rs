//! The bytes of a connection: a unix socket or TCP, with TLS on it or not; read by one thread while others write.
//!
//! [`Stream`] is what the threads of a connection share; [`Incoming`] is its reading side, which one of them has at a time. TLS is driven
//! here: the session is locked for as long as bytes are turned into others, never while a socket is waited for, so that a client that
//! reads slowly does not keep its own requests from being read.
//!
//! Deadlines: a system call waits for [`TICK`] at most; then it is looked whether time is up. A client that drips single bytes meets the
//! deadline as well.
//!
//! Lock order: `wire`, then `tls`.

use rustix::{
    io::Errno,
    net::{RecvFlags, SendAncillaryBuffer, SendFlags, sockopt},
};
use rustls::{ServerConfig, ServerConnection};
use std::{
    io::{self, IoSlice, Read, Write},
    net::{Shutdown, TcpStream},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError},
    time::{Duration, Instant},
};

/// The longest wait of one system call.
const TICK: Duration = Duration::from_secs(5);
/// How long a TCP connection may say nothing before the other side is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// Bytes that are read ahead by who waits for them: many small requests for one system call.
const AHEAD: usize = 64 << 10;
/// Bytes that are read ahead by who takes what is there: as many small writes.
const AHEAD_MAX: usize = 256 << 10;
/// Bytes of replies that a client on a unix socket has not taken yet, before its next reply has to wait: those of all small requests that one thread has
/// under way. The kernel counts twice that, for what it needs itself. TCP finds its own measure.
const SEND_BUFFER: usize = 512 << 10;
/// Parts that are sent by one system call at most.
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
    /// Where the other side is.
    pub fn peer(&self) -> String {
        match self {
            Self::Tcp(socket) => {
                socket.peer_addr().map_or_else(|_| "an unknown address".to_owned(), |from| from.to_string())
            }
            Self::Unix(_) => "this host".to_owned(),
            #[cfg(any(test, feature = "fuzz"))]
            Self::Memory(_) => "memory".to_owned(),
        }
    }

    /// Sets it up as the others expect it.
    fn prepare(&self) -> io::Result<()> {
        match self {
            Self::Unix(socket) => {
                socket.set_nonblocking(false)?;
                // More than the limit of the system is the administrator's to allow; then it is that limit.
                sockopt::set_socket_send_buffer_size_force(socket, SEND_BUFFER)
                    .or_else(|_| sockopt::set_socket_send_buffer_size(socket, SEND_BUFFER))?;
                socket.set_read_timeout(Some(TICK))?;
                socket.set_write_timeout(Some(TICK))
            }
            Self::Tcp(socket) => {
                socket.set_nonblocking(false)?;
                socket.set_nodelay(true)?;
                sockopt::set_socket_keepalive(socket, true)?;
                sockopt::set_tcp_keepidle(socket, KEEP_ALIVE)?;
                socket.set_read_timeout(Some(TICK))?;
                socket.set_write_timeout(Some(TICK))
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

    /// The socket, to be waited for; `None` where that cannot be.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Unix(socket) => Some(socket.as_fd()),
            Self::Tcp(socket) => Some(socket.as_fd()),
            #[cfg(any(test, feature = "fuzz"))]
            Self::Memory(_) => None,
        }
    }

    /// Reads what is there, at least one byte; 0: the other side has ended.
    fn read_before(&self, into: &mut [u8], deadline: Option<Instant>) -> io::Result<usize> {
        loop {
            in_time(deadline)?;
            match self.read(into) {
                Err(error) if is_a_tick(&error) => {}
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
                Err(error) if is_a_tick(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn is_a_tick(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
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
    /// Held by who sends: what it sends is not mixed with what others send. Its bytes are those of TLS on their way.
    wire: Mutex<Vec<u8>>,
    tls: OnceLock<Mutex<ServerConnection>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream {
    pub fn new(socket: Socket) -> io::Result<Arc<Self>> {
        socket.prepare()?;
        Ok(Arc::new(Self { socket, wire: Mutex::default(), tls: OnceLock::new() }))
    }

    /// A duplicate of the socket, to be waited for until there is something to read.
    pub fn watched(&self) -> Option<Arc<OwnedFd>> {
        self.socket.descriptor()?.try_clone_to_owned().ok().map(Arc::new)
    }

    /// Sends all of the parts, one behind the other, and nothing of others between them. If it has to wait for that, it tells so first.
    pub fn send_or(&self, parts: &mut [IoSlice<'_>], deadline: Instant, has_to_wait: impl FnOnce()) -> io::Result<()> {
        let (Some(descriptor), false) = (self.socket.descriptor(), self.is_encrypted()) else {
            has_to_wait();
            return self.send(&parts.iter().map(|part| &**part).collect::<Vec<_>>(), deadline);
        };
        let mut parts = parts;
        let wire = match self.wire.try_lock() {
            Ok(wire) => {
                IoSlice::advance_slices(&mut parts, 0);
                while let Some((now, _)) =
                    parts.split_at_checked(parts.len().min(PARTS_MAX)).filter(|(now, _)| !now.is_empty())
                {
                    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                    match rustix::net::sendmsg(descriptor, now, &mut SendAncillaryBuffer::default(), flags) {
                        Ok(sent) => IoSlice::advance_slices(&mut parts, sent),
                        Err(Errno::INTR) => {}
                        Err(Errno::AGAIN) => break,
                        Err(error) => return Err(error.into()),
                    }
                }
                if parts.is_empty() {
                    return Ok(());
                }
                has_to_wait();
                wire
            }
            Err(TryLockError::WouldBlock) => {
                has_to_wait();
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

    /// Sends all of the parts, one behind the other, and nothing of others between them.
    pub fn send(&self, parts: &[&[u8]], deadline: Instant) -> io::Result<()> {
        let mut wire = locked(&self.wire);
        let Some(tls) = self.tls.get() else {
            let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
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

    /// Sends what TLS has to say of its own accord.
    fn flush_tls(&self, tls: &Mutex<ServerConnection>, deadline: Instant) -> io::Result<()> {
        let mut wire = locked(&self.wire);
        records(&mut locked(tls), &mut wire)?;
        self.flush(&mut wire, deadline)
    }

    /// Says that nothing more comes.
    pub fn close(&self) {
        if let Some(tls) = self.tls.get() {
            locked(tls).send_close_notify();
            let _ = self.flush_tls(tls, Instant::now() + TICK);
        }
        self.cut();
    }

    /// Ends the connection, whoever reads or writes.
    pub fn cut(&self) {
        let _ = match &self.socket {
            Socket::Unix(socket) => socket.shutdown(Shutdown::Both),
            Socket::Tcp(socket) => socket.shutdown(Shutdown::Both),
            #[cfg(any(test, feature = "fuzz"))]
            Socket::Memory(memory) => memory.cut(),
        };
    }
}

/// Takes the records that are ready.
fn records(session: &mut ServerConnection, into: &mut Vec<u8>) -> io::Result<()> {
    while session.wants_write() {
        session.write_tls(into)?;
    }
    Ok(())
}

/// What came of reading without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum More {
    /// `all`: there was no more.
    Read { all: bool },
    /// There is nothing yet.
    Later,
    /// Nothing comes any more.
    Ended,
}

/// The reading side of a connection.
pub(crate) struct Incoming {
    stream: Arc<Stream>,
    /// What was read ahead from the socket: of it, `ahead` is still to be used.
    buffer: Box<[u8]>,
    ahead: std::ops::Range<usize>,
}

impl Incoming {
    pub fn new(stream: &Arc<Stream>) -> Self {
        // Memory that is not used stays a promise.
        Self { stream: Arc::clone(stream), buffer: vec![0; AHEAD_MAX].into_boxed_slice(), ahead: 0..0 }
    }

    /// Fills `into`. `None`: the other side has ended before the first byte.
    pub fn read_exact(&mut self, into: &mut [u8], deadline: Option<Instant>) -> io::Result<Option<()>> {
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

    /// Waits until something was read ahead, or nothing more comes. With TLS it does not wait.
    pub fn wait(&mut self) -> io::Result<()> {
        if self.ahead.is_empty() && !self.stream.is_encrypted() {
            self.fill(None)?;
        }
        Ok(())
    }

    /// What was read ahead, and is not used yet. With TLS that is known to nobody but TLS.
    pub fn ahead(&self) -> &[u8] {
        let there = if self.stream.is_encrypted() { None } else { self.buffer.get(self.ahead.clone()) };
        there.unwrap_or_default()
    }

    /// Reads and forgets.
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

    /// Reads ahead; 0: the other side has ended.
    fn fill(&mut self, deadline: Option<Instant>) -> io::Result<usize> {
        let read = self.stream.socket.read_before(self.buffer.get_mut(..AHEAD).unwrap_or_default(), deadline)?;
        self.ahead = 0..read;
        Ok(read)
    }

    /// Room behind what was read ahead.
    fn room(&mut self) -> &mut [u8] {
        let length = self.ahead.len();
        if self.ahead.start > 0 {
            self.buffer.copy_within(self.ahead.clone(), 0);
            self.ahead = 0..length;
        }
        self.buffer.get_mut(length..).unwrap_or_default()
    }

    /// Waits until more is read ahead; `false`: nothing more comes.
    pub fn wait_for_more(&mut self, deadline: Option<Instant>) -> io::Result<bool> {
        let stream = Arc::clone(&self.stream);
        let read = stream.socket.read_before(self.room(), deadline)?;
        self.ahead.end += read;
        Ok(read > 0)
    }

    /// Reads more ahead, if it is there.
    pub fn fill_at_once(&mut self) -> io::Result<More> {
        let stream = Arc::clone(&self.stream);
        let Some(descriptor) = stream.socket.descriptor() else { return Ok(More::Later) };
        let room = self.room();
        let space = room.len();
        loop {
            return match rustix::net::recv(descriptor, &mut *room, RecvFlags::DONTWAIT) {
                Ok((_, 0)) if space > 0 => Ok(More::Ended),
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

    /// What was looked at with [`Self::ahead`] is used.
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

    /// Gives TLS something to work on; `false`: the other side has ended.
    fn feed(&mut self, tls: &Mutex<ServerConnection>, deadline: Option<Instant>) -> io::Result<bool> {
        if self.ahead.is_empty() && self.fill(deadline)? == 0 {
            return Ok(false);
        }
        let (result, speaks) = {
            let mut session = locked(tls);
            let mut there = self.buffer.get(self.ahead.clone()).unwrap_or_default();
            let taken = session.read_tls(&mut there)?;
            self.ahead.start += taken;
            let result = session.process_new_packets();
            (result, session.wants_write())
        };
        if speaks {
            // Also the alert that says why it goes no further.
            self.stream.flush_tls(tls, deadline.unwrap_or_else(|| Instant::now() + KEEP_ALIVE))?;
        }
        result.map(|_| true).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// From here on with TLS. Refused if something was sent already: what came without TLS is never taken for part of what comes with it.
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
