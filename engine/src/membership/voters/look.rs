//! The records of `voters.rs`, compared with the disks. The theory is in `own_metadata.rs`.
//!
//! For each kind the engine knows the newest record, from its own memory. The slot of that record
//! must hold it. The other slot's record is older, and not needed; it is checked all the same,
//! since another program may have overwritten it by mistake. A kind whose newest record is not on
//! every disk, as far as is known, is skipped: the task that writes it is at work.

use super::{LogState, Voters};
use crate::{
    disk::{counters::IoClient, disk_io::IoResult, member::Member},
    event::Severity,
    membership::wrong_metadata::{Findings, is_looked_at},
    planted::{self, Bug},
    reached::{self, Mark},
};
use plinth_format::{
    BLOCK_SIZE, DiskNumber,
    activity::ActivityLog,
    envelope::Envelope,
    layout::{ACTIVITY_SLOT, MEMBERSHIP_SLOT},
    membership::{DiskState, Membership},
    stamp::Stamp,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, atomic::Ordering},
};

/// A kind of record that is written in turns: those with an even number in one slot, the others in
/// the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Stamp,
    Membership,
    ActivityLog,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stamp => "stamp",
            Self::Membership => "membership",
            Self::ActivityLog => "activity log",
        })
    }
}

impl Kind {
    const ALL: [Self; 3] = [Self::Stamp, Self::Membership, Self::ActivityLog];

    /// Bytes of a slot.
    fn length(self) -> usize {
        match self {
            Self::Stamp => BLOCK_SIZE,
            Self::Membership => MEMBERSHIP_SLOT,
            Self::ActivityLog => ACTIVITY_SLOT,
        }
    }

    /// The slots of a member, with the turn of each: 0 for even numbers.
    fn places(self, member: &Member) -> Vec<(u64, u64)> {
        let areas = member.whole_areas();
        let slots = areas.iter().map(|area| match self {
            Self::Stamp => area.stamps,
            Self::Membership => area.memberships,
            Self::ActivityLog => area.activity,
        });
        slots.flat_map(|slots| (0..).zip(slots)).collect()
    }
}

/// The records that the engine has written last.
struct Known {
    /// The stamp's counter, if every writable disk holds it.
    stamp: Option<u64>,
    membership: Arc<Membership>,
    previous: Arc<Membership>,
    /// Voters that have not taken the membership yet.
    behind: BTreeSet<DiskNumber>,
    log: Option<ActivityLog>,
    previous_log: Option<ActivityLog>,
}

/// Slots of one kind on one disk that do not hold the right record.
#[derive(Debug, Clone)]
pub(crate) struct WrongRecord {
    pub disk: DiskNumber,
    pub kind: Kind,
    /// Those that hold other bytes.
    pub places: Vec<u64>,
    /// Those that cannot be read.
    pub unreadable: Vec<u64>,
    /// Whether the newest record is among them, and the one before.
    newest: bool,
    older: bool,
}

impl Known {
    /// Whether a disk must have a record of a kind, and the engine knows which.
    fn has(&self, kind: Kind, disk: DiskNumber) -> bool {
        let Some(entry) = self.membership.disk(disk) else { return false };
        match kind {
            Kind::Stamp => entry.state != DiskState::Offline && self.stamp.is_some(),
            Kind::Membership => entry.votes && !self.behind.contains(&disk),
            Kind::ActivityLog => entry.votes && self.log.is_some(),
        }
    }

