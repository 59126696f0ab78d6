//! The verbs of the stories: a simulated host with disks in memory, and a group called DATA.

use super::*;

/// Turns a catalog into one as the first version of the engine made it.
pub(super) const FIRST_VERSION: &str = "DROP TABLE reply; DROP TABLE template; DROP TABLE access_user; DROP TABLE access_group;
    DROP TABLE access_member; DROP TABLE volume; ALTER TABLE file DROP COLUMN said; ALTER TABLE file DROP COLUMN fine; ALTER TABLE file DROP COLUMN preformatted;
    ALTER TABLE entry DROP COLUMN system; ALTER TABLE extent DROP COLUMN mirrors;
    UPDATE file SET type = NULL; PRAGMA user_version = 1;";

pub(super) const ROOT_CALLER: Caller = Caller { uid: 0, gid: 0 };

/// Disks in memory, the simulated host that has them, and a group called DATA.
pub(super) struct Lab {
    pub(super) world: Arc<TestWorld>,
    pub(super) disks: Vec<MemoryDisk>,
    pub(super) group: Option<Arc<Group>>,
    pub(super) redundancy: Redundancy,
    pub(super) groups: Vec<String>,
    /// Bytes of each disk that the group uses; `None` is the whole disk.
    pub(super) used: Option<u64>,
}

impl Lab {
    /// One disk of `size` bytes, filled with random bytes, for each entry of `failure_groups`.
    pub(super) fn new(redundancy: Redundancy, size: u64, failure_groups: &[&str]) -> Self {
        Self::with_sectors(redundancy, size, failure_groups, 512, 4096)
    }

    pub(super) fn with_sectors(
        redundancy: Redundancy,
        size: u64,
        failure_groups: &[&str],
        logical: u32,
        physical: u32,
    ) -> Self {
        Self::of(redundancy, size, failure_groups, (logical, physical), None)
    }

    pub(super) fn of_size(
        redundancy: Redundancy,
        size: u64,
        failure_groups: &[&str],
        used: Option<u64>,
    ) -> Self {
        Self::of(redundancy, size, failure_groups, (512, 4096), used)
    }

