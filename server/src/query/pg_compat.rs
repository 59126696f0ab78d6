//! Translates what PostgreSQL's clients send into what SQLite accepts.
//!
//! Three parts: syntax (`x::text`, `ILIKE`, `E'..'`, `~`, and Oracle's in `oracle.rs`), functions
//! about the server (`version()`; functions of values are in `functions.rs`), and PostgreSQL's
//! catalog (`catalog.rs`). Statements are rewritten token by token; [`Rewritten`] records the
//! origin of each byte, so that errors still point into the client's text.

mod calls;
pub mod catalog;
mod decode;
mod edits;
mod expressions;
mod grouping;
mod headings;
mod joined_hierarchy;
mod limits;
mod lists;
mod names;
mod nested_aggregates;
pub mod operands;
mod oracle;
mod ordering;
mod outer_join;
mod pivot;
mod refused;
mod set_operations;
pub mod synonyms;
mod unpivot;

use super::{functions, mentions::Registry};
use crate::{
    sql::{
        Query,
        rules::Rules,
        tokens::{Kind, Token},
    },
    sql_error::{SqlError, state},
};
use edits::Draft;
pub use edits::{Edits, Rewritten};
use rusqlite::{Connection, functions::FunctionFlags};
use std::fmt::Write;

/// The version that is reported to clients: one whose catalog queries are known here.
pub const SERVER_VERSION: &str = "15.0";

/// Most words of a query. Each rewriting looks at the words around a token, so the time grows
/// faster than the text.
pub const WORDS_MAX: usize = 20_000;
/// Most SELECTs in a query; SQLite has lower limits of its own for nested ones.
const SELECTS_MAX: usize = 500;

/// Rewrites one query.
///
/// # Errors
/// If it is too long, or has something of Oracle's that SQLite cannot express.
pub fn rewrite(query: &Query, rules: Rules) -> Result<Rewritten, SqlError> {
    check_size(query)?;
    refused::check(&query.tokens)?;
    let draft = set_operations::rewrite(names::rewrite(Draft::of(query), rules)?, rules)?;
    let draft = headings::rewrite(draft)?;
    let draft = unpivot::rewrite(pivot::rewrite(outer_join::rewrite(draft)?)?)?;
    let draft = grouping::rewrite(nested_aggregates::rewrite(draft)?)?;
    let draft = joined_hierarchy::rewrite(draft)?;
    let draft = calls::rewrite(decode::rewrite(oracle::rewrite(draft)?)?)?;
    let mut edits = Edits::default();
    let mut next = 0;
    while next < draft.tokens.len() {
        next += habit(&draft.tokens, next, rules, &mut edits).max(1);
    }
    let draft = draft.changed(&edits)?;
    let mut edits = Edits::default();
    // The words for NULLs stand behind the expressions of an order, so they come first here.
    ordering::rewrite(&draft.tokens, &mut edits);
    limits::keep_apart(&draft.tokens, &mut edits);
    expressions::rewrite(&draft.tokens, rules, &mut edits)
        .map_err(|refusal| draft.placed(refusal))?;
    let end = draft.tokens.last().map_or(0, |token| token.end);
    Ok(draft.done.then(edits.made(&draft.done.sql, 0, end)))
}

/// Refuses a query that is too long for the rewritings. Each of them, of names too, comes behind
/// this check.
fn check_size(query: &Query) -> Result<(), SqlError> {
    let words = query.tokens.len();
    let selects = query.tokens.iter().filter(|token| token.is("SELECT")).count();
    if words > WORDS_MAX || selects > SELECTS_MAX {
        return Err(SqlError::new(
            state::TOO_COMPLEX,
            format!(
                "a query has at most {WORDS_MAX} words and {SELECTS_MAX} SELECTs; this one has {words} and {selects}"
            ),
        ));
    }
    Ok(())
}

/// A query whose columns have names.
///
/// # Errors
/// If it is or becomes too long.
pub fn named(query: &Query, rules: Rules) -> Result<(Query, Rewritten), SqlError> {
    check_size(query)?;
    let draft = set_operations::rewrite(names::rewrite(Draft::of(query), rules)?, rules)?;
    let Draft { done, tokens } = headings::rewrite(draft)?;
    let named = Query { text: done.sql.clone(), tokens: tokens.into_owned(), at: query.at };
    Ok((named, done))
}

/// Keywords after which `~` is a prefix operator.
const BEFORE_OPERAND: [&str; 10] =
    ["select", "where", "and", "or", "not", "by", "on", "when", "then", "else"];

/// A token of a statement, with the tokens around it.
#[derive(Clone, Copy)]
struct Here<'a> {
    tokens: &'a [Token],
    at: usize,
    first: &'a Token,
    rules: Rules,
}

