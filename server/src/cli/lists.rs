//! `lsdg`, `lsdsk`, `lsop`, `lsattr`, `lsct`: queries with `asmcmd`'s columns. Columns that
//! `asmcmd` does not have come last.

use super::{
    Result,
    context::{Context, Headings, Run, bare, group_name, like, like_or_all, no_group, quoted},
    dates,
    table::Cells,
    warn,
};
use crate::{
    query::{Column, Table, views::Type},
    sql_error::{SqlError, state},
};
use clap::Args;
use plinth_engine::{
    admin::{HeaderStatus, Value},
    disk::identify::shown_path,
    group::Group,
    world::World,
};
use plinth_host::{IoChoice, RealWorld};
use std::sync::Arc;

/// The one name that a pattern stands for, if it has no wildcards.
pub(super) fn only_name(pattern: Option<&str>) -> Option<&str> {
    pattern.filter(|pattern| !pattern.contains(['*', '%', '?']))
}

/// List disk groups.
#[derive(Debug, Default, Args)]
pub(super) struct Lsdg {
    /// With the number of the instance.
    #[arg(short)]
    g: bool,
    /// As asmcmd has it: here disks are always looked for, so that groups that are not mounted are
    /// listed too.
    #[arg(long)]
    discovery: bool,
    #[command(flatten)]
    headings: Headings,
    /// Names: * and % are wildcards.
    pattern: Option<String>,
}

impl Run for Lsdg {
    fn run(&self, context: &mut Context) -> Result<()> {
        groups(context, self.g, self.headings, self.pattern.as_deref())
    }
}

pub(super) fn groups(
    context: &Context,
    g: bool,
    headings: Headings,
    pattern: Option<&str>,
) -> Result<()> {
    let condition = like_or_all("name", pattern.map(bare));
    let instance = if g { "1 AS Inst_ID, " } else { "" };
    let mut listed = context.query(&format!(
        "SELECT {instance}state AS State, type AS Type,
                CASE WHEN group_number > 0 AND group_number IN
                    (SELECT group_number FROM v$asm_operation WHERE state IN ('RUN', 'WAIT')) THEN 'Y' ELSE 'N' END
                    AS Rebal,
                sector_size AS Sector, logical_sector_size AS Logical_Sector, block_size AS Block,
                allocation_unit_size AS AU, total_mb AS Total_MB, free_mb AS Free_MB,
                required_mirror_free_mb AS Req_mir_free_MB, usable_file_mb AS Usable_file_MB,
                offline_disks AS Offline_disks, voting_files AS Voting_files, name || '/' AS Name,
                what_if AS What_If
             FROM v$asm_diskgroup WHERE {condition} ORDER BY name"
    ))?;
    if let Some(name) = only_name(pattern)
        && listed.rows.is_empty()
    {
        return Err(group_name(name).map_or_else(|refusal| refusal, |name| no_group(&name)));
    }
    let delays = take_last(&mut listed);
    context.show(&listed, headings);
    warn_of_delays(&listed, "Name", &delays);
    Ok(())
}

/// Takes the last column off a table.
fn take_last(table: &mut Table) -> Vec<Value> {
    table.columns.pop();
    table.rows.iter_mut().map(|row| row.pop().unwrap_or(Value::Null)).collect()
}

/// Beside a list, a line for each of its rows with `what_if`; `name` is the column that says which
/// one it is.
fn warn_of_delays(listed: &Table, name: &str, delays: &[Value]) {
    let at = listed.columns.iter().position(|column| &*column.name == name);
    for (row, delay) in listed.rows.iter().zip(delays) {
        if let (Some(Value::Text(name)), Value::Text(delay)) =
            (at.and_then(|at| row.get(at)), delay)
        {
            let name = name.trim_end_matches('/');
            warn(&format!("plinth: what if: {name}: I/O is delayed: {delay}\n"));
        }
    }
}

/// List operations that take long.
#[derive(Debug, Args)]
pub(super) struct Lsop {
    #[command(flatten)]
    headings: Headings,
    /// Names of groups: * and % are wildcards.
    pattern: Option<String>,
}

impl Run for Lsop {
    fn run(&self, context: &mut Context) -> Result<()> {
        if let Some(name) = only_name(self.pattern.as_deref()) {
            context.group_number(&group_name(name)?)?;
        }
        let condition = like_or_all("g.name", self.pattern.as_deref().map(bare));
        context.show_query(
            &format!(
                "SELECT g.name AS Group_Name, o.pass AS Pass, o.state AS State, o.power AS Power,
                    o.est_work AS EST_WORK, o.est_rate AS EST_RATE, o.est_minutes AS EST_TIME,
                    o.sofar AS SOFAR, o.error_code AS Error
                 FROM v$asm_operation o JOIN v$asm_diskgroup_stat g ON g.group_number = o.group_number
                 WHERE {condition} ORDER BY g.name, o.pass"
            ),
            self.headings,
        )
    }
}

