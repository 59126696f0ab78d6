//! The rooms of a crate, and which of them uses which.
//!
//! A room is a module of the crate's root. Rooms stand one above the other, and none uses a room
//! above it. The compiler allows any order, so a test of the crate has its sources read here: each
//! path that begins at the crate's root, in a `use` or in code, names the room that it leads to.
//! Tests may use everything, and so may modules that are only compiled for tests.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The rooms of a crate.
pub struct Rooms {
    /// From below.
    pub rooms: &'static [&'static str],
    /// The room of the files that stand beside the rooms.
    pub beside: &'static str,
    /// Of tests, or the list of all rooms: may use everything.
    pub above_all: &'static [&'static str],
}

/// The uses in the sources of a crate.
pub struct Uses {
    /// How many uses there are.
    pub count: usize,
    /// Those that run upward, in words.
    pub upward: Vec<String>,
}

impl Rooms {
    /// The room of a module of the crate's root.
    fn room_of(&self, module: &str) -> &'static str {
        self.rooms.iter().find(|room| **room == module).unwrap_or(&self.beside)
    }

    fn rank(&self, room: &str) -> usize {
        self.rooms.iter().position(|other| *other == room).expect("a room")
    }

    /// Reads all sources of the crate in a directory (`CARGO_MANIFEST_DIR`).
    ///
    /// # Panics
    /// If the sources are not there.
    #[must_use]
    pub fn uses(&self, directory: &Path) -> Uses {
        let root = directory.join("src");
        let mut all = Vec::new();
        sources(&root, &mut all);
        let mut found = Uses { count: 0, upward: Vec::new() };
        for path in all {
            let inside = path.strip_prefix(&root).expect("below").with_extension("");
            let mut modules: Vec<&str> =
                inside.iter().map(|part| part.to_str().expect("a name")).collect();
            if self.above_all.contains(&modules[0]) {
                continue;
            }
            modules.retain(|module| *module != "mod");
            let room = self.room_of(modules[0]);
            let source = fs::read_to_string(&path).expect("the source");
            for (line, name) in uses(&source, modules.len()) {
                let other = self.room_of(&name);
                found.count += 1;
                if self.rank(other) > self.rank(room) {
                    let file = path.strip_prefix(directory).expect("below").display();
                    found.upward.push(format!(
                        "{file}:{line}: {room} uses {name}, which is in {other}, above it"
                    ));
                }
            }
        }
        found
    }
}

/// A source without comments and without its tests, line by line as it was.
fn without_comments(source: &str) -> String {
    let end = source.find("#[cfg(test)]\nmod tests {").unwrap_or(source.len());
    let code = |line: &str| line.find("//").map_or(line, |at| &line[..at]).to_owned();
    source[..end].lines().map(code).collect::<Vec<_>>().join("\n")
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The first names of a tree of paths that begins at `at`, and where they are.
fn first_names(code: &str, at: usize, found: &mut Vec<(usize, String)>) {
    let Some(tree) = code[at..].strip_prefix('{') else {
        let name: String = code[at..].chars().take_while(|letter| is_of_name(*letter)).collect();
        found.push((at, name));
        return;
    };
    let (mut depth, mut is_first) = (1, true);
    for (index, letter) in tree.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => is_first = true,
            _ if is_first && depth == 1 && is_of_name(letter) => {
                is_first = false;
                first_names(code, at + 1 + index, found);
            }
            _ => {}
        }
        if depth == 0 {
            return;
        }
    }
}

/// The modules of the crate's root that a source names, with their lines. `depth`: how many modules
/// it is in.
fn uses(source: &str, depth: usize) -> Vec<(usize, String)> {
    let code = without_comments(source);
    let mut found = Vec::new();
    let from_root = ["crate::".to_owned(), "super::".repeat(depth)];
    for root in from_root.iter().filter(|root| !root.is_empty()) {
        for (at, _) in code.match_indices(root.as_str()) {
            let is_whole = !code[..at].ends_with(|letter| is_of_name(letter) || letter == ':');
            if is_whole && !code[at + root.len()..].starts_with("super::") {
                first_names(&code, at + root.len(), &mut found);
            }
        }
    }
    let line = |at: usize| code[..at].matches('\n').count() + 1;
    found.into_iter().map(|(at, name)| (line(at), name)).collect()
}

/// All sources below a directory, but for those of tests.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the sources") {
        let path = entry.expect("the sources").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        match path.is_dir() {
            _ if name == "tests" => {}
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_use_of_another_room_is_seen() {
        let source = "
use crate::{
    group::{Group, mount::Purpose}, // in crate::views
    sync::lock::Mutex,
};
use super::super::check;
use super::other;
fn f() -> crate::files::File {
    crate::extent::load()
}
#[cfg(test)]
mod tests {
    use crate::stories::Lab;
}
";
        let mut seen = uses(source, 2);
        seen.sort();
        let expected = [(3, "group"), (4, "sync"), (6, "check"), (8, "files"), (9, "extent")];
        assert_eq!(seen, expected.map(|(line, name)| (line, name.to_owned())));
    }
}
