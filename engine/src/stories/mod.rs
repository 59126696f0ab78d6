//! Tests on whole groups with disks in memory: file contents after crashes, I/O errors and lost
//! disks.

mod access;
mod add_drop;
mod attributes;
mod catalog_growth;
mod checksum_zones;
mod convert;
mod copies;
mod corruption;
mod discards;
mod dismounts;
mod disputes;
mod doubtful_commits;
mod flushes;
mod hanging;
mod health;
mod kills;
mod mends;
mod moves;
mod names;
mod own_metadata;
mod partial_blocks;
mod reads;
mod reminders;
mod resize;
mod resyncs;
mod room;
mod scrubs;
mod silence;
mod sizes;
mod slots;
mod stats;
mod stress;
mod takeover;
mod templates;
mod volumes;

use crate::{
    admin::{Code, OperationPass, OperationState, Selection},
    api::{Allocate, Caller, Changes, NewFile, Node, ROOT, RenameMode, Seek},
    catalog::CatalogFile,
    disk::member::Member,
    error::FileError,
    extent::Extent,
    files::session::Session,
    group::Group,
    testing::{Fuse, MemoryDisk, Numbers, TestWorld, block_on, new_group, run_until},
    world::World,
};
use plinth_format::{Redundancy, layout::MIB, membership::DiskState};
use std::{sync::Arc, time::Duration};

/// Turns a catalog into one as the first version of the engine made it.
const FIRST_VERSION: &str = "DROP TABLE reply; DROP TABLE template; DROP TABLE access_user; DROP TABLE access_group;
    DROP TABLE access_member; DROP TABLE volume; ALTER TABLE file DROP COLUMN said; ALTER TABLE file DROP COLUMN fine;
    ALTER TABLE entry DROP COLUMN system; ALTER TABLE extent DROP COLUMN mirrors;
    UPDATE file SET type = NULL; PRAGMA user_version = 1;";

const ROOT_CALLER: Caller = Caller { uid: 0, gid: 0 };

/// Disks in memory, the simulated host that has them, and a group called DATA.
struct Lab {
    world: Arc<TestWorld>,
    disks: Vec<MemoryDisk>,
    group: Option<Arc<Group>>,
    redundancy: Redundancy,
    groups: Vec<String>,
    /// Bytes of each disk that the group uses; `None` is the whole disk.
    used: Option<u64>,
}

impl Lab {
    /// One disk of `size` bytes, filled with random bytes, for each entry of `failure_groups`.
    fn new(redundancy: Redundancy, size: u64, failure_groups: &[&str]) -> Self {
        Self::with_sectors(redundancy, size, failure_groups, 512, 4096)
    }

    fn with_sectors(
        redundancy: Redundancy,
        size: u64,
        failure_groups: &[&str],
        logical: u32,
        physical: u32,
    ) -> Self {
        Self::of(redundancy, size, failure_groups, (logical, physical), None)
    }

    fn of_size(
        redundancy: Redundancy,
        size: u64,
        failure_groups: &[&str],
        used: Option<u64>,
    ) -> Self {
        Self::of(redundancy, size, failure_groups, (512, 4096), used)
    }

    fn of(
        redundancy: Redundancy,
        size: u64,
        failure_groups: &[&str],
        (logical, physical): (u32, u32),
        used: Option<u64>,
    ) -> Self {
        let world = TestWorld::new();
        let disks: Vec<_> = (0..failure_groups.len())
            .map(|index| {
                MemoryDisk::noisy(
                    &format!("/disk{index}"),
                    size,
                    logical,
                    physical,
                    index as u64 + 1,
                )
            })
            .collect();
        disks.iter().for_each(|disk| world.attach(disk));
        let groups = failure_groups.iter().map(|&name| name.to_owned()).collect();
        let mut lab = Self { world, disks, group: None, redundancy, groups, used };
        lab.create(MIB).expect("the group is made");
        lab.mount();
        lab
    }

    fn world(&self) -> Arc<dyn World> {
        Arc::clone(&self.world) as Arc<dyn World>
    }

    fn create(&mut self, au_size: u64) -> Result<(), crate::admin::AdminError> {
        self.create_with(au_size, false)
    }

    fn create_by_force(&mut self, au_size: u64) -> Result<(), crate::admin::AdminError> {
        self.create_with(au_size, true)
    }

    fn create_with(&mut self, au_size: u64, force: bool) -> Result<(), crate::admin::AdminError> {
        let disks =
            self.disks.iter().map(MemoryDisk::path).zip(self.groups.iter().map(String::as_str));
        let mut new = new_group(self.redundancy, au_size, disks);
        for disk in &mut new.disks {
            (disk.size, disk.force) = (self.used, force);
        }
        block_on(Group::create(&self.world(), new))
    }

    fn try_mount(&mut self, force: bool) -> Result<(), crate::admin::AdminError> {
        self.group = Some(block_on(Group::mount(self.world(), "DATA", force))?);
        Ok(())
    }

    fn mount(&mut self) {
        if let Err(error) = self.try_mount(false) {
            panic!("mount: {error} ({:?})", error.hint);
        }
    }

    fn group(&self) -> &Arc<Group> {
        self.group.as_ref().expect("mounted")
    }

    fn session(&self) -> Session {
        Session::new(Arc::clone(self.group()), None)
    }

    fn dismount(&mut self) {
        let group = self.group.take().expect("mounted");
        block_on(group.dismount(false)).expect("it dismounts in good order");
    }

    /// Kills the engine's process: bytes already written stay, and it does nothing more.
    fn kill(&mut self) {
        let group = self.group.take().expect("mounted");
        self.disks.iter().for_each(MemoryDisk::kill_users);
        group.abandon();
    }

    /// After `changes` more changes to the disks the fuse blows: no later change has an effect, as
    /// if the engine was killed or the power was cut.
    fn light_fuse(&self, changes: u64) -> Fuse {
        let fuse = Fuse::new(changes);
        self.disks.iter().for_each(|disk| disk.put_fuse(&fuse));
        fuse
    }

    fn no_fuse(&self) {
        self.light_fuse(1 << 40);
    }

    /// Cuts the host's power.
    fn cut_power(&mut self, seed: u64) {
        let group = self.group.take().expect("mounted");
        self.disks.iter().zip(0..).for_each(|(disk, index)| disk.cut_power(seed * 1000 + index));
        group.abandon();
        self.world.reboot();
    }

