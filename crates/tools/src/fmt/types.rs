//! Types, and the clauses of headings.

use bifrost_theta::ast::*;
use bifrost_theta::lexer::Tok;

use super::layout::Doc;
use super::writer::Writer;
use super::{CONTINUED, SPACE};

impl<'a> Writer<'a> {
    /// Returns an opening mark, `items`, and the closing mark; if they need more than a line, each
    /// item has its own.
    pub(super) fn delimited(
        &mut self,
        indent: usize,
        items: impl FnOnce(&mut Self) -> Vec<Doc<'a>>,
    ) -> Doc<'a> {
        let open = self.take();
        let items = items(self);
        if items.is_empty() {
            return Doc::Row(vec![open, self.take()]);
        }
        let mut inner = vec![Doc::Line("")];
        inner.extend(items);
        Doc::Group(vec![open, Doc::Nest(indent, inner), Doc::Line(""), self.take()])
    }

    /// `LIST(x)` with a place for the end of a line after each comma.
    pub(super) fn list<T>(
        &mut self,
        items: &[T],
        mut item: impl FnMut(&mut Self, &T) -> Doc<'a>,
    ) -> Vec<Doc<'a>> {
        let mut parts = vec![];
        for (at, each) in items.iter().enumerate() {
            if at > 0 {
                parts.extend([self.take(), Doc::Line(" ")]);
            }
            parts.push(item(self, each));
        }
        parts
    }

    /// Does the same, filled: a line ends only where the next item has no room.
    pub(super) fn filled<T>(
        &mut self,
        items: &[T],
        mut item: impl FnMut(&mut Self, &T) -> Doc<'a>,
    ) -> Doc<'a> {
        let mut parts = vec![];
        for (at, each) in items.iter().enumerate() {
            if at > 0 {
                parts.push(self.take());
                parts.push(Doc::Nest(CONTINUED, vec![Doc::Group(vec![Doc::Line(" "), item(self, each)])]));
            } else {
                parts.push(item(self, each));
            }
        }
        Doc::Row(parts)
    }

    /// `LIST(idn)`
    pub(super) fn names(&mut self, names: &[Ident]) -> Doc<'a> {
        self.filled(names, |w, _| w.take())
    }

    /// Returns a clause of a heading, on the line of the one before if it has room there.
    pub(super) fn clause(&mut self, inner: impl FnOnce(&mut Self) -> Doc<'a>) -> Doc<'a> {
        let parts = vec![Doc::Line(" "), self.take(), SPACE, inner(self)];
        Doc::Nest(CONTINUED, vec![Doc::Group(parts)])
    }

    pub(super) fn type_expr(&mut self, ty: &TypeExpr) -> Doc<'a> {
        match &ty.kind {
            TypeExprKind::Name { args, .. } if args.is_empty() => self.take(),
            TypeExprKind::Name { args, .. } => Doc::Row(vec![self.take(), self.types(args)]),
            TypeExprKind::Tagged { fields, .. } => {
                Doc::Row(vec![self.take(), self.delimited(2, |w| w.decls(fields))])
            }
            TypeExprKind::Routine { args, result, signals, .. } => {
                let mut parts = vec![self.take(), SPACE, self.types(args)];
                parts.extend(self.outcome(result, signals));
                Doc::Row(parts)
            }
            TypeExprKind::Error => Doc::Row(vec![]),
        }
    }

    /// `( LIST(type) )` or the same in brackets
    pub(super) fn types(&mut self, types: &[TypeExpr]) -> Doc<'a> {
        self.delimited(2, |w| w.list(types, |w, ty| w.type_expr(ty)))
    }

    /// `[ result ] [ signals ]`
    pub(super) fn outcome(&mut self, result: &Outcome, signals: &[Signal]) -> Vec<Doc<'a>> {
        let mut parts = vec![];
        if !result.types.is_empty() {
            parts.push(self.clause(|w| w.types(&result.types)));
        }
        if !signals.is_empty() {
            parts.push(self.clause(|w| w.delimited(2, |w| w.list(signals, |w, signal| w.signal(signal)))));
        }
        parts
    }

    fn signal(&mut self, signal: &Signal) -> Doc<'a> {
        let mut parts = vec![self.take()];
        if self.tok() == Tok::LParen {
            parts.extend([SPACE, self.types(&signal.types)]);
        }
        Doc::Row(parts)
    }

    /// `decls`, names of one type together
    pub(super) fn decls(&mut self, formals: &[Formal]) -> Vec<Doc<'a>> {
        let groups: Vec<&[Formal]> = formals.chunk_by(|a, b| a.ty.span == b.ty.span).collect();
        self.list(&groups, |w, group| w.declared(group.len(), &group[0].ty))
    }

    /// `LIST(idn) ":" type`
    pub(super) fn declared(&mut self, names: usize, ty: &TypeExpr) -> Doc<'a> {
        let mut parts = vec![self.take()];
        for _ in 1..names {
            parts.extend([self.take(), SPACE, self.take()]);
        }
        parts.extend([self.take(), SPACE, self.type_expr(ty)]);
        Doc::Row(parts)
    }

    /// `"(" [ decls ] ")"` after a name
    pub(super) fn formals(&mut self, formals: &[Formal]) -> Vec<Doc<'a>> {
        vec![SPACE, self.delimited(CONTINUED, |w| w.decls(formals))]
    }

    /// `[ parms ]`
    pub(super) fn parms(&mut self, parms: &[Ident]) -> Vec<Doc<'a>> {
        if parms.is_empty() {
            return vec![];
        }
        vec![SPACE, self.delimited(CONTINUED, |w| w.list(parms, |w, _| w.take()))]
    }

    /// `[ where ]`
    pub(super) fn wheres(&mut self, wheres: &[Where]) -> Vec<Doc<'a>> {
        if wheres.is_empty() {
            return vec![];
        }
        vec![self.clause(|w| w.filled(wheres, |w, each| w.restriction(each)))]
    }

    fn restriction(&mut self, each: &Where) -> Doc<'a> {
        let mut parts = vec![self.take(), SPACE, self.take(), SPACE];
        parts.push(self.filled(&each.methods, |w, method| {
            let mut parts = vec![w.take(), SPACE, w.types(&method.args)];
            parts.extend(w.outcome(&method.result, &method.signals));
            Doc::Row(parts)
        }));
        Doc::Row(parts)
    }

    /// `[ renames ]`
    pub(super) fn renames(&mut self, renames: &[Rename]) -> Vec<Doc<'a>> {
        if renames.is_empty() {
            return vec![];
        }
        let rename = |w: &mut Self, _: &Rename| Doc::Row(vec![w.take(), SPACE, w.take(), SPACE, w.take()]);
        vec![SPACE, self.delimited(CONTINUED, |w| w.list(renames, rename))]
    }
}
