//! Numbers that keep the engine's layout readable: few entries in its root, and few files that
//! add methods to `Group`.
//!
//! A reader sees the rooms of the engine in one list, and finds the methods of the outermost
//! owner in few places. More than that belongs in a room, or to an inner owner.

use crate::{rust, tree};
use std::{fs, path::Path};
use syn::{Item, Type};

/// Entries of engine/src, files and directories.
pub const ENTRIES_MAX: usize = 25;

/// Files of engine/src with `impl Group`, without tests.
pub const IMPLS_MAX: usize = 12;

/// The entries of a directory, in the order of their names.
pub fn entries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    names
}

/// Whether a source file has methods of a type of this name, outside of tests.
pub fn has_methods_of(name: &str, file: &Path, text: &str) -> bool {
    let is_of_type = |item: &Item| match item {
        Item::Impl(item) => match &*item.self_ty {
            Type::Path(of) => {
                item.trait_.is_none()
                    && !rust::is_for_tests(&item.attrs)
                    && of.path.segments.last().is_some_and(|last| last.ident == name)
            }
            _ => false,
        },
        _ => false,
    };
    !rust::is_test_file(file)
        && rust::parse(file, text).is_some_and(|parsed| parsed.items.iter().any(is_of_type))
}

/// The files of the engine that have methods of `Group`.
pub fn files_with_methods_of_group() -> Vec<String> {
    let engine = tree::below("engine/src");
    let files = engine.iter().filter(|(file, text)| has_methods_of("Group", file, text));
    files.map(|(file, _)| file.display().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_has_few_entries() {
        let entries = entries(&tree::root().join("engine/src"));
        assert!(entries.iter().any(|entry| entry == "lib.rs"), "is this the engine? {entries:?}");
        assert!(entries.len() <= ENTRIES_MAX, "{} entries: {entries:?}", entries.len());
    }

    #[test]
    fn few_files_have_methods_of_group() {
        let files = files_with_methods_of_group();
        assert!(!files.is_empty(), "is this the engine?");
        assert!(files.len() <= IMPLS_MAX, "{} files with impl Group: {files:?}", files.len());
    }

    #[test]
    fn methods_of_a_type_are_found() {
        let found = |source| has_methods_of("Group", Path::new("a.rs"), source);
        assert!(found("use a::b;\nimpl Group { fn f() {} }"));
        assert!(found("impl<T> crate::Group<T> {}"));
        assert!(!found("impl Groups {}"));
        assert!(!found("impl Clone for Group {}"));
        assert!(!found("#[cfg(test)]\nimpl Group {}"));
        assert!(!has_methods_of("Group", Path::new("a/tests.rs"), "impl Group {}"));
    }
}
