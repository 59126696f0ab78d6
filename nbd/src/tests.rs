//! Clients of all kinds against a server over memory.

mod connection_memory;

use crate::{
    Address, Keeper, Limits, Server, TOO_MANY, Timeouts, TlsRefused, TlsSource,
    protocol::{ALLOCATION, Refused, Request, answer, can, command, flag, info, option},
    transmit::INLINE_MAX,
};
use plinth_engine::{
    error::FileError,
    sync::{
        buffer::{Buffer, Slice},
        transfer::Found,
    },
};
use plinth_frontend::{
    BlockDevice, Completed, Exports, InlineRequest, NotOpened, RequestSource, block::Result,
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

const SIZE: u64 = 4 << 20;
const PIECE: u64 = 64 << 10;
/// Reads from here on wait until the gate is opened.
const GATED: u64 = SIZE - PIECE;

/// An export in memory.
struct Memory {
    bytes: Mutex<Vec<u8>>,
    read_only: bool,
    flushes: AtomicUsize,
    gate: (Mutex<bool>, Condvar),
    /// Whether requests are multiplexed, and the most that were in flight together.
    several: (AtomicBool, AtomicUsize),
    /// The changes in their order: offset, length, and the first byte.
    log: Mutex<Vec<(u64, u64, u8)>>,
}

impl Memory {
    fn new(read_only: bool) -> Arc<Self> {
        Arc::new(Self {
            bytes: Mutex::new(vec![0; SIZE as usize]),
            read_only,
            flushes: AtomicUsize::new(0),
            several: Default::default(),
            log: Mutex::default(),
            gate: (Mutex::new(false), Condvar::new()),
        })
    }

    fn open_gate(&self) {
        *self.gate.0.lock().unwrap() = true;
        self.gate.1.notify_all();
    }
}

impl BlockDevice for Memory {
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
        "memory".to_owned()
    }
    fn read(&self, offset: u64, length: usize) -> Result<Found> {
        if offset >= GATED {
            let mut open = self.gate.0.lock().unwrap();
            while !*open {
                open = self.gate.1.wait(open).unwrap();
            }
        }
        let mut found = Found::default();
        found.push(
            Buffer::copy_of(&self.bytes.lock().unwrap()[offset as usize..][..length]).share(),
        );
        Ok(found)
    }
    fn write(&self, offset: u64, bytes: Slice) -> Result<()> {
        if &bytes[..] == b"full" {
            return Err(FileError::NoSpace);
        }
        self.bytes.lock().unwrap()[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
        self.log.lock().unwrap().push((offset, bytes.len() as u64, bytes[0]));
        Ok(())
    }
    fn can_multiplex(&self) -> bool {
        self.several.0.load(Ordering::SeqCst)
    }
    fn multiplex(&self, source: &mut dyn RequestSource) {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let mut all = Vec::new();
            while let Poll::Ready(Some(next)) = source.poll_next(&mut context, all.len()) {
                all.push(next);
            }
            if all.is_empty() {
                return;
            }
            self.several.1.fetch_max(all.len(), Ordering::SeqCst);
            let one = |(tag, request)| {
                let done = match request {
                    InlineRequest::Read { offset, length } => self.read(offset, length),
                    InlineRequest::Write { offset, bytes, durably } => self
                        .write(offset, bytes)
                        .and_then(|()| if durably { self.flush() } else { Ok(()) })
                        .map(|()| Found::default()),
                    InlineRequest::Flush => self.flush().map(|()| Found::default()),
                };
                (tag, done)
            };
            let mut done: Vec<Completed> = all.into_iter().map(one).collect();
            // The last request is complete first, and alone.
            source.completed(&mut done.pop().into_iter().collect());
            source.completed(&mut done);
        }
    }
    fn flush(&self) -> Result<()> {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.zero(offset, length, true)
    }
    fn zero(&self, offset: u64, length: u64, _: bool) -> Result<()> {
        self.bytes.lock().unwrap()[offset as usize..][..length as usize].fill(0);
        self.log.lock().unwrap().push((offset, length, 0));
        Ok(())
    }
    fn status(&self, offset: u64, length: u64, most: usize) -> Result<Vec<(u64, bool)>> {
        let bytes = self.bytes.lock().unwrap();
        let mut ranges = Vec::new();
        let mut at = offset;
        while at < offset + length && ranges.len() < most {
            let next = ((at / PIECE + 1) * PIECE).min(offset + length);
            ranges
                .push((next - at, bytes[at as usize..next as usize].iter().any(|byte| *byte != 0)));
            at = next;
        }
        Ok(ranges)
    }
}

const LONG: Duration = Duration::from_secs(120);

/// Limits with `patience` as every timeout.
fn limits(clients: usize, bytes: usize, patience: Duration) -> Arc<Limits> {
    Limits::of(clients, 192, bytes, Timeouts { handshake: patience, request: patience })
}

struct TestExports(BTreeMap<String, Arc<Memory>>);

