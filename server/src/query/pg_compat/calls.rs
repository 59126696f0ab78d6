//! Calls whose arguments Oracle separates by words: EXTRACT, JSON_OBJECT, KEEP, WITHIN GROUP,
//! RATIO_TO_REPORT, DISTINCT and IGNORE NULLS in windows. Each becomes a call with arguments, or an
//! expression.

use super::{
    edits::{Draft, Edits, Given},
    operands,
    oracle::refused,
};
use crate::{
    sql::tokens::{Kind, Token},
    sql_error::SqlError,
};

/// Most calls within each other.
const ROUNDS_MAX: usize = 50;
/// The aggregates that KEEP follows.
const KEPT: [&str; 5] = ["MAX", "MIN", "SUM", "AVG", "COUNT"];
/// The functions whose value is that of a row of the window.
const BY_ROW: [&str; 5] = ["FIRST_VALUE", "LAST_VALUE", "NTH_VALUE", "LAG", "LEAD"];

/// Rewrites the calls; those within others come in later rounds.
///
/// # Errors
/// At a form that has no counterpart.
pub(super) fn rewrite(mut draft: Draft<'_>) -> Result<Draft<'_>, SqlError> {
    for _ in 0..ROUNDS_MAX {
        let mut edits = Edits::default();
        let mut at = 0;
        while at < draft.tokens.len() {
            let found = Call::at(&draft.tokens, at, &draft.done.sql);
            let after = found.map_or(Ok(None), |call| call.rewrite(&mut edits));
            at = after.map_err(|refusal| draft.placed(refusal))?.unwrap_or(at + 1);
        }
        if edits.is_empty() {
            break;
        }
        draft = draft.changed(&edits)?;
    }
    Ok(draft)
}

struct Call<'a> {
    tokens: &'a [Token],
    text: &'a str,
    at: usize,
    name: &'a Token,
    close: usize,
}

impl<'a> Call<'a> {
    fn at(tokens: &'a [Token], at: usize, text: &'a str) -> Option<Self> {
        let name = tokens.get(at).filter(|name| matches!(name.kind, Kind::Word(_)))?;
        tokens.get(at + 1).filter(|open| open.is_symbol("("))?;
        let close = operands::closing(tokens, at + 1)?;
        Some(Self { tokens, text, at, name, close })
    }

    /// Rewrites the call if it is such a one; the position after it.
    fn rewrite(&self, edits: &mut Edits) -> Result<Option<usize>, SqlError> {
        let behind = |count: usize, word: &str| {
            self.tokens.get(self.close + count).is_some_and(|token| token.is(word))
        };
        let is = |name: &str| self.name.is(name);
        if is("EXTRACT") {
            return Ok(self.extract(edits));
        }
        if is("JSON_OBJECT") || is("JSON_OBJECTAGG") {
            return Ok(self.json_object(edits));
        }
        if is("JSON_ARRAYAGG") {
            edits.replace(self.name.start, self.name.end, "json_group_array");
            return Ok(Some(self.at + 2));
        }
        if ["TO_NUMBER", "TO_DATE", "TO_TIMESTAMP"].iter().any(|name| is(name)) {
            return Ok(self.with_default(edits));
        }
        if behind(1, "KEEP") && KEPT.iter().any(|name| is(name)) {
            return self.keep(edits).map(Some);
        }
        if (is("PERCENTILE_CONT") || is("PERCENTILE_DISC")) && behind(1, "WITHIN") {
            return self.percentile(edits).map(Some);
        }
        if is("RATIO_TO_REPORT") && behind(1, "OVER") {
            return Ok(self.ratio(edits));
        }
        if behind(1, "OVER") && KEPT.iter().any(|name| is(name)) {
            return Ok(self.distinct(edits));
        }
        if is("GROUP_CONCAT") && behind(1, "OVER") {
            return Ok(self.list(edits));
        }
        if BY_ROW.iter().any(|name| is(name)) {
            return self.by_row(edits);
        }
        Ok(None)
    }

