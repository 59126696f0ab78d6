//! Changes of the membership: which disks count (R3, R4, R5).
//!
//! A change of membership, one at a time:
//!
//!   1. Begin a successor of the membership in force: the change, disks that failed, one vote more
//!      or less. A disk that is to vote gets the newest activity log first, and every later one.
//!   2. Write it to the voters of both memberships, and flush. It is in force once half of the
//!      earlier one's voters hold it. Until then no other is begun: the change waits, and tries
//!      again.
//!   3. In force: members take their new states. A voter that failed in 2, and votes still to be
//!      changed, are left to the next successor.
//!   4. When nothing is left to change, the stamp is rewritten on every writable disk.
//!
//! A crash during 2 leaves a membership that was not acknowledged; whichever of the two the next
//! mount picks is legal, and `mount_decision.rs` has the proof that it misses none that was in
//! force.
//!
//! Invariants:
//!
//!   1. At most one membership is begun and not in force, and it differs from its parent by one
//!      vote at most.
//!   2. A disk with overdue I/O is not written any more: the old write could land last.
//!   3. A stamp n+1 is written nowhere until all writable disks hold n, even if an earlier engine
//!      wrote n.
//!   4. While there is no quorum, changes wait; writes that depend on them are not acknowledged.
//!
//! How a record is written is in `voters/records.rs`. The records on the voters are checked while
//! the group is used (`own_metadata.rs`, `voters/look.rs`), and before a change relies on them.

mod look;
mod loss;
mod records;

pub(crate) use look::{Kind, WrongRecord};
pub(crate) use loss::Loss;

use crate::{
    disk::{
        counters::IoClient,
        disk_io::{self, IoResult},
        member::Member,
        members::Members,
        originals::{self, FoundDisk},
    },
    error::is_lack_of_room,
    event::{Event, Severity},
    membership::mount_decision,
    planted::{self, Bug},
    space::mirror_sets::MirrorSets,
    sync::lock::{AsyncMutex, Mutex, MutexGuard},
    world::World,
};
use plinth_format::{
    BLOCK_SIZE, DiskNumber, GroupId, MembershipId,
    activity::ActivityLog,
    layout::{ACTIVITY_SLOT, MEMBERSHIP_SLOT, RecordArea},
    membership::{CatalogFile, DiskState, MemberDisk, Membership},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// Why a membership was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// R5: some extent, or the catalog, would keep no current mirror.
    #[error("some extent would keep no current mirror")]
    WouldLoseData,
    /// It was silent or had no room, and that is over: retry the I/O.
    #[error("it answers again")]
    Answers,
    #[error("the disk group is being dismounted")]
    Closing,
    #[error("{0}")]
    Other(String),
}

/// The newest activity log, and the disks that must have it besides the voters.
#[derive(Debug, Default)]
struct LogState {
    newest: Option<ActivityLog>,
    /// The one before, if the newest was written since the mount.
    previous: Option<ActivityLog>,
    /// Disks that are about to vote: from now on they get every log, and they get the newest one
    /// before they vote.
    joining: BTreeSet<DiskNumber>,
}

type Hook = Box<dyn Fn(&[DiskNumber]) + Send + Sync>;

/// The membership, and its only writer. See the module's description.
pub struct Voters {
    world: Arc<dyn World>,
    group: GroupId,
    name: String,
    members: Arc<Members>,
    mirror_sets: Arc<MirrorSets>,
    current: Mutex<Arc<Membership>>,
    /// The membership in force before this one, since the mount.
    previous: Mutex<Option<Arc<Membership>>>,
    /// Begun, and not in force yet (invariant 1).
    begun: Mutex<Option<Arc<Membership>>>,
    turn: AsyncMutex<()>,
    stamp: AtomicU64,
    /// Whether every writable disk holds `stamp`.
    stamped: AtomicBool,
    /// The next membership is the first since the mount: more than half of the voters must hold it,
    /// and it changes no vote (`mount_decision.rs`, rule 3).
    first: AtomicBool,
    /// The engine has checked its own metadata since the mount.
    looked_at: AtomicBool,
    forced: AtomicBool,
    log: Mutex<LogState>,
    /// Voters that did not take the membership in force, and cannot be spared.
    behind: Mutex<BTreeSet<DiskNumber>>,
    /// Slots that a disk lost, and that were reported.
    lost_copies: Mutex<BTreeSet<(DiskNumber, u64)>>,
    waiting: AtomicBool,
    closing: AtomicBool,
    /// The I/O deadline, in ticks.
    deadline: Arc<AtomicU64>,
    /// Called with the disks that a recorded membership took offline.
    on_offline: OnceLock<Hook>,
}

impl std::fmt::Debug for Voters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Voters of {}", self.name)
    }
}

