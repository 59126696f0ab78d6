//! A database's I/O with the parameters of SLOB, without a database.
//!
//! Each schema has SCALE blocks and a table for scans; a session is a closed loop of queries,
//! updates and scans ([`sessions`]). All data is written before; then the gate opens, and all
//! sessions begin at once.

mod conf;
mod sessions;

pub use conf::{Amount, Parameters};

use super::{
    IssueError, Observer, Outcome, Plan,
    drive::{Drive, Length, Part},
    plan::{add_notes, fill_targets, open},
    recorder::Tally,
    target::Target,
    text,
    worker::Data,
};
use crate::{
    buckets::Buckets,
    model::{Class, Stream},
    run::{ClassRun, Loop, Run, VERSION},
};
use plinth_workload::lock;
use sessions::{Layout, PIECE, Sessions, Shared, WRITER_DEPTH};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Wait events of a database that its requests are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Read = 0,
    Scan = 1,
    Write = 2,
    LogWrite = 3,
}

impl Event {
    pub const ALL: [Self; 4] = [Self::Read, Self::Scan, Self::Write, Self::LogWrite];

    /// As a database calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "db file sequential read",
            Self::Scan => "direct path read",
            Self::Write => "db file parallel write",
            Self::LogWrite => "log file parallel write",
        }
    }

    fn class(self) -> Class {
        match self {
            Self::Read => Class::RandomRead,
            Self::Scan => Class::LargeRead,
            Self::Write => Class::RandomWrite,
            Self::LogWrite => Class::LogWrite,
        }
    }
}

/// The load to be issued.
#[derive(Debug, Clone)]
pub struct Slob {
    pub parameters: Parameters,
    /// Bytes.
    pub block: u64,
    pub seed: u64,
    pub label: String,
    pub force_overwrite: bool,
    /// Threads that issue, each with some of the sessions, its own writers and its own log.
    pub instances: u64,
    /// Whether the bytes of all reads are verified.
    pub verify: bool,
    /// Sessions begin when this file is there.
    pub gate: Option<PathBuf>,
    /// Seconds before measuring begins.
    pub ramp: f64,
}

/// The measurements of it.
#[derive(Debug, Clone)]
pub struct Results {
    pub outcome: Outcome,
    pub sessions: u64,
    pub executes: u64,
    /// Of sessions for the log writer.
    pub syncs: Buckets,
}

/// Bytes of the log on each target.
const LOG: u64 = 256 << 20;
const INSTANCES_MAX: u64 = 64;

impl Slob {
    fn layout(&self, targets: usize) -> Layout {
        let blocks = PIECE / self.block;
        let scale = self.parameters.scale.blocks(self.block).next_multiple_of(blocks);
        // One piece more, for scans begin at a whole one.
        let scan = self.parameters.scan_table.blocks(self.block).next_multiple_of(blocks) + blocks;
        let pieces = (scale + scan) / blocks * self.parameters.schemas;
        let data = pieces.div_ceil(targets as u64) * PIECE;
        Layout { block: self.block, scale, scan, targets, data, log: LOG }
    }

