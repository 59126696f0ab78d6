//! `plinth report`: one page with the state of a group. Its figures are those of the views, and
//! names of disks and files are text, whatever they are.
//!
//! A group that is used counts on while a page is made. So the views are asked before and after it,
//! and each figure of the page lies between the two answers.

use plinth_tests::{
    Finished, Instance, MIB, Row,
    chromium::{Browser, SCREENS},
    shell,
};
use roxmltree::{Document, Node, ParsingOptions};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

const BLOCK: usize = 4096;
/// As a name of a disk's device, and of a file.
const EVIL: &str = "<script>alert('&')<b>";
const SECTIONS: [&str; 9] = [
    "Space",
    "Disks",
    "Latencies",
    "Which mirror was read, and why",
    "Movement",
    "Errors",
    "Settings",
    "Clients",
    "Alert log, the last day",
];

/// A group of two failure groups whose devices have hostile names, with a file that was written and
/// read. `F1` is preferred.
fn group() -> Instance {
    let instance = Instance::new();
    let disks = ["f0", "f1"].map(|name| instance.add_disk(&format!("{name}{EVIL}"), 256 * MIB));
    let [one, other] = disks.map(|disk| disk.display().to_string().replace('\'', "''"));
    instance.sql(&format!(
        "CREATE DISKGROUP data NORMAL REDUNDANCY FAILGROUP f0 DISK '{one}' FAILGROUP f1 DISK '{other}'"
    ));
    instance.sql("ALTER SYSTEM SET asm_preferred_read_failure_groups = 'DATA.F1'");
    instance.sql("ALTER DISKGROUP data SET ATTRIBUTE 'disk_repair_time' = '5h'");
    let file = instance.mount("DATA").join(EVIL);
    write_and_read(&file);
    instance
}

fn write_and_read(path: &Path) {
    let file = File::create(path).expect("a file");
    for block in 0..256_u64 {
        file.write_all_at(&[7; BLOCK], block * BLOCK as u64).expect("written");
    }
    file.sync_all().expect("synced");
    // The kernel remembers what it wrote, unless it is asked for what is on the disks.
    let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(path).expect("open");
    let mut memory = vec![0; 2 * BLOCK];
    let from = memory.as_ptr().align_offset(BLOCK);
    for block in 0..256_u64 {
        let buffer = &mut memory[from..from + BLOCK];
        file.read_exact_at(buffer, block * BLOCK as u64).expect("read");
        assert!(buffer.iter().all(|byte| *byte == 7));
    }
}

fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..Default::default() };
    Document::parse_with_options(page, options).unwrap_or_else(|error| panic!("{error}\n{page}"))
}

fn text(node: Node<'_, '_>) -> String {
    node.descendants().filter(Node::is_text).filter_map(|node| node.text()).collect()
}

fn elements<'a, 'b>(
    document: &'a Document<'b>,
    name: &'a str,
) -> impl Iterator<Item = Node<'a, 'b>> {
    document.descendants().filter(move |node| node.tag_name().name() == name)
}

/// The tables of a page by their captions: rows as cells by their headings.
fn tables(document: &Document<'_>) -> BTreeMap<String, Vec<BTreeMap<String, String>>> {
    let table = |table: Node<'_, '_>| {
        let within = |name: &'static str| {
            table.descendants().filter(move |node| node.tag_name().name() == name)
        };
        let caption = within("caption").map(text).next().expect("a caption");
        let mut rows = within("tr").map(|row| {
            let is_cell = |node: &Node<'_, '_>| matches!(node.tag_name().name(), "th" | "td");
            row.children().filter(is_cell).map(text).collect::<Vec<String>>()
        });
        let head = rows.next().expect("a head");
        let named = |row: Vec<String>| head.iter().cloned().zip(row).collect();
        (caption, rows.map(named).collect())
    };
    elements(document, "table").map(table).collect()
}

/// A figure of a page: `1,234`, `1,234 MiB`.
#[track_caller]
fn number(text: &str) -> f64 {
    let figure = text.split(' ').next().unwrap_or_default().replace(',', "");
    figure.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}

/// Answers of the views before the page was made, and after it.
struct Views {
    before: Vec<Row>,
    after: Vec<Row>,
}

