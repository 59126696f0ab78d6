//! Files as DBAs name them: system names, aliases, directories, templates and types, in SQL, at the
//! command line and through a mount.

use plinth_tests::{Instance, MIB, Postgres, shell};
use std::{
    fs,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
};

/// The view of names as DBAs' scripts walk it: every path, and whether the system made its last
/// name.
fn paths(instance: &Instance) -> Vec<String> {
    let sql = "WITH RECURSIVE a(path, i, system) AS (
        SELECT '+DATA/' || name, reference_index, system_created FROM v$asm_alias WHERE MOD(parent_index, 16777216) = 0
        UNION ALL SELECT path || '/' || v.name, v.reference_index, v.system_created
        FROM a JOIN v$asm_alias v ON v.parent_index = a.i)
        SELECT path || ' ' || system AS found FROM a ORDER BY 1";
    instance
        .query(sql)
        .into_iter()
        .map(|row| row["found"].as_str().expect("a text").to_owned())
        .collect()
}

/// A copy to the group's name alone gets a name from the system, in directories that come with the
/// first file and go with the last; templates and aliases; the same names in SQL, in any case, and
/// in the mount, where an alias is a link.
#[test]
fn system_names_and_aliases() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    let source = instance.path("users01.dbf");
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    fs::write(&source, &bytes).expect("write");
    let copy = |to: &str| {
        let said = instance.plinth(["cp".as_ref(), source.as_os_str(), to.as_ref()]).ok();
        said.trim().rsplit(" -> ").next().expect("a line").to_owned()
    };
    let path = copy("+DATA");
    let row = |select: &str| instance.text(select);
    let number = row("SELECT file_number FROM v$asm_file");
    let incarnation = row("SELECT incarnation FROM v$asm_file");
    assert_eq!(path, format!("+DATA/ASM/DATAFILE/users01.{number}.{incarnation}"));
    assert_eq!(incarnation.parse::<u64>().expect("a number") % 2, 1);
    let inside = |path: &str| mount.join(path.trim_start_matches("+DATA/"));
    assert_eq!(fs::read(inside(&path)).expect("read"), bytes);
    assert_eq!(
        paths(&instance),
        ["+DATA/ASM Y".to_owned(), "+DATA/ASM/DATAFILE Y".to_owned(), format!("{path} Y")]
    );
    assert_eq!(
        row("SELECT file_incarnation FROM v$asm_alias WHERE alias_directory = 'N'"),
        incarnation
    );

    instance.sql("ALTER DISKGROUP data ADD DIRECTORY '+DATA/My', '+DATA/my/Sub'");
    let numbered = format!("+DATA.{number}.{incarnation}");
    instance
        .sql(&format!("ALTER DISKGROUP data ADD ALIAS '+data/MY/sub/users.dbf' FOR '{numbered}'"));
    assert_eq!(fs::read(mount.join("My/Sub/users.dbf")).expect("read"), bytes);
    assert_eq!(fs::metadata(inside(&path)).expect("stat").nlink(), 2);
    for (statement, why) in [
        (format!("DROP ALIAS '{path}'"), "made by the system"),
        (format!("RENAME ALIAS '{path}' TO '+DATA/x'"), "made by the system"),
        ("DROP DIRECTORY '+DATA/asm' FORCE".to_owned(), "made by the system"),
        ("DROP DIRECTORY '+DATA/my'".to_owned(), "not empty"),
        ("ADD DIRECTORY '+DATA/new', '+DATA/my'".to_owned(), "already"),
        (format!("ADD ALIAS '+DATA/a.1.2' FOR '{path}'"), "two numbers"),
        ("ADD ALIAS '+DATA/a' FOR '+DATA/nothing'".to_owned(), "there is no +DATA/nothing"),
        ("DROP FILE '+FRA/x'".to_owned(), "another disk group"),
        ("DROP FILE '+DATA(datafile)'".to_owned(), "a new file"),
    ] {
        let said = instance.refused(&format!("ALTER DISKGROUP data {statement}"));
        assert!(said.contains(why), "{statement}: {said}");
    }
    assert!(!mount.join("new").exists(), "all of a statement is done, or nothing");
    instance.sql("ALTER DISKGROUP data RENAME ALIAS '+DATA/my/sub/users.dbf' TO '+DATA/u.dbf'");
    instance.sql("ALTER DISKGROUP data RENAME DIRECTORY '+DATA/my' TO '+DATA/yours'");
    assert_eq!(fs::read(mount.join("u.dbf")).expect("read"), bytes);
    instance.sql("ALTER DISKGROUP data DROP DIRECTORY '+DATA/yours' FORCE");

    let second = copy("+DATA(archivelog)/second.arc");
    assert!(second.starts_with("+DATA/ASM/ARCHIVELOG/users01."), "{second}");
    assert_eq!(fs::metadata(mount.join("second.arc")).expect("stat").nlink(), 2);
    assert_eq!(row("SELECT type FROM v$asm_file ORDER BY file_number DESC LIMIT 1"), "ARCHIVELOG");
    instance.kill_engine("DATA");
    let mount = instance.mount_again("DATA");
    assert_eq!(fs::read(mount.join("second.arc")).expect("read"), bytes);
    instance.sql("ALTER DISKGROUP data DROP FILE '+DATA/SECOND.arc', '+data/U.DBF'");
    assert_eq!(paths(&instance), [""; 0]);
    assert_eq!(fs::read_dir(&mount).expect("list").count(), 0);
    instance.check("DATA");
}

