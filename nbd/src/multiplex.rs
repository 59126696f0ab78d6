//! Small requests of one connection, many under way on one thread.
//!
//! ```text
//!   socket --what is there--> read ahead --> taken --> under way --> ended --> replies, all that ended together with one call
//!      ^                                                                          |
//!      +--------- nothing more is there: wait for the socket and the disks <------+
//! ```
//!
//! Whoever has the turn to read keeps it while small requests come, and takes them as they come, whatever is under way: no other thread is woken
//! for them. The turn goes to another worker when
//!
//! - something comes that is no small request in good order, or a write of bytes that are being changed: it reads that, while this thread ends what it has begun;
//! - as much is under way as one thread should have: the other one is a second ring, perhaps on another processor;
//! - replies cannot be sent without waiting: the client must be able to go on sending.
//!
//! If nothing is under way, the turn stays on this thread and the request that is not small is read there.

use crate::{
    budget::Taken,
    connection_memory::SlotNumber,
    export::{Ended, Feed, Small, UNDER_WAY_MAX, Waiting, Waits},
    protocol::{REQUEST_HEADER, Request, command, data_chunk, flag, simple_reply},
    range_lock::Inside,
    stream::{Answer, Incoming, More},
    transmit::Connection,
};
use plinth_engine::sync::{buffer::Buffer, transfer::Found};
use smallvec::SmallVec;
use std::{
    io,
    os::fd::OwnedFd,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

/// A request that is under way.
struct Asked {
    request: Request,
    /// Where it is noted.
    slot: Option<SlotNumber>,
    /// The bytes that it changes are no other's meanwhile.
    inside: Option<Inside>,
    _taken: Option<(Taken, Taken)>,
}

/// What is next in what was read ahead.
enum Next {
    Small(usize, Small),
    /// It has not come whole.
    Incomplete,
    /// It has to wait until others have ended.
    NoRoom,
    /// It is none of ours.
    Other,
}

struct Pump<'a> {
    connection: &'a Arc<Connection>,
    /// The turn to read, if this thread has it.
    incoming: Option<Box<Incoming>>,
    waits: Option<Arc<dyn Waits>>,
    socket: Option<Arc<OwnedFd>>,
    /// There was nothing more when it was last looked.
    is_drained: bool,
    watching: Option<Waiting>,
    /// When the first part of the request that is on its way was seen.
    begun: Option<Instant>,
    /// Until it is cut.
    patience: Option<Waiting>,
    stops: bool,
    asked: Vec<Option<Asked>>,
    free: Vec<usize>,
    sent: io::Result<()>,
}

/// Takes small requests as they come and answers them, until something else comes, and says whether all could be answered. Begins with the turn to read;
/// gives it back if nobody else has it in the end.
pub(crate) fn run(
    connection: &Arc<Connection>,
    incoming: Box<Incoming>,
    socket: Option<&Arc<OwnedFd>>,
) -> (Option<Box<Incoming>>, io::Result<()>) {
    let mut pump = Pump {
        connection,
        incoming: Some(incoming),
        waits: connection.export.waits(),
        socket: socket.cloned(),
        is_drained: false,
        watching: None,
        begun: None,
        patience: None,
        stops: false,
        asked: Vec::new(),
        free: Vec::new(),
        sent: Ok(()),
    };
    connection.export.together(&mut pump);
    (pump.incoming.take(), pump.sent)
}

