//! Records, structs, oneofs and `maybe`: types that list fields or tags
//! (`docs/book/language/types.md`), and the classes of their objects.
//!
//! There is no other kind of object behind them. A record or struct has one class, whose instance
//! variables are the fields. A oneof has a class for each tag, with one instance variable for the
//! value, or none if that is `nil`. The common part of all these classes is inherited from one that
//! makes no objects. `maybe[T]` is such a oneof with the tags `none: null` and `some: T`. So
//! constructors are [`Stmt::New`], access is a method call, and `tagcase` is a chain of
//! [`Stmt::TypeIf`] over the classes of the tags. Nothing else knows about tagged types.
//!
//! Classes are made at their first use, while their types may still lack methods that depend on
//! those of the parts; [`complete`] adds the missing ones to both.

use crate::builtin;
use crate::places::Site;
use crate::program::{Body, Class, ClassId, Field, Program};
use crate::stmt::{Block, Const, Func, FuncKind, Operand, Stmt, Var, VarDecl};
use crate::types::{
    Method, MethodRef, Param, SignalSig, Signature, Supertype, TypeDef, TypeId, TypeKind, Types,
};
use smallvec::{SmallVec, smallvec};

/// The methods that tagged types have if their parts have them, in the order in which they are
/// added.
const COMMON: [&str; 5] = ["equal", "similar", "copy", "unparse", "hash"];

/// Returns the heading that a method of [`COMMON`] has in `ty`.
fn common(ty: TypeId, name: &str) -> Signature {
    let argument = Param { name: "x".to_owned(), ty };
    let (params, result) = match name {
        "equal" | "similar" => (vec![argument], Types::BOOL),
        "unparse" => (vec![], Types::STRING),
        "hash" => (vec![], Types::INT),
        _ => (vec![], ty),
    };
    Signature { params, results: vec![result], ..Signature::default() }
}

/// Returns true if a type is one of those of this module.
fn is_tagged(kind: TypeKind) -> bool {
    matches!(kind, TypeKind::Record(_) | TypeKind::Struct(_) | TypeKind::OneOf(_) | TypeKind::Maybe(_))
}

/// Adds to a tagged or routine type the methods that it lacks and that its parts now allow.
pub(crate) fn add_methods(types: &mut Types, ty: TypeId) {
    let def = types.def(ty);
    if def.methods.is_empty() {
        for (name, signature) in accessors(types, ty) {
            add(types, ty, &name, signature);
        }
    }
    let (kind, immutable) = (types.kind(ty), types.def(ty).immutable);
    if !is_tagged(kind) {
        return;
    }
    let parts: Vec<TypeId> = types.structure(ty).iter().flat_map(|s| s.iter()).map(|f| f.ty).collect();
    for name in COMMON {
        let possible = match name {
            "equal" if !immutable => true,
            "hash" if !immutable => false,
            _ => parts.iter().all(|part| builtin::element_method(types, *part, name).is_some()),
        };
        if possible {
            add(types, ty, name, common(ty, name));
        }
    }
}

/// Calls [`add_methods`] for all types from the position `first` on.
pub(crate) fn add_all_methods(types: &mut Types, first: usize) {
    let tagged: Vec<TypeId> =
        types.iter().skip(first).filter(|(_, d)| is_tagged(d.kind)).map(|(id, _)| id).collect();
    for ty in tagged {
        add_methods(types, ty);
    }
}

/// Adds a method unless there is one of that name.
fn add(types: &mut Types, ty: TypeId, name: &str, signature: Signature) {
    if types.find_method(ty, name).is_some() {
        return;
    }
    types.def_mut(ty).methods.push(Method {
        name: name.to_owned(),
        signature,
        stands_for: Vec::new(),
        doc: String::new(),
        builtin: None,
        public: true,
    });
}

