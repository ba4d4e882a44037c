//! Types, their methods' signatures, and the subtype relation.
//!
//! Every type a program can name has a [`TypeId`]; instantiations of the built-in generic types are
//! types of their own (`array[int]` and `array[string]` have nothing in common:
//! `docs/book/language/types.md`). A type's method list is complete: inherited methods are in it,
//! renamed where the type renames them, so that a call needs a type and an index and no search.
//!
//! Read [`Types`] first: it owns all types of a program.

use std::borrow::Cow;
use std::collections::HashMap;

use cranelift_entity::{PrimaryMap, entity_impl};
use smallvec::{SmallVec, smallvec};

use crate::builtin::{self, Builtin};
use crate::program::{ClassId, Field};
use crate::tagged;

/// A type of a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(u32);
entity_impl!(TypeId, "type");

/// The fields of a record or struct, or the tags of a oneof, interned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StructureId(u32);
entity_impl!(StructureId, "structure");

/// The heading of a routine type, interned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeadingId(u32);
entity_impl!(HeadingId, "heading");

/// The name of an exception, interned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SignalId(u32);
entity_impl!(SignalId, "signal");

impl SignalId {
    /// `failure(string)`, which every call may signal (`docs/book/language/exceptions.md`).
    pub const FAILURE: SignalId = SignalId(0);
}

/// The position of a method in its type's list.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MethodId(u32);
entity_impl!(MethodId, "method");

/// A method of a type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct MethodRef {
    /// The type through which the method is called.
    pub ty: TypeId,
    /// Its position in that type's list.
    pub method: MethodId,
}

/// The kind of a type; decides representation and equality.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TypeKind {
    /// Only value `nil`; the word 0.
    Null,
    /// The words 0 and 1.
    Bool,
    /// A 64-bit two's complement integer.
    Int,
    /// The bits of an IEEE 754 double.
    Real,
    /// A Unicode scalar value.
    Char,
    /// An immutable text; a reference.
    String,
    /// Immutable bytes; a reference.
    Bytes,
    /// The type above all others; a word of *any* type cannot be told apart, so only references are
    /// of it, and basic values are put into objects for it ([`crate::boxed`]).
    Any,
    /// `array[T]`
    Array(TypeId),
    /// `sequence[T]`
    Sequence(TypeId),
    /// `vector[T]`
    Vector(TypeId),
    /// `list[T]`
    List(TypeId),
    /// `cell[T]`
    Cell(TypeId),
    /// `map[K, V]`
    Map(TypeId, TypeId),
    /// `maybe[T]`
    Maybe(TypeId),
    /// `group[A]`: actors, laid out as a sequence of them.
    Group(TypeId),
    /// `replier[T]`: where the answer to a message goes.
    Replier(TypeId),
    /// `record[a: T, ...]`
    Record(StructureId),
    /// `struct[a: T, ...]`
    Struct(StructureId),
    /// `oneof[a: T, ...]`
    OneOf(StructureId),
    /// `proc (T, ...) returns (U, ...) signals (...)`
    Proc(HeadingId),
    /// `iter (T, ...) yields (U, ...) signals (...)`
    Iter(HeadingId),
    /// The directory of well-known objects (`docs/book/language/objects.md`).
    Directory,
    /// A user's type.
    Object,
    /// A class's own type, known only in its module: its methods include the private ones and its
    /// instance variables can be selected.
    Class(ClassId),
}

impl TypeKind {
    /// Returns true if words of this type are values themselves and not references to objects (they
    /// cross to clients as themselves).
    #[inline]
    pub fn is_basic(self) -> bool {
        matches!(self, TypeKind::Null | TypeKind::Bool | TypeKind::Int | TypeKind::Real | TypeKind::Char)
    }

    /// Returns the element type of an instantiation of a built-in type with one parameter.
    pub fn element(self) -> Option<TypeId> {
        match self {
            TypeKind::Map(..) => None,
            _ => self.args().next(),
        }
    }

