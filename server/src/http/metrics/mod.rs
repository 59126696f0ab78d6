//! `/metrics`: one text for all that ask within the same second.
//!
//! A thread, `metrics`, takes requests in turn, of clients and of the dashboard. If its reading is
//! older than [`FRESH`], it reads the engines (`readings.rs`) anew; it writes a text of a reading
//! when one is asked for. So engines are read once a second at most, however many ask; and the
//! thread of the HTTP server waits for nothing.
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
use plinth_host::priority::lower_priority;
use snapshot::Snapshot;
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

enum Request {
    Text(Format, oneshot::Sender<Bytes>),
    Snapshot(oneshot::Sender<Arc<Snapshot>>),
}

/// The way to the thread.
pub(super) struct Metrics {
    requests: SyncSender<Request>,
}

/// The last reading, and its text in the formats that were asked for.
struct Reading {
    began: Instant,
    snapshot: Arc<Snapshot>,
    open: Option<String>,
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
        self.requests.try_send(Request::Text(format, answer)).ok()?;
        timeout(PATIENCE, text).await.ok()?.ok()
    }

    /// The figures, for a thread that may wait. `None`: they cannot be read now.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        let (answer, snapshot) = oneshot::channel();
        self.requests.try_send(Request::Snapshot(answer)).ok()?;
        snapshot.blocking_recv().ok()
    }
}

fn write(mut readings: Readings, requests: &Receiver<Request>) {
    lower_priority();
    let mut last: Option<Reading> = None;
    while let Ok(request) = requests.recv() {
        if request.is_given_up() {
            continue;
        }
        let fresh = last.take().filter(|last| last.began.elapsed() < FRESH);
        let mut reading = fresh.unwrap_or_else(|| {
            // Before the reading: its length must not count as freshness.
            let began = Instant::now();
            let snapshot = Arc::new(readings.read());
            Reading { began, snapshot, open: None, formats: [None, None] }
        });
        match request {
            Request::Text(format, answer) => drop(answer.send(reading.text(format))),
            Request::Snapshot(answer) => drop(answer.send(Arc::clone(&reading.snapshot))),
        }
        last = Some(reading);
    }
}

impl Request {
    /// Whether its client has gone.
    fn is_given_up(&self) -> bool {
        match self {
            Self::Text(_, answer) => answer.is_closed(),
            Self::Snapshot(answer) => answer.is_closed(),
        }
    }
}

impl Reading {
    fn text(&mut self, format: Format) -> Bytes {
        let snapshot = &self.snapshot;
        let open = &*self.open.get_or_insert_with(|| families::write(Snapshot::clone(snapshot)));
        let write = || match format {
            Format::OpenMetrics => Bytes::copy_from_slice(open.as_bytes()),
            Format::Prometheus => Bytes::from(classic::of(open)),
        };
        self.formats[format as usize].get_or_insert_with(write).clone()
    }
}
