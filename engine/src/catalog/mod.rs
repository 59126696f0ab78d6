//! The catalog: all metadata of a group, in an SQLite database on the group's own disks.
//!
//! ```text
//!   tasks --job--> queue --> writer thread --+
//!   tasks --read-> queue --> reader threads -+--> SQLite --> vfs --> image --> Store (on disks)
//!   SQL ---------> queue --> query threads --+
//! ```
//!
//! - [`Catalog::write`] runs a job in a transaction that it shares with others ([`writer`]). When
//!   it returns, the change is on the disks: it survives the end of the process. It survives a loss
//!   of power from the next *durable point* on: a commit made with `durable`,
//!   [`Catalog::durable_point`], or a checkpoint.
//! - Commits are numbered in order; [`Catalog::durable`] is the last durable one (R8). A job that
//!   succeeds is part of the commit with the next number, even if it changed nothing: a cache that
//!   got that number does not wait for a commit that never comes.
//! - [`Catalog::read`] and [`Catalog::query`] see one snapshot; they neither wait for the writer
//!   nor delay it ([`reader`]).
//! - After an unclean stop the logs of the mirrors are compared and replayed ([`wal`], R6).
//!
//! The schema is in `schema.sql`, the views are declared in `columns/`.
//!
//! Invariants:
//!
//!   1. One thread writes. Jobs run in the order in which they were submitted, and are answered in
//!      that order.
//!   2. A commit is answered after the store has it, and counts as durable after the store was
//!      flushed and no later write can touch its last block (R7).
//!   3. The log never grows beyond its capacity while the store can take a checkpoint.

pub mod attributes;
pub mod columns;
pub mod copied;
pub(crate) mod on_disks;
pub mod rows;

mod image;
pub mod live;
pub mod live_stats;
#[cfg(any(test, feature = "testing"))]
pub mod memory_store;
mod pages;
mod queue;
mod readahead;
mod reader;
mod salvage;
pub mod store;
pub(crate) mod tables;
#[cfg(test)]
mod tests;
mod upgrade;
mod vfs;
pub mod wal;
mod writer;

use crate::{
    admin::{AdminError, Code, Problem},
    error::{FileError, READS_MAX},
    world::{Task, World},
};
use futures::channel::oneshot;
use image::Image;
pub use live::{DiskStatus, GroupState, Live, ModeStatus, MountStatus};
use plinth_format::page::{self, PAGE_SIZE, RESERVED};
use queue::Queue;
pub use reader::QueryLimits;
use reader::{Read, SnapshotBarrier};
use rusqlite::{Connection, config::DbConfig};
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};
pub use store::{CatalogFile, Store, StoreError};
use vfs::{Link, Vfs};
pub use wal::Recovery;
use writer::{Progress, Writer, WriterRequest};

const SCHEMA: &str = include_str!("schema.sql");

/// The version of the schema, in the database's `user_version`. A later one is refused, an earlier
/// one is converted.
pub const SCHEMA_VERSION: i64 = 4;
/// `application_id` of the database: "PLTH".
const APPLICATION: i64 = 0x504c_5448;
/// Threads for the engine's own reads, and for statements of clients.
pub(crate) const READERS: usize = 2;
const QUERIES: usize = 4;
/// The name of the threads that run statements of clients: they may be throttled in favour of all
/// others.
pub const STATEMENTS: &str = "catalog-query";
/// A commit's place in the order of commits since the catalog was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct CommitNumber(pub u64);

/// Why a catalog cannot be made or opened.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("catalog: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error(
        "the catalog has schema version {found}, this engine knows up to {SCHEMA_VERSION}; use a newer engine"
    )]
    Newer { found: i64 },
    #[error(
        "the catalog, of an earlier version, could not be brought to schema version {SCHEMA_VERSION}: {error}"
    )]
    Upgrade { error: String },
    #[error("the catalog is damaged: {0}")]
    Damaged(String),
    #[error(
        "the catalog's log cannot be read to its end on any visible disk, and may hold commits there"
    )]
    LogHidden,
}

/// Called with the writer's progress, on the writer's thread; must not call the catalog and wait.
pub trait Listener: Send + Sync {
    /// Everything up to and including this commit is durable.
    fn durable(&self, number: CommitNumber);
    /// The catalog has stopped for good.
    fn failed(&self, reason: &str);
}

/// Waits for space that is about to become free. Returns whether there is some.
pub(crate) type MakeRoom = Box<dyn Fn() -> Task<'static, bool> + Send + Sync>;

