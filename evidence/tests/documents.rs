//! The examples of docs/evidence.md, run as they stand there, and the example report.
//!
//! A block is run if its fence says so: ```` ```console run ````. Lines that begin with `$ ` are
//! commands; the lines below them are their standard output. All blocks are one
//! story in one directory. Commands are run on small targets for a short time ([`SMALLER`]), and
//! the shape of their output is compared: numbers are N, and a line of `...` stands for any
//! lines.
//!
//! `UPDATE=1` writes the example report, and prints the output of each command.

#[allow(dead_code, reason = "other tests write the other formats")]
mod generator;

use clap::Parser;
use generator::{Figures, Release, Style, awr_html};
use plinth_evidence::command::Load;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    load: Load,
}

/// Words of the document, and what the test has in their place.
const SMALLER: &[(&str, &str)] = &[
    ("--seconds 60", "--seconds 3"),
    ("--run-time 60", "--run-time 1"),
    ("--size 2G", "--size 128M"),
    ("--scale 256M", "--scale 80M"),
    ("--writes 1000", "--writes 5"),
    ("/mnt/", "mnt/"),
];

const DIRECTORIES: [&str; 5] = ["array", "guest", "near", "far", "data"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// An hour of an order system: 420 single block reads a second, 30 large ones of 512 KiB, 150 and 8
/// writes, and 40 log writes on two members.
fn example() -> Figures {
    let elapsed = 3600.0;
    let (small, large, writes, large_writes, redo) =
        (420.0 * elapsed, 30.0 * elapsed, 150.0 * elapsed, 8.0 * elapsed, 40.0 * elapsed);
    let (members, redo_blocks) = (2.0, redo * 16.0);
    Figures {
        elapsed,
        block: 8192,
        reads: small + large,
        large_reads: large,
        read_bytes: small * 8192.0 + large * 524_288.0,
        writes: writes + large_writes + redo * members,
        large_writes,
        write_bytes: writes * 8192.0 + large_writes * 262_144.0 + redo_blocks * 512.0 * members,
        redo_writes: redo,
        redo_blocks,
        members,
    }
}

#[test]
fn the_example_report_is_what_the_generator_writes() {
    let style = Style { is_closed: true, is_crlf: false, space: "&#160;" };
    let report = awr_html(&example(), Release::V19, style);
    let path = root().join("evidence/examples/awr.html");
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, &report).expect("written");
    }
    let found = fs::read_to_string(&path).expect("the example report");
    assert!(found == report, "{} is another one: run this test with UPDATE=1", path.display());
}

struct Example {
    /// Where the command is, for messages.
    line: usize,
    command: String,
    output: Vec<String>,
}

/// The commands of the blocks that are marked.
fn examples(document: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut is_inside = false;
    for (line, text) in document.lines().enumerate() {
        match text {
            "```console run" => is_inside = true,
            "```" => is_inside = false,
            _ if !is_inside => {}
            text => match (text.strip_prefix("$ "), found.last_mut()) {
                (Some(command), _) => found.push(Example {
                    line: line + 1,
                    command: command.to_owned(),
                    output: Vec::new(),
                }),
                (None, Some(example)) => example.output.push(text.to_owned()),
                (None, None) => panic!("line {line}: output without a command"),
            },
        }
    }
    found
}

/// A line with numbers as N, units of times as U, bars and rules as one sign, blanks as one.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    for word in line.split_whitespace() {
        let (mut of_word, mut is_number) = (String::new(), false);
        let letters: Vec<char> = word.chars().collect();
        for (at, letter) in letters.iter().copied().enumerate() {
            let has_digit = |at: Option<&char>| at.is_some_and(char::is_ascii_digit);
            let next = letters.get(at + 1);
            let is_sign = matches!(letter, '+' | '-')
                && has_digit(next)
                && (at == 0 || !letters[at - 1].is_alphanumeric());
            let is_point = matches!(letter, '.' | ',') && is_number && has_digit(next);
            if letter.is_ascii_digit() || is_sign || is_point {
                if !is_number {
                    of_word.push('N');
                }
                is_number = true;
            } else {
                is_number = false;
                if !(matches!(letter, '#' | '-' | '=' | '█') && of_word.ends_with(letter)) {
                    of_word.push(letter);
                }
            }
        }
        let is_unit = shape.ends_with('N') && matches!(word, "ns" | "us" | "ms" | "s");
        shape += if shape.is_empty() { "" } else { " " };
        shape += if is_unit { "U" } else { &of_word };
    }
    shape
}

