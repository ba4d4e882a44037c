//! Which definition a name means: modules, exports, imports (section 4 of the definition).
//!
//! Every module and every file is a scope; so is every type and class, for its equates. Lookup goes
//! outwards: own scope, enclosing module, file, imports. Locals and instance variables come before
//! all of these and are the business of `check`.
//!
//! Read [`Names`] first: [`collect`] makes it from the trees of all files, and [`Names::lookup`]
//! finds a name from a scope.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::Options;
use crate::ast;
use crate::diagnostic::{Code, Diagnostic};
use crate::source::{FileId, Sources, Span};

/// A scope of definitions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ScopeId(pub u32);

/// The meaning of a name; the numbers are positions in the lists of [`Names`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Def {
    Type(usize),
    Class(usize),
    Routine(usize),
    Native(usize),
    Equate(usize),
}

/// A definition and where its name stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub def: Def,
    pub span: Span,
}

/// A scope.
pub(crate) struct Scope {
    pub parent: Option<ScopeId>,
    pub names: HashMap<Arc<str>, Entry>,
    /// Names spelled alike but for letter case.
    folded: HashMap<String, (Arc<str>, Span)>,
    imports: HashMap<Arc<str>, Entry>,
}

/// A definition with the scope it stands in.
pub(crate) struct Placed<'a, T> {
    pub ast: &'a T,
    /// The module or file around it.
    pub home: ScopeId,
    /// Its own scope, which holds its equates; that of its home if it can have none.
    pub inner: ScopeId,
    /// True if other files can name it.
    pub public: bool,
    /// The name of the module around it.
    pub module: Option<Arc<str>>,
    /// The type parameters of the type or class around an equate.
    pub parms: &'a [ast::Ident],
}

impl<T> Placed<'_, T> {
    /// Returns the name of the module that hides the definition, as an error, if one does.
    pub fn exported(&self) -> Result<(), &str> {
        match &self.module {
            Some(module) if !self.public => Err(module),
            _ => Ok(()),
        }
    }
}

/// All definitions of all files.
#[derive(Default)]
pub(crate) struct Names<'a> {
    pub scopes: Vec<Scope>,
    pub types: Vec<Placed<'a, ast::TypeDef>>,
    pub classes: Vec<Placed<'a, ast::ClassDef>>,
    pub routines: Vec<Placed<'a, ast::Routine>>,
    pub natives: Vec<Placed<'a, ast::NativeRoutine>>,
    pub equates: Vec<Placed<'a, ast::Equate>>,
    pub diagnostics: Vec<Diagnostic>,
    /// The scope of each file.
    files: HashMap<FileId, ScopeId>,
    /// The names for clients, stores and the IR of definitions whose names others have too.
    qualified: HashMap<Def, String>,
}

/// The names of section 8 that stand for types.
pub(crate) const BUILTIN_TYPES: &[&str] = &[
    "any",
    "null",
    "bool",
    "int",
    "real",
    "char",
    "string",
    "bytes",
    "cell",
    "array",
    "sequence",
    "vector",
    "list",
    "map",
    "maybe",
    "directory",
    "group",
    "replier",
];

/// Returns true if `name` is a built-in type.
pub(crate) fn is_builtin_type(name: &str) -> bool {
    BUILTIN_TYPES.contains(&name)
}

/// Returns true if `name` is a built-in routine.
pub(crate) fn is_builtin_routine(name: &str) -> bool {
    bifrost_ir::builtin::find_routine(name).is_some()
}

/// Enters the definitions of `files` and joins them by their imports.
pub(crate) fn collect<'a>(sources: &Sources, options: &Options, files: &'a [ast::File]) -> Names<'a> {
    let root = &options.root;
    let mut names = Names::default();
    let mut scope_of: HashMap<FileId, ScopeId> = HashMap::new();
    for file in files {
        let scope = names.add_scope(None);
        scope_of.insert(file.id, scope);
        for item in &file.items {
            names.item(sources, item, scope, true, None);
        }
    }
    names.qualify_public_names(sources, root);
    names.qualify_private_names(sources, root);
    for file in files {
        for import in &file.imports {
            names.import(sources, options, import, scope_of[&file.id], &scope_of);
        }
    }
    names.files = scope_of;
    names
}

