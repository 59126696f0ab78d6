//! Infers the types of a result's columns and of parameters from the text, before anything runs.
//!
//! SQLite knows the type of a column that a view declares, and nothing about expressions. Clients
//! that prepare statements need the types beforehand. So this file infers them: from the table of
//! functions below, from operators and their operands, and from the columns that a parameter is
//! compared with. A type that cannot be inferred is `None`.

use super::{
    pg_compat::{WORDS_MAX, catalog, operands},
    views::{self, Type},
};
use crate::sql::tokens::{Kind, Token};

const INTEGERS: [&str; 27] = [
    "ascii",
    "count",
    "dense_rank",
    "instr",
    "length",
    "level",
    "ntile",
    "octet_length",
    "pg_backend_pid",
    "position",
    "rank",
    "regexp_count",
    "row_number",
    "strpos",
    "unicode",
    "char_length",
    "plinth_int",
    "sign",
    "bitand",
    "regexp_instr",
    "grouping",
    "grouping_id",
    "plinth_match",
    "lnnvl",
    "width_bucket",
    "bin_to_num",
    "lengthb",
];
const REALS: [&str; 44] = [
    "acos",
    "asin",
    "atan",
    "avg",
    "cos",
    "cume_dist",
    "exp",
    "ln",
    "log",
    "months_between",
    "percent_rank",
    "plinth_number",
    "power",
    "pow",
    "sin",
    "sqrt",
    "total",
    "to_number",
    "plinth_over",
    "numtodsinterval",
    "median",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "variance",
    "var_pop",
    "var_samp",
    "percentile_cont",
    "percentile_disc",
    "ratio_to_report",
    "remainder",
    "atan2",
    "cosh",
    "sinh",
    "tan",
    "tanh",
    "plinth_decimal",
    "plinth_interval",
    "to_dsinterval",
    // Intervals of months are texts, but one is added to a time as days are.
    "numtoyminterval",
    "to_yminterval",
    "to_binary_double",
    "to_binary_float",
    "plinth_to_number_or",
];
const TEXTS: [&str; 64] = [
    "chr",
    "concat",
    "concat_ws",
    "current_catalog",
    "current_database",
    "current_schema",
    "current_user",
    "date",
    "datetime",
    "format",
    "format_type",
    "group_concat",
    "hex",
    "initcap",
    "left",
    "listagg",
    "lower",
    "lpad",
    "ltrim",
    "obj_description",
    "pg_get_userbyid",
    "pg_size_pretty",
    "printf",
    "quote",
    "quote_ident",
    "quote_literal",
    "regexp_replace",
    "regexp_substr",
    "replace",
    "reverse",
    "right",
    "rpad",
    "rtrim",
    "session_user",
    "split_part",
    "strftime",
    "string_agg",
    "substr",
    "substring",
    "sys_connect_by_path",
    "sys_context",
    "time",
    "to_char",
    "translate",
    "trim",
    "upper",
    "userenv",
    "version",
    "btrim",
    "rawtohex",
    "json_object",
    "json_array",
    "plinth_text",
    "plinth_char",
    "nls_upper",
    "nls_lower",
    "nls_initcap",
    "nlssort",
    "soundex",
    "to_nchar",
    "to_clob",
    "tz_offset",
    "dbtimezone",
    "sessiontimezone",
];
/// Functions and words that return a time.
const TIMES: [&str; 17] = [
    "add_months",
    "current_timestamp",
    "last_day",
    "localtimestamp",
    "now",
    "sysdate",
    "systimestamp",
    "to_date",
    "plinth_time",
    "plinth_cast_date",
    "plinth_at_zone",
    "plinth_to_date_or",
    "next_day",
    "from_tz",
    "sys_extract_utc",
    "new_time",
    "to_timestamp_tz",
];
/// Functions whose result has the type of some of their arguments: the first of these, and the step
/// from one to the next.
const SAME: [(&str, usize, usize); 18] = [
    // (name, first argument, step)
    ("abs", 0, 9),
    ("ceil", 0, 9),
    ("ceiling", 0, 9),
    ("coalesce", 0, 1),
    ("first_value", 0, 9),
    ("floor", 0, 9),
    ("greatest", 0, 1),
    ("ifnull", 0, 1),
    ("lag", 0, 9),
    ("last_value", 0, 9),
    ("lead", 0, 9),
    ("least", 0, 1),
    ("max", 0, 1),
    ("min", 0, 1),
    ("mod", 0, 1),
    ("nullif", 0, 9),
    ("nvl", 0, 1),
    ("nvl2", 1, 1),
];
const COMPARISONS: [&str; 11] = ["=", "<", ">", "<=", ">=", "<>", "!=", "==", "~", "!~", "~*"];
const PREDICATES: [&str; 12] = [
    "AND", "OR", "NOT", "LIKE", "ILIKE", "IN", "IS", "BETWEEN", "EXISTS", "REGEXP", "ISNULL",
    "NOTNULL",
];
/// Words that are texts.
const WORDS: [&str; 3] = ["current_date", "current_time", "user"];

