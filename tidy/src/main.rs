//! Lists what breaks the rules, with counts per file.
//!
//!   plinth-tidy [RULE] [FILE ...]   all of the repository, or these files and directories
//!
//!   --words       words that a reader has to translate (this one if no rule is named)
//!   --functions   functions that are too long
//!   --sql         statements to SQLite outside of the engine's catalog/
//!   --layout      the entries of engine/src, and the files with `impl Group`
use plinth_tidy::{Finding, functions, layout, sql, tree, words};
use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

fn main() -> ExitCode {
    let mut arguments: Vec<String> = env::args().skip(1).collect();
    let rule = arguments.first().filter(|first| first.starts_with("--")).cloned();
    if rule.is_some() {
        arguments.remove(0);
    }
    let check = match rule.as_deref() {
        None | Some("--words") => words::check,
        Some("--functions") => functions::check,
        Some("--sql") => sql::check,
        Some("--layout") => {
            print_layout();
            return ExitCode::SUCCESS;
        }
        Some(other) => {
            eprintln!("{other} is no rule: --words, --functions, --sql or --layout");
            return ExitCode::from(2);
        }
    };
    let root = tree::root();
    let mut paths: Vec<PathBuf> = arguments.iter().map(PathBuf::from).collect();
    if paths.is_empty() {
        paths.push(if rule.as_deref() == Some("--sql") {
            root.join("engine/src")
        } else {
            root.clone()
        });
    }
    let mut findings = Vec::new();
    for path in paths.iter().flat_map(|path| tree::files(path)) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let shown = path.strip_prefix(&root).unwrap_or(&path);
        findings.extend(check(shown, &text));
    }
    let mut counts: BTreeMap<&Path, usize> = BTreeMap::new();
    for finding in &findings {
        println!("{finding}");
        *counts.entry(&finding.file).or_default() += 1;
    }
    print_counts(&counts, &findings);
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print_counts(counts: &BTreeMap<&Path, usize>, findings: &[Finding]) {
    println!();
    for (file, count) in counts {
        println!("{count:6} {}", file.display());
    }
    println!("{:6} in all", findings.len());
}

fn print_layout() {
    let entries = layout::entries(&tree::root().join("engine/src"));
    println!("{} entries of engine/src: {}", entries.len(), entries.join(" "));
    let files = layout::files_with_methods_of_group();
    println!("{} files with impl Group: {}", files.len(), files.join(" "));
}
