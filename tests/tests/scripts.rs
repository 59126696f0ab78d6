//! Scripts as DBAs publish them, run unchanged against a live group: `tests/scripts`. The expected
//! result of each is computed here in another way, from plain columns and from the files that were
//! written.

use plinth_tests::{Instance, MIB, Row, shell};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// Rows of all of a script's results.
type Rows = Vec<Vec<String>>;

struct Story {
    instance: Instance,
    /// Sizes of the files that were written, by path in the group.
    files: BTreeMap<&'static str, u64>,
}

impl Story {
    /// A group with some files and directories, a free disk, and a user.
    fn new() -> Self {
        let instance = Instance::new();
        instance.create_group(
            "data",
            "NORMAL",
            &[&[256 * MIB, 256 * MIB], &[256 * MIB, 256 * MIB]],
            "",
        );
        instance.add_disk("free", 128 * MIB);
        let mount = instance.mount("DATA");
        let files = BTreeMap::from([
            ("DB/DATAFILE/users", 20 * MIB),
            ("DB/ONLINELOG/redo1", 5 * MIB),
            ("backup/set1", MIB),
        ]);
        for (path, size) in &files {
            let path = mount.join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::write(path, vec![7; usize::try_from(*size).expect("small")]).expect("written");
        }
        instance.unmount(&mount);
        instance.sql("ALTER DISKGROUP data SET ATTRIBUTE 'disk_repair_time' = '8h'");
        instance
            .sql("ALTER DISKGROUP data REBALANCE WAIT; CREATE USER scott PASSWORD 'tiger' OPERATE");
        Self { instance, files }
    }

