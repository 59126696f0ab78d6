//! Oracle's syntax that SQLite does not have, in the forms that DBAs write: `ROWNUM`, `FETCH
//! FIRST`, `LISTAGG`, `MINUS`, `CONNECT BY`. Syntax that SQLite cannot express is refused at its
//! position, with a hint at what to write instead.
//!
//! A hierarchical query block
//!
//! ```text
//!   SELECT list FROM source [WHERE filter] START WITH roots CONNECT BY PRIOR key = parent
//! ```
//!
//! becomes a recursive one within its FROM, so that it is allowed wherever a query block is:
//!
//! ```text
//!   SELECT list' FROM (WITH RECURSIVE
//!       "#src" AS (SELECT row_number() OVER () AS "#row", * FROM source),
//!       "#walk" AS (SELECT 1 AS "#level", "#row", key AS "#prior1", ... FROM "#src" WHERE roots
//!                   UNION ALL
//!                   SELECT w."#level" + 1, ... FROM "#walk" w, "#src" WHERE w."#prior1" = parent
//!                   ORDER BY "#level" DESC)
//!       SELECT * FROM "#walk" CROSS JOIN "#src" USING ("#row")) WHERE filter
//! ```
//!
//! Each `PRIOR x`, each `SYS_CONNECT_BY_PATH` and each `CONNECT_BY_ROOT` is a column of the walk,
//! so that plain names mean the current row and nothing else. The ORDER BY of the walk makes it go
//! depth first, as in Oracle. With NOCYCLE the walk carries the rows on its way along, and does not
//! go to one of them again; without it, a way longer than there are rows is an error.

use super::{
    edits::{Draft, Edits, Given},
    operands,
};
use crate::{
    sql::tokens::{Kind, Token},
    sql_error::{SqlError, state},
};
use std::fmt::Write;

/// Most hierarchical blocks in one statement.
const BLOCKS_MAX: usize = 8;

pub(super) fn refused(token: &Token, what: &str, hint: &str) -> SqlError {
    SqlError::new(state::NOT_SUPPORTED, format!("{what} is not supported here"))
        .hint(hint)
        .at(token.start)
}

/// Rewrites Oracle's syntax in a query.
///
/// # Errors
/// If SQLite cannot express it.
pub(super) fn rewrite(mut draft: Draft<'_>) -> Result<Draft<'_>, SqlError> {
    for round in 0.. {
        let Draft { done, tokens } = &draft;
        // The innermost first: the outer ones then include its rewritten form.
        let Some(block) = blocks(tokens).into_iter().rev().find(|block| block.connect.is_some())
        else {
            break;
        };
        if round == BLOCKS_MAX {
            return Err(SqlError::new(state::TOO_COMPLEX, "too many CONNECT BY in one statement"));
        }
        let edits = Hierarchy::of(tokens, &block)
            .and_then(|hierarchy| hierarchy.edits(&done.sql))
            .map_err(|refusal| draft.placed(refusal))?;
        draft = draft.changed(&edits)?;
    }
    draft = super::limits::rewrite(draft)?;
    let tokens = &draft.tokens;
    let mut edits = Edits::default();
    for block in blocks(tokens) {
        rownum(tokens, &block, &mut edits).map_err(|refusal| draft.placed(refusal))?;
    }
    words(tokens, &mut edits);
    if edits.is_empty() { Ok(draft) } else { draft.changed(&edits) }
}

/// One SELECT with its clauses: the positions of their first words. It ends before `end`.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) select: usize,
    pub(super) from: Option<usize>,
    pub(super) filter: Option<usize>,
    pub(super) start: Option<usize>,
    pub(super) connect: Option<usize>,
    pub(super) group: Option<usize>,
    pub(super) order: Option<usize>,
    pub(super) limit: Option<usize>,
    pub(super) end: usize,
}

impl Block {
    /// The end of the clause that begins at `at`.
    pub(super) fn clause_end(&self, at: usize) -> usize {
        let clauses =
            [self.from, self.filter, self.start, self.connect, self.group, self.order, self.limit];
        clauses.into_iter().flatten().filter(|other| *other > at).min().unwrap_or(self.end)
    }
}

pub(super) fn blocks(tokens: &[Token]) -> Vec<Block> {
    let selects =
        tokens.iter().enumerate().filter(|(_, token)| token.is("SELECT")).map(|(at, _)| at);
    selects.map(|select| block(tokens, select)).collect()
}

