#![allow(unsafe_code)]
//! An io_uring and the operations in it.
//!
//! Belongs to one thread (`executor`), which alone submits. If that thread leaves with I/O in
//! flight, the ring goes to the `reaper`, which only reaps.
//!
//! ```text
//!   start --> backlog --room--> slot + submission queue --enter--> kernel --> completion queue
//!                ^                                                                 |
//!                +------------- short transfer, submitted again --------- reap ----+--> ended
//! ```
//!
//! In addition to operations it has watches: polls of a socket, for a thread that waits for its
//! disks and for a client at the same time.
//!
//! Invariants:
//!
//!   1. An operation stays in its slot from the moment its entry is in the submission queue until
//!      its completion is reaped. So its memory and its descriptor are valid whenever the kernel
//!      uses them.
//!   2. Each entry has exactly one completion (no multishot, no links).
//!   3. Never more entries in flight than the completion queue has places: it cannot overflow, and
//!      a full queue delays an operation instead of blocking a thread.
//!   4. A ring that is dropped with operations in it leaks them instead of freeing memory that the
//!      kernel may still write.

use super::{
    op::{Op, TRANSFER_MAX, Work},
    socket_poll::Watch,
};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};
use plinth_engine::sync::buffer::registrable;
use std::{
    cell::UnsafeCell,
    collections::VecDeque,
    io,
    ops::Range,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    sync::Arc,
    thread,
    time::Duration,
};

/// Most entries submitted by one system call.
const SUBMISSIONS: u32 = 128;
/// As soon as this many entries are waiting they are submitted, and their thread goes on: if they
/// waited until it has nothing else to do, disks would be idle meanwhile.
const SUBMIT_AT: usize = 8;
/// Most operations in flight: more than any disk's queue is deep.
const COMPLETIONS: u32 = 1024;
/// Kernel threads per ring for calls that cannot be done without blocking. The default, four per
/// processor, is few enough for one hung disk to stop all others.
const WORKERS: u32 = 64;

/// The user data of the wake-up read's completion, where others have a slot.
const WAKE: u64 = u64::MAX;
/// The user data of completions that no operation waits for.
const FORGOTTEN: u64 = u64::MAX - 1;

/// Where wake-up reads put the counter of the event descriptor. It is never read.
struct Sink(UnsafeCell<u64>);
// SAFETY: only the kernel writes to it and no code ever reads it.
unsafe impl Sync for Sink {}
static SINK: Sink = Sink(UnsafeCell::new(0));

/// How long [`Ring::enter`] may wait for a completion or a wake-up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    No,
    Forever,
    AtMost(Duration),
}

/// The content of a slot.
enum Slot {
    Io(Op),
    Watch(Watch),
}

/// An operation or a socket poll that has ended.
pub(super) enum Ended {
    Io(Op, io::Result<()>),
    Watch(Watch),
}

impl Ended {
    /// Notifies the waiter.
    pub(super) fn tell(self) {
        self.tell_at(None);
    }

    /// Notifies the waiter, with the time of the end, if that is known.
    pub(super) fn tell_at(self, at: Option<Duration>) {
        match self {
            Self::Io(op, result) => op.finish_at(result, at),
            Self::Watch(watch) => watch.fire(),
        }
    }
}

pub(super) struct Ring {
    ring: IoUring,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    /// Operations and socket polls in slots.
    in_flight: usize,
    /// How many of these are watches.
    watches: usize,
    in_flight_max: usize,
    /// Operations waiting for room, first come first served.
    backlog: VecDeque<Op>,
    /// Written to by other threads to make this one return from `enter`.
    wake: Arc<OwnedFd>,
    /// Whether a read of `wake` is in the ring.
    armed: bool,
    /// Whether a slot has an operation that has not been submitted to the kernel.
    begins_operation: bool,
    /// Addresses of the memory that is registered with the ring: for buffers in it the kernel need
    /// not look up pages.
    registered: Range<usize>,
}