    pub(super) fn of(
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

    pub(super) fn world(&self) -> Arc<dyn World> {
        Arc::clone(&self.world) as Arc<dyn World>
    }

    pub(super) fn create(&mut self, au_size: u64) -> Result<(), crate::admin::AdminError> {
        self.create_with(au_size, false)
    }

    pub(super) fn create_by_force(&mut self, au_size: u64) -> Result<(), crate::admin::AdminError> {
        self.create_with(au_size, true)
    }

    pub(super) fn create_with(
        &mut self,
        au_size: u64,
        force: bool,
    ) -> Result<(), crate::admin::AdminError> {
        let disks =
            self.disks.iter().map(MemoryDisk::path).zip(self.groups.iter().map(String::as_str));
        let mut new = new_group(self.redundancy, au_size, disks);
        for disk in &mut new.disks {
            (disk.size, disk.force) = (self.used, force);
        }
        block_on(Group::create(&self.world(), new))
    }

    pub(super) fn try_mount(&mut self, force: bool) -> Result<(), crate::admin::AdminError> {
        self.group = Some(block_on(Group::mount(self.world(), "DATA", force))?);
        Ok(())
    }

    pub(super) fn mount(&mut self) {
        if let Err(error) = self.try_mount(false) {
            panic!("mount: {error} ({:?})", error.hint);
        }
    }

    pub(super) fn group(&self) -> &Arc<Group> {
        self.group.as_ref().expect("mounted")
    }

    pub(super) fn session(&self) -> Session {
        Session::new(Arc::clone(self.group()), None)
    }

    pub(super) fn dismount(&mut self) {
        let group = self.group.take().expect("mounted");
        block_on(group.dismount(false)).expect("it dismounts in good order");
    }

    /// Kills the engine's process: bytes already written stay, and it does nothing more.
    pub(super) fn kill(&mut self) {
        let group = self.group.take().expect("mounted");
        self.disks.iter().for_each(MemoryDisk::kill_users);
        group.abandon();
    }

    /// After `changes` more changes to the disks the fuse blows: no later change has an effect, as
    /// if the engine was killed or the power was cut.
    pub(super) fn light_fuse(&self, changes: u64) -> Fuse {
        let fuse = Fuse::new(changes);
        self.disks.iter().for_each(|disk| disk.put_fuse(&fuse));
        fuse
    }

    pub(super) fn no_fuse(&self) {
        self.light_fuse(1 << 40);
    }

    /// Cuts the host's power.
    pub(super) fn cut_power(&mut self, seed: u64) {
        let group = self.group.take().expect("mounted");
        self.disks.iter().zip(0..).for_each(|(disk, index)| disk.cut_power(seed * 1000 + index));
        group.abandon();
        self.world.reboot();
    }

    pub(super) fn create_file(&self, name: &str) -> Node {
        block_on(self.session().create(ROOT, name.as_bytes(), NewFile::Regular, 0o644, ROOT_CALLER))
            .expect("the file is made")
            .node
    }

    pub(super) fn write(&self, node: Node, offset: u64, bytes: &[u8]) {
        block_on(self.session().write(node, offset, bytes, false))
            .expect("the write is acknowledged");
    }

    pub(super) fn sync(&self, node: Node) {
        block_on(self.session().sync(node, true)).expect("the sync is acknowledged");
    }

    pub(super) fn read(&self, node: Node, offset: u64, length: usize) -> Vec<u8> {
        self.try_read(node, offset, length).expect("the bytes are read")
    }

    pub(super) fn try_read(
        &self,
        node: Node,
        offset: u64,
        length: usize,
    ) -> Result<Vec<u8>, FileError> {
        let mut bytes = vec![0xee; length];
        let count = block_on(self.session().read(node, offset, &mut bytes))?;
        bytes.truncate(count);
        Ok(bytes)
    }

    pub(super) fn find(&self, name: &str) -> Node {
        block_on(self.session().lookup(ROOT, name.as_bytes())).expect("the file is there").node
    }

    /// Runs the check on every disk, and fails the test if it finds a problem.
    pub(super) fn check(&self) {
        let report = block_on(self.group().check(false)).expect("the check runs");
        let problems: Vec<_> =
            report.problems.iter().map(|problem| problem.text.as_str()).collect();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    pub(super) fn wait_for(&self, what: &str, ready: impl Fn() -> bool) {
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

    pub(super) fn member(&self, disk: usize) -> Arc<Member> {
        Arc::clone(self.group().members.values().nth(disk).expect("there is such a disk"))
    }

    pub(super) fn state(&self, disk: usize) -> DiskState {
        self.member(disk).state()
    }

    /// Sets the disk timeout to ten minutes, now and for the next mount: a disk may leave I/O
    /// unanswered for that long.
    pub(super) fn allow_silence(&self) {
        block_on(self.group().set_attribute("disk_timeout", "600")).expect("it is set");
    }

    /// The extents with a mirror on each of these disks and no other, in the order of their ids.
    pub(super) fn extents_on(&self, disks: &[u16]) -> Vec<Arc<Extent>> {
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
    pub(super) fn plain_disk(&self) -> usize {
        let membership = self.group().voters.current();
        let mut numbers = membership.disks.iter().map(|disk| disk.number);
        numbers
            .position(|number| membership.catalog.iter().all(|run| run.disk != number))
            .expect("there is one")
    }

    /// A group of five disks with EXTERNAL redundancy, and a synced file `table` with extents on
    /// all of them. The disk whose index is returned holds nothing of the catalog, so commits do
    /// not flush it.
    pub(super) fn with_a_plain_disk() -> (Self, Node, usize) {
        let lab = Self::new(Redundancy::External, 128 * MIB, &["A", "B", "C", "D", "E"]);
        let plain = lab.plain_disk();
        let node = lab.create_file("table");
        lab.write(node, 0, &pattern(1, 24 << 20));
        lab.sync(node);
        (lab, node, plain)
    }

    /// An extent of the file whose only mirror is on this disk.
    pub(super) fn extent_alone_on(&self, disk: usize, node: Node) -> Arc<Extent> {
        let number = self.member(disk).number.0;
        self.extents_on(&[number])
            .into_iter()
            .find(|extent| extent.file == node)
            .expect("every disk has some")
    }

    /// Takes one of the two disks (of five) without a mirror of the catalog offline; the other one
    /// cannot be spared then. Returns the numbers of both: the offline one, then the needed one.
    pub(super) fn leave_one_that_is_needed(&self) -> (u16, u16) {
        let membership = self.group().voters.current();
        let mut plain =
            (0..5).filter(|number| membership.catalog.iter().all(|run| run.disk.0 != *number));
        let (away, needed) = (plain.next().expect("it has few"), plain.next().expect("it has few"));
        assert!(!self.extents_on(&[away, needed]).is_empty(), "every two disks have some");
        self.offline(usize::from(away));
        (away, needed)
    }

    /// Closes all active regions: the checksum blocks on the disks are current then.
    pub(super) fn close_regions(&self) {
        while block_on(self.group().close_idle(true)).expect("they are closed") {}
    }

    /// The byte ranges of a disk that a file of the catalog occupies.
    pub(super) fn runs_of(&self, file: CatalogFile, disk: usize) -> Vec<std::ops::Range<u64>> {
        let group = self.group();
        let member = group.members.values().nth(disk).expect("there is such a disk");
        let membership = group.voters.current();
        let runs =
            membership.catalog.iter().filter(|run| (run.file, run.disk) == (file, member.number));
        runs.map(|run| member.layout().au_bytes(run.first, run.count)).collect()
    }

    /// The byte ranges of a disk for the activity log. A disk without a vote has them too, unused.
    pub(super) fn places_of_logs(&self, disk: usize) -> Vec<std::ops::Range<u64>> {
        let places =
            self.member(disk).areas().iter().flat_map(|area| area.activity).collect::<Vec<_>>();
        places
            .into_iter()
            .map(|place| place..place + plinth_format::layout::ACTIVITY_SLOT as u64)
            .collect()
    }

    pub(super) fn votes(&self, disk: usize) -> bool {
        let number = self.member(disk).number;
        self.group().voters.current().voters().any(|voter| voter.number == number)
    }

    /// Makes every I/O of a disk fail from now on.
    pub(super) fn silence(&self, disk: usize) {
        self.disks[disk].faults(|faults| {
            faults.fail_reads = true;
            faults.fail_writes = true;
            faults.fail_flushes = true;
        });
    }

    pub(super) fn online_all(&self) {
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
    pub(super) fn keep_catalog_busy(
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

    pub(super) fn told(&self, text: &str) -> bool {
        self.world.events().iter().any(|event| event.text.contains(text))
    }
}

/// Pseudo-random bytes of this seed: bytes from a wrong place compare unequal.
pub(super) fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Numbers::new(seed).fill(&mut bytes);
    bytes
}
