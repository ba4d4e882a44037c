//! Warnings: code that compiles, and that a person would not have written on purpose.
//!
//! The lints read the syntax trees of a program without errors. No local may hide another name
//! (E0211), so a name in scope is the local, and no types are needed.
//!
//! A name that begins with `_` is never reported as unused.

mod reach;
mod walk;

use std::collections::HashSet;

use crate::ast::{self, Item};
use crate::diagnostic::{Code, Diagnostic};
use crate::resolve::{self, Names};
use crate::source::Sources;
use walk::Walk;

/// Warnings kept of one compilation.
const WARNINGS_MAX: usize = 200;

/// Returns the warnings about `files`, whose names are `names`.
pub(crate) fn lint(sources: &Sources, root: &str, files: &[ast::File], names: &Names<'_>) -> Vec<Diagnostic> {
    let required = required_methods(files);
    let mut found = vec![];
    for file in files {
        let mut walk = Walk::new(&required);
        walk.items(&file.items);
        let used = walk.used_names();
        found.append(&mut walk.found);
        for import in &file.imports {
            unused_import(sources, root, import, names, &used, &mut found);
        }
    }
    found.truncate(WARNINGS_MAX);
    found
}

/// Returns the names of all methods that a type asks for or a superclass may have: their parameters
/// are given.
fn required_methods(files: &[ast::File]) -> HashSet<&str> {
    let mut required = HashSet::new();
    let mut pending: Vec<&Item> = files.iter().flat_map(|file| &file.items).collect();
    while let Some(item) = pending.pop() {
        match item {
            Item::Module(module) => pending.extend(&module.items),
            Item::Type(def) => {
                required.extend(def.methods.iter().map(|heading| &*heading.name.name));
                let renames = def.supers.iter().flat_map(|(_, renames)| renames);
                required.extend(renames.map(|rename| &*rename.new.name));
            }
            Item::Class(class) if class.inherits.is_some() => {
                required.extend(class.methods.iter().map(|method| &*method.heading.name.name));
            }
            _ => {}
        }
    }
    required
}

/// Reports W0003: an import of which no name is used.
fn unused_import(
    sources: &Sources,
    root: &str,
    import: &ast::Import,
    names: &Names<'_>,
    used: &HashSet<&str>,
    found: &mut Vec<Diagnostic>,
) {
    if let Some(list) = &import.names {
        for (_, here) in list.iter().filter(|(_, here)| !used.contains(&*here.name)) {
            let message = format!("the imported name `{here}` is never used");
            found
                .push(Diagnostic::warning(Code::W0003, here.span, message).help("remove it from the import"));
        }
        return;
    }
    let Some(file) = sources.find(&resolve::file_of(root, import)) else { return };
    if names.public_names(file).any(|name| used.contains(name)) {
        return;
    }
    let path = import.path.iter().map(|part| &*part.name).collect::<Vec<_>>().join(".");
    let message = format!("no name of `{path}` is used");
    let help = "remove the import; name files that only clients use on the command line";
    found.push(Diagnostic::warning(Code::W0003, import.span, message).help(help));
}
