//! Rules of this repository's sources that no compiler checks.
//!
//! Each module is one rule: a function from the text of a file to its findings, with tests of
//! sentences or code that must be found and that must not. The test `the_tree_is_clean` of each
//! rule reads the repository itself. The program `plinth-tidy` lists the findings of any file or
//! directory.

pub mod functions;
pub mod layout;
pub mod prose;
pub mod rooms;
pub mod rust;
pub mod sql;
pub mod tree;
pub mod words;

pub use rooms::Rooms;

use std::{fmt, path::PathBuf};

/// One place that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub file: PathBuf,
    pub line: usize,
    pub rule: &'static str,
    /// The words or the name that were found.
    pub found: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file.display(), self.line, self.rule, self.found)
    }
}

/// Fails with a list of the findings, if there are any.
#[cfg(test)]
pub(crate) fn expect_none(findings: &[Finding]) {
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(lines.is_empty(), "{} findings:\n{}", lines.len(), lines.join("\n"));
}
