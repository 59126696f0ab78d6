//! Transfers by threads with calls that block: for hosts that refuse io_uring, and for targets that
//! are no files.

use super::{
    engine::{Clock, Ended, Engine, Io, Kind, Slots, Wait},
    nbd::Client,
};
use plinth_workload::lock;
use rustix::io::{ReadWriteFlags, pwritev2};
use std::{
    collections::VecDeque,
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{Arc, Condvar, Mutex, mpsc},
    thread::{self, JoinHandle},
};

/// A way to targets that blocks.
pub trait Blocking: Send {
    /// # Errors
    /// Those of the target. Returns how many bytes.
    fn read(&mut self, target: usize, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;

    /// # Errors
    /// Those of the target. Returns how many bytes.
    fn write(
        &mut self,
        target: usize,
        offset: u64,
        bytes: &[u8],
        is_durable: bool,
    ) -> io::Result<usize>;
}

/// Aligned for direct I/O.
pub struct Buffer {
    memory: Vec<u8>,
    begin: usize,
    length: usize,
}

impl Buffer {
    #[must_use]
    pub fn new(length: usize) -> Self {
        let memory = vec![0; length + 4096];
        let begin = memory.as_ptr().align_offset(4096);
        Self { memory, begin, length }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..self.begin + self.length]
    }
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(Io, Buffer)>,
    is_closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    has_job: Condvar,
}

type Done = (Io, Buffer, io::Result<usize>);

pub struct Pool {
    shared: Arc<Shared>,
    done: mpsc::Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
    buffers: Vec<Option<Buffer>>,
    clock: Clock,
}

impl Pool {
    /// A thread for each of the ways.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn new(ways: Vec<Box<dyn Blocking>>, slots: &Slots, clock: Clock) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (sender, done) = mpsc::channel();
        let mut pool = Self {
            shared,
            done,
            threads: Vec::new(),
            buffers: slots.buffers.iter().map(|(_, length)| Some(Buffer::new(*length))).collect(),
            clock,
        };
        for way in ways {
            let (shared, sender) = (Arc::clone(&pool.shared), sender.clone());
            let thread = thread::Builder::new().name("load-io".to_owned());
            pool.threads.push(thread.spawn(move || work(&shared, way, &sender))?);
        }
        Ok(pool)
    }

    fn put(&mut self, (io, buffer, result): Done, ended: &mut Vec<Ended>) {
        self.buffers[io.slot] = Some(buffer);
        ended.push(Ended { slot: io.slot, result });
    }
}

fn work(shared: &Shared, mut way: Box<dyn Blocking>, done: &mpsc::Sender<Done>) {
    loop {
        let mut queue = lock(&shared.queue);
        let (io, mut buffer) = loop {
            if let Some(job) = queue.jobs.pop_front() {
                break job;
            }
            if queue.is_closed {
                return;
            }
            queue = shared.has_job.wait(queue).unwrap_or_else(std::sync::PoisonError::into_inner);
        };
        drop(queue);
        let bytes = &mut buffer.bytes()[..io.length];
        let result = match io.kind {
            Kind::Read => way.read(io.target, io.offset, bytes),
            kind => way.write(io.target, io.offset, bytes, kind == Kind::DurableWrite),
        };
        if done.send((io, buffer, result)).is_err() {
            return;
        }
    }
}

impl Engine for Pool {
    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.buffers[slot].as_mut().expect("it is in no transfer").bytes()
    }

    fn push(&mut self, io: Io) -> io::Result<()> {
        let buffer = self.buffers[io.slot].take();
        let buffer = buffer.ok_or_else(|| io::Error::other("the slot is in a transfer"))?;
        lock(&self.shared.queue).jobs.push_back((io, buffer));
        self.shared.has_job.notify_one();
        Ok(())
    }

    fn go(&mut self, wait: Wait, ended: &mut Vec<Ended>) -> io::Result<()> {
        let first = match wait {
            Wait::No => None,
            Wait::Until(then) => self.done.recv_timeout(self.clock.until(then)).ok(),
        };
        if let Some(done) = first {
            self.put(done, ended);
        }
        while let Ok(done) = self.done.try_recv() {
            self.put(done, ended);
        }
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.shared.queue).is_closed = true;
        self.shared.has_job.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The way of one thread to a target.
pub enum Way {
    File(File),
    Nbd(Box<Client>),
}

/// The ways of one thread to all targets.
pub struct Ways(pub Vec<Way>);

impl Blocking for Ways {
    fn read(&mut self, target: usize, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        match &mut self.0[target] {
            Way::File(file) => file.read_at(bytes, offset),
            Way::Nbd(client) => client.read(offset, bytes).map(|()| bytes.len()),
        }
    }

    fn write(
        &mut self,
        target: usize,
        offset: u64,
        bytes: &[u8],
        is_durable: bool,
    ) -> io::Result<usize> {
        match &mut self.0[target] {
            Way::File(file) => {
                let flags =
                    if is_durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
                Ok(pwritev2(file, &[io::IoSlice::new(bytes)], offset, flags)?)
            }
            Way::Nbd(client) => client.write(offset, bytes, is_durable).map(|()| bytes.len()),
        }
    }
}
