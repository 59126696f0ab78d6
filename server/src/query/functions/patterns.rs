//! LIKE, and regular expressions.
//!
//! Patterns are those of POSIX with the usual extensions (`\d`, `\w`, lazy quantifiers), as Oracle
//! and PostgreSQL have them; references into the pattern itself (`(a)\1`) are refused. By Oracle's
//! rules a backslash between brackets is a letter like any other.

use super::{Functions, Result, cut, refused, text, whole};
use crate::sql::rules::Rules;
use regex::{Captures, Regex, RegexBuilder};
use rusqlite::{
    functions::Context,
    types::{Value, ValueRef},
};

pub(super) fn create(functions: &Functions<'_>) -> Result<()> {
    create_likes(functions)?;
    // `text REGEXP pattern` passes the pattern first.
    functions.define_by_rules("regexp", 2, |context, rules| {
        let (Some(of), Some(pattern)) = (text(context, 1), text(context, 0)) else {
            return Ok(Value::Null);
        };
        Ok(truth(regex(&pattern, "", rules)?.is_match(&of)))
    })?;
    for arguments in 2..=3 {
        functions.define_by_rules("regexp_like", arguments, |context, rules| {
            let Some(Search { of, regex, .. }) = search(context, rules, None, 2)? else {
                return Ok(Value::Null);
            };
            Ok(truth(regex.is_match(&of)))
        })?;
    }
    for arguments in 2..=6 {
        functions.define_by_rules("regexp_substr", arguments, regexp_substr)?;
        functions.define_by_rules("regexp_replace", arguments, regexp_replace)?;
    }
    for arguments in 2..=7 {
        functions.define_by_rules("regexp_instr", arguments, regexp_instr)?;
    }
    for arguments in 2..=4 {
        functions.define_by_rules("regexp_count", arguments, |context, rules| {
            let Some(search) = search(context, rules, Some(2), 3)? else { return Ok(Value::Null) };
            Ok(Value::Integer(i64::try_from(search.found().count()).unwrap_or(i64::MAX)))
        })?;
    }
    Ok(())
}

fn truth(is_true: bool) -> Value {
    Value::Integer(i64::from(is_true))
}

/// `LIKE` and `ILIKE`.
fn create_likes(functions: &Functions<'_>) -> Result<()> {
    // LIKE distinguishes upper from lower case, as with Oracle and PostgreSQL; ILIKE, which is
    // MATCH here, does not.
    for (name, folds) in [("like", false), ("match", true)] {
        for arguments in [2, 3] {
            let function = if folds { ilike } else { like };
            functions.define_by_rules(name, arguments, function)?;
        }
    }
    Ok(())
}

/// The arguments that all these functions have: a text, a pattern, the first position.
struct Search {
    of: String,
    regex: Regex,
    /// The byte at which the search begins.
    from: usize,
}

impl Search {
    fn found(&self) -> impl Iterator<Item = Captures<'_>> {
        let mut at = self.from;
        std::iter::from_fn(move || {
            let found = self.regex.captures_at(&self.of, at)?;
            let whole = found.get(0)?;
            // An empty match does not stop the search.
            let step = self.of.get(whole.end()..).and_then(|rest| rest.chars().next());
            at = if whole.is_empty() {
                whole.end() + step.map_or(1, char::len_utf8)
            } else {
                whole.end()
            };
            Some(found)
        })
        .take(MATCHES_MAX)
    }

    /// The occurrence of this number.
    fn nth(&self, occurrence: usize) -> Option<Captures<'_>> {
        self.found().nth(occurrence.checked_sub(1)?)
    }
}

/// More matches than a text of the longest size can have.
const MATCHES_MAX: usize = super::LONG * 16;

/// The text, the pattern, the position at `position` and the flags at `flags`; `None` if the text,
/// the pattern or the position is NULL.
fn search(
    context: &Context<'_>,
    rules: Rules,
    position: Option<usize>,
    flags: usize,
) -> Result<Option<Search>> {
    let (Some(of), Some(pattern)) = (text(context, 0), text(context, 1)) else { return Ok(None) };
    let from = match position.filter(|at| *at < context.len()) {
        None => 1,
        Some(at) => match whole(context, at)? {
            None => return Ok(None),
            Some(from) => from,
        },
    };
    let Some(skipped) = usize::try_from(from).ok().and_then(|from| from.checked_sub(1)) else {
        return Err(refused("the first position is 1"));
    };
    let regex = regex(&pattern, text(context, flags).as_deref().unwrap_or_default(), rules)?;
    let from = of.char_indices().map(|(byte, _)| byte).nth(skipped).unwrap_or(of.len());
    Ok(Some(Search { of, regex, from }))
}

/// The argument at `at` as a count, which begins with `least`; `usize::MAX` if it is NULL.
fn count(context: &Context<'_>, at: usize, least: usize, otherwise: usize) -> Result<usize> {
    if at >= context.len() {
        return Ok(otherwise);
    }
    match whole(context, at)? {
        None => Ok(usize::MAX),
        Some(number) => usize::try_from(number)
            .ok()
            .filter(|number| *number >= least)
            .ok_or_else(|| refused(format!("{number} is less than {least}"))),
    }
}

