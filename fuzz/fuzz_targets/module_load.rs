#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bifrost_fuzz::module_load(data));
