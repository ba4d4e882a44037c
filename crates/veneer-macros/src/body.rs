//! The body of a remote function, as calls of the veneer that record it.
//!
//! [`Body::value`] is the type to read first: it turns an expression into one for the promise or
//! stub of its value.

use std::collections::HashSet;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    BinOp, Block, Error, Expr, ExprBinary, ExprCall, ExprForLoop, ExprIf, ExprRange, Ident, Lit, Local, Pat,
    RangeLimits, Stmt, Type, UnOp,
};

type Recorded = Result<TokenStream, Error>;

/// The body of a function.
pub(crate) struct Body<'f> {
    session: &'f Ident,
    this: &'f Ident,
    /// The function's own name.
    name: &'f Ident,
    result: &'f Type,
    /// The variables of each open block, and those among them that are cells.
    blocks: Vec<Names>,
}

#[derive(Default)]
struct Names {
    all: HashSet<Ident>,
    cells: HashSet<Ident>,
}

fn refuse<T>(what: &dyn ToTokens, why: &str) -> Result<T, Error> {
    Err(Error::new_spanned(what, why))
}

/// The form of what stands for a value in the recorded program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum As {
    /// An argument: literals stay as they are.
    Argument,
    /// A promise or stub, for operators and methods.
    Receiver,
}

