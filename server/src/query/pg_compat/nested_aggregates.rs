//! Aggregates of aggregates, as Oracle has them: one row over the groups.
//!
//! ```text
//!   SELECT MAX(SUM(x)) AS m FROM t GROUP BY g HAVING COUNT(*) > 1
//!   SELECT MAX("#n1") AS m FROM
//!       (SELECT SUM(x) AS "#n1", g AS "#k1" FROM t GROUP BY g HAVING COUNT(*) > 1)
//! ```
//!
//! The inner query gives for each group the inner aggregates and the expressions that are grouped
//! by; the outer aggregates may use both. HAVING is about the groups. The result is one row, so an
//! ORDER BY is left out. An aggregate with OVER is not one of these: windows are over the groups
//! anyway.

use super::{
    edits::{Draft, Edits, Given},
    grouping::{Key, groupings, is_aggregate, is_same, split, top_level},
    operands,
    oracle::{Block, blocks, refused},
};
use crate::{
    sql::tokens::{Kind, Token},
    sql_error::{SqlError, state},
};

/// Most blocks with such aggregates in one statement.
const ROUNDS_MAX: usize = 20;

/// Rewrites the blocks that have aggregates of aggregates.
///
/// # Errors
/// If such a block has no GROUP BY, or something that belongs to one group beside them.
pub(super) fn rewrite(mut draft: Draft<'_>) -> Result<Draft<'_>, SqlError> {
    for _ in 0..ROUNDS_MAX {
        let tokens = &draft.tokens;
        let found = blocks(tokens).into_iter().rev().find_map(|block| Nested::of(tokens, block));
        let Some(nested) = found else { return Ok(draft) };
        let edits = nested.edits(&draft.done.sql).map_err(|refusal| draft.placed(refusal))?;
        draft = draft.changed(&edits)?;
    }
    Err(SqlError::new(state::TOO_COMPLEX, "too many aggregates of aggregates in one statement"))
}

struct Nested<'a> {
    tokens: &'a [Token],
    block: Block,
    /// The calls of the outer aggregates, with their WITHIN GROUP.
    outer: Vec<Key>,
    /// The calls of the aggregates in them.
    inner: Vec<Key>,
}

impl<'a> Nested<'a> {
    /// `None` if the list of a block has no such aggregate.
    fn of(tokens: &'a [Token], block: Block) -> Option<Self> {
        let (mut outer, mut inner) = (Vec::new(), Vec::new());
        let end = block.clause_end(block.select);
        let mut at = block.select + 1;
        while at < end {
            let Some(call) = aggregate(tokens, at) else {
                at = after_query(tokens, at).unwrap_or(at + 1);
                continue;
            };
            let within = aggregates(tokens, (call.0 + 1, call.1));
            if within.is_empty() {
                at = call.1;
                continue;
            }
            outer.push(call);
            inner.extend(within);
            at = call.1;
        }
        (!outer.is_empty()).then_some(Self { tokens, block, outer, inner })
    }

    fn edits(&self, text: &str) -> Result<Edits, SqlError> {
        let (tokens, block) = (self.tokens, &self.block);
        let Some(first) = self.outer.first().and_then(|call| tokens.get(call.0)) else {
            return Ok(Edits::default());
        };
        let group = block.group.filter(|at| tokens.get(*at).is_some_and(|word| word.is("GROUP")));
        let (Some(group), Some(from)) = (group, block.from) else {
            return Err(refused(
                first,
                "an aggregate of an aggregate without GROUP BY",
                "GROUP BY says which groups the inner one is of",
            ));
        };
        for call in &self.inner {
            if let Some(third) = aggregates(tokens, (call.0 + 1, call.1)).first()
                && let Some(third) = tokens.get(third.0)
            {
                let hint = "an aggregate may be within one other";
                return Err(refused(third, "an aggregate within two others", hint));
            }
        }
        self.alone()?;
        let place = |at: usize| tokens.get(at).map_or(0, |token| token.start);
        let end =
            |at: usize| at.checked_sub(1).and_then(|at| tokens.get(at)).map_or(0, |one| one.end);
        let plain = |key: Key| Edits::default().made(text, place(key.0), end(key.1)).texts();
        let origin = place(block.select);
        let new = |text: String| Given::new(text, origin);
        let keys = self.keys(group);
        let list = (block.select, block.clause_end(block.select));
        let mut outside = Edits::default();
        for call in &self.outer {
            let mut at = call.0 + 2;
            while at < call.1 {
                if let Some(number) = self.inner.iter().position(|inner| inner.0 == at) {
                    let inner = self.inner.get(number).map_or(at + 1, |inner| inner.1);
                    outside.replace(place(at), end(inner), format!("\"#n{}\"", number + 1));
                    at = inner;
                    continue;
                }
                let is_key = |key: &Key| is_same(tokens, *key, (at, at + key.1 - key.0));
                match keys.iter().position(is_key) {
                    Some(number) => {
                        let after = at + keys.get(number).map_or(1, |key| key.1 - key.0);
                        outside.replace(place(at), end(after), format!("\"#k{}\"", number + 1));
                        at = after;
                    }
                    None => at += 1,
                }
            }
        }
        let mut texts = outside.made(text, place(list.0), end(list.1)).texts();
        let mut before = " FROM (SELECT ";
        for (letter, parts) in [('n', &self.inner), ('k', &keys)] {
            for (number, part) in (1..).zip(parts) {
                texts.push(new(before.to_owned()));
                texts.extend(plain(*part));
                texts.push(new(format!(" AS \"#{letter}{number}\"")));
                before = ", ";
            }
        }
        texts.push(new(" ".to_owned()));
        texts.extend(plain((from, block.order.or(block.limit).unwrap_or(block.end))));
        texts.push(new(") ".to_owned()));
        let mut edits = Edits::default();
        edits.pieces(origin, end(block.limit.unwrap_or(block.end)), texts);
        Ok(edits)
    }

