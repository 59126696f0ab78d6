//! The first questions of Oracle's monitoring, and of its users, to an ASM instance: its name and
//! version, its parameters, its sessions; the names under which they know the views; and what they
//! set in a session.

use plinth_tests::{Finished, Instance, MIB, shell, wait_for};
use tokio_postgres::NoTls;

/// The output of psql for these commands, in one session, without headings.
fn psql(instance: &Instance, commands: &[&str]) -> Finished {
    let script = r#"dir=$1; shift; for c in "$@"; do set -- "$@" -c "$c"; shift; done
        exec psql -X -A -t -v ON_ERROR_STOP=1 -h "$dir" "$@" 2>&1"#;
    let start = shell(script).arg(instance.dir());
    commands.iter().fold(start, |script, command| script.arg(command)).finish()
}

fn answer(instance: &Instance, commands: &[&str]) -> String {
    psql(instance, commands).ok().trim_end().to_owned()
}

fn group() -> Instance {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    instance
}

#[test]
fn an_instance_says_what_it_is() {
    let instance = group();
    let row = instance.query("SELECT * FROM v$instance").remove(0);
    for (column, value) in [
        ("instance_name", "+ASM"),
        ("status", "STARTED"),
        ("parallel", "NO"),
        ("shutdown_pending", "NO"),
        ("database_status", "ACTIVE"),
        ("instance_role", "UNKNOWN"),
    ] {
        assert_eq!(row[column], value, "{column}");
    }
    assert_eq!((&row["instance_number"], &row["thread#"]), (&1.into(), &0.into()));
    let version = row["version"].as_str().expect("a version").to_owned();
    assert_eq!(version.split('.').filter(|part| part.parse::<u32>().is_ok()).count(), 5);
    let uptime = instance.number("SELECT (sysdate - startup_time) * 86400 s FROM v$instance");
    assert!((0.0..3600.0).contains(&uptime), "{uptime}");
    assert_eq!(instance.number("SELECT inst_id FROM gv$instance"), 1.0);

    let banner = instance.text("SELECT banner FROM v$version");
    assert!(banner.contains(&format!("Release {version} - ")), "{banner}");
    let product = instance.query("SELECT * FROM product_component_version").remove(0);
    assert_eq!(product["version_full"], version.as_str());
    assert!(product["product"].as_str().is_some_and(|product| product.starts_with("Plinth")));

    for view in ["v$database", "gv$datafile", "sys.v_$log"] {
        let refused = instance.refused(&format!("SELECT * FROM {view}"));
        assert!(refused.contains("no database is mounted"), "{refused}");
    }
    let refused =
        psql(&instance, &["\\set VERBOSITY verbose", "SELECT 1 FROM v$database"]).refused();
    assert!(refused.contains("ORA-01507") && refused.contains("LINE 1"), "{refused}");
}

#[test]
fn views_have_the_names_that_oracle_gives_them() {
    let instance = group();
    for name in [
        "v_$asm_disk",
        "V_$ASM_DISK",
        "sys.v_$asm_disk",
        "SYS.V$ASM_DISK",
        "system.v$asm_disk",
        "public.v_$asm_disk",
        "\"SYS\".\"V_$ASM_DISK\"",
        "gv_$asm_disk",
        "sys.gv$asm_disk",
    ] {
        let found =
            instance.number(&format!("SELECT count(*) n FROM {name} d WHERE d.name LIKE 'DATA%'"));
        assert_eq!(found, 2.0, "{name}");
    }
    let joined =
        "SELECT count(*) n FROM sys.v_$asm_disk d JOIN sys.v_$asm_diskgroup g USING (group_number)";
    assert_eq!(instance.number(joined), 2.0);
    assert_eq!(instance.text("SELECT dummy FROM sys.dual"), "X");
}

