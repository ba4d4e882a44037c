//! Pages about the definitions of sources for others: types, routines, classes, actors and
//! constants that are public or exported, with the comments at them.
//!
//! [`generate`] collects a [`model::Page`] for each text and sets it with a template. Comments are
//! read as Markdown; HTML in them is text.

mod collect;
mod markdown;
mod model;

use bifrost_theta::{Diagnostic, FileId, Options, Sources};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, context};

/// The format of the pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Pages for a browser; nothing outside of them is needed.
    Html,
    /// Markdown, as GitHub reads it.
    Markdown,
}

impl Format {
    fn extension(self) -> &'static str {
        if self == Format::Html { "html" } else { "md" }
    }
}

/// Returns a page for each of `files` and an index: names and texts. Equal sources give equal
/// pages.
///
/// # Errors
/// Some text does not parse: its syntax errors.
pub fn generate(
    sources: &Sources,
    files: &[FileId],
    options: &Options,
    format: Format,
) -> Result<Vec<(String, String)>, Vec<Diagnostic>> {
    let pages = collect::pages(sources, files, options, format)?;
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    environment.set_syntax(syntax.build().expect("the syntax of the templates is the usual one"));
    for (name, text) in [
        ("style.html", include_str!("templates/style.html")),
        ("entry.html", include_str!("templates/entry.html")),
        ("page.html", include_str!("templates/page.html")),
        ("index.html", include_str!("templates/index.html")),
        ("page.md", include_str!("templates/page.md")),
        ("index.md", include_str!("templates/index.md")),
    ] {
        environment.add_template(name, text).expect("the templates are ours");
    }
    let extension = format.extension();
    let set = |template: &str, values: minijinja::Value| {
        let template = environment.get_template(&format!("{template}.{extension}"));
        let mut text = template.and_then(|t| t.render(values)).expect("the templates fit the model");
        // Parts that are left out leave empty lines behind.
        while format == Format::Markdown && text.contains("\n\n\n") {
            text = text.replace("\n\n\n", "\n\n");
        }
        text
    };
    let mut texts = vec![(format!("index.{extension}"), set("index", context! { pages => Serde(&pages) }))];
    texts.extend(pages.iter().map(|page| (page.href.clone(), set("page", context! { page => Serde(page) }))));
    Ok(texts)
}
