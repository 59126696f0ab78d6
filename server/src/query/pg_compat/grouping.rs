//! `GROUP BY ROLLUP (a, b)`, `CUBE (a, b)`, `GROUPING SETS ((a), ())`: one query for each grouping,
//! joined by UNION ALL.
//!
//! ```text
//!   SELECT a, sum(x) s, GROUPING(a) FROM t GROUP BY ROLLUP (a) ORDER BY a
//!   SELECT "#1" AS a, "#2" AS s, "#3" AS "GROUPING(a)" FROM (
//!       SELECT a AS "#1", sum(x) AS "#2", 0 AS "#3", a AS "#o1" FROM t GROUP BY a
//!       UNION ALL SELECT NULL AS "#1", sum(x) AS "#2", 1 AS "#3", NULL AS "#o1" FROM t)
//!   ORDER BY "#o1"
//! ```
//!
//! In each of these queries the expressions that it does not group by are NULL, except in
//! aggregates.

use super::{
    edits::{Draft, Edits, Given},
    operands,
    oracle::{Block, blocks},
};
use crate::{
    query::infer_types,
    sql::tokens::{Kind, Token},
    sql_error::{SqlError, state},
};

/// Most groupings of one block.
const GROUPINGS_MAX: usize = 64;
/// Most words in the lists of all of them.
const WORDS_MAX: usize = 20_000;
/// Most blocks with groupings in one statement.
const ROUNDS_MAX: usize = 20;
/// In their arguments nothing is NULL because it is not grouped by.
const AGGREGATES: [&str; 23] = [
    "COUNT",
    "SUM",
    "AVG",
    "MIN",
    "MAX",
    "TOTAL",
    "LISTAGG",
    "STRING_AGG",
    "GROUP_CONCAT",
    "ARRAY_AGG",
    "JSON_AGG",
    "JSON_ARRAYAGG",
    "MEDIAN",
    "STDDEV",
    "STDDEV_POP",
    "STDDEV_SAMP",
    "VARIANCE",
    "VAR_POP",
    "VAR_SAMP",
    "WM_CONCAT",
    "PERCENTILE_CONT",
    "PERCENTILE_DISC",
    "JSON_OBJECTAGG",
];

/// An expression to group by: its tokens.
pub(super) type Key = (usize, usize);

/// Rewrites the blocks that have several groupings.
///
/// # Errors
/// If there are too many.
pub(super) fn rewrite(mut draft: Draft<'_>) -> Result<Draft<'_>, SqlError> {
    for _ in 0..ROUNDS_MAX {
        let tokens = &draft.tokens;
        let found = blocks(tokens).into_iter().rev().find_map(|block| Grouped::of(tokens, block));
        let Some(grouped) = found else { return Ok(draft) };
        let edits = grouped
            .and_then(|grouped| grouped.edits(&draft.done.sql))
            .map_err(|refusal| draft.placed(refusal))?;
        draft = draft.changed(&edits)?;
    }
    Err(SqlError::new(
        state::TOO_COMPLEX,
        "too many ROLLUP, CUBE and GROUPING SETS in one statement",
    ))
}

struct Grouped<'a> {
    tokens: &'a [Token],
    block: Block,
    /// The expressions of each grouping.
    sets: Vec<Vec<Key>>,
    having: Option<Key>,
    order: Vec<Key>,
}

