//! The catalog's storage on the group's disks (R6).
//!
//! The membership lists, for each of the catalog's two files and each mirror, which AUs of which
//! disk hold which AUs of the file. Reading and writing need nothing else: no allocation, no
//! activity-log entry, no commit.
//!
//! When a disk fails, its mirror is lost with it: the membership that takes the disk OFFLINE
//! removes the mirror from the list, and is recorded before the write returns. `mirrors.rs`
//! describes how mirrors are built again, `places.rs` where, and `damage.rs` which one is right if
//! they differ.
//!
//! A failed flush on a disk of the catalog, by whatever caller, may have lost the catalog's writes
//! there since its own last flush. Such a disk goes OFFLINE, or the catalog's next flush fails even
//! if the disk would carry it out (R9).

mod damage;
mod mirrors;
mod places;

pub(crate) use places::{next_disk, runs_of};

use crate::{
    catalog::store::{CatalogFile, FileName, Store, StoreError},
    disk::{counters::IoClient, disk_io::IoResult, member::Member, members::Members},
    membership::voters::{Refusal, Voters},
    planted::{self, Bug},
    space::{InHand, Space},
    sync::{
        buffer::{Buffer, Slice},
        lock::{AsyncMutex, Mutex},
    },
    world::{World, wait_for},
};
use plinth_format::{
    Au, DiskNumber,
    membership::{DiskState, Membership},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The catalog's files on disks. See the module's description.
pub struct DiskStore {
    world: Arc<dyn World>,
    members: Arc<Members>,
    voters: Arc<Voters>,
    space: Arc<Mutex<Space>>,
    /// Whether `space` has the AUs of files as well: until then nothing is allocated from it.
    is_space_known: AtomicBool,
    au_size: u64,
    /// The AUs that are marked used because the catalog has them.
    owned: Mutex<BTreeSet<(DiskNumber, Au)>>,
    /// Sentences about pages that a read found damaged on one mirror and rewrote, until they are
    /// reported.
    mended: Mutex<Vec<String>>,
    /// Sentences about pages that are damaged on every mirror, each reported once: SQLite's own
    /// errors name no place.
    lost: Mutex<BTreeMap<u64, String>>,
    /// The disks with writes that are not flushed. For each, how often it had gone OFFLINE, and how
    /// often a flush had failed on it, when the first of them began.
    unflushed: Mutex<BTreeMap<DiskNumber, (u64, u64)>>,
    /// A flush failed on a disk that stayed in use.
    flush_failed: AtomicBool,
    retired: Mutex<Retired>,
    /// Held while the mirrors are written or flushed. Threads that read may mend pages
    /// (`damage.rs`): their repair must not overwrite a newer write of the catalog's own threads,
    /// and these must not rely on such a thread's flush.
    turn: AsyncMutex<()>,
}

/// The copies of a range that the mirrors returned to a read.
struct Looked {
    /// The newest good copy, if there is one.
    right: Option<Buffer>,
    /// The mirrors that returned other bytes, or could not be read.
    wrong: Vec<u8>,
    /// Disks that did not answer, and could not be spared.
    silent: Vec<Arc<Member>>,
    /// The number of mirrors, and how many of them could not be read.
    tried: usize,
    unread: usize,
}

/// AUs that the catalog does not use any more, or could not use: those of replaced mirrors, and of
/// mirrors that could not be built. They become free when no I/O on them is in flight, and not
/// while their disk hangs: a write that was given up may still land there (R2).
#[derive(Debug, Default)]
struct Retired {
    readers: usize,
    aus: Vec<(DiskNumber, Au)>,
    /// Set as long as there are any.
    in_hand: Option<InHand>,
}

/// A read or a write of the catalog.
struct Reading<'a>(&'a DiskStore);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.retired.lock().readers -= 1;
        self.0.free_retired();
    }
}

/// A part of a request on one mirror.
struct MirrorPart {
    member: Arc<Member>,
    offset: u64,
    /// Bytes of the request.
    range: Range<usize>,
}

/// The AUs that belong to the catalog according to a membership.
#[must_use]
pub fn units(membership: &Membership) -> BTreeSet<(DiskNumber, Au)> {
    let runs = membership.catalog.iter();
    runs.flat_map(|run| run.aus().map(|au| (run.disk, au))).collect()
}

