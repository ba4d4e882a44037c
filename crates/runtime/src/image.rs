//! A program linked for running: classes' tables, routines' descriptors, and the entry of every
//! function.
//!
//! A table starts with the objects' [`Shape`], their [`ClassInfo`] and the mode, and then has one
//! entry for each slot of [`Dispatch`]. The entry of a method that never ran is a stub. It has the
//! method compiled, puts the code in its place in all tables that inherit it, and goes on into it.
//! Read [`Table`] first, then [`Image::link`].
//!
//! Images live as long as the process: code has their addresses inside, and objects point at their
//! tables. [`Image::link`] therefore leaks the tables that it makes, once for each program a
//! process loads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use bifrost_heap::Shape;
use bifrost_ir::dispatch::Dispatch;
use bifrost_ir::{
    Body, ClassId, FuncId, Literal, MethodId, MethodRef, Program, RoutineId, Signature, TypeId,
};
use cranelift_entity::EntityRef;

use crate::abi::{ARGS_MAX, Code, VALUES_MAX, Word, YIELDS_MAX};
use crate::actor_class::{ActorClass, Delivery, JoinLayout, State, Tables, delivery, exception_table};
use crate::content::Content;
use crate::cx::Cx;
pub use crate::element::ElementMethod;
use crate::engine::{Engine, Form, Interpreter, MethodEntry};
use crate::mode::{Mode, Modes};
use crate::native::{Natives, Persistence};
use crate::transfer::Transfer;

mod link;

use link::{changes, has_modes, references};
pub(crate) use link::{has_one_object, inner_table};

/// The facts that all objects of a class have in common.
#[derive(Debug)]
pub struct ClassInfo {
    /// For messages.
    pub name: String,
    /// The class's own type, or the built-in type.
    pub ty: TypeId,
    /// The class, unless the type is built in.
    pub class: Option<ClassId>,
    /// The type that clients know the object by: the first implemented type, or the built-in type.
    pub seen_as: TypeId,
    /// The element type of a container that is no map.
    pub element: Option<TypeId>,
    /// True if the objects are maps whose keys are equal if their words are, and only then.
    pub word_keys: bool,
    /// The basic type whose values the objects hold ([`bifrost_ir::boxed`]).
    pub boxed: Option<TypeId>,
    /// The way in which the values behind objects are stored, if the class is native and they can
    /// be.
    pub persistence: Option<Persistence>,
    /// The kind of contents of the objects.
    pub content: Content,
    /// The part of the objects that goes to other heaps.
    pub transfer: Transfer,
    /// A bit for each type that the object has.
    conforms: &'static [u64],
    /// The first word of `conforms`, for compiled code.
    conforms_start: &'static u64,
    /// For each slot the method of `ty` that fills it.
    pub methods: Vec<Option<MethodId>>,
    /// The further facts of a class of actors.
    actor: OnceLock<ActorClass>,
}

impl ClassInfo {
    /// True if the objects have this type.
    #[inline]
    pub fn has_type(&self, ty: TypeId) -> bool {
        let i = ty.index();
        self.conforms.get(i / 64).is_some_and(|w| w >> (i % 64) & 1 == 1)
    }

    /// The further facts of the class if it is one of actors.
    #[inline]
    pub fn actor(&self) -> Option<&ActorClass> {
        self.actor.get()
    }

    /// The offset of the address of the bits that [`ClassInfo::has_type`] tests, words of 64 each.
    pub const fn conforms_offset() -> i32 {
        std::mem::offset_of!(ClassInfo, conforms_start) as i32
    }
}

/// A mode table. Objects point at it; compiled code loads an entry at [`Table::entry_offset`].
#[derive(Debug)]
#[repr(C)]
pub struct Table {
    /// For the collector, which looks nowhere else.
    shape: &'static Shape,
    info: &'static ClassInfo,
    /// In the ordinary one entries are bodies.
    mode: Mode,
    /// The table of the same class in the ordinary mode.
    ordinary: &'static Table,
    /// Of an actor: its state.
    state: State,
    entries: [AtomicPtr<u8>; 0],
}

/// Words of a table before its entries.
pub(crate) const TABLE_WORDS: usize = 5;