    fn create_file(&self, name: &str) -> Node {
        block_on(self.session().create(ROOT, name.as_bytes(), NewFile::Regular, 0o644, ROOT_CALLER))
            .expect("the file is made")
            .node
    }

    fn write(&self, node: Node, offset: u64, bytes: &[u8]) {
        block_on(self.session().write(node, offset, bytes, false))
            .expect("the write is acknowledged");
    }

    fn sync(&self, node: Node) {
        block_on(self.session().sync(node, true)).expect("the sync is acknowledged");
    }

    fn read(&self, node: Node, offset: u64, length: usize) -> Vec<u8> {
        self.try_read(node, offset, length).expect("the bytes are read")
    }

    fn try_read(&self, node: Node, offset: u64, length: usize) -> Result<Vec<u8>, FileError> {
        let mut bytes = vec![0xee; length];
        let count = block_on(self.session().read(node, offset, &mut bytes))?;
        bytes.truncate(count);
        Ok(bytes)
    }

    fn find(&self, name: &str) -> Node {
        block_on(self.session().lookup(ROOT, name.as_bytes())).expect("the file is there").node
    }

    /// Runs the check on every disk, and fails the test if it finds a problem.
    fn check(&self) {
        let report = block_on(self.group().check(false)).expect("the check runs");
        let problems: Vec<_> =
            report.problems.iter().map(|problem| problem.text.as_str()).collect();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    fn wait_for(&self, what: &str, ready: impl Fn() -> bool) {
        // Long, as the host that runs the tests may be busy.
        let patience = std::time::Instant::now() + Duration::from_secs(180);
        while std::time::Instant::now() < patience {
            if ready() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let events: Vec<_> = self.world.events().iter().map(ToString::to_string).collect();
        panic!("{what} did not happen in three minutes\n{}", events.join("\n"));
    }

    fn member(&self, disk: usize) -> Arc<Member> {
        Arc::clone(self.group().members.values().nth(disk).expect("there is such a disk"))
    }

    fn state(&self, disk: usize) -> DiskState {
        self.member(disk).state()
    }

    /// Sets the disk timeout to ten minutes, now and for the next mount: a disk may leave I/O
    /// unanswered for that long.
    fn allow_silence(&self) {
        block_on(self.group().set_attribute("disk_timeout", "600")).expect("it is set");
    }

    /// The extents with a mirror on each of these disks and no other, in the order of their ids.
    fn extents_on(&self, disks: &[u16]) -> Vec<Arc<Extent>> {
        let (mut all, _) = block_on(self.group().some_alive(0))
            .expect("the catalog is read")
            .expect("there are some");
        let on = |extent: &Extent| {
            extent.disks().map(|disk| disk.0).collect::<std::collections::BTreeSet<_>>()
        };
        all.retain(|extent| on(extent) == disks.iter().copied().collect());
        all
    }

    /// Index of a disk without a mirror of the catalog.
    fn plain_disk(&self) -> usize {
        let membership = self.group().voters.current();
        let mut numbers = membership.disks.iter().map(|disk| disk.number);
        numbers
            .position(|number| membership.catalog.iter().all(|run| run.disk != number))
            .expect("there is one")
    }

    /// A group of five disks with EXTERNAL redundancy, and a synced file `table` with extents on
    /// all of them. The disk whose index is returned holds nothing of the catalog, so commits do
    /// not flush it.
    fn with_a_plain_disk() -> (Self, Node, usize) {
        let lab = Self::new(Redundancy::External, 128 * MIB, &["A", "B", "C", "D", "E"]);
        let plain = lab.plain_disk();
        let node = lab.create_file("table");
        lab.write(node, 0, &pattern(1, 24 << 20));
        lab.sync(node);
        (lab, node, plain)
    }

    /// An extent of the file whose only mirror is on this disk.
    fn extent_alone_on(&self, disk: usize, node: Node) -> Arc<Extent> {
        let number = self.member(disk).number.0;
        self.extents_on(&[number])
            .into_iter()
            .find(|extent| extent.file == node)
            .expect("every disk has some")
    }

    /// Takes one of the two disks (of five) without a mirror of the catalog offline; the other one
    /// cannot be spared then. Returns the numbers of both: the offline one, then the needed one.
    fn leave_one_that_is_needed(&self) -> (u16, u16) {
        let membership = self.group().voters.current();
        let mut plain =
            (0..5).filter(|number| membership.catalog.iter().all(|run| run.disk.0 != *number));
        let (away, needed) = (plain.next().expect("it has few"), plain.next().expect("it has few"));
        assert!(!self.extents_on(&[away, needed]).is_empty(), "every two disks have some");
        self.offline(usize::from(away));
        (away, needed)
    }

    /// Closes all active regions: the checksum blocks on the disks are current then.
    fn close_regions(&self) {
        while block_on(self.group().close_idle(true)).expect("they are closed") {}
    }

    /// The byte ranges of a disk that a file of the catalog occupies.
    fn runs_of(&self, file: CatalogFile, disk: usize) -> Vec<std::ops::Range<u64>> {
        let group = self.group();
        let member = group.members.values().nth(disk).expect("there is such a disk");
        let membership = group.voters.current();
        let runs =
            membership.catalog.iter().filter(|run| (run.file, run.disk) == (file, member.number));
        runs.map(|run| {
            member.layout().au_offset(run.first)..member.layout().au_offset(run.first + run.count)
        })
        .collect()
    }

    /// The byte ranges of a disk for the activity log. A disk without a vote has them too, unused.
    fn places_of_logs(&self, disk: usize) -> Vec<std::ops::Range<u64>> {
        let places =
            self.member(disk).areas().iter().flat_map(|area| area.activity).collect::<Vec<_>>();
        places
            .into_iter()
            .map(|place| place..place + plinth_format::layout::ACTIVITY_SLOT as u64)
            .collect()
    }

    fn votes(&self, disk: usize) -> bool {
        let number = self.member(disk).number;
        self.group().voters.current().voters().any(|voter| voter.number == number)
    }

    /// Makes every I/O of a disk fail from now on.
    fn silence(&self, disk: usize) {
        self.disks[disk].faults(|faults| {
            faults.fail_reads = true;
            faults.fail_writes = true;
            faults.fail_flushes = true;
        });
    }

    fn online_all(&self) {
        block_on(self.group().online(Selection::All)).expect("the disks come back");
        // A resync ends only when the catalog has its mirrors again: before that the group would
        // not survive a second loss.
        let ended = || {
            self.group().operations().iter().all(|operation| operation.state != OperationState::Run)
        };
        self.wait_for("the resync", || {
            (0..self.disks.len()).all(|disk| self.state(disk) == DiskState::Online) && ended()
        });
    }

    /// Keeps the catalog's thread busy until the sender is dropped; then the future completes.
    fn keep_catalog_busy(
        &self,
    ) -> (std::sync::mpsc::Sender<()>, crate::world::Task<'static, Result<(), FileError>>) {
        let catalog = Arc::clone(&self.group().catalog);
        let (go_on, waits) = std::sync::mpsc::channel::<()>();
        let job = {
            let catalog = Arc::clone(&catalog);
            let wait = move |_: &rusqlite::Connection| {
                let _ = waits.recv();
                Ok(())
            };
            async move { catalog.release(false, wait).await.map(drop) }
        };
        let mut busy = Box::pin(job);
        assert!(futures::FutureExt::now_or_never(busy.as_mut()).is_none());
        self.wait_for("the job", || catalog.jobs_waiting() == 0);
        (go_on, busy)
    }

    fn told(&self, text: &str) -> bool {
        self.world.events().iter().any(|event| event.text.contains(text))
    }
}

/// Pseudo-random bytes of this seed: bytes from a wrong place compare unequal.
fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Numbers::new(seed).fill(&mut bytes);
    bytes
}

/// A file reads back at unaligned offsets, and again after a dismount and a mount.
#[test]
fn a_file_reads_back_before_and_after_a_remount() {
    for (redundancy, groups) in [
        (Redundancy::External, &["A"][..]),
        (Redundancy::Normal, &["A", "B"][..]),
        (Redundancy::High, &["A", "B", "C"][..]),
    ] {
        let mut lab = Lab::new(redundancy, 64 * MIB, groups);
        let node = lab.create_file("base");
        let bytes = pattern(7, 3_000_017);
        lab.write(node, 12_345, &bytes);
        assert_eq!(lab.read(node, 12_345, bytes.len()), bytes);
        assert_eq!(lab.read(node, 0, 12_345), vec![0; 12_345]);
        assert_eq!(lab.read(node, 12_345 + 77_777, 5), &bytes[77_777..77_782]);
        assert_eq!(lab.read(node, 3_000_017 + 12_345, 10), b"");
        lab.sync(node);
        lab.check();
        lab.dismount();
        lab.mount();
        let node = lab.find("base");
        assert_eq!(lab.read(node, 12_345, bytes.len()), bytes);
        lab.check();
        lab.dismount();
    }
}

/// The engine is killed without a sync: every acknowledged write reads back after the next mount.
#[test]
fn a_killed_engine_loses_nothing_that_was_acknowledged() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("wal");
    for round in 0..5 {
        let bytes = pattern(round, 300_000);
        lab.write(node, round * 1_000_000, &bytes);
        lab.kill();
        lab.mount();
        let node = lab.find("wal");
        for before in 0..=round {
            assert_eq!(
                lab.read(node, before * 1_000_000, 300_000),
                pattern(before, 300_000),
                "round {round}"
            );
        }
        lab.check();
    }
}

