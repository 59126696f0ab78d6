//! Disk-group attributes: their names, values and effects.
//!
//! Names and values are those of ASM where it has them. They are stored in the catalog's
//! `attribute` table; the ones that the engine acts on are parsed here, once.

mod durations;
mod refused;
pub mod what_if;

pub use durations::{REPAIR_TIME_MAX, repair_time};

use super::tables;
use crate::{
    admin::{AdminError, Code, Phases},
    disk::{
        health::{LIMIT_MAX, Limits},
        member::TICK_MS,
    },
    error::FileError,
    membership::arrival::MOUNT_WAIT,
    world::Timestamp,
};
use durations::duration;
use plinth_format::{DiskId, DiskNumber, membership::MOUNT_WAIT_MAX};
use rusqlite::Connection;
use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

/// The attributes that change how the engine works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// The I/O deadline (R2), in ticks of the watchdog.
    pub disk_timeout_ticks: u64,
    /// Seconds for which the group waits for an OFFLINE disk before it is dropped.
    pub disk_repair_time: u64,
    /// A disk with this number of failed reads within `disk_error_time` seconds has failed; 0: no
    /// limit.
    pub disk_error_limit: usize,
    /// The same limit for reads that do not match their checksums.
    pub disk_checksum_limit: usize,
    pub disk_error_time: u64,
    /// How long a write waits for room in a full thin pool before its program gets `ENOSPC`.
    pub disk_full_wait: Duration,
    /// How long a disk may be far slower than the others before it is taken OFFLINE.
    pub disk_slow_time: Option<Duration>,
    pub failgroup_repair_time: u64,
    /// Whether freed AUs are discarded, and how fast at most while clients use the disks.
    pub discard: bool,
    pub discard_pace: DiscardPace,
    /// Target for the p99 latency of client I/O while mirrors move.
    pub latency_target: Option<Duration>,
    /// How long threads that serve clients busy-poll before they sleep.
    pub poll_time: Option<Duration>,
    /// Permission bits that new regular files do not get, if access control is on.
    pub umask: u32,
    pub access_control: bool,
    /// Whether disks that were only absent come ONLINE by themselves.
    pub auto_online: bool,
    /// Seconds for which a start waits for disks that are missing.
    pub mount_wait: u64,
    /// Extents that a scrub reads at once.
    pub scrub_async_limit: u32,
    /// Whether a scrub of the whole group reads its metadata as well.
    pub scrub_metadata: bool,
    /// Seconds without a scrub after which an operator is reminded; 0: never.
    pub scrub_reminder: u64,
    /// Percent of a group in use from which a warning, and a critical warning, is written to the
    /// alert log.
    pub space_warning: u8,
    pub space_critical: u8,
}

/// How fast space is given back while clients use the disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscardPace {
    /// With rests, and at most this number of bytes a second of each disk.
    PerSecond(u64),
    /// As fast as the devices take it.
    Unpaced,
}

impl Default for Attributes {
    fn default() -> Self {
        Self {
            disk_timeout_ticks: seconds_to_ticks(5),
            disk_repair_time: 12 * 3600,
            disk_error_limit: 20,
            disk_checksum_limit: 100,
            disk_error_time: 3600,
            disk_full_wait: Duration::from_secs(60),
            disk_slow_time: None,
            failgroup_repair_time: 24 * 3600,
            discard: true,
            discard_pace: DiscardPace::PerSecond(256 << 20),
            latency_target: None,
            poll_time: None,
            umask: 0o066,
            access_control: false,
            auto_online: true,
            mount_wait: MOUNT_WAIT,
            scrub_async_limit: 1,
            scrub_metadata: true,
            scrub_reminder: 30 * 24 * 3600,
            space_warning: 85,
            space_critical: 95,
        }
    }
}

