//! Checking groups that are not mounted, from their disks alone.
//!
//! The discovered disks name their groups. Each group is
//!
//!   1. inspected: absent disks, header copies, disks that are not current
//!   2. mounted, as after any stop: log replay, recovery; without bringing disks back
//!   3. checked by the code of `ALTER DISKGROUP ... CHECK`
//!   4. dismounted
//!
//! With `repair` on the disks themselves: a crash anywhere in it is an unclean stop like any other.
//! Without, on an [`Overlay`]: not a byte of a disk changes, and nothing counts as repaired.
//!
//! An unclean stop is no problem: a mount handles it. It gets a remark, and so do its consequences:
//! torn catalog pages that came back from the log.

use crate::{
    admin::{AdminError, Code, HeaderStatus, Operation, Problem, Report, Scope},
    disk::{
        headers::repaired_header,
        identify,
        look::Seen,
        overlay::{self, Overlay},
    },
    event::Severity,
    group::{
        Group,
        mount::{self, Purpose},
    },
    membership::{
        arrival::look_for_members,
        mount_decision::{self, DiskVerdict},
    },
    world::{Disk, World},
};
use futures::future::{Either, select};
use plinth_format::membership::DiskState;
use std::{collections::BTreeSet, pin::pin, sync::Arc, time::Duration};

type Result<T> = std::result::Result<T, AdminError>;

/// Called with a group's name and the progress of its check.
pub type See<'a> = Option<&'a (dyn Fn(&str, &Operation) + Sync)>;

/// The interval of these calls.
const LOOK: Duration = Duration::from_millis(300);
/// The most remarks on one group that are reported.
const REMARKS_MAX: usize = 200;

impl Group {
    /// Checks every group to which discovered disks belong; none of them may be mounted. `repair`:
    /// problems are repaired where possible; otherwise no disk is written.
    ///
    /// # Errors
    /// If no discovered disk belongs to a group, or the only group cannot be mounted.
    pub async fn check_files(world: &Arc<dyn World>, repair: bool) -> Result<Report> {
        Self::check_files_watched(world, repair, None).await
    }

    /// The same; `see` is called now and then with the progress.
    ///
    /// # Errors
    /// As [`Group::check_files`].
    pub async fn check_files_watched(
        world: &Arc<dyn World>,
        repair: bool,
        see: See<'_>,
    ) -> Result<Report> {
        let mut report = Report::default();
        let groups = look_around(world, &mut report).await?;
        let alone = groups.len() == 1;
        for name in groups {
            match check_group(world, &name, repair, see).await {
                Ok(one) => report.add(&name, alone, one),
                Err(error) if alone => return Err(error),
                Err(error) => {
                    let hint = error.hint.map_or_else(String::new, |hint| format!("; {hint}"));
                    report.bad(format!("{}{hint}", error.message));
                }
            }
        }
        Ok(report)
    }
}

impl Report {
    /// Adds another group's report.
    fn add(&mut self, group: &str, alone: bool, other: Self) {
        let prefix = if alone { String::new() } else { format!("disk group {group}: ") };
        self.problems.append(other.problems, |problem| Problem {
            text: format!("{prefix}{}", problem.text),
            ..problem
        });
        self.remarks.extend(other.remarks.into_iter().map(|text| format!("{prefix}{text}")));
        self.missing.extend(other.missing.into_iter().map(|text| format!("{prefix}{text}")));
        self.extents_checked += other.extents_checked;
        self.bytes_read += other.bytes_read;
    }
}

/// The groups of the discovered disks; problems of other disks go into the report.
async fn look_around(world: &Arc<dyn World>, report: &mut Report) -> Result<BTreeSet<String>> {
    let mut groups = BTreeSet::new();
    let mut others = Vec::new();
    for disk in identify::survey(world).await? {
        let remark = disk.remark.map_or_else(String::new, |remark| format!(": {remark}"));
        match (disk.header, disk.group) {
            (HeaderStatus::Member | HeaderStatus::Conflict, Some(group)) => {
                groups.insert(group);
            }
            (HeaderStatus::Candidate, _) => {
                others.push(format!("{} carries no header of a disk group{remark}", disk.path))
            }
            (HeaderStatus::Former, Some(group)) => {
                others.push(format!("{} belonged to {group}, which was dropped", disk.path))
            }
            (status, _) => others.push(format!("{} is {status}{remark}", disk.path)),
        }
    }
    if groups.is_empty() {
        let seen =
            if others.is_empty() { "no disk was found".to_owned() } else { others.join("; ") };
        return Err(AdminError::new(
            Code::NoGroup,
            format!("no visible disk belongs to a disk group: {seen}"),
        )
        .hint("name all disks of the disk group"));
    }
    report.remarks.extend(others);
    Ok(groups)
}