fn block(tokens: &[Token], select: usize) -> Block {
    let mut block = Block { select, end: tokens.len(), ..Block::default() };
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(select + 1) {
        if token.is_symbol("(") {
            depth += 1;
            continue;
        }
        if token.is_symbol(")") {
            if depth == 0 {
                block.end = at;
                break;
            }
            depth -= 1;
            continue;
        }
        if depth > 0 {
            continue;
        }
        if ["UNION", "INTERSECT", "EXCEPT", "MINUS"].iter().any(|word| token.is(word)) {
            block.end = at;
            break;
        }
        let next = |word: &str| tokens.get(at + 1).is_some_and(|next| next.is(word));
        let clause = if token.is("FROM") && !operands::is_from_end(tokens, at) {
            &mut block.from
        } else if token.is("WHERE") {
            &mut block.filter
        } else if token.is("START") && next("WITH") {
            &mut block.start
        } else if token.is("CONNECT") && next("BY") {
            &mut block.connect
        } else if token.is("GROUP") && next("BY") || token.is("HAVING") {
            &mut block.group
        } else if token.is("ORDER") && (next("BY") || next("SIBLINGS")) {
            &mut block.order
        } else if token.is("LIMIT")
            || token.is("FETCH") && (next("FIRST") || next("NEXT"))
            || token.is("OFFSET") && !next("FROM")
        {
            &mut block.limit
        } else {
            continue;
        };
        clause.get_or_insert(at);
    }
    block
}

/// `MINUS`, `LISTAGG`, `FETCH FIRST`, literals of times.
fn words(tokens: &[Token], edits: &mut Edits) {
    for (at, token) in tokens.iter().enumerate() {
        let next =
            |count: usize, word: &str| tokens.get(at + count).is_some_and(|next| next.is(word));
        if token.is("MINUS")
            && (next(1, "SELECT") || tokens.get(at + 1).is_some_and(|next| next.is_symbol("(")))
        {
            edits.replace(token.start, token.end, "EXCEPT");
        } else if token.is("UNIQUE")
            && at
                .checked_sub(1)
                .and_then(|at| tokens.get(at))
                .is_some_and(|before| before.is("SELECT") || before.is_symbol("("))
        {
            edits.replace(token.start, token.end, "DISTINCT");
        } else if token.is("ALL")
            && at
                .checked_sub(1)
                .and_then(|at| tokens.get(at))
                .is_some_and(|before| before.is("LIMIT"))
        {
            edits.replace(token.start, token.end, "-1");
        } else if token.is("OFFSET") && !next(1, "FROM") {
            offset(tokens, at, edits);
        } else if token.is("WM_CONCAT") && opens(tokens, at + 1) {
            edits.replace(token.start, token.end, "group_concat");
        } else if token.is("ANY_VALUE") && opens(tokens, at + 1) {
            edits.replace(token.start, token.end, "min");
        } else if token.is("APPROX_COUNT_DISTINCT") && opens(tokens, at + 1) {
            if let Some(open) = tokens.get(at + 1) {
                edits.replace(token.start, open.end, "count(DISTINCT ");
            }
        } else if token.is("LISTAGG") || is_distinct_list(tokens, at) {
            listagg(tokens, at, edits);
        } else if token.is("FETCH") && (next(1, "FIRST") || next(1, "NEXT")) {
            // FETCH {FIRST|NEXT} [n] {ROW|ROWS} ONLY, with or without OFFSET m {ROW|ROWS} before it
            let counted = !(next(2, "ROW") || next(2, "ROWS"));
            let only = at + 3 + usize::from(counted);
            if !tokens.get(only).is_some_and(|token| token.is("ONLY")) {
                continue;
            }
            let count = tokens.get(at + 2).filter(|_| counted);
            let count = count.map_or_else(|| "1".to_owned(), written);
            let offset = [3, 2]
                .into_iter()
                .filter_map(|back| at.checked_sub(back))
                .find(|offset| tokens.get(*offset).is_some_and(|token| token.is("OFFSET")));
            let skipped = offset.and_then(|offset| tokens.get(offset + 1)).map(written);
            let start = offset
                .and_then(|offset| tokens.get(offset))
                .map_or(token.start, |token| token.start);
            let skipped = skipped.map_or_else(String::new, |skipped| format!(" OFFSET {skipped}"));
            if let Some(only) = tokens.get(only) {
                edits.replace(start, only.end, format!("LIMIT {count}{skipped}"));
            }
        } else if (token.is("DATE") || token.is("TIMESTAMP"))
            && matches!(tokens.get(at + 1).map(|token| &token.kind), Some(Kind::String(_)))
        {
            edits.replace(token.start, token.end, "");
        }
    }
}

/// `OFFSET n [ROWS]` without FETCH: SQLite has it behind a LIMIT only.
fn offset(tokens: &[Token], at: usize, edits: &mut Edits) {
    let is = |at: usize, words: &[&str]| {
        tokens.get(at).is_some_and(|token| words.iter().any(|word| token.is(word)))
    };
    let has_rows = is(at + 2, &["ROW", "ROWS"]);
    let (Some(word), Some(count)) = (tokens.get(at), tokens.get(at + 1)) else { return };
    if is(at + 2 + usize::from(has_rows), &["FETCH"]) {
        return;
    }
    let mut depth = 0_usize;
    let mut has_limit = false;
    for token in tokens.get(..at).unwrap_or_default().iter().rev() {
        if token.is_symbol(")") {
            depth += 1;
        } else if token.is_symbol("(") {
            let Some(less) = depth.checked_sub(1) else { break };
            depth = less;
        } else if depth == 0 && (token.is("LIMIT") || token.is("SELECT")) {
            has_limit = token.is("LIMIT");
            break;
        }
    }
    if !has_limit {
        edits.insert(word.start, "LIMIT -1 ");
    }
    if let Some(rows) = tokens.get(at + 2).filter(|_| has_rows) {
        edits.replace(count.end, rows.end, "");
    }
}

