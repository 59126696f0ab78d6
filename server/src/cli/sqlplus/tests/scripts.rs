//! Scripts as DBAs write them: what is sent, what is printed, and how they end.

use super::*;

/// A script under the name sqlplus, and as `plinth sql`: what is sent is the same.
#[track_caller]
fn sends(text: &str, statements: &[&str]) {
    for stage in [Stage::sqlplus(), Stage::plinth()] {
        let stage = stage.run(text);
        stage.sends(statements);
        stage.ends(0);
    }
}

#[track_caller]
fn refuses(text: &str, statements: &[&str], why: &str) {
    for stage in [Stage::sqlplus(), Stage::plinth()] {
        let stage = stage.run(text);
        stage.sends(statements);
        stage.ends(1);
        stage.says(why);
    }
}

#[test]
fn statements_are_sent_one_at_a_time() {
    sends(
        "select 1; select 2;\nselect\n 3\n/\nselect 4",
        &["select 1", "select 2", "select\n 3", "select 4"],
    );
    sends("set lin 200 pages 0\nrem it's\nprompt ;\nselect 1;\nexit\nselect 2;", &["select 1"]);
    sends("set search_path = 'x';\nselect 1;", &["set search_path = 'x'", "select 1"]);
    sends("whenever sqlerror exit 5 -\n rollback\nselect 1\n/", &["select 1"]);
}

#[test]
fn what_cannot_be_carried_out_is_refused_by_its_line() {
    refuses(
        "prompt a\nset foo 1\nselect 1;",
        &["select 1"],
        "SP2-0158: unknown SET option \"foo\" (line 2)",
    );
    refuses(
        "startup\nselect 1;",
        &["select 1"],
        "STARTUP is not supported: the instance is started",
    );
    refuses(
        "begin\n null;\nend;\n/\nselect 1;",
        &["select 1"],
        "PL/SQL is not carried out: the block from line 1 to line 4",
    );
    refuses("begin null; end;\nselect 1;", &[], "to line 2, the end of the input");
    refuses(
        "exec dbms_x.y\nselect 1;",
        &["select 1"],
        "EXECUTE dbms_x.y: PL/SQL is not carried out",
    );
    refuses(
        "@missing a\nselect 1;",
        &["select 1"],
        "SP2-0310: unable to open file \"missing.sql\"",
    );
    refuses("\\dt\nselect 1;", &["select 1"], "\\dt is a command of psql");
    refuses("/* open\nselect 1;", &[], "a comment has no end");
    refuses("doc\nselect 1;", &[], "DOCUMENT has no end");
    refuses(
        "column x format z\nselect 1;",
        &["select 1"],
        "SP2-0246: Illegal FORMAT string \"z\" (line 1)",
    );
    refuses(
        "spool /nowhere/x\nselect 1;",
        &["select 1"],
        "SP2-0606: Cannot create SPOOL file \"/nowhere/x.lst\"",
    );
    let stage = Stage::sqlplus().run("foo bar\nfoo\nselect 1\n\nfrom x;\nselect 2;");
    stage.sends(&["select 2"]);
    stage.says(
        "SP2-0734: unknown command beginning \"foo bar...\" - rest of line ignored. (line 1)",
    );
    stage.says("SP2-0042: unknown command \"foo\" - rest of line ignored. (line 2)");
    stage.says("the statement at line 3 was not run: a blank line ends it");
    stage.ends(1);
    // As plinth sql the server refuses it, and only this line.
    let stage = Stage::plinth().run("foo bad\nselect 1\n\nfrom x;");
    stage.sends(&["foo bad", "select 1\n\nfrom x"]);
    stage.ends(1);
}

