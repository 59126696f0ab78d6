//! The metadata of one disk in a file: `amdu --dump` writes it, `amdu` and `kfed` read it as a
//! disk.
//!
//! ```text
//!   "PLINTHDUMP 1\n"
//!   a line of JSON: the disk, and the ranges of it that follow
//!   the bytes of the ranges, one after the other
//! ```
//!
//! Bytes of the disk that are not in the file cannot be read: they are not taken for zeros. The
//! file may have been cut short, and may hold any bytes.

use super::super::Result;
use plinth_engine::{
    admin::{AdminError, Code},
    completion::{Completion, Done},
    disk::discard_limits::{DiscardLimits, NoDiscards},
    group::offline::FoundDisk,
    world::{Disk, Identity, Io, Sectors, World},
};
use plinth_format::BLOCK_SIZE;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

const MAGIC: &[u8] = b"PLINTHDUMP 1\n";
/// A longer line is none of ours.
const LINE_MAX: u64 = 16 << 20;
/// Bytes read at a time.
const WINDOW: u64 = 1 << 20;

/// The line.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct About {
    path: String,
    device: String,
    size: u64,
    logical_sector: u32,
    physical_sector: u32,
    /// Offset on the disk and bytes, in the order in which they follow.
    ranges: Vec<(u64, u64)>,
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
    let read =
        |offset, length| plinth_engine::group::offline::read(world, &*found.disk, offset, length);
    // The line comes first, and says what can be read: so everything is read twice.
    let mut readable: Vec<(u64, u64)> = Vec::new();
    let mut unreadable = 0;
    for (start, length) in ranges {
        let mut at = *start;
        while at < start + length {
            let window = WINDOW.min(start + length - at);
            let is_there = read(at, usize::try_from(window).unwrap_or(0)).is_ok();
            let step = if is_there { window } else { window.min(BLOCK_SIZE as u64) };
            if is_there || read(at, usize::try_from(step).unwrap_or(0)).is_ok() {
                readable.push((at, step));
            } else {
                unreadable += step;
            }
            at += step;
        }
    }
    let sectors = found.disk.sectors();
    let about = About {
        path: found.path.clone(),
        device: found.disk.identity().0,
        size: found.disk.size(),
        logical_sector: sectors.logical,
        physical_sector: sectors.physical,
        ranges: readable.clone(),
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(MAGIC)?;
    file.write_all(&[serde_json::to_vec(&about)?, b"\n".to_vec()].concat())?;
    let mut bytes = 0;
    for (start, length) in readable {
        file.write_all(&read(start, usize::try_from(length).unwrap_or(0))?)?;
        bytes += length;
    }
    file.sync_all()?;
    Ok(Written { bytes, unreadable })
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
        let mut begin = [0; MAGIC.len()];
        path.is_file()
            && File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok()
            && begin == MAGIC
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
    /// If it is no dump, or was cut short.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::read_head(path).map_err(|error| {
            let text = format!("{}: no whole dump of amdu: {error}", path.display());
            AdminError::new(Code::CannotOpen, text).into()
        })
    }

    fn read_head(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut reader = BufReader::new(&file).take(LINE_MAX);
        let mut magic = [0; MAGIC.len()];
        reader.read_exact(&mut magic)?;
        if magic != MAGIC {
            return Err(io::Error::other("it does not begin as one"));
        }
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line)?;
        let about: About = serde_json::from_slice(&line)?;
        let mut at = (MAGIC.len() + line.len()) as u64;
        let mut ranges = BTreeMap::new();
        let is_sector = |size| matches!(size, 512 | 4096);
        if !is_sector(about.logical_sector) || !is_sector(about.physical_sector) {
            return Err(io::Error::other("sectors of another size than 512 or 4096"));
        }
        for (start, bytes) in &about.ranges {
            let is_on_disk = start.checked_add(*bytes).is_some_and(|end| end <= about.size);
            let end = at.checked_add(*bytes).filter(|end| *end <= length);
            let (true, Some(end)) = (is_on_disk, end) else {
                return Err(io::Error::other(format!(
                    "it ends before the bytes of the disk at {start} that it should have"
                )));
            };
            ranges.insert(*start, (*bytes, at));
            at = end;
        }
        Ok(Self { path: path.to_string_lossy().into_owned(), about, file, ranges })
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
    use proptest::prelude::*;

    fn dump() -> Vec<u8> {
        let about = About {
            path: "/x".to_owned(),
            device: "y".to_owned(),
            size: 1 << 20,
            logical_sector: 512,
            physical_sector: 4096,
            ranges: vec![(0, 4096), (8192, 512)],
        };
        let line = serde_json::to_vec(&about).expect("a line");
        [MAGIC, &line, b"\n", &[1; 4096], &[2; 512]].concat()
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

    /// Cut at any byte, it is refused.
    #[test]
    fn a_dump_that_was_cut_short_is_refused() {
        let whole = dump();
        for length in 0..whole.len() {
            assert!(open(&whole[..length]).is_err(), "{length} bytes");
        }
    }

    proptest! {
        /// Any change of a byte: it is refused, or what it has can be read.
        #[test]
        fn any_bytes_are_survived(at in 0..300_usize, byte: u8, offset: u64) {
            let mut bytes = dump();
            bytes[at] = byte;
            if let Ok(disk) = open(&bytes) {
                let _ = disk.read(offset, &mut [0; 100]);
                for (start, (length, _)) in &disk.ranges {
                    disk.read(*start, &mut vec![0; usize::try_from(*length).expect("small")])
                        .expect("it is there");
                }
            }
        }
    }
}
