//! One extent, all its mirrors read and compared with its checksums: what CHECK and SCRUB do with each, and what a mirror that
//! moves is looked at with first.
//!
//! Its blocks are held while they are compared, so that no write is under way in them.

use crate::{
    admin::{Problem, Report},
    disk::{counters::IoClient, disk_io::Settled, member::Member},
    error::FileError,
    extent::{
        Extent, Mirror,
        blocks::{
            BLOCKS_PER_PIECE, Known, Patience,
            cases::{Case, Reason},
        },
        data::Data,
        disputes::Image,
    },
};
use plinth_format::{
    BLOCK_SIZE,
    checksum::{UNKNOWN, of_block},
};
use std::{ops::Range, sync::Arc};

/// Pieces read at once: 1 MiB.
const STEP: usize = 16;

type Result<T> = std::result::Result<T, FileError>;

/// What is wrong with blocks of an extent.
struct Wrong {
    text: String,
    /// A good mirror says what is right.
    can_be_mended: bool,
}

impl Wrong {
    fn of(text: String) -> Self {
        Self { text, can_be_mended: true }
    }
}

fn place_of(mirror: Mirror, member: &Member) -> String {
    format!("disk {} ({}), AU {}", member.name(), member.path(), mirror.au)
}

impl Data {
    /// Reads all mirrors of an extent, and says what is wrong; with `repair` it mends what it can.
    pub(crate) async fn check_data(
        &self,
        extent: &Arc<Extent>,
        repair: bool,
        report: &mut Report,
    ) -> Result<()> {
        self.recover_extent(extent).await?;
        let mut piece = 0;
        let pieces = self.blocks_per_au() / BLOCKS_PER_PIECE;
        while !extent.is_tombstone() {
            self.load_sums(extent).await?;
            let Some((held, run)) = extent.hold_data(piece..pieces, STEP, false).await else {
                break;
            };
            let blocks = run.start * BLOCKS_PER_PIECE..run.end * BLOCKS_PER_PIECE;
            let (wrong, unsettled) = self.compare_blocks(extent, blocks.clone(), report).await?;
            drop(held);
            if !wrong.is_empty() || unsettled {
                let can_be_mended = unsettled || wrong.iter().any(|wrong| wrong.can_be_mended);
                let repaired =
                    repair && can_be_mended && self.repair_blocks(extent, blocks).await?;
                let problem = |wrong: Wrong| Problem {
                    text: wrong.text,
                    repaired: repaired && wrong.can_be_mended,
                };
                report.problems.extend(wrong.into_iter().map(problem));
            }
            piece = run.end;
        }
        Ok(())
    }