    fn inside(&self) -> &'a [Token] {
        self.tokens.get(self.at + 2..self.close).unwrap_or_default()
    }

    /// A part of the query as it is.
    fn part(&self, tokens: &[Token]) -> Vec<Given> {
        match (tokens.first(), tokens.last()) {
            (Some(first), Some(last)) => {
                Edits::default().made(self.text, first.start, last.end).texts()
            }
            _ => Vec::new(),
        }
    }

    fn written(&self, text: impl Into<String>) -> Given {
        Given::new(text, self.name.start)
    }

    /// Replaces the call and what follows it, before token `end`.
    fn replace(&self, end: usize, texts: Vec<Given>, edits: &mut Edits) -> usize {
        let last = end.checked_sub(1).and_then(|last| self.tokens.get(last));
        edits.pieces(self.name.start, last.map_or(self.name.end, |last| last.end), texts);
        end
    }

    /// `EXTRACT(HOUR FROM t)`
    fn extract(&self, edits: &mut Edits) -> Option<usize> {
        let parts = operands::split(self.inside(), |token| token.is("FROM"));
        let ([field], of) = (parts.first()?, parts.get(1)?) else { return None };
        let Kind::Word(field) = &field.kind else { return None };
        let mut texts = vec![self.written(format!("plinth_extract('{field}', "))];
        texts.extend(self.part(of));
        texts.push(self.written(")"));
        Some(self.replace(self.close + 1, texts, edits))
    }

    /// `JSON_OBJECT([KEY] k VALUE v, ...)`, `JSON_OBJECT(k : v)`; pairs between commas stay as they
    /// are.
    fn json_object(&self, edits: &mut Edits) -> Option<usize> {
        let separates = |token: &Token| token.is("VALUE") || token.is("IS") || token.is_symbol(":");
        let pairs = operands::split(self.inside(), |token| token.is_symbol(","));
        if !pairs.iter().any(|pair| operands::split(pair, separates).len() == 2) {
            return None;
        }
        let of_group = self.name.is("JSON_OBJECTAGG");
        let name = if of_group { "json_group_object(" } else { "json_object(" };
        let mut texts = vec![self.written(name)];
        for (number, pair) in pairs.iter().enumerate() {
            let parts = operands::split(pair, separates);
            let [key, value] = &parts[..] else { return None };
            let key = if key.len() > 1 && key.first().is_some_and(|first| first.is("KEY")) {
                key.get(1..).unwrap_or_default()
            } else {
                key
            };
            // NULL ON NULL, RETURNING ..., FORMAT JSON come last.
            let ends = |token: &Token| {
                ["ABSENT", "RETURNING", "FORMAT", "STRICT", "WITH"]
                    .iter()
                    .any(|word| token.is(word))
            };
            let value = operands::split(value, ends).into_iter().next().unwrap_or_default();
            let value = match value {
                [value @ .., null, on, other]
                    if null.is("NULL") && on.is("ON") && other.is("NULL") =>
                {
                    value
                }
                value => value,
            };
            texts.push(self.written(if number > 0 { ", " } else { "" }));
            texts.extend(self.part(key));
            texts.push(self.written(", "));
            texts.extend(self.part(value));
        }
        texts.push(self.written(")"));
        Some(self.replace(self.close + 1, texts, edits))
    }

    /// `TO_NUMBER(x DEFAULT y ON CONVERSION ERROR [, model])`
    fn with_default(&self, edits: &mut Edits) -> Option<usize> {
        let arguments = operands::split(self.inside(), |token| token.is_symbol(","));
        let (first, rest) = arguments.split_first()?;
        let parts = operands::split(first, |token| token.is("DEFAULT"));
        let [of, [otherwise @ .., on, conversion, error]] = &parts[..] else { return None };
        if !(on.is("ON") && conversion.is("CONVERSION") && error.is("ERROR")) {
            return None;
        }
        let name = if self.name.is("TO_NUMBER") { "number" } else { "date" };
        let mut texts = vec![self.written(format!("plinth_to_{name}_or("))];
        texts.extend(self.part(otherwise));
        for argument in std::iter::once(of).chain(rest) {
            texts.push(self.written(", "));
            texts.extend(self.part(argument));
        }
        texts.push(self.written(")"));
        Some(self.replace(self.close + 1, texts, edits))
    }

    /// `(ORDER BY key [ASC | DESC])` at a token: the key, whether it descends, and the position
    /// after it.
    fn order(&self, open: usize, words: usize) -> Result<(&'a [Token], bool, usize), SqlError> {
        let what = "this order of an aggregate";
        let hint = "one key, ASC or DESC, is";
        let close = operands::closing(self.tokens, open)
            .filter(|_| self.tokens.get(open).is_some_and(|open| open.is_symbol("(")))
            .ok_or_else(|| refused(self.name, what, hint))?;
        let inside = self.tokens.get(open + 1 + words..close).unwrap_or_default();
        let [order, by, keys @ ..] = inside else { return Err(refused(self.name, what, hint)) };
        let keys = operands::split(keys, |token| token.is_symbol(","));
        let ([key], true) = (&keys[..], order.is("ORDER") && by.is("BY")) else {
            return Err(refused(self.name, what, hint));
        };
        let (key, descends) = match key {
            [key @ .., direction] if direction.is("DESC") => (key, true),
            [key @ .., direction] if direction.is("ASC") => (key, false),
            key => (*key, false),
        };
        if let Some(nulls) = key.iter().find(|token| token.is("NULLS")) {
            return Err(refused(nulls, what, hint));
        }
        Ok((key, descends, close + 1))
    }

    /// `MAX(x) KEEP (DENSE_RANK LAST ORDER BY y)`
    fn keep(&self, edits: &mut Edits) -> Result<usize, SqlError> {
        let open = self.close + 2;
        let word = |count: usize| self.tokens.get(open + count);
        let is_last = word(2).is_some_and(|word| word.is("LAST"));
        if !word(1).is_some_and(|word| word.is("DENSE_RANK"))
            || !(is_last || word(2).is_some_and(|word| word.is("FIRST")))
        {
            return Err(refused(self.name, "this KEEP", "KEEP (DENSE_RANK FIRST ORDER BY x) is"));
        }
        let (key, descends, end) = self.order(open, 2)?;
        if self.tokens.get(end).is_some_and(|next| next.is("OVER")) {
            return Err(refused(self.name, "KEEP with OVER", "use FIRST_VALUE"));
        }
        let Kind::Word(name) = &self.name.kind else { return Ok(end) };
        let mut texts = vec![self.written("plinth_keep(")];
        if matches!(self.inside(), [star] if star.is_symbol("*")) {
            texts.push(self.written("1"));
        } else {
            texts.extend(self.part(self.inside()));
        }
        texts.push(self.written(", "));
        texts.extend(self.part(key));
        let which = if is_last == descends { "FIRST" } else { "LAST" };
        texts.push(self.written(format!(", '{}', '{which}')", name.to_ascii_uppercase())));
        Ok(self.replace(end, texts, edits))
    }

    /// `PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)`
    fn percentile(&self, edits: &mut Edits) -> Result<usize, SqlError> {
        let (key, descends, end) = self.order(self.close + 3, 0)?;
        let name = if self.name.is("PERCENTILE_CONT") { "plinth_cont(" } else { "plinth_disc(" };
        let mut texts = vec![self.written(name)];
        texts.extend(self.part(key));
        texts.push(self.written(if descends { ", 1 - (" } else { ", (" }));
        texts.extend(self.part(self.inside()));
        texts.push(self.written("))"));
        Ok(self.replace(end, texts, edits))
    }

    /// `RATIO_TO_REPORT(x) OVER (...)`
    fn ratio(&self, edits: &mut Edits) -> Option<usize> {
        let open = self.close + 2;
        self.tokens.get(open).filter(|open| open.is_symbol("("))?;
        let close = operands::closing(self.tokens, open)?;
        let of = self.part(self.inside());
        let window = self.part(self.tokens.get(open..=close)?);
        let mut texts = vec![self.written("((")];
        texts.extend(of.clone());
        texts.push(self.written(") / nullif(sum("));
        texts.extend(of);
        texts.push(self.written(") OVER "));
        texts.extend(window);
        texts.push(self.written(", 0))"));
        Some(self.replace(close + 1, texts, edits))
    }

    /// `COUNT(DISTINCT x) OVER (...)`; to MIN and MAX the word says nothing.
    fn distinct(&self, edits: &mut Edits) -> Option<usize> {
        let (word, of) = self.inside().split_first()?;
        let (first, last) = (of.first()?, of.last()?);
        if !(word.is("DISTINCT") || word.is("UNIQUE")) {
            return None;
        }
        if let Kind::Word(name) = &self.name.kind
            && !(self.name.is("MIN") || self.name.is("MAX"))
        {
            let name = format!("plinth_distinct_{}", name.to_ascii_lowercase());
            edits.replace(self.name.start, self.name.end, name);
        }
        edits.replace(word.start, first.start, "");
        Some(self.at + 2).filter(|_| last.end > first.start)
    }

    /// The tokens within the parentheses behind OVER, which is at this token, and the position of
    /// the closing one.
    fn window(&self, over: usize) -> Option<(&'a [Token], usize)> {
        self.tokens.get(over).filter(|word| word.is("OVER"))?;
        self.tokens.get(over + 1).filter(|open| open.is_symbol("("))?;
        let close = operands::closing(self.tokens, over + 1)?;
        Some((self.tokens.get(over + 2..close)?, close))
    }

    /// LISTAGG in a window: its order becomes that of the window.
    fn list(&self, edits: &mut Edits) -> Option<usize> {
        let parts = operands::split(self.inside(), |token| token.is("ORDER"));
        let [of, [by, keys @ ..]] = parts[..] else { return None };
        let (window, close) = self.window(self.close + 1).filter(|_| by.is("BY"))?;
        let mut texts = vec![self.written("group_concat(")];
        texts.extend(self.part(of));
        texts.push(self.written(") OVER ("));
        texts.extend(self.part(window));
        texts.push(self.written(" ORDER BY "));
        texts.extend(self.part(keys));
        texts.push(self.written(" ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"));
        Some(self.replace(close + 1, texts, edits))
    }

    /// `FIRST_VALUE(x) IGNORE NULLS OVER (...)`, also with the words behind `x`.
    fn by_row(&self, edits: &mut Edits) -> Result<Option<usize>, SqlError> {
        let is_about_nulls = |tokens: &[Token]| match tokens {
            [kind, nulls] if nulls.is("NULLS") && kind.is("IGNORE") => Some(true),
            [kind, nulls] if nulls.is("NULLS") && kind.is("RESPECT") => Some(false),
            _ => None,
        };
        let mut arguments = operands::split(self.inside(), |token| token.is_symbol(","));
        let Some(of) = arguments.first_mut() else { return Ok(None) };
        let inner = of.len().checked_sub(2).and_then(|at| is_about_nulls(of.get(at..)?));
        if inner.is_some() {
            *of = of.get(..of.len() - 2).unwrap_or_default();
        }
        let behind = self.tokens.get(self.close + 1..self.close + 3).and_then(is_about_nulls);
        let Some(ignores) = inner.or(behind) else { return Ok(None) };
        let over = self.close + if behind.is_some() { 3 } else { 1 };
        let (window, end) = self
            .window(over)
            .ok_or_else(|| refused(self.name, "this function", "OVER (...) is behind it"))?;
        let mut texts = self.of_row(&arguments, ignores);
        texts.push(self.written(") OVER ("));
        texts.extend(self.part(window));
        let is = |name: &str| ignores && self.name.is(name);
        let frame = if is("LAG") {
            " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        } else if is("LEAD") {
            " ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)"
        } else {
            ")"
        };
        texts.push(self.written(frame));
        if ignores && let Some(other) = arguments.get(2) {
            texts.push(self.written(", "));
            texts.extend(self.part(other));
            texts.push(self.written(")"));
        }
        Ok(Some(self.replace(end + 1, texts, edits)))
    }

    /// The call without its closing parenthesis; a default for LAG and LEAD is still to come.
    fn of_row(&self, arguments: &[&[Token]], ignores: bool) -> Vec<Given> {
        let name = match &self.name.kind {
            Kind::Word(name) if !ignores => name,
            _ if self.name.is("LAG") || self.name.is("LAST_VALUE") => "plinth_last",
            _ => "plinth_first",
        };
        let choice = if ignores && arguments.len() > 2 { "coalesce(" } else { "" };
        let mut texts = vec![self.written(format!("{choice}{name}("))];
        let shown = if ignores { 2 } else { arguments.len() };
        for (number, argument) in arguments.iter().take(shown).enumerate() {
            texts.push(self.written(if number > 0 { ", " } else { "" }));
            texts.extend(self.part(argument));
        }
        if ignores && arguments.len() < 2 {
            texts.push(self.written(", 1"));
        }
        texts
    }
}
