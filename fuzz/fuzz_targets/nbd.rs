//! An NBD client: handshake and requests.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = plinth_nbd::fuzz::serve(input);
});
