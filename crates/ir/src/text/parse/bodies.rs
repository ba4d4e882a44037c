//! The statements of a body.
//!
//! Read [`Bodies::block`] first: it reads statements up to a word that ends a block. The names of
//! variables are known before; the tokens and the program are those of the reader.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::super::lex::Token;
use super::super::names::{numbered, routines_named};
use super::{Reader, Result};
use crate::builtin;
use crate::places::Site;
use crate::program::ClassId;
use crate::stmt::{Arm, ArmMatch, Block, Callee, Choice, Const, Destination, Operand, Stmt, Var};
use crate::types::{MethodRef, TypeId, TypeKind};

/// The depth to which a text may nest blocks: deeper than the verifier accepts, so that its rule
/// can be tested.
const DEPTH_MAX: usize = 400;

/// The statements of a body whose variables are known.
pub(super) struct Bodies<'r, 'a, 'v> {
    reader: &'r mut Reader<'a>,
    vars: &'v HashMap<String, Var>,
    depth: usize,
}

impl<'r, 'a, 'v> Bodies<'r, 'a, 'v> {
    pub(super) fn new(reader: &'r mut Reader<'a>, vars: &'v HashMap<String, Var>) -> Self {
        Bodies { reader, vars, depth: 0 }
    }

    /// Statements up to a word that ends a block.
    pub(super) fn block(&mut self) -> Result<Block> {
        if self.depth >= DEPTH_MAX {
            return Err(self.reader.error("too deep".to_owned()));
        }
        self.depth += 1;
        let mut block = Block::default();
        while !["end", "else", "test", "when", "others", "after"].iter().any(|w| self.reader.is_word(w)) {
            if self.reader.peek() == &Token::End {
                self.reader.at += 1;
                return Err(self.reader.error("`end` is missing".to_owned()));
            }
            let mut stmt = self.stmt()?;
            if self.reader.take("@") {
                let number = self.number()?;
                if let Stmt::Call { site, .. }
                | Stmt::New { site, .. }
                | Stmt::NewSequence { site, .. }
                | Stmt::Create { site, .. }
                | Stmt::Send { site, .. }
                | Stmt::Request { site, .. }
                | Stmt::Await { site, .. }
                | Stmt::Reply { site, .. }
                | Stmt::ReplyTo { site, .. }
                | Stmt::Deliver { site, .. }
                | Stmt::Delegate { site, .. }
                | Stmt::Signal { site, .. } = &mut stmt
                {
                    *site = Site(number);
                }
            }
            block.0.push(stmt);
        }
        self.depth -= 1;
        Ok(block)
    }

    fn number(&mut self) -> Result<u32> {
        match self.reader.next() {
            Token::Int(n) if u32::try_from(n).is_ok() => Ok(n as u32),
            other => Err(self.reader.error(format!("{other} is not a number"))),
        }
    }

    fn var(&mut self) -> Result<Var> {
        let name = self.reader.word()?;
        self.vars
            .get(&name)
            .copied()
            .ok_or_else(|| self.reader.error(format!("there is no variable `{name}`")))
    }

    fn operand(&mut self) -> Result<Operand> {
        let c = match self.reader.peek().clone() {
            Token::Int(n) => Const::Int(n),
            Token::Real(bits) => Const::Real(bits),
            Token::Char(c) => Const::Char(c),
            Token::Str(s) => Const::Str(self.reader.program.literal(&s)),
            Token::Word(w) if w == "nil" => Const::Nil,
            Token::Word(w) if w == "true" || w == "false" => Const::Bool(w == "true"),
            _ => return Ok(self.var()?.into()),
        };
        self.reader.at += 1;
        Ok(c.into())
    }

    fn operands(&mut self, end: &str) -> Result<Vec<Operand>> {
        let mut items = Vec::new();
        while !self.reader.take(end) {
            if !items.is_empty() {
                self.reader.expect(",")?;
            }
            items.push(self.operand()?);
        }
        Ok(items)
    }

    fn values(&mut self) -> Result<SmallVec<[Operand; 1]>> {
        if self.reader.take("(") { Ok(self.operands(")")?.into()) } else { Ok(SmallVec::new()) }
    }

