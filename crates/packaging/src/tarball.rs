//! The archive that is unpacked anywhere: program, man pages, completions, settings, examples.

use std::path::{Path, PathBuf};

use crate::PackageError;
use crate::archive::{Entry, gzip, tar};
use crate::source::Source;

/// Writes the archive into a folder, and returns its path.
///
/// # Errors
/// [`PackageError`]
pub fn tarball(source: &Source, folder: &Path) -> Result<PathBuf, PackageError> {
    let name = format!("bifrost-{}-{}", source.version, source.target());
    let mut entries = vec![Entry::program("bin/bifrost", source.program.clone())];
    for (page, text) in &source.pages {
        entries.push(Entry::file(format!("share/man/man1/{page}"), text.clone()));
    }
    for (place, text) in &source.completions {
        entries.push(Entry::file(format!("share/{place}"), text.clone()));
    }
    for file in ["README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        entries.push(Entry::file(file, source.text(file)?));
    }
    entries.push(Entry::file("bifrost.toml", source.settings(&[])?));
    entries.push(Entry::file("bifrost.service", source.text("packaging/bifrost.service")?));
    entries.extend(source.examples()?);
    let entries: Vec<Entry> = entries.into_iter().map(|entry| entry.below(&name)).collect();
    let path = folder.join(format!("{name}.tar.gz"));
    let bytes = tar(Vec::new(), &entries, source.time).and_then(|bytes| gzip(&bytes));
    bytes.and_then(|bytes| std::fs::write(&path, bytes)).map_err(PackageError::file(&path))?;
    Ok(path)
}
