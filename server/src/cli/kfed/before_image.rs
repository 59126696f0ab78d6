//! What blocks of disks held before `kfed` wrote them: stored durably first, and put back by
//! `kfed repair --undo`.
//!
//! The file is JSON, for people too. Of each block it has the bytes before and after, with a
//! checksum: a file that was cut short or changed is refused. Undo reads all blocks before it
//! writes the first one. If one of them holds something else than `kfed` wrote, and not what was
//! there before either, the disk was used since, and nothing is written. So an undo that a crash
//! cut short can be repeated.

use super::super::{
    Result,
    context::Context,
    raw_disk::{RawDisk, failed},
};
use crate::{
    alert::rfc3339,
    sql_error::{SqlError, state},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use plinth_engine::{
    admin::{AdminError, Code},
    words::counted,
    world::World,
};
use plinth_format::{BLOCK_SIZE, crc32c};
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

const VERSION: u32 = 1;

/// A file that is longer is none of ours: a header has few copies, and a group 1024 disks.
const FILE_MAX: u64 = 256 << 20;

type Bytes = Box<[u8; BLOCK_SIZE]>;

/// A block to write.
pub(super) struct Change {
    pub offset: u64,
    pub after: Bytes,
}

/// The blocks to write on one disk.
pub(super) struct DiskChanges {
    pub disk: RawDisk,
    pub changes: Vec<Change>,
}

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BeforeImage {
    plinth_before_image: u32,
    made: String,
    command: String,
    disks: Vec<DiskImage>,
}

#[derive(Debug, Serialize, Deserialize)]
struct DiskImage {
    path: String,
    /// The device, whatever its path.
    device: String,
    size: u64,
    blocks: Vec<BlockImage>,
}

#[derive(Debug, Serialize, Deserialize)]
struct BlockImage {
    offset: u64,
    /// CRC-32C of the bytes before, then those after.
    checksum: u32,
    /// `None`: the block could not be read, and is not put back.
    before: Option<String>,
    after: String,
}

/// A block of the file, decoded.
struct Block {
    offset: u64,
    before: Option<Bytes>,
    after: Bytes,
}

fn sum(before: Option<&Bytes>, after: &Bytes) -> u32 {
    let before = before.map_or(&[][..], |bytes| &bytes[..]);
    crc32c(&[before, &after[..]].concat())
}

fn read_block(disk: &RawDisk, offset: u64) -> io::Result<Bytes> {
    let bytes = disk.read(offset, BLOCK_SIZE)?;
    let bytes: Box<[u8]> = bytes.into();
    bytes.try_into().map_err(|_| io::ErrorKind::UnexpectedEof.into())
}

impl BlockImage {
    fn new(offset: u64, before: Option<&Bytes>, after: &Bytes) -> Self {
        Self {
            offset,
            checksum: sum(before, after),
            before: before.map(|bytes| BASE64_STANDARD.encode(&bytes[..])),
            after: BASE64_STANDARD.encode(&after[..]),
        }
    }

    fn decode(&self) -> Option<Block> {
        let bytes = |text: &str| -> Option<Bytes> {
            let bytes: Box<[u8]> = BASE64_STANDARD.decode(text).ok()?.into();
            bytes.try_into().ok()
        };
        let before = match &self.before {
            Some(text) => Some(bytes(text)?),
            None => None,
        };
        let after = bytes(&self.after)?;
        let is_right = sum(before.as_ref(), &after) == self.checksum
            && self.offset.is_multiple_of(BLOCK_SIZE as u64);
        is_right.then_some(Block { offset: self.offset, before, after })
    }
}

impl BeforeImage {
    /// The content of a file; any bytes may be in it.
    ///
    /// # Errors
    /// Why it is none.
    pub(super) fn parse(bytes: &[u8]) -> std::result::Result<Self, String> {
        let image: Self = serde_json::from_slice(bytes)
            .map_err(|error| format!("this is no whole before-image of kfed: {error}"))?;
        if image.plinth_before_image != VERSION {
            return Err(format!(
                "before-image of version {}; this program reads {VERSION}",
                image.plinth_before_image
            ));
        }
        for disk in &image.disks {
            if let Some(block) = disk.blocks.iter().find(|block| block.decode().is_none()) {
                return Err(format!(
                    "the block at {} of {} in it is damaged",
                    block.offset, disk.path
                ));
            }
        }
        Ok(image)
    }

    /// How many blocks it has.
    ///
    /// # Panics
    /// If one of them cannot be decoded.
    #[cfg(any(test, feature = "fuzz"))]
    pub(super) fn blocks(&self) -> usize {
        let blocks = self.disks.iter().flat_map(|disk| &disk.blocks);
        let decoded: Vec<_> = blocks.map(|block| block.decode().expect("it was checked")).collect();
        decoded.len()
    }

    fn load(path: &Path) -> Result<Self> {
        let error = |text: String| {
            SqlError::from(AdminError::new(Code::Invalid, format!("{}: {text}", path.display())))
        };
        // Another kind of file may have no end, or never answer.
        if !path.metadata().map_err(|io| error(io.to_string()))?.is_file() {
            return Err(error("this is no before-image of kfed: it is no regular file".to_owned()));
        }
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes))
            .map_err(|io| error(io.to_string()))?;
        if bytes.len() as u64 > FILE_MAX {
            return Err(error("this is no before-image of kfed: it is too large".to_owned()));
        }
        Self::parse(&bytes).map_err(error)
    }

    /// Writes it durably to a new file.
    fn store(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self)
            .map_err(|error| SqlError::new(state::INTERNAL, error))?;
        let written =
            OpenOptions::new().write(true).create_new(true).open(path).and_then(|mut file| {
                file.write_all(&text)?;
                file.sync_all()?;
                let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
            });
        written.map_err(|error| {
            if error.kind() != io::ErrorKind::AlreadyExists {
                let _ = std::fs::remove_file(path);
            }
            let text = format!("{}: {error}; no disk was written", path.display());
            AdminError::new(Code::Io, text).hint("--save FILE stores it elsewhere").into()
        })
    }
}