/// `string_agg(DISTINCT x, between)`, which SQLite does not have with two arguments.
fn is_distinct_list(tokens: &[Token], at: usize) -> bool {
    let is = |ahead: usize, word: &str| tokens.get(at + ahead).is_some_and(|next| next.is(word));
    (is(0, "STRING_AGG") || is(0, "GROUP_CONCAT")) && is(2, "DISTINCT")
}

pub(super) fn written(token: &Token) -> String {
    match &token.kind {
        Kind::Word(text) | Kind::Quoted(text) | Kind::Number(text) | Kind::Symbol(text) => {
            text.clone()
        }
        Kind::String(text) => crate::text::quoted(text),
        Kind::End => String::new(),
    }
}

/// `LISTAGG([DISTINCT] x [, between] [ON OVERFLOW ...]) [WITHIN GROUP (ORDER BY y)] [OVER (...)]`.
/// A list is never too long for ON OVERFLOW to matter.
fn listagg(tokens: &[Token], at: usize, edits: &mut Edits) {
    let opens = |at: usize| opens(tokens, at);
    let Some(close) = operands::closing(tokens, at + 1).filter(|_| opens(at + 1)) else { return };
    let (Some(name), Some(last)) = (tokens.get(at), tokens.get(close)) else { return };
    let inside = tokens.get(at + 2..close).unwrap_or_default();
    let overflow =
        operands::split(inside, |token| token.is("ON")).first().map_or(0, |part| part.len());
    let end = tokens.get(at + 2 + overflow).map_or(last.start, |on| on.start);
    let list = inside.get(..overflow).unwrap_or_default();
    let distinct = list.first().filter(|first| first.is("DISTINCT") || first.is("UNIQUE"));
    if let Some(distinct) = distinct {
        edits.replace(distinct.start, distinct.end, "");
    }
    let function = if distinct.is_some() { "plinth_list" } else { "group_concat" };
    edits.replace(name.start, name.end, function);
    let has_between = operands::split(list, |token| token.is_symbol(",")).len() > 1;
    let between = if has_between { "" } else { ", ''" };
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.is(word));
    let within = is(close + 1, "WITHIN") && is(close + 2, "GROUP");
    let group = operands::closing(tokens, close + 3).filter(|_| within && opens(close + 3));
    let (Some(group), Some(open)) = (group, tokens.get(close + 3)) else {
        edits.replace(end, last.start, between);
        return;
    };
    let Some(group_end) = tokens.get(group) else { return };
    let window = operands::closing(tokens, group + 2)
        .filter(|_| is(group + 1, "OVER") && opens(group + 2))
        .and_then(|close| Some((tokens.get(group + 2)?, tokens.get(close)?, close)));
    let Some((window, window_end, window_close)) = window else {
        // The ORDER BY is moved into the aggregate.
        edits.replace(end, open.end, format!("{between} "));
        edits.replace(group_end.start, group_end.end, ")");
        return;
    };
    // Each row of a partition has the list of the whole partition, in that order.
    let words = |from: usize, to: usize| -> String {
        let part = tokens.get(from..to).unwrap_or_default();
        part.iter().map(|token| format!(" {}", quoted(token))).collect()
    };
    let order = words(close + 4, group);
    let partition = words(group + 3, window_close);
    edits.replace(end, last.end, format!("{between})"));
    edits.replace(last.end, window.start, " OVER ");
    edits.replace(
        window.start,
        window_end.end,
        format!("({partition}{order} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"),
    );
}

/// A token as it stands in a query.
fn quoted(token: &Token) -> String {
    match &token.kind {
        Kind::Quoted(name) => format!("\"{}\"", name.replace('"', "\"\"")),
        _ => written(token),
    }
}

/// `ROWNUM` as a column, and as a limit.
fn rownum(tokens: &[Token], block: &Block, edits: &mut Edits) -> Result<(), SqlError> {
    let list_end = block.clause_end(block.select);
    let in_order = block.order.map_or_else(Vec::new, |order| own_rownums(tokens, order, block.end));
    let list = own_rownums(tokens, block.select, list_end);
    let groups = block.group.is_some()
        || has_aggregate(tokens.get(block.select..list_end).unwrap_or_default());
    if let Some(token) = list.first().and_then(|at| tokens.get(*at)).filter(|_| groups) {
        let hint = "SELECT it in a subquery, and group that";
        return Err(refused(token, "ROWNUM beside an aggregate or GROUP BY", hint));
    }
    for at in list.into_iter().chain(in_order) {
        rownum_column(tokens, at, edits);
    }
    let Some(found) = limit_by_rownum(tokens, block)? else { return Ok(()) };
    let (Some(begin), Some(end)) =
        (tokens.get(found.condition.0), tokens.get(found.condition.1 - 1))
    else {
        return Ok(());
    };
    if block.limit.is_some() {
        let token = tokens.get(found.rownum).unwrap_or(begin);
        return Err(refused(token, "ROWNUM beside another limit", "limit the rows in a subquery"));
    }
    edits.replace(begin.start, end.end, "1");
    let behind = tokens.get(block.end - 1).map_or(end.end, |last| last.end);
    edits.replace(behind, behind, format!(" LIMIT {}", found.limit));
    Ok(())
}