impl Views {
    /// Asserts that a figure lies between the answers for the row whose column has this value.
    #[track_caller]
    fn have(&self, key: (&str, &str), column: &str, figure: &str) {
        let of = |rows: &[Row]| -> f64 {
            let row = rows.iter().find(|row| row[key.0] == key.1);
            row.and_then(|row| row[column].as_f64()).unwrap_or_else(|| panic!("{column}, {key:?}"))
        };
        let (one, other, figure) = (of(&self.before), of(&self.after), number(figure));
        let is_between = figure >= one.min(other) && figure <= one.max(other);
        assert!(is_between, "{column} of {key:?}: {figure}, and {one} to {other} in the view");
    }
}

/// A report, and answers to the queries before and after it.
fn reported(instance: &Instance, queries: &[&str]) -> (String, Vec<Views>) {
    let ask = || queries.iter().map(|query| instance.query(query));
    let before: Vec<Vec<Row>> = ask().collect();
    let page = instance.plinth(["report", "-o", "-", "data"]).ok();
    let after = ask();
    let pairs = before.into_iter().zip(after);
    (page, pairs.map(|(before, after)| Views { before, after }).collect())
}

#[test]
fn a_report_has_the_figures_of_the_views() {
    let instance = group();
    let (page, views) = reported(
        &instance,
        &[
            "SELECT * FROM v$asm_diskgroup_stat",
            "SELECT * FROM v$asm_disk_stat",
            "SELECT d.failgroup || h.io_class AS line, sum(h.wait_count) AS ios
             FROM v$asm_disk_histogram h JOIN v$asm_disk_stat d
               ON d.group_number = h.group_number AND d.disk_number = h.disk_number
             GROUP BY d.failgroup, h.io_class",
            "SELECT * FROM v$asm_read_policy",
            "SELECT failgroup || io_client AS line, sum(reads) AS reads, sum(writes) AS writes
             FROM v$asm_disk_iostat GROUP BY failgroup, io_client",
        ],
    );
    let [group, disks, latencies, policy, purposes] = &views[..] else { panic!("five") };
    let document = parsed(&page);
    let tables = tables(&document);
    let space = &tables["Space of the group"];
    for (row, column) in space.iter().zip([
        "total_mb",
        "cold_used_mb",
        "free_mb",
        "required_mirror_free_mb",
        "usable_file_mb",
    ]) {
        group.have(("name", "DATA"), column, &row["MiB"]);
    }
    assert_eq!(space.len(), 5);
    for name in ["DATA_0000", "DATA_0001"] {
        let key = ("name", name);
        let of = |caption: &str, heading: &str| {
            tables[caption].iter().find(|row| row[heading].ends_with(name)).expect("the disk")
        };
        let bar = of("Disks by failure group", "failure group / disk");
        disks.have(key, "cold_used_mb", &bar["used MiB"]);
        disks.have(key, "free_mb", &bar["free MiB"]);
        let state = of("States and places", "disk");
        assert_eq!((&*state["mode"], &*state["state"]), ("ONLINE", "NORMAL"));
        disks.have(key, "os_mb", &state["device MiB"]);
        let counters = of("I/O and errors since the mount", "disk");
        for (column, heading) in [
            ("reads", "reads"),
            ("writes", "writes"),
            ("bytes_read", "bytes read"),
            ("bytes_written", "bytes written"),
            ("read_errs", "read errors"),
        ] {
            disks.have(key, column, &counters[heading]);
        }
        let reads = of("Reads by reason", "disk");
        for (column, heading) in [
            ("preferred_reads", "preferred"),
            ("faster_reads", "faster"),
            ("only_reads", "only one"),
            ("exploration_reads", "exploration"),
        ] {
            policy.have(key, column, &reads[heading]);
        }
    }
    let lines = &tables["Latencies on the devices"];
    for row in lines {
        let line = format!("{}{}", row["failure group"], row["class"]);
        latencies.have(("line", &line), "ios", &row["I/Os"]);
    }
    assert!(lines.len() >= 4, "two failure groups have reads and writes: {lines:?}");
    let lines = &tables["I/O by purpose"];
    for row in lines {
        let key = format!("{}{}", row["failure group"], row["purpose"]);
        purposes.have(("line", &key), "reads", &row["reads"]);
        purposes.have(("line", &key), "writes", &row["writes"]);
    }
    assert!(lines.len() >= 4, "{lines:?}");
}

