//! The faults, one function for each kind. `docs/faults.md` says what must hold under each.

use crate::{
    coverage::{State, allowed},
    disk::{BLOCK, SYSTEM_BLOCKS, SimDisk},
    executor::Fuse,
    history::{End, Failure, Story},
    hostile,
    plan::{Fault, Step},
    sim_group::{AT_ONCE, Condition, ERRORS_ARRIVE, SimGroup, inside, words},
};
use plinth_engine::{
    admin::{Code, Selection},
    files::session::Session,
    group::Group,
    testing::{Image, Numbers},
    world::World,
};
use plinth_format::{
    Layout,
    checksum::of_block,
    layout::{HEADER_COPIES, MIB},
    membership::DiskState,
};
use plinth_workload::lock;
use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Virtual time after which the engine has recorded that a flush failed.
const RECORDED: Duration = Duration::from_secs(2);

/// Virtual time in which a disk that does not answer is not reported yet: a fifth of the disk
/// timeout.
const SHORT: Duration = Duration::from_millis(200);

/// How often, and after what virtual time each, it is checked whether a sync was acknowledged.
const SYNC_LOOKS: u32 = 2000;
const SYNC_LOOK: Duration = Duration::from_micros(20);

/// Virtual time after which the engine is about to close idle regions of the activity log.
const IDLE_FOR: Duration = Duration::from_secs(9);

/// Virtual time after which idle regions are closed, with their checksums on the disks.
const AT_REST: Duration = Duration::from_secs(25);

/// Virtual time after which the engine has checked its own metadata: it does so every half minute.
pub const LOOKED: Duration = Duration::from_secs(60);

/// The ways in which an engine may end before a mount finds other disks.
pub const ANY_END: [End; 3] = [End::Killed, End::Dismounted, End::PowerCut];

/// Up to `most` blocks of a disk behind its system area: anywhere, or half of them where something
/// was written.
fn places(disk: &SimDisk, written: bool, most: u64, numbers: &mut Numbers) -> Vec<u64> {
    let blocks = disk.size() / BLOCK;
    let mut used = if written { disk.image().written() } else { Vec::new() };
    used.retain(|block| (SYSTEM_BLOCKS..blocks).contains(block));
    let count = 1 + numbers.below(most);
    let place = |_| {
        let anywhere = used.is_empty() || numbers.below(2) == 0;
        if anywhere {
            SYSTEM_BLOCKS + numbers.below(blocks - SYSTEM_BLOCKS)
        } else {
            *pick(numbers, &used)
        }
    };
    (0..count).map(place).collect()
}

/// A moment in the next steps of an engine: the nearer, the likelier.
pub fn moment(numbers: &mut Numbers) -> Fuse {
    let most = 1 << numbers.below(10);
    match numbers.below(9) {
        0..3 => Fuse::Steps(numbers.below(most)),
        3 | 4 => Fuse::Ios(numbers.below(most / 4 + 1)),
        5 => Fuse::Changes(numbers.below(most / 8 + 1)),
        6 => Fuse::Sums(numbers.below(most / 32 + 1)),
        7 => Fuse::Discards(numbers.below(most / 32 + 1)),
        _ => Fuse::Holes(numbers.below(most / 32 + 1)),
    }
}

/// Whether a fault ends the engine.
fn is_an_end(fault: Fault) -> bool {
    use Fault as F;
    matches!(
        fault,
        F::EngineKilled
            | F::KilledAgain
            | F::PowerCut
            | F::PowerCutAgain
            | F::Subset
            | F::Halves
            | F::EndsOverwritten
    )
}

/// One of several.
pub fn pick<'a, T>(numbers: &mut Numbers, of: &'a [T]) -> &'a T {
    &of[usize::try_from(numbers.below(of.len() as u64)).expect("small")]
}

impl Story {
    /// Injects the fault of a step. The group is made whole first if its state does not allow the
    /// fault.
    pub async fn inject_step(&mut self, step: &Step) -> Result<(), Failure> {
        let numbers = &mut Numbers::new(step.draw);
        let g = step.group;
        for sim_group in self.sim_groups.iter_mut().filter(|sim_group| sim_group.silent) {
            sim_group.repair().await?;
        }
        if !self.fits(step) {
            // This group does not survive the fault in any state.
            return Box::pin(self.inject(Fault::EngineKilled, g, numbers)).await;
        }
        if let Some(state) = step.state {
            // With its own numbers, so that the fault is the same in any state.
            let numbers = &mut Numbers::new(step.draw ^ 0x0073_7461_7465);
            Box::pin(self.bring_about(g, state, numbers)).await?;
        }
        if !allowed(step.fault).contains(&self.sim_groups[g].state())
            || !self.is_affordable(step.fault, g)
        {
            if step.fault != Fault::Return || self.sim_groups[g].faulty.is_empty() {
                self.sim_groups[g].make_whole().await?;
                if self.sim_groups[g].full
                    && !allowed(step.fault).contains(&State::Full)
                    && step.fault != Fault::Return
                {
                    self.sim_groups[g].make_room().await?;
                }
            }
            if step.fault == Fault::Return {
                // There must be a faulty disk to bring back.
                if self.sim_groups[g].faulty.is_empty() {
                    Box::pin(self.inject(Fault::GroupFails, g, numbers)).await?;
                }
                self.notice().await;
            }
        }
        Box::pin(self.inject(step.fault, g, numbers)).await?;
        let sim_group = &self.sim_groups[g];
        let quiet = sim_group.group.is_some()
            && !sim_group.silent
            && !sim_group.expectations.tolerates_errors.load(Ordering::Relaxed);
        // A check ends recovery and outlasts a resync: now and then the next fault comes first.
        let in_passing =
            matches!(sim_group.state(), State::Recovering | State::Returning | State::Moving)
                && numbers.below(2) == 0;
        if quiet && !in_passing && sim_group.has_noticed() {
            sim_group.check().await
        } else {
            Ok(())
        }
    }

    fn fits(&self, step: &Step) -> bool {
        use Fault as F;
        let sim_group = &self.sim_groups[step.group];
        match step.fault {
            F::GroupFails
            | F::DiskFails
            | F::OperatorOffline
            | F::Return
            | F::OldImage
            | F::KilledInRepair => !sim_group.is_external(),
            F::Rot
            | F::LostWrite
            | F::MisdirectedWrite
            | F::MisdirectedRead
            | F::StaleSectors
            | F::LostPair => !sim_group.is_external(),
            _ => true,
        }
    }

