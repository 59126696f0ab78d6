//! RESIZE: a disk gives the group more of its device, or less.
//!
//!   1. Record the size that the disk will have, its *target*. AUs that hold data now and would not
//!      in the layout of that size are reserved for the shrink: those beyond the end, those over
//!      which the checksum zone grows, those in which header copies will be.
//!   2. Rebalance. Mirrors in reserved AUs move to other disks as far as these should have more,
//!      and else to other AUs of the same disk (`passes.rs`); the catalog's mirrors there are built
//!      elsewhere.
//!   3. When no reserved AU is in use any more: write the header copies where the new layout has
//!      them; record the new size, and no target; wipe the old copies. Then the AUs that the layout
//!      gains are free, and the device can be made smaller.
//!
//! Where there is no room for what is in the way of larger disks, they grow in stages
//! (`resize/stages.rs`).
//!
//! A crash leaves a target on record, and the rebalance that goes on does the rest. Until 3 is on
//! record the places of both layouts are in AUs without an owner, so either may have the header
//! copies: 3 writes them first, and a resize that gives a disk yet another target puts them back.

use crate::{
    admin::{AdminError, Code, Estimate, Order, Resize, Selection},
    disk::{
        headers::{keep_to_areas, replace_header, write_header},
        member::Member,
        taken::check_size,
    },
    error::FileError,
    event::Severity,
    membership::voters::{Refusal, find},
    movement::{Movement, explain, goals::Finished},
    planted::{self, Bug},
    reached::{self, Mark},
    space::balance::{Plan, TooSmall},
};
use plinth_format::{
    BLOCK_SIZE, DiskNumber, Layout,
    header::DiskHeader,
    membership::{DiskState, MemberDisk, Membership},
};
use std::{collections::BTreeMap, sync::Arc};

type Result<T> = std::result::Result<T, AdminError>;

mod stages;

/// A disk, and how it is to be cut.
type Targets = BTreeMap<DiskNumber, (Arc<Member>, Layout)>;

/// Whether the resize of a disk can go on.
fn is_resizing(disk: &MemberDisk) -> bool {
    disk.target.is_some() && !disk.leaving && disk.state == DiskState::Online
}

impl Movement {
    /// Gives disks other sizes, and begins to move what is in their way.
    ///
    /// # Errors
    /// The fault of a disk or a size; then nothing was changed, unless a disk failed half
    /// way.
    pub async fn resize_disks(
        self: &Arc<Self>,
        resizes: &[Resize],
        order: impl Into<Order>,
    ) -> Result<()> {
        let order = order.into();
        let _one_at_a_time = self.exchanging.lock().await;
        let _nobody_returns = self.onlining.lock().await;
        let named = self.find_targets(resizes)?;
        let targets = self.other_targets(named.clone());
        let only_grow = self.only_grow(&targets);
        let checked = self.check_targets(&targets);
        if checked.is_ok() || only_grow {
            self.forget_final_sizes(named.keys()).await.map_err(|error| {
                error.while_doing(format_args!(
                    "the sizes that disks of disk group {} come to cannot be changed",
                    self.name
                ))
            })?;
        }
        if targets.is_empty() {
            // One that stopped goes on.
            let goes_on = resizes.iter().any(|one| {
                self.select(&one.which).is_ok_and(|members| {
                    members.iter().any(|member| self.resizing().contains(&member.number))
                })
            });
            return if goes_on { self.pursue_goals(order).await } else { Ok(()) };
        }
        match checked {
            Err(_) if only_grow => self.grow_in_stages(&targets).await?,
            checked => {
                checked?;
                self.set_targets(&targets).await?;
            }
        }
        self.rebuild_catalog().await;
        self.pursue_goals(order).await
    }