impl Voters {
    /// Starts from `membership`, which the mount has chosen, and the newest stamp found; all
    /// writable disks hold that stamp if they are `stamped`.
    #[must_use]
    pub fn new(
        world: Arc<dyn World>,
        group: GroupId,
        members: Arc<Members>,
        mirror_sets: Arc<MirrorSets>,
        membership: Membership,
        stamp: u64,
        stamped: bool,
    ) -> Self {
        Self {
            world,
            group,
            name: membership.group_name.clone(),
            members,
            mirror_sets,
            current: Mutex::new(Arc::new(membership)),
            previous: Mutex::default(),
            begun: Mutex::new(None),
            turn: AsyncMutex::new(()),
            stamp: AtomicU64::new(stamp),
            stamped: AtomicBool::new(stamped),
            first: AtomicBool::new(true),
            looked_at: AtomicBool::new(false),
            forced: AtomicBool::new(false),
            log: Mutex::default(),
            behind: Mutex::default(),
            lost_copies: Mutex::default(),
            waiting: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            deadline: Arc::default(),
            on_offline: OnceLock::new(),
        }
    }

    /// Sets how long a disk may be silent, in ticks; the value is shared.
    #[must_use]
    pub fn with_deadline(mut self, deadline: &Arc<AtomicU64>) -> Self {
        self.deadline = Arc::clone(deadline);
        self
    }

    /// The disk timeout in ticks of the watchdog.
    pub(crate) fn deadline(&self) -> u64 {
        self.deadline.load(Ordering::Relaxed)
    }

    /// An operator forces the mount: until `forced(false)` one voter is enough, and records on
    /// disks that are not visible are given up.
    pub fn forced(&self, forced: bool) {
        self.forced.store(forced, Ordering::Relaxed);
        if forced {
            self.first.store(false, Ordering::Relaxed);
        }
    }

    /// Sets the function that is called with the disks that each recorded membership took offline.
    pub fn on_offline(&self, hook: Hook) {
        let _ = self.on_offline.set(hook);
    }

