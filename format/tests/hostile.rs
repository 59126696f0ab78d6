//! Decoders accept any bytes of a disk: they return an error in bounded time and memory, and never
//! panic.
//!
//! The bytes are of four kinds, from harmless to malicious:
//!
//!   1. the encoder's output, which must decode to the same record;
//!   2. the same with one bit flipped, or truncated: always refused;
//!   3. the same with fields overwritten and a correct checksum, as an attacker who knows the
//!      format would write it. Refused, or decoded to a record that survives its own round trip;
//!   4. random bytes in a valid envelope.
//!
//! An allocator that counts shows that no length or count field is trusted before it is checked.
#![allow(unsafe_code)]

use plinth_format::{
    Au, BLOCK_SIZE, DiskId, DiskNumber, FormatError, GroupId, Label, Layout, MembershipId,
    Redundancy,
    activity::{self, ActivityLog, Region},
    checksum::crc32c,
    envelope::{self, Envelope},
    header::{self, DiskHeader, Status},
    label::{self, LabelRecord},
    layout::{ACTIVITY_SLOT, MEMBERSHIP_SLOT, MIB},
    membership::{self, CatalogFile, CatalogRun, DiskState, MemberDisk, Membership},
    page,
    stamp::{self, Stamp},
};
use std::{
    alloc::{GlobalAlloc, System},
    cell::Cell,
};

/// No single decoder may ask for more than this at once: eight times the largest slot.
const ALLOCATION_MAX: usize = 8 * MEMBERSHIP_SLOT;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator unchanged, and counts in a `Cell`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(layout.size())));
        // SAFETY: the caller keeps to `GlobalAlloc::alloc`'s terms.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: std::alloc::Layout) {
        // SAFETY: `pointer` came from `alloc` above, so from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Runs `decode`; fails if it allocated more memory than the bytes justify.
fn frugally<T>(what: &str, decode: impl FnOnce() -> T) -> T {
    LARGEST.set(0);
    let result = decode();
    assert!(LARGEST.get() <= ALLOCATION_MAX, "{what} allocated {} bytes at once", LARGEST.get());
    result
}

/// SplitMix64: small, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("below a usize")
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }

    fn id(&mut self) -> [u8; 16] {
        let mut id = [0; 16];
        self.fill(&mut id);
        id
    }

    /// A number that a counter can have reached.
    fn counted(&mut self) -> u64 {
        self.next() / 2
    }

    /// A number that breaks a careless decoder more often than a random one.
    fn awkward(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => 1,
            2 => u64::MAX,
            3 => u64::from(u32::MAX),
            4 => i64::MAX.unsigned_abs(),
            5 => 1 << self.below(64),
            6 => (1 << self.below(63)) - 1,
            _ => self.next(),
        }
    }
}

fn envelope(random: &mut Random, place: u64) -> Envelope {
    Envelope { group: GroupId(random.id()), disk: DiskId(random.id()), place }
}

fn some_header(random: &mut Random) -> DiskHeader {
    let au_size = MIB << random.below(7);
    let size = Layout::smallest(au_size) + random.next() % (1 << 40);
    DiskHeader {
        group: GroupId(random.id()),
        disk: DiskId(random.id()),
        sequence: random.counted(),
        created: i64::from_le_bytes(random.next().to_le_bytes()),
        layout: Layout::new(size, au_size).expect("large enough"),
        logical_sector: if random.below(2) == 0 { 512 } else { 4096 },
        physical_sector: 4096,
        number: DiskNumber(u16::try_from(random.below(1024)).expect("small")),
        status: if random.below(2) == 0 { Status::Member } else { Status::Former },
        redundancy: Redundancy::High,
        quorum: random.below(2) == 0,
        middle_area: random.below(2) == 0,
        group_name: "DATA".into(),
        name: "DATA_0007".into(),
        failure_group: "SHELF$2".into(),
        origin: (random.below(2) == 0).then(|| (GroupId(random.id()), DiskId(random.id()))),
        label: (random.below(2) == 0).then(some_label),
        has_prefix: true,
    }
}

fn some_label() -> Label {
    Label::new("SHELF2_DISK07").expect("a label")
}

