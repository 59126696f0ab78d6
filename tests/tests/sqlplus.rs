//! Scripts of SQL*Plus against a live group, under the name `sqlplus` and as `plinth sql`: what
//! they print, what they write, and how they end.

use plinth_tests::{Finished, Instance, MIB, binary, shell};
use std::fs;

/// An instance with a group, and a directory for scripts.
struct Story {
    instance: Instance,
}

impl Story {
    fn new() -> Self {
        let instance = Instance::new();
        instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
        fs::create_dir(instance.path("scripts")).expect("a directory");
        Self { instance }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.instance.path("scripts").join(name), text).expect("a script");
    }

    fn written(&self, name: &str) -> String {
        let path = self.instance.path("scripts").join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Runs a line of bash in the directory of the scripts. `sqlplus` is the program under that
    /// name, `plinth` under its own.
    fn bash(&self, script: &str) -> Finished {
        let script = format!(
            "program=$1; cd \"$2\"\n\
             plinth() {{ \"$program\" \"$@\"; }}\n\
             sqlplus() {{ (exec -a sqlplus \"$program\" \"$@\"); }}\n{script}"
        );
        shell(&script)
            .arg(binary())
            .arg(self.instance.path("scripts"))
            .env("PLINTH_DIR", self.instance.dir())
            .finish()
    }

    /// Runs a text under the name sqlplus, from a pipe.
    fn sqlplus(&self, text: &str) -> Finished {
        self.write("piped.sql", text);
        self.bash("sqlplus -S / as sysasm < piped.sql")
    }
}

/// A report as DBAs write them: from a file with an argument, with columns, breaks, sums, titles,
/// a spool file, and a variable that a query has set.
#[test]
fn a_report_is_drawn_and_spooled() {
    let story = Story::new();
    story.write(
        "report.sql",
        "set echo off verify off feedback off linesize 60 pagesize 40 trimspool on
         column dg new_value dg noprint
         select name dg from v$asm_diskgroup where name = upper('&1');
         col failgroup format a10 heading 'Failure|group'
         col name format a12
         col mb format 999,999 heading 'Size|(MB)'
         break on failgroup skip 1 on report
         compute sum label total of mb on report
         ttitle left 'Disks of &dg' skip 1
         spool disks_&dg..txt
         select failgroup, name, total_mb mb from v$asm_disk
          where group_number > 0 order by 1, 2
         /
         spool off
         exit",
    );
    let totals = story.instance.query("SELECT total_mb FROM v$asm_disk ORDER BY name");
    let total = totals[0]["total_mb"].as_u64().expect("a number");
    let line = |group: &str, name: &str, mb: &str| {
        format!("{}\n", format!("{group:<10} {name:<12} {mb:>8}").trim_end())
    };
    let expected = [
        "\nDisks of DATA\n".to_owned(),
        line("Failure", "", "Size"),
        line("group", "NAME", "(MB)"),
        line(&"-".repeat(10), &"-".repeat(12), &"-".repeat(8)),
        line("F0", "DATA_0000", &total.to_string()),
        "\n".to_owned(),
        line("F1", "DATA_0001", &total.to_string()),
        "\n".to_owned(),
        line("", "", &"-".repeat(8)),
        line("total", "", &(2 * total).to_string()),
    ]
    .concat();
    let said = story.bash("sqlplus -S / as sysasm @report data");
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said}");
    assert_eq!(said.out, expected, "{said}");
    assert_eq!(story.written("disks_DATA.txt"), said.out);
    // As plinth sql it is the same, from the first command about the layout on.
    let other = story.bash("plinth sql @report data");
    assert_eq!((other.code, other.out), (Some(0), said.out));
}

/// The usual form of a script in a shell: a here-document whose output is parsed.
#[test]
fn output_can_be_parsed() {
    let story = Story::new();
    let said = story.bash(
        "sqlplus -s / as sysasm <<EOF
set heading off feedback off pagesize 0 linesize 200 trimout on
select name || ':' || state || ':' || type from v\\$asm_diskgroup;
set colsep ','
select name, total_mb from v\\$asm_disk where group_number > 0 order by name;
exit
EOF",
    );
    let said_out = said.clone().ok();
    let lines: Vec<&str> = said_out.lines().collect();
    assert_eq!(lines[0], "DATA:MOUNTED:NORMAL", "{said}");
    assert!(lines[1].starts_with("DATA_0000,") && lines[2].starts_with("DATA_0001,"), "{said}");
    assert_eq!(lines.len(), 3, "{said}");
    let csv = story.bash(
        "plinth sql -c 'set markup csv on feedback off' -c 'select name, 1.5 half, null none from v$asm_diskgroup'",
    );
    assert_eq!(csv.clone().ok(), "\n\"NAME\",\"HALF\",\"NONE\"\n\"DATA\",1.5,\n", "{csv}");
    let query = "select name, type from v\\$asm_diskgroup";
    for (flags, rest, expected) in [
        ("-t", "", " DATA | NORMAL\n"),
        ("-A", "", "name|type\nDATA|NORMAL\n(1 row)\n"),
        ("-tAF ';'", "", "DATA;NORMAL\n"),
        ("-St -v g=DATA", " where name = '&g'", " DATA | NORMAL\n"),
    ] {
        let said = story.bash(&format!("plinth sql {flags} -c \"{query}{rest}\" 2>&1"));
        assert_eq!(said.clone().ok(), expected, "{flags}: {said}");
    }
}

