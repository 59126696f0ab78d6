//! No script ends with exit code 0 without its work.
//!
//! A script is a list of parts: statements and layout commands of `tests/corpus`, `SET` commands
//! under every abbreviation, comments, `PROMPT`, blank lines, and *markers*: statements whose
//! effect can be seen afterwards. A marker is a directory or a template with a name of its own, or
//! a `SELECT` that puts a word together which stands nowhere in the text.
//!
//! A script runs in one of three ways: through `plinth sql` on a pipe, as a file of `sqlplus`, as a
//! file of `psql`. Then what was carried out is compared with the text:
//!
//!   1. A script without damage ends with 0, prints no error, and every marker was carried out; a
//!      marker in a comment was not.
//!   2. A script with damage (a terminator is missing or stands twice, two lines are one, a blank
//!      line or a quotation mark is in a statement, a comment has no end, a client command
//!      continues into a statement) may do as it likes, but for this: if it ends with 0 and prints
//!      no error, every marker was carried out.
//!   3. After `WHENEVER SQLERROR EXIT`, a refused statement does not end with 0.
//!
//! A failure is printed with its seed, and with the shortest script that still fails.
//! `PLINTH_LONG=1` runs 100,000 scripts; `PLINTH_SEEDS=7` one, `PLINTH_SEEDS=7..900` those.

use plinth_tests::{
    Instance, MIB,
    corpus::{self, Piece},
    scaled, shell,
};
use plinth_workload::random::Random;
use regex::Regex;
use std::{collections::BTreeSet, env, fmt::Write as _, fs, sync::LazyLock};

/// Words of an error in what a client prints.
static ERROR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)ORA-\d{5}|SP2-\d{4}|^ERROR\b|^plinth:|^psql:.*ERROR:|not supported")
        .expect("a pattern")
});

/// Settings of SQL*Plus, the fewest letters of each, and values that hide nothing.
const SETTINGS: [(&str, usize, &[&str]); 25] = [
    ("ARRAYSIZE", 5, &["15", "100"]),
    ("AUTOTRACE", 5, &["OFF"]),
    ("COLSEP", 6, &["' '", "'|'"]),
    ("ECHO", 4, &["OFF"]),
    ("FEEDBACK", 4, &["OFF", "ON", "6"]),
    ("HEADING", 3, &["OFF", "ON"]),
    ("LINESIZE", 3, &["80", "200"]),
    ("LONG", 4, &["1000"]),
    ("LONGCHUNKSIZE", 5, &["1000"]),
    ("NEWPAGE", 4, &["0", "1", "NONE"]),
    ("NULL", 4, &["'-'", "''"]),
    ("NUMFORMAT", 4, &["999999999990.99"]),
    ("NUMWIDTH", 3, &["12", "20"]),
    ("PAGESIZE", 5, &["0", "14", "50"]),
    ("PAUSE", 3, &["OFF"]),
    ("RECSEP", 6, &["OFF", "WRAPPED"]),
    ("SERVEROUTPUT", 9, &["ON", "OFF"]),
    ("SQLPROMPT", 4, &["'> '"]),
    ("TAB", 3, &["OFF", "ON"]),
    ("TIME", 2, &["OFF"]),
    ("TIMING", 4, &["OFF"]),
    ("TRIMOUT", 4, &["ON", "OFF"]),
    ("TRIMSPOOL", 5, &["ON"]),
    ("VERIFY", 3, &["OFF", "ON"]),
    ("WRAP", 3, &["ON"]),
];

fn one_in(random: &mut Random, times: usize) -> bool {
    random.below(times) == 0
}

fn pick<'a, T>(random: &mut Random, list: &'a [T]) -> &'a T {
    &list[random.below(list.len())]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    /// `plinth sql`, the script on its standard input.
    Pipe,
    /// `sqlplus -S / as sysasm @file`
    Sqlplus,
    /// `psql -f file`
    Psql,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    NoTerminator,
    /// The end of the line after it is missing.
    Joined,
    BlankLine,
    Quote,
    /// `/*` before it, without an end.
    Comment,
    /// A client command before it continues on its first line.
    Continued(&'static str),
    /// A `SET` before it is wrong.
    Set,
    /// A second `;`.
    Twice,
}

