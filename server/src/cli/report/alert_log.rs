//! The last day of the alert log: lines about this group and about the instance.
//!
//! The log is read as a file, from its end, in the directory that `v$diag_info` names. Lines about
//! other groups are left out; they are another ticket's. Where the log was begun anew within the
//! day, the page says since when it goes.

use super::{
    Limits,
    facts::{Facts, Question},
    figures::count,
};
use plinth_evidence::draw::{Page, text::shortened};
use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

pub(super) const QUESTIONS: &[Question] = &[Question {
    view: "v$diag_info",
    is_of_engine: false,
    sql: "SELECT value FROM v$diag_info WHERE name = 'Diag Alert'",
}];

/// Of the end of the log: far more than a day has, as alike lines are gathered.
const BYTES_MAX: u64 = 16 << 20;
const LINE_CHARACTERS_MAX: usize = 400;
const DAY_NANOS: i64 = 86_400_000_000_000;

/// The lines of the last day.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub path: String,
    lines: Vec<String>,
    pub alarms: u64,
    pub warnings: u64,
    /// The time of its first line, if that is within the day.
    begins: Option<String>,
}

/// Reads the log in a directory: the lines of the last day about a group and the instance.
///
/// # Errors
/// If it cannot be opened or read.
pub(super) fn read(directory: &str, group: &str, now: i64) -> Result<Log, String> {
    let path = Path::new(directory).join("alert.log");
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = File::open(&path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let from = size.saturating_sub(BYTES_MAX);
    file.seek(SeekFrom::Start(from)).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    let since = crate::alert::rfc3339(now.saturating_sub(DAY_NANOS));
    // The first line of a part is no whole one.
    let lines = text.lines().skip(usize::from(from > 0));
    let mut log = Log { path: path.display().to_string(), ..Log::default() };
    let mut first = None;
    for line in lines {
        let Some((time, _)) = line.split_once(' ') else { continue };
        first.get_or_insert(time);
        // Times of one form are in the order of their texts.
        if time >= since.as_str() {
            log.add(line, group);
        }
    }
    log.begins = first.filter(|first| *first > since.as_str()).map(str::to_owned);
    Ok(log)
}

impl Log {
    /// Adds a line if it is about the group or the instance.
    fn add(&mut self, line: &str, group: &str) {
        let mut words = line.split(' ').skip(1);
        let (severity, about) = (words.next(), words.next().unwrap_or_default());
        let is_shown = |about| about == group || ["instance", "alarm"].contains(&about);
        if !about.strip_suffix(':').is_some_and(is_shown) {
            return;
        }
        self.alarms += u64::from(severity == Some("ALARM"));
        self.warnings += u64::from(severity == Some("WARNING"));
        self.lines.push(line.to_owned());
    }
}

pub(super) fn draw(facts: &Facts, page: &mut Page, limits: Limits) {
    page.section("Alert log, the last day");
    let log = match &facts.log {
        Ok(log) => log,
        Err(reason) => {
            page.paragraph(&format!("The alert log could not be read: {reason}."));
            return;
        }
    };
    let begins = match &log.begins {
        Some(time) => format!(" The file begins at {time}, less than a day ago."),
        None => String::new(),
    };
    page.paragraph(&format!(
        "{}, lines about {} and the instance, in UTC: {}, of which alarms {} and warnings {}.\
         {begins}",
        log.path,
        facts.group.name,
        count(log.lines.len() as u64),
        count(log.alarms),
        count(log.warnings),
    ));
    let left_out = log.lines.len().saturating_sub(limits.lines);
    if left_out > 0 {
        let number = count(left_out as u64);
        page.paragraph(&format!("Left out to keep the page small: the first {number} lines."));
    }
    let shown: Vec<String> =
        log.lines[left_out..].iter().map(|line| shortened(line, LINE_CHARACTERS_MAX)).collect();
    if !shown.is_empty() {
        page.lines("Alert log", &shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000_000_000;

    fn line(hours_ago: i64, rest: &str) -> String {
        format!("{} {rest}\n", crate::alert::rfc3339(NOW - hours_ago * 3_600_000_000_000))
    }

    fn read_text(text: &str) -> Log {
        let home = tempfile::tempdir().expect("a directory");
        std::fs::write(home.path().join("alert.log"), text).expect("written");
        read(home.path().to_str().expect("words"), "DATA", NOW).expect("read")
    }

    #[test]
    fn lines_of_the_last_day_about_the_group_and_the_instance_are_kept() {
        let text = line(25, "ALARM DATA: old")
            + &line(23, "ALARM DATA: disk 3 is offline")
            + &line(5, "WARNING OTHER: not ours")
            + "no line of a log\n\n"
            + &line(2, "WARNING instance: a login failed")
            + &line(1, "NOTE DATA2: not ours either");
        let log = read_text(&text);
        assert_eq!(log.lines.len(), 2, "{log:?}");
        assert!(log.lines[0].ends_with("ALARM DATA: disk 3 is offline"));
        assert_eq!((log.alarms, log.warnings, log.begins), (1, 1, None));
    }

    #[test]
    fn a_log_that_was_rotated_within_the_day_says_when_it_begins() {
        let text = line(3, "NOTE OTHER: mounted");
        let log = read_text(&text);
        assert_eq!(log.begins.as_deref(), text.split(' ').next());
        assert!(log.lines.is_empty());
    }

    #[test]
    fn a_log_that_is_not_there_is_named() {
        let refused = read("/nowhere", "DATA", NOW).expect_err("there is none");
        assert!(refused.starts_with("/nowhere/alert.log: "), "{refused}");
    }
}
