//! Is all well? The rows of `v$asm_health`, which `plinth status` prints.
//!
//! ```text
//!   engines --ask.rs--> facts.rs --> group.rs, disks.rs --+
//!   discovery, the filter, parameters -----> host.rs -----+--> findings --> v$asm_health
//!                       counters --> history.rs ----------+
//! ```
//!
//! A fact has severity OK: the state of a group, what it can lose, its free space, its latency,
//! what runs. A finding has another severity, says what is the case, and names the statement that
//! mends it. The rules are functions of facts, so a view, a page and a command show the same rows.
//!
//! Invariants:
//!
//!   1. An answer takes [`ANSWER_MAX`] at most, whatever hangs: engines and disks are asked by
//!      threads that this one does not wait for any longer. Silence is a finding.
//!   2. At most one thread asks an engine, however often a group is looked at (`ask.rs`).
//!   3. Nothing is changed, and no lock is held while something is waited for.

mod ask;
mod backing;
mod disks;
mod facts;
mod group;
mod history;
mod host;

pub(super) use ask::Asking;

use super::Instance;
use crate::text::{bytes_pretty, quoted};
use ask::Answer;
use host::HostFacts;
use plinth_engine::{
    admin::{AdminError, Code, HeaderStatus},
    words::counted,
};
use std::{
    fs,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

/// How long an answer may take: a third of it is left of the ten seconds in which monitoring has to
/// see a dead engine.
const ANSWER_MAX: Duration = Duration::from_secs(6);
/// How long the disks of the host are looked for: they answer within milliseconds, on a very busy
/// host within some hundred, and a device that hangs keeps a discovery waiting for longer than
/// monitoring waits.
const LOOK_MAX: Duration = Duration::from_secs(3);
/// Facts of a group that are older than this are asked for again: a disk of it may have begun to
/// hang while others were looked for.
const FACTS_AGE_MAX: Duration = Duration::from_secs(1);

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A fact.
    Ok,
    /// Worth knowing, and no trouble.
    Note,
    /// Something is less safe or slower than it should be.
    Warning,
    /// Something is not available, or about to be lost.
    Critical,
}

impl Severity {
    /// As SQL shows it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Note => "NOTE",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
        }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)+) => {
        /// The kind of a fact or a finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind {
            $($(#[$doc])* $name,)+
        }

        impl Kind {
            /// As SQL shows it.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }

            /// All of them.
            #[cfg(test)]
            pub(super) const ALL: &[Self] = &[$(Self::$name,)+];
        }
    };
}

kinds! {
    Group = "GROUP",
    FailureGroup = "FAILURE GROUP",
    FreeSpace = "FREE SPACE",
    ReadLatency = "READ LATENCY",
    WriteLatency = "WRITE LATENCY",
    Operation = "OPERATION",
    NotMounted = "NOT MOUNTED",
    NoEngine = "NO ENGINE",
    EngineSilent = "ENGINE SILENT",
    EngineRefuses = "ENGINE REFUSES",
    WritesWait = "WRITES WAIT",
    DiskOffline = "DISK OFFLINE",
    DiskSyncing = "DISK SYNCING",
    DiskHung = "DISK HUNG",
    DiskFull = "DISK FULL",
    DiskErrors = "DISK ERRORS",
    DiskSlow = "DISK SLOW",
    MissingMirrors = "MISSING MIRRORS",
    Unmirrored = "UNMIRRORED",
    MissingVoter = "MISSING VOTER",
    SingleDisk = "SINGLE DISK",
    Space = "SPACE",
    Catalog = "CATALOG",
    Scrub = "SCRUB",
    Delay = "DELAY",
    Forced = "FORCED",
    Preferred = "PREFERRED",
    UnusedDisk = "UNUSED DISK",
    DeviceSilent = "DEVICE SILENT",
    Discovery = "DISCOVERY",
    Filter = "FILTER",
    Alarm = "ALARM",
}

/// The unit of a finding's figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    Microseconds,
    Percent,
    Extents,
    Seconds,
}

impl Unit {
    /// As SQL shows it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Bytes => "BYTES",
            Self::Microseconds => "MICROSECONDS",
            Self::Percent => "PERCENT",
            Self::Extents => "EXTENTS",
            Self::Seconds => "SECONDS",
        }
    }
}

/// A row of `v$asm_health`.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The group's number, or 0, and its name; `None`: it is about no group.
    pub group: Option<(u32, String)>,
    pub severity: Severity,
    pub kind: Kind,
    pub subject: Option<String>,
    pub detail: String,
    /// Statements or a command.
    pub remedy: Option<String>,
    pub value: Option<(f64, Unit)>,
}

impl Finding {
    fn new(severity: Severity, kind: Kind, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { group: None, severity, kind, subject: None, detail, remedy: None, value: None }
    }

    fn on(self, subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }

