//! `DECODE(of, search, result, ..., otherwise)` as a CASE, so that only the result that is chosen
//! is computed: `DECODE(total_mb, 0, 0, free_mb / total_mb)` does not divide by zero.

use super::{
    edits::{Draft, Edits, Given},
    operands,
};
use crate::{sql::tokens::Token, sql_error::SqlError};

/// Most DECODEs within each other.
const ROUNDS_MAX: usize = 50;

/// Rewrites each DECODE; those within others come in later rounds.
///
/// # Errors
/// If the text becomes too long.
pub(super) fn rewrite(mut draft: Draft<'_>) -> Result<Draft<'_>, SqlError> {
    for _ in 0..ROUNDS_MAX {
        let mut edits = Edits::default();
        let mut at = 0;
        while at < draft.tokens.len() {
            at = call(&draft.tokens, at, &draft.done.sql, &mut edits).unwrap_or(at + 1);
        }
        if edits.is_empty() {
            break;
        }
        draft = draft.changed(&edits)?;
    }
    Ok(draft)
}

/// Rewrites the call at a token, if there is one; the position after it.
fn call(tokens: &[Token], at: usize, text: &str, edits: &mut Edits) -> Option<usize> {
    let name = tokens.get(at).filter(|name| name.is("DECODE"))?;
    tokens.get(at + 1).filter(|open| open.is_symbol("("))?;
    let close = operands::closing(tokens, at + 1)?;
    let inside = tokens.get(at + 2..close)?;
    let arguments = operands::split(inside, |token| token.is_symbol(","));
    if arguments.len() < 3 || arguments.iter().any(|argument| argument.is_empty()) {
        // The function says what is missing.
        return None;
    }
    let pieces = |argument: &[Token]| -> Option<Vec<Given>> {
        let (first, last) = (argument.first()?, argument.last()?);
        Some(Edits::default().made(text, first.start, last.end).texts())
    };
    let new = |text: &str| Given::new(text, name.start);
    let mut texts = vec![new("CASE plinth_match(")];
    texts.extend(pieces(arguments.first()?)?);
    let pairs = arguments.get(1..)?.chunks_exact(2);
    let otherwise = pairs.remainder().first();
    for pair in pairs.clone() {
        texts.push(new(", "));
        texts.extend(pieces(pair.first()?)?);
    }
    texts.push(new(")"));
    for (number, pair) in (1..).zip(pairs) {
        texts.push(new(&format!(" WHEN {number} THEN ")));
        texts.extend(pieces(pair.get(1)?)?);
    }
    if let Some(otherwise) = otherwise {
        texts.push(new(" ELSE "));
        texts.extend(pieces(otherwise)?);
    }
    texts.push(new(" END"));
    edits.pieces(name.start, tokens.get(close)?.end, texts);
    Some(close + 1)
}