    /// Returns the type arguments of an instantiation of a built-in generic type, in order.
    pub fn args(self) -> impl Iterator<Item = TypeId> {
        let (first, second) = match self {
            TypeKind::Array(t)
            | TypeKind::Sequence(t)
            | TypeKind::Vector(t)
            | TypeKind::List(t)
            | TypeKind::Cell(t)
            | TypeKind::Maybe(t)
            | TypeKind::Group(t)
            | TypeKind::Replier(t) => (Some(t), None),
            TypeKind::Map(k, v) => (Some(k), Some(v)),
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// Returns true if this is a routine type.
    pub fn is_routine(self) -> bool {
        matches!(self, TypeKind::Proc(_) | TypeKind::Iter(_))
    }
}

/// The three kinds of types that list fields or tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// `record`: mutable fields.
    Record,
    /// `struct`: immutable fields.
    Struct,
    /// `oneof`: one of several tags, with its value.
    OneOf,
}

impl Form {
    /// Returns the word that its types begin with.
    pub fn word(self) -> &'static str {
        match self {
            Form::Record => "record",
            Form::Struct => "struct",
            Form::OneOf => "oneof",
        }
    }
}

/// A named argument.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Param {
    /// Its name in the heading; only documentation.
    pub name: String,
    /// Its type.
    pub ty: TypeId,
}

/// An exception of a heading: a name and the types of its values.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SignalSig {
    /// The name.
    pub name: SignalId,
    /// The types of the values; empty for most exceptions.
    pub values: Vec<TypeId>,
}

/// The heading of a routine or method, without its name and without the receiver.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Signature {
    /// The arguments, in order.
    pub params: Vec<Param>,
    /// The results of a procedure; empty for an iterator.
    pub results: Vec<TypeId>,
    /// The types yielded at each step, if this is an iterator.
    pub yields: Option<Vec<TypeId>>,
    /// The declared exceptions; `failure(string)` is possible besides and not listed.
    pub signals: Vec<SignalSig>,
}

impl Signature {
    /// Returns true if this is an iterator, which can only be called by a `for` or FOREACH.
    pub fn is_iterator(&self) -> bool {
        self.yields.is_some()
    }

    /// Returns all types that it names, some more than once.
    pub fn types(&self) -> impl Iterator<Item = TypeId> {
        let params = self.params.iter().map(|p| p.ty);
        let values = self.signals.iter().flat_map(|s| s.values.iter().copied());
        let results = self.results.iter().chain(self.yields.iter().flatten()).copied();
        params.chain(results).chain(values)
    }

    /// Returns the declared exception of that name.
    pub fn signal(&self, name: SignalId) -> Option<&SignalSig> {
        self.signals.iter().find(|s| s.name == name)
    }
}

/// A method of a type: its name, its heading, and where it comes from.
#[derive(Clone, Debug)]
pub struct Method {
    /// The name by which this type's users call it.
    pub name: String,
    /// The heading.
    pub signature: Signature,
    /// The methods that this one stands for: those of supertypes and, for a class's own type, of
    /// the implemented types and of the superclass. A call through any of them must reach the same
    /// body.
    pub stands_for: Vec<MethodRef>,
    /// The comment after the heading.
    pub doc: String,
    /// The row of the built-in table, for methods of built-in types.
    pub builtin: Option<&'static Builtin>,
    /// True if it can be called from outside its module; false only for private methods of a class.
    pub public: bool,
}

/// A supertype as declared: `T {new for old}`.
#[derive(Clone, Debug)]
pub struct Supertype {
    /// The type above.
    pub ty: TypeId,
    /// Pairs (new name, old name).
    pub renames: Vec<(String, String)>,
}

/// A type's specification.
#[derive(Clone, Debug)]
pub struct TypeDef {
    /// Its name as a program writes it, `array[int]` for an instantiation. Unique among public
    /// types.
    pub name: String,
    /// The kind of type.
    pub kind: TypeKind,
    /// The declared supertypes (`any` is not listed).
    pub supertypes: Vec<Supertype>,
    /// All methods, inherited ones included.
    pub methods: PrimaryMap<MethodId, Method>,
    /// True if its objects never change.
    pub immutable: bool,
    /// True if its objects are actors: calls are requests.
    pub actor: bool,
    /// True if clients may see it.
    pub public: bool,
    /// The comment after its heading.
    pub doc: String,
}

/// All types of a program, and the interned names of exceptions.
#[derive(Clone, Debug)]
pub struct Types {
    defs: PrimaryMap<TypeId, TypeDef>,
    instances: HashMap<TypeKind, TypeId>,
    structures: PrimaryMap<StructureId, Vec<Field>>,
    structure_ids: HashMap<Vec<Field>, StructureId>,
    headings: PrimaryMap<HeadingId, Signature>,
    heading_ids: HashMap<Signature, HeadingId>,
    signals: PrimaryMap<SignalId, String>,
    signal_ids: HashMap<String, SignalId>,
}