/// Every attribute that can be set, with its default; in the order of `V$ASM_ATTRIBUTE`.
pub const SETTABLE: &[(&str, &str)] = &[
    ("access_control.enabled", "false"),
    ("access_control.umask", "066"),
    ("auto_online.enabled", "true"),
    ("compatible.advm", "19.0.0.0.0"),
    ("compatible.asm", "19.0.0.0.0"),
    ("compatible.rdbms", "10.1.0.0.0"),
    ("content.check", "true"),
    ("content.type", "data"),
    ("content_hardcheck.enabled", "false"),
    ("discard.pace", "256M"),
    ("disk_checksum_limit", "100"),
    ("disk_error_limit", "20"),
    ("disk_error_time", "1.0h"),
    ("disk_full_wait", "60"),
    ("disk_repair_time", "12.0h"),
    ("disk_slow_time", "none"),
    ("disk_timeout", "5"),
    ("failgroup_repair_time", "24.0h"),
    ("io_poll_time", "none"),
    ("mount_wait", "10"),
    ("preferred_read.enabled", "false"),
    ("rebalance.latency_target", "none"),
    ("scrub_async_limit", "1"),
    ("scrub_metadata.enabled", "true"),
    ("scrub_reminder", "720.0h"),
    ("space_critical", "95"),
    ("space_warning", "85"),
    ("thin_provisioned", "true"),
];

/// Attributes of every group that cannot be set.
pub const FIXED: &[(&str, &str)] = &[("phys_meta_replicated", "true")];

fn seconds_to_ticks(seconds: u64) -> u64 {
    seconds * 1000 / TICK_MS
}

fn invalid(name: &str, value: &str, wanted: &str) -> AdminError {
    AdminError::new(Code::Invalid, format!("attribute '{name}' cannot be '{value}'"))
        .hint(format!("it is {wanted}"))
}

/// `2ms`, `500us`, `1.5 ms`; `none`. `wanted` has the words for the error, and the range, in
/// nanoseconds.
fn time(
    name: &str,
    value: &str,
    range: RangeInclusive<f64>,
    wanted: &str,
) -> Result<Option<Duration>, AdminError> {
    let bad = || invalid(name, value, wanted);
    let text = value.trim().to_ascii_lowercase();
    if text == "none" {
        return Ok(None);
    }
    let units = [("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let (unit, length) =
        units.into_iter().find(|(unit, _)| text.ends_with(unit)).ok_or_else(bad)?;
    let number: f64 = text[..text.len() - unit.len()].trim().parse().map_err(|_| bad())?;
    let nanoseconds = (number * length).round();
    if !range.contains(&nanoseconds) {
        return Err(bad());
    }
    Ok(Some(Duration::from_nanos(nanoseconds as u64)))
}

/// `256M`: as many bytes a second; `unpaced`.
fn discard_pace(name: &str, value: &str) -> Result<DiscardPace, AdminError> {
    let bad = || invalid(name, value, "bytes a second of each disk, from 1M to 1024G, or unpaced");
    let text = value.trim().to_ascii_lowercase();
    if text == "unpaced" {
        return Ok(DiscardPace::Unpaced);
    }
    let (shift, digits) = [("m", 20), ("g", 30)]
        .into_iter()
        .find_map(|(unit, shift)| Some((shift, text.strip_suffix(unit)?)))
        .ok_or_else(bad)?;
    let number: u64 = digits.parse().map_err(|_| bad())?;
    let bytes = number.checked_mul(1 << shift).ok_or_else(bad)?;
    if !(1 << 20..=1 << 40).contains(&bytes) {
        return Err(bad());
    }
    Ok(DiscardPace::PerSecond(bytes))
}

fn percentage(name: &str, value: &str) -> Result<u8, AdminError> {
    let percent = value.trim().parse().ok().filter(|percent| (1..=100).contains(percent));
    percent.ok_or_else(|| invalid(name, value, "a percentage from 1 to 100"))
}

/// The number of errors from which a disk has failed.
fn limit(name: &str, value: &str) -> Result<usize, AdminError> {
    let limit = value.parse().ok().filter(|limit| (0..=LIMIT_MAX).contains(limit));
    limit.ok_or_else(|| invalid(name, value, "a number from 1 to 1000, or 0 for no limit"))
}

fn boolean(name: &str, value: &str) -> Result<bool, AdminError> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(invalid(name, value, "true or false")),
    }
}

/// An attribute with a single possible value.
fn only(name: &str, value: &str, is: bool, because: &str) -> Result<(), AdminError> {
    if boolean(name, value)? == is {
        return Ok(());
    }
    Err(AdminError::new(
        Code::NotSupported,
        format!("attribute '{name}' cannot be '{value}': {because}"),
    ))
}

