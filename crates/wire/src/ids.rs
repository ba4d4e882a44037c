//! References and the numbers of things.

use serde::{Deserialize, Serialize};

/// A reference as it crosses: a handle, a future, or none.
///
/// Handles are positive and chosen by the session: the slot in the low 32 bits, the slot's
/// generation above. A client treats them as opaque. Futures are negative: `-n` is the n-th result
/// of the batch, and with a number of batches in the bits above its low 32 it is a result of an
/// [earlier](Earlier) one. Zero is no reference; as receiver or argument it stands for a stub whose
/// call is known to have failed (the *error handle* of Bogle and Liskov 1994, 7.1).
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

    /// Returns the future of an earlier batch.
    #[inline]
    pub const fn earlier(earlier: Earlier) -> Ref {
        Ref(-(((earlier.back as i64) << 32) | earlier.position as i64))
    }

    /// Returns the result of an earlier batch that this is.
    #[inline]
    pub const fn as_earlier(self) -> Option<Earlier> {
        let number = self.0.unsigned_abs();
        let (back, position) = (number >> 32, number as u32);
        if self.0 >= 0 || back == 0 || back > u8::MAX as u64 || position == 0 {
            return None;
        }
        Some(Earlier { back: back as u8, position })
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

/// A result of a batch that was flushed before, as a later batch names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Earlier {
    /// The number of batches back: 1 for the batch before.
    pub back: u8,
    /// Its position in that batch, from 1.
    pub position: u32,
}

impl std::fmt::Display for Earlier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.back {
            1 => write!(f, "-{} of the batch before", self.position),
            n => write!(f, "-{} of {n} batches before", self.position),
        }
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
    /// The number that a client has given to a module.
    ModuleNumber;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_a_handle_a_future_or_a_result_of_an_earlier_batch() {
        for (back, position) in [(1, 1), (16, 7), (255, u32::MAX), (1, u32::MAX)] {
            let earlier = Earlier { back, position };
            let reference = Ref::earlier(earlier);
            assert_eq!(reference.as_earlier(), Some(earlier));
            assert_eq!((reference.position(), reference.is_handle()), (None, false));
        }
        for reference in
            [Ref::NONE, Ref(5), Ref::future(1), Ref::future(u32::MAX), Ref(-(1 << 32)), Ref(i64::MIN)]
        {
            assert_eq!(reference.as_earlier(), None, "{reference:?}");
        }
    }
}
