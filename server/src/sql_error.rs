//! A refusal as clients get it: over the PostgreSQL protocol, in the shell, as JSON.
//!
//! The engine refuses with an [`AdminError`]: a stable code, a sentence, a hint. Statements add the
//! position in their text. Here both get the five characters of SQLSTATE that PostgreSQL's clients
//! act on, and the number under which an Oracle DBA knows the same error.

use plinth_engine::admin::{AdminError, Code};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a statement or a command was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqlError {
    /// SQLSTATE.
    pub state: String,
    /// One sentence that names the thing and the place.
    pub message: String,
    /// A remedy for the operator, if there is one.
    pub hint: Option<String>,
    /// Our stable code, and Oracle's number where there is one.
    pub detail: Option<String>,
    /// Position in the statement: characters from its start, counted from 0.
    pub at: Option<usize>,
    /// The engine's code, if the engine refused (or the instance in its place).
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
    pub const BAD_DATA: &str = "22000";
    pub const OUT_OF_RANGE: &str = "22003";
    pub const BAD_TIME: &str = "22007";
    pub const DIVISION_BY_ZERO: &str = "22012";
    pub const WRONG_PASSWORD: &str = "28P01";
}

impl SqlError {
    #[must_use]
    pub fn new(state: &str, message: impl fmt::Display) -> Self {
        let detail = known_by_state(state).map(|(word, oracle)| detail(word, oracle));
        Self {
            state: state.to_owned(),
            message: message.to_string(),
            hint: None,
            detail,
            at: None,
            code: None,
        }
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
    pub fn detail(mut self, detail: impl fmt::Display) -> Self {
        self.detail = Some(detail.to_string());
        self
    }

    #[must_use]
    pub fn at(mut self, at: usize) -> Self {
        self.at = Some(at);
        self
    }

    /// Adds the position unless there is one.
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

impl From<AdminError> for SqlError {
    fn from(error: AdminError) -> Self {
        let (state, oracle) = known_as(error.code);
        let detail = detail(&format!("{:?}", error.code), oracle);
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

fn detail(word: &str, oracle: Option<u32>) -> String {
    match oracle {
        Some(number) => format!("{word}, which Oracle calls ORA-{number:05}"),
        None => word.to_owned(),
    }
}

/// Our word, and Oracle's number, for refusals that do not come from the engine.
fn known_by_state(state: &str) -> Option<(&'static str, Option<u32>)> {
    Some(match state {
        state::SYNTAX => ("Syntax", Some(900)),
        state::PERMISSION => ("NotPermitted", Some(1031)),
        state::NOT_SUPPORTED => ("NotSupported", Some(3001)),
        state::CANCELED => ("Cancelled", Some(1013)),
        state::TOO_MANY_CONNECTIONS => ("TooManyConnections", Some(20)),
        state::TOO_COMPLEX => ("TooComplex", None),
        state::UNKNOWN_SETTING => ("Unknown", None),
        state::BAD_VALUE => ("BadValue", Some(1722)),
        state::OUT_OF_RANGE => ("TooManyDigits", Some(1426)),
        state::DIVISION_BY_ZERO => ("DivisionByZero", Some(1476)),
        state::WRONG_PASSWORD => ("NotLetIn", Some(1017)),
        state::PROTOCOL => ("Protocol", None),
        state::IN_TRANSACTION => ("InTransaction", None),
        state::INTERNAL => ("Defect", Some(600)),
        "42P01" => ("NoSuchView", Some(942)),
        "42703" => ("NoSuchColumn", Some(904)),
        "42883" => ("NoSuchFunction", Some(904)),
        "42702" => ("AmbiguousColumn", Some(918)),
        "42P02" => ("MissingParameter", Some(1008)),
        "42710" => ("Exists", Some(1920)),
        state::BAD_DATA => ("BadData", None),
        state::BAD_TIME => ("BadTime", Some(1861)),
        "28000" => ("NotLetIn", Some(1017)),
        _ => return None,
    })
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
        Code::NoSuchUser => ("42704", None),
        Code::UserExists => ("42710", None),
        Code::UserInUse => ("2BP01", None),
        Code::NoSuchVolume => ("42704", None),
        Code::VolumeExists => ("42710", None),
        Code::Restricted => ("55000", None),
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
        Code::NoSuchFile => ("58P01", Some(15012)),
        Code::NameExists => ("42710", Some(15005)),
        Code::NotEmpty => ("2BP01", Some(15178)),
        Code::SystemName => ("55000", Some(15177)),
        Code::NoSuchTemplate => ("42704", Some(15006)),
        Code::TemplateExists => ("42710", Some(15007)),
        Code::SystemTemplate => ("55000", Some(15008)),
        Code::Lowered => ("55000", Some(15244)),
        Code::Damaged => ("XX001", Some(15335)),
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

impl std::error::Error for SqlError {}
