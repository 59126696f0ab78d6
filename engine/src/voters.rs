//! Recording memberships and stamps (R3, R4).
//!
//! A change of membership, one at a time:
//!
//!   1. Edit a copy of the one in force; give it a new id, the next generation and its ancestors.
//!   2. Write it to every voter, old and new, and flush. Before that, make sure that enough
//!      of the earlier voters are there to record it at all.
//!   3. A voter that fails here is dropped by going back to 1 with it offline.
//!   4. Recorded: members take their new states, the stamp is rewritten everywhere.
//!
//! Until 4 the old membership holds. A crash during 2 leaves one that nobody has
//! acknowledged; whichever the next mount picks is legal.
//!
//! Invariants:
//!
//!   1. A membership is recorded when all voters it names hold it, and at least half of the
//!      voters of the last recorded one, *and of every attempt written since*: an attempt
//!      that failed may still lie on a disk, and must never win alone.
//!   2. A disk with overdue I/O is written nothing more: the old write could land last.
//!   3. A stamp n+1 is written nowhere until all writable disks hold n.
//!   4. While there is no quorum, changes wait; what depends on them is not acknowledged.

use crate::{
    buffer::Buffer,
    event::{Event, Severity},
    member::{Member, Settled},
    mirror_sets::MirrorSets,
    world::World,
};
use plinth_format::{
    DiskNumber, GroupId, MembershipId,
    envelope::Envelope,
    layout::{MEMBERSHIP_PLACES, STAMP_PLACES},
    membership::{ANCESTORS_MAX, CatalogFile, DiskState, MemberDisk, Membership},
    stamp::Stamp,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// The members of a group, by number.
pub type Members = BTreeMap<DiskNumber, Arc<Member>>;

/// Why a membership was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// R5: some extent, or the catalog, would keep no current mirror.
    #[error("some extent would keep no current mirror")]
    WouldLoseData,
    #[error("the disk group is being dismounted")]
    Closing,
    #[error("{0}")]
    Other(String),
}

type Hook = Box<dyn Fn(&[DiskNumber]) + Send + Sync>;

/// Keeper of the membership. See the module's description.
pub struct Voters {
    world: Arc<dyn World>,
    group: GroupId,
    name: String,
    members: Arc<Members>,
    mirror_sets: Arc<MirrorSets>,
    current: Mutex<Arc<Membership>>,
    /// Voters of the recorded membership and of each attempt since (invariant 1).
    obligations: Mutex<Vec<BTreeSet<DiskNumber>>>,
    turn: async_lock::Mutex<()>,
    stamp: AtomicU64,
    /// Whether every writable disk holds `stamp`.
    stamped: AtomicBool,
    waiting: AtomicBool,
    closing: AtomicBool,
    /// Called with the disks that a recorded membership took offline.
    on_offline: OnceLock<Hook>,
}

impl std::fmt::Debug for Voters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Voters of {}", self.name)
    }
}

impl Voters {
    /// Starts from `membership`, which the mount has chosen, and the newest stamp in sight.
    #[must_use]
    pub fn new(
        world: Arc<dyn World>,
        group: GroupId,
        members: Arc<Members>,
        mirror_sets: Arc<MirrorSets>,
        membership: Membership,
        stamp: u64,
    ) -> Self {
        let obligations = vec![membership.voters().map(|disk| disk.number).collect()];
        Self {
            world,
            group,
            name: membership.group_name.clone(),
            members,
            mirror_sets,
            current: Mutex::new(Arc::new(membership)),
            obligations: Mutex::new(obligations),
            turn: async_lock::Mutex::new(()),
            stamp: AtomicU64::new(stamp),
            stamped: AtomicBool::new(true),
            waiting: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            on_offline: OnceLock::new(),
        }
    }

