//! The front end between the real kernel and the real engine, whose disks are in memory. Needs root
//! and `/dev/fuse`; without them the tests print a line and pass.

use crate::{
    End, FrontEnd,
    handshake::{self, Header},
    mount::{self, MountOptions},
};
use plinth_engine::{
    admin::Value,
    api::{Caller, ConnectionId, Invalidation, NewFile, ROOT, Watcher},
    files::session::Session,
    group::Group,
    testing::{MemoryDisk, TestWorld, block_on, new_group},
    world::World,
};
use plinth_format::Redundancy;
use plinth_frontend::{Runner, Waiting};
use rustix::event::{PollFd, PollFlags};
use std::{
    cell::Cell,
    fs::{self, File, OpenOptions},
    future::Future,
    io::{Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

const MIB: u64 = 1 << 20;
const MOUNT: ConnectionId = ConnectionId(42);

/// Disk group DATA on one disk in memory, served by one engine after another.
#[derive(Clone)]
struct TestGroup {
    world: Arc<TestWorld>,
    disk: MemoryDisk,
    group: Arc<Group>,
    /// Rows of the catalog's table of files in a new group.
    files_at_first: i64,
}

impl TestGroup {
    fn new() -> Self {
        Self::of_size(256 * MIB)
    }

    fn of_size(size: u64) -> Self {
        let world = TestWorld::new();
        let disk = MemoryDisk::new("/disk", size, 512, 4096);
        world.attach(&disk);
        let mut new = new_group(Redundancy::External, MIB, [("/disk", "")]);
        // Longer than any test lets its disk hang.
        new.attributes = vec![("disk_timeout".to_owned(), "3600".to_owned())];
        let engine_world = Arc::clone(&world) as Arc<dyn World>;
        block_on(Group::create(&engine_world, new)).unwrap();
        let group = block_on(Group::mount(engine_world, "DATA", false)).unwrap();
        let mut made = Self { world, disk, group, files_at_first: 0 };
        made.files_at_first = made.number("SELECT count(*) FROM file");
        made
    }

    /// The engine is killed, and another one takes the mount's session over.
    fn restart(&mut self) {
        self.disk.kill_users();
        self.group.abandon();
        let world = Arc::clone(&self.world) as Arc<dyn World>;
        self.group = block_on(Group::resume(world, "DATA", false, &[MOUNT])).unwrap();
    }

    fn session(&self, watcher: Arc<dyn Watcher>) -> Session {
        Session::of_mount(Arc::clone(&self.group), watcher, MOUNT)
    }

    fn column(&self, sql: &str) -> Vec<i64> {
        let rows = block_on(self.group.query(sql)).unwrap().rows;
        let number = |row: Vec<Value>| match row[..] {
            [Value::Integer(number)] => number,
            _ => panic!("{sql}: {row:?}"),
        };
        rows.into_iter().map(number).collect()
    }

    fn number(&self, sql: &str) -> i64 {
        self.column(sql)[0]
    }

    /// Files that were made and are not freed, without names or with.
    fn count(&self) -> i64 {
        self.number("SELECT count(*) FROM file") - self.files_at_first
    }

    /// Requests of a class that the engine has completed.
    fn requests(&self, class: &str) -> i64 {
        self.number(&format!(
            "SELECT coalesce(sum(wait_count), 0) FROM v$asm_file_histogram \
             WHERE io_class LIKE '%{class}'"
        ))
    }

    /// Lets writes to the data of a file hang until [`MemoryDisk::answer`]. The file has no slot of
    /// a shared extent: it is larger than one.
    fn hang_writes(&self, paths: &[PathBuf]) {
        for path in paths {
            let node = fs::metadata(path).unwrap().ino();
            let units = self.column(&format!(
                "SELECT au_kffxp FROM x$kffxp WHERE number_kffxp = {node} ORDER BY pxn_kffxp"
            ));
            assert!(!units.is_empty(), "{} has no extent", path.display());
            self.disk.faults(|faults| {
                let range = |unit: i64| unit as u64 * MIB..(unit as u64 + 1) * MIB;
                faults.hang_writes.extend(units.into_iter().map(range));
            });
        }
    }
}

/// A mount that is removed with its test.
struct Mounted {
    directory: tempfile::TempDir,
    front_end: Option<FrontEnd>,
    group: TestGroup,
    /// The mount's own session: it is not notified of the changes that it makes.
    session: Session,
    watcher: Arc<dyn Watcher>,
    device: OwnedFd,
}

/// Polls a future again and again. `watches_devices`: it can wait for the device beside disks.
struct PollingRunner {
    watches_devices: bool,
}

impl Runner for PollingRunner {
    fn block_on(&self, mut task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        while task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn readable(&self, device: &Arc<OwnedFd>) -> Option<Waiting> {
        let device = Arc::clone(device);
        let is_readable = move || {
            let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            rustix::event::poll(&mut [PollFd::new(&*device, PollFlags::IN)], Some(&now))
                .is_ok_and(|ready| ready > 0)
        };
        self.watches_devices.then(|| {
            let waiting =
                std::future::poll_fn(
                    move |_| {
                        if is_readable() { Poll::Ready(()) } else { Poll::Pending }
                    },
                );
            Box::pin(waiting) as Waiting
        })
    }

    fn sleep(&self, time: Duration) -> Waiting {
        let end = Instant::now() + time;
        Box::pin(std::future::poll_fn(move |_| {
            if Instant::now() >= end { Poll::Ready(()) } else { Poll::Pending }
        }))
    }
}

thread_local! {
    static WATCHES_DEVICES: Cell<bool> = const { Cell::new(true) };
}

fn can_mount() -> bool {
    let can = rustix::process::geteuid().is_root() && File::open("/dev/fuse").is_ok();
    if !can {
        println!("not tried: mounting needs root and /dev/fuse");
    }
    can
}

type Start = fn(
    OwnedFd,
    Box<dyn FnOnce(Arc<dyn Watcher>) -> Session>,
    Arc<dyn Runner>,
    usize,
) -> std::io::Result<FrontEnd>;

/// A front end of the group, its session, and the watcher that the engine notifies.
fn start(
    start: Start,
    device: OwnedFd,
    group: &TestGroup,
) -> (FrontEnd, Session, Arc<dyn Watcher>) {
    let kept = Arc::new(Mutex::new(None));
    let (keeper, group) = (Arc::clone(&kept), group.clone());
    let session = move |watcher: Arc<dyn Watcher>| {
        let session = group.session(Arc::clone(&watcher));
        *keeper.lock().unwrap() = Some((session.clone(), watcher));
        session
    };
    let runner = Arc::new(PollingRunner { watches_devices: WATCHES_DEVICES.get() });
    let front_end = start(device, Box::new(session), runner, 2).unwrap();
    let (session, watcher) = kept.lock().unwrap().take().unwrap();
    (front_end, session, watcher)
}

fn serve(device: OwnedFd, group: &TestGroup) -> (FrontEnd, Session, Arc<dyn Watcher>) {
    start(FrontEnd::serve, device, group)
}

fn take_over(device: OwnedFd, group: &TestGroup) -> (FrontEnd, Session, Arc<dyn Watcher>) {
    start(FrontEnd::take_over, device, group)
}

impl Mounted {
    fn new() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        if !can_mount() {
            return None;
        }
        let device = mount::mount("TEST", directory.path(), MountOptions::default()).unwrap();
        let group = TestGroup::new();
        let (front_end, session, watcher) = serve(device.try_clone().unwrap(), &group);
        Some(Self { directory, front_end: Some(front_end), group, session, watcher, device })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The front end hands over, its engine is killed, and others take their places.
    fn hand_over(&mut self) {
        let before = self.front_end.take().unwrap();
        assert!(before.hand_over(Duration::from_secs(10)), "no request is in flight");
        // A worker that waits for the device ends with the next request that it reads.
        let paths: Vec<_> = (0..40).map(|i| self.path(&format!("missing {i}"))).collect();
        std::thread::scope(|scope| {
            for path in &paths {
                scope.spawn(move || assert_eq!(errno(fs::metadata(path)), libc::ENOENT));
            }
            assert_eq!(before.join(), End::HandedOver);
            self.succeed();
        });
    }

    fn succeed(&mut self) {
        self.group.restart();
        let (front_end, session, watcher) =
            take_over(self.device.try_clone().unwrap(), &self.group);
        (self.front_end, self.session, self.watcher) = (Some(front_end), session, watcher);
    }

    fn unmount(&mut self) {
        mount::unmount(self.directory.path(), false).unwrap();
        self.front_end.take().unwrap().join();
    }

    /// Whether the front end has ended its session.
    fn has_ended(&self) -> bool {
        self.session.begin(1 << 40, false).is_none()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.front_end.is_some() {
            let _ = mount::unmount(self.directory.path(), true);
        }
    }
}

fn errno<T>(result: std::io::Result<T>) -> i32 {
    result.map(drop).unwrap_err().raw_os_error().unwrap()
}

#[test]
fn files_are_made_written_read_renamed_and_removed() {
    let Some(mut mounted) = Mounted::new() else { return };
    let (a, b) = (mounted.path("a"), mounted.path("b"));
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| ((i * 7) >> 3) as u8).collect();
    fs::write(&a, &bytes).unwrap();
    assert_eq!(fs::read(&a).unwrap(), bytes);
    fs::rename(&a, &b).unwrap();
    assert_eq!(errno(fs::metadata(&a)), libc::ENOENT);
    assert_eq!(fs::metadata(&b).unwrap().len(), bytes.len() as u64);
    fs::hard_link(&b, &a).unwrap();
    assert_eq!(fs::metadata(&b).unwrap().nlink(), 2);
    symlink("b", mounted.path("link")).unwrap();
    assert_eq!(fs::read(mounted.path("link")).unwrap(), bytes);
    fs::create_dir(mounted.path("d")).unwrap();
    assert_eq!(errno(fs::remove_file(mounted.path("d"))), libc::EISDIR);
    assert_eq!(errno(File::create(mounted.path(&"x".repeat(256)))), libc::ENAMETOOLONG);
    for name in ["a", "b", "link"] {
        fs::remove_file(mounted.path(name)).unwrap();
    }
    fs::remove_dir(mounted.path("d")).unwrap();
    mounted.unmount();
    assert_eq!(mounted.group.count(), 0, "no file is left");
}

#[test]
fn a_big_directory_is_listed_whole_while_it_shrinks() {
    let Some(mut mounted) = Mounted::new() else { return };
    for i in 0..3000 {
        File::create(mounted.path(&format!("a file with number {i}"))).unwrap();
    }
    let mut seen = 0;
    for entry in fs::read_dir(mounted.directory.path()).unwrap() {
        let entry = entry.unwrap();
        assert!(entry.metadata().unwrap().is_file());
        fs::remove_file(entry.path()).unwrap();
        seen += 1;
    }
    assert_eq!(seen, 3000);
    assert_eq!(fs::read_dir(mounted.directory.path()).unwrap().count(), 0);
    mounted.unmount();
    assert_eq!(mounted.group.count(), 0);
}

#[test]
fn an_unlinked_file_lives_until_it_is_closed_or_the_mount_goes() {
    let Some(mut mounted) = Mounted::new() else { return };
    let path = mounted.path("a");
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    file.write_all(b"still here").unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    let mut bytes = [0; 10];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"still here");
    let said = mount::unmount(mounted.directory.path(), false).unwrap_err().to_string();
    assert!(said.contains(&format!("(pid {})", std::process::id())), "{said}");
    drop(file);
    mounted.unmount();
    assert_eq!(mounted.group.count(), 0);
}

#[test]
fn synchronous_writes_are_made_durable_once_cached_or_direct() {
    let Some(mut mounted) = Mounted::new() else { return };
    let path = mounted.path("a");
    fs::write(&path, vec![1; 65536]).unwrap();
    for (flags, expected) in [
        (0, 0),
        (libc::O_DSYNC, 1),
        (libc::O_SYNC, 1),
        (libc::O_DIRECT, 0),
        (libc::O_DIRECT | libc::O_DSYNC, 1),
        (libc::O_DIRECT | libc::O_SYNC, 1),
    ] {
        let file = OpenOptions::new().write(true).custom_flags(flags).open(&path).unwrap();
        let before = mounted.group.requests("SYNC");
        file.write_all_at(&[2; 4096], 8192).unwrap();
        assert_eq!(mounted.group.requests("SYNC") - before, expected, "flags {flags:o}");
        // The same holds for a write after the flags of the open file were cleared.
        rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::empty()).unwrap();
        let before = mounted.group.requests("SYNC");
        file.write_all_at(&[3; 4096], 8192).unwrap();
        let now = mounted.group.requests("SYNC") - before;
        assert_eq!(now, expected, "flags {flags:o} without O_DIRECT");
    }
    mounted.unmount();
}