/// A file is removed after a crash, before recovery comes to the shared extent with the file's
/// slot. Recovery still compares the mirrors of that extent's other slots.
#[test]
fn recovery_compares_a_shared_extent_although_a_file_in_it_was_removed() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    // Recovery begins with this file.
    let large = lab.create_file("large");
    lab.write(large, 0, &pattern(1, 40 << 20));
    let (kept, gone) = (lab.create_file("kept"), lab.create_file("gone"));
    for node in [kept, gone] {
        lab.write(node, 0, &pattern(2, 5_000));
    }
    lab.kill();
    lab.mount();
    block_on(lab.session().unlink(ROOT, b"gone")).expect("removed");
    lab.wait_for("recovery", || lab.told("recovery ended"));
    lab.check();
    assert_eq!(lab.read(lab.find("kept"), 0, 5_000), pattern(2, 5_000));
}

/// After a power cut synced bytes read back. Unsynced bytes read as the old ones, the new ones or
/// zeros, never as bytes of another file.
#[test]
fn a_power_cut_keeps_synced_bytes() {
    for seed in 0..12 {
        let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
        let node = lab.create_file("table");
        let old = pattern(1, 200_000);
        lab.write(node, 0, &old);
        lab.sync(node);
        block_on(lab.session().sync_directory(ROOT)).expect("synced");
        let new = pattern(2, 100_000);
        lab.write(node, 50_000, &new);
        lab.write(node, 400_000, &new);
        lab.cut_power(seed);
        lab.mount();
        let node = lab.find("table");
        let now = lab.read(node, 0, 500_000);
        assert_eq!(now[..50_000], old[..50_000], "seed {seed}");
        assert_eq!(now[150_000..200_000], old[150_000..], "seed {seed}");
        let sector = |at: usize| {
            let range = at..(at + 512).min(150_000);
            now[range.clone()] == old[range.clone()]
                || now[range.clone()] == new[range.start - 50_000..range.end - 50_000]
        };
        // Begins at the first whole sector of the overwritten range.
        assert!((50_176..149_900).step_by(512).all(sector), "seed {seed}: neither old nor new");
        if now.len() > 400_000 {
            let fresh = &now[400_000..];
            assert!(
                fresh.iter().all(|byte| *byte == 0),
                "seed {seed}: unsynced pieces read as zeros"
            );
        }
        lab.check();
    }
}

/// A synced small file grows out of its slot, then the power is cut: the synced bytes read back.
#[test]
fn a_power_cut_after_a_promotion_keeps_synced_bytes() {
    for seed in 0..20 {
        let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
        let node = lab.create_file("table");
        let old = pattern(1, 20_000);
        lab.write(node, 0, &old);
        lab.sync(node);
        block_on(lab.session().sync_directory(ROOT)).expect("synced");
        lab.write(node, 70_000, &pattern(2, 8192));
        lab.cut_power(seed);
        lab.mount();
        assert_eq!(lab.read(lab.find("table"), 0, old.len()), old, "seed {seed}");
        lab.check();
    }
}

