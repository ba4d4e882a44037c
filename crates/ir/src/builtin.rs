//! The built-in types and routines (theta.md 8): one table from which the checker takes headings, the
//! interpreter and the compiler their operations, the runtime its list of functions to provide, and
//! the documents their lists.
//!
//! A row is a heading in Theta's own notation. Rows with an [`Op`] are operations on words that the two
//! engines carry out themselves; the others are functions of the runtime, registered under
//! [`Builtin::key`].

use crate::program::{Body, Program, Routine, RoutineId};
use crate::types::{Method, Param, SignalSig, Signature, TypeId, TypeKind, Types};

/// An operation on basic words. Operands and result have the types of its row in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[allow(missing_docs, reason = "each is the row of the table that names it")]
pub enum Op {
    BoolNot,
    BoolAnd,
    BoolOr,
    BoolXor,
    BoolEqual,
    IntAdd,
    IntSub,
    IntMul,
    IntDiv,
    IntMod,
    IntNegate,
    IntAbs,
    IntMin,
    IntMax,
    IntLt,
    IntLe,
    IntGt,
    IntGe,
    IntEqual,
    IntNot,
    IntAnd,
    IntOr,
    IntXor,
    IntShl,
    IntShr,
    IntToReal,
    IntToChar,
    RealAdd,
    RealSub,
    RealMul,
    RealDiv,
    RealNegate,
    RealAbs,
    RealLt,
    RealLe,
    RealGt,
    RealGe,
    RealEqual,
    RealIsNan,
    RealSqrt,
    CharLt,
    CharLe,
    CharGt,
    CharGe,
    CharEqual,
    CharToInt,
    NullEqual,
}

/// A row of the table of methods.
#[derive(Debug, PartialEq, Eq)]
pub struct Builtin {
    /// The type, or the family of instantiations.
    pub family: &'static str,
    /// The heading; `T` is the element type, `Self` the type itself.
    pub heading: &'static str,
    /// The operation, if the engines carry it out themselves.
    pub op: Option<Op>,
    /// The method that the element type must have for this one to exist.
    pub needs: Option<&'static str>,
}

impl Builtin {
    /// The method's name.
    pub fn name(&self) -> &'static str {
        self.heading.split(' ').next().unwrap_or(self.heading)
    }

    /// The name under which the runtime registers the function: `string.concat`.
    pub fn key(&self) -> String {
        format!("{}.{}", self.family, self.name())
    }
}

const fn op(family: &'static str, heading: &'static str, op: Op) -> Builtin {
    Builtin { family, heading, op: Some(op), needs: None }
}

const fn native(family: &'static str, heading: &'static str) -> Builtin {
    Builtin { family, heading, op: None, needs: None }
}

const fn needs(family: &'static str, heading: &'static str, needs: &'static str) -> Builtin {
    Builtin { family, heading, op: None, needs: Some(needs) }
}

