//! What goes wrong, one kind after the other. What must hold under each is in `docs/faults.md`.

use crate::{
    coverage::{State, allowed},
    disk::SimDisk,
    executor::lock,
    history::{End, Failure, Story},
    hostile,
    plan::{Fault, Step},
    tenant::{Ill, Tenant, Undo, inside, words},
};
use plinth_engine::{
    admin::{Code, Selection},
    group::Group,
    testing::Numbers,
    world::World,
};
use plinth_format::{layout::MIB, membership::DiskState};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

const BLOCK: u64 = 4096;
/// Virtual time after which an image of a disk is more than one stamp old.
const NIGHT: Duration = Duration::from_secs(150);

/// Virtual time after which the engine has recorded that a flush failed.
const RECORDED: Duration = Duration::from_secs(2);

/// Virtual time after which the engine is about to close the regions of the activity log that nobody uses.
const LULL: Duration = Duration::from_secs(9);

/// Whether a fault ends the engine.
fn is_an_end(fault: Fault) -> bool {
    use Fault as F;
    matches!(fault, F::EngineKilled | F::KilledAgain | F::PowerCut | F::PowerCutAgain | F::Subset | F::Halves)
}

/// One of several.
fn pick<'a, T>(numbers: &mut Numbers, of: &'a [T]) -> &'a T {
    &of[usize::try_from(numbers.below(of.len() as u64)).expect("small")]
}

impl Story {
    /// A fault meets a group, which is made whole before if its state does not allow it.
    pub async fn misfortune(&mut self, step: &Step) -> Result<(), Failure> {
        let numbers = &mut Numbers::new(step.draw);
        let g = step.group;
        for tenant in self.tenants.iter_mut().filter(|tenant| tenant.silent) {
            tenant.repair().await?;
        }
        if !self.fits(step) {
            // Not a fault that this group survives in any state.
            return self.misfortune_of(Fault::EngineKilled, g, numbers).await;
        }
        if !allowed(step.fault).contains(&self.tenants[g].state()) || !self.is_affordable(step.fault, g) {
            if step.fault != Fault::Return || self.tenants[g].ill.is_empty() {
                self.tenants[g].make_whole().await?;
            }
            if step.fault == Fault::Return {
                // It takes something that is away.
                if self.tenants[g].ill.is_empty() {
                    self.misfortune_of(Fault::GroupFails, g, numbers).await?;
                }
                self.notice().await;
            }
        }
        self.misfortune_of(step.fault, g, numbers).await?;
        let tenant = &self.tenants[g];
        let quiet = tenant.group.is_some() && !tenant.silent && !tenant.mood.lenient.load(Ordering::Relaxed);
        // A check ends recovery and outlasts a resync: now and then the next fault comes first.
        let in_passing = matches!(tenant.state(), State::Recovering | State::Returning) && numbers.below(2) == 0;
        if quiet && !in_passing && tenant.has_noticed() { tenant.check().await } else { Ok(()) }
    }

    fn fits(&self, step: &Step) -> bool {
        use Fault as F;
        let tenant = &self.tenants[step.group];
        match step.fault {
            F::GroupFails | F::DiskFails | F::OperatorOffline | F::Return | F::OldImage | F::KilledInRepair => {
                !tenant.is_external()
            }
            F::Rot | F::LostWrite | F::MisdirectedWrite | F::MisdirectedRead | F::StaleSectors => !tenant.is_external(),
            _ => true,
        }
    }

    /// Whether the group survives it as it is.
    fn is_affordable(&self, fault: Fault, g: usize) -> bool {
        use Fault as F;
        let tenant = &self.tenants[g];
        let lenient = tenant.mood.lenient.load(Ordering::Relaxed);
        match fault {
            F::GroupFails | F::GroupHangs | F::DiskFails | F::OperatorOffline => {
                let external = tenant.is_external() && tenant.ill.is_empty();
                !lenient && (external || tenant.state() == State::Returning || self.can_lose(g))
            }
            F::OldImage | F::CloneShown | F::Shrunk | F::Blank => {
                !lenient && (self.can_lose(g) || (tenant.is_external() && tenant.ill.is_empty()))
            }
            F::Rot | F::LostWrite | F::MisdirectedWrite | F::MisdirectedRead | F::StaleSectors => {
                !lenient && self.can_lose(g)
            }
            F::Subset | F::Halves | F::HostileBytes | F::Frozen => !lenient,
            _ => true,
        }
    }

