//! Other uses of a disk: what an operator must know before it is overwritten.
//!
//! Two checks. [`in_use`]: the disk is in use right now, as the kernel reports: mounted, swapped
//! to, held by LVM, MD or multipath, or the back of a loop device. [`of_file`]: or it carries the
//! signature of a file system, a volume manager or a partition table, from the table below. Nothing
//! is ever written. A disk with a Plinth header is ours, whatever older signatures are left on it.

use super::disk::Medium;
use plinth_engine::{sync::buffer::Buffer, world::Sectors};
use plinth_format::header::HEADER_MAGIC;
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
};

/// How many bytes of both ends are checked: the ZFS label with its uberblocks is the farthest
/// signature.
const HEAD: u64 = 256 * 1024;
const TAIL: u64 = 128 * 1024;

/// A signature at a fixed distance from the start, and where its owner's names are.
struct Mark {
    at: usize,
    bytes: &'static [u8],
    owner: &'static str,
    id: Option<Id>,
    /// Place and length of the label.
    label: Option<(usize, usize)>,
}

/// Where an id is, and its form.
#[derive(Clone, Copy)]
enum Id {
    /// 16 bytes.
    Uuid(usize),
    /// 16 bytes, of which the first eight are in Microsoft's order.
    Guid(usize),
    /// Text of a length, zero padded.
    Text(usize, usize),
    /// 4 bytes, little-endian.
    Number(usize),
}

const fn mark(at: usize, bytes: &'static [u8], owner: &'static str) -> Mark {
    Mark { at, bytes, owner, id: None, label: None }
}

impl Mark {
    const fn id(self, id: Id) -> Self {
        Self { id: Some(id), ..self }
    }

    const fn label(self, at: usize, length: usize) -> Self {
        Self { label: Some((at, length)), ..self }
    }
}

const MD: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();

const MARKS: &[Mark] = &[
    mark(32, b"ORCLDISK", "an Oracle ASM disk").label(40, 24),
    mark(0, b"XFSB", "an XFS file system").id(Id::Uuid(32)).label(108, 12),
    mark(0x10040, b"_BHRfS_M", "a Btrfs file system").id(Id::Uuid(0x10020)).label(0x1012b, 256),
    mark(0, b"LUKS\xba\xbe", "a LUKS encrypted volume").id(Id::Text(168, 40)),
    mark(0x4000, b"SKUL\xba\xbe", "a LUKS encrypted volume").id(Id::Text(0x4000 + 168, 40)),
    mark(0, &MD, "a member of an MD array").id(Id::Uuid(16)).label(32, 32),
    mark(4096, &MD, "a member of an MD array").id(Id::Uuid(4096 + 16)).label(4096 + 32, 32),
    mark(1024, &0xf2f5_2010_u32.to_le_bytes(), "an F2FS file system").id(Id::Uuid(1024 + 108)),
    mark(
        4096 + 24,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
        "a bcache device",
    )
    .id(Id::Uuid(4096 + 40)),
    mark(
        4096 + 24,
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
        "a bcachefs file system",
    )
    .id(Id::Uuid(4096 + 56))
    .label(4096 + 72, 32),
    mark(0, b"bluestore block device", "a Ceph BlueStore disk").id(Id::Text(23, 36)),
    mark(0x8001, b"CD001", "an ISO 9660 file system").label(0x8000 + 40, 32),
    mark(0, b"hsqs", "a SquashFS file system"),
    mark(0, b"QFI\xfb", "a QEMU disk image"),
    mark(3, b"NTFS    ", "an NTFS file system"),
    mark(3, b"EXFAT   ", "an exFAT file system").id(Id::Number(100)),
    mark(54, b"FAT1", "a FAT file system").id(Id::Number(39)).label(43, 11),
    mark(82, b"FAT32   ", "a FAT file system").id(Id::Number(67)).label(71, 11),
];

/// The present user of the disk, or the owner of its signature. May hang as long as the device
/// does.
pub(super) fn of_file(medium: Medium, file: &File, size: u64, sectors: Sectors) -> Option<String> {
    in_use(medium).or_else(|| read_and_recognise(file, size, sectors))
}