/// A condition on ROWNUM that limits a block.
pub(super) struct ByRownum {
    pub(super) rownum: usize,
    /// The tokens of the condition.
    pub(super) condition: (usize, usize),
    /// The operand of LIMIT that replaces it.
    pub(super) limit: String,
}

/// The condition on ROWNUM in the WHERE of a block.
///
/// # Errors
/// If it is no limit.
pub(super) fn limit_by_rownum(
    tokens: &[Token],
    block: &Block,
) -> Result<Option<ByRownum>, SqlError> {
    let Some(filter) = block.filter else { return Ok(None) };
    let filter_end = block.clause_end(filter);
    let places = own_rownums(tokens, filter, filter_end);
    let Some(&rownum) = places.first() else { return Ok(None) };
    let Some(token) = tokens.get(rownum) else { return Ok(None) };
    let hint = "as a limit write WHERE ROWNUM <= n; for more, SELECT it in a subquery and compare it outside";
    let refusal = || refused(token, "ROWNUM in this place", hint);
    if places.len() > 1 {
        return Err(refusal());
    }
    let conditions = tokens.get(filter + 1..filter_end).unwrap_or_default();
    let (from, to) = condition_with(conditions, rownum - filter - 1).ok_or_else(refusal)?;
    let limit = limit_of(conditions.get(from..to).unwrap_or_default()).ok_or_else(refusal)?;
    Ok(Some(ByRownum { rownum, condition: (filter + 1 + from, filter + 1 + to), limit }))
}

/// The positions of `ROWNUM` in a clause of a block, without those in nested queries.
fn own_rownums(tokens: &[Token], from: usize, to: usize) -> Vec<usize> {
    let mut depth = 0_usize;
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate().take(to).skip(from) {
        let is_query = |next: &Token| next.is("SELECT") || next.is("WITH");
        if token.is_symbol("(") && (depth > 0 || tokens.get(at + 1).is_some_and(is_query)) {
            depth += 1;
        } else if depth > 0 && token.is_symbol(")") {
            depth -= 1;
        } else if depth == 0 && token.is("ROWNUM") && !follows_dot(tokens, at) {
            found.push(at);
        }
    }
    found
}

fn rownum_column(tokens: &[Token], at: usize, edits: &mut Edits) {
    let alias = tokens.get(at.wrapping_sub(1)).is_some_and(|before| before.is("AS"));
    if let Some(token) = tokens.get(at).filter(|_| !alias) {
        edits.replace(token.start, token.end, "row_number() OVER ()");
        // A column without an alias is named by its text.
        let named = tokens.get(at + 1).is_some_and(|next| !next.is_symbol(",") && !next.is("FROM"));
        let alone = tokens
            .get(at.wrapping_sub(1))
            .is_some_and(|before| before.is_symbol(",") || before.is("SELECT"));
        if !named && alone {
            edits.replace(token.end, token.end, " AS \"rownum\"");
        }
    }
}

/// The range of the one of the conditions, joined by AND, that contains the token at `offset`.
/// `None` if conditions are joined by OR.
fn condition_with(conditions: &[Token], offset: usize) -> Option<(usize, usize)> {
    let mut from = 0;
    let (mut condition, mut is_whole) = (None, false);
    for part in operands::split(conditions, |token| token.is("AND")) {
        let to = from + part.len();
        if (from..to).contains(&offset) {
            condition = Some((from, to));
        }
        // The AND of a BETWEEN.
        if let Some((begin, end)) = condition
            && end + 1 == from
            && !std::mem::replace(&mut is_whole, true)
            && conditions.get(begin + 1).is_some_and(|word| word.is("BETWEEN"))
        {
            condition = Some((begin, to));
        }
        from = to + 1;
    }
    let is_or = |token: &Token| token.is("OR");
    let has_or = conditions.iter().any(is_or) && operands::split(conditions, is_or).len() > 1;
    condition.filter(|_| !has_or)
}

