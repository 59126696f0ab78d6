//! PostgreSQL's catalog, for drivers, ORMs and tools: they read it when they connect, and to list
//! schemas and relations.
//!
//! Every relation of `pg_catalog` and `information_schema` exists, with all columns of PostgreSQL
//! 15 (`relations.txt`): clients select columns by name. Only the relations that describe this
//! server have rows: the views are relations of the schema `public`; the types are PostgreSQL's own
//! (`types.txt`), with the functions that they name (`functions.txt`). The others are empty.
//!
//! Values are represented as in PostgreSQL's own catalog:
//!
//!   - A boolean is a number, 0 or 1, in a column that is declared [`Type::Truth`], and described
//!     to clients as a boolean. So `NOT attisdropped` and `datistemplate = false` mean the same as
//!     in PostgreSQL.
//!   - A code of one letter, such as `typtype`, is a [`Type::Letter`]: asyncpg reads it as bytes,
//!     and compares it with bytes.
//!   - A column of type `regproc` holds a function's number, which joins with `pg_proc`, and is
//!     shown as the function's name.
//!
//! A statement gets only the relations that its text names: creating all of them would take longer
//! than most statements.

use crate::query::{
    mentions::Registry,
    views::{self, Type},
};
use crate::text::quoted;
use plinth_engine::admin::Value;
use rusqlite::{Connection, functions::FunctionFlags, types::Value as Sql};
use std::{collections::BTreeMap, fmt::Write, sync::LazyLock};

/// The first `oid` of a view; lower ones belong to PostgreSQL's own catalog.
const FIRST_OID: usize = 16_384;
/// Numbers of schemas, of the current user, and of the first other user.
const PUBLIC: usize = 2200;
const PG_CATALOG: usize = 11;
const INFORMATION_SCHEMA: usize = 13_207;
const USER: usize = 10;
const OTHER_USERS: usize = 100;
/// Relations from here on are views in PostgreSQL.
const FIRST_VIEW: usize = 10_000;
/// The declared type of a column that holds a function's number.
pub const PROCEDURE: &str = "REGPROC";

/// A relation of PostgreSQL's catalog.
struct Relation {
    oid: usize,
    name: &'static str,
    /// With the marks of `relations.txt`.
    columns: Vec<&'static str>,
}

/// The lines of a file that are not comments, split into words.
fn lines(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').collect())
}

static RELATIONS: LazyLock<Vec<Relation>> = LazyLock::new(|| {
    let relation = |words: Vec<&'static str>| match words[..] {
        [oid, name, ref columns @ ..] => {
            Some(Relation { oid: oid.parse().ok()?, name, columns: columns.to_vec() })
        }
        _ => None,
    };
    lines(include_str!("catalog/relations.txt")).filter_map(relation).collect()
});

/// Boolean columns, in all relations.
static TRUTHS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let columns = RELATIONS.iter().flat_map(|relation| &relation.columns);
    columns.filter_map(|column| column.strip_suffix('?')).collect()
});

/// PostgreSQL's types: a line of `types.txt` for each.
static TYPES: LazyLock<Vec<Vec<&'static str>>> =
    LazyLock::new(|| lines(include_str!("catalog/types.txt")).collect());

/// Names of functions, by number.
static FUNCTIONS: LazyLock<Vec<(i64, Vec<&'static str>)>> = LazyLock::new(|| {
    let number = |words: Vec<&'static str>| Some((words.first()?.parse().ok()?, words));
    lines(include_str!("catalog/functions.txt")).filter_map(number).collect()
});

/// Types by number: name, and the type of elements.
static BY_OID: LazyLock<BTreeMap<i64, (&'static str, i64, bool)>> = LazyLock::new(|| {
    let one = |words: &Vec<&'static str>| {
        let number = |at: usize| words.get(at)?.parse().ok();
        Some((number(0)?, (*words.get(1)?, number(9)?, words.get(5) == Some(&"A"))))
    };
    TYPES.iter().filter_map(one).collect()
});

