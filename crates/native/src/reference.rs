//! Objects of the program that Rust holds: [`Any`] and [`Ref`].
//!
//! A holder of one keeps the object alive: a variable of a native, the value behind an object of a
//! native class, or a variable on another thread. So two objects that hold each other are never
//! freed.
//!
//! A reference says nothing about the context of its object, so each is checked where it goes back
//! into the program. It must come from the same running program, and its object must have the type
//! that is expected.

use std::marker::PhantomData;
use std::sync::Arc;

use bifrost_ir::native::{self, NativeType};
use bifrost_ir::{TypeId, Types, boxed};
use bifrost_runtime::abi::Word;
use bifrost_runtime::cx::Poll;
use bifrost_runtime::{Object, Ret, Root, object};

use crate::call::{self, Arguments, Raised, Returned};
use crate::cx::Cx;
use crate::value::{Alive, Argument, Given, Owned, Value};

/// An object of any type; two are equal if they are the same object. (A basic value stands in an
/// object of its own, and another time in another.)
#[derive(Clone, Debug)]
pub struct Any {
    root: Root,
    /// Tells contexts apart: an address of another heap must not get into this one.
    home: Arc<Poll>,
}

impl PartialEq for Any {
    fn eq(&self, other: &Any) -> bool {
        self.root.word() == other.root.word() && Arc::ptr_eq(&self.home, &other.home)
    }
}

impl Eq for Any {}

impl Any {
    /// Holds an object of this context.
    pub(crate) fn new(cx: &mut Cx<'_>, object: Object) -> Any {
        Any { root: cx.raw.root(object.word()), home: cx.raw.poll().clone() }
    }

    /// Returns the object if it is one of this context.
    fn here(&self, cx: &Cx<'_>) -> Option<Alive<'_>> {
        // SAFETY: `new` was given an object, which the root keeps as long as `self` lives.
        let object = || unsafe { Alive::new(Object::new(self.root.word())) };
        Arc::ptr_eq(&self.home, cx.raw.poll()).then(object)
    }

    /// Returns the object if it is one of this context. It lives as long as `self`.
    pub(crate) fn object(&self, cx: &mut Cx<'_>) -> Result<Object, Ret> {
        match self.here(cx) {
            Some(alive) => Ok(alive.object()),
            None => Err(cx.raw.failure("this object belongs to another running program")),
        }
    }

    /// Returns the object's word if it has the type.
    pub(crate) fn word_of(&self, cx: &mut Cx<'_>, ty: TypeId) -> Result<Word, Ret> {
        let object = self.object(cx)?;
        if object.info().has_type(ty) {
            return Ok(object.word());
        }
        let text = format!("this object is no `{}`", cx.raw.image().program().types.name(ty));
        Err(cx.raw.failure(&text))
    }

    /// Returns the object as one of a type that it has.
    pub(crate) fn typed<T: ObjectType>(&self, cx: &mut Cx<'_>) -> Option<Ref<T>> {
        let info = self.object(cx).ok()?.info();
        let program = cx.raw.image().program();
        let mut types = program.types.iter().map(|(ty, _)| ty).filter(|ty| info.has_type(*ty));
        let ty = types.find(|ty| native::fits(program, &NativeType::Named(T::NAME), *ty, false))?;
        Some(Ref { any: self.clone(), ty, of: PhantomData })
    }

    /// Returns the object as something more special: as `Text` if it is a string, as `i64` if it
    /// stands for an integer, as [`Ref`] of a type that it has. `None` if it is no such thing.
    pub fn get<T: Owned>(&self, cx: &mut Cx<'_>) -> Option<T> {
        let alive = self.here(cx)?;
        let word = alive.object().word();
        let info = alive.object().info();
        let (image, wanted) = (cx.raw.image().clone(), T::native_type());
        let program = image.program();
        if let Some(held) = info.boxed {
            if !native::fits(program, &wanted, held, false) {
                return None;
            }
            crate::value::open(cx, alive).ok()?;
            // SAFETY: the object is one of a class of boxed values, of the type that the Rust type
            // fits.
            let given = unsafe { Given::new(object::get(word, boxed::VALUE as usize), held) };
            return T::take(cx, given).ok();
        }
        let mut types = program.types.iter().map(|(ty, _)| ty).filter(|ty| info.has_type(*ty));
        let ty = types.find(|ty| native::fits(program, &wanted, *ty, false))?;
        // SAFETY: the object has the type, which the Rust type fits; what is taken keeps what it
        // needs.
        T::take(cx, unsafe { Given::new(word, ty) }).ok()
    }
}

impl<'a> Argument<'a> for Any {
    fn native_type() -> NativeType {
        NativeType::Plain(Types::ANY)
    }