#[test]
fn variables_come_from_everywhere() {
    sends("define t = dual\nselect '&t' from &t;", &["select 'dual' from dual"]);
    sends("define a = 'b c'\nprompt &a.x\ndefine d = &a\nselect '&d..e';", &["select 'b c.e'"]);
    sends("set define off\nselect '&x' from dual;", &["select '&x' from dual"]);
    sends("set escape on\nselect 'a\\&b';", &["select 'a&b'"]);
    sends("select 'R & D', 'a&&' -- &x\n;", &["select 'R & D', 'a&&' -- &x"]);
    sends("column one new_value n\nselect 5;\nselect &n;", &["select 5", "select 1"]);
    sends("host ls\nselect &_rc;", &["select 3"]);
    sends("define c = prompt\n&c hello\nselect 1;", &["select 1"]);
    let stage = Stage::plinth()
        .file("a.sql", "select '&1', '&2';\n@@b x\n")
        .file("b.sql", "select '&1';\n")
        .script("a", &["DATA", "two words"])
        .run("");
    stage.sends(&["select 'DATA', 'two words'", "select 'x'"]);
    stage.ends(0);
    let mut stage = Stage::plinth();
    stage.start.defines = vec![("dg".to_owned(), "DATA".to_owned())];
    stage.run("select '&DG';").sends(&["select 'DATA'"]);
}

#[test]
fn a_variable_without_a_value_is_asked_for_or_refused() {
    let why = "&x in line 2 has no value, and there is no terminal to ask at\n";
    refuses("select 1\n, '&x';\nselect 2;", &["select 2"], why);
    refuses("prompt &x\nselect 2;", &["select 2"], "&x in line 1 has no value");
    refuses("select &1;", &[], "give the script 1 arguments");
    let stage = Stage::sqlplus().file("a.sql", "\nselect 1\n, &x;").run("@a");
    stage.says("&x in line 3 has no value, and there is no terminal to ask at (a.sql, line 2)\n");
    // A script that is no standard input itself takes its answers from there, as ACCEPT does.
    let mut stage = Stage::sqlplus().file("a.sql", "set verify off\nselect &x, &&y, &y;");
    stage.world.answers = ["5", "6"].map(str::to_owned).into();
    let stage = stage.script("a", &[]).run("");
    stage.sends(&["select 5, 6, 6"]);
    stage.ends(0);
    let mut stage = Stage::plinth();
    stage.world.is_terminal = true;
    stage.world.answers = ["5", "6", "7"].map(str::to_owned).into();
    let stage = stage.run("select &x, &&y;\nselect &x, &y;");
    stage.sends(&["select 5, 6", "select 7, 6"]);
    assert_eq!(
        stage.world.questions,
        ["Enter value for x: ", "Enter value for y: ", "Enter value for x: "]
    );
}

/// A blank line puts a statement into the buffer; a `/` behind it runs it.
#[test]
fn a_statement_that_a_blank_line_ends_is_run_by_a_slash_or_refused() {
    let why = "the statement at line 1 was not run: a blank line ends it, and no / runs it";
    for (text, sent) in [
        ("select 1\nfrom x\n\n/\nselect 2;", vec!["select 1\nfrom x", "select 2"]),
        ("select 1\n\n\nprompt x\nset lines 90\n-- c\n/", vec!["select 1"]),
        ("select 1\n\nrun\n/", vec!["select 1", "select 1"]),
        ("define s = '/'\nselect 1\n\n&s", vec!["select 1"]),
    ] {
        let stage = Stage::sqlplus().run(text);
        stage.sends(&sent);
        stage.ends(0);
    }
    for (text, sent) in [
        ("select 1\n\n", vec![]),
        ("select 1\n\nprompt x", vec![]),
        ("select 1\n\nselect 2;", vec!["select 2"]),
        ("select 1\n\nselect 2\n\n/", vec!["select 2"]),
        ("select 1\n\nbegin\nx;\nend;\n/\n/", vec![]),
        // Its other half is no command, so what is in the buffer is a part: it is not run.
        ("alter x drop y\n\nand z\n/", vec![]),
        ("select 1\n\nexit", vec![]),
    ] {
        let stage = Stage::sqlplus().run(text);
        stage.sends(&sent);
        stage.says(why);
        stage.ends(1);
    }
    let stops = "whenever sqlerror exit 7\nselect 1\n\nprompt x\nselect 2;";
    let stage = Stage::sqlplus().run(stops);
    stage.sends(&[]);
    stage.ends(7);
    // The statement before it is not run once more.
    let stage = Stage::sqlplus().run("select 0;\nselect 1\n\nfrom x\n/");
    stage.sends(&["select 0"]);
    // A script that ends so says it itself.
    let stage = Stage::sqlplus().file("a.sql", "select 1\n\n").run("@a\nselect 2;");
    stage.sends(&["select 2"]);
    stage.says("runs it (a.sql, line 1)");
}