/// Returns the methods that a tagged or routine type has whatever its parts are.
fn accessors(types: &mut Types, ty: TypeId) -> Vec<(String, Signature)> {
    let kind = types.kind(ty);
    if let Some(heading) = types.routine_heading(ty) {
        return vec![("call".to_owned(), heading.clone())];
    }
    let wrong_tag = SignalSig { name: types.signal("wrong_tag"), values: Vec::new() };
    let returns = |ty| Signature { results: vec![ty], ..Signature::default() };
    let takes = |ty, results| {
        let params = vec![Param { name: "v".to_owned(), ty }];
        Signature { params, results, ..Signature::default() }
    };
    let checked = |ty| Signature { signals: vec![wrong_tag.clone()], ..returns(ty) };
    let fields = types.structure(ty).map(|s| s.into_owned()).unwrap_or_default();
    let each = |method: &dyn Fn(&Field) -> (String, Signature)| fields.iter().map(method).collect::<Vec<_>>();
    let getters = || each(&|f| (f.name.clone(), returns(f.ty)));
    let mut all = match kind {
        TypeKind::Record(_) | TypeKind::Struct(_) => getters(),
        TypeKind::OneOf(_) => each(&|f| (format!("is_{}", f.name), returns(Types::BOOL))),
        _ => Vec::new(),
    };
    all.extend(match kind {
        TypeKind::Record(_) => each(&|f| (format!("set_{}", f.name), takes(f.ty, vec![]))),
        TypeKind::Struct(_) => each(&|f| (format!("replace_{}", f.name), takes(f.ty, vec![ty]))),
        TypeKind::OneOf(_) => each(&|f| (format!("value_{}", f.name), checked(f.ty))),
        TypeKind::Maybe(some) => vec![
            ("is_some".to_owned(), returns(Types::BOOL)),
            ("is_none".to_owned(), returns(Types::BOOL)),
            ("value".to_owned(), checked(some)),
            ("value_or".to_owned(), takes(some, vec![some])),
        ],
        _ => Vec::new(),
    });
    all
}

/// Gives built-in generic types and tagged types the methods that depend on those of their parts,
/// and the classes of tagged types all their methods. Existing ids stay.
pub fn complete(program: &mut Program) {
    builtin::complete(&mut program.types, 0);
    let tagged: Vec<TypeId> =
        program.types.iter().filter(|(_, d)| is_tagged(d.kind)).map(|(id, _)| id).collect();
    for ty in tagged {
        for class in classes(program, ty) {
            complete_class(program, ty, class);
        }
    }
}

/// Returns the class of the objects of a record or struct, or of the tag at a position of a oneof
/// or `maybe`.
///
/// # Panics
/// For other types, and positions that the type does not have.
pub fn class_of(program: &mut Program, ty: TypeId, tag: usize) -> ClassId {
    let classes = classes(program, ty);
    match program.types.kind(ty) {
        TypeKind::Record(_) | TypeKind::Struct(_) => classes[0],
        _ => classes[1 + tag],
    }
}

/// Returns the class of the tag at a position, if the program has it; see [`class_of`].
pub fn find_class_of(program: &Program, ty: TypeId, tag: usize) -> Option<ClassId> {
    let classes = program.tagged.get(&ty)?;
    let first = usize::from(!matches!(program.types.kind(ty), TypeKind::Record(_) | TypeKind::Struct(_)));
    classes.get(first + tag).copied()
}

/// Returns the tagged type that a class was made for, if it is one of those that [`class_of`]
/// makes.
pub fn type_of_class(program: &Program, class: ClassId) -> Option<TypeId> {
    program.tagged.iter().find(|(_, classes)| classes.contains(&class)).map(|(ty, _)| *ty)
}

/// True if a class is that of a struct, or of a tag of a oneof or `maybe`.
pub(crate) fn is_of_value(program: &Program, class: ClassId) -> bool {
    type_of_class(program, class).is_some_and(|ty| program.types.def(ty).immutable)
}

/// Returns the name of the tag that a class of this name stands for, or the word that its type
/// begins with.
pub fn tag_of(class: &str) -> &str {
    class.rsplit('#').next().unwrap_or_default()
}

