//! Warnings before it hurts: space that runs out, a catalog that cannot grow, a scrub that is
//! overdue.
//!
//! The caretaker looks in each of its rounds. An ALARM is raised when a limit is passed, and again
//! when it is passed the next time after the group was well below it; after a mount all limits are
//! looked at anew. They are attributes: `space_warning`, `space_critical`, `scrub_reminder`.

use crate::{
    catalog::attributes, check::Upkeep, error::FileError, event::Severity, sync::lock::Mutex,
    world::Timestamp,
};

/// How many percent the group must be below a limit until passing it is reported again: a file more
/// or less is no news.
const BELOW: u64 = 2;

/// The warnings since the mount.
#[derive(Debug, Default)]
pub struct Reminders(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    /// The level that was reported.
    level: Level,
    catalog: bool,
    scrub: bool,
    /// When the whole group was last scrubbed; `None`: not read yet.
    scrubbed: Option<Timestamp>,
}

/// How full a group is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    #[default]
    Fine,
    Warning,
    Critical,
    Full,
}

/// The percentage at which a level begins.
fn begins(level: Level, warning: u8, critical: u8) -> u64 {
    match level {
        Level::Fine => 0,
        Level::Warning => warning.into(),
        Level::Critical => critical.into(),
        Level::Full => 100,
    }
}

impl Level {
    /// The level of a group that is `used` percent full, if `self` was reported last.
    fn after(self, used: u64, warning: u8, critical: u8) -> Self {
        let reached = |level: &Self| {
            let limit = begins(*level, warning, critical);
            // A reported level stays until the group is well below it.
            used >= if *level <= self { limit.saturating_sub(BELOW) } else { limit }
        };
        [Self::Full, Self::Critical, Self::Warning].into_iter().find(reached).unwrap_or(Self::Fine)
    }
}

/// How full, in percent, rounded down: 100 only where nothing is left.
fn percent(free: u64, all: u64) -> u64 {
    ((all - free.min(all)) * 100).checked_div(all).unwrap_or(0)
}

/// How full a group is, and how long ago all of it was scrubbed: for `v$asm_protection`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    pub(crate) used_percent: u64,
    /// `FINE`, `WARNING`, `CRITICAL`, `FULL`: by the attributes, whatever was reported.
    pub(crate) space: &'static str,
    /// Seconds since the last scrub ended, or since the group was made.
    pub(crate) scrub_age: u64,
    pub(crate) is_scrub_due: bool,
}

impl Upkeep {
    /// How full the group is, in percent.
    fn used_percent(&self) -> u64 {
        let placement = self.placement();
        percent(placement.allocatable(&self.space()), placement.capacity())
    }

    /// Seconds since the last scrub of the group, or since the group was made.
    fn scrub_age(&self, scrubbed: Timestamp) -> u64 {
        let since = scrubbed.max(self.created);
        u64::try_from(self.world.now().saturating_sub(since)).unwrap_or(0) / 1_000_000_000
    }

    fn is_scrub_due(&self, age: u64) -> bool {
        let reminder = self.attributes().scrub_reminder;
        reminder > 0 && age >= reminder
    }

    /// The levels at this moment.
    pub(crate) fn due(&self) -> Due {
        let (used_percent, attributes) = (self.used_percent(), self.attributes());
        let (warning, critical) = (attributes.space_warning, attributes.space_critical);
        // The first round of the caretaker reads it.
        let scrubbed = self.reminders.0.lock().scrubbed;
        let scrub_age = self.scrub_age(scrubbed.unwrap_or(0));
        Due {
            used_percent,
            space: match Level::Fine.after(used_percent, warning, critical) {
                Level::Fine => "FINE",
                Level::Warning => "WARNING",
                Level::Critical => "CRITICAL",
                Level::Full => "FULL",
            },
            scrub_age,
            is_scrub_due: scrubbed.is_some() && self.is_scrub_due(scrub_age),
        }
    }

