//! Statements and their handlers.
//!
//! Read [`Writer::body`] first. A construct with a body is set on one line ([`Set::Short`]) if it
//! stood on one and each of its bodies has at most one statement. Otherwise it is set on several
//! ([`Set::Long`]). The tokens and comments come from the [`Writer`] in their order.

use bifrost_theta::ast::*;
use bifrost_theta::lexer::Tok;

use super::exprs::ends_in_list;
use super::layout::Doc;
use super::writer::Writer;
use super::{INDENT, SPACE};

/// The layout of a construct with a body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Set {
    /// On one line if there is room: it was on one, and is short.
    Short,
    /// Its body on lines of its own.
    Long,
}

impl Set {
    /// Returns the space between the head and the body, and between the body and `end`.
    pub(super) fn line<'a>(self) -> Doc<'a> {
        if self == Set::Short { Doc::Line(" ") } else { Doc::Hard }
    }

    pub(super) fn doc(self, parts: Vec<Doc<'_>>) -> Doc<'_> {
        if self == Set::Short { Doc::Group(parts) } else { Doc::Row(parts) }
    }
}

/// A part between a word such as `except` or `tagcase` and its `end`.
enum Arm<'t> {
    When(&'t WhenArm),
    OthersName(&'t OthersArm),
    Tag(&'t TagArm),
    Type(&'t TypeArm),
    Others(&'t Body),
    Message(&'t WaitArm),
    After(&'t Expr, &'t Body),
}

impl<'t> Arm<'t> {
    fn body(&self) -> &'t Body {
        match self {
            Arm::When(arm) => &arm.body,
            Arm::OthersName(arm) => &arm.body,
            Arm::Tag(arm) => &arm.body,
            Arm::Type(arm) => &arm.body,
            Arm::Message(arm) => &arm.body,
            Arm::Others(body) | Arm::After(_, body) => body,
        }
    }
}

impl<'a> Writer<'a> {
    /// Returns the layout of a construct from byte `start` to byte `end` whose bodies are `bodies`.
    pub(super) fn set(&self, start: u32, end: u32, bodies: &[&Body]) -> Set {
        let short = bodies.iter().all(|body| body.len() <= 1) && self.is_one_line(start, end);
        if short { Set::Short } else { Set::Long }
    }

    /// Returns the statements of a body and the comments after them, indented.
    pub(super) fn body(&mut self, set: Set, body: &Body) -> Doc<'a> {
        let mut parts = vec![];
        for (at, stmt) in body.iter().enumerate() {
            if at == 0 {
                parts.push(if self.has_comments() { self.separator() } else { set.line() });
                if self.tok() == Tok::Semi {
                    parts.push(self.take());
                }
            } else {
                if self.tok() == Tok::Semi {
                    parts.push(self.take());
                }
                // A type and a name on one line are a mistake that the checker explains; it has to
                // stay one.
                let named = matches!(body[at - 1].kind, StmtKind::Expr(Expr { kind: ExprKind::Name(_), .. }));
                let near = named && self.is_near(body[at - 1].span.end, stmt.span.start);
                parts.push(if near { SPACE } else { self.separator() });
            }
            parts.push(self.stmt(stmt));
        }
        if self.tok() == Tok::End {
            parts.extend(self.comments());
        }
        Doc::Nest(INDENT, parts)
    }

    fn stmt(&mut self, stmt: &Stmt) -> Doc<'a> {
        let mut parts = vec![self.simple(stmt)];
        for handler in &stmt.handlers {
            parts.push(if self.is_new_line() { Doc::Hard } else { SPACE });
            match handler {
                Handler::Resignal(names) => parts.extend([self.take(), SPACE, self.names(names)]),
                Handler::Except { arms, others } => {
                    let arms = arms.iter().map(Arm::When).chain(others.as_ref().map(Arm::OthersName));
                    let word = self.take();
                    parts.push(self.arms(vec![word], arms.collect()));
                }
            }
        }
        Doc::Row(parts)
    }

    fn simple(&mut self, stmt: &Stmt) -> Doc<'a> {
        let (start, end) = (stmt.core.start, stmt.core.end);
        match &stmt.kind {
            StmtKind::Declare { names, ty, values } => self.declaration(names, ty, values),
            StmtKind::Assign { targets, values } => {
                let targets = self.filled(targets, |w, e| w.expr(e));
                Doc::Row(vec![targets, SPACE, self.take(), SPACE, self.filled(values, |w, e| w.expr(e))])
            }
            StmtKind::Expr(expr) => self.expr(expr),
            StmtKind::If { arms, otherwise } => self.if_statement(start, end, arms, otherwise.as_ref()),
            StmtKind::While { condition, body } => {
                let set = self.set(start, end, &[body]);
                let mut parts = vec![self.take(), SPACE, self.expr(condition), SPACE];
                parts.extend(self.closed(set, body));
                set.doc(parts)
            }
            StmtKind::For { vars, iterator, body } => {
                let set = self.set(start, end, &[body]);
                let mut parts = vec![self.take(), SPACE, self.loop_vars(vars), SPACE, self.take(), SPACE];
                parts.extend([self.expr(iterator), SPACE]);
                parts.extend(self.closed(set, body));
                set.doc(parts)
            }
            StmtKind::Begin(body) | StmtKind::Transaction(body) => {
                let set = self.set(start, end, &[body]);
                let parts = self.closed(set, body);
                set.doc(parts)
            }
            StmtKind::Break | StmtKind::Continue | StmtKind::Error => self.take_to(end),
            StmtKind::Return(values) | StmtKind::Yield(values) => {
                let mut parts = vec![self.take()];
                if self.start() < end {
                    parts.extend([SPACE, self.values(values)]);
                }
                Doc::Row(parts)
            }
            StmtKind::Signal { values, .. } | StmtKind::Exit { values, .. } => {
                let mut parts = vec![self.take(), SPACE, self.take()];
                if self.start() < end {
                    parts.push(self.values(values));
                }
                Doc::Row(parts)
            }
            StmtKind::Tagcase { subject, arms, others, .. } => {
                let head = vec![self.take(), SPACE, self.expr(subject)];
                let others = others.as_ref().map(Arm::Others);
                self.arms(head, arms.iter().map(Arm::Tag).chain(others).collect())
            }
            StmtKind::Typecase { subject, arms, others, .. } => {
                let head = vec![self.take(), SPACE, self.expr(subject)];
                let others = others.as_ref().map(Arm::Others);
                self.arms(head, arms.iter().map(Arm::Type).chain(others).collect())
            }
            StmtKind::Make { inits, maker, then } => {
                let mut parts = vec![self.take(), SPACE, self.inits(inits, maker.as_ref())];
                let Some(body) = then else { return Doc::Row(parts) };
                let set = self.set(start, end, &[body]);
                parts.push(SPACE);
                parts.extend(self.closed(set, body));
                set.doc(parts)
            }
            StmtKind::Send(expr) | StmtKind::Delegate(expr) => {
                Doc::Row(vec![self.take(), SPACE, self.expr(expr)])
            }
            StmtKind::Reply(value) => {
                let word = self.take();
                Doc::Row(vec![word, SPACE, self.values(value.as_slice())])
            }
            StmtKind::Wait { arms, after } => {
                let head = vec![self.take()];
                let after = after.as_ref().map(|(time, body)| Arm::After(time, body));
                self.arms(head, arms.iter().map(Arm::Message).chain(after).collect())
            }
        }
    }

    /// `( LIST(expr) )`
    fn values(&mut self, values: &[Expr]) -> Doc<'a> {
        if let [value] = values
            && ends_in_list(value)
        {
            return Doc::Row(vec![self.take(), self.expr(value), self.take()]);
        }
        self.delimited(INDENT, |w| w.list(values, |w, value| w.expr(value)))
    }

    /// Returns a word that opens a body, the body, and `end`.
    fn closed(&mut self, set: Set, body: &Body) -> Vec<Doc<'a>> {
        vec![self.take(), self.body(set, body), set.line(), self.take()]
    }

