//! Functions of texts: parts, padding, trimming, joining.

use super::{FLAGS, Functions, LONG, Result, refused, text, text_by, whole};
use crate::{sql::rules::Rules, text::quoted};
use rusqlite::{functions::Context, types::Value};

pub(super) fn create(functions: &Functions<'_>) -> Result<()> {
    create_about_letters(functions)?;
    create_about_ends(functions)?;
    create_about_parts(functions)?;
    create_about_bytes(functions)
}

/// Functions that change the letters of a text.
fn create_about_letters(functions: &Functions<'_>) -> Result<()> {
    for (name, arguments) in [("initcap", 1), ("nls_initcap", 1), ("nls_initcap", 2)] {
        functions.define(name, arguments, |context| {
            let mut within = false;
            let capital = |text: String| {
                let letters = text.chars().flat_map(|letter| {
                    let follows = std::mem::replace(&mut within, letter.is_alphanumeric());
                    if follows {
                        letter.to_lowercase().collect::<Vec<_>>()
                    } else {
                        letter.to_uppercase().collect()
                    }
                });
                letters.collect::<String>()
            };
            Ok(text(context, 0).map(capital).map_or(Value::Null, Value::Text))
        })?;
    }
    functions.define("translate", 3, |context| {
        let (Some(of), Some(from), Some(to)) =
            (text(context, 0), text(context, 1), text(context, 2))
        else {
            return Ok(Value::Null);
        };
        let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
        let one = |letter: char| match from.iter().position(|other| *other == letter) {
            Some(at) => to.get(at).copied(),
            None => Some(letter),
        };
        Ok(Value::Text(of.chars().filter_map(one).collect()))
    })?;
    Ok(())
}

/// Functions that lengthen, shorten and join texts.
fn create_about_ends(functions: &Functions<'_>) -> Result<()> {
    for arguments in [2, 3] {
        functions.define_by_rules("lpad", arguments, |context, rules| pad(context, rules, true))?;
        functions
            .define_by_rules("rpad", arguments, |context, rules| pad(context, rules, false))?;
        functions.define_by_rules("replace", arguments, replace)?;
        functions.define_by_rules("substr", arguments, substr)?;
        functions.define_by_rules("substring", arguments, substr)?;
    }
    for arguments in [1, 2] {
        functions.define("trim", arguments, |context| trim(context, true, true))?;
        functions.define("btrim", arguments, |context| trim(context, true, true))?;
        functions.define("ltrim", arguments, |context| trim(context, true, false))?;
        functions.define("rtrim", arguments, |context| trim(context, false, true))?;
    }
    // An operand of `||`: by Oracle's rules NULL adds nothing, and is an empty text here.
    let rules = functions.rules;
    functions.connection.create_scalar_function("plinth_text", 1, FLAGS, move |context| {
        let nothing = (rules == Rules::Oracle).then(String::new);
        Ok(text_by(context, 0, rules).or(nothing))
    })?;
    functions.define_by_rules("concat", -1, joined)
}

/// Functions that count bytes, and those with a language, of which there is one.
fn create_about_bytes(functions: &Functions<'_>) -> Result<()> {
    functions.define("lengthb", 1, |context| {
        Ok(text(context, 0).map_or(Value::Null, |text| {
            Value::Integer(i64::try_from(text.len()).unwrap_or(i64::MAX))
        }))
    })?;
    for arguments in [1, 2] {
        for name in ["nls_upper", "nls_lower", "nlssort"] {
            functions.define(
                name,
                arguments,
                match name {
                    "nls_upper" => |context| Ok(changed(context, str::to_uppercase)),
                    "nls_lower" => |context| Ok(changed(context, str::to_lowercase)),
                    _ => nlssort,
                },
            )?;
        }
    }
    functions.define("soundex", 1, |context| Ok(changed(context, soundex)))
}

fn changed(context: &Context<'_>, by: fn(&str) -> String) -> Value {
    text(context, 0).map_or(Value::Null, |text| Value::Text(by(&text)))
}

