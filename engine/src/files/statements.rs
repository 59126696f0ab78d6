//! Statements of operators on names: templates, directories, aliases, files under system names.

use crate::api::types::FileType;
use serde::{Deserialize, Serialize};

/// A statement on names and templates. Paths are as written, `+DATA/dir/file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NameOrder {
    AddTemplates(Vec<Template>),
    ModifyTemplates(Vec<Template>),
    DropTemplates(Vec<String>),
    AddDirectories(Vec<String>),
    /// With what is in it, or only if it is empty.
    DropDirectories(Vec<(String, bool)>),
    RenameDirectories(Vec<(String, String)>),
    /// The new name, and a name that the file has.
    AddAliases(Vec<(String, String)>),
    DropAliases(Vec<String>),
    RenameAliases(Vec<(String, String)>),
    DropFiles(Vec<String>),
}

/// A template as a statement describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    /// Upper case.
    pub name: String,
    /// Mirrors of each extent; `None`: not given.
    pub mirrors: Option<u8>,
    /// 128 KiB over eight extents instead of one extent after the other; `None`: not given.
    pub fine: Option<bool>,
}

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
