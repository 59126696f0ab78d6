//! UNION, INTERSECT, MINUS: operands in parentheses, and which operator binds first.
//!
//! SQLite takes the operators from the left, as Oracle does, and knows no parentheses around
//! operands. In PostgreSQL, INTERSECT binds before the others.
//!
//! ```text
//!   (SELECT 1) UNION (SELECT 2 MINUS SELECT 3)
//!   SELECT * FROM (SELECT 1) UNION SELECT * FROM (SELECT 2 MINUS SELECT 3)
//!
//!   SELECT 1 UNION SELECT 2 INTERSECT SELECT 3                     by PostgreSQL's rules
//!   SELECT 1 UNION SELECT * FROM (SELECT 2 INTERSECT SELECT 3)
//! ```

use super::{
    edits::{Draft, Edits},
    operands,
    oracle::refused,
};
use crate::{
    sql::{rules::Rules, tokens::Token},
    sql_error::SqlError,
};

const OPERATORS: [&str; 4] = ["UNION", "INTERSECT", "EXCEPT", "MINUS"];
/// Words that end the last operand.
const AFTER_OPERANDS: [&str; 4] = ["ORDER", "LIMIT", "OFFSET", "FETCH"];
/// More parentheses than one query may have within each other.
const DEPTH_MAX: usize = 250;
const OPEN: &str = "SELECT * FROM (";

/// Rewrites set operations.
///
/// # Errors
/// At an ALL that SQLite does not have.
pub(super) fn rewrite(draft: Draft<'_>, rules: Rules) -> Result<Draft<'_>, SqlError> {
    if !draft.tokens.iter().any(is_operator) && !draft.tokens.first().is_some_and(opens) {
        return Ok(draft);
    }
    let mut edits = Edits::default();
    for (at, token) in draft.tokens.iter().enumerate() {
        let all = draft.tokens.get(at + 1).filter(|next| next.is("ALL"));
        if let Some(all) = all.filter(|_| is_operator(token) && !token.is("UNION")) {
            let hint = "without ALL, equal rows count once";
            let what = "ALL behind INTERSECT, EXCEPT and MINUS";
            return Err(draft.placed(refused(all, what, hint)));
        }
        if opens(token) {
            parentheses(&draft.tokens, at, &mut edits);
        }
    }
    let draft = draft.changed(&edits)?;
    if rules == Rules::Oracle {
        return Ok(draft);
    }
    let mut edits = Edits::default();
    for at in 0..draft.tokens.len() {
        intersection(&draft.tokens, at, &mut edits);
    }
    draft.changed(&edits)
}

fn opens(token: &Token) -> bool {
    token.is_symbol("(")
}

fn is_operator(token: &Token) -> bool {
    OPERATORS.iter().any(|word| token.is(word))
}

/// Whether the token before a position ends an operator: `UNION`, `UNION ALL`, `UNION DISTINCT`.
fn follows_operator(tokens: &[Token], at: usize) -> bool {
    let back = |count: usize| at.checked_sub(count).and_then(|at| tokens.get(at));
    let is_kind = |token: &Token| token.is("ALL") || token.is("DISTINCT");
    match back(1) {
        Some(token) if is_operator(token) => true,
        Some(token) if is_kind(token) => back(2).is_some_and(is_operator),
        _ => false,
    }
}

/// A query in parentheses that is an operand, or the whole statement.
fn parentheses(tokens: &[Token], at: usize, edits: &mut Edits) {
    let is_query = |token: &Token| token.is("SELECT") || token.is("WITH") || token.is("VALUES");
    let inner = tokens.iter().skip(at).take(DEPTH_MAX).find(|token| !opens(token));
    if !inner.is_some_and(is_query) {
        return;
    }
    let (Some(open), Some(close)) = (tokens.get(at), operands::closing(tokens, at)) else { return };
    let before = at.checked_sub(1).and_then(|before| tokens.get(before));
    let precedes = tokens.get(close + 1).is_some_and(is_operator);
    // Behind WITH, or within parentheses.
    let may_begin = before.is_some_and(|before| opens(before) || before.is_symbol(")"));
    let begins = before.is_none() || may_begin && precedes;
    if begins || follows_operator(tokens, at) {
        edits.insert(open.start, "SELECT * FROM ");
    }
}

/// An INTERSECT that is not the first operator of its query, by PostgreSQL's rules: encloses it
/// with its operands.
fn intersection(tokens: &[Token], at: usize, edits: &mut Edits) {
    let Some(first) = tokens.get(at).filter(|token| token.is("INTERSECT")) else { return };
    // The start of its left operand, back to an operator or the parenthesis around the query.
    let mut depth = 0_usize;
    let mut start = None;
    for place in (0..at).rev() {
        let Some(token) = tokens.get(place) else { return };
        if token.is_symbol(")") {
            depth += 1;
        } else if opens(token) {
            let Some(less) = depth.checked_sub(1) else { break };
            depth = less;
        } else if depth == 0 && is_operator(token) {
            if token.is("INTERSECT") {
                // It belongs to the one before it.
                return;
            }
            let kind =
                tokens.get(place + 1).is_some_and(|next| next.is("ALL") || next.is("DISTINCT"));
            start = Some(place + 1 + usize::from(kind));
            break;
        }
    }
    let Some(start) = start.and_then(|start| tokens.get(start)) else { return };
    let rest = operands::balanced(tokens.get(at + 1..).unwrap_or_default());
    let mut depth = 0_usize;
    let mut last = first;
    for token in rest {
        depth += usize::from(opens(token));
        let ends = is_operator(token) && !token.is("INTERSECT")
            || AFTER_OPERANDS.iter().any(|word| token.is(word));
        if depth == 0 && ends {
            break;
        }
        depth -= usize::from(token.is_symbol(")")).min(depth);
        last = token;
    }
    edits.insert(start.start, OPEN);
    edits.close(last.end, ")");
}
