//! RECLAIM: gives back all free space of a group, by an order of the operator, while the group is
//! used.
//!
//! Discards (`extent/discards.rs`) give back what was freed while they were on. RECLAIM is for the
//! rest: the group comes from an array without UNMAP, its disks were copied in full, or
//! `thin_provisioned` was off; that attribute does not matter here. With ZERO it writes zeros
//! instead, for arrays that keep none.
//!
//! In this order:
//!
//!   1. The order and its position are stored in the catalog, durably.
//!   2. On all disks at the same time, from their first AU to the last one: AUs that are free are
//!      taken, given back, and are free again.
//!   3. The extents, in the order of their ids: pieces without data are looked at, held and given
//!      back, as discards do it.
//!   4. The order is removed from the catalog.
//!
//! Every few seconds the position is stored. After a crash or a dismount the next mount goes on
//! from there, and gives some space back twice. Nothing else depends on the position, or on what a
//! device does with space that is given back: no owner reads it before it was written. After a
//! mount by FORCE, and where AUs have two owners, there is no RECLAIM: space that seems free may
//! hold all that is left of a file. The order stays for the next mount.
//!
//! There is no moment at which the group seems full: an AU is not allocatable only while it is
//! being given back (R8), these count as free, and of the free AUs of a disk an eighth at most is
//! taken at once.
//!
//! It rests as discards do (`extent/discard_pace.rs`), each disk for itself, and the rests are
//! divided by its power: while front ends or the catalog use the disks, a rest is [`RESTS`] times
//! as long as the work before it with power 1.
//!
//! A disk that is not ONLINE, leaves the group, or fails several times in succession, is left out,
//! and the operation ends with an error that names it. Space that is freed behind the position is
//! not given back again.

use crate::{
    admin::{
        AdminError, Code, Operation, OperationPass, OperationState, ReclaimMethod, ReclaimOrder,
        Reclaimable, Selection,
    },
    catalog::{attributes, tables},
    check::Upkeep,
    disk::member::Member,
    error::FileError,
    event::Severity,
    extent::{
        blocks::BLOCKS_PER_PIECE,
        discard_pace::{Pace, RESTS, Round},
        discards::{LOOKED_AT, RUNS_AT_ONCE, Reclaimed, UnitsTurn},
    },
    movement::progress::Progress,
    space::extent_id::ExtentId,
    sync::{
        bits::Bits,
        lock::{Mutex, MutexGuard},
    },
    world::discard_limits::REQUEST_MAX,
};
use futures::future;
use plinth_format::{Au, DiskNumber, Piece, layout::PIECE_SIZE};
use rusqlite::Connection;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// How often the position is stored.
const STORE_EVERY: Duration = if cfg!(any(test, feature = "testing")) {
    Duration::from_millis(100)
} else {
    Duration::from_secs(10)
};
/// The most free AUs of a disk that are taken at once: one in this many.
const OF_FREE: u32 = 8;
/// Failures in succession after which a disk is left out, and the first pause between them.
const FAILURES_MAX: u32 = 4;
const FAILED_REST: Duration = Duration::from_millis(500);
/// How often pieces that are in use are looked at again, and the pause before.
const TRIES: u32 = 5;
const IN_USE_REST: Duration = Duration::from_millis(200);
/// How often a rest, and a wait for another run of a disk, look whether the order ends; and how
/// long disks must be unused for the end of a rest.
const PAUSE: Duration = Duration::from_millis(200);
const UNUSED: Duration = Duration::from_secs(5);
/// Extents of one query of an estimate.
const SOME: usize = 256;

/// The RECLAIM of a group.
#[derive(Debug, Default)]
pub(crate) struct Reclaim(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_running: bool,
    /// The operator wants it to end.
    is_stopped: bool,
    /// Space that seems free is free.
    trusts_free_space: bool,
    position: Position,
    stored: Duration,
    /// `None`: none has run since the mount.
    progress: Option<Progress>,
    /// Disks that were left out, and why.
    left_out: BTreeMap<DiskNumber, String>,
}

