//! `amdu --block` and `--file`: from a place on a disk to a file, and back.

use super::{
    super::{
        Result,
        context::{Context, Headings},
        dump::parse_offset,
    },
    list::{number, table, text},
    open::{all_files, find, of_sqlite, shown},
};
use crate::{query::views::Type, sql_error::SqlError};
use plinth_engine::{
    admin::Value,
    group::offline::{OfflineDisk, OfflineGroup, contents::Contents},
};
use plinth_format::{Au, BLOCK_SIZE};

fn invalid(text: String) -> SqlError {
    SqlError::new("22023", text)
}

/// `--block DISK:OFFSET`; the disk by its path, its name or its number.
pub(super) fn block(
    context: &Context,
    group: &OfflineGroup,
    contents: &Contents<'_>,
    place: &str,
    headings: Headings,
) -> Result<()> {
    let usage = || invalid(format!("'{place}' is not DISK:OFFSET, such as DATA_0000:4M"));
    let (name, offset) = place.rsplit_once(':').ok_or_else(usage)?;
    let offset = parse_offset(offset).ok_or_else(usage)?;
    let is_meant = |disk: &&OfflineDisk| {
        disk.member.name.eq_ignore_ascii_case(name)
            || disk.member.number.to_string() == name
            || disk.found.as_ref().is_some_and(|found| found.path == name)
    };
    let disk = group
        .disks
        .iter()
        .find(is_meant)
        .ok_or_else(|| invalid(format!("disk group {} has no disk '{name}'", group.name)))?;
    let au_size = group.membership.au_size;
    let au = u32::try_from(offset / au_size).map(Au).map_err(|_| usage())?;
    let inside = offset % au_size;
    let holders = contents.holders(disk.member.number, au, inside);
    let mut rows = Vec::new();
    let files = all_files(contents)?;
    for (holder, node, offset) in holders.map_err(|error| of_sqlite(&error))? {
        let named = files.iter().find(|file| file.node == node);
        rows.push(vec![
            number(u64::from(au.0)),
            number(holder.extent),
            number(holder.number),
            number(node),
            offset.map_or(Value::Null, number),
            named.and_then(|file| file.paths.first()).map_or(Value::Null, |path| text(shown(path))),
        ]);
    }
    if rows.is_empty() {
        context.say(format!(
            "{} at {offset}: {}",
            disk.member.name,
            use_of(group, disk, au, offset)
        ));
        return Ok(());
    }
    let columns = [
        ("AU", Type::Integer),
        ("Extent_Id", Type::Integer),
        ("Extent", Type::Integer),
        ("File", Type::Integer),
        ("Offset", Type::Integer),
        ("Name", Type::Text),
    ];
    context.show(&table(&columns, rows), headings);
    Ok(())
}

/// The use of an AU without an extent.
fn use_of(group: &OfflineGroup, disk: &OfflineDisk, au: Au, offset: u64) -> String {
    let runs = &group.membership.catalog;
    let run =
        runs.iter().find(|run| run.disk == disk.member.number && run.aus().any(|one| one == au));
    if let Some(run) = run {
        return format!("the catalog, mirror {} of its {:?}", run.mirror, run.file).to_lowercase();
    }
    let Some(found) = &disk.found else {
        return "no file's; the disk is not there".to_owned();
    };
    let layout = found.header.best.layout;
    if layout.header_places().contains(&(offset / BLOCK_SIZE as u64 * BLOCK_SIZE as u64)) {
        return "a copy of the header".to_owned();
    }
    if au.0 >= layout.au_count() {
        return "beyond the AUs of the disk".to_owned();
    }
    if layout.is_data(au) {
        return "free".to_owned();
    }
    "system area, checksums or records: kfed read shows them".to_owned()
}

/// `--file NAME [--offset N]`.
pub(super) fn file(
    context: &Context,
    group: &OfflineGroup,
    contents: &Contents<'_>,
    (name, offset): (&str, Option<&str>),
    headings: Headings,
) -> Result<()> {
    let offset = match offset {
        Some(written) => {
            let bytes = parse_offset(written);
            Some(bytes.ok_or_else(|| invalid(format!("'{written}' is no offset in bytes")))?)
        }
        None => None,
    };
    let files = all_files(contents)?;
    let file = find(group, &files, name)?;
    let places = contents.places(&file.attributes).map_err(|error| of_sqlite(&error))?;
    let mut rows = Vec::new();
    for extent in places {
        let is_meant = offset.is_none_or(|offset| extent.range.contains(&offset));
        for place in extent.mirrors.iter().filter(|_| is_meant) {
            let begin = offset.unwrap_or(extent.range.start);
            let disk = group.disk(place.disk);
            let found = disk.and_then(|disk| disk.found.as_ref());
            rows.push(vec![
                number(begin),
                number(extent.number),
                text(disk.map_or_else(|| place.disk.to_string(), |disk| disk.member.name.clone())),
                number(u64::from(place.au.0)),
                number(place.offset + extent.inside + (begin - extent.range.start)),
                found.map_or(Value::Null, |found| text(&found.path)),
            ]);
        }
    }
    let columns = [
        ("Offset", Type::Integer),
        ("Extent", Type::Integer),
        ("Disk", Type::Text),
        ("AU", Type::Integer),
        ("Disk_Offset", Type::Integer),
        ("Path", Type::Text),
    ];
    if rows.is_empty() && !context.json {
        context.say("no extent: a hole, or beyond the end of the file");
        return Ok(());
    }
    context.show(&table(&columns, rows), headings);
    Ok(())
}
