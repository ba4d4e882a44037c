//! Compounds: objects that cross by value.
//!
//! A client gives a sequence, struct, oneof or `maybe` by its items, and the session makes the
//! object ([`Session::compound`]). The other way, `get` takes the contents of an object as they are
//! at that moment ([`Session::get`]), and so does `flush` for the cells of a table whose column has
//! such a type. Parts of these types go with the whole; all other objects are references.
//!
//! The contents of a batch are in one buffer, as they cross. References in them are objects until
//! the reply is written, which gives these their handles.

use bifrost_ir::{ClassId, Signature, TypeId, TypeKind, Types, tagged};
use bifrost_runtime::abi::Word;
use bifrost_runtime::content::{self, Alike, Meaning, Place, PlaceKind, Sink};
use bifrost_runtime::{Cx, Kill, Object, Ret, Table, object};
use bifrost_wire::command::Ranges;
use bifrost_wire::encode::Items;
use bifrost_wire::value::tag;
use bifrost_wire::{Arg, COMPOUND_DEPTH_MAX, Compound, ErrorNumber, Limit, Ref, Value};
use smallvec::SmallVec;

use crate::calls::Operand;
use crate::causes::Cause;
use crate::failures::{FailureKind, Place as CallPlace};
use crate::futures::Future;
use crate::session::Session;
use crate::tables::Tables;

/// True if objects of a type cross by value: a copy is as good as the object.
pub(crate) fn is_compound(tables: &Tables, ty: TypeId) -> bool {
    matches!(
        tables.engine().program().types.kind(ty),
        TypeKind::Sequence(_) | TypeKind::Struct(_) | TypeKind::OneOf(_) | TypeKind::Maybe(_)
    )
}

/// The contents that were taken in a batch.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    bytes: Vec<u8>,
    /// The references: where they are in the bytes, and the objects, which the batch keeps.
    objects: Vec<(usize, Word)>,
    /// The ends of each among the bytes and objects.
    ends: Vec<(usize, usize)>,
}

impl Contents {
    /// Forgets all, and keeps some room.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(1 << 16);
        self.objects.clear();
        self.objects.shrink_to(1 << 12);
        self.ends.clear();
        self.ends.shrink_to(1 << 12);
    }

    fn ranges(&self, index: u32) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        let at = index as usize;
        let (from, objects) = if at == 0 { (0, 0) } else { self.ends[at - 1] };
        let (to, last) = self.ends[at];
        (from..to, objects..last)
    }

    /// The number of bytes that contents take in a reply.
    pub fn length(&self, index: u32) -> usize {
        self.ranges(index).0.len()
    }

    /// True if contents have no references.
    pub fn has_values_only(&self, index: u32) -> bool {
        self.ranges(index).1.is_empty()
    }

    /// Returns contents as they cross. `handle` returns the handle of an object, or nothing at the
    /// limit of handles.
    pub fn compound(
        &mut self,
        index: u32,
        mut handle: impl FnMut(Word) -> Option<Ref>,
    ) -> Option<Compound<'_>> {
        let (bytes, objects) = self.ranges(index);
        for (at, word) in &self.objects[objects] {
            let handle = handle(*word)?;
            self.bytes[*at..*at + 8].copy_from_slice(&handle.0.to_le_bytes());
        }
        // Behind the word of the length.
        Some(Compound::written(&self.bytes[bytes.start + 8..bytes.end]))
    }
}

/// The reason why contents could not be taken.
enum Stop {
    /// They do not cross.
    Refused(FailureKind),
    /// An object could not be looked into.
    Ended(Ret),
}

/// The refusal of objects of a type.
fn refused(tables: &Tables, ty: TypeId) -> Stop {
    let text = format!("objects of `{}` do not cross by value", tables.type_name(ty));
    Stop::Refused(FailureKind::refused(ErrorNumber::WrongType, text))
}

/// The values of one object, as far as there is room for them.
struct Parts {
    values: SmallVec<[content::Value; 12]>,
    /// The values of a sequence, array or vector of numbers, and their tag.
    numbers: SmallVec<[Word; 16]>,
    tag: u8,
    room: usize,
}

