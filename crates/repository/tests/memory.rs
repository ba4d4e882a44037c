//! The engine in memory passes the suite, also with a buffer that is installed all the time.

mod support;

use bifrost_repository::memory::Memory;
use bifrost_repository::store::{Installing, Options};

#[test]
fn suite() {
    support::suite::suite(|changes_kept| {
        Memory::with_options(Options { changes_kept, installing: Installing::AtOnce, ..Options::default() })
    });
}

#[test]
fn suite_with_a_small_buffer() {
    for installing in [Installing::AtOnce, Installing::Later] {
        support::suite::suite(|changes_kept| {
            Memory::with_options(Options { changes_kept, installing, log_bytes: 300, ..Options::default() })
        });
    }
}