/// Templates as `v$asm_template` has them: the system's stay, others come and go.
#[test]
fn templates() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    assert!(instance.number("SELECT COUNT(*) FROM v$asm_template WHERE system = 'Y'") >= 22.0);
    instance.sql("ALTER DISKGROUP data ADD TEMPLATE fast ATTRIBUTES (MIRROR), mine ATTRIBUTES ()");
    instance.sql("ALTER DISKGROUP data MODIFY TEMPLATE datafile ATTRIBUTES (MIRROR COARSE)");
    assert_eq!(
        instance.text(
            "SELECT group_concat(name) FROM (SELECT name FROM v$asm_template WHERE system = 'N' ORDER BY entry_number)"
        ),
        "FAST,MINE"
    );
    for (statement, why) in [
        ("ADD TEMPLATE fast ATTRIBUTES ()", "already"),
        ("DROP TEMPLATE datafile", "cannot be dropped"),
        ("DROP TEMPLATE nosuch", "no template"),
        ("ADD TEMPLATE bare ATTRIBUTES (UNPROTECTED)", "only mirror"),
        ("ADD TEMPLATE p ATTRIBUTES (PARITY)", "FLEX"),
    ] {
        let said = instance.refused(&format!("ALTER DISKGROUP data {statement}"));
        assert!(said.contains(why), "{statement}: {said}");
    }
    instance.sql("ALTER DISKGROUP data DROP TEMPLATE fast");
    assert_eq!(instance.number("SELECT COUNT(*) FROM v$asm_template WHERE name = 'FAST'"), 0.0);
    instance.check("DATA");
}

/// A control file has three mirrors where there are three failure groups, and is striped; a file of
/// a DBA's template has what that says. All of them are files like others.
#[test]
fn files_are_as_their_templates_say() {
    let instance = Instance::new();
    instance.create_group("more", "NORMAL", &[&[512 * MIB], &[512 * MIB], &[512 * MIB]], "");
    let mount = instance.mount("MORE");
    instance
        .sql("ALTER DISKGROUP more ADD TEMPLATE safe ATTRIBUTES (HIGH), striped ATTRIBUTES (FINE)");
    let source = instance.path("source");
    let bytes: Vec<u8> = (0..1_500_000_u32).map(|at| (at % 241) as u8).collect();
    fs::write(&source, &bytes).expect("write");
    for (template, like) in [
        ("controlfile", "HIGH FINE"),
        ("safe", "HIGH COARSE"),
        ("striped", "MIRROR FINE"),
        ("dumpset", "MIRROR COARSE"),
    ] {
        instance
            .plinth([
                "cp".as_ref(),
                source.as_os_str(),
                format!("+MORE({template})/{template}.x").as_ref(),
            ])
            .ok();
        let path = mount.join(format!("{template}.x"));
        assert_eq!(fs::read(&path).expect("read"), bytes, "{template}");
        let file = fs::File::options().write(true).open(&path).expect("open");
        file.write_all_at(&bytes[..400_000], 130_000).expect("write");
        file.sync_all().expect("sync");
        let mut expected = bytes.clone();
        expected[130_000..530_000].copy_from_slice(&bytes[..400_000]);
        assert_eq!(fs::read(&path).expect("read"), expected, "{template}");
        let sql = format!(
            "SELECT redundancy || ' ' || striped FROM v$asm_file f JOIN v$asm_alias a \
             ON a.file_number = f.file_number AND a.group_number = f.group_number WHERE a.name = '{template}.x'"
        );
        assert_eq!(instance.text(&sql), like, "{template}");
    }
    instance.check("MORE");
}

