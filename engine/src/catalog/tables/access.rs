//! Tables `access_user`, `access_group` and `access_member`: users and user groups that statements
//! know by name.

use super::Result;
use crate::admin::Principal;
use rusqlite::{Connection, OptionalExtension, params};

/// Which of the two tables of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    Users,
    Groups,
}

impl Names {
    fn table(self) -> &'static str {
        match self {
            Self::Users => "access_user",
            Self::Groups => "access_group",
        }
    }
}

/// The number of a name.
pub(crate) fn number(connection: &Connection, of: Names, name: &str) -> Result<Option<u32>> {
    let sql = format!("SELECT number FROM {} WHERE name = ?1", of.table());
    connection.prepare_cached(&sql)?.query_row([name], |row| row.get(0)).optional()
}

/// The name of a number.
pub(crate) fn name(connection: &Connection, of: Names, number: u32) -> Result<Option<String>> {
    let sql = format!("SELECT name FROM {} WHERE number = ?1", of.table());
    connection.prepare_cached(&sql)?.query_row([number], |row| row.get(0)).optional()
}

/// Adds a name.
pub(crate) fn insert(connection: &Connection, into: Names, new: &Principal) -> Result<()> {
    let sql = format!("INSERT INTO {} (number, name) VALUES (?1, ?2)", into.table());
    connection.prepare_cached(&sql)?.execute(params![new.number, new.name])?;
    Ok(())
}

/// Deletes a user, and takes it from all groups.
pub(crate) fn delete_user(connection: &Connection, number: u32) -> Result<()> {
    connection.execute("DELETE FROM access_member WHERE user = ?1", [number])?;
    connection.execute("DELETE FROM access_user WHERE number = ?1", [number])?;
    Ok(())
}

/// Deletes a user group.
pub(crate) fn delete_group(connection: &Connection, number: u32) -> Result<()> {
    connection.execute("DELETE FROM access_member WHERE usergroup = ?1", [number])?;
    connection.execute("DELETE FROM access_group WHERE number = ?1", [number])?;
    Ok(())
}

/// Puts a user in the place of another one, in all groups, too.
pub(crate) fn replace_user(connection: &Connection, number: u32, new: &Principal) -> Result<()> {
    let sql = "UPDATE access_user SET number = ?2, name = ?3 WHERE number = ?1";
    connection.execute(sql, params![number, new.number, new.name])?;
    let sql = "UPDATE access_member SET user = ?2 WHERE user = ?1";
    connection.execute(sql, params![number, new.number])?;
    Ok(())
}

/// Makes a user a member of a group, if it is not.
pub(crate) fn add_member(connection: &Connection, group: u32, user: u32) -> Result<()> {
    connection
        .prepare_cached("INSERT OR IGNORE INTO access_member (usergroup, user) VALUES (?1, ?2)")?
        .execute(params![group, user])?;
    Ok(())
}

/// Takes a user from a group.
pub(crate) fn delete_member(connection: &Connection, group: u32, user: u32) -> Result<()> {
    let sql = "DELETE FROM access_member WHERE usergroup = ?1 AND user = ?2";
    connection.execute(sql, params![group, user])?;
    Ok(())
}
