//! Files and their names: the part of a group that front ends see.
//!
//! The truth is in the catalog. In memory are the files in use and the names looked up lately, so
//! that the calls databases make all the time (`stat`, opening a file) need no query.
//!
//! Changes are jobs of the catalog's writer thread ([`names`], [`xattrs`]). A job reads what it
//! needs, checks, writes rows, and as its last act updates the caches. So the order of the caches
//! is the order of commits; memory may be ahead of the disks by the commit in progress, and the
//! caller is answered after it.
//!
//! A query sees a snapshot that may be older than the caches. What it finds may
//! enter a cache only if no change since then could have touched it:
//!
//! ```text
//!   changed  the commit that last changed a directory, or a file: for running jobs, the next one
//!   barrier  the youngest such commit of anything that left a cache
//!   insert   only if the snapshot began when `committed` was at least both
//! ```
//!
//! A file lives while it has a name or is remembered by a front end:
//!
//! ```text
//!   named --last name goes--> orphan (links 0, row stays) --last reference goes--> released
//!                           \--engine dies--> orphan --no mount holds it (orphans.rs)--> released
//! ```
//!
//! Invariants:
//!
//!   1. Kind, links, owner and mode in memory change on the writer's thread only, and a size that
//!      does not grow. Times may be newer in memory than in the catalog, and a size larger
//!      ([`sizes`]); such a file is dirty and stays in memory.
//!   2. A file is one [`File`]: while it is in use, it is not loaded a second time.
//!   3. A row of a file is deleted only after `Releasing::release` has returned that nothing of it
//!      is left.

pub(crate) mod allocation;
pub(crate) mod clients;
pub(crate) mod file_io;
pub(crate) mod file_read;
pub(crate) mod file_stats;
pub mod file_system;
pub mod session;
pub(crate) mod volumes;

pub mod aliases;
mod names;
mod orphans;
pub mod paths;
mod preformat;
pub mod reply_cache;
pub mod sizes;
pub mod statements;
mod templates;
#[cfg(test)]
mod tests;
mod xattrs;

use self::sizes::Sizes;
use crate::{
    api::{Attributes, ConnectionId, Invalidation, Kind, Node, Watcher, types::FileType},
    catalog::{
        Catalog, CommitNumber,
        tables::{self, file::TimesAndSize},
    },
    error::FileError,
    extent::layout::{FileData, SlotOwner},
    files::file_stats::PlaceOf,
    limits::Limit,
    space::{
        coming::{Parting, Release},
        mirror_sets::MirrorCount,
    },
    sync::lock::{Mutex, MutexGuard},
    world::{Timestamp, World},
};
use arc_swap::{ArcSwap, ArcSwapOption};
use rusqlite::Connection;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::{Deref, DerefMut},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

/// For how long after a file's last name went a front end is expected to give up its references, if
/// no program has it open: the kernel does so in a request of its own, after a `close`.
const PARTING: Duration = Duration::from_secs(1);
/// Unused files that are kept in memory.
const FILES_MAX: Limit = Limit::new(50_000, 4);
/// Places of files that are found without a lock: more than are in use at a time, mostly.
const RECENT: usize = 1024;
/// Names kept in memory.
const NAMES_MAX: Limit = Limit::new(100_000, 8);
/// An access time is brought up to date when it is this old, or older than the last change (as
/// `relatime`).
const ACCESS_AGE: Timestamp = 24 * 3600 * 1_000_000_000;

type Result<T> = std::result::Result<T, FileError>;

