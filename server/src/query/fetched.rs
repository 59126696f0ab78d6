//! Rows as engines sent them: bytes in parts (engine's `rows.rs`), and the offset of each row.
//!
//! A row costs its bytes and eight more, and values that are not read cost nothing. A column in
//! which a statement looks up values gets an index, which is sorted at its first use.

use plinth_engine::{
    admin::Value,
    catalog::rows::{Seen, decode_count, decode_value, encode_row},
};
use std::{
    cmp::Ordering,
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

/// The origin of a column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The number of the group whose engine sent the row.
    Group,
    /// A position in the rows.
    Sent(usize),
    /// A position in the rows, with the group's number added in the high bits.
    Compound(usize),
    /// The statement does not read the column, or it is unknown: NULL.
    Nothing,
}

struct Part {
    group: u32,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Place {
    part: u32,
    offset: u32,
}

/// See the module's description.
pub struct Fetched {
    origins: Vec<Origin>,
    /// Number of values in each row that an engine sent.
    width: usize,
    parts: Vec<Part>,
    rows: Vec<Place>,
    indexes: Mutex<BTreeMap<usize, Arc<Index>>>,
}

/// The rows in the order of one column's values; rows without a value are left out.
pub struct Index {
    order: Order,
    /// Number of distinct values.
    pub distinct: usize,
}

enum Order {
    Integers(Vec<(i64, u32)>),
    Any(Vec<u32>),
}

impl Index {
    /// The row at a position of the order.
    pub fn row(&self, at: usize) -> usize {
        match &self.order {
            Order::Integers(rows) => rows.get(at).map_or(0, |(_, row)| *row as usize),
            Order::Any(rows) => rows.get(at).map_or(0, |row| *row as usize),
        }
    }
}

/// SQLite's order of values, without collations.
fn compare(a: Seen<'_>, b: Seen<'_>) -> Ordering {
    let class = |value: Seen<'_>| match value {
        Seen::Null => 0,
        Seen::Integer(_) | Seen::Real(_) => 1,
        Seen::Text(_) => 2,
        Seen::Blob(_) => 3,
    };
    match (a, b) {
        (Seen::Integer(a), Seen::Integer(b)) => a.cmp(&b),
        (Seen::Text(a), Seen::Text(b)) | (Seen::Blob(a), Seen::Blob(b)) => a.cmp(b),
        (Seen::Real(a), Seen::Real(b)) => a.total_cmp(&b),
        (Seen::Integer(a), Seen::Real(b)) => (a as f64).total_cmp(&b),
        (Seen::Real(a), Seen::Integer(b)) => a.total_cmp(&(b as f64)),
        _ => class(a).cmp(&class(b)),
    }
}

impl Fetched {
    /// `width`: the number of values in each row; `origins`: of the table's columns.
    pub fn new(width: usize, origins: Vec<Origin>) -> Self {
        Self { origins, width, parts: Vec::new(), rows: Vec::new(), indexes: Mutex::default() }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds a part that an engine sent; `None` if it is malformed.
    pub fn add(&mut self, group: u32, rows: usize, bytes: Vec<u8>) -> Option<()> {
        let part = u32::try_from(self.parts.len()).ok()?;
        let mut rest = &bytes[..];
        for _ in 0..rows {
            let offset = u32::try_from(bytes.len() - rest.len()).ok()?;
            if decode_count(&mut rest)? != self.width {
                return None;
            }
            for _ in 0..self.width {
                decode_value(&mut rest)?;
            }
            self.rows.push(Place { part, offset });
        }
        self.parts.push(Part { group, bytes });
        Some(())
    }

    /// Adds a row that does not come from an engine.
    pub fn add_row(&mut self, group: u32, row: &[Value]) {
        let mut bytes = Vec::new();
        encode_row(row, &mut bytes);
        let added = self.add(group, 1, bytes);
        debug_assert!(added.is_some(), "a row of another width");
    }

    pub fn value(&self, row: usize, column: usize) -> Seen<'_> {
        let Some(Place { part, offset }) = self.rows.get(row).copied() else { return Seen::Null };
        let Some(part) = self.parts.get(part as usize) else { return Seen::Null };
        let sent = |at: usize| {
            // The values follow the count; `add` has checked that they can be decoded.
            let mut rest = part.bytes.get(offset as usize + 4..).unwrap_or_default();
            (0..at).try_for_each(|_| decode_value(&mut rest).map(drop));
            decode_value(&mut rest).unwrap_or(Seen::Null)
        };
        match self.origins.get(column).copied().unwrap_or(Origin::Nothing) {
            Origin::Nothing => Seen::Null,
            Origin::Group => Seen::Integer(i64::from(part.group)),
            Origin::Sent(at) => sent(at),
            Origin::Compound(at) => match sent(at) {
                Seen::Integer(number) => {
                    Seen::Integer(number.wrapping_add(i64::from(part.group) << 24))
                }
                other => other,
            },
        }
    }

    /// Whether rows may have different values in this column.
    pub fn is_sent(&self, column: usize) -> bool {
        matches!(self.origins.get(column), Some(Origin::Sent(_) | Origin::Compound(_)))
    }