/// A block of assignments does what EXECUTE does; every other block is PL/SQL.
#[test]
fn a_block_of_assignments_is_carried_out() {
    let text = "variable n number\nvariable t varchar2(9)\ndefine d = x\n\
        begin\n  :n := 2 ;\n  :t := '&d;';\nend ;\n/\nselect :n, :t;";
    let stage = Stage::sqlplus().run(&format!("set verify off\n{text}"));
    stage.sends(&["select 2, 'x;'"]);
    stage.says("PL/SQL procedure successfully completed.");
    stage.ends(0);
    for block in [
        "begin\n :n := 1; drop_all;\nend;\n/",
        "begin\n if 1 = 1 then :n := 1; end if;\nend;\n/",
        "begin\n null;\nend;\n/",
    ] {
        let stage = Stage::sqlplus().run(&format!("variable n number\nselect 1;\n{block}\n/"));
        stage.says("PL/SQL is not carried out");
        stage.ends(1);
        // Nor is the statement before it run once more.
        stage.sends(&["select 1"]);
    }
}

/// A value cannot make a second statement of one.
#[test]
fn values_stay_within_their_statement() {
    refuses("define x = '1; select 2'\nselect &x;", &[], "more than one statement");
    sends("define x = '1;'\nselect &x;", &["select 1"]);
    sends("define x = '1; select 2'\nselect '&x';", &["select '1; select 2'"]);
}

#[test]
fn accept_takes_answers_that_are_no_lines_of_the_script() {
    let mut stage = Stage::sqlplus()
        .file(
            "a.sql",
            "accept g prompt 'Group: '\naccept n number default 3\nset ver off\nselect '&g', &n;",
        )
        .script("a", &[]);
    stage.world.answers = ["DATA", ""].map(str::to_owned).into();
    let stage = stage.run("");
    stage.sends(&["select 'DATA', 3"]);
    assert_eq!(stage.world.questions, ["Group: ", ""]);
    refuses("accept x\nselect 1;", &["select 1"], "ACCEPT x gets no answer");
    sends("accept x default y\nset ver off\nselect '&x';", &["select 'y'"]);
}

#[test]
fn bind_variables_are_literals_in_statements() {
    sends(
        "var n number\nexec :n := -5\nselect :n, ':n' from dual;",
        &["select (-5), ':n' from dual"],
    );
    sends("var t varchar2(10)\nexec :t := 'it''s'\nselect :t;", &["select 'it''s'"]);
    sends(
        "variable n number\nexec :n := 1 + 1\nselect :n;",
        &["SELECT 1 + 1 FROM dual", "select 1"],
    );
    refuses(
        "exec :x := 1\nselect 1;",
        &["select 1"],
        "SP2-0552: Bind variable \"X\" not declared.",
    );
    let stage = Stage::sqlplus().run("select :x;");
    stage.sends(&[]);
    stage.ends(1);
    let stage = Stage::sqlplus().run("var n number\nset autoprint on\nexec :n := 5");
    assert!(stage.world.out.starts_with("\nPL/SQL procedure"), "{}", stage.world.out);
    assert!(stage.world.out.ends_with("         5\n\n"), "{}", stage.world.out);
    let stage = Stage::sqlplus().run("var n number\nexec :n := 5\nprint n");
    assert_eq!(
        stage.world.out,
        "\nPL/SQL procedure successfully completed.\n\n\n         N\n----------\n         5\n\n"
    );
}

