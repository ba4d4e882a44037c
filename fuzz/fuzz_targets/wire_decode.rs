#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bifrost_fuzz::wire_decode(data));
