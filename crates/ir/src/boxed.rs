//! Basic values where an `any` is wanted (`docs/book/language/types.md`): objects that hold them.
//!
//! The word of a basic value does not show its type, so it is put into an object of a class of its
//! type, `int#box`. That class has one instance variable, no methods and no type above it. To box
//! is a [`Stmt::New`](crate::Stmt::New), to find out and unbox a
//! [`Stmt::TypeIf`](crate::Stmt::TypeIf) and a [`Stmt::Get`](crate::Stmt::Get). Nobody sees the
//! objects' identity: `same_object` compares their values.

use crate::program::{Class, ClassId, Field, Program};
use crate::types::{TypeDef, TypeId, TypeKind};

/// The position of the value among the instance variables.
pub const VALUE: u32 = 0;

/// Returns the class of the objects that hold values of a basic type, made at its first use.
///
/// # Panics
/// For a type that is not basic.
pub fn class_of(program: &mut Program, ty: TypeId) -> ClassId {
    assert!(program.types.kind(ty).is_basic(), "only basic values are boxed");
    if let Some(class) = program.boxes.get(&ty) {
        return *class;
    }
    let id = program.classes.next_key();
    let name = format!("{}#box", program.types.name(ty));
    let own = program.types.add(TypeDef {
        name: name.clone(),
        kind: TypeKind::Class(id),
        supertypes: vec![],
        methods: Default::default(),
        immutable: true,
        actor: false,
        public: false,
        doc: String::new(),
    });
    let fields = vec![Field { name: "value".to_owned(), ty }];
    program.classes.push(Class { name, ty: own, superclass: None, fields, bodies: vec![], actor: None });
    program.boxes.insert(ty, id);
    id
}

/// Returns the basic type whose values the objects of a class hold, if it is such a class.
pub fn held(program: &Program, class: ClassId) -> Option<TypeId> {
    program.boxes.iter().find(|(_, boxed)| **boxed == class).map(|(ty, _)| *ty)
}
