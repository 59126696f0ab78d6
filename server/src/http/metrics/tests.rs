//! The text as a whole: its size, its names, and what hostile names do to it.

use super::{
    classic, families,
    snapshot::{GroupSnapshot, Snapshot},
};
use crate::engine::protocol::EngineFigures;
use plinth_engine::{
    admin::{Operation, OperationPass, OperationState},
    views::figures::{DiskFigures, Figures, Latencies, PurposeFigures},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

const PURPOSES: [&str; 7] =
    ["FILES", "CATALOG", "RECORDS", "CHECKSUMS", "COPIES", "CHECKS", "EXPLORATION"];
const ERRORS: [&str; 15] = [
    "READ FAILED",
    "WRITE FAILED",
    "FLUSH FAILED",
    "DISCARD FAILED",
    "NO ROOM",
    "READ TIMEOUT",
    "WRITE TIMEOUT",
    "SLOW",
    "SLOWER",
    "CHECKSUM",
    "REPAIRED",
    "NOT REPAIRED",
    "METADATA",
    "REFUSED",
    "OFFLINE",
];
const REASONS: [&str; 6] = ["PREFERRED", "FASTER", "EQUAL", "ONLY", "RETRY", "EXPLORATION"];
const CLASSES: [&str; 5] = ["SMALL READ", "LARGE READ", "SMALL WRITE", "LARGE WRITE", "SYNC"];

fn latencies(word: &str) -> (String, Latencies) {
    (word.to_owned(), Latencies { counts: (0..33).collect(), nanos: 12_345_678_901 })
}

fn counted(words: &[&str]) -> Vec<(String, u64)> {
    words.iter().zip(1..).map(|(word, count)| ((*word).to_owned(), count)).collect()
}

/// A disk to which everything has happened.
fn disk(name: &str, failure_group: &str) -> DiskFigures {
    let purpose = |purpose: &&str| PurposeFigures {
        purpose: (*purpose).to_owned(),
        reads: 1,
        writes: 2,
        bytes_read: 4096,
        bytes_written: 8192,
    };
    DiskFigures {
        name: name.to_owned(),
        failure_group: failure_group.to_owned(),
        mode: "ONLINE".to_owned(),
        state: "NORMAL".to_owned(),
        size: 1 << 40,
        total: 1 << 39,
        free: 1 << 38,
        purposes: PURPOSES.iter().map(purpose).collect(),
        latencies: ["READ", "WRITE", "FLUSH", "DISCARD"].map(latencies).into(),
        errors: counted(&ERRORS),
        read_reasons: counted(&REASONS),
        ..DiskFigures::default()
    }
}

fn group(disks: Vec<DiskFigures>) -> GroupSnapshot {
    let operation = |pass: &str| Operation {
        pass: if pass == "RESYNC" { OperationPass::Resync } else { OperationPass::Rebalance },
        state: OperationState::Run,
        power: 1,
        so_far: 3,
        work: 9,
        rate: 2,
        bytes: 4096,
        error: None,
    };
    let figures = Figures {
        state: "MOUNTED".to_owned(),
        redundancy: "NORMAL".to_owned(),
        usable: -5,
        disks,
        operations: ["RESYNC", "RESYNC", "REBALANCE"].map(operation).into(),
        extents_lacking: [(1, 4)].into(),
        requests: CLASSES.map(latencies).into(),
        scrub: plinth_engine::views::figures::ScrubFigures {
            ended: Some(1_795_000_000_000_000_000),
            found: 2,
            repaired: 1,
        },
        ..Figures::default()
    };
    GroupSnapshot {
        is_up: true,
        age: Some(Duration::from_millis(3)),
        restarts: 1,
        engine: Some(Arc::new(EngineFigures { group: figures, ..EngineFigures::default() })),
    }
}

/// `disks` in all, in equal groups.
fn snapshot(disks: usize, groups: usize) -> Snapshot {
    let of_group = |number: usize| {
        let disk = |at: usize| disk(&format!("DATA{number}_{at:04}"), &format!("FG{}", at % 4));
        (format!("DATA{number}"), group((0..disks / groups).map(disk).collect()))
    };
    Snapshot {
        host: "storage1".to_owned(),
        groups: (0..groups).map(of_group).collect(),
        ..Snapshot::default()
    }
}

fn samples(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

/// The name of a sample, and what its labels are.
fn series(line: &str) -> &str {
    line.rsplit_once(' ').expect("a value").0
}

/// The families of a text: names as they are queried, with type and help.
fn families(text: &str) -> BTreeMap<String, (String, String)> {
    let help: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' ')).collect();
    text.lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .map(|(name, kind)| {
            let help = help.get(name).unwrap_or_else(|| panic!("{name} is not explained"));
            (name.to_owned(), (kind.to_owned(), (*help).to_owned()))
        })
        .collect()
}

