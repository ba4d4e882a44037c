//! The built-in types and routines (`docs/book/language/library.md`), as one table. The checker
//! takes headings from it, the interpreter and the compiler their operations, the runtime its list
//! of functions to provide, and the documents their lists.
//!
//! A row is a heading in Theta's own notation. Rows with an [`Op`] are operations on words that the
//! two engines carry out themselves; the others are functions of the runtime, registered under
//! [`Builtin::key`].
//!
//! Read [`Builtin`] first: it is a row for a method, and [`BuiltinRoutine`] one for a routine.

mod heading;

use crate::program::{Body, Program, Routine, RoutineId};
use crate::tagged;
use crate::types::{Method, MethodRef, Param, Signature, TypeId, TypeKind, Types};
use heading::Heading;

/// A generic built-in type: the common part of its instantiations.
#[derive(Debug)]
pub struct Family {
    /// Its name: `map`.
    pub name: &'static str,
    /// Its type parameters.
    pub parms: &'static [&'static str],
    /// Methods that type arguments must have: positions of parameters and names of
    /// [`element_method`].
    pub needs: &'static [(usize, &'static str)],
    /// True if objects never change.
    pub immutable: bool,
    /// The kind of the instantiation with these arguments, as many as there are parameters.
    pub kind: fn(&[TypeId]) -> TypeKind,
}

/// All generic built-in types.
pub static FAMILIES: &[Family] = &[
    family_of("array", false, |t| TypeKind::Array(t[0])),
    family_of("sequence", true, |t| TypeKind::Sequence(t[0])),
    family_of("vector", false, |t| TypeKind::Vector(t[0])),
    family_of("list", true, |t| TypeKind::List(t[0])),
    family_of("cell", false, |t| TypeKind::Cell(t[0])),
    family_of("maybe", true, |t| TypeKind::Maybe(t[0])),
    Family { parms: &["A"], ..family_of("group", true, |t| TypeKind::Group(t[0])) },
    family_of("replier", true, |t| TypeKind::Replier(t[0])),
    Family {
        name: "map",
        parms: &["K", "V"],
        needs: &[(0, "equal"), (0, "hash")],
        immutable: false,
        kind: |t| TypeKind::Map(t[0], t[1]),
    },
];

const fn family_of(name: &'static str, immutable: bool, kind: fn(&[TypeId]) -> TypeKind) -> Family {
    Family { name, parms: &["T"], needs: &[], immutable, kind }
}

/// Returns the generic built-in type of that name.
pub fn find_family(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|f| f.name == name)
}

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
    /// The heading; type parameters stand for the type arguments, `Self` for the type itself.
    pub heading: &'static str,
    /// The operation, if the engines carry it out themselves.
    pub op: Option<Op>,
    /// The method that every type argument must have for this one to exist, with the heading of
    /// [`element_method`].
    pub needs: Option<&'static str>,
}