#[test]
fn a_script_ends_with_the_code_that_it_names() {
    for (text, code) in [
        ("select 1;", 0),
        ("select bad;", 1),
        ("select bad;\nexit", 1),
        ("select bad;\nexit 0", 0),
        ("select bad;\nexit success", 0),
        ("exit 7", 7),
        ("exit failure", 1),
        ("exit warning", 2),
        ("exit 256", 1),
        ("define r = 9\nexit r", 9),
        ("var r number\nexec :r := 8\nexit :r", 8),
        ("exit nosuch", 1),
        ("select bad;\nexit sql.sqlcode", (942 % 256) as u8),
        ("whenever sqlerror exit 4\nselect bad;\nexit 0", 4),
        ("whenever sqlerror exit\nselect bad;\nexit 0", 1),
        ("whenever sqlerror exit sql.sqlcode\nselect bad;", (942 % 256) as u8),
        ("whenever sqlerror exit 4\nset foo\nexit 0", 0),
        ("whenever sqlerror exit 4\nbegin null; end;\n/\nexit 0", 4),
        ("whenever sqlerror exit 4\nselect '&x';\nexit 0", 4),
        ("whenever oserror exit 6\n@missing\nexit 0", 6),
        ("whenever oserror exit 6\nhost nothing\nexit 0", 6),
        ("whenever sqlerror exit 4\nwhenever sqlerror continue\nselect bad;\nexit 0", 0),
        ("set foo 1", 1),
        ("exit 1 2 3\nexit 5", 5),
    ] {
        for stage in [Stage::sqlplus(), Stage::plinth()] {
            stage.run(text).ends(code);
        }
    }
    // -c ends at the first refusal, whatever it is.
    let mut stage = Stage::plinth();
    stage.start.stops = true;
    stage.start.inputs = ["select 1; select bad; select 2", "select 3"]
        .map(|text| Input::Text(text.to_owned()))
        .into();
    let stage = stage.run("");
    stage.sends(&["select 1", "select bad"]);
    stage.ends(1);
}

/// Refusals that a user at a terminal has seen do not change the exit code.
#[test]
fn refusals_at_a_terminal_are_seen() {
    let mut stage = Stage::plinth();
    stage.world.is_terminal = true;
    stage.run("select bad;\nset foo").ends(0);
    let mut stage = Stage::plinth().file("a.sql", "select bad;").script("a", &[]);
    stage.world.is_terminal = true;
    stage.run("").ends(1);
    // A statement that is not ended is dropped at its end.
    let mut stage = Stage::plinth();
    stage.world.is_terminal = true;
    stage.run("drop diskgroup data").sends(&[]);
    // A cancelled statement ends the scripts that run it.
    let mut stage = Stage::plinth().file("a.sql", "select 'cancelled';\nselect 2;");
    stage.world.is_terminal = true;
    stage.run("@a\nselect 3;").sends(&["select 'cancelled'", "select 3"]);
}

#[test]
fn the_last_statement_is_run_again() {
    let stage = Stage::sqlplus().run("select 1;\n/\nlist\nrun\nset lines 100\n/");
    stage.sends(&["select 1", "select 1", "select 1", "select 1"]);
    stage.says("  1* select 1\n");
    let stage = Stage::plinth().run("select 1;\n/\nrun");
    stage.sends(&["select 1", "select 1"]);
    let stage = Stage::sqlplus().run("/");
    stage.says("SP2-0103: Nothing in SQL buffer to run. (line 1)");
    stage.ends(1);
    let stage = Stage::sqlplus().run("select 1\n.\n/");
    stage.sends(&["select 1"]);
}

/// Five names, and one that is six characters long.
fn names(count: usize) -> Table {
    let rows = (0..count).map(|number| vec![Value::Text(format!("DATA_{number}"))]).collect();
    table(&[("name", Type::Text)], rows)
}

#[test]
fn results_look_like_psql_until_the_layout_is_set() {
    let stage = Stage::plinth().table("select n", names(1));
    let stage = stage.run("select n;\nset feedback 6\nselect n;\nalter diskgroup x;");
    assert_eq!(
        stage.world.out,
        " name\n--------\n DATA_0\n(1 row)\n\nNAME\n------\nDATA_0\n\n\nDiskgroup altered.\n\n"
    );
    let stage =
        Stage::plinth().run("set timing on\nset echo off\ndefine x = 1\nalter diskgroup x;");
    assert_eq!(stage.world.out, "ALTER DISKGROUP\nElapsed: 00:00:00.00\n");
    // Listing a layout does not set one.
    let stage = Stage::plinth().run("break\nalter diskgroup x;");
    assert_eq!(stage.world.out, "no break(s) defined\nALTER DISKGROUP\n");
    let mut stage = Stage::plinth().table("select n", names(2));
    stage.start.look = Look::Psql { only_rows: true, unaligned: Some("|".to_owned()) };
    assert_eq!(
        stage.run("select n;\ncol name format a10\nselect n;").world.out,
        "DATA_0\nDATA_1\nDATA_0\nDATA_1\n"
    );
    let mut stage = Stage::plinth().table("select n", names(1));
    stage.start.look = Look::Json;
    let stage = stage.run("set pages 0\nselect n;\nalter diskgroup x;");
    assert_eq!(stage.world.out, "[\n  {\n    \"name\": \"DATA_0\"\n  }\n]\n");
}

