//! Real disks under both I/O engines: files, and loop devices where these may be made.

use super::*;
use futures::{StreamExt, future::join_all, stream::FuturesUnordered};
use plinth_engine::{
    completion::Done,
    sync::buffer::Buffer,
    world::{Io, Sectors, wait_for},
};
use rustix::event::{EventfdFlags, eventfd};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc,
    task::Poll,
    time::Instant,
};

const MIB: u64 = 1 << 20;

/// Runs a test under every I/O engine of this kernel, on a thread that sleeps at once and on one
/// that polls first.
fn under_each_engine(test: impl Fn(&RealWorld) + Sync) {
    for choice in [IoChoice::Threads, IoChoice::Uring] {
        match RealWorld::new(choice, |_| ()) {
            Ok(world) => {
                eprintln!("under {}", world.io_engine_name());
                test(&world);
                eprintln!("the same, looking first");
                world.set_poll_time(Duration::from_millis(1));
                let polling = thread::scope(|scope| {
                    let thread = scope.spawn(|| {
                        executor::look_first(&world.poll_time());
                        test(&world);
                    });
                    thread.join()
                });
                polling.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
            Err(error) => eprintln!("not under {choice:?}: {error}"),
        }
    }
}

/// A directory with disk files, removed at the end of the test.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        // Not /tmp, which may be a tmpfs without direct I/O.
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or(target, PathBuf::from);
        let parent = if target.is_dir() { target } else { std::env::temp_dir() };
        Self(
            tempfile::Builder::new()
                .prefix("plinth-world-")
                .tempdir_in(parent)
                .expect("temporary directory"),
        )
    }

    fn make(&self, name: &str, size: u64) -> String {
        let path = self.0.path().join(name);
        File::create(&path).and_then(|file| file.set_len(size)).expect("disk file");
        path.to_str().expect("UTF-8").to_owned()
    }
}

/// A loop device over a file, detached at the end of the test.
pub(super) struct Loop {
    pub(super) path: String,
}

impl Loop {
    /// `None` where none may be made.
    pub(super) fn new(file: &str, sector: u32) -> Option<Self> {
        Self::with(&["--sector-size", &sector.to_string(), file])
    }

    fn with(arguments: &[&str]) -> Option<Self> {
        let output =
            Command::new("losetup").args(["-f", "--show"]).args(arguments).output().ok()?;
        if !output.status.success() {
            eprintln!("no loop device: {}", String::from_utf8_lossy(&output.stderr).trim());
            return None;
        }
        Some(Self { path: String::from_utf8_lossy(&output.stdout).trim().to_owned() })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.path]).output();
    }
}

fn do_io(disk: &dyn Disk, io: Io) -> Done {
    block_on(async { disk.submit(io).await })
}

fn write(disk: &dyn Disk, offset: u64, bytes: &[u8]) {
    do_io(disk, Io::Write { offset, data: Buffer::copy_of(bytes).share(), durably: false })
        .result
        .expect("write");
}

fn read(disk: &dyn Disk, offset: u64, length: usize) -> io::Result<Buffer> {
    let done = do_io(disk, Io::Read { offset, buffer: Buffer::zeroed(length) });
    let buffer = done.buffer.expect("a read gives its buffer back");
    done.result.map(|()| buffer)
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Flushes that the kernel has sent to a block device.
fn flushes(device: &str) -> u64 {
    let name = device.rsplit('/').next().expect("a path");
    let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat")).expect("statistics");
    stat.split_whitespace().nth(15).expect("flushes (Linux 5.5)").parse().expect("a number")
}

/// The kernel releases a lock a moment after it has reported the end of an I/O.
fn claim_soon(disk: &dyn Disk) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match disk.claim() {
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline =>
            {
                thread::sleep(Duration::from_millis(1));
            }
            result => return result.expect("claim"),
        }
    }
}

/// Write, flush, read back; large and small, and with a newly opened description.
fn exercise(world: &RealWorld, path: &str, sectors: Sectors, size: u64) {
    let disk = world.open(path).expect("open");
    assert_eq!((disk.sectors(), disk.size(), disk.path()), (sectors, size, path));
    claim_soon(&*disk);
    let sector = sectors.logical as usize;
    let large = noise(1, 3 * MIB as usize);
    write(&*disk, MIB, &large);
    let small = noise(2, sector);
    write(&*disk, size - sector as u64, &small);
    do_io(&*disk, Io::Flush).result.expect("flush");
    assert_eq!(&*read(&*disk, MIB, large.len()).expect("read"), large);
    drop(disk);
    let disk = world.open(path).expect("open");
    assert_eq!(&*read(&*disk, size - sector as u64, sector).expect("read"), small);
    assert_eq!(&*read(&*disk, 0, sector).expect("read"), vec![0; sector]);
}