#[test]
fn pages_stay_cached_over_open_and_close_until_others_write() {
    let Some(mut mounted) = Mounted::new() else { return };
    let path = mounted.path("a");
    fs::write(&path, vec![1; 100_000]).unwrap();
    assert_eq!(fs::read(&path).unwrap()[0], 1);
    let before = mounted.group.requests("READ");
    assert_eq!(fs::read(&path).unwrap()[0], 1);
    assert_eq!(mounted.group.requests("READ"), before, "the second read came from the page cache");

    let node = fs::metadata(&path).unwrap().ino();
    block_on(mounted.session.write(node, 0, &[9; 200_000], false)).unwrap();
    mounted.watcher.invalidate(&Invalidation::Node(node));
    wait_until(|| fs::metadata(&path).unwrap().len() == 200_000);
    assert_eq!(fs::read(&path).unwrap(), vec![9; 200_000]);

    let other = mounted.path("other");
    assert_eq!(errno(fs::metadata(&other)), libc::ENOENT);
    let caller = Caller { uid: 0, gid: 0 };
    block_on(mounted.session.create(ROOT, b"other", NewFile::Regular, 0o600, caller)).unwrap();
    assert_eq!(errno(fs::metadata(&other)), libc::ENOENT, "the kernel has a negative entry");
    mounted.watcher.invalidate(&Invalidation::Entry { parent: ROOT, name: b"other".to_vec() });
    wait_until(|| fs::metadata(&other).is_ok());
    assert_eq!(fs::read_dir(mounted.directory.path()).unwrap().count(), 2);
    mounted.unmount();
}