/// One file in memory.
#[derive(Debug)]
pub struct File {
    pub node: Node,
    pub generation: u64,
    pub kind: Kind,
    /// Where its bytes are; the data path's.
    pub data: FileData,
    /// Where its requests are counted.
    pub place: PlaceOf,
    attributes: Mutex<Attributes>,
    /// Of the attributes, what every read or write wants to know.
    size: AtomicU64,
    mode: AtomicU32,
    /// Up to where its size survives a kill: bytes behind that are in a commit in progress, at
    /// most.
    sure: AtomicU64,
    /// How often its size was set, not only raised.
    cuts: AtomicU64,
    /// When its bytes last changed, if the attributes do not have it yet; else [`UNTOUCHED`].
    touched: AtomicI64,
    /// Times in memory are newer than the catalog's, or the size is larger.
    dirty: AtomicBool,
    /// Where its size is kept until the catalog has it.
    kept: sizes::KeptSize,
    /// The commit that last changed it, or the one in progress.
    last_commit: AtomicU64,
    /// All extended attributes, once one was read.
    xattrs: Mutex<Option<Xattrs>>,
}

impl SlotOwner for File {
    fn node(&self) -> Node {
        self.node
    }

    fn data(&self) -> &FileData {
        &self.data
    }
}

type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// No time.
const UNTOUCHED: Timestamp = Timestamp::MIN;

/// The right to change the attributes of a file; size and mode are published when it is dropped.
pub struct AttributesGuard<'a> {
    attributes: MutexGuard<'a, Attributes>,
    file: &'a File,
}

impl Deref for AttributesGuard<'_> {
    type Target = Attributes;

    fn deref(&self) -> &Attributes {
        &self.attributes
    }
}

impl DerefMut for AttributesGuard<'_> {
    fn deref_mut(&mut self) -> &mut Attributes {
        &mut self.attributes
    }
}

impl Drop for AttributesGuard<'_> {
    fn drop(&mut self) {
        self.file.size.store(self.attributes.size, Ordering::Release);
        self.file.mode.store(self.attributes.mode, Ordering::Release);
    }
}

impl File {
    fn new(attributes: Attributes, commit: CommitNumber) -> Arc<Self> {
        Arc::new(Self {
            node: attributes.node,
            generation: attributes.generation,
            kind: attributes.kind,
            data: FileData::default(),
            place: PlaceOf::default(),
            size: AtomicU64::new(attributes.size),
            mode: AtomicU32::new(attributes.mode),
            sure: AtomicU64::new(attributes.size),
            cuts: AtomicU64::new(0),
            touched: AtomicI64::new(UNTOUCHED),
            attributes: Mutex::new(attributes),
            dirty: AtomicBool::new(false),
            kept: sizes::KeptSize::default(),
            last_commit: AtomicU64::new(commit.0),
            xattrs: Mutex::default(),
        })
    }

