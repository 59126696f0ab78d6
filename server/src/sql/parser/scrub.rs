//! CHECK and SCRUB: which part of a group is read, and with which options.

use super::{Parser, Result, Statement};
use crate::{
    sql::{
        At,
        statement::{Alter, Groups},
    },
    sql_error::SqlError,
};
use plinth_engine::admin::{Command, Scope, ScrubOrder, ScrubPower};

impl Parser<'_> {
    /// `CHECK [ALL | DISK d, ... | DISKS IN FAILGROUP f, ... | FILE 'f', ...] [REPAIR | NOREPAIR]`,
    /// after its first word.
    pub(super) fn check(&mut self, group: At<String>) -> Result<Statement> {
        let at = self.here();
        let scope = if self.take("ALL") {
            Scope::All
        } else if self.take("FILE") {
            Scope::Files(self.file_names()?.into_iter().map(|file| file.value).collect())
        } else if self.is("DISK") || self.is("DISKS") {
            Scope::Disks(self.selection(false)?)
        } else {
            Scope::All
        };
        let repair = self.repair();
        let command = Command::Check { repair, scope };
        Ok(Statement::Alter(Alter::one(group, command).at(at)))
    }

    /// `SCRUB [FILE 'f' | DISK d] [REPAIR | NOREPAIR] [POWER p] [WAIT | NOWAIT] [FORCE | NOFORCE]
    /// [STOP]`, after its first word; the options in any order.
    pub(super) fn scrub(&mut self, groups: Groups) -> Result<Statement> {
        let at = self.here();
        if self.is("FILE") || self.is("DISK") || self.is("DISKS") {
            // Files and disks belong to a single group: exactly one must be named.
            self.one(groups.clone())?;
        }
        let scope = if self.take("FILE") {
            Scope::Files(self.file_names()?.into_iter().map(|file| file.value).collect())
        } else if self.is("DISK") || self.is("DISKS") {
            Scope::Disks(self.selection(false)?)
        } else {
            Scope::All
        };
        let mut order = ScrubOrder { scope, ..ScrubOrder::default() };
        let mut wait = false;
        let mut stop = false;
        while self.peek().is_some() {
            let before = self.next;
            order.repair |= self.repair();
            if self.take("POWER") {
                order.power = self.scrub_power()?;
            }
            if let Some(says) = self.wait_or_not() {
                wait = says;
            }
            order.force |= self.force();
            if self.is("STOP") {
                if order.scope != Scope::All {
                    let text = "STOP ends the scrub of the disk group, whatever it looks at";
                    let group = self.one(groups)?.value;
                    return Err(SqlError::syntax(self.here(), text)
                        .hint(format!("ALTER DISKGROUP {} SCRUB STOP", group)));
                }
                stop = self.take("STOP");
            }
            if self.next == before {
                return Err(
                    self.expected("REPAIR, NOREPAIR, POWER, WAIT, NOWAIT, FORCE, NOFORCE or STOP")
                );
            }
        }
        Ok(if stop {
            Statement::Alter(Alter::of(groups, Command::StopScrub))
        } else {
            Statement::Alter(Alter::of(groups, Command::Scrub(order)).at(at).wait(Some(wait)))
        })
    }

    /// `[REPAIR | NOREPAIR]`
    fn repair(&mut self) -> bool {
        let repair = self.take("REPAIR");
        if !repair {
            self.take("NOREPAIR");
        }
        repair
    }

    fn scrub_power(&mut self) -> Result<ScrubPower> {
        let powers = [
            ("AUTO", ScrubPower::Auto),
            ("LOW", ScrubPower::Low),
            ("HIGH", ScrubPower::High),
            ("MAX", ScrubPower::Max),
        ];
        let power = powers.into_iter().find(|(word, _)| self.take(word)).map(|(_, power)| power);
        power.ok_or_else(|| self.expected("AUTO, LOW, HIGH or MAX"))
    }

    /// `'f' [, ...]`
    pub(super) fn file_names(&mut self) -> Result<Vec<At<String>>> {
        self.strings("the name of a file in single quotes")
    }

    /// A list of non-empty strings, separated by commas.
    pub(super) fn strings(&mut self, what: &str) -> Result<Vec<At<String>>> {
        let mut all = Vec::new();
        loop {
            let one = self.string(what)?;
            if one.value.is_empty() {
                return Err(SqlError::syntax(one.at, format!("expected {what}")));
            }
            all.push(one);
            if !self.take_symbol(",") {
                return Ok(all);
            }
        }
    }
}
