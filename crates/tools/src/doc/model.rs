//! The data that the templates are given.

use serde::Serialize;

/// A page about one text.
#[derive(Serialize, Debug)]
pub struct Page {
    /// The name of the text.
    pub title: String,
    /// The name of the page.
    pub href: String,
    /// The comment at the top of the text, as it is to be shown.
    pub doc: String,
    /// The first sentence of it, without markup.
    pub summary: String,
    /// The definitions in it.
    pub entries: Vec<Entry>,
}

/// A definition, or a method of one.
#[derive(Serialize, Debug)]
pub struct Entry {
    /// `type`, `routine` ...
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Its place on the page.
    pub anchor: String,
    /// Its heading.
    pub heading: Vec<Part>,
    /// Its comment, as it is to be shown.
    pub doc: String,
    /// The first sentence of it, without markup.
    pub summary: String,
    /// Its methods.
    pub members: Vec<Entry>,
}

/// A piece of a heading.
#[derive(Serialize, Debug)]
pub struct Part {
    /// The text shown.
    pub text: String,
    /// The place where the definition of it is described, if it is.
    pub href: Option<String>,
    /// True if it is a reserved word.
    pub word: bool,
}
