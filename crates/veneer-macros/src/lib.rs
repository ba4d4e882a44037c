//! The attribute `remote` of `bifrost-veneer`: functions that become batched procedures.
//!
//! [`remote`] turns the body of a function into calls of the veneer that record it. The types of
//! these calls are the compiler's to check, at the places of the source that they stand for. What
//! has no meaning at the server is refused with a message, and never guessed.

mod body;
mod expand;

use proc_macro::TokenStream;
use syn::{ItemFn, parse_macro_input};

/// Makes a function a batched procedure, which a session sends once and calls by its name.
///
/// The function gets the session as its first argument, and each other argument may be a value, a
/// promise or a stub. Its result is a promise or a stub. The body runs at the server. It is
/// recorded once in each session, when the function is called first.
///
/// | in the body | at the server |
/// | --- | --- |
/// | `let mut n = 0;`, `n = 5`, `n += 1` | a cell, which is put and read |
/// | `let name = object.name();` | a result |
/// | `a + b`, `a < b`, `!a`, `-a`, `a as f64` | methods of basic types |
/// | `a && b`, `a \|\| b` | the right side only if it is needed |
/// | `if`, `else`, as values too; `while`, `loop` | structures |
/// | `for user in db.users()`, `for n in 1..=9` | loops over iterators |
/// | `break`, `continue`, `return` | the same |
/// | `new_point(1, 2)`, a routine; the function itself | a call |
///
/// A body calls routines of the stubs without their session. It calls other remote functions that
/// the attribute names: `#[remote(uses(twice, lib::thrice))]`.
///
/// Numbers are those of the server: `/` and `%` leave a remainder that is never negative, and what
/// has no result signals an exception.
///
/// Anything else, as `match`, `?`, closures and macros, is refused by the compiler.
///
/// ```text
/// #[bifrost_veneer::remote]
/// fn busy(db: DataBase, limit: i64) -> i64 {
///     let mut n = 0;
///     for user in db.users() {
///         if user.visits() <= limit {
///             continue;
///         }
///         n += user.visits();
///     }
///     n
/// }
///
/// let visits = busy(&session, &db, 3).claim()?;
/// ```
#[proc_macro_attribute]
pub fn remote(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let function = parse_macro_input!(item as ItemFn);
    expand::expand(arguments.into(), &function).unwrap_or_else(syn::Error::into_compile_error).into()
}
