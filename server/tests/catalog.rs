//! Queries on PostgreSQL's catalog that drivers, ORMs and tools send when they connect, and when
//! they list tables, in their own words.
//!
//! Each statement was taken from the program that is named beside it. Any answer is not enough:
//! where the program needs a particular one, the test expects that one.

use plinth_engine::admin::{AdminError, Survey, Value};
use plinth_server::{
    query::{
        self, Cancel, Estimated, Source, Table,
        views::{self, Type},
    },
    sql::Query,
    sql_error::SqlError,
};
use std::collections::BTreeMap;

/// An instance without groups; it has all views.
struct Empty;

impl Source for Empty {
    fn groups(&self) -> BTreeMap<String, u32> {
        BTreeMap::new()
    }

    fn query(
        &self,
        _: &str,
        _: &str,
        _: &mut dyn FnMut(usize, Vec<u8>) -> Result<(), AdminError>,
    ) -> Result<(), AdminError> {
        Ok(())
    }

    fn survey(&self) -> Result<Vec<Survey>, AdminError> {
        Ok(Vec::new())
    }

    fn estimates(&self) -> Vec<Estimated> {
        Vec::new()
    }

    fn password_users(&self) -> Vec<Vec<Value>> {
        Vec::new()
    }

    fn user(&self) -> String {
        "scott".into()
    }
}

fn answer(query: &str, parameters: &[&str]) -> Result<Table, SqlError> {
    let parameters: Vec<Value> =
        parameters.iter().map(|text| Value::Text((*text).to_owned())).collect();
    let query = Query::new(query)?;
    query::run(&Empty, &query, &parameters, &Cancel::default(), &mut Vec::new())
}

#[track_caller]
fn ask(query: &str, parameters: &[&str]) -> Table {
    answer(query, parameters).unwrap_or_else(|refusal| panic!("{query}\n{refusal:?}"))
}

/// A result as text, a line for each row.
fn shown(table: &Table) -> String {
    let text = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => format!("{bytes:?}"),
    };
    let rows = table.rows.iter().map(|row| row.iter().map(text).collect::<Vec<_>>().join(" "));
    rows.collect::<Vec<_>>().join("\n")
}

