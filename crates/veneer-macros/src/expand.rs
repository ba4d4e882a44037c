//! The function around a body.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Error, FnArg, Ident, ItemFn, Pat, Path, ReturnType, Type};

use crate::body::Body;

/// Returns the function that defines the procedure, if the session has it not, and calls it.
pub(crate) fn expand(arguments: TokenStream, function: &ItemFn) -> Result<TokenStream, Error> {
    let uses = syn::parse2::<Uses>(arguments)?.0;
    let head = &function.sig;
    let not = |what: &dyn ToTokens, name: &str| {
        Err(Error::new_spanned(
            what,
            format!("a remote function cannot be {name}: it is recorded once and sent"),
        ))
    };
    if let Some(word) = &head.asyncness {
        return not(word, "`async`");
    }
    if !matches!(head.safety, syn::Safety::Default) {
        return not(&head.fn_token, "`unsafe`");
    }
    if let Some(word) = &head.constness {
        return not(word, "`const`");
    }
    if !head.generics.params.is_empty() {
        return not(&head.generics, "generic");
    }
    let mut names: Vec<(Ident, bool)> = Vec::new();
    let mut types: Vec<&Type> = Vec::new();
    for input in &head.inputs {
        let FnArg::Typed(input) = input else { return not(input, "a method") };
        let Pat::Ident(name) = &*input.pat else {
            return Err(Error::new_spanned(&input.pat, "an argument of a remote function is a name"));
        };
        names.push((name.ident.clone(), name.mutability.is_some()));
        types.push(&input.ty);
    }
    let (attributes, visibility, name) = (&function.attrs, &function.vis, &head.ident);
    let none: Type = syn::parse_quote!(());
    let result = match &head.output {
        ReturnType::Default => &none,
        ReturnType::Type(_, ty) => ty,
    };
    let session = format_ident!("session", span = proc_macro2::Span::mixed_site());
    let this = format_ident!("this", span = proc_macro2::Span::mixed_site());
    let inputs: Vec<&Ident> = names.iter().map(|(name, _)| name).collect();
    // An argument that the body changes is put into a cell first.
    let changed = names
        .iter()
        .filter(|(_, changes)| *changes)
        .map(|(name, _)| quote!(let #name = ::bifrost_veneer::remote::cell(#session, #name.clone());));
    let body = Body::new(&session, &this, name, result).function(&names, &function.block)?;
    let pattern = match inputs.as_slice() {
        [] => quote!(_),
        inputs => quote!((#(#inputs,)*)),
    };
    let variable = |ty: &&Type| quote_spanned!(ty.span()=> impl ::bifrost_veneer::IntoArg<#ty>);
    let variables = types.iter().map(variable);
    let future = quote_spanned!(result.span()=> <#result as ::bifrost_veneer::Element>::Future);
    let define = defines(name);
    let uses = uses.iter().map(|path| {
        let mut path = path.clone();
        if let Some(last) = path.segments.last_mut() {
            last.ident = defines(&last.ident);
        }
        quote!(drop(#path(#session));)
    });
    let procedure = quote!(::bifrost_veneer::Procedure<(#(#types,)*), #result>);
    Ok(quote! {
        #(#attributes)*
        #[track_caller]
        #visibility fn #name(#session: &::bifrost_veneer::Session, #(#inputs: #variables),*) -> #future {
            #define(#session).call((#(#inputs,)*))
        }

        #[doc(hidden)]
        #[track_caller]
        #[allow(unused_parens, unused_variables, clippy::all)]
        #visibility fn #define(#session: &::bifrost_veneer::Session) -> #procedure {
            // Functions inside others have the path of their module, so the place belongs to
            // the name.
            const NAME: &str = concat!(module_path!(), "::", stringify!(#name), "@", line!(), ":", column!());
            ::bifrost_veneer::remote::procedure::<(#(#types,)*), #result, _>(
                #session,
                NAME,
                || { #(#uses)* },
                |#this, #pattern| {
                    #(#changed)*
                    #body
                },
            )
        }
    })
}

/// Returns the name of the function that defines the procedure.
fn defines(name: &Ident) -> Ident {
    format_ident!("define_remote_{}", name)
}

/// The other remote functions that a body calls: `uses(twice, lib::thrice)`.
struct Uses(Vec<Path>);

impl Parse for Uses {
    fn parse(input: ParseStream<'_>) -> syn::Result<Uses> {
        if input.is_empty() {
            return Ok(Uses(Vec::new()));
        }
        let word: Ident = input.parse()?;
        if word != "uses" {
            return Err(Error::new(word.span(), "`remote` has one argument: `uses(function, ...)`"));
        }
        let list;
        syn::parenthesized!(list in input);
        let paths = list.parse_terminated(Path::parse_mod_style, syn::Token![,])?;
        Ok(Uses(paths.into_iter().collect()))
    }
}
