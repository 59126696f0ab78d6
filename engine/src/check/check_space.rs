//! Rule 8 of a check: the free space in memory is what the catalog leaves free.
//!
//! Both change while the group is in use, and not at the same moment: an AU is taken before a
//! commit names it, and given back after a commit has released it. So both are counted while
//! nothing is in between, and a difference counts only if it is still there after a time in which
//! no AU was taken or given back.

use crate::{
    admin::Report,
    catalog::{on_disks, tables},
    check::Upkeep,
    error::FileError,
};
use plinth_format::DiskNumber;
use std::{collections::BTreeMap, time::Duration};

/// How often both are counted before it is given up: the group is too busy.
const TRIES: usize = 8;
/// A commit that was answered has been noted by then.
const PAUSE: Duration = Duration::from_millis(50);

/// The differences, and the count of changes at which they were seen.
type Difference = (u64, Vec<String>);

impl Upkeep {
    pub(crate) async fn check_space(&self, report: &mut Report) -> Result<(), FileError> {
        let mut last: Option<Difference> = None;
        for _ in 0..TRIES {
            match self.compare_space().await? {
                Some((_, differences)) if differences.is_empty() => return Ok(()),
                Some(found) if last.as_ref() == Some(&found) => {
                    found.1.into_iter().for_each(|text| report.bad(text));
                    return Ok(());
                }
                found => last = found.or(last),
            }
        }
        Ok(())
    }

    /// `None`: an AU is in between, and nothing can be concluded.
    async fn compare_space(&self) -> Result<Option<Difference>, FileError> {
        let before = {
            let space = self.space();
            if space.is_between() {
                return Ok(None);
            }
            space.changes()
        };
        let mut owned = self.count_owned().await?;
        // The counted AUs may be of a commit that is still on its way to the disks: it ends, and is
        // noted.
        self.catalog.release(false, |_| Ok(())).await?;
        self.world.sleep(PAUSE).await;
        for (disk, _) in on_disks::units(&self.voters.current()) {
            *owned.entry(disk).or_default() += 1;
        }
        let space = self.space();
        if space.changes() != before || space.is_between() {
            return Ok(None);
        }
        let mut differences = Vec::new();
        for member in self.members.values().filter(|member| !member.quorum) {
            let used = u64::from(space.used(member.number));
            let owned = owned.get(&member.number).copied().unwrap_or(0);
            if used != owned {
                differences.push(format!(
                    "disk {}: {used} AUs are taken, {owned} are owned",
                    member.name()
                ));
            }
        }
        Ok(Some((before, differences)))
    }

    /// AUs of each disk that extents have.
    async fn count_owned(&self) -> Result<BTreeMap<DiskNumber, u64>, FileError> {
        self.catalog.read(|connection| Ok(tables::extent::count_aus(connection)?)).await
    }
}