impl Types {
    /// The type with the single value `nil`.
    pub const NULL: TypeId = TypeId(0);
    /// Truth values.
    pub const BOOL: TypeId = TypeId(1);
    /// 64-bit integers.
    pub const INT: TypeId = TypeId(2);
    /// 64-bit floating point.
    pub const REAL: TypeId = TypeId(3);
    /// Unicode scalar values.
    pub const CHAR: TypeId = TypeId(4);
    /// Texts.
    pub const STRING: TypeId = TypeId(5);
    /// The type above all others.
    pub const ANY: TypeId = TypeId(6);
    /// Directories of well-known objects.
    pub const DIRECTORY: TypeId = TypeId(7);
    /// Rows of bytes.
    pub const BYTES: TypeId = TypeId(8);

    /// Returns the built-in types and no others.
    pub fn new() -> Types {
        let mut types = Types {
            defs: PrimaryMap::new(),
            instances: HashMap::new(),
            structures: PrimaryMap::new(),
            structure_ids: HashMap::new(),
            headings: PrimaryMap::new(),
            heading_ids: HashMap::new(),
            signals: PrimaryMap::new(),
            signal_ids: HashMap::new(),
        };
        types.signal("failure");
        let kinds = [
            ("null", TypeKind::Null),
            ("bool", TypeKind::Bool),
            ("int", TypeKind::Int),
            ("real", TypeKind::Real),
            ("char", TypeKind::Char),
            ("string", TypeKind::String),
            ("any", TypeKind::Any),
            ("directory", TypeKind::Directory),
            ("bytes", TypeKind::Bytes),
        ];
        // Two passes: headings of one built-in type name the others.
        for (name, kind) in kinds {
            let id = types.defs.push(TypeDef {
                name: name.to_owned(),
                kind,
                supertypes: Vec::new(),
                methods: PrimaryMap::new(),
                immutable: !matches!(kind, TypeKind::Any | TypeKind::Directory),
                actor: false,
                public: true,
                doc: String::new(),
            });
            types.instances.insert(kind, id);
        }
        for (_, kind) in kinds {
            builtin::add_methods(&mut types, kind);
        }
        types
    }

    /// Returns the instantiation of a built-in generic type, made at its first use.
    ///
    /// # Panics
    /// When `kind` is no instantiation of one of [`builtin::FAMILIES`]: the other types are made
    /// once, or by [`Types::structured`] and [`Types::routine_type`].
    pub fn instance(&mut self, kind: TypeKind) -> TypeId {
        if let Some(id) = self.instances.get(&kind) {
            return *id;
        }
        let family = builtin::family(kind).and_then(builtin::find_family);
        let family = family.expect("only generic built-in types are instantiated");
        let args: Vec<&str> = kind.args().map(|arg| self.name(arg)).collect();
        let name = format!("{}[{}]", family.name, args.join(", "));
        let public = kind.args().all(|arg| self.defs[arg].public);
        let id = self.add_instance(kind, name, family.immutable, public);
        builtin::add_methods(self, kind);
        tagged::add_methods(self, id);
        id
    }

    fn add_instance(&mut self, kind: TypeKind, name: String, immutable: bool, public: bool) -> TypeId {
        let id = self.defs.push(TypeDef {
            name,
            kind,
            supertypes: Vec::new(),
            methods: PrimaryMap::new(),
            immutable,
            actor: false,
            public,
            doc: String::new(),
        });
        self.instances.insert(kind, id);
        id
    }

    /// Returns the record, struct or oneof with these fields or tags, made at its first use: equal
    /// structures in equal order are one type.
    pub fn structured(&mut self, form: Form, fields: Vec<Field>) -> TypeId {
        let structure = match self.structure_ids.get(&fields) {
            Some(known) => *known,
            None => {
                let id = self.structures.push(fields.clone());
                self.structure_ids.insert(fields.clone(), id);
                id
            }
        };
        let kind = match form {
            Form::Record => TypeKind::Record(structure),
            Form::Struct => TypeKind::Struct(structure),
            Form::OneOf => TypeKind::OneOf(structure),
        };
        if let Some(id) = self.instances.get(&kind) {
            return *id;
        }
        let parts: Vec<String> =
            fields.iter().map(|f| format!("{}: {}", f.name, self.defs[f.ty].name)).collect();
        let name = format!("{}[{}]", form.word(), parts.join(", "));
        let public = fields.iter().all(|f| self.defs[f.ty].public);
        let id = self.add_instance(kind, name, form != Form::Record, public);
        tagged::add_methods(self, id);
        id
    }

