//! What a mount finds in sight: a disk that is not what it was, at another path, or not there at all; one half of a group
//! after the other.

use crate::{
    coverage::State,
    disk::SimDisk,
    history::{End, Failure, Story},
    misfortune::{ANY_END, moment, pick},
    plan::Fault,
    tenant::{AT_ONCE, Ill, Undo, words},
};
use plinth_engine::{
    group::Group,
    testing::{Image, Numbers},
};
use plinth_format::{layout::MIB, membership::DiskState};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Virtual time after which an image of a disk is more than one stamp old.
const NIGHT: Duration = Duration::from_secs(150);

/// How often, and after what virtual time each, it is looked whether a disk that returns has got something.
const COPY_LOOKS: u32 = 500;
const COPY_LOOK: Duration = Duration::from_millis(5);

impl Story {
    /// A device is not what it was: an old image, one of two, shorter, somebody else's.
    pub async fn swap(
        &mut self,
        fault: Fault,
        g: usize,
        numbers: &mut Numbers,
    ) -> Result<(), Failure> {
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
            let end = *pick(numbers, &ANY_END);
            self.down(g, end, moment(numbers)).await?;
            // I/O of the engine that was killed lands before.
            self.core.sleep(Duration::from_secs(1)).await;
        }
        let tenant = &mut self.tenants[g];
        if live {
            let is_away =
                |group: &Arc<Group>| tenant.state_of(group, &disk) == Some(DiskState::Offline);
            if !tenant.group.as_ref().is_some_and(is_away) {
                // Nobody has asked it for anything, or it is no member any more.
                disk.heal();
                return Ok(());
            }
        }
        if live && fault == Fault::OldImage && numbers.below(4) > 0 {
            return self.back_in_between(g, &disk, numbers).await;
        }
        if !live && fault == Fault::OldImage && numbers.below(2) == 0 {
            // It is out of sight at a mount, and shown later as it was long before.
            return self.shown_later(g, &disk, earlier).await;
        }
        let current = disk.image();
        // Whether it is noted on the host which device was used: then the other one is a copy.
        let mut is_noted = false;
        let mut copies = Vec::new();
        match fault {
            Fault::OldImage => {
                // Where nobody may know that it is old, what it was can be put back.
                if !live {
                    tenant.undo.push(Undo::Image(disk.clone(), current));
                }
                disk.set_image(earlier);
            }
            Fault::CloneShown => {
                is_noted = numbers.below(2) == 0;
                if !is_noted {
                    tenant.host.forget_notes();
                }
                tenant.host.attach(&clone_path, clone);
                tenant.undo.push(Undo::Detach(clone_path.clone()));
                if !live && numbers.below(2) == 0 {
                    // Copies of all, as an array's snapshot shows them.
                    for other in
                        tenant.disks.clone().iter().filter(|other| other.label() != disk.label())
                    {
                        let path = format!("{}-clone", tenant.path_of(other));
                        tenant
                            .host
                            .attach(&path, other.clone_as(&format!("{}-clone", other.label())));
                        tenant.undo.push(Undo::Detach(path.clone()));
                        copies.push(path);
                    }
                }
            }
            Fault::Shrunk => {
                let size = disk.size();
                tenant.undo.push(Undo::Size(disk.clone(), size));
                disk.set_size(tenant.shape.disks[tenant.index_of(&disk)].1 / MIB / 2 * MIB);
            }
            _ => {
                tenant.undo.push(Undo::Image(disk.clone(), current));
                disk.set_image(Image::noisy(numbers.draw()));
            }
        }
        disk.reappear();
        tenant.ill.insert(name, Ill::Away);
        if !live {
            let refused = !tenant.try_mount().await?;
            if refused {
                // Too few can be counted on without it.
                tenant.put_right();
                tenant.mount().await?;
            } else {
                copies.iter().for_each(|path| tenant.host.detach(path));
                if fault == Fault::OldImage {
                    // It was taken for what it is: its true bytes do not come back.
                    tenant.undo.retain(
                        |undo| !matches!(undo, Undo::Image(of, _) if of.label() == disk.label()),
                    );
                }
                tenant.start_clients();
            }
            self.up().await?;
        } else if fault != Fault::OldImage {
            let asked = tenant.ask_online().await?;
            self.core.sleep(Duration::from_secs(2)).await;
            let tenant = &mut self.tenants[g];
            if !is_noted && tenant.is_member(&disk) && tenant.serves(tenant.group(), &disk) {
                return Err(format!(
                    "{}: {} is taken back although it is {}",
                    tenant.name,
                    disk.label(),
                    fault.name()
                ));
            }
            if let Err(error) = asked {
                tenant.say(|| format!("online: {}", words(&error)));
            }
        }
        Ok(())
    }

    /// A disk that is away is back for a part of its resync, goes again, and is then shown as it was while it was away.
    async fn back_in_between(
        &mut self,
        g: usize,
        disk: &SimDisk,
        numbers: &mut Numbers,
    ) -> Result<(), Failure> {
        self.work(60).await?;
        let absent = disk.image();
        disk.heal();
        let tenant = &mut self.tenants[g];
        tenant.slow_down(Duration::from_millis(numbers.below(250)));
        if let Err(error) = tenant.ask_online().await? {
            tenant.say(|| format!("online: {}", words(&error)));
        }
        let is_copying = |group: &Arc<Group>| {
            group
                .operations()
                .iter()
                .any(|one| one.pass == "RESYNC" && one.state == "RUN" && one.so_far > 0)
        };
        for _ in 0..COPY_LOOKS {
            if tenant.group.as_ref().is_none_or(is_copying) {
                break;
            }
            self.core.sleep(COPY_LOOK).await;
        }
        let end = *pick(numbers, &[End::Killed, End::Dismounted]);
        let moment = if numbers.below(2) == 0 { AT_ONCE } else { moment(numbers) };
        self.down(g, end, moment).await?;
        self.shown_later(g, disk, absent).await
    }

    /// A disk is out of sight at a mount, and then shown with other bytes.
    async fn shown_later(&mut self, g: usize, disk: &SimDisk, image: Image) -> Result<(), Failure> {
        self.hide(g, std::slice::from_ref(disk));
        if !self.mount_what_is_there(g, false, 30).await? {
            return self.all_in_sight(g).await;
        }
        self.tenants[g].pause_clients().await?;
        self.core.sleep(NIGHT).await;
        let tenant = &mut self.tenants[g];
        tenant.start_clients();
        if !tenant.is_member(disk) {
            return self.up().await;
        }
        tenant.say(|| format!("{} is shown as it was some time ago", disk.label()));
        disk.set_image(image);
        tenant.undo.retain(|undo| !matches!(undo, Undo::Attach(of) if of.label() == disk.label()));
        let path = tenant.path_of(disk);
        tenant.host.attach(&path, disk.clone());
        self.up().await
    }

    /// A disk is found at another path, or at two, after a mount.
    pub async fn new_path(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let end = *pick(numbers, &[End::Killed, End::Dismounted]);
        self.down(g, end, moment(numbers)).await?;
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

    /// Takes disks out of sight, and says whether more than may be lost.
    fn hide(&mut self, g: usize, hidden: &[SimDisk]) {
        let tenant = &mut self.tenants[g];
        // Nor is a copy of one of them: it would be taken for the disk, and what is written meanwhile would be on it alone.
        for copy in &tenant.undo {
            if let Undo::Detach(path) = copy {
                tenant.host.detach(path);
            }
        }
        for disk in hidden {
            tenant.host.detach_all(disk);
            tenant.undo.push(Undo::Attach(disk.clone()));
            let name = tenant.shape.disks[tenant.index_of(disk)].0.clone();
            tenant.ill.insert(name, Ill::Away);
        }
        let data = tenant.ill.keys().filter(|name| !name.starts_with('Q')).count();
        tenant.beyond = data > tenant.budget();
        let labels: Vec<&str> = hidden.iter().map(SimDisk::label).collect();
        tenant.say(|| format!("out of sight: {}", labels.join(", ")));
    }

    /// Mounts a group some of whose disks are out of sight, if it can be, and works with it for a while.
    async fn mount_what_is_there(
        &mut self,
        g: usize,
        must: bool,
        operations: u64,
    ) -> Result<bool, Failure> {
        let tenant = &mut self.tenants[g];
        if tenant.beyond {
            tenant.mood.lenient.store(true, Ordering::Relaxed);
            tenant.mood.doubtful.store(true, Ordering::Relaxed);
        }
        if tenant.try_mount().await? {
            tenant.start_clients();
            self.work(operations).await?;
            return Ok(true);
        }
        if must {
            return Err(format!(
                "{}: not mounted although enough of its disks are there",
                tenant.name
            ));
        }
        Ok(false)
    }

    /// Some disks are out of sight at a mount.
    pub async fn subset(
        &mut self,
        g: usize,
        end: End,
        numbers: &mut Numbers,
    ) -> Result<(), Failure> {
        let tenant = &mut self.tenants[g];
        tenant.part_with_former();
        // Disks that leave have no vote.
        let moves = |group: &Arc<Group>| {
            group.operations().iter().any(|one| one.pass == "REBALANCE" && one.state != "DONE")
        };
        let is_still = !tenant.group.as_ref().is_some_and(moves);
        let was_whole = matches!(tenant.state(), State::Whole | State::Full)
            && tenant.ill.is_empty()
            && is_still;
        self.down(g, end, moment(numbers)).await?;
        let tenant = &self.tenants[g];
        let mut hidden: Vec<SimDisk> = tenant.disks.clone();
        let share = 1 + numbers.below(5);
        // Of the whole group, or of one failure group.
        let groups = tenant.shape.failure_groups();
        let only = (share == 1 || numbers.below(2) == 0).then(|| pick(numbers, &groups));
        hidden.retain(|disk| {
            let is_of_it =
                only.is_none_or(|name| tenant.shape.disks[tenant.index_of(disk)].0 == *name);
            tenant.host.has(&tenant.path_of(disk)) && is_of_it && numbers.below(share) == 0
        });
        self.hide(g, &hidden);
        let tenant = &self.tenants[g];
        let voters = tenant.shape.failure_groups().len().min(5);
        let missing = tenant.ill.len();
        // Whichever they are, a majority votes, and each extent has a mirror in sight.
        let enough = was_whole
            && !tenant.beyond
            && voters > 2 * missing.min(voters)
            && !tenant.is_external();
        let mounted =
            self.mount_what_is_there(g, enough || (was_whole && hidden.is_empty()), 30).await?;
        if mounted && !self.tenants[g].beyond {
            // It stays so for a while.
            return self.up().await;
        }
        self.all_in_sight(g).await
    }

    /// Everything is shown again, and mounted.
    async fn all_in_sight(&mut self, g: usize) -> Result<(), Failure> {
        if self.tenants[g].group.is_some() {
            self.down(g, End::Killed, AT_ONCE).await?;
        }
        self.tenants[g].put_right();
        self.up().await?;
        let tenant = &mut self.tenants[g];
        tenant.until_looked().await?;
        tenant.beyond = false;
        tenant.mood.be_strict();
        tenant.bring_online().await?;
        tenant.failure()?;
        tenant.ill.clear();
        Ok(())
    }

    /// Whether all is well, and one failure group alone is no half of the voters.
    pub fn has_quorum(&self, g: usize) -> bool {
        let tenant = &self.tenants[g];
        let is_well = tenant.ill.is_empty()
            && tenant.undo.is_empty()
            && !tenant.mood.lenient.load(Ordering::Relaxed);
        let is_still = tenant.state() == State::Whole;
        is_well && is_still && !tenant.is_external() && tenant.shape.failure_groups().len() > 2
    }

    /// All voters but one do not answer: nothing is in force without them. Now and then the mount was one by force, with all
    /// in sight, which takes nothing along.
    pub async fn most_silent(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        if numbers.below(2) == 0 {
            self.down(g, End::Dismounted, AT_ONCE).await?;
            self.tenants[g].mount_by_force().await?;
            self.work(20).await?;
        }
        let tenant = &mut self.tenants[g];
        tenant.part_with_former();
        let before = tenant.group().members();
        let stays = pick(numbers, &tenant.shape.failure_groups()).clone();
        if tenant.is_half(&stays) {
            // A disk has left meanwhile.
            return Ok(());
        }
        tenant.say(|| format!("nobody answers but failure group {stays}"));
        tenant.mood.lenient.store(true, Ordering::Relaxed);
        tenant.mood.doubtful.store(true, Ordering::Relaxed);
        for (disk, (name, _)) in tenant.disks.iter().zip(&tenant.shape.disks) {
            disk.faults(|faults| faults.hang = *name != stays);
        }
        self.notice().await;
        let tenant = &mut self.tenants[g];
        let after = tenant.group().members();
        if before != after {
            return Err(format!(
                "{}: in force on failure group {stays} alone: {after:?}",
                tenant.name
            ));
        }
        tenant.make_whole().await
    }

    /// Two halves of the group, such as two sites, go and come in any order.
    pub async fn halves(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let groups = self.tenants[g].shape.failure_groups();
        let one: Vec<bool> = groups.iter().map(|_| numbers.below(2) == 0).collect();
        for _ in 0..2 + numbers.below(3) {
            if self.tenants[g].group.is_some() {
                let end = *pick(numbers, &ANY_END);
                self.down(g, end, moment(numbers)).await?;
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
}
