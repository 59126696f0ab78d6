//! `plinth renamedg`: copies of all disks of a group get a name, a group id and disk ids of their
//! own, so that they can be mounted beside the disks they were copied from.
//!
//! Phase one reads the disks and makes a plan: the old and the new ids. The caller writes it to a
//! file. Phase two carries it out:
//!
//!   1. Find every disk of the plan, by its old or its new id, and claim it (R1). If one is
//!      missing, is there twice, is held by an engine, or was used since the plan was made, nothing
//!      is written.
//!   2. On each disk, one after the other: stamps, memberships and activity logs get the new ids,
//!      each newest record first to the places that do not have it, so that a torn write leaves
//!      one; then the header copies.
//!
//! A crash in 2 leaves disks of both kinds. The same plan completes it: the plan tells which disks
//! have new ids. Until then neither group can be relied on, and the old name must not be mounted.
//!
//! The new records always say that the host has lost its memory since the group was used: a copy
//! contains durable data, and nothing else of it may be believed. Marks of lost blocks keep the ids
//! with which they were made: the header names these (`format/src/lost.rs`).

use crate::{
    admin::{AdminError, Code},
    disk::{
        identify::{self, Header},
        look::{Needs, Seen, look},
        originals::{hexadecimal, id as number_of},
        taken::{check_name, unusable},
    },
    group::Group,
    membership::{arrival, mount_decision},
    sync::buffer::Buffer,
    world::{Disk, Found, Io, Task, World, is_held},
};
use plinth_format::{
    BLOCK_SIZE, DiskId, DiskNumber, GroupId,
    activity::ActivityLog,
    envelope::Envelope,
    header::DiskHeader,
    layout::{ACTIVITY_SLOT, MEMBERSHIP_SLOT},
    membership::{DiskState, Membership},
    stamp::Stamp,
};
use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

type Result<T> = std::result::Result<T, AdminError>;

/// One disk of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renamed {
    pub number: DiskNumber,
    pub old: DiskId,
    pub new: DiskId,
    pub name: String,
    /// Its path in phase one; empty if it is OFFLINE and was missing: then it is not taken.
    pub path: String,
}

/// The plan of `renamedg`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenamingPlan {
    pub from: String,
    pub to: String,
    pub old: GroupId,
    pub new: GroupId,
    /// Of the newest membership.
    pub generation: u64,
    pub disks: Vec<Renamed>,
}

const TITLE: &str = "plinth renamedg 1";

/// The words of a line behind its first one, which is given; the last of six is the rest of the
/// line.
fn words<'a>(lines: &[&'a str], index: usize, first: &str) -> Option<Vec<&'a str>> {
    let line: &'a str = lines.get(index)?;
    let (word, rest) = line.split_once(' ')?;
    (word == first).then(|| rest.splitn(5, ' ').collect())
}

impl RenamingPlan {
    /// Its text for the file.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{TITLE}\n");
        let _ = writeln!(text, "from {} {}", self.from, hexadecimal(&self.old.0));
        let _ = writeln!(text, "to {} {}", self.to, hexadecimal(&self.new.0));
        let _ = writeln!(text, "generation {}", self.generation);
        for Renamed { number, old, new, name, path } in &self.disks {
            let _ = writeln!(
                text,
                "disk {} {} {} {name} {path}",
                number.0,
                hexadecimal(&old.0),
                hexadecimal(&new.0)
            );
        }
        text
    }

    /// # Errors
    /// The line that is not part of a plan.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = |index: usize| {
            AdminError::new(
                Code::Invalid,
                format!("line {} is not what phase one of renamedg writes", index + 1),
            )
            .hint("make the plan again: renamedg phase=one")
        };
        let lines: Vec<&str> = text.lines().collect();
        if lines.first() != Some(&TITLE) {
            return Err(bad(0));
        }
        let group = |index: usize, word: &str| -> Result<(String, GroupId)> {
            let parts = words(&lines, index, word).ok_or_else(|| bad(index))?;
            let [name, id] = &parts[..] else { return Err(bad(index)) };
            check_name("disk group", name)?;
            Ok(((*name).to_owned(), GroupId(number_of(id).ok_or_else(|| bad(index))?)))
        };
        let (from, old) = group(1, "from")?;
        let (to, new) = group(2, "to")?;
        let generation =
            words(&lines, 3, "generation").and_then(|parts| parts.first()?.parse().ok());
        let generation = generation.ok_or_else(|| bad(3))?;
        let mut disks = Vec::new();
        for index in 4..lines.len() {
            let parts = words(&lines, index, "disk").ok_or_else(|| bad(index))?;
            let [number, before, after, name, path] = &parts[..] else { return Err(bad(index)) };
            let (number, before, after) =
                (number.parse().ok(), number_of(before), number_of(after));
            let (Some(number), Some(before), Some(after)) = (number, before, after) else {
                return Err(bad(index));
            };
            let (name, path) = ((*name).to_owned(), (*path).to_owned());
            disks.push(Renamed {
                number: DiskNumber(number),
                old: DiskId(before),
                new: DiskId(after),
                name,
                path,
            });
        }
        if disks.is_empty() {
            return Err(bad(lines.len()));
        }
        Ok(Self { from, to, old, new, generation, disks })
    }

    fn id_of(&self, disk: DiskId) -> DiskId {
        self.disks.iter().find(|one| one.old == disk).map_or(disk, |one| one.new)
    }

    /// Whether it is a record of the old group, or one that has been renamed.
    fn is_its(&self, disk: &Renamed, envelope: &Envelope) -> bool {
        let old = envelope.group == self.old && envelope.disk == disk.old;
        old || (envelope.group == self.new && envelope.disk == disk.new)
    }

    fn rename(&self, before: &Membership) -> Membership {
        let mut next = Membership { group_name: self.to.clone(), boot: [0; 16], ..before.clone() };
        next.disks.iter_mut().for_each(|disk| disk.id = self.id_of(disk.id));
        next
    }
}

