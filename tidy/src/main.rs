//! Lists what breaks the rules, with counts per file.
//!
//!   plinth-tidy                  the whole repository
//!   plinth-tidy FILE ...         these files and directories
use plinth_tidy::{Finding, tree, words};
use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

fn main() -> ExitCode {
    let mut paths: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let root = tree::root();
    if paths.is_empty() {
        paths.push(root.clone());
    }
    let mut findings = Vec::new();
    for path in paths.iter().flat_map(|path| tree::files(path)) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let shown = path.strip_prefix(&root).unwrap_or(&path);
        findings.extend(words::check(shown, &text));
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