/// `NLSSORT(x, 'NLS_SORT = BINARY_CI')`: what a text is ordered by.
fn nlssort(context: &Context<'_>) -> Result<Value> {
    let settings = text(context, 1).unwrap_or_else(|| "NLS_SORT=BINARY".to_owned());
    let order = settings.split_once('=').map_or("", |(_, order)| order.trim());
    match order.to_ascii_uppercase().as_str() {
        "BINARY" => Ok(text(context, 0).map_or(Value::Null, Value::Text)),
        "BINARY_CI" => Ok(changed(context, str::to_lowercase)),
        _ => Err(refused(format!("'{settings}': NLS_SORT = BINARY and BINARY_CI are known"))),
    }
}

/// A letter and three digits, alike for names that sound alike in English.
fn soundex(text: &str) -> String {
    let code = |letter: char| match letter {
        'B' | 'F' | 'P' | 'V' => Some('1'),
        'C' | 'G' | 'J' | 'K' | 'Q' | 'S' | 'X' | 'Z' => Some('2'),
        'D' | 'T' => Some('3'),
        'L' => Some('4'),
        'M' | 'N' => Some('5'),
        'R' => Some('6'),
        _ => None,
    };
    let mut letters =
        text.chars().filter(char::is_ascii_alphabetic).map(|letter| letter.to_ascii_uppercase());
    let Some(first) = letters.next() else { return String::new() };
    let mut out = String::from(first);
    let mut last = code(first);
    for letter in letters {
        let next = code(letter);
        if let Some(digit) = next.filter(|_| next != last) {
            out.push(digit);
        }
        // H and W do not separate letters that sound alike; vowels do.
        if !matches!(letter, 'H' | 'W') {
            last = next;
        }
        if out.len() == 4 {
            break;
        }
    }
    format!("{out:0<4}")
}

/// Functions for parts of texts and single characters, and formatting for people.
fn create_about_parts(functions: &Functions<'_>) -> Result<()> {
    functions.define("instr", 3, instr)?;
    functions.define("instr", 4, instr)?;
    for name in ["strpos", "instr"] {
        functions.define(name, 2, instr)?;
    }
    functions.define("split_part", 3, |context| {
        let (Some(of), Some(by), Some(part)) =
            (text(context, 0), text(context, 1), whole(context, 2)?)
        else {
            return Ok(Value::Null);
        };
        let parts: Vec<&str> =
            if by.is_empty() { vec![&of] } else { of.split(by.as_str()).collect() };
        let at = match part {
            0 => return Err(refused("the parts of SPLIT_PART are counted from 1")),
            1.. => usize::try_from(part - 1).ok(),
            _ => usize::try_from(-part).ok().and_then(|from_end| parts.len().checked_sub(from_end)),
        };
        Ok(Value::Text(at.and_then(|at| parts.get(at)).copied().unwrap_or_default().to_owned()))
    })?;
    functions.define("left", 2, |context| side(context, true))?;
    functions.define("right", 2, |context| side(context, false))?;
    functions.define("chr", 1, |context| {
        let letter =
            whole(context, 0)?.map(|number| u32::try_from(number).ok().and_then(char::from_u32));
        match letter {
            None => Ok(Value::Null),
            Some(Some(letter)) if letter != '\0' => Ok(Value::Text(letter.to_string())),
            Some(_) => Err(refused("there is no character with this number")),
        }
    })?;
    for name in ["rawtohex", "ascii"] {
        functions.define(name, 1, if name == "ascii" { ascii } else { rawtohex })?;
    }
    functions.define("reverse", 1, |context| {
        Ok(text(context, 0).map_or(Value::Null, |text| Value::Text(text.chars().rev().collect())))
    })?;
    functions.define("pg_size_pretty", 1, |context| {
        Ok(whole(context, 0)?
            .map_or(Value::Null, |bytes| Value::Text(crate::text::bytes_pretty(bytes))))
    })?;
    functions.define("quote_ident", 1, |context| {
        Ok(text(context, 0).map_or(Value::Null, Value::Text))
    })?;
    functions.define("quote_literal", 1, |context| {
        Ok(text(context, 0).map_or(Value::Null, |text| Value::Text(quoted(&text))))
    })?;
    Ok(())
}