fn some_membership(random: &mut Random, disks: u16, ancestors: usize) -> Membership {
    let au_size = 4 * MIB;
    let disks: Vec<_> = (0..disks)
        .map(|number| MemberDisk {
            id: DiskId(random.id()),
            number: DiskNumber(number),
            state: [DiskState::Online, DiskState::Offline, DiskState::Syncing][random.below(3)],
            votes: random.below(2) == 0,
            quorum: random.below(8) == 0,
            copy_whole: random.below(2) == 0,
            by_operator: random.below(2) == 0,
            absent: random.below(2) == 0,
            leaving: random.below(2) == 0,
            size: 1000 * au_size,
            target: [None, Some(900 * au_size)][random.below(2)],
            stamp: random.counted(),
            since: 5,
            joined: -5,
            name: format!("DATA_{number:04}"),
            failure_group: format!("FG{}", number % 3),
        })
        .collect();
    let catalog = (0..u32::from(disks.len() as u16).min(6))
        .map(|index| CatalogRun {
            file: if index % 2 == 0 { CatalogFile::Database } else { CatalogFile::Wal },
            mirror: (index / 2) as u8,
            at: 0,
            count: 4,
            disk: DiskNumber(index as u16),
            first: Au(10),
        })
        .collect();
    Membership {
        generation: random.counted(),
        id: MembershipId(random.id()),
        created: 1,
        au_size,
        stamp: 77,
        redundancy: Redundancy::Normal,
        wanted: [Redundancy::Normal, Redundancy::High][disks.len() % 2],
        mounted: true,
        boot: random.id(),
        mount_wait: [None, Some(0), Some(10)][random.below(3)],
        group_name: "DATA".into(),
        ancestors: (0..ancestors).map(|_| MembershipId(random.id())).collect(),
        disks,
        catalog,
    }
}

fn some_log(random: &mut Random, regions: usize) -> ActivityLog {
    ActivityLog {
        sequence: random.counted(),
        membership: MembershipId(random.id()),
        boot: random.id(),
        regions: (0..regions)
            .map(|_| Region { first: random.next(), count: random.next() as u32 })
            .collect(),
    }
}

