//! The rooms of the engine stand one above the other, and none uses a room above it.
//!
//! They can be read from below, and a change of a room concerns only the rooms above it. The
//! compiler allows any order, so this reads the sources (`tidy/`).

use plinth_tidy::Rooms;
use std::path::Path;

const ROOMS: Rooms = Rooms {
    rooms: &[
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
    ],
    beside: WORDS,
    above_all: &["lib", "rooms", "stories", "testing"],
};

/// The words of operators, of front ends, and of the world.
const WORDS: &str = "words";

#[test]
fn no_room_uses_one_above_it() {
    let uses = ROOMS.uses(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(uses.count > 500, "{} uses in all: are these the sources?", uses.count);
    assert!(uses.upward.is_empty(), "these run upward:\n{}", uses.upward.join("\n"));
}