/// List attributes of disk groups.
#[derive(Debug, Args)]
pub(super) struct Lsattr {
    #[arg(short = 'G', value_name = "GROUP")]
    group: Option<String>,
    /// With values.
    #[arg(short)]
    l: bool,
    /// More of each: its group, and whether it can be changed.
    #[arg(short)]
    m: bool,
    #[command(flatten)]
    headings: Headings,
    /// Names: * and % are wildcards.
    pattern: Option<String>,
}

impl Run for Lsattr {
    fn run(&self, context: &mut Context) -> Result<()> {
        let mut columns = vec!["a.name AS Name"];
        if self.m {
            columns.insert(0, "g.name AS Group_Name");
        }
        if self.l {
            columns.push("a.value AS Value");
        }
        if self.m {
            columns.extend(["a.read_only AS RO", "a.system_created AS Sys"]);
        }
        let group = match &self.group {
            Some(group) => {
                let group = group_name(group)?;
                context.group_number(&group)?;
                format!("g.name = {}", quoted(&group))
            }
            None => "1".to_owned(),
        };
        context.show_query(
            &format!(
                "SELECT {} FROM v$asm_attribute a JOIN v$asm_diskgroup_stat g ON g.group_number = a.group_number
                 WHERE {group} AND {} ORDER BY g.name, a.name",
                columns.join(", "),
                like_or_all("a.name", self.pattern.as_deref())
            ),
            self.headings,
        )
    }
}

/// List who uses disk groups.
#[derive(Debug, Args)]
pub(super) struct Lsct {
    /// With the number of the instance.
    #[arg(short)]
    g: bool,
    #[command(flatten)]
    headings: Headings,
    group: Option<String>,
}

impl Run for Lsct {
    fn run(&self, context: &mut Context) -> Result<()> {
        let group = match &self.group {
            Some(group) => {
                format!("g.group_number = {}", context.group_number(&group_name(group)?)?)
            }
            None => "1".to_owned(),
        };
        let instance = if self.g { "1 AS Instance_ID, " } else { "" };
        context.show_query(
            &format!(
                "SELECT {instance}c.db_name AS DB_Name, c.status AS Status, c.software_version AS Software_Version,
                    c.compatible_version AS Compatible_version, c.instance_name AS Instance_Name, g.name AS Disk_Group
                 FROM v$asm_client c JOIN v$asm_diskgroup_stat g ON g.group_number = c.group_number
                 WHERE {group} ORDER BY g.name, c.db_name, c.instance_name"
            ),
            self.headings,
        )
    }
}

/// List disks.
#[derive(Debug, Args)]
pub(super) struct Lsdsk {
    /// More about each disk: sizes, names.
    #[arg(short)]
    k: bool,
    /// More about each disk: states.
    #[arg(short)]
    p: bool,
    /// More about each disk: times.
    #[arg(short)]
    t: bool,
    /// With the number of the instance.
    #[arg(short)]
    g: bool,
    /// Those that only some instances see: none, where there is one.
    #[arg(short = 'M')]
    seen_by_some: bool,
    /// Read headers, without an instance; the pattern says of which disks.
    #[arg(short = 'I', conflicts_with_all = ["t", "g", "seen_by_some", "statistics", "group"], requires = "pattern")]
    headers: bool,
    /// More about each disk: I/O.
    #[arg(long)]
    statistics: bool,
    /// Those of one disk group.
    #[arg(short = 'G', value_name = "GROUP")]
    group: Option<String>,
    /// Those that can be taken.
    #[arg(long, conflicts_with = "member")]
    candidate: bool,
    /// Those that belong to a group.
    #[arg(long)]
    member: bool,
    /// As asmcmd has it: here disks are always looked for.
    #[arg(long)]
    discovery: bool,
    #[command(flatten)]
    headings: Headings,
    /// Paths: * and % are wildcards.
    pattern: Option<String>,
}

/// Columns of `-k` that `asmcmd` leaves blank for every disk without sites, labels and a library of
/// its own, as all are here: so the words of a row are where they are in a row of `asmcmd`.
const CELLS: Cells = Cells {
    empty: &[
        "Site_Name",
        "Site_Status",
        "Label",
        "Failgroup_Label",
        "Site_Label",
        "UDID",
        "Product",
    ],
    phrases: &[],
};
const K: &str = "d.total_mb AS Total_MB, d.free_mb AS Free_MB, d.os_mb AS OS_MB, d.name AS Name,
    d.failgroup AS Failgroup, d.site_name AS Site_Name, d.site_guid AS Site_GUID, d.site_status AS Site_Status,
    d.failgroup_type AS Failgroup_Type, d.library AS Library, d.label AS Label,
    d.failgroup_label AS Failgroup_Label, d.site_label AS Site_Label, NULL AS UDID, d.product AS Product,
    d.redundancy AS Redund";
const P: &str = "d.group_number AS Group_Num, d.disk_number AS Disk_Num, d.incarnation AS Incarn,
    d.mount_status AS Mount_Stat, d.header_status AS Header_Stat, d.mode_status AS Mode_Stat, d.state AS State";
const T: &str =
    "d.create_date AS Create_Date, d.mount_date AS Mount_Date, d.repair_timer AS Repair_Timer";