/// The operand of LIMIT that replaces a condition on ROWNUM; `None` for conditions that are not
/// among these.
///
/// The first row is number 1, and a row that fails the condition gives its number to the next one:
/// so `ROWNUM = 0` and `ROWNUM > 1` have no rows, and `ROWNUM <> 3` has two.
fn limit_of(condition: &[Token]) -> Option<String> {
    /// SQLite's limit for all rows.
    const ALL: &str = "-1";
    let (operator, bound) = rownum_compared(condition)?;
    let text = |bound: &[Token]| {
        bound.iter().map(|token| format!("{} ", quoted(token))).collect::<String>()
    };
    // Engines limit their rows by a number, and by nothing else.
    let number = |bound: &[Token]| match bound {
        [Token { kind: Kind::Number(digits), .. }] => digits.parse::<u32>().ok(),
        _ => None,
    };
    let most = |bound: &[Token]| {
        number(bound).map_or_else(|| format!("max(0, {})", text(bound)), |most| most.to_string())
    };
    let rows = |all: bool| Some(if all { ALL } else { "0" }.to_owned());
    match operator {
        "BETWEEN" => {
            let bounds = operands::split(bound, |token| token.is("AND"));
            let [low, high] = bounds[..] else { return None };
            if number(low)? > 1 { rows(false) } else { Some(most(high)) }
        }
        "<=" => Some(most(bound)),
        "<" => Some(match number(bound) {
            Some(number) => number.saturating_sub(1).to_string(),
            None => format!("max(0, ({}) - 1)", text(bound)),
        }),
        "=" => Some(u32::from(number(bound)? == 1).to_string()),
        ">" => rows(number(bound)? == 0),
        ">=" => rows(number(bound)? <= 1),
        "<>" | "!=" => match number(bound)?.checked_sub(1) {
            Some(before) => Some(before.to_string()),
            None => rows(true),
        },
        _ => None,
    }
}

/// The operator of a comparison of ROWNUM, as it is with ROWNUM on its left, and the other side.
fn rownum_compared(condition: &[Token]) -> Option<(&str, &[Token])> {
    let [first, .., last] = condition else { return None };
    const OPERATORS: [(&str, &str); 7] = [
        ("<=", ">="),
        ("<", ">"),
        ("=", "="),
        (">", "<"),
        (">=", "<="),
        ("<>", "<>"),
        ("!=", "!="),
    ];
    if first.is("ROWNUM") {
        let (operator, bound) = condition.get(1..)?.split_first()?;
        if operator.is("BETWEEN") {
            return Some(("BETWEEN", bound));
        }
        let found = OPERATORS.iter().find(|(name, _)| operator.is_symbol(name))?;
        return Some((found.0, bound)).filter(|_| !bound.is_empty());
    }
    let (operator, bound) = condition.get(..condition.len() - 1)?.split_last()?;
    let found = OPERATORS.iter().find(|(_, reversed)| operator.is_symbol(reversed))?;
    Some((found.0, bound)).filter(|_| last.is("ROWNUM") && !bound.is_empty())
}

fn opens(tokens: &[Token], at: usize) -> bool {
    tokens.get(at).is_some_and(|open| open.is_symbol("("))
}

fn follows_dot(tokens: &[Token], at: usize) -> bool {
    at.checked_sub(1)
        .and_then(|before| tokens.get(before))
        .is_some_and(|before| before.is_symbol("."))
}

/// Whether there is an aggregate outside of nested queries, and none with a window.
pub(super) fn has_aggregate(tokens: &[Token]) -> bool {
    let is_window = |at: usize| {
        let close = operands::closing(tokens, at + 1);
        close.and_then(|close| tokens.get(close + 1)).is_some_and(|next| next.is("OVER"))
    };
    let mut at = 0;
    while at < tokens.len() {
        let begins_query = opens(tokens, at)
            && tokens.get(at + 1).is_some_and(|next| next.is("SELECT") || next.is("WITH"));
        if begins_query && let Some(close) = operands::closing(tokens, at) {
            at = close + 1;
            continue;
        }
        if super::grouping::is_aggregate(tokens, at) && !is_window(at) {
            return true;
        }
        at += 1;
    }
    false
}

/// A parsed hierarchical block.
struct Hierarchy<'a> {
    tokens: &'a [Token],
    block: &'a Block,
    /// The tokens of the source, without its alias.
    source: (usize, usize),
    alias: String,
    roots: Option<(usize, usize)>,
    condition: (usize, usize),
    siblings: Vec<(usize, usize, String)>,
    /// NOCYCLE: a row is not walked to from itself.
    ends_cycles: bool,
}

/// The rows on the way to a row, as a text: `/1/5/`.
const TRAIL: &str = "\"#before\".\"#trail\"";

/// Columns of the walk: their texts in its first and in its recursive part.
#[derive(Default)]
struct Columns(Vec<(String, String, String)>);

/// The parts of the subquery that walks.
struct Walk {
    columns: Columns,
    /// The conditions of its first rows, and of the rows after another one.
    roots: Vec<Given>,
    condition: Vec<Given>,
    order: String,
}

