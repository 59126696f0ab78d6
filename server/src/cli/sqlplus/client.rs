//! The client commands, each in a function.

use super::{
    Interpreter, Look, RELEASE, Spool,
    binds::{assignments, constant},
    commands::{self, Command},
    refusal::{Cause, Refusal, invalid, system, wrong},
    settings::{Feedback, other_shown},
    source::{DEPTH_MAX, Source},
    statement::elapsed,
    variables::checked,
    whenever,
    words::Words,
};
use crate::{
    query::{Column, Table, views::Type},
    sql_error::{SqlError, state},
};
use plinth_engine::admin::Value;
use std::path::{Path, PathBuf};

/// The result of a client command.
type Done = Result<(), Refusal>;

impl Interpreter<'_> {
    /// Carries out a client command, whose variables have been replaced.
    pub(super) fn command(&mut self, command: Command, word: &str, rest: &str, line: usize) {
        if let Err(refusal) = self.try_command(command, word, rest, line) {
            self.refuse(refusal, line, None);
        }
    }

    fn try_command(&mut self, command: Command, word: &str, rest: &str, line: usize) -> Done {
        match command {
            Command::Accept => self.accept(rest)?,
            Command::At | Command::AtAt | Command::Start => {
                self.start_command(command == Command::AtAt, rest, line)?;
            }
            Command::Break | Command::Column | Command::Compute => self.layout(command, rest)?,
            Command::Btitle | Command::Ttitle | Command::Repheader | Command::Repfooter => {
                self.title(command, rest)?;
            }
            Command::Clear => self.clear(rest)?,
            Command::Connect => self.connect(rest)?,
            Command::Define => {
                let said = self.variables.define(rest)?;
                self.say(&said);
            }
            Command::Describe => self.describe(rest)?,
            Command::Disconnect => {
                self.server.disconnect();
                self.connected();
            }
            // The reader passes over both.
            Command::Document | Command::Remark => {}
            Command::Execute => self.execute(rest, line)?,
            Command::Exit => {
                let code = whenever::exit(rest)?;
                self.exit(&code);
            }
            Command::Help => self.help(),
            Command::Host => self.host(rest)?,
            Command::List | Command::Append | Command::Change | Command::Del | Command::Input => {
                self.edit_buffer(command, rest)?
            }
            Command::Edit | Command::Get | Command::Save | Command::Store => {
                self.file(command, rest)?;
            }
            Command::Pause => self.pause(rest),
            Command::Print => self.print(rest)?,
            Command::Prompt => self.say(&format!("{rest}\n")),
            Command::Run => {
                if let Ok(said) = self.buffer.list("") {
                    self.say(&said);
                }
                self.again(line);
            }
            Command::Set => {
                let mut is_layout = false;
                let result = self.settings.set(rest, &mut is_layout);
                // Those before a refused one are set.
                if is_layout {
                    self.report_from_now_on();
                }
                result?;
            }
            Command::Show => self.show_settings(rest)?,
            Command::Spool => self.spool(rest)?,
            Command::Timing => self.timing(rest)?,
            Command::Undefine => self.undefine(rest)?,
            Command::Variable => {
                let (said, value) = self.binds.variable(rest)?;
                self.say(&said);
                if let Some((name, expression)) = value {
                    self.assign(&name, &expression, line)?;
                }
            }
            Command::Whenever => self.whenever.set(rest)?,
            Command::Refused(why) => return Err(super::refusal::not_here(word, why)),
        }
        Ok(())
    }

    /// A command about columns and groups of rows.
    fn layout(&mut self, command: Command, rest: &str) -> Done {
        let said = match command {
            Command::Break => self.breaks.break_on(rest)?,
            Command::Column => self.columns.column(rest)?,
            _ => self.breaks.compute(rest)?,
        };
        self.changed_layout(rest, &said);
        Ok(())
    }

    /// A command that writes the buffer or the settings to a file, or reads them from one.
    fn file(&mut self, command: Command, rest: &str) -> Done {
        match command {
            Command::Edit => self.edit(rest),
            Command::Get => self.get(rest),
            Command::Save => self.save(rest),
            _ => self.store(rest),
        }
    }

    /// A command that lists or changes lines of the buffer.
    fn edit_buffer(&mut self, command: Command, rest: &str) -> Done {
        let said = match command {
            Command::Append => self.buffer.append(rest)?,
            Command::Change => self.buffer.change(rest)?,
            Command::List => self.buffer.list(rest)?,
            Command::Del => {
                self.buffer.delete(rest)?;
                String::new()
            }
            _ => {
                self.buffer.input(rest)?;
                String::new()
            }
        };
        self.say(&said);
        Ok(())
    }

    /// A command about the layout without a clause only lists what is set.
    fn changed_layout(&mut self, rest: &str, said: &str) {
        if said.is_empty() && !rest.trim().is_empty() {
            self.report_from_now_on();
        }
        self.say(said);
    }

    fn title(&mut self, command: Command, rest: &str) -> Done {
        let (title, name) = match command {
            Command::Btitle => (&mut self.titles.bottom, "BTITLE"),
            Command::Ttitle => (&mut self.titles.top, "TTITLE"),
            Command::Repheader => (&mut self.titles.header, "REPHEADER"),
            _ => (&mut self.titles.footer, "REPFOOTER"),
        };
        let said = title.set(name, rest)?;
        self.changed_layout(rest, &said);
        Ok(())
    }

    /// `ACCEPT v [NUMBER | CHAR | DATE] [FORMAT f] [DEFAULT d] [PROMPT t | NOPROMPT] [HIDE]`.
    fn accept(&mut self, rest: &str) -> Done {
        let mut words = Words::new(rest);
        let Some(name) = words.option()? else { return Err(wrong("ACCEPT has no variable")) };
        let name = checked(&name.text)?.to_owned();
        let (mut is_number, mut is_hidden) = (false, false);
        let (mut question, mut default) = (String::new(), None);
        let missing = |what: &str| wrong(format!("ACCEPT ... {what} has no value"));
        while let Some(word) = words.option()? {
            if word.is("NUMBER", 3) || word.is("BINARY_FLOAT", 12) || word.is("BINARY_DOUBLE", 13) {
                is_number = true;
            } else if word.is("DEFAULT", 3) {
                default = Some(words.value()?.ok_or_else(|| missing("DEFAULT"))?.text);
            } else if word.is("PROMPT", 6) {
                question = words.value()?.ok_or_else(|| missing("PROMPT"))?.text;
            } else if word.is("FORMAT", 3) {
                words.value()?.ok_or_else(|| missing("FORMAT"))?;
            } else if word.is("HIDE", 4) {
                is_hidden = true;
            } else if !(word.is("CHAR", 4) || word.is("DATE", 4) || word.is("NOPROMPT", 4)) {
                return Err(wrong(format!("unknown ACCEPT option \"{}\"", word.text)));
            }
        }
        loop {
            let answer = self.answered(&question, is_hidden);
            let is_given = answer.as_ref().is_some_and(|answer| !answer.is_empty());
            let value = if is_given { answer.clone() } else { default.clone().or(answer.clone()) };
            let Some(value) = value else {
                return Err(wrong(format!(
                    "ACCEPT {name} gets no answer: there is no terminal to ask at"
                ))
                .hint("give it a DEFAULT, or run the script as @file and pipe the answers"));
            };
            if !is_number {
                self.variables.set(&name, value);
                return Ok(());
            }
            if value.trim().parse::<f64>().is_ok() {
                self.variables.set_number(&name, value.trim());
                return Ok(());
            }
            let refusal = invalid(425, format!("\"{value}\" is not a valid NUMBER"));
            if !self.world.is_terminal() {
                return Err(refusal);
            }
            self.say(&format!("{}\n", refusal.error.message));
        }
    }

    /// An answer of the user, or of a pipe that no script is read from.
    pub(super) fn answered(&mut self, question: &str, is_hidden: bool) -> Option<String> {
        if self.world.is_terminal() || !self.sources.is_of_standard() {
            return self.world.ask(question, is_hidden);
        }
        None
    }

    fn clear(&mut self, rest: &str) -> Done {
        let mut words = Words::new(rest);
        let Some(word) = words.option()? else {
            return Err(wrong(
                "CLEAR takes BREAKS, BUFFER, COLUMNS, COMPUTES, SCREEN, SQL or TIMING",
            ));
        };
        let said = match () {
            () if word.is("BREAKS", 3) => {
                self.breaks.breaks.clear();
                "breaks cleared"
            }
            () if word.is("COLUMNS", 3) => {
                self.columns.clear();
                "columns cleared"
            }
            () if word.is("COMPUTES", 4) => {
                self.breaks.computes.clear();
                "computes cleared"
            }
            () if word.is("BUFFER", 4) || word.is("SQL", 3) => {
                self.buffer.clear();
                "buffer cleared"
            }
            () if word.is("SCREEN", 3) => {
                if self.world.is_terminal() {
                    self.world.print("\x1b[H\x1b[2J");
                }
                return Ok(());
            }
            () if word.is("TIMING", 4) => {
                self.timers.clear();
                return Ok(());
            }
            () => return Err(invalid(158, format!("unknown CLEAR option \"{}\"", word.text))),
        };
        if self.look == Look::Report && self.settings.feedback != Feedback::Off {
            self.say(&format!("{said}\n"));
        }
        Ok(())
    }

    /// `CONNECT / [AS role]`, or with a user, whose password is not needed.
    fn connect(&mut self, rest: &str) -> Done {
        check_logon(rest)?;
        self.server.disconnect();
        let result = self.server.connect();
        self.connected();
        result.map_err(|error| Refusal::of(Cause::Statement, error))?;
        if self.look != Look::Json {
            self.say("Connected.\n");
        }
        self.begin_profile();
        Ok(())
    }

    fn help(&mut self) {
        let names: Vec<&str> = commands::names().collect();
        let lines: Vec<String> = names
            .chunks(6)
            .map(|names| names.iter().map(|name| format!("{name:<12}")).collect())
            .collect();
        let text: String =
            lines.iter().map(|line: &String| format!("{}\n", line.trim_end())).collect();
        self.say(&format!("{text}docs/sql.md says what each of them does.\n"));
    }

    fn host(&mut self, rest: &str) -> Done {
        self.allowed(1, "HOST")?;
        let command = rest.trim();
        if command.is_empty() && !self.world.is_terminal() {
            return Err(wrong("HOST has no command, and there is no terminal for a shell"));
        }
        let shell = self.world.environment("SHELL").unwrap_or_else(|| "/bin/sh".to_owned());
        let command = if command.is_empty() { &shell } else { command };
        let code = self.world.shell(command).map_err(|error| {
            let text = format!("HOST: /bin/sh cannot be started: {error}");
            Refusal::of(Cause::System, SqlError::new(state::INTERNAL, text))
        })?;
        self.variables.set("_RC", code.to_string());
        Ok(())
    }

    /// Refuses what a level of `-R` forbids.
    pub(super) fn allowed(&self, level: u8, name: &str) -> Done {
        if self.restricted < level {
            return Ok(());
        }
        Err(invalid(738, format!("Restricted command \"{name}\" not available")))
    }

    fn pause(&mut self, rest: &str) {
        if self.world.is_terminal() {
            self.world.ask(&format!("{rest}\n"), false);
        } else if !rest.is_empty() {
            self.say(&format!("{rest}\n"));
        }
    }

    /// PRINT: each variable as a result of one row.
    fn print(&mut self, rest: &str) -> Done {
        let mut words = Words::new(rest);
        let mut names = Vec::new();
        while let Some(word) = words.option()? {
            names.push(word.text.trim_start_matches(':').to_uppercase());
        }
        if names.is_empty() {
            names = self.binds.names();
        }
        for name in names {
            let Some(bind) = self.binds.get(&name) else {
                return Err(invalid(552, format!("Bind variable \"{name}\" not declared.")));
            };
            let kind = match bind.kind {
                super::binds::Kind::Number => Type::Real,
                super::binds::Kind::Text(_) => Type::Text,
            };
            let table = Table {
                columns: vec![Column { name: name.clone(), kind }],
                rows: vec![vec![bind.value.clone()]],
            };
            if self.look == Look::Report {
                let lines = self.drawn(&table, "");
                self.say_lines(&lines);
                self.say("\n");
            } else {
                self.show(&table, "");
            }
        }
        Ok(())
    }

    /// EXECUTE: assignments to bind variables; anything else is PL/SQL.
    pub(super) fn execute(&mut self, rest: &str, line: usize) -> Done {
        let Some(found) = assignments(rest) else {
            let text = format!("EXECUTE {rest}: PL/SQL is not carried out");
            let error = SqlError::new(state::NOT_SUPPORTED, text)
                .hint("EXECUTE :variable := expression is");
            return Err(Refusal::of(Cause::Statement, error));
        };
        for (name, expression) in &found {
            self.assign(name, expression, line)?;
        }
        if self.look == Look::Report && self.settings.feedback != Feedback::Off {
            self.say("\nPL/SQL procedure successfully completed.\n\n");
        }
        if self.settings.autoprint {
            for (name, _) in &found {
                self.print(name)?;
            }
        }
        Ok(())
    }

    /// Gives a bind variable the value of an expression, which the server computes.
    fn assign(&mut self, name: &str, expression: &str, line: usize) -> Done {
        if self.binds.get(name).is_none() {
            return self.binds.assign(name, Value::Null);
        }
        if let Some(value) = constant(expression) {
            return self.binds.assign(name, value);
        }
        if !self.server.is_connected() {
            return Err(invalid(640, "Not connected").hint("CONNECT / AS SYSASM").of_statement());
        }
        let expression = self.binds.replace(expression, true)?;
        let query = format!("SELECT {expression} FROM dual");
        let mut value = None;
        let result = self.server.run(&query, &mut |given| {
            value = given.table.and_then(|table| table.rows.into_iter().next());
        });
        if let Err(error) = result {
            let text = format!("the value of :{name} in line {line}: {}", error.message);
            let error = SqlError { message: text, at: None, ..error };
            return Err(Refusal::of(Cause::Statement, error).with_line());
        }
        let value = value.and_then(|row| row.into_iter().next()).unwrap_or(Value::Null);
        self.binds.assign(name, value)
    }

    fn undefine(&mut self, rest: &str) -> Done {
        let mut words = Words::new(rest);
        let mut count = 0;
        while let Some(word) = words.option()? {
            self.variables.remove(checked(&word.text)?);
            count += 1;
        }
        if count == 0 {
            return Err(wrong("UNDEFINE has no variable"));
        }
        Ok(())
    }

    fn show_settings(&mut self, rest: &str) -> Done {
        let mut words = Words::new(rest);
        let Some(first) = words.option()? else {
            return Err(invalid(281, "show missing show option"));
        };
        let mut next = Some(first);
        while let Some(word) = next {
            let said = if word.is("ALL", 3) {
                let all: String =
                    self.settings.show_all().map(|line| format!("{line}\n")).collect();
                format!(
                    "{all}{}",
                    ["RELEASE", "SPOOL", "SQLCODE", "USER"].map(|name| self.shown(name)).concat()
                )
            } else if let Some(name) = other_shown(&word.text) {
                self.shown(name)
            } else if let Some(line) = self.settings.show(&word.text) {
                format!("{line}\n")
            } else {
                return Err(invalid(158, format!("unknown SHOW option \"{}\"", word.text)));
            };
            self.say(&said);
            next = words.option()?;
        }
        Ok(())
    }

    /// The line of SHOW for what is no setting.
    fn shown(&self, name: &str) -> String {
        match name {
            "USER" => format!("USER is \"{}\"\n", self.variables.get("_USER").unwrap_or_default()),
            "RELEASE" => format!("release {RELEASE}\n"),
            "ERRORS" => "No errors.\n".to_owned(),
            "SPOOL" => format!("spool {}\n", if self.spool.is_some() { "ON" } else { "OFF" }),
            "SQLCODE" => format!("sqlcode {}\n", self.sqlcode),
            "TTITLE" => self.titles.top.show(name),
            "BTITLE" => self.titles.bottom.show(name),
            "REPHEADER" => self.titles.header.show(name),
            "REPFOOTER" => self.titles.footer.show(name),
            _ => format!("{} 0\n", name.to_lowercase()),
        }
    }

    /// `SPOOL [file [CREATE | REPLACE | APPEND] | OFF | OUT]`.
    fn spool(&mut self, rest: &str) -> Done {
        let mut words = Words::new(rest);
        let Some(word) = words.value()? else {
            let said = match &self.spool {
                Some(name) => format!("currently spooling to {name}\n"),
                None => "not spooling currently\n".to_owned(),
            };
            self.say(&said);
            return Ok(());
        };
        if word.is("OFF", 3) || word.is("OUT", 3) {
            self.end_spool();
            return Ok(());
        }
        self.allowed(2, "SPOOL")?;
        let how = match words.option()? {
            None => Spool::Replace,
            Some(how) if how.is("REPLACE", 3) => Spool::Replace,
            Some(how) if how.is("CREATE", 3) => Spool::Create,
            Some(how) if how.is("APPEND", 3) => Spool::Append,
            Some(how) => return Err(wrong(format!("unknown SPOOL option \"{}\"", how.text))),
        };
        let path = self.path(&word.text, "lst");
        let name = path.display().to_string();
        self.end_spool();
        self.world.spool(&path, how).map_err(|error| {
            system(606, format!("Cannot create SPOOL file \"{name}\": {error}"))
        })?;
        self.spool = Some(name);
        let html = &self.settings.html;
        if html.on && html.spool {
            let document = html.document();
            self.spools_document = true;
            self.spool_text(&document);
        }
        Ok(())
    }

    /// A file's name with its default suffix, and variables of the environment replaced.
    pub(super) fn path(&self, name: &str, suffix: &str) -> PathBuf {
        let path = PathBuf::from(self.with_environment(name));
        if path.extension().is_some() || suffix.is_empty() {
            path
        } else {
            path.with_extension(suffix)
        }
    }

    /// `$NAME` and `${NAME}` of the environment; others stay.
    fn with_environment(&self, name: &str) -> String {
        let mut parts = name.split('$');
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (variable, rest) =
                match part.strip_prefix('{').and_then(|part| part.split_once('}')) {
                    Some(pair) => pair,
                    None => {
                        let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
                        part.split_at(part.find(|char| !is_name(char)).unwrap_or(part.len()))
                    }
                };
            match self.world.environment(variable).filter(|_| !variable.is_empty()) {
                Some(value) => out.push_str(&format!("{value}{rest}")),
                None => out.push_str(&format!("${part}")),
            }
        }
        out
    }

    fn start_command(&mut self, is_relative: bool, rest: &str, line: usize) -> Done {
        self.allowed(3, "START")?;
        let mut words = Words::new(rest);
        let Some(name) = words.value()? else { return Err(wrong("@ has no name of a script")) };
        let mut arguments = Vec::new();
        while let Some(word) = words.value()? {
            arguments.push(word.text);
        }
        self.start(&name.text, &arguments, is_relative, line);
        Ok(())
    }

    /// Begins a script. `is_relative`: its name is relative to the script that calls it.
    pub(super) fn start(
        &mut self,
        name: &str,
        arguments: &[String],
        is_relative: bool,
        line: usize,
    ) {
        if self.sources.depth() >= DEPTH_MAX {
            let text = format!(
                "SQL*Plus command procedures may only be nested to a depth of {DEPTH_MAX}."
            );
            self.refuse(invalid(309, text), line, None);
            return;
        }
        let candidates = self.candidates(name, is_relative);
        let mut refused = None;
        for path in &candidates {
            match self.world.script(path) {
                Ok(bytes) => {
                    for (number, argument) in arguments.iter().enumerate() {
                        self.variables.set(&(number + 1).to_string(), argument.clone());
                    }
                    let text = String::from_utf8_lossy(&bytes);
                    let folder = path.parent().map(Path::to_path_buf);
                    let name = path.display().to_string();
                    self.sources.push(Source::script(name, folder, &text));
                    return;
                }
                Err(error) => refused = refused.or(Some((path.display().to_string(), error))),
            }
        }
        let (name, error) = match refused {
            Some((name, error)) => (name, error.to_string()),
            None => (name.to_owned(), "no name".to_owned()),
        };
        self.refuse(system(310, format!("unable to open file \"{name}\": {error}")), line, None);
    }

    /// Where a script of this name may be: with its suffix, then as it is named; in the folder of
    /// the caller, in the current one, then in those of SQLPATH.
    fn candidates(&self, name: &str, is_relative: bool) -> Vec<PathBuf> {
        let suffix = self.settings.suffix.clone();
        let named = [self.path(name, &suffix), self.path(name, "")];
        let mut folders: Vec<Option<PathBuf>> = Vec::new();
        if is_relative {
            folders.push(self.sources.folder());
        }
        folders.push(None);
        for variable in ["ORACLE_PATH", "SQLPATH"] {
            let list = self.world.environment(variable).unwrap_or_default();
            folders.extend(
                list.split(':').filter(|part| !part.is_empty()).map(|part| Some(part.into())),
            );
        }
        let mut found: Vec<PathBuf> = Vec::new();
        for folder in folders {
            for path in &named {
                let path = folder.as_ref().map_or_else(|| path.clone(), |folder| folder.join(path));
                if !found.contains(&path) {
                    found.push(path);
                }
            }
        }
        found
    }

    /// `TIMING [START [name] | SHOW | STOP]`.
    fn timing(&mut self, rest: &str) -> Done {
        let mut words = Words::new(rest);
        let now = self.world.clock();
        let none = || wrong("no timer is running").hint("TIMING START name starts one");
        match words.option()? {
            None => {
                let count = self.timers.len();
                self.say(&format!("{count} timing element(s) in use\n"));
            }
            Some(word) if word.is("START", 4) => {
                self.timers.push((words.rest().to_owned(), now));
            }
            Some(word) if word.is("SHOW", 4) || word.is("STOP", 4) => {
                let (name, began) = self.timers.last().cloned().ok_or_else(none)?;
                self.say(&format!(
                    "timing for: {name}\nElapsed: {}\n",
                    elapsed(now.saturating_sub(began))
                ));
                if word.is("STOP", 4) {
                    self.timers.pop();
                }
            }
            Some(word) => return Err(wrong(format!("unknown TIMING option \"{}\"", word.text))),
        }
        Ok(())
    }
}

