//! The metadata of one disk in a file: `amdu --dump` writes it, `amdu` and `kfed` read it as a
//! disk.
//!
//! ```text
//!   "PLINTHDUMP 2\n"
//!   the bytes of the ranges, one after the other
//!   a line of JSON: the disk, and the ranges of it that are there, each with a checksum
//!   the last line: where the line before begins, and its checksum (hexadecimal)
//! ```
//!
//! The file may have been cut short, changed on its way, or hold any bytes. So everything is
//! checked when it is opened: a file that is not whole is refused. Bytes of the disk that are not
//! in the file cannot be read: they are not taken for zeros.

use super::super::Result;
use plinth_engine::{
    admin::{AdminError, Code},
    completion::{Completion, Done},
    group::offline::FoundDisk,
    world::{
        Disk, Identity, Io, Sectors, World,
        discard_limits::{DiscardLimits, NoDiscards},
    },
};
use plinth_format::{BLOCK_SIZE, crc32c};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

/// Dumps of every version begin like this.
const BEGIN: &[u8] = b"PLINTHDUMP ";
const MAGIC: &[u8] = b"PLINTHDUMP 2\n";
/// Bytes of the last line.
const END: usize = 16 + 1 + 8 + 1;
/// A longer line is none of ours.
const LINE_MAX: u64 = 16 << 20;
/// Most bytes of a range.
const WINDOW: u64 = 1 << 20;

/// The line.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct About {
    path: String,
    device: String,
    size: u64,
    logical_sector: u32,
    physical_sector: u32,
    /// Offset on the disk, bytes and their CRC-32C, in the order in which they follow.
    ranges: Vec<(u64, u64, u32)>,
}

/// How much was written.
pub(super) struct Written {
    pub bytes: u64,
    pub unreadable: u64,
}