/// Whether a column of this name is boolean.
pub fn is_truth(column: &str) -> bool {
    TRUTHS.iter().any(|truth| truth.eq_ignore_ascii_case(column))
}

/// The type of a column of this name. In PostgreSQL's tables column names have a prefix for the
/// table; in its views they have not.
pub fn kind_of(column: &str) -> Option<Type> {
    let tables = RELATIONS.iter().filter(|relation| (1..FIRST_VIEW).contains(&relation.oid));
    let named = |found: &&&str| found.trim_end_matches(['#', '%', '?', '$', '!']) == column;
    let found = tables.flat_map(|relation| &relation.columns).find(named)?;
    Some(match found.chars().last() {
        Some('#') => Type::Integer,
        Some('%') => Type::Real,
        Some('?') => Type::Truth,
        Some('$') => Type::Letter,
        _ => Type::Text,
    })
}

/// A function's name.
pub fn procedure(number: i64) -> String {
    if number == 0 {
        return "-".to_owned();
    }
    let found = FUNCTIONS
        .iter()
        .find(|(oid, _)| *oid == number)
        .and_then(|(_, words)| words.get(1).copied());
    found.map_or_else(|| number.to_string(), str::to_owned)
}

/// Names of PostgreSQL's types in declarations, where they differ.
const LONG_NAMES: [(&str, &str); 14] = [
    ("bool", "boolean"),
    ("int8", "bigint"),
    ("int4", "integer"),
    ("int2", "smallint"),
    ("float4", "real"),
    ("float8", "double precision"),
    ("varchar", "character varying"),
    ("bpchar", "character"),
    ("varbit", "bit varying"),
    ("timestamp", "timestamp without time zone"),
    ("timestamptz", "timestamp with time zone"),
    ("time", "time without time zone"),
    ("timetz", "time with time zone"),
    ("char", "\"char\""),
];

/// The name of a type in declarations.
fn type_name(oid: i64) -> String {
    match BY_OID.get(&oid) {
        None => if oid == 0 { "-" } else { "???" }.to_owned(),
        Some((name, element, true)) if name.starts_with('_') => {
            format!("{}[]", type_name(*element))
        }
        Some((name, ..)) => LONG_NAMES
            .iter()
            .find(|(short, _)| short == name)
            .map_or(*name, |(_, long)| *long)
            .to_owned(),
    }
}

/// The number of a type, given either of its names.
fn type_named(name: &str) -> Option<i64> {
    let name = unquoted(name.trim()).to_ascii_lowercase();
    if let Some(element) = name.strip_suffix("[]") {
        let element = type_named(element)?;
        return BY_OID
            .iter()
            .find(|(_, (name, of, _))| *of == element && name.starts_with('_'))
            .map(|(oid, _)| *oid);
    }
    let plain = name.split('(').next().unwrap_or_default().trim().to_owned();
    let short = LONG_NAMES
        .iter()
        .find(|(_, long)| *long == plain)
        .map_or(plain.as_str(), |(short, _)| *short);
    let short = if short == "int" { "int4" } else { short };
    BY_OID.iter().find(|(_, (name, ..))| *name == short).map(|(oid, _)| *oid)
}

/// A name without its schema and quotes.
fn unquoted(name: &str) -> &str {
    let schemas = ["public.", "pg_catalog.", "\"public\".", "\"pg_catalog\"."];
    let name = schemas.iter().find_map(|schema| name.strip_prefix(schema)).unwrap_or(name);
    name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name)
}

