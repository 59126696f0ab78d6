//! Sizes, times, kilometres and points as arguments have them: `4k`, `0.66ms`, `2k:0.66ms`.

use super::{Cell, Target};

/// The largest size of a log write.
const SIZE_MAX: u64 = 16 << 20;
/// In nanoseconds: an hour.
const TIME_MAX: f64 = 3.6e12;
/// Twice round the earth.
const KM_MAX: f64 = 80_000.0;

/// `512`, `4k`, `1m`: bytes, a multiple of 512.
///
/// # Errors
/// In one sentence.
pub fn size(text: &str) -> Result<u64, String> {
    let bad = || format!("'{text}' is no size: a multiple of 512 bytes up to 16m, such as 2k");
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match lower.get(digits.len()..).unwrap_or_default() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        _ => return Err(bad()),
    };
    let number: u64 = digits.trim().parse().map_err(|_| bad())?;
    let bytes = number.checked_mul(unit).ok_or_else(bad)?;
    if bytes == 0 || bytes > SIZE_MAX || !bytes.is_multiple_of(512) {
        return Err(bad());
    }
    Ok(bytes)
}

/// `0.5ms`, `100us`, `1s`: nanoseconds, and half of the last digit's worth.
fn time_and_rounding(text: &str) -> Result<(f64, f64), String> {
    let bad = || format!("'{text}' is no time: a number with us, ms or s, such as 0.5ms");
    let lower = text.trim().to_ascii_lowercase().replace(',', ".");
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let (digits, unit) = units
        .into_iter()
        .find_map(|(name, unit)| Some((lower.strip_suffix(name)?.trim(), unit)))
        .ok_or_else(bad)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(bad());
    }
    let time = digits.parse::<f64>().map_err(|_| bad())? * unit;
    if !(0.0..=TIME_MAX).contains(&time) {
        return Err(bad());
    }
    let decimals = digits.split_once('.').map_or(0, |(_, part)| part.len().min(9));
    let rounding = unit * 0.5 * 0.1_f64.powi(i32::try_from(decimals).unwrap_or(9));
    Ok((time, rounding))
}

/// `0.5ms`, `100us`, `1s`: nanoseconds.
///
/// # Errors
/// In one sentence.
pub fn time(text: &str) -> Result<f64, String> {
    time_and_rounding(text).map(|(time, _)| time)
}

/// `2.5`, `150km`.
///
/// # Errors
/// In one sentence.
pub fn kilometres(text: &str) -> Result<f64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.strip_suffix("km").unwrap_or(&lower).trim();
    let km = digits.parse::<f64>().ok().filter(|km| (0.0..=KM_MAX).contains(km));
    km.ok_or_else(|| format!("'{text}' is no distance: kilometres from 0 to 80000, such as 2.5"))
}

/// `1.77ms@2.5km`: the time of a write, in nanoseconds, and the distance at which it was measured.
///
/// # Errors
/// In one sentence.
pub fn at_distance(text: &str) -> Result<(f64, f64), String> {
    let (write, km) = text
        .split_once('@')
        .ok_or_else(|| format!("'{text}' is not TIME@KILOMETRES, such as 1.77ms@2.5"))?;
    Ok((time(write)?, kilometres(km)?))
}

/// `2k:0.66ms,5k:0.74ms`: points of a local write that others measured.
///
/// # Errors
/// In one sentence.
pub fn points(text: &str) -> Result<Target, String> {
    let mut cells = text
        .split(',')
        .map(|point| {
            let (of, took) = point
                .split_once(':')
                .ok_or_else(|| format!("'{point}' is not SIZE:TIME, such as 2k:0.66ms"))?;
            let (median, rounding) = time_and_rounding(took)?;
            Ok(Cell {
                size: size(of)?,
                writes: 0,
                median,
                p25: median,
                p75: median,
                p99: median,
                rounds: Vec::new(),
                rounding,
            })
        })
        .collect::<Result<Vec<_>, String>>()?;
    cells.sort_by_key(|cell| cell.size);
    if cells.windows(2).any(|pair| pair[0].size == pair[1].size) || cells.len() < 2 {
        return Err(format!("'{text}' has to have points of two sizes or more, each size once"));
    }
    Ok(Target { name: "given points".to_owned(), rtt: 0.0, cells })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_units() {
        assert_eq!(size("2k"), Ok(2048));
        assert_eq!(size("512"), Ok(512));
        assert_eq!(size("1M"), Ok(1 << 20));
        assert_eq!(time("0.5ms"), Ok(500_000.0));
        assert_eq!(time("100us"), Ok(100_000.0));
        assert_eq!(time("1 s"), Ok(1e9));
        assert_eq!(kilometres("2.5"), Ok(2.5));
        assert_eq!(at_distance("1.77ms@2.5km"), Ok((1_770_000.0, 2.5)));
    }

    #[test]
    fn amounts_that_are_none_are_refused() {
        for text in ["", "0", "k", "-2k", "100", "17m", "2x", "99999999999999999999k", "2\u{fc}k"] {
            assert!(size(text).is_err(), "{text}");
        }
        for text in ["", "1", "ms", "-1ms", "1e9s", "nans", "infs", "1.2.3ms", "9999999999s"] {
            assert!(time(text).is_err(), "{text}");
        }
        for text in ["", "km", "-1", "nan", "1e9"] {
            assert!(kilometres(text).is_err(), "{text}");
        }
        for text in ["", "2k", "2k:1ms", "2k:1ms,2k:2ms", "2k:1ms,", "2k:x,4k:1ms"] {
            assert!(points(text).is_err(), "{text}");
        }
    }

    /// 0.66 ms may be 0.655 or 0.665.
    #[test]
    fn a_point_knows_how_far_it_was_rounded() {
        let target = points("5k:0.74ms,2k:0,66ms".replace("0,", "0.").as_str()).expect("points");
        assert_eq!(target.cells[0].size, 2048);
        assert!((target.cells[0].rounding - 5_000.0).abs() < 1e-6);
    }
}