/// Whether CONNECT, or the command line, names a connection that this client can make: the user of
/// the system is known to the instance, so neither a user's name nor a password is needed. Behind
/// AS SYSASM, SYSDBA or SYSOPER they are passed over, as Oracle does for members of the group that
/// administers; without it they ask for a user with a password, whom only the network has.
pub(super) fn check_logon(rest: &str) -> Done {
    // `/as sysdba`, as many write it.
    let rest = rest.trim();
    let (first, behind) = rest.split_at(usize::from(rest.starts_with('/')));
    let spaced = format!("{first} {behind}");
    let mut words = Words::new(&spaced);
    let logon = words.value()?.map(|word| word.text).unwrap_or_default();
    let is_as = words.take("AS", 2);
    let is_role = is_as && ["SYSASM", "SYSDBA", "SYSOPER"].iter().any(|role| words.take(role, 6));
    let more = words.option()?;
    if is_as && !is_role || more.is_some() || logon.is_empty() {
        return Err(wrong("CONNECT takes / AS SYSASM").hint("CONNECT / AS SYSASM"));
    }
    let network = logon.rsplit_once('@').map(|(_, name)| name);
    if network.is_some_and(|name| !is_here(name)) {
        return Err(wrong("CONNECT with @ names an instance of the network, and is not supported")
            .hint("PLINTH_DIR says which instance of this host is meant; psql reaches others"));
    }
    if logon != "/" && !is_role {
        let text =
            "CONNECT with a password is not supported: the instance knows the user of the system";
        return Err(wrong(text).hint("CONNECT / AS SYSASM; psql -h host logs in with a password"));
    }
    Ok(())
}

