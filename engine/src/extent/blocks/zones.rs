//! Checksums of an extent, from the checksum zone of one of its mirrors, when they are first
//! needed.
//!
//! Which mirror's is a matter of the extent's number, so that all disks are asked alike. While none
//! can be read because disks are only silent they are waited for; when none can be read at all
//! nothing is known, and mirrors prove each other.

use super::{BLOCKS_PER_PIECE, Patience, STEP};
use crate::{
    disk::{
        counters::IoClient,
        disk_io::{DiskIo, IoResult},
        member::Member,
        members::MIRRORS_MAX,
    },
    error::FileError,
    event::Severity,
    extent::{Extent, Mirror, Sums, data::Data},
};
use smallvec::SmallVec;
use std::sync::{Arc, atomic::Ordering};

impl Data {
    /// Loads the checksums from the zone of a mirror, unless they are in memory.
    pub(crate) async fn load_sums(&self, extent: &Extent) -> Result<(), FileError> {
        extent.last_used.store(self.ticks.load(Ordering::Relaxed), Ordering::Relaxed);
        if extent.has_sums() {
            return Ok(());
        }
        // Boxed: the rare path (`file_read.rs`).
        Box::pin(self.load_from_zone(extent)).await
    }

    async fn load_from_zone(&self, extent: &Extent) -> Result<(), FileError> {
        {
            let state = extent.state();
            if extent.has_sums() {
                return Ok(());
            }
            if state.marked().is_empty() {
                extent.set_loaded(&state, Sums::unknown(self.blocks_per_au()));
                return Ok(());
            }
        }
        let (sums, wrong) = loop {
            let moves = extent.moves();
            let read = self.read_any_zone(extent).await;
            // A reader without the range may have read a place that has another extent's checksums
            // by now.
            if extent.moves() == moves {
                break read;
            }
        };
        let mut unproved = Vec::new();
        {
            let state = extent.state();
            if extent.has_sums() {
                return Ok(());
            }
            let pieces = 0..self.blocks_per_au() / BLOCKS_PER_PIECE;
            if sums.is_none() {
                self.zones_lost.fetch_add(1, Ordering::Relaxed);
                let mut at = 0;
                while let Some(run) = state.run(at..pieces.end, STEP / BLOCKS_PER_PIECE) {
                    at = run.end;
                    unproved.push(run.start * BLOCKS_PER_PIECE..run.end * BLOCKS_PER_PIECE);
                }
            } else if wrong && let Some(run) = state.run(pieces, 1) {
                unproved.push(run.start * BLOCKS_PER_PIECE..run.start * BLOCKS_PER_PIECE + 1);
            }
            // No zone can be read: nothing is known, and mirrors prove each other.
            extent.set_loaded(&state, sums.unwrap_or_else(|| Sums::unknown(self.blocks_per_au())));
        }
        // A zone that cannot be read is written again when the region closes. A comparison opens
        // it, of one block if another mirror's zone is good, of all to have their checksums if not.
        if let Some(extent) = self.extents.get(extent.id) {
            unproved.into_iter().for_each(|blocks| self.repairs.add(&extent, blocks));
        }
        Ok(())
    }

    /// The mirror, of `count`, whose zone is read first. Extents differ, so that no disk is read
    /// more than the others. Not round robin: mirrors of neighbouring extents may be on disks round
    /// robin.
    pub(crate) fn first_zone(extent: &Extent, mirrors: usize) -> usize {
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        (extent.id.0.wrapping_mul(GOLDEN) >> 32) as usize % mirrors.max(1)
    }

    /// The checksums from the first zone of an extent that can be read, and whether another could
    /// not be. While none can and some disk is only silent it is waited for: bytes must not pass
    /// unchecked for that (R2).
    async fn read_any_zone(&self, extent: &Extent) -> (Option<Sums>, bool) {
        let (mut silent, mut wrong) = (Vec::new(), false);
        let mut zones: SmallVec<[_; MIRRORS_MAX]> =
            self.mirrors(extent).filter(|(_, member)| member.is_readable()).collect();
        let first = Self::first_zone(extent, zones.len());
        zones.rotate_left(first);
        for (mirror, member) in zones {
            let mut disk_io = Self::start_zone(member, mirror);
            match disk_io.result_in_time().await {
                Some(IoResult::Ok(Some(buffer))) => {
                    return (Some(Sums::new(self.sums_in(&buffer))), wrong);
                }
                Some(_) => wrong = true,
                None => silent.push(disk_io),
            }
        }
        while !silent.is_empty() {
            let waits = silent.iter_mut().map(|disk_io| Box::pin(disk_io.wait()));
            let (end, index, _) = futures::future::select_all(waits).await;
            silent.remove(index);
            match end {
                IoResult::Ok(Some(buffer)) => {
                    return (Some(Sums::new(self.sums_in(&buffer))), wrong);
                }
                _ => wrong = true,
            }
        }
        let text = format!(
            "no checksums of extent {} of file {} can be read: bytes on which its mirrors agree are taken as they are",
            extent.number, extent.file
        );
        self.tell(Severity::Warning, None, text);
        (None, wrong)
    }

    fn sums_in<'a>(&self, zone: &'a [u8]) -> impl Iterator<Item = u32> + use<'a> {
        let (sums, _) = zone.as_chunks();
        sums.iter().map(|sum| u32::from_le_bytes(*sum)).take(self.blocks_per_au())
    }

    /// The stored checksums of one mirror. `None`: they cannot be read.
    pub(crate) async fn read_zone(
        &self,
        member: &Arc<Member>,
        mirror: Mirror,
        patience: Patience,
    ) -> Result<Option<Box<[u32]>>, FileError> {
        Ok(self.zone_in(self.await_io(member, Self::start_zone(member, mirror), patience).await?))
    }

    pub(super) fn start_zone(member: &Member, mirror: Mirror) -> DiskIo<'_> {
        let (offset, length) = member.layout().sums_of(mirror.au);
        member.start_read(offset, length).of(IoClient::Checksums)
    }

    pub(super) fn zone_in(&self, ended: IoResult) -> Option<Box<[u32]>> {
        if let IoResult::Ok(Some(buffer)) = ended {
            Some(self.sums_in(&buffer).collect())
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::extent_id::ExtentId;

    #[test]
    fn zones_are_read_from_all_mirrors_alike_wherever_those_of_neighbours_are() {
        for mirrors in 1..=MIRRORS_MAX {
            // All extents, and every second and third of them: mirrors may be on disks by turns.
            for step in 1..=3 {
                let mut read = vec![0; mirrors];
                for id in (0..3000).map(|id| id * step) {
                    read[Data::first_zone(&Extent::new(ExtentId(id), 1, 0, &[]), mirrors)] += 1;
                }
                let most = 3000 / mirrors + 150;
                assert!(
                    read.iter().all(|reads| *reads <= most),
                    "{mirrors} mirrors, step {step}: {read:?}"
                );
            }
        }
    }
}
