//! The meaning of every name of some texts: for each place the definition, and for each definition
//! its places.
//!
//! [`Index::new`] is a pure function of texts, and never fails: it serves people who are writing,
//! so its texts are half-written most of the time. It is not the checker and reports nothing. It
//! knows the whole language, follows the static types as far as they are written down, and leaves
//! out names that it cannot resolve. The predeclared types and routines are a text as well
//! ([`PRELUDE`]).
//!
//! Read [`Index`] first; [`Index::at`] finds the name at a place.

mod names;
mod types;
mod walk;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bifrost_theta::ast::{File, TypeExpr};
use bifrost_theta::{FileId, Sources, Span, on_deep_stack, parse};

pub use types::Ty;

/// The predeclared definitions, as Theta (section 8 of the definition).
pub const PRELUDE: &str = include_str!("prelude.theta");
/// The name under which [`PRELUDE`] is added to texts.
pub const PRELUDE_NAME: &str = "<predeclared>";

/// A definition: its position in [`Index::defs`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DefId(pub u32);

/// The kind of a definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Kind {
    Module,
    Type,
    Class,
    Actor,
    Routine,
    Constant,
    TypeParameter,
    Method,
    Maker,
    InstanceVariable,
    Field,
    Parameter,
    Local,
}

impl Kind {
    /// Returns the kind in a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Module => "module",
            Kind::Type => "type",
            Kind::Class => "class",
            Kind::Actor => "actor",
            Kind::Routine => "routine",
            Kind::Constant => "constant",
            Kind::TypeParameter => "type parameter",
            Kind::Method => "method",
            Kind::Maker => "maker",
            Kind::InstanceVariable => "instance variable",
            Kind::Field => "field",
            Kind::Parameter => "parameter",
            Kind::Local => "variable",
        }
    }
}

/// A definition.
#[derive(Debug)]
pub struct Def {
    /// Its name.
    pub name: Arc<str>,
    /// The place of the name.
    pub span: Span,
    /// All of the definition.
    pub whole: Span,
    /// The kind of definition.
    pub kind: Kind,
    /// The heading, or `name: type`, as written.
    pub heading: String,
    /// Its comment.
    pub doc: String,
    /// The definition that it stands in.
    pub parent: Option<DefId>,
    /// The text in which a local can be used; `None` for others.
    pub scope: Option<Span>,
    /// Methods, makers, variables, parameters of a type.
    members: BTreeMap<Arc<str>, DefId>,
    shape: Shape,
}

/// A type above another, and the names that are changed on the way: new, old.
type Above = (Ty, Vec<(Arc<str>, Arc<str>)>);

/// The facts about a definition from which types are found.
#[derive(Debug, Default)]
enum Shape {
    #[default]
    None,
    /// A variable or constant.
    Value(Ty),
    /// A type, class or actor with its parameters and the types above it.
    Type { parms: Vec<DefId>, above: Vec<Above> },
    /// A type equate.
    Alias(Ty),
    /// A routine or method: parameters of types, arguments, results or yields.
    Call { parms: Vec<DefId>, args: Vec<Ty>, results: Vec<Ty> },
}

/// The place of a name and its meaning.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// The place.
    pub span: Span,
    /// The meaning.
    pub def: DefId,
}

/// Definitions whose names change together.
#[derive(Debug, Default)]
pub struct Family {
    /// Those of one name.
    pub plain: Vec<DefId>,
    /// Methods named `set_` and that name, for which instance variables of that name are
    /// abbreviations.
    pub setters: Vec<DefId>,
}

/// Names by their place, and places by definition.
#[derive(Debug, Default)]
pub struct Index {
    /// All definitions.
    pub defs: Vec<Def>,
    /// All places, in the order of files and positions; those of definitions too.
    pub uses: Vec<Use>,
    /// The type of the expression before each name that stands after a dot.
    pub selections: Vec<(Span, Ty)>,
    /// Top-level definitions of a file, and its imports.
    scopes: HashMap<FileId, Scope>,
    modules: HashMap<DefId, Scope>,
    /// Definitions that must have one name: a method and those that implement or restate it.
    groups: Vec<u32>,
    /// Instance variables `x` with the methods `set_x` that they are abbreviations for.
    setters: Vec<(DefId, DefId)>,
}

/// Names of a file or a module.
#[derive(Debug, Default)]
struct Scope {
    names: BTreeMap<Arc<str>, DefId>,
    imports: BTreeMap<Arc<str>, DefId>,
}

impl Index {
    /// Returns the index of all of `sources`; `imported` finds the file of an import by its path.
    pub fn new(sources: &Sources, imported: impl Fn(FileId, &[&str]) -> Option<FileId> + Sync) -> Index {
        on_deep_stack(|| {
            let trees: Vec<File> = sources.ids().map(|file| parse(sources, file).0).collect();
            let mut index = Index::default();
            index.collect(sources, &trees);
            index.join(&trees, &imported);
            index.walk(sources, &trees);
            index.link();
            index.uses.sort_by_key(|it| (it.span.file, it.span.start, it.span.end));
            index.uses.dedup_by_key(|it| it.span);
            index
        })
    }

    /// Returns a definition.
    pub fn def(&self, id: DefId) -> &Def {
        &self.defs[id.0 as usize]
    }

