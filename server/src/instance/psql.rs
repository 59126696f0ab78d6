//! What PostgreSQL's clients take for granted, turned into what SQLite takes.
//!
//! Three things: habits of the language (`x::text`, `ILIKE`, `E'..'`, `~`), functions (`version()`), and as much of
//! PostgreSQL's catalog as `psql` reads for `\d`, `\dv` and for completing names. Statements are rewritten token by
//! token; [`Rewritten`] knows where each byte came from, so that errors still point at the client's text.

use super::views::{Type, VIEWS};
use crate::{
    refusal::Refusal,
    sql::tokens::{Kind, Text, Token},
};
use rusqlite::{
    Connection,
    functions::{Context, FunctionFlags},
};
use std::{fmt::Write, time::SystemTime};

/// What we say to be: a version of PostgreSQL whose catalog queries we know.
pub const SERVER_VERSION: &str = "15.0";

/// A statement in SQLite's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    pub sql: String,
    /// (byte in `sql`, character in the original): where copied pieces start.
    pieces: Vec<(usize, usize)>,
}

impl Rewritten {
    /// The character of the original that a byte of `sql` stands for.
    #[must_use]
    pub fn origin(&self, byte: usize) -> usize {
        let (from, at) = self.pieces.iter().rev().find(|(from, _)| *from <= byte).copied().unwrap_or_default();
        let between = self.sql.get(from..byte.min(self.sql.len())).map_or(0, |piece| piece.chars().count());
        at + between
    }
}

/// Rewrites one query.
///
/// # Errors
/// If it cannot be cut into tokens.
pub fn rewrite(query: &str) -> Result<Rewritten, Refusal> {
    let text = Text::new(query)?;
    let tokens: Vec<&Token> = text.statements().flatten().collect();
    let mut out = Rewritten { sql: String::with_capacity(query.len() + 16), pieces: vec![(0, 0)] };
    let mut copied = 0;
    let mut next = 0;
    while let Some(token) = tokens.get(next) {
        let rest = tokens.get(next..).unwrap_or_default();
        let before = next.checked_sub(1).and_then(|before| tokens.get(before)).copied();
        let Some((count, replacement)) = replacement(before, rest) else {
            next += 1;
            continue;
        };
        out.sql.push_str(text.between(copied, token.start));
        out.pieces.push((out.sql.len(), token.start));
        out.sql.push_str(&replacement);
        copied = rest.get(count - 1).map_or(token.end, |last| last.end);
        out.pieces.push((out.sql.len(), copied));
        next += count;
    }
    let end = tokens.last().map_or(0, |last| last.end);
    out.sql.push_str(text.between(copied, end.max(copied)));
    Ok(out)
}

/// Keywords after which `~` is the operator of one operand.
const BEFORE_OPERAND: [&str; 10] = ["select", "where", "and", "or", "not", "by", "on", "when", "then", "else"];

/// What stands for the next tokens, and how many of them; `None`: they stay.
fn replacement(before: Option<&Token>, rest: &[&Token]) -> Option<(usize, String)> {
    let first = rest.first()?;
    let symbol = |at: usize, symbol: &str| rest.get(at).is_some_and(|token| token.is_symbol(symbol));
    match &first.kind {
        Kind::Symbol(mark) if mark == "::" => Some((1 + type_name(rest.get(1..)?), " ".into())),
        Kind::Symbol(mark) if mark == "!~" || mark == "!~*" => Some((1, " NOT REGEXP ".into())),
        Kind::Symbol(mark) if mark == "~" || mark == "~*" => {
            let operand = before.is_some_and(|before| match &before.kind {
                Kind::Symbol(mark) => mark == ")",
                Kind::Word(word) => !BEFORE_OPERAND.iter().any(|keyword| word.eq_ignore_ascii_case(keyword)),
                _ => true,
            });
            operand.then(|| (1, " REGEXP ".into()))
        }
        // Strings with backslashes: written out.
        Kind::String(value) if first.end - first.start != value.chars().count() + 2 + value.matches('\'').count() => {
            Some((1, format!("'{}'", value.replace('\'', "''"))))
        }
        Kind::Word(word) => match word.to_ascii_lowercase().as_str() {
            "pg_catalog" | "public" if symbol(1, ".") => Some((2, String::new())),
            "ilike" => Some((1, "LIKE".into())),
            "collate" if rest.get(1)?.is("pg_catalog") && symbol(2, ".") => Some((4, " ".into())),
            "operator" if symbol(1, "(") => {
                let close = rest.iter().position(|token| token.is_symbol(")"))?;
                let operator = match &rest.get(close - 1)?.kind {
                    Kind::Symbol(mark) if mark == "~" || mark == "~*" => " REGEXP ".into(),
                    Kind::Symbol(mark) if mark == "!~" || mark == "!~*" => " NOT REGEXP ".into(),
                    Kind::Symbol(mark) => mark.clone(),
                    _ => return None,
                };
                Some((close + 1, operator))
            }
            "current_user" | "session_user" | "user" | "current_schema" | "current_catalog"
                if !symbol(1, "(") && !before.is_some_and(|before| before.is_symbol(".") || before.is("AS")) =>
            {
                (!(word.eq_ignore_ascii_case("user"))).then(|| (1, format!("{word}()")))
            }
            _ => None,
        },
        _ => None,
    }
}

