#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    bifrost_fuzz::theta_text(text);
});
