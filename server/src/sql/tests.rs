//! Tables of statements: the parsed form of each, and the positions of errors.

use super::{
    Statement, parse,
    parser::parse_size,
    statement::{Alter, FilterChange, Groups, LabelOrder},
    tokens::Text,
};
use plinth_engine::admin::{
    AccessChange, Command, Conversion, Exchange, LabelPermission, Order, Permission, Phases,
    Principal, ReclaimMethod, Renaming, Resize, Scope, ScrubOrder, ScrubPower, Selection,
    VolumeChange, Work,
};
use plinth_format::Redundancy;

fn one(text: &str) -> Statement {
    let mut statements =
        parse(text).unwrap_or_else(|error| panic!("{text}: {error} at {:?}", error.at));
    assert_eq!(statements.len(), 1, "{text}");
    statements.remove(0)
}

/// A statement that an engine carries out.
fn alter(text: &str) -> Alter {
    match one(text) {
        Statement::Alter(alter) => alter,
        other => panic!("{text}: {other:?}"),
    }
}

fn command(text: &str) -> Command {
    alter(text).command
}

#[test]
fn create_diskgroup_says_all_it_can_say() {
    let text = "create diskgroup data normal redundancy
        failgroup a disk '/d/a*', '/d/x' name x1 size 10G force
        QUORUM FAILGROUP q DISK '/d/q' NOFORCE
        attribute 'AU_SIZE' = '4M', 'disk_repair_time'='3.6h';";
    let Statement::CreateGroup { new: group, places, at } = one(text) else {
        panic!("no CREATE DISKGROUP")
    };
    assert_eq!((group.name.as_str(), at), ("DATA", 17));
    for (name, at) in &places {
        assert!(
            text[*at..].trim_start_matches('\'').to_lowercase().starts_with(&name.to_lowercase()),
            "{name}"
        );
    }
    let names: Vec<&str> = places.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["/d/a*", "/d/x", "X1", "/d/q", "au_size", "disk_repair_time"]);
    assert_eq!(group.redundancy, Redundancy::Normal);
    let disk = |at: usize| &group.disks[at];
    assert_eq!(disk(0).path, "/d/a*");
    assert_eq!(disk(0).failure_group.as_deref(), Some("A"));
    assert_eq!(disk(1).name.as_deref(), Some("X1"));
    assert_eq!(disk(1).size, Some(10 << 30));
    assert!(disk(1).force && !disk(1).quorum && disk(2).quorum && !disk(2).force);
    assert_eq!(disk(2).failure_group.as_deref(), Some("Q"));
    let attributes: Vec<_> =
        group.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(attributes, [("au_size", "4M"), ("disk_repair_time", "3.6h")]);
}

#[test]
fn alter_diskgroup_says_all_it_can_say() {
    assert!(matches!(
        one("ALTER DISKGROUP d MOUNT RESTRICTED FORCE"),
        Statement::Mount { restricted: true, force: true, .. }
    ));
    assert!(matches!(
        one("ALTER DISKGROUP ALL MOUNT"),
        Statement::Mount { groups: Groups::All, force: false, restricted: false }
    ));
    assert!(matches!(one("alter diskgroup a, b dismount force"),
        Statement::Dismount { groups: Groups::Named(names), force: true } if names.len() == 2));
    assert!(matches!(command("ALTER DISKGROUP d OFFLINE DISKS IN FAILGROUP f1, f2"),
        Command::Offline { which: Selection::FailureGroups(names), .. } if names == ["F1", "F2"]));
    for (text, seconds) in [
        ("DROP AFTER 90 M", 5400),
        ("drop after 4h NOWAIT", 14400),
        ("DROP AFTER 0M", 0),
        ("DROP AFTER 4.5 H", 16200),
        ("DROP AFTER 4.5h", 16200),
        ("DROP AFTER '4.5 H' NOWAIT", 16200),
        ("DROP AFTER '270m'", 16200),
    ] {
        assert!(
            matches!(command(&format!("ALTER DISKGROUP d OFFLINE DISK a {text}")),
            Command::Offline { drop_after: Some(found), .. } if found == seconds),
            "{text}"
        );
    }
    assert!(matches!(
        command("ALTER DISKGROUP d RENAME DISKS ALL"),
        Command::Rename(Renaming::All)
    ));
    assert!(matches!(command("ALTER DISKGROUP d RENAME DISK a TO b, c TO a"),
        Command::Rename(Renaming::Disks(pairs))
            if pairs.iter().map(|(old, new)| (old.as_str(), new.as_str())).eq([("A", "B"), ("C", "A")])));
    let whole = Resize { which: Selection::All, size: None };
    assert!(matches!(alter("ALTER DISKGROUP d RESIZE ALL"),
        Alter { command: Command::Resize { resizes, order: Order { power: None, .. } }, wait: None, .. } if resizes == [whole]));
    let disk = |name: &str, size| Resize { which: Selection::Disks(vec![name.to_owned()]), size };
    let group =
        Resize { which: Selection::FailureGroups(vec!["F".to_owned()]), size: Some(3 << 30) };
    let some = [disk("A", Some(1 << 30)), disk("B", None), group];
    assert!(
        matches!(alter("ALTER DISKGROUP d RESIZE DISK a SIZE 1G, b, DISKS IN FAILGROUP f SIZE 3G REBALANCE POWER 9 WAIT"),
        Alter { command: Command::Resize { resizes, order: Order { power: Some(9), .. } }, wait: Some(true), .. } if resizes == some)
    );
    for (to, redundancy) in [
        ("external", Redundancy::External),
        ("NORMAL", Redundancy::Normal),
        ("HIGH REDUNDANCY", Redundancy::High),
    ] {
        assert!(
            matches!(command(&format!("ALTER DISKGROUP d CONVERT REDUNDANCY TO {to} REBALANCE POWER 3")),
            Command::Convert { to: Conversion(to), order: Order { power: Some(3), .. } } if to == redundancy)
        );
        assert!(
            matches!(one(&format!("EXPLAIN WORK FOR ALTER DISKGROUP d CONVERT REDUNDANCY TO {to}")),
            Statement::ExplainWork { alter: Alter { command: Command::Estimate(Work::Convert(Conversion(to))), .. }, .. }
                if to == redundancy)
        );
    }
    for wrong in [
        "CONVERT REDUNDANCY TO FLEX",
        "CONVERT REDUNDANCY TO MIRROR",
        "CONVERT REDUNDANCY HIGH",
        "CONVERT",
    ] {
        assert!(parse(&format!("ALTER DISKGROUP d {wrong}")).is_err(), "{wrong}");
    }
    assert!(matches!(command("ALTER DISKGROUP d OFFLINE QUORUM DISK d_0001 NOWAIT"),
        Command::Offline { which: Selection::Disks(names), .. } if names == ["D_0001"]));
    assert!(matches!(
        alter("ALTER DISKGROUP d ONLINE ALL WAIT"),
        Alter {
            command: Command::Online { which: Selection::All, power: None },
            wait: Some(true),
            ..
        }
    ));
    assert!(matches!(
        alter("ALTER DISKGROUP d REPLACE DISK a WITH '/x' FORCE, b WITH '/y' POWER 4 WAIT"),
        Alter { command: Command::Replace { replacements, power: Some(4) }, wait: Some(true), at: 31, .. }
            if replacements.iter().map(|one| (&*one.disk, &*one.path, one.force))
                .eq([("A", "/x", true), ("B", "/y", false)])
    ));
    assert!(matches!(
        one("EXPLAIN WORK SET STATEMENT_ID = 'next' FOR ALTER DISKGROUP d ADD DISK '/x' DROP DISK a REBALANCE POWER 5"),
        Statement::ExplainWork {
            id,
            alter: Alter { command: Command::Estimate(Work::Exchange(exchange)), .. },
            power: Some(5),
        } if id == "next" && exchange.add.len() == 1 && exchange.drop.len() == 1
    ));
    assert!(
        matches!(one("EXPLAIN WORK FOR ALTER DISKGROUP d REBALANCE"), Statement::ExplainWork { id, .. } if id.is_empty())
    );
    assert!(matches!(
        command("ALTER DISKGROUP d CHECK ALL REPAIR"),
        Command::Check { repair: true, .. }
    ));
    assert!(matches!(command("ALTER DISKGROUP d CHECK"), Command::Check { repair: false, .. }));
    assert!(matches!(alter("ALTER DISKGROUP d SET ATTRIBUTE 'disk_timeout' = '5'"),
        Alter { command: Command::SetAttribute { name, value, force: false }, at: 32, .. } if name == "disk_timeout" && value == "5"));
    for (end, forced) in [("", false), (" FORCE", true)] {
        let text = format!("ALTER DISKGROUP d SET ATTRIBUTE 'What_If.delay.FAR' = '1ms'{end}");
        assert!(matches!(command(&text),
            Command::SetAttribute { name, value, force } if name == "what_if.delay.far" && value == "1ms" && force == forced));
    }
}