/// Commands that continue into a statement.
const CONTINUED: [&str; 10] = [
    "SET PAGESIZE 50",
    "COLUMN name FORMAT a20",
    "CLEAR COLUMNS",
    "TTITLE LEFT x",
    "BREAK ON name",
    "COMPUTE SUM OF bytes",
    "DEFINE second = b",
    "PROMPT some text",
    "PAUSE some text",
    "WHENEVER SQLERROR CONTINUE",
];

/// How a statement ends that is not damaged.
const ENDS: [&str; 9] =
    [";", ";", "\n/", "\n/", "\n;", " ;  ", "\n  /  ", " -- its end\n;", " /* its end */;"];

/// A statement that leaves something to be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    Directory,
    Template,
    Select,
}

#[derive(Debug, Clone)]
enum Part {
    /// A line or several that have no effect of their own.
    Lines(String),
    Statement {
        text: String,
        end: &'static str,
        damage: Option<Damage>,
    },
    Marker {
        kind: Marker,
        /// Chooses among the ways to write it.
        form: usize,
        end: &'static str,
        damage: Option<Damage>,
    },
    /// A marker in a script of its own, and the command that calls it.
    Called {
        kind: Marker,
        command: &'static str,
    },
    /// A marker in a comment, of one of four kinds.
    Dead {
        kind: Marker,
        comment: usize,
    },
}

/// Markers, each with its text.
type Marked = Vec<(Marker, String)>;

impl Part {
    fn damage(&self) -> Option<Damage> {
        match self {
            Part::Statement { damage, .. } | Part::Marker { damage, .. } => *damage,
            Part::Lines(_) | Part::Dead { .. } | Part::Called { .. } => None,
        }
    }
}

/// Names of markers: as they stand in the views, or in the output.
fn name(kind: Marker, run: u64, at: usize) -> String {
    match kind {
        Marker::Directory => format!("dir{run}x{at}"),
        Marker::Template => format!("TPL{run}X{at}"),
        Marker::Select => format!("mark{run}x{at}"),
    }
}

/// The statement of a marker.
fn statement(kind: Marker, form: usize, run: u64, at: usize) -> String {
    let name = name(kind, run, at);
    match (kind, form) {
        (Marker::Directory, 0) => format!("ALTER DISKGROUP fuzz ADD DIRECTORY '+FUZZ/{name}'"),
        (Marker::Directory, 1) => format!("alter diskgroup fuzz\n  add directory '+fuzz/{name}'"),
        (Marker::Directory, _) => {
            format!("Alter Diskgroup FUZZ -- the group\n  Add Directory\n    '+FUZZ/{name}'")
        }
        (Marker::Template, 0) => {
            format!("ALTER DISKGROUP fuzz ADD TEMPLATE {name} ATTRIBUTES (COARSE)")
        }
        (Marker::Template, 1) => {
            format!("alter diskgroup fuzz add template {name}\nattributes (mirror fine)")
        }
        (Marker::Template, _) => {
            format!(
                "ALTER DISKGROUP fuzz /* a\n   template */ ADD TEMPLATE {name}\n ATTRIBUTES (FINE)"
            )
        }
        // The word is whole in the output only.
        (Marker::Select, 0) => format!("SELECT 'ma' || 'rk{run}x{at}' AS marker FROM dual"),
        (Marker::Select, 1) => {
            format!("select 'ma'\n    || 'rk{run}x{at}' as marker\n  from dual\n where 1 = 1")
        }
        // psql has no such variables; the stock of forms for it ends before this one.
        (Marker::Select, 3) => format!("SELECT '&first' || 'rk{run}x{at}' AS marker FROM dual"),
        (Marker::Select, _) => format!(
            "WITH w AS (SELECT 'ma' m FROM dual)
SELECT w.m || 'rk{run}x{at}' AS marker -- the word
  FROM w"
        ),
    }
}

