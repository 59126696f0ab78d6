//! Window functions that SQLite lacks: aggregates of DISTINCT values, and those that ignore NULLs.

use super::{
    FLAGS, Functions, Result, compare,
    decimals::{Sum, Total},
    number, refused, whole,
};
use rusqlite::{
    functions::{Aggregate, Context, WindowAggregate},
    types::Value,
};
use std::{
    cmp::Ordering,
    collections::{BTreeMap, VecDeque},
};

/// Most values that one window keeps.
const VALUES_MAX: usize = 10_000_000;

pub(super) fn create(functions: &Functions<'_>) -> Result<()> {
    let connection = functions.connection;
    for (name, distinct) in [
        ("plinth_distinct_count", Distinct::Count),
        ("plinth_distinct_sum", Distinct::Total(Sum { is_average: false })),
        ("plinth_distinct_avg", Distinct::Total(Sum { is_average: true })),
    ] {
        connection.create_window_function(name, 1, FLAGS, distinct)?;
    }
    connection.create_window_function("plinth_first", 2, FLAGS, Known::First)?;
    connection.create_window_function("plinth_last", 2, FLAGS, Known::Last)
}

/// A value in order.
struct Ordered(Value);

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0)
    }
}

/// `COUNT(DISTINCT x) OVER (...)`, and SUM and AVG.
#[derive(Clone, Copy)]
enum Distinct {
    Count,
    Total(Sum),
}

#[derive(Default)]
struct Seen {
    /// How many times each value is in the window.
    times: BTreeMap<Ordered, usize>,
    total: Total,
}

impl Distinct {
    fn result(self, seen: Option<&Seen>) -> Result<Value> {
        match self {
            Self::Count => {
                let count = seen.map_or(0, |seen| seen.times.len());
                Ok(Value::Integer(i64::try_from(count).unwrap_or(i64::MAX)))
            }
            Self::Total(sum) => sum.result(seen.map(|seen| &seen.total)),
        }
    }

    /// Counts a value that enters the window, or leaves it.
    fn count(self, context: &Context<'_>, seen: &mut Seen, enters: bool) -> Result<()> {
        let of: Value = context.get(0)?;
        if of == Value::Null {
            return Ok(());
        }
        let term = match self {
            Self::Count => None,
            Self::Total(_) => number(context, 0)?,
        };
        let is_changed = if enters {
            if seen.times.len() == VALUES_MAX {
                return Err(refused(format!("more than {VALUES_MAX} DISTINCT values")));
            }
            let times = seen.times.entry(Ordered(of)).or_default();
            *times += 1;
            *times == 1
        } else {
            let of = Ordered(of);
            let times = seen.times.get_mut(&of);
            let left = times.map(|times| {
                *times -= 1;
                *times
            });
            if left == Some(0) {
                seen.times.remove(&of);
            }
            left == Some(0)
        };
        if let Some(term) = term.filter(|_| is_changed) {
            seen.total.add(term, if enters { 1 } else { -1 });
        }
        Ok(())
    }
}

impl Aggregate<Seen, Value> for Distinct {
    fn init(&self, _: &mut Context<'_>) -> Result<Seen> {
        Ok(Seen::default())
    }

    fn step(&self, context: &mut Context<'_>, seen: &mut Seen) -> Result<()> {
        self.count(context, seen, true)
    }

    fn finalize(&self, _: &mut Context<'_>, seen: Option<Seen>) -> Result<Value> {
        self.result(seen.as_ref())
    }
}

impl WindowAggregate<Seen, Value> for Distinct {
    fn value(&self, seen: Option<&mut Seen>) -> Result<Value> {
        self.result(seen.as_deref())
    }

    fn inverse(&self, context: &mut Context<'_>, seen: &mut Seen) -> Result<()> {
        self.count(context, seen, false)
    }
}

/// The value at a place among those that are not NULL, counted from the first or the last row of
/// the window: `plinth_last(x, 1)`.
#[derive(Clone, Copy)]
enum Known {
    First,
    Last,
}

#[derive(Default)]
struct Row {
    values: VecDeque<Value>,
    place: usize,
}

impl Known {
    fn result(self, row: Option<&Row>) -> Value {
        let at = row.and_then(|row| {
            let at = match self {
                Self::First => row.place.checked_sub(1)?,
                Self::Last => row.values.len().checked_sub(row.place)?,
            };
            row.values.get(at)
        });
        at.cloned().unwrap_or(Value::Null)
    }
}

impl Aggregate<Row, Value> for Known {
    fn init(&self, _: &mut Context<'_>) -> Result<Row> {
        Ok(Row::default())
    }

    fn step(&self, context: &mut Context<'_>, row: &mut Row) -> Result<()> {
        let place = whole(context, 1)?.and_then(|place| usize::try_from(place).ok());
        row.place = place.ok_or_else(|| refused("a place among rows is a number from 1"))?;
        let of: Value = context.get(0)?;
        if of != Value::Null {
            if row.values.len() == VALUES_MAX {
                return Err(refused(format!("more than {VALUES_MAX} rows with IGNORE NULLS")));
            }
            row.values.push_back(of);
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, row: Option<Row>) -> Result<Value> {
        Ok(self.result(row.as_ref()))
    }
}

impl WindowAggregate<Row, Value> for Known {
    fn value(&self, row: Option<&mut Row>) -> Result<Value> {
        Ok(self.result(row.as_deref()))
    }

    fn inverse(&self, context: &mut Context<'_>, row: &mut Row) -> Result<()> {
        if context.get::<Value>(0)? != Value::Null {
            row.values.pop_front();
        }
        Ok(())
    }
}