impl<'a> Here<'a> {
    /// The token `count` before this one.
    fn back(&self, count: usize) -> Option<&'a Token> {
        self.at.checked_sub(count).and_then(|at| self.tokens.get(at))
    }

    /// The token `count` after this one.
    fn ahead(&self, count: usize) -> Option<&'a Token> {
        self.tokens.get(self.at + count)
    }

    fn has_symbol(&self, ahead: usize, symbol: &str) -> bool {
        self.ahead(ahead).is_some_and(|token| token.is_symbol(symbol))
    }

    fn follows(&self, is_it: impl Fn(&Token) -> bool) -> bool {
        self.back(1).is_some_and(is_it)
    }

    /// Replaces `count` tokens; returns their number.
    fn replace(&self, count: usize, text: &str, edits: &mut Edits) -> usize {
        let end = self.ahead(count - 1).map_or(self.first.end, |last| last.end);
        edits.replace(self.first.start, end, text);
        count
    }
}

/// Rewrites the syntax at a token, if necessary; returns the number of tokens covered.
fn habit(tokens: &[Token], at: usize, rules: Rules, edits: &mut Edits) -> usize {
    let Some(first) = tokens.get(at) else { return 1 };
    let here = Here { tokens, at, first, rules };
    let synonym = synonyms::replace(tokens, at, edits);
    if synonym > 0 {
        return synonym;
    }
    match &first.kind {
        Kind::Symbol(mark) => operator(here, mark, edits),
        Kind::String(value) => string(here, value, edits),
        Kind::Quoted(word) if here.has_symbol(1, ".") && SCHEMAS.contains(&word.as_str()) => {
            schema(here, word, edits)
        }
        Kind::Word(word) => word_habit(here, word, edits),
        _ => 1,
    }
}

fn operator(here: Here<'_>, mark: &str, edits: &mut Edits) -> usize {
    match mark {
        "::" => cast(here.tokens, here.at, edits),
        "!~" => here.replace(1, " NOT REGEXP ", edits),
        "!~*" => here.replace(1, " NOT REGEXP '(?i)' || ", edits),
        "~" | "~*" => {
            let has_operand = here.follows(|before| match &before.kind {
                Kind::Symbol(mark) => mark == ")",
                Kind::Word(word) => {
                    !BEFORE_OPERAND.iter().any(|keyword| word.eq_ignore_ascii_case(keyword))
                }
                _ => true,
            });
            if has_operand {
                here.replace(1, if mark == "~" { " REGEXP " } else { " REGEXP '(?i)' || " }, edits);
            }
            1
        }
        _ => 1,
    }
}

fn string(here: Here<'_>, value: &str, edits: &mut Edits) -> usize {
    let Here { tokens, at, first, .. } = here;
    // Booleans are numbers in the catalog.
    if is_truth(tokens, at) && ["t", "true", "f", "false"].contains(&value) {
        return here.replace(1, if value.starts_with('t') { "1" } else { "0" }, edits);
    }
    // Strings with escapes are written out.
    if first.end - first.start != value.chars().count() + 2 + value.matches('\'').count() {
        return here.replace(1, &format!("'{}'", value.replace('\'', "''")), edits);
    }
    1
}

fn word_habit(here: Here<'_>, word: &str, edits: &mut Edits) -> usize {
    let is_call = here.has_symbol(1, "(");
    let is_alias = here.follows(|before| before.is_symbol(".") || before.is("AS"));
    let is_next = |keyword: &str| here.ahead(1).is_some_and(|next| next.is(keyword));
    match word.to_ascii_lowercase().as_str() {
        "pg_catalog" | "public" | "information_schema" if here.has_symbol(1, ".") => {
            schema(here, word, edits)
        }
        "ilike" => here.replace(1, "MATCH", edits),
        "collate" if is_next("pg_catalog") && here.has_symbol(2, ".") => {
            here.replace(4, " ", edits)
        }
        "array" if is_call => array_of_rows(here, edits),
        "array" if here.has_symbol(1, "[") => array_of_values(here, edits),
        "json_build_object" | "jsonb_build_object" if is_call => {
            here.replace(1, "json_object", edits)
        }
        "bool_and" | "every" if is_call => here.replace(1, "min", edits),
        "bool_or" if is_call => here.replace(1, "max", edits),
        "default" if here.follows(|before| before.is("AS")) => {
            here.replace(1, "\"default\"", edits)
        }
        "json_agg" | "jsonb_agg" if is_call => here.replace(1, "json_group_array", edits),
        name if is_call && here.has_symbol(2, ")") => function_as_table(here, name, edits),
        "unnest" if is_call => unnest(here, edits),
        "any" | "some" | "all" if is_call => quantified(here, word, edits),
        "operator" if is_call => named_operator(here, edits),
        "cast" if is_call => cast_as(here, edits),
        "trim" if is_call => trimmed(here, edits),
        "interval" => interval(here, edits),
        "at" if is_next("TIME") || is_next("LOCAL") => at_time_zone(here, edits),
        // Oracle's has a time of day.
        "current_date" if here.rules == Rules::Oracle && !is_alias => {
            here.replace(1, "sysdate()", edits)
        }
        "current_timestamp" if here.rules == Rules::Oracle && !is_alias => {
            here.replace(1, if is_call { "systimestamp" } else { "systimestamp()" }, edits)
        }
        "current_role" if !is_alias => here.replace(1, "current_user()", edits),
        "current_user" | "session_user" | "current_schema" | "current_catalog" | "sysdate"
        | "systimestamp" | "localtimestamp" | "dbtimezone" | "sessiontimezone"
            if !is_alias && !is_call =>
        {
            here.replace(1, &format!("{word}()"), edits)
        }
        "user"
            if here.follows(|before| before.is("SELECT") || before.is_symbol(","))
                && (here.has_symbol(1, ",") || is_next("FROM") || is_next("AS")) =>
        {
            here.replace(1, "user()", edits)
        }
        // SQLite has no such letter in bare names.
        name if name.contains('#') => here.replace(1, &format!("\"{word}\""), edits),
        _ => 1,
    }
}