/// An open catalog. See the module's description.
pub struct Catalog {
    vfs: Arc<Vfs>,
    writes: Arc<Queue<WriterRequest>>,
    reads: Arc<Queue<Read>>,
    queries: Arc<Queue<Read>>,
    progress: Arc<Progress>,
    room: OnceLock<MakeRoom>,
    #[cfg(test)]
    barrier: Arc<SnapshotBarrier>,
}

/// Settings of every connection.
fn configure(connection: &Connection, cache_kib: i64) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.execute_batch(&format!(
        "PRAGMA temp_store=MEMORY; PRAGMA foreign_keys=OFF; PRAGMA trusted_schema=OFF; PRAGMA cache_size=-{cache_kib};"
    ))
}

impl Catalog {
    /// Makes an empty catalog on `store`, whatever its disks held before, and opens it.
    ///
    /// # Errors
    /// If the store cannot be written or is too small.
    pub async fn create(
        world: &Arc<dyn World>,
        store: Arc<dyn Store>,
    ) -> Result<Arc<Self>, CatalogError> {
        let outside = Arc::clone(world);
        on_thread(&outside, "catalog", move |world, opened| {
            Self::start(world, opened, || {
                wal::clear(&*store)?;
                let vfs = Vfs::register(Arc::new(Image::new(store, 0)), Arc::clone(world));
                let link = Link::open(&vfs, true)?;
                // Before there is a page, so that the pages of deleted rows can be given back
                // (writer.rs).
                link.connection.execute_batch("PRAGMA auto_vacuum=INCREMENTAL")?;
                prepare_writer(&link.connection)?;
                link.connection.execute_batch(SCHEMA)?;
                link.connection.pragma_update(None, "application_id", APPLICATION)?;
                link.connection.pragma_update(None, "user_version", SCHEMA_VERSION)?;
                checkpoint_all(&link.connection)?;
                Ok((link, Recovery::default()))
            });
        })
        .await
        .map(|(catalog, _)| catalog)
    }

