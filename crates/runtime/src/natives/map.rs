//! Methods of `map[K, V]`: a table of entries in the order in which they came, and an index over
//! it.
//!
//! ```text
//! map      LENGTH  USED  NEXT_STAMP  EPOCH  INDEX  META  ENTRIES
//! INDEX    data: groups of twelve slots, a power of two of them, in each of which there are ten
//!          entries at most on average. A group is a line of the processor's cache: for each slot a
//!          byte, which is seven bits of a hash with the highest bit set, EMPTY or REMOVED; after
//!          sixteen bytes for each slot 32 bits, which are the number of an entry. The first group
//!          of a key is given by the low bits of its hash, the next ones follow
//! META     data: for each entry its hash, and its stamp shifted left by one with the lowest bit
//!          set while it is there
//! ENTRIES  pairs: the key and the value of each entry
//! ```
//!
//! A search compares the bytes of a group at once. So it nearly always finds in the first group
//! that the key is not there, or the only entry that can be it. The slots of other keys are not
//! looked at. A processor guesses such branches right, and works ahead while it waits for memory.
//! `META` is left alone. (Groups with their bytes and values in a line are those of F14, by N.
//! Bronson and X. Shi, "Open-sourcing F14 for faster, more memory-efficient hash tables", 2019.)
//!
//! An entry whose key is removed keeps its place until the entries are gathered anew, which is when
//! there is no room left. Stamps grow with the entries' places. So a loop finds its way back after
//! that, and it is never in doubt about the entries that it has seen. `EPOCH` counts the
//! gatherings.
//!
//! Keys are compared by `equal` and hashed by `hash` of their type; those of users' types may do
//! anything. A search that finds the entries gathered anew behind its back signals a failure.

use bifrost_heap::HeapFull;
use bifrost_ir::TypeId;

use super::generic::{self, Same, Step, attend, keep};
use super::{hash, natives, open, step};
use crate::abi::{Ret, Word};
use crate::cx::Cx;
use crate::image::Table;
use crate::map_entries::{
    ENTRIES_MAX, ENTRY_WORDS, META_WORDS, MapEntries, first_after, get, inner, is_there, key_at, room, set,
    set_inner, types_of, value_at,
};
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
    "map.entry" => entry / 3,
}

/// Entries of a map that has any, at first.
const ENTRIES_MIN: usize = 4;

/// Words of a group: two for the bytes of its slots, and half a one for each number.
const GROUP_WORDS: usize = 8;

/// The position of the first group in the index, so that groups are lines where the index begins
/// with a page.
const GROUPS: usize = GROUP_WORDS - bifrost_heap::OBJECT_WORDS;

/// Entries for which an index has a group.
const GROUP_ENTRIES: usize = 10;

/// The byte of a slot that was never used. An index begins with such slots only, as it is zeroed.
const EMPTY: u8 = 0;

/// The byte of a slot whose key was removed.
const REMOVED: u8 = 1;

/// A slot of an index: the field of its group, and its number in the group, below 12.
#[derive(Clone, Copy)]
struct Slot {
    group: usize,
    at: usize,
}

/// The words of an index for so many entries.
fn index_words(room: usize) -> usize {
    GROUPS + room.div_ceil(GROUP_ENTRIES).next_power_of_two() * GROUP_WORDS
}

/// The numbers of an index's groups are those in this mask.
fn mask(index: Word) -> usize {
    // SAFETY: the index is a reference.
    unsafe { object::fields(index) / GROUP_WORDS - 1 }
}

/// The field of a group.
fn group(number: usize) -> usize {
    GROUPS + number * GROUP_WORDS
}

/// The byte of slots with this hash.
fn tag(hash: Word) -> u8 {
    (hash >> 57) as u8 | 0x80
}

