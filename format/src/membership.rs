//! The membership: everything that must be known before the catalog can be read.
//!
//! The disks of the group, their states, the voters, and the places of the catalog. Two slots of
//! 256 KiB on each disk that has ever voted, written in turn. Each membership has a random id and
//! its ancestors' ids, so that two diverged histories can be distinguished from one that continued
//! (R3).

use crate::{
    Au, BLOCK_SIZE, DiskId, DiskNumber, FormatError, MembershipId, Redundancy,
    envelope::{self, ENVELOPE_SIZE, Envelope},
    is_name,
    layout::{Layout, MEMBERSHIP_SLOT},
    wire::*,
};
use std::ops::Range;

pub const MEMBERSHIP_MAGIC: &[u8; 8] = b"PLINTHMB";

pub const GENERATION: Range<usize> = 64..72; //      grows by one with every change
pub const ID: Range<usize> = 72..88; //              random
pub const CREATED: Range<usize> = 88..96; //         of the group; nanoseconds since 1970, signed
pub const AU_SIZE: Range<usize> = 96..104; //        bytes
pub const STAMP_COUNTER: Range<usize> = 104..112; // the stamp's counter when this was recorded
pub const REDUNDANCY: Range<usize> = 112..113; //    1 external, 2 normal, 3 high
pub const MOUNTED: Range<usize> = 113..114; //       1: an engine was using the group
pub const WANTED: Range<usize> = 114..115; //        redundancy it is converted to (as above), or 0
pub const MOUNT_WAIT: Range<usize> = 115..116; //    wait for missing disks: seconds + 1; 0: default
pub const DISK_COUNT: Range<usize> = 116..120;
pub const RUN_COUNT: Range<usize> = 120..124; //     catalog runs
pub const ANCESTOR_COUNT: Range<usize> = 124..128; // youngest first
pub const BOOT: Range<usize> = 128..144; //          the host's boot id when it was mounted
pub const GROUP_NAME: Range<usize> = 144..176;
pub const LISTS: usize = 176; //                     ancestors, disks, runs, in this order

/// A disk's entry.
pub const DISK_ENTRY: usize = 128;
pub const D_ID: Range<usize> = 0..16;
pub const D_NUMBER: Range<usize> = 16..18;
pub const D_STATE: Range<usize> = 18..19; //  1 online, 2 offline, 3 syncing
pub const D_FLAGS: Range<usize> = 19..20; //  1 votes, 2 quorum (no data), 4 copy whole,
//                                            8 taken offline by the operator, 16 leaving, 32 absent
//                             20..24
pub const D_SIZE: Range<usize> = 24..32; //   bytes used
pub const D_STAMP: Range<usize> = 32..40; //  the stamp's counter when it went offline
pub const D_SINCE: Range<usize> = 40..48; //  when it went offline: nanoseconds since 1970
pub const D_NAME: Range<usize> = 48..80;
pub const D_GROUP: Range<usize> = 80..112; // failure group
pub const D_JOINED: Range<usize> = 112..120; // when it became a member: nanoseconds since 1970
pub const D_TARGET: Range<usize> = 120..128; // bytes used after a resize in progress, or 0

/// A catalog run's entry: AUs `first .. first + count` of a disk hold one mirror of
/// the AUs `at .. at + count` of one of the catalog's two files.
pub const RUN_ENTRY: usize = 24;
pub const R_FILE: Range<usize> = 0..1; //    1 database, 2 WAL
pub const R_MIRROR: Range<usize> = 1..2; //  0, 1, 2
pub const R_DISK: Range<usize> = 2..4; //    number
pub const R_AT: Range<usize> = 4..8; //      AU of the file
pub const R_FIRST: Range<usize> = 8..12; //  AU of the disk
pub const R_COUNT: Range<usize> = 12..16; // AUs

/// Ancestors kept: enough to recognise a disk that was OFFLINE for this many changes; a disk that
/// was OFFLINE for longer is copied whole.
pub const ANCESTORS_MAX: usize = 256;
/// The longest time in seconds for which a start can wait for missing disks.
pub const MOUNT_WAIT_MAX: u8 = 240;
/// Most disks in a group.
pub const DISKS_MAX: usize = 1024;
/// Most runs of the catalog.
pub const RUNS_MAX: usize = 4096;