/// Writes the ranges of a disk, durably; those that cannot be read are left out.
pub(super) fn write(
    world: &dyn World,
    found: &FoundDisk,
    ranges: &BTreeMap<u64, u64>,
    path: &Path,
) -> io::Result<Written> {
    let read = |offset, length: u64| {
        let length = usize::try_from(length).unwrap_or(0);
        plinth_engine::group::offline::read(world, &*found.disk, offset, length)
    };
    let sectors = found.disk.sectors();
    let mut about = About {
        path: found.path.clone(),
        device: found.disk.identity().0,
        size: found.disk.size(),
        logical_sector: sectors.logical,
        physical_sector: sectors.physical,
        ranges: Vec::new(),
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(MAGIC)?;
    let (mut bytes, mut unreadable) = (0, 0);
    for (start, length) in ranges {
        let mut at = *start;
        while at < start + length {
            let window = WINDOW.min(start + length - at);
            let whole = read(at, window);
            // Of a window that cannot be read, the blocks that can be.
            let step = if whole.is_ok() { window } else { window.min(BLOCK_SIZE as u64) };
            match whole.or_else(|_| read(at, step)) {
                Ok(part) => {
                    file.write_all(&part)?;
                    about.ranges.push((at, step, crc32c(&part)));
                    bytes += step;
                }
                Err(_) => unreadable += step,
            }
            at += step;
        }
    }
    file.write_all(&ending(&about, MAGIC.len() as u64 + bytes)?)?;
    file.sync_all()?;
    Ok(Written { bytes, unreadable })
}

/// The last two lines of a dump; the first of them begins at an offset.
fn ending(about: &About, offset: u64) -> io::Result<Vec<u8>> {
    let mut lines = serde_json::to_vec(about)?;
    lines.push(b'\n');
    let last = format!("{offset:016x} {:08x}\n", crc32c(&lines));
    lines.extend(last.into_bytes());
    Ok(lines)
}

/// A disk of which only the metadata is there.
#[derive(Debug)]
pub(crate) struct DumpedDisk {
    /// Of the dump.
    path: String,
    about: About,
    file: File,
    /// By offset on the disk: bytes, and their offset in the file.
    ranges: BTreeMap<u64, (u64, u64)>,
}

impl DumpedDisk {
    /// Whether a file begins as a dump does.
    pub(crate) fn is_one(path: &Path) -> bool {
        let mut begin = [0; BEGIN.len()];
        path.is_file()
            && File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok()
            && begin == BEGIN
    }

    /// The dumps in a directory.
    pub(super) fn all_in(directory: &Path) -> Result<Vec<Self>> {
        let refuse = |text: String| AdminError::new(Code::CannotOpen, text);
        let entries = fs::read_dir(directory)
            .map_err(|error| refuse(format!("{}: {error}", directory.display())))?;
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|end| end == "dump"));
        paths.sort();
        if paths.is_empty() {
            let text = format!("{}: no dump of amdu in this directory", directory.display());
            return Err(refuse(text).into());
        }
        paths.iter().map(|path| Self::open(path)).collect()
    }

    /// # Errors
    /// If it is no dump, or is not as it was written.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let name = path.to_string_lossy().into_owned();
        File::open(path).and_then(|file| Self::check(file, name)).map_err(|error| {
            let text = format!("{}: no whole dump of amdu: {error}", path.display());
            AdminError::new(Code::CannotOpen, text)
                .hint("copy it again from where it was made, or make another with amdu --dump")
                .into()
        })
    }

    /// The disk in a file, of which every byte is checked.
    ///
    /// # Errors
    /// The first byte that is not as it was written.
    pub(crate) fn check(file: File, path: String) -> io::Result<Self> {
        let wrong = |text: &str| Err(io::Error::other(text.to_owned()));
        let length = file.metadata()?.len();
        let mut magic = [0; MAGIC.len()];
        file.read_exact_at(&mut magic, 0).map_err(|_| cut_short())?;
        if magic != MAGIC {
            return match magic.starts_with(BEGIN) {
                true => wrong("it is of another version of this program"),
                false => wrong("it does not begin as one"),
            };
        }
        let (about, line) = read_about(&file, length)?;
        let is_sector = |size| matches!(size, 512 | 4096);
        if !is_sector(about.logical_sector) || !is_sector(about.physical_sector) {
            return wrong("sectors of another size than 512 or 4096");
        }
        let mut at = MAGIC.len() as u64;
        let mut ranges = BTreeMap::new();
        for (start, bytes, checksum) in &about.ranges {
            let is_on_disk = start.checked_add(*bytes).is_some_and(|end| end <= about.size);
            let end = at.checked_add(*bytes).filter(|end| *end <= line && *bytes <= WINDOW);
            let (true, Some(end)) = (is_on_disk, end) else {
                return wrong("it says that it has more of the disk than it has");
            };
            let mut content = vec![0; usize::try_from(*bytes).unwrap_or(0)];
            file.read_exact_at(&mut content, at)?;
            if crc32c(&content) != *checksum {
                return wrong(&format!("the bytes of the disk at {start} were changed in it"));
            }
            ranges.insert(*start, (*bytes, at));
            at = end;
        }
        if at != line {
            return wrong("it has bytes that are of no place on the disk");
        }
        Ok(Self { path, about, file, ranges })
    }

    /// A disk with this content.
    ///
    /// # Panics
    /// If the system has no memory for it.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn of_bytes(content: &[u8]) -> Self {
        Self::check_bytes(&Self::dump_of(content)).expect("a dump")
    }

    /// A dump of a disk with this content.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn dump_of(content: &[u8]) -> Vec<u8> {
        let window = usize::try_from(WINDOW).unwrap_or(usize::MAX);
        let ranges = content.chunks(window).zip((0..).step_by(window));
        let about = About {
            path: "/disk".to_owned(),
            device: "disk".to_owned(),
            size: content.len() as u64,
            logical_sector: 512,
            physical_sector: 4096,
            ranges: ranges.map(|(part, at)| (at, part.len() as u64, crc32c(part))).collect(),
        };
        let end = ending(&about, (MAGIC.len() + content.len()) as u64).unwrap_or_default();
        [MAGIC, content, &end].concat()
    }

    /// The disk in a dump with these bytes.
    ///
    /// # Errors
    /// As [`Self::open`].
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn check_bytes(bytes: &[u8]) -> io::Result<Self> {
        let file = rustix::fs::memfd_create("dump", rustix::fs::MemfdFlags::CLOEXEC)?;
        let mut file = File::from(file);
        file.write_all(bytes)?;
        Self::check(file, "/dump".to_owned())
    }

    /// How many of its ranges can be read.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn readable_ranges(&self) -> usize {
        let lengths = self.ranges.iter().map(|(start, (length, _))| (*start, *length));
        lengths
            .filter(|(start, length)| {
                let mut into = vec![0; usize::try_from(*length).unwrap_or(0)];
                self.read(*start, &mut into).is_ok()
            })
            .count()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < into.len() {
            let at = offset.saturating_add(done as u64);
            let range = self.ranges.range(..=at).next_back();
            let inside = range.and_then(|(start, (bytes, place))| {
                let inside = at - start;
                (inside < *bytes).then(|| (place + inside, bytes - inside))
            });
            let Some((place, rest)) = inside else {
                let text =
                    format!("the bytes at {at} are not in the dump, which has metadata only");
                return Err(io::Error::other(text));
            };
            let take = usize::try_from(rest).unwrap_or(usize::MAX).min(into.len() - done);
            if let Some(part) = into.get_mut(done..done + take) {
                self.file.read_exact_at(part, place)?;
            }
            done += take;
        }
        Ok(())
    }
}