/// More values than there is room for.
struct TooMany;

// SAFETY: it only keeps the values.
unsafe impl Sink for Parts {
    type Error = TooMany;

    fn bool(&mut self, _: bool) {}

    fn int(&mut self, _: i64) {}

    fn count(&mut self, _: u64) {}

    fn value(&mut self, value: content::Value) -> Result<(), TooMany> {
        if self.values.len() >= self.room {
            return Err(TooMany);
        }
        self.values.push(value);
        Ok(())
    }

    fn nothing(&mut self, _: Place) -> Result<(), TooMany> {
        Ok(())
    }

    fn values(&mut self, values: Alike<'_>) -> Result<(), TooMany> {
        self.tag = match values.place.kind {
            PlaceKind::Int => tag::INT,
            PlaceKind::Real => tag::REAL,
            _ => return values.iter().try_for_each(|value| self.value(value)),
        };
        if values.words().len() > self.room {
            return Err(TooMany);
        }
        self.numbers.extend_from_slice(values.words());
        Ok(())
    }
}

/// Takes the contents of an object into those of the batch.
struct Taker<'s> {
    session: &'s Session,
    contents: &'s mut Contents,
    bytes_max: usize,
}

impl Taker<'_> {
    fn too_long(&self) -> Stop {
        let number = ErrorNumber::ReplyTooLong;
        Stop::Refused(FailureKind::refused(number, self.session.limits.exceeded(number, Limit::ReplyBytes)))
    }

    /// Adds the values of an object. Takes a unit of fuel, and polls.
    fn parts(&self, cx: &mut Cx, word: Word, parts: &mut Parts) -> Result<(), Stop> {
        cx.fuel -= 1;
        if cx.fuel < 0 {
            return Err(Stop::Ended(cx.kill(Kill::Fuel)));
        }
        if cx.must_attend() {
            let attended = cx.attend();
            if !attended.returned() {
                return Err(Stop::Ended(attended));
            }
        }
        // SAFETY: the words are references: operands, or values of places for objects.
        let open = cx.open_object(unsafe { Object::new(word) }).map_err(Stop::Ended)?;
        content::write(open, parts).map_err(|TooMany| self.too_long())
    }

    /// Adds the elements of a list.
    fn list(&self, cx: &mut Cx, mut word: Word, parts: &mut Parts) -> Result<(), Stop> {
        loop {
            let before = parts.values.len();
            self.parts(cx, word, parts)?;
            // The empty list at the end has neither an element nor a rest.
            if parts.values.len() == before {
                return Ok(());
            }
            word = parts.values.pop().map_or(0, content::Value::word);
        }
    }

    /// Appends the contents of an object, which is at this depth.
    fn take(&mut self, cx: &mut Cx, word: Word, depth: usize) -> Result<(), Stop> {
        let tables = self.session.tables;
        let program = tables.engine().program();
        // SAFETY: the words are references.
        let info = unsafe { Table::of(word) }.info();
        let ty = info.seen_as;
        if depth > COMPOUND_DEPTH_MAX {
            let text = format!("the value is nested deeper than {COMPOUND_DEPTH_MAX} levels");
            return Err(Stop::Refused(FailureKind::refused(ErrorNumber::ReplyTooLong, text)));
        }
        let kind = program.types.kind(ty);
        let room = self.bytes_max.saturating_sub(self.contents.bytes.len()) / 8;
        let mut parts = Parts { values: SmallVec::new(), numbers: SmallVec::new(), tag: 0, room };
        match kind {
            TypeKind::List(_) => self.list(cx, word, &mut parts)?,
            TypeKind::Array(_)
            | TypeKind::Sequence(_)
            | TypeKind::Vector(_)
            | TypeKind::Map(..)
            | TypeKind::Record(_)
            | TypeKind::Struct(_)
            | TypeKind::OneOf(_)
            | TypeKind::Maybe(_) => self.parts(cx, word, &mut parts)?,
            _ => return Err(refused(tables, ty)),
        }
        let Parts { values, numbers, tag, .. } = &parts;
        if !numbers.is_empty() {
            let number = tables.type_number(ty);
            Items::words(&mut self.contents.bytes, number, *tag, numbers.iter().copied());
            return self.has_room();
        }
        let is_choice = matches!(kind, TypeKind::OneOf(_) | TypeKind::Maybe(_));
        let count = if is_choice { 2 } else { values.len() };
        let mut items = Items::begin(&mut self.contents.bytes, tables.type_number(ty), count as u32);
        if is_choice {
            let mut choices = (0..).map_while(|at| tagged::find_class_of(program, ty, at));
            let Some(choice) = choices.position(|class| info.class == Some(class)) else {
                return Err(refused(tables, ty));
            };
            items.item(&mut self.contents.bytes, &Arg::Value(Value::Int(choice as i64)));
            if values.is_empty() {
                items.item(&mut self.contents.bytes, &Arg::Value(Value::Nil));
            }
        }
        for value in values {
            self.item(cx, &mut items, *value, depth)?;
        }
        items.end(&mut self.contents.bytes);
        Ok(())
    }

    fn item(
        &mut self,
        cx: &mut Cx,
        items: &mut Items,
        value: content::Value,
        depth: usize,
    ) -> Result<(), Stop> {
        let bytes = &mut self.contents.bytes;
        let word = value.word();
        let basic = match value.place().kind {
            PlaceKind::Object if is_compound(self.session.tables, value.place().ty) => {
                items.tag(bytes, tag::COMPOUND);
                return self.take(cx, word, depth + 1);
            }
            PlaceKind::Object => {
                self.session.hold(cx, word);
                self.contents.objects.push((bytes.len(), word));
                items.item(bytes, &Arg::Ref(Ref::NONE));
                return self.has_room();
            }
            // SAFETY: a place for strings has strings.
            PlaceKind::String => Value::Str(unsafe { object::text(word) }),
            // SAFETY: a place for bytes has bytes.
            PlaceKind::Bytes => Value::Bytes(unsafe { object::byte_slice(word) }),
            PlaceKind::Null | PlaceKind::Bool | PlaceKind::Int | PlaceKind::Real | PlaceKind::Char => {
                match value.meaning() {
                    Meaning::Bool(b) => Value::Bool(b),
                    Meaning::Int(i) => Value::Int(i),
                    Meaning::Real(r) => Value::Real(r),
                    Meaning::Char(c) => Value::Char(c),
                    _ => Value::Nil,
                }
            }
        };
        items.item(bytes, &Arg::Value(basic));
        self.has_room()
    }

    fn has_room(&self) -> Result<(), Stop> {
        if self.contents.bytes.len() > self.bytes_max { Err(self.too_long()) } else { Ok(()) }
    }
}

