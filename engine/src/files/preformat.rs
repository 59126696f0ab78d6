//! Files of PREFORMATTED templates: the space that they get is written with zeros.
//!
//! A file's space is reserved in the group when it is allocated, but a thin device gives blocks
//! only for what is written. A file of a PREFORMATTED template has them from the first: a pool that
//! is full is found when the file gets its space, and no write is the first one at its place.
//!
//!   1. The file gets extents as any other (`allocation.rs`), never a slot.
//!   2. Pieces of them without data are written with zeros on all mirrors, and marked: one commit
//!      for each extent. From then on they are data: moves, resyncs and scrubs take them along.
//!   3. The request goes on: a write is carried out, `fallocate` is answered.
//!
//! In 2 the layout is held shared, and the blocks of one extent at a time: others use the file
//! meanwhile, and a piece that one of them wrote first is left alone.
//!
//! A crash before 3 leaves extents with fewer marks, of a request that was not acknowledged. If 2
//! fails for `fallocate`, the extents that it added behind the end of the file are given back.
//!
//! Zeros are as durable as other writes: after a loss of power, those that no sync covered are
//! holes again. A hole that a program punches is one here too, and gives its space back; writing
//! there, and `fallocate`, fill it. `truncate` makes a file longer by a hole, as everywhere.

use crate::{
    error::FileError,
    extent::{self, Extent},
    files::{File, allocation::must_be_there, file_system::FileSystem},
    sync::buffer::Buffer,
};
use plinth_format::{BLOCK_SIZE, Block, Piece, layout::BLOCKS_PER_PIECE};
use std::{ops::Range, sync::Arc};

type Result<T> = std::result::Result<T, FileError>;

/// Pieces of one write: a mebibyte.
const PIECES_AT_ONCE: usize = 16;
/// Writes in flight at the same time.
const WRITES_AT_ONCE: usize = 4;

impl FileSystem {
    /// Writes zeros to what holds no data of the extents that a file has just got.
    pub(crate) async fn preformat_extents(&self, file: &Arc<File>, numbers: &[u64]) -> Result<()> {
        let began = self.failed_flushes.flush_epoch();
        let mut done = Ok(());
        for number in numbers {
            let layout = self.loaded_layout(file).await?;
            if let Some(extent) = layout.extents.get(number) {
                done = self.fill_holes(file, extent, 0..self.au_size).await;
            }
            if done.is_err() {
                break;
            }
        }
        file.data.unsynced.note(began, self.failed_flushes.flush_epoch());
        done
    }

    /// The same for a range of the file, whichever extents it has there.
    pub(crate) async fn preformat_range(&self, file: &Arc<File>, range: Range<u64>) -> Result<()> {
        let stripes = self.loaded_layout(file).await?.stripes(self.au_size);
        for (number, inside) in stripes.touched(range.start, range.end) {
            let layout = self.loaded_layout(file).await?;
            if let Some(extent) = layout.extents.get(&number) {
                self.fill_holes(file, extent, inside).await?;
            }
        }
        Ok(())
    }

    /// Writes zeros to the pieces of one extent, in a range of its bytes, that hold no data, and
    /// marks them.
    async fn fill_holes(
        &self,
        file: &Arc<File>,
        extent: &Arc<Extent>,
        inside: Range<u64>,
    ) -> Result<()> {
        self.recover_extent(extent).await?;
        let pieces = Piece::at(inside.start).0..Piece::at(inside.end - 1).0 + 1;
        let blocks = pieces.start * BLOCKS_PER_PIECE..pieces.end * BLOCKS_PER_PIECE;
        let _range = self.hold(extent, blocks, true).await;
        if extent.is_tombstone() {
            return Err(self.given_up(extent));
        }
        let holes: Vec<Piece> =
            pieces.map(Piece).filter(|piece| !extent.has_piece(*piece)).collect();
        if holes.is_empty() {
            return Ok(());
        }
        let active = self.activate(extent).await?;
        let zeros = Buffer::zeroed(PIECES_AT_ONCE * BLOCKS_PER_PIECE * BLOCK_SIZE).share();
        // If this fails, they are holes as before, and are discarded.
        let let_go = |_: &FileError| self.discards.note(extent.id, holes.iter().copied());
        for runs in runs_of(&holes).chunks(WRITES_AT_ONCE) {
            let writes = runs.iter().map(|run| {
                let bytes = run.len() * BLOCKS_PER_PIECE * BLOCK_SIZE;
                let first = Block(run.start * BLOCKS_PER_PIECE);
                self.write_blocks(extent, first, zeros.part(0..bytes), false, &active)
            });
            // All of them to their ends: the range may not be released while I/O is in flight.
            let written: Result<()> = futures::future::join_all(writes).await.into_iter().collect();
            written.inspect_err(let_go)?;
        }
        let (owner, marked, pieces) = (Arc::clone(file), Arc::clone(extent), holes.clone());
        let commit = self.catalog.write(false, move |connection| {
            must_be_there(connection, &owner)?;
            extent::change_marks(connection, &marked, |_, pending| {
                pieces.iter().for_each(|piece| pending.add(*piece));
            })?;
            Ok(())
        });
        let ((), commit) =
            commit.await.inspect_err(|_| self.note_uncertain(file)).inspect_err(let_go)?;
        file.committed(commit);
        Ok(())
    }
}

/// Runs of consecutive pieces, of [`PIECES_AT_ONCE`] at most.
fn runs_of(pieces: &[Piece]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for piece in pieces {
        match runs.last_mut() {
            Some(run) if run.end == piece.0 && run.len() < PIECES_AT_ONCE => run.end += 1,
            _ => runs.push(piece.0..piece.0 + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_written_in_runs_of_a_mebibyte() {
        let pieces: Vec<_> = (0..20).chain([22, 23, 40]).map(Piece).collect();
        assert_eq!(runs_of(&pieces), [0..16, 16..20, 22..24, 40..41]);
        assert!(runs_of(&[]).is_empty());
    }
}
