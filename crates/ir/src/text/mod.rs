//! The text form of programs: to read the output of a front end, and to write programs by hand for
//! tests.
//!
//! [`parse()`] reads a file, [`print_program`] writes one, [`print_func`] and [`parse_func`] do a
//! single function. `parse_func(print_func(f)) == f` for every verified function. Comments run from
//! `;` to the end of the line.
//!
//! ```text
//! file      = { type | class | routine | batch } .
//! type      = "type" name [ "<" LIST( typename [ renames ] ) ] { "immutable" | "private" }
//!             { [ "private" ] heading } "end" .
//! class     = "class" name [ "implements" LIST(typename) ] [ "inherits" name [ renames ] ]
//!             [ "native" string ] [ "immutable" ]
//!             { name ":" typename | [ "private" ] "method" heading body "end"
//!             | "native" string [ "private" ] "method" heading } "end" .
//! renames   = "{" LIST( name "for" name ) "}" .
//! routine   = [ "private" ] ( "routine" heading body "end" | "native" string "routine" heading ) .
//! batch     = ( "batch" | "procedure" ) heading [ "calls" LIST(name) ] body "end" .
//! heading   = name "(" [ LIST( name ":" typename ) ] ")"
//!             [ ( "returns" | "yields" ) "(" LIST(typename) ")" ]
//!             [ "signals" "(" LIST( name [ "(" LIST(typename) ")" ] ) ")" ] .
//! body      = { "var" LIST( var ":" typename ) } { stmt [ "@" number ] } .
//! stmt      = var ":=" operand | [ LIST(var) ":=" ] call
//!           | var ":=" "new" class "(" [ LIST(operand) ] ")" | var ":=" "[" [ LIST(operand) ] "]"
//!           | var ":=" "get" class "." field "(" operand ")"
//!           | "set" class "." field "(" operand "," operand ")"
//!           | "if" operand "then" { stmt } [ "else" { stmt } ] "end"
//!           | "typecase" operand "as" var "then" { stmt } [ "else" { stmt } ] "end"
//!           | "while" { stmt } "test" operand "do" { stmt } "end"
//!           | "for" [ LIST(var) ] "in" call "do" { stmt } "end"
//!           | "break" | "continue" | ( "return" | "yield" ) values
//!           | ( "signal" | "exit" ) name values
//!           | "transaction" { stmt } "end"
//!           | "except" { stmt }
//!             { ( "when" LIST(name) | "others" ) [ "(" LIST(var) ")" ] ":" { stmt } } "end" .
//! values    = [ "(" [ LIST(operand) ] ")" ] .
//! call      = ( typename "." name | name [ "[" LIST(typename) "]" ] | "procedure" number
//!               | "itself" )
//!             "(" [ LIST(operand) ] ")" .
//! typename  = name [ "[" typename "]" ] | basic "#" "box"
//!           | ( "record" | "struct" | "oneof" ) "[" LIST( name ":" typename ) "]" [ "#" name ]
//!           | ( "proc" | "iter" ) "(" [ LIST(typename) ] ")"
//!             [ ( "returns" | "yields" ) "(" LIST(typename) ")" ] [ signals ] .
//! operand   = var | number | real | char | string | "nil" | "true" | "false" .
//! ```
//!
//! A variable is written with its name if no other of its function has that, else as `name%number`,
//! and the receiver of a method is `self`. The class of a record's objects is
//! `record[a: int]#record`, that of a tag `oneof[a: int]#a`, that of boxed integers `int#box`.
//! Names that are none here are written as strings, and private types and routines from the second
//! of their name on with their number, `"name~2"`. `real` not finite are `real%` and the sixteen
//! digits of their bits.

mod lex;
mod names;
mod parse;
mod print;
#[cfg(test)]
mod tests;

pub use parse::{File, ParseError, parse, parse_func};
pub use print::{print_func, print_program};

/// Words that are not names.
const KEYWORDS: &[&str] = &[
    "new",
    "get",
    "set",
    "if",
    "then",
    "else",
    "end",
    "while",
    "test",
    "typecase",
    "do",
    "for",
    "in",
    "break",
    "continue",
    "return",
    "yield",
    "signal",
    "exit",
    "except",
    "transaction",
    "when",
    "others",
    "send",
    "request",
    "await",
    "reply",
    "replyto",
    "deliver",
    "delegate",
    "create",
    "select",
    "after",
    "procedure",
    "itself",
    "nil",
    "true",
    "false",
    "var",
    "method",
    "routine",
    "batch",
    "private",
    "class",
    "type",
    "record",
    "struct",
    "oneof",
    "proc",
    "iter",
    "real",
    "calls",
    "as",
    "of",
];

/// Returns true if a text can stand as a name.
fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !KEYWORDS.contains(&text)
}
