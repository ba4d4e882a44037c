//! Functions that no one wrote: abbreviated methods (section 6 of the definition).

use bifrost_ir::{ClassId, Func, Operand, Signature, Stmt, TypeId, Var};
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

/// The receiver of a method.
fn receiver() -> Operand {
    Operand::Var(Var::from_u32(0))
}
