//! Tests the simulator: plants each mistake of `engine/src/planted.rs` and counts the histories
//! until one of them fails.
//!
//! Histories are tried from seed 0 on, each in its own process, several at a time; the count is the
//! first seed that fails, whichever ended first. That seed is then run once more without the
//! mistake: it must not fail.
//!
//! Mistakes that the first seeds do not find are planted together from there on, and by halves
//! where a history fails. A mistake found so might have been found a little earlier by itself.

use crate::{plan::Recipe, runner};
use clap::Args;
use plinth_engine::planted::{self, Bug};
use plinth_workload::lock;
use std::{
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// Mistakes that need more luck than some hundred histories have: a window of a few I/Os, in which
/// one particular other event has to happen. Tests find them (`docs/faults.md`); the simulator
/// plants them only when they are named.
const RARE: &[Bug] = &[
    Bug::SumsBeforeData,
    Bug::ResyncOvertakesWriter,
    Bug::DoubtfulPlaceFreed,
    Bug::DiscardedEarly,
    Bug::SyncingStampKept,
    Bug::MoveOvertakesWriter,
    Bug::OldPlaceLeft,
    Bug::MovedPlaceReused,
    Bug::RegionsAwaitEachOther,
    Bug::CrashedRegionsNotStale,
    Bug::KilledNotFlushed,
    Bug::CatalogCopyNotFlushed,
    Bug::NeededMirrorStruck,
    Bug::NewPlaceFreedEarly,
    Bug::HungCatalogFreed,
    Bug::SilentPartnerCounts,
    Bug::SilentMirrorTakenForBad,
    Bug::UnseenOverwritten,
    Bug::UnseenForgotten,
    Bug::CopyLeftAtDismount,
    Bug::OverdueMendLeft,
    Bug::OnlyGoodLetGo,
    Bug::ReturningBlockMarkedLost,
    Bug::FailureOverSilence,
    Bug::SilenceOverFailure,
    Bug::SilentLogForNone,
    Bug::VoteHoldsUpChange,
    Bug::JoiningForGood,
    Bug::OverdueCopyLeft,
    Bug::StayNotLookedAgain,
    Bug::MoveBeforeVoters,
    Bug::GuestNotMended,
    Bug::MadeMirrorForgotten,
    Bug::CopyToLeftPlace,
    Bug::UnreadLeftBehind,
    Bug::LateStatementLost,
    Bug::PendingIgnoredAtDrop,
    Bug::WipeNotWaited,
    Bug::ReplacedStaleLate,
    Bug::ReturnBeforeMarks,
    Bug::SyncingNotStale,
    Bug::SuspectForgotten,
    Bug::StuckExtentFreed,
    Bug::HolePunchedAgain,
    Bug::UnsyncedFileForgotten,
    Bug::SnapshotLookedLate,
    Bug::CatalogWriteUncounted,
    Bug::PageCachedLate,
    Bug::FailedStampCounts,
    Bug::MoveForgetsFlush,
    Bug::UnreadableMovedByChoice,
    Bug::NoteErased,
    Bug::StayNotFlushed,
    Bug::ShrinkNotCounted,
    Bug::UnitMiscopied,
    Bug::MarksRemoved,
    Bug::SmallReplacement,
    Bug::HistoryKept,
    Bug::BehindForgotten,
    Bug::SumsKept,
    Bug::AnsweredForGood,
    Bug::UnderFlush,
    Bug::EdgesNotNoted,
    Bug::CutNotSeen,
    Bug::FineHole,
    Bug::OthersFlush,
    Bug::DiscardedSoon,
    Bug::TailNotSoiled,
    Bug::StoppedScrubCounts,
    Bug::CrowdedHoleForgotten,
    Bug::SweepOverruled,
    Bug::OldXattrsKept,
    Bug::RebalanceNotAgain,
    Bug::StoppedStays,
    Bug::ConversionIgnored,
    Bug::PromotionLeaks,
    Bug::GoneAwaited,
    Bug::SumsNotAgain,
    Bug::HeirKeeps,
    Bug::ExchangedIntoItself,
    Bug::OrphanLinked,
    Bug::RottenLogCopied,
    Bug::EarlierLifeCompared,
    Bug::RewriteBelieved,
    Bug::PromotionNotNoted,
    Bug::BrokenTakenEarly,
    Bug::RecoveryFlushBelieved,
    Bug::ShownZerosBelieved,
    Bug::BegunEarlyAnswered,
    Bug::SetSideBySide,
    Bug::ReturnedDropped,
    Bug::DropAfterForgotten,
    Bug::RecordOverFailedFlush,
    Bug::BatchLostByFlush,
    Bug::OrdersSideBySide,
];

/// Seeds that are tried with each mistake alone before the rest is planted together.
const ALONE: u64 = 20;

/// The part of the command line about planted mistakes.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct Arguments {
    /// Plants mistakes, and prints how many histories it takes to find each: all but the rarest, or
    /// those named, separated by commas; `list` lists them.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "all")]
    planted: Option<String>,
    /// Histories after which a planted mistake counts as not found.
    #[arg(long, default_value_t = 2000)]
    histories: u64,
    /// Plants this mistake in the histories that are run; may be given several times.
    #[arg(long, value_name = "NAME", value_parser = find)]
    bug: Vec<Bug>,
}