#[test]
fn results_look_like_sqlplus() {
    let stage = Stage::sqlplus()
        .table("select n", names(6))
        .table("select none", names(0))
        .table("select \"name\"", names(1))
        .run("select none;\nselect n;\nselect \"name\";\nset pages 0 feedback off\nselect n;\nselect none;\ndrop diskgroup x;");
    let rows: String = (0..6).map(|number| format!("DATA_{number}\n")).collect();
    assert_eq!(
        stage.world.out,
        format!(
            "\nno rows selected\n\n\nNAME\n------\n{rows}\n6 rows selected.\n\n\nname\n------\nDATA_0\n\n{rows}"
        )
    );
    let stage = Stage::sqlplus()
        .table("select n", names(1))
        .run("set feedback only\nselect n;\nset markup csv on feedback 1\nselect n;");
    assert_eq!(
        stage.world.out,
        "\n1 row selected.\n\n\n\"NAME\"\n\"DATA_0\"\n\n1 row selected.\n\n"
    );
}

#[test]
fn refusals_look_like_sqlplus() {
    let stage = Stage::sqlplus().run("select 1\nfrom bad;\nset foo 1");
    assert_eq!(
        stage.world.out,
        "from bad\n     *\nERROR at line 2:\nORA-00942: no view bad\n\n\nSP2-0158: unknown SET option \"foo\" (line 3)\n"
    );
    assert_eq!(stage.world.err, "");
    let stage = Stage::plinth().run("\nselect 1\nfrom bad;\nset foo 1");
    assert_eq!(stage.world.out, "");
    assert_eq!(
        stage.world.err,
        "plinth: no view bad\n  (NoSuchView, which Oracle calls ORA-00942)\nLINE 3: from bad\n             ^\n\
         SP2-0158: unknown SET option \"foo\" (line 4)\n"
    );
    let stage = Stage::plinth().file("a.sql", "\nselect bad;\nset foo").run("@a");
    stage.says("plinth: no view bad (a.sql, line 2)\n");
    stage.says("LINE 2: select bad\n");
    stage.says("SP2-0158: unknown SET option \"foo\" (a.sql, line 3)\n");
    stage.ends(1);
}

#[test]
fn old_and_new_lines_are_shown() {
    let script = "define t = dual\nselect 1\nfrom &t;";
    let shown = "old   2: from &t\nnew   2: from dual\n";
    assert!(Stage::sqlplus().run(script).world.out.starts_with(shown));
    assert!(!Stage::plinth().run(script).world.out.contains("old"));
    let quiet = format!("set verify off\n{script}");
    assert!(!Stage::sqlplus().run(&quiet).world.out.contains("old"));
}

#[test]
fn a_spool_file_gets_all_output() {
    let stage = Stage::sqlplus().table("select n", names(1)).run(
        "set feedback off lines 10\nspool x\nselect n;\nset trims on\nprompt hi\nselect bad;\nspool off\nprompt no",
    );
    let expected = format!(
        "{}\n{:<10}\n{:<10}\n{:<10}\nhi\nselect bad\n       *\nERROR at line 1:\nORA-00942: no view bad\n\n\n",
        " ".repeat(10),
        "NAME",
        "------",
        "DATA_0"
    );
    assert_eq!(stage.world.files[Path::new("x.lst")], expected);
    let stage = Stage::sqlplus()
        .file("x.log", "before\n")
        .run("spool x.log append\nprompt a\nspool off\nspool x.log create\nprompt b");
    assert_eq!(stage.world.files[Path::new("x.log")], "before\na\n");
    stage.says("SP2-0606: Cannot create SPOOL file \"x.log\"");
    stage.ends(1);
    let mut stage = Stage::plinth();
    stage.world.is_full = true;
    let stage = stage.run("spool x\nprompt a\nprompt b");
    stage.says("cannot write SPOOL file \"x.lst\"");
    stage.says("a\n");
    stage.ends(1);
}

