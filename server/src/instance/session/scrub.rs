//! The SCRUB statement: begins a scrub, waits for its end, reports what it found.

use super::{Context, Notice, Outcome, Result, SqlError, checked, together};
use crate::{
    query::Cancel,
    sql::statement::{Alter, At},
};
use plinth_engine::admin::{Command, OperationPass, Report, ScrubOrder};

impl Context {
    /// Begins a scrub in all groups that the statement names. With WAIT it returns when all have
    /// ended, and reports what they found as CHECK does.
    pub(super) fn scrub(
        &self,
        alter: &Alter,
        order: &ScrubOrder,
        cancel: &Cancel,
        notices: &mut Vec<Notice>,
    ) -> Result<Outcome> {
        let groups = self.mounted_groups(&alter.groups);
        let mut results = Vec::new();
        let mut begun = Vec::new();
        for group in &groups {
            match self.begin_scrub(group, order) {
                Ok(()) => begun.push(group),
                Err(refusal) => results.push(Err(refusal.or_at(alter.at))),
            }
        }
        for group in begun.into_iter().filter(|_| alter.wait == Some(true)) {
            let ended = self.end_scrub(group, cancel);
            if cancel.is_cancelled() {
                return Err(
                    SqlError::canceled().hint("the scrub goes on; v$asm_operation shows it")
                );
            }
            results.push(
                ended.and_then(|report| checked(&group.value, &report, order.repair, notices)),
            );
        }
        together(results)
    }

    fn begin_scrub(&self, group: &At<String>, order: &ScrubOrder) -> Result<()> {
        self.engine(group)?.ask(Command::Scrub(order.clone())).map_err(SqlError::from)
    }

    fn end_scrub(&self, group: &At<String>, cancel: &Cancel) -> Result<Report> {
        self.wait_for(group, OperationPass::Scrubbing, cancel)?;
        self.engine(group)?.scrubbed().map_err(|error| SqlError::from(error).or_at(group.at))
    }

    /// Scrubs a group, and returns what that found.
    ///
    /// # Errors
    /// If there is no such group, a scrub of it runs already, or the scrub ended with an error.
    pub(crate) fn scrub_group(
        &self,
        group: &str,
        order: &ScrubOrder,
        cancel: &Cancel,
    ) -> Result<Report> {
        let group = At { value: group.to_owned(), at: 0 };
        self.begin_scrub(&group, order)?;
        self.end_scrub(&group, cancel)
    }
}
