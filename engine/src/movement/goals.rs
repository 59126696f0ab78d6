//! Goals of a rebalance: what statements record, and what the loop works towards.
//!
//! A statement records its goal where the next mount finds it, and wakes the loop (`orders.rs`).
//! The loop (`rebalance.rs`) knows of a goal only how many mirrors are [`left`](Movement::left) for
//! it, the [`focus`](Goal::focus) of a pass that moves them, and that it is to
//! [`finish`](Movement::finish) when none is left. A pass is for the first goal of this table that
//! has mirrors left:
//!
//! | goal | recorded by | where | a pass | finish |
//! | --- | --- | --- | --- | --- |
//! | Convert | CONVERT | `wanted` of the membership | makes, takes mirrors | `convert.rs` |
//! | Resize | RESIZE | `target` of a disk | empties reserved AUs | `resize.rs` |
//! | Balance | ADD, DROP, REBALANCE | phases of the order | what the plan says | nothing |
//! | Drop | DROP | `leaving` of a disk | is one of Balance | `disks.rs` |
//! | Grow | RESIZE, if nothing is free | final sizes in the catalog | none | `resize/stages.rs` |
//!
//! To finish a conversion records that the redundancy is the wanted one; a resize, that the size is
//! the target; a drop, a membership without the disk; to finish growing records the targets of the
//! next stage. Convert and Resize finish as soon as nothing is left for them, even while others
//! still move; Drop and Grow, in this order, when no pass has anything to do: where there is no
//! room to grow, all else is done.
//!
//! Before all goals a pass restores: mirrors on disks that leave and cannot be read, first of the
//! extents that have the fewest others. After all, once for each order, gaps of disks are filled:
//! where the order says so, or on disks that rotate.

use crate::{
    admin::Phases,
    catalog::on_disks,
    disk::member::Member,
    error::FileError,
    movement::{Movement, passes::Focus},
    space::mirror_sets::mirrors_wanted,
};
use plinth_format::{DiskNumber, membership::MemberDisk};
use std::collections::BTreeMap;

/// Pauses before the loop gives up waiting for AUs that stay in use; and for the catalog's mirror
/// to find room elsewhere.
const PAUSES: u32 = 600;
const PAUSES_FOR_ROOM: u32 = 20;

/// A goal that a statement recorded. See the table above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    Convert,
    Resize,
    Balance,
    Drop,
    Grow,
}

impl Goal {
    /// Finished as soon as no mirror is left for them.
    pub const WHILE_OTHERS_MOVE: [Self; 2] = [Self::Convert, Self::Resize];
    /// Finished when no pass has anything to do.
    pub const AFTER_ALL_PASSES: [Self; 2] = [Self::Drop, Self::Grow];

    /// The focus of a pass for it.
    pub fn focus(self) -> Focus {
        match self {
            Self::Convert => Focus::Convert,
            Self::Resize => Focus::Reserved,
            Self::Balance | Self::Drop | Self::Grow => Focus::Balance,
        }
    }
}

/// Mirrors that are left to move, to make or to take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left {
    convert: u64,
    resize: u64,
    /// Set when the plan is known.
    pub balance: u64,
}

impl Left {
    pub fn of(&self, goal: Goal) -> u64 {
        match goal {
            Goal::Convert => self.convert,
            Goal::Resize => self.resize,
            Goal::Balance => self.balance,
            Goal::Drop | Goal::Grow => 0,
        }
    }

    /// Those without which a statement stays unfinished: they move however even the disks are.
    pub fn required(&self) -> u64 {
        self.resize + self.convert
    }

    /// All of them. A mirror that has to leave its AU may be one that the plan moves: these count
    /// once.
    pub fn work(&self) -> u64 {
        self.convert + self.balance.max(self.resize)
    }

    /// The goal that the next pass is for.
    pub fn first(&self) -> Goal {
        let first = Goal::WHILE_OTHERS_MOVE.into_iter().find(|goal| self.of(*goal) > 0);
        first.unwrap_or(Goal::Balance)
    }

    /// Whether passes may give AUs back even where the plan finds too few: a conversion may take
    /// mirrors.
    pub fn may_free(&self) -> bool {
        self.convert > 0
    }
}

/// The result of [`Movement::finish`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finished {
    /// Nothing is to be done for it any more.
    Done,
    /// The membership has changed: a new plan is needed.
    Changed,
    /// Something is in the way, and may go away by itself.
    Waits,
}

impl Movement {
    /// Mirrors that are left, as long as no plan is known.
    pub(super) fn left(&self) -> Left {
        Left { convert: self.mirrors_to_convert(), resize: self.reserved_mirrors(), balance: 0 }
    }

    /// Records what a goal was for, if nothing is in the way of that.
    pub(super) async fn finish(&self, goal: Goal) -> Result<Finished, FileError> {
        match goal {
            Goal::Convert => self.finish_conversion().await.map(|()| Finished::Done),
            Goal::Resize => self.finish_resizes().await,
            Goal::Balance => Ok(Finished::Done),
            Goal::Drop => Ok(match self.dismiss_leaving().await? {
                true => Finished::Done,
                false => Finished::Waits,
            }),
            Goal::Grow => Ok(match self.begin_stage().await? {
                true => Finished::Changed,
                false => Finished::Done,
            }),
        }
    }