/// Programs, their statements with parameters, and the expected results. `*`: any result that is
/// not empty; `...` at the end: more follows.
const CONNECTING: &[(&str, &str, &[&str], &str)] = &[
    (
        "postgres.js: arrays and their elements, before the first query",
        "select b.oid, b.typarray from pg_catalog.pg_type a left join pg_catalog.pg_type b on b.oid = a.typelem
         where a.typcategory = 'A' group by b.oid, b.typarray order by b.oid",
        &[],
        "16 1000\n17 1001\n18 1002\n19 1003\n20 1016\n...",
    ),
    (
        "postgres.js: another version",
        "select b.oid, b.typarray from pg_catalog.pg_type a left join pg_catalog.pg_type b on b.oid = a.typelem where a.typcategory = 'A' \
         group by 1, 2 order by 1",
        &[],
        "16 1000\n17 1001\n...",
    ),
    (
        "Rails: types, by the function that reads them",
        "SELECT t.oid, t.typname, t.typelem, t.typdelim, t.typinput, r.rngsubtype, t.typtype, t.typbasetype
         FROM pg_type as t LEFT JOIN pg_range as r ON oid = rngtypid
         WHERE t.typname IN ('int4', 'bool', '_int4', 'int4range') ORDER BY t.oid",
        &[],
        "16 bool 0 , boolin - b 0\n23 int4 0 , int4in - b 0\n1007 _int4 23 , array_in - b 0\n3904 int4range 0 , range_in 23 r 0",
    ),
    (
        "Rails: types that are arrays",
        "SELECT count(*) > 50 FROM pg_type as t WHERE t.typinput = 'array_in(cstring,oid,integer)'::regprocedure",
        &[],
        "1",
    ),
    (
        "Rails: columns of a table",
        r#"SELECT a.attname, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid), a.attnotnull, a.atttypid, a.atttypmod,
            c.collname, col_description(a.attrelid, a.attnum) AS comment, attidentity AS identity, attgenerated as attgenerated
           FROM pg_attribute a
           LEFT JOIN pg_attrdef d ON a.attrelid = d.adrelid AND a.attnum = d.adnum
           LEFT JOIN pg_type t ON a.atttypid = t.oid
           LEFT JOIN pg_collation c ON a.attcollation = c.oid AND a.attcollation <> t.typcollation
           WHERE a.attrelid = '"v$asm_attribute"'::regclass AND a.attnum > 0 AND NOT a.attisdropped
           ORDER BY a.attnum"#,
        &[],
        "name text - f 25 -1 - -  \nvalue text - f 25 -1 - -  \n...",
    ),
    (
        "npgsql: all types, as it loads them",
        "SELECT ns.nspname, t.oid, t.typname, t.typtype, t.typnotnull, t.elemtypoid
         FROM (
             SELECT
                 typ.oid, typ.typnamespace, typ.typname, typ.typtype, typ.typrelid, typ.typnotnull, typ.relkind,
                 elemtyp.oid AS elemtypoid, elemtyp.typname AS elemtypname, elemcls.relkind AS elemrelkind,
                 CASE WHEN elemproc.proname='array_recv' THEN 'a' ELSE elemtyp.typtype END AS elemtyptype
             FROM (
                 SELECT typ.oid, typnamespace, typname, typrelid, typnotnull, relkind, typelem AS elemoid2,
                     CASE WHEN proc.proname='array_recv' THEN 'a' ELSE typ.typtype END AS typtype,
                     CASE
                         WHEN proc.proname='array_recv' THEN typ.typelem
                         WHEN typ.typtype='r' THEN rngsubtype
                         WHEN typ.typtype='m' THEN (SELECT rngtypid FROM pg_range WHERE rngmultitypid = typ.oid)
                         WHEN typ.typtype='d' THEN typ.typbasetype
                     END AS elemoid
                 FROM pg_type AS typ
                 LEFT JOIN pg_class AS cls ON (cls.oid = typ.typrelid)
                 LEFT JOIN pg_proc AS proc ON proc.oid = typ.typreceive
                 LEFT JOIN pg_range ON (pg_range.rngtypid = typ.oid)
             ) AS typ
             LEFT JOIN pg_type AS elemtyp ON elemtyp.oid = elemoid
             LEFT JOIN pg_class AS elemcls ON (elemcls.oid = elemtyp.typrelid)
             LEFT JOIN pg_proc AS elemproc ON elemproc.oid = elemtyp.typreceive
         ) AS t
         JOIN pg_namespace AS ns ON (ns.oid = typnamespace)
         WHERE
             typtype IN ('b', 'r', 'm', 'e', 'd') OR
             (typtype = 'c' AND relkind='c') OR
             (typtype = 'p' AND typname IN ('record', 'void', 'unknown')) OR
             (typtype = 'a' AND (
                 elemtyptype IN ('b', 'r', 'm', 'e', 'd') OR
                 (elemtyptype = 'p' AND elemtypname IN ('record', 'void')) OR
                 (elemtyptype = 'c' AND elemrelkind='c')
             ))
         ORDER BY CASE
                WHEN typtype IN ('b', 'e', 'p') THEN 0
                WHEN typtype = 'c' THEN 1
                WHEN typtype = 'r' THEN 2
                WHEN typtype = 'm' THEN 3
                WHEN typtype = 'd' AND elemtyptype <> 'a' THEN 4
                WHEN typtype = 'a' THEN 5
                WHEN typtype = 'd' AND elemtyptype = 'a' THEN 6
         END, t.oid",
        &[],
        "pg_catalog 16 bool b f -\npg_catalog 17 bytea b f -\n...",
    ),
    (
        "npgsql: fields of composites",
        "SELECT typ.oid, att.attname, att.atttypid FROM pg_type AS typ
         JOIN pg_namespace AS ns ON (ns.oid = typ.typnamespace)
         JOIN pg_class AS cls ON (cls.oid = typ.typrelid)
         JOIN pg_attribute AS att ON (att.attrelid = typ.typrelid)
         WHERE (typ.typtype = 'c' AND cls.relkind='c') AND attnum > 0 AND NOT attisdropped ORDER BY typ.oid, att.attnum",
        &[],
        "",
    ),
    (
        "npgsql: enums",
        "SELECT pg_type.oid, enumlabel FROM pg_enum JOIN pg_type ON pg_type.oid=enumtypid ORDER BY oid, enumsortorder",
        &[],
        "",
    ),
    (
        "JDBC: the name of a type",
        "SELECT n.nspname = ANY(current_schemas(true)), n.nspname, t.typname FROM pg_catalog.pg_type t
         JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid WHERE t.oid = $1",
        &["20"],
        "1 pg_catalog int8",
    ),
    (
        "JDBC: the number of a type",
        "SELECT pg_type.oid, typname FROM pg_catalog.pg_type LEFT JOIN (select ns.oid as nspoid, ns.nspname, 0 as r
         from pg_namespace as ns) as sp ON sp.nspoid = typnamespace
         WHERE typname = $1 ORDER BY sp.r, pg_type.oid DESC LIMIT 1",
        &["text"],
        "25 text",
    ),
    (
        "JDBC: arrays",
        "SELECT e.typdelim, e.oid FROM pg_catalog.pg_type t, pg_catalog.pg_type e WHERE t.oid = $1 and t.typelem = e.oid",
        &["1009"],
        ", 25",
    ),
    (
        "JDBC: what is an array, and the SQL type of what is none",
        "SELECT t.typinput='array_in'::regproc, t.typtype, t.typname FROM pg_catalog.pg_type t WHERE t.oid IN (25, 1009) ORDER BY t.oid",
        &[],
        "0 b text\n1 b _text",
    ),
    (
        "JDBC: key words",
        "select string_agg(word, ',') from pg_catalog.pg_get_keywords() where word <> ALL ('{a,abs,absolute}'::text[])",
        &[],
        "-",
    ),
    (
        "JDBC: databases and schemas",
        "SELECT nspname AS TABLE_SCHEM, NULL AS TABLE_CATALOG FROM pg_catalog.pg_namespace
         WHERE nspname <> 'pg_toast' AND (nspname !~ '^pg_temp_' OR nspname = (pg_catalog.current_schemas(true))) ORDER BY TABLE_SCHEM",
        &[],
        "information_schema -\npg_catalog -\npublic -",
    ),
    (
        "psycopg 2: hstore",
        "SELECT t.oid, typarray FROM pg_type t JOIN pg_namespace ns ON typnamespace = ns.oid WHERE typname = 'hstore'",
        &[],
        "",
    ),
    (
        "psycopg 3: a type by its name",
        "SELECT typname AS name, oid, typarray AS array_oid, oid::regtype::text AS regtype, typdelim AS delimiter
         FROM pg_type t WHERE t.oid = to_regtype($1) ORDER BY t.oid",
        &["timestamp with time zone"],
        "timestamptz 1184 1185 timestamp with time zone ,",
    ),
    (
        "asyncpg: a codec for a type",
        "SELECT t.oid, t.typelem AS elemtype, t.typtype AS kind FROM pg_catalog.pg_type AS t
         INNER JOIN pg_catalog.pg_namespace ns ON (ns.oid = t.typnamespace) WHERE t.typname = $1 AND ns.nspname = $2",
        &["jsonb", "pg_catalog"],
        "3802 0 b",
    ),
    (
        "sqlx: a type by its number",
        "SELECT oid, typname, typtype, typcategory, typrelid, typelem, typbasetype FROM pg_catalog.pg_type WHERE oid = $1",
        &["1009"],
        "1009 _text b A 0 25 0",
    ),
    ("sqlx: a type by its name", "SELECT oid FROM pg_catalog.pg_type WHERE typname ILIKE $1", &["INT8"], "20"),
    ("sqlx: ranges", "SELECT rngsubtype FROM pg_catalog.pg_range WHERE rngtypid = $1", &["3926"], "20"),
    (
        "sqlx: columns of a relation",
        "SELECT attname, atttypid FROM pg_catalog.pg_attribute WHERE attrelid = $1::regclass AND NOT attisdropped AND attnum > 0 ORDER BY attnum
         LIMIT 1",
        &["v$asm_attribute"],
        "name 25",
    ),
    (
        "tokio-postgres: a type",
        "SELECT t.typname, t.typtype, t.typelem, r.rngsubtype, t.typbasetype, n.nspname, t.typrelid FROM pg_catalog.pg_type t
         LEFT OUTER JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid INNER JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid
         WHERE t.oid = $1",
        &["3904"],
        "int4range r 0 23 0 pg_catalog 0",
    ),
    (
        "pgx: a type",
        "select typname, typtype::text, typbasetype, typelem, typrelid from pg_type where oid = $1::text::oid",
        &["16"],
        "bool b 0 0 0",
    ),
    (
        "Sequelize: types and ranges",
        "WITH ranges AS ( SELECT pg_range.rngtypid, pg_type.typname AS rngtypname, pg_type.typarray AS rngtyparray, pg_range.rngsubtype
         FROM pg_range LEFT OUTER JOIN pg_type ON pg_type.oid = pg_range.rngtypid)
         SELECT pg_type.typname, pg_type.typtype, pg_type.oid, pg_type.typarray, ranges.rngtypname, ranges.rngtypid, ranges.rngtyparray
         FROM pg_type LEFT OUTER JOIN ranges ON pg_type.oid = ranges.rngsubtype WHERE (pg_type.typtype IN('b', 'e')) ORDER BY pg_type.oid",
        &[],
        "bool b 16 1000 - - -\n...",
    ),
    ("TypeORM: the schema", "SELECT * FROM current_schema()", &[], "public"),
    ("TypeORM: the database", "SELECT * FROM current_database()", &[], "plinth"),
    (
        "TypeORM: a table",
        r#"SELECT * FROM "information_schema"."tables" WHERE ("table_schema" = 'public' AND "table_name" = 'v$asm_disk')"#,
        &[],
        "plinth public v$asm_disk VIEW - - - - - NO NO -",
    ),
    (
        "Prisma",
        "SELECT EXISTS(SELECT 1 FROM pg_namespace WHERE nspname = $1), version() LIKE 'PostgreSQL 15%', current_setting('server_version_num')::integer as numeric_version",
        &["public"],
        "1 1 150000",
    ),
    (
        "SQLAlchemy: whether there is a table",
        "SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
         WHERE pg_catalog.pg_class.relname = $1 AND pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p', 'f', 'v', 'm'])
         AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) AND pg_catalog.pg_namespace.nspname != 'pg_catalog'",
        &["v$asm_disk"],
        "v$asm_disk",
    ),
    (
        "Django: tables",
        "SELECT c.relname, CASE WHEN c.relispartition THEN 'p' WHEN c.relkind IN ('m', 'v') THEN 'v' ELSE 't' END,
         obj_description(c.oid, 'pg_class') FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE c.relkind IN ('f', 'm', 'p', 'r', 'v') AND n.nspname NOT IN ('pg_catalog', 'pg_toast')
         AND pg_catalog.pg_table_is_visible(c.oid) AND c.relname = 'v$asm_disk'",
        &[],
        "v$asm_disk v -",
    ),
    (
        "Django: columns of a table",
        "SELECT a.attname AS column_name, NOT (a.attnotnull OR (t.typtype = 'd' AND t.typnotnull)) AS is_nullable,
         pg_get_expr(ad.adbin, ad.adrelid) AS column_default, CASE WHEN collname = 'default' THEN NULL ELSE collname END AS collation,
         a.attidentity != '' AS is_autofield, col_description(a.attrelid, a.attnum) AS column_comment
         FROM pg_attribute a LEFT JOIN pg_attrdef ad ON a.attrelid = ad.adrelid AND a.attnum = ad.adnum
         LEFT JOIN pg_collation co ON a.attcollation = co.oid JOIN pg_type t ON a.atttypid = t.oid JOIN pg_class c ON a.attrelid = c.oid
         JOIN pg_namespace n ON c.relnamespace = n.oid
         WHERE c.relkind IN ('f', 'm', 'p', 'r', 'v') AND c.relname = $1 AND n.nspname NOT IN ('pg_catalog', 'pg_toast')
         AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY a.attnum LIMIT 1",
        &["v$asm_attribute"],
        "name 1 - - 0 -",
    ),
    (
        "Metabase, and every tool that lists databases",
        "SELECT datname FROM pg_database WHERE datistemplate = false AND datallowconn",
        &[],
        "plinth",
    ),
    ("the same in old words", "SELECT datname FROM pg_database WHERE datistemplate = 'f' AND datallowconn = 't'", &[], "plinth"),
    (
        "Metabase: time zones and privileges",
        "select n.nspname as schema, c.relname as \"table\", pg_catalog.has_table_privilege(current_user, c.oid, 'SELECT') as \"select\"
         from pg_catalog.pg_class c join pg_catalog.pg_namespace n on c.relnamespace = n.oid
         where c.relkind in ('v', 'r', 'm', 'f', 'p') and n.nspname !~ '^information_schema|catalog_history|pg_' and c.relname = 'v$asm_disk'",
        &[],
        "public v$asm_disk 1",
    ),
    (
        "Grafana: tables",
        "SELECT quote_ident(table_name) as \"table\" FROM information_schema.tables
         WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache') AND table_name = 'v$asm_disk'",
        &[],
        "*",
    ),
    ("Grafana: the version", "SELECT current_setting('server_version_num')::int/100 as version", &[], "1500"),
    (
        "Grafana, Superset: columns",
        "SELECT column_name, data_type, is_nullable, udt_name, character_maximum_length, numeric_precision FROM information_schema.columns
         WHERE table_schema = 'public' AND table_name = 'v$asm_diskgroup' AND column_name IN ('name', 'total_mb') ORDER BY ordinal_position",
        &[],
        "name text YES text - -\ntotal_mb bigint YES int8 - 64",
    ),
    (
        "DBeaver: the database",
        "SELECT db.oid,db.* FROM pg_catalog.pg_database db WHERE datname=$1",
        &["plinth"],
        "1 1 plinth 10 6 c f t -1 0 0 1663 C C - - -",
    ),
    ("DBeaver: settings", "select * from pg_catalog.pg_settings where name=$1", &["standard_conforming_strings"], "*"),
    (
        "DBeaver: schemas",
        "SELECT n.oid,n.*,d.description FROM pg_catalog.pg_namespace n
         LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=n.oid AND d.objsubid=0 AND d.classoid='pg_namespace'::regclass
         ORDER BY nspname",
        &[],
        "13207 13207 information_schema 10 - -\n11 11 pg_catalog 10 - -\n2200 2200 public 10 - -",
    ),
    (
        "DBeaver: types",
        "SELECT t.oid,t.*,c.relkind,format_type(nullif(t.typbasetype, 0), t.typtypmod) as base_type_name, d.description
         FROM pg_catalog.pg_type t
         LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid=t.typelem
         LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid=t.typrelid
         LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid=d.objoid
         WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS NULL OR et.typcategory <> 'C')
         ORDER BY t.oid",
        &[],
        "16 16 bool 11 10 1 t b B t t , 0 - 0 1000 boolin boolout boolrecv boolsend - - - c p f 0 -1 0 0 - - - - - -\n...",
    ),
    (
        "DBeaver: relations",
        "SELECT c.oid,c.*,d.description,pg_catalog.pg_get_expr(c.relpartbound, c.oid) as partition_expr,  pg_catalog.pg_get_partkeydef(c.oid) as partition_key
         FROM pg_catalog.pg_class c
         LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_class'::regclass
         WHERE c.relnamespace=$1 AND c.relkind not in ('i','I','c')",
        &["2200"],
        "*",
    ),
    (
        "DBeaver: roles",
        "SELECT a.oid,a.*,pd.description FROM pg_catalog.pg_roles a left join pg_catalog.pg_shdescription pd on a.oid = pd.objoid ORDER BY a.rolname",
        &[],
        "10 scott t t t f t f -1 ******** - f - 10 -",
    ),
    (
        "pgAdmin: the database",
        "SELECT db.oid as did, db.datname, db.datallowconn, pg_encoding_to_char(db.encoding) AS serverencoding,
         has_database_privilege(db.oid, 'CREATE') as cancreate, datistemplate FROM pg_catalog.pg_database db WHERE db.datname = current_database()",
        &[],
        "1 plinth t UTF8 1 f",
    ),
    (
        "pgAdmin: who it is",
        "SELECT roles.oid as id, roles.rolname as name, roles.rolsuper as is_superuser,
         CASE WHEN roles.rolsuper THEN true ELSE roles.rolcreaterole END as can_create_role
         FROM pg_catalog.pg_roles as roles WHERE rolname = current_user",
        &[],
        "10 scott t 1",
    ),
    (
        "pgAdmin: a setting",
        "SELECT set_config('bytea_output','hex',false) FROM pg_show_all_settings() WHERE name = 'bytea_output'",
        &[],
        "hex",
    ),
    (
        "psqlODBC: columns",
        "select n.nspname, c.relname, a.attname, a.atttypid, t.typname, a.attnum, a.attlen, a.atttypmod, a.attnotnull, c.relhasrules, c.relkind, c.oid > 0,
         pg_get_expr(d.adbin, d.adrelid), case t.typtype when 'd' then t.typbasetype else 0 end, t.typtypmod, 0, attidentity, c.relhassubclass
         from (((pg_catalog.pg_class c inner join pg_catalog.pg_namespace n on n.oid = c.relnamespace and c.relname = 'v$asm_attribute')
         inner join pg_catalog.pg_attribute a on (not a.attisdropped) and a.attnum > 0 and a.attrelid = c.oid)
         inner join pg_catalog.pg_type t on t.oid = a.atttypid)
         left outer join pg_attrdef d on a.atthasdef and d.adrelid = a.attrelid and d.adnum = a.attnum
         order by n.nspname, c.relname, attnum limit 1",
        &[],
        "public v$asm_attribute name 25 text 1 -1 -1 f f v 1 - 0 -1 0  f",
    ),
    ("psqlODBC: large objects", "select oid, typbasetype from pg_type where typname = 'lo'", &[], ""),
    (
        "Hibernate, jOOQ: keys and constraints, of which there are none",
        "select tc.constraint_name, kcu.column_name from information_schema.table_constraints tc
         join information_schema.key_column_usage kcu using (constraint_schema, constraint_name)
         where tc.constraint_type = 'PRIMARY KEY'",
        &[],
        "",
    ),
    (
        "everybody: indexes and constraints of a table, of which there are none",
        "SELECT i.relname, ix.indisunique, ix.indkey, con.conname, con.contype, pg_get_constraintdef(con.oid), am.amname
         FROM pg_index ix JOIN pg_class i ON i.oid = ix.indexrelid JOIN pg_am am ON am.oid = i.relam
         LEFT JOIN pg_constraint con ON con.conindid = ix.indexrelid WHERE ix.indrelid = 'v$asm_disk'::regclass AND ix.indisvalid",
        &[],
        "",
    ),
];