fn cut_short() -> io::Error {
    io::Error::other("its end is missing: it was cut short or changed")
}

/// The line of JSON in a dump of `length` bytes, and where it begins.
fn read_about(file: &File, length: u64) -> io::Result<(About, u64)> {
    let last = length.checked_sub(END as u64).ok_or_else(cut_short)?;
    let mut end = [0; END];
    file.read_exact_at(&mut end, last)?;
    let words = std::str::from_utf8(&end).ok().and_then(|line| line.strip_suffix('\n'));
    let (begin, checksum) = words.and_then(|words| words.split_once(' ')).ok_or_else(cut_short)?;
    let begin = u64::from_str_radix(begin, 16).map_err(|_| cut_short())?;
    let checksum = u32::from_str_radix(checksum, 16).map_err(|_| cut_short())?;
    let bytes = last.checked_sub(begin).filter(|bytes| *bytes <= LINE_MAX).ok_or_else(cut_short)?;
    let mut line = vec![0; usize::try_from(bytes).map_err(|_| cut_short())?];
    file.read_exact_at(&mut line, begin)?;
    if crc32c(&line) != checksum {
        return Err(io::Error::other("the list of what is in it was changed"));
    }
    Ok((serde_json::from_slice(&line)?, begin))
}

impl Disk for DumpedDisk {
    fn path(&self) -> &str {
        &self.path
    }

    fn size(&self) -> u64 {
        self.about.size
    }

    fn sectors(&self) -> Sectors {
        Sectors { logical: self.about.logical_sector, physical: self.about.physical_sector }
    }

    fn identity(&self) -> Identity {
        Identity(self.about.device.clone())
    }

    fn discards(&self) -> std::result::Result<DiscardLimits, NoDiscards> {
        Err(NoDiscards::Dump)
    }

    fn submit(&self, io: Io) -> Completion {
        let done = match io {
            Io::Read { offset, mut buffer } => {
                let result = self.read(offset, &mut buffer);
                Done { result, buffer: Some(buffer) }
            }
            _ => Done { result: Err(io::ErrorKind::ReadOnlyFilesystem.into()), buffer: None },
        };
        Completion::ready(done)
    }

    fn claim(&self) -> io::Result<()> {
        Err(io::Error::other(format!("{} is a dump, and is not written", self.path)))
    }

    fn in_use_by(&self) -> Option<String> {
        None
    }

    fn user(&self) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump() -> Vec<u8> {
        let parts = [(0, vec![1; 4096]), (8192, vec![2; 512])];
        let range = |(start, part): &(u64, Vec<u8>)| (*start, part.len() as u64, crc32c(part));
        let about = About {
            path: "/x".to_owned(),
            device: "y".to_owned(),
            size: 1 << 20,
            logical_sector: 512,
            physical_sector: 4096,
            ranges: parts.iter().map(range).collect(),
        };
        let mut bytes = MAGIC.to_vec();
        parts.iter().for_each(|(_, part)| bytes.extend(part));
        let end = ending(&about, bytes.len() as u64).expect("lines");
        [bytes, end].concat()
    }

    fn open(bytes: &[u8]) -> Result<DumpedDisk> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), bytes).expect("written");
        DumpedDisk::open(file.path())
    }

    #[test]
    fn only_what_is_in_a_dump_can_be_read() {
        let disk = open(&dump()).expect("a dump");
        let read = |offset, length| {
            let mut bytes = vec![0; length];
            disk.read(offset, &mut bytes).map(|()| bytes)
        };
        assert_eq!(read(4000, 96).expect("there"), [1; 96]);
        assert_eq!(read(8192, 512).expect("there"), [2; 512]);
        for (offset, length) in [(4000, 97), (8192, 513), (4096, 1), (1 << 20, 1), (u64::MAX, 1)] {
            read(offset, length).expect_err("not there");
        }
    }

    /// Cut at any byte, it is refused; so is one that became longer.
    #[test]
    fn a_dump_that_was_cut_short_is_refused() {
        let whole = dump();
        for length in 0..whole.len() {
            assert!(open(&whole[..length]).is_err(), "{length} bytes");
        }
        assert!(open(&[&whole[..], b"\n"].concat()).is_err());
    }

    /// Any byte of it is changed: it is refused.
    #[test]
    fn a_dump_that_was_changed_is_refused() {
        let whole = dump();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            assert!(open(&bytes).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_dump_of_another_version_is_named_so() {
        let mut bytes = dump();
        bytes[BEGIN.len()] = b'1';
        let error = open(&bytes).expect_err("it is of version 1");
        assert!(error.to_string().contains("another version"), "{error}");
    }
}
