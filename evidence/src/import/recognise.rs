//! Which kind of file a text is: by its content, never by its name.

use super::ImportError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    AwrHtml,
    AwrText,
    Statspack,
    Postgres,
    Mysql,
    Iostat,
    IostatJson,
    FioJson,
    FioJob,
    VdbenchFlatfile,
    VdbenchTotals,
    VdbenchHistogram,
    VdbenchParameters,
    Pgbench,
    /// A model of ours.
    Model,
    /// A run of ours.
    Run,
}

/// Bytes in which a file says what it is.
const BEGINNING: usize = 64 << 10;
const LINES: usize = 400;

const KNOWN: &str = "AWR (HTML or text), Statspack, pg_stat_io, SHOW GLOBAL STATUS, iostat -x, and \
                     results of fio (JSON) and VDBench are read";

/// # Errors
/// If it is none that is read: then with the reason, if it is one that is known.
pub(super) fn kind(text: &str) -> Result<Kind, ImportError> {
    let start = beginning(text);
    if start.trim().is_empty() {
        return Err(ImportError::new(format!("is empty: {KNOWN}")));
    }
    let lower = start.to_lowercase();
    let lines: Vec<&str> = start.lines().take(LINES).collect();
    if let Some(kind) = of_load_generators(&lower, &lines) {
        return Ok(kind);
    }
    if let Some(kind) = of_json(text, &lower)? {
        return Ok(kind);
    }
    if let Some(refused) = refused(&lower) {
        return Err(refused);
    }
    let is_html =
        ["<html", "<table", "<!doctype html", "<body", "<h1"].iter().any(|tag| lower.contains(tag));
    // A report in text within a page has no tables.
    let is_html = is_html && (text.contains("<t") || text.contains("<T"));
    if is_html {
        let is_awr = ["workload repository", "awr report", "awr rac report", "this table displays"]
            .iter()
            .any(|mark| lower.contains(mark));
        let has_statistics = text.contains("physical read total") || text.contains("IO Profile");
        return if is_awr || has_statistics {
            Ok(Kind::AwrHtml)
        } else {
            Err(ImportError::new(format!("is a page, but no report that is known: {KNOWN}")))
        };
    }
    if lines.iter().any(|line| line.trim_start().starts_with("STATSPACK report")) {
        return Ok(Kind::Statspack);
    }
    if lower.contains("workload repository") {
        return Ok(Kind::AwrText);
    }
    of_counters(text, &lower, &lines)
}

fn beginning(text: &str) -> &str {
    let mut end = text.len().min(BEGINNING);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or(text)
}

