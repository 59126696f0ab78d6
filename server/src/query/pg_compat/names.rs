//! Words that SQLite takes for its own, and that Oracle lets be names: `SELECT 1 left, d.limit`.
//!
//! Where such a word is a name, it is put in double quotes, before anything else looks at the
//! query. Whether it is one, its neighbours tell: a join has a JOIN behind it, a LIMIT a number.
//!
//! ```text
//!   after a point or AS, or before a point      a name
//!   where an operand begins, without `(`        a name
//!   behind an operand                           a name before `,`, `)`, FROM or the end
//! ```

use super::edits::{Draft, Edits};
use crate::{
    sql::{
        rules::Rules,
        tokens::{Kind, Token},
    },
    sql_error::SqlError,
};

/// Words that mean nothing in a query, but for a name.
const ONLY_NAMES: [&str; 10] = [
    "NOTHING",
    "PRIMARY",
    "FOREIGN",
    "REFERENCES",
    "CONSTRAINT",
    "COMMIT",
    "TRANSACTION",
    "RETURNING",
    "DEFERRABLE",
    "AUTOINCREMENT",
];
/// Words of joins.
const OF_JOINS: [&str; 7] = ["LEFT", "RIGHT", "FULL", "INNER", "OUTER", "CROSS", "NATURAL"];
/// Words that follow a word of a join.
const IN_JOINS: [&str; 7] = ["JOIN", "OUTER", "APPLY", "LEFT", "RIGHT", "FULL", "INNER"];
/// Other words that may be names.
const OTHERS: [&str; 27] = [
    "CASE", "CAST", "INDEXED", "RAISE", "JOIN", "USING", "LIMIT", "OFFSET", "FETCH", "ESCAPE",
    "COLLATE", "EXCEPT", "ISNULL", "NOTNULL", "MATCH", "GLOB", "REGEXP", "OVER", "FILTER",
    "WINDOW", "WITHIN", "KEEP", "NULLS", "RANGE", "GROUPS", "PIVOT", "UNPIVOT",
];
/// Words behind which an operand begins, or a table.
const BEFORE_OPERANDS: [&str; 21] = [
    "SELECT",
    "DISTINCT",
    "UNIQUE",
    "ALL",
    "WHERE",
    "AND",
    "OR",
    "NOT",
    "BY",
    "ON",
    "WHEN",
    "THEN",
    "ELSE",
    "CASE",
    "HAVING",
    "BETWEEN",
    "LIKE",
    "PRIOR",
    "FROM",
    "JOIN",
    "CONNECT_BY_ROOT",
];

/// Puts names in quotes that SQLite would take for its own words.
///
/// # Errors
/// If the text becomes too long.
pub(super) fn rewrite(draft: Draft<'_>, rules: Rules) -> Result<Draft<'_>, SqlError> {
    let mut edits = Edits::default();
    // How many CASEs are open, within each pair of parentheses.
    let mut cases = vec![0_usize];
    for (at, token) in draft.tokens.iter().enumerate() {
        let is_case =
            token.is("CASE") && draft.tokens.get(at + 1).is_some_and(|next| !ends_item(next));
        match (&token.kind, cases.last_mut()) {
            (Kind::Symbol(symbol), _) if symbol == "(" => cases.push(0),
            (Kind::Symbol(symbol), _) if symbol == ")" => drop(cases.pop()),
            (_, Some(open)) if is_case => *open += 1,
            _ => {}
        }
        let of_case = token.is("END") || token.is("WHEN");
        match cases.last_mut() {
            Some(open) if *open > 0 && of_case => {
                *open -= usize::from(token.is("END"));
                continue;
            }
            _ => {}
        }
        if let Kind::Word(word) = &token.kind
            && (of_case || is_name(&draft.tokens, at, token, rules))
        {
            edits.replace(token.start, token.end, format!("\"{word}\""));
        }
    }
    draft.changed(&edits)
}

fn is_name(tokens: &[Token], at: usize, token: &Token, rules: Rules) -> bool {
    let is_one = |words: &[&str]| words.iter().any(|word| token.is(word));
    let of_join = is_one(&OF_JOINS);
    if !of_join && !is_one(&ONLY_NAMES) && !is_one(&OTHERS) {
        return false;
    }
    let before = at.checked_sub(1).and_then(|before| tokens.get(before));
    let next = tokens.get(at + 1);
    let next_is = |words: &[&str]| next.is_some_and(|next| words.iter().any(|word| next.is(word)));
    let is_symbol = |token: Option<&Token>, symbols: &[&str]| {
        token.is_some_and(|token| symbols.iter().any(|symbol| token.is_symbol(symbol)))
    };
    if token.is("CASE") {
        return next.is_none_or(ends_item);
    }
    // `FIRST_VALUE(x IGNORE NULLS)`
    if token.is("NULLS") && before.is_some_and(|word| word.is("IGNORE") || word.is("RESPECT")) {
        return false;
    }
    if is_symbol(before, &["."]) || before.is_some_and(|before| before.is("AS")) {
        return true;
    }
    if is_symbol(next, &["("]) {
        return false;
    }
    if is_symbol(next, &["."]) || is_one(&ONLY_NAMES) {
        return true;
    }
    if of_join {
        let ends_join = token.is("OUTER")
            && before.is_some_and(|before| OF_JOINS.iter().any(|word| before.is(word)));
        return !ends_join && !next_is(&IN_JOINS);
    }
    let begins_operand = match before.map(|before| &before.kind) {
        None => true,
        Some(Kind::Symbol(symbol)) => symbol != ")" && symbol != "]" && !symbol.starts_with('$'),
        Some(Kind::Word(_)) => {
            let of_limit = at.checked_sub(2).and_then(|at| tokens.get(at));
            before.is_some_and(|before| BEFORE_OPERANDS.iter().any(|word| before.is(word)))
                && !of_limit.is_some_and(|limit| limit.is("LIMIT"))
        }
        _ => false,
    };
    let of_nulls = |before: &Token| before.is("IGNORE") || before.is("RESPECT");
    if token.is("NULLS") && before.is_some_and(of_nulls) {
        return false;
    }
    // `OVER (RANGE BETWEEN ...)`, `x IS NOT MATCH`
    let goes_on = next_is(&["BETWEEN", "UNBOUNDED", "CURRENT", "SELECT"])
        || before.is_some_and(|before| before.is("NOT"));
    if begins_operand {
        return !goes_on;
    }
    // In PostgreSQL these two follow what they ask about.
    let asks = rules == Rules::PostgreSql && (token.is("ISNULL") || token.is("NOTNULL"));
    !asks && next.is_none_or(ends_item)
}

/// Whether a token follows an item of a list.
fn ends_item(token: &Token) -> bool {
    token.is_symbol(",") || token.is_symbol(")") || token.is("FROM")
}
