//! Checking a group against its invariants.
//!
//! The same code serves `ALTER DISKGROUP ... CHECK`, `plinth check` and the tests. Nothing is
//! changed unless `repair`; a repair does what a read of the same block would do.
//!
//!   1. The catalog's structure is sound, and its mirrors are equal; those of its log are what
//!      memory has.
//!   2. Every name leads to a file, link counts are true, every extent belongs to a file, and each
//!      file's size is that of its extents.
//!   3. Each AU is owned once, by an extent or by the catalog, and holds data.
//!   4. An extent has as many mirrors as its file or the group's redundancy says, or more; two
//!      never share a failure group.
//!   5. Each slot of a shared extent belongs to one file.
//!   6. Header copies, stamps, memberships, activity logs and checksum blocks of open regions are
//!      what the engine wrote (`own_metadata.rs`).
//!   7. On every online disk, all pieces marked as data match their checksums, and mirrors are
//!      equal.
//!   8. The free space in memory is what the catalog leaves free.
//!   9. Templates, and the settings that files took from them, are possible in the group; the
//!      system's names are those of files and directories.
//!  10. The membership in force gives the catalog each AU once, on online disks.

#[cfg(test)]
pub(crate) mod cases;
pub(crate) mod check_progress;
pub(crate) mod check_space;
pub(crate) mod give_back;
pub(crate) mod reminders;
pub(crate) mod scope;
pub mod scrub;

use crate::{
    admin::{AdminError, Code, Report, Scope},
    catalog::{on_disks, tables::rules},
    check::{check_progress::Checks, give_back::Reclaim, reminders::Reminders, scrub::Scrub},
    error::FileError,
    extent::{Extent, Mirror, own_metadata::MetadataLook, scope::ExtentScope},
    movement::Movement,
    space::{extent_id::ExtentId, mirror_sets::mirrors_wanted},
};
use plinth_format::{Au, DiskNumber, membership::DiskState};
use rusqlite::Connection;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
    sync::Arc,
};

type Result<T> = std::result::Result<T, FileError>;

/// A group that is looked after: checked, scrubbed, and reminded of. It knows of no statements but
/// its own.
pub struct Upkeep {
    pub(crate) movement: Arc<Movement>,
    pub(crate) scrub: Scrub,
    pub(crate) checks: Checks,
    pub(crate) reclaim: Reclaim,
    pub(crate) reminders: Reminders,
}

impl Deref for Upkeep {
    type Target = Arc<Movement>;

    fn deref(&self) -> &Arc<Movement> {
        &self.movement
    }
}

impl std::fmt::Debug for Upkeep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Upkeep of {}", self.name)
    }
}

/// The owner of an AU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Catalog,
    Extent(ExtentId),
}

type Owners = BTreeMap<(DiskNumber, Au), Owner>;

/// An AU and two that seemed to have it.
type Double = ((DiskNumber, Au), Owner, Owner);

impl Upkeep {
    pub(crate) fn new(movement: Arc<Movement>) -> Arc<Self> {
        Arc::new(Self {
            movement,
            scrub: Scrub::default(),
            checks: Checks::default(),
            reclaim: Reclaim::default(),
            reminders: Reminders::default(),
        })
    }

    /// A check that the alert log does not mention.
    ///
    /// # Errors
    /// If the scope does not exist, or the check itself cannot go on.
    pub(crate) async fn check_quietly(
        &self,
        scope: &Scope,
        repair: bool,
    ) -> std::result::Result<Report, AdminError> {
        let part = self.part(scope).await?;
        self.check_part(&part, repair).await.map_err(|error| match error {
            // It is asked again and again until then (`Catalog::read`).
            FileError::SnapshotTooOld => AdminError::new(Code::Busy, format!("the check cannot end: {error}")).hint(
                "run it again when fewer files are made and removed, or CHECK a part of the disk group: DISK, FILE",
            ),
            error => self.store.explain(error.into()),
        })
    }

    /// Checks a scope: headers of its disks, and its extents. Rules of the group as a whole are
    /// checked only if the scope is all of it.
    async fn check_part(&self, part: &ExtentScope, repair: bool) -> Result<Report> {
        let mut report = Report::default();
        let checking = self.begin_check(part).await?;
        if part.is_all() {
            self.check_catalog_mirrors(&mut report, repair).await?;
            for complaint in self.catalog.verify().await? {
                report.bad(format!("catalog: {complaint}"));
            }
            self.check_rules(&mut report).await?;
        }
        report
            .problems
            .extend(self.look_at_own_metadata(part, MetadataLook::thorough(repair)).await);
        if part.is_all() {
            self.check_membership(&mut report);
        }
        let mut owners: Owners = on_disks::units(&self.voters.current())
            .into_iter()
            .map(|unit| (unit, Owner::Catalog))
            .collect();
        let mut doubles = Vec::new();
        let mut from = 0;
        loop {
            let Some((extents, next)) = self.some_of(part, from).await? else { break };
            from = next;
            for extent in extents {
                self.check_place(&extent, &mut owners, &mut doubles, &mut report);
                let before = report.bytes_read;
                self.check_data(&extent, repair, &mut report).await?;
                report.extents_checked += 1;
                checking.advance(self.world.monotonic(), report.bytes_read - before);
            }
        }
        if doubles.is_empty() && part.is_all() {
            self.check_space(&mut report).await?;
        }
        self.check_doubles(doubles, &mut report).await?;
        if repair {
            // Repaired blocks stay so; and so do blocks that were right only because a write had
            // just replaced them.
            self.flush_disks().await?;
        }
        Ok(report)
    }