/// Three digits of 0, 2 and 6: as in ASM.
fn umask(name: &str, value: &str) -> Result<u32, AdminError> {
    let is_mask =
        value.len() == 3 && value.bytes().all(|digit| matches!(digit, b'0' | b'2' | b'6'));
    let mask = u32::from_str_radix(value, 8).ok().filter(|_| is_mask);
    mask.ok_or_else(|| {
        invalid(
            name,
            value,
            "three digits, for owner, group and others, each 0, 2 or 6, such as 066",
        )
    })
}

impl Attributes {
    /// Permission bits that new regular files do not get.
    #[must_use]
    pub fn creation_mask(&self) -> u32 {
        if self.access_control { self.umask } else { 0 }
    }

    /// Sets one attribute.
    ///
    /// # Errors
    /// If there is none of this name, or the value is invalid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), AdminError> {
        match name {
            "disk_timeout" => {
                let seconds: u64 =
                    value.parse().map_err(|_| invalid(name, value, "a number of seconds"))?;
                if !(1..=3600).contains(&seconds) {
                    return Err(invalid(name, value, "from 1 to 3600 seconds"));
                }
                self.disk_timeout_ticks = seconds_to_ticks(seconds);
            }
            "disk_error_limit" => self.disk_error_limit = limit(name, value)?,
            "disk_checksum_limit" => self.disk_checksum_limit = limit(name, value)?,
            "disk_error_time" => {
                let time = duration(name, value)?;
                if !(1..=7 * 24 * 3600).contains(&time) {
                    return Err(invalid(
                        name,
                        value,
                        "a number with M (minutes) or H (hours), up to 168H",
                    ));
                }
                self.disk_error_time = time;
            }
            "disk_full_wait" => {
                let seconds = value.parse().ok().filter(|seconds| (0..=86_400).contains(seconds));
                let wanted = "a number of seconds from 0 to 86400";
                let seconds = seconds.ok_or_else(|| invalid(name, value, wanted))?;
                self.disk_full_wait = Duration::from_secs(seconds);
            }
            "disk_repair_time" => self.disk_repair_time = duration(name, value)?,
            "failgroup_repair_time" => self.failgroup_repair_time = duration(name, value)?,
            "disk_slow_time" => {
                let wanted = "a time such as 60s, from 30s to 86400s, or none";
                self.disk_slow_time = time(name, value, 30e9..=86_400e9, wanted)?;
            }
            "rebalance.latency_target" => {
                let wanted = "a time such as 2ms or 500us, from 50us to 10s, or none";
                self.latency_target = time(name, value, 50e3..=10e9, wanted)?;
            }
            "io_poll_time" => {
                self.poll_time =
                    time(name, value, 1e3..=1e6, "a time such as 50us, from 1us to 1ms, or none")?;
            }
            "auto_online.enabled" => self.auto_online = boolean(name, value)?,
            "mount_wait" => {
                let seconds =
                    value.parse().ok().filter(|seconds| *seconds <= u64::from(MOUNT_WAIT_MAX));
                let wanted = "a number of seconds from 0 to 240";
                self.mount_wait = seconds.ok_or_else(|| invalid(name, value, wanted))?;
            }
            "discard.pace" => self.discard_pace = discard_pace(name, value)?,
            "thin_provisioned" => self.discard = boolean(name, value)?,
            "content.type" => {
                if !["data", "recovery", "system"].contains(&value.to_ascii_lowercase().as_str()) {
                    return Err(invalid(name, value, "data, recovery or system"));
                }
            }
            "access_control.enabled" => self.access_control = boolean(name, value)?,
            "access_control.umask" => self.umask = umask(name, value)?,
            "scrub_async_limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=1024).contains(limit));
                self.scrub_async_limit =
                    limit.ok_or_else(|| invalid(name, value, "a number from 1 to 1024"))?;
            }
            "scrub_reminder" => self.scrub_reminder = duration(name, value)?,
            "space_critical" => self.space_critical = percentage(name, value)?,
            "space_warning" => self.space_warning = percentage(name, value)?,
            "scrub_metadata.enabled" => self.scrub_metadata = boolean(name, value)?,
            _ => check_without_effect(name, value)?,
        }
        Ok(())
    }
}

