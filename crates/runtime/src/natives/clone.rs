//! `clone e`: a deep copy that shares the objects that cannot change
//! (`docs/book/language/actors.md`).
//!
//! It works as a copying collector does: a copy begins as the words of its original, and stands in
//! a list from then on. Going through the list, each reference in a copy is replaced by that to a
//! copy of its object, made now if it is the first time. So cycles and sharing within the copy are
//! kept, and no depth needs stack. No code of the program runs meanwhile.

use bifrost_ir::{TypeId, TypeKind, Types};
use rustc_hash::{FxHashMap, FxHashSet};

use super::generic::{Step, attend};
use super::natives;
use crate::abi::{Ret, Word};
use crate::cx::Cx;
use crate::image::{Image, Table};
use crate::object;
use crate::reference::Object;
use crate::roots::Kept;

natives! {
    "clone" => clone / 2,
}

/// Room for copies in the list, at first.
const COPIES_MIN: usize = 16;

extern "C" fn clone(cx: &mut Cx, _desc: Word, original: Word) -> Ret {
    match cloned(cx, original) {
        Ok(copy) => Ret::of(copy),
        Err(ret) => ret,
    }
}

fn cloned(cx: &mut Cx, original: Word) -> Step<Word> {
    let mut cloning = Cloning::new(cx)?;
    let copy = cloning.copy_of(cx, original)?;
    let mut at = 0;
    while at < cloning.count {
        attend(cx)?;
        cloning.scan(cx, at)?;
        at += 1;
    }
    Ok(copy)
}

/// A deep copy under way.
struct Cloning {
    /// The copies, in the order in which they were made: a storage, which keeps them alive.
    copies: Kept,
    room: usize,
    count: usize,
    /// The copy of each original.
    copied: FxHashMap<Word, Word>,
    /// True if objects of a table are shared, by its address.
    shared: FxHashMap<usize, bool>,
}

impl Cloning {
    fn new(cx: &mut Cx) -> Step<Cloning> {
        let list = new_list(cx, COPIES_MIN)?;
        let (copied, shared) = (FxHashMap::default(), FxHashMap::default());
        Ok(Cloning { copies: cx.keep(list), room: COPIES_MIN, count: 0, copied, shared })
    }

    /// The object that stands for another in the copy.
    fn copy_of(&mut self, cx: &mut Cx, original: Word) -> Step<Word> {
        // SAFETY: what is not 0 is a reference: the operand, by its static type, and fields, by
        // their table's shape.
        if original == 0 || unsafe { Object::new(original) }.is_lasting() {
            return Ok(original);
        }
        // SAFETY: as above.
        let table = unsafe { Table::of(original) };
        let image = cx.image();
        let address = std::ptr::from_ref(table) as usize;
        let shared = self
            .shared
            .entry(address)
            .or_insert_with(|| is_shared(image, table.info().ty, &mut FxHashSet::default()));
        if *shared {
            return Ok(original);
        }
        if let Some(copy) = self.copied.get(&original) {
            return Ok(*copy);
        }
        if table.shape().finalizer().is_some() {
            let text = format!("an object of the native class `{}` cannot be cloned", table.info().name);
            return Err(cx.failure(&text));
        }
        super::generic::open(cx, original)?;
        // SAFETY: as above; no code runs that could change the object.
        let fields = unsafe { object::slice(original, 0, object::fields(original)) };
        let copy = cx.new_object(table.ordinary(), fields).map_err(|full| cx.out_of_memory(full))?;
        self.push(cx, copy)?;
        self.copied.insert(original, copy);
        Ok(copy)
    }

    fn push(&mut self, cx: &mut Cx, copy: Word) -> Step<()> {
        if self.count == self.room {
            let _copy = cx.keep(copy);
            let longer = new_list(cx, self.room * 2)?;
            for at in 0..self.count {
                // SAFETY: both lists have that many fields.
                unsafe { object::set(longer, at, object::get(self.copies.word(), at)) };
            }
            self.copies.set(longer);
            self.room *= 2;
        }
        // SAFETY: the list has room for one more.
        unsafe { object::set(self.copies.word(), self.count, copy) };
        self.count += 1;
        Ok(())
    }

    /// Replaces the references in a copy.
    fn scan(&mut self, cx: &mut Cx, at: usize) -> Step<()> {
        // SAFETY: the list has that many copies; fields by a table's shape are references or 0.
        unsafe {
            let copy = object::get(self.copies.word(), at);
            for field in Table::of(copy).shape().references(object::fields(copy)) {
                let inside = self.copy_of(cx, object::get(copy, field))?;
                object::set(copy, field, inside);
            }
        }
        Ok(())
    }
}

fn new_list(cx: &mut Cx, room: usize) -> Step<Word> {
    let table = cx.image().storage_table(Types::ANY);
    match cx.alloc(table, room) {
        Ok(list) => Ok(list.as_ptr() as Word),
        Err(full) => Err(cx.out_of_memory(full)),
    }
}

/// True if objects of a type, and all that they refer to, never change, or stand for something
/// outside the program's heap. `open` are classes that are being looked at.
fn is_shared(image: &Image, ty: TypeId, open: &mut FxHashSet<TypeId>) -> bool {
    let program = image.program();
    let def = program.types.def(ty);
    match def.kind {
        TypeKind::String
        | TypeKind::Bytes
        | TypeKind::Directory
        | TypeKind::Group(_)
        | TypeKind::Replier(_) => true,
        _ if def.actor => true,
        kind if kind.is_basic() => true,
        TypeKind::Sequence(element) | TypeKind::List(element) => is_shared(image, element, open),
        TypeKind::Object => def.immutable,
        TypeKind::Class(class) if def.immutable => {
            let fields = &program.classes[class].fields;
            !open.insert(ty) || fields.iter().all(|field| is_shared(image, field.ty, open))
        }
        _ => false,
    }
}
