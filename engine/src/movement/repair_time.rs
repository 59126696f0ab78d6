//! How long an offline disk is waited for, and its drop after that.
//!
//! The limit is the group's repair time, or that of `OFFLINE ... DROP AFTER` for this absence. Only
//! time counts in which the group is mounted: in the rest the disk could not have been brought
//! back. Then it is dropped by force, if the others allow it.

use crate::{
    admin::{AdminError, Departure, Exchange, Selection},
    catalog::attributes::{DropAfter, store_drop_after},
    disk::member::Member,
    error::FileError,
    event::Severity,
    movement::Movement,
    planted::{self, Bug},
    sync::lock::MutexGuard,
};
use plinth_format::{DiskNumber, membership::DiskState};
use rusqlite::Connection;
use std::{collections::BTreeMap, sync::Arc};

/// Seconds after which a disk is tried again that could not be dropped.
const OVERDUE_AGAIN: u64 = 3600;

impl Movement {
    /// Takes disks offline, and stores how many seconds they are waited for; the repair time of the
    /// group if none is given. For those that are offline already the time begins again.
    ///
    /// # Errors
    /// Which disk cannot go, and why; then none does.
    pub async fn offline(
        &self,
        selection: Selection,
        drop_after: Option<u64>,
    ) -> Result<(), AdminError> {
        self.take_offline(&selection).await?;
        let membership = self.voters.current();
        let mut said = BTreeMap::new();
        for member in self.select(&selection)? {
            let Some(entry) = membership.disk(member.number) else { continue };
            member.wait_anew();
            said.insert(
                member.number,
                drop_after.map(|seconds| DropAfter { seconds, since: entry.since }),
            );
        }
        let _one_at_a_time = self.setting.lock().await;
        self.note_drop_after(said).await.map_err(|error| {
            error
                .while_doing("the disks are offline, but not when they are to be dropped")
                .hint("they are waited for as long as others: disk_repair_time")
        })
    }

    /// Removes the limits of absences that have ended from the record. The next absences may have
    /// got limits of their own meanwhile.
    async fn forget_drop_after(
        &self,
        past: BTreeMap<DiskNumber, DropAfter>,
    ) -> Result<(), FileError> {
        let _one_at_a_time = self.setting.lock().await;
        let past = {
            let known = self.drop_after();
            let is_known =
                |disk, said| known.get(disk) == Some(said) || planted::has(Bug::DropAfterForgotten);
            past.iter()
                .filter(|(disk, said)| is_known(disk, said))
                .map(|(disk, _)| (*disk, None))
                .collect()
        };
        self.note_drop_after(past).await
    }

    /// Puts on record how long disks are waited for. The caller holds `setting`.
    async fn note_drop_after(
        &self,
        said: BTreeMap<DiskNumber, Option<DropAfter>>,
    ) -> Result<(), FileError> {
        let changed: BTreeMap<_, _> = {
            let known = self.drop_after();
            said.into_iter()
                .filter(|(disk, drop_after)| known.get(disk) != drop_after.as_ref())
                .collect()
        };
        if changed.is_empty() {
            return Ok(());
        }
        let stored = changed.clone();
        let job = move |connection: &Connection| {
            stored
                .iter()
                .try_for_each(|(disk, drop_after)| store_drop_after(connection, *disk, *drop_after))
        };
        self.catalog.write(true, job).await?;
        let mut known = self.drop_after();
        for (disk, drop_after) in changed {
            match drop_after {
                Some(drop_after) => known.insert(disk, drop_after),
                None => known.remove(&disk),
            };
        }
        Ok(())
    }

