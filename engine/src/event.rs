//! The alert log's lines: events that an operator has to know of, even at three in the morning.

use plinth_format::DiskNumber;
use std::fmt;

/// The urgency of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For the record.
    Note,
    /// A failure that was handled.
    Warning,
    /// Redundancy or service is lost until the operator acts.
    Alarm,
}

/// One event of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub group: String,
    pub severity: Severity,
    /// The disk that it is about, if it is about one.
    pub disk: Option<DiskNumber>,
    /// A sentence that names the thing, the place and, if there is one, the remedy.
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