impl<'a> Hierarchy<'a> {
    fn of(tokens: &'a [Token], block: &'a Block) -> Result<Self, SqlError> {
        let at = |index: usize| tokens.get(index);
        let connect = block.connect.unwrap_or(block.end);
        let connect_token =
            || at(connect).cloned().unwrap_or(Token { kind: Kind::End, start: 0, end: 0 });
        let single = "put what is joined into a subquery: FROM (SELECT ... FROM a, b WHERE ...) START WITH ... CONNECT BY ...";
        let Some(from) = block.from else {
            return Err(refused(&connect_token(), "CONNECT BY without FROM", single));
        };
        let from_end = block.clause_end(from);
        let source = tokens.get(from + 1..from_end).unwrap_or_default();
        let joins = source.iter().any(|token| token.is("JOIN"));
        if operands::split(source, |token| token.is_symbol(",")).len() > 1
            || joins && operands::split(source, |token| token.is("JOIN")).len() > 1
        {
            return Err(refused(&connect_token(), "CONNECT BY over several tables", single));
        }
        let list_end = block.clause_end(block.select);
        let star =
            operands::split(tokens.get(block.select + 1..list_end).unwrap_or_default(), |token| {
                token.is_symbol(",")
            });
        if let Some(star) =
            star.iter().filter_map(|item| item.last()).find(|last| last.is_symbol("*"))
        {
            return Err(refused(star, "SELECT * with CONNECT BY", "name the columns"));
        }
        // The alias of the source.
        let source_end = operands::end(tokens, from + 1).min(from_end);
        let mut name_at = source_end;
        if at(name_at).is_some_and(|token| token.is("AS")) {
            name_at += 1;
        }
        let alias = match at(name_at)
            .filter(|_| name_at < from_end)
            .or_else(|| at(source_end - 1))
            .map(|token| &token.kind)
        {
            Some(Kind::Word(name) | Kind::Quoted(name)) => name.clone(),
            _ => "#source".to_owned(),
        };
        let ends_cycles = at(connect + 2).is_some_and(|token| token.is("NOCYCLE"));
        let condition_at = connect + 2 + usize::from(ends_cycles);
        let mut siblings = Vec::new();
        if let Some(order) =
            block.order.filter(|order| at(order + 1).is_some_and(|token| token.is("SIBLINGS")))
        {
            let end = block.clause_end(order);
            let mut begin = order + 3;
            for part in operands::split(tokens.get(begin..end).unwrap_or_default(), |token| {
                token.is_symbol(",")
            }) {
                let direction = part
                    .iter()
                    .position(|token| token.is("ASC") || token.is("DESC") || token.is("NULLS"));
                let length = direction.unwrap_or(part.len());
                let direction: String = part
                    .get(length..)
                    .unwrap_or_default()
                    .iter()
                    .map(|token| format!(" {}", written(token)))
                    .collect();
                siblings.push((begin, begin + length, direction));
                begin += part.len() + 1;
            }
        }
        Ok(Self {
            tokens,
            block,
            source: (from + 1, source_end),
            alias,
            roots: block.start.map(|start| (start + 2, block.clause_end(start))),
            condition: (condition_at, block.clause_end(connect)),
            siblings,
            ends_cycles,
        })
    }

    fn edits(&self, text: &str) -> Result<Edits, SqlError> {
        let mut columns = Columns::default();
        let mut edits = Edits::default();
        // The parts that refer to the walk: the list, the filter, and the clauses after it; and the
        // condition itself.
        let (condition_from, condition_to) = self.condition;
        let condition = self.translated(condition_from, condition_to, text, &mut columns, true)?;
        let own_order = !self.siblings.is_empty();
        let mut moved = vec![(self.block.connect.unwrap_or(0), condition_to)];
        moved.extend(self.roots.map(|(from, to)| (from - 2, to)));
        moved.extend(
            self.block
                .order
                .filter(|_| own_order)
                .map(|order| (order, self.block.clause_end(order))),
        );
        let source_span = (self.source.0, self.block.clause_end(self.block.from.unwrap_or(0)));
        for at in self.block.select..self.block.end {
            let elsewhere =
                moved.iter().chain([&source_span]).any(|(from, to)| (*from..*to).contains(&at));
            if !elsewhere {
                self.refer(at, text, &mut columns, &mut edits, false)?;
            }
        }
        let roots = match self.roots {
            Some((from, to)) => self.plain(from, to, text),
            None => vec![Given::new("1", 0)],
        };
        for (number, (from, to, _)) in self.siblings.iter().enumerate() {
            let expression = text_of(&self.plain(*from, *to, text));
            columns.0.push((format!("#sibling{}", number + 1), expression.clone(), expression));
        }
        let mut order = String::from("\"#level\" DESC");
        for (number, (.., direction)) in self.siblings.iter().enumerate() {
            let _ = write!(order, ", \"#sibling{}\"{direction}", number + 1);
        }
        let alias = format!("\"{}\"", self.alias.replace('"', "\"\""));
        if self.ends_cycles {
            let begin = format!("'/' || {alias}.\"#row\" || '/'");
            let next = format!("{TRAIL} || {alias}.\"#row\" || '/'");
            columns.0.push(("#trail".into(), begin, next));
        }
        let parts = Walk { columns, roots, condition, order };
        let texts = self.walk(parts, &alias, text)?;
        let start = self.place(self.source.0);
        edits.pieces(start, self.end_place(source_span.1), texts);
        for (from, to) in moved {
            edits.replace(self.place(from), self.end_place(to), " ");
        }
        Ok(edits)
    }

