//! Values on their way from one heap to another, as bytes (`docs/book/language/actors.md`).
//!
//! Objects of one heap never refer to those of another. So the values of a message are written here
//! by [`encode`] and made anew there by [`decode`], which are the functions to read first. Both run
//! the same program: classes are numbers of its types. Sharing and cycles are kept, no depth needs
//! stack, and both take time and room in proportion to the bytes sent.
//!
//! ```text
//! message    the values, then the contents of each numbered object (`crate::content`), in the
//!            order of the numbers
//! basic      8 bytes, as are counts, truth values and bounds
//! reference  4 bytes, little-endian as everything, and then:
//!            0     none; only in the empty list
//!            1     a string: its length in 4 bytes, then the text; numbered if it is longer than
//!                  INLINE_BYTES_MAX
//!            2     bytes, the same
//!            3     a new object: its class in 4 bytes, and its length in 4 if objects of the class
//!                  differ in that; numbered. A boxed value follows at once and is not numbered;
//!                  neither is an object of a class that needs only one
//!            4     an actor or a destination of answers: its class in 4 bytes, its address in 16
//!            8+n   the object with the number n
//! ```
//!
//! Numbers are counted, not written: an object has the number of objects that were numbered before
//! it. So a reader makes each object when the first reference to it comes, with room for all its
//! contents, and fills it later.
//!
//! The bytes read come from a sender that may be wrong or lie, and nothing after it checks types
//! again. So every class, every length and every basic value is compared with those that the place
//! allows. Memory that is asked for is bounded by the bytes that are there: each object takes as
//! many bytes at least as were promised when it was made ([`Receiving::promised`]).
//!
//! The native `clone` copies within a heap, from words to words, and so has no use for kinds of
//! objects.

mod pattern;

pub use pattern::Pattern;

use bifrost_heap::HeapFull;
use bifrost_ir::{Program, TypeId, TypeKind, boxed};
use cranelift_entity::EntityRef;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::abi::{Ret, Word};
use crate::content::{self, Alike, Content, Place, PlaceKind, Room, Sink, Source, Unfit, Value, Values};
use crate::cx::Cx;
use crate::image::{Table, has_one_object};
use crate::map_entries::MapEntries;
use crate::object::{self, sequence};
use crate::reference::{Blank, BytesRef, ListRef, MapRef, Object, Open, StringRef};
use crate::roots::{KeptAll, KeptList};

/// Most bytes of the values of a message.
pub const BYTES_MAX: usize = 1 << 30;

/// Longer strings and bytes are written once, however often the values refer to them.
const INLINE_BYTES_MAX: usize = 32;

/// So many numbered objects are searched one by one; more by hash.
const SEARCHED_MAX: usize = 8;

/// The kinds of references, with which each begins.
const NOTHING: u32 = 0;
const STRING: u32 = 1;
const BYTES: u32 = 2;
const OBJECT: u32 = 3;
const ADDRESS: u32 = 4;
const FIRST_NUMBER: u32 = 8;

/// Bytes that every reference takes at least; a basic value takes more.
const VALUE_BYTES_MIN: usize = 4;

/// The address of an object, for others than its node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Address {
    /// The process.
    pub capsule: u32,
    /// The scheduler thread in it.
    pub node: u32,
    /// The place in the node's table of the objects that others know.
    pub index: u32,
    /// The number of times that the place was used before.
    pub generation: u32,
}

impl Address {
    /// Bytes that it takes.
    const BYTES: usize = 16;

    fn to_bytes(self) -> [u8; Address::BYTES] {
        let mut bytes = [0; Address::BYTES];
        let parts = [self.capsule, self.node, self.index, self.generation];
        for (to, part) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(parts) {
            *to = part.to_le_bytes();
        }
        bytes
    }

    fn from_bytes(bytes: [u8; Address::BYTES]) -> Address {
        let (parts, _) = bytes.as_chunks::<4>();
        let [capsule, node, index, generation] = [0, 1, 2, 3].map(|at| u32::from_le_bytes(parts[at]));
        Address { capsule, node, index, generation }
    }
}

/// The kinds of objects that are sent as an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaf {
    /// An actor.
    Actor,
    /// A destination of answers (`docs/book/language/actors.md`).
    Replier,
}

