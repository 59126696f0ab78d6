//! The names in a statement, and the connection that gets only what they can mean.
//!
//! Each statement has a connection of its own. To register some 250 functions with it and to
//! declare all views takes longer than a query of a small group does otherwise. So it gets those
//! whose names stand in the statement as words, wherever they stand.

use rusqlite::{
    Connection, Result, ToSql,
    functions::{Aggregate, Context, FunctionFlags, WindowAggregate},
};
use std::{
    collections::BTreeSet,
    panic::{RefUnwindSafe, UnwindSafe},
};

/// The words of a statement, in lower case.
pub struct Mentions(BTreeSet<String>);

impl Mentions {
    /// `sql` is the statement in SQLite's SQL; `others` are names that it may get later.
    #[must_use]
    pub fn of(sql: &str, others: &[&str]) -> Self {
        let is_inside = |letter: char| letter.is_alphanumeric() || "_$#".contains(letter);
        let words = sql.split(|letter| !is_inside(letter)).filter(|word| !word.is_empty());
        let others = others.iter().map(|name| (*name).to_owned());
        Self(words.map(str::to_ascii_lowercase).chain(others).collect())
    }

    /// Whether a name, given in lower case, is among them.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Whether a view `v$...` is, under its own name or as `gv$...`.
    #[must_use]
    pub fn has_view(&self, name: &str) -> bool {
        self.has(name) || self.has(&format!("g{name}"))
    }
}

/// A connection that takes the functions which a statement mentions.
#[derive(Clone, Copy)]
pub struct Registry<'a> {
    connection: &'a Connection,
    /// `None`: all functions.
    mentions: Option<&'a Mentions>,
}

impl<'a> Registry<'a> {
    #[must_use]
    pub fn new(connection: &'a Connection, mentions: &'a Mentions) -> Self {
        Self { connection, mentions: Some(mentions) }
    }

    /// All functions are taken.
    #[cfg(test)]
    #[must_use]
    pub fn whole(connection: &'a Connection) -> Self {
        Self { connection, mentions: None }
    }

    fn takes(self, name: &str) -> bool {
        self.mentions.is_none_or(|mentions| mentions.has(name))
    }

    /// As [`Connection::create_scalar_function`].
    ///
    /// # Errors
    /// As there.
    pub fn create_scalar_function<F, T>(
        self,
        name: &str,
        arguments: i32,
        flags: FunctionFlags,
        function: F,
    ) -> Result<()>
    where
        F: Fn(&Context<'_>) -> Result<T> + Send + 'static,
        T: ToSql,
    {
        if !self.takes(name) {
            return Ok(());
        }
        self.connection.create_scalar_function(name, arguments, flags, function)
    }

    /// As [`Connection::create_aggregate_function`].
    ///
    /// # Errors
    /// As there.
    pub fn create_aggregate_function<A, D, T>(
        self,
        name: &str,
        arguments: i32,
        flags: FunctionFlags,
        aggregate: D,
    ) -> Result<()>
    where
        A: RefUnwindSafe + UnwindSafe + Send,
        D: Aggregate<A, T> + Send + 'static,
        T: ToSql,
    {
        if !self.takes(name) {
            return Ok(());
        }
        self.connection.create_aggregate_function(name, arguments, flags, aggregate)
    }

    /// As [`Connection::create_window_function`].
    ///
    /// # Errors
    /// As there.
    pub fn create_window_function<A, W, T>(
        self,
        name: &str,
        arguments: i32,
        flags: FunctionFlags,
        aggregate: W,
    ) -> Result<()>
    where
        A: RefUnwindSafe + UnwindSafe + Send,
        W: WindowAggregate<A, T> + Send + 'static,
        T: ToSql,
    {
        if !self.takes(name) {
            return Ok(());
        }
        self.connection.create_window_function(name, arguments, flags, aggregate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_gets_what_its_statement_mentions() {
        let sql = r#"SELECT "NVL"(d.x, 1), 'lpad' FROM GV$ASM_DISK d"#;
        let mentions = Mentions::of(sql, &["plinth_sum"]);
        for name in ["nvl", "lpad", "plinth_sum", "gv$asm_disk", "d", "x", "1"] {
            assert!(mentions.has(name), "{name}");
        }
        assert!(mentions.has_view("v$asm_disk"));
        for name in ["v$asm_disk_stat", "v$asm_diskgroup", "v$asm"] {
            assert!(!mentions.has_view(name), "{name}");
        }
        let connection = Connection::open_in_memory().expect("a database");
        let registry = Registry::new(&connection, &mentions);
        for name in ["nvl", "decode"] {
            registry
                .create_scalar_function(name, 2, FunctionFlags::SQLITE_UTF8, |_| Ok(7))
                .expect("a function");
        }
        let answer = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        assert_eq!(answer("SELECT nvl(1, 2)"), Ok(7));
        assert!(answer("SELECT decode(1, 2)").is_err());
    }
}
