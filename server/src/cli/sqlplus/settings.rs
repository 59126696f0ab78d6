//! The settings of the client: SET changes them, SHOW prints them.
//!
//! Each setting of SQL*Plus is in the table, with its shortest abbreviation, and is one of three:
//! carried out here; passed over, because it changes nothing that a client of Plinth has, and only
//! kept for SHOW; or refused, with the reason, because a script that relies on it would go wrong.
//! Several settings can stand in one SET, and those before a refused one have been made.

use super::{
    html::Html,
    numbers::Model,
    refusal::{Refusal, invalid, wrong},
    words::Words,
};
use crate::sql::sqlplus::{self, abbreviates};
use std::collections::BTreeMap;

/// From how many rows on the number of rows is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feedback {
    Off,
    From(usize),
    /// The number alone, and no rows.
    Only,
}

/// Which rows have a line of their own below them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recsep {
    Off,
    Wrapped,
    Each,
}

/// How CSV is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Csv {
    pub delimiter: char,
    pub quotes: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub heading: bool,
    pub pagesize: usize,
    pub linesize: usize,
    pub feedback: Feedback,
    pub colsep: String,
    pub trimout: bool,
    pub trimspool: bool,
    pub termout: bool,
    pub echo: bool,
    pub verify: bool,
    /// The character before the name of a variable.
    pub define: Option<char>,
    /// The character that ends the name of a variable.
    pub concat: Option<char>,
    pub escape: Option<char>,
    pub null: String,
    pub numformat: Option<Model>,
    pub numwidth: usize,
    pub wrap: bool,
    pub underline: Option<char>,
    pub headsep: Option<char>,
    /// Blank lines before each page; a form feed if 0.
    pub newpage: Option<usize>,
    pub recsep: Recsep,
    pub recsepchar: char,
    pub sqlblanklines: bool,
    pub sqlprompt: String,
    /// The prompt for the next line of a client command.
    pub sqlcontinue: String,
    pub sqlterminator: Option<char>,
    pub suffix: String,
    pub timing: bool,
    pub time: bool,
    pub autoprint: bool,
    pub csv: Option<Csv>,
    pub html: Html,
    /// Those that are passed over, as they were set.
    pub(super) others: BTreeMap<&'static str, String>,
}

impl Settings {
    /// The defaults of SQL*Plus, but for what asks or repeats: `plinth sql` does neither.
    pub(super) fn new(is_sqlplus: bool) -> Self {
        Self {
            heading: true,
            pagesize: 14,
            linesize: 80,
            feedback: Feedback::From(6),
            colsep: " ".to_owned(),
            trimout: true,
            trimspool: false,
            termout: true,
            echo: false,
            verify: is_sqlplus,
            define: Some('&'),
            concat: Some('.'),
            escape: None,
            null: String::new(),
            numformat: None,
            numwidth: 10,
            wrap: true,
            underline: Some('-'),
            headsep: Some('|'),
            newpage: Some(1),
            recsep: Recsep::Wrapped,
            recsepchar: ' ',
            sqlblanklines: !is_sqlplus,
            sqlprompt: if is_sqlplus { "SQL> " } else { "plinth> " }.to_owned(),
            sqlcontinue: "> ".to_owned(),
            sqlterminator: Some(';'),
            suffix: "sql".to_owned(),
            timing: false,
            time: false,
            autoprint: false,
            csv: None,
            html: Html::default(),
            others: BTreeMap::new(),
        }
    }
}

/// What SET does with a setting.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Carried out; whether it is about the layout of results.
    Own(bool),
    /// Passed over: how many words its value has, and words that may follow with one more each.
    Passed(usize, &'static [&'static str]),
    /// Refused unless it is set to one of these words: why.
    Only(&'static [&'static str], &'static str),
}

use Kind::{Only, Own, Passed};

const LAYOUT: Kind = Own(true);
const OTHER: Kind = Own(false);
const PASSED: Kind = Passed(1, &[]);