/// The error after the disks were released.
fn let_go() -> StoreError {
    StoreError::Stopped("dismounted by force".to_owned())
}

impl DiskStore {
    /// The store of the membership in force, whose AUs are marked used in `space`.
    #[must_use]
    pub fn new(
        world: Arc<dyn World>,
        members: Arc<Members>,
        voters: Arc<Voters>,
        space: Arc<Mutex<Space>>,
        au_size: u64,
    ) -> Self {
        let owned = Mutex::new(units(&voters.current()));
        Self {
            world,
            members,
            voters,
            space,
            is_space_known: AtomicBool::new(false),
            flush_failed: AtomicBool::new(false),
            au_size,
            owned,
            mended: Mutex::default(),
            lost: Mutex::default(),
            unflushed: Mutex::default(),
            retired: Mutex::default(),
            turn: AsyncMutex::default(),
        }
    }

    /// From now on the catalog may grow: the AUs of files are marked used in the space that it
    /// shares with them.
    pub fn note_space_known(&self) {
        self.is_space_known.store(true, Ordering::Release);
    }

    /// Frees retired AUs, if no read is in progress. A read that begins from now on uses the
    /// membership that does not list them.
    fn free_retired(&self) {
        let mut retired = self.retired.lock();
        if retired.readers > 0 || retired.aus.is_empty() {
            return;
        }
        let hangs = |disk: &DiskNumber| {
            self.members
                .get(disk)
                .is_some_and(|member| member.is_hung() && !planted::has(Bug::HungCatalogFreed))
        };
        let (stay, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut retired.aus).into_iter().partition(|(disk, _)| hangs(disk));
        let mut space = self.space.lock();
        gone.into_iter().for_each(|(disk, au)| space.cancel(disk, au));
        retired.aus = stay;
        if retired.aus.is_empty() {
            retired.in_hand = None;
        }
    }

    fn retire(&self, disk: DiskNumber, aus: &[Au]) {
        let mut retired = self.retired.lock();
        retired.in_hand.get_or_insert_with(|| self.space.lock().take_in_hand());
        retired.aus.extend(aus.iter().map(|au| (disk, *au)));
    }