#[test]
fn what_is_written_to_a_file_is_read_back() {
    let files = Files::new();
    under_each_engine(|world| {
        let path = files.make("disk", 16 * MIB);
        exercise(world, &path, Sectors { logical: 512, physical: 512 }, 16 * MIB);
    });
}

/// Small buffers lie in memory that is registered with rings, as long as there is some; larger ones
/// and the rest do not. Both are read and written alike.
#[test]
fn memory_that_rings_were_shown_is_as_good_as_any() {
    let files = Files::new();
    under_each_engine(|world| {
        let disk = world.open(&files.make("disk", 16 * MIB)).expect("open");
        claim_soon(&*disk);
        let (start, length) = plinth_engine::sync::buffer::registrable().expect("there is memory");
        let is_shown = |buffer: &Buffer| {
            (start.addr()..start.addr() + length).contains(&buffer.as_ptr().addr())
        };
        for size in [512, 4096, 8192, 12288, 128 << 10, 256 << 10, 2 << 20] {
            // More than the registered memory holds.
            let count = if size == 8192 { length / size } else { 3 };
            let buffers: Vec<_> = (0..count).map(|_| Buffer::unfilled(size)).collect();
            let shown = buffers.iter().filter(|buffer| is_shown(buffer)).count();
            match size {
                8192 => assert!(shown > 0 && shown < count, "{shown} of {count}"),
                _ => assert!(shown == 0 || size <= 128 << 10, "{size}"),
            }
            for (number, mut buffer) in
                buffers.into_iter().enumerate().rev().step_by(count.div_ceil(40))
            {
                let bytes = noise(number as u64, size);
                buffer.copy_from_slice(&bytes);
                do_io(
                    &*disk,
                    Io::Write { offset: MIB, data: buffer.share(), durably: number % 2 == 0 },
                )
                .result
                .expect("write");
                assert!(*read(&*disk, MIB, size).expect("read") == bytes[..], "{size}");
            }
        }
    });
}

#[test]
fn loop_devices_of_both_sector_sizes_work() {
    let files = Files::new();
    under_each_engine(|world| {
        for sector in [512, 4096] {
            let Some(device) = Loop::new(&files.make("disk", 16 * MIB), sector) else { return };
            let physical = world.open(&device.path).expect("open").sectors().physical;
            assert!(physical == sector || physical == 4096);
            exercise(world, &device.path, Sectors { logical: sector, physical }, 16 * MIB);
            let disk = world.open(&device.path).expect("open");
            claim_soon(&*disk);
            assert!(disk.can_discard());
            write(&*disk, 0, &noise(1, MIB as usize));
            do_io(&*disk, Io::Discard { offset: 0, length: MIB }).result.expect("discard");
            read(&*disk, 0, MIB as usize)
                .expect("what a discarded range reads as is undefined, but it reads");
        }
    });
}

