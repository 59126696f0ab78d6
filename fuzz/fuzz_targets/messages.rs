//! The other side of engine.NAME.sock and control.sock: requests and answers.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = plinth_server::fuzz::messages(input);
});