/// Checks an attribute whose value has no effect: a feature of ASM that this engine lacks, or
/// always has.
fn check_without_effect(name: &str, value: &str) -> Result<(), AdminError> {
    match name {
        "content.check" => {
            only(name, value, true, "whatever is copied is verified against its checksums")?;
        }
        "content_hardcheck.enabled" => {
            only(
                name,
                value,
                false,
                "HARD is about Oracle's blocks; every block here has a checksum",
            )?;
        }
        "preferred_read.enabled" => only(
            name,
            value,
            false,
            "there are no sites; ALTER SYSTEM SET asm_preferred_read_failure_groups prefers failure groups",
        )?,
        "compatible.asm" | "compatible.rdbms" | "compatible.advm" => {
            let is_version =
                !value.is_empty() && value.split('.').all(|part| part.parse::<u16>().is_ok());
            if !is_version {
                return Err(invalid(name, value, "a version such as 19.0"));
            }
        }
        _ if let Some(refusal) = refused::refusal(name) => return Err(refusal),
        _ => {
            let known: Vec<_> = SETTABLE.iter().map(|(name, _)| *name).collect();
            return Err(AdminError::new(Code::Invalid, format!("there is no attribute '{name}'"))
                .hint(format!("attributes are {}, what_if.delay.FAILGROUP", known.join(", "))));
        }
    }
    Ok(())
}

/// The form in which the value of an attribute is kept and shown.
#[must_use]
pub fn shown(name: &str, value: &str) -> String {
    durations::shown(name, value)
}

/// Stores one attribute.
///
/// # Errors
/// If the catalog fails.
pub fn store(connection: &Connection, name: &str, value: &str) -> Result<(), FileError> {
    Ok(tables::attribute::set(connection, name, &shown(name, value))?)
}

/// The parts of a version, without zeros at its end.
fn version(text: &str) -> Vec<u16> {
    let mut parts: Vec<u16> = text.split('.').map(|part| part.parse().unwrap_or(0)).collect();
    parts.truncate(parts.iter().rposition(|part| *part != 0).map_or(0, |last| last + 1));
    parts
}

/// Refuses to lower an attribute that can only be raised: as in ASM, software may rely on a version
/// for good.
///
/// # Errors
/// That refusal, or if the catalog fails.
pub fn check_raised(connection: &Connection, name: &str, value: &str) -> Result<(), FileError> {
    if !name.starts_with("compatible.") {
        return Ok(());
    }
    let stored = tables::attribute::value(connection, name)?;
    let default = || {
        SETTABLE
            .iter()
            .find(|(known, _)| *known == name)
            .map_or("", |(_, default)| *default)
            .to_owned()
    };
    let current = stored.unwrap_or_else(default);
    if version(value) >= version(&current) {
        return Ok(());
    }
    let text =
        format!("attribute '{name}' cannot be '{value}': it is {current}, and never goes back");
    let hint = "a disk group that is to have less is made so, with an ATTRIBUTE clause";
    Err(FileError::Order(Box::new(AdminError::new(Code::Lowered, text).hint(hint))))
}

/// Stores one attribute that cannot be set.
///
/// # Errors
/// If the catalog fails.
pub fn store_fixed(connection: &Connection, name: &str, value: &str) -> Result<(), FileError> {
    Ok(tables::attribute::set_read_only(connection, name, value)?)
}

/// The name under which the catalog stores that a rebalance runs, and its power. Statements do not
/// see this attribute.
const REBALANCE: &str = "_rebalance";

/// Stores the power of the running rebalance, or that none runs.
///
/// # Errors
/// If the catalog fails.
pub fn store_rebalance(
    connection: &Connection,
    begun: Option<(u32, Phases)>,
) -> Result<(), FileError> {
    let text = |(power, phases): (u32, Phases)| {
        let balance = if phases.balance { "" } else { " unbalanced" };
        let compact =
            phases.compact.map_or("", |compact| if compact { " compact" } else { " loose" });
        format!("{power}{balance}{compact}")
    };
    keep(connection, REBALANCE, begun.map(text))
}

