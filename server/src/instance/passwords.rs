//! Users with a password: which users may connect over the network, and with which role.
//!
//! Only verifiers are kept (`scram.rs`), in `instance.json`, which only the instance's user reads.
//! Names are kept in upper case; a client may write them in any.
//!
//! The roles are in `sql/role.rs`.
//!
//! A session's role is looked up for each statement: a user who was dropped is refused from then
//! on, connected or not.

use super::Instance;
use crate::{
    scram::Verifier,
    sql::{At, Role, statement::Password},
    sql_error::{SqlError, state},
};
use plinth_engine::{
    admin::{AdminError, Code, Value},
    event::Severity,
};
use plinth_host::lock;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// Most users: as many as fit a file that is rewritten with each change.
const USERS_MAX: usize = 1000;

/// The users in `instance.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passwords {
    /// The secret from which the verifiers of unknown names are made. Empty: not made yet.
    #[serde(default)]
    pub secret: String,
    #[serde(default)]
    pub users: BTreeMap<String, User>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub role: Role,
    /// As [`Verifier`] is written.
    pub verifier: String,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({})", self.role)
    }
}

impl Instance {
    /// The role of a user, as it is now.
    #[must_use]
    pub fn role(&self, user: &str) -> Option<Role> {
        lock(&self.state).passwords.users.get(&user.to_uppercase()).map(|user| user.role)
    }

    /// The verifier for a client that names this user, whether the user exists or not.
    pub(crate) fn verifier(&self, user: &str) -> Verifier {
        let name = user.to_uppercase();
        let state = lock(&self.state);
        let known =
            state.passwords.users.get(&name).and_then(|user| Verifier::parse(&user.verifier));
        known.unwrap_or_else(|| Verifier::of_nobody(&name, state.passwords.secret.as_bytes()))
    }

    /// Rows of `v$pwfile_users`. An administrator is SYSASM and SYSDBA, an operator SYSOPER.
    #[must_use]
    pub fn password_rows(&self) -> Vec<Vec<Value>> {
        let state = lock(&self.state);
        let truth = |is: bool| Value::Text(if is { "TRUE" } else { "FALSE" }.to_owned());
        let row = |(name, user): (&String, &User)| {
            let administers = truth(user.role == Role::Administer);
            let operates = truth(user.role >= Role::Operate);
            let role = Value::Text(user.role.to_string());
            vec![
                Value::Text(name.clone()),
                administers.clone(),
                operates,
                administers,
                Value::Integer(0),
                role,
            ]
        };
        state.passwords.users.iter().map(row).collect()
    }

    pub(super) fn create_user(
        &self,
        name: &At<String>,
        password: &Password,
        role: Role,
    ) -> Result<(), SqlError> {
        let verifier = made(password)?;
        self.change_users(|users| {
            if users.contains_key(&name.value) {
                return Err(SqlError::new(
                    "42710",
                    format!("there is a user {} already", name.value),
                )
                .hint("ALTER USER changes its password, or its role")
                .at(name.at));
            }
            if users.len() >= USERS_MAX {
                return Err(SqlError::new(
                    state::TOO_COMPLEX,
                    format!("there are {USERS_MAX} users already"),
                ));
            }
            users.insert(name.value.clone(), User { role, verifier });
            Ok(())
        })?;
        self.alert().line(
            Severity::Note,
            "instance",
            &format!("user {} is made, with the role {role}", name.value),
        );
        Ok(())
    }

    pub(super) fn alter_user(
        &self,
        name: &At<String>,
        password: Option<&Password>,
        role: Option<Role>,
    ) -> Result<(), SqlError> {
        let verifier = password.map(made).transpose()?;
        self.change_users(|users| {
            let user = users.get_mut(&name.value).ok_or_else(|| nobody(name))?;
            user.role = role.unwrap_or(user.role);
            if let Some(verifier) = verifier {
                user.verifier = verifier;
            }
            Ok(())
        })?;
        let what = match role {
            Some(role) => format!("user {} has the role {role}", name.value),
            None => format!("user {} has another password", name.value),
        };
        self.alert().line(Severity::Note, "instance", &what);
        Ok(())
    }

    pub(super) fn drop_user(&self, name: &At<String>) -> Result<(), SqlError> {
        self.change_users(|users| users.remove(&name.value).map(drop).ok_or_else(|| nobody(name)))?;
        self.alert().line(Severity::Note, "instance", &format!("user {} is dropped", name.value));
        Ok(())
    }

    /// Changes the users, durably, or not at all.
    fn change_users(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, User>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let mut state = lock(&self.state);
        let mut next = state.clone();
        change(&mut next.passwords.users)?;
        next.store(&self.paths.instance())
            .map_err(|error| SqlError::from(AdminError::new(Code::Io, error)))?;
        *state = next;
        Ok(())
    }
}

fn nobody(name: &At<String>) -> SqlError {
    SqlError::new(state::UNKNOWN_SETTING, format!("there is no user {}", name.value))
        .hint("v$pwfile_users shows those that there are")
        .at(name.at)
}

/// The verifier of a password; one that a client has made already is taken as it is.
fn made(password: &Password) -> Result<String, SqlError> {
    let text = &password.0.value;
    if text.is_empty() {
        return Err(SqlError::new("28P01", "a password is not empty").at(password.0.at));
    }
    if text.len() > PASSWORD_MAX {
        return Err(SqlError::new("28P01", format!("a password has at most {PASSWORD_MAX} bytes"))
            .at(password.0.at));
    }
    let verifier = Verifier::parse(text).or_else(|| Verifier::of(text));
    verifier
        .map(|verifier| verifier.to_string())
        .ok_or_else(|| SqlError::new(state::INTERNAL, "no random bytes"))
}

/// Most bytes of a password: the limit that clients have.
const PASSWORD_MAX: usize = 1000;
