//! The configuration file of `plinth serve`: TOML, with a key for each flag that says how to run.
//!
//! A key has the name of its flag, so that one list explains both; a flag on the command line
//! overrides it. All keys are at the top: there are no tables. An unknown key and a wrong value are
//! refused, with the file, the line, the key and the remedy: a key that was silently ignored would
//! be noticed only when it is needed.
//!
//! The keys and their kinds are here (`KEYS`), their meaning is in `start.rs`, the explanation for
//! operators in `packaging/plinth.toml`. The tests below keep all three in step.

use super::Result;
use crate::sql_error::SqlError;
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Read without being asked for, if it is there and DIR is the default.
pub(super) const DEFAULT_FILE: &str = "/etc/plinth/plinth.toml";
/// A longer file is not read: it is no configuration.
const LENGTH_MAX: u64 = 1 << 20;

/// The kind of a key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Text,
    /// An absolute path: where `plinth serve` is started does not matter.
    Path,
    Flag,
    /// A list of texts.
    Words,
}

/// Each key. `start.rs` gives them their meaning.
const KEYS: [(&str, Takes); 22] = [
    ("dir", Takes::Path),
    ("state", Takes::Path),
    ("diskstring", Takes::Text),
    ("look-group", Takes::Text),
    ("look-all", Takes::Flag),
    ("listen", Takes::Text),
    ("tls-cert", Takes::Path),
    ("tls-key", Takes::Path),
    ("tls-client-ca", Takes::Path),
    ("insecure", Takes::Flag),
    ("http", Takes::Text),
    ("http-tls-cert", Takes::Path),
    ("http-tls-key", Takes::Path),
    ("http-tls-client-ca", Takes::Path),
    ("http-token", Takes::Path),
    ("alarm-command", Takes::Words),
    ("alarm-mail", Takes::Text),
    ("alarm-severity", Takes::Text),
    ("alarm-interval", Takes::Text),
    ("alarm-timeout", Takes::Text),
    ("alarm-sendmail", Takes::Path),
    ("io", Takes::Text),
];

#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Text(String),
    Flag(bool),
    Words(Vec<String>),
}

/// The keys that a file sets.
#[derive(Debug, Default)]
pub(super) struct Configuration {
    file: PathBuf,
    /// By key: its line, counted from 1, and its value.
    values: BTreeMap<&'static str, (usize, Value)>,
}

