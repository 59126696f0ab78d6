//! CONNECT BY over several tables: the join becomes the one source of the hierarchy.
//!
//! ```text
//!   SELECT a.x FROM a, b WHERE a.k = b.k AND a.y > 1 START WITH b.z = 0 CONNECT BY PRIOR a.i = a.p
//!   SELECT "a.x" FROM (SELECT a.x AS "a.x", ... FROM a, b WHERE (a.k = b.k)) "#joined"
//!    WHERE ("a.y" > 1) START WITH "b.z" = 0 CONNECT BY PRIOR "a.i" = "a.p"
//! ```
//!
//! As in Oracle, conditions that join tables count before the hierarchy is walked, others after it.
//! A column without its table gets it first, if one of the views alone has the column, or if USING
//! names it. Columns of `(SELECT ...)` need it written, since their names are not known.

use super::{
    edits::{Draft, Edits, Given},
    operands,
    oracle::{Block, blocks},
    outer_join::conjuncts,
    synonyms::local,
};
use crate::{
    query::views::{self, View},
    sql::tokens::{Kind, Token},
    sql_error::SqlError,
};
use std::collections::BTreeMap;

/// Most such blocks in one statement.
const ROUNDS_MAX: usize = 8;

/// Words after which a name is a column; after others it may be an alias.
const BEFORE_COLUMN: [&str; 20] = [
    "SELECT",
    "DISTINCT",
    "UNIQUE",
    "WHERE",
    "WITH",
    "BY",
    "PRIOR",
    "NOCYCLE",
    "AND",
    "OR",
    "NOT",
    "BETWEEN",
    "LIKE",
    "IN",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "CONNECT_BY_ROOT",
    "ALL",
];

