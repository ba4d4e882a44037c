//! The spelling of Theta's names and types in a language.

use std::collections::HashSet;

use bifrost_wire::interface::{Interface, Kind, Method};
use bifrost_wire::{TypeNumber, builtin};

/// A language's spelling.
pub trait Naming {
    /// Returns a name for a method, routine or parameter, from a name whose words `_` separates:
    /// never a keyword.
    fn lower(&self, name: &str) -> String;

    /// Returns a name for a type, from its words: `["array", "of", "int"]`. Never a keyword.
    fn upper(&self, words: &[&str]) -> String;

    /// Returns the type of a basic value: `i64`. `kind` is a value's kind.
    fn value(&self, kind: Kind) -> &'static str;

    /// Returns the stub of a built-in type that the veneer has itself.
    fn builtin(&self, name: &str) -> String;

    /// Returns the type of a cell of `element`.
    fn cell(&self, element: &str) -> String;

    /// Returns the type of many values.
    fn list(&self, element: &str) -> String;

    /// Returns the type of a value and of its absence.
    fn optional(&self, some: &str) -> String;

    /// Returns the type of pairs of values.
    fn pairs(&self, key: &str, value: &str) -> String;
}

/// Returns a name in snake case: `not_empty` for `notEmpty`.
pub(crate) fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    let mut before_lower = false;
    for c in name.chars().filter(|c| c.is_alphanumeric() || *c == '_') {
        if c.is_uppercase() && before_lower {
            out.push('_');
        }
        before_lower = c.is_lowercase() || c.is_ascii_digit();
        out.extend(c.to_lowercase());
    }
    if !out.starts_with(|c: char| c.is_alphabetic() || c == '_') {
        out.insert(0, '_');
    }
    out
}

/// Returns a name of words that begin with capitals: `ArrayOfInt`. Characters that a name cannot
/// have are left out.
pub(crate) fn pascal(words: &[&str], keep: impl Fn(&char) -> bool) -> String {
    let mut out = String::new();
    for word in words {
        let mut chars = word.chars().filter(&keep);
        out.extend(chars.next().into_iter().flat_map(char::to_uppercase));
        out.extend(chars);
    }
    if !out.starts_with(char::is_alphabetic) {
        out.insert(0, 'T');
    }
    out
}

/// Returns a name in mixed case: `newUser` for `new_user`.
pub(crate) fn camel(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut is_start = false;
    for c in name.chars() {
        match c {
            '_' => is_start = !out.is_empty(),
            c if !c.is_alphanumeric() => {}
            c if is_start => {
                out.extend(c.to_uppercase());
                is_start = false;
            }
            c if out.is_empty() => out.extend(c.to_lowercase()),
            c => out.push(c),
        }
    }
    if !out.starts_with(char::is_alphabetic) {
        out.insert(0, '_');
    }
    out
}

/// Returns the promise of a basic value in a library whose name is `bf` in the stubs.
pub(crate) fn promise(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "bf.Bool",
        Kind::Int => "bf.Int",
        Kind::Real => "bf.Real",
        Kind::Char => "bf.Char",
        Kind::String => "bf.Str",
        Kind::Bytes => "bf.Bytes",
        _ => "bf.Nil",
    }
}

/// Returns a name that is in none of the lists: `_` stands behind one that is.
pub(crate) fn clear(mut name: String, taken: &[&[&str]]) -> String {
    while taken.iter().any(|names| names.contains(&name.as_str())) {
        name.push('_');
    }
    name
}

/// The names of a type in a language.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Names {
    /// Of the stub, or of the value if it has none.
    pub stub: String,
    /// Of the type of contents that is generated for a struct, record or oneof; else empty.
    pub contents: String,
}

/// Returns the names of all types, each used once: a name taken already gets `_` behind it. A
/// struct or oneof is a value: the name is that of its contents. A record is an object: the name is
/// that of its stub.
pub(crate) fn type_names(interface: &Interface, naming: &dyn Naming) -> Vec<Names> {
    let mut taken = HashSet::new();
    let mut names = Vec::with_capacity(interface.types.len());
    let builtin = builtin::TABLE.map(|row| (row.name, row.find(interface)));
    for (index, ty) in interface.types.iter().enumerate() {
        let number = Some(TypeNumber(index as u32));
        let is_builtin = |row: &&(&str, Option<TypeNumber>)| row.1 == number && !ty.kind.is_value();
        if let Some((name, _)) = builtin.iter().find(is_builtin) {
            names.push(Names { stub: naming.builtin(name), ..Names::default() });
            continue;
        }
        names.push(match ty.kind {
            kind if kind.is_value() => Names { stub: naming.value(kind).to_owned(), contents: String::new() },
            // Spelled below, when the names of all elements are known.
            Kind::Cell => Names::default(),
            kind => {
                let name = spelled(interface, TypeNumber(index as u32), 0);
                let words: Vec<&str> = name.split([' ', '_', '.']).filter(|w| !w.is_empty()).collect();
                let mut take = |more: &[&str]| {
                    let mut name = naming.upper(&[&words, more].concat());
                    while !taken.insert(name.clone()) {
                        name.push('_');
                    }
                    name
                };
                match kind {
                    Kind::Struct | Kind::Oneof => Names { contents: take(&[]), stub: take(&["ref"]) },
                    Kind::Record => Names { stub: take(&[]), contents: take(&["value"]) },
                    _ => Names { stub: take(&[]), contents: String::new() },
                }
            }
        });
    }
    for index in 0..names.len() {
        cell_name(interface, naming, &mut names, index, 0);
    }
    names
}

