//! The activity log: regions in which writes may be in flight, listed durably before they begin.
//!
//! A region is a run of extents. Before a region is first written:
//!
//!   1. If a disk is offline, the region is marked stale for it, durably.
//!   2. The region is written to the activity log on every voter, and flushed.
//!   3. Writes run. While the region is listed they cost a look at the table.
//!
//! Release, when the region is idle or its slot is needed (R10): no more writes are let in and
//! those in flight end; the disks are flushed; checksum blocks are written to every mirror; the
//! disks are flushed again; only then is the log written without the region. Without the first
//! flush a loss of power could leave one mirror with data and checksums as they were before, and
//! another with both as they are now: two pairs that fit, as of a disk that has lost writes
//! (`disputes.rs`).
//!
//! ```text
//!   (none) --enter--> Opening --log durable--> Open --release--> Closing --log durable--> (none)
//!                                              ^                    |
//!                                              +---- it failed -----+
//! ```
//!
//! The regions that a mount finds in the log are Found: the log that lists them may be on one voter
//! only, which took it before a crash kept the others from it. The first writer opens a Found
//! region like any other, and so does any log that is written meanwhile.
//!
//! A crash leaves every region listed that may differ between mirrors; the next mount compares
//! those and no others. Regions begin small. They grow while many are opened in a short time, and
//! further while slots are taken from regions that were written a moment ago: then writes are
//! random, and a log write per region would be a log write per write. The price is more to compare
//! after a crash, so they grow little for the first reason; and not at all while a disk is away,
//! which would have more to copy when it returns.
//!
//! Invariants:
//!
//!   1. A block is written only while its region is Open and the writer is inside of its gate
//!      (`activity/gate.rs`).
//!   2. Each region of the table is in the newest durable log, unless it is Opening or Found.
//!   3. A write to several extents enters their regions one after the other, and stays in the first
//!      ones while it waits for the next. All such writes together hold fewer regions than there
//!      are slots ([`Activity::room_for`]), so that one of them can always go on.

mod gate;

pub use gate::Gate;

use crate::{
    catalog::tables,
    disk::{counters::IoClient, member::Member},
    error::FileError,
    event::Severity,
    extent::data::Data,
    extent::{Extent, Zones},
    limits::Limit,
    membership::voters::Refusal,
    planted::{self, Bug},
    reached::{self, Mark},
    space::extent_id::ExtentId,
    sync::{
        buffer::{Buffer, Slice},
        lock::{AsyncMutex, AsyncMutexGuard, Mutex, MutexGuard},
    },
    world::{Task, World},
};
use event_listener::Event;
use plinth_format::{
    DiskNumber,
    activity::{ActivityLog, Region},
    membership::DiskState,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    marker::PhantomData,
    sync::Arc,
    time::Duration,
};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Regions that may be open at once: with regions of 4 extents of 4 MiB, 16 GiB
/// under random writes before regions grow; a log write is 16 KiB at most.
pub const REGIONS_MAX: usize = 1000;
/// How many are open at once: more than one request has parts, each in a region of its own. A
/// mebibyte in FINE stripes has nine at most.
const REGIONS_OPEN: Limit = Limit::new(REGIONS_MAX, 10);
/// Regions closed together when the table is full.
const BATCH: usize = 128;
/// Checksum blocks that are written at the same time, before regions are closed.
const SUMS_AT_ONCE: usize = 32;
/// Extents in a region, as a power of two: at first, and at most.
const SCALE_MIN: u32 = 2;
const SCALE_MAX: u32 = 12;
/// The scale that they grow to because many are opened: with AUs of 4 MiB that is 128 MiB, and 64
/// GiB of random writes pay for 512 of them.
const SCALE_BURST: u32 = 5;
/// This many regions opened in [`BURST_TIME`] make regions grow one step.
const BURST: u32 = 16;
const BURST_TIME: Duration = Duration::from_secs(1);
/// A region closed for its slot this soon after its last write says that regions are too small.
const BUSY: Duration = Duration::from_secs(30);
/// How often, and at what intervals, it is tried to keep others from writing the log.
const HOLD_TRIES: usize = 200;
const HOLD_PAUSE: Duration = Duration::from_millis(10);
/// A region is closed after this long without a write.
pub const IDLE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Listed by some voter, perhaps not by enough of them.
    Found,
    Opening,
    Open,
    Closing,
}