/// The owner of the signatures on a disk.
pub(super) fn read_and_recognise(file: &File, size: u64, sectors: Sectors) -> Option<String> {
    let read = |from: u64, to: u64| {
        let mut buffer = Buffer::zeroed((to - from) as usize);
        file.read_exact_at(&mut buffer, from).map(|()| buffer)
    };
    let tail = size.saturating_sub(TAIL);
    match (read(0, size.min(HEAD)), read(tail, size)) {
        (Ok(head), Ok(tail)) => recognise(&head, &tail, size, sectors),
        (Err(error), _) | (_, Err(error)) => Some(format!("unknown content: {error}")),
    }
}

/// Some bytes of a disk, from the byte `begin` on.
struct Part<'a> {
    bytes: &'a [u8],
    begin: u64,
}

impl Part<'_> {
    fn has(&self, at: usize, mark: &[u8]) -> bool {
        self.bytes.get(at..).is_some_and(|bytes| bytes.starts_with(mark))
    }

    /// A field of at most that length; what is not there is zero.
    fn field(&self, at: usize, length: usize) -> Vec<u8> {
        let bytes = self.bytes.get(at..).unwrap_or_default().iter().copied();
        bytes.chain(std::iter::repeat(0)).take(length).collect()
    }

    /// A text that ends with a zero or with the field, without the blanks behind it.
    fn text(&self, at: usize, length: usize) -> Option<String> {
        let field: Vec<u8> =
            self.field(at, length).into_iter().take_while(|byte| *byte != 0).collect();
        let text = String::from_utf8_lossy(&field).trim_end().to_owned();
        (!text.is_empty()).then_some(text)
    }

    fn id(&self, id: Id) -> Option<String> {
        let hexadecimal = |bytes: &[u8]| -> String {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
            parts.map(|part| digits[part].to_owned()).join("-")
        };
        let (bytes, text) = match id {
            Id::Uuid(at) => (self.field(at, 16), None),
            Id::Guid(at) => {
                let mut bytes = self.field(at, 16);
                bytes[..4].reverse();
                bytes[4..6].reverse();
                bytes[6..8].reverse();
                (bytes, None)
            }
            Id::Text(at, length) => (Vec::new(), self.text(at, length)),
            Id::Number(at) => {
                let mut bytes = self.field(at, 4);
                bytes.reverse();
                (Vec::new(), Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
            }
        };
        let uuid = bytes.iter().any(|byte| *byte != 0).then(|| hexadecimal(&bytes));
        // It may be any bytes: control characters are shown escaped.
        text.map(|text: String| text.escape_debug().to_string()).or(uuid)
    }

    /// The owner of the signature at `at`, with its label and id, if it has them.
    fn owner(
        &self,
        owner: &str,
        at: usize,
        id: Option<Id>,
        label: Option<(usize, usize)>,
    ) -> String {
        let label = label.and_then(|(at, length)| self.text(at, length));
        let label = label.map_or_else(String::new, |label| format!(" labelled {label:?}"));
        let id = id.and_then(|id| self.id(id)).map_or_else(String::new, |id| format!(" {id}"));
        format!("{owner}{id}{label} (signature at byte {})", self.begin + at as u64)
    }
}

/// The owner of the signatures in the first and last bytes of a disk.
fn recognise(head: &[u8], tail: &[u8], size: u64, sectors: Sectors) -> Option<String> {
    let head = Part { bytes: head, begin: 0 };
    if head.has(0, HEADER_MAGIC) {
        return None;
    }
    if let Some(mark) = MARKS.iter().find(|mark| head.has(mark.at, mark.bytes)) {
        return Some(head.owner(mark.owner, mark.at, mark.id, mark.label));
    }
    let tail = Part { bytes: tail, begin: size - tail.len() as u64 };
    extended(&head)
        .or_else(|| lvm(&head))
        .or_else(|| swap_space(&head))
        .or_else(|| zfs(&head))
        .or_else(|| gpt(&head))
        .or_else(|| at_the_end(&tail, size, sectors))
        .or_else(|| mbr(&head))
}

fn extended(head: &Part<'_>) -> Option<String> {
    const SUPERBLOCK: usize = 1024;
    let byte = |at: usize| head.field(SUPERBLOCK + at, 1)[0];
    let kind = match (byte(0x60) & 0x40 != 0, byte(0x5c) & 0x04 != 0) {
        (true, _) => "an ext4 file system",
        (false, true) => "an ext3 file system",
        (false, false) => "an ext2 file system",
    };
    let (id, label) = (Id::Uuid(SUPERBLOCK + 104), (SUPERBLOCK + 120, 16));
    let at = SUPERBLOCK + 56;
    head.has(at, &0xef53_u16.to_le_bytes()).then(|| head.owner(kind, at, Some(id), Some(label)))
}

