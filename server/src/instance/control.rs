//! The instance's control socket. It takes the requests of `plinth` that are no SQL statements, and
//! SQL statements too.
//!
//! The same rights hold here as on PostgreSQL's socket: a client that may only look gets results of
//! queries, nothing else.

use super::{
    Instance,
    session::{Context, Notice, Outcome, execute},
    sessions::Protocol,
    systemd,
};
use crate::{
    engine::exports::{At, Export},
    paths::Paths,
    process::Peer,
    query::{Cancel, Column, Table, views::Type},
    sql::{
        self, Role,
        rules::{Choice, Rules},
    },
    sql_error::{SqlError, state},
};
use plinth_engine::{
    admin::{AdminError, Report, Scope, ScrubOrder},
    catalog::rows::{decode_rows, in_parts},
};
use plinth_host::ipc::{Frames, Received, TooLong};
use serde::{Deserialize, Serialize};
use std::{
    io,
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

/// The name of the protocol in greetings.
const NAME: &str = "control";
/// How often the instance looks whether the client of a running request has cancelled it.
const SLICE: Duration = Duration::from_millis(50);
/// Most connections at one time.
const CONNECTIONS_MAX: usize = 64;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Statements, separated by semicolons.
    Sql(String),
    Mount {
        group: String,
        directory: PathBuf,
        options: String,
    },
    Remount {
        directory: PathBuf,
        options: String,
    },
    Unmount {
        directory: PathBuf,
        force: bool,
    },
    Export {
        group: String,
        export: Export,
    },
    Withdraw {
        group: String,
        at: At,
        name: String,
        cut: bool,
    },
    Check {
        group: String,
        repair: bool,
    },
    /// Scrubs a group to the end; answered with a `Report`.
    Scrub {
        group: String,
        order: ScrubOrder,
    },
    /// Has an engine of the program that is installed now take a group over.
    Upgrade {
        group: String,
    },
    Shutdown {
        force: bool,
    },
    /// Sends a test by every way by which alarms are sent; answered with a `Notice` for each, a
    /// warning if it failed.
    TestAlarm,
    /// Asks for the exports that a group shall have.
    Exports {
        group: String,
    },
    /// Waits for the next engine of a group that shall be mounted and has none.
    Await {
        group: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Notice {
        warning: bool,
        text: String,
    },
    /// The columns of a result. Its rows follow as `Part`s, and then the statement's `Tag`.
    Columns(Vec<(String, u8)>),
    Part {
        rows: usize,
    },
    /// One statement is done; its command tag.
    Tag(String),
    Report(Report),
    Exports(Vec<Export>),
    Refused(SqlError),
    /// All is done.
    Done,
}

fn type_number(kind: Type) -> u8 {
    match kind {
        Type::Integer => 0,
        Type::Real => 1,
        // The shell shows a time as it is.
        Type::Text | Type::Time => 2,
        Type::Truth => 3,
        Type::Letter => 4,
    }
}

/// Starts to listen.
pub(crate) fn listen(instance: &Arc<Instance>, listener: UnixListener) -> io::Result<()> {
    let instance = Arc::clone(instance);
    let connections = Arc::new(AtomicUsize::new(0));
    thread::Builder::new().name("control".into()).spawn(move || {
        loop {
            let Ok((stream, _)) = listener.accept() else {
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let Ok(peer) = Peer::of(&stream) else { continue };
            let Some(access) = instance.access(peer) else { continue };
            if connections.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS_MAX {
                connections.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            let (instance, counted) = (Arc::clone(&instance), Arc::clone(&connections));
            let talking = thread::Builder::new().name("command".into()).spawn(move || {
                let client = (Protocol::Control, "plinth");
                let context = Context::of_peer(&instance, access, peer, client);
                // Scripts come this way.
                let sql_rules = Choice::Always(Rules::Oracle);
                let _ = talk(&Context { waits_for_drops: true, sql_rules, ..context }, stream);
                counted.fetch_sub(1, Ordering::SeqCst);
            });
            if talking.is_err() {
                connections.fetch_sub(1, Ordering::SeqCst);
            }
        }
    })?;
    Ok(())
}

fn talk(context: &Context, stream: UnixStream) -> io::Result<()> {
    let frames = Frames::greet(stream, NAME)?;
    while let Some(Received { head, .. }) = frames.receive::<Request>()? {
        let result =
            carry_out(context, &frames, head).or_else(|error| match TooLong::of(&error) {
                Some(long) => Ok(Err(long.refusal().into())),
                None => Err(error),
            })?;
        match result {
            Ok(()) => frames.send(&Answer::Done, &[], None)?,
            Err(refusal) => frames.send(&Answer::Refused(refusal), &[], None)?,
        }
    }
    Ok(())
}

fn carry_out(
    context: &Context,
    frames: &Frames,
    request: Request,
) -> io::Result<Result<(), SqlError>> {
    let instance = &context.instance;
    if !matches!(request, Request::Sql(_)) && context.access != Role::Administer {
        return Ok(Err(SqlError::new(state::PERMISSION, "only an administrator may do this")
            .hint("root and the user as whom the instance runs administer")));
    }
    let told = |result: Result<(), AdminError>| Ok(result.map_err(SqlError::from));
    match request {
        Request::Sql(text) => {
            unless_cancelled(frames, |cancel| sql(context, frames, &text, cancel))
        }
        Request::Mount { group, directory, options } => {
            told(instance.mount_directory(&group, &directory, &options))
        }
        Request::Remount { directory, options } => told(instance.remount(&directory, &options)),
        Request::Unmount { directory, force } => told(instance.unmount(&directory, force)),
        Request::Export { group, export } => told(instance.export(&group, &export)),
        Request::Withdraw { group, at, name, cut } => {
            told(instance.withdraw(&group, &at, &name, cut))
        }
        Request::Check { group, repair } => {
            match instance
                .engine_in_service(&group)
                .and_then(|engine| engine.check(&Scope::All, repair))
            {
                Ok(report) => {
                    frames.send(&Answer::Report(report), &[], None)?;
                    Ok(Ok(()))
                }
                Err(error) => Ok(Err(error.into())),
            }
        }
        Request::Scrub { group, order } => {
            let found =
                unless_cancelled(frames, |cancel| Ok(context.scrub_group(&group, &order, cancel)))?;
            match found {
                Ok(report) => {
                    frames.send(&Answer::Report(report), &[], None)?;
                    Ok(Ok(()))
                }
                Err(refusal) => Ok(Err(refusal)),
            }
        }
        Request::Exports { group } => {
            frames.send(&Answer::Exports(instance.exports(&group)), &[], None)?;
            Ok(Ok(()))
        }
        Request::TestAlarm => match instance.test_alarm(&context.who) {
            Ok(tried) => {
                for (name, reason) in tried {
                    let (warning, reason) =
                        reason.map_or((false, "sent".to_owned()), |reason| (true, reason));
                    let text = format!("{name}: {reason}");
                    frames.send(&Answer::Notice { warning, text }, &[], None)?;
                }
                Ok(Ok(()))
            }
            Err(refusal) => Ok(Err(refusal)),
        },
        Request::Await { group } => Ok(instance.await_engine(&group).map_err(SqlError::from)),
        Request::Upgrade { group } => match instance.upgrade(&group) {
            Ok(text) => {
                frames.send(&Answer::Notice { warning: false, text }, &[], None)?;
                Ok(Ok(()))
            }
            Err(error) => Ok(Err(error.into())),
        },
        Request::Shutdown { force } => match instance.shut_down(force) {
            Ok(()) => {
                let _ = frames.send(&Answer::Done, &[], None);
                instance.leave(systemd::status_after_shutdown())
            }
            Err(error) => Ok(Err(error.into())),
        },
    }
}

/// Carries out a request that is cancelled when its client disconnects: the client waits for an
/// answer, and has no other way to cancel.
fn unless_cancelled<T>(
    frames: &Frames,
    run: impl FnOnce(&Cancel) -> io::Result<T>,
) -> io::Result<T> {
    let cancel = Cancel::default();
    thread::scope(|scope| {
        let (end, ended) = mpsc::channel::<()>();
        let watch = || {
            let ended = ended;
            while ended.recv_timeout(SLICE) == Err(RecvTimeoutError::Timeout) {
                if frames.is_ended() {
                    return cancel.cancel();
                }
            }
        };
        thread::Builder::new().name("cancel".into()).spawn_scoped(scope, watch)?;
        let result = run(&cancel);
        drop(end);
        result
    })
}

fn sql(
    context: &Context,
    frames: &Frames,
    text: &str,
    cancel: &Cancel,
) -> io::Result<Result<(), SqlError>> {
    let statements = match sql::parse(text) {
        Ok(statements) => statements,
        Err(refusal) => return Ok(Err(refusal)),
    };
    for statement in statements {
        if cancel.is_cancelled() {
            return Ok(Err(SqlError::canceled()));
        }
        let reply = execute(context, &statement, &[], cancel);
        for Notice { warning, text } in reply.notices {
            frames.send(&Answer::Notice { warning, text }, &[], None)?;
        }
        match reply.result {
            Ok(Outcome::Done) => {
                frames.send(&Answer::Tag(statement.tag().to_owned()), &[], None)?
            }
            Ok(Outcome::Rows(table)) => {
                let columns = table
                    .columns
                    .iter()
                    .map(|column| (column.name.clone(), type_number(column.kind)))
                    .collect();
                frames.send(&Answer::Columns(columns), &[], None)?;
                in_parts(&table.rows, |rows, body| {
                    frames.send(&Answer::Part { rows }, body, None)
                })?;
                frames.send(
                    &Answer::Tag(format!("{} {}", statement.tag(), table.rows.len())),
                    &[],
                    None,
                )?;
            }
            Err(refusal) => return Ok(Err(refusal)),
        }
    }
    Ok(Ok(()))
}

/// The result of a statement, on the client's side.
#[derive(Debug, Default)]
pub struct Given {
    pub notices: Vec<Notice>,
    pub table: Option<Table>,
    pub tag: String,
}

/// A client's connection to the instance.
#[derive(Debug)]
pub struct Client {
    frames: Frames,
}

impl Client {
    /// # Errors
    /// If no instance runs there, or it refuses this user.
    pub fn connect(paths: &Paths) -> Result<Self, SqlError> {
        let socket = paths.control();
        Frames::connect(&socket, NAME).map(|frames| Self { frames }).map_err(|error| {
            let text = format!("ASMCMD-8102: no connection to the instance: {}: {error}", socket.display());
            let refusal = SqlError::new("08001", text);
            match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => refusal.hint(format!(
                    "no instance serves {}; start one with 'plinth serve', or say --dir",
                    paths.dir().display()
                )),
                io::ErrorKind::PermissionDenied | io::ErrorKind::UnexpectedEof => refusal
                    .hint("the instance lets in root and its own user; others if it was started with --look-group"),
                _ => refusal,
            }
        })
    }

    fn lost(error: &io::Error) -> SqlError {
        if let Some(long) = TooLong::of(error) {
            return SqlError::new(state::TOO_COMPLEX, format!("the instance is not asked: {long}"));
        }
        SqlError::new("08006", format!("the instance is gone: {error}"))
    }

    fn next(&self) -> Result<(Answer, Vec<u8>), SqlError> {
        match self.frames.receive() {
            Ok(Some(received)) => match received.head {
                Answer::Refused(refusal) => Err(refusal),
                answer => Ok((answer, received.body)),
            },
            Ok(None) => Err(Self::lost(&io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(Self::lost(&error)),
        }
    }

    fn strange() -> SqlError {
        SqlError::new("08P01", "the instance answered something else than was asked")
    }

    fn ask(&self, request: &Request) -> Result<(), SqlError> {
        self.frames.send(request, &[], None).map_err(|error| Self::lost(&error))?;
        match self.next()?.0 {
            Answer::Done => Ok(()),
            _ => Err(Self::strange()),
        }
    }

    /// Runs statements and hands out each result.
    ///
    /// # Errors
    /// At the first statement that is refused. The results before it have been handed out, with
    /// their notices.
    pub fn sql(&self, text: &str, mut given: impl FnMut(Given)) -> Result<(), SqlError> {
        self.frames
            .send(&Request::Sql(text.to_owned()), &[], None)
            .map_err(|error| Self::lost(&error))?;
        let mut current = Given::default();
        loop {
            match self.next() {
                Ok((Answer::Done, _)) => return Ok(()),
                Ok((Answer::Notice { warning, text }, _)) => {
                    current.notices.push(Notice { warning, text })
                }
                Ok((Answer::Columns(columns), _)) => {
                    let kind = |number| match number {
                        0 => Type::Integer,
                        1 => Type::Real,
                        3 => Type::Truth,
                        4 => Type::Letter,
                        _ => Type::Text,
                    };
                    let columns = columns
                        .into_iter()
                        .map(|(name, number)| Column { name, kind: kind(number) })
                        .collect();
                    current.table = Some(Table { columns, rows: Vec::new() });
                }
                Ok((Answer::Part { rows }, body)) => {
                    let Some(table) = &mut current.table else { return Err(Self::strange()) };
                    table.rows.extend(decode_rows(rows, &body).ok_or_else(Self::strange)?);
                }
                Ok((Answer::Tag(tag), _)) => {
                    current.tag = tag;
                    given(std::mem::take(&mut current));
                }
                Ok(_) => return Err(Self::strange()),
                Err(refusal) => {
                    if !current.notices.is_empty() {
                        given(current);
                    }
                    return Err(refusal);
                }
            }
        }
    }

    /// Cancels the statement that another thread waits for; that thread gets the error. The
    /// connection cannot be used for requests after that.
    pub fn cancel(&self) {
        let _ = self.frames.stream().shutdown(Shutdown::Write);
    }

    /// # Errors
    /// If the instance refuses.
    pub fn mount(&self, group: &str, directory: &Path, options: &str) -> Result<(), SqlError> {
        self.ask(&Request::Mount {
            group: group.to_owned(),
            directory: directory.to_owned(),
            options: options.to_owned(),
        })
    }

    /// # Errors
    /// If the instance refuses.
    pub fn remount(&self, directory: &Path, options: &str) -> Result<(), SqlError> {
        self.ask(&Request::Remount { directory: directory.to_owned(), options: options.to_owned() })
    }

    /// # Errors
    /// If the instance refuses.
    pub fn unmount(&self, directory: &Path, force: bool) -> Result<(), SqlError> {
        self.ask(&Request::Unmount { directory: directory.to_owned(), force })
    }

    /// # Errors
    /// If the instance refuses.
    pub fn export(&self, group: &str, export: &Export) -> Result<(), SqlError> {
        self.ask(&Request::Export { group: group.to_owned(), export: export.clone() })
    }

    /// # Errors
    /// If the instance refuses.
    pub fn withdraw(&self, group: &str, export: &Export, cut: bool) -> Result<(), SqlError> {
        let (at, name) = (export.at.clone(), export.name.clone());
        self.ask(&Request::Withdraw { group: group.to_owned(), at, name, cut })
    }

    /// # Errors
    /// If the instance refuses.
    pub fn check(&self, group: &str, repair: bool) -> Result<Report, SqlError> {
        let found = self.fetch(&Request::Check { group: group.to_owned(), repair })?;
        if let Answer::Report(report) = found { Ok(report) } else { Err(Self::strange()) }
    }

    /// Scrubs a group to the end.
    ///
    /// # Errors
    /// If the instance refuses, or the scrub ended with an error.
    pub fn scrub(&self, group: &str, order: ScrubOrder) -> Result<Report, SqlError> {
        let found = self.fetch(&Request::Scrub { group: group.to_owned(), order })?;
        if let Answer::Report(report) = found { Ok(report) } else { Err(Self::strange()) }
    }

    /// The exports that a group shall have, whether they are made at the moment or not.
    ///
    /// # Errors
    /// If the instance refuses.
    pub fn exports(&self, group: &str) -> Result<Vec<Export>, SqlError> {
        let found = self.fetch(&Request::Exports { group: group.to_owned() })?;
        if let Answer::Exports(exports) = found { Ok(exports) } else { Err(Self::strange()) }
    }

    /// Waits for the next engine of a group that shall be mounted and has none.
    ///
    /// # Errors
    /// If none of its engines could mount it for a while.
    pub fn await_engine(&self, group: &str) -> Result<(), SqlError> {
        self.ask(&Request::Await { group: group.to_owned() })
    }

    /// Sends a request whose answer is one value and then `Done`.
    fn fetch(&self, request: &Request) -> Result<Answer, SqlError> {
        self.frames.send(request, &[], None).map_err(|error| Self::lost(&error))?;
        let found = self.next()?.0;
        if matches!(found, Answer::Done) {
            return Err(Self::strange());
        }
        match self.next()?.0 {
            Answer::Done => Ok(found),
            _ => Err(Self::strange()),
        }
    }

    /// Has another engine take a group over; returns the instance's report.
    ///
    /// # Errors
    /// If the instance refuses.
    pub fn upgrade(&self, group: &str) -> Result<String, SqlError> {
        self.frames
            .send(&Request::Upgrade { group: group.to_owned() }, &[], None)
            .map_err(|error| Self::lost(&error))?;
        let Answer::Notice { text, .. } = self.next()?.0 else { return Err(Self::strange()) };
        match self.next()?.0 {
            Answer::Done => Ok(text),
            _ => Err(Self::strange()),
        }
    }

    /// Sends a test by every way by which alarms are sent. Returns how each went: a warning if it
    /// failed.
    ///
    /// # Errors
    /// If there is none, or another test runs.
    pub fn test_alarm(&self) -> Result<Vec<Notice>, SqlError> {
        self.frames.send(&Request::TestAlarm, &[], None).map_err(|error| Self::lost(&error))?;
        let mut tried = Vec::new();
        loop {
            match self.next()?.0 {
                Answer::Notice { warning, text } => tried.push(Notice { warning, text }),
                Answer::Done => return Ok(tried),
                _ => return Err(Self::strange()),
            }
        }
    }

    /// # Errors
    /// If the instance refuses.
    pub fn shut_down(&self, force: bool) -> Result<(), SqlError> {
        self.ask(&Request::Shutdown { force })?;
        // The instance releases its directory at its very end, and closes this connection with it.
        // Then another instance can start.
        let _ = self.next();
        Ok(())
    }
}
