//! A progress bar for each long operation while a command waits, if the standard error is a
//! terminal: how far the operation is, its rate, and the minutes that are left.

use super::context::query;
use crate::paths::Paths;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use plinth_engine::admin::Value;
use std::{
    collections::BTreeMap,
    io::{self, IsTerminal},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

/// The pause before the first bar: shorter operations need none.
const FIRST_PAUSE: Duration = Duration::from_millis(700);
const EVERY: Duration = Duration::from_millis(300);

/// Shows bars until it is dropped.
pub(super) struct Watch(Option<(Sender<()>, JoinHandle<()>)>);

impl Watch {
    /// Starts a thread that shows the running operations, if the standard error is a terminal.
    pub(super) fn begin(paths: &Paths) -> Self {
        if !io::stderr().is_terminal() {
            return Self(None);
        }
        let (end, ended) = mpsc::channel();
        let paths = paths.clone();
        let watching = thread::Builder::new().name("watch".into()).spawn(move || {
            let mut bars = Bars::default();
            let mut pause = FIRST_PAUSE;
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                bars.draw(&paths);
                pause = EVERY;
            }
            bars.clear();
        });
        Self(watching.ok().map(|thread| (end, thread)))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

/// A bar for each operation, by its group and pass.
#[derive(Default)]
pub(super) struct Bars {
    screen: MultiProgress,
    bars: BTreeMap<String, ProgressBar>,
}

impl Bars {
    fn draw(&mut self, paths: &Paths) {
        let found = query(
            paths,
            "SELECT g.name || ' ' || o.pass, o.sofar, o.est_work, o.est_rate
             FROM v$asm_operation o JOIN v$asm_diskgroup_stat g ON g.group_number = o.group_number
             WHERE o.state = 'RUN'",
        );
        let Ok(found) = found else { return };
        let mut ended: Vec<String> = self.bars.keys().cloned().collect();
        for row in found.rows {
            let [Value::Text(what), numbers @ ..] = &row[..] else { continue };
            let number = |index: usize| match numbers.get(index) {
                Some(Value::Integer(number)) => u64::try_from(*number).unwrap_or(0),
                _ => 0,
            };
            self.show(what, number(0), number(1), number(2));
            ended.retain(|other| other != what);
        }
        for what in ended {
            self.bars.remove(&what).inspect(ProgressBar::finish_and_clear);
        }
    }

    /// Shows how far an operation is, at which rate a minute.
    pub(super) fn show(&mut self, what: &str, so_far: u64, work: u64, rate: u64) {
        let bar = self.bars.entry(what.to_owned()).or_insert_with(|| {
            let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {msg}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            self.screen.add(ProgressBar::new(0).with_style(style).with_prefix(what.to_owned()))
        });
        bar.set_length(work);
        bar.set_position(so_far);
        let minutes = if rate > 0 { work.saturating_sub(so_far).div_ceil(rate) } else { 0 };
        bar.set_message(format!("{rate} AUs a minute, {minutes} minutes left"));
    }

    pub(super) fn clear(self) {
        self.bars.values().for_each(ProgressBar::finish_and_clear);
    }
}