fn lvm(head: &Part<'_>) -> Option<String> {
    let mut sectors = (0..4).map(|sector| sector * 512);
    let at = sectors.find(|at| head.has(*at, b"LABELONE") && head.has(at + 24, b"LVM2 001"))?;
    Some(head.owner("an LVM physical volume", at, Some(Id::Text(at + 32, 32)), None))
}

fn swap_space(head: &Part<'_>) -> Option<String> {
    let mut ends = [4096, 8192, 16384, 65536].into_iter().map(|page| page - 10);
    let at = ends.find(|at| head.has(*at, b"SWAPSPACE2") || head.has(*at, b"SWAP-SPACE"))?;
    Some(head.owner("swap space", at, Some(Id::Uuid(1036)), Some((1052, 16))))
}

fn zfs(head: &Part<'_>) -> Option<String> {
    let uberblock = 0x00ba_b10c_u64;
    let mut slots = (0..128).map(|slot| 0x20000 + slot * 1024);
    let at = slots.find(|at| {
        head.has(*at, &uberblock.to_le_bytes()) || head.has(*at, &uberblock.to_be_bytes())
    })?;
    Some(head.owner("a member of a ZFS pool", at, None, None))
}

fn gpt(head: &Part<'_>) -> Option<String> {
    let at = [512, 4096].into_iter().find(|at| head.has(*at, b"EFI PART"))?;
    Some(head.owner("a GPT partition table", at, Some(Id::Guid(at + 56)), None))
}

/// Signatures at the end: the MD superblocks 1.0 and 0.90, and the second partition table.
fn at_the_end(tail: &Part<'_>, size: u64, sectors: Sectors) -> Option<String> {
    let within = |place: Option<u64>| {
        place.and_then(|place| place.checked_sub(tail.begin)).map(|at| at as usize)
    };
    for (place, id) in [
        (size.checked_sub(8192).map(|at| at & !4095), Some(16)),
        // Version 0.90 has its id in parts.
        ((size & !65535).checked_sub(65536), None),
    ] {
        if let Some(at) = within(place).filter(|at| tail.has(*at, &MD)) {
            let id = id.map(|id| Id::Uuid(at + id));
            return Some(tail.owner("a member of an MD array", at, id, None));
        }
    }
    let at = within(size.checked_sub(u64::from(sectors.logical)))
        .filter(|at| tail.has(*at, b"EFI PART"))?;
    let owner = "a GPT partition table (its copy at the end)";
    Some(tail.owner(owner, at, Some(Id::Guid(at + 56)), None))
}

fn mbr(head: &Part<'_>) -> Option<String> {
    let byte = |at: usize| head.field(at, 1)[0];
    let entry = |number: usize| 446 + 16 * number;
    let boot_flags_valid = (0..4).all(|number| byte(entry(number)) & 0x7f == 0);
    let some_partition = (0..4).any(|number| byte(entry(number) + 4) != 0);
    let is_table = head.has(510, &[0x55, 0xaa]) && boot_flags_valid && some_partition;
    is_table.then(|| head.owner("an MBR partition table", 510, Some(Id::Number(440)), None))
}

/// The present user of the disk, as far as the kernel reports it.
pub(super) fn in_use(medium: Medium) -> Option<String> {
    mounted(medium).or_else(|| swapped(medium)).or_else(|| held(medium)).or_else(|| looped(medium))
}

fn mounted(medium: Medium) -> Option<String> {
    let Medium::Block { major, minor } = medium else { return None };
    let number = format!("{major}:{minor}");
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    table.lines().find_map(|line| {
        let mut words = line.split(' ').skip(2);
        (words.next()? == number).then(|| format!("mounted on {}", words.nth(1).unwrap_or("?")))
    })
}

fn swapped(medium: Medium) -> Option<String> {
    let table = fs::read_to_string("/proc/swaps").ok()?;
    let is_it = |line: &str| is_at(medium, line.split_whitespace().next().unwrap_or(""));
    table.lines().skip(1).any(is_it).then(|| "swap space in use".to_owned())
}