    /// The attributes that `stat` returns. Everything but times and a size that grows is changed on
    /// the writer's thread only.
    pub fn attributes(&self) -> AttributesGuard<'_> {
        let mut attributes = self.attributes.lock();
        let touched = self.touched.swap(UNTOUCHED, Ordering::SeqCst);
        if touched != UNTOUCHED {
            (attributes.modified, attributes.changed) = (touched, touched);
        }
        AttributesGuard { attributes, file: self }
    }

    /// Bytes, without a lock.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    /// Bytes that it has whatever ends the engine, without a lock.
    #[must_use]
    pub(crate) fn sure(&self) -> u64 {
        self.sure.load(Ordering::Acquire)
    }

    /// A commit with this size is on the disks. The file must not be truncated meanwhile.
    pub(crate) fn record_durable_size(&self, size: u64) {
        self.sure.fetch_max(size, Ordering::AcqRel);
    }

    /// Inside a job that sets its size: it may be cut.
    pub(crate) fn record_truncation(&self, size: u64) {
        self.sure.fetch_min(size, Ordering::AcqRel);
        self.cuts.fetch_add(1, Ordering::AcqRel);
    }

    /// Permission bits, without a lock.
    #[must_use]
    pub fn mode(&self) -> u32 {
        self.mode.load(Ordering::Acquire)
    }

    /// Whether anyone may execute it.
    pub fn is_program(&self) -> bool {
        self.mode() & 0o111 != 0
    }

    /// Its bytes changed: sets the times in memory, without a lock.
    pub fn touch(&self, now: Timestamp) {
        self.touched.store(now, Ordering::SeqCst);
        // In this order: taking the times first marks them as not dirty.
        self.dirty.store(true, Ordering::SeqCst);
    }

    /// Its bytes were read: sets the access time in memory, when that is due.
    pub fn note_access(&self, now: Timestamp) {
        let mut attributes = self.attributes();
        let last = attributes.accessed;
        if last <= attributes.modified
            || last <= attributes.changed
            || now.saturating_sub(last) >= ACCESS_AGE
        {
            attributes.accessed = now;
            self.dirty.store(true, Ordering::Release);
        }
    }

    /// Mirrors of each of its extents. They never change.
    #[must_use]
    pub(crate) fn mirrors(&self) -> MirrorCount {
        MirrorCount::from_column(self.attributes().mirrors)
    }

    /// Whether space that it is given is written with zeros (`preformat.rs`).
    pub(crate) fn is_preformatted(&self) -> bool {
        self.attributes().preformatted
    }

    /// The type that bytes written at its beginning suggest, if it has none yet.
    #[must_use]
    pub(crate) fn recognised(&self, bytes: &[u8]) -> Option<FileType> {
        let unknown = self.attributes().file_type == Some(FileType::Other);
        unknown.then(|| FileType::of_bytes(bytes)).flatten()
    }

    /// Whether there are times that the catalog does not have yet.
    #[must_use]
    pub fn has_times(&self) -> bool {
        self.dirty.load(Ordering::Acquire)
    }

    /// Whether it may be longer than in the catalog.
    #[must_use]
    pub fn has_grown(&self) -> bool {
        self.kept.is_some()
    }

    /// Inside a job that becomes part of `commit`: takes the times accessed, modified, changed, and
    /// the size, if the catalog does not have them yet, for the job to store. A caller that finds
    /// nothing to take finds the commit that has it.
    pub fn take_times(&self, commit: u64) -> Option<(Timestamp, Timestamp, Timestamp, u64)> {
        if self.has_times() || self.has_grown() {
            self.committed(CommitNumber(commit));
        }
        self.take_newer()
    }

    fn take_newer(&self) -> Option<(Timestamp, Timestamp, Timestamp, u64)> {
        let taken = self.dirty.swap(false, Ordering::SeqCst) || self.has_grown();
        let attributes = self.attributes();
        taken.then_some((
            attributes.accessed,
            attributes.modified,
            attributes.changed,
            attributes.size,
        ))
    }

    /// A commit changed it.
    pub fn committed(&self, commit: CommitNumber) {
        self.last_commit.fetch_max(commit.0, Ordering::AcqRel);
    }

    /// The commit that last changed it.
    #[must_use]
    pub fn last_commit(&self) -> CommitNumber {
        CommitNumber(self.last_commit.load(Ordering::Acquire))
    }
}

/// The part of a file's data that a job freed.
pub struct Released {
    /// Nothing is left; otherwise the file is an orphan until another job releases the rest.
    pub done: bool,
    /// Called when the job is committed.
    pub then: Box<dyn FnOnce(CommitNumber) + Send>,
}

/// The data path, as the files use it.
pub trait Releasing: Send + Sync {
    /// Deletes a file's extents, or a good part of them, inside a job. `file`: if it is in memory,
    /// where it may be read or written.
    ///
    /// # Errors
    /// If the catalog fails.
    fn release(
        &self,
        connection: &Connection,
        node: Node,
        file: Option<Arc<File>>,
    ) -> Result<Released>;

    /// Whether the file may leave memory: no marks that only memory knows. Must not call [`Files`].
    fn is_idle(&self, file: &File) -> bool;

    /// Jobs that release something are going to run: held until the last of them is committed and
    /// noted.
    fn begin_release(&self) -> Option<Release> {
        None
    }
}

/// A front end's place among the watchers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin(u64);

#[derive(Default)]
struct Directory {
    names: BTreeMap<Box<[u8]>, Option<(Node, Kind)>>,
    changed: u64,
}