/// All methods of built-in types.
pub static METHODS: &[Builtin] = &[
    op("null", "equal (x: null) returns (bool)", Op::NullEqual),
    op("null", "similar (x: null) returns (bool)", Op::NullEqual),
    native("null", "copy () returns (null)"),
    native("null", "unparse () returns (string)"),
    native("null", "hash () returns (int)"),
    op("bool", "bnot () returns (bool)", Op::BoolNot),
    op("bool", "band (x: bool) returns (bool)", Op::BoolAnd),
    op("bool", "bor (x: bool) returns (bool)", Op::BoolOr),
    op("bool", "bxor (x: bool) returns (bool)", Op::BoolXor),
    op("bool", "equal (x: bool) returns (bool)", Op::BoolEqual),
    op("bool", "similar (x: bool) returns (bool)", Op::BoolEqual),
    native("bool", "copy () returns (bool)"),
    native("bool", "unparse () returns (string)"),
    native("bool", "hash () returns (int)"),
    op("int", "add (x: int) returns (int) signals (overflow)", Op::IntAdd),
    op("int", "sub (x: int) returns (int) signals (overflow)", Op::IntSub),
    op("int", "mul (x: int) returns (int) signals (overflow)", Op::IntMul),
    op("int", "div (x: int) returns (int) signals (zero, overflow)", Op::IntDiv),
    op("int", "mod (x: int) returns (int) signals (zero)", Op::IntMod),
    native("int", "power (n: int) returns (int) signals (negative, overflow)"),
    op("int", "negate () returns (int) signals (overflow)", Op::IntNegate),
    op("int", "abs () returns (int) signals (overflow)", Op::IntAbs),
    op("int", "min (x: int) returns (int)", Op::IntMin),
    op("int", "max (x: int) returns (int)", Op::IntMax),
    op("int", "lt (x: int) returns (bool)", Op::IntLt),
    op("int", "le (x: int) returns (bool)", Op::IntLe),
    op("int", "gt (x: int) returns (bool)", Op::IntGt),
    op("int", "ge (x: int) returns (bool)", Op::IntGe),
    op("int", "equal (x: int) returns (bool)", Op::IntEqual),
    op("int", "similar (x: int) returns (bool)", Op::IntEqual),
    op("int", "bnot () returns (int)", Op::IntNot),
    op("int", "band (x: int) returns (int)", Op::IntAnd),
    op("int", "bor (x: int) returns (int)", Op::IntOr),
    op("int", "bxor (x: int) returns (int)", Op::IntXor),
    op("int", "shl (n: int) returns (int) signals (bounds)", Op::IntShl),
    op("int", "shr (n: int) returns (int) signals (bounds)", Op::IntShr),
    native("int", "to (limit: int) yields (int)"),
    native("int", "to_by (limit: int, step: int) yields (int) signals (zero)"),
    op("int", "to_real () returns (real)", Op::IntToReal),
    op("int", "to_char () returns (char) signals (illegal_char)", Op::IntToChar),
    native("int", "copy () returns (int)"),
    native("int", "unparse () returns (string)"),
    native("int", "hash () returns (int)"),
    op("real", "add (x: real) returns (real)", Op::RealAdd),
    op("real", "sub (x: real) returns (real)", Op::RealSub),
    op("real", "mul (x: real) returns (real)", Op::RealMul),
    op("real", "div (x: real) returns (real)", Op::RealDiv),
    native("real", "power (x: real) returns (real)"),
    op("real", "negate () returns (real)", Op::RealNegate),
    op("real", "abs () returns (real)", Op::RealAbs),
    native("real", "min (x: real) returns (real)"),
    native("real", "max (x: real) returns (real)"),
    op("real", "lt (x: real) returns (bool)", Op::RealLt),
    op("real", "le (x: real) returns (bool)", Op::RealLe),
    op("real", "gt (x: real) returns (bool)", Op::RealGt),
    op("real", "ge (x: real) returns (bool)", Op::RealGe),
    op("real", "equal (x: real) returns (bool)", Op::RealEqual),
    op("real", "similar (x: real) returns (bool)", Op::RealEqual),
    op("real", "is_nan () returns (bool)", Op::RealIsNan),
    op("real", "sqrt () returns (real)", Op::RealSqrt),
    native("real", "sin () returns (real)"),
    native("real", "cos () returns (real)"),
    native("real", "tan () returns (real)"),
    native("real", "atan () returns (real)"),
    native("real", "exp () returns (real)"),
    native("real", "log () returns (real)"),
    native("real", "floor () returns (int) signals (overflow)"),
    native("real", "ceiling () returns (int) signals (overflow)"),
    native("real", "round () returns (int) signals (overflow)"),
    native("real", "truncate () returns (int) signals (overflow)"),
    native("real", "copy () returns (real)"),
    native("real", "unparse () returns (string)"),
    native("real", "hash () returns (int)"),
    op("char", "lt (x: char) returns (bool)", Op::CharLt),
    op("char", "le (x: char) returns (bool)", Op::CharLe),
    op("char", "gt (x: char) returns (bool)", Op::CharGt),
    op("char", "ge (x: char) returns (bool)", Op::CharGe),
    op("char", "equal (x: char) returns (bool)", Op::CharEqual),
    op("char", "similar (x: char) returns (bool)", Op::CharEqual),
    op("char", "to_int () returns (int)", Op::CharToInt),
    native("char", "to_string () returns (string)"),
    native("char", "upper () returns (char)"),
    native("char", "lower () returns (char)"),
    native("char", "is_letter () returns (bool)"),
    native("char", "is_digit () returns (bool)"),
    native("char", "is_space () returns (bool)"),
    native("char", "copy () returns (char)"),
    native("char", "unparse () returns (string)"),
    native("char", "hash () returns (int)"),
    native("string", "length () returns (int)"),
    native("string", "empty () returns (bool)"),
    native("string", "fetch (i: int) returns (char) signals (bounds)"),
    native("string", "concat (x: string) returns (string)"),
    native("string", "substr (at: int, count: int) returns (string) signals (bounds)"),
    native("string", "index_of (x: string) returns (int) signals (not_found)"),
    native("string", "lt (x: string) returns (bool)"),
    native("string", "le (x: string) returns (bool)"),
    native("string", "gt (x: string) returns (bool)"),
    native("string", "ge (x: string) returns (bool)"),
    native("string", "equal (x: string) returns (bool)"),
    native("string", "similar (x: string) returns (bool)"),
    native("string", "starts_with (x: string) returns (bool)"),
    native("string", "ends_with (x: string) returns (bool)"),
    native("string", "upper () returns (string)"),
    native("string", "lower () returns (string)"),
    native("string", "trim () returns (string)"),
    native("string", "chars () yields (char)"),
    native("string", "split (separator: string) yields (string)"),
    native("string", "to_int () returns (int) signals (bad_format, overflow)"),
    native("string", "to_real () returns (real) signals (bad_format)"),
    native("string", "copy () returns (string)"),
    native("string", "unparse () returns (string)"),
    native("string", "hash () returns (int)"),
    native("cell", "put (v: T)"),
    native("cell", "full () returns (bool)"),
    native("cell", "get () returns (T) signals (not_possible)"),
    native("cell", "equal (x: Self) returns (bool)"),
    native("array", "length () returns (int)"),
    native("array", "empty () returns (bool)"),
    native("array", "low () returns (int)"),
    native("array", "high () returns (int)"),
    native("array", "clear ()"),
    native("array", "fetch (i: int) returns (T) signals (bounds)"),
    native("array", "store (i: int, v: T) signals (bounds)"),
    native("array", "bottom () returns (T) signals (bounds)"),
    native("array", "top () returns (T) signals (bounds)"),
    native("array", "append (v: T)"),
    native("array", "append_low (v: T)"),
    native("array", "remove () returns (T) signals (bounds)"),
    native("array", "remove_low () returns (T) signals (bounds)"),
    native("array", "elements () yields (T)"),
    native("array", "indexes () yields (int)"),
    native("array", "to_sequence () returns (sequence[T])"),
    native("array", "equal (x: Self) returns (bool)"),
    needs("array", "similar (x: Self) returns (bool)", "similar"),
    needs("array", "copy () returns (Self)", "copy"),
    needs("array", "unparse () returns (string)", "unparse"),
    native("sequence", "length () returns (int)"),
    native("sequence", "empty () returns (bool)"),
    native("sequence", "fetch (i: int) returns (T) signals (bounds)"),
    native("sequence", "bottom () returns (T) signals (bounds)"),
    native("sequence", "top () returns (T) signals (bounds)"),
    native("sequence", "append (v: T) returns (Self)"),
    native("sequence", "concat (x: Self) returns (Self)"),
    native("sequence", "replace (i: int, v: T) returns (Self) signals (bounds)"),
    native("sequence", "subseq (at: int, count: int) returns (Self) signals (bounds)"),
    native("sequence", "elements () yields (T)"),
    native("sequence", "indexes () yields (int)"),
    native("sequence", "to_array () returns (array[T])"),
    needs("sequence", "equal (x: Self) returns (bool)", "equal"),
    needs("sequence", "similar (x: Self) returns (bool)", "similar"),
    needs("sequence", "unparse () returns (string)", "unparse"),
    native("list", "first () returns (T) signals (empty)"),
    native("list", "next () returns (Self) signals (empty)"),
    native("list", "empty () returns (bool)"),
    native("list", "notEmpty () returns (bool)"),
    native("list", "length () returns (int)"),
    native("list", "nth (n: int) returns (T) signals (bounds)"),
    native("list", "cons (v: T) returns (Self)"),
    native("list", "reverse () returns (Self)"),
    native("list", "elements () yields (T)"),
    needs("list", "equal (x: Self) returns (bool)", "equal"),
    needs("list", "similar (x: Self) returns (bool)", "similar"),
    needs("list", "unparse () returns (string)", "unparse"),
    native("directory", "lookup (name: string) returns (any) signals (not_found)"),
    native("directory", "insert (name: string, v: any)"),
    native("directory", "remove (name: string) signals (not_found)"),
    native("directory", "names () yields (string)"),
    native("directory", "equal (x: Self) returns (bool)"),
];