/// The first words of a page or a text: its title and its headings of the first order, or its first
/// lines. Others may name other reports: an AWR report has links to its ADDM report.
fn titles(lower: &str) -> Vec<String> {
    let mut titles: Vec<String> = Vec::new();
    for tag in ["<title", "<h1"] {
        for part in lower.split(tag).skip(1).take(4) {
            let inner = part.split_once('>').map_or("", |(_, rest)| rest);
            let inner = inner.split("</").next().unwrap_or("");
            titles.push(inner.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    if titles.is_empty() {
        let lines = lower.lines().map(str::trim).filter(|line| !line.is_empty());
        titles.extend(
            lines.take(5).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")),
        );
    }
    titles
}

/// Reports that look like others.
fn refused(lower: &str) -> Option<ImportError> {
    let titles = titles(lower);
    let is_title = |mark: &str| titles.iter().any(|title| title.starts_with(mark));
    let has = |mark: &str| titles.iter().any(|title| title.contains(mark));
    let why = if is_title("ash report") {
        "is an ASH report, which has samples of sessions and no I/O totals: give an AWR report of \
         the same time"
    } else if has("compare period") || has("awr diff") || has("diff report") {
        "is a comparison of two periods: give the AWR report of each period"
    } else if has("repository sql report") || is_title("awr sql report") {
        "is an AWR report of one SQL statement: give the report of the instance"
    } else if has("addm report") || has("addm task") {
        "is an ADDM report, which has findings and no I/O totals: give the AWR report"
    } else if lower.starts_with("3;fio-") || lower.starts_with("2;fio-") {
        "is fio's terse output, which has no bins: run fio with --output-format=json+"
    } else if lower.contains("iops=") && lower.contains("clat (") {
        "is fio's output for people: run fio with --output-format=json+"
    } else {
        return None;
    };
    Some(ImportError::new(why))
}

fn of_json(text: &str, lower: &str) -> Result<Option<Kind>, ImportError> {
    // fio may write its text for people before.
    if text.contains("\"fio version\"") && text.contains("\"jobs\"") {
        return Ok(Some(Kind::FioJson));
    }
    let Some(at) = text.find('{').filter(|at| {
        let before = text.get(..*at).unwrap_or_default();
        before.lines().all(|line| {
            line.trim().is_empty() || line.starts_with("fio:") || line.starts_with("note:")
        })
    }) else {
        return Ok(None);
    };
    let body = lower.get(at.min(lower.len())..).unwrap_or(lower);
    let has = |key: &str| body.contains(key);
    if has("\"fio version\"") || (has("\"jobname\"") && has("\"jobs\"")) {
        Ok(Some(Kind::FioJson))
    } else if has("\"sysstat\"") {
        Ok(Some(Kind::IostatJson))
    } else if has("\"classes\"") && has("\"issued\"") {
        Ok(Some(Kind::Run))
    } else {
        Err(ImportError::new(format!("is JSON, but of no program that is known: {KNOWN}")))
    }
}

fn of_load_generators(lower: &str, lines: &[&str]) -> Option<Kind> {
    let starts = |mark: &str| lines.iter().any(|line| line.trim_start().starts_with(mark));
    let is_flat = lines.iter().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.contains(&"tod") && words.contains(&"Interval") && words.contains(&"rate")
    });
    if is_flat {
        return Some(Kind::VdbenchFlatfile);
    }
    if starts("min(ms)") || lower.contains("min(ms) <") {
        return Some(Kind::VdbenchHistogram);
    }
    let has_interval = lines.iter().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.contains(&"interval") && words.contains(&"i/o") && words.contains(&"MB/sec")
    });
    if has_interval {
        return Some(Kind::VdbenchTotals);
    }
    let is_parameter = |line: &&str| {
        let line = line.trim_start();
        ["sd=", "wd=", "rd="].iter().any(|word| line.starts_with(word))
    };
    if lines.iter().any(|line| line.trim_start().starts_with("wd="))
        && lines.iter().any(is_parameter)
    {
        return Some(Kind::VdbenchParameters);
    }
    let is_setting = |name: &str| {
        lines.iter().any(|line| line.split_once('=').is_some_and(|(key, _)| key.trim() == name))
    };
    let has_section = lines.iter().any(|line| {
        let line = line.trim();
        line.starts_with('[') && line.ends_with(']')
    });
    if has_section && is_setting("rate") && is_setting("size") && !is_setting("rw") {
        return Some(Kind::Model);
    }
    if has_section && (is_setting("rw") || is_setting("readwrite")) {
        return Some(Kind::FioJob);
    }
    None
}

fn of_counters(text: &str, lower: &str, lines: &[&str]) -> Result<Kind, ImportError> {
    let is_device = |line: &&str| {
        let mut words = line.split_whitespace();
        words.next().is_some_and(|word| word.trim_end_matches(':') == "Device")
            && words.any(|word| word == "r/s")
    };
    if lines.iter().any(is_device) {
        return Ok(Kind::Iostat);
    }
    if lines.iter().any(|line| {
        line.split_whitespace().next().is_some_and(|word| word.trim_end_matches(':') == "Device")
            && line.contains("tps")
    }) {
        return Err(ImportError::new(
            "is iostat without -x, which tells no sizes of reads and writes: run iostat -x",
        ));
    }
    let marks = ["Innodb_data_", "innodb_data_", "INNODB_DATA_", "Innodb_os_log_"];
    if marks.iter().any(|mark| text.contains(mark)) {
        return Ok(Kind::Mysql);
    }
    let is_postgres = (lower.contains("backend_type") && lower.contains("context"))
        || (lower.contains("wal_records") && lower.contains("wal_bytes"));
    if is_postgres {
        return Ok(Kind::Postgres);
    }
    let has_statistics = text.contains("physical read total") || text.contains("IO Profile ");
    if has_statistics {
        return Ok(Kind::AwrText);
    }
    if super::pgbench::is_log(lines) {
        return Ok(Kind::Pgbench);
    }
    Err(ImportError::new(format!("is no report that is known: {KNOWN}")))
}