#[derive(Clone)]
struct Case {
    client: Client,
    parts: Vec<Part>,
    /// The first line is `WHENEVER SQLERROR EXIT`.
    watched: bool,
    /// Lines end with a carriage return too.
    has_returns: bool,
    /// The last line has no end.
    is_open: bool,
}

impl Case {
    /// Whether nothing of it is damaged.
    fn is_sound(&self) -> bool {
        self.parts.iter().all(|part| part.damage().is_none())
    }

    /// The text, and that of the scripts that it calls, in files of this folder.
    fn text(&self, run: u64, folder: &str) -> (String, Vec<(String, String)>) {
        let mut text = String::new();
        let mut called = Vec::new();
        if self.watched {
            text.push_str("WHENEVER SQLERROR EXIT FAILURE\n");
        }
        if self.client != Client::Psql {
            text.push_str("DEFINE first = ma\n");
        }
        for (at, part) in self.parts.iter().enumerate() {
            match part {
                Part::Lines(lines) => {
                    text.push_str(lines);
                    text.push('\n');
                }
                Part::Statement { text: statement, end, damage } => {
                    write_statement(&mut text, statement, end, *damage);
                }
                Part::Marker { kind, form, end, damage } => {
                    let statement = statement(*kind, *form, run, at);
                    write_statement(&mut text, &statement, end, *damage);
                }
                Part::Called { kind, command } => {
                    let file = format!("{folder}/called{at}.sql");
                    text.push_str(&format!("{command}{file}\n"));
                    let inner = format!("REM called\n{};\n", statement(*kind, at % 3, run, at));
                    called.push((file, inner));
                }
                Part::Dead { kind, comment } => {
                    let statement = statement(*kind, 0, run, at);
                    text.push_str(&match comment {
                        0 => format!("-- {statement}\n"),
                        1 => format!("/* {statement};\n*/\n"),
                        2 => format!("REM {statement}\n"),
                        _ => format!("/*\n{statement};\n/\n*/\n"),
                    });
                }
            }
        }
        if self.is_open {
            text.pop();
        }
        if self.has_returns {
            text = text.replace('\n', "\r\n");
        }
        (text, called)
    }

    /// Names of its markers; those that must not be carried out are second.
    fn markers(&self, run: u64) -> (Marked, Marked) {
        let (mut live, mut dead) = (Vec::new(), Vec::new());
        for (at, part) in self.parts.iter().enumerate() {
            match part {
                Part::Marker { kind, .. } | Part::Called { kind, .. } => {
                    live.push((*kind, name(*kind, run, at)))
                }
                Part::Dead { kind, .. } => dead.push((*kind, name(*kind, run, at))),
                Part::Lines(_) | Part::Statement { .. } => {}
            }
        }
        (live, dead)
    }
}

fn write_statement(text: &mut String, statement: &str, end: &str, damage: Option<Damage>) {
    let mut statement = statement.to_owned();
    match damage {
        Some(Damage::BlankLine) => {
            let at = statement.find('\n').or_else(|| statement.rfind(' ')).unwrap_or(0);
            statement.replace_range(at..=at, "\n\n");
        }
        Some(Damage::Quote) => {
            let at = statement.rfind(' ').unwrap_or(0);
            statement.insert(at, '\'');
        }
        Some(Damage::Comment) => statement.insert_str(0, "/* "),
        Some(Damage::Continued(command)) => statement.insert_str(0, &format!("{command} -\n")),
        Some(Damage::Set) => statement.insert_str(0, "SET PAGESIZE many\n"),
        Some(Damage::NoTerminator | Damage::Joined | Damage::Twice) | None => {}
    }
    text.push_str(&statement);
    if damage != Some(Damage::NoTerminator) {
        text.push_str(end);
    }
    if damage == Some(Damage::Twice) {
        text.push(';');
    }
    text.push(if damage == Some(Damage::Joined) { ' ' } else { '\n' });
}

