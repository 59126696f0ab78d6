//! Many threads at once, while disks fail, hang and return.

use super::*;
use crate::{extent::activity::REGIONS_MAX, space::extent_id::ExtentId, sync::lock::RwLock};
use futures::FutureExt;
use std::{
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
};

/// The work of one thread on its own part of a shared file and on a file of its own. While `gate`
/// is held for writing no request is in flight.
fn toil(session: &Session, shared: Node, own: Node, seed: u64, rounds: u64, gate: &RwLock<()>) {
    let mut numbers = Numbers::new(seed);
    let base = seed * 700_001;
    let mut part = vec![0; 700_001];
    let mut file: Vec<u8> = Vec::new();
    for round in 0..rounds {
        let length = 1 + usize::try_from(numbers.below(60_000)).expect("small");
        let at = usize::try_from(numbers.below((part.len() - length) as u64)).expect("small");
        let bytes = pattern(numbers.draw(), length);
        let _open = gate.read();
        match numbers.below(8) {
            0..=2 => {
                block_on(session.write(shared, base + at as u64, &bytes, false)).expect("written");
                part[at..at + length].copy_from_slice(&bytes);
            }
            3 | 4 => {
                let at = at / 4;
                block_on(session.write(own, at as u64, &bytes, false)).expect("written");
                file.resize(file.len().max(at + length), 0);
                file[at..at + length].copy_from_slice(&bytes);
            }
            5 => block_on(session.sync(if round % 2 == 0 { own } else { shared }, true))
                .expect("synced"),
            6 => {
                let size = usize::try_from(numbers.below(file.len() as u64 + 1)).expect("small");
                let changes = Changes { size: Some(size as u64), ..Changes::default() };
                block_on(session.change(own, changes)).expect("cut");
                file.truncate(size);
            }
            _ => {
                let punch = Allocate::PunchHole;
                block_on(session.allocate(shared, base + at as u64, length as u64, punch, false))
                    .expect("punched");
                part[at..at + length].fill(0);
            }
        }
        let mut now = vec![0xee; part.len()];
        let count = block_on(session.read(shared, base, &mut now)).expect("read");
        assert!(now[..count] == part[..count], "thread {seed}, round {round}: the shared file");
        let mut now = vec![0xee; file.len() + 1];
        let count = block_on(session.read(own, 0, &mut now)).expect("read");
        assert!(now[..count] == file[..], "thread {seed}, round {round}: its own file");
    }
}

#[test]
fn many_threads_read_back_what_they_wrote_while_disks_fail_and_return() {
    let mut lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "A", "B", "B"]);
    let shared = lab.create_file("shared");
    let size = Changes { size: Some(5_000_000), ..Changes::default() };
    block_on(lab.session().change(shared, size)).expect("sized");
    let gate = Arc::new(RwLock::new(()));
    let workers: Vec<_> = (0..5)
        .map(|seed| {
            let (session, own, gate) =
                (lab.session(), lab.create_file(&format!("own{seed}")), Arc::clone(&gate));
            std::thread::spawn(move || toil(&session, shared, own, seed, 120, &gate))
        })
        .collect();
    let mut numbers = Numbers::new(5);
    let deadline = std::time::Instant::now() + Duration::from_secs(300);
    while workers.iter().any(|worker| !worker.is_finished()) {
        assert!(std::time::Instant::now() < deadline, "they hang: {:#?}", lab.world.events());
        let disk = usize::try_from(numbers.below(4)).expect("small");
        let kind = numbers.below(4);
        lab.disks[disk].faults(|faults| match kind {
            0 => faults.fail_writes = true,
            1 => faults.fail_flushes = true,
            2 => faults.fail_reads = true,
            _ => faults.hang = true,
        });
        std::thread::sleep(Duration::from_millis(if kind == 3 { 1500 } else { 50 }));
        lab.disks[disk].heal();
        // I/O that failed on this disk may not have taken it offline yet: it has when all requests
        // that were in flight have ended. Without this wait the next disk that fails might be the
        // second one at once.
        drop(gate.write());
        lab.wait_for("the return", || {
            let _ = block_on(lab.group().online(Selection::All));
            (0..4).all(|disk| lab.state(disk) == DiskState::Online)
        });
    }
    workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
    lab.online_all();
    lab.check();
    lab.dismount();
    lab.mount();
    lab.check();
}

/// Readers of one block never stop; a writer gets its turn all the same.
#[test]
fn readers_do_not_starve_a_writer() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("hot");
    lab.write(node, 0, &[1; 1_000_000]);
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (session, stop) = (lab.session(), Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    block_on(session.read(node, 0, &mut [0; 900_000])).expect("read");
                }
            })
        })
        .collect();
    let session = lab.session();
    let writer = std::thread::spawn(move || {
        for byte in 0..20 {
            block_on(session.write(node, 0, &[byte; 900_000], false)).expect("written");
        }
    });
    lab.wait_for("the writes", || writer.is_finished());
    stop.store(true, Ordering::Relaxed);
    readers.into_iter().for_each(|reader| reader.join().expect("no panic"));
}