    /// What is wrong with blocks on some mirror; and whether a stored checksum differs in a region that is being written, so that it may be
    /// wrong or about to be. The caller holds them.
    async fn compare_blocks(
        &self,
        extent: &Extent,
        blocks: Range<usize>,
        report: &mut Report,
    ) -> Result<(Vec<Wrong>, bool)> {
        if extent.is_tombstone() {
            return Ok((Vec::new(), false));
        }
        let owner = format!("extent {} of file {}", extent.number, extent.file);
        let (mut wrong, mut unsettled, mut is_partial) = (Vec::new(), false, false);
        let (mut candidates, mut buffers, mut zones) = (Vec::new(), Vec::new(), Vec::new());
        // What zones have counts where nothing newer is in memory, before they are read and after.
        let mut is_settled = !self.activity.has(extent.id) && !extent.is_dirty();
        for (mirror, member) in self.mirrors(extent).filter(|(_, member)| member.is_readable()) {
            let offset = Self::offset(member, mirror, blocks.start);
            match member
                .start_read(offset, blocks.len() * BLOCK_SIZE)
                .of(IoClient::Checks)
                .settle()
                .await
            {
                Settled::Ok(Some(buffer)) => {
                    report.bytes_read += buffer.len() as u64;
                    zones.push(self.read_zone(member, mirror, Patience::Deadline).await?);
                    buffers.push(buffer);
                    candidates.push((mirror, member));
                }
                bad => {
                    is_partial = true;
                    wrong.push(Wrong::of(format!(
                        "{}: {}; {owner}",
                        place_of(mirror, member),
                        bad.reason()
                    )));
                }
            }
        }
        is_settled &= !self.activity.has(extent.id) && !extent.is_dirty();
        let images: Vec<Image<'_>> = buffers
            .iter()
            .map(|buffer| buffer.chunks_exact(BLOCK_SIZE).map(Some).collect())
            .collect();
        let known = Known::of(extent, &blocks);
        if !known.is_loaded() {
            return Ok((wrong, unsettled));
        }
        unsettled |= candidates.iter().any(|(mirror, member)| {
            member.is_mend_uncertain(
                Self::offset(member, *mirror, blocks.start),
                (blocks.len() * BLOCK_SIZE) as u64,
            )
        });
        let (mut bad_zones, mut disputed) = (vec![0; candidates.len()], Vec::new());
        for index in 0..blocks.len() {
            let shown = images.iter().map(|image| image[index]).collect();
            let evidence = known.evidence(index, Reason::Repair, shown, &zones);
            let (case, right) = evidence.judge();
            unsettled |= known.sum(index) == UNKNOWN;
            let mut differing = |what: &str, right: Option<&[u8]>| {
                let others =
                    candidates.iter().zip(&evidence.mirrors).filter(|(_, image)| **image != right);
                for ((mirror, member), _) in others {
                    let at = Self::offset(member, *mirror, blocks.start + index);
                    wrong.push(Wrong::of(format!(
                        "{}, offset {at}: 4 KiB {what}; {owner}",
                        place_of(*mirror, member)
                    )));
                }
            };
            match case {
                Case::Rivals => {
                    disputed.push(index);
                    if let Some(right) = right {
                        extent.prefer_sum(blocks.start + index, of_block(right));
                    }
                    continue;
                }
                Case::Lost => differing("do not match their checksum", None),
                // A write of them failed: as the mirrors before have them.
                Case::Lowest | Case::Unchecked if !self.activity.has(extent.id) => {
                    differing("differ from another mirror's, and have no checksum", right);
                }
                Case::ByMemory | Case::ByZone => differing("do not match their checksum", right),
                Case::BadChecksum
                | Case::Lowest
                | Case::Unchecked
                | Case::Equal
                | Case::Unreadable => {}
            }
            if let (Some(right), Case::ByMemory | Case::ByZone | Case::BadChecksum) = (right, case)
            {
                let sum = of_block(right);
                let checked = zones.iter().map(Option::is_some);
                for ((bad, stored), checked) in
                    bad_zones.iter_mut().zip(&evidence.stored).zip(checked)
                {
                    *bad += usize::from(checked && *stored != sum);
                }
            }
        }
        for ((mirror, member), count) in
            candidates.iter().zip(bad_zones).filter(|(_, count)| *count > 0)
        {
            if is_settled {
                let text = format!(
                    "{}: its checksum block is wrong for {count} blocks",
                    place_of(*mirror, member)
                );
                wrong.push(Wrong::of(format!("{text}; {owner}")));
            } else {
                unsettled = true;
            }
        }
        if is_partial && disputed.is_empty() {
            // What was in dispute with what cannot be seen stays so.
            return Ok((wrong, unsettled));
        }
        let disputes = self.note_disputes(extent, blocks, &disputed, &candidates, &images);
        wrong.extend(disputes.into_iter().map(|text| Wrong { text, can_be_mended: false }));
        Ok((wrong, unsettled))
    }

    async fn repair_blocks(&self, extent: &Extent, blocks: Range<usize>) -> Result<bool> {
        let _range = extent.ranges.hold(blocks.clone(), true).await;
        if extent.is_tombstone() {
            return Ok(true);
        }
        let active = self.activate(extent).await?;
        self.load_sums(extent).await?;
        let mut is_whole = true;
        for run in extent.data_in(&blocks) {
            match self.mend(extent, run, &active).await {
                Ok(is_mended) => {
                    // Checksum blocks are rewritten when the region closes.
                    extent.mark_dirty();
                    is_whole &= is_mended;
                }
                Err(FileError::ExtentLost { .. }) => is_whole = false,
                Err(error) => return Err(error),
            }
        }
        Ok(is_whole)
    }
}