#[derive(Debug)]
struct Entry {
    count: u32,
    phase: Phase,
    /// Open while the phase is.
    gate: Arc<Gate>,
    /// Whether the newest durable log has it.
    in_log: bool,
}

#[derive(Debug)]
struct Table {
    regions: BTreeMap<u64, Entry>,
    scale: u32,
    /// Regions opened since a moment that is at most [`BURST_TIME`] ago.
    opened: u32,
    opened_since: Duration,
    /// The group is at its end: nothing is opened any more.
    sealed: bool,
}

/// The right to write the log.
#[derive(Debug, Default)]
struct Writer {
    sequence: u64,
    /// Disks that do not take the log and cannot be spared, since the ALARM that says so.
    refusing: BTreeSet<DiskNumber>,
}

/// The table of regions. See the module's description.
#[derive(Debug)]
pub struct Activity {
    table: Mutex<Table>,
    changed: Event,
    writer: AsyncMutex<Writer>,
    /// One permit for each region that may be held by a write that waits for another region.
    shared: Semaphore,
}

/// See [`Activity::hold_log`].
pub(crate) struct LogHold<'a> {
    _writer: AsyncMutexGuard<'a, Writer>,
}

/// A write in a region; it ends when this is dropped.
#[derive(Debug)]
pub struct Active<'a> {
    gate: Arc<Gate>,
    _of: PhantomData<&'a Activity>,
}

impl Entry {
    fn new(count: u32, phase: Phase, now: Duration) -> Self {
        Self { count, phase, gate: Arc::new(Gate::new(now)), in_log: false }
    }

    /// To any phase but Closing, or from it.
    fn turn(&mut self, phase: Phase) {
        self.phase = phase;
        if phase == Phase::Open {
            self.gate.open();
        }
    }

    /// To Closing, unless a writer is inside.
    fn begin_closing(&mut self) -> bool {
        let is_closed = self.gate.close() || planted::has(Bug::RegionTakenFromWriter);
        if is_closed {
            self.phase = Phase::Closing;
        }
        is_closed
    }
}

impl Table {
    fn find(&mut self, ExtentId(extent): ExtentId) -> Option<(u64, &mut Entry)> {
        let (first, entry) = self.regions.range_mut(..=extent).next_back()?;
        (extent < first + u64::from(entry.count)).then_some((*first, entry))
    }

    /// Edits those of some regions that are there.
    fn entries(&mut self, regions: &[Region], mut edit: impl FnMut(&mut Entry)) {
        for region in regions {
            if let Some(entry) = self.regions.get_mut(&region.first) {
                edit(entry);
            }
        }
    }

    /// A region is opened for an extent that is in none.
    fn open_around(&mut self, extent: ExtentId, now: Duration, may_grow: bool) -> Region {
        if now.saturating_sub(self.opened_since) > BURST_TIME {
            (self.opened, self.opened_since) = (0, now);
        }
        self.opened += 1;
        if may_grow && self.opened.is_multiple_of(BURST) && self.scale < SCALE_BURST {
            reached::at(Mark::RegionGrown);
            self.scale += 1;
        }
        let region = self.region_around(extent);
        self.regions.insert(region.first, Entry::new(region.count, Phase::Opening, now));
        region
    }

    fn regions(&self) -> Vec<Region> {
        self.regions
            .iter()
            .map(|(first, entry)| Region { first: *first, count: entry.count })
            .collect()
    }

    /// The aligned run around `extent`, cut where it would overlap another region.
    fn region_around(&self, ExtentId(extent): ExtentId) -> Region {
        let size = 1u64 << self.scale;
        let mut start = extent & !(size - 1);
        let mut end = start + size;
        if let Some((first, entry)) = self.regions.range(..=extent).next_back() {
            start = start.max(first + u64::from(entry.count));
        }
        if let Some((first, _)) = self.regions.range(extent..).next() {
            end = end.min(*first);
        }
        Region { first: start, count: u32::try_from(end - start).expect("at most 2^SCALE_MAX") }
    }
}