impl Exports for TestExports {
    fn list(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
    fn open(&self, name: &str) -> std::result::Result<Arc<dyn BlockDevice>, NotOpened> {
        match self.0.get(name) {
            Some(export) => Ok(export.clone()),
            None if name == "broken" => {
                Err(NotOpened::Refused("export broken: no such file".to_owned()))
            }
            None => Err(NotOpened::Unknown),
        }
    }
}

/// The connections that outlive the servers of a test.
#[derive(Default)]
struct TestKeeper(Mutex<BTreeMap<u64, (OwnedFd, OwnedFd)>>);

impl Keeper for TestKeeper {
    fn keep(&self, id: u64, memory: BorrowedFd<'_>, socket: BorrowedFd<'_>) {
        let both = (memory.try_clone_to_owned().unwrap(), socket.try_clone_to_owned().unwrap());
        self.0.lock().unwrap().insert(id, both);
    }
    fn forget(&self, id: u64) {
        self.0.lock().unwrap().remove(&id);
    }
}

impl TestKeeper {
    fn take(&self) -> Vec<(OwnedFd, OwnedFd)> {
        std::mem::take(&mut *self.0.lock().unwrap()).into_values().collect()
    }
}

/// A server with the exports `vol` and `ro`, whose connections are kept.
struct World {
    server: Server,
    keeper: Arc<TestKeeper>,
    limits: Arc<Limits>,
    vol: Arc<Memory>,
    socket: PathBuf,
    /// Failed TLS handshakes.
    refusals: Arc<Mutex<Vec<String>>>,
    _home: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self::of(Limits::new(), None)
    }

    fn of(limits: Arc<Limits>, tls: Option<TlsSource>) -> Self {
        let refusals: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = Arc::clone(&refusals);
        let refused: TlsRefused = Arc::new(move |from: &str, why: &str| {
            told.lock().unwrap().push(format!("{from}: {why}"))
        });
        let tls = tls.map(|source| (source, refused));
        let home = tempfile::tempdir().unwrap();
        let keeper = Arc::<TestKeeper>::default();
        let socket = home.path().join("nbd.sock");
        let vol = Memory::new(false);
        let exports = [("vol".to_owned(), Arc::clone(&vol)), ("ro".to_owned(), Memory::new(true))];
        let listener = Address::Unix(socket.clone()).bind().unwrap();
        let server = Server::start(
            listener,
            Arc::new(TestExports(exports.into())),
            &limits,
            tls,
            Some((keeper.clone(), "here".to_owned())),
        )
        .unwrap();
        Self { server, keeper, limits, vol, socket, refusals, _home: home }
    }

    fn connect(&self) -> Client<UnixStream> {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Client { stream }
    }

    /// A client in transmission.
    fn client(&self, export: &str, structured: bool) -> Client<UnixStream> {
        let mut client = self.connect();
        client.greet();
        if structured {
            client.agree(export);
        }
        client.go(export).unwrap();
        client
    }

