//! The example programs of the definition compile without a word.

mod support;

use bifrost_theta::{Colour, render_all};
use support::{compile_text, programs};

#[test]
fn examples_compile() {
    for (name, text) in programs() {
        let (sources, compilation) = compile_text(&text);
        let rendered = render_all(&sources, &compilation.diagnostics, Colour::Plain);
        assert!(compilation.diagnostics.is_empty(), "{name}: {rendered}");
    }
}