/// `TRIM({LEADING | TRAILING | BOTH} ['x'] FROM y)`
fn trimmed(here: Here<'_>, edits: &mut Edits) -> usize {
    let Here { tokens, at, first, .. } = here;
    let Some(close) = operands::closing(tokens, at + 1) else { return 1 };
    let inside = tokens.get(at + 2..close).unwrap_or_default();
    let parts = operands::split(inside, |token| token.is("FROM"));
    let ([letters, of], Some(open), Some(end)) = (&parts[..], here.ahead(1), tokens.get(close))
    else {
        return 1;
    };
    let (Some(of_first), Some(letters_first)) = (of.first(), inside.first()) else { return 1 };
    let (function, taken) = match letters.first() {
        Some(word) if word.is("LEADING") => ("ltrim", 1),
        Some(word) if word.is("TRAILING") => ("rtrim", 1),
        Some(word) if word.is("BOTH") => ("trim", 1),
        _ => ("trim", 0),
    };
    // The letters come second.
    let letters: String = letters
        .get(taken..)
        .unwrap_or_default()
        .iter()
        .map(|token| format!(" {}", oracle::written(token)))
        .collect();
    edits.replace(first.start, open.end, format!("{function}("));
    edits.replace(letters_first.start, of_first.start, "");
    let letters = if letters.is_empty() { String::new() } else { format!(",{letters}") };
    edits.replace(end.start, end.end, format!("{letters})"));
    2
}

/// `INTERVAL '2 hours'`, `INTERVAL '2' HOUR`, `INTERVAL '1 02:30' DAY TO MINUTE`: a number of days,
/// or an interval of months.
fn interval(here: Here<'_>, edits: &mut Edits) -> usize {
    let Some(Token { kind: Kind::String(text), .. }) = here.ahead(1) else { return 1 };
    let word = |ahead: usize| match here.ahead(ahead).map(|token| &token.kind) {
        Some(Kind::Word(word)) if is_field(word) => Some(word.as_str()),
        _ => None,
    };
    // The precision of a field, `DAY(3)`, means nothing here.
    let precision = |ahead: usize| {
        let is_open = here.has_symbol(ahead, "(");
        let close = operands::closing(here.tokens, here.at + ahead).filter(|_| is_open);
        close.map_or(0, |close| close + 1 - here.at - ahead)
    };
    let mut words = text.split_whitespace();
    let number = words.next().filter(|number| number.parse::<f64>().is_ok());
    let from = word(2);
    let mut count = if from.is_some() { 3 + precision(3) } else { 2 };
    let to = here.ahead(count).filter(|to| from.is_some() && to.is("TO"));
    let to = to.and_then(|_| word(count + 1));
    if to.is_some() {
        count += 2;
        count += precision(count);
    }
    let unit = if to.is_some() { None } else { words.next().or(from) };
    if let (Some(number), Some(unit), None) = (number, unit, words.next())
        && functions::seconds_of(unit).is_some()
    {
        return here.replace(count, &format!("numtodsinterval({number}, '{unit}')"), edits);
    }
    let found = match from {
        Some(from) => functions::Interval::of_fields(text, from, to),
        None => functions::Interval::parse(text),
    };
    match found {
        Some(functions::Interval { months: 0, micros }) => {
            let seconds = functions::decimal_seconds(micros);
            here.replace(count, &format!("numtodsinterval({seconds}, 'second')"), edits)
        }
        Some(functions::Interval { months, .. }) => {
            here.replace(count, &format!("numtoyminterval({months}, 'MONTH')"), edits)
        }
        None => 1,
    }
}

/// Whether a word is a field of an interval: `HOUR`, `hours`, `MONTH`.
fn is_field(word: &str) -> bool {
    functions::seconds_of(word).is_some()
        || ["YEAR", "MONTH"].iter().any(|field| word.eq_ignore_ascii_case(field))
}

/// `t AT TIME ZONE 'UTC'`, `t AT LOCAL`: the sessions' time zone is UTC.
fn at_time_zone(here: Here<'_>, edits: &mut Edits) -> usize {
    let is = |ahead: usize, word: &str| here.ahead(ahead).is_some_and(|token| token.is(word));
    if is(1, "LOCAL") {
        return here.replace(2, " ", edits);
    }
    let start = operands::start(here.tokens, here.at).and_then(|start| here.tokens.get(start));
    let (Some(start), true) = (start, is(1, "TIME") && is(2, "ZONE")) else { return 1 };
    let zone = here.at + 3;
    let end = operands::end(here.tokens, zone);
    let (Some(first), Some(last)) = (here.tokens.get(zone), here.tokens.get(end - 1)) else {
        return 1;
    };
    edits.insert(start.start, "plinth_at_zone(");
    edits.replace(here.first.start, first.start, ", ");
    edits.close(last.end, ")");
    3
}