    fn run(&self, text: &str) -> Result<Rows, tokio_postgres::Error> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut config = tokio_postgres::Config::new();
            config.host_path(self.instance.dir()).user("root").dbname("plinth");
            let (client, connection) = config.connect(NoTls).await?;
            let talking = tokio::spawn(connection);
            let messages = client.simple_query(text).await?;
            drop(client);
            talking.await.expect("no panic")?;
            let rows = messages.into_iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(
                    (0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_owned()).collect(),
                ),
                _ => None,
            });
            Ok(rows.collect())
        })
    }

    fn disks(&self) -> Vec<Row> {
        self.instance.query("SELECT * FROM v$asm_disk WHERE group_number = 1 ORDER BY name")
    }

    fn group(&self) -> Row {
        self.instance.query("SELECT * FROM v$asm_diskgroup").remove(0)
    }

    /// The expected result of a script.
    fn check(&self, script: &str, rows: &Rows) {
        let column = |at: usize| rows.iter().map(|row| row[at].as_str()).collect::<Vec<_>>();
        let number = |row: usize, at: usize| -> f64 {
            rows[row][at]
                .parse()
                .unwrap_or_else(|_| panic!("{script}: {} is no number", rows[row][at]))
        };
        let (disks, group) = (self.disks(), self.group());
        let of = |row: &Row, name: &str| {
            row[name].as_f64().unwrap_or_else(|| panic!("{name}: {}", row[name]))
        };
        let text = |row: &Row, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let names: Vec<String> = disks.iter().map(|disk| text(disk, "name")).collect();
        match script {
            "alias_paths" => {
                let mut expected: Vec<(String, String, usize)> = Vec::new();
                for path in self.files.keys() {
                    let parts: Vec<&str> = path.split('/').collect();
                    for length in 1..=parts.len() {
                        let is_directory = if length < parts.len() { "Y" } else { "N" };
                        expected.push((
                            format!("+DATA/{}", parts[..length].join("/")),
                            is_directory.into(),
                            length,
                        ));
                    }
                }
                expected.sort();
                expected.dedup();
                let found: Vec<(String, String, usize)> = rows
                    .iter()
                    .map(|row| (row[0].clone(), row[1].clone(), row[3].parse().expect("a level")))
                    .collect();
                assert_eq!(found, expected);
            }
            "alias_sizes" => {
                assert_eq!(
                    column(0),
                    ["+DATA/DB/DATAFILE/users", "+DATA/DB/ONLINELOG/redo1", "+DATA/backup/set1"]
                );
                assert_eq!(column(1), ["20,971,520", "5,242,880", "1,048,576"]);
            }
            "space_by_disk" => {
                assert_eq!(rows.len(), 5, "{rows:?}");
                let candidate =
                    rows.iter().find(|row| row[0] == "[CANDIDATE]").expect("the free disk");
                assert!(
                    candidate[1].ends_with("/free")
                        && candidate[2] == "NULL"
                        && candidate[6] == "0",
                    "{candidate:?}"
                );
                for disk in &disks {
                    let row =
                        rows.iter().find(|row| row[2] == text(disk, "name")).expect("each disk");
                    assert_eq!((row[0].as_str(), &row[1]), ("DATA", &text(disk, "path")));
                    let (total, free) = (of(disk, "total_mb"), of(disk, "free_mb"));
                    assert_eq!(row[5].parse::<f64>().expect("a number"), total - free);
                    let percent: f64 = row[6].parse().expect("a number");
                    assert!(
                        percent > 0.0 && (percent - (1.0 - free / total) * 100.0).abs() < 0.006,
                        "{row:?}"
                    );
                }
            }
            "diskgroups" => {
                assert_eq!(
                    (rows.len(), rows[0][0].as_str(), rows[0][4].as_str(), rows[0][3].as_str()),
                    (1, "DATA", "MOUNTED", "4")
                );
                let total = of(&group, "total_mb");
                assert_eq!(number(0, 7), total - of(&group, "free_mb"));
                let padded = if total < 1000.0 {
                    format!("{total}")
                } else {
                    format!("1,{:03}", total - 1000.0)
                };
                assert_eq!(rows[0][9], format!("{padded:.>10}"));
            }
            "usable_space" => {
                assert_eq!(
                    (rows[0][0].as_str(), number(0, 1), rows[0][6].as_str()),
                    ("DATA", 2.0, "OK")
                );
                assert_eq!(number(0, 4), of(&group, "usable_file_mb"));
                let computed =
                    ((of(&group, "free_mb") - of(&group, "required_mirror_free_mb")) / 2.0).trunc();
                assert_eq!(number(0, 5), computed);
            }
            "failgroup_imbalance" => {
                let used = |disk: &Row| {
                    (of(disk, "total_mb") - of(disk, "free_mb")) / of(disk, "total_mb")
                };
                let most = disks.iter().map(used).fold(0.0, f64::max);
                let least = disks.iter().map(used).fold(1.0, f64::min);
                assert!((number(0, 1) - 100.0 * (most - least) / most).abs() < 1e-6, "{rows:?}");
                assert_eq!((number(0, 2), number(0, 4), rows[0][5].as_str()), (0.0, 4.0, "NORMAL"));
                assert_eq!(
                    (rows[1][0].as_str(), rows[1][1].as_str(), rows[1][3].clone()),
                    ("F0", "2", names[..2].join(","))
                );
                assert_eq!((rows[2][0].as_str(), rows[2][3].clone()), ("F1", names[2..].join(",")));
            }
            "disks_by_status" => {
                assert_eq!(rows[0], ["MEMBER", "CACHED", "ONLINE", "NORMAL", "4"]);
                assert_eq!(rows[1], ["CANDIDATE", "CLOSED", "ONLINE", "NORMAL", "1"]);
            }
            "candidates" => assert_eq!(*rows, [["free", "CANDIDATE", "128", "-", "1"]]),
            "top_files" => {
                assert_eq!(column(1), ["20971520", "5242880"]);
                assert_eq!(column(4), ["MIRROR", "MIRROR"]);
                assert_eq!(column(6), ["0", "0"]);
                assert!(number(0, 2) >= 2.0 && column(5)[0].len() == 4, "{rows:?}");
            }
            "files_by_type" => {
                let count: f64 = (0..rows.len()).map(|row| number(row, 2)).sum();
                let bytes: f64 = (0..rows.len()).map(|row| number(row, 3)).sum();
                assert_eq!(count, self.instance.number("SELECT count(*) FROM v$asm_file"));
                assert!(bytes >= self.files.values().sum::<u64>() as f64, "{rows:?}");
            }
            "operations" => {
                assert!(rows.iter().all(|row| row[0] == "1" && row[2] != "DONE"), "{rows:?}");
                assert_eq!(
                    rows.len() as f64,
                    self.instance.number("SELECT count(*) FROM v$asm_operation")
                );
            }
            "attributes" => {
                let expected = [
                    ["DATA", "disk_checksum_limit", "100", "N"],
                    ["DATA", "disk_error_limit", "20", "N"],
                    ["DATA", "disk_error_time", "1.0h", "N"],
                    ["DATA", "disk_full_wait", "60", "N"],
                    ["DATA", "disk_repair_time", "8.0h", "N"],
                    ["DATA", "disk_slow_time", "none", "N"],
                    ["DATA", "disk_timeout", "5", "N"],
                ];
                assert_eq!(*rows, expected);
            }
            "sector_sizes" => {
                assert_eq!(rows[0][..2], ["1", "DATA"]);
                assert_eq!(rows[0][3..], ["4096", "MOUNTED"]);
                assert_eq!(rows.len(), 5);
                for (row, disk) in rows[1..].iter().zip(&disks) {
                    assert_eq!(row[1..4], ["CACHED", "MEMBER", "NORMAL"]);
                    assert_eq!(row[5], text(disk, "path"));
                }
            }
            "disk_io" => {
                assert_eq!(
                    column(0),
                    names.iter().map(|name| format!("DATA/{name}")).collect::<Vec<_>>()
                );
                assert!(
                    (0..4).all(|row| number(row, 1) > 0.0 && number(row, 2) == 0.0),
                    "{rows:?}"
                );
                assert!(column(3).iter().all(|size| size.contains(' ')), "{rows:?}");
            }
            "password_file" => assert_eq!(*rows, [["SCOTT", "FALSE", "TRUE", "FALSE"]]),
            "templates" => {
                let datafile =
                    rows.iter().find(|row| row[2] == "DATAFILE").expect("the template DATAFILE");
                assert_eq!((datafile[0].as_str(), datafile[5].as_str()), ("DATA", "Y"));
            }
            "clients" => assert!(rows.iter().all(|row| row[0] == "DATA"), "{rows:?}"),
            "iostat_by_disk" => {
                // A row for each purpose of each disk, as databases tell them apart; files were
                // written on all disks.
                let disks = |purpose: &str| -> BTreeSet<String> {
                    let own = rows.iter().filter(|row| row[1] == purpose && row[6] != "0");
                    own.map(|row| row[3].clone()).collect()
                };
                assert_eq!(disks("FILES").len(), 4, "{rows:?}");
                assert!(disks("RECORDS").len() >= 2 && disks("CATALOG").len() >= 2, "{rows:?}");
            }
            "partners" => {
                assert_eq!(rows.len(), 4, "{rows:?}");
                // Those of the other failure group.
                for row in rows {
                    let others = if number(0, 1).max(row[1].parse().expect("a number")) < 2.0 {
                        "2,3"
                    } else {
                        "0,1"
                    };
                    assert_eq!((row[2].as_str(), row[3].as_str()), ("2", others), "{rows:?}");
                }
            }
            "extent_map" => {
                let mirrors: f64 = (0..rows.len()).map(|row| number(row, 1)).sum();
                assert!(rows.len() == 4 && mirrors >= 2.0 * 6.0, "{rows:?}");
            }
            other => panic!("nothing says what {other}.sql must show"),
        }
    }
}

