//! RECLAIM: which disks give their free space back, and how.

use super::{Parser, Result, Statement};
use crate::{
    sql::{At, statement::Alter},
    sql_error::SqlError,
};
use plinth_engine::admin::{Command, ReclaimMethod, ReclaimOrder, Selection};

impl Parser<'_> {
    /// `RECLAIM [DISK d, ... | DISKS IN FAILGROUP f, ...] [DISCARD | ZERO] [POWER n]
    /// [WAIT | NOWAIT]`, after its first word, the options in any order; or `RECLAIM STOP`.
    pub(super) fn reclaim(&mut self, group: At<String>) -> Result<Statement> {
        if self.take("STOP") {
            return Ok(Statement::Alter(Alter::one(group, Command::StopReclaim)));
        }
        let at = self.here();
        let which = if self.is("DISK") || self.is("DISKS") {
            self.selection(false)?
        } else {
            Selection::All
        };
        let mut order = ReclaimOrder { which, method: ReclaimMethod::Discard, power: None };
        let mut wait = false;
        while self.peek().is_some() {
            let before = self.next;
            if self.take("ZERO") {
                order.method = ReclaimMethod::Zero;
            } else if self.take("DISCARD") {
                order.method = ReclaimMethod::Discard;
            }
            let power_at = self.here();
            if let Some(power) = self.power()? {
                if power == 0 {
                    return Err(SqlError::syntax(power_at, "a reclaim has no power 0")
                        .hint(format!("ALTER DISKGROUP {} RECLAIM STOP ends it", group.value)));
                }
                order.power = Some(power);
            }
            if let Some(says) = self.wait_or_not() {
                wait = says;
            }
            if self.next == before {
                return Err(self.expected("DISK, DISCARD, ZERO, POWER, WAIT, NOWAIT or STOP"));
            }
        }
        Ok(Statement::Alter(Alter::one(group, Command::Reclaim(order)).at(at).wait(Some(wait))))
    }
}
