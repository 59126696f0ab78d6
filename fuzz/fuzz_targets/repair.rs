//! Files and disks that `kfed` and `amdu` read, and labels.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = plinth_server::fuzz::repair(input);
});