impl Pump<'_> {
    /// What is next, taken if it is ours.
    fn next(&mut self) -> Next {
        let Some(incoming) = &mut self.incoming else { return Next::Other };
        let ahead = incoming.ahead();
        let Some(header) = ahead.first_chunk::<REQUEST_HEADER>() else { return Next::Incomplete };
        let Some(request) =
            Request::parse(header).filter(|request| self.connection.is_ours(request))
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
        let inside = if is_write {
            self.connection.gate.try_enter(request.offset, length as u64)
        } else {
            None
        };
        if is_write && inside.is_none() {
            // Who takes it waits for the other one.
            return Next::Other;
        }
        let taken = match self.connection.take_at_once(length) {
            Some(taken) => Some(taken),
            None => return Next::NoRoom,
        };
        let offset = request.offset;
        let small = match request.kind {
            command::READ => Small::Read { offset, length },
            command::WRITE => {
                let Some(mut buffer) = Buffer::try_unfilled(length) else { return Next::Other };
                buffer.copy_from_slice(payload);
                Small::Write {
                    offset,
                    bytes: buffer.share(),
                    durably: request.flags & flag::FUA != 0,
                }
            }
            _ => Small::Flush,
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
        let place = self.free.pop().unwrap_or_else(|| {
            self.asked.push(None);
            self.asked.len() - 1
        });
        if let Some(asked) = self.asked.get_mut(place) {
            *asked = Some(Asked { request, slot, inside, _taken: taken });
        }
        Next::Small(place, small)
    }

    /// Takes no more, and leaves the turn to another if there is still something to do here.
    fn stop(&mut self, under_way: usize) -> Poll<Option<(usize, Small)>> {
        self.stops = true;
        if under_way > 0 {
            self.incoming.take().into_iter().for_each(|turn| self.connection.give_turn(turn));
        }
        Poll::Ready(None)
    }

    /// Waits until there is more to read; `false`: it cannot be waited for here.
    fn poll_more(&mut self, context: &mut Context<'_>, under_way: usize) -> Poll<bool> {
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(false) };
        if !incoming.ahead().is_empty() {
            self.begun.get_or_insert_with(Instant::now);
        }
        if under_way == 0 {
            // There is nothing but the client to wait for, and the plain call is the shortest.
            let deadline = self.begun.map(|begun| begun + self.connection.patience());
            return Poll::Ready(match incoming.wait_for_more(deadline) {
                Ok(more) => more,
                Err(error) => {
                    self.sent = Err(error);
                    false
                }
            });
        }
        let (Some(waits), Some(socket)) = (&self.waits, &self.socket) else {
            return Poll::Ready(false);
        };
        let watching = match &mut self.watching {
            Some(watching) => watching,
            none => match waits.readable(socket) {
                Some(watching) => none.insert(watching),
                None => return Poll::Ready(false),
            },
        };
        if watching.as_mut().poll(context).is_ready() {
            self.watching = None;
            return Poll::Ready(true);
        }
        if let Some(begun) = self.begun {
            let patience = self.connection.patience();
            let patience = self
                .patience
                .get_or_insert_with(|| waits.sleep(patience.saturating_sub(begun.elapsed())));
            if patience.as_mut().poll(context).is_ready() {
                self.sent = Err(io::ErrorKind::TimedOut.into());
                self.connection.cut();
                return Poll::Ready(false);
            }
        }
        Poll::Pending
    }
}

impl Feed for Pump<'_> {
    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        under_way: usize,
    ) -> Poll<Option<(usize, Small)>> {
        if self.stops || self.incoming.is_none() {
            return Poll::Ready(None);
        }
        if self.connection.stream.is_frozen() {
            return self.stop(under_way);
        }
        if under_way >= UNDER_WAY_MAX || self.sent.is_err() {
            return self.stop(under_way);
        }
        loop {
            match self.next() {
                Next::Small(place, small) => {
                    (self.begun, self.patience) = (None, None);
                    return Poll::Ready(Some((place, small)));
                }
                Next::NoRoom if under_way > 0 => return Poll::Pending,
                Next::NoRoom | Next::Other => return self.stop(under_way),
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
                    // Whoever reads next hears of it.
                    Ok(More::Ended) | Err(_) => return self.stop(under_way),
                }
            }
            match self.poll_more(context, under_way) {
                Poll::Ready(true) if under_way == 0 => {}
                Poll::Ready(true) => self.is_drained = false,
                Poll::Ready(false) => return self.stop(under_way),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn ended(&mut self, ended: &mut Vec<Ended>) {
        let connection = self.connection;
        let mut done = Vec::with_capacity(ended.len());
        for (place, result) in ended.drain(..) {
            let Some(mut asked) = self.asked.get_mut(place).and_then(Option::take) else {
                continue;
            };
            self.free.push(place);
            if !connection.note_end(asked.slot, asked.inside.take(), result.as_ref().err()) {
                continue;
            }
            let Request { kind, cookie, offset, .. } = asked.request;
            let (header, found) = match result {
                Ok(found) if kind == command::READ && connection.is_structured() => {
                    (data_chunk(cookie, offset, found.len()), found)
                }
                Ok(found) => (simple_reply(cookie, 0), found),
                Err(failure) => (connection.refusal(cookie, &failure), Found::default()),
            };
            // What was taken from the budgets is held until the reply is sent.
            done.push((header, found, asked));
        }
        if self.sent.is_err() {
            return;
        }
        let answers: SmallVec<[Answer<'_>; 8]> = done
            .iter()
            .map(|(header, found, asked)| Answer { slot: asked.slot, header, found })
            .collect();
        let incoming = &mut self.incoming;
        let has_to_wait =
            || incoming.take().into_iter().for_each(|incoming| connection.give_turn(incoming));
        self.sent =
            connection.stream.answer(&answers, Instant::now() + connection.patience(), has_to_wait);
    }
}
