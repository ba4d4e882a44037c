//! Shapes: the fields of an object that are references.

use std::fmt;

use crate::Word;

/// Frees the things that an object owns outside the heap. Called with the object's address, once,
/// when nothing refers to the object any more or when the heap goes. It may use no other object:
/// those may be gone already.
pub type Finalizer = unsafe fn(object: *mut Word);

/// The fields of the objects of a table that are references. The first word of a table is the
/// address of its shape.
#[repr(C)]
#[derive(Clone, Default)]
pub struct Shape {
    /// A bit for each of the first 64 fields that is one.
    first: u64,
    /// From this field on all are references; 0 if none are, otherwise the field's number and 1.
    tail: u32,
    /// Only every second field of the tail is a reference.
    second: bool,
    /// The reference fields from the 64th on.
    more: Box<[u32]>,
    finalizer: Option<Finalizer>,
}

impl Shape {
    /// The shape of objects without references.
    pub fn leaf() -> Shape {
        Shape::default()
    }

    /// The shape of objects in which exactly these fields are references.
    pub fn of(references: impl IntoIterator<Item = u32>) -> Shape {
        let mut shape = Shape::default();
        let mut more = Vec::new();
        for field in references {
            match field {
                0..64 => shape.first |= 1 << field,
                _ => more.push(field),
            }
        }
        more.sort_unstable();
        shape.more = more.into();
        shape
    }

    /// The shape of objects in which all fields from this one on are references, and no others.
    pub fn tail_from(field: u32) -> Shape {
        Shape { tail: field + 1, ..Shape::default() }
    }

    /// The shape of objects in which this field and every second one behind it are references, and
    /// no others.
    pub fn every_second_from(field: u32) -> Shape {
        Shape { second: true, ..Shape::tail_from(field) }
    }

    /// The same with a finalizer.
    #[must_use]
    pub fn with_finalizer(self, finalizer: Finalizer) -> Shape {
        Shape { finalizer: Some(finalizer), ..self }
    }

    /// The function that frees the objects' belongings.
    pub fn finalizer(&self) -> Option<Finalizer> {
        self.finalizer
    }

    /// True if no field is a reference.
    #[inline]
    pub fn is_leaf(&self) -> bool {
        self.first == 0 && self.tail == 0 && self.more.is_empty()
    }

    /// The fields of an object with so many that are references.
    pub fn references(&self, fields: usize) -> impl Iterator<Item = usize> + '_ {
        let tail = self.tail().map_or(fields..fields, |from| from..fields);
        self.fixed().chain(tail.step_by(self.step()))
    }

    /// The first field from this one on that is a reference, of an object with so many fields.
    pub(crate) fn next_reference(&self, from: usize, fields: usize) -> Option<usize> {
        let first = if from < 64 { self.first & u64::MAX << from } else { 0 };
        if first != 0 {
            return Some(first.trailing_zeros() as usize);
        }
        let more = self.more.partition_point(|field| (*field as usize) < from);
        if let Some(field) = self.more.get(more) {
            return Some(*field as usize);
        }
        let tail = self.tail()?;
        let next = tail + from.saturating_sub(tail).next_multiple_of(self.step());
        (next < fields).then_some(next)
    }

    /// The first field from which on all are references.
    #[inline]
    pub(crate) fn tail(&self) -> Option<usize> {
        (self.tail as usize).checked_sub(1)
    }

    /// The distance in the tail from one reference to the next.
    #[inline]
    pub(crate) fn step(&self) -> usize {
        1 + usize::from(self.second)
    }

    /// The fields outside the tail that are references. Every object of the shape has them.
    #[inline]
    pub(crate) fn fixed(&self) -> impl Iterator<Item = usize> + '_ {
        let mut bits = self.first;
        let first = std::iter::from_fn(move || {
            let field = bits.trailing_zeros();
            (bits != 0).then(|| {
                bits &= bits - 1;
                field as usize
            })
        });
        first.chain(self.more.iter().map(|field| *field as usize))
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shape")
            .field("references", &self.fixed().collect::<Vec<_>>())
            .field("tail", &self.tail())
            .field("second", &self.second)
            .field("finalized", &self.finalizer.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_on_both_sides_of_the_bitmap() {
        let shape = Shape::of([0, 3, 63, 64, 200]);
        assert_eq!(shape.fixed().collect::<Vec<_>>(), [0, 3, 63, 64, 200]);
        assert_eq!(shape.tail(), None);
        assert!(!shape.is_leaf() && Shape::leaf().is_leaf());
        let shape = Shape::tail_from(1);
        assert_eq!((shape.fixed().count(), shape.tail(), shape.is_leaf()), (0, Some(1), false));
        let shape = Shape::every_second_from(1);
        assert_eq!(shape.references(6).collect::<Vec<_>>(), [1, 3, 5]);
        let one_by_one = |shape: &Shape, fields: usize| -> Vec<usize> {
            let next = |from: usize| shape.next_reference(from, fields);
            std::iter::successors(next(0), |last| next(last + 1)).collect()
        };
        for shape in [shape, Shape::tail_from(1), Shape::of([0, 3, 63, 64, 200]), Shape::leaf()] {
            assert_eq!(one_by_one(&shape, 201), shape.references(201).collect::<Vec<_>>());
        }
    }
}
