//! The life of a group's engine: created, mounted, dismounted, killed, without power.

use super::{AT_ONCE, IDLE_LASTS, PATIENCE, SimGroup, Undo, default_names, words};
use crate::{disk::SimDisk, executor::Fuse, history::Failure};
use plinth_engine::{admin::Code, group::Group, testing::new_group, world::World};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Virtual time that a mount may wait for disks before they are healed.
pub(super) const MOUNT_WAIT: Duration = Duration::from_secs(120);

/// Engines that may be replaced because their catalog has stopped, before that counts as a failure.
const STOPS_MAX: u32 = 5;

/// The errors of a mount that lacks disks.
fn for_want_of_disks(code: Code) -> bool {
    matches!(
        code,
        Code::NoQuorum | Code::NoGroup | Code::WouldLoseData | Code::DuplicateDisk | Code::Io
    )
}

impl SimGroup {
    pub async fn create(&mut self) -> Result<(), Failure> {
        self.world = self.host.process();
        self.names = default_names(self.name, self.disks.len());
        if self.is_external() {
            // Each disk is its own failure group, which counts when there are to be more mirrors.
            self.shape
                .disks
                .iter_mut()
                .zip(&self.names)
                .for_each(|((group, _), name)| group.clone_from(name));
        }
        let groups = self.shape.disks.iter().map(|(name, _)| name.as_str());
        let mut new = new_group(
            self.shape.redundancy,
            self.shape.au_size,
            self.paths.iter().map(String::as_str).zip(groups),
        );
        new.name = self.name.to_owned();
        for (disk, (_, size)) in new.disks.iter_mut().zip(&self.shape.disks) {
            disk.size = Some(*size);
        }
        let world = Arc::clone(&self.world) as Arc<dyn World>;
        let made = self.inside(async move { Group::create(&world, new).await }).await?;
        made.ok_or("killed")?
            .map_err(|error| format!("{}: create: {}", self.name, words(&error)))?;
        self.core.kill(self.process());
        Ok(())
    }

    /// Mounts the group in a new process, which may die several times before. Whether it could be
    /// mounted.
    ///
    /// # Errors
    /// If it is refused for another reason than missing disks.
    pub async fn try_mount(&mut self) -> Result<bool, Failure> {
        let end = self.core.now() + PATIENCE;
        loop {
            self.world = self.host.process();
            let world = Arc::clone(&self.world) as Arc<dyn World>;
            if self.dying_mounts > 0 {
                self.dying_mounts -= 1;
                self.core.fuse(self.process(), Some(self.moment_of_mount()));
            }
            let (name, force) = (self.name, self.force);
            let waited =
                self.heal_after(if self.faulty.is_empty() { PATIENCE * 2 } else { MOUNT_WAIT });
            let mounted =
                self.inside(async move { Group::mount(world, name, force).await }).await?;
            waited.store(false, Ordering::Relaxed);
            match mounted {
                Some(Ok(group)) if !self.core.is_dead(self.process()) => {
                    self.core.fuse(self.process(), None);
                    group.prefer_reads(&self.preferred());
                    self.group = Some(group);
                    self.forget_failures();
                    self.part_with_former();
                    self.note_redundancy();
                    self.lives += 1;
                    self.explained.store(0, Ordering::Relaxed);
                    self.rewritten.store(0, Ordering::Relaxed);
                    return Ok(true);
                }
                Some(Err(error)) if error.code == Code::HeldElsewhere && self.core.now() < end => {
                    self.say(|| format!("mount: {}", words(&error)));
                    self.core.kill(self.process());
                    self.core.sleep(Duration::from_millis(50)).await;
                }
                Some(Err(error)) if for_want_of_disks(error.code) => {
                    self.say(|| format!("mount: {}", words(&error)));
                    self.core.kill(self.process());
                    return Ok(false);
                }
                Some(Err(error)) => return Err(format!("{}: mount: {}", self.name, words(&error))),
                _ => self.say(|| "the engine died while it mounted".to_owned()),
            }
        }
    }

