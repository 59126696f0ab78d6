//! Completion on the tab key: commands, their flags, names of groups and disks where a command
//! takes one, and paths everywhere else. The name of an argument in the table of commands says
//! which kind it takes.

use super::{
    asm_path::{self, AsmPath},
    context::{Context, bare, quoted},
    interactive,
};
use crate::paths::Paths;
use clap::{Arg, Command};
use plinth_engine::admin::Value;
use rustyline::{
    Context as Terminal, Helper,
    completion::{Completer as Complete, Pair},
    highlight::Highlighter,
    hint::Hinter,
    validate::Validator,
};

/// The names of mounted groups.
const MOUNTED: &str = "SELECT name FROM v$asm_diskgroup_stat WHERE group_number > 0 ORDER BY name";

/// The kind of name that an argument takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// A disk group, mounted or not.
    Group,
    MountedGroup,
    /// A disk group that is to be mounted, or a directory of the host.
    GroupToMount,
    /// A disk group that is mounted, or a directory of the host.
    GroupToDismount,
    Disk,
    FailureGroup,
    Path,
}

impl Wanted {
    fn by(command: &str, argument: &Arg) -> Self {
        let name =
            argument.get_value_names().and_then(<[_]>::first).map_or("", |name| name.as_str());
        match (command, name) {
            // This GROUP is a number.
            ("mapau", _) => Self::Path,
            // This GROUP is a unix group.
            (_, "GROUP") if argument.get_id() == "socket_group" => Self::Path,
            ("lsdg", "PATTERN") | ("dropdg" | "report" | "status", "GROUP") => Self::Group,
            ("mount", "GROUP|DIRECTORY") => Self::GroupToMount,
            ("umount", "GROUP|DIRECTORY") | ("check", "WHAT") => Self::GroupToDismount,
            ("lsop", "PATTERN") | (_, "GROUP" | "GROUPS") => Self::MountedGroup,
            (_, "DISK") => Self::Disk,
            (_, "FAILGROUP") => Self::FailureGroup,
            _ => Self::Path,
        }
    }
}

/// The kind of name that the word after `words` stands for, and the disk group that `words` name.
fn wanted(command: &Command, words: &[&str]) -> (Wanted, Option<String>) {
    let name = command.get_name();
    let places: Vec<&Arg> = command.get_positionals().collect();
    let (mut place, mut group) = (0, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let argument = if word.len() > 1 && word.starts_with('-') {
            let flag = command.get_arguments().find(|flag| match word.strip_prefix("--") {
                Some(long) => flag.get_long() == Some(long),
                // If a word has several letters, the last may take a value.
                None => flag.get_short().is_some_and(|short| word.ends_with(short)),
            });
            let Some(flag) = flag.filter(|flag| flag.get_action().takes_values()) else { continue };
            let Some(value) = words.next() else { return (Wanted::by(name, flag), group) };
            (flag, value)
        } else {
            let Some(argument) = places.get(place).or(places.last()) else { continue };
            place += 1;
            (*argument, word)
        };
        if matches!(Wanted::by(name, argument.0), Wanted::MountedGroup) {
            group = Some(bare(argument.1).to_uppercase());
        }
    }
    let last = places
        .last()
        .filter(|last| last.get_num_args().is_some_and(|count| count.max_values() > 1));
    (places.get(place).or(last).map_or(Wanted::Path, |argument| Wanted::by(name, argument)), group)
}

/// Completes lines of a shell whose current directory is `here`.
pub(super) struct Completer {
    paths: Paths,
    here: AsmPath,
}

impl Completer {
    pub(super) fn new(context: &Context) -> Self {
        Self { paths: context.paths.clone(), here: context.here.clone() }
    }