    /// The plan finds too little space: turns a goal into one that adds some. False: there is none.
    pub(super) async fn add_room(&self) -> Result<bool, FileError> {
        self.turn_to_stages().await
    }

    /// Whether the plan's moves are wanted: to make disks equally full, or because disks leave.
    pub(super) fn is_balance_wanted(&self, phases: Phases) -> bool {
        phases.balance || self.voters.current().disks.iter().any(|disk| disk.leaving)
    }

    /// The reason to give up, if a goal has waited for too many pauses.
    pub(super) fn why_given_up(&self, goal: Goal, pauses: u32) -> Option<String> {
        match goal {
            Goal::Resize if pauses >= PAUSES => {
                Some(match self.store.in_the_way().and_then(|disk| self.members.get(&disk)) {
                    Some(member) => format!(
                        "the catalog has a mirror where disk {} is to give up space, and there is no room for it elsewhere: add a \
                         disk, or remove files",
                        member.name()
                    ),
                    None => "what is in the way of a resize stays in use".to_owned(),
                })
            }
            Goal::Drop => match self.disk_of_the_catalog() {
                Some(disk) if pauses >= PAUSES_FOR_ROOM => Some(format!(
                    "the catalog has a mirror on disk {disk} that is being dropped, and there is no room for it in another \
                     failure group: add a disk, or remove files"
                )),
                _ if pauses >= PAUSES => {
                    Some("what is on a disk that is being dropped stays in use".to_owned())
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The reason why no mirror can move, where a goal knows it.
    pub(super) fn why_not(&self, left: &Left) -> Option<String> {
        (left.convert > 0).then(|| self.why_not_converted())
    }

    /// Whether a statement's goal is on record that a rebalance works towards.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    pub(crate) async fn has_goal(&self) -> Result<bool, FileError> {
        let membership = self.voters.current();
        let of_disks = membership.disks.iter().any(|disk| disk.leaving || disk.target.is_some());
        Ok(of_disks || self.is_converting() || !self.final_sizes().await?.is_empty())
    }

    /// The pass that restores mirrors on disks that leave and cannot be read, of the extents with
    /// the fewest others. `None`: there are none.
    pub(super) fn most_exposed(&self) -> Option<Focus> {
        let membership = self.voters.current();
        let is_lost = |disk: &&MemberDisk| disk.leaving && self.readable(&[disk.number]) == 0;
        let lost: Vec<DiskNumber> =
            membership.disks.iter().filter(is_lost).map(|disk| disk.number).collect();
        let sets = self.mirror_sets.wishes();
        // An extent with more mirrors than are wanted loses that one instead.
        let exposed = sets.iter().filter(|(set, own, _)| {
            let kept = set.iter().filter(|disk| !lost.contains(disk)).count();
            kept < set.len() && kept < mirrors_wanted(*own, &membership)
        });
        let left = exposed.map(|(set, ..)| self.readable(set)).min()?;
        Some(Focus::Restore { lost, left })
    }

    /// The pass that fills the gaps of disks with what lies behind the last AU that they would need
    /// without gaps, and how many mirrors that are at most. `None`: there are none.
    pub(super) fn gaps(&self, phases: Phases) -> Option<(Focus, u64)> {
        let membership = self.voters.current();
        let is_wanted = |member: &Member| {
            phases.compact.unwrap_or_else(|| member.disk().is_some_and(|disk| disk.rotates()))
                && member.is_readable()
        };
        let mut limits = BTreeMap::new();
        let mut work = 0;
        for disk in membership.disks.iter().filter(|disk| !disk.quorum) {
            if !self.members.get(&disk.number).is_some_and(|member| is_wanted(member)) {
                continue;
            }
            let (limit, behind) = self.space().compact_end(disk.number);
            limits.insert(disk.number, limit);
            work += u64::from(behind);
        }
        (work > 0).then_some((Focus::Compact(limits), work))
    }

    /// Mirrors of extents in AUs that a disk gives up, which can move.
    fn reserved_mirrors(&self) -> u64 {
        let membership = self.voters.current();
        let catalog = on_disks::units(&membership);
        let space = self.space();
        let of = |disk: DiskNumber| {
            let fixed = catalog
                .iter()
                .filter(|(on, au)| *on == disk && space.is_reserved_for_shrink(disk, *au))
                .count() as u64;
            u64::from(space.reserved_in_use(disk)).saturating_sub(fixed)
        };
        self.resizing().into_iter().map(of).sum()
    }

    /// The name of a disk that leaves, with a mirror of the catalog that can go nowhere else.
    fn disk_of_the_catalog(&self) -> Option<String> {
        let membership = self.voters.current();
        let needed =
            membership.disks.iter().find(|disk| disk.leaving && self.store.needs(disk.number));
        needed.map(|disk| disk.name.clone())
    }

    /// How many of these disks can be read.
    pub(super) fn readable(&self, disks: &[DiskNumber]) -> usize {
        disks
            .iter()
            .filter(|disk| self.members.get(disk).is_some_and(|member| member.is_readable()))
            .count()
    }
}