/// Parts of the corpus that can stand in any script.
struct Stock {
    commands: Vec<String>,
    queries: Vec<String>,
}

impl Stock {
    fn new() -> Self {
        let (mut commands, mut queries) = (Vec::new(), Vec::new());
        // Substitution and bind variables have no values here.
        let depends = Regex::new(r"&|\^|:[A-Za-z]|(?i:for update)").expect("a pattern");
        // Settings that hide output or change how the text is read, and commands with an effect.
        let hides = Regex::new(concat!(
            r"(?i)\bTERM|\bDEF|\bMARK|\bSQLT|\bECHO\b|\bSQL\.PNO|NEW_V|^EXIT|^WHEN|^ACC|^EXEC|^VAR",
            r"|^PRINT|^SPO|^SHOW|^DESC|^@|^HOST|^UNDEF|^CONN|^/",
            // The last statement: another one here, or none.
            r"|^APP|^CHA|^DEL|^INP|^LIST|^SAVE|^GET|^STORE|^\d|^BEGIN|^DECL",
        ))
        .expect("a pattern");
        // psql cuts a text at semicolons and quotation marks by rules of its own.
        let is_plain = |text: &str| {
            text.matches('\'').count().is_multiple_of(2)
                && !text.contains("q'")
                && !text.contains(';')
                // A blank line ends a statement, one before its ; too.
                && text.lines().all(|line| !line.trim().is_empty())
        };
        for script in corpus::scripts() {
            // Statements that are refused, or have a known fault, are not for here.
            if !script.refused.is_empty() || script.fault.is_some() {
                continue;
            }
            for piece in script.pieces() {
                match piece {
                    Piece::Command(text)
                        if !depends.is_match(&text)
                            && !hides.is_match(&text)
                            && is_plain(&text) =>
                    {
                        commands.push(text);
                    }
                    Piece::Statement(text, _)
                        if !depends.is_match(&text)
                            && is_plain(&text)
                            && (text.to_uppercase().starts_with("SELECT")
                                || text.to_uppercase().starts_with("WITH")) =>
                    {
                        queries.push(text.trim_end().to_owned());
                    }
                    _ => {}
                }
            }
        }
        assert!(
            commands.len() > 300 && queries.len() > 100,
            "{} {}",
            commands.len(),
            queries.len()
        );
        Self { commands, queries }
    }

    fn case(&self, seed: u64) -> Case {
        let mut random = Random::new(seed);
        let client = [Client::Pipe, Client::Sqlplus, Client::Psql][random.below(3)];
        let is_damaged = one_in(&mut random, 2);
        let watched = client != Client::Psql && one_in(&mut random, 4);
        let mut case = Case {
            client,
            parts: Vec::new(),
            watched,
            has_returns: one_in(&mut random, 8),
            is_open: one_in(&mut random, 8),
        };
        for _ in 0..2 + random.below(5) {
            for _ in 0..random.below(3) {
                let lines = self.lines(&mut random, client);
                case.parts.push(lines);
            }
            let part = self.part(&mut random, client);
            case.parts.push(part);
        }
        if is_damaged {
            damage(&mut random, &mut case);
        }
        case
    }

    fn part(&self, random: &mut Random, client: Client) -> Part {
        let end = *pick(random, &ENDS);
        let kind = *pick(random, &[Marker::Directory, Marker::Template, Marker::Select]);
        match random.below(9) {
            0 | 1 => {
                Part::Statement { text: pick(random, &self.queries).clone(), end, damage: None }
            }
            2 => Part::Dead { kind, comment: random.below(4) },
            3 if client != Client::Psql => {
                let command = *pick(random, &["@", "START ", "@@", "sta "]);
                Part::Called { kind, command }
            }
            _ => {
                let forms = if client == Client::Psql { 3 } else { 4 };
                Part::Marker { kind, form: random.below(forms), end, damage: None }
            }
        }
    }

