//! Users and user groups of a disk group, and their permissions for its files.
//!
//! There is one source of truth about a file: owner, group and mode in its row, which the kernel
//! enforces for all users of a mount. Users are the host's, with the host's numbers, and user
//! groups are the host's groups; the lists here say which of them statements and views know by name
//! (docs/decisions/017). So `chmod`, `chown` and the statements here change the same data, and no
//! view can differ from `ls -l`.
//!
//! Each statement is one durable commit: its checks and its changes.

use crate::{
    admin::{AccessChange, AdminError, Code, Permission, Principal},
    api::{Changes, Kind, Node},
    catalog::tables::{
        access::{self, Names},
        file::{self, Owner},
    },
    error::FileError,
    event::Severity,
    files::session::Session,
    group::Group,
    words::counted,
};
use rusqlite::Connection;

type Refusable<T> = Result<T, AdminError>;

/// The result of a job: refused, or done with these files changed.
type Outcome = Result<(Refusable<()>, Vec<(Node, Changes)>), FileError>;

fn refused(error: AdminError) -> Outcome {
    Ok((Err(error), Vec::new()))
}

fn done() -> Outcome {
    Ok((Ok(()), Vec::new()))
}

fn no_user(name: &str) -> AdminError {
    AdminError::new(Code::NoSuchUser, format!("the disk group has no user {name}"))
        .hint("v$asm_user has the users; ADD USER makes one")
}

fn no_group(name: &str) -> AdminError {
    AdminError::new(Code::NoSuchUser, format!("the disk group has no user group {name}"))
        .hint("v$asm_usergroup has the groups; ADD USERGROUP makes one")
}

/// The reason why a user or user group cannot be added: its name or its number exists.
fn taken(
    connection: &Connection,
    names: Names,
    new: &Principal,
    new_number: u32,
) -> rusqlite::Result<Option<AdminError>> {
    let exists = |text| Some(AdminError::new(Code::UserExists, text));
    if access::number(connection, names, &new.name)?.is_some() {
        return Ok(exists(format!("the disk group has {} already", new.name)));
    }
    let same = access::name(connection, names, new_number)?;
    Ok(same.and_then(|same| {
        exists(format!(
            "{} is number {new_number} on this host, which the disk group knows as {same}",
            new.name
        ))
    }))
}

fn add_users(connection: &Connection, users: &[Principal]) -> Outcome {
    for (index, user) in users.iter().enumerate() {
        let number = match user.known() {
            Ok(number) => number,
            Err(error) => return refused(error),
        };
        if let Some(error) = taken(connection, Names::Users, user, number)? {
            return refused(error);
        }
        if users[..index].iter().any(|other| other.number == user.number) {
            return refused(AdminError::new(
                Code::UserExists,
                format!("user {} is named twice", user.name),
            ));
        }
    }
    for user in users {
        access::insert(connection, Names::Users, user)?;
    }
    done()
}

fn drop_users(connection: &Connection, users: &[String]) -> Outcome {
    for user in users {
        let Some(number) = access::number(connection, Names::Users, user)? else {
            return refused(no_user(user));
        };
        let files = file::owned_by(connection, Owner::User(number))?.len();
        if files > 0 {
            let text = format!("user {user} owns {}", counted(files, "file"));
            return refused(
                AdminError::new(Code::UserInUse, text).hint(
                    "REPLACE USER or SET OWNERSHIP gives them to another one; DROP USER ... CASCADE removes them",
                ),
            );
        }
    }
    for user in users {
        // A user who is named twice is gone already.
        if let Some(number) = access::number(connection, Names::Users, user)? {
            access::delete_user(connection, number)?;
        }
    }
    done()
}

