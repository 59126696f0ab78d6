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

/// Signatures at a fixed distance from the start.
const MARKS: &[(usize, &[u8], &str)] = &[
    (32, b"ORCLDISK", "an Oracle ASM disk"),
    (0, b"XFSB", "an XFS file system"),
    (0x10040, b"_BHRfS_M", "a Btrfs file system"),
    (0, b"LUKS\xba\xbe", "a LUKS encrypted volume"),
    (0x4000, b"SKUL\xba\xbe", "a LUKS encrypted volume"),
    (0, &0xa92b_4efc_u32.to_le_bytes(), "a member of an MD array"),
    (4096, &0xa92b_4efc_u32.to_le_bytes(), "a member of an MD array"),
    (1024, &0xf2f5_2010_u32.to_le_bytes(), "an F2FS file system"),
    (
        4096 + 24,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
        "a bcache device",
    ),
    (
        4096 + 24,
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
        "a bcachefs file system",
    ),
    (0, b"bluestore block device", "a Ceph BlueStore disk"),
    (0x8001, b"CD001", "an ISO 9660 file system"),
    (0, b"hsqs", "a SquashFS file system"),
    (0, b"QFI\xfb", "a QEMU disk image"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (54, b"FAT1", "a FAT file system"),
    (82, b"FAT32   ", "a FAT file system"),
];

/// The present user of the disk, or the owner of its signature. May hang as long as the device
/// does.
pub(super) fn of_file(medium: Medium, file: &File, size: u64, sectors: Sectors) -> Option<String> {
    in_use(medium).or_else(|| read_and_recognise(file, size, sectors))
}

fn read_and_recognise(file: &File, size: u64, sectors: Sectors) -> Option<String> {
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

/// The owner of the signatures in the first and last bytes of a disk.
fn recognise(head: &[u8], tail: &[u8], size: u64, sectors: Sectors) -> Option<String> {
    let has = |at: usize, mark: &[u8]| head.get(at..).is_some_and(|bytes| bytes.starts_with(mark));
    if has(0, HEADER_MAGIC) {
        return None;
    }
    if let Some((_, _, name)) = MARKS.iter().find(|(at, mark, _)| has(*at, mark)) {
        return Some((*name).to_owned());
    }
    let byte = |at: usize| head.get(at).copied().unwrap_or(0);
    if has(1024 + 56, &0xef53_u16.to_le_bytes()) {
        let label: Vec<u8> =
            (1024 + 120..1024 + 136).map(byte).take_while(|byte| *byte != 0).collect();
        let kind = match (byte(1024 + 0x60) & 0x40 != 0, byte(1024 + 0x5c) & 0x04 != 0) {
            (true, _) => "ext4",
            (false, true) => "ext3",
            (false, false) => "ext2",
        };
        let label = match String::from_utf8_lossy(&label) {
            label if label.is_empty() => String::new(),
            label => format!(" labelled {:?}", &*label),
        };
        return Some(format!("an {kind} file system{label}"));
    }
    if (0..4).any(|sector| has(sector * 512, b"LABELONE") && has(sector * 512 + 24, b"LVM2 001")) {
        return Some("an LVM physical volume".into());
    }
    if [4096, 8192, 16384, 65536]
        .iter()
        .any(|page| has(page - 10, b"SWAPSPACE2") || has(page - 10, b"SWAP-SPACE"))
    {
        return Some("swap space".into());
    }
    let uberblock = 0x00ba_b10c_u64;
    if (0..128)
        .map(|slot| 0x20000 + slot * 1024)
        .any(|at| has(at, &uberblock.to_le_bytes()) || has(at, &uberblock.to_be_bytes()))
    {
        return Some("a member of a ZFS pool".into());
    }
    let sector = sectors.logical as usize;
    if has(512, b"EFI PART") || has(4096, b"EFI PART") {
        return Some("a GPT partition table".into());
    }
    // Signatures at the end: the second partition table, and the MD superblocks 1.0 and 0.90.
    let at_end = |place: Option<u64>, mark: &[u8]| {
        let place = place.and_then(|place| place.checked_sub(size - tail.len() as u64));
        place.and_then(|at| tail.get(at as usize..)).is_some_and(|bytes| bytes.starts_with(mark))
    };
    let md = 0xa92b_4efc_u32.to_le_bytes();
    if at_end(size.checked_sub(8192).map(|at| at & !4095), &md)
        || at_end((size & !65535).checked_sub(65536), &md)
    {
        return Some("a member of an MD array".into());
    }
    if at_end(size.checked_sub(sector as u64), b"EFI PART") {
        return Some("a GPT partition table (its copy at the end)".into());
    }
    let entry = |number: usize| 446 + 16 * number;
    let boot_flags_valid = (0..4).all(|number| byte(entry(number)) & 0x7f == 0);
    let some_partition = (0..4).any(|number| byte(entry(number) + 4) != 0);
    if has(510, &[0x55, 0xaa]) && boot_flags_valid && some_partition {
        return Some("an MBR partition table".into());
    }
    None
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
        for (at, mark, name) in MARKS {
            assert_eq!(with_mark(*at, mark).as_deref(), Some(*name));
        }
        assert_eq!(
            with_mark((1 << 20) - 512, b"EFI PART").as_deref(),
            Some("a GPT partition table (its copy at the end)")
        );
        let md = 0xa92b_4efc_u32.to_le_bytes();
        for at in [(1 << 20) - 8192, (1 << 20) - 65536] {
            assert_eq!(with_mark(at, &md).as_deref(), Some("a member of an MD array"));
        }
    }

    /// A partition table may or may not start with boot code; a disk of noise that happens to end
    /// in 55 AA is not one.
    #[test]
    fn a_partition_table_has_partitions() {
        let mut sector = [0; 512];
        sector[510..].copy_from_slice(&[0x55, 0xaa]);
        assert_eq!(with_mark(0, &sector), None);
        sector[446 + 4] = 0x83;
        assert_eq!(with_mark(0, &sector).as_deref(), Some("an MBR partition table"));
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
