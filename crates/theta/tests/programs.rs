//! The example programs of the definition compile without a word.

mod support;

use bifrost_theta::{Colour, render_all};
use support::{compile_text, programs};

/// Examples that need what is not supported yet.
const LATER: &[&str] = &["buffer.theta"];

#[test]
fn examples_compile() {
    for (name, text) in programs() {
        let (sources, compilation) = compile_text(&text);
        let rendered = render_all(&sources, &compilation.diagnostics, Colour::Plain);
        if LATER.contains(&name.as_str()) {
            assert!(rendered.contains("E0199"), "{name} compiles now");
            let other: Vec<_> = compilation.diagnostics.iter().filter(|d| d.code.name() != "E0199").collect();
            assert!(other.is_empty(), "{name}: {rendered}");
        } else {
            assert!(compilation.diagnostics.is_empty(), "{name}: {rendered}");
        }
    }
}
