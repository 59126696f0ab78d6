//! Files that are made under system names.

use crate::api::types::FileType;
use serde::{Deserialize, Serialize};

/// A file that gets a system name: `+DATA`, `+DATA(template)`, `+DATA(template)/alias`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSystemFile {
    /// A template's name, in any case.
    pub template: Option<String>,
    /// One more name for it, `+DATA/dir/file`.
    pub alias: Option<String>,
    /// Its type; `None`: the one that the template's name, or `source`, suggests.
    pub file_type: Option<FileType>,
    /// The beginning of its name; `None`: the name of `source`.
    pub tag: Option<String>,
    /// Its database: the first directory of its name.
    pub database: Option<String>,
    /// The path it is copied from: its name there may suggest its type.
    pub source: Option<String>,
}
