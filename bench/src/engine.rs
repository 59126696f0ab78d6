//! A file of a disk group, through the engine as a library.

use super::load::{Meter, Outcome, Use};
use futures::stream::{FuturesUnordered, StreamExt};
use plinth_bench::group;
use plinth_engine::{
    api::{Caller, NewFile, ROOT},
    files::session::Session,
    group::Group,
    sync::{buffer::Buffer, transfer::Source},
};
use plinth_host::{PollTime, block_on, block_on_polling};
use plinth_workload::{
    class::{Class, Generator},
    pattern::FILL,
};
use std::{
    cell::{Cell, RefCell},
    pin::pin,
    sync::Arc,
    time::Duration,
};

pub struct File {
    group: Arc<Group>,
    poll_time: Arc<PollTime>,
    session: Session,
    node: u64,
    size: u64,
}

impl File {
    /// Makes a group on one disk or two, and a file in it of which every block is written, durable,
    /// and read back.
    pub fn create(
        paths: &[String],
        size: u64,
        attributes: &[(String, String)],
    ) -> Result<Self, String> {
        let world = group::world(paths)?;
        group::create(&world, paths, attributes)?;
        let group = group::mount(&world)?;
        let session = Session::new(Arc::clone(&group), None);
        let caller = Caller { uid: 0, gid: 0 };
        let made = block_on(session.create(ROOT, b"file", NewFile::Regular, 0o600, caller));
        let node = made.map_err(|error| error.to_string())?.node;
        let file = Self { group, poll_time: world.poll_time(), session, node, size };
        let chunk = vec![FILL; 1 << 20];
        for offset in (0..size).step_by(1 << 20) {
            block_on(file.session.write(node, offset, &chunk, false))
                .map_err(|error| error.to_string())?;
        }
        block_on(file.session.sync(node, false)).map_err(|error| error.to_string())?;
        let mut found = vec![0; chunk.len()];
        for offset in (0..size).step_by(1 << 20) {
            let read = block_on(file.session.read(node, offset, &mut found))
                .map_err(|error| error.to_string())?;
            if read != chunk.len() || found != chunk {
                return Err(format!("the file does not hold at {offset} what was written there"));
            }
        }
        Ok(file)
    }

    pub fn run(
        &self,
        case: &Class,
        time: Duration,
        seed: u64,
        of_bytes: Use,
    ) -> Result<Outcome, String> {
        let meter = Meter::start(time);
        let ios = RefCell::new(Generator::new(*case, self.size, seed.wrapping_mul(1 << 32)));
        let done = Cell::new(0_u64);
        let one = || async {
            let length = usize::try_from(case.sizes.largest()).unwrap_or(0);
            let bytes = Source::Shared(Buffer::copy_of(&vec![FILL; length]).share());
            while !meter.is_over() {
                let Some(io) = ios.borrow_mut().next() else { break };
                let offset = io.offset;
                if case.reads() {
                    let found = pin!(self.session.find(self.node, offset, length)).await;
                    let found = found.map_err(|error| error.to_string())?;
                    if found.len() != length {
                        return Err(format!(
                            "{} bytes were read at {offset}, of {length}",
                            found.len()
                        ));
                    }
                    found.slices().for_each(|bytes| of_bytes.take(bytes));
                } else {
                    let written =
                        pin!(self.session.write_from(self.node, offset, bytes.clone(), false))
                            .await;
                    written.map_err(|error| error.to_string())?;
                    if io.sync {
                        self.session
                            .sync(self.node, true)
                            .await
                            .map_err(|error| error.to_string())?;
                    }
                }
                done.set(done.get() + 1);
            }
            Ok::<(), String>(())
        };
        // As front ends do: attribute `io_poll_time`.
        block_on_polling(&self.poll_time, async {
            let mut all: FuturesUnordered<_> = (0..case.depth).map(|_| one()).collect();
            while let Some(ended) = all.next().await {
                ended?;
            }
            Ok::<(), String>(())
        })?;
        let outcome = meter.stop(done.get(), case.depth);
        if !case.reads() {
            block_on(self.session.sync(self.node, false)).map_err(|error| error.to_string())?;
        }
        Ok(outcome)
    }

    /// The same, without looking at the checksums of what is read.
    pub fn run_unchecked(
        &self,
        case: &Class,
        time: Duration,
        seed: u64,
        of_bytes: Use,
    ) -> Result<Outcome, String> {
        self.group.take_reads_unchecked(true);
        let outcome = self.run(case, time, seed, of_bytes);
        self.group.take_reads_unchecked(false);
        outcome
    }

    pub fn close(self) -> Result<(), String> {
        let Self { group, session, .. } = self;
        drop(session);
        group::dismount(&group)
    }
}