/// TERMOUT OFF silences a script, but no refusal of it, and not what comes from a pipe.
#[test]
fn termout_silences_scripts() {
    let stage = Stage::sqlplus()
        .file("a.sql", "set termout off feedback off\nspool x\nselect n;\nselect bad;\nspool off\nset termout on\nprompt seen")
        .table("select n", names(1))
        .run("@a\nset termout off\nprompt pipe");
    assert_eq!(stage.world.out, "seen\npipe\n");
    assert!(stage.world.err.contains("ORA-00942"), "{}", stage.world.err);
    assert!(stage.world.files[Path::new("x.lst")].contains("DATA_0"));
    stage.ends(1);
}

#[test]
fn scripts_call_scripts() {
    let mut stage = Stage::plinth()
        .file("/s/a.sql", "@@b\n@c\nselect 'a'")
        .file("/s/b.sql", "select 'b'\n/\n")
        .file("/lib/c.sql", "select 'c'; exit\nselect 'd';");
    stage.world.environment.insert("SQLPATH".to_owned(), "/none:/lib".to_owned());
    stage.world.environment.insert("HERE".to_owned(), "/s".to_owned());
    let stage = stage.run("start $HERE/a\nselect 'e';");
    stage.sends(&["select 'b'", "select 'c'"]);
    let stage = Stage::plinth().file("a.sql", "@a").run("@a\nselect 1;");
    stage.says("SP2-0309: SQL*Plus command procedures may only be nested to a depth of 20.");
    stage.sends(&["select 1"]);
    stage.ends(1);
    let mut stage = Stage::plinth().file("a.sql", "select 1;");
    stage.start.restricted = 3;
    let stage = stage.run("@a\nhost ls\nspool x\nselect 2;");
    stage.sends(&["select 2"]);
    stage.says("SP2-0738: Restricted command \"START\" not available");
    assert!(stage.world.commands.is_empty());
}

#[test]
fn echo_shows_the_lines_of_a_script() {
    let mut stage = Stage::sqlplus()
        .file("a.sql", "prompt a\nalter\n x y;\nset lines -\n 90\nset echo off\nprompt b");
    stage.start.silent = false;
    let stage = stage.run("set echo on feedback off\n@a");
    assert_eq!(
        stage.world.out,
        "SQL> @a\nSQL> prompt a\na\nSQL> alter\n  2   x y;\nSQL> set lines -\n>  90\nSQL> set echo off\nb\n"
    );
}

#[test]
fn views_are_described() {
    let columns = table(&[("name", Type::Text), ("total_mb", Type::Integer)], Vec::new());
    let query = "SELECT * FROM \"v$asm_disk\" WHERE 1 = 0";
    let stage = Stage::sqlplus().table(query, columns.clone()).run("desc v$asm_disk;");
    stage.sends(&[query]);
    assert_eq!(
        stage.world.out,
        format!(
            " Name{}Null?    Type\n {} {} {}\n NAME{}VARCHAR2\n TOTAL_MB{}NUMBER\n\n",
            " ".repeat(38),
            "-".repeat(41),
            "-".repeat(8),
            "-".repeat(28),
            " ".repeat(47),
            " ".repeat(43)
        )
    );
    let stage = Stage::plinth().table(query, columns).run("describe v$asm_disk");
    assert!(stage.world.out.contains(" total_mb |       | NUMBER\n"), "{}", stage.world.out);
    refuses(
        "desc bad",
        &["SELECT * FROM \"bad\" WHERE 1 = 0"],
        "ORA-04043: object bad does not exist",
    );
    sends("desc a; drop diskgroup x", &["SELECT * FROM \"a\" WHERE 1 = 0", "drop diskgroup x"]);
}

#[test]
fn connections_are_made_and_ended() {
    sends("connect / as sysasm\nselect 1;", &["select 1"]);
    sends("conn sys/secret as sysdba;\nselect 1;", &["select 1"]);
    refuses(
        "connect scott/tiger\nselect 1;",
        &["select 1"],
        "CONNECT with a password is not supported",
    );
    refuses(
        "disconnect\nselect 1;\nconnect /\nselect 2;",
        &["select 2"],
        "SP2-0640: Not connected",
    );
    let mut stage = Stage::sqlplus();
    stage.server.is_connected = false;
    let stage = stage.run("show user\nconnect / as sysasm\nshow user");
    assert_eq!(stage.world.out, "USER is \"\"\nConnected.\nUSER is \"ROOT\"\n");
}