/// A disk of the plan, claimed, and its header.
struct Claimed<'a> {
    plan: &'a Renamed,
    disk: Arc<dyn Disk>,
    header: identify::Header,
}

async fn read(disk: &dyn Disk, offset: u64, length: usize) -> Option<Buffer> {
    let done = disk.submit(Io::Read { offset, buffer: Buffer::zeroed(length) }).await;
    done.result.ok().and(done.buffer)
}

async fn write(disk: &dyn Disk, offset: u64, bytes: &[u8]) -> Result<()> {
    let failed = |doing: &str, error: &dyn std::fmt::Display| {
        AdminError::new(Code::Io, format!("disk {}: {doing} at {offset}: {error}", disk.path()))
            .hint("mend it, and go on with the same plan: renamedg phase=two; until then mount neither name")
    };
    let data = Buffer::copy_of(bytes).share();
    let done = disk.submit(Io::Write { offset, data, durably: false }).await;
    done.result.map_err(|error| failed("writing", &error))?;
    disk.submit(Io::Flush).await.result.map_err(|error| failed("flushing", &error))?;
    match read(disk, offset, bytes.len()).await {
        Some(found) if found[..] == *bytes => Ok(()),
        _ => Err(failed("reading back", &"what was written is not there")),
    }
}

/// Rewrites the records of one kind on one disk: the newest of them gets the new ids, everywhere.
async fn rewrite<T>(
    disk: &dyn Disk,
    (places, length): (&[u64], usize),
    decode: impl Fn(&[u8], u64) -> Option<T>,
    age: impl Fn(&T) -> u64,
    encode: impl Fn(&T, u64) -> Vec<u8>,
) -> Result<()> {
    let mut found: Vec<(u64, Option<T>)> = Vec::new();
    for place in places {
        let bytes = read(disk, *place, length).await;
        found.push((*place, bytes.and_then(|bytes| decode(&bytes[..], *place))));
    }
    let Some(newest) = found.iter().filter_map(|(_, record)| record.as_ref()).map(&age).max()
    else {
        return Ok(());
    };
    let Some(record) =
        found.iter().filter_map(|(_, record)| record.as_ref()).find(|record| age(record) == newest)
    else {
        return Ok(());
    };
    // A torn write leaves the newest elsewhere.
    let (with, without): (Vec<_>, Vec<_>) =
        found.iter().partition(|(_, held)| held.as_ref().is_some_and(|held| age(held) == newest));
    for (place, _) in without.into_iter().chain(with) {
        write(disk, *place, &encode(record, *place)).await?;
    }
    Ok(())
}