    fn begin_reading(&self) -> Reading<'_> {
        self.retired.lock().readers += 1;
        Reading(self)
    }

    /// The parts of a range of a file on one mirror. `None` if the mirror does not have the whole
    /// range.
    fn parts(
        &self,
        file: CatalogFile,
        mirror: u8,
        offset: u64,
        length: usize,
    ) -> Option<Vec<MirrorPart>> {
        let membership = self.voters.current();
        let mut parts = Vec::new();
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let unit = u32::try_from(at / self.au_size).ok()?;
            let run = membership.catalog.iter().find(|run| {
                run.file == file
                    && run.mirror == mirror
                    && (run.at..run.at + run.count).contains(&unit)
            })?;
            let member = self.members.get(&run.disk)?;
            let inside = at - u64::from(run.at) * self.au_size;
            let rest = u64::from(run.count) * self.au_size - inside;
            let take = usize::try_from(rest).unwrap_or(usize::MAX).min(length - done);
            parts.push(MirrorPart {
                member: Arc::clone(member),
                offset: member.layout().au_offset(run.first) + inside,
                range: done..done + take,
            });
            done += take;
        }
        Some(parts)
    }

    fn failed(
        file: CatalogFile,
        doing: &'static str,
        offset: u64,
        length: usize,
        reason: String,
    ) -> StoreError {
        StoreError::Failed { file: FileName(file), doing, offset, length, reason }
    }

    /// Whether a flush has failed on a disk that stayed in use: other writes to it may be lost,
    /// too.
    pub fn has_failed_to_flush(&self) -> bool {
        self.flush_failed.load(Ordering::Relaxed)
    }

    async fn read_parts(
        &self,
        parts: &[MirrorPart],
        length: usize,
    ) -> Result<Buffer, (Arc<Member>, IoResult)> {
        let mut whole = Buffer::zeroed(length);
        for part in parts {
            match part
                .member
                .start_read(part.offset, part.range.len())
                .of(IoClient::Catalog)
                .result()
                .await
            {
                IoResult::Ok(Some(buffer)) if parts.len() == 1 => return Ok(buffer),
                IoResult::Ok(Some(buffer)) => whole[part.range.clone()].copy_from_slice(&buffer),
                bad => return Err((Arc::clone(&part.member), bad)),
            }
        }
        Ok(whole)
    }

    /// Reads from every mirror, and expels disks that do not answer.
    fn look(
        &self,
        file: CatalogFile,
        offset: u64,
        length: usize,
        age: &dyn Fn(&[u8]) -> Option<u64>,
    ) -> Looked {
        let mirrors: Vec<_> = self
            .mirrors(file)
            .into_iter()
            .filter_map(|mirror| Some((mirror, self.parts(file, mirror, offset, length)?)))
            .collect();
        let reads = mirrors.iter().map(|(_, parts)| self.read_parts(parts, length));
        let copies = wait_for(&*self.world, futures::future::join_all(reads));
        let mut looked = Looked {
            right: None,
            wrong: Vec::new(),
            silent: Vec::new(),
            tried: mirrors.len(),
            unread: 0,
        };
        let mut good: Vec<(u64, u8, Buffer)> = Vec::new();
        for ((mirror, _), copy) in mirrors.iter().zip(copies) {
            match copy {
                Ok(buffer) => match age(&buffer) {
                    Some(age) => good.push((age, *mirror, buffer)),
                    None => looked.wrong.push(*mirror),
                },
                Err((member, ended @ IoResult::Overdue)) => {
                    looked.unread += 1;
                    let reason = ended.reason();
                    let expelled =
                        wait_for(&*self.world, self.voters.expel(member.number, &reason, false));
                    looked.silent.extend(expelled.is_err().then_some(member));
                }
                Err(_) => {
                    looked.unread += 1;
                    looked.wrong.push(*mirror);
                }
            }
        }
        let newest = good.iter().map(|(age, ..)| *age).max();
        let (newer, older): (Vec<_>, Vec<_>) =
            good.into_iter().partition(|(age, ..)| Some(*age) == newest);
        looked.wrong.extend(older.iter().map(|(_, mirror, _)| *mirror));
        looked.right = newer.into_iter().next().map(|(.., right)| right);
        looked
    }

    /// Writes to mirrors; a mirror whose write fails loses its disk. `Err` if no current mirror has
    /// the write. The caller must hold `turn`.
    async fn write_to(
        &self,
        file: CatalogFile,
        mirrors: &[u8],
        runs: &[(u64, Slice)],
    ) -> Result<(), StoreError> {
        loop {
            // The AUs of a mirror must not be freed while a write to them is in flight.
            let _reading =
                (!planted::has(Bug::CatalogWriteUncounted)).then(|| self.begin_reading());
            let mut jobs = Vec::new();
            for mirror in mirrors {
                for (offset, data) in runs {
                    let Some(parts) = self.parts(file, *mirror, *offset, data.len()) else {
                        continue;
                    };
                    for part in parts {
                        jobs.push((*mirror, part.member, part.offset, data.part(part.range)));
                    }
                }
            }
            jobs.iter().for_each(|(_, member, ..)| self.begin_unflushed(member));
            let flights = jobs.iter().map(|(_, member, offset, data)| {
                member.start_write(*offset, data.clone()).of(IoClient::Catalog).result()
            });
            let ended = futures::future::join_all(flights).await;
            let mut failures: BTreeMap<DiskNumber, IoResult> = BTreeMap::new();
            for ((_, member, ..), one) in jobs.iter().zip(ended) {
                if !one.is_ok() {
                    failures.insert(member.number, one);
                }
            }
            if jobs.is_empty() {
                return Err(Self::failed(file, "writing", 0, 0, "no mirror is left".to_owned()));
            }
            if failures.is_empty() || planted::has(Bug::FailedCatalogMirrorKept) {
                return Ok(());
            }
            if !self.drop_failed(file, "writing", &failures).await? {
                return Ok(());
            }
        }
    }

    /// Records that a disk is about to be written. Writes from before it last went OFFLINE do not
    /// count any more.
    fn begin_unflushed(&self, member: &Member) {
        let mut unflushed = self.unflushed.lock();
        let since = unflushed.entry(member.number).or_insert((member.losses(), member.broken()));
        if since.0 != member.losses() && !planted::has(Bug::EarlierLifeCompared) {
            *since = (member.losses(), member.broken());
        }
    }

    /// Takes failed disks OFFLINE. True if a disk that does not answer, or has no room, could not
    /// be spared: then the I/O is to be tried again.
    async fn drop_failed(
        &self,
        file: CatalogFile,
        doing: &'static str,
        failures: &BTreeMap<DiskNumber, IoResult>,
    ) -> Result<bool, StoreError> {
        let mut again = false;
        for (disk, ended) in failures {
            let is_silent = matches!(ended, IoResult::Overdue);
            loop {
                if again
                    && is_silent
                    && self.members.get(disk).is_none_or(|member| !member.is_hung())
                {
                    // It has answered while another disk was waited for.
                    break;
                }
                match self.voters.expel(*disk, &format!("catalog: {}", ended.reason()), false).await
                {
                    Ok(()) => break,
                    Err(Refusal::Closing) => return Err(let_go()),
                    Err(_) if is_silent => {
                        // R2: no disk is left to do without, so this waits until the old I/O has
                        // ended, on each such disk: no new I/O is started before.
                        again = true;
                        let Some(member) = self.members.get(disk) else { break };
                        member.answers_soon(|| self.voters.is_closing()).await;
                        if self.voters.is_closing() {
                            return Err(let_go());
                        }
                    }
                    Err(_) if ended.lacks_room() => {
                        // The catalog never fails for that: it waits until there is room.
                        again = true;
                        self.world.sleep(Duration::from_secs(1)).await;
                        break;
                    }
                    Err(refusal) => {
                        return Err(Self::failed(
                            file,
                            doing,
                            0,
                            0,
                            format!("{}; {refusal}", ended.reason()),
                        ));
                    }
                }
            }
        }
        Ok(again)
    }

    /// Flushes every disk that has AUs of the catalog. The caller must hold `turn`.
    async fn flush_all(&self) -> Result<(), StoreError> {
        let membership = self.voters.current();
        let disks: BTreeSet<_> = membership.catalog.iter().map(|run| run.disk).collect();
        self.flush_members(CatalogFile::Wal, &disks).await
    }

    async fn flush_members(
        &self,
        file: CatalogFile,
        disks: &BTreeSet<DiskNumber>,
    ) -> Result<(), StoreError> {
        loop {
            let members: Vec<_> = disks
                .iter()
                .filter_map(|disk| self.members.get(disk))
                .filter(|member| member.state() != DiskState::Offline)
                .collect();
            let mut failures = BTreeMap::new();
            let flushes =
                futures::future::join_all(members.iter().map(|member| member.flush())).await;
            for (member, ended) in members.iter().zip(flushes) {
                if !ended.is_ok() {
                    failures.insert(member.number, ended);
                }
            }
            if !failures.is_empty() {
                let dropped = self.drop_failed(file, "flushing", &failures).await;
                self.flush_failed.fetch_or(dropped.is_err(), Ordering::Relaxed);
                dropped?;
                continue;
            }
            // This flush does not repair a failed flush of another caller meanwhile.
            let broken = {
                let unflushed = self.unflushed.lock();
                let is_broken = |member: &Member| {
                    let before = unflushed.get(&member.number);
                    before.is_some_and(|(losses, broken)| {
                        member.losses() == *losses && member.broken() > *broken
                    })
                };
                members.iter().find(|member| is_broken(member)).map(|member| member.number)
            };
            let Some(broken) = broken.filter(|_| !planted::has(Bug::OthersFlush)) else {
                self.unflushed.lock().clear();
                return Ok(());
            };
            let reason = "a flush failed";
            match self.voters.expel(broken, &format!("catalog: {reason}"), false).await {
                Ok(()) => {}
                Err(Refusal::Closing) => return Err(let_go()),
                Err(refusal) => {
                    self.flush_failed.store(true, Ordering::Relaxed);
                    return Err(Self::failed(
                        file,
                        "flushing",
                        0,
                        0,
                        format!("{reason}; {refusal}"),
                    ));
                }
            }
        }
    }

    /// The mirrors that can be read, each with the disk of its start.
    fn current_mirrors(&self, file: CatalogFile) -> BTreeMap<u8, DiskNumber> {
        let membership = self.voters.current();
        let mut mirrors = BTreeMap::new();
        for run in membership.catalog.iter().filter(|run| run.file == file) {
            mirrors.entry(run.mirror).or_insert(run.disk);
        }
        mirrors
    }
}