const _: () = assert!(GENERATION.start == ENVELOPE_SIZE);
const _: () = assert!(
    LISTS + ANCESTORS_MAX * 16 + DISKS_MAX * DISK_ENTRY + RUNS_MAX * RUN_ENTRY <= MEMBERSHIP_SLOT
);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DiskState {
    /// Read and written.
    Online = 1,
    /// Neither read nor written; regions written meanwhile are listed as stale.
    Offline = 2,
    /// Written, never read: stale regions are being copied to it.
    Syncing = 3,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberDisk {
    pub id: DiskId,
    pub number: DiskNumber,
    pub state: DiskState,
    pub votes: bool,
    /// Votes but holds no data.
    pub quorum: bool,
    /// Nothing on it counts: when it returns it is copied whole.
    pub copy_whole: bool,
    /// An operator took it offline, so only an operator brings it back.
    pub by_operator: bool,
    /// The disk went OFFLINE because it was missing, and for no other reason: it comes back by
    /// itself when it is discovered again.
    pub absent: bool,
    /// The disk is being dropped: its data moves to the other disks, and nothing new is placed
    /// there.
    pub leaving: bool,
    /// Bytes used.
    pub size: u64,
    /// Bytes used after a resize that is in progress: AUs that hold data in only one of the two
    /// layouts get nothing new.
    pub target: Option<u64>,
    pub stamp: u64,
    /// When it went offline: nanoseconds since 1970.
    pub since: i64,
    /// When it became a member: nanoseconds since 1970.
    pub joined: i64,
    pub name: String,
    pub failure_group: String,
}

/// One of the catalog's two files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum CatalogFile {
    Database = 1,
    Wal = 2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CatalogRun {
    pub file: CatalogFile,
    pub mirror: u8,
    pub at: u32,
    pub count: u32,
    pub disk: DiskNumber,
    pub first: Au,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    pub generation: u64,
    pub id: MembershipId,
    /// When the group was created: nanoseconds since 1970.
    pub created: i64,
    pub au_size: u64,
    pub stamp: u64,
    /// Every extent has this many mirrors, at least.
    pub redundancy: Redundancy,
    /// New extents have this many mirrors. More than `redundancy` while the group is being
    /// converted: then the other extents get their additional mirrors.
    pub wanted: Redundancy,
    /// An engine was using the group: unless this is false, it did not stop in good order.
    pub mounted: bool,
    pub boot: [u8; 16],
    /// Seconds for which a start waits for missing disks; `None`: the default.
    pub mount_wait: Option<u8>,
    pub group_name: String,
    /// Youngest first; the first is the parent.
    pub ancestors: Vec<MembershipId>,
    pub disks: Vec<MemberDisk>,
    pub catalog: Vec<CatalogRun>,
}

impl Membership {
    /// The record, padded to whole blocks.
    ///
    /// # Panics
    /// If a list is longer than its limit.
    #[must_use]
    pub fn encode(&self, envelope: Envelope) -> Vec<u8> {
        assert!(self.ancestors.len() <= ANCESTORS_MAX);
        assert!(self.disks.len() <= DISKS_MAX);
        assert!(self.catalog.len() <= RUNS_MAX);
        let disks_at = LISTS + self.ancestors.len() * 16;
        let runs_at = disks_at + self.disks.len() * DISK_ENTRY;
        let length = runs_at + self.catalog.len() * RUN_ENTRY;
        let mut bytes = vec![0; length.next_multiple_of(BLOCK_SIZE)];
        let count = |list: usize| u32::try_from(list).expect("limits are small").to_le_bytes();
        put(&mut bytes, GENERATION, &self.generation.to_le_bytes());
        put(&mut bytes, ID, &self.id.0);
        put(&mut bytes, CREATED, &self.created.to_le_bytes());
        put(&mut bytes, AU_SIZE, &self.au_size.to_le_bytes());
        put(&mut bytes, STAMP_COUNTER, &self.stamp.to_le_bytes());
        put(&mut bytes, REDUNDANCY, &[self.redundancy as u8]);
        put(&mut bytes, MOUNTED, &[u8::from(self.mounted)]);
        put(
            &mut bytes,
            WANTED,
            &[if self.wanted == self.redundancy { 0 } else { self.wanted as u8 }],
        );
        put(
            &mut bytes,
            MOUNT_WAIT,
            &[self.mount_wait.map_or(0, |seconds| seconds.saturating_add(1))],
        );
        put(&mut bytes, DISK_COUNT, &count(self.disks.len()));
        put(&mut bytes, RUN_COUNT, &count(self.catalog.len()));
        put(&mut bytes, ANCESTOR_COUNT, &count(self.ancestors.len()));
        put(&mut bytes, BOOT, &self.boot);
        put_text(&mut bytes, GROUP_NAME, &self.group_name);
        for (entry, ancestor) in bytes[LISTS..].chunks_exact_mut(16).zip(&self.ancestors) {
            entry.copy_from_slice(&ancestor.0);
        }
        for (entry, disk) in bytes[disks_at..].chunks_exact_mut(DISK_ENTRY).zip(&self.disks) {
            disk.encode(entry);
        }
        for (entry, run) in bytes[runs_at..].chunks_exact_mut(RUN_ENTRY).zip(&self.catalog) {
            run.encode(entry);
        }
        envelope::seal(&mut bytes[..length], MEMBERSHIP_MAGIC, envelope);
        bytes
    }

    /// # Errors
    /// If the bytes, read at `place`, are not a valid membership.
    pub fn decode(bytes: &[u8], place: u64) -> Result<(Envelope, Self), FormatError> {
        let (envelope, record) = envelope::open(bytes, MEMBERSHIP_MAGIC, "membership", place)?;
        if record.len() < LISTS {
            return Err(FormatError::Length { found: record.len(), limit: MEMBERSHIP_SLOT });
        }
        let count = |at, limit: usize, field| match get_u32(record, at) as usize {
            count if count <= limit => Ok(count),
            count => Err(FormatError::Field { field, value: count as u64 }),
        };
        let ancestors = count(ANCESTOR_COUNT, ANCESTORS_MAX, "number of ancestors")?;
        let disks = count(DISK_COUNT, DISKS_MAX, "number of disks")?;
        let runs = count(RUN_COUNT, RUNS_MAX, "number of catalog runs")?;
        let disks_at = LISTS + ancestors * 16;
        let runs_at = disks_at + disks * DISK_ENTRY;
        let end = runs_at + runs * RUN_ENTRY;
        if record.len() != end {
            return Err(FormatError::Length { found: record.len(), limit: end });
        }
        let au_size = get_u64(record, AU_SIZE);
        let redundancy = Redundancy::decode(record[REDUNDANCY.start])?;
        let membership = Self {
            generation: get_counter(record, GENERATION, "generation")?,
            id: MembershipId(get(record, ID)),
            created: get_i64(record, CREATED),
            au_size,
            stamp: get_counter(record, STAMP_COUNTER, "counter of the stamp")?,
            redundancy,
            wanted: match record[WANTED.start] {
                0 => redundancy,
                wanted if wanted > redundancy as u8 => Redundancy::decode(wanted)?,
                wanted => {
                    return Err(FormatError::Field {
                        field: "redundancy that is wanted",
                        value: wanted.into(),
                    });
                }
            },
            mounted: record[MOUNTED.start] != 0,
            boot: get(record, BOOT),
            mount_wait: record[MOUNT_WAIT.start].checked_sub(1),
            group_name: get_text(record, GROUP_NAME, "group name")?,
            ancestors: record[LISTS..disks_at]
                .chunks_exact(16)
                .map(|id| MembershipId(get(id, 0..16)))
                .collect(),
            disks: record[disks_at..runs_at]
                .chunks_exact(DISK_ENTRY)
                .map(|entry| MemberDisk::decode(entry, au_size))
                .collect::<Result<_, _>>()?,
            catalog: record[runs_at..]
                .chunks_exact(RUN_ENTRY)
                .map(CatalogRun::decode)
                .collect::<Result<_, _>>()?,
        };
        membership.check()?;
        Ok((envelope, membership))
    }

    /// Checks the rules for every membership, so that its readers need not check them again.
    fn check(&self) -> Result<(), FormatError> {
        for (index, disk) in self.disks.iter().enumerate() {
            let same = |other: &MemberDisk| {
                other.number == disk.number || other.id == disk.id || other.name == disk.name
            };
            if self.disks[..index].iter().any(same) {
                return Err(FormatError::Field {
                    field: "a second disk with the number",
                    value: disk.number.0.into(),
                });
            }
        }
        for run in &self.catalog {
            let known = self.disk(run.disk).ok_or(FormatError::Field {
                field: "catalog on an unknown disk",
                value: run.disk.0.into(),
            })?;
            let layout = Layout::new(known.size, self.au_size)?;
            let fits =
                run.at.checked_add(run.count).is_some() && layout.is_data_run(run.first, run.count);
            if !fits || run.count == 0 {
                return Err(FormatError::Field {
                    field: "catalog run at AU",
                    value: run.first.0.into(),
                });
            }
        }
        Ok(())
    }

    #[must_use]
    pub fn disk(&self, number: DiskNumber) -> Option<&MemberDisk> {
        self.disks.iter().find(|disk| disk.number == number)
    }

    pub fn voters(&self) -> impl Iterator<Item = &MemberDisk> {
        self.disks.iter().filter(|disk| disk.votes)
    }
}

impl MemberDisk {
    fn encode(&self, entry: &mut [u8]) {
        let flags = u8::from(self.votes)
            | u8::from(self.quorum) << 1
            | u8::from(self.copy_whole) << 2
            | u8::from(self.by_operator) << 3
            | u8::from(self.leaving) << 4
            | u8::from(self.absent) << 5;
        put(entry, D_ID, &self.id.0);
        put(entry, D_NUMBER, &self.number.0.to_le_bytes());
        put(entry, D_STATE, &[self.state as u8]);
        put(entry, D_FLAGS, &[flags]);
        put(entry, D_SIZE, &self.size.to_le_bytes());
        put(entry, D_STAMP, &self.stamp.to_le_bytes());
        put(entry, D_SINCE, &self.since.to_le_bytes());
        put(entry, D_JOINED, &self.joined.to_le_bytes());
        put(entry, D_TARGET, &self.target.unwrap_or(0).to_le_bytes());
        put_text(entry, D_NAME, &self.name);
        put_text(entry, D_GROUP, &self.failure_group);
    }

    fn decode(entry: &[u8], au_size: u64) -> Result<Self, FormatError> {
        let flags = entry[D_FLAGS.start];
        let name = |at, field| {
            let text = get_text(entry, at, field)?;
            if is_name(&text) { Ok(text) } else { Err(FormatError::Text { field }) }
        };
        let size = get_u64(entry, D_SIZE);
        Layout::new(size, au_size)?;
        let target = Some(get_u64(entry, D_TARGET)).filter(|target| *target != 0);
        target.map(|target| Layout::new(target, au_size)).transpose()?;
        Ok(Self {
            id: DiskId(get(entry, D_ID)),
            number: DiskNumber(get_u16(entry, D_NUMBER)),
            state: match entry[D_STATE.start] {
                1 => DiskState::Online,
                2 => DiskState::Offline,
                3 => DiskState::Syncing,
                other => {
                    return Err(FormatError::Field { field: "disk state", value: other.into() });
                }
            },
            votes: flags & 1 != 0,
            quorum: flags & 2 != 0,
            copy_whole: flags & 4 != 0,
            by_operator: flags & 8 != 0,
            leaving: flags & 16 != 0,
            absent: flags & 32 != 0,
            size,
            target,
            stamp: get_counter(entry, D_STAMP, "counter of a disk's stamp")?,
            since: get_i64(entry, D_SINCE),
            joined: get_i64(entry, D_JOINED),
            name: name(D_NAME, "disk name")?,
            failure_group: name(D_GROUP, "failure group name")?,
        })
    }
}

impl CatalogRun {
    /// Its AUs, ascending.
    pub fn aus(&self) -> impl Iterator<Item = Au> + use<> {
        self.first.run(self.count)
    }

    fn encode(&self, entry: &mut [u8]) {
        put(entry, R_FILE, &[self.file as u8]);
        put(entry, R_MIRROR, &[self.mirror]);
        put(entry, R_DISK, &self.disk.0.to_le_bytes());
        put(entry, R_AT, &self.at.to_le_bytes());
        put(entry, R_FIRST, &self.first.0.to_le_bytes());
        put(entry, R_COUNT, &self.count.to_le_bytes());
    }

    fn decode(entry: &[u8]) -> Result<Self, FormatError> {
        Ok(Self {
            file: match entry[R_FILE.start] {
                1 => CatalogFile::Database,
                2 => CatalogFile::Wal,
                other => {
                    return Err(FormatError::Field { field: "catalog file", value: other.into() });
                }
            },
            mirror: match entry[R_MIRROR.start] {
                mirror @ 0..=2 => mirror,
                other => {
                    return Err(FormatError::Field {
                        field: "catalog mirror",
                        value: other.into(),
                    });
                }
            },
            disk: DiskNumber(get_u16(entry, R_DISK)),
            at: get_u32(entry, R_AT),
            first: Au(get_u32(entry, R_FIRST)),
            count: get_u32(entry, R_COUNT),
        })
    }
}
