//! What is said on an engine's socket.

use plinth_engine::{
    admin::{
        AdminError, Conversion, Estimate, Exchange, NewGroup, Operation, Order, Renaming, Replacement, Report, Resize,
        Selection, Value, Work,
    },
    api::Kind,
};
use serde::{Deserialize, Serialize};
use std::{io, path::PathBuf};

/// The name of the protocol in greetings.
pub const NAME: &str = "engine";

/// One request; the answer is one or more [`Answer`]s.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Request {
    Status,
    /// Makes the group; it stays dismounted.
    Create(NewGroup),
    Mount {
        force: bool,
    },
    /// The engine exits after its answer.
    Dismount {
        force: bool,
    },
    /// The engine exits after its answer.
    Drop {
        contents: bool,
    },
    Offline {
        which: Selection,
        /// Seconds.
        drop_after: Option<u64>,
    },
    Online {
        which: Selection,
        power: Option<u32>,
    },
    Exchange {
        exchange: Exchange,
        order: Order,
    },
    /// What something would move.
    Estimate(Work),
    Undrop,
    Replace {
        replacements: Vec<Replacement>,
        power: Option<u32>,
    },
    Rename(Renaming),
    Resize {
        resizes: Vec<Resize>,
        order: Order,
    },
    Convert {
        to: Conversion,
        order: Order,
    },
    Rebalance(Order),
    Check {
        repair: bool,
    },
    SetAttribute {
        name: String,
        value: String,
    },
    SetDiskstring(String),
    Operations,
    /// Answered with `Rows` and their parts, then `Done`.
    Query(String),
    /// Serves the mount whose `/dev/fuse` comes with the request.
    Serve {
        mount_point: PathBuf,
    },
    /// Answered with `Notice`s until the engine ends.
    Watch,
    /// What a name is.
    Look {
        path: String,
    },
    /// Up to a thousand entries after the cookie.
    List {
        path: String,
        after: u64,
    },
    /// Makes a regular file, or empties the one that is there.
    Make {
        path: String,
        mode: u32,
        uid: u32,
        gid: u32,
    },
    Read {
        node: u64,
        offset: u64,
        length: usize,
    },
    /// The bytes come with the request.
    Write {
        node: u64,
        offset: u64,
    },
    Sync {
        node: u64,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Answer {
    Done,
    Refused(AdminError),
    Status(Status),
    Report(Report),
    Operations(Vec<Operation>),
    Estimate(Estimate),
    Rows {
        columns: Vec<String>,
        types: Vec<Option<String>>,
    },
    /// So many rows, encoded in the body.
    Part {
        rows: usize,
    },
    Notice(Notice),
    File(FileInfo),
    Entries(Vec<ListEntry>),
    /// In the body; fewer than asked for at the end of the file.
    Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub pid: u32,
    pub program: String,
    pub mounted: bool,
    pub io: String,
    /// The mount points it serves.
    pub serving: Vec<PathBuf>,
}

/// Something that the instance wants to know at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// A mount is gone: somebody unmounted it.
    Unmounted(PathBuf),
    /// The catalog has stopped, for this reason, and the engine ends.
    Stopped(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    pub node: u64,
    pub kind: Kind,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    /// Bytes.
    pub size: u64,
    /// 512-byte units, before mirroring.
    pub blocks: u64,
    /// Nanoseconds since 1970.
    pub modified: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListEntry {
    pub name: String,
    pub cookie: u64,
    pub info: FileInfo,
}

/// The bytes of rows in one message, about.
const PART: usize = 1 << 20;

/// Sends rows in parts: `send` gets how many rows a part has, and the part's bytes. The last may be empty.
///
/// # Errors
/// What `send` says first.
pub fn in_parts(rows: &[Vec<Value>], mut send: impl FnMut(usize, &[u8]) -> io::Result<()>) -> io::Result<()> {
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

/// Appends a row to a body: a count, then for each value a byte that says what it is, and the value.
pub fn encode_row(row: &[Value], body: &mut Vec<u8>) {
    let length = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes();
    body.extend_from_slice(&length(row.len()));
    for value in row {
        match value {
            Value::Null => body.push(0),
            Value::Integer(number) => {
                body.push(1);
                body.extend_from_slice(&number.to_le_bytes());
            }
            Value::Real(number) => {
                body.push(2);
                body.extend_from_slice(&number.to_le_bytes());
            }
            Value::Text(text) => {
                body.push(3);
                body.extend_from_slice(&length(text.len()));
                body.extend_from_slice(text.as_bytes());
            }
            Value::Blob(bytes) => {
                body.push(4);
                body.extend_from_slice(&length(bytes.len()));
                body.extend_from_slice(bytes);
            }
        }
    }
}

/// Takes a row from a body. `None` if there is none or it makes no sense.
#[must_use]
pub fn decode_row(body: &mut &[u8]) -> Option<Vec<Value>> {
    fn take<'a>(body: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = body.split_at_checked(count)?;
        *body = rest;
        Some(taken)
    }
    fn eight(body: &mut &[u8]) -> Option<[u8; 8]> {
        take(body, 8)?.try_into().ok()
    }
    fn counted<'a>(body: &mut &'a [u8]) -> Option<&'a [u8]> {
        let count = u32::from_le_bytes(take(body, 4)?.try_into().ok()?);
        take(body, count as usize)
    }
    let count = u32::from_le_bytes(take(body, 4)?.try_into().ok()?) as usize;
    let mut row = Vec::with_capacity(count.min(body.len()));
    for _ in 0..count {
        row.push(match take(body, 1)? {
            [0] => Value::Null,
            [1] => Value::Integer(i64::from_le_bytes(eight(body)?)),
            [2] => Value::Real(f64::from_le_bytes(eight(body)?)),
            [3] => Value::Text(String::from_utf8_lossy(counted(body)?).into_owned()),
            [4] => Value::Blob(counted(body)?.to_vec()),
            _ => return None,
        });
    }
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_and_noise_does_not() {
        let row =
            vec![Value::Null, Value::Integer(-5), Value::Real(0.5), Value::Text("é".into()), Value::Blob(vec![0, 255])];
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