/// Whether this kernel allows io_uring, with the features used here.
pub(super) fn probe() -> io::Result<()> {
    let ring = build(4, 8)?;
    let unsupported = |what| {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("this kernel's io_uring has no {what}"),
        ))
    };
    if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
        return unsupported("waits with a timeout (Linux 5.11 has)");
    }
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed = [
        opcode::Read::CODE,
        opcode::Write::CODE,
        opcode::Fsync::CODE,
        opcode::Fallocate::CODE,
        opcode::PollAdd::CODE,
        opcode::PollRemove::CODE,
    ];
    if needed.iter().any(|code| !probe.is_supported(*code)) {
        return unsupported("read, write, fsync, fallocate or poll");
    }
    Ok(())
}

/// The best ring that this kernel offers. `COOP_TASKRUN` and not `DEFER_TASKRUN`: with the latter
/// completions appear only when the owner enters, and the reaper could not take over.
fn build(submissions: u32, completions: u32) -> io::Result<IoUring> {
    let mut last = None;
    for level in (0..3).rev() {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(completions);
        if level >= 1 {
            builder.setup_coop_taskrun().setup_taskrun_flag();
        }
        if level >= 2 {
            builder.setup_single_issuer();
        }
        match builder.build(submissions) {
            Ok(ring) => return Ok(ring),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::Unsupported.into()))
}

impl Ring {
    pub(super) fn new(wake: Arc<OwnedFd>) -> io::Result<Self> {
        Self::with_sizes(wake, SUBMISSIONS, COMPLETIONS)
    }

    /// A ring of a given size; at least two submissions and four completions.
    pub(super) fn with_sizes(
        wake: Arc<OwnedFd>,
        submissions: u32,
        completions: u32,
    ) -> io::Result<Self> {
        let ring = build(submissions, completions)?;
        // Older kernels cannot set it; then the default has to do.
        drop(ring.submitter().register_iowq_max_workers(&mut [WORKERS, 0]));
        let registered = register_buffers(&ring);
        let in_flight_max = ring.params().cq_entries() as usize - 1; // one place for the wake-up
        Ok(Self {
            ring,
            slots: Vec::new(),
            free: Vec::new(),
            in_flight: 0,
            watches: 0,
            in_flight_max,
            backlog: VecDeque::new(),
            wake,
            armed: false,
            begins_operation: false,
            registered,
        })
    }

    /// Takes an operation. It starts at the next `enter`, or earlier.
    pub(super) fn start(&mut self, op: Op) {
        if self.backlog.is_empty() && self.has_room() {
            self.queue(Slot::Io(op));
        } else {
            self.backlog.push_back(op);
        }
    }

    /// Takes a watch. `false` if there is no room for it now.
    pub(super) fn watch(&mut self, watch: Watch) -> bool {
        if !self.backlog.is_empty() || !self.has_room() {
            return false;
        }
        self.watches += 1;
        self.queue(Slot::Watch(watch));
        true
    }

    /// Cancels all watches.
    pub(super) fn end_watches(&mut self) {
        let is_watch = |slot: &Option<Slot>| matches!(slot, Some(Slot::Watch(_)));
        let watches: Vec<u64> =
            (0..).zip(&self.slots).filter(|(_, slot)| is_watch(slot)).map(|(at, _)| at).collect();
        for slot in watches {
            let entry = opcode::PollRemove::new(slot).build().user_data(FORGOTTEN);
            while !self.has_room() {
                self.call(Wait::No);
            }
            // SAFETY: it refers to no memory.
            unsafe { self.ring.submission().push(&entry) }.expect("`has_room` was asked");
        }
        while self.watches > 0 {
            // Cancelled watches end at once, and other operations that end meanwhile are reported
            // as usual.
            self.enter(Wait::Forever);
            while let Some(ended) = self.reap() {
                ended.tell();
            }
        }
    }

