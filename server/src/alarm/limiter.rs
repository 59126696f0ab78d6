//! Which lines are sent, and which are held back: a disk that fails 1000 times an hour must not be
//! 1000 mails, nor a shelf of 24 disks 24.
//!
//! Lines are alike if they are about the same group, have the same severity, and differ in numbers
//! only (`alert/gathered.rs`). The first of them is sent at once. Later ones are counted for the
//! interval, and then one line reports their number and the last of them; so each interval while
//! they go on.
//!
//! Lines that are new at one time are one message. In an interval there are [`MESSAGES`] messages
//! at most; what comes after them is sent at its end. A message has [`LINES_MAX`] lines at most,
//! and says how many others there were.
//!
//! This file does no I/O: the caller passes the time.

use super::{log::Entry, message::Message};
use crate::alert::without_numbers;
use std::{collections::BTreeMap, time::Duration};

/// Messages of an interval: a person reads no more.
pub(super) const MESSAGES: u32 = 10;
/// Lines of a message.
pub(super) const LINES_MAX: usize = 50;
/// Kinds of lines that are tracked at a time; lines of further kinds are sent as they come.
const KINDS_MAX: usize = 1000;

struct Kind {
    since: Duration,
    /// The time of the line that was sent.
    time: String,
    held: u64,
    last: Option<Entry>,
}

/// See the module's description.
pub(super) struct Limiter {
    interval: Duration,
    kinds: BTreeMap<(u8, String), Kind>,
    pending: Message,
    /// When the first message of this interval was sent, and how many there were.
    sent: Option<(Duration, u32)>,
}

/// How many events a line stands for, and the text of the last of them: the alert log has lines
/// such as `990 more like this in the last minute, the last one: TEXT`.
fn gathered(text: &str) -> (u64, &str) {
    let more = text.split_once(" more like this in the last ").and_then(|(count, rest)| {
        let (_, last) = rest.split_once(", the last one: ")?;
        Some((count.parse().ok()?, last))
    });
    more.unwrap_or((1, text))
}

impl Limiter {
    pub fn new(interval: Duration) -> Self {
        Self { interval, kinds: BTreeMap::new(), pending: Message::default(), sent: None }
    }

    /// Takes a line.
    pub fn offer(&mut self, now: Duration, entry: Entry) {
        let (count, text) = gathered(&entry.text);
        let key = (entry.severity as u8, format!("{}: {}", entry.about, without_numbers(text)));
        if let Some(kind) = self.kinds.get_mut(&key) {
            kind.held = kind.held.saturating_add(count);
            kind.last = Some(Entry { text: text.to_owned(), ..entry });
            return;
        }
        if self.kinds.len() < KINDS_MAX {
            let time = entry.time.clone();
            self.kinds.insert(key, Kind { since: now, time, held: 0, last: None });
        }
        self.pending.add(entry, count);
    }

