//! The catalog's log after an engine stopped: which mirror counts, and how the database is made
//! whole from it (R6).
//!
//! Mirrors of the log may differ: the last writes reached some of them, or parts of them.
//! Acknowledged commits are on each, within its longest valid prefix.
//!
//!   1. Read the log of each mirror as far as its checksums are right, and cut it after the last
//!      commit. If no mirror can be read up to its end, acknowledged commits may follow the part
//!      that was read: refuse, unless FORCE.
//!   2. Take the log that counts ([`decide`]), as a rule the longest; copy it to the other mirrors,
//!      flush.
//!   3. Write the pages of its last commits into the database, flush.
//!   4. Write zeros over the log's header, flush. Now it is empty.
//!
//! A crash before the flush of 2 leaves the longest log where it was; a crash after it leaves the
//! same prefix on every mirror, whichever of them is lost next. 3 can be repeated. A crash in 4
//! leaves some mirrors with the whole log, of which every commit is in the database.
//!
//! Nothing beyond the prefix can come back: the next log starts with other salts, so no old frame
//! continues it. SQLite itself never recovers here: it gets an empty log, and so never reads a
//! frame from a disk.
//!
//! The format is SQLite's (<https://sqlite.org/fileformat2.html#walformat>): a
//! header of 32 bytes, then frames of 24 + 4096 bytes; checksums run on from
//! frame to frame; a commit's last frame has the database's size in pages.

use super::{
    CatalogError,
    store::{CatalogFile, Store, StoreError},
};
use crate::{
    planted::{self, Bug},
    sync::buffer::Buffer,
};
use plinth_format::page::{self, PAGE_SIZE};
use std::collections::BTreeMap;

pub(super) const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
pub(super) const FRAME: usize = FRAME_HEADER + PAGE_SIZE;
const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;
const BLOCK: usize = 4096;
/// Bytes read at a time: enough for the full throughput of a disk.
const WINDOW: usize = 1 << 20;

/// The result of a recovery, for the alert log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovery {
    pub case: LogChoice,
    /// Commits replayed from the log.
    pub commits: u64,
    pub frames: u64,
    /// Mirrors of the log to which missing commits were copied.
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

impl Prefix {
    fn log(&self) -> Log {
        Log { header: self.bytes[..HEADER].try_into().expect("a header"), frames: self.frames }
    }
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

/// The result of scanning the log of one mirror.
struct Scanned {
    /// `None` if it holds no commit.
    prefix: Option<Prefix>,
    /// The end of the valid part was read; otherwise the log cannot be read there.
    whole: bool,
}

/// Reads one mirror's log as far as it is valid.
fn scan(mut read: impl FnMut(u64, usize) -> Option<Buffer>, capacity: u64) -> Scanned {
    let mut hidden = false;
    let prefix = prefix_of(&mut read, capacity, &mut hidden);
    Scanned { prefix, whole: !hidden }
}

fn prefix_of(
    read: &mut impl FnMut(u64, usize) -> Option<Buffer>,
    capacity: u64,
    hidden: &mut bool,
) -> Option<Prefix> {
    let mut bytes: Vec<u8> = Vec::new();
    // Makes `bytes` reach `end`; false if the mirror does not have them.
    let mut reach = |bytes: &mut Vec<u8>, end: usize| {
        while bytes.len() < end {
            let left = capacity.saturating_sub(bytes.len() as u64);
            let length = usize::try_from(left).unwrap_or(WINDOW).min(WINDOW) / BLOCK * BLOCK;
            if length == 0 {
                return false;
            }
            // A block that cannot be read must not hide the ones before it.
            let at = bytes.len() as u64;
            match read(at, length).or_else(|| read(at, BLOCK)) {
                Some(more) => bytes.extend_from_slice(&more),
                None => {
                    *hidden = true;
                    return false;
                }
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
    let sane =
        magic & !1 == MAGIC && be32(header, 4) == VERSION && be32(header, 8) as usize == PAGE_SIZE;
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

/// How many mirrors hold a log with a commit in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holders {
    None,
    Some,
    All,
}

/// How the logs are related.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// One log, as far as it goes.
    Same,
    /// One log was restarted after the other: its salt follows the other's, and its first commit is
    /// younger than the whole other log.
    Restarted,
    /// It is not known which is younger.
    Unrelated,
}

/// Whether the end of the log is known: acknowledged commits are on every mirror, so none is
/// missing if one mirror can be read up to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Seen,
    /// No mirror can be read up to its end.
    Hidden,
    /// Likewise, and the operator gave up the commits that may follow.
    Waived,
}

/// The facts of the table of logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Facts {
    pub holders: Holders,
    pub relation: Relation,
    /// Their committed parts differ in length.
    pub lengths_differ: bool,
    pub end: End,
}

/// The log that counts: a row of the table of logs in docs/format.md, section 8.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogChoice {
    /// No mirror has a commit: the database is whole without a log.
    #[default]
    Empty,
    /// Every mirror has the same log.
    Agreed,
    /// The longest part of one log.
    Longest,
    /// The log that was started last, however short.
    Youngest,
    /// The longest of unrelated logs.
    Unrelated,
    /// None: commits may be missing in each log.
    HiddenEnd,
}