impl Builtin {
    /// Returns the method's name.
    pub fn name(&self) -> &'static str {
        self.heading.split(' ').next().unwrap_or(self.heading)
    }

    /// Returns true if the method may change its receiver.
    pub fn changes(&self) -> bool {
        matches!(
            (self.family, self.name()),
            ("array", "clear" | "store" | "append" | "append_low" | "remove" | "remove_low" | "sort")
                | ("vector", "store")
                | ("cell", "put")
                | ("map", "clear" | "store" | "remove")
                | ("directory", "insert" | "remove")
        )
    }

    /// Returns the name under which the runtime registers the function: `string.concat`.
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
    native("string", "replace (old: string, by: string) returns (string)"),
    native("string", "chars () yields (char)"),
    native("string", "split (separator: string) yields (string)"),
    native("string", "to_int () returns (int) signals (bad_format, overflow)"),
    native("string", "to_real () returns (real) signals (bad_format)"),
    native("string", "to_bytes () returns (bytes)"),
    native("string", "copy () returns (string)"),
    native("string", "unparse () returns (string)"),
    native("string", "hash () returns (int)"),
    native("bytes", "length () returns (int)"),
    native("bytes", "fetch (i: int) returns (int) signals (bounds)"),
    native("bytes", "concat (x: bytes) returns (bytes)"),
    native("bytes", "slice (at: int, count: int) returns (bytes) signals (bounds)"),
    native("bytes", "to_string () returns (string) signals (bad_format)"),
    native("bytes", "equal (x: bytes) returns (bool)"),
    native("bytes", "similar (x: bytes) returns (bool)"),
    native("bytes", "copy () returns (bytes)"),
    native("bytes", "unparse () returns (string)"),
    native("bytes", "hash () returns (int)"),
    native("cell", "put (v: T)"),
    native("cell", "full () returns (bool)"),
    native("cell", "get () returns (T) signals (not_possible)"),
    native("cell", "equal (x: Self) returns (bool)"),
    needs("cell", "similar (x: Self) returns (bool)", "similar"),
    needs("cell", "copy () returns (Self)", "copy"),
    needs("cell", "unparse () returns (string)", "unparse"),
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
    needs("array", "sort ()", "lt"),
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
    needs("sequence", "copy () returns (Self)", "copy"),
    needs("sequence", "unparse () returns (string)", "unparse"),
    needs("sequence", "hash () returns (int)", "hash"),
    native("vector", "length () returns (int)"),
    native("vector", "fetch (i: int) returns (T) signals (bounds)"),
    native("vector", "store (i: int, v: T) signals (bounds)"),
    native("vector", "elements () yields (T)"),
    native("vector", "indexes () yields (int)"),
    native("vector", "to_sequence () returns (sequence[T])"),
    native("vector", "equal (x: Self) returns (bool)"),
    needs("vector", "similar (x: Self) returns (bool)", "similar"),
    needs("vector", "copy () returns (Self)", "copy"),
    needs("vector", "unparse () returns (string)", "unparse"),
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
    needs("list", "copy () returns (Self)", "copy"),
    needs("list", "unparse () returns (string)", "unparse"),
    needs("list", "hash () returns (int)", "hash"),
    native("map", "length () returns (int)"),
    native("map", "contains (k: K) returns (bool)"),
    native("map", "clear ()"),
    native("map", "fetch (k: K) returns (V) signals (not_found)"),
    native("map", "store (k: K, v: V)"),
    native("map", "remove (k: K) signals (not_found)"),
    native("map", "keys () yields (K)"),
    native("map", "values () yields (V)"),
    native("map", "pairs () yields (K, V)"),
    native("map", "equal (x: Self) returns (bool)"),
    needs("map", "similar (x: Self) returns (bool)", "similar"),
    needs("map", "copy () returns (Self)", "copy"),
    needs("map", "unparse () returns (string)", "unparse"),
    native("group", "size () returns (int)"),
    native("group", "member (i: int) returns (A) signals (bounds)"),
    native("group", "members () yields (A)"),
    native("directory", "lookup (name: string) returns (any) signals (not_found)"),
    native("directory", "insert (name: string, v: any)"),
    native("directory", "remove (name: string) signals (not_found)"),
    native("directory", "names () yields (string)"),
    native("directory", "list () yields (string, string)"),
    native("directory", "equal (x: Self) returns (bool)"),
];

/// The routine whose call `later(ms, send a.m(e))` has a message sent after a time. Here and in the
/// next two, the message is caught before by a call of [`CATCH`], and is no argument.
pub const LATER: &str = "later";

/// The routine whose call `every(ms, send a.m(e))` has a message sent again and again.
pub const EVERY: &str = "every";

/// The routine whose call `monitor(a, send b.m(e))` has a message sent when an actor has ended.
pub const MONITOR: &str = "monitor";

/// The routine whose call `stop()` ends the actor that it is in, which is its argument here.
pub const STOP: &str = "stop";

/// The name of the creator of cells, which clients' batches use without naming it.
pub const CELL_NEW: &str = "cell_new";

/// A built-in routine, generic or not.
#[derive(Debug, PartialEq, Eq)]
pub struct BuiltinRoutine {
    /// Its name, also that of its native function.
    pub name: &'static str,
    /// Its type parameters.
    pub parms: &'static [&'static str],
    /// Methods that type arguments must have, as in [`Family::needs`].
    pub needs: &'static [(usize, &'static str)],
    /// Its heading.
    pub heading: &'static str,
}

const fn routine(name: &'static str, heading: &'static str) -> BuiltinRoutine {
    BuiltinRoutine { name, parms: &[], needs: &[], heading }
}

const fn generic(name: &'static str, heading: &'static str) -> BuiltinRoutine {
    BuiltinRoutine { name, parms: &["T"], needs: &[], heading }
}

