//! A program that has the engine as a library links this crate, and nothing of the daemon with it.

#[test]
fn the_host_is_linked_without_the_daemon() {
    let manifest = include_str!("../Cargo.toml");
    assert!(manifest.contains("\nplinth-engine.workspace"), "is this the manifest?");
    for name in ["plinth-server", "clap", "pgwire", "rustls", "rusqlite", "sqlparser"] {
        let depends = manifest.lines().any(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
        });
        assert!(!depends, "host depends on {name}");
    }
}
