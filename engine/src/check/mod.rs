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
pub(crate) mod reminders;
pub(crate) mod scope;
pub mod scrub;

use crate::{
    admin::{AdminError, Code, Report, Scope},
    catalog::on_disks,
    check::{check_progress::Checks, reminders::Reminders, scrub::Scrub},
    error::FileError,
    extent::{Extent, Mirror, own_metadata::MetadataLook, scope::ExtentScope},
    movement::Movement,
    space::mirror_sets::mirrors_wanted,
};
use plinth_format::{DiskNumber, layout::PIECE_SIZE, membership::DiskState};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
    sync::Arc,
};

type Result<T> = std::result::Result<T, FileError>;

/// The rules of a group with AUs of this size, and the sentence for what breaks one.
pub(crate) fn rules(au_size: u64) -> impl Iterator<Item = (String, &'static str)> {
    let (extent, slot) = ((au_size / 512).to_string(), (PIECE_SIZE / 512).to_string());
    RULES.iter().map(move |(query, text)| {
        (query.replace(":extent", &extent).replace(":slot", &slot), *text)
    })
}

/// Faults of names and files: each query finds what breaks one rule. In units of 512 bytes
/// `:extent` is the size of an extent, `:slot` that of the slot of a small file.
const RULES: &[(&str, &str)] = &[
    (
        "SELECT e.parent, e.node FROM entry e LEFT JOIN file f ON f.number = e.node WHERE f.number IS NULL",
        "directory {0} has an entry for file {1}, which does not exist",
    ),
    (
        "SELECT e.parent, e.node FROM entry e LEFT JOIN file f ON f.number = e.parent \
         WHERE f.number IS NULL OR f.kind <> 16384",
        "{0}, which is no directory, has an entry for file {1}",
    ),
    (
        "SELECT f.number, f.links FROM file f WHERE f.kind <> 16384 AND f.links <> \
         (SELECT count(*) FROM entry e WHERE e.node = f.number)",
        "file {0} has {1} links by its count, and another number of names",
    ),
    (
        "SELECT f.number, f.links FROM file f WHERE f.kind = 16384 AND f.links > 0 AND f.links <> \
         2 + (SELECT count(*) FROM entry e WHERE e.parent = f.number AND e.kind = 16384)",
        "directory {0} has {1} links by its count, and another number of subdirectories",
    ),
    (
        "SELECT x.id, x.file FROM extent x LEFT JOIN file f ON f.number = x.file WHERE x.mirrors <> coalesce(f.mirrors, 0)",
        "extent {0} has other mirrors than file {1} asks for, or they are shared",
    ),
    (
        "SELECT x.id, x.file FROM extent x LEFT JOIN file f ON f.number = x.file WHERE x.file <> 0 AND f.number IS NULL",
        "extent {0} belongs to file {1}, which does not exist",
    ),
    (
        "SELECT f.number, f.shared_extent FROM file f LEFT JOIN extent x ON x.id = f.shared_extent AND x.file = 0 \
         WHERE f.shared_extent IS NOT NULL AND x.id IS NULL",
        "file {0} lies in shared extent {1}, which does not exist",
    ),
    (
        "SELECT f.number, f.blocks FROM file f WHERE f.links > 0 AND f.blocks <> \
         :extent * (SELECT count(*) FROM extent x WHERE x.file = f.number) + CASE WHEN f.shared_extent IS NULL THEN 0 ELSE :slot END",
        "file {0} takes {1} blocks of 512 bytes by its count, and another number by its extents",
    ),
    (
        "SELECT a.number, b.number FROM file a JOIN file b ON a.shared_extent = b.shared_extent AND a.slot = b.slot \
         AND a.number < b.number",
        "files {0} and {1} share one slot",
    ),
    (
        "SELECT number, mirrors FROM template WHERE mirrors NOT IN (0, 3) OR fine NOT IN (0, 1) OR system NOT IN (0, 1)",
        "template number {0} asks for what no file can have, {1} mirrors or something else",
    ),
    (
        "SELECT count(*), 26 FROM template WHERE system = 1 HAVING count(*) <> 26",
        "the system has {0} templates, and {1} types of files",
    ),
    (
        "SELECT number, mirrors FROM file WHERE mirrors NOT IN (0, 3) OR fine NOT IN (0, 1) \
         OR (kind <> 32768 AND (mirrors <> 0 OR fine <> 0 OR type IS NOT NULL))",
        "file {0} is said to have {1} mirrors, or a type or stripes that it cannot have",
    ),
    (
        "SELECT parent, node FROM entry WHERE system <> 0 AND (system <> 1 OR kind NOT IN (16384, 32768))",
        "directory {0} has a name of the system's for {1}, which is neither a file nor a directory",
    ),
];

/// A group that is looked after: checked, scrubbed, and reminded of. It knows of no statements but
/// its own.
pub struct Upkeep {
    pub(crate) movement: Arc<Movement>,
    pub(crate) scrub: Scrub,
    pub(crate) checks: Checks,
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
    Extent(u64),
}

type Owners = BTreeMap<(DiskNumber, u32), Owner>;

/// An AU and two that seemed to have it.
type Double = ((DiskNumber, u32), Owner, Owner);

impl Upkeep {
    pub(crate) fn new(movement: Arc<Movement>) -> Arc<Self> {
        Arc::new(Self {
            movement,
            scrub: Scrub::default(),
            checks: Checks::default(),
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
            error => self.store.explain(AdminError::new(Code::Io, error)),
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
        for (query, text) in rules(self.au_size) {
            let found = self
                .catalog
                .read(move |connection| {
                    let mut select = connection.prepare(&format!("{query} LIMIT 100"))?;
                    let rows = select
                        .query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
                    Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
                })
                .await?;
            for (first, second) in found {
                report.bad(
                    text.replace("{0}", &first.to_string()).replace("{1}", &second.to_string()),
                );
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
            for au in run.first..run.first.saturating_add(run.count) {
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
