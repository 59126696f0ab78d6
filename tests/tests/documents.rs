//! The examples in the documents, run as they stand there.
//!
//! A block is run if its fence says so: ```` ```console run ```` or ```` ```sql run ````. Each
//! document is one story on a fresh instance: its blocks run in order. The directory in which a
//! document has all its files, such as `/tmp/tour`, is the test's own: documents have different
//! ones, so that they can be followed one after the other.
//!
//!   - console: one bash script of the lines that begin with `$ `; others are what a reader sees
//!   - sql: given to `plinth sql`
//!
//! The instance runs already, with the discovery string of the documents; so a line that ends with
//! `&` is left out.

use plinth_tests::{Instance, binary, shell};
use std::{collections::BTreeMap, fs, path::Path};

/// Of the README, the guide for operators, the shell, the reference of SQL.
const HOMES: [&str; 4] = ["/tmp/tour", "/tmp/guide", "/tmp/shell", "/tmp/sql"];

struct Example {
    /// Where its fence is, for messages.
    line: usize,
    is_sql: bool,
    text: String,
}

/// The blocks of a document that are marked.
fn examples(document: &str) -> Vec<Example> {
    let mut found = Vec::new();
    let mut lines = document.lines().enumerate();
    while let Some((line, text)) = lines.next() {
        let is_sql = match text {
            "```console run" => false,
            "```sql run" => true,
            _ => continue,
        };
        let inside = lines.by_ref().map(|(_, text)| text).take_while(|text| *text != "```");
        let text: Vec<&str> = if is_sql {
            inside.collect()
        } else {
            inside
                .filter_map(|text| text.strip_prefix("$ "))
                .filter(|text| !text.ends_with('&'))
                .collect()
        };
        // The script ends if any command of a line fails.
        let text = if is_sql { text.join("\n") } else { text.join(" || exit 1\n") };
        found.push(Example { line: line + 1, is_sql, text });
    }
    found
}

fn run(document: &str, home: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(document);
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let examples = examples(&text);
    assert!(!examples.is_empty(), "{document} has no example that is run");
    assert!(
        HOMES.iter().all(|other| *other == home || !text.contains(other)),
        "{document} uses another one's directory"
    );
    let instance = Instance::new();
    let own = instance.path("");
    let own = own.to_str().expect("a path in words").trim_end_matches('/');
    let folder = binary().parent().expect("a program is in a folder").display().to_string();
    let search = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    for example in examples {
        let text = example.text.replace(home, own);
        let script = if example.is_sql { "plinth sql -c \"$1\"" } else { &text };
        let said = shell(script)
            .arg(&text)
            .env("PLINTH_DIR", instance.dir())
            .env("PATH", &search)
            .finish();
        assert!(said.code == Some(0), "{document}, line {}:\n{text}\n{said}", example.line);
    }
}

/// The tour of the README, from empty files to a check of every mirror.
#[test]
fn the_tour_of_the_readme() {
    run("README.md", HOMES[0]);
}

/// The examples of the SQL reference.
#[test]
fn the_reference_of_sql() {
    run("docs/sql.md", HOMES[3]);
}

/// The views that a document describes, each with its columns and their types in order.
///
/// A view is a section whose heading is its name, with a table `| column | type | meaning |`. A row
/// may name several columns of one type.
fn documented_views(document: &str) -> BTreeMap<String, Vec<(String, String)>> {
    let mut views = BTreeMap::new();
    let (mut view, mut is_table) = (String::new(), false);
    for line in document.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            heading.clone_into(&mut view);
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        match cells[..] {
            ["column", "type", "meaning"] => is_table = true,
            ["---", ..] => {}
            [names, kind, ..] if is_table && line.starts_with('|') => {
                let columns: &mut Vec<_> = views.entry(view.clone()).or_default();
                columns.extend(
                    names
                        .split(", ")
                        .map(|name| (name.trim_matches('`').to_owned(), kind.to_owned())),
                );
            }
            _ => is_table = false,
        }
    }
    views
}