    fn drop_after(&self) -> MutexGuard<'_, BTreeMap<DiskNumber, DropAfter>> {
        self.drop_after.lock()
    }

    /// The limit that a disk got when it went offline, if this absence is that one.
    fn said_of(&self, disk: DiskNumber) -> Option<DropAfter> {
        let said = self.drop_after().get(&disk).copied()?;
        let membership = self.voters.current();
        let entry = membership.disk(disk)?;
        (entry.state == DiskState::Offline && entry.since == said.since).then_some(said)
    }

    /// Seconds for which an offline disk is waited for: time in which the group is mounted.
    fn repair_time(&self, member: &Member) -> u64 {
        if let Some(said) = self.said_of(member.number) {
            return said.seconds;
        }
        let attributes = self.attributes();
        let mut beside =
            self.members.values().filter(|other| other.failure_group == member.failure_group);
        let all_away = beside.all(|other| other.state() == DiskState::Offline);
        if all_away { attributes.failgroup_repair_time } else { attributes.disk_repair_time }
    }

    /// Seconds for which an offline disk is still waited for.
    pub(crate) fn repair_time_left(&self, member: &Member) -> u64 {
        self.repair_time(member).saturating_sub(member.away())
    }

    /// Drops disks that were waited for long enough: extents with mirrors there get other ones.
    /// Once a second.
    pub(crate) fn drop_overdue(self: &Arc<Self>) {
        let away: Vec<_> =
            self.members.values().filter(|member| member.state() == DiskState::Offline).collect();
        away.iter().for_each(|member| member.note_away());
        let membership = self.voters.current();
        let is_overdue = |member: &&&Arc<Member>| {
            let stays = membership.disk(member.number).is_some_and(|disk| !disk.leaving);
            stays && member.is_overdue(self.repair_time(member), OVERDUE_AGAIN)
        };
        let known = self.drop_after().clone();
        let past: BTreeMap<_, _> =
            known.into_iter().filter(|(disk, _)| self.said_of(*disk).is_none()).collect();
        if !past.is_empty() {
            let group = Arc::clone(self);
            // The limit of an absence that has ended. It does not hold any more in any case.
            self.world.spawn(
                "repair time",
                Box::pin(async move { drop(group.forget_drop_after(past).await) }),
            );
        }
        let overdue: Vec<_> = away
            .iter()
            .filter(is_overdue)
            .map(|member| (Arc::clone(member), member.losses()))
            .collect();
        if overdue.is_empty() {
            return;
        }
        let group = Arc::clone(self);
        self.world
            .spawn("repair time", Box::pin(async move { group.drop_by_force(overdue).await }));
    }

    /// Whether a disk, which was overdue when it had gone offline so often, has not come back
    /// since.
    fn is_still_overdue(&self, member: &Member, losses: u64) -> bool {
        let membership = self.voters.current();
        let stays =
            !member.has_left() && membership.disk(member.number).is_some_and(|disk| !disk.leaving);
        let is_away = member.state() == DiskState::Offline && member.losses() == losses;
        stays && is_away && self.repair_time_left(member) == 0
    }

    async fn drop_by_force(self: Arc<Self>, mut overdue: Vec<(Arc<Member>, u64)>) {
        // Another statement may have been waited for for long. Until a disk is on record as leaving
        // it neither returns nor gets another name.
        let _one_at_a_time = self.exchanging.lock().await;
        let _nobody_returns = self.onlining.lock().await;
        overdue.retain(|(member, losses)| {
            self.is_still_overdue(member, *losses) || planted::has(Bug::ReturnedDropped)
        });
        if overdue.is_empty() {
            return;
        }
        let names: Vec<String> =
            overdue.iter().map(|(member, _)| member.name().to_string()).collect();
        let disks = names.join(", ");
        let drop = vec![Departure { which: Selection::Disks(names), force: true, reclaim: false }];
        let waited = format!("disk {disks} was offline for longer than the repair time");
        let text =
            match self.exchange_in_turn(&Exchange { add: Vec::new(), drop }, None.into()).await {
                Ok(()) => format!(
                    "{waited}, and is dropped: what it had is copied from the other mirrors"
                ),
                Err(error) => format!("{waited}, and cannot be dropped: {error}"),
            };
        self.tell(Severity::Alarm, None, text);
    }
}