/// All built-in routines.
pub static ROUTINES: &[BuiltinRoutine] = &[
    generic("array_new", "array_new () returns (array[T])"),
    generic("array_create", "array_create (low: int, elems: sequence[T]) returns (array[T])"),
    generic("array_fill", "array_fill (low: int, count: int, v: T) returns (array[T]) signals (bounds)"),
    generic("vector_new", "vector_new (count: int, v: T) returns (vector[T]) signals (bounds)"),
    generic("sequence_of", "sequence_of (elems: sequence[T]) returns (sequence[T])"),
    BuiltinRoutine {
        parms: &["A"],
        ..generic("group_of", "group_of (members: sequence[A]) returns (group[A])")
    },
    BuiltinRoutine { parms: &["A"], ..generic("publish", "publish (name: string, actor: A)") },
    BuiltinRoutine {
        parms: &["A"],
        ..generic("published", "published (name: string) returns (A) signals (not_found)")
    },
    routine("withdraw", "withdraw (name: string) signals (not_found)"),
    routine(LATER, "later (ms: int) returns (int)"),
    routine(EVERY, "every (ms: int) returns (int)"),
    BuiltinRoutine { parms: &["A"], ..generic(MONITOR, "monitor (actor: A) returns (int)") },
    routine("cancel", "cancel (number: int) returns (bool)"),
    BuiltinRoutine { parms: &["A"], ..generic(STOP, "stop (actor: A)") },
    generic("list_empty", "list_empty () returns (list[T])"),
    generic("list_of", "list_of (elems: sequence[T]) returns (list[T])"),
    BuiltinRoutine {
        name: "map_new",
        parms: &["K", "V"],
        needs: &[(0, "equal"), (0, "hash")],
        heading: "map_new () returns (map[K, V])",
    },
    generic(CELL_NEW, "cell_new () returns (cell[T])"),
    generic("some", "some (v: T) returns (maybe[T])"),
    generic("none", "none () returns (maybe[T])"),
    routine("same_object", "same_object (a: any, b: any) returns (bool)"),
    routine("node", "node () returns (int)"),
    routine("nodes", "nodes () returns (int)"),
    routine("random", "random (n: int) returns (int) signals (bounds)"),
    routine("now_ms", "now_ms () returns (int)"),
    routine("caller", "caller () returns (string)"),
    routine("print", "print (s: string)"),
    routine(ROOT, "root () returns (directory)"),
];

/// The routine that returns the root directory, which clients call by its name.
pub const ROOT: &str = "root";

/// The routine that `clone e` calls. Its name is a reserved word, so no program can.
pub static CLONE: BuiltinRoutine = generic("clone", "clone (v: T) returns (T)");

/// The routine that a loop over a map calls at each step if its body waits ([`crate::resumable`]).
/// It returns the entry that was first stored next after the one of age `after`, 0 before the
/// first, and the age of that entry. It signals `not_found` after the last. No program can name it.
pub static MAP_ENTRY: BuiltinRoutine = BuiltinRoutine {
    name: "map.entry",
    parms: &["K", "V"],
    needs: &[(0, "equal"), (0, "hash")],
    heading: "entry (m: map[K, V], after: int) returns (int, K, V) signals (not_found)",
};

/// The routine that `A.new(...) times k` calls with `k`: it returns `k`, and signals `failure` if
/// that is less than 0. No program can name it.
pub static GROUP_COUNT: BuiltinRoutine =
    BuiltinRoutine { name: "group.count", parms: &[], needs: &[], heading: "count (k: int) returns (int)" };

/// The routine that the program calls before a message that it sends later. No program can name it.
pub static CATCH: BuiltinRoutine = routine("message.catch", "catch ()");

/// The routine that a client's command `as` calls: the same object, or the basic value in it. No
/// program can name it.
pub static TYPE_AS: BuiltinRoutine = generic("type.as", "as (x: any) returns (T) signals (wrong_type)");

/// The routine that a client's command `is` calls. No program can name it.
pub static TYPE_IS: BuiltinRoutine = generic("type.is", "is (x: any) returns (bool)");

/// The methods of `directory` as clients of a role call them, with the directory as the first
/// argument. No program can name them.
pub static GRANTED: [BuiltinRoutine; 5] = [
    routine("granted.lookup", "lookup (d: directory, name: string) returns (any) signals (not_found)"),
    routine("granted.insert", "insert (d: directory, name: string, v: any)"),
    routine("granted.remove", "remove (d: directory, name: string) signals (not_found)"),
    routine("granted.names", "names (d: directory) yields (string)"),
    routine("granted.list", "list (d: directory) yields (string, string)"),
];

/// Returns the row of [`GRANTED`] for a method of `directory`.
pub fn granted(method: &str) -> Option<&'static BuiltinRoutine> {
    GRANTED.iter().find(|row| row.name.strip_prefix("granted.") == Some(method))
}

