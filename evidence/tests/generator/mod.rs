//! Writes reports of databases from figures, with the traps of real ones: names that are cut,
//! tables that go on after a page head, numbers with exponents, tags that were never closed, SQL
//! texts that quote statistics.

use std::fmt::Write;

/// The figures that a report is made of. Counts are totals.
#[derive(Debug, Clone)]
pub struct Figures {
    pub elapsed: f64,
    pub block: u64,
    pub reads: f64,
    pub large_reads: f64,
    pub read_bytes: f64,
    pub writes: f64,
    pub large_writes: f64,
    pub write_bytes: f64,
    pub redo_writes: f64,
    pub redo_blocks: f64,
    pub members: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    V10,
    V11,
    V121,
    V122,
    V19,
    V23,
}

impl Release {
    pub const ALL: [Self; 6] = [Self::V10, Self::V11, Self::V121, Self::V122, Self::V19, Self::V23];

    fn name(self) -> &'static str {
        match self {
            Self::V10 => "10.2.0.4.0",
            Self::V11 => "11.2.0.4.0",
            Self::V121 => "12.1.0.2.0",
            Self::V122 => "12.2.0.1.0",
            Self::V19 => "19.0.0.0.0",
            Self::V23 => "23.0.0.0.0",
        }
    }

    fn is_new(self) -> bool {
        matches!(self, Self::V122 | Self::V19 | Self::V23)
    }

    fn places(self) -> usize {
        if self.is_new() { 2 } else { 1 }
    }
}

/// Random numbers: the same for the same seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (self.next() % 1_000_000) as f64 / 1e6 * (high - low)
    }

    pub fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }
}

impl Figures {
    pub fn random(random: &mut Random) -> Self {
        let elapsed = random.between(600.0, 7000.0).round();
        let block = [4096, 8192, 16384, 32768][random.below(4)];
        let count = |random: &mut Random, low: f64, high: f64| {
            (10_f64.powf(random.between(low, high)) * elapsed).round()
        };
        let small = count(random, 0.5, 4.0);
        let large = if random.below(4) == 0 { 0.0 } else { count(random, 0.0, 3.0) };
        let size = |random: &mut Random| random.between(140_000.0, 1_040_000.0).round();
        let read_size = size(random);
        let redo_writes = count(random, 0.3, 2.5);
        let members = 1.0 + random.below(3) as f64;
        let redo_blocks = (redo_writes * random.between(2.0, 60.0)).round();
        let small_writes = count(random, 0.5, 3.0);
        let large_writes = count(random, 0.0, 2.0);
        let write_size = size(random);
        let redo_bytes = redo_blocks * 512.0 * members;
        Self {
            elapsed,
            block,
            reads: small + large,
            large_reads: large,
            read_bytes: small * block as f64 + large * read_size,
            writes: small_writes + large_writes + redo_writes * members,
            large_writes,
            write_bytes: small_writes * block as f64 + large_writes * write_size + redo_bytes,
            redo_writes,
            redo_blocks,
            members,
        }
    }

    fn statistics(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("execute count", 123_456.0),
            ("physical read IO requests", self.reads * 0.9),
            ("physical read bytes", self.read_bytes * 0.9),
            ("physical read total IO requests", self.reads),
            ("physical read total bytes", self.read_bytes),
            ("physical read total bytes optimized", self.read_bytes * 0.5),
            ("physical read total multi block requests", self.large_reads),
            ("physical reads", self.read_bytes / self.block as f64),
            ("physical write total IO requests", self.writes),
            ("physical write total bytes", self.write_bytes),
            ("physical write total bytes optimized", 0.0),
            ("physical write total multi block requests", self.large_writes),
            ("redo blocks written", self.redo_blocks),
            ("redo size", self.redo_blocks * 490.0),
            ("redo synch time overhead count (  2ms)", 7.0),
            ("redo synch time overhead count (  8ms)", 9.0),
            ("redo wastage", self.redo_blocks * 22.0),
            ("redo writes", self.redo_writes),
        ]
    }

    fn log_bytes(&self) -> f64 {
        self.redo_blocks * 512.0 * self.members
    }
}

