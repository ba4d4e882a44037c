//! The parser reads every example of the definition.

mod support;

use bifrost_theta::{Colour, Sources, parse, render_all};

#[test]
fn all_examples_parse() {
    for (name, text) in support::programs() {
        let mut sources = Sources::new();
        let file = sources.add(name.clone(), text);
        let (_, diagnostics) = parse(&sources, file);
        assert!(diagnostics.is_empty(), "{}", render_all(&sources, &diagnostics, Colour::Plain));
    }
}