impl<'f> Body<'f> {
    pub(crate) fn new(session: &'f Ident, this: &'f Ident, name: &'f Ident, result: &'f Type) -> Body<'f> {
        Body { session, this, name, result, blocks: Vec::new() }
    }

    /// Returns the whole body, whose value is the function's.
    pub(crate) fn function(&mut self, arguments: &[(Ident, bool)], block: &Block) -> Recorded {
        self.blocks.push(Names::default());
        for (name, changes) in arguments {
            self.declare(name, *changes);
        }
        let (statements, value) = split(block);
        let statements = self.statements(statements)?;
        let has_result = !is_unit(self.result);
        let value = match value {
            Some(value) if has_result => self.value(value, As::Argument)?,
            Some(value) => {
                let statement = self.statement_of(value)?;
                quote!({ #statement })
            }
            // What is behind a `return` never runs, and the compiler wants a value of the type.
            None if has_result && ends_with_return(block) => self.unreached(),
            None if has_result => {
                return refuse(self.result, "the body has no result: end it with a value, or with `return`");
            }
            None => quote!(()),
        };
        self.blocks.pop();
        Ok(quote! { #(#statements)* #value })
    }

    /// A value of the result's type that no run of the procedure computes.
    fn unreached(&self) -> TokenStream {
        let (session, result) = (self.session, self.result);
        quote!(#session.cell::<#result>().get())
    }

    fn declare(&mut self, name: &Ident, is_cell: bool) {
        if let Some(block) = self.blocks.last_mut() {
            block.all.insert(name.clone());
            if is_cell {
                block.cells.insert(name.clone())
            } else {
                block.cells.remove(name)
            };
        }
    }

    fn is_declared(&self, name: &Ident) -> bool {
        self.blocks.iter().any(|block| block.all.contains(name))
    }

    fn is_cell(&self, name: &Ident) -> bool {
        let block = self.blocks.iter().rev().find(|block| block.all.contains(name));
        block.is_some_and(|block| block.cells.contains(name))
    }

    fn block(&mut self, block: &Block) -> Recorded {
        self.blocks.push(Names::default());
        let statements = self.statements(&block.stmts);
        self.blocks.pop();
        let statements = statements?;
        Ok(quote!(#(#statements)*))
    }

    fn statements(&mut self, statements: &[Stmt]) -> Result<Vec<TokenStream>, Error> {
        statements.iter().map(|statement| self.statement(statement)).collect()
    }

    fn statement(&mut self, statement: &Stmt) -> Recorded {
        match statement {
            Stmt::Local(local) => self.local(local),
            Stmt::Expr(expression, _) => self.statement_of(expression),
            Stmt::Item(item) => refuse(item, "a remote function has no items: write it beside the function"),
            Stmt::Macro(call) => refuse(call, NO_MACRO),
        }
    }

    fn local(&mut self, local: &Local) -> Recorded {
        let (pattern, ty) = match &local.pat {
            Pat::Type(typed) => (&*typed.pat, Some(&*typed.ty)),
            pattern => (pattern, None),
        };
        let (session, span) = (self.session, local.let_token.span);
        let value = match &local.init {
            None => None,
            Some(init) if init.diverge.is_some() => {
                return refuse(local, "`let ... else` has no meaning at the server");
            }
            Some(init) => Some(&*init.expr),
        };
        let name = match pattern {
            Pat::Ident(name) if name.subpat.is_none() && name.by_ref.is_none() => name,
            Pat::Wild(_) => {
                let value = value.map(|value| self.value(value, As::Argument)).transpose()?;
                return Ok(quote!(let _ = #value;));
            }
            _ => return refuse(pattern, "a variable of a remote function is one name"),
        };
        let is_cell = name.mutability.is_some();
        // The value does not know the name yet.
        let recorded = match (value, ty) {
            (None, Some(ty)) if is_cell => quote_spanned!(span=> #session.cell::<#ty>()),
            (None, _) => {
                return refuse(
                    local,
                    "a variable without a value is `let mut name: Type`, which becomes a cell",
                );
            }
            (Some(value), ty) if is_cell => {
                let value = self.value(value, As::Argument)?;
                match ty {
                    Some(ty) => quote_spanned!(span=> #session.cell_with::<#ty>(#value)),
                    None => quote_spanned!(span=> ::bifrost_veneer::remote::cell(#session, #value)),
                }
            }
            (Some(value), ty) => {
                let value = self.value(value, As::Receiver)?;
                match ty {
                    Some(ty) => quote_spanned!(span=> {
                        let value: <#ty as ::bifrost_veneer::Element>::Future = #value;
                        value
                    }),
                    None => value,
                }
            }
        };
        let name = &name.ident;
        self.declare(name, is_cell);
        Ok(quote!(let #name = #recorded;))
    }

    /// Returns an expression whose value is not used.
    fn statement_of(&mut self, expression: &Expr) -> Recorded {
        let session = self.session;
        Ok(match expression {
            Expr::If(choice) => self.choice(choice)?,
            Expr::While(repeat) => {
                if repeat.label.is_some() {
                    return refuse(&repeat.label, NO_LABEL);
                }
                let (span, test) = (repeat.while_token.span, self.value(&repeat.cond, As::Receiver)?);
                let body = self.block(&repeat.body)?;
                quote_spanned!(span=> #session.while_(|| #test, || { #body });)
            }
            Expr::Loop(repeat) => {
                if repeat.label.is_some() {
                    return refuse(&repeat.label, NO_LABEL);
                }
                let (span, body) = (repeat.loop_token.span, self.block(&repeat.body)?);
                quote_spanned!(span=> #session.while_(|| #session.value(true), || { #body });)
            }
            Expr::ForLoop(repeat) => self.repeat(repeat)?,
            Expr::Break(leave) => match (&leave.label, &leave.expr) {
                (None, None) => quote_spanned!(leave.span()=> #session.break_();),
                (Some(label), _) => return refuse(label, NO_LABEL),
                (_, Some(value)) => {
                    return refuse(value, "a loop has no value at the server: assign it to a variable");
                }
            },
            Expr::Continue(next) => match &next.label {
                None => quote_spanned!(next.span()=> #session.continue_();),
                Some(label) => return refuse(label, NO_LABEL),
            },
            Expr::Return(end) => {
                let (span, result) = (end.return_token.span, self.result);
                let value = match &end.expr {
                    Some(value) => self.value(value, As::Argument)?,
                    None => quote!(()),
                };
                quote_spanned!(span=> #session.return_::<#result>(#value);)
            }
            Expr::Assign(assign) => {
                let (name, value) =
                    (self.target(&assign.left)?.clone(), self.value(&assign.right, As::Argument)?);
                quote_spanned!(assign.eq_token.span=> #name.put(#value);)
            }
            Expr::Binary(binary) if compound(&binary.op).is_some() => {
                let (name, operator) = (self.target(&binary.left)?.clone(), compound(&binary.op));
                let value = self.value(&binary.right, As::Argument)?;
                quote_spanned!(binary.op.span()=> #name.put(#name.get() #operator #value);)
            }
            Expr::Block(block) if block.label.is_none() => {
                let body = self.block(&block.block)?;
                quote!({ #body })
            }
            Expr::Paren(inner) => self.statement_of(&inner.expr)?,
            other => {
                let value = self.value(other, As::Argument)?;
                quote!(let _ = #value;)
            }
        })
    }

    /// Returns the name of the cell that is assigned.
    fn target<'e>(&self, target: &'e Expr) -> Result<&'e Ident, Error> {
        match target {
            Expr::Path(path) => match path.path.get_ident() {
                Some(name) if self.is_cell(name) => Ok(name),
                Some(name) => {
                    refuse(name, &format!("`{name}` is not `let mut`: only such variables can be assigned"))
                }
                None => refuse(path, "only variables of the function can be assigned"),
            },
            other => refuse(other, "only variables of the function can be assigned; objects have methods"),
        }
    }

    fn choice(&mut self, choice: &ExprIf) -> Recorded {
        let (session, span) = (self.session, choice.if_token.span);
        let test = self.value(&choice.cond, As::Receiver)?;
        let then = self.block(&choice.then_branch)?;
        let otherwise = match &choice.else_branch {
            None => quote!(),
            Some((_, otherwise)) => {
                let otherwise = self.statement_of(otherwise)?;
                quote!(.else_(|| { #otherwise }))
            }
        };
        Ok(quote_spanned!(span=> #session.if_(|| #test, || { #then }) #otherwise;))
    }

    fn repeat(&mut self, repeat: &ExprForLoop) -> Recorded {
        if repeat.label.is_some() {
            return refuse(&repeat.label, NO_LABEL);
        }
        let mut names: Vec<Ident> = Vec::new();
        let mut one = |pattern: &Pat| match pattern {
            Pat::Ident(name)
                if name.subpat.is_none() && name.by_ref.is_none() && name.mutability.is_none() =>
            {
                names.push(name.ident.clone());
                Ok(())
            }
            Pat::Wild(_) => Ok(()),
            other => refuse(other, "a loop variable is a name; copy it into a `let mut` to change it"),
        };
        match &*repeat.pat {
            Pat::Tuple(tuple) => tuple.elems.iter().try_for_each(&mut one)?,
            pattern => one(pattern)?,
        }
        let (session, span, pattern) = (self.session, repeat.for_token.span, &repeat.pat);
        let iterator = match &*repeat.expr {
            Expr::Range(range) => self.range(range)?,
            other => self.value(other, As::Receiver)?,
        };
        self.blocks.push(Names::default());
        names.iter().for_each(|name| self.declare(name, false));
        let body = self.block(&repeat.body);
        self.blocks.pop();
        let body = body?;
        Ok(quote_spanned!(span=> #session.foreach(#iterator, |#pattern| { #body });))
    }

    fn range(&mut self, range: &ExprRange) -> Recorded {
        let (Some(first), Some(last)) = (&range.start, &range.end) else {
            return refuse(range, "a loop over numbers has both ends: `1..=n`");
        };
        let first = self.value(first, As::Receiver)?;
        Ok(match range.limits {
            RangeLimits::Closed(_) => {
                let last = self.value(last, As::Argument)?;
                quote_spanned!(range.span()=> (#first).to(#last))
            }
            RangeLimits::HalfOpen(_) => {
                let last = self.value(last, As::Receiver)?;
                quote_spanned!(range.span()=> (#first).to(#last - 1))
            }
        })
    }

    /// Returns an expression for the promise or stub of a value.
    fn value(&mut self, expression: &Expr, form: As) -> Recorded {
        let session = self.session;
        let span = expression.span();
        Ok(match expression {
            Expr::Lit(literal) => {
                let (value, argument) = match &literal.lit {
                    Lit::Int(number) if number.suffix().is_empty() => {
                        let digits = number.base10_digits().parse::<i64>();
                        let number = digits.map_err(|_| Error::new(number.span(), "an int has 64 bits"))?;
                        (quote_spanned!(span=> #number), quote_spanned!(span=> #number))
                    }
                    Lit::Float(number) if number.suffix().is_empty() => {
                        let number: f64 = number.base10_parse()?;
                        (quote_spanned!(span=> #number), quote_spanned!(span=> #number))
                    }
                    Lit::Str(text) => (quote_spanned!(span=> #text.to_owned()), quote_spanned!(span=> #text)),
                    Lit::Bool(_) | Lit::Char(_) | Lit::Int(_) | Lit::Float(_) => {
                        (quote!(#literal), quote!(#literal))
                    }
                    other => return refuse(other, "this kind of literal does not cross"),
                };
                if form == As::Receiver { quote_spanned!(span=> #session.value(#value)) } else { argument }
            }
            Expr::Path(path) => match path.path.get_ident() {
                Some(name) if self.is_cell(name) => quote_spanned!(span=> #name.get()),
                Some(name) if self.is_declared(name) => quote_spanned!(span=> #name.clone()),
                // A constant of the program.
                _ if form == As::Receiver => quote_spanned!(span=> #session.value(#path)),
                _ => quote!(#path),
            },
            Expr::Paren(inner) => {
                let inner = self.value(&inner.expr, form)?;
                quote_spanned!(span=> (#inner))
            }
            Expr::Group(inner) => self.value(&inner.expr, form)?,
            Expr::Reference(inner) if inner.mutability.is_none() => self.value(&inner.expr, form)?,
            Expr::Binary(binary) => self.binary(binary)?,
            Expr::Unary(unary) => match (&unary.op, &*unary.expr) {
                // A negative literal is one number.
                (UnOp::Neg(_), Expr::Lit(inner)) if matches!(inner.lit, Lit::Int(_) | Lit::Float(_)) => {
                    let inner = self.value(&unary.expr, As::Argument)?;
                    let number = quote_spanned!(span=> -#inner);
                    if form == As::Receiver { quote_spanned!(span=> #session.value(#number)) } else { number }
                }
                (UnOp::Neg(_) | UnOp::Not(_), inner) => {
                    let (operator, inner) = (&unary.op, self.value(inner, As::Receiver)?);
                    quote_spanned!(span=> (#operator #inner))
                }
                _ => return refuse(unary, "there are no pointers at the server"),
            },
            Expr::Cast(cast) => {
                let (ty, inner) = (&cast.ty, self.value(&cast.expr, As::Receiver)?);
                match ty.to_token_stream().to_string().as_str() {
                    "f64" => quote_spanned!(span=> (#inner).to_real()),
                    "String" => quote_spanned!(span=> (#inner).unparse()),
                    _ => return refuse(ty, "the server casts an int to `f64`, and numbers to `String`"),
                }
            }
            Expr::MethodCall(call) => {
                let receiver = self.value(&call.receiver, As::Receiver)?;
                let arguments = self.arguments(call.args.iter())?;
                let (method, types) = (&call.method, &call.turbofish);
                quote_spanned!(call.method.span()=> (#receiver).#method #types(#(#arguments),*))
            }
            Expr::Call(call) => self.call(call)?,
            Expr::If(choice) => self.choice_of_values(choice)?,
            Expr::Block(block) if block.label.is_none() => self.block_of_value(&block.block)?,
            Expr::Tuple(tuple) if tuple.elems.is_empty() => quote!(()),
            Expr::Try(_) => {
                return refuse(
                    expression,
                    "`?` has no meaning at the server: a failed call ends the procedure",
                );
            }
            Expr::Closure(_) => return refuse(expression, "a closure does not cross"),
            Expr::Macro(_) => return refuse(expression, NO_MACRO),
            Expr::Match(_) => return refuse(expression, "`match` has no meaning at the server: use `if`"),
            Expr::Let(_) => {
                return refuse(expression, "`if let` and `while let` have no meaning at the server");
            }
            Expr::Await(_) => {
                return refuse(
                    expression,
                    "nothing is awaited at the server: calls wait there by themselves",
                );
            }
            Expr::Index(_) => {
                return refuse(expression, "there is no indexing at the server: call the method `fetch`");
            }
            Expr::Range(_) => return refuse(expression, "a range is allowed only in `for`"),
            Expr::While(_) | Expr::Loop(_) | Expr::ForLoop(_) => {
                return refuse(expression, "a loop has no value");
            }
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) | Expr::Assign(_) => {
                return refuse(expression, "this is a statement, and has no value");
            }
            other => return refuse(other, "this has no meaning at the server"),
        })
    }

    fn arguments<'e>(&mut self, all: impl Iterator<Item = &'e Expr>) -> Result<Vec<TokenStream>, Error> {
        all.map(|argument| self.value(argument, As::Argument)).collect()
    }

    fn call(&mut self, call: &ExprCall) -> Recorded {
        let arguments = self.arguments(call.args.iter())?;
        let (span, this, session) = (call.span(), self.this, self.session);
        let Expr::Path(path) = &*call.func else {
            return refuse(&call.func, "only routines and the function itself can be called");
        };
        Ok(match path.path.get_ident() {
            Some(name) if name == self.name => quote_spanned!(span=> #this.call((#(#arguments,)*))),
            // Routines of the stubs have the session as their first argument.
            _ => quote_spanned!(span=> #path(#session, #(#arguments),*)),
        })
    }

    fn binary(&mut self, binary: &ExprBinary) -> Recorded {
        let span = binary.op.span();
        let left = self.value(&binary.left, As::Receiver)?;
        if matches!(binary.op, BinOp::And(_) | BinOp::Or(_)) {
            let right = self.value(&binary.right, As::Receiver)?;
            let method = if matches!(binary.op, BinOp::And(_)) { quote!(and_) } else { quote!(or_) };
            return Ok(quote_spanned!(span=> (#left).#method(|| #right)));
        }
        let right = self.value(&binary.right, As::Argument)?;
        let method = match binary.op {
            BinOp::Lt(_) => quote!(lt),
            BinOp::Le(_) => quote!(le),
            BinOp::Gt(_) => quote!(gt),
            BinOp::Ge(_) => quote!(ge),
            BinOp::Eq(_) => quote!(eq_),
            BinOp::Ne(_) => quote!(ne_),
            BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_) | BinOp::Rem(_) => {
                let operator = &binary.op;
                return Ok(quote_spanned!(span=> (#left #operator #right)));
            }
            _ => return refuse(&binary.op, "this operator has no meaning at the server"),
        };
        Ok(quote_spanned!(span=> (#left).#method(#right)))
    }

    /// Returns an `if` with a value: both blocks put theirs into a cell.
    fn choice_of_values(&mut self, choice: &ExprIf) -> Recorded {
        let (session, span) = (self.session, choice.if_token.span);
        let Some((_, otherwise)) = &choice.else_branch else {
            return refuse(choice, "an `if` with a value has an `else`");
        };
        let test = self.value(&choice.cond, As::Receiver)?;
        let then = self.block_of_value(&choice.then_branch)?;
        let otherwise = self.value(otherwise, As::Argument)?;
        Ok(quote_spanned!(span=> {
            let chosen = ::bifrost_veneer::remote::empty(#session);
            #session.if_(|| #test, || ::bifrost_veneer::remote::choose(&chosen, #then))
                .else_(|| ::bifrost_veneer::remote::choose(&chosen, #otherwise));
            chosen.get()
        }))
    }

    fn block_of_value(&mut self, block: &Block) -> Recorded {
        let (statements, Some(value)) = split(block) else {
            return refuse(block, "a block that is used as a value ends with one, without `;`");
        };
        self.blocks.push(Names::default());
        let recorded = self.statements(statements).and_then(|s| Ok((s, self.value(value, As::Argument)?)));
        self.blocks.pop();
        let (statements, value) = recorded?;
        Ok(quote!({ #(#statements)* #value }))
    }
}

const NO_LABEL: &str = "labels of loops have no meaning at the server: only the innermost loop is left";
const NO_MACRO: &str = "a macro has no meaning at the server";

/// Returns the statements of a block and its value, if it ends with one.
fn split(block: &Block) -> (&[Stmt], Option<&Expr>) {
    match block.stmts.split_last() {
        Some((Stmt::Expr(value, None), statements)) if !is_statement(value) => (statements, Some(value)),
        _ => (&block.stmts, None),
    }
}

/// True if an expression has no value.
fn is_statement(expression: &Expr) -> bool {
    match expression {
        Expr::While(_)
        | Expr::ForLoop(_)
        | Expr::Loop(_)
        | Expr::Return(_)
        | Expr::Break(_)
        | Expr::Continue(_) => true,
        Expr::Assign(_) => true,
        Expr::Binary(binary) => compound(&binary.op).is_some(),
        Expr::If(choice) => choice.else_branch.is_none(),
        _ => false,
    }
}

fn ends_with_return(block: &Block) -> bool {
    matches!(block.stmts.last(), Some(Stmt::Expr(Expr::Return(_) | Expr::Loop(_), _)))
}

fn is_unit(ty: &Type) -> bool {
    matches!(ty, Type::Tuple(tuple) if tuple.elems.is_empty())
}

/// Returns the operator of an assignment such as `+=`.
fn compound(operator: &BinOp) -> Option<TokenStream> {
    Some(match operator {
        BinOp::AddAssign(_) => quote!(+),
        BinOp::SubAssign(_) => quote!(-),
        BinOp::MulAssign(_) => quote!(*),
        BinOp::DivAssign(_) => quote!(/),
        BinOp::RemAssign(_) => quote!(%),
        _ => return None,
    })
}
