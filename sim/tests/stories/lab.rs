//! The verbs of the stories: those of [`World`], for files by their node. A story may call them
//! while it holds sessions, groups and closures.

use plinth_engine::{
    admin::{AdminError, OperationState, Selection, Value},
    api::Node,
    event::Event,
    files::session::Session,
    group::Group,
    testing::new_group,
    world::Sectors,
};
use plinth_format::{
    Redundancy,
    header::{DiskHeader, Status},
    layout::MIB,
    membership::{DiskState, MemberDisk},
};
use sim::{
    disk::SimDisk,
    scenario::{Begun, SECTORS, World},
};
use std::{
    cell::{Cell, RefCell},
    future::Future,
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};

/// A fault of a disk that does not end by itself: see [`sim::disk::Faults`].
pub const EVERY: u32 = u32::MAX;

thread_local! {
    /// The world of the story on this thread.
    static CURRENT: RefCell<Weak<RefCell<World>>> = const { RefCell::new(Weak::new()) };
    /// How many labs the story has had: the seed of the next.
    static LABS: Cell<u64> = const { Cell::new(0) };
}

/// Runs a future to its end, in the time of the story's world.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let world = CURRENT.with_borrow(Weak::upgrade).expect("the story has a lab");
    world.borrow_mut().finish(future)
}

/// A simulated host, its disks, and a group called DATA.
#[derive(Clone)]
pub struct Lab(Rc<RefCell<World>>);

impl Lab {
    /// One disk of `size` bytes for each entry of `failure_groups`.
    pub fn new(redundancy: Redundancy, size: u64, failure_groups: &[&str]) -> Self {
        Self::of(redundancy, size, failure_groups, SECTORS, None)
    }

    pub fn with_sectors(
        redundancy: Redundancy,
        size: u64,
        failure_groups: &[&str],
        logical: u32,
        physical: u32,
    ) -> Self {
        let sectors = Sectors { logical, physical };
        Self::of(redundancy, size, failure_groups, sectors, None)
    }

    /// Each disk is used up to `used` bytes.
    pub fn of_size(
        redundancy: Redundancy,
        size: u64,
        failure_groups: &[&str],
        used: Option<u64>,
    ) -> Self {
        Self::of(redundancy, size, failure_groups, SECTORS, used)
    }

    fn of(
        redundancy: Redundancy,
        size: u64,
        failure_groups: &[&str],
        sectors: Sectors,
        used: Option<u64>,
    ) -> Self {
        let lab = Self::without_group();
        for name in failure_groups {
            lab.world().add_disk(size, sectors, name);
        }
        lab.create(redundancy, MIB, used, false).expect("the group is made");
        lab.mount();
        lab
    }

    /// A host without disks. Only one exists at a time: the one before must be dropped.
    pub fn without_group() -> Self {
        let seed = LABS.replace(LABS.get() + 1);
        let world = Rc::new(RefCell::new(World::new(seed)));
        CURRENT.set(Rc::downgrade(&world));
        Self(world)
    }

