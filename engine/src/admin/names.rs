//! Statements on names and templates.

use serde::{Deserialize, Serialize};

/// A statement on names and templates. Paths are as written, `+DATA/dir/file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NameOrder {
    AddTemplates(Vec<Template>),
    ModifyTemplates(Vec<Template>),
    DropTemplates(Vec<String>),
    AddDirectories(Vec<String>),
    /// With its content, or only if it is empty.
    DropDirectories(Vec<(String, bool)>),
    RenameDirectories(Vec<(String, String)>),
    /// The new name, and a present name of the file.
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
    /// Space is written with zeros when a file gets it; `None`: not given.
    pub preformatted: Option<bool>,
}
