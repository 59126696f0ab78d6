//! Beginning to listen on an address of the network. If a remembered address cannot be used (the
//! host does not have it yet, a file is missing), that is an ALARM, and is tried until it works. An
//! address that the operator gives now is refused instead.

use crate::alert::Alert;
use plinth_engine::event::Severity;
use std::{io, thread, time::Duration};

/// How long between two attempts to listen on an address that the host does not have (yet).
const AGAIN: Duration = Duration::from_secs(10);

/// Opens an address and begins to serve there. `name`: of the thread that tries again; `loss`: the
/// consequence of a failure, for the alert log.
///
/// # Errors
/// If an address that `is_new` cannot be opened, or one that was opened cannot be served.
pub(crate) fn now_or_later<T>(
    alert: &Alert,
    is_new: bool,
    name: &str,
    loss: &str,
    open: impl Fn() -> io::Result<T> + Send + 'static,
    serve: impl Fn(T) -> io::Result<()> + Send + 'static,
) -> io::Result<()> {
    match open() {
        Ok(opened) => serve(opened),
        Err(error) if is_new => Err(error),
        Err(error) => {
            alert.line(Severity::Alarm, "instance", &format!("{loss}: {error}"));
            let again = move || {
                while open().and_then(&serve).is_err() {
                    thread::sleep(AGAIN);
                }
            };
            thread::Builder::new().name(name.into()).spawn(again).map(drop)
        }
    }
}
