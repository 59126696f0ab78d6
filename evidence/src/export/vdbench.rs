//! A parameter file of VDBench.
//!
//! Invariants, which VDBench checks:
//!
//! 1. A workload has `iorate=`, so each has `priority=`, 1 to n.
//! 2. The run's `iorate=` is the sum of the workloads'.
//! 3. Sizes are multiples of 512 bytes, and their shares make 100.

use super::{remark, sizes};
use crate::model::{Class, Model, Stream};
use std::fmt::Write;

/// The file. Its target and the target's size are parameters: `lun=`, `size=`.
#[must_use]
pub fn print(model: &Model, seconds: u64) -> String {
    let mut text = remark('*', &format!("The load of {}: {}", model.name, model.source));
    text += "* vdbench -f THIS_FILE lun=/dev/... size=100g\n";
    text += "* The target is overwritten. Warm-up counts extra.\n";
    text += "sd=sd1,lun=$lun,size=$size,openflags=o_direct\n\n";
    let streams: Vec<&Stream> = model.streams.iter().filter(|stream| rate(stream) > 0.0).collect();
    for (at, stream) in streams.iter().enumerate() {
        let list = sizes(stream);
        let xfersize = match list.as_slice() {
            [(size, _)] => size.to_string(),
            list => {
                let parts: Vec<String> =
                    list.iter().map(|(size, share)| format!("{size},{share}")).collect();
                format!("({})", parts.join(","))
            }
        };
        let (reads, seek) = match stream.class {
            Class::RandomRead => (100, 100),
            Class::LargeRead => (100, 0),
            Class::RandomWrite => (0, 100),
            Class::LargeWrite | Class::LogWrite => (0, 0),
        };
        // The log keeps to the end of the target, and each of its writes is durable.
        let more = if stream.class == Class::LogWrite {
            ",range=(95,100),openflags=(o_direct,o_sync)"
        } else {
            ",range=(0,95)"
        };
        let _ = writeln!(
            text,
            "wd=wd_{},sd=sd1,rdpct={reads},seekpct={seek},xfersize={xfersize},\
             iorate={},priority={}{more}",
            stream.class.name().replace('-', "_"),
            number(rate(stream)),
            at + 1,
        );
    }
    let sum: f64 = streams.iter().map(|stream| rate(stream)).sum();
    let _ = writeln!(
        text,
        "\nrd=rd_model,wd=wd_*,iorate={},elapsed={},interval=1,warmup=5,forthreads=({})",
        number(sum),
        seconds.max(2),
        threads(model),
    );
    text
}

/// Requests a second as they are printed: with two decimals.
fn rate(stream: &Stream) -> f64 {
    let places = if stream.rate < 1.0 { 10_000.0 } else { 100.0 };
    (stream.rate * places).round() / places
}

fn number(rate: f64) -> String {
    let text = format!("{rate:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// As many as the report's latencies need, twice, and no fewer than 8: more would add latency.
fn threads(model: &Model) -> u64 {
    let flight: f64 =
        model.streams.iter().map(|stream| stream.rate * stream.latency.unwrap_or(1e6) / 1e9).sum();
    (flight * 2.0).ceil().clamp(8.0, 512.0) as u64
}
