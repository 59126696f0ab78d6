//! `ls`: the contents of a disk group, as `asmcmd` shows them.
//!
//! Names come from the engine's directories; the columns of `-l`, `-s` and `--permission` come from
//! `v$asm_file`, and whether the system made a name from `v$asm_alias`.

use super::{
    Result,
    asm_path::{self, AsmPath, Found},
    context::{Context, Headings, Run, quoted},
    dates, lists, print,
    table::Cells,
};
use crate::{
    alert::{now, rfc3339},
    query::{Column, Table, views::Type},
};
use clap::Args;
use plinth_engine::admin::Value;
use std::collections::{BTreeMap, BTreeSet};

/// List what is in a directory: ls +DATA/directory.
#[derive(Debug, Args)]
pub(super) struct Ls {
    /// More of each: type, redundancy, striping, time; of groups, what lsdg shows.
    #[arg(short)]
    l: bool,
    /// More of each: its size and its space.
    #[arg(short)]
    s: bool,
    /// Directories themselves, not what is in them.
    #[arg(short)]
    d: bool,
    /// The newest first.
    #[arg(short)]
    t: bool,
    /// Of an alias: what its file is called by the system.
    #[arg(short = 'L')]
    resolve: bool,
    /// Of groups, with -l: with the number of the instance.
    #[arg(short)]
    g: bool,
    /// In the other order.
    #[arg(short = 'r', long)]
    reverse: bool,
    /// More of each: its owner, and what may be done with it.
    #[arg(long)]
    permission: bool,
    /// Whole paths.
    #[arg(short, long, visible_alias = "absolute_path")]
    absolutepath: bool,
    #[command(flatten)]
    headings: Headings,
    /// Paths: * and % are wildcards.
    patterns: Vec<String>,
}

/// Directories have no type, no time and no size: `asmcmd` leaves these columns blank. Names are
/// last, so they are the same word from the end in every row.
const CELLS: Cells = Cells {
    empty: &[
        "Type",
        "Redund",
        "Striped",
        "Time",
        "Block_Size",
        "Blocks",
        "Bytes",
        "Space",
        "User",
        "Group",
        "Permission",
    ],
    phrases: &["Time"],
};

/// Columns of the views, by a file's number.
type Details = BTreeMap<u64, BTreeMap<String, Value>>;

/// For more files than this the whole view is read, instead of the rows of these files only.
const NAMED_MAX: usize = 500;

/// Columns of `v$asm_file` for the files among `found`.
pub(super) fn details<'a>(
    context: &Context,
    group: &str,
    columns: &str,
    found: impl Iterator<Item = &'a Found>,
) -> Result<Details> {
    let nodes: Vec<String> = found
        .filter(|found| !found.is_directory())
        .map(|found| found.info.node.to_string())
        .collect();
    if nodes.is_empty() {
        return Ok(Details::new());
    }
    let number = context.group_number(group)?;
    let these = if nodes.len() > NAMED_MAX {
        String::new()
    } else {
        format!(" AND file_number IN ({})", nodes.join(", "))
    };
    let table = context.query(&format!(
        "SELECT file_number, {columns} FROM v$asm_file WHERE group_number = {number}{these}"
    ))?;
    let row = |row: Vec<Value>| {
        let number = match row.first() {
            Some(Value::Integer(number)) => u64::try_from(*number).unwrap_or(0),
            _ => 0,
        };
        (number, table.columns.iter().map(|column| column.name.clone()).zip(row).collect())
    };
    Ok(table.rows.into_iter().map(row).collect())
}

/// The makers of the names in a directory, from `v$asm_alias`.
struct Made {
    /// The names that the system made.
    by_system: Vec<String>,
}

/// The reference index of a directory, as a scalar of SQL.
fn reference(number: i64, parts: &[String]) -> String {
    let root = format!("({number} << 24)");
    parts.iter().fold(root, |parent, part| {
        format!(
            "(SELECT reference_index FROM v$asm_alias WHERE group_number = {number} AND alias_directory = 'Y'
              AND parent_index = {parent} AND name = {})",
            quoted(part)
        )
    })
}

