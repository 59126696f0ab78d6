//! `plinth load distance` as it is called: its tables, its JSON, its refusals.

use clap::Parser;
use plinth_evidence::command::Load;
use std::process::ExitCode;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    load: Load,
}

fn run(arguments: &[&str]) -> Result<(ExitCode, String), clap::Error> {
    let all = ["load", "distance"].iter().chain(arguments);
    let mut out = Vec::new();
    let code = Arguments::try_parse_from(all)?.load.run(&mut out);
    Ok((code, String::from_utf8(out).expect("text")))
}

fn printed(arguments: &[&str]) -> String {
    let (code, text) = run(arguments).expect("the arguments are right");
    assert_eq!(code, ExitCode::SUCCESS, "{arguments:?}");
    text
}

fn row(text: &str, km: &str) -> Vec<String> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let found = text.lines().map(words).find(|words| words.first().is_some_and(|word| word == km));
    found.unwrap_or_else(|| panic!("no row for {km} in:\n{text}"))
}

#[test]
fn the_article_counts_the_overhead_twice_and_the_right_table_once() {
    let text = printed(&["--article"]);
    assert_eq!(row(&text, "10"), ["10", "0.100", "1.354", "0.754", "0.760", "0.860", "1.920"]);
    assert_eq!(row(&text, "150")[3..5], ["2.154", "2.160"]);
    assert_eq!(row(&text, "150/10")[2..4], ["x2.03", "x2.86"]);
}

#[test]
fn given_points_show_what_the_overhead_counted_twice_would_be() {
    let text = printed(&["--points", "2k:0.66ms,5k:0.74ms", "--array", "1.77ms@2.5"]);
    assert!(text.contains("0.0267 (0.0233 to 0.0300) ms/KiB: 37 MiB/s"), "{text}");
    assert_eq!(row(&text, "10"), ["10", "0.100", "1.367", "0.760", "0.860", "1.920"]);
}

/// Two targets, one of them two round trips of 0.5 ms away, as measured once.
const MEASURED: &str = r#"{"measured":{"version":1,"targets":[
 {"name":"near","rtt":0,"cells":[
  {"size":2048,"writes":9,"median":2e5,"p25":2e5,"p75":2e5,"p99":2e5,"rounds":[2e5,2e5,2e5,2e5,2e5],"rounding":0},
  {"size":4096,"writes":9,"median":3e5,"p25":3e5,"p75":3e5,"p99":3e5,"rounds":[3e5,3e5,3e5,3e5,3e5],"rounding":0}]},
 {"name":"far","rtt":5e5,"cells":[
  {"size":2048,"writes":9,"median":12e5,"p25":2e5,"p75":2e5,"p99":2e5,"rounds":[12e5,12e5,12e5,12e5,12e5],"rounding":0},
  {"size":4096,"writes":9,"median":13e5,"p25":3e5,"p75":3e5,"p99":3e5,"rounds":[13e5,13e5,13e5,13e5,13e5],"rounding":0}]}]}}"#;

#[test]
fn a_file_of_measurements_gives_the_same_table_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("measured.json");
    std::fs::write(&path, MEASURED).expect("written");
    let path = path.to_str().expect("a path");
    let text = printed(&["--from", path]);
    assert!(text.contains("round trips  2.00 (2.00 to 2.00)"), "{text}");
    assert_eq!(row(&text, "100"), ["100", "1.000", "0.200", "2.200", "2.200", "2.200"]);
    let json = printed(&["--from", path, "--json"]);
    let again = directory.path().join("again.json");
    std::fs::write(&again, &json).expect("written");
    assert_eq!(printed(&["--from", again.to_str().expect("a path")]), text);
}

#[test]
fn wrong_arguments_end_with_2() {
    for arguments in [
        &[][..],
        &["--from", "/nonexistent"],
        &["--from", "/"],
        &["--from", "/dev/null"],
        &["/dev/null"],
        &["/tmp", "--remote", "/tmp"],
        &["/tmp", "--sizes", "2k,4k"],
        &["/proc/nothing/there"],
    ] {
        let (code, text) = run(arguments).expect("clap takes them");
        assert_eq!((code, text.as_str()), (ExitCode::from(2), ""), "{arguments:?}");
    }
    for arguments in
        [&["--points", "2k"][..], &["--km", "x"], &["--sizes", "3"], &["--article", "/tmp"]]
    {
        assert!(run(arguments).is_err(), "{arguments:?}");
    }
}

#[test]
fn a_directory_is_measured_and_nothing_is_left_in_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("a path");
    let arguments = [path, "--writes", "5", "--sizes", "4k,8k,16k,32k", "--json"];
    let (code, text) = run(&arguments).expect("the arguments are right");
    // Where there is no direct I/O it is refused.
    if code == ExitCode::SUCCESS {
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let cells = &report["measured"]["targets"][0]["cells"];
        assert_eq!(cells.as_array().map(Vec::len), Some(4), "{text}");
        assert_eq!(cells[0]["writes"], 5);
    } else {
        assert_eq!(code, ExitCode::from(2));
    }
    assert_eq!(std::fs::read_dir(directory.path()).expect("read").count(), 0);
}