impl Group {
    /// Phase one: makes the plan. Nothing is written.
    ///
    /// # Errors
    /// If a name is invalid, or not all disks of the group are discovered, once each, and free.
    pub async fn plan_renaming(
        world: &Arc<dyn World>,
        from: &str,
        to: &str,
    ) -> Result<RenamingPlan> {
        check_name("disk group", to)?;
        if from == to {
            return Err(AdminError::new(Code::Invalid, format!("disk group {from} has that name")));
        }
        let seen = identify::survey(world).await?;
        if let Some(other) = seen.iter().find(|one| one.group.as_deref() == Some(to)) {
            let text = format!("there is a visible disk group {to}: {} is of it", other.path);
            return Err(AdminError::new(Code::GroupExists, text).hint(
                "choose another name; or, where a renamedg was cut short, go on with its plan: renamedg phase=two",
            ));
        }
        let probe_results = arrival::discovered(world, from).await?;
        let decision = mount_decision::choose(from, &probe_results, false).map_err(|refusal| {
            AdminError::new(Code::NoQuorum, &refusal)
                .hint("asm_diskstring is to match all disks of one set of copies, and no others")
        })?;
        let mut disks = Vec::new();
        for (entry, verdict) in decision.membership.disks.iter().zip(&decision.disks) {
            let path = verdict.probe_result.map(|index| probe_results[index].path.clone());
            if path.is_none() && entry.state != DiskState::Offline {
                let text = format!(
                    "disk {} of disk group {from} is missing, or on two devices",
                    entry.name
                );
                return Err(AdminError::new(Code::CannotOpen, text).hint(
                    "asm_diskstring is to match all disks of one set of copies, and no others",
                ));
            }
            let mut new = DiskId::default();
            world.random(&mut new.0);
            let path = path.unwrap_or_default();
            disks.push(Renamed {
                number: entry.number,
                old: entry.id,
                new,
                name: entry.name.clone(),
                path,
            });
        }
        let mut new = GroupId::default();
        world.random(&mut new.0);
        let (from, to) = (from.to_owned(), to.to_owned());
        let plan = RenamingPlan {
            from,
            to,
            old: decision.group,
            new,
            generation: decision.membership.generation,
            disks,
        };
        claim(world, &plan).await?;
        Ok(plan)
    }

    /// Phase two, or the rest of it. `tell` is called for each disk.
    ///
    /// # Errors
    /// If a disk of the plan is missing, in use, or has changed: then nothing was written; or one
    /// cannot be written: then the same plan can complete it.
    pub async fn carry_out_renaming(
        world: &Arc<dyn World>,
        plan: &RenamingPlan,
        tell: impl Fn(&str) + Send,
    ) -> Result<usize> {
        let claimed = claim(world, plan).await?;
        for one in &claimed {
            rename_disk(plan, one).await?;
            tell(&format!(
                "disk {} ({}) is of disk group {} now",
                one.plan.name,
                one.disk.path(),
                plan.to
            ));
        }
        Ok(claimed.len())
    }
}

/// Step 1.
async fn claim<'a>(world: &Arc<dyn World>, plan: &'a RenamingPlan) -> Result<Vec<Claimed<'a>>> {
    let mut found: BTreeMap<DiskNumber, (Found, Claimed<'a>)> = BTreeMap::new();
    let renamed = |header: &Header| {
        let (group, id) = (header.best.group, header.best.disk);
        let is_it = |other: &&Renamed| {
            (group, id) == (plan.old, other.old) || (group, id) == (plan.new, other.new)
        };
        plan.disks.iter().find(is_it)
    };
    let examine = |_: Found, disk: Arc<dyn Disk>| -> Task<'_, Option<Header>> {
        Box::pin(async move {
            identify::await_header(&*disk).await.filter(|header| renamed(header).is_some())
        })
    };
    let looked = look(&**world, examine, |_| Needs::Something).await.whole()?;
    let silence = looked.silence();
    for Seen { found: one, disk, what: header } in looked.seen {
        let Some(renamed) = renamed(&header) else { continue };
        match found.get(&renamed.number) {
            Some((other, _)) if other.identity != one.identity => {
                let text = format!(
                    "{} and {} are both disk {} of {}",
                    other.path, one.path, renamed.name, plan.from
                );
                return Err(AdminError::new(Code::DuplicateDisk, text).hint(
                    "asm_diskstring is to match all disks of one set of copies, and no others",
                ));
            }
            Some(_) => {}
            None => {
                drop(found.insert(renamed.number, (one, Claimed { plan: renamed, disk, header })))
            }
        }
    }
    let mut needed = plan.disks.iter().filter(|disk| !disk.path.is_empty());
    if let Some(missing) = needed.find(|disk| !found.contains_key(&disk.number)) {
        let text = format!(
            "disk {} of disk group {} is missing; it was {}{silence}",
            missing.name, plan.from, missing.path
        );
        return Err(AdminError::new(Code::CannotOpen, text)
            .hint("attach it, or correct asm_diskstring: all are renamed, or none"));
    }
    for (one, claimed) in found.values() {
        claimed.disk.claim().map_err(|error| {
            let what = format!("{}, disk {} of disk group {},", one.path, claimed.plan.name, plan.from);
            if !is_held(&error) {
                return unusable(&what, &error);
            }
            let text = format!("{what} is in use: {error}");
            AdminError::new(Code::HeldElsewhere, text)
                .hint("dismount the group that uses it; or name the copies in asm_diskstring, not the disks themselves")
        })?;
    }
    for (one, claimed) in found.values() {
        // It may have been used since the plan was made.
        for place in
            claimed.header.best.record_areas().into_iter().flat_map(|area| area.memberships)
        {
            let Some(bytes) = read(&*claimed.disk, place, MEMBERSHIP_SLOT).await else { continue };
            let Ok((envelope, membership)) = Membership::decode(&bytes, place) else { continue };
            if plan.is_its(claimed.plan, &envelope) && membership.generation > plan.generation {
                let text = format!("{} was used since the plan was made", one.path);
                return Err(AdminError::new(Code::Invalid, text)
                    .hint("make the plan again: renamedg phase=one"));
            }
        }
    }
    Ok(found.into_values().map(|(_, claimed)| claimed).collect())
}

