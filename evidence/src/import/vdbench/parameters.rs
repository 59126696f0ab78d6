//! VDBench's parameter files.
//!
//! ```text
//!   * remark                                  also / and #
//!   sd=sd1,lun=/dev/sdb,openflags=o_direct    blocks: sd, wd, rd, hd, general
//!   wd=default,rdpct=100                      what all that follow have
//!   wd=wd1,sd=sd*,xfersize=(4k,60,8k,40),     goes on, for it ends with a comma
//!      seekpct=0,iorate=100,priority=1        what follows a blank is a remark
//!   rd=rd1,wd=wd*,iorate=1000,elapsed=60
//! ```
//!
//! Invariants:
//!
//! 1. A workload with `iorate=` needs `priority=` on all of them, 1 to n: VDBench refuses others,
//!    and so does this.
//! 2. An error names the line.

use super::super::{
    ImportError,
    fio::{class_of_name, fill, size},
};
use crate::model::{Class, Model};
use std::collections::BTreeMap;

const BLOCKS_MAX: usize = 10_000;
const LARGE: f64 = 131_072.0;

/// `wd=...` with its line and its keys.
struct Block {
    line: usize,
    kind: String,
    name: String,
    keys: BTreeMap<String, String>,
}

impl Block {
    fn error(&self, text: &str) -> ImportError {
        ImportError::new(format!("has in line {}, {}={}: {text}", self.line, self.kind, self.name))
    }

    fn number(&self, key: &str) -> Result<Option<f64>, ImportError> {
        let Some(value) = self.keys.get(key) else { return Ok(None) };
        let value = first(value);
        let number = value.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(self.error(&format!("{key}={value} is no number: a model needs one"))),
        }
    }
}

/// Of a list in parentheses, the first.
fn first(value: &str) -> &str {
    let inner = value.trim_start_matches('(').trim_end_matches(')');
    inner.split(',').next().unwrap_or(inner).trim()
}

pub(in crate::import) fn model(text: &str) -> Result<Model, ImportError> {
    let blocks = blocks(text)?;
    let of = |kind: &'static str| {
        blocks.iter().filter(move |block| block.kind == kind && block.name != "default")
    };
    let run = of("rd").next();
    let patterns = run.and_then(|run| run.keys.get("wd")).map(String::as_str).unwrap_or("*");
    let workloads: Vec<&Block> = of("wd").filter(|wd| matches(patterns, &wd.name)).collect();
    if workloads.is_empty() {
        return Err(ImportError::new("has no workload (wd=) that its run (rd=) takes"));
    }
    check_priorities(&workloads)?;
    let total = match run {
        Some(run)
            if run.keys.get("iorate").is_some_and(|rate| first(rate).parse::<f64>().is_ok()) =>
        {
            run.number("iorate")?
        }
        _ => None,
    };
    let mut model = Model { source: "VDBench parameters".to_owned(), ..Model::default() };
    if let Some(run) = run {
        model.name.clone_from(&run.name);
    }
    let mut sums: BTreeMap<Class, (f64, f64, f64)> = BTreeMap::new();
    let rest = share_of_others(&workloads)?;
    for workload in &workloads {
        let rate = match (workload.number("iorate")?, workload.number("skew")?, total) {
            (Some(rate), _, _) => rate,
            (None, Some(skew), Some(total)) => total * skew / 100.0,
            (None, None, Some(total)) => total * rest,
            (None, _, None) => {
                return Err(workload.error("it has no rate: give it, or the run, iorate=NUMBER"));
            }
        };
        add(workload, rate, &mut sums)?;
    }
    if let Some(rates) =
        run.and_then(|run| run.keys.get("iorate")).filter(|rate| rate.contains(','))
    {
        model.warnings.push(format!("iorate={rates}: the model is of the first rate"));
    }
    let varied = run.map(|run| run.keys.keys().filter(|key| key.starts_with("for")).cloned());
    let varied = varied.map(|keys| keys.collect::<Vec<_>>().join(", ")).unwrap_or_default();
    if !varied.is_empty() {
        model
            .warnings
            .push(format!("{varied}: left out, the model is of the workload's own values"));
    }
    if of("rd").count() > 1 {
        model.warnings.push(format!("several runs in it: the model is of {}", model.name));
    }
    fill(&mut model, &sums, "VDBench");
    Ok(model)
}