/// `REGEXP_SUBSTR(of, pattern [, position [, occurrence [, flags [, group]]]])`
fn regexp_substr(context: &Context<'_>, rules: Rules) -> Result<Value> {
    let Some(search) = search(context, rules, Some(2), 4)? else { return Ok(Value::Null) };
    let (occurrence, group) = (count(context, 3, 1, 1)?, count(context, 5, 0, 0)?);
    let found = search.nth(occurrence);
    let part = found.and_then(|found| found.get(group).map(|part| part.as_str().to_owned()));
    Ok(part.map_or(Value::Null, Value::Text))
}

/// `REGEXP_INSTR(of, pattern [, position [, occurrence [, end [, flags [, group]]]]])`: with `end`
/// 1, the position after the match.
fn regexp_instr(context: &Context<'_>, rules: Rules) -> Result<Value> {
    let Some(search) = search(context, rules, Some(2), 5)? else { return Ok(Value::Null) };
    let (occurrence, end, group) =
        (count(context, 3, 1, 1)?, count(context, 4, 0, 0)?, count(context, 6, 0, 0)?);
    let found = search.nth(occurrence);
    let byte = found.and_then(|found| {
        found.get(group).map(|part| if end == 0 { part.start() } else { part.end() })
    });
    let place =
        byte.map_or(0, |byte| search.of.get(..byte).map_or(0, |before| before.chars().count()) + 1);
    Ok(Value::Integer(i64::try_from(place).unwrap_or(i64::MAX)))
}

/// `REGEXP_REPLACE(of, pattern [, by [, position [, occurrence [, flags]]]])`, and PostgreSQL's
/// form, in which flags come fourth.
fn regexp_replace(context: &Context<'_>, rules: Rules) -> Result<Value> {
    let flags_fourth = context.len() == 4
        && matches!(context.get_raw(3), ValueRef::Text(flags) if flags.iter().all(u8::is_ascii_alphabetic));
    let (position, flags) = if flags_fourth { (None, 3) } else { (Some(3), 5) };
    let Some(search) = search(context, rules, position, flags)? else {
        // Without a pattern nothing is replaced.
        let is_kept = rules == Rules::Oracle && text(context, 1).is_none();
        return Ok(text(context, 0).filter(|_| is_kept).map_or(Value::Null, Value::Text));
    };
    let by = text(context, 2);
    if by.is_none() && context.len() > 2 && rules == Rules::PostgreSql {
        return Ok(Value::Null);
    }
    let (by, all) = (by.unwrap_or_default(), rules == Rules::Oracle);
    let all = all || flags_fourth && text(context, 3).is_some_and(|flags| flags.contains('g'));
    let occurrence = count(context, 4, 0, usize::from(!all))?;
    let (mut out, mut copied) = (String::new(), 0);
    for (number, found) in (1..).zip(search.found()) {
        let Some(whole) = found.get(0) else { continue };
        if occurrence != 0 && number != occurrence {
            continue;
        }
        out.push_str(search.of.get(copied..whole.start()).unwrap_or_default());
        expand(&by, &found, &mut out);
        copied = whole.end();
        if out.len() > super::LONG {
            break;
        }
    }
    out.push_str(search.of.get(copied..).unwrap_or_default());
    cut(out).map(Value::Text)
}

/// Appends a replacement: `\1` is the first group, `\&` the match, `\\` a backslash; any other
/// backslash, at the end too, is itself.
fn expand(by: &str, found: &Captures<'_>, out: &mut String) {
    let mut letters = by.chars().peekable();
    while let Some(letter) = letters.next() {
        let group = match letters.peek() {
            Some(next) if letter == '\\' => match next {
                '&' => Some(0),
                '\\' => {
                    letters.next();
                    out.push('\\');
                    continue;
                }
                digit => digit.to_digit(10).and_then(|digit| usize::try_from(digit).ok()),
            },
            _ => None,
        };
        match group {
            Some(group) => {
                letters.next();
                out.push_str(found.get(group).map_or("", |part| part.as_str()));
            }
            None => out.push(letter),
        }
    }
}
/// `text LIKE pattern [ESCAPE letter]`, for which SQLite passes the pattern first.
fn like(context: &Context<'_>, rules: Rules) -> Result<Value> {
    matches(context, rules, |text| text)
}

/// The same without regard to case.
fn ilike(context: &Context<'_>, rules: Rules) -> Result<Value> {
    matches(context, rules, |text| text.to_lowercase())
}

fn matches(context: &Context<'_>, rules: Rules, fold: fn(String) -> String) -> Result<Value> {
    let (Some(pattern), Some(of)) = (text(context, 0), text(context, 1)) else {
        return Ok(Value::Null);
    };
    let escape = match rules {
        _ if context.len() > 2 => text(context, 2),
        // psql's completion of names relies on it.
        Rules::PostgreSql => Some("\\".to_owned()),
        Rules::Oracle => None,
    };
    let mut letters = escape.iter().flat_map(|escape| escape.chars());
    let (escape, more) = (letters.next(), letters.next());
    if more.is_some() {
        return Err(refused("ESCAPE is one character"));
    }
    Ok(truth(matches_like(&fold(of), &fold(pattern), escape)))
}

