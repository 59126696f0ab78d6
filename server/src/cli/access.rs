//! Access to files: permissions, users and user groups of a disk group.

use super::{
    Result, asm_path,
    context::{Context, Headings, Run, group_name, like_or_all, quoted},
};
use crate::sql_error::{SqlError, state};
use clap::{ArgGroup, Args};

fn statement(context: &Context, group: &str, rest: &str) -> Result<()> {
    context.statement(&format!("ALTER DISKGROUP {} {rest}", group_name(group)?))
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
}

/// Runs a statement on each file that patterns match.
fn for_files(context: &Context, patterns: &[String], clause: &str) -> Result<()> {
    for pattern in patterns {
        for found in asm_path::expand(context, &context.place(pattern))? {
            let file = quoted(&found.place.to_string());
            statement(context, found.place.group()?, &format!("{clause} FOR FILE {file}"))?;
        }
    }
    Ok(())
}

/// Change what owner, group and others may do with files.
#[derive(Debug, Args)]
pub(super) struct Chmod {
    /// Three digits of 0, 4 (read only) and 6 (read and write); or as in u+rw, g-w, o=r.
    mode: String,
    #[arg(required = true)]
    files: Vec<String>,
}

/// The rights of one class of users to a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Rights {
    read: bool,
    write: bool,
}

impl Rights {
    fn word(self) -> &'static str {
        match self {
            Self { write: true, .. } => "READ WRITE",
            Self { read: true, .. } => "READ ONLY",
            Self { .. } => "NONE",
        }
    }
}

/// The classes, in the order of digits.
const CLASSES: [(char, &str); 3] = [('u', "OWNER"), ('g', "GROUP"), ('o', "OTHER")];

/// The rights after a mode is applied to those of `before`; `None`: it is no valid mode.
fn changed(mode: &str, before: [Rights; 3]) -> Option<[Rights; 3]> {
    if let [a, b, c] = mode.as_bytes()
        && mode.bytes().all(|byte| byte.is_ascii_digit())
    {
        let rights = |digit: u8| match digit {
            b'0' => Some(Rights::default()),
            b'4' => Some(Rights { read: true, write: false }),
            b'6' => Some(Rights { read: true, write: true }),
            _ => None,
        };
        return Some([rights(*a)?, rights(*b)?, rights(*c)?]);
    }
    let mut after = before;
    for part in mode.split(',') {
        let sign = part.find(['+', '-', '='])?;
        let (who, rest) = part.split_at(sign);
        let sign = rest.chars().next()?;
        let what = rest.get(1..)?;
        let who = if matches!(who, "" | "a") { "ugo" } else { who };
        if !who.chars().all(|class| "ugo".contains(class))
            || !what.chars().all(|right| "rw".contains(right))
        {
            return None;
        }
        for ((letter, _), rights) in CLASSES.iter().zip(&mut after) {
            if !who.contains(*letter) {
                continue;
            }
            let (read, write) = (what.contains('r'), what.contains('w'));
            match sign {
                '+' => {
                    *rights =
                        Rights { read: rights.read || read || write, write: rights.write || write }
                }
                '-' => {
                    let kept = Rights {
                        read: rights.read && !read,
                        write: rights.write && !write && !read,
                    };
                    *rights = kept;
                }
                _ => *rights = Rights { read: read || write, write },
            }
        }
    }
    Some(after)
}

impl Run for Chmod {
    fn run(&self, context: &mut Context) -> Result<()> {
        for pattern in &self.files {
            for found in asm_path::expand(context, &context.place(pattern))? {
                let bits = |shift: u32| Rights {
                    read: found.info.mode >> shift & 4 != 0,
                    write: found.info.mode >> shift & 2 != 0,
                };
                let before = [bits(6), bits(3), bits(0)];
                let after = changed(&self.mode, before).ok_or_else(|| {
                    SqlError::new(
                        state::SYNTAX,
                        format!("{:?} is no mode of files here", self.mode),
                    )
                    .hint("three of 0, 4 and 6, as in 640; or as in g+r")
                })?;
                let clauses = CLASSES
                    .iter()
                    .zip(after)
                    .map(|((_, class), rights)| format!("{class} = {}", rights.word()));
                let clause = format!("SET PERMISSION {}", clauses.collect::<Vec<_>>().join(", "));
                let file = quoted(&found.place.to_string());
                statement(context, found.place.group()?, &format!("{clause} FOR FILE {file}"))?;
            }
        }
        Ok(())
    }
}