#[test]
fn a_report_says_which_mirror_was_read_and_what_is_set() {
    let instance = group();
    let (page, _) = reported(&instance, &[]);
    let document = parsed(&page);
    let paragraphs: Vec<String> = elements(&document, "p").map(text).collect();
    let said = "asm_preferred_read_failure_groups is DATA.F1: preferred here are F1.";
    assert!(paragraphs.iter().any(|paragraph| paragraph == said), "{paragraphs:?}");
    let tables = tables(&document);
    for row in &tables["Reads by reason"] {
        let is_preferred = row["failure group"] == "F1";
        assert_eq!(row["is preferred"] == "Y", is_preferred, "{row:?}");
        assert_eq!(number(&row["reads"]) >= 256.0, is_preferred, "{row:?}");
    }
    let changed = &tables["Attributes that are not the default"];
    assert_eq!(changed.len(), 1, "{changed:?}");
    let [name, value, default] = ["attribute", "value", "default"].map(|head| &*changed[0][head]);
    assert_eq!((name, value, default), ("disk_repair_time", "5.0h", "12.0h"));
    let mount = instance.path("mnt").join("DATA").display().to_string();
    let clients = &tables["Clients of the group"];
    assert!(clients.iter().any(|row| row["type"] == "MOUNT" && row["directory"] == mount));
    let host = instance.text("SELECT host_name FROM v$instance");
    let head = &tables["Host, instance and group"];
    assert!(head.iter().any(|row| row["what"] == "host" && row["value"] == host), "{head:?}");
    let log: String = elements(&document, "pre").map(text).collect();
    let written = instance.alert_log();
    let lines: Vec<&str> = written.lines().filter(|line| line.contains(" DATA: ")).collect();
    assert!(lines.len() > 1, "{written}");
    for line in &lines[..lines.len() - 1] {
        assert!(log.contains(line.chars().take(80).collect::<String>().as_str()), "{line}\n{log}");
    }
}

#[test]
fn a_report_is_one_small_page_that_names_nothing_else_and_runs_nothing() {
    let instance = group();
    let (page, _) = reported(&instance, &[]);
    assert!(page.len() < 300_000, "{} bytes", page.len());
    let document = parsed(&page);
    let sections: Vec<String> = elements(&document, "h2").map(text).collect();
    assert_eq!(sections, SECTIONS);
    assert!(elements(&document, "figure").count() >= 6);
    for node in document.descendants() {
        assert!(!matches!(
            node.tag_name().name(),
            "script" | "b" | "a" | "img" | "link" | "iframe"
        ));
        for attribute in node.attributes() {
            let is_of_request = matches!(attribute.name(), "src" | "href" | "action" | "data");
            assert!(!is_of_request && !attribute.name().starts_with("on"), "{attribute:?}");
        }
    }
    // Names of the two languages are no addresses.
    let page = page
        .replace("\"http://www.w3.org/1999/xhtml\"", "")
        .replace("\"http://www.w3.org/2000/svg\"", "");
    for word in ["http:", "https:", "url(", "@import", "<script"] {
        assert!(!page.contains(word), "{word}");
    }
    // The names are there, as text: a device's, a file's.
    let cells: Vec<String> =
        elements(&document, "td").chain(elements(&document, "th")).map(text).collect();
    assert!(cells.iter().any(|cell| cell == EVIL), "{cells:?}");
    assert!(cells.iter().any(|cell| cell.ends_with(&format!("/f1{EVIL}"))), "{cells:?}");
}

#[test]
fn a_report_is_legible_on_wide_and_narrow_screens_in_light_and_dark() {
    let Some(mut browser) = Browser::start() else { return };
    let instance = group();
    let (page, _) = reported(&instance, &[]);
    let path = instance.path("report.html");
    fs::write(&path, page).expect("written");
    for (width, scheme) in SCREENS {
        assert_eq!(browser.flaws(&path, width, scheme), [""; 0], "at {width}, {scheme}");
        browser.keep_screenshot(&format!("report-{width}-{scheme}"));
    }
}