    /// Returns the type of routines with this heading, made at its first use. Names of arguments
    /// and the order of exceptions do not count. Clients cannot see it.
    pub fn routine_type(&mut self, signature: &Signature) -> TypeId {
        let mut heading = signature.clone();
        for param in &mut heading.params {
            param.name.clear();
        }
        heading.signals.sort_by(|a, b| self.signals[a.name].cmp(&self.signals[b.name]));
        let known = self.heading_ids.get(&heading).copied();
        let id = known.unwrap_or_else(|| self.headings.push(heading.clone()));
        self.heading_ids.insert(heading.clone(), id);
        let kind = if heading.is_iterator() { TypeKind::Iter(id) } else { TypeKind::Proc(id) };
        if let Some(id) = self.instances.get(&kind) {
            return *id;
        }
        let word = if heading.is_iterator() { "iter" } else { "proc" };
        let name = self.heading(word, &heading);
        let ty = self.add_instance(kind, name, false, false);
        tagged::add_methods(self, ty);
        ty
    }

    /// Returns the fields of a record or struct, or the tags of a oneof or `maybe`; `None` for
    /// other types.
    pub fn structure(&self, ty: TypeId) -> Option<Cow<'_, [Field]>> {
        let field = |name: &str, ty| Field { name: name.to_owned(), ty };
        match self.defs[ty].kind {
            TypeKind::Record(id) | TypeKind::Struct(id) | TypeKind::OneOf(id) => {
                Some(Cow::Borrowed(&self.structures[id]))
            }
            TypeKind::Maybe(some) => Some(Cow::Owned(vec![field("none", Types::NULL), field("some", some)])),
            _ => None,
        }
    }

    /// Returns the types that a built-in type is made of: arguments, fields, tags, or those of a
    /// heading.
    pub fn parts(&self, ty: TypeId) -> Vec<TypeId> {
        let mut parts: Vec<TypeId> = self.defs[ty].kind.args().collect();
        if let (Some(fields), true) = (self.structure(ty), parts.is_empty()) {
            parts.extend(fields.iter().map(|f| f.ty));
        }
        parts.extend(self.routine_heading(ty).into_iter().flat_map(Signature::types));
        parts
    }

    /// Returns the heading of a routine type.
    pub fn routine_heading(&self, ty: TypeId) -> Option<&Signature> {
        match self.defs[ty].kind {
            TypeKind::Proc(id) | TypeKind::Iter(id) => Some(&self.headings[id]),
            _ => None,
        }
    }

    /// Returns the instantiation, if it was made already.
    pub fn find_instance(&self, kind: TypeKind) -> Option<TypeId> {
        self.instances.get(&kind).copied()
    }

    /// Adds a user's type or a class's own type. Its methods may be filled in later through
    /// [`Types::def_mut`], so that types can name each other.
    pub fn add(&mut self, def: TypeDef) -> TypeId {
        self.defs.push(def)
    }

    /// Returns the definition of a type.
    pub fn def(&self, id: TypeId) -> &TypeDef {
        &self.defs[id]
    }

    /// Returns the definition of a type, to be completed.
    pub fn def_mut(&mut self, id: TypeId) -> &mut TypeDef {
        &mut self.defs[id]
    }

    /// Returns the kind of a type.
    #[inline]
    pub fn kind(&self, id: TypeId) -> TypeKind {
        self.defs[id].kind
    }

    /// Returns the name of a type.
    pub fn name(&self, id: TypeId) -> &str {
        &self.defs[id].name
    }

    /// Returns all types, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (TypeId, &TypeDef)> {
        self.defs.iter()
    }

    /// Returns the number of types.
    pub fn len(&self) -> usize {
        self.defs.len()
    }

    /// Returns false: the built-in types are always there.
    pub fn is_empty(&self) -> bool {
        self.defs.is_empty()
    }

    /// Returns a method.
    pub fn method(&self, m: MethodRef) -> &Method {
        &self.defs[m.ty].methods[m.method]
    }

    /// Returns the method of that name.
    pub fn find_method(&self, ty: TypeId, name: &str) -> Option<MethodRef> {
        let (method, _) = self.defs[ty].methods.iter().find(|(_, m)| m.name == name)?;
        Some(MethodRef { ty, method })
    }

    /// Returns the first type of that name that is public, or else any of that name.
    pub fn find(&self, name: &str) -> Option<TypeId> {
        let mut named = self.defs.iter().filter(|(_, d)| d.name == name);
        let first = named.next()?;
        if first.1.public {
            return Some(first.0);
        }
        Some(named.find(|(_, d)| d.public).map_or(first.0, |(id, _)| id))
    }

    /// Returns the id of an exception's name, made at its first use.
    pub fn signal(&mut self, name: &str) -> SignalId {
        if let Some(id) = self.signal_ids.get(name) {
            return *id;
        }
        let id = self.signals.push(name.to_owned());
        self.signal_ids.insert(name.to_owned(), id);
        id
    }

    /// Returns the id of an exception's name, if some heading has it.
    pub fn find_signal(&self, name: &str) -> Option<SignalId> {
        self.signal_ids.get(name).copied()
    }

    /// Returns the name of an exception.
    pub fn signal_name(&self, id: SignalId) -> &str {
        self.signals.get(id).map_or("?", |s| s)
    }

    /// Returns the names of all exceptions.
    pub fn signals(&self) -> impl Iterator<Item = (SignalId, &str)> {
        self.signals.iter().map(|(id, name)| (id, name.as_str()))
    }

    /// Returns true if `sub` is `sup` or lies below it. Basic types are below `any` in the
    /// language, but not here: a basic word carries no type, so the front end makes an object of it
    /// ([`crate::boxed`]).
    ///
    /// Routine types are below those whose heading theirs conforms to.
    ///
    /// Cost: looks once at each type above `sub`, however many ways lead up to it; for routine
    /// types, at each type that their headings name.
    pub fn is_subtype(&self, sub: TypeId, sup: TypeId) -> bool {
        if sub == sup {
            return true;
        }
        if sup == Types::ANY {
            return !self.defs[sub].kind.is_basic();
        }
        let mut seen: SmallVec<[TypeId; 8]> = smallvec![sub];
        let mut at = 0;
        while at < seen.len() {
            if let (Some(below), Some(above)) = (self.routine_heading(seen[at]), self.routine_heading(sup))
                && self.conforms(below, above)
            {
                return true;
            }
            for above in &self.defs[seen[at]].supertypes {
                if above.ty == sup {
                    return true;
                }
                if !seen.contains(&above.ty) {
                    seen.push(above.ty);
                }
            }
            at += 1;
        }
        false
    }

    /// Returns true if a method headed `sub` may stand where `sup` is declared: as many arguments,
    /// each argument type a supertype, each result a subtype, exceptions a subset
    /// (`docs/book/language/types.md`).
    pub fn conforms(&self, sub: &Signature, sup: &Signature) -> bool {
        sub.params.len() == sup.params.len()
            && sub.params.iter().zip(&sup.params).all(|(a, b)| self.is_subtype(b.ty, a.ty))
            && sub.results.len() == sup.results.len()
            && sub.results.iter().zip(&sup.results).all(|(a, b)| self.is_subtype(*a, *b))
            && match (&sub.yields, &sup.yields) {
                (None, None) => true,
                (Some(a), Some(b)) => {
                    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.is_subtype(*a, *b))
                }
                _ => false,
            }
            && sub.signals.iter().all(|s| {
                sup.signal(s.name).is_some_and(|t| {
                    s.values.len() == t.values.len()
                        && s.values.iter().zip(&t.values).all(|(a, b)| self.is_subtype(*a, *b))
                })
            })
    }

    /// Returns the heading as a program writes it:
    /// `fetch (user: string) returns (DataElem) signals (not_found)`.
    pub fn heading(&self, name: &str, s: &Signature) -> String {
        use std::fmt::Write;
        let list = |ids: &[TypeId]| ids.iter().map(|t| self.name(*t)).collect::<Vec<_>>().join(", ");
        let mut out = format!("{name} (");
        for (i, p) in s.params.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            let colon = if p.name.is_empty() { "" } else { ": " };
            let _ = write!(out, "{comma}{}{colon}{}", p.name, self.name(p.ty));
        }
        out.push(')');
        if let Some(yields) = &s.yields {
            let _ = write!(out, " yields ({})", list(yields));
        } else if !s.results.is_empty() {
            let _ = write!(out, " returns ({})", list(&s.results));
        }
        if !s.signals.is_empty() {
            let signals: Vec<String> = s
                .signals
                .iter()
                .map(|g| match g.values.as_slice() {
                    [] => self.signal_name(g.name).to_owned(),
                    values => format!("{} ({})", self.signal_name(g.name), list(values)),
                })
                .collect();
            let _ = write!(out, " signals ({})", signals.join(", "));
        }
        out
    }
}

impl Default for Types {
    fn default() -> Self {
        Types::new()
    }
}
