//! The head of the page: what was looked at, when, on which host, and what needs attention.
//!
//! The points of attention follow from the answers of all themes. That there are none is said only
//! if everything could be asked.

use super::{
    facts::{Facts, Question, Row},
    figures::{cell, count, mib, moment, time},
};
use plinth_engine::words::counted;
use plinth_evidence::draw::{Page, Table};

pub(super) const QUESTIONS: &[Question] = &[Question {
    view: "v$instance",
    is_of_engine: false,
    sql: "SELECT instance_name, host_name, version_full, startup_time FROM v$instance",
}];

pub(super) fn draw(facts: &Facts, page: &mut Page) {
    let mut points = points(facts);
    let absent = facts.absent();
    if points.is_empty() && absent.is_empty() {
        page.paragraph(
            "Nothing needs attention: all disks are ONLINE, all mirrors are there, no disk had \
             trouble since the mount, and the alert log of the last day has no alarm.",
        );
    }
    points.extend(absent.into_iter().map(|sentence| format!("{sentence}.")));
    page.list(&points);
    let mut table = Table::new(["what", "value"]);
    for (name, value) in about(facts) {
        table.row([name.to_owned(), value]);
    }
    page.table("Host, instance and group", &table);
}

/// Names and values of the first table.
fn about(facts: &Facts) -> Vec<(&'static str, String)> {
    let mut pairs = vec![("made at", format!("{} UTC", moment(facts.now)))];
    if let Some(instance) = facts.rows("v$instance").next() {
        pairs.push(("host", cell(&instance.text("host_name"))));
        pairs.push(("instance", cell(&instance.text("instance_name"))));
        pairs.push(("version", format!("Plinth {}", instance.text("version_full"))));
        pairs.push(("instance since", time(&instance.text("startup_time"))));
    }
    let system = rustix::system::uname();
    pairs.push(("kernel", cell(&system.release().to_string_lossy())));
    pairs.push(("report by", format!("plinth {}", env!("CARGO_PKG_VERSION"))));
    pairs.push(("group", facts.group.name.clone()));
    pairs.push(("state", facts.group.state.clone()));
    if let Some(group) = facts.rows("v$asm_diskgroup_stat").next() {
        let sectors = format!(
            "{} / {} bytes",
            group.integer("sector_size"),
            group.integer("logical_sector_size")
        );
        pairs.push(("redundancy", group.text("type")));
        pairs.push(("AU", mib(group.integer("allocation_unit_size") >> 20)));
        pairs.push(("sector, physical / logical", sectors));
    }
    let mounts = facts.rows("v$asm_disk_stat").map(|disk| disk.text("mount_date"));
    if let Some(first) = mounts.filter(|mount| !mount.is_empty()).min() {
        pairs.push(("mounted since", time(&first)));
    }
    pairs
}

/// The points that need attention, a sentence each.
fn points(facts: &Facts) -> Vec<String> {
    let mut points = Vec::new();
    if !matches!(&*facts.group.state, "MOUNTED" | "RESTRICTED") {
        points.push(format!("The group is {}.", facts.group.state));
    }
    let names = |wanted: &dyn Fn(&Row<'_>) -> bool| -> Vec<String> {
        facts.rows("v$asm_disk_stat").filter(wanted).map(|disk| disk.text("name")).collect()
    };
    let mut disks = |found: Vec<String>, what: &str| {
        if !found.is_empty() {
            let all = counted(found.len() as u64, "disk");
            let shown = found.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
            let more = if found.len() > 5 { " and others" } else { "" };
            points.push(format!("{what}: {all} ({shown}{more})."));
        }
    };
    disks(names(&|disk| disk.text("mode_status") != "ONLINE"), "Not ONLINE");
    for state in ["HUNG", "FULL", "DROPPING", "FORCING"] {
        disks(names(&|disk| disk.text("state") == state), state);
    }
    let missing = facts.rows("v$asm_missing_mirror").count() as u64;
    if missing > 0 {
        points.push(format!("Mirrors are missing of {}.", counted(missing, "file")));
    }
    for row in facts.rows("v$asm_error") {
        // Slow I/O is in the table of errors, and a repair is good news.
        if !matches!(&*row.text("kind"), "SLOW" | "REPAIRED") && points.len() < 20 {
            points.push(format!(
                "Disk {}: {}, {}, last at {}.",
                row.text("name"),
                row.text("kind"),
                counted(row.count("count"), "time"),
                time(&row.text("last_time"))
            ));
        }
    }
    for row in facts.rows("v$asm_operation").filter(|row| row.text("state") == "ERRS") {
        points.push(format!("{} has failed: {}.", row.text("pass"), row.text("error_code")));
    }
    let space = facts.rows("v$asm_space").filter(|row| row.integer("safe_bytes") <= 0);
    points.extend(space.map(|_| "No space is left that can be written safely.".to_owned()));
    if let Ok(log) = &facts.log
        && log.alarms > 0
    {
        let alarms = count(log.alarms);
        points.push(format!("Alarms in the alert log of the last day: {alarms}."));
    }
    points
}