/// Returns the family that a kind's rows are listed under.
pub fn family(kind: TypeKind) -> Option<&'static str> {
    Some(match kind {
        TypeKind::Null => "null",
        TypeKind::Bool => "bool",
        TypeKind::Int => "int",
        TypeKind::Real => "real",
        TypeKind::Char => "char",
        TypeKind::String => "string",
        TypeKind::Bytes => "bytes",
        TypeKind::Array(_) => "array",
        TypeKind::Sequence(_) => "sequence",
        TypeKind::Vector(_) => "vector",
        TypeKind::List(_) => "list",
        TypeKind::Cell(_) => "cell",
        TypeKind::Map(..) => "map",
        TypeKind::Directory => "directory",
        TypeKind::Maybe(_) => "maybe",
        TypeKind::Group(_) => "group",
        TypeKind::Replier(_) => "replier",
        TypeKind::Any
        | TypeKind::Record(_)
        | TypeKind::Struct(_)
        | TypeKind::OneOf(_)
        | TypeKind::Proc(_)
        | TypeKind::Iter(_)
        | TypeKind::Object
        | TypeKind::Class(_) => return None,
    })
}

/// Returns true if the objects of a type are made by the runtime and have a table for the type
/// itself: not those of classes, `maybe` included ([`tagged`]).
pub fn has_table(kind: TypeKind) -> bool {
    family(kind).is_some() && !kind.is_basic() && !matches!(kind, TypeKind::Maybe(_))
}

/// Returns the method by which containers compare, order, copy, print or hash elements of type
/// `ty`: `equal`, `similar`, `lt`, `copy`, `unparse` or `hash`. None if there is no such method, or
/// one with another heading, or if values of the type are actors, whose methods are messages.
pub fn element_method(types: &Types, ty: TypeId, name: &str) -> Option<MethodRef> {
    if types.def(ty).actor {
        return None;
    }
    let found = types.find_method(ty, name)?;
    let wanted = element_signature(ty, name)?;
    types.conforms(&types.method(found).signature, &wanted).then_some(found)
}

/// Returns the heading that [`element_method`] wants.
pub fn element_signature(ty: TypeId, name: &str) -> Option<Signature> {
    let (params, result) = match name {
        "equal" | "similar" | "lt" => (vec![Param { name: String::new(), ty }], Types::BOOL),
        "copy" => (vec![], ty),
        "unparse" => (vec![], Types::STRING),
        "hash" => (vec![], Types::INT),
        _ => return None,
    };
    Some(Signature { params, results: vec![result], ..Signature::default() })
}