/// Step 2 for one disk.
async fn rename_disk(plan: &RenamingPlan, claimed: &Claimed<'_>) -> Result<()> {
    let (disk, one) = (&*claimed.disk, claimed.plan);
    let areas = claimed.header.best.record_areas();
    let stamps: Vec<u64> = areas.iter().flat_map(|area| area.stamps).collect();
    let activity: Vec<u64> = areas.iter().flat_map(|area| area.activity).collect();
    let memberships: Vec<u64> = areas.iter().flat_map(|area| area.memberships).collect();
    let at = |place: u64| Envelope { group: plan.new, disk: one.new, place };
    let its = |envelope: &Envelope| plan.is_its(one, envelope);
    rewrite(
        disk,
        (&stamps[..], BLOCK_SIZE),
        |bytes, place| {
            Stamp::decode(bytes, place)
                .ok()
                .filter(|(envelope, _)| its(envelope))
                .map(|(_, stamp)| stamp)
        },
        |stamp| stamp.counter,
        |stamp, place| stamp.encode(at(place)).to_vec(),
    )
    .await?;
    rewrite(
        disk,
        (&activity[..], ACTIVITY_SLOT),
        |bytes, place| {
            ActivityLog::decode(bytes, place)
                .ok()
                .filter(|(envelope, _)| its(envelope))
                .map(|(_, log)| log)
        },
        |log| log.sequence,
        |log, place| ActivityLog { boot: [0; 16], ..log.clone() }.encode(at(place)),
    )
    .await?;
    rewrite(
        disk,
        (&memberships[..], MEMBERSHIP_SLOT),
        |bytes, place| {
            Membership::decode(bytes, place)
                .ok()
                .filter(|(envelope, _)| its(envelope))
                .map(|(_, held)| held)
        },
        |membership| membership.generation,
        |membership, place| plan.rename(membership).encode(at(place)),
    )
    .await?;
    let header = &claimed.header;
    if header.best.group == plan.new && header.wrong.is_empty() {
        return Ok(());
    }
    let origin =
        header.best.origin.or((header.best.group == plan.old).then_some((plan.old, one.old)));
    let renamed = DiskHeader {
        group: plan.new,
        disk: one.new,
        group_name: plan.to.clone(),
        sequence: header.best.sequence + 1,
        origin,
        ..header.best.clone()
    };
    for place in renamed.layout.header_places() {
        write(disk, place, &renamed.encode(place)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> RenamingPlan {
        let disk = |number: u16, path: &str| Renamed {
            number: DiskNumber(number),
            old: DiskId([1; 16]),
            new: DiskId([2; 16]),
            name: format!("DATA_{number:04}"),
            path: path.to_owned(),
        };
        RenamingPlan {
            from: "DATA".to_owned(),
            to: "COPY".to_owned(),
            old: GroupId([3; 16]),
            new: GroupId([4; 16]),
            generation: 17,
            disks: vec![disk(0, "/a path/with blanks"), disk(1, "")],
        }
    }

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let text = plan().text();
        assert_eq!(RenamingPlan::parse(&text).expect("a plan"), plan());
        let lines: Vec<&str> = text.lines().collect();
        for missing in 0..lines.len() {
            let mut damaged = lines.clone();
            damaged[missing] = "disk 1 2 3";
            assert!(RenamingPlan::parse(&damaged.join("\n")).is_err(), "line {missing}");
        }
        for nonsense in ["", TITLE, "plinth renamedg 2\n", &lines[..4].join("\n")] {
            assert!(RenamingPlan::parse(nonsense).is_err(), "{nonsense:?}");
        }
    }
}