/// Another program has the device: the error names it.
#[test]
fn a_mounted_device_cannot_be_claimed() {
    let files = Files::new();
    let Some(device) = Loop::new(&files.make("disk", 16 * MIB), 512) else { return };
    let mkfs = Command::new("mkfs.ext4").args(["-q", "-L", "pg", &device.path]).status();
    if !mkfs.is_ok_and(|status| status.success()) {
        return;
    }
    under_each_engine(|world| {
        let occupant = world.open(&device.path).expect("open").in_use_by();
        let seen = occupant.expect("it is recognised");
        assert!(seen.starts_with("an ext4 file system ") && seen.contains(" labelled \"pg\" "));
    });
    let place = files.0.path().join("mounted");
    fs::create_dir(&place).expect("mount point");
    if !Command::new("mount")
        .args([Path::new(&device.path), &place])
        .status()
        .is_ok_and(|status| status.success())
    {
        return;
    }
    let outcome = std::panic::catch_unwind(|| {
        under_each_engine(|world| {
            let disk = world.open(&device.path).expect("open");
            let error = disk.claim().expect_err("mounted").to_string();
            let mounted =
                format!("mounted on {}", fs::canonicalize(&place).expect("path").display());
            assert!(error.contains(&mounted) && error.contains(&device.path), "{error}");
            assert_eq!(disk.in_use_by(), Some(mounted));
        });
    });
    assert!(Command::new("umount").arg(&place).status().is_ok_and(|status| status.success()));
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Both mirrors of a write are in flight at once, and thousands of reads after them.
#[test]
fn thousands_of_ios_are_in_flight_on_one_thread() {
    let files = Files::new();
    under_each_engine(|world| {
        let disks: Vec<_> = ["a", "b"]
            .iter()
            .map(|name| world.open(&files.make(name, 32 * MIB)).expect("open"))
            .collect();
        disks.iter().for_each(|disk| claim_soon(&**disk));
        let bytes = noise(3, 32 * MIB as usize);
        let all = Buffer::copy_of(&bytes).share();
        block_on(async {
            let pages = (0..bytes.len()).step_by(4096);
            let writes = pages.clone().flat_map(|at| {
                disks
                    .iter()
                    .map(|disk| (disk, at))
                    .map(|(disk, at)| {
                        disk.submit(Io::Write {
                            offset: at as u64,
                            data: all.part(at..at + 4096),
                            durably: false,
                        })
                    })
                    .collect::<Vec<_>>()
            });
            for done in join_all(writes).await {
                done.result.expect("write");
            }
            join_all(disks.iter().map(|disk| disk.submit(Io::Flush))).await;
            let reads = pages.flat_map(|at| {
                disks.iter().map(move |disk| async move {
                    let done = disk
                        .submit(Io::Read { offset: at as u64, buffer: Buffer::zeroed(4096) })
                        .await;
                    (at, done)
                })
            });
            let mut reads: FuturesUnordered<_> = reads.collect();
            while let Some((at, done)) = reads.next().await {
                done.result.expect("read");
                assert_eq!(&*done.buffer.expect("buffer"), &bytes[at..at + 4096]);
            }
        });
    });
}

/// A durable write is one request to the disk, with a flag; other writes have no flag.
#[test]
fn a_durable_write_has_a_flush_in_it() {
    for choice in [IoChoice::Threads, IoChoice::Uring] {
        let files = Files::new();
        let Ok(world) = RealWorld::new(choice, |_| ()) else { continue };
        let Some(device) = Loop::new(&files.make("disk", 4 * MIB), 512) else { return };
        let disk = world.open(&device.path).expect("open");
        claim_soon(&*disk);
        let put = |offset, byte, durably| {
            let data = Buffer::copy_of(&[byte; 8192]).share();
            do_io(&*disk, Io::Write { offset, data, durably }).result.expect("write");
            assert_eq!(read(&*disk, offset, 8192).expect("read")[..], [byte; 8192]);
        };
        let before = flushes(&device.path);
        put(8192, 1, false);
        assert_eq!(flushes(&device.path), before, "{choice:?}");
        put(16384, 2, true);
        assert!(flushes(&device.path) > before, "{choice:?}");
    }
}

/// A ring with room for two operations takes a thousand, in order of need, and ends them all.
#[test]
fn a_ring_that_is_too_small_is_only_slower() {
    let files = Files::new();
    let Ok(world) = RealWorld::new(IoChoice::Uring, |_| ()) else { return };
    let disk = world.open(&files.make("disk", 4 * MIB)).expect("open");
    thread::scope(|scope| {
        scope.spawn(|| {
            executor::use_ring_of(2, 4);
            claim_soon(&*disk);
            block_on(async {
                let page = Buffer::copy_of(&noise(4, 4096)).share();
                let writes = (0..1000).map(|at| {
                    disk.submit(Io::Write { offset: at * 4096, data: page.clone(), durably: false })
                });
                assert!(join_all(writes).await.iter().all(|done| done.result.is_ok()));
            });
        });
    });
}

#[test]
fn errors_are_errors_and_give_the_buffer_back() {
    let files = Files::new();
    under_each_engine(|world| {
        let path = files.make("disk", MIB);
        let disk = world.open(&path).expect("open");
        let kind = |io| do_io(&*disk, io).result.expect_err("must fail").kind();
        let page = || Buffer::zeroed(4096);
        assert_eq!(kind(Io::Read { offset: MIB, buffer: page() }), io::ErrorKind::UnexpectedEof);
        assert_eq!(
            kind(Io::Read { offset: MIB - 512, buffer: page() }),
            io::ErrorKind::UnexpectedEof
        );
        assert_eq!(
            kind(Io::Read { offset: u64::MAX - 100, buffer: page() }),
            io::ErrorKind::UnexpectedEof
        );
        assert_eq!(kind(Io::Read { offset: 7, buffer: page() }), io::ErrorKind::InvalidInput);
        assert_eq!(
            kind(Io::Write { offset: 0, data: page().share(), durably: false }),
            io::ErrorKind::PermissionDenied
        );
        claim_soon(&*disk);
        assert_eq!(
            kind(Io::Write { offset: MIB, data: page().share(), durably: false }),
            io::ErrorKind::InvalidInput
        );
        assert_eq!(kind(Io::Discard { offset: 0, length: 2 * MIB }), io::ErrorKind::InvalidInput);
        // The file is truncated from outside, also in the middle of a sector.
        for length in [MIB / 2, 5000, 0] {
            fs::OpenOptions::new()
                .write(true)
                .open(&path)
                .and_then(|file| file.set_len(length))
                .expect("truncate");
            let done = do_io(
                &*disk,
                Io::Read { offset: 4096, buffer: Buffer::zeroed(MIB as usize - 4096) },
            );
            assert_eq!(
                done.result.expect_err("cut").kind(),
                io::ErrorKind::UnexpectedEof,
                "{length}"
            );
            assert_eq!(done.buffer.expect("buffer").len(), MIB as usize - 4096);
        }
    });
}

#[test]
fn a_disk_that_cannot_be_written_is_refused_when_it_is_claimed() {
    let files = Files::new();
    let Some(device) = Loop::with(&["--read-only", &files.make("disk", 4 * MIB)]) else { return };
    under_each_engine(|world| {
        let disk = world.open(&device.path).expect("open");
        read(&*disk, 0, 4096).expect("it can be read");
        let error = disk.claim().expect_err("read-only").to_string();
        assert!(error.contains("is read-only") && error.contains("--setrw"), "{error}");
        assert!(do_io(&*disk, Io::Flush).result.is_err());
    });
}

/// The device behind an open disk goes away: I/O ends with an error.
#[test]
fn a_vanished_device_ends_io_with_an_error() {
    let files = Files::new();
    under_each_engine(|world| {
        let path = files.make("disk", 4 * MIB);
        let Some(device) = Loop::new(&path, 512) else { return };
        let disk = world.open(&device.path).expect("open");
        claim_soon(&*disk);
        write(&*disk, 0, &noise(5, 4096));
        // A loop device in use is detached only when its last user closes it; so the file under it
        // is truncated instead.
        fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_len(0))
            .expect("truncate");
        do_io(&*disk, Io::Read { offset: 2 * MIB, buffer: Buffer::zeroed(4096) })
            .result
            .expect_err("nothing there");
    });
}

