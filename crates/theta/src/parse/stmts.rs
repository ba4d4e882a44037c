//! Statements and their handlers.
//!
//! Read [`Parser::body`] first: it takes statements up to a token that ends a body. A statement is
//! its core and then any number of handlers. The rest of a line that is broken is skipped, and the
//! statement becomes [`StmtKind::Error`] or keeps its good parts.

use super::Parser;
use crate::ast::*;
use crate::diagnostic::{Code, Diagnostic};
use crate::lexer::{Tok, Token};
use crate::source::Span;

impl Parser<'_> {
    /// `body`: up to a token that ends one, which is not taken.
    pub(super) fn body(&mut self) -> Body {
        self.nested(|p| p.statements()).unwrap_or_default()
    }

    fn statements(&mut self) -> Body {
        let mut body = vec![];
        while !self.ends_body() {
            let before = self.at;
            if self.take(Tok::Semi) || self.foreign_comment(true) {
                continue;
            }
            let errors = self.diagnostics.len();
            let mut stmt = self.statement();
            if self.diagnostics.len() > errors
                && !matches!(stmt.kind, StmtKind::Error)
                && self.last_error == Some(self.at)
            {
                // The rest of a broken line says nothing that can be trusted.
                stmt.kind = match stmt.kind {
                    kind @ (StmtKind::Declare { .. } | StmtKind::For { .. } | StmtKind::If { .. }) => kind,
                    kind @ (StmtKind::While { .. } | StmtKind::Begin(_)) => kind,
                    _ => StmtKind::Error,
                };
                self.skip_statement();
            }
            body.push(stmt);
            if self.at == before {
                self.bump();
            }
        }
        body
    }

    /// Leaves tokens until one that starts a statement or ends a body.
    fn skip_statement(&mut self) {
        loop {
            match self.tok() {
                tok if starts_statement(tok) => return,
                Tok::Name | Tok::SelfWord | Tok::LParen if self.token().new_line => return,
                _ if self.ends_body() => return,
                _ => {
                    self.bump();
                }
            }
        }
    }

    fn ends_body(&self) -> bool {
        let named = matches!(self.tok(), Tok::After | Tok::When | Tok::End);
        if named && self.ahead(1).tok == Tok::Colon {
            // None of them is followed by a colon: a variable has the word for its name.
            return false;
        }
        self.is_heading()
            || matches!(
                self.tok(),
                Tok::End
                    | Tok::EndOfFile
                    | Tok::Else
                    | Tok::Elseif
                    | Tok::When
                    | Tok::Others
                    | Tok::After
                    | Tok::Module
                    | Tok::Import
            )
    }

    /// Returns true if a line starts with `f (a: T`, `f () returns` or `T = class`: the next
    /// definition, so an `end` is missing here.
    fn is_heading(&self) -> bool {
        if !self.is(Tok::Name) || !self.token().new_line {
            return false;
        }
        if self.ahead(1).tok == Tok::Eq {
            return matches!(
                self.ahead(2).tok,
                Tok::Class | Tok::Type | Tok::Actor | Tok::Immutable | Tok::Functional
            );
        }
        if self.ahead(1).tok != Tok::LParen {
            return false;
        }
        if self.ahead(2).tok == Tok::RParen {
            // `main ()` reads like a call, which stands further in than the body around it, and has
            // no `end`.
            let defined = self.ahead(3).new_line
                && self.ended.contains(self.text_of(self.token()))
                && self.open.last().is_some_and(|open| {
                    !self.is_name(0, &open.name)
                        && self.column(self.token().start) <= self.column(open.line_at)
                });
            return defined
                || matches!(self.ahead(3).tok, Tok::Returns | Tok::Yields | Tok::Signals | Tok::Makes);
        }
        let mut at = 2;
        while self.ahead(at).tok == Tok::Name && self.ahead(at + 1).tok == Tok::Comma {
            at += 2;
        }
        self.ahead(at).tok == Tok::Name && self.ahead(at + 1).tok == Tok::Colon
    }

    /// `stmt`
    fn statement(&mut self) -> Stmt {
        let start = self.token().start;
        let same_line = !self.token().new_line;
        let kind = self.simple();
        let core = self.since(start);
        let mut handlers = vec![];
        loop {
            if self.is(Tok::Except) {
                handlers.push(self.except());
            } else if self.take(Tok::Resignal) {
                handlers.push(Handler::Resignal(self.names()));
            } else {
                break;
            }
        }
        let span = self.since(start);
        self.take(Tok::Semi);
        Stmt { kind, handlers, span, core, same_line }
    }

    /// Takes the `end` of a statement that was opened by the word `opener` at byte `at`.
    fn end(&mut self, opener: Tok, at: u32) {
        if self.is_end_of_open() {
            let (line, name) = (self.line(at), self.text_of(self.ahead(1)));
            let span = Span { end: self.ahead(1).end, ..self.here() };
            let message =
                format!("the {} of line {line} has no `end` before `end {name}`", opener.describe());
            let word = Span::new(self.file, at, at + opener.describe().trim_matches('`').len() as u32);
            self.report(Diagnostic::error(Code::E0109, span, message).label(word, "opened here"));
            return;
        }
        if self.take(Tok::End) {
            self.stray_closing_word(opener);
        } else {
            let line = self.line(at);
            self.expected(&format!("`end` of the {} of line {line}", opener.describe()));
        }
    }

    fn except(&mut self) -> Handler {
        let at = self.bump().start;
        let mut arms = vec![];
        while self.take(Tok::When) {
            let names = self.names();
            let mut values = None;
            if self.is(Tok::LParen) {
                self.bump();
                if !self.take(Tok::Star) {
                    values = Some(self.decls());
                }
                self.expect(Tok::RParen);
            }
            self.expect(Tok::Colon);
            arms.push(WhenArm { names, values, body: self.body() });
        }
        let mut others = None;
        if self.take(Tok::Others) {
            let mut name = None;
            if self.take(Tok::LParen) {
                let var = self.expect_name();
                self.expect(Tok::Colon);
                name = Some(Formal { name: var, ty: self.type_expr() });
                self.expect(Tok::RParen);
            }
            self.expect(Tok::Colon);
            others = Some(OthersArm { name, body: self.body() });
        }
        if arms.is_empty() && others.is_none() {
            self.expected("`when` or `others`");
        }
        self.end(Tok::Except, at);
        Handler::Except { arms, others }
    }

    /// `simple`
    fn simple(&mut self) -> StmtKind {
        let start = self.token();
        match start.tok {
            Tok::If => self.if_statement(),
            Tok::While => {
                self.bump();
                let condition = self.expression();
                self.expect(Tok::Do);
                let body = self.body();
                self.end(Tok::While, start.start);
                StmtKind::While { condition, body }
            }
            Tok::For => self.for_statement(),
            Tok::Break => self.word(StmtKind::Break),
            Tok::Continue => self.word(StmtKind::Continue),
            Tok::Begin | Tok::Transaction => {
                self.bump();
                let body = self.body();
                self.end(start.tok, start.start);
                if start.tok == Tok::Begin { StmtKind::Begin(body) } else { StmtKind::Transaction(body) }
            }
            Tok::Return => {
                self.bump();
                self.check_parentheses("return");
                StmtKind::Return(self.values())
            }
            Tok::Yield => {
                self.bump();
                self.check_parentheses("yield");
                if !self.is_here(Tok::LParen) {
                    self.expected("`(`");
                }
                StmtKind::Yield(self.values())
            }
            Tok::Signal | Tok::Exit => {
                self.bump();
                let name = self.expect_name();
                let values = self.values();
                if start.tok == Tok::Signal {
                    StmtKind::Signal { name, values }
                } else {
                    StmtKind::Exit { name, values }
                }
            }
            Tok::Tagcase => self.tagcase(),
            Tok::Typecase => self.typecase(),
            Tok::Make => self.make(),
            Tok::Send => {
                self.bump();
                StmtKind::Send(self.expression())
            }
            Tok::Delegate => {
                self.bump();
                StmtKind::Delegate(self.expression())
            }
            Tok::Reply => self.reply(),
            Tok::Wait => self.wait(),
            Tok::Name if self.foreign_word().is_some() => self.foreign_statement(start),
            _ if self.is_declaration() => self.declaration(),
            _ => self.expression_statement(),
        }
    }

    /// Reads the rest of a statement whose first word was one of another language.
    fn foreign_statement(&mut self, word: Token) -> StmtKind {
        if self.text_of(word) == "try" && self.token().new_line {
            // Its statements can be read, and its `end` belongs to it.
            let body = self.body();
            self.end(Tok::Begin, word.start);
            return StmtKind::Begin(body);
        }
        let line = self.line(word.start);
        while !self.token().new_line && !self.is(Tok::EndOfFile) && self.line(self.token().start) == line {
            self.bump();
        }
        StmtKind::Error
    }

    fn word(&mut self, kind: StmtKind) -> StmtKind {
        self.bump();
        kind
    }

    /// `[ "(" LIST(expr) ")" ]` on the same line
    fn values(&mut self) -> Vec<Expr> {
        if !self.is_here(Tok::LParen) {
            return vec![];
        }
        self.bump();
        if self.take(Tok::RParen) {
            return vec![];
        }
        let values = self.expressions();
        self.expect(Tok::RParen);
        values
    }

    /// Reports `return x`, the habit of other languages.
    fn check_parentheses(&mut self, word: &str) {
        let starts_value = matches!(
            self.tok(),
            Tok::Name
                | Tok::Int
                | Tok::Real
                | Tok::Str
                | Tok::Char
                | Tok::True
                | Tok::False
                | Tok::Nil
                | Tok::SelfWord
        );
        if !starts_value || self.token().new_line {
            return;
        }
        let message = format!("the values of `{word}` need parentheses");
        let diagnostic = Diagnostic::error(Code::E0109, self.here(), message);
        self.report(diagnostic.help(format!("write `{word} (…)`")));
    }

    fn if_statement(&mut self) -> StmtKind {
        let at = self.token().start;
        let mut arms = vec![];
        let mut otherwise = None;
        loop {
            self.bump();
            let condition = self.expression();
            self.expect(Tok::Then);
            arms.push((condition, self.body()));
            if !self.is(Tok::Elseif) {
                break;
            }
        }
        if self.take(Tok::Else) {
            otherwise = Some(self.body());
        }
        self.end(Tok::If, at);
        StmtKind::If { arms, otherwise }
    }

    fn for_statement(&mut self) -> StmtKind {
        let at = self.bump().start;
        let vars = self.loop_vars();
        self.expect(Tok::In);
        let iterator = self.expression();
        self.foreign_range();
        self.expect(Tok::Do);
        let body = self.body();
        self.end(Tok::For, at);
        StmtKind::For { vars, iterator, body }
    }

    /// `decls | LIST(idn)`
    fn loop_vars(&mut self) -> Vec<LoopVar> {
        let (mut vars, mut names) = (vec![], vec![]);
        loop {
            names.push(self.expect_name());
            if self.take(Tok::Colon) {
                let ty = self.type_expr();
                vars.extend(names.drain(..).map(|name| LoopVar { name, ty: Some(ty.clone()) }));
            }
            if !self.take(Tok::Comma) {
                break;
            }
        }
        vars.extend(names.into_iter().map(|name| LoopVar { name, ty: None }));
        vars
    }

    fn tagcase(&mut self) -> StmtKind {
        let word = self.bump();
        let subject = self.expression();
        let mut arms = vec![];
        while self.take(Tok::When) {
            let tags = self.names();
            let mut var = None;
            if self.take(Tok::LParen) {
                let name = self.expect_name();
                self.expect(Tok::Colon);
                var = Some(Formal { name, ty: self.type_expr() });
                self.expect(Tok::RParen);
            }
            self.expect(Tok::Colon);
            arms.push(TagArm { tags, var, body: self.body() });
        }
        let others = self.others();
        self.end(Tok::Tagcase, word.start);
        StmtKind::Tagcase { subject, arms, others, head: self.span_of(word) }
    }

    fn typecase(&mut self) -> StmtKind {
        let word = self.bump();
        let subject = self.expression();
        let mut arms = vec![];
        while self.take(Tok::When) {
            let ty = self.type_expr();
            let mut var = None;
            if self.take(Tok::LParen) {
                var = Some(self.expect_name());
                self.expect(Tok::RParen);
            }
            self.expect(Tok::Colon);
            arms.push(TypeArm { ty, var, body: self.body() });
        }
        let others = self.others();
        self.end(Tok::Typecase, word.start);
        StmtKind::Typecase { subject, arms, others, head: self.span_of(word) }
    }

    fn others(&mut self) -> Option<Body> {
        if !self.take(Tok::Others) {
            return None;
        }
        self.expect(Tok::Colon);
        Some(self.body())
    }

    fn make(&mut self) -> StmtKind {
        let at = self.bump().start;
        let (mut inits, mut maker) = (vec![], None);
        if self.expect(Tok::LBrace) {
            (inits, maker) = self.inits();
            self.expect(Tok::RBrace);
        }
        let mut then = None;
        if self.take(Tok::Then) {
            then = Some(self.body());
            self.end(Tok::Make, at);
        }
        StmtKind::Make { inits, maker, then }
    }

    fn reply(&mut self) -> StmtKind {
        self.bump();
        if !self.expect(Tok::LParen) {
            return StmtKind::Error;
        }
        let value = if self.is(Tok::RParen) { None } else { Some(self.expression()) };
        self.expect(Tok::RParen);
        StmtKind::Reply(value)
    }

    fn wait(&mut self) -> StmtKind {
        let at = self.bump().start;
        let mut arms = vec![];
        while self.take(Tok::When) {
            let method = self.expect_name();
            let args = self.paren_decls();
            let condition = if self.take(Tok::If) { Some(self.expression()) } else { None };
            self.expect(Tok::Colon);
            arms.push(WaitArm { method, args, condition, body: self.body() });
        }
        let mut after = None;
        if self.take(Tok::After) {
            let time = self.expression();
            self.expect(Tok::Colon);
            after = Some((time, self.body()));
        }
        self.end(Tok::Wait, at);
        StmtKind::Wait { arms, after }
    }

    /// Returns true if `a, b:` comes next.
    fn is_declaration(&self) -> bool {
        let mut at = 0;
        while self.ahead(at).tok == Tok::Name {
            match self.ahead(at + 1).tok {
                Tok::Colon => return true,
                Tok::Comma => at += 2,
                _ => return false,
            }
        }
        // A reserved word as the name of a variable.
        at == 0 && self.tok().is_word() && self.ahead(1).tok == Tok::Colon && self.tok() != Tok::SelfWord
    }

    fn declaration(&mut self) -> StmtKind {
        let mut names = vec![self.expect_name_or(|_| true)];
        while self.take(Tok::Comma) {
            names.push(self.expect_name());
        }
        self.expect(Tok::Colon);
        let ty = self.type_expr();
        let assigned = self.take(Tok::Assign) || self.equals_for_assign("write `name: type := value`");
        let values = if assigned { self.expressions() } else { vec![] };
        StmtKind::Declare { names, ty, values }
    }

    fn expression_statement(&mut self) -> StmtKind {
        let first = self.expression();
        if self.is(Tok::Comma) {
            let mut targets = vec![first];
            while self.take(Tok::Comma) {
                targets.push(self.expression());
            }
            if !self.expect(Tok::Assign) {
                return StmtKind::Error;
            }
            return StmtKind::Assign { targets, values: self.expressions() };
        }
        if self.take(Tok::Assign) {
            return StmtKind::Assign { targets: vec![first], values: self.expressions() };
        }
        StmtKind::Expr(first)
    }

    /// Returns true if a well-formed statement of the word `opener` starts here: its head is tried
    /// and forgotten.
    pub(super) fn starts_statement_of(&mut self, opener: Tok) -> bool {
        let (at, last_error, errors) = (self.at, self.last_error, self.diagnostics.len());
        self.bump();
        let closed = match opener {
            Tok::For => {
                self.loop_vars();
                let found = self.take(Tok::In);
                self.expression();
                found && self.is(Tok::Do)
            }
            Tok::While => {
                self.expression();
                self.is(Tok::Do)
            }
            Tok::If => {
                self.expression();
                self.is(Tok::Then)
            }
            // These words need nothing after them to be well formed.
            Tok::Begin | Tok::Transaction => true,
            _ => false,
        };
        let fits = closed && self.diagnostics.len() == errors;
        self.diagnostics.truncate(errors);
        (self.at, self.last_error) = (at, last_error);
        fits
    }
}

fn starts_statement(tok: Tok) -> bool {
    matches!(
        tok,
        Tok::If
            | Tok::While
            | Tok::For
            | Tok::Break
            | Tok::Continue
            | Tok::Begin
            | Tok::Transaction
            | Tok::Return
            | Tok::Yield
            | Tok::Signal
            | Tok::Exit
            | Tok::Tagcase
            | Tok::Typecase
            | Tok::Make
            | Tok::Send
            | Tok::Delegate
            | Tok::Reply
            | Tok::Wait
            | Tok::Semi
    )
}