/// Returns a name for a method or routine that is not among `taken`, where it is put.
pub(crate) fn method_name(method: &Method, naming: &dyn Naming, taken: &mut Vec<String>) -> String {
    let mut name = naming.lower(&method.name.replace('.', "_"));
    while taken.contains(&name) {
        name.push('_');
    }
    taken.push(name.clone());
    name
}

/// Types nest by their elements; a description that nests deeper is not taken literally.
pub(crate) const NESTING_MAX: usize = 64;

fn cell_name(interface: &Interface, naming: &dyn Naming, names: &mut [Names], index: usize, depth: usize) {
    if !names[index].stub.is_empty() || depth > NESTING_MAX {
        return;
    }
    let element = interface.types[index].element.map(TypeNumber::index);
    if let Some(element) = element {
        cell_name(interface, naming, names, element, depth + 1);
        names[index].stub = naming.cell(&names[element].stub);
    }
}

/// Spells the name of a type: the program's own for it, or `array of int` for `array[int]`.
fn spelled(interface: &Interface, number: TypeNumber, depth: usize) -> String {
    match interface.ty(number) {
        None => "unknown".to_owned(),
        Some(ty) if !ty.names.is_empty() => ty.names[0].clone(),
        Some(ty) => {
            let family = ty.name.split('[').next().unwrap_or("type");
            let part = |number| spelled(interface, number, depth + 1);
            match (ty.element, ty.fields.as_slice()) {
                _ if depth >= NESTING_MAX => family.to_owned(),
                (Some(element), _) => format!("{family} of {}", part(element)),
                (_, [key, value]) if ty.kind == Kind::Map => {
                    format!("map of {} to {}", part(key.ty), part(value.ty))
                }
                (_, [_, ..]) => {
                    let fields = ty.fields.iter().map(|field| format!("{} {}", field.name, part(field.ty)));
                    format!("{family} of {}", fields.collect::<Vec<_>>().join(" and "))
                }
                // `pair[int, string]`
                _ => ty.name.replace('[', " of ").replace(", ", " and ").replace(']', ""),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bifrost_wire::interface::Type;

    use super::*;
    use crate::rust::Rust;

    fn interface(names: &[&str], routines: &[&str]) -> Interface {
        let types = names.iter().map(|name| Type {
            name: (*name).to_owned(),
            names: Vec::new(),
            kind: Kind::Object,
            element: None,
            fields: Vec::new(),
            immutable: false,
            actor: false,
            supertypes: vec![],
            methods: vec![],
            doc: String::new(),
        });
        let routines = routines.iter().map(|name| Method { name: (*name).to_owned(), ..Method::default() });
        Interface { types: types.collect(), routines: routines.collect() }
    }

    fn stubs(interface: &Interface) -> Vec<String> {
        type_names(interface, &Rust).into_iter().map(|names| names.stub).collect()
    }

    #[test]
    fn the_path_of_a_file_is_words_of_a_name() {
        let types = ["lib.one.point", "lib.two.point", "array[lib.one.point]", "lib_one_point"];
        let interface = interface(&types, &["lib.one.f", "lib.two.f", "lib_one_f", "notEmpty"]);
        assert_eq!(stubs(&interface), ["LibOnePoint", "LibTwoPoint", "ArrayOfLibOnePoint", "LibOnePoint_"]);
        let mut taken = vec![];
        interface.routines.iter().for_each(|it| drop(method_name(it, &Rust, &mut taken)));
        assert_eq!(taken, ["lib_one_f", "lib_two_f", "lib_one_f_", "not_empty"]);
    }

    #[test]
    fn instantiations_have_names_of_their_own() {
        let names = ["stack[int]", "pair[int, stack[string]]", "stack_of_int", "map[string, pair[int, int]]"];
        assert_eq!(
            stubs(&interface(&names, &[])),
            ["StackOfInt", "PairOfIntAndStackOfString", "StackOfInt_", "MapOfStringAndPairOfIntAndInt"]
        );
    }
}