    /// The membership in force.
    #[must_use]
    pub fn current(&self) -> Arc<Membership> {
        Arc::clone(&self.current.lock())
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

    /// Whether no membership was recorded since the mount.
    pub(crate) fn is_first(&self) -> bool {
        self.first.load(Ordering::Relaxed)
    }

    /// Waits until every change that was decided before is in force.
    pub async fn wait_for_changes(&self) {
        drop(self.turn.lock().await);
    }

    /// Takes a disk offline after it failed (R4). On return the membership says so, durably.
    ///
    /// # Errors
    /// [`Refusal::WouldLoseData`] by R5, or [`Refusal::Answers`]; then the disk stays as it was.
    pub async fn expel(
        &self,
        number: DiskNumber,
        reason: &str,
        by_operator: bool,
    ) -> Result<(), Refusal> {
        let now = self.world.now();
        let stamp = self.stamp.load(Ordering::Relaxed);
        let is_full = is_lack_of_room(reason);
        let mut expelled = false;
        let expelled_here = &mut expelled;
        if is_full {
            // Not inside the change: each may wait a little.
            self.members.values().for_each(|member| member.ask_pool());
        }
        let change = self.change(|next| {
            if next.disk(number).is_none_or(|disk| disk.state == DiskState::Offline) {
                return Ok(false);
            }
            self.may_go(next, number, reason)?;
            set_offline(next, number, stamp, now, by_operator);
            if let Some(disk) = find(next, number).filter(|_| is_full) {
                // It comes back by itself when there is room.
                disk.absent = true;
            }
            *expelled_here = true;
            Ok(true)
        });
        // Boxed, so that the caller's future is small (`file_read.rs`).
        Box::pin(change).await?;
        if expelled {
            if let Some(member) = self.members.get(&number).filter(|_| is_full) {
                member.room.note_reason();
            }
            self.tell_offline(
                number,
                reason,
                if by_operator { Severity::Note } else { Severity::Alarm },
            );
        }
        Ok(())
    }

    /// Takes disks offline for the operator: all of them or, by R5, none.
    ///
    /// # Errors
    /// [`Refusal::WouldLoseData`], with the disk that cannot be spared.
    pub async fn take_offline(&self, numbers: &[DiskNumber]) -> Result<(), (DiskNumber, Refusal)> {
        let now = self.world.now();
        let stamp = self.stamp.load(Ordering::Relaxed);
        let mut unspared = None;
        let (blame, mut expelled, mut owned) = (&mut unspared, Vec::new(), false);
        let (taken, noted) = (&mut expelled, &mut owned);
        let changed = self
            .change(|next| {
                for number in numbers {
                    if next.disk(*number).is_none_or(|disk| disk.state == DiskState::Offline) {
                        // From now on it is offline because the operator says so.
                        if let Some(disk) = find(next, *number).filter(|disk| !disk.by_operator) {
                            (disk.by_operator, disk.absent, *noted) = (true, false, true);
                        }
                        continue;
                    }
                    if !self.can_spare_for(next, *number, |member| {
                        !member.is_hung() && !member.health.has_unread()
                    }) {
                        *blame = Some(*number);
                        return Err(Refusal::WouldLoseData);
                    }
                    set_offline(next, *number, stamp, now, true);
                    taken.push(*number);
                }
                Ok(*noted || !taken.is_empty())
            })
            .await;
        if let Err(refusal) = changed {
            return Err((unspared.or(numbers.first().copied()).unwrap_or(DiskNumber(0)), refusal));
        }
        for number in expelled {
            // The operator knows already.
            self.tell_offline(number, "taken offline by the operator", Severity::Note);
        }
        Ok(())
    }

    fn tell_offline(&self, number: DiskNumber, reason: &str, severity: Severity) {
        let Some(member) = self.members.get(&number) else { return };
        let text = format!(
            "disk {} in failure group {} is offline: {reason}. ALTER DISKGROUP {} ONLINE DISK {} {}",
            member.name(),
            member.failure_group,
            self.name,
            member.name(),
            if is_lack_of_room(reason) {
                "does not wait for the next attempt of auto_online.enabled"
            } else {
                "when it is back"
            }
        );
        self.tell(severity, Some(number), text);
    }

    /// Records a disk that is back as SYNCING. It is stamped first: an image from before it became
    /// SYNCING must not look as if it were current. If nothing on it counts, its whole content is
    /// on the list of stale regions, durably, and from now on that list says what is missing. So
    /// after any interruption the next resync continues where this one was.
    ///
    /// # Errors
    /// If the disk does not take its stamp, or the group is being dismounted.
    pub async fn admit(&self, member: &Member) -> Result<(), Refusal> {
        {
            let _turn = self.turn.lock().await;
            let failed = self.write_stamp(&BTreeSet::from([member.number]), false).await;
            if let Some(reason) = failed.get(&member.number) {
                return Err(Refusal::Other(reason.clone()));
            }
        }
        let (number, id) = (member.number, member.id());
        self.change(move |next| {
            let Some(entry) = find(next, number) else { return Ok(false) };
            // A quorum disk holds no data that could be stale.
            entry.state = if entry.quorum { DiskState::Online } else { DiskState::Syncing };
            entry.copy_whole = false;
            // Another device may have taken its place.
            entry.id = id;
            entry.by_operator = false;
            entry.absent = false;
            Ok(true)
        })
        .await
        .map(|_| ())
    }

    /// Adds new members, which hold no data yet. They are stamped first: a disk that is ONLINE
    /// always has a stamp.
    ///
    /// # Errors
    /// If one does not take its stamp, or the group is being dismounted.
    pub async fn enlist(&self, entries: &[MemberDisk]) -> Result<(), Refusal> {
        let _turn = self.turn.lock().await;
        let numbers = entries.iter().map(|entry| entry.number).collect();
        let failed = self.write_stamp(&numbers, false).await;
        if let Some(reason) = failed.into_values().next() {
            return Err(Refusal::Other(reason));
        }
        let edit = |next: &mut Membership| {
            next.disks.extend(entries.iter().cloned());
            Ok(true)
        };
        self.change_in_turn(edit).await.map(|_| ())
    }

    /// Removes a disk that leaves from the membership, when it holds nothing any more. False: it
    /// does, or it votes.
    ///
    /// # Errors
    /// [`Refusal::WouldLoseData`] by R5.
    pub async fn dismiss(&self, number: DiskNumber) -> Result<bool, Refusal> {
        let mut dismissed = false;
        let dismissed_here = &mut dismissed;
        self.change(|next| {
            let may_go = next.disk(number).is_some_and(|disk| disk.leaving && !disk.votes);
            if !may_go || self.mirror_sets.has(number) {
                return Ok(false);
            }
            self.may_go(next, number, "it is dropped")?;
            next.disks.retain(|disk| disk.number != number);
            *dismissed_here = true;
            Ok(true)
        })
        .await?;
        Ok(dismissed)
    }

    /// Wipes the memberships and stamps of a disk that is to be copied whole: those of a longer
    /// history that was given up would outvote the ones that it gets.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub async fn forget_history(&self, member: &Member) -> Result<(), Refusal> {
        let targets = BTreeSet::from([member.number]);
        for slot in [0, 1] {
            let memberships = |area: &RecordArea| area.memberships[slot];
            let mut failed = self.wipe(&targets, memberships, MEMBERSHIP_SLOT).await;
            let stamps = |area: &RecordArea| area.stamps[slot];
            failed.append(&mut self.wipe(&targets, stamps, BLOCK_SIZE).await);
            if let Some(reason) = failed.remove(&member.number) {
                return Err(Refusal::Other(reason));
            }
        }
        Ok(())
    }

