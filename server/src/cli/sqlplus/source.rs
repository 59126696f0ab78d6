//! Where lines come from: the texts, scripts and the standard input that the command line names,
//! one after the other, and scripts that scripts call, each before the rest of its caller.
//!
//! Each source has a reader of its own, so an item never goes from one into another.

use super::{Input, reader::Reader};
use std::{collections::VecDeque, path::PathBuf};

/// How deep scripts may call each other: as in SQL*Plus.
pub(super) const DEPTH_MAX: usize = 20;

#[derive(Debug)]
pub(super) struct Source {
    /// The script's name, for messages.
    pub name: Option<String>,
    /// The folder that `@@` is relative to.
    pub folder: Option<PathBuf>,
    /// The lines that are left; `None`: those of the standard input.
    lines: Option<std::vec::IntoIter<String>>,
    /// The rest of the last line.
    pub rest: Option<String>,
    /// The number of the last line.
    pub number: usize,
    pub reader: Reader,
}

impl Source {
    pub(super) fn text(text: &str) -> Self {
        // A byte order mark is no character of the script.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        Self { lines: Some(lines.into_iter()), ..Self::standard() }
    }

    pub(super) fn script(name: String, folder: Option<PathBuf>, text: &str) -> Self {
        Self { name: Some(name), folder, ..Self::text(text) }
    }

    fn standard() -> Self {
        Self {
            name: None,
            folder: None,
            lines: None,
            rest: None,
            number: 0,
            reader: Reader::default(),
        }
    }

    pub(super) fn is_standard(&self) -> bool {
        self.lines.is_none()
    }

    /// The next line of a text.
    pub(super) fn next_line(&mut self) -> Option<String> {
        self.lines.as_mut().and_then(Iterator::next)
    }
}

/// All sources.
#[derive(Debug)]
pub(super) struct Sources {
    inputs: VecDeque<Input>,
    stack: Vec<Source>,
}

/// Where an item stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Typed at a terminal.
    Terminal,
    /// In a text of the command line, or in the standard input.
    Line(usize),
    Script(String, usize),
}

impl Sources {
    pub(super) fn new(inputs: Vec<Input>) -> Self {
        Self { inputs: inputs.into(), stack: Vec::new() }
    }

    /// The source that is read now.
    pub(super) fn top(&mut self) -> Option<&mut Source> {
        self.stack.last_mut()
    }

    pub(super) fn push(&mut self, source: Source) {
        self.stack.push(source);
    }

    pub(super) fn pop(&mut self) {
        self.stack.pop();
    }

    /// How many scripts are running.
    pub(super) fn depth(&self) -> usize {
        self.stack.iter().filter(|source| source.name.is_some()).count()
    }

    /// The next input that the command line names, if the one before has ended.
    pub(super) fn next_input(&mut self) -> Option<Input> {
        self.inputs.pop_front()
    }

    pub(super) fn push_standard(&mut self) {
        self.stack.push(Source::standard());
    }

    /// Whether the lines come, from a script or at once, from the standard input.
    pub(super) fn is_of_standard(&self) -> bool {
        self.stack.first().is_some_and(Source::is_standard)
    }

    /// The folder of the script that is running.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        self.stack.last().and_then(|source| source.folder.clone())
    }

    /// Ends all scripts that are running.
    pub(super) fn end_scripts(&mut self) {
        let rest = usize::from(self.is_of_standard());
        self.stack.truncate(rest);
    }

    /// Where a line of the present source stands.
    pub(super) fn place(&self, line: usize, is_terminal: bool) -> Place {
        match self.stack.last() {
            Some(Source { name: Some(name), .. }) => Place::Script(name.clone(), line),
            Some(source) if source.is_standard() && is_terminal => Place::Terminal,
            _ => Place::Line(line),
        }
    }
}