/// Rewrites the hierarchical blocks that have several tables.
///
/// # Errors
/// If the text becomes too long.
pub(super) fn rewrite(mut draft: Draft<'_>) -> Result<Draft<'_>, SqlError> {
    for _ in 0..2 * ROUNDS_MAX {
        let tokens = &draft.tokens;
        let found = blocks(tokens).into_iter().rev().find(|block| joins(tokens, block));
        let Some(block) = found else { break };
        let edits = qualified(tokens, &block);
        if !edits.is_empty() {
            draft = draft.changed(&edits)?;
            continue;
        }
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

/// Puts the table before each column that is written without it. An order is left alone: its names
/// are those of the result.
fn qualified(tokens: &[Token], block: &Block) -> Edits {
    let mut edits = Edits::default();
    let Some(from) = block.from else { return edits };
    let from_end = block.clause_end(from);
    let views = sources(tokens.get(from + 1..from_end).unwrap_or_default());
    let common = using(tokens.get(from + 1..from_end).unwrap_or_default());
    let is = |at: usize, symbol: &str| tokens.get(at).is_some_and(|token| token.is_symbol(symbol));
    let end = block.order.unwrap_or(block.end);
    for at in (block.select + 1..end).filter(|at| !(from..from_end).contains(at)) {
        let (Some(token), Some(before)) = (tokens.get(at), tokens.get(at - 1)) else { continue };
        let (Kind::Word(name) | Kind::Quoted(name)) = &token.kind else { continue };
        let begins = match &before.kind {
            Kind::Symbol(symbol) => symbol != "." && symbol != ")",
            Kind::Word(word) => BEFORE_COLUMN.iter().any(|one| word.eq_ignore_ascii_case(one)),
            _ => false,
        };
        if !begins || is(at + 1, ".") || is(at + 1, "(") {
            continue;
        }
        let has = |(_, view): &&(String, &View)| {
            view.columns.iter().any(|(column, _)| name.eq_ignore_ascii_case(column))
        };
        let owners: Vec<_> = views.iter().filter(has).collect();
        let is_common = common.iter().any(|one| name.eq_ignore_ascii_case(one));
        let [(alias, _), others @ ..] = &owners[..] else { continue };
        if !others.is_empty() && !is_common {
            continue;
        }
        edits.insert(token.start, format!("{alias}."));
        let is_item = (is(at - 1, ",") || at - 1 == block.select)
            && (is(at + 1, ",") || at + 1 == block.clause_end(block.select));
        if is_item {
            edits.close(token.end, format!(" AS \"{}\"", name.to_lowercase()));
        }
    }
    edits
}

/// The views in a FROM clause, each with the name that it goes by there.
fn sources(from: &[Token]) -> Vec<(String, &'static View)> {
    let mut found = Vec::new();
    let mut depth = 0_usize;
    for (at, token) in from.iter().enumerate() {
        if token.is_symbol("(") {
            depth += 1;
        } else if token.is_symbol(")") {
            depth = depth.saturating_sub(1);
        }
        let before = at.checked_sub(1).and_then(|at| from.get(at));
        let begins = before.is_none_or(|before| before.is_symbol(",") || before.is("JOIN"));
        if depth > 0 || !begins {
            continue;
        }
        let name = |token: Option<&Token>| match token.map(|token| &token.kind) {
            Some(Kind::Word(name) | Kind::Quoted(name)) => Some(name.clone()),
            _ => None,
        };
        let Some(written) = name(Some(token)) else { continue };
        let name_of_view = local(&written);
        let twin = || name_of_view.strip_suffix("_stat").and_then(views::find);
        let Some(view) = views::find(&name_of_view).or_else(twin) else { continue };
        let next = from.get(at + 1).filter(|next| !next.is("AS")).or_else(|| from.get(at + 2));
        let is_alias = |next: &&Token| {
            let words =
                ["JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "ON", "USING"];
            !words.iter().any(|word| next.is(word))
        };
        let alias = name(next.filter(is_alias)).unwrap_or(written);
        found.push((alias, view));
    }
    found
}

/// The columns that `USING (...)` of a FROM clause names.
fn using(from: &[Token]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in from.iter().enumerate().filter(|(_, token)| token.is("USING")) {
        let inside = from.get(at + 2..operands::closing(from, at + 1).unwrap_or(at + 2));
        found.extend(inside.unwrap_or_default().iter().filter_map(|token| match &token.kind {
            Kind::Word(name) | Kind::Quoted(name) => Some(name.clone()),
            _ => None,
        }));
    }
    found
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Query;

    fn rewritten(query: &str) -> String {
        let query = Query::new(query).expect(query);
        rewrite(Draft::of(&query)).map(|draft| draft.done.sql).expect("rewritten")
    }

    #[test]
    fn a_column_gets_the_table_that_alone_has_it() {
        let from = "v$asm_alias a, v$asm_diskgroup g where a.group_number = g.group_number";
        let bare = format!(
            "select sys_connect_by_path(a.name, '/') path, alias_index, a.name state from {from} \
             and type = 'NORMAL' start with mod(parent_index, 9) = 0 \
             connect by prior reference_index = parent_index order by path"
        );
        let full = format!(
            "select sys_connect_by_path(a.name, '/') path, a.alias_index AS \"alias_index\", a.name state from {from} \
             and g.type = 'NORMAL' start with mod(a.parent_index, 9) = 0 \
             connect by prior a.reference_index = a.parent_index order by path"
        );
        assert_eq!(rewritten(&bare), rewritten(&full));
        assert!(rewritten(&bare).contains("\"a.parent_index\""));
    }

    #[test]
    fn a_column_of_using_is_that_of_the_first_table() {
        let rest = "connect by prior a.reference_index = a.parent_index";
        let using = "from v$asm_alias a join gv$asm_file f using (group_number, file_number)";
        let bare = format!("select file_number, f.type {using} {rest}");
        let full = format!("select a.file_number AS \"file_number\", f.type {using} {rest}");
        assert_eq!(rewritten(&bare), rewritten(&full));
        // Two views have it, and nothing says which one is meant.
        let both = format!("select name from v$asm_alias a, v$asm_diskgroup_stat g {rest}");
        assert!(rewritten(&both).starts_with("select name FROM"), "{}", rewritten(&both));
    }
}
