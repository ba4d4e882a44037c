//! References and the numbers of things.

use serde::{Deserialize, Serialize};

/// A reference as it crosses: a handle, a future, or none.
///
/// Handles are positive and chosen by the session: the slot in the low 32 bits, the slot's
/// generation above. A client treats them as opaque. Futures are negative: `-n` is the n-th result
/// of the batch. Zero is no reference; as receiver or argument it stands for a stub whose call is
/// known to have failed (the *error handle* of Bogle and Liskov 1994, 7.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
#[repr(transparent)]
pub struct Ref(pub i64);

impl Ref {
    /// No reference.
    pub const NONE: Ref = Ref(0);

    /// Returns the handle of a slot.
    #[inline]
    pub const fn handle(slot: u32, generation: u32) -> Ref {
        // The generation keeps 31 bits, so that the handle stays positive.
        Ref((((generation & 0x7fff_ffff) as i64) << 32) | slot as i64)
    }

    /// Returns the future at a position; positions count from 1.
    #[inline]
    pub const fn future(position: u32) -> Ref {
        Ref(-(position as i64))
    }

    /// Returns true if this is a handle.
    #[inline]
    pub const fn is_handle(self) -> bool {
        self.0 > 0
    }

    /// Returns the slot of a handle: its low 32 bits.
    #[inline]
    pub const fn slot(self) -> u32 {
        self.0 as u32
    }

    /// Returns the generation of a handle: the bits above its slot.
    #[inline]
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the position of a future, from 1; none for handles, for zero, and for numbers below
    /// any batch's.
    #[inline]
    pub const fn position(self) -> Option<u32> {
        if self.0 < 0 && self.0 >= -(u32::MAX as i64) { Some((-self.0) as u32) } else { None }
    }
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the number as an index.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

numbers! {
    /// The position of a type in the interface description.
    TypeNumber;
    /// The position of a (type, method) pair in the interface description, counted over all types.
    MethodNumber;
    /// The position of a routine in the interface description.
    RoutineNumber;
    /// The position of a batched procedure among those that the session defined, from 0. A
    /// procedure defined again under the same name gets a new number.
    ProcedureNumber;
}

impl TypeNumber {
    /// Stands for "no type" where one may be absent.
    pub const NONE: TypeNumber = TypeNumber(u32::MAX);

    /// Returns the type, unless this is [`TypeNumber::NONE`].
    #[inline]
    pub const fn known(self) -> Option<TypeNumber> {
        if self.0 == u32::MAX { None } else { Some(self) }
    }
}