/// Every kind of record: its name, its encoded bytes, and its decoder, whose result is the record
/// encoded again, so that it can be compared.
type Record = (&'static str, Vec<u8>, fn(&[u8], u64) -> Result<Vec<u8>, FormatError>);

const PLACE: u64 = 1 << 20;

fn records(random: &mut Random) -> Vec<Record> {
    fn header(bytes: &[u8], place: u64) -> Result<Vec<u8>, FormatError> {
        DiskHeader::decode(bytes, place).map(|header| header.encode(place).to_vec())
    }
    fn label(bytes: &[u8], place: u64) -> Result<Vec<u8>, FormatError> {
        LabelRecord::decode(bytes, place).map(|record| record.encode(place).to_vec())
    }
    fn stamp(bytes: &[u8], place: u64) -> Result<Vec<u8>, FormatError> {
        Stamp::decode(bytes, place).map(|(envelope, stamp)| stamp.encode(envelope).to_vec())
    }
    fn membership(bytes: &[u8], place: u64) -> Result<Vec<u8>, FormatError> {
        Membership::decode(bytes, place).map(|(envelope, membership)| membership.encode(envelope))
    }
    fn activity(bytes: &[u8], place: u64) -> Result<Vec<u8>, FormatError> {
        ActivityLog::decode(bytes, place).map(|(envelope, log)| log.encode(envelope))
    }
    let here = envelope(random, PLACE);
    let stamp_of =
        Stamp { counter: 8, written: -1, membership: MembershipId(random.id()), clean: true };
    let label_of = LabelRecord { label: some_label(), when: -1, by: "root".to_owned() };
    vec![
        ("header", some_header(random).encode(PLACE).to_vec(), header),
        ("label", label_of.encode(PLACE).to_vec(), label),
        ("stamp", stamp_of.encode(here).to_vec(), stamp),
        ("membership of none", some_membership(random, 0, 0).encode(here), membership),
        ("membership", some_membership(random, 7, 5).encode(here), membership),
        (
            "large membership",
            some_membership(random, 1024, membership::ANCESTORS_MAX).encode(here),
            membership,
        ),
        ("empty activity log", some_log(random, 0).encode(here), activity),
        ("activity log", some_log(random, 20).encode(here), activity),
        ("full activity log", some_log(random, activity::ENTRIES_MAX).encode(here), activity),
    ]
}

/// Where the record begins in its block: behind the prefix, if there is one.
fn begin(block: &[u8]) -> usize {
    let has_prefix = block[label::PREFIX_MAGIC] == *header::HEADER_MAGIC;
    if has_prefix { label::PREFIX_SIZE } else { 0 }
}

fn length(record: &[u8]) -> usize {
    let field = &record[envelope::LENGTH];
    usize::try_from(u32::from_le_bytes(field.try_into().expect("4 bytes"))).expect("64-bit")
}

/// Corrects the checksum of a record of `length` bytes.
fn fix(record: &mut [u8], length: usize) {
    record[envelope::LENGTH].copy_from_slice(&u32::try_from(length).expect("short").to_le_bytes());
    record[envelope::CHECKSUM].fill(0);
    let sum = crc32c(&record[..length]);
    record[envelope::CHECKSUM].copy_from_slice(&sum.to_le_bytes());
}

/// A record is read back as it was written, and fits its slot.
#[test]
fn what_was_written_reads_back() {
    let mut random = Random(1);
    for round in 0..20 {
        for (name, bytes, read) in records(&mut random) {
            assert_eq!(read(&bytes, PLACE).as_ref(), Ok(&bytes), "{name}, round {round}");
            let slot = match name {
                name if name.contains("membership") => MEMBERSHIP_SLOT,
                name if name.contains("activity") => ACTIVITY_SLOT,
                _ => BLOCK_SIZE,
            };
            assert!(
                bytes.len() <= slot && bytes.len().is_multiple_of(BLOCK_SIZE),
                "{name}: {} bytes",
                bytes.len()
            );
        }
    }
}

/// The fields of a header are decoded to the right places, not only to the same bytes.
#[test]
fn a_header_keeps_its_fields() {
    let mut random = Random(2);
    for _ in 0..100 {
        let header = some_header(&mut random);
        for place in header.layout.header_places() {
            assert_eq!(DiskHeader::decode(&header.encode(place), place), Ok(header.clone()));
        }
    }
}

/// One flipped bit in a record is always noticed, and one after it never matters.
#[test]
fn every_turned_bit_is_noticed() {
    let mut random = Random(3);
    for (name, bytes, read) in records(&mut random) {
        let length = begin(&bytes) + length(&bytes[begin(&bytes)..]);
        let mut turned = bytes.clone();
        // All bits of the first KiB, then samples: the CRC treats them alike.
        let bits = (0..length.min(1024) * 8)
            .chain((0..200).map(|_| random.below(length * 8)).collect::<Vec<_>>());
        for bit in bits {
            turned[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&turned, PLACE).is_err(), "{name}: bit {bit} turned");
            turned[bit / 8] ^= 1 << (bit % 8);
        }
        for byte in &mut turned[length..] {
            *byte = 0xee;
        }
        assert_eq!(
            read(&turned, PLACE),
            Ok(bytes),
            "{name}: what follows the record does not count"
        );
    }
}

/// A record truncated anywhere is refused.
#[test]
fn every_cut_is_noticed() {
    let mut random = Random(4);
    for (name, bytes, read) in records(&mut random) {
        let begin = begin(&bytes);
        let length = begin + length(&bytes[begin..]);
        for end in (0..length).filter(|end| *end < 600 || end % 61 == 0) {
            assert!(read(&bytes[..end], PLACE).is_err(), "{name} of {length} bytes cut to {end}");
            let mut shorter = bytes[..end].to_vec();
            if end >= begin + envelope::ENVELOPE_SIZE {
                fix(&mut shorter[begin..], end - begin);
                let refused = read(&shorter, PLACE).is_err();
                assert!(refused, "{name} of {length} bytes that says {end}");
            }
        }
    }
}

