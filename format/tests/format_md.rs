//! `docs/format.md` matches the code: its tables have the same values as the constants.

use plinth_format::{
    BLOCK_SIZE,
    activity::{self, ENTRIES_MAX},
    envelope, header, label,
    layout::{ACTIVITY_SLOT, FIRST_AREA, HEADER_PLACE, MEMBERSHIP_SLOT},
    lost, membership, page, stamp,
};
use std::{collections::BTreeMap, ops::Range};

const TEXT: &str = include_str!("../../docs/format.md");

type Fields = Vec<(String, Range<usize>)>;

/// The tables with the columns name, offset and length, by the name of their first column.
fn documented() -> BTreeMap<String, Fields> {
    let mut tables = BTreeMap::new();
    let mut table = None;
    for line in TEXT.lines() {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        match cells[..] {
            [name, "offset", "length", "meaning"] => {
                assert!(
                    tables.insert(name.to_owned(), Fields::new()).is_none(),
                    "two tables of {name}"
                );
                table = Some(name.to_owned());
            }
            [name, offset, length, _] if line.starts_with('|') && !name.starts_with('-') => {
                let Some(table) = &table else { continue };
                let number = |cell: &str| {
                    cell.parse::<usize>().unwrap_or_else(|_| panic!("{cell} in: {line}"))
                };
                let start = number(offset);
                let fields = tables.get_mut(table).expect("begun above");
                fields.push((name.to_owned(), start..start + number(length)));
            }
            _ if !line.starts_with('|') => table = None,
            _ => {}
        }
    }
    tables
}

macro_rules! fields {
    ($module:ident: $($field:ident),+ $(,)?) => {
        vec![$((stringify!($field).to_owned(), $module::$field)),+]
    };
}

fn in_the_code() -> BTreeMap<String, Fields> {
    let place = |name: &str, at: u64, length: usize| {
        let start = usize::try_from(at).expect("64-bit");
        (name.to_owned(), start..start + length)
    };
    let places = vec![
        place("HEADER", HEADER_PLACE, BLOCK_SIZE),
        place("STAMP_0", FIRST_AREA.stamps[0], BLOCK_SIZE),
        place("STAMP_1", FIRST_AREA.stamps[1], BLOCK_SIZE),
        place("ACTIVITY_0", FIRST_AREA.activity[0], ACTIVITY_SLOT),
        place("ACTIVITY_1", FIRST_AREA.activity[1], ACTIVITY_SLOT),
        place("MEMBERSHIP_0", FIRST_AREA.memberships[0], MEMBERSHIP_SLOT),
        place("MEMBERSHIP_1", FIRST_AREA.memberships[1], MEMBERSHIP_SLOT),
    ];
    let tables: [(&str, Fields); 11] = [
        ("place", places),
        (
            "envelope",
            fields!(envelope: MAGIC, RECORD_VERSION, CHECKSUM, GROUP, DISK, PLACE, LENGTH),
        ),
        (
            "header",
            fields!(
                header: SEQUENCE, CREATED, SIZE, AU_SIZE, LOGICAL_SECTOR, PHYSICAL_SECTOR, DISK_NUMBER, STATUS,
                REDUNDANCY, QUORUM, GROUP_NAME, DISK_NAME, FAILURE_GROUP, FEATURES,
                ORIGIN_GROUP, ORIGIN_DISK, LABEL,
            ),
        ),
        ("prefix", fields!(label: PREFIX_MAGIC, PREFIX_VERSION, TAG, PREFIX_LABEL)),
        ("label", fields!(label: WHEN, LABEL, BY)),
        ("stamp", fields!(stamp: COUNTER, WRITTEN, MEMBERSHIP, CLEAN)),
        (
            "membership",
            fields!(
                membership: GENERATION, ID, CREATED, AU_SIZE, STAMP_COUNTER, REDUNDANCY, MOUNTED, WANTED, MOUNT_WAIT,
                DISK_COUNT, RUN_COUNT, ANCESTOR_COUNT, BOOT, GROUP_NAME,
            ),
        ),
        (
            "disk",
            fields!(
                membership: D_ID, D_NUMBER, D_STATE, D_FLAGS, D_SIZE, D_STAMP, D_SINCE, D_NAME, D_GROUP, D_JOINED, D_TARGET,
            ),
        ),
        ("run", fields!(membership: R_FILE, R_MIRROR, R_DISK, R_AT, R_FIRST, R_COUNT)),
        ("activity", fields!(activity: SEQUENCE, MEMBERSHIP, BOOT, COUNT)),
        ("page", fields!(page: PAGE_WRITE, PAGE_MAGIC, PAGE_CHECKSUM)),
    ];
    tables.into_iter().map(|(name, fields)| (name.to_owned(), fields)).collect()
}

#[test]
fn the_tables_are_those_of_the_code() {
    let mut documented = documented();
    let region = documented.remove("region").expect("a table of an entry of the activity log");
    assert_eq!(region.last().map(|(_, range)| range.end <= activity::ENTRY_SIZE), Some(true));
    let code = in_the_code();
    for (name, fields) in &code {
        assert_eq!(documented.get(name), Some(fields), "table of {name}");
    }
    assert_eq!(documented.keys().collect::<Vec<_>>(), code.keys().collect::<Vec<_>>());
}

/// Numbers in the text outside of tables.
#[test]
fn the_text_has_the_right_numbers() {
    let magic = |bytes: &[u8; 8]| format!("magic `{}`", String::from_utf8_lossy(bytes));
    for phrase in [
        magic(header::HEADER_MAGIC),
        magic(label::LABEL_MAGIC),
        magic(stamp::STAMP_MAGIC),
        magic(membership::MEMBERSHIP_MAGIC),
        magic(activity::ACTIVITY_MAGIC),
        magic(lost::LOST_MAGIC),
        format!("The first {} bytes of every record", envelope::ENVELOPE_SIZE),
        format!("Three lists follow at offset {},", membership::LISTS),
        format!("Then the disks, {} bytes each", membership::DISK_ENTRY),
        format!("Then the catalog runs, {} bytes each", membership::RUN_ENTRY),
        format!("entries of the list of disks, {} at most", membership::DISKS_MAX),
        format!("entries of the list of catalog runs, {} at most", membership::RUNS_MAX),
        format!("entries of the list of ancestors, {} at most", membership::ANCESTORS_MAX),
        format!(
            "The entries follow at offset {}, {} bytes each",
            activity::ENTRIES,
            activity::ENTRY_SIZE
        ),
        format!("entries, {ENTRIES_MAX} at most"),
        format!("The last {} bytes of each page", page::RESERVED),
        format!("A name is 1 to {} bytes", plinth_format::NAME_MAX),
        format!("A label is a name of at most {} bytes", label::LABEL_MAX),
        format!("begins with a prefix of {} bytes", label::PREFIX_SIZE),
        format!("| PREFIX_VERSION | 8 | 4 | {};", label::PREFIXED),
        format!("| RECORD_VERSION | 8 | 4 | {};", plinth_format::VERSION),
    ] {
        assert!(TEXT.contains(&phrase), "docs/format.md does not say: {phrase}");
    }
}

/// No field overlaps another of its table.
#[test]
fn fields_do_not_overlap() {
    for (name, mut fields) in documented() {
        fields.sort_by_key(|(_, range)| range.start);
        for pair in fields.windows(2) {
            assert!(pair[0].1.end <= pair[1].1.start, "{name}: {} and {}", pair[0].0, pair[1].0);
        }
    }
}
