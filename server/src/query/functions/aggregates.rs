//! Aggregates that SQLite lacks: of order (MEDIAN, PERCENTILE_CONT), of spread (STDDEV, VARIANCE),
//! KEEP, lists of different values, and values of a window without its NULLs.

use super::{
    FLAGS, Functions, Result, as_real, compare,
    decimals::{Operator, computed},
    number,
    numbers::Number,
    real, refused, simplest, text, value, whole,
};
use rusqlite::{
    functions::{Aggregate, Context, WindowAggregate},
    types::Value,
};
use std::{
    cmp::Ordering,
    collections::{HashSet, VecDeque},
};

/// Most values that one aggregate keeps.
const VALUES_MAX: usize = 10_000_000;

pub(super) fn create(functions: &Functions<'_>) -> Result<()> {
    let connection = functions.connection;
    connection.create_window_function("median", 1, FLAGS, Percentile::Median)?;
    connection.create_window_function("plinth_cont", 2, FLAGS, Percentile::Continuous)?;
    connection.create_window_function("plinth_disc", 2, FLAGS, Percentile::Discrete)?;
    let sample = Spread { of_sample: true, is_root: true, one_is_zero: false };
    for (name, spread) in [
        ("stddev", Spread { one_is_zero: true, ..sample }),
        ("stddev_samp", sample),
        ("stddev_pop", Spread { of_sample: false, ..sample }),
        ("variance", Spread { is_root: false, one_is_zero: true, ..sample }),
        ("var_samp", Spread { is_root: false, ..sample }),
        ("var_pop", Spread { is_root: false, of_sample: false, ..sample }),
    ] {
        connection.create_window_function(name, 1, FLAGS, spread)?;
    }
    connection.create_window_function("plinth_keep", -1, FLAGS, Keep)?;
    connection.create_window_function("plinth_list", 2, FLAGS, DistinctList)?;
    connection.create_window_function("plinth_nth", 4, FLAGS, Nth)
}

/// MEDIAN and the percentiles: `plinth_cont(x, fraction)`.
#[derive(Clone, Copy)]
enum Percentile {
    Median,
    Continuous,
    Discrete,
}

#[derive(Default)]
struct Values {
    all: Vec<Number>,
    fraction: f64,
    /// Of these values, for the other rows of the window.
    result: Option<Value>,
}

impl Aggregate<Values, Value> for Percentile {
    fn init(&self, _: &mut Context<'_>) -> Result<Values> {
        Ok(Values { fraction: 0.5, ..Values::default() })
    }

    fn step(&self, context: &mut Context<'_>, values: &mut Values) -> Result<()> {
        if !matches!(self, Self::Median) {
            let fraction = real(context, 1)?.filter(|fraction| (0.0..=1.0).contains(fraction));
            values.fraction =
                fraction.ok_or_else(|| refused("a percentile is a number from 0 to 1"))?;
        }
        if values.all.len() == VALUES_MAX {
            return Err(refused(format!("a percentile of more than {VALUES_MAX} values")));
        }
        values.all.extend(number(context, 0)?);
        values.result = None;
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, values: Option<Values>) -> Result<Value> {
        values.map_or(Ok(Value::Null), |mut values| self.result(&mut values.all, values.fraction))
    }
}

impl WindowAggregate<Values, Value> for Percentile {
    fn value(&self, values: Option<&mut Values>) -> Result<Value> {
        let Some(values) = values else { return Ok(Value::Null) };
        if let Some(result) = &values.result {
            return Ok(result.clone());
        }
        let result = self.result(&mut values.all, values.fraction)?;
        values.result = Some(result.clone());
        Ok(result)
    }

    fn inverse(&self, context: &mut Context<'_>, values: &mut Values) -> Result<()> {
        if let Some(gone) = number(context, 0)?
            && let Some(at) = values.all.iter().position(|one| as_real(*one) == as_real(gone))
        {
            values.all.remove(at);
            values.result = None;
        }
        Ok(())
    }
}

impl Percentile {
    fn result(self, all: &mut [Number], fraction: f64) -> Result<Value> {
        let Some(last) = all.len().checked_sub(1) else { return Ok(Value::Null) };
        all.sort_by(|a, b| as_real(*a).total_cmp(&as_real(*b)));
        let at = |place: f64| all.get((place as usize).min(last)).copied();
        let (low, high, between) = match self {
            Self::Discrete => {
                let place = ((fraction * all.len() as f64).ceil() - 1.0).max(0.0);
                (at(place), at(place), 0.0)
            }
            _ => {
                let place = fraction * last as f64;
                (at(place.floor()), at(place.ceil()), place.fract())
            }
        };
        let (Some(low), Some(high)) = (low, high) else { return Ok(Value::Null) };
        let step = computed(high, Operator::Minus, low)?;
        let step = computed(step, Operator::Times, Number::Real(between))?;
        computed(low, Operator::Plus, step).map(value)
    }
}

