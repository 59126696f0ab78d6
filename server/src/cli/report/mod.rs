//! `report`: the state of a disk group as one HTML page, to attach to a ticket.
//!
//!   1. Ask: each theme names its questions, which are queries of views (`facts.rs`); the alert log
//!      is read as a file (`alert_log.rs`).
//!   2. Draw: each theme makes a section of the answers, and of nothing else.
//!   3. Write: under a name of its own beside the file, then rename. A command that is interrupted
//!      leaves at most that file, `.NAME.PID.part`.
//!
//! Invariants:
//!
//!   1. A question without an answer becomes a sentence in its section, a line on the standard
//!      error, and exit code 1. The page is made.
//!   2. Answers are text on the page, whatever they are: `plinth_evidence::draw` escapes them.
//!   3. A page has [`PAGE_BYTES_MAX`] at most: one that is larger is drawn again with fewer rows.
//!      Under each table that was cut stands how many rows were left out.
//!   4. Nothing is replaced without `--force`, and with it only a regular file.

mod alert_log;
mod clients;
mod disks;
mod errors;
mod facts;
mod figures;
mod latencies;
mod movement;
mod outline;
mod output;
mod reads;
mod settings;
mod space;

use super::{
    Result, complain,
    context::{Context, Headings, Run, group_name, no_group, quoted},
    print, warn,
};
use crate::{
    alert,
    query::{Column, Table, views::Type},
};
use clap::Args;
use facts::{Facts, Group, Question};
use output::Output;
use plinth_engine::admin::Value;
use plinth_evidence::draw::Page;

/// Of a page, so that every ticket system takes it.
const PAGE_BYTES_MAX: usize = 300_000;
/// The most rows of a table and lines of the log, tried one after the other until the page fits.
const LIMITS: [Limits; 4] = [
    Limits { rows: 200, lines: 400 },
    Limits { rows: 80, lines: 200 },
    Limits { rows: 30, lines: 80 },
    Limits { rows: 8, lines: 20 },
];

/// Of a table, and of the alert log.
#[derive(Debug, Clone, Copy)]
struct Limits {
    rows: usize,
    lines: usize,
}

/// Write the state of a disk group as one HTML page, to attach to a ticket.
///
/// The page has space, disks, latencies, which mirror was read and why, movement, errors, the
/// settings that are not the default, clients, and the last day of the alert log. It needs no
/// network and no script.
///
/// Exits with 1 if the page was made and something could not be asked: the page says what. With 2
/// if no page was made.
#[derive(Debug, Args)]
pub(super) struct Report {
    /// The file to write; - is the standard output [default: GROUP-report.html, here].
    #[arg(short = 'o', long = "html", value_name = "FILE")]
    file: Option<String>,
    /// Replace a file that exists.
    #[arg(short, long)]
    force: bool,
    group: String,
}

impl Run for Report {
    fn run(&self, context: &mut Context) -> Result<()> {
        let made = self.make(context).map_err(|refusal| {
            complain(&refusal);
            2
        });
        context.status = made.unwrap_or_else(|code| code);
        Ok(())
    }
}

impl Report {
    /// Makes the page. Returns the exit code.
    fn make(&self, context: &Context) -> Result<u8> {
        let name = group_name(&self.group)?;
        let file = self.file.clone().unwrap_or_else(|| format!("{name}-report.html"));
        // Before anything is asked: a file that cannot be written is said at once.
        let output = Output::new(&file, self.force)?;
        let facts = ask(context, &name)?;
        let page = page(&facts);
        for absent in facts.absent() {
            warn(&format!("plinth: {absent}\n"));
        }
        match output {
            Output::Standard => print(&page),
            Output::File(file) => {
                file.write(&page)?;
                tell(context, file.shown(), page.len(), &facts.absent());
            }
        }
        Ok(u8::from(!facts.absent().is_empty()))
    }
}

/// Asks everything.
fn ask(context: &Context, name: &str) -> Result<Facts> {
    let group = find(context, name)?;
    let mut facts = Facts::new(group, alert::now());
    for question in questions() {
        facts.ask(context, question);
    }
    facts.read_alert_log();
    Ok(facts)
}

/// The group: one that is mounted, or else one that discovery finds.
fn find(context: &Context, name: &str) -> Result<Group> {
    for view in ["v$asm_diskgroup_stat", "v$asm_diskgroup"] {
        let found = context.query(&format!(
            "SELECT group_number, state FROM {view} WHERE name = {} ORDER BY group_number DESC",
            quoted(name)
        ))?;
        if let Some([Value::Integer(number), Value::Text(state)]) =
            found.rows.first().map(Vec::as_slice)
        {
            let number = (*number > 0).then_some(*number);
            return Ok(Group { name: name.to_owned(), number, state: state.clone() });
        }
    }
    Err(no_group(name).hint("lsdg lists the disk groups"))
}

/// The questions of all themes.
fn questions() -> impl Iterator<Item = &'static Question> {
    [
        outline::QUESTIONS,
        space::QUESTIONS,
        disks::QUESTIONS,
        latencies::QUESTIONS,
        reads::QUESTIONS,
        movement::QUESTIONS,
        errors::QUESTIONS,
        settings::QUESTIONS,
        clients::QUESTIONS,
        alert_log::QUESTIONS,
    ]
    .into_iter()
    .flatten()
}

/// The page, with as many rows as fit.
fn page(facts: &Facts) -> String {
    let mut page = String::new();
    for limits in LIMITS {
        page = drawn(facts, limits);
        if page.len() <= PAGE_BYTES_MAX {
            break;
        }
    }
    page
}

fn drawn(facts: &Facts, limits: Limits) -> String {
    let mut page = Page::new(&format!("Disk group {}", facts.group.name));
    outline::draw(facts, &mut page);
    space::draw(facts, &mut page, limits);
    disks::draw(facts, &mut page, limits);
    latencies::draw(facts, &mut page, limits);
    reads::draw(facts, &mut page, limits);
    movement::draw(facts, &mut page, limits);
    errors::draw(facts, &mut page, limits);
    settings::draw(facts, &mut page, limits);
    clients::draw(facts, &mut page, limits);
    alert_log::draw(facts, &mut page, limits);
    page.finish()
}

/// Says where the page is.
fn tell(context: &Context, file: String, bytes: usize, absent: &[String]) {
    if !context.json {
        let size = crate::text::bytes_pretty(i64::try_from(bytes).unwrap_or(i64::MAX));
        context.say(format!("the report is in {file} ({size})"));
        return;
    }
    let columns = [("File", Type::Text), ("Bytes", Type::Integer), ("Missing", Type::Text)];
    let columns = columns.map(|(name, kind)| Column { name: name.to_owned(), kind }).to_vec();
    let missing = if absent.is_empty() { Value::Null } else { Value::Text(absent.join("; ")) };
    let bytes = Value::Integer(i64::try_from(bytes).unwrap_or(i64::MAX));
    let rows = vec![vec![Value::Text(file), bytes, missing]];
    context.show(&Table { columns, rows }, Headings::default());
}

#[cfg(test)]
mod tests;
