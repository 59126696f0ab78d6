//! One member disk of a mounted group: its I/O, its deadline, its counters.
//!
//! Every I/O of the engine on a disk goes through here. An I/O is a [`DiskIo`] (`disk_io.rs`). It
//! succeeds, fails, or becomes overdue when the watchdog has ticked `deadline` times since it began
//! (R2). The engine counts the ticks itself, so time in which the process did not run does not
//! count, nor does time in which no disk of the group answers (`member/watchdog.rs`). An overdue
//! I/O goes on and keeps its buffer; whether its caller still waits for it depends on the other
//! mirrors. One overdue I/O makes all others on the same disk overdue: the disk is silent, not the
//! I/O.
//!
//! Invariants:
//!
//!   1. A write that succeeded is counted in `written` before its caller is notified, so that a
//!      flush that begins later covers it.
//!   2. `flushed` is the value that `written` had when the last successful flush began. A failed
//!      flush is counted in `broken`, one that was given up when it ends: a later flush does not
//!      make up for it (R9).
//!   3. After the disk was released (`release`) nothing here keeps it open: its claim ends when its
//!      last I/O has landed (R1).

use crate::{
    completion::{Completion, Done, Expiry},
    disk::{
        counters::{Counters, IoClass, IoClient},
        disk_errors::Trouble,
        disk_io::{DiskIo, IoResult},
        full::{self, Room},
        health::Health,
        mended::Mended,
        outstanding::Outstanding,
        read_policy::ReadGauge,
    },
    planted::{self, Bug},
    sync::{
        buffer::{Buffer, Slice},
        lock::{AsyncMutex, AsyncMutexGuard, Mutex},
    },
    world::{Disk, Io, SpaceFrom, Task, World, discard_limits::DiscardLimits},
};
use arc_swap::{ArcSwap, ArcSwapOption};
use event_listener::Event;
use plinth_format::{
    DiskId, DiskNumber, GroupId, Label, Layout,
    header::DiskHeader,
    layout::{FIRST_AREA, RecordArea},
    membership::{DiskState, MemberDisk},
};
use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

mod watchdog;

pub(crate) use watchdog::PROBE_TICKS;
pub use watchdog::{Watch, watch};

/// How often the watchdog ticks.
pub const TICK_MS: u64 = 100;
/// A silent disk that must stay in service is waited for. After this time the engine checks again
/// whether it can go offline now.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A member disk. See the module's description.
pub struct Member {
    pub number: DiskNumber,
    id: Mutex<DiskId>,
    name: Mutex<Arc<str>>,
    pub failure_group: String,
    pub quorum: bool,
    layout: ArcSwap<Layout>,
    /// Areas that hold its records (`headers.rs`).
    areas: ArcSwap<Vec<RecordArea>>,
    /// Areas that do not have all records yet.
    coming: ArcSwap<Vec<RecordArea>>,
    /// Held while a record is written to the disk's areas.
    recording: AsyncMutex<()>,
    disk: ArcSwapOption<Arc<dyn Disk>>,
    state: AtomicU8,
    /// Number of times that it went offline.
    losses: AtomicU64,
    /// The ids that it had before `renamedg`.
    origin: Mutex<Option<(GroupId, DiskId)>>,
    label: Mutex<Option<Label>>,
    /// Its path when it was released.
    was_at: Mutex<String>,
    pub counters: Counters,
    pub(crate) wrong_looks: WrongLooks,
    /// The latency of its reads as front ends see it.
    pub gauge: ReadGauge,
    /// Its recent errors.
    pub health: Health,
    /// Whether its writes find room.
    pub room: Room,
    /// Nanoseconds by which the end of each I/O is delivered later: `what_if.delay`.
    delay: AtomicU64,
    clock: Arc<dyn World>,
    outstanding: Outstanding,
    /// I/O that became overdue and may not have ended.
    overdue: Mutex<Vec<Expiry>>,
    /// A hint: `overdue` may not be empty.
    hung: AtomicBool,
    /// Neither this disk nor any other of the group answers.
    silent: AtomicBool,
    /// The tick since which it hangs without a break, if it does; and the tick after the last one
    /// at which it was seen hanging.
    hung_since: AtomicU64,
    hung_until: AtomicU64,
    /// For how many ticks I/O has been in flight and none has ended, from some ticks on; and the
    /// tick until which that is evidence about the other disks.
    quiet_for: AtomicU64,
    quiet_until: AtomicU64,
    /// Until this tick it is not taken offline for being silent.
    excused: AtomicU64,
    ticks: AtomicU64,
    written: AtomicU64,
    flushed: AtomicU64,
    flushing: AsyncMutex<()>,
    /// Failed flushes; and how many of them the group has handled.
    broken: AtomicU64,
    noted: AtomicU64,
    mended: Mended,
    /// Flushes and durable writes that were given up and may still fail.
    late_flushes: Mutex<Vec<Completion>>,
    marks_pending: AtomicBool,
    abandoned: AtomicBool,
    marks_ended: Event,
    left: AtomicBool,
    /// Rounds of the caretaker since it went offline, or was found offline.
    away: AtomicU64,
    /// The value of `away` at which its drop was last due.
    overdue_at: AtomicU64,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Member {} {}", self.number.0, self.name())
    }
}

