//! `lsod`: which disks are open, and in which process. A group's engine alone has its disks open.

use super::{
    Result, asm_path,
    context::{Context, Headings, Run, group_name, like_or_all},
    table::Cells,
};
use crate::query::{Column, Table, views::Type};
use clap::Args;
use plinth_engine::admin::Value;

/// The process is two words, as in `asmcmd`: `plinth@host (ENGINE)`.
const CELLS: Cells = Cells { empty: &[], phrases: &["Process"] };

/// The name of the process that has disks open.
const ENGINE: &str = "ENGINE";

/// List open disks.
#[derive(Debug, Args)]
pub(super) struct Lsod {
    #[arg(short = 'G', value_name = "GROUP")]
    group: Option<String>,
    /// Those of one process: engines alone have any.
    #[arg(long, value_name = "NAME")]
    process: Option<String>,
    #[command(flatten)]
    headings: Headings,
    /// Paths: * and % are wildcards.
    pattern: Option<String>,
}

impl Run for Lsod {
    fn run(&self, context: &mut Context) -> Result<()> {
        let groups = match &self.group {
            Some(group) => vec![group_name(group)?],
            None => asm_path::groups(context, "*")?,
        };
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let is_wanted = self.process.as_ref().is_none_or(|name| asm_path::matches(name, ENGINE));
        let mut rows = Vec::new();
        for group in groups {
            let pid = context.engine(&group)?.status()?.pid;
            let listed = context.query(&format!(
                "SELECT path FROM v$asm_disk_stat WHERE group_number = {} AND mount_status = 'CACHED' AND {}
                 ORDER BY path",
                context.group_number(&group)?,
                like_or_all("path", self.pattern.as_deref())
            ))?;
            for path in listed.rows.into_iter().flatten().filter(|_| is_wanted) {
                rows.push(vec![
                    Value::Integer(1),
                    Value::Text(format!("plinth@{host} ({ENGINE})")),
                    Value::Integer(i64::from(pid)),
                    path,
                ]);
            }
        }
        let column = |(name, kind): (&str, Type)| Column { name: name.to_owned(), kind };
        let columns = [
            ("Instance", Type::Integer),
            ("Process", Type::Text),
            ("OSPID", Type::Integer),
            ("Path", Type::Text),
        ];
        let table = Table { columns: columns.map(column).to_vec(), rows };
        context.show_cells(&table, self.headings, CELLS);
        Ok(())
    }
}