    /// An operator forces the mount without enough voters: what the missing ones hold is given up.
    pub fn waive(&self) {
        self.obligations.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// `hook` is called with the disks that each recorded membership took offline.
    pub fn on_offline(&self, hook: Hook) {
        let _ = self.on_offline.set(hook);
    }

    /// The membership in force.
    #[must_use]
    pub fn current(&self) -> Arc<Membership> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a change waits because too few voters can be written.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Changes that wait, and later ones, end with [`Refusal::Closing`].
    pub fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Takes a disk offline after it failed (R4). On return the membership says so, durably.
    ///
    /// # Errors
    /// [`Refusal::WouldLoseData`] by R5; then the disk stays as it was.
    pub async fn expel(&self, number: DiskNumber, reason: &str, by_operator: bool) -> Result<(), Refusal> {
        let now = self.world.now();
        let stamp = self.stamp.load(Ordering::Relaxed);
        let mut expelled = false;
        self.change(|next| {
            if next.disk(number).is_none_or(|disk| disk.state == DiskState::Offline) {
                expelled = false;
                return Ok(false);
            }
            if !self.can_spare(next, number) {
                return Err(Refusal::WouldLoseData);
            }
            take_offline(next, number, stamp, now, by_operator);
            expelled = true;
            Ok(true)
        })
        .await?;
        if expelled && let Some(member) = self.members.get(&number) {
            let text = format!(
                "disk {} in failure group {} is offline: {reason}. ALTER DISKGROUP {} ONLINE DISK {} when it is back",
                member.name, member.failure_group, self.name, member.name
            );
            self.tell(Severity::Alarm, Some(number), text);
        }
        Ok(())
    }

    /// R5 for one disk, given the states in `membership`.
    fn can_spare(&self, membership: &Membership, number: DiskNumber) -> bool {
        let is_current =
            |disk: DiskNumber| membership.disk(disk).is_some_and(|disk| disk.state == DiskState::Online);
        let has_catalog = |file: CatalogFile| {
            let mut runs = membership.catalog.iter().filter(|run| run.file == file);
            membership.catalog.is_empty() || runs.any(|run| run.disk != number && is_whole(membership, file, run.mirror, number))
        };
        self.mirror_sets.can_spare(number, is_current)
            && has_catalog(CatalogFile::Database)
            && has_catalog(CatalogFile::Wal)
    }

    /// Records what `edit` makes of the membership in force. `edit` may run several
    /// times, always on the membership in force; it returns false for "nothing to change".
    ///
    /// # Errors
    /// What `edit` refuses; [`Refusal::Closing`] when the group is dismounted by force meanwhile.
    pub async fn change(
        &self,
        mut edit: impl FnMut(&mut Membership) -> Result<bool, Refusal>,
    ) -> Result<Arc<Membership>, Refusal> {
        let _turn = self.turn.lock().await;
        let mut generation = self.current().generation;
        let mut attempts: Vec<MembershipId> = Vec::new();
        loop {
            let previous = self.current();
            let mut next = (*previous).clone();
            if !edit(&mut next)? {
                return Ok(previous);
            }
            if let Some(recorded) = self.attempt(&previous, next, &mut generation, &mut attempts).await {
                self.waiting.store(false, Ordering::Relaxed);
                self.enforce(&previous, &recorded);
                self.stamp_all(false, &mut generation).await;
                return Ok(self.current());
            }
            if self.is_closing() {
                return Err(Refusal::Closing);
            }
            if !self.waiting.swap(true, Ordering::Relaxed) {
                let voters: Vec<_> = previous.voters().map(|disk| disk.name.as_str()).collect();
                let text = format!(
                    "writes wait: fewer than half of the voters {} can be written. Bring their disks back, or \
                     ALTER DISKGROUP {} DISMOUNT FORCE and then MOUNT FORCE to go on with what is left",
                    voters.join(", "),
                    self.name
                );
                self.tell(Severity::Alarm, None, text);
            }
            self.world.sleep(Duration::from_secs(1)).await;
        }
    }

    /// Writes `next`, dropping voters that fail, until it is recorded. `None` without a quorum.
    async fn attempt(
        &self,
        previous: &Arc<Membership>,
        mut next: Membership,
        generation: &mut u64,
        attempts: &mut Vec<MembershipId>,
    ) -> Option<Arc<Membership>> {
        loop {
            *generation += 1;
            next.generation = *generation;
            self.world.random(&mut next.id.0);
            next.stamp = self.stamp.load(Ordering::Relaxed);
            next.ancestors = attempts.iter().rev().copied().chain([previous.id]).chain(previous.ancestors.clone()).collect();
            next.ancestors.truncate(ANCESTORS_MAX);
            strike_offline(&mut next);
            crate::choose::assign_votes(&mut next);

            let old = previous.voters().filter(|disk| is_writable(&next, disk.number));
            let targets: BTreeSet<_> = old.chain(next.voters()).map(|disk| disk.number).collect();
            let obligations = self.obligations.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if targets.is_empty() || !meets(&obligations, &targets) {
                return None;
            }
            attempts.push(next.id);
            self.obligations
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(next.voters().map(|disk| disk.number).collect());
            let failed = self.write_everywhere(&next, &targets).await;
            let holders: BTreeSet<_> = targets.iter().copied().filter(|disk| !failed.contains_key(disk)).collect();
            if meets(&obligations, &holders) && next.voters().all(|disk| holders.contains(&disk.number)) {
                let recorded = Arc::new(next);
                *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&recorded);
                *self.obligations.lock().unwrap_or_else(PoisonError::into_inner) =
                    vec![recorded.voters().map(|disk| disk.number).collect()];
                return Some(recorded);
            }
            let now = self.world.now();
            for (disk, reason) in &failed {
                if !self.can_spare(&next, *disk) {
                    return None;
                }
                let name = next.disk(*disk).map_or_else(String::new, |disk| disk.name.clone());
                self.tell(Severity::Warning, Some(*disk), format!("disk {name} did not take the membership: {reason}"));
                take_offline(&mut next, *disk, self.stamp.load(Ordering::Relaxed), now, false);
            }
        }
    }