#[test]
fn a_discard_gives_the_space_back() {
    use std::os::unix::fs::MetadataExt;
    let files = Files::new();
    under_each_engine(|world| {
        let path = files.make("disk", 8 * MIB);
        let disk = world.open(&path).expect("open");
        claim_soon(&*disk);
        assert!(disk.can_discard());
        write(&*disk, 0, &noise(6, 4 * MIB as usize));
        do_io(&*disk, Io::Flush).result.expect("flush");
        let blocks = || fs::metadata(&path).expect("metadata").blocks() * 512;
        assert!(blocks() >= 4 * MIB);
        do_io(&*disk, Io::Discard { offset: MIB, length: 3 * MIB }).result.expect("discard");
        assert!(!disk.can_discard() || blocks() < 2 * MIB);
        assert_eq!(fs::metadata(&path).expect("metadata").len(), 8 * MIB);
    });
}

/// Of a file and of a loop device. The bytes around the zeros stay, and the size too.
#[test]
fn zeroes_are_written() {
    let files = Files::new();
    under_each_engine(|world| {
        let file = files.make("disk", 8 * MIB);
        let over = files.make("over", 8 * MIB);
        let device = Loop::new(&over, 512);
        let device = device.iter().map(|device| device.path.clone());
        for path in device.chain([file.clone()]) {
            let disk = world.open(&path).expect("open");
            claim_soon(&*disk);
            write(&*disk, 0, &noise(7, 4 * MIB as usize));
            let (offset, length) = (MIB + 4096, 2 * MIB - 8192);
            do_io(&*disk, Io::WriteZeroes { offset, length }).result.expect("zeroes");
            let mut expected = noise(7, 4 * MIB as usize);
            expected[offset as usize..(offset + length) as usize].fill(0);
            assert!(read(&*disk, 0, 4 * MIB as usize).expect("read")[..] == expected, "{path}");
            assert_eq!(disk.size(), 8 * MIB);
            do_io(&*disk, Io::Flush).result.expect("flush");
            let allocated = disk.allocated().expect("there is a file");
            assert!((MIB..=9 * MIB).contains(&allocated), "{path}: {allocated}");
        }
        let metadata = fs::metadata(&file).expect("metadata");
        assert!(std::os::unix::fs::MetadataExt::blocks(&metadata) * 512 >= 4 * MIB, "written");
    });
}

