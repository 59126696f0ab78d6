//! Failed logins and refused NBD clients of the current minute: the alert log has a line for each
//! up to a limit, and a count of the rest.

use crate::{alert::Alert, text::clean};
use plinth_engine::event::Severity;
use plinth_host::lock;
use std::{
    net::SocketAddr,
    sync::Mutex,
    time::{Duration, Instant},
};

/// Lines in the alert log for failures of one minute.
const LINES_MAX: u32 = 20;
/// How long a failed login is delayed before its client gets the answer.
pub(crate) const PAUSE: Duration = Duration::from_millis(500);
/// Characters of a user's name in a line.
const NAME_SHOWN: usize = 64;
const MINUTE: Duration = Duration::from_secs(60);

/// Failures of this minute.
#[derive(Default)]
pub(crate) struct Failures(Mutex<Option<(Instant, u32)>>);

impl Failures {
    /// Writes a line about a failed login, or counts it.
    pub(crate) fn report(&self, alert: &Alert, user: &str, from: SocketAddr, why: &str) {
        let user: String = clean(user).chars().take(NAME_SHOWN).collect();
        let text = format!("login of \"{user}\" from {from} failed: {why}");
        self.warn(alert, "instance", &text, "logins failed");
    }

    /// Writes a line about a failure, or counts it; of those that were counted in the minute before
    /// it writes how many there were: `others`, such as `logins failed`.
    pub(crate) fn warn(&self, alert: &Alert, subject: &str, text: &str, others: &str) {
        let (has_line, before) = self.count(Instant::now());
        if before > 0 {
            let text = format!("{before} more {others} in the minute before the next line");
            alert.line(Severity::Warning, subject, &text);
        }
        if has_line {
            alert.line(Severity::Warning, subject, text);
        }
    }

    /// Counts a failure. Returns whether it gets a line, and how many of the minute before got
    /// none.
    fn count(&self, now: Instant) -> (bool, u32) {
        let mut counted = lock(&self.0);
        match *counted {
            Some((since, count)) if now.duration_since(since) < MINUTE => {
                *counted = Some((since, count.saturating_add(1)));
                (count < LINES_MAX, 0)
            }
            earlier => {
                *counted = Some((now, 1));
                (true, earlier.map_or(0, |(_, count)| count.saturating_sub(LINES_MAX)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_failures_is_counted_not_written() {
        let failures = Failures::default();
        let start = Instant::now();
        let lines = (0..1000).filter(|_| failures.count(start).0).count();
        assert_eq!(lines, LINES_MAX as usize);
        assert_eq!(failures.count(start + MINUTE), (true, 1000 - LINES_MAX));
        assert_eq!(failures.count(start + MINUTE), (true, 0));
    }
}