/// The records on the disks of a group before it is mounted.
#[derive(Default)]
struct Look {
    problems: Vec<String>,
    /// Disks with header copies to repair, and the sentence about it.
    headers: Vec<(Arc<dyn Disk>, String)>,
    /// The alert that the mount will give about them, which is true only with `repair`.
    repaired: BTreeSet<String>,
    warnings: BTreeSet<String>,
    unclean: bool,
}

async fn look(world: &dyn World, name: &str) -> Look {
    let mut look = Look::default();
    let mut probe_results = Vec::new();
    // The mount reports a refusal.
    let Ok(looked) = look_for_members(world, name).await else { return look };
    for Seen { disk, what: (header, probe_result), .. } in looked.seen {
        if !header.wrong.is_empty() {
            let places: Vec<_> = header.wrong.iter().map(u64::to_string).collect();
            let (disk_name, path) = (&header.best.name, disk.path());
            let text = format!(
                "disk {disk_name} ({path}): the header copy at offset {} is missing or damaged",
                places.join(", ")
            );
            look.headers.push((Arc::clone(&disk), text));
            look.repaired.insert(repaired_header(disk_name, path, &header.wrong));
        }
        probe_results.push(probe_result);
    }
    let Ok(decision) = mount_decision::choose(name, &probe_results, false) else { return look };
    look.unclean = decision.membership.mounted;
    look.problems = decision.warnings.into_iter().map(|warning| warning.text).collect();
    look.warnings = look.problems.iter().cloned().collect();
    for verdict in &decision.disks {
        let Some(disk) = decision.membership.disk(verdict.number) else { continue };
        let what = match (verdict.verdict, disk.state) {
            (DiskVerdict::Absent, _) => "is missing",
            (DiskVerdict::Stale | DiskVerdict::Current, DiskState::Offline) => {
                "is offline; ONLINE it when the disk group is mounted"
            }
            (DiskVerdict::Stale | DiskVerdict::Current, DiskState::Syncing) => {
                "is not up to date; its resync goes on at the next mount"
            }
            _ => continue,
        };
        let text = format!("disk {} (failure group {}) {what}", disk.name, disk.failure_group);
        if !look.problems.iter().any(|problem| problem.starts_with(&format!("disk {} ", disk.name)))
        {
            look.problems.push(text);
        }
    }
    look
}

async fn check_group(
    real: &Arc<dyn World>,
    name: &str,
    repair: bool,
    see: See<'_>,
) -> Result<Report> {
    let view = Arc::new(if repair {
        Overlay::transparent(Arc::clone(real))
    } else {
        Overlay::new(Arc::clone(real), overlay::LIMIT)
    });
    let world = Arc::clone(&view) as Arc<dyn World>;
    let look = look(&*world, name).await;
    let result = mount_and_check(&world, name, repair, look, see).await;
    if view.is_full() {
        let text = format!(
            "disk group {name}: a check without repair would need more than {} MiB of memory",
            overlay::LIMIT >> 20
        );
        return Err(AdminError::new(Code::NoSpace, text)
            .hint("check it with --repair, or mount it and check it then"));
    }
    let (mut report, expected) = result?;
    report.remarks.extend(view.unclaimed());
    for event in view.take_events() {
        let known = expected.contains(&event.text)
            || report.problems.iter().any(|problem| problem.text == event.text);
        match event.severity {
            Severity::Alarm if !known => report.bad(event.text),
            Severity::Warning if !known => report.remarks.push(event.text),
            _ => {}
        }
    }
    let more = report.remarks.len().saturating_sub(REMARKS_MAX);
    if more > 0 {
        report.remarks.truncate(REMARKS_MAX);
        report.remarks.push(format!("and {more} remarks more"));
    }
    if !repair {
        report.problems.take_back_repairs();
    }
    Ok(report)
}

