//! Which mirror is read: the faster one, or the preferred one. `read_policy/tests.rs` tests the
//! policy with disks of all kinds; these stories are of whole groups.

use super::*;
use crate::catalog::READERS;
use std::{
    collections::BTreeSet,
    pin::pin,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
};

/// The row of one disk in `v$asm_read_policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reads {
    preferred: u64,
    faster: u64,
    equal: u64,
    only: u64,
    retry: u64,
    exploration: u64,
}

impl Reads {
    fn all(self) -> u64 {
        self.preferred + self.faster + self.equal + self.only + self.retry + self.exploration
    }
}

impl Lab {
    fn reads(&self) -> [Reads; 2] {
        let rows = self.rows(
            "SELECT preferred_reads, faster_reads, equal_reads, only_reads, retry_reads, exploration_reads
             FROM v$asm_read_policy ORDER BY disk_number",
        );
        let of = |row: &Vec<String>| {
            let number = |column: usize| row[column].parse().expect("a count");
            let [preferred, faster, equal, only, retry, exploration] = std::array::from_fn(number);
            Reads { preferred, faster, equal, only, retry, exploration }
        };
        assert_eq!(rows.len(), 2, "quorum disks have no data");
        [of(&rows[0]), of(&rows[1])]
    }

    /// Reads blocks of a file. Returns how many of these reads each disk served.
    fn read_blocks(&self, node: Node, count: u64) -> [u64; 2] {
        let before = self.reads();
        for block in 0..count {
            let offset = (block * 7919 % 128) * 8192;
            assert_eq!(self.read(node, offset, 8192)[0], 7, "block {block}");
        }
        let after = self.reads();
        [after[0].all() - before[0].all(), after[1].all() - before[1].all()]
    }

    fn prefer(&self, failure_groups: &[&str]) {
        self.group().prefer_reads(&failure_groups.iter().map(|name| (*name).to_owned()).collect());
    }

    fn with_table() -> (Self, Node) {
        let lab = Self::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
        let node = lab.create_file("table");
        lab.write(node, 0, &vec![7; MIB as usize]);
        lab.sync(node);
        (lab, node)
    }
}

/// Each disk in turn becomes slow. Reads go to the other one, except the few that probe whether the
/// disk is still slow. When it is fast again reads go to both.
#[test]
fn a_slow_mirror_is_not_read_until_it_is_fast_again() {
    let (lab, node) = Lab::with_table();
    let both = |what: &str| {
        let fair = |went: [u64; 2]| went.iter().all(|one| *one >= 25);
        assert!((0..500).any(|_| fair(lab.read_blocks(node, 100))), "{what}: {:?}", lab.reads());
    };
    both("at first");
    for slow in 0..2 {
        let before = lab.reads();
        lab.disks[slow].faults(|faults| faults.slow_reads = Duration::from_millis(2));
        // On a host that does something else for a moment the fast disk is slow, too.
        let is_aside = |went: [u64; 2]| went[slow] * 50 <= went[0] + went[1];
        assert!(
            (0..20).any(|_| is_aside(lab.read_blocks(node, 500))),
            "disk {slow}: {:?}",
            lab.reads()
        );
        lab.wait_for("an exploration", || {
            lab.read_blocks(node, 500);
            lab.reads()[slow].exploration > before[slow].exploration
        });
        let after = lab.reads();
        assert!(after[1 - slow].faster > before[1 - slow].faster + 400, "{after:?}");
        let of_clients = "SELECT sum(reads) FROM v$asm_disk_iostat WHERE io_client = 'EXPLORATION'";
        // A read is counted as chosen before it has ended.
        lab.wait_for("its end", || lab.rows(of_clients)[0][0].parse::<u64>().expect("a count") > 0);
        lab.disks[slow].heal();
        both(&format!("disk {slow} is fast again"));
    }
}

