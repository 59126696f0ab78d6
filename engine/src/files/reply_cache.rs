//! What was answered: a request that is not idempotent is carried out once, though it is sent twice
//! (R12).
//!
//! An engine that dies may have carried out a request and not have answered it. The kernel sends it
//! again, to the next engine. A second `create` would find the file of the first, a second `unlink`
//! nothing. So each such request leaves a row in the table `reply`, in the commit of its effect:
//!
//!   1. The request takes a slot, the lowest of its connection's that is free ([`Replies::begin`]).
//!   2. Its job writes the row of the slot, over what an earlier request left there
//!      ([`Row::record`]).
//!   3. The front end answers. From here on it is not sent again.
//!   4. The slot is free ([`OpenRequest`] is dropped).
//!
//! A death before 2 leaves neither effect nor row: what is sent again is done anew. After 2 it
//! leaves both, and what is sent again is answered from the row. After 3 the row is of no use, and
//! some later request writes over it.
//!
//! A request that fails has no effect and leaves no row. Sent again it may end otherwise, as if it
//! had come later: its end was never reported.
//!
//! A successor inherits the rows. Their slots are not free before their requests were sent again
//! and answered. It is not known which of them will not be sent again because they were answered;
//! of those that stay the oldest go when there are more than [`INHERITED_MAX`].
//!
//! Requests that set a state and do not depend on the one before are simply done again: a write
//! names its offset and its bytes (even one with `O_APPEND`: the kernel computes the offset),
//! `truncate`, `chmod`, `chown`, `utimensat` and `fallocate` their result. Done twice, such a
//! request could undo a change that was made between the two; but that change ran at the same time
//! as a request whose end was not reported yet, so the two had no order. Through one mount not even
//! that can happen: the kernel holds the file's lock until the request is answered, except for
//! direct writes inside a file, which have no order. `fsync` makes durable what is there. Reads,
//! lookups and listings change nothing.
//!
//! Invariants:
//!
//!   1. The row of a request that has an effect and no answer is in the catalog, and no other
//!      request has its slot.
//!   2. Rows of two connections never meet: a mount has an id of its own, made at random, which its
//!      successors keep.
//!   3. A connection has no more rows than requests were ever in progress at one time, and
//!      [`INHERITED_MAX`].

use super::{Files, Origin, Result};
use crate::{
    api::{ConnectionId, Node},
    catalog::tables::reply::{self, ReplyRow},
    sync::lock::Mutex,
};
use rusqlite::Connection as Sqlite;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Rows of a connection that a successor takes over: enough for several engines in a row that die
/// before they have answered the requests they inherited.
const INHERITED_MAX: usize = 1024;

/// A row that was there when the engine started.
#[derive(Debug, Clone, Copy)]
struct Inherited {
    slot: u32,
    node: Option<Node>,
}

#[derive(Default)]
struct Slots {
    taken: BTreeSet<u32>,
    /// By request.
    inherited: BTreeMap<u64, Inherited>,
    /// Of the next row.
    sequence: u64,
}

/// The slots of all connections.
#[derive(Default)]
pub(super) struct Replies(Mutex<BTreeMap<ConnectionId, Slots>>);

/// The row that a request leaves in the commit of its effect.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    connection: ConnectionId,
    slot: u32,
    request: u64,
    sequence: u64,
}

impl Row {
    /// Inside the job. `node`: the file that was made, or got a name, if that is part of the
    /// answer.
    fn record(&self, sqlite: &Sqlite, node: Option<Node>) -> rusqlite::Result<()> {
        let Self { connection, slot, request, sequence } = *self;
        reply::put(sqlite, &ReplyRow { connection, slot, request, node, sequence })
    }
}

/// The origin of a change: a front end, perhaps on behalf of a request that may be sent again.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    pub(crate) origin: Origin,
    pub(crate) row: Option<Row>,
}

impl From<Origin> for Asked {
    fn from(origin: Origin) -> Self {
        Self { origin, row: None }
    }
}

impl Asked {
    /// Inside the job of the effect, see [`Row::record`].
    pub(super) fn record(&self, sqlite: &Sqlite, node: Option<Node>) -> Result<()> {
        Ok(self.row.map_or(Ok(()), |row| row.record(sqlite, node))?)
    }
}

