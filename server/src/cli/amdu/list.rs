//! `amdu --list`: the disks and files of a group, as far as they are there.

use super::{
    super::{
        Result,
        context::{Context, Headings},
        print,
        table::{self, Cells},
    },
    INCOMPLETE, UNVERIFIED,
    open::{all_files, of_sqlite, shown},
};
use crate::query::{Column, Table, views::Type};
use plinth_engine::{
    admin::Value,
    group::offline::{
        OfflineGroup,
        contents::{Contents, Trouble},
    },
};

/// A table from its headings.
pub(super) fn table(columns: &[(&str, Type)], rows: Vec<Vec<Value>>) -> Table {
    let column = |(name, kind): &(&str, Type)| Column { name: (*name).to_owned(), kind: *kind };
    Table { columns: columns.iter().map(column).collect(), rows }
}

pub(super) fn number(value: u64) -> Value {
    Value::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

pub(super) fn text(value: impl std::fmt::Display) -> Value {
    Value::Text(value.to_string())
}

pub(super) fn list(
    context: &mut Context,
    group: &OfflineGroup,
    contents: &Contents<'_>,
    headings: Headings,
) -> Result<()> {
    let disks = disks(group);
    let mut rows = Vec::new();
    let mut worst = None;
    for file in all_files(contents)? {
        let trouble = contents.survey(&file.attributes).map_err(|error| of_sqlite(&error))?;
        worst = worst.max(trouble);
        let attributes = &file.attributes;
        let mirrors = match attributes.mirrors {
            0 => group.membership.redundancy.to_string(),
            1 => "UNPROT".to_owned(),
            2 => "MIRROR".to_owned(),
            _ => "HIGH".to_owned(),
        };
        let kind = match attributes.file_type {
            Some(kind) => kind.word().to_owned(),
            None => format!("{:?}", attributes.kind).to_uppercase(),
        };
        for path in &file.paths {
            let state =
                trouble.map_or_else(|| "complete".to_owned(), |trouble| trouble.to_string());
            rows.push(vec![
                number(file.node),
                Value::Text(kind.clone()),
                Value::Text(mirrors.clone()),
                number(attributes.size),
                Value::Text(state),
                Value::Text(shown(path)),
            ]);
        }
    }
    let files = table(
        &[
            ("File", Type::Integer),
            ("Type", Type::Text),
            ("Redund", Type::Text),
            ("Bytes", Type::Integer),
            ("State", Type::Text),
            ("Name", Type::Text),
        ],
        rows,
    );
    if context.json {
        let (disks, files) = (table::json(&disks), table::json(&files));
        print(&format!("{{\"disks\": {}, \"files\": {}}}\n", disks.trim_end(), files.trim_end()));
    } else {
        let state = match (group.is_dropped, group.is_in_use) {
            (true, _) => "dropped",
            (_, true) => "in use",
            _ if group.membership.mounted => "not dismounted in good order",
            _ => "dismounted",
        };
        print(&format!(
            "disk group {} ({}), {}, AUs of {} bytes, {state}\n\n",
            group.name, group.id, group.membership.redundancy, group.membership.au_size
        ));
        let cells = Cells { phrases: &["State"], ..Cells::default() };
        context.show_cells(&disks, headings, cells);
        print("\n");
        context.show_cells(&files, headings, cells);
    }
    context.status = status(worst);
    Ok(())
}

/// The exit code for the worst that was found.
pub(super) fn status(worst: Option<Trouble>) -> u8 {
    match worst {
        None => 0,
        Some(Trouble::Unverified) => UNVERIFIED,
        Some(_) => INCOMPLETE,
    }
}

fn disks(group: &OfflineGroup) -> Table {
    let rows = group.disks.iter().map(|disk| {
        let found = disk.found.as_ref();
        vec![
            number(u64::from(disk.member.number.0)),
            text(&disk.member.name),
            text(&disk.member.failure_group),
            number(disk.member.size),
            text(format!("{:?}", disk.member.state).to_uppercase()),
            text(format!("{:?}", disk.verdict).to_lowercase()),
            found.map_or(Value::Null, |found| text(&found.path)),
        ]
    });
    table(
        &[
            ("Disk", Type::Integer),
            ("Disk_Name", Type::Text),
            ("Failgroup", Type::Text),
            ("Bytes", Type::Integer),
            ("Member", Type::Text),
            ("Content", Type::Text),
            ("Path", Type::Text),
        ],
        rows.collect(),
    )
}
