//! The one writer of the catalog: group commit.
//!
//! A thread takes all waiting jobs, runs each in a savepoint of one transaction, commits once,
//! pushes the log to the disks, and answers in order. A job that fails is undone alone. If any job
//! must be durable, the commit is a durable point for all (R7); jobs that arrive meanwhile share
//! the next one.
//!
//! Before each batch it makes sure that there is room:
//!
//! ```text
//!   log       .........|.............|........|...............|
//!             0        checkpoint    |        readers are      capacity
//!                      (passive)     |        ended, restart
//!                                    statements wait; restart when none runs
//!
//!   database  ..................|.............|.....|
//!             0                 its end       tight capacity, grown ahead in growing runs
//! ```
//!
//! When much of the database is free, and there is nothing else to do, its last pages move into the
//! gaps, some at a time, and then the AUs beyond its end are given back. That is done only when the
//! whole log is in the database, durably, and the log on the disks is void: a log that was replayed
//! after a crash could need them.
//!
//! When the database cannot grow any more and few pages are left, jobs that may grow it are refused
//! with `NoSpace`, and jobs that release something still run.
//!
//! A commit that fails, or a log that does not reach the disks, stops the catalog for good: caches
//! were updated by the jobs, and the content of the disks is not known. The next mount finds it
//! out.

use super::{
    CommitNumber, Listener,
    queue::Queue,
    reader::SnapshotBarrier,
    store::{CatalogFile, StoreError},
    tables,
    vfs::Link,
    wal,
};
use crate::{
    error::{FileError, LOG_MAX},
    limits::Limit,
    sync::lock::Mutex,
    world::{World, wait_for},
};
use futures::channel::oneshot;
use plinth_format::page::PAGE_SIZE;
use rusqlite::Connection;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Passes the result to the caller.
pub(super) type OnCommit = Box<dyn FnOnce(Result<CommitNumber, FileError>) + Send>;
/// A job: it gets the connection, or the reason why it cannot run; it returns whether it succeeded,
/// and how to answer.
pub(super) type Job =
    Box<dyn FnOnce(Result<&Connection, FileError>) -> (bool, Option<OnCommit>) + Send>;

/// A request to the writer.
pub(super) enum WriterRequest {
    Write {
        durable: bool,
        grows: bool,
        job: Job,
    },
    DurablePoint(oneshot::Sender<Result<CommitNumber, FileError>>),
    Checkpoint(oneshot::Sender<Result<CommitNumber, FileError>>),
    /// Moves some of the last pages into gaps.
    Tidy,
    /// Disks or files may have come or gone since the database was refused to grow.
    Room,
    /// No statement is inside the barrier that is held: the log can be restarted.
    Quiet,
    Close(oneshot::Sender<Result<CommitNumber, FileError>>),
}

/// Most jobs in one commit: with more, the first would wait too long for the last.
const JOBS_MAX: Limit = Limit::new(256, 3);
/// A passive checkpoint is due when the log is this long: long enough to coalesce pages, short
/// enough to be quick.
const CHECKPOINT_BYTES: Limit = Limit::new(8 << 20, 64 << 10);
/// How long a reader may hold its snapshot while the log is more than half full.
const SNAPSHOT_AGE_MAX: Duration = Duration::from_secs(10);
/// How long readers may still go on when the log is full.
const GRACE: Duration = Duration::from_millis(500);
/// Free pages below which only releases run: more than a batch can take.
const TIGHT_PAGES: u64 = 512;

/// The fewest free pages for which moving pages is worth the effort: 4 MiB; a quarter of all pages
/// must be free, too.
const GAPS_MIN: u64 = 1024;
/// Pages that move in one commit, for which the next job waits: some milliseconds.
const TIDY_PAGES: u64 = 128;
/// The least surplus over the wanted capacity that is worth giving back; it must be half of that
/// capacity, too.
const SLACK_MIN: u64 = 16 << 20;