/// Adds to a built-in type the methods that it lacks and that its type arguments now allow. Run
/// again by [`complete`] once all types have their methods.
pub(crate) fn add_methods(types: &mut Types, kind: TypeKind) {
    let Some(family) = family(kind) else { return };
    let parms = find_family(family).map_or(&[][..], |f| f.parms);
    let id = types.find_instance(kind).expect("the type was added before its methods");
    for row in METHODS.iter().filter(|row| row.family == family) {
        if types.find_method(id, row.name()).is_some() {
            continue;
        }
        if let Some(needed) = row.needs
            && !kind.args().all(|arg| element_method(types, arg, needed).is_some())
        {
            continue;
        }
        let args: Vec<TypeId> = kind.args().collect();
        let signature = Heading::read(row.heading, parms).signature(types, id, &args);
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

/// Gives instantiations of built-in types the methods that exist only if the element type has some
/// method, for element types that were completed after the instantiation was made. Existing ids
/// stay. Looks at the types from the position `first` on.
pub fn complete(types: &mut Types, first: usize) {
    loop {
        let ids = (first..types.len()).map(|index| TypeId::from_u32(index as u32));
        let kinds: Vec<TypeKind> =
            ids.clone().map(|id| types.kind(id)).filter(|kind| kind.args().next().is_some()).collect();
        let count = |types: &Types| ids.clone().map(|id| types.def(id).methods.len()).sum::<usize>();
        let before = (types.len(), count(types));
        for kind in kinds {
            add_methods(types, kind);
        }
        tagged::add_all_methods(types, first);
        if before == (types.len(), count(types)) {
            return;
        }
    }
}

/// True if clients' batches call a built-in routine of this name: [`ROOT`], those behind the
/// commands `cell`, `as` and `is`, and those behind the methods of `directory` ([`GRANTED`]).
pub fn is_for_clients(name: &str) -> bool {
    name == ROOT
        || name == CELL_NEW
        || name == TYPE_AS.name
        || name == TYPE_IS.name
        || GRANTED.iter().any(|row| row.name == name)
}

/// Returns the built-in routine of that name.
pub fn find_routine(name: &str) -> Option<&'static BuiltinRoutine> {
    let hidden = [&CLONE, &MAP_ENTRY, &GROUP_COUNT, &CATCH, &TYPE_AS, &TYPE_IS].into_iter().chain(&GRANTED);
    ROUTINES.iter().chain(hidden).find(|r| r.name == name)
}

/// Returns the instantiation of a built-in routine with these type arguments, made at its first
/// use: as many as it has type parameters.
pub fn instantiate(program: &mut Program, row: &'static BuiltinRoutine, type_args: &[TypeId]) -> RoutineId {
    let names: Vec<&str> = type_args.iter().map(|t| program.types.name(*t)).collect();
    let name = match names.as_slice() {
        [] => row.name.to_owned(),
        names => format!("{}[{}]", row.name, names.join(", ")),
    };
    if let Some(id) = program.find_routine(&name) {
        let same = &program.routines[id];
        let ours = match program.native_name(same.body) {
            Some(native) => native == row.name,
            None => is_code(row.name),
        };
        if ours && same.type_args == type_args {
            return id;
        }
    }
    let signature = signature_of(&mut program.types, row, type_args);
    let body = match is_code(row.name) {
        true => {
            let func = tagged::maker(program, row.name, &signature);
            Body::Func(program.funcs.push(func))
        }
        false => Body::Native(program.native(row.name)),
    };
    program.add_routine(Routine {
        name,
        signature,
        body,
        type_args: type_args.to_vec(),
        public: false,
        doc: String::new(),
    })
}

/// Returns true if a built-in routine is written in the IR, and not a native.
fn is_code(name: &str) -> bool {
    matches!(name, "some" | "none")
}

/// Returns true if a routine that is no native is one that [`instantiate`] wrote.
pub fn is_instance(routine: &Routine) -> bool {
    routine.name.split_once('[').is_some_and(|(name, _)| is_code(name))
}

/// Returns the heading of a built-in routine for these type arguments.
pub fn signature_of(types: &mut Types, row: &BuiltinRoutine, type_args: &[TypeId]) -> Signature {
    Heading::read(row.heading, row.parms).signature(types, Types::ANY, type_args)
}

/// Returns the type arguments of a routine that make its formals fit these static types of
/// arguments exactly; `None` for those that no argument shows.
pub fn infer(types: &Types, row: &BuiltinRoutine, given: &[TypeId]) -> Vec<Option<TypeId>> {
    Heading::read(row.heading, row.parms).infer(types, given, row.parms.len())
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
        for ty in [Types::INT, Types::REAL, Types::STRING, Types::BYTES, array, list, cell] {
            let def = types.def(ty).clone();
            for method in def.methods.values() {
                let row = method.builtin.expect("methods of built-in types come from the table");
                let printed = types.heading(&method.name, &method.signature);
                let element = def.kind.args().next().map_or("", |t| types.name(t)).to_owned();
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
    fn several_parameters_are_told_apart() {
        let mut types = Types::new();
        let map = types.instance(TypeKind::Map(Types::STRING, Types::INT));
        let heading = |name: &str| {
            let method = types.find_method(map, name).unwrap();
            types.heading(name, &types.method(method).signature)
        };
        assert_eq!(types.name(map), "map[string, int]");
        assert_eq!(heading("store"), "store (k: string, v: int)");
        assert_eq!(heading("pairs"), "pairs () yields (string, int)");
        assert_eq!(heading("copy"), "copy () returns (map[string, int])");
    }

    #[test]
    fn type_arguments_are_found_from_arguments() {
        let mut types = Types::new();
        let words = types.instance(TypeKind::Sequence(Types::STRING));
        let found = |name: &str, given: &[TypeId]| infer(&types, find_routine(name).unwrap(), given);
        assert_eq!(found("array_fill", &[Types::INT, Types::INT, Types::REAL]), [Some(Types::REAL)]);
        assert_eq!(found("array_create", &[Types::INT, words]), [Some(Types::STRING)]);
        assert_eq!(found("array_create", &[Types::INT, Types::INT]), [None]);
        assert_eq!(found("map_new", &[]), [None, None]);
    }

    #[test]
    fn a_method_with_another_heading_does_not_count() {
        let mut types = Types::new();
        let odd = types.add(crate::types::TypeDef {
            name: "odd".to_owned(),
            kind: TypeKind::Object,
            supertypes: Vec::new(),
            methods: Default::default(),
            immutable: false,
            actor: false,
            public: true,
            doc: String::new(),
        });
        let signature = Signature { results: vec![Types::INT], ..Signature::default() };
        types.def_mut(odd).methods.push(Method {
            name: "unparse".to_owned(),
            signature,
            stands_for: Vec::new(),
            doc: String::new(),
            builtin: None,
            public: true,
        });
        let array = types.instance(TypeKind::Array(odd));
        assert!(types.find_method(array, "unparse").is_none());
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
