//! Disks found by their labels.
//!
//! A pattern `AFD:PATTERN` of the discovery string means the disks whose label matches, whatever
//! their devices are called. To find them the label of every device of the *scan* is read: of all
//! block devices of the host, or of those that the scan's own patterns match. Only those can name
//! regular files.
//!
//! In a discovery the devices of the scan have names that no label can have, `AFD:@/dev/sda`, so
//! that a device which the discovery string names as well is a second thing to look at. The names
//! begin and end in this file and in `discover.rs`.

use super::{disk::About, signature};
use glob::{MatchOptions, Pattern};
use plinth_engine::{
    disk::identify::{LABEL_PATH, Search, label_in},
    sync::buffer::Buffer,
};
use plinth_format::{
    BLOCK_SIZE, Label,
    header::DiskHeader,
    label::LabelRecord,
    layout::{HEADER_PLACE, likely_header_places},
};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
};

/// The beginning of the name of a device of the scan.
const SCANNED: &str = "AFD:@";

/// The pattern of a scan of all block devices.
const ALL: &str = "AFD:@*";

/// The pattern of labels, if a pattern of the discovery string is one.
pub(super) fn label_pattern(pattern: &str) -> Option<Pattern> {
    Pattern::new(&label_in(pattern)?).ok()
}

/// The names to expand for a scan of these patterns; of all block devices if there are none.
pub(super) fn scan(patterns: &[String]) -> Vec<String> {
    if patterns.is_empty() {
        return vec![ALL.to_owned()];
    }
    patterns.iter().map(|pattern| format!("{SCANNED}{pattern}")).collect()
}

/// The path of the device that a name means, and whether it is one of the scan.
pub(super) fn device_of(name: &str) -> (&str, bool) {
    match name.strip_prefix(SCANNED) {
        Some(path) => (path, true),
        None => (name, false),
    }
}

/// The name of a device, of the scan or not.
pub(super) fn name_of(path: &str, is_scanned: bool) -> String {
    if is_scanned { format!("{SCANNED}{path}") } else { path.to_owned() }
}

/// The path of the disk with this label, if it matches one of the patterns.
pub(super) fn path_by_label(patterns: &[Pattern], label: Option<&str>) -> Option<String> {
    let label = label?;
    let matches = |pattern: &Pattern| pattern.matches_with(label, MatchOptions::new());
    patterns.iter().any(matches).then(|| format!("{LABEL_PATH}{label}"))
}

/// The names that a pattern of the scan means; `None` if it is no such pattern.
pub(super) fn expand(pattern: &str) -> Option<Vec<String>> {
    let paths = match device_of(pattern) {
        _ if pattern == ALL => block_devices(),
        (paths, true) => super::discover::expand(paths),
        (_, false) => return None,
    };
    Some(paths.into_iter().map(|path| name_of(&path, true)).collect())
}

/// The block devices that have a size, by the kernel's names.
fn block_devices() -> Vec<String> {
    let devices = fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    let mut paths: Vec<String> = devices
        .filter(|device| {
            let size = fs::read_to_string(device.path().join("size")).unwrap_or_default();
            size.trim().parse::<u64>().is_ok_and(|sectors| sectors > 0)
        })
        .filter_map(|device| {
            let event = fs::read_to_string(device.path().join("uevent")).ok()?;
            let name = event.lines().find_map(|line| line.strip_prefix("DEVNAME="))?;
            Some(format!("/dev/{name}"))
        })
        .collect();
    paths.sort();
    paths
}

/// The label of a disk: that of its header, or of its label record. A record that is not in the
/// first block counts only if the disk has nothing else. May hang as long as the device does.
pub(super) fn label_of(file: &File, about: &About) -> Option<Label> {
    let read = |place: u64| {
        let mut block = Buffer::zeroed(BLOCK_SIZE);
        let is_there = place.checked_add(BLOCK_SIZE as u64).is_some_and(|end| end <= about.size);
        (is_there && file.read_exact_at(&mut block, place).is_ok()).then_some(block)
    };
    let header = |place| read(place).and_then(|block| DiskHeader::decode(&block, place).ok());
    let record = |place| read(place).and_then(|block| LabelRecord::decode(&block, place).ok());
    let first = header(HEADER_PLACE);
    let guesses = if first.is_none() { likely_header_places(about.size) } else { Vec::new() };
    let mut search = Search::new(first, guesses);
    while let Some(place) = search.next() {
        search.found(place, header(place));
    }
    if let (_, Some(header)) = search.end(about.size) {
        return header.best.label;
    }
    let found = LabelRecord::places(about.size)
        .into_iter()
        .find_map(|place| record(place).map(|record| (place, record.label)));
    let (place, label) = found?;
    let is_free = || signature::read_and_recognise(file, about.size, about.sectors()).is_none();
    (place == HEADER_PLACE || is_free()).then_some(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_matched_without_regard_to_case_and_paths_are_none() {
        let patterns: Vec<_> =
            ["AFD:DATA*", "afd:x", "/dev/*"].into_iter().filter_map(label_pattern).collect();
        assert_eq!(patterns.len(), 2);
        let by_label = |label| path_by_label(&patterns, label);
        assert_eq!(by_label(Some("DATA01")).as_deref(), Some("AFD:DATA01"));
        assert_eq!(by_label(Some("X")).as_deref(), Some("AFD:X"));
        assert_eq!(by_label(Some("XY")), None);
        assert_eq!(by_label(None), None);
        assert_eq!(label_pattern("Ä:"), None);
    }

    #[test]
    fn a_device_of_the_scan_has_a_name_of_its_own() {
        assert_eq!(device_of(&name_of("/dev/sda", true)), ("/dev/sda", true));
        assert_eq!(device_of(&name_of("/dev/sda", false)), ("/dev/sda", false));
        let scanned = scan(&["/no/such/disk".to_owned()]);
        assert_eq!(expand(&scanned[0]), Some(vec!["AFD:@/no/such/disk".to_owned()]));
        assert_eq!(expand("/no/such/disk"), None);
        assert!(scan(&[]).iter().all(|pattern| expand(pattern).is_some()));
    }
}