/// Give files another owner.
#[derive(Debug, Args)]
pub(super) struct Chown {
    /// A user of the disk group; USER:GROUP gives another user group, too.
    owner: String,
    #[arg(required = true)]
    files: Vec<String>,
}

impl Run for Chown {
    fn run(&self, context: &mut Context) -> Result<()> {
        let (user, group) = self.owner.split_once(':').unwrap_or((&self.owner, ""));
        let mut parts = Vec::new();
        if !user.is_empty() {
            parts.push(format!("OWNER = {}", quoted(user)));
        }
        if !group.is_empty() {
            parts.push(format!("GROUP = {}", quoted(group)));
        }
        if parts.is_empty() {
            return Err(SqlError::new(state::SYNTAX, "neither a user nor a group")
                .hint("as in chown pg:dba FILE"));
        }
        for_files(context, &self.files, &format!("SET OWNERSHIP {}", parts.join(", ")))
    }
}

/// Give files another user group.
#[derive(Debug, Args)]
pub(super) struct Chgrp {
    /// A user group of the disk group.
    group: String,
    #[arg(required = true)]
    files: Vec<String>,
}

impl Run for Chgrp {
    fn run(&self, context: &mut Context) -> Result<()> {
        for_files(context, &self.files, &format!("SET OWNERSHIP GROUP = {}", quoted(&self.group)))
    }
}

/// List users of disk groups.
#[derive(Debug, Args)]
pub(super) struct Lsusr {
    #[arg(short = 'G', value_name = "GROUP")]
    group: Option<String>,
    /// With the disk group of each.
    #[arg(short)]
    all: bool,
    #[command(flatten)]
    headings: Headings,
    /// Names: * and % are wildcards.
    pattern: Option<String>,
}

fn group_condition(context: &Context, column: &str, group: Option<&str>) -> Result<String> {
    match group {
        Some(group) => Ok(format!("{column} = {}", context.group_number(&group_name(group)?)?)),
        None => Ok("1".to_owned()),
    }
}

impl Run for Lsusr {
    fn run(&self, context: &mut Context) -> Result<()> {
        let group = group_condition(context, "u.group_number", self.group.as_deref())?;
        let first = if self.all { "g.name AS DG_Name, " } else { "" };
        context.show_query(
            &format!(
                "SELECT {first}u.user_number AS User_Num, u.os_id AS OS_ID, u.os_name AS OS_Name
                 FROM v$asm_user u JOIN v$asm_diskgroup_stat g ON g.group_number = u.group_number
                 WHERE {group} AND {} ORDER BY g.name, u.user_number",
                like_or_all("u.os_name", self.pattern.as_deref())
            ),
            self.headings,
        )
    }
}

/// Let a user of the host own files of a disk group.
#[derive(Debug, Args)]
pub(super) struct Mkusr {
    group: String,
    user: String,
}

impl Run for Mkusr {
    fn run(&self, context: &mut Context) -> Result<()> {
        statement(context, &self.group, &format!("ADD USER {}", quoted(&self.user)))
    }
}

/// Remove a user of a disk group.
#[derive(Debug, Args)]
pub(super) struct Rmusr {
    /// The user's files too.
    #[arg(short)]
    recursive: bool,
    group: String,
    user: String,
}

impl Run for Rmusr {
    fn run(&self, context: &mut Context) -> Result<()> {
        let cascade = if self.recursive { " CASCADE" } else { "" };
        statement(context, &self.group, &format!("DROP USER {}{cascade}", quoted(&self.user)))
    }
}

/// Put another user of the host in the place of one.
#[derive(Debug, Args)]
pub(super) struct Rpusr {
    group: String,
    user: String,
    /// The user who owns the files from now on.
    other: String,
}

impl Run for Rpusr {
    fn run(&self, context: &mut Context) -> Result<()> {
        let (user, other) = (quoted(&self.user), quoted(&self.other));
        statement(context, &self.group, &format!("REPLACE USER {user} WITH {other}"))
    }
}

/// List user groups of disk groups.
#[derive(Debug, Args)]
pub(super) struct Lsgrp {
    /// With the members of each.
    #[arg(short)]
    all: bool,
    #[arg(short = 'G', value_name = "GROUP")]
    group: Option<String>,
    #[command(flatten)]
    headings: Headings,
    /// Names: * and % are wildcards.
    pattern: Option<String>,
}

