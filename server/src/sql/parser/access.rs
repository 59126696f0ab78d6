//! Users of a disk group, user groups, and the ownership and permissions of files.

use super::{Parser, Result, Statement};
use crate::{
    sql::{
        At,
        statement::{Alter, Places},
    },
    sql_error::SqlError,
};
use plinth_engine::admin::{AccessChange, Command, Permission, Principal};

const USER: &str = "the name of a user in single quotes";
const USERGROUP: &str = "the name of a user group in single quotes";

/// Characters in the name of a user, bytes in that of a user group: as in ASM.
const USER_MAX: usize = 32;
const USERGROUP_MAX: usize = 63;

/// The statement, with the positions of the names in it.
fn access(group: At<String>, change: AccessChange, places: Places, at: usize) -> Statement {
    Statement::Alter(Alter::one(group, Command::Access(change)).at(at).places(places))
}

impl Parser<'_> {
    /// `USER 'u', ...`, `USERGROUP 'g' WITH MEMBER 'u', ...`, after `ADD`.
    pub(super) fn add_access(&mut self, group: At<String>) -> Result<Statement> {
        let (at, mut places) = (self.here(), Places::new());
        let change = if self.take("USERGROUP") {
            let name = self.user_group(&mut places)?;
            self.need("WITH")?;
            self.need("MEMBER")?;
            let members = self.users(&mut places)?;
            AccessChange::AddUserGroup { group: Principal::named(name), members }
        } else {
            self.need("USER")?;
            let users = self.users(&mut places)?;
            AccessChange::AddUsers(users.into_iter().map(Principal::named).collect())
        };
        Ok(access(group, change, places, at))
    }

    /// `USER 'u', ... [CASCADE]`, `USERGROUP 'g'`, after `DROP`.
    pub(super) fn drop_access(&mut self, group: At<String>) -> Result<Statement> {
        let (at, mut places) = (self.here(), Places::new());
        let change = if self.take("USERGROUP") {
            AccessChange::DropUserGroup(self.user_group(&mut places)?)
        } else {
            self.need("USER")?;
            let users = self.users(&mut places)?;
            AccessChange::DropUsers { users, cascade: self.take("CASCADE") }
        };
        Ok(access(group, change, places, at))
    }

    /// `USERGROUP 'g' {ADD | DROP} MEMBER 'u', ...`, after `MODIFY`.
    pub(super) fn modify_access(&mut self, group: At<String>) -> Result<Statement> {
        let (at, mut places) = (self.here(), Places::new());
        self.need("USERGROUP")?;
        let name = self.user_group(&mut places)?;
        let add = self.take("ADD");
        if !add && !self.take("DROP") {
            return Err(self.expected("ADD or DROP"));
        }
        self.need("MEMBER")?;
        let members = self.users(&mut places)?;
        Ok(access(group, AccessChange::ModifyUserGroup { name, add, members }, places, at))
    }

    /// `USER 'old' WITH 'new', ...`, after `REPLACE`.
    pub(super) fn replace_users(&mut self, group: At<String>) -> Result<Statement> {
        let (at, mut places) = (self.here(), Places::new());
        self.need("USER")?;
        let mut pairs = Vec::new();
        loop {
            let old = self.user(&mut places)?;
            self.need("WITH")?;
            pairs.push((old, Principal::named(self.user(&mut places)?)));
            if !self.take_symbol(",") {
                return Ok(access(group, AccessChange::ReplaceUsers(pairs), places, at));
            }
        }
    }

    /// `PERMISSION {OWNER | GROUP | OTHER} = ... FOR FILE 'f', ...`, after `SET`.
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
        let change = AccessChange::SetPermission { owner, usergroup, other, files };
        Ok(access(group, change, Places::new(), at))
    }

    /// `OWNERSHIP {OWNER = 'u' | GROUP = 'g'}, ... FOR FILE 'f', ...`, after `SET`.
    pub(super) fn set_ownership(&mut self, group: At<String>) -> Result<Statement> {
        let (at, mut places) = (self.here(), Places::new());
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
                owner.replace(self.user(&mut places)?).is_some()
            } else {
                usergroup.replace(self.user_group(&mut places)?).is_some()
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
        Ok(access(group, AccessChange::SetOwnership { owner, usergroup, files }, places, at))
    }

    fn for_files(&mut self) -> Result<Vec<String>> {
        self.need("FOR")?;
        self.need("FILE")?;
        Ok(self.file_names()?.into_iter().map(|file| file.value).collect())
    }

    fn need_equals(&mut self) -> Result<()> {
        if self.take_symbol("=") { Ok(()) } else { Err(self.expected("'='")) }
    }

    fn users(&mut self, places: &mut Places) -> Result<Vec<String>> {
        let mut users = vec![self.user(places)?];
        while self.take_symbol(",") {
            users.push(self.user(places)?);
        }
        Ok(users)
    }

    fn user(&mut self, places: &mut Places) -> Result<String> {
        let user = self.string(USER)?;
        if user.value.is_empty() || user.value.chars().count() > USER_MAX {
            return Err(SqlError::syntax(
                user.at,
                format!("expected {USER}, of {USER_MAX} characters at most"),
            ));
        }
        places.push((user.value.clone(), user.at));
        Ok(user.value)
    }

    fn user_group(&mut self, places: &mut Places) -> Result<String> {
        let name = self.string(USERGROUP)?;
        if name.value.is_empty() || name.value.len() > USERGROUP_MAX {
            return Err(SqlError::syntax(
                name.at,
                format!("expected {USERGROUP}, of {USERGROUP_MAX} bytes at most"),
            ));
        }
        places.push((name.value.clone(), name.at));
        Ok(name.value)
    }
}
