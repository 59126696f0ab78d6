//! A mounted disk group, with all that an engine runs for it.
//!
//! Front ends use it through [`Session`](crate::files::session::Session); operators through the
//! methods here.
//!
//! The end of a mount (`Group::start`, step 9 of `mount.rs`):
//!
//!   1. Disks that go offline, and a catalog that is short of space, are reported to the group from
//!      here on (`set_callbacks`).
//!   2. Disks that have failed since the mount recorded its stale marks get theirs.
//!   3. Header copies are repaired, one after the other; then the engine's other metadata on the
//!      disks is compared (`check_own_metadata`).
//!   4. The tasks begin that are listed below (`spawn_tasks`).
//!   5. Operations that the last engine did not complete go on: recovery, the resync of SYNCING
//!      disks, a rebalance (`resume_operations`).
//!   6. Files that a taken-over mount may hold stay; other files without names are freed. Volumes
//!      that were half created or dropped are removed (`resume_files`).
//!   7. The alert log says that the group is mounted (`report_mount`).
//!
//! Tasks that run as long as the group is mounted:
//!
//! - the watchdog (`member.rs`) ticks, so that I/O can become overdue (R2); the mount starts it
//! - the caretaker closes idle regions, stores times, drops cached checksums
//! - freed space becomes reusable; that waits for nothing that the caretaker waits for
//! - blocks that a read found wrong on one mirror are rewritten
//! - the stamp is rewritten every minute
//! - the engine's own metadata is checked (`own_metadata.rs`)
//! - disks that get no reads are explored (`latency_probe.rs`)
//! - disks that fail too often, and those far slower than the others, go offline
//!   (`disk_health.rs`)
//! - free space is discarded (`discards.rs`), from the last step of the mount on

pub(crate) mod access;
pub mod check_files;
mod claim;
mod commands;
pub(crate) mod create;
pub(crate) mod drop_force;
pub(crate) mod mount;
pub mod offline;
pub mod rename_group;
pub(crate) mod volume;
mod what_if;

use crate::{
    admin::{AdminError, Code, NewGroup, Operation, Phases, Report, Scope, Selection, Survey},
    api::ConnectionId,
    catalog::{
        attributes::{self, Attributes},
        tables,
    },
    check::Upkeep,
    disk::{
        member::{Member, TICK_MS},
        originals::{Notes, forget_group},
    },
    error::FileError,
    event::Severity,
    extent::{
        own_metadata::{LOOK, MetadataLook},
        scope::ExtentScope,
    },
    files::file_system::{FileSystem, Mounted},
    group::mount::Purpose,
    limits::Limit,
    membership::{
        arrival::{self, MOUNT_WAIT},
        mount_decision::Decision,
    },
    planted::{self, Bug},
    words::counted,
    world::World,
};
use plinth_format::membership::{DiskState, Membership};
use std::{
    ops::Deref,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

pub use crate::{
    files::session::Session,
    movement::orders::{POWER_DEFAULT, POWER_MAX},
};

type Result<T> = std::result::Result<T, AdminError>;

/// How often and at what intervals a dismount looks again at regions that are still in use.
const CLOSING_TRIES: usize = 500;
const CLOSING_PAUSE: Duration = Duration::from_millis(10);

/// The interval of the caretaker's rounds.
const CARE: Duration = Duration::from_secs(1);
/// Rounds of the caretaker for which partially written blocks are kept at least.
const PART_BLOCKS_KEPT: u64 = 60;
/// The interval at which the stamp is rewritten.
const STAMP: Duration = Duration::from_secs(60);
/// Memory for checksums of extents that are not active, in bytes: with AUs of 4 MiB the
/// checksums of 64 GiB.
const SUMS_MAX: Limit = Limit::new(64 << 20, 24 << 10);
/// The time in which a dismount by force tries to be orderly, besides twice the disk timeout.
const PATIENCE: Duration = Duration::from_secs(2);

/// A mounted disk group. See the module's description.
pub struct Group {
    pub(crate) upkeep: Arc<Upkeep>,
    pub(crate) notes: Notes,
    /// The disk timeout in ticks, shared with the watchdog.
    pub(crate) deadline: Arc<AtomicU64>,
    weak: OnceLock<Weak<Self>>,
}

impl Deref for Group {
    type Target = Arc<Upkeep>;

    fn deref(&self) -> &Arc<Upkeep> {
        &self.upkeep
    }
}

impl Mounted for Group {
    fn file_system(&self) -> &Arc<FileSystem> {
        &self.file_system
    }
}

/// Sleeps without holding a reference to the group, which would keep it alive. `None` when the
/// group is gone.
async fn sleep(group: &Weak<Group>, duration: Duration) -> Option<Arc<Group>> {
    let world = Arc::clone(&group.upgrade()?.world);
    world.sleep(duration).await;
    group.upgrade().filter(|group| !group.voters.is_closing())
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Group {}", self.name)
    }
}

