//! Checks one extent: reads all its mirrors and compares them with its checksums. CHECK and SCRUB
//! do this with each extent, and it is done before a mirror is taken away.
//!
//! The blocks are held while they are compared, so that no write is in flight in them.

use crate::{
    admin::{Problem, Report},
    disk::{counters::IoClient, disk_io::IoResult, member::Member},
    error::FileError,
    extent::{
        Extent, Mirror,
        blocks::{
            BLOCKS_PER_PIECE, Known, Patience,
            cases::{Case, Evidence, Reason},
        },
        data::Data,
        disputes::Image,
    },
    sync::buffer::Buffer,
};
use plinth_format::{
    BLOCK_SIZE, Block,
    checksum::{UNKNOWN, of_block},
};
use std::{ops::Range, sync::Arc};

/// Pieces read at once: 1 MiB.
const STEP: usize = 16;

type Result<T> = std::result::Result<T, FileError>;

/// A fault of blocks of an extent.
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

/// The result of comparing blocks.
#[derive(Default)]
struct Differences {
    wrong: Vec<Wrong>,
    /// A stored checksum differs in a region that is being written: it may be wrong, or about to be
    /// replaced.
    is_undecided: bool,
}

/// The blocks of mirrors, and their zones, as far as they can be read.
#[derive(Default)]
struct Shown<'a> {
    mirrors: Vec<(Mirror, &'a Arc<Member>)>,
    buffers: Vec<Buffer>,
    zones: Vec<Option<Box<[u32]>>>,
    /// Some mirror could not be read.
    is_partial: bool,
}

fn owner_of(extent: &Extent) -> String {
    format!("extent {} of file {}", extent.number, extent.file)
}

fn place_of(mirror: Mirror, member: &Member) -> String {
    format!("disk {} ({}), AU {}", member.name(), member.path(), mirror.au)
}

