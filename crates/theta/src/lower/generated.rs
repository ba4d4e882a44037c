//! Functions that no one wrote: abbreviated methods (section 6 of the definition), and methods that
//! stand for others with `any` in place of a basic type.

use bifrost_ir::{
    Arm, ArmMatch, Callee, ClassId, Func, MethodId, MethodRef, Operand, Program, Signature, Site, Stmt,
    TypeId, Types, Var, boxed, routines,
};
use smallvec::smallvec;

use super::Builder;

/// `x () returns (U)` over the instance variable at `field`.
pub(crate) fn getter(name: String, class: ClassId, own: TypeId, field: u32, signature: Signature) -> Func {
    let ty = signature.results.first().copied();
    let mut builder = Builder::new(name, Some(own), signature);
    let value = builder.temp(ty);
    builder.emit(Stmt::Get { dst: value, object: receiver(), class, field });
    builder.emit(Stmt::Return(smallvec![value.into()]));
    builder.finish()
}

/// `set_x (v: U)` over the instance variable at `field`.
pub(crate) fn setter(name: String, class: ClassId, own: TypeId, field: u32, signature: Signature) -> Func {
    let mut builder = Builder::new(name, Some(own), signature);
    let value = Operand::Var(Var::from_u32(1));
    builder.emit(Stmt::Set { object: receiver(), class, field, value });
    builder.emit(Stmt::Return(smallvec![]));
    builder.finish()
}

/// Returns the receiver of a method.
fn receiver() -> Operand {
    Operand::Var(Var::from_u32(0))
}

/// Converts an operand of type `found` to one of type `wanted`. Basic values go into boxes where an
/// `any` is wanted, and routine values into adapters where only their arguments or results need
/// boxes.
pub(crate) fn stand(
    program: &mut Program,
    builder: &mut Builder,
    op: Operand,
    found: TypeId,
    wanted: TypeId,
    site: Site,
) -> Operand {
    let class = if wanted == Types::ANY && program.types.kind(found).is_basic() {
        boxed::class_of(program, found)
    } else if let Some(class) = adapter(program, found, wanted) {
        class
    } else {
        return op;
    };
    let dst = builder.temp(Some(wanted));
    builder.emit(Stmt::New { dst, class, fields: vec![op], site });
    dst.into()
}

/// Returns the class of the objects by which values of routine type `found` stand for `wanted`, if
/// they are not such themselves.
fn adapter(program: &mut Program, found: TypeId, wanted: TypeId) -> Option<ClassId> {
    let to = program.types.routine_heading(wanted)?.clone();
    let from = program.types.routine_heading(found)?.clone();
    if program.types.is_subtype(found, wanted) {
        return None;
    }
    let (class, new) = routines::adapter_of(program, found, wanted);
    if new {
        let callee = MethodRef { ty: found, method: MethodId::from_u32(0) };
        let name = format!("{}.call", program.classes[class].name);
        let call = forward(program, name, Some(class), callee, &from, &to);
        routines::complete_adapter(program, class, wanted, call);
    }
    Some(class)
}

/// Returns a method headed `to` of the class of `callee`, which is headed `from`. It calls
/// `callee`, with boxes for values that are `any` on the other side.
pub(crate) fn bridge(
    program: &mut Program,
    name: String,
    callee: MethodRef,
    from: &Signature,
    to: &Signature,
) -> Func {
    forward(program, name, None, callee, from, to)
}

/// Does the same; the object that it calls is the receiver, or the object in the receiver if that
/// is an adapter of class `adapter`.
fn forward(
    program: &mut Program,
    name: String,
    adapter: Option<ClassId>,
    callee: MethodRef,
    from: &Signature,
    to: &Signature,
) -> Func {
    let own = adapter.map_or(callee.ty, |class| program.classes[class].ty);
    let mut builder = Builder::new(name, Some(own), to.clone());
    let b = &mut builder;
    let object = match adapter {
        None => receiver(),
        Some(class) => {
            let dst = b.temp(Some(callee.ty));
            b.emit(Stmt::Get { dst, object: receiver(), class, field: 0 });
            dst.into()
        }
    };
    let mut stand_all = |b: &mut Builder, vars: &[Var], found: &[TypeId], wanted: &[TypeId]| {
        let types = found.iter().zip(wanted);
        let pairs = vars.iter().zip(types);
        pairs.map(|(var, (a, b_ty))| stand(program, b, (*var).into(), *a, *b_ty, Site::default())).collect()
    };
    let formals = |s: &Signature| s.params.iter().map(|p| p.ty).collect::<Vec<_>>();
    let params: Vec<Var> = (1..=to.params.len() as u32).map(Var::from_u32).collect();
    let given: Vec<Operand> = stand_all(b, &params, &formals(to), &formals(from));
    let args = std::iter::once(object).chain(given).collect();
    let (found, wanted) = match (&from.yields, &to.yields) {
        (Some(a), Some(b)) => (a, b),
        _ => (&from.results, &to.results),
    };
    let vars: Vec<Var> = found.iter().map(|ty| b.temp(Some(*ty))).collect();
    let (callee, site) = (Callee::Method(callee), Site::default());
    b.open();
    if from.is_iterator() {
        b.open();
        let values: Vec<Operand> = stand_all(b, &vars, found, wanted);
        b.emit(Stmt::Yield(values.into()));
        let body = b.close();
        b.emit(Stmt::ForEach { callee, args, vars: vars.iter().copied().collect(), body, site });
    } else {
        b.emit(Stmt::Call { callee, args, dsts: vars.iter().copied().collect(), site });
    }
    let body = b.close();
    let mut arms = vec![];
    for signal in &from.signals {
        let wanted = to.signal(signal.name).map_or(&[][..], |s| &s.values);
        b.open();
        let carried: Vec<Var> = signal.values.iter().map(|ty| b.temp(Some(*ty))).collect();
        let values: Vec<Operand> = stand_all(b, &carried, &signal.values, wanted);
        b.emit(Stmt::Signal { signal: signal.name, values: values.into(), site });
        let takes = ArmMatch::Named(smallvec![signal.name]);
        arms.push(Arm { takes, vars: carried.into(), body: b.close() });
    }
    b.emit(Stmt::Except { body, arms });
    let values: Vec<Operand> = match from.is_iterator() {
        true => vec![],
        false => stand_all(b, &vars, found, wanted),
    };
    b.emit(Stmt::Return(values.into()));
    builder.finish()
}