/// A power cut loses the new size of a file that grew, and leaves bytes beyond the old end on the
/// disks. When the file grows again, they read as zeros.
#[test]
fn bytes_lost_by_a_power_cut_do_not_come_back_when_the_file_grows() {
    for seed in 0..20 {
        let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
        let node = lab.create_file("table");
        lab.write(node, 0, &pattern(1, 5_000));
        lab.sync(node);
        block_on(lab.session().sync_directory(ROOT)).expect("synced");
        lab.write(node, 5_000, &pattern(2, 40_000));
        lab.cut_power(seed);
        lab.mount();
        let node = lab.find("table");
        let size = block_on(lab.session().attributes(node)).expect("it is there").size;
        if seed % 2 == 0 {
            block_on(
                lab.session().change(node, Changes { size: Some(60_000), ..Changes::default() }),
            )
            .expect("grown");
        } else {
            lab.write(node, 59_990, b"ten bytes.");
        }
        let tail = lab.read(node, size, 59_990 - usize::try_from(size).expect("small"));
        assert!(tail.iter().all(|byte| *byte == 0), "seed {seed}, size {size}");
        lab.check();
    }
}

/// As above, but a program punches a hole there before the file grows, and does not sync that: the
/// new size may become durable before the zeros do.
#[test]
fn bytes_punched_after_a_power_cut_do_not_come_back_when_the_file_grows() {
    let mut met = 0;
    for seed in 0..6 {
        let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C", "D", "E", "F"]);
        let names: Vec<String> = (0..8).map(|number| format!("table{number}")).collect();
        for name in &names {
            let node = lab.create_file(name);
            lab.write(node, 0, &pattern(1, 100_000));
            block_on(
                lab.session().change(node, Changes { size: Some(5_000), ..Changes::default() }),
            )
            .expect("cut");
            lab.sync(node);
        }
        names.iter().for_each(|name| lab.write(lab.find(name), 5_000, &pattern(2, 40_000)));
        lab.cut_power(seed);
        lab.mount();
        // The sync flushes the disks: the bytes that the power cut left there are durable.
        let other = lab.create_file("other");
        lab.write(other, 0, &pattern(4, 100_000));
        lab.sync(other);
        let size = |lab: &Lab, name: &str| {
            block_on(lab.session().attributes(lab.find(name))).expect("it is there").size
        };
        let short: Vec<&String> = names.iter().filter(|name| size(&lab, name) == 5_000).collect();
        for name in &short {
            let node = lab.find(name);
            block_on(lab.session().allocate(node, 5_000, 50_000, Allocate::PunchHole, false))
                .expect("punched");
            lab.write(node, 5_000, &pattern(3, 3_000));
        }
        // The caretaker does this once a second.
        block_on(lab.group().files.store_times(&lab.group().catalog)).expect("sizes are stored");
        block_on(lab.session().sync_directory(ROOT)).expect("synced");
        lab.cut_power(seed + 100);
        lab.mount();
        for name in short.iter().filter(|name| size(&lab, name) == 8_000) {
            met += 1;
            let tail = lab.read(lab.find(name), 5_000, 3_000);
            let right =
                tail.iter().zip(pattern(3, 3_000)).all(|(byte, new)| *byte == 0 || *byte == new);
            assert!(right, "seed {seed}, {name}");
        }
        lab.check();
    }
    assert!(met > 5, "{met}");
}

/// Every I/O of one failure group fails, and the other one goes on. When the first one is back, a
/// resync copies all that it missed.
#[test]
fn a_failure_group_that_failed_is_complete_after_its_resync() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "A", "B", "B"]);
    let node = lab.create_file("table");
    let mut bytes = pattern(1, 6_000_000);
    lab.write(node, 0, &bytes);
    for disk in [2, 3] {
        lab.disks[disk].faults(|faults| {
            faults.fail_reads = true;
            faults.fail_writes = true;
            faults.fail_flushes = true;
        });
    }
    for round in 0..20 {
        let new = pattern(100 + round, 40_000);
        let offset = usize::try_from(round).expect("small") * 290_000;
        lab.write(node, offset as u64, &new);
        bytes[offset..offset + new.len()].copy_from_slice(&new);
    }
    lab.sync(node);
    assert_eq!(lab.read(node, 0, bytes.len()), bytes);
    let other = lab.create_file("made while away");
    lab.write(other, 0, &bytes[..200_000]);
    assert_eq!([lab.state(2), lab.state(3)], [DiskState::Offline; 2]);
    assert!(lab.told("ONLINE DISK"));
    lab.disks.iter().for_each(MemoryDisk::heal);
    lab.online_all();
    // Now the other failure group fails: the first one must hold all data.
    for disk in [0, 1] {
        lab.disks[disk].faults(|faults| {
            faults.fail_reads = true;
            faults.fail_writes = true;
            faults.fail_flushes = true;
        });
    }
    assert_eq!(lab.read(node, 0, bytes.len()), bytes);
    assert_eq!(lab.read(other, 0, 200_000), &bytes[..200_000]);
    lab.write(node, 5, b"still writing");
    lab.disks.iter().for_each(MemoryDisk::heal);
    lab.online_all();
    lab.check();
    lab.dismount();
}

/// A disk does not answer. The write waits no longer than the disk timeout, and the disk goes
/// offline.
#[test]
fn a_hanging_disk_goes_offline_and_io_continues() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 100_000));
    lab.disks[1].faults(|faults| faults.hang = true);
    lab.write(node, 0, &pattern(2, 100_000));
    lab.sync(node);
    assert_eq!(lab.state(1), DiskState::Offline);
    assert_eq!(lab.read(node, 0, 100_000), pattern(2, 100_000));
    lab.disks[1].heal();
    lab.online_all();
    lab.disks[0].faults(|faults| faults.hang = true);
    assert_eq!(lab.read(node, 0, 100_000), pattern(2, 100_000));
    lab.disks[0].heal();
}

/// All disks of a failure group hang: their timeouts run at the same time and do not add up.
#[test]
fn a_hanging_failure_group_is_one_wait() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "A", "A", "B", "B", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 6_000_000));
    for disk in 3..6 {
        lab.disks[disk].faults(|faults| faults.hang = true);
    }
    let began = lab.world.monotonic();
    for round in 0..10 {
        lab.write(node, round * 600_000, &pattern(2, 600_000));
        lab.sync(node);
    }
    // The disk timeout is 1 s, and the three must not add up.
    let waited = lab.world.monotonic().saturating_sub(began);
    let timeouts: Vec<_> = lab
        .world
        .events()
        .iter()
        .filter(|event| event.text.contains("is offline"))
        .cloned()
        .collect();
    assert_eq!(timeouts.len(), 3, "{timeouts:?}");
    assert!((3..6).all(|disk| lab.state(disk) == DiskState::Offline), "after {waited:?}");
    assert_eq!(lab.read(node, 5_400_000, 600_000), pattern(2, 600_000));
    lab.disks.iter().for_each(MemoryDisk::heal);
    lab.online_all();
    lab.check();
}