    /// The walk, which replaces the source.
    fn walk(&self, parts: Walk, alias: &str, text: &str) -> Result<Vec<Given>, SqlError> {
        let Walk { columns, roots, condition, order } = parts;
        let start = self.place(self.source.0);
        let (condition_from, condition_to) = self.condition;
        let (mut names, mut first, mut next) = (String::new(), String::new(), String::new());
        for (name, begin, goes_on) in &columns.0 {
            let _ = write!(names, ", \"{name}\"");
            let _ = write!(first, ", {begin} AS \"{name}\"");
            let _ = write!(next, ", {goes_on}");
        }
        let mut texts = vec![Given::new(
            "(WITH RECURSIVE \"#src\" AS MATERIALIZED (SELECT row_number() OVER () AS \"#row\", * FROM ",
            start,
        )];
        texts.extend(self.plain(self.source.0, self.source.1, text));
        texts.push(Given::new(
            format!(
                "), \"#walk\"(\"#level\", \"#row\"{names}) AS (SELECT 1 AS \"#level\", {alias}.\"#row\"{first} FROM \"#src\" AS {alias} WHERE "
            ),
            start,
        ));
        texts.extend(roots);
        texts.push(Given::new(
            format!(
                " UNION ALL SELECT \"#before\".\"#level\" + 1, {alias}.\"#row\"{next} FROM \"#walk\" AS \"#before\", \
                 \"#src\" AS {alias} WHERE "
            ),
            start,
        ));
        texts.push(Given::new("(", start));
        texts.extend(condition.clone());
        let follows_rows = self
            .tokens
            .get(condition_from..condition_to)
            .is_some_and(|tokens| tokens.iter().any(|token| token.is("PRIOR")));
        texts.push(Given::new(
            match (self.ends_cycles, follows_rows) {
                (true, _) => format!(") AND {}", is_on_trail(alias, 0)),
                // A way that is longer than there are rows goes in a circle.
                (false, true) => ") AND CASE WHEN \"#before\".\"#level\" <= (SELECT count(*) FROM \"#src\") THEN 1 ELSE plinth_cycle() END".to_owned(),
                (false, false) => ")".to_owned(),
            },
            start,
        ));
        texts.push(Given::new(format!(" ORDER BY {order}) SELECT *"), start));
        texts.extend(self.leaf(alias, &condition, start));
        texts.extend(self.cycle(alias, condition, start)?);
        texts.push(Given::new(
            format!(
                " FROM \"#walk\" AS \"#before\" CROSS JOIN \"#src\" USING (\"#row\")) AS {alias} "
            ),
            start,
        ));
        Ok(texts)
    }

    /// The column that tells whether a row is a leaf, if the block asks for it: the walk would find
    /// no row behind it.
    fn leaf(&self, alias: &str, condition: &[Given], start: usize) -> Vec<Given> {
        if !self.asks("CONNECT_BY_ISLEAF") {
            return Vec::new();
        }
        let open = format!(", NOT EXISTS (SELECT 1 FROM \"#src\" AS {alias} WHERE (");
        let mut texts = vec![Given::new(open, start)];
        texts.extend(condition.iter().cloned());
        if self.ends_cycles {
            texts.push(Given::new(format!(") AND ({}", is_on_trail(alias, 0)), start));
        }
        texts.push(Given::new(")) AS \"#leaf\"", start));
        texts
    }

    /// The column that tells whether the walk would come back from a row to one on the way to it.
    fn cycle(
        &self,
        alias: &str,
        condition: Vec<Given>,
        start: usize,
    ) -> Result<Vec<Given>, SqlError> {
        if !self.asks("CONNECT_BY_ISCYCLE") {
            return Ok(Vec::new());
        }
        if !self.ends_cycles {
            let word = self.tokens.iter().find(|token| token.is("CONNECT_BY_ISCYCLE"));
            return Err(SqlError::syntax(
                word.map_or(start, |word| word.start),
                "CONNECT_BY_ISCYCLE needs CONNECT BY NOCYCLE",
            ));
        }
        let open = format!(", EXISTS (SELECT 1 FROM \"#src\" AS {alias} WHERE (");
        let mut texts = vec![Given::new(open, start)];
        texts.extend(condition);
        texts.push(Given::new(format!(") AND {}) AS \"#cycle\"", is_on_trail(alias, 1)), start));
        Ok(texts)
    }

    /// Whether the block asks for a column about rows of the walk.
    fn asks(&self, word: &str) -> bool {
        let block = self.tokens.get(self.block.select..self.block.end).unwrap_or_default();
        block.iter().any(|token| token.is(word))
    }

    /// The start of a token.
    fn place(&self, at: usize) -> usize {
        self.tokens.get(at).map_or_else(|| self.end_place(at), |token| token.start)
    }