/// Names and columns.
type Named = (String, Vec<(&'static str, Type)>);

/// Names of all views and their twins, with their columns; then the same as `gv$...`, which have
/// the number of the instance before them.
pub fn relations() -> impl Iterator<Item = (&'static str, &'static [(&'static str, Type)])> {
    static ALL: LazyLock<Vec<Named>> = LazyLock::new(|| {
        let twin = |view: &views::View| {
            view.has_twin.then(|| (format!("{}{}", view.name, views::TWIN), view.columns.clone()))
        };
        let own = |view: &views::View| (view.name.to_owned(), view.columns.clone());
        let local = || views::all().flat_map(|view| std::iter::once(own(view)).chain(twin(view)));
        let global = local().filter(|(name, _)| name.starts_with("v$")).map(|(name, columns)| {
            let columns = std::iter::once(("inst_id", Type::Integer)).chain(columns);
            (format!("g{name}"), columns.collect())
        });
        local().chain(global).collect()
    });
    ALL.iter().map(|(name, columns)| (name.as_str(), columns.as_slice()))
}

/// The number of a relation, of Plinth or of PostgreSQL.
fn relation_named(name: &str) -> Option<i64> {
    let name = unquoted(name.trim());
    let ours = relations()
        .position(|(relation, _)| relation.eq_ignore_ascii_case(name))
        .map(|at| FIRST_OID + at);
    let theirs = || {
        RELATIONS
            .iter()
            .find(|relation| relation.name.eq_ignore_ascii_case(name))
            .map(|found| found.oid)
    };
    i64::try_from(ours.or_else(theirs)?).ok()
}

/// Whether a statement may read PostgreSQL's catalog.
#[must_use]
pub fn mentions_catalog(sql: &str) -> bool {
    let sql = sql.to_ascii_lowercase();
    sql.contains("pg_") || sql.contains("info_")
}

/// Inserts rows into one relation.
struct Rows<'a> {
    sql: &'a mut String,
    into: &'static str,
    columns: &'static str,
}

fn rows<'a>(sql: &'a mut String, into: &'static str, columns: &'static str) -> Rows<'a> {
    Rows { sql, into, columns }
}

impl Rows<'_> {
    fn add(&mut self, values: std::fmt::Arguments<'_>) {
        let _ = write!(self.sql, "INSERT INTO {} ({}) VALUES ({values});", self.into, self.columns);
    }
}

/// The users, for the relations that list them: number, name, whether the user administers.
fn roles(user: &str, users: &[Vec<Value>]) -> Vec<(usize, String, bool)> {
    let mut all = vec![(USER, user.to_owned(), true)];
    for (at, row) in users.iter().enumerate() {
        if let (Some(Value::Text(name)), Some(Value::Text(administers))) = (row.first(), row.get(3))
        {
            let name = name.to_lowercase();
            if name != user {
                all.push((OTHER_USERS + at, name, administers == "TRUE"));
            }
        }
    }
    all
}

/// Number and length of the type with which a column is described.
fn type_of(kind: Type) -> (u32, i16) {
    match kind {
        Type::Integer => (20, 8),
        Type::Real => (701, 8),
        Type::Truth => (16, 1),
        Type::Letter => (18, 1),
        Type::Text => (25, -1),
        Type::Time => (1114, 8),
    }
}

/// Creates the relations of PostgreSQL's catalog that a statement names.
pub fn create(
    connection: &Connection,
    sql: &str,
    user: &str,
    users: &[Vec<Value>],
    settings: &BTreeMap<String, String>,
) -> rusqlite::Result<()> {
    let named = sql.to_ascii_lowercase();
    let mut sql = String::new();
    for relation in RELATIONS.iter().filter(|relation| named.contains(relation.name)) {
        // A column without a value is NULL in the information schema; in the catalog it is zero.
        let zero = if relation.name.starts_with("info_") { "" } else { " DEFAULT 0" };
        let columns: Vec<String> = relation
            .columns
            .iter()
            .map(|column| {
                let (name, declared) = match column.split_at_checked(column.len() - 1) {
                    Some((name, "#")) => (name, "INTEGER"),
                    Some((name, "%")) => (name, "REAL"),
                    Some((name, "?")) => (name, Type::Truth.declaration()),
                    Some((name, "$")) => (name, Type::Letter.declaration()),
                    Some((name, "!")) => (name, PROCEDURE),
                    _ => (*column, "TEXT"),
                };
                format!(
                    "\"{name}\" {declared}{}",
                    if [Type::Text, Type::Letter].iter().any(|kind| kind.declaration() == declared)
                    {
                        ""
                    } else {
                        zero
                    }
                )
            })
            .collect();
        let _ = write!(sql, "CREATE TABLE {} ({});", relation.name, columns.join(", "));
        fill(&mut sql, relation.name, user, users, settings);
    }
    connection.execute_batch(&sql)
}