    /// The world, until the end of the statement.
    pub fn world(&self) -> std::cell::RefMut<'_, World> {
        self.0.borrow_mut()
    }

    /// Makes the group of all disks.
    ///
    /// # Errors
    /// The refusal.
    pub fn create(
        &self,
        redundancy: Redundancy,
        au_size: u64,
        used: Option<u64>,
        force: bool,
    ) -> Result<(), AdminError> {
        let failure_groups = self.world().failure_groups().to_vec();
        let disks: Vec<SimDisk> = self.disks();
        let named = disks.iter().map(SimDisk::label).zip(failure_groups.iter().map(String::as_str));
        let mut new = new_group(redundancy, au_size, named);
        for disk in &mut new.disks {
            (disk.size, disk.force) = (used, force);
        }
        self.world().create_as(new)
    }

    pub fn try_mount(&self, force: bool) -> Result<(), AdminError> {
        self.world().try_mount(force)
    }

    pub fn mount(&self) {
        self.world().mount();
    }

    pub fn group(&self) -> Arc<Group> {
        self.world().mounted()
    }

    pub fn session(&self) -> Session {
        self.world().session()
    }

    pub fn dismount(&self) {
        self.world().dismount();
    }

    /// Kills the engine's process: bytes already written stay, and it does nothing more.
    pub fn kill(&self) {
        self.world().kill();
    }

    /// Cuts the host's power.
    pub fn cut_power(&self) {
        self.world().cut_power();
    }

    pub fn disk(&self, disk: usize) -> SimDisk {
        self.world().disk(disk).clone()
    }

    pub fn disks(&self) -> Vec<SimDisk> {
        let world = self.world();
        (0..world.disk_count()).map(|disk| world.disk(disk).clone()).collect()
    }

    /// Attaches another disk that belongs to no group, and returns its path.
    pub fn spare(&self, size: u64) -> String {
        let number = self.world().add_disk(size, SECTORS, "");
        self.disk(number).label().to_owned()
    }

    /// Shows a disk to discovery again.
    pub fn attach(&self, disk: &SimDisk) {
        self.world().attach(disk.label(), disk.clone());
    }

    /// Hides the disk at a path from discovery. An engine that has it goes on using it.
    pub fn detach(&self, path: &str) {
        self.world().detach(path);
    }

    /// Moves the wall clock.
    pub fn shift_clock(&self, by: Duration) {
        self.world().shift_clock(by);
    }

    pub fn redundancy(&self) -> Redundancy {
        self.world().redundancy()
    }

    /// The header of a disk.
    pub fn header(&self, disk: usize) -> DiskHeader {
        self.disk(disk).header().expect("it has a header")
    }

    pub fn status(&self, disk: usize) -> Status {
        self.header(disk).status
    }

    /// The names of all disks, as their headers have them.
    pub fn header_names(&self) -> Vec<String> {
        (0..self.disks().len()).map(|disk| self.header(disk).name).collect()
    }

    /// Reads bytes of a disk, past all faults.
    pub fn peek(&self, disk: usize, offset: u64, length: usize) -> Vec<u8> {
        self.world().peek(disk, offset, length)
    }

    /// The numbers that a query returns.
    fn counted(&self, sql: &str) -> Vec<u64> {
        let rows = block_on(self.group().query(sql)).expect("a query").rows;
        let number = |value| match value {
            Value::Integer(number) => u64::try_from(number).expect("a count"),
            other => panic!("not a number: {other:?}"),
        };
        rows.into_iter().flatten().map(number).collect()
    }

    /// The mirrors of files on each disk, in the order of disk numbers.
    pub fn held(&self) -> Vec<u64> {
        self.counted(
            "SELECT (SELECT count(DISTINCT au_kffxp) FROM x$kffxp x WHERE x.disk_kffxp = d.disk_number \
             AND x.number_kffxp IN (SELECT file_number FROM v$asm_file)) FROM v$asm_disk d \
             ORDER BY d.disk_number",
        )
    }

    /// How many extents of files there are with as many mirrors as the index.
    pub fn mirrors(&self) -> [u64; 4] {
        let of_each = self.counted(
            "SELECT count(*) FROM x$kffxp WHERE number_kffxp IN (SELECT file_number FROM \
             v$asm_file) GROUP BY number_kffxp, xnum_kffxp",
        );
        let mut counts = [0; 4];
        of_each.into_iter().for_each(|mirrors| counts[mirrors as usize] += 1);
        counts
    }

    pub fn twos_and_threes(&self) -> (u64, u64) {
        let counts = self.mirrors();
        (counts[2], counts[3])
    }

    /// AUs that no file has, on all disks.
    pub fn free(&self) -> u64 {
        self.counted("SELECT sum(free_mb) FROM v$asm_disk")[0]
    }

    pub fn create_file(&self, name: &str) -> Node {
        self.world().create_file(name)
    }

    pub fn write(&self, node: Node, offset: u64, bytes: &[u8]) {
        self.world().write(node, offset, bytes);
    }

    pub fn sync(&self, node: Node) {
        self.world().sync(node);
    }

    pub fn read(&self, node: Node, offset: u64, length: usize) -> Vec<u8> {
        self.world().read(node, offset, length)
    }

    pub fn find(&self, name: &str) -> Node {
        self.world().find(name)
    }

    /// Runs the check on every disk, and fails the test if it finds a problem.
    pub fn check(&self) {
        self.world().check();
    }

    /// Begins something in the engine's process, and does not wait for it.
    pub fn begin<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Begun<T> {
        self.world().begin(task)
    }

    /// Waits for the end of something that was begun.
    pub fn end<T>(&self, begun: Begun<T>) -> T {
        self.world().end(begun)
    }

    /// Lets time pass.
    pub fn wait(&self, time: Duration) {
        self.world().wait(time);
    }

    /// Lets time pass until a condition holds.
    pub fn wait_for(&self, what: &str, mut ready: impl FnMut() -> bool) {
        // Half an hour, in steps of 20 ms.
        for _ in 0..90_000 {
            if ready() {
                return;
            }
            self.world().step(Duration::from_millis(20));
        }
        let events: Vec<_> = self.events().iter().map(ToString::to_string).collect();
        panic!("{what} did not happen\n{}", events.join("\n"));
    }

    pub fn state(&self, disk: usize) -> DiskState {
        self.world().state(disk)
    }

    /// Makes every I/O of a disk fail from now on.
    pub fn silence(&self, disk: usize) {
        self.world().fail(disk);
    }

    /// Takes a disk offline by a statement.
    pub fn offline(&self, disk: usize) {
        let name = self.group().members()[disk].0.clone();
        let goes =
            || block_on(self.group().offline(Selection::Disks(vec![name.clone()]), None)).is_ok();
        self.wait_for("a disk that can be spared", goes);
    }

    /// Brings a disk online by a statement.
    pub fn online(&self, disk: usize) {
        let name = self.group().members()[disk].0.clone();
        block_on(self.group().online(Selection::Disks(vec![name]))).expect("it comes back");
    }

    /// A disk, as the membership has it.
    pub fn entry(&self, disk: usize) -> MemberDisk {
        self.world().newest_membership().disks[disk].clone()
    }

    pub fn online_all(&self) {
        block_on(self.group().online(Selection::All)).expect("the disks come back");
        // A resync ends only when the catalog has its mirrors again: before that the group would
        // not survive a second loss.
        let ended = || {
            self.group().operations().iter().all(|operation| operation.state != OperationState::Run)
        };
        self.wait_for("the resync", || {
            self.group().members().iter().all(|(_, state)| *state == DiskState::Online) && ended()
        });
    }

    /// Whether the alert log has this text, in a line since the last mount began.
    pub fn told(&self, text: &str) -> bool {
        self.world().told(text)
    }

    /// The alert log since the first mount.
    pub fn events(&self) -> Vec<Event> {
        self.world().events()
    }
}

