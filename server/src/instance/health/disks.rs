//! The rules for the disks of a group whose engine answers.

use super::{
    Finding, Kind,
    Severity::{Critical, Note, Warning},
    backing::Backing,
    facts::{GroupFacts, Row},
    host::{HostFacts, Spare},
    path_pattern,
};
use crate::query::Time;
use std::collections::{BTreeMap, BTreeSet};

/// How recent the last sign of a slow disk is: it is counted every ten seconds.
const SLOW_RECENT: i64 = 60_000_000_000;
/// Kinds of trouble after which other blocks of the disk may be bad, too.
const BAD: [&str; 6] =
    ["READ FAILED", "WRITE FAILED", "FLUSH FAILED", "CHECKSUM", "METADATA", "REFUSED"];

pub(super) fn findings(group: &str, facts: &GroupFacts, host: &HostFacts) -> Vec<Finding> {
    let mut all = offline(group, facts, host);
    for disk in facts.rows("v$asm_disk") {
        all.extend(hung_or_full(group, facts, disk));
    }
    all.extend(errors(group, facts, host.spares()));
    all.extend(single(group, facts, host.spares()));
    all.extend(unmirrored(group, facts));
    all
}

/// The smallest disk that no group uses and that is large enough.
fn spare_of(spares: &[Spare], size_mb: u64) -> Option<&Spare> {
    spares.iter().filter(|spare| spare.size >> 20 >= size_mb).min_by_key(|spare| spare.size)
}

/// The statement that adds disks that no group uses; `None`: there are none. Mirrors need room in
/// several failure groups: those that have the least get one each, as far as there are disks.
pub(super) fn addition(group: &str, facts: &GroupFacts, spares: &[Spare]) -> Option<String> {
    let mut largest: Vec<&Spare> = spares.iter().collect();
    largest.sort_by_key(|spare| (std::cmp::Reverse(spare.size), &spare.path));
    let mirrors = match facts.redundancy() {
        "EXTERN" => {
            let spare = largest.first()?;
            return Some(format!("ALTER DISKGROUP {group} ADD DISK {}", path_pattern(&spare.path)));
        }
        "HIGH" => 3,
        _ => 2,
    };
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    for disk in facts.rows("v$asm_disk") {
        if disk.text("failgroup_type") == "REGULAR" {
            *sizes.entry(disk.text("failgroup")).or_default() += disk.number("os_mb");
        }
    }
    let mut least: Vec<(&str, u64)> = sizes.into_iter().collect();
    least.sort_by_key(|(_, size)| *size);
    let pairs = least.into_iter().take(mirrors).zip(largest);
    let added: Vec<String> = pairs.map(|((name, _), spare)| to(name, spare)).collect();
    (!added.is_empty()).then(|| format!("ALTER DISKGROUP {group} ADD {}", added.join(" ")))
}

fn to(failure_group: &str, spare: &Spare) -> String {
    format!("FAILGROUP {failure_group} DISK {}", path_pattern(&spare.path))
}

/// Disks that are not ONLINE; a failure group of several that is away as a whole is one finding.
fn offline(group: &str, facts: &GroupFacts, host: &HostFacts) -> Vec<Finding> {
    let disks = facts.rows("v$asm_disk");
    let is_offline = |disk: &&Row| disk.text("mode_status") == "OFFLINE";
    let mut away: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for disk in disks.iter().filter(is_offline) {
        away.entry(disk.text("failgroup")).or_default().push(disk);
    }
    let mut all = Vec::new();
    for (name, offline) in away {
        let of_group = disks.iter().filter(|disk| disk.text("failgroup") == name).count();
        if offline.len() > 1 && offline.len() == of_group {
            let detail = format!(
                "all {of_group} disks of the failure group are OFFLINE: see why in the alert log"
            );
            let online = format!("ALTER DISKGROUP {group} ONLINE DISKS IN FAILGROUP {name}");
            all.push(Finding::new(Warning, Kind::DiskOffline, detail).on(name).mended_by(online));
            continue;
        }
        all.extend(offline.into_iter().map(|disk| offline_disk(group, disk, host)));
    }
    let is_syncing = |disk: &&Row| disk.text("mode_status") == "SYNCING";
    all.extend(disks.iter().filter(is_syncing).map(|disk| {
        let detail = "it gets the writes that it missed, and is not read before it has all of them; OPERATION says how far it is";
        Finding::new(Warning, Kind::DiskSyncing, detail).on(disk.text("name"))
    }));
    all
}