    /// Whether nothing is in flight or waiting.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.backlog.is_empty()
    }

    /// Whether operations are in flight, not only socket polls.
    pub(super) fn has_operations(&self) -> bool {
        self.in_flight > self.watches || !self.backlog.is_empty()
    }

    /// Whether exactly one operation is in flight.
    fn has_one_operation(&self) -> bool {
        self.in_flight == self.watches + 1 && self.backlog.is_empty()
    }

    /// Whether there is something to reap, or may be after one `enter`.
    pub(super) fn has_ended(&mut self) -> bool {
        !self.ring.completion().is_empty() || self.ring.submission().taskrun()
    }

    /// Whether a read of the event descriptor is in the ring.
    pub(super) fn is_armed(&self) -> bool {
        self.armed
    }

    /// Whether the kernel has everything that was taken, apart from the backlog.
    pub(super) fn is_submitted(&mut self) -> bool {
        self.ring.submission().is_empty()
    }

    /// Takes the operations that have not been submitted and never will be: for a ring that goes to
    /// the reaper.
    pub(super) fn take_backlog(&mut self) -> Vec<Op> {
        self.backlog.drain(..).collect()
    }

    /// Readable when there is something to reap.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring keeps its descriptor open for as long as `self` is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    /// Submits all waiting entries and waits until there is something to reap, another thread
    /// writes to the event descriptor, or the time is over; it may also return for no reason. This
    /// is one system call, or two if there is one operation only.
    pub(super) fn enter(&mut self, wait: Wait) {
        self.fill();
        while !self.backlog.is_empty() && self.in_flight < self.in_flight_max {
            if self.call(Wait::No) == 0 {
                break;
            }
            self.fill();
        }
        if wait != Wait::No && !self.armed {
            self.arm();
        }
        if wait != Wait::No && self.begins_operation && self.has_one_operation() {
            // With this call the disk's thread, if it shares this processor, carries the operation
            // out before this thread waits, and then need not wake it (decision 025).
            self.call(Wait::No);
        }
        let nothing_to_wait_for = wait == Wait::No || !self.ring.completion().is_empty();
        if nothing_to_wait_for {
            let submission = self.ring.submission();
            if submission.is_empty() && !submission.taskrun() {
                return;
            }
        }
        self.call(if nothing_to_wait_for { Wait::No } else { wait });
    }

    /// Takes the next operation that has ended out of the ring.
    pub(super) fn reap(&mut self) -> Option<Ended> {
        loop {
            let entry: cqueue::Entry = self.ring.completion().next()?;
            match entry.user_data() {
                WAKE => {
                    self.armed = false;
                    continue;
                }
                FORGOTTEN => continue,
                _ => {}
            }
            let slot = entry.user_data() as usize;
            let ended =
                self.slots[slot].take().expect("each submission has one completion (invariant 2)");
            self.free.push(slot);
            self.in_flight -= 1;
            let mut op = match ended {
                Slot::Io(op) => op,
                Slot::Watch(watch) => {
                    self.watches -= 1;
                    return Some(Ended::Watch(watch));
                }
            };
            let returned = match entry.result() {
                error @ ..0 => Err(io::Error::from_raw_os_error(-error)),
                transferred => Ok(transferred as usize),
            };
            match op.landed(returned) {
                Some(result) => return Some(Ended::Io(op, result)),
                None => self.backlog.push_front(op),
            }
        }
    }

    /// Whether there is room for one more operation; the last place is the wake-up's.
    fn has_room(&mut self) -> bool {
        let submission = self.ring.submission();
        submission.len() + 1 < submission.capacity() && self.in_flight < self.in_flight_max
    }

    fn fill(&mut self) {
        while !self.backlog.is_empty() && self.has_room() {
            if let Some(op) = self.backlog.pop_front() {
                self.queue(Slot::Io(op));
            }
        }
    }

    fn queue(&mut self, what: Slot) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.begins_operation |= matches!(what, Slot::Io(_));
        let entry = match self.slots[slot].insert(what) {
            Slot::Io(op) => entry_for(op, &self.registered),
            Slot::Watch(watch) => watch.entry(),
        };
        let entry = entry.user_data(slot as u64);
        self.in_flight += 1;
        // SAFETY: memory and descriptor belong to the slot until the completion is reaped
        // (invariant 1).
        unsafe { self.ring.submission().push(&entry) }.expect("`has_room` was asked");
        if self.ring.submission().len() >= SUBMIT_AT {
            self.call(Wait::No);
        }
    }

    /// Submits the read of the event descriptor, so that a write to it ends a wait.
    fn arm(&mut self) {
        let entry = opcode::Read::new(types::Fd(self.wake.as_raw_fd()), SINK.0.get().cast(), 8)
            .build()
            .user_data(WAKE);
        // SAFETY: the sink is static, and the ring holds a share of the descriptor.
        if unsafe { self.ring.submission().push(&entry) }.is_ok() {
            self.armed = true;
        }
    }

    /// Makes one system call. Returns how many entries the kernel took.
    fn call(&mut self, wait: Wait) -> usize {
        self.begins_operation = false;
        let submitter = self.ring.submitter();
        let result = match wait {
            Wait::No => submitter.submit(),
            Wait::Forever => submitter.submit_and_wait(1),
            Wait::AtMost(time) => {
                let time = types::Timespec::from(time);
                submitter.submit_with_args(1, &types::SubmitArgs::new().timespec(&time))
            }
        };
        match result {
            Ok(taken) => taken,
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR | libc::ETIME) => 0,
                // The kernel is short of memory: operations in flight will end and free some.
                Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM) => {
                    thread::yield_now();
                    0
                }
                _ => panic!("io_uring_enter: {error}"),
            },
        }
    }
}

