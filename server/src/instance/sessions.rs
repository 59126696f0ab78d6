//! The sessions of an instance's clients: the rows of `v$session`.
//!
//! ```text
//!   connected --statement begins--> ACTIVE --statement ends--> INACTIVE --...--> disconnected
//! ```
//!
//! A session has the lowest number that is free, and a serial number that no other session of this
//! instance has had. It is in the list as long as anything of it is left: a statement that goes on
//! without its client keeps it there.

use crate::{query::settings::Settings, sql::Role};
use plinth_host::lock;
use rustix::thread::gettid;
use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    sync::{Arc, Mutex, Weak},
};

/// Most clients of PostgreSQL's protocol at one time.
pub const CONNECTIONS_MAX: usize = 500;

/// Where a client is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A process of this host.
    Here { pid: i32, user: String },
    /// A host that the client connected from.
    There(SocketAddr),
}

/// How a client talks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Postgresql,
    Control,
    /// The dashboard.
    Http,
}

/// A client's session.
#[derive(Debug)]
pub struct Session {
    sessions: Arc<Sessions>,
    pub sid: u32,
    pub serial: u64,
    /// In upper case.
    pub user: String,
    /// The role at the time of the login.
    pub role: Role,
    pub place: Place,
    pub protocol: Protocol,
    /// The name that the client gave when it connected; it may be empty.
    pub application: String,
    /// The settings that the client has changed.
    pub settings: Arc<Mutex<Settings>>,
    /// The name of the client's process, if it is known.
    pub program: Option<String>,
    /// The thread of the connection.
    pub thread: i32,
    /// Nanoseconds since 1970.
    pub began: i64,
    now: Mutex<Now>,
}

/// The activity of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Statements that run. More than one only if an earlier one goes on after it was cancelled.
    running: usize,
    /// When that became some, or none: nanoseconds since 1970.
    pub since: i64,
    /// The kind of the last statement.
    pub statement: Option<&'static str>,
}

impl Now {
    #[must_use]
    pub fn is_active(self) -> bool {
        self.running > 0
    }
}

/// The sessions by number.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// How many there have been.
    count: u64,
    present: BTreeMap<u32, Weak<Session>>,
}

/// The name of a process, as the kernel knows it.
fn program_of(pid: i32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

impl Sessions {
    /// A new session, of the calling thread.
    #[must_use]
    pub fn begin(
        self: &Arc<Self>,
        (user, role): (&str, Role),
        place: Place,
        (protocol, application): (Protocol, &str),
    ) -> Arc<Session> {
        let program = match &place {
            Place::Here { pid, .. } => program_of(*pid),
            Place::There(_) => None,
        };
        let began = crate::alert::now();
        let mut table = lock(&self.0);
        table.count += 1;
        let sid = (1..).find(|sid| !table.present.contains_key(sid)).unwrap_or(u32::MAX);
        let session = Arc::new(Session {
            sessions: Arc::clone(self),
            sid,
            serial: table.count,
            user: user.to_uppercase(),
            role,
            place,
            protocol,
            application: application.to_owned(),
            settings: Arc::default(),
            program,
            thread: gettid().as_raw_nonzero().get(),
            began,
            now: Mutex::new(Now { running: 0, since: began, statement: None }),
        });
        table.present.insert(sid, Arc::downgrade(&session));
        session
    }

    /// The sessions that there are, by number.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Session>> {
        // Not under the lock: a session whose last reference this is takes it when it is dropped.
        let present: Vec<Weak<Session>> = lock(&self.0).present.values().cloned().collect();
        present.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        lock(&self.sessions.0).present.remove(&self.sid);
    }
}

/// A statement that runs in a session, until it is dropped.
pub struct Running<'a>(&'a Session);

impl Session {
    /// The schema that the client has chosen, in upper case.
    #[must_use]
    pub fn schema(&self) -> String {
        lock(&self.settings).get("current_schema").unwrap_or("SYS").to_uppercase()
    }

    /// The name that the client has last given itself.
    #[must_use]
    pub fn module(&self) -> String {
        let settings = lock(&self.settings);
        settings.get("application_name").unwrap_or(&self.application).to_owned()
    }

    #[must_use]
    pub fn now(&self) -> Now {
        *lock(&self.now)
    }

    /// A statement of this kind begins.
    #[must_use]
    pub fn run(&self, statement: &'static str) -> Running<'_> {
        let mut now = lock(&self.now);
        if now.running == 0 {
            now.since = crate::alert::now();
        }
        now.running += 1;
        now.statement = Some(statement);
        Running(self)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut now = lock(&self.0.now);
        now.running -= 1;
        if now.running == 0 {
            now.since = crate::alert::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(sessions: &Arc<Sessions>) -> Arc<Session> {
        let pid = std::process::id().cast_signed();
        let here = Place::Here { pid, user: "root".to_owned() };
        sessions.begin(("root", Role::Look), here, (Protocol::Control, "test"))
    }

    #[test]
    fn a_number_is_free_again_when_its_session_has_ended_and_a_serial_number_never() {
        let sessions = Arc::default();
        let (first, second) = (session(&sessions), session(&sessions));
        assert_eq!((first.sid, second.sid), (1, 2));
        assert!(first.program.is_some() && first.user == "ROOT");
        let still = Arc::clone(&first);
        drop(first);
        assert_eq!(session(&sessions).sid, 3, "a statement goes on in session 1");
        drop(still);
        let third = session(&sessions);
        assert_eq!((third.sid, third.serial), (1, 4));
        let all: Vec<u32> = sessions.all().iter().map(|session| session.sid).collect();
        assert_eq!(all, [1, 2]);
    }

    #[test]
    fn a_session_is_active_while_a_statement_runs() {
        let sessions = Arc::default();
        let session = session(&sessions);
        assert!(!session.now().is_active() && session.now().statement.is_none());
        let (one, other) = (session.run("SELECT"), session.run("SHOW"));
        drop(one);
        assert!(session.now().is_active(), "one of two has ended");
        drop(other);
        assert!(!session.now().is_active());
        assert_eq!(session.now().statement, Some("SHOW"));
        assert!(session.now().since >= session.began);
    }

    #[test]
    fn a_session_is_what_its_client_calls_itself() {
        let sessions = Arc::default();
        let session = session(&sessions);
        assert_eq!((session.module().as_str(), session.schema().as_str()), ("test", "SYS"));
        lock(&session.settings).set("application_name", Some("other"));
        lock(&session.settings).set("current_schema", Some("mine"));
        assert_eq!((session.module().as_str(), session.schema().as_str()), ("other", "MINE"));
    }
}
