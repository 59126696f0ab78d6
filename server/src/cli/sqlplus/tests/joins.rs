//! Random scripts: client commands and statements in any order, on lines of their own or of
//! several, ended in every way. The server gets the statements, each alone and whole, in their
//! order; or something was refused, and the exit code is not 0.

use super::*;
use proptest::prelude::*;

/// A piece of a script.
#[derive(Debug, Clone)]
enum Piece {
    /// A line that only the client sees.
    Client(String),
    /// A statement, and how it ends.
    Statement(String, &'static str),
    Comment(&'static str),
}

fn client() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "SET LINESIZE 200",
        "set lin 200 pages 50",
        "SET HEA OFF",
        "set feed off;",
        "SET TIME ON",
        "set timi on",
        "SET SERVEROUTPUT ON SIZE 1000",
        "col name format a30",
        "COLUMN x HEADING 'it''s; a|b' -\n  FORMAT 999",
        "BREAK ON report ON x SKIP 1",
        "bre on a",
        "COMPUTE sum LABEL 'select 1;' OF x ON report",
        "ttitle 'a; b' off",
        "TTI OFF",
        "prompt it's a select 1;",
        "PROMPT",
        "pro -----",
        "rem select 1; it's -",
        "REMARK",
        "spool x",
        "spo off",
        "define a = 'b;c'",
        "undef a",
        "variable n number",
        "var t varchar2(10)",
        "whenever sqlerror continue",
        "WHENEVER OSERROR CONTINUE -\n ROLLBACK;",
        "clear columns",
        "CL BRE",
        "show user",
        "sho lines",
        "pause",
        "host echo 'select 1;'",
        "!ls; select 1",
        "timing start x",
        "connect / as sysasm",
        "exec :n := 5",
        "print n",
        "desc x",
    ])
    .prop_map(str::to_owned)
}

fn statement() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        " 1",
        " ';'",
        " 'it''s'",
        " \"a;b\"",
        "\nfrom x",
        " -- a; b\n, 1",
        " /* ; ' */ ",
        "\nset",
        "\ncol a",
        "\nbreak",
        " '\n/\n'",
        " $$;$$",
        "\nundef x",
        " v$asm_disk",
        " '&'",
        " 2 -\n1",
    ]);
    let first = prop::sample::select(vec![
        "select",
        "SELECT",
        "with",
        "alter diskgroup data",
        "create diskgroup d",
        "(select",
        "values",
        "commit",
        "set a.b =",
    ]);
    (first, prop::collection::vec(part, 0..5))
        .prop_map(|(first, parts)| format!("{first} 0{}", parts.concat()))
}

fn piece() -> impl Strategy<Value = Piece> {
    let end =
        prop::sample::select(vec![";\n", "; ", " ;\n", "\n/\n", "\n;\n", ";;\n", "; -- done\n"]);
    prop_oneof![
        4 => client().prop_map(Piece::Client),
        4 => (statement(), end).prop_map(|(text, end)| Piece::Statement(text, end)),
        1 => prop::sample::select(vec!["-- select 1;\n", "/* select 1;\n/\n*/\n", "\n", "  \n"])
            .prop_map(Piece::Comment),
    ]
}

/// The script, and the statements in it.
fn script(pieces: &[Piece]) -> (String, Vec<String>) {
    let (mut text, mut statements) = (String::new(), Vec::new());
    for piece in pieces {
        match piece {
            Piece::Client(line) => {
                text.push_str(line);
                text.push('\n');
                if line == "desc x" {
                    statements.push("SELECT * FROM \"x\" WHERE 1 = 0".to_owned());
                }
            }
            Piece::Statement(statement, end) => {
                text.push_str(statement);
                text.push_str(end);
                statements.push(statement.trim_end().to_owned());
            }
            Piece::Comment(comment) => text.push_str(comment),
        }
    }
    (text, statements)
}

/// A line that is refused, and nothing but this line.
fn wrong() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "set foo 1",
        "SET LINES",
        "set lin 9 foo",
        "column x format",
        "COL x FOO 'a;b'",
        "break a",
        "compute sum",
        "startup",
        "shutdown immediate",
        "recover automatic;",
        "@missing a b",
        "start missing",
        "spool /nowhere/x",
        "exec dbms_output.put_line('a;')",
        "exit 1 2",
        "whenever foo exit",
        "connect scott/tiger",
        "accept x",
        "define x",
        "print nosuch",
        "clear foo",
        "prompt &nosuch",
        "select '&nosuch'; select bad;",
        "begin null; end;\n/",
        "declare\n x number;\nbegin\n\n null;\nend;\n/",
        "\\dt",
        "edit",
        "save x foo",
        "store x",
        "title 'bad'",
    ])
    .prop_map(str::to_owned)
}