/// The tables of columns in the reference are what clients see: every view, every column, its
/// type, in order.
#[test]
fn the_reference_of_sql_has_every_column_of_every_view() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sql.md");
    let text = fs::read_to_string(path).expect("the reference");
    let documented = documented_views(&text);
    let instance = Instance::new();
    let rows = instance.query(
        "SELECT table_name, column_name, data_type FROM information_schema.columns \
         WHERE table_schema = 'public' \
         ORDER BY table_name, ordinal_position",
    );
    let mut seen: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for row in rows {
        let text = |column: &str| row[column].as_str().expect("text").to_owned();
        let kind = match row["data_type"].as_str() {
            Some("bigint") => "int8".to_owned(),
            Some("double precision") => "float8".to_owned(),
            Some("timestamp without time zone") => "timestamp".to_owned(),
            _ => text("data_type"),
        };
        seen.entry(text("table_name")).or_default().push((text("column_name"), kind));
    }
    // Each view is there once more, with the number of the instance before its columns.
    let global: Vec<String> = seen.keys().filter(|view| view.starts_with("gv$")).cloned().collect();
    for view in &global {
        let mut columns = seen.remove(view).expect("a view");
        assert_eq!(columns.remove(0), ("inst_id".to_owned(), "int8".to_owned()), "{view}");
        assert_eq!(Some(&columns), seen.get(&view[1..]), "{view}");
    }
    let local = seen.keys().filter(|view| view.starts_with("v$")).count();
    assert_eq!(global.len(), local);
    // Two views have a twin that looks for no disks, four have the columns of another.
    for (view, same) in [
        ("v$asm_diskgroup_stat", "v$asm_diskgroup"),
        ("v$asm_disk_stat", "v$asm_disk"),
        ("v$asm_operation_ended", "v$asm_operation"),
        ("v$system_parameter", "v$parameter"),
        ("v$system_parameter2", "v$parameter2"),
        ("x$ksppsv", "x$ksppcv"),
    ] {
        assert_eq!(seen.remove(view).as_ref(), seen.get(same), "{view} has the columns of {same}");
    }
    // Views without rows have a line each, whose columns a test of the engine compares.
    seen.retain(|view, _| !text.contains(&format!("\n| `{view}` | `")));
    for (view, columns) in &seen {
        assert_eq!(documented.get(view), Some(columns), "docs/sql.md, the table of {view}");
    }
    assert_eq!(documented.keys().collect::<Vec<_>>(), seen.keys().collect::<Vec<_>>());
}

/// The commands of the guide for operators.
#[test]
fn the_guide_for_operators() {
    run("docs/operating.md", HOMES[1]);
}

/// Every example of the shell's commands.
#[test]
fn the_shell() {
    run("docs/shell.md", HOMES[2]);
}

/// Every source file of the crates, relative to the workspace, but for tests.
fn sources(folder: &Path, root: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("a source").path();
        let name = path
            .strip_prefix(root)
            .expect("below the root")
            .to_str()
            .expect("a path in words")
            .to_owned();
        let is_test = ["tests", "stories", "tests.rs"].iter().any(|last| path.ends_with(last));
        if is_test || name.ends_with("_tests.rs") {
            continue;
        }
        if path.is_dir() {
            sources(&path, root, found);
        } else if name.ends_with(".rs") {
            found.push(name);
        }
    }
}

/// The architecture says of every source file what it holds, and names none that is gone.
#[test]
fn the_architecture_names_every_source_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = fs::read_to_string(root.join("docs/architecture.md")).expect("the architecture");
    let named: Vec<&str> =
        text.split('`').filter(|word| word.ends_with(".rs") && !word.contains(' ')).collect();
    let is_named = |file: &str, name: &str| file == name || file.ends_with(&format!("/{name}"));
    let mut files = Vec::new();
    for crate_name in [
        "format", "engine", "host", "frontend", "fuse", "nbd", "evidence", "server", "sim",
        "workload", "tidy",
    ] {
        sources(&root.join(crate_name).join("src"), &root, &mut files);
    }
    assert!(files.len() > 200, "only {} sources were found", files.len());
    for file in &files {
        assert!(
            named.iter().any(|name| is_named(file, name)),
            "docs/architecture.md does not name {file}"
        );
    }
    for name in named {
        let is_there = files.iter().any(|file| is_named(file, name)) || root.join(name).is_file();
        let is_a_test =
            ["tests", "stories", "failures", "takeover"].iter().any(|word| name.contains(word));
        assert!(is_there || is_a_test, "docs/architecture.md names {name}, which is gone");
    }
}
