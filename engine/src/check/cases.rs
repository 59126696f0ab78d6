//! The tables of docs/format.md, section 8, for the tests of the code that they describe.
//!
//! A test asks [`Table::case`] for each combination of facts, and in the end [`Table::end`]: it
//! fails if facts meet no row or two, and if a row, a value or a column is never met.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};

const TEXT: &str = include_str!("../../../docs/format.md");

/// One table.
pub struct Table {
    name: String,
    columns: Vec<String>,
    /// A case, and for each column the values it takes; `None`: any.
    rows: Vec<(String, Vec<Cell>)>,
    met: BTreeSet<usize>,
    values: BTreeMap<String, BTreeSet<String>>,
}

enum Cell {
    Any,
    Not(String),
    OneOf(Vec<String>),
}

impl Cell {
    fn read(text: &str) -> Self {
        match text.strip_prefix("not ") {
            _ if text == "any" => Self::Any,
            Some(value) => Self::Not(value.to_owned()),
            None => Self::OneOf(text.split(" or ").map(str::to_owned).collect()),
        }
    }

    fn meets(&self, value: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Not(other) => other != value,
            Self::OneOf(values) => values.iter().any(|one| one == value),
        }
    }

    fn named(&self) -> &[String] {
        match self {
            Self::Any => &[],
            Self::Not(value) => std::slice::from_ref(value),
            Self::OneOf(values) => values,
        }
    }
}

impl Table {
    /// The table whose first column is called `name`.
    pub fn read(name: &str) -> Self {
        let cells = |line: &str| {
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
        };
        let mut lines = TEXT.lines().skip_while(|line| !line.starts_with(&format!("| {name} |")));
        let mut columns = cells(lines.next().unwrap_or_else(|| panic!("no table of {name}")));
        let end = columns.iter().position(|column| column == "what is done").expect("what is done");
        assert_eq!(columns[end + 1..], ["what is said"], "{name}");
        columns.truncate(end);
        let rows = lines.skip(1).take_while(|line| line.starts_with('|')).map(|line| {
            let row = cells(line);
            assert_eq!(row.len(), end + 2, "{line}");
            (row[0].clone(), row[1..end].iter().map(|cell| Cell::read(cell)).collect())
        });
        let rows = rows.collect();
        let columns = columns.split_off(1);
        Self { name: name.to_owned(), columns, rows, met: BTreeSet::new(), values: BTreeMap::new() }
    }

    /// The case of the one row that these facts meet, in the order of the columns.
    pub fn case(&mut self, facts: &[String]) -> String {
        assert_eq!(facts.len(), self.columns.len(), "{}: {facts:?}", self.name);
        for (column, value) in self.columns.iter().zip(facts) {
            self.values.entry(column.clone()).or_default().insert(value.clone());
        }
        let meets = |cells: &[Cell]| cells.iter().zip(facts).all(|(cell, value)| cell.meets(value));
        let met: Vec<usize> =
            (0..self.rows.len()).filter(|row| meets(&self.rows[*row].1)).collect();
        let [row] = met[..] else {
            let cases: Vec<_> = met.iter().map(|row| &self.rows[*row].0).collect();
            panic!("{}: {facts:?} meets {cases:?}", self.name);
        };
        self.met.insert(row);
        self.rows[row].0.clone()
    }

    /// Every row was met, and every value that a row names can come about.
    pub fn end(self) {
        for (index, (case, cells)) in self.rows.iter().enumerate() {
            assert!(
                self.met.contains(&index),
                "{}: row {index}, {case}, is met by no combination",
                self.name
            );
            for (column, cell) in self.columns.iter().zip(cells) {
                for value in cell.named() {
                    let known = &self.values[column];
                    assert!(
                        known.contains(value),
                        "{}: {case}: {column} is never {value}; it is {known:?}",
                        self.name
                    );
                }
            }
        }
    }
}

/// `InStep` as a fact is `in step`, `true` is `yes`.
pub fn fact(value: impl Debug) -> String {
    match format!("{value:?}").as_str() {
        "true" => "yes".to_owned(),
        "false" => "no".to_owned(),
        name => split(name, ' ').to_lowercase(),
    }
}

/// `OldImage` as a case is `OLD-IMAGE`.
pub fn case(value: impl Debug) -> String {
    split(&format!("{value:?}"), '-').to_uppercase()
}

fn split(name: &str, separator: char) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push(separator);
        }
        text.push(letter);
    }
    text
}

/// Every choice of one value from each of `count` equal lists.
pub fn combinations<T: Clone>(values: &[T], count: usize) -> Vec<Vec<T>> {
    (0..count).fold(vec![Vec::new()], |all, _| {
        all.iter()
            .flat_map(|one| {
                values.iter().map(|value| [&one[..], std::slice::from_ref(value)].concat())
            })
            .collect()
    })
}
