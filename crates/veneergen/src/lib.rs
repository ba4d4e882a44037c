//! Stubs for client languages from one description of the types.
//!
//! [`generate`] turns an [`Interface`] into the files of a veneer: a stub for each type with a
//! method for each method, a function for each routine, a constant with the interface's digest and
//! numbers, and the interface itself in a file of its own. Built-in types have their stubs in the
//! veneer. Nothing is read or written here; the caller has the files.
//!
//! A language is a template and a [`Naming`]: the spelling of Theta's names and types. The template
//! says everything else. The part that all languages share is in [`Model`]: the types that get a
//! stub, all supertypes of a type, the numbers.

mod c;
mod clang;
mod cpp;
mod custom;
mod go;
mod java;
mod model;
mod naming;
mod python;
mod rust;
mod tables;
mod typescript;

use bifrost_wire::Interface;

pub use custom::{PART, TEMPLATE, generate_from};
pub use go::is_go_package;
pub use java::Exceptions;
pub use model::Model;
pub use naming::Naming;
pub use tables::{TablesLang, tables};

/// A language that stubs can be generated for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Lang {
    /// One module for the crate `bifrost-veneer`.
    Rust,
    /// One header over `bifrost/bifrost.h`.
    C,
    /// One header over `bifrost/bifrost.hpp`.
    Cpp,
    /// One module for the package `bifrost-veneer`.
    Python,
    /// One module for the npm package `bifrost-veneer`.
    TypeScript,
    /// One package for the module `bifrost.dev/veneer`.
    Go,
    /// One class for the package `org.bifrost.veneer`.
    Java,
}

impl Lang {
    /// All languages.
    pub const ALL: &[Lang] =
        &[Lang::Rust, Lang::C, Lang::Cpp, Lang::Python, Lang::TypeScript, Lang::Go, Lang::Java];

    /// Returns its name in the command line.
    pub fn name(self) -> &'static str {
        match self {
            Lang::Rust => "rust",
            Lang::C => "c",
            Lang::Cpp => "cpp",
            Lang::Python => "python",
            Lang::TypeScript => "typescript",
            Lang::Go => "go",
            Lang::Java => "java",
        }
    }

    /// Returns the language of that name.
    pub fn from_name(name: &str) -> Option<Lang> {
        Lang::ALL.iter().copied().find(|l| l.name() == name)
    }
}

/// The values of ints in TypeScript, whose numbers are exact up to 2^53 only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Ints {
    /// `bigint`, which has them all.
    #[default]
    Bigint,
    /// `number`; a claim of an int beyond 2^53 fails.
    Number,
}

impl Ints {
    /// Both.
    pub const ALL: &[Ints] = &[Ints::Bigint, Ints::Number];

    /// Returns its name in the command line, which is that of the type.
    pub fn name(self) -> &'static str {
        match self {
            Ints::Bigint => "bigint",
            Ints::Number => "number",
        }
    }

    /// Returns the one of that name.
    pub fn from_name(name: &str) -> Option<Ints> {
        Ints::ALL.iter().copied().find(|ints| ints.name() == name)
    }
}

/// The reason why no stubs could be generated.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// A template failed: of this crate, or of a user.
    #[error("{}", told(.0))]
    Template(#[from] minijinja::Error),
    /// The interface lacks a basic type.
    #[error("the interface has no type `{0}`")]
    NoBasicType(&'static str),
    /// A name is none of a class in Java.
    #[error("`{0}` is no name for the class: write a package and a name, as in `org.example.Database`")]
    NoClass(String),
    /// There is no template to make a file of.
    #[error("there is no template: a file that ends in `.jinja` and does not begin with `_`")]
    NoTemplate,
}

/// Returns the message of a template's mistake, with the place of the innermost.
fn told(error: &minijinja::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    format!("a template failed: {text}")
}

/// Makes the files of a veneer: their paths, relative to where stubs go, and their texts. Equal
/// interfaces give equal texts.
///
/// # Errors
/// See [`GenerateError`].
pub fn generate(interface: &Interface, language: Lang) -> Result<Vec<(String, String)>, GenerateError> {
    match language {
        Lang::Rust => rust::generate(interface),
        Lang::C => c::generate(interface),
        Lang::Cpp => cpp::generate(interface),
        Lang::Python => python::generate(interface),
        Lang::TypeScript => generate_typescript(interface, Ints::default()),
        Lang::Go => generate_go(interface, go::PACKAGE),
        Lang::Java => generate_java(interface, None, Exceptions::default()),
    }
}

/// As [`generate`], for TypeScript with ints of a type.
///
/// # Errors
/// See [`GenerateError`].
pub fn generate_typescript(
    interface: &Interface,
    ints: Ints,
) -> Result<Vec<(String, String)>, GenerateError> {
    typescript::generate(interface, ints)
}

/// As [`generate`], for a package of Go with a name.
///
/// # Errors
/// See [`GenerateError`].
pub fn generate_go(interface: &Interface, package: &str) -> Result<Vec<(String, String)>, GenerateError> {
    go::generate(interface, package)
}

/// As [`generate`], for Java with a class of that name and its exceptions. The package is a part of
/// the name; without one it is `bifrost.BifrostStubs`.
///
/// # Errors
/// See [`GenerateError`].
pub fn generate_java(
    interface: &Interface,
    class: Option<&str>,
    exceptions: Exceptions,
) -> Result<Vec<(String, String)>, GenerateError> {
    java::generate(interface, class.unwrap_or(java::CLASS), exceptions)
}
