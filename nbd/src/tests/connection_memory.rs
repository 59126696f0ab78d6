//! Servers crash at each step at which a kill can find them; their client notices nothing.

use super::*;
use crate::{
    Survivor,
    connection_memory::{About, ConnectionMemory},
    crash_points::{CrashedThreads, Plan, plan},
    negotiate::Agreed,
    stream::{Incoming, Socket, Stream},
    transmit::Connection,
};
use std::{
    net::{TcpListener, TcpStream},
    os::fd::{AsFd, OwnedFd},
    sync::mpsc::{Sender, channel},
    thread,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Unix,
    Tcp,
}

#[derive(Debug, Clone, Copy)]
struct Story {
    over: Over,
    structured: bool,
    several: bool,
}

/// The end of a server.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Died,
    Completed,
}

fn socket(fd: &OwnedFd, over: Over) -> Socket {
    let fd = fd.try_clone().unwrap();
    match over {
        Over::Unix => Socket::Unix(fd.into()),
        Over::Tcp => Socket::Tcp(fd.into()),
    }
}

/// One connection, and servers one after the other.
struct Servers {
    story: Story,
    vol: Arc<Memory>,
    server: OwnedFd,
    memory: OwnedFd,
    crashed: Arc<CrashedThreads>,
    events: Sender<Event>,
}

impl Servers {
    /// Starts a server for the connection, the first or a later one, which crashes after `steps`
    /// steps.
    fn start(&self, is_first: bool, steps: Option<u64>) -> thread::JoinHandle<()> {
        let (story, vol, crashed) = (self.story, Arc::clone(&self.vol), Arc::clone(&self.crashed));
        let (server, memory) = (self.server.try_clone().unwrap(), self.memory.try_clone().unwrap());
        let (died, ended) = (self.events.clone(), self.events.clone());
        thread::spawn(move || {
            // The server has one thread, so that its crash is that of the server.
            let limits = Limits::of(10, 0, 64 << 20, Timeouts { handshake: LONG, request: LONG });
            plan(Plan {
                steps,
                crashed,
                stopped: Box::new(move || died.send(Event::Died).unwrap()),
            });
            let agreed = Agreed {
                export: vol,
                export_name: "vol".to_owned(),
                size: SIZE,
                structured: story.structured,
                allocation: story.structured,
            };
            if is_first {
                let stream = Stream::new(socket(&server, story.over)).unwrap();
                let (kept, _) = ConnectionMemory::attach(memory).unwrap();
                stream.keep(Arc::new(kept));
                let mut incoming = Incoming::new(&stream);
                incoming.keep();
                Connection::serve(stream, incoming, agreed, limits, Box::new(()));
            } else if let Ok(Survivor { stream, found, guards, .. }) =
                Survivor::new(&limits, memory, server)
            {
                assert_eq!((found.about.size, found.about.export.as_str()), (SIZE, "vol"));
                Connection::resume(stream, &found, guards, agreed, limits, Box::new(()));
            }
            let _ = ended.send(Event::Completed);
        })
    }
}

/// Serves `client`. Server after server crashes, each after its number of steps in `deaths`; the
/// last one does not. Returns how many have crashed.
fn serve(story: Story, deaths: &[u64], client: impl FnOnce(Connected, &Memory) + Send) -> usize {
    let (connected, server): (Connected, OwnedFd) = match story.over {
        Over::Unix => {
            let (client, server) = UnixStream::pair().unwrap();
            client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            (Connected::Unix(client), server.into())
        }
        Over::Tcp => {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            client.set_nodelay(true).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            (Connected::Tcp(client), listener.accept().unwrap().0.into())
        }
    };
    let vol = Memory::new(false);
    vol.several.0.store(story.several, Ordering::SeqCst);
    let about = About {
        place: "here".to_owned(),
        export: "vol".to_owned(),
        identity: vol.identity(),
        size: SIZE,
        read_only: false,
        structured: story.structured,
        allocation: story.structured,
    };
    let kept = ConnectionMemory::new(7, &about, b"").unwrap();
    let memory = kept.file().try_clone_to_owned().unwrap();
    drop(kept);
    let crashed = Arc::<CrashedThreads>::default();
    let (events, heard) = channel();
    let servers = Servers {
        story,
        vol: Arc::clone(&vol),
        server,
        memory,
        crashed: Arc::clone(&crashed),
        events,
    };
    let mut threads = vec![servers.start(true, deaths.first().copied())];
    let mut died = 0;
    thread::scope(|scope| {
        let client = scope.spawn(|| client(connected, &vol));
        while heard.recv().unwrap() == Event::Died {
            died += 1;
            threads.push(servers.start(false, deaths.get(died).copied()));
        }
        client
            .join()
            .unwrap_or_else(|_| panic!("the client of {story:?} with deaths after {deaths:?}"));
    });
    crashed.release();
    threads.into_iter().for_each(|thread| drop(thread.join()));
    // No change is carried out again after a later change of the same bytes.
    let log = vol.log.lock().unwrap();
    for (first, one) in log.iter().enumerate() {
        let again = log.iter().rposition(|other| other == one).unwrap();
        for other in &log[first..again] {
            let is_apart = other.0 + other.1 <= one.0 || one.0 + one.1 <= other.0;
            assert!(
                other == one || is_apart,
                "{one:?} again after {other:?}: {story:?} with deaths after {deaths:?}"
            );
        }
    }
    died
}