/// Everything in a script is carried out, or the script ends with another code than 0.
#[test]
fn scripts_work_or_say_so() {
    let story = Story::new();
    let attribute = |value: &str| {
        let query = "SELECT value FROM v$asm_attribute WHERE name = 'disk_repair_time'";
        assert_eq!(story.instance.text(query), value.replace('h', ".0h"));
    };
    let set =
        |value: &str| format!("alter diskgroup data set attribute 'disk_repair_time' = '{value}'");
    // SET in every abbreviation ends with its line.
    let said =
        story.sqlplus(&format!("SET LIN 200\nSET TIME ON\nset hea off feed off\n{};\n", set("1h")));
    assert_eq!(said.code, Some(0), "{said}");
    attribute("1h");
    // A line that is wrong takes nothing with it.
    for (line, why) in [
        ("SET FOO 1", "SP2-0158: unknown SET option \"FOO\" (line 1)"),
        ("startup", "STARTUP is not supported"),
        ("begin\n null;\nend;\n/", "PL/SQL is not carried out: the block from line 1 to line 4"),
        ("prompt &nothing", "&nothing in line 1 has no value, and there is no terminal to ask at"),
        ("@nothing", "SP2-0310: unable to open file \"nothing.sql\""),
        ("select x from dual;", "ERROR at line 1:\nORA-00904"),
        ("desc nothing", "ORA-04043: object nothing does not exist"),
        ("foo bar", "SP2-0734"),
    ] {
        let hours = format!("{}h", line.len());
        let said = story.sqlplus(&format!("{line}\n{}\n/\n", set(&hours)));
        assert_eq!(said.code, Some(1), "{line}: {said}");
        assert!(said.out.contains(why) && said.err.is_empty(), "{line}: {said}");
        assert!(said.out.contains("\nDiskgroup altered.\n\n"), "{line}: {said}");
        attribute(&hours);
    }
    // WHENEVER stops before the next one.
    let stops = format!("whenever sqlerror exit 7\nselect x from dual;\n{};\n", set("9h"));
    assert_eq!(story.sqlplus(&stops).code, Some(7));
    let blank = format!("whenever sqlerror exit 8\n{}\n;\n", set("9h").replace(" set", "\n\nset"));
    let said = story.sqlplus(&blank);
    assert!(said.code == Some(8) && said.out.contains("a blank line ends it"), "{said}");
    let open = format!("whenever oserror exit 9\nspool /nowhere/x\n{};\n", set("9h"));
    let said = story.sqlplus(&open);
    assert!(said.code == Some(9) && said.out.contains("SP2-0606"), "{said}");
    attribute("7h");
    // A statement that the input ends is run.
    let said = story.bash(&format!("printf '%s' \"{}\" | plinth sql", set("2h")));
    assert_eq!(said.ok(), "ALTER DISKGROUP\n");
    attribute("2h");
    // -c ends at the first refusal; a pipe goes on.
    let both = format!("-c 'set foo' -c \"{}\"", set("3h"));
    assert_eq!(story.bash(&format!("plinth sql {both}")).code, Some(1));
    attribute("2h");
    let said = story.bash(&format!("printf 'set foo\\n%s;' \"{}\" | plinth sql", set("3h")));
    assert!(said.code == Some(1) && said.err.contains("SP2-0158"), "{said}");
    attribute("3h");
}

/// Variables: of a query, of the command line, of another program, and bind variables.
#[test]
fn variables_reach_statements() {
    let story = Story::new();
    story.write("inner.sql", "prompt inner &1\n");
    let said = story.sqlplus(
        "set verify off feedback off pagesize 0
         define g = data
         column number_of new_value n
         select 40 + count(*) number_of from v$asm_diskgroup where name = upper('&g');
         @inner &n
         variable b varchar2(10)
         exec :b := lower('D') || 'isks'
         select :b || ' ' || &n || ' :b' from dual;
         host exit 3
         prompt host &_rc
         set define off
         select 'R&D' from dual;",
    );
    let expected = "        41\ninner 41\ndisks 41 :b\nhost 3\nR&D\n";
    assert_eq!((said.code, said.out.as_str()), (Some(0), expected), "{said}");
    let answers = "accept g prompt 'Group: '\nset feedback off pagesize 0 verify off\n\
                   select name from v$asm_diskgroup where name = '&g';\nexit";
    story.write("asks.sql", answers);
    let said = story.bash("echo DATA | sqlplus -S / as sysasm @asks");
    assert_eq!(said.clone().ok(), "DATA\n", "{said}");
}