/// R1: one claim at a time, whichever process has opened the disk and by whatever path.
#[test]
fn a_claimed_disk_cannot_be_claimed_again() {
    let files = Files::new();
    under_each_engine(|world| {
        let path = files.make("disk", MIB);
        let link = format!("{path}-link");
        let _ = fs::remove_file(&link);
        fs::hard_link(&path, &link).expect("link");
        let (first, second) = (world.open(&path).expect("open"), world.open(&link).expect("open"));
        claim_soon(&*first);
        first.claim().expect("a second claim by the same disk changes nothing");
        let error = second.claim().expect_err("held");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(error.to_string().contains(&link), "{error}");
        read(&*second, 0, 4096).expect("it can be looked at");
        drop(first);
        claim_soon(&*second);
    });
}

#[test]
fn a_claimed_device_is_opened_exclusively() {
    let files = Files::new();
    under_each_engine(|world| {
        let Some(device) = Loop::new(&files.make("disk", MIB), 512) else { return };
        let (first, second) =
            (world.open(&device.path).expect("open"), world.open(&device.path).expect("open"));
        claim_soon(&*first);
        let error = second.claim().expect_err("held");
        assert!(
            matches!(error.kind(), io::ErrorKind::ResourceBusy | io::ErrorKind::WouldBlock),
            "{error}"
        );
        drop(first);
        let deadline = Instant::now() + Duration::from_secs(60);
        while second.claim().is_err() {
            assert!(Instant::now() < deadline);
            thread::yield_now();
        }
    });
}

/// R1: a process that inherited the description holds the lock after we have closed it.
#[test]
fn a_lock_is_held_as_long_as_the_description_is_shared() {
    let files = Files::new();
    let path = files.make("disk", MIB);
    let file = File::options().read(true).write(true).open(&path).expect("open");
    sys::lock(&file).expect("lock");
    let share = std::process::Stdio::from(file);
    let mut child =
        Command::new("cat").stdin(std::process::Stdio::piped()).stdout(share).spawn().expect("cat");
    let again = File::options().read(true).write(true).open(&path).expect("open");
    assert_eq!(
        sys::lock(&again).expect_err("the child holds it").kind(),
        io::ErrorKind::WouldBlock
    );
    drop(child.stdin.take()); // ends it
    child.wait().expect("wait");
    sys::lock(&again).expect("nobody holds it");
}

/// A caller stops waiting, and its thread ends, or sleeps elsewhere: the I/O ends all the same, and
/// releases the disk.
#[test]
fn abandoned_io_ends_and_releases_its_file() {
    let files = Files::new();
    under_each_engine(|world| {
        let path = files.make("disk", 64 * MIB);
        let bytes = noise(7, MIB as usize);
        for ends in [true, false] {
            let other = world.open(&path).expect("open");
            let disk = world.open(&path).expect("open");
            claim_soon(&*disk);
            let data = Buffer::copy_of(&bytes).share();
            let (stay, stays) = mpsc::channel::<()>();
            let thread = thread::spawn(move || {
                block_on(async {
                    for at in 0..64 {
                        drop(disk.submit(Io::Write {
                            offset: at * MIB,
                            data: data.clone(),
                            durably: false,
                        }));
                    }
                });
                drop(disk);
                if !ends {
                    let _ = stays.recv();
                }
            });
            claim_soon(&*other);
            for at in 0..64 {
                assert_eq!(
                    &*read(&*other, at * MIB, MIB as usize).expect("read"),
                    bytes,
                    "block {at}"
                );
            }
            drop(stay);
            thread.join().expect("thread");
        }
    });
}

