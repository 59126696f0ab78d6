//! The contents of the views, against what was done.

use plinth_tests::{Blocks, Instance, MIB, Postgres, Row, bytes, wait_for};
use std::{fs, os::unix::fs::FileExt, thread, time::Duration};

fn number(row: &Row, column: &str) -> u64 {
    row[column].as_u64().unwrap_or_else(|| panic!("{column} of {row:?} is no number"))
}

fn text<'a>(row: &'a Row, column: &str) -> &'a str {
    row[column].as_str().unwrap_or_else(|| panic!("{column} of {row:?} is no text"))
}

/// Every view can be queried for everything, in a mounted group and without one, and has the
/// columns that it declares.
#[test]
fn every_view_answers() {
    let instance = Instance::new();
    let views = instance.query("SELECT relname FROM pg_class WHERE relkind = 'v' ORDER BY relname");
    let views: Vec<&str> = views.iter().map(|row| text(row, "relname")).collect();
    for view in [
        "v$asm_disk_stat",
        "v$asm_disk_histogram",
        "v$asm_file_histogram",
        "v$asm_client",
        "x$kffxp",
        "x$kfdat",
    ] {
        assert!(views.contains(&view), "{view} is not among {views:?}");
    }
    let complain = |view: &str| {
        let said = instance.plinth(["sql", "-c", &format!("SELECT * FROM {view}")]);
        assert!(
            said.code == Some(0)
                && !said.err.contains("NOTICE")
                && !said.err.contains("nothing of"),
            "{view}: {said}"
        );
    };
    views.iter().for_each(|view| complain(view));
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    fs::write(mount.join("small"), [1; 5000]).expect("write");
    views.iter().for_each(|view| complain(view));
    // Of a mounted group there is something in each of these, with the group's number.
    for (view, column) in [
        ("v$asm_disk_histogram", "group_number"),
        ("v$asm_diskgroup_histogram", "group_number"),
        ("v$asm_file_histogram", "group_number"),
        ("v$asm_file_iostat", "group_number"),
        ("v$asm_disk_iostat", "group_number"),
        ("v$asm_client", "group_number"),
        ("v$asm_disk_thin", "group_number"),
        ("v$asm_space", "group_number"),
        ("v$asm_filesystem", "group_number"),
        ("v$event_histogram_micro", "group_number"),
        ("x$kffxp", "group_kffxp"),
        ("x$kfdat", "group_kfdat"),
        ("x$kfdpartner", "grp"),
    ] {
        let numbers = instance.query(&format!("SELECT DISTINCT {column} AS n FROM {view}"));
        let group = instance.number("SELECT group_number FROM v$asm_diskgroup_stat");
        assert_eq!(
            numbers.iter().map(|row| number(row, "n") as f64).collect::<Vec<_>>(),
            [group],
            "{view}"
        );
    }
    let compound = "SELECT count(*) FROM x$kffxp WHERE compound_kffxp <> group_kffxp * 16777216 + number_kffxp";
    assert_eq!(instance.number(compound), 0.0);
    let partners = "SELECT count(*) FROM x$kfdpartner WHERE compound = grp * 16777216 + disk AND active_kfdpartner = 1";
    assert_eq!(instance.number(partners), 6.0);
}

/// Writes through a mount appear, by file and by disk; histograms have as many as there were.
#[test]
fn counters_are_what_was_done() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    let written = || instance.number("SELECT sum(bytes_written) FROM v$asm_disk_iostat");
    let before = written();
    let _ = Blocks::new(mount.join("table"), 1, 8192);
    assert!(written() - before >= 2.0 * 32.0 * MIB as f64, "32 MiB on two mirrors");
    let file = fs::metadata(mount.join("table"))
        .map(|file| std::os::unix::fs::MetadataExt::ino(&file))
        .expect("it is there");
    let rows =
        instance.query(&format!("SELECT * FROM v$asm_file_iostat WHERE file_number = {file}"));
    let row = rows.first().expect("the file was used");
    assert_eq!(number(row, "bytes_written"), 32 * MIB);
    assert!(
        number(row, "syncs") >= 1
            && number(row, "large_writes") + number(row, "small_writes") >= 32
    );
    let in_histogram = instance.number(&format!(
        "SELECT sum(wait_count) FROM v$asm_file_histogram WHERE file_number = {file} AND io_class LIKE '% WRITE'"
    ));
    assert_eq!(in_histogram, (number(row, "large_writes") + number(row, "small_writes")) as f64);
    let of_view = instance.query(&format!(
        "SELECT cold_writes, cold_bytes_written FROM v$asm_file WHERE file_number = {file}"
    ));
    assert_eq!(
        number(&of_view[0], "cold_writes"),
        number(row, "large_writes") + number(row, "small_writes")
    );
    assert_eq!(number(&of_view[0], "cold_bytes_written"), 32 * MIB);
    // Times are of the size that the histogram says.
    for row in instance.query(
        "SELECT d.name, d.writes, d.write_time, sum(h.wait_count) AS many, sum(h.wait_count * h.wait_time_micro) / 1e6 AS at_most
         FROM v$asm_disk_stat d JOIN v$asm_disk_histogram h
         ON h.group_number = d.group_number AND h.disk_number = d.disk_number AND h.io_class = 'WRITE' GROUP BY d.name",
    ) {
        let (time, most) = (row["write_time"].as_f64().expect("a time"), row["at_most"].as_f64().expect("a time"));
        assert!(time > 0.0 && time <= most * 1.5, "{row:?}");
    }
    // The numbers are of this mount.
    instance.quiesce("DATA");
    assert_eq!(
        instance
            .query(&format!("SELECT 1 FROM v$asm_file_iostat WHERE file_number = {file}"))
            .len(),
        0
    );
}

