//! The attributes of `bifrost-native`: entries of the runtime's calling convention around functions
//! of Rust.
//!
//! The code that they write does no work of its own: it converts arguments and results by the
//! traits of `bifrost_native::value` and calls `bifrost_native::glue`. A mistake is an error of the
//! compiler at its place in the source.

mod actor;
mod class;
mod function;
mod signals;
mod tagged;

use proc_macro::TokenStream;
use syn::{DeriveInput, ItemFn, ItemImpl, LitStr, parse_macro_input};

/// Makes the methods of an `impl` block those of a class of Theta: `#[theta_class("crate::Type")]`.
///
/// Methods are the functions with `&self` or `&mut self` whose next argument is `cx: &mut Cx`;
/// others stay as they are.
#[proc_macro_attribute]
pub fn theta_class(name: TokenStream, item: TokenStream) -> TokenStream {
    let name = parse_macro_input!(name as LitStr);
    let item = parse_macro_input!(item as ItemImpl);
    class::expand(&name, &item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes the functions of an `impl` block those of a class of actors: `#[theta_actor("crate::Type",
/// concurrency = 4)]`. Without `concurrency` one method runs at a time; 0 is no bound.
///
/// Functions whose next argument is `task: &Task` are those of the actor; others stay as they are.
/// `fn new(task: &Task, ...) -> Self` (or `-> Result<Self, String>`) is the creator. A method with
/// `&self` runs beside others, one with `&mut self` alone. A method whose last argument is `reply:
/// Reply<O>` answers later: its outcome is `O`.
#[proc_macro_attribute]
pub fn theta_actor(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let attribute = parse_macro_input!(attribute as actor::Attribute);
    let item = parse_macro_input!(item as ItemImpl);
    actor::expand(&attribute, &item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a function a routine of Theta: `#[theta_routine("crate::function")]`. Its first argument
/// is `cx: &mut Cx`.
///
/// Beside the function there is a type of the same name, whose `native ()` returns the routine for
/// a registry.
#[proc_macro_attribute]
pub fn theta_routine(name: TokenStream, item: TokenStream) -> TokenStream {
    let name = parse_macro_input!(name as LitStr);
    let item = parse_macro_input!(item as ItemFn);
    function::expand(&name, &item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes the variants of an enum exceptions: `NotFound` is `not_found`, fields of a tuple are its
/// values, and `Failure(String)` is `failure`.
///
/// A variant `Raised(Raised)` passes on the exception of a call that the native made, and the
/// operator `?` makes it.
#[proc_macro_derive(Signals)]
pub fn signals(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    signals::expand(&item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct the `struct[...]` whose fields have the same names, in the same order.
#[proc_macro_derive(Struct)]
pub fn structure(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    tagged::expand_struct(&item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes an enum the `oneof[...]` whose tags are the variants in snake case, in the same order:
/// `Two(i64)` is `two: int`, and `None` is `none: null`.
#[proc_macro_derive(OneOf)]
pub fn oneof(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    tagged::expand_oneof(&item).unwrap_or_else(syn::Error::into_compile_error).into()
}

#[cfg(test)]
mod tests {
    use syn::{DeriveInput, ItemFn, ItemImpl, LitStr, parse_quote};

    use super::{class, function, signals, tagged};

    fn mistake(expanded: syn::Result<proc_macro2::TokenStream>) -> String {
        expanded.map(drop).expect_err("it is refused").to_string()
    }

    #[test]
    fn types_that_theta_does_not_have_are_refused() {
        let a_struct = |item: DeriveInput| mistake(tagged::expand_struct(&item));
        assert_eq!(
            a_struct(parse_quote!(
                enum A {
                    B,
                }
            )),
            "a struct of Theta is one of Rust"
        );
        assert_eq!(
            a_struct(parse_quote!(
                struct A(i64);
            )),
            "the fields of a struct have names"
        );
        assert_eq!(
            a_struct(parse_quote!(
                struct A {}
            )),
            "a struct has at least one field"
        );
        let parameters = "a type that natives exchange has no parameters";
        assert_eq!(
            a_struct(parse_quote!(
                struct A<T> {
                    t: T,
                }
            )),
            parameters
        );
        let a_oneof = |item: DeriveInput| mistake(tagged::expand_oneof(&item));
        assert_eq!(
            a_oneof(parse_quote!(
                struct A {
                    b: i64,
                }
            )),
            "a oneof of Theta is an enum of Rust"
        );
        assert_eq!(
            a_oneof(parse_quote!(
                enum A {}
            )),
            "a oneof has at least one tag"
        );
        let values = "a tag has one value without a name, or none for `null`";
        assert_eq!(
            a_oneof(parse_quote!(
                enum A {
                    B(i64, i64),
                }
            )),
            values
        );
        assert_eq!(
            a_oneof(parse_quote!(
                enum A {
                    B { c: i64 },
                }
            )),
            values
        );
        let a_signal = |item: DeriveInput| mistake(signals::expand(&item));
        assert_eq!(
            a_signal(parse_quote!(
                struct A;
            )),
            "exceptions are the variants of an enum"
        );
        assert_eq!(
            a_signal(parse_quote!(
                enum A {
                    B { c: i64 },
                }
            )),
            "the values of an exception have no names"
        );
    }

    #[test]
    fn functions_that_theta_cannot_call_are_refused() {
        let name: LitStr = parse_quote!("test::f");
        let a_routine = |item: ItemFn| mistake(function::expand(&name, &item));
        assert_eq!(
            a_routine(parse_quote!(
                fn f(n: i64) {}
            )),
            "a native takes `cx: &mut Cx` first"
        );
        assert_eq!(
            a_routine(parse_quote!(
                async fn f(cx: &mut Cx) {}
            )),
            "a native cannot wait"
        );
        let parameters = "a native has no parameters of types or lifetimes";
        assert_eq!(
            a_routine(parse_quote!(
                fn f<T>(cx: &mut Cx, t: T) {}
            )),
            parameters
        );
        let early = parse_quote!(
            fn f(cx: &mut Cx, each: &mut dyn FnMut(&mut Cx, i64) -> Flow, n: i64) {}
        );
        assert_eq!(a_routine(early), "the body of the loop comes last");
        let a_class = |item: ItemImpl| mistake(class::expand(&name, &item));
        assert_eq!(
            a_class(parse_quote!(
                impl<T> A<T> {}
            )),
            "a native class has no parameters"
        );
        let of_a_trait = "the methods of a class are in an `impl` block of its own";
        assert_eq!(a_class(parse_quote!(impl B for A {})), of_a_trait);
        let by_value = "a method of a class takes `&self` or `&mut self`";
        assert_eq!(a_class(parse_quote!(impl A { fn f(self, cx: &mut Cx) {} })), by_value);
    }
}
