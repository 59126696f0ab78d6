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

/// A disk's I/O is counted by its purpose.
#[test]
fn io_is_counted_by_its_purpose() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    let of = |client: &str| {
        let sum =
            "SELECT sum(bytes_read), sum(bytes_written) FROM v$asm_disk_iostat WHERE io_client";
        let row = lab.numbers(&format!("{sum} = '{client}'")).remove(0);
        (row[0], row[1])
    };
    let (files, copies, checks) = (of("FILES"), of("COPIES"), of("CHECKS"));
    lab.write(node, 0, &pattern(1, 6 << 20));
    lab.sync(node);
    assert_eq!(of("FILES").1 - files.1, 2 * (6 << 20), "two mirrors, and nothing else");
    assert_eq!((of("COPIES"), of("CHECKS")), (copies, checks));
    assert!(of("CATALOG").1 > 0 && of("RECORDS").1 > 0);
    lab.check();
    assert!(of("CHECKS").0 - checks.0 >= 2 * (6 << 20) && of("FILES").1 - files.1 == 2 * (6 << 20));
    block_on(lab.group().offline(Selection::Disks(vec!["DATA_0001".to_owned()]), None))
        .expect("it can be spared");
    lab.write(node, 0, &pattern(2, 1 << 20));
    lab.online_all();
    let copied = of("COPIES").1 - copies.1;
    assert!((1 << 20..=6 << 20).contains(&copied), "{copied} bytes of a resync: at most all of it");
    assert_eq!(of("FILES").1 - files.1, 13 << 20, "one mirror of what was written meanwhile");
}

/// Requests of front ends are counted by file, exactly.
#[test]
fn requests_are_counted_by_file() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let (one, other) = (lab.create_file("one"), lab.create_file("other"));
    for _ in 0..3 {
        lab.write(one, 0, &pattern(1, 65_536));
    }
    lab.write(one, 0, &pattern(2, 65_537));
    lab.read(one, 0, 10);
    lab.read(one, 0, 65_537);
    lab.sync(one);
    lab.write(other, 5, b"x");
    let of = |node: Node| {
        lab.numbers(&format!(
            "SELECT small_reads, large_reads, small_writes, large_writes, syncs, bytes_read, bytes_written
             FROM v$asm_file_iostat WHERE file_number = {node}"
        ))
    };
    assert_eq!(of(one), [[1, 1, 3, 1, 1, 65_547, 262_145]]);
    assert_eq!(of(other), [[0, 0, 1, 0, 0, 0, 1]]);
    assert_eq!(of(0), [[0; 7]], "no other file");
    let histogram = lab.rows(&format!(
        "SELECT io_class, sum(wait_count) FROM v$asm_file_histogram WHERE file_number = {one} GROUP BY 1 ORDER BY 1"
    ));
    let expected = [
        ("LARGE READ", "1"),
        ("LARGE WRITE", "1"),
        ("SMALL READ", "1"),
        ("SMALL WRITE", "3"),
        ("SYNC", "1"),
    ];
    assert_eq!(histogram, expected.map(|(class, count)| vec![class.to_owned(), count.to_owned()]));
    // A request that fails is not counted.
    assert!(block_on(lab.session().write(one, u64::MAX - 1, b"beyond", false)).is_err());
    assert_eq!(of(one)[0][2], 3);
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

/// A disk that misses writes is marked in the extent map.
#[test]
fn the_extent_map_marks_stale_mirrors() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 3 << 20));
    lab.silence(1);
    lab.write(node, 0, &pattern(2, 100_000));
    let stale = format!(
        "SELECT disk_kffxp FROM x$kffxp WHERE number_kffxp = {node} AND flags_kffxp & 1 AND xnum_kffxp = 0"
    );
    lab.wait_for("the mark", || lab.numbers(&stale) == [[1]]);
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

/// Partners are mutual, and in other failure groups.
#[test]
fn partners_are_mutual_and_in_other_failure_groups() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "A", "B", "C"]);
    let pairs = lab.numbers("SELECT disk, number_kfdpartner, active_kfdpartner FROM x$kfdpartner");
    assert!(pairs.contains(&vec![0, 2, 1]) && pairs.contains(&vec![3, 1, 1]));
    assert!(pairs.iter().all(|pair| pairs.contains(&vec![pair[1], pair[0], 1])));
    assert!(!pairs.iter().any(|pair| pair[0] < 2 && pair[1] < 2));
    lab.silence(3);
    lab.write(lab.create_file("table"), 0, &pattern(1, 9 << 20));
    let inactive = "SELECT count(*) FROM x$kfdpartner WHERE active_kfdpartner = 0 AND (disk = 3 OR number_kfdpartner = 3)";
    let of_three = pairs.iter().filter(|pair| pair[0] == 3 || pair[1] == 3).count();
    lab.wait_for("inactive partners", || lab.number(inactive) == of_three as i64);
}

/// A read finds rot: the view says on which disk, how often and where.
#[test]
fn disk_errors_are_shown_with_their_place() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    let bytes = pattern(1, 200_000);
    lab.write(node, 0, &bytes);
    lab.sync(node);
    assert_eq!(lab.number("SELECT count(*) FROM v$asm_error"), 0);
    let row = &lab.numbers(&format!(
        "SELECT au_kffxp FROM x$kffxp WHERE number_kffxp = {node} AND disk_kffxp = 1"
    ))[0];
    let place = row[0].unsigned_abs() * MIB + 8192;
    lab.disks[1].corrupt(place, &[0x5a; 4096]);
    lab.wait_for("the repair", || {
        assert_eq!(lab.read(node, 0, bytes.len()), bytes);
        lab.number("SELECT sum(blocks_repaired) FROM v$asm_disk") == 1
    });
    let rows = lab
        .rows("SELECT disk_number, name, kind, count, last_offset, last_bytes, last_au FROM v$asm_error ORDER BY kind");
    let kinds: Vec<(&str, &str)> =
        rows.iter().map(|row| (row[0].as_str(), row[2].as_str())).collect();
    assert_eq!(kinds, [("1", "CHECKSUM"), ("1", "REPAIRED")]);
    assert_eq!(
        rows[1][1..],
        ["DATA_0001", "REPAIRED", "1", &place.to_string(), "4096", &row[0].to_string()]
            .map(str::to_owned)
    );
    lab.silence(0);
    lab.write(node, 0, &bytes);
    let offline = "SELECT count(*) FROM v$asm_error WHERE disk_number = 0 AND kind IN ('OFFLINE', 'WRITE FAILED')";
    lab.wait_for("the loss", || lab.number(offline) == 2);
}

/// A disk that cannot be spared fails: the caller gets the error, and the view shows it.
#[test]
fn a_refused_request_is_shown_as_a_disk_error() {
    let lab = Lab::new(Redundancy::External, 64 * MIB, &["A"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 200_000));
    lab.disks[0].faults(|faults| faults.flushes_lost = 1);
    let error = block_on(lab.session().sync(node, false)).expect_err("it is refused");
    assert!(matches!(error, FileError::Refused { .. }), "{error:?}");
    lab.disks[0].heal();
    let rows =
        lab.rows("SELECT kind, last_text FROM v$asm_error WHERE kind IN ('REFUSED', 'FLUSH FAILED') ORDER BY kind");
    let kinds: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(kinds, ["FLUSH FAILED", "REFUSED"]);
    assert!(rows[1][1].contains("flush"), "{rows:?}");
    assert_eq!(lab.state(0), DiskState::Online);
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
            let drop = crate::admin::Departure { which: selection, force: true };
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
