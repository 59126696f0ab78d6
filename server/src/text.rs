//! Formats sizes and names from outside for people to read, and text for SQL.

/// Bytes with a unit that fits: `4096 bytes`, `512 KiB`, `1.5 GiB`.
#[must_use]
pub fn bytes_pretty(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = "bytes";
    for next in UNITS {
        if value.abs() < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if value.fract() == 0.0 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

/// A text as a string of SQL.
#[must_use]
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Text from outside, without control characters, which must not reach a terminal.
#[must_use]
pub fn clean(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '\u{FFFD}' } else { char }).collect()
}
