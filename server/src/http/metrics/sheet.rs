//! The writer of metrics: families of samples, over the library's encoder.
//!
//! Label values are escaped by the library. A histogram has the bounds of the views between
//! [`FIRST_BOUND`] and [`LAST_BOUND`]: those below are counted in the first bucket, those above in
//! the last. So each histogram is the same number of series, whatever happened.

use plinth_engine::views::figures::Latencies;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text},
    metrics::MetricType,
    registry::{Registry, Unit},
};
use std::{borrow::Cow, fmt};

/// The bounds of a histogram's buckets, as powers of two of microseconds: 32 microseconds, below
/// which only memory is, and 8.4 seconds, by when a disk is overdue.
const FIRST_BOUND: usize = 5;
const LAST_BOUND: usize = 23;

/// The labels of a sample.
pub(super) type Labels<'a> = Vec<(&'static str, Cow<'a, str>)>;

type Result = std::result::Result<(), fmt::Error>;

/// The text that is written.
pub(super) struct Sheet<'a>(DescriptorEncoder<'a>);

/// Writes what `write` puts on a sheet.
pub(super) fn write(
    write: impl Fn(&mut Sheet<'_>) -> Result + Send + Sync + 'static,
) -> std::result::Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Written(write)));
    let mut written = String::new();
    text::encode(&mut written, &registry)?;
    Ok(written)
}

struct Written<F>(F);

impl<F> fmt::Debug for Written<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Written")
    }
}

impl<F: Fn(&mut Sheet<'_>) -> Result + Send + Sync + 'static> Collector for Written<F> {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result {
        (self.0)(&mut Sheet(encoder))
    }
}

/// Microseconds as seconds, for a bound.
fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// The buckets of a histogram: the bound, and the count that is its own.
fn buckets(latencies: &Latencies) -> Vec<(f64, u64)> {
    let count = |index: usize| latencies.counts.get(index).copied().unwrap_or(0);
    let below = (0..=FIRST_BOUND).map(count).sum();
    let between = (FIRST_BOUND + 1..=LAST_BOUND).map(|index| (seconds(1 << index), count(index)));
    let above = (LAST_BOUND + 1..latencies.counts.len()).map(count).sum();
    let first = std::iter::once((seconds(1 << FIRST_BOUND), below));
    first.chain(between).chain([(f64::INFINITY, above)]).collect()
}

impl Sheet<'_> {
    fn family<'s>(
        &'s mut self,
        name: &'s str,
        unit: Option<&'s Unit>,
        help: &str,
        kind: MetricType,
    ) -> std::result::Result<MetricEncoder<'s>, fmt::Error> {
        self.0.encode_descriptor(name, help, unit, kind)
    }

    /// Numbers that only grow; `_total` is added to the name.
    pub fn counter<'l>(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'l>, u64)>,
    ) -> Result {
        let mut family = self.family(name, unit, help, MetricType::Counter)?;
        samples.into_iter().try_for_each(|(labels, value)| match labels.is_empty() {
            true => family.encode_counter::<NoLabelSet, _, u64>(&value, None),
            false => {
                family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
            }
        })
    }

    /// Numbers that rise and fall.
    pub fn gauge<'l>(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'l>, f64)>,
    ) -> Result {
        let mut family = self.family(name, unit, help, MetricType::Gauge)?;
        samples.into_iter().try_for_each(|(labels, value)| match labels.is_empty() {
            true => family.encode_gauge(&value),
            false => family.encode_family(&labels)?.encode_gauge(&value),
        })
    }

    /// Facts in words; `_info` is added to the name.
    pub fn info<'l>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = Labels<'l>>,
    ) -> Result {
        let mut family = self.family(name, None, help, MetricType::Info)?;
        samples.into_iter().try_for_each(|labels| family.encode_info(&labels))
    }

    /// Latencies, in seconds.
    pub fn histogram<'l>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'l>, Latencies)>,
    ) -> Result {
        let mut family = self.family(name, Some(&Unit::Seconds), help, MetricType::Histogram)?;
        samples.into_iter().try_for_each(|(labels, latencies)| {
            let count = latencies.counts.iter().sum();
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                latencies.nanos as f64 / 1e9,
                count,
                &buckets(&latencies),
                None,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_is_in_one_bucket() {
        let counts: Vec<u64> = (0..33).map(|index| 1 << index).collect();
        let all: u64 = counts.iter().sum();
        let found = buckets(&Latencies { counts, nanos: 0 });
        assert_eq!(found.len(), LAST_BOUND - FIRST_BOUND + 2);
        assert_eq!(found.iter().map(|(_, count)| count).sum::<u64>(), all);
        assert_eq!(found.first(), Some(&(0.000_032, 0b11_1111)));
        assert_eq!(found.get(1), Some(&(0.000_064, 1 << 6)));
        assert!(found.last().is_some_and(|(bound, _)| bound.is_infinite()));
        assert_eq!(buckets(&Latencies::default()).len(), found.len());
    }
}
