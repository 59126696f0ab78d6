//! The progress of checks, and their reports in the alert log.
//!
//! `V$ASM_OPERATION` shows a check while it runs, as it shows a scrub: extents that were read, of
//! all. When it has ended there is no row any more: the statement that began it has the result. The
//! alert log keeps the verdict, and the first problems one by one.

use crate::{
    admin::{AdminError, Operation, OperationPass, OperationState, Report, Scope},
    check::{Upkeep, scrub::TOLD_MAX},
    error::FileError,
    event::Severity,
    extent::scope::ExtentScope,
    movement::progress::Progress,
    sync::lock::Mutex,
    words::counted,
};
use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};

/// The running checks of a group.
#[derive(Debug, Default)]
pub(crate) struct Checks(Mutex<BTreeMap<u64, Progress>>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Checking<'a> {
    checks: &'a Checks,
    number: u64,
}

impl Checks {
    pub fn operations(&self, now: Duration) -> Vec<Operation> {
        self.0
            .lock()
            .values()
            .map(|progress| progress.operation(OperationPass::Checking, 1, now))
            .collect()
    }
}

impl Checking<'_> {
    /// One more extent was checked, of which `bytes` bytes were read.
    pub fn advance(&self, now: Duration, bytes: u64) {
        if let Some(progress) = self.checks.0.lock().get_mut(&self.number) {
            progress.advance(now, bytes);
        }
    }
}

impl Drop for Checking<'_> {
    fn drop(&mut self) {
        self.checks.0.lock().remove(&self.number);
    }
}

impl Upkeep {
    /// Shows a check of a part from now on.
    pub(crate) async fn begin_check(&self, part: &ExtentScope) -> Result<Checking<'_>, FileError> {
        let work = self.count_of(part, 0).await?;
        let mut progress = Progress::begin(self.world.monotonic());
        progress.work = work;
        let mut checks = self.checks.0.lock();
        let number = checks.last_key_value().map_or(0, |(last, _)| last + 1);
        checks.insert(number, progress);
        drop(checks);
        Ok(Checking { checks: &self.checks, number })
    }

    /// Reports how a check ended.
    pub(crate) fn tell_check(&self, scope: &Scope, checked: &Result<Report, AdminError>) {
        let part = if *scope == Scope::All { "" } else { " of a part" };
        let report = match checked {
            Ok(report) => report,
            Err(error) => {
                return self.tell(Severity::Warning, None, format!("check{part} ended: {error}"));
            }
        };
        for problem in report.problems.iter().take(TOLD_MAX) {
            let done = if problem.repaired { " (repaired)" } else { "" };
            self.tell(Severity::Warning, None, format!("check: {}{done}", problem.text));
        }
        let (found, repaired, left) =
            (report.problems.found(), report.problems.repaired(), report.problems.left());
        let text = format!(
            "check{part} ended: {}, {} MiB; {} found, {repaired} repaired, {left} left",
            counted(report.extents_checked, "extent"),
            report.bytes_read >> 20,
            counted(found, "problem")
        );
        if left == 0 {
            self.tell(Severity::Note, None, text);
        } else {
            self.tell(
                Severity::Alarm,
                None,
                format!("{text}. ALTER DISKGROUP {} CHECK REPAIR", self.name),
            );
        }
    }

    /// The rows of `V$ASM_OPERATION`.
    pub(crate) fn list_operations(&self) -> Vec<Operation> {
        let mut operations = Vec::new();
        let left = self.suspects.left();
        if left > 0 {
            let total = self.suspects.total.load(Ordering::Relaxed);
            operations.push(Operation {
                pass: OperationPass::Recovery,
                state: OperationState::Run,
                power: 1,
                so_far: total - left.min(total),
                work: total,
                rate: 0,
                bytes: self.suspects.bytes_copied.load(Ordering::Relaxed),
                error: None,
            });
        }
        let now = self.world.monotonic();
        operations.extend(self.rebalance.operation(now));
        for progress in self.resyncs.lock().values() {
            operations.push(progress.operation(
                OperationPass::Resync,
                self.resync_power.load(Ordering::Relaxed),
                now,
            ));
        }
        operations.extend(self.scrub.operation(now));
        operations.extend(self.reclaim.operation(now));
        operations.extend(self.checks.operations(now));
        operations
    }
}
