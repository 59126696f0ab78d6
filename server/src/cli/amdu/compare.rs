//! `amdu --compare`: the mirrors of all files, block by block.

use super::{
    super::{
        Result,
        context::{Context, Headings},
        table::Cells,
    },
    INCOMPLETE,
    list::{number, table, text},
    open::{all_files, of_sqlite, shown},
};
use crate::query::views::Type;
use plinth_engine::{
    api::Kind,
    group::offline::{OfflineGroup, contents::Contents},
    words::counted,
};

pub(super) fn compare(
    context: &mut Context,
    group: &OfflineGroup,
    contents: &Contents<'_>,
    headings: Headings,
) -> Result<()> {
    let (mut rows, mut bytes, mut blocks) = (Vec::new(), 0, 0_u64);
    for file in all_files(contents)? {
        if file.attributes.kind != Kind::Regular {
            continue;
        }
        let path = file.paths.first().map_or_else(String::new, |path| shown(path));
        let compared = contents.compare(&file.attributes, &mut |difference| {
            blocks += 1;
            for (place, copy) in &difference.mirrors {
                let name = group.disk(place.disk).map(|disk| disk.member.name.clone());
                rows.push(vec![
                    number(difference.offset),
                    text(name.unwrap_or_else(|| place.disk.to_string())),
                    number(u64::from(place.au.0)),
                    number(place.offset),
                    text(copy),
                    text(&path),
                ]);
            }
        });
        bytes += compared.map_err(|error| of_sqlite(&error))?;
    }
    let columns = [
        ("Offset", Type::Integer),
        ("Disk", Type::Text),
        ("AU", Type::Integer),
        ("Disk_Offset", Type::Integer),
        ("State", Type::Text),
        ("File", Type::Text),
    ];
    if !rows.is_empty() || context.json {
        let cells = Cells { phrases: &["State"], ..Cells::default() };
        context.show_cells(&table(&columns, rows), headings, cells);
    }
    let size = crate::text::bytes_pretty(i64::try_from(bytes).unwrap_or(i64::MAX));
    context.say(match blocks {
        0 => format!("{size} compared: the mirrors that are there are equal and right"),
        _ => {
            format!("{size} compared: mirrors of {} differ or are wrong", counted(blocks, "block"))
        }
    });
    context.status = if blocks > 0 { INCOMPLETE } else { 0 };
    Ok(())
}
