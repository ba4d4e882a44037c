//! Programs with natives.

#[path = "../../../capsule/tests/support/output.rs"]
pub mod output;

use bifrost_engine::Mode;
use bifrost_native::Registry;
use bifrost_runtime::Collect;
use bifrost_server::program;
use bifrost_theta::{Options, Sources};

/// What a program prints in both modes, and with a collection at each allocation, which must be the same.
pub fn printed(registry: &Registry, declarations: &str, body: &str) -> String {
    let run = |mode, collect| printed_by(registry, declarations, body, mode, collect);
    let compiled = run(Mode::Compiled, Collect::Ordinary);
    assert_eq!(compiled, run(Mode::Interpreted, Collect::Ordinary));
    assert_eq!(compiled, run(Mode::Compiled, Collect::Zeal(1)));
    assert_eq!(compiled, run(Mode::Interpreted, Collect::Zeal(1)));
    compiled
}

/// What a program prints.
pub fn printed_by(
    registry: &Registry,
    declarations: &str,
    body: &str,
    mode: Mode,
    collect: Collect,
) -> String {
    let mut sources = Sources::new();
    sources.add("main.theta", format!("{declarations}\nmain ()\n{body}\nend main\n"));
    let engine = program::load_sources_with(sources, &Options::default(), mode, registry)
        .unwrap_or_else(|e| panic!("{e}"));
    output::output(&engine, collect)
}

/// What is wrong with a program.
pub fn mistakes(registry: &Registry, text: &str) -> String {
    let mut sources = Sources::new();
    sources.add("main.theta", text);
    let loaded = program::load_sources_with(sources, &Options::default(), Mode::Interpreted, registry);
    loaded.map(drop).unwrap_err().to_string()
}