/// The part of the objects of a class that goes to other heaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// A string's text.
    Text,
    /// Bytes.
    Bytes,
    /// The basic value that they hold: nobody sees which object holds it.
    Boxed(Place),
    /// The class: one object of it is enough.
    Class,
    /// Their contents.
    Content,
    /// Their addresses.
    Address(Leaf),
    /// Nothing, for this reason.
    Never(&'static str),
}

impl Transfer {
    /// The part of the objects of a type that goes to other heaps.
    pub(crate) fn new(program: &Program, ty: TypeId) -> Transfer {
        let def = program.types.def(ty);
        let class = match def.kind {
            TypeKind::Class(class) => class,
            TypeKind::String => return Transfer::Text,
            TypeKind::Bytes => return Transfer::Bytes,
            TypeKind::Directory => return Transfer::Never("its names are those of one store"),
            TypeKind::Replier(_) => return Transfer::Address(Leaf::Replier),
            _ => return Transfer::Content,
        };
        if def.actor || program.classes[class].actor.is_some() {
            return Transfer::Address(Leaf::Actor);
        }
        if program.native_class(class).is_some() {
            return Transfer::Never("it is native, and its value cannot leave its process");
        }
        if def.supertypes.iter().any(|above| program.types.kind(above.ty).is_routine()) {
            return Transfer::Never("it is a routine");
        }
        match boxed::held(program, class) {
            Some(basic) => Transfer::Boxed(Place::new(&program.types, basic)),
            None if has_one_object(program, class) => Transfer::Class,
            None => Transfer::Content,
        }
    }
}

/// The reasons for which values cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// One of the objects stays where it is.
    #[error("an object of `{class}` cannot be sent: {why}")]
    Object {
        /// Its class.
        class: String,
        /// The reason.
        why: String,
    },
    /// They are more than fits.
    #[error("what a message carries may have {BYTES_MAX} bytes at most; send less at once")]
    TooLarge,
    /// The run was ended, or an object could not be fetched: the outcome to end with.
    #[error("sending was ended")]
    Ended(Ret),
}

/// The reasons for which bytes are no values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReceived {
    /// They are none that [`encode`] writes.
    #[error("at byte {at}: {wrong}")]
    Malformed {
        /// The position behind the wrong bytes.
        at: usize,
        /// The kind of mistake.
        wrong: Wrong,
    },
    /// An object cannot have the contents that its bytes say.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// There is no room for them.
    #[error(transparent)]
    Full(#[from] HeapFull),
    /// There is nothing at an address, or not the object that was said.
    #[error("{0:?} is no address here")]
    Address(Address),
}

/// The reasons for which bytes are none that [`encode`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// The bytes end within the values.
    #[error("the bytes end too early")]
    Short,
    /// Not a word of a basic type.
    #[error("{0} is no value of the kind {1:?}")]
    Basic(Word, PlaceKind),
    /// Not UTF-8.
    #[error("the string is not UTF-8")]
    Utf8,
    /// No object has that number, and nothing begins with it.
    #[error("there is no object {0} before this place")]
    Number(u32),
    /// No class of that number has objects that are sent so.
    #[error("there is no class {0} whose objects are sent so")]
    Class(u32),
    /// The lists behind this one are not one element shorter.
    #[error("the length of a list is not that of its elements")]
    List,
    /// A map has a key twice.
    #[error("a map has a key twice")]
    Key,
}

/// Gives the address of something that is sent as such.
pub type AddressOf<'f> = dyn FnMut(&mut Cx, Object, Leaf) -> Result<Address, NotSent> + 'f;

/// Gives the object at an address, with the class that it is said to have.
pub type ObjectAt<'f> = dyn FnMut(&mut Cx, Leaf, Address, TypeId) -> Result<Object, NotReceived> + 'f;