impl Configuration {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// If it cannot be read, or has something in it that is not understood.
    pub fn read(path: &Path) -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| {
            SqlError::new("58030", format!("{}: {error}", path.display()))
        };
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(LENGTH_MAX + 1).read_to_end(&mut bytes))
            .map_err(|error| {
                failed(&error).hint("it is the configuration file of plinth serve; see --config")
            })?;
        if bytes.len() as u64 > LENGTH_MAX {
            return Err(failed(&"it is longer than 1 MiB and no configuration"));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let good = error.utf8_error().valid_up_to();
            let line = line(error.as_bytes(), good);
            refused(path, line, "it is not UTF-8", "save the file as UTF-8")
        })?;
        Self::parse(path, &text)
    }

    /// As [`Self::read`]; without a file nothing is set.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_if_there(path: &Path) -> Result<Self> {
        match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            _ => Self::read(path),
        }
    }

    fn parse(path: &Path, text: &str) -> Result<Self> {
        let at = |offset: usize| line(text.as_bytes(), offset);
        let table = DeTable::parse(text).map_err(|error| {
            let message = error.message().trim().replace('\n', " ");
            let line = error.span().map_or(1, |span| at(span.start));
            refused(path, line, &message, "the file is TOML: key = \"text\", or key = true")
        })?;
        let mut values = BTreeMap::new();
        for (name, value) in table.get_ref() {
            let line = at(name.span().start);
            let name = name.get_ref();
            let known = KEYS.iter().find(|(key, _)| key == name);
            let (key, takes) = *known.ok_or_else(|| unknown(path, line, name))?;
            let value = taken(takes, value.get_ref()).ok_or_else(|| {
                let remedy = match takes {
                    Takes::Text => "give a text in quotes",
                    Takes::Path => "give an absolute path in quotes, such as \"/etc/plinth/x\"",
                    Takes::Flag => "give true or false, without quotes",
                    Takes::Words => {
                        "give a list of texts, such as [\"/usr/local/bin/page\", \"dba\"]"
                    }
                };
                refused(path, line, &format!("{key}: the value is of the wrong kind"), remedy)
            })?;
            values.insert(key, (line, value));
        }
        Ok(Self { file: path.to_owned(), values })
    }

    fn value(&self, key: &str) -> Option<&Value> {
        assert!(KEYS.iter().any(|(known, _)| *known == key), "{key} is no key");
        self.values.get(key).map(|(_, value)| value)
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        match self.value(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn words(&self, key: &str) -> Option<&[String]> {
        match self.value(key)? {
            Value::Words(words) => Some(words),
            _ => None,
        }
    }

    pub fn path(&self, key: &str) -> Option<PathBuf> {
        self.text(key).map(PathBuf::from)
    }

    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.value(key)? {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    /// Where a key is, for messages.
    pub fn place(&self, key: &str) -> String {
        let line = self.values.get(key).map_or(1, |(line, _)| *line);
        format!("{}, line {line}: {key}", self.file.display())
    }

    /// The refusal of a key's value.
    pub fn refusal(&self, key: &str, why: impl std::fmt::Display) -> SqlError {
        SqlError::new("22023", format!("{}: {why}", self.place(key)))
    }
}

/// The line of a byte, counted from 1.
fn line(text: &[u8], offset: usize) -> usize {
    text.iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

fn refused(path: &Path, line: usize, why: &str, remedy: &str) -> SqlError {
    SqlError::new("22023", format!("{}, line {line}: {why}", path.display())).hint(remedy)
}

fn unknown(path: &Path, line: usize, name: &str) -> SqlError {
    let alike = name.to_lowercase().replace('_', "-");
    let remedy = match KEYS.iter().find(|(key, _)| *key == alike) {
        Some((key, _)) => format!("write {key}"),
        None => {
            let keys: Vec<&str> = KEYS.iter().map(|(key, _)| *key).collect();
            format!("the keys are {}", keys.join(", "))
        }
    };
    refused(path, line, &format!("{name}: there is no such key"), &remedy)
}

/// The value, if it is of the kind that the key takes.
fn taken(takes: Takes, value: &DeValue<'_>) -> Option<Value> {
    match (takes, value) {
        (Takes::Text, DeValue::String(text)) => Some(Value::Text(text.clone().into_owned())),
        (Takes::Path, DeValue::String(text)) => {
            Path::new(text.as_ref()).is_absolute().then(|| Value::Text(text.clone().into_owned()))
        }
        (Takes::Words, DeValue::Array(words)) => {
            let word = |word: &Spanned<DeValue<'_>>| match word.get_ref() {
                DeValue::String(text) => Some(text.clone().into_owned()),
                _ => None,
            };
            words.iter().map(word).collect::<Option<_>>().map(Value::Words)
        }
        (Takes::Flag, DeValue::Boolean(flag)) => Some(Value::Flag(*flag)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        alarm::DEFAULT_SENDMAIL,
        cli::Arguments,
        instance::state::DEFAULT_DISKSTRING,
        paths::{DEFAULT_DIR, Paths},
    };
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    const DEFAULT: &str = include_str!("../../../packaging/plinth.toml");

    fn parse(text: &str) -> Result<Configuration> {
        Configuration::parse(Path::new("/etc/plinth/plinth.toml"), text)
    }

    /// A refusal's sentence and its remedy.
    fn refusal(text: &str) -> String {
        let refusal = parse(text).expect_err(text);
        format!("{}; {}", refusal.message, refusal.hint.unwrap_or_default())
    }

    #[test]
    fn each_flag_of_serve_has_its_key_and_each_key_its_flag() {
        let program = Arguments::command();
        let serve = program.find_subcommand("serve").expect("a command");
        let flags: BTreeSet<&str> = serve
            .get_arguments()
            .filter_map(clap::Arg::get_long)
            .filter(|flag| !["help", "config"].contains(flag))
            .chain(["dir"])
            .collect();
        assert_eq!(flags, KEYS.iter().map(|(key, _)| *key).collect());
    }

    #[test]
    fn the_default_file_names_each_key_and_its_comments_are_the_defaults() {
        let packaged = parse(DEFAULT).expect("the default file is understood");
        assert_eq!(packaged.text("look-group"), Some("plinth"));
        assert_eq!(packaged.values.len(), 1);
        let shown = |prefix: &str| -> String {
            let lines = DEFAULT.lines().filter_map(|line| line.strip_prefix(prefix));
            lines.filter(|line| !line.starts_with(' ')).map(|line| line.to_owned() + "\n").collect()
        };
        let defaults = parse(&shown("#")).expect("the defaults are understood");
        let paths = Paths::new(Path::new(DEFAULT_DIR), None);
        let expected = [
            ("dir", Value::Text(paths.dir().display().to_string())),
            ("state", Value::Text(paths.state().display().to_string())),
            ("diskstring", Value::Text(DEFAULT_DISKSTRING.to_owned())),
            ("look-group", Value::Text(String::new())),
            ("look-all", Value::Flag(false)),
            ("listen", Value::Text("off".to_owned())),
            ("insecure", Value::Flag(false)),
            ("http", Value::Text("off".to_owned())),
            ("alarm-command", Value::Words(Vec::new())),
            ("alarm-mail", Value::Text(String::new())),
            ("alarm-severity", Value::Text("ALARM".to_owned())),
            ("alarm-interval", Value::Text("10m".to_owned())),
            ("alarm-timeout", Value::Text("30s".to_owned())),
            ("alarm-sendmail", Value::Text(DEFAULT_SENDMAIL.to_owned())),
            ("io", Value::Text("auto".to_owned())),
        ];
        let found: BTreeMap<_, _> =
            defaults.values.into_iter().map(|(key, (_, value))| (key, value)).collect();
        assert_eq!(found, expected.into_iter().collect());
        let mut named: BTreeSet<&str> = found.keys().copied().collect();
        for line in shown("# Example: ").lines() {
            named.extend(parse(line).expect(line).values.keys());
        }
        assert_eq!(named, KEYS.iter().map(|(key, _)| *key).collect());
    }

    #[test]
    fn unknown_keys_and_wrong_values_are_refused_with_line_and_remedy() {
        let place = "/etc/plinth/plinth.toml, line";
        for (text, line, words) in [
            ("\n\ndisks = \"x\"", 3, "disks: there is no such key; the keys are dir, state,"),
            ("look_all = true", 1, "there is no such key; write look-all"),
            ("# x\nlook-all = \"yes\"", 2, "look-all: the value is of the wrong kind; give true"),
            ("listen = 5432", 1, "listen: the value is of the wrong kind; give a text in quotes"),
            (
                "alarm-command = \"/x\"",
                1,
                "alarm-command: the value is of the wrong kind; give a list",
            ),
            ("alarm-command = [1]", 1, "alarm-command: the value is of the wrong kind"),
            ("state = \"here\"", 1, "state: the value is of the wrong kind; give an absolute path"),
            ("io = \"auto\"\nio = \"uring\"", 2, "duplicate key"),
            ("[server]\nio = \"auto\"", 1, "server: there is no such key"),
            ("io = ", 1, "the file is TOML"),
            ("io = \"auto\"\nlisten: off", 2, "the file is TOML"),
        ] {
            let said = refusal(text);
            assert!(said.starts_with(&format!("{place} {line}: ")), "{text}: {said}");
            assert!(said.contains(words), "{text}: {said}");
        }
    }

    #[test]
    fn a_file_that_is_no_text_or_not_there_is_refused_when_it_was_asked_for() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("plinth.toml");
        assert!(Configuration::read_if_there(&path).is_ok_and(|found| found.values.is_empty()));
        assert!(Configuration::read(&path).is_err_and(|error| error.message.contains("toml")));
        std::fs::write(&path, b"io = \"auto\"\n# \xff").expect("written");
        let said = Configuration::read(&path).expect_err("no text");
        assert!(said.message.ends_with("line 2: it is not UTF-8"), "{}", said.message);
        std::fs::write(&path, vec![b'\n'; (1 << 20) + 1]).expect("written");
        assert!(Configuration::read(&path).is_err_and(|error| error.message.contains("1 MiB")));
    }
}