/// Inserts the rows of a relation that describe this server.
fn fill(
    sql: &mut String,
    relation: &'static str,
    user: &str,
    users: &[Vec<Value>],
    settings: &BTreeMap<String, String>,
) {
    let who = quoted(user);
    fill_server(sql, relation);
    fill_users(sql, relation, (&who, user, users), settings);
    fill_types(sql, relation);
    fill_views(sql, relation, &who);
    fill_columns(sql, relation);
}

/// Facts about the server that never change.
fn fill_server(sql: &mut String, relation: &'static str) {
    match relation {
        "pg_database" => rows(
            sql, relation, "oid, datname, datdba, encoding, datlocprovider, datistemplate, datallowconn, datconnlimit, dattablespace, datcollate, datctype",
        )
        .add(format_args!("1, 'plinth', {USER}, 6, 'c', 0, 1, -1, 1663, 'C', 'C'")),
        "pg_tablespace" => {
            let mut rows = rows(sql, relation, "oid, spcname, spcowner");
            [(1663, "pg_default"), (1664, "pg_global")]
                .iter()
                .for_each(|(oid, name)| rows.add(format_args!("{oid}, '{name}', {USER}")));
        }
        "pg_am" => rows(sql, relation, "oid, amname, amtype").add(format_args!("2, 'heap', 't'")),
        "pg_language" => {
            let mut rows = rows(sql, relation, "oid, lanname, lanowner");
            [(12, "internal"), (13, "c"), (14, "sql")]
                .iter()
                .for_each(|(oid, name)| rows.add(format_args!("{oid}, '{name}', {USER}")));
        }
        "pg_collation" => {
            let mut rows =
                rows(sql, relation, "oid, collname, collnamespace, collowner, collprovider, collisdeterministic, collencoding");
            [(100, "default", 'd'), (950, "C", 'c'), (951, "POSIX", 'c')].iter().for_each(|(oid, name, provider)| {
                rows.add(format_args!("{oid}, '{name}', {PG_CATALOG}, {USER}, '{provider}', 1, -1"));
            });
        }
        "pg_timezone_names" => {
            rows(sql, relation, "name, abbrev, utc_offset, is_dst").add(format_args!("'UTC', 'UTC', '00:00:00', 0"));
        }
        "info_information_schema_catalog_name" => rows(sql, relation, "catalog_name").add(format_args!("'plinth'")),
        _ => {}
    }
}

