//! The front end against the real kernel, on a group in memory. Needs root and `/dev/fuse`; says so and passes without.

use crate::{
    End, FrontEnd, Runner, Waiting,
    handshake::{self, Header},
    memory::Session,
    mount::{self, MountOptions},
};
use plinth_engine::api::{Caller, Invalidation, NewFile, ROOT, Watcher};
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
    time::Duration,
};

/// A mount that goes with its test.
struct Mounted {
    directory: tempfile::TempDir,
    front_end: Option<FrontEnd>,
    group: Session,
    watcher: Arc<dyn Watcher>,
    device: OwnedFd,
}

/// Looks again and again; for the device as well, unless this is a process that cannot wait for it beside its disks.
struct Looks {
    at_devices: bool,
}

impl Runner for Looks {
    fn block_on(&self, mut task: Pin<&mut (dyn Future<Output = ()> + Send)>) {
        while task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn readable(&self, device: &Arc<OwnedFd>) -> Option<Waiting> {
        let device = Arc::clone(device);
        let look = move || {
            let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            rustix::event::poll(&mut [PollFd::new(&*device, PollFlags::IN)], Some(&now))
                .is_ok_and(|ready| ready > 0)
        };
        self.at_devices.then(|| {
            let waiting =
                std::future::poll_fn(move |_| if look() { Poll::Ready(()) } else { Poll::Pending });
            Box::pin(waiting) as Waiting
        })
    }
}

thread_local! {
    static AT_DEVICES: Cell<bool> = const { Cell::new(true) };
}

fn can_mount() -> bool {
    let can = rustix::process::geteuid().is_root() && File::open("/dev/fuse").is_ok();
    if !can {
        println!("not tried: mounting needs root and /dev/fuse");
    }
    can
}

fn serve(directory: &Path) -> Option<(FrontEnd, Session, Arc<dyn Watcher>)> {
    if !can_mount() {
        return None;
    }
    let device = mount::mount("TEST", directory, MountOptions::default()).unwrap();
    Some(serve_device(device))
}

fn serve_device(device: OwnedFd) -> (FrontEnd, Session, Arc<dyn Watcher>) {
    start(FrontEnd::serve, device, Session::new())
}

fn take_over(device: OwnedFd, group: Session) -> (FrontEnd, Session, Arc<dyn Watcher>) {
    start(FrontEnd::take_over, device, group)
}

type Start = fn(
    OwnedFd,
    Box<dyn FnOnce(Arc<dyn Watcher>) -> Session>,
    Arc<dyn Runner>,
    usize,
) -> std::io::Result<FrontEnd>;

fn start(start: Start, device: OwnedFd, group: Session) -> (FrontEnd, Session, Arc<dyn Watcher>) {
    let kept = Arc::new(Mutex::new(None));
    let (keeper, ours) = (Arc::clone(&kept), group.clone());
    let session = move |watcher| {
        *keeper.lock().unwrap() = Some(watcher);
        ours
    };
    let front_end =
        start(device, Box::new(session), Arc::new(Looks { at_devices: AT_DEVICES.get() }), 2)
            .unwrap();
    let watcher = kept.lock().unwrap().take().unwrap();
    (front_end, group, watcher)
}

impl Mounted {
    fn new() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        if !can_mount() {
            return None;
        }
        let device = mount::mount("TEST", directory.path(), MountOptions::default()).unwrap();
        let (front_end, group, watcher) = serve_device(device.try_clone().unwrap());
        Some(Self { directory, front_end: Some(front_end), group, watcher, device })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn unmount(&mut self) {
        mount::unmount(self.directory.path(), false).unwrap();
        self.front_end.take().unwrap().join();
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
    assert_eq!(mounted.group.count(), 1, "only the root is left");
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
    assert_eq!(mounted.group.count(), 1);
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
    assert_eq!(mounted.group.count(), 1);
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
        let before = mounted.group.state().syncs;
        file.write_all_at(&[2; 4096], 8192).unwrap();
        assert_eq!(mounted.group.state().syncs - before, expected, "flags {flags:o}");
        // As does one that turned synchronous, or left O_DIRECT, after it was opened.
        rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::empty()).unwrap();
        let before = mounted.group.state().syncs;
        file.write_all_at(&[3; 4096], 8192).unwrap();
        let now = mounted.group.state().syncs - before;
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
    let before = mounted.group.state().reads;
    assert_eq!(fs::read(&path).unwrap()[0], 1);
    assert_eq!(mounted.group.state().reads, before, "the second read came from the page cache");