/// Clauses of one statement, with or without commas between them.
#[test]
fn disks_that_come_and_go() {
    let exchange = |text: &str| match alter(text) {
        Alter { command: Command::Exchange { exchange, order }, wait, .. } => {
            let add: Vec<(String, Option<String>)> =
                exchange.add.into_iter().map(|disk| (disk.path, disk.failure_group)).collect();
            let drop: Vec<(String, bool)> = exchange
                .drop
                .into_iter()
                .map(|one| match one.which {
                    Selection::Disks(names) => (names.join(" "), one.force),
                    Selection::FailureGroups(names) => {
                        (format!("in {}", names.join(" ")), one.force)
                    }
                    Selection::All | Selection::Several(_) => ("all".to_owned(), one.force),
                })
                .collect();
            (add, drop, order.power, wait)
        }
        other => panic!("{text}: {other:?}"),
    };
    let disk = |path: &str, group: Option<&str>| (path.to_owned(), group.map(str::to_owned));
    let gone = |name: &str, force: bool| (name.to_owned(), force);
    for text in [
        "ALTER DISKGROUP d ADD FAILGROUP f DISK '/a', '/b' DISK '/c' DROP DISK x FORCE, y DISKS IN FAILGROUP g
             REBALANCE POWER 5 WAIT",
        "ALTER DISKGROUP d ADD FAILGROUP f DISK '/a', '/b', DISK '/c', DROP DISK x FORCE, y, DISKS IN FAILGROUP g
             REBALANCE POWER 5 WAIT",
    ] {
        let (add, drop, power, wait) = exchange(text);
        assert_eq!(add, [disk("/a", Some("F")), disk("/b", Some("F")), disk("/c", None)]);
        assert_eq!(drop, [gone("X", true), gone("Y", false), gone("in G", false)]);
        assert_eq!((power, wait), (Some(5), Some(true)));
    }
    assert_eq!(exchange("ALTER DISKGROUP d DROP DISK a").1, [gone("A", false)]);
    let Command::Exchange { exchange: Exchange { drop, .. }, .. } = command(
        "ALTER DISKGROUP d DROP DISK a RECLAIM, b NOFORCE RECLAIM, c DISKS IN FAILGROUP f RECLAIM",
    ) else {
        panic!("disks go")
    };
    assert!(drop.iter().map(|one| one.reclaim).eq([true, true, false, true]), "{drop:?}");
    let refused = parse("ALTER DISKGROUP d DROP DISK a FORCE RECLAIM").expect_err("it is lost");
    assert_eq!(refused.at, Some("ALTER DISKGROUP d DROP DISK a FORCE ".len()), "{refused}");
    assert_eq!(exchange("ALTER DISKGROUP d DROP DISK a ADD DISK '/b'").0, [disk("/b", None)]);
    assert!(matches!(
        alter("ALTER DISKGROUP ALL UNDROP DISKS"),
        Alter { groups: Groups::All, command: Command::Undrop, .. }
    ));
    assert!(
        matches!(command("ALTER DISKGROUP d REBALANCE"), Command::Rebalance(order) if order.power.is_none())
    );
    assert!(matches!(
        alter("ALTER DISKGROUP d REBALANCE MODIFY POWER NOWAIT"),
        Alter {
            command: Command::Rebalance(Order { power: None, phases: None }),
            wait: Some(false),
            ..
        }
    ));
    assert!(matches!(
        command("ALTER DISKGROUP d REBALANCE MODIFY POWER 0"),
        Command::Rebalance(Order { power: Some(0), phases: None })
    ));
}

