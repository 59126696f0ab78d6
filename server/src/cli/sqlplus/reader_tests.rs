//! Lines that are read: what they say, and where each item ends.

use super::*;

const PLINTH: Rules =
    Rules { terminator: Some(';'), blank_lines: true, define: Some('&'), is_sqlplus: false };
const SQLPLUS: Rules = Rules { blank_lines: false, is_sqlplus: true, ..PLINTH };

/// All items of a text, each in one line: `>` a client command, `=` a statement, `#` a block.
fn items(text: &str, rules: &Rules) -> Vec<String> {
    let mut reader = Reader::default();
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut rest = Some(line.to_owned());
        while let Some(line) = rest.take() {
            let (item, behind) = reader.feed(&line, number + 1, rules);
            found.extend(item);
            rest = behind;
        }
    }
    found.extend(reader.end());
    found.iter().map(told).collect()
}

fn told(item: &Item) -> String {
    match item {
        Item::Command { word, rest, line, .. } => format!("{line}> {word}|{rest}"),
        Item::Statement { text, line } => format!("{line}= {text}"),
        Item::Block { text, line, last, is_ended } => {
            let end = if *is_ended { "" } else { " open" };
            format!("{line}-{last}# {} lines{end}", text.lines().count())
        }
        Item::Again { line } => format!("{line}/"),
        Item::Kept { text } => format!(". {text}"),
        Item::Broken { text, line } => format!("{line}! {text}"),
        Item::Dangling { word, line } => format!("{line}- {word}"),
        Item::Variable { text, line } => format!("{line}& {text}"),
        Item::Backslash { text, line } => format!("{line}\\ {text}"),
        Item::Unknown { text, line } => format!("{line}? {text}"),
        Item::OpenDocument { line } => format!("{line} document"),
        Item::OpenComment { line } => format!("{line} comment"),
    }
}

#[track_caller]
fn reads(text: &str, rules: &Rules, expected: &[&str]) {
    assert_eq!(items(text, rules), expected, "{text:?}");
}

#[test]
fn statements_end_at_semicolons_and_slashes() {
    reads("select 1;", &PLINTH, &["1= select 1"]);
    reads("select 1; select 2;select 3", &PLINTH, &["1= select 1", "1= select 2", "1= select 3"]);
    reads("select\n 1\n;\n\nselect 2\n/\n", &PLINTH, &["1= select\n 1", "5= select 2"]);
    reads("select ';\n/\n' from x\n/", &PLINTH, &["1= select ';\n/\n' from x"]);
    reads("select 1 -- ;\n; -- done;", &PLINTH, &["1= select 1 -- ;"]);
    reads("/* a\n/\n; b */ select 1\n/", &PLINTH, &["3= select 1"]);
    reads("-- it's\nselect 1 /* ' ; */;", &PLINTH, &["2= select 1 /* ' ; */"]);
    reads("select 1; /* c */ ; ;; -- d", &PLINTH, &["1= select 1"]);
    reads("select 1\n\nfrom x;", &PLINTH, &["1= select 1\n\nfrom x"]);
    reads("select 1 / 2;\n/", &PLINTH, &["1= select 1 / 2", "2/"]);
    reads("/* open", &PLINTH, &["1 comment"]);
    reads("select 'open;\nselect 2;", &PLINTH, &["1= select 'open;\nselect 2;"]);
}

#[test]
fn client_commands_end_with_their_line() {
    reads("set lines 200\nselect 1\n/", &PLINTH, &["1> set|lines 200", "2= select 1"]);
    reads("SET NOSUCH 5\nselect 1;", &PLINTH, &["1> SET|NOSUCH 5", "2= select 1"]);
    reads("prompt it's\nselect 1;", &PLINTH, &["1> prompt|it's", "2= select 1"]);
    reads("prompt a; b;\nselect 1;", &PLINTH, &["1> prompt|a; b;", "2= select 1"]);
    reads("set pages 0; select 1;", &PLINTH, &["1> set|pages 0", "1= select 1"]);
    reads(
        "col a format -\n a30 -\n head 'x'\nselect 1;",
        &PLINTH,
        &["1> col|a format a30 head 'x'", "4= select 1"],
    );
    reads("clear col -\n select 1;", &SQLPLUS, &["1- clear", "2= select 1"]);
    reads("def a = b -\n c -\nalter x;", &PLINTH, &["1- def", "3= alter x"]);
    reads("prompt -----\nselect 1;", &PLINTH, &["1> prompt|-----", "2= select 1"]);
    reads("rem a -\nselect 1;", &PLINTH, &["1> rem|a -", "2= select 1"]);
    reads("exit;", &PLINTH, &["1> exit|"]);
    reads("@a.sql b 'c d'\n@@e;", &PLINTH, &["1> @|a.sql b 'c d'", "2> @@|e"]);
    reads("!ls; ls", &PLINTH, &["1> !|ls; ls"]);
    reads("exec :a := 1; :b := 2;", &PLINTH, &["1> exec|:a := 1; :b := 2"]);
    reads(
        "select 1; set lines 5\nselect 2;",
        &PLINTH,
        &["1= select 1", "1> set|lines 5", "2= select 2"],
    );
    reads("set x = 1; select 1;", &PLINTH, &["1= set x = 1", "1= select 1"]);
    reads("set x =\nselect 1;", &PLINTH, &["1> set|x =", "2= select 1"]);
    reads(
        "set transaction read only\nselect 1;",
        &PLINTH,
        &["1= set transaction read only", "2= select 1"],
    );
    reads("show asm_diskstring\nselect 1;", &PLINTH, &["1= show asm_diskstring", "2= select 1"]);
    reads("show all; select 1;", &PLINTH, &["1= show all", "1= select 1"]);
    reads("col a -", &PLINTH, &["1> col|a"]);
    reads("doc\nselect 1;\n#\nselect 2;", &PLINTH, &["4= select 2"]);
    reads("doc\nselect 1;", &PLINTH, &["1 document"]);
}

