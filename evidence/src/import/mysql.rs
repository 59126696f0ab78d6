//! MySQL's `SHOW GLOBAL STATUS`: one sample, which counts since the start of the server, or two.
//!
//! ```text
//!   data_writes = log writes + doublewrites + others       requests
//!   data_written = log + doublewrite pages + pages         bytes
//! ```
//!
//! The doublewrite buffer is written in large requests, the log one after the other, and all other
//! writes are pages at random places.

use super::{ImportError, Options, samples, split};
use crate::model::{Class, Model, Totals};
use std::collections::BTreeMap;

const PAGE: f64 = 16384.0;
type Sample = BTreeMap<String, f64>;

pub(super) fn read(texts: &[&str], options: &Options) -> Result<Model, ImportError> {
    let samples: Vec<Sample> = texts.iter().flat_map(|text| self::samples(text)).collect();
    let Some(last) = samples.last() else {
        return Err(ImportError::new("has no counters of InnoDB: give SHOW GLOBAL STATUS"));
    };
    let mut model = Model { source: "MySQL status".to_owned(), ..Model::default() };
    let page = last.get("innodb_page_size").copied().filter(|size| *size >= 512.0);
    if page.is_none() {
        model.assumed.push("pages of 16384 bytes: Innodb_page_size is not in it".to_owned());
    }
    let page = page.unwrap_or(PAGE);
    model.block_size = Some(page as u64);
    let needed =
        ["innodb_data_reads", "innodb_data_read", "innodb_data_writes", "innodb_data_written"];
    if let Some(name) = needed.iter().find(|name| !last.contains_key(**name)) {
        return Err(ImportError::new(format!(
            "has no number for {name}: give the whole of SHOW GLOBAL STATUS"
        )));
    }
    let first = samples.first().filter(|_| samples.len() > 1);
    let mut counters = last.clone();
    let mut seconds = last.get("uptime").copied();
    if let Some(first) = first {
        let differences = difference(first, last)?;
        let is_idle = needed.iter().all(|name| differences.get(*name) == Some(&0.0));
        if is_idle {
            model.warnings.push(
                "no I/O between the samples: averages since the start of the server instead"
                    .to_owned(),
            );
        } else {
            seconds = differences.get("uptime").copied();
            counters = differences;
            if let Some(interval) = options.interval {
                seconds = Some(interval);
            }
        }
    } else {
        model
            .warnings
            .push("averages since the start of the server: peaks are averaged away".to_owned());
        if let Some(interval) = options.interval {
            seconds = Some(interval);
        }
    }
    model.elapsed = seconds.filter(|seconds| *seconds > 0.0).ok_or_else(|| {
        ImportError::new(
            "does not tell for how long it has counted: give Uptime or --interval SECONDS",
        )
    })?;
    fill(&mut model, &counters, page);
    model
        .assumed
        .push("random and sequential reads cannot be told apart: all are random".to_owned());
    model.missing.push("latencies".to_owned());
    Ok(model)
}

/// The samples of a text: where a name comes again, another begins.
fn samples(text: &str) -> Vec<Sample> {
    let mut samples = vec![Sample::new()];
    let mut name = String::new();
    // Half a line at the end has half a number.
    let whole =
        if text.ends_with('\n') { text } else { text.rsplit_once('\n').map_or("", |t| t.0) };
    for line in whole.lines() {
        let cells = samples::cells(line);
        // A frame that is indented.
        let cells = match cells.as_slice() {
            [before, inner @ .., after] if before.is_empty() && after.is_empty() => inner,
            cells => cells,
        };
        let (key, value) = match cells {
            [key, value] if key == "Variable_name" && value != "Value" => {
                name.clone_from(value);
                continue;
            }
            [key, value] if key == "Value" => (name.clone(), value),
            [key, value] => (key.clone(), value),
            _ => continue,
        };
        let key = key.to_lowercase();
        let is_known = key.starts_with("innodb_") || key == "uptime";
        let Some(value) =
            value.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)
        else {
            continue;
        };
        if !is_known || samples.len() > 64 {
            continue;
        }
        if samples.last().is_some_and(|sample| sample.contains_key(&key)) {
            samples.push(Sample::new());
        }
        if let Some(sample) = samples.last_mut() {
            sample.insert(key, value);
        }
    }
    samples.retain(|sample| sample.keys().any(|key| key.starts_with("innodb_data_")));
    samples
}

fn difference(first: &Sample, last: &Sample) -> Result<Sample, ImportError> {
    let mut differences = Sample::new();
    for (key, value) in last {
        let before = first.get(key).copied().unwrap_or(0.0);
        // Only counters matter, and those do not fall.
        let is_counter =
            ["data_read", "data_writ", "log_writ", "os_log_written", "dblwr", "uptime"]
                .iter()
                .any(|part| key.contains(part));
        if is_counter && *value < before {
            return Err(ImportError::new(format!(
                "has {key} fall from the first sample to the second: the server was started \
                 between, the samples are in the wrong order, or they are differences (then run \
                 mysqladmin without -r)"
            )));
        }
        differences.insert(key.clone(), value - before);
    }
    Ok(differences)
}