#[test]
fn the_rest() {
    assert!(matches!(
        one("DROP DISKGROUP d"),
        Statement::DropGroup { contents: false, force: false, .. }
    ));
    assert!(matches!(
        one("DROP DISKGROUP d FORCE INCLUDING CONTENTS"),
        Statement::DropGroup { contents: true, force: true, .. }
    ));
    assert!(matches!(one("SHOW TRANSACTION ISOLATION LEVEL"),
        Statement::Show(name) if name.value == "transaction_isolation_level"));
    assert!(matches!(one("show all;"), Statement::ShowAll));
    let set = |name: &str, value: Option<&str>| Statement::Set {
        name: name.to_owned(),
        value: value.map(ToOwned::to_owned),
    };
    assert_eq!(one("SET extra_float_digits = 3"), set("extra_float_digits", Some("3")));
    assert_eq!(one("SET SESSION search_path TO a, 'B'"), set("search_path", Some("a, B")));
    assert_eq!(one("SET TIME ZONE 'UTC'"), set("timezone", Some("UTC")));
    assert_eq!(one("SET x TO DEFAULT"), set("x", None));
    assert_eq!(one("RESET ALL"), set("", None));
    assert!(matches!(
        one("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"),
        Statement::Ignored("SET")
    ));
    assert!(matches!(one("DISCARD ALL"), Statement::Discard));
    assert_eq!(one("DEALLOCATE PREPARE a"), Statement::Deallocate(Some("a".into())));
    assert_eq!(one("DEALLOCATE ALL"), Statement::Deallocate(None));
    assert!(matches!(one("ROLLBACK TO SAVEPOINT a"), Statement::Ignored("ROLLBACK")));
    assert!(matches!(one("ROLLBACK"), Statement::Rollback));
    assert!(
        matches!(one(" ( select 1 )"), Statement::Query(query) if query.text == "( select 1 )" && query.at == 1)
    );
    let two =
        parse("select name from v$asm_disk ; -- a; b\n select 'x;y'").expect("two statements");
    assert!(
        matches!(&two[0], Statement::Query(query) if query.text == "select name from v$asm_disk")
    );
    assert!(
        matches!(&two[1], Statement::Query(query) if query.text == "select 'x;y'" && query.at == 39)
    );
    assert!(parse(" ;; /* nothing */ ;").expect("nothing").is_empty());
}

#[test]
fn system_and_session_are_altered() {
    use super::statement::SystemParameter;
    let system = |text: &str| match one(text) {
        Statement::AlterSystem { parameter, value, comment } => {
            (parameter.value, value.map(|value| value.value), comment)
        }
        other => panic!("{text}: {other:?}"),
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        system("ALTER SYSTEM SET asm_diskstring='/a/*','/b/*' SCOPE=BOTH"),
        (SystemParameter::Diskstring, text("/a/*,/b/*"), None)
    );
    assert_eq!(
        system(
            "alter system set ASM_PREFERRED_READ_FAILURE_GROUPS = 'DATA.A', 'FRA.A' scope = memory"
        ),
        (SystemParameter::Preferred, text("DATA.A,FRA.A"), None)
    );
    assert_eq!(
        system(
            "ALTER SYSTEM SET asm_power_limit = 4 COMMENT = 'at night' DEFERRED SCOPE = SPFILE SID = '*'"
        ),
        (SystemParameter::PowerLimit, text("4"), text("at night"))
    );
    assert_eq!(
        system("ALTER SYSTEM SET asm_power_limit TO '0' SID='+asm'"),
        (SystemParameter::PowerLimit, text("0"), None)
    );
    assert_eq!(
        system("ALTER SYSTEM RESET asm_power_limit SCOPE=SPFILE SID='*'"),
        (SystemParameter::PowerLimit, None, None)
    );
    assert!(matches!(
        one("ALTER SYSTEM LABEL SET 'a' TO '/x' MIGRATE RENAME"),
        Statement::AlterLabel(LabelOrder::Set { label, path, permission })
            if label.value == "a" && path.value == "/x"
                && permission == LabelPermission { rename: true, migrate: true, force: false }
    ));
    assert!(matches!(
        one("ALTER SYSTEM LABEL SET 'b' TO 'afd:a' RENAME"),
        Statement::AlterLabel(LabelOrder::Set { path, .. }) if path.value == "AFD:A"
    ));
    assert!(matches!(
        one("ALTER SYSTEM FILTER DISABLE DISK 'Afd:a'"),
        Statement::Filter(FilterChange::Set { disk: Some(path), .. }) if path.value == "AFD:A"
    ));
    let session = |text: &str| match one(text) {
        Statement::AlterSession(settings) => {
            settings.into_iter().map(|(name, value)| (name.value, value.value)).collect::<Vec<_>>()
        }
        other => panic!("{text}: {other:?}"),
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        session("ALTER SESSION SET NLS_DATE_FORMAT = 'DD-MON-YY' nls_sort = BINARY _x = -1"),
        [pair("nls_date_format", "DD-MON-YY"), pair("nls_sort", "BINARY"), pair("_x", "-1")]
    );
    assert_eq!(
        session("alter session set events '10046 trace name context forever'"),
        [pair("events", "10046 trace name context forever")]
    );
    assert_eq!(one("ALTER SESSION ENABLE PARALLEL DML"), Statement::Ignored("ALTER SESSION"));
}

#[test]
fn parameters_are_shown() {
    let shown = |text: &str| match one(text) {
        Statement::ShowParameter { like, stored } => (like.map(|like| like.value), stored),
        other => panic!("{text}: {other:?}"),
    };
    let like = |text: &str| Some(text.to_owned());
    assert_eq!(shown("SHOW PARAMETER"), (None, false));
    assert_eq!(shown("show parameters asm_power"), (like("asm_power"), false));
    assert_eq!(shown("SHOW PARAMETER 'power'"), (like("power"), false));
    assert_eq!(shown("show param asm%limit;"), (like("asm%limit"), false));
    assert_eq!(shown("SHOW SPPARAMETERS disk"), (like("disk"), true));
    assert!(parse("SHOW PARAMETER a b").is_err());
}