#[test]
fn settings_are_shown() {
    let stage = Stage::sqlplus()
        .run("set lines 132\nshow lines pagesize\nshow release\nshow errors\nshow asm_diskstring");
    stage.sends(&["show asm_diskstring"]);
    assert!(
        stage.world.out.starts_with("linesize 132\npagesize 14\nrelease 1900000000\nNo errors.\n")
    );
    let stage = Stage::sqlplus().run("show all");
    stage.says("trimspool OFF\n");
    stage.sends(&[]);
    Stage::plinth().run("show all;").sends(&["show all"]);
}

/// A column's value is kept even if there are no rows: scripts make defaults of arguments so.
#[test]
fn a_result_without_rows_defines_its_variables() {
    let query = "select '' \"1\" from dual where 1 = 0";
    let none = table(&[("1", Type::Text)], Vec::new());
    let script = format!("set ver off\ncolumn 1 new_value 1\n{query};\nselect 'x&1';");
    let stage = Stage::sqlplus().table(query, none.clone()).run(&script);
    stage.sends(&[query, "select 'x'"]);
    let stage =
        Stage::sqlplus().table(query, none).file("a.sql", &script).script("a", &["given"]).run("");
    stage.sends(&[query, "select 'xgiven'"]);
    stage.ends(0);
}

#[test]
fn bytes_that_are_not_text_are_refused_where_they_matter() {
    let stage = Stage::plinth().run("-- caf\u{fffd}\nprompt \u{fffd}\nselect 1;");
    stage.sends(&["select 1"]);
    stage.ends(0);
    let stage = Stage::plinth().run("select '\u{fffd}';");
    stage.sends(&[]);
    stage.says("the statement is not written in UTF-8");
    stage.ends(1);
}

/// Lines of CSV are not filled up, however long a line is, and keep the blanks of their values.
#[test]
fn csv_is_spooled_as_it_is() {
    let row = vec![Value::Text("DATA ".to_owned()), Value::Integer(5)];
    let disks = table(&[("name", Type::Text), ("mb", Type::Integer)], vec![row]);
    let stage = Stage::sqlplus()
        .table("select n", disks)
        .run("set feedback off markup csv on quote off\nspool x.csv\nselect n;\nspool off");
    assert_eq!(stage.world.files[Path::new("x.csv")], "\nNAME,MB\nDATA ,5\n");
    assert_eq!(stage.world.out, "\nNAME,MB\nDATA ,5\n");
    let stage = Stage::sqlplus()
        .table("select n", names(1))
        .run("col name head 'Disk|name' noprint\nset feedback off markup csv on\nselect n;");
    assert_eq!(stage.world.out, "\n\"Disk|name\"\n\"DATA_0\"\n");
}

#[test]
fn html_is_spooled_as_a_document() {
    let stage = Stage::sqlplus().table("select n", names(1)).run(
        "set feedback off markup html on spool on table ''\nspool x.html\nprompt a < b\nselect n;\nset foo 1\nspool off\nset markup html off\nprompt a < b",
    );
    let shown = "a &lt; b<br>\n<p>\n<table>\n<tr>\n<th scope=\"col\">\nNAME\n</th>\n</tr>\n<tr>\n<td>\nDATA_0\n</td>\n</tr>\n\
                 </table>\n<p>\nSP2-0158: unknown SET option &quot;foo&quot; (line 5)<br>\n";
    assert_eq!(stage.world.out, format!("{shown}a < b\n"));
    let file = &stage.world.files[Path::new("x.html")];
    assert!(file.starts_with("<!DOCTYPE html>\n<html>\n<head>\n"), "{file}");
    assert!(file.ends_with(&format!("<body>\n{shown}</body>\n</html>\n")), "{file}");
}

/// With -M "HTML ON" all that is printed is a document, up to the end of the program.
#[test]
fn the_standard_output_is_a_document_of_html() {
    let mut stage = Stage::sqlplus();
    stage.start.markup = Some("HTML ON HEAD '<title>t</title>'".to_owned());
    let stage = stage.run("prompt a\nset markup html off\nexit 3");
    assert_eq!(
        stage.world.out,
        "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n<title>t</title>\n</head>\n<body>\n\
         a<br>\n</body>\n</html>\n"
    );
    stage.ends(3);
}