    fn mended_by(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    fn maybe_mended_by(self, remedy: Option<String>) -> Self {
        Self { remedy, ..self }
    }

    fn measuring(self, value: f64, unit: Unit) -> Self {
        Self { value: Some((value, unit)), ..self }
    }
}

/// A path where a statement takes a pattern: it matches this path alone.
fn path_pattern(path: &str) -> String {
    match path.contains(['*', '?', '[']) {
        true => quoted(&glob::Pattern::escape(path)),
        false => quoted(path),
    }
}

/// Bytes for people.
fn size(bytes: f64) -> String {
    bytes_pretty(bytes as i64)
}

/// A duration for people.
fn span(seconds: u64) -> String {
    match seconds {
        0..120 => counted(seconds, "second"),
        120..7200 => counted(seconds / 60, "minute"),
        7200..172_800 => counted(seconds / 3600, "hour"),
        _ => counted(seconds / 86_400, "day"),
    }
}

impl Instance {
    /// All facts and findings, those of the host last. It returns in time whatever hangs.
    #[must_use]
    pub fn health(self: &Arc<Self>) -> Vec<Finding> {
        let began = Instant::now();
        let deadline = began + ANSWER_MAX;
        let groups = self.groups();
        let ask_all = |now| groups.keys().for_each(|group| self.ask_group(group, now));
        ask_all(began);
        let host = self.host_in_time();
        let mut from = began;
        if began.elapsed() > FACTS_AGE_MAX {
            from = Instant::now();
            ask_all(from);
        }
        let mut all = Vec::new();
        let mut answers = Vec::new();
        for (group, number) in &groups {
            let answer = self.answer_of(group, from, deadline);
            let found = match &answer {
                Answer::Facts(facts) => group::findings(group, facts, &host),
                Answer::Refused(error) if matches!(error.code, Code::NotMounted | Code::Io) => {
                    vec![self.without_engine(group, &error.to_string())]
                }
                Answer::Refused(error) => vec![refusing_engine(group, error)],
                Answer::Silent(since) => vec![self.silent_engine(group, *since)],
            };
            let of_group = Some((*number, group.clone()));
            all.extend(found.into_iter().map(|found| Finding { group: of_group.clone(), ..found }));
            if let Answer::Facts(facts) = answer {
                answers.push((group.clone(), facts));
            }
        }
        all.extend(host.findings(&groups, &answers, &self.preferred()));
        all
    }

    /// The facts of the host, or that they could not be had in time.
    fn host_in_time(self: &Arc<Self>) -> HostFacts {
        let (tell, told) = mpsc::channel();
        let instance = Arc::clone(self);
        let look = move || drop(tell.send(HostFacts::of(&instance)));
        let looking = thread::Builder::new().name("health".into()).spawn(look);
        match looking {
            Ok(_) => told.recv_timeout(LOOK_MAX).unwrap_or_else(|_| {
                let trouble = format!(
                    "looking for disks has taken longer than {} and goes on: disks that no group uses, and groups that are not mounted, are not known",
                    span(LOOK_MAX.as_secs())
                );
                HostFacts::unknown(self, trouble)
            }),
            Err(error) => {
                HostFacts::unknown(self, format!("disks cannot be looked for: {error}"))
            }
        }
    }

    /// No engine answers for a group that shall be mounted: the last one has ended, and there is no
    /// other yet.
    fn without_engine(&self, group: &str, why: &str) -> Finding {
        let detail = if self.is_between_engines(group) {
            format!(
                "no engine serves it, and programs that use it wait. It is tried again by itself; the alert log says why it fails. {why}"
            )
        } else {
            format!("no engine serves it, and none is started again by itself. {why}")
        };
        Finding::new(Severity::Critical, Kind::NoEngine, detail)
            .mended_by(format!("ALTER DISKGROUP {group} MOUNT"))
    }

    /// The engine does not answer.
    fn silent_engine(&self, group: &str, since: Duration) -> Finding {
        let process = fs::read_to_string(self.paths.engine_pid(group)).unwrap_or_default();
        let process = process.trim().parse::<u32>().ok();
        let is_stopped = process.is_some_and(|pid| state_of(pid) == Some('T'));
        let waited = span(since.as_secs());
        let (detail, remedy) = match process {
            Some(pid) if is_stopped => (
                format!(
                    "its engine, process {pid}, is stopped by a signal: it has not answered for {waited}"
                ),
                Some(format!("kill -CONT {pid}")),
            ),
            Some(pid) => (
                format!(
                    "its engine, process {pid}, has not answered for {waited}. If that goes on, end it: another one takes over, and programs that use the group go on"
                ),
                Some(format!("kill -KILL {pid}")),
            ),
            None => (format!("its engine has not answered for {waited}"), None),
        };
        Finding::new(Severity::Critical, Kind::EngineSilent, detail)
            .maybe_mended_by(remedy)
            .measuring(since.as_secs_f64(), Unit::Seconds)
    }
}

/// The engine serves the group, and cannot tell how it is: it is of another version.
fn refusing_engine(group: &str, error: &AdminError) -> Finding {
    let detail = format!(
        "its engine runs, and how the group is cannot be known: {error}. It may be of another version than the instance"
    );
    Finding::new(Severity::Warning, Kind::EngineRefuses, detail)
        .mended_by(format!("plinth upgrade {group}"))
}

/// The state of a process, by the letter that the kernel has for it.
fn state_of(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name stands before it in brackets, and may have brackets itself.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether a header says that the disk is free to be taken.
fn is_free(header: HeaderStatus) -> bool {
    matches!(header, HeaderStatus::Candidate | HeaderStatus::Provisioned | HeaderStatus::Former)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_for_people() {
        assert_eq!([1023.0, 1_610_612_736.0].map(size), ["1023 bytes", "1.5 GiB"]);
        let spans = [0, 1, 119, 120, 7200, 172_800].map(span);
        assert_eq!(
            spans,
            ["0 seconds", "1 second", "119 seconds", "2 minutes", "2 hours", "2 days"]
        );
        assert_eq!(path_pattern("/a'b]"), "'/a''b]'");
        assert_eq!(path_pattern("/a[b]*'?"), "'/a[[]b[]][*]''[?]'");
    }

    #[test]
    fn the_documentation_has_every_kind() {
        let text = include_str!("../../../../docs/sql.md");
        for kind in Kind::ALL {
            assert!(text.contains(&format!("| `{}` |", kind.word())), "{} is missing", kind.word());
        }
    }

    #[test]
    fn the_state_of_this_process_is_known() {
        assert!(matches!(state_of(std::process::id()), Some('R' | 'S')));
        assert_eq!(state_of(u32::MAX), None);
    }
}
