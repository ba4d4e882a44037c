//! Expressions (the operator table of section 7).
//!
//! Read [`Parser::expression`] first: operators by their levels, then calls, selections and
//! indexes, then the atoms. Each node gets its height, so that chains of operators and calls stay
//! bounded.

use std::sync::Arc;

use super::Parser;
use crate::ast::*;
use crate::diagnostic::{Code, Diagnostic};
use crate::lexer::{self, Tok};
use crate::source::Span;

impl Parser<'_> {
    /// `expr`
    pub(super) fn expression(&mut self) -> Expr {
        let start = self.here();
        self.nested(|p| p.binary(1)).unwrap_or(error(start))
    }

    /// `LIST(expr)`
    pub(super) fn expressions(&mut self) -> Vec<Expr> {
        let mut list = vec![self.expression()];
        while self.take(Tok::Comma) {
            list.push(self.expression());
        }
        list
    }

    /// Operators of at least `level`.
    fn binary(&mut self, level: u8) -> Expr {
        let mut left = self.unary();
        let mut compared = false;
        while let Some(op) = binary_operator(self.tok()) {
            if op.level() < level || self.foreign_comment(false) {
                break;
            }
            let op_span = self.here();
            if op.level() == 3 {
                if compared {
                    let message = "comparisons cannot be chained";
                    let help = "join two comparisons with `&`: `a < b & b < c`";
                    self.report(Diagnostic::error(Code::E0110, op_span, message).help(help));
                }
                compared = true;
            }
            self.bump();
            // `**` binds to the right; all others to the left.
            let right = if op == Binary::Power {
                let place = self.here();
                self.nested(|p| p.binary(6)).unwrap_or(error(place))
            } else {
                self.binary(op.level() + 1)
            };
            let (height, span) = (left.height.max(right.height), left.span.to(right.span));
            if op.level() < 3 {
                compared = false;
            }
            let broken = matches!(right.kind, ExprKind::Error);
            let kind = ExprKind::Binary { op, op_span, left: Box::new(left), right: Box::new(right) };
            left = self.expr(kind, span, height);
            if broken {
                // The token that is no operand is no operator either.
                break;
            }
        }
        left
    }

    fn unary(&mut self) -> Expr {
        let start = self.token();
        let op = match start.tok {
            Tok::Minus => Unary::Negate,
            Tok::Not => Unary::Not,
            Tok::Clone => Unary::Clone,
            Tok::Send => Unary::Send,
            _ => return self.primary(),
        };
        self.bump();
        if op == Unary::Negate && self.is(Tok::Int) && self.text_of(self.token()).starts_with('9') {
            // 2^63 is an int only directly after the sign.
            if integer(self.text_of(self.token())) == Some(1 << 63) && self.ahead(1).tok != Tok::Dot {
                self.bump();
                let span = self.since(start.start);
                return self.expr(ExprKind::Int(i64::MIN), span, 0);
            }
        }
        let place = self.here();
        let operand = self.nested(|p| p.unary()).unwrap_or(error(place));
        let (height, span) = (operand.height, self.since(start.start));
        self.expr(ExprKind::Unary { op, operand: Box::new(operand) }, span, height)
    }

    /// `primary`
    fn primary(&mut self) -> Expr {
        let mut expr = self.atom();
        loop {
            let start = expr.span.start;
            let mut height = expr.height;
            let kind = if self.is(Tok::Dot) {
                self.bump();
                if self.is(Tok::New) && self.ahead(1).tok == Tok::LParen {
                    self.bump();
                    let args = self.args(&mut height);
                    let place = self.place(&mut height);
                    let kind = ExprKind::New { actor: Box::new(expr), args, place };
                    let span = self.since(start);
                    // A place ends the primary.
                    return self.expr(kind, span, height);
                }
                ExprKind::Select { object: Box::new(expr), name: self.expect_name() }
            } else if self.is_here(Tok::LParen) {
                let args = self.args(&mut height);
                ExprKind::Call { callee: Box::new(expr), args }
            } else if self.is_here(Tok::LBracket) {
                self.bump();
                let args = self.expressions();
                self.expect(Tok::RBracket);
                height = tallest(&args).max(height);
                ExprKind::Index { object: Box::new(expr), args }
            } else if self.is_here(Tok::LBrace) {
                self.braces(expr, &mut height)
            } else {
                return expr;
            };
            let span = self.since(start);
            expr = self.expr(kind, span, height);
            if matches!(expr.kind, ExprKind::Error) {
                return expr;
            }
        }
    }

    fn place(&mut self, height: &mut u16) -> Place {
        if self.is_name(0, "anywhere") && !self.token().new_line {
            self.bump();
            return Place::Anywhere;
        }
        let times = self.is_name(0, "times");
        if (!times && !self.is_name(0, "on")) || self.token().new_line {
            return Place::Here;
        }
        self.bump();
        let here = self.here();
        let count = self.nested(|p| p.primary()).unwrap_or(error(here));
        *height = count.height.max(*height);
        if times { Place::Times(Box::new(count)) } else { Place::On(Box::new(count)) }
    }

    /// `args`; the next token is `(`.
    fn args(&mut self, height: &mut u16) -> Args {
        let start = self.bump().start;
        let (mut plain, mut rest) = (vec![], None);
        while !self.is(Tok::RParen) {
            if self.take(Tok::DotDot) {
                rest = Some(if self.is(Tok::RParen) { vec![] } else { self.expressions() });
                break;
            }
            plain.push(self.expression());
            if !self.take(Tok::Comma) && !self.is(Tok::DotDot) {
                break;
            }
        }
        self.expect(Tok::RParen);
        *height = tallest(&plain).max(tallest(rest.as_deref().unwrap_or(&[]))).max(*height);
        Args { plain, rest, span: self.since(start) }
    }

    /// `"{" fields "}" | "{" [ inits ] "}"` after `head`
    fn braces(&mut self, head: Expr, height: &mut u16) -> ExprKind {
        self.bump();
        let head = Box::new(head);
        if self.is(Tok::Name) && self.ahead(1).tok == Tok::Colon {
            let mut fields = vec![];
            loop {
                let name = self.expect_name();
                self.expect(Tok::Colon);
                let value = self.expression();
                *height = value.height.max(*height);
                fields.push(Init { name, value });
                if !self.take(Tok::Comma) {
                    break;
                }
            }
            self.expect(Tok::RBrace);
            return ExprKind::Tagged { ty: head, fields };
        }
        let (inits, maker) = if self.is(Tok::RBrace) { (vec![], None) } else { self.inits() };
        self.expect(Tok::RBrace);
        for init in &inits {
            *height = init.value.height.max(*height);
        }
        if let Some(call) = &maker {
            *height =
                tallest(&call.args.plain).max(tallest(call.args.rest.as_deref().unwrap_or(&[]))).max(*height);
        }
        ExprKind::Construct { class: head, inits, maker }
    }

    /// `[ inits ]`
    pub(super) fn inits(&mut self) -> (Vec<Init>, Option<MakerCall>) {
        let mut inits = vec![];
        if self.is(Tok::RBrace) {
            return (inits, None);
        }
        if self.is(Tok::Name) && matches!(self.ahead(1).tok, Tok::LParen | Tok::LBracket) {
            return (inits, Some(self.maker_call()));
        }
        loop {
            let name = self.expect_name();
            if !self.expect(Tok::Assign) {
                break;
            }
            inits.push(Init { name, value: self.expression() });
            if self.take(Tok::Semi) {
                let maker = if self.is(Tok::RBrace) { None } else { Some(self.maker_call()) };
                return (inits, maker);
            }
            if !self.take(Tok::Comma) {
                break;
            }
        }
        (inits, None)
    }

    fn maker_call(&mut self) -> MakerCall {
        let name = self.expect_name();
        let parms = if self.is_here(Tok::LBracket) { self.type_args() } else { vec![] };
        let args = if self.is(Tok::LParen) {
            self.args(&mut 0)
        } else {
            self.expected("`(`");
            Args { plain: vec![], rest: None, span: self.here() }
        };
        MakerCall { name, parms, args }
    }

    /// `atom`
    fn atom(&mut self) -> Expr {
        let token = self.token();
        let span = self.here();
        let kind = match token.tok {
            Tok::Int => return self.int(),
            Tok::Real => {
                self.bump();
                let text: String = self.text_of(token).chars().filter(|c| *c != '_').collect();
                ExprKind::Real(text.parse().unwrap_or(0.0))
            }
            Tok::Char => self.character(),
            Tok::Str => self.string_value(),
            Tok::True | Tok::False => {
                self.bump();
                ExprKind::Bool(token.tok == Tok::True)
            }
            Tok::Nil => {
                self.bump();
                ExprKind::Nil
            }
            Tok::SelfWord => {
                self.bump();
                ExprKind::SelfValue
            }
            Tok::Replyto => {
                self.bump();
                ExprKind::Replyto
            }
            Tok::Name => {
                self.bump();
                ExprKind::Name(self.ident_of(token))
            }
            Tok::LParen => {
                self.bump();
                let inner = self.expression();
                self.expect(Tok::RParen);
                let height = inner.height;
                let span = self.since(token.start);
                return self.expr(ExprKind::Paren(Box::new(inner)), span, height);
            }
            Tok::Record | Tok::Struct | Tok::Oneof | Tok::Proc | Tok::Iter => {
                ExprKind::Type(self.type_expr())
            }
            Tok::Bind => return self.bind(),
            _ => {
                self.expected("an expression");
                ExprKind::Error
            }
        };
        let span = if matches!(kind, ExprKind::Error) { span } else { self.since(token.start) };
        self.expr(kind, span, 0)
    }

    fn int(&mut self) -> Expr {
        let token = self.bump();
        let span = self.span_of(token);
        let value = integer(self.text_of(token)).and_then(|v| i64::try_from(v).ok());
        if value.is_none() {
            let message = "this number does not fit in 64 bits";
            let help = "an `int` lies between -9223372036854775808 and 9223372036854775807";
            self.report(Diagnostic::error(Code::E0109, span, message).help(help));
            self.last_error = None;
        }
        self.expr(ExprKind::Int(value.unwrap_or(0)), span, 0)
    }

    /// Reads the decoded text of the quoted token here.
    fn unquoted(&mut self) -> String {
        let token = self.bump();
        let (value, bad) = lexer::unquote(self.text_of(token));
        for range in bad {
            let span = Span::new(self.file, token.start + range.start as u32, token.start + range.end as u32);
            let help = "escapes are `\\n \\t \\r \\0 \\\\ \\' \\\" \\xHH \\u{H…}`";
            self.report(Diagnostic::error(Code::E0109, span, "unknown escape").help(help));
            self.last_error = None;
        }
        value
    }

    fn string_value(&mut self) -> ExprKind {
        ExprKind::Str(Arc::from(self.unquoted()))
    }

    fn character(&mut self) -> ExprKind {
        let span = self.here();
        let errors = self.diagnostics.len();
        let value = self.unquoted();
        let mut chars = value.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) => ExprKind::Char(c),
            (first, _) => {
                if self.diagnostics.len() == errors {
                    let message = "a character constant holds exactly one character";
                    let help = "a text is written in double quotes: `\"…\"`";
                    self.report(Diagnostic::error(Code::E0109, span, message).help(help));
                    self.last_error = None;
                }
                ExprKind::Char(first.unwrap_or(' '))
            }
        }
    }

    fn bind(&mut self) -> Expr {
        let start = self.bump().start;
        self.expect(Tok::LParen);
        let callee = self.expression();
        let mut height = callee.height;
        let mut args = vec![];
        while self.take(Tok::Comma) {
            if self.take(Tok::Star) {
                args.push(None);
            } else {
                let value = self.expression();
                height = height.max(value.height);
                args.push(Some(value));
            }
        }
        self.expect(Tok::RParen);
        let span = self.since(start);
        self.expr(ExprKind::Bind { callee: Box::new(callee), args }, span, height)
    }
}

fn error(span: Span) -> Expr {
    Expr { kind: ExprKind::Error, span, height: 0 }
}

fn tallest(list: &[Expr]) -> u16 {
    list.iter().map(|e| e.height).max().unwrap_or(0)
}

/// Returns the value of a number as written, if 64 bits hold it.
fn integer(text: &str) -> Option<u64> {
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    }
}

fn binary_operator(tok: Tok) -> Option<Binary> {
    Some(match tok {
        Tok::Or => Binary::Or,
        Tok::And => Binary::And,
        Tok::Eq => Binary::Eq,
        Tok::Ne => Binary::Ne,
        Tok::Lt => Binary::Lt,
        Tok::Le => Binary::Le,
        Tok::Gt => Binary::Gt,
        Tok::Ge => Binary::Ge,
        Tok::Plus => Binary::Add,
        Tok::Minus => Binary::Sub,
        Tok::Concat => Binary::Concat,
        Tok::Star => Binary::Mul,
        Tok::Slash => Binary::Div,
        Tok::SlashSlash => Binary::Mod,
        Tok::Shl => Binary::Shl,
        Tok::Shr => Binary::Shr,
        Tok::Power => Binary::Power,
        _ => return None,
    })
}