#[test]
fn transactions_begin_and_end() {
    for text in [
        "BEGIN",
        "BEGIN WORK",
        "begin transaction isolation level repeatable read, read only, not deferrable",
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
        "BEGIN READ ONLY",
        "START TRANSACTION",
        "START TRANSACTION ISOLATION LEVEL SERIALIZABLE DEFERRABLE",
    ] {
        assert_eq!(one(text), Statement::Begin, "{text}");
    }
    for text in [
        "COMMIT",
        "COMMIT WORK",
        "END",
        "END TRANSACTION",
        "COMMIT AND NO CHAIN",
        "COMMIT COMMENT 'x'",
        "COMMIT WRITE IMMEDIATE NOWAIT",
    ] {
        assert_eq!(one(text), Statement::Commit, "{text}");
    }
    for text in ["ROLLBACK", "ABORT", "ROLLBACK WORK", "rollback transaction and no chain"] {
        assert_eq!(one(text), Statement::Rollback, "{text}");
    }
    for text in ["ROLLBACK TO a", "ROLLBACK WORK TO SAVEPOINT \"b\""] {
        assert_eq!(one(text), Statement::Ignored("ROLLBACK"), "{text}");
    }
}

/// Names of disks and failure groups in single quotes, wherever no path can stand.
#[test]
fn names_of_disks_may_be_quoted() {
    for (quoted, plain) in [
        (
            "DROP DISK 'data_0001', \"DATA_0002\" FORCE, 'd$1#'",
            "DROP DISK data_0001, data_0002 FORCE, d$1#",
        ),
        ("DROP DISKS IN FAILGROUP 'f', 'g'", "DROP DISKS IN FAILGROUP f, g"),
        ("OFFLINE DISK 'a', 'b' DROP AFTER 1 H", "OFFLINE DISK a, b DROP AFTER 1 H"),
        ("OFFLINE DISKS IN FAILGROUP 'f'", "OFFLINE DISKS IN FAILGROUP f"),
        ("ONLINE DISK 'a' WAIT", "ONLINE DISK a WAIT"),
        ("RESIZE DISK 'a' SIZE 1G, 'b'", "RESIZE DISK a SIZE 1G, b"),
        ("RESIZE DISKS IN FAILGROUP 'f' SIZE 1G", "RESIZE DISKS IN FAILGROUP f SIZE 1G"),
        ("RENAME DISK 'a' TO 'b', c TO 'd'", "RENAME DISK a TO b, c TO d"),
        ("REPLACE DISK 'a' WITH '/x', 'b' WITH '/y'", "REPLACE DISK a WITH '/x', b WITH '/y'"),
        ("CHECK DISK 'a', 'b' REPAIR", "CHECK DISK a, b REPAIR"),
        ("SCRUB DISK 'a' REPAIR", "SCRUB DISK a REPAIR"),
        ("ADD FAILGROUP 'f' DISK '/x' NAME 'n', '/y'", "ADD FAILGROUP f DISK '/x' NAME n, '/y'"),
    ] {
        let text = |clause: &str| command(&format!("ALTER DISKGROUP d {clause}"));
        assert_eq!(text(quoted), text(plain), "{quoted}");
    }
}