    /// Whether one more failure group may be ill.
    fn can_lose(&self, g: usize) -> bool {
        let tenant = &self.tenants[g];
        tenant.ill.len() < tenant.budget() && !tenant.ill.values().any(|ill| *ill == Ill::Doubtful)
    }

    async fn misfortune_of(&mut self, fault: Fault, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let state = self.tenants[g].state();
        lock(&self.counts.coverage).met(fault, state);
        self.tenants[g].say(|| format!("{} while {}", fault.name(), state.name()));
        if is_an_end(fault) && numbers.below(4) == 0 {
            // Nobody does anything, until regions are closed.
            self.core.sleep(LULL + Duration::from_millis(numbers.below(4000))).await;
        }
        match fault {
            Fault::EngineKilled => self.end_and_go_on(g, End::Killed, numbers.below(400)).await,
            Fault::KilledAgain => {
                self.tenants[g].dying_mounts = 1 + numbers.below(3);
                self.end_and_go_on(g, End::Killed, numbers.below(400)).await
            }
            Fault::PowerCut => self.end_and_go_on(g, End::PowerCut, 0).await,
            Fault::PowerCutAgain => {
                for _ in 0..1 + numbers.below(2) {
                    self.down(g, End::PowerCut, 0).await?;
                    // The power goes again where the mount has come to.
                    for tenant in &mut self.tenants {
                        tenant.dying_mounts = 1;
                        tenant.mount_once().await?;
                    }
                }
                self.end_and_go_on(g, End::PowerCut, 0).await
            }
            Fault::Frozen => self.freeze(g, numbers).await,
            Fault::SecondEngine => self.second_engine(g, numbers).await,
            Fault::ClockJumps => {
                let by = i64::try_from(numbers.below(7_200_000)).expect("small") - 3_600_000;
                self.host.move_clock(by * 1_000_000);
                Ok(())
            }
            Fault::SentTwice => {
                self.tenants[g].mood.twice.store(true, Ordering::Relaxed);
                self.work(30 + numbers.below(60)).await?;
                self.tenants[g].mood.twice.store(false, Ordering::Relaxed);
                Ok(())
            }
            Fault::GroupFails | Fault::GroupHangs | Fault::DiskFails => self.lose(fault, g, numbers).await,
            Fault::Return => {
                self.tenants[g].put_right();
                if let Err(error) = self.tenants[g].ask_online().await? {
                    self.tenants[g].say(|| format!("online: {}", words(&error)));
                }
                Ok(())
            }
            Fault::ReadFails | Fault::WriteFails | Fault::FlushFails | Fault::LatentSectors | Fault::ThinFull => {
                self.hiccup(fault, g, numbers).await
            }
            Fault::DiskSlow => {
                let slow = Duration::from_millis(numbers.below(300));
                let disk = pick(numbers, &self.tenants[g].disks);
                disk.faults(|faults| faults.slow = slow);
                Ok(())
            }
            Fault::Rot | Fault::LostWrite | Fault::MisdirectedWrite | Fault::MisdirectedRead | Fault::StaleSectors => {
                self.silent(fault, g, numbers).await
            }
            Fault::OldImage | Fault::CloneShown | Fault::Shrunk | Fault::Blank => self.swap(fault, g, numbers).await,
            Fault::NewPath => self.new_path(g, numbers).await,
            Fault::OperatorOffline => self.operator_offline(g, numbers).await,
            Fault::Dismount => self.end_and_go_on(g, End::Dismounted, 0).await,
            Fault::DismountForce => self.end_and_go_on(g, End::Forced, 0).await,
            Fault::Subset => self.subset(g, numbers).await,
            Fault::Halves => self.halves(g, numbers).await,
            Fault::HostileBytes => self.hostile_bytes(g, numbers).await,
            Fault::DropAndCreate => self.drop_and_create(g).await,
            Fault::Full => {
                self.tenants[g].fill().await?;
                self.work(40).await
            }
            Fault::KilledInRepair => self.killed_in_repair(g, numbers).await,
        }
    }