/// One bad sector on one mirror: the read returns good data, the block is rewritten, and the disk
/// stays online.
#[test]
fn a_bad_sector_is_healed_from_the_other_mirror() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    let bytes = pattern(1, 500_000);
    lab.write(node, 0, &bytes);
    lab.sync(node);
    for disk in &lab.disks {
        let at =
            (0..64 * MIB).step_by(4096).find(|at| disk.peek(*at, 4096) == bytes[81_920..86_016]);
        let at = at.expect("every mirror has the block");
        disk.faults(|faults| faults.bad.push(at..at + 512));
        assert_eq!(lab.read(node, 0, bytes.len()), bytes);
        assert_eq!(lab.read(node, 0, bytes.len()), bytes);
        disk.heal();
    }
    assert!((0..2).all(|disk| lab.state(disk) == DiskState::Online));
    lab.check();
}

/// A flush fails once and would succeed on a retry. The disk goes offline all the same, and returns
/// only by a resync.
#[test]
fn a_failed_flush_is_never_retried_into_success() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 500_000));
    lab.disks[1].faults(|faults| faults.fail_flushes = true);
    lab.sync(node);
    lab.disks[1].heal();
    assert_eq!(lab.state(1), DiskState::Offline);
    lab.write(node, 0, &pattern(2, 500_000));
    lab.sync(node);
    assert_eq!(lab.state(1), DiskState::Offline);
    lab.online_all();
    lab.disks[0].faults(|faults| faults.fail_reads = true);
    assert_eq!(lab.read(node, 0, 500_000), pattern(2, 500_000));
}

/// OFFLINE takes all the disks that it names offline, or none of them.
#[test]
fn offline_is_all_or_nothing() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "A", "B", "B"]);
    lab.write(lab.create_file("table"), 0, &pattern(1, 3_000_000));
    let refusal =
        block_on(lab.group().offline(Selection::All, None)).expect_err("nothing would be left");
    assert_eq!(refusal.code, Code::WouldLoseData);
    assert!((0..4).all(|disk| lab.state(disk) == DiskState::Online));
    block_on(lab.group().offline(Selection::FailureGroups(vec!["B".to_owned()]), None))
        .expect("one failure group");
    assert_eq!([lab.state(2), lab.state(3)], [DiskState::Offline; 2]);
    lab.online_all();
    lab.check();
}

/// The engine is killed while an unlinked small file is still open. The next engine frees the
/// file's slot before it has compared the mirrors of the shared extent. It compares them all the
/// same: afterwards any one mirror is enough.
#[test]
fn recovery_compares_a_shared_extent_although_a_slot_in_it_was_freed() {
    let mut lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B"]);
    // Large enough to keep the comparison busy with other extents.
    let large = lab.create_file("large");
    lab.write(large, 0, &pattern(1, 24 << 20));
    let kept = lab.create_file("kept");
    lab.write(kept, 0, &pattern(2, 9000));
    let gone = lab.create_file("gone");
    lab.session().remember(gone, 1);
    lab.write(gone, 0, &pattern(3, 9000));
    block_on(lab.session().unlink(ROOT, b"gone")).expect("its name goes");
    lab.kill();
    lab.mount();
    lab.wait_for("the recovery", || lab.told("recovery ended"));
    lab.disks[1].faults(|faults| (faults.fail_reads, faults.fail_writes) = (true, true));
    assert_eq!(lab.read(lab.find("kept"), 0, 9000), pattern(2, 9000));
    lab.disks[1].heal();
    lab.create_file("another");
    lab.check();
}

/// Blocks are corrupt on the only current mirror while the other disk is resynced: the blocks
/// around them are copied.
#[test]
fn a_resync_copies_the_blocks_around_a_lost_block() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    block_on(lab.group().offline(Selection::FailureGroups(vec!["B".to_owned()]), None))
        .expect("it may go");
    let bytes = pattern(1, 1_000_000);
    lab.write(node, 0, &bytes);
    lab.sync(node);
    let place = (0..64 * MIB)
        .step_by(4096)
        .find(|at| lab.disks[0].peek(*at, 4096) == bytes[40 * 4096..41 * 4096]);
    lab.disks[0].corrupt(place.expect("the block is on the disk"), &[0xa5; 4096]);
    lab.online_all();
    lab.disks[0].faults(|faults| (faults.fail_reads, faults.fail_writes) = (true, true));
    assert_eq!(lab.read(node, 0, 40 * 4096), &bytes[..40 * 4096]);
    assert_eq!(lab.read(node, 41 * 4096, 800_000), &bytes[41 * 4096..][..800_000]);
    assert!(lab.try_read(node, 40 * 4096, 4096).is_err(), "a read of the lost block fails");
}

/// Blocks of one mirror are corrupted: a read returns good data, and the blocks are repaired and
/// counted.
#[test]
fn a_read_repairs_corrupt_blocks_of_one_mirror() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    let bytes = pattern(1, 2_000_000);
    lab.write(node, 0, &bytes);
    lab.sync(node);
    for _ in 0..2 {
        for disk in &lab.disks {
            // A third of the blocks that hold some of the file.
            for offset in (0..64 * MIB).step_by(4096) {
                let block = disk.peek(offset, 4096);
                if bytes.windows(4096).step_by(4096).any(|piece| piece == block) && offset % 3 == 0
                {
                    disk.corrupt(offset, &pattern(offset, 4096));
                }
            }
            assert_eq!(lab.read(node, 0, bytes.len()), bytes);
            assert_eq!(lab.read(node, 0, bytes.len()), bytes);
            let report = block_on(lab.group().check(true)).expect("the check runs");
            assert!(report.is_good(), "{:?}", report.problems);
        }
        assert!(lab.told("repaired 4 KiB"));
        lab.check();
        lab.dismount();
        lab.mount();
    }
}

/// All header copies but one are zeroed: the group mounts, the copies are repaired, and an event
/// says so.
#[test]
fn one_header_copy_is_enough_for_a_mount() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let places = lab.group().members.values().next().expect("a disk").layout().header_places();
    lab.dismount();
    for lost in 0..places.len() {
        for (index, place) in places.into_iter().enumerate() {
            if index != lost {
                lab.disks[0].corrupt(place, &[0; 4096]);
            }
        }
        lab.mount();
        assert!(lab.told("repaired the header copy"));
        lab.check();
        lab.dismount();
    }
}