impl Member {
    /// A member with its disk, if that was discovered.
    #[must_use]
    pub fn new(
        entry: &MemberDisk,
        layout: Layout,
        disk: Option<Arc<dyn Disk>>,
        clock: &Arc<dyn World>,
    ) -> Self {
        Self {
            number: entry.number,
            id: Mutex::new(entry.id),
            name: Mutex::new(entry.name.as_str().into()),
            failure_group: entry.failure_group.clone(),
            quorum: entry.quorum,
            layout: ArcSwap::from_pointee(layout),
            areas: ArcSwap::from_pointee(vec![FIRST_AREA, layout.middle_area()]),
            coming: ArcSwap::default(),
            recording: AsyncMutex::new(()),
            disk: ArcSwapOption::from_pointee(disk),
            state: AtomicU8::new(entry.state as u8),
            losses: AtomicU64::new(0),
            origin: Mutex::default(),
            label: Mutex::default(),
            was_at: Mutex::default(),
            counters: Counters::default(),
            wrong_looks: WrongLooks::default(),
            gauge: ReadGauge::default(),
            health: Health::default(),
            room: Room::default(),
            delay: AtomicU64::new(0),
            clock: Arc::clone(clock),
            outstanding: Outstanding::default(),
            overdue: Mutex::default(),
            hung: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            hung_since: AtomicU64::new(0),
            hung_until: AtomicU64::new(0),
            quiet_for: AtomicU64::new(0),
            quiet_until: AtomicU64::new(0),
            excused: AtomicU64::new(0),
            ticks: AtomicU64::new(0),
            written: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            flushing: AsyncMutex::new(()),
            broken: AtomicU64::new(0),
            mended: Mended::default(),
            noted: AtomicU64::new(0),
            late_flushes: Mutex::default(),
            marks_pending: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            marks_ended: Event::new(),
            left: AtomicBool::new(false),
            away: AtomicU64::new(0),
            overdue_at: AtomicU64::new(0),
        }
    }

    /// A disk that the membership does not name, for writing its header.
    #[must_use]
    pub fn stranger(header: &DiskHeader, disk: Arc<dyn Disk>, clock: &Arc<dyn World>) -> Self {
        let entry = MemberDisk {
            id: header.disk,
            number: header.number,
            state: DiskState::Online,
            votes: false,
            quorum: header.quorum,
            copy_whole: false,
            by_operator: false,
            absent: false,
            leaving: true,
            size: header.layout.size(),
            target: None,
            stamp: 0,
            since: 0,
            joined: header.created,
            name: header.name.clone(),
            failure_group: header.failure_group.clone(),
        };
        Self::new(&entry, header.layout, Some(disk), clock)
    }

    /// The id in its header.
    #[must_use]
    pub fn id(&self) -> DiskId {
        *self.id.lock()
    }

    /// Its name in the membership in force.
    #[must_use]
    pub fn name(&self) -> Arc<str> {
        Arc::clone(&self.name.lock())
    }

    /// Called when `RENAME DISK` is recorded.
    pub fn rename(&self, name: &str) {
        *self.name.lock() = name.into();
    }

    /// Its division into areas and AUs. A resize changes which AUs there are, not where an AU and
    /// its checksums are.
    #[must_use]
    pub fn layout(&self) -> Layout {
        **self.layout.load()
    }

    /// Called when `RESIZE` is recorded.
    pub fn set_layout(&self, layout: Layout) {
        self.layout.store(Arc::new(layout));
    }

    /// Areas that hold its records: each record is written to all of them.
    #[must_use]
    pub fn areas(&self) -> Arc<Vec<RecordArea>> {
        self.areas.load_full()
    }

    /// Sets the areas that its header names, or is about to name.
    pub fn set_areas(&self, areas: Vec<RecordArea>) {
        self.areas.store(Arc::new(areas));
        // Almost always there are none.
        if !self.coming.load().is_empty() {
            self.coming.store(Arc::default());
        }
    }