    async fn end_and_go_on(&mut self, g: usize, end: End, steps: u64) -> Result<(), Failure> {
        self.down(g, end, steps).await?;
        self.up().await
    }

    /// The engine does not run for a while; everybody else does, and its I/O ends. Nobody is expelled for that.
    async fn freeze(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let well = self.tenants[g].ill.is_empty();
        let process = self.tenants[g].process();
        let before = self.tenants[g].group().members();
        self.core.freeze(process);
        self.core.sleep(Duration::from_secs(1 + numbers.below(600))).await;
        self.core.thaw(process);
        self.work(10).await?;
        let tenant = &self.tenants[g];
        let Some(group) = &tenant.group else { return Ok(()) };
        let lost = |(one, other): (&(String, DiskState), &(String, DiskState))| {
            one.1 == DiskState::Online && other.1 == DiskState::Offline
        };
        if well && before.iter().zip(&group.members()).any(lost) {
            return Err(format!("{}: a disk was expelled because the engine had not run", tenant.name));
        }
        Ok(())
    }

    /// Another engine finds the disks taken, whether the first runs or is frozen.
    async fn second_engine(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let tenant = &self.tenants[g];
        let first = tenant.process();
        let frozen = numbers.below(2) == 0;
        if frozen {
            self.core.freeze(first);
        }
        let second = self.host.process();
        let (world, name) = (Arc::clone(&second) as Arc<dyn World>, tenant.name);
        let mounted =
            inside(&self.core, second.process(), async move { Group::mount(world, name, false).await }).await?;
        self.core.kill(second.process());
        if frozen {
            self.core.thaw(first);
        }
        match mounted {
            Some(Ok(_)) => Err(format!("{name}: two engines have mounted it")),
            Some(Err(error)) if error.code == Code::HeldElsewhere || !tenant.ill.is_empty() => Ok(()),
            Some(Err(error)) if !tenant.undo.is_empty() => {
                tenant.say(|| format!("the second engine: {}", words(&error)));
                Ok(())
            }
            Some(Err(error)) => Err(format!("{name}: a second engine is refused, but for: {}", words(&error))),
            None => Err(format!("{name}: the second engine died by itself")),
        }
    }

    /// A failure group to make ill: one that is not, or while a disk returns, its own.
    async fn victim(&mut self, g: usize, numbers: &mut Numbers) -> String {
        let tenant = &self.tenants[g];
        if !tenant.ill.is_empty() && tenant.state() != State::Returning {
            // With HIGH a second may go, but one after the other: the first has been noticed.
            self.notice().await;
        }
        let tenant = &self.tenants[g];
        let groups = if tenant.state() == State::Returning && !tenant.ill.is_empty() {
            tenant.ill.keys().cloned().collect()
        } else {
            let mut groups = tenant.shape.data_groups();
            groups.retain(|name| !tenant.ill.contains_key(name));
            groups
        };
        pick(numbers, &groups).clone()
    }

    async fn lose(&mut self, fault: Fault, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let name = self.victim(g, numbers).await;
        let tenant = &mut self.tenants[g];
        let mut disks = tenant.disks_of(&name);
        if fault == Fault::DiskFails {
            disks = vec![pick(numbers, &disks).clone()];
        }
        let labels: Vec<&str> = disks.iter().map(SimDisk::label).collect();
        tenant.say(|| format!("failure group {name}: {}", labels.join(", ")));
        let hangs = fault == Fault::GroupHangs;
        for disk in &disks {
            disk.faults(|faults| if hangs { faults.hang = true } else { faults.gone = true });
        }
        if tenant.is_external() {
            // Nothing else has what it has: everybody waits until it is back.
            self.core.sleep(Duration::from_secs(numbers.below(20))).await;
            disks.iter().for_each(SimDisk::heal);
            return Ok(());
        }
        tenant.ill.insert(name, Ill::Away);
        Ok(())
    }