    fn declaration(&mut self, names: &[Ident], ty: &TypeExpr, values: &[Expr]) -> Doc<'a> {
        let mut parts = vec![self.declared(names.len(), ty)];
        if !values.is_empty() {
            parts.extend([SPACE, self.take(), SPACE, self.filled(values, |w, e| w.expr(e))]);
        }
        Doc::Row(parts)
    }

    fn if_statement(
        &mut self,
        start: u32,
        end: u32,
        arms: &[(Expr, Body)],
        otherwise: Option<&Body>,
    ) -> Doc<'a> {
        let bodies: Vec<&Body> = arms.iter().map(|(_, body)| body).chain(otherwise).collect();
        let set = self.set(start, end, &bodies);
        let mut parts = vec![];
        for (at, (condition, body)) in arms.iter().enumerate() {
            if at > 0 {
                parts.extend(self.comments());
                parts.push(set.line());
            }
            parts.extend([self.take(), SPACE, self.expr(condition), SPACE, self.take()]);
            parts.push(self.body(set, body));
        }
        if let Some(body) = otherwise {
            parts.extend(self.comments());
            parts.extend([set.line(), self.take(), self.body(set, body)]);
        }
        parts.extend([set.line(), self.take()]);
        set.doc(parts)
    }

    /// `decls | LIST(idn)`
    fn loop_vars(&mut self, vars: &[LoopVar]) -> Doc<'a> {
        let alike = |a: &LoopVar, b: &LoopVar| match (&a.ty, &b.ty) {
            (Some(a), Some(b)) => a.span == b.span,
            _ => false,
        };
        let groups: Vec<&[LoopVar]> = vars.chunk_by(alike).collect();
        self.filled(&groups, |w, group| match &group[0].ty {
            Some(ty) => w.declared(group.len(), ty),
            None => w.take(),
        })
    }

    /// Returns a head, arms and `end`. A single arm stays on the line of the head if it was there.
    fn arms(&mut self, mut parts: Vec<Doc<'a>>, arms: Vec<Arm<'_>>) -> Doc<'a> {
        let alone = arms.len() == 1 && parts.len() == 1 && !self.is_new_line();
        if alone {
            parts.push(SPACE);
            let (set, arm) = self.arm(&arms[0]);
            parts.extend(arm);
            parts.extend([set.line(), self.take()]);
            return set.doc(parts);
        }
        let mut inner = vec![];
        for arm in &arms {
            inner.push(if self.has_comments() { self.separator() } else { Doc::Hard });
            let (set, arm) = self.arm(arm);
            inner.push(set.doc(arm));
        }
        if self.tok() == Tok::End {
            inner.extend(self.comments());
        }
        parts.extend([Doc::Nest(INDENT, inner), Doc::Hard, self.take()]);
        Doc::Row(parts)
    }

    /// Returns a head, `:` and statements.
    fn arm(&mut self, arm: &Arm<'_>) -> (Set, Vec<Doc<'a>>) {
        let start = self.start();
        let mut parts = self.arm_head(arm);
        parts.push(self.take());
        let end = arm.body().last().map_or(self.start(), |stmt| stmt.span.end);
        let set = self.set(start, end, &[arm.body()]);
        parts.push(self.body(set, arm.body()));
        (set, parts)
    }

    fn arm_head(&mut self, arm: &Arm<'_>) -> Vec<Doc<'a>> {
        let mut parts = vec![self.take()];
        match arm {
            Arm::When(arm) => {
                parts.extend([SPACE, self.names(&arm.names)]);
                if self.tok() == Tok::LParen {
                    parts.extend([
                        SPACE,
                        self.delimited(INDENT, |w| match &arm.values {
                            Some(values) => w.decls(values),
                            None => vec![w.take()],
                        }),
                    ]);
                }
            }
            Arm::OthersName(arm) => parts.extend(arm.name.iter().flat_map(|name| self.variable(name))),
            Arm::Tag(arm) => {
                parts.extend([SPACE, self.names(&arm.tags)]);
                parts.extend(arm.var.iter().flat_map(|var| self.variable(var)));
            }
            Arm::Type(arm) => {
                parts.extend([SPACE, self.type_expr(&arm.ty)]);
                if arm.var.is_some() {
                    parts.extend([SPACE, self.take(), self.take(), self.take()]);
                }
            }
            Arm::Others(_) => {}
            Arm::Message(arm) => {
                parts.extend([SPACE, self.take()]);
                parts.extend(self.formals(&arm.args));
                if let Some(condition) = &arm.condition {
                    parts.extend([SPACE, self.take(), SPACE, self.expr(condition)]);
                }
            }
            Arm::After(time, _) => parts.extend([SPACE, self.expr(time)]),
        }
        parts
    }

    /// `(name: type)`
    fn variable(&mut self, formal: &Formal) -> [Doc<'a>; 2] {
        [SPACE, self.delimited(INDENT, |w| w.decls(std::slice::from_ref(formal)))]
    }
}