/// The name of the creator of cells, which clients' batches use without naming it.
pub const CELL_NEW: &str = "cell_new";

/// A built-in routine, generic or not.
#[derive(Debug, PartialEq, Eq)]
pub struct BuiltinRoutine {
    /// Its name, also that of its native function.
    pub name: &'static str,
    /// Whether it has the type parameter `T`.
    pub generic: bool,
    /// Its heading.
    pub heading: &'static str,
}

const fn routine(name: &'static str, generic: bool, heading: &'static str) -> BuiltinRoutine {
    BuiltinRoutine { name, generic, heading }
}

/// All built-in routines.
pub static ROUTINES: &[BuiltinRoutine] = &[
    routine("array_new", true, "array_new () returns (array[T])"),
    routine("array_create", true, "array_create (low: int, elems: sequence[T]) returns (array[T])"),
    routine(
        "array_fill",
        true,
        "array_fill (low: int, count: int, v: T) returns (array[T]) signals (bounds)",
    ),
    routine("sequence_of", true, "sequence_of (elems: sequence[T]) returns (sequence[T])"),
    routine("list_empty", true, "list_empty () returns (list[T])"),
    routine("list_of", true, "list_of (elems: sequence[T]) returns (list[T])"),
    routine(CELL_NEW, true, "cell_new () returns (cell[T])"),
    routine("same_object", false, "same_object (a: any, b: any) returns (bool)"),
    routine("random", false, "random (n: int) returns (int) signals (bounds)"),
    routine("now_ms", false, "now_ms () returns (int)"),
    routine("print", false, "print (s: string)"),
    routine("root", false, "root () returns (directory)"),
];