impl<'a> Grouped<'a> {
    /// `None` if a block has no such clause.
    fn of(tokens: &'a [Token], block: Block) -> Option<Result<Self, SqlError>> {
        let group =
            block.group.filter(|at| tokens.get(*at).is_some_and(|word| word.is("GROUP")))?;
        let clause_end = block.clause_end(group);
        let having = top_level(tokens, group, clause_end, "HAVING");
        let end = having.unwrap_or(clause_end);
        let elements = split(tokens, group + 2, end);
        if !elements.iter().any(|element| several(tokens, *element).is_some()) {
            return None;
        }
        let mut sets: Vec<Vec<Key>> = vec![Vec::new()];
        for element in elements {
            let of_element = groupings(tokens, element, 0);
            let all = sets.iter().flat_map(|before| {
                of_element.iter().map(move |set| [before.as_slice(), set.as_slice()].concat())
            });
            sets = all.collect();
            let items = block.clause_end(block.select) - block.select;
            if sets.len() > GROUPINGS_MAX || sets.is_empty() || sets.len() * items > WORDS_MAX {
                let at = tokens.get(group).map_or(0, |token| token.start);
                let message =
                    format!("more than {GROUPINGS_MAX} groupings, or {WORDS_MAX} words in them");
                return Some(Err(SqlError::new(state::TOO_COMPLEX, message).at(at)));
            }
        }
        let order = block
            .order
            .map_or_else(Vec::new, |order| split(tokens, order + 2, block.clause_end(order)));
        let having = having.map(|having| (having + 1, clause_end));
        Some(Ok(Self { tokens, block, sets, having, order }))
    }

    fn edits(&self, text: &str) -> Result<Edits, SqlError> {
        let (tokens, block) = (self.tokens, &self.block);
        let place = |at: usize| tokens.get(at).map_or(0, |token| token.start);
        let end =
            |at: usize| at.checked_sub(1).and_then(|at| tokens.get(at)).map_or(0, |one| one.end);
        let origin = place(block.select);
        let new = |text: String| Given::new(text, origin);
        let is_distinct = tokens.get(block.select + 1).is_some_and(|next| next.is("DISTINCT"));
        let list = block.select + 1 + usize::from(is_distinct);
        let items = split(tokens, list, block.clause_end(block.select));
        let named: Vec<(Key, String)> = items.iter().map(|item| named(tokens, *item)).collect();
        let orders: Vec<(Key, String)> =
            self.order.iter().map(|key| directed(tokens, *key, text)).collect();
        // A key of the order that is a column of the result, by its name or number.
        let column = |key: Key| match tokens.get(key.0..key.1) {
            Some([Token { kind: Kind::Number(number), .. }]) => number.parse().ok(),
            Some([Token { kind: Kind::Word(name) | Kind::Quoted(name), .. }]) => {
                let is_named = |(_, known): &(Key, String)| known.eq_ignore_ascii_case(name);
                named.iter().position(is_named).map(|at| at + 1)
            }
            _ => None,
        };
        let select = if is_distinct { "SELECT DISTINCT" } else { "SELECT" };
        let mut texts = vec![new(select.to_owned())];
        for (number, (_, name)) in (1..).zip(&named) {
            let comma = if number > 1 { "," } else { "" };
            texts.push(new(format!("{comma} \"#{number}\" AS \"{}\"", name.replace('"', "\"\""))));
        }
        texts.push(new(" FROM (".to_owned()));
        for (at, set) in self.sets.iter().enumerate() {
            texts.push(new(if at > 0 { " UNION ALL SELECT " } else { "SELECT " }.to_owned()));
            for (number, (value, _)) in (1..).zip(&named) {
                texts.push(new(if number > 1 { ", " } else { "" }.to_owned()));
                texts.extend(self.in_set(*value, set, text));
                texts.push(new(format!(" AS \"#{number}\"")));
            }
            for (number, (key, _)) in
                (1..).zip(&orders).filter(|(_, (key, _))| column(*key).is_none())
            {
                texts.push(new(", ".to_owned()));
                texts.extend(self.in_set(*key, set, text));
                texts.push(new(format!(" AS \"#o{number}\"")));
            }
            if let Some(from) = block.from {
                let until = block.group.unwrap_or(block.end);
                texts.push(new(" ".to_owned()));
                texts.extend(Edits::default().made(text, place(from), end(until)).texts());
            }
            let mut before = " GROUP BY ";
            for key in set {
                texts.push(new(before.to_owned()));
                texts.extend(Edits::default().made(text, place(key.0), end(key.1)).texts());
                before = ", ";
            }
            if set.is_empty() && !self.has_aggregate(list) {
                texts.push(new(" GROUP BY NULL".to_owned()));
            }
            if let Some(having) = self.having {
                texts.push(new(" HAVING ".to_owned()));
                texts.extend(self.in_set(having, set, text));
            }
        }
        texts.push(new(")".to_owned()));
        let mut before = " ORDER BY ";
        for (number, (key, direction)) in (1..).zip(&orders) {
            let key = column(*key).map_or(format!("\"#o{number}\""), |at| format!("\"#{at}\""));
            texts.push(new(format!("{before}{key}{direction}")));
            before = ", ";
        }
        texts.push(new(" ".to_owned()));
        let last = block.limit.unwrap_or(block.end);
        let mut edits = Edits::default();
        edits.pieces(origin, end(last), texts);
        Ok(edits)
    }

