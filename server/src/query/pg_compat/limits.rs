//! Limits of rows that SQLite's LIMIT does not express.
//!
//! Oracle counts ROWNUM before it orders and groups. So a block that limits itself by ROWNUM and
//! then orders or groups takes its rows from a query that is limited:
//!
//! ```text
//!   SELECT x, d.y FROM t d WHERE c AND ROWNUM <= 5 ORDER BY x
//!   SELECT x, d.y FROM (SELECT * FROM t d WHERE c LIMIT 5) AS d ORDER BY x
//! ```
//!
//! Of several tables, `*` would lose their names, so the items and the keys of the order are named:
//!
//! ```text
//!   SELECT "#1" AS x FROM
//!       (SELECT a.x AS "#1", b.y AS "#o1" FROM a, b WHERE c LIMIT 5) ORDER BY "#o1"
//! ```
//!
//! FETCH FIRST with PERCENT or TIES counts the rows that it is about:
//!
//! ```text
//!   SELECT x FROM t ORDER BY y FETCH FIRST 3 ROWS WITH TIES
//!   SELECT x FROM t ORDER BY y LIMIT (SELECT count(*) FROM
//!       (SELECT rank() OVER (ORDER BY y) AS "#r" FROM t) WHERE "#r" <= 3)
//! ```

use super::{
    edits::{Draft, Edits, Given},
    grouping::{Key, directed, named, split},
    operands,
    oracle::{Block, ByRownum, blocks, has_aggregate, limit_by_rownum, refused, written},
};
use crate::{
    sql::tokens::{Kind, Token},
    sql_error::{SqlError, state},
};

/// Most such limits in one statement.
const ROUNDS_MAX: usize = 20;
const SET_OPERATORS: [&str; 5] = ["UNION", "ALL", "EXCEPT", "INTERSECT", "MINUS"];

/// Rewrites the limits of blocks.
///
/// # Errors
/// At a form that has no counterpart.
pub(super) fn rewrite(mut draft: Draft<'_>) -> Result<Draft<'_>, SqlError> {
    for _ in 0..ROUNDS_MAX {
        let mut found = None;
        // The innermost first: the outer ones then include its rewritten form.
        for block in blocks(&draft.tokens).into_iter().rev() {
            let limit = Limited { tokens: &draft.tokens, block: &block, text: &draft.done.sql };
            found = limit.edits().map_err(|refusal| draft.placed(refusal))?;
            if found.is_some() {
                break;
            }
        }
        let Some(edits) = found else { return Ok(draft) };
        draft = draft.changed(&edits)?;
    }
    Err(SqlError::new(state::TOO_COMPLEX, "too many limits of rows in one statement"))
}

/// Gives each LIMIT of a subquery an OFFSET. SQLite orders by an outer ORDER BY before it limits,
/// where it takes a subquery with a LIMIT alone for a part of the query around it.
pub(super) fn keep_apart(tokens: &[Token], edits: &mut Edits) {
    // Of each open parenthesis, whether its query has a LIMIT without an OFFSET so far.
    let mut open = Vec::new();
    for token in tokens {
        if token.is_symbol("(") {
            open.push(false);
        } else if token.is_symbol(")") {
            if open.pop() == Some(true) {
                edits.close(token.start, " OFFSET 0");
            }
        } else if let Some(limited) = open.last_mut() {
            *limited |= token.is("LIMIT");
            *limited &= !token.is("OFFSET") && !token.is_symbol(",");
        }
    }
}

struct Limited<'a> {
    tokens: &'a [Token],
    block: &'a Block,
    text: &'a str,
}