    /// Records the boot of the host for which pending pieces count as written after a kill.
    ///
    /// # Errors
    /// If that cannot be recorded.
    pub(crate) async fn record_boot(&self, boot: [u8; 16]) -> Result<(), Refusal> {
        let record =
            move |next: &mut Membership| Ok(std::mem::replace(&mut next.boot, boot) != boot);
        self.change(record).await.map(|_| ())
    }

    /// R5 for one disk that is to go for `reason`, given the states in `membership`. A disk that
    /// cannot be read is no current mirror; and if the disk goes because it is silent, another one
    /// that is silent, or has just been, is none either (R2): both may be on one array. The same
    /// holds for disks without room, and for those on the pool of one (`disk/full.rs`).
    ///
    /// # Errors
    /// [`Refusal::WouldLoseData`]; and [`Refusal::Answers`] if it was silent or had no room, and
    /// that is over: perhaps it was so of all for a moment (R2).
    fn may_go(
        &self,
        membership: &Membership,
        number: DiskNumber,
        reason: &str,
    ) -> Result<(), Refusal> {
        // Read at once: it may answer at any moment.
        let member = self.members.get(&number);
        let is_silence = disk_io::is_silence(reason) || planted::has(Bug::SilenceOverFailure);
        let is_spared = match member.filter(|member| is_silence && member.is_hung()) {
            None if member.is_some() && disk_io::is_silence(reason) => {
                return Err(Refusal::Answers);
            }
            None if is_lack_of_room(reason) => {
                if member.is_some_and(|member| !member.room.is_short()) {
                    return Err(Refusal::Answers);
                }
                self.can_spare_for(membership, number, |other| {
                    let is_full_too = other.room.is_short()
                        || member.is_some_and(|member| other.room.shares_pool_with(&member.room));
                    !other.health.is_unreadable() && !is_full_too
                })
            }
            None => self.can_spare_for(membership, number, |member| !member.health.is_unreadable()),
            Some(leaving) if leaving.is_excused() => false,
            Some(leaving) => {
                // Of two disks that fell silent together one is overdue first, and one answers
                // first: that proves nothing about the other. A disk that has hung for long while
                // others were only slow is not waited for any more.
                let ticks = self.deadline();
                let quiet_counts = leaving.hung_for() <= 2 * ticks;
                let answers = |member: &Member| {
                    member.answers(ticks, quiet_counts) || planted::has(Bug::SilentPartnerCounts)
                };
                self.can_spare_for(membership, number, |member| {
                    !member.health.is_unreadable() && answers(member)
                })
            }
        };
        if is_spared { Ok(()) } else { Err(Refusal::WouldLoseData) }
    }

    /// Gives silent voters that a record waited for a whole deadline, after one of them has
    /// answered.
    fn excuse(&self, which: impl Fn(&Member) -> bool) {
        let ticks = self.deadline();
        let silent = self.members.values().filter(|member| member.is_hung() && which(member));
        silent.for_each(|member| member.excuse(ticks));
    }

    /// Whether another mirror of a catalog file than this one is on disks that answer.
    pub(crate) fn has_other_mirror(
        &self,
        membership: &Membership,
        file: CatalogFile,
        mirror: u8,
    ) -> bool {
        let ticks = self.deadline();
        let is_sound = |disk: DiskNumber| {
            let is_online =
                membership.disk(disk).is_some_and(|disk| disk.state == DiskState::Online);
            let member = self.members.get(&disk);
            is_online
                && member.is_some_and(|member| {
                    !member.health.is_unreadable() && member.answers(ticks, true)
                })
        };
        let mut others =
            membership.catalog.iter().filter(|run| run.file == file && run.mirror != mirror);
        others.any(|run| is_whole(membership, file, run.mirror, None, is_sound))
    }

