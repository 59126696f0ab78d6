//! The guard against overwriting: a target that carries something is not written unless that is
//! forced, and one that is in use is never written.
//!
//!   1. In use is whatever the kernel says: mounted, swapped to, held by another driver, behind a
//!      loop device. Whether a program has it open for itself alone is seen when it is opened.
//!   2. A file that consists of holes only, such as one of `truncate`, carries nothing. Any other
//!      file that is not empty does, even one of zeros: a program has allocated them.
//!   3. A device or an export carries something if it has a signature from the table below, or a
//!      byte that is not zero in its first 64 MiB, in its last MiB, or in one of 256 samples
//!      between them. More is not read: a device of 10 TB would take hours.

use rustix::fs::SeekFrom;
use std::{
    fmt,
    fs::{self, File},
    io,
    os::unix::fs::{FileExt, FileTypeExt, MetadataExt},
    path::Path,
};

/// Bytes of the begin and of the end that are read.
const HEAD: u64 = 64 << 20;
const TAIL: u64 = 1 << 20;
/// Bytes that are read at once. Signatures are looked for in the first ones.
const PIECE: u64 = 1 << 20;
/// Blocks that are read between begin and end, and their size.
const SAMPLES: u64 = 256;
const SAMPLE: u64 = 4096;

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

/// Why a target is not written.
#[derive(Debug)]
pub enum Refusal {
    /// Forced or not.
    InUse(String),
    /// Something: which, and where.
    Carries(String),
    Unreadable(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(user) => write!(f, "{user}: it is not written, forced or not"),
            Self::Carries(what) => write!(
                f,
                "it carries {what}; the load would destroy that: take another target, or say \
                 --force-overwrite"
            ),
            Self::Unreadable(error) => {
                write!(f, "cannot read what it carries: {error}; it is not written")
            }
        }
    }
}

/// Refuses to write a device or a file that is in use or carries something.
///
/// # Errors
/// See [`Refusal`].
pub fn refuse(path: &Path, is_forced: bool) -> Result<(), Refusal> {
    if let Some(user) = in_use(path) {
        return Err(Refusal::InUse(user));
    }
    if is_forced {
        return Ok(());
    }
    let carried = File::open(path).and_then(|file| {
        let metadata = file.metadata()?;
        let size = rustix::fs::seek(&file, SeekFrom::End(0))?;
        let is_device = metadata.file_type().is_block_device();
        if !is_device && has_only_holes(&file) {
            return Ok(None);
        }
        let found = carried(size, |at, bytes| file.read_exact_at(bytes, at))?;
        Ok(if is_device {
            found
        } else {
            let found = found.unwrap_or_else(|| "zeros".to_owned());
            Some(format!("{size} bytes: {found}"))
        })
    });
    match carried {
        Ok(None) => Ok(()),
        Ok(Some(what)) => Err(Refusal::Carries(what)),
        Err(error) => Err(Refusal::Unreadable(error)),
    }
}

/// Whether no block of the file is allocated.
#[must_use]
pub fn has_only_holes(file: &File) -> bool {
    matches!(rustix::fs::seek(file, SeekFrom::Data(0)), Err(rustix::io::Errno::NXIO))
}

/// A signature, or the first byte found that is not zero; `read` reads all of the bytes from there.
///
/// # Errors
/// Those of `read`.
pub fn carried(
    size: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<Option<String>> {
    let mut data = None;
    let mut look = |at: u64, length: u64| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        read(at, &mut bytes)?;
        if let Some(first) = bytes.iter().position(|byte| *byte != 0) {
            data.get_or_insert(at + first as u64);
        }
        Ok(bytes)
    };
    if let Some(mark) = recognise(&look(0, size.min(PIECE))?) {
        return Ok(Some(mark));
    }
    let tail_begin = size.saturating_sub(TAIL).next_multiple_of(SAMPLE).max(size.min(PIECE));
    let tail = look(tail_begin, size.saturating_sub(tail_begin))?;
    if let Some(at) = tail.windows(8).step_by(512).position(|bytes| bytes == b"EFI PART") {
        let at = tail_begin + at as u64 * 512;
        return Ok(Some(format!("a GPT partition table (its copy at byte {at})")));
    }
    let head_end = tail_begin.min(HEAD);
    for at in (PIECE..head_end).step_by(PIECE as usize) {
        look(at, PIECE.min(head_end - at))?;
    }
    let between = tail_begin.saturating_sub(HEAD);
    for number in 0..SAMPLES.min(between / SAMPLE) {
        let at = HEAD + between / SAMPLES.min(between / SAMPLE) * number;
        look(at & !(SAMPLE - 1), SAMPLE)?;
    }
    Ok(data.map(|at| format!("data (byte {at} is not zero)")))
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

    fn of(file: &File, size: u64) -> Option<String> {
        carried(size, |at, bytes| file.read_exact_at(bytes, at)).expect("read")
    }

    #[test]
    fn one_byte_at_either_end_is_seen() {
        let file = tempfile::tempfile().expect("a file");
        for (size, at) in [
            (4 << 20, 700_000),
            (4 << 20, (4 << 20) - 1),
            (5000, 4999),
            (1, 0),
            (100 << 20, 33 << 20),
            (100 << 20, (100 << 20) - 1),
            (1 << 40, (1 << 40) - 1),
        ] {
            file.set_len(0).expect("cut");
            file.set_len(size).expect("extended");
            assert_eq!(of(&file, size), None);
            file.write_all_at(&[1], at).expect("written");
            assert_eq!(of(&file, size), Some(format!("data (byte {at} is not zero)")));
        }
    }

    /// A database in the middle of a device: of 256 samples one meets it if it has a hundredth.
    #[test]
    fn data_in_the_middle_of_a_large_target_is_met_by_samples() {
        let (size, from) = (1_u64 << 40, 500_u64 << 30);
        let read = |at: u64, bytes: &mut [u8]| {
            bytes.fill(u8::from((from..from + size / 100).contains(&at)));
            Ok(())
        };
        let found = carried(size, read).expect("read").expect("it is seen");
        assert!(found.starts_with("data"), "{found}");
        assert_eq!(carried(0, read).expect("read"), None);
    }

    #[test]
    fn a_file_of_holes_carries_nothing_and_one_of_zeros_does() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let path = directory.path().join("file");
        let file = File::create(&path).expect("a file");
        assert!(refuse(&path, false).is_ok(), "it is empty");
        file.set_len(8 << 20).expect("extended");
        assert!(refuse(&path, false).is_ok(), "it has holes only");
        file.write_all_at(&[0; 4096], 4 << 20).expect("written");
        let refusal = refuse(&path, false).expect_err("zeros").to_string();
        assert!(refusal.contains("8388608 bytes: zeros"), "{refusal}");
        assert!(refuse(&path, true).is_ok());
    }
}