#[test]
fn direct_and_sparse_files_work() {
    let Some(mut mounted) = Mounted::new() else { return };
    let path = mounted.path("a");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .custom_flags(libc::O_DIRECT)
        .open(&path)
        .unwrap();
    file.write_all_at(&[5; 8192], 1 << 20).unwrap();
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)).unwrap(), 1 << 20);
    assert_eq!(
        rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(1 << 20)).unwrap(),
        (1 << 20) + 8192
    );
    let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(file.as_fd(), flags, 1 << 20, 4096).unwrap();
    let mut bytes = vec![1; 8192];
    file.read_exact_at(&mut bytes, 1 << 20).unwrap();
    assert_eq!((bytes[0], bytes[4095], bytes[4096]), (0, 0, 5));
    let collapse = rustix::fs::FallocateFlags::COLLAPSE_RANGE;
    assert_eq!(
        rustix::fs::fallocate(&file, collapse, 0, 4096).unwrap_err(),
        rustix::io::Errno::OPNOTSUPP
    );
    drop(file);
    mounted.unmount();
}

/// Direct writes do not wait for one another, and cached reads see what they have written.
#[test]
fn direct_writes_are_parallel_and_seen_by_cached_reads() {
    let Some(mut mounted) = Mounted::new() else { return };
    let path = mounted.path("a");
    fs::write(&path, vec![1; 131_072]).unwrap();
    assert_eq!(fs::read(&path).unwrap(), vec![1; 131_072]);
    let direct = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
    mounted.group.hang_writes(std::slice::from_ref(&path));
    std::thread::scope(|scope| {
        for half in 0..2 {
            let direct = &direct;
            scope.spawn(move || direct.write_all_at(&[2; 65536], half * 65536).unwrap());
        }
        wait_until(|| mounted.group.disk.hung() == 2);
        mounted.group.disk.heal();
    });
    assert_eq!(fs::read(&path).unwrap(), vec![2; 131_072]);
    drop(direct);
    mounted.unmount();
}