/// The family that a kind's rows are listed under.
pub fn family(kind: TypeKind) -> Option<&'static str> {
    Some(match kind {
        TypeKind::Null => "null",
        TypeKind::Bool => "bool",
        TypeKind::Int => "int",
        TypeKind::Real => "real",
        TypeKind::Char => "char",
        TypeKind::String => "string",
        TypeKind::Array(_) => "array",
        TypeKind::Sequence(_) => "sequence",
        TypeKind::List(_) => "list",
        TypeKind::Cell(_) => "cell",
        TypeKind::Directory => "directory",
        TypeKind::Any | TypeKind::Object | TypeKind::Class(_) => return None,
    })
}

/// Adds to a built-in type the methods that it can have by what its element type has now and that
/// it lacks. Run again by [`complete`] once all types have their methods.
pub(crate) fn add_methods(types: &mut Types, kind: TypeKind) {
    let Some(family) = family(kind) else { return };
    let id = types.find_instance(kind).expect("the type was added before its methods");
    for row in METHODS.iter().filter(|row| row.family == family) {
        if types.find_method(id, row.name()).is_some() {
            continue;
        }
        if let (Some(needed), Some(element)) = (row.needs, kind.element())
            && types.find_method(element, needed).is_none()
        {
            continue;
        }
        let signature = parse_heading(types, row.heading, id, kind.element());
        types.def_mut(id).methods.push(Method {
            name: row.name().to_owned(),
            signature,
            stands_for: Vec::new(),
            doc: String::new(),
            builtin: Some(row),
            public: true,
        });
    }
}