    /// Something small: an I/O fails, blocks go bad, lent space runs out.
    async fn hiccup(&mut self, fault: Fault, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let spared = !self.tenants[g].is_external() && self.can_lose(g);
        let tenant = &mut self.tenants[g];
        let name = {
            let mut groups = tenant.shape.data_groups();
            groups.retain(|name| !tenant.ill.contains_key(name));
            if groups.is_empty() {
                return Ok(());
            }
            pick(numbers, &groups).clone()
        };
        if !spared {
            // It may be the last mirror of something.
            tenant.mood.lenient.store(true, Ordering::Relaxed);
            tenant.lossy |= fault == Fault::FlushFails;
        }
        let disk = pick(numbers, &tenant.disks_of(&name)).clone();
        tenant.say(|| format!("{}: {}", disk.label(), fault.name()));
        let blocks = disk.size() / BLOCK;
        let latent: Vec<u64> = (0..1 + numbers.below(400)).map(|_| 256 + numbers.below(blocks - 256)).collect();
        let thin = numbers.below(300);
        disk.faults(|faults| match fault {
            Fault::ReadFails => faults.failing_reads = 1,
            Fault::WriteFails => faults.failing_writes = 1,
            Fault::FlushFails => faults.failing_flushes = 1,
            Fault::ThinFull => faults.thin = Some(thin),
            _ => faults.latent.extend(latent),
        });
        tenant.ill.entry(name).or_insert(Ill::Doubtful);
        if fault == Fault::FlushFails {
            self.until_on_record(&disk).await?;
        }
        Ok(())
    }

    /// Waits until a flush has failed and the engine has recorded it: a kill before that is not promised to be survived.
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

    /// Bytes change, or do not change, behind everybody's back, on one disk.
    async fn silent(&mut self, fault: Fault, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let name = self.victim(g, numbers).await;
        let disk = pick(numbers, &self.tenants[g].disks_of(&name)).clone();
        self.tenants[g].say(|| format!("{}: {}", disk.label(), fault.name()));
        // From now on: a crash before it is repaired is not promised to be survived.
        self.tenants[g].silent = true;
        match fault {
            Fault::Rot => {
                let blocks = disk.size() / BLOCK;
                for _ in 0..1 + numbers.below(300) {
                    let block = 256 + numbers.below(blocks - 256);
                    let mut noise = [0; 4096];
                    numbers.fill(&mut noise);
                    disk.corrupt(block * BLOCK, &noise);
                }
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
                self.tenants[g].pause_clients().await?;
                // What was written meanwhile has come to rest.
                self.core.sleep(Duration::from_secs(numbers.below(20))).await;
                let mut changed = disk.image().changed_since(&earlier);
                changed.retain(|block| *block >= 256);
                for _ in 0..(1 + numbers.below(20)).min(changed.len() as u64) {
                    let block = *pick(numbers, &changed);
                    let mut old = [0; 4096];
                    earlier.read(block * BLOCK, &mut old);
                    disk.corrupt(block * BLOCK, &old);
                }
                self.tenants[g].start_clients();
                Ok(())
            }
        }
    }

