//! `ls`: names in a disk group, as `+DATA/directory`.

use super::{Result, lists, print, table};
use crate::{
    alert::rfc3339,
    engine::{
        client::Client,
        protocol::{FileInfo, ListEntry},
    },
    instance::{
        query::{Column, Table},
        views::Type,
    },
    paths::Paths,
    refusal::Refusal,
};
use plinth_engine::{admin::Value, api::Kind};

/// Cuts `+DATA/a/b` into group and path.
pub(super) fn split(path: &str) -> Result<(String, String)> {
    let rest = path.strip_prefix('+').ok_or_else(|| {
        Refusal::new("22023", format!("{path} is not in a disk group")).hint("write +GROUP/path, as in +DATA/pg/base")
    })?;
    let (group, path) = rest.split_once('/').unwrap_or((rest, ""));
    Ok((group.to_uppercase(), path.to_owned()))
}

/// The permissions, as `ls -l` of the system shows them.
fn mode_text(info: &FileInfo) -> String {
    let kind = match info.kind {
        Kind::Directory => 'd',
        Kind::Regular => '-',
        Kind::Symlink => 'l',
        Kind::Fifo => 'p',
        Kind::Socket => 's',
        Kind::CharDevice => 'c',
        Kind::BlockDevice => 'b',
    };
    let mut text = String::from(kind);
    for shift in [6, 3, 0] {
        for (bit, letter) in [(4, 'r'), (2, 'w'), (1, 'x')] {
            text.push(if info.mode >> shift & bit == 0 { '-' } else { letter });
        }
    }
    text
}

pub(super) fn list(paths: &Paths, path: &str, long: bool, json: bool) -> Result<()> {
    if path == "+" {
        return if long { lists::groups(paths, None, json) } else { group_names(paths, json) };
    }
    let (group, inside) = split(path)?;
    let engine = Client::connect(paths, &group)?;
    let info = engine.look(&inside)?;
    let entries = if info.kind == Kind::Directory {
        engine.list(&inside)?
    } else {
        let name = inside.rsplit('/').next().unwrap_or_default().to_owned();
        vec![ListEntry { name, cookie: 1, info }]
    };
    let long_columns = [
        ("Mode", Type::Text),
        ("Links", Type::Integer),
        ("User", Type::Text),
        ("Group", Type::Integer),
        ("Bytes", Type::Integer),
        ("Space", Type::Integer),
        ("Time", Type::Text),
        ("Name", Type::Text),
    ];
    let columns = if long || json { &long_columns[..] } else { &long_columns[7..] };
    let row = |entry: ListEntry| {
        let number = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
        let slash = if entry.info.kind == Kind::Directory { "/" } else { "" };
        let name = Value::Text(format!("{}{slash}", entry.name));
        if !(long || json) {
            return vec![name];
        }
        let mut time = rfc3339(entry.info.modified);
        time.truncate(19);
        vec![
            Value::Text(mode_text(&entry.info)),
            number(u64::from(entry.info.links)),
            Value::Text(crate::users::name(entry.info.uid)),
            number(u64::from(entry.info.gid)),
            number(entry.info.size),
            number(entry.info.blocks * 512),
            Value::Text(time.replace('T', " ")),
            name,
        ]
    };
    let mut rows: Vec<Vec<Value>> = entries.into_iter().map(row).collect();
    rows.sort_by_key(|row| match row.last() {
        Some(Value::Text(name)) => name.clone(),
        _ => String::new(),
    });
    let columns: Vec<Column> =
        columns.iter().map(|(name, kind)| Column { name: (*name).to_owned(), kind: *kind }).collect();
    let listed = Table { columns, rows };
    print(&if long || json { table::plain_or_json(&listed, json) } else { names(&listed) });
    Ok(())
}

fn names(table: &Table) -> String {
    table.rows.iter().filter_map(|row| row.first()).map(|name| format!("{}\n", table::text(name))).collect()
}

fn group_names(paths: &Paths, json: bool) -> Result<()> {
    let listed = lists::query(paths, "SELECT name || '/' AS Name FROM v$asm_diskgroup_stat ORDER BY name")?;
    print(&if json { table::plain_or_json(&listed, true) } else { names(&listed) });
    Ok(())
}
