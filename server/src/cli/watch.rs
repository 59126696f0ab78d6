//! A bar for each long operation while somebody waits for it, on a terminal: how far it is, its rate, and the minutes that are left.

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

/// What is done sooner needs no bar.
const PATIENCE: Duration = Duration::from_millis(700);
const EVERY: Duration = Duration::from_millis(300);

/// Shows bars until it is dropped.
pub(super) struct Watch(Option<(Sender<()>, JoinHandle<()>)>);

impl Watch {
    /// Begins to look at what is under way, if there is somebody to see it.
    pub(super) fn begin(paths: &Paths) -> Self {
        if !io::stderr().is_terminal() {
            return Self(None);
        }
        let (end, ended) = mpsc::channel();
        let paths = paths.clone();
        let watching = thread::Builder::new().name("watch".into()).spawn(move || {
            let mut bars = Bars::default();
            let mut pause = PATIENCE;
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

/// One for each operation, by its group and pass.
#[derive(Default)]
struct Bars {
    screen: MultiProgress,
    bars: BTreeMap<String, ProgressBar>,
}

impl Bars {
    fn draw(&mut self, paths: &Paths) {
        let found = query(
            paths,
            "SELECT g.name || ' ' || o.pass, o.sofar, o.est_work, o.est_rate, o.est_minutes
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
            let bar = self.bars.entry(what.clone()).or_insert_with(|| {
                let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {msg}");
                let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
                self.screen.add(ProgressBar::new(0).with_style(style).with_prefix(what.clone()))
            });
            bar.set_length(number(1));
            bar.set_position(number(0));
            bar.set_message(format!("{} AUs a minute, {} minutes left", number(2), number(3)));
            ended.retain(|other| other != what);
        }
        for what in ended {
            self.bars.remove(&what).inspect(ProgressBar::finish_and_clear);
        }
    }

    fn clear(self) {
        self.bars.values().for_each(ProgressBar::finish_and_clear);
    }
}