    /// A device is not what it was: an old image, one of two, shorter, somebody else's.
    async fn swap(&mut self, fault: Fault, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let name = self.victim(g, numbers).await;
        let disk = pick(numbers, &self.tenants[g].disks_of(&name)).clone();
        self.tenants[g].say(|| format!("{}: {}", disk.label(), fault.name()));
        let earlier = disk.image();
        let clone = disk.clone_as(&format!("{}-clone", disk.label()));
        let clone_path = format!("{}-clone", self.tenants[g].path_of(&disk));
        self.work(40).await?;
        if fault == Fault::OldImage {
            self.tenants[g].pause_clients().await?;
            self.core.sleep(NIGHT).await;
            self.tenants[g].start_clients();
            self.work(10).await?;
        }
        let live = !self.tenants[g].is_external() && numbers.below(2) == 0;
        if live {
            // The engine notices that it is away before anything else.
            disk.faults(|faults| faults.gone = true);
            self.tenants[g].ill.insert(name.clone(), Ill::Away);
            self.work(40).await?;
            self.notice().await;
        } else {
            let end = *pick(numbers, &[End::Killed, End::Dismounted, End::PowerCut]);
            self.down(g, end, numbers.below(200)).await?;
        }
        let tenant = &mut self.tenants[g];
        if live {
            let online =
                |group: &Arc<Group>| group.members().iter().filter(|(_, state)| *state == DiskState::Online).count();
            if tenant.group.as_ref().is_none_or(|group| online(group) == tenant.disks.len()) {
                // Nobody has asked it for anything.
                disk.heal();
                return Ok(());
            }
        }
        let current = disk.image();
        match fault {
            Fault::OldImage => {
                // Where nobody may know that it is old, what it was can be put back.
                if !live {
                    tenant.undo.push(Undo::Image(disk.clone(), current));
                }
                disk.set_image(earlier);
            }
            Fault::CloneShown => {
                tenant.host.attach(&clone_path, clone);
                tenant.undo.push(Undo::Detach(clone_path.clone()));
            }
            Fault::Shrunk => {
                let size = disk.size();
                tenant.undo.push(Undo::Size(disk.clone(), size));
                disk.set_size(size / MIB / 2 * MIB);
            }
            _ => {
                tenant.undo.push(Undo::Image(disk.clone(), current));
                disk.set_image(plinth_engine::testing::Image::noisy(numbers.draw()));
            }
        }
        disk.faults(|faults| faults.gone = false);
        tenant.ill.insert(name, Ill::Away);
        if !live {
            let refused = !tenant.try_mount().await?;
            if refused {
                // Too few can be counted on without it.
                tenant.put_right();
                tenant.mount().await?;
            } else {
                if fault == Fault::OldImage {
                    // It was taken for what it is: its true bytes do not come back.
                    tenant.undo.retain(|undo| !matches!(undo, Undo::Image(of, _) if of.label() == disk.label()));
                }
                tenant.start_clients();
            }
            self.up().await?;
        } else if fault != Fault::OldImage {
            let asked = tenant.ask_online().await?;
            self.core.sleep(Duration::from_secs(2)).await;
            let tenant = &mut self.tenants[g];
            let back = tenant.state() != State::Degraded
                || tenant.group().members().iter().all(|(_, state)| *state == DiskState::Online);
            if back && tenant.disks_of(&tenant.ill.keys().next().cloned().unwrap_or_default()).len() == 1 {
                return Err(format!("{}: {} is taken back although it is {}", tenant.name, disk.label(), fault.name()));
            }
            if let Err(error) = asked {
                tenant.say(|| format!("online: {}", words(&error)));
            }
        }
        Ok(())
    }

    /// A disk is found at another path, or at two, after a mount.
    async fn new_path(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let end = *pick(numbers, &[End::Killed, End::Dismounted]);
        self.down(g, end, numbers.below(200)).await?;
        let tenant = &mut self.tenants[g];
        let disk = pick(numbers, &tenant.disks).clone();
        let path = format!("/dev/new-{}-{}", disk.label(), numbers.below(1000));
        if numbers.below(2) == 0 {
            tenant.move_to(&disk, &path);
        } else {
            tenant.host.attach(&path, disk);
        }
        self.up().await
    }

    async fn operator_offline(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let name = self.victim(g, numbers).await;
        let tenant = &mut self.tenants[g];
        let (group, names) = (Arc::clone(tenant.group()), vec![name.clone()]);
        let ended = tenant.inside(async move { group.offline(Selection::FailureGroups(names)).await }).await?;
        match ended.ok_or("the engine died by itself")? {
            Ok(()) => {
                tenant.ill.insert(name, Ill::Away);
            }
            Err(error) => tenant.say(|| format!("offline: {}", words(&error))),
        }
        Ok(())
    }

