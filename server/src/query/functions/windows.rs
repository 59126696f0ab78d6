//! Aggregates of DISTINCT values in windows, which SQLite lacks.

use super::{
    FLAGS, Functions, Result, compare,
    decimals::{Sum, Total},
    number, refused,
};
use rusqlite::{
    functions::{Aggregate, Context, WindowAggregate},
    types::Value,
};
use std::{cmp::Ordering, collections::BTreeMap};

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
    Ok(())
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
