//! View `v$asm_missing_mirror`, which the engine itself reads: files of which mirrors are missing.

use crate::admin::Value;

/// A file of which mirrors are missing.
pub(crate) struct MissingMirror<'a> {
    pub number: i64,
    pub name: &'a Value,
    pub extents: i64,
    /// Of the extent that has the fewest.
    pub mirrors_left: i64,
    /// As the view shows it.
    pub redundancy: &'a Value,
    /// How many such files there are in all.
    pub total: i64,
}

/// The query for such files, the most exposed first, `most` at most.
pub(crate) fn query(most: usize) -> String {
    format!(
        "SELECT file_number, name, extents, mirrors_left, redundancy, count(*) OVER () FROM v$asm_missing_mirror \
         ORDER BY mirrors_left, file_number LIMIT {most}"
    )
}

/// A row of the query's result.
pub(crate) fn of_row(row: &[Value]) -> Option<MissingMirror<'_>> {
    let [
        Value::Integer(number),
        name,
        Value::Integer(extents),
        Value::Integer(mirrors_left),
        redundancy,
        Value::Integer(total),
    ] = row
    else {
        return None;
    };
    Some(MissingMirror {
        number: *number,
        name,
        extents: *extents,
        mirrors_left: *mirrors_left,
        redundancy,
        total: *total,
    })
}
