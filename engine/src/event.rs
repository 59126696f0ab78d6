//! What an operator would want to know at three in the morning: the alert log's lines.

use plinth_format::DiskNumber;
use std::fmt;

/// How urgent it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For the record.
    Note,
    /// Something failed and was dealt with.
    Warning,
    /// Redundancy or service is lost until somebody acts.
    Alarm,
}

/// One event of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub group: String,
    pub severity: Severity,
    /// The disk it is about, if it is about one.
    pub disk: Option<DiskNumber>,
    /// A sentence that names the thing, the place and, where there is one, the remedy.
    pub text: String,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "NOTE",
            Self::Warning => "WARNING",
            Self::Alarm => "ALARM",
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.severity, self.group, self.text)
    }
}