/// The types of the columns of a query's result that can be inferred from its text, if the text has
/// `count` columns.
#[must_use]
pub fn of_columns(tokens: &[Token], count: usize) -> Vec<Option<Type>> {
    let items = items(tokens).unwrap_or_default();
    if items.len() != count {
        // There is a `*` among them: the types of plain columns are known anyway.
        return vec![None; count];
    }
    items.into_iter().map(|item| of(without_alias(item))).collect()
}

/// The types of `$1`, `$2` ..., inferred from comparisons.
#[must_use]
pub fn of_parameters(tokens: &[Token]) -> Vec<Option<Type>> {
    let mut found: Vec<Option<Type>> = Vec::new();
    if tokens.len() > WORDS_MAX {
        // The query will be refused.
        return found;
    }
    for (at, token) in tokens.iter().enumerate() {
        let Kind::Symbol(symbol) = &token.kind else { continue };
        let number: Option<usize> = symbol.strip_prefix('$').and_then(|digits| digits.parse().ok());
        let Some(index) =
            number.and_then(|number| number.checked_sub(1)).filter(|index| *index < 1000)
        else {
            continue;
        };
        if found.len() <= index {
            found.resize(index + 1, None);
        }
        if let Some(known @ None) = found.get_mut(index) {
            *known = compared_with(tokens, at);
        }
    }
    found
}

fn compared_with(tokens: &[Token], at: usize) -> Option<Type> {
    let token = |at: usize| tokens.get(at);
    let next = token(at + 1);
    if next.is_some_and(|next| next.is_symbol("::")) {
        return declared(tokens.get(at + 2..)?);
    }
    let before = at.checked_sub(1).and_then(token)?;
    if before.is_symbol("(")
        && next.is_some_and(|next| next.is("AS"))
        && at.checked_sub(2).and_then(token).is_some_and(|cast| cast.is("CAST"))
    {
        return declared(tokens.get(at + 2..)?);
    }
    let operand_before = |end: usize| of(tokens.get(operands::start(tokens, end)?..end)?);
    let is_comparison = |token: &Token| COMPARISONS.iter().any(|symbol| token.is_symbol(symbol));
    if before.is("LIMIT") || before.is("OFFSET") || before.is("FIRST") {
        return Some(Type::Integer);
    }
    if before.is("LIKE") || before.is("ILIKE") || before.is_symbol("||") {
        return Some(Type::Text);
    }
    if is_comparison(before) || before.is("BETWEEN") {
        return operand_before(at - 1);
    }
    if before.is("AND") && at.checked_sub(3).and_then(token).is_some_and(|word| word.is("BETWEEN"))
    {
        return operand_before(at - 3);
    }
    if let Some(next) = next
        && is_comparison(next)
    {
        return of(tokens.get(at + 2..operands::end(tokens, at + 2))?);
    }
    // IN ($1, $2)
    let open = tokens.get(..at)?.iter().rposition(|token| token.is_symbol("("))?;
    let within = tokens.get(open + 1..at)?;
    let listed = within.iter().all(|token| {
        token.is_symbol(",")
            || matches!(&token.kind, Kind::Symbol(symbol) if symbol.starts_with('$'))
            || matches!(token.kind, Kind::Number(_) | Kind::String(_))
    });
    let word = open.checked_sub(1).and_then(token)?;
    if listed && word.is("IN") {
        let negated = open.checked_sub(2).and_then(token).is_some_and(|word| word.is("NOT"));
        return operand_before(open - 1 - usize::from(negated));
    }
    None
}