/// A disk hangs for a while: its I/O of that time is in a bucket of more than a second, and the
/// disk is reported to be slow.
#[test]
fn a_slow_disk_is_seen() {
    let mut instance = Instance::new();
    instance.add_fault_disk("f0d0", 256 * MIB);
    instance.create_group(
        "data",
        "NORMAL",
        &[&[256 * MIB], &[256 * MIB]],
        "'disk_timeout' = '120'",
    );
    let mount = instance.mount("DATA");
    fs::write(mount.join("table"), [1; 4096]).expect("write");
    let slow = |table: &str| {
        let of_disk = "(SELECT disk_number FROM v$asm_disk_stat WHERE name = 'DATA_0000')";
        instance.number(&format!("SELECT count(*) FROM {table} AND disk_number = {of_disk}"))
    };
    let histogram = "v$asm_disk_histogram WHERE wait_time_micro > 1048576 AND wait_count > 0 AND last_update_time IS NOT NULL";
    // On a busy host a write may begin late.
    for pause in [2, 4, 8, 16] {
        instance.faulty("f0d0").hang();
        let path = mount.join("table");
        let writing = thread::spawn(move || {
            let file = fs::File::options().write(true).open(path).expect("open");
            file.write_all_at(&[2; 4096], 0)
                .and_then(|()| file.sync_all())
                .expect("it waits, and is written");
        });
        thread::sleep(Duration::from_secs(pause));
        instance.faulty("f0d0").heal();
        writing.join().expect("the writer");
        if slow(histogram) > 0.0 {
            break;
        }
    }
    assert!(slow(histogram) > 0.0, "{:?}", instance.query("SELECT * FROM v$asm_disk_histogram"));
    assert!(slow("v$asm_error WHERE kind = 'SLOW' AND count > 0") > 0.0);
    instance.faulty("f0d0").fail();
    fs::write(mount.join("table"), [3; 4096]).expect("the other mirror takes it");
    wait_for("the failures", || {
        slow(
            "v$asm_error WHERE kind IN ('READ FAILED', 'WRITE FAILED', 'FLUSH FAILED') AND count > 0",
        ) > 0.0
            && slow("v$asm_error WHERE kind = 'OFFLINE'") > 0.0
    });
}