    /// Step 1: the sizes that disks will have, on record.
    async fn set_targets(&self, targets: &Targets) -> Result<()> {
        for (member, _) in targets.values() {
            let _nobody_compares = self.renaming.lock().await;
            // A crash may have left copies where another target would have them, and that was not
            // recorded.
            self.move_header(member, member.layout()).await.map_err(|reason| {
                AdminError::new(
                    Code::Io,
                    format!("the header of disk {} cannot be written: {reason}", member.name()),
                )
            })?;
        }
        let recorded = self.voters.change(|next| {
            for (member, layout) in targets.values() {
                let Some(disk) = find(next, member.number) else { continue };
                disk.target = Some(layout.size()).filter(|size| *size != disk.size);
            }
            Ok(true)
        });
        recorded.await.map_err(|refusal| {
            AdminError::new(
                Code::Io,
                format!("disks of disk group {} cannot be resized: {refusal}", self.name),
            )
        })?;
        for (number, (member, layout)) in targets {
            let now = member.layout();
            self.reserve_for_shrink(*number, Some(*layout).filter(|layout| *layout != now));
            let text = if *layout == now {
                format!("disk {} keeps its size, {} bytes", member.name(), now.size())
            } else {
                format!(
                    "disk {} is resized from {} to {} bytes",
                    member.name(),
                    now.size(),
                    layout.size()
                )
            };
            self.tell(Severity::Note, Some(*number), text);
        }
        Ok(())
    }

    /// Gives whole AUs to disks of before, which may have an AU with data in the last MiB of their
    /// device. See `headers.rs`.
    pub(crate) fn use_whole_units(self: &Arc<Self>) {
        let membership = self.voters.current();
        let of_whole_units = |disk: &MemberDisk| {
            let is_at_rest = disk.state == DiskState::Online
                && !disk.quorum
                && !disk.leaving
                && disk.target.is_none();
            let layout =
                Layout::of_whole_units(disk.size, self.au_size).ok().filter(|_| is_at_rest)?;
            let which = Selection::Disks(vec![disk.name.clone()]);
            (layout.size() != disk.size).then(|| Resize { which, size: Some(layout.size()) })
        };
        let resizes: Vec<Resize> = membership.disks.iter().filter_map(of_whole_units).collect();
        if resizes.is_empty() {
            return;
        }
        let group = Arc::clone(self);
        let resize = async move {
            // Those that come to another size in stages are cut otherwise in between.
            let final_sizes = group.final_sizes().await.unwrap_or_default();
            let is_on_its_way =
                |name: &String| final_sizes.values().any(|(member, _)| *member.name() == **name);
            let stays = |which: &Selection| matches!(which, Selection::Disks(names) if names.iter().any(is_on_its_way));
            let resizes: Vec<Resize> =
                resizes.into_iter().filter(|one| !stays(&one.which)).collect();
            if let Err(error) = group.resize_disks(&resizes, Order::default()).await {
                let text = format!(
                    "what lies in the last MiB of devices cannot be moved away from there: {error}. The next mount tries again"
                );
                group.tell(Severity::Warning, None, text);
            }
        };
        self.world.spawn("whole units", Box::pin(resize));
    }

    /// Which disks change, and how.
    fn find_targets(&self, resizes: &[Resize]) -> Result<Targets> {
        let membership = self.voters.current();
        let mut targets = Targets::new();
        for Resize { which, size } in resizes {
            for member in self.select(which)? {
                let Some(entry) = membership.disk(member.number) else { continue };
                let is_named = matches!(which, Selection::Disks(_));
                if !is_named && (entry.quorum || entry.leaving) {
                    continue;
                }
                let refuse = |what: &str, hint: &str| {
                    let text = format!("disk {} of disk group {} {what}", entry.name, self.name);
                    Err(AdminError::new(Code::Invalid, text).hint(hint))
                };
                if entry.quorum {
                    return refuse("is a quorum disk: its size says nothing", "leave it out");
                }
                if entry.leaving {
                    return refuse("is being dropped", "UNDROP DISKS first, or leave it out");
                }
                let disk = member.disk().filter(|_| entry.state == DiskState::Online);
                let Some(disk) = disk else {
                    return refuse(
                        "is not ONLINE",
                        "bring it ONLINE first, and wait for its resync",
                    );
                };
                let layout = check_size(&*disk, *size, disk.measure(), self.au_size)?;
                let wanted = (Arc::clone(&member), layout);
                if targets.insert(member.number, wanted).is_some_and(|(_, other)| other != layout) {
                    return refuse("would have two sizes", "name it once");
                }
            }
        }
        Ok(targets)
    }