/// Appends values to `out`; nothing if they cannot be sent.
///
/// `address` gives the address of an object that is sent as such, and may enter it into a table.
/// Persistent objects that are not here are fetched, so that a collection is possible; the values
/// are kept meanwhile. It polls at each object, as code of a run of the context does.
///
/// # Errors
/// [`NotSent`]
pub fn encode(
    cx: &mut Cx,
    values: Values<'_>,
    address: &mut AddressOf<'_>,
    out: &mut Vec<u8>,
) -> Result<(), NotSent> {
    let start = out.len();
    let (objects, numbers) = (SmallVec::new(), Numbers::default());
    let mut sending = Sending { cx, out, start, values, kept: None, objects, numbers, address };
    let sent = sending.all();
    if sent.is_err() {
        out.truncate(start);
    }
    sent
}

/// Makes the values that `bytes` begin with, one for each place, in the heap of this context;
/// `bytes` are those behind them then. The words are the caller's to keep. No code of the program
/// runs.
///
/// `reference` gives the object at an address. It is told the class, which fits the place; only it
/// can know if that is the class of the object there.
///
/// # Errors
/// [`NotReceived`]; the objects made are garbage.
pub fn decode(
    cx: &mut Cx,
    bytes: &mut &[u8],
    places: &[Place],
    reference: &mut ObjectAt<'_>,
) -> Result<SmallVec<[Word; 4]>, NotReceived> {
    let values = if places.iter().any(|place| place.is_reference()) { places.len() } else { 0 };
    let objects = cx.keep_list(values);
    let (rest, length) = (*bytes, bytes.len());
    let mut receiving =
        Receiving { rest, length, values, objects, promised: 0, lists: false, maps: false, reference };
    let made = receiving.all(cx, places)?;
    *bytes = receiving.rest;
    Ok(made)
}

/// Values being written.
struct Sending<'a, 'f> {
    cx: &'a mut Cx,
    out: &'a mut Vec<u8>,
    start: usize,
    values: Values<'a>,
    /// The values, once something might collect.
    kept: Option<KeptAll>,
    /// The objects that have numbers, by number.
    objects: SmallVec<[Object; SEARCHED_MAX]>,
    /// Their numbers, when they are too many to look through.
    numbers: Numbers,
    address: &'a mut AddressOf<'f>,
}

impl Sending<'_, '_> {
    fn all(&mut self) -> Result<(), NotSent> {
        for value in self.values.iter() {
            self.value(value)?;
        }
        let mut number = 0;
        while let Some(object) = self.objects.get(number).copied() {
            self.content(object)?;
            number += 1;
        }
        Ok(())
    }

    /// Writes the contents of a numbered object.
    fn content(&mut self, object: Object) -> Result<(), NotSent> {
        if self.cx.must_attend() {
            let attended = self.cx.attend();
            if !attended.returned() {
                return Err(NotSent::Ended(attended));
            }
        }
        let object = self.opened(object)?;
        content::write(object, self)
    }

    /// Opens an object, if it is not open already.
    #[inline]
    fn opened(&mut self, object: Object) -> Result<Open, NotSent> {
        if let Some(open) = object.opened() {
            return Ok(open);
        }
        self.keep_values();
        self.cx.open_object(object).map_err(NotSent::Ended)
    }

    fn keep_values(&mut self) {
        if self.kept.is_none() {
            let all = self.values.iter().filter(|value| value.place().is_reference());
            let references: SmallVec<[Word; 4]> = all.map(Value::word).collect();
            self.kept = Some(self.cx.keep_all(&references));
        }
    }