impl Activity {
    /// Starts with the regions of the log that the mount found, and the highest sequence that it
    /// saw.
    #[must_use]
    pub fn new(found: &[Region], sequence: u64, now: Duration) -> Self {
        let mut regions = BTreeMap::new();
        for region in found {
            regions.insert(region.first, Entry::new(region.count.max(1), Phase::Found, now));
        }
        Self {
            table: Mutex::new(Table {
                regions,
                scale: SCALE_MIN,
                opened: 0,
                opened_since: now,
                sealed: false,
            }),
            changed: Event::new(),
            writer: AsyncMutex::new(Writer { sequence, refusing: BTreeSet::new() }),
            shared: Semaphore::new(Self::shared()),
        }
    }

    fn shared() -> usize {
        REGIONS_OPEN.get() - 1
    }

    /// Waits until a write that needs `regions` regions at the same time may begin to enter them.
    /// The caller is in no region yet, and keeps the permit until it has left all of them.
    pub(crate) async fn room_for(&self, regions: usize) -> Option<SemaphorePermit<'_>> {
        if regions < 2 || planted::has(Bug::RegionsAwaitEachOther) {
            return None;
        }
        // More than there are it cannot be ([`REGIONS_OPEN`]).
        let beside = u32::try_from((regions - 1).min(Self::shared())).unwrap_or(u32::MAX);
        self.shared.acquire_many(beside).await.ok()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// The regions now listed.
    #[must_use]
    pub fn regions(&self) -> Vec<Region> {
        self.lock().regions()
    }

    /// Whether an extent's region is listed.
    #[must_use]
    pub fn has(&self, extent: ExtentId) -> bool {
        self.lock().find(extent).is_some()
    }

    /// Enters the region of an extent if it is open, and opens none.
    pub(crate) fn enter_if_open(&self, extent: &Extent, now: Duration) -> Option<Active<'_>> {
        let mut table = self.lock();
        let (_, entry) = table.find(extent.id)?;
        let has_entered = entry.phase == Phase::Open && entry.gate.enter(now);
        has_entered.then(|| Active { gate: Arc::clone(&entry.gate), _of: PhantomData })
    }

    /// While this is held no other task writes the log. `None`: a disk does not take the log, and
    /// the task that writes it waits for that.
    pub(crate) async fn hold_log(&self, world: &dyn World) -> Option<LogHold<'_>> {
        for _ in 0..HOLD_TRIES {
            if let Some(writer) = self.writer.try_lock() {
                return Some(LogHold { _writer: writer });
            }
            world.sleep(HOLD_PAUSE).await;
        }
        None
    }

    /// Lets nothing be opened any more, if nothing is open. Whether that is so.
    pub(crate) fn seal(&self) -> bool {
        let mut table = self.lock();
        table.sealed |= table.regions.is_empty();
        table.sealed
    }

    /// Undoes [`Self::seal`]: the group goes on.
    pub(crate) fn unseal(&self) {
        self.lock().sealed = false;
    }

    /// Wakes all waiters for regions: the group has ended.
    pub(crate) fn wake_all(&self) {
        self.changed.notify(usize::MAX);
    }

    /// Changes the table, and wakes the waiters.
    fn edit(&self, edit: impl FnOnce(&mut Table)) {
        edit(&mut self.lock());
        self.changed.notify(usize::MAX);
    }

    fn set_phase(&self, regions: &[Region], phase: Phase) {
        self.edit(|table| table.entries(regions, |entry| entry.turn(phase)));
    }

    /// Regions that were to be closed stay as they were.
    fn go_on(&self, regions: &[Region]) {
        let before = |entry: &Entry| if entry.in_log { Phase::Open } else { Phase::Found };
        self.edit(|table| table.entries(regions, |entry| entry.turn(before(entry))));
    }

    fn remove(&self, regions: &[Region]) {
        self.edit(|table| {
            for region in regions {
                table.regions.remove(&region.first);
            }
            // Half the table free: small regions will do again.
            if table.regions.len() < REGIONS_OPEN.get() / 2 && table.scale > SCALE_MIN {
                table.scale -= 1;
            }
        });
    }

    /// Takes up to `most` open regions without writers, oldest first, for closing.
    fn take_for_closing(
        &self,
        most: usize,
        idle_since: Option<Duration>,
        now: Duration,
    ) -> Vec<Region> {
        let mut table = self.lock();
        let mut idle: Vec<_> = table
            .regions
            .iter()
            .filter(|(_, entry)| matches!(entry.phase, Phase::Open | Phase::Found))
            .filter(|(_, entry)| !entry.gate.is_used() || planted::has(Bug::RegionTakenFromWriter))
            .filter(|(_, entry)| idle_since.is_none_or(|since| entry.gate.last_used() <= since))
            .map(|(first, entry)| (entry.gate.last_used(), *first, entry.count))
            .collect();
        idle.sort_unstable();
        idle.truncate(most);
        let busy =
            idle.first().is_some_and(|(last_used, ..)| now.saturating_sub(*last_used) < BUSY);
        if idle_since.is_none() && busy {
            table.scale = (table.scale + 1).min(SCALE_MAX);
        }
        idle.into_iter()
            .filter_map(|(_, first, count)| {
                // A writer may have entered meanwhile.
                table.regions.get_mut(&first)?.begin_closing().then_some(Region { first, count })
            })
            .collect()
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.gate.leave();
    }
}

