//! Operands of UNION, INTERSECT, MINUS and EXCEPT that stand in parentheses.
//!
//! ```text
//!   (SELECT a FROM t) UNION ALL (SELECT b FROM u)
//!   SELECT * FROM (SELECT a FROM t) UNION ALL SELECT * FROM (SELECT b FROM u)
//! ```
//!
//! SQLite takes no parentheses there. In both databases they may hold a whole query, with set
//! operations, an order and a limit of its own, and so may the subquery that they become.

use super::{
    edits::{Draft, Edits},
    operands,
};
use crate::{sql::tokens::Token, sql_error::SqlError};

/// # Errors
/// If the text becomes too long.
pub(super) fn rewrite(draft: Draft<'_>) -> Result<Draft<'_>, SqlError> {
    let mut edits = Edits::default();
    let tokens = &draft.tokens;
    let is_set =
        |token: &Token| ["UNION", "INTERSECT", "MINUS", "EXCEPT"].iter().any(|word| token.is(word));
    if tokens.iter().any(is_set) {
        for (open, token) in tokens.iter().enumerate().filter(|(_, token)| token.is_symbol("(")) {
            if is_operand(tokens, open, is_set) {
                edits.insert(token.start, "SELECT * FROM ");
            }
        }
    }
    draft.changed(&edits)
}

/// Whether the parenthesis holds an operand: a query with a set operation before or behind it.
/// Behind `IN`, a name or an operator it belongs to an expression.
fn is_operand(tokens: &[Token], open: usize, is_set: impl Fn(&Token) -> bool) -> bool {
    let inner = tokens.get(open + 1..).unwrap_or_default();
    let first = inner.iter().find(|token| !token.is_symbol("("));
    let holds_query = first.is_some_and(|first| first.is("SELECT") || first.is("WITH"));
    let before = open.checked_sub(1).and_then(|at| tokens.get(at));
    let behind_set = before.is_some_and(|before| {
        let all = before.is("ALL") || before.is("DISTINCT");
        let of_all = open.checked_sub(2).and_then(|at| tokens.get(at)).filter(|_| all);
        is_set(before) || of_all.is_some_and(&is_set)
    });
    let begins = before.is_none_or(|before| before.is_symbol("("));
    let closing = operands::closing(tokens, open);
    let before_set = closing.and_then(|close| tokens.get(close + 1)).is_some_and(is_set);
    holds_query && (behind_set || begins && before_set)
}
