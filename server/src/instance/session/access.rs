//! Users and user groups of a disk group: the host's, by name here and by number in the engine.
//!
//! The kernel decides what a program may do with a file, by the numbers of its user and groups. So
//! a user of a disk group is a user of this host, and a user group is a group of this host, with
//! the same members: the kernel would not enforce any other list. A statement that contradicts the
//! host is refused here, with the command that would change the host.

use super::{AdminError, Code, Context, Result, SqlError, alter::InText};
use crate::{sql::At, users};
use plinth_engine::admin::{AccessChange, Principal, Value};

fn user(name: &At<String>) -> Result<Principal> {
    let number = users::user(&name.value).ok_or_else(|| {
        let error =
            AdminError::new(Code::NoSuchUser, format!("this host has no user {}", name.value));
        SqlError::from(
            error.hint(format!("useradd {}, with the same number on every host", name.value)),
        )
        .at(name.at)
    })?;
    Ok(Principal { number: Some(number), name: name.value.clone() })
}

fn user_group(name: &At<String>) -> Result<Principal> {
    let number = users::group(&name.value).ok_or_else(|| {
        let error =
            AdminError::new(Code::NoSuchUser, format!("this host has no group {}", name.value));
        SqlError::from(
            error.hint(format!("groupadd {}, with the same number on every host", name.value)),
        )
        .at(name.at)
    })?;
    Ok(Principal { number: Some(number), name: name.value.clone() })
}

/// The names of members. Refused if the host's group contradicts them: if a user that shall be a
/// member is none there, or a user that shall be none is one.
fn members(group: &At<String>, names: &[At<String>], shall_be: bool) -> Result<Vec<String>> {
    let refuse = |one: &At<String>, what: &str, command: String| {
        let text = format!("user {} {what} of group {} on this host", one.value, group.value);
        SqlError::from(AdminError::new(Code::Invalid, text).hint(command)).at(one.at)
    };
    for one in names {
        let is = users::is_member(&one.value, &group.value);
        if shall_be && !is {
            user(one)?;
            return Err(refuse(
                one,
                "is no member",
                format!("usermod -aG {} {}", group.value, one.value),
            ));
        }
        if !shall_be && is {
            return Err(refuse(
                one,
                "is a member",
                format!("gpasswd -d {} {}", one.value, group.value),
            ));
        }
    }
    Ok(names.iter().map(|name| name.value.clone()).collect())
}

impl Context {
    /// Refuses a user that replaces another one, if the other one is in a user group of which the
    /// new user is no member on this host.
    fn check_successor(&self, group: &At<String>, old: &str, new: &At<String>) -> Result<()> {
        let sql = "SELECT g.name, u.os_name FROM v$asm_usergroup AS g \
                   JOIN v$asm_usergroup_member AS m ON m.usergroup_number = g.usergroup_number \
                   JOIN v$asm_user AS u ON u.user_number = m.member_number";
        let mut groups = Vec::new();
        for row in
            self.engine(group)?.rows(sql).map_err(|error| SqlError::from(error).or_at(group.at))?
        {
            if let [Value::Text(name), Value::Text(user)] = &row[..]
                && user == old
            {
                groups.push(name.clone());
            }
        }
        for name in groups {
            members(&At { value: name, at: new.at }, std::slice::from_ref(new), true)?;
        }
        Ok(())
    }

    /// The change with the numbers of the host's users and groups.
    pub(super) fn with_numbers(
        &self,
        change: &AccessChange,
        group: &At<String>,
        text: &mut InText<'_>,
    ) -> Result<AccessChange> {
        let all = |names: &[String], text: &mut InText<'_>| -> Vec<At<String>> {
            names.iter().map(|name| text.find(name)).collect()
        };
        Ok(match change {
            AccessChange::AddUsers(users) => {
                let found = users.iter().map(|one| user(&text.find(&one.name)));
                AccessChange::AddUsers(found.collect::<Result<_>>()?)
            }
            AccessChange::ReplaceUsers(pairs) => {
                let mut places = Vec::new();
                for (old, new) in pairs {
                    text.next(old);
                    let new = text.find(&new.name);
                    self.check_successor(group, old, &new)?;
                    places.push(new);
                }
                let found =
                    pairs.iter().zip(&places).map(|((old, _), new)| Ok((old.clone(), user(new)?)));
                AccessChange::ReplaceUsers(found.collect::<Result<_>>()?)
            }
            AccessChange::AddUserGroup { group, members: names } => {
                let name = text.find(&group.name);
                let group = user_group(&name)?;
                let members = members(&name, &all(names, text), true)?;
                AccessChange::AddUserGroup { group, members }
            }
            AccessChange::ModifyUserGroup { name, add, members: names } => {
                let group = text.find(name);
                let members = members(&group, &all(names, text), *add)?;
                AccessChange::ModifyUserGroup { name: group.value, add: *add, members }
            }
            AccessChange::DropUsers { .. }
            | AccessChange::DropUserGroup(_)
            | AccessChange::SetPermission { .. }
            | AccessChange::SetOwnership { .. } => change.clone(),
        })
    }
}