/// The order, and how far it is, as the catalog stores it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Position {
    is_zero: bool,
    power: u32,
    /// Bytes that were given back.
    bytes: u64,
    /// Bytes that were to be given back when it began.
    work: u64,
    /// The AU of each disk at which it goes on.
    disks: BTreeMap<DiskNumber, Au>,
    /// The extent at which it goes on.
    extent: u64,
}

impl Position {
    fn method(&self) -> ReclaimMethod {
        if self.is_zero { ReclaimMethod::Zero } else { ReclaimMethod::Discard }
    }

    fn text(&self) -> String {
        let Self { is_zero, power, bytes, work, disks, extent } = self;
        let mut words = vec![u64::from(*is_zero), u64::from(*power), *bytes, *work, *extent];
        words.extend(disks.iter().flat_map(|(disk, au)| [u64::from(disk.0), u64::from(au.0)]));
        words.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
    }

    /// `None`: no engine has written this.
    fn of_text(text: &str) -> Option<Self> {
        let words: Vec<u64> = text.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        let [is_zero, power, bytes, work, extent, disks @ ..] = &words[..] else { return None };
        let disk = |pair: &[u64; 2]| {
            Some((DiskNumber(pair[0].try_into().ok()?), Au(pair[1].try_into().ok()?)))
        };
        let (disks, []) = disks.as_chunks() else { return None };
        Some(Self {
            is_zero: *is_zero != 0,
            power: u32::try_from(*power).ok()?.max(1),
            bytes: *bytes,
            work: *work,
            extent: *extent,
            disks: disks.iter().map(disk).collect::<Option<_>>()?,
        })
    }
}

/// The end of a RECLAIM.
enum End {
    Done,
    Stopped,
    /// The group was dismounted: the next mount goes on.
    Dismounted,
    Failed(FileError),
}

impl From<FileError> for End {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Dismounted => Self::Dismounted,
            other => Self::Failed(other),
        }
    }
}

/// Pieces without data, in bytes; and those of them that the device does not give back.
#[derive(Clone, Copy, Default)]
struct Holes {
    bytes: u64,
    cut_off: u64,
}

impl Holes {
    /// Adds pieces of an AU that begins at `offset`.
    fn add(&mut self, pieces: &[Piece], offset: u64, member: &Member) {
        self.bytes += pieces.len() as u64 * PIECE_SIZE;
        let Some(limits) = member.discard_limits() else { return };
        for run in pieces.chunk_by(|one, next| one.0 + 1 == next.0) {
            let begin = run.first().map_or(0, |piece| piece.offset());
            let run = offset + begin..offset + begin + run.len() as u64 * PIECE_SIZE;
            let units = limits.inwards(run.clone());
            self.cut_off += (run.end - run.start) - (units.end - units.start);
        }
    }
}

/// Work with rests.
struct PacedWork {
    pace: Pace,
    /// The use of the disks when the last rest ended.
    used: u64,
}

impl Reclaim {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// The row that `V$ASM_OPERATION` shows of it.
    pub fn operation(&self, now: Duration) -> Option<Operation> {
        let state = self.lock();
        let power = state.position.power;
        Some(state.progress.as_ref()?.operation(OperationPass::Reclaim, power, now))
    }
}