/// The options of SET, and what is done with each.
const SETTINGS: &[(&str, Kind)] = &[
    ("APPINFO", PASSED),
    ("ARRAYSIZE", PASSED),
    ("AUTOCOMMIT", PASSED),
    ("AUTOPRINT", OTHER),
    ("AUTORECOVERY", PASSED),
    ("AUTOTRACE", Only(&["OFF"], "there are no plans to show")),
    ("BLOCKTERMINATOR", Only(&[".", "ON", "OFF"], "blocks of PL/SQL are not carried out")),
    ("BUFFER", PASSED),
    ("CLOSECURSOR", PASSED),
    ("CMDSEP", Only(&["OFF", ";"], "a ; ends a client command here anyway")),
    ("COLINVISIBLE", PASSED),
    ("COLSEP", LAYOUT),
    ("COMPATIBILITY", PASSED),
    ("CONCAT", OTHER),
    ("COPYCOMMIT", PASSED),
    ("COPYTYPECHECK", PASSED),
    ("CRT", PASSED),
    ("DEFINE", OTHER),
    ("DESCRIBE", Passed(0, &["DEPTH", "LINENUM", "INDENT"])),
    ("DOCUMENT", PASSED),
    ("ECHO", OTHER),
    ("EDITFILE", PASSED),
    ("EMBEDDED", PASSED),
    ("ERRORLOGGING", Only(&["OFF"], "there is no table that errors could be written to")),
    ("ESCAPE", OTHER),
    ("ESCCHAR", Only(&["OFF"], "only the character of SET ESCAPE escapes")),
    ("EXITCOMMIT", PASSED),
    ("FEEDBACK", LAYOUT),
    ("FLAGGER", Only(&["OFF"], "statements are not compared with the standard")),
    ("FLUSH", PASSED),
    ("HEADING", LAYOUT),
    ("HEADSEP", LAYOUT),
    ("HISTORY", PASSED),
    ("INSTANCE", Only(&["LOCAL"], "PLINTH_DIR says which instance is meant")),
    ("JSONPRINT", PASSED),
    ("LINESIZE", LAYOUT),
    ("LOBOFFSET", PASSED),
    ("LOBPREFETCH", PASSED),
    ("LOGSOURCE", PASSED),
    ("LONG", PASSED),
    ("LONGCHUNKSIZE", PASSED),
    ("MARKUP", LAYOUT),
    ("MAXDATA", PASSED),
    ("NEWPAGE", LAYOUT),
    ("NULL", LAYOUT),
    ("NUMFORMAT", LAYOUT),
    ("NUMWIDTH", LAYOUT),
    ("PAGESIZE", LAYOUT),
    ("PAUSE", PASSED),
    ("RECSEP", LAYOUT),
    ("RECSEPCHAR", LAYOUT),
    ("ROWLIMIT", Only(&["OFF"], "write FETCH FIRST n ROWS ONLY into the query")),
    ("ROWPREFETCH", PASSED),
    ("SCAN", OTHER),
    ("SECUREDCOL", Passed(1, &["UNAUTH", "UNK"])),
    ("SERVEROUTPUT", Passed(1, &["SIZE", "FORMAT"])),
    ("SHIFTINOUT", PASSED),
    ("SHOWMODE", PASSED),
    ("SPACE", LAYOUT),
    ("SQLBLANKLINES", OTHER),
    ("SQLCASE", Only(&["MIXED", "MIX"], "statements are sent as they are written")),
    ("SQLCONTINUE", OTHER),
    ("SQLNUMBER", PASSED),
    ("SQLPLUSCOMPATIBILITY", PASSED),
    ("SQLPREFIX", Only(&["#", "ON"], "it stays #")),
    ("SQLPROMPT", OTHER),
    ("SQLTERMINATOR", OTHER),
    ("STATEMENTCACHE", PASSED),
    ("SUFFIX", OTHER),
    ("TAB", PASSED),
    ("TERMOUT", OTHER),
    ("TIME", OTHER),
    ("TIMING", OTHER),
    ("TRIMOUT", LAYOUT),
    ("TRIMSPOOL", LAYOUT),
    ("TRUNCATE", PASSED),
    ("UNDERLINE", LAYOUT),
    ("VERIFY", OTHER),
    ("WRAP", LAYOUT),
    ("XMLOPTIMIZATIONCHECK", PASSED),
    ("XQUERY", Passed(2, &[])),
];

