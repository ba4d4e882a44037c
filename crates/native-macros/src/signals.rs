//! Exceptions from an enum.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Ident, Result, Variant};

/// The most values of an exception.
const VALUES_MAX: usize = 16;

/// Returns the implementation of `Signals`.
pub fn expand(item: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &item.data else {
        return Err(Error::new(item.ident.span(), "exceptions are the variants of an enum"));
    };
    let ident = &item.ident;
    let mut types = Vec::new();
    let mut arms = Vec::new();
    let mut raised = None;
    for variant in &data.variants {
        let name = &variant.ident;
        if is(variant, "Raised") {
            arms.push(
                quote!(#ident::#name(raised) => ::bifrost_native::value::Signals::end(raised, cx, frame)),
            );
            raised = Some(quote! {
                impl ::core::convert::From<::bifrost_native::Raised> for #ident {
                    fn from(raised: ::bifrost_native::Raised) -> #ident {
                        #ident::#name(raised)
                    }
                }
            });
            continue;
        }
        if is(variant, "Failure") {
            arms.push(quote!(#ident::#name(text) => ::bifrost_native::glue::failure(cx, &text)));
            continue;
        }
        let (row, arm) = signal(ident, variant)?;
        types.push(row);
        arms.push(arm);
    }
    Ok(quote! {
        #raised

        impl ::bifrost_native::value::Signals for #ident {
            fn native_types(
            ) -> ::std::vec::Vec<(::std::string::String, ::std::vec::Vec<::bifrost_native::glue::NativeType>)> {
                ::std::vec![#(#types),*]
            }

            fn end(
                self,
                cx: &mut ::bifrost_native::Cx<'_>,
                frame: &::bifrost_native::glue::Frame,
            ) -> ::bifrost_native::glue::RawRet {
                match self {
                    #(#arms,)*
                }
            }
        }
    })
}

/// True if it is `Failure(String)`, which always is possible, or `Raised(Raised)`: neither is
/// listed.
fn is(variant: &Variant, name: &str) -> bool {
    variant.ident == name && variant.fields.len() == 1
}

fn signal(ident: &Ident, variant: &Variant) -> Result<(TokenStream, TokenStream)> {
    let name = &variant.ident;
    let theta = snake_case(&name.to_string());
    let fields: Vec<_> = match &variant.fields {
        Fields::Unit => Vec::new(),
        Fields::Unnamed(fields) => fields.unnamed.iter().map(|f| &f.ty).collect(),
        Fields::Named(fields) => {
            return Err(Error::new(fields.span(), "the values of an exception have no names"));
        }
    };
    if fields.len() > VALUES_MAX {
        let text = format!("an exception has at most {VALUES_MAX} values");
        return Err(Error::new(variant.span(), text));
    }
    let row = quote! {
        (::std::borrow::ToOwned::to_owned(#theta), ::std::vec![
            #(<#fields as ::bifrost_native::value::Value>::native_type()),*
        ])
    };
    let values: Vec<Ident> = (0..fields.len()).map(|at| format_ident!("value{at}")).collect();
    let pattern = if values.is_empty() { quote!() } else { quote!((#(#values),*)) };
    let arm = quote! {
        #ident::#name #pattern => ::bifrost_native::glue::signal(cx, frame, #theta, ::std::vec![
            #(::bifrost_native::glue::Give::giver(#values)),*
        ])
    };
    Ok((row, arm))
}

/// Returns the name in Theta of a variant.
pub fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for (at, c) in name.char_indices() {
        if c.is_uppercase() && at > 0 {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}
