//! The catalog's log after an engine stopped: which mirror to believe, and how to
//! make the database whole from it (R6).
//!
//! Mirrors of the log may differ: the last writes reached some of them, or parts
//! of them. What was acknowledged is on each, within its longest valid prefix.
//!
//!   1. Read the log of each mirror as far as its checksums hold, and cut it after the last commit.
//!   2. Take the longest; copy it to the other mirrors, flush.
//!   3. Write the pages of its last commits into the database, flush.
//!   4. Write zeros over the log's header, flush. Now it is empty.
//!
//! A crash before the flush of 2 leaves the longest where it was; after it, the same prefix on
//! every mirror, whichever of them is lost next. 3 can be repeated. A crash in
//! 4 leaves some mirrors with the whole log, of which nothing is missing in the database.
//!
//! Nothing beyond the prefix can come back: the next log starts with other
//! salts, so no old frame continues it. SQLite itself never recovers here: it
//! is shown an empty log, and so never reads a frame from a disk.
//!
//! The format is SQLite's (<https://sqlite.org/fileformat2.html#walformat>): a
//! header of 32 bytes, then frames of 24 + 4096 bytes; checksums run on from
//! frame to frame; a commit's last frame has the database's size in pages.

use super::store::{CatalogFile, Store, StoreError};
use crate::buffer::Buffer;
use plinth_format::page::{self, PAGE_SIZE};
use std::collections::BTreeMap;

pub(super) const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
pub(super) const FRAME: usize = FRAME_HEADER + PAGE_SIZE;
const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;
const BLOCK: usize = 4096;
/// Read at a time, in bytes: large enough for a disk to be fast.
const WINDOW: usize = 1 << 20;

/// What recovery did, for the alert log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Commits replayed from the log.
    pub commits: u64,
    pub frames: u64,
    /// Mirrors of the log that were brought up to the longest.
    pub mirrors_repaired: usize,
    /// Pages of the database after it; `None` if the log was empty.
    pub pages: Option<u32>,
}