    /// Takes disks out of sight, and says whether more than may be lost.
    fn hide(&mut self, g: usize, hidden: &[SimDisk]) {
        let tenant = &mut self.tenants[g];
        for disk in hidden {
            let path = tenant.path_of(disk);
            tenant.host.detach(&path);
            tenant.undo.push(Undo::Attach(path, disk.clone()));
            let index = tenant.disks.iter().position(|known| known.label() == disk.label()).expect("one of ours");
            let name = tenant.shape.disks[index].0.clone();
            tenant.ill.insert(name, Ill::Away);
        }
        let data = tenant.ill.keys().filter(|name| !name.starts_with('Q')).count();
        tenant.beyond = data > tenant.budget();
        let labels: Vec<&str> = hidden.iter().map(SimDisk::label).collect();
        tenant.say(|| format!("out of sight: {}", labels.join(", ")));
    }

    /// Mounts a group some of whose disks are out of sight, if it can be, and works with it for a while.
    async fn mount_what_is_there(&mut self, g: usize, must: bool, operations: u64) -> Result<bool, Failure> {
        let tenant = &mut self.tenants[g];
        if tenant.beyond {
            tenant.mood.lenient.store(true, Ordering::Relaxed);
        }
        if tenant.try_mount().await? {
            tenant.start_clients();
            self.work(operations).await?;
            return Ok(true);
        }
        if must {
            return Err(format!("{}: not mounted although enough of its disks are there", tenant.name));
        }
        Ok(false)
    }

    /// Some disks are out of sight at a mount.
    async fn subset(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let tenant = &self.tenants[g];
        let before = tenant.state();
        let was_whole = matches!(before, State::Whole | State::Full) && tenant.ill.is_empty();
        let end = *pick(numbers, &[End::Killed, End::Dismounted, End::PowerCut]);
        self.down(g, end, numbers.below(200)).await?;
        let tenant = &self.tenants[g];
        let mut hidden: Vec<SimDisk> = tenant.disks.clone();
        let share = 2 + numbers.below(4);
        hidden.retain(|disk| {
            let path = tenant.path_of(disk);
            tenant.host.has(&path) && numbers.below(share) == 0
        });
        self.hide(g, &hidden);
        let tenant = &self.tenants[g];
        let voters = tenant.shape.failure_groups().len().min(5);
        let missing = tenant.ill.len();
        // Whichever they are, a majority votes, and each extent has a mirror in sight.
        let enough = was_whole && !tenant.beyond && voters > 2 * missing.min(voters) && !tenant.is_external();
        let mounted = self.mount_what_is_there(g, enough || (was_whole && hidden.is_empty()), 30).await?;
        if mounted && !self.tenants[g].beyond {
            // It stays so for a while.
            return self.up().await;
        }
        self.all_in_sight(g).await
    }

    /// Everything is shown again, and mounted.
    async fn all_in_sight(&mut self, g: usize) -> Result<(), Failure> {
        if self.tenants[g].group.is_some() {
            self.down(g, End::Killed, 0).await?;
        }
        self.tenants[g].put_right();
        self.up().await?;
        let tenant = &mut self.tenants[g];
        tenant
            .until("a look at everything", |tenant| tenant.clients.iter().all(|client| !client.model().is_unverified()))
            .await?;
        tenant.beyond = false;
        tenant.mood.lenient.store(false, Ordering::Relaxed);
        tenant.bring_online().await?;
        tenant.failure()?;
        tenant.ill.clear();
        Ok(())
    }

    /// Two halves of the group, such as two sites, go and come in any order.
    async fn halves(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let groups = self.tenants[g].shape.failure_groups();
        let one: Vec<bool> = groups.iter().map(|_| numbers.below(2) == 0).collect();
        for _ in 0..2 + numbers.below(3) {
            if self.tenants[g].group.is_some() {
                let end = *pick(numbers, &[End::Killed, End::Dismounted, End::PowerCut]);
                self.down(g, end, numbers.below(200)).await?;
            }
            self.tenants[g].put_right();
            let shown = numbers.below(3);
            let mut hidden = Vec::new();
            for (name, first) in groups.iter().zip(&one) {
                if (shown == 0 && *first) || (shown == 1 && !*first) {
                    hidden.extend(self.tenants[g].disks_of(name));
                }
            }
            self.hide(g, &hidden);
            self.mount_what_is_there(g, false, 15).await?;
        }
        self.all_in_sight(g).await
    }