fn shown() -> String {
    classic::of(&families::write(snapshot(4, 1)))
}

/// A file of the repository.
fn file(path: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn a_hundred_disks_are_at_most_16000_series() {
    for groups in [1, 2, 10] {
        let text = families::write(snapshot(100, groups));
        let all: Vec<&str> = samples(&text).map(series).collect();
        assert!(all.len() <= 16_000, "{groups} groups: {} series", all.len());
        assert!(all.len() > 10_000, "{groups} groups: is this all? {} series", all.len());
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "each comes once");
    }
}

/// The number of series does not depend on what has happened: nothing new appears in an incident
/// but the kinds of errors.
#[test]
fn idle_disks_have_the_histograms_of_busy_ones() {
    let busy = families::write(snapshot(1, 1));
    let mut quiet = disk("DATA0_0000", "FG0");
    quiet.latencies.iter_mut().for_each(|(_, latencies)| *latencies = Latencies::default());
    let mut idle = snapshot(1, 1);
    idle.groups.insert("DATA0".to_owned(), group(vec![quiet]));
    let idle = families::write(idle);
    assert_eq!(
        samples(&busy).map(series).collect::<Vec<_>>(),
        samples(&idle).map(series).collect::<Vec<_>>()
    );
}

#[test]
fn every_family_is_explained_in_the_documentation() {
    let documented: BTreeMap<String, (String, String)> = file("docs/metrics.md")
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.strip_prefix("| `plinth_")?.split(" | ").collect();
            let [name, kind, _, help] = cells[..] else { return None };
            let name = format!("plinth_{}", name.trim_end_matches('`'));
            Some((name, (kind.to_owned(), help.trim_end_matches(" |").to_owned())))
        })
        .collect();
    let written = families(&shown());
    let stranger =
        |(name, found): &(&String, &(String, String))| documented.get(*name) != Some(found);
    let wrong: Vec<_> = written.iter().filter(stranger).collect();
    assert!(wrong.is_empty(), "docs/metrics.md says otherwise, or nothing: {wrong:#?}");
    let gone: Vec<_> = documented.keys().filter(|name| !written.contains_key(*name)).collect();
    assert!(gone.is_empty(), "docs/metrics.md has what is not there: {gone:?}");
    // Families are there before there is anything to count.
    let empty = classic::of(&families::write(Snapshot::default()));
    assert_eq!(families(&empty), written);
}

#[test]
fn labels_are_those_of_the_documentation() {
    let text = shown();
    for line in file("docs/metrics.md").lines() {
        let Some(cells) = line.strip_prefix("| `plinth_") else { continue };
        let cells: Vec<&str> = cells.split(" | ").collect();
        let [name, _, labels, _] = cells[..] else { continue };
        let name = format!("plinth_{}", name.trim_end_matches('`'));
        let one = samples(&text)
            .map(series)
            .find(|series| {
                let found = series.split('{').next().unwrap_or_default();
                found == name || found == format!("{name}_sum")
            })
            .unwrap_or_else(|| panic!("no sample of {name}"));
        let found: Vec<&str> = one
            .split_once('{')
            .map_or("", |(_, labels)| labels)
            .split(',')
            .filter_map(|label| Some(label.split_once('=')?.0))
            .collect();
        let meant: Vec<&str> =
            labels.split(", ").map(|label| label.trim_matches('`')).filter(|l| *l != "-").collect();
        assert_eq!(found, meant, "{name}");
    }
}