    /// Returns all definitions with their ids.
    pub fn all(&self) -> impl Iterator<Item = (DefId, &Def)> {
        self.defs.iter().enumerate().map(|(at, def)| (DefId(at as u32), def))
    }

    /// Returns the name at a place, if its meaning is known; a place right after a name is one of
    /// it.
    pub fn at(&self, file: FileId, at: u32) -> Option<Use> {
        let end = self.uses.partition_point(|it| (it.span.file, it.span.start) <= (file, at));
        self.uses[..end].iter().rev().take(2).find(|it| it.span.file == file && at <= it.span.end).copied()
    }

    /// Returns every place of a definition and of those that share its name.
    pub fn places(&self, def: DefId) -> impl Iterator<Item = Use> {
        let group = self.groups[def.0 as usize];
        self.uses.iter().filter(move |it| self.groups[it.def.0 as usize] == group).copied()
    }

    /// Returns the definitions that must have one name with `def`, itself among them.
    pub fn group(&self, def: DefId) -> impl Iterator<Item = (DefId, &Def)> {
        let group = self.groups[def.0 as usize];
        self.all().filter(move |(id, _)| self.groups[id.0 as usize] == group)
    }

    /// Returns the definitions that change their names with `def`. These are those with the same
    /// name, itself among them, and those whose name is `set_` before it, or after it if `def` is
    /// such a method.
    pub fn family(&self, def: DefId) -> Family {
        let mut family = Family::default();
        let is_setter = self.setters.iter().any(|(_, setter)| self.is_same_name(*setter, def));
        let mut pending = vec![(def, is_setter)];
        while let Some((def, is_setter)) = pending.pop() {
            let known = if is_setter { &mut family.setters } else { &mut family.plain };
            if known.contains(&def) {
                continue;
            }
            known.extend(self.group(def).map(|(id, _)| id));
            for (variable, setter) in &self.setters {
                match is_setter {
                    true if self.is_same_name(*setter, def) => pending.push((*variable, false)),
                    false if self.is_same_name(*variable, def) => pending.push((*setter, true)),
                    _ => {}
                }
            }
        }
        family
    }

    /// Returns the names that can be used at a place, nearest first.
    pub fn visible(&self, file: FileId, at: u32) -> Vec<(Arc<str>, DefId)> {
        let mut found: Vec<(Arc<str>, DefId)> = vec![];
        let holds = |span: Span| span.file == file && span.start <= at && at <= span.end;
        let around: Vec<(DefId, &Def)> = self.all().filter(|(_, def)| holds(def.whole)).collect();
        for (id, def) in self.all() {
            if def.scope.is_some_and(|scope| holds(scope) && def.span.end <= at) {
                found.push((def.name.clone(), id));
            }
        }
        for (id, def) in around.iter().rev() {
            if matches!(def.kind, Kind::Class | Kind::Actor) {
                let variables =
                    def.members.iter().filter(|(_, id)| self.def(**id).kind == Kind::InstanceVariable);
                found.extend(variables.map(|(name, id)| (name.clone(), *id)));
            }
            if let Some(scope) = self.modules.get(id) {
                found.extend(scope.names.iter().map(|(name, id)| (name.clone(), *id)));
            }
        }
        if let Some(scope) = self.scopes.get(&file) {
            found.extend(scope.names.iter().chain(&scope.imports).map(|(name, id)| (name.clone(), *id)));
        }
        if let Some(prelude) = self.scopes.get(&PRELUDE_FILE) {
            found.extend(prelude.names.iter().map(|(name, id)| (name.clone(), *id)));
        }
        let mut seen = std::collections::HashSet::new();
        found.retain(|(name, _)| seen.insert(name.clone()));
        found
    }

    fn add(&mut self, def: Def) -> DefId {
        let id = DefId(self.defs.len() as u32);
        if !def.name.is_empty() {
            self.uses.push(Use { span: def.span, def: id });
        }
        self.groups.push(id.0);
        self.defs.push(def);
        id
    }

    fn use_(&mut self, span: Span, def: DefId) {
        if span.start < span.end {
            self.uses.push(Use { span, def });
        }
    }

    fn is_same_name(&self, a: DefId, b: DefId) -> bool {
        self.groups[a.0 as usize] == self.groups[b.0 as usize]
    }

    /// Joins the groups of two definitions.
    fn same_name(&mut self, a: DefId, b: DefId) {
        let (a, b) = (self.groups[a.0 as usize], self.groups[b.0 as usize]);
        if a != b {
            self.groups.iter_mut().filter(|group| **group == b).for_each(|group| *group = a);
        }
    }
}

/// [`PRELUDE`] is the first text.
pub(crate) const PRELUDE_FILE: FileId = FileId(0);

/// Texts that start with [`PRELUDE`], as [`Index::new`] needs them.
pub fn sources() -> Sources {
    let mut sources = Sources::new();
    sources.add(PRELUDE_NAME, PRELUDE);
    sources
}

/// Returns a type as it is written.
fn written(sources: &Sources, ty: &TypeExpr) -> String {
    on_one_line(sources.slice(ty.span))
}

/// `text` with single blanks, without comments.
fn on_one_line(text: &str) -> String {
    let lines = text.lines().map(|line| line.split('%').next().unwrap_or(""));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}
