//! Structs and oneofs from Rust types.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Ident, Result, Type, Variant};

use crate::signals::snake_case;

/// Expands `#[derive(Struct)]`.
pub fn expand_struct(item: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &item.data else {
        return Err(Error::new(item.ident.span(), "a struct of Theta is one of Rust"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(item.ident.span(), "the fields of a struct have names"));
    };
    if fields.named.is_empty() {
        return Err(Error::new(item.ident.span(), "a struct has at least one field"));
    }
    let names: Vec<&Ident> = fields.named.iter().filter_map(|field| field.ident.as_ref()).collect();
    let types: Vec<&Type> = fields.named.iter().map(|field| &field.ty).collect();
    let theta: Vec<String> = names.iter().map(|name| name.unraw().to_string()).collect();
    let places = 0..names.len();
    let take = quote! {
        ::core::result::Result::Ok(Self {
            #(#names: unsafe { ::bifrost_native::glue::part(cx, given, (#places, #places)) }?),*
        })
    };
    let give = quote! {
        let Self { #(#names),* } = self;
        ::bifrost_native::glue::new_tagged(cx, ty, 0, ::std::vec![#(#names.giver()),*])
    };
    implement(
        item,
        &quote!(Struct),
        &theta,
        &types.iter().map(|ty| quote!(#ty)).collect::<Vec<_>>(),
        &take,
        &give,
    )
}

/// Expands `#[derive(OneOf)]`.
pub fn expand_oneof(item: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &item.data else {
        return Err(Error::new(item.ident.span(), "a oneof of Theta is an enum of Rust"));
    };
    if data.variants.is_empty() {
        return Err(Error::new(item.ident.span(), "a oneof has at least one tag"));
    }
    let mut names = Vec::new();
    let mut types = Vec::new();
    let mut takes = Vec::new();
    let mut gives = Vec::new();
    for (at, variant) in data.variants.iter().enumerate() {
        let name = &variant.ident;
        names.push(snake_case(&name.unraw().to_string()));
        match value_of(variant)? {
            None => {
                types.push(quote!(()));
                takes.push(quote!(#at => Self::#name));
                gives.push(quote!(Self::#name => (#at, ::std::vec![])));
            }
            Some(ty) => {
                types.push(quote!(#ty));
                takes.push(quote! {
                    #at => Self::#name(unsafe { ::bifrost_native::glue::part(cx, given, (#at, 0)) }?)
                });
                gives.push(quote!(Self::#name(value) => (#at, ::std::vec![value.giver()])));
            }
        }
    }
    let take = quote! {
        ::core::result::Result::Ok(match ::bifrost_native::glue::tag(cx, given) {
            #(#takes,)*
            _ => return ::core::result::Result::Err(::bifrost_native::glue::failure(cx, "internal error: no such tag")),
        })
    };
    let give = quote! {
        let (tag, parts) = match self { #(#gives),* };
        ::bifrost_native::glue::new_tagged(cx, ty, tag, parts)
    };
    implement(item, &quote!(OneOf), &names, &types, &take, &give)
}

/// Returns the type of the value of a tag; none for `null`.
fn value_of(variant: &Variant) -> Result<Option<&Type>> {
    match &variant.fields {
        Fields::Unit => Ok(None),
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
            Ok(fields.unnamed.first().map(|field| &field.ty))
        }
        _ => Err(Error::new(variant.span(), "a tag has one value without a name, or none for `null`")),
    }
}

/// Makes the implementations that both have.
fn implement(
    item: &DeriveInput,
    form: &TokenStream,
    names: &[String],
    types: &[TokenStream],
    take: &TokenStream,
    give: &TokenStream,
) -> Result<TokenStream> {
    if let Some(parameter) = item.generics.params.first() {
        return Err(Error::new(parameter.span(), "a type that natives exchange has no parameters"));
    }
    let ident = &item.ident;
    let lifetime = syn::Lifetime::new("'theta", ident.span());
    Ok(quote! {
        impl<#lifetime> ::bifrost_native::value::Argument<#lifetime> for #ident {
            const TYPED: bool = true;

            fn native_type() -> ::bifrost_native::glue::NativeType {
                ::bifrost_native::glue::NativeType::Structure(
                    ::bifrost_native::glue::Form::#form,
                    ::std::vec![#((#names, <#types as ::bifrost_native::value::Argument<'_>>::native_type())),*],
                )
            }

            fn take(
                cx: &mut ::bifrost_native::Cx<'_>,
                given: ::bifrost_native::value::Given<#lifetime, Self>,
            ) -> ::core::result::Result<Self, ::bifrost_native::glue::RawRet> {
                // SAFETY: the object is one of the type, whose parts were compared with those here.
                #take
            }
        }

        // SAFETY: the type is a struct or a oneof.
        unsafe impl ::bifrost_native::glue::Structured for #ident {}

        impl ::bifrost_native::value::Owned for #ident {}

        impl ::bifrost_native::value::Value for #ident {
            const TYPED: bool = true;

            fn native_type() -> ::bifrost_native::glue::NativeType {
                <#ident as ::bifrost_native::value::Argument<'_>>::native_type()
            }

            fn give(
                self,
                cx: &mut ::bifrost_native::Cx<'_>,
                ty: ::bifrost_native::glue::TypeId,
            ) -> ::core::result::Result<u64, ::bifrost_native::glue::RawRet> {
                use ::bifrost_native::glue::Give as _;
                #give
            }
        }
    })
}
