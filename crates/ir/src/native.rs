//! The parameters and results of a function written in Rust, as its Rust types say them, and the
//! check against a heading.
//!
//! Nothing after this comparison checks types again: it is made when a program is checked, so that
//! the mistake is reported where it is, and again when the program is linked.

use std::fmt;

use crate::program::{ClassId, Program};
use crate::types::{Form, Signature, TypeId, TypeKind, Types};

/// A type of Theta as a Rust type stands for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NativeType {
    /// `null`, `int` and the other types without parameters, `string` and `bytes` included.
    Plain(TypeId),
    /// `sequence[T]`
    Sequence(Box<NativeType>),
    /// `maybe[T]`
    Maybe(Box<NativeType>),
    /// `record[...]`, `struct[...]` or `oneof[...]`: the fields or tags in order.
    Structure(Form, Vec<(&'static str, NativeType)>),
    /// `proc (...)`, whatever it signals.
    Proc {
        /// The types of the parameters.
        params: Vec<NativeType>,
        /// The types of the results.
        results: Vec<NativeType>,
    },
    /// An object type by its name in the program.
    Named(&'static str),
    /// An object of a class native to Rust, by its Rust name.
    Object(&'static str),
    /// A native actor, by its Rust name.
    Actor(&'static str),
}

/// A heading as the types of a Rust function say it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NativeHeading {
    /// The arguments with their names.
    pub params: Vec<(&'static str, NativeType)>,
    /// The results of a procedure.
    pub results: Vec<NativeType>,
    /// The types that an iterator yields at each step.
    pub yields: Option<Vec<NativeType>>,
    /// The exceptions with the types of their values.
    pub signals: Vec<(String, Vec<NativeType>)>,
}

impl fmt::Display for NativeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NativeType::Plain(ty) => f.write_str(Types::new().name(*ty)),
            NativeType::Sequence(element) => write!(f, "sequence[{element}]"),
            NativeType::Maybe(some) => write!(f, "maybe[{some}]"),
            NativeType::Structure(form, fields) => {
                let fields: Vec<String> = fields.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
                write!(f, "{}[{}]", form.word(), fields.join(", "))
            }
            NativeType::Proc { params, results } => {
                write!(f, "proc ({})", list(params))?;
                if results.is_empty() { Ok(()) } else { write!(f, " returns ({})", list(results)) }
            }
            NativeType::Named(name) => f.write_str(name),
            NativeType::Object(class) => write!(f, "class native {class:?}"),
            NativeType::Actor(class) => write!(f, "actor native {class:?}"),
        }
    }
}

fn list(types: &[NativeType]) -> String {
    let types: Vec<String> = types.iter().map(ToString::to_string).collect();
    types.join(", ")
}

impl fmt::Display for NativeHeading {
    /// Writes it as a program does, without the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// Returns true if Rust takes words of type `ty` (or, if it `gives` them, the other way round).
pub fn fits(program: &Program, native: &NativeType, ty: TypeId, gives: bool) -> bool {
    let types = &program.types;
    match native {
        NativeType::Plain(plain) => *plain == ty,
        NativeType::Sequence(element) => {
            matches!(types.kind(ty), TypeKind::Sequence(t) if fits(program, element, t, gives))
        }
        NativeType::Maybe(some) => {
            matches!(types.kind(ty), TypeKind::Maybe(t) if fits(program, some, t, gives))
        }
        NativeType::Structure(form, natives) => {
            let fields = match (types.kind(ty), form) {
                (TypeKind::Record(_), Form::Record)
                | (TypeKind::Struct(_), Form::Struct)
                | (TypeKind::OneOf(_), Form::OneOf) => types.structure(ty),
                _ => None,
            };
            fields.is_some_and(|fields| {
                let mut pairs = fields.iter().zip(natives);
                fields.len() == natives.len()
                    && pairs.all(|(f, (name, ty))| f.name == *name && fits(program, ty, f.ty, gives))
            })
        }
        NativeType::Proc { params, results } => {
            let heading = types.routine_heading(ty).filter(|heading| !heading.is_iterator());
            heading.is_some_and(|heading| {
                let takes: Vec<TypeId> = heading.params.iter().map(|p| p.ty).collect();
                all_fit(program, params, &takes, !gives) && all_fit(program, results, &heading.results, gives)
            })
        }
        // The name alone would not do: types of several modules may share it.
        NativeType::Named(name) => {
            types.find(name).is_some_and(|own| own == ty || gives && types.is_subtype(own, ty))
        }
        NativeType::Object(name) => {
            let class = program.native_classes.iter().find(|(_, n)| n.as_str() == *name);
            class.is_some_and(|(class, _)| {
                let own = program.classes[*class].ty;
                own == ty || gives && types.is_subtype(own, ty)
            })
        }
        NativeType::Actor(name) => {
            let native = |class: &&crate::Class| {
                class.actor.as_ref().is_some_and(|actor| actor.native.as_deref() == Some(name))
            };
            program
                .classes
                .values()
                .find(native)
                .is_some_and(|class| class.ty == ty || gives && types.is_subtype(class.ty, ty))
        }
    }
}

/// Returns true if [`fits`] holds for each of a list, and there are as many.
pub fn all_fit(program: &Program, natives: &[NativeType], types: &[TypeId], gives: bool) -> bool {
    natives.len() == types.len() && natives.iter().zip(types).all(|(n, t)| fits(program, n, *t, gives))
}

/// Returns true if a function of this heading may run where the signature is declared: the same
/// arguments and results, and no exceptions that it does not list.
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
    /// Returns the Rust name of a class native to Rust. No code makes objects of such a class.
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

    #[test]
    fn parts_of_types_are_compared() {
        let mut program = Program::new();
        let int = || NativeType::Plain(Types::INT);
        let text = || NativeType::Plain(Types::STRING);
        let field = |name: &str, ty| crate::Field { name: name.to_owned(), ty };
        let maybe = program.types.instance(TypeKind::Maybe(Types::INT));
        let pair = vec![field("a", Types::INT), field("b", Types::STRING)];
        let made = program.types.structured(Form::Struct, pair.clone());
        let record = program.types.structured(Form::Record, pair);
        let heading = Signature {
            params: vec![param(Types::INT)],
            results: vec![Types::STRING],
            signals: vec![SignalSig { name: program.types.signal("bad"), values: vec![] }],
            ..Signature::default()
        };
        let routine = program.types.routine_type(&heading);
        let steps = Signature { results: vec![], yields: Some(vec![Types::STRING]), ..heading };
        let iter = program.types.routine_type(&steps);
        let rows = [
            (NativeType::Maybe(Box::new(int())), maybe, "maybe[int]"),
            (
                NativeType::Structure(Form::Struct, vec![("a", int()), ("b", text())]),
                made,
                "struct[a: int, b: string]",
            ),
            (
                NativeType::Proc { params: vec![int()], results: vec![text()] },
                routine,
                "proc (int) returns (string)",
            ),
            (NativeType::Named("struct[a: int, b: string]"), made, "struct[a: int, b: string]"),
            (NativeType::Named("record[a: int, b: string]"), record, "record[a: int, b: string]"),
        ];
        for (native, ty, name) in &rows {
            assert_eq!(native.to_string(), *name);
            for other in [maybe, made, record, routine, iter, Types::INT, Types::ANY] {
                assert_eq!(fits(&program, native, other, false), other == *ty, "{name}");
            }
        }
        let wrong = [
            NativeType::Structure(Form::Struct, vec![("a", int()), ("c", text())]),
            NativeType::Structure(Form::Struct, vec![("a", int())]),
            NativeType::Structure(Form::Struct, vec![("a", int()), ("b", int())]),
        ];
        assert!(wrong.iter().all(|native| !fits(&program, native, made, false)));
        assert!(fits(&program, &rows[1].0, made, true));
        assert!(fits(&program, &NativeType::Named("directory"), Types::ANY, true));
        assert!(!fits(&program, &NativeType::Named("directory"), Types::ANY, false));
    }
}