    fn vars_until(&mut self, end: &str) -> Result<SmallVec<[Var; 1]>> {
        let mut vars = SmallVec::new();
        while !self.reader.take_word(end) && !self.reader.take(end) {
            if !vars.is_empty() {
                self.reader.expect(",")?;
            }
            vars.push(self.var()?);
        }
        Ok(vars)
    }

    fn call(&mut self) -> Result<(Callee, SmallVec<[Operand; 3]>)> {
        let callee = self.callee()?;
        self.reader.expect("(")?;
        Ok((callee, self.operands(")")?.into()))
    }

    fn callee(&mut self) -> Result<Callee> {
        if self.reader.take_word("itself") {
            return Ok(Callee::Itself);
        }
        if self.reader.take_word("procedure") {
            return Ok(Callee::Procedure(self.number()?));
        }
        let start = self.reader.at;
        let with_type = ["record", "struct", "oneof", "maybe", "proc", "iter"];
        let ty = match self.reader.peek() {
            Token::Word(w) => with_type.contains(&w.as_str()),
            Token::Str(_) => matches!(self.reader.peek_at(1), Token::Mark(".")),
            _ => false,
        };
        if ty {
            let ty = self.reader.ty()?;
            self.reader.expect(".")?;
            return self.method(ty);
        }
        let name = match self.reader.next() {
            Token::Word(w) | Token::Str(w) => w,
            other => return Err(self.reader.error(format!("{other} does not start a statement"))),
        };
        let arguments = if self.reader.take("[") { self.reader.list("]", Reader::ty)? } else { Vec::new() };
        if self.reader.take(".") {
            let end = self.reader.at;
            self.reader.at = start;
            let ty = self.reader.ty()?;
            self.reader.at = end;
            return self.method(ty);
        }
        if let Some(row) = builtin::find_routine(&name) {
            let fits = arguments.len() == row.parms.len();
            if !fits {
                return Err(self.reader.error(format!("wrong type arguments of `{name}`")));
            }
            return Ok(Callee::Routine(builtin::instantiate(self.reader.program, row, &arguments)));
        }
        let numbered = || {
            let (name, number) = numbered(&name)?;
            routines_named(self.reader.program, name).get(number.checked_sub(1)?).copied()
        };
        let routine = self.reader.program.find_routine(&name).or_else(numbered);
        routine.map(Callee::Routine).ok_or_else(|| self.reader.error(format!("there is no routine `{name}`")))
    }

    fn method(&mut self, ty: TypeId) -> Result<Callee> {
        let method = self.reader.any_name()?;
        let types = &self.reader.program.types;
        let m = types.find_method(ty, &method);
        let message = || format!("`{}` has no method `{method}`", types.name(ty));
        m.map(Callee::Method).ok_or_else(|| self.reader.error(message()))
    }

    fn class(&mut self) -> Result<ClassId> {
        let ty = self.reader.ty()?;
        match self.reader.program.types.kind(ty) {
            TypeKind::Class(class) => Ok(class),
            _ => Err(self.reader.error(format!("`{}` is not a class", self.reader.program.types.name(ty)))),
        }
    }

    fn field(&mut self) -> Result<(ClassId, u32)> {
        let class = self.class()?;
        self.reader.expect(".")?;
        let field = match self.reader.next() {
            Token::Int(n) if u32::try_from(n).is_ok() => n as u32,
            Token::Word(name) => {
                let fields = &self.reader.program.classes[class].fields;
                let found = fields.iter().position(|f| f.name == name);
                found.ok_or_else(|| self.reader.error(format!("there is no field `{name}`")))? as u32
            }
            other => return Err(self.reader.error(format!("{other} is not a field"))),
        };
        self.reader.expect("(")?;
        Ok((class, field))
    }