    /// # Errors
    /// If parameters or targets are refused, or the machinery fails.
    pub fn run(
        &self,
        targets: &[String],
        observer: &mut dyn Observer,
    ) -> Result<Results, IssueError> {
        if !self.block.is_power_of_two() || !(512..=65_536).contains(&self.block) {
            return Err(IssueError::Plan(format!("blocks of {} bytes are none", self.block)));
        }
        self.parameters.check(self.block)?;
        let sessions = self.parameters.schemas * self.parameters.threads_per_schema;
        if !(1..=sessions.min(INSTANCES_MAX)).contains(&self.instances) {
            return Err(IssueError::Plan(format!(
                "--instances {}: give 1 to {}, at most as many as there are sessions ({sessions})",
                self.instances, INSTANCES_MAX
            )));
        }
        let layout = self.layout(targets.len().max(1));
        let plan = self.plan(&layout);
        let opened = open(&plan, targets)?;
        self.check_targets(&layout, &opened)?;
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let data = Plan { verify: self.verify, seed: self.seed, ..plan.clone() }.data(
            &plan.streams,
            &opened,
            began.as_nanos() as u64,
        )?;
        let is_filled = fill_targets(&plan, &opened, &data, observer)?;
        if !is_filled || !self.wait_for_gate(observer) {
            return Err(IssueError::Interrupted);
        }
        let shared = Shared { versions: data.versions.clone(), ..Shared::default() };
        let parts: Vec<Part<'_>> =
            (0..self.instances).map(|instance| self.part(&layout, &shared, instance)).collect();
        let drive = Drive {
            targets: &opened,
            data: Data { version: data.version + 1, ..data },
            limits: Arc::clone(&shared.limits),
            length: Length::Seconds(self.parameters.run_time),
            ramp: self.ramp,
            steady_by: |tally, _| tally.mean(),
            without_ring: false,
        };
        let measured = drive.run(parts, Event::ALL.len(), observer)?;
        let mut notes = vec!["closed loop: each session waits for its requests".to_owned()];
        add_notes(&measured, "give more --instances", &mut notes);
        let recorder = &measured.recorder;
        let class = |event: &Event| {
            let total = recorder.total(*event as usize);
            (total.requests + total.errors > 0).then(|| of_event(*event, total, recorder))
        };
        let run = Run {
            version: VERSION,
            label: self.label.clone(),
            source: "plinth load slob".to_owned(),
            targets: opened.iter().map(|target| target.name.clone()).collect(),
            began: Some(began.as_secs()),
            seconds: recorder.seconds(),
            issued: Loop::Closed,
            classes: Event::ALL.iter().filter_map(class).collect(),
            notes,
        };
        let counters = lock(&shared.counters);
        Ok(Results {
            sessions,
            executes: counters.executes,
            syncs: counters.syncs.buckets(),
            outcome: Outcome {
                wanted: vec![0.0; run.classes.len()],
                run,
                wrong: measured.wrong.count,
                errors: measured.failed.count,
                is_interrupted: measured.is_interrupted,
                is_steady: None,
            },
        })
    }

    fn check_targets(&self, layout: &Layout, opened: &[Target]) -> Result<(), IssueError> {
        for target in opened {
            if target.size < layout.data + layout.log || target.sector > self.block {
                return Err(IssueError::Target {
                    name: target.name.clone(),
                    what: format!(
                        "{} bytes are needed on each target, and it has {}: take a smaller SCALE \
                         or fewer schemas",
                        layout.data + layout.log,
                        target.size
                    ),
                });
            }
        }
        Ok(())
    }

    /// For opening and filling.
    fn plan(&self, layout: &Layout) -> Plan {
        let stream = Stream::of_mean(Class::RandomWrite, 1.0, self.block as f64);
        Plan {
            streams: vec![stream],
            size: Some((layout.data + layout.log).next_multiple_of(4096)),
            force_overwrite: self.force_overwrite,
            fill: true,
            seed: self.seed,
            ..Plan::default()
        }
    }

    fn part(&self, layout: &Layout, shared: &Shared, instance: u64) -> Part<'static> {
        let begin = super::drive::nanoseconds(self.ramp);
        let sessions = Sessions::new(
            self.parameters.clone(),
            layout.clone(),
            shared.clone(),
            begin,
            self.seed,
            (instance, self.instances),
        );
        let count = sessions.count();
        let block = self.block as usize;
        let scans = if self.parameters.scan_pct > 0 { count } else { 0 };
        Part {
            source: Box::new(sessions),
            slots: vec![
                (count, block),
                (scans, PIECE as usize),
                (WRITER_DEPTH, block),
                (1, PIECE as usize),
            ],
        }
    }

    /// False if the run is to end before.
    fn wait_for_gate(&self, observer: &mut dyn Observer) -> bool {
        let Some(gate) = &self.gate else { return true };
        let is_open = |gate: &Path| gate.exists();
        if !is_open(gate) {
            observer.say(&format!("ready: the sessions begin when {} is there", gate.display()));
        }
        while !is_open(gate) {
            if observer.is_stopped() {
                return false;
            }
            thread::sleep(Duration::from_millis(10));
        }
        true
    }
}