impl Store for DiskStore {
    fn capacity(&self, file: CatalogFile) -> u64 {
        u64::from(self.mirror_units(file)) * self.au_size
    }

    fn unit(&self) -> u64 {
        self.au_size
    }

    fn mirrors(&self, file: CatalogFile) -> Vec<u8> {
        self.current_mirrors(file).into_keys().collect()
    }

    fn epoch(&self) -> u64 {
        // It grows with every mount.
        self.voters.current().generation
    }

    fn read(
        &self,
        file: CatalogFile,
        offset: u64,
        length: usize,
        age: &dyn Fn(&[u8]) -> Option<u64>,
    ) -> Result<Buffer, StoreError> {
        let _reading = self.begin_reading();
        loop {
            let Looked { right, wrong, silent, tried, unread } =
                self.look(file, offset, length, age);
            if let Some(right) = right {
                return Ok(if wrong.is_empty() {
                    right
                } else {
                    self.mend(file, &wrong, offset, age, right)
                });
            }
            if silent.is_empty() || self.voters.is_closing() {
                if file == CatalogFile::Database && tried > 0 && unread == 0 {
                    self.tell_lost(&wrong, offset);
                }
                if self.voters.is_closing() {
                    return Err(let_go());
                }
                return Err(StoreError::NoGoodMirror {
                    file: FileName(file),
                    offset,
                    length,
                    tried,
                });
            }
            // R2: no other mirror is left, so this waits until one of the disks answers.
            wait_for(&*self.world, async {
                while silent.iter().all(|member| member.is_hung()) && !self.voters.is_closing() {
                    self.world.sleep(Duration::from_millis(50)).await;
                }
            });
        }
    }

