//! Disks grow in stages where nothing is free.
//!
//! Larger disks have their middle header copies, and more of their checksums, where data is now.
//! That has to move first, and where all disks are full there is nowhere to go. So:
//!
//!   1. The sizes that the disks are to have in the end, their *final sizes*, are stored in the
//!      catalog.
//!   2. A disk gets the part of that which takes no AU with data: mostly two AUs at its end.
//!   3. All get the largest part of the rest for which there is room (`resize.rs`); when they have
//!      that, this begins again.
//!
//! Files may take the room that a resize had found before what is in the way has moved: then the
//! disks keep their sizes, and grow in stages after all.
//!
//! One free AU makes room for hundreds, these for tens of thousands: the checksums of an AU take 4
//! KiB or a thousandth of it. A crash leaves the final sizes, and the rebalance that goes on does
//! the rest. A statement that asks for another size removes a disk's final size first.

use super::{Result, Targets};
use crate::{
    admin::{AdminError, Code},
    catalog::attributes::{load_goals, store_goal},
    disk::member::Member,
    error::FileError,
    membership::voters::find,
    movement::Movement,
    reached::{self, Mark},
    space::balance::TooSmall,
};
use plinth_format::{Au, BLOCK_SIZE, DiskId, DiskNumber, Layout, membership::DiskState};
use std::sync::Arc;

/// The largest layout up to `target` that takes no AU with data from `now`: its middle header copy
/// is in the AU in which it is now, and its checksum zone has no more AUs. `None`: it would have no
/// more AUs for data.
fn grown_in_place(now: Layout, target: Layout) -> Option<Layout> {
    let au_size = now.au_size();
    let [_, middle, ..] = now.header_places();
    // Of twice that many AUs, less a block, the middle is in the same one.
    let same_middle = 2 * (middle / au_size + 1);
    let zone = now.data_units().next()?.0 - 1;
    let same_zone = u64::from(zone) * (au_size / now.sums_of(Au(0)).1 as u64) + 1;
    let size =
        (same_middle.min(same_zone) * au_size).saturating_sub(BLOCK_SIZE as u64).min(target.size());
    let grown = Layout::new(size, au_size).ok()?;
    let keeps_all = now.data_units().all(|au| grown.is_data(au));
    (keeps_all && grown.data_units().count() > now.data_units().count()).then_some(grown)
}

impl Movement {
    /// Disks are to grow, and there is no room for what is in the way. As far as they can, they
    /// have more when this returns.
    ///
    /// # Errors
    /// Why their final sizes cannot be stored, or a disk's header not be written.
    pub(super) async fn grow_in_stages(&self, final_sizes: &Targets) -> Result<()> {
        let kept: Vec<_> = final_sizes
            .iter()
            .map(|(number, (member, final_size))| (*number, member.id(), Some(final_size.size())))
            .collect();
        self.note_final_sizes(kept).await.map_err(|error| {
            error.while_doing(format_args!("disks of disk group {} cannot be resized", self.name))
        })?;
        self.next_stage(final_sizes).await.map(|_| ())
    }

    /// The next stage of disks that have final sizes, if they are not being resized. False: there
    /// are none.
    pub(crate) async fn begin_stage(&self) -> std::result::Result<bool, FileError> {
        let _one_at_a_time = self.exchanging.lock().await;
        let final_sizes = self.final_sizes().await?;
        let (reached, final_sizes): (Targets, Targets) = final_sizes
            .into_iter()
            .partition(|(_, (member, final_size))| member.layout().size() >= final_size.size());
        self.forget_final_sizes(reached.keys()).await?;
        let membership = self.voters.current();
        let can_grow = |number: &DiskNumber| {
            let disk = membership.disk(*number);
            disk.is_some_and(|disk| {
                disk.state == DiskState::Online && !disk.leaving && disk.target.is_none()
            })
        };
        let final_sizes: Targets =
            final_sizes.into_iter().filter(|(number, _)| can_grow(number)).collect();
        let Some((member, final_size)) = final_sizes.values().next() else { return Ok(false) };
        let refused = |why: String| FileError::Refused {
            disk: member.name().to_string(),
            reason: format!("its new size, {} bytes", final_size.size()),
            why,
        };
        match self.next_stage(&final_sizes).await {
            Ok(true) => Ok(true),
            Ok(false) => {
                let missing =
                    self.plan_of(&final_sizes).map_or_else(|TooSmall { missing }| missing, |_| 0);
                Err(refused(format!(
                    "{missing} AUs too few for what is in the way: add disks, or remove files"
                )))
            }
            Err(error) => Err(refused(error.to_string())),
        }
    }

    /// There is no room any more for what is in the way of disks that grow: their targets become
    /// their final sizes, and the next stage begins. False: no disk grows.
    pub(crate) async fn turn_to_stages(&self) -> std::result::Result<bool, FileError> {
        let _one_at_a_time = self.exchanging.lock().await;
        let membership = self.voters.current();
        let growing: Targets = self
            .resizing()
            .into_iter()
            .filter_map(|number| {
                let disk = membership.disk(number)?;
                let final_size =
                    Layout::new(disk.target.filter(|target| *target > disk.size)?, self.au_size)
                        .ok()?;
                Some((number, (Arc::clone(self.members.get(&number)?), final_size)))
            })
            .collect();
        if growing.is_empty() {
            return Ok(false);
        }
        let mut final_sizes = self.final_sizes().await?;
        // One that goes further than this stage stays.
        let new: Vec<_> = growing
            .iter()
            .filter(|(number, (_, layout))| {
                final_sizes
                    .get(number)
                    .is_none_or(|(_, final_size)| final_size.size() < layout.size())
            })
            .map(|(number, (member, layout))| (*number, (Arc::clone(member), *layout)))
            .collect();
        self.note_final_sizes(
            new.iter()
                .map(|(number, (member, final_size))| {
                    (*number, member.id(), Some(final_size.size()))
                })
                .collect(),
        )
        .await?;
        final_sizes.extend(new);
        final_sizes.retain(|number, _| growing.contains_key(number));
        let as_now = growing
            .into_iter()
            .map(|(number, (member, _))| (number, (Arc::clone(&member), member.layout())))
            .collect();
        let refused = |error: AdminError| FileError::Refused {
            disk: self.name.clone(),
            reason: "the sizes of its disks".to_owned(),
            why: error.to_string(),
        };
        self.set_targets(&as_now).await.map_err(refused)?;
        self.next_stage(&final_sizes).await.map_err(refused)?;
        Ok(true)
    }

