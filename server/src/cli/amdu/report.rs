//! `amdu --report`: for each disk what is there and what is damaged.

use super::{
    super::{
        Result,
        context::{Context, Headings},
        print,
        table::Cells,
    },
    INCOMPLETE,
    list::{number, table, text},
    open::Opened,
};
use crate::query::views::Type;
use plinth_engine::{
    admin::Value,
    disk::identify::Case,
    group::offline::{self, OfflineDisk, OfflineGroup},
    words::counted,
};

pub(super) fn report(
    context: &mut Context,
    opened: &Opened,
    wanted: Option<&str>,
    headings: Headings,
) -> Result<()> {
    let mut is_whole = true;
    let mut rows = Vec::new();
    let groups = opened.groups.iter();
    for group in groups.filter(|group| wanted.is_none_or(|name| name == group.name)) {
        for disk in &group.disks {
            let state = state(disk);
            is_whole &= state.is_none();
            rows.push(row(group, disk, state));
        }
    }
    for (path, why) in &opened.others {
        is_whole = false;
        let mut row = vec![Value::Null; 6];
        row.extend([text(path), text(why)]);
        rows.push(row);
    }
    let columns = [
        ("Group", Type::Text),
        ("Disk", Type::Text),
        ("Member", Type::Text),
        ("Bytes", Type::Integer),
        ("Stamp", Type::Integer),
        ("Generation", Type::Integer),
        ("Path", Type::Text),
        ("State", Type::Text),
    ];
    context.show_cells(&table(&columns, rows), headings, Cells::default());
    for group in opened.groups.iter().filter(|group| wanted.is_none_or(|name| name == group.name)) {
        is_whole &= about_catalog(context, opened, group);
    }
    context.status = if is_whole { 0 } else { INCOMPLETE };
    Ok(())
}

fn row(group: &OfflineGroup, disk: &OfflineDisk, state: Option<String>) -> Vec<Value> {
    let found = disk.found.as_ref();
    let or_null = |value: Option<u64>| value.map_or(Value::Null, number);
    vec![
        text(&group.name),
        text(&disk.member.name),
        text(format!("{:?}", disk.member.state).to_uppercase()),
        number(disk.member.size),
        or_null(found.and_then(|found| found.stamp)),
        or_null(found.and_then(|found| found.generation)),
        found.map_or(Value::Null, |found| text(&found.path)),
        text(state.unwrap_or_else(|| "right".to_owned())),
    ]
}

/// The faults of a disk.
fn state(disk: &OfflineDisk) -> Option<String> {
    let Some(found) = &disk.found else { return Some("missing".to_owned()) };
    let mut all = Vec::new();
    if !disk.is_current() {
        all.push(format!("content is {}", format!("{:?}", disk.verdict).to_lowercase()));
    }
    if found.header.case == Case::Shrunk {
        all.push(format!("has shrunk to {} bytes", found.disk.size()));
    }
    if !found.header.wrong.is_empty() {
        let places: Vec<String> = found.header.wrong.iter().map(ToString::to_string).collect();
        all.push(format!("header copy missing or damaged at offset {}", places.join(", ")));
    }
    if found.stamp.is_none() {
        all.push("no stamp can be read".to_owned());
    }
    if disk.member.votes && found.generation.is_none() {
        all.push("no membership can be read".to_owned());
    }
    (!all.is_empty()).then(|| all.join("; "))
}

/// The state of a group and of its catalog. Whether all is right.
fn about_catalog(context: &Context, opened: &Opened, group: &OfflineGroup) -> bool {
    let mut text = format!("\ndisk group {}:\n", group.name);
    for remark in &group.remarks {
        text += &format!("  {remark}\n");
    }
    if group.is_dropped {
        text += "  it was dropped; kfed undrop makes its disks members again\n";
    }
    if group.membership.mounted && !group.is_in_use {
        text += "  it was not dismounted in good order\n";
    }
    if !group.active.is_empty() {
        text += &format!(
            "  {} in which writes may have been in flight\n",
            counted(group.active.len(), "region")
        );
    }
    let copied = offline::catalog::copy(&opened.world, group, &mut |_, _| Ok(()));
    let is_right = match &copied {
        Err(error) => {
            text += &format!("  its catalog cannot be read: {error}\n");
            false
        }
        Ok(copied) => {
            for (mirror, pages) in &copied.wrong {
                text += &format!(
                    "  mirror {mirror} of the catalog: {} damaged, old or not there\n",
                    counted(*pages, "page")
                );
            }
            text += &format!(
                "  catalog of {}, {} in its log, {} damaged on every mirror\n",
                counted(copied.pages, "page"),
                counted(copied.log.commits, "commit"),
                counted(copied.damaged.len(), "page")
            );
            copied.wrong.is_empty() && copied.damaged.is_empty()
        }
    };
    if !context.json {
        print(&text);
    }
    is_right && group.remarks.is_empty()
}
