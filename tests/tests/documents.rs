//! The examples in the documents, run as they stand there.
//!
//! A block is run if its fence says so: ```` ```console run ```` or ```` ```sql run ````. Each document is one story on a
//! fresh instance: its blocks run in order. The directory in which a document has all that it makes, such as `/tmp/tour`, is the
//! test's own: documents have different ones, so that they can be followed one after the other.
//!
//!   - console: one bash script of the lines that begin with `$ `; others are what a reader sees
//!   - sql: given to `plinth sql`
//!
//! The instance runs already, with the discovery string of the documents; so a line that ends with `&` is left out.

use plinth_tests::{Instance, binary, shell};
use std::{fs, path::Path};

/// Of the README, the guide for operators, the shell.
const HOMES: [&str; 3] = ["/tmp/tour", "/tmp/guide", "/tmp/shell"];

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
        // Whatever a line is made of, if it fails the script ends.
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

/// What the reference of SQL shows.
#[test]
fn the_reference_of_sql() {
    run("docs/sql.md", HOMES[0]);
}

/// What the guide for operators tells them to type.
#[test]
fn the_guide_for_operators() {
    run("docs/operating.md", HOMES[1]);
}

/// Every example of the shell's commands.
#[test]
fn the_shell() {
    run("docs/shell.md", HOMES[2]);
}
