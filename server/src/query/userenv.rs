//! `SYS_CONTEXT('USERENV', name)` and `USERENV(name)`: facts about the session and its instance.
//!
//! The instance says which facts there are. A name that it does not know is refused, as in Oracle;
//! a fact that is not known, such as a terminal, is NULL. Other contexts than USERENV have nothing.

use rusqlite::{Connection, Error, functions::FunctionFlags};
use std::{collections::BTreeMap, sync::Arc};

/// Facts by name, in lower case.
pub type Facts = BTreeMap<&'static str, Option<String>>;

/// The longest result where the caller does not say another length, in bytes: as in Oracle.
const LENGTH: usize = 256;
const LENGTH_MAX: i64 = 4000;

/// Whether a statement may call these functions.
#[must_use]
pub fn is_mentioned(sql: &str) -> bool {
    let sql = sql.to_ascii_lowercase();
    sql.contains("sys_context") || sql.contains("userenv")
}

/// Registers the functions with a connection.
pub fn create(connection: &Connection, facts: Facts) -> rusqlite::Result<()> {
    let facts = Arc::new(facts);
    let flags = FunctionFlags::SQLITE_UTF8;
    for arguments in [2, 3] {
        let facts = Arc::clone(&facts);
        connection.create_scalar_function("sys_context", arguments, flags, move |context| {
            let (namespace, name) = (context.get::<String>(0)?, context.get::<String>(1)?);
            if !namespace.eq_ignore_ascii_case("USERENV") {
                return Ok(None);
            }
            let length = if arguments == 3 { context.get::<i64>(2)? } else { 0 };
            let length = match usize::try_from(length) {
                Ok(length @ 1..) if length as i64 <= LENGTH_MAX => length,
                _ => LENGTH,
            };
            Ok(fact(&facts, &name)?.map(|value| cut(value, length)))
        })?;
    }
    connection.create_scalar_function("userenv", 1, flags, move |context| {
        fact(&facts, &context.get::<String>(0)?)
    })
}

fn fact(facts: &Facts, name: &str) -> rusqlite::Result<Option<String>> {
    facts.get(name.to_ascii_lowercase().as_str()).cloned().ok_or_else(|| {
        let known: Vec<String> = facts.keys().map(|name| name.to_uppercase()).collect();
        let text =
            format!("USERENV has no parameter '{name}' (ORA-02003); it has {}", known.join(", "));
        Error::UserFunctionError(text.into())
    })
}

/// The first bytes of a text, whole characters.
fn cut(mut text: String, length: usize) -> String {
    let end = (0..=length.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_found_in_any_case_and_unknown_names_are_refused() {
        let connection = Connection::open_in_memory().expect("a database");
        let long = "é".repeat(200);
        let facts = [("db_name", Some("+ASM".to_owned())), ("terminal", None), ("x", Some(long))];
        create(&connection, facts.into()).expect("functions");
        let ask = |sql: &str| {
            connection
                .query_row(&format!("SELECT {sql}"), [], |row| row.get::<_, Option<String>>(0))
        };
        assert_eq!(
            ask("sys_context('userenv', 'DB_NAME')").expect("a fact").as_deref(),
            Some("+ASM")
        );
        assert_eq!(ask("USERENV('Db_Name')").expect("a fact").as_deref(), Some("+ASM"));
        assert_eq!(
            ask("sys_context('USERENV', 'db_name', 2)").expect("cut").as_deref(),
            Some("+A")
        );
        assert_eq!(
            ask("sys_context('USERENV', 'x')").expect("cut").map(|text| text.len()),
            Some(256)
        );
        assert_eq!(ask("sys_context('USERENV', 'x', 3)").expect("cut").as_deref(), Some("é"));
        assert_eq!(ask("sys_context('USERENV', 'TERMINAL')").expect("NULL"), None);
        assert_eq!(ask("sys_context('OTHER', 'db_name')").expect("NULL"), None);
        for unknown in ["sys_context('USERENV', 'dbname')", "userenv('nonsense')"] {
            let error = ask(unknown).expect_err(unknown).to_string();
            assert!(error.contains("ORA-02003") && error.contains("DB_NAME"), "{error}");
        }
    }
}
