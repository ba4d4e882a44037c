//! Methods of `map[K, V]`: a table of entries in the order in which they came, and an index over it.
//!
//! ```text
//! map      LENGTH  USED  NEXT_STAMP  EPOCH  INDEX  META  ENTRIES
//! INDEX    data: slots of 32 bits, a power of two of them, at most half of them in use: the number of an entry and 1, above it as
//!          many bits of its hash as there is room for; or 0. The first slot of a key is given by the low bits of its
//!          hash, the next ones follow
//! META     data: for each entry its hash, and its stamp shifted left by one with the lowest bit set while it is there
//! ENTRIES  pairs: the key and the value of each entry
//! ```
//!
//! A search reads the index and the entry that it finds, each a line of the processor's cache as a rule; slots of other keys
//! are passed by the bits of their hashes, and `META` is left alone. The slot of a key that is removed keeps its place.
//!
//! An entry whose key is removed keeps its place until the entries are gathered anew, which is when there is no room
//! left. Stamps grow with the entries' places, so a loop finds its way back after that, and it is never in doubt about
//! what it has seen. `EPOCH` counts the gatherings.
//!
//! Keys are compared by `equal` and hashed by `hash` of their type; those of users' types may do anything. A search that
//! finds the entries gathered anew behind its back signals a failure.

use bifrost_heap::HeapFull;
use bifrost_ir::{TypeId, TypeKind};

use super::generic::{self, Same, Step, attend, keep};
use super::{hash, natives, step};
use crate::abi::{Ret, Word};
use crate::cx::Cx;
use crate::image::Table;
use crate::object::{self, map::*};

natives! {
    "map.length" => length / 1,
    "map.contains" => contains / 2,
    "map.clear" => clear / 1,
    "map.fetch" => fetch / 2,
    "map.store" => store / 3,
    "map.remove" => remove / 2,
    "map.keys" => keys / 2,
    "map.values" => values / 2,
    "map.pairs" => pairs / 2,
}

/// Entries of a map that has any, at first.
const ENTRIES_MIN: usize = 4;

/// Entries that the index can number.
const ENTRIES_MAX: usize = u32::MAX as usize / 2;

/// Words of `META` for an entry.
const META_WORDS: usize = 2;

/// Words of `ENTRIES` for an entry.
const ENTRY_WORDS: usize = 2;

fn get(this: Word, field: usize) -> Word {
    // SAFETY: receivers and arguments of these methods are maps by their headings.
    unsafe { object::get(this, field) }
}

fn set(this: Word, field: usize, value: Word) {
    // SAFETY: as in `get`; the callers keep the fields' meaning.
    unsafe { object::set(this, field, value) }
}

/// A field of one of the map's inner objects.
fn inner(this: Word, field: usize, at: usize) -> Word {
    // SAFETY: the map has entries, and `at` belongs to one of them.
    unsafe { object::get(get(this, field), at) }
}

fn set_inner(this: Word, field: usize, at: usize, value: Word) {
    // SAFETY: as in `inner`.
    unsafe { object::set(get(this, field), at, value) }
}

/// How many entries there is room for.
fn room(this: Word) -> usize {
    match get(this, ENTRIES) {
        0 => 0,
        // SAFETY: what is not 0 is a reference.
        entries => unsafe { object::fields(entries) / ENTRY_WORDS },
    }
}

/// Whether the key of an entry was not removed.
fn is_there(this: Word, entry: usize) -> bool {
    inner(this, META, META_WORDS * entry + 1) & 1 == 1
}

/// The key of an entry.
fn key_at(this: Word, entry: usize) -> Word {
    inner(this, ENTRIES, ENTRY_WORDS * entry)
}

/// The value of an entry.
fn value_at(this: Word, entry: usize) -> Word {
    inner(this, ENTRIES, ENTRY_WORDS * entry + 1)
}

/// The bits of an index's slots that hold numbers; also the mask that makes the number of a slot of a hash, and the number in
/// slots whose key was removed, which no entry has.
fn mask(index: Word) -> u32 {
    // SAFETY: the index is a reference.
    (unsafe { object::fields(index) } * 2 - 1) as u32
}