/// How many tokens the name of a type has: `text`, `pg_catalog.regclass`, `numeric(5, 2)`, `double precision`, `int[]`.
fn type_name(tokens: &[&Token]) -> usize {
    let word = |at: usize| matches!(tokens.get(at).map(|token| &token.kind), Some(Kind::Word(_) | Kind::Quoted(_)));
    let symbol = |at: usize, symbol: &str| tokens.get(at).is_some_and(|token| token.is_symbol(symbol));
    if !word(0) {
        return 0;
    }
    let mut count = 1;
    if symbol(1, ".") && word(2) {
        count = 3;
    }
    if tokens.get(count).is_some_and(|token| token.is("precision") || token.is("varying")) {
        count += 1;
    }
    if symbol(count, "(") {
        while tokens.get(count).is_some() && !symbol(count, ")") {
            count += 1;
        }
        count += 1;
    }
    while symbol(count, "[") && symbol(count + 1, "]") {
        count += 2;
    }
    count.min(tokens.len())
}

/// The first `oid` of a view; the next 16384 are the catalog's own in PostgreSQL.
const FIRST_OID: usize = 16_384;

fn oid(kind: Type) -> i64 {
    match kind {
        Type::Integer => 20,
        Type::Real => 701,
        Type::Text => 25,
    }
}

fn type_of(oid: i64) -> &'static str {
    match oid {
        16 => "boolean",
        20 => "bigint",
        23 => "integer",
        701 => "double precision",
        _ => "text",
    }
}

/// Names of all views and their twins, with their columns.
fn relations() -> impl Iterator<Item = (String, &'static [(&'static str, Type)])> {
    VIEWS.iter().flat_map(|view| {
        let twin = view.has_twin.then(|| (format!("{}_stat", view.name), view.columns));
        std::iter::once((view.name.to_owned(), view.columns)).chain(twin)
    })
}