/// Within a statement, a string or a comment there are no client commands.
#[test]
fn words_of_commands_within_statements_belong_to_them() {
    reads("select\ncol\nset\nfrom x;", &PLINTH, &["1= select\ncol\nset\nfrom x"]);
    reads("select\nexit\n;", &PLINTH, &["1= select\nexit"]);
    reads("select '\nprompt\n';", &PLINTH, &["1= select '\nprompt\n'"]);
    reads(
        "select 1\nstart with x\nconnect by y\n/",
        &SQLPLUS,
        &["1= select 1\nstart with x\nconnect by y"],
    );
}

#[test]
fn a_block_goes_to_its_slash() {
    reads("begin\n  x;\nend;\n/\nselect 1;", &PLINTH, &["1-4# 3 lines", "5= select 1"]);
    reads("begin null; end;\n/", &PLINTH, &["1-2# 1 lines"]);
    reads("begin null; end;", &PLINTH, &["1-1# 1 lines open"]);
    reads("declare\n x number;\n\nbegin\n null;\nend;\n/", &SQLPLUS, &["1-7# 6 lines"]);
    reads(
        "create or\n replace procedure p is\nbegin null; end;\n.\nselect 1;",
        &PLINTH,
        &["1-4# 3 lines", "5= select 1"],
    );
    reads("begin;\nselect 1;\nend;", &PLINTH, &["1= begin", "2= select 1", "3= end"]);
    reads("begin\n;select 1;", &PLINTH, &["1= begin", "2= select 1"]);
    reads("begin\n/", &PLINTH, &["1= begin"]);
    reads("begin", &PLINTH, &["1= begin"]);
    reads("begin transaction;", &PLINTH, &["1= begin transaction"]);
    reads("create diskgroup x disk 'a';", &PLINTH, &["1= create diskgroup x disk 'a'"]);
}

#[test]
fn sqlplus_ends_a_statement_at_a_blank_line_or_a_point() {
    reads("select 1\n\nfrom x;", &SQLPLUS, &["1! select 1", "3? from x"]);
    reads("select /*\n\n*/ 1;", &SQLPLUS, &["1= select /*\n\n*/ 1"]);
    reads("select 1\n.\n/", &SQLPLUS, &[". select 1", "3/"]);
    reads("select 1\n#set lines 5\nfrom x;", &SQLPLUS, &["2> set|lines 5", "1= select 1\nfrom x"]);
    let kept = Rules { blank_lines: true, ..SQLPLUS };
    reads("select 1\n\nfrom x;", &kept, &["1= select 1\n\nfrom x"]);
}

#[test]
fn other_lines_are_alone() {
    reads("foo bar\nselect 1;", &SQLPLUS, &["1? foo bar", "2= select 1"]);
    reads("foo bar\nselect 1;", &PLINTH, &["1= foo bar", "2= select 1"]);
    reads("\\q\n\\d x", &PLINTH, &["1\\ \\q", "2\\ \\d x"]);
    reads("&cmd 1\nselect 1;", &PLINTH, &["1& &cmd 1", "2= select 1"]);
    reads("/\n;\n;;", &SQLPLUS, &["1/"]);
    let other = Rules { terminator: Some('!'), ..PLINTH };
    reads("select 1; -- x\n!select 2!", &other, &["1= select 1; -- x", "2= select 2"]);
    let none = Rules { terminator: None, ..PLINTH };
    reads("select ';\n/\n'; x\n/\nselect 2", &none, &["1= select ';\n/\n'; x", "5= select 2"]);
}
