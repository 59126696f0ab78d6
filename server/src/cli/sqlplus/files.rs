//! Files that commands write and read: SAVE, GET and EDIT of the buffer, STORE of the settings, and
//! `login.sql`.
//!
//! `login.sql` is run under the name `sqlplus`, from the first folder of ORACLE_PATH that has one,
//! whenever a connection was made; never from the current folder, which others may write to. The
//! site's profile of an Oracle that is installed, `glogin.sql`, is not run.

use super::{
    Interpreter, Spool,
    refusal::{Cause, Refusal, invalid, system, wrong},
    source::Source,
    words::Words,
};
use crate::sql_error::{SqlError, state};
use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// The result of a command.
type Done = Result<(), Refusal>;

impl Interpreter<'_> {
    /// `SAVE file [CREATE | REPLACE | APPEND]`.
    pub(super) fn save(&mut self, rest: &str) -> Done {
        self.allowed(2, "SAVE")?;
        let Some(text) = self.buffer.text() else {
            return Err(invalid(107, "Nothing to save."));
        };
        self.write_file("SAVE", rest, &format!("{text}\n/\n"))
    }

    /// `STORE SET file [CREATE | REPLACE | APPEND]`.
    pub(super) fn store(&mut self, rest: &str) -> Done {
        self.allowed(2, "STORE")?;
        let mut words = Words::new(rest);
        if !words.take("SET", 3) {
            return Err(wrong("STORE takes SET and a file"));
        }
        let text = self.settings.commands();
        self.write_file("STORE SET", words.rest(), &text)
    }

    fn write_file(&mut self, command: &str, rest: &str, text: &str) -> Done {
        let mut words = Words::new(rest);
        let Some(file) = words.option()? else {
            return Err(wrong(format!("{command} has no name of a file")));
        };
        let (how, done) = match words.option()? {
            None => (Spool::Create, "Created file"),
            Some(how) if how.is("CREATE", 3) => (Spool::Create, "Created file"),
            Some(how) if how.is("REPLACE", 3) => (Spool::Replace, "Wrote file"),
            Some(how) if how.is("APPEND", 3) => (Spool::Append, "Appended file to"),
            Some(how) => return Err(wrong(format!("unknown {command} option \"{}\"", how.text))),
        };
        let suffix = self.settings.suffix.clone();
        let path = self.path(&file.text, &suffix);
        let name = path.display().to_string();
        self.world.write(&path, text, how).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => system(540, format!("File \"{name}\" already exists."))
                .hint(format!("{command} {name} REPLACE writes it anew")),
            _ => system(110, format!("Cannot create save file \"{name}\": {error}")),
        })?;
        self.say(&format!("{done} {name}\n"));
        Ok(())
    }

    /// `GET file [LIST | NOLIST]`: a file becomes the buffer.
    pub(super) fn get(&mut self, rest: &str) -> Done {
        self.allowed(3, "GET")?;
        let mut words = Words::new(rest);
        let Some(file) = words.option()? else { return Err(wrong("GET has no name of a file")) };
        let lists = !words.take("NOLIST", 3);
        let suffix = self.settings.suffix.clone();
        let path = self.path(&file.text, &suffix);
        self.take_file(&path)?;
        if lists {
            let said = self.buffer.list("")?;
            self.say(&said);
        }
        Ok(())
    }

    /// A file becomes the buffer, without what ends its statement.
    fn take_file(&mut self, path: &Path) -> Done {
        let name = path.display();
        let bytes = self
            .world
            .script(path)
            .map_err(|error| system(310, format!("unable to open file \"{name}\": {error}")))?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end();
        let text = text.strip_suffix("\n/").unwrap_or(text).trim_end();
        let text =
            self.settings.sqlterminator.and_then(|end| text.strip_suffix(end)).unwrap_or(text);
        self.buffer.set(text);
        Ok(())
    }

    /// `EDIT [file]`: at a terminal, the buffer in the user's editor.
    pub(super) fn edit(&mut self, rest: &str) -> Done {
        self.allowed(1, "EDIT")?;
        if !self.world.is_terminal() {
            return Err(wrong("EDIT needs a terminal"));
        }
        let mut words = Words::new(rest);
        let file = words.option()?;
        let path = match &file {
            Some(file) => self.path(&file.text, &self.settings.suffix.clone()),
            None => PathBuf::from("afiedt.buf"),
        };
        let name = path.display().to_string();
        if file.is_none() {
            let Some(text) = self.buffer.text() else {
                return Err(invalid(107, "Nothing to save."));
            };
            self.world.write(&path, &format!("{text}\n/\n"), Spool::Replace).map_err(|error| {
                system(110, format!("Cannot create save file \"{name}\": {error}"))
            })?;
        }
        let editor = self.variables.get("_EDITOR").unwrap_or("vi").to_owned();
        let quoted = name.replace('\'', "'\\''");
        let result = self.world.shell(&format!("{editor} '{quoted}'"));
        result.map_err(|error| {
            let text = format!("EDIT: /bin/sh cannot be started: {error}");
            Refusal::of(Cause::System, SqlError::new(state::INTERNAL, text))
        })?;
        if file.is_none() {
            self.take_file(&path)?;
            let said = self.buffer.list("")?;
            self.say(&said);
        }
        Ok(())
    }

    /// Runs the user's profile next, if there is one.
    pub(super) fn begin_profile(&mut self) {
        if !self.is_sqlplus || self.restricted >= 3 || !self.server.is_connected() {
            return;
        }
        let folders = self.world.environment("ORACLE_PATH").unwrap_or_default();
        for folder in folders.split(':').filter(|folder| !folder.is_empty()) {
            let path = Path::new(folder).join("login.sql");
            if let Ok(bytes) = self.world.script(&path) {
                let text = String::from_utf8_lossy(&bytes);
                let name = path.display().to_string();
                self.sources.push(Source::script(name, Some(folder.into()), &text));
                return;
            }
        }
    }
}