/// Stores a value, or deletes it.
fn keep(connection: &Connection, name: &str, value: Option<String>) -> Result<(), FileError> {
    if let Some(value) = value {
        return store(connection, name, &value);
    }
    Ok(tables::attribute::delete(connection, name)?)
}

/// The power of the rebalance that ran when the group was last used, if there was one.
///
/// # Errors
/// If the catalog fails.
pub fn load_rebalance(connection: &Connection) -> Result<Option<(u32, Phases)>, FileError> {
    let Some(text) = tables::attribute::value(connection, REBALANCE)? else { return Ok(None) };
    let says = |word| text.split_whitespace().any(|other| other == word);
    let compact = if says("compact") { Some(true) } else { says("loose").then_some(false) };
    // A text that is not a number still means that a rebalance ran.
    let power = text.split_whitespace().next().and_then(|power| power.parse().ok()).unwrap_or(1);
    Ok(Some((power, Phases { balance: !says("unbalanced"), compact })))
}

/// The name under which the catalog stores that nothing is left to discard. Statements do not see
/// this attribute.
const ALL_DISCARDED: &str = "_all_discarded";

/// Stores that nothing is left to discard, or that there may be something from now on.
///
/// # Errors
/// If the catalog fails.
pub fn store_all_discarded(connection: &Connection, is_all: bool) -> Result<(), FileError> {
    keep(connection, ALL_DISCARDED, is_all.then(|| "true".to_owned()))
}

/// Whether nothing was left to discard when the group was last used.
///
/// # Errors
/// If the catalog fails.
pub fn load_all_discarded(connection: &Connection) -> Result<bool, FileError> {
    Ok(tables::attribute::exists(connection, ALL_DISCARDED)?)
}

/// The name under which the catalog stores how far a RECLAIM is. Statements do not see this
/// attribute.
const RECLAIM: &str = "_reclaim";

/// Stores how far a RECLAIM is, or that none runs.
///
/// # Errors
/// If the catalog fails.
pub fn store_reclaim(connection: &Connection, position: Option<String>) -> Result<(), FileError> {
    keep(connection, RECLAIM, position)
}

/// How far the RECLAIM was that ran when the group was last used, if there was one.
///
/// # Errors
/// If the catalog fails.
pub fn load_reclaim(connection: &Connection) -> Result<Option<String>, FileError> {
    Ok(tables::attribute::value(connection, RECLAIM)?)
}

/// The name under which the catalog stores when the whole group was last scrubbed. Statements do
/// not see this attribute.
const SCRUBBED: &str = "_scrubbed";

/// Stores when the whole group was scrubbed.
///
/// # Errors
/// If the catalog fails.
pub fn store_scrubbed(connection: &Connection, at: Timestamp) -> Result<(), FileError> {
    store(connection, SCRUBBED, &at.to_string())
}

/// When the whole group was last scrubbed, if it ever was.
///
/// # Errors
/// If the catalog fails.
pub fn load_scrubbed(connection: &Connection) -> Result<Option<Timestamp>, FileError> {
    let text = tables::attribute::value(connection, SCRUBBED)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

/// The name under which the catalog stores how long the group waits for one disk, followed by the
/// number of the disk. Statements do not see this attribute.
const DROP_AFTER: &str = "_drop_after.";

/// How long the group waits for a disk that is OFFLINE, instead of its repair time: `OFFLINE ...
/// DROP AFTER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropAfter {
    pub seconds: u64,
    /// When the disk went OFFLINE, as in the membership: the time holds for this absence only.
    pub since: i64,
}

/// Stores how long the group waits for a disk, or that the time is that of all disks.
///
/// # Errors
/// If the catalog fails.
pub fn store_drop_after(
    connection: &Connection,
    disk: DiskNumber,
    drop_after: Option<DropAfter>,
) -> Result<(), FileError> {
    let value = drop_after.map(|DropAfter { seconds, since }| format!("{seconds} {since}"));
    keep(connection, &format!("{DROP_AFTER}{}", disk.0), value)
}

