//! The dashboard: a page, and the state that it shows, once a second.
//!
//! ```text
//!   metrics (figures of engines) ---+
//!   findings, a thread              |                            +--> /api/events, a stream each
//!   alert log, a thread             +--> the thread `dashboard` -+
//!   files, a thread for each group -+    one JSON a second       +--> /api/state
//! ```
//!
//! All of it sleeps while there is no viewer (`viewers.rs`). While there are some, the thread
//! `dashboard` takes once a second the values that the others have read last, each with its age,
//! and publishes one text (`state.rs`): ten pages cost as much as one. A source that hangs (an
//! engine, the disk of the alert log) stops one thread; its last value stays, and its age shows.
//!
//! A stream (`stream.rs`) sends the newest text whenever its client has taken the one before: a
//! slow client gets fewer of them. There is no queue.
//!
//! Invariants:
//!
//!   1. One reading a second, however many clients there are; none while there is no client.
//!   2. A client holds 16 KiB of texts, or one that is longer, beside the bytes in its socket.
//!   3. The thread `dashboard` waits for the figures alone, [`super::readings::WAIT_MAX`] long.
//!
//! Users who have logged in (`logins.rs`) can change a little (`actions.rs`).

pub(super) mod actions;
pub mod assets;
mod logins;
mod state;
pub(super) mod stream;
mod viewers;

use super::metrics::Metrics;
use crate::{
    instance::{Instance, health::Finding},
    text::clean,
};
use bytes::Bytes;
use plinth_engine::admin::Value;
use plinth_host::priority::lower_priority;
use state::{FileRow, Sources};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tokio::{sync::watch as channel, time::timeout};
use viewers::{Source, Viewers};

/// Between two texts.
const PERIOD: Duration = Duration::from_secs(1);
/// Between the end of a reading of the findings and the next: with the longest reading it stays
/// below the ten seconds in which a dead engine has to be seen.
const BETWEEN_FINDINGS: Duration = Duration::from_secs(2);
/// Between two looks at the busiest files.
const BETWEEN_FILES: Duration = Duration::from_secs(5);
/// How old the text may be that `/api/state` answers with.
const FRESH: Duration = Duration::from_millis(1500);
/// How long `/api/state` waits for a text.
const PATIENCE: Duration = Duration::from_secs(3);
/// Files that are shown.
const FILES_MAX: usize = 12;
/// Lines of the alert log that are shown, and bytes of its end that are read for them.
const LINES_MAX: usize = 60;
const TAIL_BYTES: u64 = 32 << 10;
/// Characters of a line that are shown.
const LINE_MAX: usize = 600;

/// The newest text. Empty before the first.
#[derive(Debug, Clone, Default)]
pub(super) struct Published {
    at: Option<Instant>,
    json: Bytes,
    /// The same, as an event of a stream.
    event: Bytes,
}

impl Published {
    fn new(json: String) -> Self {
        // JSON as it is written here has no line breaks.
        let event = Bytes::from(format!("data: {json}\n\n"));
        Self { at: Some(Instant::now()), json: Bytes::from(json), event }
    }

    fn is_fresh(&self) -> bool {
        self.at.is_some_and(|at| at.elapsed() < FRESH)
    }
}

/// The way to the texts.
pub(super) struct Dashboard {
    viewers: Arc<Viewers>,
    published: channel::Receiver<Published>,
}

impl Dashboard {
    /// Starts the threads.
    ///
    /// # Errors
    /// If there can be no more threads.
    pub fn start(instance: &Arc<Instance>, metrics: &Arc<Metrics>) -> io::Result<Self> {
        let viewers = Arc::<Viewers>::default();
        let (publish, published) = channel::channel(Published::default());
        let of = Arc::clone(instance);
        let findings =
            viewers.keep_reading("findings", BETWEEN_FINDINGS, move || Some(of.health()))?;
        let log = instance.paths().alert();
        let mut kept = Tail::default();
        let lines = viewers.keep_reading("log tail", PERIOD, move || kept.read(&log))?;
        let (instance, metrics, viewing) =
            (Arc::clone(instance), Arc::clone(metrics), Arc::clone(&viewers));
        thread::Builder::new().name("dashboard".into()).spawn(move || {
            lower_priority();
            let mut files = BTreeMap::new();
            loop {
                viewing.wait();
                let began = Instant::now();
                if let Some(snapshot) = metrics.snapshot() {
                    look_at_files(&mut files, &instance, &viewing, snapshot.groups.keys());
                    let (findings, lines, files) = (&findings, &lines, &files);
                    let preferred = instance.preferred_now();
                    let sources = Sources { preferred, findings, lines, files };
                    let json = state::write(&snapshot, &sources);
                    if publish.send(Published::new(json)).is_err() {
                        return;
                    }
                }
                thread::sleep(PERIOD.saturating_sub(began.elapsed()));
            }
        })?;
        Ok(Self { viewers, published })
    }

    /// The newest text, or that there is none yet.
    pub async fn state(&self) -> Option<Bytes> {
        self.viewers.note_question();
        let mut published = self.published.clone();
        let fresh = timeout(PATIENCE, published.wait_for(Published::is_fresh)).await;
        match fresh {
            Ok(Ok(published)) => Some(published.json.clone()),
            _ => Some(self.published.borrow().json.clone()).filter(|json| !json.is_empty()),
        }
    }

    /// A stream of texts. `None`: there are too many.
    pub fn events(&self) -> Option<stream::Events> {
        let viewer = Arc::clone(&self.viewers).admit()?;
        Some(stream::Events::new(self.published.clone(), viewer))
    }
}

