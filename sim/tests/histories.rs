//! Histories that must come to a good end, and the same end each time.

use sim::{
    history::{OPERATIONS, Outcome, run},
    plan::Plan,
};
use std::sync::Mutex;

/// SQLite's generator of numbers is the process's, so one history runs at a time.
static TURN: Mutex<()> = Mutex::new(());

fn history(seed: u64) -> Outcome {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    run(&Plan::of_seed(seed, OPERATIONS), false)
}

fn good(seed: u64) {
    let outcome = history(seed);
    if let Some(failure) = outcome.failure {
        panic!("seed {seed}: {failure}\n{}", outcome.story.join("\n"));
    }
}

/// The same seed twice is the same history, step by step.
#[test]
fn one_seed_is_one_history() {
    for seed in 0..6 {
        let (one, other) = (history(seed), history(seed));
        assert_eq!((one.hash, one.steps, one.operations), (other.hash, other.steps, other.operations), "seed {seed}");
    }
    assert_ne!(history(1).hash, history(2).hash);
}

/// Histories nobody has seen before; the seed is in the failure.
#[test]
fn new_histories_end_well() {
    let first = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    println!("seeds {first}..{}", first + 20);
    (first..first + 20).for_each(good);
}
