#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    bifrost_fuzz::ir_text(text);
});
