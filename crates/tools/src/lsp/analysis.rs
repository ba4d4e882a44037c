//! The analysis of documents and the files around them.

use std::collections::{BTreeMap, BTreeSet};

use bifrost_theta::{Diagnostic, FileId, Options, Sources, compile, imports, load};

use super::Files;
use crate::index::{self, Index, PRELUDE_NAME};

/// Texts with their index.
pub struct Analysis {
    /// The texts; the first is the predeclared one.
    pub sources: Sources,
    /// The meanings of their names.
    pub index: Index,
    /// Texts that were imported and are no files.
    built_in: BTreeSet<FileId>,
}

impl Analysis {
    /// Returns the file of that path.
    pub fn file(&self, path: &str) -> Option<FileId> {
        self.sources.find(path)
    }

    /// Returns true if the file is the predeclared text.
    pub fn is_prelude(&self, file: FileId) -> bool {
        self.sources.name(file) == PRELUDE_NAME
    }

    /// Returns true if nobody can open the file.
    pub fn is_built_in(&self, file: FileId) -> bool {
        self.is_prelude(file) || self.built_in.contains(&file)
    }
}

/// Documents as they are in the editor, over files as they are on the disk.
pub struct View<'a> {
    /// Open documents by path.
    pub open: &'a BTreeMap<String, String>,
    /// The disk.
    pub files: &'a dyn Files,
    /// Folders that the client has open.
    pub folders: &'a [String],
}

impl View<'_> {
    fn read(&self, path: &str) -> Option<String> {
        self.open.get(path).cloned().or_else(|| self.files.read(path))
    }

    /// Returns the source that can be imported as this file when imports start at `root`, if there
    /// is no such file.
    fn built_in(&self, path: &str, root: &str) -> Option<String> {
        let name = if root.is_empty() { path } else { path.strip_prefix(root)?.trim_start_matches('/') };
        self.files.built_in(name)
    }

    /// Folders at which the imports of a document may start: its own, and those around it up to one
    /// that is open.
    fn roots(&self, path: &str) -> Vec<String> {
        let mut roots = vec![];
        let mut rest = path;
        while let Some((folder, _)) = rest.rsplit_once('/') {
            roots.push(folder.to_owned());
            if self.folders.is_empty() || self.folders.iter().any(|open| open.trim_end_matches('/') == folder)
            {
                break;
            }
            rest = folder;
        }
        if !self.folders.iter().any(|open| path.starts_with(&**open)) {
            roots.truncate(1);
        }
        if roots.is_empty() { vec![String::new()] } else { roots }
    }

    /// Returns the place where the imports of a document start: the first folder in which all are
    /// found.
    fn options(&self, path: &str) -> Options {
        let mut sources = Sources::new();
        let text = self.read(path).unwrap_or_default();
        let file = sources.add(path, text);
        let roots = self.roots(path);
        let is_there =
            |name: &str, root: &str| self.read(name).or_else(|| self.built_in(name, root)).is_some();
        let complete = |root: &&String| {
            let options = Options { root: root.to_string(), ..Options::default() };
            imports(&sources, file, &options).iter().all(|name| is_there(name, root))
        };
        let root = roots.iter().find(complete).or(roots.first()).cloned().unwrap_or_default();
        Options { root, natives: self.files.natives(), texts: self.files.built_in_names(), warnings: true }
    }

    /// Returns the mistakes in a document and in its imports.
    pub fn diagnostics(&self, path: &str) -> (Sources, Vec<Diagnostic>) {
        let options = self.options(path);
        let read = |name: &str| self.read(name).or_else(|| self.built_in(name, &options.root));
        let Some(sources) = load(path, &options, read) else {
            return (Sources::new(), vec![]);
        };
        let compiled = compile(&sources, &options);
        (sources, compiled.diagnostics)
    }

    /// Analyses a document and its imports.
    pub fn document(&self, path: &str) -> Analysis {
        self.analyse(vec![path.to_owned()])
    }

    /// Analyses every file of the open folders, every document, and their imports.
    pub fn workspace(&self) -> Analysis {
        let mut paths: Vec<String> = self.open.keys().cloned().collect();
        paths.extend(self.folders.iter().flat_map(|folder| self.files.list(folder)));
        self.analyse(paths)
    }

    fn analyse(&self, paths: Vec<String>) -> Analysis {
        let mut sources = index::sources();
        let mut roots: BTreeMap<FileId, String> = BTreeMap::new();
        let mut built_in = BTreeSet::new();
        // Paths, and where the imports of those start that import them.
        let mut pending: Vec<(String, Option<String>)> = paths.into_iter().map(|path| (path, None)).collect();
        while let Some((path, importer)) = pending.pop() {
            if sources.find(&path).is_some() {
                continue;
            }
            let (text, inner) = match (self.read(&path), importer) {
                (Some(text), _) => (text, None),
                (None, Some(root)) => match self.built_in(&path, &root) {
                    Some(text) => (text, Some(root)),
                    None => continue,
                },
                (None, None) => continue,
            };
            let options = match &inner {
                Some(root) => Options { root: root.clone(), ..Options::default() },
                None => self.options(&path),
            };
            let file = sources.add(path, text);
            let root = Some(options.root.clone());
            pending.extend(imports(&sources, file, &options).into_iter().map(|path| (path, root.clone())));
            roots.insert(file, options.root);
            built_in.extend(inner.map(|_| file));
        }
        let index = Index::new(&sources, |file, path| {
            let root = roots.get(&file)?;
            let name = format!("{}.theta", path.join("/"));
            sources.find(&if root.is_empty() { name } else { format!("{root}/{name}") })
        });
        Analysis { sources, index, built_in }
    }
}
