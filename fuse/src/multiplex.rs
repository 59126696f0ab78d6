//! The turn: what the kernel asks is read by one thread, which carries small requests out side by side.
//!
//! ```text
//!   device --request--> small? --yes--> under way --ended--> answered
//!                         | no                 ^
//!                         |                    +-- one wait, for the device and the disks
//!            something under way? --yes--> another worker's
//!                         | no
//!                    carried out here; the turn goes to another when it has to wait
//! ```
//!
//! The turn goes to another too when as much is under way as one thread should have. Then what has begun is ended here.
//!
//! Where this thread cannot wait for the device and its disks at the same time (no `io_uring`), nothing is under way beside anything
//! else: each request is carried out here, and the turn is another's when it has to wait.

use crate::{
    Waiting,
    filesystem::BeforeWait,
    inline::{SMALL_MAX, Small},
    request::Memory,
    workers::Shared,
};
use futures::stream::StreamExt;
use futures_buffered::FuturesUnorderedBounded;
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

/// Small requests under way on one thread, at most.
pub(crate) const UNDER_WAY_MAX: usize = 64;

/// Requests that are carried out at once wherever they come: nothing is asked of the group for them.
const AT_ONCE: [u32; 6] = [14, 18, 25, 27, 29, 36]; // OPEN, RELEASE, FLUSH, OPENDIR, RELEASEDIR, INTERRUPT

/// What came of looking for a request.
enum Came {
    Request,
    Nothing,
    /// The mount is gone.
    End,
}

struct Pump<'a> {
    shared: &'a Arc<Shared>,
    /// The next request is read into it; at home here except while one is given away.
    memory: Memory,
    has_turn: bool,
    /// Counted as one that has something under way.
    is_busy: bool,
    /// There was nothing more when it was last looked.
    is_drained: bool,
    /// The wait for the device, once it has begun.
    watching: Option<Waiting>,
    /// The device can be waited for beside disks.
    can_watch: bool,
    /// A request that nobody else could be given is in the memory.
    holds: bool,
}

/// Has the turn until it is given away or the mount ends; returns when nothing is under way any more.
pub(crate) fn take_turn(shared: &Arc<Shared>, memory: Memory) -> Memory {
    let mut pump = Pump {
        shared,
        memory,
        has_turn: true,
        is_busy: false,
        is_drained: true,
        watching: None,
        can_watch: true,
        holds: false,
    };
    {
        // Places that are used again: nothing is asked of the allocator for a request.
        let mut under_way = FuturesUnorderedBounded::new(shared.share + 1);
        let mut task = pin!(poll_fn(|context| {
            loop {
                while pump.reads() {
                    if under_way.len() > shared.share {
                        pump.give_turn();
                    } else if let Some(small) = pump.take_one(under_way.len()) {
                        under_way.push(small.run(&shared.files));
                    }
                }
                while let Poll::Ready(Some(answer)) = under_way.poll_next_unpin(context) {
                    answer.send(&shared.device);
                }
                if under_way.is_empty() {
                    if std::mem::take(&mut pump.holds) {
                        pump.carry_out();
                    }
                    pump.rest();
                    if !pump.has_turn {
                        return Poll::Ready(());
                    }
                }
                if !pump.has_turn
                    || pump.holds
                    || pump.poll_device(context, under_way.is_empty()).is_pending()
                {
                    return Poll::Pending;
                }
            }
        }));
        shared.runner.block_on(task.as_mut());
    }
    pump.memory
}

impl Pump<'_> {
    /// Whether there may be a request to be read here.
    fn reads(&self) -> bool {
        self.has_turn && !self.is_drained && !self.holds
    }

    fn give_turn(&mut self) {
        self.has_turn = false;
        self.shared.give_turn();
    }

    fn rest(&mut self) {
        if std::mem::take(&mut self.is_busy) {
            self.shared.rest();
        }
    }

    /// Reads a request. What is not small is dealt with; of what comes after the mount was handed over nothing is begun.
    fn take_one(&mut self, under_way: usize) -> Option<Small> {
        match self.read() {
            Came::Request => {}
            Came::Nothing => {
                self.is_drained = true;
                return None;
            }
            Came::End => {
                self.has_turn = false;
                self.shared.end();
                return None;
            }
        }
        let begins = if self.is_busy { !self.shared.is_handed_over() } else { self.shared.begin() };
        if !begins {
            self.has_turn = false;
            return None;
        }
        self.is_busy = true;
        // What is no request wants no answer.
        let header = self.memory.header()?;
        if self.can_watch
            && let Some(small) = self.memory.take(header, SMALL_MAX)
        {
            // Whoever asks for one thing after another does not ask for the next one yet.
            self.is_drained = under_way == 0;
            return Some(small);
        }
        if AT_ONCE.contains(&header.opcode) {
            self.shared.answer(&mut self.memory, None);
        } else if under_way == 0 {
            self.is_drained = true;
            self.carry_out();
        } else {
            self.give_job();
        }
        None
    }

    fn read(&mut self) -> Came {
        loop {
            match self.memory.read(&self.shared.device) {
                Ok(1..) => return Came::Request,
                Err(Errno::AGAIN) => return Came::Nothing,
                // ENOENT: the request was taken back while it was being read.
                Err(Errno::INTR | Errno::NOENT) => {}
                // ENODEV: unmounted. Anything else: the kernel has given the connection up.
                Ok(0) | Err(_) => return Came::End,
            }
        }
    }

    /// Carries out a request here, where nothing else is under way.
    fn carry_out(&mut self) {
        let given = Rc::new(Cell::new(false));
        let before_wait: BeforeWait = {
            let (given, shared) = (Rc::clone(&given), Arc::clone(self.shared));
            Box::new(move || {
                given.set(true);
                shared.give_turn();
            })
        };
        self.shared.answer(&mut self.memory, self.has_turn.then_some(before_wait));
        self.has_turn &= !given.get();
    }

    /// Has another worker carry out a request, or keeps it until nothing else is under way.
    fn give_job(&mut self) {
        self.holds = !self.shared.give_job(&mut self.memory);
    }

    /// Waits until there is something to be read, if this thread can.
    fn poll_device(&mut self, context: &mut Context<'_>, is_idle: bool) -> Poll<()> {
        let watching =
            self.watching.take().or_else(|| self.shared.runner.readable(&self.shared.device));
        let Some(mut watching) = watching else {
            if !is_idle {
                self.give_turn();
                return Poll::Pending;
            }
            self.can_watch = false;
            // Interrupted, or whatever else it says: reading finds out.
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