/// The valid, committed prefix of one mirror's log.
struct Prefix {
    bytes: Vec<u8>,
    frames: usize,
    commits: u64,
    pages: u32,
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// SQLite's running checksum over `bytes`, whose length is a multiple of 8.
fn sum(big_endian: bool, mut state: (u32, u32), bytes: &[u8]) -> (u32, u32) {
    for pair in bytes.chunks_exact(8) {
        let word = |at: usize| {
            let word = [pair[at], pair[at + 1], pair[at + 2], pair[at + 3]];
            if big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
        };
        state.0 = state.0.wrapping_add(word(0)).wrapping_add(state.1);
        state.1 = state.1.wrapping_add(word(4)).wrapping_add(state.0);
    }
    state
}

/// Reads one mirror's log as far as it is valid. `None` if it holds no commit.
fn scan(mut read: impl FnMut(u64, usize) -> Option<Buffer>, capacity: u64) -> Option<Prefix> {
    let mut bytes: Vec<u8> = Vec::new();
    // Makes `bytes` reach `end`; false if the mirror does not have them.
    let mut reach = |bytes: &mut Vec<u8>, end: usize| {
        while bytes.len() < end {
            let left = capacity.saturating_sub(bytes.len() as u64);
            let length = usize::try_from(left).unwrap_or(WINDOW).min(WINDOW) / BLOCK * BLOCK;
            if length == 0 {
                return false;
            }
            match read(bytes.len() as u64, length) {
                Some(more) => bytes.extend_from_slice(&more),
                None => return false,
            }
        }
        true
    };
    if !reach(&mut bytes, HEADER) {
        return None;
    }
    let header = &bytes[..HEADER];
    let magic = be32(header, 0);
    let big_endian = magic & 1 == 1;
    let mut state = sum(big_endian, (0, 0), &header[..24]);
    let sane = magic & !1 == MAGIC && be32(header, 4) == VERSION && be32(header, 8) as usize == PAGE_SIZE;
    if !sane || state != (be32(header, 24), be32(header, 28)) {
        return None;
    }
    let salts = bytes[16..24].to_vec();
    let (mut frames, mut commits, mut committed, mut pages) = (0, 0, 0, 0);
    loop {
        let at = HEADER + frames * FRAME;
        if !reach(&mut bytes, at + FRAME) {
            break;
        }
        let frame = &bytes[at..at + FRAME];
        state = sum(big_endian, state, &frame[..8]);
        state = sum(big_endian, state, &frame[FRAME_HEADER..]);
        let number = be32(frame, 0);
        if frame[8..16] != salts[..] || number == 0 || state != (be32(frame, 16), be32(frame, 20)) {
            break;
        }
        frames += 1;
        if be32(frame, 4) != 0 {
            (committed, pages, commits) = (frames, be32(frame, 4), commits + 1);
        }
    }
    if committed == 0 {
        return None;
    }
    bytes.truncate(HEADER + committed * FRAME);
    Some(Prefix { bytes, frames: committed, commits, pages })
}

/// Whether `one` is to be believed rather than `other`.
///
/// Logs with one header differ in length alone. A log that was restarted has the salt that
/// follows its predecessor's, and its first commit is younger than all of that.
fn is_newer(one: &Prefix, other: &Prefix) -> bool {
    let salt = |prefix: &Prefix| be32(&prefix.bytes, 16);
    if one.bytes[..HEADER] != other.bytes[..HEADER] {
        if salt(one) == salt(other).wrapping_add(1) {
            return true;
        }
        if salt(other) == salt(one).wrapping_add(1) {
            return false;
        }
    }
    one.frames > other.frames
}

/// Brings the database up to the last commit in any mirror's log, and empties the log.
///
/// # Errors
/// If no mirror can be written.
pub fn recover(store: &dyn Store) -> Result<Recovery, StoreError> {
    let file = CatalogFile::Wal;
    let capacity = store.capacity(file);
    let mirrors = store.mirrors(file);
    let mut best: Option<Prefix> = None;
    let mut found: Vec<(u8, Option<Vec<u8>>, usize)> = Vec::new();
    for mirror in mirrors {
        // A mirror that cannot be read has a shorter prefix; the others have it.
        let prefix = scan(|offset, length| store.read_mirror(file, mirror, offset, length).ok(), capacity);
        let header = prefix.as_ref().map(|prefix| prefix.bytes[..HEADER].to_vec());
        found.push((mirror, header, prefix.as_ref().map_or(0, |prefix| prefix.frames)));
        if let Some(prefix) = prefix
            && best.as_ref().is_none_or(|best| is_newer(&prefix, best))
        {
            best = Some(prefix);
        }
    }
    let mut recovery = Recovery::default();
    if let Some(best) = best {
        for (mirror, header, frames) in found {
            if header.as_deref() != Some(&best.bytes[..HEADER]) || frames != best.frames {
                copy(store, mirror, &best.bytes)?;
                recovery.mirrors_repaired += 1;
            }
        }
        store.flush()?;
        replay(store, &best)?;
        store.flush()?;
        recovery.commits = best.commits;
        recovery.frames = best.frames as u64;
        recovery.pages = Some(best.pages);
    }
    clear(store)?;
    Ok(recovery)
}

/// Makes the log empty, whatever the disks held before.
///
/// # Errors
/// If no mirror can be written.
pub fn clear(store: &dyn Store) -> Result<(), StoreError> {
    store.write(CatalogFile::Wal, 0, Buffer::zeroed(BLOCK).share())?;
    store.flush()
}

fn copy(store: &dyn Store, mirror: u8, bytes: &[u8]) -> Result<(), StoreError> {
    // The header last: a half-copied log is no log.
    let mut buffer = Buffer::zeroed(bytes.len().next_multiple_of(BLOCK));
    buffer[..bytes.len()].copy_from_slice(bytes);
    let slice = buffer.share();
    let mut at = BLOCK;
    while at < slice.len() {
        let end = (at + WINDOW).min(slice.len());
        store.write_mirror(CatalogFile::Wal, mirror, at as u64, slice.part(at..end))?;
        at = end;
    }
    store.write_mirror(CatalogFile::Wal, mirror, 0, slice.part(0..BLOCK))
}

fn replay(store: &dyn Store, log: &Prefix) -> Result<(), StoreError> {
    let mut latest: BTreeMap<u32, usize> = BTreeMap::new();
    for frame in 0..log.frames {
        let at = HEADER + frame * FRAME;
        latest.insert(be32(&log.bytes, at), at + FRAME_HEADER);
    }
    latest.retain(|number, _| *number <= log.pages);
    let needed = u64::from(log.pages) * PAGE_SIZE as u64;
    if store.capacity(CatalogFile::Database) < needed {
        store.grow(CatalogFile::Database, needed)?;
    }
    let pages = latest.into_iter().map(|(number, at)| (number, log.bytes[at..at + PAGE_SIZE].to_vec()));
    write_pages(store, pages)
}

/// Seals pages, given in ascending order, and writes them in runs.
pub(super) fn write_pages(
    store: &dyn Store,
    pages: impl IntoIterator<Item = (u32, impl AsRef<[u8]>)>,
) -> Result<(), StoreError> {
    let mut runs: Vec<(u64, crate::buffer::Slice)> = Vec::new();
    let (mut first, mut run) = (0_u32, Vec::new());
    let mut close = |first: u32, run: &mut Vec<u8>| {
        if !run.is_empty() {
            let offset = (u64::from(first) - 1) * PAGE_SIZE as u64;
            runs.push((offset, Buffer::copy_of(run).share()));
            run.clear();
        }
    };
    for (number, bytes) in pages {
        let next = first + u32::try_from(run.len() / PAGE_SIZE).expect("a window");
        if number != next || run.len() >= WINDOW {
            close(first, &mut run);
            first = number;
        }
        let start = run.len();
        run.extend_from_slice(bytes.as_ref());
        page::seal(&mut run[start..], number);
    }
    close(first, &mut run);
    store.write_many(CatalogFile::Database, runs)
}
