//! A refusal as people get it: over the PostgreSQL protocol, in the shell, as JSON.
//!
//! The engine refuses with an [`AdminError`]: a stable code, a sentence, a hint. Statements add where in the
//! text it is. Here both get the five characters of SQLSTATE that PostgreSQL's clients act on, and the number under
//! which an Oracle DBA knows the same trouble.

use plinth_engine::admin::{AdminError, Code};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a statement or a command was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// SQLSTATE.
    pub state: String,
    /// One sentence that names the thing and the place.
    pub message: String,
    /// What the operator can do, if there is something.
    pub hint: Option<String>,
    /// Our stable code, and Oracle's number where there is one.
    pub detail: Option<String>,
    /// Where in the statement: characters from its start, counted from 0.
    pub at: Option<usize>,
    /// The engine's code, if it was the engine (or the instance in its place) that refused.
    pub code: Option<Code>,
}

/// The SQLSTATEs that are not derived from a [`Code`].
pub mod state {
    pub const SYNTAX: &str = "42601";
    pub const PERMISSION: &str = "42501";
    pub const NOT_SUPPORTED: &str = "0A000";
    pub const CANCELED: &str = "57014";
    pub const PROTOCOL: &str = "08P01";
    pub const TOO_MANY_CONNECTIONS: &str = "53300";
    pub const TOO_COMPLEX: &str = "54000";
    pub const IN_TRANSACTION: &str = "25001";
    pub const UNKNOWN_SETTING: &str = "42704";
    pub const INTERNAL: &str = "XX000";
    pub const BAD_VALUE: &str = "22P02";
}

impl Refusal {
    #[must_use]
    pub fn new(state: &str, message: impl fmt::Display) -> Self {
        Self { state: state.to_owned(), message: message.to_string(), hint: None, detail: None, at: None, code: None }
    }

    /// A syntax error at character `at`, counted from 0.
    #[must_use]
    pub fn syntax(at: usize, message: impl fmt::Display) -> Self {
        Self::new(state::SYNTAX, message).at(at)
    }

    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    #[must_use]
    pub fn at(mut self, at: usize) -> Self {
        self.at = Some(at);
        self
    }

    /// Adds a place unless there is one.
    #[must_use]
    pub fn or_at(mut self, at: usize) -> Self {
        self.at.get_or_insert(at);
        self
    }

    /// The statement was cancelled by its client.
    #[must_use]
    pub fn canceled() -> Self {
        Self::new(state::CANCELED, "cancelled on request of the client")
    }
}

impl From<AdminError> for Refusal {
    fn from(error: AdminError) -> Self {
        let (state, oracle) = known_as(error.code);
        let detail = match oracle {
            Some(number) => format!("{:?}, which Oracle calls ORA-{number}", error.code),
            None => format!("{:?}", error.code),
        };
        Self {
            state: state.to_owned(),
            message: error.message,
            hint: error.hint,
            detail: Some(detail),
            at: None,
            code: Some(error.code),
        }
    }
}

/// SQLSTATE, and Oracle's number where Oracle has the same error.
fn known_as(code: Code) -> (&'static str, Option<u32>) {
    match code {
        Code::NoGroup => ("42704", Some(15001)),
        Code::GroupExists => ("42710", Some(15018)),
        Code::NotMounted => ("55000", Some(15001)),
        Code::AlreadyMounted => ("55000", Some(15013)),
        Code::UnknownDisk => ("58P01", Some(15014)),
        Code::NoSuchDisk => ("42704", Some(15054)),
        Code::DiskInUse => ("55006", Some(15033)),
        Code::DiskTooSmall => ("22023", None),
        Code::DiskMismatch => ("22023", Some(15038)),
        Code::CannotOpen => ("58030", Some(15025)),
        Code::DuplicateDisk => ("42710", Some(15020)),
        Code::NotEnoughFailureGroups => ("22023", Some(15072)),
        Code::NoQuorum => ("55000", Some(15063)),
        Code::WouldLoseData => ("55000", Some(15066)),
        Code::Busy => ("55006", Some(15028)),
        Code::HeldElsewhere => ("55006", Some(15073)),
        Code::Invalid => ("22023", None),
        Code::NotSupported => (state::NOT_SUPPORTED, None),
        Code::NoSpace => ("53100", Some(15041)),
        Code::Io => ("58030", Some(15080)),
        Code::Damaged => ("XX001", Some(15335)),
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}
