//! The rooms of this crate are in layers, and none uses a room in a layer above it.
//!
//! Statements do not know the instance, an engine's process does not know queries, a query does not
//! know the instance, and the instance knows neither the protocol of its clients nor the command
//! line. The compiler allows any order, so this reads the sources (`tidy/`).

use plinth_tidy::Rooms;
use std::path::Path;

const ROOMS: Rooms = Rooms {
    rooms: &[BASE, "sql", "engine", "query", "instance", "pg", "http", "serve", "cli"],
    beside: BASE,
    above_all: &["lib", "main", "rooms", "fuzz"],
};

/// The files of the crate's root: errors, paths, users, TLS, the alert log.
const BASE: &str = "base";

#[test]
fn no_room_uses_one_above_it() {
    let uses = ROOMS.uses(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(uses.count > 100, "{} uses in all: are these the sources?", uses.count);
    assert!(uses.upward.is_empty(), "these run upward:\n{}", uses.upward.join("\n"));
}