const MEMBERS: &str = "v$asm_usergroup_member m JOIN v$asm_user w
    ON w.group_number = m.group_number AND w.user_number = m.member_number";

impl Run for Lsgrp {
    fn run(&self, context: &mut Context) -> Result<()> {
        let group = group_condition(context, "u.group_number", self.group.as_deref())?;
        let members = if self.all {
            format!(
                ", (SELECT group_concat(w.os_name, ' ') FROM {MEMBERS} WHERE m.group_number = u.group_number
                    AND m.usergroup_number = u.usergroup_number) AS Members"
            )
        } else {
            String::new()
        };
        context.show_query(
            &format!(
                "SELECT g.name AS DG_Name, u.name AS Grp_Name, o.os_name AS Owner{members}
                 FROM v$asm_usergroup u JOIN v$asm_diskgroup_stat g ON g.group_number = u.group_number
                 LEFT JOIN v$asm_user o ON o.group_number = u.group_number AND o.user_number = u.owner_number
                 WHERE {group} AND {} ORDER BY g.name, u.name",
                like_or_all("u.name", self.pattern.as_deref())
            ),
            self.headings,
        )
    }
}

/// List the user groups that a user is in.
#[derive(Debug, Args)]
pub(super) struct Groups {
    #[command(flatten)]
    headings: Headings,
    group: String,
    user: String,
}

impl Run for Groups {
    fn run(&self, context: &mut Context) -> Result<()> {
        let number = context.group_number(&group_name(&self.group)?)?;
        context.show_query(
            &format!(
                "SELECT u.name AS Grp_Name FROM {MEMBERS} JOIN v$asm_usergroup u
                 ON m.group_number = u.group_number AND m.usergroup_number = u.usergroup_number
                 WHERE u.group_number = {number} AND w.os_name = {} ORDER BY u.name",
                quoted(&self.user)
            ),
            self.headings,
        )
    }
}

/// Make a user group.
#[derive(Debug, Args)]
pub(super) struct Mkgrp {
    group: String,
    usergroup: String,
    /// Its first members.
    #[arg(required = true)]
    users: Vec<String>,
}

impl Run for Mkgrp {
    fn run(&self, context: &mut Context) -> Result<()> {
        let clause =
            format!("ADD USERGROUP {} WITH MEMBER {}", quoted(&self.usergroup), list(&self.users));
        statement(context, &self.group, &clause)
    }
}

/// Remove a user group.
#[derive(Debug, Args)]
pub(super) struct Rmgrp {
    group: String,
    usergroup: String,
}

impl Run for Rmgrp {
    fn run(&self, context: &mut Context) -> Result<()> {
        statement(context, &self.group, &format!("DROP USERGROUP {}", quoted(&self.usergroup)))
    }
}

/// Add members to a user group, or take them out.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["add", "delete"])))]
pub(super) struct Grpmod {
    #[arg(long)]
    add: bool,
    #[arg(long)]
    delete: bool,
    group: String,
    usergroup: String,
    #[arg(required = true)]
    users: Vec<String>,
}

impl Run for Grpmod {
    fn run(&self, context: &mut Context) -> Result<()> {
        let verb = if self.add { "ADD" } else { "DROP" };
        let clause = format!(
            "MODIFY USERGROUP {} {verb} MEMBER {}",
            quoted(&self.usergroup),
            list(&self.users)
        );
        statement(context, &self.group, &clause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_change_rights() {
        let none = Rights::default();
        let read = Rights { read: true, write: false };
        let both = Rights { read: true, write: true };
        assert_eq!(changed("640", [none; 3]), Some([both, read, none]));
        assert_eq!(changed("u+w", [none; 3]), Some([both, none, none]));
        assert_eq!(changed("g-w,o+r", [both, both, none]), Some([both, read, read]));
        assert_eq!(changed("a-r", [both; 3]), Some([none; 3]));
        assert_eq!(changed("ug=r", [both, none, both]), Some([read, read, both]));
        for wrong in ["", "7", "777", "64", "u", "x+r", "u+x", "u+r,"] {
            assert_eq!(changed(wrong, [none; 3]), None, "{wrong}");
        }
    }
}