/// The bits of a hash that are in a slot.
fn tag(hash: Word, mask: u32) -> u32 {
    (hash >> 32) as u32 & !mask
}

/// The slot at `at` of the index.
fn slot(index: Word, at: u32) -> u32 {
    // SAFETY: two slots are in each word of the index; the caller has masked the number.
    let word = unsafe { object::get(index, at as usize / 2) };
    (word >> (at % 2 * 32)) as u32
}

fn set_slot(index: Word, at: u32, content: u32) {
    let shift = at % 2 * 32;
    // SAFETY: as in `slot`.
    unsafe {
        let others = object::get(index, at as usize / 2) & !(Word::from(u32::MAX) << shift);
        object::set(index, at as usize / 2, others | Word::from(content) << shift);
    }
}

/// Puts the number of an entry into the first free slot for its hash. There is one, since half of them are free.
fn enter(index: Word, hash: Word, entry: usize) {
    let mask = mask(index);
    let mut at = hash as u32 & mask;
    while slot(index, at) != 0 {
        at = at.wrapping_add(1) & mask;
    }
    set_slot(index, at, tag(hash, mask) | (entry as u32 + 1));
}

/// The types of keys and values.
fn types_of(cx: &Cx, this: Word) -> (TypeId, TypeId) {
    // SAFETY: the receiver is a map.
    let ty = unsafe { Table::of(this) }.info().ty;
    match cx.image().program().types.kind(ty) {
        TypeKind::Map(key, value) => (key, value),
        _ => (ty, ty),
    }
}

/// Where a key is.
#[derive(Clone, Copy)]
struct Place {
    slot: u32,
    entry: usize,
}

/// Where the first entry of a hash is that is the `same`.
#[inline]
fn search(index: Word, hash: Word, mut same: impl FnMut(Place) -> Step<bool>) -> Step<Option<Place>> {
    if index == 0 {
        return Ok(None);
    }
    let mask = mask(index);
    let (tag, mut at) = (tag(hash, mask), hash as u32 & mask);
    loop {
        let found = slot(index, at);
        if found == 0 {
            return Ok(None);
        }
        let number = found & mask;
        if found & !mask == tag && number != mask {
            let place = Place { slot: at, entry: number as usize - 1 };
            if same(place)? {
                return Ok(Some(place));
            }
        }
        at = at.wrapping_add(1) & mask;
    }
}

/// Where a key is.
fn find(cx: &mut Cx, this: Word, key_type: TypeId, key: Word, hash: Word) -> Step<Option<Place>> {
    let (index, epoch) = (get(this, INDEX), get(this, EPOCH));
    if generic::same_as_words(cx, key_type) {
        return search(index, hash, |place| Ok(key_at(this, place.entry) == key));
    }
    search(index, hash, |place| {
        let found = slot(index, place.slot);
        let same = generic::same(cx, key_type, key_at(this, place.entry), key, Same::Equal)?;
        // The index is only there if the epoch is the same.
        if get(this, EPOCH) != epoch || slot(index, place.slot) != found {
            return Err(cx.failure("a map was changed by the `equal` of its keys"));
        }
        Ok(same)
    })
}

/// Where a key is, hashed here.
fn look_up(cx: &mut Cx, this: Word, key: Word) -> Step<Option<Place>> {
    if get(this, LENGTH) == 0 {
        return Ok(None);
    }
    let (key_type, _) = types_of(cx, this);
    let hash = hash::keyed(cx, key_type, key)?;
    find(cx, this, key_type, key, hash)
}

