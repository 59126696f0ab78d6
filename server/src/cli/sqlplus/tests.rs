//! Whole scripts, with doubles of the server and the world.

mod documents;
mod joins;
mod scripts;

use super::*;
use crate::{
    query::{Column, Table, views::Type},
    sql_error::{SqlError, state},
};
use plinth_engine::admin::Value;
use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
};

/// A server that keeps what it gets. It refuses a statement with the word `bad` at this word.
#[derive(Default)]
struct FakeServer {
    statements: Vec<String>,
    is_connected: bool,
    /// Results by statement; another query has one row with 1.
    tables: BTreeMap<String, Table>,
}

impl Server for FakeServer {
    fn run(&mut self, statement: &str, given: &mut dyn FnMut(Given)) -> Result<()> {
        self.statements.push(statement.to_owned());
        if let Some(at) = statement.find("bad") {
            return Err(SqlError::new("42P01", "no view bad").at(at));
        }
        if statement.contains("cancelled") {
            return Err(SqlError::new(state::CANCELED, "cancelled"));
        }
        let first = statement.split_whitespace().next().unwrap_or_default().to_uppercase();
        if let Some(table) = self.tables.get(statement) {
            given(Given {
                table: Some(table.clone()),
                tag: "SELECT".to_owned(),
                ..Given::default()
            });
        } else if ["SELECT", "SHOW", "WITH"].contains(&first.as_str()) {
            let table = table(&[("one", Type::Integer)], vec![vec![Value::Integer(1)]]);
            given(Given { table: Some(table), tag: "SELECT 1".to_owned(), ..Given::default() });
        } else {
            let second = statement.split_whitespace().nth(1).unwrap_or_default().to_uppercase();
            let tag = if second.is_empty() { first } else { format!("{first} {second}") };
            given(Given { tag, ..Given::default() });
        }
        Ok(())
    }

    fn connect(&mut self) -> Result<()> {
        self.is_connected = true;
        Ok(())
    }

    fn disconnect(&mut self) {
        self.is_connected = false;
    }

    fn is_connected(&self) -> bool {
        self.is_connected
    }
}

fn table(columns: &[(&str, Type)], rows: Vec<Vec<Value>>) -> Table {
    let column = |(name, kind): &(&str, Type)| Column { name: (*name).to_owned(), kind: *kind };
    Table { columns: columns.iter().map(column).collect(), rows }
}

#[derive(Default)]
struct FakeWorld {
    out: String,
    err: String,
    input: VecDeque<String>,
    answers: VecDeque<String>,
    questions: Vec<String>,
    is_terminal: bool,
    files: BTreeMap<PathBuf, String>,
    /// The file that is spooled to.
    spool: Option<PathBuf>,
    is_full: bool,
    commands: Vec<String>,
    environment: BTreeMap<String, String>,
}

impl World for FakeWorld {
    fn print(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn complain(&mut self, text: &str) {
        self.err.push_str(text);
    }

    fn read(&mut self, _: &str) -> io::Result<Line> {
        Ok(self.input.pop_front().map_or(Line::End, Line::Text))
    }

    fn ask(&mut self, question: &str, _: bool) -> Option<String> {
        self.questions.push(question.to_owned());
        self.answers.pop_front()
    }

    fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    fn remember(&mut self, _: &str) {}

    fn script(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let found = self.files.get(path).map(|text| text.clone().into_bytes());
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn spool(&mut self, path: &Path, how: Spool) -> io::Result<()> {
        if path.starts_with("/nowhere") {
            return Err(io::ErrorKind::NotFound.into());
        }
        match how {
            Spool::Create if self.files.contains_key(path) => {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            Spool::Append => drop(self.files.entry(path.to_owned()).or_default()),
            _ => drop(self.files.insert(path.to_owned(), String::new())),
        }
        self.spool = Some(path.to_owned());
        Ok(())
    }

    fn write_spool(&mut self, text: &str) -> io::Result<()> {
        if self.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if let Some(file) = self.spool.as_ref().and_then(|path| self.files.get_mut(path)) {
            file.push_str(text);
        }
        Ok(())
    }

    fn end_spool(&mut self) {
        self.spool = None;
    }

    fn write(&mut self, path: &Path, text: &str, how: Spool) -> io::Result<()> {
        let before = self.spool.take();
        let result = self.spool(path, how).and_then(|()| self.write_spool(text));
        self.spool = before;
        result
    }

    fn shell(&mut self, command: &str) -> io::Result<i32> {
        self.commands.push(command.to_owned());
        if command == "nothing" { Err(io::ErrorKind::NotFound.into()) } else { Ok(3) }
    }

    fn environment(&self, name: &str) -> Option<String> {
        self.environment.get(name).cloned()
    }

    fn user(&self) -> String {
        "root".to_owned()
    }

    fn now(&self) -> i64 {
        1_772_895_849_000_000_000
    }

    fn clock(&self) -> Duration {
        Duration::ZERO
    }
}

/// A run of the interpreter: its surroundings before, its traces after.
struct Stage {
    server: FakeServer,
    world: FakeWorld,
    start: Start,
    code: u8,
}

impl Stage {
    fn new(is_sqlplus: bool) -> Self {
        let look = if is_sqlplus {
            Look::Report
        } else {
            Look::Psql { only_rows: false, unaligned: None }
        };
        Self {
            server: FakeServer { is_connected: true, ..FakeServer::default() },
            world: FakeWorld::default(),
            start: Start {
                is_sqlplus,
                silent: true,
                look,
                inputs: vec![Input::Standard],
                defines: Vec::new(),
                stops: false,
                restricted: 0,
                markup: None,
            },
            code: 0,
        }
    }

    /// The program under the name `sqlplus`.
    fn sqlplus() -> Self {
        Self::new(true)
    }

    /// `plinth sql`.
    fn plinth() -> Self {
        Self::new(false)
    }

    fn file(mut self, name: &str, text: &str) -> Self {
        self.world.files.insert(name.into(), text.to_owned());
        self
    }

    fn table(mut self, statement: &str, table: Table) -> Self {
        self.server.tables.insert(statement.to_owned(), table);
        self
    }

    fn script(mut self, name: &str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|one| (*one).to_owned()).collect();
        self.start.inputs = vec![Input::Script(name.to_owned(), arguments)];
        self
    }

    /// Runs the text from a pipe, and what else was set up.
    fn run(mut self, text: &str) -> Self {
        self.world.input = text.lines().map(str::to_owned).collect();
        let start = self.start.clone();
        let interpreter = Interpreter::new(start, &mut self.server, &mut self.world);
        self.code = interpreter.expect("a start").run();
        self
    }

    /// Everything that was printed.
    fn all(&self) -> String {
        format!("{}{}", self.world.out, self.world.err)
    }

    #[track_caller]
    fn sends(&self, statements: &[&str]) {
        assert_eq!(self.server.statements, statements, "{}", self.all());
    }

    #[track_caller]
    fn ends(&self, code: u8) {
        assert_eq!(self.code, code, "{}", self.all());
    }

    #[track_caller]
    fn says(&self, text: &str) {
        assert!(self.all().contains(text), "no {text:?} in\n{}", self.all());
    }
}