fn made(context: &Context, number: i64, directory: &AsmPath) -> Result<Made> {
    let listed = context.query(&format!(
        "SELECT name FROM v$asm_alias WHERE group_number = {number} AND system_created = 'Y' AND parent_index = {}",
        reference(number, &directory.parts)
    ))?;
    let names = listed.rows.into_iter().filter_map(|row| match row.into_iter().next() {
        Some(Value::Text(name)) => Some(name),
        _ => None,
    });
    Ok(Made { by_system: names.collect() })
}

/// The path that the system gave a file, if it gave one.
fn system_path(context: &Context, group: &str, number: i64, node: u64) -> Result<Option<String>> {
    let listed = context.query(&format!(
        "WITH RECURSIVE up(parent, path) AS (
            SELECT parent_index, name FROM v$asm_alias
            WHERE group_number = {number} AND file_number = {node} AND system_created = 'Y'
            UNION ALL
            SELECT a.parent_index, a.name || '/' || up.path FROM up JOIN v$asm_alias a
            ON a.group_number = {number} AND a.alias_directory = 'Y' AND a.reference_index = up.parent)
         SELECT path FROM up WHERE parent = ({number} << 24)"
    ))?;
    Ok(listed.rows.first().and_then(|row| row.first()).and_then(|path| match path {
        Value::Text(path) => Some(format!("+{group}/{path}")),
        _ => None,
    }))
}

impl Run for Ls {
    fn run(&self, context: &mut Context) -> Result<()> {
        let patterns =
            if self.patterns.is_empty() { vec![String::new()] } else { self.patterns.clone() };
        let mut names: Vec<Found> = Vec::new();
        let mut directories: Vec<Found> = Vec::new();
        for pattern in &patterns {
            let place = context.place(pattern);
            if place.group.is_none() {
                self.groups(context)?;
                continue;
            }
            for found in asm_path::expand(context, &place)? {
                if found.is_directory() && !self.d {
                    directories.push(found)
                } else {
                    names.push(found)
                }
            }
        }
        // If there are several directories, each is printed under its path.
        let titled = directories.len() + usize::from(!names.is_empty()) > 1;
        let mut listings: Vec<(Option<AsmPath>, Vec<Found>)> = Vec::new();
        // A table has files of one group only: file numbers are unique in a group.
        let groups: BTreeSet<Option<String>> =
            names.iter().map(|found| found.place.group.clone()).collect();
        let several = names.len() > 1;
        for group in groups {
            let of_group =
                names.iter().filter(|found| found.place.group == group).cloned().collect();
            listings.push((None, of_group));
        }
        for directory in directories {
            let within =
                asm_path::entries(&context.engine(directory.place.group()?)?, &directory.place)?;
            listings.push((Some(directory.place), within));
        }
        let mut whole: Option<Table> = None;
        for (at, (directory, listing)) in listings.into_iter().enumerate() {
            let whole_paths =
                self.absolutepath || directory.is_none() && several || context.json && titled;
            let table = self.table(context, listing, whole_paths)?;
            if context.json {
                match &mut whole {
                    Some(whole) => whole.rows.extend(table.rows),
                    None => whole = Some(table),
                }
                continue;
            }
            if let Some(directory) = directory.as_ref().filter(|_| titled) {
                print(&format!("{}{directory}/:\n", if at > 0 { "\n" } else { "" }));
            }
            if directory.is_none() && at > 0 {
                print("\n");
            }
            let is_bare = table.columns.len() == 1 || table.rows.is_empty();
            let headings = if is_bare { Headings::none() } else { self.headings };
            context.show_cells(&table, headings, CELLS);
        }
        if let Some(whole) = whole {
            context.show(&whole, self.headings);
        }
        Ok(())
    }
}

impl Ls {
    fn groups(&self, context: &Context) -> Result<()> {
        if self.l {
            return lists::groups(context, self.g, self.headings, None);
        }
        context.show_query(
            "SELECT name || '/' AS Name FROM v$asm_diskgroup_stat WHERE group_number > 0 ORDER BY name",
            Headings::none(),
        )
    }

