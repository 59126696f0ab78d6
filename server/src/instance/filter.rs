//! The write filter of the host (`plinth_host::filter`), as the instance keeps it: every member of
//! a group that discovery shows is protected, mounted or not, but for those that the operator has
//! excepted.
//!
//! ```text
//!   off -- ALTER SYSTEM FILTER LOAD --> loaded, members protected -- FILTER DISABLE --> loaded
//!    ^--------------- FILTER UNLOAD ----------------+-------------------------------------+
//! ```
//!
//! Members are looked for after each statement that makes or drops some, when the kernel says that
//! a block device came or went, and every [`BETWEEN_LOOKS`]. A disk that is not a member any more
//! is released then. One that discovery does not show stays protected, as long as its device is
//! there.
//!
//! The operator's wish is in `instance.json`, so that the next instance, or the one after a restart
//! of the host, loads the filter again. Where that fails, the alert log and `v$asm_filter` say why;
//! the engines' exclusive opens keep file systems, LVM and MD away from members, and nothing else.

use super::{Instance, Result};
use crate::{sql::statement::FilterChange, users};
use plinth_engine::{
    admin::{AdminError, Code, HeaderStatus, Survey},
    event::Severity,
};
use plinth_host::{
    filter::{DeviceEvents, Filter, Member, Node, NotLoaded, Refusal, Writer},
    lock,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

/// How often members are looked for when nothing happens.
const BETWEEN_LOOKS: Duration = Duration::from_secs(15);
/// How often refusals are looked for.
const BETWEEN_REPORTS: Duration = Duration::from_secs(2);
/// Most lines of refusals at once in the alert log.
const LINES_MAX: usize = 10;
/// The protection of disks where there is no filter.
const WITHOUT: &str = "without it, engines keep file systems, LVM and MD away from their disks by \
                       exclusive opens; a program that just writes, such as dd, is not refused";

/// The operator's wish.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Members are protected; else the filter is loaded and refuses nothing.
    pub enabled: bool,
    /// Members that are not protected: the group's id and the disk's name.
    #[serde(default)]
    pub except: BTreeSet<(String, String)>,
}

/// Facts that the kernel does not keep for the filter.
#[derive(Default)]
pub struct Known {
    /// Why the filter that is wanted is not loaded.
    trouble: Option<String>,
    /// Programs that had a member open for writing before it was protected.
    writers: BTreeMap<Node, Vec<Writer>>,
    /// The members that discovery showed last.
    seen: BTreeMap<Node, Seen>,
}

/// A member that discovery shows.
#[derive(Debug, Clone)]
struct Seen {
    path: String,
    group: String,
    name: String,
    is_excepted: bool,
}

/// The state of the filter, for `v$asm_filter`.
pub struct Report {
    pub is_loaded: bool,
    pub is_enabled: bool,
    /// Why it is not loaded although it is wanted.
    pub trouble: Option<String>,
    pub refused: u64,
}

/// Whether other programs can write a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filtering {
    Enabled,
    /// They cannot open it for writing, but some have it open from before.
    Writers,
    Disabled,
    NotADevice,
}

impl Filtering {
    /// As SQL shows it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Enabled => "ENABLED",
            Self::Writers => "WRITERS",
            Self::Disabled => "DISABLED",
            Self::NotADevice => "NOT A DEVICE",
        }
    }
}

/// A member, for `v$asm_filter_disk`.
pub struct ReportedDisk {
    /// Of the group and the disk; NULL of a member that discovery does not show.
    pub names: Option<(String, String)>,
    pub path: String,
    pub filtering: Filtering,
    pub refused: u64,
    pub nodes: Vec<String>,
    pub writers: Vec<String>,
}

/// A refusal, for `v$asm_filter_refusal`.
pub struct ReportedRefusal {
    pub refusal: Refusal,
    pub path: String,
    pub names: Option<(String, String)>,
}

fn not_loaded(error: &NotLoaded) -> AdminError {
    AdminError::new(Code::NotSupported, format!("the write filter: {error}"))
        .hint(format!("{}; {WITHOUT}", error.remedy))
}

fn refused(error: &io::Error) -> AdminError {
    AdminError::new(Code::Io, format!("the write filter: {error}"))
        .hint("ALTER SYSTEM FILTER LOAD loads it anew, as root")
}

fn describe(writer: &Writer) -> String {
    format!("process {} ({}) on {}", writer.process, writer.program, writer.node.name())
}

/// The processes of this program: engines, lookers, other instances.
fn ours() -> BTreeSet<u32> {
    let program = |process: &str| {
        let path = fs::read_link(format!("/proc/{process}/exe")).ok()?;
        let path = path.into_os_string().into_string().ok()?;
        // The program was replaced since the process began.
        Some(path.trim_end_matches(" (deleted)").to_owned())
    };
    let own = program("self");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let process = entry.file_name().into_string().ok()?;
            (own.is_some() && program(&process) == own).then(|| process.parse().ok())?
        })
        .collect()
}