    /// From now on records are written to these areas too. Earlier records are not there until
    /// [`Self::set_areas`].
    pub fn add_areas(&self, areas: &[RecordArea]) {
        self.coming.store(Arc::new(areas.to_vec()));
        let all = self.areas().iter().chain(areas).copied().collect();
        self.areas.store(Arc::new(all));
    }

    /// Held by whoever writes a record, from before it reads [`Self::areas`] until the record is on
    /// the disk.
    pub(crate) async fn record(&self) -> AsyncMutexGuard<'_, ()> {
        self.recording.lock().await
    }

    /// Waits for all writes of records that began before the last [`Self::set_areas`], since they
    /// may go to other areas.
    pub(crate) async fn wait_for_records(&self) {
        drop(self.record().await);
    }

    /// The areas that have all records.
    pub fn whole_areas(&self) -> Vec<RecordArea> {
        let areas = self.areas();
        let coming = self.coming.load();
        areas.iter().filter(|area| !coming.contains(area)).copied().collect()
    }

    /// Another device replaces it. Returns the id of the former device. Only while it is offline.
    pub fn become_another(&self, id: DiskId) -> DiskId {
        *self.origin.lock() = None;
        std::mem::replace(&mut *self.id.lock(), id)
    }

    /// The ids in its marks of lost blocks, if these are not its own.
    #[must_use]
    pub fn origin(&self) -> Option<(GroupId, DiskId)> {
        *self.origin.lock()
    }

    /// Sets the ids that its header names for that.
    pub fn set_origin(&self, origin: Option<(GroupId, DiskId)>) {
        *self.origin.lock() = origin;
    }

    /// The label that its header has, or is to have.
    #[must_use]
    pub fn label(&self) -> Option<Label> {
        self.label.lock().clone()
    }

    /// Sets its label, and returns the former one. The header is written by others.
    pub fn set_label(&self, label: Option<Label>) -> Option<Label> {
        std::mem::replace(&mut *self.label.lock(), label)
    }

    /// Its state in the membership in force.
    #[must_use]
    pub fn state(&self) -> DiskState {
        match self.state.load(Ordering::Acquire) {
            1 => DiskState::Online,
            3 => DiskState::Syncing,
            _ => DiskState::Offline,
        }
    }

    pub fn set_state(&self, state: DiskState) {
        let before = self.state.swap(state as u8, Ordering::AcqRel);
        if before != state as u8 {
            self.wait_anew();
            self.gauge.forget();
            self.health.forget();
            self.room.forget();
            self.metadata_is_right();
        }
        if state == DiskState::Offline && before != state as u8 {
            self.losses.fetch_add(1, Ordering::AcqRel);
            self.note(Trouble::Offline, None, "it went offline".to_owned());
        }
    }

    /// Records an error; `place` is the byte offset and length on the disk.
    pub fn note(&self, trouble: Trouble, place: Option<(u64, u64)>, text: String) {
        self.counters.disk_errors.note(trouble, self.clock.now(), place, text);
    }

    /// Records a failed read; `is_again`: of a part of another failed read.
    pub fn note_failed_read(&self, client: IoClient, place: (u64, usize), is_again: bool) {
        self.health.note_failed_read(
            self.clock.monotonic(),
            client,
            place,
            self.layout().au_size(),
            is_again,
        );
    }

    /// Records that bytes which a front end reads do not match their checksum.
    pub fn note_mismatch(&self, place: (u64, u64), text: String) {
        self.counters.mismatches.fetch_add(1, Ordering::Relaxed);
        self.health.note_mismatch(self.clock.monotonic());
        self.note(Trouble::Checksum, Some(place), text);
    }

    /// Number of times that it went offline: work that began at another number must not go on.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    /// The disk no longer belongs to the group.
    pub fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }

    #[must_use]
    pub fn has_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    /// Counts a round of the caretaker in which it is offline. Time in which the group was not
    /// mounted, so that it could not come back, does not count.
    pub fn note_away(&self) {
        self.away.fetch_add(1, Ordering::Relaxed);
    }

    /// Restarts the time for which the group waits for it.
    pub fn wait_anew(&self) {
        self.away.store(0, Ordering::Relaxed);
        self.overdue_at.store(0, Ordering::Relaxed);
    }

    /// Whether it has been offline for `limit` seconds; again every `again` seconds.
    pub fn is_overdue(&self, limit: u64, again: u64) -> bool {
        let (away, last) = (self.away(), self.overdue_at.load(Ordering::Relaxed));
        let is_overdue = away >= limit && (last == 0 || away >= last + again);
        if is_overdue {
            self.overdue_at.store(away.max(1), Ordering::Relaxed);
        }
        is_overdue
    }

    /// Seconds for which it has been offline while the group was mounted.
    #[must_use]
    pub fn away(&self) -> u64 {
        self.away.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.state() == DiskState::Online
    }

    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.state() != DiskState::Offline
    }

    /// The open disk, if there is one.
    #[must_use]
    pub fn disk(&self) -> Option<Arc<dyn Disk>> {
        self.disk.load().as_deref().cloned()
    }

    /// The present path of its device; empty if it has none.
    #[must_use]
    pub fn path(&self) -> String {
        self.disk.load().as_ref().map_or_else(String::new, |disk| disk.present_path())
    }

    /// The path at which it was found before it was released.
    #[must_use]
    pub fn was_at(&self) -> String {
        self.was_at.lock().clone()
    }

    #[must_use]
    pub fn can_discard(&self) -> bool {
        self.discard_limits().is_some()
    }

    /// The discards that the disk honours. `None`: it honours none, or is not attached.
    #[must_use]
    pub fn discard_limits(&self) -> Option<DiscardLimits> {
        self.disk.load().as_ref()?.discards().ok()
    }

    /// Releases the disk. Its claim ends when its last I/O has landed. That I/O is not waited for.
    pub fn release(&self) {
        if let Some(disk) = self.disk.load().as_deref() {
            disk.path().clone_into(&mut self.was_at.lock());
        }
        self.disk.store(None);
        if !std::mem::take(&mut *self.late_flushes.lock()).is_empty() {
            // There is no caller that could learn how it ended.
            self.broken.fetch_add(1, Ordering::AcqRel);
        }
        self.expire_all();
        self.overdue.lock().clear();
        self.hung.store(false, Ordering::Relaxed);
    }

    /// Attaches a disk that was just opened and claimed.
    pub fn attach(&self, disk: Arc<dyn Disk>) {
        // Anything that it may have lost is copied before it is ONLINE.
        self.mended.forget();
        self.disk.store(Some(Arc::new(disk)));
    }

    /// From now until [`Self::note_marks_durable`], writes that this disk missed may not be
    /// acknowledged.
    pub fn expect_marks(&self) {
        self.marks_pending.store(true, Ordering::Release);
    }

    /// The stale marks that its going offline requires are durable.
    pub fn note_marks_durable(&self) {
        self.abandoned.store(false, Ordering::Release);
        self.marks_pending.store(false, Ordering::Release);
        self.marks_ended.notify(usize::MAX);
    }

    /// The stale marks that are waited for will never be durable: the group ends.
    pub fn abandon(&self) {
        if self.marks_pending.load(Ordering::Acquire) {
            self.abandoned.store(true, Ordering::Release);
            self.marks_pending.store(false, Ordering::Release);
            self.marks_ended.notify(usize::MAX);
        }
    }

    /// Waits until the stale marks that its going offline requires are durable. False: they never
    /// will be, and no write that the disk missed may be acknowledged.
    pub async fn wait_for_marks(&self) -> bool {
        while self.marks_pending.load(Ordering::Acquire) {
            let listener = self.marks_ended.listen();
            if !self.marks_pending.load(Ordering::Acquire) {
                break;
            }
            listener.await;
        }
        !self.abandoned.load(Ordering::Acquire)
    }

    /// Whether there are no stale marks to wait for.
    #[must_use]
    pub fn has_durable_marks(&self) -> bool {
        !self.marks_pending.load(Ordering::Acquire) && !self.abandoned.load(Ordering::Acquire)
    }

    fn submit(&self, purpose: IoClass, offset: u64, length: usize, io: Io) -> DiskIo<'_> {
        self.submit_at(self.clock.monotonic(), purpose, offset, length, io)
    }

    fn submit_at(
        &self,
        began: Duration,
        purpose: IoClass,
        offset: u64,
        length: usize,
        io: Io,
    ) -> DiskIo<'_> {
        let has_flush = matches!(io, Io::Flush | Io::Write { durably: true, .. });
        let data = if let Io::Write { data, .. } = &io { Some(data.clone()) } else { None };
        let completion = self.begin(began, purpose, io);
        DiskIo::new(self, purpose, (offset, length), completion, has_flush, data)
    }

    /// From now on the end of its reads, writes and flushes is delivered so much later, as if it
    /// were farther away; zero: no later.
    pub(crate) fn set_delay(&self, delay: Duration) {
        let delay = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        self.delay.store(delay, Ordering::Relaxed);
    }

    /// See [`Self::set_delay`].
    #[must_use]
    pub fn delay(&self) -> Duration {
        Duration::from_nanos(self.delay.load(Ordering::Relaxed))
    }

    /// Hands an I/O to the disk, and to the watchdog.
    fn begin(&self, began: Duration, purpose: IoClass, io: Io) -> Completion {
        let mut completion = match &*self.disk.load() {
            Some(disk) => disk.submit(io),
            None => Completion::ready(Done {
                result: Err(io::Error::new(
                    io::ErrorKind::NotConnected,
                    "the disk is not attached",
                )),
                buffer: None,
            }),
        };
        completion.measure(&self.clock, began);
        if purpose == IoClass::Discard {
            // An array may take long over a discard. That does not make the disk silent.
            return completion;
        }
        let delay = self.delay();
        if !delay.is_zero() {
            completion.delay(&self.clock, delay);
        }
        let expiry = completion.expiry();
        if self.hung.load(Ordering::Relaxed) && self.is_hung() {
            // The disk is silent already: this I/O waits no longer than those before it.
            expiry.expire();
            self.overdue.lock().push(expiry);
        } else {
            self.outstanding.add(self.ticks.load(Ordering::Relaxed), expiry);
        }
        completion
    }

    /// Writes again what found no room.
    pub(crate) fn write_again(&self, offset: u64, data: Slice, durably: bool) -> Completion {
        let io = Io::Write { offset, data, durably };
        self.begin(self.clock.monotonic(), IoClass::Write, io)
    }

    /// A write has found no room: for how long that has been so, and where it should be made.
    pub(crate) fn note_no_room(&self) -> (Duration, Arc<SpaceFrom>) {
        let disk = self.disk();
        self.room.note_none(self.clock.monotonic(), disk.as_deref())
    }

    /// Finds out where its space comes from. Waits a little at most.
    pub(crate) fn ask_pool(&self) {
        let disk = self.disk();
        self.room.ask_pool(disk.as_deref());
    }

    /// Waits before a write that found no room is tried again.
    pub(crate) fn pause(&self) -> Task<'static, ()> {
        self.clock.sleep(full::RETRY)
    }

    /// Starts a read of `length` bytes.
    pub fn start_read(&self, offset: u64, length: usize) -> DiskIo<'_> {
        self.start_read_at(self.clock.monotonic(), offset, length)
    }

    /// The same, for a caller that has just read the monotonic clock.
    pub fn start_read_at(&self, now: Duration, offset: u64, length: usize) -> DiskIo<'_> {
        self.submit_at(
            now,
            IoClass::Read,
            offset,
            length,
            Io::Read { offset, buffer: Buffer::unfilled(length) },
        )
    }

    /// Starts a write.
    pub fn start_write(&self, offset: u64, data: Slice) -> DiskIo<'_> {
        self.start_write_at(self.clock.monotonic(), offset, data, false)
    }

    /// Starts a write of bytes that are durable when it has ended: one trip to the disk, where a
    /// flush after the write would be another.
    pub fn start_durable_write(&self, offset: u64, data: Slice) -> DiskIo<'_> {
        self.start_write_at(self.clock.monotonic(), offset, data, true)
    }

    /// Either kind of write, for a caller that has just read the monotonic clock.
    pub fn start_write_at(
        &self,
        now: Duration,
        offset: u64,
        data: Slice,
        durably: bool,
    ) -> DiskIo<'_> {
        self.submit_at(now, IoClass::Write, offset, data.len(), Io::Write { offset, data, durably })
    }

    /// Discards bytes that are not needed any more, as one of [`DiscardLimits::requests`]. A
    /// discard has no deadline.
    pub fn start_discard(&self, offset: u64, length: u64) -> DiskIo<'_> {
        let bytes = usize::try_from(length).unwrap_or(usize::MAX);
        self.submit(IoClass::Discard, offset, bytes, Io::Discard { offset, length })
    }

    /// Overwrites bytes that are not needed any more with zeros. It counts as a discard, and has no
    /// deadline either.
    pub fn start_write_zeroes(&self, offset: u64, length: u64) -> DiskIo<'_> {
        let bytes = usize::try_from(length).unwrap_or(usize::MAX);
        self.submit(IoClass::Discard, offset, bytes, Io::WriteZeroes { offset, length })
    }

    /// Makes everything durable that any engine ever wrote: a mount does not know what its
    /// predecessor flushed.
    pub fn start_flush_of_all(&self) -> DiskIo<'_> {
        self.submit(IoClass::Flush, 0, 0, Io::Flush)
    }

    /// Makes every write durable that has ended. Concurrent flushes share one.
    pub async fn flush(&self) -> IoResult {
        let target = self.written.load(Ordering::Acquire);
        let _one_at_a_time = self.flushing.lock().await;
        let late = || self.late_flushes.lock().pop();
        while let Some(completion) = late() {
            let mut disk_io = DiskIo::new(self, IoClass::Flush, (0, 0), completion, true, None);
            match disk_io.result_in_time().await {
                Some(IoResult::Ok(_)) => {}
                bad => return bad.unwrap_or(IoResult::Overdue),
            }
        }
        if self.flushed.load(Ordering::Acquire) >= target {
            return IoResult::Ok(None);
        }
        let (mark, broken) = (self.written.load(Ordering::Acquire), self.broken());
        let mut disk_io = self.submit(IoClass::Flush, 0, 0, Io::Flush);
        let mut end = disk_io.result_in_time().await;
        if planted::has(Bug::FailedFlushRetried) && end.as_ref().is_some_and(|end| !end.is_ok()) {
            self.broken.fetch_sub(1, Ordering::AcqRel);
            disk_io = self.submit(IoClass::Flush, 0, 0, Io::Flush);
            end = disk_io.result_in_time().await;
        }
        match end {
            Some(ended) => {
                if ended.is_ok() {
                    let late = planted::has(Bug::FlushCountsTooMuch)
                        .then(|| self.written.load(Ordering::Acquire));
                    self.flushed.store(late.unwrap_or(mark), Ordering::Release);
                    if self.broken() == broken {
                        self.mended.are_flushed(mark, broken);
                    }
                }
                ended
            }
            None => IoResult::Overdue,
        }
    }

    /// Records that a block was rewritten from another mirror when `broken` flushes had failed.
    pub fn note_mended(&self, place: u64, broken: u64) {
        self.mended.note(place, self.written.load(Ordering::Acquire), broken);
    }

    /// Whether a block in this range was rewritten and may be lost, although the disk still returns
    /// it.
    pub fn is_mend_uncertain(&self, place: u64, length: u64) -> bool {
        self.mended.are_uncertain(place..place + length, self.broken())
    }

    /// Counts a write that succeeded.
    pub(crate) fn note_write_done(&self) {
        self.written.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts a failed flush, or a failed durable write.
    pub(crate) fn note_failed_flush(&self) {
        self.broken.fetch_add(1, Ordering::AcqRel);
    }

    /// A flush is given up and goes on: the next flush reports how it ended. If the disk was
    /// released there will be no next one.
    pub(crate) fn leave_flush(&self, flush: Completion) {
        // Held while we see whether the disk was released: `release` drops the disk first and then
        // takes `late_flushes`.
        let mut late = self.late_flushes.lock();
        if self.disk.load().is_some() {
            late.push(flush);
        } else {
            self.note_failed_flush();
        }
    }

    /// Failed flushes since the disk was first opened.
    #[must_use]
    pub fn broken(&self) -> u64 {
        self.broken.load(Ordering::Acquire)
    }

    /// Whether data that was written and flushed since `broken` flushes had failed is on the disk.
    /// It may not be if another flush has failed since, by whatever task, although the disk may
    /// still return it (R9).
    ///
    /// # Errors
    /// If another flush has failed.
    pub fn check_kept_since(&self, broken: u64) -> Result<(), String> {
        if self.broken() == broken || planted::has(Bug::RecordOverFailedFlush) {
            return Ok(());
        }
        Err("a flush failed".to_owned())
    }

    /// Whether a flush has failed that the group has not handled yet.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken() > self.noted.load(Ordering::Acquire)
    }

    /// Marks all failed flushes as handled. Whether there was one that was not.
    pub fn take_broken(&self) -> bool {
        self.knows_broken(self.broken())
    }

    /// As [`Self::take_broken`], for the first `broken` of them.
    pub fn knows_broken(&self, broken: u64) -> bool {
        self.noted.fetch_max(broken, Ordering::AcqRel) < broken
    }

    /// Whether I/O that was given up has not ended: a write that starts now could land before it.
    #[must_use]
    pub fn is_hung(&self) -> bool {
        let mut overdue = self.overdue.lock();
        if !overdue.is_empty() {
            self.hung_until.store(self.ticks.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        overdue.retain(|expiry| !expiry.is_over());
        self.hung.store(!overdue.is_empty(), Ordering::Relaxed);
        !overdue.is_empty()
    }

    /// Whether it answers, as evidence about another disk that is silent: it does not hang, and has
    /// not hung for a deadline of `ticks`. With `quiet_counts` it must not be quiet either (as a
    /// disk is that fell silent a moment later), nor have been quiet for as long as it was.
    #[must_use]
    pub fn answers(&self, ticks: u64, quiet_counts: bool) -> bool {
        let now = self.ticks.load(Ordering::Relaxed);
        let until = self.hung_until.load(Ordering::Relaxed);
        let has_hung = self.is_hung() || until > 0 && now < until + ticks;
        let is_quiet = self.quiet_for.load(Ordering::Relaxed) > 0 && self.oldest().is_some();
        !has_hung && !(quiet_counts && (is_quiet || now < self.quiet_until.load(Ordering::Relaxed)))
    }

    /// Number of ticks for which it has hung, or has been silent together with all disks of the
    /// group.
    #[must_use]
    pub fn hung_for(&self) -> u64 {
        if self.is_hung() {
            let since = self.hung_since.load(Ordering::Relaxed);
            return self.ticks.load(Ordering::Relaxed).saturating_sub(since);
        }
        if self.is_silent() { self.quiet_for.load(Ordering::Relaxed) } else { 0 }
    }

    /// Waits while it hangs, for [`LOOK_AGAIN`] at most, and until `is_over` returns true. Whether
    /// it hangs no more.
    pub async fn answers_soon(&self, is_over: impl Fn() -> bool) -> bool {
        let until = self.clock.monotonic() + LOOK_AGAIN;
        while self.is_hung() && !is_over() {
            if self.clock.monotonic() > until {
                return false;
            }
            self.clock.sleep(Duration::from_millis(50)).await;
        }
        true
    }

    /// Whether it is silent together with all disks of the group: its I/O is waited for then.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    /// It was silent together with others without which no membership comes in force: from now on
    /// it has `ticks` to answer.
    pub fn excuse(&self, ticks: u64) {
        self.excused.store(self.ticks.load(Ordering::Relaxed) + ticks, Ordering::Relaxed);
    }

    /// Whether it is not taken offline for being silent.
    #[must_use]
    pub fn is_excused(&self) -> bool {
        self.ticks.load(Ordering::Relaxed) < self.excused.load(Ordering::Relaxed)
    }

    fn expire_all(&self) {
        let late: Vec<_> = {
            let mut overdue = self.overdue.lock();
            if overdue.is_empty() {
                self.hung_since.store(self.ticks.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            let late: Vec<_> = self.outstanding.take_unended().into_iter().collect();
            overdue.extend(late.iter().cloned());
            self.hung.store(!overdue.is_empty(), Ordering::Relaxed);
            late
        };
        // A woken task calls `is_hung` at once: if the disk does not hang it has answered, and is
        // waited for without a limit.
        late.iter().for_each(Expiry::expire);
    }

    /// Ticks since the oldest I/O in flight began; `None` if there is none.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let began = self.outstanding.oldest()?;
        Some(self.ticks.load(Ordering::Relaxed).saturating_sub(began))
    }
}

/// Consecutive inspections in which something was wrong on a disk.
#[derive(Debug, Default)]
pub(crate) struct WrongLooks(AtomicU64);

impl Member {
    /// Counts an inspection in which the disk's metadata was wrong, and returns how many there were
    /// in a row.
    pub(crate) fn metadata_was_wrong(&self) -> u64 {
        self.wrong_looks.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Its metadata was right, or it is another disk or a new state.
    pub(crate) fn metadata_is_right(&self) {
        self.wrong_looks.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::{MemoryDisk, TestWorld, block_on};
    use plinth_format::layout::MIB;
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };

    pub(crate) fn member(disk: &MemoryDisk) -> Member {
        let entry = MemberDisk {
            id: DiskId([1; 16]),
            number: DiskNumber(0),
            state: DiskState::Online,
            votes: true,
            quorum: false,
            copy_whole: false,
            by_operator: false,
            absent: false,
            leaving: false,
            size: 64 * MIB,
            target: None,
            stamp: 1,
            since: 0,
            joined: 0,
            name: "D".to_owned(),
            failure_group: "A".to_owned(),
        };
        let clock: Arc<dyn World> = TestWorld::new();
        Member::new(
            &entry,
            Layout::new(64 * MIB, MIB).expect("large enough"),
            Some(disk.open()),
            &clock,
        )
    }

    /// A flush is in flight on a silent disk when the disk is released. Later flushes neither wait
    /// for it nor are overdue: a caller that retries while a disk is only silent would retry for
    /// ever.
    #[test]
    fn a_flush_in_flight_is_not_waited_for_after_the_release() {
        let disk = MemoryDisk::new("/disk", 64 * MIB, 512, 4096);
        let member = member(&disk);
        let written = block_on(member.start_write(MIB, Buffer::zeroed(4096).share()).result());
        assert!(written.is_ok(), "{}", written.reason());
        disk.faults(|faults| faults.hang = true);
        let mut flush = pin!(member.flush());
        let mut context = Context::from_waker(Waker::noop());
        assert!(flush.as_mut().poll(&mut context).is_pending());
        member.release();
        assert!(matches!(flush.as_mut().poll(&mut context), Poll::Ready(IoResult::Overdue)));
        let next = block_on(member.flush());
        assert!(matches!(next, IoResult::Failed(_)), "{}", next.reason());
        assert!(member.is_broken(), "nobody knows what became of it");
    }

    /// A durable write survives a loss of power, and does not make other writes durable.
    #[test]
    fn a_durable_write_makes_no_other_write_durable() {
        let survive = |seed| {
            let disk = MemoryDisk::new("/disk", 64 * MIB, 512, 4096);
            let member = member(&disk);
            let page = |byte| Buffer::copy_of(&[byte; 4096]).share();
            assert!(block_on(member.start_write(MIB, page(1)).result()).is_ok());
            assert!(block_on(member.start_durable_write(2 * MIB, page(2)).result()).is_ok());
            assert_eq!(disk.counts().flushes, 0);
            disk.cut_power(seed);
            assert!(disk.peek(2 * MIB, 4096).iter().all(|byte| *byte == 2));
            disk.peek(MIB, 4096)[0] == 1
        };
        let survived = (0..20).filter(|seed| survive(*seed)).count();
        assert!((1..20).contains(&survived), "{survived} of 20");
    }

    /// A failed durable write may be a failed flush, and a late one may fail yet: the next flush
    /// reports it.
    #[test]
    fn a_failed_durable_write_counts_as_a_failed_flush() {
        let disk = MemoryDisk::new("/disk", 64 * MIB, 512, 4096);
        let member = member(&disk);
        let page = || Buffer::zeroed(4096).share();
        disk.faults(|faults| faults.fail_flushes = true);
        assert!(!block_on(member.start_durable_write(MIB, page()).result()).is_ok());
        assert!(member.take_broken());
        disk.faults(|faults| (faults.fail_flushes, faults.hang) = (false, true));
        let given_up = || {
            let mut late = pin!(member.start_durable_write(MIB, page()).result());
            let mut context = Context::from_waker(Waker::noop());
            assert!(late.as_mut().poll(&mut context).is_pending());
            member.expire_all();
            assert!(matches!(late.as_mut().poll(&mut context), Poll::Ready(IoResult::Overdue)));
            assert!(!member.is_broken(), "it may end well yet");
        };
        given_up();
        disk.heal();
        assert!(block_on(member.flush()).is_ok());
        assert!(!member.is_broken());
        disk.faults(|faults| faults.hang = true);
        given_up();
        member.release();
        assert!(member.is_broken(), "nobody will know how it ended");
    }

    /// The latency of an I/O is measured from its beginning to its end on the disk, however late
    /// its result is read.
    #[test]
    fn a_slow_io_is_counted_in_its_bucket() {
        let disk = MemoryDisk::new("/disk", 64 * MIB, 512, 4096);
        let world = TestWorld::new();
        let clock: Arc<dyn World> = Arc::clone(&world) as Arc<dyn World>;
        let member = Member { clock, ..member(&disk) };
        disk.faults(|faults| faults.hang = true);
        let slow = member.start_read(MIB, 4096);
        // Between 2^31 and 2^32 microseconds, however slow this host is.
        world.advance(Duration::from_secs(3000));
        disk.heal();
        world.advance(Duration::from_secs(10_000));
        assert!(block_on(slow.result()).is_ok());
        assert!(block_on(member.start_write(MIB, Buffer::zeroed(4096).share()).result()).is_ok());
        let reads = member.counters.timings(IoClass::Read);
        let last = reads.buckets().last().copied().expect("one");
        assert_eq!((last.below, last.count, reads.count()), (1 << 32, 1, 1));
        assert!(last.last.is_some_and(|last| last.as_secs() < 10_000), "when it ended");
        let writes = member.counters.timings(IoClass::Write);
        assert!(writes.count() == 1 && writes.buckets().len() < 30);
        let disk_errors = member.counters.disk_errors.all();
        assert_eq!(
            disk_errors.iter().map(|(trouble, _)| *trouble).collect::<Vec<_>>(),
            [Trouble::Slow]
        );
        assert_eq!(disk_errors[0].1.place, Some((MIB, 4096)));
    }
}