/// With commas between thousands.
fn grouped(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// In a column: with an exponent if it is too long.
fn fitted(value: f64, places: usize, width: usize) -> String {
    let plain = grouped(value, places);
    if plain.len() <= width {
        return plain;
    }
    let digits = width.saturating_sub(6).min(12);
    let text = format!("{value:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').expect("an exponent");
    format!("{mantissa}E+{exponent:0>2}")
}

fn data(bytes: f64) -> String {
    let mib = bytes / 1_048_576.0;
    if mib >= 10_240.0 { format!("{:.1}G", mib / 1024.0) } else { format!("{:.0}M", mib) }
}

const SQL: [&str; 3] = [
    "select name from v$sysstat where name in ('physical read total IO requests', 7777777)",
    "select 'Std Block Size:' || '32K', 'Elapsed:' || 7.77 || ' (mins)' from dual",
    "Statistic Total per Second redo writes 7,777,777 7,777.7",
];

/// How an HTML report is written.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    pub is_closed: bool,
    pub is_crlf: bool,
    pub space: &'static str,
}

impl Style {
    pub fn random(random: &mut Random) -> Self {
        Self {
            is_closed: random.coin(),
            is_crlf: random.coin(),
            space: ["&#160;", "&nbsp;", "\u{a0}", ""][random.below(4)],
        }
    }

    fn table(self, summary: &str, head: &[&str], rows: &[Vec<String>]) -> String {
        let end = |tag: &str| if self.is_closed { format!("</{tag}>") } else { String::new() };
        let mut text = format!("<table border=\"0\" summary=\"{summary}\">\n<tr>");
        for cell in head {
            let _ = write!(text, "<th scope=\"col\">{}{}", cell.replace('<', "&lt;"), end("th"));
        }
        text += &end("tr");
        for row in rows {
            text += "\n<tr>";
            for cell in row {
                let cell = if cell.is_empty() { self.space } else { cell };
                let _ = write!(text, "<td align=\"right\" class='awrc'>  {cell}{}", end("td"));
            }
            text += &end("tr");
        }
        text + "\n</table><p />\n"
    }
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

fn statistics_rows(figures: &Figures, release: Release) -> Vec<Vec<String>> {
    let rows = figures.statistics().into_iter().map(|(name, total)| {
        let rate = grouped(total / figures.elapsed, release.places());
        vec![name.to_owned(), grouped(total, 0), rate, "0.1".to_owned()]
    });
    rows.collect()
}

fn header(figures: &Figures, release: Release, style: Style) -> String {
    let name = release.name();
    let mut text = if release.is_new() {
        let head = ["DB Name", "DB Id", "Unique Name", "Role", "Edition", "Release", "RAC", "CDB"];
        let own = row(&["GENDB", "1234567890", "gendb", "PRIMARY", "EE", name, "NO", "NO"]);
        style.table("This table displays database instance information", &head, &[own])
            + &style.table(
                "This table displays database instance information",
                &["Instance", "Inst Num", "Startup Time"],
                &[row(&["gendb1", "1", "04-Sep-23 18:27"])],
            )
    } else {
        let head = ["DB Name", "DB Id", "Instance", "Inst num", "Startup Time", "Release", "RAC"];
        let own = row(&["GENDB", "1234567890", "gendb1", "1", "08-Ноя-17 03:07", name, "NO"]);
        style.table("This table displays database instance information", &head, &[own])
    };
    let minutes = format!("{:.2} (mins)", figures.elapsed / 60.0);
    text += &style.table(
        "This table displays snapshot information",
        &["", "Snap Id", "Snap Time", "Sessions", "Cursors/Session"],
        &[
            row(&["Begin Snap:", "2", "10-Jul-14 04:00:45", "37", "1.0"]),
            row(&["End Snap:", "3", "10-Jul-14 05:00:58", "38", ".9"]),
            row(&["Elapsed:", "", &minutes, "", ""]),
        ],
    );
    let block = format!("{}K", figures.block / 1024);
    text + &style.table(
        "This table displays cache sizes and other statistics for different types of cache",
        &["", "Begin", "End", "", ""],
        &[row(&["Buffer Cache:", "292M", "292M", "Std Block Size:", &block])],
    )
}

/// An AWR report as HTML.
pub fn awr_html(figures: &Figures, release: Release, style: Style) -> String {
    let mut text = String::from(
        "<html><head><title>AWR Report for DB: GENDB, Inst: gendb1, Snaps: 2-3</title></head>\n\
         <body class=\"awr\"><h1 class=\"awr\">WORKLOAD REPOSITORY report for</h1><p />\n",
    );
    text += &header(figures, release, style);
    text += "<a href=\"#x\">ADDM Report</a> <a href=\"#y\">ASH Report</a>\n";
    text += "<h3 class=\"awr\">Foreground Wait Events</h3><p />\n";
    let average = if release.is_new() { "Avg wait" } else { "Avg wait (ms)" };
    let mean = if release.is_new() { "1.52ms" } else { "2" };
    text += &style.table(
        "This table displays Foreground Wait Events and their wait statistics",
        &[
            "Event",
            "Waits",
            "%Time -outs",
            "Total Wait Time (s)",
            average,
            "Waits /txn",
            "% DB time",
        ],
        &[
            row(&["db file sequential read", "1,000,000", "", "1,520", mean, "2.41", "31.96"]),
            row(&["SQL*Net message from client", "77", "0", "######", "N/A", "1", ""]),
        ],
    );
    if release != Release::V10 {
        text += "<h3 class=\"awr\">Wait Event Histogram</h3><p />\n";
        text += &style.table(
            "This table displays total number of waits",
            &[
                "Event",
                "Total Waits",
                "<1ms",
                "<2ms",
                "<4ms",
                "<8ms",
                "<16ms",
                "<32ms",
                "<=1s",
                ">1s",
            ],
            &[row(&[
                "db file sequential read",
                "1000K",
                "70.0",
                "20.0",
                "10.0",
                "",
                "",
                "",
                "",
                "",
            ])],
        );
    }
    let sql: Vec<Vec<String>> =
        SQL.iter().map(|sql| row(&["0trap", &sql.replace('\'', "&apos;")])).collect();
    text += "<h3>Complete List of SQL Text</h3>\n";
    text += &style.table("This table displays the text of SQL", &["SQL Id", "SQL Text"], &sql);
    text += "<h3 class=\"awr\">Instance Activity Stats</h3>\n";
    text += &style.table(
        "This table displays Instance activity statistics. For each instance, activity total",
        &["Statistic", "Total", "per Second", "per Trans"],
        &statistics_rows(figures, release),
    );
    text += &style.table(
        "This table displays thread activity stats in the instance",
        &["Statistic", "Total", "per Hour"],
        &[row(&["log switches (derived)", "7", "7.77"])],
    );
    if release != Release::V10 {
        text += &log_writer(figures, style);
    }
    text += "End of Report\n</body></html>\n";
    if style.is_crlf { text.replace('\n', "\r\n") } else { text }
}

fn log_writer(figures: &Figures, style: Style) -> String {
    let rate = format!("{:.2}", figures.redo_writes * figures.members / figures.elapsed);
    let bytes = figures.log_bytes();
    let per_second = format!("{:.3}M", bytes / figures.elapsed / 1_048_576.0);
    let head = [
        "Function Name",
        "Reads: Data",
        "Reqs per sec",
        "Data per sec",
        "Writes: Data",
        "Reqs per sec",
        "Data per sec",
        "Waits: Count",
        "Avg Time",
    ];
    let rows = [
        row(&["DBWR", "0M", "0.00", "0M", "10.3G", "261.31", "5.861M", "0", ""]),
        row(&["LGWR", "0M", "0.01", "0M", &data(bytes), &rate, &per_second, "619.8K", "1.13ms"]),
    ];
    style.table("This table displays the IO Statistics for different functions", &head, &rows)
}

/// A report of the instances of a cluster.
pub fn awr_global(figures: &Figures, style: Style) -> String {
    let minutes = format!("{:.2}", figures.elapsed / 60.0);
    let block = figures.block.to_string();
    let mut text = String::from(
        "<html><head><title>AWR RAC Report for DB: GENDB, Snaps: 2-3</title></head><body>\n\
         <h1 class=\"awr\">WORKLOAD REPOSITORY REPORT (RAC)</h1><h3>Database Summary</h3>\n\
         <table summary=\"Database Summary\"><tr><th colspan=\"4\">Database</th><th colspan=\"2\">\
         Snapshot Ids</th><th colspan=\"2\">Report Total (minutes)</th></tr>\n<tr>",
    );
    for name in ["Id", "Name", "RAC", "Block Size", "Begin", "End", "DB time", "Elapsed time"] {
        let _ = write!(text, "<th>{name}</th>");
    }
    text += "</tr><tr>";
    for cell in ["1234567890", "GENDB", "YES", &block, "2", "3", "7.77", &minutes] {
        let _ = write!(text, "<td>{cell}</td>");
    }
    text += "</tr></table>\n<h3>System Statistics (Global)</h3>\n";
    let rows: Vec<Vec<String>> = statistics_rows(figures, Release::V11)
        .into_iter()
        .map(|mut row| {
            row.extend(["1.0", ".5", "0.5", "1.5"].map(str::to_owned));
            row
        })
        .collect();
    let head =
        ["Statistic", "Total", "per Second", "per Trans", "Average", "Std Dev", "Min", "Max"];
    text += &style.table("System Statistics (Global). . per Second Average", &head, &rows);
    text + "End of Report</body></html>\n"
}

/// An AWR report as text.
pub fn awr_text(figures: &Figures, release: Release, is_crlf: bool) -> String {
    let mark = "DB/Inst: GENDB/gendb1  Snaps: 2-3";
    let minutes = format!("{:.2}", figures.elapsed / 60.0);
    let mut text = String::from("\nWORKLOAD REPOSITORY report for\n\n");
    if release.is_new() {
        text += "DB Name         DB Id    Unique Name DB Role          Edition Release    RAC CDB\n\
                 ------------ ----------- ----------- ---------------- ------- ---------- --- ---\n";
        let _ = writeln!(
            text,
            "GENDB          123456789 gendb       PRIMARY          EE      {:<10} NO  NO\n",
            release.name()
        );
    } else {
        text += "DB Name         DB Id    Instance     Inst Num Startup Time    Release     RAC\n\
                 ------------ ----------- ------------ -------- --------------- ----------- ---\n";
        let _ = writeln!(
            text,
            "GENDB          123456789 gendb1              1 10-Jul-14 03:10 {:<11} NO\n",
            release.name()
        );
    }
    let _ = write!(
        text,
        "              Snap Id      Snap Time      Sessions Curs/Sess\n            \
         --------- ------------------- -------- ---------\n\
         Begin Snap:         2 10-Jul-14 04:00:45        37       1.0\n  \
         End Snap:         3 10-Jul-14 05:00:58        38        .9\n   \
         Elapsed: {minutes:>19} (mins)\n\n\
         Cache Sizes                       Begin        End\n\
         ~~~~~~~~~~~                  ---------- ----------\n               \
         Buffer Cache:       292M       292M  Std Block Size: {:>10}K\n\n",
        figures.block / 1024
    );
    let _ = writeln!(text, "SQL ordered by Reads                          {mark}\n");
    for sql in SQL {
        text +=
            "         77           1       77.0    7.7        0.7   77.7   77.7 0trap00000001\n";
        text += sql;
        text += "\n";
    }
    text += "\n          ------------------------------------------------------\n\n";
    text += &statistics_text("Instance Activity Stats", mark, figures, 32, release.places());
    if release != Release::V10 {
        let rate = format!("{:.1}", figures.redo_writes * figures.members / figures.elapsed);
        let bytes = figures.log_bytes();
        let _ = write!(
            text,
            "IOStat by Function summary                     {mark}\n\
             -> 'Data' columns suffixed with M,G,T,P are in multiples of 1024\n\n                \
             Reads:   Reqs   Data    Writes:  Reqs   Data    Waits:    Avg\n\
             Function Name   Data    per sec per sec Data    per sec per sec Count    Tm(ms)\n\
             --------------- ------- ------- ------- ------- ------- ------- ------- -------\n\
             LGWR                 0M     0.0      0M {:>7} {:>7} {:>7}     183     2.6\n          \
             ------------------------------------------------------\n\n",
            data(bytes),
            rate,
            format!("{:.3}M", bytes / figures.elapsed / 1_048_576.0),
        );
    }
    text += "End of Report\n";
    if is_crlf { text.replace('\n', "\r\n") } else { text }
}

fn statistics_text(
    title: &str,
    mark: &str,
    figures: &Figures,
    cut: usize,
    places: usize,
) -> String {
    let head = format!(
        "{title:<46}{mark}\n-> Ordered by statistic name\n\n{:<cut$}{:>19}{:>15}{:>14}\n\
         {} ------------------ -------------- -------------\n",
        "Statistic",
        "Total",
        "per Second",
        "per Trans",
        "-".repeat(cut)
    );
    let mut text = head.clone();
    for (at, (name, total)) in figures.statistics().into_iter().enumerate() {
        if at > 0 && at % 6 == 0 {
            // A page ends.
            text += "\u{c}";
            text += &head;
        }
        let name: String = name.chars().take(cut).collect();
        let _ = writeln!(
            text,
            "{name:<cut$} {:>18} {:>14} {:>13}",
            fitted(total, 0, 18),
            fitted(total / figures.elapsed, places, 14),
            "0.1"
        );
    }
    text + "          ------------------------------------------------------\n\n"
}

/// A Statspack report.
pub fn statspack(figures: &Figures, is_crlf: bool) -> String {
    let mark = "DB/Inst: GENDB/gendb  Snaps: 6693-6723";
    let mut text = format!(
        "STATSPACK report for\n\n\
         Database    DB Id    Instance     Inst Num  Startup Time   Release     RAC\n\
         ~~~~~~~~ ----------- ------------ -------- --------------- ----------- ---\n          \
         1234567890 gendb               1 15-Sep-15 08:45 11.2.0.4.0  NO\n\n\
         Snapshot       Snap Id     Snap Time      Sessions Curs/Sess Comment\n\
         ~~~~~~~~    ---------- ------------------ -------- --------- ------------------\n\
         Begin Snap:       6693 31-Jan-16 00:00:03      153       5.5\n  \
         End Snap:       6723 01-Feb-16 00:00:02      153       5.5\n   \
         Elapsed: {:>10} (mins) Av Act Sess:       0.0\n\n\
         Cache Sizes            Begin        End\n\
         ~~~~~~~~~~~       ---------- ----------\n    \
         Buffer Cache:        72M              Std Block Size:         {}K\n\n",
        grouped(figures.elapsed / 60.0, 2),
        figures.block / 1024,
    );
    text += &statistics_text("Instance Activity Stats", mark, figures, 33, 1);
    let rate = format!("{:.1}", figures.redo_writes * figures.members / figures.elapsed);
    let _ = write!(
        text,
        "IO Stat by Function - summary  {mark}\n\
         ->ordered by Data Volume (Read+Write) desc\n\n               \
         ---------- Read --------- --------- Write -------- --- Wait ----\n                 \
         Data  Requests    Data   Data  Requests    Data          Avg\n\
         Function        Volume     /sec  Vol/sec Volume     /sec  Vol/sec  Count Tm(ms)\n\
         --------------- ------ -------- -------- ------ -------- -------- ------ ------\n\
         Direct Reads     8110M       .8      .1M                                    0.0\n\
         LGWR             2462M      1.8      .0M {:>6} {:>8}      .0M   262K    0.0\n          \
         -------------------------------------------------------------\n\n\
         End of Report ( report.txt )\n",
        data(figures.log_bytes()),
        rate,
    );
    if is_crlf { text.replace('\n', "\r\n") } else { text }
}