/// The writer's progress, which every thread may read.
pub(super) struct Progress {
    committed: AtomicU64,
    durable: AtomicU64,
    waiting: Mutex<BTreeMap<(u64, u64), oneshot::Sender<()>>>,
    count: AtomicU64,
    failure: Mutex<Option<Arc<str>>>,
    listener: Mutex<Option<Arc<dyn Listener>>>,
    /// Bytes that jobs may still use if the database cannot grow; otherwise [`u64::MAX`].
    left: AtomicU64,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            committed: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            waiting: Mutex::default(),
            count: AtomicU64::new(0),
            failure: Mutex::default(),
            listener: Mutex::default(),
            left: AtomicU64::new(u64::MAX),
        }
    }

    pub(super) fn committed(&self) -> CommitNumber {
        CommitNumber(self.committed.load(Ordering::Acquire))
    }

    pub(super) fn durable(&self) -> CommitNumber {
        CommitNumber(self.durable.load(Ordering::Acquire))
    }

    /// Bytes that jobs may still use before they are refused, if the database needs to grow and
    /// cannot.
    pub(super) fn shortage(&self) -> Option<u64> {
        Some(self.left.load(Ordering::Relaxed)).filter(|left| *left != u64::MAX)
    }

    pub(super) fn listen(&self, listener: Arc<dyn Listener>) {
        *self.listener.lock() = Some(listener);
    }

    pub(super) fn failure(&self) -> Option<Arc<str>> {
        self.failure.lock().clone()
    }

    pub(super) fn stopped(&self) -> FileError {
        match self.failure() {
            Some(reason) => FileError::CatalogStopped(reason),
            None => FileError::Dismounted,
        }
    }

    /// A channel that gets a message when `number` is durable, and is dropped when it never will
    /// be.
    pub(super) fn when_durable(&self, number: CommitNumber) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.lock();
        if self.durable() >= number {
            let _ = sender.send(());
        } else if self.failure().is_none() {
            let id = self.count.fetch_add(1, Ordering::Relaxed);
            waiting.insert((number.0, id), sender);
        }
        receiver
    }

    fn set_durable(&self, number: u64) {
        if self.durable.fetch_max(number, Ordering::AcqRel) >= number {
            return;
        }
        let later = {
            let mut waiting = self.waiting.lock();
            let later = waiting.split_off(&(number + 1, 0));
            std::mem::replace(&mut *waiting, later)
        };
        for (_, sender) in later {
            let _ = sender.send(());
        }
        let listener = self.listener.lock().clone();
        if let Some(listener) = listener {
            listener.durable(CommitNumber(number));
        }
    }

    fn fail(&self, reason: &str) {
        let first = {
            let mut failure = self.failure.lock();
            let first = failure.is_none();
            failure.get_or_insert_with(|| reason.into());
            first
        };
        if first {
            self.waiting.lock().clear();
            let listener = self.listener.lock().clone();
            if let Some(listener) = listener {
                listener.failed(reason);
            }
        }
    }

    pub(super) fn end(&self) {
        self.waiting.lock().clear();
    }
}

/// The writer thread's state.
pub(super) struct Writer {
    pub(super) link: Link,
    pub(super) world: Arc<dyn World>,
    pub(super) queue: Arc<Queue<WriterRequest>>,
    pub(super) progress: Arc<Progress>,
    pub(super) barrier: Arc<SnapshotBarrier>,
    /// The connection's `synchronous` is FULL, not NORMAL.
    pub(super) full: bool,
    /// The log's length at the last checkpoint since it was restarted.
    pub(super) checkpointed: u64,
    /// Pages of the database when the store last refused to let it grow.
    pub(super) refused_at: Option<u64>,
    /// The queue has a [`WriterRequest::Tidy`].
    pub(super) tidies: bool,
}

