//! The present state in the views: states, space and counters.

use crate::{
    admin::{HeaderStatus, Operation},
    catalog::{
        DiskStatus, GroupState, Live, ModeStatus, MountStatus,
        attributes::what_if,
        live::{Row, live_row},
    },
    check::Upkeep,
    disk::{counters::IoClass, member::Member},
    space::{Space, placement::Usable},
    views::live_stats::micros,
};
use plinth_format::{
    DiskId,
    membership::{DiskState, Membership},
};
use std::sync::atomic::Ordering::Relaxed;

/// Ids are random: their words, XORed, are as good as any hash.
fn hash_of(id: DiskId) -> u32 {
    id.0.chunks_exact(4)
        .fold(0, |hash, word| hash ^ u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

/// The `STATE` of a disk in `v$asm_disk`. `leaves`: it is being dropped.
pub(crate) fn status_of(member: &Member, leaves: bool) -> DiskStatus {
    match member.state() {
        DiskState::Offline if leaves => DiskStatus::Forcing,
        _ if leaves => DiskStatus::Dropping,
        _ if member.is_hung() || member.is_silent() => DiskStatus::Hung,
        _ if member.room.is_short() => DiskStatus::Full,
        _ if !member.delay().is_zero() => DiskStatus::Delayed,
        _ => DiskStatus::Normal,
    }
}

/// AUs of a disk that hold data or could, and those of them that files can be given: so the numbers
/// of a group are the sums of those of its disks. A quorum disk has such AUs, although no data is
/// placed there.
fn room(member: &Member, space: &Space) -> (u32, u32) {
    if member.quorum {
        let units = member.layout().data_unit_count();
        return (units, units);
    }
    (space.capacity(member.number), space.available(member.number))
}

pub(crate) fn row_of_operation(operation: Operation) -> Row {
    live_row! {
        pass: operation.pass.word(),
        state: operation.state.word(),
        power: operation.power,
        so_far: operation.so_far,
        work: operation.work,
        rate: operation.rate,
        bytes: operation.bytes,
        error: operation.error,
    }
}

impl Upkeep {
    /// Bytes of a disk that hold data or could, and those of them that files can be given.
    pub(crate) fn room_of(&self, member: &Member) -> (u64, u64) {
        let (total, free) = room(member, &self.space());
        (u64::from(total) * self.au_size, u64::from(free) * self.au_size)
    }

    pub(crate) fn live(&self) -> Live {
        let membership = self.voters.current();
        let placement = self.placement();
        let mut live = Live::default();
        // Finding paths may take a while; no thread must wait for the lock on space meanwhile.
        let paths: Vec<String> = self.members.values().map(|member| member.path()).collect();
        {
            let space = self.space();
            live.add("live_group", [self.row_of_group(&membership, placement.usable(&space))]);
            let disks = self.members.values().zip(paths);
            let disks =
                disks.map(|(member, path)| self.row_of_disk(member, path, &membership, &space));
            live.add("live_disk", disks);
        }
        let mut operations = self.list_operations();
        operations.extend(self.rebalance.stages(self.world.monotonic()));
        live.add("live_operation", operations.into_iter().map(row_of_operation));
        let waits = self.move_waits.counts().into_iter();
        live.add(
            "live_move_wait",
            waits.map(|(micros, count)| live_row! { micros: micros, count: count }),
        );
        live
    }

    /// The row of `live_group`.
    fn row_of_group(&self, membership: &Membership, usable: Usable) -> Row {
        let au = self.au_size;
        let sectors =
            self.members.values().find_map(|member| member.disk()).map(|disk| disk.sectors());
        live_row! {
            // The instance assigns the numbers of groups.
            number: 0_i64,
            name: self.name.clone(),
            logical_sector: sectors.map_or(512, |sectors| sectors.logical),
            sector: sectors.map_or(512, |sectors| sectors.physical),
            au_size: au,
            state: if self.is_restricted() {
                GroupState::Restricted
            } else {
                GroupState::Mounted
            }
            .word(),
            redundancy: self.redundancy().to_string(),
            total: usable.total * au,
            free: usable.free * au,
            required_mirror_free: usable.required_mirror_free * au,
            usable: usable.usable_file(au),
            offline_disks: u32::try_from(
                membership.disks.iter().filter(|disk| disk.state == DiskState::Offline).count(),
            )
            .unwrap_or(u32::MAX),
            what_if: self.delays_in_words(),
        }
    }

    fn delays_in_words(&self) -> Option<String> {
        let delays = self.members.delays();
        let words = |(name, delay): (&String, &_)| format!("{name} by {}", what_if::shown(*delay));
        let words = delays.iter().map(words).collect::<Vec<_>>().join(", ");
        (!words.is_empty()).then_some(words)
    }

    /// A row of `live_disk`.
    fn row_of_disk(
        &self,
        member: &Member,
        path: String,
        membership: &Membership,
        space: &Space,
    ) -> Row {
        let au = self.au_size;
        let disk = member.disk();
        let entry = membership.disk(member.number);
        let state = member.state();
        let counters = &member.counters;
        let (capacity, available) = room(member, space);
        live_row! {
            number: member.number.0,
            mount_status: if disk.is_some() {
                MountStatus::Cached
            } else {
                MountStatus::Missing
            }
            .word(),
            header_status: if disk.is_some() {
                HeaderStatus::Member
            } else {
                HeaderStatus::Unknown
            }
            .word(),
            mode_status: ModeStatus::from(state).word(),
            state: status_of(member, entry.is_some_and(|entry| entry.leaving)).word(),
            os_size: disk.as_ref().map_or(0, |disk| disk.size()),
            total: u64::from(capacity) * au,
            free: u64::from(available) * au,
            name: member.name().to_string(),
            failure_group: member.failure_group.clone(),
            quorum: member.quorum,
            path: path,
            label: member.label().map(|label| label.to_string()),
            id: member.id().to_string(),
            created: entry.map_or(self.created, |entry| entry.joined),
            mounted: self.mounted,
            repair_timer: if state == DiskState::Offline {
                self.repair_time_left(member)
            } else {
                0
            },
            reads: counters.reads().0,
            writes: counters.writes().0,
            read_errors: counters.read_errors.load(Relaxed),
            write_errors: counters.write_errors.load(Relaxed),
            read_timeouts: counters.read_timeouts.load(Relaxed),
            write_timeouts: counters.write_timeouts.load(Relaxed),
            read_time: micros(counters.timings(IoClass::Read).total()),
            write_time: micros(counters.timings(IoClass::Write).total()),
            bytes_read: counters.reads().1,
            bytes_written: counters.writes().1,
            blocks_repaired: counters.repaired.load(Relaxed),
            metadata_repaired: counters.metadata_repaired.load(Relaxed),
            votes: entry.is_some_and(|entry| entry.votes),
            sector: disk.as_ref().map_or(0, |disk| disk.sectors().physical),
            logical_sector: disk.as_ref().map_or(0, |disk| disk.sectors().logical),
            can_discard: disk.as_ref().is_some_and(|disk| disk.can_discard()),
            hash: hash_of(member.id()),
            preferred: member.gauge.preference().to_string(),
            what_if: (!member.delay().is_zero()).then(|| what_if::shown(member.delay())),
        }
    }
}
