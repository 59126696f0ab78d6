//! Readers of the catalog: threads with a connection each, on snapshots.
//!
//! A read never waits for a write, nor a write for a read, with one exception: the log has a limit,
//! and it cannot be restarted while a reader needs a frame of it. When it is half full, the writer
//! makes new statements of clients wait, and goes on; when the running ones have ended, which is
//! nearly always soon, it restarts the log. A statement that the writer waits for is not throttled
//! any more. If the log runs full before that, the writer closes the barrier: all new reads wait;
//! running ones get a short time to end, and are then ended with "snapshot too old".
//!
//! ```text
//!   open --hold--> held --(no statement in)--> closed --(no read in)--> restart --open--> open
//!                   \-----------(the log is full)-----/
//! ```
//!
//! Two kinds of threads: for the engine's own short reads, and for statements of clients, which
//! have views, an authorizer and limits.

use super::{
    columns,
    live::Live,
    queue::Queue,
    store::StoreError,
    vfs::{Link, Vfs},
};
use crate::{
    admin::{AdminError, Code},
    catalog::{
        attributes,
        rows::{self, Piece},
    },
    error::{FileError, LOG_MAX},
    sync::lock::{Mutex, MutexGuard},
    world::{BackgroundStage, World, wait_for},
};
use futures::future::{Either, select};
use rusqlite::{
    Connection,
    hooks::{AuthAction, AuthContext, Authorization},
    limits::Limit,
};
use std::{
    collections::BTreeMap,
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    task::{Poll, Waker},
    time::Duration,
};

/// Limits of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryLimits {
    pub rows_max: usize,
    pub time_max: Duration,
}

impl Default for QueryLimits {
    fn default() -> Self {
        Self { rows_max: 20_000_000, time_max: Duration::from_secs(60) }
    }
}

/// SQLite's virtual machine instructions between two checks of the clock: well below a millisecond.
const STEPS: i32 = 2_000;
/// The longest value in a statement, in bytes: more than any in the catalog.
const VALUE_MAX: i32 = 16 << 20;

/// The state that the progress handler of a reader's connection reads.
#[derive(Default)]
pub(super) struct Snapshot {
    too_old: AtomicBool,
    /// The writer waits for its end.
    hurries: AtomicBool,
    /// Nanoseconds of [`World::monotonic`]; 0 if there is no limit.
    deadline: AtomicI64,
    started: Mutex<Duration>,
}

impl Snapshot {
    /// Whether the read must end.
    fn is_over(&self, world: &dyn World) -> bool {
        let deadline = self.deadline.load(Ordering::Relaxed);
        self.too_old.load(Ordering::Relaxed)
            || (deadline != 0 && nanoseconds(world.monotonic()) > deadline)
    }
}

/// The two kinds of readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Engine,
    Statement,
}

/// Called when the last statement has left while the barrier is held.
type Quiet = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Inside {
    closed: bool,
    /// Set while statements wait outside.
    held: Option<Quiet>,
    active: BTreeMap<u64, (Who, Arc<Snapshot>)>,
    count: u64,
    /// Reads that wait outside.
    outside: Vec<Waker>,
    /// The writer, while it waits until no read is inside.
    closing: Option<Waker>,
}

impl Inside {
    fn is_quiet(&self) -> bool {
        self.active.values().all(|(who, _)| *who == Who::Engine)
    }
}

/// The running reads, and the barrier in front of them.
#[derive(Default)]
pub(super) struct SnapshotBarrier(Mutex<Inside>);