impl Data {
    /// Enters the region of an extent for a write (invariant 1).
    pub(crate) async fn activate(&self, extent: &Extent) -> Result<Active<'_>, FileError> {
        match self.enter_open(self.world.monotonic(), extent) {
            Some(active) => Ok(active),
            // Boxed: the rare path (`file_read.rs`).
            None => Box::pin(self.open_and_enter(extent)).await,
        }
    }

    /// The same, if the region is open, `now` by the monotonic clock.
    pub(crate) fn enter_open(&self, now: Duration, extent: &Extent) -> Option<Active<'_>> {
        let gate = extent.gate();
        let gate = gate.as_ref().filter(|gate| !self.voters.is_closing() && gate.enter(now))?;
        Some(Active { gate: Arc::clone(gate), _of: PhantomData })
    }

    async fn open_and_enter(&self, extent: &Extent) -> Result<Active<'_>, FileError> {
        // Made at the second look: there may be nothing to wait for.
        let mut listener = None;
        loop {
            let mut opening = None;
            let mut full = false;
            {
                let last_used = self.world.monotonic();
                let mut table = self.activity.lock();
                if table.sealed || self.voters.is_closing() {
                    return Err(FileError::Dismounted);
                }
                if let Some((first, entry)) = table.find(extent.id) {
                    if entry.phase == Phase::Open && entry.gate.enter(last_used) {
                        let gate = Arc::clone(&entry.gate);
                        extent.set_gate(&gate);
                        return Ok(Active { gate, _of: PhantomData });
                    }
                    if entry.phase == Phase::Found {
                        entry.turn(Phase::Opening);
                        opening = Some((Region { first, count: entry.count }, Phase::Found));
                    }
                } else if table.regions.len() >= REGIONS_OPEN.get() {
                    full = true;
                } else {
                    let region =
                        table.open_around(extent.id, last_used, self.offline_disks().is_empty());
                    opening = Some((region, Phase::Opening));
                }
            }
            if full {
                reached::at(Mark::RegionTaken);
                if !self.close_regions(BATCH, None).await? {
                    // Every region is in use: one of them ends soon.
                    self.world.sleep(Duration::from_millis(1)).await;
                }
            } else if let Some((region, before)) = opening {
                if let Err(error) = self.open_region(region).await {
                    match before {
                        // Its mirrors may still differ, and are to be compared.
                        Phase::Found => self.activity.set_phase(&[region], Phase::Found),
                        _ => self.activity.remove(&[region]),
                    }
                    return Err(error);
                }
            } else if let Some(listener) = listener.take() {
                listener.await;
            } else {
                listener = Some(self.activity.changed.listen());
            }
        }
    }

    async fn open_region(&self, region: Region) -> Result<(), FileError> {
        if !planted::has(Bug::StaleMarkLate) {
            self.mark_stale(&self.offline_disks(), &[region]).await?;
        }
        if planted::has(Bug::DataBeforeRegion) {
            self.activity.set_phase(&[region], Phase::Open);
        }
        self.write_activity(Some(region)).await?;
        // A disk may have gone offline since; its expulsion marks what is in the
        // table, and this region is.
        self.activity.set_phase(&[region], Phase::Open);
        Ok(())
    }

    /// The disks that miss what is written now.
    pub(crate) fn offline_disks(&self) -> Vec<DiskNumber> {
        let offline = self
            .members
            .values()
            .filter(|member| member.state() == DiskState::Offline && !member.quorum);
        offline.map(|member| member.number).collect()
    }

    /// Marks regions stale for disks, durably, unless they are marked already. Even a full catalog
    /// takes the marks: what a disk misses must be on record.
    pub(crate) async fn mark_stale(
        &self,
        disks: &[DiskNumber],
        regions: &[Region],
    ) -> Result<(), FileError> {
        let mut fresh: BTreeMap<DiskNumber, Vec<Region>> = BTreeMap::new();
        {
            let stale = self.stale.lock();
            for disk in disks {
                let runs = stale.get(disk).cloned().unwrap_or_default();
                let mut seen = runs;
                for region in regions {
                    if seen.add(region.first, region.count.into()) {
                        fresh.entry(*disk).or_default().push(*region);
                    }
                }
            }
        }
        if fresh.is_empty() {
            return Ok(());
        }
        let stale = Arc::clone(&self.stale);
        self.catalog
            .release(true, move |connection| {
                for (disk, regions) in &fresh {
                    tables::stale::mark(connection, &[*disk], regions)?;
                }
                let mut stale = stale.lock();
                for (disk, regions) in &fresh {
                    let runs = stale.entry(*disk).or_default();
                    for region in regions {
                        runs.add(region.first, region.count.into());
                    }
                }
                Ok(())
            })
            .await?;
        Ok(())
    }

    /// Writes the table to every voter and flushes. With `wanted`, returns at once if
    /// a log written meanwhile has it: writers share log writes.
    async fn write_activity(&self, wanted: Option<Region>) -> Result<(), FileError> {
        let mut writer = self.activity.writer.lock().await;
        if let Some(wanted) = wanted
            && self.activity.lock().regions.get(&wanted.first).is_some_and(|entry| entry.in_log)
        {
            return Ok(());
        }
        loop {
            let regions = self.activity.regions();
            if self.put_activity(&mut writer, regions).await? {
                return Ok(());
            }
        }
    }

    /// One write of the log to all voters. False: a voter failed and was expelled; again.
    async fn put_activity(
        &self,
        writer: &mut Writer,
        regions: Vec<Region>,
    ) -> Result<bool, FileError> {
        let membership = self.voters.current();
        writer.sequence += 1;
        let log = ActivityLog {
            sequence: writer.sequence,
            membership: membership.id,
            boot: self.boot(),
            regions: regions.clone(),
        };
        let targets = self.voters.announce_log(&log);
        let failed = self.voters.write_log(&log, &targets).await;
        let all_good = failed.is_empty();
        for (disk, reason) in failed {
            match self.voters.expel(disk, &format!("activity log: {reason}"), false).await {
                Ok(()) if !self.voters.current().voters().any(|voter| voter.number == disk) => {}
                Err(Refusal::Closing) => return Err(FileError::Dismounted),
                Err(Refusal::Answers) => {}
                _ if self.voters.is_closing() => return Err(FileError::Dismounted),
                // It cannot be spared, or no other disk can vote: writes wait until it takes the
                // log.
                kept => {
                    if writer.refusing.insert(disk) {
                        let name = self
                            .members
                            .get(&disk)
                            .map_or_else(|| Arc::from(""), |member| member.name());
                        let why = match kept {
                            Ok(()) => {
                                "It is the only one that votes, and no other disk can".to_owned()
                            }
                            Err(refusal) => format!("It cannot go offline, because {refusal}"),
                        };
                        let text = format!(
                            "writes wait: disk {name} does not take the activity log: {reason}. {why}. Mend the disk, or \
                             bring the disks with the other mirrors ONLINE"
                        );
                        self.tell(Severity::Alarm, Some(disk), text);
                    }
                    self.world.sleep(Duration::from_secs(1)).await;
                }
            }
        }
        if all_good && !std::mem::take(&mut writer.refusing).is_empty() {
            self.tell(
                Severity::Note,
                None,
                "writes go on: the activity log is written again".to_owned(),
            );
        }
        // The voters may have changed under the write: then it counts for nothing.
        if !all_good || self.voters.current().id != membership.id {
            return Ok(false);
        }
        let mut table = self.activity.lock();
        for region in &regions {
            // Another one may begin there by now.
            if let Some(entry) = table.regions.get_mut(&region.first)
                && entry.count == region.count
            {
                entry.in_log = true;
                if entry.phase == Phase::Found {
                    entry.turn(Phase::Open);
                }
            }
        }
        Ok(true)
    }

    /// Closes regions that were idle since before `IDLE`, or all that are not in use.
    pub(crate) async fn close_idle(&self, all: bool) -> Result<bool, FileError> {
        let now = self.world.monotonic();
        let since = if all { now } else { now.saturating_sub(IDLE) };
        self.close_regions(usize::MAX, Some(since)).await
    }

    /// Closes up to `most` regions (R10). False if there was none to close.
    async fn close_regions(
        &self,
        most: usize,
        idle_since: Option<Duration>,
    ) -> Result<bool, FileError> {
        let regions = self.activity.take_for_closing(most, idle_since, self.world.monotonic());
        if regions.is_empty() {
            return Ok(false);
        }
        let result = self.release_regions(&regions).await;
        match &result {
            Ok(closed) => {
                let kept: Vec<_> =
                    regions.iter().filter(|region| !closed.contains(region)).copied().collect();
                self.activity.go_on(&kept);
            }
            Err(_) => self.activity.go_on(&regions),
        }
        result.map(|closed| !closed.is_empty())
    }

    /// Writes checksum blocks, flushes, and writes the log without the regions.
    /// Returns those that were closed: one with an extent not yet compared after a crash stays.
    async fn release_regions(&self, regions: &[Region]) -> Result<Vec<Region>, FileError> {
        let closed: Vec<_> =
            regions.iter().filter(|region| !self.is_suspect_region(**region)).copied().collect();
        if closed.is_empty() {
            return Ok(closed);
        }
        let extents = || {
            closed.iter().flat_map(|region| self.extents.in_run(region.first, region.count.into()))
        };
        if planted::has(Bug::ReleasedBeforeSums) {
            drop(self.leave_log(&closed).await?);
        }
        if planted::has(Bug::StaleMarkLate) {
            self.mark_stale(&self.offline_disks(), &closed).await?;
        }
        loop {
            let failures = self.failed_flushes.count();
            if extents().any(|extent| extent.is_dirty()) && !planted::has(Bug::SumsBeforeData) {
                self.flush_disks().await?;
            }
            for some in extents().collect::<Vec<_>>().chunks(SUMS_AT_ONCE) {
                let writes = some.iter().map(|extent| {
                    Box::pin(self.write_sums(extent)) as Task<'_, Result<(), FileError>>
                });
                for written in futures::future::join_all(writes).await {
                    written?;
                }
            }
            if planted::has(Bug::ReleasedBeforeFlush) {
                drop(self.leave_log(&closed).await?);
            }
            self.flush_disks().await?;
            // Another task's flush that failed meanwhile may have lost the checksums.
            if self.failed_flushes.count() == failures {
                break;
            }
            reached::at(Mark::ReleaseRepeated);
        }
        for extent in extents() {
            extent.mark_sums_stored(|| self.zones_of(&extent));
        }
        let _writer = self.leave_log(&closed).await?;
        self.activity.remove(&closed);
        Ok(closed)
    }

    /// The zones that have just been written.
    fn zones_of(&self, extent: &Extent) -> Zones {
        let current = self.mirrors(extent).filter(|(_, member)| member.is_readable());
        Zones {
            moves: extent.moves(),
            disks: current.map(|(_, member)| (member.number, member.losses())).collect(),
        }
    }

    /// Writes the log without regions that are closed. No other task writes it before they are out
    /// of the table.
    async fn leave_log(&self, closed: &[Region]) -> Result<AsyncMutexGuard<'_, Writer>, FileError> {
        let mut writer = self.activity.writer.lock().await;
        loop {
            let mut left = self.activity.lock().regions();
            left.retain(|region| !closed.contains(region));
            if self.put_activity(&mut writer, left).await? {
                return Ok(writer);
            }
        }
    }

    /// Writes an extent's checksums to the zones of all its mirrors, if they are newer than those.
    /// They stay dirty until a flush was good.
    pub(crate) async fn write_sums(&self, extent: &Extent) -> Result<(), FileError> {
        let sums = extent.sums().clone();
        let Some(sums) = sums.filter(|_| extent.is_dirty()) else { return Ok(()) };
        let kept = self.sums_to_keep(extent, &sums).await?;
        let mut block = Buffer::zeroed(self.sums_length());
        for (stored, sum) in block.chunks_exact_mut(4).zip(sums.all()) {
            stored.copy_from_slice(&sum.to_le_bytes());
        }
        let block = block.share();
        let mirrors: Vec<(&Arc<Member>, u64, Slice)> = self
            .mirrors(extent)
            .filter(|(_, member)| member.is_writable())
            .filter(|(_, member)| !planted::has(Bug::SyncingWithoutSums) || member.is_readable())
            .map(|(mirror, member)| {
                let own = kept.patch(mirror.disk, &block).map(|own| Buffer::copy_of(&own).share());
                (member, member.layout().sums_of(mirror.au).0, own.unwrap_or_else(|| block.clone()))
            })
            .collect();
        sums.set_agreed(kept.agree, kept.is_any());
        loop {
            let writes = mirrors.iter().filter(|(member, ..)| member.is_writable()).map(
                |(member, offset, bytes)| async move {
                    (
                        member,
                        member
                            .start_write(*offset, bytes.clone())
                            .of(IoClient::Checksums)
                            .result()
                            .await,
                    )
                },
            );
            let mut again = false;
            for (member, ended) in futures::future::join_all(writes).await {
                if !ended.is_ok() && !self.expel_or_wait(member, &ended).await? {
                    again = true;
                }
            }
            if !again || planted::has(Bug::SumsNotAgain) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens regions for extents far apart, `in_a_second` of them in each second, and returns how
    /// large the last one is.
    fn opened(count: u32, in_a_second: u32, may_grow: bool) -> u32 {
        let activity = Activity::new(&[], 0, Duration::ZERO);
        let mut table = activity.lock();
        let mut last = 0;
        for number in 0..count {
            let now = Duration::from_secs(10) + Duration::from_secs(1) * number / in_a_second;
            last = table.open_around(ExtentId(u64::from(number) << 20), now, may_grow).count;
        }
        last
    }

    #[test]
    fn regions_grow_where_many_are_opened_in_a_short_time() {
        assert_eq!(opened(1, 1000, true), 1 << SCALE_MIN);
        assert_eq!(opened(BURST - 1, 1000, true), 1 << SCALE_MIN);
        assert_eq!(opened(BURST, 1000, true), 2 << SCALE_MIN);
        assert_eq!(opened(900, 1000, true), 1 << SCALE_BURST, "and not beyond");
        assert_eq!(opened(900, BURST - 2, true), 1 << SCALE_MIN, "not where they trickle");
        assert_eq!(opened(900, 1000, false), 1 << SCALE_MIN, "not while a disk is away");
    }
}