#[test]
fn sessions_are_seen() {
    let instance = group();
    let own = "SELECT s.username, s.status, s.program, s.module, s.type, s.protocol, s.statement, \
               s.sid = sys_context('USERENV', 'SID'), s.serial# = userenv('sessionid'), \
               p.spid = (SELECT spid FROM v$process WHERE pname = 'INSTANCE'), s.logon_time <= sysdate \
               FROM v$session s, v$process p WHERE p.addr = s.paddr AND s.status = 'ACTIVE'";
    assert_eq!(
        answer(&instance, &["SET application_name = 'night shift'", own]),
        "SET\nROOT|ACTIVE|psql|night shift|USER|POSTGRESQL|SELECT|1|1|1|1"
    );
    // Another session is idle meanwhile, and gone when its client is.
    let idle = "SELECT count(*) n FROM v$session WHERE username = 'ROOT' AND module = 'idle' \
                AND status = 'INACTIVE' AND wait_class = 'Idle' AND statement = 'SHOW'";
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let client = runtime.block_on(async {
        let mut config = tokio_postgres::Config::new();
        config.host_path(instance.dir()).user("root").dbname("plinth").application_name("idle");
        let (client, connection) = config.connect(NoTls).await.expect("connected");
        tokio::spawn(connection);
        client.simple_query("SHOW application_name").await.expect("an answer");
        client
    });
    wait_for("the idle session", || instance.number(idle) == 1.0);
    drop(client);
    wait_for("the end of the session", || instance.number(idle) == 0.0);
    let engines = instance.query("SELECT program, spid FROM v$process WHERE pname = 'ENGINE'");
    assert_eq!(engines.len(), 1);
    assert_eq!(engines[0]["program"], "plinth engine DATA");
    let serial = instance.number("SELECT max(serial#) AS serial# FROM gv$session");
    assert!(serial >= 3.0, "{serial}");
}

#[test]
fn sys_context_knows_the_session() {
    let instance = group();
    let facts = "SELECT sys_context('userenv', 'DB_NAME'), sys_context('USERENV', 'instance_name'), \
                 sys_context('USERENV', 'SESSION_USER'), sys_context('USERENV', 'OS_USER'), \
                 sys_context('USERENV', 'ISDBA'), sys_context('USERENV', 'IP_ADDRESS'), \
                 sys_context('USERENV', 'AUTHENTICATION_METHOD'), userenv('INSTANCE'), \
                 sys_context('USERENV', 'CURRENT_SCHEMA') FROM dual";
    assert_eq!(answer(&instance, &[facts]), "+ASM|+ASM|ROOT|root|TRUE||OS|1|SYS");
    let schema = "SELECT sys_context('USERENV', 'CURRENT_SCHEMA')";
    assert_eq!(
        answer(&instance, &["ALTER SESSION SET current_schema = other", schema]),
        "ALTER SESSION\nOTHER"
    );
    let host = "SELECT sys_context('USERENV', 'SERVER_HOST') = host_name, sys_context('USERENV', 'HOST') = host_name FROM v$instance";
    assert_eq!(answer(&instance, &[host]), "1|1");
    let refused = psql(&instance, &["SELECT sys_context('USERENV', 'NONSENSE')"]).refused();
    assert!(refused.contains("ORA-02003") && refused.contains("DB_NAME"), "{refused}");
}

#[test]
fn parameters_are_shown() {
    let instance = group();
    let diskstring = instance.text("SHOW asm_diskstring");
    assert_eq!(
        answer(&instance, &["SHOW PARAMETER diskstring"]),
        format!("afd_diskstring|string|\nasm_diskstring|string|{diskstring}")
    );
    let shown = answer(&instance, &["SHOW PARAMETERS"]);
    for line in [
        "asm_diskgroups|string|DATA",
        "asm_power_limit|integer|8",
        "asm_preferred_read_failure_groups|string|",
        "instance_type|string|asm",
        "processes|integer|500",
    ] {
        assert!(shown.lines().any(|found| found == line), "{line}\n{shown}");
    }
    assert_eq!(answer(&instance, &["SHOW PARAMETER no_such"]), "");
    let stored = answer(&instance, &["SHOW SPPARAMETER asm"]);
    assert!(stored.contains("*|asm_diskgroups|string|DATA\n"), "{stored}");
    assert!(stored.contains("*|asm_power_limit|integer|\n"), "{stored}");

    instance.sql("ALTER SYSTEM SET asm_diskstring = '/nowhere/*', '/tmp/*', '/tmp/*/*', '/tmp/*/*/*', '/tmp/*/*/*/*'");
    let values = instance.query(
        "SELECT ordinal, value, ismodified FROM v$parameter2 WHERE name = 'asm_diskstring' ORDER BY 1",
    );
    assert_eq!((values.len(), &values[0]["value"]), (5, &"/nowhere/*".into()));
    assert_eq!(values[4]["ismodified"], "SYSTEM_MOD");
    let same = "SELECT count(*) n FROM v$parameter p JOIN v$system_parameter s USING (name, value) \
                WHERE p.isdefault = 'TRUE' AND p.num = s.num";
    assert!(instance.number(same) > 5.0);
}

