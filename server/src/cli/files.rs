//! `find`, `du`, `rm`, `mkdir`: trees of a disk group.

use super::{
    Result,
    asm_path::{self, AsmPath, Found, matches},
    context::{Context, Headings, Run, quoted},
    ls::details,
    print,
};
use crate::{
    engine::{client::Client, protocol::FileRequest},
    query::{Column, Table, views::Type},
    sql_error::SqlError,
};
use clap::Args;
use plinth_engine::admin::{AdminError, Code, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Visits all files and directories below a directory, in the order of names, parents before their
/// entries.
pub(super) fn walk(
    engine: &Client,
    top: &AsmPath,
    visit: &mut dyn FnMut(Found) -> Result<()>,
) -> Result<()> {
    let mut waiting = asm_path::entries(engine, top)?;
    waiting.reverse();
    while let Some(found) = waiting.pop() {
        if found.is_directory() {
            waiting.extend(asm_path::entries(engine, &found.place)?.into_iter().rev());
        }
        visit(found)?;
    }
    Ok(())
}

/// The directories that a path names; for `+` the root of every mounted group.
fn tops(context: &Context, path: &str) -> Result<Vec<AsmPath>> {
    let place = context.place(path);
    if place.group.is_none() {
        let groups = asm_path::groups(context, "*")?;
        return Ok(groups
            .into_iter()
            .map(|group| AsmPath { group: Some(group), parts: Vec::new() })
            .collect());
    }
    let mut tops = Vec::new();
    for found in asm_path::expand(context, &place)? {
        tops.push(asm_path::directory(&context.engine(found.place.group()?)?, &found.place)?.place);
    }
    Ok(tops)
}

/// Find what has a name, below a directory.
#[derive(Debug, Args)]
pub(super) struct Find {
    /// Files of this type only, as ls -l shows it.
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    kind: Option<String>,
    directory: String,
    /// Names: * and % are wildcards.
    pattern: String,
}

impl Run for Find {
    fn run(&self, context: &mut Context) -> Result<()> {
        let mut rows = Vec::new();
        for top in tops(context, &self.directory)? {
            let group = top.group()?.to_owned();
            let engine = context.engine(&group)?;
            let mut all: Vec<Found> = Vec::new();
            walk(&engine, &top, &mut |found| {
                if found.place.parts.last().is_some_and(|name| matches(&self.pattern, name)) {
                    all.push(found);
                }
                Ok(())
            })?;
            if let Some(kind) = &self.kind {
                let known = details(context, &group, "type", all.iter())?;
                all.retain(|found| {
                    let told = known.get(&found.info.node).and_then(|row| row.get("type"));
                    matches!(told, Some(Value::Text(told)) if told.eq_ignore_ascii_case(kind))
                });
            }
            for found in all {
                rows.push(format!(
                    "{}{}",
                    found.place,
                    if found.is_directory() { "/" } else { "" }
                ));
            }
        }
        if context.json {
            let rows = rows.into_iter().map(|path| vec![Value::Text(path)]).collect();
            let columns = vec![Column { name: "Path".to_owned(), kind: Type::Text }];
            context.show(&Table { columns, rows }, Headings::default());
        } else {
            print(
                &rows
                    .iter()
                    .map(|path| format!("{}\n", crate::text::clean(path)))
                    .collect::<String>(),
            );
        }
        Ok(())
    }
}

/// Say how much space a directory takes, with all below it.
#[derive(Debug, Args)]
pub(super) struct Du {
    #[command(flatten)]
    headings: Headings,
    directory: Option<String>,
}

impl Run for Du {
    fn run(&self, context: &mut Context) -> Result<()> {
        let (mut used, mut mirrored) = (0, 0);
        for top in tops(context, self.directory.as_deref().unwrap_or_default())? {
            let group = top.group()?.to_owned();
            // A file counts once, however many names it has.
            let mut files: BTreeMap<u64, Found> = BTreeMap::new();
            walk(&context.engine(&group)?, &top, &mut |found| {
                if !found.is_directory() {
                    files.insert(found.info.node, found);
                }
                Ok(())
            })?;
            let known = details(context, &group, "space", files.values())?;
            for (node, found) in &files {
                used += found.info.blocks * 512;
                if let Some(Value::Integer(space)) =
                    known.get(node).and_then(|row| row.get("space"))
                {
                    mirrored += u64::try_from(*space).unwrap_or(0);
                }
            }
        }
        let column = |name: &str| Column { name: name.to_owned(), kind: Type::Integer };
        let megabytes =
            |bytes: u64| Value::Integer(i64::try_from(bytes.div_ceil(1 << 20)).unwrap_or(i64::MAX));
        let table = Table {
            columns: vec![column("Used_MB"), column("Mirror_used_MB")],
            rows: vec![vec![megabytes(used), megabytes(mirrored)]],
        };
        context.show(&table, self.headings);
        Ok(())
    }
}

/// Make directories.
#[derive(Debug, Args)]
pub(super) struct Mkdir {
    #[arg(required = true)]
    directories: Vec<String>,
}

/// Makes a directory that belongs to the user who runs this program.
pub(super) fn make_directory(engine: &Client, place: &AsmPath) -> Result<()> {
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    engine.make_directory(&place.inside(), 0o755, uid, gid)?;
    Ok(())
}

impl Run for Mkdir {
    fn run(&self, context: &mut Context) -> Result<()> {
        for directory in &self.directories {
            let place = context.place(directory);
            let engine = context.engine(place.group()?)?;
            let place = asm_path::new_name(&engine, &place)?;
            if let Ok(found) = asm_path::find(&engine, &place) {
                let there = format!("{} is there already", found.place);
                return Err(AdminError::new(Code::NameExists, there).into());
            }
            make_directory(&engine, &place)?;
        }
        Ok(())
    }
}

/// Remove files and directories.
#[derive(Debug, Args)]
pub(super) struct Rm {
    /// Directories too, with all that is in them.
    #[arg(short)]
    recursive: bool,
    /// Without asking.
    #[arg(short)]
    force: bool,
    /// Paths: * and % are wildcards.
    #[arg(required = true)]
    files: Vec<String>,
}

/// Removes a file with all its names, or an empty directory.
fn remove(context: &Context, engine: &Client, found: &Found, may_be_gone: bool) -> Result<()> {
    let path = found.place.inside();
    if !found.is_directory() && (found.info.links > 1 || asm_path::is_system_name(&path)) {
        let file = quoted(&found.place.to_string());
        return context
            .statement(&format!("ALTER DISKGROUP {} DROP FILE {file}", found.place.group()?));
    }
    match engine.ask(FileRequest::Remove { path }) {
        // Directories that the system made go with the last file in them.
        Err(_)
            if may_be_gone
                && found.is_directory()
                && asm_path::find(engine, &found.place).is_err() =>
        {
            Ok(())
        }
        removed => Ok(removed?),
    }
}

impl Run for Rm {
    fn run(&self, context: &mut Context) -> Result<()> {
        let places: Vec<AsmPath> = self.files.iter().map(|file| context.place(file)).collect();
        let many = self.recursive || places.iter().any(AsmPath::has_wildcards);
        if many
            && !self.force
            && !context.sure("You may delete multiple files and/or directories. Are you sure?")?
        {
            return Ok(());
        }
        for place in &places {
            for found in asm_path::expand(context, place)? {
                if found.place.parts.is_empty() {
                    return Err(SqlError::new("22023", format!("{} is a disk group", found.place))
                        .hint("dropdg drops it; rm +GROUP/* removes what is in it"));
                }
                let engine = context.engine(found.place.group()?)?;
                let mut doomed = vec![found.clone()];
                if found.is_directory() && self.recursive {
                    walk(&engine, &found.place, &mut |found| {
                        doomed.push(found);
                        Ok(())
                    })?;
                }
                // The entries of a directory are removed before it. A file with several names is
                // removed with the first of them.
                let mut gone = BTreeSet::new();
                for found in doomed.iter().rev() {
                    if found.is_directory() || gone.insert(found.info.node) {
                        remove(context, &engine, found, self.recursive)?;
                    }
                }
            }
        }
        Ok(())
    }
}
