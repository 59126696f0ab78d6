//! What PostgreSQL's clients take for granted, turned into what SQLite takes.
//!
//! Three things: habits of the language (`x::text`, `ILIKE`, `E'..'`, `~`, and in `oracle.rs` Oracle's), functions about
//! the server (`version()`; those about values are in `functions.rs`), and as much of PostgreSQL's catalog as `psql` and
//! drivers read, for `\d`, `\dv`, for completing names, for types. Statements are rewritten token by token; [`Rewritten`]
//! knows where each byte came from, so that errors still point at the client's text.

mod edits;
pub mod operands;
mod oracle;

use super::views::{self, Type};
use crate::{
    refusal::{Refusal, state},
    sql::tokens::{Kind, Text, Token},
};
use edits::Edits;
pub use edits::Rewritten;
use plinth_engine::admin::Value;
use rusqlite::{Connection, functions::FunctionFlags};
use std::fmt::Write;

/// What we say to be: a version of PostgreSQL whose catalog queries we know.
pub const SERVER_VERSION: &str = "15.0";

/// Words of a query, at most. What is looked at here is looked at with what is around it: time grows faster than the text.
pub const WORDS_MAX: usize = 20_000;
/// SELECTs in a query, at most; SQLite has limits of its own below that for those within another.
const SELECTS_MAX: usize = 500;

/// Rewrites one query.
///
/// # Errors
/// If it cannot be cut into tokens, or has something of Oracle's that cannot be said otherwise.
pub fn rewrite(query: &str) -> Result<Rewritten, Refusal> {
    let text = Text::new(query)?;
    let words = text.statements().map(<[Token]>::len).sum::<usize>();
    let selects = text.statements().flatten().filter(|token| token.is("SELECT")).count();
    if words > WORDS_MAX || selects > SELECTS_MAX {
        return Err(Refusal::new(
            state::TOO_COMPLEX,
            format!(
                "a query has at most {WORDS_MAX} words and {SELECTS_MAX} SELECTs; this one has {words} and {selects}"
            ),
        ));
    }
    let done = oracle::rewrite(query)?;
    let text = Text::new(&done.sql)?;
    let tokens: Vec<Token> = text.statements().flatten().cloned().collect();
    let mut edits = Edits::default();
    let mut next = 0;
    while next < tokens.len() {
        next += habit(&tokens, next, &mut edits).max(1);
    }
    times(&tokens, &mut edits);
    let end = tokens.last().map_or(0, |token| token.end);
    Ok(done.then(edits.made(&done.sql, 0, end)))
}

/// Keywords after which `~` is the operator of one operand.
const BEFORE_OPERAND: [&str; 10] = ["select", "where", "and", "or", "not", "by", "on", "when", "then", "else"];

