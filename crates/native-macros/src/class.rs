//! A class from an `impl` block.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, FnArg, ImplItem, ItemImpl, LitStr, ReceiverKind, Result};

use crate::function::{First, Shape};

/// Returns the block, and the class that its methods make.
pub fn expand(name: &LitStr, item: &ItemImpl) -> Result<TokenStream> {
    if let Some(parameter) = item.generics.params.first() {
        return Err(Error::new(parameter.span(), "a native class has no parameters"));
    }
    if let Some((path, _)) = &item.trait_ {
        return Err(Error::new(path.span(), "the methods of a class are in an `impl` block of its own"));
    }
    let ty = &item.self_ty;
    let mut entries = Vec::new();
    let mut routines = Vec::new();
    for function in &item.items {
        let ImplItem::Fn(function) = function else { continue };
        let mut inputs = function.sig.inputs.iter();
        let Some(FnArg::Receiver(receiver)) = inputs.next() else { continue };
        if !inputs.next().is_some_and(|input| First::Context.is(input)) {
            continue;
        }
        let ReceiverKind::Reference(_, _, mutability) = &receiver.kind else {
            return Err(Error::new(receiver.span(), "a method of a class takes `&self` or `&mut self`"));
        };
        let shape = Shape::read(&function.sig, 1, First::Context)?;
        let method = &function.sig.ident;
        let own = method.unraw().to_string();
        let entry = format_ident!("__theta_{own}");
        let around = match mutability {
            Some(_) => quote!(::bifrost_native::glue::method_mut::<#ty>),
            None => quote!(::bifrost_native::glue::method::<#ty>),
        };
        entries.push(shape.entry(
            &entry,
            &quote!(::bifrost_native::glue::Frame::of_method(theta_first, #own)),
            &around,
            &quote!(theta_self, theta_cx, theta_frame),
            &quote!(<#ty>::#method),
            &quote!(theta_self,),
        ));
        let changes = mutability.is_some();
        routines.push(shape.routine(&format!("{}.{own}", name.value()), &quote!(<#ty>::#entry), changes));
    }
    Ok(quote! {
        #item

        #[doc(hidden)]
        impl #ty {
            #(#entries)*
        }

        impl ::bifrost_native::NativeClass for #ty {
            const NAME: &'static str = #name;

            fn methods() -> ::std::vec::Vec<::bifrost_native::Routine> {
                ::std::vec![#(#routines),*]
            }
        }

        impl ::bifrost_native::value::Value for #ty {
            fn native_type() -> ::bifrost_native::glue::NativeType {
                ::bifrost_native::glue::object_type::<#ty>()
            }

            fn give(
                self,
                cx: &mut ::bifrost_native::Cx<'_>,
                _ty: ::bifrost_native::glue::TypeId,
            ) -> ::core::result::Result<u64, ::bifrost_native::glue::RawRet> {
                ::bifrost_native::glue::new_object(cx, self)
            }
        }
    })
}