impl Upkeep {
    /// How much each disk holds, and would hold after a RECLAIM.
    ///
    /// # Errors
    /// If there is no such disk, or the catalog cannot be read.
    pub async fn reclaimable(&self, which: &Selection) -> Result<Vec<Reclaimable>, AdminError> {
        let members = self.select(which)?;
        let holes = self.holes_of_disks(&members).await?;
        let catalog = self.voters.current().catalog.clone();
        // These may take a while: the lock on space is not held meanwhile.
        let of = |member: &Arc<Member>| {
            let (disk, layout) = (member.disk()?, member.layout());
            let mut stays = layout.metadata(disk.size());
            let runs = catalog.iter().filter(|run| run.disk == member.number);
            stays.extend(runs.map(|run| layout.au_bytes(run.first, run.count)));
            Some((disk.size(), disk.allocated(), disk.unwritten(&stays).unwrap_or(0)))
        };
        let seen: Vec<_> = members.iter().map(of).collect();
        let space = self.space();
        let of = |(member, seen): (&Arc<Member>, Option<_>)| {
            let layout = member.layout();
            let (size, allocated, unwritten) = seen.unwrap_or((layout.size(), None, 0));
            let limits = member.discard_limits();
            let Holes { bytes, cut_off } = holes.get(&member.number).copied().unwrap_or_default();
            let data = u64::from(layout.data_unit_count()) * self.au_size;
            Reclaimable {
                disk: member.name().to_string(),
                size,
                used: (u64::from(space.used(member.number)) * self.au_size).saturating_sub(bytes),
                metadata: size.saturating_sub(data),
                unwritten,
                cut_off: cut_off + limits.map_or(0, |limits| space.cut_off(member.number, &limits)),
                allocated,
                takes_discards: limits.is_some(),
            }
        };
        let data = members.iter().zip(seen).filter(|(member, _)| !member.quorum);
        Ok(data.map(of).collect())
    }

    /// The pieces without data in AUs that are in use, by disk.
    async fn holes_of_disks(
        &self,
        members: &[Arc<Member>],
    ) -> Result<BTreeMap<DiskNumber, Holes>, FileError> {
        let pieces = self.blocks_per_au() / BLOCKS_PER_PIECE;
        let mut holes: BTreeMap<DiskNumber, Holes> =
            members.iter().map(|member| (member.number, Holes::default())).collect();
        let mut from = 0;
        loop {
            let read = move |connection: &Connection| {
                Ok(tables::extent::some_from(connection, from, SOME)?)
            };
            let rows = self.catalog.read(read).await?;
            let Some(last) = rows.last() else { return Ok(holes) };
            from = last.extent.id + 1;
            for row in &rows {
                let empty: Vec<Piece> = row.marks.holes(pieces).collect();
                for mirror in row.extent.mirrors.iter() {
                    let (Some(all), Some(member)) =
                        (holes.get_mut(&mirror.disk), self.members.get(&mirror.disk))
                    else {
                        continue;
                    };
                    all.add(&empty, member.layout().au_offset(mirror.au), member);
                }
            }
        }
    }

    /// Begins a RECLAIM and returns; `operations` shows it. An order for all disks, by the method
    /// of the one that runs, means that one, and may give it another power.
    ///
    /// # Errors
    /// If another one runs, no disk could give space back or one that is named could not, or the
    /// catalog fails.
    pub async fn begin_reclaim(self: &Arc<Self>, order: &ReclaimOrder) -> Result<(), AdminError> {
        // A disk that there is not is refused as such, whether another one runs or not.
        self.select(&order.which)?;
        if self.is_reclaiming(order)? {
            return Ok(());
        }
        let method = order.method;
        let members = self.members_to_reclaim(order)?;
        let disks: BTreeMap<DiskNumber, Au> =
            members.iter().map(|member| (member.number, Au(0))).collect();
        let names = members.iter().map(|member| member.name().to_string()).collect();
        let found = self.reclaimable(&Selection::Disks(names)).await?;
        let position = Position {
            is_zero: method == ReclaimMethod::Zero,
            power: order.power.unwrap_or(1),
            bytes: 0,
            work: found.iter().map(Reclaimable::free).sum(),
            disks,
            extent: 0,
        };
        let text = position.text();
        if !self.set_reclaim(position) {
            return Err(self.reclaims_already(false));
        }
        let store = |connection: &_| attributes::store_reclaim(connection, Some(text));
        if let Err(error) = self.catalog.release(true, store).await {
            *self.reclaim.lock() = State { trusts_free_space: true, ..State::default() };
            return Err(error.into());
        }
        self.start_reclaim("begins");
        Ok(())
    }

