//! Results as they are drawn, line by line.

use super::*;
use crate::query::Column;

/// A sheet that is set up by commands.
#[derive(Default)]
struct Desk {
    settings: Option<Settings>,
    columns: Columns,
    breaks: Breaks,
    titles: Titles,
    variables: Variables,
}

impl Desk {
    fn new(commands: &[(&str, &str)]) -> Self {
        let mut desk = Self::default();
        let mut settings = Settings::new(true);
        for (command, rest) in commands {
            let result = match *command {
                "SET" => settings.set(rest, &mut false).map(|()| String::new()),
                "COL" => desk.columns.column(rest),
                "BREAK" => desk.breaks.break_on(rest),
                "COMPUTE" => desk.breaks.compute(rest),
                "TTITLE" => desk.titles.top.set("TTITLE", rest),
                "BTITLE" => desk.titles.bottom.set("BTITLE", rest),
                "REPHEADER" => desk.titles.header.set("REPHEADER", rest),
                _ => desk.titles.footer.set("REPFOOTER", rest),
            };
            result.unwrap_or_else(|refusal| panic!("{command} {rest}: {refusal:?}"));
        }
        desk.settings = Some(settings);
        desk
    }

    fn draw(&self, table: &Table) -> Vec<String> {
        let settings = self.settings.as_ref().expect("settings");
        let sheet = Sheet {
            settings,
            columns: &self.columns,
            breaks: &self.breaks,
            titles: &self.titles,
            user: "ROOT",
            date: "Sat Mar 07",
        };
        let names: Vec<String> =
            table.columns.iter().map(|column| column.name.to_uppercase()).collect();
        let lines = sheet.lines(table, &names, &self.variables);
        lines.iter().map(|line| line.trim_end_matches(' ').to_owned()).collect()
    }
}