    /// The same; a disk that is ONLINE has to be `sound`, too.
    fn can_spare_for(
        &self,
        membership: &Membership,
        number: DiskNumber,
        sound: impl Fn(&Member) -> bool,
    ) -> bool {
        let is_online = |disk: DiskNumber| {
            membership.disk(disk).is_some_and(|disk| disk.state == DiskState::Online)
        };
        let is_current = |disk: DiskNumber| {
            is_online(disk) && self.members.get(&disk).is_none_or(|member| sound(member))
        };
        let has_catalog = |file: CatalogFile| {
            let mut runs = membership.catalog.iter().filter(|run| run.file == file);
            membership.catalog.is_empty()
                || runs.any(|run| {
                    run.disk != number
                        && is_whole(membership, file, run.mirror, Some(number), is_current)
                })
        };
        let has_extents = if self.mirror_sets.is_complete() {
            self.mirror_sets.can_spare(number, is_current)
        } else {
            // The places of extents are not known yet, but no two mirrors are in one failure group.
            let leaves = |disk: &&MemberDisk| {
                !disk.quorum && (disk.number == number || !is_current(disk.number))
            };
            let away: BTreeSet<_> =
                membership.disks.iter().filter(leaves).map(|disk| &disk.failure_group).collect();
            away.len() < membership.redundancy.mirrors()
                || membership.disk(number).is_some_and(|disk| disk.quorum)
        };
        has_extents && has_catalog(CatalogFile::Database) && has_catalog(CatalogFile::Wal)
    }

    /// Makes the change `edit`, and those that failing disks force. `edit` runs once, on the
    /// membership in force; it returns false for "nothing to change". On return the change is in
    /// force.
    ///
    /// # Errors
    /// The refusal of `edit`, or of the voters: then it is not in force. [`Refusal::Closing`] when
    /// the group is dismounted by force at the same time: then it may be in force.
    pub async fn change(
        &self,
        edit: impl FnOnce(&mut Membership) -> Result<bool, Refusal> + Send,
    ) -> Result<Arc<Membership>, Refusal> {
        let _turn = self.turn.lock().await;
        self.change_in_turn(edit).await
    }

    /// As [`Self::change`], for a caller that holds `turn`.
    async fn change_in_turn(
        &self,
        edit: impl FnOnce(&mut Membership) -> Result<bool, Refusal> + Send,
    ) -> Result<Arc<Membership>, Refusal> {
        let mut failed = self.bring_in_force().await?;
        let mut next = (*self.current()).clone();
        if !edit(&mut next)? && failed.is_empty() {
            return Ok(self.current());
        }
        // Boxed, so that the caller's future is small (`file_read.rs`).
        Box::pin(self.look_in_turn()).await;
        let mut in_force = false;
        loop {
            match self.reach(next, &mut failed).await {
                // A consequence of the change may be refused; the change was not.
                Err(refusal) if in_force && !matches!(refusal, Refusal::Closing) => {
                    return Ok(self.current());
                }
                ended => ended?,
            }
            in_force = true;
            failed = self.stamp_all(false).await;
            next = (*self.current()).clone();
            if !self.drop_failed(&mut next, &failed) {
                return Ok(self.current());
            }
        }
    }

    /// Marks failed disks as offline in `next`, if they can be spared. False if there was none.
    fn drop_failed(&self, next: &mut Membership, failed: &BTreeMap<DiskNumber, String>) -> bool {
        let mut dropped = false;
        for (number, reason) in failed {
            let is_serving =
                next.disk(*number).is_some_and(|disk| disk.state != DiskState::Offline);
            if is_serving && self.may_go(next, *number, reason).is_ok() {
                set_offline(
                    next,
                    *number,
                    self.stamp.load(Ordering::Relaxed),
                    self.world.now(),
                    false,
                );
                self.tell_offline(*number, &format!("its metadata: {reason}"), Severity::Alarm);
                dropped = true;
            }
        }
        dropped
    }

