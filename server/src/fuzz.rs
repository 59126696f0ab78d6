//! Decodes arbitrary bytes as they could come on a socket between our own processes: for the fuzzer
//! in `fuzz/`, and for a test that mutates valid messages. The input of `kfed`, `amdu` and the
//! commands for labels is in `cli/fuzz.rs`.

pub use crate::cli::fuzz::repair;

use crate::{engine::protocol, instance::control};
use plinth_engine::catalog::rows::decode_rows;
use plinth_host::ipc::{Frames, Hello};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt::Debug, io::Write, os::unix::net::UnixStream};

/// Bytes that fit into a socket's buffer before the other side reads.
const INPUT_MAX: usize = 64 << 10;

/// Decodes bytes as messages, or as rows; the first byte selects the kind. Returns the number
/// decoded before the first invalid one.
///
/// # Panics
/// If a decoded message cannot be encoded again and decoded to the same value: a bug.
#[must_use]
pub fn messages(input: &[u8]) -> usize {
    let Some((kind, bytes)) = input.split_first() else { return 0 };
    match kind % 6 {
        0 => read::<protocol::Request>(bytes),
        1 => read::<protocol::Answer>(bytes),
        2 => read::<control::Request>(bytes),
        3 => read::<control::Answer>(bytes),
        4 => read::<Hello>(bytes),
        _ => {
            let Some((rows, body)) = bytes.split_first_chunk::<8>() else { return 0 };
            let rows = usize::try_from(u64::from_le_bytes(*rows)).unwrap_or(usize::MAX);
            decode_rows(rows, body).map_or(0, |rows| rows.len())
        }
    }
}

fn read<T: Serialize + DeserializeOwned + Debug>(bytes: &[u8]) -> usize {
    let (near, mut far) = UnixStream::pair().expect("a pair of sockets");
    far.write_all(bytes.get(..INPUT_MAX).unwrap_or(bytes)).expect("a socket takes so much");
    drop(far);
    let frames = Frames::ungreeted(near);
    let mut count = 0;
    while let Ok(Some(received)) = frames.receive::<T>() {
        let text = serde_json::to_vec(&received.head).expect("what was read can be written");
        let again: T = serde_json::from_slice(&text).expect("what we write we read");
        assert_eq!(
            format!("{:?}", received.head),
            format!("{again:?}"),
            "written and read, it is something else"
        );
        count += 1;
    }
    count
}

