//! Scripts in the manner of those that DBAs own: reports, deltas, generators of statements, health
//! checks, exporters, modules, plugins. `tests/corpus` has what each prints, and the exit code with
//! which it ends.
//!
//! All run on one instance, one after the other. A script that changes something undoes it, so that
//! their order has no meaning; `PLINTH_LONG=1` runs them once more in the opposite order.
//!
//! An error that a script does not announce is a failure, even if it stands in the expected output.
//! The output of a script with a known fault is not recorded: it was written, as Oracle would
//! answer, and the test says when it is reached.
//!
//! `PLINTH_TRANSCRIPTS=write` writes the outputs anew, except those with such errors;
//! `PLINTH_CORPUS` chooses scripts by a part of their names.

use plinth_tests::{
    Finished, Instance,
    corpus::{self, Script},
    scaled, shell,
};
use regex::Regex;
use std::{collections::BTreeSet, env, fs, path::Path};

/// What every error has somewhere: a number of Oracle's, or the words of a client.
const ERRORS: &str =
    r"ORA-\d{5}|SP2-\d{4}|ASMCMD-\d{4}|(?im:^error\b)|(?m:^plinth:)|(?i:not supported)|panicked";

/// A copy of the corpus, so that scripts can write files beside themselves.
fn copied(instance: &Instance) {
    let script = "cp -r \"$1\" \"$2\"";
    shell(script).arg(corpus::folder()).arg(instance.path("corpus")).ok();
}

fn run(script: &Script, instance: &Instance) -> Finished {
    let kind = Path::new(&script.name).parent().expect("a folder");
    let path = env::var("PATH").unwrap_or_default();
    // The usage is a command of its own: it need not succeed.
    shell("cd \"$1\"; exec bash -c \"exec 2>&1; $2\"")
        .arg(instance.path("corpus").join(kind))
        .arg(&script.usage)
        .env("PATH", format!("{}:{path}", instance.path("bin").display()))
        .env("PLINTH_DIR", instance.dir())
        .env("PGUSER", "root")
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .finish()
}

/// The fault of the errors that were printed, if there is one.
fn unannounced(script: &Script, said: &str) -> Option<String> {
    let pattern = Regex::new(ERRORS).expect("a pattern");
    let found: BTreeSet<&str> = pattern.find_iter(said).map(|found| found.as_str()).collect();
    let is_announced = |error: &&str| {
        script.refused.iter().any(|code| code == error)
            || !script.refused.is_empty() && ["ERROR", "error", "plinth:"].contains(error)
    };
    let wrong: Vec<&str> = found.iter().copied().filter(|error| !is_announced(error)).collect();
    let missing: Vec<&String> =
        script.refused.iter().filter(|code| !found.contains(code.as_str())).collect();
    (!wrong.is_empty() || !missing.is_empty())
        .then(|| format!("unannounced errors {wrong:?}, announced and not printed {missing:?}"))
}

/// The lines around the first difference.
fn difference(wanted: &str, found: &str) -> String {
    let at = wanted.lines().zip(found.lines()).take_while(|(one, other)| one == other).count();
    let from = |text: &str| {
        let lines: Vec<&str> = text.lines().skip(at).take(8).collect();
        lines.join("\n    ")
    };
    format!("line {}:\n  wanted\n    {}\n  found\n    {}", at + 1, from(wanted), from(found))
}

/// Runs a script: what is wrong, if anything is.
fn play(script: &Script, instance: &Instance) -> Option<String> {
    let finished = run(script, instance);
    let code = finished.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
    let said = script.steady(&corpus::common(&finished.out, instance));
    let found = format!("{said}[exit code {code}]\n");
    let wrong = unannounced(script, &found);
    let path = script.expected();
    let is_written = env::var_os("PLINTH_TRANSCRIPTS").is_some_and(|what| what == "write");
    if is_written && wrong.is_none() && script.fault.is_none() {
        fs::write(&path, &found).expect("write");
        return None;
    }
    let wanted =
        fs::read_to_string(&path).unwrap_or_else(|error| format!("{}: {error}\n", path.display()));
    let wrong = match wrong {
        Some(wrong) => Some(format!("{wrong}\n{found}")),
        None => (wanted != found).then(|| difference(&wanted, &found)),
    };
    match (wrong, &script.fault) {
        (Some(_), Some(fault)) => {
            println!("{}: known fault: {fault}", script.name);
            None
        }
        (None, Some(fault)) => {
            Some(format!("{}: it is right now; take its line away: fault: {fault}", script.name))
        }
        (wrong, None) => wrong.map(|wrong| format!("{}, {wrong}", script.name)),
    }
}

/// Every script prints the expected output and ends with the expected exit code.
#[test]
fn scripts_print_what_they_should() {
    let chosen = env::var("PLINTH_CORPUS").unwrap_or_default();
    let mut scripts = corpus::scripts();
    assert!(scripts.len() >= 120, "only {} scripts", scripts.len());
    scripts.retain(|script| script.name.contains(&chosen));
    let instance = corpus::instance();
    copied(&instance);
    let mut wrong: Vec<String> =
        scripts.iter().filter_map(|script| play(script, &instance)).collect();
    if scaled(false, true) {
        wrong.extend(scripts.iter().rev().filter_map(|script| play(script, &instance)));
    }
    assert!(wrong.is_empty(), "{} scripts:\n\n{}", wrong.len(), wrong.join("\n\n"));
    instance.check("DATA");
    instance.check("LAB");
}