    /// Whether the group survives the fault in its present state.
    fn is_affordable(&self, fault: Fault, g: usize) -> bool {
        use Fault as F;
        let sim_group = &self.sim_groups[g];
        let tolerates_errors = sim_group.expectations.tolerates_errors.load(Ordering::Relaxed);
        match fault {
            F::GroupFails | F::GroupHangs | F::DiskFails | F::OperatorOffline => {
                let external = sim_group.is_external() && sim_group.faulty.is_empty();
                !tolerates_errors
                    && (external || sim_group.state() == State::Returning || self.can_lose(g))
            }
            F::OldImage | F::CloneShown | F::Shrunk | F::Blank => {
                !tolerates_errors
                    && (self.can_lose(g)
                        || (sim_group.is_external() && sim_group.faulty.is_empty()))
            }
            F::Rot
            | F::LostWrite
            | F::MisdirectedWrite
            | F::MisdirectedRead
            | F::StaleSectors
            | F::LostPair => !tolerates_errors && self.can_lose(g),
            F::RedundancyConverted => !tolerates_errors && sim_group.may_convert(),
            F::PowerCutAgain | F::Subset | F::Halves | F::HostileBytes | F::Frozen => {
                !tolerates_errors
            }
            F::MetadataOverwritten => {
                !tolerates_errors && sim_group.undo.is_empty() && !sim_group.beyond
            }
            _ => true,
        }
    }

    /// Whether one more failure group may become faulty.
    fn can_lose(&self, g: usize) -> bool {
        let sim_group = &self.sim_groups[g];
        sim_group.count_faulty() < sim_group.budget()
            && !sim_group.faulty.values().any(|faulty| *faulty == Condition::Uncertain)
    }

    pub async fn inject(
        &mut self,
        fault: Fault,
        g: usize,
        numbers: &mut Numbers,
    ) -> Result<(), Failure> {
        let state = self.sim_groups[g].state();
        lock(&self.counts.coverage).met(fault, state);
        self.sim_groups[g].say(|| format!("{} while {}", fault.name(), state.name()));
        if is_an_end(fault) {
            self.before_an_end(g, numbers).await?;
        }
        match fault {
            Fault::EngineKilled => self.kill_engine(g, numbers).await,
            Fault::KilledAgain => {
                self.sim_groups[g].dying_mounts = 1 + numbers.below(3);
                self.end_and_go_on(g, End::Killed, moment(numbers)).await
            }
            Fault::PowerCut => self.cut_power(g, numbers).await,
            Fault::PowerCutAgain => self.cut_power_again(g, numbers).await,
            Fault::Frozen => self.freeze(g, numbers).await,
            Fault::SecondEngine => self.second_engine(g, numbers).await,
            Fault::ClockJumps => self.jump_clock(numbers),
            Fault::SentTwice => self.send_twice(g, numbers).await,
            Fault::GroupFails | Fault::GroupHangs | Fault::DiskFails => {
                self.lose(fault, g, numbers).await
            }
            Fault::Return => self.bring_back(g, numbers).await,
            Fault::LatentSectors
                if state == State::Whole
                    && numbers.below(3) == 0
                    && !self.sim_groups[g].is_external() =>
            {
                self.sums_unreadable(g).await
            }
            Fault::ReadFails
            | Fault::WriteFails
            | Fault::FlushFails
            | Fault::LatentSectors
            | Fault::ThinFull => self.hiccup(fault, g, numbers).await,
            Fault::DiskSlow => self.slow_disk(g, numbers).await,
            Fault::Rot if numbers.below(2) == 0 => self.rot_everywhere(g, numbers).await,
            Fault::Rot
            | Fault::LostWrite
            | Fault::MisdirectedWrite
            | Fault::MisdirectedRead
            | Fault::StaleSectors => self.silent(fault, g, numbers).await,
            Fault::LostPair => Box::pin(self.lose_pair(g, numbers)).await,
            Fault::OldImage | Fault::CloneShown | Fault::Shrunk | Fault::Blank => {
                Box::pin(self.swap(fault, g, numbers)).await
            }
            Fault::NewPath => self.new_path(g, numbers).await,
            Fault::OperatorOffline => self.operator_offline(g, numbers).await,
            Fault::Dismount if numbers.below(2) == 0 && self.has_quorum(g) => {
                self.most_silent(g, numbers).await
            }
            Fault::EndsOverwritten => self.ends_overwritten(g, numbers).await,
            Fault::Dismount => self.end_and_go_on(g, End::Dismounted, AT_ONCE).await,
            Fault::DismountForce => self.end_and_go_on(g, End::Forced, AT_ONCE).await,
            Fault::Subset => {
                let end = *pick(numbers, &ANY_END);
                self.subset(g, end, numbers).await
            }
            Fault::Halves => self.halves(g, numbers).await,
            Fault::HostileBytes => self.hostile_bytes(g, numbers).await,
            Fault::MetadataOverwritten => self.metadata_overwritten(g, numbers).await,
            Fault::DropAndCreate => self.drop_and_create(g, numbers).await,
            Fault::Full => self.fill_up(g, numbers).await,
            Fault::KilledInRepair => self.killed_in_repair(g, numbers).await,
            Fault::DisksAddedDropped => self.add_drop(g, numbers).await,
            Fault::RedundancyConverted => self.convert(g, numbers).await,
            Fault::DisksResized => self.resize(g, numbers).await,
            Fault::Scrubbed => self.scrub(g, numbers).await,
            Fault::Reclaimed => self.reclaim(g, numbers).await,
            Fault::Compacted => self.compact(g, numbers).await,
            Fault::MovementPaused => self.pause_movement(g, numbers).await,
        }
    }

    async fn kill_engine(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let moment = if self.core.fails_midway() && numbers.below(3) == 0 {
            // Between two words that it stores for its successor.
            Fuse::Words(numbers.below(12))
        } else {
            moment(numbers)
        };
        self.end_and_go_on(g, End::Killed, moment).await
    }

    async fn cut_power(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let moment = if numbers.below(3) == 0 {
            self.until_synced(g).await;
            AT_ONCE
        } else {
            moment(numbers)
        };
        self.end_and_go_on(g, End::PowerCut, moment).await
    }

    async fn cut_power_again(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        if numbers.below(2) == 0 {
            self.power_cut_after_looks(g, numbers).await
        } else {
            self.power_cut_in_mounts(g, numbers).await
        }
    }

    /// The wall clock jumps by up to an hour.
    fn jump_clock(&mut self, numbers: &mut Numbers) -> Result<(), Failure> {
        let by = i64::try_from(numbers.below(7_200_000)).expect("small") - 3_600_000;
        self.host.move_clock(by * 1_000_000);
        Ok(())
    }