impl<'a> Names<'a> {
    fn add_scope(&mut self, parent: Option<ScopeId>) -> ScopeId {
        let id = ScopeId(self.scopes.len() as u32);
        self.scopes.push(Scope {
            parent,
            names: HashMap::new(),
            folded: HashMap::new(),
            imports: HashMap::new(),
        });
        id
    }

    /// Returns true if any definition has type parameters.
    pub fn have_parameters(&self) -> bool {
        self.types.iter().any(|it| !it.ast.parms.is_empty())
            || self.routines.iter().any(|it| !it.ast.heading.parms.is_empty())
            || self.classes.iter().any(|it| {
                !it.ast.parms.is_empty() || it.ast.makers.iter().any(|it| !it.heading.parms.is_empty())
            })
    }

    /// Returns the meaning of `name` seen from `scope`.
    pub fn lookup(&self, scope: ScopeId, name: &str) -> Option<Entry> {
        let scope = &self.scopes[scope.0 as usize];
        if let Some(entry) = scope.names.get(name) {
            return Some(*entry);
        }
        match scope.parent {
            Some(parent) => self.lookup(parent, name),
            None => scope.imports.get(name).copied(),
        }
    }

    /// Returns the names that importers of `file` see.
    pub fn public_names(&self, file: FileId) -> impl Iterator<Item = &str> {
        let scope = self.files.get(&file).map(|scope| &self.scopes[scope.0 as usize]);
        scope.into_iter().flat_map(|scope| scope.names.keys()).map(|name| &**name)
    }

    /// Returns all names seen from `scope`, for suggestions.
    pub fn visible(&self, scope: ScopeId) -> Vec<&str> {
        let scope = &self.scopes[scope.0 as usize];
        let mut all: Vec<&str> = scope.names.keys().chain(scope.imports.keys()).map(|n| &**n).collect();
        if let Some(parent) = scope.parent {
            all.extend(self.visible(parent));
        }
        all
    }

    /// Returns true if `scope` lies in `home` or is it.
    pub fn is_within(&self, scope: ScopeId, home: ScopeId) -> bool {
        scope == home || self.scopes[scope.0 as usize].parent.is_some_and(|p| self.is_within(p, home))
    }

    fn define(&mut self, sources: &Sources, scope: ScopeId, name: &ast::Ident, def: Def) {
        if name.name.is_empty() {
            return;
        }
        if is_builtin_type(&name.name) || is_builtin_routine(&name.name) {
            let message = format!("`{name}` is predeclared and cannot be defined again");
            self.diagnostics
                .push(Diagnostic::error(Code::E0209, name.span, message).help("choose another name"));
            return;
        }
        let scope = &mut self.scopes[scope.0 as usize];
        if let Some(first) = scope.names.get(&name.name) {
            self.diagnostics.push(twice(sources, name, first.span));
            return;
        }
        let folded = name.name.to_ascii_lowercase();
        if let Some((other, span)) = scope.folded.get(&folded) {
            self.diagnostics.push(case_clash(sources, name, other, *span));
        } else {
            scope.folded.insert(folded, (name.name.clone(), name.span));
        }
        scope.names.insert(name.name.clone(), Entry { def, span: name.span });
    }