#[test]
fn special_files_modes_and_extended_attributes_are_kept() {
    let Some(mut mounted) = Mounted::new() else { return };
    let path = mounted.path("a");
    File::create(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode(), 0o106_755);
    std::os::unix::fs::chown(&path, Some(1), Some(1)).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode(), 0o100_755);
    let device = rustix::fs::makedev(259, 70_000);
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let place = mounted.path("device");
    rustix::fs::mknodat(rustix::fs::CWD, &place, rustix::fs::FileType::BlockDevice, mode, device)
        .unwrap();
    let metadata = fs::metadata(&place).unwrap();
    assert!(metadata.file_type().is_block_device());
    assert_eq!(metadata.rdev(), device);

    use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};
    setxattr(&path, "user.a", b"value", XattrFlags::empty()).unwrap();
    let again = setxattr(&path, "user.a", b"", XattrFlags::CREATE);
    assert_eq!(again.unwrap_err(), rustix::io::Errno::EXIST);
    let mut room = [0_u8; 8];
    assert_eq!(getxattr(&path, "user.a", &mut room[..]).unwrap(), 5);
    assert_eq!(getxattr(&path, "user.a", &mut room[..2]).unwrap_err(), rustix::io::Errno::RANGE);
    assert_eq!(listxattr(&path, &mut room[..]).unwrap(), 7);
    let acl = getxattr(&path, "system.posix_acl_access", &mut room[..]);
    assert_eq!(acl.unwrap_err(), rustix::io::Errno::OPNOTSUPP);
    mounted.unmount();
}

