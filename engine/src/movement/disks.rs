//! ADD and DROP: how a disk becomes a member of a mounted group, and how it leaves.
//!
//! ADD:
//!
//!   1. Check and claim the disks, as CREATE does; wipe their system areas; write their headers,
//!      with ids of their own.
//!   2. Stamp them and record them as members, all in one membership. From then on files and the
//!      catalog use them, and they may vote.
//!   3. Rebalance.
//!
//! DROP:
//!
//!   1. Record that they leave: nothing new goes there, and their votes move. UNDROP takes that
//!      back.
//!   2. Rebalance: what they hold goes to the others. FORCE is for disks that cannot be read: they
//!      go offline first, and what they had is copied from the other mirrors.
//!   3. When they hold nothing, dismiss them: record a membership without them, and write headers
//!      that say FORMER. With RECLAIM they are discarded then (`dropped_space.rs`).
//!
//! A crash between headers and membership leaves a header that names the group on a disk that is
//! not its member: the next mount writes FORMER there, unless it was forced, when the disk may be
//! of a history that is not visible.

use crate::{
    admin::{AdminError, Code, Departure, Estimate, Exchange, NewDisk, Order, Selection, Work},
    catalog::{attributes, on_disks},
    disk::{
        headers::{header_of, write_header},
        identify::ProbeResult,
        look::find_paths,
        member::Member,
        taken::{Taken, Wanted, check_mixture, check_names, take_disks, wipe_system_area},
    },
    error::FileError,
    event::Severity,
    extent::{own_metadata::MetadataLook, scope::ExtentScope, stale},
    membership::{
        mount_decision::{Case, Decision},
        voters::{Refusal, find},
    },
    movement::{Movement, explain},
    planted::{self, Bug},
    space::{
        Space,
        balance::{Plan, TooSmall},
    },
    world::Disk,
};
use plinth_format::{
    DiskNumber, Redundancy,
    header::{DiskHeader, Status},
    membership::{DISKS_MAX, DiskState, MemberDisk, Membership},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

type Result<T> = std::result::Result<T, AdminError>;

/// A disk that is dropped.
struct Leaver {
    member: Arc<Member>,
    force: bool,
    reclaim: bool,
}

impl Movement {
    /// The disks that a statement names.
    pub(crate) fn select(&self, selection: &Selection) -> Result<Vec<Arc<Member>>> {
        let unknown = |what: &str, name: &str| {
            AdminError::new(
                Code::NoSuchDisk,
                format!("disk group {} has no {what} {name}", self.name),
            )
            .hint("the names are in V$ASM_DISK")
        };
        match selection {
            Selection::All => Ok(self.members.values().cloned().collect()),
            Selection::Disks(names) => names
                .iter()
                .map(|name| {
                    let member = self.members.values().find(|member| *member.name() == **name);
                    member.cloned().ok_or_else(|| unknown("disk", name))
                })
                .collect(),
            Selection::Several(all) => {
                let mut found: Vec<Arc<Member>> = Vec::new();
                for one in all {
                    let members = self.select(one)?;
                    found.extend(members);
                }
                found.sort_by_key(|member| member.number);
                found.dedup_by_key(|member| member.number);
                Ok(found)
            }
            Selection::FailureGroups(names) => {
                let mut found = Vec::new();
                for name in names {
                    let before = found.len();
                    found.extend(
                        self.members
                            .values()
                            .filter(|member| member.failure_group == *name)
                            .cloned(),
                    );
                    if found.len() == before {
                        return Err(unknown("failure group", name));
                    }
                }
                Ok(found)
            }
        }
    }

    /// `OFFLINE`: refused, as a whole, where some extent would keep no current mirror.
    pub(crate) async fn take_offline(&self, selection: &Selection) -> Result<()> {
        let members = self.select(selection)?;
        let numbers: Vec<_> = members.iter().map(|member| member.number).collect();
        // The remaining mirrors have to be right.
        if !numbers.is_empty() {
            self.look_at_own_metadata(&ExtentScope::All, MetadataLook::PASSING).await;
        }
        let unread = self.ask_others_than(&members).await;
        self.voters.take_offline(&numbers).await.map_err(|(number, refusal)| {
            let name = self.members.get(&number).map_or_else(|| Arc::from(""), |member| member.name());
            let text = format!("disk {name} of disk group {} cannot go offline: {refusal}", self.name);
            if refusal == Refusal::WouldLoseData && !unread.is_empty() {
                let names = unread.join(", ");
                let text = format!("{text}; not everything on {names} can be read");
                return AdminError::new(Code::WouldLoseData, text).hint(format!(
                    "ALTER DISKGROUP {} SCRUB REPAIR first; V$ASM_ERROR says what failed on {names}",
                    self.name
                ));
            }
            AdminError::new(Code::WouldLoseData, text)
                .hint("bring the other disks ONLINE first, and wait for their resync in V$ASM_OPERATION")
        })?;
        for member in members {
            if !member.wait_for_marks().await {
                let text = format!(
                    "disk {} is offline, but what it misses could not be recorded",
                    member.name()
                );
                return Err(AdminError::new(Code::Io, text)
                    .hint("the alert log says why; the next mount recovers"));
            }
        }
        Ok(())
    }

    /// Adds and drops disks, and begins to move what has to move: once, for both.
    ///
    /// # Errors
    /// The fault of a disk or the request; then nothing was changed, unless a disk failed
    /// half way.
    pub async fn exchange(
        self: &Arc<Self>,
        exchange: Exchange,
        order: impl Into<Order>,
    ) -> Result<()> {
        let order = order.into();
        let _one_at_a_time = self.exchanging.lock().await;
        self.exchange_in_turn(&exchange, order).await
    }

    /// As [`Self::exchange`], for a caller that holds `exchanging`.
    pub(crate) async fn exchange_in_turn(
        self: &Arc<Self>,
        exchange: &Exchange,
        order: Order,
    ) -> Result<()> {
        let (taken, leaving) = self.look_at(exchange).await?;
        let entries: Vec<MemberDisk> = taken.iter().map(|one| one.entry.clone()).collect();
        self.check_leaving(&entries, &leaving)?;
        let members = self.make_members(taken).await?;
        if let Err(error) = self.record_exchange(&entries, &leaving).await {
            for member in
                members.iter().filter(|member| self.voters.current().disk(member.number).is_none())
            {
                member.leave();
                self.space().remove_disk(member.number);
                member.release();
            }
            return Err(error);
        }
        for (member, entry) in members.iter().zip(&entries) {
            self.renew_header_of_new(member).await;
            let text = format!(
                "disk {} ({}) is added to failure group {}",
                entry.name,
                member.path(),
                entry.failure_group
            );
            self.tell(Severity::Note, Some(entry.number), text);
        }
        for Leaver { member, .. } in &leaving {
            let text = format!(
                "disk {} is being dropped: what it holds moves to the others",
                member.name()
            );
            self.tell(Severity::Note, Some(member.number), text);
        }
        self.rebuild_catalog().await;
        self.pursue_goals(order).await
    }

    /// The moves that a statement would make. Nothing is changed.
    ///
    /// # Errors
    /// For what the statement would be refused.
    pub async fn estimate(&self, work: &Work) -> Result<Estimate> {
        match work {
            Work::Exchange(exchange) => self.estimate_exchange(exchange).await,
            Work::Resize(resizes) => self.estimate_resize(resizes).await,
            Work::Convert(to) => self.estimate_conversion(*to).await,
        }
    }

    async fn estimate_exchange(&self, exchange: &Exchange) -> Result<Estimate> {
        let _one_at_a_time = self.exchanging.lock().await;
        let (taken, leaving) = self.look_at(exchange).await?;
        let entries: Vec<MemberDisk> = taken.into_iter().map(|one| one.entry).collect();
        let plan = match self.check_leaving(&entries, &leaving)? {
            Some(plan) => plan,
            None => self.plan_exchange(&entries, &BTreeSet::new())?,
        };
        let leaving = leaving.iter().map(|leaver| (leaver.member.number, leaver.force)).collect();
        Ok(self.explain(
            &plan,
            &explain::Changes { new: &entries, leaving, ..explain::Changes::default() },
        ))
    }

    /// The disks that an exchange names. Those that come are claimed.
    async fn look_at(&self, exchange: &Exchange) -> Result<(Vec<Taken>, Vec<Leaver>)> {
        let mut leaving = BTreeMap::new();
        for Departure { which, force, reclaim } in &exchange.drop {
            for member in self.select(which)? {
                if *reclaim {
                    self.check_can_discard(&member)?;
                }
                let leaver = Leaver { member, force: *force, reclaim: *reclaim };
                leaving.insert(leaver.member.number, leaver);
            }
        }
        let taken =
            if exchange.add.is_empty() { Vec::new() } else { self.find_new(&exchange.add).await? };
        Ok((taken, leaving.into_values().collect()))
    }

    /// `UNDROP DISKS`: disks that leave and are still members stay.
    ///
    /// # Errors
    /// If that cannot be recorded.
    pub async fn undrop(self: &Arc<Self>) -> Result<()> {
        let _one_at_a_time = self.exchanging.lock().await;
        let current = self.voters.current();
        let staying: Vec<DiskNumber> =
            current.disks.iter().filter(|disk| disk.leaving).map(|disk| disk.number).collect();
        let stay = |next: &mut Membership| {
            let leaving: Vec<_> = next.disks.iter_mut().filter(|disk| disk.leaving).collect();
            let any = !leaving.is_empty();
            leaving.into_iter().for_each(|disk| disk.leaving = false);
            Ok(any)
        };
        self.voters.change(stay).await.map_err(|refusal| AdminError::new(Code::Io, refusal))?;
        let kept = self.members.values().filter(|member| staying.contains(&member.number));
        self.note_reclaims(kept.map(|member| (&**member, false))).await?;
        self.tell(Severity::Note, None, "disks that were being dropped stay".to_owned());
        self.sweep_disks(staying);
        self.rebuild_catalog().await;
        self.pursue_goals_as_before().await
    }

    /// Finds, checks and claims the disks of an ADD. Nothing is written to them.
    async fn find_new(&self, disks: &[NewDisk]) -> Result<Vec<Taken>> {
        check_names(&self.name, disks)?;
        let membership = self.voters.current();
        if membership.disks.len() + disks.len() > DISKS_MAX {
            let text = format!("disk group {} would have more than {DISKS_MAX} disks", self.name);
            return Err(AdminError::new(Code::Invalid, text));
        }
        let found = find_paths(&*self.world).await?;
        let numbers = self.members.unused().take(disks.len()).collect();
        let wanted = Wanted {
            group: &self.name,
            au_size: self.au_size,
            disks,
            numbers,
            of: Some((self.id, &membership)),
        };
        let taken = take_disks(&self.world, &wanted, &found).await?;
        for one in &taken {
            let same = membership.disks.iter().find(|disk| disk.name == one.entry.name);
            if let Some(same) = same {
                let text = format!("disk group {} has a disk {} already", self.name, same.name);
                return Err(
                    AdminError::new(Code::Invalid, text).hint("give the new one another NAME")
                );
            }
            self.check_sectors(&*one.disk)?;
        }
        check_mixture(membership.disks.iter().chain(taken.iter().map(|disk| &disk.entry)))?;
        Ok(taken)
    }

    /// Whether a disk that comes has sectors as the others have.
    pub(crate) fn check_sectors(&self, disk: &dyn Disk) -> Result<()> {
        let sectors = self
            .members
            .values()
            .find_map(|member| member.disk())
            .map(|disk| disk.sectors().logical);
        let its = disk.sectors().logical;
        let Some(sector) = sectors.filter(|sector| *sector != its) else { return Ok(()) };
        let text = format!(
            "disk {} has sectors of {its} bytes, disk group {} of {sector}",
            disk.path(),
            self.name
        );
        Err(AdminError::new(Code::DiskMismatch, text)
            .hint("all disks of a group have one sector size"))
    }

    /// Step 1 of ADD: the disks say that they belong to the group, and are known here.
    async fn make_members(&self, taken: Vec<Taken>) -> Result<Vec<Arc<Member>>> {
        let membership = self.voters.current();
        let mut members = Vec::new();
        for one in taken {
            wipe_system_area(&one, one.layout, self.world.now()).await?;
            let member = Arc::new(Member::new(&one.entry, one.layout, Some(one.disk), &self.world));
            member.set_label(one.label);
            let header = header_of(self.id, &membership, &member, self.created, Status::Member, 1);
            write_header(&member, &header, &header.layout.header_places()).await.map_err(
                |reason| AdminError::new(Code::Io, format!("disk {}: {reason}", member.path())),
            )?;
            members.push(member);
        }
        for member in &members {
            if !member.quorum {
                let mut space = self.space();
                space.add_disk(member.number, member.layout());
                // Whatever it held before.
                space.stain(member.number);
                drop(space);
            }
            self.members.join(Arc::clone(member));
        }
        Ok(members)
    }

    /// Whether disks can leave, and what moves then. `None`: none leaves.
    fn check_leaving(&self, new: &[MemberDisk], leaving: &[Leaver]) -> Result<Option<Plan>> {
        let numbers: BTreeSet<DiskNumber> =
            leaving.iter().map(|leaver| leaver.member.number).collect();
        // For a disk that is gone already the room of the files' own redundancy is not demanded.
        let forced = leaving.iter().all(|leaver| leaver.force);
        let plan = self.check_room(new, &numbers, forced)?;
        let away = leaving
            .iter()
            .find(|leaver| !leaver.force && leaver.member.state() != DiskState::Online);
        let Some(Leaver { member, .. }) = away else { return Ok(plan) };
        let text = format!("disk {} of disk group {} is not ONLINE", member.name(), self.name);
        Err(AdminError::new(Code::WouldLoseData, text)
            .hint("bring it ONLINE first, or DROP it with FORCE: what it had is copied from the other mirrors"))
    }

    /// Step 2 of ADD and step 1 of DROP.
    async fn record_exchange(&self, new: &[MemberDisk], leaving: &[Leaver]) -> Result<()> {
        let failed = |refusal: Refusal| {
            AdminError::new(Code::Io, format!("disk group {}: {refusal}", self.name))
        };
        let gone = leaving
            .iter()
            .filter(|leaver| leaver.force)
            .map(|leaver| leaver.member.name().to_string())
            .collect();
        self.take_offline(&Selection::Disks(gone)).await?;
        if !new.is_empty() {
            self.voters.enlist(new).await.map_err(failed)?;
        }
        if !leaving.is_empty() {
            let wishes = leaving.iter().map(|leaver| (&*leaver.member, leaver.reclaim));
            self.note_reclaims(wishes).await?;
            let leave = |next: &mut Membership| {
                for Leaver { member, .. } in leaving {
                    if let Some(disk) = find(next, member.number) {
                        disk.leaving = true;
                    }
                }
                Ok(true)
            };
            self.voters.change(leave).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Whether what there is fits on the disks that stay, and in as many failure groups as it has
    /// mirrors. `forced`: as the group's redundancy says is enough, and files that ask for more
    /// make do with what is left.
    fn check_room(
        &self,
        new: &[MemberDisk],
        leaving: &BTreeSet<DiskNumber>,
        forced: bool,
    ) -> Result<Option<Plan>> {
        if leaving.is_empty() {
            return Ok(None);
        }
        let membership = self.voters.current();
        let stays =
            |disk: &&MemberDisk| !disk.quorum && !disk.leaving && !leaving.contains(&disk.number);
        let disks = membership.disks.iter().chain(new).filter(stays);
        let groups: BTreeSet<&str> = disks.map(|disk| disk.failure_group.as_str()).collect();
        let wanted = self.voters.current().wanted;
        let needed =
            if forced { wanted.mirrors() } else { self.mirror_sets.most_wanted(&membership) };
        if groups.len() < needed {
            let whose = if needed > wanted.mirrors() { Redundancy::High } else { wanted };
            let text = format!(
                "{whose} redundancy needs {needed} failure groups with data, {} would stay in disk group {}",
                groups.len(),
                self.name
            );
            let hint = if whose == wanted {
                "add disks in the same statement"
            } else {
                "add disks in the same statement, or remove the files that have it, which V$ASM_FILE shows; with FORCE they make do with fewer mirrors"
            };
            return Err(AdminError::new(Code::NotEnoughFailureGroups, text).hint(hint));
        }
        self.plan_exchange(new, leaving).map(Some)
    }

    /// The moves that are needed when disks come and go.
    fn plan_exchange(&self, new: &[MemberDisk], leaving: &BTreeSet<DiskNumber>) -> Result<Plan> {
        let mut next = (*self.voters.current()).clone();
        next.disks.extend(new.iter().cloned());
        next.disks
            .iter_mut()
            .filter(|disk| leaving.contains(&disk.number))
            .for_each(|disk| disk.leaving = true);
        self.plan_for(&next).map_err(|TooSmall { missing }| {
            let text = format!(
                "disk group {} has too little space on the disks that would stay: {missing} AUs too few",
                self.name
            );
            let away = |disk: &&MemberDisk| !disk.quorum && !disk.leaving && disk.state != DiskState::Online;
            let away: Vec<&str> = next.disks.iter().filter(away).map(|disk| disk.name.as_str()).collect();
            let error = AdminError::new(Code::NoSpace, text);
            if away.is_empty() {
                return error.hint("add disks in the same statement, or remove files");
            }
            error.hint(format!(
                "disks that are not ONLINE take nothing ({}): bring them ONLINE first and wait for their resync in V$ASM_OPERATION, add disks in \
                 the same statement, or remove files",
                away.join(", ")
            ))
        })
    }

    /// Step 3 of DROP, for every disk that leaves. False: something is still there.
    pub(crate) async fn dismiss_leaving(&self) -> std::result::Result<bool, FileError> {
        let leaving: Vec<DiskNumber> = self
            .voters
            .current()
            .disks
            .iter()
            .filter(|disk| disk.leaving)
            .map(|disk| disk.number)
            .collect();
        if leaving.is_empty() {
            return Ok(true);
        }
        self.rebuild_catalog().await;
        self.reclaim(true).await?;
        let mut all = true;
        for number in leaving {
            all &= self.dismiss_disk(number).await?;
        }
        Ok(all)
    }

    async fn dismiss_disk(&self, number: DiskNumber) -> std::result::Result<bool, FileError> {
        let Some(member) = self.members.get(&number).cloned() else { return Ok(true) };
        let units = on_disks::units(&self.voters.current())
            .iter()
            .filter(|(disk, _)| *disk == number)
            .count();
        let space = if planted::has(Bug::PendingIgnoredAtDrop) { Space::held } else { Space::used };
        let used = space(&self.space(), number) as usize;
        if used != units || self.store.needs(number) {
            return Ok(false);
        }
        // From the record on until they are freed, the AUs of the catalog on it have no owner.
        let in_hand = self.take_in_hand();
        match self.voters.dismiss(number).await {
            Ok(true) => {}
            Ok(false) | Err(Refusal::WouldLoseData | Refusal::Answers) => return Ok(false),
            Err(Refusal::Closing) => return Err(FileError::Dismounted),
            Err(Refusal::Other(why)) => {
                let reason = "it could not be recorded that it is dropped".to_owned();
                return Err(FileError::Refused { disk: member.name().to_string(), reason, why });
            }
        }
        member.leave();
        self.store.free_struck();
        self.space().remove_disk(number);
        drop(in_hand);
        let reclaims = self.is_to_reclaim(&member).await?;
        let stale = Arc::clone(&self.stale);
        let forget = move |connection: &rusqlite::Connection| {
            attributes::store_reclaim_at_drop(connection, number, None)?;
            stale::replace(connection, number, &stale::Runs::default())?;
            stale.lock().remove(&number);
            Ok(())
        };
        self.catalog.release(false, forget).await?;
        let path = member.path();
        let _nobody_compares = self.renaming.lock().await;
        let retired = match member.disk() {
            Some(disk) => self.retire(&member, &*disk).await,
            None => Err("it is not attached".to_owned()),
        };
        let gives_back = reclaims && retired.is_ok();
        if !gives_back {
            member.release();
        }
        let text = match retired {
            Ok(()) if gives_back => format!(
                "disk {} ({path}) is dropped: its header says FORMER, and its space goes back to the device. Do not remove it yet",
                member.name()
            ),
            Ok(()) => {
                format!(
                    "disk {} ({path}) is dropped: its header says FORMER, and it can be removed",
                    member.name()
                )
            }
            Err(reason) => format!(
                "disk {} is dropped; its header still names the group: {reason}",
                member.name()
            ),
        };
        self.tell(Severity::Note, Some(number), text);
        if gives_back {
            self.give_back(member);
        }
        Ok(true)
    }

    /// Finishes what a crash cut short: a visible disk whose header names the group, and which is
    /// not its member, is a former one. Not so when the mount was forced, or the disk is of another
    /// history: then it is unknown what it has.
    pub(crate) async fn retire_strangers(
        &self,
        decision: &Decision,
        probe_results: &[ProbeResult],
        disks: &[Arc<dyn Disk>],
    ) {
        let line = &decision.membership;
        let is_of_line =
            |held: &Membership| held.id == line.id || line.ancestors.contains(&held.id);
        for index in decision.strangers.iter().filter(|_| decision.case == Case::Mount) {
            let (probe_result, disk) = (&probe_results[*index], &disks[*index]);
            if !probe_result.memberships.iter().all(is_of_line) {
                continue;
            }
            let header = &probe_result.header;
            let former = DiskHeader {
                status: Status::Former,
                sequence: header.sequence + 1,
                ..header.clone()
            };
            let member = Member::stranger(header, Arc::clone(disk), &self.world);
            let text = match write_header(&member, &former, &former.layout.header_places()).await {
                Ok(()) => {
                    format!(
                        "{} was disk {} of the group: its header says FORMER now",
                        probe_result.path, header.name
                    )
                }
                Err(reason) => {
                    format!(
                        "{} was disk {} of the group, and says so still: {reason}",
                        probe_result.path, header.name
                    )
                }
            };
            self.tell(Severity::Note, None, text);
        }
    }
}
