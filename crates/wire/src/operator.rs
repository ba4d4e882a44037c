//! The methods of basic types that veneers call for a host language's operators.
//!
//! Stubs list the numbers of these methods in the order of this table, so that a veneer's own
//! code finds them without knowing the interface.

use crate::ids::MethodNumber;
use crate::interface::{Interface, Kind};

macro_rules! operators {
    ($($name:ident = $kind:ident, $method:literal;)*) => {
        /// A row of the table.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[allow(missing_docs, reason = "each is the method that its name says")]
        pub enum Operator { $($name),* }

        impl Operator {
            /// All rows, in order.
            pub const ALL: &[Operator] = &[$(Operator::$name),*];

            /// Returns the type's kind and the method's name.
            pub const fn method(self) -> (Kind, &'static str) {
                match self { $(Operator::$name => (Kind::$kind, $method)),* }
            }
        }
    };
}

operators! {
    BoolNot = Bool, "bnot";
    BoolEqual = Bool, "equal";
    IntAdd = Int, "add";
    IntSub = Int, "sub";
    IntMul = Int, "mul";
    IntDiv = Int, "div";
    IntMod = Int, "mod";
    IntNegate = Int, "negate";
    IntLt = Int, "lt";
    IntLe = Int, "le";
    IntGt = Int, "gt";
    IntGe = Int, "ge";
    IntEqual = Int, "equal";
    IntTo = Int, "to";
    IntToBy = Int, "to_by";
    IntToReal = Int, "to_real";
    IntUnparse = Int, "unparse";
    RealAdd = Real, "add";
    RealSub = Real, "sub";
    RealMul = Real, "mul";
    RealDiv = Real, "div";
    RealNegate = Real, "negate";
    RealLt = Real, "lt";
    RealLe = Real, "le";
    RealGt = Real, "gt";
    RealGe = Real, "ge";
    RealEqual = Real, "equal";
    RealUnparse = Real, "unparse";
    CharEqual = Char, "equal";
    StringLength = String, "length";
    StringConcat = String, "concat";
    StringLt = String, "lt";
    StringLe = String, "le";
    StringGt = String, "gt";
    StringGe = String, "ge";
    StringEqual = String, "equal";
}

/// The number of rows.
pub const COUNT: usize = Operator::ALL.len();

/// Stands for a method that the interface lacks.
pub const NO_METHOD: MethodNumber = MethodNumber(u32::MAX);

/// Returns the method numbers of all rows in an interface.
pub fn numbers(interface: &Interface) -> Vec<MethodNumber> {
    let number = |operator: &Operator| {
        let (kind, name) = operator.method();
        let ty = interface.find_kind(kind, None)?;
        let method = interface.ty(ty)?.methods.iter().position(|m| m.name == name)?;
        Some(MethodNumber(interface.first_method(ty).0 + method as u32))
    };
    Operator::ALL.iter().map(|o| number(o).unwrap_or(NO_METHOD)).collect()
}
