//! Durations in attributes and statements: a number of hours or minutes, as in ASM.
//!
//! They are read in any of the forms that people write (`12h`, `4.5 H`, `270m`; a number alone is
//! hours), and kept and shown in one: hours as ASM shows them, `12.0h`; minutes as `270m`.

use crate::admin::AdminError;

/// The attributes that are durations.
const NAMES: [&str; 4] =
    ["disk_error_time", "disk_repair_time", "failgroup_repair_time", "scrub_reminder"];

/// The longest time in seconds to wait for a disk: 136 years, as in ASM.
pub const REPAIR_TIME_MAX: u64 = 136 * 366 * 24 * 3600;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Duration {
    Hours(f64),
    Minutes(f64),
}

impl Duration {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let number = |digits: &str| -> Option<f64> {
            let digits = digits.trim();
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            is_number.then(|| digits.parse().ok()).flatten()
        };
        let found = match text.strip_suffix('m') {
            Some(digits) => Self::Minutes(number(digits)?),
            None => Self::Hours(number(text.strip_suffix('h').unwrap_or(&text))?),
        };
        (found.seconds() <= REPAIR_TIME_MAX as f64).then_some(found)
    }

    fn seconds(self) -> f64 {
        match self {
            Self::Hours(hours) => hours * 3600.0,
            Self::Minutes(minutes) => minutes * 60.0,
        }
    }
}

/// The seconds of a duration of at most 136 years; `None`: it is none.
#[must_use]
pub fn repair_time(text: &str) -> Option<u64> {
    // 3.6 hours are 12960 seconds, and a little less in binary.
    Duration::parse(text).map(|duration| (duration.seconds() + 1e-6) as u64)
}

/// The seconds of an attribute's value.
pub(super) fn duration(name: &str, value: &str) -> Result<u64, AdminError> {
    let wanted = "a number with M (minutes) or H (hours), such as 12h";
    repair_time(value).ok_or_else(|| super::invalid(name, value, wanted))
}

/// The form in which an attribute's value is kept and shown.
#[must_use]
pub(super) fn shown(name: &str, value: &str) -> String {
    match Duration::parse(value).filter(|_| NAMES.contains(&name)) {
        Some(Duration::Hours(hours)) if hours.fract() == 0.0 => format!("{hours:.1}h"),
        Some(Duration::Hours(hours)) => format!("{hours}h"),
        Some(Duration::Minutes(minutes)) => format!("{minutes}m"),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_in_every_form_and_shown_in_one() {
        for (text, seconds, form) in [
            ("12h", 43_200, "12.0h"),
            ("12.0h", 43_200, "12.0h"),
            (" 4.5 H ", 16_200, "4.5h"),
            ("4.50h", 16_200, "4.5h"),
            ("3.6h", 12_960, "3.6h"),
            ("270m", 16_200, "270m"),
            ("0.5 M", 30, "0.5m"),
            ("0h", 0, "0.0h"),
            ("8", 28_800, "8.0h"),
        ] {
            assert_eq!(repair_time(text), Some(seconds), "{text}");
            assert_eq!(shown("disk_repair_time", text), form, "{text}");
            assert_eq!(shown("disk_repair_time", form), form, "it stays as it is");
        }
        assert_eq!(shown("disk_timeout", "5"), "5");
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for nonsense in ["", "h", "-1h", "1e2h", "nanh", "infh", "4,5h", "5d", "4 5h", "1195000h"] {
            assert_eq!(repair_time(nonsense), None, "{nonsense}");
            let error = duration("disk_repair_time", nonsense).expect_err(nonsense);
            assert!(error.message.contains("disk_repair_time") && error.hint.is_some(), "{error}");
        }
    }
}