fn replace_users(connection: &Connection, pairs: &[(String, Principal)]) -> Outcome {
    let mut numbers = Vec::new();
    for (old, new) in pairs {
        let Some(number) = access::number(connection, Names::Users, old)? else {
            return refused(no_user(old));
        };
        let new_number = match new.known() {
            Ok(number) => number,
            Err(error) => return refused(error),
        };
        if let Some(error) = taken(connection, Names::Users, new, new_number)? {
            return refused(error);
        }
        if numbers.iter().any(|(before, other)| *before == number || *other == new_number) {
            return refused(AdminError::new(
                Code::Invalid,
                format!("user {old} or {} is named twice", new.name),
            ));
        }
        numbers.push((number, new_number));
    }
    let mut changes = Vec::new();
    for ((number, replaced), (_, new)) in numbers.into_iter().zip(pairs) {
        let files = file::owned_by(connection, Owner::User(number))?;
        changes.extend(
            files
                .into_iter()
                .map(|node| (node, Changes { uid: Some(replaced), ..Changes::default() })),
        );
        access::replace_user(connection, number, new)?;
    }
    Ok((Ok(()), changes))
}

fn add_members(connection: &Connection, group: u32, members: &[String]) -> Outcome {
    for member in members {
        let Some(user) = access::number(connection, Names::Users, member)? else {
            return refused(no_user(member));
        };
        access::add_member(connection, group, user)?;
    }
    done()
}

fn add_user_group(connection: &Connection, group: &Principal, members: &[String]) -> Outcome {
    let group_number = match group.known() {
        Ok(number) => number,
        Err(error) => return refused(error),
    };
    if let Some(error) = taken(connection, Names::Groups, group, group_number)? {
        return refused(error);
    }
    for member in members {
        if access::number(connection, Names::Users, member)?.is_none() {
            return refused(no_user(member));
        }
    }
    access::insert(connection, Names::Groups, group)?;
    add_members(connection, group_number, members)
}

fn modify_user_group(
    connection: &Connection,
    group: &str,
    add: bool,
    members: &[String],
) -> Outcome {
    let Some(group) = access::number(connection, Names::Groups, group)? else {
        return refused(no_group(group));
    };
    let mut users = Vec::new();
    for member in members {
        let Some(user) = access::number(connection, Names::Users, member)? else {
            return refused(no_user(member));
        };
        users.push(user);
    }
    if add {
        return add_members(connection, group, members);
    }
    for user in users {
        access::delete_member(connection, group, user)?;
    }
    done()
}

fn drop_user_group(connection: &Connection, group: &str) -> Outcome {
    let Some(number) = access::number(connection, Names::Groups, group)? else {
        return refused(no_group(group));
    };
    let files = file::owned_by(connection, Owner::Group(number))?.len();
    if files > 0 {
        let text = format!("user group {group} has {}", counted(files, "file"));
        return refused(
            AdminError::new(Code::UserInUse, text)
                .hint("SET OWNERSHIP GROUP = ... FOR FILE ... gives them to another one"),
        );
    }
    access::delete_group(connection, number)?;
    done()
}

/// The read and write bits of a class; the execute bits stay as they are.
fn with_permission(mode: u32, shift: u32, permission: Option<Permission>) -> u32 {
    let Some(permission) = permission else { return mode };
    let bits = match permission {
        Permission::None => 0,
        Permission::ReadOnly => 0o4,
        Permission::ReadWrite => 0o6,
    };
    (mode & !(0o6 << shift)) | (bits << shift)
}

