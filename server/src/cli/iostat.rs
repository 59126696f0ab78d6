//! `iostat`: reads and writes of disks, since their groups were mounted or in each interval.

use super::{
    Result,
    context::{Context, Headings, Run, group_name, quoted},
};
use crate::query::{Column, Table, views::Type};
use clap::Args;
use plinth_engine::admin::Value;
use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

/// How soon an interrupt is noticed.
const SLICE: Duration = Duration::from_millis(100);

/// Count the I/O of disks.
#[derive(Debug, Args)]
pub(super) struct Iostat {
    /// With errors.
    #[arg(short)]
    e: bool,
    /// With times, in seconds.
    #[arg(short)]
    t: bool,
    /// In requests, not in bytes.
    #[arg(long)]
    io: bool,
    /// With regions: all is cold here.
    #[arg(long)]
    region: bool,
    #[arg(short = 'G', value_name = "GROUP")]
    group: Option<String>,
    #[command(flatten)]
    headings: Headings,
    /// Seconds: first what was since the mount, then what there is in a second, again and again.
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    interval: Option<u32>,
    /// The number of times; without it, for ever.
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
}

/// The counters of a disk since its group was mounted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    pub reads: f64,
    pub writes: f64,
    pub bytes_read: f64,
    pub bytes_written: f64,
    pub read_errors: f64,
    pub write_errors: f64,
    /// Seconds.
    pub read_time: f64,
    pub write_time: f64,
}

impl Counted {
    /// The increase since `before`, per second.
    pub(super) fn since(&self, before: &Self, seconds: f64) -> Self {
        // A group that was mounted again counts from 0.
        let rate = |now: f64, before: f64| (now - before).max(0.0) / seconds.max(1e-9);
        Self {
            reads: rate(self.reads, before.reads),
            writes: rate(self.writes, before.writes),
            bytes_read: rate(self.bytes_read, before.bytes_read),
            bytes_written: rate(self.bytes_written, before.bytes_written),
            read_errors: rate(self.read_errors, before.read_errors),
            write_errors: rate(self.write_errors, before.write_errors),
            read_time: rate(self.read_time, before.read_time),
            write_time: rate(self.write_time, before.write_time),
        }
    }
}

/// The counters by group and disk.
pub(super) type Sample = BTreeMap<(String, String), Counted>;

/// The counters of all disks of mounted groups, or of one group.
pub(super) fn sample(context: &Context, group: Option<&str>) -> Result<Sample> {
    let condition =
        group.map_or_else(|| "1".to_owned(), |group| format!("g.name = {}", quoted(group)));
    let table = context.query(&format!(
        "SELECT g.name, d.name, d.reads, d.writes, d.bytes_read, d.bytes_written, d.read_errs, d.write_errs,
            d.read_time, d.write_time
         FROM v$asm_disk_stat d JOIN v$asm_diskgroup_stat g ON g.group_number = d.group_number
         WHERE d.group_number > 0 AND {condition}"
    ))?;
    let mut sample = Sample::new();
    for row in table.rows {
        let [Value::Text(group), Value::Text(disk), numbers @ ..] = &row[..] else { continue };
        let number = |at: usize| match numbers.get(at) {
            Some(Value::Integer(number)) => *number as f64,
            Some(Value::Real(number)) => *number,
            _ => 0.0,
        };
        let counted = Counted {
            reads: number(0),
            writes: number(1),
            bytes_read: number(2),
            bytes_written: number(3),
            read_errors: number(4),
            write_errors: number(5),
            read_time: number(6),
            write_time: number(7),
        };
        sample.insert((group.clone(), disk.clone()), counted);
    }
    Ok(sample)
}

impl Iostat {
    fn table(&self, sample: &Sample, rates: bool) -> Table {
        let mut names = vec!["Reads", "Writes"];
        if self.region {
            names.extend(["Cold_Reads", "Cold_Writes", "Hot_Reads", "Hot_Writes"]);
        }
        if self.e {
            names.extend(["Read_Err", "Write_Err"]);
        }
        if self.t {
            names.extend(["Read_Time", "Write_Time"]);
        }
        let kind = if rates { Type::Real } else { Type::Integer };
        let column = |name: &str, kind| Column { name: name.to_owned(), kind };
        let mut columns = vec![column("Group_Name", Type::Text), column("Dsk_Name", Type::Text)];
        columns.extend(
            names
                .iter()
                .map(|name| column(name, if name.ends_with("Time") { Type::Real } else { kind })),
        );
        // A rate is rounded to the hundredth, a time to the microsecond.
        let count = |number: f64| {
            if rates {
                Value::Real((number * 100.0).round() / 100.0)
            } else {
                Value::Integer(number as i64)
            }
        };
        let time = |number: f64| Value::Real((number * 1e6).round() / 1e6);
        let row = |((group, disk), counted): (&(String, String), &Counted)| {
            let (reads, writes) = if self.io {
                (counted.reads, counted.writes)
            } else {
                (counted.bytes_read, counted.bytes_written)
            };
            let mut row = vec![
                Value::Text(group.clone()),
                Value::Text(disk.clone()),
                count(reads),
                count(writes),
            ];
            if self.region {
                row.extend([count(reads), count(writes), count(0.0), count(0.0)]);
            }
            if self.e {
                row.extend([count(counted.read_errors), count(counted.write_errors)]);
            }
            if self.t {
                row.extend([time(counted.read_time), time(counted.write_time)]);
            }
            row
        };
        Table { columns, rows: sample.iter().map(row).collect() }
    }
}

impl Run for Iostat {
    fn run(&self, context: &mut Context) -> Result<()> {
        let group = self.group.as_deref().map(group_name).transpose()?;
        if let Some(group) = &group {
            context.group_number(group)?;
        }
        let mut before = sample(context, group.as_deref())?;
        let mut then = Instant::now();
        context.show(&self.table(&before, false), self.headings);
        let Some(interval) = self.interval else { return Ok(()) };
        let mut round = 1;
        while self.count.is_none_or(|count| round < count) {
            let next = Instant::now() + Duration::from_secs(u64::from(interval));
            while Instant::now() < next {
                if context.is_interrupted() {
                    return Ok(());
                }
                thread::sleep(next.saturating_duration_since(Instant::now()).min(SLICE));
            }
            let now = sample(context, group.as_deref())?;
            let seconds = then.elapsed().as_secs_f64();
            then = Instant::now();
            let rate = |(disk, counted): (&(String, String), &Counted)| {
                let before = before.get(disk).copied().unwrap_or_default();
                (disk.clone(), counted.since(&before, seconds))
            };
            let rates: Sample = now.iter().map(rate).collect();
            context.say("");
            context.show(&self.table(&rates, true), self.headings);
            before = now;
            round += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_what_came_in_a_second_and_never_negative() {
        let before = Counted { reads: 10.0, bytes_read: 100.0, ..Counted::default() };
        let now = Counted { reads: 14.0, bytes_read: 20.0, ..Counted::default() };
        let rate = now.since(&before, 2.0);
        assert_eq!((rate.reads, rate.bytes_read, rate.writes), (2.0, 0.0, 0.0));
    }
}