    /// The power goes again after clients have read what the end before has left, or some of it.
    async fn power_cut_after_looks(
        &mut self,
        g: usize,
        numbers: &mut Numbers,
    ) -> Result<(), Failure> {
        for _ in 0..1 + numbers.below(3) {
            let first = *pick(numbers, &[End::Killed, End::PowerCut, End::PowerCut]);
            self.down(g, first, moment(numbers)).await?;
            self.up().await?;
            self.sim_groups[g].rest();
            if numbers.below(2) == 0 {
                self.let_all_look(g).await?;
            }
            // The next mount finds other disks, or the same.
            if numbers.below(2) == 0 {
                return self.subset(g, End::PowerCut, numbers).await;
            }
            self.down(g, End::PowerCut, moment(numbers)).await?;
            self.up().await?;
            self.work(numbers.below(30)).await?;
        }
        Ok(())
    }

    /// The power goes again while the group is mounted, once or twice.
    async fn power_cut_in_mounts(
        &mut self,
        g: usize,
        numbers: &mut Numbers,
    ) -> Result<(), Failure> {
        let headers_rot = numbers.below(2) == 0;
        for _ in 0..1 + numbers.below(2) {
            self.down(g, End::PowerCut, moment(numbers)).await?;
            if headers_rot {
                self.sim_groups[g].spoil_headers(numbers);
            }
            for sim_group in &mut self.sim_groups {
                let writes = 3 * sim_group.disks.len() as u64;
                let rewritten = Fuse::Headers(numbers.below(writes));
                let moment = if headers_rot { rewritten } else { sim_group.moment_of_mount() };
                sim_group.mount_once(moment).await?;
            }
        }
        self.end_and_go_on(g, End::PowerCut, moment(numbers)).await
    }

