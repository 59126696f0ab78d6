//! The rules for what no engine knows: disks that no group uses, groups that are not mounted, the
//! write filter, preferred failure groups, devices that hang, alarms that do not arrive.

use super::{
    super::{Instance, preferred::Preferred},
    Finding, Kind,
    Severity::{Note, Warning},
    facts::GroupFacts,
    is_free, quoted,
};
use plinth_engine::admin::{HeaderStatus, Survey};
use plinth_host::lock;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// A device that has not answered for this long hangs.
const SILENT: Duration = Duration::from_secs(4);

/// A disk that no group uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spare {
    pub path: String,
    /// Bytes.
    pub size: u64,
}

/// Facts of the host.
#[derive(Debug, Default)]
pub(super) struct HostFacts {
    survey: Vec<Survey>,
    spares: Vec<Spare>,
    /// Why the disks of the host are not known.
    trouble: Option<String>,
    /// Paths of devices that hang, and for how many seconds.
    silent: Vec<(String, u64)>,
    /// Findings about the write filter.
    filter: Vec<Finding>,
    /// Ways by which alarms do not arrive, and the reasons.
    alarms: BTreeMap<String, String>,
}

impl HostFacts {
    /// Looks at the host. This may take long: a caller does not wait for it without a limit.
    pub(super) fn of(instance: &Instance) -> Self {
        let (survey, trouble) = match instance.discovery.survey() {
            Ok(survey) => (survey, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let free = survey.iter().filter(|disk| is_free(disk.header) && !disk.is_held);
        let spare = |disk: &Survey| Spare { path: disk.path.clone(), size: disk.size };
        Self {
            spares: free.map(spare).collect(),
            survey,
            trouble,
            silent: instance.discovery.silent(SILENT),
            filter: filter(instance),
            alarms: instance.alarms.failing(),
        }
    }

    /// Nothing is known but the devices that hang and the ways for alarms, which are remembered.
    pub(super) fn unknown(instance: &Instance, trouble: String) -> Self {
        let silent = instance.discovery.silent(SILENT);
        let alarms = instance.alarms.failing();
        Self { trouble: Some(trouble), silent, alarms, ..Self::default() }
    }

    /// Disks that no group uses.
    pub(super) fn spares(&self) -> &[Spare] {
        &self.spares
    }

    /// Whether discovery shows a member of a group by this name.
    fn shows(&self, group: &str, name: &str) -> bool {
        self.survey.iter().any(|disk| {
            disk.header == HeaderStatus::Member
                && disk.group.as_deref() == Some(group)
                && disk.name.as_deref() == Some(name)
        })
    }

    /// Whether a disk of a mounted group can be had; true if that is not known.
    pub(super) fn may_be_there(&self, group: &str, name: &str) -> bool {
        self.trouble.is_some() || self.shows(group, name)
    }

    /// All findings. `groups`: those that shall be mounted; `answers`: the facts of those whose
    /// engine answers.
    pub(super) fn findings(
        &self,
        groups: &BTreeMap<String, u32>,
        answers: &[(String, Arc<GroupFacts>)],
        preferred: &Preferred,
    ) -> Vec<Finding> {
        let mut all = self.not_mounted(groups);
        all.extend(preferences(preferred, groups, answers, &self.groups_seen()));
        all.extend(
            self.trouble
                .iter()
                .map(|trouble| Finding::new(Warning, Kind::Discovery, trouble.as_str())),
        );
        all.extend(self.silent.iter().map(|(path, seconds)| {
            let detail = format!(
                "the device has not answered for {}. Make its path work again, or take it out of asm_diskstring",
                super::span(*seconds)
            );
            Finding::new(Warning, Kind::DeviceSilent, detail).on(path.as_str())
        }));
        all.extend(self.spares.iter().map(|spare| unused(spare, answers)));
        all.extend(self.filter.iter().cloned());
        all.extend(self.alarms.iter().map(|(way, reason)| {
            let detail = format!("alarms do not arrive by it: {reason}. Repair it, then try it");
            let found = Finding::new(Warning, Kind::Alarm, detail).on(way.as_str());
            found.mended_by("plinth alarm test")
        }));
        all
    }

    fn groups_seen(&self) -> BTreeSet<&str> {
        let members = self.survey.iter().filter(|disk| disk.header == HeaderStatus::Member);
        members.filter_map(|disk| disk.group.as_deref()).collect()
    }

    /// Groups of discovered disks that this instance has not mounted.
    fn not_mounted(&self, groups: &BTreeMap<String, u32>) -> Vec<Finding> {
        let mut seen: BTreeMap<&str, bool> = BTreeMap::new();
        for disk in self.survey.iter().filter(|disk| disk.header == HeaderStatus::Member) {
            if let Some(group) = disk.group.as_deref().filter(|group| !groups.contains_key(*group))
            {
                *seen.entry(group).or_default() |= disk.is_held;
            }
        }
        let finding = |(group, is_held): (&str, bool)| {
            let found = match is_held {
                true => Finding::new(
                    Note,
                    Kind::NotMounted,
                    "an engine of another instance has its disks",
                ),
                false => Finding::new(
                    Warning,
                    Kind::NotMounted,
                    "the disk group is not mounted, and discovery shows its disks",
                )
                .mended_by(format!("ALTER DISKGROUP {group} MOUNT")),
            };
            Finding { group: Some((0, group.to_owned())), ..found }
        };
        seen.into_iter().map(finding).collect()
    }
}

/// A disk that no group uses; if one group alone is mounted, the statement adds it there.
fn unused(spare: &Spare, answers: &[(String, Arc<GroupFacts>)]) -> Finding {
    let remedy = match answers {
        [(group, facts)] => super::disks::addition(group, facts, std::slice::from_ref(spare)),
        _ => None,
    };
    let detail = format!("a disk of {} that no disk group uses", super::size(spare.size as f64));
    Finding::new(Note, Kind::UnusedDisk, detail).on(spare.path.as_str()).maybe_mended_by(remedy)
}

/// Preferred failure groups that are not there.
fn preferences(
    preferred: &Preferred,
    groups: &BTreeMap<String, u32>,
    answers: &[(String, Arc<GroupFacts>)],
    seen: &BTreeSet<&str>,
) -> Vec<Finding> {
    let is_missing = |group: &str, name: &str| {
        let facts = answers.iter().find(|(of, _)| of == group).map(|(_, facts)| facts);
        match facts {
            Some(facts) => facts.failure_group(name).is_none(),
            // An engine that does not answer, and a group that is not mounted, may have it.
            None => !groups.contains_key(group) && !seen.contains(group),
        }
    };
    let missing: BTreeSet<(&str, &str)> =
        preferred.all().filter(|(group, name)| is_missing(group, name)).collect();
    let left: Vec<String> = preferred
        .all()
        .filter(|pair| !missing.contains(pair))
        .map(|(group, name)| format!("{group}.{name}"))
        .collect();
    let remedy = format!(
        "ALTER SYSTEM SET asm_preferred_read_failure_groups = {}",
        quoted(&left.join(", "))
    );
    let finding = |(group, name): (&str, &str)| {
        let detail = "asm_preferred_read_failure_groups prefers a failure group that is not there: reads go by measurement alone";
        Finding::new(Warning, Kind::Preferred, detail)
            .on(format!("{group}.{name}"))
            .mended_by(remedy.as_str())
    };
    missing.into_iter().map(finding).collect()
}

/// Members that other programs can write although the filter shall keep them away.
fn filter(instance: &Instance) -> Vec<Finding> {
    use super::super::filter::Filtering;
    if lock(&instance.state).filter.is_none() {
        return Vec::new();
    }
    let report = instance.filter_report();
    if !report.is_loaded {
        let why = report.trouble.unwrap_or_else(|| "it was unloaded".to_owned());
        let detail = format!("the write filter shall protect members, and is not loaded: {why}");
        let found = Finding::new(Warning, Kind::Filter, detail);
        return vec![found.mended_by("ALTER SYSTEM FILTER LOAD")];
    }
    if !report.is_enabled {
        let detail = "the write filter is loaded, and disabled: other programs can write members";
        let found = Finding::new(Warning, Kind::Filter, detail);
        return vec![found.mended_by("ALTER SYSTEM FILTER ENABLE")];
    }
    let mut all = Vec::new();
    for disk in instance.filter_disks().unwrap_or_default() {
        let path = &disk.path;
        let found = match disk.filtering {
            Filtering::Enabled | Filtering::NotADevice => continue,
            Filtering::Disabled => Finding::new(
                Note,
                Kind::Filter,
                "the write filter does not protect this member: other programs can write it",
            )
            .mended_by(format!("ALTER SYSTEM FILTER ENABLE DISK {}", quoted(path))),
            Filtering::Writers => {
                let writers = disk.writers.join(", ");
                let detail = format!("can still be written by {writers}: end that program");
                Finding::new(Warning, Kind::Filter, detail)
            }
        };
        all.push(found.on(path.as_str()));
    }
    all
}
