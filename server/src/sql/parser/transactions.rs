//! `BEGIN`, `COMMIT`, `ROLLBACK` and their like, and PL/SQL, which begins with the same word.
//!
//! `BEGIN` alone, or with PostgreSQL's words about a transaction, begins one. `BEGIN` before
//! anything else is a block of PL/SQL, of which a client may send the first statement alone, and is
//! refused. So are `DECLARE`, `EXEC` and `CALL`.

use super::{Parser, Result, Statement};
use crate::{
    sql::tokens::Kind,
    sql_error::{SqlError, state},
};

impl Parser<'_> {
    /// `BEGIN [WORK | TRANSACTION] [mode [,] ...]`; its word has not been taken.
    pub(super) fn begin(&mut self) -> Result<Statement> {
        let at = self.here();
        self.next += 1;
        let is_plain = self.take("WORK") || self.take("TRANSACTION") || self.peek().is_none();
        let is_mode = ["ISOLATION", "READ", "NOT", "DEFERRABLE"].iter().any(|word| self.is(word));
        if !is_plain && !is_mode {
            return Err(plsql(at, "BEGIN"));
        }
        self.transaction_modes()?;
        Ok(Statement::Begin)
    }

    /// `START TRANSACTION [mode [,] ...]`; its first word has not been taken.
    pub(super) fn start_transaction(&mut self) -> Result<Statement> {
        self.next += 1;
        self.need("TRANSACTION")?;
        self.transaction_modes()?;
        Ok(Statement::Begin)
    }

    /// `ISOLATION LEVEL level | READ {ONLY | WRITE} | [NOT] DEFERRABLE`, with or without commas.
    fn transaction_modes(&mut self) -> Result<()> {
        loop {
            if self.take("ISOLATION") {
                self.need("LEVEL")?;
                self.isolation_level()?;
            } else if self.take("READ") {
                if !self.take("ONLY") && !self.take("WRITE") {
                    return Err(self.expected("ONLY or WRITE"));
                }
            } else if self.take("NOT") {
                self.need("DEFERRABLE")?;
            } else if !self.take("DEFERRABLE") {
                return Ok(());
            }
            if self.take_symbol(",") && self.peek().is_none() {
                return Err(self.expected("ISOLATION LEVEL, READ or DEFERRABLE"));
            }
        }
    }

    fn isolation_level(&mut self) -> Result<()> {
        if self.take("SERIALIZABLE") {
            return Ok(());
        }
        if self.take("REPEATABLE") {
            return self.need("READ");
        }
        self.need("READ")?;
        if self.take("COMMITTED") || self.take("UNCOMMITTED") {
            return Ok(());
        }
        Err(self.expected("COMMITTED or UNCOMMITTED"))
    }

    /// `{COMMIT | END} [WORK | TRANSACTION] [AND NO CHAIN]`; of COMMIT also Oracle's `[COMMENT
    /// 'text'] [WRITE ...]`.
    pub(super) fn commit(&mut self) -> Result<Statement> {
        let commits = self.take("COMMIT") || !self.take("END");
        let _ = self.take("WORK") || self.take("TRANSACTION");
        self.no_chain()?;
        if commits {
            if self.take("COMMENT") {
                self.string("a comment in single quotes")?;
            }
            if self.take("WRITE") {
                let words = ["IMMEDIATE", "BATCH", "WAIT", "NOWAIT"];
                while words.iter().any(|word| self.take(word)) {}
            }
        }
        Ok(Statement::Commit)
    }

    /// `{ROLLBACK | ABORT} [WORK | TRANSACTION] [AND NO CHAIN | TO [SAVEPOINT] name]`
    pub(super) fn rollback(&mut self) -> Result<Statement> {
        self.next += 1;
        let _ = self.take("WORK") || self.take("TRANSACTION");
        if self.take("TO") {
            self.take("SAVEPOINT");
            let is_name = |kind: &Kind| matches!(kind, Kind::Word(_) | Kind::Quoted(_));
            if !self.peek().is_some_and(|token| is_name(&token.kind)) {
                return Err(self.expected("the name of a savepoint"));
            }
            self.next += 1;
            return Ok(Statement::Ignored("ROLLBACK"));
        }
        self.no_chain()?;
        Ok(Statement::Rollback)
    }

    /// `[AND NO CHAIN]`
    fn no_chain(&mut self) -> Result<()> {
        if self.take("AND") {
            if self.is("CHAIN") {
                return Err(self.later("AND CHAIN").hint("BEGIN begins the next one"));
            }
            self.need("NO")?;
            self.need("CHAIN")?;
        }
        Ok(())
    }

    /// `DECLARE`, `EXEC`, `CALL`, `EXECUTE`, `DO`: refused.
    pub(super) fn procedural(&self, word: &str) -> SqlError {
        if self.tokens.iter().any(|token| token.is("CURSOR")) {
            return self
                .later("DECLARE CURSOR")
                .hint("a SELECT gives all rows; portals give some at a time");
        }
        plsql(self.here(), word)
    }
}

fn plsql(at: usize, word: &str) -> SqlError {
    let text = format!("there is no PL/SQL: {word} begins a block or calls a procedure");
    SqlError::new(state::NOT_SUPPORTED, text)
        .at(at)
        .hint("send SQL statements; BEGIN alone begins a transaction")
}
