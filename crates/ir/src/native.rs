//! What a function written in Rust takes and gives, as its Rust types say it, and whether that fits a heading.
//!
//! Nothing after this comparison checks types again: it is made when a program is checked, so that the mistake is
//! reported where it is, and again when the program is linked.

use std::fmt;

use crate::program::{ClassId, Program};
use crate::types::{Signature, TypeId, TypeKind, Types};

/// A type of Theta as a Rust type stands for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NativeType {
    /// `null`, `int` and the other types without parameters, `string` and `bytes` included.
    Plain(TypeId),
    /// `sequence[T]`
    Sequence(Box<NativeType>),
    /// An object of a class native to Rust, by its Rust name.
    Object(&'static str),
}

/// A heading as the types of a Rust function say it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NativeHeading {
    /// The arguments with their names.
    pub params: Vec<(&'static str, NativeType)>,
    /// The results of a procedure.
    pub results: Vec<NativeType>,
    /// What an iterator yields at each step.
    pub yields: Option<Vec<NativeType>>,
    /// The exceptions with the types of their values.
    pub signals: Vec<(String, Vec<NativeType>)>,
}

impl fmt::Display for NativeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NativeType::Plain(ty) => f.write_str(Types::new().name(*ty)),
            NativeType::Sequence(element) => write!(f, "sequence[{element}]"),
            NativeType::Object(class) => write!(f, "class native {class:?}"),
        }
    }
}

impl fmt::Display for NativeHeading {
    /// As a program writes it, without the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |types: &[NativeType]| {
            let types: Vec<String> = types.iter().map(ToString::to_string).collect();
            types.join(", ")
        };
        let params: Vec<String> = self.params.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
        write!(f, "({})", params.join(", "))?;
        match &self.yields {
            Some(yields) => write!(f, " yields ({})", list(yields))?,
            None if !self.results.is_empty() => write!(f, " returns ({})", list(&self.results))?,
            None => {}
        }
        let signals = self.signals.iter().map(|(name, values)| match values.as_slice() {
            [] => name.clone(),
            values => format!("{name} ({})", list(values)),
        });
        let signals: Vec<String> = signals.collect();
        if signals.is_empty() { Ok(()) } else { write!(f, " signals ({})", signals.join(", ")) }
    }
}

/// Whether words of type `ty` are what Rust takes (or, if it `gives` them, the other way round).
fn fits(program: &Program, native: &NativeType, ty: TypeId, gives: bool) -> bool {
    match native {
        NativeType::Plain(plain) => *plain == ty,
        NativeType::Sequence(element) => {
            matches!(program.types.kind(ty), TypeKind::Sequence(t) if fits(program, element, t, gives))
        }
        NativeType::Object(name) => {
            let class = program.native_classes.iter().find(|(_, n)| n.as_str() == *name);
            class.is_some_and(|(class, _)| {
                let own = program.classes[*class].ty;
                own == ty || gives && program.types.is_subtype(own, ty)
            })
        }
    }
}

fn all_fit(program: &Program, natives: &[NativeType], types: &[TypeId], gives: bool) -> bool {
    natives.len() == types.len() && natives.iter().zip(types).all(|(n, t)| fits(program, n, *t, gives))
}

/// Whether a function of this heading may run where the signature is declared: the same arguments and results, and no
/// exceptions that it does not list.
pub fn conforms(program: &Program, native: &NativeHeading, signature: &Signature) -> bool {
    let params: Vec<TypeId> = signature.params.iter().map(|p| p.ty).collect();
    let takes: Vec<NativeType> = native.params.iter().map(|(_, ty)| ty.clone()).collect();
    let yields = match (&native.yields, &signature.yields) {
        (None, None) => true,
        (Some(natives), Some(types)) => all_fit(program, natives, types, true),
        _ => false,
    };
    let signals = native.signals.iter().all(|(name, values)| {
        let declared = program.types.find_signal(name).and_then(|id| signature.signal(id));
        declared.is_some_and(|declared| all_fit(program, values, &declared.values, true))
    });
    all_fit(program, &takes, &params, false)
        && all_fit(program, &native.results, &signature.results, true)
        && yields
        && signals
}

impl Program {
    /// The Rust name of a class native to Rust. No code makes objects of such a class.
    pub fn native_class(&self, class: ClassId) -> Option<&str> {
        self.native_classes.get(&class).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Param, SignalSig};

    fn param(ty: TypeId) -> Param {
        Param { name: "x".to_owned(), ty }
    }

    #[test]
    fn headings_are_compared_type_by_type() {
        let mut program = Program::new();
        let bytes = program.types.instance(TypeKind::Sequence(Types::BYTES));
        let bounds = program.types.signal("bounds");
        let native = NativeHeading {
            params: vec![("at", NativeType::Plain(Types::INT))],
            results: vec![NativeType::Sequence(Box::new(NativeType::Plain(Types::BYTES)))],
            yields: None,
            signals: vec![("bounds".to_owned(), vec![])],
        };
        let signal = SignalSig { name: bounds, values: vec![] };
        let good = Signature {
            params: vec![param(Types::INT)],
            results: vec![bytes],
            yields: None,
            signals: vec![signal],
        };
        assert_eq!(native.to_string(), "(at: int) returns (sequence[bytes]) signals (bounds)");
        assert!(conforms(&program, &native, &good));
        let wrong = [
            Signature { params: vec![], ..good.clone() },
            Signature { params: vec![param(Types::REAL)], ..good.clone() },
            Signature { results: vec![Types::BYTES], ..good.clone() },
            Signature { signals: vec![], ..good.clone() },
            Signature { results: vec![], yields: Some(vec![bytes]), ..good.clone() },
        ];
        for signature in wrong {
            assert!(!conforms(&program, &native, &signature), "{signature:?}");
        }
    }
}