/// The items of the first SELECT's list.
fn items(tokens: &[Token]) -> Option<Vec<&[Token]>> {
    let mut depth = 0_usize;
    let mut select = None;
    for (at, token) in tokens.iter().enumerate() {
        if token.is_symbol("(") {
            depth += 1;
        } else if token.is_symbol(")") {
            depth = depth.saturating_sub(1);
        } else if depth == 0 && token.is("SELECT") {
            select = Some(at + 1);
            break;
        }
    }
    let items = operands::items(tokens.get(select?..)?);
    items.iter().all(|item| !item.last().is_none_or(|last| last.is_symbol("*"))).then_some(items)
}

/// An item without its `AS name`, or its name alone.
pub(super) fn without_alias(item: &[Token]) -> &[Token] {
    let as_at =
        operands::split(item, |token| token.is("AS")).first().map_or(item.len(), |part| part.len());
    let item = item.get(..as_at).unwrap_or_default();
    match item {
        [.., before, last] => {
            let is_name = matches!(last.kind, Kind::Word(_) | Kind::Quoted(_)) && !last.is("END");
            let ends_operand = match &before.kind {
                Kind::Symbol(symbol) => symbol == ")" || symbol.starts_with('$'),
                Kind::Word(_) => before.is("END") || operands::is_operand_word(before),
                _ => true,
            };
            if is_name && ends_operand {
                item.get(..item.len() - 1).unwrap_or_default()
            } else {
                item
            }
        }
        _ => item,
    }
}

/// The type of an expression.
pub(super) fn of(tokens: &[Token]) -> Option<Type> {
    of_depth(tokens, 0)
}

fn of_depth(tokens: &[Token], depth: usize) -> Option<Type> {
    // Deeper than people write; but clients may send anything.
    if depth > 40 {
        return None;
    }
    let inner = |tokens: &[Token]| of_depth(tokens, depth + 1);
    let first = tokens.first()?;
    if first.is_symbol("(") && operands::closing(tokens, 0) == Some(tokens.len() - 1) {
        let inside = tokens.get(1..tokens.len() - 1)?;
        return match inside.first() {
            Some(word) if word.is("SELECT") => inner(without_alias(items(inside)?.first()?)),
            _ => inner(inside),
        };
    }
    if first.is("CASE") {
        return (operands::end(tokens, 0) == tokens.len())
            .then(|| of_case(tokens, depth))
            .flatten();
    }
    if tokens
        .iter()
        .any(|token| PREDICATES.iter().any(|word| token.is(word)) || is_comparison(token))
    {
        let outside = |parts: Vec<&[Token]>| parts.len() > 1;
        if outside(operands::split(tokens, |token| {
            PREDICATES.iter().any(|word| token.is(word)) || is_comparison(token)
        })) {
            return Some(Type::Integer);
        }
    }
    if operands::split(tokens, |token| token.is_symbol("||")).len() > 1 {
        return Some(Type::Text);
    }
    let operators = operators(tokens);
    if !operators.is_empty() {
        return of_sum(tokens, operators, depth);
    }
    // Casts within parentheses are of a part.
    if let [_, .., name] = &operands::split(tokens, |token| token.is_symbol("::"))[..]
        && operands::end(tokens, 0) == tokens.len()
    {
        return declared(name);
    }
    match &first.kind {
        Kind::Symbol(symbol) if (symbol == "-" || symbol == "+") && tokens.len() > 1 => {
            return inner(tokens.get(1..)?);
        }
        Kind::String(_) if tokens.len() == 1 => return Some(Type::Text),
        Kind::Number(digits) if tokens.len() == 1 => {
            let is_integer = digits.parse::<i64>().is_ok();
            return Some(if is_integer { Type::Integer } else { Type::Real });
        }
        Kind::Word(_) | Kind::Quoted(_) => {}
        _ => return None,
    }
    if let Some(open) = tokens.iter().position(|token| token.is_symbol("(")) {
        return of_call_at(tokens, open, depth);
    }
    if first.is("INTERVAL") && tokens.len() > 1 {
        // Days.
        return Some(Type::Real);
    }
    let last = tokens.last()?;
    let dotted = tokens.len() > 1 && tokens.get(tokens.len() - 2)?.is_symbol(".");
    match &last.kind {
        Kind::Word(name) | Kind::Quoted(name) if dotted || tokens.len() == 1 => {
            of_name(&name.to_lowercase())
        }
        // DATE '2026-01-01'
        Kind::String(_) if tokens.len() == 2 && (first.is("DATE") || first.is("TIMESTAMP")) => {
            Some(Type::Time)
        }
        Kind::String(_) if tokens.len() == 2 => Some(Type::Text),
        _ => None,
    }
}