/// Returns all classes of a tagged type: that of a record or struct; of a oneof or `maybe` first
/// the one that makes no objects, then those of the tags.
fn classes(program: &mut Program, ty: TypeId) -> Vec<ClassId> {
    if let Some(known) = program.tagged.get(&ty) {
        return known.clone();
    }
    let fields = program.types.structure(ty).expect("a tagged type").into_owned();
    let made = match program.types.kind(ty) {
        TypeKind::Record(_) => vec![add_class(program, ty, "record", None, fields)],
        TypeKind::Struct(_) => vec![add_class(program, ty, "struct", None, fields)],
        kind => {
            let word = if matches!(kind, TypeKind::Maybe(_)) { "maybe" } else { "oneof" };
            let above = add_class(program, ty, word, None, Vec::new());
            let tags = fields.into_iter().map(|field| {
                let name = field.name.clone();
                let fields = if field.ty == Types::NULL { vec![] } else { vec![field] };
                add_class(program, ty, &name, Some(above), fields)
            });
            std::iter::once(above).chain(tags).collect()
        }
    };
    program.tagged.insert(ty, made.clone());
    made
}

/// Returns a class without methods yet.
fn add_class(
    program: &mut Program,
    ty: TypeId,
    tag: &str,
    superclass: Option<ClassId>,
    fields: Vec<Field>,
) -> ClassId {
    let name = format!("{}#{tag}", program.types.name(ty));
    let abstract_class = superclass.is_none() && matches!(tag, "oneof" | "maybe");
    let supertypes = if abstract_class { vec![] } else { vec![Supertype { ty, renames: vec![] }] };
    let id = program.classes.next_key();
    let own = program.types.add(TypeDef {
        name: name.clone(),
        kind: TypeKind::Class(id),
        supertypes,
        methods: Default::default(),
        immutable: program.types.def(ty).immutable,
        actor: false,
        public: false,
        doc: String::new(),
    });
    program.classes.push(Class { name, ty: own, superclass, fields, bodies: vec![], actor: None })
}

/// Adds the methods of `ty` that its class lacks: the lists have the same order.
fn complete_class(program: &mut Program, ty: TypeId, class: ClassId) {
    let def = &program.classes[class];
    let (own, superclass) = (def.ty, def.superclass);
    let above = superclass.map(|up| program.classes[up].ty);
    let implements = !program.types.def(own).supertypes.is_empty();
    let known = program.types.def(own).methods.len();
    let missing: Vec<_> =
        program.types.def(ty).methods.iter().skip(known).map(|(id, m)| (id, m.clone())).collect();
    for (method, mut m) in missing {
        m.stands_for = Vec::new();
        m.stands_for.extend(implements.then_some(MethodRef { ty, method }));
        m.stands_for.extend(above.map(|ty| MethodRef { ty, method }));
        let body = match superclass {
            Some(up) if !is_own(program, ty, class, &m.name) => {
                program.classes[up].bodies[method.as_u32() as usize]
            }
            _ => body_of(program, ty, class, &m),
        };
        program.types.def_mut(own).methods.push(m);
        program.classes[class].bodies.push(body);
    }
}

/// Returns true if the class of a tag has a body of its own for a method, and not that for all
/// other tags.
fn is_own(program: &Program, ty: TypeId, class: ClassId, name: &str) -> bool {
    let tag = tag_of(&program.classes[class].name);
    let of_tag = |prefix: &str| name.strip_prefix(prefix) == Some(tag);
    match program.types.kind(ty) {
        TypeKind::Maybe(_) => of_tag("is_") || tag == "some" && matches!(name, "value" | "value_or"),
        _ => of_tag("is_") || of_tag("value_"),
    }
}

/// Writes the body of a method.
fn body_of(program: &mut Program, ty: TypeId, class: ClassId, method: &Method) -> Body {
    let immutable = program.types.def(ty).immutable;
    let native = match method.name.as_str() {
        _ if method.signature != common(ty, &method.name) || !COMMON.contains(&method.name.as_str()) => None,
        "equal" if !immutable => Some("tagged.same".to_owned()),
        name => Some(format!("tagged.{name}")),
    };
    if let Some(key) = native {
        return Body::Native(program.native(&key));
    }
    let def = &program.classes[class];
    let mut writer = Writer::new(def, &method.name, method.signature.clone());
    match program.types.kind(ty) {
        TypeKind::Record(_) | TypeKind::Struct(_) => writer.access(class, def, &method.name, ty),
        _ => writer.choice(class, def, program.types.find_signal("wrong_tag").expect("of the heading")),
    }
    Body::Func(program.funcs.push(writer.func))
}

/// A method's function.
struct Writer {
    func: Func,
}