    /// Every request is sent twice for a while.
    async fn send_twice(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        self.sim_groups[g].expectations.twice.store(true, Ordering::Relaxed);
        self.work(30 + numbers.below(60)).await?;
        self.sim_groups[g].expectations.twice.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Faulty disks are healed and brought ONLINE, while clients do one of several things.
    async fn bring_back(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        self.sim_groups[g].heal_all().await;
        let churns = numbers.below(2) == 0;
        if churns {
            // Files are removed while the resync copies them, and their space is used again.
            self.sim_groups[g].fill().await?;
            self.sim_groups[g].expectations.churn.store(true, Ordering::Relaxed);
            self.sim_groups[g].allow(80);
        }
        let lingers = !churns && numbers.below(2) == 0;
        if lingers {
            self.sim_groups[g].slow_down(Duration::from_millis(50 + numbers.below(250)));
        }
        if numbers.below(2) == 0 {
            // Writes begin before the disk returns, and end after it has.
            self.sim_groups[g].hold_writes(numbers);
            self.work(1 + numbers.below(8)).await?;
        }
        if let Err(error) = self.sim_groups[g].ask_online().await? {
            self.sim_groups[g].say(|| format!("online: {}", words(&error)));
        }
        if lingers {
            // Copied blocks are written again, and their regions close before the resync ends.
            self.sim_groups[g].expectations.burst.store(true, Ordering::Relaxed);
            self.work(3 + numbers.below(20)).await?;
            self.sim_groups[g].expectations.burst.store(false, Ordering::Relaxed);
            self.end_and_go_on(g, End::Dismounted, AT_ONCE).await?;
            self.sim_groups[g].slow_down(Duration::ZERO);
        }
        if churns {
            self.work(60).await?;
            self.sim_groups[g].expectations.churn.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A disk takes longer; now and then the group is full, so that freed space is allocated at
    /// once, while a slow read of it may still be in flight.
    async fn slow_disk(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let slow = Duration::from_millis(numbers.below(300));
        let disk = pick(numbers, &self.sim_groups[g].disks);
        disk.faults(|faults| faults.slow = slow);
        if !self.sim_groups[g].faulty.is_empty() || numbers.below(2) == 0 {
            return Ok(());
        }
        self.sim_groups[g].fill().await?;
        self.work(80).await
    }

    /// The first and the last MiB of all disks are overwritten while no engine has them.
    async fn ends_overwritten(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        self.down(g, *pick(numbers, &ANY_END), moment(numbers)).await?;
        self.sim_groups[g].overwrite_ends(numbers);
        // The mount repairs what it needs; a later look of the engine repairs the rest.
        self.sim_groups[g].overwritten = true;
        self.up().await
    }

    /// The group is filled to the last AU, and then worked with.
    async fn fill_up(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        self.sim_groups[g].fill().await?;
        if numbers.below(2) == 0 {
            if numbers.below(2) == 0 {
                // The space that is free by then is on other disks than the catalog.
                self.work(30).await?;
            }
            self.sim_groups[g].swell().await?;
        }
        self.work(40).await
    }

    /// Waits for a client's next sync to be acknowledged, if there is one soon: from then on
    /// everything depends on the flushes that the disks were sent.
    async fn until_synced(&mut self, g: usize) {
        let expectations = Arc::clone(&self.sim_groups[g].expectations);
        let count = || expectations.synced.load(Ordering::Relaxed);
        let before = count();
        for _ in 0..SYNC_LOOKS {
            if count() != before {
                return;
            }
            self.core.sleep(SYNC_LOOK).await;
        }
    }

    async fn end_and_go_on(&mut self, g: usize, end: End, moment: Fuse) -> Result<(), Failure> {
        self.down(g, end, moment).await?;
        self.up().await
    }

    /// What the engine is doing when it ends: now and then it only closes idle regions; or all
    /// clients have just read everything, and request nothing more; or the disks' caches hold much.
    async fn before_an_end(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        match numbers.below(8) {
            0 | 1 => {
                self.core.sleep(IDLE_FOR + Duration::from_millis(numbers.below(2000))).await;
                self.sim_groups[g].dies_idle = true;
            }
            2 | 3 => self.let_all_look(g).await?,
            4 | 5 => {
                self.sim_groups[g].expectations.burst.store(true, Ordering::Relaxed);
                self.work(20 + numbers.below(60)).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Clients look at everything, if they have not since the mount, and do nothing more.
    async fn let_all_look(&mut self, g: usize) -> Result<(), Failure> {
        let sim_group = &mut self.sim_groups[g];
        if !sim_group.expectations.tolerates_errors.load(Ordering::Relaxed) {
            sim_group.rest();
            sim_group.until_looked().await?;
            sim_group.dies_idle = true;
        }
        Ok(())
    }

    /// The engine is stopped for a while; other processes run, and its I/O ends meanwhile or soon
    /// after it goes on. No disk may be expelled for that.
    async fn freeze(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let well = self.sim_groups[g].faulty.is_empty();
        let process = self.sim_groups[g].process();
        let before = self.sim_groups[g].group().members();
        // The storage of a failure group may have stood still together with the host.
        let stuck = if well && !self.core.fails_midway() && numbers.below(2) == 0 {
            let groups = self.sim_groups[g].shape.data_groups();
            let group: &String = pick(numbers, &groups);
            self.sim_groups[g].disks_of(group)
        } else {
            Vec::new()
        };
        stuck.iter().for_each(|disk| disk.faults(|faults| faults.hang = true));
        if !stuck.is_empty() {
            self.core.sleep(SHORT).await;
        }
        self.core.freeze(process);
        self.core.sleep(Duration::from_secs(1 + numbers.below(600))).await;
        self.core.thaw(process);
        if !stuck.is_empty() {
            self.core.sleep(SHORT).await;
            stuck.iter().for_each(SimDisk::heal);
        }
        self.work(10).await?;
        let sim_group = &self.sim_groups[g];
        let Some(group) = &sim_group.group else { return Ok(()) };
        let lost = |(one, other): (&(String, DiskState), &(String, DiskState))| {
            one.0 == other.0 && one.1 == DiskState::Online && other.1 == DiskState::Offline
        };
        if well && before.iter().zip(&group.members()).any(lost) {
            return Err(format!(
                "{}: a disk was expelled because the engine had not run",
                sim_group.name
            ));
        }
        Ok(())
    }

    /// Another engine finds the disks taken, whether the first runs or is frozen.
    async fn second_engine(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let sim_group = &self.sim_groups[g];
        let first = sim_group.process();
        let frozen = numbers.below(2) == 0;
        if frozen {
            self.core.freeze(first);
        }
        let second = self.host.process();
        let (world, name) = (Arc::clone(&second) as Arc<dyn World>, sim_group.name);
        let mounted =
            inside(
                &self.core,
                second.process(),
                async move { Group::mount(world, name, false).await },
            )
            .await?;
        self.core.kill(second.process());
        if frozen {
            self.core.thaw(first);
        }
        match mounted {
            Some(Ok(_)) => Err(format!("{name}: two engines have mounted it")),
            Some(Err(error))
                if error.code == Code::HeldElsewhere || !sim_group.faulty.is_empty() =>
            {
                Ok(())
            }
            Some(Err(error)) if !sim_group.undo.is_empty() => {
                sim_group.say(|| format!("the second engine: {}", words(&error)));
                Ok(())
            }
            Some(Err(error)) => {
                Err(format!("{name}: a second engine is refused, but for: {}", words(&error)))
            }
            None => Err(format!("{name}: the second engine died by itself")),
        }
    }

    /// A failure group to make faulty: one that is not, or, while a disk returns, the disk's own.
    pub async fn victim(&mut self, g: usize, numbers: &mut Numbers) -> String {
        let sim_group = &self.sim_groups[g];
        if !sim_group.faulty.is_empty() && sim_group.state() != State::Returning {
            // With HIGH redundancy a second group may fail, but only after the engine has noticed
            // the first.
            self.notice().await;
        }
        let sim_group = &self.sim_groups[g];
        let groups = if sim_group.state() == State::Returning && !sim_group.faulty.is_empty() {
            sim_group.faulty.keys().cloned().collect()
        } else {
            let mut groups = sim_group.shape.data_groups();
            groups.retain(|name| !sim_group.faulty.contains_key(name));
            groups
        };
        pick(numbers, &groups).clone()
    }

    async fn lose(&mut self, fault: Fault, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let name = self.victim(g, numbers).await;
        let sim_group = &mut self.sim_groups[g];
        let mut disks = sim_group.disks_of(&name);
        if fault == Fault::DiskFails {
            disks = vec![pick(numbers, &disks).clone()];
        }
        let labels: Vec<&str> = disks.iter().map(SimDisk::label).collect();
        sim_group.say(|| format!("failure group {name}: {}", labels.join(", ")));
        let hangs = fault == Fault::GroupHangs;
        for disk in &disks {
            disk.faults(|faults| if hangs { faults.hang = true } else { faults.gone = true });
        }
        if sim_group.is_external() {
            // No other disk has its data: all clients wait until it is back.
            self.core.sleep(Duration::from_secs(numbers.below(20))).await;
            disks.iter().for_each(SimDisk::heal);
            // An error that is in flight belongs to the fault before.
            self.core.sleep(ERRORS_ARRIVE).await;
            return Ok(());
        }
        sim_group.faulty.insert(name, Condition::Unavailable);
        Ok(())
    }

    /// Something small: an I/O fails, blocks go bad, lent space runs out.
    async fn hiccup(
        &mut self,
        fault: Fault,
        g: usize,
        numbers: &mut Numbers,
    ) -> Result<(), Failure> {
        if matches!(fault, Fault::WriteFails | Fault::ThinFull) && numbers.below(2) == 0 {
            self.leave_none_to_spare(g, numbers).await?;
        }
        let spared = !self.sim_groups[g].is_external() && self.can_lose(g);
        let sim_group = &mut self.sim_groups[g];
        let name = {
            let mut groups = sim_group.shape.data_groups();
            groups.retain(|name| !sim_group.faulty.contains_key(name));
            if groups.is_empty() {
                return Ok(());
            }
            pick(numbers, &groups).clone()
        };
        if !spared {
            // It may be the last mirror of something.
            sim_group.expectations.tolerates_errors.store(true, Ordering::Relaxed);
            if fault == Fault::FlushFails {
                sim_group.expectations.reads_may_change.store(true, Ordering::Relaxed);
                sim_group.lossy = true;
            }
        }
        let disk = pick(numbers, &sim_group.disks_of(&name)).clone();
        sim_group.say(|| format!("{}: {}", disk.label(), fault.name()));
        // The engine may find later that the disk has not kept some of its metadata.
        sim_group.overwritten |=
            matches!(fault, Fault::WriteFails | Fault::ThinFull | Fault::FlushFails);
        let mut blocks = places(&disk, spared || fault == Fault::WriteFails, 400, numbers);
        // Without a page of the last mirror of the catalog the group cannot be mounted, which is
        // not promised.
        if let (false, Fault::LatentSectors, Some(pages)) = (spared, fault, hostile::pages(&disk)) {
            blocks.retain(|block| !pages.contains(&(block * BLOCK)));
        }
        if !spared {
            // Nor may it be the last mirror of a page that another disk has lost before.
            for other in sim_group.disks.iter().filter(|other| other.label() != disk.label()) {
                let Some(pages) = hostile::pages(other) else { continue };
                other.faults(|faults| {
                    faults.latent.retain(|block| !pages.contains(&(block * BLOCK)))
                });
            }
        }
        let thin = numbers.below(300);
        let always = numbers.below(2) == 0;
        let most = 1 << numbers.below(5);
        let failing = u32::try_from(1 + numbers.below(most)).expect("small");
        disk.faults(|faults| match fault {
            Fault::ReadFails => faults.failing_reads = failing,
            Fault::WriteFails if always => faults.worn.extend(blocks),
            Fault::WriteFails => {
                (faults.failing_writes, faults.failing_discards) = (failing, failing % 4)
            }
            Fault::FlushFails => faults.failing_flushes = 1,
            Fault::ThinFull => faults.thin = Some(thin),
            _ => faults.latent.extend(blocks),
        });
        sim_group.has_failed = true;
        sim_group.faulty.entry(name).or_insert(Condition::Uncertain);
        if fault == Fault::FlushFails {
            self.sim_groups[g].forgetful = true;
            self.until_on_record(&disk).await?;
            self.sim_groups[g].forgetful = false;
        }
        Ok(())
    }

    /// No checksum block of a failure group can be read, in one group after the other: the engine
    /// writes each one anew when it meets it.
    async fn sums_unreadable(&mut self, g: usize) -> Result<(), Failure> {
        let mut written = 0;
        for name in self.sim_groups[g].shape.data_groups() {
            self.sim_groups[g].rest();
            self.down(g, End::Dismounted, AT_ONCE).await?;
            let sim_group = &mut self.sim_groups[g];
            sim_group.say(|| format!("no checksum block of failure group {name} can be read"));
            let disks = sim_group.disks_of(&name);
            let zone = |disk: &SimDisk| {
                let (au, first) = (sim_group.shape.au_size, sim_group.shape.au_size / BLOCK);
                first..first + disk.size() / au * (au / MIB / 4).max(1)
            };
            let count = |disk: &SimDisk| disk.faults(|faults| faults.latent.len());
            for disk in &disks {
                let blocks = zone(disk);
                disk.faults(|faults| faults.latent.extend(blocks));
            }
            let before: usize = disks.iter().map(count).sum();
            sim_group.mount().await?;
            sim_group.until_looked().await?;
            self.core.sleep(Duration::from_secs(30)).await;
            let sim_group = &mut self.sim_groups[g];
            written += before - disks.iter().map(count).sum::<usize>();
            sim_group.put_right();
        }
        let sim_group = &self.sim_groups[g];
        if written == 0 && sim_group.clients.iter().any(|client| client.some_block().is_some()) {
            return Err(format!(
                "{}: no checksum block that cannot be read is written again",
                sim_group.name
            ));
        }
        Ok(())
    }

    /// Fails disks, one of a failure group that has others, until none can be spared for some of
    /// the extents: extents on the other disks can still be written.
    async fn leave_none_to_spare(
        &mut self,
        g: usize,
        numbers: &mut Numbers,
    ) -> Result<(), Failure> {
        while !self.sim_groups[g].is_external() && self.can_lose(g) {
            let mut groups = self.sim_groups[g].shape.data_groups();
            let sim_group = &self.sim_groups[g];
            groups.retain(|name| {
                !sim_group.faulty.contains_key(name) && sim_group.disks_of(name).len() > 1
            });
            if groups.is_empty() || !self.is_affordable(Fault::DiskFails, g) {
                break;
            }
            let name = pick(numbers, &groups).clone();
            let sim_group = &mut self.sim_groups[g];
            let disk = pick(numbers, &sim_group.disks_of(&name)).clone();
            sim_group.say(|| format!("{} fails first", disk.label()));
            disk.faults(|faults| faults.gone = true);
            sim_group.faulty.insert(name, Condition::Unavailable);
            self.notice().await;
            self.look().await?;
        }
        Ok(())
    }

    /// Waits until a flush has failed and the engine has recorded it: a kill before that is not
    /// promised to be survived.
    async fn until_on_record(&mut self, disk: &SimDisk) -> Result<(), Failure> {
        for _ in 0..10 {
            self.work(10).await?;
            if disk.faults(|faults| faults.failing_flushes) == 0 {
                break;
            }
        }
        disk.faults(|faults| faults.failing_flushes = 0);
        self.core.sleep(RECORDED).await;
        self.look().await
    }

    /// Bytes on one disk change, or writes are lost, without an error.
    async fn silent(
        &mut self,
        fault: Fault,
        g: usize,
        numbers: &mut Numbers,
    ) -> Result<(), Failure> {
        if self.sim_groups[g].has_failed && self.sim_groups[g].state() == State::Whole {
            // A disk that was not spared when it failed is expelled now, if at all.
            self.core.sleep(ERRORS_ARRIVE).await;
            self.sim_groups[g].bring_online().await?;
        }
        let name = self.victim(g, numbers).await;
        let disk = pick(numbers, &self.sim_groups[g].disks_of(&name)).clone();
        self.sim_groups[g].say(|| format!("{}: {}", disk.label(), fault.name()));
        // From now on a crash before the repair is not promised to be survived.
        self.sim_groups[g].silent = true;
        match fault {
            Fault::Rot => {
                for block in places(&disk, true, 300, numbers) {
                    let mut noise = [0; 4096];
                    numbers.fill(&mut noise);
                    disk.corrupt(block * BLOCK, &noise);
                }
                Ok(())
            }
            Fault::LostWrite if numbers.below(2) == 0 => {
                // One of the catalog's pages, which is written after many operations.
                let pages = hostile::pages(&disk);
                disk.faults(|faults| (faults.lost_writes, faults.lost_where) = (1, pages));
                self.work(150).await?;
                disk.faults(|faults| faults.lost_where = None);
                Ok(())
            }
            Fault::LostWrite => {
                disk.faults(|faults| faults.lost_writes = 1);
                self.work(10).await
            }
            Fault::MisdirectedWrite => {
                disk.faults(|faults| faults.misdirected_writes = 1);
                self.work(10).await
            }
            Fault::MisdirectedRead => {
                disk.faults(|faults| faults.misdirected_reads = 1);
                self.work(10).await
            }
            _ => {
                let earlier = disk.image();
                self.work(40 + numbers.below(60)).await?;
                self.sim_groups[g].pause_clients().await?;
                // Regions that were written meanwhile are closed.
                self.core.sleep(Duration::from_secs(numbers.below(20))).await;
                let mut changed = disk.image().changed_since(&earlier);
                changed.retain(|block| *block >= SYSTEM_BLOCKS);
                let (mut stale, mut proved) = (BTreeSet::new(), BTreeSet::new());
                for _ in 0..(1 + numbers.below(20)).min(changed.len() as u64) {
                    let block = *pick(numbers, &changed);
                    // Old data with its old checksum is a valid pair: that is another fault.
                    let sum = hostile::sums_of(&disk, block * BLOCK).map(|place| place / BLOCK);
                    if sum.is_some_and(|sum| stale.contains(&sum)) || proved.contains(&block) {
                        continue;
                    }
                    stale.insert(block);
                    proved.extend(sum);
                    let mut old = [0; 4096];
                    earlier.read(block * BLOCK, &mut old);
                    disk.corrupt(block * BLOCK, &old);
                }
                self.sim_groups[g].start_clients();
                Ok(())
            }
        }
    }

    /// A block becomes noise on every mirror: it is lost, however often it is read, until a client
    /// writes it.
    async fn rot_everywhere(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        // So that all clients have begun.
        self.work(20).await?;
        let sim_group = &mut self.sim_groups[g];
        sim_group.pause_clients().await?;
        let client = pick(numbers, &sim_group.clients).clone();
        let Some((name, block, content)) = client.some_block() else {
            sim_group.start_clients();
            return Ok(());
        };
        sim_group.silent = true;
        for disk in &sim_group.disks {
            let image = disk.image();
            for place in image.written().into_iter().filter(|place| *place >= SYSTEM_BLOCKS) {
                let mut bytes = [0; 4096];
                image.read(place * BLOCK, &mut bytes);
                if bytes[..] == content[..] {
                    sim_group.say(|| {
                        format!(
                            "{}: block {place}, block {block} of {name}, becomes noise",
                            disk.label()
                        )
                    });
                    numbers.fill(&mut bytes);
                    disk.corrupt(place * BLOCK, &bytes);
                }
            }
        }
        sim_group.expectations.tolerates_errors.store(true, Ordering::Relaxed);
        let session = Session::new(Arc::clone(sim_group.group()), None);
        let lost = sim_group
            .inside(async move { client.lose_and_restore(&session, &name, block).await })
            .await?;
        lost.ok_or("the engine died by itself")?
            .map_err(|failure| format!("{}: {failure}", sim_group.name))?;
        sim_group.expectations.tolerates_errors.store(false, Ordering::Relaxed);
        sim_group.start_clients();
        Ok(())
    }

    /// A disk acknowledges the write of a block and, when its region is closed, of its checksums,
    /// and does neither. Its old data and its old checksum match, so that nothing shows which
    /// mirror is right. Then reads give one of the two, always the same; neither is overwritten;
    /// and a check reports them, until a client writes the block anew.
    async fn lose_pair(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        self.work(20).await?;
        let sim_group = &mut self.sim_groups[g];
        sim_group.pause_clients().await?;
        self.core.sleep(AT_REST).await;
        let sim_group = &mut self.sim_groups[g];
        let client = Arc::clone(pick(numbers, &sim_group.clients));
        let Some((name, block, old)) = client.some_block() else {
            sim_group.start_clients();
            return Ok(());
        };
        let before: Vec<_> = sim_group.disks.iter().map(SimDisk::image).collect();
        let Some(new) = sim_group.rewrite(&client, &name, block).await? else {
            sim_group.start_clients();
            return Ok(());
        };
        let file = client.file_of(&name);
        self.down(g, End::Dismounted, AT_ONCE).await?;
        let sim_group = &mut self.sim_groups[g];
        let pairs = sim_group.find_pairs(&before, &old, &new);
        // Both are at rest: each has the checksum that goes with it. With more than two mirrors
        // the majority would be read once the difference is noticed.
        let is_lost = pairs.len() == 2 && pairs.iter().all(|pair| pair.matches(&old, &new));
        if is_lost {
            let pair = pick(numbers, &pairs);
            sim_group.say(|| {
                format!(
                    "{}: block {block} of {name} at {} is as it was, and its checksums",
                    pair.disk.label(),
                    pair.place
                )
            });
            pair.put_back(&old);
            client.may_be(&name, block, &old);
            sim_group.silent = true;
        }
        let places: Vec<_> = pairs.iter().map(|pair| (pair.disk.clone(), pair.place)).collect();
        self.up().await?;
        if !is_lost {
            return Ok(());
        }
        if numbers.below(2) == 0 {
            // Its neighbours are written, and their checksums with them.
            self.work(20 + numbers.below(100)).await?;
        }
        let sim_group = &mut self.sim_groups[g];
        sim_group.pause_clients().await?;
        self.core.sleep(AT_REST).await;
        let sim_group = &mut self.sim_groups[g];
        let is_disputed = sim_group.check_lost_pair(&places, &old, &new).await?;
        // A client decides it, in whatever the file is called by now.
        if let (true, Some(name)) = (is_disputed, file.and_then(|file| client.name_of(file))) {
            sim_group.rewrite(&client, &name, block).await?;
        }
        sim_group.start_clients();
        Ok(())
    }

    async fn operator_offline(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let name = self.victim(g, numbers).await;
        let sim_group = &mut self.sim_groups[g];
        if numbers.below(2) == 0 {
            // Each could be taken offline, but not all of them: so none is (R5).
            let (group, before) = (Arc::clone(sim_group.group()), sim_group.group().members());
            let all = Selection::FailureGroups(sim_group.shape.data_groups());
            let ended = sim_group.inside(async move { group.offline(all, None).await }).await?;
            if ended.ok_or("the engine died by itself")?.is_ok() {
                return Err(format!(
                    "{}: all its disks were taken offline, which were {before:?}",
                    sim_group.name
                ));
            }
        }
        let (group, names) = (Arc::clone(sim_group.group()), vec![name.clone()]);
        let ended = sim_group
            .inside(async move { group.offline(Selection::FailureGroups(names), None).await })
            .await?;
        match ended.ok_or("the engine died by itself")? {
            Ok(()) => {
                sim_group.faulty.insert(name, Condition::Unavailable);
            }
            Err(error) => sim_group.say(|| format!("offline: {}", words(&error))),
        }
        Ok(())
    }

    /// Records and pages that look right are written to the disks of a group that is not mounted;
    /// a reader of them gets an error. Then the disks are as they were.
    async fn hostile_bytes(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        self.core.let_anything_go(true);
        let ended = self.tamper_and_read(g, numbers).await;
        self.core.let_anything_go(false);
        ended
    }

    async fn tamper_and_read(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let end = *pick(numbers, &[End::Killed, End::Dismounted]);
        self.down(g, end, moment(numbers)).await?;
        // I/O of the engine that was killed lands before.
        self.core.sleep(Duration::from_secs(1)).await;
        let sim_group = &self.sim_groups[g];
        let images: Vec<_> = sim_group.disks.iter().map(SimDisk::image).collect();
        for _ in 0..1 + numbers.below(8) {
            let disk = pick(numbers, &sim_group.disks);
            let what = hostile::tamper(disk, numbers);
            sim_group.say(|| format!("{}: {what}", disk.label()));
        }
        let reader = self.host.stranger();
        let (world, name) = (Arc::clone(&reader) as Arc<dyn World>, sim_group.name);
        let looked =
            inside(&self.core, reader.process(), async move { hostile::look(world, name).await })
                .await?;
        self.core.kill(reader.process());
        sim_group.say(|| {
            format!("a reader of all that: {}", looked.unwrap_or_else(|| "died".to_owned()))
        });
        self.core.sleep(Duration::from_secs(1)).await;
        for (disk, image) in sim_group.disks.iter().zip(images) {
            disk.set_image(image);
        }
        self.up().await
    }

    /// Headers, stamps, memberships, activity logs and checksum blocks of a failure group that is
    /// not faulty, or of all such groups, are overwritten while the engine runs. After it has
    /// checked its metadata it may end in any way, and the group mounts.
    async fn metadata_overwritten(
        &mut self,
        g: usize,
        numbers: &mut Numbers,
    ) -> Result<(), Failure> {
        self.work(numbers.below(40)).await?;
        let sim_group = &mut self.sim_groups[g];
        let mut groups = sim_group.shape.failure_groups();
        groups.retain(|name| !sim_group.faulty.contains_key(name));
        if groups.is_empty() {
            return Ok(());
        }
        if numbers.below(3) > 0 {
            groups = vec![pick(numbers, &groups).clone()];
        }
        let group = Arc::clone(sim_group.group());
        let disks: Vec<_> = groups.iter().flat_map(|name| sim_group.disks_of(name)).collect();
        let was_overwritten = std::mem::replace(&mut sim_group.overwritten, true);
        for disk in disks.iter().filter(|disk| sim_group.serves(&group, disk)) {
            if let Some(what) = hostile::overwrite(disk, numbers) {
                sim_group.say(|| format!("{}: {what}", disk.label()));
            }
        }
        // Overwritten checksums make their blocks unreadable: only of one mirror, where there is
        // another.
        if let [name] = &groups[..]
            && !sim_group.is_external()
            && sim_group.faulty.is_empty()
            && sim_group.state() == State::Whole
            && numbers.below(2) == 0
        {
            sim_group.silent = true;
            let names: Vec<String> = sim_group
                .disks_of(name)
                .iter()
                .map(|disk| sim_group.name_of(disk).to_owned())
                .collect();
            for (on, offset, length) in group.known_checksum_blocks() {
                let Some(index) = names.iter().position(|name| *name == on) else { continue };
                let mut bytes = vec![0; length];
                if numbers.below(2) == 0 {
                    numbers.fill(&mut bytes);
                }
                let disk = &sim_group.disks_of(name)[index];
                sim_group.say(|| {
                    format!("{}: the checksum block at {offset} is overwritten", disk.label())
                });
                disk.corrupt(offset, &bytes);
            }
        }
        drop(group);
        self.core.sleep(LOOKED).await;
        self.look().await?;
        let sim_group = &mut self.sim_groups[g];
        sim_group.overwritten = was_overwritten;
        if sim_group.silent {
            // The checksums of a region that was closed meanwhile are on the disks alone.
            sim_group.repair().await?;
        }
        let end = *pick(numbers, &ANY_END);
        self.end_and_go_on(g, end, moment(numbers)).await
    }

    /// The new group may use less of a disk. Nothing of the old group may be seen then, even where
    /// a header copy is damaged.
    async fn drop_and_create(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        self.notice().await;
        let sim_group = &mut self.sim_groups[g];
        sim_group.pause_clients().await?;
        // A disk that is OFFLINE keeps its header, and would be in the way.
        sim_group.bring_online().await?;
        let group = sim_group.group.take().expect("mounted");
        let dropped = sim_group.inside(async move { group.drop_group(true).await }).await?;
        dropped
            .ok_or("the engine died by itself")?
            .map_err(|error| format!("{}: drop: {}", sim_group.name, words(&error)))?;
        self.core.kill(sim_group.process());
        self.core.sleep(Duration::from_secs(1)).await;
        sim_group.clients.iter().for_each(|client| client.model().forget());
        sim_group.full = false;
        let least = (48 * MIB).max(sim_group.shape.au_size * 24);
        for (disk, (_, size)) in sim_group.disks.iter().zip(&mut sim_group.shape.disks) {
            *size = disk.size()
                - numbers.below(2) * numbers.below((disk.size() - least) / MIB + 1) * MIB;
        }
        sim_group.create().await?;
        sim_group.mount().await?;
        if numbers.below(2) == 0 {
            let end = *pick(numbers, &ANY_END);
            self.down(g, end, moment(numbers)).await?;
            self.sim_groups[g].spoil_headers(numbers);
        }
        self.up().await
    }

    /// A disk rots while clients pause and no region is active.
    pub async fn rot_at_rest(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        self.sim_groups[g].pause_clients().await?;
        self.sim_groups[g]
            .disks
            .iter()
            .for_each(|disk| disk.faults(|faults| faults.slow = Duration::ZERO));
        self.core.sleep(Duration::from_secs(20)).await;
        self.sim_groups[g].expectations.pause.store(false, Ordering::Relaxed);
        // The engine may have given up a disk meanwhile, for earlier errors: then the rotten blocks
        // are nowhere else.
        if !self.can_lose(g) {
            return Ok(());
        }
        self.silent(Fault::Rot, g, numbers).await
    }

    /// A check that repairs rot is killed, and repeated.
    async fn killed_in_repair(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        self.rot_at_rest(g, numbers).await?;
        let sim_group = &mut self.sim_groups[g];
        let group = Arc::clone(sim_group.group());
        self.core.fuse(sim_group.process(), Some(Fuse::Steps(numbers.below(3000))));
        let ended = sim_group.inside(async move { group.check(true).await }).await?;
        sim_group.say(|| {
            format!("the repair {}", if ended.is_some() { "came to its end" } else { "was killed" })
        });
        sim_group.kill(AT_ONCE).await?;
        if !sim_group.try_mount().await? {
            return Err(format!("{}: not mounted after a repair was killed", sim_group.name));
        }
        sim_group.repair().await?;
        sim_group.check().await?;
        sim_group.start_clients();
        Ok(())
    }
}

/// A mirror of a block that was written, with its checksum, and the disk as it was before that.
struct Pair<'a> {
    disk: SimDisk,
    before: &'a Image,
    /// Where the block is on the disk, in bytes.
    place: u64,
    /// Where its checksum is.
    sum: u64,
}

impl Pair<'_> {
    /// Whether the checksum was that of the old block, and is that of the new one.
    fn matches(&self, old: &[u8], new: &[u8]) -> bool {
        let mut was = [0; 4];
        self.before.read(self.sum, &mut was);
        let is = self.disk.peek(self.sum, 4);
        was == of_block(old).to_le_bytes() && is == of_block(new).to_le_bytes()
    }

    /// The disk has the block and its checksums as they were.
    fn put_back(&self, old: &[u8]) {
        let (sums, mut bytes) = (self.sum / BLOCK * BLOCK, [0; 4096]);
        self.before.read(sums, &mut bytes);
        self.disk.corrupt(sums, &bytes);
        self.disk.corrupt(self.place, old);
    }
}

impl SimGroup {
    /// The mirrors of a block that had the old bytes in the images before, and has the new ones.
    fn find_pairs<'a>(&self, before: &'a [Image], old: &[u8], new: &[u8]) -> Vec<Pair<'a>> {
        let mut pairs = Vec::new();
        for (disk, before) in self.disks.iter().zip(before) {
            for block in before.written() {
                let place = block * BLOCK;
                let mut was = [0; 4096];
                before.read(place, &mut was);
                if was[..] == old[..] && disk.peek(place, 4096) == new {
                    let sum = hostile::sums_of(disk, place);
                    pairs.extend(sum.map(|sum| Pair { disk: disk.clone(), before, place, sum }));
                }
            }
        }
        pairs
    }

    /// Whether a check reports the two mirrors at `places` as disputed. An error if it finds
    /// anything else, or one was copied over the other.
    async fn check_lost_pair(
        &self,
        places: &[(SimDisk, u64)],
        old: &[u8],
        new: &[u8],
    ) -> Result<bool, Failure> {
        let report = self.report(true).await?;
        let left: Vec<_> = report.problems.iter().filter(|problem| !problem.repaired).collect();
        if let Some(other) = left.iter().find(|problem| !problem.text.contains("disputed")) {
            return Err(format!("{}: a pair was lost, and this stays: {}", self.name, other.text));
        }
        let has = |(disk, place): &(SimDisk, u64)| disk.peek(*place, 4096);
        let found: Vec<_> = places.iter().map(has).collect();
        // Blocks that clients write are unlike everything that was there before.
        if found.iter().all(|bytes| *bytes == old) || found.iter().all(|bytes| *bytes == new) {
            return Err(format!("{}: of two right pairs one was copied over the other", self.name));
        }
        if left.is_empty() {
            return Ok(false);
        }
        self.say(|| "it is disputed".to_owned());
        let has = |bytes: &[u8]| found.iter().any(|found| *found == bytes);
        if !has(old) || !has(new) {
            return Err(format!("{}: of two right pairs one was overwritten", self.name));
        }
        Ok(true)
    }

    /// One copy of a disk's header is overwritten, on some disks: always the same copy, so that the
    /// others are left.
    fn spoil_headers(&self, numbers: &mut Numbers) {
        let sizes = hostile::sizes(&self.disks);
        for (index, disk) in self.disks.iter().enumerate() {
            // A copy that cannot be written cannot be repaired.
            if numbers.below(2) == 0 || disk.faults(|faults| !faults.worn.is_empty()) {
                continue;
            }
            let mut noise = [0; 4096];
            numbers.fill(&mut noise);
            let Some(size) = disk.header().and_then(|header| sizes.get(&header.disk)) else {
                continue;
            };
            let layout = Layout::new(*size, self.shape.au_size).expect("it is a member");
            let place = layout.header_places()[index % HEADER_COPIES];
            self.say(|| format!("{}: its header at {place} is overwritten", disk.label()));
            disk.corrupt(place, &noise);
        }
    }

    /// Overwrites as a partition tool, a boot loader or a file system does: parts of the first and
    /// the last MiB of every disk, or all of them.
    fn overwrite_ends(&self, numbers: &mut Numbers) {
        let whole = numbers.below(3) == 0;
        let zeros = numbers.below(2) == 0;
        for disk in &self.disks {
            // Unreadable blocks in the middle would leave a disk without any header.
            if disk.faults(|faults| !faults.worn.is_empty() || !faults.latent.is_empty()) {
                continue;
            }
            for end in [0, disk.size().saturating_sub(MIB)] {
                let from = if whole { 0 } else { numbers.below(MIB / 512) * 512 };
                let length =
                    if whole { MIB } else { (1 + numbers.below((MIB - from) / 512)) * 512 };
                let mut bytes = vec![0; usize::try_from(length).expect("a MiB at most")];
                if !zeros {
                    numbers.fill(&mut bytes);
                }
                self.say(|| {
                    format!("{}: {length} bytes at {} are overwritten", disk.label(), end + from)
                });
                disk.corrupt(end + from, &bytes);
            }
        }
    }

    /// Some writes to a failure group that is not faulty take long from now on.
    pub fn hold_writes(&self, numbers: &mut Numbers) {
        let mut groups = self.shape.data_groups();
        groups.retain(|name| !self.faulty.contains_key(name));
        if groups.is_empty() {
            return;
        }
        let name = pick(numbers, &groups);
        self.say(|| format!("writes to failure group {name} take long"));
        let count = 1 + u32::try_from(numbers.below(6)).expect("small");
        for disk in self.disks_of(name) {
            let catalog = hostile::catalog_places(&disk);
            disk.faults(|faults| (faults.held_writes, faults.not_held) = (count, catalog));
        }
    }

    /// I/O of the disks that were away takes longer.
    pub fn slow_down(&self, slow: Duration) {
        for disk in self.faulty.keys().flat_map(|name| self.disks_of(name)) {
            disk.faults(|faults| faults.slow = slow);
        }
    }

    /// One mount, which may die by its fuse; no client works meanwhile.
    async fn mount_once(&mut self, moment: Fuse) -> Result<(), Failure> {
        self.world = self.host.process();
        let world = Arc::clone(&self.world) as Arc<dyn World>;
        self.core.fuse(self.process(), Some(moment));
        let name = self.name;
        let _ =
            self.inside(async move { Group::mount(world, name, false).await.map(drop) }).await?;
        self.core.kill(self.process());
        Ok(())
    }
}