/// Changes what has to be changed at a token; how many tokens that concerns.
fn habit(tokens: &[Token], at: usize, edits: &mut Edits) -> usize {
    let rest = tokens.get(at..).unwrap_or_default();
    let Some(first) = rest.first() else { return 1 };
    let before = at.checked_sub(1).and_then(|before| tokens.get(before));
    let symbol = |ahead: usize, symbol: &str| rest.get(ahead).is_some_and(|token| token.is_symbol(symbol));
    let mut replace = |count: usize, text: &str| {
        let end = rest.get(count - 1).map_or(first.end, |last| last.end);
        edits.replace(first.start, end, text);
        count
    };
    match &first.kind {
        Kind::Symbol(mark) => match mark.as_str() {
            "::" => return cast(tokens, at, edits),
            // Numbers are divided exactly, as in Oracle; also whole ones.
            "/" => return replace(1, "*1.0/"),
            "!~" => return replace(1, " NOT REGEXP "),
            "!~*" => return replace(1, " NOT REGEXP '(?i)' || "),
            "~" | "~*" => {
                let operand = before.is_some_and(|before| match &before.kind {
                    Kind::Symbol(mark) => mark == ")",
                    Kind::Word(word) => !BEFORE_OPERAND.iter().any(|keyword| word.eq_ignore_ascii_case(keyword)),
                    _ => true,
                });
                if operand {
                    return replace(1, if mark == "~" { " REGEXP " } else { " REGEXP '(?i)' || " });
                }
            }
            _ => {}
        },
        // Strings with backslashes: written out.
        Kind::String(value) if first.end - first.start != value.chars().count() + 2 + value.matches('\'').count() => {
            return replace(1, &format!("'{}'", value.replace('\'', "''")));
        }
        Kind::Word(word) => {
            let is_alias = before.is_some_and(|before| before.is_symbol(".") || before.is("AS"));
            match word.to_ascii_lowercase().as_str() {
                "pg_catalog" | "public" | "information_schema" if symbol(1, ".") => {
                    // Its views have names of their own here.
                    let prefix = if word.eq_ignore_ascii_case("information_schema") { "info_" } else { "" };
                    edits.replace(first.start, rest.get(1).map_or(first.end, |dot| dot.end), prefix);
                    return 2;
                }
                "ilike" => return replace(1, "MATCH"),
                "collate" if rest.get(1).is_some_and(|next| next.is("pg_catalog")) && symbol(2, ".") => {
                    return replace(4, " ");
                }
                "array" if symbol(1, "(") => {
                    if let Some(close) = operands::closing(tokens, at + 1).and_then(|close| tokens.get(close)) {
                        edits.replace(first.start, first.end, "pg_array(");
                        edits.replace(close.end, close.end, ")");
                    }
                }
                // Lists in the catalog are empty here, and so is what they are taken apart to.
                "unnest" if symbol(1, "(") => {
                    let close = operands::closing(tokens, at + 1);
                    if let (Some(end), Some(Kind::Word(name))) = (
                        close.and_then(|close| tokens.get(close)),
                        close.and_then(|close| tokens.get(close + 1)).map(|token| &token.kind),
                    ) {
                        edits.replace(first.start, end.end, format!("(SELECT NULL AS {name} WHERE 0)"));
                        return close.map_or(1, |close| close + 1 - at);
                    }
                }
                // x = ANY (list): a list is a text in braces here.
                "any" if symbol(1, "(") && before.is_some_and(|before| before.is_symbol("=")) => {
                    let start = at.checked_sub(1).and_then(|equals| operands::start(tokens, equals));
                    if let (Some(operand), Some(equals), Some(open)) =
                        (start.and_then(|start| tokens.get(start)), before, rest.get(1))
                    {
                        edits.insert(operand.start, "pg_any(");
                        edits.replace(equals.start, open.end, ", ");
                        return 2;
                    }
                }
                "operator" if symbol(1, "(") => {
                    let Some(close) = rest.iter().position(|token| token.is_symbol(")")) else { return 1 };
                    let Some(Kind::Symbol(mark)) = rest.get(close - 1).map(|token| &token.kind) else { return 1 };
                    let operator = match mark.as_str() {
                        "~" | "~*" => " REGEXP ",
                        "!~" | "!~*" => " NOT REGEXP ",
                        mark => mark,
                    };
                    return replace(close + 1, operator);
                }
                "cast" if symbol(1, "(") => as_time(tokens, at, edits),
                "current_user" | "session_user" | "current_schema" | "current_catalog" | "sysdate" | "systimestamp"
                | "localtimestamp"
                    if !is_alias && !symbol(1, "(") =>
                {
                    return replace(1, &format!("{word}()"));
                }
                "user"
                    if before.is_some_and(|before| before.is("SELECT") || before.is_symbol(","))
                        && (symbol(1, ",") || rest.get(1).is_some_and(|next| next.is("FROM"))) =>
                {
                    return replace(1, "user()");
                }
                _ => {}
            }
        }
        _ => {}
    }
    1
}

/// Most words of a type's name.
const TYPE_MAX: usize = 16;