type Findings = Source<Vec<Finding>>;
type Lines = Source<Arc<Vec<String>>>;
type FilesOfGroups = BTreeMap<String, Arc<Source<Vec<FileRow>>>>;

/// Each group has a thread that looks at its files; those of groups that are gone end.
fn look_at_files<'a>(
    files: &mut FilesOfGroups,
    instance: &Arc<Instance>,
    viewers: &Arc<Viewers>,
    groups: impl Iterator<Item = &'a String> + Clone,
) {
    files.retain(|name, _| groups.clone().any(|group| group == name));
    for group in groups {
        if files.contains_key(group) {
            continue;
        }
        let (instance, name) = (Arc::clone(instance), group.clone());
        let read = move || busiest_files(&instance, &name);
        // Without a thread it is tried again in a second.
        if let Ok(source) = viewers.keep_reading("files", BETWEEN_FILES, read) {
            files.insert(group.clone(), source);
        }
    }
}

/// The files with the most requests since the mount. `None`: the engine does not say.
fn busiest_files(instance: &Instance, group: &str) -> Option<Vec<FileRow>> {
    // The inner query first: a path is looked up for the files that are shown alone.
    let sql = format!(
        "SELECT file_number, name, small_reads + large_reads, small_writes + large_writes, syncs, bytes_read, \
         bytes_written, read_time, write_time, sync_time FROM v$asm_file_iostat WHERE file_number IN \
         (SELECT file_number FROM v$asm_file_iostat WHERE file_number > 0 \
         ORDER BY bytes_read + bytes_written DESC LIMIT {FILES_MAX}) ORDER BY bytes_read + bytes_written DESC"
    );
    let rows = instance.engine(group).ok()?.rows(&sql).ok()?;
    Some(rows.iter().filter_map(|row| file_of(row)).collect())
}

fn file_of(row: &[Value]) -> Option<FileRow> {
    let [
        number,
        name,
        reads,
        writes,
        syncs,
        bytes_read,
        bytes_written,
        read_time,
        write_time,
        sync_time,
    ] = row
    else {
        return None;
    };
    let figure = |value: &Value| match value {
        Value::Integer(number) => *number as f64,
        Value::Real(number) => *number,
        _ => 0.0,
    };
    let name = match name {
        Value::Text(name) => name.clone(),
        _ => format!("file {} (removed)", figure(number)),
    };
    Some(FileRow {
        name: cut(&clean(&name)),
        reads: figure(reads),
        writes: figure(writes),
        syncs: figure(syncs),
        bytes_read: figure(bytes_read),
        bytes_written: figure(bytes_written),
        seconds: [read_time, write_time, sync_time].map(figure),
    })
}

fn cut(text: &str) -> String {
    text.chars().take(LINE_MAX).collect()
}

/// The end of the alert log, read when it has changed.
#[derive(Default)]
struct Tail {
    length: Option<u64>,
    lines: Arc<Vec<String>>,
}

impl Tail {
    /// `None`: it cannot be read.
    fn read(&mut self, path: &Path) -> Option<Arc<Vec<String>>> {
        let mut file = File::open(path).ok()?;
        let length = file.metadata().ok()?.len();
        if self.length != Some(length) {
            let from = length.saturating_sub(TAIL_BYTES);
            file.seek(SeekFrom::Start(from)).ok()?;
            let mut bytes = Vec::new();
            file.take(TAIL_BYTES).read_to_end(&mut bytes).ok()?;
            self.lines = Arc::new(last_lines(&bytes, from > 0));
            self.length = Some(length);
        }
        Some(Arc::clone(&self.lines))
    }
}

/// The last whole lines.
fn last_lines(bytes: &[u8], begins_within: bool) -> Vec<String> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let text = String::from_utf8_lossy(bytes.get(..whole).unwrap_or_default());
    let lines: Vec<&str> = text.lines().skip(usize::from(begins_within)).collect();
    let from = lines.len().saturating_sub(LINES_MAX);
    lines.iter().skip(from).map(|line| cut(&clean(line))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_log_the_last_whole_lines_are_shown() {
        let lines: Vec<String> = (0..1000).map(|number| format!("line {number}")).collect();
        let text = format!("{}\nhalf a li", lines.join("\n"));
        let found = last_lines(text.as_bytes(), true);
        assert_eq!((found.len(), found.last().map(String::as_str)), (LINES_MAX, Some("line 999")));
        assert_eq!(last_lines(b"a\nb\n", true), ["b"]);
        assert_eq!(last_lines(b"a\xff\x1b[2J\n", false).len(), 1);
        assert!(!last_lines(b"a\x1b[2J\n", false)[0].contains('\x1b'));
        assert_eq!(last_lines(b"no end", false), [""; 0]);
        let long = format!("{}\n", "x".repeat(10_000));
        assert_eq!(last_lines(long.as_bytes(), false)[0].len(), LINE_MAX);
    }

    #[test]
    fn a_log_is_read_again_when_it_has_grown_and_when_it_is_new() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("alert.log");
        let mut tail = Tail::default();
        assert!(tail.read(&path).is_none());
        for (text, last) in [("one\n", "one"), ("one\ntwo\n", "two"), ("x\n", "x")] {
            std::fs::write(&path, text).expect("written");
            assert_eq!(tail.read(&path).expect("lines").last().map(String::as_str), Some(last));
        }
    }

    #[test]
    fn an_event_is_one_line_with_the_text() {
        let published = Published::new("{\"a\":1}".to_owned());
        assert_eq!(&published.event[..], b"data: {\"a\":1}\n\n");
        assert!(published.is_fresh() && !Published::default().is_fresh());
    }
}
