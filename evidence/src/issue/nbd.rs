//! A client of an NBD export: fixed newstyle handshake, one request at a time on a connection.

use std::{
    fmt,
    io::{self, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    time::Duration,
};

const DEFAULT_PORT: u16 = 10809;
const MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const FLAG_READ_ONLY: u16 = 1 << 1;
const FLAG_FLUSH: u16 = 1 << 2;
const FLAG_FUA: u16 = 1 << 3;
const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const COMMAND_FUA: u16 = 1;
/// The longest answer of a server to an option.
const ANSWER_MAX: u32 = 64 << 10;
/// Answers before the export is there.
const ANSWERS_MAX: usize = 100;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Where an export is: `nbd://host:port/export` or `nbd+unix:///export?socket=PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    place: Place,
    export: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Tcp(String, u16),
    Unix(String),
}

impl Address {
    /// None if it is no address of an export.
    #[must_use]
    pub fn parse(text: &str) -> Option<Result<Self, String>> {
        if let Some(rest) = text.strip_prefix("nbd://") {
            let (place, export) = rest.split_once('/').unwrap_or((rest, ""));
            return Some(Self::tcp(place, export));
        }
        let rest = text.strip_prefix("nbd+unix://")?;
        let (export, query) = rest.split_once('?').unwrap_or((rest, ""));
        let socket = query.split('&').find_map(|part| part.strip_prefix("socket="));
        Some(match socket.filter(|path| !path.is_empty()) {
            Some(path) => Ok(Self {
                place: Place::Unix(path.to_owned()),
                export: export.trim_start_matches('/').to_owned(),
            }),
            None => Err("it names no socket: nbd+unix:///EXPORT?socket=PATH".to_owned()),
        })
    }

    fn tcp(place: &str, export: &str) -> Result<Self, String> {
        // An address of IPv6 is in brackets.
        let after_bracket = place.rfind(']').map_or(0, |at| at + 1);
        let colon = place.get(after_bracket..).and_then(|rest| rest.rfind(':'));
        let (host, port) = match colon {
            None => (place, DEFAULT_PORT),
            Some(at) => {
                let (host, port) = place.split_at(after_bracket + at);
                let port = port[1..].parse().map_err(|_| format!("{port:?} is no port"))?;
                (host, port)
            }
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err("it names no host: nbd://HOST:PORT/EXPORT".to_owned());
        }
        Ok(Self { place: Place::Tcp(host.to_owned(), port), export: export.to_owned() })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Tcp(host, port) => write!(f, "nbd://{host}:{port}/{}", self.export),
            Place::Unix(path) => write!(f, "nbd+unix:///{}?socket={path}", self.export),
        }
    }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection.
pub struct Client {
    stream: Box<dyn Stream>,
    pub size: u64,
    pub is_read_only: bool,
    has_flush: bool,
    has_fua: bool,
    cookie: u64,
}

impl Client {
    /// # Errors
    /// If the server is not there, is no NBD server, or has no such export.
    pub fn connect(address: &Address) -> io::Result<Self> {
        let stream: Box<dyn Stream> = match &address.place {
            Place::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port))?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                Box::new(stream)
            }
            Place::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                Box::new(stream)
            }
        };
        let mut client = Self {
            stream,
            size: 0,
            is_read_only: false,
            has_flush: false,
            has_fua: false,
            cookie: 0,
        };
        client.handshake(&address.export)?;
        Ok(client)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn handshake(&mut self, export: &str) -> io::Result<()> {
        let magic = u64::from_be_bytes(self.array()?);
        let option = u64::from_be_bytes(self.array()?);
        let flags = u16::from_be_bytes(self.array()?);
        if magic != MAGIC || option != OPTION_MAGIC || flags & 1 == 0 {
            return Err(wrong("the server does not speak the fixed newstyle protocol of NBD"));
        }
        let mut greeting = (u32::from(flags & 3)).to_be_bytes().to_vec();
        greeting.extend(OPTION_MAGIC.to_be_bytes());
        greeting.extend(OPTION_GO.to_be_bytes());
        greeting.extend((export.len() as u32 + 6).to_be_bytes());
        greeting.extend((export.len() as u32).to_be_bytes());
        greeting.extend(export.as_bytes());
        greeting.extend([0, 0]);
        self.stream.write_all(&greeting)?;
        for _ in 0..ANSWERS_MAX {
            let magic = u64::from_be_bytes(self.array()?);
            let _option: [u8; 4] = self.array()?;
            let kind = u32::from_be_bytes(self.array()?);
            let length = u32::from_be_bytes(self.array()?);
            if magic != REPLY_MAGIC || length > ANSWER_MAX {
                return Err(wrong("the server's answer is no answer of NBD"));
            }
            let mut answer = vec![0; length as usize];
            self.stream.read_exact(&mut answer)?;
            match kind {
                REPLY_ACK if self.size > 0 => return Ok(()),
                REPLY_ACK => return Err(wrong("the server has not told the size of the export")),
                REPLY_INFO => self.learn(&answer),
                _ => {
                    let text = String::from_utf8_lossy(&answer).escape_debug().to_string();
                    return Err(wrong(&format!(
                        "the server refuses the export {export:?} (error {:#x}) {text}",
                        kind & 0xffff
                    )));
                }
            }
        }
        Err(wrong("the server talks and never gives the export"))
    }

    fn learn(&mut self, info: &[u8]) {
        let (Some([0, 0]), Some(size), Some(flags)) =
            (info.first_chunk::<2>(), info.get(2..10), info.get(10..12))
        else {
            return;
        };
        self.size = u64::from_be_bytes(size.try_into().unwrap_or_default());
        let flags = u16::from_be_bytes(flags.try_into().unwrap_or_default());
        self.is_read_only = flags & FLAG_READ_ONLY != 0;
        self.has_flush = flags & FLAG_FLUSH != 0;
        self.has_fua = flags & FLAG_FUA != 0;
    }

    fn request(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        data: &[u8],
        length: usize,
    ) -> io::Result<()> {
        self.cookie += 1;
        let length = u32::try_from(length).map_err(|_| wrong("the request is too long"))?;
        let mut bytes = Vec::with_capacity(28 + data.len());
        bytes.extend(REQUEST_MAGIC.to_be_bytes());
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(self.cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(data);
        self.stream.write_all(&bytes)?;
        let magic = u32::from_be_bytes(self.array()?);
        let error = u32::from_be_bytes(self.array()?);
        let cookie = u64::from_be_bytes(self.array()?);
        if magic != SIMPLE_REPLY_MAGIC || cookie != self.cookie {
            return Err(wrong("the server's reply is to no request"));
        }
        match i32::try_from(error) {
            Ok(0) => Ok(()),
            Ok(error) => Err(io::Error::from_raw_os_error(error)),
            Err(_) => Err(wrong("the server's error is none")),
        }
    }

    /// # Errors
    /// Those of the server and of the connection.
    pub fn read(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.request(READ, 0, offset, &[], bytes.len())?;
        self.stream.read_exact(bytes)
    }

    /// Durable with FUA, or with a flush behind it where the server has no FUA.
    ///
    /// # Errors
    /// Those of the server and of the connection.
    pub fn write(&mut self, offset: u64, bytes: &[u8], is_durable: bool) -> io::Result<()> {
        let flags = if is_durable && self.has_fua { COMMAND_FUA } else { 0 };
        self.request(WRITE, flags, offset, bytes, bytes.len())?;
        if is_durable && !self.has_fua { self.flush() } else { Ok(()) }
    }

    /// # Errors
    /// Those of the server and of the connection.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.has_flush { self.request(FLUSH, 0, 0, &[], 0) } else { Ok(()) }
    }
}

fn wrong(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.to_owned())
}
