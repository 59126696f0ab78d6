//! Bytes that an operator or a disk hands to `kfed`, `amdu` and the commands for labels: for the
//! fuzzer in `fuzz/`, and for a test that changes what is right.

use super::{amdu::DumpedDisk, kfed};
use plinth_engine::{catalog::copied::CopiedTables, disk::labels};
use plinth_format::{header::DiskHeader, label::LabelRecord, page::PAGE_SIZE};
use rusqlite::Connection;

/// Longest content of a disk or a catalog.
const CONTENT_MAX: usize = 1 << 20;

/// Reads bytes as one of the kinds of input; the first byte selects it. Returns how much of it was
/// understood.
///
/// # Panics
/// If what is accepted is not right: a bug.
#[must_use]
pub fn repair(input: &[u8]) -> usize {
    let Some((kind, bytes)) = input.split_first() else { return 0 };
    let content = bytes.get(..CONTENT_MAX).unwrap_or(bytes);
    match kind % 7 {
        0 => kfed::fuzz::text(bytes),
        1 => kfed::fuzz::before_image(bytes),
        2 => DumpedDisk::check_bytes(bytes).map_or(0, |disk| disk.readable_ranges()),
        3 => kfed::fuzz::disk(content),
        4 => label(&String::from_utf8_lossy(bytes)),
        5 => labelled_block(bytes),
        _ => catalog(content),
    }
}

/// A label, as statements and commands name it.
fn label(text: &str) -> usize {
    let statement = format!("ALTER SYSTEM LABEL SET '{text}' TO '/dev/sda'; {text}");
    let understood = crate::sql::parse(&statement).map_or(0, |statements| statements.len());
    match labels::parse(text) {
        Ok(label) => {
            assert!(label.as_str().bytes().all(|byte| byte.is_ascii_graphic()), "{label:?}");
            understood + 1
        }
        Err(error) => {
            let is_shown = |letter: char| !letter.is_control();
            assert!(error.message.chars().all(is_shown), "{:?}", error.message);
            understood
        }
    }
}

/// The first block of a disk with a label.
fn labelled_block(block: &[u8]) -> usize {
    if let Ok(record) = LabelRecord::decode(block, 0) {
        assert_eq!(LabelRecord::decode(&record.encode(0), 0), Ok(record));
        return 1;
    }
    let Ok(header) = DiskHeader::decode(block, 0) else { return 0 };
    let written = DiskHeader { has_prefix: true, ..header };
    assert_eq!(DiskHeader::decode(&written.encode(0), 0), Ok(written));
    1
}

