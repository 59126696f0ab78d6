//! Names of a result's columns: what was written, not what became of it.
//!
//! A column without a name is given one in the query: `count(*)` is named `count(*)`, and `d.name`
//! is named `name`. So a query around it can use that name, and `ORDER BY name` means the column of
//! the result, even where two tables have a column of that name.

use super::{
    edits::{Draft, Edits},
    operands,
};
use crate::{
    query::infer_types,
    sql::tokens::{Kind, Token},
    sql_error::SqlError,
};

/// Words without an argument that are not columns of a table.
const PSEUDO: [&str; 16] = [
    "CONNECT_BY_ISCYCLE",
    "LEVEL",
    "CONNECT_BY_ISLEAF",
    "ROWNUM",
    "SYSDATE",
    "SYSTIMESTAMP",
    "LOCALTIMESTAMP",
    "CURRENT_DATE",
    "CURRENT_TIME",
    "CURRENT_TIMESTAMP",
    "CURRENT_USER",
    "CURRENT_ROLE",
    "CURRENT_SCHEMA",
    "CURRENT_CATALOG",
    "SESSION_USER",
    "USER",
];
/// Names the columns of each SELECT that have none.
///
/// # Errors
/// If the text becomes too long.
pub(super) fn rewrite(draft: Draft<'_>) -> Result<Draft<'_>, SqlError> {
    let mut edits = Edits::default();
    let tokens = &draft.tokens;
    let letters: Vec<char> = draft.done.sql.chars().collect();
    for (at, _) in tokens.iter().enumerate().filter(|(_, token)| token.is("SELECT")) {
        for item in operands::items(tokens.get(at + 1..).unwrap_or_default()) {
            if let (Some(name), Some(last)) = (name(item, &letters), item.last()) {
                let name = name.replace('"', "\"\"");
                edits.replace(last.end, last.end, format!(" AS \"{name}\""));
            }
        }
    }
    draft.changed(&edits)
}

/// The name to give to an item; `None` if it has one.
fn name(item: &[Token], text: &[char]) -> Option<String> {
    let last = item.last()?;
    // Parentheses around a column are not written in its name.
    if let Some(column) = in_parentheses(item) {
        return bare(column);
    }
    if last.is_symbol("*") || infer_types::without_alias(item).len() < item.len() {
        return None;
    }
    match item {
        [one] if !PSEUDO.iter().any(|word| one.is(word)) && is_name(one) => None,
        // Of a cast, PostgreSQL takes the name of the column, or of the type.
        [column, cast, ..] if cast.is_symbol("::") && is_name(column) => bare(column),
        [_, dot, column, cast, ..]
            if dot.is_symbol(".") && cast.is_symbol("::") && is_name(column) =>
        {
            bare(column)
        }
        [.., dot, name] if dot.is_symbol(".") && [3, 5].contains(&item.len()) => bare(name),
        [schema, dot, first, ..] if schema.is("pg_catalog") && dot.is_symbol(".") => {
            Some(written(text, first, last))
        }
        [first, ..] => Some(written(text, first, last)),
        [] => None,
    }
}

/// The column of `(name)` and `(d.name)`.
fn in_parentheses(item: &[Token]) -> Option<&Token> {
    let [open, inner @ .., close] = item else { return None };
    if !open.is_symbol("(") || !close.is_symbol(")") {
        return None;
    }
    match inner {
        [one] if is_name(one) && !PSEUDO.iter().any(|word| one.is(word)) => Some(one),
        [table, dot, one] if is_name(table) && dot.is_symbol(".") && is_name(one) => Some(one),
        _ => in_parentheses(inner),
    }
}

/// The text from one token to another.
fn written(text: &[char], first: &Token, last: &Token) -> String {
    text.get(first.start..last.end).unwrap_or_default().iter().collect()
}

/// A name as PostgreSQL keeps it.
fn bare(token: &Token) -> Option<String> {
    match &token.kind {
        Kind::Word(name) => Some(name.to_lowercase()),
        Kind::Quoted(name) => Some(name.clone()),
        _ => None,
    }
}

fn is_name(token: &Token) -> bool {
    matches!(token.kind, Kind::Word(_) | Kind::Quoted(_))
}