/// `x::type`: what makes another value of it is a function; the rest is left out.
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
    let (mut open, mut close) = ("", String::from(" "));
    if let Some(Token { kind: Kind::Word(name), .. }) = name
        && !names.get(..count).unwrap_or_default().iter().any(|token| token.is_symbol("["))
    {
        (open, close) = match name.to_ascii_lowercase().as_str() {
            "int" | "int2" | "int4" | "int8" | "integer" | "bigint" | "smallint" => ("plinth_int(", ")".into()),
            "numeric" | "decimal" | "real" | "float" | "float4" | "float8" | "double" => ("plinth_number(", ")".into()),
            "text" | "varchar" | "character" => ("CAST(", " AS TEXT)".into()),
            "date" => ("plinth_date(", ")".into()),
            "regclass" => ("pg_regclass(", ")".into()),
            _ => (open, close),
        };
    }
    // Of a chain of casts each is put round what stands before it.
    let mut operand_end = at;
    while let Some(earlier) = (operand_end.saturating_sub(TYPE_MAX)..operand_end).rev().find(|earlier| {
        tokens.get(*earlier).is_some_and(|token| token.is_symbol("::"))
            && earlier + 1 + operands::type_name(tokens.get(earlier + 1..).unwrap_or_default()) == operand_end
    }) {
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

/// `CAST(x AS TIMESTAMP)`: SQLite would make a number of it.
fn as_time(tokens: &[Token], at: usize, edits: &mut Edits) {
    let Some(close) = operands::closing(tokens, at + 1) else { return };
    let inside = tokens.get(at + 2..close).unwrap_or_default();
    let Some(place) = inside.iter().rposition(|token| token.is("AS")) else { return };
    let kind = inside.get(place + 1);
    if let Some(kind) = kind.filter(|kind| ["DATE", "TIMESTAMP", "TIMESTAMPTZ"].iter().any(|word| kind.is(word))) {
        let end = inside.last().map_or(kind.end, |last| last.end);
        edits.replace(kind.start, end, "TEXT");
    }
}

/// Functions and words that give times.
const TIMES: [&str; 10] = [
    "sysdate",
    "systimestamp",
    "current_date",
    "current_timestamp",
    "localtimestamp",
    "now",
    "to_date",
    "to_timestamp",
    "add_months",
    "last_day",
];
/// Columns of the views that hold times.
const TIME_COLUMNS: [&str; 5] = ["create_date", "mount_date", "creation_date", "modification_date", "timestamp"];

fn is_time(operand: &[Token]) -> bool {
    let name = |token: &Token, names: &[&str]| match &token.kind {
        Kind::Word(word) | Kind::Quoted(word) => names.iter().any(|name| word.eq_ignore_ascii_case(name)),
        _ => false,
    };
    match operand {
        [first, open, inside @ .., _] if first.is("TRUNC") && open.is_symbol("(") => is_time(inside),
        [open, inside @ .., _] if open.is_symbol("(") => is_time(inside),
        [first, ..] if name(first, &TIMES) => true,
        [.., last] => name(last, &TIME_COLUMNS),
        [] => false,
    }
}

/// `SYSDATE - 1`, `SYSDATE - create_date`: days are added to a time, times are subtracted.
fn times(tokens: &[Token], edits: &mut Edits) {
    // Where the sum begins that ends before this token.
    let mut running: Option<(usize, usize)> = None;
    for (at, token) in tokens.iter().enumerate() {
        let minus = token.is_symbol("-");
        if !minus && !token.is_symbol("+") {
            continue;
        }
        let Some(left) = operands::start(tokens, at) else { continue };
        let mut end = operands::end(tokens, at + 1);
        let interval = tokens.get(at + 1).filter(|word| word.is("INTERVAL")).and_then(|_| interval(tokens, at + 1));
        if let Some((_, after)) = &interval {
            end = *after;
        }
        while tokens.get(end).is_some_and(|next| next.is_symbol("*") || next.is_symbol("/")) {
            end = operands::end(tokens, end + 1);
        }
        let goes_on = running.filter(|(_, until)| *until == at).map(|(start, _)| start);
        let operand = |from: usize, to: usize| tokens.get(from..to).unwrap_or_default();
        if goes_on.is_none() && !is_time(operand(left, at)) && !is_time(operand(at + 1, end)) {
            continue;
        }
        let start = goes_on.unwrap_or(left);
        let (Some(first), Some(last)) = (tokens.get(start), end.checked_sub(1).and_then(|last| tokens.get(last)))
        else {
            continue;
        };
        edits.insert(first.start, if minus { "plinth_minus(" } else { "plinth_plus(" });
        edits.replace(token.start, token.end, ",");
        match (interval, tokens.get(at + 1)) {
            (Some((days, _)), Some(word)) => edits.replace(word.start, last.end, format!("{days})")),
            _ => edits.replace(last.end, last.end, ")"),
        }
        running = Some((start, end));
    }
}

/// `INTERVAL '2 hours'`, `INTERVAL '2' HOUR`: days, and where it ends.
fn interval(tokens: &[Token], at: usize) -> Option<(f64, usize)> {
    let Some(Token { kind: Kind::String(text), .. }) = tokens.get(at + 1) else { return None };
    let mut words = text.split_whitespace();
    let number: f64 = words.next()?.parse().ok()?;
    let (unit, end) = match (words.next(), tokens.get(at + 2).map(|token| &token.kind)) {
        (Some(unit), _) => (unit.to_owned(), at + 2),
        (None, Some(Kind::Word(unit))) => (unit.clone(), at + 3),
        _ => return None,
    };
    let unit = unit.to_ascii_lowercase();
    let days = match unit.strip_suffix('s').unwrap_or(&unit) {
        "second" => 1.0 / 86_400.0,
        "minute" | "min" => 1.0 / 1440.0,
        "hour" => 1.0 / 24.0,
        "day" => 1.0,
        "week" => 7.0,
        _ => return None,
    };
    Some((number * days, end))
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
    views::all().flat_map(|view| {
        let twin = view.has_twin.then(|| (format!("{}_stat", view.name), view.columns));
        std::iter::once((view.name.to_owned(), view.columns)).chain(twin)
    })
}

/// The part of PostgreSQL's catalog that `psql` reads.
pub fn create_catalog(connection: &Connection, user: &str, users: &[Vec<Value>]) -> rusqlite::Result<()> {
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
             attlen INTEGER, attidentity TEXT, attgenerated TEXT, attstorage TEXT, attcompression TEXT, attstattarget INTEGER,
             attacl TEXT, attfdwoptions TEXT);
         CREATE TABLE pg_type(oid INTEGER, typname TEXT, typcollation INTEGER, typnamespace INTEGER, typtype TEXT,
             typrelid INTEGER, typelem INTEGER, typarray INTEGER, typbasetype INTEGER, typtypmod INTEGER, typinput TEXT,
             typdelim TEXT, typlen INTEGER, typnotnull TEXT);
         INSERT INTO pg_type
             SELECT column1, column2, column3, 11, 'b', 0, 0, column4, 0, -1, column5, ',', column6, 'f'
             FROM (VALUES (16, 'bool', 0, 1000, 'boolin', 1), (17, 'bytea', 0, 1001, 'byteain', -1),
                 (18, 'char', 0, 1002, 'charin', 1), (19, 'name', 0, 1003, 'namein', 64),
                 (20, 'int8', 0, 1016, 'int8in', 8), (21, 'int2', 0, 1005, 'int2in', 2), (23, 'int4', 0, 1007, 'int4in', 4),
                 (25, 'text', 100, 1009, 'textin', -1), (26, 'oid', 0, 1028, 'oidin', 4),
                 (700, 'float4', 0, 1021, 'float4in', 4), (701, 'float8', 0, 1022, 'float8in', 8),
                 (1043, 'varchar', 100, 1015, 'varcharin', -1), (1082, 'date', 0, 1182, 'date_in', 4),
                 (1114, 'timestamp', 0, 1115, 'timestamp_in', 8), (1184, 'timestamptz', 0, 1185, 'timestamptz_in', 8),
                 (1700, 'numeric', 0, 1231, 'numeric_in', -1));
         CREATE TABLE pg_attrdef(oid INTEGER, adrelid INTEGER, adnum INTEGER, adbin TEXT);
         CREATE TABLE pg_collation(oid INTEGER, collname TEXT);
         CREATE TABLE pg_description(objoid INTEGER, classoid INTEGER, objsubid INTEGER, description TEXT);
         CREATE TABLE pg_roles(oid INTEGER, rolname TEXT, rolsuper TEXT, rolinherit TEXT, rolcreaterole TEXT,
             rolcreatedb TEXT, rolcanlogin TEXT, rolreplication TEXT, rolbypassrls TEXT, rolconnlimit INTEGER,
             rolvaliduntil TEXT);
         CREATE TABLE pg_auth_members(member INTEGER, roleid INTEGER);
         CREATE TABLE pg_tablespace(oid INTEGER, spcname TEXT);
         CREATE TABLE pg_proc(oid INTEGER, proname TEXT, pronamespace INTEGER, prokind TEXT);
         CREATE TABLE pg_enum(oid INTEGER, enumtypid INTEGER, enumlabel TEXT, enumsortorder REAL);
         CREATE TABLE pg_range(rngtypid INTEGER, rngsubtype INTEGER);
         CREATE TABLE pg_extension(oid INTEGER, extname TEXT);
         CREATE TABLE pg_statistic_ext(oid INTEGER, stxrelid INTEGER, stxname TEXT, stxnamespace INTEGER, stxkind TEXT,
             stxstattarget INTEGER);
         CREATE TABLE pg_partitioned_table(partrelid INTEGER);
         CREATE TABLE pg_publication_namespace(pnpubid INTEGER, pnnspid INTEGER);
         CREATE TABLE pg_timezone_names(name TEXT, abbrev TEXT, utc_offset TEXT, is_dst TEXT);
         CREATE TABLE pg_user(usename TEXT, usesysid INTEGER, usesuper TEXT);
         CREATE TABLE pg_stat_activity(pid INTEGER, usename TEXT);
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
    let role = |sql: &mut String, oid: usize, name: &str, superuser: &str| {
        let _ = write!(
            sql,
            "INSERT INTO pg_roles VALUES ({oid}, '{name}', '{superuser}', 't', '{superuser}', 'f', 't', 'f', 'f', -1, NULL);
             INSERT INTO pg_user VALUES ('{name}', {oid}, '{superuser}');"
        );
    };
    role(&mut sql, 10, &quoted, "t");
    for (at, row) in users.iter().enumerate() {
        if let (Some(Value::Text(name)), Some(Value::Text(administers))) = (row.first(), row.get(3)) {
            // Names of users have no quotes in them.
            let name = name.to_lowercase();
            if name != quoted {
                role(&mut sql, 100 + at, &name, if administers == "TRUE" { "t" } else { "f" });
            }
        }
    }
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
                "INSERT INTO pg_attribute VALUES ({relation}, '{column}', {}, -1, {}, 'f', 'f', 'f', 0, -1, '', '',
                    'x', '', -1, NULL, NULL);",
                oid(*kind),
                number + 1
            );
        }
    }
    sql.push_str(
        "CREATE VIEW info_tables AS SELECT 'plinth' AS table_catalog, 'public' AS table_schema, relname AS table_name,
             'VIEW' AS table_type FROM pg_class;
         CREATE VIEW info_columns AS SELECT 'plinth' AS table_catalog, 'public' AS table_schema, c.relname AS table_name,
             a.attname AS column_name, a.attnum AS ordinal_position, NULL AS column_default, 'YES' AS is_nullable,
             format_type(a.atttypid, -1) AS data_type
             FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid;",
    );
    connection.execute_batch(&sql)
}