    let node = fs::metadata(&path).unwrap().ino();
    let group = mounted.group.clone();
    now_or_never(async { group.write(node, 0, &[9; 200_000], false).await.unwrap() });
    mounted.watcher.invalidate(&Invalidation::Node(node));
    wait_until(|| fs::metadata(&path).unwrap().len() == 200_000);
    assert_eq!(fs::read(&path).unwrap(), vec![9; 200_000]);

    let other = mounted.path("other");
    assert_eq!(errno(fs::metadata(&other)), libc::ENOENT);
    let caller = Caller { uid: 0, gid: 0 };
    now_or_never(async {
        group.create(ROOT, b"other", NewFile::Regular, 0o600, caller).await.unwrap()
    });
    assert_eq!(errno(fs::metadata(&other)), libc::ENOENT, "that it is missing was cached");
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

/// What was written past the page cache is what the page cache then shows, and writers do not wait for one another.
#[test]
fn direct_writes_are_parallel_and_seen_by_cached_reads() {
    let Some(mut mounted) = Mounted::new() else { return };
    let path = mounted.path("a");
    fs::write(&path, vec![1; 65536]).unwrap();
    assert_eq!(fs::read(&path).unwrap(), vec![1; 65536]);
    let direct = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
    let gate = Arc::clone(&mounted.group.state().gate);
    let before = mounted.group.state().writes;
    let closed = gate.lock().unwrap();
    std::thread::scope(|scope| {
        for half in 0..2 {
            let direct = &direct;
            scope.spawn(move || direct.write_all_at(&[2; 32768], half * 32768).unwrap());
        }
        wait_until(|| mounted.group.state().writes == before + 2);
        drop(closed);
    });
    assert_eq!(fs::read(&path).unwrap(), vec![2; 65536]);
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

/// Twenty writes wait, with two workers to begin with. Reads and new files do not wait with them.
#[test]
fn writes_that_must_wait_do_not_stop_reads() {
    let Some(mut mounted) = Mounted::new() else { return };
    fs::write(mounted.path("read"), "bytes").unwrap();
    let files: Vec<_> =
        (0..20).map(|i| File::create(mounted.path(&format!("write {i}"))).unwrap()).collect();
    let gate = Arc::clone(&mounted.group.state().gate);
    let closed = gate.lock().unwrap();
    std::thread::scope(|scope| {
        for mut file in files {
            scope.spawn(move || file.write_all(b"late").unwrap());
        }
        let direct = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(mounted.path("read"))
            .unwrap();
        let mut bytes = [0; 5];
        direct.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"bytes");
        File::create(mounted.path("new")).unwrap();
        drop(closed);
    });
    assert_eq!(fs::read(mounted.path("write 19")).unwrap(), b"late");
    mounted.unmount();
}

/// A server takes a request and dies with it. Its successor asks for it again, and the program that waits notices
/// nothing. The request is the very first, so the successor also makes the agreement with the kernel.
#[test]
fn a_successor_answers_what_its_predecessor_took() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let device = mount::mount("TEST", directory.path(), MountOptions::default()).unwrap();
    std::thread::scope(|scope| {
        let program = scope.spawn(|| fs::metadata(directory.path()).unwrap().ino());
        let mut taken = vec![0; 1 << 21];
        rustix::io::read(&device, &mut taken).unwrap();
        let held = device.try_clone().unwrap();
        let (front_end, ..) = take_over(device, Session::new());
        assert_eq!(program.join().unwrap(), ROOT);
        mount::unmount(directory.path(), false).unwrap();
        front_end.join();
        drop(held);
    });
}

const GETATTR: u32 = 3;
const CREATE: u32 = 35;

/// `fuse_out_header` and `fuse_attr_out`: a directory that everybody may use, believed for an hour.
fn root_attributes(header: &Header) -> Vec<u8> {
    let mut answer = header.error(0).to_vec();
    answer.extend([3600_u64, 0, ROOT, 0, 0, 0, 0, 0].into_iter().flat_map(u64::to_ne_bytes));
    answer.extend([0, 0, 0, 0o040_777, 2, 0, 0, 0, 4096, 0].into_iter().flat_map(u32::to_ne_bytes));
    let length = (answer.len() as u32).to_ne_bytes();
    answer[..4].copy_from_slice(&length);
    answer
}

/// A server makes a file and dies before it answers. Its successor is sent the request again, and does not make the file again.
#[test]
fn what_was_done_and_not_answered_is_not_done_again() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let device = mount::mount("TEST", directory.path(), MountOptions::default()).unwrap();
    let mut bytes = vec![0; 1 << 21];
    // The next request of a kind; all others are answered.
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
        let group = Session::new();
        let request = group.begin(create.number(), create.is_resent()).unwrap();
        let predecessor = group.on_behalf_of(&request);
        let caller = Caller { uid: 0, gid: 0 };
        now_or_never(async {
            predecessor.create(ROOT, b"a", NewFile::Regular, 0o600, caller).await.unwrap()
        });
        let (front_end, group, _) = take_over(device.try_clone().unwrap(), group);
        program.join().unwrap().expect("it was made, once");
        assert_eq!(group.count(), 2);
        mount::unmount(directory.path(), false).unwrap();
        assert_eq!(front_end.join(), End::Unmounted);
    });
}

