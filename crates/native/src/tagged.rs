//! Values that are made of parts: `Option`, and the types with the attributes `Struct` and `OneOf`.
//!
//! An object of such a type is one of an ordinary class (`bifrost_ir::tagged`). Its instance
//! variables are the parts, and its name says which tag it stands for.

use bifrost_ir::native::NativeType;
use bifrost_ir::{TypeId, Types, tagged};
use bifrost_runtime::abi::Word;
use bifrost_runtime::{Ret, object};

use crate::cx::Cx;
use crate::glue::Giver;
use crate::value::{Argument, Given, Owned, Value, element_of, keep};

/// A Rust type that stands for a record, a struct, a oneof or a `maybe`.
///
/// # Safety
/// [`native_type`](Argument::native_type) is such a type.
pub unsafe trait Structured {}

/// Returns the position of the tag that an object of a oneof or `maybe` has.
pub fn tag<T: Structured>(cx: &mut Cx<'_>, given: Given<'_, T>) -> usize {
    // SAFETY: values of such a type are objects.
    let object = unsafe { given.alive() }.object();
    let name = tagged::tag_of(&object.info().name);
    let tags = cx.raw.image().program().types.structure(given.ty()).unwrap_or_default();
    tags.iter().position(|tag| tag.name == name).unwrap_or(tags.len())
}

/// Returns a field of an object of a record or struct, or the value of a tag. `at` is its position
/// among those of the type, and `field` that among those of the object.
///
/// # Errors
/// The way in which the call ends instead.
///
/// # Safety
/// The object has the field, or none for the value `nil` of a tag, and `P` fits it.
pub unsafe fn part<'a, T: Structured, P: Argument<'a>>(
    cx: &mut Cx<'_>,
    given: Given<'a, T>,
    (at, field): (usize, usize),
) -> Result<P, Ret> {
    let types = &cx.raw.image().program().types;
    let ty = types.structure(given.ty()).and_then(|parts| Some(parts.get(at)?.ty)).unwrap_or(Types::ANY);
    // SAFETY: values of such a type are objects.
    let alive = unsafe { given.alive() };
    crate::value::open(cx, alive)?;
    let object = alive.object();
    // SAFETY: the field is one of the object's.
    let value = if field < object.fields() { unsafe { object::get(object.word(), field) } } else { 0 };
    // SAFETY: promised by the caller; parts live as long as the object.
    P::take(cx, unsafe { Given::new(value, ty) })
}

/// Makes a new object of a record or struct, or of a tag of a oneof or `maybe`, with these parts.
///
/// # Errors
/// The way in which the call ends instead: memory is used up.
pub fn new_object(cx: &mut Cx<'_>, ty: TypeId, tag: usize, parts: Vec<Giver<'_>>) -> Result<Word, Ret> {
    let image = cx.raw.image().clone();
    let program = image.program();
    let Some(class) = tagged::find_class_of(program, ty, tag) else {
        return Err(cx.raw.failure(&format!("internal error: `{}` has no classes", program.types.name(ty))));
    };
    if let Some(object) = image.lasting(class) {
        return Ok(object);
    }
    let def = &program.classes[class];
    let mut words = Vec::new();
    let mut kept = Vec::new();
    for (field, part) in def.fields.iter().zip(parts) {
        let word = part(cx, field.ty)?;
        words.push(word);
        kept.push(keep(cx, field.ty, word));
    }
    cx.raw.new_object(image.table_of(def.ty), &words).map_err(|full| cx.raw.out_of_memory(full))
}

/// The position of `some` among the tags of `maybe`.
const SOME: usize = 1;

impl<'a, T: Argument<'a>> Argument<'a> for Option<T> {
    const TYPED: bool = true;

    fn native_type() -> NativeType {
        NativeType::Maybe(Box::new(T::native_type()))
    }

    fn take(cx: &mut Cx<'_>, given: Given<'a, Self>) -> Result<Self, Ret> {
        if tag(cx, given) != SOME {
            return Ok(None);
        }
        // SAFETY: the object of this tag has the value in its only field.
        unsafe { part(cx, given, (SOME, 0)) }.map(Some)
    }
}

// SAFETY: it is a `maybe`.
unsafe impl<T> Structured for Option<T> {}

impl<T: Owned> Owned for Option<T> {}

impl<T: Value> Value for Option<T> {
    const TYPED: bool = true;

    fn native_type() -> NativeType {
        NativeType::Maybe(Box::new(T::native_type()))
    }

    fn give(self, cx: &mut Cx<'_>, ty: TypeId) -> Result<Word, Ret> {
        match self {
            None => new_object(cx, ty, 0, Vec::new()),
            Some(value) => {
                let element = element_of(cx, ty)?;
                new_object(cx, ty, SOME, vec![Box::new(move |cx, _| value.give(cx, element))])
            }
        }
    }
}