/// Each text with a `<` at the position that its error must have, and words of the error.
#[test]
fn errors_point_at_their_place() {
    for (marked, says) in [
        ("<CRATE DISKGROUP d", "expected CREATE"),
        ("CREATE <TABLE t", "no database is open"),
        ("CREATE <OR REPLACE VIEW v AS SELECT 1 x FROM dual", "no database is open"),
        ("DROP <TABLESPACE t INCLUDING CONTENTS", "no database is open"),
        ("ALTER <TABLE t ADD b NUMBER", "no database is open"),
        ("<COMMENT ON TABLE t IS 'x'", "no database is open"),
        ("ALTER SYSTEM <SWITCH LOGFILE", "no database is open"),
        ("ALTER <DATABASE OPEN", "no database is mounted"),
        ("CREATE <PFILE = 'a' FROM SPFILE", "in one file"),
        ("CREATE <DISK d", "expected DISKGROUP"),
        ("CREATE DISKGROUP <1x", "expected the name"),
        ("CREATE DISKGROUP d NORMAL <DISK '/x'", "expected REDUNDANCY"),
        ("CREATE DISKGROUP d<", "expected EXTERNAL"),
        ("CREATE DISKGROUP d DISK </x", "single quotes"),
        ("CREATE DISKGROUP d DISK '/x' SIZE <lots", "expected a size"),
        ("CREATE DISKGROUP d DISK '/x' SIZE <'5 apples'", "is not a size"),
        ("CREATE DISKGROUP d DISK '/x' NAME <'/y'", "cannot be the name of a disk"),
        ("CREATE DISKGROUP d EXTERNAL REDUNDANCY <FAILGROUP f DISK '/x'", "no failure groups"),
        ("CREATE DISKGROUP d <FLEX REDUNDANCY DISK '/x'", "not supported yet"),
        ("CREATE DISKGROUP d DISK '/x' ATTRIBUTE 'a' <'b'", "expected '='"),
        ("CREATE DISKGROUP d DISK '/x' ATTRIBUTE 'a'='b', <'A'='c'", "twice"),
        ("CREATE DISKGROUP d DISK '/x' <ATTRIBUT 'a'='b'", "expected DISK"),
        ("ALTER DISKGROUP d<", "expected MOUNT"),
        ("ALTER DISKGROUP d <MOUNTED", "expected MOUNT"),
        ("ALTER DISKGROUP d ADD <'/x'", "expected DISK"),
        ("ALTER DISKGROUP d <ADD FILEGROUP t", "file groups are not there"),
        ("ALTER DISKGROUP d DROP DISK <'/x'", "cannot be the name of a disk"),
        ("ALTER DISKGROUP d OFFLINE DISKS IN FAILGROUP <'a b'", "cannot be the name of a failure"),
        ("ALTER DISKGROUP d DROP DISK <5", "expected the name of a disk"),
        ("ALTER DISKGROUP d DROP DISK a REBALANCE POWER <-1", "from 0 to 1024"),
        ("ALTER DISKGROUP d REBALANCE POWER <1025", "from 0 to 1024"),
        ("ALTER DISKGROUP d REBALANCE MODIFY <5", "expected POWER"),
        ("ALTER DISKGROUP d CONVERT REDUNDANCY TO HIGH <WAIT", "expected REBALANCE or the end"),
        ("ALTER DISKGROUP d DROP DISK a <POWER 5", "expected REBALANCE or the end"),
        ("ALTER DISKGROUP d REBALANCE WITHOUT <RESTORE", "expected BALANCE"),
        ("ALTER DISKGROUP d REBALANCE WITH <POWER 4", "expected RESTORE"),
        ("ALTER DISKGROUP d RESIZE <SIZE 1G", "expected ALL, DISK or DISKS IN FAILGROUP"),
        ("ALTER DISKGROUP d RESIZE ALL SIZE <much", "expected a size such as 512M or 10G"),
        ("ALTER DISKGROUP d RESIZE VOLUME v <1G", "expected SIZE"),
        ("ALTER DISKGROUP d CHECK DISK <'/x'", "cannot be the name of a disk"),
        ("ALTER DISKGROUP d CHECK FILE <f", "the name of a file in single quotes"),
        ("ALTER DISKGROUP d CHECK FILE 'f' <'g'", "expected the end"),
        ("ALTER DISKGROUP d RECLAIM <POWER 0", "no power 0"),
        ("ALTER DISKGROUP d RECLAIM <ALL", "expected DISK, DISCARD"),
        ("ALTER DISKGROUP d RECLAIM STOP <WAIT", "expected the end"),
        ("ALTER DISKGROUP d SCRUB POWER <5", "expected AUTO, LOW, HIGH or MAX"),
        ("ALTER DISKGROUP d SCRUB <FAST", "expected REPAIR"),
        ("ALTER DISKGROUP d SCRUB DISK a <STOP", "ends the scrub of the disk group"),
        ("ALTER DISKGROUP d ADD USER <scott", "the name of a user in single quotes"),
        ("ALTER DISKGROUP d ADD USER <''", "the name of a user in single quotes"),
        ("ALTER DISKGROUP d ADD USERGROUP 'g' WITH <USER 'u'", "expected MEMBER"),
        ("ALTER DISKGROUP d MODIFY USERGROUP 'g' <MEMBER 'u'", "expected ADD or DROP"),
        ("ALTER DISKGROUP d REPLACE USER 'a' <'b'", "expected WITH"),
        (
            "ALTER DISKGROUP d SET PERMISSION <USER = NONE FOR FILE 'f'",
            "expected OWNER, GROUP or OTHER",
        ),
        (
            "ALTER DISKGROUP d SET PERMISSION OWNER = <WRITE FOR FILE 'f'",
            "expected NONE, READ ONLY",
        ),
        ("ALTER DISKGROUP d SET PERMISSION OWNER = READ <FOR FILE 'f'", "expected ONLY or WRITE"),
        ("ALTER DISKGROUP d SET PERMISSION OWNER = NONE, <OWNER = NONE FOR FILE 'f'", "twice"),
        ("ALTER DISKGROUP d SET OWNERSHIP <OTHER = 'u' FOR FILE 'f'", "expected OWNER or GROUP"),
        ("ALTER DISKGROUP d SET OWNERSHIP OWNER = 'u' <FILE 'f'", "expected FOR"),
        ("ALTER DISKGROUP d ADD VOLUME <a_b SIZE 1G", "the name of a volume"),
        ("ALTER DISKGROUP d ADD VOLUME <abcdefghijkl SIZE 1G", "the name of a volume"),
        ("ALTER DISKGROUP d ADD VOLUME v SIZE <0", "at least one byte"),
        ("ALTER DISKGROUP d ADD VOLUME v SIZE 1G STRIPE_WIDTH <3K", "4K, 8K"),
        ("ALTER DISKGROUP d ADD VOLUME v SIZE 1G STRIPE_COLUMNS <9", "from 1 to 8"),
        ("ALTER DISKGROUP d MODIFY VOLUME v<", "expected MOUNTPATH or USAGE"),
        ("ALTER DISKGROUP d ENABLE <DISK a", "expected VOLUME"),
        ("ALTER DISKGROUP d <ADD QUOTAGROUP q", "quota groups are not there"),
        ("ALTER DISKGROUP d <MOVE FILEGROUP f TO q", "file groups are not there"),
        ("ALTER DISKGROUP d <MODIFY FILE 'f' ATTRIBUTE (HOT)", "regions of disks"),
        ("ALTER <DATABASE d PREPARE MIRROR COPY c", "mirror copies of databases are not there"),
        ("ALTER SYSTEM <START ROLLING MIGRATION TO '23'", "no rolling migration"),
        ("ALTER SYSTEM <RELOCATE CLIENT 'a:b'", "another instance"),
        ("ALTER DISKGROUP d OFFLINE <ALL", "expected DISK"),
        ("ALTER DISKGROUP d OFFLINE DISK a DROP <5 M", "expected AFTER"),
        ("ALTER DISKGROUP d OFFLINE DISK a DROP AFTER <M", "a number of minutes or hours"),
        ("ALTER DISKGROUP d OFFLINE DISK a DROP AFTER 5<", "expected M or H"),
        ("ALTER DISKGROUP d OFFLINE DISK a DROP AFTER <99999999 H", "136 years"),
        ("ALTER DISKGROUP d OFFLINE DISK a DROP AFTER <'soon'", "a number of minutes or hours"),
        ("ALTER DISKGROUP d ONLINE DISKS <FAILGROUP f", "expected IN"),
        ("ALTER DISKGROUP d ONLINE ALL <POWER 0", "from 1 to 1024"),
        ("ALTER DISKGROUP d RENAME <a TO b", "expected DISK"),
        ("ALTER DISKGROUP d RENAME DISK a <b", "expected TO"),
        ("ALTER DISKGROUP d RENAME DISKS <a", "expected ALL"),
        ("ALTER DISKGROUP d REPLACE DISK a <'/x'", "expected WITH"),
        ("ALTER DISKGROUP d REPLACE DISK a WITH <b", "single quotes"),
        ("ALTER DISKGROUP d REPLACE DISK a WITH '/x', <'/y'", "cannot be the name of a disk"),
        ("EXPLAIN WORK FOR <SELECT 1", "expected ALTER DISKGROUP"),
        ("EXPLAIN WORK FOR <ALTER DISKGROUP d CHECK", "moves nothing"),
        ("EXPLAIN WORK SET STATEMENT_ID <5 FOR ALTER DISKGROUP d REBALANCE", "expected '='"),
        ("ALTER DISKGROUP a, <b CHECK", "several disk groups"),
        ("ALTER DISKGROUP a MOUNT <FORCED", "expected the end"),
        // These would swallow the statement behind them.
        ("SET x = 1 <ALTER DISKGROUP d DISMOUNT", "expected the end"),
        ("SET x TO a, b <ALTER DISKGROUP d DISMOUNT", "expected the end"),
        ("SET TRANSACTION READ ONLY <ALTER DISKGROUP d DISMOUNT", "expected the end"),
        ("SET TIME ZONE 'UTC' <DROP DISKGROUP d", "expected the end"),
        ("SET ROLE x <DROP DISKGROUP d", "expected the end"),
        ("<SET x y", "no setting"),
        ("RESET x <DROP DISKGROUP d", "expected the end"),
        ("DISCARD ALL <DROP DISKGROUP d", "expected the end"),
        ("DISCARD <x", "expected ALL"),
        ("DEALLOCATE x <DROP DISKGROUP d", "expected the end"),
        ("SAVEPOINT a <DROP DISKGROUP d", "expected the end"),
        ("RELEASE SAVEPOINT a <DROP DISKGROUP d", "expected the end"),
        ("LISTEN a <DROP DISKGROUP d", "expected the end"),
        ("UNLISTEN * <DROP DISKGROUP d", "expected the end"),
        ("CLOSE ALL <DROP DISKGROUP d", "expected the end"),
        ("ALTER SYSTEM SET <memory_target = 5", "no parameter \"memory_target\""),
        ("ALTER SYSTEM SET <\"_asm_x\" = true", "no parameter \"_asm_x\""),
        ("ALTER SYSTEM SET <= 5", "expected asm_diskstring"),
        ("ALTER SYSTEM <KILL SESSION '1,2'", "expected SET, RESET, LABEL or FILTER"),
        ("ALTER SYSTEM LABEL <GIVE 'a'", "expected SET, CLEAR or SCAN"),
        ("ALTER SYSTEM LABEL SET 'a' <IN '/x'", "expected TO"),
        ("ALTER SYSTEM LABEL CLEAR <a", "a label in single quotes"),
        ("ALTER SYSTEM LABEL SCAN <x", "expected the end"),
        ("ALTER SYSTEM RESET <memory_target", "no parameter \"memory_target\""),
        ("ALTER SYSTEM SET asm_power_limit = <high", "a number from 0 to 1024"),
        ("ALTER SYSTEM SET asm_power_limit = 4 SID = <'other'", "no instance 'other'"),
        ("ALTER SYSTEM SET asm_power_limit = 4 SCOPE = <DISK", "expected BOTH"),
        ("ALTER SYSTEM SET asm_power_limit = 4 SCOPE = BOTH <SCOPE = BOTH", "expected COMMENT"),
        ("ALTER SYSTEM SET asm_power_limit = 4 <FAST", "expected COMMENT"),
        ("ALTER SESSION <GO", "expected SET"),
        ("ALTER SESSION SET<", "expected the name of a parameter"),
        ("ALTER SESSION SET nls_date_format <'YYYY'", "expected '='"),
        ("ALTER SESSION SET nls_date_format =<", "expected a value"),
        ("<BEGIN NULL", "no PL/SQL"),
        ("<begin dbms_output.put_line('x')", "no PL/SQL"),
        ("BEGIN WORK <NULL", "expected the end"),
        ("BEGIN ISOLATION <SERIALIZABLE", "expected LEVEL"),
        ("BEGIN READ ONLY,<", "expected ISOLATION"),
        ("<DECLARE x NUMBER", "no PL/SQL"),
        ("<DECLARE c CURSOR FOR SELECT 1", "CURSOR is not supported"),
        ("<EXEC dbms_stats.gather", "no PL/SQL"),
        ("<call p(1)", "no PL/SQL"),
        ("COMMIT <rubbish", "expected the end"),
        ("COMMIT AND <CHAIN", "AND CHAIN is not supported"),
        ("END <LOOP", "expected the end"),
        ("ROLLBACK <everything", "expected the end"),
        ("ROLLBACK TO<", "the name of a savepoint"),
        ("<START WORK", "SQL*Plus"),
        ("ALTER SYSTEM SET asm_preferred_read_failure_groups = <data.a", "in single quotes"),
        ("DROP DISKGROUP d <CASCADE", "expected INCLUDING"),
        ("DROP DISKGROUP d FORCE<", "expected INCLUDING CONTENTS"),
        ("ALTER DISKGROUP d SET ATTRIBUTE 'disk_timeout' = '5' <FORCE", "FORCE is for what_if"),
        ("select 1; <nonsense", "expected CREATE"),
        ("/* é\n */ <nonsense", "expected CREATE"),
        ("CREATE DISKGROUP <é DISK '/x'", "cannot be the name"),
        ("CREATE DISKGROUP <all DISK '/x'", "cannot be the name"),
        ("CREATE DISKGROUP <\"All\" DISK '/x'", "cannot be the name"),
        ("<DELETE FROM v$asm_disk", "only be read"),
        ("EXPLAIN <select 1", "expected WORK"),
    ] {
        let place = marked.chars().position(|character| character == '<').expect("a mark");
        let text = marked.replacen('<', "", 1);
        let error = parse(&text).expect_err(&text);
        let at = error.at.unwrap_or_else(|| panic!("{text}: no place: {error}"));
        assert_eq!(at, place, "{text}: {error}");
        assert!(error.message.contains(says), "{text}: {error}");
    }
}

