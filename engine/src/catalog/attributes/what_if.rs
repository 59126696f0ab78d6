//! `what_if.delay.FAILGROUP`: a failure group as if it were farther away.
//!
//! The end of each read, write and flush of its disks is delivered so much later
//! (`disk/member.rs`). The attribute is in the catalog for as long as the delay is in force, under
//! the failure group's name as the views show it; `0` removes it.

use super::{invalid, time};
use crate::{admin::AdminError, catalog::tables, error::FileError};
use rusqlite::Connection;
use std::{collections::BTreeMap, time::Duration};

/// Followed by the name of a failure group.
pub const PREFIX: &str = "what_if.delay.";

/// The words for a wrong value.
const WANTED: &str = "a time such as 0.5ms or 100us, up to 100ms, or 0 for none";
/// In nanoseconds.
const MAX: f64 = 100e6;

/// `0.5ms`; `None` for `0`.
///
/// # Errors
/// If it is no such time.
pub fn delay(name: &str, value: &str) -> Result<Option<Duration>, AdminError> {
    if value.trim() == "0" {
        return Ok(None);
    }
    let delay = time(name, value, 0.0..=MAX, WANTED)?;
    let delay = delay.ok_or_else(|| invalid(name, value, WANTED))?;
    Ok(Some(delay).filter(|delay| !delay.is_zero()))
}

/// As it is stored and shown: in milliseconds.
#[must_use]
pub fn shown(delay: Duration) -> String {
    format!("{}ms", delay.as_nanos() as f64 / 1e6)
}

/// Stores the delay of one failure group, or that it has none.
///
/// # Errors
/// If the catalog fails.
pub fn store(
    connection: &Connection,
    failure_group: &str,
    delay: Option<Duration>,
) -> Result<(), FileError> {
    super::keep(connection, &format!("{PREFIX}{failure_group}"), delay.map(shown))
}

/// The delays in force, by failure group. One that cannot be read is left out.
///
/// # Errors
/// If the catalog fails.
pub fn load(connection: &Connection) -> Result<BTreeMap<String, Duration>, FileError> {
    let stored = tables::attribute::beginning_with(connection, PREFIX)?;
    let of_group = |(name, value): (String, String)| {
        let group = name.strip_prefix(PREFIX)?.to_owned();
        Some((group, delay(&name, &value).ok()??))
    };
    Ok(stored.into_iter().filter_map(of_group).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_a_time_up_to_100_ms() {
        for (value, micros) in [("0.5ms", 500), ("100us", 100), (" 5 MS", 5000), ("100ms", 100_000)]
        {
            let read = delay("what_if.delay.a", value).expect("a delay");
            assert_eq!(read, Some(Duration::from_micros(micros)), "{value}");
            let again = delay("what_if.delay.a", &shown(read.unwrap_or_default()));
            assert_eq!(again.expect("as it is shown"), read);
        }
        for value in ["0", " 0 ", "0ms"] {
            assert_eq!(delay("what_if.delay.a", value).expect("none"), None, "{value}");
        }
        for value in ["", "1", "none", "101ms", "-1ms", "nanms", "1h"] {
            assert!(delay("what_if.delay.a", value).is_err(), "{value}");
        }
    }

    #[test]
    fn delays_are_kept_until_they_are_taken_away() {
        let catalog = Connection::open_in_memory().expect("a database");
        catalog.execute_batch(include_str!("../schema.sql")).expect("the schema");
        let delay = Duration::from_micros(500);
        store(&catalog, "FAR", Some(delay)).expect("stored");
        assert_eq!(load(&catalog).expect("loaded"), BTreeMap::from([("FAR".to_owned(), delay)]));
        store(&catalog, "FAR", None).expect("removed");
        assert_eq!(load(&catalog).expect("loaded"), BTreeMap::new());
    }
}