    async fn check_catalog_mirrors(&self, report: &mut Report, repair: bool) -> Result<()> {
        let mut from = Some(0);
        while let Some(offset) = from {
            let store = Arc::clone(&self.store);
            let ((problems, next), _) = self
                .catalog
                .release(false, move |_| Ok(store.compare_mirrors(offset, repair)))
                .await?;
            report.problems.extend(problems);
            from = next;
        }
        report.problems.extend(self.catalog.compare_log(repair).await?);
        Ok(())
    }

    /// Invariants 1 and 6: the catalog and its mirrors, and what the engine wrote for itself.
    pub(crate) async fn check_metadata(&self, repair: bool, report: &mut Report) -> Result<()> {
        self.check_catalog_mirrors(report, repair).await?;
        for complaint in self.catalog.verify().await? {
            report.bad(format!("catalog: {complaint}"));
        }
        report.problems.extend(
            self.look_at_own_metadata(&ExtentScope::All, MetadataLook::thorough(repair)).await,
        );
        Ok(())
    }

    /// AUs that two seemed to have: one of them may have been deleted before the other was made.
    async fn check_doubles(&self, doubles: Vec<Double>, report: &mut Report) -> Result<()> {
        for ((disk, au), one, other) in doubles {
            let mut names = Vec::new();
            for owner in [one, other] {
                match owner {
                    Owner::Catalog => {
                        let units = on_disks::units(&self.voters.current());
                        names.extend(units.contains(&(disk, au)).then(|| "the catalog".to_owned()));
                    }
                    Owner::Extent(id) => {
                        let alive = self.alive(vec![id]).await?;
                        let owners = alive
                            .iter()
                            .filter(|extent| extent.mirrors().contains(&Mirror { disk, au }));
                        names.extend(owners.map(|extent| {
                            format!("extent {} of file {}", extent.number, extent.file)
                        }));
                    }
                }
            }
            if let ([one, other], Some(member)) = (&names[..], self.members.get(&disk)) {
                report.bad(format!(
                    "AU {au} of disk {} belongs to {one} and to {other}",
                    member.name()
                ));
            }
        }
        Ok(())
    }

    async fn check_rules(&self, report: &mut Report) -> Result<()> {
        for (rule, sql) in rules::all(self.au_size) {
            let find = move |connection: &Connection| Ok(rules::find(connection, &sql)?);
            for found in self.catalog.read(find).await? {
                report.bad(rule.report(found));
            }
        }
        Ok(())
    }

    /// Rule 10. A change that waits for voters was reported already.
    fn check_membership(&self, report: &mut Report) {
        if self.voters.is_waiting() {
            return;
        }
        let membership = self.voters.current();
        let mut units = BTreeSet::new();
        for run in &membership.catalog {
            let Some(disk) = membership.disk(run.disk) else {
                report.bad(format!(
                    "the catalog has a mirror on disk number {}, which is not in the group",
                    run.disk
                ));
                continue;
            };
            if disk.state != DiskState::Online {
                report.bad(format!(
                    "the catalog has a mirror on disk {}, which is not online",
                    disk.name
                ));
            }
            for au in run.aus() {
                if !units.insert((run.disk, au)) {
                    report.bad(format!(
                        "AU {au} of disk {} is given to the catalog twice",
                        disk.name
                    ));
                }
            }
        }
    }

    fn check_place(
        &self,
        extent: &Extent,
        owners: &mut Owners,
        doubles: &mut Vec<Double>,
        report: &mut Report,
    ) {
        let name = format!("extent {} of file {}", extent.number, extent.file);
        let mut groups = BTreeSet::new();
        let needed = self.redundancy();
        let mirrors = extent.mirrors();
        // The redundancy may change meanwhile: the lower of the values before and after is
        // demanded.
        let needed = needed.min(self.redundancy());
        // An extent whose file asks for more mirrors gets them at once, and keeps them; but not
        // during a conversion.
        let own = if self.is_converting() {
            needed.mirrors()
        } else {
            mirrors_wanted(extent.own, &self.voters.current())
        };
        if extent.is_tombstone() {
            // It was deleted a moment ago, and disks may have left since.
            return;
        }
        if mirrors.is_empty() {
            report.bad(format!("{name} has no mirror"));
        } else if mirrors.len() < needed.mirrors() {
            report.bad(format!(
                "{name} has {} mirrors, in a group of {needed} redundancy",
                mirrors.len()
            ));
        } else if mirrors.len() < own {
            report.bad(format!(
                "{name} has {} mirrors, and its file has HIGH redundancy",
                mirrors.len()
            ));
        }
        for mirror in mirrors {
            let Some(member) = self.members.get(&mirror.disk) else {
                report.bad(format!(
                    "{name} has a mirror on disk number {}, which is not in the group",
                    mirror.disk
                ));
                continue;
            };
            if !groups.insert(&member.failure_group) {
                report.bad(format!(
                    "{name} has two mirrors in failure group {}",
                    member.failure_group
                ));
            }
            if !member.layout().is_data(mirror.au) {
                report.bad(format!(
                    "{name} lies in AU {} of disk {}, which holds no data",
                    mirror.au,
                    member.name()
                ));
            }
            let unit = (mirror.disk, mirror.au);
            if let Some(other) = owners.insert(unit, Owner::Extent(extent.id)) {
                doubles.push((unit, other, Owner::Extent(extent.id)));
            }
        }
    }
}