#[test]
fn the_information_schema_has_all_views() {
    let instance = group();
    let columns = "SELECT column_name, ordinal_position, is_nullable, data_type, character_maximum_length, \
                   numeric_precision, datetime_precision, udt_name FROM information_schema.columns \
                   WHERE table_catalog = 'plinth' AND table_schema = 'public' AND table_name = 'gv$session' \
                   AND column_name IN ('inst_id', 'serial#', 'username', 'logon_time') ORDER BY 2";
    assert_eq!(
        answer(&instance, &[columns]),
        "inst_id|1|YES|bigint||64||int8\nserial#|3|YES|bigint||64||int8\n\
         username|6|YES|text||||text\nlogon_time|21|YES|timestamp without time zone|||6|timestamp"
    );
    // Whatever is listed can be read.
    for row in instance
        .query("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
    {
        let view = row["table_name"].as_str().expect("a name").to_owned();
        instance.query(&format!("SELECT * FROM {view} WHERE 1 = 0"));
    }
    let described = answer(&instance, &["\\d v$session"]);
    assert!(
        described.contains("serial#|bigint") && described.contains("logon_time|timestamp"),
        "{described}"
    );
}

/// The settings of a session take effect, or are refused.
#[test]
fn a_session_has_its_formats() {
    let instance = group();
    let set = "ALTER SESSION SET nls_date_format = 'DD-MON-YYYY' nls_timestamp_format = 'YYYY.MM.DD HH24:MI:SS.FF3'";
    let today = instance.text("SELECT to_char(sysdate, 'DD-MON-YYYY') d");
    let ask = |query: &str| {
        let said = answer(&instance, &[set, query]);
        said.strip_prefix("ALTER SESSION\n").unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    assert_eq!(
        ask("SELECT sysdate, create_date, 'on ' || sysdate FROM v$asm_disk WHERE disk_number = 0"),
        format!("{today}|{today}|on {today}")
    );
    assert_eq!(ask("SELECT max(d) FROM (SELECT create_date d FROM v$asm_disk)"), today);
    assert_eq!(
        ask(
            "SELECT to_char(create_date), substr(create_date, 4, 3) FROM v$asm_disk WHERE disk_number = 0"
        ),
        format!("{today}|{}", &today[3..6])
    );
    assert_eq!(
        ask("SELECT to_date('07-MAR-2026') + 1, to_char(to_date('07-MAR-2026'), 'YYYYMMDD')"),
        "08-MAR-2026|20260307"
    );
    assert_eq!(
        ask(
            "SELECT count(*) FROM v$asm_disk WHERE create_date > '07-MAR-2020' AND NOT create_date < '07-MAR-2020'"
        ),
        "2"
    );
    assert_eq!(ask("SELECT length(systimestamp)"), "23");
    assert_eq!(ask("SHOW nls_date_format"), "DD-MON-YYYY");
    assert_eq!(
        ask("SELECT value, ismodified FROM v$parameter WHERE name = 'nls_date_format'"),
        "DD-MON-YYYY|MODIFIED"
    );
    // An error in the query still points into it, and a string that is no such time is refused.
    let refused = psql(&instance, &[set, "SELECT 'x' || sysdate, nonsense"]).refused();
    let (line, caret) = (refused.find("nonsense"), refused.rfind('^'));
    assert!(line.is_some() && caret.is_some(), "{refused}");
    let column = |at: usize| at - refused[..at].rfind('\n').map_or(0, |line| line + 1);
    let place = refused.rfind("nonsense").expect("the line of the query");
    assert_eq!(caret.map(column), Some(column(place)), "{refused}");
    assert!(
        psql(&instance, &[set, "SELECT 1 WHERE sysdate > '2026-03-07'"])
            .refused()
            .contains("does not fit")
    );
    // Without the setting all is as it was.
    let said =
        answer(&instance, &[set, "RESET ALL", "SELECT length(sysdate), sysdate > '2026-03-07'"]);
    assert_eq!(said, "ALTER SESSION\nRESET\n19|1");
    for (refused, says) in [
        ("ALTER SESSION SET nls_date_format = 'nonsense'", "nonsense"),
        ("ALTER SESSION SET nls_numeric_characters = ',.'", "decimal point"),
        ("ALTER SESSION SET time_zone = 'Europe/Berlin'", "UTC"),
        ("SET nls_date_format = 'nonsense'", "nonsense"),
        ("ALTER SESSION SET no_such = 1", "no parameter"),
        ("BEGIN NULL; END;", "no PL/SQL"),
        ("COMMIT rubbish", "end of the statement"),
    ] {
        assert!(psql(&instance, &[refused]).refused().contains(says), "{refused}");
    }
    assert_eq!(
        answer(&instance, &["ALTER SESSION SET optimizer_mode = FIRST_ROWS"]),
        "ALTER SESSION"
    );
}

/// `asm_power_limit` is the power where no statement says it; with 0 nothing moves until one does;
/// and it is remembered.
#[test]
fn the_power_limit_holds_for_later_rebalances() {
    let mut instance = group();
    instance.add_disk("more", 256 * MIB);
    instance.add_disk("less", 256 * MIB);
    instance.sql("ALTER SYSTEM SET asm_power_limit = 0 COMMENT = 'by day' SCOPE = BOTH SID = '*'");
    let add = |instance: &Instance, name: &str| {
        let path = instance.disk(name).display().to_string();
        format!("ALTER DISKGROUP data ADD FAILGROUP f{name} DISK '{path}' NAME {name}")
    };
    // WAIT does not wait for what waits itself.
    instance.sql(&format!("{} REBALANCE WAIT", add(&instance, "more")));
    let operation = |instance: &Instance| {
        instance.query("SELECT state, power FROM v$asm_operation WHERE pass = 'REBALANCE'")
    };
    wait_for("a rebalance that waits", || {
        operation(&instance).first().is_some_and(|row| row["state"] == "WAIT" && row["power"] == 0)
    });
    instance.sql("ALTER DISKGROUP data REBALANCE POWER 4 WAIT");
    assert!(operation(&instance).is_empty());

    instance.kill_instance();
    instance.start();
    let shown = instance.query(
        "SELECT value, isdefault, update_comment FROM v$parameter WHERE name = 'asm_power_limit'",
    );
    assert_eq!(shown[0]["value"], "0");
    assert_eq!(
        (&shown[0]["isdefault"], &shown[0]["update_comment"]),
        (&"FALSE".into(), &"by day".into())
    );
    // Another engine has it, too.
    instance.sql("ALTER DISKGROUP data DISMOUNT; ALTER DISKGROUP data MOUNT");
    instance.sql(&add(&instance, "less"));
    wait_for("a rebalance that waits", || {
        operation(&instance).first().is_some_and(|row| row["state"] == "WAIT" && row["power"] == 0)
    });
    instance.sql("ALTER SYSTEM SET asm_power_limit = 11; ALTER DISKGROUP data REBALANCE WAIT");
    let ended =
        instance.number("SELECT max(power) p FROM v$asm_operation_ended WHERE pass = 'REBALANCE'");
    assert_eq!(ended, 11.0);
    instance.sql("ALTER SYSTEM RESET asm_power_limit SCOPE = SPFILE SID = '*'");
    assert_eq!(instance.text("SHOW asm_power_limit"), "8");
    assert!(instance.refused("ALTER SYSTEM SET asm_power_limit = 2000").contains("0 to 1024"));
    assert!(
        instance
            .refused("ALTER SYSTEM SET asm_power_limit = 2 SID = 'x'")
            .contains("no instance 'x'")
    );
}

#[test]
fn disks_are_named_in_quotes_and_times_in_every_form() {
    let instance = group();
    for (written, shown) in
        [("4.5 H", "4.5h"), ("12.0h", "12.0h"), ("270m", "270m"), (" 8H", "8.0h")]
    {
        instance
            .sql(&format!("ALTER DISKGROUP data SET ATTRIBUTE 'disk_repair_time' = '{written}'"));
        let value =
            instance.text("SELECT value FROM v$asm_attribute WHERE name = 'disk_repair_time'");
        assert_eq!(value, shown);
    }
    instance.sql("ALTER DISKGROUP data OFFLINE DISK 'data_0001' DROP AFTER '1.5 h'");
    let left = instance.number("SELECT repair_timer FROM v$asm_disk_stat WHERE name = 'DATA_0001'");
    assert!((4000.0..=5400.0).contains(&left), "{left}");
    instance.sql("ALTER DISKGROUP data ONLINE DISK 'DATA_0001' WAIT");
    instance.sql("ALTER DISKGROUP data RENAME DISK 'data_0001' TO 'd$1#'");
    let found = instance.query("SELECT name AS n# FROM v$asm_disk_stat d WHERE d.name = 'D$1#'");
    assert_eq!(found[0]["n#"], "D$1#");
    instance
        .sql("ALTER DISKGROUP data OFFLINE DISK d$1#; ALTER DISKGROUP data ONLINE DISK d$1# WAIT");
}