fn fill(model: &mut Model, counters: &Sample, page: f64) {
    let seconds = model.elapsed;
    let rate = |name: &str| counters.get(name).map(|count| count / seconds);
    let of = |name: &str| rate(name).unwrap_or(0.0);
    model.totals = Totals {
        reads: of("innodb_data_reads"),
        read_bytes: of("innodb_data_read"),
        writes: of("innodb_data_writes"),
        write_bytes: of("innodb_data_written"),
    };
    let log = ["innodb_log_writes", "innodb_os_log_written"];
    let doublewrite = ["innodb_dblwr_writes", "innodb_dblwr_pages_written"];
    for (names, what) in [(log, "the log"), (doublewrite, "the doublewrite buffer")] {
        let missing: Vec<&str> = names.into_iter().filter(|name| rate(name).is_none()).collect();
        if !missing.is_empty() {
            model.missing.extend(missing.iter().map(|name| (*name).to_owned()));
            model.assumed.push(format!("writes of {what} are among the random writes"));
        }
    }
    if rate("innodb_pages_written").is_none() {
        model.missing.push("innodb_pages_written".to_owned());
    }
    let totals = model.totals;
    let mut parts = Vec::new();
    let mut left = (totals.writes, totals.write_bytes);
    let doubled = of("innodb_dblwr_pages_written") * page;
    let others = [
        (Class::LogWrite, of("innodb_log_writes"), of("innodb_os_log_written")),
        (Class::LargeWrite, of("innodb_dblwr_writes"), doubled),
    ];
    for (class, requests, bytes) in others {
        let rest = (left.0 - requests, left.1 - bytes);
        let is_possible = requests > 0.0
            && bytes / requests >= 1.0
            && rest.0 >= 0.0
            && rest.1 >= 0.0
            && (rest.0 > 0.0 || rest.1 <= 0.0);
        if !is_possible {
            if requests > 0.0 {
                model.assumed.push(format!(
                    "{} are not told apart from others: they are not in Innodb_data_writes",
                    class.title()
                ));
            }
            continue;
        }
        left = rest;
        parts.push(split::one(class, requests, bytes, class.title(), &mut model.assumed));
    }
    if left.0 > 0.0 {
        let pages = of("innodb_pages_written");
        let other = (left.0 - pages) * seconds;
        let other_bytes = (left.1 - pages * page) * seconds;
        if pages > 0.0 && other.abs() >= 1.0 {
            model.assumed.push(format!(
                "{other:.0} writes with {other_bytes:.0} bytes that are no pages, log or \
                 doublewrite are counted as random writes"
            ));
        }
        let class = Class::RandomWrite;
        parts.push(split::one(class, left.0, left.1, class.title(), &mut model.assumed));
    }
    if totals.reads > 0.0 {
        let class = Class::RandomRead;
        let (requests, bytes) = (totals.reads, totals.read_bytes);
        parts.insert(0, split::one(class, requests, bytes, class.title(), &mut model.assumed));
    }
    model.streams = parts.into_iter().filter_map(split::Part::stream).collect();
    model.streams.sort_by_key(|stream| stream.class);
    model.residual = model.totals.minus(model.sums());
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::{import::Options, model::Class};

    fn status(uptime: u32, factor: u32) -> String {
        format!(
            "Innodb_data_read\t{}\nInnodb_data_reads\t{}\nInnodb_data_writes\t{}\n\
             Innodb_data_written\t{}\nInnodb_dblwr_pages_written\t{}\nInnodb_dblwr_writes\t{}\n\
             Innodb_log_writes\t{}\nInnodb_os_log_written\t{}\nInnodb_page_size\t16384\n\
             Innodb_pages_written\t{}\nUptime\t{uptime}\n",
            163_840 * factor,
            10 * factor,
            1067 * factor,
            36_013_056_u64 * u64::from(factor),
            742 * factor,
            17 * factor,
            70 * factor,
            8_836_608_u64 * u64::from(factor),
            916 * factor
        )
    }

    #[test]
    fn requests_and_bytes_add_up_to_those_of_the_server() {
        let model = read(&[&status(2511, 1)], &Options::default()).expect("a model");
        let log = model.stream(Class::LogWrite).expect("the log");
        assert!((log.mean() - 126_237.0).abs() < 130.0);
        assert!((log.rate * 2511.0 - 70.0).abs() < 1e-6);
        let sums = model.sums();
        assert!((sums.writes * 2511.0 - 1067.0).abs() < 1.0);
        assert!((sums.write_bytes * 2511.0 / 36_013_056.0 - 1.0).abs() < 0.005);
        assert!(model.warnings.iter().any(|text| text.contains("since the start")));
    }

    #[test]
    fn two_samples_make_the_rates_between_them() {
        let (first, last) = (status(100, 1), status(110, 3));
        let model = read(&[&first, &last], &Options::default()).expect("a model");
        assert_eq!(model.elapsed, 10.0);
        assert_eq!(model.stream(Class::RandomRead).expect("reads").rate, 2.0);
        assert!(read(&[&last, &first], &Options::default()).is_err(), "the wrong order");
    }

    #[test]
    fn samples_without_io_between_them_are_averages_since_the_start() {
        let texts = [status(100, 1), status(110, 1)];
        let model = read(&[&texts[0], &texts[1]], &Options::default()).expect("a model");
        assert_eq!(model.elapsed, 110.0);
        assert!(model.warnings.iter().any(|text| text.contains("no I/O")));
    }
}