fn of_event(event: Event, total: &Tally, recorder: &super::recorder::Recorder) -> ClassRun {
    ClassRun {
        name: event.name().to_owned(),
        class: Some(event.class()),
        requests: total.requests,
        bytes: total.bytes,
        errors: total.errors,
        latency: total.buckets(),
        mean: None,
        line: recorder.line(event as usize),
    }
}

impl Results {
    fn class(&self, event: Event) -> Option<&ClassRun> {
        self.outcome.run.classes.iter().find(|class| class.name == event.name())
    }

    /// The header and the line by which SLOB sums up a run. Latencies in microseconds.
    #[must_use]
    pub fn summary(&self) -> String {
        let seconds = self.outcome.run.seconds.max(f64::MIN_POSITIVE);
        let rate = |events: &[Event]| {
            let classes = events.iter().filter_map(|event| self.class(*event));
            // Of no numbers the sum is -0.
            (classes.map(|class| class.requests as f64).sum::<f64>() + 0.0) / seconds
        };
        let volume = |events: &[Event]| {
            let classes = events.iter().filter_map(|event| self.class(*event));
            let bytes = classes.map(|class| class.bytes as f64).sum::<f64>() + 0.0;
            bytes / seconds / f64::from(1 << 20)
        };
        let latency = |event| self.class(event).and_then(ClassRun::mean).unwrap_or(0.0) / 1e3;
        let reads = [Event::Read, Event::Scan];
        let writes = [Event::Write, Event::LogWrite];
        format!(
            "FILE|SESSIONS|ELAPSED|EXECUTES|PREADS|READ_MBS|PWRITES|WRITE_MBS|REDO_MBS|DFSR_LAT|\
             DPR_LAT|DFPR_LAT|DFPW_LAT|LFPW_LAT|TOP WAIT|\n\
             {}|{}|{:.0}|{:.0}|{:.0}|{:.1}|{:.0}|{:.1}|{:.1}|{:.0}|{:.0}|{:.0}|{:.0}|{:.0}|{}|\n",
            self.outcome.run.label.replace('|', "_"),
            self.sessions,
            seconds,
            self.executes as f64 / seconds,
            rate(&reads),
            volume(&reads),
            rate(&writes),
            volume(&writes),
            volume(&[Event::LogWrite]),
            latency(Event::Read),
            latency(Event::Scan),
            0.0,
            latency(Event::Write),
            latency(Event::LogWrite),
            self.top_wait(),
        )
    }

    /// The event that sessions waited for longest, and its share.
    fn top_wait(&self) -> String {
        let total = |buckets: &Buckets| buckets.mean().unwrap_or(0.0) * buckets.requests() as f64;
        let of = |event| self.class(event).map_or(0.0, |class| total(&class.latency));
        let waits = [
            (Event::Read.name(), of(Event::Read)),
            (Event::Scan.name(), of(Event::Scan)),
            ("log file sync", total(&self.syncs)),
        ];
        let all: f64 = waits.iter().map(|wait| wait.1).sum();
        let top = waits.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        top.filter(|top| top.1 > 0.0)
            .map_or_else(String::new, |(name, time)| format!("{name} {:.1}", time * 100.0 / all))
    }

    /// The summary, the I/O profile, the classes, the histograms, the notes.
    #[must_use]
    pub fn report(&self) -> String {
        let run = &self.outcome.run;
        let mut report = self.summary();
        report.push('\n');
        report += &text::profile(run);
        report.push('\n');
        report += &text::heading(run);
        report += &text::table(run, &self.outcome.wanted, true);
        for class in &run.classes {
            report.push('\n');
            report += &text::histogram(&class.name, &class.latency);
        }
        if !self.syncs.is_empty() {
            report.push('\n');
            report += &text::histogram("log file sync", &self.syncs);
        }
        report + &text::notes(run)
    }
}
