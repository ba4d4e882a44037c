//! Files, modules, types, classes, actors, routines.
//!
//! Read [`Parser::file`] first. A definition that cannot be read is skipped up to the next word
//! that starts one, so that one mistake does not hide the others.

use std::sync::Arc;

use super::Parser;
use crate::ast::*;
use crate::diagnostic::{Code, Diagnostic};
use crate::lexer::Tok;
use crate::source::Span;

impl Parser<'_> {
    /// `file`
    pub(super) fn file(&mut self) -> File {
        let (mut imports, mut items) = (vec![], vec![]);
        while !self.is(Tok::EndOfFile) {
            let before = self.at;
            if self.is(Tok::Import) {
                imports.push(self.import());
            } else {
                items.extend(self.item());
            }
            if self.at == before {
                self.skip_to_item();
            }
        }
        File { id: self.file, imports, items }
    }

    fn import(&mut self) -> Import {
        let start = self.bump().start;
        let mut path = vec![self.expect_name()];
        while self.take(Tok::Dot) {
            path.push(self.expect_name());
        }
        let mut names = None;
        if self.is_here(Tok::LParen) {
            self.bump();
            let mut list = vec![];
            loop {
                let there = self.expect_name();
                let renamed = self.is_name(0, "as");
                let here = if renamed {
                    self.bump();
                    self.expect_name()
                } else {
                    there.clone()
                };
                list.push((there, here));
                if !self.take(Tok::Comma) {
                    break;
                }
            }
            self.expect(Tok::RParen);
            names = Some(list);
        }
        Import { path, names, span: self.since(start) }
    }

    /// Leaves tokens until one that can start an item at the start of a line.
    fn skip_to_item(&mut self) {
        loop {
            self.bump();
            match self.tok() {
                Tok::EndOfFile => return,
                Tok::Import | Tok::Module if self.token().new_line => return,
                Tok::Name if self.token().new_line && self.starts_item() => return,
                _ => {}
            }
        }
    }

    /// Returns true if a name and `=`, `(` or `[` come next, or the word `remote`.
    fn starts_item(&self) -> bool {
        self.is(Tok::Name)
            && (matches!(self.ahead(1).tok, Tok::Eq | Tok::LParen | Tok::LBracket) || self.is_remote())
            && !self.ahead(1).new_line
    }

    /// Returns true if the word `remote` comes next, and not a definition of that name.
    fn is_remote(&self) -> bool {
        self.is_name(0, "remote") && self.ahead(1).tok == Tok::Name && !self.ahead(1).new_line
    }

    /// `item`
    fn item(&mut self) -> Option<Item> {
        let doc = self.doc_before();
        if self.is(Tok::Module) {
            return Some(Item::Module(self.module()));
        }
        let remote = self.is_remote().then(|| {
            let word = self.bump();
            self.span_of(word)
        });
        if self.is_name(0, "native") && self.ahead(1).tok == Tok::Str {
            self.bump();
            let rust = self.string();
            let heading = Heading { remote, ..self.heading() };
            return Some(Item::NativeRoutine(NativeRoutine { rust, heading }));
        }
        let named = self.is(Tok::Name) || (self.tok().is_word() && self.ahead(1).tok == Tok::Eq);
        if !named {
            self.expected("a definition");
            return None;
        }
        if self.ahead(1).tok != Tok::Eq {
            if !matches!(self.ahead(1).tok, Tok::LParen | Tok::LBracket) {
                self.bump();
                match self.is(Tok::Colon) {
                    true => self.variable_outside(),
                    false => self.expected("`=` or `(`"),
                }
                return None;
            }
            let mut routine = self.routine();
            routine.heading.remote = remote;
            if routine.heading.doc.is_empty() {
                routine.heading.doc = doc;
            }
            return Some(Item::Routine(routine));
        }
        if let Some(span) = remote {
            let message = "only routines can be `remote`";
            let help = "leave the word out: clients see types and their methods without it";
            self.report(Diagnostic::error(Code::E0215, span, message).help(help));
        }
        let start = self.token().start;
        let name = self.expect_name_or(|_| true);
        self.bump();
        let immutable_type = self.is(Tok::Immutable);
        let actor_type = self.is(Tok::Actor) && self.ahead(1).tok == Tok::Type;
        Some(match self.tok() {
            _ if immutable_type || actor_type => Item::Type(self.type_def(name, doc, start)),
            Tok::Type => Item::Type(self.type_def(name, doc, start)),
            Tok::Class | Tok::Actor | Tok::Functional => {
                Item::Class(Box::new(self.class_def(name, doc, start)))
            }
            _ => Item::Equate(Equate { name, value: self.expression(), doc }),
        })
    }

    /// `x: T := e` where there are no variables.
    fn variable_outside(&mut self) {
        let span = self.span_of(self.token());
        let message = "there are no variables outside routines";
        let help =
            "put it into an object reachable from the root directory, or write a constant as `name = value`";
        self.report(Diagnostic::error(Code::E0109, span, message).help(help));
    }

    fn module(&mut self) -> Module {
        let start = self.bump().start;
        let name = self.expect_name();
        let exports = if self.take(Tok::Exports) { self.names() } else { vec![] };
        self.open(&name);
        let items = self.nested(|p| p.module_items()).unwrap_or_default();
        self.close();
        Module { name, exports, items, span: self.since(start) }
    }

    fn module_items(&mut self) -> Vec<Item> {
        let mut items = vec![];
        while !self.is(Tok::EndOfFile) && !self.is(Tok::End) {
            let before = self.at;
            items.extend(self.item());
            if self.at == before {
                self.skip_member();
            }
        }
        items
    }

    /// Leaves tokens until the next line that starts with a name, or an `end`.
    fn skip_member(&mut self) {
        loop {
            self.bump();
            match self.tok() {
                Tok::EndOfFile | Tok::End => return,
                Tok::Name if self.token().new_line => return,
                tok if tok.is_word() && self.token().new_line => return,
                _ => {}
            }
        }
    }

    /// Reads the value of a string token that must be here, and its place.
    fn string(&mut self) -> (String, Span) {
        if !self.is(Tok::Str) {
            self.expected("a string");
            return (String::new(), self.here());
        }
        let token = self.bump();
        (crate::lexer::unquote(self.text_of(token)).0, self.span_of(token))
    }

    /// `heading`
    fn heading(&mut self) -> Heading {
        let start = self.token().start;
        let name = self.expect_name_or(|_| true);
        let parms = self.parms();
        let args = self.paren_decls();
        let result = self.result();
        let signals = self.signals();
        let wheres = self.wheres();
        let span = self.since(start);
        Heading { name, parms, args, result, signals, wheres, span, doc: self.doc_after(), remote: None }
    }

    /// `routine`, which is also `method`
    fn routine(&mut self) -> Routine {
        let heading = self.heading();
        let (body, end) = self.routine_body(&heading.name);
        Routine { heading, body, end }
    }

    fn routine_body(&mut self, name: &Ident) -> (Body, Span) {
        self.open(name);
        let body = self.body();
        let end = self.close();
        (body, end)
    }

    fn type_def(&mut self, name: Ident, doc: String, start: u32) -> TypeDef {
        let immutable = self.take(Tok::Immutable);
        let actor = self.take(Tok::Actor);
        self.expect(Tok::Type);
        let parms = self.parms();
        let mut supers = vec![];
        if self.take(Tok::Lt) {
            loop {
                let ty = self.type_expr();
                let renames = self.renames();
                supers.push((ty, renames));
                if !self.take(Tok::Comma) {
                    break;
                }
            }
        }
        let wheres = self.wheres();
        let doc = self.doc_with_head(doc);
        self.open(&name);
        let (mut methods, mut equates) = (vec![], vec![]);
        while !self.is(Tok::EndOfFile) && !self.at_end() {
            let before = self.at;
            if self.is(Tok::Name) && self.ahead(1).tok == Tok::Eq {
                equates.push(self.equate());
            } else if self.is(Tok::Name) || self.is_word_heading() {
                methods.push(self.heading());
            } else {
                self.expected("a method heading or `end`");
            }
            if self.at == before {
                self.skip_member();
            }
        }
        self.close();
        TypeDef {
            name,
            immutable,
            actor,
            parms,
            supers,
            wheres,
            methods,
            equates,
            doc,
            span: self.since(start),
        }
    }

    /// Returns true if `end` is next, and no member of that name.
    fn at_end(&self) -> bool {
        self.is(Tok::End) && !matches!(self.ahead(1).tok, Tok::LParen | Tok::Colon)
    }

    fn equate(&mut self) -> Equate {
        let doc = self.doc_before();
        let name = self.expect_name();
        self.bump();
        Equate { name, value: self.expression(), doc }
    }

    /// `[ renames ]`
    fn renames(&mut self) -> Vec<Rename> {
        let mut renames = vec![];
        if !self.is_here(Tok::LBrace) {
            return renames;
        }
        self.bump();
        loop {
            let new = self.expect_name();
            self.expect(Tok::For);
            let old = self.expect_name();
            renames.push(Rename { new, old });
            if !self.take(Tok::Comma) {
                break;
            }
        }
        self.expect(Tok::RBrace);
        renames
    }

    /// `[ "native" string ]`
    fn native(&mut self) -> Option<(String, Span)> {
        if !self.is_name(0, "native") || self.ahead(1).tok != Tok::Str {
            return None;
        }
        self.bump();
        Some(self.string())
    }

    /// `[ "persistent" ]`, which is no instance variable of that name.
    fn persistent(&mut self) -> Option<Span> {
        let member = matches!(self.ahead(1).tok, Tok::Colon | Tok::Comma | Tok::LParen | Tok::Eq);
        if !self.is_name(0, "persistent") || member {
            return None;
        }
        let word = self.bump();
        Some(self.span_of(word))
    }

    fn implements(&mut self) -> Vec<TypeExpr> {
        if self.take(Tok::Implements) { self.types() } else { vec![] }
    }

    fn class_def(&mut self, name: Ident, doc: String, start: u32) -> ClassDef {
        let mut actor = match self.take(Tok::Functional) {
            true => {
                self.expect(Tok::Actor);
                Some(ActorPart { functional: true, ..ActorPart::default() })
            }
            false => self.take(Tok::Actor).then(ActorPart::default),
        };
        match &mut actor {
            Some(actor) => actor.persistent = self.persistent(),
            None => drop(self.bump()),
        }
        let mut class = ClassDef {
            actor,
            native: self.native(),
            parms: self.parms(),
            implements: self.implements(),
            inherits: None,
            wheres: vec![],
            provides: vec![],
            hides: vec![],
            ivars: vec![],
            equates: vec![],
            methods: vec![],
            makers: vec![],
            headings: vec![],
            doc,
            span: self.since(start),
            name,
        };
        let is_actor = class.actor.is_some();
        if !is_actor && self.take(Tok::Inherits) {
            let ty = self.type_expr();
            class.inherits = Some((ty, self.renames()));
        }
        class.wheres = self.wheres();
        if !is_actor && self.take(Tok::Provides) {
            class.provides = self.names();
        }
        if !is_actor && self.take(Tok::Hides) {
            class.hides = self.names();
        }
        class.doc = self.doc_with_head(std::mem::take(&mut class.doc));
        self.open(&class.name);
        while !self.is(Tok::EndOfFile) && !self.at_end() {
            let before = self.at;
            self.class_member(&mut class);
            if self.at == before {
                self.skip_member();
            }
        }
        self.close();
        class.span = self.since(start);
        class
    }

    fn class_member(&mut self, class: &mut ClassDef) {
        let native = class.native.is_some();
        match self.ahead(1).tok {
            _ if self.is(Tok::New) && class.actor.is_some() => {
                let creator = self.creator(native);
                class.actor.get_or_insert_default().creators.push(creator);
            }
            _ if self.is(Tok::Disable) && class.actor.is_some() => {
                let disable = self.disable();
                class.actor.get_or_insert_default().disables.push(disable);
            }
            Tok::When if class.actor.is_some() && self.is_name(0, "stop") => {
                let stop = self.stop();
                class.actor.get_or_insert_default().stops.push(stop);
            }
            Tok::Colon if self.tok().is_word() => self.ivars(&mut class.ivars),
            _ if !self.is(Tok::Name) && !self.is_word_heading() => {
                self.expected("an instance variable, a method or `end`");
            }
            Tok::Colon | Tok::Comma => self.ivars(&mut class.ivars),
            Tok::Eq => class.equates.push(self.equate()),
            Tok::LParen | Tok::LBracket if native => class.headings.push(self.heading()),
            Tok::LParen | Tok::LBracket if class.actor.is_some() => class.methods.push(self.routine()),
            Tok::LParen | Tok::LBracket => self.method_or_maker(class),
            _ => {
                self.bump();
                self.expected("`:` or `(`");
            }
        }
    }

    /// Returns true if a reserved word stands where the name of a method should.
    fn is_word_heading(&self) -> bool {
        self.tok().is_word() && self.ahead(1).tok == Tok::LParen
    }

    fn ivars(&mut self, ivars: &mut Vec<Formal>) {
        let names = self.names();
        self.expect(Tok::Colon);
        let ty = self.type_expr();
        if self.is(Tok::Eq) || self.is(Tok::Assign) {
            let message = "an instance variable cannot have a value here";
            let help = "set the value where the object is made, as in `C{x := ...}` or `make {x := ...}`";
            self.report(Diagnostic::error(Code::E0109, self.here(), message).help(help));
            self.bump();
            self.expression();
        }
        ivars.extend(names.into_iter().map(|name| Formal { name, ty: ty.clone() }));
        self.take(Tok::Semi);
    }

    fn method_or_maker(&mut self, class: &mut ClassDef) {
        let start = self.token().start;
        let name = self.expect_name_or(|_| true);
        let parms = self.parms();
        let args = self.paren_decls();
        let mut makes = None;
        let mut result = Outcome { yields: false, types: vec![] };
        if self.take(Tok::Makes) {
            self.expect(Tok::LParen);
            makes = Some(self.type_expr());
            self.expect(Tok::RParen);
        } else {
            result = self.result();
        }
        let signals = self.signals();
        let wheres = self.wheres();
        let span = self.since(start);
        let doc = self.doc_after();
        let heading = Heading { name, parms, args, result, signals, wheres, span, doc, remote: None };
        let (body, end) = self.routine_body(&heading.name);
        match makes {
            Some(made) => class.makers.push(Maker { heading, class: made, body, end }),
            None => class.methods.push(Routine { heading, body, end }),
        }
    }

    fn creator(&mut self, native: bool) -> Creator {
        let word = self.bump();
        let span = self.span_of(word);
        let args = self.paren_decls();
        let body = if native { vec![] } else { self.routine_body(&Ident { name: Arc::from("new"), span }).0 };
        Creator { args, body, span }
    }

    /// `stop when failure`
    fn stop(&mut self) -> Span {
        let start = self.bump().start;
        self.bump();
        match self.is_name(0, "failure") {
            true => drop(self.bump()),
            false => {
                self.expected("`failure`");
                self.take(Tok::Name);
            }
        }
        self.since(start)
    }

    fn disable(&mut self) -> Disable {
        self.bump();
        let method = self.expect_name();
        let mut args = vec![];
        if self.is_here(Tok::LParen) {
            self.bump();
            args = self.names();
            self.expect(Tok::RParen);
        }
        self.expect(Tok::When);
        Disable { method, args, condition: self.expression() }
    }

    /// Reports the word of a construct after its `end`, as in `end for` (E0108).
    pub(super) fn stray_closing_word(&mut self, opener: Tok) {
        let next = self.token();
        if next.tok != opener || next.new_line || self.starts_statement_of(opener) {
            return;
        }
        let word = self.text_of(next);
        let message = format!("`{word}` does not belong after `end`");
        self.report(Diagnostic::error(Code::E0108, self.here(), message).help("write `end`"));
        self.bump();
    }
}
