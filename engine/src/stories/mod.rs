//! Tests of mechanisms on whole groups with disks in memory. Each of them reaches into the engine:
//! a job that the catalog's thread holds, a single I/O that hangs, an extent's mirrors. Stories
//! that need only a session, statements and failing disks run in virtual time:
//! `sim/tests/stories`.

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
mod templates;
mod volumes;

use crate::{
    admin::{Code, OperationPass, OperationState, Selection},
    api::{Allocate, Caller, Changes, NewFile, Node, ROOT, Seek},
    catalog::CatalogFile,
    disk::member::Member,
    error::FileError,
    extent::Extent,
    files::session::Session,
    group::Group,
    testing::{Fuse, MemoryDisk, Numbers, TestWorld, block_on, new_group, run_until},
    world::World,
};
use plinth_format::{Au, Redundancy, layout::MIB, membership::DiskState};
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
            member.layout().au_offset(run.first)
                ..member.layout().au_offset(Au(run.first.0 + run.count))
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