enum Connected {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Read for Connected {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(into),
            Self::Tcp(stream) => stream.read(into),
        }
    }
}

impl Write for Connected {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(from),
            Self::Tcp(stream) => stream.write(from),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A client that knows the bytes that the export should have.
struct CheckingClient {
    client: Client<Connected>,
    structured: bool,
    bytes: Vec<u8>,
    next: u64,
    /// Requests in flight; of a read, the range, if its bytes are known.
    asked: BTreeMap<u64, Option<(u64, u32)>>,
}

impl CheckingClient {
    /// The bytes of a request, whose reply is expected.
    fn ask(&mut self, kind: u16, offset: u64, length: u32, is_certain: bool) -> Vec<u8> {
        self.next += 1;
        let range = (kind == command::READ).then_some((offset, length));
        let (flags, cookie) = (0, self.next);
        self.asked.insert(cookie, range);
        if kind == command::READ && !is_certain {
            self.asked.insert(cookie, Some((u64::MAX, length)));
        }
        Request { flags, kind, cookie, offset, length }.bytes()
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Vec<u8> {
        [self.ask(command::WRITE, offset, bytes.len() as u32, true), bytes.to_vec()].concat()
    }

    /// Receives all replies, and returns their errors.
    fn replies(&mut self) -> Vec<u32> {
        let mut errors = Vec::new();
        while !self.asked.is_empty() {
            let (cookie, error, data) = if self.structured {
                let (cookie, error, kind, data) = self.client.reply();
                let data = if kind == 1 { data[8..].to_vec() } else { Vec::new() };
                (cookie, error, data)
            } else {
                let (cookie, error) = self.client.simple();
                let length = match self.asked.get(&cookie) {
                    Some(Some((_, length))) if error == 0 => *length as usize,
                    _ => 0,
                };
                (cookie, error, self.client.bytes(length).unwrap())
            };
            let asked = self.asked.remove(&cookie).expect("answered once");
            if let Some((offset, length)) = asked {
                assert_eq!(data.len(), length as usize);
                assert!(
                    offset == u64::MAX || data == self.bytes[offset as usize..][..length as usize],
                    "at {offset}"
                );
            }
            errors.extend(Some(error).filter(|error| *error != 0));
        }
        errors
    }

    fn set(&mut self, offset: u64, bytes: &[u8]) {
        self.bytes[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }
}

/// Sends requests of all kinds, so that a lost, repeated or misplaced one is found.
fn works(connected: Connected, structured: bool, vol: &Memory) {
    let mut it = CheckingClient {
        client: Client { stream: connected },
        structured,
        bytes: vec![0; SIZE as usize],
        next: 0,
        asked: BTreeMap::new(),
    };
    // Two writes of the same bytes, and others, all at the same time.
    let (one, other, third) = (vec![1; 6000], vec![2; 6000], vec![3; 5000]);
    let burst = [
        it.write(4096, &one),
        it.write(7000, &other),
        it.ask(command::READ, 20_000, 5000, false),
        it.write(20_000, &third),
        it.ask(command::FLUSH, 0, 0, true),
        it.ask(command::READ, 100_000, 3000, true),
    ];
    it.client.send(&burst.concat());
    assert_eq!(it.replies(), []);
    it.set(4096, &one);
    it.set(7000, &other);
    it.set(20_000, &third);
    // Either may be the later one; from here on that does not change.
    let both = vol.bytes.lock().unwrap()[7000..10_096].to_vec();
    assert!(both.iter().all(|byte| *byte == both[0] && (1..=2).contains(byte)));
    it.set(7000, &both);
    let all = it.ask(command::READ, 0, 30_000, true);
    it.client.send(&all);
    assert_eq!(it.replies(), []);
    // A large one, in pieces, with others behind it.
    let large: Vec<u8> = (0..200_000_u32).map(|i| (i * 7 / 3) as u8).collect();
    let write = it.write(150_000, &large);
    let (first, rest) = write.split_at(1000);
    it.client.send(first);
    thread::yield_now();
    let (middle, end) = rest.split_at(100_000);
    it.client.send(middle);
    thread::yield_now();
    let small = it.write(3, b"small");
    it.client.send(&[end, &small].concat());
    assert_eq!(it.replies(), []);
    it.set(150_000, &large);
    it.set(3, b"small");
    // A reply that needs several system calls.
    let reads = [
        it.ask(command::READ, 0, 1_500_000, true),
        it.ask(command::READ, 1, 9, true),
        it.ask(command::READ, 2, 0, true),
    ];
    it.client.send(&reads.concat());
    assert_eq!(it.replies(), []);
    // A refused write with its payload, and a write that fails.
    let refused = it.write(SIZE - 10, &vec![9; 70_000]);
    let (first, rest) = refused.split_at(40);
    it.client.send(first);
    thread::yield_now();
    it.client.send(rest);
    assert_eq!(it.replies(), [Refused::NoSpace as u32]);
    let full = it.write(50_000, b"full");
    it.client.send(&full);
    assert_eq!(it.replies(), [Refused::NoSpace as u32]);
    // Other changes.
    let changes = [
        it.ask(command::WRITE_ZEROES, 5000, 100, true),
        it.ask(command::TRIM, 160_000, 10_000, true),
        it.ask(command::CACHE, 0, 100, true),
    ];
    it.client.send(&changes.concat());
    assert_eq!(it.replies(), []);
    it.set(5000, &[0; 100]);
    it.set(160_000, &[0; 10_000]);
    if structured {
        let status = it.ask(command::BLOCK_STATUS, 0, SIZE as u32, true);
        it.client.send(&status);
        assert_eq!(it.replies(), []);
    }
    // A write in pieces that end at each boundary.
    let write = it.write(60_000, &[8; 300]);
    for piece in [&write[..1], &write[1..27], &write[27..28], &write[28..30], &write[30..]] {
        it.client.send(piece);
        thread::yield_now();
    }
    let read = it.ask(command::READ, 0, 400_000, true);
    it.set(60_000, &[8; 300]);
    assert_eq!(it.replies_of_others(&read), []);
    it.client.request(command::DISCONNECT, 0, 0, 0, 0);
    assert!(it.client.bytes(1).is_err(), "the end, and nothing before it");
}

impl CheckingClient {
    /// Receives the replies to earlier requests, and then sends this one and receives its reply.
    fn replies_of_others(&mut self, request: &[u8]) -> Vec<u32> {
        let (cookie, range) = self.asked.pop_last().unwrap();
        let mut errors = self.replies();
        self.client.send(request);
        self.asked.insert(cookie, range);
        errors.extend(self.replies());
        errors
    }
}

fn stories() -> impl Iterator<Item = Story> {
    [Over::Unix, Over::Tcp].into_iter().flat_map(|over| {
        [(false, false), (true, false), (false, true), (true, true)]
            .into_iter()
            .map(move |(structured, several)| Story { over, structured, several })
    })
}

/// One server crashes, at each step.
#[test]
fn a_client_does_not_notice_a_crash_at_any_step() {
    for story in stories() {
        let mut steps = 1;
        while serve(story, &[steps], |connected, vol| works(connected, story.structured, vol)) > 0 {
            steps += 1;
        }
        println!("{story:?}: {steps} steps");
        assert!(steps > 100, "{story:?} has but {steps} steps");
    }
}

/// Servers crash one after the other, early and late.
#[test]
fn a_client_does_not_notice_a_series_of_crashes() {
    let mut seed = 1_u64;
    let mut next = |most: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % most + 1
    };
    let is_long = std::env::var_os("PLINTH_LONG").is_some_and(|value| value == "1");
    let mut died = 0;
    for round in 0..if is_long { 5000 } else { 150 } {
        for story in stories() {
            let most = [4, 12, 40, 150][round % 4];
            let deaths: Vec<u64> = (0..20).map(|_| next(most)).collect();
            died += serve(story, &deaths, |connected, vol| works(connected, story.structured, vol));
        }
    }
    println!("{died} deaths");
}

/// A server leaves its connections to another one: each request is answered once.
#[test]
fn a_server_that_freezes_leaves_its_clients_to_the_next() {
    for round in 0..20 {
        let world = World::new();
        let keeper = Arc::clone(&world.keeper);
        let mut client = world.client("vol", false);
        // In flight when the server freezes: the read waits at the gate, or is not received yet.
        client.request(command::READ, 0, 1, GATED, 100);
        client.request(command::WRITE, 0, 2, 5, 4);
        client.send(b"abcd");
        if round % 2 == 0 {
            client.simple();
        }
        // A connection that is not kept yet would be disconnected.
        while keeper.0.lock().unwrap().is_empty() {
            thread::yield_now();
        }
        let waits = {
            let vol = Arc::clone(&world.vol);
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(5));
                vol.open_gate();
            })
        };
        world.server.freeze();
        waits.join().unwrap();
        // In this test the process goes on, so the thread that reads the socket has to end first.
        client.request(command::WRITE, 0, 3, 100, 5);
        client.send(b"again");
        while world.limits.clients.taken.load(Ordering::SeqCst) > 0 {
            thread::yield_now();
        }
        let left = keeper.take();
        assert_eq!(left.len(), 1, "one is left to the next server");
        let next = World::new();
        next.vol.open_gate();
        for (memory, socket) in left {
            let survivor = Survivor::new(&next.limits, memory, socket).unwrap();
            assert_eq!((survivor.place(), survivor.export()), ("here", "vol"));
            next.server.resume(survivor).unwrap();
        }
        let mut cookies = Vec::new();
        for _ in 0..if round % 2 == 0 { 2 } else { 3 } {
            let (cookie, error) = client.simple();
            assert_eq!(error, 0);
            if cookie == 1 {
                client.bytes(100).unwrap();
            }
            cookies.push(cookie);
        }
        assert!(cookies.contains(&1) && cookies.contains(&3), "{cookies:?}");
        assert_eq!(next.server.clients_of("vol"), 1);
        assert_eq!(client.read(100, 5), b"again");
        client.request(command::DISCONNECT, 0, 5, 0, 0);
        assert!(client.bytes(1).is_err(), "the end");
        next.is_empty_again();
        assert_eq!(next.keeper.take().len(), 0, "a connection that has ended is not kept");
    }
}

/// The memory of another version, and other files, are refused. Unanswered requests of a connection
/// that has ended are not carried out.
#[test]
fn a_file_that_is_no_memory_of_a_connection_is_refused() {
    let limits = Limits::new();
    let survivor = |memory: OwnedFd| {
        let (client, server) = UnixStream::pair().unwrap();
        let refused =
            Survivor::new(&limits, memory, server.into()).err().map(|error| error.to_string());
        (client, refused)
    };
    let empty = rustix::fs::memfd_create(c"empty", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    assert!(survivor(empty).1.unwrap().contains("version"));
    let about = About {
        place: "here".to_owned(),
        export: "vol".to_owned(),
        identity: (1, 2),
        size: SIZE,
        read_only: false,
        structured: false,
        allocation: false,
    };
    let kept = ConnectionMemory::new(7, &about, b"ahead").unwrap();
    let memory = || kept.file().as_fd().try_clone_to_owned().unwrap();
    assert_eq!(survivor(memory()).1, None);
    kept.end();
    let (mut client, refused) = survivor(memory());
    assert!(refused.unwrap().contains("ended"));
    assert_eq!(client.read(&mut [0]).unwrap(), 0, "the client is disconnected");
}