/// A good record at a wrong place, from another disk or another group is distinguished from the
/// right one.
#[test]
fn a_record_knows_its_place() {
    let mut random = Random(5);
    for (name, bytes, read) in records(&mut random) {
        for place in [0, PLACE + 4096, PLACE - 1, u64::MAX] {
            let error = read(&bytes, place).expect_err(name);
            assert_eq!(error, FormatError::Place { found: PLACE, expected: place }, "{name}");
        }
    }
    let here = envelope(&mut random, PLACE);
    assert_eq!(here.expect(here.group, here.disk), Ok(()));
    let other = envelope(&mut random, PLACE);
    assert!(matches!(here.expect(other.group, here.disk), Err(FormatError::Group { .. })));
    assert!(matches!(here.expect(here.group, other.disk), Err(FormatError::Disk { .. })));
}

/// One kind of record is never taken for another.
#[test]
fn a_record_knows_its_kind() {
    let mut random = Random(6);
    let records = records(&mut random);
    for (name, bytes, _) in &records {
        for (other, other_bytes, read) in &records {
            let magic = |block: &[u8]| block[begin(block)..][envelope::MAGIC].to_vec();
            if magic(bytes) != magic(other_bytes) {
                assert!(
                    matches!(read(bytes, PLACE), Err(FormatError::Magic { .. })),
                    "{name} read as {other}"
                );
            }
        }
    }
}

/// A record of a later version is refused as such, so that the operator looks for a newer program.
#[test]
fn a_future_version_says_so() {
    let mut random = Random(7);
    for (name, mut bytes, read) in records(&mut random) {
        for version in [0, plinth_format::VERSION + 1, u32::MAX] {
            let begin = begin(&bytes);
            let record = &mut bytes[begin..];
            record[envelope::RECORD_VERSION].copy_from_slice(&version.to_le_bytes());
            let length = length(record);
            fix(record, length);
            let refusal = FormatError::Version { found: version, known: plinth_format::VERSION };
            assert_eq!(read(&bytes, PLACE), Err(refusal), "{name}");
        }
    }
}

/// A block whose prefix is of a later version is refused as such.
#[test]
fn a_future_prefix_says_so() {
    let mut random = Random(13);
    let prefixed = records(&mut random).into_iter().filter(|(_, bytes, _)| begin(bytes) > 0);
    for (name, mut bytes, read) in prefixed {
        for found in [label::PREFIXED + 1, u32::MAX] {
            bytes[label::PREFIX_VERSION].copy_from_slice(&found.to_le_bytes());
            let refusal = FormatError::Version { found, known: label::PREFIXED };
            assert_eq!(read(&bytes, PLACE), Err(refusal), "{name}");
        }
    }
}

/// Headers of version 1 are read: without a prefix, with or without an origin, never with a label.
#[test]
fn a_header_of_version_1_is_read() {
    let mut random = Random(14);
    for _ in 0..50 {
        let header = DiskHeader { label: None, has_prefix: false, ..some_header(&mut random) };
        let length = if header.origin.is_some() { 248 } else { 216 };
        let mut block = header.encode(PLACE)[label::PREFIX_SIZE..].to_vec();
        fix(&mut block, length);
        assert_eq!(DiskHeader::decode(&block, PLACE), Ok(header));
    }
}

/// A label in the prefix that is not the record's makes the block a damaged one.
#[test]
fn a_prefix_agrees_with_its_record() {
    let mut random = Random(15);
    let label_of = |label: &str| Label::new(label);
    let header = DiskHeader { label: label_of("ONE"), ..some_header(&mut random) };
    let other = DiskHeader { label: label_of("TWO"), ..header.clone() };
    let mut block = header.encode(PLACE);
    block[..label::PREFIX_SIZE].copy_from_slice(&other.encode(PLACE)[..label::PREFIX_SIZE]);
    assert_eq!(DiskHeader::decode(&block, PLACE), Err(FormatError::Prefix));
}

