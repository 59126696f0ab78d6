//! Scrub: reads all data of a group and compares it with its checksums, while the group is used.
//!
//! It finds rotted blocks before they are needed: the second mirror of a block is not read while
//! the first is good. Extents are scrubbed in the order of their ids, with the check that `CHECK`
//! uses (`check.rs`, invariant 7), on every ONLINE disk; with REPAIR wrong blocks are rewritten
//! from a good mirror. A disk that goes offline is left out from then on: its resync restores what
//! it misses.
//!
//! # How fast
//!
//! The disks belong to the databases. After each extent the scrub rests: as long as it has read
//! with AUTO, nine times as long with LOW, not at all with HIGH and MAX; MAX also reads several
//! extents at once. AUTO takes slow reads as a sign that the disks are busy, or that one is
//! failing: an extent that takes more than twice as long for a MiB as is usual doubles the next
//! rest, up to [`REST_MAX`] each. Where a latency target is set (`throttle.rs`), the scrub's reads
//! keep it as well, at any power. And the scrub waits while mirrors are made or move, unless FORCE:
//! that is more urgent, and reads what it copies anyway.
//!
//! ```text
//!   none --SCRUB--> RUN --all seen--> DONE
//!                   ^ |  \--STOP, dismount--> DONE    \--error--> ERRS
//!                   | v
//!                   WAIT    mirrors are made or move
//! ```
//!
//! In a scrub of the whole group the metadata is read first, with the check's invariants 1 and 6,
//! unless the attribute `scrub_metadata.enabled` is false.
//!
//! A scrub is not stored: after a crash or a dismount it has to be started again. One runs at a
//! time.

use crate::{
    admin::{
        AdminError, Code, Operation, OperationPass, OperationState, Report, ScrubOrder, ScrubPower,
    },
    check::Upkeep,
    error::FileError,
    event::Severity,
    extent::{
        Extent,
        scope::{Batch, ExtentScope},
    },
    movement::progress::Progress,
    planted::{self, Bug},
    sync::lock::{Mutex, MutexGuard},
    words::counted,
};
use futures::future;
use std::{sync::Arc, time::Duration};

/// The longest rest after one extent: however slow the disks are, a scrub ends.
const REST_MAX: Duration = Duration::from_secs(2);
/// A read is slow if it takes this many times longer than usual.
const SLOW: u32 = 2;
/// How often it is looked whether what a scrub waits for has ended.
const PAUSE: Duration = Duration::from_millis(200);
/// Problems of one scrub or check that the alert log names one by one; all are counted.
pub(crate) const TOLD_MAX: usize = 50;
/// Extents that MAX reads at once.
const AT_ONCE_MAX: usize = 8;

/// The scrub of a group: the running one, or the last one.
#[derive(Debug, Default)]
pub struct Scrub(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_running: bool,
    /// The operator wants it to end, or it ends for a dismount.
    is_stopped: bool,
    /// Extents read at once.
    at_once: usize,
    progress: Option<Progress>,
    report: Report,
}

impl Scrub {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    fn progress(&self, change: impl FnOnce(&mut Progress)) {
        if let Some(progress) = &mut self.lock().progress {
            change(progress);
        }
    }

    /// The row that `V$ASM_OPERATION` shows of it.
    pub fn operation(&self, now: Duration) -> Option<Operation> {
        let state = self.lock();
        let power = u32::try_from(state.at_once).unwrap_or(u32::MAX);
        Some(state.progress.as_ref()?.operation(OperationPass::Scrubbing, power, now))
    }
}

impl ScrubPower {
    /// Extents that are read at once: the attribute `scrub_async_limit`.
    fn at_once(self, limit: u32) -> usize {
        let limit = limit.max(1) as usize;
        if self == Self::Max { AT_ONCE_MAX.max(limit) } else { limit }
    }
}

/// How long is rested between extents.
#[derive(Debug)]
struct Rests {
    power: ScrubPower,
    /// The usual time for a MiB.
    usual: Option<Duration>,
    /// How many times as long as usual is rested, while reads are slow.
    factor: u32,
}

impl Rests {
    fn new(power: ScrubPower) -> Self {
        Self { power, usual: None, factor: 1 }
    }

    /// How long to rest after reading `bytes` bytes in the time `took`.
    fn after(&mut self, took: Duration, bytes: u64) -> Duration {
        let rest = match self.power {
            ScrubPower::High | ScrubPower::Max => return Duration::ZERO,
            ScrubPower::Low => took.saturating_mul(9),
            ScrubPower::Auto => {
                if bytes == 0 {
                    return Duration::ZERO;
                }
                let mib = u32::try_from((bytes >> 20).max(1)).unwrap_or(u32::MAX);
                let each = took / mib;
                let usual = self.usual.unwrap_or(each);
                self.factor = if each > usual.saturating_mul(SLOW) {
                    self.factor.saturating_mul(2).min(1 << 10)
                } else {
                    (self.factor / 2).max(1)
                };
                // Slowly: a disk that stays slow is not slower than usual for ever.
                self.usual = Some((usual.saturating_mul(31).saturating_add(each)) / 32);
                took.saturating_mul(self.factor)
            }
        };
        rest.min(REST_MAX)
    }
}