/// Twenty writes wait for the disk, with two workers at first. Reads and new files do not wait for
/// them.
#[test]
fn writes_that_must_wait_do_not_stop_reads() {
    let Some(mut mounted) = Mounted::new() else { return };
    fs::write(mounted.path("read"), "bytes").unwrap();
    let paths: Vec<_> = (0..20).map(|i| mounted.path(&format!("write {i}"))).collect();
    paths.iter().for_each(|path| fs::write(path, vec![1; 131_072]).unwrap());
    mounted.group.hang_writes(&paths);
    std::thread::scope(|scope| {
        for path in &paths {
            let mut file = OpenOptions::new().write(true).open(path).unwrap();
            scope.spawn(move || file.write_all(b"late").unwrap());
        }
        wait_until(|| mounted.group.disk.hung() == paths.len());
        let direct = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(mounted.path("read"))
            .unwrap();
        let mut bytes = [0; 5];
        direct.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"bytes");
        File::create(mounted.path("new")).unwrap();
        assert_eq!(mounted.group.disk.hung(), paths.len(), "the writes still wait");
        mounted.group.disk.heal();
    });
    assert_eq!(fs::read(&paths[19]).unwrap()[..5], *b"late\x01");
    mounted.unmount();
}

/// A server takes a request and dies with it. Its successor has the request sent again, and the
/// program that waits notices nothing. The request is the very first, so the successor also answers
/// INIT.
#[test]
fn a_successor_answers_what_its_predecessor_took() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let device = mount::mount("TEST", directory.path(), MountOptions::default()).unwrap();
    let group = TestGroup::new();
    std::thread::scope(|scope| {
        let program = scope.spawn(|| fs::metadata(directory.path()).unwrap().ino());
        let mut taken = vec![0; 1 << 21];
        rustix::io::read(&device, &mut taken).unwrap();
        let held = device.try_clone().unwrap();
        let (front_end, ..) = take_over(device, &group);
        assert_eq!(program.join().unwrap(), ROOT);
        mount::unmount(directory.path(), false).unwrap();
        front_end.join();
        drop(held);
    });
}

