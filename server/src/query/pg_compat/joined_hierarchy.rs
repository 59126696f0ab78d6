//! CONNECT BY over several tables: the join becomes the one source of the hierarchy.
//!
//! ```text
//!   SELECT a.x FROM a, b WHERE a.k = b.k AND a.y > 1 START WITH b.z = 0 CONNECT BY PRIOR a.i = a.p
//!   SELECT "a.x" FROM (SELECT a.x AS "a.x", ... FROM a, b WHERE (a.k = b.k)) "#joined"
//!    WHERE ("a.y" > 1) START WITH "b.z" = 0 CONNECT BY PRIOR "a.i" = "a.p"
//! ```
//!
//! As in Oracle, conditions that join tables count before the hierarchy is walked, others after it.
//! Columns need their tables in front of them, since the names of `(SELECT ...)` are not known.

use super::{
    edits::{Draft, Edits, Given},
    operands,
    oracle::{Block, blocks},
    outer_join::conjuncts,
};
use crate::{
    sql::tokens::{Kind, Token},
    sql_error::SqlError,
};
use std::collections::BTreeMap;

/// Most such blocks in one statement.
const ROUNDS_MAX: usize = 8;

/// Rewrites the hierarchical blocks that have several tables.
///
/// # Errors
/// If the text becomes too long.
pub(super) fn rewrite(mut draft: Draft<'_>) -> Result<Draft<'_>, SqlError> {
    for _ in 0..ROUNDS_MAX {
        let tokens = &draft.tokens;
        let found = blocks(tokens).into_iter().rev().find(|block| joins(tokens, block));
        let Some(block) = found else { break };
        let edits = joined(tokens, &block, &draft.done.sql);
        draft = draft.changed(&edits)?;
    }
    Ok(draft)
}

/// Whether a block is a hierarchy over several tables.
fn joins(tokens: &[Token], block: &Block) -> bool {
    let (Some(from), Some(_)) = (block.from, block.connect) else { return false };
    let source = tokens.get(from + 1..block.clause_end(from)).unwrap_or_default();
    let parts = |is_it: fn(&Token) -> bool| operands::split(source, is_it).len();
    parts(|token| token.is_symbol(",")) > 1 || parts(|token| token.is("JOIN")) > 1
}

fn joined(tokens: &[Token], block: &Block, text: &str) -> Edits {
    let (from, from_end) = match block.from {
        Some(from) => (from, block.clause_end(from)),
        None => return Edits::default(),
    };
    let place = |at: usize| tokens.get(at).map_or(0, |token| token.start);
    let end = |at: usize| at.checked_sub(1).and_then(|at| tokens.get(at)).map_or(0, |one| one.end);
    let mut edits = Edits::default();
    // Columns with their tables, everywhere but in the FROM clause, and in conditions that join.
    let mut columns: BTreeMap<String, String> = BTreeMap::new();
    let filter = block.filter.map(|filter| (filter, block.clause_end(filter)));
    let conditions =
        filter.map_or_else(Vec::new, |(filter, end)| conjuncts(tokens, filter + 1, end));
    let (joining, rest): (Vec<_>, Vec<_>) =
        conditions.into_iter().partition(|(start, end)| tables(tokens, *start, *end) > 1);
    let is_elsewhere = |at: usize| {
        (from..from_end).contains(&at)
            || filter.is_some_and(|(filter, end)| (filter..end).contains(&at))
    };
    for at in (block.select..block.end).filter(|at| !is_elsewhere(*at)) {
        if let Some((written, name)) = column(tokens, at) {
            edits.replace(place(at), end(at + 3), format!("\"{name}\""));
            columns.insert(name, written);
        }
    }
    let mut after = vec![];
    for (number, (start, stop)) in rest.iter().enumerate() {
        let mut own = Edits::default();
        for at in *start..*stop {
            if let Some((written, name)) = column(tokens, at) {
                own.replace(place(at), end(at + 3), format!("\"{name}\""));
                columns.insert(name, written);
            }
        }
        let before = if number == 0 { "WHERE (" } else { " AND (" };
        after.push(Given::new(before, place(*start)));
        after.extend(own.made(text, place(*start), end(*stop)).texts());
        after.push(Given::new(")", place(*start)));
    }
    let list: Vec<String> =
        columns.iter().map(|(name, written)| format!("{written} AS \"{name}\"")).collect();
    let list = if list.is_empty() { "1 AS \"#one\"".to_owned() } else { list.join(", ") };
    let mut source = vec![Given::new(format!("FROM (SELECT {list} "), place(from))];
    source.extend(Edits::default().made(text, place(from), end(from_end)).texts());
    for (number, (start, stop)) in joining.iter().enumerate() {
        let before = if number == 0 { " WHERE (" } else { " AND (" };
        source.push(Given::new(before, place(*start)));
        source.extend(Edits::default().made(text, place(*start), end(*stop)).texts());
        source.push(Given::new(")", place(*start)));
    }
    source.push(Given::new(") \"#joined\" ", place(from)));
    edits.pieces(place(from), end(from_end), source);
    if let Some((filter, stop)) = filter {
        edits.pieces(place(filter), end(stop), after);
    }
    edits
}

/// `table.column` at a token: as it is written, and its name in the join.
fn column(tokens: &[Token], at: usize) -> Option<(String, String)> {
    let name = |at: usize| match &tokens.get(at)?.kind {
        Kind::Word(name) => Some((name.clone(), name.to_ascii_lowercase())),
        Kind::Quoted(name) => Some((format!("\"{name}\""), name.to_ascii_lowercase())),
        _ => None,
    };
    let is = |at: usize, symbol: &str| tokens.get(at).is_some_and(|token| token.is_symbol(symbol));
    let ((table, own), (column, inner)) = (name(at)?, name(at + 2)?);
    let is_column = is(at + 1, ".")
        && !is(at + 3, "(")
        && !at.checked_sub(1).is_some_and(|before| is(before, "."));
    is_column.then(|| (format!("{table}.{column}"), format!("{own}.{inner}").replace('"', "")))
}

/// The number of tables that a condition names.
fn tables(tokens: &[Token], start: usize, end: usize) -> usize {
    let mut found: Vec<String> = (start..end)
        .filter_map(|at| column(tokens, at))
        .filter_map(|(_, name)| name.split_once('.').map(|(table, _)| table.to_owned()))
        .collect();
    found.sort();
    found.dedup();
    found.len()
}
