//! `md_backup` and `md_restore`: the metadata of a disk group as a text, and the group made again
//! from it.
//!
//! The text is JSON: attributes, disks with their failure groups, templates, directories with
//! owners and modes, aliases, volumes, users and user groups. It has no bytes of files or volumes.
//! A restore gives ordinary statements:
//!
//!   - `--full`: the group is made from its disks, and then all the rest
//!   - `--newdg`: the same under another name (`-o old:new`)
//!   - `--nodg`: the group is there; attributes, templates, directories, volumes, users, and
//!     aliases whose files are there. Existing objects stay as they are; a template gets the
//!     redundancy and striping of the text
//!
//! Directories that the system makes for its files come and go with those, and are not in it.
//!
//! The first refusal ends it; with `--silent` it is printed and the next statement is tried.

use super::{
    Result,
    asm_path::{self, AsmPath},
    complain,
    context::{Context, Run, checked_name, group_name, quoted},
    files, templates,
};
use crate::{
    query::Table,
    sql_error::{SqlError, state},
};
use clap::{ArgGroup, Args};
use plinth_engine::admin::Value;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// The form of the text. A text with a higher number is refused.
const FORM: u32 = 1;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Backup {
    plinth_md_backup: u32,
    groups: Vec<Group>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Group {
    name: String,
    /// EXTERNAL, NORMAL, HIGH.
    redundancy: String,
    /// Bytes.
    au_size: i64,
    #[serde(default)]
    attributes: Vec<Attribute>,
    disks: Vec<Disk>,
    #[serde(default)]
    templates: Vec<Template>,
    /// Paths in the group, parents first.
    #[serde(default)]
    directories: Vec<String>,
    /// Owners of directories; those without one belong to the user who restores them.
    #[serde(default)]
    owners: Vec<Owner>,
    #[serde(default)]
    aliases: Vec<Alias>,
    #[serde(default)]
    volumes: Vec<Volume>,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    usergroups: Vec<UserGroup>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Attribute {
    name: String,
    value: String,
    #[serde(default)]
    read_only: bool,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Disk {
    name: String,
    failgroup: String,
    #[serde(default)]
    quorum: bool,
    path: String,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Template {
    name: String,
    redundancy: String,
    stripe: String,
    /// Empty: from a backup of a version without it, when all were SPARSE.
    #[serde(default)]
    allocation: String,
    system: bool,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Alias {
    alias: String,
    file: String,
}

/// The owner and the mode of a directory: users and groups of the host by their numbers, as on any
/// file system.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    directory: String,
    uid: u32,
    gid: u32,
    mode: u32,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Volume {
    name: String,
    size_mb: i64,
    /// HIGH redundancy in a group whose own is lower.
    high: bool,
    stripe_width_k: i64,
    stripe_columns: i64,
    enabled: bool,
    usage: String,
    mount_path: String,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct UserGroup {
    name: String,
    members: Vec<String>,
}

/// Write down what disk groups are made of; not what is in their files.
#[derive(Debug, Args)]
pub(super) struct MdBackup {
    /// Only these, with commas between.
    #[arg(short = 'G', value_name = "GROUPS", value_delimiter = ',')]
    groups: Vec<String>,
    /// Overwrite the file without asking.
    #[arg(short, long)]
    force: bool,
    file: String,
}

/// The texts of a row.
fn texts(row: &[Value]) -> Vec<String> {
    row.iter().map(super::table::text).collect()
}

/// A query over a view that may not be there.
fn optional(context: &Context, sql: &str) -> Result<Table> {
    match context.query(sql) {
        Err(refusal) if refusal.state == "42P01" => {
            Ok(Table { columns: Vec::new(), rows: Vec::new() })
        }
        found => found,
    }
}

fn describe(context: &Context, name: &str) -> Result<Group> {
    let number = context.group_number(name)?;
    let mut group = Group { name: name.to_owned(), ..Group::default() };
    let found = context.query(&format!(
        "SELECT type, allocation_unit_size FROM v$asm_diskgroup_stat WHERE group_number = {number}"
    ))?;
    if let Some([Value::Text(kind), Value::Integer(au)]) = found.rows.first().map(|row| &row[..]) {
        group.redundancy = if kind == "EXTERN" { "EXTERNAL".to_owned() } else { kind.clone() };
        group.au_size = *au;
    }
    let attributes = format!(
        "SELECT name, value, read_only FROM v$asm_attribute WHERE group_number = {number}
         AND name NOT LIKE 'what_if.%' ORDER BY name"
    );
    for row in context.query(&attributes)?.rows {
        if let [name, value, read_only] = &texts(&row)[..] {
            group.attributes.push(Attribute {
                name: name.clone(),
                value: value.clone(),
                read_only: read_only == "Y",
            });
        }
    }
    let disks = format!(
        "SELECT name, failgroup, failgroup_type, path FROM v$asm_disk_stat WHERE group_number = {number}
         AND state NOT IN ('DROPPING', 'FORCING') ORDER BY disk_number"
    );
    for row in context.query(&disks)?.rows {
        if let [name, failgroup, kind, path] = &texts(&row)[..] {
            let (name, failgroup, path) = (name.clone(), failgroup.clone(), path.clone());
            group.disks.push(Disk { name, failgroup, quorum: kind == "QUORUM", path });
        }
    }
    let templates = format!(
        "SELECT name, redundancy, stripe, allocation, system FROM v$asm_template WHERE group_number = {number} ORDER BY entry_number"
    );
    for row in optional(context, &templates)?.rows {
        if let [name, redundancy, stripe, allocation, system] = &texts(&row)[..] {
            let redundancy =
                if redundancy == "UNPROT" { "UNPROTECTED".to_owned() } else { redundancy.clone() };
            let (name, stripe) = (name.clone(), stripe.clone());
            let (allocation, system) = (allocation.clone(), system == "Y");
            group.templates.push(Template { name, redundancy, stripe, allocation, system });
        }
    }
    let users = format!(
        "SELECT os_name FROM v$asm_user WHERE group_number = {number} ORDER BY user_number"
    );
    group.users = optional(context, &users)?.rows.iter().flat_map(|row| texts(row)).collect();
    let usergroups = format!(
        "SELECT g.name, u.os_name FROM v$asm_usergroup g
         LEFT JOIN v$asm_usergroup_member m ON m.group_number = g.group_number AND m.usergroup_number = g.usergroup_number
         LEFT JOIN v$asm_user u ON u.group_number = m.group_number AND u.user_number = m.member_number
         WHERE g.group_number = {number} ORDER BY g.name, u.os_name"
    );
    for row in optional(context, &usergroups)?.rows {
        if let [name, member] = &texts(&row)[..] {
            if group.usergroups.last().is_none_or(|last| last.name != *name) {
                group.usergroups.push(UserGroup { name: name.clone(), members: Vec::new() });
            }
            if let Some(last) = group.usergroups.last_mut().filter(|_| !member.is_empty()) {
                last.members.push(member.clone());
            }
        }
    }
    group.volumes = volumes(context, number, &group.redundancy)?;
    names(context, number, &mut group)?;
    Ok(group)
}

fn volumes(context: &Context, number: i64, redundancy: &str) -> Result<Vec<Volume>> {
    let found = optional(
        context,
        &format!(
            "SELECT v.volume_name, v.size_mb, v.stripe_width_k, v.stripe_columns, v.state, v.usage, v.mountpath, f.redundancy
             FROM v$asm_volume v JOIN v$asm_file f ON f.group_number = v.group_number AND f.file_number = v.file_number
             WHERE v.group_number = {number} ORDER BY v.volume_name"
        ),
    )?;
    let number =
        |value: Option<&Value>| if let Some(Value::Integer(number)) = value { *number } else { 0 };
    let volume = |row: &Vec<Value>| {
        let text = |at: usize| row.get(at).map(super::table::text).unwrap_or_default();
        Volume {
            name: text(0),
            size_mb: number(row.get(1)),
            stripe_width_k: number(row.get(2)),
            stripe_columns: number(row.get(3)),
            enabled: text(4) == "ENABLED",
            usage: text(5),
            mount_path: text(6),
            high: text(7) == "HIGH" && redundancy != "HIGH",
        }
    };
    Ok(found.rows.iter().map(volume).collect())
}

/// The directories that the system made: paths in the group.
fn system_directories(context: &Context, number: i64) -> Result<BTreeSet<String>> {
    let found = context.query(&format!(
        "WITH RECURSIVE down(i, path) AS (
            SELECT reference_index, name FROM v$asm_alias WHERE group_number = {number}
                AND parent_index = ({number} << 24) AND alias_directory = 'Y' AND system_created = 'Y'
            UNION ALL
            SELECT a.reference_index, down.path || '/' || a.name FROM down JOIN v$asm_alias a
            ON a.group_number = {number} AND a.parent_index = down.i
                AND a.alias_directory = 'Y' AND a.system_created = 'Y')
         SELECT path FROM down"
    ))?;
    Ok(found.rows.iter().flat_map(|row| texts(row)).collect())
}

/// Directories, and the names that a file has beside its first.
fn names(context: &Context, number: i64, group: &mut Group) -> Result<()> {
    let by_system = system_directories(context, number)?;
    let engine = context.engine(&group.name)?;
    let top = AsmPath { group: Some(group.name.clone()), parts: Vec::new() };
    let mut several: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    files::walk(&engine, &top, &mut |found| {
        if found.is_directory() {
            let path = found.place.inside();
            if !by_system.contains(&path) {
                let (uid, gid, mode) = (found.info.uid, found.info.gid, found.info.mode & 0o7777);
                group.owners.push(Owner { directory: path.clone(), uid, gid, mode });
                group.directories.push(path);
            }
        } else if found.info.links > 1 {
            several.entry(found.info.node).or_default().push(found.place.inside());
        }
        Ok(())
    })?;
    for mut paths in several.into_values() {
        paths.sort_by_key(|path| !asm_path::is_system_name(path));
        let mut paths = paths.into_iter();
        if let Some(file) = paths.next() {
            group.aliases.extend(paths.map(|alias| Alias { alias, file: file.clone() }));
        }
    }
    Ok(())
}

impl Run for MdBackup {
    fn run(&self, context: &mut Context) -> Result<()> {
        if !self.force
            && fs::symlink_metadata(&self.file).is_ok()
            && !context.sure(&format!(
                "{} is there already, and is overwritten. Are you sure?",
                self.file
            ))?
        {
            return Ok(());
        }
        let names = if self.groups.is_empty() {
            asm_path::groups(context, "*")?
        } else {
            self.groups.iter().map(|group| group_name(group)).collect::<Result<_>>()?
        };
        let mut backup = Backup { plinth_md_backup: FORM, groups: Vec::new() };
        for name in &names {
            context.say(format!("Disk group metadata to be backed up: {name}"));
            backup.groups.push(describe(context, name)?);
        }
        let text = serde_json::to_string_pretty(&backup)
            .map_err(|error| SqlError::new(state::INTERNAL, error))?;
        fs::write(&self.file, text + "\n")
            .map_err(|error| SqlError::new("58030", format!("{}: {error}", self.file)))
    }
}

/// Make disk groups again from what md_backup wrote down.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").args(["full", "nodg", "newdg"])))]
pub(super) struct MdRestore {
    file: String,
    /// Go on after a refusal.
    #[arg(long)]
    silent: bool,
    /// Make the groups, and all that was in the text. So it is if nothing is said.
    #[arg(long)]
    full: bool,
    /// The groups are there: all the rest.
    #[arg(long)]
    nodg: bool,
    /// Make the groups under other names.
    #[arg(long, requires = "names")]
    newdg: bool,
    /// Which names become which: old:new, with commas between.
    #[arg(short = 'o', value_name = "OLD:NEW", value_delimiter = ',')]
    names: Vec<String>,
    /// Write the statements to a file, and do nothing else.
    #[arg(short = 'S', value_name = "FILE")]
    sql: Option<String>,
    /// Only these groups, with commas between.
    #[arg(short = 'G', value_name = "GROUPS", value_delimiter = ',')]
    groups: Vec<String>,
}

/// One object that a restore makes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Statement(String),
    /// A directory, unless it exists.
    Directory(AsmPath, Option<Owner>),
    /// One more name for a file, unless it exists.
    Alias(AsmPath, AsmPath),
}

/// The objects that an existing group has already.
#[derive(Debug, Default)]
struct Present {
    templates: BTreeSet<String>,
    users: BTreeSet<String>,
    usergroups: BTreeSet<String>,
    volumes: BTreeSet<String>,
}

impl Present {
    fn of(context: &Context, name: &str) -> Result<Self> {
        let number = context.group_number(name)?;
        let names = |column: &str, view: &str| -> Result<BTreeSet<String>> {
            let found = optional(
                context,
                &format!("SELECT {column} FROM {view} WHERE group_number = {number}"),
            )?;
            Ok(found.rows.iter().flat_map(|row| texts(row)).collect())
        };
        Ok(Self {
            templates: names("name", "v$asm_template")?,
            users: names("os_name", "v$asm_user")?,
            usergroups: names("name", "v$asm_usergroup")?,
            volumes: names("volume_name", "v$asm_volume")?,
        })
    }
}

impl Step {
    fn statement(&self) -> String {
        match self {
            Self::Statement(text) => text.clone(),
            Self::Directory(place, _) => format!(
                "ALTER DISKGROUP {} ADD DIRECTORY {}",
                place.group.as_deref().unwrap_or_default(),
                quoted(&place.to_string())
            ),
            Self::Alias(alias, file) => format!(
                "ALTER DISKGROUP {} ADD ALIAS {} FOR {}",
                alias.group.as_deref().unwrap_or_default(),
                quoted(&alias.to_string()),
                quoted(&file.to_string())
            ),
        }
    }
}

/// The steps that make a group again, in order: with the group itself, or only the objects that an
/// existing group lacks.
fn plan(group: &Group, name: &str, present: Option<&Present>) -> Result<Vec<Step>> {
    let create = present.is_none();
    let nothing = Present::default();
    let present = present.unwrap_or(&nothing);
    let name = checked_name(name, "a disk group")?;
    let alter = |rest: String| Step::Statement(format!("ALTER DISKGROUP {name} {rest}"));
    let mut steps = Vec::new();
    if create {
        steps.push(Step::Statement(create_statement(group, &name)?));
    } else {
        for attribute in group.attributes.iter().filter(|attribute| !attribute.read_only) {
            steps.push(alter(format!(
                "SET ATTRIBUTE {} = {}",
                quoted(&attribute.name),
                quoted(&attribute.value)
            )));
        }
    }
    for template in &group.templates {
        let is_there = template.system || present.templates.contains(&template.name);
        let verb = if is_there { "MODIFY" } else { "ADD" };
        let properties = [&template.redundancy, &template.stripe, &template.allocation];
        let properties = properties.into_iter().filter(|property| !property.is_empty());
        let properties = properties.map(|property| word(property)).collect::<Result<Vec<_>>>()?;
        let name = templates::template_name(&template.name)?;
        steps.push(alter(format!("{verb} TEMPLATE {name} ATTRIBUTES ({})", properties.join(" "))));
    }
    let top = AsmPath { group: Some(name.clone()), parts: Vec::new() };
    let owner = |path: &String| group.owners.iter().find(|owner| owner.directory == *path).cloned();
    steps.extend(group.directories.iter().map(|path| Step::Directory(top.join(path), owner(path))));
    for volume in group.volumes.iter().filter(|volume| !present.volumes.contains(&volume.name)) {
        steps.extend(volume_clauses(volume)?.into_iter().map(alter));
    }
    let users = group.users.iter().filter(|user| !present.users.contains(*user));
    steps.extend(users.map(|user| alter(format!("ADD USER {}", quoted(user)))));
    let usergroups =
        group.usergroups.iter().filter(|usergroup| !present.usergroups.contains(&usergroup.name));
    steps.extend(usergroups.map(|usergroup| alter(usergroup_clause(usergroup))));
    // In a new group there are no files yet.
    for alias in group.aliases.iter().filter(|_| !create) {
        steps.push(Step::Alias(top.join(&alias.alias), top.join(&alias.file)));
    }
    Ok(steps)
}

fn word(word: &str) -> Result<String> {
    super::context::checked_word(word, "word of a template")
}

fn create_statement(group: &Group, name: &str) -> Result<String> {
    let redundancy = word(&group.redundancy)?;
    let mut disks = String::new();
    for disk in &group.disks {
        let quorum = if disk.quorum { " QUORUM" } else { "" };
        let failgroup = match redundancy.as_str() {
            "EXTERNAL" => String::new(),
            _ => format!(" FAILGROUP {}", checked_name(&disk.failgroup, "a failure group")?),
        };
        let own = if name == group.name {
            format!(" NAME {}", checked_name(&disk.name, "a disk")?)
        } else {
            String::new()
        };
        disks.push_str(&format!("{quorum}{failgroup} DISK {}{own}", quoted(&disk.path)));
    }
    let mut attributes = vec![format!("'au_size' = '{}'", group.au_size)];
    let set = group.attributes.iter().filter(|attribute| !attribute.read_only);
    attributes.extend(
        set.map(|attribute| format!("{} = {}", quoted(&attribute.name), quoted(&attribute.value))),
    );
    Ok(format!(
        "CREATE DISKGROUP {name} {redundancy} REDUNDANCY{disks} ATTRIBUTE {}",
        attributes.join(", ")
    ))
}

/// The clauses that make a volume again.
fn volume_clauses(volume: &Volume) -> Result<Vec<String>> {
    let mut clauses = Vec::new();
    let name = checked_name(&volume.name, "a volume")?;
    let high = if volume.high { " HIGH" } else { "" };
    clauses.push(format!(
        "ADD VOLUME {name} SIZE {}M{high} STRIPE_WIDTH {}K STRIPE_COLUMNS {}",
        volume.size_mb, volume.stripe_width_k, volume.stripe_columns
    ));
    let said = [("MOUNTPATH", &volume.mount_path), ("USAGE", &volume.usage)];
    let said = said.iter().filter(|(_, text)| !text.is_empty());
    let said: Vec<String> = said.map(|(word, text)| format!("{word} {}", quoted(text))).collect();
    if !said.is_empty() {
        clauses.push(format!("MODIFY VOLUME {name} {}", said.join(" ")));
    }
    if !volume.enabled {
        clauses.push(format!("DISABLE VOLUME {name}"));
    }
    Ok(clauses)
}

/// The clause that makes a user group again.
fn usergroup_clause(usergroup: &UserGroup) -> String {
    let members: Vec<String> = usergroup.members.iter().map(|member| quoted(member)).collect();
    let members = if members.is_empty() {
        String::new()
    } else {
        format!(" WITH MEMBER {}", members.join(", "))
    };
    format!("ADD USERGROUP {}{members}", quoted(&usergroup.name))
}

impl MdRestore {
    fn new_names(&self) -> Result<BTreeMap<String, String>> {
        let pair = |text: &String| match text.split_once(':') {
            Some((old, new)) => Ok((group_name(old)?, group_name(new)?)),
            None => Err(SqlError::new(state::SYNTAX, format!("{text:?} is not OLD:NEW"))),
        };
        self.names.iter().map(pair).collect()
    }

    fn carry_out(context: &Context, step: &Step) -> Result<()> {
        match step {
            Step::Statement(text) => context.statement(text),
            Step::Alias(alias, _) => {
                match asm_path::find(&context.engine(alias.group()?)?, alias) {
                    Ok(_) => Ok(()),
                    Err(_) => context.statement(&step.statement()),
                }
            }
            Step::Directory(place, owner) => {
                let engine = context.engine(place.group()?)?;
                match asm_path::find(&engine, place) {
                    Ok(found) if found.is_directory() => Ok(()),
                    Ok(found) => Err(SqlError::new(
                        "22023",
                        format!("{} is there, and no directory", found.place),
                    )),
                    Err(_) => match owner {
                        None => files::make_directory(&engine, place),
                        Some(owner) => {
                            let mode = owner.mode & 0o7777;
                            engine.make_directory(&place.inside(), mode, owner.uid, owner.gid)?;
                            Ok(())
                        }
                    },
                }
            }
        }
    }
}

impl Run for MdRestore {
    fn run(&self, context: &mut Context) -> Result<()> {
        let failed = |error: &dyn std::fmt::Display| {
            SqlError::new("58030", format!("{}: {error}", self.file))
        };
        let text = fs::read_to_string(&self.file).map_err(|error| failed(&error))?;
        let backup: Backup = serde_json::from_str(&text)
            .map_err(|error| failed(&error).hint("md_backup writes what can be restored from"))?;
        if backup.plinth_md_backup > FORM {
            return Err(failed(&"a later version of plinth wrote it").hint("use that version"));
        }
        let names = self.new_names()?;
        let wanted =
            self.groups.iter().map(|group| group_name(group)).collect::<Result<Vec<_>>>()?;
        for name in wanted.iter().chain(names.keys()) {
            if !backup.groups.iter().any(|group| group.name == *name) {
                return Err(failed(&format!("disk group {name} is not in it")));
            }
        }
        let mut sql = String::new();
        for group in &backup.groups {
            if !wanted.is_empty() && !wanted.contains(&group.name) {
                continue;
            }
            let name = if self.newdg {
                names.get(&group.name).unwrap_or(&group.name)
            } else {
                &group.name
            };
            let present = if self.nodg { Some(Present::of(context, name)?) } else { None };
            let steps = plan(group, name, present.as_ref())?;
            if self.sql.is_some() {
                sql.extend(steps.iter().map(|step| format!("{};\n", step.statement())));
                continue;
            }
            context.say(format!("Current Diskgroup metadata being restored: {name}"));
            for step in &steps {
                match Self::carry_out(context, step) {
                    Ok(()) => {}
                    Err(refusal) if self.silent => {
                        complain(&refusal);
                        context.status = 1;
                    }
                    Err(refusal) => {
                        let text = format!("{}; it was: {}", refusal.message, step.statement());
                        return Err(SqlError { message: text, ..refusal });
                    }
                }
            }
        }
        if let Some(file) = &self.sql {
            fs::write(file, sql)
                .map_err(|error| SqlError::new("58030", format!("{file}: {error}")))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_made_again_by_statements() {
        let disk = |name: &str| Disk {
            name: name.to_owned(),
            failgroup: "F".to_owned(),
            quorum: false,
            path: format!("/dev/{name}"),
        };
        let group = Group {
            name: "DATA".into(),
            redundancy: "NORMAL".into(),
            au_size: 1 << 20,
            attributes: vec![
                Attribute { name: "disk_repair_time".into(), value: "4h".into(), read_only: false },
                Attribute { name: "fixed".into(), value: "1".into(), read_only: true },
            ],
            disks: vec![disk("A")],
            templates: vec![Template {
                name: "T".into(),
                redundancy: "HIGH".into(),
                stripe: "FINE".into(),
                allocation: "PREFORMATTED".into(),
                system: false,
            }],
            directories: vec!["a/b".into()],
            owners: vec![Owner { directory: "a/b".into(), uid: 70, gid: 70, mode: 0o700 }],
            volumes: vec![Volume {
                name: "V1".into(),
                size_mb: 64,
                high: true,
                stripe_width_k: 128,
                stripe_columns: 4,
                enabled: false,
                usage: "it's".into(),
                mount_path: "/m".into(),
            }],
            aliases: vec![Alias { alias: "a/x".into(), file: "f.1.3".into() }],
            users: vec!["pg".into()],
            usergroups: vec![UserGroup { name: "dba".into(), members: vec!["pg".into()] }],
        };
        let text = |present: Option<&Present>| -> Vec<String> {
            plan(&group, "DATA", present).unwrap_or_default().iter().map(Step::statement).collect()
        };
        let rest = [
            "ALTER DISKGROUP DATA ADD TEMPLATE T ATTRIBUTES (HIGH FINE PREFORMATTED)",
            "ALTER DISKGROUP DATA ADD DIRECTORY '+DATA/a/b'",
            "ALTER DISKGROUP DATA ADD VOLUME V1 SIZE 64M HIGH STRIPE_WIDTH 128K STRIPE_COLUMNS 4",
            "ALTER DISKGROUP DATA MODIFY VOLUME V1 MOUNTPATH '/m' USAGE 'it''s'",
            "ALTER DISKGROUP DATA DISABLE VOLUME V1",
            "ALTER DISKGROUP DATA ADD USER 'pg'",
            "ALTER DISKGROUP DATA ADD USERGROUP 'dba' WITH MEMBER 'pg'",
        ];
        let full = text(None);
        assert_eq!(
            full.first().map(String::as_str),
            Some(
                "CREATE DISKGROUP DATA NORMAL REDUNDANCY FAILGROUP F DISK '/dev/A' NAME A \
                 ATTRIBUTE 'au_size' = '1048576', 'disk_repair_time' = '4h'"
            )
        );
        assert_eq!(full.get(1..).unwrap_or_default(), rest);
        let nodg = text(Some(&Present::default()));
        assert_eq!(
            nodg.first().map(String::as_str),
            Some("ALTER DISKGROUP DATA SET ATTRIBUTE 'disk_repair_time' = '4h'")
        );
        assert_eq!(
            nodg.last().map(String::as_str),
            Some("ALTER DISKGROUP DATA ADD ALIAS '+DATA/a/x' FOR '+DATA/f.1.3'")
        );
        let set = |name: &str| BTreeSet::from([name.to_owned()]);
        let present = Present {
            templates: set("T"),
            users: set("pg"),
            usergroups: set("dba"),
            volumes: set("V1"),
        };
        assert_eq!(
            text(Some(&present)).get(1..).unwrap_or_default(),
            [
                "ALTER DISKGROUP DATA MODIFY TEMPLATE T ATTRIBUTES (HIGH FINE PREFORMATTED)",
                "ALTER DISKGROUP DATA ADD DIRECTORY '+DATA/a/b'",
                "ALTER DISKGROUP DATA ADD ALIAS '+DATA/a/x' FOR '+DATA/f.1.3'",
            ]
        );
    }
}