#[derive(Default)]
struct Cache {
    files: BTreeMap<Node, Arc<File>>,
    /// Where the search for files that may leave goes on.
    hand: Node,
    directories: BTreeMap<Node, Directory>,
    /// Oldest first.
    loaded: VecDeque<Node>,
    name_count: usize,
    barrier: u64,
    references: BTreeMap<Node, u64>,
    orphans: BTreeSet<Node>,
    /// When a file that a front end may hold last lost its last name, by the monotonic clock.
    parted: Option<Duration>,
    /// Mounts that an engine before this one served.
    heirs: BTreeMap<ConnectionId, orphans::Heir>,
    /// Orphans that a task releases, and whether there is one.
    to_reap: BTreeSet<Node>,
    is_reaping: bool,
}

/// The files of a mounted group. See the module's description.
pub struct Files {
    world: Arc<dyn World>,
    catalog: Arc<Catalog>,
    data: Arc<dyn Releasing>,
    sizes: Arc<Sizes>,
    cache: Mutex<Cache>,
    watchers: ArcSwap<BTreeMap<Origin, Arc<dyn Watcher>>>,
    /// Some of the files of the cache, each in the place of its number, to be found without a lock.
    /// Filled and emptied with the cache.
    recent: Box<[ArcSwapOption<File>]>,
    replies: reply_cache::Replies,
    origins: AtomicU64,
    /// Permission bits that new regular files do not get.
    creation_mask: AtomicU32,
    this: Weak<Self>,
}

/// The size of a file that a job stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    size: u64,
    /// How often it had been cut by then.
    cuts: u64,
}

/// Inside a job that is part of `commit`: stores a file's times and its size, if they are newer in
/// memory than in the catalog. The size then, for [`Sizes::let_go`] when the job is committed.
pub(crate) fn store_times_of(
    connection: &Connection,
    file: &File,
    commit: u64,
) -> rusqlite::Result<Option<Stored>> {
    let Some((accessed, modified, changed, size)) = file.take_times(commit) else {
        return Ok(None);
    };
    let new = TimesAndSize { accessed, modified, changed, size };
    tables::file::set_times_and_size(connection, file.node, &new)?;
    Ok(Some(Stored { size, cuts: file.cuts.load(Ordering::Acquire) }))
}

/// Makes the root directory of a new catalog, empty, mode 0755, root's.
///
/// # Errors
/// If the catalog fails.
pub async fn make_root(catalog: &Catalog, now: Timestamp) -> Result<()> {
    let job = move |connection: &Connection| {
        Ok(tables::file::insert_root(connection, names::DIRECTORY_SIZE, now)?)
    };
    catalog.write(true, job).await.map(|_| ())
}

impl Files {
    /// The files of an open catalog.
    ///
    /// # Errors
    /// If the catalog fails.
    pub async fn open(
        world: Arc<dyn World>,
        catalog: Arc<Catalog>,
        data: Arc<dyn Releasing>,
        sizes: Arc<Sizes>,
    ) -> Result<Arc<Self>> {
        let orphans = catalog.read(|connection| Ok(tables::file::orphans(connection)?)).await?;
        Ok(Arc::new_cyclic(|this| Self {
            world,
            catalog,
            data,
            sizes,
            cache: Mutex::new(Cache { orphans, ..Cache::default() }),
            watchers: ArcSwap::default(),
            recent: (0..RECENT).map(|_| ArcSwapOption::empty()).collect(),
            replies: reply_cache::Replies::default(),
            origins: AtomicU64::new(1),
            creation_mask: AtomicU32::new(0),
            this: this.clone(),
        }))
    }

    /// A new front end; its watcher is called for changes by others.
    #[must_use]
    pub fn attach(&self, watcher: Option<Arc<dyn Watcher>>) -> Origin {
        let origin = Origin(self.origins.fetch_add(1, Ordering::Relaxed));
        if let Some(watcher) = watcher {
            self.change_watchers(|watchers| _ = watchers.insert(origin, Arc::clone(&watcher)));
        }
        origin
    }