/// The pages of a damaged catalog.
fn catalog(bytes: &[u8]) -> usize {
    let pages: Vec<&[u8]> = bytes.chunks(PAGE_SIZE).collect();
    let page = |number: u32| {
        let at = usize::try_from(number.checked_sub(1)?).ok()?;
        pages.get(at).filter(|page| page.len() == PAGE_SIZE).map(|page| page.to_vec())
    };
    let Ok(new) = Connection::open_in_memory() else { return 0 };
    let count = u32::try_from(pages.len()).unwrap_or(u32::MAX);
    match CopiedTables::salvage(new, &page, count) {
        Ok((tables, salvaged)) => {
            let _ = tables.names();
            salvaged.rows.values().sum::<u64>().try_into().unwrap_or(usize::MAX)
        }
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::understood_of_changed;
    use plinth_format::{
        BLOCK_SIZE, Label, MembershipId, Redundancy,
        envelope::Envelope,
        layout::{FIRST_AREA, Layout, MIB},
        membership::{DiskState, MemberDisk, Membership},
        stamp::Stamp,
    };

    /// The first MiB of a disk, with a header, a stamp and a membership.
    fn disk() -> Vec<u8> {
        let header = kfed::fuzz::header();
        let mut bytes = vec![0; MIB as usize];
        let mut put = |place: u64, record: &[u8]| {
            let place = usize::try_from(place).expect("small");
            bytes[place..place + record.len()].copy_from_slice(record);
        };
        put(0, &header.encode(0));
        let at = |place| Envelope { group: header.group, disk: header.disk, place };
        let id = MembershipId([7; 16]);
        let stamp = Stamp { counter: 3, written: 0, membership: id, clean: true };
        put(FIRST_AREA.stamps[0], &stamp.encode(at(FIRST_AREA.stamps[0])));
        let member = MemberDisk {
            id: header.disk,
            number: header.number,
            state: DiskState::Online,
            votes: true,
            quorum: false,
            copy_whole: false,
            by_operator: false,
            absent: false,
            leaving: false,
            size: Layout::smallest(MIB),
            target: None,
            stamp: 3,
            since: 0,
            joined: 0,
            name: header.name.clone(),
            failure_group: header.failure_group.clone(),
        };
        let membership = Membership {
            generation: 1,
            id,
            created: 0,
            au_size: MIB,
            stamp: 3,
            redundancy: Redundancy::External,
            wanted: Redundancy::External,
            mounted: false,
            boot: [0; 16],
            mount_wait: None,
            group_name: header.group_name.clone(),
            ancestors: Vec::new(),
            disks: vec![member],
            catalog: Vec::new(),
        };
        let place = FIRST_AREA.memberships[0];
        put(place, &membership.encode(at(place)));
        bytes
    }

    /// A database with the first table of a catalog, which begins on the second page. A catalog
    /// does not use the last bytes of its pages, where other databases put what is made first.
    fn catalog_pages() -> Vec<u8> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("catalog");
        let made = Connection::open(&path).expect("a database");
        let tables = "CREATE VIEW made_first AS SELECT 1 AS number;
            CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
            INSERT INTO counter VALUES ('a long name, made first', 1), ('node', 256)";
        made.execute_batch(tables).expect("tables");
        drop(made);
        std::fs::read(&path).expect("the database")
    }

    /// Valid input of each kind.
    fn right() -> Vec<Vec<u8>> {
        let of = |kind: u8, bytes: &[u8]| [&[kind], bytes].concat();
        let label = Label::new("data01").expect("a label");
        let record = LabelRecord { label: label.clone(), when: 1, by: "root".to_owned() };
        let header = DiskHeader { label: Some(label), ..kfed::fuzz::header() };
        vec![
            of(0, b"# header\ngroup = DATA  # its name\nstatus = MEMBER\ndisk number = 7"),
            of(1, &kfed::fuzz::right_before_image()),
            of(2, &DumpedDisk::dump_of(&[3; 2 * BLOCK_SIZE])),
            of(3, &disk()),
            of(4, b"data01"),
            of(5, &record.encode(0)),
            of(5, &header.encode(0)),
            of(6, &catalog_pages()),
        ]
    }

    /// Changes some bytes. Mostly in the first ones, where lengths and names are.
    fn change(input: &mut Vec<u8>, next: &mut dyn FnMut(usize) -> usize) {
        let end = if next(2) == 0 { input.len().min(200) } else { input.len() };
        let at = next(end.max(1));
        match next(6) {
            0 => input.truncate(at),
            1 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << next(8)),
            2 => input.iter_mut().skip(at).take(next(12)).for_each(|byte| *byte = b'9'),
            3 => {
                let letter = [b'\'', b'"', b'\n', b'=', 0x1b, 0xff, 0][next(7)];
                drop(input.splice(at..at, vec![letter; next(300)]));
            }
            4 => {
                let word = [&b"18446744073709551616"[..], b"-1", b"1e999", b"null"][next(4)];
                drop(input.splice(at..at, word.to_vec()));
            }
            _ => {
                let again: Vec<u8> = input.iter().skip(at).copied().collect();
                input.extend(again);
            }
        }
    }

    #[test]
    fn what_is_right_is_understood() {
        for (number, input) in right().iter().enumerate() {
            assert!(repair(input) > 0, "number {number}");
        }
    }

    #[test]
    fn whatever_comes_is_understood_or_refused() {
        let is_understood = |input: &[u8]| usize::from(repair(input) > 0);
        let understood = understood_of_changed(&right(), (2000, 300_000), change, is_understood);
        assert!(understood > 200, "nearly all was refused: this tries nothing but the first bytes");
    }
}