/// A bit for each byte of a word that is this one, in the order of the bytes.
fn matches(word: Word, byte: u8) -> u32 {
    const LOW: Word = 0x7f7f_7f7f_7f7f_7f7f;
    let differs = word ^ (Word::from(byte) * 0x0101_0101_0101_0101);
    let found = !(((differs & LOW) + LOW) | differs | LOW);
    // Each of the highest bits comes to a place of its own in the highest byte.
    ((found >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

/// A bit for each slot of a group with this byte.
fn slots(index: Word, group: usize, byte: u8) -> u32 {
    // SAFETY: the index has the group.
    let [first, others] = unsafe { [object::get(index, group), object::get(index, group + 1)] };
    matches(first, byte) | (matches(others, byte) & 0xf) << 8
}

fn set_byte(index: Word, slot: Slot, byte: u8) {
    let (field, shift) = (slot.group + slot.at / 8, slot.at % 8 * 8);
    // SAFETY: the index has the slot.
    unsafe {
        object::set(index, field, object::get(index, field) & !(0xff << shift) | Word::from(byte) << shift)
    }
}

/// The number of the entry of a slot.
fn number(index: Word, slot: Slot) -> usize {
    // SAFETY: the index has the slot; two numbers are in each word.
    let word = unsafe { object::get(index, slot.group + 2 + slot.at / 2) };
    (word >> (slot.at % 2 * 32)) as u32 as usize
}

/// Puts an entry into the first free slot for its hash. There is one, since there are more slots
/// than entries.
fn enter(index: Word, hash: Word, entry: usize) {
    let mask = mask(index);
    let mut at = hash as usize & mask;
    let slot = loop {
        let group = group(at);
        let free = slots(index, group, EMPTY);
        if free != 0 {
            break Slot { group, at: free.trailing_zeros() as usize };
        }
        at = (at + 1) & mask;
    };
    set_byte(index, slot, tag(hash));
    let (field, shift) = (slot.group + 2 + slot.at / 2, slot.at % 2 * 32);
    // SAFETY: as in `number`. The slot was never used, so its half of the word is 0.
    unsafe { object::set(index, field, object::get(index, field) | (entry as Word) << shift) }
}

/// The position of a key.
#[derive(Clone, Copy)]
struct Place {
    slot: Slot,
    entry: usize,
}

/// The position of the first entry of a hash that is the `same`.
#[inline]
fn search(index: Word, hash: Word, mut same: impl FnMut(Place) -> Step<bool>) -> Step<Option<Place>> {
    if index == 0 {
        return Ok(None);
    }
    let (mask, tag) = (mask(index), tag(hash));
    let mut at = hash as usize & mask;
    loop {
        let group = group(at);
        let mut found = slots(index, group, tag);
        while found != 0 {
            let slot = Slot { group, at: found.trailing_zeros() as usize };
            let place = Place { slot, entry: number(index, slot) };
            if same(place)? {
                return Ok(Some(place));
            }
            found &= found - 1;
        }
        if slots(index, group, EMPTY) != 0 {
            return Ok(None);
        }
        at = (at + 1) & mask;
    }
}

/// True if keys are equal if their words are, and only then.
fn has_word_keys(this: Word) -> bool {
    // SAFETY: the receiver is a map.
    unsafe { Table::of(this) }.info().word_keys
}

/// Makes the index of a map that has entries and none.
#[cold]
fn make_index(cx: &mut Cx, this: Word) -> Step<()> {
    let (key_type, _) = types_of(cx, this);
    let (epoch, used) = (get(this, EPOCH), get(this, USED));
    for entry in 0..used as usize {
        attend(cx)?;
        let key = key_at(this, entry);
        let hash = if has_word_keys(this) { hash::keyed_word(key) } else { hash::keyed(cx, key_type, key)? };
        if get(this, EPOCH) != epoch || get(this, USED) != used || get(this, INDEX) != 0 {
            return Err(cx.failure("a map was changed by the `hash` of its keys"));
        }
        set_inner(this, META, META_WORDS * entry, hash);
    }
    let index = cx.alloc(cx.image().data_table(), index_words(room(this)));
    let index = index.map_err(|full| cx.out_of_memory(full))?.as_ptr() as Word;
    for entry in (0..used as usize).filter(|entry| is_there(this, *entry)) {
        enter(index, inner(this, META, META_WORDS * entry), entry);
    }
    set(this, INDEX, index);
    Ok(())
}

/// The hash of a key, and where it is.
fn find(cx: &mut Cx, this: Word, key: Word) -> Step<(Word, Option<Place>)> {
    if get(this, INDEX) == 0 && get(this, USED) > 0 {
        make_index(cx, this)?;
    }
    if has_word_keys(this) {
        let hash = hash::keyed_word(key);
        let place = search(get(this, INDEX), hash, |place| Ok(key_at(this, place.entry) == key))?;
        return Ok((hash, place));
    }
    let (key_type, _) = types_of(cx, this);
    let hash = hash::keyed(cx, key_type, key)?;
    let epoch = get(this, EPOCH);
    let place = search(get(this, INDEX), hash, |place| {
        let same = generic::same(cx, key_type, key_at(this, place.entry), key, Same::Equal)?;
        // Places are the same in the same epoch.
        if get(this, EPOCH) != epoch || !is_there(this, place.entry) {
            return Err(cx.failure("a map was changed by the `equal` of its keys"));
        }
        Ok(same)
    })?;
    Ok((hash, place))
}

/// The position of a key.
fn look_up(cx: &mut Cx, this: Word, key: Word) -> Step<Option<Place>> {
    if get(this, LENGTH) == 0 {
        return Ok(None);
    }
    find(cx, this, key).map(|(_, place)| place)
}

/// Makes room for one more entry: gathers the entries that are there in objects of their own, twice
/// as many if more than half are in use. When memory is used up, the map is as it was.
fn gather(cx: &mut Cx, this: Word) -> Result<(), HeapFull> {
    let length = get(this, LENGTH) as usize;
    let room = if length * 2 > room(this) { length * 2 } else { room(this) }.max(ENTRIES_MIN);
    if room > ENTRIES_MAX {
        return Err(HeapFull::of_heap(cx.limits().heap_bytes));
    }
    let (key_type, value_type) = types_of(cx, this);
    let data = cx.image().data_table();
    let pairs = cx.image().pairs_table(key_type, value_type);
    let index = cx.alloc(data, index_words(room))?.as_ptr() as Word;
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
    let (hash, place) = find(cx, this, key)?;
    if let Some(Place { entry, .. }) = place {
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

/// True if two maps have the same keys with similar values, in any order.
///
/// # Errors
/// The outcome of a user's method that did not return.
pub fn similar(cx: &mut Cx, value_type: TypeId, a: Word, b: Word) -> Step<bool> {
    let _maps = cx.keep_all(&[a, b]);
    generic::open(cx, a)?;
    generic::open(cx, b)?;
    let (key_type, _) = types_of(cx, a);
    if get(a, LENGTH) != get(b, LENGTH) {
        return Ok(false);
    }
    let mut entries = MapEntries::default();
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
    generic::open(cx, this)?;
    let table = cx.image().table_of(ty);
    let copied = cx.new_object(table, &[0; FIELDS]).map_err(|full| cx.out_of_memory(full))?;
    let _copied = cx.keep(copied);
    let mut entries = MapEntries::default();
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
            set_byte(get(this, INDEX), slot, REMOVED);
            set(this, LENGTH, get(this, LENGTH) - 1);
            Ret::NOTHING
        }
        Ok(None) => not_found(cx),
        Err(ret) => ret,
    }
}

extern "C" fn keys(cx: &mut Cx, this: Word, closure: Word) -> Ret {
    let mut entries = MapEntries::default();
    while let Some((key, _)) = entries.next(this) {
        step!(cx, closure, key);
    }
    Ret::NOTHING
}

extern "C" fn values(cx: &mut Cx, this: Word, closure: Word) -> Ret {
    let mut entries = MapEntries::default();
    while let Some((_, value)) = entries.next(this) {
        step!(cx, closure, value);
    }
    Ret::NOTHING
}

extern "C" fn pairs(cx: &mut Cx, this: Word, closure: Word) -> Ret {
    let mut entries = MapEntries::default();
    while let Some((key, value)) = entries.next(this) {
        step!(cx, closure, key, value);
    }
    Ret::NOTHING
}

/// The entry after the one with a stamp, for a loop that keeps nothing but that.
extern "C" fn entry(cx: &mut Cx, _desc: Word, this: Word, after: Word) -> Ret {
    open!(cx, this);
    let place = first_after(this, get(this, USED) as usize, after);
    let mut entries = MapEntries { place, epoch: get(this, EPOCH), stamp: after };
    let Some((key, value)) = entries.next(this) else { return not_found(cx) };
    (cx.results[1], cx.results[2]) = (key, value);
    Ret::of(entries.stamp)
}

#[cfg(test)]
mod tests {
    use super::{index_words, matches};

    #[test]
    fn bytes_are_found_where_they_are() {
        let bytes: [u8; 8] = [0, 1, 0x80, 0x81, 0xff, 0x7f, 0, 0x80];
        let word = u64::from_le_bytes(bytes);
        for byte in 0..=u8::MAX {
            let expected: u32 = bytes.iter().enumerate().map(|(i, b)| u32::from(*b == byte) << i).sum();
            assert_eq!(matches(word, byte), expected, "{byte}");
        }
    }

    #[test]
    fn an_index_has_more_slots_than_entries() {
        for room in 1..5000 {
            let groups = (index_words(room) - super::GROUPS) / super::GROUP_WORDS;
            assert!(groups.is_power_of_two() && groups * 12 > room, "{room} entries in {groups} groups");
        }
    }
}
