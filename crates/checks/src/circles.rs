//! The files of a crate that know each other: circles of `use` and paths.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

/// Which files of a crate name which others, by the names of their modules (`actor::send`).
#[derive(Default, Debug)]
pub struct Graph {
    /// The path of the file of each module.
    files: BTreeMap<String, String>,
    names: BTreeMap<String, BTreeSet<Vec<String>>>,
}

/// The name of a module, from the path of its file below `src`.
fn module(path: &str) -> String {
    let name = path.trim_end_matches(".rs").trim_end_matches("/mod");
    match name {
        "lib" | "main" | "mod" => String::new(),
        name => name.replace('/', "::"),
    }
}

/// The paths that a file names, as modules from the crate's root.
struct Names {
    own: Vec<String>,
    found: BTreeSet<Vec<String>>,
}

impl Names {
    /// A path from the crate's root; nothing if it leaves the crate. A path without a keyword
    /// begins at a module within the own one, or at another crate, which leads to the own module.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([&self.own[..], rest].concat()),
            "super" => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                let left = self.own.len().checked_sub(ups)?;
                Some([&self.own[..left], &path[ups..]].concat())
            }
            _ => Some([&self.own[..], path].concat()),
        }
    }

    fn tree(&mut self, before: &mut Vec<String>, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.tree(before, &path.tree);
                before.pop();
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(before, tree)),
            syn::UseTree::Name(name) => self.add(before, Some(name.ident.to_string())),
            syn::UseTree::Rename(name) => self.add(before, Some(name.ident.to_string())),
            syn::UseTree::Glob(_) => self.add(before, None),
        }
    }

    fn add(&mut self, before: &[String], last: Option<String>) {
        let path: Vec<String> = before.iter().cloned().chain(last).collect();
        self.found.extend(self.absolute(&path));
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        // A module within the file; tests may know all.
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // A re-export uses nothing.
        if matches!(item.vis, syn::Visibility::Inherited) {
            self.tree(&mut Vec::new(), &item.tree);
        }
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // `pub(super)` uses nothing.
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.found.extend(self.absolute(&parts));
        visit::visit_path(self, path);
    }
}

impl Graph {
    /// Adds a file of the crate: its path below `src`, and its text.
    ///
    /// # Errors
    /// It is no Rust.
    pub fn add(&mut self, path: &str, source: &str) -> syn::Result<()> {
        let name = module(path);
        let own = name.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let mut names = Names { own, found: BTreeSet::new() };
        names.visit_file(&syn::parse_file(source)?);
        self.files.insert(name.clone(), path.into());
        self.names.insert(name, names.found);
        Ok(())
    }

    /// The module that a path leads to: the longest beginning that is one.
    fn target(&self, path: &[String]) -> Option<&str> {
        (0..=path.len()).rev().find_map(|length| {
            let name = path[..length].join("::");
            self.files.get_key_value(&name).map(|(name, _)| name.as_str())
        })
    }

    /// The modules that each one names.
    fn edges(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let of = |(name, paths)| {
            let (name, paths): (&String, &BTreeSet<Vec<String>>) = (name, paths);
            let targets = paths.iter().filter_map(|path| self.target(path));
            (name.as_str(), targets.filter(|target| *target != name).collect())
        };
        self.names.iter().map(of).collect()
    }

    /// The files of the largest circle, each with those of the circle that it names.
    pub fn largest(&self) -> Vec<(&str, Vec<&str>)> {
        let edges = self.edges();
        let circle: BTreeSet<&str> = self.circles().into_iter().next().into_iter().flatten().collect();
        let path = |name: &str| self.files[name].as_str();
        let inside = edges.iter().filter(|(name, _)| circle.contains(path(name)));
        let named = |to: &BTreeSet<&str>| {
            to.iter().map(|name| path(name)).filter(|path| circle.contains(path)).collect()
        };
        inside.map(|(name, to)| (path(name), named(to))).collect()
    }

    /// The circles of more than one file, the largest first, as paths below `src`.
    pub fn circles(&self) -> Vec<Vec<&str>> {
        let edges = self.edges();
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            edges.keys().map(|start| (*start, reached(&edges, start))).collect();
        let mut circles: Vec<Vec<&str>> = Vec::new();
        let mut met = BTreeSet::new();
        for (one, others) in &reached {
            if !others.contains(one) || met.contains(one) {
                continue;
            }
            let circle: Vec<&str> =
                others.iter().copied().filter(|other| reached[other].contains(one)).collect();
            met.extend(circle.iter().copied());
            circles.push(circle.into_iter().map(|name| self.files[name].as_str()).collect());
        }
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }
}

/// The modules that a way of names leads to.
fn reached<'g>(edges: &BTreeMap<&'g str, BTreeSet<&'g str>>, start: &str) -> BTreeSet<&'g str> {
    let mut found = BTreeSet::new();
    let mut left: Vec<&str> = edges.get(start).into_iter().flatten().copied().collect();
    while let Some(name) = left.pop() {
        if found.insert(name) {
            left.extend(edges.get(name).into_iter().flatten());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_by_uses_and_paths() {
        let mut graph = Graph::default();
        graph.add("lib.rs", "pub mod a; pub mod b; pub use a::A; use b::B;").unwrap();
        graph.add("a/mod.rs", "use crate::b::{self, B}; pub struct A;").unwrap();
        graph.add("a/c.rs", "fn f() { super::super::b::g() }").unwrap();
        graph.add("b.rs", "fn g(x: crate::a::c::C) {} mod tests { use crate::d::D; }").unwrap();
        graph.add("d.rs", "use super::b::B; pub(super) fn g() {}").unwrap();
        assert_eq!(graph.circles(), [["a/c.rs", "b.rs"]]);
        assert_eq!(graph.largest(), [("a/c.rs", vec!["b.rs"]), ("b.rs", vec!["a/c.rs"])]);
    }

    #[test]
    fn files_have_the_names_of_their_modules() {
        assert_eq!(["lib.rs", "a/mod.rs", "a/b.rs"].map(module), ["", "a", "a::b"]);
    }
}
