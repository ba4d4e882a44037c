//! Text to programs and functions.
//!
//! Read [`parse`] first. It goes over the text twice: the first pass declares all names, so that
//! their order does not matter. The second reads types, classes and routines, and sets bodies aside
//! as [`Pending`]. The bodies are read last, in `bodies`, when all headings are known. A [`Reader`]
//! has the tokens and the program; nothing is verified here.

mod bodies;

use std::collections::HashMap;
use std::sync::Arc;

use bodies::Bodies;

use super::KEYWORDS;
use super::lex::{Token, lex};
use super::names::{numbered, types_named};
use crate::boxed;
use crate::builtin;
use crate::program::{Actor, Body, Class, ClassId, Field, Program, Routine};
use crate::stmt::{Block, Func, FuncId, FuncKind, Var, VarDecl};
use crate::tagged;
use crate::types::{
    Form, Method, MethodRef, Param, SignalSig, Signature, Supertype, TypeDef, TypeId, TypeKind,
};

/// A mistake in a text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ParseError {
    /// Counting from 1.
    pub line: u32,
    /// The mistake.
    pub message: String,
}

impl ParseError {
    pub(super) fn new(line: u32, message: String) -> ParseError {
        ParseError { line, message }
    }
}

/// The declarations of a file.
#[derive(Debug, Default)]
pub struct File {
    /// Types, classes and routines.
    pub program: Program,
    /// Batches and batched procedures, in order.
    pub batches: Vec<Arc<Func>>,
}

type Result<T> = std::result::Result<T, ParseError>;

/// Reads a file. Its declarations are not verified.
///
/// # Errors
/// The first mistake.
pub fn parse(text: &str) -> Result<File> {
    let tokens = lex(text)?;
    let mut file = File::default();
    let mut reader = Reader { tokens: &tokens, at: 0, program: &mut file.program };
    reader.declare_names()?;
    reader.at = 0;
    let mut pending = Vec::new();
    let mut batches = Vec::new();
    while reader.peek() != &Token::End {
        let private = reader.take_word("private");
        match reader.word()?.as_str() {
            "type" => reader.type_item()?,
            "class" => reader.class_item(&mut pending)?,
            "routine" => reader.routine_item(private, &mut pending)?,
            "native" => reader.native_routine(private)?,
            "batch" | "procedure" => {
                batches.push(reader.at);
                let name = reader.name()?;
                reader.heading(name)?;
                reader.skip_body()?;
            }
            other => return Err(reader.error(format!("`{other}` does not start a declaration"))),
        }
    }
    tagged::complete(reader.program);
    for body in pending {
        reader.at = body.at;
        let func = reader.body(body.func)?;
        reader.program.funcs[body.id] = func;
    }
    let mut done: Vec<Arc<Func>> = Vec::new();
    for at in batches {
        reader.at = at;
        let kind = if reader.tokens[at - 1].0 == Token::Word("batch".into()) {
            FuncKind::Batch
        } else {
            FuncKind::Procedure
        };
        let name = reader.name()?;
        let heading = reader.heading(name)?;
        let mut procedures = Vec::new();
        if reader.take_word("calls") {
            loop {
                let name = reader.name()?;
                let known = done.iter().find(|f| f.name == name).cloned();
                procedures.push(known.ok_or_else(|| reader.error(format!("no procedure `{name}`")))?);
                if !reader.take(",") {
                    break;
                }
            }
        }
        let func = Func { procedures, ..heading.into_func(kind, None) };
        done.push(Arc::new(reader.body(func)?));
    }
    tagged::complete(reader.program);
    file.batches = done;
    Ok(file)
}

/// Reads one function, as [`super::print_func`] writes it. Its `procedures` are empty.
///
/// # Errors
/// The first mistake.
pub fn parse_func(program: &mut Program, text: &str) -> Result<Func> {
    let tokens = lex(text)?;
    let mut reader = Reader { tokens: &tokens, at: 0, program };
    let kind = match reader.word()?.as_str() {
        "routine" => FuncKind::Routine,
        "method" => FuncKind::Method,
        "script" => FuncKind::Script,
        "batch" => FuncKind::Batch,
        "procedure" => FuncKind::Procedure,
        other => return Err(reader.error(format!("`{other}` does not start a function"))),
    };
    let name = reader.any_name()?;
    let receiver = if reader.take_word("of") {
        let (var, _) = reader.var_name()?;
        reader.expect(":")?;
        Some(VarDecl { name: var, ty: reader.ty()? })
    } else {
        None
    };
    let heading = reader.heading(name)?;
    let func = reader.body(heading.into_func(kind, receiver));
    tagged::complete(program);
    func
}

