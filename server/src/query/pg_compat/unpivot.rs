//! `source UNPIVOT (v FOR n IN (a, b AS 'bee'))`: a row for each of several columns.
//!
//! ```text
//!   (SELECT g, CASE "#k" WHEN 1 THEN 'A' WHEN 2 THEN 'bee' END AS "n",
//!           CASE "#k" WHEN 1 THEN a WHEN 2 THEN b END AS "v"
//!      FROM source CROSS JOIN (SELECT 1 AS "#k" UNION ALL SELECT 2)
//!     WHERE CASE "#k" WHEN 1 THEN a WHEN 2 THEN b END IS NOT NULL)
//! ```
//!
//! `g` stands for the other columns of the source. Several columns may become several, `((v, w) FOR
//! n IN ((a, b), (c, d)))`. A row whose values are all NULL is left out unless INCLUDE NULLS is
//! said.

use super::{
    edits::{Draft, Edits, Given},
    operands,
    oracle::refused,
    pivot::{columns, name_of, source_start},
};
use crate::{
    sql::tokens::{Kind, Token},
    sql_error::{SqlError, state},
};

/// Most UNPIVOTs in one statement.
const ROUNDS_MAX: usize = 20;
const HINT: &str = "UNPIVOT (v FOR n IN (a, b AS 'b', ...)) over a query that names its columns is";

/// Rewrites each UNPIVOT.
///
/// # Errors
/// At a form that has no counterpart.
pub(super) fn rewrite(mut draft: Draft<'_>) -> Result<Draft<'_>, SqlError> {
    for _ in 0..ROUNDS_MAX {
        let tokens = &draft.tokens;
        let is_unpivot = |at: &usize| {
            let next = tokens.get(*at + 1);
            let opens = next.is_some_and(|next| {
                next.is_symbol("(") || next.is("INCLUDE") || next.is("EXCLUDE")
            });
            opens && tokens.get(*at).is_some_and(|token| token.is("UNPIVOT"))
        };
        let Some(at) = (1..tokens.len()).find(is_unpivot) else { return Ok(draft) };
        let refusal = || match tokens.get(at) {
            Some(token) => refused(token, "this UNPIVOT", HINT),
            None => SqlError::new(state::INTERNAL, "an UNPIVOT without its word"),
        };
        let edits = unpivot(tokens, at, &draft.done.sql)
            .ok_or_else(refusal)
            .map_err(|refusal| draft.placed(refusal))?;
        draft = draft.changed(&edits)?;
    }
    Err(SqlError::new(state::TOO_COMPLEX, "too many UNPIVOTs in one statement"))
}

/// The names in `a`, or in `(a, b)`.
fn names(tokens: &[Token]) -> Option<Vec<&Token>> {
    let inside = match tokens {
        [open, inside @ .., close] if open.is_symbol("(") && close.is_symbol(")") => inside,
        one => one,
    };
    operands::split(inside, |token| token.is_symbol(","))
        .into_iter()
        .map(|one| match one {
            [name] if matches!(name.kind, Kind::Word(_) | Kind::Quoted(_)) => Some(name),
            _ => None,
        })
        .collect()
}

/// A name as an identifier in quotes: without quotes, SQLite finds it in any case.
fn quoted(name: &Token) -> String {
    match &name.kind {
        Kind::Word(name) | Kind::Quoted(name) => format!("\"{}\"", name.replace('"', "\"\"")),
        _ => String::new(),
    }
}

/// The columns of one place of the list, and the value that stands for them, as a literal.
type Place<'a> = (Vec<&'a Token>, String);

fn place(tokens: &[Token]) -> Option<Place<'_>> {
    let parts = operands::split(tokens, |token| token.is("AS"));
    let columns = names(parts.first()?)?;
    let value = match parts.get(1) {
        Some([Token { kind: Kind::String(text), .. }]) => {
            format!("'{}'", text.replace('\'', "''"))
        }
        Some([Token { kind: Kind::Number(digits), .. }]) => digits.clone(),
        Some(_) => return None,
        // Their names, as Oracle keeps them.
        None => {
            let kept = columns.iter().map(|column| match &column.kind {
                Kind::Quoted(name) => name.clone(),
                _ => name_of(column).to_uppercase(),
            });
            format!("'{}'", kept.collect::<Vec<_>>().join("_").replace('\'', "''"))
        }
    };
    Some((columns, value))
}

fn unpivot(tokens: &[Token], at: usize, text: &str) -> Option<Edits> {
    let said = tokens.get(at + 1).filter(|next| !next.is_symbol("("));
    let includes_nulls = said.is_some_and(|said| said.is("INCLUDE"));
    let open = at + 1 + if said.is_some() { 2 } else { 0 };
    tokens.get(open).filter(|open| open.is_symbol("("))?;
    let close = operands::closing(tokens, open)?;
    let inside = tokens.get(open + 1..close)?;
    let halves = operands::split(inside, |token| token.is("FOR"));
    let [values, [name, word, list_open, list @ .., list_close]] = &halves[..] else { return None };
    if !(word.is("IN") && list_open.is_symbol("(") && list_close.is_symbol(")")) {
        return None;
    }
    let values = names(values)?;
    let places: Vec<Place<'_>> = operands::split(list, |token| token.is_symbol(","))
        .into_iter()
        .map(place)
        .collect::<Option<_>>()?;
    if places.iter().any(|(columns, _)| columns.len() != values.len()) {
        return None;
    }
    let start = source_start(tokens, at)?;
    let source = tokens.get(start..at)?;
    let used: Vec<String> =
        places.iter().flat_map(|(columns, _)| columns).map(|column| name_of(column)).collect();
    let kept: Vec<String> = columns(source)?
        .into_iter()
        .filter(|name| !used.contains(&name.to_ascii_lowercase()))
        .map(|name| format!("\"{}\"", name.replace('"', "\"\"")))
        .collect();
    let case = |of: &dyn Fn(&Place<'_>) -> String| {
        let whens: Vec<String> = (1..)
            .zip(&places)
            .map(|(number, place)| format!("WHEN {number} THEN {}", of(place)))
            .collect();
        format!("CASE \"#k\" {} END", whens.join(" "))
    };
    let of_value = |value: usize| {
        case(&|(columns, _)| columns.get(value).map_or(String::new(), |column| quoted(column)))
    };
    let mut items = kept;
    items.push(format!("{} AS {}", case(&|(_, literal)| literal.clone()), quoted(name)));
    for (number, value) in values.iter().enumerate() {
        items.push(format!("{} AS {}", of_value(number), quoted(value)));
    }
    let rows: Vec<String> = (1..=places.len())
        .map(|number| format!("SELECT {number}{}", if number == 1 { " AS \"#k\"" } else { "" }))
        .collect();
    let origin = source.first()?.start;
    let new = |text: String| Given::new(text, origin);
    let mut texts = vec![new(format!("(SELECT {} FROM ", items.join(", ")))];
    texts.extend(Edits::default().made(text, origin, source.last()?.end).texts());
    texts.push(new(format!(" CROSS JOIN ({})", rows.join(" UNION ALL "))));
    if !includes_nulls {
        let present: Vec<String> =
            (0..values.len()).map(|value| format!("{} IS NOT NULL", of_value(value))).collect();
        texts.push(new(format!(" WHERE {}", present.join(" OR "))));
    }
    texts.push(new(")".to_owned()));
    let mut edits = Edits::default();
    edits.pieces(origin, tokens.get(close)?.end, texts);
    Some(edits)
}