fn held(medium: Medium) -> Option<String> {
    let holders = fs::read_dir(format!("{}/holders", medium.sysfs()?)).ok()?;
    let mut names: Vec<String> =
        holders.flatten().map(|holder| holder.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    (!names.is_empty()).then(|| format!("held by {}", names.join(", ")))
}

fn looped(medium: Medium) -> Option<String> {
    let Medium::File { .. } = medium else { return None };
    let mut loops: Vec<_> = fs::read_dir("/sys/block").ok()?.flatten().collect();
    loops.sort_by_key(fs::DirEntry::file_name);
    loops.iter().find_map(|device| {
        let behind = fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
        is_at(medium, behind.trim_end())
            .then(|| format!("behind /dev/{}", device.file_name().to_string_lossy()))
    })
}

fn is_at(medium: Medium, path: &str) -> bool {
    fs::metadata(path).is_ok_and(|metadata| Medium::of(&metadata) == Some(medium))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTORS: Sectors = Sectors { logical: 512, physical: 512 };

    /// The reported use of a disk of 1 MiB with `mark` at `at`.
    fn with_mark(at: usize, mark: &[u8]) -> Option<String> {
        let mut disk = vec![0; 1 << 20];
        disk[at..at + mark.len()].copy_from_slice(mark);
        recognise(
            &disk[..HEAD as usize],
            &disk[disk.len() - TAIL as usize..],
            disk.len() as u64,
            SECTORS,
        )
    }

    #[test]
    fn every_signature_is_recognised_and_zeros_have_none() {
        assert_eq!(with_mark(0, b""), None);
        let said = |owner: &str, at: usize| format!("{owner} (signature at byte {at})");
        for mark in MARKS {
            let seen = with_mark(mark.at, mark.bytes).expect("it is recognised");
            assert!(seen.starts_with(mark.owner), "{seen}");
            assert!(seen.ends_with(&said("", mark.at)), "{seen}");
        }
        let end = (1 << 20) - 512;
        assert_eq!(
            with_mark(end, b"EFI PART"),
            Some(said("a GPT partition table (its copy at the end)", end))
        );
        for at in [(1 << 20) - 8192, (1 << 20) - 65536] {
            assert_eq!(with_mark(at, &MD), Some(said("a member of an MD array", at)));
        }
    }

    /// The names in a signature's neighbourhood are shown as other programs show them, and no
    /// control character reaches the terminal.
    #[test]
    fn a_signature_names_its_owner() {
        let mut superblock = [0; 160];
        superblock[56..58].copy_from_slice(&0xef53_u16.to_le_bytes());
        superblock[104..120].copy_from_slice(&std::array::from_fn::<u8, 16, _>(|at| at as u8));
        superblock[120..126].copy_from_slice(b"a\x1b[2J ");
        let seen = with_mark(1024, &superblock).expect("it is recognised");
        assert_eq!(
            seen,
            "an ext2 file system 00010203-0405-0607-0809-0a0b0c0d0e0f labelled \"a\\u{1b}[2J\" \
             (signature at byte 1080)"
        );
        let mut table = [0; 72];
        table[..8].copy_from_slice(b"EFI PART");
        table[56..72].copy_from_slice(&std::array::from_fn::<u8, 16, _>(|at| at as u8));
        let seen = with_mark(512, &table).expect("it is recognised");
        assert!(seen.contains(" 03020100-0504-0706-0809-0a0b0c0d0e0f "), "{seen}");
    }

    /// A partition table may or may not start with boot code; a disk of noise that happens to end
    /// in 55 AA is not one.
    #[test]
    fn a_partition_table_has_partitions() {
        let mut sector = [0; 512];
        sector[510..].copy_from_slice(&[0x55, 0xaa]);
        assert_eq!(with_mark(0, &sector), None);
        sector[446 + 4] = 0x83;
        sector[440..444].copy_from_slice(&0x1234_abcd_u32.to_le_bytes());
        let seen = "an MBR partition table 1234abcd (signature at byte 510)";
        assert_eq!(with_mark(0, &sector).as_deref(), Some(seen));
    }

    #[test]
    fn a_plinth_header_hides_what_was_there_before() {
        let mut disk = vec![0; HEAD as usize];
        disk[0x10040..0x10048].copy_from_slice(b"_BHRfS_M");
        disk[..8].copy_from_slice(HEADER_MAGIC);
        assert_eq!(recognise(&disk, &[], HEAD, SECTORS), None);
    }

    #[test]
    fn any_short_disk_is_survived() {
        for size in [0, 1, 511, 512, 4096, 10000, 65536] {
            assert_eq!(
                recognise(&vec![0; size], &vec![0; size], size as u64, SECTORS),
                None,
                "{size} bytes"
            );
        }
    }
}