    fn reclaims_already(&self, is_stopped: bool) -> AdminError {
        let hint = if is_stopped {
            "it was stopped, and ends when what is in flight has ended".to_owned()
        } else {
            let name = &self.name;
            format!("ALTER DISKGROUP {name} RECLAIM POWER n makes it faster, RECLAIM STOP ends it")
        };
        let text = format!("disk group {} is being reclaimed", self.name);
        AdminError::new(Code::Busy, text).hint(hint)
    }

    /// Whether the order means the RECLAIM that runs; that gets its power.
    fn is_reclaiming(&self, order: &ReclaimOrder) -> Result<bool, AdminError> {
        let mut state = self.reclaim.lock();
        if !state.is_running {
            return Ok(false);
        }
        let is_same = order.which == Selection::All && state.position.method() == order.method;
        if !is_same || state.is_stopped {
            return Err(self.reclaims_already(state.is_stopped));
        }
        order.power.into_iter().for_each(|power| state.position.power = power);
        Ok(true)
    }

    /// The disks of an order. Of all disks, those that cannot give space back are left out.
    fn members_to_reclaim(&self, order: &ReclaimOrder) -> Result<Vec<Arc<Member>>, AdminError> {
        if !self.trusts_free_space() {
            let text = format!(
                "disk group {} was mounted by FORCE or is damaged: what seems free may be all that is left of a file",
                self.name
            );
            return Err(AdminError::new(Code::WouldLoseData, text)
                .hint("CHECK it, dismount it, and mount it without FORCE"));
        }
        let mut members = self.select(&order.which)?;
        members.retain(|member| !member.quorum);
        let (able, unable): (Vec<_>, Vec<_>) =
            members.into_iter().partition(|member| self.could_reclaim(member, order.method));
        let Some(first) = unable.first() else { return Ok(able) };
        let text = format!("disk {}: {}", first.name(), self.why_not(first));
        if able.is_empty() || order.which != Selection::All {
            let hint = if first.is_writable() && !first.can_discard() {
                format!("ALTER DISKGROUP {} RECLAIM ZERO writes zeroes instead", self.name)
            } else {
                "its state is in V$ASM_DISK".to_owned()
            };
            return Err(AdminError::new(Code::NotSupported, text).hint(hint));
        }
        for member in unable {
            let text = format!("reclaim leaves it out: {}", self.why_not(&member));
            self.tell(Severity::Warning, Some(member.number), text);
        }
        Ok(able)
    }

