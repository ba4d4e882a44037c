//! Links a verified program: makes descriptors, mode tables and entries of an [`Image`].
//!
//! Read [`link_with`](crate::link_with); the other functions are its steps. Nothing is linked
//! twice, and all that is made here lasts as long as the process.

use std::collections::HashMap;
use std::sync::atomic::AtomicPtr;
use std::sync::{Arc, Mutex, OnceLock};

use bifrost_heap::Shape;
use bifrost_ir::dispatch::Dispatch;
use bifrost_ir::{
    Body, ClassId, MethodId, MethodRef, Program, Signature, TypeDef, TypeId, TypeKind, Types, boxed,
};
use cranelift_entity::EntityRef;

use super::{
    ClassInfo, Image, LinkError, RoutineDesc, TABLE_WORDS, Table, WellKnownSignals, arity, entry_of,
};
use crate::abi::{ARGS_MAX, Code, Ret, VALUES_MAX, Word, YIELDS_MAX};
use crate::actor_class::{ActorClass, State, Tables, mail_field, replier_shape};
use crate::content::Content;
use crate::cx::Cx;
use crate::element::ElementMethod;
use crate::engine::{Engine, Form};
use crate::mode::{Mode, Modes};
use crate::native::Natives;
use crate::object;
use crate::transfer::Transfer;

impl Image {
    /// Links a verified program that may use these natives; `natives` are the built-in ones
    /// ([`registry`](crate::natives::registry)). Without an engine only the interpreter can
    /// run its functions. With `modes` objects may be in modes
    /// other than the ordinary one, so that they can be kept in a repository.
    ///
    /// # Errors
    /// [`LinkError`]; nothing is kept.
    pub fn link(
        mut program: Program,
        engine: Option<Arc<dyn Engine>>,
        natives: &HashMap<&'static str, Code>,
        added: Natives,
        modes: bool,
    ) -> Result<Arc<Image>, LinkError> {
        let signals = well_known_signals(&mut program.types);
        check_sizes(&program)?;
        let dispatch = Dispatch::new(&program);
        let modes = modes.then(|| Modes::new(dispatch.table_len()));
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
        let actors = program.classes.values().filter_map(|class| {
            let name = class.actor.as_ref()?.native.clone()?;
            Some((name, tables[class.ty.index()].expect("classes have tables")))
        });
        let native_tables = native_tables.chain(actors).collect();
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
pub(super) fn references(types: &Types, method: bool, signature: &Signature) -> u32 {
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
pub(super) fn changes(program: &Program, added: &Natives, ty: TypeId, method: MethodId) -> bool {
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
pub(super) fn has_modes(def: &TypeDef) -> bool {
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
