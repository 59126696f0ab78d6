//! Bytes that an operator, or a disk, hands to `kfed`: for the fuzzer. Each function returns how
//! much it understood.

use super::{
    super::{amdu::DumpedDisk, raw_disk::RawDisk},
    before_image, find, merge, read, rebuild,
};
use plinth_format::{
    BLOCK_SIZE, DiskId, DiskNumber, GroupId, Layout, Redundancy,
    header::{DiskHeader, Status},
    layout::MIB,
};
use std::sync::Arc;

/// A header that texts are merged into.
pub(crate) fn header() -> DiskHeader {
    DiskHeader {
        group: GroupId([2; 16]),
        disk: DiskId([1; 16]),
        sequence: 4,
        created: 0,
        layout: Layout::new(64 * MIB, MIB).expect("large enough"),
        logical_sector: 512,
        physical_sector: 4096,
        number: DiskNumber(3),
        status: Status::Former,
        redundancy: Redundancy::Normal,
        quorum: false,
        middle_area: true,
        group_name: "A#B".to_owned(),
        name: "D".to_owned(),
        failure_group: "F".to_owned(),
        origin: None,
        label: None,
        has_prefix: true,
    }
}

/// A text for `kfed merge`.
///
/// # Panics
/// If the header that comes of it cannot be read: a bug.
pub(crate) fn text(bytes: &[u8]) -> usize {
    let Ok(fields) = merge::parse(bytes) else { return 0 };
    if let Ok(after) = merge::changed(&header(), &fields) {
        let read = DiskHeader::decode(&after.encode(0), 0).expect("it is written and read");
        assert_eq!(read, after, "written and read, it is something else");
    }
    fields.len()
}

/// A before-image.
///
/// # Panics
/// If a block in an accepted file cannot be decoded: a bug.
pub(crate) fn before_image(bytes: &[u8]) -> usize {
    before_image::BeforeImage::parse(bytes).map_or(0, |image| image.blocks())
}

/// A before-image that is accepted.
#[cfg(test)]
pub(crate) fn right_before_image() -> Vec<u8> {
    before_image::tests::text()
}

/// The content of a disk: its blocks are shown, its records searched, and its header is made again
/// from its own records.
pub(crate) fn disk(bytes: &[u8]) -> usize {
    let disk: Arc<DumpedDisk> = Arc::new(DumpedDisk::of_bytes(bytes));
    let disk = RawDisk { path: "/disk".to_owned(), disk };
    let mut out = String::new();
    for place in (0..disk.size()).step_by(BLOCK_SIZE) {
        read::block(&disk, place, &mut out).expect("every byte is there");
    }
    let found = find::find(&disk, 512, true).records;
    let _ = rebuild::rebuilt(&disk, &[], Some("D"));
    found.iter().filter(|record| record.envelope.is_some()).count()
}