    /// Brings `next`, and the changes of votes that it requires, in force, one successor after the
    /// other.
    async fn reach(
        &self,
        mut next: Membership,
        failed: &mut BTreeMap<DiskNumber, String>,
    ) -> Result<(), Refusal> {
        let (mut changed, mut recorded, mut vote_stays) = (true, false, false);
        loop {
            changed |= self.drop_failed(&mut next, failed);
            let parent = self.current();
            strike_offline(&mut next);
            // Without a mirror of the catalog the group could not be mounted any more.
            if [CatalogFile::Database, CatalogFile::Wal]
                .iter()
                .any(|file| has(&parent, *file) && !has(&next, *file))
            {
                return if recorded { Ok(()) } else { Err(Refusal::WouldLoseData) };
            }
            let now: BTreeSet<_> = parent.voters().map(|disk| disk.number).collect();
            let wanted = mount_decision::voters(&next.disks, next.redundancy);
            let gone = now.iter().copied().filter(|disk| !is_writable(&next, *disk)).collect();
            let step = mount_decision::voter_steps(&now, &wanted, &gone).into_iter().next();
            if !changed && step.is_none() {
                return Ok(());
            }
            let can_stay = now.iter().any(|disk| is_writable(&next, *disk));
            let stays = vote_stays && can_stay || self.first.load(Ordering::Relaxed);
            let votes = step.filter(|_| !stays).unwrap_or_else(|| now.clone());
            let joining: BTreeSet<_> = votes.difference(&now).copied().collect();
            let unfit = self.prepare_to_vote(&joining).await;
            if !unfit.is_empty() {
                // It does not become a voter, so later writes of the activity log do not wait for
                // it.
                if !planted::has(Bug::JoiningForGood) {
                    self.log.lock().joining.clear();
                }
                if self.drop_failed(&mut next, &unfit) {
                    changed = true;
                } else if recorded {
                    // The requested change is in force; the vote stays where it is for now.
                    return Ok(());
                } else if can_stay && !planted::has(Bug::VoteHoldsUpChange) {
                    // The vote stays where it is while the change is recorded.
                    vote_stays = true;
                } else {
                    return Err(Refusal::Other(
                        "a disk that is to vote does not take the activity log".to_owned(),
                    ));
                }
                continue;
            }
            let mut id = MembershipId::default();
            self.world.random(&mut id.0);
            let stamp = self.stamp.load(Ordering::Relaxed);
            let begun = mount_decision::successor(&parent, id, |child| {
                *child = next;
                child.stamp = stamp;
                for disk in &mut child.disks {
                    disk.votes = votes.contains(&disk.number);
                }
            });
            *self.begun.lock() = Some(Arc::new(begun));
            *failed = self.bring_in_force().await?;
            self.log.lock().joining.clear();
            next = (*self.current()).clone();
            (changed, recorded, vote_stays) = (false, true, false);
        }
    }

    /// Writes the membership that is begun, if there is one, until it is in force. Returns the
    /// disks that did not take it.
    async fn bring_in_force(&self) -> Result<BTreeMap<DiskNumber, String>, Refusal> {
        let begun = self.begun.lock().clone();
        let Some(begun) = begun else { return Ok(BTreeMap::new()) };
        let parent = self.current();
        let old: BTreeSet<_> = parent.voters().map(|disk| disk.number).collect();
        let mut targets: BTreeSet<_> =
            begun.voters().map(|disk| disk.number).chain(old.iter().copied()).collect();
        if planted::has(Bug::MembershipOnOneVoter) {
            targets = targets.into_iter().take(1).collect();
        }
        loop {
            let failed = self.write_everywhere(&begun, &targets).await;
            let holders = old.iter().filter(|disk| !failed.contains_key(disk)).count();
            let first = self.first.load(Ordering::Relaxed);
            let enough = if first { mount_decision::may_mount } else { mount_decision::may_record };
            let forced = self.forced.load(Ordering::Relaxed) && holders > 0;
            if forced || enough(old.len(), holders) {
                self.first.store(false, Ordering::Relaxed);
                *self.current.lock() = Arc::clone(&begun);
                *self.previous.lock() = Some(Arc::clone(&parent));
                *self.begun.lock() = None;
                let behind =
                    begun.voters().map(|disk| disk.number).filter(|disk| failed.contains_key(disk));
                let behind = behind.filter(|_| !planted::has(Bug::BehindForgotten));
                *self.behind() = behind.collect();
                if self.waiting.swap(false, Ordering::Relaxed) {
                    self.excuse(|member| failed.contains_key(&member.number));
                    self.tell(
                        Severity::Note,
                        None,
                        "writes go on: enough voters are back".to_owned(),
                    );
                }
                self.enforce(&parent, &begun);
                return Ok(failed);
            }
            if self.is_closing() {
                return Err(Refusal::Closing);
            }
            if first {
                // A mount that cannot be recorded fails: only the operator waits for it.
                let reasons: Vec<_> = failed.values().map(String::as_str).collect();
                let text = format!(
                    "{holders} of {} voters took the mount's record: {}",
                    old.len(),
                    reasons.join("; ")
                );
                return Err(Refusal::Other(text));
            }
            if !self.waiting.swap(true, Ordering::Relaxed) {
                let names: Vec<_> = parent.voters().map(|disk| disk.name.as_str()).collect();
                let text = format!(
                    "writes wait: {holders} of the {} voters {} can be written, at least half are needed. Bring the \
                     disks back, or ALTER DISKGROUP {} DISMOUNT FORCE and then MOUNT FORCE to go on with what is left",
                    names.len(),
                    names.join(", "),
                    self.name
                );
                self.tell(Severity::Alarm, None, text);
            }
            self.world.sleep(Duration::from_secs(1)).await;
            for number in failed.keys() {
                if let Some(member) = self.members.get(number) {
                    self.reopen(member).await;
                }
            }
        }
    }

