//! A file of a group as a block device.

use crate::{
    BlockDevice, Completed, IN_FLIGHT_MAX, InlineRequest, RequestSource, Runner, block::Result, run,
};
use futures::StreamExt;
use futures_buffered::FuturesUnorderedBounded;
use plinth_engine::{
    api::{Allocate, Attributes, Kind, Node},
    error::FileError,
    files::session::Session,
    sync::{
        buffer::Slice,
        transfer::{Found, Source},
    },
};
use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
};

/// The most that is punched or zeroed by one call: other users of the file wait meanwhile.
const ALLOCATE_MAX: u64 = 256 << 20;

/// A reference to a file: the file is not freed while this exists.
pub(crate) struct HeldFile {
    session: Session,
    runner: Arc<dyn Runner>,
    node: Node,
}

impl HeldFile {
    /// Holds the regular file at a path.
    pub fn at(
        session: &Session,
        runner: &Arc<dyn Runner>,
        path: &str,
    ) -> Result<(Self, Attributes)> {
        let found = run(&**runner, session.resolve(path))?.ok_or(FileError::NotFound)?;
        Self::new(session, runner, found.node)
    }

    /// Holds a regular file.
    pub fn new(
        session: &Session,
        runner: &Arc<dyn Runner>,
        node: Node,
    ) -> Result<(Self, Attributes)> {
        session.remember(node, 1);
        let held = Self { session: session.clone(), runner: Arc::clone(runner), node };
        // The file may have been freed before `remember`; from here on it cannot be.
        let attributes = run(&*held.runner, held.session.attributes(held.node))?;
        if attributes.kind != Kind::Regular {
            return Err(FileError::Invalid("not a regular file"));
        }
        Ok((held, attributes))
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        run(&*self.runner, self.session.forget(self.node, 1));
    }
}

pub(crate) struct FileDevice {
    held: HeldFile,
    name: String,
    size: u64,
    generation: u64,
    read_only: bool,
}

impl FileDevice {
    pub fn new(held: HeldFile, name: String, size: u64, generation: u64, read_only: bool) -> Self {
        Self { held, name, size, generation, read_only }
    }

    fn run<T: Send>(&self, task: impl Future<Output = Result<T>> + Send) -> Result<T> {
        run(&*self.held.runner, task)
    }

    fn session(&self) -> &Session {
        &self.held.session
    }

    /// Reads. Behind the end of a file that was made shorter there are zeros.
    async fn find(&self, offset: u64, length: usize) -> Result<Found> {
        let mut found = pin!(self.session().find(self.held.node, offset, length)).await?;
        found.push_zeros(length.saturating_sub(found.len()));
        Ok(found)
    }

    fn allocate(&self, mut offset: u64, length: u64, mode: Allocate) -> Result<()> {
        let end = offset.saturating_add(length);
        while offset < end {
            // The cuts lie at multiples of the engine's piece, so that no piece is cut in two.
            let next = ((offset / ALLOCATE_MAX + 1) * ALLOCATE_MAX).min(end);
            self.run(self.session().allocate(self.held.node, offset, next - offset, mode, false))?;
            offset = next;
        }
        Ok(())
    }

    /// Carries out one request. Futures are pinned where they are made: a future that is awaited by
    /// value is copied twice.
    async fn carry_out(&self, (tag, request): (usize, InlineRequest)) -> Completed {
        let (session, node) = (self.session(), self.held.node);
        let done = match request {
            InlineRequest::Read { offset, length } => pin!(self.find(offset, length)).await,
            InlineRequest::Write { offset, bytes, durably } => {
                let bytes = Source::Shared(bytes);
                let written = if durably {
                    pin!(session.write_durably(node, offset, bytes, false, true)).await
                } else {
                    pin!(session.write_from(node, offset, bytes, false)).await
                };
                written.map(|()| Found::default())
            }
            InlineRequest::Flush => pin!(session.sync(node, true)).await.map(|()| Found::default()),
        };
        (tag, done)
    }
}

impl BlockDevice for FileDevice {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn identity(&self) -> (u64, u64) {
        (self.held.node, self.generation)
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn description(&self) -> String {
        format!("a file of disk group {}", self.session().group_name())
    }

    fn read(&self, offset: u64, length: usize) -> Result<Found> {
        self.run(self.find(offset, length))
    }

    fn can_multiplex(&self) -> bool {
        true
    }

    fn multiplex(&self, source: &mut dyn RequestSource) {
        // The set reuses its slots: no request allocates memory in it.
        let mut in_flight = FuturesUnorderedBounded::new(IN_FLIGHT_MAX);
        let mut completed = Vec::with_capacity(IN_FLIGHT_MAX);
        let mut more = true;
        let all = poll_fn(|context| {
            loop {
                while more {
                    match source.poll_next(context, in_flight.len()) {
                        Poll::Ready(Some(next)) => in_flight.push(self.carry_out(next)),
                        Poll::Ready(None) => more = false,
                        Poll::Pending => break,
                    }
                }
                // All that are complete now are passed by one call.
                while let Poll::Ready(Some(next)) = in_flight.poll_next_unpin(context) {
                    completed.push(next);
                }
                if completed.is_empty() {
                    return if more || !in_flight.is_empty() {
                        Poll::Pending
                    } else {
                        Poll::Ready(())
                    };
                }
                source.completed(&mut completed);
            }
        });
        run(&*self.held.runner, all);
    }

    fn runner(&self) -> Option<Arc<dyn Runner>> {
        Some(Arc::clone(&self.held.runner))
    }

    fn write(&self, offset: u64, bytes: Slice) -> Result<()> {
        self.run(self.session().write_from(self.held.node, offset, Source::Shared(bytes), false))
    }

    fn flush(&self) -> Result<()> {
        self.run(self.session().sync(self.held.node, true))
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.allocate(offset, length, Allocate::PunchHole)
    }

    fn zero(&self, offset: u64, length: u64, may_punch: bool) -> Result<()> {
        let mode =
            if may_punch { Allocate::PunchHole } else { Allocate::ZeroRange { keep_size: true } };
        self.allocate(offset, length, mode)
    }

    fn status(&self, offset: u64, length: u64, most: usize) -> Result<Vec<(u64, bool)>> {
        let mut ranges = self.run(self.session().map(self.held.node, offset, length, most))?;
        // The hole behind the end of a file that was made shorter.
        let mapped: u64 = ranges.iter().map(|(length, _)| length).sum();
        if mapped < length && ranges.len() < most {
            ranges.push((length - mapped, false));
        }
        Ok(ranges)
    }
}