/// What SHOW prints besides settings, each with the letters of its shortest abbreviation.
const SHOWN: &[(&str, usize)] = &[
    ("USER", 4),
    ("RELEASE", 3),
    ("ERRORS", 3),
    ("SPOOL", 4),
    ("SQLCODE", 7),
    ("TTITLE", 3),
    ("BTITLE", 3),
    ("REPHEADER", 4),
    ("REPFOOTER", 4),
    ("PNO", 3),
    ("LNO", 3),
];

/// The names of settings that are carried out, passed over and refused.
#[cfg(test)]
pub(super) fn by_kind() -> [Vec<&'static str>; 3] {
    let of = |wanted: fn(&Kind) -> bool| {
        SETTINGS.iter().filter(|(_, kind)| wanted(kind)).map(|(name, _)| *name).collect()
    };
    [
        of(|kind| matches!(kind, Own(_))),
        of(|kind| matches!(kind, Passed(..))),
        of(|kind| matches!(kind, Only(..))),
    ]
}

/// The names of all settings.
pub(super) fn by_name() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|(name, _)| *name)
}

fn find(word: &str) -> Option<(&'static str, Kind)> {
    let option = sqlplus::option(word)?;
    SETTINGS.iter().find(|(name, _)| *name == option).copied()
}

/// What SHOW prints besides settings, by its full name.
pub(super) fn other_shown(word: &str) -> Option<&'static str> {
    SHOWN.iter().find(|(name, least)| abbreviates(word, name, *least)).map(|(name, _)| *name)
}

/// Whether SHOW with this word is the client's; other words are parameters of the server. ALL is
/// the server's for `plinth sql`.
pub(super) fn is_shown(word: &str, is_sqlplus: bool) -> bool {
    let word = word.trim_end_matches(';');
    match word {
        "" => is_sqlplus,
        all if all.eq_ignore_ascii_case("ALL") => is_sqlplus,
        _ => find(word).is_some() || other_shown(word).is_some(),
    }
}

/// The value of a setting that is a switch.
fn switch(name: &str, words: &mut Words<'_>) -> Result<bool, Refusal> {
    match words.value()? {
        Some(word) if word.is("ON", 2) => Ok(true),
        Some(word) if word.is("OFF", 3) => Ok(false),
        _ => Err(invalid(265, format!("{} must be set ON or OFF", name.to_lowercase()))),
    }
}

/// The value of a setting that is a character, OFF, or ON for the default.
fn mark(name: &str, default: char, words: &mut Words<'_>) -> Result<Option<char>, Refusal> {
    let word = words.value()?.ok_or_else(|| missing(name))?;
    if word.is("ON", 2) {
        return Ok(Some(default));
    }
    if word.is("OFF", 3) {
        return Ok(None);
    }
    one(name, &word.text).map(Some)
}

fn one(name: &str, text: &str) -> Result<char, Refusal> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(character), None) => Ok(character),
        _ => Err(wrong(format!("SET {name} takes one character, and {text:?} is not one"))),
    }
}

fn missing(name: &str) -> Refusal {
    invalid(281, format!("{} missing set option", name.to_lowercase()))
}

fn text(name: &str, words: &mut Words<'_>) -> Result<String, Refusal> {
    words.value()?.map(|word| word.text).ok_or_else(|| missing(name))
}

fn number(name: &str, range: [usize; 2], words: &mut Words<'_>) -> Result<usize, Refusal> {
    let [least, most] = range;
    let name = name.to_lowercase();
    let value = words.number(&name)?;
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(invalid(267, format!("{name} option {value} out of range ({least} through {most})")))
}

impl Settings {
    /// Carries out SET; `is_layout` becomes true if the layout of results was among what was set.
    ///
    /// # Errors
    /// At the first setting that is refused; those before it are set.
    pub(super) fn set(&mut self, rest: &str, is_layout: &mut bool) -> Result<(), Refusal> {
        let mut words = Words::new(rest);
        let mut count = 0;
        while let Some(word) = words.option()? {
            let Some((name, kind)) = find(&word.text).filter(|_| !word.quoted) else {
                let text = format!("unknown SET option \"{}\"", word.text);
                return Err(invalid(158, text));
            };
            count += 1;
            match kind {
                Own(layout) => {
                    self.own(name, &mut words)?;
                    *is_layout |= layout;
                }
                Passed(length, more) => {
                    let value = passed(name, length, more, &mut words)?;
                    self.others.insert(name, value);
                }
                Only(values, why) => {
                    let value = text(name, &mut words)?;
                    if !values.iter().any(|allowed| allowed.eq_ignore_ascii_case(&value)) {
                        return Err(wrong(format!("SET {name} {value} is not supported: {why}")));
                    }
                    self.others.insert(name, value);
                }
            }
        }
        if count == 0 {
            return Err(missing("set"));
        }
        Ok(())
    }