/// Shapes of lines; equal ones that follow each other, such as rows of a histogram, are one.
fn shapes<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut all: Vec<String> = lines.map(shape).collect();
    all.dedup();
    while all.last().is_some_and(String::is_empty) {
        all.pop();
    }
    all
}

fn is_match(wanted: &[String], found: &[String]) -> bool {
    match wanted.split_first() {
        None => found.is_empty(),
        Some((first, rest)) if first == "..." => {
            (0..=found.len()).any(|skipped| is_match(rest, &found[skipped..]))
        }
        Some((first, rest)) => found
            .split_first()
            .is_some_and(|(line, others)| line == first && is_match(rest, others)),
    }
}

fn run(command: &str) -> String {
    let command =
        SMALLER.iter().fold(command.to_owned(), |text, (from, to)| text.replace(from, to));
    let Some(arguments) = command.strip_prefix("plinth load ") else {
        let ended = Command::new("sh").args(["-ec", &command]).output().expect("a shell");
        assert!(ended.status.success(), "{command}: {ended:?}");
        return String::from_utf8(ended.stdout).expect("text");
    };
    let words = shell_words(arguments);
    let all = ["load".to_owned()].into_iter().chain(words);
    let load = Arguments::try_parse_from(all).unwrap_or_else(|e| panic!("{command}: {e}")).load;
    let mut out = Vec::new();
    let code = load.run(&mut out);
    let text = String::from_utf8(out).expect("text");
    assert_eq!(code, ExitCode::SUCCESS, "{command}: {text}");
    text
}

/// Words, of which some are in quotes.
fn shell_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in text.split('\'').enumerate() {
        if at % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[test]
fn the_commands_of_the_document_print_what_it_shows() {
    let text = fs::read_to_string(root().join("docs/evidence.md")).expect("the document");
    let examples = examples(&text);
    assert!(examples.len() >= 10, "only {} commands are run", examples.len());
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let report = root().join("evidence/examples/awr.html");
    fs::copy(report, directory.path().join("awr.html")).expect("copied");
    for name in DIRECTORIES {
        fs::create_dir_all(directory.path().join("mnt").join(name)).expect("a directory");
    }
    env::set_current_dir(directory.path()).expect("it is there");
    let mut wrong = Vec::new();
    for example in examples {
        let found = run(&example.command).replace("mnt/", "/mnt/");
        if env::var_os("UPDATE").is_some() {
            eprintln!("$ {}\n{found}", example.command);
        }
        let (wanted, shapes) =
            (shapes(example.output.iter().map(String::as_str)), shapes(found.lines()));
        if !is_match(&wanted, &shapes) {
            wrong.push(format!(
                "docs/evidence.md, line {}: {}\nwanted:\n{}\nfound:\n{}",
                example.line,
                example.command,
                wanted.join("\n"),
                shapes.join("\n")
            ));
        }
    }
    for name in DIRECTORIES {
        let left = fs::read_dir(Path::new("mnt").join(name)).expect("it is there").count();
        assert_eq!(left, 0, "mnt/{name}");
    }
    env::set_current_dir(root()).expect("it is there");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn shapes_have_no_numbers_and_keep_words() {
    assert_eq!(shape("  random read  1,234.5 +3.1 %  x2.86"), "random read N N % xN");
    assert_eq!(shape("mean 2.5 ms of 7 us, ms"), "mean N U of N us, ms");
    assert_eq!(shape("log-write -3 #### 8K 1e5"), "log-write N # NK NeN");
    let lines = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    assert!(is_match(&lines(&["a", "...", "c"]), &lines(&["a", "b", "b", "c"])));
    assert!(is_match(&lines(&["a", "..."]), &lines(&["a"])));
    assert!(!is_match(&lines(&["a", "..."]), &lines(&["b", "a"])));
    assert!(!is_match(&lines(&["a"]), &lines(&["a", "b"])));
}