    #[inline]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.out.extend_from_slice(&bytes);
    }

    /// Two numbers of 4 bytes.
    #[inline]
    fn put_pair(&mut self, first: u32, second: u32) {
        self.put((u64::from(second) << 32 | u64::from(first)).to_le_bytes());
    }

    fn check_size(&self, more: usize) -> Result<(), NotSent> {
        match (self.out.len() - self.start).saturating_add(more) > BYTES_MAX {
            true => Err(NotSent::TooLarge),
            false => Ok(()),
        }
    }

    fn reference(&mut self, object: Option<Object>) -> Result<(), NotSent> {
        let Some(object) = object else {
            self.put(NOTHING.to_le_bytes());
            return Ok(());
        };
        let info = object.info();
        match info.transfer {
            Transfer::Text => {
                // SAFETY: only strings are sent as their text.
                let string = unsafe { StringRef::new(object.word()) };
                return self.bytes(STRING, object, string.text().as_bytes());
            }
            Transfer::Bytes => {
                // SAFETY: only bytes are sent so.
                let bytes = unsafe { BytesRef::new(object.word()) };
                return self.bytes(BYTES, object, bytes.bytes());
            }
            Transfer::Content => {}
            Transfer::Class => {
                self.put_pair(OBJECT, info.ty.as_u32());
                return Ok(());
            }
            Transfer::Boxed(place) => {
                self.put_pair(OBJECT, info.ty.as_u32());
                return self.boxed(place, object);
            }
            Transfer::Address(leaf) => return self.leaf(leaf, object, info.ty),
            Transfer::Never(why) => {
                return Err(NotSent::Object { class: info.name.clone(), why: why.to_owned() });
            }
        }
        if self.is_numbered(object) {
            return Ok(());
        }
        self.check_size(0)?;
        self.put_pair(OBJECT, info.ty.as_u32());
        if info.content.has_length() {
            let length = u32::try_from(object.fields() - sequence::ELEMENTS);
            self.put(length.map_err(|_| NotSent::TooLarge)?.to_le_bytes());
        }
        Ok(())
    }

    /// Writes an object's number if it has one; otherwise it gets the next.
    fn is_numbered(&mut self, object: Object) -> bool {
        let known = match self.objects.len() {
            0..=SEARCHED_MAX => self.objects.iter().position(|one| *one == object).map(|at| at as u32),
            _ => self.numbers.get(object.word()),
        };
        match known {
            Some(number) => self.put((FIRST_NUMBER + number).to_le_bytes()),
            None => self.number(object),
        }
        known.is_some()
    }

    /// Gives an object the next number. There are fewer than [`BYTES_MAX`].
    fn number(&mut self, object: Object) {
        self.objects.push(object);
        match self.objects.len() - 1 {
            0..SEARCHED_MAX => {}
            SEARCHED_MAX => {
                for (number, object) in (0..).zip(&self.objects) {
                    self.numbers.insert(object.word(), number);
                }
            }
            last => self.numbers.insert(object.word(), last as u32),
        }
    }

    fn bytes(&mut self, tag: u32, object: Object, bytes: &[u8]) -> Result<(), NotSent> {
        if bytes.len() > INLINE_BYTES_MAX && self.is_numbered(object) {
            return Ok(());
        }
        self.check_size(bytes.len())?;
        // Checked to be far less.
        self.put_pair(tag, bytes.len() as u32);
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the value in a box.
    fn boxed(&mut self, place: Place, object: Object) -> Result<(), NotSent> {
        let object = self.opened(object)?.object();
        // SAFETY: a box has a value of the place's type in its only field.
        self.value(unsafe { Value::new(place, object::get(object.word(), boxed::VALUE as usize)) })
    }

    #[cold]
    fn leaf(&mut self, leaf: Leaf, object: Object, class: TypeId) -> Result<(), NotSent> {
        self.keep_values();
        let address = (self.address)(self.cx, object, leaf)?;
        self.put_pair(ADDRESS, class.as_u32());
        self.put(address.to_bytes());
        Ok(())
    }
}

// SAFETY: an address is given by code of a node, which changes no object that is sent by content;
// boxes, which may be fetched, are no parts of the object that is written.
unsafe impl Sink for Sending<'_, '_> {
    type Error = NotSent;

    fn bool(&mut self, value: bool) {
        self.count(u64::from(value));
    }

    fn int(&mut self, value: i64) {
        self.put(value.to_le_bytes());
    }

    fn count(&mut self, value: u64) {
        self.put(value.to_le_bytes());
    }

    #[inline]
    fn value(&mut self, value: Value) -> Result<(), NotSent> {
        if value.place().is_reference() {
            return self.reference(value.object());
        }
        self.put(value.word().to_le_bytes());
        Ok(())
    }

    fn nothing(&mut self, place: Place) -> Result<(), NotSent> {
        // SAFETY: 0 is none, or the smallest value of a basic type.
        self.value(unsafe { Value::new(place, 0) })
    }