/// How long the group waits for single disks for which a statement gave a time.
///
/// # Errors
/// If the catalog fails.
pub fn load_drop_after(
    connection: &Connection,
) -> Result<BTreeMap<DiskNumber, DropAfter>, FileError> {
    let mut found = BTreeMap::new();
    for (disk, value) in kept_of_disks(connection, DROP_AFTER)? {
        if let Some((seconds, since)) = value.split_once(' ')
            && let (Ok(seconds), Ok(since)) = (seconds.parse(), since.parse())
        {
            found.insert(disk, DropAfter { seconds, since });
        }
    }
    Ok(found)
}

/// The name under which the catalog stores that a disk is discarded when it is dropped, followed by
/// its number; the value is its id. Statements do not see this attribute.
const RECLAIM_AT_DROP: &str = "_reclaim_at_drop.";

/// Stores that the disk with this id is discarded when it is dropped, or that none is.
///
/// # Errors
/// If the catalog fails.
pub fn store_reclaim_at_drop(
    connection: &Connection,
    number: DiskNumber,
    disk: Option<DiskId>,
) -> Result<(), FileError> {
    keep(connection, &format!("{RECLAIM_AT_DROP}{}", number.0), disk.map(|disk| disk.to_string()))
}

/// Whether the disk of this number and id is discarded when it is dropped.
///
/// # Errors
/// If the catalog fails.
pub fn is_to_reclaim_at_drop(
    connection: &Connection,
    number: DiskNumber,
    disk: DiskId,
) -> Result<bool, FileError> {
    let kept = tables::attribute::value(connection, &format!("{RECLAIM_AT_DROP}{}", number.0))?;
    Ok(kept.is_some_and(|kept| kept == disk.to_string()))
}

/// The values under a name that is followed by the number of a disk.
fn kept_of_disks(
    connection: &Connection,
    name: &str,
) -> Result<Vec<(DiskNumber, String)>, FileError> {
    let of_disk = |(full, value): (String, String)| {
        let disk = full[name.len()..].parse().ok()?;
        Some((DiskNumber(disk), value))
    };
    let found = tables::attribute::beginning_with(connection, name)?;
    Ok(found.into_iter().filter_map(of_disk).collect())
}

/// The name under which the catalog stores the size that a disk reaches in stages, followed by the
/// number of the disk. Statements do not see this attribute.
const GOAL: &str = "_resize_goal.";

/// Stores the size in bytes that a disk reaches in stages, or deletes it.
///
/// # Errors
/// If the catalog fails.
pub fn store_goal(
    connection: &Connection,
    disk: DiskNumber,
    id: DiskId,
    goal: Option<u64>,
) -> Result<(), FileError> {
    keep(connection, &format!("{GOAL}{}", disk.0), goal.map(|size| format!("{size} {id}")))
}

/// The sizes in bytes that disks reach in stages, each with the id of the disk that had the number
/// then.
///
/// # Errors
/// If the catalog fails.
pub fn load_goals(connection: &Connection) -> Result<Vec<(DiskNumber, u64, String)>, FileError> {
    let goal = |(disk, value): (DiskNumber, String)| {
        let (size, id) = value.split_once(' ')?;
        Some((disk, size.parse().ok()?, id.to_owned()))
    };
    Ok(kept_of_disks(connection, GOAL)?.into_iter().filter_map(goal).collect())
}

/// The attributes as stored; one with an invalid value has its default.
///
/// # Errors
/// If the catalog fails.
pub fn load(connection: &Connection) -> Result<Attributes, FileError> {
    let mut attributes = Attributes::default();
    for (name, value) in tables::attribute::settable(connection)? {
        let _ = attributes.set(&name, &value);
    }
    Ok(attributes)
}