impl Instance {
    /// Carries out `ALTER SYSTEM FILTER`. Returns notes for the client: disks that are not
    /// protected although that was asked for.
    ///
    /// # Errors
    /// If the host can have no filter, with the reason; if a path is no member's.
    pub fn change_filter(&self, change: &FilterChange) -> Result<Vec<String>> {
        match change {
            FilterChange::Load => {
                let _one = lock(&self.filter);
                Filter::load().map_err(|error| not_loaded(&error))?;
                self.remember(|state| {
                    state.filter.get_or_insert_default().enabled = true;
                })?;
            }
            FilterChange::Unload => {
                self.remember(|state| state.filter = None)?;
                let _one = lock(&self.filter);
                Filter::unload().map_err(|error| refused(&error))?;
                self.alert.line(Severity::Note, "instance", "the write filter is unloaded");
            }
            FilterChange::Set { enable, disk: None } => {
                self.wanted_filter()?;
                self.remember(|state| {
                    state.filter.get_or_insert_default().enabled = *enable;
                })?;
            }
            FilterChange::Set { enable, disk: Some(path) } => {
                self.wanted_filter()?;
                let disk = self.member_at(&path.value)?;
                self.remember(|state| {
                    let except = &mut state.filter.get_or_insert_default().except;
                    if *enable {
                        except.remove(&disk)
                    } else {
                        except.insert(disk)
                    };
                })?;
            }
        }
        self.protect_members()
    }

    fn wanted_filter(&self) -> Result<Wanted> {
        lock(&self.state).filter.clone().ok_or_else(|| {
            AdminError::new(Code::Invalid, "the write filter is not loaded")
                .hint("ALTER SYSTEM FILTER LOAD, or afd_configure, loads it")
        })
    }

    /// The group's id and the disk's name of the member at a path.
    fn member_at(&self, path: &str) -> Result<(String, String)> {
        let node = Node::at(path);
        let is_it =
            |disk: &Survey| disk.is_at(path) || node.is_some() && Node::at(&disk.device) == node;
        let found = self.discovery.survey()?.into_iter().find(is_it);
        let names = found.and_then(|disk| Some((disk.group_id?, disk.name?)));
        names.ok_or_else(|| {
            AdminError::new(Code::UnknownDisk, format!("{path} is no member of a disk group"))
                .hint("v$asm_filter_disk lists the members that discovery shows")
        })
    }

    /// Protects the members that discovery shows, and releases disks that are none any more. Does
    /// nothing if no filter is wanted. Returns a line for each member that is not protected.
    ///
    /// # Errors
    /// If the filter cannot be loaded or changed; or discovery fails.
    pub fn protect_members(&self) -> Result<Vec<String>> {
        let mut known = lock(&self.filter);
        // Read within the lock: a filter that is being unloaded must not be loaded again.
        let Some(wanted) = lock(&self.state).filter.clone() else { return Ok(Vec::new()) };
        let filter = self.loaded_filter(&mut known)?;
        for device in filter.forget_gone().map_err(|error| refused(&error))? {
            let text =
                format!("{}: the device is gone, and is not protected any more", device.name());
            self.alert.line(Severity::Note, "instance", &text);
        }
        let surveyed = self.discovery.survey()?;
        let (members, others) = sort(&surveyed, &wanted);
        let protected = filter.members().map_err(|error| refused(&error))?;
        let is_wanted = |device: &Node| {
            wanted.enabled
                && !others.contains(device)
                && members.get(device).is_none_or(|seen| !seen.is_excepted)
        };
        for device in protected.keys().filter(|device| !is_wanted(device)) {
            filter.release(*device).map_err(|error| refused(&error))?;
            known.writers.remove(device);
            self.say(&members, *device, Severity::Note, "can be written by others again");
        }
        for device in members.keys().filter(|device| is_wanted(device)) {
            self.protect(&filter, &mut known, &members, *device, protected.contains_key(device))
                .map_err(|error| refused(&error))?;
        }
        Filter::unload_others().map_err(|error| refused(&error))?;
        let mut open = Vec::new();
        for (device, writers) in &known.writers {
            let names: Vec<String> = writers.iter().map(describe).collect();
            let path = members.get(device).map_or_else(|| device.name(), |seen| seen.path.clone());
            open.push(format!("{path} is still written by {}", names.join(", ")));
        }
        known.seen = members;
        Ok(open)
    }

