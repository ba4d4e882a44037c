//! The entries of a map in the order of their keys' coming: the walk over them, and room for those
//! of a map that is loaded. The index that finds them by hash is in `natives/map.rs`, with the
//! picture of all parts.

use bifrost_heap::HeapFull;
use bifrost_ir::{TypeId, TypeKind};

use crate::abi::Word;
use crate::cx::Cx;
use crate::image::Table;
use crate::object::{self, map::*};

/// Entries that the index can number.
pub(crate) const ENTRIES_MAX: usize = u32::MAX as usize / 2;

/// Words of `META` for an entry.
pub(crate) const META_WORDS: usize = 2;

/// Words of `ENTRIES` for an entry.
pub(crate) const ENTRY_WORDS: usize = 2;

pub(crate) fn get(this: Word, field: usize) -> Word {
    // SAFETY: receivers and arguments of these methods are maps by their headings.
    unsafe { object::get(this, field) }
}

pub(crate) fn set(this: Word, field: usize, value: Word) {
    // SAFETY: as in `get`; the callers keep the fields' meaning.
    unsafe { object::set(this, field, value) }
}

/// A field of one of the map's inner objects.
pub(crate) fn inner(this: Word, field: usize, at: usize) -> Word {
    // SAFETY: the map has entries, and `at` belongs to one of them.
    unsafe { object::get(get(this, field), at) }
}

pub(crate) fn set_inner(this: Word, field: usize, at: usize, value: Word) {
    // SAFETY: as in `inner`.
    unsafe { object::set(get(this, field), at, value) }
}

/// The number of entries for which there is room.
pub(crate) fn room(this: Word) -> usize {
    match get(this, ENTRIES) {
        0 => 0,
        // SAFETY: what is not 0 is a reference.
        entries => unsafe { object::fields(entries) / ENTRY_WORDS },
    }
}

/// True if the key of an entry was not removed.
pub(crate) fn is_there(this: Word, entry: usize) -> bool {
    inner(this, META, META_WORDS * entry + 1) & 1 == 1
}

/// The key of an entry.
pub(crate) fn key_at(this: Word, entry: usize) -> Word {
    inner(this, ENTRIES, ENTRY_WORDS * entry)
}

/// The value of an entry.
pub(crate) fn value_at(this: Word, entry: usize) -> Word {
    inner(this, ENTRIES, ENTRY_WORDS * entry + 1)
}

/// The types of keys and values.
pub(crate) fn types_of(cx: &Cx, this: Word) -> (TypeId, TypeId) {
    // SAFETY: the receiver is a map.
    let ty = unsafe { Table::of(this) }.info().ty;
    match cx.image().program().types.kind(ty) {
        TypeKind::Map(key, value) => (key, value),
        _ => (ty, ty),
    }
}

/// Makes room for so many entries in a map that has none, and says that they are there: the keys
/// and values are to be put into `ENTRIES`, and the index is made when the map is first searched.
///
/// # Errors
/// [`HeapFull`]
pub fn prepare_map(cx: &mut Cx, this: Word, count: usize) -> Result<(), HeapFull> {
    if count > ENTRIES_MAX {
        return Err(HeapFull::of_heap(cx.limits().heap_bytes));
    }
    let (key_type, value_type) = types_of(cx, this);
    if count > 0 {
        let meta = cx.alloc(cx.image().data_table(), META_WORDS * count)?.as_ptr() as Word;
        for entry in 0..count {
            // SAFETY: the object was just made with room for that many.
            unsafe { object::set(meta, META_WORDS * entry + 1, (entry as Word + 1) << 1 | 1) };
        }
        let _meta = cx.keep(meta);
        let pairs = cx.image().pairs_table(key_type, value_type);
        let entries = cx.alloc(pairs, ENTRY_WORDS * count)?.as_ptr() as Word;
        set(this, META, meta);
        set(this, ENTRIES, entries);
    }
    for field in [LENGTH, USED, NEXT_STAMP] {
        set(this, field, count as Word);
    }
    Ok(())
}

/// The position of a loop over a map.
#[derive(Default, Debug)]
pub struct MapEntries {
    /// The next place to look at, in this epoch.
    pub(crate) place: usize,
    pub(crate) epoch: Word,
    /// The stamp of the last entry that was seen.
    pub(crate) stamp: Word,
}

impl MapEntries {
    /// The next key and its value.
    pub fn next(&mut self, this: Word) -> Option<(Word, Word)> {
        let used = get(this, USED) as usize;
        if self.epoch != get(this, EPOCH) {
            self.epoch = get(this, EPOCH);
            self.place = first_after(this, used, self.stamp);
        }
        while self.place < used && !is_there(this, self.place) {
            self.place += 1;
        }
        if self.place >= used {
            return None;
        }
        let entry = self.place;
        self.place += 1;
        self.stamp = inner(this, META, META_WORDS * entry + 1) >> 1;
        Some((key_at(this, entry), value_at(this, entry)))
    }
}

/// The place of the first entry with a greater stamp.
pub(crate) fn first_after(this: Word, used: usize, stamp: Word) -> usize {
    let (mut low, mut high) = (0, used);
    while low < high {
        let middle = low.midpoint(high);
        if inner(this, META, META_WORDS * middle + 1) >> 1 > stamp { high = middle } else { low = middle + 1 }
    }
    low
}