/// `ARRAY(SELECT ...)`
fn array_of_rows(here: Here<'_>, edits: &mut Edits) -> usize {
    let Here { tokens, at, first, .. } = here;
    if let Some(close) = operands::closing(tokens, at + 1).and_then(|close| tokens.get(close)) {
        edits.replace(first.start, first.end, "pg_array(");
        edits.replace(close.end, close.end, ")");
    }
    1
}

/// `ARRAY['a', 'b']`
fn array_of_values(here: Here<'_>, edits: &mut Edits) -> usize {
    let Here { tokens, at, first, .. } = here;
    let close = operands::closing_bracket(tokens, at + 1).and_then(|close| tokens.get(close));
    let (Some(open), Some(close)) = (here.ahead(1), close) else { return 1 };
    edits.replace(first.start, open.end, "pg_list(");
    edits.replace(close.start, close.end, ")");
    2
}

/// Functions in a FROM.
fn function_as_table(here: Here<'_>, name: &str, edits: &mut Edits) -> usize {
    let has_schema = here.follows(|before| before.is_symbol("."));
    let before = here.back(if has_schema { 3 } else { 1 });
    match name {
        "pg_show_all_settings" => here.replace(3, "pg_settings", edits),
        "pg_get_keywords" => {
            let none = "(SELECT '' AS word, '' AS catcode, '' AS catdesc WHERE 0)";
            here.replace(3, none, edits)
        }
        "current_schema" | "current_database" | "current_catalog" | "current_user"
        | "session_user" | "version" | "pg_backend_pid" | "pg_is_in_recovery"
            if before.is_some_and(|before| before.is("FROM") || before.is("JOIN")) =>
        {
            here.replace(3, &format!("(SELECT {name}() AS {name})"), edits)
        }
        _ => 1,
    }
}

/// Arrays in the catalog are empty here, and so is the result of `unnest`.
fn unnest(here: Here<'_>, edits: &mut Edits) -> usize {
    let Here { tokens, at, first, .. } = here;
    let Some(close) = operands::closing(tokens, at + 1) else { return 1 };
    let Some(end) = tokens.get(close) else { return 1 };
    let behind = tokens.get(close + 1);
    let table = match behind.map(|token| &token.kind) {
        _ if behind.is_some_and(|word| word.is("AS")) => "(SELECT NULL WHERE 0)".to_owned(),
        Some(Kind::Word(name)) => format!("(SELECT NULL AS {name} WHERE 0)"),
        _ => return 1,
    };
    edits.replace(first.start, end.end, table);
    close + 1 - at
}

/// `x = ANY (SELECT ...)` and `x <> ALL (SELECT ...)`; the same with an array, which is a text in
/// braces here.
fn quantified(here: Here<'_>, word: &str, edits: &mut Edits) -> usize {
    let Here { tokens, at, first, .. } = here;
    let is_all = word.eq_ignore_ascii_case("all");
    let Some(mark) = here.back(1) else { return 1 };
    let fits =
        if is_all { mark.is_symbol("<>") || mark.is_symbol("!=") } else { mark.is_symbol("=") };
    if !fits {
        return 1;
    }
    let inside = operands::closing(tokens, at + 1).and_then(|close| tokens.get(at + 2..close));
    let is_array = here.ahead(2).is_some_and(|next| next.is("ARRAY"));
    let is_list = !is_array
        && operands::split(inside.unwrap_or_default(), |one| one.is_symbol(",")).len() > 1;
    if is_list || here.ahead(2).is_some_and(|next| next.is("SELECT")) {
        edits.replace(mark.start, first.end, if is_all { " NOT IN " } else { " IN " });
        return 1;
    }
    let start = at.checked_sub(1).and_then(|mark| operands::start(tokens, mark));
    let (Some(operand), Some(open)) = (start.and_then(|start| tokens.get(start)), here.ahead(1))
    else {
        return 1;
    };
    edits.insert(operand.start, if is_all { "NOT pg_any(" } else { "pg_any(" });
    edits.replace(mark.start, open.end, ", ");
    2
}

/// `OPERATOR(pg_catalog.~)`
fn named_operator(here: Here<'_>, edits: &mut Edits) -> usize {
    let rest = here.tokens.get(here.at..).unwrap_or_default();
    let Some(close) = rest.iter().position(|token| token.is_symbol(")")) else { return 1 };
    let Some(Kind::Symbol(mark)) = rest.get(close - 1).map(|token| &token.kind) else { return 1 };
    let operator = match mark.as_str() {
        "~" | "~*" => " REGEXP ",
        "!~" | "!~*" => " NOT REGEXP ",
        mark => mark,
    };
    here.replace(close + 1, operator, edits)
}

/// Existing schemas.
const SCHEMAS: [&str; 3] = ["pg_catalog", "public", "information_schema"];