/// A thread waits in its ring for I/O that never ends by itself; another thread wakes it.
#[test]
fn a_thread_in_its_ring_is_woken_by_others() {
    let files = Files::new();
    under_each_engine(|world| {
        let disk = world.open(&files.make("disk", 4 * MIB)).expect("open");
        for round in 0..200 {
            let (tell, told) = futures::channel::oneshot::channel();
            let sender = thread::spawn(move || tell.send(round));
            let got = block_on(async {
                let read =
                    disk.submit(Io::Read { offset: 0, buffer: Buffer::zeroed(MIB as usize) });
                let (done, got) = futures::join!(read, told);
                done.result.expect("read");
                got
            });
            assert_eq!(got, Ok(round));
            assert_eq!(sender.join().expect("sender"), Ok(()));
        }
    });
}

/// The same with I/O that really stays in flight: a read of an eventfd that is never written.
#[test]
fn a_wake_up_reaches_a_thread_whose_io_hangs() {
    if RealWorld::new(IoChoice::Uring, |_| ()).is_err() {
        return;
    }
    let hung = Arc::new(timeout::Handle::new(File::from(
        eventfd(0, EventfdFlags::CLOEXEC).expect("eventfd"),
    )));
    let share = Arc::clone(&hung);
    let (tell, told) = futures::channel::oneshot::channel();
    let polling = Arc::new(PollTime::default());
    polling.set(Duration::from_millis(1));
    let waiter = thread::spawn(move || {
        executor::look_first(&polling);
        let (completion, completer) = plinth_engine::completion::completion();
        let expiry = completion.expiry();
        let work = op::Work::Read { offset: u64::MAX, buffer: Buffer::zeroed(8), done: 0 };
        assert!(executor::submit(op::Op { file: Some(share), work, completer }).is_ok());
        block_on(async {
            let mut completion = completion;
            futures::join!(told, sleep(Duration::from_millis(20))).0.expect("told");
            expiry.expire();
            assert!(completion.or_overdue().await.is_none());
            Some(completion)
        })
    });
    tell.send(()).expect("the waiter is there");
    let completion = waiter.join().expect("waiter").expect("completion");
    // The thread is gone. Its ring, with the read in it, belongs to the reaper; the kernel may have
    // cancelled the read with the thread, or it ends when there is something to read.
    rustix::io::write(&**hung, &1u64.to_ne_bytes()).expect("write");
    let done = block_on(completion);
    assert_eq!(done.buffer.expect("buffer").len(), 8);
    let deadline = Instant::now() + Duration::from_secs(60);
    while Arc::strong_count(&hung) > 1 {
        assert!(Instant::now() < deadline, "the file is let go");
        thread::yield_now();
    }
}

/// A thread waits for a socket and a disk at the same time, and a socket poll whose waiter is gone
/// does not keep its ring busy.
#[test]
fn a_socket_is_waited_for_beside_disks() {
    under_each_engine(|world| {
        if world.io_engine_name() == "io_uring" {
            wait_for_socket_and_disk(world);
        }
    });
}

fn wait_for_socket_and_disk(world: &RealWorld) {
    let files = Files::new();
    let disk = world.open(&files.make("disk", MIB)).expect("open");
    let (ours, theirs) = rustix::pipe::pipe().expect("pipe");
    let ours = Arc::new(ours);
    let read = async || {
        let done = disk.submit(Io::Read { offset: 0, buffer: Buffer::zeroed(4096) }).await;
        done.result.expect("read");
    };
    block_on(async {
        // There is nothing to read: the disk ends first, every time.
        let waiting = readable(&ours).expect("a ring");
        let mut waiting = std::pin::pin!(waiting);
        for _ in 0..10 {
            read().await;
            assert!(futures::poll!(waiting.as_mut()).is_pending());
        }
        rustix::io::write(&theirs, b"a").expect("write");
        waiting.await;
        // Bytes that are there already are seen at once.
        readable(&ours).expect("a ring").await;
        rustix::io::read(&*ours, &mut [0; 8]).expect("read");
    });
    // Polls that are left behind, many times: each takes a slot in the ring, which is freed when
    // the thread has nothing else to do.
    for _ in 0..20 {
        block_on(async {
            let left: Vec<_> = (0..200).map(|_| readable(&ours).expect("there is room")).collect();
            read().await;
            drop(left);
        });
        assert_eq!(Arc::strong_count(&ours), 1, "the watches are gone");
    }
    block_on(async {
        let waiting = readable(&ours).expect("a ring");
        drop(theirs);
        // The other side has closed the socket.
        waiting.await;
    });
}