/// The name of a view, also of one that was called `gv$...`.
#[must_use]
pub fn local(name: &str) -> &str {
    let local = name.strip_prefix(['g', 'G']);
    local.filter(|rest| rest.get(..2).is_some_and(|v| v.eq_ignore_ascii_case("v$"))).unwrap_or(name)
}

/// Makes the views of all instances, of which there is one, if a statement asks for them.
pub fn create_global_views(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    if !sql.to_ascii_lowercase().contains("gv$") {
        return Ok(());
    }
    let mut create = String::new();
    for (name, _) in relations().filter(|(name, _)| name.starts_with("v$")) {
        let _ = write!(create, "CREATE VIEW g{name} AS SELECT 1 AS inst_id, * FROM {name};");
    }
    connection.execute_batch(&create)
}

/// Whether a statement may read PostgreSQL's catalog.
#[must_use]
pub fn mentions_catalog(sql: &str) -> bool {
    let sql = sql.to_ascii_lowercase();
    sql.contains("pg_") || sql.contains("info_")
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
    constant("pg_get_function_result", 1, "")?;
    constant("pg_get_function_arguments", 1, "")?;
    constant("inet_server_addr", 0, "")?;
    truth("has_table_privilege", 3, true)?;
    truth("has_database_privilege", 3, true)?;
    truth("has_database_privilege", 2, true)?;
    truth("pg_has_role", 3, true)?;
    truth("pg_function_is_visible", 1, true)?;
    connection.create_scalar_function("pg_backend_pid", 0, flags, |_| Ok(i64::from(std::process::id())))?;
    connection.create_scalar_function("format_type", 2, flags, |context| {
        Ok(type_of(context.get::<Option<i64>>(0)?.unwrap_or_default()))
    })?;
    // Lists of names, as arrays are written.
    connection.create_scalar_function("pg_array", 1, flags, |context| {
        Ok(context.get::<Option<String>>(0)?.map_or_else(|| "{}".to_owned(), |one| format!("{{{one}}}")))
    })?;
    connection.create_scalar_function("pg_any", 2, flags, |context| {
        let (of, list): (rusqlite::types::Value, Option<String>) = (context.get(0)?, context.get(1)?);
        let of = match of {
            rusqlite::types::Value::Null => return Ok(None),
            rusqlite::types::Value::Integer(number) => number.to_string(),
            rusqlite::types::Value::Real(number) => number.to_string(),
            rusqlite::types::Value::Text(text) => text,
            rusqlite::types::Value::Blob(_) => return Ok(Some(false)),
        };
        Ok(list.map(|list| elements(&list).contains(&of)))
    })?;
    constant("current_schemas", 1, "{pg_catalog,public}")?;
    connection.create_scalar_function("pg_regclass", 1, flags, |context| {
        let of: rusqlite::types::Value = context.get(0)?;
        let rusqlite::types::Value::Text(name) = &of else { return Ok(of) };
        let name = name.trim_start_matches("public.").trim_matches('"');
        let at = relations().position(|(relation, _)| relation.eq_ignore_ascii_case(name));
        Ok(at.and_then(|at| i64::try_from(FIRST_OID + at).ok()).map_or(of.clone(), rusqlite::types::Value::Integer))
    })
}