/// Runs a report in a directory.
fn report_in(instance: &Instance, directory: &Path, words: &str) -> Finished {
    shell(&format!(r#"cd "$1"; "$PROGRAM" report {words}"#))
        .arg(directory)
        .env("PROGRAM", instance.program())
        .env("PLINTH_DIR", instance.dir())
        .finish()
}

#[test]
fn a_report_replaces_nothing_unless_it_is_forced() {
    let instance = group();
    let here = instance.path("here");
    fs::create_dir(&here).expect("mkdir");
    let said = report_in(&instance, &here, "data").ok();
    assert!(said.starts_with("the report is in DATA-report.html ("), "{said}");
    let path = here.join("DATA-report.html");
    parsed(&fs::read_to_string(&path).expect("the page"));
    fs::write(&path, "mine").expect("write");
    let again = report_in(&instance, &here, "data");
    assert_eq!(again.code, Some(2), "{again}");
    assert!(again.err.contains("DATA-report.html exists"), "{again}");
    assert_eq!(fs::read_to_string(&path).expect("read"), "mine");
    let json = report_in(&instance, &here, "--force --json data").ok();
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let size = fs::metadata(&path).expect("the page").len();
    assert_eq!(json[0]["Bytes"].as_u64(), Some(size), "{json}");
    assert!(json[0]["Missing"].is_null(), "{json}");
    report_in(&instance, &here, "data --html other.html").ok();
    let left: Vec<_> = fs::read_dir(&here).expect("a directory").flatten().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_report_without_a_page_exits_with_2_and_one_that_lacks_something_with_1() {
    let instance = group();
    let unknown = instance.plinth(["report", "-o", "-", "nosuch"]);
    assert_eq!((unknown.code, &*unknown.out), (Some(2), ""), "{unknown}");
    assert!(unknown.err.contains("'NOSUCH' does not exist"), "{unknown}");
    instance.unmount(&instance.path("mnt").join("DATA"));
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    let lacking = instance.plinth(["report", "-o", "-", "data"]);
    assert_eq!(lacking.code, Some(1), "{lacking}");
    assert!(lacking.err.contains("disk group DATA is DISMOUNTED"), "{lacking}");
    let document = parsed(&lacking.out);
    let sections: Vec<String> = elements(&document, "h2").map(text).collect();
    assert_eq!(sections, SECTIONS);
    let said = "v$asm_disk_stat could not be asked: disk group DATA is DISMOUNTED.";
    assert!(elements(&document, "p").any(|node| text(node) == said), "{}", lacking.out);
    let log: String = elements(&document, "pre").map(text).collect();
    assert!(log.contains(" DATA: "), "{log}");
}

/// A user who may look, and may not read the alert log.
#[test]
fn a_user_who_may_look_gets_a_report_without_the_alert_log() {
    let mut instance = group();
    instance.kill_instance();
    instance.start_with(&["--look-all"]);
    // Where every user may execute it.
    let program = instance.path("plinth");
    fs::copy(instance.program(), &program).expect("a copy");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("own file");
    let report = shell(r#"exec runuser -u nobody -- "$1" --dir "$2" report -o - data"#)
        .arg(&program)
        .arg(instance.dir())
        .finish();
    assert_eq!(report.code, Some(1), "{report}");
    let lacking: Vec<&str> = report.err.lines().collect();
    assert!(matches!(&lacking[..], [line] if line.contains("the alert log could not be read: ")));
    let document = parsed(&report.out);
    let tables = tables(&document);
    assert_eq!(tables["States and places"].len(), 2);
    assert_eq!(elements(&document, "pre").count(), 0);
}

#[test]
fn loads_are_compared_by_the_program_that_is_shipped() {
    let instance = Instance::new();
    let run = |name: &str, bucket: u64| {
        let path = instance.path(&format!("{name}.json"));
        let class = format!(
            r#"{{"name":"random-read","class":null,"requests":10,"bytes":40960,"errors":0,"latency":{{"counts":[[{bucket},10]]}}}}"#
        );
        let text = format!(
            r#"{{"version":1,"label":"{name}","source":"test","targets":[],"began":null,"seconds":1.0,"issued":"open","classes":[{class}]}}"#
        );
        fs::write(&path, text).expect("write");
        path.display().to_string()
    };
    let (near, far) = (run("near", 100_000), run("far", 200_000));
    for flags in [
        ["--json", "load", "compare"],
        ["load", "--json", "compare"],
        ["load", "compare", "--json"],
    ] {
        let said = instance.plinth(flags.into_iter().chain([&*near, &*far])).ok();
        let json: serde_json::Value =
            serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        assert!(json.is_object(), "{said}");
    }
    let table = instance.plinth(["load", "compare", &near, &far]).ok();
    assert!(table.contains("near") && table.contains("far"), "{table}");
    let missing = instance.plinth(["load", "compare", &near, "/nowhere"]);
    assert_eq!(missing.code, Some(2), "{missing}");
    assert!(missing.err.contains("/nowhere"), "{missing}");
    assert!(instance.plinth(["man"]).ok().contains(".SS load compare"));
}
