//! The alert log: plain text, a line per event that an operator would want to know at three in the
//! morning.
//!
//! ```text
//!   2026-11-21T03:00:07.125Z WARNING DATA: disk 3 (/dev/sdd) is offline: ...
//! ```
//!
//! Instance and engines append to it themselves, each line by one write, so that it goes on without
//! an instance. The file is opened for each line: it may be moved away at any time. Lines of one
//! kind are gathered (`alert/gathered.rs`). Alarms reach a person from there (`alarm/mod.rs`).

mod gathered;

pub(crate) use gathered::without_numbers;

use crate::stdio;
use gathered::{Gathered, Text};
use plinth_engine::event::{Event, Severity};
use std::{
    fs::OpenOptions,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Lines that may wait for a slow disk.
const WAITING_MAX: usize = 4096;
/// The wait for lines while none are gathered.
const FOREVER: Duration = Duration::from_secs(3600);

/// A way to write lines that never blocks.
#[derive(Debug, Clone)]
pub struct Alert {
    lines: SyncSender<Line>,
    counts: Arc<[AtomicU64; 3]>,
}

#[derive(Debug)]
enum Line {
    /// The time, in nanoseconds since 1970, and the line.
    Write(i64, Text),
    /// Answer once everything before it is written.
    Flush(SyncSender<()>),
}

impl Alert {
    /// Starts the writer. `echo`: print each line as well.
    #[must_use]
    pub fn new(path: PathBuf, echo: bool) -> Self {
        let (lines, receiver) = sync_channel(WAITING_MAX);
        // Without a thread the lines are lost, and their senders get no error: there is no better
        // place to report it.
        let _ = thread::Builder::new()
            .name("alert".into())
            .spawn(move || write(&path, echo, &receiver));
        Self { lines, counts: Arc::default() }
    }

    /// The events since the start of this process: notes, warnings, alarms. Each is counted, also
    /// where the log has one line for several.
    #[must_use]
    pub fn counts(&self) -> [u64; 3] {
        self.counts.each_ref().map(|count| count.load(Relaxed))
    }

    /// Writes one event. Never blocks: if some thousand lines are waiting, further ones go to the
    /// standard error only.
    pub fn event(&self, event: &Event) {
        self.line(event.severity, &event.group, &event.text);
    }

    /// Writes one line about a group, or about the instance.
    pub fn line(&self, severity: Severity, about: &str, text: &str) {
        let kind = match severity {
            Severity::Note => 0,
            Severity::Warning => 1,
            Severity::Alarm => 2,
        };
        self.counts[kind].fetch_add(1, Relaxed);
        let text = text.replace('\n', " | ").replace('\r', "");
        let line = Line::Write(now(), Text { severity, about: about.to_owned(), text });
        if let Err(TrySendError::Full(line) | TrySendError::Disconnected(line)) =
            self.lines.try_send(line)
            && let Line::Write(nanos, text) = line
        {
            stdio::warn(&written(nanos, &text));
        }
    }

    /// Waits until every line so far is written.
    pub fn flush(&self) {
        let (done, wait) = sync_channel(1);
        if self.lines.send(Line::Flush(done)).is_ok() {
            let _ = wait.recv();
        }
    }
}

fn write(path: &std::path::Path, echo: bool, lines: &Receiver<Line>) {
    let put = |line: String| {
        let file = OpenOptions::new().create(true).append(true).mode(0o640).open(path);
        match file.and_then(|mut file| file.write_all(line.as_bytes())) {
            Ok(()) if !echo => {}
            Ok(()) => stdio::warn(&line),
            Err(error) => stdio::warn(&format!("{}: {error}: {line}", path.display())),
        }
    };
    let (began, mut gathered) = (Instant::now(), Gathered::default());
    loop {
        let wait = gathered.next().map_or(FOREVER, |next| next.saturating_sub(began.elapsed()));
        let line = lines.recv_timeout(wait);
        let is_last = matches!(line, Ok(Line::Flush(_)) | Err(RecvTimeoutError::Disconnected));
        let time = began.elapsed();
        if is_last || gathered.next().is_some_and(|next| time >= next) {
            gathered.take(time, is_last).iter().for_each(|text| put(written(now(), text)));
        }
        match line {
            Ok(Line::Write(nanos, text)) => {
                gathered.offer(time, text).into_iter().for_each(|text| put(written(nanos, &text)));
            }
            Ok(Line::Flush(done)) => drop(done.send(())),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The line as the log has it.
fn written(nanos: i64, Text { severity, about, text }: &Text) -> String {
    format!("{} {severity} {about}: {text}\n", rfc3339(nanos))
}

/// Nanoseconds since 1970.
#[must_use]
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// A time as in RFC 3339, in UTC, with milliseconds. `nanos` since 1970.
#[must_use]
pub fn rfc3339(nanos: i64) -> String {
    let millis = nanos.div_euclid(1_000_000);
    let (seconds, millis) = (millis.div_euclid(1000), millis.rem_euclid(1000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 0000-03-01, in eras of 400 years: the year then ends with its leap day.
    let day = days + 719_468;
    let (era, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) =
        (year + era * 400 + i64::from(month >= 10), if month < 10 { month + 3 } else { month - 9 });
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{millis:03}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_400_000_000_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(1_795_000_000_123_456_789), "2026-11-18T11:06:40.123Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn an_event_is_one_line() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("alert.log");
        let alert = Alert::new(path.clone(), false);
        alert.line(Severity::Warning, "DATA", "one\ntwo");
        alert.line(Severity::Alarm, "DATA", "three");
        alert.flush();
        let text = std::fs::read_to_string(path).expect("a log");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].ends_with(" WARNING DATA: one | two")
                && lines[1].ends_with(" ALARM DATA: three")
        );
        assert_eq!(alert.counts(), [0, 1, 1]);
    }

    /// A process that ends writes what was gathered until then.
    #[test]
    fn lines_of_one_kind_are_gathered() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("alert.log");
        let alert = Alert::new(path.clone(), false);
        for block in 0..1000 {
            alert.line(
                Severity::Warning,
                "DATA",
                &format!("repaired 4 KiB at offset {block} of disk D_0000 (/dev/sda)"),
            );
        }
        alert.line(Severity::Alarm, "DATA", "disk D_0000 is offline");
        alert.flush();
        let text = std::fs::read_to_string(path).expect("a log");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len() as u64, gathered::FIRST + 2, "{text}");
        assert!(lines[lines.len() - 2].ends_with(" ALARM DATA: disk D_0000 is offline"), "{text}");
        let last = lines.last().expect("one");
        assert!(last.contains(" WARNING DATA: 990 more like this in the last "), "{last}");
        assert!(
            last.ends_with("the last one: repaired 4 KiB at offset 999 of disk D_0000 (/dev/sda)"),
            "{last}"
        );
    }
}
