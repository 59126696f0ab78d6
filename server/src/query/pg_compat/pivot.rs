//! `source PIVOT (sum(x) FOR c IN ('a' AS a, 'b' AS b))`: a group for each combination of the other
//! columns of the source, with an aggregate for each value.
//!
//! ```text
//!   (SELECT g, sum(CASE WHEN c = 'a' THEN x END) AS "a", ... FROM source GROUP BY g)
//! ```

use super::{
    edits::{Draft, Edits, Given},
    operands,
    oracle::refused,
};
use crate::{
    query::{infer_types, views},
    sql::tokens::{Kind, Token},
    sql_error::{SqlError, state},
};

/// Most PIVOTs in one statement.
const ROUNDS_MAX: usize = 20;
const HINT: &str = "PIVOT (sum(x) FOR c IN ('a' AS a, ...)) over a query that names its columns is";

/// Rewrites each PIVOT.
///
/// # Errors
/// At a form that has no counterpart.
pub(super) fn rewrite(mut draft: Draft<'_>) -> Result<Draft<'_>, SqlError> {
    for _ in 0..ROUNDS_MAX {
        let tokens = &draft.tokens;
        let opens = |at: usize| tokens.get(at + 1).is_some_and(|next| next.is_symbol("("));
        let is_pivot =
            |at: &usize| tokens.get(*at).is_some_and(|token| token.is("PIVOT")) && opens(*at);
        let found = (1..tokens.len()).find(is_pivot);
        let Some(at) = found else { return Ok(draft) };
        let edits = pivot(tokens, at, &draft.done.sql).map_err(|refusal| draft.placed(refusal))?;
        draft = draft.changed(&edits)?;
    }
    Err(SqlError::new(state::TOO_COMPLEX, "too many PIVOTs in one statement"))
}

/// One value of the column, or one aggregate: its tokens and its name.
struct Named<'a> {
    tokens: &'a [Token],
    name: Option<String>,
}

impl<'a> Named<'a> {
    fn of(item: &'a [Token]) -> Self {
        let tokens = infer_types::without_alias(item);
        let name = match item.last().map(|last| &last.kind) {
            Some(Kind::Word(name) | Kind::Quoted(name)) if tokens.len() < item.len() => {
                Some(name.clone())
            }
            _ => None,
        };
        Self { tokens, name }
    }
}

fn pivot(tokens: &[Token], at: usize, text: &str) -> Result<Edits, SqlError> {
    let refusal = || match tokens.get(at) {
        Some(token) => refused(token, "this PIVOT", HINT),
        None => SqlError::new(state::INTERNAL, "a PIVOT without its word"),
    };
    let part = |range: &[Token]| match (range.first(), range.last()) {
        (Some(first), Some(last)) => Edits::default().made(text, first.start, last.end).texts(),
        _ => Vec::new(),
    };
    let close = operands::closing(tokens, at + 1).ok_or_else(refusal)?;
    let inside = tokens.get(at + 2..close).unwrap_or_default();
    let halves = operands::split(inside, |token| token.is("FOR"));
    let [aggregates, of] = &halves[..] else { return Err(refusal()) };
    let [column, word, open, values @ .., last] = of else { return Err(refusal()) };
    if !word.is("IN") || !open.is_symbol("(") || !last.is_symbol(")") {
        return Err(refusal());
    }
    let commas = |token: &Token| token.is_symbol(",");
    let values: Vec<Named<'_>> =
        operands::split(values, commas).into_iter().map(Named::of).collect();
    let aggregates: Vec<Named<'_>> =
        operands::split(aggregates, commas).into_iter().map(Named::of).collect();
    let start = source_start(tokens, at).ok_or_else(refusal)?;
    let source = tokens.get(start..at).unwrap_or_default();
    let used: Vec<String> = aggregates
        .iter()
        .flat_map(|one| one.tokens)
        .map(name_of)
        .chain([name_of(column)])
        .collect();
    let kept: Vec<String> = columns(source)
        .ok_or_else(refusal)?
        .into_iter()
        .filter(|name| !used.contains(&name.to_ascii_lowercase()))
        .map(|name| format!("\"{}\"", name.replace('"', "\"\"")))
        .collect();
    let origin = source.first().map_or(0, |first| first.start);
    let new = |text: String| Given::new(text, origin);
    let mut texts = vec![new(format!("(SELECT {}", kept.join(", ")))];
    let comma = if kept.is_empty() { "" } else { ", " };
    texts.extend(
        value_columns(column, &values, &aggregates, comma, &part, origin).ok_or_else(refusal)?,
    );
    texts.push(new(" FROM ".to_owned()));
    texts.extend(part(source));
    if !kept.is_empty() {
        texts.push(new(format!(" GROUP BY {}", kept.join(", "))));
    }
    texts.push(new(")".to_owned()));
    let mut edits = Edits::default();
    edits.pieces(origin, tokens.get(close).map_or(0, |close| close.end), texts);
    Ok(edits)
}