/// Timers that are due at once, as after the machine has held this thread up, are still fired in
/// their order.
#[test]
fn timers_end_in_their_order() {
    under_each_engine(|world| {
        loop {
            let before = world.monotonic();
            let mut sleeps: FuturesUnordered<_> = [30, 10, 20, 0]
                .map(|time| {
                    let sleep = world.sleep(Duration::from_millis(time));
                    async move {
                        sleep.await;
                        time
                    }
                })
                .into_iter()
                .collect();
            let (begun_together, ended) = block_on(async {
                // The last of them has been polled by now.
                let first = sleeps.next().await.expect("there are four");
                let begun_together = world.monotonic() - before < Duration::from_millis(10);
                let later: Vec<_> = sleeps.collect().await;
                (begun_together, [&[first], &later[..]].concat())
            });
            assert!(world.monotonic() - before >= Duration::from_millis(30));
            // A timer that was due before it was polled the first time needs no waking, and has no
            // order.
            if begun_together {
                assert_eq!(ended, [0, 10, 20, 30]);
                break;
            }
        }
    });
}

/// A precise timer polls at its end. It is never early, and the timers and the I/O of the thread go
/// on meanwhile.
#[test]
fn a_precise_timer_is_never_early_and_lets_others_go_on() {
    under_each_engine(|world| {
        block_on(async {
            for micros in [0, 50, 500, 5000] {
                let time = Duration::from_micros(micros);
                let before = std::time::Instant::now();
                let others = futures::future::join(world.sleep(time / 2), yields(3));
                futures::future::join(world.sleep_precisely(time), others).await;
                assert!(before.elapsed() >= time);
            }
            let long = world.sleep_precisely(Duration::from_secs(1000));
            futures::future::select(long, world.sleep_precisely(Duration::from_millis(1))).await;
        });
    });
}

