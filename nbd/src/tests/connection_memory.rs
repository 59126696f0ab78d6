//! Servers that die at each step at which a kill can find them, under a client that notices nothing.

use super::*;
use crate::{
    Survivor,
    connection_memory::{About, Kept},
    crash_points::{Grave, Plan, plan},
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

/// What has become of a server.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Died,
    Ended,
}

fn socket(fd: &OwnedFd, over: Over) -> Socket {
    let fd = fd.try_clone().unwrap();
    match over {
        Over::Unix => Socket::Unix(fd.into()),
        Over::Tcp => Socket::Tcp(fd.into()),
    }
}

/// One connection, and servers one after the other.
struct Lives {
    story: Story,
    vol: Arc<Memory>,
    server: OwnedFd,
    memory: OwnedFd,
    grave: Arc<Grave>,
    events: Sender<Event>,
}

impl Lives {
    /// Has a server serve the connection, the first or the next one, until it dies after so many steps.
    fn start(&self, is_first: bool, steps: Option<u64>) -> thread::JoinHandle<()> {
        let (story, vol, grave) = (self.story, Arc::clone(&self.vol), Arc::clone(&self.grave));
        let (server, memory) = (self.server.try_clone().unwrap(), self.memory.try_clone().unwrap());
        let (died, ended) = (self.events.clone(), self.events.clone());
        thread::spawn(move || {
            // One thread does it all, so that its death is the server's.
            let limits = Limits::of(10, 0, 64 << 20, Patience { handshake: LONG, request: LONG });
            plan(Plan { steps, grave, died: Box::new(move || died.send(Event::Died).unwrap()) });
            let agreed = Agreed {
                export: vol,
                export_name: "vol".to_owned(),
                size: SIZE,
                structured: story.structured,
                allocation: story.structured,
            };
            if is_first {
                let stream = Stream::new(socket(&server, story.over)).unwrap();
                let (kept, _) = Kept::attach(memory).unwrap();
                stream.keep(Arc::new(kept));
                let mut incoming = Incoming::new(&stream);
                incoming.keep();
                Connection::serve(stream, incoming, agreed, limits, Box::new(()));
            } else if let Ok(Survivor { stream, found, inside, .. }) =
                Survivor::new(&limits, memory, server)
            {
                assert_eq!((found.about.size, found.about.export.as_str()), (SIZE, "vol"));
                Connection::resume(stream, &found, inside, agreed, limits, Box::new(()));
            }
            let _ = ended.send(Event::Ended);
        })
    }
}

/// Serves a client that does what `client` does. The servers die after so many steps each, the last one does not. Returns how many died.
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
    let kept = Kept::new(7, &about, b"").unwrap();
    let memory = kept.file().try_clone_to_owned().unwrap();
    drop(kept);
    let grave = Arc::<Grave>::default();
    let (events, heard) = channel();
    let lives =
        Lives { story, vol: Arc::clone(&vol), server, memory, grave: Arc::clone(&grave), events };
    let mut threads = vec![lives.start(true, deaths.first().copied())];
    let mut died = 0;
    thread::scope(|scope| {
        let client = scope.spawn(|| client(connected, &vol));
        while heard.recv().unwrap() == Event::Died {
            died += 1;
            threads.push(lives.start(false, deaths.get(died).copied()));
        }
        client
            .join()
            .unwrap_or_else(|_| panic!("the client of {story:?} with deaths after {deaths:?}"));
    });
    grave.open();
    threads.into_iter().for_each(|thread| drop(thread.join()));
    // Nothing is done again behind something that was done later to the same bytes.
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

/// A client that knows what the export should hold.
struct Knowing {
    client: Client<Connected>,
    structured: bool,
    bytes: Vec<u8>,
    next: u64,
    /// Reads that were asked for: what they cannot but find, if anything is certain.
    asked: BTreeMap<u64, Option<(u64, u32)>>,
}

impl Knowing {
    /// The bytes of a request, whose reply is waited for.
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

    /// All replies; the errors that there were.
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

/// Whatever a client may do, in a way that finds what is lost, doubled or moved.
fn works(connected: Connected, structured: bool, vol: &Memory) {
    let mut it = Knowing {
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
    // Either may be the later one; from here on that stays so.
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
    // What is sent in more than one go.
    let reads = [
        it.ask(command::READ, 0, 1_500_000, true),
        it.ask(command::READ, 1, 9, true),
        it.ask(command::READ, 2, 0, true),
    ];
    it.client.send(&reads.concat());
    assert_eq!(it.replies(), []);
    // What is refused, also with a payload, and what fails.
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
    // One that comes byte by byte, as far as that matters.
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

impl Knowing {
    /// The replies to what was asked before this, and then its own.
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

/// A server dies once, at each step there is.
#[test]
fn a_client_does_not_notice_at_which_step_a_server_dies() {
    for story in stories() {
        let mut steps = 1;
        while serve(story, &[steps], |connected, vol| works(connected, story.structured, vol)) > 0 {
            steps += 1;
        }
        println!("{story:?}: {steps} steps");
        assert!(steps > 100, "{story:?} has but {steps} steps");
    }
}

/// Servers die one after the other, soon after they went on and late.
#[test]
fn a_client_does_not_notice_servers_that_die_one_after_the_other() {
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

/// What was read before the server was asked to leave it to another one stays as it is: nothing is answered twice, or not at all.
#[test]
fn a_server_that_freezes_leaves_its_clients_to_the_next() {
    for round in 0..20 {
        let world = World::new();
        let keeper = Arc::clone(&world.keeper);
        let mut client = world.client("vol", false);
        // Under way when it freezes: it waits at the gate, or is not received yet.
        client.request(command::READ, 0, 1, GATED, 100);
        client.request(command::WRITE, 0, 2, 5, 4);
        client.send(b"abcd");
        if round % 2 == 0 {
            client.simple();
        }
        // Who is not kept yet is cut.
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
        // This process goes on, and the thread that waits for the client has to be gone before another one does.
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
        assert_eq!(next.keeper.take().len(), 0, "what has ended is kept no longer");
    }
}

/// What another version left, or nobody, is not gone on with; what a connection that has ended had not answered is done by nobody.
#[test]
fn what_is_no_memory_of_a_connection_is_refused() {
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
    let kept = Kept::new(7, &about, b"ahead").unwrap();
    let memory = || kept.file().as_fd().try_clone_to_owned().unwrap();
    assert_eq!(survivor(memory()).1, None);
    kept.end();
    let (mut client, refused) = survivor(memory());
    assert!(refused.unwrap().contains("ended"));
    assert_eq!(client.read(&mut [0]).unwrap(), 0, "the client hears of it");
}