    fn values(&mut self, values: Alike<'_>) -> Result<(), NotSent> {
        if values.place.is_reference() {
            return values.iter().try_for_each(|value| self.reference(value.object()));
        }
        let words = values.words();
        self.check_size(size_of_val(words))?;
        self.out.reserve(size_of_val(words));
        for word in words {
            self.put(word.to_le_bytes());
        }
        Ok(())
    }
}

/// Numbers of objects, by address. Objects that lie together are often sent together, so that there
/// is a table of stretches of the heap and not of objects.
#[derive(Default)]
struct Numbers {
    /// The position of each stretch.
    stretches: FxHashMap<Word, usize>,
    /// One more than the number of the object at each word of a stretch, or 0.
    numbers: Vec<[u32; STRETCH_WORDS]>,
    /// The stretch that was looked for last, and where it is, if there is any.
    last: (Word, usize),
}

/// Words of a stretch.
const STRETCH_WORDS: usize = 32;

impl Numbers {
    /// The stretch that an object is in, and its place there.
    fn split(object: Word) -> (Word, usize) {
        let at = object / size_of::<Word>() as Word;
        (at / STRETCH_WORDS as Word, at as usize % STRETCH_WORDS)
    }

    fn get(&mut self, object: Word) -> Option<u32> {
        let (stretch, at) = Numbers::split(object);
        if self.last.0 != stretch {
            self.last = (stretch, *self.stretches.get(&stretch)?);
        }
        self.numbers[self.last.1][at].checked_sub(1)
    }

    fn insert(&mut self, object: Word, number: u32) {
        let (stretch, at) = Numbers::split(object);
        if self.last.0 != stretch {
            let place = *self.stretches.entry(stretch).or_insert(self.numbers.len());
            if place == self.numbers.len() {
                self.numbers.push([0; STRETCH_WORDS]);
            }
            self.last = (stretch, place);
        }
        self.numbers[self.last.1][at] = number + 1;
    }
}

/// Values being made.
struct Receiving<'b, 'r, 'f> {
    rest: &'b [u8],
    /// The number of bytes.
    length: usize,
    /// The number of words of `objects` are the values'.
    values: usize,
    /// The values, and behind them the objects that have numbers, by number.
    objects: KeptList,
    /// The least number of bytes of the contents of the numbered objects, as far as they were not
    /// read yet.
    promised: usize,
    /// True if there are lists among the objects.
    lists: bool,
    /// True if there are maps.
    maps: bool,
    reference: &'r mut ObjectAt<'f>,
}

/// True if the keys of a map, which are of this kind, differ. Sorted, and not hashed: the sender
/// may have chosen them.
fn keys_differ(map: MapRef, place: Place) -> bool {
    let (mut keys, mut entries) = (Vec::new(), MapEntries::default());
    while let Some((key, _)) = entries.next(map.word()) {
        let real = f64::from_bits(key);
        match place.kind {
            PlaceKind::Real if real.is_nan() => {}
            PlaceKind::Real if real == 0.0 => keys.push(0),
            _ => keys.push(key),
        }
    }
    // The same object twice is found before its contents are compared.
    if !all_differ(&mut keys) {
        return false;
    }
    match place.kind {
        PlaceKind::String => {
            // SAFETY: the keys of the map are strings.
            let texts = keys.iter().map(|key| unsafe { object::text(*key) });
            all_differ(&mut texts.collect::<Vec<_>>())
        }
        PlaceKind::Bytes => {
            // SAFETY: the keys of the map are bytes.
            let bytes = keys.iter().map(|key| unsafe { object::byte_slice(*key) });
            all_differ(&mut bytes.collect::<Vec<_>>())
        }
        _ => true,
    }
}

fn all_differ<T: Ord>(all: &mut [T]) -> bool {
    all.sort_unstable();
    all.windows(2).all(|two| two[0] != two[1])
}

/// The least number of bytes of an object's contents.
fn least_bytes(content: &Content, fields: usize) -> usize {
    match content {
        Content::Map(..) => size_of::<Word>(),
        Content::Whole => 0,
        _ => fields.saturating_mul(VALUE_BYTES_MIN),
    }
}