    /// Somebody writes what looks right to the disks of a group that is not mounted; whoever reads it gives an error.
    /// Then the disks are as they were.
    async fn hostile_bytes(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let end = *pick(numbers, &[End::Killed, End::Dismounted]);
        self.down(g, end, numbers.below(200)).await?;
        // I/O of the engine that was killed lands before.
        self.core.sleep(Duration::from_secs(1)).await;
        let tenant = &self.tenants[g];
        let images: Vec<_> = tenant.disks.iter().map(SimDisk::image).collect();
        for _ in 0..1 + numbers.below(8) {
            let disk = pick(numbers, &tenant.disks);
            let what = hostile::tamper(disk, numbers);
            tenant.say(|| format!("{}: {what}", disk.label()));
        }
        let reader = self.host.process();
        let (world, name) = (Arc::clone(&reader) as Arc<dyn World>, tenant.name);
        let looked = inside(&self.core, reader.process(), async move { hostile::look(world, name).await }).await?;
        self.core.kill(reader.process());
        tenant.say(|| format!("a reader of all that: {}", looked.unwrap_or_else(|| "died".to_owned())));
        self.core.sleep(Duration::from_secs(1)).await;
        for (disk, image) in tenant.disks.iter().zip(images) {
            disk.set_image(image);
        }
        self.up().await
    }

    async fn drop_and_create(&mut self, g: usize) -> Result<(), Failure> {
        self.notice().await;
        let tenant = &mut self.tenants[g];
        tenant.pause_clients().await?;
        // A disk that is away keeps its header, and would be in the way.
        tenant.bring_online().await?;
        let group = tenant.group.take().expect("mounted");
        let dropped = tenant.inside(async move { group.drop_group(true).await }).await?;
        dropped
            .ok_or("the engine died by itself")?
            .map_err(|error| format!("{}: drop: {}", tenant.name, words(&error)))?;
        self.core.kill(tenant.process());
        self.core.sleep(Duration::from_secs(1)).await;
        tenant.clients.iter().for_each(|client| client.model().forget());
        tenant.full = false;
        tenant.create().await?;
        tenant.mount().await
    }

    /// A check that repairs what rot has done is killed, and done again.
    async fn killed_in_repair(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        self.tenants[g].pause_clients().await?;
        // No region is active but those in which it repairs.
        self.core.sleep(Duration::from_secs(20)).await;
        self.tenants[g].mood.pause.store(false, Ordering::Relaxed);
        self.silent(Fault::Rot, g, numbers).await?;
        let tenant = &mut self.tenants[g];
        let group = Arc::clone(tenant.group());
        self.core.fuse(tenant.process(), Some(numbers.below(3000)));
        let ended = tenant.inside(async move { group.check(true).await }).await?;
        tenant.say(|| format!("the repair {}", if ended.is_some() { "came to its end" } else { "was killed" }));
        tenant.kill(0).await?;
        if !tenant.try_mount().await? {
            return Err(format!("{}: not mounted after a repair was killed", tenant.name));
        }
        tenant.repair().await?;
        tenant.check().await?;
        tenant.start_clients();
        Ok(())
    }
}

impl Tenant {
    /// One mount, which may die of its fuse; nobody works then.
    async fn mount_once(&mut self) -> Result<(), Failure> {
        self.world = self.host.process();
        let world = Arc::clone(&self.world) as Arc<dyn World>;
        self.dying_mounts = 0;
        let steps = self.core.below(2500);
        self.core.fuse(self.process(), Some(steps));
        let name = self.name;
        let _ = self.inside(async move { Group::mount(world, name, false).await.map(drop) }).await?;
        self.core.kill(self.process());
        Ok(())
    }
}
