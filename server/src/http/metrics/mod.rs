//! `/metrics`: one text for all that ask within the same second.
//!
//! A thread, `metrics`, takes requests in turn. If its text is older than [`FRESH`], it reads the
//! engines (`readings.rs`) and writes a new one. So engines are read once a second at most, however
//! many clients ask; and the thread of the HTTP server waits for nothing.
//!
//!   - `snapshot.rs` has what was read, and what follows from it;
//!   - `families.rs` writes the metrics of a snapshot, each named, explained and typed once;
//!   - `sheet.rs` is the writer, over the library's encoder;
//!   - `classic.rs` makes Prometheus's own text of it.

mod classic;
pub mod families;
mod sheet;
pub mod snapshot;
#[cfg(test)]
mod tests;

use super::{connections::Connections, readings::Readings};
use crate::instance::Instance;
use bytes::Bytes;
use std::{
    io,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::{sync::oneshot, time::timeout};

/// How old a text may be for the next client.
const FRESH: Duration = Duration::from_secs(1);
/// Requests that may wait: one for each connection.
const WAITING_MAX: usize = super::connections::SEATS;
/// How long a request waits for its text: only a host without any processor time reaches it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The two formats of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    Prometheus,
}

impl Format {
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

type Request = (Format, oneshot::Sender<Bytes>);

/// The way to the thread.
pub(super) struct Metrics {
    requests: SyncSender<Request>,
}

/// The last text, in the formats that were asked for.
struct Text {
    written: Instant,
    open: String,
    formats: [Option<Bytes>; 2],
}

impl Metrics {
    /// Starts the thread.
    ///
    /// # Errors
    /// If there can be no more threads.
    pub fn start(instance: &Arc<Instance>, connections: &Arc<Connections>) -> io::Result<Self> {
        let (requests, received) = sync_channel(WAITING_MAX);
        let readings = Readings::new(instance, connections);
        thread::Builder::new().name("metrics".into()).spawn(move || write(readings, &received))?;
        Ok(Self { requests })
    }

    /// The text. `None`: it cannot be written now.
    pub async fn text(&self, format: Format) -> Option<Bytes> {
        let (answer, text) = oneshot::channel();
        self.requests.try_send((format, answer)).ok()?;
        timeout(PATIENCE, text).await.ok()?.ok()
    }
}

fn write(mut readings: Readings, requests: &Receiver<Request>) {
    let mut last: Option<Text> = None;
    while let Ok((format, answer)) = requests.recv() {
        if answer.is_closed() {
            continue;
        }
        let mut text = match last.take() {
            Some(text) if text.written.elapsed() < FRESH => text,
            _ => {
                // Before the reading: its length must not count as freshness.
                let written = Instant::now();
                Text { written, open: families::write(readings.read()), formats: [None, None] }
            }
        };
        let _ = answer.send(text.of(format));
        last = Some(text);
    }
}

impl Text {
    fn of(&mut self, format: Format) -> Bytes {
        let (place, open) = (format as usize, &self.open);
        let write = || match format {
            Format::OpenMetrics => Bytes::copy_from_slice(open.as_bytes()),
            Format::Prometheus => Bytes::from(classic::of(open)),
        };
        self.formats[place].get_or_insert_with(write).clone()
    }
}