/// The examples of ASM's documentation, and forms that they omit.
#[test]
fn checks_and_scrubs() {
    let check = |text: &str| match command(text) {
        Command::Check { scope, repair } => (scope, repair),
        other => panic!("{text}: {other:?}"),
    };
    let disks = |names: &[&str]| {
        Scope::Disks(Selection::Disks(names.iter().map(|name| (*name).to_owned()).collect()))
    };
    assert_eq!(check("ALTER DISKGROUP d CHECK"), (Scope::All, false));
    assert_eq!(check("ALTER DISKGROUP d CHECK ALL NOREPAIR"), (Scope::All, false));
    assert_eq!(check("ALTER DISKGROUP d CHECK REPAIR"), (Scope::All, true));
    assert_eq!(check("ALTER DISKGROUP d CHECK DISK a, b REPAIR"), (disks(&["A", "B"]), true));
    let groups = Scope::Disks(Selection::FailureGroups(vec!["F".to_owned(), "G".to_owned()]));
    assert_eq!(check("ALTER DISKGROUP d CHECK DISKS IN FAILGROUP f, g"), (groups, false));
    let files = Scope::Files(vec!["+D/a".to_owned(), "b".to_owned()]);
    assert_eq!(check("ALTER DISKGROUP d CHECK FILE '+D/a', 'b' REPAIR"), (files, true));
    let scrub = |text: &str| match alter(text) {
        Alter { command: Command::Scrub(order), wait: Some(wait), .. } => (order, wait),
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(scrub("ALTER DISKGROUP d SCRUB"), (ScrubOrder::default(), false));
    let order =
        ScrubOrder { scope: disks(&["A"]), repair: true, power: ScrubPower::Low, force: true };
    assert_eq!(
        scrub("ALTER DISKGROUP d SCRUB DISK a REPAIR POWER LOW WAIT FORCE"),
        (order.clone(), true)
    );
    assert_eq!(
        scrub("ALTER DISKGROUP d SCRUB DISK a FORCE NOWAIT POWER LOW REPAIR"),
        (order, false)
    );
    assert!(matches!(command("ALTER DISKGROUP d SCRUB STOP"), Command::StopScrub));
    assert!(matches!(command("ALTER DISKGROUP d RECLAIM STOP"), Command::StopReclaim));
    let reclaim = |text: &str| match alter(text) {
        Alter { command: Command::Reclaim(order), wait: Some(wait), .. } => {
            (order.which, order.method, order.power, wait)
        }
        other => panic!("{text}: {other:?}"),
    };
    let all = Selection::All;
    assert_eq!(reclaim("ALTER DISKGROUP d RECLAIM"), (all, ReclaimMethod::Discard, None, false));
    let a = Selection::Disks(vec!["A".to_owned()]);
    assert_eq!(
        reclaim("ALTER DISKGROUP d RECLAIM DISK a WAIT POWER 9 ZERO"),
        (a.clone(), ReclaimMethod::Zero, Some(9), true)
    );
    assert!(matches!(
        one("EXPLAIN WORK FOR ALTER DISKGROUP d RECLAIM DISK a ZERO"),
        Statement::ExplainWork { alter: Alter { command: Command::Reclaimable(which), .. }, .. }
            if which == a
    ));
    assert!(matches!(
        alter("ALTER DISKGROUP ALL SCRUB STOP"),
        Alter { groups: Groups::All, command: Command::StopScrub, .. }
    ));
    assert!(matches!(
        alter("ALTER DISKGROUP ALL SCRUB REPAIR"),
        Alter { groups: Groups::All, command: Command::Scrub(_), .. }
    ));
    let Groups::Named(two) = alter("ALTER DISKGROUP d, e SCRUB").groups else {
        panic!("two groups")
    };
    assert_eq!(two.len(), 2);
    for of_one in ["ALTER DISKGROUP ALL SCRUB DISK a", "ALTER DISKGROUP d, e SCRUB FILE 'f'"] {
        assert!(parse(of_one).expect_err(of_one).message.contains("whole disk groups"), "{of_one}");
    }
}

/// Disks and failure groups in one statement, as ASM accepts them.
#[test]
fn several_disks_and_failure_groups() {
    let text =
        "ALTER DISKGROUP d OFFLINE DISK a, b QUORUM DISKS IN FAILGROUP f DISK c DROP AFTER 5 M";
    let Command::Offline { which, drop_after } = command(text) else { panic!("{text}") };
    let disks =
        |names: &[&str]| Selection::Disks(names.iter().map(|name| (*name).to_owned()).collect());
    let groups = Selection::FailureGroups(vec!["F".to_owned()]);
    assert_eq!(which, Selection::Several(vec![disks(&["A", "B"]), groups, disks(&["C"])]));
    assert_eq!(drop_after, Some(300));
    assert!(matches!(command("ALTER DISKGROUP d ONLINE DISK a DISK b WAIT"),
        Command::Online { which: Selection::Several(all), .. } if all.len() == 2));
}

#[test]
fn users_and_permissions() {
    let access = |text: &str| match alter(text) {
        Alter { command: Command::Access(change), places, .. } => {
            for (name, at) in places {
                assert!(text[at..].starts_with(&format!("'{name}'")), "{text}: {name}");
            }
            change
        }
        other => panic!("{text}: {other:?}"),
    };
    let of = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let new = |name: &str| Principal::named(name.to_owned());
    assert_eq!(
        access("ALTER DISKGROUP d ADD USER 'Ann', 'bob'"),
        AccessChange::AddUsers(vec![new("Ann"), new("bob")])
    );
    assert_eq!(
        access("ALTER DISKGROUP d DROP USER 'a', 'b' CASCADE"),
        AccessChange::DropUsers { users: of(&["a", "b"]), cascade: true }
    );
    assert_eq!(
        access("ALTER DISKGROUP d REPLACE USER 'a' WITH 'b', 'c' WITH 'd'"),
        AccessChange::ReplaceUsers(vec![("a".to_owned(), new("b")), ("c".to_owned(), new("d"))])
    );
    assert_eq!(
        access("ALTER DISKGROUP d ADD USERGROUP 'dba' WITH MEMBER 'a', 'b'"),
        AccessChange::AddUserGroup { group: new("dba"), members: of(&["a", "b"]) }
    );
    assert_eq!(
        access("ALTER DISKGROUP d MODIFY USERGROUP 'dba' DROP MEMBER 'a'"),
        AccessChange::ModifyUserGroup { name: "dba".to_owned(), add: false, members: of(&["a"]) }
    );
    assert_eq!(
        access("ALTER DISKGROUP d DROP USERGROUP 'dba'"),
        AccessChange::DropUserGroup("dba".to_owned())
    );
    assert_eq!(
        access(
            "ALTER DISKGROUP d SET PERMISSION OWNER = READ WRITE, GROUP=READ ONLY, OTHER = NONE FOR FILE 'f', 'g'"
        ),
        AccessChange::SetPermission {
            owner: Some(Permission::ReadWrite),
            usergroup: Some(Permission::ReadOnly),
            other: Some(Permission::None),
            files: of(&["f", "g"]),
        }
    );
    assert_eq!(
        access("ALTER DISKGROUP d SET OWNERSHIP OWNER='a', GROUP='g' FOR FILE 'f'"),
        AccessChange::SetOwnership {
            owner: Some("a".to_owned()),
            usergroup: Some("g".to_owned()),
            files: of(&["f"]),
        }
    );
}

#[test]
fn volumes() {
    let volume = |text: &str| match command(text) {
        Command::Volume(change) => change,
        other => panic!("{text}: {other:?}"),
    };
    let add = |mirrors, stripe_width, stripe_columns| VolumeChange::Add {
        name: "V1".to_owned(),
        size: 10 << 30,
        mirrors,
        stripe_width,
        stripe_columns,
    };
    assert_eq!(volume("ALTER DISKGROUP d ADD VOLUME v1 SIZE 10G"), add(None, 1 << 20, 8));
    assert_eq!(
        volume(
            "ALTER DISKGROUP d ADD VOLUME v1 SIZE 10G UNPROTECTED STRIPE_WIDTH 128K STRIPE_COLUMNS 4"
        ),
        add(Some(1), 128 << 10, 4)
    );
    assert!(matches!(volume("ALTER DISKGROUP d MODIFY VOLUME v USAGE 'u' MOUNTPATH '/p'"),
        VolumeChange::Modify { mount_path: Some(path), usage: Some(usage), .. } if path == "/p" && usage == "u"));
    assert!(
        matches!(volume("ALTER DISKGROUP d RESIZE VOLUME v SIZE 1G"), VolumeChange::Resize { size, .. } if size == 1 << 30)
    );
    assert!(matches!(volume("ALTER DISKGROUP d DROP VOLUME v"), VolumeChange::Drop { .. }));
    assert!(matches!(
        volume("ALTER DISKGROUP ALL DISABLE VOLUME ALL"),
        VolumeChange::Enable { volumes: None, enable: false }
    ));
    assert!(matches!(volume("ALTER DISKGROUP a, b ENABLE VOLUME v, w"),
        VolumeChange::Enable { volumes: Some(names), enable: true } if names == ["V", "W"]));
}

#[test]
fn phases_of_a_rebalance() {
    for (text, balance, compact) in [
        ("", true, None),
        ("WITHOUT COMPACT", true, Some(false)),
        ("WITH RESTORE, BALANCE", true, Some(false)),
        ("WITHOUT PREPARE, COMPACT", true, Some(false)),
        ("WITH COMPACT", false, Some(true)),
        ("WITH balance, compact", true, Some(true)),
        ("WITHOUT BALANCE", false, None),
        ("WITH RESTORE", false, Some(false)),
    ] {
        let statements =
            parse(&format!("ALTER DISKGROUP d REBALANCE {text} POWER 3 WAIT")).expect(text);
        let phases = Some(Phases { balance, compact });
        let expected = Order { power: Some(3), phases };
        assert!(
            matches!(&statements[..], [Statement::Alter(Alter { command: Command::Rebalance(order), wait: Some(true), .. })]
                if *order == expected),
            "{text}"
        );
    }
}

#[test]
fn sizes() {
    for (written, bytes) in [
        ("0", Some(0)),
        ("512", Some(512)),
        ("1k", Some(1024)),
        ("4M", Some(4 << 20)),
        ("2T", Some(2 << 40)),
    ] {
        assert_eq!(parse_size(written), bytes);
    }
    for nonsense in ["", "M", "1.5G", "-1", "1X", "99999999999999999999", "16E", "9999999P", "1é"]
    {
        assert_eq!(parse_size(nonsense), None, "{nonsense}");
    }
}

/// Words, symbols and noise in any order are refused or parsed, without a panic.
#[test]
fn noise_never_panics() {
    const PARTS: [&str; 82] = [
        "SCRUB",
        "CHECK",
        "FILE",
        "POWER LOW",
        "STOP",
        "ADD USER",
        "USERGROUP",
        "WITH MEMBER",
        "MODIFY",
        "SET PERMISSION",
        "OWNER=READ ONLY",
        "SET OWNERSHIP",
        "FOR FILE",
        "VOLUME v",
        "STRIPE_WIDTH 4K",
        "STRIPE_COLUMNS",
        "ENABLE",
        "USAGE 'u'",
        "MOUNTPATH",
        "RESTRICTED",
        "REPAIR",
        "WAIT",
        "CREATE",
        "DISKGROUP",
        "ALTER",
        "DROP",
        "data",
        "NORMAL",
        "REDUNDANCY",
        "FAILGROUP",
        "DISK",
        "'/x'",
        "\"q",
        "'",
        "SIZE",
        "10G",
        "10",
        ",",
        ";",
        "(",
        ")",
        "=",
        "ATTRIBUTE",
        "'a'='b'",
        "ALL",
        "MOUNT",
        "FORCE",
        "ONLINE",
        "IN",
        "DISKS",
        "CHECK",
        "SELECT",
        "*",
        "FROM",
        "v$asm_disk",
        "$1",
        "$$",
        "$x$",
        "--",
        "/*",
        "*/",
        "\n",
        "\r\n",
        "\t",
        "é",
        "\u{1F600}",
        "\0",
        "::",
        "::text",
        "E'\\",
        "U&'\\",
        "0x",
        "1e",
        ".",
        "..",
        "@",
        "#",
        "~",
        "!~",
        "SHOW",
        "SET",
        "\\",
    ];
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).expect("below a usize")
    };
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..random(14) {
            text.push_str(PARTS[random(PARTS.len())]);
            if random(3) > 0 {
                text.push(' ');
            }
        }
        if let Err(error) = parse(&text)
            && let Some(at) = error.at
        {
            assert!(at <= text.chars().count(), "{text:?}: {at}");
        }
        let bytes: Vec<u8> = (0..random(40)).map(|_| random(256).to_le_bytes()[0]).collect();
        let _ = parse(&String::from_utf8_lossy(&bytes));
    }
}

/// A token's position is where it begins in the text.
#[test]
fn tokens_stand_where_they_say() {
    let text = Text::new("é 'a\nb'\r\n x , /* é */ y10G 5 \"Q\"").expect("tokens");
    let tokens: Vec<&str> =
        text.statements().flatten().map(|token| text.between(token.start, token.end)).collect();
    assert_eq!(tokens, ["é", "'a\nb'", "x", ",", "y10G", "5", "\"Q\""]);
}