    /// Why a disk cannot give space back.
    fn why_not(&self, member: &Member) -> &'static str {
        if !member.is_writable() {
            "it is not ONLINE"
        } else if self.could_reclaim(member, ReclaimMethod::Zero) {
            "it takes no discards"
        } else {
            "it is being dropped"
        }
    }

    /// Whether the present mount was by FORCE.
    pub(crate) fn was_forced(&self) -> bool {
        !self.reclaim.lock().trusts_free_space
    }

    fn trusts_free_space(&self) -> bool {
        self.reclaim.lock().trusts_free_space && !self.space().is_contested()
    }

    /// Space that seems free is free, unless the mount was by FORCE. A RECLAIM that an earlier
    /// mount left goes on.
    pub(crate) async fn resume_reclaim(self: &Arc<Self>, trusts_free_space: bool) {
        self.reclaim.lock().trusts_free_space = trusts_free_space;
        let text = match self.catalog.read(attributes::load_reclaim).await {
            Ok(None) => return,
            Ok(Some(text)) => text,
            Err(error) => {
                let text = format!("reclaim: it is not known whether one was running: {error}");
                return self.tell(Severity::Warning, None, text);
            }
        };
        let Some(position) = Position::of_text(&text) else {
            let text = "reclaim: its position is damaged; begin it again".to_owned();
            return self.tell(Severity::Warning, None, text);
        };
        if !self.trusts_free_space() {
            let text = "reclaim waits for a mount without FORCE".to_owned();
            return self.tell(Severity::Warning, None, text);
        }
        if self.set_reclaim(position) {
            self.start_reclaim("goes on");
        }
    }

    /// Shows a RECLAIM from now on. False: one is running.
    fn set_reclaim(&self, position: Position) -> bool {
        let now = self.world.monotonic();
        let (bytes, au) = (position.bytes, self.au_size);
        let progress = Progress::resume(now, bytes / au, position.work / au, bytes);
        let mut state = self.reclaim.lock();
        if state.is_running {
            return false;
        }
        *state = State {
            is_running: true,
            is_stopped: false,
            trusts_free_space: true,
            position,
            stored: now,
            progress: Some(progress),
            left_out: BTreeMap::new(),
        };
        true
    }

    fn start_reclaim(self: &Arc<Self>, how: &str) {
        let (method, left) = {
            let state = self.reclaim.lock();
            (state.position.method(), state.position.work.saturating_sub(state.position.bytes))
        };
        let text = format!("reclaim {how}, {method}: up to {} MiB", left >> 20);
        self.tell(Severity::Note, None, text);
        let group = Arc::clone(self);
        let run = async move {
            let end = group.reclaim_all().await.map_or_else(|end| end, |()| End::Done);
            group.end_reclaim(end).await;
        };
        self.world.spawn("reclaim", Box::pin(run));
    }

    /// Ends the running RECLAIM, if there is one: it ends when what is in flight has ended.
    ///
    /// # Errors
    /// If the catalog fails.
    pub async fn stop_reclaim(&self) -> Result<(), AdminError> {
        self.reclaim.lock().is_stopped = true;
        // From now on no position is stored.
        let forget = |connection: &Connection| attributes::store_reclaim(connection, None);
        Ok(self.catalog.release(true, forget).await.map(drop)?)
    }

    async fn reclaim_all(self: &Arc<Self>) -> Result<(), End> {
        let disks = self.reclaim.lock().position.disks.clone();
        let members = disks.into_iter().map(|(disk, from)| self.reclaim_disk(disk, from));
        future::join_all(members).await.into_iter().collect::<Result<(), End>>()?;
        self.reclaim_extents().await
    }

    /// Gives back the free AUs of a disk, from one on.
    async fn reclaim_disk(self: &Arc<Self>, disk: DiskNumber, mut from: Au) -> Result<(), End> {
        let mut work = self.paced_work();
        let mut failures = 0;
        loop {
            self.may_go_on().await?;
            let method = self.reclaim.lock().position.method();
            let Some(member) = self.members.get(&disk) else { return Ok(()) };
            if !self.could_reclaim(member, method) {
                self.leave_out(member, self.why_not(member));
                return Ok(());
            }
            let most = work.pace.units().min((self.space().free(disk) / OF_FREE).max(1));
            let began = self.world.monotonic();
            let (next, part) = match self.reclaim_units(member, (from, most), method).await {
                UnitsTurn::Ended { next, done } => (next, done),
                UnitsTurn::OtherInFlight => {
                    self.world.sleep(PAUSE).await;
                    continue;
                }
                UnitsTurn::NoneLeft => {
                    self.store_position().await;
                    return Ok(());
                }
            };
            if part.failed == 0 {
                (from, failures) = (next, 0);
                let au = next;
                self.note_reclaimed(part, |position| _ = position.disks.insert(disk, au));
                self.rest_after_reclaim(&mut work, (began, part.bytes)).await?;
            } else {
                failures += 1;
                if failures == FAILURES_MAX {
                    self.leave_out(member, "it fails, as V$ASM_ERROR says");
                    return Ok(());
                }
                self.world.sleep(FAILED_REST * (1 << failures)).await;
            }
        }
    }

    /// Gives back the pieces without data in extents, from one on.
    async fn reclaim_extents(self: &Arc<Self>) -> Result<(), End> {
        let mut work = self.paced_work();
        let mut from = self.reclaim.lock().position.extent;
        loop {
            self.may_go_on().await?;
            let (found, next) = self.holes_from(from).await?;
            for some in found.chunks(LOOKED_AT) {
                self.reclaim_holes(&mut work, some.to_vec()).await?;
            }
            let Some(next) = next else { return Ok(()) };
            from = next;
            self.note_reclaimed(Reclaimed::default(), |position| position.extent = next);
            self.store_position().await;
        }
    }

    async fn reclaim_holes(
        self: &Arc<Self>,
        work: &mut PacedWork,
        mut noted: Vec<(ExtentId, Bits)>,
    ) -> Result<(), End> {
        let (method, disks) = {
            let state = self.reclaim.lock();
            let is_in = |disk: &&DiskNumber| !state.left_out.contains_key(disk);
            let disks: BTreeSet<DiskNumber> =
                state.position.disks.keys().filter(is_in).copied().collect();
            (state.position.method(), disks)
        };
        for _ in 0..TRIES {
            let mut ready = self.look_at(noted).await?;
            let mut left: BTreeMap<ExtentId, Bits> = BTreeMap::new();
            while !ready.is_empty() {
                self.may_go_on().await?;
                let some = ready.drain(..ready.len().min(RUNS_AT_ONCE)).collect();
                let began = self.world.monotonic();
                let (part, again) = self.reclaim_pieces(some, method, &disks).await;
                for (extent, pieces) in again {
                    left.entry(extent).or_default().add_all(&pieces);
                }
                self.note_reclaimed(part, |_| {});
                self.rest_after_reclaim(work, (began, part.bytes)).await?;
            }
            if left.is_empty() {
                break;
            }
            // They are being written: then there is nothing to give back.
            noted = left.into_iter().collect();
            self.world.sleep(IN_USE_REST).await;
        }
        Ok(())
    }

    /// Waits while a dismount is tried.
    async fn may_go_on(&self) -> Result<(), End> {
        loop {
            if self.voters.is_closing() {
                return Err(End::Dismounted);
            }
            if self.reclaim.lock().is_stopped {
                return Err(End::Stopped);
            }
            if let Some(reason) = self.catalog.failure() {
                // It is unknown what the next mount finds free.
                return Err(End::Failed(FileError::CatalogStopped(reason)));
            }
            if !self.is_stopping() {
                return Ok(());
            }
            self.world.sleep(PAUSE).await;
        }
    }

    fn note_reclaimed(&self, part: Reclaimed, change: impl FnOnce(&mut Position)) {
        let now = self.world.monotonic();
        let mut state = self.reclaim.lock();
        state.position.bytes += part.bytes;
        change(&mut state.position);
        let so_far = state.position.bytes / self.au_size;
        if let Some(progress) = &mut state.progress {
            let count = so_far.saturating_sub(progress.so_far);
            progress.advance_by(now, count, part.bytes);
        }
    }

    fn paced_work(&self) -> PacedWork {
        PacedWork { pace: Pace::new(self.au_size, REQUEST_MAX, RESTS), used: self.disk_use() }
    }

    /// Rests after some work, and stores the position now and then.
    async fn rest_after_reclaim(
        self: &Arc<Self>,
        work: &mut PacedWork,
        (began, bytes): (Duration, u64),
    ) -> Result<(), End> {
        let now = self.world.monotonic();
        let used = self.disk_use();
        let power = {
            let state = self.reclaim.lock();
            state.position.power.max(1)
        };
        let round = Round { took: now.saturating_sub(began), bytes, is_used: used != work.used };
        let strain = self.throttle.strain_beside_discards();
        let mut left = work.pace.rest_after(round, strain, self.attributes().discard_pace) / power;
        let is_due = now.saturating_sub(self.reclaim.lock().stored) >= STORE_EVERY;
        if is_due {
            self.store_position().await;
        }
        let (mut last, mut unused) = (self.disk_use(), Duration::ZERO);
        while !left.is_zero() && unused < UNUSED {
            self.may_go_on().await?;
            let nap = left.min(PAUSE);
            self.world.sleep(nap).await;
            left -= nap;
            let used = self.disk_use();
            unused = if used == last { unused + nap } else { Duration::ZERO };
            last = used;
        }
        work.used = last;
        Ok(())
    }

    /// Stores the position. If that fails, the next mount goes on from an earlier one.
    async fn store_position(self: &Arc<Self>) {
        let text = {
            let mut state = self.reclaim.lock();
            state.stored = self.world.monotonic();
            state.position.text()
        };
        // Zeros before the position are durable.
        self.flush_zeroes().await;
        let group = Arc::clone(self);
        let store = move |connection: &Connection| {
            let is_stopped = group.reclaim.lock().is_stopped;
            if is_stopped { Ok(()) } else { attributes::store_reclaim(connection, Some(text)) }
        };
        let _ = self.catalog.release(false, store).await;
    }

    /// A disk that fails a flush is taken offline, and left out.
    async fn flush_zeroes(&self) {
        let method = self.reclaim.lock().position.method();
        if method == ReclaimMethod::Zero {
            let _ = self.flush_disks().await;
        }
    }

    fn leave_out(&self, member: &Member, why: &str) {
        self.tell(Severity::Warning, Some(member.number), format!("reclaim leaves it out: {why}"));
        self.reclaim.lock().left_out.insert(member.number, format!("{}: {why}", member.name()));
    }

    async fn end_reclaim(&self, end: End) {
        let is_over = matches!(end, End::Done);
        if is_over {
            self.flush_zeroes().await;
            let forget = |connection: &Connection| attributes::store_reclaim(connection, None);
            let _ = self.catalog.release(true, forget).await;
        }
        let (text, is_whole) = {
            let mut state = self.reclaim.lock();
            state.is_running = false;
            let mib = state.position.bytes >> 20;
            let error = match end {
                End::Dismounted => return,
                End::Done if state.left_out.is_empty() => None,
                End::Done => {
                    let names: Vec<String> = state.left_out.values().cloned().collect();
                    Some(format!("left out: {}", names.join("; ")))
                }
                End::Stopped => None,
                End::Failed(error) => Some(error.to_string()),
            };
            let how = if is_over { "ended" } else { "stopped" };
            let why = error.as_ref().map_or_else(String::new, |error| format!("; {error}"));
            if let Some(progress) = &mut state.progress {
                if is_over && error.is_none() {
                    // Space that got an owner meanwhile did not have to go back.
                    progress.work = progress.so_far;
                }
                progress.state =
                    if error.is_some() { OperationState::Errs } else { OperationState::Done };
                progress.error = error.as_ref().map(|error| format!("reclaim: {error}"));
            }
            (format!("reclaim {how}: {mib} MiB given back{why}"), error.is_none())
        };
        let severity = if is_whole { Severity::Note } else { Severity::Warning };
        self.tell(severity, None, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_stored() {
        let position = Position {
            is_zero: true,
            power: 7,
            bytes: 1 << 40,
            work: 1 << 41,
            disks: BTreeMap::from([(DiskNumber(0), Au(9)), (DiskNumber(65535), Au(u32::MAX))]),
            extent: 77,
        };
        assert_eq!(Position::of_text(&position.text()), Some(position));
        for bad in
            ["", "x", "0 1 2 3", "0 1 2 3 4 5", "0 1 2 3 4 65536 0", "0 1 2 3 4 0 4294967296"]
        {
            assert_eq!(Position::of_text(bad), None, "{bad}");
        }
    }
}
