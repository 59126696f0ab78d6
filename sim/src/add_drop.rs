//! Disks come and go, added, dropped, both in one statement; mirrors become more or fewer; and the engine may die in that.

use crate::{
    coverage::State,
    disk::SimDisk,
    executor::Fuse,
    history::{End, Failure, Story},
    misfortune::{moment, pick},
    tenant::{AT_ONCE, Ill, Tenant, words},
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

/// Disks of a group at most: more make no other history.
const DISKS_MAX: usize = 14;

impl Story {
    /// Up to two disks come, and up to two go; or one takes the place of another. What cannot be done is refused, and changes nothing.
    pub async fn exchange(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let tenant = &mut self.tenants[g];
        tenant.part_with_former();
        let away: Vec<SimDisk> =
            tenant.disks.iter().filter(|disk| Self::is_gone(tenant, disk)).cloned().collect();
        if !away.is_empty() && numbers.below(2) == 0 {
            let old = pick(numbers, &away).clone();
            return self.replace(g, &old, numbers).await;
        }
        let exchange = Exchange {
            drop: Self::leavers(tenant, numbers),
            add: Self::newcomers(tenant, numbers),
        };
        let power = Self::power(numbers, 5);
        tenant.say(|| {
            let coming =
                exchange.add.iter().map(|disk| disk.path.clone()).collect::<Vec<_>>().join(", ");
            let going: Vec<String> =
                exchange.drop.iter().map(|one| format!("{:?}", one.which)).collect();
            format!("coming: {coming}; going: {}; power {power}", going.join(", "))
        });
        // What comes may be slow: then mirrors are on the way for long.
        let slow = Duration::from_millis(if numbers.below(2) == 0 { 0 } else { numbers.below(60) });
        for new in &exchange.add {
            let place = tenant.disks.iter().rev().find(|disk| tenant.path_of(disk) == new.path);
            place.expect("made above").faults(|faults| faults.slow = slow);
        }
        let group = Arc::clone(tenant.group());
        self.tell_engine(
            g,
            async move { Box::pin(group.exchange(exchange, Some(power))).await },
            numbers,
        )
        .await
    }

    /// Another device takes the place of a disk that is away. What cannot be done is refused, and changes nothing.
    async fn replace(
        &mut self,
        g: usize,
        old: &SimDisk,
        numbers: &mut Numbers,
    ) -> Result<(), Failure> {
        let tenant = &mut self.tenants[g];
        let index = tenant.index_of(old);
        let (failure_group, size) = tenant.shape.disks[index].clone();
        // Now and then one that is too small.
        let size = size + numbers.below(10) * tenant.shape.au_size
            - if numbers.below(8) == 0 { MIB } else { 0 };
        let new = tenant.new_disk(&failure_group, size);
        let disk = tenant.name_of(old).to_owned();
        tenant.say(|| format!("{} takes the place of {}", new.path, old.label()));
        let group = Arc::clone(tenant.group());
        let replacement = Replacement { disk: disk.clone(), path: new.path, force: false };
        match tenant.inside(async move { group.replace(&[replacement]).await }).await? {
            Some(Ok(())) => tenant.has_replaced(index, disk),
            Some(Err(error)) => tenant.say(|| format!("refused: {}", words(&error))),
            None => {}
        }
        tenant.part_with_former();
        if numbers.below(4) == 0 { Ok(()) } else { self.use_while_moving(g, numbers).await }
    }

    /// Whether a disk is OFFLINE, with its failure group.
    fn is_gone(tenant: &Tenant, disk: &SimDisk) -> bool {
        let failure_group = &tenant.shape.disks[tenant.index_of(disk)].0;
        tenant.state_of(tenant.group(), disk) == Some(DiskState::Offline)
            && tenant.ill.get(failure_group) == Some(&Ill::Away)
    }

    /// Everything gets another number of mirrors. What cannot be done is refused, and changes nothing.
    pub async fn convert(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let tenant = &mut self.tenants[g];
        if !tenant.is_external() && tenant.count_ill() == 0 && numbers.below(2) == 0 {
            return self.convert_what_rots(g, numbers).await;
        }
        let all = [Redundancy::External, Redundancy::Normal, Redundancy::High];
        // One that survives what is wrong already.
        let to = *pick(numbers, &all[tenant.count_ill().min(2)..]);
        let power = Self::power(numbers, 4);
        tenant
            .say(|| format!("from {} to {to} redundancy, power {power}", tenant.shape.redundancy));
        // Nobody can count on more from now on, whether it comes to that or not; what it came to is asked for later.
        tenant.shape.redundancy = tenant.shape.redundancy.min(to);
        if numbers.below(3) == 0 {
            let slow = Duration::from_millis(numbers.below(40));
            pick(numbers, &tenant.disks).faults(|faults| faults.slow = slow);
        }
        let group = Arc::clone(tenant.group());
        self.tell_engine(
            g,
            async move { Box::pin(group.convert(Conversion(to), Some(power))).await },
            numbers,
        )
        .await
    }

    /// Mirrors become fewer where some have rotted: what goes may be what was good. Nobody writes meanwhile, for rot in a region that was active
    /// at a crash is not promised to be survived.
    async fn convert_what_rots(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        self.rot_at_rest(g, numbers).await?;
        let tenant = &mut self.tenants[g];
        let fewer = [Redundancy::External, Redundancy::Normal];
        let to = *pick(numbers, &fewer[..tenant.shape.redundancy.mirrors() - 1]);
        tenant.say(|| {
            format!("from {} to {to} redundancy, of what has rotted", tenant.shape.redundancy)
        });
        tenant.shape.redundancy = to;
        let dies = numbers.below(2) == 0;
        if dies {
            self.core.fuse(tenant.process(), Some(Fuse::Steps(numbers.below(3000))));
        }
        let group = Arc::clone(tenant.group());
        tenant.order(async move { group.convert(Conversion(to), Some(8)).await }).await?;
        if dies {
            self.core.sleep(Duration::from_millis(numbers.below(3000))).await;
            tenant.kill(AT_ONCE).await?;
            if !tenant.try_mount().await? {
                return Err(format!(
                    "{}: not mounted after it was killed while mirrors were taken",
                    tenant.name
                ));
            }
        }
        tenant.until("the mirrors are taken", |tenant| tenant.state() != State::Moving).await?;
        tenant.repair().await?;
        tenant.check().await?;
        tenant.start_clients();
        Ok(())
    }

    /// An engine is told something that moves mirrors, and may end in that, or while they move.
    pub async fn tell_engine(
        &mut self,
        g: usize,
        statement: impl Future<Output = Result<(), AdminError>> + Send + 'static,
        numbers: &mut Numbers,
    ) -> Result<(), Failure> {
        if numbers.below(3) == 0 {
            self.tenants[g].hold_writes(numbers);
        }
        let tenant = &mut self.tenants[g];
        let dies = numbers.below(4) == 0;
        if dies {
            self.core.fuse(tenant.process(), Some(moment(numbers)));
        }
        match tenant.inside(statement).await? {
            Some(Err(error)) => tenant.say(|| format!("refused: {}", words(&error))),
            Some(Ok(())) => {}
            None => tenant.say(|| "the engine is killed in that".to_owned()),
        }
        if dies {
            tenant.kill(AT_ONCE).await?;
            return self.up().await;
        }
        tenant.part_with_former();
        if numbers.below(4) == 0 { Ok(()) } else { self.use_while_moving(g, numbers).await }
    }

    /// Much is written while mirrors are on the way, where they leave is wanted at once, and the engine may end in that.
    async fn use_while_moving(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        if numbers.below(3) == 0 {
            self.tenants[g].fill().await?;
        }
        let mood = Arc::clone(&self.tenants[g].mood);
        let lively = *pick(numbers, &[&mood.burst, &mood.churn]);
        lively.store(true, Ordering::Relaxed);
        self.work(numbers.below(60)).await?;
        if numbers.below(5) == 0 {
            self.tenants[g].say(|| "what is being dropped stays".to_owned());
            let group = Arc::clone(self.tenants[g].group());
            self.tenants[g].order(async move { group.undrop().await }).await?;
        }
        if numbers.below(3) == 0 {
            lively.store(false, Ordering::Relaxed);
            return Ok(());
        }
        let end = *pick(numbers, &[End::Killed, End::PowerCut, End::PowerCut]);
        self.down(g, end, moment(numbers)).await?;
        self.up().await
    }

    fn newcomers(tenant: &mut Tenant, numbers: &mut Numbers) -> Vec<NewDisk> {
        let mut add = Vec::new();
        for _ in 0..numbers.below(3) {
            if tenant.disks.len() >= DISKS_MAX {
                break;
            }
            let mut groups = tenant.shape.data_groups();
            groups.push(format!("N{}", numbers.below(3)));
            let failure_group = pick(numbers, &groups).clone();
            let size = (48 * MIB).max(tenant.shape.au_size * 24)
                + numbers.below(80) * tenant.shape.au_size;
            add.push(tenant.new_disk(&failure_group, size));
        }
        add
    }

    fn leavers(tenant: &Tenant, numbers: &mut Numbers) -> Vec<Departure> {
        let mut seen = BTreeSet::new();
        let mut drop = Vec::new();
        for _ in 0..numbers.below(3) {
            let disk: &SimDisk = pick(numbers, &tenant.disks);
            if !seen.insert(disk.label().to_owned()) {
                continue;
            }
            let force = Self::is_gone(tenant, disk) && numbers.below(2) == 0;
            let which = Selection::Disks(vec![tenant.name_of(disk).to_owned()]);
            drop.push(Departure { which, force });
        }
        drop
    }
}