/// The table.
#[must_use]
pub fn decide(facts: Facts) -> LogChoice {
    if facts.end == End::Hidden {
        return LogChoice::HiddenEnd;
    }
    match (facts.holders, facts.relation, facts.lengths_differ) {
        (Holders::None, ..) => LogChoice::Empty,
        (Holders::All, Relation::Same, false) => LogChoice::Agreed,
        (_, Relation::Same, _) => LogChoice::Longest,
        (_, Relation::Restarted, _) => LogChoice::Youngest,
        (_, Relation::Unrelated, _) => LogChoice::Unrelated,
    }
}

/// The facts of one mirror's log that the table of logs needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Log {
    header: [u8; HEADER],
    frames: usize,
}

impl Log {
    fn salt(&self) -> u32 {
        be32(&self.header, 16)
    }

    fn follows(&self, other: &Self) -> bool {
        self.header != other.header && self.salt() == other.salt().wrapping_add(1)
    }
}

/// The case, and the mirror whose log counts.
fn choose(mirrors: &[Option<Log>], end: End) -> (LogChoice, Option<usize>) {
    let logs: Vec<(usize, Log)> =
        mirrors.iter().enumerate().filter_map(|(at, log)| Some((at, (*log)?))).collect();
    let unsurpassed: Vec<_> =
        logs.iter().filter(|(_, log)| !logs.iter().any(|(_, other)| other.follows(log))).collect();
    let one_header =
        |logs: &[&(usize, Log)]| logs.windows(2).all(|pair| pair[0].1.header == pair[1].1.header);
    let relation = match (one_header(&logs.iter().collect::<Vec<_>>()), one_header(&unsurpassed)) {
        (true, _) => Relation::Same,
        (false, true) => Relation::Restarted,
        (false, false) => Relation::Unrelated,
    };
    let holders = match logs.len() {
        0 => Holders::None,
        count if count == mirrors.len() => Holders::All,
        _ => Holders::Some,
    };
    let lengths_differ = logs.windows(2).any(|pair| pair[0].1.frames != pair[1].1.frames);
    let case = decide(Facts { holders, relation, lengths_differ, end });
    let longest = unsurpassed.iter().rev().max_by_key(|(_, log)| log.frames);
    (case, longest.map(|(at, _)| *at))
}