    fn own(&mut self, name: &str, words: &mut Words<'_>) -> Result<(), Refusal> {
        match name {
            "HEADING" => self.heading = switch(name, words)?,
            "PAGESIZE" => self.pagesize = number(name, [0, 50_000], words)?,
            "LINESIZE" if words.take("WINDOW", 6) => {}
            "LINESIZE" => self.linesize = number(name, [1, 32_767], words)?,
            "FEEDBACK" => self.feedback = feedback(words)?,
            "COLSEP" => self.colsep = text(name, words)?,
            "SPACE" => self.colsep = " ".repeat(number(name, [0, 10], words)?),
            "TRIMOUT" => self.trimout = switch(name, words)?,
            "TRIMSPOOL" => self.trimspool = switch(name, words)?,
            "TERMOUT" => self.termout = switch(name, words)?,
            "ECHO" => self.echo = switch(name, words)?,
            "VERIFY" => self.verify = switch(name, words)?,
            "DEFINE" => self.define = define(words)?,
            "SCAN" => self.define = switch(name, words)?.then_some('&'),
            "CONCAT" => self.concat = mark(name, '.', words)?,
            "ESCAPE" => self.escape = mark(name, '\\', words)?,
            "NULL" => self.null = text(name, words)?,
            "NUMFORMAT" => self.numformat = numformat(&text(name, words)?)?,
            "NUMWIDTH" => self.numwidth = number(name, [2, 50], words)?,
            "WRAP" => self.wrap = switch(name, words)?,
            "UNDERLINE" => self.underline = mark(name, '-', words)?,
            "HEADSEP" => self.headsep = mark(name, '|', words)?,
            "NEWPAGE" if words.take("NONE", 4) => self.newpage = None,
            "NEWPAGE" => self.newpage = Some(number(name, [0, 999], words)?),
            "RECSEP" => self.recsep = recsep(words)?,
            "RECSEPCHAR" => self.recsepchar = one(name, &text(name, words)?)?,
            "SQLBLANKLINES" => self.sqlblanklines = switch(name, words)?,
            "SQLCONTINUE" => self.sqlcontinue = text(name, words)?,
            "SQLPROMPT" => self.sqlprompt = text(name, words)?,
            "SQLTERMINATOR" => self.sqlterminator = mark(name, ';', words)?,
            "SUFFIX" => self.suffix = text(name, words)?.trim_start_matches('.').to_owned(),
            "TIMING" => self.timing = switch(name, words)?,
            "TIME" => self.time = switch(name, words)?,
            "AUTOPRINT" => self.autoprint = switch(name, words)?,
            _ => self.markup(words)?,
        }
        Ok(())
    }