/// The report, and sentences of events that it contains already.
async fn mount_and_check(
    world: &Arc<dyn World>,
    name: &str,
    repair: bool,
    look: Look,
    see: See<'_>,
) -> Result<(Report, BTreeSet<String>)> {
    let mut expected = look.warnings;
    expected.extend(look.repaired);
    let group = mount::mount(Arc::clone(world), name, false, Purpose::Check, &[]).await?;
    let mut report = Report::default();
    look.problems.into_iter().for_each(|text| report.bad(text));
    for (disk, text) in look.headers {
        let good = identify::read_header(&**world, &*disk)
            .await
            .is_some_and(|header| header.wrong.is_empty());
        report.problems.push(Problem { text, repaired: good });
    }
    for text in group.store.take_mended() {
        expected.insert(text.clone());
        if !look.unclean {
            report.problems.push(Problem { text, repaired: true });
        } else {
            report.remarks.push(text);
        }
    }
    let checked = {
        let mut check = pin!(group.check_quietly(&Scope::All, repair));
        match see {
            None => check.await,
            Some(see) => loop {
                match select(check, world.sleep(LOOK)).await {
                    Either::Left((checked, _)) => break checked,
                    Either::Right((_, going_on)) => check = going_on,
                }
                group.list_operations().iter().for_each(|operation| see(name, operation));
            },
        }
    };
    let missing = group.missing_mirrors().await;
    let ended = group.dismount(false).await;
    if ended.is_err() {
        let _ = group.dismount(true).await;
    }
    report.add(name, true, checked?);
    report.name_missing(missing);
    if let Err(error) = ended {
        report.bad(error.message);
    }
    Ok((report, expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        admin::{NewDisk, NewGroup},
        api::{Caller, NewFile, ROOT},
        catalog::{store::CatalogFile, tables},
        extent,
        files::session::Session,
        testing::{MemoryDisk, Numbers, TestWorld, block_on},
    };
    use plinth_format::{BLOCK_SIZE, Redundancy, layout::MIB, page::PAGE_SIZE};

    const SIZE: u64 = 64 * MIB;

    /// Three disks in three failure groups, a group called DATA with one file on them.
    struct Lab {
        world: Arc<TestWorld>,
        disks: Vec<MemoryDisk>,
        group: Option<Arc<Group>>,
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        Numbers::new(99).fill(&mut bytes);
        bytes
    }

    impl Lab {
        fn new() -> Self {
            let world = TestWorld::new();
            let disks: Vec<_> = (0..3)
                .map(|index| {
                    MemoryDisk::noisy(&format!("/disk{index}"), SIZE, 512, 4096, index + 1)
                })
                .collect();
            disks.iter().for_each(|disk| world.attach(disk));
            let new_disk = |disk: &MemoryDisk| NewDisk {
                path: disk.path().to_owned(),
                name: None,
                failure_group: None,
                quorum: false,
                size: None,
                force: false,
            };
            let new = NewGroup {
                name: "DATA".to_owned(),
                redundancy: Redundancy::Normal,
                au_size: MIB,
                attributes: Vec::new(),
                disks: disks.iter().map(new_disk).collect(),
            };
            let mut lab = Self { world, disks, group: None };
            block_on(Group::create(&lab.world(), new)).expect("the group is made");
            lab.mount();
            lab
        }

        fn world(&self) -> Arc<dyn World> {
            Arc::clone(&self.world) as Arc<dyn World>
        }

        fn mount(&mut self) {
            self.group = Some(
                block_on(Group::mount(self.world(), "DATA", false)).expect("the group is mounted"),
            );
        }

        fn group(&self) -> &Arc<Group> {
            self.group.as_ref().expect("mounted")
        }

        fn write_file(&self) {
            let session = Session::new(Arc::clone(self.group()), None);
            let caller = Caller { uid: 0, gid: 0 };
            let entry = block_on(session.create(ROOT, b"table", NewFile::Regular, 0o644, caller))
                .expect("created");
            block_on(session.write(entry.node, 0, &noise(3_000_000), false)).expect("written");
        }

        fn dismount(&mut self) {
            block_on(self.group.take().expect("mounted").dismount(false)).expect("dismounted");
        }

        fn kill(&mut self) {
            let group = self.group.take().expect("mounted");
            self.disks.iter().for_each(MemoryDisk::kill_users);
            group.abandon();
        }

        fn images(&self) -> Vec<Vec<u8>> {
            self.disks.iter().map(|disk| disk.peek(0, SIZE as usize)).collect()
        }

        /// A check that must not change a byte.
        fn look(&self) -> Report {
            let before = self.images();
            let report = self.check(false);
            assert!(before == self.images(), "a check without repair changed a disk");
            assert!(report.problems.iter().all(|problem| !problem.repaired));
            report
        }

        fn check(&self, repair: bool) -> Report {
            let world: Arc<dyn World> = self.world();
            block_on(Group::check_files(&world, repair)).expect("the check runs")
        }

        fn assert_clean(&self) -> Report {
            let report = self.look();
            assert_eq!(report.problems, [], "{:?}", report.remarks);
            report
        }

        /// It is found, found again by a repair, and then it is gone.
        fn assert_found_and_repaired(&self, text: &str) {
            let has =
                |report: &Report| report.problems.iter().any(|problem| problem.text.contains(text));
            let report = self.look();
            assert!(has(&report), "{text}: {report:?}");
            assert!(
                !report.remarks.iter().any(|text| text.contains("repaired")),
                "nothing was: {report:?}"
            );
            let report = self.check(true);
            assert!(has(&report), "{text}: {report:?}");
            assert!(report.is_good(), "{report:?}");
            self.assert_clean();
        }
    }

    #[test]
    fn a_clean_group_is_clean() {
        let mut lab = Lab::new();
        lab.write_file();
        lab.dismount();
        let report = lab.assert_clean();
        assert_eq!(report.extents_checked, 3);
        assert_eq!(report.remarks, [""; 0]);
    }

    /// The engine is killed: that gets a remark and is no problem, and the check leaves it to the
    /// mount.
    #[test]
    fn an_unclean_stop_is_no_problem() {
        let mut lab = Lab::new();
        lab.write_file();
        lab.kill();
        for _ in 0..2 {
            let report = lab.assert_clean();
            assert!(report.remarks.iter().any(|text| text.contains("unclean")), "{report:?}");
        }
        lab.check(true);
        let report = lab.assert_clean();
        assert_eq!(report.remarks, [""; 0]);
    }

    #[test]
    fn a_mounted_group_is_refused() {
        let lab = Lab::new();
        let world: Arc<dyn World> = lab.world();
        let error = block_on(Group::check_files(&world, false)).expect_err("mounted");
        assert_eq!(error.code, Code::HeldElsewhere, "{error}");
    }

    #[test]
    fn disks_of_no_group_are_named() {
        let world = TestWorld::new();
        world.attach(&MemoryDisk::noisy("/stranger", SIZE, 512, 512, 1));
        let world: Arc<dyn World> = world;
        let error = block_on(Group::check_files(&world, true)).expect_err("no group");
        assert_eq!(error.code, Code::NoGroup);
        assert!(error.message.contains("/stranger"), "{error}");
    }

    /// A block of a file rots on one mirror.
    #[test]
    fn a_rotten_block_is_found_and_repaired() {
        let mut lab = Lab::new();
        lab.write_file();
        let extent = block_on(lab.group().catalog.read(|connection| {
            let first = tables::extent::ids_from(connection, 0, 1)?[0];
            Ok(extent::load(connection, crate::space::extent_id::ExtentId(first))?)
        }));
        let mirror = extent.expect("read").expect("there is an extent").mirrors()[1];
        let offset = lab.group().members[&mirror.disk].layout().au_offset(mirror.au);
        lab.dismount();
        lab.disks[usize::from(mirror.disk.0)]
            .corrupt(offset + 2 * BLOCK_SIZE as u64, &noise(BLOCK_SIZE));
        lab.assert_found_and_repaired("do not match their checksum");
    }

    /// Any one or two copies of a header are lost.
    #[test]
    fn lost_header_copies_are_found_and_repaired() {
        let mut lab = Lab::new();
        let places = lab.group().members.values().next().expect("a disk").layout().header_places();
        lab.dismount();
        for lost in [&places[..1], &places[1..2], &places[1..], &places[..2]] {
            for place in lost {
                lab.disks[1].corrupt(*place, &noise(BLOCK_SIZE));
            }
            lab.assert_found_and_repaired("the header copy at offset");
        }
    }

    /// Each page of the catalog in turn rots on each mirror in turn.
    #[test]
    fn a_rotten_catalog_page_is_found_and_repaired() {
        let mut lab = Lab::new();
        lab.write_file();
        let runs = lab.group().voters.current().catalog.clone();
        let layout = lab.group().members.values().next().expect("a disk").layout();
        lab.dismount();
        for run in runs.iter().filter(|run| run.file == CatalogFile::Database && run.at == 0) {
            for page in [0, 1, 3] {
                let offset = layout.au_offset(run.first) + page * PAGE_SIZE as u64;
                lab.disks[usize::from(run.disk.0)].corrupt(offset, &noise(PAGE_SIZE));
                lab.assert_found_and_repaired("catalog");
            }
        }
    }

    /// A disk is overwritten from end to end: it is named as absent, and the rest is checked.
    #[test]
    fn an_overwritten_disk_is_absent() {
        let mut lab = Lab::new();
        lab.write_file();
        lab.dismount();
        lab.disks[2].corrupt(0, &noise(SIZE as usize));
        let report = lab.look();
        assert!(
            report.problems.iter().any(|problem| problem.text.contains("DATA_0002")),
            "{report:?}"
        );
        assert!(report.remarks.iter().any(|text| text.contains("/disk2")), "{report:?}");
        assert!(!lab.check(true).is_good());
        lab.mount();
        lab.dismount();
    }

    /// Too few disks are discovered: the refusal is the mount's.
    #[test]
    fn too_few_disks_are_refused() {
        let mut lab = Lab::new();
        lab.dismount();
        lab.world.detach("/disk0");
        lab.world.detach("/disk1");
        let world: Arc<dyn World> = lab.world();
        let error = block_on(Group::check_files(&world, false)).expect_err("one of three");
        assert_eq!(error.code, Code::NoQuorum, "{error}");
    }
}