const GETATTR: u32 = 3;
const CREATE: u32 = 35;

/// `fuse_out_header` and `fuse_attr_out`: a directory with all permissions, cached for an hour.
fn root_attributes(header: &Header) -> Vec<u8> {
    let mut answer = header.error(0).to_vec();
    answer.extend([3600_u64, 0, ROOT, 0, 0, 0, 0, 0].into_iter().flat_map(u64::to_ne_bytes));
    answer.extend([0, 0, 0, 0o040_777, 2, 0, 0, 0, 4096, 0].into_iter().flat_map(u32::to_ne_bytes));
    let length = (answer.len() as u32).to_ne_bytes();
    answer[..4].copy_from_slice(&length);
    answer
}

struct IgnoringWatcher;

impl Watcher for IgnoringWatcher {
    fn invalidate(&self, _: &Invalidation) {}
}

/// A server makes a file and dies before it answers. The kernel sends the request again to its
/// successor, which does not make the file again.
#[test]
fn a_successor_does_not_repeat_a_request_that_was_carried_out() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let device = mount::mount("TEST", directory.path(), MountOptions::default()).unwrap();
    let mut bytes = vec![0; 1 << 21];
    // The next request with this opcode; all others are answered.
    let mut taken = |opcode: u32| loop {
        let length = rustix::io::read(&device, &mut bytes).unwrap();
        let header = Header::parse(&bytes, length).unwrap();
        if header.opcode == opcode {
            return (header, bytes[..length].to_vec());
        }
        if header.opcode == GETATTR {
            rustix::io::write(&device, &root_attributes(&header)).unwrap();
        } else if header.wants_answer() {
            rustix::io::write(&device, &header.error(libc::ENOENT)).unwrap();
        }
    };
    std::thread::scope(|scope| {
        let path = directory.path().join("a");
        let program = scope
            .spawn(move || OpenOptions::new().write(true).create_new(true).open(path).map(drop));
        let (init, request) = taken(handshake::INIT);
        rustix::io::write(&device, &handshake::answer(&request, &init)).unwrap();
        let (create, _) = taken(CREATE);
        let mut group = TestGroup::new();
        let predecessor = group.session(Arc::new(IgnoringWatcher));
        let request = predecessor.begin(create.number(), create.is_resent()).unwrap();
        let caller = Caller { uid: 0, gid: 0 };
        let made = predecessor.on_behalf_of(&request);
        block_on(made.create(ROOT, b"a", NewFile::Regular, 0o600, caller)).unwrap();
        group.restart();
        let (front_end, ..) = take_over(device.try_clone().unwrap(), &group);
        program.join().unwrap().expect("the file is made once");
        assert_eq!(group.count(), 1);
        mount::unmount(directory.path(), false).unwrap();
        assert_eq!(front_end.join(), End::Unmounted);
    });
}

