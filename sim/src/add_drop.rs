//! Disks are added, dropped, or both in one statement; a group is converted to more or fewer
//! mirrors. The engine may die while it does so.

use crate::{
    coverage::State,
    disk::SimDisk,
    executor::Fuse,
    faults::{moment, pick},
    history::{End, Failure, Story},
    sim_group::{AT_ONCE, Condition, SimGroup, words},
};
use plinth_engine::{
    admin::{AdminError, Conversion, Departure, Exchange, NewDisk, Replacement, Selection},
    testing::Numbers,
};
use plinth_format::{Redundancy, layout::MIB, membership::DiskState};
use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Disks of a group at most: more would not make other histories.
const DISKS_MAX: usize = 14;

impl Story {
    /// Up to two disks are added and up to two dropped, or one replaces another. A statement that
    /// cannot be carried out is refused, and changes nothing.
    pub async fn add_drop(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let sim_group = &mut self.sim_groups[g];
        sim_group.part_with_former();
        let away: Vec<SimDisk> =
            sim_group.disks.iter().filter(|disk| Self::is_gone(sim_group, disk)).cloned().collect();
        if !away.is_empty() && numbers.below(2) == 0 {
            let old = pick(numbers, &away).clone();
            return self.replace(g, &old, numbers).await;
        }
        let exchange = Exchange {
            drop: Self::leavers(sim_group, numbers),
            add: Self::newcomers(sim_group, numbers),
        };
        let power = Self::power(numbers, 5);
        sim_group.say(|| {
            let coming =
                exchange.add.iter().map(|disk| disk.path.clone()).collect::<Vec<_>>().join(", ");
            let going: Vec<String> =
                exchange.drop.iter().map(|one| format!("{:?}", one.which)).collect();
            format!("coming: {coming}; going: {}; power {power}", going.join(", "))
        });
        // A new disk may be slow: then mirrors move for a long time.
        let slow = Duration::from_millis(if numbers.below(2) == 0 { 0 } else { numbers.below(60) });
        for new in &exchange.add {
            let place =
                sim_group.disks.iter().rev().find(|disk| sim_group.path_of(disk) == new.path);
            place.expect("made above").faults(|faults| faults.slow = slow);
        }
        let group = Arc::clone(sim_group.group());
        self.tell_engine(
            g,
            async move { Box::pin(group.exchange(exchange, Some(power))).await },
            numbers,
        )
        .await
    }

    /// Another device replaces a disk that is OFFLINE. A statement that cannot be carried out is
    /// refused, and changes nothing.
    async fn replace(
        &mut self,
        g: usize,
        old: &SimDisk,
        numbers: &mut Numbers,
    ) -> Result<(), Failure> {
        let sim_group = &mut self.sim_groups[g];
        let index = sim_group.index_of(old);
        let (failure_group, size) = sim_group.shape.disks[index].clone();
        // Now and then the device is too small.
        let size = size + numbers.below(10) * sim_group.shape.au_size
            - if numbers.below(8) == 0 { MIB } else { 0 };
        let new = sim_group.new_disk(&failure_group, size);
        let disk = sim_group.name_of(old).to_owned();
        sim_group.say(|| format!("{} takes the place of {}", new.path, old.label()));
        let group = Arc::clone(sim_group.group());
        let replacement = Replacement { disk: disk.clone(), path: new.path, force: false };
        match sim_group.inside(async move { group.replace(&[replacement]).await }).await? {
            Some(Ok(())) => sim_group.has_replaced(index, disk),
            Some(Err(error)) => sim_group.say(|| format!("refused: {}", words(&error))),
            None => {}
        }
        sim_group.part_with_former();
        if numbers.below(4) == 0 { Ok(()) } else { self.use_while_moving(g, numbers).await }
    }

    /// Whether a disk is OFFLINE, with its failure group.
    fn is_gone(sim_group: &SimGroup, disk: &SimDisk) -> bool {
        let failure_group = &sim_group.shape.disks[sim_group.index_of(disk)].0;
        sim_group.state_of(sim_group.group(), disk) == Some(DiskState::Offline)
            && sim_group.faulty.get(failure_group) == Some(&Condition::Unavailable)
    }

    /// The whole group is converted to another number of mirrors. A statement that cannot be
    /// carried out is refused, and changes nothing.
    pub async fn convert(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let sim_group = &mut self.sim_groups[g];
        if !sim_group.is_external() && sim_group.count_faulty() == 0 && numbers.below(2) == 0 {
            return self.convert_what_rots(g, numbers).await;
        }
        let all = [Redundancy::External, Redundancy::Normal, Redundancy::High];
        // A redundancy that survives the faults that the group has already.
        let to = *pick(numbers, &all[sim_group.count_faulty().min(2)..]);
        let power = Self::power(numbers, 4);
        sim_group.say(|| {
            format!("from {} to {to} redundancy, power {power}", sim_group.shape.redundancy)
        });
        // From now on only the lower redundancy can be relied on, whether the conversion succeeds
        // or not; the engine is asked later which one it is.
        sim_group.shape.redundancy = sim_group.shape.redundancy.min(to);
        if numbers.below(3) == 0 {
            let slow = Duration::from_millis(numbers.below(40));
            pick(numbers, &sim_group.disks).faults(|faults| faults.slow = slow);
        }
        let group = Arc::clone(sim_group.group());
        self.tell_engine(
            g,
            async move { Box::pin(group.convert(Conversion(to), Some(power))).await },
            numbers,
        )
        .await
    }