impl Table {
    /// The byte offset of the address of the [`ClassInfo`].
    pub const INFO_OFFSET: i32 = std::mem::offset_of!(Table, info) as i32;

    /// The byte offset of a slot's entry.
    pub const fn entry_offset(slot: u32) -> i32 {
        8 * (TABLE_WORDS as i32 + slot as i32)
    }

    /// The work that a call to the objects must do first.
    #[inline]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The table of the same class in the ordinary mode: that of new objects.
    #[inline]
    pub fn ordinary(&self) -> &'static Table {
        self.ordinary
    }

    /// In which state the actors are that have the table.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    /// The fields of the objects that are references.
    pub fn shape(&self) -> &'static Shape {
        self.shape
    }

    /// The facts that the objects have in common.
    #[inline]
    pub fn info(&self) -> &'static ClassInfo {
        self.info
    }

    /// The code at a slot.
    ///
    /// # Safety
    /// The slot is one that the class fills, as every slot of a method of a type that the object
    /// has is.
    #[inline]
    pub unsafe fn entry(&self, slot: u32) -> Code {
        // SAFETY: tables are made with as many entries as `Dispatch` has slots.
        let entry = unsafe { &*self.entries.as_ptr().add(slot as usize) };
        // Acquire: pairs with the Release in `set`; the code's bytes are written before its
        // address.
        Code(entry.load(Ordering::Acquire))
    }

    /// Changes the entry of a slot, one of the class's own: it is code of the same arity.
    pub fn set(&self, slot: u32, code: Code) {
        // SAFETY: as in `entry`; callers go through the class's own list of slots.
        let entry = unsafe { &*self.entries.as_ptr().add(slot as usize) };
        entry.store(code.0.cast_mut(), Ordering::Release);
    }

    /// The table of an object.
    ///
    /// # Safety
    /// `object` is a reference, not the word of a basic value.
    #[inline]
    pub unsafe fn of(object: Word) -> &'static Table {
        // SAFETY: the first word of every object is the address of a table, and tables are never
        // freed.
        unsafe { *(object as *const &'static Table) }
    }
}

/// The first word that a call of a routine passes.
#[derive(Debug)]
#[repr(C)]
pub struct RoutineDesc {
    /// The code to enter, at offset 0.
    code: AtomicPtr<u8>,
    /// The routine.
    pub routine: RoutineId,
    /// The table of its result's class, for the creators of built-in objects.
    pub table: Option<&'static Table>,
    /// Its name.
    pub name: String,
}

impl RoutineDesc {
    /// The code.
    #[inline]
    pub fn code(&self) -> Code {
        // Acquire: as in `Table::entry`.
        Code(self.code.load(Ordering::Acquire))
    }

    /// The descriptor that a native routine was entered with.
    ///
    /// # Safety
    /// `word` is the first word of a call of a routine.
    #[inline]
    pub unsafe fn of(word: Word) -> &'static RoutineDesc {
        // SAFETY: promised by the caller; descriptors are never freed.
        unsafe { &*(word as *const RoutineDesc) }
    }
}

/// The reasons for which a program cannot be linked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum LinkError {
    #[error("`{name}` takes {words} words, and {ARGS_MAX} is the limit of a call")]
    TooManyArguments { name: String, words: usize },
    #[error("`{name}` has {values} results or exception values, and {VALUES_MAX} is the limit")]
    TooManyResults { name: String, values: usize },
    #[error("`{name}` yields {values} values at a step, and {YIELDS_MAX} is the limit")]
    TooManyYields { name: String, values: usize },
    #[error("`{name}` is declared native, but no native of that name is registered")]
    NoNative { name: String },
    #[error("`{declared}` is declared native, but the heading of the native is `{found}`")]
    NativeMismatch { declared: String, found: String },
}

/// The number of words that a call passes after the context: receiver or descriptor, arguments,
/// closure.
pub fn arity(signature: &Signature) -> usize {
    1 + signature.params.len() + usize::from(signature.is_iterator())
}

