//! `load`: the load on storage measured, modelled and compared. It is of the crate
//! `plinth-evidence`, and needs no instance, but for `slob --group`: the group's own histograms are
//! read from its views when the load begins and when it has ended, and the difference is printed.

use super::{
    Result,
    context::{Context, Run, group_name},
};
use clap::Args;
use plinth_engine::admin::Value;
use plinth_evidence::{buckets::Buckets, issue::text};
use std::{collections::BTreeMap, io};

/// Measure, model and compare the load on storage, with or without a disk group.
#[derive(Debug, Args)]
pub(super) struct Load {
    #[command(subcommand)]
    what: plinth_evidence::command::Load,
}

impl Run for Load {
    fn run(&self, context: &mut Context) -> Result<()> {
        // Not locked: a load that runs draws from a thread of its own.
        let mut out = io::stdout();
        let Some(group) = self.what.group() else {
            context.status = self.what.code(&mut out, &mut || ());
            return Ok(());
        };
        let number = context.group_number(&group_name(group)?)?;
        let mut before = None;
        let begins = &mut || before = Some(Histograms::read(context, number));
        let status = self.what.code(&mut out, begins);
        context.status = status;
        if let Some(before) = before {
            let run = Histograms::read(context, number)?.since(&before?);
            let mut printed = format!("\nDisk group {}, by its own views:\n", group_name(group)?);
            for (event, counts) in &run.0 {
                let nanos = counts.iter().map(|(micros, count)| (micros * 1000, *count));
                printed.push('\n');
                printed += &text::histogram(event, &Buckets::new(nanos));
            }
            printed.lines().for_each(|line| context.say(line));
        }
        Ok(())
    }
}

/// By event: how many by the upper border of the bucket, in microseconds.
#[derive(Debug, Default, PartialEq, Eq)]
struct Histograms(BTreeMap<String, BTreeMap<u64, u64>>);

impl Histograms {
    /// Of the requests of programs, and of the I/O on the disks of each failure group.
    fn read(context: &Context, group: i64) -> Result<Self> {
        let mut read = Self::default();
        let requests = format!(
            "SELECT 'requests: ' || io_class, wait_time_micro, CAST(sum(wait_count) AS bigint) \
             FROM v$asm_file_histogram WHERE group_number = {group} \
             GROUP BY io_class, wait_time_micro"
        );
        let disks = format!(
            "SELECT 'disks of ' || d.failgroup || ': ' || h.io_class, h.wait_time_micro, \
             CAST(sum(h.wait_count) AS bigint) FROM v$asm_disk_histogram h, v$asm_disk_stat d \
             WHERE h.group_number = {group} AND d.group_number = {group} \
             AND d.disk_number = h.disk_number \
             GROUP BY d.failgroup, h.io_class, h.wait_time_micro"
        );
        for query in [requests, disks] {
            for row in context.query(&query)?.rows {
                if let [Value::Text(event), Value::Integer(micros), Value::Integer(count)] =
                    &row[..]
                {
                    read.add(event, micros.unsigned_abs(), count.unsigned_abs());
                }
            }
        }
        Ok(read)
    }

    fn add(&mut self, event: &str, micros: u64, count: u64) {
        *self.0.entry(event.to_owned()).or_default().entry(micros).or_default() += count;
    }

    /// The events since `before`; those without any are left out. An engine that was started
    /// meanwhile counts anew: then all of its events are since.
    fn since(&self, before: &Self) -> Self {
        let mut since = Self::default();
        for (event, counts) in &self.0 {
            let had = |micros: &u64| before.0.get(event).and_then(|counts| counts.get(micros));
            let of = |(micros, count): (&u64, &u64)| {
                (*micros, count.checked_sub(had(micros).copied().unwrap_or(0)).unwrap_or(*count))
            };
            counts
                .iter()
                .map(of)
                .filter(|(_, count)| *count > 0)
                .for_each(|(micros, count)| since.add(event, micros, count));
        }
        since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_of_the_run_are_counted() {
        let (mut before, mut after) = (Histograms::default(), Histograms::default());
        for (event, micros, then, now) in
            [("read", 64, 10, 13), ("read", 128, 5, 5), ("write", 64, 7, 7), ("sync", 256, 9, 2)]
        {
            before.add(event, micros, then);
            after.add(event, micros, now);
        }
        let mut expected = Histograms::default();
        expected.add("read", 64, 3);
        expected.add("sync", 256, 2);
        assert_eq!(after.since(&before), expected);
    }
}