/// Fields are overwritten and the checksum is corrected. The record is refused, or decoded to one
/// that can be encoded and decoded again.
#[test]
fn records_with_mended_checksums_are_refused_or_read() {
    let mut random = Random(8);
    let mut accepted = 0;
    for round in 0..60 {
        for (name, bytes, read) in records(&mut random) {
            for _ in 0..20 {
                let mut mended = bytes.clone();
                let record = &mut mended[begin(&bytes)..];
                let length = length(record);
                for _ in 0..=random.below(4) {
                    // Fields of 1, 2, 4 and 8 bytes, mostly near the front, where the counts are.
                    let width = 1 << random.below(4);
                    let front = if random.below(3) == 0 { length } else { length.min(240) };
                    if front > envelope::ENVELOPE_SIZE + width {
                        let at = envelope::ENVELOPE_SIZE
                            + random.below(front - envelope::ENVELOPE_SIZE - width);
                        let at = at / width * width;
                        record[at..at + width]
                            .copy_from_slice(&random.awkward().to_le_bytes()[..width]);
                    }
                }
                fix(record, length);
                let answer = frugally(name, || read(&mended, PLACE));
                if let Ok(again) = answer {
                    accepted += 1;
                    assert_eq!(read(&again, PLACE).as_ref(), Ok(&again), "{name}, round {round}");
                }
            }
        }
    }
    assert!(accepted > 0, "every record was refused before its fields were looked at");
}

/// Random bytes in a valid envelope.
#[test]
fn noise_in_an_envelope_ends_in_an_answer() {
    let mut random = Random(9);
    for (name, bytes, read) in records(&mut random) {
        for _ in 0..200 {
            let mut noise = vec![0; bytes.len().max(BLOCK_SIZE)];
            random.fill(&mut noise);
            assert!(frugally(name, || read(&noise, PLACE)).is_err());
            let front = begin(&bytes) + envelope::ENVELOPE_SIZE;
            noise[..front].copy_from_slice(&bytes[..front]);
            let length = envelope::ENVELOPE_SIZE + random.below(noise.len() - front + 1);
            fix(&mut noise[begin(&bytes)..], length);
            let _ = frugally(name, || read(&noise, PLACE));
        }
    }
}

/// The counts of a membership are checked before anything is allocated for them.
#[test]
fn counts_are_not_believed() {
    let mut random = Random(10);
    let here = envelope(&mut random, PLACE);
    let bytes = some_membership(&mut random, 3, 3).encode(here);
    let length = length(&bytes);
    for field in [membership::DISK_COUNT, membership::RUN_COUNT, membership::ANCESTOR_COUNT] {
        for count in [0, 1, 2, 4, 255, 1025, 4097, u32::MAX / 128, u32::MAX] {
            let mut mended = bytes.clone();
            mended[field.clone()].copy_from_slice(&count.to_le_bytes());
            fix(&mut mended, length);
            if mended != bytes {
                assert!(
                    frugally("membership", || Membership::decode(&mended, PLACE)).is_err(),
                    "{count}"
                );
            }
        }
    }
    let bytes = some_log(&mut random, 3).encode(here);
    for count in [0, 2, 4, u32::try_from(activity::ENTRIES_MAX).expect("small") + 1, u32::MAX] {
        let mut mended = bytes.clone();
        mended[activity::COUNT].copy_from_slice(&count.to_le_bytes());
        fix(&mut mended, activity::ENTRIES + 3 * activity::ENTRY_SIZE);
        assert!(
            frugally("activity log", || ActivityLog::decode(&mended, PLACE)).is_err(),
            "{count}"
        );
    }
}

