//! Where NULLs are in an order: last when it ascends, first when it descends, as in Oracle and
//! PostgreSQL. SQLite takes NULL for the smallest value.

use super::edits::Edits;
use crate::sql::tokens::Token;

/// Words that end an ORDER BY.
const ENDS: [&str; 11] = [
    "LIMIT",
    "OFFSET",
    "FETCH",
    "ROWS",
    "RANGE",
    "GROUPS",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "MINUS",
    "FOR",
];

/// Completes each `ORDER BY` whose items do not say where NULLs are.
pub(super) fn rewrite(tokens: &[Token], edits: &mut Edits) {
    for (at, token) in tokens.iter().enumerate() {
        if token.is("ORDER") && tokens.get(at + 1).is_some_and(|next| next.is("BY")) {
            order(tokens, at + 2, edits);
        }
    }
}

/// One list of items, which begins at `from`.
fn order(tokens: &[Token], from: usize, edits: &mut Edits) {
    let mut depth = 0_usize;
    let (mut descends, mut says) = (false, false);
    for at in from..=tokens.len() {
        let token = tokens.get(at);
        let is = |word: &str| token.is_some_and(|token| token.is(word));
        let is_symbol = |symbol: &str| token.is_some_and(|token| token.is_symbol(symbol));
        if is_symbol("(") {
            depth += 1;
        }
        if depth > 0 {
            depth -= usize::from(is_symbol(")"));
            continue;
        }
        let ends = token.is_none() || is_symbol(")") || ENDS.iter().any(|word| is(word));
        if ends || is_symbol(",") {
            if let Some(last) = tokens.get(at - 1).filter(|_| at > from && !says) {
                let nulls = if descends { " NULLS FIRST" } else { " NULLS LAST" };
                edits.replace(last.end, last.end, nulls);
            }
            (descends, says) = (false, false);
        }
        if ends {
            return;
        }
        descends |= is("DESC");
        says |= is("NULLS");
    }
}