/// One half of the disks is written while the other half is away. A mount of the stale half alone
/// is refused, and the error's hint names the missing disk.
#[test]
fn a_mount_of_the_stale_half_alone_is_refused() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, b"old");
    lab.disks[1].faults(|faults| {
        faults.fail_writes = true;
        faults.fail_reads = true;
        faults.fail_flushes = true;
    });
    lab.write(node, 0, b"new");
    lab.sync(node);
    lab.dismount();
    lab.disks[1].heal();
    lab.world.detach("/disk0");
    let refusal = lab.try_mount(false).expect_err("the stale half alone");
    assert_eq!(refusal.code, Code::NoQuorum);
    assert!(refusal.hint.is_some_and(|hint| hint.contains("/disk0") || hint.contains("DATA_0000")));
    lab.world.attach(&lab.disks[0]);
    lab.world.detach("/disk1");
    lab.mount();
    assert_eq!(lab.read(lab.find("table"), 0, 3), b"new");
    lab.dismount();
    lab.world.attach(&lab.disks[1]);
    lab.mount();
    lab.online_all();
    lab.check();
    lab.dismount();
}

/// The current half is destroyed, and the stale half is mounted by force with the data that it has.
/// When the other half is found after all, its history has lost: it is copied whole, and none of
/// its data is read.
#[test]
fn a_stale_half_can_be_mounted_by_force() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, b"old");
    lab.sync(node);
    block_on(lab.session().sync_directory(ROOT)).expect("synced");
    lab.disks[1].faults(|faults| {
        faults.fail_writes = true;
        faults.fail_reads = true;
        faults.fail_flushes = true;
    });
    lab.write(node, 0, b"new");
    lab.dismount();
    lab.disks[1].heal();
    lab.world.detach("/disk0");
    assert_eq!(lab.try_mount(false).expect_err("refused").code, Code::NoQuorum);
    lab.try_mount(true).expect("forced");
    assert_eq!(lab.read(lab.find("table"), 0, 3), b"old");
    lab.write(lab.find("table"), 0, b"mine");
    lab.dismount();
    lab.mount();
    assert_eq!(lab.read(lab.find("table"), 0, 4), b"mine");
    lab.dismount();
    // Both halves are discovered: two histories. The operator detaches one, mounts the other, and
    // brings the first one back online.
    lab.world.attach(&lab.disks[0]);
    let refusal = lab.try_mount(false).expect_err("two histories");
    assert!(refusal.hint.is_some(), "{refusal}");
    lab.world.detach("/disk0");
    lab.mount();
    lab.world.attach(&lab.disks[0]);
    lab.online_all();
    assert!(lab.told("copied whole"));
    assert_eq!(lab.read(lab.find("table"), 0, 4), b"mine");
    lab.check();
    lab.dismount();
    lab.mount();
    assert_eq!(lab.state(0), DiskState::Online);
    lab.check();
}

/// Three mirrors: two failure groups may fail one after the other. If both fail at once, writes
/// wait.
#[test]
fn high_redundancy_survives_two_losses() {
    let lab = Lab::new(Redundancy::High, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    let fail = |disk: usize| {
        lab.disks[disk].faults(|faults| {
            faults.fail_reads = true;
            faults.fail_writes = true;
            faults.fail_flushes = true;
        });
    };
    fail(0);
    lab.write(node, 0, &pattern(1, 500_000));
    fail(1);
    lab.write(node, 0, &pattern(2, 500_000));
    lab.sync(node);
    assert_eq!(lab.read(node, 0, 500_000), pattern(2, 500_000));
    lab.disks.iter().for_each(MemoryDisk::heal);
    lab.online_all();
    lab.check();
    let other = lab.create_file("other");
    lab.write(other, 0, &pattern(9, 500_000));
    // Both at once: one voter of three cannot record the loss.
    fail(0);
    fail(1);
    let session = lab.session();
    let writer =
        std::thread::spawn(move || block_on(session.write(node, 0, &pattern(3, 500_000), false)));
    lab.wait_for("the alarm", || lab.told("writes wait"));
    assert!(!writer.is_finished());
    assert_eq!(lab.read(other, 0, 500_000), pattern(9, 500_000), "reads go on");
    lab.disks.iter().for_each(MemoryDisk::heal);
    writer.join().expect("no panic").expect("the write goes on");
    assert_eq!(lab.read(node, 0, 500_000), pattern(3, 500_000));
}

/// With two quorum disks writes continue although two failure groups fail at once.
#[test]
fn quorum_disks_let_writes_go_on() {
    let lab = Lab::new(Redundancy::High, 64 * MIB, &["A", "B", "C", "Q1", "Q2"]);
    let node = lab.create_file("table");
    for disk in [0, 1] {
        lab.disks[disk].faults(|faults| {
            faults.fail_reads = true;
            faults.fail_writes = true;
            faults.fail_flushes = true;
        });
    }
    lab.write(node, 0, &pattern(3, 500_000));
    lab.sync(node);
    assert_eq!(lab.read(node, 0, 500_000), pattern(3, 500_000));
    lab.disks.iter().for_each(MemoryDisk::heal);
    lab.online_all();
    lab.check();
}

/// A thousand small files take a slot each, not an AU each. A file that grows moves out of its
/// slot.
#[test]
fn small_files_share_extents() {
    let mut lab = Lab::new(Redundancy::Normal, 256 * MIB, &["A", "B"]);
    let before = block_on(lab.session().space()).expect("space").blocks_free;
    let nodes: Vec<_> = (0..1000).map(|index| lab.create_file(&format!("file{index}"))).collect();
    for (node, seed) in nodes.iter().zip(0..) {
        lab.write(*node, 0, &pattern(seed, 8192));
    }
    let after = block_on(lab.session().space()).expect("space").blocks_free;
    assert!((before - after) * 4096 <= 1000 * 65536 + MIB, "{} bytes", (before - after) * 4096);
    for (node, seed) in nodes.iter().zip(0..) {
        assert_eq!(lab.read(*node, 0, 9000), pattern(seed, 8192));
    }
    lab.write(nodes[5], 60_000, &pattern(7, 100_000));
    assert_eq!(lab.read(nodes[5], 0, 8192), pattern(5, 8192));
    assert_eq!(lab.read(nodes[5], 60_000, 100_000), pattern(7, 100_000));
    for index in 0..1000 {
        block_on(lab.session().unlink(ROOT, format!("file{index}").as_bytes())).expect("removed");
    }
    lab.wait_for("the space", || {
        block_on(lab.session().space()).expect("space").blocks_free >= before
    });
    lab.check();
    lab.dismount();
    lab.mount();
    lab.check();
}

/// The group becomes full: the write is refused with NoSpace, and space freed by a truncation can
/// be used at once.
#[test]
fn a_full_group_refuses_writes_until_space_is_freed() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("big");
    let mut at = 0;
    let chunk = pattern(1, MIB as usize);
    let told = loop {
        let free = block_on(lab.session().space()).expect("space").blocks_free;
        match block_on(lab.session().write(node, at, &chunk, false)) {
            Ok(()) => at += MIB,
            Err(FileError::NoSpace) => break free,
            Err(error) => panic!("{error}"),
        }
    };
    assert!(at > 20 * MIB && told * 4096 < 2 * MIB, "{at} written, {told} blocks said to be free");
    lab.sync(node);
    assert_eq!(lab.read(node, at - MIB, MIB as usize), chunk);
    block_on(lab.session().change(node, Changes { size: Some(MIB), ..Changes::default() }))
        .expect("cut");
    lab.write(node, 5 * MIB, &chunk);
    lab.check();
}