    fn stmt(&mut self) -> Result<Stmt> {
        let word = match self.reader.peek() {
            Token::Word(w) => w.clone(),
            _ => String::new(),
        };
        let known = match word.as_str() {
            "set" | "if" | "typecase" | "while" | "for" | "break" | "continue" | "return" | "yield"
            | "signal" | "exit" | "except" | "transaction" | "send" | "await" | "reply" | "delegate"
            | "deliver" | "select" => {
                self.reader.at += 1;
                word.as_str()
            }
            _ => return self.assignment_or_call(),
        };
        Ok(match known {
            "set" => {
                let (class, field) = self.field()?;
                let operands = self.operands(")")?;
                let [object, value] = operands[..] else {
                    return Err(self.reader.error("`set` takes the object and the value".to_owned()));
                };
                Stmt::Set { object, class, field, value }
            }
            "if" => {
                let test = self.operand()?;
                self.reader.expect_word("then")?;
                let then = self.block()?;
                let otherwise = if self.reader.take_word("else") { self.block()? } else { Block::default() };
                self.reader.expect_word("end")?;
                Stmt::If { test, then, otherwise }
            }
            "typecase" => {
                let object = self.operand()?;
                self.reader.expect_word("as")?;
                let var = self.var()?;
                self.reader.expect_word("then")?;
                let then = self.block()?;
                let otherwise = if self.reader.take_word("else") { self.block()? } else { Block::default() };
                self.reader.expect_word("end")?;
                Stmt::TypeIf { object, var, then, otherwise }
            }
            "while" => {
                let cond = self.block()?;
                self.reader.expect_word("test")?;
                let test = self.operand()?;
                self.reader.expect_word("do")?;
                let body = self.block()?;
                self.reader.expect_word("end")?;
                Stmt::While { cond, test, body }
            }
            "for" => {
                let vars = self.vars_until("in")?;
                let (callee, args) = self.call()?;
                self.reader.expect_word("do")?;
                let site = if self.reader.take("@") { Site(self.number()?) } else { Site(0) };
                let body = self.block()?;
                self.reader.expect_word("end")?;
                Stmt::ForEach { callee, args, vars, body, site }
            }
            "transaction" => {
                let site = if self.reader.take("@") { Site(self.number()?) } else { Site(0) };
                let body = self.block()?;
                self.reader.expect_word("end")?;
                Stmt::Transaction { body, site }
            }
            "send" => {
                let (method, args) = self.message()?;
                Stmt::Send { method, args, site: Site(0) }
            }
            "delegate" => {
                let (method, args) = self.message()?;
                Stmt::Delegate { method, args, site: Site(0) }
            }
            "await" => {
                let mut vars = SmallVec::from_elem(self.var()?, 1);
                while self.reader.take(",") {
                    vars.push(self.var()?);
                }
                Stmt::Await { vars, site: Site(0) }
            }
            "deliver" => {
                let replier = self.operand()?;
                Stmt::Deliver { replier, values: self.values()?, site: Site(0) }
            }
            "reply" => Stmt::Reply { values: self.values()?, site: Site(0) },
            "select" => self.select()?,
            "break" => Stmt::Break,
            "continue" => Stmt::Continue,
            "return" => Stmt::Return(self.values()?),
            "yield" => Stmt::Yield(self.values()?),
            "signal" | "exit" => {
                let name = self.reader.word()?;
                let signal = self.reader.program.types.signal(&name);
                let values = self.values()?;
                if known == "signal" {
                    Stmt::Signal { signal, values, site: Site(0) }
                } else {
                    Stmt::Exit { signal, values }
                }
            }
            _ => self.except()?,
        })
    }

    /// Reads a call of a method.
    fn message(&mut self) -> Result<(MethodRef, SmallVec<[Operand; 3]>)> {
        match self.call()? {
            (Callee::Method(method), args) => Ok((method, args)),
            _ => Err(self.reader.error("messages are for methods".to_owned())),
        }
    }

    fn select(&mut self) -> Result<Stmt> {
        let site = if self.reader.take("@") { Site(self.number()?) } else { Site(0) };
        let (mut arms, mut after) = (Vec::new(), None);
        while !self.reader.take_word("end") {
            if self.reader.take_word("after") {
                let limit = self.operand()?;
                self.reader.expect_word("do")?;
                after = Some((limit, self.block()?));
                continue;
            }
            self.reader.expect_word("when")?;
            let Callee::Method(method) = self.callee()? else {
                return Err(self.reader.error("messages are for methods".to_owned()));
            };
            self.reader.expect("(")?;
            let vars = self.vars_until(")")?.into_iter().collect();
            self.reader.expect_word("given")?;
            let cond = self.block()?;
            self.reader.expect_word("test")?;
            let test = self.operand()?;
            self.reader.expect_word("do")?;
            arms.push(Choice { method, vars, cond, test, body: self.block()? });
        }
        Ok(Stmt::Select { arms, after, site })
    }