/// Brings the database up to the last commit in any mirror's log, and empties the log.
///
/// # Errors
/// If no mirror can be written, or read up to the log's end; with `force` a log that ends early is
/// used.
pub fn recover(store: &dyn Store, force: bool) -> Result<Recovery, CatalogError> {
    let file = CatalogFile::Wal;
    let capacity = store.capacity(file);
    let mirrors = store.mirrors(file);
    // A mirror that cannot be read has no log, or a shorter one; the other mirrors have it.
    let scanned: Vec<(u8, Scanned)> = mirrors
        .into_iter()
        .map(|mirror| {
            (
                mirror,
                scan(
                    |offset, length| store.read_mirror(file, mirror, offset, length).ok(),
                    capacity,
                ),
            )
        })
        .collect();
    let end = match (scanned.iter().any(|(_, log)| log.whole), force) {
        (true, _) => End::Seen,
        (false, false) => End::Hidden,
        (false, true) => End::Waived,
    };
    let found: Vec<(u8, Option<Prefix>)> =
        scanned.into_iter().map(|(mirror, log)| (mirror, log.prefix)).collect();
    let logs: Vec<Option<Log>> =
        found.iter().map(|(_, prefix)| prefix.as_ref().map(Prefix::log)).collect();
    let (case, mut chosen) = choose(&logs, end);
    if planted::has(Bug::FirstLogBelieved) {
        chosen = logs.iter().position(Option::is_some);
    }
    if case == LogChoice::HiddenEnd {
        return Err(CatalogError::LogHidden);
    }
    let mut recovery = Recovery { case, ..Recovery::default() };
    if let Some(best) = chosen.and_then(|index| found[index].1.as_ref()) {
        for ((mirror, _), log) in found.iter().zip(&logs) {
            if *log != Some(best.log()) {
                copy(store, *mirror, &best.bytes)?;
                recovery.mirrors_repaired += 1;
            }
        }
        store.flush()?;
        replay(store, best)?;
        if !planted::has(Bug::LogEmptiedEarly) {
            store.flush()?;
        }
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
    // The header last: a half-copied log must not be valid.
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
    let pages =
        latest.into_iter().map(|(number, at)| (number, log.bytes[at..at + PAGE_SIZE].to_vec()));
    write_pages(store, pages)
}

/// A number for the writes of pages that is higher than that of any earlier engine; the writer
/// counts up from it.
pub(crate) fn first_write(store: &dyn Store) -> u64 {
    store.epoch() << 32
}

/// Seals pages, given in ascending order, and writes them in runs.
pub(super) fn write_pages(
    store: &dyn Store,
    pages: impl IntoIterator<Item = (u32, impl AsRef<[u8]>)>,
) -> Result<(), StoreError> {
    let write = first_write(store);
    let mut runs: Vec<(u64, crate::sync::buffer::Slice)> = Vec::new();
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
        page::seal(&mut run[start..], number, write);
    }
    close(first, &mut run);
    store.write_many(CatalogFile::Database, runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::cases::{Table, case, combinations, fact};

    fn log(salt: u32, frames: usize) -> Option<Log> {
        let mut header = [0; HEADER];
        header[16..20].copy_from_slice(&salt.to_be_bytes());
        Some(Log { header, frames })
    }

    /// Every content of up to three mirrors, in every order, matches exactly one row of the table,
    /// whose case and log are chosen.
    #[test]
    fn every_combination_of_logs_is_one_case() {
        let mut table = Table::read("log case");
        let values = [
            None,
            log(5, 1),
            log(5, 2),
            log(6, 1),
            log(6, 3),
            log(7, 1),
            log(0, 2),
            log(u32::MAX, 4),
            log(100, 1),
        ];
        for count in 1..=3 {
            for mirrors in combinations(&values, count) {
                // The facts, derived in another way than in the code.
                let held: Vec<(u32, usize)> =
                    mirrors.iter().flatten().map(|log| (log.salt(), log.frames)).collect();
                let is_last =
                    |salt: u32| !held.iter().any(|(other, _)| *other == salt.wrapping_add(1));
                let mut last: Vec<u32> =
                    held.iter().map(|(salt, _)| *salt).filter(|salt| is_last(*salt)).collect();
                last.sort_unstable();
                last.dedup();
                let relation = match last.len() {
                    0 | 1 if held.windows(2).all(|pair| pair[0].0 == pair[1].0) => Relation::Same,
                    1 => Relation::Restarted,
                    _ => Relation::Unrelated,
                };
                let holders = match held.len() {
                    0 => Holders::None,
                    held if held == count => Holders::All,
                    _ => Holders::Some,
                };
                let lengths_differ = held.windows(2).any(|pair| pair[0].1 != pair[1].1);
                for end in [End::Seen, End::Hidden, End::Waived] {
                    let row = table.case(&[
                        fact(holders),
                        fact(relation),
                        fact(lengths_differ),
                        fact(end),
                    ]);
                    assert_eq!(case(choose(&mirrors, end).0), row, "{mirrors:?} {end:?}");
                }
                let (_, chosen) = choose(&mirrors, End::Seen);
                let longest = held
                    .iter()
                    .filter(|(salt, _)| last.contains(salt))
                    .map(|(_, frames)| *frames)
                    .max();
                let chosen = chosen.and_then(|index| mirrors[index]);
                assert_eq!(chosen.map(|log| log.frames), longest, "{mirrors:?}");
                assert!(chosen.is_none_or(|log| last.contains(&log.salt())), "{mirrors:?}");
            }
        }
        table.end();
    }
}