#[test]
fn rules_and_board_name_only_metrics_that_exist() {
    let names: BTreeSet<String> = samples(&shown())
        .map(|line| line.split(['{', ' ']).next().unwrap_or_default().to_owned())
        .collect();
    let name = regex::Regex::new(r"\bplinth_[a-z][a-z0-9_]+").expect("a pattern");
    for path in [
        "packaging/prometheus/plinth.rules.yml",
        "packaging/prometheus/plinth.test.yml",
        "packaging/grafana/plinth.json",
        "docs/operating.md",
    ] {
        let text = file(path);
        let named: BTreeSet<&str> = name.find_iter(&text).map(|found| found.as_str()).collect();
        let strange: Vec<_> = named.iter().filter(|name| !names.contains(**name)).collect();
        assert!(strange.is_empty(), "{path} names what is not exported: {strange:?}");
    }
    let board: serde_json::Value =
        serde_json::from_str(&file("packaging/grafana/plinth.json")).expect("JSON");
    assert!(board["panels"].as_array().is_some_and(|panels| panels.len() > 20));
}

/// Each rule is in a test of its own file.
#[test]
fn every_rule_is_tested() {
    let (rules, tests) = (
        file("packaging/prometheus/plinth.rules.yml"),
        file("packaging/prometheus/plinth.test.yml"),
    );
    let rules: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(rules.len() > 10, "{rules:?}");
    let untested: Vec<_> = rules.iter().filter(|rule| !tests.contains(**rule)).collect();
    assert!(untested.is_empty(), "{untested:?}");
}

#[test]
fn hostile_names_stay_within_their_labels() {
    let name = "a\"} 1\nplinth_engine_up{group=\"x\\\n# EOF\r\0\u{202e}";
    let mut hostile = snapshot(1, 1);
    let disks = vec![disk(name, name), disk(name, "again"), disk("", "")];
    hostile.groups = [(name.to_owned(), group(disks))].into();
    let text = families::write(hostile);
    let escaped = "a\\\"} 1\\nplinth_engine_up{group=\\\"x\\\\\\n# EOF\r\0\u{202e}";
    let label = format!("group=\"{escaped}\"");
    assert!(text.contains(&format!("plinth_engine_up{{{label}}} 1.0\n")), "{text}");
    assert!(text.ends_with("\n# EOF\n") && text.matches("\n# EOF").count() == 1);
    let all: Vec<&str> = samples(&text).map(series).collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "each comes once");
    assert!(all.iter().all(|series| series.starts_with("plinth_")), "{text}");
}

/// A group whose engine is gone keeps its last figures, and is told to be down.
#[test]
fn a_group_that_is_down_keeps_its_figures() {
    let mut down = snapshot(2, 1);
    down.groups.values_mut().for_each(|group| group.is_up = false);
    down.groups.insert("NEW".to_owned(), GroupSnapshot::default());
    let text = families::write(down);
    for line in [
        "plinth_engine_up{group=\"DATA0\"} 0.0",
        "plinth_engine_up{group=\"NEW\"} 0.0",
        "plinth_diskgroup_state{group=\"DATA0\",state=\"broken\"} 1.0",
        "plinth_disk_free_bytes{group=\"DATA0\",disk=\"DATA0_0001\",failgroup=\"FG1\"} 274877906944.0",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in {text}");
    }
    assert!(!text.contains("plinth_engine_figures_age_seconds{group=\"NEW\"}"));
}

/// Runs promtool, if this host has it; `./test` installs it.
fn promtool(arguments: &[&str], input: &str) -> Option<String> {
    let mut tool = Command::new("promtool")
        .args(arguments)
        .current_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let mut stdin = tool.stdin.take()?;
    let text = input.to_owned();
    let writing = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let ended = tool.wait_with_output().expect("promtool ends");
    let _ = writing.join();
    let said = [ended.stdout, ended.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(ended.status.success(), "promtool {}: {said}", arguments.join(" "));
    Some(said)
}

#[test]
fn promtool_finds_nothing_to_say_about_the_metrics() {
    if let Some(said) = promtool(&["check", "metrics"], &shown()) {
        assert_eq!(said.trim(), "");
    }
}

#[test]
fn promtool_finds_the_rules_to_do_what_their_tests_say() {
    promtool(&["check", "rules", "packaging/prometheus/plinth.rules.yml"], "");
    promtool(&["test", "rules", "packaging/prometheus/plinth.test.yml"], "");
}
