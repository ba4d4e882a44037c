//! Measures of the code: the lines of files and functions, and how far `unsafe` reaches.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A part of a Rust source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The file.
    pub path: String,
    /// The first line, from 1.
    pub line: usize,
    /// Its lines.
    pub lines: usize,
    /// The function's name, or that of the function around an unsafe block.
    pub name: String,
}

/// The parts of a source that are measured. Code in the arguments of macros is not seen.
#[derive(Clone, Default, Debug)]
pub struct Shape {
    /// Functions with a body, tests left out.
    pub functions: Vec<Part>,
    /// Unsafe blocks.
    pub unsafe_blocks: Vec<Part>,
    /// Functions that are unsafe, take a pointer to a context first, and words.
    pub functions_of_words: Vec<Part>,
    path: String,
    /// The functions around the visited expression.
    around: Vec<String>,
}

impl Shape {
    /// Adds a source.
    ///
    /// # Errors
    /// It is no Rust.
    pub fn add(&mut self, path: &str, source: &str) -> syn::Result<()> {
        path.clone_into(&mut self.path);
        self.visit_file(&syn::parse_file(source)?);
        Ok(())
    }

    fn part(&self, span: Span, name: &str) -> Part {
        let (start, end) = (span.start().line, span.end().line);
        Part { path: self.path.clone(), line: start, lines: end + 1 - start, name: name.into() }
    }

    fn function(&mut self, signature: &syn::Signature, span: Span) {
        let part = self.part(span, &signature.ident.to_string());
        if matches!(signature.safety, syn::Safety::Unsafe(_)) && takes_words(signature) {
            self.functions_of_words.push(part.clone());
        }
        self.functions.push(part);
        self.around.push(signature.ident.to_string());
    }
}

/// True if the first argument is `*mut Cx`, and another one a `Word`.
fn takes_words(signature: &syn::Signature) -> bool {
    let is_named = |ty: &syn::Type, name: &str| match ty {
        syn::Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == name),
        _ => false,
    };
    let mut types = signature.inputs.iter().filter_map(|input| match input {
        syn::FnArg::Typed(typed) => Some(&*typed.ty),
        syn::FnArg::Receiver(_) => None,
    });
    let context = types.next().is_some_and(|ty| match ty {
        syn::Type::Ptr(pointer) => is_named(&pointer.elem, "Cx"),
        _ => false,
    });
    context && types.any(|ty| is_named(ty, "Word"))
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        let configured = || attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test");
        path.is_ident("test") || path.is_ident("cfg") && configured()
    })
}

impl<'ast> Visit<'ast> for Shape {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if is_test(&item.attrs) {
            return;
        }
        self.function(&item.sig, item.sig.span().join(item.block.span()).unwrap_or_else(|| item.span()));
        visit::visit_item_fn(self, item);
        self.around.pop();
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, item.sig.span().join(item.block.span()).unwrap_or_else(|| item.span()));
        visit::visit_impl_item_fn(self, item);
        self.around.pop();
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        let around = self.around.last().cloned().unwrap_or_default();
        let part = self.part(block.span(), &around);
        self.unsafe_blocks.push(part);
        visit::visit_expr_unsafe(self, block);
    }
}

/// The lines of a comment that gives the duty of an unsafe block to the caller.
pub fn promised_by_the_caller(source: &str) -> usize {
    source.lines().filter(|line| line.contains("SAFETY: promised by the caller")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "impl A {\n    unsafe fn f(cx: *mut Cx, actor: Word) {\n        \
        // SAFETY: promised by the caller.\n        unsafe {\n            g(cx)\n        \
        }\n    }\n}\n\
        fn g(word: Word) {}\n#[cfg(test)]\nmod tests {\n    fn h() {}\n}\n#[test]\nfn i() {}\n";

    #[test]
    fn functions_and_unsafe_blocks_are_found() {
        let mut shape = Shape::default();
        shape.add("a.rs", SOURCE).unwrap();
        let of = |parts: &[Part]| -> Vec<(usize, usize, String)> {
            parts.iter().map(|part| (part.line, part.lines, part.name.clone())).collect()
        };
        assert_eq!(of(&shape.functions), [(2, 6, "f".into()), (9, 1, "g".into())]);
        assert_eq!(of(&shape.unsafe_blocks), [(4, 3, "f".into())]);
        assert_eq!(of(&shape.functions_of_words), [(2, 6, "f".into())]);
        assert_eq!(promised_by_the_caller(SOURCE), 1);
        assert!(shape.add("b.rs", "fn (").is_err());
    }
}