    /// Opens the catalog on `store`; replays its log if it was not closed in good order. With
    /// `force` the part of the log that no disk can read is ignored.
    ///
    /// # Errors
    /// If the store fails, the catalog is damaged, or of a later version.
    pub async fn open(
        world: &Arc<dyn World>,
        store: Arc<dyn Store>,
        force: bool,
    ) -> Result<(Arc<Self>, Recovery), CatalogError> {
        let outside = Arc::clone(world);
        let earlier = Arc::new(AtomicBool::new(false));
        let is_earlier = Arc::clone(&earlier);
        let (catalog, recovery) = on_thread(&outside, "catalog", move |world, opened| {
            Self::start(world, opened, || {
                let recovery = wal::recover(&*store, force)?;
                let pages = database_pages(&*store)?;
                if let Some(expected) = recovery.pages
                    && expected != pages
                {
                    let text =
                        format!("its log ends with {expected} pages, its first page says {pages}");
                    return Err(CatalogError::Damaged(text));
                }
                let vfs = Vfs::register(Arc::new(Image::new(store, pages)), Arc::clone(world));
                let link = Link::open(&vfs, false)?;
                let number = |name| {
                    link.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0))
                };
                if number("application_id")? != APPLICATION {
                    return Err(CatalogError::Damaged("its first page is not of a catalog".into()));
                }
                match number("user_version")? {
                    SCHEMA_VERSION => {}
                    found if upgrade::is_earlier(found) => {
                        is_earlier.store(true, Ordering::Release)
                    }
                    found if found > SCHEMA_VERSION => return Err(CatalogError::Newer { found }),
                    found => return Err(CatalogError::Damaged(format!("schema version {found}"))),
                }
                prepare_writer(&link.connection)?;
                Ok((link, recovery))
            });
        })
        .await?;
        if earlier.load(Ordering::Acquire) {
            let upgraded = catalog.release(true, upgrade::to_current).await;
            upgraded.map_err(|error| CatalogError::Upgrade { error: error.to_string() })?;
        }
        Ok((catalog, recovery))
    }

    /// Makes the indexes that an earlier version did not have. The catalog must be able to grow.
    ///
    /// # Errors
    /// If there is no room for them; the catalog works without them.
    pub async fn make_indexes(&self) -> Result<(), FileError> {
        if self.read(upgrade::lacks_indexes).await? {
            self.write(false, upgrade::make_indexes).await?;
        }
        Ok(())
    }

    /// On the writer's thread: opens the catalog, reports the result, serves requests.
    fn start(
        world: &Arc<dyn World>,
        opened: oneshot::Sender<Result<(Arc<Self>, Recovery), CatalogError>>,
        open: impl FnOnce() -> Result<(Link, Recovery), CatalogError>,
    ) {
        let (link, recovery) = match open() {
            Ok(open) => open,
            Err(error) => {
                let _ = opened.send(Err(error));
                return;
            }
        };
        let (vfs, barrier) = (Arc::clone(link.vfs()), Arc::new(SnapshotBarrier::default()));
        let catalog = Arc::new(Self {
            vfs: Arc::clone(&vfs),
            writes: Arc::new(Queue::new()),
            reads: Arc::new(Queue::new()),
            queries: Arc::new(Queue::new()),
            progress: Arc::new(Progress::new()),
            room: OnceLock::new(),
            #[cfg(test)]
            barrier: Arc::clone(&barrier),
        });
        for (count, queue, name, views) in [
            (READERS, &catalog.reads, "catalog-read", false),
            (QUERIES, &catalog.queries, STATEMENTS, true),
        ] {
            for _ in 0..count {
                reader::start(
                    world,
                    name,
                    Arc::clone(&vfs),
                    Arc::clone(&barrier),
                    Arc::clone(queue),
                    views,
                );
            }
        }
        drop(vfs);
        let writer = Writer {
            link,
            world: Arc::clone(world),
            queue: Arc::clone(&catalog.writes),
            progress: Arc::clone(&catalog.progress),
            barrier,
            full: false,
            checkpointed: 0,
            refused_at: None,
            tidies: false,
        };
        let _ = opened.send(Ok((catalog, recovery)));
        writer.run();
    }

    /// Runs a job that may make the catalog larger, and commits it, together with others.
    ///
    /// The job runs on the writer's thread, in its own savepoint: if it returns an error it is
    /// undone, alone. It may update caches as its last act; if the commit fails after that, the
    /// catalog stops for good. With `durable` the commit is a durable point.
    ///
    /// # Errors
    /// The error of the job; `NoSpace` if the catalog cannot grow; `CatalogStopped`.
    pub async fn write<T: Send + 'static>(
        &self,
        durable: bool,
        mut job: impl FnOnce(&Connection) -> Result<T, FileError> + Send + 'static,
    ) -> Result<(T, CommitNumber), FileError> {
        loop {
            match self.submit(durable, true, job).await {
                Err((FileError::NoSpace, Some(again))) if self.make_room().await => job = again,
                end => return end.map_err(|(error, _)| error),
            }
        }
    }

    /// Bytes that the catalog has left before nothing can be made, if it needs to grow and cannot.
    #[must_use]
    pub fn shortage(&self) -> Option<u64> {
        self.progress.shortage()
    }

    /// Lets a catalog that could not grow try again: without a write it would not find out that
    /// there is room now.
    pub(crate) fn look_for_room(&self) {
        if self.shortage().is_some() {
            let _ = self.writes.put(WriterRequest::Room);
        }
    }

    /// Sets the function that makes room when the catalog cannot grow, before the job fails.
    pub(crate) fn when_tight(&self, make_room: MakeRoom) {
        let _ = self.room.set(make_room);
    }

    /// Whether there may be room now where there was none.
    async fn make_room(&self) -> bool {
        match self.room.get() {
            Some(make_room) => make_room().await,
            None => false,
        }
    }

    /// The number of waiting jobs.
    #[cfg(test)]
    pub(crate) fn jobs_waiting(&self) -> usize {
        self.writes.len()
    }

    /// As [`Catalog::write`], for a job that releases space: it runs even if the catalog cannot
    /// grow any more.
    ///
    /// # Errors
    /// The error of the job; `CatalogStopped`.
    pub async fn release<T: Send + 'static>(
        &self,
        durable: bool,
        job: impl FnOnce(&Connection) -> Result<T, FileError> + Send + 'static,
    ) -> Result<(T, CommitNumber), FileError> {
        self.submit(durable, false, job).await.map_err(|(error, _)| error)
    }

    /// Submits a job. A job that did not run is returned with the error.
    async fn submit<T, J>(
        &self,
        durable: bool,
        grows: bool,
        job: J,
    ) -> Result<(T, CommitNumber), (FileError, Option<J>)>
    where
        T: Send + 'static,
        J: FnOnce(&Connection) -> Result<T, FileError> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let run: writer::Job = Box::new(move |connection| {
            let done = match connection {
                Ok(connection) => job(connection).map_err(|error| (error, None)),
                Err(error) => Err((error, Some(job))),
            };
            match done {
                Ok(value) => {
                    let answer = move |end: Result<CommitNumber, FileError>| {
                        let _ = sender
                            .send(end.map(|number| (value, number)).map_err(|error| (error, None)));
                    };
                    (true, Some(Box::new(answer)))
                }
                Err(refusal) => {
                    let _ = sender.send(Err(refusal));
                    (false, None)
                }
            }
        });
        let request = WriterRequest::Write { durable, grows, job: run };
        if self.writes.put(request).is_err() {
            return Err((self.progress.stopped(), None));
        }
        receiver.await.unwrap_or_else(|_| Err((self.progress.stopped(), None)))
    }

    async fn ask(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<CommitNumber, FileError>>) -> WriterRequest,
    ) -> Result<CommitNumber, FileError> {
        let (sender, receiver) = oneshot::channel();
        if self.writes.put(request(sender)).is_err() {
            return Err(self.progress.stopped());
        }
        receiver.await.unwrap_or_else(|_| Err(self.progress.stopped()))
    }

    /// Makes everything committed so far durable.
    ///
    /// # Errors
    /// `CatalogStopped`.
    pub async fn durable_point(&self) -> Result<CommitNumber, FileError> {
        let committed = self.committed();
        if self.durable() >= committed && self.progress.failure().is_none() {
            return Ok(committed);
        }
        self.ask(WriterRequest::DurablePoint).await
    }

    /// Makes a commit durable that has been made or is in progress.
    ///
    /// # Errors
    /// `CatalogStopped`.
    pub async fn make_durable(&self, number: CommitNumber) -> Result<(), FileError> {
        if self.durable() >= number && self.progress.failure().is_none() {
            return Ok(());
        }
        // After that commit in the queue.
        self.ask(WriterRequest::DurablePoint).await.map(|_| ())
    }

    /// Brings everything into the database and restarts the log. Ends readers that still need it.
    ///
    /// # Errors
    /// `CatalogStopped`.
    pub async fn checkpoint(&self) -> Result<CommitNumber, FileError> {
        self.ask(WriterRequest::Checkpoint).await
    }

    /// The last commit that was answered.
    #[must_use]
    pub fn committed(&self) -> CommitNumber {
        self.progress.committed()
    }

    /// The last commit that is durable.
    #[must_use]
    pub fn durable(&self) -> CommitNumber {
        self.progress.durable()
    }

    /// Waits until a commit is durable, without requesting that.
    ///
    /// # Errors
    /// If it never will be: the catalog stopped or was closed.
    pub async fn wait_durable(&self, number: CommitNumber) -> Result<(), FileError> {
        self.progress.when_durable(number).await.map_err(|_| self.progress.stopped())
    }

    /// Sets the listener for durable points and failure.
    pub fn listen(&self, listener: Arc<dyn Listener>) {
        self.progress.listen(listener);
    }

    /// Why the catalog has stopped, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<str>> {
        self.progress.failure()
    }

    /// Runs a job on a snapshot of the commits so far; if that took so long that the log ran full,
    /// runs it again on a newer one. The job must not wait for the writer: the writer may be
    /// waiting for it.
    ///
    /// # Errors
    /// The error of the job; `SnapshotTooOld` if it took too long each time.
    pub async fn read<T: Send + 'static>(
        &self,
        job: impl Fn(&Connection) -> Result<T, FileError> + Send + Sync + 'static,
    ) -> Result<T, FileError> {
        let job = Arc::new(job);
        for _ in 1..READS_MAX {
            match self.read_once(Arc::clone(&job)).await {
                Err(FileError::SnapshotTooOld) => {}
                other => return other,
            }
        }
        self.read_once(job).await
    }

    async fn read_once<T: Send + 'static>(
        &self,
        job: Arc<impl Fn(&Connection) -> Result<T, FileError> + Send + Sync + 'static>,
    ) -> Result<T, FileError> {
        let (sender, receiver) = oneshot::channel();
        let read: Read = Box::new(move |reader| {
            let _ = sender.send(reader.and_then(|reader| reader.read(&*job)));
        });
        if self.reads.put(read).is_err() {
            return Err(self.progress.stopped());
        }
        receiver.await.unwrap_or_else(|_| Err(self.progress.stopped()))
    }

    /// Runs a SELECT of a client over the views; the result comes in pieces. The catalog waits for
    /// the receiver, but not longer than it can keep the snapshot, and never holds more of the
    /// result than some MiB.
    ///
    /// # Errors
    /// If the catalog has stopped. An error in the statement, or a limit that it exceeded, is the
    /// last piece.
    pub fn query(
        &self,
        sql: &str,
        live: Live,
        limits: QueryLimits,
    ) -> Result<rows::Receiver, AdminError> {
        let (sender, receiver) = rows::pipe();
        let sql = sql.to_owned();
        let read: Read = Box::new(move |reader| match reader {
            Ok(reader) => reader.query(&sql, &live, limits, &sender),
            Err(error) => sender.refuse(AdminError::new(Code::Damaged, error)),
        });
        self.queries
            .put(read)
            .map_err(|_| AdminError::new(Code::NotMounted, self.progress.stopped()))?;
        Ok(receiver)
    }

    /// Has SQLite check the structure of the whole database. Returns its messages.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn verify(&self) -> Result<Vec<String>, FileError> {
        let job = |connection: &Connection| -> Result<Vec<String>, FileError> {
            let mut statement = connection.prepare("PRAGMA integrity_check")?;
            let found = statement.query_map([], |row| row.get::<_, String>(0))?;
            let found: rusqlite::Result<Vec<String>> = found.collect();
            Ok(found?.into_iter().filter(|text| text != "ok").collect())
        };
        self.read(job).await
    }

    /// Compares the mirrors of the log with the log in memory; with `repair` it rewrites what
    /// differs.
    ///
    /// # Errors
    /// If the catalog has stopped.
    pub async fn compare_log(&self, repair: bool) -> Result<Vec<Problem>, FileError> {
        let vfs = Arc::clone(&self.vfs);
        // On the writer's thread, the only one that writes the catalog.
        self.release(false, move |_| Ok(vfs.image().compare_log(repair)))
            .await
            .map(|(problems, _)| problems)
    }

    /// Bytes of the log in use.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.vfs.image().log_position()
    }

    /// Closes the catalog in good order: everything durable and in the database, the log empty.
    ///
    /// # Errors
    /// `CatalogStopped`; the threads end all the same.
    pub async fn close(&self) -> Result<(), FileError> {
        let result = self.ask(WriterRequest::Close).await;
        self.end();
        result.map(|_| ())
    }

    fn end(&self) {
        self.writes.close();
        self.reads.close();
        self.queries.close();
    }
}