/// Beginnings and ends of lines that mean something.
fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "set",
        "set null",
        "set numf",
        "set define",
        "set sqlt",
        "set colsep",
        "set sqlprompt",
        "column a format",
        "column a heading",
        "break on",
        "compute sum of a on",
        "ttitle",
        "ttitle left",
        "btitle col 5",
        "define a =",
        "define",
        "accept",
        "prompt &",
        "prompt &&a",
        "variable",
        "exec :a :=",
        "print",
        "@",
        "@@",
        "spool",
        "host",
        "exit",
        "whenever",
        "show",
        "connect",
        "select",
        "select &a",
        "select :a",
        "begin",
        "create",
        "/*",
        "*/",
        "--",
        "'",
        "\"",
        "$$",
        "q'",
        "E'\\",
        ";",
        "/",
        ".",
        "-",
        "",
        "&",
        "^",
        "é",
        "timing",
        "desc",
        "doc",
        "#",
    ])
    .prop_map(str::to_owned)
}

/// Whether a client command may be refused: it names a variable that the script has not declared.
fn may_be_refused(pieces: &[Piece]) -> bool {
    pieces.iter().any(|piece| {
        matches!(piece, Piece::Client(line) if line.starts_with("exec") || line.starts_with("print"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_statement_is_sent_alone_and_whole(pieces in prop::collection::vec(piece(), 0..12)) {
        let (text, statements) = script(&pieces);
        for is_sqlplus in [false, true] {
            let stage = Stage::new(is_sqlplus).run(&text);
            prop_assert_eq!(&stage.server.statements, &statements, "{}\n{}", text, stage.all());
            prop_assert!(stage.code == 0 || may_be_refused(&pieces), "{}\n{}", text, stage.all());
        }
    }

    /// A line that is refused takes nothing with it, and the script does not end with 0.
    #[test]
    fn a_refused_line_takes_nothing_with_it(
        before in prop::collection::vec(piece(), 0..4),
        wrong in wrong(),
        after in prop::collection::vec(piece(), 0..4),
    ) {
        let (first, mut statements) = script(&before);
        let (second, others) = script(&after);
        statements.extend(others);
        let text = format!("{first}\n{wrong}\n{second}");
        for is_sqlplus in [false, true] {
            let stage = Stage::new(is_sqlplus).run(&text);
            let sent = &stage.server.statements;
            let sent: Vec<&String> = sent.iter().filter(|one| !one.contains("bad")).collect();
            prop_assert_eq!(sent, statements.iter().collect::<Vec<_>>(), "{}\n{}", text, stage.all());
            prop_assert!(stage.code != 0, "{}\n{}", text, stage.all());
        }
    }

    /// No line ends the program with a panic, whatever stands in it.
    #[test]
    fn any_line_is_carried_out_or_refused(
        words in prop::collection::vec((word(), any::<String>(), word()), 1..6),
    ) {
        let text: String = words.iter().map(|(one, any, two)| format!("{one} {any}{two}\n")).collect();
        for is_sqlplus in [false, true] {
            Stage::new(is_sqlplus).run(&text);
        }
    }

    /// A script that lacks a line and its end: where a statement is missing, the code says so.
    #[test]
    fn a_script_that_is_cut_loses_nothing_in_silence(
        pieces in prop::collection::vec(piece(), 1..8),
        at in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let (text, statements) = script(&pieces);
        let lines: Vec<&str> = text.lines().collect();
        prop_assume!(!lines.is_empty());
        // A line is lost somewhere, and the script ends early. Without a mark of a string or a
        // comment, what stands behind it would be read otherwise, so such a line is not lost.
        let marks = ["'", "\"", "$", "/*", "*/"];
        let is_plain = |line: &&str| !marks.iter().any(|mark| line.contains(mark));
        let plain: Vec<usize> =
            lines.iter().enumerate().filter(|(_, line)| is_plain(line)).map(|(at, _)| at).collect();
        let lost = if plain.is_empty() { usize::MAX } else { plain[at.index(plain.len())] };
        let end = cut.index(lines.len()) + 1;
        let kept: Vec<&str> = lines
            .iter()
            .take(end)
            .enumerate()
            .filter(|(number, _)| *number != lost)
            .map(|(_, line)| *line)
            .collect();
        let stage = Stage::new(true).run(&kept.join("\n"));
        // Each statement that stands whole in lines that are left is sent, perhaps as a part of one
        // whose end is lost; or something was refused.
        let left = kept.join("\n");
        for statement in statements {
            let is_whole = left.matches(statement.as_str()).count() == 1
                && text.matches(statement.as_str()).count() == 1;
            let is_sent = stage.server.statements.iter().any(|sent| sent.contains(&statement));
            prop_assert!(
                !is_whole || is_sent || stage.code != 0,
                "{}\nis missing in\n{}\n{}", statement, left, stage.all()
            );
        }
    }
}

/// The command ends at its semicolon, so a dash at the end of the line is a minus.
#[test]
fn a_dash_behind_a_semicolon_belongs_to_the_statement() {
    let stage = Stage::new(true).run("break; select 3 -\n1 from dual;\n");
    assert_eq!(stage.server.statements, ["select 3 -\n1 from dual"], "{}", stage.all());
}