    /// The number of the newest record of a kind.
    fn number(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Stamp => self.stamp.unwrap_or_default(),
            Kind::Membership => self.membership.generation,
            Kind::ActivityLog => self.log.as_ref().map_or(0, |log| log.sequence),
        }
    }

    /// Whether the record before it is known.
    fn has_previous(&self, kind: Kind) -> bool {
        match kind {
            Kind::Stamp => self.number(kind) > 1,
            Kind::Membership => true,
            Kind::ActivityLog => self.previous_log.is_some(),
        }
    }

    /// Whether these bytes are right in a slot of a disk, whose envelope is `mine`; `is_newest`:
    /// the newest record's turn is this slot's.
    fn is_right(&self, kind: Kind, is_newest: bool, mine: Envelope, bytes: &[u8]) -> bool {
        let place = mine.place;
        let is_mine = |envelope: Envelope| envelope.expect(mine.group, mine.disk).is_ok();
        let found = match kind {
            Kind::Stamp => Stamp::decode(bytes, place)
                .ok()
                .filter(|(envelope, _)| is_mine(*envelope))
                .map(|(_, stamp)| (stamp.counter, self.stamp == Some(stamp.counter))),
            Kind::Membership => Membership::decode(bytes, place)
                .ok()
                .filter(|(envelope, _)| is_mine(*envelope))
                .map(|(_, found)| (found.generation, found == *self.membership)),
            Kind::ActivityLog => ActivityLog::decode(bytes, place)
                .ok()
                .filter(|(envelope, _)| is_mine(*envelope))
                .map(|(_, found)| (found.sequence, Some(&found) == self.log.as_ref())),
        };
        match found {
            Some((_, is_it)) if is_newest => is_it,
            Some((number, _)) => number < self.number(kind),
            // A disk that has just got its first record has none in the other slot.
            None => !is_newest && bytes.iter().all(|byte| *byte == 0),
        }
    }
}

impl Voters {
    /// The records written last, for a caller that holds `turn`. `None`: a change is in progress,
    /// or none was made since the mount.
    fn known(&self) -> Option<Known> {
        let previous = self.previous.lock().clone()?;
        if self.begun.lock().is_some() || self.is_closing() {
            return None;
        }
        let LogState { newest, previous: previous_log, .. } = &*self.log.lock();
        Some(Known {
            stamp: self.stamped.load(Ordering::Relaxed).then(|| self.stamp.load(Ordering::Relaxed)),
            membership: self.current(),
            previous,
            behind: self.behind().clone(),
            log: newest.clone().filter(|log| log.sequence > 0),
            previous_log: previous_log.clone().filter(|log| log.sequence > 0),
        })
    }

    /// Records that seem to be wrong, on disks of which `wants` is true. Takes no lock: records
    /// that are being written may be among them.
    pub(crate) async fn seemingly_wrong(
        &self,
        wants: impl Fn(DiskNumber) -> bool,
    ) -> Vec<WrongRecord> {
        if self.is_waiting() {
            return Vec::new();
        }
        let known = {
            let _turn = self.turn.lock().await;
            self.known()
        };
        let Some(known) = known else { return Vec::new() };
        let all = known.membership.disks.iter().map(|disk| disk.number).filter(|disk| wants(*disk));
        let all = all.flat_map(|disk| Kind::ALL.map(|kind| (disk, kind)));
        self.compare_all(&known, all).await
    }

    /// Which of them are wrong; with `repair` they are rewritten. `logs`: the activity log is not
    /// written meanwhile. Also returns the disks that do not take them, and why.
    pub(crate) async fn look_again(
        &self,
        suspects: &[WrongRecord],
        logs: bool,
        repair: bool,
    ) -> (Vec<WrongRecord>, BTreeMap<DiskNumber, String>) {
        let _turn = self.turn.lock().await;
        let Some(known) = self.known() else { return (Vec::new(), BTreeMap::new()) };
        let suspects = suspects.iter().filter(|one| logs || one.kind != Kind::ActivityLog);
        let wrong = self.compare_all(&known, suspects.map(|one| (one.disk, one.kind))).await;
        let failed = if repair { self.write_again(&known, &wrong).await } else { BTreeMap::new() };
        (wrong, failed)
    }

    /// Checks the voters' records before a change relies on them, for a caller that holds `turn`. A
    /// disk that cannot be read or does not take a record is handled when the change is written to
    /// it.
    pub(super) async fn look_in_turn(&self) {
        if planted::has(Bug::OwnMetadataNotLookedAt) {
            return;
        }
        let Some(known) = self.known() else { return };
        let voters = known.membership.voters().map(|disk| disk.number);
        let all = voters.flat_map(|disk| [Kind::Stamp, Kind::Membership].map(|kind| (disk, kind)));
        let mut wrong = self.compare_all(&known, all).await;
        wrong.retain(|one| one.unreadable.is_empty());
        if wrong.is_empty() {
            return;
        }
        let failed = self.write_again(&known, &wrong).await;
        let mut findings = Findings::default();
        wrong
            .iter()
            .filter(|one| !failed.contains_key(&one.disk))
            .for_each(|one| findings.add_record(one));
        for (disk, finding) in findings.by_disk() {
            let Some(member) = self.members.get(&disk) else { continue };
            if self.looked_at.load(Ordering::Relaxed) {
                self.tell(Severity::Warning, Some(disk), finding.written_again(member));
            } else {
                self.tell(Severity::Note, Some(disk), finding.written_at_mount(member));
            }
        }
    }

