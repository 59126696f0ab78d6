//! RENAME DISK: new names of disks, in the membership first, and then in their headers.
//!
//! All names of a statement are on record at once, or none is. A crash before the headers are
//! written leaves old names there; the next mount, or CHECK with REPAIR, rewrites them.

use crate::{
    admin::{AdminError, Code, Renaming, Selection},
    disk::{
        member::Member,
        taken::{check_name, default_name},
    },
    event::Severity,
    movement::Movement,
};
use plinth_format::membership::DiskState;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

type Result<T> = std::result::Result<T, AdminError>;

impl Movement {
    /// Gives disks other names. Reads and writes go on.
    ///
    /// # Errors
    /// The fault of a name or a disk, and nothing is renamed; or the disk whose header could not be
    /// written, and all are renamed.
    pub async fn rename(&self, renaming: &Renaming) -> Result<()> {
        let _one_at_a_time = self.exchanging.lock().await;
        let _nobody_returns = self.onlining.lock().await;
        let _nobody_compares = self.renaming.lock().await;
        let pairs = self.new_names(renaming)?;
        let names: BTreeMap<_, _> =
            pairs.iter().map(|(member, name)| (member.number, name.clone())).collect();
        let record = self.voters.change(move |next| {
            let mut changed = false;
            for disk in &mut next.disks {
                let Some(name) = names.get(&disk.number).filter(|name| **name != disk.name) else {
                    continue;
                };
                changed = true;
                disk.name.clone_from(name);
            }
            Ok(changed)
        });
        let before: Vec<_> = pairs.iter().map(|(member, _)| member.name()).collect();
        record.await.map_err(|refusal| {
            let text = format!("disks of disk group {} cannot be renamed: {refusal}", self.name);
            AdminError::new(Code::Io, text)
        })?;
        let mut failed = Vec::new();
        for ((member, name), before) in
            pairs.iter().zip(before).filter(|((_, name), before)| **name != **before)
        {
            self.tell(
                Severity::Note,
                Some(member.number),
                format!("disk {before} is called {name} now"),
            );
            if let Err(reason) = self.repair_header(member).await {
                failed.push(format!("disk {name} ({}): {reason}", member.path()));
            }
        }
        if failed.is_empty() {
            return Ok(());
        }
        let text = format!(
            "the new names are on record, but headers have the old ones: {}",
            failed.join("; ")
        );
        Err(AdminError::new(Code::Io, text)
            .hint("the next mount rewrites them, and so does CHECK ALL REPAIR"))
    }

    /// The disks, each with its new name.
    fn new_names(&self, renaming: &Renaming) -> Result<Vec<(Arc<Member>, String)>> {
        let pairs: Vec<(Arc<Member>, String)> = match renaming {
            Renaming::All => {
                let members = self.members.values().cloned();
                members
                    .map(|member| (Arc::clone(&member), default_name(&self.name, member.number)))
                    .collect()
            }
            Renaming::Disks(pairs) => {
                let old = pairs.iter().map(|(old, _)| old.clone()).collect();
                let members = self.select(&Selection::Disks(old))?;
                members.into_iter().zip(pairs.iter().map(|(_, new)| new.clone())).collect()
            }
        };
        let mut seen = BTreeSet::new();
        for (member, name) in &pairs {
            check_name("disk", name)?;
            if !seen.insert(member.number) {
                let text = format!("disk {} is named twice in this statement", member.name());
                return Err(AdminError::new(Code::Invalid, text));
            }
            if member.state() != DiskState::Online {
                let text =
                    format!("disk {} of disk group {} is not ONLINE", member.name(), self.name);
                return Err(AdminError::new(Code::Invalid, text)
                    .hint("bring it ONLINE first, and wait for its resync: its header gets the new name too"));
            }
        }
        let stay = self
            .members
            .values()
            .filter(|member| !seen.contains(&member.number))
            .map(|member| member.name());
        let mut names: BTreeSet<String> = stay.map(|name| name.to_string()).collect();
        for (_, name) in &pairs {
            if !names.insert(name.clone()) {
                let text = format!("disk group {} would have two disks {name}", self.name);
                return Err(AdminError::new(Code::Invalid, text)
                    .hint("choose another name; V$ASM_DISK shows them"));
            }
        }
        Ok(pairs)
    }
}
