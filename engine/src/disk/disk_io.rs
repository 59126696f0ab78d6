//! One I/O on a member disk, from its beginning to its end or its deadline.
//!
//! An I/O succeeds, fails, or becomes overdue when its disk has not answered in time (`member.rs`;
//! R2). An overdue I/O goes on and keeps its buffer; its caller goes on waiting for it or not. Its
//! end is counted before its caller is notified: the latency, the client, the writes done, and a
//! failed flush, even if there is no caller any more (R9).

use crate::{
    completion::{Completion, Done, Took},
    disk::{
        counters::{IoClass, IoClient, Tally},
        disk_errors::Trouble,
        member::{LOOK_AGAIN, Member, PROBE_TICKS, TICK_MS},
    },
    error::DiskError,
    sync::buffer::Buffer,
    world::World,
};
use futures::future::{self, Either};
use std::{
    future::poll_fn,
    pin::pin,
    sync::atomic::Ordering,
    task::{Context, Poll, ready},
    time::Duration,
};

/// I/O that takes longer is slow: it is reported to the operator although it succeeds. The watchdog
/// probes the other disks after this time.
const SLOW: Duration = Duration::from_millis(PROBE_TICKS * TICK_MS);

/// Why an I/O is overdue; and why none is begun on a disk that has such I/O.
const OVERDUE: &str = "no answer within the disk timeout";
pub const GIVEN_UP: &str = "I/O that was given up is still in flight";

/// Whether a reason, perhaps with more text before it, is silence and not a failure: it may be
/// over.
#[must_use]
pub fn is_silence(reason: &str) -> bool {
    reason.ends_with(OVERDUE) || reason.ends_with(GIVEN_UP)
}

/// An I/O in flight.
#[derive(Debug)]
pub struct DiskIo<'a> {
    member: &'a Member,
    purpose: IoClass,
    client: IoClient,
    offset: u64,
    length: usize,
    completion: Completion,
    has_ended: bool,
    /// It is a flush or a durable write: if it fails, earlier writes may be lost (R9).
    has_flush: bool,
    /// It repeats a part of one that failed.
    is_again: bool,
}

/// The state of an I/O after its deadline or its end.
#[derive(Debug)]
pub enum IoResult {
    /// All bytes were transferred. Reads bring the buffer.
    Ok(Option<Buffer>),
    Failed(DiskError),
    /// No answer in time. The I/O goes on.
    Overdue,
}

impl Drop for DiskIo<'_> {
    /// An I/O without a caller goes on. If it is a flush, its end is reported by the next flush.
    fn drop(&mut self) {
        if self.has_flush && !self.has_ended {
            let completion = std::mem::replace(
                &mut self.completion,
                Completion::ready(Done { result: Ok(()), buffer: None }),
            );
            self.member.leave_flush(completion);
        }
    }
}

impl<'a> DiskIo<'a> {
    /// An I/O that was submitted to the disk of `member`, at `offset`, of `length` bytes, and ends
    /// with `completion`.
    pub fn new(
        member: &'a Member,
        purpose: IoClass,
        (offset, length): (u64, usize),
        completion: Completion,
        has_flush: bool,
    ) -> Self {
        Self {
            member,
            purpose,
            client: IoClient::Files,
            offset,
            length,
            completion,
            has_ended: false,
            has_flush,
            is_again: false,
        }
    }
}