    /// Whether lines wait to be sent.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The message that is to be sent now.
    pub fn take(&mut self, now: Duration) -> Option<Message> {
        let (interval, pending) = (self.interval, &mut self.pending);
        self.kinds.retain(|_, kind| {
            if now < kind.since.saturating_add(interval) {
                return true;
            }
            let Some(last) = kind.last.take() else { return false };
            let text = format!(
                "{} more like this since {}, the last one: {}",
                kind.held, kind.time, last.text
            );
            kind.time.clone_from(&last.time);
            pending.add(Entry { text, ..last }, kind.held);
            (kind.since, kind.held) = (now, 0);
            true
        });
        if self.sent.is_some_and(|(since, _)| now >= since.saturating_add(interval)) {
            self.sent = None;
        }
        let (since, sent) = self.sent.unwrap_or((now, 0));
        if self.pending.is_empty() || sent >= MESSAGES {
            return None;
        }
        self.sent = Some((since, sent.saturating_add(1)));
        Some(std::mem::take(&mut self.pending))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plinth_engine::event::Severity;

    const INTERVAL: Duration = Duration::from_secs(600);

    fn entry(text: &str) -> Entry {
        Entry {
            time: "2026-11-21T03:00:07.125Z".to_owned(),
            severity: Severity::Alarm,
            about: "DATA".to_owned(),
            text: text.to_owned(),
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn texts(message: &Message) -> Vec<&str> {
        message.lines().iter().map(|entry| entry.text.as_str()).collect()
    }

    #[test]
    fn alike_lines_are_sent_once_an_interval_with_their_number() {
        let mut limiter = Limiter::new(INTERVAL);
        limiter.offer(at(0), entry("disk D: 3 reads failed"));
        let first = limiter.take(at(0)).expect("at once");
        assert_eq!(texts(&first), ["disk D: 3 reads failed"]);
        for second in 1..100 {
            limiter.offer(at(second), entry(&format!("disk D: {second} reads failed")));
            assert!(limiter.take(at(second)).is_none());
        }
        limiter.offer(
            at(100),
            entry("990 more like this in the last minute, the last one: disk D: 5 reads failed"),
        );
        assert!(limiter.take(at(599)).is_none() && !limiter.has_pending());
        let second = limiter.take(at(600)).expect("the interval is over");
        assert_eq!(
            texts(&second),
            [
                "1089 more like this since 2026-11-21T03:00:07.125Z, the last one: disk D: 5 reads failed"
            ]
        );
        assert_eq!(second.count(), 1089);
        assert!(limiter.take(at(1200)).is_none(), "there were none");
        limiter.offer(at(1201), entry("disk D: 1 reads failed"));
        assert!(limiter.take(at(1201)).is_some(), "it begins anew");
    }

    #[test]
    fn another_group_severity_or_disk_is_another_kind() {
        let mut limiter = Limiter::new(INTERVAL);
        limiter.offer(at(0), entry("disk D is offline"));
        assert!(limiter.take(at(0)).is_some());
        for (second, other) in [
            Entry { about: "FRA".to_owned(), ..entry("disk D is offline") },
            Entry { severity: Severity::Warning, ..entry("disk D is offline") },
            entry("disk E is offline"),
        ]
        .into_iter()
        .enumerate()
        {
            limiter.offer(at(second as u64), other);
            assert!(limiter.take(at(second as u64)).is_some());
        }
    }

    #[test]
    fn lines_of_one_moment_are_one_message_that_says_how_many_are_left_out() {
        let mut limiter = Limiter::new(INTERVAL);
        for disk in 0..200 {
            limiter.offer(at(0), entry(&format!("disk D_{disk} is offline")));
        }
        let message = limiter.take(at(0)).expect("a message");
        assert_eq!((message.lines().len(), message.count()), (LINES_MAX, 200));
        assert!(message.text().contains("\n150 more lines are in the alert log"));
        assert!(!limiter.has_pending() && limiter.take(at(0)).is_none());
    }

    /// A new kind of line each second, for an hour.
    #[test]
    fn a_flood_of_unlike_lines_is_a_few_messages_an_interval_and_each_line_is_counted() {
        let mut limiter = Limiter::new(INTERVAL);
        let (mut messages, mut counted) = (0, 0);
        for second in 0..=4200 {
            if second < 3600 {
                limiter.offer(at(second), entry(&format!("disk D_{second} is offline")));
            }
            if let Some(message) = limiter.take(at(second)) {
                messages += 1;
                counted += message.count();
                assert!(message.lines().len() <= LINES_MAX);
            }
        }
        assert_eq!(counted, 3600);
        assert!(messages <= 7 * MESSAGES, "{messages}");
        assert!(limiter.kinds.len() <= KINDS_MAX);
    }

    #[test]
    fn a_number_that_is_none_does_not_harm() {
        for text in [
            "99999999999999999999999 more like this in the last minute, the last one: x",
            "-1 more like this in the last minute, the last one: x",
            "5 more like this in the last ",
        ] {
            assert_eq!(gathered(text), (1, text));
        }
    }
}