    /// Writes `next` to the targets; returns those that failed and why.
    async fn write_everywhere(
        &self,
        next: &Membership,
        targets: &BTreeSet<DiskNumber>,
    ) -> BTreeMap<DiskNumber, String> {
        let place = MEMBERSHIP_PLACES[usize::from(next.generation % 2 == 1)];
        self.write_records(targets, place, |member| {
            next.encode(Envelope { group: self.group, disk: member.id, place })
        })
        .await
    }

    /// Writes a record to each target and flushes it; returns those that failed and why.
    pub(crate) async fn write_records(
        &self,
        targets: &BTreeSet<DiskNumber>,
        place: u64,
        record: impl Fn(&Member) -> Vec<u8>,
    ) -> BTreeMap<DiskNumber, String> {
        let mut failed = BTreeMap::new();
        let members: Vec<_> = targets.iter().filter_map(|disk| self.members.get(disk)).collect();
        let writes = members.iter().map(|member| async {
            if member.is_hung() {
                return Some("I/O that was given up is still under way".to_owned());
            }
            match member.start_write(place, Buffer::copy_of(&record(member)).share()).settle().await {
                Settled::Ok(_) => match member.flush().await {
                    Settled::Ok(_) => None,
                    bad => Some(bad.reason()),
                },
                bad => Some(bad.reason()),
            }
        });
        let results = futures::future::join_all(writes).await;
        for (member, result) in members.iter().zip(results) {
            if let Some(reason) = result {
                failed.insert(member.number, reason);
            }
        }
        failed
    }

    /// The members take the states of the recorded membership.
    fn enforce(&self, previous: &Membership, recorded: &Membership) {
        let mut gone = Vec::new();
        for disk in &recorded.disks {
            let Some(member) = self.members.get(&disk.number) else { continue };
            let before = previous.disk(disk.number).map(|disk| disk.state);
            if disk.state == DiskState::Offline && before != Some(DiskState::Offline) {
                // Order matters: who sees the disk offline must also see that its
                // stale marks are not yet durable.
                member.unsettle();
                member.set_state(disk.state);
                member.release();
                gone.push(disk.number);
            } else {
                member.set_state(disk.state);
            }
        }
        if !gone.is_empty() {
            match self.on_offline.get() {
                Some(hook) => hook(&gone),
                None => gone.iter().filter_map(|disk| self.members.get(disk)).for_each(|member| member.settle()),
            }
        }
    }