/// `pg_catalog.x`, quoted or not, becomes the name alone. The views of the information schema have
/// names of their own here.
fn schema(here: Here<'_>, schema: &str, edits: &mut Edits) -> usize {
    let (first, Some(dot)) = (here.first, here.ahead(1)) else { return 1 };
    let prefix = if schema.eq_ignore_ascii_case("information_schema") { "info_" } else { "" };
    match here.ahead(2) {
        Some(Token { kind: Kind::Quoted(name), end, .. }) if !prefix.is_empty() => {
            edits.replace(
                first.start,
                *end,
                format!("{prefix}{}", name.replace(|c: char| !c.is_alphanumeric(), "_")),
            );
            3
        }
        _ => {
            edits.replace(first.start, dot.end, prefix);
            2
        }
    }
}

/// Whether a string is compared with a boolean: `x.attisdropped = 'f'`.
fn is_truth(tokens: &[Token], at: usize) -> bool {
    let before = |count: usize| at.checked_sub(count).and_then(|place| tokens.get(place));
    let compares =
        before(1).is_some_and(|mark| ["=", "<>", "!="].iter().any(|symbol| mark.is_symbol(symbol)));
    let named = |token: &Token| match &token.kind {
        Kind::Word(name) | Kind::Quoted(name) => catalog::is_truth(name),
        _ => false,
    };
    compares && before(2).is_some_and(named)
}

/// The function that converts a name in the catalog to a number: `'v$asm_disk'::regclass`.
fn number_of(name: &str) -> Option<&'static str> {
    match name.to_ascii_lowercase().as_str() {
        "regclass" => Some("pg_regclass("),
        "regtype" => Some("pg_regtype("),
        "regproc" | "regprocedure" => Some("pg_regproc("),
        _ => None,
    }
}

/// Most tokens of a type's name.
const TYPE_MAX: usize = 16;

/// `x::type` becomes a function call if it changes the value; otherwise the type is dropped.
fn cast(tokens: &[Token], at: usize, edits: &mut Edits) -> usize {
    let Some(first) = tokens.get(at) else { return 1 };
    let names = tokens.get(at + 1..).unwrap_or_default();
    let count = operands::type_name(names);
    let end = tokens.get(at + count).map_or(first.end, |last| last.end);
    let name = match names {
        [schema, dot, name, ..] if dot.is_symbol(".") && schema.is("pg_catalog") => Some(name),
        [name, ..] => Some(name),
        [] => None,
    };
    let (mut open, mut close) = (String::new(), String::from(" "));
    if let Some(Token { kind: Kind::Word(name), .. }) = name
        && !names.get(..count).unwrap_or_default().iter().any(|token| token.is_symbol("["))
    {
        let sizes = sizes(names.get(..count).unwrap_or_default());
        (open, close) = match name.to_ascii_lowercase().as_str() {
            "text" => ("CAST(".to_owned(), " AS TEXT)".to_owned()),
            "date" => ("plinth_date(".to_owned(), ")".to_owned()),
            // A text with a time zone, as drivers write it, becomes a time of the views.
            "timestamp" | "timestamptz" => ("plinth_time(".to_owned(), ")".to_owned()),
            name => match number_of(name) {
                Some(open) => (open.to_owned(), ")".to_owned()),
                None => conversion(name, &sizes).unwrap_or((open, close)),
            },
        };
    }
    // In a chain of casts, each encloses the ones before it.
    let mut operand_end = at;
    while let Some(earlier) =
        (operand_end.saturating_sub(TYPE_MAX)..operand_end).rev().find(|earlier| {
            tokens.get(*earlier).is_some_and(|token| token.is_symbol("::"))
                && earlier + 1 + operands::type_name(tokens.get(earlier + 1..).unwrap_or_default())
                    == operand_end
        })
    {
        operand_end = earlier;
    }
    let start = operands::start(tokens, operand_end).and_then(|start| tokens.get(start));
    match start {
        Some(start) if !open.is_empty() => {
            edits.insert(start.start, open);
            edits.replace(first.start, end, close);
        }
        _ => edits.replace(first.start, end, " "),
    }
    1 + count
}

/// The numbers in parentheses behind a type: `(5, 2)`.
fn sizes(tokens: &[Token]) -> Vec<i64> {
    let Some(open) = tokens.iter().position(|token| token.is_symbol("(")) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut sign = 1;
    for token in tokens.get(open + 1..).unwrap_or_default() {
        match &token.kind {
            Kind::Number(digits) => {
                found.extend(digits.parse::<i64>().ok().map(|size| sign * size))
            }
            Kind::Symbol(symbol) if symbol == "-" => sign = -1,
            _ => sign = 1,
        }
    }
    found
}

/// The texts around a value that is converted to a type of numbers or of texts; `None` for another
/// type.
fn conversion(name: &str, sizes: &[i64]) -> Option<(String, String)> {
    let number = || ("plinth_number(".to_owned(), ")".to_owned());
    Some(match (name, sizes) {
        ("int" | "int2" | "int4" | "int8" | "integer" | "bigint" | "smallint", _) => {
            ("plinth_int(".to_owned(), ")".to_owned())
        }
        ("numeric" | "decimal" | "number", [precision, rest @ ..]) => {
            let scale = rest.first().copied().unwrap_or(0);
            ("plinth_decimal(".to_owned(), format!(", {precision}, {scale})"))
        }
        (
            "numeric" | "decimal" | "number" | "real" | "float" | "float4" | "float8" | "double"
            | "binary_double" | "binary_float",
            _,
        ) => number(),
        ("varchar" | "varchar2" | "nvarchar2" | "character" | "char" | "nchar", []) => {
            ("CAST(".to_owned(), " AS TEXT)".to_owned())
        }
        ("varchar" | "varchar2" | "nvarchar2" | "character" | "char" | "nchar", [length, ..]) => {
            let pads = i64::from(["character", "char", "nchar"].contains(&name));
            ("plinth_char(".to_owned(), format!(", {length}, {pads})"))
        }
        ("interval", _) => ("plinth_interval(".to_owned(), ")".to_owned()),
        _ => return None,
    })
}