    /// A front end is gone.
    pub fn detach(&self, origin: Origin) {
        self.change_watchers(|watchers| _ = watchers.remove(&origin));
    }

    fn change_watchers(&self, change: impl Fn(&mut BTreeMap<Origin, Arc<dyn Watcher>>)) {
        self.watchers.rcu(|watchers| {
            let mut watchers = BTreeMap::clone(watchers);
            change(&mut watchers);
            watchers
        });
    }

    /// Notifies all watchers but the one of `origin`.
    pub fn invalidate(&self, origin: Origin, what: &Invalidation) {
        let watchers = self.watchers.load();
        watchers
            .iter()
            .filter(|(other, _)| **other != origin)
            .for_each(|(_, watcher)| watcher.invalidate(what));
    }

    fn strong(&self) -> Arc<Self> {
        self.this.upgrade().expect("whoever calls holds it")
    }

    /// The commit of which the running job of the writer's thread becomes a part.
    pub(crate) fn next_commit(&self) -> u64 {
        self.catalog.committed().0 + 1
    }

    /// The file, from memory or from the catalog.
    ///
    /// # Errors
    /// `Stale` if there is none.
    pub async fn get(&self, node: Node) -> Result<Arc<File>> {
        if let Some(file) = self.place_of(node).load().as_ref().filter(|file| file.node == node) {
            return Ok(Arc::clone(file));
        }
        // In memory of its own (`file_read.rs`).
        Box::pin(self.get_anyway(node)).await
    }

    async fn get_anyway(&self, node: Node) -> Result<Arc<File>> {
        loop {
            if let Some(file) = self.find(node) {
                return Ok(file);
            }
            let seen = self.catalog.committed();
            let found = self
                .catalog
                .read(move |connection| Ok(tables::file::load(connection, node)?))
                .await?;
            {
                let mut cache = self.cache.lock();
                if let Some(file) = cache.files.get(&node) {
                    return Ok(Arc::clone(file));
                }
                let Some(found) = found else { return Err(FileError::Stale(node)) };
                if seen.0 >= cache.barrier {
                    let file = File::new(found, seen);
                    self.insert(&mut cache, Arc::clone(&file));
                    return Ok(file);
                }
            }
            // A change of it is in a commit in progress, perhaps for as long as a disk may take. A
            // read does not fail because the catalog cannot grow.
            self.catalog.release(false, |_| Ok(())).await?;
        }
    }

    fn place_of(&self, node: Node) -> &ArcSwapOption<File> {
        &self.recent[node as usize % RECENT]
    }

    /// A file of the cache. The next lookup finds it without a lock.
    fn find(&self, node: Node) -> Option<Arc<File>> {
        let cache = self.cache.lock();
        let file = Arc::clone(cache.files.get(&node)?);
        self.place_of(node).store(Some(Arc::clone(&file)));
        drop(cache);
        Some(file)
    }

    /// A file is not found without the cache any more. With the cache locked, so that it stays so.
    fn hide(&self, _cache: &Cache, node: Node) {
        let place = self.place_of(node);
        if place.load().as_ref().is_some_and(|file| file.node == node) {
            place.store(None);
        }
    }

    fn insert(&self, cache: &mut Cache, file: Arc<File>) {
        let node = file.node;
        self.hide(cache, node);
        cache.files.insert(node, file);
        if cache.files.len() > FILES_MAX.get() {
            self.shrink(cache, node);
        }
    }

    /// Drops a few files that are not in use.
    fn shrink(&self, cache: &mut Cache, keep: Node) {
        let committed = self.catalog.committed();
        let next = |hand: Node| (std::ops::Bound::Excluded(hand), std::ops::Bound::Unbounded);
        for _ in 0..8 {
            let found = cache
                .files
                .range(next(cache.hand))
                .next()
                .or_else(|| cache.files.first_key_value());
            let Some((node, file)) = found else { return };
            let (node, last) = (*node, file.last_commit());
            // First, so that this reference is not counted, and no other can be taken during the
            // check.
            self.hide(cache, node);
            let idle = Arc::strong_count(file) == 1
                && node != keep
                && !cache.orphans.contains(&node)
                && last <= committed
                && !file.dirty.load(Ordering::Acquire)
                && !file.has_grown()
                && self.data.is_idle(file);
            cache.hand = node;
            if idle {
                cache.barrier = cache.barrier.max(last.0);
                cache.files.remove(&node);
            }
        }
    }