fn offline_disk(group: &str, disk: &Row, host: &HostFacts) -> Finding {
    let name = disk.text("name");
    let state = match disk.text("state") {
        "HUNG" => "; I/O from before still hangs, and it cannot come back before that has ended",
        "FORCING" => "; it is being dropped, and its data is copied from the other mirrors",
        _ => "",
    };
    let finding = |detail: String| Finding::new(Warning, Kind::DiskOffline, detail).on(name);
    let size = disk.number("os_mb");
    let is_seen = host.may_be_there(group, name);
    match spare_of(host.spares(), size).filter(|_| !is_seen) {
        Some(spare) => finding(format!(
            "the disk is OFFLINE, and discovery does not show it{state}. Attach it again and bring it ONLINE, or put another in its place"
        ))
        .mended_by(format!(
            "ALTER DISKGROUP {group} REPLACE DISK {name} WITH {}",
            path_pattern(&spare.path)
        )),
        None if is_seen => finding(format!("the disk is OFFLINE{state}"))
            .mended_by(format!("ALTER DISKGROUP {group} ONLINE DISK {name}")),
        None => finding(format!(
            "the disk is OFFLINE, and discovery does not show it{state}. Attach it again"
        ))
        .mended_by(format!("ALTER DISKGROUP {group} ONLINE DISK {name}")),
    }
}

fn hung_or_full(group: &str, facts: &GroupFacts, disk: &Row) -> Option<Finding> {
    let name = disk.text("name");
    if disk.text("mode_status") == "OFFLINE" {
        return None;
    }
    match disk.text("state") {
        "HUNG" => {
            let own = disk.text("failgroup");
            let is_other = |row: &&Row| row.text("failgroup") != own;
            let mut others = facts.rows("v$asm_disk").iter().filter(is_other);
            // With others it is likely to be the path to all of them, and none is taken out.
            let do_others_hang = others.any(|row| row.text("state") == "HUNG");
            let may_go =
                !do_others_hang && facts.failure_group(own).is_some_and(|row| row.is("may_go"));
            let remedy = may_go.then(|| format!("ALTER DISKGROUP {group} OFFLINE DISK {name}"));
            let what = match (may_go, do_others_hang) {
                (true, _) => "the disk does not answer",
                (_, true) => {
                    "the disk does not answer, and disks of other failure groups do not, either: what needs them waits. Make their paths work again"
                }
                (_, false) => {
                    "the disk does not answer, and cannot be spared: what needs it waits. Make its path work again"
                }
            };
            Some(Finding::new(Critical, Kind::DiskHung, what).on(name).maybe_mended_by(remedy))
        }
        "FULL" => {
            let is_it = |row: &&Row| row.text("name") == name && row.text("kind") == "NO ROOM";
            let text = facts.rows("v$asm_error").iter().find(is_it);
            let text = text.map_or("its thin pool has no room", |row| row.text("last_text"));
            let detail = format!("{text}. Writes wait, and go on by themselves when there is room");
            Some(Finding::new(Critical, Kind::DiskFull, detail).on(name))
        }
        _ => None,
    }
}