    fn lines(&self, random: &mut Random, client: Client) -> Part {
        // psql ends a statement at each of these.
        let semicolon = if client == Client::Psql { "" } else { ";" };
        let text = match random.below(11) {
            0 => String::new(),
            1 => "-- a comment; with a semicolon and -- dashes".to_owned(),
            2 => format!("REM and one of SQL*Plus{semicolon} too"),
            3 => format!("PROMPT a line of text{semicolon} and more"),
            9 => "PROMPT ------------------------".to_owned(),
            10 => "rem ---- another ruler ----".to_owned(),
            4 => "/* a block\n   over two lines */".to_owned(),
            5 | 6 => pick(random, &self.commands).clone(),
            _ => set(random),
        };
        Part::Lines(text)
    }
}

/// A `SET` command under some abbreviation, in some case, maybe with a second setting.
fn set(random: &mut Random) -> String {
    let mut text = (*pick(random, &["SET", "set", "Set"])).to_owned();
    for _ in 0..=usize::from(one_in(random, 3)) {
        let (name, least, values) = *pick(random, &SETTINGS);
        let length = least + random.below(name.len() - least + 1);
        let name = if one_in(random, 2) { name.to_lowercase() } else { name.to_owned() };
        let value = pick(random, values);
        write!(text, " {} {value}", &name[..length]).expect("a string");
    }
    if one_in(random, 6) { text + ";" } else { text }
}

/// Damages one or two statements.
fn damage(random: &mut Random, case: &mut Case) {
    let kinds = [
        Damage::NoTerminator,
        Damage::Joined,
        Damage::BlankLine,
        Damage::Quote,
        Damage::Comment,
        Damage::Continued(pick::<&str>(random, &CONTINUED)),
        Damage::Set,
        Damage::Twice,
    ];
    for _ in 0..1 + random.below(2) {
        let kind = *pick(random, &kinds);
        // psql itself drops a comment that has no end.
        if kind == Damage::Comment && case.client == Client::Psql {
            continue;
        }
        let at = random.below(case.parts.len());
        if let Part::Statement { damage, .. } | Part::Marker { damage, .. } = &mut case.parts[at] {
            *damage = Some(kind);
        }
    }
}

struct Ran {
    run: u64,
    code: Option<i32>,
    out: String,
    err: String,
}

struct Fuzz {
    instance: Instance,
    runs: u64,
}

impl Fuzz {
    fn new() -> Self {
        let instance = corpus::instance();
        let disk = |name: &str| instance.add_disk(name, 128 * MIB).display().to_string();
        let (one, other) = (disk("fuzz1"), disk("fuzz2"));
        instance.sql(&format!(
            "CREATE DISKGROUP fuzz NORMAL REDUNDANCY
               FAILGROUP one DISK '{one}' FAILGROUP two DISK '{other}' ATTRIBUTE 'au_size' = '1M'"
        ));
        Self { instance, runs: 0 }
    }

    fn run(&mut self, case: &Case) -> Ran {
        self.runs += 1;
        let run = self.runs;
        let folder = self.instance.path("");
        let (text, called) = case.text(run, folder.to_str().expect("a path in words"));
        for (file, text) in called {
            fs::write(file, text).expect("written");
        }
        let file = folder.join("case.sql");
        fs::write(&file, text).expect("written");
        let script = match case.client {
            Client::Pipe => "exec plinth sql < \"$1\"",
            Client::Sqlplus => "exec sqlplus -S / as sysasm @\"$1\" < /dev/null",
            Client::Psql => "exec psql -X -h \"$PLINTH_DIR\" -f \"$1\"",
        };
        let path = env::var("PATH").unwrap_or_default();
        let finished = shell(script)
            .arg(&file)
            .env("PATH", format!("{}:{path}", self.instance.path("bin").display()))
            .env("PLINTH_DIR", self.instance.dir())
            .env("PGUSER", "root")
            .finish();
        Ran { run, code: finished.code, out: finished.out, err: finished.err }
    }