/// The spread of numbers, by the sums of the numbers and of their squares around the first one.
#[derive(Clone, Copy)]
struct Spread {
    /// Divided by one less than the count.
    of_sample: bool,
    is_root: bool,
    /// Of a single number it is 0, and not NULL.
    one_is_zero: bool,
}

#[derive(Clone, Copy, Default)]
struct Moments {
    /// Subtracted from each number, so that the sums stay small.
    origin: Option<f64>,
    count: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, number: f64, sign: f64) {
        let distance = number - *self.origin.get_or_insert(number);
        self.count += sign;
        self.sum += sign * distance;
        self.squares += sign * distance * distance;
    }
}

impl Spread {
    fn result(self, moments: Option<&Moments>) -> Value {
        let Some(Moments { count, sum, squares, .. }) = moments.filter(|all| all.count > 0.0)
        else {
            return Value::Null;
        };
        let divisor = if self.of_sample { count - 1.0 } else { *count };
        if divisor < 0.5 {
            return if self.one_is_zero { Value::Integer(0) } else { Value::Null };
        }
        let variance = ((squares - sum * sum / count) / divisor).max(0.0);
        simplest(super::clean(if self.is_root { variance.sqrt() } else { variance }))
    }
}

impl Aggregate<Moments, Value> for Spread {
    fn init(&self, _: &mut Context<'_>) -> Result<Moments> {
        Ok(Moments::default())
    }

    fn step(&self, context: &mut Context<'_>, moments: &mut Moments) -> Result<()> {
        if let Some(number) = real(context, 0)? {
            moments.add(number, 1.0);
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, moments: Option<Moments>) -> Result<Value> {
        Ok(self.result(moments.as_ref()))
    }
}

impl WindowAggregate<Moments, Value> for Spread {
    fn value(&self, moments: Option<&mut Moments>) -> Result<Value> {
        Ok(self.result(moments.as_deref()))
    }

    fn inverse(&self, context: &mut Context<'_>, moments: &mut Moments) -> Result<()> {
        if let Some(number) = real(context, 0)? {
            moments.add(number, -1.0);
        }
        Ok(())
    }
}

/// `plinth_keep(x, 'MAX', 'FIRST', y, 'A', z, 'D')` is `MAX(x) KEEP (DENSE_RANK FIRST ORDER BY y, z
/// DESC)`. Behind each key is its direction, and `F` or `L` where NULLs do not stand as usual.
struct Keep;

#[derive(Default)]
struct Kept {
    /// The keys of the first or last row so far.
    order: Option<Vec<Value>>,
    result: Option<Value>,
    count: i64,
    /// The aggregate.
    name: String,
}

/// The order of two values of a key with this direction.
fn by_direction(a: &Value, b: &Value, direction: &str) -> Ordering {
    let descends = direction.starts_with('D');
    let nulls_first = match direction.get(1..) {
        Some("F") => true,
        Some("L") => false,
        _ => descends,
    };
    let of_null = if nulls_first { Ordering::Less } else { Ordering::Greater };
    match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => of_null,
        (_, Value::Null) => of_null.reverse(),
        _ if descends => compare(b, a),
        _ => compare(a, b),
    }
}

impl Aggregate<Kept, Value> for Keep {
    fn init(&self, _: &mut Context<'_>) -> Result<Kept> {
        Ok(Kept::default())
    }

    fn step(&self, context: &mut Context<'_>, kept: &mut Kept) -> Result<()> {
        let (of, name): (Value, _) = (context.get(0)?, text(context, 1));
        let is_last = text(context, 2).as_deref() == Some("LAST");
        let (mut order, mut found) = (Vec::new(), Ordering::Equal);
        for at in (3..context.len()).step_by(2) {
            let key: Value = context.get(at)?;
            let direction = text(context, at + 1).unwrap_or_default();
            let known = kept.order.as_ref().and_then(|order| order.get((at - 3) / 2));
            if let (Ordering::Equal, Some(known)) = (found, known) {
                found = by_direction(&key, known, &direction);
            }
            order.push(key);
        }
        match found {
            _ if kept.order.is_none() => kept.order = Some(order),
            Ordering::Equal => {}
            Ordering::Less if is_last => return Ok(()),
            Ordering::Greater if !is_last => return Ok(()),
            _ => *kept = Kept { order: Some(order), ..Kept::default() },
        }
        kept.name = name.clone().unwrap_or_default();
        if of == Value::Null {
            return Ok(());
        }
        kept.count += 1;
        let result = match (kept.result.take(), name.as_deref()) {
            (None, _) => of,
            (Some(known), Some("MAX")) if compare(&of, &known) == Ordering::Greater => of,
            (Some(known), Some("MIN")) if compare(&of, &known) == Ordering::Less => of,
            (Some(known), Some("SUM" | "AVG")) => match (as_number(&known), as_number(&of)) {
                (Some(a), Some(b)) => value(computed(a, Operator::Plus, b)?),
                _ => return Err(refused("a sum of what is no number")),
            },
            (Some(known), _) => known,
        };
        kept.result = Some(result);
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, kept: Option<Kept>) -> Result<Value> {
        kept_value(kept.as_ref())
    }
}