    /// The filter; one that is not there is loaded. The first of several failures with one reason
    /// is told in the alert log.
    fn loaded_filter(&self, known: &mut Known) -> Result<Filter> {
        if let Ok(Some(filter)) = Filter::loaded() {
            known.trouble = None;
            return Ok(filter);
        }
        match Filter::load() {
            Ok(filter) => {
                known.trouble = None;
                self.alert.line(Severity::Note, "instance", "the write filter is loaded");
                Ok(filter)
            }
            Err(error) => {
                let trouble = Some(error.to_string());
                if known.trouble != trouble {
                    let text = format!("the write filter is NOT active: {error}; {WITHOUT}");
                    self.alert.line(Severity::Alarm, "instance", &text);
                }
                known.trouble = trouble;
                Err(not_loaded(&error))
            }
        }
    }

    fn protect(
        &self,
        filter: &Filter,
        known: &mut Known,
        members: &BTreeMap<Node, Seen>,
        device: Node,
        is_protected: bool,
    ) -> io::Result<()> {
        // An earlier instance may have protected it, and its writers may still be there.
        let is_seen = known.seen.contains_key(&device);
        if is_protected && is_seen && !known.writers.contains_key(&device) {
            return filter.renew(device).map(drop);
        }
        let writers = filter.protect(device, &ours())?;
        let before = known.writers.remove(&device);
        if writers.is_empty() {
            if !is_protected || before.is_some() {
                let text = "is protected: only its engine can open it for writing";
                self.say(members, device, Severity::Note, text);
            }
            return Ok(());
        }
        if before.as_ref() != Some(&writers) {
            let names: Vec<String> = writers.iter().map(describe).collect();
            let text = format!(
                "is NOT protected yet: {} had it open for writing before; no other program can open it so",
                names.join(", ")
            );
            self.say(members, device, Severity::Alarm, &text);
        }
        known.writers.insert(device, writers);
        Ok(())
    }

    fn say(&self, members: &BTreeMap<Node, Seen>, device: Node, severity: Severity, text: &str) {
        match members.get(&device) {
            Some(Seen { path, group, name, .. }) => {
                self.alert.line(severity, group, &format!("{path}, disk {name}, {text}"));
            }
            None => self.alert.line(severity, "instance", &format!("{} {text}", device.name())),
        }
    }