    /// The words that the last word of a line can be completed to.
    pub(super) fn candidates(&self, line: &str) -> Vec<String> {
        let (before, word) = line.split_at(last_word(line));
        let table = interactive::commands();
        let Some(command) = before.split_whitespace().next() else {
            let names = table.get_subcommands().map(|command| format!("{} ", command.get_name()));
            return names.filter(|name| name.starts_with(word)).collect();
        };
        if word.starts_with('-') {
            let Some(command) = table.find_subcommand(command) else { return Vec::new() };
            let mut flags = Vec::new();
            for flag in command.get_arguments().filter(|flag| !flag.is_hide_set()) {
                flags.extend(flag.get_short().map(|short| format!("-{short} ")));
                flags.extend(flag.get_long().map(|long| format!("--{long} ")));
            }
            flags.retain(|flag| flag.starts_with(word));
            return flags;
        }
        if command == "help" {
            let names = table.get_subcommands().map(|command| command.get_name().to_owned());
            return names.filter(|name| name.starts_with(word)).collect();
        }
        // As the shell reads it: a backslash quotes a blank.
        let word = word.replace("\\ ", " ");
        let words: Vec<&str> = before.split_whitespace().skip(1).collect();
        let (wanted, group) = table
            .find_subcommand(command)
            .map_or((Wanted::Path, None), |command| wanted(command, &words));
        let is_directory = word.starts_with('/')
            && matches!(wanted, Wanted::GroupToMount | Wanted::GroupToDismount);
        if wanted != Wanted::Path && !is_directory {
            return self.known(wanted, group.as_deref(), &word);
        }
        let names = if is_directory || word.starts_with('/') && command == "cp" {
            of_host(&word)
        } else {
            self.names(&word)
        };
        let escaped = |name: String| {
            let (name, end) =
                name.strip_suffix(' ').map_or((name.as_str(), ""), |name| (name, " "));
            format!("{}{end}", name.replace(' ', "\\ "))
        };
        names.into_iter().map(escaped).collect()
    }

    /// Names that the instance knows.
    fn known(&self, wanted: Wanted, group: Option<&str>, word: &str) -> Vec<String> {
        let within = match group {
            Some(group) => format!(
                "group_number IN (SELECT group_number FROM v$asm_diskgroup_stat WHERE name = {})",
                quoted(group)
            ),
            None => "group_number > 0".to_owned(),
        };
        let (sql, or_else) = match wanted {
            Wanted::Path => return Vec::new(),
            Wanted::MountedGroup | Wanted::GroupToDismount => (MOUNTED.to_owned(), None),
            Wanted::Group => ("SELECT name FROM v$asm_diskgroup ORDER BY name".to_owned(), None),
            // The group may be mounted already, and its files are to be mounted on a directory.
            Wanted::GroupToMount => (
                "SELECT name FROM v$asm_diskgroup WHERE state = 'DISMOUNTED' ORDER BY name"
                    .to_owned(),
                Some(MOUNTED),
            ),
            Wanted::Disk => (
                format!("SELECT DISTINCT name FROM v$asm_disk_stat WHERE {within} ORDER BY name"),
                None,
            ),
            Wanted::FailureGroup => (
                format!(
                    "SELECT DISTINCT failgroup FROM v$asm_disk_stat WHERE {within} ORDER BY failgroup"
                ),
                None,
            ),
        };
        let context = Context::new(self.paths.clone(), false);
        let (plus, start) = word.split_at(usize::from(word.starts_with('+')));
        let fitting = |sql: &str| -> Vec<String> {
            let rows = context.query(sql).map(|found| found.rows).unwrap_or_default();
            let names = rows.into_iter().filter_map(|row| match row.into_iter().next() {
                Some(Value::Text(name)) => Some(name),
                _ => None,
            });
            let start = start.to_uppercase();
            names
                .filter(|name| name.starts_with(&start))
                .map(|name| format!("{plus}{name} "))
                .collect()
        };
        let found = fitting(&sql);
        match or_else {
            Some(sql) if found.is_empty() => fitting(sql),
            _ => found,
        }
    }

