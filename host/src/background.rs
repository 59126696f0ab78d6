//! Background threads throttle themselves while foreground threads need the processor.
//!
//! A low priority is not enough, and can be too much. It ranks a thread among those of its own
//! process or control group, and the kernel divides processors between such groups first
//! (autogroups, `cpu.weight`): a query at the lowest priority still takes its engine's share of a
//! processor, from databases and from the engine's own front ends. And a thread of low priority
//! that is preempted while it holds a lock is not scheduled again, and all threads that wait for
//! the lock wait with it.
//!
//! So a background thread checks whether others need the processor:
//!
//!   - the rest of its own process works, if the caller wants that checked ([`Others::Front`]);
//!   - or the thread had to wait for a processor, and others work on this host at a normal
//!     priority.
//!
//! While they do, all background threads of a process together take one [`PART`]th of the
//! processors, and a little more now and then. Each thread sleeps off its own work and that of the
//! others, one after the other:
//!
//!   - a thread whose work blocks no other sleeps until all is slept off, and until the thread that
//!     is in the middle of its work has finished ([`BackgroundStage::Starting`]): one at a time
//!     holds for a short time what many would hold for long;
//!   - a thread in the middle of its work takes up to one [`PART_WITHIN`]th, so that it finishes
//!     before others need what it holds, and the threads that start next sleep for it
//!     ([`BackgroundStage::Running`]);
//!   - a thread that others wait for does not sleep ([`BackgroundStage::Awaited`]).
//!
//! While no other thread needs the processor, all run at full speed.

use crate::lock;
use plinth_engine::world::BackgroundStage;
use rustix::time::{ClockId, clock_gettime};
use std::{
    cell::RefCell,
    fs::File,
    os::unix::fs::FileExt,
    sync::{
        Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

/// The least time that a thread works between two checks. It is shorter than the time that a thread
/// which becomes runnable may have to wait for the next tick on a busy processor.
const SLICE: Duration = Duration::from_micros(250);
/// The thread was kept waiting if it waited for at least this part of the time that it worked.
const KEPT: u32 = 10;
/// All of this process's background work together takes this part of the processors while others
/// need them.
const PART: u32 = 32;
/// The most that a thread takes while it is in the middle of its work.
const PART_WITHIN: u32 = 8;
/// For how long unused processor time is saved up: an occasional request runs at once.
const SAVED_MAX: Duration = Duration::from_secs(1);
/// The longest debt: the next thread to start does not wait longer.
const OWED_MAX: Duration = Duration::from_secs(1);
/// How long a thread in the middle of its work keeps others from starting theirs.
const TURN_MAX: Duration = Duration::from_secs(2);
/// The longest pause before it checks again whether others work.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The kernel's accounting of a thread since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Record {
    worked: Duration,
    waited: Duration,
}

impl Record {
    /// Reads `/proc/thread-self/schedstat`: nanoseconds worked, nanoseconds waited, turns.
    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut numbers =
            text.split_ascii_whitespace().map(|word| word.parse().map(Duration::from_nanos));
        Some(Self { worked: numbers.next()?.ok()?, waited: numbers.next()?.ok()? })
    }

    /// The work and the waiting since the last check; `None` if there was too little work to tell.
    fn since(&self, last: &Self) -> Option<Self> {
        let worked = self.worked.saturating_sub(last.worked);
        (worked >= SLICE).then(|| Self { worked, waited: self.waited.saturating_sub(last.waited) })
    }

    fn is_kept_waiting(&self) -> bool {
        self.waited >= self.worked / KEPT
    }
}

/// An allowance for background work: a part of the processors.
struct Share {
    part: u32,
    saved_max: Duration,
    /// The time at which all work will have been slept off; `None` if there was none for long.
    even: Option<Instant>,
}

impl Share {
    const fn new(part: u32, saved_max: Duration) -> Self {
        Self { part, saved_max, even: None }
    }

    /// How long to sleep after this much work, on a host with this many processors.
    fn take(&mut self, worked: Duration, processors: u32, now: Instant) -> Duration {
        let cost = worked * self.part / processors.max(1);
        let saved_up = now.checked_sub(self.saved_max).unwrap_or(now);
        let even = self.even.map_or(saved_up, |even| even.max(saved_up)) + cost;
        self.even = Some(even.min(now + OWED_MAX));
        self.owed(now)
    }