    /// Directories and templates that markers have made.
    fn made(&self) -> BTreeSet<String> {
        let rows = self.instance.query(
            "SELECT name FROM v$asm_alias WHERE name LIKE 'dir%'
             UNION ALL SELECT name FROM v$asm_template WHERE name LIKE 'TPL%'",
        );
        rows.iter().filter_map(|row| Some(row.get("name")?.as_str()?.to_owned())).collect()
    }

    fn drop_made(&self, made: &BTreeSet<String>) {
        let names: Vec<&String> = made.iter().collect();
        for some in names.chunks(200) {
            let (directories, templates): (Vec<&String>, Vec<&String>) =
                some.iter().copied().partition(|name| name.starts_with("dir"));
            if !directories.is_empty() {
                let list: Vec<_> =
                    directories.iter().map(|name| format!("'+FUZZ/{name}'")).collect();
                self.instance
                    .sql(&format!("ALTER DISKGROUP fuzz DROP DIRECTORY {}", list.join(", ")));
            }
            if !templates.is_empty() {
                let list: Vec<_> = templates.iter().map(|name| name.as_str()).collect();
                self.instance
                    .sql(&format!("ALTER DISKGROUP fuzz DROP TEMPLATE {}", list.join(", ")));
            }
        }
    }

    /// Removes parts for as long as the case still fails in the same way.
    fn shrink(&mut self, mut case: Case, mut failure: Failure) -> (Case, Failure) {
        let mut tries = 0;
        let mut at = 0;
        while at < case.parts.len() && tries < 100 {
            tries += 1;
            let mut parts = case.parts.clone();
            parts.remove(at);
            let smaller = Case { parts, ..case.clone() };
            let ran = self.run(&smaller);
            match verdict(&smaller, &ran, &self.made()) {
                Some(still) if still.kind == failure.kind => {
                    failure = still;
                    case = smaller;
                }
                _ => at += 1,
            }
        }
        (case, failure)
    }
}

/// How a script failed.
struct Failure {
    kind: &'static str,
    /// The code, the error, the markers.
    what: String,
}

fn failure(kind: &'static str, what: impl std::fmt::Debug) -> Option<Failure> {
    Some(Failure { kind, what: format!("{what:?}") })
}

/// The fault of a run, if it has one.
fn verdict(case: &Case, ran: &Ran, made: &BTreeSet<String>) -> Option<Failure> {
    let (live, dead) = case.markers(ran.run);
    let is_done = |(kind, name): &&(Marker, String)| match kind {
        Marker::Select => ran.out.contains(&format!("{name}\n")) || has_word(&ran.out, name),
        Marker::Directory | Marker::Template => made.contains(name),
    };
    let missing: Vec<&str> =
        live.iter().filter(|marker| !is_done(marker)).map(|(_, name)| name.as_str()).collect();
    let wrongly: Vec<&str> = dead.iter().filter(is_done).map(|(_, name)| name.as_str()).collect();
    let error = ERROR.find(&ran.out).or_else(|| ERROR.find(&ran.err)).map(|found| found.as_str());
    let is_crash = ran.code.is_none() || ran.code == Some(101) || ran.err.contains("panicked");
    if is_crash {
        return failure("crashed", ran.code);
    }
    if case.is_sound() {
        if ran.code != Some(0) {
            return failure("a script without damage did not end with 0", ran.code);
        }
        if let Some(error) = error {
            return failure("a script without damage printed an error", error);
        }
        if !wrongly.is_empty() {
            return failure("carried out, although in a comment", wrongly);
        }
    }
    if ran.code == Some(0) && error.is_none() && !missing.is_empty() {
        return failure("ended with 0, printed no error, and did not do all", missing);
    }
    let is_refused = error.is_some_and(|error| error.starts_with("ORA-"));
    if case.watched && is_refused && ran.code == Some(0) {
        return failure("ended with 0 after WHENEVER SQLERROR EXIT and a refusal", error);
    }
    None
}

