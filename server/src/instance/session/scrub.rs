//! SCRUB: begun, waited for, told.

use super::{Context, Notice, Outcome, Refusal, Result, checked};
use crate::{engine::protocol::Request, instance::query::Cancel, sql::At};
use plinth_engine::admin::ScrubOrder;

impl Context {
    /// Begins it; with `wait` returns at its end, and tells what it found as CHECK does.
    pub(super) fn scrub(
        &self,
        group: &At<String>,
        order: &ScrubOrder,
        wait: bool,
        at: usize,
        cancel: &Cancel,
        notices: &mut Vec<Notice>,
    ) -> Result<Outcome> {
        let engine = self.engine(group)?;
        engine.ask(&Request::Scrub(order.clone())).map_err(|error| Refusal::from(error).or_at(at))?;
        if wait {
            self.wait_for(group, "SCRUBBING", "the scrub", cancel)?;
            let report = self.engine(group)?.scrubbed().map_err(|error| Refusal::from(error).or_at(group.at))?;
            checked(&group.value, &report, order.repair, notices)?;
        }
        Ok(Outcome::Done)
    }
}