    /// Every second life of an engine has preferred reads, each time from another failure group;
    /// the others read where it is faster.
    fn preferred(&self) -> BTreeSet<String> {
        let groups = self.shape.failure_groups();
        let number = usize::try_from(self.lives / 2).expect("few lives") % groups.len();
        groups.into_iter().nth(number).filter(|_| self.lives % 2 == 1).into_iter().collect()
    }

    /// A moment in a mount.
    pub fn moment_of_mount(&self) -> Fuse {
        match self.core.below(2) {
            0 => Fuse::Steps(self.core.below(2500)),
            _ => Fuse::Changes(self.core.below(1 << self.core.below(9))),
        }
    }

    /// A mount may have to wait for a voter that fails: its disk is healed after a while, unless
    /// the caller clears the flag.
    pub(super) fn heal_after(&self, wait: Duration) -> Arc<AtomicBool> {
        let needed = Arc::new(AtomicBool::new(true));
        let (asked, disks) = (Arc::clone(&needed), self.disks.clone());
        self.core.after(wait, move || {
            if asked.load(Ordering::Relaxed) {
                disks.iter().for_each(SimDisk::heal);
            }
        });
        needed
    }

    /// Mounts the group, with all disks healed if necessary. Then clients go on.
    pub async fn mount(&mut self) -> Result<(), Failure> {
        if !self.try_mount().await? {
            // With two voters of which one is missing or fails, it cannot be known which one
            // carried on: the message says so.
            if self.faulty.is_empty() && self.undo.is_empty() {
                return Err(format!("{}: not mounted, and nothing is wrong with it", self.name));
            }
            self.put_right();
            self.core.sleep(Duration::from_secs(1)).await;
            if !self.try_mount().await? {
                return Err(format!("{}: not mounted, and all is well again", self.name));
            }
        }
        self.start_clients();
        Ok(())
    }

    /// As [`Self::mount`], by force.
    pub async fn mount_by_force(&mut self) -> Result<(), Failure> {
        self.say(|| "it is mounted by force".to_owned());
        self.force = true;
        let mounted = self.mount().await;
        self.force = false;
        mounted
    }

    /// All disks are healed, and where they were.
    pub fn put_right(&mut self) {
        for undo in std::mem::take(&mut self.undo).into_iter().rev() {
            match undo {
                Undo::Detach(path) => self.host.detach(&path),
                Undo::Image(disk, image) => disk.set_image(image),
                Undo::Size(disk, size) => disk.set_size(size),
                Undo::Attach(disk) => {
                    // It may have got another path meanwhile.
                    let path = self.path_of(&disk);
                    self.host.attach(&path, disk);
                }
            }
        }
        self.disks.iter().for_each(SimDisk::heal);
    }

    /// The consequences of its engine's end for clients.
    pub fn ended(&mut self, power: bool) {
        if let Some(group) = self.group.take() {
            self.keep_caches(&group);
            // A durable write that fails counts as a failed flush: if the disk could not be spared,
            // bytes that were not synced are uncertain.
            let had_to_stay = self.disks.iter().filter(|disk| self.serves(&group, disk));
            let failed = had_to_stay.filter(|disk| disk.has_failed_durably()).count() > 0;
            self.lossy |= failed && self.expectations.tolerates_errors.load(Ordering::Relaxed);
        }
        self.dies_idle = false;
        self.expectations.burst.store(false, Ordering::Relaxed);
        self.expectations.churn.store(false, Ordering::Relaxed);
        for client in &self.clients {
            if power {
                client.model().power_cut();
            } else {
                client.model().engine_died(self.lossy);
            }
        }
        self.lossy = false;
    }

    /// Disks that the engine still uses lose nothing by a failed flush: it was not recorded.
    fn keep_caches(&self, group: &Group) {
        self.disks.iter().filter(|disk| self.serves(group, disk)).for_each(SimDisk::keep_cache);
    }

    /// Durable writes that have failed so far do not count for the next engine.
    fn forget_failures(&self) {
        self.disks.iter().for_each(|disk| _ = disk.has_failed_durably());
    }

    /// The engine is killed.
    pub async fn kill(&mut self, moment: Fuse) -> Result<(), Failure> {
        self.die(moment).await?;
        self.say(|| "the engine is killed".to_owned());
        self.ended(false);
        Ok(())
    }