    fn owed(&self, now: Instant) -> Duration {
        self.even.map_or(Duration::ZERO, |even| even.saturating_duration_since(now))
    }
}

static ALL: Mutex<Share> = Mutex::new(Share::new(PART, SAVED_MAX));
static WITHIN: Mutex<Share> = Mutex::new(Share::new(PART_WITHIN, Duration::ZERO));

/// Makes threads take turns, so that only one is in the middle of its work while others work.
struct Turns {
    /// The thread whose turn it is, and since when.
    taken: Mutex<Option<(ThreadId, Instant)>>,
    ended: Condvar,
}

impl Turns {
    const fn new() -> Self {
        Self { taken: Mutex::new(None), ended: Condvar::new() }
    }

    /// Waits until this thread may begin.
    fn take(&self, do_others_work: impl Fn() -> bool) {
        let me = thread::current().id();
        let mut taken = lock(&self.taken);
        while let Some((who, since)) = *taken
            && who != me
            && since.elapsed() < TURN_MAX
            && do_others_work()
        {
            taken =
                self.ended.wait_timeout(taken, PAUSE_MAX).unwrap_or_else(PoisonError::into_inner).0;
        }
        *taken = Some((me, Instant::now()));
    }

    /// Restarts the time limit of this thread's turn: its pauses until now have kept no other
    /// thread waiting.
    fn begin(&self) {
        let me = thread::current().id();
        if let Some((_, since)) = lock(&self.taken).as_mut().filter(|(who, _)| *who == me) {
            *since = Instant::now();
        }
    }

    fn end(&self) {
        let me = thread::current().id();
        if lock(&self.taken).take_if(|(who, _)| *who == me).is_some() {
            self.ended.notify_one();
        }
    }
}

static TURNS: Turns = Turns::new();

/// How long a thread pauses after this much work, at this stage.
fn pause(worked: Duration, stage: BackgroundStage) -> Duration {
    // Determining the number reads files.
    static PROCESSORS: OnceLock<u32> = OnceLock::new();
    let processors = *PROCESSORS.get_or_init(|| {
        thread::available_parallelism()
            .map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
    });
    let now = Instant::now();
    let owed = lock(&ALL).take(worked, processors, now);
    let owed = match stage {
        BackgroundStage::Starting => owed,
        BackgroundStage::Running if owed.is_zero() => owed,
        BackgroundStage::Running => lock(&WITHIN).take(worked, processors, now),
        BackgroundStage::Awaited | BackgroundStage::Finished => Duration::ZERO,
    };
    owed.min(PAUSE_MAX)
}

/// Checks at intervals whether others work: whether their processor time has grown by at least a
/// part of one processor's since the last check.
struct Watch {
    part: u32,
    looked: Option<Instant>,
    worked: Duration,
    do_work: bool,
}

impl Watch {
    /// The interval between two checks: the kernel counts in hundredths of a second.
    const WINDOW: Duration = Duration::from_millis(100);

    const fn new(part: u32) -> Self {
        Self { part, looked: None, worked: Duration::ZERO, do_work: true }
    }

    /// `worked` is called only when the next check is due. `None` if the kernel does not report it,
    /// which counts as work.
    fn do_others_work(&mut self, now: Instant, worked: impl FnOnce() -> Option<Duration>) -> bool {
        let elapsed = self.looked.map(|looked| now.saturating_duration_since(looked));
        if elapsed.is_some_and(|elapsed| elapsed < Self::WINDOW) {
            return self.do_work;
        }
        let worked = worked();
        self.do_work = match (worked, elapsed) {
            (Some(worked), Some(elapsed)) => {
                worked.saturating_sub(self.worked) >= elapsed / self.part
            }
            _ => true,
        };
        self.looked = Some(now);
        self.worked = worked.unwrap_or_default();
        self.do_work
    }
}

/// All processes on this host, at normal priority, in user space.
static HOST: Mutex<Watch> = Mutex::new(Watch::new(5));
/// This process, without its background work.
static FRONT: Mutex<Watch> = Mutex::new(Watch::new(10));
/// Nanoseconds that this process's background threads have worked.
static BACKGROUND: AtomicU64 = AtomicU64::new(0);

