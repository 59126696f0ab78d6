//! SIGINT, SIGTERM and SIGHUP end a measurement: the results so far are printed. A second one ends
//! the program at once.

use super::Failure;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};
use std::{
    fs,
    sync::{Arc, atomic::AtomicBool},
};

/// 128 and the number of SIGINT, as of a program that a signal has ended.
const CODE: i32 = 130;

/// True once such a signal has come.
///
/// # Errors
/// If signals cannot be heard.
pub fn stopped() -> Result<Arc<AtomicBool>, Failure> {
    let is_stopped = Arc::new(AtomicBool::new(false));
    let ignored = ignored();
    // nohup and a shell's background let a program ignore some: that stays so.
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_in(ignored, *signal)) {
        flag::register_conditional_shutdown(signal, CODE, Arc::clone(&is_stopped))
            .and_then(|_| flag::register(signal, Arc::clone(&is_stopped)))
            .map_err(|error| Failure::midway(format!("no signal can be heard: {error}")))?;
    }
    Ok(is_stopped)
}

/// The signals that this process ignores, one bit each.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn is_in(mask: u64, signal: i32) -> bool {
    u32::try_from(signal - 1).ok().and_then(|bit| mask.checked_shr(bit)).unwrap_or(0) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_the_bit_before_its_number() {
        assert!(is_in(1, SIGHUP) && is_in(0x4001, SIGTERM) && is_in(u64::MAX, SIGINT));
        assert!(!is_in(1, SIGINT) && !is_in(0, SIGTERM));
    }
}