/// Whether the output has the word, not as a part of a longer number.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        text[at + word.len()..].chars().next().is_none_or(|next| !next.is_ascii_digit())
    })
}

#[test]
fn no_script_ends_with_0_without_its_work() {
    let stock = Stock::new();
    let mut fuzz = Fuzz::new();
    let number = |text: &str| text.parse::<u64>().expect("PLINTH_SEEDS is 7 or 7..9");
    let seeds: Vec<u64> = match env::var("PLINTH_SEEDS") {
        Ok(text) => match text.split_once("..") {
            Some((first, end)) => (number(first)..number(end)).collect(),
            None => vec![number(&text)],
        },
        Err(_) => (0..scaled(240, 100_000)).collect(),
    };
    let mut failures = Vec::new();
    for some in seeds.chunks(1000) {
        let ran: Vec<(u64, Ran)> =
            some.iter().map(|seed| (*seed, fuzz.run(&stock.case(*seed)))).collect();
        let made = fuzz.made();
        for (seed, ran) in ran {
            let case = stock.case(seed);
            if let Some(failure) = verdict(&case, &ran, &made) {
                failures.push((seed, failure, ran));
            }
        }
        fuzz.drop_made(&made);
        if failures.len() > 20 {
            break;
        }
    }
    let count = failures.len();
    let mut report = String::new();
    for (seed, failure, _) in failures.iter().take(60) {
        report.push_str(&format!("seed {seed}: {}: {}\n", failure.kind, failure.what));
    }
    for (seed, failure, ran) in failures.into_iter().take(scaled(8, 20)) {
        let case = stock.case(seed);
        let client = case.client;
        let (small, still) = fuzz.shrink(case, failure);
        report.push_str(&format!(
            "\nseed {seed}, {client:?}: {}\n{}{}\nshrunk, {}:\n{}\n",
            still.kind,
            ran.out.chars().take(600).collect::<String>(),
            ran.err.chars().take(600).collect::<String>(),
            still.what,
            small.text(0, ".").0
        ));
    }
    assert!(count == 0, "{count} scripts:\n\n{report}");
}

/// The verdict finds what it is for: markers that are missing, and ones that must be.
#[test]
fn missing_work_is_found() {
    let case = |damage| Case {
        client: Client::Pipe,
        parts: vec![
            Part::Marker { kind: Marker::Select, form: 0, end: ";", damage: None },
            Part::Marker { kind: Marker::Directory, form: 0, end: ";", damage },
            Part::Dead { kind: Marker::Template, comment: 0 },
        ],
        watched: true,
        has_returns: false,
        is_open: false,
    };
    let ran = |code, out: &str, err: &str| Ran {
        run: 7,
        code: Some(code),
        out: out.to_owned(),
        err: err.to_owned(),
    };
    let none = BTreeSet::new();
    let made = BTreeSet::from(["dir7x1".to_owned()]);
    let both = BTreeSet::from(["dir7x1".to_owned(), "TPL7X2".to_owned()]);
    let sound = case(None);
    let damaged = case(Some(Damage::NoTerminator));
    assert!(verdict(&sound, &ran(0, "mark7x0\n", ""), &made).is_none());
    assert!(verdict(&sound, &ran(0, "mark7x01\n", ""), &made).is_some());
    assert!(verdict(&sound, &ran(0, "mark7x0\n", ""), &none).is_some());
    assert!(verdict(&sound, &ran(0, "mark7x0\n", ""), &both).is_some());
    assert!(verdict(&sound, &ran(1, "mark7x0\n", ""), &made).is_some());
    assert!(verdict(&damaged, &ran(0, "mark7x0\n", ""), &none).is_some());
    assert!(verdict(&damaged, &ran(0, "mark7x0\n", "SP2-0042"), &none).is_none());
    assert!(verdict(&damaged, &ran(0, "ORA-00900", ""), &none).is_some());
    assert!(verdict(&damaged, &ran(1, "ORA-00900", ""), &none).is_none());
}
