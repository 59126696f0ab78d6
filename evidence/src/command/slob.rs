//! `plinth load slob`.

use super::{
    Failure, check_output,
    run::{Screen, bytes, judge, keep, seconds},
};
use crate::issue::slob::{Amount, Event, Parameters, Slob as Load};
use clap::Args;
use std::{fs, io::Write, path::PathBuf};

/// Issue a database's random I/O with SLOB's parameters.
///
/// Sessions read scattered blocks of their schema, update some of them, and wait for the log. All
/// data is written before, then all sessions begin at once. Options win over the file of --conf.
#[derive(Debug, Clone, Args)]
pub struct Slob {
    /// Devices, files, directories, nbd://HOST:PORT/EXPORT, nbd+unix:///EXPORT?socket=PATH.
    #[arg(required = true)]
    targets: Vec<String>,
    /// A file of SLOB: lines such as UPDATE_PCT=10.
    #[arg(long)]
    conf: Option<PathBuf>,
    /// How many schemas.
    #[arg(long, short)]
    schemas: Option<u64>,
    /// THREADS_PER_SCHEMA: sessions of each schema.
    #[arg(long, short)]
    threads: Option<u64>,
    /// SCALE: active data of a schema, in blocks or as a size such as 80M.
    #[arg(long, value_parser = Amount::parse)]
    scale: Option<Amount>,
    /// UPDATE_PCT: of 100 operations, how many are updates.
    #[arg(long)]
    update_pct: Option<u32>,
    /// SCAN_PCT: of 100 queries, how many scan.
    #[arg(long)]
    scan_pct: Option<u32>,
    /// SCAN_TABLE_SZ: how large a scan is.
    #[arg(long, value_parser = Amount::parse)]
    scan_table: Option<Amount>,
    /// WORK_UNIT: blocks that an operation touches.
    #[arg(long)]
    work_unit: Option<u64>,
    /// RUN_TIME, such as 300, 10m, 8h.
    #[arg(long, value_parser = seconds)]
    run_time: Option<f64>,
    /// WORK_LOOP: operations after which a session ends.
    #[arg(long)]
    work_loop: Option<u64>,
    /// REDO_STRESS=HEAVY: 4 KiB of redo for a block instead of 512 bytes.
    #[arg(long)]
    redo_heavy: bool,
    /// DO_HOTSPOT with HOTSPOT_MB, HOTSPOT_OFFSET_MB, HOTSPOT_FREQUENCY, such as 8,16,3.
    #[arg(long, value_delimiter = ',', num_args = 3)]
    hotspot: Option<Vec<u64>>,
    /// HOT_SCHEMA_FREQUENCY: one of N operations goes to the first schema.
    #[arg(long)]
    hot_schema_frequency: Option<u64>,
    /// THINK_TM_FREQUENCY, THINK_TM_MIN, THINK_TM_MAX, such as 5,0.1,0.5.
    #[arg(long, value_delimiter = ',', num_args = 3)]
    think: Option<Vec<f64>>,
    /// Instances: each has some of the sessions, its own writers, its own log, and a thread.
    #[arg(long, default_value_t = 1)]
    instances: u64,
    /// Verify the bytes of all reads: place, version, and that no write is torn.
    #[arg(long)]
    verify: bool,
    /// Bytes of a block.
    #[arg(long, value_parser = bytes, default_value = "8192")]
    block_size: u64,
    /// How long to issue the load before measuring begins.
    #[arg(long, value_parser = seconds, default_value = "0")]
    ramp: f64,
    /// Begin when this file is there: for runs on several hosts.
    #[arg(long)]
    gate: Option<PathBuf>,
    /// Also print this disk group's own histograms of the run: its requests, and the I/O of its
    /// disks. The targets are on its mount, or its exports.
    #[arg(long, conflicts_with = "json")]
    pub(super) group: Option<String>,
    /// Write to targets that carry something.
    #[arg(long)]
    force_overwrite: bool,
    /// Of places and data.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The name of the run in tables and pictures.
    #[arg(long, default_value = "slob")]
    label: String,
    /// Keep the run for `plinth load compare`.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Print the run as JSON.
    #[arg(long)]
    json: bool,
}

impl Slob {
    /// `begins` is called when the data is written and the first request is next.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn run(&self, out: &mut dyn Write, begins: &mut dyn FnMut()) -> Result<(), Failure> {
        let load = Load {
            parameters: self.parameters()?,
            block: self.block_size,
            seed: self.seed,
            label: self.label.clone(),
            force_overwrite: self.force_overwrite,
            instances: self.instances,
            verify: self.verify,
            gate: self.gate.clone(),
            ramp: self.ramp,
        };
        let names = Event::ALL.iter().map(|event| event.name().to_owned()).collect();
        self.output.as_deref().map_or(Ok(()), check_output)?;
        let mut screen = Screen::new(names)?;
        screen.begins = Some(begins);
        let result = load.run(&self.targets, &mut screen)?;
        let outcome = &result.outcome;
        keep(outcome, self.output.as_deref(), self.json, out, || result.report())?;
        judge(outcome)
    }

    fn parameters(&self) -> Result<Parameters, Failure> {
        let mut parameters = Parameters::default();
        if let Some(path) = &self.conf {
            let wrong = |what: String| Failure::usage(format!("{}: {what}", path.display()));
            let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
            let ignored = parameters.read(&text).map_err(wrong)?;
            if !ignored.is_empty() {
                eprintln!("plinth load: of no use without a database: {}", ignored.join(", "));
            }
        }
        let p = &mut parameters;
        set(&mut p.schemas, self.schemas);
        set(&mut p.threads_per_schema, self.threads);
        set(&mut p.scale, self.scale);
        set(&mut p.update_pct, self.update_pct);
        set(&mut p.scan_pct, self.scan_pct);
        set(&mut p.scan_table, self.scan_table);
        set(&mut p.work_unit, self.work_unit);
        set(&mut p.run_time, self.run_time);
        set(&mut p.work_loop, self.work_loop);
        set(&mut p.hot_schema_frequency, self.hot_schema_frequency);
        p.is_redo_heavy |= self.redo_heavy;
        if let Some([size, offset, frequency]) = self.hotspot.as_deref() {
            p.has_hotspot = true;
            (p.hotspot_mb, p.hotspot_offset_mb) = (*size, *offset);
            p.hotspot_frequency = *frequency;
        }
        if let Some([frequency, least, most]) = self.think.as_deref() {
            p.think_frequency = *frequency as u64;
            (p.think_min, p.think_max) = (*least, *most);
        }
        Ok(parameters)
    }
}

fn set<T>(parameter: &mut T, option: Option<T>) {
    if let Some(value) = option {
        *parameter = value;
    }
}
