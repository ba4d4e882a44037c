//! Archives whose bytes follow from their entries alone.

use std::io::Write;

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// A file or a folder of a package.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The path, without a `/` at its begin or end.
    pub path: String,
    /// The contents; none for a folder.
    pub contents: Option<Vec<u8>>,
    /// The rights.
    pub mode: u32,
    /// The owner, by number, and the group.
    pub owner: u64,
}

impl Entry {
    /// A file of the superuser that all can read.
    pub fn file(path: impl Into<String>, contents: impl Into<Vec<u8>>) -> Entry {
        Entry { path: path.into(), contents: Some(contents.into()), mode: 0o644, owner: 0 }
    }

    /// A program of the superuser that all can run.
    pub fn program(path: impl Into<String>, contents: impl Into<Vec<u8>>) -> Entry {
        Entry { mode: 0o755, ..Entry::file(path, contents) }
    }

    /// A folder.
    pub fn folder(path: impl Into<String>, mode: u32, owner: u64) -> Entry {
        Entry { path: path.into(), contents: None, mode, owner }
    }

    /// The same, elsewhere.
    pub fn below(mut self, folder: &str) -> Entry {
        self.path = format!("{folder}/{}", self.path);
        self
    }
}

/// Returns the entries with the folders above them that are not among them, all in order.
pub(crate) fn with_folders(entries: &[Entry]) -> Vec<Entry> {
    let mut all = std::collections::BTreeMap::new();
    for entry in entries {
        for (at, _) in entry.path.match_indices('/') {
            let folder = &entry.path[..at];
            all.entry(folder.to_owned()).or_insert_with(|| Entry::folder(folder, 0o755, 0));
        }
        all.insert(entry.path.clone(), entry.clone());
    }
    all.into_values().collect()
}

/// Writes entries as an archive, all of them of one time. Folders come before their contents.
pub(crate) fn tar<W: Write>(out: W, entries: &[Entry], time: u64) -> std::io::Result<W> {
    let mut builder = Builder::new(out);
    for entry in with_folders(entries) {
        let mut header = Header::new_gnu();
        let contents = entry.contents.as_deref().unwrap_or_default();
        let (kind, end) = match &entry.contents {
            Some(_) => (EntryType::Regular, ""),
            None => (EntryType::Directory, "/"),
        };
        header.set_entry_type(kind);
        header.set_mode(entry.mode);
        header.set_uid(entry.owner);
        header.set_gid(entry.owner);
        header.set_mtime(time);
        header.set_size(contents.len() as u64);
        builder.append_data(&mut header, format!("{}{end}", entry.path), contents)?;
    }
    builder.into_inner()
}

/// Compresses a document as well as possible, as Debian wants it, without a name and a time.
pub(crate) fn gzip_best(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    compress(bytes, Compression::best())
}

/// Compresses an archive, without a name and a time.
pub(crate) fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    compress(bytes, Compression::default())
}

fn compress(bytes: &[u8], level: Compression) -> std::io::Result<Vec<u8>> {
    let mut out = GzBuilder::new().write(Vec::new(), level);
    out.write_all(bytes)?;
    out.finish()
}
