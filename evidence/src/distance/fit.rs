//! Overhead, slope and round trips that fit what was measured best.
//!
//! Least squares of the medians, local and remote targets together:
//!
//! ```text
//!   t = overhead + slope * size + n * RTT
//! ```
//!
//! A local target has RTT 0 and so says what overhead and slope are; by how much a remote one takes
//! longer is n round trips.
//!
//! An interval is that in which 95 % of the fits lie when as many rounds are drawn from the
//! measured ones again and again (bootstrap). A round has writes of all targets and all sizes, so
//! what disturbed all of them for a while is in the interval. Points that were only given have the
//! interval that their rounding leaves.

use super::{Target, quantile};
use plinth_workload::random::Random;

/// How often rounds are drawn again, and the fewest rounds for it.
const DRAWS: usize = 400;
const ROUNDS_MIN: usize = 5;

/// A number and the interval in which it lies with 95 % confidence, where that is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub value: f64,
    pub interval: Option<(f64, f64)>,
}

/// See above.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Nanoseconds.
    pub overhead: Estimate,
    /// Nanoseconds a byte.
    pub slope: Estimate,
    /// None without a remote target.
    pub round_trips: Option<Estimate>,
    /// Root of the mean square of what the fit leaves, in nanoseconds.
    pub residual: f64,
    /// The largest of it, in nanoseconds, and the target and the size that has it.
    pub residual_max: (f64, String, u64),
}

impl Fit {
    /// Nanoseconds of a write of `size` bytes at no distance.
    #[must_use]
    pub fn at(&self, size: u64) -> f64 {
        self.overhead.value + self.slope.value * size as f64
    }
}

/// A time to fit: size, RTT, time.
#[derive(Debug, Clone, Copy)]
struct Row {
    size: f64,
    rtt: f64,
    time: f64,
}

/// Fits local and remote targets together.
///
/// # Errors
/// In one sentence: what has to be measured beside.
pub fn fit(targets: &[&Target]) -> Result<Fit, String> {
    let rows = rows(targets, |cell| {
        if cell.rounds.is_empty() { cell.median } else { median(cell.rounds.clone()) }
    });
    let found = solve(&rows).ok_or(
        "the sizes are too few to tell overhead from slope: measure two at least, better four",
    )?;
    let [overhead, slope, trips] = found;
    let names = targets
        .iter()
        .flat_map(|target| target.cells.iter().map(|cell| (target.name.clone(), cell.size)));
    let left = |row: &Row| row.time - (overhead + slope * row.size + trips * row.rtt);
    let residual =
        (rows.iter().map(|row| left(row).powi(2)).sum::<f64>() / rows.len().max(1) as f64).sqrt();
    let residual_max = rows
        .iter()
        .zip(names)
        .map(|(row, (name, size))| (left(row), name, size))
        .max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))
        .unwrap_or_default();
    let fits = draws(targets).unwrap_or_default();
    let estimate = |at: usize| Estimate { value: found[at], interval: interval(&fits, at) };
    Ok(Fit {
        overhead: estimate(0),
        slope: estimate(1),
        round_trips: rows.iter().any(|row| row.rtt > 0.0).then(|| estimate(2)),
        residual,
        residual_max,
    })
}

fn rows(targets: &[&Target], mut time: impl FnMut(&super::Cell) -> f64) -> Vec<Row> {
    let mut rows = Vec::new();
    for target in targets {
        for cell in &target.cells {
            rows.push(Row { size: cell.size as f64, rtt: target.rtt, time: time(cell) });
        }
    }
    rows
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    quantile(&values, 0.5)
}

/// The fits of rounds drawn again; of points, those with each point as high and as low as its
/// rounding allows. None if there is neither.
fn draws(targets: &[&Target]) -> Option<Vec<[f64; 3]>> {
    let mut cells = targets.iter().flat_map(|target| &target.cells);
    if cells.clone().all(|cell| cell.rounds.is_empty()) {
        return corners(targets);
    }
    let rounds = cells.clone().map(|cell| cell.rounds.len()).min().unwrap_or_default();
    let is_equal = cells.all(|cell| cell.rounds.len() == rounds);
    if rounds < ROUNDS_MIN || !is_equal {
        return None;
    }
    let mut random = Random::new(rounds as u64);
    let mut found = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let drawn: Vec<usize> = (0..rounds).map(|_| random.below(rounds)).collect();
        let of = |cell: &super::Cell| {
            median(drawn.iter().filter_map(|at| cell.rounds.get(*at).copied()).collect())
        };
        found.push(solve(&rows(targets, of))?);
    }
    Some(found)
}

/// At most twelve points: 2^12 fits.
const POINTS_MAX: usize = 12;

fn corners(targets: &[&Target]) -> Option<Vec<[f64; 3]>> {
    let points: usize = targets.iter().map(|target| target.cells.len()).sum();
    let mut found = Vec::new();
    for corner in 0_u32..1 << points.min(POINTS_MAX) {
        let mut at = 0;
        let rows = rows(targets, |cell| {
            let is_high = corner.checked_shr(at).is_some_and(|bits| bits & 1 == 1);
            at += 1;
            if is_high { cell.median + cell.rounding } else { cell.median - cell.rounding }
        });
        found.push(solve(&rows)?);
    }
    (points <= POINTS_MAX).then_some(found)
}