/// Schemas, settings and users.
fn fill_users(
    sql: &mut String,
    relation: &'static str,
    (who, user, users): (&str, &str, &[Vec<Value>]),
    settings: &BTreeMap<String, String>,
) {
    match relation {
        "pg_namespace" => {
            let mut rows = rows(sql, relation, "oid, nspname, nspowner");
            let schemas = [
                (PG_CATALOG, "pg_catalog"),
                (PUBLIC, "public"),
                (INFORMATION_SCHEMA, "information_schema"),
            ];
            schemas
                .iter()
                .for_each(|(oid, name)| rows.add(format_args!("{oid}, '{name}', {USER}")));
        }
        "info_schemata" => {
            let mut rows = rows(sql, relation, "catalog_name, schema_name, schema_owner");
            let schemas = ["pg_catalog", "public", "information_schema"];
            schemas.iter().for_each(|name| rows.add(format_args!("'plinth', '{name}', {who}")));
        }
        "pg_settings" => {
            let mut rows = rows(
                sql,
                relation,
                "name, setting, category, context, vartype, source, boot_val, reset_val",
            );
            for (name, value) in settings {
                let value = quoted(value);
                rows.add(format_args!(
                    "{}, {value}, 'Preset Options', 'user', 'string', 'default', {value}, {value}",
                    quoted(name)
                ));
            }
        }
        "pg_roles" | "pg_authid" => {
            let mut rows = rows(
                sql,
                relation,
                "oid, rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls, rolconnlimit, \
                 rolpassword",
            );
            let password = if relation == "pg_roles" { "'********'" } else { "NULL" };
            for (oid, name, is_super) in roles(user, users) {
                let (name, is_super) = (quoted(&name), u8::from(is_super));
                rows.add(format_args!(
                    "{oid}, {name}, {is_super}, 1, {is_super}, 0, 1, 0, 0, -1, {password}"
                ));
            }
        }
        "pg_user" | "pg_shadow" => {
            let mut rows = rows(
                sql,
                relation,
                "usename, usesysid, usecreatedb, usesuper, userepl, usebypassrls, passwd",
            );
            let password = if relation == "pg_user" { "'********'" } else { "NULL" };
            for (oid, name, is_super) in roles(user, users) {
                let (name, is_super) = (quoted(&name), u8::from(is_super));
                rows.add(format_args!("{name}, {oid}, 0, {is_super}, 0, 0, {password}"));
            }
        }
        "info_enabled_roles" => rows(sql, relation, "role_name").add(format_args!("{who}")),
        _ => {}
    }
}

/// Types and functions.
fn fill_types(sql: &mut String, relation: &'static str) {
    match relation {
        "pg_range" => {
            let mut rows = rows(sql, relation, "rngtypid, rngsubtype, rngmultitypid");
            [
                (3904, 23, 4451),
                (3906, 1700, 4532),
                (3908, 1114, 4533),
                (3910, 1184, 4534),
                (3912, 1082, 4535),
                (3926, 20, 4536),
            ]
            .iter()
            .for_each(|(range, of, several)| rows.add(format_args!("{range}, {of}, {several}")));
        }
        "pg_type" => {
            let mut rows = rows(
                sql,
                relation,
                "oid, typname, typlen, typbyval, typtype, typcategory, typispreferred, typdelim, typsubscript, typelem, typarray, typinput, \
                 typoutput, typreceive, typsend, typmodin, typmodout, typanalyze, typalign, typstorage, typbasetype, typcollation, \
                 typnamespace, typowner, typisdefined, typtypmod",
            );
            for words in TYPES.iter() {
                let values: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                rows.add(format_args!("{}, {PG_CATALOG}, {USER}, 1, -1", values.join(", ")));
            }
        }
        "pg_proc" => {
            let mut rows = rows(
                sql,
                relation,
                "oid, proname, prorettype, pronargs, pronamespace, proowner, prolang, procost, prokind, proisstrict, provolatile, \
                 proparallel, prosrc",
            );
            for (_, words) in FUNCTIONS.iter() {
                if let [oid, name, returns, count] = words[..] {
                    rows.add(format_args!(
                        "{oid}, '{name}', {returns}, {count}, {PG_CATALOG}, {USER}, 12, 1, 'f', 1, 'i', 's', '{name}'"
                    ));
                }
            }
        }
        _ => {}
    }
}

