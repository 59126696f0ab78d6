//! `top`: groups, disks with their rates and latencies, and running operations, on a screen that is
//! redrawn at intervals.
//!
//! If the output is no terminal, it is printed once, with the counters since the groups were
//! mounted.

use super::{
    Result,
    context::{Context, Run, query},
    iostat::{Counted, Sample, sample},
    print, table,
};
use crate::{
    query::{Column, Table, views::Type},
    sql_error::{SqlError, state},
};
use clap::Args;
use crossterm::{
    cursor,
    event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
    execute, queue,
    style::Print,
    terminal::{self, Clear, ClearType},
};
use plinth_engine::admin::Value;
use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

/// Show groups, disks, latencies and operations, live.
#[derive(Debug, Args)]
pub(super) struct Top {
    /// Seconds between two looks.
    #[arg(default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    interval: u32,
}

impl Run for Top {
    fn run(&self, context: &mut Context) -> Result<()> {
        if io::stdout().is_terminal() && io::stdin().is_terminal() && !context.json {
            return live(context, Duration::from_secs(u64::from(self.interval)));
        }
        let tables = look(context, &sample(context, None)?, false)?;
        if context.json {
            let objects: serde_json::Map<String, serde_json::Value> = tables
                .iter()
                .map(|(title, found)| ((*title).to_owned(), table::objects(found)))
                .collect();
            print(&format!("{:#}\n", serde_json::Value::Object(objects)));
            return Ok(());
        }
        print(&page(&tables));
        Ok(())
    }
}

/// The contents of the screen: titles and tables.
fn look(context: &Context, disks: &Sample, rates: bool) -> Result<Vec<(&'static str, Table)>> {
    let groups = query(
        &context.paths,
        "SELECT name AS Name, state AS State, type AS Type, total_mb AS Total_MB, free_mb AS Free_MB,
            usable_file_mb AS Usable_file_MB, offline_disks AS Offline_disks
         FROM v$asm_diskgroup_stat WHERE group_number > 0 ORDER BY name",
    )?;
    let operations = query(
        &context.paths,
        "SELECT g.name AS Group_Name, o.pass AS Pass, o.state AS State, o.power AS Power, o.sofar AS Sofar,
            o.est_work AS EST_WORK, o.est_rate AS EST_RATE, o.est_minutes AS EST_TIME
         FROM v$asm_operation o JOIN v$asm_diskgroup_stat g ON g.group_number = o.group_number
         ORDER BY g.name, o.pass",
    )?;
    let states = query(
        &context.paths,
        "SELECT g.name, d.name, d.mode_status, d.state FROM v$asm_disk_stat d
         JOIN v$asm_diskgroup_stat g ON g.group_number = d.group_number WHERE d.group_number > 0",
    )?;
    Ok(vec![
        ("Groups", groups),
        ("Disks", disk_table(disks, &states, rates)),
        ("Operations", operations),
    ])
}

fn disk_table(disks: &Sample, states: &Table, rates: bool) -> Table {
    let per = if rates { "_s" } else { "" };
    let names = ["Reads", "Writes", "Read_MB", "Write_MB"].map(|name| format!("{name}{per}"));
    let column = |name: &str, kind| Column { name: name.to_owned(), kind };
    let mut columns =
        ["Group_Name", "Dsk_Name", "Mode", "State"].map(|name| column(name, Type::Text)).to_vec();
    columns.extend(names.iter().map(|name| column(name, Type::Real)));
    columns.extend(["Read_ms", "Write_ms"].map(|name| column(name, Type::Real)));
    columns.push(column(&format!("Errors{per}"), Type::Real));
    let tenths = |number: f64| Value::Real((number * 10.0).round() / 10.0);
    let row = |((group, disk), counted): (&(String, String), &Counted)| {
        let is_it = |row: &&Vec<Value>| matches!(&row[..], [Value::Text(a), Value::Text(b), ..] if a == group && b == disk);
        let state = states.rows.iter().find(is_it);
        let state = |at: usize| state.and_then(|row| row.get(at)).cloned().unwrap_or(Value::Null);
        let latency = |seconds: f64, count: f64| {
            if count > 0.0 {
                Value::Real((seconds / count * 1e5).round() / 100.0)
            } else {
                Value::Null
            }
        };
        vec![
            Value::Text(group.clone()),
            Value::Text(disk.clone()),
            state(2),
            state(3),
            tenths(counted.reads),
            tenths(counted.writes),
            tenths(counted.bytes_read / 1_048_576.0),
            tenths(counted.bytes_written / 1_048_576.0),
            latency(counted.read_time, counted.reads),
            latency(counted.write_time, counted.writes),
            tenths(counted.read_errors + counted.write_errors),
        ]
    };
    Table { columns, rows: disks.iter().map(row).collect() }
}

fn page(tables: &[(&str, Table)]) -> String {
    let mut text = String::new();
    for (title, found) in tables {
        let lines = if found.rows.is_empty() {
            "none\n".to_owned()
        } else {
            table::plain(found, true, table::Cells::default())
        };
        text.push_str(&format!("{}{title}\n{lines}", if text.is_empty() { "" } else { "\n" }));
    }
    text
}

/// Restores the terminal when it is dropped.
struct Screen;

impl Screen {
    fn take() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let screen = Self;
        execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// Draws as much of the text as fits.
    fn draw(text: &str) -> io::Result<()> {
        // Some terminals do not know how large they are.
        let (width, height) = terminal::size()
            .ok()
            .filter(|(width, height)| *width > 0 && *height > 0)
            .unwrap_or((80, 24));
        let mut out = io::stdout().lock();
        queue!(out, cursor::MoveTo(0, 0))?;
        for line in text.lines().take(usize::from(height)) {
            let line: String = line.chars().take(usize::from(width)).collect();
            queue!(out, Print(line), Clear(ClearType::UntilNewLine), cursor::MoveToNextLine(1))?;
        }
        queue!(out, Clear(ClearType::FromCursorDown))?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(io::stdout(), cursor::Show, terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

fn live(context: &Context, interval: Duration) -> Result<()> {
    let broken =
        |error: io::Error| SqlError::new(state::INTERNAL, format!("the terminal: {error}"));
    let mut before = sample(context, None)?;
    let mut then = Instant::now();
    let _screen = Screen::take().map_err(broken)?;
    let mut text = "plinth top: looking".to_owned();
    let mut next = then + interval.min(Duration::from_secs(1));
    loop {
        Screen::draw(&text).map_err(broken)?;
        while event::poll(next.saturating_duration_since(Instant::now())).map_err(broken)? {
            match event::read().map_err(broken)? {
                Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                        return Ok(());
                    }
                    _ => {}
                },
                Event::Resize(..) => Screen::draw(&text).map_err(broken)?,
                _ => {}
            }
        }
        let head = format!("plinth top, every {} s; q ends it\n\n", interval.as_secs());
        // The instance may be restarting: `top` goes on.
        text = match sample(context, None) {
            Ok(now) => {
                let seconds = then.elapsed().as_secs_f64();
                then = Instant::now();
                let rates = now.iter().map(|(disk, counted)| {
                    (
                        disk.clone(),
                        counted.since(&before.get(disk).copied().unwrap_or_default(), seconds),
                    )
                });
                let found = look(context, &rates.collect(), true);
                before = now;
                match found {
                    Ok(found) => format!("{head}{}", page(&found)),
                    Err(refusal) => format!("{head}{}\n", refusal.message),
                }
            }
            Err(refusal) => format!("{head}{}\n", refusal.message),
        };
        next = Instant::now() + interval;
    }
}