    /// Those that are not what their disks are to have already.
    fn other_targets(&self, mut targets: Targets) -> Targets {
        let membership = self.voters.current();
        targets.retain(|number, (_, layout)| {
            let entry = membership.disk(*number);
            entry.is_some_and(|entry| entry.target.unwrap_or(entry.size) != layout.size())
        });
        targets
    }

    /// The moves that [`Self::resize_disks`] would make. Nothing is changed.
    ///
    /// # Errors
    /// For what it would be refused.
    pub(crate) async fn estimate_resize(&self, resizes: &[Resize]) -> Result<Estimate> {
        let _one_at_a_time = self.exchanging.lock().await;
        let targets = self.other_targets(self.find_targets(resizes)?);
        let plan = match self.check_targets(&targets) {
            // That is not refused, see below.
            Err(_) if self.only_grow(&targets) => Plan::none(),
            checked => checked?,
        };
        let resized = {
            let space = self.space();
            let of = |(number, (_, layout)): (&DiskNumber, &(Arc<Member>, Layout))| {
                (*number, u64::from(space.in_the_way(*number, *layout)))
            };
            targets.iter().map(of).collect()
        };
        // A mirror that is in the way may be one that the plan moves: these count once.
        Ok(self.explain(&plan, &explain::Changes { resized, ..explain::Changes::default() }))
    }

    /// The moves to other disks; an error if the data does not fit.
    fn plan_of(&self, targets: &Targets) -> std::result::Result<Plan, TooSmall> {
        let mut next: Membership = (*self.voters.current()).clone();
        for (number, (_, layout)) in targets {
            if let Some(disk) = find(&mut next, *number) {
                disk.target = Some(layout.size());
            }
        }
        self.plan_for(&next)
    }

    /// The same.
    ///
    /// # Errors
    /// That it does not fit.
    fn check_targets(&self, targets: &Targets) -> Result<Plan> {
        self.plan_of(targets).map_err(|TooSmall { missing }| {
            let text = format!(
                "what is in disk group {} does not fit on smaller disks: {missing} AUs too few",
                self.name
            );
            AdminError::new(Code::NoSpace, text)
                .hint("give larger sizes, add disks first, or remove files")
        })
    }

    /// Whether no disk is to be smaller than it is, or than its target. A resize that only adds
    /// room is not refused for want of it.
    fn only_grow(&self, targets: &Targets) -> bool {
        let membership = self.voters.current();
        targets.iter().all(|(number, (_, layout))| {
            let least = membership
                .disk(*number)
                .map_or(0, |disk| disk.target.unwrap_or(disk.size).min(disk.size));
            layout.size() >= least
        })
    }

    /// Puts the header copies where a layout has them, unless they say that they are there. Their
    /// old places are not wiped.
    async fn move_header(
        &self,
        member: &Arc<Member>,
        layout: Layout,
    ) -> std::result::Result<(), String> {
        let Some(disk) = member.disk() else { return Err("the disk is gone".to_owned()) };
        // None of its own is there if all were overwritten.
        let (best, wrong) = self.own_header(member, &*disk).await?.unwrap_or_else(|| {
            let best = self.header_from_memory(member);
            let places = best.layout.header_places().to_vec();
            (best, places)
        });
        if best.layout == layout && best.middle_area {
            keep_to_areas(member, &best).await;
            return write_header(member, &best, &wrong).await;
        }
        let moved = DiskHeader { layout, middle_area: true, ..best.clone() };
        // The first place comes last: while another one cannot be written it says what was.
        let [first, middle, end, spare] = layout.header_places();
        replace_header(member, &best, moved, &[middle, end, spare, first]).await
    }

    /// Reserves the AUs that a disk is to give up. The placement is made anew, since it depends on
    /// the sizes.
    fn reserve_for_shrink(&self, number: DiskNumber, target: Option<Layout>) {
        self.space().reserve_for_shrink(number, target);
        self.forget_placement();
    }

    /// Disks that are being resized, and can be.
    pub(crate) fn resizing(&self) -> Vec<DiskNumber> {
        let membership = self.voters.current();
        membership.disks.iter().filter(|disk| is_resizing(disk)).map(|disk| disk.number).collect()
    }

