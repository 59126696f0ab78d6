//! `ALTER SYSTEM LABEL`: labels of disks, whoever has them.
//!
//! The instance finds the disk and checks that no other has the label. The engine of a mounted
//! group labels the group's own disks; any other disk is claimed and labelled here
//! (`plinth_engine::disk::labels`).

use super::{Instance, Result};
use crate::sql::{At, LabelOrder};
use plinth_engine::{
    admin::{AdminError, Code, Command, HeaderStatus, LabelPermission, Survey},
    disk::{
        identify::{LABEL_PATH, label_in},
        labels,
    },
};
use plinth_format::Label;
use plinth_host::pattern_of;
use std::collections::BTreeSet;

impl Instance {
    /// Carries out one statement on labels. `by`: the user. Returns what the user should know.
    ///
    /// # Errors
    /// Why a disk cannot have the label, or cannot lose it.
    pub fn alter_label(&self, order: &LabelOrder, by: &str) -> Result<Vec<String>> {
        match order {
            LabelOrder::Set { label, path, permission } => {
                let label = labels::parse(&label.value)?;
                self.set_label(&label, &path.value, *permission, by)?;
                Ok(Vec::new())
            }
            LabelOrder::Clear(At { value, .. }) => {
                let device = self.labelled_device(value)?;
                let world = self.discovery.world_of(&escaped(&device))?;
                let task = async move { labels::clear(&world, &device).await };
                self.discovery.in_time(task)?;
                Ok(Vec::new())
            }
            LabelOrder::Scan(patterns) => self.scan_labels(patterns.as_ref()),
        }
    }

    fn set_label(
        &self,
        label: &Label,
        path: &str,
        permission: LabelPermission,
        by: &str,
    ) -> Result<()> {
        let everything = format!("{},{LABEL_PATH}*,{}", escaped(path), self.diskstring());
        let seen = self.discovery.survey_of(&everything)?;
        let is_it = |disk: &&Survey| disk.is_at(path) || disk.device == path;
        let disk = seen.iter().find(is_it).ok_or_else(|| {
            AdminError::new(Code::UnknownDisk, format!("there is no disk {path:?}"))
                .hint("name a block device, or a regular file")
        })?;
        if disk.header == HeaderStatus::Ignored {
            let remark = disk.remark.as_deref().unwrap_or_default();
            return Err(AdminError::new(Code::DiskInUse, format!("disk {path} is {remark}"))
                .hint("label the map"));
        }
        let has_it = |other: &&Survey| {
            other.label.as_deref() == Some(label.as_str()) && other.device != disk.device
        };
        if let Some(other) = seen.iter().find(has_it) {
            let of =
                other.group.as_deref().map_or_else(String::new, |group| format!(" of {group}"));
            let text = format!("the label {label} is that of {}{of} already", other.device);
            return Err(AdminError::new(Code::DuplicateDisk, text)
                .hint("choose another label, or take it away there: ALTER SYSTEM LABEL CLEAR"));
        }
        if let Some((group, name)) = self.own_disk(disk) {
            let command = Command::Label { disk: name, label: label.to_string(), permission };
            self.engine_in_service(&group)?.carry_out(command)?;
            return Ok(());
        }
        let device = if path.starts_with(LABEL_PATH) { &disk.device } else { path };
        let world = self.discovery.world_of(&escaped(device))?;
        let (device, label, by) = (device.to_owned(), label.clone(), by.to_owned());
        self.discovery
            .in_time(async move { labels::set(&world, &device, &label, permission, &by).await })
    }

    /// The remarks on devices that have labels.
    fn scan_labels(&self, patterns: Option<&At<String>>) -> Result<Vec<String>> {
        let all = format!("{LABEL_PATH}*");
        let wanted = patterns.map_or(all.as_str(), |patterns| &patterns.value);
        let seen = self.discovery.survey_of(wanted)?;
        if patterns.is_some() && seen.is_empty() {
            let text = format!("{wanted:?} matches no disk");
            return Err(AdminError::new(Code::UnknownDisk, text)
                .hint("give patterns of paths, with commas between, as '/dev/sd*,/dev/mapper/*'"));
        }
        // By a pattern of paths, disks without labels are seen as well.
        let labelled = |disk: &Survey| patterns.is_none() || disk.label.is_some();
        let remarks = seen.into_iter().filter(labelled).filter_map(|disk| {
            disk.remark.map(|remark| format!("{}, {}: {remark}", disk.path, disk.device))
        });
        Ok(remarks.collect())
    }

    /// The mounted group whose engine has a disk, and the disk's name there.
    fn own_disk(&self, disk: &Survey) -> Option<(String, String)> {
        let (group, name) = (disk.group.clone()?, disk.name.clone()?);
        let is_own = disk.header == HeaderStatus::Member
            && disk.is_held
            && self.groups().contains_key(&group);
        is_own.then_some((group, name))
    }

    /// The device that has a label, or that a path names.
    fn labelled_device(&self, wanted: &str) -> Result<String> {
        if wanted.starts_with('/') {
            return Ok(wanted.to_owned());
        }
        let label = labels::parse(label_in(wanted).as_deref().unwrap_or(wanted))?;
        let everywhere = format!("{LABEL_PATH}{label},{}", self.diskstring());
        let seen = self.discovery.survey_of(&everywhere)?;
        let has_it = |disk: &&Survey| disk.label.as_deref() == Some(label.as_str());
        // A device may be shown by its label and by its path.
        let devices: BTreeSet<&str> =
            seen.iter().filter(has_it).map(|disk| disk.device.as_str()).collect();
        let devices: Vec<&str> = devices.into_iter().collect();
        match devices[..] {
            [device] => Ok(device.to_owned()),
            [] => {
                let text = format!("no disk has the label {label}");
                Err(AdminError::new(Code::UnknownDisk, text).hint(
                    "afd_lslbl lists labels; a disk that neither afd_diskstring nor asm_diskstring \
                     shows is named by its path",
                ))
            }
            [first, ..] => {
                let text = format!("{label} is the label of {}", devices.join(" and of "));
                Err(AdminError::new(Code::DuplicateDisk, text).hint(format!(
                    "say which is meant, by its path: ALTER SYSTEM LABEL CLEAR '{first}'"
                )))
            }
        }
    }
}

/// A path as a pattern that only it matches.
fn escaped(path: &str) -> String {
    if path.starts_with(LABEL_PATH) { path.to_owned() } else { pattern_of(path) }
}
