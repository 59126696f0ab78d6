//! The files of the repository.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace").to_owned()
}

/// The languages whose comments or text are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Rust,
    Shell,
    Sql,
    Markdown,
    Python,
    /// systemd, logrotate, TOML: comments begin with `#` at the start of a line.
    Settings,
}

impl Language {
    /// By the end of the name, or by the first line of a script without one.
    pub fn of(path: &Path, text: &str) -> Option<Language> {
        let end = path.extension().and_then(|end| end.to_str());
        Some(match end {
            Some("rs") => Language::Rust,
            Some("sh") => Language::Shell,
            Some("sql") => Language::Sql,
            Some("md") => Language::Markdown,
            Some("py") => Language::Python,
            Some("toml" | "service" | "timer" | "logrotate") => Language::Settings,
            None if text.starts_with("#!") && text.lines().next()?.ends_with("sh") => {
                Language::Shell
            }
            _ => return None,
        })
    }
}

/// All files below `path` in the order of their names, without builds and hidden directories.
pub fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let is_left_out = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        name.starts_with('.')
            || (["target", "node_modules", "dist"].contains(&name) && path.is_dir())
    };
    paths.retain(|path| !is_left_out(path));
    paths.iter().flat_map(|path| files(path)).collect()
}

/// The files of the repository below a directory, with their texts. The paths are relative to the
/// root, as that of the directory is: an empty one is the root itself.
pub fn below(directory: &str) -> Vec<(PathBuf, String)> {
    let root = root();
    let mut found = Vec::new();
    for path in files(&root.join(directory)) {
        let inside = path.strip_prefix(&root).expect("below the root");
        if let Ok(text) = fs::read_to_string(&path) {
            found.push((inside.to_owned(), text));
        }
    }
    assert!(!found.is_empty(), "no files in {directory:?}");
    found
}