/// Registers the memory of small buffers with the ring. Where that is not allowed (it counts as
/// locked memory, which is limited without privileges) all I/O works as usual.
fn register_buffers(ring: &IoUring) -> Range<usize> {
    let Some((start, length)) = registrable() else { return 0..0 };
    let all = libc::iovec { iov_base: start.cast(), iov_len: length };
    // SAFETY: the memory lives as long as the process, and its users know that the kernel may write
    // to the buffers that they read into.
    match unsafe { ring.submitter().register_buffers(&[all]) } {
        Ok(()) => start.addr()..start.addr() + length,
        Err(_) => 0..0,
    }
}

fn entry_for(op: &mut Op, registered: &Range<usize>) -> squeue::Entry {
    let file = op.file.as_ref().expect("the I/O of a ring has its file");
    let file = types::Fd(file.as_raw_fd());
    match &mut op.work {
        Work::Read { offset, buffer, done } => {
            let rest = &mut buffer[*done..];
            let (start, length, offset) =
                (rest.as_mut_ptr(), length_of(rest), *offset + *done as u64);
            if registered.contains(&start.addr()) {
                opcode::ReadFixed::new(file, start, length, 0).offset(offset).build()
            } else {
                opcode::Read::new(file, start, length).offset(offset).build()
            }
        }
        Work::Write { offset, data, durably, done } => {
            let rest = &data[*done..];
            let flags = if *durably { libc::RWF_DSYNC } else { 0 };
            let (start, length, offset) = (rest.as_ptr(), length_of(rest), *offset + *done as u64);
            if registered.contains(&start.addr()) {
                opcode::WriteFixed::new(file, start, length, 0)
                    .offset(offset)
                    .rw_flags(flags)
                    .build()
            } else {
                opcode::Write::new(file, start, length).offset(offset).rw_flags(flags).build()
            }
        }
        Work::Flush => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
        Work::Punch { offset, length, .. } => opcode::Fallocate::new(file, *length)
            .offset(*offset)
            .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
            .build(),
        Work::Trim { .. } | Work::ZeroOut { .. } | Work::Zero { .. } => {
            unreachable!("a disk sends these to its pool")
        }
    }
}

fn length_of(bytes: &[u8]) -> u32 {
    bytes.len().min(TRANSFER_MAX) as u32
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.in_flight > 0 {
            std::mem::forget(std::mem::take(&mut self.slots)); // invariant 4
        }
    }
}