    /// A round of the caretaker.
    pub(crate) async fn remind(&self) -> Result<(), FileError> {
        self.remind_of_space();
        self.remind_of_catalog();
        self.remind_of_scrub().await
    }

    fn remind_of_space(&self) {
        let placement = self.placement();
        let (free, all) = (placement.allocatable(&self.space()), placement.capacity());
        let used = percent(free, all);
        let attributes = self.attributes();
        let level = {
            let mut told = self.reminders.0.lock();
            let level = told.level.after(used, attributes.space_warning, attributes.space_critical);
            if std::mem::replace(&mut told.level, level) >= level {
                return;
            }
            level
        };
        let left = (free * self.au_size) >> 20;
        let how = match level {
            Level::Full => "is full: nothing more can be allocated".to_owned(),
            _ => format!("is {used} % full: {left} MiB can still be allocated"),
        };
        let text = format!("disk group {} {how}. Add disks to it, or remove files", self.name);
        self.tell(Severity::Alarm, None, text);
    }

    fn remind_of_catalog(&self) {
        self.catalog.look_for_room();
        let left = self.catalog.shortage();
        if std::mem::replace(&mut self.reminders.0.lock().catalog, left.is_some()) {
            return;
        }
        if let Some(left) = left {
            let text = format!(
                "the catalog has {} KiB left and cannot grow: no disk has room for it; when they are used up no file can be made. \
                 Add disks to disk group {}, or remove files",
                left >> 10,
                self.name
            );
            self.tell(Severity::Alarm, None, text);
        }
    }

    async fn remind_of_scrub(&self) -> Result<(), FileError> {
        let scrubbed = self.reminders.0.lock().scrubbed;
        let scrubbed = match scrubbed {
            Some(scrubbed) => scrubbed,
            None => {
                let stored = self.catalog.read(attributes::load_scrubbed).await?.unwrap_or(0);
                *self.reminders.0.lock().scrubbed.get_or_insert(stored)
            }
        };
        let seconds = self.scrub_age(scrubbed);
        let is_due = self.is_scrub_due(seconds);
        if std::mem::replace(&mut self.reminders.0.lock().scrub, is_due) || !is_due {
            return Ok(());
        }
        let how =
            if scrubbed > 0 { "was last scrubbed" } else { "was never scrubbed, and was made" };
        let text = format!(
            "disk group {} {how} {} days ago: what has rotted since is found only when it is read. ALTER DISKGROUP {} SCRUB REPAIR",
            self.name,
            seconds / (24 * 3600),
            self.name
        );
        self.tell(Severity::Alarm, None, text);
        Ok(())
    }

    /// When all of the group was last scrubbed; 0: never. `None`: not read yet.
    pub(crate) fn last_scrubbed(&self) -> Option<Timestamp> {
        self.reminders.0.lock().scrubbed
    }

    /// All of the group was scrubbed.
    pub(crate) async fn note_all_scrubbed(&self) -> Result<(), FileError> {
        let now = self.world.now();
        self.reminders.0.lock().scrubbed = Some(now);
        self.catalog
            .release(false, move |connection| attributes::store_scrubbed(connection, now))
            .await
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_reported_once_until_the_group_is_well_below_it() {
        let mut level = Level::Fine;
        let mut told = Vec::new();
        for used in [50, 84, 85, 86, 84, 85, 95, 94, 95, 100, 99, 100, 92, 95, 82, 85] {
            let next = level.after(used, 85, 95);
            if next > level {
                told.push(used);
            }
            level = next;
        }
        assert_eq!(told, [85, 95, 100, 95, 85]);
        assert_eq!(Level::Fine.after(96, 90, 90), Level::Critical, "both at once");
        assert_eq!(
            (percent(0, 0), percent(1, 1000), percent(0, 1000), percent(9, 8)),
            (0, 99, 100, 0)
        );
    }
}
