//! The changes that a user who has logged in can make on the page. Each question is a POST of JSON:
//!
//! ```text
//!   /api/login      {user, password}   -->  {session, user, role}, or 401
//!   /api/logout     {}                 -->  {}; the session ends
//!   /api/statement  {statement}        -->  {running, notices, error}
//! ```
//!
//! The page shows a statement before it sends it, and this text is the one that runs: by the same
//! parser, roles and code as over PostgreSQL's protocol, and with a line in the alert log. Of all
//! statements only those are taken that the page has buttons for: `ONLINE`, `OFFLINE`, `REBALANCE`
//! and `SCRUB` of `ALTER DISKGROUP`.
//!
//! A statement runs on a thread of its own. If it takes longer than [`PATIENCE`], the client hears
//! that it goes on; so an engine that hangs keeps one of [`RUNNING_MAX`] places, and no client.
//!
//! A session's key comes in the header [`SESSION`]. A question that is not JSON by its header is
//! refused: pages of others can send nothing else without asking first, and nothing is answered to
//! that.

use super::{
    super::routes::{Answer, JSON, plain, refusal},
    logins::Logins,
};
use crate::{
    instance::{
        Instance,
        session::{Context, Outcome, Reply, execute},
        sessions::Protocol,
    },
    query::Cancel,
    sql::{self, Role, Statement, statement::Alter},
    sql_error::SqlError,
    text::clean,
};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::{
    StatusCode,
    body::Body,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue},
};
use plinth_engine::{admin::Command, event::Severity};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::timeout,
};

/// The header with a session's key.
pub(super) const SESSION: &str = "plinth-session";
/// The longest question.
const BODY_MAX: usize = 8 << 10;
/// How long a question may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(10);
/// How long an answer waits for a statement's end.
const PATIENCE: Duration = Duration::from_secs(10);
/// Statements at one time.
const RUNNING_MAX: usize = 8;
/// Passwords that are hashed, or whose failure pauses, at one time.
const LOGINS_MAX: usize = 2;
/// How long a login waits for its turn.
const TURN: Duration = Duration::from_secs(20);

/// Threads that the questions here may hold.
pub(in super::super) const THREADS_MAX: usize = RUNNING_MAX + LOGINS_MAX;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    user: String,
    password: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    statement: String,
}

#[derive(Serialize)]
struct LoggedIn {
    session: String,
    user: String,
    role: Role,
}

/// The end of a statement, or that it has none yet.
#[derive(Debug, Default, Serialize)]
struct Fate {
    /// It has not ended yet.
    running: bool,
    notices: Vec<String>,
    error: Option<String>,
    hint: Option<String>,
}

