//! The three kinds of connection: a unix socket, TCP, TCP with TLS.
//!
//! A read has one deadline for all the bytes that it needs. TLS is driven here, one read of the
//! socket at a time, so that the deadline also holds for a client that sends a record or a
//! handshake byte by byte.

use rustix::{
    fd::{AsFd, BorrowedFd},
    net::sockopt,
};
use rustls::{ServerConfig, ServerConnection};
use std::{
    io::{self, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long a TCP connection may be idle before a keepalive probe.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// A connection's bytes.
pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<Tls>),
}

/// TLS over TCP.
pub(super) struct Tls {
    socket: TcpStream,
    session: ServerConnection,
}

impl Stream {
    /// Wraps a TCP connection, with its socket options set.
    pub fn tcp(socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, KEEP_ALIVE)?;
        Ok(Self::Tcp(socket))
    }

    /// Switches to TLS. Bytes before the handshake are not read as part of it, nor the other way
    /// round: bytes are taken from the socket only as they are needed.
    pub fn encrypt(self, config: Arc<ServerConfig>, deadline: Instant) -> io::Result<Self> {
        let Self::Tcp(socket) = self else { return Err(io::ErrorKind::InvalidInput.into()) };
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        let mut tls = Tls { socket, session };
        while tls.session.is_handshaking() {
            tls.write_out()?;
            if tls.session.is_handshaking() && !tls.read_in(Some(deadline))? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        tls.write_out()?;
        Ok(Self::Tls(Box::new(tls)))
    }

    /// The TLS session, if there is one.
    pub fn tls(&self) -> Option<&ServerConnection> {
        match self {
            Self::Tls(tls) => Some(&tls.session),
            _ => None,
        }
    }

    /// The first byte available, which stays in the socket.
    pub fn peek(&self, deadline: Instant) -> io::Result<Option<u8>> {
        let mut byte = [0];
        match self {
            Self::Tcp(socket) => {
                socket.set_read_timeout(Some(left(deadline)?))?;
                Ok((socket.peek(&mut byte)? > 0).then_some(byte[0]))
            }
            _ => Ok(None),
        }
    }

    /// Reads available bytes, at least one; 0 if the other side has ended.
    pub fn read(&mut self, into: &mut [u8], deadline: Option<Instant>) -> io::Result<usize> {
        let timeout = deadline.map(left).transpose()?;
        match self {
            Self::Unix(socket) => {
                socket.set_read_timeout(timeout)?;
                socket.read(into)
            }
            Self::Tcp(socket) => {
                socket.set_read_timeout(timeout)?;
                socket.read(into)
            }
            Self::Tls(tls) => loop {
                match tls.session.reader().read(into) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    other => return other,
                }
                if !tls.read_in(deadline)? {
                    return Ok(0);
                }
                tls.write_out()?;
            },
        }
    }

    pub fn set_write_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Unix(socket) => socket.set_write_timeout(Some(timeout)),
            Self::Tcp(socket) => socket.set_write_timeout(Some(timeout)),
            Self::Tls(tls) => tls.socket.set_write_timeout(Some(timeout)),
        }
    }

    pub fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Unix(socket) => socket.write_all(bytes),
            Self::Tcp(socket) => socket.write_all(bytes),
            Self::Tls(tls) => {
                while !bytes.is_empty() {
                    let taken = tls.session.writer().write(bytes)?;
                    bytes = bytes.get(taken..).unwrap_or_default();
                    tls.write_out()?;
                }
                Ok(())
            }
        }
    }

    /// Sends the notification that TLS ends.
    pub fn close(&mut self) {
        if let Self::Tls(tls) = self {
            tls.session.send_close_notify();
            let _ = tls.write_out();
        }
    }
}

impl Tls {
    /// Reads the socket once; `false` if the other side has ended.
    fn read_in(&mut self, deadline: Option<Instant>) -> io::Result<bool> {
        self.socket.set_read_timeout(deadline.map(left).transpose()?)?;
        if self.session.read_tls(&mut self.socket)? == 0 {
            return Ok(false);
        }
        self.session.process_new_packets().map(drop).map_err(|error| {
            // Sends the TLS alert with the reason.
            let _ = self.write_out();
            io::Error::new(io::ErrorKind::InvalidData, error)
        })?;
        Ok(true)
    }

    fn write_out(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(socket) => socket.as_fd(),
            Self::Tcp(socket) => socket.as_fd(),
            Self::Tls(tls) => tls.socket.as_fd(),
        }
    }
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}
