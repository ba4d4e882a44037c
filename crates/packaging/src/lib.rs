//! Packages of the server, from one static program and the files of `packaging/`.
//!
//! [`Source::load`] gathers the contents of all packages: it runs the program for its man pages,
//! completions and annotated settings. [`tarball()`], [`debian()`] and [`image()`] write a package
//! each. The same program and the same time ([`Source::time`]) give the same bytes.
//!
//! | module | package |
//! | --- | --- |
//! | `tarball` | `bifrost-VERSION-ARCHITECTURE-linux-musl.tar.gz`, to be unpacked anywhere |
//! | `debian` | `bifrost_VERSION-1_ARCHITECTURE.deb`, by `dpkg-deb` |
//! | `image` | `bifrost-VERSION-image.tar`: an OCI image, written without an engine |
//!
//! The only layer of the image is a file of its own, too, for `packaging/Containerfile`:
//! `bifrost-root.tar.gz`.

mod archive;
mod build;
mod debian;
mod image;
mod source;
mod tarball;

pub use archive::Entry;
pub use build::{build, target};
pub use debian::debian;
pub use image::{USER, image};
pub use source::Source;
pub use tarball::tarball;

/// The reason why there is no package.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Its path.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// A program failed; its words.
    #[error("{program} failed: {said}")]
    Program {
        /// The program, with its arguments.
        program: String,
        /// Its standard error.
        said: String,
    },
}

impl PackageError {
    /// Makes the error of a file.
    fn file(path: impl AsRef<std::path::Path>) -> impl FnOnce(std::io::Error) -> PackageError {
        let path = path.as_ref().display().to_string();
        |source| PackageError::File { path, source }
    }
}
