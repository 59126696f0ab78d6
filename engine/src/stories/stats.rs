//! The views of activity compared with what happened.

use super::*;
use crate::{admin::Value, testing::Counts};

impl Lab {
    /// Disks of different sizes, in MiB.
    fn of_sizes(redundancy: Redundancy, sizes: &[u64], failure_groups: &[&str]) -> Self {
        let world = TestWorld::new();
        let disk = |(size, number)| {
            MemoryDisk::noisy(&format!("/disk{number}"), size * MIB, 512, 4096, number)
        };
        let disks: Vec<_> = sizes.iter().copied().zip(1..).map(disk).collect();
        disks.iter().for_each(|disk| world.attach(disk));
        let groups = failure_groups.iter().map(|&name| name.to_owned()).collect();
        let mut lab = Self { world, disks, group: None, redundancy, groups, used: None };
        lab.create(MIB).expect("the group is made");
        lab.mount();
        lab
    }

    /// The rows of a query, as text. NULL is an empty string.
    pub(super) fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        let rows =
            block_on(self.group().query(sql)).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let text = |value: &Value| match value {
            Value::Null => String::new(),
            Value::Integer(number) => number.to_string(),
            Value::Real(number) => number.to_string(),
            Value::Text(text) => text.clone(),
            Value::Blob(_) => "a blob".to_owned(),
        };
        rows.rows.iter().map(|row| row.iter().map(text).collect()).collect()
    }

    fn numbers(&self, sql: &str) -> Vec<Vec<i64>> {
        let number =
            |text: String| text.parse().unwrap_or_else(|_| panic!("{sql}: {text} is no number"));
        self.rows(sql).into_iter().map(|row| row.into_iter().map(number).collect()).collect()
    }

    fn number(&self, sql: &str) -> i64 {
        self.numbers(sql)[0][0]
    }

    /// The disk's own counts minus the engine's counts for it: I/O that did not pass the engine's
    /// members.
    fn uncounted(&self, disk: usize) -> [u64; 4] {
        let counters = &self.group().members.values().nth(disk).expect("a member").counters;
        let (read, written) = (counters.reads(), counters.writes());
        let ours = [read.0, written.0, read.1, written.1];
        let Counts { reads, writes, bytes_read, bytes_written, .. } = self.disks[disk].counts();
        let theirs = [reads, writes, bytes_read, bytes_written];
        std::array::from_fn(|index| theirs[index].wrapping_sub(ours[index]))
    }
}

/// The engine's counters agree with those of the disk itself, and the histograms have the same
/// totals.
#[test]
fn counters_agree_with_those_of_the_disks() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    let before = [lab.uncounted(0), lab.uncounted(1)];
    let written = |lab: &Lab| lab.number("SELECT sum(bytes_written) FROM v$asm_disk");
    let at_first = written(&lab);
    for round in 0..10 {
        lab.write(node, round * 100_000, &pattern(round, 300_000));
        lab.sync(node);
    }
    assert_eq!(lab.read(node, 900_000, 300_000), pattern(9, 300_000));
    assert!(written(&lab) - at_first >= 2 * 10 * 300_000, "two mirrors of it");
    // I/O in flight is counted when it ends.
    lab.wait_for("the same counts", || [lab.uncounted(0), lab.uncounted(1)] == before);
    for (class, counter) in [("READ", "reads"), ("WRITE", "writes")] {
        let apart = format!(
            "SELECT count(*) FROM v$asm_disk d WHERE {counter} <> (SELECT coalesce(sum(wait_count), 0)
             FROM v$asm_disk_histogram h WHERE h.disk_number = d.disk_number AND h.io_class = '{class}')"
        );
        lab.wait_for("as many in the histogram", || lab.number(&apart) == 0);
    }
    assert!(
        lab.number(
            "SELECT sum(wait_count) FROM v$asm_diskgroup_histogram WHERE io_class = 'FLUSH'"
        ) >= 20
    );
    let totals = "SELECT count(*) FROM v$asm_disk d WHERE (reads, writes, bytes_read, bytes_written) <> (SELECT sum(i.reads),
        sum(i.writes), sum(i.bytes_read), sum(i.bytes_written) FROM v$asm_disk_iostat i WHERE i.disk_number = d.disk_number)";
    lab.wait_for("clients that add up", || lab.number(totals) == 0);
    let times = "SELECT count(*) FROM v$asm_disk WHERE read_time > 0 AND write_time > 0 AND hash_value <> 0";
    assert_eq!(lab.number(times), 2);
    assert_eq!(lab.number("SELECT count(DISTINCT hash_value) FROM v$asm_disk"), 2);
    // Empty buckets are listed up to the largest one that is not empty.
    for row in lab.numbers(
        "SELECT max(wait_time_micro), count(*), (SELECT max(wait_time_micro) FROM v$asm_disk_histogram f
         WHERE f.disk_number = h.disk_number AND f.io_class = h.io_class AND f.wait_count > 0)
         FROM v$asm_disk_histogram h GROUP BY disk_number, io_class",
    ) {
        assert_eq!((1 << (row[1] - 1), row[0]), (row[0], row[2]));
    }
}