impl Attributes {
    /// The numbers of failures from which a disk has failed.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            reads: self.disk_error_limit,
            checksums: self.disk_checksum_limit,
            time: Duration::from_secs(self.disk_error_time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compatibility_never_goes_back() {
        let catalog = Connection::open_in_memory().expect("a database");
        catalog.execute_batch(include_str!("../catalog/schema.sql")).expect("the schema");
        let check = |value: &str| check_raised(&catalog, "compatible.asm", value).is_ok();
        assert!(
            check("19.0") && check("19.1") && check("23") && !check("18.9.9.9.9") && !check("9.2")
        );
        store(&catalog, "compatible.asm", "12.2.0.1").expect("it is stored");
        assert!(check("12.2.0.1.0") && check("19.0") && !check("12.2") && !check("11.2.0.4"));
        assert!(check_raised(&catalog, "disk_timeout", "1").is_ok());
    }

    #[test]
    fn a_rebalance_is_remembered() {
        let catalog = Connection::open_in_memory().expect("a database");
        let table = "CREATE TABLE attribute (name TEXT PRIMARY KEY, value TEXT, read_only INTEGER, system INTEGER)";
        catalog.execute(table, []).expect("a table");
        for compact in [None, Some(true), Some(false)] {
            for balance in [true, false] {
                let begun = Some((7, Phases { balance, compact }));
                store_rebalance(&catalog, begun).expect("stored");
                assert_eq!(load_rebalance(&catalog).expect("loaded"), begun);
            }
        }
        store_rebalance(&catalog, None).expect("stored");
        assert_eq!(load_rebalance(&catalog).expect("loaded"), None);
        store(&catalog, REBALANCE, "many").expect("stored");
        assert_eq!(load_rebalance(&catalog).expect("loaded"), Some((1, Phases::default())));
    }

    #[test]
    fn values_are_checked() {
        let mut attributes = Attributes::default();
        for (name, value) in SETTABLE {
            attributes.set(name, value).expect("defaults can be set");
        }
        assert_eq!(attributes, Attributes::default());
        attributes.set("access_control.umask", "026").expect("as in ASM");
        assert_eq!(attributes.creation_mask(), 0, "it is off");
        attributes.set("access_control.enabled", "TRUE").expect("as in ASM");
        assert_eq!(attributes.creation_mask(), 0o026);
        attributes.set("disk_repair_time", "3.6h").expect("as in ASM");
        assert_eq!(attributes.disk_repair_time, 12960);
        attributes.set("disk_repair_time", "30M").expect("minutes");
        assert_eq!(attributes.disk_repair_time, 1800);
        for (value, target) in
            [("2ms", Some(2000)), ("500 US", Some(500)), ("1.5ms", Some(1500)), ("none", None)]
        {
            attributes.set("rebalance.latency_target", value).expect("a latency");
            assert_eq!(attributes.latency_target, target.map(Duration::from_micros), "{value}");
        }
        for (value, pace) in [
            ("64m", DiscardPace::PerSecond(64 << 20)),
            ("1024G", DiscardPace::PerSecond(1 << 40)),
            ("Unpaced", DiscardPace::Unpaced),
        ] {
            attributes.set("discard.pace", value).expect("a pace");
            assert_eq!(attributes.discard_pace, pace, "{value}");
        }
        attributes.set("io_poll_time", "50us").expect("a time");
        assert_eq!(attributes.poll_time, Some(Duration::from_micros(50)));
        for (name, value) in [
            ("disk_timeout", "0"),
            ("disk_timeout", "x"),
            ("disk_repair_time", "-1h"),
            ("disk_slow_time", "29s"),
            ("disk_error_limit", "1001"),
            ("disk_checksum_limit", "-1"),
            ("disk_error_time", "0"),
            ("discard.pace", "256"),
            ("discard.pace", "0M"),
            ("discard.pace", "1025G"),
            ("discard.pace", "18446744073709551615G"),
            ("io_poll_time", "2ms"),
            ("io_poll_time", "0us"),
            ("io_poll_time", "50"),
            ("rebalance.latency_target", "2"),
            ("rebalance.latency_target", "10us"),
            ("rebalance.latency_target", "11s"),
            ("rebalance.latency_target", "NaNms"),
            ("au_size", "4M"),
            ("nonsense", "1"),
            ("access_control.umask", "077"),
            ("access_control.umask", "0066"),
            ("content.check", "false"),
            ("preferred_read.enabled", "true"),
            ("scrub_async_limit", "0"),
            ("space_warning", "0"),
            ("space_critical", "101"),
            ("scrub_reminder", "soon"),
            ("mount_wait", "241"),
            ("mount_wait", "-1"),
            ("mount_wait", "10s"),
            ("auto_online.enabled", "yes"),
            ("cell.smart_scan_capable", "true"),
            ("_rebalance_compact", "FALSE"),
        ] {
            assert!(attributes.set(name, value).is_err(), "{name} = {value}");
        }
    }
}