/// Makes room for one more entry: gathers the entries that are there in objects of their own, twice as many if more than
/// half are in use. When memory is used up, the map is as it was.
fn gather(cx: &mut Cx, this: Word) -> Result<(), HeapFull> {
    let length = get(this, LENGTH) as usize;
    let room = if length * 2 > room(this) { length * 2 } else { room(this) }.max(ENTRIES_MIN);
    if room > ENTRIES_MAX {
        return Err(HeapFull { limit: cx.limits().heap_bytes });
    }
    let (key_type, value_type) = types_of(cx, this);
    let data = cx.image().data_table();
    let pairs = cx.image().pairs_table(key_type, value_type);
    // Two slots for each entry, two slots in each word.
    let index = cx.alloc(data, room.next_power_of_two())?.as_ptr() as Word;
    let _index = cx.keep(index);
    let meta = cx.alloc(data, META_WORDS * room)?.as_ptr() as Word;
    let _meta = cx.keep(meta);
    let entries = cx.alloc(pairs, ENTRY_WORDS * room)?.as_ptr() as Word;
    let mut to = 0;
    for from in 0..get(this, USED) as usize {
        if !is_there(this, from) {
            continue;
        }
        let hash = inner(this, META, META_WORDS * from);
        // SAFETY: the objects were just made, with room for as many entries as are there.
        unsafe {
            object::set(meta, META_WORDS * to, hash);
            object::set(meta, META_WORDS * to + 1, inner(this, META, META_WORDS * from + 1));
            object::set(entries, ENTRY_WORDS * to, key_at(this, from));
            object::set(entries, ENTRY_WORDS * to + 1, value_at(this, from));
        }
        enter(index, hash, to);
        to += 1;
    }
    for (field, value) in [(INDEX, index), (META, meta), (ENTRIES, entries), (USED, to as Word)] {
        set(this, field, value);
    }
    set(this, EPOCH, get(this, EPOCH) + 1);
    Ok(())
}

/// Gives a key a value. The caller keeps them.
///
/// # Errors
/// The outcome of a user's `hash` or `equal` that did not return, or that memory is used up.
pub fn put(cx: &mut Cx, this: Word, key: Word, value: Word) -> Step<()> {
    let (key_type, _) = types_of(cx, this);
    let hash = hash::keyed(cx, key_type, key)?;
    if let Some(Place { entry, .. }) = find(cx, this, key_type, key, hash)? {
        set_inner(this, ENTRIES, ENTRY_WORDS * entry + 1, value);
        return Ok(());
    }
    if get(this, USED) as usize == room(this) {
        gather(cx, this).map_err(|full| cx.out_of_memory(full))?;
    }
    let (entry, stamp) = (get(this, USED) as usize, get(this, NEXT_STAMP) + 1);
    set_inner(this, META, META_WORDS * entry, hash);
    set_inner(this, META, META_WORDS * entry + 1, stamp << 1 | 1);
    set_inner(this, ENTRIES, ENTRY_WORDS * entry, key);
    set_inner(this, ENTRIES, ENTRY_WORDS * entry + 1, value);
    enter(get(this, INDEX), hash, entry);
    set(this, NEXT_STAMP, stamp);
    set(this, USED, entry as Word + 1);
    set(this, LENGTH, get(this, LENGTH) + 1);
    Ok(())
}

/// Where a loop over a map is.
#[derive(Default, Debug)]
pub struct Entries {
    /// The next place to look at, in this epoch.
    place: usize,
    epoch: Word,
    /// The stamp of the last entry that was seen.
    stamp: Word,
}

