//! CONVERT REDUNDANCY: a group gets more mirrors of everything, or fewer, while it is used.
//!
//! The membership has two numbers: how many mirrors each extent has at least (`redundancy`), which
//! mounts and drops may count on; and how many new extents get (`wanted`).
//!
//!   1. Record what is wanted. If that is fewer than there are, the redundancy is lower at once:
//!      the other mirrors do not count any more.
//!   2. Rebalance. An extent with too few mirrors gets one more, on the disk that is used least;
//!      one with too many loses that on a disk that is not ONLINE, or leaves, or is used most
//!      (`mover.rs`). So the disks are even again when it is done.
//!   3. When every extent has as many as are wanted, record that this is the redundancy now, and
//!      write it into the headers.
//!
//! A crash leaves extents of both kinds, and the rebalance that goes on does the rest. Another
//! conversion meanwhile only changes what is wanted.
//!
//! An extent that is being allocated while 1 is recorded has the number of mirrors from before. It
//! counts among the extents before it reads again what is wanted, and gives its AUs back if that
//! has changed; so 3 misses no extent.

use crate::{
    admin::{AdminError, Code, Conversion, Estimate, Order, PlannedPass, PlannedStep},
    error::FileError,
    event::Severity,
    extent::{Extent, Mirror},
    membership::voters::Refusal,
    movement::Movement,
    planted::{self, Bug},
    space::mirror_sets::{MirrorCount, mirrors_wanted},
};
use plinth_format::{
    DiskNumber, Layout, Redundancy,
    membership::{DiskState, MemberDisk, Membership},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

type Result<T> = std::result::Result<T, AdminError>;

impl Movement {
    /// Gives the group another redundancy, and begins to make mirrors or to take them.
    ///
    /// # Errors
    /// If there are too few failure groups for it or too little space; then nothing was changed.
    pub async fn convert(
        self: &Arc<Self>,
        Conversion(to): Conversion,
        order: impl Into<Order>,
    ) -> Result<()> {
        let order = order.into();
        let _one_at_a_time = self.exchanging.lock().await;
        self.check_conversion(to)?;
        let before = self.voters.current();
        if before.wanted == to {
            // One that stopped goes on.
            return if self.is_converting() && !planted::has(Bug::ConversionIgnored) {
                self.pursue_goals(order).await
            } else {
                Ok(())
            };
        }
        {
            let _nobody_compares = self.renaming.lock().await;
            let recorded = self.voters.change(|next| {
                next.wanted = to;
                if to.mirrors() < next.redundancy.mirrors() && !planted::has(Bug::LoweredLate) {
                    next.redundancy = to;
                }
                Ok(true)
            });
            recorded.await.map_err(|refusal| {
                AdminError::new(
                    Code::Io,
                    format!("disk group {} cannot be converted: {refusal}", self.name),
                )
            })?;
            self.renew_headers().await;
        }
        let text = format!(
            "disk group {} is converted from {} to {to} redundancy",
            self.name, before.wanted
        );
        self.tell(Severity::Note, None, text);
        self.pursue_goals(order).await
    }

    /// The copies that [`Self::convert`] would make. Nothing is changed.
    ///
    /// # Errors
    /// For what it would be refused.
    pub(crate) async fn estimate_conversion(&self, Conversion(to): Conversion) -> Result<Estimate> {
        let _one_at_a_time = self.exchanging.lock().await;
        self.check_conversion(to)?;
        let next = Membership { wanted: to, ..(*self.voters.current()).clone() };
        let lacking = |(set, own, count): (Vec<DiskNumber>, MirrorCount, u64)| {
            mirrors_wanted(own, &next).saturating_sub(set.len()) as u64 * count
        };
        // One AU for each mirror that is made; those that are taken cost nothing.
        let work = self.mirror_sets.wishes().into_iter().map(lacking).sum();
        let why = format!("{to} redundancy has {} mirrors of each extent", to.mirrors());
        let step = |mirrors| PlannedStep {
            pass: PlannedPass::Convert,
            from: None,
            to: None,
            mirrors,
            why,
        };
        Ok(self.estimate_of((work > 0).then(|| step(work)).into_iter().collect(), work))
    }

    /// Whether the group can have as many mirrors of everything.
    fn check_conversion(&self, to: Redundancy) -> Result<()> {
        let membership = self.voters.current();
        let needed = to.mirrors();
        let stays =
            |disk: &&MemberDisk| !disk.quorum && !disk.leaving && disk.state == DiskState::Online;
        let groups: BTreeSet<&str> =
            membership.disks.iter().filter(stays).map(|disk| disk.failure_group.as_str()).collect();
        if groups.len() < needed {
            let text = format!(
                "{to} redundancy needs {needed} failure groups with data on ONLINE disks, disk group {} has {}",
                self.name,
                groups.len()
            );
            return Err(AdminError::new(Code::NotEnoughFailureGroups, text)
                .hint("add disks in other failure groups, or bring those ONLINE that are away"));
        }
        let next = Membership { wanted: to, ..(*membership).clone() };
        let wishes = self.mirror_sets.wishes();
        let extents: u64 = wishes.iter().map(|(.., count)| count).sum();
        let mirrors: u64 =
            wishes.iter().map(|(_, own, count)| mirrors_wanted(*own, &next) as u64 * count).sum();
        let missing = mirrors.saturating_sub(self.most_mirrors(&membership, extents));
        if to.mirrors() > membership.wanted.mirrors() && missing > 0 {
            let text = format!(
                "disk group {} has too little space for {} mirrors of each extent: {missing} AUs too few",
                self.name,
                to.mirrors()
            );
            return Err(
                AdminError::new(Code::NoSpace, text).hint("add disks first, or remove files")
            );
        }
        Ok(())
    }

    /// How many mirrors of `extents` extents the disks that stay can hold, no two of one in a
    /// failure group.
    fn most_mirrors(&self, membership: &Membership, extents: u64) -> u64 {
        let mut groups: BTreeMap<&str, u64> = BTreeMap::new();
        for disk in membership.disks.iter().filter(|disk| !disk.quorum && !disk.leaving) {
            let layout = Layout::new(disk.target.unwrap_or(disk.size), self.au_size);
            *groups.entry(&disk.failure_group).or_default() +=
                layout.map_or(0, |layout| layout.data_units().count() as u64);
        }
        for (disk, _) in crate::catalog::on_disks::units(membership) {
            let group =
                membership.disk(disk).and_then(|disk| groups.get_mut(disk.failure_group.as_str()));
            group.into_iter().for_each(|units| *units = units.saturating_sub(1));
        }
        groups.values().map(|units| extents.min(*units)).sum()
    }

    /// Whether some extent has, or may have, another number of mirrors than it should.
    pub(crate) fn is_converting(&self) -> bool {
        let membership = self.voters.current();
        membership.wanted != membership.redundancy || self.mirrors_to_convert() > 0
    }

    /// Mirrors that are to be made or taken.
    pub(crate) fn mirrors_to_convert(&self) -> u64 {
        let membership = self.voters.current();
        let odd = |(set, own, count): &(Vec<DiskNumber>, MirrorCount, u64)| {
            set.len().abs_diff(mirrors_wanted(*own, &membership)) as u64 * count
        };
        self.mirror_sets.wishes().iter().map(odd).sum()
    }

    /// Makes one mirror more of an extent. Returns bytes copied. `None`: there is no room for it
    /// now, or as in [`Self::move_mirror`].
    ///
    /// # Errors
    /// As [`Self::move_mirror`].
    pub(crate) async fn give_mirror(
        &self,
        extent: &Arc<Extent>,
    ) -> std::result::Result<Option<u64>, FileError> {
        let mirrors: Vec<DiskNumber> = extent.disks().collect();
        let group_of =
            |disk: DiskNumber| self.members.get(&disk).map(|member| &member.failure_group);
        let taken: BTreeSet<_> = mirrors.iter().filter_map(|disk| group_of(*disk)).collect();
        let is_apart =
            |disk: DiskNumber| group_of(disk).is_some_and(|group| !taken.contains(group));
        let placement = self.placement();
        let to = placement.next_to(&mirrors, is_apart, &self.space());
        match to.and_then(|to| self.members.get(&to)) {
            Some(to) => self.add_mirror(extent, to).await,
            None => Ok(None),
        }
    }

    /// Takes one mirror of an extent. False: it could not be taken now.
    ///
    /// # Errors
    /// As [`Self::move_mirror`].
    pub(crate) async fn take_mirror(
        &self,
        extent: &Arc<Extent>,
    ) -> std::result::Result<bool, FileError> {
        let membership = self.voters.current();
        let chosen = {
            let space = self.space();
            // Parts of 2^32 that are used.
            let fullness = |mirror: &Mirror| {
                let total = u64::from(space.capacity(mirror.disk)).max(1);
                (u64::from(space.held(mirror.disk)) << 32) / total
            };
            let leaves =
                |mirror: &Mirror| membership.disk(mirror.disk).is_none_or(|disk| disk.leaving);
            let is_current = |mirror: &Mirror| {
                self.members.get(&mirror.disk).is_some_and(|member| member.is_readable())
            };
            extent
                .mirrors()
                .into_iter()
                .max_by_key(|mirror| (!is_current(mirror), leaves(mirror), fullness(mirror)))
        };
        match chosen {
            Some(mirror) => self.remove_mirror(extent, mirror.disk).await,
            None => Ok(false),
        }
    }

    /// Step 3, if every extent has its mirrors.
    pub(crate) async fn finish_conversion(&self) -> std::result::Result<(), FileError> {
        let current = self.voters.current();
        if current.wanted == current.redundancy {
            return Ok(());
        }
        // A mirror that was removed and is not counted any more may come back with a loss of power
        // before that is durable.
        self.catalog.durable_point().await?;
        let _nobody_compares = self.renaming.lock().await;
        let recorded = self.voters.change(|next| {
            let has_all = |(set, own, _): &(Vec<DiskNumber>, MirrorCount, u64)| {
                set.len() >= mirrors_wanted(*own, next)
            };
            let is_done = self.mirror_sets.wishes().iter().all(has_all);
            if is_done {
                next.redundancy = next.wanted;
            }
            Ok(is_done)
        });
        let membership = recorded.await.map_err(|refusal| match refusal {
            Refusal::Closing => FileError::Dismounted,
            refusal => FileError::Refused {
                disk: self.name.clone(),
                reason: "its new redundancy could not be recorded".to_owned(),
                why: refusal.to_string(),
            },
        })?;
        if membership.redundancy != current.redundancy {
            self.renew_headers().await;
            let text =
                format!("disk group {} is of {} redundancy now", self.name, membership.redundancy);
            self.tell(Severity::Note, None, text);
        }
        Ok(())
    }

    /// Why mirrors that are wanted cannot be made.
    pub(crate) fn why_not_converted(&self) -> String {
        let away: Vec<String> = self
            .members
            .values()
            .filter(|member| !member.quorum && member.state() != DiskState::Online)
            .map(|member| member.name().to_string())
            .collect();
        if away.is_empty() {
            "no disk in another failure group has room: add disks, or remove files".to_owned()
        } else {
            format!("not ONLINE: {}", away.join(", "))
        }
    }
}
