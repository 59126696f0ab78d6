//! When a device is steady: the rule of SNIA's performance test specification.
//!
//! Five rounds: the largest and the smallest value are at most 20 % of the mean apart, and the line
//! through the five rises or falls by at most 10 % of the mean.

/// Rounds of the window.
pub const WINDOW: usize = 5;
/// Rounds after which it is given up.
pub const ROUNDS_MAX: u32 = 25;
/// Seconds of a round.
pub const ROUND: f64 = 60.0;
const RANGE_MAX: f64 = 0.20;
const SLOPE_MAX: f64 = 0.10;

/// Whether the last [`WINDOW`] values are steady.
#[must_use]
pub fn is_steady(values: &[f64]) -> bool {
    let Some(window) = values.len().checked_sub(WINDOW).and_then(|from| values.get(from..)) else {
        return false;
    };
    let count = WINDOW as f64;
    let mean = window.iter().sum::<f64>() / count;
    if !mean.is_finite() {
        return false;
    }
    let most = window.iter().copied().fold(f64::MIN, f64::max);
    let least = window.iter().copied().fold(f64::MAX, f64::min);
    // Least squares over the numbers of the rounds, from the first of the window to the last.
    let middle = (count - 1.0) / 2.0;
    let (mut product, mut square) = (0.0, 0.0);
    for (number, value) in window.iter().enumerate() {
        let x = number as f64 - middle;
        product += x * (value - mean);
        square += x * x;
    }
    let rise = (product / square * (count - 1.0)).abs();
    most - least <= RANGE_MAX * mean && rise <= SLOPE_MAX * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_even_rounds_are_steady_and_four_are_not() {
        assert!(!is_steady(&[100.0; 4]));
        assert!(is_steady(&[100.0; 5]));
        assert!(is_steady(&[900.0, 100.0, 100.0, 100.0, 100.0, 100.0]));
    }

    #[test]
    fn a_range_above_a_fifth_of_the_mean_is_not_steady() {
        assert!(is_steady(&[100.0, 91.0, 110.0, 91.0, 108.0]));
        assert!(!is_steady(&[100.0, 89.0, 111.0, 92.0, 108.0]));
    }

    #[test]
    fn a_slope_above_a_tenth_of_the_mean_is_not_steady() {
        assert!(is_steady(&[95.1, 97.5, 100.0, 102.5, 104.9]));
        assert!(!is_steady(&[94.0, 97.0, 100.0, 103.0, 106.0]));
        assert!(!is_steady(&[106.0, 103.0, 100.0, 97.0, 94.0]));
    }
}