    /// The engine dies soon.
    pub async fn die(&mut self, moment: Fuse) -> Result<(), Failure> {
        let process = self.process();
        let (patience, moment) = match moment {
            // Clients that rest take steps, too.
            Fuse::Steps(count) if self.dies_idle => (IDLE_LASTS, Fuse::Ios(count / 4)),
            // Work on regions and space that are idle for a while.
            moment @ (Fuse::Sums(_) | Fuse::Discards(_) | Fuse::Holes(_)) => {
                self.allow(20);
                (2 * IDLE_LASTS, moment)
            }
            moment if self.dies_idle => (IDLE_LASTS, moment),
            moment => {
                self.allow(20);
                (Duration::from_secs(1), moment)
            }
        };
        self.core.fuse(process, Some(moment));
        let (core, end) = (Arc::clone(&self.core), self.core.now() + patience);
        self.until("the engine's death", move |_| {
            if core.now() > end {
                core.kill(process);
            }
            core.is_dead(process)
        })
        .await
    }

    /// Dismounts the group; clients pause before, or get errors.
    pub async fn dismount(&mut self, force: bool) -> Result<(), Failure> {
        self.say(|| format!("the group is dismounted{}", if force { " by force" } else { "" }));
        if force {
            self.expectations.pause.store(true, Ordering::Relaxed);
        } else {
            self.pause_clients().await?;
        }
        let group = self.group.take().expect("mounted");
        let engine = Arc::clone(&group);
        // Now and then it dies before the end.
        if self.core.one_in(4) {
            let ios = self.core.below(1 << self.core.below(7));
            self.core.fuse(self.process(), Some(Fuse::Ios(ios)));
        }
        let ended = self.inside(async move { engine.dismount(force).await }).await?;
        if ended.is_none() {
            self.say(|| "the engine is killed in that".to_owned());
        }
        let is_clean = !force && matches!(ended, Some(Ok(())));
        if let Some(Err(error)) = ended {
            if !self.expectations.tolerates_errors.load(Ordering::Relaxed) && self.faulty.is_empty()
            {
                return Err(format!("{}: dismount: {}", self.name, words(&error)));
            }
            self.say(|| format!("dismount: {}", words(&error)));
        }
        self.core.kill(self.process());
        self.core.sleep(Duration::from_secs(1)).await;
        self.failure()?;
        self.keep_caches(&group);
        if is_clean
            && !self.lossy
            && !self.expectations.tolerates_errors.load(Ordering::Relaxed)
            && self.core.one_in(2)
        {
            self.say(|| "its disks lose power after that".to_owned());
            self.disks.iter().for_each(SimDisk::cut_power);
        }
        if is_clean {
            self.forget_failures();
        } else {
            // As if it had been killed: uncertain bytes stay uncertain.
            self.group = Some(group);
        }
        self.ended(false);
        Ok(())
    }

    /// An engine whose catalog has stopped reports it and ends; then another one takes over.
    pub async fn replace_if_stopped(&mut self) -> Result<(), Failure> {
        let Some(group) = self.group.clone().filter(|group| group.failure().is_some()) else {
            return Ok(());
        };
        if !self.expectations.tolerates_errors.load(Ordering::Relaxed) && !self.lossy {
            return Err(format!(
                "{}: the catalog stopped: {}",
                self.name,
                group.failure().unwrap_or_default()
            ));
        }
        self.say(|| "the engine ends, because its catalog has stopped".to_owned());
        self.inside(async move { group.last_words().await }).await?;
        self.lossy = true;
        if self.forgetful {
            // A failed flush may lose bytes that another engine wrote: they are not promised after
            // the mount.
            self.disks.iter().for_each(|disk| disk.faults(|faults| faults.failing_flushes = 0));
        }
        self.kill(AT_ONCE).await?;
        self.stops += 1;
        if self.stops > STOPS_MAX {
            self.say(|| "the disk under the catalog is repaired".to_owned());
            self.disks.iter().for_each(SimDisk::heal);
        }
        self.mount().await
    }
}