/// The type of a file is known from its name, and from its first bytes where the name tells
/// nothing.
#[test]
fn files_have_types() {
    let instance = Instance::new();
    instance.create_group("data", "EXTERNAL", &[&[256 * MIB]], "");
    let mount = instance.mount("DATA");
    shell(
        r#"cd "$1"; mkdir -p pg/pg_wal pg/base/5 pg/global my
           echo x > pg/pg_wal/xlogtemp.1; mv pg/pg_wal/xlogtemp.1 pg/pg_wal/000000010000000000000001
           cp pg/pg_wal/000000010000000000000001 my/; echo x > pg/base/5/16384; echo x > pg/global/pg_control
           echo x > my/binlog.000001; echo x > my/undo_001; echo x > notes"#,
    )
    .arg(&mount)
    .ok();
    let mut page = b"SQLite format 3\0".to_vec();
    page.resize(4096, 0);
    fs::write(mount.join("first"), &page).expect("write");
    // The beginning comes last.
    let late = fs::File::create(mount.join("late")).expect("make");
    late.write_all_at(&page, 1 << 20).expect("write");
    late.write_all_at(&page, 0).expect("write");
    let types = |name: &str| {
        instance.text(&format!(
            "SELECT f.type FROM v$asm_file f JOIN v$asm_alias a USING (file_number) WHERE a.name = '{name}' ORDER BY f.file_number LIMIT 1"
        ))
    };
    for (name, expected) in [
        ("000000010000000000000001", "ONLINELOG"),
        ("16384", "DATAFILE"),
        ("pg_control", "CONTROLFILE"),
        ("binlog.000001", "BINLOG"),
        ("undo_001", "UNDOFILE"),
        ("notes", "OTHER"),
        ("first", "DATAFILE"),
        ("late", "DATAFILE"),
    ] {
        assert_eq!(types(name), expected, "{name}");
    }
    assert_eq!(instance.number("SELECT COUNT(*) FROM v$asm_file WHERE type = 'ARCHIVELOG'"), 1.0);
    instance.check("DATA");
}

/// A directory of a group may hold names that differ in case only: SQL takes the exact one, and
/// otherwise refuses the name as ambiguous.
#[test]
fn names_in_any_case() {
    let instance = Instance::new();
    instance.create_group("data", "EXTERNAL", &[&[256 * MIB]], "");
    let mount = instance.mount("DATA");
    for name in ["table", "TABLE", "Alone"] {
        fs::write(mount.join(name), name).expect("write");
    }
    let said = instance.refused("ALTER DISKGROUP data DROP FILE '+DATA/Table'");
    assert!(
        said.contains("ambiguous") && said.contains("table") && said.contains("TABLE"),
        "{said}"
    );
    let local = instance.path("local");
    instance.plinth(["cp".as_ref(), "+DATA/ALONE".as_ref(), local.as_os_str()]).ok();
    assert_eq!(fs::read_to_string(&local).expect("read"), "Alone");
    instance.sql("ALTER DISKGROUP data DROP FILE '+DATA/table', '+DATA/alone'");
    let left: Vec<_> = fs::read_dir(&mount)
        .expect("list")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(left, [Path::new("TABLE").as_os_str()]);
}

/// A whole cluster of PostgreSQL: none of its data, log and control files is of unknown type, and
/// other files are not taken for them.
#[test]
fn the_files_of_postgresql_have_types() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[1024 * MIB], &[1024 * MIB]], "");
    let mount = instance.mount("DATA");
    let cluster = Postgres::new(&mount, "pg");
    cluster.psql(
        "CREATE TABLE t (i int); INSERT INTO t SELECT generate_series(1, 200000); SELECT pg_switch_wal(); CHECKPOINT",
    );
    let counted = |kind: &str| {
        instance.number(&format!("SELECT COUNT(*) FROM v$asm_file WHERE type = '{kind}'"))
    };
    assert!(counted("DATAFILE") > 500.0);
    assert!(counted("ONLINELOG") >= 2.0);
    assert_eq!(counted("CONTROLFILE"), 1.0);
    let unknown = "WITH RECURSIVE a(path, i, n) AS (
        SELECT name, reference_index, file_number FROM v$asm_alias WHERE MOD(parent_index, 16777216) = 0
        UNION ALL SELECT path || '/' || v.name, v.reference_index, v.file_number
        FROM a JOIN v$asm_alias v ON v.parent_index = a.i)
        SELECT path AS found FROM a JOIN v$asm_file f ON f.file_number = a.n WHERE f.type = 'OTHER'";
    let unknown: Vec<String> = instance
        .query(unknown)
        .into_iter()
        .map(|row| row["found"].as_str().expect("a text").to_owned())
        .collect();
    for place in ["pg/base/", "pg/global/", "pg/pg_wal/", "pg/pg_xact/", "pg/pg_multixact/"] {
        assert!(unknown.iter().all(|path| !path.starts_with(place)), "{unknown:?}");
    }
    println!("{unknown:?}");
    cluster.stop();
    instance.check("DATA");
}