    /// The end of the token before `at`.
    fn end_place(&self, at: usize) -> usize {
        at.checked_sub(1).and_then(|last| self.tokens.get(last)).map_or(0, |token| token.end)
    }

    /// A range of tokens without changes.
    fn plain(&self, from: usize, to: usize, text: &str) -> Vec<Given> {
        Edits::default().made(text, self.place(from), self.end_place(to)).texts()
    }

    /// A range of tokens, with references to the walk translated.
    fn translated(
        &self,
        from: usize,
        to: usize,
        text: &str,
        columns: &mut Columns,
        within: bool,
    ) -> Result<Vec<Given>, SqlError> {
        let mut edits = Edits::default();
        for at in from..to {
            self.refer(at, text, columns, &mut edits, within)?;
        }
        Ok(edits.made(text, self.place(from), self.end_place(to)).texts())
    }

    /// Translates one token that refers to the walk. `within`: the token is in the walk's
    /// condition, where the previous row is another one.
    fn refer(
        &self,
        at: usize,
        text: &str,
        columns: &mut Columns,
        edits: &mut Edits,
        within: bool,
    ) -> Result<(), SqlError> {
        let Some(token) = self.tokens.get(at) else { return Ok(()) };
        let next_is_open = self.tokens.get(at + 1).is_some_and(|next| next.is_symbol("("));
        if token.is("LEVEL") && !follows_dot(self.tokens, at) && !next_is_open {
            edits.replace(
                token.start,
                token.end,
                if within { "(\"#before\".\"#level\" + 1)" } else { "\"#level\"" },
            );
        } else if token.is("PRIOR") {
            let end = operands::end(self.tokens, at + 1);
            let expression = text_of(&self.plain(at + 1, end, text));
            let prior = columns.of("prior", &expression, &expression);
            let replacement = if within {
                format!("\"#before\".\"{prior}\"")
            } else {
                // In a value of the row itself it means the value of the previous row.
                format!("\"{}\"", columns.of("was", "NULL", &format!("\"#before\".\"{prior}\"")))
            };
            edits.replace(token.start, self.end_place(end), replacement);
        } else if token.is("CONNECT_BY_ISLEAF") {
            edits.replace(token.start, token.end, "\"#leaf\"");
        } else if token.is("CONNECT_BY_ISCYCLE") {
            edits.replace(token.start, token.end, "\"#cycle\"");
        } else if token.is("CONNECT_BY_ROOT") {
            let end = operands::end(self.tokens, at + 1);
            let expression = text_of(&self.plain(at + 1, end, text));
            let root =
                columns.carried("root", &expression, |name| format!("\"#before\".\"{name}\""));
            edits.replace(token.start, self.end_place(end), format!("\"{root}\""));
        } else if token.is("SYS_CONNECT_BY_PATH") && next_is_open {
            let Some(close) = operands::closing(self.tokens, at + 1) else { return Ok(()) };
            let inside = self.tokens.get(at + 2..close).unwrap_or_default();
            let parts = operands::split(inside, |token| token.is_symbol(","));
            let [of, between] = parts.as_slice() else {
                return Err(SqlError::syntax(
                    token.start,
                    "SYS_CONNECT_BY_PATH takes a column and what stands between",
                ));
            };
            let of = text_of(&self.plain(at + 2, at + 2 + of.len(), text));
            let between = text_of(&self.plain(close - between.len(), close, text));
            let step = format!("{between} || coalesce({of}, '')");
            let path =
                columns.carried("path", &step, |name| format!("\"#before\".\"{name}\" || {step}"));
            edits.replace(token.start, self.end_place(close + 1), format!("\"{path}\""));
        }
        Ok(())
    }
}

impl Columns {
    /// The name of the column with these texts; it is added if there is none.
    fn of(&mut self, kind: &str, first: &str, next: &str) -> String {
        if let Some((name, ..)) = self.0.iter().find(|(_, a, b)| a == first && b == next) {
            return name.clone();
        }
        let name = format!("#{kind}{}", self.0.len() + 1);
        self.0.push((name.clone(), first.to_owned(), next.to_owned()));
        name
    }

    /// A column of the walk whose next value is computed from its previous value.
    fn carried(&mut self, kind: &str, first: &str, next: impl Fn(&str) -> String) -> String {
        if let Some((name, ..)) = self.0.iter().find(|(name, a, b)| a == first && *b == next(name))
        {
            return name.clone();
        }
        let name = format!("#{kind}{}", self.0.len() + 1);
        self.0.push((name.clone(), first.to_owned(), next(&name)));
        name
    }
}

/// Whether a row is on the way to the row before it: 1, or not: 0.
fn is_on_trail(alias: &str, wanted: i32) -> String {
    format!("(instr({TRAIL}, '/' || {alias}.\"#row\" || '/') > 0) = {wanted}")
}

fn text_of(texts: &[Given]) -> String {
    texts.iter().map(|given| given.text.as_str()).collect()
}
