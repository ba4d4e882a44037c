//! Values that are made of parts: `Option`, and the types with the attributes `Struct` and `OneOf`.
//!
//! An object of such a type is one of an ordinary class (`bifrost_ir::tagged`). Its instance
//! variables are the parts, and its name says which tag it stands for.

use bifrost_ir::native::NativeType;
use bifrost_ir::{TypeId, Types, tagged};
use bifrost_runtime::abi::Word;
use bifrost_runtime::{Ret, Table, object};

use crate::cx::Cx;
use crate::glue::{Frame, Giver};
use crate::value::{Argument, Owned, Value, element_of, keep};

/// Returns the position of the tag that an object of a oneof or `maybe` has.
///
/// # Safety
/// `word` refers to an object of the type `ty`.
pub unsafe fn tag(cx: &mut Cx<'_>, word: Word, ty: TypeId) -> usize {
    // SAFETY: promised by the caller.
    let name = tagged::tag_of(&unsafe { Table::of(word) }.info().name);
    let tags = cx.raw.image().program().types.structure(ty).unwrap_or_default();
    tags.iter().position(|tag| tag.name == name).unwrap_or(tags.len())
}

/// Returns a field of an object of a record or struct, or the value of a tag. `at` is its position
/// among those of the type, and `field` that among those of the object.
///
/// # Errors
/// The way in which the call ends instead.
///
/// # Safety
/// `word` refers to an object of the type `ty` that has the field, which `T` fits; it lives as long
/// as the frame.
pub unsafe fn part<'a, T: Argument<'a>>(
    cx: &mut Cx<'_>,
    frame: &'a Frame,
    word: Word,
    ty: TypeId,
    (at, field): (usize, usize),
) -> Result<T, Ret> {
    let types = &cx.raw.image().program().types;
    let ty = types.structure(ty).and_then(|parts| Some(parts.get(at)?.ty)).unwrap_or(Types::ANY);
    // SAFETY: promised by the caller; there is no field for the value `nil` of a tag.
    unsafe {
        crate::value::open(cx, word)?;
        let value = if field < object::fields(word) { object::get(word, field) } else { 0 };
        T::take(cx, frame, value, ty)
    }
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

    unsafe fn take(cx: &mut Cx<'_>, frame: &'a Frame, word: Word, ty: TypeId) -> Result<Self, Ret> {
        // SAFETY: promised by the caller.
        unsafe {
            if tag(cx, word, ty) != SOME {
                return Ok(None);
            }
            part(cx, frame, word, ty, (SOME, 0)).map(Some)
        }
    }
}

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
