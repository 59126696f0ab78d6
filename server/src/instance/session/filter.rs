//! The write filter in a session: `ALTER SYSTEM FILTER`, and the rows of the views `v$asm_filter`,
//! `v$asm_filter_disk` and `v$asm_filter_refusal`.

use super::{
    Context, Notice, Outcome, Result,
    facts::{maybe, number, text},
};
use crate::{
    instance::filter::{ReportedDisk, ReportedRefusal},
    query::Time,
    sql::statement::{Alter, FilterChange, Statement},
    sql_error::SqlError,
    users,
};
use plinth_engine::admin::{Command, Value};

type Row = Vec<(&'static str, Value)>;

/// Several texts in one value; NULL if there are none.
fn list(of: &[String]) -> Value {
    maybe((!of.is_empty()).then(|| of.join(", ")))
}

fn word(is: bool, yes: &str, no: &str) -> Value {
    text(if is { yes } else { no })
}

impl Context {
    pub(super) fn change_filter(
        &self,
        change: &FilterChange,
        notices: &mut Vec<Notice>,
    ) -> Result<Outcome> {
        let at = match change {
            FilterChange::Set { disk: Some(disk), .. } => Some(disk.at),
            _ => None,
        };
        let open = self.instance.change_filter(change).map_err(|error| {
            let error = SqlError::from(error);
            match at {
                Some(at) => error.or_at(at),
                None => error,
            }
        })?;
        notices.extend(open.into_iter().map(|text| Notice { warning: true, text }));
        Ok(Outcome::Done)
    }

    /// Protects the members that a statement has made, and releases disks that are none any more.
    /// The statement is done, so what fails is a warning. Other statements are spared the look at
    /// all devices.
    pub(super) fn protect_members(&self, statement: &Statement, notices: &mut Vec<Notice>) {
        let makes_members = match statement {
            Statement::CreateGroup { .. }
            | Statement::DropGroup { .. }
            | Statement::Mount { .. }
            | Statement::AlterSystem { .. } => true,
            Statement::Alter(Alter { command, .. }) => {
                matches!(command, Command::Exchange { .. } | Command::Replace { .. })
            }
            _ => false,
        };
        if !makes_members {
            return;
        }
        let open = self.instance.protect_members().unwrap_or_else(|error| vec![error.to_string()]);
        notices.extend(open.into_iter().map(|text| Notice { warning: true, text }));
    }

    pub(super) fn of_filter(&self) -> Row {
        let report = self.instance.filter_report();
        vec![
            ("state", word(report.is_loaded, "LOADED", "NOT LOADED")),
            ("filtering", word(report.is_enabled, "ENABLED", "DISABLED")),
            ("reason", maybe(report.trouble)),
            ("refused", number(report.refused)),
        ]
    }

    pub(super) fn of_filter_disks(&self) -> Vec<Row> {
        let row = |disk: ReportedDisk| {
            let (group, name) = disk.names.unzip();
            vec![
                ("group_name", maybe(group)),
                ("name", maybe(name)),
                ("path", text(disk.path)),
                ("filtering", text(disk.filtering.word())),
                ("refused", number(disk.refused)),
                ("nodes", list(&disk.nodes)),
                ("writers", list(&disk.writers)),
            ]
        };
        self.instance.filter_disks().unwrap_or_default().into_iter().map(row).collect()
    }

    pub(super) fn of_filter_refusals(&self) -> Vec<Row> {
        let now = crate::alert::now();
        let row = |ReportedRefusal { refusal, path, names }: ReportedRefusal| {
            let (group, name) = names.unzip();
            let ago = i64::try_from(refusal.ago.as_nanos()).unwrap_or(i64::MAX);
            vec![
                ("refusal", number(refusal.number)),
                ("time", text(Time::of_unix(now.saturating_sub(ago)).in_second().text())),
                ("pid", refusal.process.map_or(Value::Null, number)),
                ("program", maybe(Some(refusal.program).filter(|name| !name.is_empty()))),
                ("username", text(users::name(refusal.user))),
                ("path", text(path)),
                ("group_name", maybe(group)),
                ("name", maybe(name)),
            ]
        };
        self.instance.filter_refusals().unwrap_or_default().into_iter().map(row).collect()
    }
}
