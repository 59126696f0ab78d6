//! `EXPLAIN WORK`: the plan as a result set, and in one sentence.
//!
//! There is a row for each step, which moves mirrors from one disk to another, in the order in
//! which the steps are carried out, and a last row, `TOTAL`, with their sum. Minutes are shown if a
//! rebalance has been measured since the mount.

use super::{Context, Notice, Result, SqlError, alter::one_group, at_disk, note};
use crate::{
    alert,
    query::{Column, Estimated, Table, views::Type},
    sql::statement::Alter,
};
use plinth_engine::admin::{Estimate, PlannedStep, Value};

/// The columns of a plan.
pub(super) fn columns() -> Vec<Column> {
    let column = |(name, kind): (&str, Type)| Column { name: name.to_owned(), kind };
    let columns = [
        ("step", Type::Integer),
        ("pass", Type::Text),
        ("from_disk", Type::Text),
        ("to_disk", Type::Text),
        ("aus", Type::Integer),
        ("mib", Type::Integer),
        ("est_minutes", Type::Integer),
        ("why", Type::Text),
    ];
    columns.map(column).to_vec()
}

fn number(number: u64) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn table(estimate: &Estimate, power: Option<u32>) -> Table {
    let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::Text);
    let minutes = |mirrors| {
        estimate.rate.and_then(|rate| rate.minutes(mirrors, power)).map_or(Value::Null, number)
    };
    let mib = |mirrors: u64| number(mirrors.saturating_mul(estimate.au_size) >> 20);
    let row = |(step, one): (u64, &PlannedStep)| {
        vec![
            number(step),
            Value::Text(one.pass.to_string()),
            text(&one.from),
            text(&one.to),
            number(one.mirrors),
            mib(one.mirrors),
            minutes(one.mirrors),
            Value::Text(one.why.clone()),
        ]
    };
    let mut rows: Vec<Vec<Value>> = (1..).zip(&estimate.steps).map(row).collect();
    let mut why = format!("the least possible is {} AUs", estimate.least);
    if let Some(rate) = estimate.rate {
        why += &format!(
            "; the last rebalance moved {} a minute with power {}",
            rate.per_minute, rate.power
        );
    }
    rows.push(vec![
        Value::Null,
        Value::Text("TOTAL".to_owned()),
        Value::Null,
        Value::Null,
        number(estimate.work),
        mib(estimate.work),
        minutes(estimate.work),
        Value::Text(why),
    ]);
    Table { columns: columns(), rows }
}

impl Context {
    /// Reports how much a statement would move. Nothing is changed.
    pub(super) fn explain(
        &self,
        id: &str,
        alter: &Alter,
        power: Option<u32>,
        notices: &mut Vec<Notice>,
    ) -> Result<Table> {
        let group = one_group(alter)?;
        let (command, places) = self.completed(alter, group)?;
        let engine = self.engine(group)?;
        let estimate = engine
            .estimate(command)
            .map_err(|error| -> SqlError { at_disk(error, &places, alter.at) })?;
        let (work, least) = (estimate.work, estimate.least);
        let size = work.saturating_mul(estimate.au_size) >> 20;
        notices.push(note(format!(
            "{work} AUs would move, {size} MiB at most; the least possible is {least} AUs"
        )));
        let power = power.or_else(|| self.own_power()).or(Some(self.instance.power_limit()));
        let table = table(&estimate, power);
        let (group, id, when) = (group.value.clone(), id.to_owned(), alert::now());
        self.instance.keep_estimate(Estimated { group, id, when, estimate });
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plinth_engine::admin::{PlannedPass, Rate};

    /// The rows are the steps and their sum; without a measurement the minutes are NULL.
    #[test]
    fn a_plan_is_a_table() {
        let step = |mirrors| PlannedStep {
            pass: PlannedPass::Balance,
            from: Some("A".to_owned()),
            to: None,
            mirrors,
            why: "so".to_owned(),
        };
        let mut estimate = Estimate {
            work: 30,
            least: 29,
            au_size: 4 << 20,
            steps: vec![step(10), step(20)],
            rate: None,
        };
        let unknown = table(&estimate, None);
        assert_eq!(unknown.rows.len(), 3);
        assert!(
            unknown
                .rows
                .iter()
                .all(|row| row.len() == unknown.columns.len() && row[6] == Value::Null)
        );
        assert_eq!(unknown.rows[2][4..6], [Value::Integer(30), Value::Integer(120)]);
        estimate.rate = Some(Rate { per_minute: 10, power: 8 });
        assert_eq!(table(&estimate, Some(4)).rows[2][6], Value::Integer(6));
        assert_eq!(table(&estimate, Some(0)).rows[2][6], Value::Null);
    }
}
