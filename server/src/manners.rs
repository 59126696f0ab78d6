//! Work that nobody is in a hurry for gives way by itself.
//!
//! A low priority is not enough. It ranks a thread among those of its own process or control group, and the kernel divides
//! processors between such groups first (autogroups, `cpu.weight`): a query at the lowest priority still takes its engine's share
//! of a processor, from databases and from the engine's own front ends. So who works in the background looks how long it was
//! kept waiting for a processor. Where it was, others want what it takes, and it sleeps [`PAUSE`] times as long as it has worked;
//! where processors are to be had it goes on at full speed.

use std::{
    cell::RefCell,
    fs::File,
    os::unix::fs::FileExt,
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
            if !pause.is_zero() {
                thread::sleep(pause);
            }
        }
    }
}

thread_local! {
    static MANNERS: RefCell<Manners> = RefCell::new(Manners::new());
}

/// Sleeps a little if this thread takes what others want. For code that can wait, every some hundred microseconds of its work.
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