    /// Gives the membership in force to voters that did not take it when it was recorded, and can
    /// take it now: with an older one they could not replace other voters that are lost.
    pub(crate) async fn catch_up(&self) {
        if !self.behind().is_empty() && !self.is_waiting() {
            let _turn = self.turn.lock().await;
            self.catch_up_in_turn().await;
        }
    }

    /// Voters that do not hold the membership in force, as far as is known.
    pub(crate) fn behind(&self) -> MutexGuard<'_, BTreeSet<DiskNumber>> {
        self.behind.lock()
    }

    /// As [`Self::catch_up`], for a caller that holds `turn`.
    async fn catch_up_in_turn(&self) {
        let membership = self.current();
        let mut behind = self.behind().clone();
        // A disk that comes back gets it then, and a membership that is begun goes to all voters.
        behind.retain(|disk| is_writable(&membership, *disk));
        if behind.is_empty() || self.begun.lock().is_some() {
            return;
        }
        let failed = self.write_everywhere(&membership, &behind).await;
        self.behind().retain(|disk| failed.contains_key(disk));
    }

    /// The membership in force, and those of its voters that do not hold it as their newest. `None`
    /// while a change waits.
    pub(crate) async fn audit(&self) -> Option<(Arc<Membership>, Vec<DiskNumber>)> {
        if self.is_waiting() {
            return None;
        }
        let _turn = self.turn.lock().await;
        self.catch_up_in_turn().await;
        let membership = self.current();
        let mut without = Vec::new();
        for voter in membership.voters() {
            let Some(member) = self.members.get(&voter.number) else { continue };
            let mut held = None;
            for place in member.areas().iter().flat_map(|area| area.memberships) {
                if let IoResult::Ok(Some(bytes)) =
                    member.start_read(place, MEMBERSHIP_SLOT).of(IoClient::Records).result().await
                    && let Ok((envelope, found)) = Membership::decode(&bytes, place)
                    && envelope.expect(self.group, member.id()).is_ok()
                {
                    held = held.max(Some((found.generation, found.id)));
                }
            }
            if held != Some((membership.generation, membership.id)) {
                without.push(voter.number);
            }
        }
        let has_begun = self.begun.lock().is_some();
        (!has_begun).then_some((membership, without))
    }

    /// Tries to open a failed disk again: it may have come back as another device. Its old
    /// descriptor is closed first, and the claim succeeds only when its last I/O has landed (R1).
    async fn reopen(&self, member: &Member) {
        let Ok(FoundDisk { matches, .. }) =
            originals::find_disk(&*self.world, self.group, member.id()).await
        else {
            return;
        };
        let is_one = matches.iter().all(|(found, ..)| found.identity == matches[0].0.identity);
        let found = matches.into_iter().next().filter(|_| is_one);
        // While the old handle has I/O in flight it is the same device, and the claim fails on it.
        if let Some((_, disk, header)) = found.filter(|(_, disk, _)| disk.claim().is_ok()) {
            member.release();
            member.set_areas(header.best.record_areas());
            member.attach(disk);
        }
    }

    /// Records the log that is about to be written; returns the disks that must get it.
    pub(crate) fn announce_log(&self, log: &ActivityLog) -> BTreeSet<DiskNumber> {
        let mut state = self.log.lock();
        state.previous = state.newest.replace(log.clone());
        self.current()
            .voters()
            .map(|disk| disk.number)
            .chain(state.joining.iter().copied())
            .collect()
    }

    /// Gives disks that will vote the membership in force and the newest log. An older log on them
    /// may be of a history that was given up, with a higher sequence: it is wiped first.
    async fn prepare_to_vote(&self, disks: &BTreeSet<DiskNumber>) -> BTreeMap<DiskNumber, String> {
        self.log.lock().joining.clear();
        for slot in [0, 1] {
            let place = |area: &RecordArea| area.activity[slot];
            let failed = self.wipe(disks, place, ACTIVITY_SLOT).await;
            if !failed.is_empty() {
                return failed;
            }
        }
        // Until it holds the membership that gives it a vote, this one proves that it holds no
        // newer one. Without it, a loss of power in between would leave a voter that is no witness.
        let failed = self.write_everywhere(&self.current(), disks).await;
        if !failed.is_empty() {
            return failed;
        }
        let newest = {
            let mut state = self.log.lock();
            state.joining = disks.clone();
            state.newest.clone()
        };
        let Some(mut log) = newest.filter(|_| !disks.is_empty()) else { return BTreeMap::new() };
        loop {
            let failed = self.write_log(&log, disks).await;
            let newest = self.log.lock().newest.clone();
            match newest {
                // The writer of the newer log gave it to these disks, too, and this one may have
                // overwritten it.
                Some(newer) if failed.is_empty() && newer.sequence != log.sequence => log = newer,
                _ => return failed,
            }
        }
    }

    /// Gives the members the states and names of the recorded membership.
    fn enforce(&self, previous: &Membership, recorded: &Membership) {
        let mut gone = Vec::new();
        for disk in &recorded.disks {
            let Some(member) = self.members.get(&disk.number) else { continue };
            let known = previous.disk(disk.number);
            if known.is_some_and(|known| known.name != disk.name) {
                member.rename(&disk.name);
            }
            let before = known.map(|known| known.state);
            if disk.state == DiskState::Offline && before != Some(DiskState::Offline) {
                // The order matters: a thread that sees the disk offline must also see that its
                // stale marks are not durable yet.
                member.expect_marks();
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
                None => gone
                    .iter()
                    .filter_map(|disk| self.members.get(disk))
                    .for_each(|member| member.note_marks_durable()),
            }
        }
    }

    /// Rewrites the stamp on every writable disk. `clean`: the last step of a dismount.
    pub async fn restamp(&self, clean: bool) {
        let failed = {
            let _turn = self.turn.lock().await;
            self.stamp_all(clean).await
        };
        for (disk, reason) in failed {
            // R5 may keep it; then the next stamp tries the same counter again.
            let _ = self.expel(disk, &format!("stamp: {reason}"), false).await;
        }
    }

    /// Writes the next stamp; returns the disks that did not take it.
    async fn stamp_all(&self, clean: bool) -> BTreeMap<DiskNumber, String> {
        let membership = self.current();
        if self.stamped.swap(false, Ordering::Relaxed) {
            self.stamp.fetch_add(1, Ordering::Relaxed);
        }
        let targets = membership.disks.iter().filter(|disk| disk.state != DiskState::Offline);
        let failed = self.write_stamp(&targets.map(|disk| disk.number).collect(), clean).await;
        self.stamped
            .store(failed.is_empty() || planted::has(Bug::FailedStampCounts), Ordering::Relaxed);
        failed
    }

    /// Writes the stamp to disks; returns those that did not take it.
    async fn write_stamp(
        &self,
        disks: &BTreeSet<DiskNumber>,
        clean: bool,
    ) -> BTreeMap<DiskNumber, String> {
        self.put_stamp(disks, self.stamp.load(Ordering::Relaxed), clean).await
    }

    fn tell(&self, severity: Severity, disk: Option<DiskNumber>, text: String) {
        self.world.event(Event { group: self.name.clone(), severity, disk, text });
    }
}