impl Group {
    /// Surveys every disk that discovery shows, without mounting a group.
    ///
    /// # Errors
    /// If the process that looks for disks has ended: a disk that it did not report may be there.
    pub async fn survey(world: &Arc<dyn World>) -> Result<Vec<Survey>> {
        crate::disk::identify::survey(world).await
    }

    /// Whether the group could be mounted by the records on the discovered disks. Called before a
    /// dismount that lets another engine mount it. Nothing is claimed, and nothing written.
    ///
    /// # Errors
    /// The reason why it could not be mounted.
    pub async fn rehearse(world: &Arc<dyn World>, name: &str) -> Result<()> {
        arrival::rehearse(world, name).await
    }

    /// Waits for missing disks of the group, if it could be mounted without them; but no longer
    /// than its attribute says.
    pub async fn await_disks(world: &Arc<dyn World>, name: &str) {
        arrival::await_disks(world, name).await;
    }

    /// Creates a group and leaves it dismounted.
    ///
    /// # Errors
    /// If the request or a disk is wrong; then nothing was taken, unless a disk failed half way.
    pub async fn create(world: &Arc<dyn World>, new: NewGroup) -> Result<()> {
        let mut scratch = Attributes::default();
        for (name, value) in &new.attributes {
            if name != "sector_size" {
                scratch.set(name, value)?;
            }
        }
        crate::group::create::create(world, new).await
    }

    /// Mounts a group. `force`: even if fewer voters are discovered than it takes.
    ///
    /// # Errors
    /// The reason why it cannot be mounted, and the remedy.
    pub async fn mount(world: Arc<dyn World>, name: &str, force: bool) -> Result<Arc<Self>> {
        Self::resume(world, name, force, &[]).await
    }

    /// As [`Self::mount`], to take over mounts that a former engine served: the files that their
    /// kernels may hold stay, and requests that they may repeat are known.
    ///
    /// # Errors
    /// As [`Self::mount`].
    pub async fn resume(
        world: Arc<dyn World>,
        name: &str,
        force: bool,
        connections: &[ConnectionId],
    ) -> Result<Arc<Self>> {
        crate::group::mount::mount(world, name, force, Purpose::Serve, connections).await
    }

    /// A mount that was to be taken over is not: files that only it may hold are released.
    ///
    /// # Errors
    /// The catalog's.
    pub async fn give_up_mount(&self, connection: ConnectionId) -> Result<()> {
        Ok(self.files.end_mount(connection).await?)
    }

    pub(crate) fn new(upkeep: Arc<Upkeep>, deadline: Arc<AtomicU64>) -> Arc<Self> {
        Arc::new(Self { upkeep, notes: Notes::default(), deadline, weak: OnceLock::new() })
    }

