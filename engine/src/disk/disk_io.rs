//! One I/O on a member disk, from its beginning to its end or its deadline.
//!
//! A flight ends well, fails, or becomes overdue, when its disk has not answered in time (`member.rs`; R2). One that is overdue goes on
//! and keeps its buffer; whoever waits for it goes on waiting or does not. Its end is counted before its caller hears of it: how long it took
//! and whose it was, what was written, and a flush that failed, also where nobody waits any more (R9).

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

/// I/O that takes longer is slow: an operator should hear of it, although it ends well. The watchdog probes the other disks then.
const SLOW: Duration = Duration::from_millis(PROBE_TICKS * TICK_MS);

/// Why an I/O is overdue, in words; and why none is begun on a disk that has such I/O.
const OVERDUE: &str = "no answer within the disk timeout";
pub const GIVEN_UP: &str = "I/O that was given up is still under way";

/// Whether a reason, perhaps with more before it, is silence and no failure: it may be over.
#[must_use]
pub fn is_silence(reason: &str) -> bool {
    reason.ends_with(OVERDUE) || reason.ends_with(GIVEN_UP)
}

/// An I/O under way.
#[derive(Debug)]
pub struct DiskIo<'a> {
    member: &'a Member,
    purpose: IoClass,
    client: IoClient,
    offset: u64,
    length: usize,
    completion: Completion,
    has_ended: bool,
    /// It is a flush or has one in it: when it fails, what was written before it may be lost (R9).
    has_flush: bool,
    /// It is a part of one that failed.
    is_again: bool,
}

/// How an I/O stands after its deadline or its end.
#[derive(Debug)]
pub enum Settled {
    /// All bytes were transferred. Reads bring the buffer.
    Ok(Option<Buffer>),
    Failed(DiskError),
    /// No answer in time. The I/O goes on.
    Overdue,
}

impl Drop for DiskIo<'_> {
    /// What nobody waits for any more goes on, and if there is a flush in it, somebody has to hear how it ends.
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
    /// What was submitted to the disk of `member`, at `offset`, of `length` bytes, and ends with `completion`.
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
    /// Says what it is for.
    #[must_use]
    pub fn of(mut self, client: IoClient) -> Self {
        self.client = client;
        self
    }

    /// It asks for a part of what one failed to read: that is no other failure.
    #[must_use]
    pub fn again(mut self) -> Self {
        self.is_again = true;
        self
    }

    /// It reads, and writes nothing.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.purpose == IoClass::Read
    }

    fn tally(&self) -> &Tally {
        let client = self.member.counters.of(self.client);
        if self.purpose == IoClass::Read { &client.reads } else { &client.writes }
    }

    /// Waits for the end of the I/O, or its deadline.
    pub async fn settle(mut self) -> Settled {
        match self.settle_or_go_on().await {
            Some(settled) => settled,
            None => Settled::Overdue,
        }
    }

    /// As [`Self::settle`], but `None` at the deadline, and the flight can still be waited for.
    pub async fn settle_or_go_on(&mut self) -> Option<Settled> {
        poll_fn(|context| self.poll_settle(context)).await
    }

    /// [`Self::settle_or_go_on`], polled.
    pub fn poll_settle(&mut self, context: &mut Context<'_>) -> Poll<Option<Settled>> {
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
                self.note(trouble, Settled::Overdue.reason());
                None
            }
        })
    }

    /// Waits for the end of the I/O, however long it takes.
    pub async fn wait(&mut self) -> Settled {
        let done = (&mut self.completion).await;
        self.end(done)
    }

    /// The same, for [`LOOK_AGAIN`] at most; `None` if it has not ended then.
    pub async fn wait_a_while(&mut self, world: &dyn World) -> Option<Settled> {
        match future::select(pin!(self.wait()), world.sleep(LOOK_AGAIN)).await {
            Either::Left((settled, _)) => Some(settled),
            Either::Right(_) => None,
        }
    }

    fn note(&self, trouble: Trouble, text: String) {
        let place = matches!(self.purpose, IoClass::Read | IoClass::Write | IoClass::Discard);
        self.member.note(trouble, place.then_some((self.offset, self.length as u64)), text);
    }

    /// Counts it, and how long it took.
    fn note_end(&self, Took { at, time }: Took) {
        self.member.counters.timings(self.purpose).note(at, time);
        if matches!(self.purpose, IoClass::Read | IoClass::Write) {
            self.tally().add(self.length as u64, time);
        }
        if time > SLOW {
            self.note(Trouble::Slow, format!("{} took {} ms", self.purpose, time.as_millis()));
        }
    }

    /// How long it took; `None` while it is under way.
    #[must_use]
    pub fn took(&self) -> Option<Took> {
        self.has_ended.then(|| self.completion.took().unwrap_or_default())
    }

    fn end(&mut self, done: Done) -> Settled {
        let counters = &self.member.counters;
        self.has_ended = true;
        if done.result.is_ok() {
            self.note_end(self.completion.took().unwrap_or_default());
        }
        match (done.result, self.purpose) {
            (Ok(()), IoClass::Read) => {
                self.member.health.note_read();
                Settled::Ok(done.buffer)
            }
            (Ok(()), IoClass::Write) if !self.has_flush => {
                self.member.note_write_done();
                Settled::Ok(None)
            }
            (Ok(()), _) => Settled::Ok(None),
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
                Settled::Failed(DiskError {
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

impl Settled {
    #[must_use]
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Ok(_))
    }

    /// The bytes, of a read; or the reason in words.
    ///
    /// # Errors
    /// If it failed, or did not end in time.
    pub fn into_result(self) -> Result<Option<Buffer>, String> {
        match self {
            Self::Ok(buffer) => Ok(buffer),
            bad => Err(bad.reason()),
        }
    }

    /// In words, for the alert log.
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