    /// Errors from before the mount have been repaired: from now on they are the work of another
    /// program.
    pub(crate) fn looked_at_mount(&self) {
        self.looked_at.store(true, Ordering::Relaxed);
    }

    async fn compare_all(
        &self,
        known: &Known,
        all: impl Iterator<Item = (DiskNumber, Kind)>,
    ) -> Vec<WrongRecord> {
        let there =
            all.filter(|(disk, kind)| known.has(*kind, *disk)).filter_map(|(disk, kind)| {
                let member = self.members.get(&disk).filter(|member| is_looked_at(member))?;
                Some(self.compare(known, kind, member))
            });
        futures::future::join_all(there).await.into_iter().flatten().collect()
    }

    /// The wrong records of one kind on a disk. `None`: there is none, or it does not answer.
    async fn compare(&self, known: &Known, kind: Kind, member: &Member) -> Option<WrongRecord> {
        let disk = member.number;
        let mut wrong = WrongRecord {
            disk,
            kind,
            places: Vec::new(),
            unreadable: Vec::new(),
            newest: false,
            older: false,
        };
        for (turn, place) in kind.places(member) {
            let is_newest = known.number(kind) % 2 == turn;
            if !is_newest && !known.has_previous(kind) {
                continue;
            }
            match member.start_read(place, kind.length()).of(IoClient::Records).result().await {
                IoResult::Ok(Some(bytes)) => {
                    let mine = Envelope { group: self.group, disk: member.id(), place };
                    // A resize may have moved the disk's area meanwhile.
                    if known.is_right(kind, is_newest, mine, &bytes)
                        || !kind.places(member).contains(&(turn, place))
                    {
                        continue;
                    }
                    wrong.places.push(place);
                }
                IoResult::Overdue => return None,
                _ => wrong.unreadable.push(place),
            }
            wrong.newest |= is_newest;
            wrong.older |= !is_newest;
        }
        (wrong.newest || wrong.older).then_some(wrong)
    }

    /// Rewrites records, for a caller that holds `turn`, and for logs the log's writer. Returns the
    /// disks that did not take them.
    async fn write_again(
        &self,
        known: &Known,
        wrong: &[WrongRecord],
    ) -> BTreeMap<DiskNumber, String> {
        if !wrong.is_empty() {
            reached::at(Mark::RecordWrittenAgain);
        }
        let mut failed = BTreeMap::new();
        for kind in Kind::ALL {
            let of = |is_newest: bool| {
                let concerned = move |one: &&WrongRecord| {
                    one.kind == kind && if is_newest { one.newest } else { one.older }
                };
                wrong.iter().filter(concerned).map(|one| one.disk).collect::<BTreeSet<_>>()
            };
            let (newest, older) = (of(true), of(false));
            // The newest first: the others are not needed.
            if !newest.is_empty() {
                failed.append(&mut match kind {
                    Kind::Stamp => self.put_stamp(&newest, known.number(kind), false).await,
                    Kind::Membership => self.write_everywhere(&known.membership, &newest).await,
                    Kind::ActivityLog => match &known.log {
                        Some(log) => self.write_log(log, &newest).await,
                        None => BTreeMap::new(),
                    },
                });
            }
            if !older.is_empty() {
                failed.append(&mut match (kind, &known.previous_log) {
                    (Kind::Stamp, _) => self.put_stamp(&older, known.number(kind) - 1, false).await,
                    (Kind::Membership, _) => self.write_everywhere(&known.previous, &older).await,
                    (Kind::ActivityLog, Some(previous)) => self.write_log(previous, &older).await,
                    (Kind::ActivityLog, None) => BTreeMap::new(),
                });
            }
        }
        failed
    }
}