/// Takes right inputs, in an order that follows from a fixed seed, and changes each one to three
/// times. Returns how much was understood of all of them. `counts`: how many, and how many with
/// `PLINTH_LONG`.
#[cfg(test)]
pub(crate) fn understood_of_changed(
    right: &[Vec<u8>],
    counts: (usize, usize),
    change: impl Fn(&mut Vec<u8>, &mut dyn FnMut(usize) -> usize),
    understood: impl Fn(&[u8]) -> usize,
) -> usize {
    let is_long = std::env::var_os("PLINTH_LONG").is_some_and(|value| value == "1");
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |end: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % end as u64) as usize
    };
    let mut all = 0;
    for _ in 0..if is_long { counts.1 } else { counts.0 } {
        let mut input = right[next(right.len())].clone();
        for _ in 0..=next(3) {
            change(&mut input, &mut next);
        }
        all += understood(&input);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use plinth_engine::{
        admin::{AdminError, Code, Command, Value},
        api::Kind,
        catalog::rows::in_parts,
    };
    use protocol::{Answer, FileInfo, FileRequest, ProcessRequest, Request, Status};

    fn message(kind: u8, head: &impl Serialize, body: &[u8]) -> Vec<u8> {
        let head = serde_json::to_vec(head).expect("it can be written");
        let lengths = [head.len(), body.len()]
            .map(|length| u32::try_from(length).expect("short").to_le_bytes());
        [&[kind][..], &lengths.concat(), &head, body].concat()
    }

    fn rows() -> Vec<u8> {
        let row = vec![
            Value::Integer(-1),
            Value::Real(0.5),
            Value::Text("text".into()),
            Value::Null,
            Value::Blob(vec![7; 20]),
        ];
        let mut bytes = Vec::new();
        in_parts(&vec![row; 3], |_, body| {
            bytes.extend_from_slice(body);
            Ok::<(), ()>(())
        })
        .expect("nothing refuses");
        bytes
    }

    /// Valid messages of every kind.
    fn right() -> Vec<Vec<u8>> {
        let path = || "/db/table".to_owned();
        let info = FileInfo {
            node: 300,
            kind: Kind::Regular,
            mode: 0o600,
            uid: 26,
            gid: 26,
            links: 1,
            size: 1 << 40,
            blocks: 8,
            modified: -5,
            file_type: Some("DATAFILE".into()),
            incarnation: 9,
        };
        let status = Status {
            pid: 7,
            program: "0.1.0".into(),
            mounted: true,
            io: "uring".into(),
            serving: vec!["/data".into()],
        };
        let refused = AdminError::new(Code::Invalid, "no such disk").hint("name another one");
        let requests: [Request; 11] = [
            ProcessRequest::Status.into(),
            ProcessRequest::Mount {
                force: true,
                restricted: false,
                patient: false,
                resume: Vec::new(),
            }
            .into(),
            ProcessRequest::Query("SELECT * FROM v$asm_disk".into()).into(),
            ProcessRequest::CheckFailureGroups(["SITE1".to_owned(), "SITE2".to_owned()].into())
                .into(),
            Command::SetAttribute { name: "disk_timeout".into(), value: "30".into(), force: false }
                .into(),
            FileRequest::Look { path: path() }.into(),
            FileRequest::List { path: path(), after: 1000 }.into(),
            FileRequest::Make { path: path(), mode: 0o644, uid: 0, gid: 0 }.into(),
            FileRequest::Move { from: path(), to: "/db/other".into() }.into(),
            FileRequest::Read { node: 300, offset: 1 << 40, length: 65536 }.into(),
            FileRequest::Sync { node: 300 }.into(),
        ];
        let answers = [
            Answer::Done,
            Answer::Refused(refused),
            Answer::Status(status),
            Answer::Rows {
                columns: vec!["name".into(), "n".into()],
                types: vec![None, Some("INTEGER".into())],
            },
            Answer::Found {
                path: vec!["db".into()],
                file: info.clone(),
                missing: vec!["table".into()],
            },
            Answer::File(info),
        ];
        let asked = [
            control::Request::Sql("SELECT 1; SELECT 2".into()),
            control::Request::Mount {
                group: "DATA".into(),
                directory: "/data".into(),
                options: "ro".into(),
            },
            control::Request::Check { group: "DATA".into(), repair: true },
            control::Request::Shutdown { force: false },
        ];
        let told = [
            control::Answer::Notice { warning: true, text: "disk DATA_0001 is offline".into() },
            control::Answer::Columns(vec![("n".into(), 0), ("name".into(), 2)]),
            control::Answer::Tag("SELECT 3".into()),
            control::Answer::Done,
        ];
        let rows = rows();
        let mut all = vec![
            message(0, &FileRequest::Write { node: 300, offset: 4096 }, &[7; 600]),
            message(1, &Answer::Part { rows: 3 }, &rows),
            message(3, &control::Answer::Part { rows: 3 }, &rows),
            message(
                4,
                &serde_json::json!({ "plinth": "engine", "version": 2, "program": "0.1.0" }),
                &[],
            ),
            [&[5][..], &3_u64.to_le_bytes(), &rows].concat(),
        ];
        all.extend(requests.iter().map(|request| message(0, request, &[])));
        all.extend(answers.iter().map(|answer| message(1, answer, &[])));
        all.extend(asked.iter().map(|request| message(2, request, &[])));
        all.extend(told.iter().map(|answer| message(3, answer, &[])));
        all
    }

    /// Mutates a message, in some cases so that its length is still valid.
    fn change(message: &mut Vec<u8>, next: &mut dyn FnMut(usize) -> usize) {
        let at = next(message.len().max(1));
        match next(7) {
            0 => message.truncate(at),
            1 => message.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << next(8)),
            2 => message.iter_mut().skip(at).take(next(12)).for_each(|byte| *byte = b'9'),
            3 => {
                drop(message.splice(at..at, vec![[b'[', b'{', b'"', 0xff, 0][next(5)]; next(300)]))
            }
            4 => drop(
                message.splice(
                    at..at,
                    [&b"18446744073709551616"[..], b"-9223372036854775809", b"1e999", b"null"]
                        [next(4)]
                    .to_vec(),
                ),
            ),
            5 => {
                let again: Vec<u8> = message.iter().skip(at).copied().collect();
                message.extend(again);
            }
            _ => {
                let first = next(6) as u8;
                message.iter_mut().take(1).for_each(|kind| *kind = first);
            }
        }
        if next(2) == 0 && message.len() > 9 {
            // The whole message is head.
            let length = u32::try_from(message.len() - 9).expect("short").to_le_bytes();
            message[1..5].copy_from_slice(&length);
            message[5..9].fill(0);
        }
    }

    #[test]
    fn what_is_right_is_understood() {
        for message in right() {
            assert!(messages(&message) > 0, "{}", String::from_utf8_lossy(&message));
        }
    }

    #[test]
    fn whatever_comes_is_understood_or_refused() {
        let understood = understood_of_changed(&right(), (30_000, 3_000_000), change, messages);
        assert!(
            understood > 1000,
            "nearly all was refused: this tries nothing but the first bytes"
        );
    }
}
