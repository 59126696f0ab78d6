//! The figures that are compared, how each is taken, and how it is written.

use super::gather::Gathered;
use crate::{buckets::Buckets, draw::units};

/// A figure that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Is {
    Exact,
    /// The upper border of the bucket that holds it.
    AtMost,
    /// The lower border of the last bucket, which is open.
    Above,
    /// From the middles of buckets.
    About,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// In the measure's unit: nanoseconds for latencies.
    pub value: f64,
    pub is: Is,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Requests a second.
    Rate,
    /// MiB a second.
    Bytes,
    Mean,
    P50,
    P99,
    P999,
    Max,
    /// The standard deviation of the latencies.
    Deviation,
    /// How ragged the time line is, in per cent: the coefficient of variation (standard deviation
    /// by mean) of the rate of the intervals, plus that of their mean latencies. 0 is a straight
    /// line.
    Raggedness,
}

impl Measure {
    pub const ALL: [Self; 9] = [
        Self::Rate,
        Self::Bytes,
        Self::Mean,
        Self::P50,
        Self::P99,
        Self::P999,
        Self::Max,
        Self::Deviation,
        Self::Raggedness,
    ];

    /// The head of a column.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Rate => "requests/s",
            Self::Bytes => "MiB/s",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Max => "max",
            Self::Deviation => "deviation",
            Self::Raggedness => "raggedness",
        }
    }

    /// In a sentence.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Bytes => "throughput",
            Self::Mean => "mean latency",
            _ => self.title(),
        }
    }

    /// The key in JSON, with its unit.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Rate => "requests_per_second",
            Self::Bytes => "mib_per_second",
            Self::Mean => "mean_ns",
            Self::P50 => "p50_ns",
            Self::P99 => "p99_ns",
            Self::P999 => "p99.9_ns",
            Self::Max => "max_ns",
            Self::Deviation => "deviation_ns",
            Self::Raggedness => "raggedness_percent",
        }
    }

    /// A figure as tables have it.
    #[must_use]
    pub fn shown(self, figure: Figure) -> String {
        let text = match self {
            Self::Rate | Self::Bytes => units::amount(figure.value),
            Self::Raggedness => format!("{:.1} %", figure.value),
            _ => units::latency(figure.value),
        };
        match figure.is {
            Is::Exact => text,
            Is::AtMost => format!("≤ {text}"),
            Is::Above => format!("> {text}"),
            Is::About => format!("~ {text}"),
        }
    }

    pub(super) fn of(self, class: &Gathered, seconds: f64) -> Option<Figure> {
        let exact = |value: f64| Figure { value, is: Is::Exact };
        let per_second = |amount: u64| {
            let is_known = amount > 0 && seconds > 0.0;
            is_known.then(|| exact(amount as f64 / seconds))
        };
        let latency = &class.latency;
        let estimate = if latency.is_exact() { Is::Exact } else { Is::About };
        let figure = match self {
            Self::Rate => per_second(class.requests),
            Self::Bytes => {
                per_second(class.bytes).map(|figure| exact(figure.value / f64::from(1 << 20)))
            }
            Self::Mean => class.mean.map(|value| Figure {
                value,
                is: if class.is_mean_exact { Is::Exact } else { Is::About },
            }),
            Self::P50 => percentile(latency, 0.5),
            Self::P99 => percentile(latency, 0.99),
            Self::P999 => percentile(latency, 0.999),
            Self::Max => match latency.moments {
                Some(moments) => Some(exact(moments.max as f64)),
                None => percentile(latency, 1.0),
            },
            Self::Deviation => latency.deviation().map(|value| Figure { value, is: estimate }),
            Self::Raggedness => raggedness(class).map(exact),
        };
        figure.filter(|figure| figure.value.is_finite())
    }
}

impl Figure {
    /// In per cent. None if one of the two is an open end.
    #[must_use]
    pub fn change_against(self, first: Self) -> Option<f64> {
        let is_known = self.is != Is::Above && first.is != Is::Above && first.value > 0.0;
        let change = (self.value / first.value - 1.0) * 100.0;
        (is_known && change.is_finite()).then_some(change)
    }
}

/// Of a share of 0 to 1.
pub(super) fn percentile(latency: &Buckets, share: f64) -> Option<Figure> {
    let value = latency.percentile(share)?;
    if latency.is_exact() {
        return Some(Figure { value: value as f64, is: Is::Exact });
    }
    let counts = latency.counts();
    let last = counts.last()?.0;
    if latency.is_open && value >= last {
        let below = counts.len().checked_sub(2).and_then(|index| counts.get(index));
        return Some(Figure { value: below.map_or(0, |pair| pair.0) as f64, is: Is::Above });
    }
    Some(Figure { value: value as f64, is: Is::AtMost })
}

fn raggedness(class: &Gathered) -> Option<f64> {
    let mut line = class.line.as_slice();
    let usual = line.get(line.len() / 2)?.length;
    // The last interval is often cut short.
    if line.last().is_some_and(|point| point.length < usual * 0.9) {
        line = &line[..line.len() - 1];
    }
    let rates: Vec<f64> = line.iter().map(|point| point.requests as f64 / point.length).collect();
    let means: Vec<f64> =
        line.iter().filter(|point| point.requests > 0).map(|point| point.mean).collect();
    if rates.len() < 3 {
        return None;
    }
    Some((variation(&rates)? + variation(&means).unwrap_or(0.0)) * 100.0)
}

/// Standard deviation by mean. None if the mean is 0.
fn variation(values: &[f64]) -> Option<f64> {
    let (mean, deviation) = mean_and_deviation(values)?;
    (mean > 0.0).then(|| deviation / mean)
}

pub(super) fn mean_and_deviation(values: &[f64]) -> Option<(f64, f64)> {
    if values.is_empty() {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    Some((mean, (squares / count).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Point;

    fn class(rates: &[u64], mean: f64) -> Gathered {
        let point = |(index, requests): (usize, &u64)| Point {
            at: index as f64,
            length: 1.0,
            requests: *requests,
            bytes: 0,
            mean,
            deviation: 0.0,
            p99: mean,
            max: mean,
        };
        Gathered { line: rates.iter().enumerate().map(point).collect(), ..Gathered::default() }
    }

    #[test]
    fn a_straight_line_is_not_ragged_and_a_line_between_half_and_three_halves_is_by_50_per_cent() {
        assert_eq!(raggedness(&class(&[100, 100, 100], 1.0)), Some(0.0));
        assert_eq!(raggedness(&class(&[50, 150, 50, 150], 1.0)), Some(50.0));
        assert_eq!(raggedness(&class(&[100, 100], 1.0)), None);
        assert_eq!(raggedness(&class(&[0, 0, 0], 1.0)), None);
    }

    #[test]
    fn a_percentile_in_the_open_end_is_above_the_border_before_it() {
        let mut buckets = Buckets::new([(1_000, 98), (2_000, 1), (u64::MAX, 1)]);
        buckets.is_open = true;
        assert_eq!(percentile(&buckets, 0.5).map(|f| f.is), Some(Is::AtMost));
        assert_eq!(percentile(&buckets, 1.0), Some(Figure { value: 2_000.0, is: Is::Above }));
        let first = Figure { value: 1.0, is: Is::Exact };
        assert_eq!(Figure { value: 2.0, is: Is::Above }.change_against(first), None);
    }
}