/// `CAST(x AS type)`: SQLite's own conversions take what is no number for 0, and cut numbers where
/// they are rounded.
fn cast_as(here: Here<'_>, edits: &mut Edits) -> usize {
    let Here { tokens, at, first: cast, .. } = here;
    let Some(open) = tokens.get(at + 1) else { return 1 };
    let Some(close) = operands::closing(tokens, at + 1) else { return 1 };
    let inside = tokens.get(at + 2..close).unwrap_or_default();
    let Some(place) = inside.iter().rposition(|token| token.is("AS")) else { return 1 };
    let named = inside.get(place + 1..).unwrap_or_default();
    let (Some(word), Some(name), Some(last)) = (inside.get(place), named.first(), named.last())
    else {
        return 1;
    };
    let bare =
        if named.get(1).is_some_and(|dot| dot.is_symbol(".")) { named.get(2) } else { Some(name) };
    let is_array = named.iter().any(|token| token.is_symbol("["));
    let bare = match bare.map(|bare| &bare.kind) {
        Some(Kind::Word(bare)) if !is_array => bare.to_ascii_lowercase(),
        _ => String::new(),
    };
    let by_function = match bare.as_str() {
        "date" => Some(("plinth_cast_date(".to_owned(), ")".to_owned())),
        "timestamp" | "timestamptz" => Some(("plinth_time(".to_owned(), ")".to_owned())),
        // A text of its own form, which SQLite's conversion leaves alone.
        "text" | "clob" => None,
        "varchar" | "varchar2" | "char" | "character" if sizes(named).is_empty() => None,
        name => number_of(name)
            .map(|open| (open.to_owned(), ")".to_owned()))
            .or_else(|| conversion(name, &sizes(named))),
    };
    if let (Some((begin, end)), Some(close)) = (by_function, tokens.get(close)) {
        edits.replace(cast.start, open.end, begin);
        edits.replace(word.start, close.end, end);
        return 2;
    }
    if is_array {
        edits.replace(name.start, last.end, "TEXT");
    }
    1
}

/// Creates the `gv$...` views, which have one instance, if a statement names them.
pub fn create_global_views(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    if !sql.to_ascii_lowercase().contains("gv$") {
        return Ok(());
    }
    let mut create = String::new();
    for (name, _) in catalog::relations().filter(|(name, _)| name.starts_with("v$")) {
        let _ = write!(create, "CREATE VIEW g{name} AS SELECT 1 AS inst_id, * FROM {name};");
    }
    connection.execute_batch(&create)
}

