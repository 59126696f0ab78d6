//! `EXPLAIN WORK FOR ALTER DISKGROUP ... RECLAIM`: how much each disk holds, and would hold after
//! that. There is a row for each disk, and a last one, `TOTAL`, with their sums.

use super::{Context, Notice, Result, SqlError, alter::one_group, note};
use crate::{
    query::{Column, Table, views::Type},
    sql::statement::Alter,
};
use plinth_engine::admin::{Reclaimable, Selection, Value};

/// The columns of an estimate.
pub(super) fn columns() -> Vec<Column> {
    let column = |(name, kind): (&str, Type)| Column { name: name.to_owned(), kind };
    let columns = [
        ("disk", Type::Text),
        ("size_mb", Type::Integer),
        ("used_mb", Type::Integer),
        ("metadata_mb", Type::Integer),
        ("free_mb", Type::Integer),
        ("allocated_mb", Type::Integer),
        ("after_mb", Type::Integer),
        ("returned_mb", Type::Integer),
        ("discards", Type::Text),
    ];
    columns.map(column).to_vec()
}

fn mib(bytes: u64) -> Value {
    Value::Integer(i64::try_from(bytes.saturating_add(1 << 19) >> 20).unwrap_or(i64::MAX))
}

fn row(disk: &Reclaimable, discards: Value) -> Vec<Value> {
    vec![
        Value::Text(disk.disk.clone()),
        mib(disk.size),
        mib(disk.used),
        mib(disk.metadata),
        mib(disk.free()),
        disk.allocated.map_or(Value::Null, mib),
        mib(disk.after()),
        mib(disk.holds() - disk.after()),
        discards,
    ]
}

/// The numbers of all disks.
fn total(disks: &[Reclaimable]) -> Vec<Value> {
    let sum = |of: fn(&Reclaimable) -> u64| mib(disks.iter().map(of).sum());
    let allocated: Option<u64> = disks.iter().map(|disk| disk.allocated).sum();
    vec![
        Value::Text("TOTAL".to_owned()),
        sum(|disk| disk.size),
        sum(|disk| disk.used),
        sum(|disk| disk.metadata),
        sum(Reclaimable::free),
        allocated.map_or(Value::Null, mib),
        sum(Reclaimable::after),
        sum(|disk| disk.holds() - disk.after()),
        Value::Null,
    ]
}

fn table(disks: &[Reclaimable]) -> Table {
    let discards =
        |disk: &Reclaimable| Value::Text(if disk.takes_discards { "Y" } else { "N" }.to_owned());
    let rows = disks.iter().map(|disk| row(disk, discards(disk)));
    Table { columns: columns(), rows: rows.chain([total(disks)]).collect() }
}

impl Context {
    /// Reports how much a RECLAIM would give back. Nothing is changed.
    pub(super) fn explain_reclaim(
        &self,
        alter: &Alter,
        which: &Selection,
        notices: &mut Vec<Notice>,
    ) -> Result<Table> {
        let found = self
            .engine(one_group(alter)?)?
            .reclaimable(which)
            .map_err(|error| SqlError::from(error).or_at(alter.at))?;
        let without = found.iter().filter(|disk| !disk.takes_discards).count();
        if without > 0 {
            notices.push(note(format!(
                "{without} of {} disks take no discards: only RECLAIM ZERO is for them",
                found.len()
            )));
        }
        Ok(table(&found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_a_table_with_a_total() {
        let disk = |allocated: Option<u64>| Reclaimable {
            disk: "D".to_owned(),
            size: 1000 << 20,
            used: 200 << 20,
            metadata: 10 << 20,
            unwritten: 0,
            cut_off: 0,
            allocated,
            takes_discards: allocated.is_some(),
        };
        let numbers = |row: &[Value]| {
            row[1..8]
                .iter()
                .map(|value| match value {
                    Value::Integer(number) => Some(*number),
                    _ => None,
                })
                .collect::<Vec<_>>()
        };
        let found = table(&[disk(Some(600 << 20)), disk(None)]);
        assert!(found.rows.iter().all(|row| row.len() == found.columns.len()));
        let [first, second, total] = &found.rows[..] else { panic!("two disks and a total") };
        let some = |numbers: [i64; 7]| numbers.map(Some).to_vec();
        assert_eq!(numbers(first), some([1000, 200, 10, 790, 600, 210, 390]));
        assert_eq!(numbers(second)[4..], [None, Some(210), Some(790)]);
        assert_eq!(numbers(total)[4..], [None, Some(420), Some(1180)]);
        assert_eq!(first[8], Value::Text("Y".to_owned()));
    }
}