impl<'b> Receiving<'b, '_, '_> {
    fn all(&mut self, cx: &mut Cx, places: &[Place]) -> Result<SmallVec<[Word; 4]>, NotReceived> {
        let mut values = SmallVec::with_capacity(places.len());
        for (at, place) in places.iter().enumerate() {
            let word = self.value(cx, *place)?;
            if place.is_reference() {
                self.objects.set(at, word);
            }
            values.push(word);
        }
        let mut at = self.values;
        while at < self.objects.len() {
            let object = self.made(at);
            self.promised -= least_bytes(&object.info().content, object.fields());
            // SAFETY: the object was made for this, and is kept by the list.
            content::fill(cx, unsafe { Blank::new(object) }, self)?;
            at += 1;
        }
        if self.lists {
            self.check_lists()?;
        }
        if self.maps {
            self.check_maps()?;
        }
        Ok(values)
    }

    /// An object that has a number, by its place in the list.
    #[inline]
    fn made(&self, at: usize) -> Object {
        // SAFETY: behind the values the list has objects, which it keeps.
        unsafe { Object::new(self.objects.get(at)) }
    }

    /// The objects that have numbers.
    fn all_made(&self) -> impl Iterator<Item = Object> + '_ {
        (self.values..self.objects.len()).map(|at| self.made(at))
    }

    /// Makes sure that each list is one element longer than its rest: natives go by the lengths. So
    /// no list is its own rest.
    fn check_lists(&self) -> Result<(), NotReceived> {
        for object in self.all_made().filter(|one| matches!(one.info().content, Content::List(..))) {
            // SAFETY: it is a list, and filled.
            let list = unsafe { ListRef::new(object.word()) };
            let fits = list.rest().is_none_or(|rest| rest.length().checked_add(1) == Some(list.length()));
            if !fits {
                return Err(self.wrong(Wrong::List));
            }
        }
        Ok(())
    }

    /// Makes sure that no map has a key twice, of those whose keys can be compared without code of
    /// the program.
    fn check_maps(&self) -> Result<(), NotReceived> {
        for object in self.all_made() {
            let Content::Map(key, _) = object.info().content else { continue };
            // SAFETY: it is a map, and filled.
            if !keys_differ(unsafe { MapRef::new(object.word()) }, key) {
                return Err(self.wrong(Wrong::Key));
            }
        }
        Ok(())
    }

    #[cold]
    fn wrong(&self, wrong: Wrong) -> NotReceived {
        NotReceived::Malformed { at: self.length - self.rest.len(), wrong }
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], NotReceived> {
        match self.rest.split_first_chunk() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => Err(self.wrong(Wrong::Short)),
        }
    }

    fn take_slice(&mut self, count: usize) -> Result<&'b [u8], NotReceived> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.wrong(Wrong::Short)),
        }
    }

    #[inline]
    fn short(&mut self) -> Result<u32, NotReceived> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    /// The bytes that are left and have not been promised yet.
    fn left(&self) -> usize {
        self.rest.len().saturating_sub(self.promised)
    }

    /// Gives an object that was just made the next number.
    fn number(&mut self, object: Word) -> Word {
        self.objects.push(object);
        object
    }

    /// A reference to an object of a type, or 0 for none.
    fn reference(&mut self, cx: &mut Cx, ty: TypeId) -> Result<Word, NotReceived> {
        let word = match self.short()? {
            NOTHING => return Ok(0),
            // It is compared there, before it is made.
            OBJECT => return self.object(cx, ty),
            STRING => {
                let count = self.short()? as usize;
                let text = std::str::from_utf8(self.take_slice(count)?);
                let made = cx.new_string(text.map_err(|_| self.wrong(Wrong::Utf8))?)?;
                if count > INLINE_BYTES_MAX { self.number(made) } else { made }
            }
            BYTES => {
                let count = self.short()? as usize;
                let made = cx.new_bytes(&[self.take_slice(count)?])?;
                if count > INLINE_BYTES_MAX { self.number(made) } else { made }
            }
            ADDRESS => {
                let class = self.class(cx)?.info();
                let Transfer::Address(leaf) = class.transfer else {
                    return Err(self.wrong(Wrong::Class(class.ty.as_u32())));
                };
                Unfit::check(cx.image(), class, ty)?;
                let address = Address::from_bytes(self.take()?);
                (self.reference)(cx, leaf, address, class.ty)?.word()
            }
            number => {
                let at = number.checked_sub(FIRST_NUMBER).map(|number| self.values + number as usize);
                let known = at.filter(|at| *at < self.objects.len());
                self.objects.get(known.ok_or_else(|| self.wrong(Wrong::Number(number)))?)
            }
        };
        if word != 0 {
            // SAFETY: what was made or found is a reference of the context.
            Unfit::check(cx.image(), unsafe { Table::of(word) }.info(), ty)?;
        }
        Ok(word)
    }

    /// The table of a class, if there is one.
    fn class(&mut self, cx: &Cx) -> Result<&'static Table, NotReceived> {
        let number = self.short()?;
        let ty = (number as usize) < cx.image().program().types.len();
        let table = ty.then(|| TypeId::new(number as usize)).and_then(|ty| cx.image().find_table(ty));
        table.ok_or_else(|| self.wrong(Wrong::Class(number)))
    }

    /// A new object, which is filled later unless it is whole.
    fn object(&mut self, cx: &mut Cx, ty: TypeId) -> Result<Word, NotReceived> {
        let table = self.class(cx)?;
        let info = table.info();
        Unfit::check(cx.image(), info, ty)?;
        let number = info.ty.as_u32();
        match (info.transfer, info.class) {
            (Transfer::Content, _) => {}
            (Transfer::Class, Some(class)) => {
                let one = cx.image().lasting(class);
                return one.ok_or_else(|| self.wrong(Wrong::Class(number)));
            }
            (Transfer::Boxed(place), _) => {
                let value = self.basic(place.kind)?;
                return Ok(cx.new_object(table, &[value])?);
            }
            _ => return Err(self.wrong(Wrong::Class(number))),
        }
        let fields = match &info.content {
            content if content.has_length() => sequence::ELEMENTS + self.short()? as usize,
            Content::Fields(places) => places.len(),
            _ => object::field_count(cx.image().program(), info.ty),
        };
        let least = least_bytes(&info.content, fields);
        if least > self.left() {
            return Err(self.wrong(Wrong::Short));
        }
        self.promised += least;
        self.lists |= matches!(info.content, Content::List(..));
        self.maps |= matches!(info.content, Content::Map(..));
        let made = cx.alloc(table, fields)?.as_ptr() as Word;
        Ok(self.number(made))
    }

    #[inline]
    fn basic(&mut self, kind: PlaceKind) -> Result<Word, NotReceived> {
        let word = Word::from_le_bytes(self.take()?);
        if kind.allows(word) { Ok(word) } else { Err(self.wrong(Wrong::Basic(word, kind))) }
    }
}