#[test]
fn what_drivers_ask_when_they_connect_is_answered() {
    let mut wrong = Vec::new();
    for (who, query, parameters, expected) in CONNECTING {
        let found = answer(query, parameters).map(|table| shown(&table));
        let is_right = found.as_ref().is_ok_and(|found| match expected.strip_suffix("...") {
            Some(first) => found.starts_with(first) && found.len() > first.len(),
            None if *expected == "*" => !found.is_empty(),
            None => found == expected,
        });
        if !is_right {
            let found = found.map_or_else(
                |refusal| format!("{refusal:?}"),
                |found| found.chars().take(500).collect(),
            );
            wrong.push(format!("{who}\n{query}\n--- expected\n{expected}\n--- found\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// A boolean has the type of a boolean, so that a driver does not take `f` for a text that is not
/// empty, and so for true.
#[test]
fn truths_and_functions_are_what_drivers_expect() {
    let table =
        ask("SELECT typname, typbyval, typinput, typtype FROM pg_type WHERE typname = 'text'", &[]);
    let kinds: Vec<Type> = table.columns.iter().map(|column| column.kind).collect();
    assert_eq!(kinds, [Type::Text, Type::Truth, Type::Text, Type::Letter]);
    assert_eq!(shown(&table), "text f textin b");
    let query = Query::new("SELECT attnotnull, attname FROM pg_attribute").expect("tokens");
    let described = query::describe(&Empty, &query, &Cancel::default());
    let described = described.expect("described");
    assert_eq!(
        described.columns.iter().map(|column| column.kind).collect::<Vec<_>>(),
        [Type::Truth, Type::Text]
    );
}

/// A tool may select from any relation of the catalog: all relations exist, with all columns.
#[test]
fn every_relation_can_be_read() {
    let relations = include_str!("../src/query/pg_compat/catalog/relations.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    for relation in relations {
        let mut words = relation.split(' ').skip(1);
        let name = words.next().expect("a name");
        let columns: Vec<String> = words
            .map(|column| format!("\"{}\"", column.trim_end_matches(['#', '%', '?', '$', '!'])))
            .collect();
        let name = name.strip_prefix("info_").map_or_else(
            || format!("pg_catalog.{name}"),
            |name| format!("information_schema.{name}"),
        );
        ask(&format!("SELECT {} FROM {name} LIMIT 3", columns.join(", ")), &[]);
    }
    let views = ask(
        "SELECT count(*) FROM information_schema.columns WHERE table_name NOT LIKE '%\\_stat'",
        &[],
    );
    // Each `v$...` is there as `gv$...` as well, with one more column.
    let columns: usize = views::all()
        .filter(|view| !view.name.ends_with("_stat"))
        .map(|view| {
            let count = view.columns.len();
            if view.name.starts_with("v$") { 2 * count + 1 } else { count }
        })
        .sum();
    assert_eq!(shown(&views), columns.to_string());
}