    fn take(cx: &mut Cx<'_>, given: Given<'a, Self>) -> Result<Self, Ret> {
        // SAFETY: values of `any` are objects.
        Ok(Any::new(cx, unsafe { given.alive() }.object()))
    }
}

impl Owned for Any {}

impl Value for Any {
    const TYPED: bool = true;

    fn native_type() -> NativeType {
        NativeType::Plain(Types::ANY)
    }

    fn give(self, cx: &mut Cx<'_>, ty: TypeId) -> Result<Word, Ret> {
        self.word_of(cx, ty)
    }
}

/// Names a type of the program, so that natives can have objects of it: `gauge`, or `array[int]`.
///
/// ```
/// use bifrost_native::ObjectType;
///
/// /// `gauge = type … end gauge`
/// struct Gauge;
///
/// impl ObjectType for Gauge {
///     const NAME: &'static str = "gauge";
/// }
/// ```
pub trait ObjectType: 'static {
    /// The name as diagnostics write it.
    const NAME: &'static str;
}

/// An object of the type that `T` names; two are equal if they are the same object.
pub struct Ref<T> {
    any: Any,
    ty: TypeId,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Ref<T> {
    fn clone(&self) -> Self {
        Ref { any: self.any.clone(), ty: self.ty, of: PhantomData }
    }
}

impl<T> PartialEq for Ref<T> {
    fn eq(&self, other: &Ref<T>) -> bool {
        self.any == other.any
    }
}

impl<T> Eq for Ref<T> {}

impl<T> std::fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ref").field(&self.any.root.word()).finish()
    }
}

impl<T> From<Ref<T>> for Any {
    fn from(object: Ref<T>) -> Any {
        object.any
    }
}

impl<T: ObjectType> Ref<T> {
    /// Calls a method of the object: `gauge.call(cx, "fill", (5,))`.
    ///
    /// # Errors
    /// The exception of the method; `failure` if the type has no such method with such a heading.
    pub fn call<A: Arguments, R: Returned>(
        &self,
        cx: &mut Cx<'_>,
        method: &str,
        args: A,
    ) -> Result<R, Raised> {
        call::method(cx, &self.any, self.ty, method, args)
    }
}

impl<'a, T: ObjectType> Argument<'a> for Ref<T> {
    const TYPED: bool = true;

    fn native_type() -> NativeType {
        NativeType::Named(T::NAME)
    }

    fn take(cx: &mut Cx<'_>, given: Given<'a, Self>) -> Result<Self, Ret> {
        // SAFETY: the types that have names for natives are those of objects.
        let object = unsafe { given.alive() }.object();
        Ok(Ref { any: Any::new(cx, object), ty: given.ty(), of: PhantomData })
    }
}

impl<T: ObjectType> Owned for Ref<T> {}

impl<T: ObjectType> Value for Ref<T> {
    const TYPED: bool = true;

    fn native_type() -> NativeType {
        NativeType::Named(T::NAME)
    }

    fn give(self, cx: &mut Cx<'_>, ty: TypeId) -> Result<Word, Ret> {
        self.any.word_of(cx, ty)
    }
}