/// The positions of arithmetic operators between two operands, outside of parentheses.
fn operators(tokens: &[Token]) -> Vec<usize> {
    let is_binary = |at: usize| at > 0 && operands::start(tokens, at).is_some();
    let mut operators = Vec::new();
    let mut level = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        if token.is_symbol("(") {
            level += 1;
        } else if token.is_symbol(")") {
            level = level.saturating_sub(1);
        } else if level == 0
            && ["+", "-", "*", "/", "%"].iter().any(|symbol| token.is_symbol(symbol))
            && is_binary(at)
        {
            operators.push(at);
        }
    }
    operators
}

/// The type of the result of these operators on the operands between them.
fn of_sum(tokens: &[Token], operators: Vec<usize>, depth: usize) -> Option<Type> {
    let is =
        |at: &usize, symbol: &str| tokens.get(*at).is_some_and(|token| token.is_symbol(symbol));
    let divides = operators.iter().any(|at| is(at, "/"));
    let sums: Vec<usize> =
        operators.iter().copied().filter(|at| is(at, "+") || is(at, "-")).collect();
    if divides && sums.is_empty() {
        return Some(Type::Real);
    }
    let mut from = 0;
    let mut parts = Vec::new();
    let between = if sums.is_empty() { &operators } else { &sums };
    for at in between.iter().copied().chain([tokens.len()]) {
        parts.push(tokens.get(from..at)?);
        from = at + 1;
    }
    let kinds: Vec<Option<Type>> =
        parts.into_iter().map(|part| of_depth(part, depth + 1)).collect();
    if kinds.contains(&Some(Type::Time)) {
        return of_times(&kinds, sums.iter().map(|at| is(at, "-")));
    }
    if divides { Some(Type::Real) } else { numbers(kinds.into_iter()) }
}

/// The type of a sum of times and days, from the left: a time and days are a time, one time minus
/// another is days. `minus`: of each operator, whether it is a minus.
fn of_times(kinds: &[Option<Type>], minus: impl Iterator<Item = bool>) -> Option<Type> {
    let (first, rest) = kinds.split_first()?;
    rest.iter().zip(minus).try_fold((*first)?, |sum, (next, minus)| match (sum, (*next)?) {
        (Type::Time, Type::Time) if minus => Some(Type::Real),
        (Type::Time, Type::Integer | Type::Real) => Some(Type::Time),
        (Type::Integer | Type::Real, Type::Time) if !minus => Some(Type::Time),
        (Type::Integer | Type::Real, Type::Integer | Type::Real) => Some(Type::Real),
        _ => None,
    })
}