/// The file for a before-image: where the instance keeps its state if that can be written, else
/// the current directory.
fn default_path(context: &Context, now: i64) -> PathBuf {
    let when: String = rfc3339(now).chars().filter(char::is_ascii_alphanumeric).collect();
    let name = format!("kfed-{when}-{}.json", std::process::id());
    let state = context.paths.state();
    let can_write = rustix::fs::access(state, rustix::fs::Access::WRITE_OK).is_ok();
    if can_write { state.join(name) } else { PathBuf::from(name) }
}

/// Stores what the blocks hold, then writes them; all disks are claimed. Returns the file.
///
/// # Errors
/// If the file cannot be stored, and then no disk was written; or if a disk does not take a block.
pub(super) fn apply(
    context: &Context,
    command: &str,
    save: Option<&Path>,
    all: &[DiskChanges],
) -> Result<PathBuf> {
    let now = super::super::raw_disk::world()?.now();
    let disks = all.iter().map(|DiskChanges { disk, changes }| DiskImage {
        path: disk.path.clone(),
        device: disk.disk.identity().0,
        size: disk.size(),
        blocks: changes
            .iter()
            .map(|change| {
                let before = read_block(disk, change.offset).ok();
                BlockImage::new(change.offset, before.as_ref(), &change.after)
            })
            .collect(),
    });
    let image = BeforeImage {
        plinth_before_image: VERSION,
        made: rfc3339(now),
        command: command.to_owned(),
        disks: disks.collect(),
    };
    let path = save.map_or_else(|| default_path(context, now), Path::to_owned);
    image.store(&path)?;
    for DiskChanges { disk, changes } in all {
        for change in changes {
            write(disk, change.offset, &change.after).map_err(|error| {
                error.hint(format!(
                    "kfed repair --undo {} takes back what was written",
                    path.display()
                ))
            })?;
        }
    }
    Ok(path)
}