    fn item(
        &mut self,
        sources: &Sources,
        item: &'a ast::Item,
        home: ScopeId,
        public: bool,
        module: Option<&Arc<str>>,
    ) {
        let module = module.cloned();
        let def = match item {
            ast::Item::Module(it) => return self.module(sources, it, home, public),
            ast::Item::Equate(it) => {
                self.equates.push(Placed { ast: it, home, inner: home, public, module, parms: &[] });
                Def::Equate(self.equates.len() - 1)
            }
            ast::Item::Type(it) => {
                let inner = self.inner_scope(sources, home, &it.equates, &it.parms);
                self.types.push(Placed { ast: it, home, inner, public, module, parms: &[] });
                Def::Type(self.types.len() - 1)
            }
            ast::Item::Class(it) => {
                let inner = self.inner_scope(sources, home, &it.equates, &it.parms);
                self.classes.push(Placed { ast: it, home, inner, public, module, parms: &[] });
                Def::Class(self.classes.len() - 1)
            }
            ast::Item::Routine(it) => {
                self.routines.push(Placed { ast: it, home, inner: home, public, module, parms: &[] });
                Def::Routine(self.routines.len() - 1)
            }
            ast::Item::NativeRoutine(it) => {
                self.natives.push(Placed { ast: it, home, inner: home, public, module, parms: &[] });
                Def::Native(self.natives.len() - 1)
            }
        };
        self.define(sources, home, item.name(), def);
    }

    /// Returns the scope of a type or class with equates.
    fn inner_scope(
        &mut self,
        sources: &Sources,
        home: ScopeId,
        equates: &'a [ast::Equate],
        parms: &'a [ast::Ident],
    ) -> ScopeId {
        if equates.is_empty() {
            return home;
        }
        let scope = self.add_scope(Some(home));
        for equate in equates {
            self.equates.push(Placed {
                ast: equate,
                home: scope,
                inner: scope,
                public: false,
                module: None,
                parms,
            });
            self.define(sources, scope, &equate.name, Def::Equate(self.equates.len() - 1));
        }
        scope
    }

    fn module(&mut self, sources: &Sources, module: &'a ast::Module, outer: ScopeId, public: bool) {
        let scope = self.add_scope(Some(outer));
        let exports: HashSet<&str> = module.exports.iter().map(|name| &*name.name).collect();
        for item in &module.items {
            let exported = public && exports.contains(&*item.name().name);
            self.item(sources, item, scope, exported, Some(&module.name.name));
        }
        for (at, export) in module.exports.iter().enumerate() {
            if let Some(first) = module.exports[..at].iter().find(|other| other.name == export.name)
                && !export.name.is_empty()
            {
                self.diagnostics.push(twice(sources, export, first.span));
                continue;
            }
            match self.scopes[scope.0 as usize].names.get(&export.name).copied() {
                Some(entry) => {
                    let name = ast::Ident { name: export.name.clone(), span: entry.span };
                    self.define(sources, outer, &name, entry.def);
                }
                None if export.name.is_empty() => {}
                None => {
                    let message = format!("module `{}` does not define `{export}`", module.name);
                    self.diagnostics.push(Diagnostic::error(Code::E0208, export.span, message));
                }
            }
        }
    }

    /// Returns the name of a definition named `name` for clients, stores and the IR. That is
    /// `name`; or, if several files have public definitions of it, or if it is private and others
    /// have its name, the name with the path of its file and its module before it.
    pub fn outside_name<'s>(&'s self, def: Def, name: &'s str) -> &'s str {
        self.qualified.get(&def).map_or(name, String::as_str)
    }

    /// Qualifies public names. Clients import nothing, so definitions that several files have
    /// public under one name need other names for them. No file is favoured, but where the program
    /// starts there is one entry.
    fn qualify_public_names(&mut self, sources: &Sources, root: &str) {
        let types = self.types.iter().enumerate().filter(|(_, it)| it.public);
        let types = types.map(|(at, it)| (Def::Type(at), &it.ast.name));
        let routines = self.routines.iter().enumerate().filter(|(_, it)| it.public);
        let routines = routines.map(|(at, it)| (Def::Routine(at), &it.ast.heading.name));
        let natives = self.natives.iter().enumerate().filter(|(_, it)| it.public);
        let natives = natives.map(|(at, it)| (Def::Native(at), &it.ast.heading.name));
        let actors = self.classes.iter().enumerate().filter(|(_, it)| it.public && it.ast.actor.is_some());
        let actors = actors.map(|(at, it)| (Def::Class(at), &it.ast.name));
        let mut by_name: BTreeMap<Arc<str>, Vec<(Def, Span)>> = BTreeMap::new();
        for (def, name) in types.chain(actors).chain(routines).chain(natives) {
            by_name.entry(name.name.clone()).or_default().push((def, name.span));
        }
        let start = sources.ids().next();
        let mut taken: HashSet<String> = HashSet::new();
        for (name, all) in by_name {
            let several = all.iter().any(|(_, span)| span.file != all[0].1.file);
            // `main` is the business of the routines: each file may have one.
            if !several || &*name == "main" {
                continue;
            }
            for (def, span) in all {
                if &*name == "setup" && Some(span.file) == start {
                    continue;
                }
                let mut full = format!("{}.{name}", path_of(root, sources.name(span.file)));
                while !taken.insert(full.clone()) {
                    full.push('_');
                }
                self.qualified.insert(def, full);
            }
        }
    }

