//! Disks that are not visible at a mount, or visible as something else: a device is not what it
//! was, at another path, or missing; or the halves of a group are visible in turns.

use crate::{
    coverage::State,
    disk::SimDisk,
    faults::{ANY_END, moment, pick},
    history::{End, Failure, Story},
    plan::Fault,
    sim_group::{AT_ONCE, Condition, SimGroup, Undo, words},
};
use plinth_engine::{
    admin::{OperationPass, OperationState},
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

/// How often, and after what virtual time each, it is checked whether a resync has copied
/// something.
const COPY_LOOKS: u32 = 500;
const COPY_LOOK: Duration = Duration::from_millis(5);

impl Story {
    /// A device is replaced: by an old image, a clone, a shorter device, or foreign data.
    pub async fn swap(
        &mut self,
        fault: Fault,
        g: usize,
        numbers: &mut Numbers,
    ) -> Result<(), Failure> {
        let name = self.victim(g, numbers).await;
        let disk = pick(numbers, &self.sim_groups[g].disks_of(&name)).clone();
        self.sim_groups[g].say(|| format!("{}: {}", disk.label(), fault.name()));
        let earlier = disk.image();
        let clone = disk.clone_as(&format!("{}-clone", disk.label()));
        let clone_path = self.sim_groups[g].clone_path(&disk);
        self.work(40).await?;
        if fault == Fault::OldImage {
            self.sim_groups[g].pause_clients().await?;
            self.core.sleep(NIGHT).await;
            self.sim_groups[g].start_clients();
            self.work(10).await?;
        }
        let live = !self.sim_groups[g].is_external() && numbers.below(2) == 0;
        if live {
            // The engine notices first that the disk is gone.
            disk.faults(|faults| faults.gone = true);
            self.sim_groups[g].faulty.insert(name.clone(), Condition::Unavailable);
            self.work(40).await?;
            self.notice().await;
        } else {
            let end = *pick(numbers, &ANY_END);
            self.down(g, end, moment(numbers)).await?;
            // I/O of the engine that was killed lands before.
            self.core.sleep(Duration::from_secs(1)).await;
        }
        let sim_group = &mut self.sim_groups[g];
        if live {
            let is_away =
                |group: &Arc<Group>| sim_group.state_of(group, &disk) == Some(DiskState::Offline);
            if !sim_group.group.as_ref().is_some_and(is_away) {
                // The engine has had no I/O for it, or it is no member any more.
                disk.heal();
                return Ok(());
            }
        }
        if live && fault == Fault::OldImage && numbers.below(4) > 0 {
            return self.back_in_between(g, &disk, numbers).await;
        }
        if !live && fault == Fault::OldImage && numbers.below(2) == 0 {
            // It is missing at a mount, and shown later with a much older image.
            return self.shown_later(g, &disk, earlier).await;
        }
        let swapped =
            sim_group.swap_device(fault, &disk, earlier, (clone_path, clone), live, numbers);
        disk.reappear();
        sim_group.faulty.insert(name, Condition::Unavailable);
        if !live {
            sim_group.mount_swapped(fault, &disk, &swapped).await?;
            self.up().await?;
        } else if fault != Fault::OldImage {
            self.bring_swapped_online(fault, g, &disk, &swapped).await?;
        }
        Ok(())
    }

    /// A swapped device is brought ONLINE: it is taken only if the host has noted which device was
    /// used.
    async fn bring_swapped_online(
        &mut self,
        fault: Fault,
        g: usize,
        disk: &SimDisk,
        swapped: &Swapped,
    ) -> Result<(), Failure> {
        let asked = self.sim_groups[g].ask_online().await?;
        self.core.sleep(Duration::from_secs(2)).await;
        let sim_group = &self.sim_groups[g];
        let is_served = sim_group.is_member(disk) && sim_group.serves(sim_group.group(), disk);
        if !swapped.is_noted && is_served {
            return Err(format!(
                "{}: {} is taken back although it is {}",
                sim_group.name,
                disk.label(),
                fault.name()
            ));
        }
        if let Err(error) = asked {
            sim_group.say(|| format!("online: {}", words(&error)));
        }
        Ok(())
    }

    /// A disk that is OFFLINE comes back for a part of its resync, fails again, and is then shown
    /// as it was while it was OFFLINE.
    async fn back_in_between(
        &mut self,
        g: usize,
        disk: &SimDisk,
        numbers: &mut Numbers,
    ) -> Result<(), Failure> {
        self.work(60).await?;
        let absent = disk.image();
        disk.heal();
        let sim_group = &mut self.sim_groups[g];
        sim_group.slow_down(Duration::from_millis(numbers.below(250)));
        if let Err(error) = sim_group.ask_online().await? {
            sim_group.say(|| format!("online: {}", words(&error)));
        }
        let is_copying = |group: &Arc<Group>| {
            group.operations().iter().any(|one| {
                one.pass == OperationPass::Resync
                    && one.state == OperationState::Run
                    && one.so_far > 0
            })
        };
        for _ in 0..COPY_LOOKS {
            if sim_group.group.as_ref().is_none_or(is_copying) {
                break;
            }
            self.core.sleep(COPY_LOOK).await;
        }
        let end = *pick(numbers, &[End::Killed, End::Dismounted]);
        let moment = if numbers.below(2) == 0 { AT_ONCE } else { moment(numbers) };
        self.down(g, end, moment).await?;
        self.shown_later(g, disk, absent).await
    }

    /// A disk is missing at a mount, and then shown with other bytes.
    async fn shown_later(&mut self, g: usize, disk: &SimDisk, image: Image) -> Result<(), Failure> {
        self.hide(g, std::slice::from_ref(disk));
        if !self.mount_what_is_there(g, false, 30).await? {
            return self.show_all(g).await;
        }
        self.sim_groups[g].pause_clients().await?;
        self.core.sleep(NIGHT).await;
        let sim_group = &mut self.sim_groups[g];
        sim_group.start_clients();
        if !sim_group.is_member(disk) {
            return self.up().await;
        }
        sim_group.say(|| format!("{} is shown as it was some time ago", disk.label()));
        disk.set_image(image);
        sim_group
            .undo
            .retain(|undo| !matches!(undo, Undo::Attach(of) if of.label() == disk.label()));
        let path = sim_group.path_of(disk);
        sim_group.host.attach(&path, disk.clone());
        self.up().await
    }

    /// A disk is found at another path, or at two, after a mount.
    pub async fn new_path(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let end = *pick(numbers, &[End::Killed, End::Dismounted]);
        self.down(g, end, moment(numbers)).await?;
        let sim_group = &mut self.sim_groups[g];
        let disk = pick(numbers, &sim_group.disks).clone();
        let path = format!("/dev/new-{}-{}", disk.label(), numbers.below(1000));
        if numbers.below(2) == 0 {
            sim_group.move_to(&disk, &path);
        } else {
            sim_group.host.attach(&path, disk);
        }
        self.up().await
    }

    /// Hides disks, and notes whether that is more than may be lost.
    fn hide(&mut self, g: usize, hidden: &[SimDisk]) {
        let sim_group = &mut self.sim_groups[g];
        // Copies of them are hidden, too: a copy would be taken for the disk, and bytes that are
        // written meanwhile would be on it alone.
        for copy in &sim_group.undo {
            if let Undo::Detach(path) = copy {
                sim_group.host.detach(path);
            }
        }
        for disk in hidden {
            sim_group.host.detach_all(disk);
            sim_group.undo.push(Undo::Attach(disk.clone()));
            let name = sim_group.shape.disks[sim_group.index_of(disk)].0.clone();
            sim_group.faulty.insert(name, Condition::Unavailable);
        }
        let data = sim_group.faulty.keys().filter(|name| !name.starts_with('Q')).count();
        sim_group.beyond = data > sim_group.budget();
        let labels: Vec<&str> = hidden.iter().map(SimDisk::label).collect();
        sim_group.say(|| format!("missing: {}", labels.join(", ")));
    }

    /// Mounts a group that lacks some of its disks, if it can be mounted, and works with it for a
    /// while.
    async fn mount_what_is_there(
        &mut self,
        g: usize,
        must: bool,
        operations: u64,
    ) -> Result<bool, Failure> {
        let sim_group = &mut self.sim_groups[g];
        if sim_group.beyond {
            sim_group.expectations.tolerates_errors.store(true, Ordering::Relaxed);
            sim_group.expectations.reads_may_change.store(true, Ordering::Relaxed);
        }
        if sim_group.try_mount().await? {
            sim_group.start_clients();
            self.work(operations).await?;
            return Ok(true);
        }
        if must {
            return Err(format!(
                "{}: not mounted although enough of its disks are there",
                sim_group.name
            ));
        }
        Ok(false)
    }

    /// Some disks are missing at a mount.
    pub async fn subset(
        &mut self,
        g: usize,
        end: End,
        numbers: &mut Numbers,
    ) -> Result<(), Failure> {
        let sim_group = &mut self.sim_groups[g];
        sim_group.part_with_former();
        // Disks that are being dropped have no vote.
        let moves = |group: &Arc<Group>| {
            group.operations().iter().any(|one| {
                one.pass == OperationPass::Rebalance && one.state != OperationState::Done
            })
        };
        let is_still = !sim_group.group.as_ref().is_some_and(moves);
        let was_whole = matches!(sim_group.state(), State::Whole | State::Full)
            && sim_group.faulty.is_empty()
            && is_still;
        self.down(g, end, moment(numbers)).await?;
        let sim_group = &self.sim_groups[g];
        let mut hidden: Vec<SimDisk> = sim_group.disks.clone();
        let share = 1 + numbers.below(5);
        // Of the whole group, or of one failure group.
        let groups = sim_group.shape.failure_groups();
        let only = (share == 1 || numbers.below(2) == 0).then(|| pick(numbers, &groups));
        hidden.retain(|disk| {
            let is_of_it =
                only.is_none_or(|name| sim_group.shape.disks[sim_group.index_of(disk)].0 == *name);
            sim_group.host.has(&sim_group.path_of(disk)) && is_of_it && numbers.below(share) == 0
        });
        self.hide(g, &hidden);
        let sim_group = &self.sim_groups[g];
        let voters = sim_group.shape.failure_groups().len().min(5);
        let missing = sim_group.faulty.len();
        // Whichever disks are missing, a majority of the voters and a mirror of each extent are
        // visible.
        let enough = was_whole
            && !sim_group.beyond
            && voters > 2 * missing.min(voters)
            && !sim_group.is_external();
        let mounted =
            self.mount_what_is_there(g, enough || (was_whole && hidden.is_empty()), 30).await?;
        if mounted && !self.sim_groups[g].beyond {
            // The disks stay missing for a while.
            return self.up().await;
        }
        self.show_all(g).await
    }

    /// Shows all disks again, and mounts the group.
    async fn show_all(&mut self, g: usize) -> Result<(), Failure> {
        if self.sim_groups[g].group.is_some() {
            self.down(g, End::Killed, AT_ONCE).await?;
        }
        self.sim_groups[g].put_right();
        self.up().await?;
        let sim_group = &mut self.sim_groups[g];
        sim_group.until_looked().await?;
        sim_group.beyond = false;
        sim_group.expectations.expect_all();
        sim_group.bring_online().await?;
        sim_group.failure()?;
        sim_group.faulty.clear();
        Ok(())
    }

    /// Whether there is no fault, and no failure group alone has half of the voters.
    pub fn has_quorum(&self, g: usize) -> bool {
        let sim_group = &self.sim_groups[g];
        let is_well = sim_group.faulty.is_empty()
            && sim_group.undo.is_empty()
            && !sim_group.expectations.tolerates_errors.load(Ordering::Relaxed);
        let is_still = sim_group.state() == State::Whole;
        is_well
            && is_still
            && !sim_group.is_external()
            && sim_group.shape.failure_groups().len() > 2
    }

    /// All voters but one hang: no change of membership may come into force without them. Now and
    /// then the group was mounted by force before, with all disks visible, which must not change
    /// that.
    pub async fn most_silent(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        if numbers.below(2) == 0 {
            self.down(g, End::Dismounted, AT_ONCE).await?;
            self.sim_groups[g].mount_by_force().await?;
            self.work(20).await?;
        }
        let sim_group = &mut self.sim_groups[g];
        sim_group.part_with_former();
        let before = sim_group.group().members();
        let stays = pick(numbers, &sim_group.shape.failure_groups()).clone();
        if sim_group.is_half(&stays) {
            // A disk has left meanwhile.
            return Ok(());
        }
        sim_group.say(|| format!("only failure group {stays} answers"));
        sim_group.expectations.tolerates_errors.store(true, Ordering::Relaxed);
        sim_group.expectations.reads_may_change.store(true, Ordering::Relaxed);
        for (disk, (name, _)) in sim_group.disks.iter().zip(&sim_group.shape.disks) {
            disk.faults(|faults| faults.hang = *name != stays);
        }
        self.notice().await;
        let sim_group = &mut self.sim_groups[g];
        let after = sim_group.group().members();
        if before != after {
            return Err(format!(
                "{}: in force on failure group {stays} alone: {after:?}",
                sim_group.name
            ));
        }
        sim_group.make_whole().await
    }

    /// Two halves of the group, such as two sites, become visible and invisible in any order.
    pub async fn halves(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let groups = self.sim_groups[g].shape.failure_groups();
        let one: Vec<bool> = groups.iter().map(|_| numbers.below(2) == 0).collect();
        for _ in 0..2 + numbers.below(3) {
            if self.sim_groups[g].group.is_some() {
                let end = *pick(numbers, &ANY_END);
                self.down(g, end, moment(numbers)).await?;
            }
            self.sim_groups[g].put_right();
            let shown = numbers.below(3);
            let mut hidden = Vec::new();
            for (name, first) in groups.iter().zip(&one) {
                if (shown == 0 && *first) || (shown == 1 && !*first) {
                    hidden.extend(self.sim_groups[g].disks_of(name));
                }
            }
            self.hide(g, &hidden);
            self.mount_what_is_there(g, false, 15).await?;
        }
        self.show_all(g).await
    }
}

/// The result of a swap of a device.
struct Swapped {
    /// The host has noted which device was used: then the other one is a copy.
    is_noted: bool,
    /// Paths of copies of other disks.
    copies: Vec<String>,
}

impl SimGroup {
    /// Puts something else in the place of a device. `live`: the engine runs, without the disk.
    fn swap_device(
        &mut self,
        fault: Fault,
        disk: &SimDisk,
        earlier: Image,
        (clone_path, clone): (String, SimDisk),
        live: bool,
        numbers: &mut Numbers,
    ) -> Swapped {
        let current = disk.image();
        let mut swapped = Swapped { is_noted: false, copies: Vec::new() };
        match fault {
            Fault::OldImage => {
                // While no engine runs none can know that it is old: then the newer image can be
                // put back.
                if !live {
                    self.undo.push(Undo::Image(disk.clone(), current));
                }
                disk.set_image(earlier);
            }
            Fault::CloneShown => {
                swapped.is_noted = numbers.below(2) == 0;
                if !swapped.is_noted {
                    self.host.forget_notes();
                }
                self.show_clone(clone_path, clone);
                if !live && numbers.below(2) == 0 {
                    // Copies of all, as an array's snapshot shows them.
                    for other in self.disks.clone() {
                        if other.label() != disk.label() {
                            let clone = other.clone_as(&format!("{}-clone", other.label()));
                            let path = self.clone_path(&other);
                            swapped.copies.push(path.clone());
                            self.show_clone(path, clone);
                        }
                    }
                }
            }
            Fault::Shrunk => {
                self.undo.push(Undo::Size(disk.clone(), disk.size()));
                disk.set_size(self.shape.disks[self.index_of(disk)].1 / MIB / 2 * MIB);
            }
            _ => {
                self.undo.push(Undo::Image(disk.clone(), current));
                disk.set_image(Image::noisy(numbers.draw()));
            }
        }
        swapped
    }

    /// The path of a copy of a disk.
    fn clone_path(&self, disk: &SimDisk) -> String {
        format!("{}-clone", self.path_of(disk))
    }

    /// Shows a copy of a disk until the disks are put right.
    fn show_clone(&mut self, path: String, clone: SimDisk) {
        self.host.attach(&path, clone);
        self.undo.push(Undo::Detach(path));
    }

    /// Mounts the group with a device swapped, or put right if it cannot be mounted so.
    async fn mount_swapped(
        &mut self,
        fault: Fault,
        disk: &SimDisk,
        swapped: &Swapped,
    ) -> Result<(), Failure> {
        if !self.try_mount().await? {
            // Too few can be counted on without it.
            self.put_right();
            return self.mount().await;
        }
        swapped.copies.iter().for_each(|path| self.host.detach(path));
        if fault == Fault::OldImage {
            // The mount has found that it is old: its newer bytes do not come back.
            let is_of_it =
                |undo: &Undo| matches!(undo, Undo::Image(of, _) if of.label() == disk.label());
            self.undo.retain(|undo| !is_of_it(undo));
        }
        self.start_clients();
        Ok(())
    }
}
