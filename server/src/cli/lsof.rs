//! `lsof`: which files of mounted groups are open, and in which processes.
//!
//! An engine knows requests, and not which process has a file open; the kernel does. So this
//! command reads each process's descriptors, and lists those below a directory on which a group's
//! files are mounted. It misses the files of processes that its user may not inspect. Nothing here
//! touches a mounted file, not even with `stat`.

use super::{
    Result, asm_path,
    context::{Context, Headings, Run, group_name},
};
use crate::query::{Column, Table, views::Type};
use clap::Args;
use plinth_engine::admin::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// List open files.
#[derive(Debug, Args)]
pub(super) struct Lsof {
    #[arg(short = 'G', value_name = "GROUP")]
    group: Option<String>,
    /// Those of one program.
    #[arg(long, value_name = "NAME")]
    dbname: Option<String>,
    /// Those of one process.
    #[arg(short = 'C', value_name = "PID")]
    instance: Option<String>,
    #[command(flatten)]
    headings: Headings,
}

impl Run for Lsof {
    fn run(&self, context: &mut Context) -> Result<()> {
        let groups = match &self.group {
            Some(group) => vec![group_name(group)?],
            None => asm_path::groups(context, "*")?,
        };
        let mut mounts: Vec<(PathBuf, String)> = Vec::new();
        for group in groups {
            let status = context.engine(&group)?.status()?;
            mounts.extend(status.serving.into_iter().map(|directory| (directory, group.clone())));
        }
        // A mount point below another one comes first.
        mounts.sort_by_key(|(directory, _)| std::cmp::Reverse(directory.components().count()));
        let mut rows = Vec::new();
        for (pid, program, path) in open_files() {
            let Some((group, inside)) = mounts.iter().find_map(|(directory, group)| {
                path.strip_prefix(directory)
                    .ok()
                    .filter(|inside| *inside != Path::new(""))
                    .map(|inside| (group, inside))
            }) else {
                continue;
            };
            if self.dbname.as_ref().is_some_and(|name| *name != program)
                || self.instance.as_ref().is_some_and(|wanted| *wanted != pid.to_string())
            {
                continue;
            }
            let path = format!("+{group}/{}", inside.display());
            rows.push((program, pid, path));
        }
        rows.sort();
        rows.dedup();
        let text = |name: &str| Column { name: name.to_owned(), kind: Type::Text };
        let columns = vec![text("DB_Name"), text("Instance_Name"), text("Path")];
        let rows = rows
            .into_iter()
            .map(|(program, pid, path)| [program, pid.to_string(), path].map(Value::Text).to_vec());
        context.show(&Table { columns, rows: rows.collect() }, self.headings);
        Ok(())
    }
}

/// The files that processes have open: the process's number and name, and the path.
fn open_files() -> Vec<(u32, String, PathBuf)> {
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let descriptors = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        let paths: Vec<PathBuf> =
            descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
        if paths.is_empty() {
            continue;
        }
        let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        found.extend(paths.into_iter().map(|path| (pid, name.trim().to_owned(), path)));
    }
    found
}
