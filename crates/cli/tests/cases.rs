//! The cases of all client languages, by the recorder against this server: `crates/cases`.
//!
//! `BIFROST_UPDATE=1 cargo test -p bifrost-cli --test cases` writes `cases/generated/`.

use std::path::Path;

#[test]
fn cases_have_their_outputs() {
    let update = std::env::var_os("BIFROST_UPDATE").is_some();
    let stale = bifrost_cases::check_live(Path::new(env!("CARGO_BIN_EXE_bifrost")), update, |_| true);
    assert!(
        stale.is_empty(),
        "other outputs: {stale:?}; BIFROST_UPDATE=1 cargo test -p bifrost-cli --test cases"
    );
}

/// A batch has the results of its calls one by one.
#[test]
fn cases_have_the_same_results_call_by_call() {
    let (others, count) = bifrost_cases::check_evaluated(Path::new(env!("CARGO_BIN_EXE_bifrost")));
    assert!(count >= 20, "{count} cases");
    assert!(others.is_empty(), "other results: {others:?}");
}
