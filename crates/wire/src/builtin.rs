//! The built-in types of objects that a veneer has stubs for itself, so that generated files have
//! only the program's own.
//!
//! Values (`int`, `string`, ...) and cells are no part of it: promises and cells stand for them.

use crate::ids::TypeNumber;
use crate::interface::Interface;

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Builtin {
    /// The type's name.
    pub name: &'static str,
    /// The headings of its methods, in the order of their numbers.
    pub methods: &'static [&'static str],
}

/// The number of rows.
pub const COUNT: usize = 3;

/// All rows. Stubs list the numbers of these types in this order.
pub const TABLE: [Builtin; COUNT] = [
    Builtin { name: "any", methods: &[] },
    Builtin {
        name: "directory",
        methods: &[
            "lookup (name: string) returns (any) signals (not_found)",
            "insert (name: string, v: any)",
            "remove (name: string) signals (not_found)",
            "names () yields (string)",
            "list () yields (string, string)",
            "equal (x: directory) returns (bool)",
        ],
    },
    Builtin {
        name: "bytes",
        methods: &[
            "length () returns (int)",
            "fetch (i: int) returns (int) signals (bounds)",
            "concat (x: bytes) returns (bytes)",
            "slice (at: int, count: int) returns (bytes) signals (bounds)",
            "to_string () returns (string) signals (bad_format)",
            "equal (x: bytes) returns (bool)",
            "similar (x: bytes) returns (bool)",
            "copy () returns (bytes)",
            "unparse () returns (string)",
            "hash () returns (int)",
        ],
    },
];

impl Builtin {
    /// Returns the number of the type in an interface, if that has it with exactly these methods.
    pub fn find(&self, interface: &Interface) -> Option<TypeNumber> {
        let number = interface.find_type(self.name)?;
        let methods = &interface.ty(number)?.methods;
        let is_same = methods.len() == self.methods.len()
            && methods.iter().zip(self.methods).all(|(method, row)| interface.heading(method) == *row);
        is_same.then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::{Kind, Type};

    #[test]
    fn a_type_of_that_name_may_be_another() {
        let of_user = Type {
            name: "any".into(),
            names: Vec::new(),
            kind: Kind::Any,
            element: None,
            fields: Vec::new(),
            immutable: false,
            actor: false,
            supertypes: Vec::new(),
            methods: Vec::new(),
            doc: String::new(),
        };
        let bytes = Type { name: "bytes".into(), kind: Kind::Bytes, ..of_user.clone() };
        let interface = Interface { types: vec![of_user, bytes], routines: Vec::new() };
        let found = TABLE.map(|row| row.find(&interface));
        assert_eq!(found, [Some(TypeNumber(0)), None, None], "these bytes have no methods");
    }
}
