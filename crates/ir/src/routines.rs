//! Routines as values: names of routines, methods selected without call, and `bind`
//! (`docs/book/language/types.md`).
//!
//! Such a value is an object of a class whose instance variables are the operands that are known
//! already, and whose one method `call` takes the others. There is one class for each routine or
//! method and choice of operands.

use smallvec::{SmallVec, smallvec};

use crate::places::Site;
use crate::program::{Body, Class, ClassId, Field, Program};
use crate::stmt::{Arm, ArmMatch, Block, Callee, Func, FuncKind, Operand, Stmt, Var, VarDecl};
use crate::types::{Method, MethodId, MethodRef, Signature, Supertype, TypeDef, TypeId, TypeKind};

/// Returns the class of the objects that call `callee` with the operands at the places where `held`
/// is true, and the routine type that it implements. The receiver of a method is its first operand.
/// The objects are made with the held operands, in order.
///
/// # Panics
/// When `held` is not as long as the operands, or the callee is neither a method nor a routine.
pub fn class_of(program: &mut Program, callee: Callee, held: &[bool]) -> (ClassId, TypeId) {
    let key = (callee, held.to_vec());
    if let Some(class) = program.bound.get(&key) {
        let own = program.classes[*class].ty;
        return (*class, program.types.def(own).supertypes[0].ty);
    }
    let (receiver, heading, name) = match callee {
        Callee::Method(m) => {
            let method = program.types.method(m);
            (Some(m.ty), method.signature.clone(), format!("{}.{}", program.types.name(m.ty), method.name))
        }
        Callee::Routine(r) => (None, program.routines[r].signature.clone(), program.routines[r].name.clone()),
        Callee::Procedure(_) | Callee::Itself => unreachable!("batched procedures are no values"),
    };
    let operands: Vec<TypeId> = receiver.into_iter().chain(heading.params.iter().map(|p| p.ty)).collect();
    assert_eq!(operands.len(), held.len(), "one choice for each operand");
    let first = usize::from(receiver.is_some());
    let open = heading.params.iter().zip(&held[first..]).filter(|(_, held)| !**held);
    let signature = Signature { params: open.map(|(p, _)| p.clone()).collect(), ..heading.clone() };
    let ty = program.types.routine_type(&signature);
    let class = add_class(program, &name, ty, &operands, held);
    let call = call_of(program, class, callee, &heading, &signature, held);
    let func = program.funcs.push(call);
    add_call(program, class, ty, signature);
    program.classes[class].bodies.push(Body::Func(func));
    program.bound.insert(key, class);
    (class, ty)
}

/// Returns the class of the objects of routine type `wanted` that hold a value of routine type
/// `held`, and true if it is new. Then the caller gives it its method by [`complete_adapter`].
///
/// Such an object stands where the words of arguments or results differ: a basic value where the
/// other type has `any`.
pub fn adapter_of(program: &mut Program, held: TypeId, wanted: TypeId) -> (ClassId, bool) {
    if let Some(class) = program.adapters.get(&(held, wanted)) {
        return (*class, false);
    }
    let name = program.types.name(held).to_owned();
    let class = add_class(program, &name, wanted, &[held], &[true]);
    program.adapters.insert((held, wanted), class);
    (class, true)
}

/// Gives the class of an adapter its method `call`, headed as `wanted`.
pub fn complete_adapter(program: &mut Program, class: ClassId, wanted: TypeId, call: Func) {
    let func = program.funcs.push(call);
    let signature = program.funcs[func].signature.clone();
    add_call(program, class, wanted, signature);
    program.classes[class].bodies.push(Body::Func(func));
}

/// Declares the method `call`, which stands for that of the routine type `ty`.
fn add_call(program: &mut Program, class: ClassId, ty: TypeId, signature: Signature) {
    let own = program.classes[class].ty;
    program.types.def_mut(own).methods.push(Method {
        name: "call".to_owned(),
        signature,
        stands_for: vec![MethodRef { ty, method: MethodId::from_u32(0) }],
        doc: String::new(),
        builtin: None,
        public: true,
    });
}

