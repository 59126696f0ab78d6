//! Users, user groups, and what they may do with files.

use super::{Parser, Result, Statement};
use crate::{
    sql::{At, statement::Access},
    sql_error::SqlError,
};
use plinth_engine::admin::Permission;

const USER: &str = "the name of a user in single quotes";
const USERGROUP: &str = "the name of a user group in single quotes";

/// Characters in the name of a user, bytes in that of a user group: as in ASM.
const USER_MAX: usize = 32;
const USERGROUP_MAX: usize = 63;

impl Parser<'_> {
    /// `USER 'u', ...`, `USERGROUP 'g' WITH MEMBER 'u', ...`, behind `ADD`.
    pub(super) fn add_access(&mut self, group: At<String>) -> Result<Statement> {
        let at = self.here();
        let change = if self.take("USERGROUP") {
            let name = self.user_group()?;
            self.need("WITH")?;
            self.need("MEMBER")?;
            Access::AddUserGroup { name, members: self.users()? }
        } else {
            self.need("USER")?;
            Access::AddUsers(self.users()?)
        };
        Ok(Statement::Access { group, change, at })
    }

    /// `USER 'u', ... [CASCADE]`, `USERGROUP 'g'`, behind `DROP`.
    pub(super) fn drop_access(&mut self, group: At<String>) -> Result<Statement> {
        let at = self.here();
        let change = if self.take("USERGROUP") {
            Access::DropUserGroup(self.user_group()?)
        } else {
            self.need("USER")?;
            let users = self.users()?;
            Access::DropUsers { users, cascade: self.take("CASCADE") }
        };
        Ok(Statement::Access { group, change, at })
    }

    /// `USERGROUP 'g' {ADD | DROP} MEMBER 'u', ...`, behind `MODIFY`.
    pub(super) fn modify_access(&mut self, group: At<String>) -> Result<Statement> {
        let at = self.here();
        self.need("USERGROUP")?;
        let name = self.user_group()?;
        let add = self.take("ADD");
        if !add && !self.take("DROP") {
            return Err(self.expected("ADD or DROP"));
        }
        self.need("MEMBER")?;
        let members = self.users()?;
        Ok(Statement::Access { group, change: Access::ModifyUserGroup { name, add, members }, at })
    }

    /// `USER 'old' WITH 'new', ...`, behind `REPLACE`.
    pub(super) fn replace_users(&mut self, group: At<String>) -> Result<Statement> {
        let at = self.here();
        self.need("USER")?;
        let mut pairs = Vec::new();
        loop {
            let old = self.user()?;
            self.need("WITH")?;
            pairs.push((old, self.user()?));
            if !self.take_symbol(",") {
                return Ok(Statement::Access { group, change: Access::ReplaceUsers(pairs), at });
            }
        }
    }

    /// `PERMISSION {OWNER | GROUP | OTHER} = ... FOR FILE 'f', ...`, behind `SET`.
    pub(super) fn set_permission(&mut self, group: At<String>) -> Result<Statement> {
        let at = self.here();
        self.need("PERMISSION")?;
        let mut all: [Option<Permission>; 3] = [None; 3];
        loop {
            let place = self.here();
            let who = ["OWNER", "GROUP", "OTHER"];
            let Some(index) = who.iter().position(|word| self.take(word)) else {
                return Err(self.expected("OWNER, GROUP or OTHER"));
            };
            self.need_equals()?;
            let permission = if self.take("NONE") {
                Permission::None
            } else if self.take("READ") {
                if self.take("ONLY") {
                    Permission::ReadOnly
                } else if self.take("WRITE") {
                    Permission::ReadWrite
                } else {
                    return Err(self.expected("ONLY or WRITE"));
                }
            } else {
                return Err(self.expected("NONE, READ ONLY or READ WRITE"));
            };
            if all[index].replace(permission).is_some() {
                return Err(SqlError::syntax(place, format!("{} is given twice", who[index])));
            }
            if !self.take_symbol(",") {
                break;
            }
        }
        let files = self.for_files()?;
        let [owner, usergroup, other] = all;
        Ok(Statement::Access {
            group,
            change: Access::SetPermission { owner, usergroup, other, files },
            at,
        })
    }

    /// `OWNERSHIP {OWNER = 'u' | GROUP = 'g'}, ... FOR FILE 'f', ...`, behind `SET`.
    pub(super) fn set_ownership(&mut self, group: At<String>) -> Result<Statement> {
        let at = self.here();
        self.need("OWNERSHIP")?;
        let (mut owner, mut usergroup) = (None, None);
        loop {
            let place = self.here();
            let is_owner = self.take("OWNER");
            if !is_owner && !self.take("GROUP") {
                return Err(self.expected("OWNER or GROUP"));
            }
            self.need_equals()?;
            let twice = if is_owner {
                owner.replace(self.user()?).is_some()
            } else {
                usergroup.replace(self.user_group()?).is_some()
            };
            if twice {
                return Err(SqlError::syntax(
                    place,
                    if is_owner { "OWNER is given twice" } else { "GROUP is given twice" },
                ));
            }
            if !self.take_symbol(",") {
                break;
            }
        }
        let files = self.for_files()?;
        Ok(Statement::Access {
            group,
            change: Access::SetOwnership { owner, usergroup, files },
            at,
        })
    }

    fn for_files(&mut self) -> Result<Vec<String>> {
        self.need("FOR")?;
        self.need("FILE")?;
        Ok(self.file_names()?.into_iter().map(|file| file.value).collect())
    }

    fn need_equals(&mut self) -> Result<()> {
        if self.take_symbol("=") { Ok(()) } else { Err(self.expected("'='")) }
    }

    fn users(&mut self) -> Result<Vec<At<String>>> {
        let mut users = vec![self.user()?];
        while self.take_symbol(",") {
            users.push(self.user()?);
        }
        Ok(users)
    }

    fn user(&mut self) -> Result<At<String>> {
        let user = self.string(USER)?;
        if user.value.is_empty() || user.value.chars().count() > USER_MAX {
            return Err(SqlError::syntax(
                user.at,
                format!("expected {USER}, of {USER_MAX} characters at most"),
            ));
        }
        Ok(user)
    }

    fn user_group(&mut self) -> Result<At<String>> {
        let name = self.string(USERGROUP)?;
        if name.value.is_empty() || name.value.len() > USERGROUP_MAX {
            return Err(SqlError::syntax(
                name.at,
                format!("expected {USERGROUP}, of {USERGROUP_MAX} bytes at most"),
            ));
        }
        Ok(name)
    }
}
