#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bifrost_fuzz::log_files(data);
    bifrost_fuzz::log_bytes(data);
});