/// A front end that hands over begins nothing more. What its workers still read the kernel sends again, to the next one.
#[test]
fn what_comes_while_a_mount_is_handed_over_is_the_successors() {
    let Some(mut mounted) = Mounted::new() else { return };
    fs::write(mounted.path("a"), "bytes").unwrap();
    let before = mounted.front_end.take().unwrap();
    assert!(before.hand_over(Duration::from_secs(10)), "nothing is under way");
    std::thread::scope(|scope| {
        // More than there are workers: each gets one.
        let programs: Vec<_> = (0..40)
            .map(|i| {
                scope.spawn({
                    let path = mounted.path(&format!("new {i}"));
                    move || OpenOptions::new().write(true).create_new(true).open(path).map(drop)
                })
            })
            .collect();
        assert_eq!(before.join(), End::HandedOver);
        assert_eq!((mounted.group.count(), mounted.group.state().ended), (2, false));
        let (front_end, ..) = take_over(mounted.device.try_clone().unwrap(), mounted.group.clone());
        mounted.front_end = Some(front_end);
        programs.into_iter().for_each(|program| program.join().unwrap().unwrap());
    });
    assert_eq!(mounted.group.count(), 42);
    mounted.unmount();
    assert!(mounted.group.state().ended);
}

/// Whether the kernel has a file that has no name is not counted but asked.
#[test]
fn the_kernel_says_which_files_it_does_not_have() {
    let Some(mut mounted) = Mounted::new() else { return };
    let path = mounted.path("a");
    let file = File::create(&path).unwrap();
    let node = file.metadata().unwrap().ino();
    fs::remove_file(&path).unwrap();
    let not_held = |node| mounted.group.state().not_held.contains(&node);
    mounted.watcher.still_holds(node);
    mounted.watcher.still_holds(node + 1000);
    wait_until(|| not_held(node + 1000));
    // They are asked in the order of their numbers.
    assert!(!not_held(node));
    drop(file);
    wait_until(|| {
        mounted.watcher.still_holds(node);
        not_held(node)
    });
    mounted.unmount();
}

/// For the POSIX suites, by hand: serves `PLINTH_FUSE_DIRECTORY` until it is unmounted.
#[test]
#[ignore = "serves a directory until it is unmounted"]
fn serve_a_directory() {
    let directory = PathBuf::from(std::env::var_os("PLINTH_FUSE_DIRECTORY").unwrap());
    if let Some((front_end, ..)) = serve(&directory) {
        front_end.join();
    }
}

fn now_or_never<T>(task: impl Future<Output = T>) -> T {
    let polled = std::pin::pin!(task).poll(&mut Context::from_waker(Waker::noop()));
    if let Poll::Ready(value) = polled {
        value
    } else {
        panic!("the group in memory waits for tests alone")
    }
}

/// Notifications come from a thread of their own. Gives up after a time at which something is broken.
fn wait_until(done: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if done() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("it does not happen");
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

/// A process without io_uring carries out one request after another on a thread, and has others when it must wait.
#[test]
fn who_cannot_wait_for_the_device_beside_disks_serves_as_well() {
    AT_DEVICES.set(false);
    files_are_made_written_read_renamed_and_removed();
    synchronous_writes_are_made_durable_once_cached_or_direct();
    direct_writes_are_parallel_and_seen_by_cached_reads();
    writes_that_must_wait_do_not_stop_reads();
    what_comes_while_a_mount_is_handed_over_is_the_successors();
}