fn is_writable(membership: &Membership, number: DiskNumber) -> bool {
    membership.disk(number).is_some_and(|disk| disk.state != DiskState::Offline)
}

/// Whether mirror `mirror` of a catalog file has no run on `without`, nor on a disk that is not
/// current.
fn is_whole(
    membership: &Membership,
    file: CatalogFile,
    mirror: u8,
    without: Option<DiskNumber>,
    is_current: impl Fn(DiskNumber) -> bool,
) -> bool {
    let mut runs = membership.catalog.iter().filter(|run| run.file == file && run.mirror == mirror);
    runs.all(|run| Some(run.disk) != without && is_current(run.disk))
}

/// Marks a disk as offline in `membership`.
fn set_offline(
    membership: &mut Membership,
    number: DiskNumber,
    stamp: u64,
    now: i64,
    by_operator: bool,
) {
    if let Some(disk) = find(membership, number) {
        let keeps = planted::has(Bug::SyncingStampKept) && disk.state == DiskState::Syncing;
        if disk.state != DiskState::Offline && !keeps {
            // SYNCING disks are stamped, too: an image from before it was one is old, since it
            // lacks what was copied since.
            disk.stamp = stamp;
        }
        disk.state = DiskState::Offline;
        disk.votes = false;
        disk.since = now;
        disk.by_operator = by_operator;
        disk.absent = false;
    }
}

/// The entry of a disk.
pub(crate) fn find(membership: &mut Membership, number: DiskNumber) -> Option<&mut MemberDisk> {
    membership.disks.iter_mut().find(|disk| disk.number == number)
}

/// Whether a membership lists a mirror of one of the catalog's files.
fn has(membership: &Membership, file: CatalogFile) -> bool {
    membership.catalog.iter().any(|run| run.file == file)
}

/// R6: a catalog mirror with a disk that is not online is removed from the list, whole.
fn strike_offline(membership: &mut Membership) {
    if planted::has(Bug::CatalogMirrorKept) {
        return;
    }
    let struck: BTreeSet<_> = membership
        .catalog
        .iter()
        .filter(|run| membership.disk(run.disk).is_none_or(|disk| disk.state != DiskState::Online))
        .map(|run| (run.file, run.mirror))
        .collect();
    membership.catalog.retain(|run| !struck.contains(&(run.file, run.mirror)));
}
