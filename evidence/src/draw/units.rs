//! Numbers as people read them: three or four digits that count, and a unit.

/// `438 us`, `1.02 ms`, `12.3 s`. From nanoseconds.
#[must_use]
pub fn latency(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds {
        n if !n.is_finite() => return "-".to_owned(),
        n if n < 999.5 => (n, "ns"),
        n if n < 999.5e3 => (n / 1e3, "us"),
        n if n < 999.5e6 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    format!("{} {unit}", digits(value))
}

/// The border of a bucket or of an axis: `1 us`, `512 us`, `1 ms`, `8.2 ms`.
#[must_use]
pub fn tick(nanoseconds: f64) -> String {
    let text = latency(nanoseconds);
    let Some((number, unit)) = text.split_once(' ') else { return text };
    if number.contains('.') {
        format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
    } else {
        text
    }
}

/// A rate or an amount: `232,431`, `53.7`, `0.951`.
#[must_use]
pub fn amount(value: f64) -> String {
    if !value.is_finite() { "-".to_owned() } else { digits(value) }
}

/// An amount for an axis: `0`, `500`, `1.5 k`, `20 k`, `3 M`.
#[must_use]
pub fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        v if v < 999.5 => (value, ""),
        v if v < 999.5e3 => (value / 1e3, " k"),
        v if v < 999.5e6 => (value / 1e6, " M"),
        v if v < 999.5e9 => (value / 1e9, " G"),
        _ => (value / 1e12, " T"),
    };
    let number = format!("{value:.3}");
    let number = number.trim_end_matches('0').trim_end_matches('.');
    format!("{}{unit}", if number == "-0" { "0" } else { number })
}

/// `+36.1 %`, `-25.5 %`, `0.0 %`, `+5,479 %`.
#[must_use]
pub fn change(per_cent: f64) -> String {
    if !per_cent.is_finite() {
        return "-".to_owned();
    }
    if per_cent.abs() >= 999.95 {
        let sign = if per_cent < 0.0 { "" } else { "+" };
        return format!("{sign}{} %", thousands(per_cent));
    }
    let text = format!("{per_cent:+.1} %");
    if matches!(text.as_str(), "+0.0 %" | "-0.0 %") { "0.0 %".to_owned() } else { text }
}

/// `8 h`, `30 min`, `90 s`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    let whole = |value: f64| (value - value.round()).abs() < 1e-9;
    match seconds {
        s if !s.is_finite() => "-".to_owned(),
        s if s >= 3600.0 && whole(s / 3600.0) => format!("{:.0} h", s / 3600.0),
        s if s >= 7200.0 => format!("{:.1} h", s / 3600.0),
        s if s >= 120.0 && whole(s / 60.0) => format!("{:.0} min", s / 60.0),
        s if s >= 600.0 => format!("{:.1} min", s / 60.0),
        s if whole(s) => format!("{s:.0} s"),
        s => format!("{s:.1} s"),
    }
}

/// Three digits that count, and all before the point.
fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => thousands(value),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.9995 => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.3}"),
    }
}

/// Whole, with a comma after each three digits.
fn thousands(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", grouped(&format!("{:.0}", value.abs())))
}

/// Digits with a comma between each three: `1234567` is `1,234,567`.
#[must_use]
pub fn grouped(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_have_three_digits_and_a_unit() {
        assert_eq!(latency(438_000.0), "438 us");
        assert_eq!(latency(999_700.0), "1.00 ms");
        assert_eq!(latency(1_024_000.0), "1.02 ms");
        assert_eq!(latency(12_345_000_000.0), "12.3 s");
        assert_eq!(latency(f64::NAN), "-");
        assert_eq!(tick(8_192_000.0), "8.19 ms");
        assert_eq!(tick(10_000.0), "10 us");
        assert_eq!(tick(100_000_000.0), "100 ms");
    }

    #[test]
    fn amounts_have_commas() {
        assert_eq!(amount(232_431.0), "232,431");
        assert_eq!(amount(-1234.5), "-1,234");
        assert_eq!(amount(53.67), "53.7");
        assert_eq!(amount(0.951), "0.951");
        assert_eq!(amount(0.0), "0");
        assert_eq!(short(20_000.0), "20 k");
        assert_eq!(short(1500.0), "1.5 k");
        assert_eq!(short(0.0), "0");
    }

    #[test]
    fn a_change_has_a_sign_unless_it_is_none() {
        assert_eq!(change(36.07), "+36.1 %");
        assert_eq!(change(-25.51), "-25.5 %");
        assert_eq!(change(-0.01), "0.0 %");
        assert_eq!(change(5479.2), "+5,479 %");
    }

    #[test]
    fn durations_take_the_largest_unit_that_is_whole() {
        assert_eq!(duration(28_800.0), "8 h");
        assert_eq!(duration(1800.0), "30 min");
        assert_eq!(duration(90.0), "90 s");
        assert_eq!(duration(0.5), "0.5 s");
    }
}