#[track_caller]
fn draws(commands: &[(&str, &str)], table: &Table, expected: &[&str]) {
    let lines = Desk::new(commands).draw(table);
    assert_eq!(lines, expected, "\n{}", lines.join("\n"));
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// Disks: group, name, size.
fn disks() -> Table {
    let column = |name: &str, kind| Column { name: name.to_owned(), kind };
    let row = |group: &str, name: &str, mb| vec![text(group), text(name), Value::Integer(mb)];
    Table {
        columns: vec![
            column("grp", Type::Text),
            column("name", Type::Text),
            column("total_mb", Type::Integer),
        ],
        rows: vec![
            row("DATA", "DATA_0000", 1024),
            row("DATA", "DATA_0001", 2048),
            row("FRA", "FRA_0000", 512),
        ],
    }
}

#[test]
fn a_result_has_headings_and_dashes() {
    draws(
        &[],
        &disks(),
        &[
            "",
            "GRP  NAME        TOTAL_MB",
            "---- --------- ----------",
            "DATA DATA_0000       1024",
            "DATA DATA_0001       2048",
            "FRA  FRA_0000         512",
        ],
    );
    let bare = [("SET", "pages 0 colsep ,")];
    draws(
        &bare,
        &disks(),
        &["DATA,DATA_0000,      1024", "DATA,DATA_0001,      2048", "FRA ,FRA_0000 ,       512"],
    );
    draws(
        &[("SET", "hea off newp none numw 5")],
        &disks(),
        &["DATA DATA_0000     1024", "DATA DATA_0001     2048", "FRA  FRA_0000       512"],
    );
}

#[test]
fn columns_have_their_formats_and_headings() {
    let commands = [
        ("COL", "grp FORMAT a3 HEADING 'Disk|group' TRUNC"),
        ("COL", "name FORMAT a6 JUSTIFY right"),
        ("COL", "total_mb FORMAT 9,999 HEADING MB"),
    ];
    draws(
        &commands,
        &disks(),
        &[
            "",
            "Dis",
            "gro   NAME     MB",
            "--- ------ ------",
            "DAT DATA_0  1,024",
            "    000",
            "",
            "DAT DATA_0  2,048",
            "    001",
            "",
            "FRA FRA_00    512",
            "    00",
            "",
        ],
    );
    draws(
        &[
            ("SET", "recsep off und = headsep off"),
            ("COL", "name NOPRINT"),
            ("COL", "grp HEAD a|b"),
        ],
        &disks(),
        &[
            "",
            "a|b    TOTAL_MB",
            "==== ==========",
            "DATA       1024",
            "DATA       2048",
            "FRA         512",
        ],
    );
}

#[test]
fn words_and_nulls_are_wrapped() {
    let mut table = disks();
    table.rows = vec![
        vec![text("a longer text of words"), Value::Null, Value::Null],
        vec![Value::Null, text(""), Value::Real(0.5)],
    ];
    let commands = [
        ("SET", "null - recsep off"),
        ("COL", "grp FORMAT a10 WORD_WRAPPED"),
        ("COL", "name NULL none"),
    ];
    draws(
        &commands,
        &table,
        &[
            "",
            "GRP        NAME   TOTAL_MB",
            "---------- ---- ----------",
            "a longer   none          -",
            "text of",
            "words",
            "-          none         .5",
        ],
    );
}

#[test]
fn columns_that_do_not_fit_go_on_the_next_line() {
    draws(
        &[("SET", "lines 16")],
        &disks(),
        &[
            "",
            "GRP  NAME",
            "---- ---------",
            "  TOTAL_MB",
            "----------",
            "DATA DATA_0000",
            "      1024",
            "",
            "DATA DATA_0001",
            "      2048",
            "",
            "FRA  FRA_0000",
            "       512",
            "",
        ],
    );
    draws(
        &[("SET", "lines 16 wrap off pages 50")],
        &disks(),
        &["", "GRP  NAME", "---- --------- -", "DATA DATA_0000", "DATA DATA_0001", "FRA  FRA_0000"],
    );
    draws(
        &[("SET", "pages 0 recsep off"), ("COL", "name FOLD_AFTER")],
        &disks(),
        &[
            "DATA DATA_0000",
            "      1024",
            "DATA DATA_0001",
            "      2048",
            "FRA  FRA_0000",
            "       512",
        ],
    );
}

#[test]
fn pages_have_titles_at_both_ends() {
    let commands = [
        ("SET", "pages 8 lines 26"),
        ("TTITLE", "LEFT 'Disks' RIGHT FORMAT 99 SQL.PNO"),
        ("BTITLE", "CENTER 'end'"),
        ("REPHEADER", "'(all)'"),
        ("REPFOOTER", "'(done)'"),
    ];
    draws(
        &commands,
        &disks(),
        &[
            "",
            "Disks                    1",
            "(all)",
            "GRP  NAME        TOTAL_MB",
            "---- --------- ----------",
            "DATA DATA_0000       1024",
            "DATA DATA_0001       2048",
            "           end",
            "",
            "Disks                    2",
            "GRP  NAME        TOTAL_MB",
            "---- --------- ----------",
            "FRA  FRA_0000         512",
            "(done)",
            "",
            "           end",
        ],
    );
    draws(
        &[("SET", "pages 2 newp 0 hea off")],
        &disks(),
        &[
            "\u{c}DATA DATA_0000       1024",
            "DATA DATA_0001       2048",
            "\u{c}FRA  FRA_0000         512",
        ],
    );
}

/// A title names the value of the row below it, and the one at the bottom that of the last row.
#[test]
fn titles_name_the_values_of_columns() {
    let commands = [
        ("SET", "pages 5 hea off newp none"),
        ("COL", "grp NEW_VALUE first OLD_VALUE last NOPRINT"),
        ("COL", "total_mb NOPRINT"),
        ("BREAK", "ON grp SKIP PAGE"),
        ("TTITLE", "LEFT 'Group ' first"),
        ("BTITLE", "LEFT 'of ' last"),
    ];
    draws(
        &commands,
        &disks(),
        &[
            "Group DATA",
            "DATA_0000",
            "DATA_0001",
            "",
            "of DATA",
            "Group FRA",
            "FRA_0000",
            "",
            "",
            "of FRA",
        ],
    );
}

#[test]
fn breaks_leave_out_repeated_values_and_print_sums() {
    let commands = [
        ("SET", "pages 50"),
        ("BREAK", "ON REPORT ON grp SKIP 1"),
        ("COMPUTE", "SUM MAX OF total_mb ON grp"),
        ("COMPUTE", "SUM LABEL 'Grand total' OF total_mb ON REPORT"),
        ("COMPUTE", "COUNT OF name ON REPORT"),
    ];
    draws(
        &commands,
        &disks(),
        &[
            "",
            "GRP  NAME        TOTAL_MB",
            "---- --------- ----------",
            "DATA DATA_0000       1024",
            "     DATA_0001       2048",
            "****           ----------",
            "maxi                 2048",
            "sum                  3072",
            "",
            "FRA  FRA_0000         512",
            "****           ----------",
            "maxi                  512",
            "sum                   512",
            "",
            "     --------- ----------",
            "coun         3",
            "Gran                 3584",
        ],
    );
    // Without sums nothing is skipped below the last row, and DUP repeats.
    let commands = [("SET", "pages 0"), ("BREAK", "ON grp SKIP 1 DUP ON ROW")];
    draws(
        &commands,
        &disks(),
        &[
            "DATA DATA_0000       1024",
            "DATA DATA_0001       2048",
            "",
            "FRA  FRA_0000         512",
        ],
    );
}

/// A value that a page begins with is printed, even if it is the one before.
#[test]
fn a_page_repeats_the_value_of_its_break() {
    let commands = [("SET", "pages 1 newp none hea off"), ("BREAK", "ON grp")];
    draws(
        &commands,
        &disks(),
        &["DATA DATA_0000       1024", "DATA DATA_0001       2048", "FRA  FRA_0000         512"],
    );
}

/// Values of files that someone else has named reach no terminal as commands.
#[test]
fn control_characters_are_not_printed() {
    let mut table = disks();
    table.rows = vec![vec![text("a\u{1b}[2J"), text("b\nc\td"), Value::Integer(1)]];
    let first = format!("a\u{fffd}[2J {:<4} {:>10}", "b", 1);
    draws(&[("SET", "pages 0 recsep off")], &table, &[&first, "      c d"]);
}

/// REPHEADER PAGE and REPFOOTER PAGE are pages of their own, with the titles of a page.
#[test]
fn a_report_has_pages_for_its_header_and_footer() {
    draws(
        &[
            ("SET", "pages 8 newp none"),
            ("TTITLE", "LEFT SQL.PNO FORMAT 9"),
            ("BTITLE", "LEFT end"),
            ("REPHEADER", "PAGE 'Report'"),
            ("REPFOOTER", "PAGE 'Over'"),
            ("COL", "name NOPRINT"),
        ],
        &disks(),
        &[
            "         1",
            "Report",
            "",
            "",
            "",
            "",
            "",
            "end",
            "         2",
            "GRP    TOTAL_MB",
            "---- ----------",
            "DATA       1024",
            "DATA       2048",
            "FRA         512",
            "",
            "end",
            "         3",
            "Over",
            "",
            "",
            "",
            "",
            "",
            "end",
        ],
    );
}

/// The same report in HTML: a table for each page, a row for each row, titles between them.
#[test]
fn a_report_is_drawn_in_html() {
    let commands = [
        ("SET", "markup html on table ''"),
        ("TTITLE", "LEFT 'Disks & sizes'"),
        ("BREAK", "ON grp SKIP PAGE ON REPORT"),
        ("COMPUTE", "SUM LABEL <all> OF total_mb ON REPORT"),
        ("COL", "name NOPRINT"),
        ("COL", "grp HEADING 'Disk|group' ENTMAP OFF"),
    ];
    let drawn = Desk::new(&commands).draw(&disks());
    let rows: Vec<String> = drawn.join("").split("</tr>").map(str::to_owned).collect();
    let title = "Disks &amp; sizes<br><p><table>";
    let head = "<tr><th scope=\"col\">Disk<br>\ngroup</th><th scope=\"col\">TOTAL_MB</th>";
    let row =
        |group: &str, mb: &str| format!("<tr><td>{group}</td><td align=\"right\">{mb:>10}</td>");
    let expected = [
        format!("{title}{head}"),
        row("DATA", "1024"),
        row("&nbsp;", "2048"),
        format!("</table><p>{title}{head}"),
        row("FRA", "512"),
        format!("</table><p>{title}{head}"),
        row("&nbsp;", "----------"),
        row("<all>", "3584"),
        "</table><p>".to_owned(),
    ];
    assert_eq!(rows, expected, "{}", drawn.join("\n"));
    let bare = [("SET", "markup html on pages 0 lines 20"), ("TTITLE", "LEFT x")];
    let drawn = Desk::new(&bare).draw(&disks());
    assert!(drawn[0] == "<p>" && drawn[2] == "<tr>", "{}", drawn.join("\n"));
    assert_eq!(drawn.iter().filter(|line| *line == "<tr>").count(), 3);
}
