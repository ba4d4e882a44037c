//! The arguments and results of a function, and the entry around it.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    Error, FnArg, Ident, ItemFn, LitStr, Pat, PatType, Result, ReturnType, Signature, Type, TypeParamBound,
};

/// Most arguments: as many words as a call can pass, without the receiver and the body of a loop.
const ARGUMENTS_MAX: usize = 22;

/// The parts of a heading.
pub struct Shape {
    /// Names and types behind `cx`, without the body of a loop.
    arguments: Vec<(Ident, Type)>,
    /// The types of an iterator's values.
    yields: Option<Vec<Type>>,
    output: TokenStream,
}

/// The argument that comes first, behind the receiver.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// `cx: &mut Cx`
    Context,
    /// `task: &Task`
    Task,
}

impl First {
    /// True if an argument is of this kind.
    pub fn is(self, argument: &FnArg) -> bool {
        let FnArg::Typed(PatType { ty, .. }) = argument else { return false };
        let Type::Reference(reference) = &**ty else { return false };
        let Type::Path(path) = &*reference.elem else { return false };
        let (mutable, name) = match self {
            First::Context => (true, "Cx"),
            First::Task => (false, "Task"),
        };
        reference.mutability.is_some() == mutable
            && path.path.segments.last().is_some_and(|segment| segment.ident == name)
    }

    fn missing(self) -> &'static str {
        match self {
            First::Context => "a native takes `cx: &mut Cx` first",
            First::Task => "a method of an actor takes `task: &Task` first",
        }
    }
}

