//! A class of actors from an `impl` block.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    Error, FnArg, GenericArgument, Ident, ImplItem, ItemImpl, LitInt, LitStr, PathArguments, ReceiverKind,
    Result, Signature, Token, Type,
};

use crate::function::{First, Shape};

/// The arguments of the attribute: the name, and the number of methods that run at once.
pub struct Attribute {
    name: LitStr,
    concurrency: u32,
}

impl Parse for Attribute {
    fn parse(input: ParseStream<'_>) -> Result<Attribute> {
        let name = input.parse()?;
        let mut concurrency = 1;
        if input.parse::<Option<Token![,]>>()?.is_some() && !input.is_empty() {
            let word: Ident = input.parse()?;
            if word != "concurrency" {
                return Err(Error::new(word.span(), "write `concurrency = N`; 0 is no bound"));
            }
            input.parse::<Token![=]>()?;
            concurrency = input.parse::<LitInt>()?.base10_parse()?;
        }
        Ok(Attribute { name, concurrency })
    }
}

/// Returns the outcome of `Reply<O>`.
fn deferred(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let segment = path.path.segments.last().filter(|segment| segment.ident == "Reply")?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(outcome)) => Some(outcome),
        _ => None,
    }
}

/// Takes the argument `reply: Reply<O>` from the end of a heading. Returns `O`.
fn take_reply(signature: &mut Signature) -> Option<Type> {
    let Some(FnArg::Typed(last)) = signature.inputs.last() else { return None };
    let outcome = deferred(&last.ty)?.clone();
    signature.inputs.pop();
    signature.inputs.pop_punct();
    Some(outcome)
}

/// Returns the block, and the class of actors that its functions make.
pub fn expand(attribute: &Attribute, item: &ItemImpl) -> Result<TokenStream> {
    let Attribute { name, concurrency } = attribute;
    if let Some(parameter) = item.generics.params.first() {
        return Err(Error::new(parameter.span(), "a native actor has no parameters"));
    }
    if let Some((path, _)) = &item.trait_ {
        return Err(Error::new(path.span(), "the methods of an actor are in an `impl` block of its own"));
    }
    let ty = &item.self_ty;
    let (mut entries, mut methods, mut has_new) = (Vec::new(), Vec::new(), false);
    for function in &item.items {
        let ImplItem::Fn(function) = function else { continue };
        let mut signature = function.sig.clone();
        let receiver = signature.receiver().cloned();
        let skipped = usize::from(receiver.is_some());
        if !signature.inputs.iter().nth(skipped).is_some_and(|first| First::Task.is(first)) {
            continue;
        }
        let method = &function.sig.ident;
        let own = method.unraw().to_string();
        let reply = take_reply(&mut signature);
        let mut shape = Shape::read(&signature, skipped, First::Task)?;
        if let Some(outcome) = &reply {
            shape = shape.with_output(outcome);
        }
        let (around, alone) = match &receiver {
            None if own == "new" && reply.is_none() => {
                has_new = true;
                shape = shape.with_output(&syn::parse_quote!(()));
                (quote!(create::<#ty, _>), true)
            }
            None => {
                return Err(Error::new(method.span(), "a method of an actor takes `&self` or `&mut self`"));
            }
            Some(receiver) => match &receiver.kind {
                ReceiverKind::Reference(_, _, Some(_)) if reply.is_some() => {
                    let text = "a method that answers later takes `&self`: others run until it answers";
                    return Err(Error::new(receiver.span(), text));
                }
                ReceiverKind::Reference(_, _, Some(_)) => (quote!(alone::<#ty>), true),
                ReceiverKind::Reference(..) => (quote!(shared::<#ty>), false),
                _ => {
                    let text = "a method of an actor takes `&self` or `&mut self`";
                    return Err(Error::new(receiver.span(), text));
                }
            },
        };
        let entry = format_ident!("__theta_{own}");
        entries.push(shape.actor_entry(
            &entry,
            &around,
            &quote!(<#ty>::#method),
            reply.as_ref(),
            receiver.is_some(),
        ));
        let (heading, defers) = (shape.heading(), reply.is_some());
        methods.push(quote! {
            ::bifrost_native::actor::Method::new(#own, #heading, #alone, #defers, <#ty>::#entry)
        });
    }
    if !has_new {
        let text = "an actor is made by `fn new(task: &Task, ...) -> Self` or `-> Result<Self, String>`";
        return Err(Error::new(ty.span(), text));
    }
    Ok(quote! {
        #item

        #[doc(hidden)]
        impl #ty {
            #(#entries)*
        }

        impl ::bifrost_native::NativeActor for #ty {
            const NAME: &'static str = #name;
            const CONCURRENCY: u32 = #concurrency;

            fn methods() -> ::std::vec::Vec<::bifrost_native::actor::Method> {
                ::std::vec![#(#methods),*]
            }
        }
    })
}

impl Shape {
    /// Makes an entry `name` of a method of an actor, which runs `callee` inside `around`.
    fn actor_entry(
        &self,
        name: &Ident,
        around: &TokenStream,
        callee: &TokenStream,
        reply: Option<&Type>,
        has_receiver: bool,
    ) -> TokenStream {
        let types: Vec<&Type> = self.types().collect();
        let taken: Vec<Ident> = (0..types.len()).map(|at| format_ident!("theta_word{at}")).collect();
        let positions = 0..types.len();
        let (this, receiver) = match has_receiver {
            true => (quote!(theta_self,), quote!(theta_self,)),
            false => (quote!(), quote!()),
        };
        let (answers, given) = match reply {
            None => (quote!(), quote!()),
            Some(outcome) => {
                let made = quote! {
                    let theta_reply = ::bifrost_native::actor::Reply::<#outcome>::of(theta_cx, theta_task)?;
                };
                (made, quote!(theta_reply))
            }
        };
        let end = match (reply, has_receiver) {
            (None, true) => {
                quote!(::core::result::Result::Ok(::bifrost_native::glue::end(
                    theta_cx,
                    theta_frame,
                    theta_outcome
                )))
            }
            (Some(_), _) => quote!({
                let () = theta_outcome;
                ::core::result::Result::Ok(::bifrost_native::glue::RawRet::NOTHING)
            }),
            (None, false) => quote!(::core::result::Result::Ok(theta_outcome)),
        };
        quote! {
            fn #name(theta_call: &mut ::bifrost_native::actor::Call<'_>) -> ::bifrost_native::glue::RawRet {
                ::bifrost_native::actor::#around(theta_call, |#this theta_cx, theta_frame, theta_task, theta_words| {
                    #(
                        // SAFETY: the words are those of the heading, which was compared when the
                        // program was linked.
                        let #taken = unsafe {
                            ::bifrost_native::glue::take::<#types>(
                                theta_cx, theta_frame, #positions, theta_words[#positions],
                            )
                        }?;
                    )*
                    #answers
                    let theta_outcome = #callee(#receiver theta_task, #(#taken,)* #given);
                    #end
                })
            }
        }
    }
}