    /// The index of a column, if there is one already.
    pub fn known_index(&self, column: usize) -> Option<Arc<Index>> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner).get(&column).cloned()
    }

    pub fn index(&self, column: usize) -> Arc<Index> {
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(indexes.entry(column).or_insert_with(|| Arc::new(self.sorted(column))))
    }

    fn sorted(&self, column: usize) -> Index {
        let rows = || 0..u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        let value = |row: u32| self.value(row as usize, column);
        let integers: Option<Vec<(i64, u32)>> =
            rows()
                .filter(|row| value(*row) != Seen::Null)
                .map(|row| {
                    if let Seen::Integer(number) = value(row) { Some((number, row)) } else { None }
                })
                .collect();
        if let Some(mut order) = integers {
            order.sort_unstable();
            let distinct = order.chunk_by(|a, b| a.0 == b.0).count();
            return Index { order: Order::Integers(order), distinct };
        }
        let mut order: Vec<u32> = rows().filter(|row| value(*row) != Seen::Null).collect();
        order.sort_by(|a, b| compare(value(*a), value(*b)));
        let distinct = order.chunk_by(|a, b| compare(value(*a), value(*b)).is_eq()).count();
        Index { order: Order::Any(order), distinct }
    }

    /// The positions in `index`, which is that of `column`, of rows with this value. `None` if
    /// SQLite has to compare the values itself, because it may treat values of different types as
    /// equal.
    pub fn find(&self, index: &Index, column: usize, wanted: Seen<'_>) -> Option<Range<usize>> {
        if wanted == Seen::Null {
            return Some(0..0);
        }
        match (&index.order, wanted) {
            (Order::Integers(rows), Seen::Integer(wanted)) => {
                let start = rows.partition_point(|(value, _)| *value < wanted);
                let same = rows.get(start..).unwrap_or_default();
                Some(start..start + same.partition_point(|(value, _)| *value == wanted))
            }
            (Order::Any(rows), Seen::Text(_)) => {
                // Text is certainly compared as text only if the column has no numbers.
                let first = rows.first().map(|row| self.value(*row as usize, column));
                if !matches!(first, Some(Seen::Text(_))) {
                    return None;
                }
                let side = |row: &u32| compare(self.value(*row as usize, column), wanted);
                let start = rows.partition_point(|row| side(row).is_lt());
                let same = rows.get(start..).unwrap_or_default();
                Some(start..start + same.partition_point(|row| side(row).is_eq()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetched(rows: &[(u32, Vec<Value>)]) -> Fetched {
        let origins = vec![Origin::Sent(1), Origin::Group, Origin::Compound(0), Origin::Nothing];
        let mut fetched = Fetched::new(2, origins);
        rows.iter().for_each(|(group, row)| fetched.add_row(*group, row));
        fetched
    }

    #[test]
    fn columns_come_from_where_they_are_said_to() {
        let rows = [
            (1, vec![Value::Integer(7), Value::Text("a".into())]),
            (2, vec![Value::Null, Value::Real(0.5)]),
        ];
        let fetched = fetched(&rows);
        let row =
            |row| (0..4).map(|column| fetched.value(row, column).to_value()).collect::<Vec<_>>();
        let text = Value::Text("a".into());
        assert_eq!(row(0), [text, Value::Integer(1), Value::Integer((1 << 24) + 7), Value::Null]);
        assert_eq!(row(1), [Value::Real(0.5), Value::Integer(2), Value::Null, Value::Null]);
    }

    #[test]
    fn parts_that_make_no_sense_are_refused() {
        let mut fetched = Fetched::new(1, vec![Origin::Sent(0)]);
        let mut bytes = Vec::new();
        encode_row(&[Value::Integer(1)], &mut bytes);
        assert!(fetched.add(1, 2, bytes.clone()).is_none());
        assert!(Fetched::new(2, Vec::new()).add(1, 1, bytes.clone()).is_none());
        assert!(Fetched::new(1, Vec::new()).add(1, 1, bytes).is_some());
    }

    /// A lookup by index finds the same rows as a scan.
    #[test]
    fn indexes_find_all() {
        let text = |text: &str| Value::Text(text.into());
        for values in [
            vec![Value::Integer(5), Value::Integer(-1), Value::Null, Value::Integer(5)],
            vec![text("b"), text("a"), text("b"), Value::Null],
            vec![text("b"), Value::Integer(5), Value::Real(5.0), Value::Integer(5)],
        ] {
            let rows: Vec<_> =
                values.iter().map(|value| (1, vec![Value::Null, value.clone()])).collect();
            let fetched = fetched(&rows);
            let index = fetched.index(0);
            for wanted in &values {
                let Some(found) = fetched.find(&index, 0, wanted.into()) else {
                    assert!(values.contains(&Value::Real(5.0)), "only a mixture is left to SQLite");
                    continue;
                };
                let mut found: Vec<usize> = found.map(|at| index.row(at)).collect();
                found.sort_unstable();
                let looked =
                    (0..values.len()).filter(|at| values[*at] == *wanted && *wanted != Value::Null);
                assert_eq!(found, looked.collect::<Vec<_>>(), "{wanted:?} in {values:?}");
            }
        }
    }
}