/// A linked program.
pub struct Image {
    program: Program,
    dispatch: Dispatch,
    engine: Option<Arc<dyn Engine>>,
    /// By type: the table of a built-in type's objects, or of the class whose own type it is.
    tables: Vec<Option<&'static Table>>,
    routines: Vec<&'static RoutineDesc>,
    /// The code of each function, once compiled.
    codes: Vec<OnceLock<Code>>,
    /// Natives of basic types' methods, by type and method.
    basics: HashMap<MethodRef, Code>,
    /// The functions that embedders added.
    added: Natives,
    /// The tables of native classes by their Rust names.
    native_tables: HashMap<String, &'static Table>,
    /// Of basic values, and of references.
    storage: [&'static Table; 2],
    /// Pairs of which one is a reference: the first, the second.
    pairs: [&'static Table; 2],
    data: &'static Table,
    /// By type: the slots of the methods by which containers treat elements, for types that declare
    /// them.
    element_slots: Vec<[Option<u32>; ElementMethod::ALL.len()]>,
    empty_string: Word,
    literals: Vec<Word>,
    /// By class: the one object of a class whose objects never change and hold nothing.
    lasting: Vec<Option<Word>>,
    /// The layout of the joins of each function, once one was prepared.
    joins: Vec<OnceLock<JoinLayout>>,
    /// The tables of kept exceptions, by which of their values are references.
    exceptions: Mutex<HashMap<u32, &'static Table>>,
    /// The tables of the objects that belong to all programs with actors.
    pub of_actors: Tables,
    signals: WellKnownSignals,
    interpreter: OnceLock<Arc<dyn Interpreter>>,
    modes: Option<Modes>,
}

/// The exceptions that the runtime itself raises often.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the exceptions of those names")]
pub struct WellKnownSignals {
    pub overflow: bifrost_ir::SignalId,
    pub zero: bifrost_ir::SignalId,
    pub bounds: bifrost_ir::SignalId,
    pub not_possible: bifrost_ir::SignalId,
    pub empty: bifrost_ir::SignalId,
    pub illegal_char: bifrost_ir::SignalId,
    pub not_found: bifrost_ir::SignalId,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({} types, {} functions)", self.program.types.len(), self.program.funcs.len())
    }
}

impl Image {
    /// The program.
    #[inline]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The slots of all methods.
    #[inline]
    pub fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }

    /// The places of the tables of a class, if its objects may be in modes other than the ordinary
    /// one.
    #[inline]
    pub fn modes(&self) -> Option<&Modes> {
        self.modes.as_ref()
    }

    /// True if objects of a type may be in modes other than the ordinary one.
    pub fn has_modes(&self, ty: TypeId) -> bool {
        self.modes.is_some() && has_modes(self.program.types.def(ty))
    }

    /// The engine that made the machine code, if functions run as such.
    #[inline]
    pub fn engine(&self) -> Option<&Arc<dyn Engine>> {
        self.engine.as_ref()
    }

    /// An entry for machine code to a function written in Rust ([`Engine::native_entry`]).
    pub fn native_entry(&self, code: Code, arity: usize, references: u32) -> Code {
        self.engine.as_ref().map_or(code, |engine| engine.native_entry(code, arity, references))
    }

    /// True if functions run as machine code; otherwise only the interpreter runs them.
    #[inline]
    pub fn has_engine(&self) -> bool {
        self.engine.is_some()
    }

    /// Sets the interpreter, once, right after linking.
    pub fn set_interpreter(&self, interpreter: Arc<dyn Interpreter>) {
        // A second one would be the same kind; the first stays.
        let _ = self.interpreter.set(interpreter);
    }

    /// The interpreter, for functions that have no machine code.
    pub fn interpreter(&self) -> Option<&Arc<dyn Interpreter>> {
        self.interpreter.get()
    }

    /// Enters the layout of the joins of a function; the first call for a function holds.
    pub fn set_join_layout(&self, func: FuncId, make: impl FnOnce() -> JoinLayout) {
        self.joins[func.index()].get_or_init(make);
    }

    /// The layout of the joins of a function, if that was said.
    #[inline]
    pub fn join_layout(&self, func: FuncId) -> Option<&JoinLayout> {
        self.joins[func.index()].get()
    }