    /// Step 3, for every disk that is being resized.
    pub(crate) async fn finish_resizes(&self) -> std::result::Result<Finished, FileError> {
        let resizing = self.resizing();
        if resizing.is_empty() {
            return Ok(Finished::Done);
        }
        self.rebuild_catalog().await;
        self.reclaim(true).await?;
        let (mut any, mut trouble) = (false, None);
        for number in resizing {
            match self.finish_resize(number).await {
                Ok(done) => any |= done,
                Err(FileError::Dismounted) => return Err(FileError::Dismounted),
                Err(error) => trouble = Some(error),
            }
        }
        match trouble {
            // One has its new size, or was lost.
            _ if any => Ok(Finished::Changed),
            Some(error) => Err(error),
            None => Ok(Finished::Waits),
        }
    }

    /// False: something is still in the way.
    async fn finish_resize(&self, number: DiskNumber) -> std::result::Result<bool, FileError> {
        // It gets no other target meanwhile.
        let _one_at_a_time = self.exchanging.lock().await;
        self.take_size(number).await
    }

    /// As [`Self::finish_resize`], for a caller that holds `exchanging`.
    async fn take_size(&self, number: DiskNumber) -> std::result::Result<bool, FileError> {
        let membership = self.voters.current();
        let entry = membership.disk(number).filter(|entry| is_resizing(entry));
        let (Some(member), Some(target)) =
            (self.members.get(&number), entry.and_then(|entry| entry.target))
        else {
            return Ok(true);
        };
        let refused = |reason: &str, why: String| FileError::Refused {
            disk: member.name().to_string(),
            reason: reason.to_owned(),
            why,
        };
        let layout = Layout::new(target, self.au_size)
            .map_err(|error| refused("its new size", error.to_string()))?;
        let before = member.layout();
        self.reserve_for_shrink(number, Some(layout));
        if self.space().reserved_in_use(number) > 0 {
            return Ok(false);
        }
        let _nobody_compares = self.renaming.lock().await;
        self.move_header(member, layout)
            .await
            .map_err(|reason| refused("its header cannot be written", reason))?;
        let recorded = self.voters.change(move |next| {
            let disk =
                find(next, number).filter(|disk| is_resizing(disk) && disk.target == Some(target));
            let Some(disk) = disk else { return Ok(false) };
            disk.size = target;
            disk.target = None;
            Ok(true)
        });
        let membership = recorded.await.map_err(|refusal| match refusal {
            Refusal::Closing => FileError::Dismounted,
            refusal => refused("its new size could not be recorded", refusal.to_string()),
        })?;
        if membership.disk(number).is_none_or(|disk| disk.size != target || disk.target.is_some()) {
            // It went offline meanwhile.
            return Ok(true);
        }
        self.wipe_copies(member, before, layout).await;
        member.set_layout(layout);
        self.space().cut(number, layout);
        reached::at(Mark::ResizeFinished);
        self.forget_placement();
        let what =
            if target < before.size() { ": what lies behind them can be taken away" } else { "" };
        self.tell(
            Severity::Note,
            Some(number),
            format!("disk {} has {target} bytes now{what}", member.name()),
        );
        Ok(true)
    }

    /// Wipes header copies where a new layout has none: a reader that finds no newer one would
    /// believe them. These AUs have no owner yet.
    async fn wipe_copies(&self, member: &Arc<Member>, before: Layout, layout: Layout) {
        let (places, area) = (layout.header_places(), layout.middle_area());
        // Copies in a slot of a record were wiped before.
        let is_left = |place: &u64| !places.contains(place) && !area.has_any_of(*place, BLOCK_SIZE);
        for place in before.header_places().into_iter().filter(is_left) {
            let zeros = crate::sync::buffer::Buffer::zeroed(BLOCK_SIZE).share();
            // A copy that stays is older than those that were just written. No wipe may land on
            // what a later owner writes there.
            let mut disk_io =
                member.start_write(place, zeros).of(crate::disk::counters::IoClient::Records);
            if disk_io.result_in_time().await.is_none() && !planted::has(Bug::WipeNotWaited) {
                disk_io.wait().await;
            }
        }
        let _ = member.flush().await;
    }
}
