//! Disputed blocks: two mirrors differ, and each is right by its own checksum.
//!
//! A disk that reports a block of data as written and, later, the checksum block that goes with it,
//! and has written neither, has an old pair that fits. Nothing on it tells it from the pair of the
//! other mirror (docs/decisions/031-two-right-pairs.md says what would). So
//!
//!   1. Neither is overwritten: by a read, a repair, a scrub, or the recovery after a crash. An
//!      ALARM names the place and the candidates, once for each block and mount; every check and
//!      scrub names them again.
//!   2. Readers get the same bytes each time: those of the mirror whose checksums are in memory,
//!      which depends on the extent's number; where most mirrors are known to have others, those.
//!   3. The evidence of a dispute stays on the disks. Memory has the checksums of one zone; when a
//!      region closes, a zone keeps its own checksums of blocks that were not written since, where
//!      the data beside it fits. So each zone is read before it is written for the first time since
//!      the checksums were loaded, and blocks that differ there are compared soon after, before a
//!      client needs them.
//!   4. A mirror of an extent with a dispute does not move, and none is made or taken: that would
//!      decide it.
//!
//! It ends when the block is written or removed, or when all mirrors but one of the candidates are
//! taken away (OFFLINE, DROP ... FORCE).
//!
//! Memory keeps only which disputes were reported.

use crate::{
    disk::member::Member,
    error::FileError,
    event::Severity,
    extent::data::Data,
    extent::{Extent, Mirror, Sums, blocks::Patience},
    limits::Limit,
    reached::{self, Mark},
    space::extent_id::ExtentId,
    sync::lock::Mutex,
};
use plinth_format::{
    BLOCK_SIZE, Block, DiskNumber, Piece,
    checksum::{UNKNOWN, of_block},
};
use std::{
    collections::BTreeSet,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Blocks that are remembered: more are named by checks and scrubs alone.
const KNOWN_MAX: Limit = Limit::new(1 << 16, 4);
/// Blocks that are read at once where zones differ.
const STEP: usize = 256;

/// Blocks of extents that are known to be in dispute.
#[derive(Debug, Default)]
pub(crate) struct Disputes {
    known: Mutex<BTreeSet<(ExtentId, Block)>>,
    /// Their number, so that a caller need not look when it is 0.
    count: AtomicUsize,
}

impl Disputes {
    /// Of some blocks of an extent, these are in dispute. Returns those that were not known to be.
    fn learn(&self, extent: ExtentId, blocks: Range<usize>, disputed: &[Block]) -> Vec<Block> {
        if disputed.is_empty() && self.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut known = self.known.lock();
        let over: Vec<_> = known
            .range((extent, Block(blocks.start))..(extent, Block(blocks.end)))
            .copied()
            .collect();
        over.iter()
            .filter(|(_, block)| !disputed.contains(block))
            .for_each(|key| _ = known.remove(key));
        let mut fresh = Vec::new();
        for block in disputed {
            if known.len() < KNOWN_MAX.get() && known.insert((extent, *block)) {
                fresh.push(*block);
            }
        }
        self.count.store(known.len(), Ordering::Relaxed);
        fresh
    }

    /// Of some blocks of an extent, those that are known to be in dispute.
    fn of(&self, extent: ExtentId, blocks: &Range<usize>) -> Vec<Block> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let known = self.known.lock();
        let here = known.range((extent, Block(blocks.start))..(extent, Block(blocks.end)));
        here.map(|(_, block)| *block).collect()
    }

    /// Blocks of an extent that were written or removed since are no longer in dispute.
    fn forget(&self, extent: ExtentId, is_over: impl Fn(Block) -> bool) {
        if self.count.load(Ordering::Relaxed) > 0 {
            let mut known = self.known.lock();
            known.retain(|(of, block)| *of != extent || !is_over(*block));
            self.count.store(known.len(), Ordering::Relaxed);
        }
    }
}

/// The blocks of one mirror, `None` where they cannot be read.
pub(crate) type Image<'a> = Vec<Option<&'a [u8]>>;

/// The checksums that zones keep of their own when an extent's checksums are written.
#[derive(Debug, Default)]
pub(crate) struct KeptSums {
    /// By disk, the checksums of blocks.
    own: Vec<(DiskNumber, Vec<(Block, u32)>)>,
    /// After the write all mirrors have the same.
    pub agree: bool,
}