impl Entries {
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
fn first_after(this: Word, used: usize, stamp: Word) -> usize {
    let (mut low, mut high) = (0, used);
    while low < high {
        let middle = low.midpoint(high);
        if inner(this, META, META_WORDS * middle + 1) >> 1 > stamp { high = middle } else { low = middle + 1 }
    }
    low
}

/// Whether two maps have the same keys with similar values, in whatever order.
///
/// # Errors
/// The outcome of a user's method that did not return.
pub fn similar(cx: &mut Cx, value_type: TypeId, a: Word, b: Word) -> Step<bool> {
    let _maps = cx.keep_all(&[a, b]);
    let (key_type, _) = types_of(cx, a);
    if get(a, LENGTH) != get(b, LENGTH) {
        return Ok(false);
    }
    let mut entries = Entries::default();
    while let Some((key, value)) = entries.next(a) {
        attend(cx)?;
        let _entry = [(key_type, key), (value_type, value)].map(|(ty, word)| keep(cx, ty, word));
        let Some(Place { entry, .. }) = look_up(cx, b, key)? else { return Ok(false) };
        if !generic::same(cx, value_type, value, value_at(b, entry), Same::Similar)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The copy of a map, with copies of its keys and values in the same order.
///
/// # Errors
/// The outcome of a user's method that did not return, or that memory is used up.
pub fn copy(cx: &mut Cx, ty: TypeId, key_type: TypeId, value_type: TypeId, this: Word) -> Step<Word> {
    let _this = cx.keep(this);
    let table = cx.image().table_of(ty);
    let copied = cx.new_object(table, &[0; FIELDS]).map_err(|full| cx.out_of_memory(full))?;
    let _copied = cx.keep(copied);
    let mut entries = Entries::default();
    while let Some((key, value)) = entries.next(this) {
        attend(cx)?;
        let _value = keep(cx, value_type, value);
        let key = generic::copy(cx, key_type, key)?;
        let _key = keep(cx, key_type, key);
        let value = generic::copy(cx, value_type, value)?;
        let _value = keep(cx, value_type, value);
        put(cx, copied, key, value)?;
    }
    Ok(copied)
}

fn not_found(cx: &mut Cx) -> Ret {
    cx.signal(cx.image().signals().not_found)
}

extern "C" fn length(_cx: &mut Cx, this: Word) -> Ret {
    Ret::of(get(this, LENGTH))
}

extern "C" fn contains(cx: &mut Cx, this: Word, key: Word) -> Ret {
    match look_up(cx, this, key) {
        Ok(place) => Ret::bool(place.is_some()),
        Err(ret) => ret,
    }
}

extern "C" fn clear(_cx: &mut Cx, this: Word) -> Ret {
    for field in [LENGTH, USED, INDEX, META, ENTRIES] {
        set(this, field, 0);
    }
    set(this, EPOCH, get(this, EPOCH) + 1);
    Ret::NOTHING
}

extern "C" fn fetch(cx: &mut Cx, this: Word, key: Word) -> Ret {
    match look_up(cx, this, key) {
        Ok(Some(Place { entry, .. })) => Ret::of(value_at(this, entry)),
        Ok(None) => not_found(cx),
        Err(ret) => ret,
    }
}

extern "C" fn store(cx: &mut Cx, this: Word, key: Word, value: Word) -> Ret {
    match put(cx, this, key, value) {
        Ok(()) => Ret::NOTHING,
        Err(ret) => ret,
    }
}

extern "C" fn remove(cx: &mut Cx, this: Word, key: Word) -> Ret {
    match look_up(cx, this, key) {
        Ok(Some(Place { slot, entry })) => {
            let stamp = META_WORDS * entry + 1;
            set_inner(this, META, stamp, inner(this, META, stamp) & !1);
            set_inner(this, ENTRIES, ENTRY_WORDS * entry, 0);
            set_inner(this, ENTRIES, ENTRY_WORDS * entry + 1, 0);
            let index = get(this, INDEX);
            set_slot(index, slot, mask(index));
            set(this, LENGTH, get(this, LENGTH) - 1);
            Ret::NOTHING
        }
        Ok(None) => not_found(cx),
        Err(ret) => ret,
    }
}

extern "C" fn keys(cx: &mut Cx, this: Word, closure: Word) -> Ret {
    let mut entries = Entries::default();
    while let Some((key, _)) = entries.next(this) {
        step!(cx, closure, key);
    }
    Ret::NOTHING
}

extern "C" fn values(cx: &mut Cx, this: Word, closure: Word) -> Ret {
    let mut entries = Entries::default();
    while let Some((_, value)) = entries.next(this) {
        step!(cx, closure, value);
    }
    Ret::NOTHING
}

extern "C" fn pairs(cx: &mut Cx, this: Word, closure: Word) -> Ret {
    let mut entries = Entries::default();
    while let Some((key, value)) = entries.next(this) {
        step!(cx, closure, key, value);
    }
    Ret::NOTHING
}