impl Data {
    /// Reads all mirrors of an extent, and reports what is wrong; with `repair` it mends what it
    /// can.
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
            let Differences { wrong, is_undecided } =
                self.compare_blocks(extent, blocks.clone(), report).await?;
            drop(held);
            if !wrong.is_empty() || is_undecided {
                let can_be_mended = is_undecided || wrong.iter().any(|wrong| wrong.can_be_mended);
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

    /// Compares blocks on all mirrors. The caller holds them.
    async fn compare_blocks(
        &self,
        extent: &Extent,
        blocks: Range<usize>,
        report: &mut Report,
    ) -> Result<Differences> {
        let mut found = Differences::default();
        if extent.is_tombstone() {
            return Ok(found);
        }
        // Zones count where nothing newer is in memory, before they are read and after.
        let is_quiet = || !self.activity.has(extent.id) && !extent.is_dirty();
        let was_quiet = is_quiet();
        let shown = self.read_mirrors(extent, &blocks, report, &mut found).await?;
        let is_quiet = was_quiet && is_quiet();
        let images: Vec<Image<'_>> = shown
            .buffers
            .iter()
            .map(|buffer| buffer.chunks_exact(BLOCK_SIZE).map(Some).collect())
            .collect();
        let known = Known::of(extent, &blocks);
        if !known.is_loaded() {
            return Ok(found);
        }
        found.is_undecided |= shown.mirrors.iter().any(|(mirror, member)| {
            member.is_mend_uncertain(
                Self::offset(member, *mirror, Block(blocks.start)),
                (blocks.len() * BLOCK_SIZE) as u64,
            )
        });
        let (mut bad_zones, mut disputed) = (vec![0; shown.mirrors.len()], Vec::new());
        for index in 0..blocks.len() {
            let bytes = images.iter().map(|image| image[index]).collect();
            let evidence = known.evidence(index, Reason::Repair, bytes, &shown.zones);
            found.is_undecided |= known.sum(index) == UNKNOWN;
            let block = Block(blocks.start + index);
            match self.judge_block(extent, block, &evidence, &shown.mirrors, &mut found) {
                (Case::Rivals, _) => disputed.push(index),
                (Case::ByMemory | Case::ByZone | Case::BadChecksum, Some(right)) => {
                    let sum = of_block(right);
                    let zones = evidence.stored.iter().zip(&shown.zones);
                    for (bad, (stored, zone)) in bad_zones.iter_mut().zip(zones) {
                        *bad += usize::from(zone.is_some() && *stored != sum);
                    }
                }
                _ => {}
            }
        }
        let zones = shown.mirrors.iter().zip(bad_zones).filter(|(_, count)| *count > 0);
        for ((mirror, member), count) in zones {
            if is_quiet {
                let text = format!(
                    "{}: its checksum block is wrong for {count} blocks",
                    place_of(*mirror, member)
                );
                found.wrong.push(Wrong::of(format!("{text}; {}", owner_of(extent))));
            } else {
                found.is_undecided = true;
            }
        }
        if shown.is_partial && disputed.is_empty() {
            // A dispute with a mirror that cannot be read stays one.
            return Ok(found);
        }
        let disputes = self.note_disputes(extent, blocks, &disputed, &shown.mirrors, &images);
        found.wrong.extend(disputes.into_iter().map(|text| Wrong { text, can_be_mended: false }));
        Ok(found)
    }

    /// Reads blocks and zones of all mirrors on ONLINE disks. Mirrors that cannot be read are
    /// wrong.
    async fn read_mirrors(
        &self,
        extent: &Extent,
        blocks: &Range<usize>,
        report: &mut Report,
        found: &mut Differences,
    ) -> Result<Shown<'_>> {
        let mut shown = Shown::default();
        for (mirror, member) in self.mirrors(extent).filter(|(_, member)| member.is_readable()) {
            let offset = Self::offset(member, mirror, Block(blocks.start));
            match member
                .start_read(offset, blocks.len() * BLOCK_SIZE)
                .of(IoClient::Checks)
                .result()
                .await
            {
                IoResult::Ok(Some(buffer)) => {
                    report.bytes_read += buffer.len() as u64;
                    shown.zones.push(self.read_zone(member, mirror, Patience::Deadline).await?);
                    shown.buffers.push(buffer);
                    shown.mirrors.push((mirror, member));
                }
                bad => {
                    shown.is_partial = true;
                    found.wrong.push(Wrong::of(format!(
                        "{}: {}; {}",
                        place_of(mirror, member),
                        bad.reason(),
                        owner_of(extent)
                    )));
                }
            }
        }
        Ok(shown)
    }

    /// Judges one block by the table of mirrors, and notes the mirrors that have it wrong.
    fn judge_block<'a>(
        &self,
        extent: &Extent,
        block: Block,
        evidence: &Evidence<'a>,
        mirrors: &[(Mirror, &Arc<Member>)],
        found: &mut Differences,
    ) -> (Case, Option<&'a [u8]>) {
        let (case, right) = evidence.judge();
        let mut differing = |what: &str, right: Option<&[u8]>| {
            let others =
                mirrors.iter().zip(&evidence.mirrors).filter(|(_, image)| **image != right);
            for ((mirror, member), _) in others {
                let at = Self::offset(member, *mirror, block);
                found.wrong.push(Wrong::of(format!(
                    "{}, offset {at}: 4 KiB {what}; {}",
                    place_of(*mirror, member),
                    owner_of(extent)
                )));
            }
        };
        match case {
            Case::Rivals => {
                if let Some(right) = right {
                    extent.prefer_sum(block, of_block(right));
                }
            }
            Case::Lost => differing("do not match their checksum", None),
            // A write of the block failed: the first mirror's bytes are taken.
            Case::Lowest | Case::Unchecked if !self.activity.has(extent.id) => {
                differing("differ from another mirror's, and have no checksum", right);
            }
            Case::ByMemory | Case::ByZone => differing("do not match their checksum", right),
            Case::BadChecksum | Case::Lowest | Case::Unchecked | Case::Equal | Case::Unreadable => {
            }
        }
        (case, right)
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