/// The extent map is where the bytes are on the raw disks; the map of AUs has each of them once.
#[test]
fn the_maps_are_those_of_the_raw_disks() {
    let instance = Instance::new();
    instance.create_group(
        "data",
        "HIGH",
        &[&[256 * MIB], &[256 * MIB], &[256 * MIB]],
        "'au_size' = '1M'",
    );
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("table"), 7, 1024);
    let of = |select: &str| {
        instance.query(&format!(
            "SELECT {select} FROM x$kffxp x JOIN v$asm_alias a ON a.file_number = x.number_kffxp
             JOIN v$asm_disk_stat d ON d.group_number = x.group_kffxp AND d.disk_number = x.disk_kffxp
             WHERE a.name = 'table' ORDER BY x.pxn_kffxp"
        ))
    };
    let rows = of("x.*, d.path");
    assert_eq!(rows.len(), 4 * 3, "4 MiB in three mirrors");
    for row in &rows {
        let place = number(row, "au_kffxp") * MIB;
        let first = number(row, "xnum_kffxp") * 256;
        for index in [0, 100, 255] {
            let found = bytes(std::path::Path::new(text(row, "path")), place + index * 4096, 4096);
            assert!(
                found == blocks.block(first + index),
                "block {} is not where {row:?} says",
                first + index
            );
        }
    }
    let whole = instance.query(
        "SELECT number_kfdat, count(*) AS many, count(DISTINCT aunum_kfdat) AS apart, max(aunum_kfdat) AS last
         FROM x$kfdat GROUP BY 1",
    );
    assert_eq!(whole.len(), 3);
    assert!(whole.iter().all(|row| (
        number(row, "many"),
        number(row, "apart"),
        number(row, "last")
    ) == (256, 256, 255)));
    let agree = instance.number(
        "SELECT count(*) FROM x$kfdat d JOIN x$kffxp x ON x.group_kffxp = d.group_kfdat AND x.disk_kffxp = d.number_kfdat
         AND x.au_kffxp = d.aunum_kfdat AND x.number_kffxp = d.fnum_kfdat WHERE d.v_kfdat = 'V'",
    );
    assert_eq!(agree, 12.0);
    let dump = instance.plinth(["dump".as_ref(), instance.disk("f0d0").as_os_str()]).ok();
    let catalog =
        "SELECT count(*) FROM x$kfdat WHERE what_kfdat IN ('CATALOG', 'LOG') AND number_kfdat = 0";
    assert!(instance.number(catalog) > 0.0, "{dump}");
}

/// A program that has files open is a client: a database with all its processes, and each other
/// program.
#[test]
fn databases_are_clients() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[512 * MIB], &[512 * MIB]], "");
    let mount = instance.mount("DATA");
    let clients = || instance.query("SELECT * FROM v$asm_client ORDER BY client_type, pid");
    let at_first = clients();
    assert_eq!(at_first.len(), 1);
    assert_eq!(
        (text(&at_first[0], "client_type"), text(&at_first[0], "status")),
        ("MOUNT", "CONNECTED")
    );
    assert_eq!(text(&at_first[0], "mount_point"), mount.display().to_string());
    let file = fs::File::create(mount.join("open")).expect("create");
    let postgres = Postgres::new(&mount, "pg");
    postgres.psql("SELECT 1");
    let rows = clients();
    let own = rows
        .iter()
        .find(|row| row["pid"].as_u64() == Some(std::process::id().into()))
        .expect("this process");
    assert_eq!((text(own, "client_type"), number(own, "open_files")), ("PROCESS", 1));
    let servers: Vec<&Row> =
        rows.iter().filter(|row| text(row, "client_type") == "POSTGRESQL").collect();
    assert_eq!(servers.len(), 1, "{rows:?}");
    assert_eq!(
        (text(servers[0], "instance_name"), text(servers[0], "db_name")),
        ("postgres", "pg")
    );
    drop(file);
    postgres.stop();
    wait_for("no client but the mount", || clients().len() == 1);
}

/// The one number of space is bounded by what can be written, and its parts add up.
#[test]
fn space_adds_up() {
    let instance = Instance::new();
    instance.create_group(
        "data",
        "NORMAL",
        &[&[256 * MIB], &[256 * MIB], &[128 * MIB]],
        "'au_size' = '1M'",
    );
    let mount = instance.mount("DATA");
    let row = || instance.query("SELECT * FROM v$asm_space").remove(0);
    let first = row();
    assert_eq!(text(&first, "restorable"), "Y");
    assert_eq!(text(&first, "type"), "NORMAL");
    let of = |row: &Row, columns: &[&str]| -> u64 {
        columns.iter().map(|column| number(row, column)).sum()
    };
    let parts = ["free_bytes", "catalog_bytes", "file_bytes", "pending_bytes"];
    assert_eq!(of(&first, &parts), number(&first, "total_bytes"));
    assert_eq!(of(&first, &["safe_bytes", "reserve_bytes"]), number(&first, "writable_bytes"));
    assert_eq!(number(&first, "writable_bytes"), number(&first, "mirror_bytes"));
    assert!(number(&first, "high_bytes") < number(&first, "mirror_bytes"));
    assert!(number(&first, "mirror_bytes") < number(&first, "unprot_bytes"));
    // Without one of the two large ones, the small one has the other mirror of everything.
    assert!(number(&first, "safe_bytes") <= 128 * MIB);
    let _ = Blocks::new(mount.join("table"), 1, 20 * 256);
    let then = row();
    assert_eq!(number(&first, "safe_bytes") - number(&then, "safe_bytes"), 20 * MIB);
    assert_eq!(number(&then, "file_bytes") - number(&first, "file_bytes"), 40 * MIB);
    assert_eq!(of(&then, &parts), number(&then, "total_bytes"));
}
