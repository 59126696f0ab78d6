//! Small requests of one connection, many of them in flight on one thread.
//!
//! ```text
//!   socket --> read ahead --> taken --> in flight --> complete --> replies, one call for all
//!      ^                                                              |  complete together
//!      +------ nothing more to read: wait for the socket and the disks+
//! ```
//!
//! The worker with the reader role keeps it while small requests come, and takes them as they come,
//! however many are in flight: no other thread is woken for them. It passes the role to another
//! worker when
//!
//! - the next request is not small or not valid, or writes to a range that is being changed: the
//!   other worker receives it, while this thread completes what it has begun;
//! - this thread has its share of requests in flight: the other worker is a second ring, perhaps on
//!   another processor;
//! - replies cannot be sent without waiting: the client must be able to go on sending.
//!
//! If nothing is in flight, the role stays on this thread, and the worker receives the request
//! itself.

use crate::{
    budget::Taken,
    connection_memory::SlotNumber,
    failure::Failure,
    protocol::{REQUEST_HEADER, Request, command, data_chunk, flag, simple_reply},
    range_lock::RangeGuard,
    stream::{Answer, Incoming, More},
    transmit::Connection,
};
use plinth_engine::sync::{buffer::Buffer, transfer::Found};
use plinth_frontend::{Completed, IN_FLIGHT_MAX, InlineRequest, RequestSource, Runner, Waiting};
use smallvec::SmallVec;
use std::{
    io,
    os::fd::OwnedFd,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

/// A request in flight.
struct InFlight {
    request: Request,
    /// Where the connection's memory records it.
    slot: Option<SlotNumber>,
    /// The lock of the range that it changes.
    guard: Option<RangeGuard>,
    _taken: Option<(Taken, Taken)>,
}

/// The next request in the bytes that were read ahead.
enum Next {
    /// With its tag: its index in the list of requests in flight.
    Inline(usize, InlineRequest),
    /// Its end was not received yet.
    Incomplete,
    /// It has to wait until others are complete.
    NoRoom,
    /// It is not carried out here.
    Other,
}

struct Multiplexer<'a> {
    connection: &'a Arc<Connection>,
    /// The reader role, while this thread has it.
    incoming: Option<Box<Incoming>>,
    runner: Option<Arc<dyn Runner>>,
    socket: Option<Arc<OwnedFd>>,
    /// The socket had nothing when it was last read.
    is_drained: bool,
    watching: Option<Waiting>,
    /// When the beginning of an incomplete request was received.
    begun: Option<Instant>,
    /// The wait for its timeout.
    timeout: Option<Waiting>,
    stops: bool,
    /// Requests in flight, by tag, and the tags that are free.
    in_flight: Vec<Option<InFlight>>,
    free: Vec<usize>,
    sent: io::Result<()>,
}

/// Takes small requests as they come and answers them, until another kind comes. Begins with the
/// reader role, and returns it unless it was passed on; also whether all replies could be sent.
pub(crate) fn run(
    connection: &Arc<Connection>,
    incoming: Box<Incoming>,
    socket: Option<&Arc<OwnedFd>>,
) -> (Option<Box<Incoming>>, io::Result<()>) {
    let mut multiplexer = Multiplexer {
        connection,
        incoming: Some(incoming),
        runner: connection.export.runner(),
        socket: socket.cloned(),
        is_drained: false,
        watching: None,
        begun: None,
        timeout: None,
        stops: false,
        in_flight: Vec::new(),
        free: Vec::new(),
        sent: Ok(()),
    };
    connection.export.multiplex(&mut multiplexer);
    (multiplexer.incoming.take(), multiplexer.sent)
}