    /// `MARKUP [CSV {ON | OFF} [DELIMITER c] [QUOTE {ON | OFF}]] [HTML {ON | OFF} [HEAD text]
    /// [BODY text] [TABLE text] [ENTMAP {ON | OFF}] [SPOOL {ON | OFF}] [PREFORMAT OFF]]`.
    pub(super) fn markup(&mut self, words: &mut Words<'_>) -> Result<(), Refusal> {
        let mut count = 0;
        loop {
            count += 1;
            if words.take("CSV", 3) {
                let on = switch("MARKUP CSV", words)?;
                self.csv = on.then_some(Csv { delimiter: ',', quotes: true });
                self.html.on &= !on;
            } else if words.take("DELIMITER", 4) {
                let delimiter = one("MARKUP CSV DELIMITER", &text("delimiter", words)?)?;
                self.csv = self.csv.map(|csv| Csv { delimiter, ..csv });
            } else if words.take("QUOTE", 5) {
                let quotes = switch("MARKUP CSV QUOTE", words)?;
                self.csv = self.csv.map(|csv| Csv { quotes, ..csv });
            } else if words.take("HTML", 4) {
                self.html.on = switch("MARKUP HTML", words)?;
                self.csv = self.csv.filter(|_| !self.html.on);
            } else if words.take("ENTMAP", 3) {
                self.html.entmap = switch("MARKUP HTML ENTMAP", words)?;
            } else if words.take("SPOOL", 3) {
                self.html.spool = switch("MARKUP HTML SPOOL", words)?;
            } else if words.take("HEAD", 4) {
                self.html.head = text("head", words)?;
            } else if words.take("BODY", 4) {
                self.html.body = text("body", words)?;
            } else if words.take("TABLE", 5) {
                self.html.table = text("table", words)?;
            } else if words.take("PREFORMAT", 3) {
                if switch("MARKUP HTML PREFORMAT", words)? {
                    return Err(wrong("SET MARKUP HTML PREFORMAT ON is not supported")
                        .hint("PROMPT <pre> and SET MARKUP HTML OFF write the same"));
                }
            } else if count == 1 {
                return Err(missing("markup"));
            } else {
                return Ok(());
            }
        }
    }

    /// The line of SHOW for one setting, if there is one of this name.
    pub(super) fn show(&self, word: &str) -> Option<String> {
        let (name, _) = find(word)?;
        let switch = |on: bool| if on { "ON" } else { "OFF" }.to_owned();
        let quoted = |text: &str| format!("{text:?}");
        let mark = |mark: Option<char>| match mark {
            Some(mark) => format!("\"{mark}\" (hex {:02x})", u32::from(mark)),
            None => "OFF".to_owned(),
        };
        let lower = name.to_lowercase();
        let value = match name {
            "FEEDBACK" => {
                return Some(match self.feedback {
                    Feedback::Off => "feedback OFF".to_owned(),
                    Feedback::Only => "feedback ONLY".to_owned(),
                    Feedback::From(count) => format!("FEEDBACK ON for {count} or more rows"),
                });
            }
            "WRAP" => {
                let what = if self.wrap { "wrapped" } else { "truncated" };
                return Some(format!("wrap : lines will be {what}"));
            }
            "HEADING" => switch(self.heading),
            "PAGESIZE" => self.pagesize.to_string(),
            "LINESIZE" => self.linesize.to_string(),
            "COLSEP" => quoted(&self.colsep),
            "SPACE" => self.colsep.len().to_string(),
            "TRIMOUT" => switch(self.trimout),
            "TRIMSPOOL" => switch(self.trimspool),
            "TERMOUT" => switch(self.termout),
            "ECHO" => switch(self.echo),
            "VERIFY" => switch(self.verify),
            "DEFINE" => mark(self.define),
            "SCAN" => switch(self.define.is_some()),
            "CONCAT" => mark(self.concat),
            "ESCAPE" => mark(self.escape),
            "NULL" => quoted(&self.null),
            "NUMFORMAT" => quoted(self.numformat.as_ref().map_or("", Model::text)),
            "NUMWIDTH" => self.numwidth.to_string(),
            "UNDERLINE" => mark(self.underline),
            "HEADSEP" => mark(self.headsep),
            "NEWPAGE" => self.newpage.map_or_else(|| "NONE".to_owned(), |count| count.to_string()),
            "RECSEP" => match self.recsep {
                Recsep::Off => "OFF".to_owned(),
                Recsep::Wrapped => "WRAP".to_owned(),
                Recsep::Each => "EACH".to_owned(),
            },
            "RECSEPCHAR" => mark(Some(self.recsepchar)),
            "SQLBLANKLINES" => switch(self.sqlblanklines),
            "SQLCONTINUE" => quoted(&self.sqlcontinue),
            "SQLPROMPT" => quoted(&self.sqlprompt),
            "SQLTERMINATOR" => mark(self.sqlterminator),
            "SUFFIX" => quoted(&self.suffix),
            "TIMING" => switch(self.timing),
            "TIME" => switch(self.time),
            "AUTOPRINT" => switch(self.autoprint),
            "MARKUP" => self.show_markup(),
            other => self.others.get(other).cloned().unwrap_or_else(|| "OFF".to_owned()),
        };
        Some(format!("{lower} {value}"))
    }