/// Writes a block and reads it back.
fn write(disk: &RawDisk, offset: u64, bytes: &Bytes) -> Result<()> {
    let written = disk.write_block(offset, bytes).and_then(|()| read_block(disk, offset));
    match written {
        Ok(found) if found == *bytes => Ok(()),
        Ok(_) => {
            let error = io::Error::other(format!(
                "the block at {offset} holds other bytes than were written"
            ));
            Err(failed(&disk.path, &error))
        }
        Err(error) => Err(failed(&disk.path, &error)),
    }
}

/// Puts back what was there before. Returns what was done, in a sentence.
///
/// # Errors
/// If the file is damaged, a disk is held, or a disk was written since: then nothing is written.
pub(super) fn undo(path: &Path) -> Result<String> {
    let image = BeforeImage::load(path)?;
    let mut all = Vec::new();
    for one in &image.disks {
        let disk = RawDisk::open(Path::new(&one.path))?;
        disk.claim()?;
        let blocks: Vec<Block> = one.blocks.iter().filter_map(BlockImage::decode).collect();
        for block in &blocks {
            let found =
                read_block(&disk, block.offset).map_err(|error| failed(&disk.path, &error))?;
            if found != block.after && block.before.as_ref() != Some(&found) {
                let text = format!(
                    "{}: the block at {} was written since; nothing is put back",
                    disk.path, block.offset
                );
                return Err(AdminError::new(Code::Invalid, text)
                    .hint("what is there now is newer than the file; kfed read shows it")
                    .into());
            }
        }
        all.push((disk, blocks));
    }
    let mut count = 0;
    for (disk, blocks) in &all {
        for block in blocks {
            if let Some(before) = &block.before {
                write(disk, block.offset, before)?;
                count += 1;
            }
        }
    }
    Ok(format!("{} put back on {}", counted(count, "block"), counted(all.len(), "disk")))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn text() -> Vec<u8> {
        serde_json::to_vec(&image()).expect("text")
    }

    fn image() -> BeforeImage {
        let (before, after) = (Box::new([1; BLOCK_SIZE]), Box::new([2; BLOCK_SIZE]));
        let blocks =
            vec![BlockImage::new(0, Some(&before), &after), BlockImage::new(4096, None, &after)];
        BeforeImage {
            plinth_before_image: VERSION,
            made: rfc3339(0),
            command: "repair".to_owned(),
            disks: vec![DiskImage {
                path: "/x".to_owned(),
                device: "y".to_owned(),
                size: 8192,
                blocks,
            }],
        }
    }

    /// A before-image that was cut short at any byte, or had a bit of a block changed, is refused.
    #[test]
    fn a_damaged_before_image_is_refused() {
        let text = text();
        BeforeImage::parse(&text).expect("it is whole");
        for length in (0..text.len()).step_by(97) {
            BeforeImage::parse(&text[..length]).expect_err("it was cut short");
        }
        let mut other = image();
        other.disks[0].blocks[0].checksum ^= 1;
        let text = serde_json::to_vec(&other).expect("text");
        let error = BeforeImage::parse(&text).expect_err("it is damaged");
        assert!(error.contains("at 0 of /x"), "{error}");
    }

    proptest::proptest! {
        /// Any change of a byte: it is refused, or every block in it is whole.
        #[test]
        fn any_bytes_are_survived(at: usize, byte: u8) {
            let mut text = text();
            let length = text.len();
            text[at % length] = byte;
            if let Ok(image) = BeforeImage::parse(&text) {
                image.blocks();
            }
        }
    }

    #[test]
    fn a_before_image_is_not_written_over() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("image");
        image().store(&path).expect("stored");
        image().store(&path).expect_err("it is there");
        BeforeImage::load(&path).expect("it is still whole");
    }
}