// SAFETY: classes and basic values are compared with the places; `decode` was asked while no code
// runs.
unsafe impl Source for Receiving<'_, '_, '_> {
    type Error = NotReceived;

    fn bool(&mut self) -> Result<bool, NotReceived> {
        Ok(self.basic(PlaceKind::Bool)? == 1)
    }

    fn int(&mut self) -> Result<i64, NotReceived> {
        Ok(i64::from_le_bytes(self.take()?))
    }

    fn count(&mut self) -> Result<u64, NotReceived> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn elements(&mut self) -> Result<usize, NotReceived> {
        let count = usize::try_from(self.count()?).ok();
        count.filter(|n| *n <= self.left() / VALUE_BYTES_MIN).ok_or_else(|| self.wrong(Wrong::Short))
    }

    #[inline]
    fn value_or_nothing(&mut self, cx: &mut Cx, place: Place) -> Result<Word, NotReceived> {
        match place.is_reference() {
            true => self.reference(cx, place.ty),
            false => self.basic(place.kind),
        }
    }

    fn values(&mut self, cx: &mut Cx, room: Room) -> Result<(), NotReceived> {
        if matches!(room.place.kind, PlaceKind::Int | PlaceKind::Real) {
            let bytes = self.take_slice(room.count.saturating_mul(size_of::<Word>()))?;
            for (at, word) in bytes.as_chunks().0.iter().enumerate() {
                // SAFETY: the bytes are as many words, each a number of the kind.
                unsafe { room.set(at, Word::from_le_bytes(*word)) };
            }
            return Ok(());
        }
        room.fill(cx, self)
    }
}