impl Writer {
    /// Serves the queue until it is closed.
    pub(super) fn run(mut self) {
        while let Some(first) = wait_for(&*self.world, self.queue.take()) {
            if self.progress.failure().is_some() {
                self.refuse(first);
                continue;
            }
            match first {
                WriterRequest::Checkpoint(sender) => {
                    let result = self.restart_log().map(|()| self.progress.durable());
                    let _ = sender.send(result.map_err(|error| self.poison(&error)));
                }
                WriterRequest::Quiet => {
                    if self.barrier.is_held()
                        && let Err(error) = self.restart_log()
                    {
                        self.poison(&error);
                    }
                }
                WriterRequest::Tidy => {
                    if let Err(error) = self.tidy() {
                        self.poison(&error);
                    }
                }
                WriterRequest::Room => {
                    self.refused_at = None;
                    if let Err(error) = self.make_room() {
                        self.poison(&error);
                    }
                }
                WriterRequest::Close(sender) => {
                    self.queue.close();
                    while let Some(late) = self.queue.try_take() {
                        self.refuse(late);
                    }
                    let result = self.finish().map(|()| self.progress.durable());
                    let _ = sender.send(result.map_err(|error| self.poison(&error)));
                    break;
                }
                write => self.commit(write),
            }
        }
        self.progress.end();
    }

    fn refuse(&mut self, request: WriterRequest) {
        let error = || self.progress.stopped();
        match request {
            WriterRequest::Write { job, .. } => {
                if let (_, Some(answer)) = job(Err(error())) {
                    answer(Err(error()));
                }
            }
            WriterRequest::DurablePoint(sender)
            | WriterRequest::Checkpoint(sender)
            | WriterRequest::Close(sender) => {
                let _ = sender.send(Err(error()));
            }
            WriterRequest::Tidy => self.tidies = false,
            WriterRequest::Quiet | WriterRequest::Room => {}
        }
    }

    /// Stops the catalog for good, with the reason.
    fn poison(&self, error: &FileError) -> FileError {
        let cause = self.link.vfs().image().error();
        let reason = match (error, cause) {
            (FileError::CatalogStopped(reason), _) => reason.to_string(),
            (error, Some(cause)) => format!("{error}: {cause}"),
            (error, None) => error.to_string(),
        };
        self.progress.fail(&reason);
        self.progress.stopped()
    }

    fn connection(&self) -> &Connection {
        &self.link.connection
    }