/// The views.
fn fill_views(sql: &mut String, relation: &'static str, who: &str) {
    match relation {
        "pg_class" => {
            let mut rows = rows(
                sql,
                relation,
                "oid, relname, relnamespace, relowner, reltuples, relpersistence, relkind, relnatts, relispopulated, relreplident",
            );
            for (at, (name, columns)) in relations().enumerate() {
                let (oid, count) = (FIRST_OID + at, columns.len());
                rows.add(format_args!(
                    "{oid}, '{name}', {PUBLIC}, {USER}, -1, 'p', 'v', {count}, 1, 'n'"
                ));
            }
        }
        "pg_views" => {
            let mut rows = rows(sql, relation, "schemaname, viewname, viewowner");
            relations().for_each(|(name, _)| rows.add(format_args!("'public', '{name}', {who}")));
        }
        "info_tables" => {
            let mut rows = rows(
                sql,
                relation,
                "table_catalog, table_schema, table_name, table_type, is_insertable_into, is_typed",
            );
            relations().for_each(|(name, _)| {
                rows.add(format_args!("'plinth', 'public', '{name}', 'VIEW', 'NO', 'NO'"))
            });
        }
        "info_views" => {
            let mut rows = rows(
                sql,
                relation,
                "table_catalog, table_schema, table_name, check_option, is_updatable, is_insertable_into, is_trigger_updatable, \
                 is_trigger_deletable, is_trigger_insertable_into",
            );
            relations().for_each(|(name, _)| {
                rows.add(format_args!(
                    "'plinth', 'public', '{name}', 'NONE', 'NO', 'NO', 'NO', 'NO', 'NO'"
                ));
            });
        }
        _ => {}
    }
}

/// The columns of the views.
fn fill_columns(sql: &mut String, relation: &'static str) {
    match relation {
        "pg_attribute" => {
            let mut rows = rows(
                sql,
                relation,
                "attrelid, attname, atttypid, attstattarget, attlen, attnum, attcacheoff, atttypmod, attbyval, attalign, attstorage, \
                 attcompression, attidentity, attgenerated, attislocal, attcollation",
            );
            for (at, (_, columns)) in relations().enumerate() {
                for (number, (column, kind)) in columns.iter().enumerate() {
                    let (relation, (oid, length), number) =
                        (FIRST_OID + at, type_of(*kind), number + 1);
                    let (by_value, align, storage, collation) =
                        if *kind == Type::Text { (0, 'i', 'x', 100) } else { (1, 'd', 'p', 0) };
                    rows.add(format_args!(
                        "{relation}, '{column}', {oid}, -1, {length}, {number}, -1, -1, {by_value}, '{align}', '{storage}', '', '', '', 1, \
                         {collation}"
                    ));
                }
            }
        }
        "info_columns" => {
            let mut rows = rows(
                sql,
                relation,
                "table_catalog, table_schema, table_name, column_name, ordinal_position, is_nullable, data_type, \
                 character_octet_length, numeric_precision, numeric_precision_radix, numeric_scale, datetime_precision, udt_catalog, udt_schema, udt_name, dtd_identifier, is_self_referencing, is_identity, \
                 identity_cycle, is_generated, is_updatable",
            );
            for (name, columns) in relations() {
                for (number, (column, kind)) in columns.iter().enumerate() {
                    let oid = i64::from(type_of(*kind).0);
                    let (long, number) = (type_name(oid), number + 1);
                    let short = BY_OID.get(&oid).map_or("text", |(name, ..)| *name);
                    // The octets of a text, three facts about a number, the digits of a second.
                    let facts = match kind {
                        Type::Integer => "NULL, 64, 2, 0, NULL",
                        Type::Real => "NULL, 53, 2, NULL, NULL",
                        Type::Text => "1073741824, NULL, NULL, NULL, NULL",
                        Type::Time => "NULL, NULL, NULL, NULL, 6",
                        Type::Truth | Type::Letter => "NULL, NULL, NULL, NULL, NULL",
                    };
                    rows.add(format_args!(
                        "'plinth', 'public', '{name}', '{column}', {number}, 'YES', '{long}', {facts}, 'plinth', 'pg_catalog', '{short}', \
                         '{number}', 'NO', 'NO', 'NO', 'NEVER', 'NO'"
                    ));
                }
            }
        }
        _ => {}
    }
}