    /// The last steps of a mount before it serves. `rebalance`: the power of the interrupted one.
    ///
    /// # Errors
    /// If the stale marks of disks cannot be recorded.
    pub(crate) async fn start(
        self: &Arc<Self>,
        decision: &Decision,
        purpose: Purpose,
        rebalance: Option<(u32, Phases)>,
        connections: &[ConnectionId],
    ) -> std::result::Result<(), FileError> {
        let _ = self.weak.set(Arc::downgrade(self));
        self.set_callbacks();
        // A disk that has failed since the mount recorded its stale marks was not reported to any
        // task.
        self.mark_stale(&self.offline_disks(), &self.activity.regions()).await?;
        self.check_own_metadata(decision).await;
        self.spawn_tasks(purpose);
        self.resume_operations(purpose, rebalance).await?;
        self.resume_files(purpose, connections).await?;
        self.report_mount();
        Ok(())
    }

    /// Step 1: the callbacks of voters and catalog.
    fn set_callbacks(&self) {
        let weak = Arc::downgrade(&self.data);
        self.voters.on_offline(Box::new(move |disks| {
            if let Some(data) = weak.upgrade() {
                let disks = disks.to_vec();
                let world = Arc::clone(&data.world);
                world.spawn("offline", Box::pin(async move { data.went_offline(&disks).await }));
            }
        }));
        let weak = Arc::downgrade(&self.data);
        self.catalog.when_tight(Box::new(move || {
            let data = weak.upgrade();
            Box::pin(async move {
                match data {
                    Some(data) => data.make_room_for_catalog().await,
                    None => false,
                }
            })
        }));
    }

    /// Step 3: the headers, and the engine's other metadata on the disks.
    async fn check_own_metadata(&self, decision: &Decision) {
        for verdict in &decision.disks {
            if let Some(member) = self.members.get(&verdict.number)
                && member.is_writable()
            {
                self.renew_header(member).await;
            }
        }
        self.look_at_own_metadata(&ExtentScope::All, MetadataLook::AT_MOUNT).await;
        self.voters.looked_at_mount();
    }

    /// Step 4: the tasks that run as long as the group is mounted.
    fn spawn_tasks(self: &Arc<Self>, purpose: Purpose) {
        self.spawn_while_mounted("caretaker", move |group| async move {
            loop {
                let group = sleep(&group, CARE).await?;
                if !group.is_stopping() {
                    group.take_care().await;
                }
                if !group.is_stopping() && purpose == Purpose::Serve {
                    group.tend_catalog_mirrors();
                    group.tend_absent();
                    group.note_originals();
                }
            }
        });
        self.spawn_while_mounted("space", |group| async move {
            loop {
                let group = sleep(&group, CARE).await?;
                if !group.is_stopping() {
                    group.free_space().await;
                }
            }
        });
        self.spawn_while_mounted("repair", |group| async move {
            loop {
                let group = sleep(&group, Duration::from_millis(TICK_MS)).await?;
                if !group.is_stopping() {
                    group.make_repairs().await;
                }
            }
        });
        self.spawn_while_mounted("stamp", |group| async move {
            let mut last = group.upgrade()?.world.monotonic();
            loop {
                let group = sleep(&group, CARE).await?;
                let now = group.world.monotonic();
                if !group.is_stopping() {
                    group.voters.catch_up().await;
                }
                if now.saturating_sub(last) >= STAMP && !group.is_stopping() {
                    last = now;
                    group.voters.restamp(false).await;
                }
            }
        });
        self.spawn_while_mounted("metadata", |group| async move {
            let mut last = group.upgrade()?.world.monotonic();
            loop {
                let group = sleep(&group, CARE).await?;
                let now = group.world.monotonic();
                if now.saturating_sub(last) >= LOOK && !group.is_stopping() {
                    last = now;
                    group.look_at_own_metadata(&ExtentScope::All, MetadataLook::PASSING).await;
                }
            }
        });
        self.spawn_latency_prober();
        if purpose == Purpose::Serve {
            self.spawn_health();
        }
    }

