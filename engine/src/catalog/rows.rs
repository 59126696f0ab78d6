//! Encodes rows of a query: as bytes, in parts, made while SQLite shows a row and decoded where
//! they are used.
//!
//! ```text
//!   row:    count u32 | value ...        all numbers little-endian
//!   value:  0                            NULL
//!           1 | i64      2 | f64
//!           3 | length u32 | UTF-8       4 | length u32 | bytes
//! ```
//!
//! Between the two is a [`Pipe`] that holds some MiB: the catalog's reader thread waits while it is
//! full, and checks meanwhile whether it may still hold its snapshot. So a result may have any
//! size, and a client that does not read it delays neither the catalog's log nor fills the engine's
//! memory.

use crate::{
    admin::{AdminError, Rows, Value},
    sync::lock::{Mutex, MutexGuard},
    world::{World, wait_for},
};
use rusqlite::types::ValueRef;
use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::Arc,
    task::{Poll, Waker},
    time::Duration,
};

/// About how many bytes a part has.
pub const PART: usize = 256 << 10;
/// Most bytes that wait in a pipe, without the last part.
const ROOM: usize = 4 << 20;
/// How often a writer checks whether there is room again.
const LOOK: Duration = Duration::from_millis(1);

/// A value that is not owned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Seen<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a [u8]),
    Blob(&'a [u8]),
}

impl Seen<'_> {
    #[must_use]
    pub fn to_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Integer(number) => Value::Integer(number),
            Self::Real(number) => Value::Real(number),
            Self::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
            Self::Blob(bytes) => Value::Blob(bytes.to_vec()),
        }
    }
}

impl<'a> From<ValueRef<'a>> for Seen<'a> {
    fn from(value: ValueRef<'a>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Integer(number),
            ValueRef::Real(number) => Self::Real(number),
            ValueRef::Text(text) => Self::Text(text),
            ValueRef::Blob(bytes) => Self::Blob(bytes),
        }
    }
}

impl<'a> From<Seen<'a>> for ValueRef<'a> {
    fn from(value: Seen<'a>) -> Self {
        match value {
            Seen::Null => Self::Null,
            Seen::Integer(number) => Self::Integer(number),
            Seen::Real(number) => Self::Real(number),
            Seen::Text(text) => Self::Text(text),
            Seen::Blob(bytes) => Self::Blob(bytes),
        }
    }
}

impl<'a> From<&'a Value> for Seen<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Integer(number) => Self::Integer(*number),
            Value::Real(number) => Self::Real(*number),
            Value::Text(text) => Self::Text(text.as_bytes()),
            Value::Blob(bytes) => Self::Blob(bytes),
        }
    }
}

fn length(count: usize) -> [u8; 4] {
    u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes()
}

/// Appends the head of a row with this number of values.
pub fn encode_count(count: usize, body: &mut Vec<u8>) {
    body.extend_from_slice(&length(count));
}

pub fn encode_value(value: Seen<'_>, body: &mut Vec<u8>) {
    let mut counted = |kind: u8, bytes: &[u8]| {
        body.push(kind);
        body.extend_from_slice(&length(bytes.len()));
        body.extend_from_slice(bytes);
    };
    match value {
        Seen::Text(text) => counted(3, text),
        Seen::Blob(bytes) => counted(4, bytes),
        Seen::Null => body.push(0),
        Seen::Integer(number) => {
            body.push(1);
            body.extend_from_slice(&number.to_le_bytes());
        }
        Seen::Real(number) => {
            body.push(2);
            body.extend_from_slice(&number.to_le_bytes());
        }
    }
}

pub fn encode_row(row: &[Value], body: &mut Vec<u8>) {
    encode_count(row.len(), body);
    for value in row {
        encode_value(value.into(), body);
    }
}

/// Sends rows in parts: `send` gets the number of rows in a part, and the part's bytes. The last
/// part may be empty.
///
/// # Errors
/// The first error of `send`.
pub fn in_parts<E>(
    rows: &[Vec<Value>],
    mut send: impl FnMut(usize, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut body = Vec::new();
    let mut count = 0;
    for row in rows {
        encode_row(row, &mut body);
        count += 1;
        if body.len() >= PART {
            send(count, &body)?;
            body.clear();
            count = 0;
        }
    }
    send(count, &body)
}

/// Decodes the number of values of a row.
#[must_use]
pub fn decode_count(body: &mut &[u8]) -> Option<usize> {
    let (count, rest) = body.split_first_chunk::<4>()?;
    *body = rest;
    Some(u32::from_le_bytes(*count) as usize)
}

/// Decodes a value. `None` if there is none or it is malformed.
#[must_use]
pub fn decode_value<'a>(body: &mut &'a [u8]) -> Option<Seen<'a>> {
    fn eight(body: &mut &[u8]) -> Option<[u8; 8]> {
        let (taken, rest) = body.split_first_chunk::<8>()?;
        *body = rest;
        Some(*taken)
    }
    fn counted<'a>(body: &mut &'a [u8]) -> Option<&'a [u8]> {
        let count = decode_count(body)?;
        let (taken, rest) = body.split_at_checked(count)?;
        *body = rest;
        Some(taken)
    }
    let (kind, rest) = body.split_first()?;
    *body = rest;
    Some(match kind {
        0 => Seen::Null,
        1 => Seen::Integer(i64::from_le_bytes(eight(body)?)),
        2 => Seen::Real(f64::from_le_bytes(eight(body)?)),
        3 => Seen::Text(counted(body)?),
        4 => Seen::Blob(counted(body)?),
        _ => return None,
    })
}

