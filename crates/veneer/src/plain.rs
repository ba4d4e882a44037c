//! Values as they are in the client: the types that results, rows and contents come as.
//!
//! [`Plain`] is the trait to read first. A value type of Theta has a plain type of its own (`i64`,
//! `String`). A sequence is a `Vec`, a `maybe` an `Option`; a struct is a generated struct, and a
//! oneof a generated enum. An object that does not cross by value is its stub.

use bifrost_recorder::{Came, Known, Slot};
use bifrost_wire::value::tag;
use bifrost_wire::{Arg, Compound, Ref, Value};

use crate::call::{Reference, Stub};
use crate::live::Live;

/// A type that values come as.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a type that values come as")]
pub trait Plain: Sized + 'static {
    /// Takes the next item, if it has this type.
    #[doc(hidden)]
    fn take(items: &mut Items<'_, '_>) -> Option<Self>;

    /// Returns all items of a compound if they can be had faster than one by one.
    #[doc(hidden)]
    fn take_all(_: &Compound<'_>) -> Option<Vec<Self>> {
        None
    }
}

/// Items that came: those of a compound, the cells of a row, or one value.
pub struct Items<'a, 'm> {
    items: &'m mut dyn Iterator<Item = Arg<'a>>,
    stubs: &'m mut dyn FnMut(Ref) -> Stub,
}

impl std::fmt::Debug for Items<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Items")
    }
}

impl<'a> Items<'a, '_> {
    /// Passes items on.
    pub(crate) fn read<T>(
        items: &mut dyn Iterator<Item = Arg<'a>>,
        stubs: &mut dyn FnMut(Ref) -> Stub,
        take: impl FnOnce(&mut Items<'_, '_>) -> T,
    ) -> T {
        take(&mut Items { items, stubs })
    }

    /// Takes a value.
    pub(crate) fn value(&mut self) -> Option<Value<'a>> {
        match self.items.next()? {
            Arg::Value(value) => Some(value),
            Arg::Ref(_) => None,
        }
    }

    /// Takes an object.
    pub fn object<T: Reference>(&mut self) -> Option<T> {
        match self.items.next()? {
            Arg::Ref(handle) => Some(T::from_stub((self.stubs)(handle))),
            Arg::Value(_) => None,
        }
    }

    /// Takes a compound: `take` must take all its items.
    pub fn within<T>(&mut self, take: impl FnOnce(&mut Items<'_, '_>) -> Option<T>) -> Option<T> {
        let Some(Value::Compound(compound)) = self.value() else { return None };
        let mut items = compound.iter();
        let taken = take(&mut Items { items: &mut items, stubs: self.stubs })?;
        items.next().is_none().then_some(taken)
    }
}

macro_rules! values {
    ($($ty:ty, $pattern:pat => $value:expr $(, $tag:ident $from:expr)?;)*) => {$(
        impl Plain for $ty {
            fn take(items: &mut Items<'_, '_>) -> Option<Self> {
                match items.value()? {
                    $pattern => Some($value),
                    _ => None,
                }
            }

            $(
                fn take_all(compound: &Compound<'_>) -> Option<Vec<Self>> {
                    Some(compound.words(tag::$tag)?.map($from).collect())
                }
            )?
        }
    )*};
}

values! {
    (), Value::Nil => ();
    bool, Value::Bool(b) => b;
    i64, Value::Int(i) => i, INT |word| word as i64;
    f64, Value::Real(r) => r, REAL f64::from_bits;
    char, Value::Char(c) => c;
    String, Value::Str(s) => s.to_owned();
    Vec<u8>, Value::Bytes(b) => b.to_owned();
}

impl<T: Plain> Plain for Vec<T> {
    fn take(items: &mut Items<'_, '_>) -> Option<Self> {
        let Some(Value::Compound(compound)) = items.value() else { return None };
        if let Some(all) = T::take_all(&compound) {
            return Some(all);
        }
        let mut inner = compound.iter();
        let mut all = Vec::with_capacity(inner.len());
        while inner.len() > 0 {
            all.push(T::take(&mut Items { items: &mut inner, stubs: items.stubs })?);
        }
        Some(all)
    }
}

impl<T: Plain> Plain for Option<T> {
    fn take(items: &mut Items<'_, '_>) -> Option<Self> {
        items.within(|items| match i64::take(items)? {
            0 => <()>::take(items).map(|()| None),
            1 => T::take(items).map(Some),
            _ => None,
        })
    }
}

/// Takes a value that came, if it has this type. Nothing if the slot has no value.
pub(crate) fn take_value<T: Plain>(live: &mut Live, stub: &Stub) -> Option<T> {
    if let Known::Value(value) = live.recorder.known(stub.slot)
        && !matches!(value, Value::Compound(_))
    {
        let mut none = |_| stub.clone();
        return T::take(&mut Items { items: &mut std::iter::once(Arg::Value(value)), stubs: &mut none });
    }
    let core = &stub.core;
    let taken = live.recorder.read_items(stub.slot, |came, slots| {
        let Came::Compound(compound) = came else { return None };
        let mut stubs = |handle| Stub { core: core.clone(), slot: slots(handle) };
        let mut items = std::iter::once(Arg::Value(Value::Compound(compound)));
        T::take(&mut Items { items: &mut items, stubs: &mut stubs })
    });
    taken.flatten()
}

/// Takes the rows of a table that came, if they have this type.
pub(crate) fn take_rows<T: Plain>(live: &mut Live, stub: &Stub) -> Option<Vec<T>> {
    let core = &stub.core;
    let taken = live.recorder.read_items(stub.slot, |came, slots: &mut dyn FnMut(Ref) -> Slot| {
        let Came::Rows(table) = came else { return None };
        let mut stubs = |handle| Stub { core: core.clone(), slot: slots(handle) };
        let mut cells = table.args();
        let mut rows = Vec::with_capacity(table.len() as usize);
        for _ in 0..table.len() {
            rows.push(T::take(&mut Items { items: &mut cells, stubs: &mut stubs })?);
        }
        cells.next().is_none().then_some(rows)
    });
    taken.flatten()
}