/// The number of the first character.
fn ascii(context: &Context<'_>) -> Result<Value> {
    let first = text(context, 0).and_then(|text| text.chars().next());
    Ok(first.map_or(Value::Null, |first| Value::Integer(i64::from(u32::from(first)))))
}

/// The bytes of a text in hexadecimal.
fn rawtohex(context: &Context<'_>) -> Result<Value> {
    let hex = |text: String| text.bytes().map(|byte| format!("{byte:02X}")).collect::<String>();
    Ok(text(context, 0).map(hex).map_or(Value::Null, Value::Text))
}

/// The longest text that CONCAT and REPLACE build, in bytes: the longest value of a query.
const JOINED_MAX: usize = 16 << 20;

/// The arguments of CONCAT as one text.
fn joined(context: &Context<'_>, rules: Rules) -> Result<Value> {
    let mut all = String::new();
    for at in 0..context.len() {
        all.push_str(&text_by(context, at, rules).unwrap_or_default());
        if all.len() > JOINED_MAX {
            return Err(refused("a text of more than 16 MiB"));
        }
    }
    Ok(Value::Text(all))
}

/// `REPLACE(of, what [, by])`
fn replace(context: &Context<'_>, rules: Rules) -> Result<Value> {
    let (of, what, by) = (text_by(context, 0, rules), text(context, 1), text_by(context, 2, rules));
    let Some(of) = of else { return Ok(Value::Null) };
    match (what, by) {
        (Some(what), by) if !what.is_empty() => {
            if by.is_none() && rules == Rules::PostgreSql && context.len() > 2 {
                return Ok(Value::Null);
            }
            let by = by.unwrap_or_default();
            // Known beforehand: each occurrence of one letter may become a long text.
            if by.len() > what.len() {
                let more = of.matches(&what).count().saturating_mul(by.len() - what.len());
                if of.len().saturating_add(more) > JOINED_MAX {
                    return Err(refused("a text of more than 16 MiB"));
                }
            }
            Ok(Value::Text(of.replace(&what, &by)))
        }
        (None, _) if rules == Rules::PostgreSql => Ok(Value::Null),
        _ => Ok(Value::Text(of)),
    }
}

/// `SUBSTR(of, from [, length])`, counted from 1. By Oracle's rules 0 means 1, and a negative
/// number counts from the end; by PostgreSQL's there are positions before the first, which hold
/// nothing.
fn substr(context: &Context<'_>, rules: Rules) -> Result<Value> {
    let (Some(of), Some(from)) = (text_by(context, 0, rules), whole(context, 1)?) else {
        return Ok(Value::Null);
    };
    let length = if context.len() > 2 {
        let Some(length) = whole(context, 2)? else { return Ok(Value::Null) };
        length
    } else {
        i64::MAX
    };
    let count = i64::try_from(of.chars().count()).unwrap_or(i64::MAX);
    let first = match (rules, from) {
        (Rules::Oracle, 0) => 1,
        (Rules::Oracle, ..0) if from < -count => return Ok(Value::Null),
        (Rules::Oracle, ..0) => count + from + 1,
        _ => from,
    };
    if length < 0 && rules == Rules::PostgreSql {
        return Err(refused("the length of SUBSTR is negative"));
    }
    let end = first.saturating_add(length).clamp(1, count.saturating_add(1));
    let first = first.clamp(1, end);
    let (skip, take) = (first - 1, end - first);
    let (skip, take) = (usize::try_from(skip).unwrap_or(0), usize::try_from(take).unwrap_or(0));
    Ok(Value::Text(of.chars().skip(skip).take(take).collect()))
}