    /// Step 5: operations that the last engine did not complete.
    async fn resume_operations(
        &self,
        purpose: Purpose,
        rebalance: Option<(u32, Phases)>,
    ) -> std::result::Result<(), FileError> {
        if self.suspects.left() > 0 {
            let data = Arc::clone(&self.data);
            self.world.spawn("recovery", Box::pin(data.recover_all()));
        }
        let syncing = |member: &&Arc<Member>| {
            purpose == Purpose::Serve && member.state() == DiskState::Syncing
        };
        for member in self.members.values().filter(syncing) {
            let text = format!("disk {}: its resync goes on", member.name());
            self.tell(Severity::Note, Some(member.number), text);
            self.spawn_resync(member, member.losses());
        }
        if purpose == Purpose::Serve {
            // The former engine may have ended before it had built one.
            self.tend_catalog_mirrors();
            let has_goal = self.has_goal().await?;
            let default = (POWER_DEFAULT, Phases::default());
            if let Some((power, phases)) = rebalance.or(has_goal.then_some(default)) {
                self.resume_rebalance(power, phases);
            }
        }
        Ok(())
    }

    /// Step 6: files that kernels may hold, files without names, and volumes.
    async fn resume_files(
        &self,
        purpose: Purpose,
        connections: &[ConnectionId],
    ) -> std::result::Result<(), FileError> {
        self.files.resume(connections).await?;
        if let Err(error) = self.files.reap_orphans().await {
            self.tell(
                Severity::Warning,
                None,
                format!("files without names are not freed: {error}"),
            );
        }
        self.files.set_creation_mask(self.attributes().creation_mask());
        if purpose == Purpose::Serve {
            self.tidy_volumes().await;
            self.use_whole_units();
            self.note_originals();
        }
        Ok(())
    }

    /// Step 7.
    fn report_mount(&self) {
        let offline: Vec<_> = self
            .members
            .values()
            .filter(|member| member.state() == DiskState::Offline)
            .map(|member| member.name())
            .collect();
        let rest = if offline.is_empty() {
            String::new()
        } else {
            format!("; offline: {}", offline.join(", "))
        };
        self.tell(
            Severity::Note,
            None,
            format!("disk group mounted, {}{rest}", counted(self.members.len(), "disk")),
        );
        self.report_delays();
    }

    /// As [`Data::spawn_while_mounted`], for tasks that need the whole group.
    fn spawn_while_mounted<F>(self: &Arc<Self>, name: &str, task: impl FnOnce(Weak<Self>) -> F)
    where
        F: Future<Output = Option<()>> + Send + 'static,
    {
        let task = task(Arc::downgrade(self));
        self.world.spawn(
            name,
            Box::pin(async move {
                let _ = task.await;
            }),
        );
    }

    /// Notes which devices the group uses, if that may have changed.
    fn note_originals(&self) {
        let text = self.notes.note(&*self.world, self.id, &self.voters.current(), &self.members);
        if let Some(text) = text {
            self.tell(Severity::Warning, None, text);
        }
    }

    async fn take_care(&self) {
        let ticks = self.ticks.fetch_add(1, Ordering::Relaxed);
        // Not on a disk that does not answer yet.
        self.repairs.try_again(|extent| !self.mirrors(extent).any(|(_, member)| member.is_hung()));
        if let Err(error) = self.close_idle(false).await {
            self.tell(Severity::Warning, None, format!("idle regions stay open: {error}"));
        }
        if let Err(error) = self.resolve_uncertain().await {
            self.tell(
                Severity::Warning,
                None,
                format!("what a failed flush left in doubt stays so: {error}"),
            );
        }
        if let Err(error) = self.files.store_times(&self.catalog).await {
            self.tell(Severity::Warning, None, format!("file times are not stored: {error}"));
        }
        self.drop_cached_sums();
        crate::sync::buffer::shed();
        self.extents.trim();
        if ticks.is_multiple_of(PART_BLOCKS_KEPT) {
            self.partial_blocks.trim();
        }
        self.drop_overdue();
        // If the catalog cannot answer, it reports that elsewhere.
        let _ = self.remind().await;
        self.file_stats.tend();
    }

