//! Writing to the standard output and the standard error.
//!
//! That the reader of a pipe is gone is no failure (`plinth ... | head`, `2>&1 | true`): the
//! program goes on, and its exit code is that of its work. `println!` and `eprintln!` would end the
//! thread with a panic there, so they are not used.

use std::io::{self, Write};

/// Writes to the standard output.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes to the standard error.
pub(crate) fn warn(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
