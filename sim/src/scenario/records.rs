//! Records on a disk, read and changed without the engine's knowledge.

use super::World;
use plinth_engine::testing::Image;
use plinth_format::{
    Au, BLOCK_SIZE, Layout,
    checksum::crc32c,
    envelope::{CHECKSUM, ENVELOPE_SIZE, LENGTH},
    header::DiskHeader,
    layout::{FIRST_AREA, HEADER_COPIES, MEMBERSHIP_SLOT, MIB, RecordArea},
    membership::{CatalogFile, CatalogRun, Membership},
    stamp::Stamp,
};

/// Makes the checksum of a record valid, if it has an envelope whose length makes sense.
pub fn reseal(record: &mut [u8]) {
    let length = u32::from_le_bytes(record[LENGTH].try_into().expect("four bytes")) as usize;
    if (ENVELOPE_SIZE..=record.len()).contains(&length) {
        record[CHECKSUM].fill(0);
        let sum = crc32c(&record[..length]);
        record[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
    }
}

impl World {
    pub fn peek(&self, disk: usize, offset: u64, length: usize) -> Vec<u8> {
        self.disk(disk).peek(offset, length)
    }

    /// Overwrites bytes of a disk, as rot or `dd` does.
    pub fn corrupt(&mut self, disk: usize, offset: u64, bytes: &[u8]) {
        self.disk(disk).corrupt(offset, bytes);
    }

    /// The disk cannot read a block until it is written.
    pub fn spoil(&mut self, disk: usize, offset: u64) {
        self.disk(disk).faults(|faults| _ = faults.latent.insert(offset / BLOCK_SIZE as u64));
    }

    /// The layout of a disk that is used whole.
    pub fn layout(&self, disk: usize) -> Layout {
        Layout::new(self.disk(disk).size(), MIB).expect("it is a member")
    }

    /// Where the copies of the header are.
    pub fn header_places(&self, disk: usize) -> [u64; HEADER_COPIES] {
        self.layout(disk).header_places()
    }

    /// The areas with the disk's records.
    pub fn areas(&self, disk: usize) -> [RecordArea; 2] {
        [FIRST_AREA, self.layout(disk).middle_area()]
    }

    /// Overwrites the slots of one kind of record, in both areas.
    pub fn corrupt_records(
        &mut self,
        disk: usize,
        slots: impl Fn(&RecordArea) -> [u64; 2],
        bytes: &[u8],
    ) {
        let areas = self.areas(disk);
        areas.iter().flat_map(slots).for_each(|place| self.corrupt(disk, place, bytes));
    }

    /// The header copy at a place.
    pub fn header(&self, disk: usize, place: u64) -> DiskHeader {
        DiskHeader::decode(&self.peek(disk, place, BLOCK_SIZE), place).expect("a right copy")
    }

    pub fn put_header(&mut self, disk: usize, place: u64, header: &DiskHeader) {
        self.corrupt(disk, place, &header.encode(place));
    }

    /// The newest membership on a disk.
    pub fn membership(&self, disk: usize) -> Option<Membership> {
        let slots =
            self.areas(disk).into_iter().flat_map(|area| area.memberships).filter_map(|place| {
                Membership::decode(&self.peek(disk, place, MEMBERSHIP_SLOT), place)
                    .ok()
                    .map(|(_, membership)| membership)
            });
        slots.max_by_key(|membership| membership.generation)
    }

    /// The newest membership on any disk.
    pub fn newest_membership(&self) -> Membership {
        let all = (0..self.disk_count()).filter_map(|disk| self.membership(disk));
        all.max_by_key(|membership| membership.generation).expect("some disk votes")
    }

    /// The newest stamp on a disk.
    pub fn stamp(&self, disk: usize) -> u64 {
        let slots = self.areas(disk).into_iter().flat_map(|area| area.stamps).filter_map(|place| {
            Stamp::decode(&self.peek(disk, place, BLOCK_SIZE), place)
                .ok()
                .map(|(_, stamp)| stamp.counter)
        });
        slots.max().unwrap_or(0)
    }

    /// Where a block with these bytes is on a disk.
    pub fn place_of(&self, disk: usize, block: &[u8]) -> u64 {
        let written = self.disk(disk).image().changed_since(&Image::zeroed());
        let mut places = written.into_iter().map(|number| number * BLOCK_SIZE as u64);
        places
            .find(|place| self.peek(disk, *place, BLOCK_SIZE) == block)
            .expect("the disk has the block")
    }

    /// Where the checksum of the block at an offset is stored.
    pub fn sum_place(&self, disk: usize, offset: u64) -> u64 {
        let (zone, _) = self.layout(disk).sums_of(Au(u32::try_from(offset / MIB).expect("small")));
        zone + offset % MIB / BLOCK_SIZE as u64 * 4
    }

    /// The part of a catalog file that begins at its first byte: where it is on a disk, and how
    /// long.
    pub fn catalog_place(&self, disk: usize, file: CatalogFile) -> Option<(u64, usize)> {
        let is_first =
            |run: &&CatalogRun| usize::from(run.disk.0) == disk && run.file == file && run.at == 0;
        let membership = self.newest_membership();
        let run = membership.catalog.iter().find(is_first)?;
        Some((u64::from(run.first.0) * MIB, run.count as usize * MIB as usize))
    }
}
