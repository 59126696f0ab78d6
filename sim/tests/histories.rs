//! Histories that must not fail, and must be the same each time.

use plinth_workload::lock;
use sim::{
    history::{OPERATIONS, Outcome, run},
    plan::Plan,
};
use std::sync::Mutex;

/// SQLite's generator of numbers belongs to the process, so one history runs at a time.
static TURN: Mutex<()> = Mutex::new(());

fn outcome(plan: &Plan) -> Outcome {
    let _turn = lock(&TURN);
    run(plan, false)
}

fn history(seed: u64) -> Outcome {
    outcome(&Plan::of_seed(seed, OPERATIONS))
}

fn good(name: &str, plan: &Plan) {
    let outcome = outcome(plan);
    if let Some(failure) = outcome.failure {
        panic!("{name}: {failure}\n{}", outcome.story.join("\n"));
    }
}

/// The same seed twice is the same history, step by step.
#[test]
fn one_seed_is_one_history() {
    for seed in 0..6 {
        let (one, other) = (history(seed), history(seed));
        assert_eq!(
            (one.hash, one.steps, one.operations),
            (other.hash, other.steps, other.operations),
            "seed {seed}"
        );
    }
    assert_ne!(history(1).hash, history(2).hash);
}

/// New histories; the seed is in the failure.
#[test]
fn new_histories_do_not_fail() {
    let first = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    println!("seeds {first}..{}", first + 20);
    (first..first + 20)
        .for_each(|seed| good(&format!("seed {seed}"), &Plan::of_seed(seed, OPERATIONS)));
}

/// Histories that failed once, cut down: each file says what was wrong.
#[test]
fn histories_that_failed_once_do_not_fail() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    let mut files: Vec<_> = std::fs::read_dir(&directory)
        .expect("it is there")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no histories in {}", directory.display());
    for file in files {
        let text = std::fs::read_to_string(&file).expect("text");
        let name = file.display().to_string();
        let plan: Plan = text.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(text.starts_with("# "), "{name} does not say what was wrong");
        good(&name, &plan);
    }
}