#[derive(Clone, Copy, PartialEq)]
enum Wild {
    Any,
    One,
    Is(char),
}

fn matches_like(text: &str, pattern: &str, escape: Option<char>) -> bool {
    let mut wilds = Vec::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        wilds.push(match letter {
            letter if Some(letter) == escape => Wild::Is(letters.next().unwrap_or(letter)),
            '%' => Wild::Any,
            '_' => Wild::One,
            letter => Wild::Is(letter),
        });
    }
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut next) = (0, 0);
    // Positions of the last `%`, and of the end of the text that it matches so far.
    let mut back: Option<(usize, usize)> = None;
    while at < text.len() {
        match (wilds.get(next), text.get(at)) {
            (Some(Wild::Any), _) => {
                back = Some((next, at));
                next += 1;
            }
            (Some(Wild::One), _) => (at, next) = (at + 1, next + 1),
            (Some(Wild::Is(wanted)), Some(found)) if wanted == found => {
                (at, next) = (at + 1, next + 1)
            }
            _ => match &mut back {
                Some((any, taken)) => {
                    *taken += 1;
                    (at, next) = (*taken, *any + 1);
                }
                None => return false,
            },
        }
    }
    wilds.get(next..).unwrap_or_default().iter().all(|wild| *wild == Wild::Any)
}

thread_local! {
    /// The last pattern: a statement uses the same one for row after row.
    static LAST: std::cell::RefCell<Option<(String, Regex)>> = const { std::cell::RefCell::new(None) };
}

fn regex(pattern: &str, flags: &str, rules: Rules) -> Result<Regex> {
    let key = format!("{rules:?} {flags} {pattern}");
    let known = LAST.with_borrow(|last| {
        last.as_ref().filter(|(known, _)| *known == key).map(|(_, regex)| regex.clone())
    });
    if let Some(regex) = known {
        return Ok(regex);
    }
    if let Some(flag) = flags.chars().find(|flag| !"icmnxgs".contains(*flag)) {
        return Err(refused(format!("'{flag}' is no flag of a pattern; i, c, m, n and x are")));
    }
    let translated = match rules {
        Rules::Oracle => brackets(pattern),
        Rules::PostgreSql => pattern.to_owned(),
    };
    // The last one of two that contradict each other counts.
    let folds = flags.chars().rfind(|flag| "ic".contains(*flag)) == Some('i');
    let regex = RegexBuilder::new(&translated)
        .case_insensitive(folds)
        .multi_line(flags.contains('m'))
        // A point matches the end of a line in Oracle with `n` alone, in PostgreSQL without.
        .dot_matches_new_line(flags.contains('n') == (rules == Rules::Oracle))
        .ignore_whitespace(flags.contains('x'))
        .size_limit(1 << 20)
        .build()
        .map_err(|error| refused(Box::new(error)))?;
    LAST.set(Some((key, regex.clone())));
    Ok(regex)
}

/// A pattern in which a backslash, and what else means something between the library's brackets, is
/// a letter there, as POSIX has it.
fn brackets(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        out.push(letter);
        if letter == '\\' {
            out.extend(letters.next());
            continue;
        }
        if letter != '[' {
            continue;
        }
        if letters.peek() == Some(&'^') {
            out.extend(letters.next());
        }
        let mut is_first = true;
        while let Some(inner) = letters.next() {
            let next = letters.peek().copied();
            match inner {
                ']' if is_first => out.push_str("\\]"),
                ']' => {
                    out.push(inner);
                    break;
                }
                '[' if next == Some(':') => {
                    // A class by name, to its end.
                    out.push(inner);
                    while let Some(named) = letters.next() {
                        out.push(named);
                        if named == ':' && letters.peek() == Some(&']') {
                            out.extend(letters.next());
                            break;
                        }
                    }
                }
                '\\' | '[' | '&' | '~' => out.extend(['\\', inner]),
                inner => out.push(inner),
            }
            is_first = false;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_hold_letters() {
        for (pattern, text, is_found) in [
            (r"[^\]+$", r"a\b", true),
            (r"[\]", r"\", true),
            (r"[\d]", "5", false),
            (r"[\d]", "d", true),
            (r"\d", "5", true),
            (r"[]x]", "]", true),
            (r"[^]x]", "]", false),
            (r"[[:alpha:]_]", "_", true),
            (r"[[:digit:]]+", "x", false),
            (r"\[x\]", "[x]", true),
            (r"[a&&b]", "&", true),
        ] {
            let regex = regex(pattern, "", Rules::Oracle).expect(pattern);
            assert_eq!(regex.is_match(text), is_found, "{pattern} {text}");
        }
    }
}