/// The part of PostgreSQL's catalog that `psql` reads.
pub fn create_catalog(connection: &Connection, user: &str) -> rusqlite::Result<()> {
    let mut sql = String::from(
        "CREATE TABLE pg_namespace(oid INTEGER, nspname TEXT, nspowner INTEGER);
         INSERT INTO pg_namespace VALUES (2200, 'public', 10), (11, 'pg_catalog', 10);
         CREATE TABLE pg_am(oid INTEGER, amname TEXT);
         CREATE TABLE pg_class(oid INTEGER, relname TEXT, relnamespace INTEGER, relkind TEXT, relowner INTEGER,
             relam INTEGER, reltablespace INTEGER, reltuples REAL, relpages INTEGER, relchecks INTEGER,
             relhasindex TEXT, relhasrules TEXT, relhastriggers TEXT, relrowsecurity TEXT, relforcerowsecurity TEXT,
             relispartition TEXT, relpersistence TEXT, relreplident TEXT, reloftype INTEGER, reltoastrelid INTEGER,
             reloptions TEXT, relpartbound TEXT, relacl TEXT);
         CREATE TABLE pg_attribute(attrelid INTEGER, attname TEXT, atttypid INTEGER, atttypmod INTEGER,
             attnum INTEGER, attnotnull TEXT, atthasdef TEXT, attisdropped TEXT, attcollation INTEGER,
             attidentity TEXT, attgenerated TEXT, attstorage TEXT, attcompression TEXT, attstattarget INTEGER,
             attacl TEXT, attfdwoptions TEXT);
         CREATE TABLE pg_type(oid INTEGER, typname TEXT, typcollation INTEGER, typnamespace INTEGER, typtype TEXT,
             typrelid INTEGER, typelem INTEGER);
         INSERT INTO pg_type VALUES (16, 'bool', 0, 11, 'b', 0, 0), (20, 'int8', 0, 11, 'b', 0, 0),
             (23, 'int4', 0, 11, 'b', 0, 0), (25, 'text', 100, 11, 'b', 0, 0), (701, 'float8', 0, 11, 'b', 0, 0);
         CREATE TABLE pg_attrdef(oid INTEGER, adrelid INTEGER, adnum INTEGER, adbin TEXT);
         CREATE TABLE pg_collation(oid INTEGER, collname TEXT);
         CREATE TABLE pg_description(objoid INTEGER, classoid INTEGER, objsubid INTEGER, description TEXT);
         CREATE TABLE pg_roles(oid INTEGER, rolname TEXT, rolsuper TEXT);
         CREATE TABLE pg_database(oid INTEGER, datname TEXT, datdba INTEGER, encoding INTEGER, datcollate TEXT,
             datctype TEXT, datacl TEXT, datallowconn TEXT, datistemplate TEXT, datlocprovider TEXT,
             daticulocale TEXT);
         INSERT INTO pg_database VALUES (1, 'plinth', 10, 6, 'C', 'C', NULL, 't', 'f', 'c', NULL);
         CREATE TABLE pg_index(indexrelid INTEGER, indrelid INTEGER, indisprimary TEXT);
         CREATE TABLE pg_constraint(oid INTEGER, conname TEXT, conrelid INTEGER, contype TEXT);
         CREATE TABLE pg_inherits(inhrelid INTEGER, inhparent INTEGER, inhseqno INTEGER, inhdetachpending TEXT);
         CREATE TABLE pg_trigger(oid INTEGER, tgrelid INTEGER, tgname TEXT, tgisinternal TEXT);
         CREATE TABLE pg_rewrite(oid INTEGER, rulename TEXT, ev_class INTEGER);
         CREATE TABLE pg_policy(oid INTEGER, polname TEXT, polrelid INTEGER);
         CREATE TABLE pg_publication(oid INTEGER, pubname TEXT, puballtables TEXT);
         CREATE TABLE pg_publication_rel(oid INTEGER, prpubid INTEGER, prrelid INTEGER);
         CREATE TABLE pg_foreign_table(ftrelid INTEGER, ftserver INTEGER, ftoptions TEXT);
         CREATE TABLE pg_settings(name TEXT, setting TEXT);",
    );
    let quoted = user.replace('\'', "''");
    let _ = write!(sql, "INSERT INTO pg_roles VALUES (10, '{quoted}', 't');");
    for (at, (name, columns)) in relations().enumerate() {
        let relation = FIRST_OID + at;
        let _ = write!(
            sql,
            "INSERT INTO pg_class VALUES ({relation}, '{name}', 2200, 'v', 10, 0, 0, -1, 0, 0, 'f', 'f', 'f', 'f', 'f',
                'f', 'p', 'n', 0, 0, NULL, NULL, NULL);"
        );
        for (number, (column, kind)) in columns.iter().enumerate() {
            let _ = write!(
                sql,
                "INSERT INTO pg_attribute VALUES ({relation}, '{column}', {}, -1, {}, 'f', 'f', 'f', 0, '', '',
                    'x', '', -1, NULL, NULL);",
                oid(*kind),
                number + 1
            );
        }
    }
    connection.execute_batch(&sql)
}

/// Whether a statement may read PostgreSQL's catalog.
#[must_use]
pub fn mentions_catalog(sql: &str) -> bool {
    sql.to_ascii_lowercase().contains("pg_")
}