/// Files get extents while another thread looks up all that exist: each extent is in memory once,
/// with one set of locks.
#[test]
fn a_new_extent_is_in_memory_once() {
    let lab = Lab::new(Redundancy::Normal, 256 * MIB, &["A", "B"]);
    let group = lab.group();
    let ended = AtomicBool::new(false);
    let (nodes, seen): (Vec<Node>, Vec<_>) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut seen = Vec::new();
            while !ended.load(Ordering::Relaxed) {
                let extents = Arc::clone(&group.extents);
                // Right behind the job that writes the row, before its caller knows of that.
                let look = move |connection: &rusqlite::Connection| {
                    let mut ids = connection.prepare("SELECT id FROM extent")?;
                    let ids = ids
                        .query_map([], |row| row.get(0))?
                        .collect::<rusqlite::Result<Vec<i64>>>()?;
                    let find = |id: i64| {
                        crate::extent::scope::find(
                            connection,
                            &extents,
                            ExtentId(id.cast_unsigned()),
                        )
                    };
                    Ok(ids.into_iter().map(find).collect::<rusqlite::Result<Vec<_>>>()?)
                };
                seen.extend(block_on(group.catalog.release(false, look)).expect("it looks").0);
            }
            seen
        });
        let write = |number| {
            let node = lab.create_file(&format!("file{number}"));
            lab.write(node, 0, &pattern(number, 5000));
            lab.write(node, 5000, &pattern(number, 2 << 20));
            node
        };
        let nodes = (0..40).map(write).collect();
        ended.store(true, Ordering::Relaxed);
        (nodes, looking.join().expect("no panic"))
    });
    for node in nodes {
        let file = block_on(group.files.get(node)).expect("it is there");
        let layout = block_on(file.data.layout.read());
        assert_eq!(layout.extents.len(), 3);
        for extent in layout.extents.values() {
            let mut same = seen.iter().flatten().filter(|other| other.id == extent.id);
            assert!(
                same.all(|other| Arc::ptr_eq(extent, other)),
                "extent {} of {node:?} is there twice",
                extent.number
            );
        }
    }
    assert!(!seen.is_empty());
}

/// The activity log has room for two more regions, and two writes need two each. The second write
/// waits outside of all regions until the first has ended. If it waited inside one, each would wait
/// for the other.
#[test]
fn writes_in_several_regions_do_not_wait_for_each_other() {
    let lab = Lab::new(Redundancy::Normal, 192 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    let reserve = Allocate::Reserve { keep_size: false };
    block_on(lab.session().allocate(node, 0, 128 * MIB, reserve, false)).expect("there is room");
    let group = lab.group();
    let mut extents = group.extents.all();
    extents.retain(|extent| extent.file == node);
    extents.sort_by_key(|extent| extent.number);
    // However large regions are while many are opened, the four extents are in four regions.
    let pairs = extents.windows(2).filter(|pair| pair[0].id.0 / 32 != pair[1].id.0 / 32).step_by(2);
    let pairs: Vec<[&Arc<Extent>; 2]> = pairs.map(|pair| [&pair[0], &pair[1]]).collect();
    let [[one, two], [three, four]] = [pairs[0], pairs[1]];
    let [first, second] = [two, four].map(|extent| extent.number * MIB - 4096);
    [first, second].into_iter().for_each(|at| lab.write(node, at, &pattern(1, 8192)));
    lab.sync(node);
    lab.close_regions();
    // All regions but two are taken.
    let taken = REGIONS_MAX - 2;
    let room = block_on(group.activity.room_for(taken + 1));
    let far = |number: usize| Extent::new(ExtentId((1 << 40) + ((number as u64) << 20)), 0, 0, &[]);
    let enter = |number| block_on(group.activate(&far(number))).expect("there is room");
    let held: Vec<_> = (0..taken).map(enter).collect();
    // Each write is held up between its two regions.
    let ranges = [two, four]
        .map(|extent| extent.ranges.try_hold(0..1, false).expect("no write is in flight"));
    let session = lab.session();
    let (new, newer) = (pattern(2, 8192), pattern(3, 8192));
    let mut writing = pin!(session.write(node, first, &new, false));
    assert!(run_until(writing.as_mut(), || two.ranges.waiting() > 0).is_none());
    assert!(group.activity.has(one.id));
    let mut waiting = pin!(session.write(node, second, &newer, false));
    // Disks in memory answer at once: the future comes as far as it can.
    assert!((0..1000).all(|_| waiting.as_mut().now_or_never().is_none()));
    assert!(
        !group.activity.has(three.id),
        "it has taken the region that the other one needs, and needs one more"
    );
    drop(ranges);
    block_on(writing).expect("it is written");
    block_on(waiting).expect("it is written");
    drop((held, room));
    lab.close_regions();
    assert_eq!(lab.read(node, first, 8192), new);
    assert_eq!(lab.read(node, second, 8192), newer);
    lab.check();
}
