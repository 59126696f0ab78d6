//! The reader role: one thread reads the kernel's requests, and has small ones in flight together.
//!
//! ```text
//!   device --request--> small? --yes--> in flight --done--> answered
//!                         | no                ^
//!                         |                   +-- one wait, for the device and the disks
//!            others in flight? --yes--> given to another worker
//!                         | no
//!                    carried out here; the role is passed on if the request has to wait
//! ```
//!
//! The role is also passed on when this thread has its share of requests in flight. Then this
//! thread completes what it has begun.
//!
//! Where a thread cannot wait for the device and its disks at the same time (no `io_uring`), each
//! request is carried out alone, and the role is passed on when the request has to wait.

use crate::{
    filesystem::BeforeWait,
    inline::{INLINE_MAX, InlineRequest},
    request::Memory,
    workers::Shared,
};
use futures::stream::StreamExt;
use futures_buffered::FuturesUnorderedBounded;
use plinth_frontend::Waiting;
use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
};
use std::{
    cell::Cell,
    future::poll_fn,
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

/// Small requests in flight on one thread, at most.
pub(crate) const IN_FLIGHT_MAX: usize = plinth_frontend::IN_FLIGHT_MAX;

/// Requests that are carried out at once, even beside others: they ask nothing of the engine.
// OPEN, RELEASE, FLUSH, OPENDIR, RELEASEDIR, INTERRUPT.
const AT_ONCE: [u32; 6] = [14, 18, 25, 27, 29, 36];

/// The result of a read from the device.
enum ReadResult {
    Request,
    Nothing,
    /// The mount is gone.
    End,
}

struct Multiplexer<'a> {
    shared: &'a Arc<Shared>,
    /// The next request is read into it.
    memory: Memory,
    is_reader: bool,
    /// Counted as a worker with requests in flight.
    is_busy: bool,
    /// The device had nothing when it was last read.
    is_drained: bool,
    /// The wait for the device, once it has begun.
    watching: Option<Waiting>,
    /// This thread can wait for the device and its disks at the same time.
    can_watch: bool,
    /// The memory has a request that no other worker could take; it is carried out here when
    /// nothing else is in flight.
    has_deferred: bool,
}

/// Reads requests until the reader role is passed on or the mount ends, and returns when nothing is
/// in flight any more.
pub(crate) fn read_requests(shared: &Arc<Shared>, memory: Memory) -> Memory {
    let mut reader = Multiplexer {
        shared,
        memory,
        is_reader: true,
        is_busy: false,
        is_drained: true,
        watching: None,
        can_watch: true,
        has_deferred: false,
    };
    {
        // The set reuses its slots: no request allocates memory in it.
        let mut in_flight = FuturesUnorderedBounded::new(shared.share + 1);
        let mut task = pin!(poll_fn(|context| {
            loop {
                while reader.can_read() {
                    if in_flight.len() > shared.share {
                        reader.pass_reader_role();
                    } else if let Some(request) = reader.take_one(in_flight.len()) {
                        in_flight.push(request.run(&shared.files));
                    }
                }
                while let Poll::Ready(Some(answer)) = in_flight.poll_next_unpin(context) {
                    answer.send(&shared.device);
                }
                if in_flight.is_empty() {
                    if std::mem::take(&mut reader.has_deferred) {
                        reader.carry_out();
                    }
                    reader.set_idle();
                    if !reader.is_reader {
                        return Poll::Ready(());
                    }
                }
                if !reader.is_reader
                    || reader.has_deferred
                    || reader.poll_device(context, in_flight.is_empty()).is_pending()
                {
                    return Poll::Pending;
                }
            }
        }));
        shared.runner.block_on(task.as_mut());
    }
    reader.memory
}

impl Multiplexer<'_> {
    /// Whether the device may have a request for this thread.
    fn can_read(&self) -> bool {
        self.is_reader && !self.is_drained && !self.has_deferred
    }

    fn pass_reader_role(&mut self) {
        self.is_reader = false;
        self.shared.pass_reader_role();
    }

    fn set_idle(&mut self) {
        if std::mem::take(&mut self.is_busy) {
            self.shared.set_idle();
        }
    }

    /// Reads a request. Returns it if it is small; any other request is carried out or given away
    /// here. After a hand-over none is begun.
    fn take_one(&mut self, in_flight: usize) -> Option<InlineRequest> {
        match self.read() {
            ReadResult::Request => {}
            ReadResult::Nothing => {
                self.is_drained = true;
                return None;
            }
            ReadResult::End => {
                self.is_reader = false;
                self.shared.end();
                return None;
            }
        }
        let begins =
            if self.is_busy { !self.shared.is_handed_over() } else { self.shared.set_busy() };
        if !begins {
            self.is_reader = false;
            return None;
        }
        self.is_busy = true;
        // Bytes that are no request want no answer.
        let header = self.memory.header()?;
        if self.can_watch
            && let Some(request) = self.memory.take(header, INLINE_MAX)
        {
            // A program that sends one request after another has not sent the next one yet.
            self.is_drained = in_flight == 0;
            return Some(request);
        }
        if AT_ONCE.contains(&header.opcode) {
            self.shared.answer(&mut self.memory, None);
        } else if in_flight == 0 {
            self.is_drained = true;
            self.carry_out();
        } else {
            self.has_deferred = !self.shared.give_job(&mut self.memory);
        }
        None
    }

    fn read(&mut self) -> ReadResult {
        loop {
            match self.memory.read(&self.shared.device) {
                Ok(1..) => return ReadResult::Request,
                Err(Errno::AGAIN) => return ReadResult::Nothing,
                // ENOENT: the request was interrupted while it was read.
                Err(Errno::INTR | Errno::NOENT) => {}
                // ENODEV: unmounted. Any other error: the kernel has ended the connection.
                Ok(0) | Err(_) => return ReadResult::End,
            }
        }
    }

    /// Carries out a request here, while nothing else is in flight. The role is passed on before
    /// the request waits.
    fn carry_out(&mut self) {
        let passed = Rc::new(Cell::new(false));
        let before_wait: BeforeWait = {
            let (passed, shared) = (Rc::clone(&passed), Arc::clone(self.shared));
            Box::new(move || {
                passed.set(true);
                shared.pass_reader_role();
            })
        };
        self.shared.answer(&mut self.memory, self.is_reader.then_some(before_wait));
        self.is_reader &= !passed.get();
    }

    /// Waits until the device has something to read, if this thread can.
    fn poll_device(&mut self, context: &mut Context<'_>, is_idle: bool) -> Poll<()> {
        let watching =
            self.watching.take().or_else(|| self.shared.runner.readable(&self.shared.device));
        let Some(mut watching) = watching else {
            if !is_idle {
                self.pass_reader_role();
                return Poll::Pending;
            }
            self.can_watch = false;
            // If this fails, the next read of the device says why.
            let _ =
                rustix::event::poll(&mut [PollFd::new(&*self.shared.device, PollFlags::IN)], None);
            self.is_drained = false;
            return Poll::Ready(());
        };
        if watching.as_mut().poll(context).is_pending() {
            self.watching = Some(watching);
            return Poll::Pending;
        }
        self.is_drained = false;
        Poll::Ready(())
    }
}