/// Decodes a row. `None` if there is none or it is malformed.
#[must_use]
pub fn decode_row(body: &mut &[u8]) -> Option<Vec<Value>> {
    let count = decode_count(body)?;
    let mut row = Vec::with_capacity(count.min(body.len()));
    for _ in 0..count {
        row.push(decode_value(body)?.to_value());
    }
    Some(row)
}

/// Decodes all rows of a part. `None` if they are malformed.
#[must_use]
pub fn decode_rows(rows: usize, mut body: &[u8]) -> Option<Vec<Vec<Value>>> {
    (0..rows).map(|_| decode_row(&mut body)).collect()
}

/// A piece of a result, from a [`Pipe`].
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// First: the columns' names, and their declared types where there are any.
    Columns(Vec<String>, Vec<Option<String>>),
    /// Encoded rows, `rows` of them.
    Part { rows: usize, bytes: Vec<u8> },
    /// The last piece if the query failed; the pieces before are not the whole result.
    Refused(AdminError),
}

#[derive(Debug, Default)]
struct Inside {
    pieces: VecDeque<Piece>,
    /// In waiting parts.
    bytes: usize,
    /// The writer has ended.
    complete: bool,
    /// The receiver is gone.
    abandoned: bool,
    waiting: Option<Waker>,
}

#[derive(Debug)]
struct Pipe(Mutex<Inside>);

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock()
    }
}

/// The end at which a query's thread writes.
#[derive(Debug)]
pub struct Sender(Arc<Pipe>);

/// The end at which the result is read. A query whose reader is dropped ends.
#[derive(Debug)]
pub struct Receiver(Arc<Pipe>);

#[must_use]
pub fn pipe() -> (Sender, Receiver) {
    let pipe = Arc::new(Pipe(Mutex::default()));
    (Sender(Arc::clone(&pipe)), Receiver(pipe))
}

impl Sender {
    /// Adds a piece; waits for room as long as `may_wait` is true. `false` if it was not added.
    #[must_use]
    pub fn put(&self, piece: Piece, world: &dyn World, may_wait: impl Fn() -> bool) -> bool {
        loop {
            {
                let inside = self.0.lock();
                if inside.abandoned {
                    return false;
                }
                if inside.bytes < ROOM {
                    return self.push(inside, piece);
                }
            }
            if !may_wait() {
                return false;
            }
            wait_for(world, world.sleep(LOOK));
        }
    }

    /// Ends the result with an error.
    pub fn refuse(&self, error: AdminError) {
        self.push(self.0.lock(), Piece::Refused(error));
    }

    fn push(&self, mut inside: MutexGuard<'_, Inside>, piece: Piece) -> bool {
        if let Piece::Part { bytes, .. } = &piece {
            inside.bytes += bytes.len();
        }
        inside.pieces.push_back(piece);
        let waiting = inside.waiting.take();
        drop(inside);
        waiting.into_iter().for_each(Waker::wake);
        true
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let waiting = {
            let mut inside = self.0.lock();
            inside.complete = true;
            inside.waiting.take()
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Receiver {
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<Piece> {
        poll_fn(|context| {
            let mut inside = self.0.lock();
            match inside.pieces.pop_front() {
                Some(piece) => {
                    if let Piece::Part { bytes, .. } = &piece {
                        inside.bytes -= bytes.len();
                    }
                    Poll::Ready(Some(piece))
                }
                None if inside.complete => Poll::Ready(None),
                None => {
                    inside.waiting = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Receiver {
    /// The whole result.
    ///
    /// # Errors
    /// The refusal of the query.
    pub async fn collect(mut self) -> Result<Rows, AdminError> {
        let mut all = Rows::default();
        while let Some(piece) = self.next().await {
            match piece {
                Piece::Columns(columns, types) => (all.columns, all.types) = (columns, types),
                Piece::Refused(error) => return Err(error),
                Piece::Part { rows, bytes } => {
                    all.rows.extend(decode_rows(rows, &bytes).expect("as they were encoded"));
                }
            }
        }
        Ok(all)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut inside = self.0.lock();
        inside.abandoned = true;
        inside.pieces.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_rows_are_decoded_and_noise_is_refused() {
        let row = vec![
            Value::Null,
            Value::Integer(-5),
            Value::Real(0.5),
            Value::Text("é".into()),
            Value::Blob(vec![0, 255]),
        ];
        let mut body = Vec::new();
        encode_row(&row, &mut body);
        encode_row(&[], &mut body);
        let mut rest = &body[..];
        assert_eq!(decode_row(&mut rest), Some(row));
        assert_eq!(decode_row(&mut rest), Some(vec![]));
        assert_eq!(decode_row(&mut rest), None);
        for cut in 0..body.len() - 4 {
            assert_eq!(decode_row(&mut &body[..cut]), None);
        }
        assert_eq!(decode_row(&mut &[255; 40][..]), None);
    }
}