impl WindowAggregate<Kept, Value> for Keep {
    fn value(&self, kept: Option<&mut Kept>) -> Result<Value> {
        kept_value(kept.as_deref())
    }

    fn inverse(&self, _: &mut Context<'_>, _: &mut Kept) -> Result<()> {
        Err(refused("KEEP is over whole partitions: OVER (PARTITION BY ...)"))
    }
}

fn kept_value(kept: Option<&Kept>) -> Result<Value> {
    let Some(Kept { result, count, name, .. }) = kept else { return Ok(Value::Null) };
    match (name.as_str(), result) {
        ("COUNT", _) => Ok(Value::Integer(*count)),
        ("AVG", Some(sum)) => match as_number(sum) {
            Some(sum) => computed(sum, Operator::Over, Number::Whole(*count)).map(value),
            None => Ok(Value::Null),
        },
        (_, result) => Ok(result.clone().unwrap_or(Value::Null)),
    }
}

/// `plinth_list(x, between)`: the different values in their order, joined.
struct DistinctList;

#[derive(Default)]
struct List {
    seen: HashSet<String>,
    joined: Option<String>,
}

impl Aggregate<List, Value> for DistinctList {
    fn init(&self, _: &mut Context<'_>) -> Result<List> {
        Ok(List::default())
    }

    fn step(&self, context: &mut Context<'_>, list: &mut List) -> Result<()> {
        let Some(next) = text(context, 0) else { return Ok(()) };
        if !list.seen.insert(next.clone()) {
            return Ok(());
        }
        match &mut list.joined {
            None => list.joined = Some(next),
            Some(joined) => {
                joined.push_str(&text(context, 1).unwrap_or_default());
                joined.push_str(&next);
            }
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, list: Option<List>) -> Result<Value> {
        Ok(list.and_then(|list| list.joined).map_or(Value::Null, Value::Text))
    }
}

impl WindowAggregate<List, Value> for DistinctList {
    fn value(&self, list: Option<&mut List>) -> Result<Value> {
        Ok(list.and_then(|list| list.joined.clone()).map_or(Value::Null, Value::Text))
    }

    fn inverse(&self, _: &mut Context<'_>, _: &mut List) -> Result<()> {
        Err(refused("a list of different values is over whole partitions"))
    }
}

/// `plinth_nth(x, n, from_last, ignores_nulls)`: the nth value of a window, from its first or its
/// last one, with NULLs or without.
struct Nth;

#[derive(Default)]
struct Window {
    /// Without NULLs, if those are ignored.
    values: VecDeque<Value>,
    number: usize,
    from_last: bool,
    ignores: bool,
}

impl Window {
    fn chosen(&self) -> Value {
        let at = if self.from_last {
            self.values.len().checked_sub(self.number)
        } else {
            self.number.checked_sub(1)
        };
        at.and_then(|at| self.values.get(at)).cloned().unwrap_or(Value::Null)
    }
}

impl Aggregate<Window, Value> for Nth {
    fn init(&self, _: &mut Context<'_>) -> Result<Window> {
        Ok(Window::default())
    }

    fn step(&self, context: &mut Context<'_>, window: &mut Window) -> Result<()> {
        let number = whole(context, 1)?.and_then(|number| usize::try_from(number).ok());
        window.number = number
            .filter(|number| *number > 0)
            .ok_or_else(|| refused("the values of a window are counted from 1"))?;
        window.from_last = whole(context, 2)? == Some(1);
        window.ignores = whole(context, 3)? == Some(1);
        if window.values.len() == VALUES_MAX {
            return Err(refused(format!("a window of more than {VALUES_MAX} values")));
        }
        let value: Value = context.get(0)?;
        if !window.ignores || value != Value::Null {
            window.values.push_back(value);
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, window: Option<Window>) -> Result<Value> {
        Ok(window.map_or(Value::Null, |window| window.chosen()))
    }
}

impl WindowAggregate<Window, Value> for Nth {
    fn value(&self, window: Option<&mut Window>) -> Result<Value> {
        Ok(window.map_or(Value::Null, |window| window.chosen()))
    }

    fn inverse(&self, context: &mut Context<'_>, window: &mut Window) -> Result<()> {
        if !window.ignores || context.get::<Value>(0)? != Value::Null {
            window.values.pop_front();
        }
        Ok(())
    }
}

fn as_number(value: &Value) -> Option<Number> {
    match value {
        Value::Integer(whole) => Some(Number::Whole(*whole)),
        Value::Real(real) => Some(Number::Real(*real)),
        _ => None,
    }
}