/// Overwriting synced data is one write of each mirror and no commit, although the kernel asks for
/// the set-user-ID bits to be cleared: there are none. If there is one, the write clears it.
#[test]
fn overwriting_needs_no_commit() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let session = lab.session();
    let node = lab.create_file("wal");
    lab.write(node, 0, &pattern(1, 256 << 10));
    lab.sync(node);
    let catalog = &lab.group().catalog;
    let counts = || lab.disks.iter().map(|disk| disk.counts().writes).collect::<Vec<_>>();
    // The caretaker stores times now and then, so one undisturbed try of five is enough.
    let quiet = (0..5).any(|_| {
        let (committed, written) = (catalog.committed(), counts());
        for turn in 0..10 {
            // The kernel sets this flag for a program without privileges.
            block_on(session.write(node, turn * 8192, &pattern(turn, 8192), true))
                .expect("it is written");
            block_on(session.sync(node, true)).expect("it is durable");
        }
        catalog.committed() == committed
            && counts().iter().zip(&written).all(|(now, then)| now - then == 10)
    });
    assert!(quiet, "a write is one write of each mirror, and no commit");
    // With a bit to clear, the write changes the mode.
    block_on(session.change(node, Changes { mode: Some(0o4755), ..Changes::default() }))
        .expect("the mode is set");
    block_on(session.write(node, 0, b"x", true)).expect("it is written");
    assert_eq!(block_on(session.attributes(node)).expect("it is there").mode & 0o7777, 0o755);
}

/// A file that is written like a log is durable when its sync returns, and that sync asks no disk
/// for a flush. Writes of other files in between are not made durable by it.
#[test]
fn a_log_is_durable_without_a_flush() {
    for seed in 0..10 {
        let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
        let session = lab.session();
        let (log, other) = (lab.create_file("log"), lab.create_file("other"));
        for node in [log, other] {
            lab.write(node, 0, &pattern(1, 256 << 10));
            lab.sync(node);
        }
        let flushes = || lab.disks.iter().map(|disk| disk.counts().flushes).sum::<u64>();
        let turn = |turn: u64| {
            lab.write(other, turn * 8192, &pattern(50 + turn, 8192));
            lab.write(log, turn * 8192, &pattern(100 + turn, 8192));
            block_on(session.sync(log, true)).expect("it is durable");
        };
        (0..4).for_each(turn);
        // The caretaker flushes now and then, so not every turn is without a flush.
        let quiet = (4..20).filter(|number| {
            let before = flushes();
            turn(*number);
            flushes() == before
        });
        assert!(quiet.count() > 8);
        // A rename before the sync is durable after it, too.
        let (old, new) = ((ROOT, &b"other"[..]), (ROOT, &b"moved"[..]));
        block_on(session.rename(old, new, RenameMode::Replace)).expect("it has another name");
        turn(20);
        drop(session);
        lab.cut_power(seed);
        lab.mount();
        assert_eq!(lab.find("moved"), other, "seed {seed}");
        for turn in 0..21 {
            assert_eq!(lab.read(log, turn * 8192, 8192), pattern(100 + turn, 8192), "seed {seed}");
        }
    }
}

/// An allocation larger than the free space is refused and takes no space. One that fits is made,
/// also if it needs more than one commit.
#[test]
fn an_allocation_that_does_not_fit_leaves_nothing_behind() {
    let lab = Lab::new(Redundancy::Normal, 400 * MIB, &["A", "B"]);
    let session = lab.session();
    let node = lab.create_file("wish");
    let free = || block_on(session.space()).expect("space").blocks_free;
    let before = free();
    assert!(before * 4096 > 300 * MIB, "more than one commit's worth fits");
    let reserve = Allocate::Reserve { keep_size: true };
    // The last length, counted unit by unit, would not fit into this host's memory either.
    for length in [before * 4096 + 8 * MIB, 1 << 40, 1 << 61] {
        let refused = block_on(session.allocate(node, 0, length, reserve, false));
        assert!(matches!(refused, Err(FileError::NoSpace)), "{length} bytes: {refused:?}");
        assert_eq!(free(), before, "{length} bytes");
    }
    block_on(session.allocate(node, 0, 300 * MIB, reserve, false)).expect("fits");
}

/// Holes read as zeros on disks full of random bytes: ranges that were never written, punched, or
/// cut off and grown again.
#[test]
fn holes_read_as_zeros() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let session = lab.session();
    let node = lab.create_file("sparse");
    lab.write(node, 5 * MIB + 100, b"far out");
    assert_eq!(lab.read(node, 0, 1000), vec![0; 1000]);
    assert_eq!(lab.read(node, 5 * MIB, 100), vec![0; 100]);
    assert_eq!(block_on(session.seek(node, 0, Seek::Data)).expect("data"), 5 * MIB);
    assert_eq!(block_on(session.seek(node, 0, Seek::Hole)).expect("hole"), 0);
    let bytes = pattern(1, 3 * MIB as usize);
    lab.write(node, 0, &bytes);
    block_on(session.allocate(node, 1000, 2_000_000, Allocate::PunchHole, false)).expect("punched");
    let mut expected = bytes.clone();
    expected[1000..2_001_000].fill(0);
    assert_eq!(lab.read(node, 0, bytes.len()), expected);
    block_on(session.change(node, Changes { size: Some(700_001), ..Changes::default() }))
        .expect("cut");
    block_on(session.change(node, Changes { size: Some(2 * MIB), ..Changes::default() }))
        .expect("grown");
    expected.truncate(700_001);
    expected.resize(2 * MIB as usize, 0);
    assert_eq!(lab.read(node, 0, 3 * MIB as usize), expected);
    lab.write(node, 2 * MIB, &bytes[..70_000]);
    block_on(session.change(node, Changes { size: Some(2 * MIB + 10), ..Changes::default() }))
        .expect("cut");
    block_on(session.change(node, Changes { size: Some(2 * MIB + 70_000), ..Changes::default() }))
        .expect("grown");
    let tail = lab.read(node, 2 * MIB, 70_000);
    assert_eq!(tail[..10], bytes[..10]);
    assert!(tail[10..].iter().all(|byte| *byte == 0));
    lab.check();
}