    fn show_markup(&self) -> String {
        let switch = |on: bool| if on { "ON" } else { "OFF" };
        let csv = match self.csv {
            None => "OFF".to_owned(),
            Some(Csv { delimiter, quotes }) => {
                format!("ON DELIMITER {delimiter} QUOTE {}", switch(quotes))
            }
        };
        let Html { on, entmap, table, head, body, spool } = &self.html;
        let html = match on {
            false => "OFF".to_owned(),
            true => format!(
                "ON HEAD {head:?} BODY {body:?} TABLE {table:?} ENTMAP {} SPOOL {} PREFORMAT OFF",
                switch(*entmap),
                switch(*spool)
            ),
        };
        format!("HTML {html} CSV {csv}")
    }

    /// The lines of SHOW ALL, by name.
    pub(super) fn show_all(&self) -> impl Iterator<Item = String> {
        SETTINGS.iter().filter_map(|(name, _)| self.show(name))
    }
}

/// The value of a setting that is passed over, as it stands.
fn passed(
    name: &'static str,
    length: usize,
    more: &[&str],
    words: &mut Words<'_>,
) -> Result<String, Refusal> {
    let mut value = Vec::new();
    for _ in 0..length {
        value.push(text(name, words)?);
    }
    while let Some(clause) = more.iter().find(|clause| words.take(clause, 3)) {
        value.push((*clause).to_owned());
        value.push(text(name, words)?);
    }
    Ok(value.join(" "))
}

fn feedback(words: &mut Words<'_>) -> Result<Feedback, Refusal> {
    let word = words.value()?.ok_or_else(|| missing("feedback"))?;
    let feedback = match word.text.to_ascii_uppercase().as_str() {
        "ON" => Feedback::From(1),
        "OFF" | "0" => Feedback::Off,
        "ONLY" => Feedback::Only,
        number => match number.parse() {
            Ok(count) => Feedback::From(count),
            Err(_) => {
                let text = "feedback must be set to a number, ON, OFF or ONLY";
                return Err(invalid(268, text));
            }
        },
    };
    words.take("SQL_ID", 6);
    Ok(feedback)
}

fn define(words: &mut Words<'_>) -> Result<Option<char>, Refusal> {
    let found = mark("DEFINE", '&', words)?;
    if let Some(character) = found.filter(|char| char.is_alphanumeric() || char.is_whitespace()) {
        return Err(wrong(format!(
            "SET DEFINE takes a mark, and {character:?} is a letter or a blank"
        )));
    }
    Ok(found)
}

fn numformat(text: &str) -> Result<Option<Model>, Refusal> {
    if text.is_empty() {
        return Ok(None);
    }
    Model::parse(text)
        .map(Some)
        .ok_or_else(|| invalid(246, format!("Illegal FORMAT string \"{text}\"")))
}