impl Drop for Catalog {
    /// Without [`Catalog::close`] this is an unclean stop: the threads end, the log stays.
    fn drop(&mut self) {
        self.end();
    }
}

type Opened = Result<(Arc<Catalog>, Recovery), CatalogError>;

async fn on_thread(
    world: &Arc<dyn World>,
    name: &str,
    code: impl FnOnce(&Arc<dyn World>, oneshot::Sender<Opened>) + Send + 'static,
) -> Opened {
    let (sender, receiver) = oneshot::channel();
    let inside = Arc::clone(world);
    world.spawn_synchronous(name, Box::new(move || code(&inside, sender)));
    let gone = || Err(StoreError::Stopped("the catalog's thread ended".into()).into());
    receiver.await.unwrap_or_else(|_| gone())
}

fn prepare_writer(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(256);
    configure(connection, 64 << 10)?;
    let mode: String = connection.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(rusqlite::Error::InvalidParameterName(format!("journal mode {mode}")));
    }
    connection.execute_batch(
        "PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0; PRAGMA cache_spill=OFF;",
    )
}

fn checkpoint_all(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// Pages of the database, from its first page.
pub(crate) fn database_pages(store: &dyn Store) -> Result<u32, CatalogError> {
    let first =
        store.read(CatalogFile::Database, 0, PAGE_SIZE, &|bytes| page::written(bytes, 1))?;
    let field =
        |at: usize| u32::from_be_bytes([first[at], first[at + 1], first[at + 2], first[at + 3]]);
    let page_size = usize::from(u16::from_be_bytes([first[16], first[17]]));
    if first[..16] != *b"SQLite format 3\0"
        || page_size != PAGE_SIZE
        || usize::from(first[20]) != RESERVED
    {
        return Err(CatalogError::Damaged("its first page is not of a catalog".into()));
    }
    let pages = field(28);
    let capacity = store.capacity(CatalogFile::Database) / PAGE_SIZE as u64;
    if pages == 0 || u64::from(pages) > capacity || field(24) != field(92) {
        return Err(CatalogError::Damaged(format!(
            "its first page says {pages} pages, there is room for {capacity}"
        )));
    }
    Ok(pages)
}