/// Every script in the folder runs as it is, and shows the expected result.
#[test]
fn scripts_of_dbas_run_unchanged() {
    let story = Story::new();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut count = 0;
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).expect("scripts").flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("a script");
        let rows = story.run(&text).unwrap_or_else(|error| panic!("{}: {error:?}", path.display()));
        story.check(&name, &rows);
        count += 1;
    }
    assert!(count >= 12, "only {count} scripts ran");
}

/// Commands of psql that are no statements.
#[test]
fn psql_has_its_comforts() {
    let story = Story::new();
    let dir = story.instance.dir();
    let psql = |commands: &[&str]| {
        let mut script = shell(
            r#"dir=$1; shift; for c in "$@"; do psql -X -h "$dir" -v ON_ERROR_STOP=1 -c "$c" 2>&1 || exit 1; done"#,
        )
        .arg(&dir);
        for command in commands {
            script = script.arg(command);
        }
        script.ok()
    };
    for (command, words) in [
        ("\\dv", &["v$asm_disk", "v$pwfile_users", "view"][..]),
        (
            "\\d v$asm_disk",
            &["total_mb", "bigint", "failgroup", "text", "read_time", "double precision"],
        ),
        ("\\d+ v$asm_file", &["creation_date"]),
        ("\\l", &["plinth", "UTF8"]),
        ("\\du", &["scott", "root", "Superuser"]),
        ("\\conninfo", &["plinth", "root"]),
        ("\\dn", &["public"]),
        ("\\dt", &["Did not find any relations"]),
        ("\\df nothing", &["List of functions"]),
        ("\\timing", &["Timing is on"]),
        ("SELECT 5 / 2 half, 7 ROWS_, sysdate IS NOT NULL dated FROM dual", &["2.5"]),
        (
            "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'v$asm_d%'",
            &["v$asm_diskgroup"],
        ),
    ] {
        let said = psql(&[command]);
        for word in words {
            assert!(said.contains(word), "{command}: no {word} in\n{said}");
        }
    }
    // Tab after a part of a name, on a terminal: psql's own query for it. It completes such names
    // within quotes only.
    let typed = shell(
        r#"export PSQL_HISTORY=/dev/null INPUTRC=/dev/null TERM=dumb PAGER=cat
           (sleep 1; printf 'SELECT count(*) + 40 FROM "v\t'; sleep 1; printf 'pwfile_users";\n'; sleep 1; printf '\\q\n') |
               timeout 60 script -qec "psql -X -h '$1'" /dev/null"#,
    );
    let said = typed.arg(&dir).finish();
    assert!(said.out.contains("41") && !said.out.contains("ERROR"), "{said}");
}