    /// Frees space, and has it discarded. Apart from the other care, which may wait for room in a
    /// thin pool that is full: this is what makes room there.
    async fn free_space(&self) {
        if self.has_pending() {
            // Space that a busy group frees is made durable by its own syncs; an idle group needs a
            // sync.
            let result = self.reclaim(true).await;
            if let Err(error) = result {
                self.tell(
                    Severity::Warning,
                    None,
                    format!("freed space is not reusable yet: {error}"),
                );
            }
        }
        self.tend_discards();
    }

    /// Drops the checksums of extents that were not used recently, if there are too many.
    fn drop_cached_sums(&self) {
        let size = self.blocks_per_au() * 4;
        if self.extents.count() * size <= SUMS_MAX.get() {
            return;
        }
        let mut cached: Vec<_> = self
            .extents
            .all()
            .into_iter()
            .filter(|extent| extent.has_sums())
            .filter(|extent| {
                planted::has(Bug::DirtySumsDropped)
                    || !extent.is_dirty() && !self.activity.has(extent.id)
            })
            .map(|extent| (extent.last_used.load(Ordering::Relaxed), extent))
            .collect();
        let excess = (cached.len() * size).saturating_sub(SUMS_MAX.get()) / size;
        if excess == 0 {
            return;
        }
        cached.sort_by_key(|(last_used, extent)| (*last_used, extent.id));
        for (_, extent) in cached.into_iter().take(excess) {
            // A writer holds its range from before it reads the checksums until they are set.
            if let Some(_range) = extent.ranges.try_hold(0..self.blocks_per_au(), true) {
                extent.drop_sums(&extent.state(), || self.activity.has(extent.id));
            }
        }
    }

    /// Calls `tell` with the reason when the catalog has stopped for good: nothing is made durable
    /// any more, and only a mount recovers. It is called once, on the catalog's thread, and must
    /// not wait.
    pub fn when_stopped(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        struct Told<F>(std::sync::Once, F);
        impl<F: Fn(&str) + Send + Sync> crate::catalog::Listener for Told<F> {
            fn durable(&self, _: crate::catalog::CommitNumber) {}
            fn failed(&self, reason: &str) {
                self.0.call_once(|| (self.1)(reason));
            }
        }
        let told = Arc::new(Told(std::sync::Once::new(), tell));
        self.catalog.listen(Arc::clone(&told) as Arc<dyn crate::catalog::Listener>);
        // It may have stopped before the listener was added.
        if let Some(reason) = self.catalog.failure() {
            crate::catalog::Listener::failed(&*told, &reason);
        }
    }

