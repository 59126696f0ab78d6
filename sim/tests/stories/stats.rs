//! The views of activity compared with what happened.

use super::*;
use plinth_engine::admin::Value;

impl Lab {
    /// The rows of a query, as text. NULL is an empty string.
    pub fn rows(&self, sql: &str) -> Vec<Vec<String>> {
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
    lab.disk(1).corrupt(place, &[0x5a; 4096]);
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
    lab.disk(0).faults(|faults| faults.failing_flushes = 1);
    let error = block_on(lab.session().sync(node, false)).expect_err("it is refused");
    assert!(matches!(error, FileError::Refused { .. }), "{error:?}");
    lab.disk(0).heal();
    let rows =
        lab.rows("SELECT kind, last_text FROM v$asm_error WHERE kind IN ('REFUSED', 'FLUSH FAILED') ORDER BY kind");
    let kinds: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(kinds, ["FLUSH FAILED", "REFUSED"]);
    assert!(rows[1][1].contains("flush"), "{rows:?}");
    assert_eq!(lab.state(0), DiskState::Online);
}