/// Returns the class, without its method.
fn add_class(program: &mut Program, of: &str, ty: TypeId, operands: &[TypeId], held: &[bool]) -> ClassId {
    let id = program.classes.next_key();
    let name = format!("{of}#{}", id.as_u32());
    let taken = operands.iter().zip(held).enumerate().filter(|(_, (_, held))| **held);
    let fields: Vec<Field> =
        taken.map(|(i, (ty, _))| Field { name: format!("operand_{i}"), ty: *ty }).collect();
    let own = program.types.add(TypeDef {
        name: name.clone(),
        kind: TypeKind::Class(id),
        supertypes: vec![Supertype { ty, renames: vec![] }],
        methods: Default::default(),
        // A value that holds no operands never changes; operands may.
        immutable: fields.is_empty(),
        actor: false,
        public: false,
        doc: String::new(),
    });
    program.classes.push(Class { name, ty: own, superclass: None, fields, bodies: vec![], actor: None })
}

/// Returns the method `call`: the callee with all its operands, and its exceptions passed on.
fn call_of(
    program: &Program,
    class: ClassId,
    callee: Callee,
    heading: &Signature,
    signature: &Signature,
    held: &[bool],
) -> Func {
    let def = &program.classes[class];
    let decl = |ty| VarDecl { name: String::new(), ty };
    let mut vars: cranelift_entity::PrimaryMap<Var, VarDecl> = Default::default();
    vars.push(VarDecl { name: "self".to_owned(), ty: def.ty });
    let mut open: std::vec::IntoIter<Var> =
        signature.params.iter().map(|p| vars.push(decl(p.ty))).collect::<Vec<_>>().into_iter();
    let mut body = Block::default();
    let mut fields = def.fields.iter().enumerate();
    let mut args: SmallVec<[Operand; 3]> = SmallVec::new();
    for held in held {
        let field = if *held { fields.next() } else { None };
        let operand = match field {
            Some((i, field)) => {
                let dst = vars.push(decl(field.ty));
                body.0.push(Stmt::Get { dst, object: Var::from_u32(0).into(), class, field: i as u32 });
                Some(dst)
            }
            None => open.next(),
        };
        args.extend(operand.map(Operand::Var));
    }
    let given = heading.yields.as_ref().unwrap_or(&heading.results);
    let given: SmallVec<[Var; 1]> = given.iter().map(|ty| vars.push(decl(*ty))).collect();
    let values = given.iter().map(|v| Operand::Var(*v)).collect();
    let site = Site::default();
    let (call, last) = match heading.is_iterator() {
        true => {
            let step = Block(vec![Stmt::Yield(values)]);
            (Stmt::ForEach { callee, args, vars: given, body: step, site }, smallvec![])
        }
        false => (Stmt::Call { callee, args, dsts: given, site }, values),
    };
    let mut arms = Vec::new();
    for signal in &heading.signals {
        let taken: SmallVec<[Var; 1]> = signal.values.iter().map(|ty| vars.push(decl(*ty))).collect();
        let values = taken.iter().map(|v| Operand::Var(*v)).collect();
        let again = Stmt::Signal { signal: signal.name, values, site };
        arms.push(Arm {
            takes: ArmMatch::Named(smallvec![signal.name]),
            vars: taken,
            body: Block(vec![again]),
        });
    }
    body.0.push(match arms.is_empty() {
        true => call,
        false => Stmt::Except { body: Block(vec![call]), arms },
    });
    body.0.push(Stmt::Return(last));
    Func {
        name: format!("{}.call", def.name),
        kind: FuncKind::Method,
        signature: signature.clone(),
        vars,
        body,
        procedures: Vec::new(),
        written: crate::places::Written::Nowhere,
    }
}