fn find(name: &str) -> Result<Bug, String> {
    let found = Bug::ALL.iter().copied().find(|bug| bug.name() == name);
    found.ok_or_else(|| "there is no such mistake; `--planted list` has them".to_owned())
}

impl Arguments {
    /// Plants the mistakes of `--bug`; carries out `--planted`, if it was given.
    pub fn run(&self, jobs: usize, recipe: Recipe) -> Option<ExitCode> {
        planted::plant(&self.bug);
        let bugs = match self.planted.as_deref()? {
            "list" => {
                Bug::ALL.iter().for_each(|bug| println!("{:<34} {}", bug.name(), bug.what()));
                return Some(ExitCode::SUCCESS);
            }
            "all" => Bug::ALL.iter().filter(|bug| !RARE.contains(bug)).copied().collect(),
            names => match names.split(',').map(find).collect::<Result<Vec<Bug>, String>>() {
                Ok(bugs) => bugs,
                Err(error) => {
                    eprintln!("{names}: {error}");
                    return Some(ExitCode::from(2));
                }
            },
        };
        let hunts = hunt(&bugs, self.histories, jobs, recipe);
        println!(
            "| bug | what it is | histories needed | what was reported |\n| --- | --- | ---: | --- |"
        );
        hunts.iter().for_each(|hunt| println!("{}", hunt.row(self.histories)));
        let found =
            hunts.iter().filter(|hunt| hunt.found.is_some() && hunt.innocent.is_none()).count();
        println!("\n{found} of {} found", hunts.len());
        Some(if found == hunts.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The hunt for one mistake.
#[derive(Debug)]
struct Hunt {
    bug: Bug,
    /// The next seed to try.
    next: u64,
    under_way: u64,
    /// The lowest seed that failed, and its report.
    found: Option<(u64, String)>,
    /// A seed that failed without the mistake, too, and its report: it proves nothing about the
    /// mistake.
    innocent: Option<(u64, String)>,
}

/// Characters of a report that a table shows.
const REPORT_MAX: usize = 140;

fn cut(report: &str) -> String {
    let line = report.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "/");
    let mut short: String = line.chars().take(REPORT_MAX).collect();
    if short.len() < line.len() {
        short.push_str(" ...");
    }
    short
}

impl Hunt {
    fn row(&self, most: u64) -> String {
        let (count, mut report) = match &self.found {
            None => (format!("not in {most}"), "-".to_owned()),
            Some((seed, report)) => (format!("{}", seed + 1), cut(report)),
        };
        if let Some((seed, innocent)) = &self.innocent {
            report = format!("{report}; WITHOUT IT TOO, seed {seed}: {}", cut(innocent));
        }
        format!("| {} | {} | {count} | {report} |", self.bug.name(), self.bug.what())
    }

    fn is_over(&self, most: u64) -> bool {
        self.found.as_ref().is_some_and(|(seed, _)| self.next > *seed) || self.next >= most
    }
}

/// Tries the seeds of all hunts, `jobs` at a time.
fn hunt(bugs: &[Bug], most: u64, jobs: usize, recipe: Recipe) -> Vec<Hunt> {
    let new = |bug: &Bug| Hunt { bug: *bug, next: 0, under_way: 0, found: None, innocent: None };
    let hunts = Mutex::new(bugs.iter().map(new).collect::<Vec<_>>());
    let alone = if bugs.len() == 1 { most } else { most.min(ALONE) };
    side_by_side(jobs, || hunt_alone(&hunts, alone, recipe));
    let next = AtomicU64::new(alone);
    side_by_side(jobs, || hunt_together(&hunts, &next, most, recipe));
    let hunts = lock::into_inner(hunts);
    let missed = hunts.iter().filter(|hunt| hunt.found.is_none());
    missed.for_each(|hunt| eprintln!("{}: not found", hunt.bug.name()));
    hunts
}

fn side_by_side(jobs: usize, job: impl Fn() + Sync) {
    std::thread::scope(|scope| (0..jobs.max(1)).for_each(|_| _ = scope.spawn(&job)));
}

/// One mistake at a time, seed by seed.
fn hunt_alone(hunts: &Mutex<Vec<Hunt>>, most: u64, recipe: Recipe) {
    loop {
        let (index, bug, seed) = {
            let mut hunts = lock(hunts);
            // The mistake with the fewest seeds in flight: mistakes tried in parallel waste less
            // than seeds of one.
            let open = hunts.iter_mut().enumerate().filter(|(_, hunt)| !hunt.is_over(most));
            let Some((index, hunt)) = open.min_by_key(|(index, hunt)| (hunt.under_way, *index))
            else {
                return;
            };
            hunt.next += 1;
            hunt.under_way += 1;
            (index, hunt.bug, hunt.next - 1)
        };
        try_one(hunts, index, bug, seed, recipe);
        lock(hunts)[index].under_way -= 1;
    }
}

/// All mistakes that are left, seed by seed.
fn hunt_together(hunts: &Mutex<Vec<Hunt>>, next: &AtomicU64, most: u64, recipe: Recipe) {
    loop {
        let left: Vec<(usize, Bug)> = {
            let hunts = lock(hunts);
            hunts
                .iter()
                .map(|hunt| hunt.bug)
                .enumerate()
                .filter(|(index, _)| hunts[*index].found.is_none())
                .collect()
        };
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if left.is_empty() || seed >= most {
            return;
        }
        if !fails(&left, seed, recipe) {
            continue;
        }
        match runner::history(seed, &[], recipe) {
            Some(innocent) => blame_no_mistake(&mut lock(hunts)[left[0].0], seed, innocent),
            None => search(hunts, &left, seed, recipe),
        }
    }
}

fn fails(bugs: &[(usize, Bug)], seed: u64, recipe: Recipe) -> bool {
    let bugs: Vec<Bug> = bugs.iter().map(|(_, bug)| *bug).collect();
    runner::history(seed, &bugs, recipe).is_some()
}

/// Finds those of several mistakes that fail a history which all of them together fail: in each
/// half that fails.
fn search(hunts: &Mutex<Vec<Hunt>>, among: &[(usize, Bug)], seed: u64, recipe: Recipe) {
    match among {
        [] => {}
        [(index, bug)] => try_one(hunts, *index, *bug, seed, recipe),
        several => {
            let (half, other) = several.split_at(several.len() / 2);
            for part in [half, other] {
                if part.len() == 1 || fails(part, seed, recipe) {
                    search(hunts, part, seed, recipe);
                }
            }
        }
    }
}

/// A history fails without a mistake, too: then the engine or the simulator is wrong.
fn blame_no_mistake(hunt: &mut Hunt, seed: u64, failure: String) {
    eprintln!("seed {seed} fails without any: {}", cut(&failure));
    hunt.innocent = Some((seed, failure));
}

/// One history with one mistake; if it fails, the same without.
fn try_one(hunts: &Mutex<Vec<Hunt>>, index: usize, bug: Bug, seed: u64, recipe: Recipe) {
    let Some(failure) = runner::history(seed, &[bug], recipe) else { return };
    let innocent = runner::history(seed, &[], recipe);
    let hunt = &mut lock(hunts)[index];
    if let Some(innocent) = innocent {
        blame_no_mistake(hunt, seed, innocent);
    } else if hunt.found.as_ref().is_none_or(|(first, _)| seed < *first) {
        eprintln!("{}: seed {seed}: {}", bug.name(), cut(&failure));
        hunt.found = Some((seed, failure));
    }
}
