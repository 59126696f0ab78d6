//! Users who have logged in on the page.
//!
//! ```text
//!   user and password --log_in--> a session's key --of_key, of_key ...--> the user
//!                                      ends: log_out; 30 minutes without a statement, 12 hours in
//!                                      all; another password or no user of that name any more
//! ```
//!
//! Users, passwords and roles are those of PostgreSQL's protocol over the network (`CREATE USER`).
//! The password itself comes here, over TLS or a loopback address, and is compared with its
//! verifier: to hash it costs milliseconds, so a few are hashed at a time, and the next ones wait.
//! A failure is answered after a pause, which keeps its place: a guesser gets a few guesses a
//! second however many connections it has.
//!
//! The page keeps the key in the tab and sends it in a header of its own. A browser adds no such
//! header by itself, so a page of others can do nothing with it.

use crate::{
    instance::Instance,
    login_failures::{Failures, PAUSE},
    scram,
    scram::Verifier,
    sql::Role,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use plinth_host::lock;
use ring::digest::{SHA256, digest};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

/// Sessions at one time. With one more, the one that has been idle for the longest ends.
const SESSIONS_MAX: usize = 64;
const IDLE_MAX: Duration = Duration::from_mins(30);
const AGE_MAX: Duration = Duration::from_hours(12);
/// The longest name and password, in bytes.
const NAME_MAX: usize = 128;
const PASSWORD_MAX: usize = 1024;

/// The hash of a session's key: who reads it cannot use it.
type KeyHash = [u8; 32];

struct Session {
    user: String,
    /// A change of the password ends the session.
    verifier: Verifier,
    began: Instant,
    used: Instant,
}

impl Session {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.began) >= AGE_MAX || now.duration_since(self.used) >= IDLE_MAX
    }
}

/// The sessions that there are.
#[derive(Default)]
struct Sessions(BTreeMap<KeyHash, Session>);

impl Sessions {
    fn admit(&mut self, key: &str, user: String, verifier: Verifier, now: Instant) {
        self.0.retain(|_, session| !session.is_over(now));
        while self.0.len() >= SESSIONS_MAX {
            let idle = self.0.iter().min_by_key(|(_, session)| session.used);
            let Some(idle) = idle.map(|(key, _)| *key) else { break };
            self.0.remove(&idle);
        }
        self.0.insert(hash(key), Session { user, verifier, began: now, used: now });
    }

    /// The user of a session, whose idle time begins anew, and the role that `role` gives; without
    /// one the session ends.
    fn find(
        &mut self,
        key: &str,
        now: Instant,
        role: impl FnOnce(&Session) -> Option<Role>,
    ) -> Option<(String, Role)> {
        let hash = hash(key);
        let session = self.0.get_mut(&hash)?;
        let role = role(session).filter(|_| !session.is_over(now));
        session.used = now;
        let found = role.map(|role| (session.user.clone(), role));
        if found.is_none() {
            self.0.remove(&hash);
        }
        found
    }
}

/// Users and their sessions.
pub(super) struct Logins {
    instance: Arc<Instance>,
    failures: Failures,
    sessions: Mutex<Sessions>,
}

fn hash(key: &str) -> KeyHash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, key.as_bytes()).as_ref());
    hash
}

impl Logins {
    pub fn new(instance: &Arc<Instance>) -> Self {
        let (failures, sessions) = (Failures::default(), Mutex::default());
        Self { instance: Arc::clone(instance), failures, sessions }
    }

    /// A new session's key, and the user's role. Takes long: to hash, and to pause after a failure.
    pub fn log_in(&self, user: &str, password: &str, from: SocketAddr) -> Option<(String, Role)> {
        let is_short = user.len() <= NAME_MAX && password.len() <= PASSWORD_MAX;
        let verifier = self.instance.verifier(user);
        let is_right = is_short && verifier.is_of(password);
        let role = self.instance.role(user).filter(|_| is_right);
        let key = role.and_then(|_| scram::random::<32>()).map(|key| URL_SAFE_NO_PAD.encode(key));
        let (Some(role), Some(key)) = (role, key) else {
            let why = "no such user, or a wrong password";
            self.failures.report(self.instance.alert(), user, from, why);
            thread::sleep(PAUSE);
            return None;
        };
        lock(&self.sessions).admit(&key, user.to_uppercase(), verifier, Instant::now());
        Some((key, role))
    }

    /// The user of a session, and its present role.
    pub fn of_key(&self, key: &str) -> Option<(String, Role)> {
        lock(&self.sessions).find(key, Instant::now(), |session| {
            let is_same = self.instance.verifier(&session.user) == session.verifier;
            self.instance.role(&session.user).filter(|_| is_same)
        })
    }

    pub fn log_out(&self, key: &str) {
        lock(&self.sessions).0.remove(&hash(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(sessions: &mut Sessions, key: &str, now: Instant) {
        let verifier = Verifier::of_nobody(key, b"secret");
        sessions.admit(key, key.to_uppercase(), verifier, now);
    }

    fn is_there(sessions: &mut Sessions, key: &str, now: Instant) -> bool {
        sessions.find(key, now, |_| Some(Role::Look)).is_some()
    }

    #[test]
    fn a_session_ends_when_it_is_idle_when_it_is_old_and_when_its_user_is_gone() {
        let (mut sessions, start) = (Sessions::default(), Instant::now());
        let minute = Duration::from_mins(1);
        for key in ["idle", "busy", "gone"] {
            admit(&mut sessions, key, start);
        }
        assert!(!is_there(&mut sessions, "other", start));
        let mut now = start;
        while now + 29 * minute < start + AGE_MAX {
            now += 29 * minute;
            assert!(is_there(&mut sessions, "busy", now));
        }
        assert!(!is_there(&mut sessions, "idle", start + IDLE_MAX));
        assert!(!is_there(&mut sessions, "busy", start + AGE_MAX));
        assert_eq!(sessions.find("gone", start, |_| None), None);
        assert!(!is_there(&mut sessions, "gone", start), "it has ended for good");
    }

    #[test]
    fn with_too_many_sessions_the_idlest_ends() {
        let (mut sessions, start) = (Sessions::default(), Instant::now());
        let second = |number: usize| start + Duration::from_secs(number as u64);
        for number in 0..SESSIONS_MAX {
            admit(&mut sessions, &number.to_string(), second(number));
        }
        assert!(is_there(&mut sessions, "0", second(SESSIONS_MAX)));
        admit(&mut sessions, "more", second(SESSIONS_MAX));
        assert_eq!(sessions.0.len(), SESSIONS_MAX);
        assert!(is_there(&mut sessions, "0", second(SESSIONS_MAX)));
        assert!(!is_there(&mut sessions, "1", second(SESSIONS_MAX)));
    }
}