/// A front end that hands over begins no more requests. The kernel sends those that its workers
/// still read again, to the successor.
#[test]
fn requests_during_a_hand_over_are_served_by_the_successor() {
    let Some(mut mounted) = Mounted::new() else { return };
    fs::write(mounted.path("a"), "bytes").unwrap();
    let before = mounted.front_end.take().unwrap();
    assert!(before.hand_over(Duration::from_secs(10)), "no request is in flight");
    std::thread::scope(|scope| {
        // More programs than workers: each worker reads a request.
        let programs: Vec<_> = (0..40)
            .map(|i| {
                scope.spawn({
                    let path = mounted.path(&format!("new {i}"));
                    move || OpenOptions::new().write(true).create_new(true).open(path).map(drop)
                })
            })
            .collect();
        assert_eq!(before.join(), End::HandedOver);
        assert_eq!((mounted.group.count(), mounted.has_ended()), (1, false));
        mounted.succeed();
        programs.into_iter().for_each(|program| program.join().unwrap().unwrap());
    });
    assert_eq!((mounted.group.count(), mounted.has_ended()), (41, false));
    mounted.unmount();
    assert!(mounted.has_ended());
}

/// Files without names outlive engines while the kernel has them: a successor cannot count the
/// kernel's references, and asks it.
#[test]
fn the_kernel_says_which_files_it_does_not_have() {
    let Some(mut mounted) = Mounted::new() else { return };
    let files = ["a", "b"].map(|name| {
        let path = mounted.path(name);
        fs::write(&path, name).unwrap();
        let file = File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        file
    });
    mounted.hand_over();
    let [a, b] = files;
    let node = a.metadata().unwrap().ino();
    // A question about a file that the kernel has frees nothing.
    mounted.watcher.still_holds(node);
    assert_eq!(mounted.group.count(), 2);
    drop(b);
    wait_until(|| mounted.group.count() == 1);
    let mut bytes = [0];
    a.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"a");
    assert!(block_on(mounted.session.attributes(node)).is_ok());
    drop(a);
    wait_until(|| mounted.group.count() == 0);
    mounted.unmount();
}

/// For the POSIX suites, by hand: serves `PLINTH_FUSE_DIRECTORY` until it is unmounted.
#[test]
#[ignore = "serves a directory until it is unmounted"]
fn serve_a_directory() {
    let directory = PathBuf::from(std::env::var_os("PLINTH_FUSE_DIRECTORY").unwrap());
    if can_mount() {
        let device = mount::mount("TEST", Path::new(&directory), MountOptions::default()).unwrap();
        let (front_end, ..) = serve(device, &TestGroup::of_size(16384 * MIB));
        front_end.join();
    }
}

/// Waits for a condition that another thread brings about. Panics after a minute.
fn wait_until(done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "the condition does not hold");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_file_that_grows_while_it_is_read_shows_its_end() {
    let Some(mut mounted) = Mounted::new() else { return };
    let path = mounted.path("a");
    let mut writer = File::create(&path).unwrap();
    let mut reader = File::open(&path).unwrap();
    let mut seen = Vec::new();
    for i in 0..50_u8 {
        writer.write_all(&[i; 1000]).unwrap();
        reader.read_to_end(&mut seen).unwrap();
        assert_eq!(seen.len(), (usize::from(i) + 1) * 1000);
    }
    drop((writer, reader));
    mounted.unmount();
}

/// A process without io_uring carries out one request at a time on a thread, and starts another
/// thread when a request waits.
#[test]
fn a_process_that_cannot_wait_for_the_device_beside_disks_serves_as_well() {
    WATCHES_DEVICES.set(false);
    files_are_made_written_read_renamed_and_removed();
    synchronous_writes_are_made_durable_once_cached_or_direct();
    direct_writes_are_parallel_and_seen_by_cached_reads();
    writes_that_must_wait_do_not_stop_reads();
    requests_during_a_hand_over_are_served_by_the_successor();
}
