//! The table from kilometres to milliseconds.

use super::RTT_OF_KM;
use crate::draw::columns::{First, aligned};
use serde::Serialize;

/// Nanoseconds of a millisecond.
const MS: f64 = 1e6;

/// Columns of milliseconds, a row for each distance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// Of the write.
    pub size: u64,
    pub columns: Vec<&'static str>,
    pub rows: Vec<Row>,
    /// How much slower the last of two distances is, by column.
    pub growth: Option<Growth>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    pub km: f64,
    pub ms: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Growth {
    pub from_km: f64,
    pub to_km: f64,
    pub times: Vec<f64>,
}

/// The input of the table. Nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Of the write, at no distance.
    pub local: f64,
    /// The slowest of the other copies at no distance, and what it takes beside round trips.
    pub copy: f64,
    pub round_trips: f64,
    /// A write that the array replicates: what it takes beside its two round trips.
    pub array: f64,
    /// The overhead in `local`, for the column that counts it twice.
    pub overhead: f64,
}

/// Round trips of a write that an array replicates, and of a SCSI write without fast write.
pub const TWO: f64 = 2.0;

/// A local write, a mirror by the host, replication by the array.
#[must_use]
pub fn table(size: u64, kilometres: &[f64], costs: Costs) -> Table {
    build(
        size,
        kilometres,
        &[
            ("RTT", &|rtt| rtt),
            ("local write", &|_| costs.local),
            ("host mirror", &|rtt| costs.local.max(costs.copy + costs.round_trips * rtt)),
            ("host mirror, 2 trips", &|rtt| costs.local.max(costs.copy + TWO * rtt)),
            ("array replication", &|rtt| costs.array + TWO * rtt),
        ],
    )
}

/// The same of points that others measured, beside the sum that counts the overhead twice.
#[must_use]
pub fn checked(size: u64, kilometres: &[f64], costs: Costs) -> Table {
    build(
        size,
        kilometres,
        &[
            ("RTT", &|rtt| rtt),
            ("overhead twice (wrong)", &|rtt| costs.local + costs.overhead + rtt),
            ("host mirror", &|rtt| costs.local.max(costs.copy + costs.round_trips * rtt)),
            ("host mirror, 2 trips", &|rtt| costs.local.max(costs.copy + TWO * rtt)),
            ("array replication", &|rtt| costs.array + TWO * rtt),
        ],
    )
}

/// The article's figures: slope 0.027 ms for a KiB and overhead 0.6 ms, as it rounds them, in its
/// own sum and in the right one; and the points themselves.
#[must_use]
pub fn article(kilometres: &[f64], costs: Costs) -> Table {
    let overhead = 0.6 * MS;
    let rounded = overhead + 2.0 * 0.027 * MS;
    build(
        2048,
        kilometres,
        &[
            ("RTT", &|rtt| rtt),
            ("article (wrong)", &|rtt| rounded + overhead + rtt),
            ("right", &|rtt| rounded + rtt),
            ("right, unrounded", &|rtt| costs.local + rtt),
            ("2 trips", &|rtt| costs.local + TWO * rtt),
            ("array replication", &|rtt| costs.array + TWO * rtt),
        ],
    )
}

type Column<'a> = (&'static str, &'a dyn Fn(f64) -> f64);

fn build(size: u64, kilometres: &[f64], columns: &[Column<'_>]) -> Table {
    let rows: Vec<Row> = kilometres
        .iter()
        .map(|km| Row {
            km: *km,
            ms: columns.iter().map(|(_, of)| of(km * RTT_OF_KM) / MS).collect(),
        })
        .collect();
    // From 10 km, if the table has it: nearer, the distance is nothing.
    let from = rows.iter().find(|row| row.km >= 10.0).or(rows.first());
    let growth = from.zip(rows.last()).filter(|(from, to)| from.km < to.km).map(|(from, to)| {
        let times = from.ms.iter().zip(&to.ms).map(|(from, to)| to / from).collect();
        Growth { from_km: from.km, to_km: to.km, times }
    });
    let columns = columns.iter().map(|(title, _)| *title).collect();
    Table { size, columns, rows, growth }
}

impl Table {
    /// Aligned columns with a header, in milliseconds.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines: Vec<Vec<String>> = Vec::new();
        let mut header = vec!["km".to_owned()];
        header.extend(self.columns.iter().map(|title| (*title).to_owned()));
        lines.push(header);
        for row in &self.rows {
            let mut line = vec![format!("{}", row.km)];
            line.extend(row.ms.iter().map(|ms| format!("{ms:.3}")));
            lines.push(line);
        }
        if let Some(growth) = &self.growth {
            let mut line = vec![format!("{}/{}", growth.to_km, growth.from_km)];
            line.extend(growth.times.iter().map(|times| format!("x{times:.2}")));
            lines.push(line);
        }
        aligned(&lines, First::Right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2 KiB in 0.66 ms; 1.77 ms if the array replicates it over 2.5 km.
    const COSTS: Costs = Costs {
        local: 0.66 * MS,
        copy: 0.66 * MS,
        round_trips: 1.0,
        array: 1.72 * MS,
        overhead: 606_667.0,
    };

    #[test]
    fn ten_kilometres_of_the_article_are_0_754_ms_and_150_are_2_154() {
        let table = article(&[2.5, 10.0, 20.0, 50.0, 100.0, 150.0], COSTS);
        let row = |km: f64| {
            let row = table.rows.iter().find(|row| row.km == km).expect("it is in the table");
            row.ms.iter().map(|ms| format!("{ms:.3}")).collect::<Vec<_>>()
        };
        assert_eq!(row(2.5), ["0.025", "1.279", "0.679", "0.685", "0.710", "1.770"]);
        assert_eq!(row(10.0), ["0.100", "1.354", "0.754", "0.760", "0.860", "1.920"]);
        assert_eq!(row(150.0), ["1.500", "2.754", "2.154", "2.160", "3.660", "4.720"]);
        let growth = table.growth.as_ref().expect("ten and more");
        assert_eq!(growth.from_km, 10.0);
        assert_eq!(format!("{:.2} {:.2}", growth.times[1], growth.times[2]), "2.03 2.86");
    }

    #[test]
    fn a_mirror_is_as_slow_as_its_slowest_copy() {
        let costs = Costs { copy: 0.2 * MS, ..COSTS };
        let table = table(2048, &[10.0, 100.0], costs);
        assert_eq!(table.rows[0].ms[2], 0.66, "the local copy is the slower one");
        assert_eq!(table.rows[1].ms[2], 1.2);
    }
}