/// Pending for `times` polls.
async fn yields(times: usize) {
    let mut left = times;
    std::future::poll_fn(|context| {
        if left == 0 {
            return std::task::Poll::Ready(());
        }
        left -= 1;
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// A dropped timer is removed, and a very long one does not overflow.
#[test]
fn timers_can_be_given_up() {
    block_on(async {
        let long = sleep(Duration::MAX);
        futures::future::select(long, sleep(Duration::from_millis(1))).await;
    });
}

/// A future that wakes itself all the time does not keep I/O and timers from happening.
#[test]
fn a_busy_future_does_not_starve_io() {
    let files = Files::new();
    under_each_engine(|world| {
        let disk = world.open(&files.make("disk", MIB)).expect("open");
        block_on(async {
            let ended = std::cell::Cell::new(0);
            let busy = futures::future::poll_fn(|context| {
                context.waker().wake_by_ref();
                if ended.get() == 2 { Poll::Ready(()) } else { Poll::Pending }
            });
            let reading = async {
                disk.submit(Io::Read { offset: 0, buffer: Buffer::zeroed(4096) })
                    .await
                    .result
                    .expect("read");
                ended.set(ended.get() + 1);
            };
            let sleeping = async {
                sleep(Duration::from_millis(1)).await;
                ended.set(ended.get() + 1);
            };
            futures::join!(busy, reading, sleeping);
        });
    });
}

/// Synchronous code in the middle of a poll waits for I/O of its own: the outer wait misses
/// nothing.
#[test]
fn waits_can_be_nested() {
    let files = Files::new();
    under_each_engine(|world| {
        let disk = world.open(&files.make("disk", MIB)).expect("open");
        block_on(async {
            let outer = disk.submit(Io::Read { offset: 0, buffer: Buffer::zeroed(4096) });
            let inner = async {
                for _ in 0..100 {
                    let inner = wait_for(
                        world,
                        disk.submit(Io::Read { offset: 4096, buffer: Buffer::zeroed(4096) }),
                    );
                    inner.result.expect("read");
                    wait_for(world, sleep(Duration::from_micros(10)));
                }
            };
            let (outer, ()) = futures::join!(outer, inner);
            outer.result.expect("read");
        });
    });
}

#[test]
fn tasks_and_synchronous_code_run_beside_each_other() {
    under_each_engine(|world| {
        let (tell, told) = futures::channel::oneshot::channel();
        let (answer, answered) = mpsc::channel();
        world.spawn(
            "waiter",
            Box::pin(async move {
                let _ = answer.send((thread::current().name().map(str::to_owned), told.await));
            }),
        );
        world.spawn_synchronous("teller", Box::new(move || assert!(tell.send(7).is_ok())));
        assert_eq!(answered.recv().expect("answer"), (Some("waiter".to_owned()), Ok(7)));
    });
}

#[test]
fn discovery_finds_files_and_devices_in_order_and_nothing_else() {
    let files = Files::new();
    let (b, a) = (files.make("b", MIB), files.make("a", MIB));
    let directory = files.0.path().display().to_string();
    let link = format!("{directory}/link");
    std::os::unix::fs::symlink(&a, &link).expect("link");
    std::os::unix::fs::symlink("nowhere", format!("{directory}/dangling")).expect("link");
    fs::create_dir(format!("{directory}/subdirectory")).expect("directory");
    let device = Loop::new(&files.make("behind", MIB), 512);
    under_each_engine(|world| {
        let mut diskstring = format!("{directory}/?,{directory}/*i*,{b}");
        if let Some(device) = &device {
            diskstring = format!("{diskstring},{}", device.path);
        }
        world.set_diskstring(&diskstring).expect("patterns");
        assert!(world.set_diskstring("[").is_err());
        assert_eq!(world.diskstring(), diskstring);
        let found = block_on(world.discover());
        let paths: Vec<&str> = found.iter().map(|found| found.path.as_str()).collect();
        let behind = format!("{directory}/behind");
        let mut expected = vec![a.as_str(), &b, &behind, &link];
        expected.extend(device.iter().map(|device| device.path.as_str()));
        expected.sort_unstable();
        assert_eq!(paths, expected);
        let of = |path: &str| found.iter().find(|found| found.path == path).expect("found");
        assert_eq!(of(&a).identity, of(&link).identity);
        assert_ne!(of(&a).identity, of(&b).identity);
        assert!(
            found
                .iter()
                .all(|found| found.disk.as_ref().is_ok_and(|disk| disk.path() == found.path))
        );
        if let Some(device) = &device {
            assert!(
                of(&device.path).identity.0.starts_with("block:7:"),
                "{:?}",
                of(&device.path).identity
            );
            let occupant = of(&behind).disk.as_ref().expect("open").in_use_by();
            assert_eq!(occupant, Some(format!("behind {}", device.path)));
        }
    });
}

#[test]
fn the_host_tells_who_it_is() {
    let world = RealWorld::new(IoChoice::Auto, |_| ()).expect("world");
    assert_ne!(world.boot_id(), [0; 16]);
    assert!(world.now() > 1_700_000_000_000_000_000);
    let mut bytes = [[0; 40]; 2];
    bytes.iter_mut().for_each(|bytes| world.random(bytes));
    assert_ne!(bytes[0], bytes[1]);
    assert!("io_rings".parse::<IoChoice>().is_err());
}

/// Not a test: how long a read at depth one takes, beside the plain system call. Run it with
/// `PLINTH_BENCH_DISK=/dev/... cargo test --release -p plinth-server --lib read_latency --
/// --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn read_latency_at_depth_one() {
    const READS: u64 = 20_000;
    let files = Files::new();
    let path = std::env::var("PLINTH_BENCH_DISK").unwrap_or_else(|_| {
        let path = files.make("disk", 256 * MIB);
        File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.write_all_at(&noise(8, 256 << 20), 0))
            .expect("fill");
        path
    });
    let size = world_size(&path);
    let place = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (size / 4096) * 4096;
    let report = |name: &str, mut times: Vec<Duration>| {
        times.sort_unstable();
        let at =
            |percent: usize| times[(times.len() - 1) * percent / 100].as_nanos() as f64 / 1000.0;
        println!("{name:>10}: median {:.1} us, 99 % {:.1} us", at(50), at(99));
    };
    for _ in 0..2 {
        let plain: File =
            rustix::fs::open(&*path, rustix::fs::OFlags::DIRECT, rustix::fs::Mode::empty())
                .expect("open")
                .into();
        let mut buffer = Buffer::zeroed(4096);
        let times = (0..READS).map(|number| {
            let start = Instant::now();
            plain.read_exact_at(&mut buffer, place(number)).expect("read");
            start.elapsed()
        });
        report("pread", times.collect());
        under_each_engine(|world| {
            let disk = world.open(&path).expect("open");
            let mut buffer = Some(Buffer::zeroed(4096));
            let times = (0..READS).map(|number| {
                let start = Instant::now();
                let io = Io::Read { offset: place(number), buffer: buffer.take().expect("buffer") };
                buffer = block_on(disk.submit(io)).buffer;
                start.elapsed()
            });
            report(world.io_engine_name(), times.collect());
        });
    }
}

fn world_size(path: &str) -> u64 {
    RealDisk::open(path, IoEngine::Threads).expect("open").size()
}