/// `TRIM(of [, letters])` at one end or both.
fn trim(context: &Context<'_>, start: bool, end: bool) -> Result<Value> {
    let letters = if context.len() > 1 { text(context, 1) } else { Some(" ".to_owned()) };
    let (Some(of), Some(letters)) = (text(context, 0), letters) else { return Ok(Value::Null) };
    let is_trimmed = |letter: char| letters.contains(letter);
    let mut rest = of.as_str();
    if start {
        rest = rest.trim_start_matches(is_trimmed);
    }
    if end {
        rest = rest.trim_end_matches(is_trimmed);
    }
    Ok(Value::Text(rest.to_owned()))
}

fn pad(context: &Context<'_>, rules: Rules, in_front: bool) -> Result<Value> {
    let (Some(of), Some(width)) = (text_by(context, 0, rules), whole(context, 1)?) else {
        return Ok(Value::Null);
    };
    let fill = if context.len() > 2 { text(context, 2) } else { Some(" ".to_owned()) };
    let Some(fill) = fill.filter(|fill| !fill.is_empty()) else { return Ok(Value::Null) };
    let width = usize::try_from(width).unwrap_or(0);
    if width > LONG {
        return Err(refused("a text of more than a MiB"));
    }
    let length = of.chars().count();
    if width <= length {
        return Ok(Value::Text(of.chars().take(width).collect()));
    }
    let filling: String = fill.chars().cycle().take(width - length).collect();
    Ok(Value::Text(if in_front { format!("{filling}{of}") } else { format!("{of}{filling}") }))
}

/// `INSTR(of, what [, from [, which]])`: the position, counted from 1; a negative `from` counts
/// from the end.
fn instr(context: &Context<'_>) -> Result<Value> {
    let (Some(of), Some(what)) = (text(context, 0), text(context, 1)) else {
        return Ok(Value::Null);
    };
    let from = if context.len() > 2 { whole(context, 2)? } else { Some(1) };
    let which = if context.len() > 3 { whole(context, 3)? } else { Some(1) };
    let (Some(from), Some(which)) = (from, which) else { return Ok(Value::Null) };
    if which < 1 {
        return Err(refused("the occurrences of INSTR are counted from 1"));
    }
    if what.is_empty() || from == 0 {
        return Ok(Value::Integer(0));
    }
    // Positions, in characters, of all occurrences, overlapping ones too.
    let mut found =
        of.char_indices().enumerate().filter(|(_, (byte, _))| of[*byte..].starts_with(&what));
    let length = i64::try_from(of.chars().count()).unwrap_or(i64::MAX);
    let place = |(at, _): (usize, (usize, char))| i64::try_from(at).unwrap_or(i64::MAX - 1) + 1;
    let skipped = usize::try_from(which - 1).unwrap_or(usize::MAX);
    let at = if from > 0 {
        found.map(place).filter(|place| *place >= from).nth(skipped)
    } else {
        let last = length.saturating_add(from).saturating_add(1);
        let places: Vec<i64> = found.by_ref().map(place).filter(|place| *place <= last).collect();
        places.into_iter().rev().nth(skipped)
    };
    Ok(Value::Integer(at.unwrap_or(0)))
}

/// `LEFT(text, n)` and `RIGHT(text, n)`; for a negative `n`, all but `-n` characters of the other
/// side.
fn side(context: &Context<'_>, left: bool) -> Result<Value> {
    let (Some(of), Some(count)) = (text(context, 0), whole(context, 1)?) else {
        return Ok(Value::Null);
    };
    let length = of.chars().count();
    let count = match usize::try_from(count) {
        Ok(count) => count.min(length),
        Err(_) => {
            length.saturating_sub(usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX))
        }
    };
    let skipped = if left { 0 } else { length - count };
    Ok(Value::Text(of.chars().skip(skipped).take(count).collect()))
}
