//! The simulator is tested, too: mistakes that are quickly found are found, by the program that
//! plants all of them.

use plinth_engine::planted::Bug;
use std::{
    collections::BTreeSet,
    process::{Command, Output},
};

/// Histories within which each of these is found; see the table that `sim --planted` prints.
const HISTORIES: &str = "30";

fn sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sim"))
        .args(arguments)
        .output()
        .expect("the simulator can be started")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Each is of another kind: acknowledgements, resync, recovery, pieces, blocks, tails, the catalog.
/// The failure must come from the mistake: the same history runs without it, and does not fail.
#[test]
fn quickly_found_mistakes_are_found() {
    for bug in [
        Bug::AcknowledgedEarly,
        Bug::StaleMarkLate,
        Bug::ResyncFromWrongSide,
        Bug::CrashedRegionsForgotten,
        Bug::PieceNotCompleted,
        Bug::BlockNotCompleted,
        Bug::TailLeft,
        Bug::CatalogMirrorKept,
    ] {
        let output = sim(&["--planted", bug.name(), "--histories", HISTORIES]);
        assert!(output.status.success(), "{}: {}", bug.name(), text(&output));
        assert!(text(&output).contains("1 of 1 found"), "{}", text(&output));
    }
}

#[test]
fn a_mistake_that_is_not_found_is_a_failure() {
    let output = sim(&["--planted", Bug::PieceNotCompleted.name(), "--histories", "0"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("not in 0"), "{}", text(&output));
}

/// Each mistake has its own name, and the seed that finds it fails by itself.
#[test]
fn mistakes_have_names() {
    let names: BTreeSet<&str> = Bug::ALL.iter().map(|bug| bug.name()).collect();
    assert_eq!(names.len(), Bug::ALL.len());
    let listed = text(&sim(&["--planted", "list"]));
    assert!(names.iter().all(|name| listed.contains(name)), "{listed}");
    let told = sim(&["--seed", "0", "--bug", Bug::PieceNotCompleted.name()]);
    assert_eq!(told.status.code(), Some(1));
    assert!(text(&told).contains("FAILED"), "{}", text(&told));
    assert_eq!(sim(&["--planted", "no-such-mistake"]).status.code(), Some(2));
}