    /// Why the catalog has stopped, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<str>> {
        self.catalog.failure()
    }

    /// Stores the data for the next mount when the process ends without a dismount. Takes two
    /// seconds at most.
    pub async fn last_words(&self) {
        let words = std::pin::pin!(self.distrust_pending());
        let _ = futures::future::select(words, self.world.sleep(PATIENCE)).await;
    }

    /// For tasks that outlive a call.
    pub(crate) fn myself(&self) -> Option<Arc<Self>> {
        self.weak.get().and_then(Weak::upgrade)
    }

    /// Ends the use of the group in good order and releases the disks. `force`: without waiting for
    /// I/O that may not end; the next mount recovers.
    ///
    /// # Errors
    /// If something cannot be made durable: then the group stays mounted, unless `force`.
    pub async fn dismount(&self, force: bool) -> Result<()> {
        let orderly =
            if force { self.stop_in_time().await } else { self.stop_orderly().await.map_err(Some) };
        if let Err(Some(error)) = &orderly
            && !force
        {
            self.stopping.store(false, Ordering::Release);
            self.activity.unseal();
            if let Some(group) = self.myself() {
                group.resume_resyncs();
                group.rebalance_again();
            }
            return Err(AdminError::new(
                error.code(),
                format!("disk group {} is not dismounted: {error}", self.name),
            )
            .hint(format!(
                "ALTER DISKGROUP {} DISMOUNT FORCE; the next mount recovers",
                self.name
            )));
        }
        self.stopping.store(true, Ordering::Release);
        self.voters.close();
        self.activity.wake_all();
        for member in self.members.values() {
            member.abandon();
            member.release();
        }
        let how = if orderly.is_ok() { "" } else { " by force; the next mount recovers" };
        self.tell(Severity::Note, None, format!("disk group dismounted{how}"));
        Ok(())
    }

    /// Does most of the work of a dismount while the group serves: everything acknowledged durable,
    /// regions closed, the catalog's log in the database.
    ///
    /// # Errors
    /// If something cannot be made durable: writes that are uncertain after a failed flush could
    /// not be reported after a dismount.
    pub async fn flush_for_handover(&self) -> Result<()> {
        let flushed = async {
            self.sync_everything().await?;
            self.close_idle(true).await?;
            self.catalog.checkpoint().await.map(|_| ())
        };
        flushed.await.map_err(|error: FileError| error.into())
    }

    /// As [`Self::stop_orderly`], but `Err(None)` when that takes longer than a disk may be silent.
    async fn stop_in_time(&self) -> std::result::Result<(), Option<FileError>> {
        let Some(group) = self.myself().filter(|_| !self.voters.is_waiting()) else {
            return Err(None);
        };
        // A task of its own: interrupted half way it would leave regions closing for ever.
        let (sender, receiver) = futures::channel::oneshot::channel();
        let orderly = async move {
            let _ = sender.send(group.stop_orderly().await);
        };
        self.world.spawn("dismount", Box::pin(orderly));
        let patience =
            Duration::from_millis(self.attributes().disk_timeout_ticks * TICK_MS * 2) + PATIENCE;
        match futures::future::select(receiver, self.world.sleep(patience)).await {
            futures::future::Either::Left((Ok(result), _)) => result.map_err(Some),
            _ => Err(None),
        }
    }

    /// Closes all regions; from then on nothing is written. False: some stay listed, and the next
    /// mount recovers them.
    async fn close_all(&self) -> std::result::Result<bool, FileError> {
        for _ in 0..CLOSING_TRIES {
            while self.close_idle(true).await? {}
            if self.activity.seal() {
                return Ok(true);
            }
            // Recovery and resync have stopped; regions that were not compared stay listed. A
            // repair or a last write ends soon.
            if self.activity.regions().iter().all(|region| self.is_suspect_region(*region)) {
                break;
            }
            self.world.sleep(CLOSING_PAUSE).await;
        }
        Ok(false)
    }

    async fn stop_orderly(&self) -> std::result::Result<(), FileError> {
        let uncertain_pieces = self.sync_at_end().await?;
        self.stopping.store(true, Ordering::Release);
        let clean = self.close_all().await?;
        // Regions written since the first look keep their marks.
        let uncertain_pieces = uncertain_pieces.max(self.sync_at_end().await?);
        if uncertain_pieces > 0 {
            let files = if uncertain_pieces == 1 { "file was" } else { "files were" };
            let text = format!(
                "{uncertain_pieces} {files} written before a flush failed and not synced since: some of it may be lost"
            );
            self.tell(Severity::Alarm, None, text);
        }
        if self.is_all_discarded() {
            self.catalog
                .release(true, |connection| attributes::store_all_discarded(connection, true))
                .await?;
        }
        self.catalog.close().await?;
        // The next mount has only this.
        self.look_at_own_metadata(&ExtentScope::All, MetadataLook::PASSING).await;
        if clean {
            let changed = self
                .voters
                .change(|next| {
                    next.mounted = false;
                    Ok(true)
                })
                .await;
            changed.map_err(|refusal| FileError::Refused {
                disk: self.name.clone(),
                reason: refusal.to_string(),
                why: "the end of the mount could not be recorded".to_owned(),
            })?;
            self.voters.restamp(true).await;
        }
        Ok(())
    }

    /// Frees the disks of a mounted group and dismounts it. Refused unless `contents` when it holds
    /// files.
    ///
    /// # Errors
    /// If it holds files, or a disk cannot be written.
    pub async fn drop_group(&self, contents: bool) -> Result<()> {
        let (files, directories) =
            self.catalog.read(|connection| Ok(tables::entry::count(connection)?)).await?;
        if files + directories > 0 && !contents {
            let several = |count: i64, one: &str, many: &str| match count {
                0 => None,
                1 => Some(format!("1 {one}")),
                _ => Some(format!("{count} {many}")),
            };
            let held =
                [several(files, "file", "files"), several(directories, "directory", "directories")];
            let held = held.into_iter().flatten().collect::<Vec<_>>().join(" and ");
            let text = format!("disk group {} holds {held}", self.name);
            return Err(AdminError::new(Code::Busy, text)
                .hint(format!("DROP DISKGROUP {} INCLUDING CONTENTS drops them too", self.name)));
        }
        // A group that is dropped by mistake can come back whole (`kfed undrop`): it ends as by a
        // dismount, as far as the disks allow.
        let _ = self.stop_in_time().await;
        self.stopping.store(true, Ordering::Release);
        let _ = self.catalog.close().await;
        let _nobody_compares = self.renaming.lock().await;
        self.retire_headers().await.map_err(|error| AdminError::new(Code::Io, error))?;
        self.voters.close();
        self.members.values().for_each(|member| member.release());
        forget_group(&*self.world, self.id);
        self.tell(Severity::Note, None, "disk group dropped".to_owned());
        Ok(())
    }

    /// Marks the headers of all disks as FORMER: they can be taken again.
    async fn retire_headers(&self) -> std::result::Result<(), String> {
        for member in self.members.values() {
            let Some(disk) = member.disk() else { continue };
            self.retire(member, &*disk).await?;
        }
        Ok(())
    }

    /// Starts the resync of the disks and returns; `operations` shows it.
    ///
    /// # Errors
    /// Which disk cannot come back, and why; the others are started.
    pub async fn online(self: &Arc<Self>, selection: Selection) -> Result<()> {
        self.bring_online(&selection).await
    }

    /// Checks everything: catalog, space, mirrors, checksums.
    ///
    /// # Errors
    /// If the check itself cannot go on.
    pub async fn check(&self, repair: bool) -> Result<Report> {
        self.check_scope(&Scope::All, repair).await
    }

    /// Checks a part of it, or all.
    ///
    /// # Errors
    /// If there is no such part, or the check itself cannot go on.
    pub async fn check_scope(&self, scope: &Scope, repair: bool) -> Result<Report> {
        let checked = self.check_quietly(scope, repair).await;
        self.tell_check(scope, &checked);
        checked
    }

    /// # Errors
    /// If there is no such attribute, or it cannot have this value.
    pub async fn set_attribute(&self, name: &str, value: &str) -> Result<()> {
        let name = name.to_ascii_lowercase();
        let _one_at_a_time = match planted::has(Bug::SetSideBySide) {
            true => None,
            false => Some(self.setting.lock().await),
        };
        let mut attributes = self.attributes();
        attributes.set(&name, value)?;
        let (stored, text) = (name.clone(), value.to_owned());
        self.catalog
            .write(true, move |connection| {
                attributes::check_raised(connection, &stored, &text)?;
                attributes::store(connection, &stored, &text)
            })
            .await?;
        let before = std::mem::replace(&mut *self.attributes.lock(), attributes);
        if attributes.discard && !before.discard {
            self.sweep();
        }
        self.record_mount_wait(attributes.mount_wait).await?;
        self.deadline.store(attributes.disk_timeout_ticks, Ordering::Relaxed);
        self.throttle.promise(attributes.latency_target);
        self.world.set_poll_time(attributes.poll_time.unwrap_or_default());
        self.files.set_creation_mask(attributes.creation_mask());
        let value = attributes::shown(&name, value);
        self.tell(Severity::Note, None, format!("attribute {name} is now {value}"));
        Ok(())
    }

    /// The time for which a start waits is in the membership too: the catalog cannot be read then.
    async fn record_mount_wait(&self, seconds: u64) -> Result<()> {
        let seconds = u8::try_from(seconds).ok();
        let record = move |next: &mut Membership| {
            let before = std::mem::replace(&mut next.mount_wait, seconds);
            Ok(before.map_or(MOUNT_WAIT, u64::from) != seconds.map_or(MOUNT_WAIT, u64::from))
        };
        self.voters.change(record).await.map_err(|refusal| AdminError::new(Code::Io, refusal))?;
        Ok(())
    }

    /// From now on only administrators may use it.
    pub fn restrict(&self) {
        self.restricted.store(true, Ordering::Release);
        self.tell(
            Severity::Note,
            None,
            "mounted RESTRICTED: no directory can be mounted until the next mount".to_owned(),
        );
    }

    #[must_use]
    pub fn operations(&self) -> Vec<Operation> {
        self.list_operations()
    }

    /// Whether reads are compared with their checksums: only for measuring the cost of that.
    #[doc(hidden)]
    pub fn take_reads_unchecked(&self, unchecked: bool) {
        self.unchecked.store(unchecked, Ordering::Relaxed);
    }
}