/// The extent map says where the bytes are, on every mirror, of large files and of small ones that
/// share an AU.
#[test]
fn the_extent_map_agrees_with_the_bytes_on_the_disks() {
    let lab = Lab::new(Redundancy::High, 64 * MIB, &["A", "B", "C"]);
    let (large, small) = (lab.create_file("large"), lab.create_file("small"));
    let (of_large, of_small) = (pattern(1, 5 << 20), pattern(2, 10_000));
    lab.write(large, 0, &of_large);
    lab.write(small, 0, &of_small);
    lab.sync(large);
    lab.sync(small);
    let map = |node: Node| {
        lab.numbers(&format!(
            "SELECT xnum_kffxp, lxn_kffxp, pxn_kffxp, disk_kffxp, au_kffxp, offset_kffxp, flags_kffxp, incarn_kffxp
             FROM x$kffxp WHERE number_kffxp = {node} ORDER BY pxn_kffxp"
        ))
    };
    let at = |row: &[i64], length: usize| {
        let place = row[4].unsigned_abs() * MIB + row[5].unsigned_abs();
        lab.disks[usize::try_from(row[3]).expect("a disk's number")].peek(place, length)
    };
    let rows = map(large);
    assert_eq!(rows.len(), 15);
    for (index, row) in rows.iter().enumerate() {
        assert_eq!((row[0], row[1], row[2]), (index as i64 / 3, index as i64 % 3, index as i64));
        assert_eq!(row[5..7], [0, 0]);
        let start = (index / 3) << 20;
        assert_eq!(
            at(row, 1 << 20),
            of_large[start..start + (1 << 20)],
            "extent {}, mirror {}",
            row[0],
            row[1]
        );
    }
    let rows = map(small);
    assert_eq!(rows.len(), 3);
    for row in &rows {
        assert_eq!((row[0], row[6]), (0, 2));
        assert_eq!(at(row, 10_000), of_small);
    }
    let incarnation =
        lab.number(&format!("SELECT incarnation FROM v$asm_file WHERE file_number = {small}"));
    assert_eq!(rows[0][7], incarnation);
}

/// Every AU of every disk is listed once: the fixed ones, the catalog's, the files', and the free
/// ones between them.
#[test]
fn the_au_map_lists_every_au_once() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("large");
    lab.write(node, 0, &pattern(1, 7 << 20));
    lab.write(lab.create_file("small"), 0, &pattern(2, 10_000));
    let whole = lab.numbers(
        "SELECT number_kfdat, count(*), count(DISTINCT aunum_kfdat), min(aunum_kfdat), max(aunum_kfdat)
         FROM x$kfdat GROUP BY 1 ORDER BY 1",
    );
    assert_eq!(whole, (0..3).map(|disk| vec![disk, 64, 64, 0, 63]).collect::<Vec<_>>());
    let count = |what: &str| {
        lab.number(&format!("SELECT count(*) FROM x$kfdat WHERE what_kfdat = '{what}'"))
    };
    // First block, middle and end: the first is in the system AU.
    assert_eq!((count("SYSTEM"), count("HEADER"), count("FILE"), count("SHARED")), (3, 6, 14, 2));
    let membership = lab.group().voters.current();
    let of_catalog: u32 = membership.catalog.iter().map(|run| run.count).sum();
    assert_eq!(count("CATALOG") + count("LOG"), i64::from(of_catalog));
    let free = lab.number("SELECT count(*) FROM x$kfdat WHERE v_kfdat = 'F'");
    let unowned: u32 = {
        let space = lab.group().space();
        lab.group().members.values().map(|member| space.unowned(member.number)).sum()
    };
    assert_eq!((free, count("FREE")), (i64::from(unowned), i64::from(unowned)));
    let of_file = lab.numbers(&format!(
        "SELECT count(*) FROM x$kfdat d JOIN x$kffxp x ON x.disk_kffxp = d.number_kfdat AND x.au_kffxp = d.aunum_kfdat
         AND x.number_kffxp = d.fnum_kfdat AND x.xnum_kffxp = d.xnum_kfdat WHERE d.fnum_kfdat = {node} AND d.v_kfdat = 'V'"
    ));
    assert_eq!(of_file, [[14]]);
}