impl Group {
    /// Changes users, user groups, owners or permissions.
    ///
    /// # Errors
    /// If something does not exist, exists already, or is in use; then nothing is changed, except
    /// that CASCADE may have removed files.
    pub async fn change_access(&self, change: &AccessChange) -> Refusable<()> {
        if let AccessChange::DropUsers { users, cascade: true } = change {
            for user in users {
                self.remove_files_of(user).await?;
            }
        }
        let mut files = Vec::new();
        if let AccessChange::SetPermission { files: names, .. }
        | AccessChange::SetOwnership { files: names, .. } = change
        {
            for name in names {
                let file = self.file_named(name).await?;
                if file.kind != Kind::Regular {
                    let text = format!("{name} is not a regular file");
                    return Err(AdminError::new(Code::Invalid, text)
                        .hint("use chown and chmod where it is mounted"));
                }
                files.push(file.node);
            }
        }
        let wanted = change.clone();
        let job = move |connection: &Connection| match &wanted {
            AccessChange::AddUsers(users) => add_users(connection, users),
            AccessChange::DropUsers { users, .. } => drop_users(connection, users),
            AccessChange::ReplaceUsers(pairs) => replace_users(connection, pairs),
            AccessChange::AddUserGroup { group, members } => {
                add_user_group(connection, group, members)
            }
            AccessChange::ModifyUserGroup { name, add, members } => {
                modify_user_group(connection, name, *add, members)
            }
            AccessChange::DropUserGroup(name) => drop_user_group(connection, name),
            AccessChange::SetPermission { owner, usergroup, other, .. } => {
                let mut changes = Vec::new();
                for node in files {
                    let mode = file::mode(connection, node)?;
                    let mode = with_permission(mode, 6, *owner);
                    let mode = with_permission(with_permission(mode, 3, *usergroup), 0, *other);
                    changes.push((node, Changes { mode: Some(mode), ..Changes::default() }));
                }
                Ok((Ok(()), changes))
            }
            AccessChange::SetOwnership { owner, usergroup, .. } => {
                let mut changes = Changes::default();
                if let Some(owner) = owner {
                    let Some(uid) = access::number(connection, Names::Users, owner)? else {
                        return refused(no_user(owner));
                    };
                    changes.uid = Some(uid);
                }
                if let Some(group) = usergroup {
                    let Some(gid) = access::number(connection, Names::Groups, group)? else {
                        return refused(no_group(group));
                    };
                    changes.gid = Some(gid);
                }
                Ok((Ok(()), files.into_iter().map(|node| (node, changes.clone())).collect()))
            }
        };
        let Some(group) = self.myself() else { return Err(self.gone()) };
        let session = Session::new(group, None);
        let changed = self.files.change_owners(session.origin(), job).await;
        changed.map_err(|error| error.while_doing(format_args!("disk group {}", self.name)))?
    }

    fn gone(&self) -> AdminError {
        AdminError::new(Code::NotMounted, format!("disk group {} is being dismounted", self.name))
    }

    /// Removes every name of the files that a user owns. An open file is deleted when it is closed.
    async fn remove_files_of(&self, user: &str) -> Refusable<()> {
        let failed =
            |error: FileError| error.while_doing(format_args!("removing the files of user {user}"));
        let wanted = user.to_owned();
        let find = move |connection: &Connection| {
            let Some(number) = access::number(connection, Names::Users, &wanted)? else {
                return Ok(None);
            };
            Ok(Some(file::owned_by(connection, Owner::User(number))?))
        };
        let (nodes, _) = self.catalog.release(false, find).await.map_err(failed)?;
        let Some(nodes) = nodes else { return Err(no_user(user)) };
        let Some(group) = self.myself() else { return Err(self.gone()) };
        let session = Session::new(group, None);
        let count = nodes.len();
        for node in nodes {
            for (parent, name) in self.files.names_of(node).await.map_err(failed)? {
                match session.unlink(parent, &name).await {
                    Ok(()) | Err(FileError::NotFound) => {}
                    Err(error) => return Err(failed(error)),
                }
            }
        }
        if count > 0 {
            self.tell(
                Severity::Warning,
                None,
                format!("user {user} is dropped with {}", counted(count, "file")),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Execute bits stay, and so do the bits of the other classes.
    #[test]
    fn permissions_are_two_bits_of_a_class() {
        assert_eq!(with_permission(0o751, 6, Some(Permission::ReadOnly)), 0o551);
        assert_eq!(with_permission(0o751, 3, Some(Permission::None)), 0o711);
        assert_eq!(with_permission(0o4640, 0, Some(Permission::ReadWrite)), 0o4646);
        assert_eq!(with_permission(0o640, 3, None), 0o640);
    }
}