impl DiskIo<'_> {
    /// Sets the client that it is counted for.
    #[must_use]
    pub fn of(mut self, client: IoClient) -> Self {
        self.client = client;
        self
    }

    /// It repeats a part of a failed read: that is not another failure.
    #[must_use]
    pub fn again(mut self) -> Self {
        self.is_again = true;
        self
    }

    /// Whether it is a read.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.purpose == IoClass::Read
    }

    fn tally(&self) -> &Tally {
        let client = self.member.counters.of(self.client);
        if self.purpose == IoClass::Read { &client.reads } else { &client.writes }
    }

    /// Waits for the end of the I/O, or for its deadline.
    pub async fn result(mut self) -> IoResult {
        match self.result_in_time().await {
            Some(ended) => ended,
            None => IoResult::Overdue,
        }
    }

    /// As [`Self::result`], but `None` at the deadline, and the I/O can still be waited for.
    pub async fn result_in_time(&mut self) -> Option<IoResult> {
        poll_fn(|context| self.poll_in_time(context)).await
    }

    /// [`Self::result_in_time`], polled.
    pub fn poll_in_time(&mut self, context: &mut Context<'_>) -> Poll<Option<IoResult>> {
        Poll::Ready(match ready!(self.completion.poll_or_overdue(context)) {
            Some(done) => Some(self.end(done)),
            None => {
                let counters = &self.member.counters;
                let (counter, trouble) = match self.purpose {
                    IoClass::Read => (&counters.read_timeouts, Trouble::ReadTimeout),
                    _ => (&counters.write_timeouts, Trouble::WriteTimeout),
                };
                counter.fetch_add(1, Ordering::Relaxed);
                self.tally().timeouts.fetch_add(1, Ordering::Relaxed);
                self.note(trouble, IoResult::Overdue.reason());
                None
            }
        })
    }

    /// Waits for the end of the I/O, without a deadline.
    pub async fn wait(&mut self) -> IoResult {
        let done = (&mut self.completion).await;
        self.end(done)
    }

    /// The same, for [`LOOK_AGAIN`] at most; `None` if it has not ended by then.
    pub async fn wait_a_while(&mut self, world: &dyn World) -> Option<IoResult> {
        match future::select(pin!(self.wait()), world.sleep(LOOK_AGAIN)).await {
            Either::Left((ended, _)) => Some(ended),
            Either::Right(_) => None,
        }
    }

    fn note(&self, trouble: Trouble, text: String) {
        let place = matches!(self.purpose, IoClass::Read | IoClass::Write | IoClass::Discard);
        self.member.note(trouble, place.then_some((self.offset, self.length as u64)), text);
    }

    /// Counts it, and its latency.
    fn note_end(&self, Took { at, time }: Took) {
        self.member.counters.timings(self.purpose).note(at, time);
        if matches!(self.purpose, IoClass::Read | IoClass::Write) {
            self.tally().add(self.length as u64, time);
        }
        if time > SLOW {
            self.note(Trouble::Slow, format!("{} took {} ms", self.purpose, time.as_millis()));
        }
    }

    /// Its latency; `None` while it is in flight.
    #[must_use]
    pub fn took(&self) -> Option<Took> {
        self.has_ended.then(|| self.completion.took().unwrap_or_default())
    }

    fn end(&mut self, done: Done) -> IoResult {
        let counters = &self.member.counters;
        self.has_ended = true;
        if done.result.is_ok() {
            self.note_end(self.completion.took().unwrap_or_default());
        }
        match (done.result, self.purpose) {
            (Ok(()), IoClass::Read) => {
                self.member.health.note_read();
                IoResult::Ok(done.buffer)
            }
            (Ok(()), IoClass::Write) if !self.has_flush => {
                self.member.note_write_done();
                IoResult::Ok(None)
            }
            (Ok(()), _) => IoResult::Ok(None),
            (Err(source), purpose) => {
                let (doing, counter, trouble) = match purpose {
                    IoClass::Read => ("reading", &counters.read_errors, Trouble::ReadFailed),
                    IoClass::Write => ("writing", &counters.write_errors, Trouble::WriteFailed),
                    IoClass::Flush => ("flushing", &counters.write_errors, Trouble::FlushFailed),
                    IoClass::Discard => {
                        ("discarding", &counters.write_errors, Trouble::DiscardFailed)
                    }
                };
                if self.has_flush {
                    self.member.note_failed_flush();
                }
                counter.fetch_add(1, Ordering::Relaxed);
                self.tally().errors.fetch_add(1, Ordering::Relaxed);
                if purpose == IoClass::Read {
                    self.member.note_failed_read(
                        self.client,
                        (self.offset, self.length),
                        self.is_again,
                    );
                }
                self.note(trouble, source.to_string());
                IoResult::Failed(DiskError {
                    disk: self.member.id(),
                    path: format!("{} {}", self.member.name(), self.member.path()),
                    doing,
                    offset: self.offset,
                    length: self.length,
                    source,
                })
            }
        }
    }
}

impl IoResult {
    #[must_use]
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Ok(_))
    }

    /// The bytes, of a read; or the reason as text.
    ///
    /// # Errors
    /// If it failed, or did not end in time.
    pub fn into_result(self) -> Result<Option<Buffer>, String> {
        match self {
            Self::Ok(buffer) => Ok(buffer),
            bad => Err(bad.reason()),
        }
    }

    /// The reason as text, for the alert log.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Ok(_) => "no error".to_owned(),
            Self::Failed(error) => {
                format!(
                    "{} {} bytes at {}: {}",
                    error.doing, error.length, error.offset, error.source
                )
            }
            Self::Overdue => OVERDUE.to_owned(),
        }
    }
}