    /// The number of mirrors falls while some mirrors have rotted: the mirror that is removed may
    /// be the only good one. No client writes meanwhile: rot in a region that was active at a crash
    /// is not promised to be survived.
    async fn convert_what_rots(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        self.rot_at_rest(g, numbers).await?;
        let sim_group = &mut self.sim_groups[g];
        let fewer = [Redundancy::External, Redundancy::Normal];
        let to = *pick(numbers, &fewer[..sim_group.shape.redundancy.mirrors() - 1]);
        sim_group.say(|| {
            format!("from {} to {to} redundancy, of what has rotted", sim_group.shape.redundancy)
        });
        sim_group.shape.redundancy = to;
        let dies = numbers.below(2) == 0;
        if dies {
            self.core.fuse(sim_group.process(), Some(Fuse::Steps(numbers.below(3000))));
        }
        let group = Arc::clone(sim_group.group());
        sim_group.order(async move { group.convert(Conversion(to), Some(8)).await }).await?;
        if dies {
            self.core.sleep(Duration::from_millis(numbers.below(3000))).await;
            sim_group.kill(AT_ONCE).await?;
            if !sim_group.try_mount().await? {
                return Err(format!(
                    "{}: not mounted after it was killed while mirrors were taken",
                    sim_group.name
                ));
            }
        }
        sim_group
            .until("the mirrors are taken", |sim_group| sim_group.state() != State::Moving)
            .await?;
        sim_group.repair().await?;
        sim_group.check().await?;
        sim_group.start_clients();
        Ok(())
    }

    /// Carries out a statement that moves mirrors. The engine may die during it, or while mirrors
    /// move.
    pub async fn tell_engine(
        &mut self,
        g: usize,
        statement: impl Future<Output = Result<(), AdminError>> + Send + 'static,
        numbers: &mut Numbers,
    ) -> Result<(), Failure> {
        if numbers.below(3) == 0 {
            self.sim_groups[g].hold_writes(numbers);
        }
        let sim_group = &mut self.sim_groups[g];
        let dies = numbers.below(4) == 0;
        if dies {
            self.core.fuse(sim_group.process(), Some(moment(numbers)));
        }
        match sim_group.inside(statement).await? {
            Some(Err(error)) => sim_group.say(|| format!("refused: {}", words(&error))),
            Some(Ok(())) => {}
            None => sim_group.say(|| "the engine is killed in that".to_owned()),
        }
        if dies {
            sim_group.kill(AT_ONCE).await?;
            return self.up().await;
        }
        sim_group.part_with_former();
        if numbers.below(4) == 0 { Ok(()) } else { self.use_while_moving(g, numbers).await }
    }

    /// Clients write much while mirrors move, and the space that mirrors leave is allocated at
    /// once. The engine may end during that.
    async fn use_while_moving(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        if numbers.below(3) == 0 {
            self.sim_groups[g].fill().await?;
        }
        let expectations = Arc::clone(&self.sim_groups[g].expectations);
        let lively = *pick(numbers, &[&expectations.burst, &expectations.churn]);
        lively.store(true, Ordering::Relaxed);
        self.work(numbers.below(60)).await?;
        if numbers.below(5) == 0 {
            self.sim_groups[g].say(|| "what is being dropped stays".to_owned());
            let group = Arc::clone(self.sim_groups[g].group());
            self.sim_groups[g].order(async move { group.undrop().await }).await?;
        }
        if numbers.below(3) == 0 {
            lively.store(false, Ordering::Relaxed);
            return Ok(());
        }
        let end = *pick(numbers, &[End::Killed, End::PowerCut, End::PowerCut]);
        self.down(g, end, moment(numbers)).await?;
        self.up().await
    }

    fn newcomers(sim_group: &mut SimGroup, numbers: &mut Numbers) -> Vec<NewDisk> {
        let mut add = Vec::new();
        for _ in 0..numbers.below(3) {
            if sim_group.disks.len() >= DISKS_MAX {
                break;
            }
            let mut groups = sim_group.shape.data_groups();
            groups.push(format!("N{}", numbers.below(3)));
            let failure_group = pick(numbers, &groups).clone();
            let size = (48 * MIB).max(sim_group.shape.au_size * 24)
                + numbers.below(80) * sim_group.shape.au_size;
            add.push(sim_group.new_disk(&failure_group, size));
        }
        add
    }

    fn leavers(sim_group: &SimGroup, numbers: &mut Numbers) -> Vec<Departure> {
        let mut seen = BTreeSet::new();
        let mut drop = Vec::new();
        for _ in 0..numbers.below(3) {
            let disk: &SimDisk = pick(numbers, &sim_group.disks);
            if !seen.insert(disk.label().to_owned()) {
                continue;
            }
            let force = Self::is_gone(sim_group, disk) && numbers.below(2) == 0;
            let which = Selection::Disks(vec![sim_group.name_of(disk).to_owned()]);
            drop.push(Departure { which, force, reclaim: false });
        }
        drop
    }
}