/// Hundredths of a second in the first line of `/proc/stat`: `cpu  USER NICE SYSTEM ...`. Throttled
/// threads have a lower priority ([`crate::priority::lower_priority`]), and are counted as NICE.
fn parse_user_ticks(text: &[u8]) -> Option<u64> {
    let line = text.split(|byte| *byte == b'\n').next()?;
    std::str::from_utf8(line)
        .ok()?
        .strip_prefix("cpu ")?
        .split_ascii_whitespace()
        .next()?
        .parse()
        .ok()
}

fn worked_by_host() -> Option<Duration> {
    static STAT: OnceLock<Option<File>> = OnceLock::new();
    let mut text = [0; 128];
    let stat = STAT.get_or_init(|| File::open("/proc/stat").ok()).as_ref()?;
    let length = stat.read_at(&mut text, 0).ok()?;
    Some(Duration::from_millis(10 * parse_user_ticks(&text[..length])?))
}

fn worked_in_front() -> Option<Duration> {
    let all = clock_gettime(ClockId::ProcessCPUTime);
    let all = Duration::new(all.tv_sec.unsigned_abs(), u32::try_from(all.tv_nsec).ok()?);
    Some(all.saturating_sub(Duration::from_nanos(BACKGROUND.load(Ordering::Relaxed))))
}

fn do_others_work(watch: &Mutex<Watch>, worked: impl FnOnce() -> Option<Duration>) -> bool {
    lock(watch).do_others_work(Instant::now(), worked)
}

/// Which other threads a thread is throttled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// All processes on this host, if they keep the thread waiting.
    Host,
    /// Those, and the rest of this process.
    Front,
}

/// Processor usage of a thread.
struct ThreadUsage {
    /// `None` if the kernel does not report it: then the thread is not throttled.
    schedstat: Option<File>,
    looked: Instant,
    last: Record,
}

impl ThreadUsage {
    fn new() -> Self {
        Self {
            schedstat: File::open("/proc/thread-self/schedstat").ok(),
            looked: Instant::now(),
            last: Record::default(),
        }
    }