/// The columns for the values; `None` if an aggregate is not a call.
fn value_columns(
    column: &Token,
    values: &[Named<'_>],
    aggregates: &[Named<'_>],
    mut comma: &'static str,
    part: &dyn Fn(&[Token]) -> Vec<Given>,
    origin: usize,
) -> Option<Vec<Given>> {
    let new = |text: String| Given::new(text, origin);
    let mut texts = Vec::new();
    for value in values {
        let written: String = part(value.tokens).iter().map(|given| given.text.as_str()).collect();
        let value_name = value.name.clone().unwrap_or(written);
        for aggregate in aggregates {
            let [function, open, argument @ .., end] = aggregate.tokens else { return None };
            if !open.is_symbol("(") || !end.is_symbol(")") {
                return None;
            }
            let name = match &aggregate.name {
                Some(name) => format!("{value_name}_{name}"),
                None => value_name.clone(),
            };
            texts.push(new(format!("{comma}{}(CASE WHEN ", name_of(function))));
            texts.extend(part(std::slice::from_ref(column)));
            texts.push(new(" = ".to_owned()));
            texts.extend(part(value.tokens));
            texts.push(new(" THEN ".to_owned()));
            if matches!(argument, [star] if star.is_symbol("*")) {
                texts.push(new("1".to_owned()));
            } else {
                texts.extend(part(argument));
            }
            texts.push(new(format!(" END) AS \"{}\"", name.replace('"', "\"\""))));
            comma = ", ";
        }
    }
    Some(texts)
}

pub(super) fn name_of(token: &Token) -> String {
    match &token.kind {
        Kind::Word(name) | Kind::Quoted(name) => name.to_ascii_lowercase(),
        _ => String::new(),
    }
}

/// Where the source before a PIVOT begins: `(SELECT ...)` or a name, each with or without an alias.
pub(super) fn source_start(tokens: &[Token], at: usize) -> Option<usize> {
    let last = at.checked_sub(1)?;
    let is = |at: usize, symbol: &str| tokens.get(at).is_some_and(|token| token.is_symbol(symbol));
    if is(last, ")") {
        return operands::opening(tokens, last);
    }
    let before = last.checked_sub(1)?;
    if is(before, ")") {
        return operands::opening(tokens, before);
    }
    let is_name = matches!(tokens.get(before)?.kind, Kind::Word(_) | Kind::Quoted(_))
        && !["FROM", "JOIN"].iter().any(|word| tokens.get(before).is_some_and(|one| one.is(word)));
    Some(if is_name { before } else { last })
}

/// The columns of a source; `None` if they are not known.
pub(super) fn columns(source: &[Token]) -> Option<Vec<String>> {
    let first = source.first()?;
    if let Kind::Word(name) | Kind::Quoted(name) = &first.kind {
        let name = super::synonyms::local(name);
        let view = views::of_relation(&name)?;
        return Some(view.columns.iter().map(|(name, _)| (*name).to_owned()).collect());
    }
    let inside = source.get(1..operands::closing(source, 0)?)?;
    if !inside.first()?.is("SELECT") {
        return None;
    }
    operands::items(inside.get(1..)?)
        .into_iter()
        .map(|item| match &item.last()?.kind {
            Kind::Word(name) | Kind::Quoted(name) => Some(name.clone()),
            _ => None,
        })
        .collect()
}
