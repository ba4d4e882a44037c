//! The attributes of `bifrost-native`: entries of the runtime's calling convention around functions of Rust.
//!
//! What they write does no work of its own: it converts arguments and results by the traits of `bifrost_native::value`
//! and calls `bifrost_native::glue`. A mistake is an error of the compiler at the place where it is.

mod class;
mod function;
mod signals;
mod tagged;

use proc_macro::TokenStream;
use syn::{DeriveInput, ItemFn, ItemImpl, LitStr, parse_macro_input};

/// Makes the methods of an `impl` block those of a class of Theta: `#[theta_class("crate::Type")]`.
///
/// Methods are the functions with `&self` or `&mut self` whose next argument is `cx: &mut Cx`; others stay what they
/// are.
#[proc_macro_attribute]
pub fn theta_class(name: TokenStream, item: TokenStream) -> TokenStream {
    let name = parse_macro_input!(name as LitStr);
    let item = parse_macro_input!(item as ItemImpl);
    class::expand(&name, &item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a function a routine of Theta: `#[theta_routine("crate::function")]`. Its first argument is `cx: &mut Cx`.
///
/// Beside the function there is a type of the same name, whose `native ()` gives what a registry takes.
#[proc_macro_attribute]
pub fn theta_routine(name: TokenStream, item: TokenStream) -> TokenStream {
    let name = parse_macro_input!(name as LitStr);
    let item = parse_macro_input!(item as ItemFn);
    function::expand(&name, &item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes the variants of an enum exceptions: `NotFound` is `not_found`, fields of a tuple are its values, and
/// `Failure(String)` is `failure`.
///
/// A variant `Raised(Raised)` passes on what a call of the native signalled, and the operator `?` makes it.
#[proc_macro_derive(Signals)]
pub fn signals(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    signals::expand(&item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct the `struct[…]` whose fields have the same names, in the same order.
#[proc_macro_derive(Struct)]
pub fn structure(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    tagged::expand_struct(&item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes an enum the `oneof[…]` whose tags are the variants in snake case, in the same order: `Two(i64)` is `two: int`, and
/// `None` is `none: null`.
#[proc_macro_derive(OneOf)]
pub fn oneof(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    tagged::expand_oneof(&item).unwrap_or_else(syn::Error::into_compile_error).into()
}