    /// Qualifies the names of types and classes that no client can name, if others have the same.
    /// Stores find the class of an object by its name.
    fn qualify_private_names(&mut self, sources: &Sources, root: &str) {
        let types = self.types.iter().enumerate();
        let types = types.map(|(at, it)| (Def::Type(at), &it.ast.name, it.home, &it.module, it.public));
        let classes = self.classes.iter().enumerate().map(|(at, it)| {
            let public = it.public && it.ast.actor.is_some();
            (Def::Class(at), &it.ast.name, it.home, &it.module, public)
        });
        let mut by_name: BTreeMap<Arc<str>, Vec<_>> = BTreeMap::new();
        for it in types.chain(classes) {
            by_name.entry(it.1.name.clone()).or_default().push(it);
        }
        let mut taken: HashSet<String> = self.qualified.values().cloned().collect();
        for (name, all) in by_name {
            // Two in one scope are a mistake.
            if all.iter().all(|(_, _, home, ..)| *home == all[0].2) {
                continue;
            }
            for (def, ident, _, module, _) in all.into_iter().filter(|(.., public)| !public) {
                let path = path_of(root, sources.name(ident.span.file));
                let mut full = match module {
                    Some(module) => format!("{path}.{module}.{name}"),
                    None => format!("{path}.{name}"),
                };
                while !taken.insert(full.clone()) {
                    full.push('_');
                }
                self.qualified.insert(def, full);
            }
        }
    }

    fn import(
        &mut self,
        sources: &Sources,
        options: &Options,
        import: &ast::Import,
        into: ScopeId,
        scope_of: &HashMap<FileId, ScopeId>,
    ) {
        if import.path.iter().any(|part| part.name.is_empty()) {
            return;
        }
        let file = file_of(&options.root, import);
        let Some(from) = sources.find(&file).and_then(|id| scope_of.get(&id)).copied() else {
            let path = import.path.iter().map(|p| &*p.name).collect::<Vec<_>>().join(".");
            let span = import.path[0].span.to(import.path[import.path.len() - 1].span);
            let message = format!("there is no file for `{path}`");
            let help = no_file_help(options, &path, &file);
            self.diagnostics.push(Diagnostic::error(Code::E0208, span, message).help(help));
            return;
        };
        let there = &self.scopes[from.0 as usize].names;
        let mut brought = vec![];
        match &import.names {
            None => {
                let mut all: Vec<_> = there.iter().map(|(name, entry)| (name.clone(), *entry)).collect();
                all.sort_by_key(|(_, entry)| entry.span.start);
                // `main` is the entry of its own file.
                all.retain(|(name, _)| &**name != "main");
                brought.extend(all.into_iter().map(|(name, entry)| (name, entry, import.span)));
            }
            Some(names) => {
                for (name, here) in names {
                    match there.get(&name.name) {
                        Some(entry) => brought.push((here.name.clone(), *entry, here.span)),
                        None if name.name.is_empty() => {}
                        None => {
                            let message = format!("`{file}` has no public name `{name}`");
                            self.diagnostics.push(Diagnostic::error(Code::E0208, name.span, message));
                        }
                    }
                }
            }
        }
        for (name, entry, span) in brought {
            let scope = &mut self.scopes[into.0 as usize];
            let other = scope.names.get(&name).or(scope.imports.get(&name));
            match other {
                Some(other) if other.def != entry.def => {
                    let message = format!("the imported name `{name}` is used already");
                    let diagnostic = Diagnostic::error(Code::E0212, span, message)
                        .label(other.span, "the other use of the name")
                        .help(format!("import it under another name: `({name} as …)`"));
                    self.diagnostics.push(diagnostic);
                }
                Some(_) => {}
                None => drop(scope.imports.insert(name, entry)),
            }
        }
    }
}