/// Gives instantiations of built-in types the methods that exist only if the element type has some method,
/// for element types that were completed after the instantiation was made. Existing ids stay.
pub fn complete(types: &mut Types) {
    loop {
        let before: usize = types.iter().map(|(_, d)| d.methods.len()).sum::<usize>() + types.len();
        let kinds: Vec<TypeKind> =
            types.iter().map(|(_, d)| d.kind).filter(|k| k.element().is_some()).collect();
        for kind in kinds {
            add_methods(types, kind);
        }
        let after: usize = types.iter().map(|(_, d)| d.methods.len()).sum::<usize>() + types.len();
        if before == after {
            return;
        }
    }
}

/// The built-in routine of that name.
pub fn find_routine(name: &str) -> Option<&'static BuiltinRoutine> {
    ROUTINES.iter().find(|r| r.name == name)
}

/// The instantiation of a built-in routine with these type arguments, made at its first use.
/// `type_args` has one element for generic routines and none for others.
pub fn instantiate(program: &mut Program, row: &'static BuiltinRoutine, type_args: &[TypeId]) -> RoutineId {
    let name = match type_args {
        [] => row.name.to_owned(),
        [t, ..] => format!("{}[{}]", row.name, program.types.name(*t)),
    };
    if let Some(id) = program.find_routine(&name) {
        let same = &program.routines[id];
        if program.native_name(same.body) == Some(row.name) && same.type_args == type_args {
            return id;
        }
    }
    let signature = signature_of(&mut program.types, row, type_args);
    let body = Body::Native(program.native(row.name));
    program.add_routine(Routine {
        name,
        signature,
        body,
        type_args: type_args.to_vec(),
        public: false,
        doc: String::new(),
    })
}

/// The heading of a built-in routine for these type arguments.
pub fn signature_of(types: &mut Types, row: &BuiltinRoutine, type_args: &[TypeId]) -> Signature {
    let element = type_args.first().copied();
    parse_heading(types, row.heading, element.unwrap_or(Types::ANY), element)
}

/// Reads a heading of the table. The table is ours, so a mistake in it is a bug and panics
/// (the tests read all rows).
fn parse_heading(types: &mut Types, heading: &str, this: TypeId, element: Option<TypeId>) -> Signature {
    let tokens: Vec<&str> = tokenize(heading);
    let mut reader = Reader { tokens: &tokens, at: 1, types, this, element };
    let mut signature = Signature::default();
    reader.expect("(");
    while !reader.take(")") {
        let name = reader.next().to_owned();
        reader.expect(":");
        let ty = reader.ty();
        signature.params.push(Param { name, ty });
        reader.take(",");
    }
    loop {
        reader.take(",");
        match reader.tokens.get(reader.at).copied() {
            Some("returns") => signature.results = reader.types_in_parens(),
            Some("yields") => signature.yields = Some(reader.types_in_parens()),
            Some("signals") => {
                reader.at += 1;
                reader.expect("(");
                while !reader.take(")") {
                    let name = reader.next();
                    let name = reader.types.signal(name);
                    signature.signals.push(SignalSig { name, values: Vec::new() });
                    reader.take(",");
                }
            }
            Some(other) => panic!("`{other}` in the built-in heading `{heading}`"),
            None => return signature,
        }
    }
}