/// Functions that SQLite does not have.
pub fn create_functions(connection: Registry<'_>, user: &str) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8;
    let constant = |name: &str, arguments: i32, value: &str| {
        let value = value.to_owned();
        connection.create_scalar_function(name, arguments, flags, move |_| Ok(value.clone()))
    };
    let about =
        format!("PostgreSQL {SERVER_VERSION} (protocol of Plinth {})", env!("CARGO_PKG_VERSION"));
    constant("version", 0, &about)?;
    constant("current_schema", 0, "public")?;
    constant("current_database", 0, "plinth")?;
    constant("current_catalog", 0, "plinth")?;
    constant("current_user", 0, user)?;
    constant("session_user", 0, user)?;
    constant("pg_get_userbyid", 1, user)?;
    constant("pg_encoding_to_char", 1, "UTF8")?;
    constant("pg_is_in_recovery", 0, "f")?;
    constant("pg_advisory_unlock_all", 0, "")?;
    constant("pg_get_function_result", 1, "")?;
    constant("pg_get_function_arguments", 1, "")?;
    constant("inet_server_addr", 0, "")?;
    constant("current_schemas", 1, "{pg_catalog,public}")?;
    connection.create_scalar_function("set_config", 3, flags, |context| {
        context.get::<Option<String>>(1)
    })?;
    connection.create_scalar_function("pg_backend_pid", 0, flags, |_| {
        Ok(i64::from(std::process::id()))
    })?;
    lists::create(connection)?;
    catalog::create_functions(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewrite(query: &str) -> Result<Rewritten, SqlError> {
        super::rewrite(&Query::new(query)?, Rules::PostgreSql)
    }

    #[test]
    fn habits_are_rewritten() {
        for (query, sql) in [
            (
                "select name::text from v$asm_disk",
                r#"select CAST(name AS TEXT) AS "name" from v$asm_disk"#,
            ),
            (
                "select d.x::int::text, f(1)::numeric(5, 2)",
                r#"select CAST(plinth_int(d.x) AS TEXT) AS "x", plinth_decimal(f(1), 5, 2) AS "f(1)::numeric(5, 2)""#,
            ),
            ("select now()::timestamptz", r#"select plinth_time(now()) AS "now()::timestamptz""#),
            (
                "select a::name[], 'x'::pg_catalog.regtype",
                r#"select a  AS "a", pg_regtype('x') AS "regtype""#,
            ),
            ("select pg_catalog.version()", r#"select version() AS "version()""#),
            ("select 1 where 'a' ilike 'A'", r#"select 1 AS "1" where 'a' MATCH 'A'"#),
            (r"select E'a\'b'", r#"select 'a''b' AS "E'a\'b'""#),
            ("select 'a''b'", r#"select 'a''b' AS "'a''b'""#),
            ("select ~5, a ~ 'x'", r#"select ~5 AS "~5", a  REGEXP  'x' AS "a ~ 'x'""#),
            (
                "select 1 where n !~ '^pg' and c OPERATOR(pg_catalog.~) '^(x)$' COLLATE pg_catalog.default",
                r#"select 1 AS "1" where n  NOT REGEXP  '^pg' and c  REGEXP  '^(x)$'"#,
            ),
            (
                "select current_user, t.current_user",
                r#"select current_user() AS "current_user", t.current_user AS "current_user""#,
            ),
            (
                "select free/total*100",
                r#"select plinth_times(plinth_over(free,total),100) AS "free/total*100""#,
            ),
            (
                "select sysdate - 1/24",
                r#"select plinth_minus(sysdate() , plinth_over(1,24)) AS "sysdate - 1/24""#,
            ),
            (
                "select (sysdate - mount_date) * 24, a - b from x",
                r#"select plinth_times((plinth_minus(sysdate() , mount_date)) , 24) AS "(sysdate - mount_date) * 24", plinth_minus(a , b) AS "a - b" from x"#,
            ),
            (
                "select sysdate - 1 + 2",
                r#"select plinth_plus(plinth_minus(sysdate() , 1) , 2) AS "sysdate - 1 + 2""#,
            ),
            (
                "select now() - interval '36 hours'",
                r#"select plinth_minus(now() , numtodsinterval(36, 'hours')) AS "now() - interval '36 hours'""#,
            ),
            (
                "select date '2026-01-01' from dual",
                r#"select  '2026-01-01' AS "date '2026-01-01'" from dual"#,
            ),
            (
                "select listagg(name, ',') within group (order by name desc) from v$asm_disk",
                r#"select group_concat(name, ',' order by name desc NULLS FIRST) AS "listagg(name, ',') within group (order by name desc)" from v$asm_disk"#,
            ),
            (
                "select listagg(name) from x",
                r#"select group_concat(name, '') AS "listagg(name)" from x"#,
            ),
            ("select 1 where d.name = any ($1)", r#"select 1 AS "1" where pg_any(d.name , $1)"#),
            (
                "select 1 where w <> all ('{a}'::text[])",
                r#"select 1 AS "1" where NOT pg_any(w , '{a}' )"#,
            ),
            (
                "select 1 where w = any (select 2)",
                r#"select 1 AS "1" where w  IN  (select 2 AS "2")"#,
            ),
            (
                "select 1 where x = any(array['a', b])",
                r#"select 1 AS "1" where pg_any(x , pg_list('a', b))"#,
            ),
            (
                "select 1 where a.attisdropped = 'f' and b = 'f'",
                r#"select 1 AS "1" where a.attisdropped = 0 and b = 'f'"#,
            ),
            (
                r#"select * from "information_schema"."tables" t, "public"."v$asm_disk""#,
                r#"select * from info_tables t, "v$asm_disk""#,
            ),
            (
                "select cast('x' as pg_catalog.regclass), 'y'::regtype",
                r#"select pg_regclass('x' ) AS "cast('x' as pg_catalog.regclass)", pg_regtype('y') AS "'y'::regtype""#,
            ),
            (
                "select t.oid, e.label from pg_enum e, (select x.y, 1 from pg_type x) t group by t.oid, e.label order by oid",
                r#"select t.oid AS "oid", e.label AS "label" from pg_enum e, (select x.y AS "y", 1 AS "1" from pg_type x) t group by t.oid, e.label order by oid NULLS LAST"#,
            ),
            (
                "select * from current_schema()",
                "select * from (SELECT current_schema() AS current_schema)",
            ),
            (
                "select s.serial#, sid# AS n# from sys.v_$session s where s.serial#>5",
                "select s.\"serial#\" AS \"serial#\", \"sid#\" AS \"n#\" from v$session s where s.\"serial#\">5",
            ),
            ("select 1 minus select 2", r#"select 1 AS "1" EXCEPT select 2 AS "2""#),
            (
                "select a from b offset 2 rows fetch next 3 rows only",
                "select a from b LIMIT 3 OFFSET 2",
            ),
            ("select a from b fetch first row only", "select a from b LIMIT 1"),
            ("select rownum, a from b", "select row_number() OVER () AS \"rownum\", a from b"),
            (
                "select * from (select a from b order by 1) where rownum <= 5",
                "select * from (select a from b order by 1 NULLS LAST) where 1 LIMIT 5",
            ),
            // Rows are counted before they are ordered.
            (
                "select a from b where c = 1 and rownum < 3 order by a",
                "select a from (SELECT * FROM b WHERE c = 1 and 1 LIMIT 2 OFFSET 0) AS \"b\"  order by a NULLS LAST",
            ),
            (
                "select a from b where 3 >= rownum and c = 1",
                "select a from b where 1 and c = 1 LIMIT 3",
            ),
            (
                "select a from b where c = 1 and rownum between 1 and 3 and d = 2",
                "select a from b where c = 1 and 1 and d = 2 LIMIT 3",
            ),
            (
                "select a from b where rownum < 2 + 1",
                "select a from b where 1 LIMIT max(0, (2 + 1 ) - 1)",
            ),
        ] {
            assert_eq!(rewrite(query).expect(query).sql, sql);
        }
        for refused in [
            "select a from b where rownum > c",
            "select count(*) from b, c where rownum < 5",
            "select a from b where rownum < 5 or c = 1",
            "select * from b connect by prior x = y",
            "select ora_hash(a) from b",
        ] {
            let refusal = rewrite(refused).expect_err(refused);
            assert!(
                refusal.hint.is_some() && refusal.at.is_some() && refusal.state == "0A000",
                "{refused}: {refusal:?}"
            );
        }
    }

    /// The walk of a hierarchy: depth first, with paths, in Oracle's order.
    #[test]
    fn hierarchies_are_walked() {
        let connection = Connection::open_in_memory().expect("a database");
        super::super::functions::create(Registry::whole(&connection), "scott", Rules::PostgreSql)
            .expect("functions");
        let tree = "CREATE TABLE dual(dummy TEXT); INSERT INTO dual VALUES ('X');
            CREATE TABLE t(id, parent, name); INSERT INTO t VALUES
            (1, 0, 'db'), (2, 1, 'datafile'), (3, 2, 'users'), (4, 1, 'tempfile'), (5, 4, 'temp'), (6, 0, 'fra'), (7, 2, 'a')";
        connection.execute_batch(tree).expect("a tree");
        for (query, expected) in [
            (
                "SELECT SYS_CONNECT_BY_PATH(name, '/') FROM t START WITH parent = 0 CONNECT BY PRIOR id = parent",
                "/db|/db/datafile|/db/datafile/users|/db/datafile/a|/db/tempfile|/db/tempfile/temp|/fra",
            ),
            (
                "SELECT '+G' || SYS_CONNECT_BY_PATH(x.name, '/') p FROM (SELECT id, parent, name FROM t WHERE id < 5) x
                 WHERE LEVEL > 1 START WITH x.parent = 0 AND x.name LIKE 'd%' CONNECT BY PRIOR x.id = x.parent
                 ORDER SIBLINGS BY name DESC",
                "+G/db/tempfile|+G/db/datafile|+G/db/datafile/users",
            ),
            ("SELECT LEVEL FROM dual CONNECT BY LEVEL <= 4", "1|2|3|4"),
            (
                "SELECT name FROM t WHERE CONNECT_BY_ISLEAF = 1 START WITH parent = 0 CONNECT BY PRIOR id = parent",
                "users|a|temp|fra",
            ),
            (
                "SELECT lpad(' ', 2 * (LEVEL - 1)) || name || ' of ' || nvl(PRIOR name, '-') || ' in ' || CONNECT_BY_ROOT name
                 FROM t WHERE id IN (1, 3, 6) START WITH parent = 0 CONNECT BY parent = PRIOR id ORDER BY id",
                "db of - in db|    users of datafile in db|fra of - in fra",
            ),
            (
                "SELECT count(*) || '' FROM (SELECT name n FROM t START WITH id = 1 CONNECT BY PRIOR id = parent) WHERE n <> 'x'",
                "6",
            ),
        ] {
            let rewritten = rewrite(query).expect(query);
            let mut statement =
                connection.prepare(&rewritten.sql).unwrap_or_else(|error| panic!("{query}\n{}\n{error}", rewritten.sql));
            let rows = statement.query_map([], |row| row.get::<_, rusqlite::types::Value>(0)).expect("rows");
            let rows: Vec<String> = rows
                .map(|row| match row.expect("a row") {
                    rusqlite::types::Value::Integer(number) => number.to_string(),
                    rusqlite::types::Value::Text(text) => text,
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(rows.join("|"), expected, "{query}");
        }
        // An error inside points at its position in the original.
        let query = "SELECT name FROM t START WITH nonsense = 0 CONNECT BY PRIOR id = parent";
        let rewritten = rewrite(query).expect(query);
        let byte = rewritten.sql.find("nonsense").expect("it is still there");
        assert_eq!(rewritten.origin(byte), query.find("nonsense").expect("it is there"));
    }

    #[test]
    fn places_survive_rewriting() {
        let query = "select é::text, a ilike b, nonsense";
        let rewritten = rewrite(query).expect("rewritten");
        let byte = rewritten.sql.find("nonsense").expect("still there");
        let expected = query.chars().count() - "nonsense".len();
        assert_eq!(rewritten.origin(byte), expected);
        assert_eq!(rewritten.origin(0), 0);
        let _ = rewritten.origin(usize::MAX);
    }
}
