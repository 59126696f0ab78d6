//! Labels of the disks of a mounted group: they stand in the headers, and nowhere else.
//!
//! The copies are rewritten one after the other. A crash leaves copies with the new label, which
//! are newer and count, and copies with the old one, which the next mount rewrites.

use crate::{
    admin::{AdminError, Code, LabelPermission, Selection},
    disk::labels,
    event::Severity,
    movement::Movement,
};
use plinth_format::membership::DiskState;

impl Movement {
    /// Gives a disk of the group a label. Reads and writes go on.
    ///
    /// # Errors
    /// If it may not have it, or its header could not be written.
    pub async fn label(
        &self,
        disk: &str,
        label: &str,
        permission: LabelPermission,
    ) -> Result<(), AdminError> {
        let _one_at_a_time = self.exchanging.lock().await;
        let _nobody_returns = self.onlining.lock().await;
        let _nobody_compares = self.renaming.lock().await;
        let label = labels::parse(label)?;
        for member in self.select(&Selection::Disks(vec![disk.to_owned()]))? {
            let (name, path) = (member.name(), member.path());
            let present = member.label();
            if !(permission.migrate || present.is_some() && permission.rename) {
                let text = format!("disk {path} is disk {name} of disk group {}", self.name);
                return Err(AdminError::new(Code::DiskInUse, text)
                    .hint("add MIGRATE (afd_label --migrate) to label a disk of a disk group"));
            }
            labels::check_present(&path, present.as_ref(), &label, permission)?;
            if member.state() != DiskState::Online {
                let text = format!("disk {name} of disk group {} is not ONLINE", self.name);
                return Err(AdminError::new(Code::Invalid, text)
                    .hint("bring it ONLINE first, and wait for its resync"));
            }
            member.set_label(Some(label.clone()));
            self.repair_header(&member).await.map_err(|reason| {
                let text = format!(
                    "disk {name} ({path}): some copies of its header may not have the label {label}: {reason}"
                );
                AdminError::new(Code::Io, text)
                    .hint("the next mount writes them, and so does CHECK ALL REPAIR")
            })?;
            self.tell(
                Severity::Note,
                Some(member.number),
                format!("disk {name} has the label {label} now"),
            );
        }
        Ok(())
    }
}