impl Session {
    /// Takes the contents of an object into those of the batch; their number there.
    fn take(&mut self, cx: &mut Cx, word: Word) -> Result<u32, Stop> {
        let mut contents = std::mem::take(&mut self.batch.contents);
        let begun = (contents.bytes.len(), contents.objects.len());
        let bytes_max = self.limits.size(Limit::ReplyBytes);
        let taken = Taker { session: self, contents: &mut contents, bytes_max }.take(cx, word, 1);
        let ends = (contents.bytes.len(), contents.objects.len());
        match &taken {
            Ok(()) => contents.ends.push(ends),
            Err(_) => {
                contents.bytes.truncate(begun.0);
                contents.objects.truncate(begun.1);
            }
        }
        self.batch.contents = contents;
        taken.map(|()| self.batch.contents.ends.len() as u32 - 1)
    }

    /// Executes `get`. A value is its own contents.
    pub(crate) fn get(&mut self, cx: &mut Cx, object: Ref) {
        let operand = match self.resolve(object, 0) {
            Ok(operand) => operand,
            Err(kind) => return self.fail_call(1, kind),
        };
        if !self.spend(cx, 1) {
            return;
        }
        if !operand.object {
            return self.make_one(cx, Future::Basic(operand.word, operand.ty));
        }
        // SAFETY: an operand marked as object is a reference.
        let ty = unsafe { Table::of(operand.word) }.info().ty;
        if matches!(ty, Types::STRING | Types::BYTES) {
            return self.make_one(cx, Future::Object(operand.word, ty));
        }
        match self.take(cx, operand.word) {
            Ok(index) => self.make_one(cx, Future::Contents(index)),
            Err(Stop::Refused(kind)) => self.fail_call(1, kind),
            Err(Stop::Ended(ret)) => self.fail_call(1, Cause::of(cx, ret, &Signature::default())),
        }
    }