impl Limited<'_> {
    fn edits(&self) -> Result<Option<Edits>, SqlError> {
        if let Some(fetch) = self.fetch()? {
            return Ok(Some(fetch));
        }
        let Some(limit) = limit_by_rownum(self.tokens, self.block)? else { return Ok(None) };
        let list = self.tokens.get(self.block.select..self.list_end()).unwrap_or_default();
        let is_distinct = self
            .tokens
            .get(self.block.select + 1)
            .is_some_and(|next| next.is("DISTINCT") || next.is("UNIQUE"));
        // Windows are over the rows that are counted, too.
        let has_window = list.iter().any(|token| token.is("OVER"));
        let groups = self.block.group.is_some() || is_distinct || has_window || has_aggregate(list);
        // An order behind the last operand of a UNION is that of the whole query.
        let is_operand = self.is_operand();
        if !groups && is_operand {
            return Ok(Some(self.enclosed(&limit)));
        }
        if !groups && self.block.order.is_none() {
            // SQLite's own limit does.
            return Ok(None);
        }
        let refusal = || {
            let what = "ROWNUM beside an aggregate, OVER, DISTINCT or another limit";
            let token = self.tokens.get(limit.rownum).unwrap_or(&NOTHING);
            refused(token, what, "limit the rows in a subquery")
        };
        if self.block.limit.is_some() && !is_operand {
            return Err(refusal());
        }
        let (Some(from), Some(filter)) = (self.block.from, self.block.filter) else {
            return Err(refusal());
        };
        let source = (from + 1, self.block.clause_end(from));
        // The conditions without that one.
        let mut rest = Edits::default();
        rest.replace(self.place(limit.condition.0), self.end(limit.condition.1), "1");
        let filter_end = self.block.clause_end(filter);
        let mut limited = vec![self.given(" WHERE ")];
        limited.extend(rest.made(self.text, self.place(filter + 1), self.end(filter_end)).texts());
        limited.push(self.given(format!(" LIMIT {}", limit.limit)));
        let mut edits = Edits::default();
        if let Some(name) = self.only_source(source) {
            let mut texts = vec![self.given("(SELECT * FROM ")];
            texts.extend(self.plain(source));
            texts.extend(limited);
            texts.push(self.given(format!("){name} ")));
            edits.pieces(self.place(source.0), self.end(filter_end), texts);
            return Ok(Some(edits));
        }
        if groups {
            return Err(refusal());
        }
        let texts = self.ordered(from, limited).ok_or_else(refusal)?;
        edits.pieces(self.place(self.block.select), self.end(self.block.end), texts);
        Ok(Some(edits))
    }

    /// Whether the block is an operand of UNION, INTERSECT or MINUS.
    fn is_operand(&self) -> bool {
        let is = |token: Option<&Token>| {
            token.is_some_and(|token| SET_OPERATORS.iter().any(|word| token.is(word)))
        };
        let before = self.block.select.checked_sub(1).and_then(|at| self.tokens.get(at));
        is(before) || is(self.tokens.get(self.block.end))
    }

    /// The block as a query over itself, which is limited: SQLite limits no operand of a UNION.
    fn enclosed(&self, limit: &ByRownum) -> Edits {
        let body_end = self.block.order.or(self.block.limit).unwrap_or(self.block.end);
        let mut rest = Edits::default();
        rest.replace(self.place(limit.condition.0), self.end(limit.condition.1), "1");
        let mut texts = vec![self.given("SELECT * FROM (")];
        let (start, end) = (self.place(self.block.select), self.end(body_end));
        texts.extend(rest.made(self.text, start, end).texts());
        texts.push(self.given(format!(" LIMIT {}) ", limit.limit)));
        let mut edits = Edits::default();
        edits.pieces(start, end, texts);
        edits
    }

    fn list_end(&self) -> usize {
        self.block.clause_end(self.block.select)
    }

    fn place(&self, at: usize) -> usize {
        self.tokens.get(at).map_or(0, |token| token.start)
    }

    fn end(&self, at: usize) -> usize {
        at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(0, |token| token.end)
    }

    fn plain(&self, (from, to): Key) -> Vec<Given> {
        Edits::default().made(self.text, self.place(from), self.end(to)).texts()
    }

    fn given(&self, text: impl Into<String>) -> Given {
        Given::new(text, self.place(self.block.select))
    }

    /// The alias to give to the query in the place of the source, if the source is one table.
    fn only_source(&self, source: Key) -> Option<String> {
        let all = self.tokens.get(source.0..source.1)?;
        let several = |token: &Token| token.is_symbol(",") || token.is("JOIN");
        if operands::split(all, several).len() > 1 {
            return None;
        }
        // A query without an alias has no name.
        match all.last().map(|last| &last.kind) {
            Some(Kind::Word(name) | Kind::Quoted(name)) => {
                let name = super::synonyms::declared(name);
                Some(format!(" AS \"{}\"", name.replace('"', "\"\"")))
            }
            _ => Some(String::new()),
        }
    }

    /// The block as a query over a limited one with its items and the keys of its order. `None` if
    /// an item is `*`.
    fn ordered(&self, from: usize, limited: Vec<Given>) -> Option<Vec<Given>> {
        let items = split(self.tokens, self.block.select + 1, self.list_end());
        let is_star = |item: &Key| {
            let last = item.1.checked_sub(1).and_then(|last| self.tokens.get(last));
            last.is_none_or(|last| last.is_symbol("*"))
        };
        if items.iter().any(is_star) {
            return None;
        }
        let items: Vec<(Key, String)> =
            items.into_iter().map(|item| named(self.tokens, item)).collect();
        let order = self.block.order?;
        let keys = split(self.tokens, order + 2, self.block.clause_end(order));
        let (mut outer, mut inner) =
            (vec![self.given("SELECT ")], vec![self.given(" FROM (SELECT ")]);
        for (number, (value, name)) in (1..).zip(&items) {
            let comma = if number > 1 { ", " } else { "" };
            let name = name.replace('"', "\"\"");
            outer.push(self.given(format!("{comma}\"#{number}\" AS \"{name}\"")));
            inner.push(self.given(comma));
            inner.extend(self.plain(*value));
            inner.push(self.given(format!(" AS \"#{number}\"")));
        }
        let mut by = vec![self.given(") ORDER BY ")];
        for (number, key) in (1..).zip(keys) {
            let comma = if number > 1 { ", " } else { "" };
            let (key, direction) = directed(self.tokens, key, self.text);
            match self.item_of(key, &items) {
                Some(item) => by.push(self.given(format!("{comma}\"#{}\"{direction}", item + 1))),
                None => {
                    inner.push(self.given(", "));
                    inner.extend(self.plain(key));
                    inner.push(self.given(format!(" AS \"#o{number}\"")));
                    by.push(self.given(format!("{comma}\"#o{number}\"{direction}")));
                }
            }
        }
        outer.extend(inner);
        outer.push(self.given(" "));
        outer.extend(self.plain((from, self.block.clause_end(from))));
        outer.extend(limited);
        outer.extend(by);
        outer.push(self.given(" "));
        Some(outer)
    }

    /// The item that a key of the order means, by its number or its name.
    fn item_of(&self, key: Key, items: &[(Key, String)]) -> Option<usize> {
        match self.tokens.get(key.0..key.1)? {
            [Token { kind: Kind::Number(number), .. }] => {
                number.parse::<usize>().ok()?.checked_sub(1).filter(|at| *at < items.len())
            }
            [Token { kind: Kind::Word(name) | Kind::Quoted(name), .. }] => {
                items.iter().position(|(_, known)| known.eq_ignore_ascii_case(name))
            }
            _ => None,
        }
    }

    /// `[OFFSET m ROWS] FETCH FIRST n [PERCENT] ROWS {ONLY | WITH TIES}`, if it has PERCENT or
    /// TIES.
    fn fetch(&self) -> Result<Option<Edits>, SqlError> {
        let Some(limit) = self.block.limit else { return Ok(None) };
        let is = |at: usize, word: &str| self.tokens.get(at).is_some_and(|token| token.is(word));
        let (mut at, mut offset) = (limit, None);
        if is(at, "OFFSET") {
            offset = self.tokens.get(at + 1).map(written);
            at += 2 + usize::from(is(at + 2, "ROW") || is(at + 2, "ROWS"));
        }
        if !is(at, "FETCH") || at + 1 >= self.block.end {
            return Ok(None);
        }
        let words = self.tokens.get(at + 2..self.block.end).unwrap_or_default();
        let place = |word: &str| words.iter().position(|token| token.is(word));
        let percent = place("PERCENT");
        let rows = place("ROW").or_else(|| place("ROWS"));
        let with_ties = place("TIES").is_some();
        if percent.is_none() && !with_ties {
            return Ok(None);
        }
        let fetch = self.tokens.get(at).unwrap_or(&NOTHING);
        let Some(rows) = rows else {
            return Err(SqlError::syntax(fetch.start, "FETCH FIRST n PERCENT ROWS is expected"));
        };
        let count: String = words
            .get(..percent.unwrap_or(rows))
            .unwrap_or_default()
            .iter()
            .map(|token| format!(" {}", written(token)))
            .collect();
        let count = if count.is_empty() { "1".to_owned() } else { count };
        let is_distinct = is(self.block.select + 1, "DISTINCT");
        if self.is_operand() || is_distinct && with_ties {
            return Err(refused(
                fetch,
                "FETCH with PERCENT or TIES over UNION or DISTINCT",
                "put the rows into a subquery: SELECT * FROM (...) ORDER BY ... FETCH ...",
            ));
        }
        let body_end = self.block.order.unwrap_or(limit);
        let mut counted = vec![self.given(format!("max(0, {count})"))];
        if percent.is_some() {
            counted = vec![
                self.given(format!("(SELECT max(0, ceil(count(*) * ({count}) / 100)) FROM (")),
            ];
            counted.extend(self.plain((self.block.select, body_end)));
            counted.push(self.given("))"));
        }
        let mut texts = vec![self.given("LIMIT ")];
        match self.block.order.filter(|_| with_ties) {
            None => texts.extend(counted),
            Some(order) => {
                let skipped = offset.clone().unwrap_or_else(|| "0".to_owned());
                texts.push(self.given(format!(
                    "(SELECT count(*) - ({skipped}) FROM (SELECT rank() OVER (ORDER BY "
                )));
                texts.extend(self.keys(order));
                texts.push(self.given(") AS \"#r\" "));
                texts.extend(self.plain((self.list_end(), body_end)));
                texts.push(self.given(format!(") WHERE \"#r\" <= ({skipped}) + ")));
                texts.extend(counted);
                texts.push(self.given(")"));
            }
        }
        texts.push(self.given(offset.map_or(String::new(), |offset| format!(" OFFSET {offset}"))));
        texts.push(self.given(" "));
        let mut edits = Edits::default();
        edits.pieces(self.place(limit), self.end(self.block.end), texts);
        Ok(Some(edits))
    }

    /// The keys of an order, with the items that they mean by their names.
    fn keys(&self, order: usize) -> Vec<Given> {
        let items: Vec<(Key, String)> = split(self.tokens, self.block.select + 1, self.list_end())
            .into_iter()
            .map(|item| named(self.tokens, item))
            .collect();
        let mut texts = Vec::new();
        for key in split(self.tokens, order + 2, self.block.clause_end(order)) {
            let (key, direction) = directed(self.tokens, key, self.text);
            let item = self.item_of(key, &items).and_then(|item| items.get(item));
            texts.push(self.given(if texts.is_empty() { "" } else { ", " }));
            texts.extend(self.plain(item.map_or(key, |(value, _)| *value)));
            texts.push(self.given(direction));
        }
        texts
    }
}

const NOTHING: Token = Token { kind: Kind::End, start: 0, end: 0 };
