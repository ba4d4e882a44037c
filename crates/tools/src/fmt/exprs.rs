//! Expressions.

use bifrost_theta::ast::*;
use bifrost_theta::lexer::Tok;

use super::layout::Doc;
use super::writer::Writer;
use super::{CONTINUED, SPACE};

/// Returns true if `expr` ends in a list of its own: alone in parentheses, it needs no lines around
/// it.
pub(super) fn ends_in_list(expr: &Expr) -> bool {
    use ExprKind::{Bind, Call, Construct, Index, New, Tagged};
    match &expr.kind {
        New { place, .. } => matches!(place, Place::Here),
        kind => matches!(kind, Call { .. } | Construct { .. } | Tagged { .. } | Index { .. } | Bind { .. }),
    }
}

impl<'a> Writer<'a> {
    pub(super) fn expr(&mut self, expr: &Expr) -> Doc<'a> {
        match &expr.kind {
            ExprKind::Type(ty) => self.type_expr(ty),
            ExprKind::Paren(inner) => Doc::Row(vec![self.take(), self.expr(inner), self.take()]),
            ExprKind::Unary { op: Unary::Clone | Unary::Send, operand } => {
                Doc::Row(vec![self.take(), SPACE, self.expr(operand)])
            }
            ExprKind::Unary { operand, .. } => Doc::Row(vec![self.take(), self.expr(operand)]),
            ExprKind::Binary { op, .. } => {
                let mut parts = vec![];
                self.chain(op.level(), expr, &mut parts);
                Doc::Group(vec![Doc::Nest(CONTINUED, parts)])
            }
            ExprKind::Select { object, .. } => Doc::Row(vec![self.expr(object), self.take(), self.take()]),
            ExprKind::Call { callee, args } => Doc::Row(vec![self.expr(callee), self.args(args)]),
            ExprKind::Index { object, args } => {
                let object = self.expr(object);
                Doc::Row(vec![object, self.delimited(2, |w| w.list(args, |w, arg| w.expr(arg)))])
            }
            ExprKind::Tagged { ty, fields } => {
                let ty = self.expr(ty);
                Doc::Row(vec![ty, self.delimited(2, |w| w.list(fields, |w, field| w.field(field)))])
            }
            ExprKind::Construct { class, inits, maker } => {
                Doc::Row(vec![self.expr(class), self.inits(inits, maker.as_ref())])
            }
            ExprKind::New { actor, args, place } => {
                let mut parts = vec![self.expr(actor), self.take(), self.take(), self.args(args)];
                parts.extend(self.place(place));
                Doc::Row(parts)
            }
            ExprKind::Bind { args, callee } => {
                let word = self.take();
                Doc::Row(vec![word, self.delimited(2, |w| w.bound(callee, args))])
            }
            _ => self.take_to(expr.span.end),
        }
    }

    /// Operators of one level in a row. A line ends after an operator: one that starts with `-`
    /// looks like a statement.
    fn chain(&mut self, level: u8, expr: &Expr, parts: &mut Vec<Doc<'a>>) {
        let ExprKind::Binary { op, left, right, .. } = &expr.kind else {
            return parts.push(self.expr(expr));
        };
        if op.level() != level {
            return parts.push(self.expr(expr));
        }
        if *op == Binary::Power {
            parts.push(self.expr(left));
        } else {
            self.chain(level, left, parts);
        }
        parts.extend([SPACE, self.take()]);
        let right = self.expr(right);
        // Conditions have a line each; other operands fill the lines.
        match op {
            Binary::Or | Binary::And => parts.extend([Doc::Line(" "), right]),
            _ => parts.push(Doc::Group(vec![Doc::Line(" "), right])),
        }
    }

    /// `args`
    pub(super) fn args(&mut self, args: &Args) -> Doc<'a> {
        if let ([arg], None) = (&args.plain[..], &args.rest)
            && ends_in_list(arg)
        {
            let mut parts = vec![self.take(), self.expr(arg)];
            if self.tok() == Tok::Comma {
                parts.push(self.take());
            }
            parts.push(self.take());
            return Doc::Row(parts);
        }
        self.delimited(2, |w| {
            let mut parts = w.list(&args.plain, |w, arg| w.expr(arg));
            if w.tok() == Tok::Comma {
                parts.push(w.take());
            }
            if let Some(rest) = &args.rest {
                if !parts.is_empty() {
                    parts.push(Doc::Line(" "));
                }
                parts.push(w.take());
                if !rest.is_empty() {
                    parts.push(SPACE);
                }
                parts.extend(w.list(rest, |w, arg| w.expr(arg)));
            }
            parts
        })
    }

    fn place(&mut self, place: &Place) -> Vec<Doc<'a>> {
        match place {
            Place::Here => vec![],
            Place::Anywhere => vec![SPACE, self.take()],
            Place::On(count) | Place::Times(count) => vec![SPACE, self.take(), SPACE, self.expr(count)],
        }
    }

    fn bound(&mut self, callee: &Expr, args: &[Option<Expr>]) -> Vec<Doc<'a>> {
        let mut parts = vec![self.expr(callee)];
        for arg in args {
            parts.extend([self.take(), Doc::Line(" ")]);
            parts.push(match arg {
                Some(arg) => self.expr(arg),
                None => self.take(),
            });
        }
        parts
    }

    /// `name: value`
    fn field(&mut self, field: &Init) -> Doc<'a> {
        Doc::Row(vec![self.take(), self.take(), SPACE, self.expr(&field.value)])
    }

    /// `"{" [ inits ] "}"`
    pub(super) fn inits(&mut self, inits: &[Init], maker: Option<&MakerCall>) -> Doc<'a> {
        self.delimited(2, |w| {
            let mut parts = w
                .list(inits, |w, init| Doc::Row(vec![w.take(), SPACE, w.take(), SPACE, w.expr(&init.value)]));
            if let Some(maker) = maker {
                if !inits.is_empty() {
                    parts.extend([w.take(), Doc::Line(" ")]);
                }
                parts.push(w.take());
                if !maker.parms.is_empty() {
                    parts.push(w.types(&maker.parms));
                }
                parts.push(w.args(&maker.args));
            }
            parts
        })
    }
}
