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
        return Ok(set(parser));
    }
    let rest = parser.tokens.get(parser.next..).unwrap_or_default();
    parser.next = parser.tokens.len();
    let is_all = matches!(rest, [one] if one.is("ALL"));
    if discards {
        // PLANS, SEQUENCES, TEMP: a session has none, so there is nothing to discard.
        return Ok(if is_all { Statement::Discard } else { Statement::Ignored("DISCARD") });
    }
    if resets {
        let name = if is_all { String::new() } else { name(rest) };
        return Ok(Statement::Set { name, value: None });
    }
    let name = rest.iter().find(|token| !token.is("PREPARE"));
    Ok(Statement::Deallocate(name.filter(|_| !is_all).map(word)))
}

/// `SET [SESSION | LOCAL] name {TO | =} value`, and other forms, which are ignored.
fn set(parser: &mut Parser<'_>) -> Statement {
    let _ = parser.take("SESSION") || parser.take("LOCAL");
    let rest = parser.tokens.get(parser.next..).unwrap_or_default();
    parser.next = parser.tokens.len();
    let zone = matches!(rest, [time, zone, ..] if time.is("TIME") && zone.is("ZONE"));
    let (names, values) = match rest.iter().position(|token| token.is("TO") || token.is_symbol("="))
    {
        _ if zone => ("timezone".to_owned(), rest.get(2..)),
        Some(between) => (name(rest.get(..between).unwrap_or_default()), rest.get(between + 1..)),
        // SET TRANSACTION ..., SET SESSION CHARACTERISTICS ..., SET ROLE ...
        None => return Statement::Ignored("SET"),
    };
    let values = values.unwrap_or_default();
    let is_default = matches!(values, [one] if one.is("DEFAULT"));
    let value = values.iter().map(word).collect::<String>().replace(',', ", ");
    Statement::Set { name: names, value: (!is_default).then_some(value) }
}

fn name(tokens: &[Token]) -> String {
    tokens.iter().map(word).collect::<String>().to_lowercase()
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
