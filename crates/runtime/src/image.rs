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
    Body, ClassId, FuncId, Literal, MethodId, MethodRef, Program, RoutineId, Signature, TypeDef, TypeId,
    TypeKind, Types, boxed,
};
use cranelift_entity::EntityRef;

use crate::abi::{ARGS_MAX, Code, Ret, VALUES_MAX, Word, YIELDS_MAX};
use crate::actor::layout::{Tables, exception_table, mail_field, replier_shape};
use crate::actor::{ActorClass, JoinLayout, State};
use crate::content::Content;
use crate::cx::Cx;
pub use crate::element::ElementMethod;
use crate::engine::{Engine, Form, Interpreter, MethodEntry};
use crate::mode::{Mode, Modes};
use crate::native::{Natives, Persistence};
use crate::transfer::Transfer;
use crate::{natives, object};

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

    pub(crate) fn set(&self, slot: u32, code: Code) {
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
    #[error("`{name}` takes {words} words, and {ARGS_MAX} are the most a call can pass")]
    TooManyArguments { name: String, words: usize },
    #[error("`{name}` has {values} results or exception values, and {VALUES_MAX} are the most")]
    TooManyResults { name: String, values: usize },
    #[error("`{name}` yields {values} values at a step, and {YIELDS_MAX} are the most")]
    TooManyYields { name: String, values: usize },
    #[error("`{name}` is declared native, but no native of that name is registered")]
    NoNative { name: String },
    #[error("`{declared}` is declared native, but the native takes and gives `{found}`")]
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
    pub(crate) of_actors: Tables,
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
    /// Links a verified program. Without an engine only the interpreter can run its functions.
    ///
    /// # Errors
    /// [`LinkError`]; nothing is kept.
    pub fn link(program: Program, engine: Option<Arc<dyn Engine>>) -> Result<Arc<Image>, LinkError> {
        Image::link_with(program, engine, Natives::default(), false)
    }

    /// Links a verified program that may use these natives. With `modes` objects may be in modes
    /// other than the ordinary one, so that they can be kept in a repository.
    ///
    /// # Errors
    /// [`LinkError`]; nothing is kept.
    pub fn link_with(
        mut program: Program,
        engine: Option<Arc<dyn Engine>>,
        added: Natives,
        modes: bool,
    ) -> Result<Arc<Image>, LinkError> {
        let signals = well_known_signals(&mut program.types);
        check_sizes(&program)?;
        let dispatch = Dispatch::new(&program);
        let modes = modes.then(|| Modes::new(dispatch.table_len()));
        let natives = natives::registry();
        // Machine code enters natives so that references among their words are found.
        let entry = |code: Code, method: bool, signature: &Signature| match &engine {
            Some(engine) => {
                engine.native_entry(code, arity(signature), references(&program.types, method, signature))
            }
            None => code,
        };
        let find = |key: &str, method: bool, signature: &Signature| {
            let code = natives.get(key).ok_or_else(|| LinkError::NoNative { name: key.to_owned() })?;
            Ok(entry(*code, method, signature))
        };
        let find_body = |name: &str, method: bool, signature: &Signature| match added.find(name) {
            Some(native) if bifrost_ir::native::conforms(&program, &native.heading, signature) => {
                Ok(entry(native.code, method, signature))
            }
            Some(native) => Err(LinkError::NativeMismatch {
                declared: program.types.heading(name, signature),
                found: native.heading.to_string(),
            }),
            None => find(name, method, signature),
        };

        let mut tables: Vec<Option<&'static Table>> = vec![None; program.types.len()];
        let mut basics = HashMap::new();
        for (ty, def) in program.types.iter() {
            let built_in = def.kind.is_basic() || bifrost_ir::builtin::has_table(def.kind);
            if !built_in && !matches!(def.kind, TypeKind::Class(_)) {
                continue;
            }
            let mut natives_of = Vec::new();
            for (method, m) in def.methods.iter() {
                if let Some(row) = m.builtin
                    && !(def.kind.is_basic() && row.op.is_some())
                {
                    let receiver = !def.kind.is_basic();
                    natives_of.push((method, find(&row.key(), receiver, &m.signature)?));
                }
            }
            if let TypeKind::Class(class) = def.kind {
                for ((method, m), body) in def.methods.iter().zip(&program.classes[class].bodies) {
                    if let Body::Native(native) = body {
                        natives_of.push((method, find_body(&program.natives[*native], true, &m.signature)?));
                    }
                }
            }
            if def.kind.is_basic() {
                basics.extend(natives_of.into_iter().map(|(method, code)| (MethodRef { ty, method }, code)));
                continue;
            }
            let info: &'static ClassInfo = Box::leak(Box::new(class_info(&program, &dispatch, &added, ty)));
            let shape: &'static Shape = Box::leak(Box::new(shape(&program, def.kind)));
            let own = modes.as_ref().filter(|_| has_modes(def));
            // Messages to actors have an entry for each form.
            let forms = if mail_field(&program, def.kind).is_some() { Form::ALL.len() as u32 } else { 1 };
            let table = make_table(shape, info, forms * dispatch.table_len(), own);
            make_actor_class(&program, forms * dispatch.table_len(), def.kind, table);
            for (slot, method) in (0_u32..).zip(&info.methods) {
                let Some(method) = method else { continue };
                let m = &def.methods[*method];
                let code = natives_of.iter().find(|(m, _)| m == method).map(|(_, code)| *code);
                let native = code.is_some();
                let arity = arity(&m.signature);
                let code = code.or_else(|| engine.as_ref().map(|e| e.method_stub(slot, arity)));
                let Some(code) = code else { continue };
                let references = references(&program.types, true, &m.signature);
                if let (Some(class), Some(engine)) = (info.actor(), &engine) {
                    class.code.set(slot, code);
                    for form in Form::ALL {
                        let stub = engine.message_stub(slot, arity, references, form);
                        let at = entry_of(&dispatch, slot, form);
                        class.tables.iter().for_each(|table| table.set(at, stub));
                    }
                    continue;
                }
                table.set(slot, code);
                let Some(modes) = own else { continue };
                modes.table(table, Mode::Clean).set(slot, code);
                // Without machine code, `invoke` opens receivers.
                let Some(engine) = &engine else { continue };
                let stub = |changes| engine.mode_stub(slot, arity, references, changes);
                if native && changes(&program, &added, ty, *method) {
                    modes.table(table, Mode::Clean).set(slot, stub(true));
                }
                modes.table(table, Mode::Unread).set(slot, stub(false));
                modes.table(table, Mode::Absent).set(slot, stub(false));
            }
            tables[ty.index()] = Some(table);
        }

        let mut routines = Vec::new();
        for (routine, def) in program.routines.iter() {
            let code = match def.body {
                Body::Native(native) => find_body(&program.natives[native], false, &def.signature)?,
                Body::Func(_) => match &engine {
                    Some(engine) => engine.routine_stub(arity(&def.signature)),
                    None => Code(std::ptr::null()),
                },
            };
            let table = def.signature.results.first().and_then(|ty| tables[ty.index()]);
            routines.push(&*Box::leak(Box::new(RoutineDesc {
                code: AtomicPtr::new(code.0.cast_mut()),
                routine,
                table,
                name: def.name.clone(),
            })));
        }

        let strings = tables[Types::STRING.index()].expect("strings have a table");
        let empty_string = object::lasting_string(strings, "");
        let literals = program.literals.values().map(|text| object::lasting_string(strings, text)).collect();
        let lasting = program.classes.iter().map(|(id, class)| {
            has_one_object(&program, id)
                .then(|| object::lasting_object(tables[class.ty.index()].expect("classes have tables"), 0))
        });
        let lasting = lasting.collect();
        let codes = program.funcs.iter().map(|_| OnceLock::new()).collect();
        let joins = program.funcs.iter().map(|_| OnceLock::new()).collect();
        let element_slots = element_slots(&program, &dispatch);
        let native_tables = program.native_classes.iter().map(|(class, name)| {
            (name.clone(), tables[program.classes[*class].ty.index()].expect("classes have tables"))
        });
        let native_tables = native_tables.collect();
        Ok(Arc::new(Image {
            added,
            native_tables,
            program,
            dispatch,
            engine,
            tables,
            routines,
            codes,
            basics,
            storage: [Shape::leaf(), Shape::tail_from(0)].map(|shape| inner_table("storage", shape)),
            pairs: [0, 1].map(|from| inner_table("pairs", Shape::every_second_from(from))),
            data: inner_table("data", Shape::leaf()),
            element_slots,
            empty_string,
            literals,
            lasting,
            joins,
            exceptions: Mutex::default(),
            of_actors: Tables::new(),
            signals,
            interpreter: OnceLock::new(),
            modes,
        }))
    }

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
    pub(crate) fn exception_table(&self, references: u32) -> &'static Table {
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
        for form in Form::ALL {
            let at = self.entry(slot, form);
            let plain = class.message(method).stays_at_rest;
            let plain = plain.then(|| engine.plain_entry(self, entry, form, func)).flatten();
            let resting = plain.or_else(|| {
                let guard = class.guard(method).map(|guard| self.code(guard));
                engine.resting_entry(entry, form, code, guard)
            });
            if let Some(resting) = resting {
                class.table(State::Dormant).set(at, resting);
            }
            if let Some(queueing) = engine.queueing_entry(entry, form) {
                class.table(State::Active).set(at, queueing);
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

fn well_known_signals(types: &mut Types) -> WellKnownSignals {
    WellKnownSignals {
        overflow: types.signal("overflow"),
        zero: types.signal("zero"),
        bounds: types.signal("bounds"),
        not_possible: types.signal("not_possible"),
        empty: types.signal("empty"),
        illegal_char: types.signal("illegal_char"),
        not_found: types.signal("not_found"),
    }
}

fn check_sizes(program: &Program) -> Result<(), LinkError> {
    let check = |name: String, signature: &Signature| {
        let yields = signature.yields.as_ref().map_or(0, Vec::len);
        if yields > YIELDS_MAX {
            return Err(LinkError::TooManyYields { name, values: yields });
        }
        let words = arity(signature);
        if words > ARGS_MAX {
            return Err(LinkError::TooManyArguments { name, words });
        }
        let values = signature.signals.iter().map(|s| s.values.len()).max().unwrap_or(0);
        let values = values.max(signature.results.len());
        if values > VALUES_MAX {
            return Err(LinkError::TooManyResults { name, values });
        }
        Ok(())
    };
    for (_, def) in program.types.iter() {
        for m in def.methods.values() {
            check(format!("{}.{}", def.name, m.name), &m.signature)?;
        }
    }
    for routine in program.routines.values() {
        check(routine.name.clone(), &routine.signature)?;
    }
    Ok(())
}

/// True if one object of a class is enough: its objects never change and hold nothing.
pub(crate) fn has_one_object(program: &Program, class: ClassId) -> bool {
    let def = &program.classes[class];
    def.fields.is_empty() && program.native_class(class).is_none() && program.types.def(def.ty).immutable
}

fn class_info(program: &Program, dispatch: &Dispatch, added: &Natives, ty: TypeId) -> ClassInfo {
    let def = program.types.def(ty);
    let mut conforms = vec![0_u64; program.types.len().div_ceil(64)];
    for (sup, _) in program.types.iter() {
        if program.types.is_subtype(ty, sup) {
            conforms[sup.index() / 64] |= 1 << (sup.index() % 64);
        }
    }
    let conforms: &'static [u64] = Box::leak(conforms.into_boxed_slice());
    ClassInfo {
        name: def.name.clone(),
        ty,
        class: match def.kind {
            TypeKind::Class(class) => Some(class),
            _ => None,
        },
        seen_as: match def.kind {
            TypeKind::Class(_) if !def.actor || !def.public => {
                def.supertypes.first().map_or(Types::ANY, |s| s.ty)
            }
            _ => ty,
        },
        element: def.kind.element(),
        word_keys: matches!(def.kind, TypeKind::Map(key, _) if is_word(program.types.kind(key))),
        boxed: match def.kind {
            TypeKind::Class(class) => boxed::held(program, class),
            _ => None,
        },
        persistence: match def.kind {
            TypeKind::Class(class) => program.native_class(class).and_then(|name| added.persistence(name)),
            _ => None,
        },
        content: Content::new(program, ty),
        transfer: Transfer::new(program, ty),
        conforms,
        conforms_start: &conforms[0],
        methods: dispatch.type_table(program, ty).into_iter().map(|m| m.map(MethodId::from_u32)).collect(),
        actor: OnceLock::new(),
    }
}

/// The entry of a slot without a method: calling it is a mistake of ours, and ends the batch with a
/// failure instead of the process.
extern "C" fn no_method(cx: *mut Cx) -> Ret {
    // SAFETY: every function is entered with the current context.
    unsafe { (*cx).exhausted("internal error: a method without body was called") }
}

/// The slots of [`ElementMethod`]s, by type.
fn element_slots(program: &Program, dispatch: &Dispatch) -> Vec<[Option<u32>; ElementMethod::ALL.len()]> {
    let declared = |kind| matches!(kind, TypeKind::Object | TypeKind::Class(_));
    let slot = |ty, method: ElementMethod| {
        let found = bifrost_ir::builtin::element_method(&program.types, ty, method.name())?;
        Some(dispatch.slot(found))
    };
    let slots = program.types.iter().map(|(ty, def)| match declared(def.kind) {
        true => ElementMethod::ALL.map(|method| slot(ty, method)),
        false => Default::default(),
    });
    slots.collect()
}

/// Enters the further facts of a class of actors, with a table for each state.
fn make_actor_class(program: &Program, slots: u32, kind: TypeKind, dormant: &'static Table) {
    let (info, shape) = (dormant.info, dormant.shape);
    let tables = State::ALL.map(|state| match state {
        State::Dormant => dormant,
        _ if mail_field(program, kind).is_none() => dormant,
        _ => {
            let far: &'static Shape = Box::leak(Box::default());
            let shape = if state == State::Remote { far } else { shape };
            let table = make_table(shape, info, slots, None);
            // SAFETY: the table was just made, and nobody else has it.
            unsafe { set_table_state(table, dormant, state) };
            table
        }
    });
    if mail_field(program, kind).is_none() {
        return;
    }
    let code = make_table(shape, info, slots, None);
    if let Some(class) = ActorClass::new(program, kind, tables, code) {
        // Nobody else has it yet.
        let _ = info.actor.set(class);
    }
}

/// The table of objects inside others, which programs do not see.
pub(crate) fn inner_table(name: &str, shape: Shape) -> &'static Table {
    let info = ClassInfo {
        name: name.to_owned(),
        ty: Types::ANY,
        class: None,
        seen_as: Types::ANY,
        element: None,
        word_keys: false,
        boxed: None,
        persistence: None,
        content: Content::Whole,
        transfer: Transfer::Never("it is part of another object"),
        conforms: &[0],
        conforms_start: &0,
        methods: Vec::new(),
        actor: OnceLock::new(),
    };
    make_table(Box::leak(Box::new(shape)), Box::leak(Box::new(info)), 0, None)
}

/// The words after the context of a call with this heading that are references: a bit for each.
fn references(types: &Types, method: bool, signature: &Signature) -> u32 {
    let first = u32::from(method);
    let bits = signature.params.iter().enumerate();
    bits.fold(first, |all, (i, param)| all | u32::from(!types.kind(param.ty).is_basic()) << (i + 1))
}

/// The fields of the objects of a type that are references.
fn shape(program: &Program, kind: TypeKind) -> Shape {
    let reference = |ty: &TypeId| !program.types.kind(*ty).is_basic();
    let fields = |element: TypeId, field: usize| reference(&element).then_some(field as u32);
    match kind {
        TypeKind::Class(class) if program.native_class(class).is_some() => {
            Shape::leaf().with_finalizer(crate::native::finalize)
        }
        TypeKind::Class(class) => {
            let fields = (0..).zip(&program.classes[class].fields);
            let fields = fields.filter(|(_, field)| reference(&field.ty)).map(|(i, _)| i);
            Shape::of(fields.chain(mail_field(program, kind).map(|field| field as u32)))
        }
        TypeKind::Array(_) => Shape::of([object::array::STORAGE as u32]),
        TypeKind::Sequence(element) | TypeKind::Group(element) if reference(&element) => {
            Shape::tail_from(object::sequence::ELEMENTS as u32)
        }
        TypeKind::Vector(element) if reference(&element) => Shape::tail_from(object::vector::ELEMENTS as u32),
        TypeKind::Directory => Shape::of([object::directory::STORAGE as u32]),
        TypeKind::Map(..) => {
            use object::map::{ENTRIES, INDEX, META};
            Shape::of([INDEX, META, ENTRIES].map(|field| field as u32))
        }
        TypeKind::List(element) => {
            Shape::of(fields(element, object::list::FIRST).into_iter().chain([object::list::NEXT as u32]))
        }
        TypeKind::Cell(element) => Shape::of(fields(element, object::cell::VALUE)),
        TypeKind::Replier(result) => replier_shape(reference(&result)),
        _ => Shape::leaf(),
    }
}

/// True if values of a kind are equal if their words are, and only then.
fn is_word(kind: TypeKind) -> bool {
    kind.is_basic() && kind != TypeKind::Real
}

/// True if a method that is written in Rust may change its receiver.
fn changes(program: &Program, added: &Natives, ty: TypeId, method: MethodId) -> bool {
    let def = program.types.def(ty);
    match (def.methods[method].builtin, def.kind) {
        (Some(row), _) => row.changes(),
        (None, TypeKind::Class(class)) => {
            let name = program.native_name(program.classes[class].bodies[method.index()]);
            name.and_then(|name| added.find(name)).is_some_and(|native| native.changes)
        }
        _ => false,
    }
}

/// True if objects of a kind can be in modes other than the ordinary one. Strings and bytes never
/// change and are part of the objects that refer to them; actors have states instead.
fn has_modes(def: &TypeDef) -> bool {
    !matches!(def.kind, TypeKind::String | TypeKind::Bytes) && !def.actor
}

/// Makes a table that of another state.
///
/// # Safety
/// Nobody else has the table yet.
unsafe fn set_table_state(table: &'static Table, dormant: &'static Table, state: State) {
    let words = std::ptr::from_ref(table).cast::<Word>().cast_mut();
    // SAFETY: promised by the caller; the layout is that of `make_table`, whose memory is writable.
    unsafe {
        words.add(3).write(std::ptr::from_ref(dormant) as Word);
        words.add(4).write(state as Word);
    }
}

/// The table of a class in the ordinary mode; with `modes` those of the other modes lie behind it.
fn make_table(
    shape: &'static Shape,
    info: &'static ClassInfo,
    slots: u32,
    modes: Option<&Modes>,
) -> &'static Table {
    let all: &[Mode] = if modes.is_some() { &Mode::ALL } else { &[Mode::Ordinary] };
    let first = match modes {
        Some(modes) => modes.room(),
        None => Box::leak(vec![0 as Word; TABLE_WORDS + slots as usize].into_boxed_slice()).as_mut_ptr(),
    };
    for mode in all {
        // SAFETY: there is room for a table of each mode, and nobody else has it. A table is the
        // addresses of shape and info, the mode, the ordinary table, the state, then `slots`
        // entries.
        unsafe {
            let words = first.byte_add(modes.map_or(0, |modes| modes.offset(*mode)));
            words.write(std::ptr::from_ref(shape) as Word);
            words.add(1).write(std::ptr::from_ref(info) as Word);
            words.add(2).write(*mode as Word);
            words.add(3).write(first as Word);
            words.add(4).write(State::Dormant as Word);
            for slot in 0..slots as usize {
                words.add(TABLE_WORDS + slot).write(no_method as *const () as Word);
            }
        }
    }
    // SAFETY: as above; the memory is never freed.
    unsafe { &*first.cast::<Table>() }
}
