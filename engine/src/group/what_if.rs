//! What if a failure group were farther away: `what_if.delay.FAILGROUP`.
//!
//! A DBA feels a second site before it is built: the end of each read, write and flush of one
//! failure group's disks is delivered later (`completion.rs`). That is for a group of its own: on
//! one that has files it needs FORCE. So that it is not forgotten, all that lists the group, its
//! disks or its attributes says so, and each mount.

use crate::{
    admin::{AdminError, Code},
    catalog::{attributes::what_if, tables},
    event::Severity,
    group::Group,
};
use std::collections::BTreeSet;

type Result<T> = std::result::Result<T, AdminError>;

impl Group {
    /// Sets or removes the delay of one failure group.
    pub(super) async fn set_delay(&self, name: &str, value: &str, force: bool) -> Result<()> {
        let delay = what_if::delay(name, value)?;
        let _one_at_a_time = self.setting.lock().await;
        let mut delays = self.members.delays();
        let failure_group =
            self.delayable(name.get(what_if::PREFIX.len()..).unwrap_or_default())?;
        if delay.is_some() && !force {
            self.refuse_delay_of_files().await?;
        }
        let stored = failure_group.clone();
        let store = move |connection: &_| what_if::store(connection, &stored, delay);
        self.catalog.write(true, store).await?;
        match delay {
            Some(delay) => _ = delays.insert(failure_group.clone(), delay),
            None => _ = delays.remove(&failure_group),
        }
        self.members.delay(delays);
        if delay.is_some() {
            self.report_delays();
        } else {
            let text =
                format!("what if: I/O of failure group {failure_group} is not delayed any more");
            self.tell(Severity::Note, None, text);
        }
        Ok(())
    }

    /// The failure group of this name, in any case: one that there is, or that has a delay.
    fn delayable(&self, name: &str) -> Result<String> {
        let of_disks = self.members.values().map(|member| member.failure_group.clone());
        let known: BTreeSet<String> = of_disks.chain(self.members.delays().into_keys()).collect();
        if let Some(found) = known.iter().find(|known| known.eq_ignore_ascii_case(name)) {
            return Ok(found.clone());
        }
        let known: Vec<_> = known.into_iter().collect();
        let text = format!("disk group {} has no failure group '{name}'", self.name);
        Err(AdminError::new(Code::NoSuchDisk, text)
            .hint(format!("its failure groups are {}", known.join(", "))))
    }

    async fn refuse_delay_of_files(&self) -> Result<()> {
        let (files, _) =
            self.catalog.read(|connection| Ok(tables::entry::count(connection)?)).await?;
        if files == 0 {
            return Ok(());
        }
        let text = format!(
            "disk group {} has files, and all that use them would wait for the delay",
            self.name
        );
        Err(AdminError::new(Code::Busy, text).hint(
            "take a group that is made for the test; or SET ATTRIBUTE ... = ... FORCE, if its files may become slow",
        ))
    }

    /// A sentence for each delay in force.
    pub(crate) fn delay_sentences(&self) -> Vec<String> {
        let delays = self.members.delays().into_iter();
        let sentence = |(failure_group, delay)| {
            let delay = what_if::shown(delay);
            format!(
                "what if: each read, write and flush of failure group {failure_group} is delayed by {delay}; \
                 SET ATTRIBUTE '{}{failure_group}' = '0' ends that",
                what_if::PREFIX
            )
        };
        delays.map(sentence).collect()
    }

    /// To the alert log, when the group is mounted and when a delay is set.
    pub(super) fn report_delays(&self) {
        for text in self.delay_sentences() {
            self.tell(Severity::Warning, None, text);
        }
    }
}