/// Disks with errors since the last scrub of the group, and slow ones.
fn errors(group: &str, facts: &GroupFacts, spares: &[Spare]) -> Vec<Finding> {
    let scrubbed = facts.protection().map_or("", |row| row.text("scrub_time"));
    let recent = Time::of_unix(crate::alert::now().saturating_sub(SLOW_RECENT)).in_second().text();
    let mut bad: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut all = Vec::new();
    for row in facts.rows("v$asm_error") {
        let (name, kind, last) = (row.text("name"), row.text("kind"), row.text("last_time"));
        let disk = facts.rows("v$asm_disk").iter().find(|disk| disk.text("name") == name);
        if BAD.contains(&kind) && last > scrubbed {
            let text = format!("{kind} {} times, the last at {last}", row.number("count"));
            bad.entry(name).or_default().push(text);
        } else if kind == "NOT REPAIRED" {
            let size = disk.map_or(0, |disk| disk.number("os_mb"));
            let replace = spare_of(spares, size).map(|spare| {
                let path = path_pattern(&spare.path);
                format!(
                    "ALTER DISKGROUP {group} OFFLINE DISK {name}; ALTER DISKGROUP {group} REPLACE DISK {name} WITH {path}"
                )
            });
            let detail = format!("{}. Replace the disk", row.text("last_text"));
            all.push(
                Finding::new(Warning, Kind::DiskErrors, detail).on(name).maybe_mended_by(replace),
            );
        } else if kind == "SLOWER"
            && last > recent.as_str()
            && disk.is_some_and(|disk| disk.text("mode_status") != "OFFLINE")
        {
            // Nothing waits for one that is OFFLINE, which is a finding of its own.
            let failure_group = disk.and_then(|disk| facts.failure_group(disk.text("failgroup")));
            let may_go = failure_group.is_some_and(|row| row.is("may_go"));
            let offline = may_go.then(|| format!("ALTER DISKGROUP {group} OFFLINE DISK {name}"));
            all.push(
                Finding::new(Warning, Kind::DiskSlow, row.text("last_text"))
                    .on(name)
                    .maybe_mended_by(offline),
            );
        }
    }
    for (name, texts) in bad {
        let (running, scrub) = facts.scrub_of(group);
        let detail = format!("{}, since the group was last scrubbed{running}", texts.join("; "));
        all.push(Finding::new(Warning, Kind::DiskErrors, detail).on(name).maybe_mended_by(scrub));
    }
    all
}

/// Failure groups of one disk where others have several.
fn single(group: &str, facts: &GroupFacts, spares: &[Spare]) -> Vec<Finding> {
    let groups = facts.rows("v$asm_failgroup");
    let is_regular = |row: &&Row| row.text("failgroup_type") == "REGULAR";
    let has_several = groups.iter().filter(is_regular).any(|row| row.number("disks") > 1);
    if !has_several || facts.redundancy() == "EXTERN" {
        return Vec::new();
    }
    let finding = |row: &Row| {
        let name = row.text("name");
        let detail = "the failure group has one disk, and others have several: a disk that fails there takes all of it. Add a disk to it";
        let largest = spares.iter().max_by_key(|spare| spare.size);
        let remedy =
            largest.map(|spare| format!("ALTER DISKGROUP {group} ADD {}", to(name, spare)));
        Finding::new(Note, Kind::SingleDisk, detail).on(name).maybe_mended_by(remedy)
    };
    groups.iter().filter(is_regular).filter(|row| row.number("disks") == 1).map(finding).collect()
}

/// A group in EXTERNAL redundancy on disks that mirror nothing, as far as can be known.
fn unmirrored(group: &str, facts: &GroupFacts) -> Option<Finding> {
    let mut single = BTreeSet::new();
    let mut unknown = BTreeSet::new();
    for (name, backing) in &facts.backings {
        match backing {
            Backing::Mirrored => {}
            Backing::Single(what) => drop(single.insert(format!("{name} is {what}"))),
            Backing::Unknown(what) => drop(unknown.insert(format!("{name} is {what}"))),
        }
    }
    let list = |texts: BTreeSet<String>| texts.into_iter().collect::<Vec<_>>().join(", ");
    if !single.is_empty() {
        // Two disks are two failure groups, and have room for two mirrors of the data if less than
        // half is used.
        let can_mirror = facts.rows("v$asm_failgroup").len() > 1
            && facts.protection().is_some_and(|row| row.number("used_percent") < 45);
        let remedy = format!("ALTER DISKGROUP {group} CONVERT REDUNDANCY TO NORMAL REBALANCE WAIT");
        let detail = format!(
            "EXTERNAL redundancy relies on disks that mirror, and {}: when it fails, its files are lost. Add disks and convert the group to NORMAL",
            list(single)
        );
        return Some(
            Finding::new(Warning, Kind::Unmirrored, detail)
                .maybe_mended_by(can_mirror.then_some(remedy)),
        );
    }
    (!unknown.is_empty()).then(|| {
        let detail = format!(
            "EXTERNAL redundancy relies on disks that mirror, and it cannot be known here whether they do: {}",
            list(unknown)
        );
        Finding::new(Note, Kind::Unmirrored, detail)
    })
}