impl SnapshotBarrier {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock()
    }

    async fn enter(&self, who: Who, snapshot: &Arc<Snapshot>, world: &dyn World) -> u64 {
        poll_fn(|context| {
            let mut inside = self.lock();
            if inside.closed || (inside.held.is_some() && who == Who::Statement) {
                inside.outside.push(context.waker().clone());
                return Poll::Pending;
            }
            inside.count += 1;
            let id = inside.count;
            *snapshot.started.lock() = world.monotonic();
            snapshot.too_old.store(false, Ordering::Relaxed);
            snapshot.hurries.store(false, Ordering::Relaxed);
            inside.active.insert(id, (who, Arc::clone(snapshot)));
            Poll::Ready(id)
        })
        .await
    }

    fn leave(&self, id: u64) {
        let (quiet, closing) = {
            let mut inside = self.lock();
            inside.active.remove(&id);
            let quiet = inside.held.clone().filter(|_| inside.is_quiet());
            let is_empty = inside.active.is_empty();
            (quiet, inside.closing.take_if(|_| is_empty))
        };
        if let Some(closing) = closing {
            closing.wake();
        }
        if let Some(quiet) = quiet {
            quiet();
        }
    }

    /// Makes statements wait outside until the barrier is opened again. `quiet` is called, perhaps
    /// more than once, when no statement is inside any more.
    pub(super) fn hold(&self, quiet: Quiet) {
        let now = {
            let mut inside = self.lock();
            inside.held = Some(Arc::clone(&quiet));
            inside.is_quiet()
        };
        if now {
            quiet();
        }
    }

    /// Whether no statement is inside.
    pub(super) fn is_quiet(&self) -> bool {
        self.lock().is_quiet()
    }

    pub(super) fn is_held(&self) -> bool {
        self.lock().held.is_some()
    }

    /// Ends reads that began before `limit` ago.
    pub(super) fn expire(&self, world: &dyn World, limit: Duration) {
        self.mark(world, limit, |snapshot| &snapshot.too_old);
    }

    /// Statements that began before `limit` ago are not throttled any more.
    pub(super) fn hurry(&self, world: &dyn World, limit: Duration) {
        self.mark(world, limit, |snapshot| &snapshot.hurries);
    }

    fn mark(&self, world: &dyn World, limit: Duration, mark: impl Fn(&Snapshot) -> &AtomicBool) {
        let now = world.monotonic();
        for (_, snapshot) in self.lock().active.values() {
            let started = *snapshot.started.lock();
            if now.saturating_sub(started) >= limit {
                mark(snapshot).store(true, Ordering::Relaxed);
            }
        }
    }

    /// Lets no read in, and waits until none is inside; reads that take longer than `grace` are
    /// ended.
    pub(super) async fn close(&self, world: &dyn World, grace: Duration) {
        self.lock().closed = true;
        self.hurry(world, Duration::ZERO);
        if let Either::Right(_) = select(pin!(self.until_empty()), world.sleep(grace)).await {
            self.expire(world, Duration::ZERO);
            self.until_empty().await;
        }
    }

    /// Waits until no read is inside. For one caller at a time.
    async fn until_empty(&self) {
        poll_fn(|context| {
            let mut inside = self.lock();
            if inside.active.is_empty() {
                return Poll::Ready(());
            }
            inside.closing = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    pub(super) fn open(&self) {
        let outside = {
            let mut inside = self.lock();
            (inside.closed, inside.held) = (false, None);
            std::mem::take(&mut inside.outside)
        };
        outside.into_iter().for_each(Waker::wake);
    }
}

/// A read to be run: it gets a connection in a snapshot, or the reason why there is none.
pub(super) type Read = Box<dyn FnOnce(Result<&mut Reader, FileError>) + Send>;

/// A reader thread's connection.
pub(super) struct Reader {
    link: Link,
    snapshot: Arc<Snapshot>,
    world: Arc<dyn World>,
}

/// Starts a thread that serves `queue` until it is closed. `views`: it runs statements of clients.
pub(super) fn start(
    world: &Arc<dyn World>,
    name: &str,
    vfs: Arc<Vfs>,
    barrier: Arc<SnapshotBarrier>,
    queue: Arc<Queue<Read>>,
    views: bool,
) {
    let inside = Arc::clone(world);
    let run = move || {
        let world = inside;
        let snapshot = Arc::<Snapshot>::default();
        let mut reader = None;
        while let Some(read) = wait_for(&*world, queue.take()) {
            let who = if views { Who::Statement } else { Who::Engine };
            if views {
                world.throttle(BackgroundStage::Starting);
            }
            let id = wait_for(&*world, barrier.enter(who, &snapshot, &*world));
            let open = match &mut reader {
                Some(reader) => Ok(reader),
                None => {
                    Reader::open(&vfs, &world, &snapshot, views).map(|open| reader.insert(open))
                }
            };
            read(open.map_err(FileError::from));
            barrier.leave(id);
            if views {
                world.throttle(BackgroundStage::Finished);
            }
        }
    };
    world.spawn_synchronous(name, Box::new(run));
}

impl Reader {
    fn open(
        vfs: &Arc<Vfs>,
        world: &Arc<dyn World>,
        snapshot: &Arc<Snapshot>,
        views: bool,
    ) -> rusqlite::Result<Self> {
        let mut link = Link::open(vfs, false)?;
        let connection = &mut link.connection;
        super::configure(connection, 4 << 10)?;
        let (seen, clock) = (Arc::clone(snapshot), Arc::clone(world));
        let handler = move || {
            if views {
                let is_waited_for = seen.hurries.load(Ordering::Relaxed);
                clock.throttle(if is_waited_for {
                    BackgroundStage::Awaited
                } else {
                    BackgroundStage::Running
                });
            }
            seen.is_over(&*clock)
        };
        connection.progress_handler(STEPS, Some(handler))?;
        if views {
            connection.execute_batch(&columns::CREATE)?;
            let settable = attributes::SETTABLE.iter().map(|default| (default, false));
            for ((name, value), fixed) in
                settable.chain(attributes::FIXED.iter().map(|value| (value, true)))
            {
                let row = rusqlite::params![name, value, fixed];
                connection
                    .execute("INSERT INTO temp.default_attribute VALUES (?1, ?2, ?3)", row)?;
            }
            connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_MAX)?;
            connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
            connection.set_limit(Limit::SQLITE_LIMIT_WORKER_THREADS, 0)?;
        }
        connection.set_prepared_statement_cache_capacity(64);
        Ok(Self { link, snapshot: Arc::clone(snapshot), world: Arc::clone(world) })
    }

    /// Runs `job` on one snapshot.
    pub(super) fn read<T>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let connection = &self.link.connection;
        connection.prepare_cached("BEGIN")?.execute([])?;
        let result = job(connection);
        // An interrupted read has ended its transaction already, or ends it here.
        if !connection.is_autocommit() {
            connection.prepare_cached("ROLLBACK")?.execute([])?;
        }
        match result {
            Err(FileError::Catalog(_)) if self.snapshot.too_old.load(Ordering::Relaxed) => {
                Err(FileError::SnapshotTooOld)
            }
            Err(FileError::Catalog(_))
                if matches!(self.link.vfs().image().error(), Some(StoreError::Stopped(_))) =>
            {
                Err(FileError::Dismounted)
            }
            other => other,
        }
    }

    /// Runs a statement of a client, and sends its result.
    pub(super) fn query(
        &mut self,
        sql: &str,
        live: &Live,
        limits: QueryLimits,
        out: &rows::Sender,
    ) {
        if let Err(error) = self.send_rows(sql, live, limits, out) {
            out.refuse(error);
        }
    }

    fn send_rows(
        &mut self,
        sql: &str,
        live: &Live,
        limits: QueryLimits,
        out: &rows::Sender,
    ) -> Result<(), AdminError> {
        live.fill(&self.link.connection).map_err(|error| self.refusal(&error, limits))?;
        let until = nanoseconds(self.world.monotonic().saturating_add(limits.time_max)).max(1);
        self.snapshot.deadline.store(until, Ordering::Relaxed);
        let connection = &mut self.link.connection;
        let (snapshot, world) = (&*self.snapshot, &*self.world);
        let may_wait = || !snapshot.is_over(world);
        let authorized = connection.authorizer(Some(authorize));
        let sent = authorized
            .map_err(Stop::from)
            .and_then(|()| send(connection, sql, limits, |piece| out.put(piece, world, may_wait)));
        let interrupted = matches!(&sent, Err(Stop::Unread)) || snapshot.is_over(world);
        self.snapshot.deadline.store(0, Ordering::Relaxed);
        let open = connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>);
        match (sent, open) {
            (Ok(()), Ok(())) => Ok(()),
            (Err(Stop::Refused(error)), _) => Err(error),
            (Err(Stop::Unread), _) => Err(self.interrupted(limits)),
            (Err(Stop::Sqlite(_)), _) if interrupted => Err(self.interrupted(limits)),
            (Err(Stop::Sqlite(error)), _) | (_, Err(error)) => Err(self.refusal(&error, limits)),
        }
    }

    /// Why a statement was ended before its result was complete.
    fn interrupted(&self, limits: QueryLimits) -> AdminError {
        if self.snapshot.too_old.load(Ordering::Relaxed) {
            let text = format!(
                "snapshot too old: more was changed while this was read than the catalog's log of {} MiB holds",
                LOG_MAX >> 20
            );
            return AdminError::new(Code::Busy, text).hint(
                "run it again when fewer files are made and removed, or ask for less at once",
            );
        }
        let text = format!("the query took longer than {} s", limits.time_max.as_secs());
        AdminError::new(Code::Invalid, text).hint("ask for less at once")
    }

    fn refusal(&self, error: &rusqlite::Error, limits: QueryLimits) -> AdminError {
        if error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted) {
            return self.interrupted(limits);
        }
        match error {
            rusqlite::Error::SqlInputError { msg, offset, .. } => {
                let error = AdminError::new(Code::Invalid, msg);
                match usize::try_from(*offset) {
                    Ok(at) => error.hint(format!("at byte {} of the statement", at + 1)),
                    Err(_) => error,
                }
            }
            rusqlite::Error::SqliteFailure(code, message)
                if code.code == rusqlite::ErrorCode::AuthorizationForStatementDenied =>
            {
                let text = message.clone().unwrap_or_else(|| "not authorized".into());
                AdminError::new(Code::Invalid, text)
                    .hint("queries can only SELECT, from the v$asm_ views and their tables")
            }
            rusqlite::Error::SqliteFailure(code, _)
                if matches!(
                    code.code,
                    rusqlite::ErrorCode::SystemIoFailure | rusqlite::ErrorCode::DatabaseCorrupt
                ) =>
            {
                let reason = self.link.vfs().image().error().map(|error| format!(": {error}"));
                AdminError::new(
                    Code::Damaged,
                    format!("the catalog cannot be read{}", reason.unwrap_or_default()),
                )
            }
            other => AdminError::new(Code::Invalid, other),
        }
    }
}