    fn has_aggregate(&self, from: usize) -> bool {
        (from..self.block.clause_end(self.block.select)).any(|at| is_aggregate(self.tokens, at))
    }

    /// An expression in the query of one grouping.
    fn in_set(&self, (from, to): Key, set: &[Key], text: &str) -> Vec<Given> {
        let tokens = self.tokens;
        let mut edits = Edits::default();
        let place = |at: usize| tokens.get(at).map_or(0, |token| token.start);
        let end =
            |at: usize| at.checked_sub(1).and_then(|at| tokens.get(at)).map_or(0, |one| one.end);
        let is_in = |key: Key| set.iter().any(|known| is_same(tokens, *known, key));
        let mut at = from;
        while at < to {
            let close = tokens
                .get(at + 1)
                .filter(|open| open.is_symbol("("))
                .and_then(|_| operands::closing(tokens, at + 1));
            let call = |names: [&str; 2]| {
                let is_named =
                    names.iter().any(|name| tokens.get(at).is_some_and(|word| word.is(name)));
                close.filter(|_| is_named)
            };
            if let Some(close) = call(["GROUPING", "GROUPING_ID"]) {
                let bits = split(tokens, at + 2, close)
                    .into_iter()
                    .fold(0_u64, |bits, key| bits << 1 | u64::from(!is_in(key)));
                edits.replace(place(at), end(close + 1), bits.to_string());
                at = close + 1;
                continue;
            }
            if let Some(close) = call(["GROUP_ID", "GROUP_ID"]) {
                edits.replace(place(at), end(close + 1), "0");
                at = close + 1;
                continue;
            }
            if let (Some(close), true) = (close, is_aggregate(tokens, at)) {
                at = close + 1;
                continue;
            }
            let begins = at == 0 || !tokens.get(at - 1).is_some_and(|before| before.is_symbol("."));
            let keys = self.sets.iter().flatten();
            let longest = keys
                .filter(|key| begins && is_same(tokens, **key, (at, at + key.1 - key.0)))
                .max_by_key(|key| key.1 - key.0);
            match longest {
                Some(key) => {
                    let after = at + key.1 - key.0;
                    if !is_in(*key) {
                        edits.replace(place(at), end(after), "NULL");
                    }
                    at = after;
                }
                None => at += 1,
            }
        }
        edits.made(text, place(from), end(to)).texts()
    }
}

pub(super) fn is_aggregate(tokens: &[Token], at: usize) -> bool {
    tokens.get(at + 1).is_some_and(|next| next.is_symbol("("))
        && tokens.get(at).is_some_and(|token| AGGREGATES.iter().any(|name| token.is(name)))
}

/// The word at depth 0 of a range.
pub(super) fn top_level(tokens: &[Token], from: usize, to: usize, word: &str) -> Option<usize> {
    let part = operands::split(tokens.get(from..to)?, |token| token.is(word));
    let before = part.first().map(|part| part.len())?;
    (part.len() > 1).then_some(from + before)
}

/// The parts of a range that commas separate.
pub(super) fn split(tokens: &[Token], from: usize, to: usize) -> Vec<Key> {
    let mut start = from;
    let parts = operands::split(tokens.get(from..to).unwrap_or_default(), |one| one.is_symbol(","));
    let mut found = Vec::new();
    for part in parts {
        if !part.is_empty() {
            found.push((start, start + part.len()));
        }
        start += part.len() + 1;
    }
    found
}