#[test]
fn the_last_statement_is_changed_line_by_line() {
    let stage = Stage::sqlplus().run(
        "select a\n from dual\n.\n1\nappend , b;\nc/A,/x,/\ninput  , c\nlist\n/\ndel 2\n3 where 1 = 1;\n/\ndel 9",
    );
    stage.sends(&["select x, b\n , c\n from dual", "select x, b\n from dual\nwhere 1 = 1"]);
    stage.says("  1* select a\n  1* select a, b\n  1* select x, b\n");
    stage.says("  1  select x, b\n  2   , c\n  3*  from dual\n");
    stage.says("SP2-0226: Invalid line number (line 13)");
    stage.ends(1);
    // Without a statement, a number is what any other unknown word is.
    let stage = Stage::sqlplus().run("1 a\nappend x\nchange /a/b/");
    stage.says("SP2-0734: unknown command beginning \"1 a...\"");
    stage.says("SP2-0223: No lines in SQL buffer. (line 2)");
    stage.ends(1);
}

#[test]
fn statements_and_settings_are_kept_in_files() {
    let stage = Stage::sqlplus()
        .run("select 1\n  from dual;\nsave a\nsave a\nsave a append\nselect 2;\nget a\nsave a.sql rep\n/\nset lines 90\nstore set s\nset lines 70\n@s\nshow lines");
    assert_eq!(
        stage.world.files[Path::new("a.sql")],
        "select 1\n  from dual\n/\nselect 1\n  from dual\n/\n"
    );
    stage.says("Created file a.sql\nSP2-0540: File \"a.sql\" already exists. (line 4)\n  SAVE a.sql REPLACE writes it anew\nAppended file to a.sql\n");
    stage.says("Created file s.sql\nlinesize 90\n");
    // A file of two statements does not become one.
    stage.says("Wrote file a.sql\n");
    stage.ends(1);
    let mut stage = Stage::sqlplus();
    stage.start.restricted = 2;
    let stage = stage.run("select 1;\nsave a\nstore set a");
    assert!(stage.world.files.is_empty());
    stage.says("SP2-0738: Restricted command \"SAVE\" not available");
    stage.says("SP2-0738: Restricted command \"STORE\" not available");
    let stage = Stage::sqlplus().run("select 1;\nedit\nget nosuch\nstore a");
    stage.says("EDIT needs a terminal (line 2)");
    stage.says("SP2-0310: unable to open file \"nosuch.sql\"");
    stage.says("STORE takes SET and a file");
}

#[test]
fn the_editor_changes_the_last_statement() {
    let mut stage = Stage::sqlplus();
    stage.world.is_terminal = true;
    let stage = stage.run("select 1;\ndefine _editor = nano\nedit\n/");
    assert_eq!(stage.world.commands, ["nano 'afiedt.buf'"]);
    assert_eq!(stage.world.files[Path::new("afiedt.buf")], "select 1\n/\n");
    stage.sends(&["select 1", "select 1"]);
}

/// The user's profile is run before the script, and again behind CONNECT.
#[test]
fn the_profile_is_run_when_a_connection_was_made() {
    let profile = |stage: Stage| {
        let mut stage = stage.file("/etc/me/login.sql", "set lines 100\nprompt hello");
        stage.world.environment.insert("ORACLE_PATH".to_owned(), "/none:/etc/me".to_owned());
        stage
    };
    let stage = profile(Stage::sqlplus()).run("show lines\nset lines 80\nconnect /\nshow lines");
    assert_eq!(stage.world.out, "hello\nlinesize 100\nConnected.\nhello\nlinesize 100\n");
    let mut silent = profile(Stage::sqlplus());
    silent.start.restricted = 3;
    assert_eq!(silent.run("show lines").world.out, "linesize 80\n");
    let mut apart = profile(Stage::sqlplus());
    apart.server.is_connected = false;
    assert_eq!(apart.run("show lines").world.out, "linesize 80\n");
    assert_eq!(profile(Stage::plinth()).run("show lines").world.out, "linesize 80\n");
}