    /// The table of kept exceptions of which these values are references.
    pub fn exception_table(&self, references: u32) -> &'static Table {
        let mut tables = self.exceptions.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tables.entry(references).or_insert_with(|| exception_table(references))
    }

    /// The ids of often raised exceptions.
    pub fn signals(&self) -> &WellKnownSignals {
        &self.signals
    }

    /// The table of a built-in type's objects, or of the class whose own type this is.
    ///
    /// # Panics
    /// For basic types and for types that are not implemented by themselves: asking is a mistake of
    /// ours.
    pub fn table_of(&self, ty: TypeId) -> &'static Table {
        self.tables[ty.index()].expect("a type with objects of its own")
    }

    /// The table of a type that has objects of its own.
    pub fn find_table(&self, ty: TypeId) -> Option<&'static Table> {
        self.tables.get(ty.index()).copied().flatten()
    }

    /// The tables of all classes, and of all built-in types that have objects.
    pub fn tables(&self) -> impl Iterator<Item = &'static Table> {
        self.tables.iter().filter_map(|table| *table)
    }

    /// The table of the pairs behind a map, by the types of keys and values; has no methods.
    pub fn pairs_table(&self, key: TypeId, value: TypeId) -> &'static Table {
        match [key, value].map(|ty| self.is_reference(ty)) {
            [true, false] => self.pairs[0],
            [false, true] => self.pairs[1],
            [_, both] => self.storage[usize::from(both)],
        }
    }

    /// The table of the storage behind containers, by the type of the elements; has no methods.
    pub fn storage_table(&self, element: TypeId) -> &'static Table {
        self.storage[usize::from(self.is_reference(element))]
    }

    /// True if words of a static type are references.
    #[inline]
    pub fn is_reference(&self, ty: TypeId) -> bool {
        !self.program.types.kind(ty).is_basic()
    }

    /// The functions that embedders added to the built-in ones.
    pub fn natives(&self) -> &Natives {
        &self.added
    }

    /// The table of a native class by its Rust name, if the program declares it.
    pub fn native_table(&self, name: &str) -> Option<&'static Table> {
        self.native_tables.get(name).copied()
    }

    /// The table of words that are no references, behind maps; has no methods.
    pub fn data_table(&self) -> &'static Table {
        self.data
    }

    /// The slot of a method by which containers treat elements of a user's type, if the type
    /// declares it.
    pub fn element_slot(&self, ty: TypeId, method: ElementMethod) -> Option<u32> {
        self.element_slots[ty.index()][method as usize]
    }

    /// The reference of the string without characters.
    pub fn empty_string(&self) -> Word {
        self.empty_string
    }

    /// The reference of a string of the program's text. It lasts as long as the image, and all
    /// contexts share it.
    #[inline]
    pub fn literal(&self, literal: Literal) -> Word {
        self.literals[literal.index()]
    }

    /// The one object of a class whose objects never change and hold nothing: there is no need for
    /// another. It lasts as long as the image, and all contexts share it.
    #[inline]
    pub fn lasting(&self, class: ClassId) -> Option<Word> {
        self.lasting[class.index()]
    }

    /// The descriptor of a routine.
    #[inline]
    pub fn routine(&self, routine: RoutineId) -> &'static RoutineDesc {
        self.routines[routine.index()]
    }

    /// The native function of a basic type's method that is not an operation.
    pub fn basic_native(&self, m: MethodRef) -> Option<Code> {
        self.basics.get(&m).copied()
    }

    /// The position in the tables of actors of the entry for messages of a form to the slot's
    /// method.
    pub fn entry(&self, slot: u32, form: Form) -> u32 {
        entry_of(&self.dispatch, slot, form)
    }

    /// The function that a class's table has at a slot; `None` for natives.
    pub fn method_func(&self, info: &ClassInfo, slot: u32) -> Option<FuncId> {
        let method = info.methods.get(slot as usize).copied().flatten()?;
        match self.program.classes[info.class?].bodies[method.index()] {
            Body::Func(func) => Some(func),
            Body::Native(_) => None,
        }
    }

    /// True if a class's table has a native at a slot that may change its receiver. Functions ask
    /// where they change a field.
    pub fn native_changes(&self, info: &ClassInfo, slot: u32) -> bool {
        let Some(method) = info.methods.get(slot as usize).copied().flatten() else { return false };
        self.method_func(info, slot).is_none() && changes(&self.program, &self.added, info.ty, method)
    }

    /// The code of a function, compiled now if it never was.
    ///
    /// # Panics
    /// Without an engine: only stubs and compiled code get here.
    pub fn code(&self, func: FuncId) -> Code {
        let engine = self.engine.as_ref().expect("an image that runs code has an engine");
        *self.codes[func.index()].get_or_init(|| engine.compile(self, func))
    }

    /// The code of a method, for a stub that was entered through `table`; from now on the table has
    /// it.
    pub fn method_code(&self, table: &Table, slot: u32) -> Code {
        let info = table.info();
        let func = self.method_func(info, slot).expect("stubs stand only for functions");
        let code = self.code(func);
        // A function may fill several slots of one class, and be inherited by others: each puts it
        // in place at its first call.
        let Some(class) = info.actor() else {
            table.set(slot, code);
            return code;
        };
        class.code.set(slot, code);
        let method = info.methods[slot as usize].expect("the class has what it runs");
        let Some(engine) = &self.engine else { return code };
        let types = &self.program.types;
        let signature = &types.def(info.ty).methods[method].signature;
        let (arity, references) = (arity(signature), references(types, true, signature));
        let entry = MethodEntry { class, method, slot, arity, references };
        for (state, form) in State::ALL.into_iter().flat_map(|state| Form::ALL.map(|form| (state, form))) {
            let entered = match delivery(state) {
                Delivery::Call => {
                    let plain = class.message(method).stays_at_rest;
                    let plain = plain.then(|| engine.plain_entry(self, entry, form, func)).flatten();
                    plain.or_else(|| {
                        let guard = class.guard(method).map(|guard| self.code(guard));
                        engine.resting_entry(entry, form, code, guard)
                    })
                }
                Delivery::Queue => engine.queueing_entry(entry, form),
                // The stubs that linking has entered send the message. Those to other nodes get
                // code once there were many.
                Delivery::Offer | Delivery::Refuse | Delivery::Send => None,
            };
            if let Some(entered) = entered {
                class.table(state).set(self.entry(slot, form), entered);
            }
        }
        code
    }

    /// The code of a routine, for a stub that was entered with `desc`; from now on the descriptor
    /// has it.
    pub fn routine_code(&self, desc: &RoutineDesc) -> Code {
        let Body::Func(func) = self.program.routines[desc.routine].body else {
            unreachable!("stubs stand only for functions")
        };
        let code = self.code(func);
        // Release: pairs with the Acquire in `RoutineDesc::code`.
        desc.code.store(code.0.cast_mut(), Ordering::Release);
        code
    }
}