impl Shape {
    /// Reads a heading; `skip` arguments come before the first one.
    pub fn read(signature: &Signature, skip: usize, first: First) -> Result<Shape> {
        let generics = &signature.generics;
        if let Some(parameter) = generics.params.first() {
            return Err(Error::new(parameter.span(), "a native has no parameters of types or lifetimes"));
        }
        if signature.asyncness.is_some() {
            return Err(Error::new(signature.span(), "a native cannot wait"));
        }
        let mut inputs = signature.inputs.iter().skip(skip);
        if !inputs.next().is_some_and(|input| first.is(input)) {
            return Err(Error::new(signature.ident.span(), first.missing()));
        }
        let mut arguments = Vec::new();
        let mut yields = None;
        for (at, input) in inputs.enumerate() {
            let FnArg::Typed(PatType { pat, ty, .. }) = input else {
                return Err(Error::new(input.span(), "`self` comes first"));
            };
            if yields.is_some() {
                return Err(Error::new(input.span(), "the body of the loop comes last"));
            }
            yields = body_of_loop(ty);
            if yields.is_some() && first == First::Task {
                return Err(Error::new(ty.span(), "a method of an actor is no iterator"));
            }
            if yields.is_none() {
                let name = match &**pat {
                    Pat::Ident(name) => {
                        format_ident!("{}", name.ident.unraw().to_string().trim_start_matches('_'))
                    }
                    _ => format_ident!("a{}", at + 1),
                };
                arguments.push((name, (**ty).clone()));
            }
        }
        if arguments.len() > ARGUMENTS_MAX {
            let text = format!("a native takes at most {ARGUMENTS_MAX} arguments");
            return Err(Error::new(signature.inputs.span(), text));
        }
        let output = match &signature.output {
            ReturnType::Default => quote!(()),
            ReturnType::Type(_, ty) => quote!(#ty),
        };
        Ok(Shape { arguments, yields, output })
    }

    /// Returns the same heading with another result.
    pub fn with_output(mut self, output: &Type) -> Shape {
        self.output = quote!(#output);
        self
    }

    /// Returns the types of the arguments.
    pub fn types(&self) -> impl Iterator<Item = &Type> {
        self.arguments.iter().map(|(_, ty)| ty)
    }

    /// Returns an expression for the heading.
    pub fn heading(&self) -> TokenStream {
        let names = self.arguments.iter().map(|(name, _)| name.to_string());
        let types = self.arguments.iter().map(|(_, ty)| ty);
        let yields = match &self.yields {
            None => quote!(::core::option::Option::None),
            Some(types) => quote! {
                ::core::option::Option::Some(::std::vec![
                    #(<#types as ::bifrost_native::value::Value>::native_type()),*
                ])
            },
        };
        let output = &self.output;
        quote! {
            ::bifrost_native::glue::NativeHeading {
                params: ::std::vec![
                    #((#names, <#types as ::bifrost_native::value::Argument<'_>>::native_type())),*
                ],
                results: <#output as ::bifrost_native::value::Outcome>::results(),
                yields: #yields,
                signals: <#output as ::bifrost_native::value::Outcome>::signals(),
            }
        }
    }

    /// Returns the names of the entry's words behind the first.
    fn words(&self) -> Vec<Ident> {
        let count = self.arguments.len() + usize::from(self.yields.is_some());
        (0..count).map(|at| format_ident!("theta_word{at}")).collect()
    }

    /// Makes an entry `name`, which runs `call` inside `around`: `around` begins a call of the glue
    /// and is given a closure. Its locals begin with `theta_`, since one of a routine's name would
    /// hide the routine.
    pub fn entry(
        &self,
        name: &Ident,
        frame: &TokenStream,
        around: &TokenStream,
        closure_arguments: &TokenStream,
        callee: &TokenStream,
        receiver: &TokenStream,
    ) -> TokenStream {
        let words = self.words();
        let types: Vec<&Type> = self.arguments.iter().map(|(_, ty)| ty).collect();
        let taken = &words[..types.len()];
        let positions = 0..types.len();
        let (loop_body, each) = match &self.yields {
            None => (quote!(), quote!()),
            Some(yields) => {
                let closure = &words[types.len()];
                let values: Vec<Ident> =
                    (0..yields.len()).map(|at| format_ident!("theta_value{at}")).collect();
                let places = 0..yields.len();
                let body = quote! {
                    let theta_yields = ::bifrost_native::glue::yields(theta_cx, theta_frame);
                    let mut theta_each = |theta_cx: &mut ::bifrost_native::Cx<'_>, #(#values: #yields),*| {
                        #(
                            let ::core::option::Option::Some(#values) =
                                ::bifrost_native::glue::yielded(theta_cx, &theta_yields, #places, #values)
                            else {
                                return ::bifrost_native::Flow::Leave;
                            };
                        )*
                        // SAFETY: the last word is the loop's closure, and the heading says what it
                        // takes.
                        unsafe { ::bifrost_native::glue::step(theta_cx, #closure, &[#(#values.0),*]) }
                    };
                };
                (body, quote!(&mut theta_each))
            }
        };
        quote! {
            extern "C" fn #name(
                theta_raw: *mut ::bifrost_native::glue::RawCx,
                theta_first: u64,
                #(#words: u64),*
            ) -> ::bifrost_native::glue::RawRet {
                // SAFETY: entered by the calling convention, with the words that the heading says.
                let (theta_raw, theta_frame) = unsafe { (&mut *theta_raw, #frame) };
                #around(theta_raw, &theta_frame, |#closure_arguments| {
                    #(
                        // SAFETY: as above.
                        let #taken = unsafe {
                            ::bifrost_native::glue::take::<#types>(theta_cx, theta_frame, #positions, #taken)
                        }?;
                    )*
                    #loop_body
                    let outcome = #callee(#receiver theta_cx, #(#taken,)* #each);
                    ::core::result::Result::Ok(::bifrost_native::glue::end(theta_cx, theta_frame, outcome))
                })
            }
        }
    }
}

/// Returns the values of `&mut dyn FnMut(&mut Cx, A, B) -> Flow`.
fn body_of_loop(ty: &Type) -> Option<Vec<Type>> {
    let Type::Reference(reference) = ty else { return None };
    let Type::TraitObject(object) = &*reference.elem else { return None };
    let Some(TypeParamBound::Trait(bound)) = object.bounds.first() else { return None };
    let segment = bound.path.segments.last().filter(|s| s.ident == "FnMut")?;
    let syn::PathArguments::Parenthesized(arguments) = &segment.arguments else { return None };
    Some(arguments.inputs.iter().skip(1).map(|argument| argument.ty.clone()).collect())
}

/// Makes a routine with the type beside it. Types have names of their own, so it can be called as
/// the function is. The type is an enum without variants, and so leaves the function's name alone.
pub fn expand(name: &LitStr, item: &ItemFn) -> Result<TokenStream> {
    let shape = Shape::read(&item.sig, 0, First::Context)?;
    let (ident, visibility) = (&item.sig.ident, &item.vis);
    let entry = format_ident!("entry");
    let code = shape.entry(
        &entry,
        &quote!(::bifrost_native::glue::Frame::of_routine(theta_first)),
        &quote!(::bifrost_native::glue::routine::<#ident, _>),
        &quote!(theta_cx, theta_frame),
        &quote!(#ident),
        &quote!(),
    );
    let routine = shape.routine(&name.value(), &quote!(<#ident>::#entry), false);
    Ok(quote! {
        #item

        #[doc = concat!("The native `", #name, "`.")]
        #[allow(non_camel_case_types, reason = "named as the function is")]
        #[derive(Debug)]
        #visibility enum #ident {}

        impl ::bifrost_native::glue::Named for #ident {
            const NAME: &'static str = #name;
        }

        impl #ident {
            #code

            /// For [`Registry::with_routine`](::bifrost_native::Registry::with_routine).
            #visibility fn native() -> ::bifrost_native::Routine {
                #routine
            }
        }
    })
}

impl Shape {
    /// Makes an expression for an entry as a routine of a registry. `changes` is true for a method
    /// that may change its receiver.
    pub fn routine(&self, name: &str, entry: &TokenStream, changes: bool) -> TokenStream {
        let heading = self.heading();
        let words = std::iter::repeat_n(quote!(u64), self.words().len() + 1);
        quote! {{
            let entry: extern "C" fn(*mut ::bifrost_native::glue::RawCx, #(#words),*) -> ::bifrost_native::glue::RawRet = #entry;
            let code = ::bifrost_native::glue::Code(entry as *const u8);
            // SAFETY: the entry is made from the same types as the heading, and catches panics.
            unsafe { ::bifrost_native::Routine::new(#name, code, #heading, #changes) }
        }}
    }
}
