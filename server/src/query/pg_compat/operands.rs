//! Finds where an operand begins and ends among tokens: enough of a grammar of expressions to
//! enclose one in other text.

use crate::sql::tokens::{Kind, Token};

fn is_name(token: Option<&Token>) -> bool {
    matches!(token.map(|token| &token.kind), Some(Kind::Word(_) | Kind::Quoted(_)))
}

fn is_symbol(token: Option<&Token>, symbol: &str) -> bool {
    token.is_some_and(|token| token.is_symbol(symbol))
}

/// The `)` that closes a `(`.
pub fn closing(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.is_symbol("(") {
            depth += 1;
        } else if token.is_symbol(")") {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return Some(at);
            }
        }
    }
    None
}

/// The `]` that closes a `[`.
pub fn closing_bracket(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.is_symbol("[") {
            depth += 1;
        } else if token.is_symbol("]") {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return Some(at);
            }
        }
    }
    None
}

/// The `(` that belongs to a `)`.
pub fn opening(tokens: &[Token], close: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().take(close + 1).rev() {
        if token.is_symbol(")") {
            depth += 1;
        } else if token.is_symbol("(") {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return Some(at);
            }
        }
    }
    None
}

/// Words after which a parenthesis is not that of a call.
const NO_FUNCTIONS: [&str; 24] = [
    "SELECT", "WHERE", "AND", "OR", "NOT", "IN", "ON", "WHEN", "THEN", "ELSE", "BY", "HAVING",
    "FROM", "AS", "CASE", "BETWEEN", "LIKE", "ILIKE", "EXISTS", "DISTINCT", "ALL", "ANY", "PRIOR",
    "USING",
];

/// Whether a word can be the name of a column or function.
pub fn is_operand_word(token: &Token) -> bool {
    match &token.kind {
        Kind::Word(word) => !NO_FUNCTIONS.iter().any(|keyword| word.eq_ignore_ascii_case(keyword)),
        Kind::Quoted(_) => true,
        _ => false,
    }
}

/// The position after the operand that begins at `start`: a literal, a name, a call, a
/// parenthesised expression, a CASE; including its `::type`.
pub fn end(tokens: &[Token], start: usize) -> usize {
    let mut at = start;
    while is_symbol(tokens.get(at), "-")
        || is_symbol(tokens.get(at), "+")
        || is_symbol(tokens.get(at), "~")
    {
        at += 1;
    }
    let Some(first) = tokens.get(at) else { return tokens.len() };
    at = if first.is_symbol("(") {
        closing(tokens, at).map_or(tokens.len(), |close| close + 1)
    } else if first.is("CASE") {
        case_end(tokens, at)
    } else {
        let mut at = at + 1;
        while is_symbol(tokens.get(at), ".") && at + 1 < tokens.len() {
            at += 2;
        }
        if is_name(Some(first)) {
            if is_symbol(tokens.get(at), "(") {
                at = closing(tokens, at).map_or(tokens.len(), |close| close + 1);
            } else if matches!(tokens.get(at).map(|token| &token.kind), Some(Kind::String(_))) {
                // DATE '2026-01-01'
                at += 1;
            }
        }
        at
    };
    while is_symbol(tokens.get(at), "::") {
        at += 1 + type_name(tokens.get(at + 1..).unwrap_or_default());
    }
    at
}

fn case_end(tokens: &[Token], case: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(case) {
        if token.is("CASE") {
            depth += 1;
        } else if token.is("END") {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return at + 1;
            }
        }
    }
    tokens.len()
}

/// The start of the operand that ends before `end`; `None` if there is none.
pub fn start(tokens: &[Token], end: usize) -> Option<usize> {
    let last = end.checked_sub(1)?;
    let token = tokens.get(last)?;
    let mut at = if token.is_symbol(")") {
        let open = opening(tokens, last)?;
        match open.checked_sub(1) {
            Some(name) if tokens.get(name).is_some_and(is_operand_word) => name,
            _ => return Some(open),
        }
    } else if token.is("END") {
        let mut depth = 0_usize;
        return tokens.iter().enumerate().take(end).rev().find_map(|(at, token)| {
            depth += usize::from(token.is("END"));
            depth -= usize::from(token.is("CASE")).min(depth);
            (token.is("CASE") && depth == 0).then_some(at)
        });
    } else {
        let is_operand = match &token.kind {
            Kind::String(_) | Kind::Number(_) | Kind::Quoted(_) => true,
            Kind::Word(_) => is_operand_word(token),
            Kind::Symbol(symbol) => symbol.starts_with('$'),
            Kind::End => false,
        };
        if !is_operand {
            return None;
        }
        last
    };
    while let Some(before) = at.checked_sub(2) {
        if !(is_symbol(tokens.get(at - 1), ".") && is_name(tokens.get(before))) {
            break;
        }
        at = before;
    }
    Some(at)
}