/// Of the run's rate, for each workload that has neither rate nor skew.
fn share_of_others(workloads: &[&Block]) -> Result<f64, ImportError> {
    let (mut skews, mut others) = (0.0, 0.0);
    for workload in workloads {
        match workload.number("skew")? {
            Some(skew) => skews += skew / 100.0,
            None => others += 1.0,
        }
    }
    Ok((1.0_f64 - skews).max(0.0) / f64::max(others, 1.0))
}

fn add(
    workload: &Block,
    rate: f64,
    sums: &mut BTreeMap<Class, (f64, f64, f64)>,
) -> Result<(), ImportError> {
    let xfersize = workload.keys.get("xfersize").map_or("4k", String::as_str);
    let mean = mean_size(xfersize).ok_or_else(|| {
        workload.error("its xfersize is none: give 8k, or (4k,60,8k,40) whose shares make 100")
    })?;
    let reads = workload.number("rdpct")?.unwrap_or(100.0).min(100.0) / 100.0;
    let seek = workload.keys.get("seekpct").map_or("100", |value| first(value));
    let is_sequential = matches!(seek, "0" | "-1" | "eof" | "seq" | "sequential" | "seqnz");
    for (is_read, share) in [(true, reads), (false, 1.0 - reads)] {
        if share <= 0.0 || rate <= 0.0 {
            continue;
        }
        let class = class(&workload.name, is_read, is_sequential, mean);
        let sum = sums.entry(class).or_default();
        sum.0 += rate * share;
        sum.1 += rate * share * mean;
    }
    Ok(())
}

fn class(name: &str, is_read: bool, is_sequential: bool, size: f64) -> Class {
    if let Some(class) = class_of_name(name).filter(|class| class.reads() == is_read) {
        return class;
    }
    let name = name.to_lowercase();
    let is_log = ["redo", "log", "wal"].iter().any(|word| name.contains(word));
    match (is_read, is_sequential || size >= LARGE) {
        (true, false) => Class::RandomRead,
        (true, true) => Class::LargeRead,
        (false, _) if is_log && is_sequential => Class::LogWrite,
        (false, false) => Class::RandomWrite,
        (false, true) => Class::LargeWrite,
    }
}

/// The mean of `8k`, or of `(4k,60,8k,40)`.
fn mean_size(text: &str) -> Option<f64> {
    let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else {
        return size(text).filter(|size| *size > 0.0);
    };
    let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
    // (min,max,align): each multiple of align is as likely.
    if let [min, max, _] = parts.as_slice() {
        return Some((size(min)? + size(max)?) / 2.0).filter(|size| *size > 0.0);
    }
    let (mut sum, mut shares) = (0.0, 0.0);
    for pair in parts.chunks(2) {
        let [bytes, share] = pair else { return None };
        let share = share.parse::<f64>().ok().filter(|share| *share >= 0.0)?;
        sum += size(bytes)? * share / 100.0;
        shares += share;
    }
    ((shares - 100.0).abs() < 0.01 && sum > 0.0).then_some(sum)
}

fn check_priorities(workloads: &[&Block]) -> Result<(), ImportError> {
    let Some(rated) = workloads.iter().find(|wd| wd.keys.contains_key("iorate")) else {
        return Ok(());
    };
    let mut priorities = Vec::new();
    for workload in workloads {
        let Some(priority) = workload.number("priority")? else {
            return Err(workload.error(&format!(
                "it has no priority=, which all workloads need because {} has iorate=",
                rated.name
            )));
        };
        priorities.push(priority as u64);
    }
    priorities.sort_unstable();
    priorities.dedup();
    let is_contiguous =
        priorities.iter().zip(1..).all(|(priority, expected)| *priority == expected);
    if is_contiguous {
        return Ok(());
    }
    Err(rated.error("priorities are not 1, 2, 3 and so on without a gap"))
}

/// Whether a name is one of a list of names, of which each may end with `*`.
fn matches(patterns: &str, name: &str) -> bool {
    let inner = patterns.trim_start_matches('(').trim_end_matches(')');
    inner.split(',').map(str::trim).any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    })
}

