//! The rooms of the engine stand one above the other, and none uses a room above it. SQL is in the catalog only.
//!
//! A reader can take them from below, and whoever changes a room knows whom that concerns. The compiler allows
//! any order, so this reads the sources: each path that begins at the crate's root, in a `use` or in code, names
//! the room it leads to. Tests may use everything, and so may what is only made for tests.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Files that stand beside the rooms: the words of operators, of front ends, and of the world.
const WORDS: &str = "words";

/// From below.
const ROOMS: [&str; 12] = [
    "sync",
    WORDS,
    "disk",
    "space",
    "membership",
    "catalog",
    "extent",
    "files",
    "movement",
    "check",
    "views",
    "group",
];

/// Of tests, or the list of all rooms.
const ABOVE_ALL: [&str; 4] = ["lib", "rooms", "stories", "testing"];

/// The room of a module of the crate's root.
fn room_of(module: &str) -> &'static str {
    ROOMS.into_iter().find(|room| *room == module).unwrap_or(WORDS)
}

fn rank(room: &str) -> usize {
    ROOMS.iter().position(|other| *other == room).expect("a room")
}

/// What is left of a source without comments and without its tests, line by line as it was.
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

/// The modules of the crate's root that a source names, with their lines. `depth`: how many modules it is in.
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

/// A source of a room: its path in the crate, the modules that it is in, and its text.
struct RoomSource {
    path: String,
    modules: Vec<String>,
    text: String,
}

/// The sources of all rooms.
fn room_sources() -> Vec<RoomSource> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    sources(&root, &mut paths);
    let mut all = Vec::new();
    for path in paths {
        let inside = path.strip_prefix(&root).expect("below").with_extension("");
        let mut modules: Vec<String> =
            inside.iter().map(|part| part.to_str().expect("a name").to_owned()).collect();
        if ABOVE_ALL.contains(&&*modules[0]) {
            continue;
        }
        modules.retain(|module| *module != "mod");
        let text = fs::read_to_string(&path).expect("the source");
        let path = path.strip_prefix(root.parent().expect("the crate")).expect("below");
        all.push(RoomSource { path: path.display().to_string(), modules, text });
    }
    all
}

#[test]
fn no_room_uses_one_above_it() {
    let (mut upward, mut seen) = (Vec::new(), 0);
    for RoomSource { path, modules, text } in room_sources() {
        let room = room_of(&modules[0]);
        for (line, name) in uses(&text, modules.len()) {
            let other = room_of(&name);
            seen += 1;
            if rank(other) > rank(room) {
                upward.push(format!(
                    "{path}:{line}: {room} uses {name}, which is in {other}, above it"
                ));
            }
        }
    }
    assert!(seen > 500, "{seen} uses in all: are these the sources?");
    assert!(upward.is_empty(), "these run upward:\n{}", upward.join("\n"));
}

/// Whether a text begins as a statement of SQL does. Statements of DBAs begin otherwise: ALTER DISKGROUP, DROP FILE.
fn is_sql(text: &str) -> bool {
    let end = text.find('"').unwrap_or(text.len());
    let words = text[..end].split(|letter: char| !is_of_name(letter));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).take(4).collect();
    matches!(
        words[..],
        ["SELECT" | "PRAGMA" | "SAVEPOINT", _, ..]
            | ["INSERT", "INTO" | "OR", ..]
            | ["REPLACE" | "DELETE", "INTO" | "FROM", ..]
            | ["UPDATE", _, "SET", ..]
            | ["WITH", _, "AS", ..]
            | ["ALTER", "TABLE", ..]
            | ["CREATE" | "DROP", "TABLE" | "INDEX" | "VIEW" | "TEMP" | "UNIQUE", ..]
    )
}

/// The lines of a source where a literal begins with SQL.
fn lines_with_sql(source: &str) -> Vec<usize> {
    let code = without_comments(source);
    let begins = code.match_indices('"').filter(|(at, _)| is_sql(&code[at + 1..]));
    begins.map(|(at, _)| code[..at].matches('\n').count() + 1).collect()
}

/// What the engine asks of the catalog has a name there: `catalog/tables`.
#[test]
fn no_sql_stands_outside_the_catalog() {
    let (mut outside, mut inside) = (Vec::new(), 0);
    for RoomSource { path, modules, text } in room_sources() {
        let lines = lines_with_sql(&text);
        if modules[0] == "catalog" {
            inside += lines.len();
        } else {
            outside.extend(lines.iter().map(|line| format!("{path}:{line}")));
        }
    }
    assert!(inside > 100, "{inside} statements in the catalog: are these the sources?");
    assert!(outside.is_empty(), "SQL outside the catalog:\n{}", outside.join("\n"));
}

#[test]
fn each_statement_of_sql_is_seen() {
    let source = r#"
let a = "SELECT 1 FROM entry"; // "SELECT 2"
let b = format!("UPDATE {table} SET kind = 1", table = "DROP FILE removes the file");
connection.execute(
    "
    DELETE FROM stale",
)?;
let c = "ALTER DISKGROUP {} DISMOUNT FORCE; the next mount recovers";
let d = "INSERT OR IGNORE INTO access_member" + "REPLACE USER or SET OWNERSHIP";
#[cfg(test)]
mod tests {
    const SQL: &str = "SELECT 3";
}
"#;
    assert_eq!(lines_with_sql(source), [2, 3, 5, 9]);
}

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