/// The number of tokens in the name of a type: `text`, `pg_catalog.regclass`, `numeric(5, 2)`,
/// `double precision`, `int[]`.
pub fn type_name(tokens: &[Token]) -> usize {
    if !is_name(tokens.first()) {
        return 0;
    }
    let mut count = 1;
    if is_symbol(tokens.get(1), ".") && is_name(tokens.get(2)) {
        count = 3;
    }
    if tokens.get(count).is_some_and(|token| token.is("precision") || token.is("varying")) {
        count += 1;
    }
    if is_symbol(tokens.get(count), "(") {
        count = closing(tokens, count).map_or(tokens.len(), |close| close + 1);
    }
    if tokens.get(count).is_some_and(|token| token.is("WITH") || token.is("WITHOUT"))
        && tokens.get(count + 1).is_some_and(|token| token.is("TIME"))
    {
        count += 3;
    }
    while is_symbol(tokens.get(count), "[") && is_symbol(tokens.get(count + 1), "]") {
        count += 2;
    }
    count.min(tokens.len())
}

/// The tokens up to a `)` whose `(` is before them.
pub fn balanced(tokens: &[Token]) -> &[Token] {
    let mut depth = 0_usize;
    let end = tokens.iter().position(|token| {
        if token.is_symbol("(") {
            depth += 1;
        } else if token.is_symbol(")") {
            let Some(less) = depth.checked_sub(1) else { return true };
            depth = less;
        }
        false
    });
    tokens.get(..end.unwrap_or(tokens.len())).unwrap_or_default()
}

/// Words behind which the list of a SELECT ends.
const AFTER_LIST: [&str; 13] = [
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "MINUS",
    "LIMIT",
    "FETCH",
    "OFFSET",
    "INTO",
];

/// Whether a FROM is that of `NTH_VALUE(x, 2) FROM LAST OVER (...)`.
pub fn is_from_end(tokens: &[Token], at: usize) -> bool {
    let is = |ahead: usize, words: &[&str]| {
        tokens.get(at + ahead).is_some_and(|token| words.iter().any(|word| token.is(word)))
    };
    is(0, &["FROM"]) && is(1, &["FIRST", "LAST"]) && is(2, &["OVER", "IGNORE", "RESPECT"])
}

/// The items of a SELECT, whose tokens these are, from the one behind the word.
pub fn items(tokens: &[Token]) -> Vec<&[Token]> {
    let list = balanced(tokens);
    let is_about_all =
        |token: &&Token| ["DISTINCT", "UNIQUE", "ALL"].iter().any(|word| token.is(word));
    let list = list.get(list.iter().take_while(is_about_all).count()..).unwrap_or_default();
    let mut depth = 0_usize;
    let end = list.iter().enumerate().position(|(at, token)| {
        if token.is_symbol("(") {
            depth += 1;
        } else if token.is_symbol(")") {
            depth = depth.saturating_sub(1);
        }
        // WITHIN GROUP belongs to an aggregate.
        let is_within = || {
            at.checked_sub(1).and_then(|at| list.get(at)).is_some_and(|before| before.is("WITHIN"))
        };
        depth == 0
            && AFTER_LIST.iter().any(|word| token.is(word))
            && !is_within()
            && !is_from_end(list, at)
    });
    split(list.get(..end.unwrap_or(list.len())).unwrap_or_default(), |one| one.is_symbol(","))
}

/// Splits tokens at separators that are outside of parentheses.
pub fn split(tokens: &[Token], is_between: impl Fn(&Token) -> bool) -> Vec<&[Token]> {
    let mut parts = Vec::new();
    let (mut from, mut depth) = (0, 0_usize);
    for (at, token) in tokens.iter().enumerate() {
        if token.is_symbol("(") {
            depth += 1;
        } else if token.is_symbol(")") {
            depth = depth.saturating_sub(1);
        } else if depth == 0 && is_between(token) {
            parts.push(tokens.get(from..at).unwrap_or_default());
            from = at + 1;
        }
    }
    parts.push(tokens.get(from..).unwrap_or_default());
    parts
}
