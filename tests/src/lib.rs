//! Whole-system tests: the real binary, real disks, real databases.
//!
//! A test is a story told with a few words:
//!
//!   [`Instance`]   a directory with `plinth serve` in it, its disks and its mounts
//!   [`FaultDisk`]  a disk that can be made to fail or to hang, and to recover
//!   [`SlowDisk`]   a disk whose reads take as long as the test wants, or that loses writes
//!   [`LoopDisk`]   a block device over a file, with sectors of a chosen size
//!   [`Pool`]       a small file system that disks take their space from, to be filled
//!   [`Postgres`]   a PostgreSQL cluster on a directory, run by an unprivileged user
//!   [`Blocks`]     a file whose every 4 KiB block names itself, so that its mirrors can be found
//!   [`Manager`]    a service manager that keeps an instance's descriptors over its end
//!   [`FilterPins`] a write filter of the test's own
//!   [`FreshRoot`]  a small system of its own, booted with systemd, to install packages in
//!   [`in_turns`]   events that happen again and again, each with its own period
//!   [`fuse_disks`] disks made by a program of ours: [`SlowDisk`] and the recorder use them
//!   [`Host`]       a private host, with mounts and a boot id of its own, to lose power on
//!   [`http`], [`chromium`]   an instance that answers HTTP, and a browser
//!   [`corpus`]     scripts of DBAs, with their outputs, and the groups that they are about
//!   [`loads`]      loads that write while power may go, and verify afterwards
//!   [`recorder::Recorder`], [`replay::Replay`]   disks that record their I/O, and the contents
//!                  that they may have after a loss of power at any point of the recording
//!
//! Everything that a test starts ends with it, even when it fails: an instance that is dropped lets
//! its fault disks go on, unmounts, ends its processes by their ids, and removes its directory.
//! Nothing is shared between tests, so they may run side by side.
//!
//! The tests need root, and say so instead of passing without it. `./test` installs
//! what they need and runs them; `PLINTH_LONG=1` runs the full counts.

mod blocks;
#[path = "../../evidence/tests/chromium/mod.rs"]
pub mod chromium;
mod command;
pub mod corpus;
pub mod crash;
mod disks;
mod filter_pins;
mod fresh_root;
pub mod fuse_disks;
mod host;
pub mod http;
mod image;
mod instance;
pub mod loads;
mod manager;
mod network;
mod package;
mod pool;
mod postgres;
pub mod recorder;
pub mod replay;
mod slow;
mod turns;

pub use blocks::{Blocks, bytes, header_places, noise, overwrite};
pub use command::{Finished, Shell, limited, shell, wait_for};
pub use disks::{FaultDisk, LoopDisk};
pub use filter_pins::FilterPins;
pub use fresh_root::FreshRoot;
pub use host::{Host, Memory};
pub use image::Image;
pub use instance::{Instance, Row};
pub use manager::Manager;
pub use network::Authority;
pub use package::build_package;
pub use pool::Pool;
pub use postgres::{Bench, Postgres, Running, Transaction};
pub use slow::SlowDisk;
pub use turns::{Death, in_turns};

use std::path::PathBuf;

pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

/// `long` when `PLINTH_LONG=1`, else `short`: the scale of a story.
pub fn scaled<T>(short: T, long: T) -> T {
    if std::env::var_os("PLINTH_LONG").is_some_and(|value| value == "1") { long } else { short }
}

/// The binary under test: `PLINTH_BIN`, or the one built beside this test.
///
/// # Panics
/// If there is none.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("PLINTH_BIN") {
        return PathBuf::from(path);
    }
    beside_this_test("plinth")
}

/// A program that was built with this test.
fn beside_this_test(program: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let built = test.ancestors().nth(2).expect("target/debug/deps/test").join(program);
    assert!(built.exists(), "{} is not built: run `cargo build` first, or ./test", built.display());
    built
}

/// The binary with mistakes in it, one of which `PLINTH_PLANTED` chooses for each engine. It is
/// built here, beside the other one.
///
/// # Panics
/// If it cannot be built.
pub fn planted_binary() -> PathBuf {
    let target =
        beside_this_test("plinth").ancestors().nth(2).expect("target/debug/plinth").join("planted");
    let script = r#"cd "$1" && cargo build -q --locked -p plinth-server --bin plinth --features planted --target-dir "$2""#;
    let build = shell(script).arg(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).arg(&target);
    // On a busy machine it takes long.
    build.finish_within(std::time::Duration::from_secs(3600)).ok();
    target.join("debug/plinth")
}

/// # Panics
/// If not run by root.
pub fn need_root() {
    assert!(
        rustix::process::geteuid().is_root(),
        "this test makes loop devices and mounts file systems, which only root may: run ./test, or sudo -E cargo test"
    );
}