fn interval(fits: &[[f64; 3]], at: usize) -> Option<(f64, f64)> {
    let mut values: Vec<f64> = fits.iter().filter_map(|fit| fit.get(at).copied()).collect();
    values.sort_unstable_by(f64::total_cmp);
    let is_drawn = fits.len() == DRAWS;
    let (low, high) = if is_drawn { (0.025, 0.975) } else { (0.0, 1.0) };
    (!values.is_empty()).then(|| (quantile(&values, low), quantile(&values, high)))
}

/// Overhead, slope and round trips (0 without a remote target) with the least squares. None if the
/// rows do not say.
fn solve(rows: &[Row]) -> Option<[f64; 3]> {
    let count = rows.len() as f64;
    let mean = |of: fn(&Row) -> f64| rows.iter().map(of).sum::<f64>() / count;
    let (size, rtt, time) = (mean(|r| r.size), mean(|r| r.rtt), mean(|r| r.time));
    let sum = |of: &dyn Fn(&Row) -> f64| rows.iter().map(of).sum::<f64>();
    let size_size = sum(&|r| (r.size - size).powi(2));
    let rtt_rtt = sum(&|r| (r.rtt - rtt).powi(2));
    let size_rtt = sum(&|r| (r.size - size) * (r.rtt - rtt));
    let size_time = sum(&|r| (r.size - size) * (r.time - time));
    let rtt_time = sum(&|r| (r.rtt - rtt) * (r.time - time));
    if size_size.is_nan() || size_size <= 0.0 {
        return None;
    }
    let (slope, trips) = if rtt_rtt > 0.0 {
        let determinant = size_size * rtt_rtt - size_rtt * size_rtt;
        if determinant.is_nan() || determinant <= size_size * rtt_rtt * 1e-9 {
            return None;
        }
        (
            (size_time * rtt_rtt - rtt_time * size_rtt) / determinant,
            (rtt_time * size_size - size_time * size_rtt) / determinant,
        )
    } else {
        (size_time / size_size, 0.0)
    };
    let overhead = time - slope * size - trips * rtt;
    let found = [overhead, slope, trips];
    found.iter().all(|value| value.is_finite()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::{super::amounts::points, *};

    fn shifted(target: &Target, name: &str, rtt: f64, by: f64) -> Target {
        let mut shifted = Target { name: name.to_owned(), rtt, ..target.clone() };
        for cell in &mut shifted.cells {
            cell.median += by;
            cell.rounds.iter_mut().for_each(|round| *round += by);
        }
        shifted
    }

    /// The article's two points: 0.0267 ms for a KiB, not more than 0.003 off, and 0.607 ms.
    #[test]
    fn two_points_with_two_digits_give_the_slope_to_3_us() {
        let target = points("2k:0.66ms,5k:0.74ms").expect("points");
        let fit = fit(&[&target]).expect("a fit");
        assert!((fit.overhead.value - 606_667.0).abs() < 1.0, "{fit:?}");
        assert!((fit.slope.value * 1024.0 - 26_667.0).abs() < 1.0, "{fit:?}");
        let (low, high) = fit.slope.interval.expect("rounded");
        assert!(((high - low) * 1024.0 - 2.0 * 3_333.0).abs() < 1.0, "{fit:?}");
        assert!(fit.residual < 1e-3 && fit.round_trips.is_none());
    }

    #[test]
    fn the_number_of_round_trips_is_found() {
        let local = points("2k:0.2ms,4k:0.22ms,8k:0.26ms,16k:0.34ms").expect("points");
        for trips in [0.0, 1.0, 2.0, 3.0] {
            let rtt = 500_000.0;
            let remote = shifted(&local, "remote", rtt, trips * rtt);
            let fit = fit(&[&local, &remote]).expect("a fit");
            let found = fit.round_trips.expect("there is a remote one").value;
            assert!((found - trips).abs() < 1e-6, "{fit:?}");
            assert!((fit.slope.value * 1024.0 - 10_000.0).abs() < 1.0, "{fit:?}");
        }
    }

    #[test]
    fn the_largest_residual_names_its_place() {
        let mut local = points("2k:1ms,4k:1ms,8k:1ms,16k:1ms").expect("points");
        local.cells[2].median = 2e6;
        let fit = fit(&[&local]).expect("a fit");
        assert_eq!(fit.residual_max.2, 8192);
        assert!(fit.residual > 0.0);
    }

    #[test]
    fn an_interval_holds_the_truth_of_noisy_rounds() {
        let mut random = Random::new(7);
        let mut local = points("2k:0.2ms,4k:0.22ms,8k:0.26ms,16k:0.34ms").expect("points");
        for cell in &mut local.cells {
            cell.rounds =
                (0..50).map(|_| cell.median - 2e4 + random.below(40_000) as f64).collect();
        }
        let mut remote = shifted(&local, "remote", 1e5, 1e5);
        for cell in &mut remote.cells {
            cell.rounds.iter_mut().for_each(|round| *round += random.below(40_000) as f64 - 2e4);
        }
        let fit = fit(&[&local, &remote]).expect("a fit");
        let found = fit.round_trips.expect("there is a remote one");
        let (low, high) = found.interval.expect("rounds");
        assert!(low < 1.0 && 1.0 < high && high - low < 0.5, "{found:?}");
        assert!(low <= found.value && found.value <= high, "{found:?}");
    }

    #[test]
    fn one_size_is_not_enough() {
        let mut local = points("2k:1ms,4k:1ms").expect("points");
        local.cells.truncate(1);
        assert!(fit(&[&local]).is_err());
    }
}