    fn except(&mut self) -> Result<Stmt> {
        let body = self.block()?;
        let mut arms = Vec::new();
        while !self.reader.take_word("end") {
            let takes = if self.reader.take_word("others") {
                ArmMatch::Others
            } else {
                self.reader.expect_word("when")?;
                let mut names = SmallVec::new();
                loop {
                    let name = self.reader.word()?;
                    names.push(self.reader.program.types.signal(&name));
                    if !self.reader.take(",") {
                        break;
                    }
                }
                ArmMatch::Named(names)
            };
            let vars = if self.reader.take("(") { self.vars_until(")")? } else { SmallVec::new() };
            self.reader.expect(":")?;
            arms.push(Arm { takes, vars, body: self.block()? });
        }
        Ok(Stmt::Except { body, arms })
    }

    fn assignment_or_call(&mut self) -> Result<Stmt> {
        let assigned = matches!(self.reader.peek_at(1), Token::Mark("," | ":="));
        // `a[i] := request ...`: an index is one operand.
        let element = matches!(self.reader.peek_at(1), Token::Mark("["))
            && matches!(self.reader.peek_at(3), Token::Mark("]"))
            && matches!(self.reader.peek_at(4), Token::Mark(":="));
        if element {
            let dst = self.var()?;
            self.reader.expect("[")?;
            let element = Some(self.operand()?);
            self.reader.expect("]")?;
            self.reader.expect(":=")?;
            self.reader.expect_word("request")?;
            let (method, args) = self.message()?;
            return Ok(Stmt::Request { method, args, dst, element, site: Site(0) });
        }
        if !assigned {
            let (callee, args) = self.call()?;
            return Ok(Stmt::Call { callee, args, dsts: SmallVec::new(), site: Site(0) });
        }
        let dsts = self.vars_until(":=")?;
        let Some(&first) = dsts.first() else {
            return Err(self.reader.error("expected a variable before `:=`".to_owned()));
        };
        if self.reader.take_word("new") {
            let class = self.class()?;
            self.reader.expect("(")?;
            return Ok(Stmt::New { dst: first, class, fields: self.operands(")")?, site: Site(0) });
        }
        if self.reader.take_word("request") {
            let (method, args) = self.message()?;
            return Ok(Stmt::Request { method, args, dst: first, element: None, site: Site(0) });
        }
        if self.reader.take_word("replyto") {
            return Ok(Stmt::ReplyTo { dst: first, site: Site(0) });
        }
        if self.reader.take_word("create") {
            let class = self.class()?;
            self.reader.expect(".")?;
            let creator = self.number()?;
            self.reader.expect("(")?;
            let args = self.operands(")")?.into();
            let place = match () {
                () if self.reader.take_word("on") => Destination::On(self.operand()?),
                () if self.reader.take_word("anywhere") => Destination::Anywhere,
                () => Destination::Here,
            };
            return Ok(Stmt::Create { dst: first, class, creator, args, place, site: Site(0) });
        }
        if self.reader.take_word("get") {
            let (class, field) = self.field()?;
            let object = self.operand()?;
            self.reader.expect(")")?;
            return Ok(Stmt::Get { dst: first, object, class, field });
        }
        if self.reader.take("[") {
            return Ok(Stmt::NewSequence { dst: first, elements: self.operands("]")?, site: Site(0) });
        }
        let call = match self.reader.peek() {
            Token::Word(w) if w == "itself" || w == "procedure" => true,
            Token::Word(_) | Token::Str(_) => matches!(self.reader.peek_at(1), Token::Mark("(" | "." | "[")),
            _ => false,
        };
        if call {
            let (callee, args) = self.call()?;
            return Ok(Stmt::Call { callee, args, dsts, site: Site(0) });
        }
        Ok(Stmt::Let { dst: first, src: self.operand()? })
    }
}