    /// Waits until no client is connected, and no permit or budget is in use.
    fn is_empty_again(&self) {
        let began = Instant::now();
        let limits = &self.limits;
        let taken = || {
            let places = [&limits.clients, &limits.workers]
                .map(|places| places.taken.load(Ordering::SeqCst));
            (
                self.server.shared.lock().len(),
                limits.handshakes.lock().handshakes.len(),
                limits.bytes.used(),
                places,
            )
        };
        while taken() != (0, 0, 0, [0; 2]) {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "a client is still there: {:?}",
                taken()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

struct Client<S> {
    stream: S,
}

/// A reply in transmission: cookie, error, kind of chunk, data.
type Reply = (u64, u32, u16, Vec<u8>);

impl<S: Read + Write> Client<S> {
    fn bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn number<const N: usize>(&mut self) -> u64 {
        self.bytes(N).unwrap().iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    fn greet(&mut self) {
        assert_eq!(self.bytes(18).unwrap(), b"NBDMAGICIHAVEOPT\0\x03");
        self.send(&3u32.to_be_bytes());
    }

    fn option(&mut self, option: u32, data: &[u8]) {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        self.send(&bytes);
    }

    fn answer(&mut self) -> (u32, Vec<u8>) {
        assert_eq!(self.number::<8>(), 0x0003_e889_0455_65a9);
        self.number::<4>();
        let kind = self.number::<4>() as u32;
        let length = self.number::<4>() as usize;
        (kind, self.bytes(length).unwrap())
    }

    /// The last reply to an option.
    fn ask(&mut self, option: u32, data: &[u8]) -> (u32, Vec<u8>) {
        self.option(option, data);
        loop {
            let (kind, data) = self.answer();
            if kind == answer::ACK || kind >> 31 == 1 {
                return (kind, data);
            }
        }
    }

    fn named(name: &str, rest: &[u8]) -> Vec<u8> {
        let mut data = (name.len() as u32).to_be_bytes().to_vec();
        data.extend(name.as_bytes());
        data.extend(rest);
        data
    }

    /// Structured replies and `base:allocation`.
    fn agree(&mut self, export: &str) {
        assert_eq!(self.ask(option::STRUCTURED_REPLY, b"").0, answer::ACK);
        let query = Self::named(ALLOCATION, b"");
        let data = Self::named(export, &[&1u32.to_be_bytes()[..], &query].concat());
        assert_eq!(self.ask(option::SET_META_CONTEXT, &data).0, answer::ACK);
    }

    fn go(&mut self, export: &str) -> std::result::Result<(), (u32, String)> {
        match self.ask(option::GO, &Self::named(export, &[0, 0])) {
            (answer::ACK, _) => Ok(()),
            (kind, text) => Err((kind, String::from_utf8(text).unwrap())),
        }
    }

    fn request(&mut self, kind: u16, flags: u16, cookie: u64, offset: u64, length: u32) {
        self.send(&Request { flags, kind, cookie, offset, length }.bytes());
    }

    fn simple(&mut self) -> (u64, u32) {
        assert_eq!(self.number::<4>(), 0x6744_6698);
        let error = self.number::<4>() as u32;
        (self.number::<8>(), error)
    }

    /// A reply to a client that agreed to structured ones.
    fn reply(&mut self) -> Reply {
        if self.number::<4>() == 0x6744_6698 {
            let error = self.number::<4>() as u32;
            return (self.number::<8>(), error, 0, Vec::new());
        }
        assert_eq!(self.number::<2>(), 1, "the only chunk");
        let kind = self.number::<2>() as u16;
        let cookie = self.number::<8>();
        let length = self.number::<4>() as usize;
        let data = self.bytes(length).unwrap();
        let error =
            if kind >> 15 == 1 { u32::from_be_bytes(data[..4].try_into().unwrap()) } else { 0 };
        (cookie, error, kind, data)
    }

    fn write(&mut self, offset: u64, bytes: &[u8], flags: u16) -> u32 {
        self.request(command::WRITE, flags, 1, offset, bytes.len() as u32);
        self.send(bytes);
        self.simple().1
    }

    fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        self.request(command::READ, 0, 2, offset, length);
        assert_eq!(self.simple(), (2, 0));
        self.bytes(length as usize).unwrap()
    }
}

#[test]
fn a_client_reads_what_it_wrote() {
    let world = World::new();
    let mut client = world.client("vol", false);
    assert_eq!(client.write(1000, b"hello", 0), 0);
    assert_eq!(client.read(999, 7), b"\0hello\0");
    assert_eq!(client.write(0, &vec![7; 1 << 20], flag::FUA), 0);
    assert_eq!(world.vol.flushes.load(Ordering::SeqCst), 1);
    client.request(command::WRITE_ZEROES, flag::NO_HOLE, 3, 10, 5);
    assert_eq!(client.simple(), (3, 0));
    assert_eq!(client.read(9, 7), [7, 0, 0, 0, 0, 0, 7]);
    client.request(command::FLUSH, 0, 4, 0, 0);
    assert_eq!(client.simple(), (4, 0));
    assert_eq!(world.vol.flushes.load(Ordering::SeqCst), 2);
    assert_eq!(client.read(0, 0), b"");
    client.request(command::DISCONNECT, 0, 5, 0, 0);
    assert!(client.bytes(1).is_err(), "the end");
    world.is_empty_again();
}

#[test]
fn information_about_exports_is_right() {
    let world = World::new();
    let mut client = world.connect();
    client.greet();
    client.option(option::LIST, b"");
    let mut names = Vec::new();
    loop {
        match client.answer() {
            (answer::SERVER, data) => names.push(data),
            (kind, _) => break assert_eq!(kind, answer::ACK),
        }
    }
    assert_eq!(names, [b"\0\0\0\x02ro".to_vec(), b"\0\0\0\x03vol".to_vec()]);
    client.agree("vol");
    let wanted: Vec<u8> =
        [info::NAME, info::DESCRIPTION].iter().flat_map(|kind| kind.to_be_bytes()).collect();
    client
        .option(option::INFO, &Client::<UnixStream>::named("ro", &[&[0, 2], &wanted[..]].concat()));
    let mut told = BTreeMap::new();
    loop {
        match client.answer() {
            (answer::INFO, data) => {
                told.insert(u16::from_be_bytes([data[0], data[1]]), data[2..].to_vec());
            }
            (kind, _) => break assert_eq!(kind, answer::ACK),
        }
    }
    let flags = can::HAS_FLAGS
        | can::READ_ONLY
        | can::FLUSH
        | can::FUA
        | can::DF
        | can::MULTI_CONN
        | can::CACHE;
    assert_eq!(told[&info::EXPORT], [&SIZE.to_be_bytes()[..], &flags.to_be_bytes()].concat());
    assert_eq!(told[&info::NAME], b"ro");
    assert_eq!(told[&info::BLOCK_SIZE], [0, 0, 0, 1, 0, 0, 16, 0, 2, 0, 0, 0]);
    // A context that was negotiated for one export is not valid for another.
    client.go("ro").unwrap();
    client.request(command::BLOCK_STATUS, 0, 1, 0, 512);
    assert_eq!(client.reply().1, Refused::Invalid as u32);
    assert_eq!(world.server.clients_of("ro"), 1);
    world.server.cut("ro");
    world.is_empty_again();
}

#[test]
fn export_name_works() {
    let world = World::new();
    for (flags, zeroes) in [(3u32, 0), (1, 124), (0, 124)] {
        let mut client = world.connect();
        client.bytes(18).unwrap();
        client.send(&flags.to_be_bytes());
        client.option(option::EXPORT_NAME, b"vol");
        assert_eq!(client.number::<8>(), SIZE);
        assert_ne!(client.number::<2>() as u16 & can::HAS_FLAGS, 0);
        assert!(client.bytes(zeroes).unwrap().iter().all(|byte| *byte == 0));
        assert_eq!(client.read(0, 3), [0; 3]);
    }
    let mut client = world.connect();
    client.greet();
    client.option(option::EXPORT_NAME, b"no such");
    assert!(client.bytes(1).is_err());
    world.is_empty_again();
}

#[test]
fn an_option_after_refused_ones_is_served() {
    let world = World::new();
    let mut client = world.connect();
    client.greet();
    assert_eq!(
        client.go("nothing").unwrap_err(),
        (answer::UNKNOWN, "there is no export 'nothing'".to_owned())
    );
    assert_eq!(client.go("broken").unwrap_err().1, "export broken: no such file");
    assert_eq!(client.ask(option::STARTTLS, b"").0, answer::POLICY);
    assert_eq!(client.ask(4, b"").0, answer::UNSUPPORTED);
    assert_eq!(client.ask(11, b"").0, answer::UNSUPPORTED);
    assert_eq!(client.ask(0xffff_ffff, b"whatever").0, answer::UNSUPPORTED);
    assert_eq!(client.ask(option::LIST, b"x").0, answer::INVALID);
    assert_eq!(client.ask(option::GO, b"").0, answer::INVALID);
    assert_eq!(client.ask(option::GO, b"\xff\xff\xff\xff").0, answer::INVALID);
    assert_eq!(client.ask(option::GO, &vec![0; 100_000]).0, answer::TOO_BIG);
    assert_eq!(
        client.ask(option::SET_META_CONTEXT, b"\0\0\0\x03vol\0\0\0\0").0,
        answer::INVALID,
        "not structured"
    );
    client.go("vol").unwrap();
    assert_eq!(client.read(0, 3), [0; 3]);
    drop(client);
    let mut client = world.connect();
    client.greet();
    assert_eq!(client.ask(option::ABORT, b"").0, answer::ACK);
    assert!(client.bytes(1).is_err());
    // An option of any length is not skipped.
    let mut client = world.connect();
    client.greet();
    client.send(b"IHAVEOPT\0\0\0\x07\xff\xff\xff\xff");
    assert!(client.bytes(1).is_err());
    world.is_empty_again();
}

#[test]
fn a_connection_goes_on_after_refused_requests() {
    let world = World::new();
    let mut client = world.client("vol", false);
    assert_eq!(client.write(SIZE - 2, b"long", 0), Refused::NoSpace as u32);
    assert_eq!(client.write(u64::MAX - 1, b"far", 0), Refused::NoSpace as u32);
    assert_eq!(client.write(0, &vec![1; (32 << 20) + 1], 0), Refused::NoSpace as u32);
    assert_eq!(client.write(0, b"flag", 1 << 9), Refused::Invalid as u32);
    assert_eq!(client.write(0, b"full", 0), Refused::NoSpace as u32);
    for (kind, offset, length) in
        [(command::READ, SIZE, 1), (command::READ, 0, u32::MAX), (77, 0, 0)]
    {
        client.request(kind, 0, 8, offset, length);
        assert_eq!(client.simple(), (8, Refused::Invalid as u32));
    }
    assert_eq!(client.read(0, 4), [0; 4]);
    let mut client = world.client("ro", false);
    assert_eq!(client.write(0, b"no", 0), Refused::NotPermitted as u32);
    client.request(command::TRIM, 0, 8, 0, 512);
    assert_eq!(client.simple(), (8, Refused::NotPermitted as u32));
    assert_eq!(client.read(0, 4), [0; 4]);
    drop(client);
    world.server.stop();
    world.is_empty_again();
    assert!(!world.socket.exists());
}

#[test]
fn structured_replies_say_where_and_why() {
    let world = World::new();
    let mut client = world.client("vol", true);
    client.request(command::WRITE, 0, 1, PIECE, 3);
    client.send(b"abc");
    assert_eq!(client.reply(), (1, 0, 0, Vec::new()));
    client.request(command::READ, flag::DF, 2, PIECE, 2);
    assert_eq!(client.reply(), (2, 0, 1, [&PIECE.to_be_bytes()[..], b"ab"].concat()));
    client.request(command::READ, 0, 3, PIECE, 0);
    assert_eq!(client.reply(), (3, 0, 0, Vec::new()));
    client.request(command::WRITE, 0, 4, 0, 4);
    client.send(b"full");
    let (cookie, error, kind, data) = client.reply();
    assert_eq!((cookie, error, kind), (4, Refused::NoSpace as u32, 1 << 15 | 1));
    assert_eq!(&data[6..], b"no space left in the disk group");
    let piece = (PIECE as u32).to_be_bytes();
    let (data, hole) = (0u32.to_be_bytes(), 3u32.to_be_bytes());
    client.request(command::BLOCK_STATUS, 0, 5, 0, 3 * PIECE as u32);
    assert_eq!(
        client.reply().3,
        [&1u32.to_be_bytes()[..], &piece, &hole, &piece, &data, &piece, &hole].concat()
    );
    client.request(command::BLOCK_STATUS, flag::REQ_ONE, 6, PIECE, 3);
    assert_eq!(client.reply().3, [&1u32.to_be_bytes()[..], &3u32.to_be_bytes(), &data].concat());
}

/// Requests that wait do not stop others from being answered; all are answered in the end.
#[test]
fn requests_overtake_each_other() {
    let world = World::new();
    let mut client = world.client("vol", false);
    for cookie in 0..5 {
        client.request(command::READ, 0, cookie, GATED, 1);
    }
    for cookie in 100..200 {
        client.request(command::WRITE, 0, cookie, cookie, 1);
        client.send(b"x");
        assert_eq!(client.simple(), (cookie, 0));
    }
    // The client disconnects: requests in flight are answered all the same.
    client.request(command::DISCONNECT, 0, 0, 0, 0);
    std::thread::sleep(Duration::from_millis(50));
    world.vol.open_gate();
    let mut cookies: Vec<u64> = (0..5)
        .map(|_| {
            let (cookie, error) = client.simple();
            assert_eq!((error, client.bytes(1).unwrap()), (0, vec![0]));
            cookie
        })
        .collect();
    cookies.sort_unstable();
    assert_eq!(cookies, [0, 1, 2, 3, 4]);
    world.is_empty_again();
}

/// Small requests of one packet are in flight together, and each request gets its own reply,
/// refused and large ones included.
#[test]
fn small_requests_are_in_flight_together() {
    let world = World::new();
    world.vol.several.0.store(true, Ordering::SeqCst);
    let mut client = world.client("vol", false);
    let request =
        |kind, cookie, offset, length| Request { flags: 0, kind, cookie, offset, length }.bytes();
    let mut packet = Vec::new();
    for cookie in 0..40_u64 {
        packet.extend(match cookie % 8 {
            5 => request(command::READ, cookie, SIZE, 1),
            6 => request(command::READ, cookie, 0, INLINE_MAX + 1),
            7 => request(command::FLUSH, cookie, 0, 0),
            _ => request(command::READ, cookie, cookie * 10, 10),
        });
        packet.extend(request(command::WRITE, 100 + cookie, PIECE + cookie * 4, 4));
        packet.extend(if cookie == 9 { *b"full" } else { (cookie as u32).to_be_bytes() });
    }
    client.send(&packet);
    let mut left: std::collections::BTreeSet<u64> = (0..40).chain(100..140).collect();
    while !left.is_empty() {
        let (cookie, error) = client.simple();
        assert!(left.remove(&cookie), "{cookie} is answered twice");
        let (is_read, kind) = (cookie < 100, cookie % 8);
        let refused = if is_read { kind == 5 } else { cookie == 109 };
        assert_eq!(error != 0, refused, "{cookie}: {error}");
        if is_read && !refused && kind != 7 {
            let length = if kind == 6 { INLINE_MAX as usize + 1 } else { 10 };
            assert_eq!(client.bytes(length).unwrap().len(), length);
        }
    }
    for cookie in (0..40_u32).filter(|cookie| *cookie != 9) {
        assert_eq!(client.read(PIECE + u64::from(cookie) * 4, 4), cookie.to_be_bytes());
    }
    assert!(world.vol.several.1.load(Ordering::SeqCst) > 1, "no requests were in flight together");
    drop(client);
    world.is_empty_again();
}

/// Several connections send as much as they can, and each reads the bytes that it wrote.
#[test]
fn connections_are_served_at_the_same_time() {
    let world = World::new();
    std::thread::scope(|scope| {
        for number in 0..8u8 {
            let world = &world;
            scope.spawn(move || {
                let mut client = world.client("vol", false);
                let base = u64::from(number) * 256 * 1024;
                for round in 0..20u8 {
                    for part in 0..8u64 {
                        client.request(command::WRITE, 0, part, base + part * 32 * 1024, 32 * 1024);
                        client.send(&vec![number ^ round; 32 * 1024]);
                    }
                    let mut cookies: Vec<_> = (0..8).map(|_| client.simple()).collect();
                    cookies.sort_unstable();
                    assert_eq!(cookies, (0..8).map(|part| (part, 0)).collect::<Vec<_>>());
                    if base + 256 * 1024 <= GATED {
                        assert!(
                            client
                                .read(base, 256 * 1024)
                                .iter()
                                .all(|byte| *byte == number ^ round)
                        );
                    }
                }
            });
        }
    });
    world.is_empty_again();
}

#[test]
fn one_client_too_many_gets_the_reason() {
    let world = World::of(limits(2, 256 << 20, LONG), None);
    let held = [world.client("vol", false), world.client("ro", false)];
    let mut client = world.connect();
    client.greet();
    assert_eq!(client.go("vol").unwrap_err(), (answer::POLICY, TOO_MANY.to_owned()));
    assert_eq!(client.ask(option::LIST, b"").0, answer::POLICY);
    drop(held);
    drop(client);
    world.is_empty_again();
    world.client("vol", false);
}

/// A thousand clients send nothing: no more than the limit stay connected, and new clients are
/// served.
#[test]
fn a_thousand_silent_clients_are_not_kept() {
    let world = World::new();
    let mut before = world.client("vol", false);
    let mut silent = Vec::new();
    for number in 0..1000u64 {
        silent.extend(UnixStream::connect(&world.socket));
        if number % 100 == 99 {
            assert_eq!(before.write(number, b"served", 0), 0);
            assert_eq!(world.client("vol", false).read(number, 6), b"served");
        }
        assert!(world.server.shared.lock().len() <= 64 + 3);
    }
    assert!(silent.len() > 900);
    drop((silent, before));
    world.is_empty_again();
    world.client("vol", false);
}

/// Makes a client that stalls; it stays until it is disconnected.
type Misbehaviour = fn(&World) -> Client<UnixStream>;

/// Clients that stall at any point are disconnected, even if they send single bytes; the permits
/// and bytes that they held are free again.
#[test]
fn a_client_that_stalls_is_disconnected() {
    for several in [false, true] {
        disconnect_stalling_clients(several);
    }
}

/// `several`: small requests are multiplexed.
fn disconnect_stalling_clients(several: bool) {
    let world = World::of(limits(100, 256 << 20, Duration::from_millis(300)), None);
    world.vol.several.0.store(several, Ordering::SeqCst);
    let misbehaviour: [(&str, Misbehaviour); 8] = [
        ("silent from the beginning", |world| world.connect()),
        ("in an option", |world| {
            let mut client = world.connect();
            client.greet();
            client.send(b"IHAVEOPT\0\0\0\x07\0\0\x10\0some");
            client
        }),
        ("takes no answers to options", |world| {
            let mut client = world.connect();
            client.greet();
            client.stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
            while client.stream.write_all(b"IHAVEOPT\0\0\0\x03\0\0\0\0").is_ok() {}
            client
        }),
        ("in a request", |world| {
            let mut client = world.client("vol", false);
            client.send(
                &Request { flags: 0, kind: 1, cookie: 1, offset: 0, length: 9 }.bytes()[..20],
            );
            client
        }),
        ("in the bytes of a write", |world| {
            let mut client = world.client("vol", false);
            client.request(command::WRITE, 0, 1, 0, 2 << 20);
            client.send(&[1; 5000]);
            client
        }),
        ("in the bytes of a small write", |world| {
            let mut client = world.client("vol", false);
            client.request(command::WRITE, 0, 1, 0, INLINE_MAX);
            client.send(&[1; 5000]);
            client
        }),
        ("in a request behind others", |world| {
            let mut client = world.client("vol", false);
            let mut packet = Vec::new();
            for cookie in 0..3 {
                packet.extend(
                    Request { flags: 0, kind: command::READ, cookie, offset: 0, length: 9 }.bytes(),
                );
            }
            client.send(&packet[..packet.len() - 5]);
            client
        }),
        ("takes no replies", |world| {
            let mut client = world.client("vol", false);
            for cookie in 0..100 {
                client.request(command::READ, 0, cookie, 0, 2 << 20);
            }
            client
        }),
    ];
    std::thread::scope(|scope| {
        for (what, begin) in misbehaviour {
            let world = &world;
            scope.spawn(move || {
                let mut client = begin(world);
                let began = Instant::now();
                // A byte now and then is no progress.
                while client.stream.write_all(b"\0").is_ok()
                    && what != "takes no answers to options"
                    && what != "takes no replies"
                {
                    assert!(began.elapsed() < Duration::from_secs(60), "{what}: still served");
                    std::thread::sleep(Duration::from_millis(50));
                }
                // Replies in the socket are received, and then the end.
                let _ = io::copy(&mut client.stream, &mut io::sink());
                assert!(began.elapsed() < Duration::from_secs(60), "{what}: still served");
            });
        }
    });
    world.is_empty_again();
    assert_eq!(world.client("vol", false).read(0, 4), [0; 4], "no byte of an incomplete write");
}

/// A client disconnects after each byte of a request, alone or behind others: all of its threads
/// end at once. Earlier requests are carried out, and no part of the incomplete one.
#[test]
fn a_client_that_ends_inside_a_request_leaves_nothing_behind() {
    for several in [false, true] {
        let world = World::new();
        world.vol.several.0.store(several, Ordering::SeqCst);
        let write = |cookie, offset, byte| {
            let header =
                Request { flags: 0, kind: command::WRITE, cookie, offset, length: 64 }.bytes();
            [&header[..], &[byte; 64]].concat()
        };
        let read =
            Request { flags: 0, kind: command::READ, cookie: 9, offset: 0, length: 64 }.bytes();
        let cuts = |request: &[u8]| {
            (1..request.len()).map(|cut| request[..cut].to_vec()).collect::<Vec<_>>()
        };
        let ends = [cuts(&write(1, 4096, 9)), cuts(&read)].concat();
        for (number, end) in ends.iter().enumerate() {
            let before = if number % 2 == 0 { Vec::new() } else { write(7, 0, 5) };
            let mut client = world.client("vol", false);
            client.send(&[&before[..], end].concat());
            if number % 3 == 0 {
                // It still reads, and finds the end.
                client.stream.shutdown(std::net::Shutdown::Write).unwrap();
                let _ = io::copy(&mut client.stream, &mut io::sink()).unwrap();
            }
        }
        world.is_empty_again();
        let mut client = world.client("vol", false);
        assert_eq!(client.read(0, 64), [5; 64], "a complete request is carried out");
        assert_eq!(client.read(4096, 64), [0; 64], "an incomplete one is not");
    }
}

/// Clients hold the whole common budget, in writes that they do not end and reads that they do not
/// receive. Ordinary requests of another client are served.
#[test]
fn clients_that_hold_the_common_budget_do_not_stop_others() {
    let world = World::of(limits(100, 8 << 20, LONG), None);
    let held: Vec<_> = (0..12)
        .map(|number| {
            let mut client = world.client("vol", false);
            if number % 2 == 0 {
                client.request(command::WRITE, 0, 1, 0, 4 << 20);
                client.send(&[9; 1000]);
            } else {
                client.request(command::READ, 0, 1, 0, 4 << 20);
            }
            client
        })
        .collect();
    let began = Instant::now();
    while world.limits.bytes.used() < 8 << 20 {
        assert!(began.elapsed() < LONG, "the budget is not in use");
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut client = world.client("vol", false);
    for round in 0..100u8 {
        assert_eq!(client.write(u64::from(round), &vec![round; 1 << 20], 0), 0);
        assert!(client.read(u64::from(round), 1 << 20).iter().all(|byte| *byte == round));
    }
    assert!(world.limits.bytes.used() <= 8 << 20 && began.elapsed() < LONG);
    drop((held, client));
    world.is_empty_again();
}

/// Valid bytes in the wrong phase: options after the handshake, requests before its end, a second
/// handshake.
#[test]
fn options_and_requests_in_the_wrong_phase_are_refused() {
    let world = World::new();
    let read = Request { flags: 0, kind: command::READ, cookie: 7, offset: 0, length: 1 }.bytes();
    let go =
        [b"IHAVEOPT\0\0\0\x07\0\0\0\x09".to_vec(), Client::<UnixStream>::named("vol", &[0, 0])]
            .concat();
    let first: [&[u8]; 5] =
        [&read, &go, b"\0\0\0\x04", b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n"];
    for bytes in first {
        let mut client = world.connect();
        client.bytes(18).unwrap();
        client.send(bytes);
        assert!(client.bytes(1).is_err(), "{bytes:?} instead of flags");
    }
    let mut client = world.connect();
    client.greet();
    client.send(&read);
    assert!(client.bytes(1).is_err(), "a request instead of an option");
    for option in
        [option::GO, option::ABORT, option::LIST, option::STRUCTURED_REPLY, option::EXPORT_NAME]
    {
        let mut client = world.client("vol", false);
        assert_eq!(client.write(5, b"before", 0), 0);
        client.option(option, &Client::<UnixStream>::named("vol", &[0, 0]));
        let _ = client.stream.write_all(&[0; 64]);
        assert!(client.bytes(1).is_err(), "option {option} instead of a request");
    }
    // A context is dropped if STRUCTURED_REPLY follows it, or the export is another one.
    let mut client = world.connect();
    client.greet();
    assert_eq!(client.ask(option::SET_META_CONTEXT, b"\0\0\0\x03vol\0\0\0\0").0, answer::INVALID);
    client.agree("vol");
    client.agree("ro");
    assert_eq!(client.ask(option::STRUCTURED_REPLY, b"").0, answer::ACK);
    client.go("vol").unwrap();
    client.request(command::BLOCK_STATUS, 0, 1, 0, 512);
    assert_eq!(client.reply().1, Refused::Invalid as u32);
    client.request(command::READ, 0, 2, 5, 6);
    assert_eq!(&client.reply().3[8..], b"before");
    drop(client);
    world.is_empty_again();
}

/// The bytes of incomplete writes are bounded, and freed with their clients.
#[test]
fn unfinished_writes_hold_no_more_than_the_budget() {
    let world = World::of(limits(100, 8 << 20, LONG), None);
    let clients: Vec<_> = (0..20)
        .map(|_| {
            let mut client = world.client("vol", false);
            client.request(command::WRITE, 0, 1, 0, 4 << 20);
            client.send(&[1; 1000]);
            client
        })
        .collect();
    std::thread::sleep(Duration::from_millis(50));
    assert!(world.limits.bytes.used() <= 8 << 20);
    drop(clients);
    world.is_empty_again();
    let mut client = world.client("vol", false);
    assert_eq!(client.read(0, 1), [0], "no byte of an incomplete write");
}

/// Bytes that follow from a seed.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// The bytes of a hostile client: random bytes, options and requests with random fields, and
/// truncated ones.
pub(crate) fn anything(seed: u64, size: u64) -> Vec<u8> {
    let mut noise = Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut sent = Vec::new();
    if noise.below(8) > 0 {
        sent.extend(if noise.below(8) > 0 { 3u32 } else { noise.next() as u32 }.to_be_bytes());
    }
    for _ in 0..noise.below(6) {
        let length = noise.below(80) as usize;
        sent.extend(b"IHAVEOPT");
        let option = [5, 10, 9, 8, 7, 6, 3, 2, 1, 99][noise.below(10) as usize];
        sent.extend(if noise.below(3) > 0 { option } else { 8u32 }.to_be_bytes());
        let told = if noise.below(20) > 0 { length as u32 } else { noise.next() as u32 };
        sent.extend(told.to_be_bytes());
        let mut data = noise.bytes(length);
        if noise.below(2) == 0 {
            data = [b"\0\0\0\x03vol", &data[..]].concat();
        }
        data.truncate(length);
        sent.extend(data);
    }
    if noise.below(3) > 0 {
        sent.extend(b"IHAVEOPT\0\0\0\x07\0\0\0\x09\0\0\0\x03vol\0\0");
    }
    for _ in 0..noise.below(30) {
        let length = [0, 1, 512, 5000, noise.next() as u32][noise.below(5) as usize];
        let offset = [0, 511, size - 512, size, noise.next()][noise.below(5) as usize];
        let kind = [0, 1, 3, 4, 5, 6, 7, noise.below(12) as u16][noise.below(8) as usize];
        let flags = if noise.below(2) == 0 { 0 } else { noise.below(64) as u16 };
        sent.extend(Request { flags, kind, cookie: noise.next(), offset, length }.bytes());
        if kind == command::WRITE && noise.below(10) > 0 {
            sent.extend(noise.bytes(length.min(6000) as usize));
        }
    }
    if noise.below(3) == 0 {
        let more = noise.below(300) as usize;
        sent.extend(noise.bytes(more));
    }
    if noise.below(4) == 0 {
        sent.truncate(noise.below(sent.len() as u64 + 1) as usize);
    }
    if noise.below(4) == 0 && !sent.is_empty() {
        let at = noise.below(sent.len() as u64) as usize;
        sent[at] ^= 1 << noise.below(8);
    }
    sent
}

/// Clients send random bytes, options and requests with random fields, and truncated ones.
/// Afterwards the server still serves, and holds no permits or bytes.
#[test]
fn a_server_survives_random_bytes() {
    let world = World::new();
    world.vol.open_gate();
    for seed in 1..400u64 {
        let sent = anything(seed, SIZE);
        let stream = UnixStream::connect(&world.socket).unwrap();
        let mut reader = stream.try_clone().unwrap();
        let reading = std::thread::spawn(move || {
            let mut waste = Vec::new();
            let _ = reader.read_to_end(&mut waste);
        });
        // The server may disconnect before the end.
        let _ = (&stream).write_all(&sent);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        reading.join().unwrap();
    }
    world.is_empty_again();
    let mut client = world.client("vol", false);
    client.read(0, 4096);
}

/// The certificate of a server, and the trust of its clients.
fn tls() -> (TlsSource, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = Arc::new(server);
    (Arc::new(move || Arc::clone(&server)), Arc::new(client))
}

#[test]
fn a_server_with_a_certificate_requires_tls() {
    let (server, trust) = tls();
    let world = World::of(Limits::new(), Some(server));
    let mut client = world.connect();
    client.greet();
    assert_eq!(client.ask(option::LIST, b"").0, answer::TLS_REQUIRED);
    assert_eq!(client.go("vol").unwrap_err().0, answer::TLS_REQUIRED);
    assert_eq!(client.ask(option::STRUCTURED_REPLY, b"").0, answer::TLS_REQUIRED);
    assert_eq!(client.ask(option::STARTTLS, b"").0, answer::ACK);
    let session = ClientConnection::new(trust, "localhost".try_into().unwrap()).unwrap();
    let mut client = Client { stream: StreamOwned::new(session, client.stream) };
    assert_eq!(client.ask(option::STARTTLS, b"").0, answer::INVALID);
    assert_eq!(client.ask(option::SET_META_CONTEXT, b"\0\0\0\x03vol\0\0\0\0").0, answer::INVALID);
    client.go("vol").unwrap();
    let data = Noise(77).bytes(3 << 20);
    assert_eq!(client.write(5, &data, 0), 0);
    assert!(world.keeper.0.lock().unwrap().is_empty(), "its session dies with the process");
    assert!(client.read(5, 3 << 20) == data);
    for cookie in 0..50 {
        client.request(command::READ, 0, cookie, cookie, 10_000);
    }
    let mut cookies = Vec::new();
    for _ in 0..50 {
        let (cookie, error) = client.simple();
        assert_eq!(error, 0);
        let read = client.bytes(10_000).unwrap();
        assert!(read[5..] == data[cookie as usize..][..9995]);
        cookies.push(cookie);
    }
    cookies.sort_unstable();
    assert_eq!(cookies, (0..50).collect::<Vec<_>>());
    client.request(command::DISCONNECT, 0, 0, 0, 0);
    assert!(client.bytes(1).is_err());
    world.is_empty_again();
    // The old way in has no word for it.
    let mut client = world.connect();
    client.greet();
    client.option(option::EXPORT_NAME, b"vol");
    assert!(client.bytes(1).is_err());
    // Bytes that were sent before TLS are not taken for bytes that were sent with it.
    let mut client = world.connect();
    client.greet();
    client.send(b"IHAVEOPT\0\0\0\x05\0\0\0\0IHAVEOPT\0\0\0\x03\0\0\0\0");
    let _ = client.bytes(20);
    assert!(client.bytes(1).is_err());
    world.is_empty_again();
}

/// Each failed TLS handshake is reported with its reason: the client does not trust the server,
/// sends something else, or disconnects.
#[test]
fn failed_tls_handshakes_are_reported() {
    let (server, _) = tls();
    let (_, trusts_another) = tls();
    let world = World::of(Limits::new(), Some(server));
    let starts = || {
        let mut client = world.connect();
        client.greet();
        assert_eq!(client.ask(option::STARTTLS, b"").0, answer::ACK);
        client
    };
    let session = ClientConnection::new(trusts_another, "localhost".try_into().unwrap()).unwrap();
    let mut client = Client { stream: StreamOwned::new(session, starts().stream) };
    assert!(
        client
            .stream
            .write_all(b"IHAVEOPT")
            .and_then(|()| client.stream.read_exact(&mut [0]))
            .is_err()
    );
    drop(client);
    world.is_empty_again();
    let mut client = starts();
    client.send(b"GET / HTTP/1.1\r\n\r\n");
    let _ = io::copy(&mut client.stream, &mut io::sink());
    world.is_empty_again();
    drop(starts());
    world.is_empty_again();
    let told = world.refusals.lock().unwrap().clone();
    let [untrusted, strange, left] = &told[..] else { panic!("{told:?}") };
    assert!(
        untrusted.starts_with("this host: ") && untrusted.contains("fatal alert"),
        "{untrusted}"
    );
    assert!(strange.contains("corrupt message"), "{strange}");
    assert!(left.contains("ended the connection"), "{left}");
}

#[test]
fn an_address_is_free_again_when_its_owner_has_ended() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("socket");
    let address = Address::Unix(path.clone());
    let first = address.bind().unwrap();
    assert_eq!(address.bind().unwrap_err().kind(), io::ErrorKind::AddrInUse);
    drop(first);
    assert!(!path.exists());
    // A killed process leaves the file behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(address.bind().unwrap());
    std::fs::write(&path, "precious").unwrap();
    assert_eq!(address.bind().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
}
