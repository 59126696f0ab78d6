//! A job file of fio: a job for each class.
//!
//! Two of fio's habits decide how a rate is given:
//!
//! - `rate_process=poisson` works with a whole number of microseconds between requests: of more
//!   than 2,000 requests a second that is too coarse, so such a class is several jobs alike.
//! - Of fewer than 500 a second, a minute of chance is off by more than 1 %: such a class is issued
//!   evenly, with a rate in bytes, which may be a fraction of a request.

use super::{remark, sizes};
use crate::model::{Class, Model, Stream};
use std::fmt::Write;

const POISSON_MIN: f64 = 500.0;
const POISSON_MAX: f64 = 2000.0;
/// Of the log, which is better written by one.
const LOG_MAX: f64 = 5000.0;
const JOBS_MAX: f64 = 512.0;

/// The file. Its target is `$TARGET`.
#[must_use]
pub fn print(model: &Model, seconds: u64) -> String {
    let mut text = remark(';', &format!("The load of {}: {}", model.name, model.source));
    text += "; TARGET=/dev/... fio --output-format=json+ --output=RESULT THIS_FILE\n";
    text +=
        "; Sizes are multiples of 512 bytes: a device with sectors of 4 KiB needs those of 4096.\n";
    text += "; The target is overwritten. A file needs a size: add size=10g to [global].\n";
    let _ = write!(
        text,
        "[global]\nfilename=${{TARGET}}\nioengine=libaio\ndirect=1\nthread=1\ntime_based=1\n\
         runtime={}\nnorandommap=1\nrandrepeat=0\nrefill_buffers=1\ngroup_reporting=1\n",
        seconds.max(1)
    );
    for stream in model.streams.iter().filter(|stream| stream.rate > 0.0) {
        job(&mut text, stream);
    }
    text
}

fn job(text: &mut String, stream: &Stream) {
    let (rw, depth) = match stream.class {
        Class::RandomRead => ("randread", 32),
        Class::LargeRead => ("read", 32),
        Class::RandomWrite => ("randwrite", 32),
        Class::LargeWrite => ("write", 32),
        Class::LogWrite => ("write", 1),
    };
    let _ = write!(text, "\n[{}]\nnew_group=1\nrw={rw}\niodepth={depth}\n", stream.class);
    let list = sizes(stream);
    match list.as_slice() {
        [(size, _)] => {
            let _ = writeln!(text, "bs={size}");
        }
        list => {
            let parts: Vec<String> =
                list.iter().map(|(size, share)| format!("{size}/{share}")).collect();
            // Else fio rounds each size down to a multiple of the smallest.
            let _ = writeln!(text, "bssplit={}\nbs_unaligned=1", parts.join(":"));
        }
    }
    if stream.class == Class::LogWrite {
        text.push_str("sync=1\n");
    }
    if stream.rate < POISSON_MIN {
        let _ = writeln!(text, "rate={}", (stream.rate * stream.mean()).round().max(1.0));
        return;
    }
    let most = if stream.class == Class::LogWrite { LOG_MAX } else { POISSON_MAX };
    let jobs = (stream.rate / most).ceil().clamp(1.0, JOBS_MAX);
    let _ = writeln!(text, "rate_iops={}\nrate_process=poisson", (stream.rate / jobs).round());
    if jobs > 1.0 {
        let _ = writeln!(text, "numjobs={jobs}");
    }
}