/// A `SET` of SQL*Plus ends with its line, and the statement behind it is carried out, whichever
/// way the text came.
#[test]
fn a_set_of_sqlplus_swallows_no_statement() {
    let story = Story::new();
    let disk = story.disks()[1]["name"].clone();
    let mode = || story.disks()[1]["mode_status"].clone();
    let offline = format!("ALTER DISKGROUP data OFFLINE DISK {disk};\n");
    let by_plinth = |text: &str| {
        shell("printf '%s' \"$1\" | \"$2\" sql")
            .arg(text)
            .arg(story.instance.program())
            .env("PLINTH_DIR", story.instance.dir())
            .finish()
            .ok()
    };
    for (set, client) in
        [("set time on", "driver"), ("SET LIN 200", "plinth"), ("set feed off trims on", "driver")]
    {
        let text = format!("{set}\n{offline}");
        match client {
            "driver" => drop(story.run(&text).expect(set)),
            _ => drop(by_plinth(&text)),
        }
        assert_eq!(mode(), "OFFLINE", "{set}");
        story.instance.sql("ALTER DISKGROUP data ONLINE ALL WAIT");
    }
    for (set, hint) in [("set nonsense on", "no setting"), ("SET x = 1", "expected the end")] {
        let refusal = story.run(&format!("{set}\n{offline}")).expect_err(set);
        let refusal = refusal.as_db_error().expect("an error of the server").message().to_owned();
        assert!(refusal.contains(hint), "{set}: {refusal}");
        assert_eq!(mode(), "ONLINE", "{set}");
    }
}
