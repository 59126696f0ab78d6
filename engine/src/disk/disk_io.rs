//! One I/O on a member disk, from its beginning to its end or its deadline.
//!
//! An I/O succeeds, fails, or becomes overdue when its disk has not answered in time (`member.rs`;
//! R2). An overdue I/O goes on and keeps its buffer; its caller goes on waiting for it or not. Its
//! end is counted before its caller is notified: the latency, the client, the writes done, and a
//! failed flush, even if there is no caller any more (R9).
//!
//! A write that finds no room in the thin pool below is tried again (`full.rs`), and its caller
//! waits as for one that the disk does not answer. If the caller stops waiting meanwhile, nothing
//! of it is in flight and it is not tried again.

use crate::{
    completion::{Completion, Done, Took},
    disk::{
        counters::{IoClass, IoClient, Tally},
        disk_errors::Trouble,
        member::{LOOK_AGAIN, Member, PROBE_TICKS, TICK_MS},
    },
    error::{DiskError, no_room},
    sync::buffer::{Buffer, Slice},
    world::{SpaceFrom, Task, World},
};
use futures::future::{self, Either};
use std::{
    fmt,
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering},
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
    /// The bytes of a write.
    data: Option<Slice>,
    /// If it is a write: it ends with the error when there has been no room for this time.
    room_limit: Duration,
    /// It has found no room. Boxed: that is rare.
    roomless: Option<Box<Roomless>>,
}

/// A write that has found no room.
struct Roomless {
    /// Where room should be made.
    from: Arc<SpaceFrom>,
    /// The pause before the next attempt. `None` while an attempt is in flight.
    pause: Option<Task<'static, ()>>,
}

impl fmt::Debug for Roomless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no room in {}", self.from.words)
    }
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
        if self.has_flush && !self.has_ended && !self.is_pausing() {
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
        data: Option<Slice>,
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
            data,
            room_limit: Duration::MAX,
            roomless: None,
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
            None => match self.no_room() {
                Some(error) => self.end(Done { result: Err(error), buffer: None }),
                None => IoResult::Overdue,
            },
        }
    }

    /// As [`Self::result`], but `None` at the deadline, and the I/O can still be waited for: it is
    /// overdue, or is a write that has found no room for as long.
    pub async fn result_in_time(&mut self) -> Option<IoResult> {
        poll_fn(|context| self.poll_in_time(context)).await
    }

    /// [`Self::result_in_time`], polled.
    pub fn poll_in_time(&mut self, context: &mut Context<'_>) -> Poll<Option<IoResult>> {
        Poll::Ready(match ready!(self.poll_end(context, true)) {
            Some(done) => Some(self.end(done)),
            None if self.roomless.is_some() => None,
            // It did not take too long: its disk was taken away.
            None if self.member.disk().is_none() => None,
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
        match poll_fn(|context| self.poll_end(context, false)).await {
            Some(done) => self.end(done),
            None => unreachable!("there is no deadline"),
        }
    }

    /// From now on it ends with the error when there has been no room for `limit`. Without this, it
    /// is tried until there is room.
    pub fn limit_room(&mut self, limit: Duration) {
        self.room_limit = limit;
    }

    /// Why it has not ended in time, as text.
    #[must_use]
    pub fn delay(&self) -> String {
        self.no_room().map_or_else(|| OVERDUE.to_owned(), |error| error.to_string())
    }

    /// The error of a write that has found no room so far.
    fn no_room(&self) -> Option<io::Error> {
        self.roomless.as_ref().map(|roomless| no_room(&roomless.from.words))
    }

    /// Whether nothing of it is in flight: it is about to be tried again.
    fn is_pausing(&self) -> bool {
        self.roomless.as_ref().is_some_and(|roomless| roomless.pause.is_some())
    }

    /// Its end. A write that finds no room is tried again. `None`, if `in_time`: the deadline has
    /// come.
    fn poll_end(&mut self, context: &mut Context<'_>, in_time: bool) -> Poll<Option<Done>> {
        loop {
            if let (Some(roomless), Some(data)) = (&mut self.roomless, &self.data)
                && let Some(pause) = &mut roomless.pause
            {
                ready!(pause.as_mut().poll(context));
                roomless.pause = None;
                self.completion =
                    self.member.write_again(self.offset, data.clone(), self.has_flush);
            }
            let done = match in_time {
                true => ready!(self.completion.poll_or_overdue(context)),
                false => Some(ready!(Pin::new(&mut self.completion).poll(context))),
            };
            let Some(done) = done else { return Poll::Ready(None) };
            if self.data.is_none() || !is_full(&done.result) {
                if self.roomless.take().is_some() && done.result.is_ok() {
                    self.member.room.end();
                }
                return Poll::Ready(Some(done));
            }
            let (time, from) = self.member.note_no_room();
            if self.roomless.is_none() {
                self.note(Trouble::NoRoom, no_room(&from.words).to_string());
            }
            let roomless =
                self.roomless.get_or_insert_with(|| Box::new(Roomless { from, pause: None }));
            if time >= self.room_limit {
                let result = Err(no_room(&roomless.from.words));
                return Poll::Ready(Some(Done { result, buffer: None }));
            }
            roomless.pause = Some(self.member.pause());
            if in_time && time >= self.member.room.patience() {
                return Poll::Ready(None);
            }
        }
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
                // A write that found no room was not carried out: that is no failed flush.
                if self.has_flush && source.kind() != io::ErrorKind::StorageFull {
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

fn is_full(result: &io::Result<()>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::StorageFull)
}

impl IoResult {
    #[must_use]
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Ok(_))
    }

    /// Whether it is a write that found no room.
    #[must_use]
    pub fn lacks_room(&self) -> bool {
        matches!(self, Self::Failed(error) if error.source.kind() == io::ErrorKind::StorageFull)
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