impl Upkeep {
    /// Begins a scrub and returns; `operations` shows it.
    ///
    /// # Errors
    /// If one is running, or the scope does not exist.
    pub async fn scrub(self: &Arc<Self>, order: &ScrubOrder) -> Result<(), AdminError> {
        let part = self.part(&order.scope).await?;
        let work = self.count_of(&part, 0).await?;
        {
            let mut state = self.scrub.lock();
            if state.is_running {
                let text = format!("disk group {} is being scrubbed", self.name);
                return Err(AdminError::new(Code::Busy, text)
                    .hint(format!("wait for it, or ALTER DISKGROUP {} SCRUB STOP", self.name)));
            }
            let mut progress = Progress::begin(self.world.monotonic());
            progress.work = work;
            let at_once = order.power.at_once(self.attributes().scrub_async_limit);
            *state =
                State { is_running: true, at_once, progress: Some(progress), ..State::default() };
        }
        let how = if order.repair { ", and mends what it can" } else { "" };
        self.tell(
            Severity::Note,
            None,
            format!("scrub begins: it reads {}{how}", counted(work, "extent")),
        );
        let (group, order) = (Arc::clone(self), order.clone());
        self.world.spawn(
            "scrub",
            Box::pin(async move {
                let mut ended = group.scrub_part(&part, &order).await;
                if ended.is_ok()
                    && part.is_all()
                    && (!group.is_scrub_over() || planted::has(Bug::StoppedScrubCounts))
                {
                    ended = group.note_all_scrubbed().await;
                }
                group.end_scrub(ended);
            }),
        );
        Ok(())
    }

    /// Ends the running scrub, if there is one: it ends when the extents that it reads are done.
    pub fn stop_scrub(&self) {
        self.scrub.lock().is_stopped = true;
    }

    /// The findings of the running scrub, or of the last one.
    #[must_use]
    pub fn scrubbed(&self) -> Report {
        self.scrub.lock().report.clone()
    }

    fn is_scrub_over(&self) -> bool {
        let mut state = self.scrub.lock();
        // Extents that it skipped for a dismount were not read, even if the dismount fails.
        state.is_stopped |= self.is_stopping();
        state.is_stopped
    }

    async fn scrub_part(
        self: &Arc<Self>,
        part: &ExtentScope,
        order: &ScrubOrder,
    ) -> Result<(), FileError> {
        let mut rests = Rests::new(order.power);
        let at_once = self.scrub.lock().at_once.max(1);
        if part.is_all() && self.attributes().scrub_metadata {
            let mut report = Report::default();
            match self.check_metadata(order.repair, &mut report).await {
                Ok(()) => {}
                Err(error @ (FileError::Dismounted | FileError::CatalogStopped(_))) => {
                    return Err(error);
                }
                Err(error) => report.bad(format!("metadata: {error}")),
            }
            self.note_scrubbed(&report, false);
        }
        let mut from = 0;
        while let Some((extents, next)) = self.some_to_scrub(part, from).await? {
            from = next;
            for some in extents.chunks(at_once) {
                self.wait_for_moves(order.force).await;
                if self.is_scrub_over() {
                    return Ok(());
                }
                let _moving = self.throttle.admit(&*self.world, || self.is_scrub_over()).await;
                let began = self.world.monotonic();
                let repair = order.repair;
                let reads = some
                    .iter()
                    .cloned()
                    .map(|extent| async move { self.scrub_extent(&extent, repair).await });
                let bytes =
                    future::join_all(reads).await.into_iter().sum::<Result<u64, FileError>>()?;
                let rest = rests.after(self.world.monotonic().saturating_sub(began), bytes);
                self.rest(rest).await;
            }
        }
        if order.repair {
            self.flush_disks().await?;
        }
        Ok(())
    }

    async fn some_to_scrub(
        &self,
        part: &ExtentScope,
        from: u64,
    ) -> Result<Option<Batch>, FileError> {
        if self.is_scrub_over() { Ok(None) } else { self.some_of(part, from).await }
    }

    /// Reads one extent. Damage in it does not end the scrub; an extent that cannot be read at all,
    /// or a stopped catalog, does.
    async fn scrub_extent(&self, extent: &Arc<Extent>, repair: bool) -> Result<u64, FileError> {
        let mut report = Report::default();
        match self.check_data(extent, repair, &mut report).await {
            Ok(()) => {}
            Err(error @ (FileError::Dismounted | FileError::CatalogStopped(_))) => {
                return Err(error);
            }
            // A disk that fails meanwhile, for instance: it is dealt with, and the others are read.
            Err(error) => {
                report.bad(format!("extent {} of file {}: {error}", extent.number, extent.file))
            }
        }
        self.note_scrubbed(&report, true);
        Ok(report.bytes_read)
    }