/// The elements of `ROLLUP (...)`, `CUBE (...)` or `GROUPING SETS (...)`, and the first word.
fn several(tokens: &[Token], (from, to): Key) -> Option<(&Token, Vec<Key>)> {
    let word = tokens.get(from)?;
    let open = match word {
        word if word.is("ROLLUP") || word.is("CUBE") => from + 1,
        word if word.is("GROUPING") && tokens.get(from + 1)?.is("SETS") => from + 2,
        _ => return None,
    };
    tokens.get(open).filter(|open| open.is_symbol("("))?;
    let close = operands::closing(tokens, open).filter(|close| close + 1 == to)?;
    Some((word, split(tokens, open + 1, close)))
}

/// The keys of `(a, b)`, or of `a`.
fn keys(tokens: &[Token], (from, to): Key) -> Vec<Key> {
    let is_list = tokens.get(from).is_some_and(|open| open.is_symbol("("))
        && operands::closing(tokens, from) == Some(to - 1);
    if is_list { split(tokens, from + 1, to - 1) } else { vec![(from, to)] }
}

/// The groupings that an element stands for.
pub(super) fn groupings(tokens: &[Token], element: Key, depth: usize) -> Vec<Vec<Key>> {
    let Some((word, parts)) = several(tokens, element) else { return vec![keys(tokens, element)] };
    // More than GROUPINGS_MAX in any case.
    if depth > 4 || parts.len() > GROUPINGS_MAX || word.is("CUBE") && parts.len() > 6 {
        return vec![Vec::new(); GROUPINGS_MAX + 1];
    }
    let lists: Vec<Vec<Key>> = parts.iter().map(|part| keys(tokens, *part)).collect();
    if word.is("ROLLUP") {
        let longest_first = (0..=lists.len()).rev();
        return longest_first
            .map(|count| lists.iter().take(count).flatten().copied().collect())
            .collect();
    }
    if word.is("CUBE") {
        let subsets = (0..1_usize << lists.len()).rev();
        let of = |bits: usize| {
            let chosen = lists.iter().rev().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
            let mut chosen: Vec<&Vec<Key>> = chosen.map(|(_, list)| list).collect();
            chosen.reverse();
            chosen.into_iter().flatten().copied().collect()
        };
        return subsets.map(of).collect();
    }
    parts.into_iter().flat_map(|part| groupings(tokens, part, depth + 1)).collect()
}

/// Whether two ranges are the same expression.
pub(super) fn is_same(tokens: &[Token], a: Key, b: Key) -> bool {
    let (Some(a), Some(b)) = (tokens.get(a.0..a.1), tokens.get(b.0..b.1)) else { return false };
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| match (&a.kind, &b.kind) {
            (Kind::Word(a) | Kind::Quoted(a), Kind::Word(b) | Kind::Quoted(b)) => {
                a.eq_ignore_ascii_case(b)
            }
            (a, b) => a == b,
        })
}

/// The value of an item of the list, and its name.
pub(super) fn named(tokens: &[Token], item: Key) -> (Key, String) {
    let all = tokens.get(item.0..item.1).unwrap_or_default();
    let value = infer_types::without_alias(all);
    let name = match all.last().map(|last| &last.kind) {
        Some(Kind::Word(name) | Kind::Quoted(name)) => name.clone(),
        _ => String::new(),
    };
    ((item.0, item.0 + value.len()), name)
}

/// A key of the order without its direction, and the direction.
pub(super) fn directed(tokens: &[Token], key: Key, text: &str) -> (Key, String) {
    let all = tokens.get(key.0..key.1).unwrap_or_default();
    let says = |token: &Token| ["ASC", "DESC", "NULLS"].iter().any(|word| token.is(word));
    let length = all.iter().position(says).unwrap_or(all.len());
    let direction = match (all.get(length), all.last()) {
        (Some(first), Some(last)) => {
            let said = text.chars().skip(first.start).take(last.end - first.start);
            format!(" {}", said.collect::<String>())
        }
        _ => String::new(),
    };
    ((key.0, key.0 + length), direction)
}