/// Only the preferred mirror is read while it can be. A statement takes effect at once, and also
/// for a disk that was offline.
#[test]
fn the_preferred_mirror_is_read_while_it_can_be() {
    let (lab, node) = Lab::with_table();
    lab.disks[0].faults(|faults| faults.slow_reads = Duration::from_micros(100));
    lab.prefer(&["A"]);
    let before = lab.reads();
    assert_eq!(lab.read_blocks(node, 300), [300, 0]);
    assert_eq!(lab.reads()[0].preferred, before[0].preferred + 300);
    assert_eq!(
        lab.rows("SELECT preferred_read FROM v$asm_disk ORDER BY disk_number"),
        [["Y"], ["N"]]
    );
    lab.prefer(&["B", "NOT_THERE"]);
    assert_eq!(lab.read_blocks(node, 300), [0, 300]);
    // A comparison reads every mirror, and is not counted by a reason.
    let before = lab.reads();
    lab.check();
    assert_eq!(lab.reads(), before);
    // The preferred mirror cannot be read: the other one is read, and the client gets no error.
    lab.disks[1].faults(|faults| faults.fail_reads = true);
    assert_eq!(lab.read_blocks(node, 1), [1, 1]);
    assert_eq!(lab.reads()[0].retry, before[0].retry + 1);
    lab.disks[1].heal();
    // The disk goes offline and comes back.
    block_on(lab.group().offline(Selection::FailureGroups(vec!["B".to_owned()]), None))
        .expect("A has everything");
    assert_eq!(lab.read_blocks(node, 10), [10, 0]);
    assert_eq!(lab.reads()[0].only, before[0].only + 10);
    lab.online_all();
    assert_eq!(lab.read_blocks(node, 10), [0, 10]);
    lab.prefer(&[]);
    assert_eq!(lab.rows("SELECT DISTINCT preferred_read FROM v$asm_disk"), [["U"]]);
    let known = |names: &[&str]| {
        let names: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
        lab.group().check_failure_groups(&names)
    };
    assert!(known(&["A", "B"]).is_ok());
    let error = known(&["A", "C"]).expect_err("there is none");
    assert_eq!(
        (error.code, error.hint.as_deref()),
        (Code::NoSuchDisk, Some("its failure groups are A, B"))
    );
}

/// A caller loads the extents of a file from a snapshot. Before it has them, the file is removed
/// and its AUs are free: the caller gets an error, not places that the file no longer has.
#[test]
fn the_layout_of_a_file_that_is_removed_while_it_loads_is_refused() {
    struct Woken(AtomicBool);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 1 << 20));
    lab.sync(node);
    lab.dismount();
    lab.mount();
    let group = lab.group();
    let file = block_on(group.files.get(lab.find("table"))).expect("it is there");
    // All of the catalog's readers are busy when the file's rows are asked for.
    let gates = [Arc::new(Barrier::new(READERS + 1)), Arc::new(Barrier::new(READERS + 1))];
    let busy = (0..READERS).map(|_| {
        let (catalog, gates) = (Arc::clone(&group.catalog), gates.clone());
        let read = move |_: &rusqlite::Connection| {
            gates.iter().for_each(|gate| _ = gate.wait());
            Ok(())
        };
        std::thread::spawn(move || block_on(catalog.read(read)))
    });
    let busy: Vec<_> = busy.collect();
    gates[0].wait();
    let mut load = pin!(group.loaded_layout(&file));
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    assert!(
        load.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&woken)))).is_pending()
    );
    gates[1].wait();
    busy.into_iter()
        .for_each(|reader| reader.join().expect("no panic").expect("the catalog answers"));
    lab.wait_for("the rows", || woken.0.load(Ordering::SeqCst));
    block_on(lab.session().unlink(ROOT, b"table")).expect("it is removed");
    let count = move |connection: &rusqlite::Connection| {
        let sql = "SELECT count(*) FROM extent WHERE file = ?1";
        Ok(connection.query_row(sql, [node.cast_signed()], |row| row.get::<_, i64>(0))?)
    };
    lab.wait_for("its AUs", || {
        block_on(group.reclaim(true)).expect("the catalog answers");
        block_on(group.catalog.read(count)).expect("the catalog answers") == 0
            && !group.has_pending()
    });
    let found = block_on(load).map(|layout| layout.extents.len());
    assert!(matches!(found, Err(FileError::Stale(_))), "{found:?}");
    lab.check();
}