/// Whether a connect identifier means the instance of this host: `+ASM`, `localhost:1521/+ASM`.
fn is_here(name: &str) -> bool {
    let (host, service) = name.rsplit_once('/').unwrap_or(("", name));
    let host = host.trim_start_matches('/');
    let host = host.split_once(':').map_or(host, |(host, _)| host);
    let number = service.to_ascii_uppercase();
    let is_asm = number
        .strip_prefix("+ASM")
        .is_some_and(|number| number.chars().all(|char| char.is_ascii_digit()));
    is_asm && ["", "localhost", "127.0.0.1"].iter().any(|here| here.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_local_instance_can_be_connected_to() {
        for good in [
            "/",
            "/ as sysasm",
            "/as sysdba",
            "/ AS SYSDBA",
            "sys/secret as sysoper",
            "sys as sysasm",
            "sys/x@+ASM as sysasm",
            "sys/x@y@//localhost:1521/+asm1 as sysdba",
        ] {
            assert!(check_logon(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "scott/tiger",
            "/ as nobody",
            "/ as",
            "sys/x@asm as sysasm",
            "sys/x@db1/+ASM as sysasm",
            "sys/x@+ASM",
            "/ as sysasm x",
        ] {
            assert!(check_logon(bad).is_err(), "{bad}");
        }
    }
}