/// Functions about the catalog that are true of every object here, with their numbers of arguments.
const TRUE: [(&str, &[i32]); 24] = [
    ("has_any_column_privilege", &[2, 3]),
    ("has_column_privilege", &[3, 4]),
    ("has_database_privilege", &[2, 3]),
    ("has_foreign_data_wrapper_privilege", &[2, 3]),
    ("has_function_privilege", &[2, 3]),
    ("has_language_privilege", &[2, 3]),
    ("has_schema_privilege", &[2, 3]),
    ("has_sequence_privilege", &[2, 3]),
    ("has_server_privilege", &[2, 3]),
    ("has_table_privilege", &[2, 3]),
    ("has_tablespace_privilege", &[2, 3]),
    ("has_type_privilege", &[2, 3]),
    ("pg_collation_is_visible", &[1]),
    ("pg_conversion_is_visible", &[1]),
    ("pg_function_is_visible", &[1]),
    ("pg_has_role", &[2, 3]),
    ("pg_opclass_is_visible", &[1]),
    ("pg_operator_is_visible", &[1]),
    ("pg_opfamily_is_visible", &[1]),
    ("pg_statistics_obj_is_visible", &[1]),
    ("pg_table_is_visible", &[1]),
    ("pg_ts_config_is_visible", &[1]),
    ("pg_ts_dict_is_visible", &[1]),
    ("pg_type_is_visible", &[1]),
];
/// Functions that always return NULL here.
const NOTHING: [(&str, &[i32]); 25] = [
    ("col_description", &[2]),
    ("inet_client_addr", &[0]),
    ("inet_client_port", &[0]),
    ("inet_server_port", &[0]),
    ("obj_description", &[1, 2]),
    ("pg_conf_load_time", &[0]),
    ("pg_get_constraintdef", &[1, 2]),
    ("pg_get_expr", &[2, 3]),
    ("pg_get_function_arg_default", &[2]),
    ("pg_get_function_identity_arguments", &[1]),
    ("pg_get_functiondef", &[1]),
    ("pg_get_indexdef", &[1, 3]),
    ("pg_get_partition_constraintdef", &[1]),
    ("pg_get_partkeydef", &[1]),
    ("pg_get_ruledef", &[1, 2]),
    ("pg_get_serial_sequence", &[2]),
    ("pg_get_statisticsobjdef", &[1]),
    ("pg_get_statisticsobjdef_columns", &[1]),
    ("pg_get_triggerdef", &[1, 2]),
    ("pg_get_viewdef", &[1, 2]),
    ("pg_index_column_has_property", &[3]),
    ("pg_postmaster_start_time", &[0]),
    ("pg_tablespace_location", &[1]),
    ("shobj_description", &[2]),
    ("to_regproc", &[1]),
];
/// Functions that return a constant, such as the size of a relation without storage.
const NUMBERS: [(&str, &[i32], i64); 10] = [
    ("pg_char_to_encoding", &[1], 6),
    ("pg_database_size", &[1], 0),
    ("pg_encoding_max_length", &[1], 4),
    ("pg_indexes_size", &[1], 0),
    ("pg_is_other_temp_schema", &[1], 0),
    ("pg_my_temp_schema", &[0], 0),
    ("pg_relation_is_publishable", &[1], 0),
    ("pg_relation_size", &[1, 2], 0),
    ("pg_table_size", &[1], 0),
    ("pg_total_relation_size", &[1], 0),
];

/// Converts a name to a number; a number is unchanged.
fn number_of(value: Sql, find: impl Fn(&str) -> Option<i64>) -> Sql {
    match &value {
        Sql::Text(name) => find(name).map_or(value, Sql::Integer),
        _ => value,
    }
}