fn nanoseconds(since: Duration) -> i64 {
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Why a statement has no result.
enum Stop {
    Sqlite(rusqlite::Error),
    Refused(AdminError),
    /// The result was not received, or not in time.
    Unread,
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

fn send(
    connection: &Connection,
    sql: &str,
    limits: QueryLimits,
    put: impl Fn(Piece) -> bool,
) -> Result<(), Stop> {
    let put = |piece| if put(piece) { Ok(()) } else { Err(Stop::Unread) };
    let mut statement = connection.prepare(sql)?;
    let told = |column: rusqlite::Column<'_>| {
        (column.name().to_owned(), column.decl_type().map(str::to_owned))
    };
    let (names, types): (Vec<String>, Vec<Option<String>>) = statement.columns().map(told).unzip();
    let width = names.len();
    put(Piece::Columns(names, types))?;
    let (mut bytes, mut rows, mut total) = (Vec::new(), 0, 0);
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        rows::encode_count(width, &mut bytes);
        for column in 0..width {
            rows::encode_value(row.get_ref(column)?.into(), &mut bytes);
        }
        rows += 1;
        total += 1;
        if total > limits.rows_max {
            let text = format!("the result is larger than {} rows", limits.rows_max);
            return Err(Stop::Refused(
                AdminError::new(Code::Invalid, text).hint("add a WHERE or a LIMIT clause"),
            ));
        }
        if bytes.len() >= rows::PART {
            put(Piece::Part { rows, bytes: std::mem::take(&mut bytes) })?;
            rows = 0;
        }
    }
    put(Piece::Part { rows, bytes })
}

/// Lets a statement read the views and the tables that they use, and nothing else.
fn authorize(context: AuthContext<'_>) -> Authorization {
    let allowed = match context.action {
        AuthAction::Select | AuthAction::Recursive => true,
        AuthAction::Read { table_name, .. } => {
            let name = table_name.to_ascii_lowercase();
            name.is_empty() || columns::is_readable(&name)
        }
        AuthAction::Function { function_name } => !["load_extension", "fts3_tokenizer"]
            .contains(&function_name.to_ascii_lowercase().as_str()),
        _ => false,
    };
    if allowed { Authorization::Allow } else { Authorization::Deny }
}