fn blocks(text: &str) -> Result<Vec<Block>, ImportError> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut defaults: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let mut statement = content(line).to_owned();
        if statement == "include" || statement.starts_with("include=") {
            return Err(ImportError::new(format!(
                "includes another file in line {}: put that file's lines in its place",
                at + 1
            )));
        }
        while statement.ends_with(',') && statement.len() < 100_000 {
            match lines.next() {
                Some((_, next)) => statement.push_str(content(next.trim_start())),
                None => break,
            }
        }
        let pairs = pairs(&statement);
        let Some((kind, name)) = pairs.first().cloned() else { continue };
        if !["sd", "wd", "rd", "hd"].contains(&kind.as_str()) || blocks.len() >= BLOCKS_MAX {
            continue;
        }
        let own: BTreeMap<String, String> = pairs.into_iter().skip(1).collect();
        let of_kind = defaults.entry(kind.clone()).or_default();
        if name == "default" {
            of_kind.extend(own.clone());
        }
        let mut keys = of_kind.clone();
        keys.extend(own);
        blocks.push(Block { line: at + 1, kind, name, keys });
    }
    Ok(blocks)
}

/// A line to its first blank, or nothing of a remark.
fn content(line: &str) -> &str {
    let line = line.trim();
    if line.starts_with(['*', '/', '#']) {
        return "";
    }
    let mut depth = 0_u32;
    let mut is_quoted = false;
    for (at, letter) in line.char_indices() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            letter if letter.is_whitespace() && depth == 0 && !is_quoted => {
                return line.get(..at).unwrap_or(line);
            }
            _ => {}
        }
    }
    line
}

/// `key=value` between commas that are in no parentheses.
fn pairs(statement: &str) -> Vec<(String, String)> {
    let mut parts = vec![String::new()];
    let mut depth = 0_u32;
    for letter in statement.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match (letter, parts.last_mut()) {
            (',', _) if depth == 0 => parts.push(String::new()),
            (letter, Some(part)) => part.push(letter),
            (_, None) => {}
        }
    }
    parts
        .iter()
        .filter_map(|part| {
            let (key, value) = part.split_once('=')?;
            Some((key.trim().to_lowercase(), value.trim().trim_matches('"').replace(' ', "")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::model;
    use crate::model::Class;

    /// In the manner of the article on thin provisioning.
    const FILE: &str = "\
# random reads
sd=sd1,lun=/dev/sdb
wd=default,sd=sd*
wd=wd_db_rand_read,rdpct=100,xfersize=16k,seekpct=100,iorate=3250,priority=1 remark
wd=wd_db_seq_read,rdpct=100,xfersize=1024k,
   seekpct=0,iorate=2500,priority=2
wd=wd_db_rand_write,rdpct=0,xfersize=(8k,50,24k,50),seekpct=100,iorate=5800,priority=3
wd=wd_db_redo_write,rdpct=0,xfersize=64k,seekpct=0,iorate=50,priority=4
rd=rd1,wd=wd_db*,iorate=11600,interval=1,elapsed=120
";

    #[test]
    fn a_parameter_file_is_a_model() {
        let model = model(FILE).expect("a model");
        let of = |class| model.stream(class).map(|stream| (stream.rate, stream.size));
        assert_eq!(of(Class::RandomRead), Some((3250.0, 16384)));
        assert_eq!(of(Class::LargeRead), Some((2500.0, 1 << 20)));
        assert_eq!(of(Class::RandomWrite), Some((5800.0, 16384)));
        assert_eq!(of(Class::LogWrite), Some((50.0, 65536)));
    }

    #[test]
    fn a_rate_without_priorities_is_refused_with_its_line() {
        let error = model(&FILE.replace(",priority=3", "")).expect_err("no priority");
        assert!(error.to_string().contains("line 7"), "{error}");
        let error = model(&FILE.replace("priority=4", "priority=9")).expect_err("a gap");
        assert!(error.to_string().contains("gap"), "{error}");
    }

    #[test]
    fn shares_that_do_not_make_100_are_refused() {
        let error = model(&FILE.replace("24k,50", "24k,40")).expect_err("90 per cent");
        assert!(error.to_string().contains("xfersize"), "{error}");
    }
}