    fn read_mirror(
        &self,
        file: CatalogFile,
        mirror: u8,
        offset: u64,
        length: usize,
    ) -> Result<Buffer, StoreError> {
        let _reading = self.begin_reading();
        let parts = self.parts(file, mirror, offset, length).ok_or_else(|| {
            Self::failed(file, "reading", offset, length, "the mirror does not reach so far".into())
        })?;
        wait_for(&*self.world, self.read_parts(&parts, length))
            .map_err(|(_, ended)| Self::failed(file, "reading", offset, length, ended.reason()))
    }

    fn read_many(&self, file: CatalogFile, places: &[(u8, u64, usize)]) -> Vec<Option<Buffer>> {
        let _reading = self.begin_reading();
        let reads = places.iter().map(|(mirror, offset, length)| async {
            let parts = self.parts(file, *mirror, *offset, *length)?;
            self.read_parts(&parts, *length).await.ok()
        });
        wait_for(&*self.world, futures::future::join_all(reads))
    }

    fn write(&self, file: CatalogFile, offset: u64, data: Slice) -> Result<(), StoreError> {
        self.write_many(file, vec![(offset, data)])
    }

    fn write_many(&self, file: CatalogFile, runs: Vec<(u64, Slice)>) -> Result<(), StoreError> {
        wait_for(&*self.world, async {
            let _turn = self.turn.lock().await;
            self.write_to(file, &self.mirrors(file), &runs).await
        })
    }

    fn write_mirror(
        &self,
        file: CatalogFile,
        mirror: u8,
        offset: u64,
        data: Slice,
    ) -> Result<(), StoreError> {
        wait_for(&*self.world, async {
            let _turn = self.turn.lock().await;
            match self.write_to(file, &[mirror], &[(offset, data)]).await {
                Err(StoreError::Failed { .. }) if !self.mirrors(file).contains(&mirror) => Ok(()),
                other => other,
            }
        })
    }

    fn flush(&self) -> Result<(), StoreError> {
        wait_for(&*self.world, async {
            let _turn = self.turn.lock().await;
            self.flush_all().await
        })
    }

    fn grow(&self, file: CatalogFile, capacity: u64) -> Result<(), StoreError> {
        wait_for(&*self.world, self.grow_to(file, capacity))
    }

    fn shrink(&self, file: CatalogFile, capacity: u64) -> Result<(), StoreError> {
        wait_for(&*self.world, self.shrink_to(file, capacity))
    }
}