    /// Starts the thread that keeps members protected and reports refusals, until the instance
    /// ends.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn keep_filter(self: &Arc<Self>) -> io::Result<()> {
        let instance = Arc::downgrade(self);
        let keep = move || {
            let events = DeviceEvents::new().ok();
            let mut looked: Option<Instant> = None;
            let mut pause = Duration::ZERO;
            loop {
                let has_event = match &events {
                    Some(events) => events.wait(pause),
                    None => {
                        thread::sleep(pause);
                        false
                    }
                };
                let Some(instance) = instance.upgrade() else { return };
                if instance.ending.load(Ordering::Acquire) {
                    return;
                }
                let is_wanted = lock(&instance.state).filter.is_some();
                pause = if is_wanted { BETWEEN_REPORTS } else { BETWEEN_LOOKS };
                if !is_wanted {
                    continue;
                }
                if has_event || looked.is_none_or(|when| when.elapsed() >= BETWEEN_LOOKS) {
                    // The alert log has what fails.
                    let _ = instance.protect_members();
                    looked = Some(Instant::now());
                }
                instance.report_refusals();
            }
        };
        thread::Builder::new().name("filter".into()).spawn(keep).map(drop)
    }

    /// Writes refusals that are new into the alert log.
    fn report_refusals(&self) {
        let Ok(Some(filter)) = Filter::loaded() else { return };
        let (Ok(refused), Ok(reported)) = (filter.refused(), filter.reported()) else { return };
        if refused <= reported {
            return;
        }
        let refusals = self.filter_refusals().unwrap_or_default();
        let new: Vec<_> = refusals.iter().filter(|one| one.refusal.number > reported).collect();
        for ReportedRefusal { refusal, path, names } in new.iter().take(LINES_MAX) {
            let Refusal { process, program, user, .. } = refusal;
            let (group, disk) = match names {
                Some((group, name)) => (group.as_str(), format!(", disk {name}")),
                None => ("instance", String::new()),
            };
            let user = users::name(*user);
            let by = process.map_or_else(String::new, |pid| format!(": process {pid} ({program})"));
            let text = format!("{path}{disk}: refused to open for writing{by}, user {user}");
            self.alert.line(Severity::Warning, group, &text);
        }
        let more = (refused - reported).saturating_sub(new.len().min(LINES_MAX) as u64);
        if more > 0 {
            let text = format!(
                "{more} more opens for writing were refused: v$asm_filter_refusal has the last ones"
            );
            self.alert.line(Severity::Warning, "instance", &text);
        }
        // If this fails, they are reported once more.
        let _ = filter.set_reported(refused);
    }

    /// The filter's state.
    #[must_use]
    pub fn filter_report(&self) -> Report {
        let wanted = lock(&self.state).filter.clone();
        let trouble = lock(&self.filter).trouble.clone();
        let loaded = Filter::loaded().ok().flatten();
        Report {
            is_loaded: loaded.is_some(),
            is_enabled: loaded.is_some() && wanted.as_ref().is_some_and(|wanted| wanted.enabled),
            trouble: trouble.filter(|_| wanted.is_some()),
            refused: loaded.and_then(|filter| filter.refused().ok()).unwrap_or(0),
        }
    }

    /// The members that discovery shows, and others that are protected.
    ///
    /// # Errors
    /// If discovery fails.
    pub fn filter_disks(&self) -> Result<Vec<ReportedDisk>> {
        let surveyed = self.discovery.survey()?;
        let (seen, _) = sort(&surveyed, &Wanted::default());
        let loaded = Filter::loaded().ok().flatten();
        let mut protected =
            loaded.as_ref().and_then(|filter| filter.members().ok()).unwrap_or_default();
        let known = lock(&self.filter);
        let mut disks = Vec::new();
        for (device, Seen { path, group, name, .. }) in seen {
            let names = Some((group, name));
            disks.push(reported(device, path, names, protected.remove(&device), &known));
        }
        for (device, member) in protected {
            disks.push(reported(device, device.name(), None, Some(member), &known));
        }
        let is_member = |disk: &&Survey| disk.header == HeaderStatus::Member;
        for disk in
            surveyed.iter().filter(is_member).filter(|disk| Node::at(&disk.device).is_none())
        {
            disks.push(ReportedDisk {
                names: disk.group.clone().zip(disk.name.clone()),
                path: disk.path.clone(),
                filtering: Filtering::NotADevice,
                refused: 0,
                nodes: Vec::new(),
                writers: Vec::new(),
            });
        }
        Ok(disks)
    }

    /// The last refusals.
    ///
    /// # Errors
    /// If the kernel refuses to tell.
    pub fn filter_refusals(&self) -> Result<Vec<ReportedRefusal>> {
        let Some(filter) = Filter::loaded().map_err(|error| refused(&error))? else {
            return Ok(Vec::new());
        };
        let members = filter.members().map_err(|error| refused(&error))?;
        let refusals = filter.refusals().map_err(|error| refused(&error))?;
        let known = lock(&self.filter);
        let names_of = |node: Node| {
            let member = members.values().find(|member| member.nodes.contains(&node))?;
            known.seen.get(&member.device).map(|seen| (seen.group.clone(), seen.name.clone()))
        };
        Ok(refusals
            .into_iter()
            .map(|refusal| ReportedRefusal {
                path: refusal.node.name(),
                names: names_of(refusal.node),
                refusal,
            })
            .collect())
    }
}

fn reported(
    device: Node,
    path: String,
    names: Option<(String, String)>,
    member: Option<Member>,
    known: &Known,
) -> ReportedDisk {
    let writers: Vec<String> =
        known.writers.get(&device).into_iter().flatten().map(describe).collect();
    let filtering = match &member {
        None => Filtering::Disabled,
        Some(_) if !writers.is_empty() => Filtering::Writers,
        Some(_) => Filtering::Enabled,
    };
    let nodes = member
        .as_ref()
        .map_or_else(Vec::new, |member| member.nodes.iter().map(|node| node.name()).collect());
    let refused = member.map_or(0, |member| member.refused);
    ReportedDisk { names, path, filtering, refused, nodes, writers }
}

/// The members among the devices that discovery shows, and the devices that are none.
fn sort(surveyed: &[Survey], wanted: &Wanted) -> (BTreeMap<Node, Seen>, BTreeSet<Node>) {
    let (mut members, mut others) = (BTreeMap::new(), BTreeSet::new());
    for disk in surveyed {
        let Some(node) = Node::at(&disk.device) else { continue };
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        match disk.header {
            HeaderStatus::Member | HeaderStatus::Conflict | HeaderStatus::Incompatible => {
                let key = (text(&disk.group_id), text(&disk.name));
                members.insert(
                    node,
                    Seen {
                        path: disk.path.clone(),
                        group: text(&disk.group),
                        name: text(&disk.name),
                        is_excepted: wanted.except.contains(&key),
                    },
                );
            }
            // A disk that cannot be read now may be a member; one that is ignored is shown by its
            // label, too.
            HeaderStatus::Unknown | HeaderStatus::Ignored => {}
            HeaderStatus::Candidate
            | HeaderStatus::Provisioned
            | HeaderStatus::Former
            | HeaderStatus::Foreign => {
                others.insert(node);
            }
        }
    }
    (members, others)
}