    fn execute(&self, sql: &str) -> Result<(), FileError> {
        self.connection().prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    fn number(&self, sql: &str) -> Result<u64, FileError> {
        let number: i64 = self.connection().prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        Ok(u64::try_from(number).unwrap_or(0))
    }

    /// One group commit, of `first` and the requests after it.
    fn commit(&mut self, first: WriterRequest) {
        let room = self.make_room();
        let tight = match room {
            Ok(tight) => tight,
            Err(error) => {
                self.poison(&error);
                self.refuse(first);
                return;
            }
        };
        // Whether the commit is a durable point is decided before it begins: SQLite's `synchronous`
        // must be set before.
        let mut batch = vec![first];
        while batch.len() < JOBS_MAX.get() {
            match self.queue.try_take() {
                Some(
                    other @ (WriterRequest::Checkpoint(_)
                    | WriterRequest::Close(_)
                    | WriterRequest::Tidy
                    | WriterRequest::Room
                    | WriterRequest::Quiet),
                ) => {
                    self.queue.put_back(other);
                    break;
                }
                Some(write) => batch.push(write),
                None => break,
            }
        }
        let wanted = |request: &WriterRequest| match request {
            WriterRequest::Write { durable, .. } => *durable,
            _ => true,
        };
        let durable = batch.iter().any(wanted);
        let mut answers: Vec<OnCommit> = Vec::with_capacity(batch.len());
        let result = self.transaction(batch, durable, tight, &mut answers);
        match result {
            Ok(number) => {
                for answer in answers {
                    answer(Ok(number));
                }
                if let Err(error) = self.checkpoint_if_due().and_then(|()| self.tidy_if_due()) {
                    self.poison(&error);
                }
            }
            Err(_) => {
                for answer in answers {
                    answer(Err(self.progress.stopped()));
                }
            }
        }
    }

    fn transaction(
        &mut self,
        batch: Vec<WriterRequest>,
        durable: bool,
        tight: bool,
        answers: &mut Vec<OnCommit>,
    ) -> Result<CommitNumber, FileError> {
        // Whatever fails below, every request gets an answer.
        let mut batch = batch.into_iter();
        let result = self.run_batch(&mut batch, durable, tight, answers);
        if let Err(error) = &result {
            self.poison(error);
        }
        for request in batch {
            if result.is_ok() {
                unreachable!("a batch is run to its end");
            }
            match request {
                WriterRequest::Write { job, .. } => {
                    answers.extend(job(Err(self.progress.stopped())).1)
                }
                WriterRequest::Tidy | WriterRequest::Room | WriterRequest::Quiet => {}
                WriterRequest::DurablePoint(sender)
                | WriterRequest::Checkpoint(sender)
                | WriterRequest::Close(sender) => {
                    answers.push(Box::new(move |result| drop(sender.send(result))));
                }
            }
        }
        result
    }

    fn run_batch(
        &mut self,
        batch: &mut std::vec::IntoIter<WriterRequest>,
        durable: bool,
        tight: bool,
        answers: &mut Vec<OnCommit>,
    ) -> Result<CommitNumber, FileError> {
        if self.full != durable {
            let level =
                if durable { "PRAGMA synchronous=FULL" } else { "PRAGMA synchronous=NORMAL" };
            self.connection().execute_batch(level)?;
            self.full = durable;
        }
        self.execute("BEGIN IMMEDIATE")?;
        let before = self.connection().total_changes();
        let enough = self.changes_max();
        let mut has_ended_well = false;
        while let Some(request) = batch.next() {
            let WriterRequest::Write { grows, job, .. } = request else {
                if let WriterRequest::DurablePoint(sender) = request {
                    answers.push(Box::new(move |result| drop(sender.send(result))));
                }
                continue;
            };
            if grows && tight {
                if let (_, Some(answer)) = job(Err(FileError::NoSpace)) {
                    answer(Err(FileError::NoSpace));
                }
                continue;
            }
            self.execute("SAVEPOINT job")?;
            let (done, answer) = job(Ok(self.connection()));
            answers.extend(answer);
            if self.connection().is_autocommit() {
                // SQLite has rolled the whole transaction back: earlier jobs are undone, their
                // updates of caches are not.
                return Err(FileError::CatalogStopped(
                    "a transaction was rolled back by SQLite".into(),
                ));
            }
            if done {
                has_ended_well = true;
            } else {
                self.execute("ROLLBACK TO job")?;
            }
            self.execute("RELEASE job")?;
            if self.connection().total_changes() - before > enough {
                // The rest goes into the next commit, in the same order.
                for request in batch.rev() {
                    self.queue.put_back(request);
                }
                break;
            }
        }
        let changed = self.connection().total_changes() != before;
        let image = self.link.vfs().image();
        let (syncs, position) = (image.log_syncs(), image.log_position());
        self.execute("COMMIT")?;
        let mut number = self.progress.committed().0;
        // A job may have given caches the number of its commit, even if it changed no row: then a
        // caller that waits for that commit must be woken.
        if changed || has_ended_well {
            image.push_log().map_err(|error| stopped(&error))?;
            let was_durable = self.progress.durable().0 >= number;
            number += 1;
            self.progress.committed.store(number, Ordering::Release);
            // Nothing was written: this commit is as durable as the one before it.
            if was_durable && !changed && image.log_position() == position {
                self.progress.set_durable(number);
            }
        }
        if durable && self.progress.durable().0 < number {
            // SQLite writes no page, and syncs nothing, if no row was changed.
            if image.log_syncs() == syncs {
                number = self.change_something()?;
            }
            self.progress.set_durable(number);
        }
        Ok(CommitNumber(number))
    }

    /// Makes a commit that SQLite has to sync, with all before it. Flushing the disks would not be
    /// enough: SQLite fills the last sector of a synced log, so that no later write touches it.
    fn change_something(&self) -> Result<u64, FileError> {
        self.execute(tables::counter::NEXT_DURABLE_POINT)?;
        self.link.vfs().image().push_log().map_err(|error| stopped(&error))?;
        Ok(self.progress.committed.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// The number of changed rows after which a batch ends, so that it fits into the space that is
    /// kept free in the log.
    fn changes_max(&self) -> u64 {
        let reserve = self.log_capacity() / 4;
        (reserve / PAGE_SIZE as u64 / 4).max(16)
    }

    fn log_capacity(&self) -> u64 {
        self.link.vfs().image().store().capacity(CatalogFile::Wal)
    }

    /// Makes room in the log and beyond the database. Returns whether space is tight.
    fn make_room(&mut self) -> Result<bool, FileError> {
        if self.link.vfs().image().log_position() > self.log_capacity() / 4 * 3
            && !self.grow_log()?
        {
            self.restart_log()?;
        }
        let image = Arc::clone(self.link.vfs().image());
        let used = self.number("PRAGMA page_count")?;
        let mut pages = image.store().capacity(CatalogFile::Database) / PAGE_SIZE as u64;
        let ahead = (pages / 8).clamp(256, 8192);
        if pages < used + ahead && self.refused_at.is_none_or(|at| used.abs_diff(at) >= 64) {
            let wanted = (pages + (pages / 4).max(ahead)) * PAGE_SIZE as u64;
            match image.store().grow(CatalogFile::Database, wanted) {
                Ok(()) => {
                    self.refused_at = None;
                    pages = image.store().capacity(CatalogFile::Database) / PAGE_SIZE as u64;
                }
                Err(StoreError::NoSpace) => self.refused_at = Some(used),
                Err(error) => return Err(stopped(&error)),
            }
        }
        let is_short = pages < used + ahead;
        if !is_short && pages >= used + TIGHT_PAGES {
            self.progress.left.store(u64::MAX, Ordering::Relaxed);
            return Ok(false);
        }
        let room = pages.saturating_sub(used) + self.number("PRAGMA freelist_count")?;
        let reserve = TIGHT_PAGES.min(pages / 8);
        let left = match is_short && room < ahead {
            true => room.saturating_sub(reserve) * PAGE_SIZE as u64,
            false => u64::MAX,
        };
        self.progress.left.store(left, Ordering::Relaxed);
        let tight = room < reserve;
        if tight {
            // Space may have been freed meanwhile: the store is asked each time.
            self.refused_at = None;
        }
        Ok(tight)
    }

    /// If running statements keep the log from being restarted, it grows, so that commits need not
    /// wait. Returns whether it did.
    fn grow_log(&mut self) -> Result<bool, FileError> {
        let capacity = self.log_capacity();
        if self.barrier.is_quiet() || capacity >= LOG_MAX {
            return Ok(false);
        }
        match self.link.vfs().image().store().grow(CatalogFile::Wal, (capacity * 2).min(LOG_MAX)) {
            Ok(()) => Ok(true),
            Err(StoreError::NoSpace) => Ok(false),
            Err(error) => Err(stopped(&error)),
        }
    }

    fn checkpoint_if_due(&mut self) -> Result<(), FileError> {
        let position = self.link.vfs().image().log_position();
        let capacity = self.log_capacity();
        if position > capacity / 2 {
            self.barrier.expire(&*self.world, SNAPSHOT_AGE_MAX);
            let is_late = position > capacity / 8 * 5;
            self.barrier
                .hurry(&*self.world, if is_late { Duration::ZERO } else { SNAPSHOT_AGE_MAX / 5 });
            if !self.barrier.is_held() {
                let queue = Arc::clone(&self.queue);
                self.barrier.hold(Arc::new(move || drop(queue.put(WriterRequest::Quiet))));
            }
        }
        if position < self.checkpointed {
            self.checkpointed = 0;
        }
        let step = (CHECKPOINT_BYTES.get() as u64).min(capacity / 4);
        if position > self.checkpointed + step {
            self.checkpoint("PRAGMA wal_checkpoint(PASSIVE)")?;
            // The next commit restarts the log, unless a reader needs it.
            self.checkpointed = position;
        }
        Ok(())
    }

    /// Runs a checkpoint. Returns whether all of the log is in the database now.
    fn checkpoint(&self, sql: &str) -> Result<bool, FileError> {
        let committed = self.progress.committed().0;
        let (busy, frames, done): (i64, i64, i64) = self
            .connection()
            .prepare_cached(sql)?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let whole = busy == 0 && frames == done;
        if whole && frames >= 0 {
            self.progress.set_durable(committed);
        }
        Ok(whole)
    }

    /// Brings everything into the database and restarts the log, ending readers that still need it.
    fn restart_log(&mut self) -> Result<(), FileError> {
        // Most of the work is done while readers may go on.
        self.checkpoint("PRAGMA wal_checkpoint(PASSIVE)")?;
        wait_for(&*self.world, self.barrier.close(&*self.world, GRACE));
        let whole = self.checkpoint("PRAGMA wal_checkpoint(TRUNCATE)");
        self.barrier.open();
        if whole? {
            Ok(())
        } else {
            Err(FileError::CatalogStopped("the log could not be restarted".into()))
        }
    }

    /// Queues a tidying step, after the waiting requests, when much of the database is free.
    fn tidy_if_due(&mut self) -> Result<(), FileError> {
        if self.tidies {
            return Ok(());
        }
        let (free, used) =
            (self.number("PRAGMA freelist_count")?, self.number("PRAGMA page_count")?);
        // A catalog of an earlier version keeps its pages.
        let gaps = free >= GAPS_MIN && free >= used / 4 && self.number("PRAGMA auto_vacuum")? == 2;
        // Or the engine ended after the last step, before giving back.
        if gaps || self.spare(used).is_some() {
            self.tidies = self.queue.put(WriterRequest::Tidy).is_ok();
        }
        Ok(())
    }

    /// The capacity that the database needs, in bytes, if it has much more. It is that which would
    /// be left: a database that has one large AU would else be found to have too much after each
    /// commit, and the log restarted, though there is nothing to give back.
    fn spare(&self, used: u64) -> Option<u64> {
        let store = self.link.vfs().image().store();
        let wanted = ((used + (used / 4).clamp(256, 8192)) * PAGE_SIZE as u64)
            .next_multiple_of(store.unit());
        let capacity = store.capacity(CatalogFile::Database);
        (capacity >= wanted + (wanted / 2).max(SLACK_MIN)).then_some(wanted)
    }

    /// One step; after the last one, gives back the space beyond the end.
    fn tidy(&mut self) -> Result<(), FileError> {
        self.tidies = false;
        self.make_room()?;
        let before = self.number("PRAGMA freelist_count")?;
        if self.full {
            self.connection().execute_batch("PRAGMA synchronous=NORMAL")?;
            self.full = false;
        }
        self.execute("BEGIN IMMEDIATE")?;
        {
            // Each step of the statement moves a page.
            let mut statement = self
                .connection()
                .prepare_cached(&format!("PRAGMA incremental_vacuum({TIDY_PAGES})"))?;
            let mut steps = statement.query([])?;
            while steps.next()?.is_some() {}
        }
        self.execute("COMMIT")?;
        self.link.vfs().image().push_log().map_err(|error| stopped(&error))?;
        self.progress.committed.fetch_add(1, Ordering::AcqRel);
        self.checkpoint_if_due()?;
        if (TIDY_PAGES..before).contains(&self.number("PRAGMA freelist_count")?) {
            self.tidies = self.queue.put(WriterRequest::Tidy).is_ok();
            return Ok(());
        }
        self.give_back()
    }

    fn give_back(&mut self) -> Result<(), FileError> {
        let Some(wanted) = self.spare(self.number("PRAGMA page_count")?) else { return Ok(()) };
        self.restart_log()?;
        wal::clear(&**self.link.vfs().image().store()).map_err(|error| stopped(&error))?;
        self.link.vfs().image().shrink(wanted).map_err(|error| stopped(&error))
    }

    /// The last checkpoint; the log on the disks is empty after it.
    fn finish(&mut self) -> Result<(), FileError> {
        self.restart_log()?;
        wal::clear(&**self.link.vfs().image().store()).map_err(|error| stopped(&error))
    }
}

fn stopped(error: &StoreError) -> FileError {
    FileError::CatalogStopped(error.to_string().into())
}
