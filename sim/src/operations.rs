//! Statements of an operator: disks are resized, the group is scrubbed, reclaimed, rebalanced or
//! compacted, a rebalance is paused. The engine may die during each.

use crate::{
    disk::SimDisk,
    faults::pick,
    history::{Failure, Story},
};
use plinth_engine::{
    admin::{
        Order, Phases, ReclaimMethod, ReclaimOrder, Resize, Scope, ScrubOrder, ScrubPower,
        Selection,
    },
    testing::Numbers,
};
use std::sync::Arc;

impl Story {
    /// Up to two disks get another size, at most that of the device. A statement that cannot be
    /// carried out is refused, and changes nothing.
    pub async fn resize(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let sim_group = &mut self.sim_groups[g];
        sim_group.part_with_former();
        let mut resizes: Vec<Resize> = Vec::new();
        for _ in 0..1 + numbers.below(2) {
            let disk: &SimDisk = pick(numbers, &sim_group.disks);
            let which = Selection::Disks(vec![sim_group.name_of(disk).to_owned()]);
            if resizes.iter().any(|one| one.which == which) {
                continue;
            }
            // The disk loses a quarter at most, by any number of bytes, or gets all of it back.
            let size = match numbers.below(3) {
                0 => None,
                _ => Some(disk.size() - numbers.below(disk.size() / 4)),
            };
            resizes.push(Resize { which, size });
        }
        let power = Self::power(numbers, 5);
        sim_group.say(|| format!("other sizes: {resizes:?}, power {power}"));
        let group = Arc::clone(sim_group.group());
        let statement = async move { Box::pin(group.resize_disks(&resizes, Some(power))).await };
        self.tell_engine(g, statement, numbers).await
    }

    /// Everything is read and compared, and perhaps repaired, while clients work.
    pub async fn scrub(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let sim_group = &self.sim_groups[g];
        let power = *pick(numbers, &[ScrubPower::Auto, ScrubPower::High, ScrubPower::Max]);
        let order =
            ScrubOrder { scope: Scope::All, repair: numbers.below(2) == 0, power, force: true };
        sim_group.say(|| format!("a scrub, {power:?}, repair {}", order.repair));
        let group = Arc::clone(sim_group.group());
        self.tell_engine(g, async move { group.scrub(&order).await }, numbers).await
    }

    /// All free space is given back while clients work. Another order may come soon after, or the
    /// operator may stop it.
    pub async fn reclaim(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let method = *pick(numbers, &[ReclaimMethod::Discard, ReclaimMethod::Zero]);
        let power = (numbers.below(2) == 0).then(|| Self::power(numbers, 8));
        let order = ReclaimOrder { which: Selection::All, method, power };
        let stops = numbers.below(4) == 0;
        let sim_group = &self.sim_groups[g];
        sim_group.say(|| format!("a reclaim, {method}, power {power:?}, stopped {stops}"));
        let group = Arc::clone(sim_group.group());
        let statement = async move {
            group.begin_reclaim(&order).await?;
            if stops { group.stop_reclaim().await } else { Ok(()) }
        };
        self.tell_engine(g, statement, numbers).await
    }

    /// A rebalance that evens out, compacts, or only restores mirrors.
    pub async fn compact(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let phases = Phases { balance: numbers.below(2) == 0, compact: Some(numbers.below(4) > 0) };
        let order = Order { power: Some(Self::power(numbers, 5)), phases: Some(phases) };
        self.sim_groups[g].say(|| format!("a rebalance: {order:?}"));
        let group = Arc::clone(self.sim_groups[g].group());
        self.tell_engine(g, async move { group.rebalance(order).await }, numbers).await
    }

    /// A rebalance is paused, and goes on later.
    pub async fn pause_movement(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let power = |group: Arc<plinth_engine::group::Group>, power: u32| async move {
            group.rebalance(Order { power: Some(power), phases: None }).await
        };
        let sim_group = &self.sim_groups[g];
        sim_group.say(|| "movement is paused".to_owned());
        let group = Arc::clone(sim_group.group());
        sim_group.order(power(group, 0)).await?;
        self.add_drop(g, numbers).await?;
        self.work(numbers.below(40)).await?;
        let sim_group = &self.sim_groups[g];
        sim_group.say(|| "movement goes on".to_owned());
        let group = Arc::clone(sim_group.group());
        sim_group.order(power(group, Self::power(numbers, 5))).await
    }

    /// The power of a rebalance, from 1 to 2 to the power of `limit - 1`; the less, the likelier.
    pub fn power(numbers: &mut Numbers, limit: u64) -> u32 {
        let most = 1 << numbers.below(limit);
        u32::try_from(1 + numbers.below(most)).expect("small")
    }
}