    /// Takes the contents of the cells of wanted tables that cross by value. A table whose cells do
    /// not cross has failed.
    pub(crate) fn take_cells(&mut self, cx: &mut Cx, wanted: Ranges<'_>) {
        if self.batch.row_tables.is_empty() {
            return;
        }
        for position in wanted.positions() {
            let at = position as usize - 1;
            let Some(Future::Rows(index)) = self.batch.futures.get(at) else { continue };
            let failed = match self.take_table(cx, *index as usize) {
                Ok(()) => continue,
                Err(Stop::Refused(kind)) => self.fail_at(CallPlace::of(position), kind),
                Err(Stop::Ended(ret)) => {
                    let heading = Signature::default();
                    self.fail_at(CallPlace::of(position), Cause::of(cx, ret, &heading))
                }
            };
            if let Some(future) = self.batch.futures.get_mut(at) {
                *future = Future::Failed(failed);
            }
        }
    }

    fn take_table(&mut self, cx: &mut Cx, table: usize) -> Result<(), Stop> {
        for column in 0..self.batch.row_tables[table].columns.len() {
            let columns = &self.batch.row_tables[table];
            if !columns.taken[column].is_empty() || !is_compound(self.tables, columns.columns[column].ty) {
                continue;
            }
            let words = columns.cells(column).to_vec();
            let mut taken = Vec::with_capacity(words.len());
            for word in words {
                taken.push(self.take(cx, word)?);
            }
            self.batch.row_tables[table].taken[column] = taken;
        }
        Ok(())
    }

    /// Makes the object of a compound. Operands are as in [`Session::value`].
    #[inline(never)]
    pub(crate) fn compound(
        &self,
        cx: &mut Cx,
        compound: Compound<'_>,
        argument: u32,
        wanted: TypeId,
    ) -> Result<(Word, TypeId), FailureKind> {
        let tables = self.tables;
        let (program, image) = (tables.engine().program(), tables.engine().image());
        let shape = Shape::of(tables, compound, wanted)?;
        let mut words: SmallVec<[Word; 16]> = SmallVec::new();
        let numbers = match &shape {
            Shape::Elements(_, Types::INT) => compound.words(tag::INT),
            Shape::Elements(_, Types::REAL) => compound.words(tag::REAL),
            _ => None,
        };
        match numbers {
            Some(numbers) => {
                words.reserve(numbers.len());
                words.extend(numbers);
            }
            None => {
                for (at, item) in shape.items(compound).enumerate() {
                    words.push(self.item(cx, item, shape.part(at), argument)?);
                }
            }
        }
        let made = match &shape {
            Shape::Elements(ty, _) => cx.new_sequence(image.table_of(*ty), &[&words]),
            Shape::Fields(_, class, _) => cx.new_object(image.table_of(program.classes[*class].ty), &words),
        };
        Ok((self.made(cx, made)?, shape.ty()))
    }

    /// Returns the word of an item that must have this type.
    fn item(&self, cx: &mut Cx, item: Arg<'_>, wanted: TypeId, argument: u32) -> Result<Word, FailureKind> {
        let operand = match item {
            Arg::Ref(reference) => self.resolve(reference, argument)?,
            Arg::Value(value) => {
                let (word, ty) = self.value(cx, value, argument, wanted)?;
                Operand { word, ty, object: !self.tables.is_basic(ty) }
            }
        };
        self.check(operand, wanted, argument)
    }
}

