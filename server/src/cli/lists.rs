//! `lsdg`, `lsdsk`, `lsop`: queries with `asmcmd`'s columns.

use super::{Result, print, table};
use crate::{
    instance::{control::Client, query::Table},
    paths::Paths,
    refusal::{Refusal, state},
};

/// What of the disks is wanted.
#[derive(Debug, Default)]
pub(super) struct Disks {
    pub k: bool,
    pub p: bool,
    pub t: bool,
    pub statistics: bool,
    pub group: Option<String>,
    pub candidate: bool,
    pub member: bool,
}

/// Runs one query.
pub(super) fn query(paths: &Paths, sql: &str) -> Result<Table> {
    let mut found = None;
    Client::connect(paths)?.sql(sql, |given| {
        for notice in given.notices {
            eprintln!("plinth: {}", notice.text);
        }
        found = given.table;
    })?;
    found.ok_or_else(|| Refusal::new(state::INTERNAL, "a query without a result"))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A condition for a pattern with `*` and `?`.
fn like(column: &str, pattern: &str) -> String {
    let pattern = pattern.replace('\\', "\\\\").replace('_', "\\_").replace('*', "%").replace('?', "_");
    format!("{column} LIKE {} ESCAPE '\\'", quoted(&pattern))
}

fn name(group: &str) -> &str {
    group.trim_start_matches('+').trim_end_matches('/')
}

pub(super) fn groups(paths: &Paths, pattern: Option<&str>, json: bool) -> Result<()> {
    let condition = pattern.map_or_else(|| "1".to_owned(), |pattern| like("name", name(pattern)));
    let listed = query(
        paths,
        &format!(
            "SELECT state AS State, type AS Type,
                CASE WHEN group_number > 0 AND group_number IN
                    (SELECT group_number FROM v$asm_operation WHERE state IN ('RUN', 'WAIT')) THEN 'Y' ELSE 'N' END
                    AS Rebal,
                sector_size AS Sector, logical_sector_size AS Logical_Sector, block_size AS Block,
                allocation_unit_size AS AU, total_mb AS Total_MB, free_mb AS Free_MB,
                required_mirror_free_mb AS Req_mir_free_MB, usable_file_mb AS Usable_file_MB,
                offline_disks AS Offline_disks, voting_files AS Voting_files, name || '/' AS Name
             FROM v$asm_diskgroup WHERE {condition} ORDER BY name"
        ),
    )?;
    print(&table::plain_or_json(&listed, json));
    Ok(())
}

pub(super) fn operations(paths: &Paths, pattern: Option<&str>, json: bool) -> Result<()> {
    let condition = pattern.map_or_else(|| "1".to_owned(), |pattern| like("g.name", name(pattern)));
    let listed = query(
        paths,
        &format!(
            "SELECT g.name AS Group_Name, o.pass AS Pass, o.state AS State, o.power AS Power, o.sofar AS SOFAR,
                o.est_work AS EST_WORK, o.est_rate AS EST_RATE, o.est_minutes AS EST_TIME, o.error_code AS Error
             FROM v$asm_operation o JOIN v$asm_diskgroup_stat g ON g.group_number = o.group_number
             WHERE {condition} ORDER BY g.name, o.pass"
        ),
    )?;
    print(&table::plain_or_json(&listed, json));
    Ok(())
}

pub(super) fn disks(paths: &Paths, wanted: &Disks, pattern: Option<&str>, json: bool) -> Result<()> {
    const K: &str = "d.total_mb AS Total_MB, d.free_mb AS Free_MB, d.os_mb AS OS_MB, d.name AS Name,
        d.failgroup AS Failgroup, d.site_name AS Site_Name, d.site_guid AS Site_GUID, d.site_status AS Site_Status,
        d.failgroup_type AS Failgroup_Type, d.library AS Library, d.label AS Label,
        d.failgroup_label AS Failgroup_Label, d.site_label AS Site_Label, d.udid AS UDID, d.product AS Product,
        d.redundancy AS Redund";
    const P: &str = "d.group_number AS Group_Num, d.disk_number AS Disk_Num, d.incarnation AS Incarn,
        d.mount_status AS Mount_Stat, d.header_status AS Header_Stat, d.mode_status AS Mode_Stat, d.state AS State";
    const T: &str = "d.create_date AS Create_Date, d.mount_date AS Mount_Date, d.repair_timer AS Repair_Timer";
    const STATISTICS: &str = "d.reads AS Reads, d.writes AS Writes, d.read_errs AS Read_Errs,
        d.write_errs AS Write_Errs, d.read_time AS Read_time, d.write_time AS Write_Time,
        d.bytes_read AS Bytes_Read, d.bytes_written AS Bytes_Written, d.voting_file AS Voting_File";
    let sets = [(wanted.k, K), (wanted.p, P), (wanted.t, T), (wanted.statistics, STATISTICS)];
    let mut columns: Vec<&str> = sets.iter().filter(|(wanted, _)| *wanted).map(|(_, columns)| *columns).collect();
    columns.push("d.path AS Path");
    let mut conditions = vec!["1".to_owned()];
    if let Some(group) = &wanted.group {
        let group = quoted(&name(group).to_uppercase());
        conditions.push(format!(
            "d.group_number IN (SELECT group_number FROM v$asm_diskgroup_stat
            WHERE name = {group} AND group_number > 0)"
        ));
    }
    if wanted.candidate {
        conditions.push("d.header_status IN ('CANDIDATE', 'FORMER', 'PROVISIONED')".to_owned());
    }
    if wanted.member {
        conditions.push("d.header_status = 'MEMBER'".to_owned());
    }
    conditions.extend(pattern.map(|pattern| like("d.path", pattern)));
    let listed = query(
        paths,
        &format!(
            "SELECT {} FROM v$asm_disk d WHERE {} ORDER BY d.group_number, d.disk_number",
            columns.join(", "),
            conditions.join(" AND ")
        ),
    )?;
    print(&table::plain_or_json(&listed, json));
    Ok(())
}
