//! Work that nobody is in a hurry for gives way by itself.
//!
//! A low priority is not enough. It ranks a thread among those of its own process or control group, and the kernel divides
//! processors between such groups first (autogroups, `cpu.weight`): a query at the lowest priority still takes its engine's share
//! of a processor, from databases and from the engine's own front ends. So who works in the background looks how long it was
//! kept waiting for a processor, and whether others work on this host at a usual priority. Where both are so, others want what it
//! takes, and it sleeps [`PAUSE`] times as long as it has worked; where processors are to be had it goes on at full speed.

use std::{
    cell::RefCell,
    fs::File,
    os::unix::fs::FileExt,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// What a thread has worked between two pauses, at least. A thread that becomes runnable may have to wait for the next tick where
/// another works, which is longer.
const SLICE: Duration = Duration::from_micros(250);
/// It was kept waiting if it waited for this part of what it worked, or longer.
const KEPT: u32 = 10;
const PAUSE: u32 = 4;
/// Longest pause: somebody waits for the work to end.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// What the kernel says of a thread since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Record {
    worked: Duration,
    waited: Duration,
}

impl Record {
    /// Reads `/proc/thread-self/schedstat`: nanoseconds worked, nanoseconds waited, turns.
    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().map(Duration::from_nanos));
        Some(Self { worked: numbers.next()?.ok()?, waited: numbers.next()?.ok()? })
    }

    /// How long to sleep, given what it was at the last look; `None`: it is too early to say.
    fn pause(&self, last: &Self) -> Option<Duration> {
        let (worked, waited) = (self.worked.saturating_sub(last.worked), self.waited.saturating_sub(last.waited));
        if worked < SLICE {
            return None;
        }
        let kept_waiting = waited >= worked / KEPT;
        Some(if kept_waiting { (worked * PAUSE).min(PAUSE_MAX) } else { Duration::ZERO })
    }
}

/// What all processors did at a usual priority, outside the kernel.
struct Host {
    /// `None`: the kernel does not tell, which is taken for work.
    told: Option<File>,
    looked: Option<Instant>,
    ticks: u64,
    others_work: bool,
}

impl Host {
    /// How long before it is looked again: the kernel counts in hundredths of a second.
    const WINDOW: Duration = Duration::from_millis(100);
    /// Others work if they did so for this part of the time of one processor, or longer.
    const PART: u32 = 5;

    const fn new() -> Self {
        Self { told: None, looked: None, ticks: 0, others_work: true }
    }

    /// Hundredths of a second in the first line of `/proc/stat`: `cpu  USER NICE SYSTEM ...`. Whoever gives way has a lower
    /// priority, and is counted as NICE.
    fn parse(text: &[u8]) -> Option<u64> {
        let line = text.split(|byte| *byte == b'\n').next()?;
        std::str::from_utf8(line).ok()?.strip_prefix("cpu ")?.split_ascii_whitespace().next()?.parse().ok()
    }

    fn do_others_work(&mut self) -> bool {
        let elapsed = self.looked.map(|looked| looked.elapsed());
        if elapsed.is_some_and(|elapsed| elapsed < Self::WINDOW) {
            return self.others_work;
        }
        if self.told.is_none() {
            self.told = File::open("/proc/stat").ok();
        }
        let mut text = [0; 128];
        let read = self.told.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let ticks = read.and_then(|length| Self::parse(&text[..length]));
        self.others_work = match (ticks, elapsed) {
            (Some(ticks), Some(elapsed)) => {
                Duration::from_millis(10 * ticks.saturating_sub(self.ticks)) >= elapsed / Self::PART
            }
            _ => true,
        };
        self.looked = Some(Instant::now());
        self.ticks = ticks.unwrap_or(0);
        self.others_work
    }
}

static HOST: Mutex<Host> = Mutex::new(Host::new());

/// A thread's.
struct Manners {
    /// `None`: the kernel does not tell, and the thread goes on as it is.
    told: Option<File>,
    looked: Instant,
    last: Record,
}

impl Manners {
    fn new() -> Self {
        Self { told: File::open("/proc/thread-self/schedstat").ok(), looked: Instant::now(), last: Record::default() }
    }

    fn look(&mut self) {
        // Asking the kernel costs more than asking the clock.
        if self.looked.elapsed() < SLICE {
            return;
        }
        self.looked = Instant::now();
        let mut text = [0; 64];
        let read = self.told.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let Some(now) = read.and_then(|length| Record::parse(&text[..length])) else { return };
        if let Some(pause) = now.pause(&self.last) {
            self.last = now;
            if !pause.is_zero() && HOST.lock().unwrap_or_else(PoisonError::into_inner).do_others_work() {
                thread::sleep(pause);
            }
        }
    }
}

thread_local! {
    static MANNERS: RefCell<Manners> = RefCell::new(Manners::new());
}

/// Sleeps a little if this thread, whose priority is low, takes what others want. For code that can wait, every some hundred microseconds of its work.
pub fn give_way() {
    MANNERS.with_borrow_mut(Manners::look);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(worked: u64, waited: u64) -> Record {
        Record { worked: Duration::from_micros(worked), waited: Duration::from_micros(waited) }
    }

    #[test]
    fn who_is_kept_waiting_pauses() {
        let last = record(5_000, 700);
        assert_eq!(record(5_200, 9_000).pause(&last), None, "too early");
        assert_eq!(record(7_000, 700).pause(&last), Some(Duration::ZERO), "nobody else");
        assert_eq!(record(7_000, 850).pause(&last), Some(Duration::ZERO), "hardly anybody");
        assert_eq!(record(7_000, 900).pause(&last), Some(Duration::from_millis(8)));
        assert_eq!(record(90_000, 90_000).pause(&last), Some(PAUSE_MAX));
    }

    #[test]
    fn the_kernel_is_understood() {
        assert_eq!(
            Record::parse(b"449480 56459 3\n"),
            Some(Record { worked: Duration::from_nanos(449_480), waited: Duration::from_nanos(56_459) })
        );
        for text in [&b""[..], b"12", b"x 1 2", b"1 -1 2", b"\xff"] {
            assert_eq!(Record::parse(text), None);
        }
        assert_eq!(Host::parse(b"cpu  1234 56 789 1 2 3\ncpu0 1 2"), Some(1234));
        for text in [&b""[..], b"cpu", b"cpu  ", b"intr 1 2", b"\xff"] {
            assert_eq!(Host::parse(text), None);
        }
        // This thread has worked.
        let mut manners = Manners::new();
        let mut sum = 0_u64;
        while manners.told.is_some() && manners.last == Record::default() {
            sum = (0..100_000).fold(sum, |sum, number| sum.wrapping_mul(31).wrapping_add(number));
            manners.look();
        }
        assert!(manners.told.is_none() || manners.last.worked >= SLICE, "{sum}");
    }
}