    /// Drops a few unused files from memory, as the engine does when there are too many.
    #[cfg(test)]
    pub(crate) fn let_some_go(&self) {
        self.shrink(&mut self.cache.lock(), 0);
    }

    /// All files in memory.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<File>> {
        self.cache.lock().files.values().cloned().collect()
    }

    /// Whether memory knows nothing of a file's data that a sync would have to do.
    #[must_use]
    pub fn is_idle(&self, file: &File) -> bool {
        self.data.is_idle(file)
    }

    /// The kept sizes of files that grow.
    pub(crate) fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// Stores times and sizes that are newer in memory than in the catalog.
    ///
    /// # Errors
    /// If the catalog fails; times are lost then, with the catalog.
    pub async fn store_times(&self, catalog: &Catalog) -> Result<()> {
        let dirty: Vec<_> =
            self.all().into_iter().filter(|file| file.has_times() || file.has_grown()).collect();
        for some in dirty.chunks(200) {
            self.store_with(catalog, false, some.to_vec(), |_| Ok(())).await?;
        }
        Ok(())
    }

    /// The same for some files, in the job that does something `else_too`; `durably` or not.
    ///
    /// # Errors
    /// If the catalog fails.
    pub async fn store_with(
        &self,
        catalog: &Catalog,
        durably: bool,
        some: Vec<Arc<File>>,
        else_too: impl FnOnce(&Connection) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let files = self.strong();
        let job = move |connection: &Connection| {
            else_too(connection)?;
            let store = |file: Arc<File>| {
                let stored = store_times_of(connection, &file, files.next_commit())?;
                Ok(stored.map(|stored| (file, stored)))
            };
            some.into_iter().filter_map(|file| store(file).transpose()).collect::<Result<Vec<_>>>()
        };
        // Acknowledged changes need no more room in the catalog than was made for them.
        let (stored, _) = catalog.release(durably, job).await?;
        stored.iter().for_each(|(file, stored)| self.sizes.let_go(file, *stored));
        Ok(())
    }

    /// A front end holds `count` more references.
    pub fn remember(&self, node: Node, count: u64) {
        *self.cache.lock().references.entry(node).or_default() += count;
    }

    /// A front end gives references back. A file without names and references is released.
    pub async fn forget(&self, node: Node, count: u64) {
        let (orphan, _release) = {
            let mut cache = self.cache.lock();
            let left = cache.references.get(&node).copied().unwrap_or(0).saturating_sub(count);
            if left == 0 {
                cache.references.remove(&node);
            } else {
                cache.references.insert(node, left);
            }
            let orphan = left == 0 && cache.orphans.contains(&node);
            (orphan, if orphan { self.data.begin_release() } else { None })
        };
        if orphan {
            // After a failure here the next mount finds it again.
            let _ = self.let_go(node).await;
        }
    }

    /// Releases every file that has no name and no possible holder: those that an engine left, of
    /// mounts that are not taken over.
    ///
    /// # Errors
    /// If the catalog fails.
    pub async fn reap_orphans(&self) -> Result<usize> {
        let orphans: Vec<Node> = self.cache.lock().orphans.iter().copied().collect();
        for node in &orphans {
            self.reap(*node).await?;
        }
        Ok(orphans.len())
    }

    /// Releases an orphan, job by job, unless a front end holds it.
    async fn reap(&self, node: Node) -> Result<()> {
        let _release = self.data.begin_release();
        loop {
            let files = self.strong();
            let job = move |connection: &Connection| {
                let held = {
                    let cache = files.cache.lock();
                    cache.may_be_held(node) || !cache.orphans.contains(&node)
                };
                if held { Ok(None) } else { files.release_in(connection, node).map(Some) }
            };
            let (released, commit) = self.catalog.release(false, job).await?;
            let Some(released) = released else { return Ok(()) };
            (released.then)(commit);
            if released.done {
                return Ok(());
            }
        }
    }

    /// Inside a job that ends here: releases what a file has, and deletes its row when nothing is
    /// left.
    fn release_in(&self, connection: &Connection, node: Node) -> Result<Released> {
        let file = self.cache.lock().files.get(&node).cloned();
        let mut released = self.data.release(connection, node, file.clone())?;
        if released.done {
            // Before the commit the file may still have to be as long as it was.
            let (then, sizes) = (released.then, Arc::clone(&self.sizes));
            released.then = Box::new(move |commit| {
                then(commit);
                file.iter().for_each(|file| sizes.forget(file));
            });
            tables::xattr::delete_all(connection, node)?;
            tables::file::delete(connection, node)?;
            let mut cache = self.cache.lock();
            self.hide(&cache, node);
            cache.files.remove(&node);
            cache.orphans.remove(&node);
            cache.forget_holders(node);
            if let Some(gone) = cache.directories.remove(&node) {
                cache.name_count -= gone.names.len();
            }
            cache.barrier = cache.barrier.max(self.next_commit());
        }
        Ok(released)
    }
}