/// A reader that goes away changes no exit code, and stops no script.
#[test]
fn a_closed_pipe_is_no_failure() {
    let story = Story::new();
    for (script, code) in [
        ("plinth sql -c 'select x from dual' 2>&1 | true; exit ${PIPESTATUS[0]}", 1),
        ("plinth sql -c 'select 1' 2>&1 | true; exit ${PIPESTATUS[0]}", 0),
        ("plinth lsdg nosuch 2>&1 | true; exit ${PIPESTATUS[0]}", 1),
        ("plinth sql -c 'alter diskgroup data check' 2>&1 | true; exit ${PIPESTATUS[0]}", 0),
        ("printf 'select x;\\nexit 5' | sqlplus -S / 2>&1 | true; exit ${PIPESTATUS[1]}", 5),
    ] {
        let said = story.bash(&format!("set +e\n{script}"));
        assert_eq!(said.code, Some(code), "{script}: {said}");
    }
    let said = story.bash(
        "set +e; printf 'prompt a\\nspool end\\nprompt b\\n' | plinth sql | true; cat end.lst",
    );
    assert_eq!(said.clone().ok(), "b\n", "{said}");
}

/// The command line of sqlplus.
#[test]
fn sqlplus_is_called_as_usual() {
    let story = Story::new();
    story.write("one.sql", "prompt one &1\n");
    for (call, code, out) in [
        ("sqlplus -V", 0, "Plinth"),
        ("sqlplus -S -L '/ as sysasm' @one x", 0, "one x\n"),
        ("sqlplus -S sys/secret as sysasm @one.sql x </dev/null", 0, "one x\n"),
        ("sqlplus -L -S sys/secret@localhost:1521/+ASM as sysdba @one x </dev/null", 0, "one x\n"),
        ("sqlplus -F -S '/as sysdba' @one x </dev/null", 0, "one x\n"),
        ("printf 'select 1;' | sqlplus -S /nolog", 1, "SP2-0640: Not connected"),
        ("printf 'connect / as sysasm\\nshow user' | sqlplus -S /nolog", 0, "USER is \"ROOT\"\n"),
        ("printf 'host ls' | sqlplus -S -R 1 /", 1, "SP2-0738"),
        ("printf 'select 1 one;' | sqlplus -S -M 'CSV ON' /", 0, "\"ONE\"\n1\n"),
        ("printf 'select 1 one;' | sqlplus /", 0, "\n       ONE\n----------\n         1\n\n"),
    ] {
        let said = story.bash(call);
        assert!(said.code == Some(code) && said.out.contains(out), "{call}: {said}");
    }
    for (call, why) in [
        ("sqlplus scott/tiger", "CONNECT with a password is not supported"),
        ("sqlplus -S sys/secret@db1/+ASM as sysdba @one x", "CONNECT with @ names an instance"),
        ("sqlplus -X", "sqlplus has no option -X"),
        ("plinth sql one.sql", "is no script"),
    ] {
        let said = story.bash(call);
        assert!(said.code == Some(2) && said.err.contains(why), "{call}: {said}");
    }
    let nowhere = story.bash("PLINTH_DIR=/nowhere sqlplus -S / @one x");
    assert!(nowhere.code == Some(1) && nowhere.err.contains("ASMCMD-8102"), "{nowhere}");
}

/// The files that a script writes and reads: a statement, the settings, a document, the profile.
#[test]
fn files_are_written_and_read() {
    let story = Story::new();
    let said = story.sqlplus(
        "set feedback off pagesize 0
select name
  from v$asm_diskgroup;
save kept
save kept
store set settings
set pagesize 14
select 1 from dual where 1 = 0;
get kept nolist
@settings
/",
    );
    let file = "select name\n  from v$asm_diskgroup\n/\n";
    assert_eq!(story.written("kept.sql"), file);
    assert!(story.written("settings.sql").contains("set pagesize 0\n"));
    let expected = "DATA\nCreated file kept.sql\n\
                    SP2-0540: File \"kept.sql\" already exists. (line 5)\n  SAVE kept.sql REPLACE writes it anew\n\
                    Created file settings.sql\nDATA\n";
    assert_eq!((said.code, said.out.as_str()), (Some(1), expected), "{said}");
    // A job that mails its output.
    let said = story.bash("sqlplus -S -M 'HTML ON' / as sysasm @kept </dev/null > mail.html");
    assert_eq!(said.code, Some(0), "{said}");
    let mail = story.written("mail.html");
    assert!(mail.starts_with("<!DOCTYPE html>\n<html>\n"), "{mail}");
    assert!(mail.contains("<td>\nDATA\n</td>\n") && mail.ends_with("</body>\n</html>\n"), "{mail}");
    // The profile comes from ORACLE_PATH, and not from the current folder.
    story.write("login.sql", "set heading off feedback off\n");
    let query = "printf 'select name from v$asm_diskgroup;' | ";
    let here = story.bash(&format!("{query} sqlplus -S /"));
    assert_eq!(here.ok(), "\nNAME\n----\nDATA\n\n");
    let there = story.bash(&format!("{query} ORACLE_PATH=$PWD sqlplus -S /"));
    assert_eq!(there.ok(), "\nDATA\n");
}