/// The type of a call whose `(` is at `open`.
fn of_call_at(tokens: &[Token], open: usize, depth: usize) -> Option<Type> {
    let close = operands::closing(tokens, open)?;
    // An aggregate may be followed by FILTER, OVER, WITHIN GROUP.
    let behind = tokens.get(close + 1);
    if behind.is_some_and(|word| !(word.is("OVER") || word.is("FILTER") || word.is("WITHIN"))) {
        return None;
    }
    let name = open.checked_sub(1).and_then(|at| tokens.get(at))?;
    let (Kind::Word(name) | Kind::Quoted(name)) = &name.kind else { return None };
    of_call(&name.to_lowercase(), tokens.get(open + 1..close)?, depth)
}

fn is_comparison(token: &Token) -> bool {
    COMPARISONS.iter().any(|symbol| token.is_symbol(symbol))
}

fn of_name(name: &str) -> Option<Type> {
    match name {
        "rownum" | "level" | "connect_by_iscycle" | "connect_by_isleaf" | "inst_id" | "true"
        | "false" => return Some(Type::Integer),
        name if TIMES.contains(&name) => return Some(Type::Time),
        name if WORDS.contains(&name) => return Some(Type::Text),
        _ => {}
    }
    let columns = views::all().flat_map(|view| &view.columns).filter(|(column, _)| *column == name);
    let mut kinds = columns.map(|(_, kind)| *kind);
    let Some(first) = kinds.next() else { return catalog::kind_of(name) };
    kinds.all(|kind| kind == first).then_some(first)
}

fn of_call(name: &str, inside: &[Token], depth: usize) -> Option<Type> {
    let inside = match inside.first() {
        Some(first) if first.is("DISTINCT") => inside.get(1..)?,
        _ => inside,
    };
    let arguments = operands::split(inside, |token| token.is_symbol(","));
    let inner = |tokens: &[Token]| of_depth(tokens, depth + 1);
    let first = || arguments.first().and_then(|first| inner(first));
    if INTEGERS.contains(&name) {
        return Some(Type::Integer);
    }
    if REALS.contains(&name) {
        return Some(Type::Real);
    }
    if TEXTS.contains(&name) {
        return Some(Type::Text);
    }
    if TIMES.contains(&name) || name == "to_timestamp" {
        return Some(Type::Time);
    }
    if let Some((_, from, step)) = SAME.iter().find(|(same, ..)| *same == name) {
        return together(
            arguments
                .iter()
                .skip(*from)
                .step_by(*step)
                .map(|argument| (is_null(argument), inner(argument))),
        );
    }
    match name {
        "sum" => first().filter(|kind| !matches!(kind, Type::Text | Type::Time)),
        // Of a time, the result is a time.
        "trunc" | "round" => first()
            .map(|kind| if kind == Type::Text || kind == Type::Time { kind } else { Type::Real }),
        "decode" => {
            let results = arguments.iter().enumerate().skip(2);
            let otherwise = arguments.len() % 2 == 0;
            let results =
                results.filter(|(at, _)| at % 2 == 0 || otherwise && at + 1 == arguments.len());
            together(results.map(|(_, argument)| (is_null(argument), inner(argument))))
        }
        // Whether a DATE has a time of day depends on the rules; its values tell.
        "cast" => declared(operands::split(inside, |token| token.is("AS")).get(1)?)
            .filter(|_| !inside.last().is_some_and(|last| last.is("DATE"))),
        _ => None,
    }
}

fn of_case(tokens: &[Token], depth: usize) -> Option<Type> {
    let mut results = Vec::new();
    let (mut level, mut from) = (0_usize, None);
    for (at, token) in tokens.iter().enumerate() {
        if token.is_symbol("(") || token.is("CASE") {
            level += 1;
        } else if token.is_symbol(")") {
            level = level.saturating_sub(1);
        }
        if level == 1 && (token.is("WHEN") || token.is("ELSE") || token.is("END")) {
            results.extend(from.take().and_then(|from| tokens.get(from..at)));
        }
        if level == 1 && (token.is("THEN") || token.is("ELSE")) {
            from = Some(at + 1);
        }
        if token.is("END") {
            level = level.saturating_sub(1);
        }
    }
    together(results.into_iter().map(|result| (is_null(result), of_depth(result, depth + 1))))
}