/// The effect that a request had in an earlier engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DoneBefore {
    /// The file that was made, or got a name.
    pub node: Option<Node>,
}

/// A request in progress. To be kept until it was answered.
pub struct OpenRequest {
    files: Arc<Files>,
    row: Row,
    before: Option<DoneBefore>,
}

impl OpenRequest {
    pub(crate) fn row(&self) -> Row {
        self.row
    }

    /// Its effect, if an engine before this one carried it out.
    #[must_use]
    pub fn done_before(&self) -> Option<DoneBefore> {
        self.before
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if let Some(slots) = self.files.replies.0.lock().get_mut(&self.row.connection) {
            slots.taken.remove(&self.row.slot);
            if self.before.is_some() {
                slots.inherited.remove(&self.row.request);
            }
        }
    }
}

impl Replies {
    /// A mount that no engine served before.
    pub fn start(&self, connection: ConnectionId) {
        self.0.lock().entry(connection).or_default();
    }

    /// Forgets a connection; the caller deletes its rows.
    pub fn end(&self, connection: ConnectionId) {
        self.0.lock().remove(&connection);
    }

    /// Begins a request. `resent`: it may have been carried out before. `None`: the connection has
    /// ended.
    pub fn begin(
        &self,
        files: &Arc<Files>,
        connection: ConnectionId,
        request: u64,
        resent: bool,
    ) -> Option<OpenRequest> {
        let mut all = self.0.lock();
        let slots = all.get_mut(&connection)?;
        let known = if resent { slots.inherited.get(&request).copied() } else { None };
        let slot = match known {
            Some(known) => known.slot,
            None => {
                let mut slot = 0;
                // Ascending: the first gap.
                for taken in &slots.taken {
                    if *taken != slot {
                        break;
                    }
                    slot += 1;
                }
                slots.taken.insert(slot);
                slot
            }
        };
        let row = Row { connection, slot, request, sequence: slots.sequence };
        slots.sequence = slots.sequence.wrapping_add(1);
        let before = known.map(|known| DoneBefore { node: known.node });
        Some(OpenRequest { files: Arc::clone(files), row, before })
    }
}

impl Files {
    /// Takes over the rows that the engine before left of these connections; rows of others are
    /// deleted.
    pub(super) async fn inherit_replies(&self, connections: &[ConnectionId]) -> Result<()> {
        let mut rows = self.catalog.read(|sqlite| Ok(reply::load(sqlite)?)).await?;
        let mut gone: Vec<(ConnectionId, u32)> = Vec::new();
        rows.retain(|row| {
            let wanted = connections.contains(&row.connection);
            if !wanted {
                gone.push((row.connection, row.slot));
            }
            wanted
        });
        for connection in connections {
            let own: Vec<_> =
                rows.iter().filter(|row| row.connection == *connection).copied().collect();
            let surplus = own.len().saturating_sub(INHERITED_MAX);
            let (old, own) = own.split_at(surplus);
            gone.extend(old.iter().map(|row| (row.connection, row.slot)));
            let slots = Slots {
                taken: own.iter().map(|row| row.slot).collect(),
                inherited: own
                    .iter()
                    .map(|row| (row.request, Inherited { slot: row.slot, node: row.node }))
                    .collect(),
                sequence: own.last().map_or(0, |row| row.sequence.wrapping_add(1)),
            };
            self.replies.0.lock().insert(*connection, slots);
        }
        if !gone.is_empty() {
            let job = move |sqlite: &Sqlite| Ok(reply::delete(sqlite, &gone)?);
            self.catalog.release(false, job).await?;
        }
        Ok(())
    }

    /// Deletes the rows of a connection that is gone.
    pub(super) async fn delete_replies(&self, connection: ConnectionId) -> Result<()> {
        self.replies.end(connection);
        let job = move |sqlite: &Sqlite| Ok(reply::delete_of(sqlite, connection)?);
        self.catalog.release(false, job).await.map(|_| ())
    }

    /// Begins a request of a connection that must not be carried out twice.
    #[must_use]
    pub fn begin(
        &self,
        connection: ConnectionId,
        request: u64,
        resent: bool,
    ) -> Option<OpenRequest> {
        self.replies.begin(&self.strong(), connection, request, resent)
    }
}