/// See [`Image::entry`].
fn entry_of(dispatch: &Dispatch, slot: u32, form: Form) -> u32 {
    match form {
        Form::Request => slot,
        Form::Past => dispatch.table_len() + slot,
    }
}

/// Helper calls of stubs. See [`Engine::method_stub`] and [`Engine::routine_stub`].
pub mod helper {
    use super::{Code, Cx, RoutineDesc, Table, Word};

    /// The code to go on into: `receiver` was called through `slot`.
    ///
    /// # Safety
    /// `cx` is the current context, `receiver` an object whose class fills the slot with a
    /// function.
    pub unsafe extern "C" fn method_code(cx: *mut Cx, receiver: Word, slot: u64) -> *const u8 {
        // SAFETY: promised by the stub.
        let (image, table) = unsafe { ((*cx).image().clone(), Table::of(receiver)) };
        let Code(code) = image.method_code(table, slot as u32);
        code
    }

    /// The code to go on into: the routine of this descriptor was called.
    ///
    /// # Safety
    /// `cx` is the current context, `desc` the descriptor of a routine that is a function.
    pub unsafe extern "C" fn routine_code(cx: *mut Cx, desc: Word) -> *const u8 {
        // SAFETY: promised by the stub.
        let (image, desc) = unsafe { ((*cx).image().clone(), RoutineDesc::of(desc)) };
        let Code(code) = image.routine_code(desc);
        code
    }
}