impl KeptSums {
    /// Whether any does.
    pub fn is_any(&self) -> bool {
        !self.own.is_empty()
    }

    /// Puts what a disk keeps where it belongs in the bytes of its zone. `None`: nothing.
    pub fn patch(&self, disk: DiskNumber, zone: &[u8]) -> Option<Vec<u8>> {
        let (_, own) = self.own.iter().find(|(of, _)| *of == disk)?;
        let mut bytes = zone.to_vec();
        for (block, sum) in own {
            bytes[block.0 * 4..block.0 * 4 + 4].copy_from_slice(&sum.to_le_bytes());
        }
        Some(bytes)
    }
}

/// Neighbours in a row, of which none is longer than a step.
fn runs(blocks: &[Block]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some(run) if run.end == block.0 && run.len() < STEP => run.end += 1,
            _ => runs.push(block.range()),
        }
    }
    runs
}

impl Data {
    /// Whether some of these blocks are known to be in dispute, and neither written nor removed
    /// since.
    pub(crate) fn is_disputed(&self, extent: &Extent, blocks: &Range<usize>) -> bool {
        let known = self.disputes.of(extent.id, blocks);
        if known.is_empty() {
            return false;
        }
        let sums = extent.sums().clone();
        let is_written = |block| sums.as_ref().is_some_and(|sums| sums.is_fresh(block));
        let (over, held): (Vec<_>, Vec<_>) = known
            .into_iter()
            .partition(|block| !extent.has_piece(block.piece()) || is_written(*block));
        if !over.is_empty() {
            self.disputes.forget(extent.id, |block| over.contains(&block));
        }
        !held.is_empty()
    }