    /// Adds findings to the rest, and reports them.
    fn note_scrubbed(&self, report: &Report, is_extent: bool) {
        let now = self.world.monotonic();
        let tell = {
            let mut state = self.scrub.lock();
            let before = state.report.problems.found();
            state.report.extents_checked += u64::from(is_extent);
            state.report.bytes_read += report.bytes_read;
            if let Some(progress) = state.progress.as_mut().filter(|_| is_extent) {
                progress.advance(now, report.bytes_read);
            }
            state.report.problems.append(report.problems.clone(), |problem| problem);
            usize::try_from((TOLD_MAX as u64).saturating_sub(before)).unwrap_or(0)
        };
        for problem in report.problems.iter().take(tell) {
            let done = if problem.repaired { " (repaired)" } else { "" };
            self.tell(Severity::Warning, None, format!("scrub: {}{done}", problem.text));
        }
    }

    /// Waits while mirrors are made or move, unless `force`.
    async fn wait_for_moves(&self, force: bool) {
        let moves = |operation: &Operation| {
            !matches!(
                operation.pass,
                OperationPass::Scrubbing | OperationPass::Checking | OperationPass::Reclaim
            ) && operation.state == OperationState::Run
        };
        while !force && !self.is_scrub_over() && self.list_operations().iter().any(moves) {
            self.scrub.progress(|progress| progress.state = OperationState::Wait);
            self.world.sleep(PAUSE).await;
        }
        self.scrub.progress(|progress| progress.state = OperationState::Run);
    }

    /// Rests, in parts: a request to end does not wait for the whole rest.
    async fn rest(&self, mut rest: Duration) {
        while !rest.is_zero() && !self.is_scrub_over() {
            let part = rest.min(PAUSE);
            self.world.sleep(part).await;
            rest -= part;
        }
    }

    fn end_scrub(&self, ended: Result<(), FileError>) {
        let ended = if self.is_stopping() { Ok(()) } else { ended };
        let (text, left) = {
            let mut state = self.scrub.lock();
            let (found, repaired) =
                (state.report.problems.found(), state.report.problems.repaired());
            let (extents, bytes) = (state.report.extents_checked, state.report.bytes_read);
            let work = state.progress.as_ref().map_or(0, |progress| progress.work);
            let how = match &ended {
                Err(error) => format!("ended: {error};"),
                Ok(()) if state.is_stopped || self.is_stopping() => {
                    format!("stopped, of {} it read", counted(work, "extent"))
                }
                Ok(()) => "ended:".to_owned(),
            };
            let all_seen = ended.is_ok() && !state.is_stopped && !self.is_stopping();
            if let Some(progress) = &mut state.progress {
                if all_seen {
                    // Extents that were deleted meanwhile did not have to be read.
                    progress.work = progress.so_far;
                }
                progress.state =
                    if ended.is_err() { OperationState::Errs } else { OperationState::Done };
                progress.error = ended.err().map(|error| error.to_string());
            }
            state.is_running = false;
            let left = found - repaired;
            let text = format!(
                "scrub {how} {}, {} MiB; {} found, {repaired} repaired, {left} left",
                counted(extents, "extent"),
                bytes >> 20,
                counted(found, "problem")
            );
            (text, left)
        };
        if left == 0 {
            self.tell(Severity::Note, None, text);
        } else {
            let text = format!("{text}. ALTER DISKGROUP {} SCRUB REPAIR", self.name);
            self.tell(Severity::Alarm, None, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// AUTO rests as long as it reads; when reads become slow, longer and longer, and when they are
    /// as before, as before.
    #[test]
    fn rests_grow_while_reads_are_slow() {
        let mut rests = Rests::new(ScrubPower::Auto);
        let (fast, slow) = (Duration::from_millis(1), Duration::from_millis(10));
        for _ in 0..10 {
            assert_eq!(rests.after(fast, MIB), fast);
        }
        let first = rests.after(slow, MIB);
        let second = rests.after(slow, MIB);
        assert!(first > slow && second > first, "{first:?} {second:?}");
        for _ in 0..20 {
            rests.after(fast, MIB);
        }
        assert_eq!(rests.after(fast, MIB), fast);
        // However slow, it has an end; and what is always slow is not slower than usual.
        for _ in 0..500 {
            assert!(rests.after(Duration::from_secs(1), MIB) <= REST_MAX);
        }
        assert_eq!(rests.after(Duration::from_secs(1), MIB), Duration::from_secs(1));
        assert_eq!(rests.after(slow, 0), Duration::ZERO, "nothing was read");
    }

    #[test]
    fn each_power_rests_for_its_own_time() {
        let took = Duration::from_millis(5);
        let rest = |power| Rests::new(power).after(took, MIB);
        assert_eq!(rest(ScrubPower::Low), took * 9);
        assert_eq!(rest(ScrubPower::Auto), took);
        assert_eq!(rest(ScrubPower::High), Duration::ZERO);
        assert_eq!(rest(ScrubPower::Max), Duration::ZERO);
    }
}
