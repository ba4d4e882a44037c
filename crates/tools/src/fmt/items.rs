//! Files, modules, types, classes, actors, routines.

use bifrost_theta::ast::*;
use bifrost_theta::lexer::Tok;
use bifrost_theta::source::Span;

use super::layout::Doc;
use super::stmts::Set;
use super::writer::Writer;
use super::{APART, CONTINUED, INDENT, SPACE};

/// A part between the head of a definition and its `end`.
enum Member<'t> {
    Variables(&'t [Formal]),
    Equate(&'t Equate),
    Heading(&'t Heading),
    Method(&'t Routine),
    Maker(&'t Maker),
    Creator(&'t Creator, bool),
    Disable(&'t Disable),
    Stop(Span),
}

impl Member<'_> {
    /// Returns its first byte.
    fn start(&self) -> u32 {
        match self {
            Member::Variables(formals) => formals[0].name.span.start,
            Member::Equate(it) => it.name.span.start,
            Member::Heading(it) => it.span.start,
            Member::Method(it) => it.heading.span.start,
            Member::Maker(it) => it.heading.span.start,
            Member::Creator(it, _) => it.span.start,
            Member::Disable(it) => it.method.span.start,
            Member::Stop(span) => span.start,
        }
    }

    /// Returns its end, if it is so simple that others may stand on its line.
    fn end(&self) -> Option<u32> {
        match self {
            Member::Variables(formals) => Some(formals[0].ty.span.end),
            Member::Equate(it) => Some(it.value.span.end),
            Member::Heading(it) => Some(it.span.end),
            _ => None,
        }
    }
}

fn variables(formals: &[Formal]) -> impl Iterator<Item = Member<'_>> {
    formals.chunk_by(|a, b| a.ty.span == b.ty.span).map(Member::Variables)
}

fn sorted(mut members: Vec<Member<'_>>) -> Vec<Member<'_>> {
    members.sort_by_key(Member::start);
    members
}

impl<'a> Writer<'a> {
    /// Returns the whole text.
    pub(super) fn file(&mut self, file: &File) -> Doc<'a> {
        let mut imports = file.imports.iter().peekable();
        let mut parts = vec![];
        for item in &file.items {
            // Imports may stand between definitions.
            while let Some(import) = imports.next_if(|import| import.span.start < item.name().span.start) {
                parts.extend([self.separator(), self.import(import)]);
            }
            parts.extend([self.separator(), self.item(item)]);
        }
        for import in imports {
            parts.extend([self.separator(), self.import(import)]);
        }
        // The end of the text has comments above it as tokens have.
        parts.extend(self.comments());
        Doc::Row(parts)
    }

    fn import(&mut self, import: &Import) -> Doc<'a> {
        let mut parts = vec![self.take(), SPACE, self.take()];
        for _ in &import.path[1..] {
            parts.extend([self.take(), self.take()]);
        }
        if let Some(names) = &import.names {
            parts.push(SPACE);
            parts.push(self.delimited(CONTINUED, |w| {
                w.list(names, |w, (there, here)| {
                    let mut parts = vec![w.take()];
                    if there.span != here.span {
                        parts.extend([SPACE, w.take(), SPACE, w.take()]);
                    }
                    Doc::Row(parts)
                })
            }));
        }
        Doc::Row(parts)
    }

    fn item(&mut self, item: &Item) -> Doc<'a> {
        match item {
            Item::Module(it) => self.module(it),
            Item::Equate(it) => self.equate(it),
            Item::Type(it) => self.type_def(it),
            Item::Class(it) => self.class_def(it),
            Item::Routine(it) => {
                let mut parts = self.remote(&it.heading);
                parts.push(self.routine(&it.heading, None, &it.body, it.end.end));
                Doc::Row(parts)
            }
            Item::NativeRoutine(it) => {
                let mut parts = self.remote(&it.heading);
                parts.extend([self.take(), SPACE, self.take(), SPACE, self.heading(&it.heading, None)]);
                Doc::Row(parts)
            }
        }
    }

    /// `[ "remote" ]`
    fn remote(&mut self, heading: &Heading) -> Vec<Doc<'a>> {
        if heading.remote.is_some() { vec![self.take(), SPACE] } else { vec![] }
    }

    fn module(&mut self, module: &Module) -> Doc<'a> {
        let mut parts = vec![self.take(), SPACE, self.take()];
        if !module.exports.is_empty() {
            parts.push(self.clause(|w| w.names(&module.exports)));
        }
        let mut inner = vec![];
        for item in &module.items {
            inner.extend([self.separator(), self.item(item)]);
        }
        inner.extend(self.comments());
        parts.extend([Doc::Nest(INDENT, inner), self.separator()]);
        parts.extend([self.take(), SPACE, self.take()]);
        Doc::Row(parts)
    }

    fn equate(&mut self, equate: &Equate) -> Doc<'a> {
        Doc::Row(vec![self.take(), SPACE, self.take(), SPACE, self.expr(&equate.value)])
    }

    /// `heading`, or with `makes` that of a maker
    fn heading(&mut self, heading: &Heading, makes: Option<&TypeExpr>) -> Doc<'a> {
        let mut parts = vec![self.take()];
        parts.extend(self.parms(&heading.parms));
        parts.extend(self.formals(&heading.args));
        if let Some(class) = makes {
            parts.push(self.clause(|w| w.delimited(INDENT, |w| vec![w.type_expr(class)])));
        }
        parts.extend(self.outcome(&heading.result, &heading.signals));
        parts.extend(self.wheres(&heading.wheres));
        Doc::Row(parts)
    }

    fn routine(&mut self, heading: &Heading, makes: Option<&TypeExpr>, body: &Body, end: u32) -> Doc<'a> {
        let set = self.set(heading.span.start, end, &[body]);
        let mut parts = vec![self.heading(heading, makes)];
        // The comment directly after a heading belongs to it.
        parts.extend(self.adjoining_comments());
        parts.extend([self.body(set, body), set.line()]);
        parts.extend([self.take(), SPACE, self.take()]);
        set.doc(parts)
    }

    fn type_def(&mut self, def: &TypeDef) -> Doc<'a> {
        let mut parts = vec![self.take(), SPACE, self.take()];
        while self.tok() != Tok::Type {
            parts.extend([SPACE, self.take()]);
        }
        parts.extend([SPACE, self.take()]);
        parts.extend(self.parms(&def.parms));
        if !def.supers.is_empty() {
            parts.push(self.clause(|w| {
                w.filled(&def.supers, |w, (ty, renames)| {
                    let mut parts = vec![w.type_expr(ty)];
                    parts.extend(w.renames(renames));
                    Doc::Row(parts)
                })
            }));
        }
        parts.extend(self.wheres(&def.wheres));
        let equates = def.equates.iter().map(Member::Equate);
        let members = sorted(def.methods.iter().map(Member::Heading).chain(equates).collect());
        self.definition(def.span.start, def.span.end, parts, &members)
    }

    fn class_def(&mut self, def: &ClassDef) -> Doc<'a> {
        let mut parts = vec![self.take(), SPACE, self.take()];
        while !matches!(self.tok(), Tok::Class | Tok::Actor) {
            parts.extend([SPACE, self.take()]);
        }
        parts.extend([SPACE, self.take()]);
        if def.actor.as_ref().is_some_and(|actor| actor.persistent.is_some()) {
            parts.extend([SPACE, self.take()]);
        }
        parts.extend(self.native(def.native.is_some()));
        parts.extend(self.parms(&def.parms));
        parts.extend(self.implements(&def.implements));
        if let Some((ty, renames)) = &def.inherits {
            parts.push(self.clause(|w| {
                let mut parts = vec![w.type_expr(ty)];
                parts.extend(w.renames(renames));
                Doc::Row(parts)
            }));
        }
        parts.extend(self.wheres(&def.wheres));
        for names in [&def.provides, &def.hides] {
            if !names.is_empty() {
                parts.push(self.clause(|w| w.names(names)));
            }
        }
        let mut members: Vec<Member<'_>> = variables(&def.ivars).collect();
        members.extend(def.equates.iter().map(Member::Equate));
        members.extend(def.methods.iter().map(Member::Method));
        members.extend(def.makers.iter().map(Member::Maker));
        members.extend(def.headings.iter().map(Member::Heading));
        if let Some(actor) = &def.actor {
            members.extend(actor.creators.iter().map(|it| Member::Creator(it, def.native.is_some())));
            members.extend(actor.disables.iter().map(Member::Disable));
            members.extend(actor.stops.iter().copied().map(Member::Stop));
        }
        self.definition(def.span.start, def.span.end, parts, &sorted(members))
    }

    fn native(&mut self, present: bool) -> Vec<Doc<'a>> {
        if !present { vec![] } else { vec![SPACE, self.take(), SPACE, self.take()] }
    }

    fn implements(&mut self, types: &[TypeExpr]) -> Vec<Doc<'a>> {
        if types.is_empty() {
            return vec![];
        }
        vec![self.clause(|w| w.filled(types, |w, ty| w.type_expr(ty)))]
    }

    /// `head`, the members, and `end name`.
    fn definition(&mut self, start: u32, end: u32, head: Vec<Doc<'a>>, members: &[Member<'_>]) -> Doc<'a> {
        let set = if self.is_one_line(start, end) { Set::Short } else { Set::Long };
        let mut parts = head;
        let mut inner = vec![];
        let mut members = members.iter().peekable();
        let mut first = true;
        while let Some(member) = members.next() {
            inner.push(match set {
                Set::Short if first => Doc::Line(" "),
                Set::Short => APART,
                Set::Long if first && !self.has_comments() => Doc::Hard,
                Set::Long => self.separator(),
            });
            first = false;
            // Simple members that share a line go on sharing it, if there is room.
            let from = self.start();
            let mut line = vec![self.member(member)];
            while set == Set::Long
                && member.end().is_some()
                && let Some(next) =
                    members.next_if(|m| m.end().is_some_and(|end| self.is_one_line(from, end)))
            {
                line.extend([APART, self.member(next)]);
            }
            inner.push(Doc::Group(line));
        }
        inner.extend(self.comments());
        parts.extend([Doc::Nest(INDENT, inner), set.line(), self.take(), SPACE, self.take()]);
        set.doc(parts)
    }

    fn member(&mut self, member: &Member<'_>) -> Doc<'a> {
        match member {
            Member::Variables(formals) => self.declared(formals.len(), &formals[0].ty),
            Member::Equate(it) => self.equate(it),
            Member::Heading(it) => self.heading(it, None),
            Member::Method(it) => self.routine(&it.heading, None, &it.body, it.end.end),
            Member::Maker(it) => self.routine(&it.heading, Some(&it.class), &it.body, it.end.end),
            Member::Creator(it, native) => self.creator(it, *native),
            Member::Stop(_) => Doc::Row(vec![self.take(), SPACE, self.take(), SPACE, self.take()]),
            Member::Disable(it) => {
                let mut parts = vec![self.take(), SPACE, self.take()];
                if !it.args.is_empty() {
                    parts.extend([SPACE, self.delimited(INDENT, |w| w.list(&it.args, |w, _| w.take()))]);
                }
                parts.extend([SPACE, self.take(), SPACE, self.expr(&it.condition)]);
                Doc::Row(parts)
            }
        }
    }

    fn creator(&mut self, creator: &Creator, native: bool) -> Doc<'a> {
        let mut parts = vec![self.take()];
        parts.extend(self.formals(&creator.args));
        if native {
            return Doc::Row(parts);
        }
        let end = creator.body.last().map_or(self.start(), |stmt| stmt.span.end);
        let set = self.set(creator.span.start, end, &[&creator.body]);
        parts.extend(self.adjoining_comments());
        parts.extend([self.body(set, &creator.body), set.line(), self.take(), SPACE, self.take()]);
        set.doc(parts)
    }
}
