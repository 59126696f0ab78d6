//! Signs that a target carries something: it is not overwritten unless that is forced.
//!
//! In use is whatever the kernel says: mounted, swapped to, held by another driver, opened by a
//! program for itself alone. Carried is a signature from the table below, or any byte that is not
//! zero in the first or the last MiB. A target in use is never written,
//! forced or not.

use super::stamp::SECTOR;
use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
};

/// Bytes of both ends that are looked at.
const END: u64 = 1 << 20;

/// Place, bytes, owner.
const MARKS: &[(usize, &[u8], &str)] = &[
    (0, b"PLINTHDK", "a disk of a Plinth disk group"),
    (32, b"ORCLDISK", "an Oracle ASM disk"),
    (0, b"XFSB", "an XFS file system"),
    (1080, b"\x53\xef", "an ext2, ext3 or ext4 file system"),
    (0x10040, b"_BHRfS_M", "a Btrfs file system"),
    (0, b"LUKS\xba\xbe", "a LUKS encrypted volume"),
    (0, b"\xfc\x4e\x2b\xa9", "a member of an MD array"),
    (4096, b"\xfc\x4e\x2b\xa9", "a member of an MD array"),
    (536, b"LVM2 001", "an LVM physical volume"),
    (4086, b"SWAPSPACE2", "swap space"),
    (0, b"bluestore block device", "a Ceph BlueStore disk"),
    (0x8001, b"CD001", "an ISO 9660 file system"),
    (0, b"QFI\xfb", "a QEMU disk image"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (54, b"FAT1", "a FAT file system"),
    (82, b"FAT32   ", "a FAT file system"),
    (512, b"EFI PART", "a GPT partition table"),
    (4096, b"EFI PART", "a GPT partition table"),
];

/// The content of the ends of a target.
///
/// # Errors
/// If it cannot be read.
pub fn carried(file: &File, size: u64) -> std::io::Result<Option<String>> {
    let mut head = vec![0; size.min(END) as usize];
    read_all(file, &mut head, 0)?;
    if let Some(mark) = recognise(&head) {
        return Ok(Some(mark));
    }
    let from = size.saturating_sub(END).next_multiple_of(SECTOR as u64).max(head.len() as u64);
    let mut tail = vec![0; size.saturating_sub(from) as usize];
    read_all(file, &mut tail, from)?;
    if let Some(at) = tail.windows(8).step_by(512).position(|bytes| bytes == b"EFI PART") {
        let at = from + at as u64 * 512;
        return Ok(Some(format!("a GPT partition table (its copy at byte {at})")));
    }
    let in_part = |bytes: &[u8], from: u64| {
        let at = bytes.iter().position(|byte| *byte != 0)?;
        Some(format!("data (byte {} is not zero)", from + at as u64))
    };
    Ok(in_part(&head, 0).or_else(|| in_part(&tail, from)))
}

fn read_all(file: &File, bytes: &mut [u8], from: u64) -> std::io::Result<()> {
    file.read_exact_at(bytes, from)
}

/// The owner of the signature in the first bytes.
#[must_use]
pub fn recognise(head: &[u8]) -> Option<String> {
    let has = |at: usize, bytes: &[u8]| head.get(at..).is_some_and(|rest| rest.starts_with(bytes));
    if let Some((at, _, owner)) = MARKS.iter().find(|(at, bytes, _)| has(*at, bytes)) {
        return Some(format!("{owner} (signature at byte {at})"));
    }
    let types = (0..4).filter_map(|number| head.get(446 + 16 * number + 4));
    let has_partition = types.copied().any(|kind| kind != 0);
    let has_flags =
        (0..4).all(|number| head.get(446 + 16 * number).is_some_and(|flag| flag & 0x7f == 0));
    (has(510, &[0x55, 0xaa]) && has_partition && has_flags)
        .then(|| "an MBR partition table (signature at byte 510)".to_owned())
}

/// The user of a block device, or of a file that is behind one.
#[must_use]
pub fn in_use(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    let rdev = metadata.rdev();
    let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
    if rdev == 0 {
        return behind_loop(path);
    }
    let directory = format!("/sys/dev/block/{major}:{minor}");
    let mut numbers = vec![format!("{major}:{minor}")];
    for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
        if entry.path().join("partition").exists()
            && let Ok(number) = fs::read_to_string(entry.path().join("dev"))
        {
            numbers.push(number.trim().to_owned());
        }
    }
    mounted(&numbers).or_else(|| swapped(path)).or_else(|| held(&directory))
}

fn mounted(numbers: &[String]) -> Option<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    table.lines().find_map(|line| {
        let mut words = line.split(' ').skip(2);
        let is_it = numbers.iter().any(|number| Some(number.as_str()) == words.clone().next());
        is_it.then(|| format!("it is mounted on {}", words.nth(2).unwrap_or("?")))
    })
}

fn swapped(path: &Path) -> Option<String> {
    let table = fs::read_to_string("/proc/swaps").ok()?;
    let path = fs::canonicalize(path).ok()?;
    let is_it = |line: &str| {
        line.split_whitespace().next().and_then(|name| fs::canonicalize(name).ok()).as_ref()
            == Some(&path)
    };
    table.lines().skip(1).any(is_it).then(|| "it is swap space in use".to_owned())
}

fn held(directory: &str) -> Option<String> {
    let holders = fs::read_dir(format!("{directory}/holders")).ok()?;
    let mut names: Vec<String> =
        holders.flatten().map(|holder| holder.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    (!names.is_empty()).then(|| format!("it is held by {}", names.join(", ")))
}

fn behind_loop(path: &Path) -> Option<String> {
    let path = fs::canonicalize(path).ok()?;
    fs::read_dir("/sys/block").ok()?.flatten().find_map(|device| {
        let behind = fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
        (Path::new(behind.trim_end()) == path)
            .then(|| format!("it is behind /dev/{}", device.file_name().to_string_lossy()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_is_recognised_and_zeros_have_none() {
        assert_eq!(recognise(&vec![0; 1 << 20]), None);
        for (at, bytes, owner) in MARKS {
            let mut head = vec![0; 1 << 20];
            head[*at..*at + bytes.len()].copy_from_slice(bytes);
            let seen = recognise(&head).expect("it is recognised");
            assert!(seen.starts_with(owner), "{seen}");
        }
        for length in [0, 1, 511, 512, 5000] {
            assert_eq!(recognise(&vec![0; length]), None);
        }
    }

    #[test]
    fn one_byte_at_either_end_is_seen() {
        let file = tempfile::tempfile().expect("a file");
        for (size, at) in [(4 << 20, 700_000), (4 << 20, (4 << 20) - 1), (5000, 4999)] {
            file.set_len(0).expect("cut");
            file.set_len(size).expect("extended");
            assert_eq!(carried(&file, size).expect("read"), None);
            file.write_all_at(&[1], at).expect("written");
            let seen = carried(&file, size).expect("read").expect("seen");
            assert_eq!(seen, format!("data (byte {at} is not zero)"));
        }
    }
}
