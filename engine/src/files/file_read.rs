//! Reading files.
//!
//! Nearly every read is of one run of blocks of one extent, whose checksums are in memory and which
//! are not being written: it waits for nothing but its disk. Then all that comes before is done
//! without an `await`, and so is all that comes after.
//!
//! The reason is the size of futures: a future is as large as its largest state, and each `await`
//! moves it twice; with nested calls each read moved six times its size. So the rare paths of a
//! read (layouts to be loaded, holes, several extents, ranges that are written, mirrors that fail,
//! repairs) are boxed, allocated only when they are taken (`Box::pin`).

use crate::{
    disk::counters::IoClient,
    error::FileError,
    extent::{
        Extent,
        blocks::{FirstMirror, MirrorAnswer, PendingRead, blocks_of},
        layout::ExtentPart,
    },
    files::{File, file_system::FileSystem},
    reached::{self, Mark},
    sync::{
        buffer::{Buffer, Slice},
        ranges::RangeGuard,
        transfer::Found,
    },
};
use plinth_format::{BLOCK_SIZE, Piece, layout::PIECE_SIZE};
use std::{
    future::poll_fn,
    ops::Range,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Bytes read at once from one extent.
const READ_MAX: u64 = 1 << 20;

type Result<T> = std::result::Result<T, FileError>;

/// Whether the first pieces of a part of an extent hold data, and up to where it is so, or so much
/// at once.
fn run_of_pieces(extent: &Extent, part: &Range<u64>) -> (bool, u64) {
    let has = extent.has_piece(Piece::at(part.start));
    let mut end = part.start;
    while end < part.end && extent.has_piece(Piece::at(end)) == has && end - part.start < READ_MAX {
        end = ((end / PIECE_SIZE) + 1) * PIECE_SIZE;
    }
    (has, end.min(part.end))
}

/// Of the blocks that some bytes of an extent are in, these bytes.
fn cut(blocks: Buffer, inside: &Range<u64>) -> Slice {
    let bytes = |length: u64| usize::try_from(length).expect("inside an extent");
    let skip = bytes(inside.start % BLOCK_SIZE as u64);
    blocks.share().part(skip..skip + bytes(inside.end - inside.start))
}

/// How many bytes there are to read.
fn length_to_end(file: &File, offset: u64, length: usize) -> usize {
    usize::try_from(file.size().saturating_sub(offset)).unwrap_or(usize::MAX).min(length)
}

impl FileSystem {
    /// Bytes from `offset` of a file; fewer than `length` only at its end. `now` by the monotonic
    /// clock, which is not looked at more often than needed.
    pub(crate) async fn read_file(
        &self,
        now: Duration,
        file: &Arc<File>,
        offset: u64,
        length: usize,
    ) -> Result<Found> {
        'steady: {
            let Some(layout) = file.data.layout.try_read().filter(|layout| layout.loaded) else {
                break 'steady;
            };
            let length = length_to_end(file, offset, length);
            let Some((extent, inside)) = layout.within_one(offset, length, self.au_size) else {
                break 'steady;
            };
            let Some(range) = self.hold_steady(extent, &inside, false) else { break 'steady };
            let Some(mut asked) = self.begin_read(
                now,
                extent,
                blocks_of(&inside),
                IoClient::Files,
                FirstMirror::Policy,
            ) else {
                break 'steady;
            };
            return match poll_fn(|context| asked.poll_answer(self, context)).await {
                MirrorAnswer::Good(buffer) => Ok(cut(buffer, &inside).into()),
                answer => {
                    match Box::pin(self.read_otherwise(
                        extent,
                        blocks_of(&inside),
                        range,
                        asked,
                        answer,
                    ))
                    .await?
                    {
                        Some(blocks) => Ok(cut(blocks, &inside).into()),
                        None => break 'steady,
                    }
                }
            };
        }
        Box::pin(self.read_parts(file, offset, length)).await
    }

    /// Holds the blocks of some bytes of an extent, if reading or overwriting them has to wait for
    /// nothing but disks.
    pub(crate) fn hold_steady<'a>(
        &self,
        extent: &'a Extent,
        inside: &Range<u64>,
        exclusive: bool,
    ) -> Option<RangeGuard<'a>> {
        if self.is_suspect_extent(extent.id) || !extent.has_sums() {
            return None;
        }
        extent.last_used.store(self.ticks.load(Ordering::Relaxed), Ordering::Relaxed);
        let range = extent.ranges.try_hold(blocks_of(inside), exclusive)?;
        // Looked at while they are held: a hole may have been punched, or the file removed.
        let is_steady =
            run_of_pieces(extent, inside) == (true, inside.end) && !extent.is_tombstone();
        is_steady.then_some(range)
    }

    /// Any read.
    async fn read_parts(&self, file: &Arc<File>, offset: u64, length: usize) -> Result<Found> {
        let layout = self.loaded_layout(file).await?;
        let parts = layout.parts(offset, length_to_end(file, offset, length), self.au_size);
        let all =
            futures::future::try_join_all(parts.iter().map(|part| self.read_part(part))).await?;
        // A hole here may exist only in memory, because the commit that made it failed.
        self.must_not_be_uncertain(file)?;
        // Parts are in the order of extents, which is not that of the file where it is striped.
        if parts.iter().all(|part| part.more.is_empty())
            && parts.is_sorted_by_key(|part| part.range.start)
        {
            let mut whole = Found::default();
            all.into_iter().for_each(|found| whole.append(found));
            return Ok(whole);
        }
        Ok(Found::interleaved(
            all.into_iter().zip(parts.iter().map(|part| part.ranges().collect())),
        ))
    }

    pub(crate) async fn read_part(&self, part: &ExtentPart) -> Result<Found> {
        let bytes = |length: u64| usize::try_from(length).expect("inside an extent");
        let mut found = Found::default();
        let Some(extent) = &part.extent else {
            found.push_zeros(bytes(part.inside.end - part.inside.start));
            return Ok(found);
        };
        self.recover_extent(extent).await?;
        let mut at = part.inside.start;
        while at < part.inside.end {
            let (has, end) = run_of_pieces(extent, &(at..part.inside.end));
            if has {
                // There may be a hole by now.
                let Some(blocks) = self.read_checked(extent, blocks_of(&(at..end))).await? else {
                    continue;
                };
                found.push(cut(blocks, &(at..end)));
            } else {
                found.push_zeros(bytes(end - at));
            }
            at = end;
        }
        Ok(found)
    }

    /// Reads blocks. What is wrong on a mirror is repaired: behind the caller's back if another had
    /// it right, before the caller's eyes if not. `None`: not all of them hold data any more.
    pub(crate) async fn read_checked(
        &self,
        extent: &Arc<Extent>,
        blocks: Range<usize>,
    ) -> Result<Option<Buffer>> {
        self.load_sums(extent).await?;
        let range = self.hold(extent, blocks.clone(), false).await;
        if extent.is_tombstone() {
            return Err(self.given_up(extent));
        }
        if !extent.is_data(&blocks) {
            return Ok(None);
        }
        let now = self.world.monotonic();
        let Some(mut asked) =
            self.begin_read(now, extent, blocks.clone(), IoClient::Files, FirstMirror::Policy)
        else {
            return Err(self.lost(extent, 0));
        };
        match poll_fn(|context| asked.poll_answer(self, context)).await {
            MirrorAnswer::Good(buffer) => Ok(Some(buffer)),
            answer => Box::pin(self.read_otherwise(extent, blocks, range, asked, answer)).await,
        }
    }

    /// Goes on when the first mirror did not have the blocks, whose range is held. `None` as for
    /// [`Self::read_checked`].
    async fn read_otherwise(
        &self,
        extent: &Arc<Extent>,
        blocks: Range<usize>,
        range: RangeGuard<'_>,
        asked: PendingRead<'_>,
        answer: MirrorAnswer,
    ) -> Result<Option<Buffer>> {
        if let Some(read) = self.ask_others(asked, answer).await? {
            reached::at(Mark::ReadElsewhere);
            if read.wrong && !self.is_disputed(extent, &blocks) {
                self.repairs.add(extent, blocks);
            }
            return Ok(Some(read.buffer));
        }
        drop(range);
        let _range = self.hold(extent, blocks.clone(), true).await;
        if extent.is_tombstone() {
            return Err(self.given_up(extent));
        }
        if !extent.is_data(&blocks) {
            return Ok(None);
        }
        reached::at(Mark::ReadRepaired);
        let active = self.activate(extent).await?;
        self.load_sums(extent).await?;
        self.repair(extent, blocks, &active).await.map(Some)
    }
}
