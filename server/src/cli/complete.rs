//! Completion on the tab key: commands, their flags, and what is at a path.

use super::{
    context::Context,
    interactive,
    place::{self, Place},
};
use crate::paths::Paths;
use rustyline::{
    Context as Terminal, Helper,
    completion::{Completer as Complete, Pair},
    highlight::Highlighter,
    hint::Hinter,
    validate::Validator,
};

/// Completes for somebody who stands at a place.
pub(super) struct Completer {
    paths: Paths,
    here: Place,
}

impl Completer {
    pub(super) fn new(context: &Context) -> Self {
        Self { paths: context.paths.clone(), here: context.here.clone() }
    }

    /// What the last word of a line may become.
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
        // As it would be read: a backslash keeps a blank.
        let word = word.replace("\\ ", " ");
        let names = if word.starts_with('/') && command == "cp" { of_host(&word) } else { self.names(&word) };
        let escaped = |name: String| {
            let (name, end) = name.strip_suffix(' ').map_or((name.as_str(), ""), |name| (name, " "));
            format!("{}{end}", name.replace(' ', "\\ "))
        };
        names.into_iter().map(escaped).collect()
    }

    /// Names that a path may end in; who asks for what is not there gets nothing.
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
            let groups = place::groups(&context, "*").unwrap_or_default();
            return groups.into_iter().filter(|name| fits(name)).map(|name| format!("{directory}{name}/")).collect();
        };
        let found = context.engine(group).and_then(|engine| {
            let found = place::directory(&engine, &at)?;
            place::entries(&engine, &found.place)
        });
        let mut names = Vec::new();
        for entry in found.unwrap_or_default() {
            if let Some(name) = entry.place.parts.last().filter(|name| fits(name)) {
                names.push(format!("{directory}{name}{}", if entry.is_directory() { "/" } else { " " }));
            }
        }
        names
    }
}

/// Where the last word of a line begins.
fn last_word(line: &str) -> usize {
    let is_end = |at: &usize| !line.get(..*at).unwrap_or_default().ends_with('\\');
    line.rmatch_indices(char::is_whitespace).find(|(at, _)| is_end(at)).map_or(0, |(at, blank)| at + blank.len())
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

    fn complete(&self, line: &str, at: usize, _: &Terminal<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let line = line.get(..at).unwrap_or(line);
        let start = last_word(line);
        let pairs = self.candidates(line).into_iter();
        Ok((start, pairs.map(|name| Pair { display: name.trim_end().to_owned(), replacement: name }).collect()))
    }
}

impl Hinter for Completer {
    type Hint = String;
}
impl Highlighter for Completer {}
impl Validator for Completer {}
impl Helper for Completer {}