/// Functions that SQLite has not.
pub fn create_functions(connection: &Connection, user: &str) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8;
    let constant = |name: &str, arguments: i32, value: &str| {
        let value = value.to_owned();
        connection.create_scalar_function(name, arguments, flags, move |_| Ok(value.clone()))
    };
    let about = format!("PostgreSQL {SERVER_VERSION} (protocol of Plinth {})", env!("CARGO_PKG_VERSION"));
    constant("version", 0, &about)?;
    constant("current_schema", 0, "public")?;
    constant("current_database", 0, "plinth")?;
    constant("current_catalog", 0, "plinth")?;
    constant("current_user", 0, user)?;
    constant("session_user", 0, user)?;
    constant("pg_get_userbyid", 1, user)?;
    constant("pg_encoding_to_char", 1, "UTF8")?;
    constant("pg_is_in_recovery", 0, "f")?;
    constant("set_config", 3, "")?;
    let truth = |name: &str, arguments: i32, value: bool| {
        connection.create_scalar_function(name, arguments, flags, move |_| Ok(value))
    };
    truth("pg_table_is_visible", 1, true)?;
    truth("pg_type_is_visible", 1, true)?;
    truth("has_table_privilege", 2, true)?;
    truth("has_schema_privilege", 2, true)?;
    truth("pg_relation_is_publishable", 1, false)?;
    let nothing =
        |name: &str, arguments: i32| connection.create_scalar_function(name, arguments, flags, |_| Ok(None::<String>));
    for (name, arguments) in [
        ("pg_get_expr", 2),
        ("pg_get_expr", 3),
        ("obj_description", 2),
        ("col_description", 2),
        ("shobj_description", 2),
        ("pg_get_viewdef", 1),
        ("pg_get_viewdef", 2),
        ("array_to_string", 2),
    ] {
        nothing(name, arguments)?;
    }
    connection.create_scalar_function("pg_backend_pid", 0, flags, |_| Ok(i64::from(std::process::id())))?;
    connection.create_scalar_function("format_type", 2, flags, |context| {
        Ok(type_of(context.get::<Option<i64>>(0)?.unwrap_or_default()))
    })?;
    connection.create_scalar_function("now", 0, flags, |_| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut text = crate::alert::rfc3339(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX));
        text.truncate(19);
        Ok(text.replace('T', " "))
    })?;
    connection.create_scalar_function("nvl", 2, flags, |context| {
        let first: rusqlite::types::Value = context.get(0)?;
        if first == rusqlite::types::Value::Null { context.get(1) } else { Ok(first) }
    })?;
    connection.create_scalar_function("mod", 2, flags, |context| {
        // As floats too: MOD(x, POWER(2, 24)).
        let whole = |at| Ok::<_, rusqlite::Error>(context.get::<Option<f64>>(at)?.map(|number| number as i64));
        Ok(whole(0)?.zip(whole(1)?).and_then(|(number, by)| number.checked_rem(by)))
    })?;
    for name in ["power", "pow"] {
        connection.create_scalar_function(name, 2, flags, |context| {
            let (number, to): (Option<f64>, Option<f64>) = (context.get(0)?, context.get(1)?);
            Ok(number.zip(to).map(|(number, to)| number.powf(to)))
        })?;
    }
    for (name, round) in
        [("floor", f64::floor as fn(f64) -> f64), ("ceil", f64::ceil), ("ceiling", f64::ceil), ("trunc", f64::trunc)]
    {
        connection
            .create_scalar_function(name, 1, flags, move |context| Ok(context.get::<Option<f64>>(0)?.map(round)))?;
    }
    connection.create_scalar_function("pg_size_pretty", 1, flags, |context| {
        Ok(context.get::<Option<i64>>(0)?.map(crate::cli::table::bytes_pretty))
    })?;
    connection.create_scalar_function("regexp", 2, flags | FunctionFlags::SQLITE_DETERMINISTIC, regexp)
}

/// `text REGEXP pattern`.
fn regexp(context: &Context<'_>) -> rusqlite::Result<Option<bool>> {
    let (Some(pattern), Some(text)) = (context.get::<Option<String>>(0)?, context.get::<Option<String>>(1)?) else {
        return Ok(None);
    };
    let pattern = regex::RegexBuilder::new(&pattern)
        .size_limit(1 << 20)
        .build()
        .map_err(|error| rusqlite::Error::UserFunctionError(Box::new(error)))?;
    Ok(Some(pattern.is_match(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn habits_are_rewritten() {
        for (query, sql) in [
            ("select name::text from v$asm_disk", "select name  from v$asm_disk"),
            ("select '5'::numeric(5, 2), x", "select '5' , x"),
            ("select a::pg_catalog.regclass[]", "select a "),
            ("select pg_catalog.version()", "select version()"),
            ("select 1 where 'a' ilike 'A'", "select 1 where 'a' LIKE 'A'"),
            (r"select E'a\'b'", "select 'a''b'"),
            ("select 'a''b'", "select 'a''b'"),
            ("select ~5, a ~ 'x'", "select ~5, a  REGEXP  'x'"),
            (
                "select 1 where n !~ '^pg' and c OPERATOR(pg_catalog.~) '^(x)$' COLLATE pg_catalog.default",
                "select 1 where n  NOT REGEXP  '^pg' and c  REGEXP  '^(x)$'  ",
            ),
            ("select current_user, t.current_user", "select current_user(), t.current_user"),
        ] {
            assert_eq!(rewrite(query).expect(query).sql, sql);
        }
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
