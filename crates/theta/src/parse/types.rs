//! Types, and the clauses of headings.

use super::Parser;
use crate::ast::*;
use crate::lexer::Tok;

impl Parser<'_> {
    /// `type`
    pub(super) fn type_expr(&mut self) -> TypeExpr {
        let start = self.token().start;
        let kind = self.nested(|p| match p.tok() {
            Tok::Record | Tok::Struct | Tok::Oneof => p.tagged_type(),
            Tok::Proc | Tok::Iter => p.routine_type(),
            Tok::Name => {
                let name = p.expect_name();
                let args = if p.is_here(Tok::LBracket) { p.type_args() } else { vec![] };
                TypeExprKind::Name { name, args }
            }
            _ => {
                p.expected("a type");
                TypeExprKind::Error
            }
        });
        TypeExpr { kind: kind.unwrap_or(TypeExprKind::Error), span: self.since(start) }
    }

    /// `LIST(type)`
    pub(super) fn types(&mut self) -> Vec<TypeExpr> {
        let mut types = vec![self.type_expr()];
        while self.take(Tok::Comma) {
            types.push(self.type_expr());
        }
        types
    }

    /// `"[" LIST(type) "]"`
    pub(super) fn type_args(&mut self) -> Vec<TypeExpr> {
        self.bump();
        let args = self.types();
        self.expect(Tok::RBracket);
        args
    }

    fn tagged_type(&mut self) -> TypeExprKind {
        let kind = match self.bump().tok {
            Tok::Record => Tagged::Record,
            Tok::Struct => Tagged::Struct,
            _ => Tagged::Oneof,
        };
        let mut fields = vec![];
        if self.expect(Tok::LBracket) {
            fields = self.decls();
            self.expect(Tok::RBracket);
        }
        TypeExprKind::Tagged { kind, fields }
    }

    fn routine_type(&mut self) -> TypeExprKind {
        let iterator = self.bump().tok == Tok::Iter;
        let args = self.paren_types();
        let result = self.result();
        let signals = self.signals();
        TypeExprKind::Routine { iterator, args, result, signals }
    }

    /// `"(" [ LIST(type) ] ")"`
    fn paren_types(&mut self) -> Vec<TypeExpr> {
        if !self.expect(Tok::LParen) {
            return vec![];
        }
        let types = if self.is(Tok::RParen) { vec![] } else { self.types() };
        self.expect(Tok::RParen);
        types
    }

    /// `decls`: one entry for each name.
    pub(super) fn decls(&mut self) -> Vec<Formal> {
        let mut formals = vec![];
        loop {
            let names = self.names();
            self.expect(Tok::Colon);
            let ty = self.type_expr();
            formals.extend(names.into_iter().map(|name| Formal { name, ty: ty.clone() }));
            if !self.take(Tok::Comma) {
                return formals;
            }
        }
    }

    /// `"(" [ decls ] ")"`
    pub(super) fn paren_decls(&mut self) -> Vec<Formal> {
        if !self.expect(Tok::LParen) {
            return vec![];
        }
        let formals = if self.is(Tok::RParen) { vec![] } else { self.decls() };
        self.expect(Tok::RParen);
        formals
    }

    /// `[ result ]`
    pub(super) fn result(&mut self) -> Outcome {
        let yields = self.is(Tok::Yields);
        if !yields && !self.is(Tok::Returns) {
            return Outcome { yields: false, types: vec![] };
        }
        self.bump();
        let mut types = vec![];
        if self.expect(Tok::LParen) {
            types = self.types();
            self.expect(Tok::RParen);
        }
        Outcome { yields, types }
    }

    /// `[ signals ]`
    pub(super) fn signals(&mut self) -> Vec<Signal> {
        if self.is(Tok::Comma) && self.ahead(1).tok == Tok::Signals {
            self.bump();
        }
        let mut signals = vec![];
        if !self.take(Tok::Signals) || !self.expect(Tok::LParen) {
            return signals;
        }
        loop {
            let name = self.expect_name();
            let types = if self.is(Tok::LParen) { self.paren_types() } else { vec![] };
            signals.push(Signal { name, types });
            if !self.take(Tok::Comma) {
                break;
            }
        }
        self.expect(Tok::RParen);
        signals
    }

    /// `[ where ]`
    pub(super) fn wheres(&mut self) -> Vec<Where> {
        let mut wheres = vec![];
        if !self.take(Tok::Where) {
            return wheres;
        }
        loop {
            let parm = self.expect_name();
            if !self.is_name(0, "has") {
                self.expected("`has`");
                return wheres;
            }
            self.bump();
            let mut methods = vec![self.where_method()];
            while self.is(Tok::Comma) && !self.is_name(2, "has") && self.ahead(1).tok == Tok::Name {
                self.bump();
                methods.push(self.where_method());
            }
            wheres.push(Where { parm, methods });
            if !self.take(Tok::Comma) {
                return wheres;
            }
        }
    }

    fn where_method(&mut self) -> WhereMethod {
        let name = self.expect_name();
        let args = self.paren_types();
        let result = self.result();
        let signals = self.signals();
        WhereMethod { name, args, result, signals }
    }

    /// `[ parms ]`
    pub(super) fn parms(&mut self) -> Vec<Ident> {
        if !self.take(Tok::LBracket) {
            return vec![];
        }
        let names = self.names();
        self.expect(Tok::RBracket);
        names
    }
}