/// Why a question is not answered.
type Refused = (StatusCode, &'static str);

/// The questions that change something.
pub(in super::super) struct Actions {
    instance: Arc<Instance>,
    logins: Arc<Logins>,
    login_turns: Arc<Semaphore>,
    running: Arc<Semaphore>,
}

impl Actions {
    pub fn new(instance: &Arc<Instance>) -> Self {
        Self {
            instance: Arc::clone(instance),
            logins: Arc::new(Logins::new(instance)),
            login_turns: Arc::new(Semaphore::new(LOGINS_MAX)),
            running: Arc::new(Semaphore::new(RUNNING_MAX)),
        }
    }

    /// Whether there is such a question.
    pub fn are_at(path: &str) -> bool {
        ["/api/login", "/api/logout", "/api/statement"].contains(&path)
    }

    /// Answers a POST to one of these paths.
    pub async fn answer<B>(
        &self,
        path: &str,
        headers: &HeaderMap,
        body: B,
        from: SocketAddr,
    ) -> Answer
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let is_json = |value: &HeaderValue| value.as_bytes().starts_with(b"application/json");
        if !headers.get(CONTENT_TYPE).is_some_and(is_json) {
            let text = "a question here is JSON: Content-Type: application/json\n";
            return refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, text);
        }
        let body = timeout(BODY_TIME, Limited::new(body, BODY_MAX).collect()).await;
        let Ok(Ok(body)) = body else {
            let text = "a question is 8 KiB at most, and comes at once\n";
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, text);
        };
        let body = body.to_bytes();
        let key = headers.get(SESSION).and_then(|key| key.to_str().ok()).unwrap_or_default();
        let answered = match path {
            "/api/login" => self.log_in(&body, from).await,
            "/api/logout" => read::<Nothing>(&body).map(|_| {
                self.logins.log_out(key);
                json(&Fate::default())
            }),
            _ => self.run(&body, key, from).await,
        };
        answered.unwrap_or_else(|(status, text)| refusal(status, text))
    }

    async fn log_in(&self, body: &[u8], from: SocketAddr) -> Result<Answer, Refused> {
        let login: Login = read(body)?;
        let turn = timeout(TURN, Arc::clone(&self.login_turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(busy("too many logins at a time\n")) };
        let logins = Arc::clone(&self.logins);
        let logged_in = spawn_blocking(move || {
            let _turn = turn;
            let found = logins.log_in(&login.user, &login.password, from);
            found.map(|(session, role)| LoggedIn { session, user: login.user, role })
        });
        match logged_in.await {
            Ok(Some(logged_in)) => Ok(json(&logged_in)),
            _ => Err((StatusCode::UNAUTHORIZED, "no such user, or a wrong password\n")),
        }
    }

    async fn run(&self, body: &[u8], key: &str, from: SocketAddr) -> Result<Answer, Refused> {
        let Some((user, role)) = self.logins.of_key(key) else {
            return Err((StatusCode::UNAUTHORIZED, "log in first, or again\n"));
        };
        let order: Order = read(body)?;
        let statement = match of_the_page(&order.statement) {
            Ok(statement) => statement,
            Err(refused) => return Ok(json(&Fate::of_error(refused))),
        };
        let Ok(place) = Arc::clone(&self.running).try_acquire_owned() else {
            return Err(busy("earlier statements have not ended yet\n"));
        };
        let instance = Arc::clone(&self.instance);
        let text = clean(&order.statement);
        let running = spawn_blocking(move || {
            carry_out(&instance, (&user, role), from, (&statement, &text), &place)
        });
        Ok(match timeout(PATIENCE, running).await {
            Ok(Ok(reply)) => json(&Fate::of_reply(reply)),
            Ok(Err(_)) => return Err(busy("the statement has ended without an answer\n")),
            Err(_) => json(&Fate { running: true, ..Fate::default() }),
        })
    }
}

fn carry_out(
    instance: &Arc<Instance>,
    (user, role): (&str, Role),
    from: SocketAddr,
    (statement, text): (&Statement, &str),
    _place: &OwnedSemaphorePermit,
) -> Reply {
    let context = Context::of_user(instance, role, user, from, (Protocol::Http, "dashboard"));
    let line = format!("{} at {from} runs on the dashboard: {text}", context.who);
    instance.alert().line(Severity::Note, "instance", &line);
    execute(&context, statement, &[], &Cancel::default())
}

/// The statement in a text, if it is one of those that the page has buttons for.
fn of_the_page(text: &str) -> Result<Statement, SqlError> {
    let mut statements = sql::parse_without_variables(text)?;
    match (statements.pop(), statements.is_empty()) {
        (Some(statement), true) if is_of_page(&statement) => Ok(statement),
        _ => {
            let text = "the dashboard runs ONLINE, OFFLINE, REBALANCE and SCRUB of ALTER DISKGROUP, one at a time";
            let error = SqlError::new(crate::sql_error::state::PERMISSION, text.to_owned());
            Err(error.hint("run it in plinth sql, or in psql"))
        }
    }
}

fn is_of_page(statement: &Statement) -> bool {
    let Statement::Alter(Alter { command, .. }) = statement else { return false };
    matches!(
        command,
        Command::Online { .. }
            | Command::Offline { .. }
            | Command::Rebalance(_)
            | Command::Scrub(_)
            | Command::StopScrub
    )
}

impl Fate {
    fn of_error(error: SqlError) -> Self {
        Self { error: Some(error.message), hint: error.hint, ..Self::default() }
    }

    fn of_reply(reply: Reply) -> Self {
        let notices = reply.notices.into_iter().map(|notice| notice.text).collect();
        let end = match reply.result {
            Ok(Outcome::Done | Outcome::Rows(_)) => Self::default(),
            Err(error) => Self::of_error(error),
        };
        Self { notices, ..end }
    }
}

/// The question in a body.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body)
        .map_err(|_| (StatusCode::BAD_REQUEST, "this question is not understood\n"))
}

fn json(value: &impl Serialize) -> Answer {
    // Texts, numbers and truth values can always be written.
    plain(StatusCode::OK, JSON, serde_json::to_vec(value).unwrap_or_default().into())
}

const fn busy(text: &'static str) -> Refused {
    (StatusCode::SERVICE_UNAVAILABLE, text)
}