/// A function whose heading was read and whose body waits for the others' headings.
struct Pending {
    at: usize,
    id: FuncId,
    func: Func,
}

/// A heading, with the names of the variables that take the arguments.
struct Heading {
    name: String,
    signature: Signature,
    vars: Vec<VarDecl>,
}

impl Heading {
    fn into_func(self, kind: FuncKind, receiver: Option<VarDecl>) -> Func {
        Func {
            name: self.name,
            kind,
            signature: self.signature,
            vars: receiver.into_iter().chain(self.vars).collect(),
            body: Block::default(),
            procedures: Vec::new(),
            written: crate::places::Written::Somewhere,
        }
    }
}

struct Reader<'a> {
    tokens: &'a [(Token, u32)],
    at: usize,
    program: &'a mut Program,
}

impl Reader<'_> {
    // Tokens.

    fn error(&self, message: String) -> ParseError {
        let at = self.at.saturating_sub(1).min(self.tokens.len() - 1);
        ParseError::new(self.tokens[at].1, message)
    }

    fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> &Token {
        self.tokens.get(self.at + ahead).map_or(&Token::End, |(t, _)| t)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn take(&mut self, mark: &str) -> bool {
        let found = matches!(self.peek(), Token::Mark(m) if *m == mark);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, mark: &str) -> Result<()> {
        if self.take(mark) {
            return Ok(());
        }
        let found = self.next();
        Err(self.error(format!("`{mark}` expected, {found} found")))
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(w) if w == word)
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.take_word(word) {
            return Ok(());
        }
        let found = self.next();
        Err(self.error(format!("`{word}` expected, {found} found")))
    }

    fn word(&mut self) -> Result<String> {
        match self.next() {
            Token::Word(w) => Ok(w),
            other => Err(self.error(format!("{other} is not a word"))),
        }
    }

    fn name(&mut self) -> Result<String> {
        let word = self.word()?;
        if KEYWORDS.contains(&word.as_str()) || word.contains('%') {
            return Err(self.error(format!("`{word}` is not a name")));
        }
        Ok(word)
    }

    /// Reads a name that may be in quotes, or any word.
    fn any_name(&mut self) -> Result<String> {
        match self.next() {
            Token::Str(name) | Token::Word(name) => Ok(name),
            other => Err(self.error(format!("{other} is not a name"))),
        }
    }

    fn list<T>(&mut self, end: &str, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        while !self.take(end) {
            if !items.is_empty() {
                self.expect(",")?;
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    // Declarations.

    /// Makes the types of all names, as the first pass, so that headings can name them in any
    /// order.
    fn declare_names(&mut self) -> Result<()> {
        while self.peek() != &Token::End {
            let word = match self.next() {
                Token::Word(w) => w,
                _ => continue,
            };
            let class = match word.as_str() {
                "type" => false,
                "class" => true,
                _ => continue,
            };
            let name = match self.peek().clone() {
                Token::Str(name) => {
                    self.at += 1;
                    name
                }
                _ => self.name()?,
            };
            if self.program.types.find(&name).is_some() {
                return Err(self.error(format!("`{name}` is declared twice")));
            }
            let kind = if class {
                TypeKind::Class(ClassId::from_u32(self.program.classes.len() as u32))
            } else {
                TypeKind::Object
            };
            let ty = self.program.types.add(TypeDef {
                name: name.clone(),
                kind,
                supertypes: Vec::new(),
                methods: Default::default(),
                immutable: false,
                actor: false,
                public: !class,
                doc: String::new(),
            });
            if class {
                self.program.classes.push(Class {
                    name,
                    ty,
                    superclass: None,
                    fields: Vec::new(),
                    bodies: Vec::new(),
                    actor: None,
                });
            }
        }
        Ok(())
    }

    fn ty(&mut self) -> Result<TypeId> {
        if let Token::Str(name) = self.peek().clone() {
            self.at += 1;
            let numbered = || {
                let (name, number) = numbered(&name)?;
                types_named(self.program, name).get(number.checked_sub(1)?).copied()
            };
            let found = self.program.types.find(&name).or_else(numbered);
            return found.ok_or_else(|| self.error(format!("there is no type {name:?}")));
        }
        let name = self.word()?;
        match name.as_str() {
            "record" => return self.structured(Form::Record),
            "struct" => return self.structured(Form::Struct),
            "oneof" => return self.structured(Form::OneOf),
            "proc" | "iter" => {
                let mut signature = Signature::default();
                for ty in self.types_in_parens()? {
                    signature.params.push(Param { name: String::new(), ty });
                }
                self.outcome(&mut signature)?;
                if name == "iter" {
                    signature.yields.get_or_insert_default();
                }
                return Ok(self.program.types.routine_type(&signature));
            }
            _ => {}
        }
        if self.take("[") {
            let args = self.list("]", Self::ty)?;
            let family = builtin::find_family(&name).filter(|f| f.parms.len() == args.len());
            let Some(family) = family else {
                return Err(self.error(format!("`{name}` is not a type with {} parameters", args.len())));
            };
            let kind = (family.kind)(&args);
            let ty = self.program.types.instance(kind);
            return if name == "maybe" { self.class_of(ty) } else { Ok(ty) };
        }
        let ty = self.program.types.find(&name);
        let ty = ty.ok_or_else(|| self.error(format!("there is no type `{name}`")))?;
        if self.program.types.kind(ty).is_basic() && self.take("#") {
            self.expect_word("box")?;
            let class = boxed::class_of(self.program, ty);
            return Ok(self.program.classes[class].ty);
        }
        Ok(ty)
    }

    /// Reads the fields or tags of a type.
    fn structured(&mut self, form: Form) -> Result<TypeId> {
        self.expect("[")?;
        let fields = self.list("]", |this| {
            let name = this.word()?;
            this.expect(":")?;
            Ok(Field { name, ty: this.ty()? })
        })?;
        let ty = self.program.types.structured(form, fields);
        self.class_of(ty)
    }

    /// Reads the tagged type, or behind `#` the own type of one of its classes.
    fn class_of(&mut self, ty: TypeId) -> Result<TypeId> {
        if !self.take("#") {
            return Ok(ty);
        }
        let tag = self.word()?;
        // Made with the first class of the type, if it has fields or tags at all.
        if self.program.types.structure(ty).is_some_and(|s| !s.is_empty()) {
            tagged::class_of(self.program, ty, 0);
        }
        let name = format!("{}#{tag}", self.program.types.name(ty));
        self.program.types.find(&name).ok_or_else(|| self.error(format!("there is no class `{name}`")))
    }

    fn types_in_parens(&mut self) -> Result<Vec<TypeId>> {
        self.expect("(")?;
        self.list(")", Self::ty)
    }

    /// Reads the heading behind its name.
    fn heading(&mut self, name: String) -> Result<Heading> {
        self.expect("(")?;
        let both = self.list(")", |this| {
            let stated = match this.peek() {
                Token::Str(s) => Some(s.clone()),
                _ => None,
            };
            if stated.is_some() {
                this.at += 1;
                this.expect_word("as")?;
            }
            let (var, _) = this.var_name()?;
            this.expect(":")?;
            let ty = this.ty()?;
            Ok((Param { name: stated.unwrap_or_else(|| var.clone()), ty }, VarDecl { name: var, ty }))
        })?;
        let (params, vars) = both.into_iter().unzip();
        let mut signature = Signature { params, ..Signature::default() };
        self.outcome(&mut signature)?;
        Ok(Heading { name, signature, vars })
    }

    /// Results, steps and exceptions of a heading.
    fn outcome(&mut self, signature: &mut Signature) -> Result<()> {
        loop {
            if self.take_word("returns") {
                signature.results = self.types_in_parens()?;
            } else if self.take_word("yields") {
                signature.yields = Some(self.types_in_parens()?);
            } else if self.take_word("signals") {
                self.expect("(")?;
                signature.signals = self.list(")", |this| {
                    let name = this.word()?;
                    let name = this.program.types.signal(&name);
                    let values = if matches!(this.peek(), Token::Mark("(")) {
                        this.types_in_parens()?
                    } else {
                        Vec::new()
                    };
                    Ok(SignalSig { name, values })
                })?;
            } else {
                return Ok(());
            }
        }
    }

    fn type_item(&mut self) -> Result<()> {
        let ty = self.ty()?;
        let mut supertypes = Vec::new();
        if self.take("<") {
            loop {
                let up = self.ty()?;
                supertypes.push(Supertype { ty: up, renames: self.renames()? });
                if !self.take(",") {
                    break;
                }
            }
        }
        loop {
            if self.take_word("immutable") {
                self.program.types.def_mut(ty).immutable = true;
            } else if self.take_word("actor") {
                self.program.types.def_mut(ty).actor = true;
            } else if self.take_word("private") {
                self.program.types.def_mut(ty).public = false;
            } else {
                break;
            }
        }
        while !self.take_word("end") {
            // A method may have the name of the word.
            let private = !matches!(self.peek_at(1), Token::Mark("(")) && self.take_word("private");
            let name = self.any_name()?;
            let heading = self.heading(name)?;
            self.add_method(ty, &heading.name, heading.signature, !private);
        }
        for above in &supertypes {
            self.inherit_type(ty, above.ty, &above.renames);
        }
        self.program.types.def_mut(ty).supertypes = supertypes;
        Ok(())
    }

    /// Pairs (new name, old name).
    fn renames(&mut self) -> Result<Vec<(String, String)>> {
        if !self.take("{") {
            return Ok(Vec::new());
        }
        self.list("}", |this| {
            let new = this.any_name()?;
            this.expect_word("for")?;
            Ok((new, this.any_name()?))
        })
    }

    /// Takes over the methods of a supertype that are not restated.
    fn inherit_type(&mut self, ty: TypeId, up: TypeId, renames: &[(String, String)]) {
        let methods = self.program.types.def(up).methods.clone();
        for (method, m) in methods.iter() {
            let name = renames.iter().find(|(_, old)| *old == m.name).map_or(&m.name, |(new, _)| new);
            let known = self.standing(ty, up, name);
            let known = known.unwrap_or_else(|| self.add_method(ty, name, m.signature.clone(), m.public));
            self.program.types.def_mut(ty).methods[known.method]
                .stands_for
                .push(MethodRef { ty: up, method });
        }
    }

    /// Returns the method of `ty` that stands for one of `above` which has this name in `ty`: that
    /// of the name, unless there is one for it alone, `above.name`.
    fn standing(&self, ty: TypeId, above: TypeId, name: &str) -> Option<MethodRef> {
        let types = &self.program.types;
        let above = types.name(above);
        let above = numbered(above).map_or(above, |(name, _)| name);
        types.find_method(ty, &format!("{above}.{name}")).or_else(|| types.find_method(ty, name))
    }

    /// Adds a method, or restates it.
    fn add_method(&mut self, ty: TypeId, name: &str, signature: Signature, public: bool) -> MethodRef {
        if let Some(known) = self.program.types.find_method(ty, name) {
            self.program.types.def_mut(ty).methods[known.method].signature = signature;
            return known;
        }
        let method = self.program.types.def_mut(ty).methods.push(Method {
            name: name.to_owned(),
            signature,
            stands_for: Vec::new(),
            doc: String::new(),
            builtin: None,
            public,
        });
        MethodRef { ty, method }
    }

    fn class_item(&mut self, pending: &mut Vec<Pending>) -> Result<()> {
        let ty = self.ty()?;
        let TypeKind::Class(id) = self.program.types.kind(ty) else {
            return Err(self.error("no class".to_owned()));
        };
        let mut implemented = Vec::new();
        if self.take_word("implements") {
            loop {
                implemented.push(self.ty()?);
                if !self.take(",") {
                    break;
                }
            }
        }
        let mut above = None;
        if self.take_word("inherits") {
            let up = match self.ty().map(|ty| self.program.types.kind(ty))? {
                TypeKind::Class(up) if up < id => up,
                _ => return Err(self.error("there is no class of this name above".to_owned())),
            };
            above = Some((up, self.renames()?));
            let fields = self.program.classes[up].fields.clone();
            let class = &mut self.program.classes[id];
            (class.superclass, class.fields) = (Some(up), fields);
        }
        if let Some(name) = self.native_name() {
            self.program.native_classes.insert(id, name);
        }
        if !matches!(self.peek_at(1), Token::Mark(":")) && self.take_word("immutable") {
            self.program.types.def_mut(ty).immutable = true;
        }
        let functional = !matches!(self.peek_at(1), Token::Mark(":")) && self.take_word("functional");
        if !matches!(self.peek_at(1), Token::Mark(":")) && self.take_word("actor") {
            self.program.classes[id].actor = Some(Actor { functional, ..Actor::default() });
            let private = !matches!(self.peek_at(1), Token::Mark(":")) && self.take_word("private");
            let stops = !matches!(self.peek_at(1), Token::Mark(":")) && self.take_word("stopping");
            if let Some(actor) = &mut self.program.classes[id].actor {
                actor.stops_on_failure = stops;
            }
            let def = self.program.types.def_mut(ty);
            (def.actor, def.public) = (true, !private);
            let native = self.native_name();
            if let Some(actor) = &mut self.program.classes[id].actor {
                actor.native = native;
            }
        }
        while !self.take_word("end") {
            // An instance variable may have the name of a keyword.
            let variable = matches!(self.peek_at(1), Token::Mark(":"));
            if !variable && (self.is_word("creator") || self.is_word("disable")) {
                self.actor_member(id, ty, pending)?;
                continue;
            }
            let native = match !variable && self.take_word("native") {
                true => match self.next() {
                    Token::Str(key) => Some(self.program.native(&key)),
                    other => return Err(self.error(format!("{other} is not a quoted name"))),
                },
                false => None,
            };
            let private = !variable && self.take_word("private");
            let script = !variable && self.take_word("script");
            if variable || !script && !self.take_word("method") {
                let name = self.any_name()?;
                self.expect(":")?;
                let ty = self.ty()?;
                self.program.classes[id].fields.push(Field { name, ty });
                continue;
            }
            let name = self.any_name()?;
            let mut heading = self.heading(name.clone())?;
            let m = self.add_method(ty, &name, heading.signature.clone(), !private);
            heading.name = format!("{}.{name}", self.program.types.name(ty));
            let kind = if script { FuncKind::Script } else { FuncKind::Method };
            let func = heading.into_func(kind, Some(VarDecl { name: "self".into(), ty }));
            let body = match native {
                Some(native) => Body::Native(native),
                None => {
                    let body = self.program.funcs.push(func.clone());
                    pending.push(Pending { at: self.at, id: body, func });
                    Body::Func(body)
                }
            };
            let bodies = &mut self.program.classes[id].bodies;
            match bodies.get_mut(m.method.as_u32() as usize) {
                Some(inherited) => *inherited = body,
                None => bodies.push(body),
            }
            if native.is_none() {
                self.skip_body()?;
            }
        }
        if let Some((up, renames)) = above {
            self.inherit_class(id, ty, up, &renames)?;
        }
        for up in implemented {
            let methods = self.program.types.def(up).methods.clone();
            for (method, m) in methods.iter() {
                let Some(own) = self.standing(ty, up, &m.name) else {
                    let class = self.program.types.name(ty);
                    return Err(self.error(format!("`{class}` lacks `{}`", m.name)));
                };
                let own = &mut self.program.types.def_mut(ty).methods[own.method];
                own.stands_for.push(MethodRef { ty: up, method });
                own.public |= m.public;
            }
            self.program.types.def_mut(ty).immutable |= self.program.types.def(up).immutable;
            self.program.types.def_mut(ty).supertypes.push(Supertype { ty: up, renames: Vec::new() });
        }
        Ok(())
    }

    /// Takes `native "x"` behind the name of a class, which `native "x" method` is not.
    fn native_name(&mut self) -> Option<String> {
        let Token::Str(name) = self.peek_at(1).clone() else { return None };
        let member =
            matches!(self.peek_at(2), Token::Word(w) if w == "method" || w == "private" || w == "script");
        if member || !self.take_word("native") {
            return None;
        }
        self.at += 1;
        Some(name)
    }

    /// Reads a creator or a constraint of an actor.
    fn actor_member(&mut self, class: ClassId, ty: TypeId, pending: &mut Vec<Pending>) -> Result<()> {
        let constraint = self.word()? == "disable";
        let method = match constraint {
            false => None,
            true => {
                let name = self.any_name()?;
                let found = self.program.types.find_method(ty, &name);
                Some(found.ok_or_else(|| self.error(format!("there is no method `{name}` above")))?)
            }
        };
        let heading = self.heading(String::new())?;
        let func = heading.into_func(FuncKind::Method, Some(VarDecl { name: "self".into(), ty }));
        let id = self.program.funcs.push(func.clone());
        pending.push(Pending { at: self.at, id, func });
        let Some(actor) = &mut self.program.classes[class].actor else {
            return Err(self.error("only classes of actors have this part".to_owned()));
        };
        match method {
            Some(method) => actor.guards.push((method.method, id)),
            None => actor.creators.push(id),
        }
        self.skip_body()
    }

    /// Takes over the methods of a superclass, behind those that the class has itself.
    fn inherit_class(
        &mut self,
        class: ClassId,
        ty: TypeId,
        up: ClassId,
        renames: &[(String, String)],
    ) -> Result<()> {
        let (up_ty, bodies) = (self.program.classes[up].ty, self.program.classes[up].bodies.clone());
        let methods = self.program.types.def(up_ty).methods.clone();
        for ((method, mut m), body) in methods.into_iter().zip(bodies) {
            let from = MethodRef { ty: up_ty, method };
            let new = renames.iter().find(|(_, old)| *old == m.name).map(|(new, _)| new.clone());
            let own = match &new {
                Some(new) => self.program.types.find_method(ty, new),
                None => self.standing(ty, up_ty, &m.name),
            };
            match (own, new) {
                (Some(own), None) => {
                    self.program.types.def_mut(ty).methods[own.method].stands_for.push(from);
                }
                (Some(_), Some(new)) => return Err(self.error(format!("`{new}` is declared already"))),
                (None, new) => {
                    m.name = new.unwrap_or(m.name);
                    (m.stands_for, m.public) = (vec![from], false);
                    self.program.types.def_mut(ty).methods.push(m);
                    self.program.classes[class].bodies.push(body);
                }
            }
        }
        Ok(())
    }

    fn routine_item(&mut self, private: bool, pending: &mut Vec<Pending>) -> Result<()> {
        let name = self.any_name()?;
        let heading = self.heading(name.clone())?;
        let signature = heading.signature.clone();
        let func = heading.into_func(FuncKind::Routine, None);
        let id = self.program.funcs.push(func.clone());
        pending.push(Pending { at: self.at, id, func });
        self.program.add_routine(Routine {
            name,
            signature,
            body: Body::Func(id),
            type_args: Vec::new(),
            public: !private,
            doc: String::new(),
        });
        self.skip_body()
    }

    fn native_routine(&mut self, private: bool) -> Result<()> {
        let key = match self.next() {
            Token::Str(key) => key,
            other => return Err(self.error(format!("{other} is not a quoted name"))),
        };
        self.expect_word("routine")?;
        let name = self.any_name()?;
        let signature = self.heading(name.clone())?.signature;
        let body = Body::Native(self.program.native(&key));
        self.program.add_routine(Routine {
            name,
            signature,
            body,
            type_args: Vec::new(),
            public: !private,
            doc: String::new(),
        });
        Ok(())
    }

    /// Skips to behind the `end` of a body.
    fn skip_body(&mut self) -> Result<()> {
        let mut depth = 1;
        while depth > 0 {
            match self.next() {
                Token::Word(w) => match w.as_str() {
                    "if" | "typecase" | "while" | "for" | "except" | "transaction" | "select" => depth += 1,
                    "end" => depth -= 1,
                    _ => {}
                },
                Token::End => return Err(self.error("`end` is missing".to_owned())),
                _ => {}
            }
        }
        Ok(())
    }

    // Bodies.

    /// Reads a variable as it is declared: its name, and how it is written.
    fn var_name(&mut self) -> Result<(String, String)> {
        let word = self.word()?;
        if KEYWORDS.contains(&word.as_str()) {
            return Err(self.error(format!("`{word}` is not a name")));
        }
        let name = word.split('%').next().unwrap_or_default().to_owned();
        Ok((name, word))
    }

    fn body(&mut self, mut func: Func) -> Result<Func> {
        let mut vars: HashMap<String, Var> = HashMap::new();
        for (var, decl) in func.vars.iter() {
            vars.insert(decl.name.clone(), var);
            vars.insert(format!("{}%{}", decl.name, var.as_u32()), var);
        }
        while self.take_word("var") {
            loop {
                let (name, written) = self.var_name()?;
                self.expect(":")?;
                let ty = self.ty()?;
                let var = func.vars.push(VarDecl { name: name.clone(), ty });
                vars.insert(written, var);
                vars.insert(format!("{name}%{}", var.as_u32()), var);
                if !self.take(",") {
                    break;
                }
            }
        }
        func.body = Bodies::new(self, &vars).block()?;
        self.expect_word("end")?;
        Ok(func)
    }
}
