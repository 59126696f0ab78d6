//! Users and user groups of a disk group: the host's, by name here and by number in the engine.
//!
//! The kernel judges what a program may do with a file, by the numbers of its user and groups. So a
//! user of a disk group is a user of this host, and a user group is a group of it, with members
//! that are members there: another list would not be enforced. A statement that contradicts the
//! host is refused here, with the command that would make it true.

use super::{AdminError, Code, Context, Outcome, Result, SqlError};
use crate::{
    engine::protocol::Request,
    sql::{At, statement::Access},
    users,
};
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
    Ok(Principal { number, name: name.value.clone() })
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
    Ok(Principal { number, name: name.value.clone() })
}

/// The names of members; refused where the host contradicts the wanted membership.
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

fn values(names: &[At<String>]) -> Vec<String> {
    names.iter().map(|name| name.value.clone()).collect()
}

/// The change that the engine gets.
fn change(access: &Access) -> Result<AccessChange> {
    Ok(match access {
        Access::AddUsers(users) => {
            AccessChange::AddUsers(users.iter().map(user).collect::<Result<_>>()?)
        }
        Access::DropUsers { users, cascade } => {
            AccessChange::DropUsers { users: values(users), cascade: *cascade }
        }
        Access::ReplaceUsers(pairs) => {
            let pair = |(old, new): &(At<String>, At<String>)| Ok((old.value.clone(), user(new)?));
            AccessChange::ReplaceUsers(pairs.iter().map(pair).collect::<Result<_>>()?)
        }
        Access::AddUserGroup { name, members: names } => {
            let group = user_group(name)?;
            AccessChange::AddUserGroup { group, members: members(name, names, true)? }
        }
        Access::ModifyUserGroup { name, add, members: names } => AccessChange::ModifyUserGroup {
            name: name.value.clone(),
            add: *add,
            members: members(name, names, *add)?,
        },
        Access::DropUserGroup(name) => AccessChange::DropUserGroup(name.value.clone()),
        Access::SetPermission { owner, usergroup, other, files } => AccessChange::SetPermission {
            owner: *owner,
            usergroup: *usergroup,
            other: *other,
            files: files.clone(),
        },
        Access::SetOwnership { owner, usergroup, files } => AccessChange::SetOwnership {
            owner: owner.as_ref().map(|owner| owner.value.clone()),
            usergroup: usergroup.as_ref().map(|group| group.value.clone()),
            files: files.clone(),
        },
    })
}

impl Context {
    /// Refuses a user as the successor of another one in user groups of which the successor is no
    /// member on this host.
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

    pub(super) fn access(&self, group: &At<String>, access: &Access, at: usize) -> Result<Outcome> {
        if let Access::ReplaceUsers(pairs) = access {
            for (old, new) in pairs {
                self.check_successor(group, &old.value, new)?;
            }
        }
        let request = Request::Access(change(access)?);
        self.engine(group)?.ask(&request).map_err(|error| SqlError::from(error).or_at(at))?;
        Ok(Outcome::Done)
    }
}