/// The elements of a list as PostgreSQL writes it: `{a,"b c"}`.
fn elements(list: &str) -> Vec<String> {
    let inside = list.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(list);
    let (mut found, mut element, mut quoted, mut escaped) = (Vec::new(), String::new(), false, false);
    for character in inside.chars() {
        match character {
            _ if escaped => {
                element.push(character);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            ',' if !quoted => found.push(std::mem::take(&mut element)),
            _ => element.push(character),
        }
    }
    if !inside.is_empty() {
        found.push(element);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_taken_apart() {
        assert_eq!(elements(r#"{a,"b, c","d\"e"}"#), ["a", "b, c", "d\"e"]);
        assert_eq!(elements("{}"), [""; 0]);
        assert_eq!(elements("{1,2}"), ["1", "2"]);
    }

    #[test]
    fn habits_are_rewritten() {
        for (query, sql) in [
            ("select name::text from v$asm_disk", "select CAST(name AS TEXT) from v$asm_disk"),
            ("select d.x::int::text, f(1)::numeric(5, 2)", "select CAST(plinth_int(d.x) AS TEXT), plinth_number(f(1))"),
            ("select a::name[], 'x'::pg_catalog.regtype", "select a , 'x' "),
            ("select pg_catalog.version()", "select version()"),
            ("select 1 where 'a' ilike 'A'", "select 1 where 'a' MATCH 'A'"),
            (r"select E'a\'b'", "select 'a''b'"),
            ("select 'a''b'", "select 'a''b'"),
            ("select ~5, a ~ 'x'", "select ~5, a  REGEXP  'x'"),
            (
                "select 1 where n !~ '^pg' and c OPERATOR(pg_catalog.~) '^(x)$' COLLATE pg_catalog.default",
                "select 1 where n  NOT REGEXP  '^pg' and c  REGEXP  '^(x)$'  ",
            ),
            ("select current_user, t.current_user", "select current_user(), t.current_user"),
            ("select free/total*100", "select free*1.0/total*100"),
            ("select sysdate - 1/24", "select plinth_minus(sysdate() , 1*1.0/24)"),
            (
                "select (sysdate - mount_date) * 24, a - b from x",
                "select (plinth_minus(sysdate() , mount_date)) * 24, a - b from x",
            ),
            ("select sysdate - 1 + 2", "select plinth_plus(plinth_minus(sysdate() , 1) , 2)"),
            ("select now() - interval '36 hours'", "select plinth_minus(now() , 1.5)"),
            ("select date '2026-01-01' from dual", "select  '2026-01-01' from dual"),
            (
                "select listagg(name, ',') within group (order by name desc) from v$asm_disk",
                "select group_concat(name, ',' order by name desc) from v$asm_disk",
            ),
            ("select listagg(name) from x", "select group_concat(name, '') from x"),
            ("select 1 where d.name = any ($1)", "select 1 where pg_any(d.name , $1)"),
            ("select 1 minus select 2", "select 1 EXCEPT select 2"),
            ("select a from b offset 2 rows fetch next 3 rows only", "select a from b LIMIT 3 OFFSET 2"),
            ("select a from b fetch first row only", "select a from b LIMIT 1"),
            ("select rownum, a from b", "select row_number() OVER () AS \"rownum\", a from b"),
            (
                "select * from (select a from b order by 1) where rownum <= 5",
                "select * from (select a from b order by 1) where 1 LIMIT max(0, 5 )",
            ),
            (
                "select a from b where c = 1 and rownum < 3 order by a",
                "select a from b where c = 1 and 1 order by a LIMIT max(0, (3 ) - 1)",
            ),
        ] {
            assert_eq!(rewrite(query).expect(query).sql, sql);
        }
        for refused in [
            "select * from a, b where a.x = b.x(+)",
            "select a from b where rownum > 1",
            "select count(*) from b where rownum < 5",
            "select a from b where rownum < 5 or c = 1",
            "select a from b, c start with x connect by prior x = y",
            "select * from b connect by prior x = y",
            "select a, connect_by_isleaf from b connect by prior x = y",
            "select a from b group by rollup(a)",
        ] {
            let refusal = rewrite(refused).expect_err(refused);
            assert!(
                refusal.hint.is_some() && refusal.at.is_some() && refusal.state == "0A000",
                "{refused}: {refusal:?}"
            );
        }
    }

    /// The walk of a hierarchy: depth first, with paths, as Oracle goes it.
    #[test]
    fn hierarchies_are_walked() {
        let connection = Connection::open_in_memory().expect("a database");
        super::super::functions::create(&connection, "scott").expect("functions");
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
        // An error within points at where it stood.
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