impl Cache {
    /// What is known of a name: `None` nothing, `Some(None)` that there is none.
    fn name(&self, parent: Node, name: &[u8]) -> Option<Option<(Node, Kind)>> {
        self.directories.get(&parent)?.names.get(name).copied()
    }

    /// Remembers what a snapshot said of a name, if nothing can have changed it.
    fn learn(
        &mut self,
        parent: Node,
        name: &[u8],
        found: Option<(Node, Kind)>,
        seen: CommitNumber,
    ) {
        let changed = self.directories.get(&parent).map_or(0, |directory| directory.changed);
        if seen.0 >= changed && seen.0 >= self.barrier && self.name(parent, name).is_none() {
            self.set_name(parent, name, found);
        }
    }

    /// A job changed a name; it is part of `commit`.
    fn change_name(&mut self, parent: Node, name: &[u8], now: Option<(Node, Kind)>, commit: u64) {
        self.set_name(parent, name, now);
        if let Some(directory) = self.directories.get_mut(&parent) {
            directory.changed = commit;
        }
    }

    fn set_name(&mut self, parent: Node, name: &[u8], found: Option<(Node, Kind)>) {
        if !self.directories.contains_key(&parent) {
            self.loaded.push_back(parent);
        }
        let directory = self.directories.entry(parent).or_default();
        if directory.names.insert(name.into(), found).is_none() {
            self.name_count += 1;
        }
        let mut tries = self.loaded.len();
        while self.name_count > NAMES_MAX.get() && tries > 0 {
            tries -= 1;
            let Some(victim) = self.loaded.pop_front() else { break };
            if let Some(gone) = self.directories.remove(&victim) {
                self.name_count -= gone.names.len();
                self.barrier = self.barrier.max(gone.changed);
                if victim == parent {
                    // Too large a directory: begin again with this name.
                    let mut fresh = Directory { changed: gone.changed, ..Directory::default() };
                    fresh.names.insert(name.into(), found);
                    self.directories.insert(victim, fresh);
                    self.loaded.push_back(victim);
                    self.name_count += 1;
                }
            }
        }
    }
}

impl Parting for Files {
    /// For how much longer an allocation that finds no space waits for front ends to give up files
    /// that have just lost their last names.
    fn parting(&self) -> Option<Duration> {
        let cache = self.cache.lock();
        let parted = cache.parted.filter(|_| !cache.orphans.is_empty())?;
        PARTING
            .checked_sub(self.world.monotonic().saturating_sub(parted))
            .filter(|left| !left.is_zero())
    }
}
