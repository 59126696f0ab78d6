#![allow(unsafe_code)]
//! The cost of a read and a write in the steady state: no call of the allocator, and no lock.
//!
//! Unsafe: an allocator that counts calls and passes them to the system's.

use futures::stream::{FuturesUnordered, StreamExt};
use plinth_engine::{
    admin::{NewDisk, NewGroup},
    api::{Caller, NewFile, ROOT},
    files::session::Session,
    group::Group,
    sync::{buffer::Buffer, lock, transfer::Source},
    world::World,
};
use plinth_format::Redundancy;
use plinth_host::{IoChoice, RealWorld, block_on};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // The thread-local of a thread that ends is gone: its calls are not counted.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

fn calls() -> u64 {
    CALLS.with(Cell::get)
}

// SAFETY: all calls go to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.realloc(place, layout, size) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const BLOCK: usize = 8192;
const SIZE: u64 = 16 << 20;

fn mounted(dir: &Path) -> (Arc<Group>, Session, u64) {
    let path = |name: &str| {
        let path = dir.join(name);
        File::create(&path).and_then(|file| file.set_len(256 << 20)).expect("disk file");
        path.to_str().expect("UTF-8").to_owned()
    };
    let paths = [path("one"), path("two")];
    let world = RealWorld::new(IoChoice::Auto, |_| ()).expect("world");
    world.set_diskstring(&paths.join(",")).expect("paths");
    let world: Arc<dyn World> = Arc::new(world);
    let disk = |path: &String| NewDisk {
        path: path.clone(),
        name: None,
        failure_group: None,
        quorum: false,
        size: None,
        force: false,
    };
    let new = NewGroup {
        name: "STEADY".into(),
        redundancy: Redundancy::Normal,
        au_size: 1 << 20,
        attributes: Vec::new(),
        disks: paths.iter().map(disk).collect(),
    };
    block_on(Group::create(&world, new)).expect("made");
    let group = block_on(Group::mount(world, "STEADY", false)).expect("mounted");
    let session = Session::new(Arc::clone(&group), None);
    let caller = Caller { uid: 0, gid: 0 };
    let node = block_on(session.create(ROOT, b"file", NewFile::Regular, 0o600, caller))
        .expect("a file")
        .node;
    for offset in (0..SIZE).step_by(1 << 20) {
        block_on(session.write(node, offset, &vec![7; 1 << 20], false)).expect("written");
    }
    block_on(session.sync(node, false)).expect("durable");
    (group, session, node)
}

/// Calls of the allocator, and locks taken, by this thread during `measured` I/Os, after as many to
/// warm up.
fn asked_for(session: &Session, node: u64, depth: usize, writes: bool) -> (u64, u64) {
    let measured: u64 = if writes { 3_000 } else { 6_000 };
    let (begun, before, after) = (Cell::new(0_u64), Cell::new((0, 0)), Cell::new((0, 0)));
    let bytes = Source::Shared(Buffer::copy_of(&[9; BLOCK]).share());
    let one = || async {
        loop {
            let number = begun.get();
            if number == measured {
                before.set((calls(), lock::taken()));
            }
            if number == 2 * measured {
                after.set((calls(), lock::taken()));
            }
            if number >= 2 * measured {
                begun.set(number + 1);
                return;
            }
            begun.set(number + 1);
            let offset =
                number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (SIZE / BLOCK as u64) * BLOCK as u64;
            if writes {
                session.write_from(node, offset, bytes.clone(), false).await.expect("written");
            } else {
                assert_eq!(session.find(node, offset, BLOCK).await.expect("read").len(), BLOCK);
            }
        }
    };
    block_on(async {
        let mut all: FuturesUnordered<_> = (0..depth).map(|_| one()).collect();
        while all.next().await.is_some() {}
    });
    let ((calls, locks), (calls_before, locks_before)) = (after.get(), before.get());
    (calls - calls_before, locks - locks_before)
}

/// An I/O reuses the memory of the one before it. Only this thread is measured: others wake up now
/// and then, whatever it does.
#[test]
fn reads_and_writes_need_neither_allocator_nor_lock() {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    let parent = if target.is_dir() { target } else { std::env::temp_dir() };
    let dir =
        tempfile::Builder::new().prefix("plinth-steady-").tempdir_in(parent).expect("directory");
    let (group, session, node) = mounted(dir.path());
    assert!(calls() > 0 && lock::taken() > 0, "both are counted");
    for depth in [1, 32] {
        for writes in [false, true] {
            // Lists may still have to grow to their largest length: after some rounds that ends.
            let asked: Vec<(u64, u64)> = (0..20)
                .map(|_| asked_for(&session, node, depth, writes))
                .take_while(|(calls, locks)| calls + locks > 0)
                .collect();
            let what = if writes { "writes" } else { "reads" };
            assert!(
                asked.len() < 20,
                "allocations and locks of {what} at depth {depth}: {asked:?}"
            );
            eprintln!("{what} at depth {depth}: none, after {asked:?}");
        }
    }
    drop(session);
    block_on(group.dismount(true)).expect("dismounted");
}