/// The making of a compound's object.
pub(crate) enum Shape {
    /// A sequence of this type, and the type of its elements.
    Elements(TypeId, TypeId),
    /// An object of a class with these instance variables, which has this type.
    Fields(TypeId, ClassId, SmallVec<[TypeId; 8]>),
}

impl Shape {
    /// Returns the making of a compound whose items are as many as its type wants: its own type, or
    /// the wanted one if it says none.
    pub fn of(tables: &Tables, compound: Compound<'_>, wanted: TypeId) -> Result<Shape, FailureKind> {
        let wrong = |text: String| FailureKind::refused(ErrorNumber::WrongType, text);
        let program = tables.engine().program();
        let ty = match compound.ty().known() {
            None => wanted,
            Some(number) => tables.ty(number).ok_or_else(|| {
                let text = format!("there is no type number {}", number.0);
                FailureKind::refused(ErrorNumber::NoSuchType, text)
            })?,
        };
        let name = || tables.type_name(ty);
        let class_of = |tag| {
            let class = tagged::find_class_of(program, ty, tag);
            class.ok_or_else(|| wrong(format!("the server makes no `{}`", name())))
        };
        let fields = program.types.structure(ty).unwrap_or_default();
        match program.types.kind(ty) {
            TypeKind::Sequence(element) => Ok(Shape::Elements(ty, element)),
            TypeKind::Struct(_) if compound.len() == fields.len() => {
                Ok(Shape::Fields(ty, class_of(0)?, fields.iter().map(|field| field.ty).collect()))
            }
            TypeKind::Struct(_) => Err(wrong(format!(
                "`{}` has {} fields, and {} are given",
                name(),
                fields.len(),
                compound.len()
            ))),
            TypeKind::OneOf(_) | TypeKind::Maybe(_) => {
                let tag = match compound.iter().next() {
                    Some(Arg::Value(Value::Int(tag))) if compound.len() == 2 => usize::try_from(tag).ok(),
                    _ => None,
                };
                let found = tag.and_then(|tag| Some((tag, fields.get(tag)?)));
                let Some((tag, field)) = found else {
                    return Err(wrong(format!("a `{}` has the number of a tag, and its value", name())));
                };
                // A tag of `null` has no instance variable.
                let parts = [field.ty].into_iter().filter(|ty| *ty != Types::NULL);
                if field.ty == Types::NULL && compound.iter().nth(1) != Some(Arg::Value(Value::Nil)) {
                    return Err(wrong(format!(
                        "the tag `{}` of `{}` has no value but nil",
                        field.name,
                        name()
                    )));
                }
                Ok(Shape::Fields(ty, class_of(tag)?, parts.collect()))
            }
            TypeKind::Any => Err(wrong("the value needs a type where `any` is wanted".to_owned())),
            _ => Err(wrong(format!("objects of `{}` are not made by value: call a routine for it", name()))),
        }
    }

    /// Returns the type of the object.
    pub fn ty(&self) -> TypeId {
        match self {
            Shape::Elements(ty, _) | Shape::Fields(ty, ..) => *ty,
        }
    }

    /// Returns the type of an element or instance variable.
    pub fn part(&self, at: usize) -> TypeId {
        match self {
            Shape::Elements(_, element) => *element,
            Shape::Fields(_, _, parts) => parts.get(at).copied().unwrap_or(Types::NULL),
        }
    }

    /// Returns the items that are elements or instance variables.
    pub fn items<'a>(&self, compound: Compound<'a>) -> impl Iterator<Item = Arg<'a>> + use<'a> {
        let parts = match self {
            Shape::Elements(..) => compound.len(),
            Shape::Fields(_, _, parts) => parts.len(),
        };
        // The number of a tag comes first; behind it is no instance variable for nil.
        compound.iter().skip(compound.len() - parts)
    }
}