fn recsep(words: &mut Words<'_>) -> Result<Recsep, Refusal> {
    let word = words.value()?.ok_or_else(|| missing("recsep"))?;
    match () {
        () if word.is("OFF", 3) => Ok(Recsep::Off),
        () if word.is("WRAPPED", 2) => Ok(Recsep::Wrapped),
        () if word.is("EACH", 2) => Ok(Recsep::Each),
        () => Err(wrong(format!("SET RECSEP takes OFF, WRAPPED or EACH, not {}", word.text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets without looking at the layout.
    fn set(settings: &mut Settings, rest: &str) -> Result<(), Refusal> {
        settings.set(rest, &mut false)
    }

    #[test]
    fn several_settings_stand_in_one_line() {
        let mut settings = Settings::new(true);
        let mut is_layout = false;
        let line = "lin 200 pages 0 hea off feed off colsep ',' trims on";
        settings.set(line, &mut is_layout).expect("settings");
        assert!(is_layout);
        assert_eq!((settings.linesize, settings.pagesize), (200, 0));
        assert_eq!((settings.heading, settings.feedback), (false, Feedback::Off));
        assert_eq!((settings.colsep.as_str(), settings.trimspool), (",", true));
        let passed =
            "serveroutput on size unlimited format wrapped long 5000 arraysize 100 time on";
        let mut is_layout = false;
        settings.set(passed, &mut is_layout).expect("settings");
        assert!(!is_layout);
        assert!(settings.time);
        assert_eq!(settings.show("long").as_deref(), Some("long 5000"));
        assert_eq!(
            settings.show("serverout").as_deref(),
            Some("serveroutput on SIZE unlimited FORMAT wrapped")
        );
        set(&mut settings, "echo off -- quiet").expect("a comment");
    }

    #[test]
    fn what_is_wrong_is_refused_by_name() {
        for (line, why) in [
            ("foo 1", "SP2-0158: unknown SET option \"foo\""),
            ("", "SP2-0281: set missing set option"),
            ("head", "SP2-0265: heading must be set ON or OFF"),
            ("head 1", "SP2-0265: heading must be set ON or OFF"),
            ("pages x", "SP2-0268: pagesize option not a valid number"),
            ("lines 0", "SP2-0267: linesize option 0 out of range (1 through 32767)"),
            ("numf 9x", "SP2-0246: Illegal FORMAT string \"9x\""),
            ("define ab", "SET DEFINE takes one character, and \"ab\" is not one"),
            ("define a", "SET DEFINE takes a mark, and 'a' is a letter or a blank"),
            ("autotrace on", "SET AUTOTRACE on is not supported: there are no plans to show"),
            ("markup html off pre on", "SET MARKUP HTML PREFORMAT ON is not supported"),
            ("colsep", "SP2-0281: colsep missing set option"),
            ("null 'x", "a quotation mark has no second one: 'x"),
        ] {
            let refusal = set(&mut Settings::new(true), line).expect_err(line);
            assert_eq!(refusal.error.message, why, "{line}");
        }
        // Those before it are set.
        let mut settings = Settings::new(true);
        set(&mut settings, "pages 50 foo 1").expect_err("foo");
        assert_eq!(settings.pagesize, 50);
    }

    #[test]
    fn marks_can_be_changed_and_switched_off() {
        let mut settings = Settings::new(true);
        set(&mut settings, "define ^ escape on concat off und = headsep !").expect("settings");
        assert_eq!(
            (settings.define, settings.escape, settings.concat),
            (Some('^'), Some('\\'), None)
        );
        assert_eq!((settings.underline, settings.headsep), (Some('='), Some('!')));
        set(&mut settings, "scan off sqlt off newp none recsep off").expect("settings");
        assert_eq!((settings.define, settings.sqlterminator, settings.newpage), (None, None, None));
        set(&mut settings, "markup csv on delim ; quote off").expect("settings");
        assert_eq!(settings.csv, Some(Csv { delimiter: ';', quotes: false }));
        assert_eq!(
            settings.show("mark").as_deref(),
            Some("markup HTML OFF CSV ON DELIMITER ; QUOTE OFF")
        );
        // Results are one of the two.
        set(&mut settings, "markup html on spool on entmap off head '<title>x</title>'")
            .expect("settings");
        assert!(settings.csv.is_none() && settings.html.on && settings.html.spool);
        assert!(!settings.html.entmap && settings.html.head == "<title>x</title>");
        set(&mut settings, "markup csv on").expect("settings");
        assert!(settings.csv.is_some() && !settings.html.on);
    }

    #[test]
    fn every_setting_is_shown() {
        let settings = Settings::new(true);
        assert_eq!(settings.show_all().count(), SETTINGS.len());
        assert_eq!(settings.show("lines").as_deref(), Some("linesize 80"));
        assert_eq!(settings.show("feed").as_deref(), Some("FEEDBACK ON for 6 or more rows"));
        assert_eq!(settings.show("define").as_deref(), Some("define \"&\" (hex 26)"));
        assert!(
            is_shown("lin", false) && is_shown("user", false) && !is_shown("asm_diskstring", true)
        );
    }

    #[test]
    fn no_abbreviation_means_two_settings() {
        for (at, (name, least)) in sqlplus::OPTIONS.iter().enumerate() {
            for length in *least..=name.len() {
                let word = name.get(..length).expect("a word");
                let found = find(word)
                    .and_then(|(found, _)| SETTINGS.iter().position(|(other, _)| *other == found));
                assert_eq!(found, Some(at), "{word}");
            }
        }
        assert_eq!(sqlplus::OPTIONS.len(), SETTINGS.len());
    }
}
