//! Requests and answers on engine.NAME.sock and control.sock.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = plinth_server::fuzz::messages(input);
});