/// A counter value that counting cannot have reached is refused: counting on would overflow.
#[test]
fn counters_have_room_to_count() {
    let mut random = Random(12);
    let here = envelope(&mut random, PLACE);
    type Decode = fn(&[u8], u64) -> Option<FormatError>;
    let fields: [(&str, Decode, _, _); 6] = {
        let header = |bytes: &[u8], place| DiskHeader::decode(bytes, place).err();
        let stamp = |bytes: &[u8], place| Stamp::decode(bytes, place).err();
        let membership = |bytes: &[u8], place| Membership::decode(bytes, place).err();
        let log = |bytes: &[u8], place| ActivityLog::decode(bytes, place).err();
        let member = some_membership(&mut random, 1, 0).encode(here);
        let now = Stamp { counter: 1, written: 1, membership: MembershipId([9; 16]), clean: true };
        let of_disk = membership::LISTS + membership::D_STAMP.start
            ..membership::LISTS + membership::D_STAMP.end;
        [
            ("header", header, some_header(&mut random).encode(PLACE).to_vec(), header::SEQUENCE),
            ("stamp", stamp, now.encode(here).to_vec(), stamp::COUNTER),
            ("log", log, some_log(&mut random, 2).encode(here), activity::SEQUENCE),
            ("generation", membership, member.clone(), membership::GENERATION),
            ("its stamp", membership, member.clone(), membership::STAMP_COUNTER),
            ("a disk's stamp", membership, member, of_disk),
        ]
    };
    for (name, decode, mut bytes, field) in fields {
        let begin = begin(&bytes);
        let record = begin + field.start..begin + field.end;
        let length = length(&bytes[begin..]);
        for (counter, is_right) in
            [(0, true), (u64::MAX / 2, true), (u64::MAX / 2 + 1, false), (u64::MAX, false)]
        {
            bytes[record.clone()].copy_from_slice(&u64::to_le_bytes(counter));
            fix(&mut bytes[begin..], length);
            match decode(&bytes, PLACE) {
                None => assert!(is_right, "{name} {counter}"),
                Some(FormatError::Field { value, .. }) => {
                    assert!(!is_right && value == counter, "{name} {counter}")
                }
                Some(other) => panic!("{name} {counter}: {other}"),
            }
        }
    }
}

/// A header or membership that claims the largest possible disk is judged at once: no code loops
/// over its AUs one by one, which would take hours here.
#[test]
fn a_vast_disk_is_judged_at_once() {
    let mut random = Random(11);
    let bytes = DiskHeader { origin: None, ..some_header(&mut random) }.encode(PLACE);
    for size in [u64::MAX, u64::MAX - 4095, u64::from(u32::MAX) * MIB, 1 << 52] {
        let mut mended = bytes.to_vec();
        let record = &mut mended[label::PREFIX_SIZE..];
        record[header::SIZE].copy_from_slice(&size.to_le_bytes());
        record[header::AU_SIZE].copy_from_slice(&MIB.to_le_bytes());
        fix(record, header::HEADER_SIZE);
        let _ = DiskHeader::decode(&mended, PLACE);
    }
    let mut vast = some_membership(&mut random, 6, 0);
    vast.au_size = MIB;
    for disk in &mut vast.disks {
        disk.size = u64::from(u32::MAX) * MIB;
    }
    let run = CatalogRun { count: 1 << 29, first: Au(1 << 30), ..vast.catalog[0] };
    vast.catalog = vec![run; membership::RUNS_MAX];
    let here = envelope(&mut random, PLACE);
    let _ = Membership::decode(&vast.encode(here), PLACE);
}

/// A catalog page is valid only if it is whole, sealed, and has its own number.
#[test]
fn a_page_knows_its_number() {
    let mut random = Random(12);
    let mut bytes = vec![0; page::PAGE_SIZE];
    random.fill(&mut bytes);
    assert!(!page::is_good(&bytes, 1));
    page::seal(&mut bytes, 7, 99);
    assert_eq!(page::written(&bytes, 7), Some(99));
    assert!(page::is_good(&bytes, 7));
    assert!(!page::is_good(&bytes, 8));
    assert!(!page::is_good(&bytes[..page::PAGE_SIZE - 1], 7));
    assert!(!page::is_good(&[], 7));
    assert!(!page::is_good(&vec![0; page::PAGE_SIZE], 0));
    for bit in (0..page::PAGE_SIZE * 8).step_by(7) {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(!page::is_good(&bytes, 7), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

/// Decoding a stamp uses no more than its block, whatever length it claims.
#[test]
fn a_stamp_is_one_block() {
    let mut random = Random(13);
    let here = envelope(&mut random, PLACE);
    let stamp = Stamp {
        counter: u64::MAX / 2,
        written: i64::MIN,
        membership: MembershipId([9; 16]),
        clean: false,
    };
    let mut block = stamp.encode(here).to_vec();
    assert_eq!(Stamp::decode(&block, PLACE), Ok((here, stamp)));
    fix(&mut block, stamp::STAMP_SIZE + 1);
    assert!(matches!(Stamp::decode(&block, PLACE), Err(FormatError::Length { .. })));
}