/// Returns the help for an import without a file: the built-in text that is meant, those that there
/// are, or the file's name.
fn no_file_help(options: &Options, path: &str, file: &str) -> String {
    let known: Vec<String> =
        options.texts.iter().map(|text| text.trim_end_matches(".theta").replace('/', ".")).collect();
    if let Some(near) = similar(path, known.iter().map(String::as_str)) {
        return format!("a similar name exists: `{near}`");
    }
    let package = |path: &str| path.split('.').next().map(str::to_owned);
    let beside: Vec<String> =
        known.iter().filter(|it| package(it) == package(path)).map(|it| format!("`{it}`")).collect();
    match beside.is_empty() {
        true => format!("the expected file is `{file}`"),
        false => format!("existing files: {}", beside.join(", ")),
    }
}

/// Returns the text that `import` names.
pub(crate) fn file_of(root: &str, import: &ast::Import) -> String {
    let path = import.path.iter().map(|p| &*p.name).collect::<Vec<_>>().join("/");
    if root.is_empty() { format!("{path}.theta") } else { format!("{root}/{path}.theta") }
}

/// Returns the path by which the text `file` is imported: `lib.one` for `lib/one.theta`. The text
/// that a program starts from may have any name; a character that no path can have becomes `_`.
fn path_of(root: &str, file: &str) -> String {
    let file = file.strip_suffix(".theta").unwrap_or(file);
    let inner =
        file.strip_prefix(root).filter(|rest| root.is_empty() || rest.starts_with('/')).unwrap_or(file);
    let part =
        |part: &str| part.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect::<String>();
    inner.split('/').filter(|it| !it.is_empty()).map(part).collect::<Vec<_>>().join(".")
}

/// Returns the error E0209.
pub(crate) fn twice(sources: &Sources, name: &ast::Ident, first: Span) -> Diagnostic {
    let line = sources.line(first.file, first.start);
    Diagnostic::error(Code::E0209, name.span, format!("`{name}` is defined already (line {line})"))
        .help("choose another name")
}

/// Returns the error E0103.
pub(crate) fn case_clash(sources: &Sources, name: &ast::Ident, other: &str, span: Span) -> Diagnostic {
    let line = sources.line(span.file, span.start);
    Diagnostic::error(
        Code::E0103,
        name.span,
        format!("`{name}` differs from `{other}` (line {line}) only in letter case"),
    )
    .help("veneers use the capital for promises; choose another name")
}

/// Returns the one of `names` that is most like `wanted`, if any is like it.
pub(crate) fn similar<'n>(wanted: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    // Short names are all alike.
    let limit = if wanted.len() < 3 { 0 } else { (wanted.len() / 3).max(1) };
    names
        .into_iter()
        // Suggestions are worth a moment, not more.
        .take(2000)
        .filter(|name| *name != wanted && name.len().abs_diff(wanted.len()) <= limit)
        .map(|name| (distance(wanted, name), name))
        .filter(|(distance, _)| *distance <= limit.min(3))
        .min()
        .map(|(_, name)| name)
}

/// Insertions, removals, replacements and swaps of neighbours between two names.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() > 64 || b.len() > 64 {
        return usize::MAX;
    }
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let same = usize::from(!a[i - 1].eq_ignore_ascii_case(&b[j - 1]));
                let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + same);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(rows[i - 2][j - 2] + 1);
                }
                best
            };
        }
    }
    rows[a.len()][b.len()]
}
