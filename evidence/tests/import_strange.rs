//! Reports as they come from users: through mails, pages and clipboards, cut, with figures missing,
//! and more than one in a file.

#[allow(dead_code)] // Of the tests of reports that are whole.
mod generator;

use generator::{Figures, Random, Release, Style};
use plinth_evidence::{
    import::{Options, read_model, read_models},
    model::{Class, Model},
};

const STYLE: Style = Style { is_closed: true, is_crlf: false, space: "&#160;" };

fn model(text: &str) -> Model {
    read_model(text.as_bytes(), "").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn with_interval(texts: &[&str]) -> Model {
    let files: Vec<(&str, &[u8])> = texts.iter().map(|text| ("", text.as_bytes())).collect();
    let options = Options { interval: Some(10.0), name: None };
    read_models(&files, &options).expect("a model").remove(0)
}

#[track_caller]
fn same(found: &Model, right: &Model) {
    assert_eq!(found.totals, right.totals);
    assert_eq!(found.streams, right.streams);
    assert_eq!(found.waits, right.waits);
    assert_eq!(found.missing, right.missing);
}

/// A HTML report without the row of a statistic.
fn without(report: &str, name: &str) -> String {
    let at = report.find(&format!("  {name}<")).expect("the statistic");
    let from = report[..at].rfind("<tr>").expect("its row");
    let to = at + report[at..].find("</tr>").expect("its end");
    format!("{}{}", &report[..from], &report[to + 5..])
}

#[test]
fn a_page_in_capitals_is_the_same_page() {
    let report = generator::awr_html(&Figures::random(&mut Random(1)), Release::V19, STYLE);
    let mut capitals = report.clone();
    for tag in ["html", "body", "table", "tr", "td", "th", "h1", "h3"] {
        let upper = tag.to_uppercase();
        capitals = capitals.replace(&format!("<{tag}>"), &format!("<{upper}>"));
        capitals = capitals.replace(&format!("<{tag} "), &format!("<{upper} "));
        capitals = capitals.replace(&format!("</{tag}>"), &format!("</{upper}>"));
    }
    assert!(!capitals.contains("<td"));
    same(&model(&capitals), &model(&report));
}

#[test]
fn a_text_that_went_through_a_mail_or_a_page_is_the_same_text() {
    let figures = Figures::random(&mut Random(2));
    let texts = [
        generator::awr_text(&figures, Release::V122, false),
        generator::statspack(&figures, false),
    ];
    for text in texts {
        let right = model(&text);
        let quoted: String = text.lines().map(|line| format!("> {line}\n")).collect();
        let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let session = format!(
            "SQL> @awrrpt\n\n   DB Id    DB Name      Inst Num Instance\n\
             ----------- ------------ -------- ------------\n 123456789 GENDB               1 \
             gendb1\n\nInstances in this Workload Repository schema\n\n{text}\nSQL> exit\n"
        );
        same(&model(&quoted), &right);
        same(&model(&text.replace('\n', "\r")), &right);
        same(&model(&text.replace('\n', "\n\n")), &right);
        same(&model(&format!("<html><body><pre>{escaped}</pre></body></html>")), &right);
        same(&model(&session), &right);
    }
}

/// `1 234 567,8` with the blank of Latin-1.
#[test]
fn a_report_in_latin_1_keeps_its_thousands() {
    let report = generator::awr_html(&Figures::random(&mut Random(3)), Release::V11, STYLE);
    let right = model(&report);
    let mut bytes = Vec::new();
    for (at, part) in report.split("class='awrc'>  ").enumerate() {
        let (cell, rest) = part.split_once('<').unwrap_or((part, ""));
        let is_number = at > 0 && cell.bytes().all(|b| b.is_ascii_digit() || b",.".contains(&b));
        if at > 0 {
            bytes.extend(b"class='awrc'>  ");
        }
        bytes.extend(cell.bytes().map(|byte| match byte {
            b',' if is_number => 0xa0,
            b'.' if is_number => b',',
            byte => byte,
        }));
        bytes.extend(b"<");
        bytes.extend(rest.bytes().filter(u8::is_ascii));
    }
    assert!(bytes.contains(&0xa0));
    same(&read_model(&bytes, "").expect("a model"), &right);
}

#[test]
fn a_page_and_a_text_in_one_file_are_two_reports() {
    let figures = Figures::random(&mut Random(4));
    let page = generator::awr_html(&figures, Release::V19, STYLE);
    let text = generator::awr_text(&figures, Release::V11, false);
    for both in [format!("{page}{text}"), format!("{text}{page}")] {
        let error = read_model(both.as_bytes(), "file").expect_err("two reports").to_string();
        assert!(error.contains("2 reports"), "{error}");
    }
}

#[test]
fn it_is_said_what_is_assumed_without_a_statistic() {
    let figures = Figures { large_reads: 1000.0, ..Figures::random(&mut Random(5)) };
    let report = generator::awr_html(&figures, Release::V19, STYLE);
    for (name, word) in [
        ("physical read total multi block requests", "does not count the large ones"),
        ("physical write total multi block requests", "does not count the large ones"),
        ("redo writes", "as many writes as the log writer makes"),
        ("redo blocks written", "redo is of redo size"),
    ] {
        let model = model(&without(&report, name));
        assert!(model.missing.iter().any(|text| text == name), "{name}: {:?}", model.missing);
        assert!(model.assumed.iter().any(|text| text.contains(word)), "{name}: {model:?}");
        assert!((model.totals.reads / (figures.reads / figures.elapsed) - 1.0).abs() < 0.002);
    }
    for name in ["physical read total IO requests", "physical write total bytes"] {
        let error = read_model(without(&report, name).as_bytes(), "").expect_err(name);
        assert!(error.to_string().contains(name), "{error}");
    }
}

/// The I/O profile stands in for the direction that lacks a statistic, and only for that.
#[test]
fn a_missing_statistic_is_taken_from_the_profile_and_the_others_stay_exact() {
    let figures = Figures::random(&mut Random(6));
    let report = generator::awr_html(&figures, Release::V19, STYLE);
    let rate = |value: f64| format!("{:.1}", value / figures.elapsed);
    let mib = |value: f64| format!("{:.1}", value / figures.elapsed / 1_048_576.0);
    let row = |cells: [&str; 4]| {
        cells.iter().map(|cell| format!("<td>{cell}</td>")).collect::<String>() + "</tr><tr>"
    };
    let profile = format!(
        "<table><tr><th></th><th>Read+Write Per Second</th><th>Read per Second</th>\
         <th>Write Per Second</th></tr><tr>{}{}</table>",
        row([
            "Total Requests:",
            &rate(figures.reads + figures.writes),
            &rate(figures.reads),
            &rate(figures.writes)
        ]),
        row([
            "Total (MB):",
            &mib(figures.read_bytes + figures.write_bytes),
            &mib(figures.read_bytes),
            "0.0"
        ]),
    );
    let report = report.replacen("<h3", &format!("{profile}<h3"), 1);
    let right = model(&report);
    let found = model(&without(&report, "physical read total bytes"));
    let near = |found: f64, right: f64| (found / right - 1.0).abs() < 1e-6;
    assert!(near(found.totals.writes, right.totals.writes));
    assert!(near(found.totals.write_bytes, right.totals.write_bytes));
    let log = |model: &Model| model.stream(Class::LogWrite).map_or(0.0, |stream| stream.rate);
    assert!(near(log(&found), log(&right)));
    assert!((found.totals.read_bytes - right.totals.read_bytes).abs() <= 0.051 * 1_048_576.0);
    let found = model(&without(&report, "physical write total bytes"));
    assert!(near(found.totals.writes, right.totals.writes), "they are not left out");
    assert!(found.assumed.iter().any(|text| text.contains("rounds their bytes to nothing")));
}

#[test]
fn statistics_without_a_column_are_read_by_the_other() {
    let figures = Figures::random(&mut Random(7));
    let report = generator::awr_html(&figures, Release::V19, STYLE);
    let right = model(&report);
    let (before, table) = report.split_once("<th scope=\"col\">Statistic<").expect("statistics");
    for column in [1, 2] {
        let mut cut = format!("{before}<th scope=\"col\">Statistic<");
        for line in table.split_inclusive('\n') {
            let tag = if line.contains("<td") { "<td" } else { "<th" };
            let cells: Vec<&str> = line.split_inclusive(tag).collect();
            let is_row = cells.len() >= 4 && !line.contains("IO Statistics");
            let place = if tag == "<td" { column + 1 } else { column };
            for (at, cell) in cells.iter().enumerate() {
                if !(is_row && at == place) {
                    cut.push_str(cell);
                }
            }
        }
        let found = model(&cut);
        let name = ["Total", "per Second"][column - 1];
        assert!(found.missing.iter().any(|text| text.contains(name)), "{:?}", found.missing);
        for (found, right) in [
            (found.totals.reads, right.totals.reads),
            (found.totals.read_bytes, right.totals.read_bytes),
            (found.totals.writes, right.totals.writes),
        ] {
            assert!((found / right - 1.0).abs() < 0.005, "column {column}: {found} for {right}");
        }
    }
}

const IO: &str = "\
backend_type,object,context,reads,read_time,writes,write_time,extends,op_bytes,stats_reset
client backend,relation,normal,1000,500,10,1,5,8192,2026-05-01 12:00:00+00
client backend,relation,bulkread,640,64,,,,8192,2026-05-01 12:00:00+00
checkpointer,relation,normal,,,100,10,,8192,2026-05-01 12:00:00+00
";

fn grown(text: &str, by: u64) -> String {
    let lines = text.lines().map(|line| {
        let cell = |cell: &str| match cell.parse::<u64>() {
            Ok(number) if number != 8192 => (number * by).to_string(),
            _ => cell.to_owned(),
        };
        line.split(',').map(cell).collect::<Vec<_>>().join(",") + "\n"
    });
    lines.collect()
}

#[test]
fn counters_are_the_same_however_a_client_prints_them() {
    let right = with_interval(&[IO]);
    let rows: Vec<Vec<&str>> = IO.lines().map(|line| line.split(',').collect()).collect();
    let turned: Vec<Vec<&str>> =
        rows.iter().map(|row| row.iter().rev().copied().collect()).collect();
    let joined = |rows: &[Vec<&str>], mark: &str| {
        rows.iter().map(|row| row.join(mark) + "\n").collect::<String>()
    };
    let aligned = |rows: &[Vec<&str>]| {
        let line = |row: &Vec<&str>| {
            let cells: Vec<String> = row.iter().map(|cell| format!(" {cell:>22} ")).collect();
            cells.join("|") + "\n"
        };
        rows.iter().map(line).collect::<String>() + "(3 rows)\n"
    };
    // The first column and the last are blank in some rows.
    let order = [5, 0, 1, 2, 3, 4, 6, 8, 9, 7];
    let blank: Vec<Vec<&str>> =
        rows.iter().map(|row| order.iter().map(|at| row[*at]).collect()).collect();
    let records: String = rows[1..]
        .iter()
        .map(|row| {
            let cells = rows[0].iter().zip(row);
            cells.map(|(name, cell)| format!("{name}|{cell}\n")).collect::<String>() + "\n"
        })
        .collect();
    for form in [
        joined(&rows, ";"),
        joined(&turned, ","),
        aligned(&rows),
        aligned(&blank),
        IO.replacen("backend_type,object,context", "BACKEND_TYPE,OBJECT,CONTEXT", 1),
        records,
    ] {
        let found = with_interval(&[&form]);
        assert_eq!(found.totals, right.totals, "{form}");
        assert_eq!(found.streams, right.streams, "{form}");
    }
}

#[test]
fn samples_below_one_head_are_samples_and_not_added() {
    let later = grown(IO, 3);
    let right = with_interval(&[IO, &later]);
    let rows: String = later.lines().skip(1).map(|line| line.to_owned() + "\n").collect();
    let found = with_interval(&[&format!("{IO}{rows}")]);
    assert_eq!(found.totals, right.totals);
}

#[test]
fn counters_that_were_reset_between_two_samples_are_refused_though_they_grew() {
    let later = grown(IO, 3).replace("12:00:00", "12:30:00");
    let options = Options { interval: Some(10.0), name: None };
    let files: [(&str, &[u8]); 2] = [("", IO.as_bytes()), ("", later.as_bytes())];
    let error = read_models(&files, &options).expect_err("a reset").to_string();
    assert!(error.contains("reset"), "{error}");
}

#[test]
fn rows_and_columns_that_are_missing_are_named() {
    let cut = &IO[..IO.find("checkpointer").expect("a row") + 30];
    let model = with_interval(&[cut]);
    assert!(model.missing.iter().any(|text| text.contains("checkpointer")), "{model:?}");
    assert!(model.warnings.iter().any(|text| text.contains("no end")), "{model:?}");
    let model = with_interval(&[&IO.replace(",op_bytes", ",other")]);
    assert!(model.missing.iter().any(|text| text.contains("op_bytes")), "{model:?}");
}

#[test]
fn half_a_number_at_the_end_is_no_number() {
    let status = include_str!("generator/status.txt");
    let model = read_model(status.as_bytes(), "").expect("a model");
    let at = status.find("Uptime").expect("the time") + 8;
    let digits = status[at..].find(|c: char| c.is_ascii_digit()).expect("a number");
    let error = read_model(&status.as_bytes()[..at + digits + 1], "").expect_err("a tenth of it");
    assert!(error.to_string().contains("Uptime"), "{error} {}", model.elapsed);
}

const HEAD: &str = "Device r/s rkB/s r_await rareq-sz w/s wkB/s w_await wareq-sz\n";

#[test]
fn a_cut_report_of_iostat_is_no_idle_one() {
    let rows = "sda 100.00 800.00 1.00 8.00 50.00 400.00 2.00 8.00\n\
                sdb 10.00 80.00 1.00 8.00 5.00 40.00 2.00 8.00\n\n";
    let text = format!("Linux 6.1 (host)\n\n{HEAD}{rows}{HEAD}{rows}{HEAD}{rows}");
    let right = model(&text);
    let cut = model(&text[..text.len() - 30]);
    assert_eq!(cut.totals, right.totals);
    assert!(cut.warnings.iter().any(|text| text.contains("cut")), "{cut:?}");
}

#[test]
fn sums_of_devices_and_paths_to_them_are_not_added() {
    let row = |name: &str| format!("{name} 100.00 800.00 1.00 8.00 50.00 400.00 2.00 8.00\n");
    let own = row("sda") + &row("nvme0n1");
    for other in [" group", "mpatha", "nvme0c1n1", "sda1"] {
        let own = format!("Linux 6.1 (host)\n\n{HEAD}{own}{}\n", row(other));
        let found = model(&own);
        assert_eq!(found.totals.reads, 200.0, "{other}");
    }
}

#[test]
fn points_of_time_of_iostat_are_its_time() {
    let report =
        |time: &str| format!("{time}\n{HEAD}sda 1.00 8.00 1.00 8.00 1.00 8.00 1.00 8.00\n\n");
    for times in [
        ["11/29/2026 11:59:55 PM", "11/30/2026 12:00:05 AM", "11/30/2026 12:00:15 AM"],
        ["2026-11-29T16:08:01+0100", "2026-11-29T16:08:11+0100", "2026-11-29T16:08:21+0100"],
    ] {
        let text: String = times.iter().map(|time| report(time)).collect();
        assert_eq!(model(&format!("Linux 6.1 (host)\n\n{text}")).elapsed, 20.0);
    }
}

#[test]
fn the_last_status_of_fio_counts() {
    let result = include_str!("generator/fio.json");
    let right = model(result);
    let early = result.replacen("\"total_ios\"", "\"total_ios\" : 1, \"other\"", 1);
    same(&model(&format!("{early}\n{result}")), &right);
    // The last one is cut.
    same(&model(&format!("{result}\n{}", &result[..result.len() / 2])), &right);
}

#[test]
fn workloads_without_a_share_take_what_the_others_leave() {
    let text = "sd=sd1,lun=/dev/sdb\nwd=a,sd=sd1,xfersize=8k,skew=80\n\
                wd=b,sd=sd1,xfersize=8k,rdpct=0\nrd=r,wd=*,iorate=(1000,2000),forthreads=(1,2)\n";
    let model = model(text);
    assert!((model.totals.reads - 800.0).abs() < 1e-6);
    assert!((model.totals.writes - 200.0).abs() < 1e-6);
    for word in ["first rate", "forthreads"] {
        assert!(model.warnings.iter().any(|text| text.contains(word)), "{word}: {model:?}");
    }
}

/// Reports of a cluster have one column or one row of each instance, and sometimes a sum.
#[test]
fn instances_are_added_once_however_they_are_listed() {
    let figures = Figures::random(&mut Random(8));
    let report = generator::awr_global(&figures, STYLE);
    let right = model(&report);
    let from = report.find("<table border=\"0\" summary=\"System Statistics").expect("statistics");
    let to = from + report[from..].find("</table>").expect("its end");
    let total = |line: &str| {
        let cells: Vec<&str> =
            line.split("'>  ").map(|cell| cell.split('<').next().unwrap_or("")).collect();
        let number = |at: usize| cells.get(at)?.replace(',', "").parse::<f64>().ok();
        Some((cells.get(1)?.to_string(), number(2)?, number(3)?))
    };
    let rows: Vec<(String, f64, f64)> = report[from..to].lines().filter_map(total).collect();
    assert!(rows.len() > 10);
    let table = |head: &str, row: &dyn Fn(&str, f64, f64) -> String| {
        let body: String =
            rows.iter().map(|(name, total, rate)| row(name, *total, *rate)).collect();
        format!("{}<table><tr>{head}</tr>{body}{}", &report[..from], &report[to..])
    };
    let thirds = |all: f64| [(all / 3.0).floor(), all - (all / 3.0).floor()];
    let of_instance = |name: &str, total: f64, rate: f64, sum: bool, is_first: bool| {
        let one = |id: &str, total: f64, rate: f64| {
            let ids = if is_first {
                format!("<td>{id}<td>{name}")
            } else {
                format!("<td>{name}<td>{id}")
            };
            format!("<tr>{ids}<td>{total}<td>{rate}<td>1")
        };
        let [a, b] = thirds(total);
        let share = a / total.max(1.0);
        let sum = if sum { one("*", total, rate) } else { String::new() };
        sum + &one("1", a, rate * share) + &one("2", b, rate * (1.0 - share))
    };
    let first = "<th>I#<th>Statistic<th>Total<th>per Second<th>per Trans";
    let second = "<th>Statistic<th>Inst<th>Total<th>per Second<th>per Trans";
    for form in [
        table(first, &|name, total, rate| of_instance(name, total, rate, false, true)),
        table(first, &|name, total, rate| of_instance(name, total, rate, true, true)),
        table(second, &|name, total, rate| of_instance(name, total, rate, false, false)),
        table(second, &|name, total, rate| of_instance(name, total, rate, true, false)),
        table("<th>Statistic<th>1<th>2", &|name, total, _| {
            let [a, b] = thirds(total);
            format!("<tr><td>{name}<td>{a}<td>{b}")
        }),
    ] {
        let found = model(&form);
        for (found, right) in [
            (found.totals.reads, right.totals.reads),
            (found.totals.read_bytes, right.totals.read_bytes),
            (found.totals.writes, right.totals.writes),
            (found.totals.write_bytes, right.totals.write_bytes),
        ] {
            assert!((found / right - 1.0).abs() < 0.005, "{found} for {right}: {form}");
        }
    }
}

#[test]
fn a_head_over_two_rulers_is_one_head() {
    let figures = Figures::random(&mut Random(9));
    let text = generator::awr_text(&figures, Release::V11, false);
    let summary = format!(
        "WORKLOAD REPOSITORY REPORT (RAC)\n\nDatabase Summary\n~~~~~~~~~~~~~~~~\n\
                Database                   Snapshot Ids   Report Total (minutes)\n\
         ------------------------------ --------------- ------------------------------\n\
         Id         Name       Block Size   Begin     End      DB time   Elapsed time\n\
         ---------- ---------- ---------- ------- ------- ------------ --------------\n\
         1234567890 GENDB      {:>10}       2       3         7.77 {:>14.2}\n\n",
        figures.block,
        figures.elapsed / 60.0
    );
    let at = text.find("SQL ordered").expect("the rest");
    let found = model(&format!("{summary}{}", &text[at..]));
    assert_eq!(found.block_size, Some(figures.block));
    assert!(found.warnings.iter().any(|text| text.contains("several instances")), "{found:?}");
}
