//! `plinth serve`: an instance, and the sockets on which it answers.

use crate::{
    http,
    instance::{
        Instance, control,
        start::{Options, Started, start},
        systemd,
    },
    pg, process, stdio,
};
use rustix::fd::OwnedFd;
use std::{fs, io, process::ExitCode, sync::Arc};

/// Runs an instance until a signal ends it.
#[must_use]
pub fn serve(options: Options) -> ExitCode {
    let stored = systemd::stored();
    process::keep_signals();
    process::raise_descriptors();
    match listen(options, stored) {
        Ok((instance, _lock)) => {
            instance.tell_manager_when_mounted();
            let dir = instance.paths().dir().display();
            stdio::print(&format!("plinth: ready, psql -h {dir}\n"));
            process::wait_for_end();
            instance.leave(0);
        }
        Err(error) => {
            stdio::warn(&format!("plinth: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Starts an instance and listens on its sockets. It is the only one of its directory until the
/// returned file is dropped.
fn listen(
    options: Options,
    stored: Vec<(String, OwnedFd)>,
) -> io::Result<(Arc<Instance>, fs::File)> {
    let Started { instance, lock, postgres, control, network, is_new_network, http, is_new_http } =
        start(options, stored)?;
    let limits = Arc::default();
    pg::listen(&instance, postgres, &limits)?;
    if let Some(network) = network {
        pg::network::listen(&instance, &network, is_new_network, &limits)?;
    }
    if let Some(http) = http {
        http::listen(&instance, &http, is_new_http)?;
    }
    control::listen(&instance, control)?;
    instance.keep_filter()?;
    instance.keep_history()?;
    Ok((instance, lock))
}
