//! Statements about the session, which drivers and pools send: `SET`, `RESET`, `DISCARD`,
//! `DEALLOCATE`.

use super::{Parser, Result};
use crate::sql::{
    statement::Statement,
    tokens::{Kind, Token},
};

/// Parses such a statement; its first word has not been taken.
pub(super) fn statement(parser: &mut Parser<'_>) -> Result<Statement> {
    let is = |word: &str| parser.peek().is_some_and(|token| token.is(word));
    let (sets, resets, discards) = (is("SET"), is("RESET"), is("DISCARD"));
    parser.next += 1;
    if sets {
        return set(parser);
    }
    if discards {
        if parser.take("ALL") {
            return Ok(Statement::Discard);
        }
        // A session has none of these, so there is nothing to discard.
        let kinds = ["PLANS", "SEQUENCES", "TEMP", "TEMPORARY"];
        return if kinds.iter().any(|kind| parser.take(kind)) {
            Ok(Statement::Ignored("DISCARD"))
        } else {
            Err(parser.expected("ALL, PLANS, SEQUENCES or TEMP"))
        };
    }
    if resets {
        let name = if parser.take("ALL") { String::new() } else { setting(parser)? };
        return Ok(Statement::Set { name, value: None });
    }
    parser.take("PREPARE");
    if parser.take("ALL") {
        return Ok(Statement::Deallocate(None));
    }
    identifier(parser, "the name of a prepared statement")
        .map(|name| Statement::Deallocate(Some(name)))
}

/// Statements of PostgreSQL on something with a name, which do nothing here.
pub(super) fn named(parser: &mut Parser<'_>) -> Result<Statement> {
    let mut takes = |word: &str| parser.take(word);
    let tag = if takes("SAVEPOINT") {
        "SAVEPOINT"
    } else if takes("RELEASE") {
        takes("SAVEPOINT");
        "RELEASE"
    } else if takes("LISTEN") {
        "LISTEN"
    } else if takes("UNLISTEN") {
        if parser.take_symbol("*") {
            return Ok(Statement::Ignored("UNLISTEN"));
        }
        "UNLISTEN"
    } else {
        // There are no cursors but portals, which have a message of their own. Pools send CLOSE
        // ALL.
        parser.need("CLOSE")?;
        "CLOSE CURSOR"
    };
    identifier(parser, "a name")?;
    Ok(Statement::Ignored(tag))
}

/// A name, as it was written.
pub(super) fn identifier(parser: &mut Parser<'_>, what: &str) -> Result<String> {
    match parser.peek().map(|token| &token.kind) {
        Some(Kind::Word(name) | Kind::Quoted(name)) => {
            let name = name.clone();
            parser.next += 1;
            Ok(name)
        }
        _ => Err(parser.expected(what)),
    }
}

/// The name of a setting, perhaps of several parts; `TIME ZONE` and the like are names, too.
fn setting(parser: &mut Parser<'_>) -> Result<String> {
    if parser.take("TIME") {
        parser.need("ZONE")?;
        return Ok("timezone".to_owned());
    }
    let mut name = identifier(parser, "the name of a setting")?.to_lowercase();
    while parser.take_symbol(".") {
        name = format!("{name}.{}", identifier(parser, "the name of a setting")?.to_lowercase());
    }
    Ok(name)
}

/// What PostgreSQL allows behind `SET TRANSACTION` and the like.
const OF_TRANSACTIONS: [&str; 13] = [
    "ISOLATION",
    "LEVEL",
    "SERIALIZABLE",
    "REPEATABLE",
    "READ",
    "COMMITTED",
    "UNCOMMITTED",
    "WRITE",
    "ONLY",
    "NOT",
    "DEFERRABLE",
    "SNAPSHOT",
    "NAME",
];

/// `SET [SESSION | LOCAL] name {TO | =} value [, ...]`, and other forms, which are ignored. Nothing
/// may follow: it would be lost.
fn set(parser: &mut Parser<'_>) -> Result<Statement> {
    let sessions = parser.take("SESSION");
    if sessions && parser.take("CHARACTERISTICS") {
        parser.need("AS")?;
        parser.need("TRANSACTION")?;
        return of_transaction(parser);
    }
    if sessions && parser.take("AUTHORIZATION") {
        word_or_string(parser, "a user")?;
        return Ok(Statement::Ignored("SET"));
    }
    if !sessions {
        parser.take("LOCAL");
    }
    if parser.take("TRANSACTION") {
        return of_transaction(parser);
    }
    if parser.take("ROLE") || parser.take("NAMES") {
        word_or_string(parser, "a name")?;
        return Ok(Statement::Ignored("SET"));
    }
    if parser.take("CONSTRAINTS") {
        parser.need("ALL")?;
        if !parser.take("DEFERRED") {
            parser.need("IMMEDIATE")?;
        }
        return Ok(Statement::Ignored("SET"));
    }
    let name = setting(parser)?;
    let is_said = parser.take("TO") || parser.take_symbol("=");
    if !is_said && name != "timezone" {
        return Err(parser.expected("TO or '='"));
    }
    if parser.take("DEFAULT") {
        return Ok(Statement::Set { name, value: None });
    }
    let mut value = word_or_string(parser, "a value")?;
    while parser.take_symbol(",") {
        value = format!("{value}, {}", word_or_string(parser, "a value")?);
    }
    Ok(Statement::Set { name, value: Some(value) })
}

fn of_transaction(parser: &mut Parser<'_>) -> Result<Statement> {
    loop {
        if parser.take("SNAPSHOT") || parser.take("NAME") {
            parser.string("a name")?;
            break;
        }
        if !(OF_TRANSACTIONS.iter().any(|word| parser.take(word)) || parser.take_symbol(",")) {
            break;
        }
    }
    Ok(Statement::Ignored("SET"))
}

/// One value: a word, a text, a number with its sign.
fn word_or_string(parser: &mut Parser<'_>, what: &str) -> Result<String> {
    let sign = ["-", "+"].into_iter().find(|sign| parser.take_symbol(sign)).unwrap_or_default();
    let value = match parser.peek() {
        Some(token) if !matches!(token.kind, Kind::Symbol(_) | Kind::End) => word(token),
        _ => return Err(parser.expected(what)),
    };
    parser.next += 1;
    Ok(format!("{sign}{value}"))
}

fn word(token: &Token) -> String {
    match &token.kind {
        Kind::Word(text)
        | Kind::Quoted(text)
        | Kind::String(text)
        | Kind::Number(text)
        | Kind::Symbol(text) => text.clone(),
        Kind::End => String::new(),
    }
}