/// Random writes, syncs, kills, power cuts, and disks that fail and return, compared with a model
/// of the file.
#[test]
fn a_file_equals_its_model_under_random_failures() {
    for seed in 0..6 {
        let mut numbers = Numbers::new(seed);
        let mut lab = Lab::new(Redundancy::Normal, 96 * MIB, &["A", "A", "B", "B"]);
        lab.create_file("table");
        let size = 4 * MIB as usize;
        let mut model = vec![0; size];
        let node = lab.find("table");
        block_on(
            lab.session().change(node, Changes { size: Some(size as u64), ..Changes::default() }),
        )
        .expect("sized");
        for step in 0..60 {
            let node = lab.find("table");
            match numbers.below(14) {
                0..=7 => {
                    let length = 1 + usize::try_from(numbers.below(150_000)).expect("small");
                    let at = usize::try_from(numbers.below((size - length) as u64)).expect("small");
                    let bytes = pattern(numbers.draw(), length);
                    lab.write(node, at as u64, &bytes);
                    model[at..at + length].copy_from_slice(&bytes);
                }
                8 => lab.sync(node),
                9 => {
                    lab.kill();
                    lab.mount();
                }
                10 => {
                    lab.sync(node);
                    lab.cut_power(seed * 100 + step);
                    lab.mount();
                }
                11 => {
                    // One loss at a time: the group does not promise to survive two.
                    lab.online_all();
                    let disk = usize::try_from(numbers.below(4)).expect("small");
                    lab.disks[disk].faults(|faults| faults.fail_writes = true);
                    lab.write(node, 0, &model[..2_000_000]);
                    lab.disks[disk].heal();
                }
                12 => {
                    let length = 1 + usize::try_from(numbers.below(500_000)).expect("small");
                    let at = usize::try_from(numbers.below((size - length) as u64)).expect("small");
                    let punch = block_on(lab.session().allocate(
                        node,
                        at as u64,
                        length as u64,
                        Allocate::PunchHole,
                        false,
                    ));
                    punch.expect("punched");
                    model[at..at + length].fill(0);
                }
                _ => lab.online_all(),
            }
            let node = lab.find("table");
            assert_eq!(lab.read(node, 0, size), model, "seed {seed}, step {step}");
        }
        lab.online_all();
        lab.check();
        lab.dismount();
        lab.mount();
        assert_eq!(lab.read(lab.find("table"), 0, size), model, "seed {seed}");
        lab.check();
    }
}

/// The caretaker has written a file's times to the catalog, not durably, when a sync comes: they
/// are durable when it returns.
#[test]
fn a_sync_waits_for_times_that_are_being_stored() {
    for seed in 0..6 {
        let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
        let node = lab.create_file("table");
        lab.write(node, 0, b"before");
        block_on(lab.session().sync(node, false)).expect("it is durable");
        lab.write(node, 0, b"after!");
        let modified = block_on(lab.session().attributes(node)).expect("it is there").modified;
        block_on(lab.group().files.store_times(&lab.group().catalog)).expect("they are stored");
        let stored = lab.group().catalog.committed();
        block_on(lab.session().sync(node, false)).expect("it is durable");
        // The catalog must report it, too: that the flush of the data covered the catalog's log is
        // luck.
        assert!(lab.group().catalog.durable() >= stored);
        lab.cut_power(seed);
        lab.mount();
        let found =
            block_on(lab.session().attributes(lab.find("table"))).expect("it is there").modified;
        assert_eq!(found, modified, "seed {seed}");
    }
}

/// Synced small files grow out of their slots, and the power is cut when that is durable: no synced
/// byte is lost.
#[test]
fn growing_out_of_a_slot_keeps_synced_bytes() {
    for seed in 0..4 {
        let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
        let nodes: Vec<_> = (0..4).map(|index| lab.create_file(&format!("file{index}"))).collect();
        for (node, seed) in nodes.iter().zip(0..) {
            lab.write(*node, 0, &pattern(seed, 8000));
            lab.sync(*node);
        }
        nodes.iter().for_each(|node| lab.write(*node, 60_000, &pattern(9, 100_000)));
        block_on(lab.session().sync_directory(ROOT)).expect("all commits are durable");
        lab.cut_power(seed);
        lab.mount();
        for index in 0..4 {
            let node = lab.find(&format!("file{index}"));
            assert_eq!(lab.read(node, 0, 8000), pattern(index, 8000), "seed {seed}");
        }
        lab.check();
    }
}

/// Names survive a kill of the engine; a rename replaces its target atomically.
#[test]
fn names_survive_a_kill_of_the_engine() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("new");
    lab.write(node, 0, b"contents");
    lab.create_file("old");
    block_on(lab.session().rename((ROOT, b"new"), (ROOT, b"old"), RenameMode::Replace))
        .expect("renamed");
    lab.kill();
    lab.mount();
    assert_eq!(lab.read(lab.find("old"), 0, 100), b"contents");
    assert!(matches!(block_on(lab.session().lookup(ROOT, b"new")), Err(FileError::NotFound)));
    lab.check();
}

/// Disks with 512-byte sectors, with 512-byte sectors emulated on 4096 bytes, and with 4096-byte
/// sectors.
#[test]
fn a_group_works_on_disks_of_each_sector_size() {
    for (logical, physical) in [(512, 512), (512, 4096), (4096, 4096)] {
        let lab = Lab::with_sectors(Redundancy::Normal, 64 * MIB, &["A", "B"], logical, physical);
        let node = lab.create_file("table");
        lab.write(node, 511, &pattern(1, 77_777));
        assert_eq!(lab.read(node, 511, 77_777), pattern(1, 77_777));
        lab.check();
    }
}