impl Multiplexer<'_> {
    /// Takes the next request, if it is to be carried out here.
    fn next(&mut self) -> Next {
        let Some(incoming) = &mut self.incoming else { return Next::Other };
        let ahead = incoming.ahead();
        let Some(header) = ahead.first_chunk::<REQUEST_HEADER>() else { return Next::Incomplete };
        let Some(request) =
            Request::parse(header).filter(|request| self.connection.is_valid_inline(request))
        else {
            return Next::Other;
        };
        let length = usize::try_from(request.length).unwrap_or(usize::MAX);
        let is_write = request.kind == command::WRITE;
        let payload = if is_write {
            ahead.get(REQUEST_HEADER..).and_then(|rest| rest.get(..length))
        } else {
            Some(&[][..])
        };
        let Some(payload) = payload else { return Next::Incomplete };
        let guard = if is_write {
            self.connection.range_lock.try_lock(request.offset, length as u64)
        } else {
            None
        };
        if is_write && guard.is_none() {
            // The worker that receives it waits for the lock.
            return Next::Other;
        }
        let taken = match self.connection.take_at_once(length) {
            Some(taken) => Some(taken),
            None => return Next::NoRoom,
        };
        let offset = request.offset;
        let small = match request.kind {
            command::READ => InlineRequest::Read { offset, length },
            command::WRITE => {
                let Some(mut buffer) = Buffer::try_unfilled(length) else { return Next::Other };
                buffer.copy_from_slice(payload);
                InlineRequest::Write {
                    offset,
                    bytes: buffer.share(),
                    durably: request.flags & flag::FUA != 0,
                }
            }
            _ => InlineRequest::Flush,
        };
        let mut slot = None;
        if let Some(kept) = self.connection.stream.kept() {
            let start = incoming.position();
            let Some((number, _)) = kept.take(header, start, is_write.then_some(length)) else {
                return Next::Other;
            };
            kept.put_payload(number, 0, payload);
            kept.parsed(start + (REQUEST_HEADER + payload.len()) as u64);
            slot = Some(number);
        }
        incoming.used(REQUEST_HEADER + payload.len());
        let tag = self.free.pop().unwrap_or_else(|| {
            self.in_flight.push(None);
            self.in_flight.len() - 1
        });
        if let Some(request_in_flight) = self.in_flight.get_mut(tag) {
            *request_in_flight = Some(InFlight { request, slot, guard, _taken: taken });
        }
        Next::Inline(tag, small)
    }

    /// Takes no more requests, and passes the reader role on if requests are in flight here.
    fn stop(&mut self, in_flight: usize) -> Poll<Option<(usize, InlineRequest)>> {
        self.stops = true;
        if in_flight > 0 {
            self.incoming
                .take()
                .into_iter()
                .for_each(|role| self.connection.pass_reader_role(role));
        }
        Poll::Ready(None)
    }

    /// Waits until there is more to read. `false`: this thread cannot wait for it, or nothing
    /// comes.
    fn poll_more(&mut self, context: &mut Context<'_>, in_flight: usize) -> Poll<bool> {
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(false) };
        if !incoming.ahead().is_empty() {
            self.begun.get_or_insert_with(Instant::now);
        }
        if in_flight == 0 {
            // Nothing but the client to wait for: a blocking read is the shortest way.
            let deadline = self.begun.map(|begun| begun + self.connection.request_timeout());
            return Poll::Ready(match incoming.wait_for_more(deadline) {
                Ok(more) => more,
                Err(error) => {
                    self.sent = Err(error);
                    false
                }
            });
        }
        let (Some(runner), Some(socket)) = (&self.runner, &self.socket) else {
            return Poll::Ready(false);
        };
        let watching = match &mut self.watching {
            Some(watching) => watching,
            none => match runner.readable(socket) {
                Some(watching) => none.insert(watching),
                None => return Poll::Ready(false),
            },
        };
        if watching.as_mut().poll(context).is_ready() {
            self.watching = None;
            return Poll::Ready(true);
        }
        if let Some(begun) = self.begun {
            let limit = self.connection.request_timeout();
            let timeout = self
                .timeout
                .get_or_insert_with(|| runner.sleep(limit.saturating_sub(begun.elapsed())));
            if timeout.as_mut().poll(context).is_ready() {
                self.sent = Err(io::ErrorKind::TimedOut.into());
                self.connection.cut();
                return Poll::Ready(false);
            }
        }
        Poll::Pending
    }
}

impl RequestSource for Multiplexer<'_> {
    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        in_flight: usize,
    ) -> Poll<Option<(usize, InlineRequest)>> {
        if self.stops || self.incoming.is_none() {
            return Poll::Ready(None);
        }
        if self.connection.stream.is_frozen() {
            return self.stop(in_flight);
        }
        if in_flight >= IN_FLIGHT_MAX || self.sent.is_err() {
            return self.stop(in_flight);
        }
        loop {
            match self.next() {
                Next::Inline(tag, small) => {
                    (self.begun, self.timeout) = (None, None);
                    return Poll::Ready(Some((tag, small)));
                }
                Next::NoRoom if in_flight > 0 => return Poll::Pending,
                Next::NoRoom | Next::Other => return self.stop(in_flight),
                Next::Incomplete => {}
            }
            let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
            if !self.is_drained {
                match incoming.fill_at_once() {
                    Ok(More::Read { all }) => {
                        self.is_drained = all;
                        continue;
                    }
                    Ok(More::Later) => self.is_drained = true,
                    // The next read finds the same.
                    Ok(More::Completed) | Err(_) => return self.stop(in_flight),
                }
            }
            match self.poll_more(context, in_flight) {
                Poll::Ready(true) if in_flight == 0 => {}
                Poll::Ready(true) => self.is_drained = false,
                Poll::Ready(false) => return self.stop(in_flight),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn completed(&mut self, completed: &mut Vec<Completed>) {
        let connection = self.connection;
        let mut done = Vec::with_capacity(completed.len());
        for (tag, result) in completed.drain(..) {
            let Some(mut request) = self.in_flight.get_mut(tag).and_then(Option::take) else {
                continue;
            };
            self.free.push(tag);
            let result = result.map_err(Failure::from);
            if !connection.note_end(request.slot, request.guard.take(), result.as_ref().err()) {
                continue;
            }
            let Request { kind, cookie, offset, .. } = request.request;
            let (header, found) = match result {
                Ok(found) if kind == command::READ && connection.is_structured() => {
                    (data_chunk(cookie, offset, found.len()), found)
                }
                Ok(found) => (simple_reply(cookie, 0), found),
                Err(failure) => (connection.refusal(cookie, &failure), Found::default()),
            };
            // The request holds its bytes of the budgets until the reply is sent.
            done.push((header, found, request));
        }
        if self.sent.is_err() {
            return;
        }
        let answers: SmallVec<[Answer<'_>; 8]> = done
            .iter()
            .map(|(header, found, request)| Answer { slot: request.slot, header, found })
            .collect();
        let incoming = &mut self.incoming;
        let before_wait = || {
            incoming.take().into_iter().for_each(|incoming| connection.pass_reader_role(incoming))
        };
        self.sent = connection.stream.answer(
            &answers,
            Instant::now() + connection.request_timeout(),
            before_wait,
        );
    }
}