    /// Refuses items beside the aggregates that differ from group to group.
    fn alone(&self) -> Result<(), SqlError> {
        let tokens = self.tokens;
        let list = (self.block.select + 1, self.block.clause_end(self.block.select));
        for item in split(tokens, list.0, list.1) {
            if self.outer.iter().any(|call| (item.0..item.1).contains(&call.0)) {
                continue;
            }
            let all = tokens.get(item.0..item.1).unwrap_or_default();
            let value = crate::query::infer_types::without_alias(all);
            let is_name = |token: &&Token| {
                matches!(token.kind, Kind::Word(_) | Kind::Quoted(_))
                    && !["DISTINCT", "NULL", "SYSDATE", "USER"].iter().any(|word| token.is(word))
            };
            if let Some(name) = value.iter().find(is_name) {
                return Err(refused(
                    name,
                    "what belongs to one group, beside an aggregate of an aggregate,",
                    "such a query has one row over all groups; take the groups in a subquery",
                ));
            }
        }
        Ok(())
    }

    /// The expressions that the block groups by.
    fn keys(&self, group: usize) -> Vec<Key> {
        let clause_end = self.block.clause_end(group);
        let end = top_level(self.tokens, group, clause_end, "HAVING").unwrap_or(clause_end);
        let mut keys: Vec<Key> = Vec::new();
        for element in split(self.tokens, group + 2, end) {
            for key in groupings(self.tokens, element, 0).into_iter().flatten() {
                if !keys.iter().any(|known| is_same(self.tokens, *known, key)) {
                    keys.push(key);
                }
            }
        }
        keys
    }
}

/// The call of an aggregate at a token, with WITHIN GROUP and KEEP; `None` if there is none, or if
/// it has a window.
fn aggregate(tokens: &[Token], at: usize) -> Option<Key> {
    if !is_aggregate(tokens, at) {
        return None;
    }
    let close = operands::closing(tokens, at + 1)?;
    let inside = tokens.get(at + 2..close)?;
    let is_extreme = tokens.get(at).is_some_and(|name| name.is("MAX") || name.is("MIN"));
    if is_extreme && operands::split(inside, |token| token.is_symbol(",")).len() > 1 {
        return None;
    }
    let mut end = close + 1;
    loop {
        let word = tokens.get(end);
        let open = match word {
            Some(word) if word.is("WITHIN") => end + 2,
            Some(word) if word.is("KEEP") || word.is("FILTER") => end + 1,
            Some(word) if word.is("OVER") => return None,
            _ => return Some((at, end)),
        };
        tokens.get(open).filter(|open| open.is_symbol("("))?;
        end = operands::closing(tokens, open)? + 1;
    }
}

/// The aggregates in a range, outside of each other and of subqueries.
fn aggregates(tokens: &[Token], (from, to): Key) -> Vec<Key> {
    let mut found = Vec::new();
    let mut at = from;
    while at < to {
        at = match aggregate(tokens, at) {
            Some(call) => {
                found.push(call);
                call.1
            }
            None => after_query(tokens, at).unwrap_or(at + 1),
        };
    }
    found
}

/// The position after a subquery that begins at a token.
fn after_query(tokens: &[Token], at: usize) -> Option<usize> {
    tokens.get(at).filter(|open| open.is_symbol("("))?;
    tokens.get(at + 1).filter(|word| word.is("SELECT") || word.is("WITH"))?;
    operands::closing(tokens, at).map(|close| close + 1)
}