fn tokenize(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut start = None;
    for (i, c) in text.char_indices() {
        if c.is_alphanumeric() || c == '_' {
            start.get_or_insert(i);
            continue;
        }
        if let Some(s) = start.take() {
            tokens.push(&text[s..i]);
        }
        if !c.is_whitespace() {
            tokens.push(&text[i..i + c.len_utf8()]);
        }
    }
    if let Some(s) = start {
        tokens.push(&text[s..]);
    }
    tokens
}

struct Reader<'a, 't> {
    tokens: &'a [&'a str],
    at: usize,
    types: &'t mut Types,
    this: TypeId,
    element: Option<TypeId>,
}

impl<'a> Reader<'a, '_> {
    fn next(&mut self) -> &'a str {
        self.at += 1;
        self.tokens[self.at - 1]
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.tokens.get(self.at) == Some(&token);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, token: &str) {
        assert!(self.take(token), "`{token}` expected in the built-in heading {:?}", self.tokens);
    }

    fn types_in_parens(&mut self) -> Vec<TypeId> {
        self.at += 1;
        self.expect("(");
        let mut list = Vec::new();
        while !self.take(")") {
            list.push(self.ty());
            self.take(",");
        }
        list
    }

    fn ty(&mut self) -> TypeId {
        let name = self.next();
        if self.take("[") {
            let element = self.ty();
            self.expect("]");
            return self.types.instance(match name {
                "array" => TypeKind::Array(element),
                "sequence" => TypeKind::Sequence(element),
                "list" => TypeKind::List(element),
                "cell" => TypeKind::Cell(element),
                other => panic!("unknown family `{other}` in a built-in heading"),
            });
        }
        match name {
            "T" => self.element.expect("`T` in the heading of a type without element type"),
            "Self" => self.this,
            _ => {
                self.types.find(name).unwrap_or_else(|| panic!("unknown type `{name}` in a built-in heading"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_heading_that_reads_back() {
        let mut types = Types::new();
        let array = types.instance(TypeKind::Array(Types::INT));
        let list = types.instance(TypeKind::List(Types::STRING));
        let cell = types.instance(TypeKind::Cell(array));
        for ty in [Types::INT, Types::REAL, Types::STRING, array, list, cell] {
            let def = types.def(ty).clone();
            for method in def.methods.values() {
                let row = method.builtin.expect("methods of built-in types come from the table");
                let printed = types.heading(&method.name, &method.signature);
                let element = def.kind.element().map_or("", |t| types.name(t)).to_owned();
                let expected = row
                    .heading
                    .replace("Self", &def.name)
                    .replace("[T]", &format!("[{element}]"))
                    .replace("(T)", &format!("({element})"))
                    .replace(": T", &format!(": {element}"));
                assert_eq!(printed, expected);
            }
        }
    }

    #[test]
    fn routines_are_instantiated_once() {
        let mut program = Program::new();
        let row = find_routine("array_fill").unwrap();
        let a = instantiate(&mut program, row, &[Types::INT]);
        let b = instantiate(&mut program, row, &[Types::INT]);
        assert_eq!(a, b);
        let sig = &program.routines[a].signature;
        assert_eq!(
            program.types.heading("array_fill", sig),
            "array_fill (low: int, count: int, v: int) returns (array[int]) signals (bounds)"
        );
    }

    #[test]
    fn conditional_methods_follow_the_element_type() {
        let mut types = Types::new();
        let any_array = types.instance(TypeKind::Array(Types::ANY));
        assert!(types.find_method(any_array, "unparse").is_none());
        let int_array = types.instance(TypeKind::Array(Types::INT));
        assert!(types.find_method(int_array, "unparse").is_some());
    }
}