    fn table(
        &self,
        context: &Context,
        mut listing: Vec<Found>,
        whole_paths: bool,
    ) -> Result<Table> {
        if self.t {
            listing.sort_by_key(|found| std::cmp::Reverse(found.info.modified));
        }
        if self.reverse {
            listing.reverse();
        }
        let names = self.names(context, &listing, whole_paths)?;
        let group = listing.first().and_then(|found| found.place.group.clone()).unwrap_or_default();
        let known = if self.l || self.s {
            let wanted = "type, redundancy, striped, block_size, blocks, bytes, space";
            details(context, &group, wanted, listing.iter())?
        } else {
            Details::new()
        };
        let number = if self.l && !listing.is_empty() { context.group_number(&group)? } else { 0 };
        let mut makers: BTreeMap<String, Made> = BTreeMap::new();
        let mut rows = Vec::new();
        let this = now();
        for (found, name) in listing.iter().zip(names) {
            let is_system = self.l && is_made_by_system(context, number, found, &mut makers)?;
            let modified = found.info.modified;
            let time = if context.json {
                let time = rfc3339(modified).replace('T', " ");
                time.chars().take(19).collect()
            } else {
                dates::of_file(modified, this)
            };
            rows.push(self.row(found, name, (time, is_system), &known));
        }
        Ok(Table { columns: self.columns(), rows })
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns: Vec<(&str, Type)> = Vec::new();
        if self.l {
            columns.extend(
                ["Type", "Redund", "Striped", "Time", "Sys"].map(|name| (name, Type::Text)),
            );
        }
        if self.s {
            columns.extend(
                ["Block_Size", "Blocks", "Bytes", "Space"].map(|name| (name, Type::Integer)),
            );
        }
        if self.permission {
            columns.extend(["User", "Group", "Permission"].map(|name| (name, Type::Text)));
        }
        columns.push(("Name", Type::Text));
        columns.into_iter().map(|(name, kind)| Column { name: name.to_owned(), kind }).collect()
    }

    /// The row of an entry; its time, and whether the system made its name, come with it.
    fn row(
        &self,
        found: &Found,
        name: String,
        (time, is_system): (String, bool),
        known: &Details,
    ) -> Vec<Value> {
        let told = |column: &str| {
            known
                .get(&found.info.node)
                .and_then(|row| row.get(column))
                .cloned()
                .unwrap_or(Value::Null)
        };
        let mut row = Vec::new();
        if self.l {
            row.extend([told("type"), told("redundancy"), told("striped")]);
            row.push(if found.is_directory() { Value::Null } else { Value::Text(time) });
            row.push(Value::Text(if is_system { "Y" } else { "N" }.to_owned()));
        }
        if self.s {
            row.extend(["block_size", "blocks", "bytes", "space"].map(told));
        }
        if self.permission {
            let directory = found.is_directory();
            let word = |text: String| if directory { Value::Null } else { Value::Text(text) };
            row.push(word(crate::users::name(found.info.uid)));
            row.push(word(crate::users::group_name(found.info.gid)));
            row.push(word(permission(found.info.mode)));
        }
        row.push(Value::Text(name));
        row
    }

    /// How each entry is printed: `name`, `directory/`, `alias => +path of the system`.
    fn names(
        &self,
        context: &Context,
        listing: &[Found],
        whole_paths: bool,
    ) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for found in listing {
            let own = match found.place.parts.last() {
                Some(name) if !whole_paths => name.clone(),
                _ => found.place.to_string(),
            };
            let mut name = format!("{own}{}", if found.is_directory() { "/" } else { "" });
            if (self.l || self.resolve) && !found.is_directory() && found.info.links > 1 {
                let group = found.place.group()?;
                let number = context.group_number(group)?;
                let path = system_path(context, group, number, found.info.node)?;
                if let Some(path) = path.filter(|path| *path != found.place.to_string()) {
                    name = if self.resolve { path } else { format!("{name} => {path}") };
                }
            }
            names.push(name);
        }
        Ok(names)
    }
}

/// Read and write of owner, group and others, as `v$asm_file` has them.
fn permission(mode: u32) -> String {
    let class = |shift: u32| match mode >> shift & 6 {
        0 => "---",
        4 => "r--",
        _ => "rw-",
    };
    format!("{}{}{}", class(6), class(3), class(0))
}

/// Whether the system made a name. `makers`: the directories that have been looked up by now.
fn is_made_by_system(
    context: &Context,
    group: i64,
    found: &Found,
    makers: &mut BTreeMap<String, Made>,
) -> Result<bool> {
    let Some((directory, name)) = found.place.split() else { return Ok(true) };
    let key = directory.to_string();
    if !makers.contains_key(&key) {
        makers.insert(key.clone(), made(context, group, &directory)?);
    }
    Ok(makers.get(&key).is_some_and(|made| made.by_system.iter().any(|made| made == name)))
}