#[cfg(any(test, feature = "testing"))]
impl Group {
    /// Does what a kill of the process does to its own tasks: they stop, nothing is written.
    pub fn abandon(&self) {
        self.stopping.store(true, Ordering::Release);
        self.voters.close();
    }

    /// Blocks that reads found not to match their checksum, since the group was mounted.
    #[must_use]
    pub fn mismatches(&self) -> u64 {
        self.members.values().map(|member| member.counters.mismatches.load(Ordering::Relaxed)).sum()
    }

    /// Records of its own, and checksum blocks, that the engine found overwritten since the group
    /// was mounted.
    #[must_use]
    pub fn metadata_repaired(&self) -> u64 {
        self.members
            .values()
            .map(|member| member.counters.metadata_repaired.load(Ordering::Relaxed))
            .sum()
    }

    /// Places of checksum blocks that the engine knows, of open regions: names of disks, offsets
    /// and bytes.
    #[must_use]
    pub fn known_checksum_blocks(&self) -> Vec<(String, u64, usize)> {
        let regions = self.activity.regions().into_iter();
        let extents =
            regions.flat_map(|region| self.extents.in_run(region.first, region.count.into()));
        let known =
            extents.filter(|extent| extent.sums().as_ref().is_some_and(|sums| sums.has_zones()));
        let zones = known.flat_map(|extent| {
            let zone = |(mirror, member): (crate::extent::Mirror, &Arc<Member>)| {
                let (offset, length) = member.layout().sums_of(mirror.au);
                (member.name().to_string(), offset, length)
            };
            self.mirrors(&extent).map(zone).collect::<Vec<_>>()
        });
        zones.collect()
    }

    /// The names of the voters.
    #[must_use]
    pub fn voting(&self) -> Vec<String> {
        self.voters.current().voters().map(|disk| disk.name.clone()).collect()
    }

    /// The disks' names and states.
    #[must_use]
    pub fn members(&self) -> Vec<(String, plinth_format::membership::DiskState)> {
        self.members.values().map(|member| (member.name().to_string(), member.state())).collect()
    }
}