impl Writer {
    fn new(class: &Class, name: &str, signature: Signature) -> Writer {
        let receiver = VarDecl { name: "self".to_owned(), ty: class.ty };
        let params = signature.params.iter().map(|p| VarDecl { name: p.name.clone(), ty: p.ty });
        let func = Func {
            name: format!("{}.{name}", class.name),
            kind: FuncKind::Method,
            vars: std::iter::once(receiver).chain(params).collect(),
            signature,
            body: Block::default(),
            procedures: Vec::new(),
            written: crate::places::Written::Nowhere,
        };
        Writer { func }
    }

    fn emit(&mut self, stmt: Stmt) {
        self.func.body.0.push(stmt);
    }

    fn give(&mut self, values: SmallVec<[Operand; 1]>) {
        self.emit(Stmt::Return(values));
    }

    fn get(&mut self, class: ClassId, def: &Class, field: usize) -> Operand {
        let dst = self.func.vars.push(VarDecl { name: String::new(), ty: def.fields[field].ty });
        self.emit(Stmt::Get { dst, object: Var::from_u32(0).into(), class, field: field as u32 });
        dst.into()
    }

    /// Writes a method of a record or struct. Where names clash, the field's own name comes first.
    fn access(&mut self, class: ClassId, def: &Class, name: &str, ty: TypeId) {
        let find = |name: &str| def.fields.iter().position(|f| f.name == name);
        if let Some(field) = find(name) {
            let value = self.get(class, def, field);
            return self.give(smallvec![value]);
        }
        let argument = Operand::Var(Var::from_u32(1));
        if let Some(field) = name.strip_prefix("set_").and_then(find) {
            let object = Var::from_u32(0).into();
            self.emit(Stmt::Set { object, class, field: field as u32, value: argument });
            return self.give(smallvec![]);
        }
        let field = name.strip_prefix("replace_").and_then(find);
        let values = (0..def.fields.len())
            .map(|i| if Some(i) == field { argument } else { self.get(class, def, i) })
            .collect();
        let dst = self.func.vars.push(VarDecl { name: String::new(), ty });
        self.emit(Stmt::New { dst, class, fields: values, site: Site::default() });
        self.give(smallvec![dst.into()]);
    }

    /// Writes a method of a oneof: for the tag of the class, or in the class that the others
    /// inherit from, for all tags that are not theirs.
    fn choice(&mut self, class: ClassId, def: &Class, wrong_tag: crate::SignalId) {
        let name = self.func.name.rsplit('.').next().unwrap_or_default().to_owned();
        let own = def.superclass.is_some();
        if name.starts_with("is_") {
            return self.give(smallvec![Operand::Const(Const::Bool(own))]);
        }
        if own {
            let value = match def.fields.len() {
                0 => Operand::Const(Const::Nil),
                _ => self.get(class, def, 0),
            };
            return self.give(smallvec![value]);
        }
        if name == "value_or" && !self.func.signature.params.is_empty() {
            return self.give(smallvec![Operand::Var(Var::from_u32(1))]);
        }
        self.emit(Stmt::Signal { signal: wrong_tag, values: smallvec![], site: Site::default() });
    }
}

/// Returns the code of the routine `some` or `none` of a `maybe`.
pub(crate) fn maker(program: &mut Program, name: &str, signature: &Signature) -> Func {
    let ty = signature.results[0];
    let class = class_of(program, ty, usize::from(name == "some"));
    let has_value = !program.classes[class].fields.is_empty();
    let mut vars: cranelift_entity::PrimaryMap<Var, VarDecl> =
        signature.params.iter().map(|p| VarDecl { name: p.name.clone(), ty: p.ty }).collect();
    let dst = vars.push(VarDecl { name: String::new(), ty });
    let fields = if has_value { vec![Operand::Var(Var::from_u32(0))] } else { vec![] };
    let made = Stmt::New { dst, class, fields, site: Site::default() };
    Func {
        name: name.to_owned(),
        kind: FuncKind::Routine,
        signature: signature.clone(),
        vars,
        body: Block(vec![made, Stmt::Return(smallvec![dst.into()])]),
        procedures: Vec::new(),
        written: crate::places::Written::Nowhere,
    }
}