    /// Names that a path may end in; none if its directory does not exist.
    fn names(&self, word: &str) -> Vec<String> {
        let context = Context::new(self.paths.clone(), false);
        let (directory, start) = match word.rfind('/') {
            Some(slash) => word.split_at(slash + 1),
            None if word.starts_with('+') => word.split_at(1),
            None => ("", word),
        };
        let at = self.here.join(directory);
        let lower = start.to_lowercase();
        let fits = |name: &str| name.to_lowercase().starts_with(&lower);
        let Some(group) = &at.group else {
            let groups = asm_path::groups(&context, "*").unwrap_or_default();
            return groups
                .into_iter()
                .filter(|name| fits(name))
                .map(|name| format!("{directory}{name}/"))
                .collect();
        };
        let found = context.engine(group).and_then(|engine| {
            let found = asm_path::directory(&engine, &at)?;
            asm_path::entries(&engine, &found.place)
        });
        let mut names = Vec::new();
        for entry in found.unwrap_or_default() {
            if let Some(name) = entry.place.parts.last().filter(|name| fits(name)) {
                names.push(format!(
                    "{directory}{name}{}",
                    if entry.is_directory() { "/" } else { " " }
                ));
            }
        }
        names
    }
}

/// Where the last word of a line begins.
fn last_word(line: &str) -> usize {
    let is_end = |at: &usize| !line.get(..*at).unwrap_or_default().ends_with('\\');
    line.rmatch_indices(char::is_whitespace)
        .find(|(at, _)| is_end(at))
        .map_or(0, |(at, blank)| at + blank.len())
}

/// Names of files of the host that a path may end in.
fn of_host(word: &str) -> Vec<String> {
    let (directory, start) = word.split_at(word.rfind('/').map_or(0, |slash| slash + 1));
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(start) {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            names.push(format!("{directory}{name}{}", if is_directory { "/" } else { " " }));
        }
    }
    names.sort();
    names
}

impl Complete for Completer {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Terminal<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let line = line.get(..at).unwrap_or(line);
        let start = last_word(line);
        let pairs = self.candidates(line).into_iter();
        Ok((
            start,
            pairs
                .map(|name| Pair { display: name.trim_end().to_owned(), replacement: name })
                .collect(),
        ))
    }
}

impl Hinter for Completer {
    type Hint = String;
}
impl Highlighter for Completer {}
impl Validator for Completer {}
impl Helper for Completer {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_a_word_is_for() {
        let table = interactive::commands();
        for (line, meant, group) in [
            ("chkdg", Wanted::MountedGroup, None),
            ("rebal --power 4 -w", Wanted::MountedGroup, None),
            ("rebal --power", Wanted::Path, None),
            ("rebal data", Wanted::Path, None),
            ("dropdg -r", Wanted::Group, None),
            ("report --force", Wanted::Group, None),
            ("lsdg -g", Wanted::Group, None),
            ("lsop", Wanted::MountedGroup, None),
            ("lsct", Wanted::MountedGroup, None),
            ("mount", Wanted::GroupToMount, None),
            ("umount -f data", Wanted::GroupToDismount, None),
            ("lsdsk -kG", Wanted::MountedGroup, None),
            ("lsdsk -G +data/", Wanted::Path, Some("DATA")),
            ("offline -G data -D", Wanted::Disk, Some("DATA")),
            ("online -G data -F", Wanted::FailureGroup, Some("DATA")),
            ("remap data", Wanted::Disk, Some("DATA")),
            ("mapau", Wanted::Path, None),
            ("nbd --socket-group", Wanted::Path, None),
            ("cp", Wanted::Path, None),
            ("ls -l", Wanted::Path, None),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let command = table.find_subcommand(words[0]).expect("a command");
            assert_eq!(wanted(command, &words[1..]).0, meant, "{line}");
            if let Some(group) = group {
                assert_eq!(wanted(command, &words[1..]).1.as_deref(), Some(group), "{line}");
            }
        }
    }
}
