#![no_main]

use bifrost_engine::Mode;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // The bytes are choices: more of them make more batches, not stranger ones.
    let data = &data[..data.len().min(2000)];
    bifrost_fuzz::batch_check(data, Mode::Interpreted.into());
});