const STATISTICS: &str = "d.reads AS Reads, d.writes AS Write, d.read_errs AS Read_Errs,
    d.write_errs AS Write_Errs, d.read_time AS Read_time, d.write_time AS Write_Time,
    d.bytes_read AS Bytes_Read, d.bytes_written AS Bytes_Written, d.voting_file AS Voting_File";

impl Run for Lsdsk {
    fn run(&self, context: &mut Context) -> Result<()> {
        if self.headers {
            return self.scan(context);
        }
        let sets = [
            (self.g, "1 AS Inst_ID"),
            (self.k, K),
            (self.p, P),
            (self.t, T),
            (self.statistics, STATISTICS),
        ];
        let mut columns: Vec<&str> =
            sets.iter().filter(|(wanted, _)| *wanted).map(|(_, columns)| *columns).collect();
        columns.extend(["d.path AS Path", "d.what_if AS What_If"]);
        let mut conditions = vec![if self.seen_by_some { "0" } else { "1" }.to_owned()];
        if let Some(group) = &self.group {
            let group = group_name(group)?;
            conditions.push(format!("d.group_number = {}", context.group_number(&group)?));
        }
        if self.candidate {
            conditions.push("d.header_status IN ('CANDIDATE', 'FORMER', 'PROVISIONED')".to_owned());
        }
        if self.member {
            conditions.push("d.header_status = 'MEMBER'".to_owned());
        }
        conditions
            .extend(self.pattern.as_deref().map(|pattern| like("d.path", &shown_path(pattern))));
        let mut listed = context.query(&format!(
            "SELECT {} FROM v$asm_disk d WHERE {} ORDER BY d.group_number, d.disk_number, d.path",
            columns.join(", "),
            conditions.join(" AND ")
        ))?;
        if !context.json {
            shorten_dates(&mut listed);
        }
        let delays = take_last(&mut listed);
        context.show_cells(&listed, self.headings, CELLS);
        warn_of_delays(&listed, "Path", &delays);
        Ok(())
    }
}

/// Makes one word of each date.
fn shorten_dates(listed: &mut Table) {
    let is_date = |column: &Column| matches!(&*column.name, "Create_Date" | "Mount_Date");
    let dates: Vec<usize> = listed
        .columns
        .iter()
        .enumerate()
        .filter_map(|(at, column)| is_date(column).then_some(at))
        .collect();
    for row in &mut listed.rows {
        for at in &dates {
            let Some(Value::Text(time)) = row.get_mut(*at) else { continue };
            if let Some(date) = dates::of_disk(time) {
                *time = date;
            }
        }
    }
}

impl Lsdsk {
    /// Lists the disks that match the pattern as their headers describe them, without an instance.
    fn scan(&self, context: &Context) -> Result<()> {
        let choice = IoChoice::from_environment().map_err(|error| SqlError::new("22023", error))?;
        let world = RealWorld::new(choice, |_| {})
            .map_err(|error| SqlError::new(state::INTERNAL, error))?;
        let pattern = self.pattern.clone().unwrap_or_default().replace('%', "*");
        world.set_diskstring(&pattern).map_err(|error| SqlError::new("22023", error))?;
        let world: Arc<dyn World> = Arc::new(world);
        let mut columns = Vec::new();
        if self.k {
            columns.extend([
                ("OS_MB", Type::Integer),
                ("Name", Type::Text),
                ("Failgroup", Type::Text),
            ]);
            columns.push(("Failgroup_Type", Type::Text));
        }
        if self.p {
            columns.extend([
                ("Group_Name", Type::Text),
                ("Disk_Num", Type::Integer),
                ("Header_Stat", Type::Text),
            ]);
        }
        columns.push(("Path", Type::Text));
        let mut rows = Vec::new();
        for disk in context.wait(Group::survey(&world))? {
            let is_free = matches!(disk.header, HeaderStatus::Candidate | HeaderStatus::Former);
            if self.member && disk.header != HeaderStatus::Member || self.candidate && !is_free {
                continue;
            }
            let disk = disk.without_former_names();
            let header = disk.header.to_string();
            let text = |text: Option<String>| text.map_or(Value::Null, Value::Text);
            let mut row = Vec::new();
            if self.k {
                row.push(Value::Integer(i64::try_from(disk.size >> 20).unwrap_or(i64::MAX)));
                let kind = if disk.quorum { "QUORUM" } else { "REGULAR" };
                row.push(text(disk.name.clone()));
                row.push(text(disk.failure_group));
                row.push(text(disk.name.map(|_| kind.to_owned())));
            }
            if self.p {
                row.push(text(disk.group));
                row.push(
                    disk.number.map_or(Value::Null, |number| Value::Integer(i64::from(number))),
                );
                row.push(Value::Text(header));
            }
            row.push(Value::Text(disk.path));
            rows.push(row);
        }
        let columns = columns
            .into_iter()
            .map(|(name, kind)| Column { name: name.to_owned(), kind })
            .collect();
        context.show(&Table { columns, rows }, self.headings);
        Ok(())
    }
}