    /// Steps 2 and 3. False: there is no room for any part of the way.
    async fn next_stage(&self, final_sizes: &Targets) -> Result<bool> {
        self.grow_without_moving(final_sizes).await?;
        let targets = self.largest_stage(final_sizes);
        let grows = !targets.is_empty();
        if grows {
            self.set_targets(&targets).await?;
        }
        Ok(grows)
    }

    /// The largest part of the way to their final sizes for which there is room.
    fn largest_stage(&self, final_sizes: &Targets) -> Targets {
        let gain = |(member, final_size): &(Arc<Member>, Layout)| {
            final_size.au_count().saturating_sub(member.layout().au_count())
        };
        let parts = u64::from(final_sizes.values().map(gain).max().unwrap_or(0).max(1));
        let stage = |part: u64| -> Targets {
            let of = |(number, (member, final_size)): (&DiskNumber, &(Arc<Member>, Layout))| {
                let now = member.layout();
                let more = u128::from(final_size.size().saturating_sub(now.size()))
                    * u128::from(part)
                    / u128::from(parts);
                let size = now.size() + u64::try_from(more).expect("no more than the whole");
                let layout = if part == parts {
                    Some(*final_size)
                } else {
                    Layout::of_whole_units(size, self.au_size).ok()
                };
                (
                    *number,
                    (
                        Arc::clone(member),
                        layout.filter(|layout| layout.size() > now.size()).unwrap_or(now),
                    ),
                )
            };
            final_sizes.iter().map(of).collect()
        };
        let has_room = |part: u64| self.plan_of(&stage(part)).is_ok();
        // The whole way may take less than a part of it: twice the size has its middle where
        // nothing is yet.
        let (mut fits, mut too_much) =
            if has_room(parts) { (parts, parts + 1) } else { (0, parts) };
        while fits + 1 < too_much {
            let part = u64::midpoint(fits, too_much);
            if has_room(part) { fits = part } else { too_much = part }
        }
        self.other_targets(stage(fits))
    }

    /// Gives disks what they can have of their targets although nothing moves.
    async fn grow_without_moving(&self, targets: &Targets) -> Result<()> {
        for (number, (member, target)) in targets {
            let now = member.layout();
            let Some(step) = grown_in_place(now, *target) else { continue };
            let cannot = format!("disk {} cannot be resized", member.name());
            let failed = |why: String| AdminError::new(Code::Io, format!("{cannot}: {why}"));
            {
                let _nobody_compares = self.renaming.lock().await;
                self.move_header(member, now).await.map_err(failed)?;
            }
            let recorded = self.voters.change(|next| {
                let Some(disk) = find(next, *number) else { return Ok(false) };
                disk.target = Some(step.size());
                Ok(true)
            });
            recorded.await.map_err(|refusal| failed(refusal.to_string()))?;
            reached::at(Mark::GrownInStages);
            self.take_size(*number).await.map_err(|error| error.while_doing(&cannot))?;
        }
        Ok(())
    }

    /// Disks that grow in stages, and the sizes that they come to.
    pub(crate) async fn final_sizes(&self) -> std::result::Result<Targets, FileError> {
        let kept = self.catalog.read(load_goals).await?;
        let final_size = |(number, size, id): (DiskNumber, u64, String)| {
            let member =
                self.members.get(&number).filter(|member| member.id().to_string() == id)?;
            Some((number, (Arc::clone(member), Layout::new(size, self.au_size).ok()?)))
        };
        Ok(kept.into_iter().filter_map(final_size).collect())
    }

    /// Disks keep their sizes, or get others than was stored.
    pub(super) async fn forget_final_sizes(
        &self,
        disks: impl Iterator<Item = &DiskNumber>,
    ) -> std::result::Result<(), FileError> {
        let disks: Vec<DiskNumber> = disks.copied().collect();
        let kept =
            if disks.is_empty() { Vec::new() } else { self.catalog.read(load_goals).await? };
        let gone =
            kept.into_iter().map(|(number, ..)| number).filter(|number| disks.contains(number));
        let gone: Vec<_> = gone
            .filter_map(|number| Some((number, self.members.get(&number)?.id(), None)))
            .collect();
        if gone.is_empty() { Ok(()) } else { self.note_final_sizes(gone).await }
    }

    async fn note_final_sizes(
        &self,
        final_sizes: Vec<(DiskNumber, DiskId, Option<u64>)>,
    ) -> std::result::Result<(), FileError> {
        let store = move |connection: &rusqlite::Connection| {
            final_sizes.iter().try_for_each(|(number, id, final_size)| {
                store_goal(connection, *number, *id, *final_size)
            })
        };
        // It adds room where there is none.
        self.catalog.release(true, store).await.map(|_| ())
    }
}
