//! Upgrade of a group's engine while the group is used: the program was replaced by a newer one,
//! and an engine of that one takes the group over.
//!
//!   1. A new engine starts beside the old one, and gets as far as it can without the disks: it
//!      probes them, and reports whether it could mount the group.
//!   2. The old one makes everything durable while it serves. Then it begins no request any more,
//!      answers those in flight, dismounts the group, and ends. From here databases wait.
//!   3. The new one mounts the group, and takes the mounts over. The kernel sends the waiting
//!      requests. Exports are made again, and NBD clients are served on over the connections that
//!      they have.
//!
//! If 1 fails, nothing has happened. If 2 is refused, the old one goes on. If 3 fails, or a process
//! dies, it is as if the engine had been killed: the supervisor starts another.

use super::{Instance, Result};
use crate::engine::protocol::ProcessRequest;
use plinth_engine::{
    admin::{AdminError, Code},
    event::Severity,
};
use plinth_host::lock;
use std::{sync::Arc, time::Instant};

impl Instance {
    /// Replaces the group's engine by one of the program that is installed now. Returns the report.
    ///
    /// # Errors
    /// If the group is not mounted, or one of the two engines refuses.
    pub fn upgrade(self: &Arc<Self>, group: &str) -> Result<String> {
        drop(self.engine_in_service(group));
        let own = self.group_lock(group);
        let _held = lock(&own);
        let old = self.engine(group)?;
        let before = old.status()?;
        if !before.mounted {
            return Err(AdminError::new(
                Code::NotMounted,
                format!("disk group {group} is not mounted"),
            )
            .hint(format!("ALTER DISKGROUP {group} MOUNT")));
        }
        let restricted = lock(&self.state).groups.get(group).is_some_and(|group| group.restricted);
        self.take_devices(&old, group)?;
        let new = self.start_successor(group)?;
        let after = new.status()?;
        new.ask(ProcessRequest::Rehearse).map_err(|error| {
            let text = format!(
                "disk group {group} stays with engine {}, as another could not mount it: {error}",
                before.pid
            );
            let hint = error.hint.unwrap_or_else(|| "mend that first, then upgrade".to_owned());
            AdminError::new(error.code, text).hint(hint)
        })?;
        lock(&self.handed_over).insert(before.pid);
        let began = Instant::now();
        if let Err(error) = old.ask(ProcessRequest::HandOver)
            && self
                .engine(group)
                .and_then(|engine| engine.status())
                .is_ok_and(|status| status.pid == before.pid)
        {
            lock(&self.handed_over).remove(&before.pid);
            return Err(error);
        }
        self.heard_of_clients(group);
        let resume = self.connections(group);
        new.ask(ProcessRequest::Mount { force: false, restricted, patient: false, resume })
            .and_then(|()| self.serve_again(&new, group))
            .map_err(|error| {
                error.hint("the group is mounted again as if its engine had been killed; see the alert log")
            })?;
        let text = format!(
            "engine {} (plinth {}) has taken over from engine {} (plinth {}), {} ms after that was asked to end",
            after.pid,
            after.program,
            before.pid,
            before.program,
            began.elapsed().as_millis()
        );
        self.alert.line(Severity::Note, group, &text);
        Ok(text)
    }
}