    /// Rewrites the stamp on every writable disk. `clean`: the last act of a dismount.
    pub async fn restamp(&self, clean: bool) {
        let _turn = self.turn.lock().await;
        let mut generation = self.current().generation;
        self.stamp_all(clean, &mut generation).await;
    }

    async fn stamp_all(&self, clean: bool, generation: &mut u64) {
        loop {
            let membership = self.current();
            let counter = if self.stamped.load(Ordering::Relaxed) {
                self.stamp.fetch_add(1, Ordering::Relaxed) + 1
            } else {
                self.stamp.load(Ordering::Relaxed)
            };
            self.stamped.store(false, Ordering::Relaxed);
            let stamp = Stamp { counter, written: self.world.now(), membership: membership.id, clean };
            let targets = membership.disks.iter().filter(|disk| disk.state != DiskState::Offline);
            let targets: BTreeSet<_> = targets.map(|disk| disk.number).collect();
            let place = STAMP_PLACES[usize::from(counter % 2 == 1)];
            let failed = self
                .write_records(&targets, place, |member| {
                    stamp.encode(Envelope { group: self.group, disk: member.id, place }).to_vec()
                })
                .await;
            if failed.is_empty() {
                self.stamped.store(true, Ordering::Relaxed);
                return;
            }
            let mut next = (*membership).clone();
            let mut dropped = false;
            for (disk, reason) in failed {
                if self.can_spare(&next, disk) {
                    take_offline(&mut next, disk, counter, self.world.now(), false);
                    let name = next.disk(disk).map_or_else(String::new, |disk| disk.name.clone());
                    self.tell(Severity::Alarm, Some(disk), format!("disk {name} is offline: its stamp: {reason}"));
                    dropped = true;
                }
            }
            if !dropped {
                return;
            }
            let Some(recorded) = self.attempt(&membership, next, generation, &mut Vec::new()).await else { return };
            self.enforce(&membership, &recorded);
        }
    }

    fn tell(&self, severity: Severity, disk: Option<DiskNumber>, text: String) {
        self.world.event(Event { group: self.name.clone(), severity, disk, text });
    }
}

/// Whether `holders` has at least half of each set.
fn meets(obligations: &[BTreeSet<DiskNumber>], holders: &BTreeSet<DiskNumber>) -> bool {
    obligations.iter().all(|voters| 2 * voters.intersection(holders).count() >= voters.len())
}

fn is_writable(membership: &Membership, number: DiskNumber) -> bool {
    membership.disk(number).is_some_and(|disk| disk.state != DiskState::Offline)
}

/// Whether mirror `mirror` of a catalog file has no run on `without`, nor on a disk that is not online.
fn is_whole(membership: &Membership, file: CatalogFile, mirror: u8, without: DiskNumber) -> bool {
    let mut runs = membership.catalog.iter().filter(|run| run.file == file && run.mirror == mirror);
    runs.all(|run| {
        run.disk != without && membership.disk(run.disk).is_some_and(|disk| disk.state == DiskState::Online)
    })
}

/// Writes into `membership` that a disk is offline from now on.
fn take_offline(membership: &mut Membership, number: DiskNumber, stamp: u64, now: i64, by_operator: bool) {
    if let Some(disk) = find(membership, number) {
        if disk.state == DiskState::Online {
            disk.stamp = stamp;
        }
        disk.state = DiskState::Offline;
        disk.votes = false;
        disk.since = now;
        disk.by_operator = by_operator;
    }
}

/// The entry of a disk.
pub(crate) fn find(membership: &mut Membership, number: DiskNumber) -> Option<&mut MemberDisk> {
    membership.disks.iter_mut().find(|disk| disk.number == number)
}

/// R6: a catalog mirror whose disk is not online is struck from the list, whole.
fn strike_offline(membership: &mut Membership) {
    let struck: BTreeSet<_> = membership
        .catalog
        .iter()
        .filter(|run| membership.disk(run.disk).is_none_or(|disk| disk.state != DiskState::Online))
        .map(|run| (run.file, run.mirror))
        .collect();
    membership.catalog.retain(|run| !struck.contains(&(run.file, run.mirror)));
}