/// As many bytes are written as the view promises. Then each failure group in turn is lost and
/// dropped: every file gets all its mirrors again.
#[test]
fn data_within_the_safe_capacity_survives_the_loss_of_any_failure_group() {
    let sizes: [(Redundancy, &[u64], &[&str]); 4] = [
        (Redundancy::Normal, &[96, 96, 64, 64], &["A", "B", "C", "C"]),
        (Redundancy::Normal, &[48, 160, 64, 48], &["A", "B", "C", "D"]),
        (Redundancy::Normal, &[160, 64, 48], &["A", "B", "C"]),
        (Redundancy::High, &[64, 80, 64, 48, 48], &["A", "B", "C", "D", "D"]),
    ];
    for (redundancy, sizes, groups) in sizes {
        let group_count = groups.iter().collect::<std::collections::BTreeSet<_>>().len();
        for lost in 0..group_count {
            let lab = Lab::of_sizes(redundancy, sizes, groups);
            let safe = "SELECT safe_bytes, writable_bytes, reserve_bytes FROM v$asm_space WHERE restorable = 'Y'";
            let promised = lab.numbers(safe)[0].clone();
            assert!(
                promised[0] > 10 << 20
                    && promised[0] < promised[1]
                    && promised[0] + promised[2] == promised[1]
            );
            let node = lab.create_file("fill");
            let chunk = pattern(1, 1 << 20);
            for number in 0..promised[0].unsigned_abs() / MIB {
                lab.write(node, number * MIB, &chunk);
            }
            lab.sync(node);
            assert!(
                lab.number("SELECT safe_bytes FROM v$asm_space") <= 16 << 20,
                "the promise was far below what is possible"
            );
            let name = ["A", "B", "C", "D"][lost];
            let gone: Vec<usize> = (0..groups.len()).filter(|disk| groups[*disk] == name).collect();
            gone.iter().for_each(|disk| lab.silence(*disk));
            lab.write(node, 0, &chunk);
            (0..16).for_each(|number| drop(lab.read(node, number * MIB, 4096)));
            let selection = Selection::FailureGroups(vec![name.to_owned()]);
            let _ = block_on(lab.group().offline(selection.clone(), None));
            lab.wait_for("its disks to be offline", || {
                gone.iter().all(|disk| lab.state(*disk) == DiskState::Offline)
            });
            let drop = crate::admin::Departure { which: selection, force: true, reclaim: false };
            let exchange = crate::admin::Exchange { add: Vec::new(), drop: vec![drop] };
            block_on(lab.group().exchange(exchange, Some(8))).unwrap_or_else(|error| {
                panic!("{sizes:?}, {name} lost, {} MiB: {error}", promised[0] >> 20)
            });
            lab.rebalanced();
            let rebuilt =
                lab.rows("SELECT state, sofar = est_work, sofar > 0 FROM v$asm_operation_ended WHERE pass = 'REBUILD'");
            assert_eq!(rebuilt, [["DONE", "1", "1"]]);
            assert_eq!(
                lab.number("SELECT count(*) FROM v$asm_missing_mirror"),
                0,
                "{sizes:?}, {name} lost"
            );
            let fewest = "SELECT min(n) FROM (SELECT count(*) AS n FROM x$kffxp GROUP BY number_kffxp, xnum_kffxp)";
            assert_eq!(lab.number(fewest), redundancy.mirrors() as i64);
            lab.check();
            assert_eq!(lab.read(node, 5 << 20, 1 << 20), chunk);
        }
    }
}

/// All live rows that statements can cause to be gathered: each column that is declared as live has
/// a value in each row, and no row has a further one.
#[test]
fn each_live_column_gets_a_value() {
    use crate::{catalog::columns, views::live::row_of_operation};
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("some");
    lab.write(node, 0, &pattern(1, 300_000));
    lab.sync(node);
    let group = lab.group();
    let mut live = group.live();
    let every_view: Vec<&str> = columns::all().map(|view| view.name).collect();
    group.add_stats(&mut live, &format!("* {}", every_view.join(" ")));
    let operation = crate::admin::Operation {
        pass: OperationPass::Rebalance,
        state: OperationState::Run,
        power: 1,
        so_far: 0,
        work: 0,
        rate: 0,
        bytes: 0,
        error: None,
    };
    live.add("live_operation", [row_of_operation(operation)]);
    for (table, rows) in live.tables() {
        for row in rows {
            let names: std::collections::BTreeSet<&str> =
                row.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, columns::names_of(table), "{table}");
        }
    }
    // The others have rows only where something failed, waited or uses the group.
    let rare = ["live_trouble", "live_move_wait", "live_client"];
    for table in columns::live_tables().filter(|table| !rare.contains(table)) {
        let rows = live.tables().get(table).map_or(0, Vec::len);
        assert!(rows > 0, "{table} has no rows");
    }
}