    /// Of the blocks of an extent, some are in dispute: by their place in `images`. Reports those
    /// that were not known. Returns sentences on all.
    pub(crate) fn note_disputes(
        &self,
        extent: &Extent,
        blocks: Range<usize>,
        disputed: &[usize],
        candidates: &[(Mirror, &Arc<Member>)],
        images: &[Image<'_>],
    ) -> Vec<String> {
        let disputed: Vec<Block> =
            disputed.iter().map(|index| Block(blocks.start + index)).collect();
        let fresh = self.disputes.learn(extent.id, blocks.clone(), &disputed);
        let mut texts = Vec::new();
        for run in runs(&disputed) {
            let text = Self::describe(extent, &run, run.start - blocks.start, candidates, images);
            if fresh.iter().any(|block| run.contains(&block.0)) {
                self.tell(Severity::Alarm, None, text.clone());
            }
            texts.push(text);
        }
        texts
    }

    fn describe(
        extent: &Extent,
        run: &Range<usize>,
        index: usize,
        candidates: &[(Mirror, &Arc<Member>)],
        images: &[Image<'_>],
    ) -> String {
        let place = |(mirror, member): &(Mirror, &Arc<Member>)| {
            format!(
                "disk {} ({}), AU {}, offset {}",
                member.name(),
                member.path(),
                mirror.au,
                Self::offset(member, *mirror, Block(run.start))
            )
        };
        // Mirrors with the same bytes stand together.
        let mut sides: Vec<(Option<&[u8]>, Vec<String>)> = Vec::new();
        for (candidate, image) in candidates.iter().zip(images) {
            let bytes = image.get(index).copied().flatten();
            match sides.iter_mut().find(|(other, _)| bytes.is_some() && *other == bytes) {
                Some((_, places)) => places.push(place(candidate)),
                None => sides.push((bytes, vec![place(candidate)])),
            }
        }
        let sides: Vec<String> = sides.iter().map(|(_, places)| places.join(" with ")).collect();
        format!(
            "extent {} of file {}: {} KiB at {} in it are disputed: {} differ, and each is right by its own checksum. One disk has lost a write \
             and its checksum. Neither is overwritten, and reads get the same each time. Write these bytes again, or restore the file; \
             if it is known which disk lies, take that one away: DROP DISK ... FORCE",
            extent.number,
            extent.file,
            (run.len() * BLOCK_SIZE) >> 10,
            run.start * BLOCK_SIZE,
            sides.join(", and ")
        )
    }

    /// Blocks that hold data, that were not written since checksums were loaded, and of which a
    /// zone has another checksum than memory.
    fn differing(&self, extent: &Extent, sums: &Sums, zone: &[u32]) -> Vec<Block> {
        let pieces = extent.state().marked();
        let blocks = pieces.iter().flat_map(Piece::blocks).map(Block);
        let memory: Vec<u32> = sums.all().collect();
        blocks
            .filter(|block| !sums.is_fresh(*block) && zone.get(block.0) != memory.get(block.0))
            .collect()
    }

    /// Point 3: the checksums that each zone of an extent keeps when `sums` are written. Its blocks
    /// are not written meanwhile. A zone on a disk that is silent and cannot be spared is waited
    /// for: it would be written next, and its evidence would be gone.
    ///
    /// # Errors
    /// If the group is dismounted meanwhile.
    pub(crate) async fn sums_to_keep(
        &self,
        extent: &Extent,
        sums: &Sums,
    ) -> Result<KeptSums, FileError> {
        self.disputes.forget(extent.id, |block| sums.is_fresh(block));
        if sums.are_agreed() {
            return Ok(KeptSums { own: Vec::new(), agree: true });
        }
        let pieces = extent.state().marked();
        let all_are_new =
            pieces.iter().flat_map(Piece::blocks).map(Block).all(|block| sums.is_fresh(block));
        // A zone that cannot be read gets all of them, if it takes any; its old content is unknown.
        let all_are_seen = self.mirrors(extent).all(|(_, member)| member.is_readable());
        let mut kept = KeptSums { own: Vec::new(), agree: all_are_seen };
        let readable =
            self.mirrors(extent).filter(|(_, member)| member.is_readable() && !all_are_new);
        for (mirror, member) in readable {
            // It is known what was written there: memory replaces what is there instead
            // (`own_metadata.rs`).
            if sums.are_in(extent.moves(), member.number, member.losses()) {
                continue;
            }
            let Some(zone) = self.read_zone(member, mirror, Patience::UntilExpelled).await? else {
                continue;
            };
            let mut own = Vec::new();
            for run in runs(&self.differing(extent, sums, &zone)) {
                let image =
                    self.read_image(member, mirror, run.clone(), Patience::UntilExpelled).await?;
                for (block, bytes) in run.clone().zip(image.into_iter().flatten()) {
                    let stored = zone[block];
                    if stored != UNKNOWN && bytes.is_some_and(|bytes| of_block(&bytes) == stored) {
                        own.push((Block(block), stored));
                    }
                }
                if !self.is_disputed(extent, &run)
                    && let Some(extent) = self.extents.get(extent.id)
                {
                    self.repairs.add(&extent, run);
                }
            }
            if !own.is_empty() {
                reached::at(Mark::ZoneKept);
                kept.own.push((mirror.disk, own));
                kept.agree = false;
            }
        }
        Ok(kept)
    }

    /// Compares what the zones of an extent differ in: before its mirrors are changed.
    ///
    /// # Errors
    /// If its region cannot be entered; and if it has disputed blocks, point 4.
    pub(crate) async fn must_agree(&self, extent: &Extent) -> Result<(), FileError> {
        self.load_sums(extent).await?;
        let sums = extent.sums().clone();
        let mut differing = BTreeSet::new();
        if let Some(sums) = sums.filter(|sums| !sums.are_agreed()) {
            for (mirror, member) in self.mirrors(extent).filter(|(_, member)| member.is_readable())
            {
                if let Some(zone) = self.read_zone(member, mirror, Patience::UntilExpelled).await? {
                    differing.extend(self.differing(extent, &sums, &zone));
                }
            }
        }
        for run in runs(&differing.into_iter().collect::<Vec<_>>()) {
            let _range = extent.ranges.hold(run.clone(), true).await;
            if extent.is_tombstone() {
                return Ok(());
            }
            let active = self.activate(extent).await?;
            self.load_sums(extent).await?;
            for run in extent.data_in(&run) {
                match self.repair(extent, run, &active).await {
                    Ok(_) | Err(FileError::ExtentLost { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        if self.is_disputed(extent, &(0..self.blocks_per_au())) {
            return Err(FileError::Disputed { file: extent.file, extent: extent.number });
        }
        Ok(())
    }
}