/// Functions about the catalog.
pub fn create_functions(connection: Registry<'_>) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8;
    for (name, counts) in TRUE {
        for count in counts {
            connection.create_scalar_function(name, *count, flags, |_| Ok(true))?;
        }
    }
    for (name, counts) in NOTHING {
        for count in counts {
            connection.create_scalar_function(name, *count, flags, |_| Ok(None::<String>))?;
        }
    }
    for (name, counts, number) in NUMBERS {
        for count in counts {
            connection.create_scalar_function(name, *count, flags, move |_| Ok(number))?;
        }
    }
    connection.create_scalar_function("format_type", 2, flags, |context| {
        Ok(context.get::<Option<i64>>(0)?.map(type_name))
    })?;
    connection.create_scalar_function("pg_regclass", 1, flags, |context| {
        Ok(number_of(context.get(0)?, relation_named))
    })?;
    connection.create_scalar_function("pg_regproc", 1, flags, |context| {
        let find = |name: &str| {
            let name = unquoted(name.split('(').next().unwrap_or_default().trim());
            FUNCTIONS.iter().find(|(_, words)| words.get(1) == Some(&name)).map(|(oid, _)| *oid)
        };
        Ok(number_of(context.get(0)?, find))
    })?;
    // Converts a number to a name, or a name to a number, depending on the argument.
    connection.create_scalar_function("pg_regtype", 1, flags, |context| {
        Ok(match context.get(0)? {
            Sql::Integer(oid) => Sql::Text(type_name(oid)),
            name => number_of(name, type_named),
        })
    })?;
    connection.create_scalar_function("to_regtype", 1, flags, |context| {
        Ok(context.get::<Option<String>>(0)?.and_then(|name| type_named(&name)))
    })?;
    connection.create_scalar_function("to_regclass", 1, flags, |context| {
        Ok(context.get::<Option<String>>(0)?.and_then(|name| relation_named(&name)))
    })?;
    connection.create_scalar_function("to_regnamespace", 1, flags, |context| {
        let schemas = [
            ("pg_catalog", PG_CATALOG),
            ("public", PUBLIC),
            ("information_schema", INFORMATION_SCHEMA),
        ];
        let name = context.get::<Option<String>>(0)?;
        let found = name.and_then(|name| {
            schemas.iter().find(|(schema, _)| *schema == unquoted(&name)).copied()
        });
        Ok(found.and_then(|(_, oid)| i64::try_from(oid).ok()))
    })
}

/// Functions that read settings.
pub fn create_settings(
    connection: &Connection,
    settings: &BTreeMap<String, String>,
) -> rusqlite::Result<()> {
    for count in [1, 2] {
        let settings = settings.clone();
        connection.create_scalar_function(
            "current_setting",
            count,
            FunctionFlags::SQLITE_UTF8,
            move |context| {
                let name = context.get::<String>(0)?;
                let found = settings.get(&name.to_ascii_lowercase()).cloned();
                if found.is_none() && !(count == 2 && context.get::<bool>(1)?) {
                    let text = format!("there is no setting \"{name}\"");
                    return Err(rusqlite::Error::UserFunctionError(text.into()));
                }
                Ok(found)
            },
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_by_each_of_their_names() {
        for (name, oid) in [
            ("int4", 23),
            ("integer", 23),
            ("int", 23),
            ("pg_catalog.text", 25),
            ("character varying(20)", 1043),
            ("text[]", 1009),
            ("timestamp with time zone", 1184),
            ("\"char\"", 18),
        ] {
            assert_eq!(type_named(name), Some(oid), "{name}");
        }
        assert_eq!(type_named("hstore"), None);
        let names = [16, 20, 25, 1009, 1184, 0, 1].map(type_name);
        assert_eq!(
            names,
            ["boolean", "bigint", "text", "text[]", "timestamp with time zone", "-", "???"]
        );
    }

    #[test]
    fn all_lines_are_whole() {
        assert!(
            RELATIONS.len() > 190 && RELATIONS.iter().all(|relation| !relation.columns.is_empty())
        );
        assert!(TYPES.len() > 180 && TYPES.iter().all(|words| words.len() == 22));
        assert!(FUNCTIONS.iter().all(|(_, words)| words.len() == 4));
        assert_eq!(BY_OID.len(), TYPES.len());
        // All functions that types name exist.
        for words in TYPES.iter() {
            for function in [8, 11, 12, 13, 14, 15, 16, 17] {
                let number: i64 = words[function].parse().expect("a number");
                assert!(
                    number == 0 || FUNCTIONS.iter().any(|(oid, _)| *oid == number),
                    "{words:?}"
                );
            }
        }
    }
}