    /// Whether others need the processor that this thread uses, and how much the thread has worked
    /// since the last check; `None` if it is too early for a check.
    fn look(&mut self, others: Others) -> Option<(bool, Duration)> {
        // Reading the kernel's file costs more than reading the clock.
        if self.looked.elapsed() < SLICE {
            return None;
        }
        self.looked = Instant::now();
        let mut text = [0; 64];
        let length = self.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
        let now = Record::parse(&text[..length])?;
        let record = now.since(&self.last)?;
        self.last = now;
        BACKGROUND.fetch_add(
            u64::try_from(record.worked.as_nanos()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
        let is_wanted = (others == Others::Front && do_others_work(&FRONT, worked_in_front))
            || (record.is_kept_waiting() && do_others_work(&HOST, worked_by_host));
        Some((is_wanted, record.worked))
    }
}

thread_local! {
    static USAGE: RefCell<ThreadUsage> = RefCell::new(ThreadUsage::new());
}

/// Makes this thread, which works in the background, sleep a little if it uses processors that
/// others need. To be called every few hundred microseconds of its work, and when it starts and
/// ends a unit of work, in places where the thread can wait.
pub fn throttle(others: Others, stage: BackgroundStage) {
    match stage {
        BackgroundStage::Starting => TURNS.take(|| do_others_work(&FRONT, worked_in_front)),
        BackgroundStage::Finished => TURNS.end(),
        BackgroundStage::Running | BackgroundStage::Awaited => {}
    }
    let looked = USAGE.with_borrow_mut(|usage| usage.look(others));
    // A thread sleeps off the work of others only while the rest of the process works.
    let sleeps_for_all =
        || stage == BackgroundStage::Starting && do_others_work(&FRONT, worked_in_front);
    let mut wait = match looked {
        Some((true, worked)) => pause(worked, stage),
        _ if sleeps_for_all() => pause(Duration::ZERO, stage),
        _ => Duration::ZERO,
    };
    let until = Instant::now() + OWED_MAX;
    while !wait.is_zero() {
        thread::sleep(wait);
        let goes_on = Instant::now() < until && sleeps_for_all();
        wait = if goes_on { pause(Duration::ZERO, stage) } else { Duration::ZERO };
    }
    if stage == BackgroundStage::Starting {
        TURNS.begin();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(worked: u64, waited: u64) -> Record {
        Record { worked: Duration::from_micros(worked), waited: Duration::from_micros(waited) }
    }

    #[test]
    fn a_thread_is_kept_waiting_from_a_tenth_of_its_work_on() {
        let last = record(5_000, 700);
        let since = |worked, waited| record(worked, waited).since(&last);
        assert_eq!(since(5_200, 9_000), None, "too early");
        assert_eq!(since(7_000, 900), Some(record(2_000, 200)));
        for (waited, is_kept) in [(700, false), (850, false), (900, true), (90_000, true)] {
            assert_eq!(
                since(7_000, waited).map(|record| record.is_kept_waiting()),
                Some(is_kept),
                "{waited}"
            );
        }
    }

    /// Checks happen at intervals, and count the work since the last check.
    #[test]
    fn others_work_for_a_part_of_the_time() {
        let (mut watch, began, ms) = (Watch::new(5), Instant::now(), Duration::from_millis);
        let mut at =
            |time, worked: Option<u64>| watch.do_others_work(began + ms(time), || worked.map(ms));
        assert!(at(0, Some(7_000)), "nothing is known");
        assert!(at(99, Some(7_000)), "too early");
        assert!(!at(100, Some(7_019)));
        assert!(!at(199, Some(9_000)), "too early");
        assert!(at(200, Some(7_039)));
        assert!(at(300, None), "the kernel does not tell");
        assert!(at(400, Some(7_100)));
        assert!(!at(900, Some(7_199)));
    }

    /// However many threads there are, together they take their part.
    #[test]
    fn processor_time_taken_is_slept_off() {
        let (began, ms) = (Instant::now() + 2 * SAVED_MAX, Duration::from_millis);
        let mut share = Share::new(16, ms(1000));
        let mut take =
            |worked, processors, time| share.take(ms(worked), processors, began + ms(time));
        // All of the saved allowance.
        assert_eq!(take(100, 2, 0), ms(0));
        assert_eq!(take(25, 2, 0), ms(0));
        assert_eq!(take(2, 2, 0), ms(16));
        assert_eq!(take(2, 2, 0), ms(32));
        assert_eq!(take(10, 20, 10), ms(30));
        assert_eq!(take(2, 2, 50), ms(6));
        // The allowance for half a second has accrued half a second later.
        assert_eq!(take(60, 2, 556), ms(0));
        assert_eq!(take(5, 2, 556), ms(20));
        assert_eq!(take(900, 1, 556), OWED_MAX);
        assert_eq!(take(0, 1, 656), OWED_MAX - ms(100));
    }

    /// While others work, a thread that starts waits until the one in the middle of its work has
    /// finished.
    #[test]
    fn one_thread_at_a_time_starts_while_others_work() {
        let turns = Turns::new();
        turns.take(|| true);
        thread::scope(|scope| {
            let (tell, done) = std::sync::mpsc::channel();
            let turns = &turns;
            scope.spawn(move || {
                turns.take(|| true);
                let _ = tell.send(());
                turns.begin();
                turns.end();
            });
            assert!(done.recv_timeout(Duration::from_millis(50)).is_err());
            turns.end();
            assert!(done.recv().is_ok());
        });
        turns.take(|| true);
        thread::scope(|scope| scope.spawn(|| turns.take(|| false)).join()).expect("it began");
        // The turn does not belong to this thread.
        turns.end();
        assert!(lock(&turns.taken).is_some());
    }

    #[test]
    fn the_kernels_files_are_parsed() {
        assert_eq!(
            Record::parse(b"449480 56459 3\n"),
            Some(Record {
                worked: Duration::from_nanos(449_480),
                waited: Duration::from_nanos(56_459)
            })
        );
        for text in [&b""[..], b"12", b"x 1 2", b"1 -1 2", b"\xff"] {
            assert_eq!(Record::parse(text), None);
        }
        assert_eq!(parse_user_ticks(b"cpu  1234 56 789 1 2 3\ncpu0 1 2"), Some(1234));
        for text in [&b""[..], b"cpu", b"cpu  ", b"intr 1 2", b"\xff"] {
            assert_eq!(parse_user_ticks(text), None);
        }
        // This thread works.
        let mut usage = ThreadUsage::new();
        let mut sum = 0_u64;
        while usage.schedstat.is_some() && usage.last == Record::default() {
            sum = (0..100_000).fold(sum, |sum, number| sum.wrapping_mul(31).wrapping_add(number));
            let _ = usage.look(Others::Host);
        }
        assert!(usage.schedstat.is_none() || usage.last.worked >= SLICE, "{sum}");
    }
}