/// The end of an engine, or of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Kill,
    PowerCut,
    /// A power cut of disks whose sectors may tear.
    Torn,
}

/// Runs `work` from the same contents of the disks once for each place at which it can be
/// interrupted, after every `stride` beginnings and ends of a change to a disk from its mount on,
/// and calls `verify` with the disks that are left.
pub fn cut_short(lab: &Lab, stride: u64, work: impl Fn(&Lab), verify: impl Fn(&Lab, &str)) {
    cut_short_by(&[End::Kill, End::PowerCut, End::Torn], lab, stride, work, verify);
}

/// As [`cut_short`], with the `ends` taken in turn.
pub fn cut_short_by(
    ends: &[End],
    lab: &Lab,
    stride: u64,
    work: impl Fn(&Lab),
    verify: impl Fn(&Lab, &str),
) {
    let images = lab.world().images();
    for (place, end) in ends.iter().cycle().enumerate() {
        lab.world().restore(&images);
        let changes = place as u64 * stride;
        let is_cut_short = World::cut_short(&lab.0, changes, || work(lab));
        match end {
            End::Kill => lab.kill(),
            End::PowerCut => lab.cut_power(),
            End::Torn => lab.world().tear_and_cut_power(),
        }
        verify(lab, &format!("{end:?} after {changes}"));
        lab.kill();
        if !is_cut_short {
            return;
        }
    }
}