fn is_null(tokens: &[Token]) -> bool {
    matches!(tokens, [one] if one.is("NULL"))
}

/// The common type of several values, of which each may be the result; NULLs fit every type.
fn together(kinds: impl Iterator<Item = (bool, Option<Type>)>) -> Option<Type> {
    let mut found = None;
    for (_, kind) in kinds.filter(|(is_null, _)| !is_null) {
        found = match (found, kind?) {
            (None, kind) => Some(kind),
            (Some(found), kind) if found == kind => Some(kind),
            (Some(Type::Integer | Type::Real), Type::Integer | Type::Real) => Some(Type::Real),
            _ => return None,
        };
    }
    found
}

/// The type of a sum.
fn numbers(kinds: impl Iterator<Item = Option<Type>>) -> Option<Type> {
    together(kinds.map(|kind| (false, kind)))
        .filter(|kind| !matches!(kind, Type::Text | Type::Time))
}

/// The type that a type name of PostgreSQL or Oracle stands for.
fn declared(tokens: &[Token]) -> Option<Type> {
    let name = match tokens {
        [schema, dot, name, ..] if schema.is("pg_catalog") && dot.is_symbol(".") => name,
        [name, ..] => name,
        [] => return None,
    };
    let (Kind::Word(name) | Kind::Quoted(name)) = &name.kind else { return None };
    Some(match name.to_lowercase().as_str() {
        "int" | "int2" | "int4" | "int8" | "integer" | "bigint" | "smallint" | "oid" => {
            Type::Integer
        }
        "real" | "float" | "float4" | "float8" | "double" | "numeric" | "decimal" | "number" => {
            Type::Real
        }
        "text" | "varchar" | "varchar2" | "char" | "character" | "nvarchar2" | "date" => Type::Text,
        "timestamp" | "timestamptz" => Type::Time,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Query;

    fn tokens(query: &str) -> Vec<Token> {
        Query::new(query).expect(query).tokens
    }

    /// Parameters that drivers pass in queries on PostgreSQL's catalog get the types of its
    /// columns.
    #[test]
    fn columns_of_the_catalog_have_types() {
        let query = "SELECT 1 FROM pg_type AS t WHERE t.oid = $1 AND t.typname = $2 AND t.typbyval = $3 AND nothing = $4";
        assert_eq!(
            of_parameters(&tokens(query)),
            [Some(Type::Integer), Some(Type::Text), Some(Type::Truth), None]
        );
    }

    #[test]
    fn types_follow_from_functions() {
        for (expression, kind) in [
            ("count(*)", Some(Type::Integer)),
            ("COUNT(DISTINCT name) n", Some(Type::Integer)),
            ("sum(total_mb) AS mb", Some(Type::Integer)),
            ("sum(read_time)", Some(Type::Real)),
            ("sum(nobody_knows)", None),
            ("avg(total_mb)", Some(Type::Real)),
            ("upper(name)", Some(Type::Text)),
            ("max(d.total_mb)", Some(Type::Integer)),
            ("total_mb - free_mb used", Some(Type::Integer)),
            ("(total_mb - free_mb) / total_mb * 100", Some(Type::Real)),
            ("round(free_mb / 1024, 1)", Some(Type::Real)),
            ("trunc(sysdate)", Some(Type::Time)),
            ("sysdate", Some(Type::Time)),
            ("max(d.mount_date)", Some(Type::Time)),
            ("nvl(create_date, sysdate)", Some(Type::Time)),
            ("nvl(create_date, 'none')", None),
            ("sysdate - 1 / 24", Some(Type::Time)),
            ("now() - interval '2 hours'", Some(Type::Time)),
            ("now() - interval '2' hour", Some(Type::Time)),
            ("free_mb / 2 - nothing", Some(Type::Real)),
            ("sysdate - 1", Some(Type::Time)),
            ("1 + to_date('2026-01-01', 'YYYY-MM-DD')", Some(Type::Time)),
            ("sysdate - mount_date", Some(Type::Real)),
            ("sysdate - mount_date + 1", Some(Type::Real)),
            ("(sysdate - mount_date) * 24", Some(Type::Real)),
            ("date '2026-01-01'", Some(Type::Time)),
            ("to_char(mount_date, 'YYYY')", Some(Type::Text)),
            ("'2026-01-01'::timestamp", Some(Type::Time)),
            ("now()::date", Some(Type::Text)),
            ("to_char('2026-01-01'::timestamp, 'YYYY')", Some(Type::Text)),
            ("1::int::text", Some(Type::Text)),
            ("'0.5'::numeric(5, 2)", Some(Type::Real)),
            ("name || '/' || path", Some(Type::Text)),
            ("nvl(name, 'x')", Some(Type::Text)),
            ("nvl(free_mb, 0.5)", Some(Type::Real)),
            ("decode(state, 'NORMAL', 1, 'HUNG', 2, NULL)", Some(Type::Integer)),
            ("decode(1, 2, 'a', 3)", None),
            ("CASE WHEN free_mb > 1 THEN 'a' ELSE NULL END x", Some(Type::Text)),
            ("case when 1 = 1 then (case when 2 = 2 then 3 end) else 4 end", Some(Type::Integer)),
            ("cast(name AS varchar2(30))", Some(Type::Text)),
            ("'5'::int", Some(Type::Integer)),
            ("free_mb > 100", Some(Type::Integer)),
            ("-1", Some(Type::Integer)),
            ("count(*) over (partition by name)", Some(Type::Integer)),
            ("(select max(free_mb) from v$asm_disk)", Some(Type::Integer)),
            ("state", Some(Type::Text)),
            ("bytes", Some(Type::Integer)),
            ("$1", None),
        ] {
            assert_eq!(
                of_columns(&tokens(&format!("SELECT {expression} FROM v$asm_disk d")), 1),
                [kind],
                "{expression}"
            );
        }
        assert_eq!(of_columns(&tokens("SELECT *, 1 FROM x"), 5), [None; 5]);
        assert_eq!(
            of_columns(&tokens("WITH a AS (SELECT 'x' FROM b) SELECT 1, 'y'"), 2),
            [Some(Type::Integer), Some(Type::Text)]
        );
    }

    #[test]
    fn parameters_are_what_they_are_compared_with() {
        for (query, kinds) in [
            (
                "SELECT 1 FROM t WHERE group_number = $1 AND name = $2",
                &[Some(Type::Integer), Some(Type::Text)][..],
            ),
            (
                "SELECT $1::int, CAST($2 AS text), $3",
                &[Some(Type::Integer), Some(Type::Text), None],
            ),
            ("SELECT 1 WHERE $1 < d.read_time", &[Some(Type::Real)]),
            (
                "SELECT 1 WHERE mod(group_number, 4) BETWEEN $1 AND $2",
                &[Some(Type::Integer), Some(Type::Integer)],
            ),
            ("SELECT 1 WHERE name LIKE $1 LIMIT $2", &[Some(Type::Text), Some(Type::Integer)]),
            (
                "SELECT 1 WHERE disk_number NOT IN (1, $2, $1)",
                &[Some(Type::Integer), Some(Type::Integer)],
            ),
            ("SELECT 1 WHERE rownum <= $1", &[Some(Type::Integer)]),
            (
                "SELECT 1 WHERE mount_date >= $1 OR $2 < sysdate",
                &[Some(Type::Time), Some(Type::Time)],
            ),
            ("SELECT $1::timestamp, $2::timestamptz", &[Some(Type::Time), Some(Type::Time)]),
        ] {
            assert_eq!(of_parameters(&tokens(query)), kinds, "{query}");
        }
    }
}
