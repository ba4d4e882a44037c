//! Lines to commands.
//!
//! Read [`Translator`] first. [`Translator::line`] parses a line, appends its commands, and tells
//! by [`Due`] if a reply is due; then [`Translator::reply`] takes that reply and writes the answer.
//! The translator owns the names of the conversation, the futures of the batch under way with their
//! types, and the structures that are open. It checks names and types, so that a wrong line is
//! refused before anything is recorded.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::json;

use crate::command::Hello;
use crate::encode;
use crate::ids::{ProcedureNumber, Ref, TypeNumber};
use crate::interface::{Kind, Method, Numbering};
use crate::limit::Limit;
use crate::op;
use crate::value::{Arg, OwnedValue, Value};

use super::answer::{Answer, Item};
use super::explain::{Explained, Explainer};
use super::look::{Listing, Look};
use super::parser::{Expr, ExprKind, Line, Target, parse};
use super::{HELP, print};

/// A mistake in a line. Nothing of the line was recorded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("column {column}: {text}")]
pub struct LineError {
    /// The column, counted in characters from 1.
    pub column: usize,
    /// The text that was expected instead.
    pub text: String,
}

impl LineError {
    pub(super) fn new(column: usize, text: impl Into<String>) -> LineError {
        LineError { column, text: text.into() }
    }
}

/// True if the bytes appended ask for a reply, which must be given to [`Translator::reply`] before
/// the next line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// No reply comes.
    Nothing,
    /// One reply comes.
    Reply,
}

/// A value that a name has.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Known {
    Ref(Ref),
    Value(OwnedValue),
    /// A table, which was shown and is gone.
    Rows,
    Failed,
}

impl Known {
    pub(super) fn from_value(value: &Value<'_>) -> Known {
        Known::Value((*value).into())
    }

    pub(super) fn arg(&self) -> Arg<'_> {
        match self {
            Known::Ref(r) => Arg::Ref(*r),
            Known::Rows | Known::Failed => Arg::Ref(Ref::NONE),
            Known::Value(value) => Arg::Value(value.view()),
        }
    }
}

impl Known {
    /// Calls a function for each reference.
    pub(super) fn each_reference(&self, each: &mut dyn FnMut(Ref)) {
        match self {
            Known::Ref(reference) => each(*reference),
            Known::Value(OwnedValue::Compound(compound)) => compound.view().each_reference(each),
            _ => {}
        }
    }
}

/// Something with its type; [`TypeNumber::NONE`] when it is not known.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Typed {
    pub(super) known: Known,
    pub(super) ty: TypeNumber,
}

/// A name of the conversation.
#[derive(Clone, Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) typed: Typed,
}

/// A result of the batch.
#[derive(Clone, Debug)]
pub(super) struct Future {
    pub(super) ty: TypeNumber,
    pub(super) call: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Open {
    While,
    Do,
    If,
    Then,
    Else,
    Foreach,
    Except,
    Procedure,
}

/// The results that a flush asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) wanted: Vec<u32>,
    /// The values to print: a label, and a position or a value that is known already.
    pub(super) shown: Vec<(String, Typed)>,
    /// The iterator whose values are listed.
    pub(super) listing: Option<Listing>,
}

/// The reply that is due, and the use of it.
#[derive(Debug, Default)]
pub(super) enum Stage {
    /// None, or one that is no answer to a flush.
    #[default]
    Idle,
    /// The reply to a batch of the conversation.
    Flush(Asked),
    /// The reply to a batch that asks for the contents of the objects in an answer.
    Looks(Answer, Vec<Look>),
}

/// A conversation in the text form.
pub struct Translator {
    pub(super) numbering: Arc<Numbering>,
    pub(super) futures: Vec<Future>,
    pub(super) bindings: Vec<Binding>,
    /// The open structures, each with how many bindings there were before it.
    open: Vec<(Open, usize)>,
    /// The procedures, each with its number, and the types of its parameters and of its result.
    procedures: Vec<(String, u32, Vec<TypeNumber>, TypeNumber)>,
    procedure_count: u32,
    frees: Vec<Ref>,
    pub(super) stage: Stage,
    /// The limits that the server has announced.
    limits: Vec<(Limit, u64)>,
    /// True if answers are JSON, a line each.
    pub(super) json: bool,
    pub(super) explained: Explained,
}

pub(super) type Translated<T> = Result<T, LineError>;

impl Translator {
    /// Returns a conversation about an interface.
    pub fn new(numbering: Arc<Numbering>) -> Translator {
        Translator {
            numbering,
            futures: Vec::new(),
            bindings: Vec::new(),
            open: Vec::new(),
            procedures: Vec::new(),
            procedure_count: 0,
            frees: Vec::new(),
            stage: Stage::Idle,
            limits: Vec::new(),
            json: false,
            explained: Explained::default(),
        }
    }

    /// Has answers be JSON, a line each, for programs.
    pub fn set_json(&mut self) {
        self.json = true;
    }

    /// True if answers are JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Returns the answer to a line that is no command. `number` is that of the line, from 1.
    pub fn bad_line(&self, number: u64, bad: &LineError) -> String {
        match self.json {
            true => {
                let LineError { column, text } = bad;
                let json = json!({"error": "BadLine", "line": number, "column": column, "text": text});
                format!("{json}\n")
            }
            false => format!("error: {bad}\n"),
        }
    }

    /// Notes the limits that the server has announced, each by its number. A translator that reads
    /// the `welcome` does so by itself.
    pub fn set_limits(&mut self, limits: impl Iterator<Item = (u32, u64)>) {
        let known = |(number, value)| Some((Limit::from_number(number)?, value));
        self.limits = limits.filter_map(known).collect();
    }

    /// Returns the names that are defined, for completion.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.bindings.iter().map(|b| b.name.as_str())
    }

    /// Returns the names of the methods that can be called on a name, for completion.
    pub fn methods_of(&self, name: &str) -> impl Iterator<Item = &str> {
        let ty = self.find(name).and_then(|t| self.numbering.interface().ty(t.ty));
        ty.into_iter().flat_map(|t| t.methods.iter().map(|m| m.name.as_str()))
    }

    /// Forgets the batch with its open structures, which the session has been told to drop.
    pub fn abandon(&mut self) {
        if let Some((_, count)) = self.open.first().copied() {
            self.open.clear();
            self.truncate_bindings(count);
        }
        self.settle(&[]);
    }

    /// Returns the number of structures open; a prompt may show it.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Returns the commands of the batch, or of the last one with what it used if nothing was said
    /// since.
    fn explain(&self) -> String {
        let mut names = vec!["?"; self.procedure_count as usize];
        for (name, number, ..) in &self.procedures {
            if let Some(place) = names.get_mut(*number as usize) {
                *place = name;
            }
        }
        self.explained.text(&mut Explainer::new(&self.numbering, &names))
    }

    /// Turns a line into commands, which are appended to `out`, and into an answer, if it has one
    /// at once.
    ///
    /// # Errors
    /// The line is no command. Nothing of it is recorded: it is as if it had not been said.
    pub fn line(&mut self, line: &str, out: &mut Vec<u8>, answer: &mut String) -> Result<Due, LineError> {
        let line = parse(line, &|name| self.numbering.find_routine(name).is_some())?;
        let (bytes, futures) = (out.len(), self.futures.len());
        // The line of a call touches names only when it is whole.
        let names = match line {
            Line::Let(..) | Line::Flush(_) | Line::List(..) => None,
            _ => Some((self.bindings.clone(), self.open.clone(), self.frees.clone())),
        };
        let done = self.record(line, out, answer);
        if done.is_ok() {
            self.explained.keep(out.get(bytes..).unwrap_or_default());
        }
        if done.is_err() {
            out.truncate(bytes);
            self.futures.truncate(futures);
            if let Some((bindings, open, frees)) = names {
                (self.bindings, self.open, self.frees) = (bindings, open, frees);
            }
        }
        done
    }

    fn record(&mut self, line: Line, out: &mut Vec<u8>, answer: &mut String) -> Result<Due, LineError> {
        match line {
            Line::Empty => {}
            Line::Let(targets, expr) => self.assign(&targets, &expr, out)?,
            Line::Flush(exprs) => return self.flush(&exprs, out),
            Line::List(limit, iterator) => return self.list(limit, &iterator, out),
            Line::Free(names) => self.free(&names)?,
            Line::While(condition) => {
                encode::plain(out, op::WHILE);
                self.open.push((Open::While, self.bindings.len()));
                if let Some(condition) = condition {
                    self.test(&condition, Open::While, Open::Do, encode::loop_body, out)?;
                }
            }
            Line::Do(test) => self.test(&test, Open::While, Open::Do, encode::loop_body, out)?,
            Line::If(condition) => {
                encode::plain(out, op::IF);
                self.open.push((Open::If, self.bindings.len()));
                if let Some(condition) = condition {
                    self.test(&condition, Open::If, Open::Then, encode::then, out)?;
                }
            }
            Line::Then(test) => self.test(&test, Open::If, Open::Then, encode::then, out)?,
            Line::Else => {
                self.next_block(
                    &[Open::Then],
                    Open::Else,
                    "`else` is allowed only after the first block of an `if`",
                )?;
                encode::plain(out, op::ELSE);
            }
            Line::Foreach(names, iterator) => self.foreach(&names, &iterator, out)?,
            Line::Send(message) => self.send(&message, out)?,
            Line::Emit(cells) => self.emit(&cells, out)?,
            Line::Break => {
                self.inside_loop("break")?;
                encode::plain(out, op::BREAK);
            }
            Line::Continue => {
                self.inside_loop("continue")?;
                encode::plain(out, op::CONTINUE);
            }
            Line::Except => {
                encode::plain(out, op::EXCEPT);
                self.open.push((Open::Except, self.bindings.len()));
            }
            Line::When(name, values) => {
                let types = self.types(&values)?;
                self.next_block(&[Open::Except], Open::Except, "`when` is allowed only inside an `except`")?;
                encode::when(out, &name, types.iter().copied());
                self.variables(&values, &types);
            }
            Line::Others(name) => {
                self.next_block(
                    &[Open::Except],
                    Open::Except,
                    "`others` is allowed only inside an `except`",
                )?;
                encode::others(out, name.is_some());
                if let Some(name) = name {
                    let string = self.kind(Kind::String);
                    self.variables(&[(name, String::new())], &[string]);
                }
            }
            Line::Procedure(name, params, result) => self.procedure(name, &params, result, out)?,
            Line::Return(value) => {
                if !self.open.iter().any(|open| open.0 == Open::Procedure) {
                    return Err(LineError::new(1, "`return` is allowed only inside a `procedure`"));
                }
                let value = value.map(|v| self.expression(&v, out)).transpose()?;
                encode::return_(out, value.as_ref().map(|v| v.known.arg()).as_ref());
            }
            Line::End => self.end(out)?,
            Line::Hello { version, json, token, client, trace } => {
                self.json |= json;
                let digest = *self.numbering.digest();
                encode::hello(out, &Hello { version, digest, token: &token, client: &client, trace });
                return Ok(Due::Reply);
            }
            Line::Describe(name) => match print::describe(&self.numbering, name.as_deref()) {
                Some(text) => self.say(&text, answer),
                None => return Err(LineError::new(1, "no type or routine has this name; try `describe`")),
            },
            Line::History => {
                self.outside("history")?;
                encode::history(out, false);
                return Ok(Due::Reply);
            }
            Line::Clear => {
                self.outside("clear")?;
                encode::history(out, true);
            }
            Line::Profile(on) => {
                self.outside("profile")?;
                let is_known = self.limits.iter().any(|(limit, _)| *limit == Limit::ProfileEntries);
                if !is_known {
                    return Err(LineError::new(1, "the server makes no profiles"));
                }
                encode::profile(out, on);
            }
            Line::Limits if self.limits.is_empty() => {
                return Err(LineError::new(1, "the limits are known after `hello`"));
            }
            Line::Limits if self.json => {
                let limits = self.limits.iter().map(|(limit, value)| (limit.name(), *value));
                *answer += &format!("{}\n", json!({"limits": limits.collect::<BTreeMap<_, _>>()}));
            }
            Line::Limits => {
                for (limit, value) in &self.limits {
                    let _ = writeln!(answer, "{:<27} {value:>10}  {}", limit.name(), limit.text());
                }
            }
            Line::Explain => self.say(&self.explain(), answer),
            Line::Help => self.say(&format!("{HELP}\n"), answer),
            Line::Bye => {
                encode::plain(out, op::BYE);
                return Ok(Due::Reply);
            }
        }
        Ok(Due::Nothing)
    }

    /// Answers with lines, or with a text in JSON.
    fn say(&self, text: &str, answer: &mut String) {
        match self.json {
            true => *answer += &format!("{}\n", json!({"text": text})),
            false => answer.push_str(text),
        }
    }

    /// Names of futures become names of handles and values; handles without a name are given back.
    pub(super) fn settle(&mut self, settled: &[(u32, Typed, Item)]) {
        for binding in &mut self.bindings {
            let Known::Ref(reference) = binding.typed.known else { continue };
            let Some(position) = reference.position() else { continue };
            binding.typed = match settled.iter().find(|s| s.0 == position) {
                Some((_, typed, _)) => typed.clone(),
                None => Typed { known: Known::Failed, ty: binding.typed.ty },
            };
        }
        for (_, typed, _) in settled {
            self.unname(typed);
        }
        self.futures.clear();
    }

    /// Gives the handles of something back at the next flush, those that no name has.
    pub(super) fn unname(&mut self, typed: &Typed) {
        let mut handles = Vec::new();
        typed.known.each_reference(&mut |handle| handles.push(handle));
        for handle in handles {
            let mut named = false;
            for binding in &self.bindings {
                binding.typed.known.each_reference(&mut |other| named |= other == handle);
            }
            if handle.is_handle() && !named && !self.frees.contains(&handle) {
                self.frees.push(handle);
            }
        }
    }

    fn find(&self, name: &str) -> Option<&Typed> {
        self.bindings.iter().rev().find(|b| b.name == name).map(|b| &b.typed)
    }

    fn bind(&mut self, name: &str, typed: Typed) {
        let start = self.open.last().map_or(0, |o| o.1);
        let old = self.bindings[start..]
            .iter()
            .position(|b| b.name == name)
            .map(|i| self.bindings.remove(start + i));
        self.bindings.push(Binding { name: name.to_owned(), typed });
        if let Some(old) = old {
            self.unname(&old.typed);
        }
    }

    fn truncate_bindings(&mut self, count: usize) {
        for old in self.bindings.split_off(count.min(self.bindings.len())) {
            self.unname(&old.typed);
        }
    }

    /// Returns the position of the last result of the batch.
    pub(super) fn position(&self) -> u32 {
        self.futures.len() as u32
    }

    pub(super) fn truncate_futures(&mut self, position: u32) {
        self.futures.truncate(position as usize);
    }

    pub(super) fn clear_futures(&mut self) {
        self.futures.clear();
    }

    /// Refuses a line that cannot stand inside a structure.
    pub(super) fn outside(&self, word: &str) -> Translated<()> {
        match self.open.is_empty() {
            true => Ok(()),
            false => {
                Err(LineError::new(1, format!("`{word}` is not allowed inside a structure: `end` it first")))
            }
        }
    }

    fn structureless(&self, word: &str, column: usize) -> Translated<()> {
        self.outside(word).map_err(|bad| LineError { column, ..bad })
    }

    /// Refuses a line that leaves a loop where there is none.
    fn inside_loop(&self, word: &str) -> Translated<()> {
        for (open, _) in self.open.iter().rev() {
            match open {
                Open::Do | Open::Foreach => return Ok(()),
                Open::While => {
                    let text = format!("`{word}` cannot leave the condition of a loop");
                    return Err(LineError::new(1, text));
                }
                Open::Procedure => break,
                _ => {}
            }
        }
        Err(LineError::new(1, format!("`{word}` is allowed only inside a loop")))
    }

    pub(super) fn kind(&self, kind: Kind) -> TypeNumber {
        self.numbering.interface().find_kind(kind, None).unwrap_or(TypeNumber::NONE)
    }

    fn ty(&self, name: &str) -> Translated<TypeNumber> {
        let found = self.numbering.find_type(name);
        found.ok_or_else(|| LineError::new(1, format!("there is no type `{name}`; try `describe`")))
    }

    fn types(&self, params: &[(String, String)]) -> Translated<Vec<TypeNumber>> {
        params.iter().map(|(_, ty)| self.ty(ty)).collect()
    }

    /// Takes the next number for a result.
    pub(super) fn future(&mut self, ty: TypeNumber, call: &str) -> Typed {
        self.futures.push(Future { ty, call: call.to_owned() });
        Typed { known: Known::Ref(Ref::future(self.futures.len() as u32)), ty }
    }

    fn variables(&mut self, names: &[(String, String)], types: &[TypeNumber]) {
        for ((name, _), ty) in names.iter().zip(types) {
            let typed = self.future(*ty, name);
            self.bind(name, typed);
        }
    }

    fn assign(&mut self, targets: &[Target], expr: &Expr, out: &mut Vec<u8>) -> Translated<()> {
        let results = self.results(expr, TypeNumber::NONE, out, !targets.is_empty())?;
        if targets.len() > results.len() {
            return Err(LineError::new(1, format!("the expression has only {} results", results.len())));
        }
        for (target, typed) in targets.iter().zip(&results) {
            if let Target::Future(position) = target
                && typed.known != Known::Ref(Ref::future(*position))
            {
                let is = self.futures.len();
                return Err(LineError::new(1, format!("the next result of the batch was @{is}")));
            }
        }
        for (target, typed) in targets.iter().zip(results) {
            if let Target::Variable(name) = target {
                self.bind(name, typed);
            }
        }
        Ok(())
    }

    /// Records an expression that makes one future or value.
    pub(super) fn expression(&mut self, expr: &Expr, out: &mut Vec<u8>) -> Translated<Typed> {
        self.expression_of(expr, TypeNumber::NONE, out)
    }

    /// As [`Translator::expression`], where a value of this type is wanted.
    pub(super) fn expression_of(
        &mut self,
        expr: &Expr,
        wanted: TypeNumber,
        out: &mut Vec<u8>,
    ) -> Translated<Typed> {
        let results = self.results(expr, wanted, out, false)?;
        let first = results.into_iter().next();
        first.ok_or_else(|| LineError::new(expr.column, "this expression has no result"))
    }

    /// Records an expression with all its results, where a value of a type is wanted; `constant`
    /// says that a value is to become a future.
    fn results(
        &mut self,
        expr: &Expr,
        wanted: TypeNumber,
        out: &mut Vec<u8>,
        constant: bool,
    ) -> Translated<Vec<Typed>> {
        let bad = |text: String| LineError::new(expr.column, text);
        let (value, kind) = match &expr.kind {
            ExprKind::Variable(name) => {
                let found = self.find(name).cloned();
                let found = found.ok_or_else(|| bad(format!("no result has the name `${name}`")))?;
                if found.known == Known::Rows {
                    return Err(bad(format!("the table `${name}` has ended with its batch")));
                }
                return Ok(vec![found]);
            }
            ExprKind::Future(position) => {
                let future = self.futures.get(*position as usize - 1);
                let ty = future.ok_or_else(|| bad(format!("this batch has no result @{position}")))?.ty;
                return Ok(vec![Typed { known: Known::Ref(Ref::future(*position)), ty }]);
            }
            ExprKind::Handle(handle) => {
                let known = Known::Ref(Ref(*handle));
                let named = self.bindings.iter().find(|b| b.typed.known == known);
                let ty = named.map_or(TypeNumber::NONE, |b| b.typed.ty);
                return Ok(vec![Typed { known, ty }]);
            }
            ExprKind::Lookup(name, ty) => {
                if !self.open.is_empty() {
                    return Err(bad("look up the object before the structure".to_owned()));
                }
                let ty = ty.as_deref().map(|t| self.ty(t)).transpose()?;
                encode::lookup(out, name, ty);
                return Ok(vec![self.future(ty.unwrap_or(TypeNumber::NONE), "lookup")]);
            }
            ExprKind::Cell(element) => {
                let element = self.ty(element)?;
                encode::cell(out, element);
                let ty = self.numbering.interface().find_kind(Kind::Cell, Some(element));
                return Ok(vec![self.future(ty.unwrap_or(TypeNumber::NONE), "cell")]);
            }
            ExprKind::Rows(columns) => {
                self.structureless("rows", expr.column)?;
                let columns = columns.iter().map(|ty| self.ty(ty)).collect::<Translated<Vec<_>>>()?;
                encode::rows(out, columns.into_iter());
                return Ok(vec![self.future(TypeNumber::NONE, "rows")]);
            }
            ExprKind::As(object, ty) => {
                let (object, ty) = self.object_and_type(object, ty, out)?;
                encode::cast(out, ty, object);
                return Ok(vec![self.future(ty, "as")]);
            }
            ExprKind::Is(object, ty) => {
                let (object, ty) = self.object_and_type(object, ty, out)?;
                encode::test_type(out, ty, object);
                return Ok(vec![self.future(self.kind(Kind::Bool), "is")]);
            }
            ExprKind::Get(object) => {
                self.structureless("get", expr.column)?;
                let object = self.expression(object, out)?;
                let ty = object.ty;
                let object = self.reference(object, out);
                encode::get(out, object);
                return Ok(vec![self.future(ty, "get")]);
            }
            ExprKind::Items(ty, items) => {
                let ty = match ty {
                    Some(ty) => self.ty(ty)?,
                    None => wanted.known().ok_or_else(|| {
                        bad("the type of the value is not known here: write `value TYPE {...}`".to_owned())
                    })?,
                };
                let typed = self.compound(expr.column, ty, items, out)?;
                return Ok(vec![if constant { self.referable(typed, out) } else { typed }]);
            }
            ExprKind::Transaction(tries, batch) => {
                self.structureless("transaction", expr.column)?;
                encode::transaction(out, *tries, *batch);
                return Ok(vec![self.future(self.kind(Kind::Null), "transaction")]);
            }
            ExprKind::Commit => {
                self.structureless("commit", expr.column)?;
                encode::plain(out, op::COMMIT);
                return Ok(vec![self.future(self.kind(Kind::Null), "commit")]);
            }
            ExprKind::Abort => {
                self.structureless("abort", expr.column)?;
                encode::plain(out, op::ABORT);
                return Ok(vec![self.future(self.kind(Kind::Null), "abort")]);
            }
            ExprKind::Wait(ms) => {
                self.structureless("wait", expr.column)?;
                encode::wait(out, *ms);
                return Ok(vec![self.future(self.kind(Kind::Bool), "wait")]);
            }
            ExprKind::Call(receiver, name, args) => {
                return self.call(expr.column, receiver.as_deref(), name, args, op::CALL, out);
            }
            ExprKind::Nil => (Value::Nil, Kind::Null),
            ExprKind::Bool(b) => (Value::Bool(*b), Kind::Bool),
            ExprKind::Int(i) => (Value::Int(*i), Kind::Int),
            ExprKind::Real(r) => (Value::Real(*r), Kind::Real),
            ExprKind::Char(c) => (Value::Char(*c), Kind::Char),
            ExprKind::Str(s) => (Value::Str(s), Kind::String),
            ExprKind::Bytes(b) => (Value::Bytes(b), Kind::Bytes),
        };
        let typed = Typed { known: Known::from_value(&value), ty: self.kind(kind) };
        Ok(vec![if constant { self.referable(typed, out) } else { typed }])
    }

    /// Returns a reference to it: a value becomes a constant.
    fn referable(&mut self, typed: Typed, out: &mut Vec<u8>) -> Typed {
        match typed.known.arg() {
            Arg::Ref(_) => typed,
            Arg::Value(value) => {
                encode::constant(out, &value);
                self.future(typed.ty, "constant")
            }
        }
    }

    /// Records the operands of `as` or `is`.
    fn object_and_type(
        &mut self,
        object: &Expr,
        ty: &str,
        out: &mut Vec<u8>,
    ) -> Translated<(Ref, TypeNumber)> {
        let (object, ty) = (self.expression(object, out)?, self.ty(ty)?);
        Ok((self.reference(object, out), ty))
    }

    /// As [`Translator::referable`], as it crosses.
    fn reference(&mut self, typed: Typed, out: &mut Vec<u8>) -> Ref {
        match self.referable(typed, out).known {
            Known::Ref(reference) => reference,
            _ => Ref::NONE,
        }
    }

    pub(super) fn call(
        &mut self,
        column: usize,
        receiver: Option<&Expr>,
        name: &str,
        args: &[Expr],
        how: u8,
        out: &mut Vec<u8>,
    ) -> Translated<Vec<Typed>> {
        let bad = |text: String| LineError::new(column, text);
        let foreach = how == op::FOREACH;
        let receiver = match receiver {
            None => None,
            Some(expr) => {
                let typed = self.expression(expr, out)?;
                Some(self.referable(typed, out))
            }
        };
        let wanted = self.wanted(receiver.as_ref(), name);
        let wanted = wanted.into_iter().chain(std::iter::repeat(TypeNumber::NONE));
        let args = args.iter().zip(wanted).map(|(arg, wanted)| self.expression_of(arg, wanted, out));
        let args = args.collect::<Translated<Vec<Typed>>>()?;
        let args: Vec<Arg<'_>> = args.iter().map(|a| a.known.arg()).collect();
        let numbering = self.numbering.clone();
        let check = |method: &Method| {
            let count = method.heading.params.len();
            if args.len() != count {
                return Err(bad(format!(
                    "the call takes {count} arguments: {}",
                    numbering.interface().heading(method)
                )));
            }
            match (method.heading.yields.is_some(), foreach) {
                (true, false) => Err(bad(format!(
                    "`{name}` is an iterator: write `foreach $x in ... do`, or `list` before it"
                ))),
                (false, true) => Err(bad(format!("`{name}` is not an iterator"))),
                _ => Ok(()),
            }
        };
        if foreach {
            // Whatever the call needs is recorded by now; it must be the next command.
            encode::plain(out, op::FOREACH);
        }
        let start = if foreach { out.len() - 8 } else { out.len() };
        let found = self.encode_call(column, receiver.as_ref(), name, &args, &check, out);
        let types = found.inspect_err(|_| out.truncate(start))?;
        if how == op::SEND {
            // The same but for its code, and nothing comes of it.
            out[start] = op::SEND;
            self.future(self.kind(Kind::Null), name);
            return Ok(Vec::new());
        }
        Ok(types.into_iter().map(|ty| self.future(ty, name)).collect())
    }

    /// Returns the types of a call's parameters, as far as they are known.
    fn wanted(&self, receiver: Option<&Typed>, name: &str) -> Vec<TypeNumber> {
        let heading = match receiver {
            Some(receiver) => {
                let number = receiver.ty.known().and_then(|ty| self.numbering.find_method(ty, name));
                number.and_then(|number| self.numbering.method(number)).map(|(_, method)| method)
            }
            None => {
                if let Some(procedure) = self.procedures.iter().rev().find(|p| p.0 == name) {
                    return procedure.2.clone();
                }
                self.numbering.find_routine(name).and_then(|number| self.numbering.routine(number))
            }
        };
        heading.iter().flat_map(|method| &method.heading.params).map(|param| param.ty).collect()
    }

    /// `send $counter.step(1)`
    fn send(&mut self, message: &Expr, out: &mut Vec<u8>) -> Translated<()> {
        let ExprKind::Call(Some(receiver), name, args) = &message.kind else {
            return Err(LineError::new(
                message.column,
                "write `send` with a method of an actor, as in `send $a.m(1)`",
            ));
        };
        self.call(message.column, Some(receiver), name, args, op::SEND, out).map(|_| ())
    }

    /// `emit $t, $e, $e.name()`
    fn emit(&mut self, cells: &[Expr], out: &mut Vec<u8>) -> Translated<()> {
        let [table, cells @ ..] = cells else {
            return Err(LineError::new(1, "write `emit` with a table and its cells, as in `emit $t, 1`"));
        };
        let table = match self.expression(table, out)?.known {
            Known::Ref(reference) if reference.position().is_some() => reference,
            _ => return Err(LineError::new(table.column, "a table of this batch was expected")),
        };
        let cells = cells.iter().map(|cell| self.expression(cell, out)).collect::<Translated<Vec<_>>>()?;
        let cells: Vec<Arg<'_>> = cells.iter().map(|cell| cell.known.arg()).collect();
        encode::emit(out, table, &cells);
        self.future(self.kind(Kind::Null), "emit");
        Ok(())
    }

    /// Appends the call itself and returns the types of its results.
    fn encode_call(
        &self,
        column: usize,
        receiver: Option<&Typed>,
        name: &str,
        args: &[Arg<'_>],
        check: &dyn Fn(&Method) -> Translated<()>,
        out: &mut Vec<u8>,
    ) -> Translated<Vec<TypeNumber>> {
        let bad = |text: String| LineError::new(column, text);
        let numbering = &self.numbering;
        let results = |method: &Method| match method.heading.futures() {
            [] => vec![self.kind(Kind::Null)],
            types => types.to_vec(),
        };
        if let Some(receiver) = receiver {
            let Some(ty) = receiver.ty.known() else {
                return Err(bad("the type of the receiver is unknown before a `flush`".to_owned()));
            };
            let number = numbering.find_method(ty, name).ok_or_else(|| {
                let ty = numbering.interface().type_name(ty);
                bad(format!("{ty} has no method `{name}`; try `describe {ty}`"))
            })?;
            let (_, method) = numbering.method(number).ok_or_else(|| bad(format!("no method `{name}`")))?;
            check(method)?;
            let reference = match receiver.known {
                Known::Ref(r) => r,
                _ => Ref::NONE,
            };
            encode::call(out, number, reference, args);
            return Ok(results(method));
        }
        if let Some((_, number, _, result)) = self.procedures.iter().rev().find(|p| p.0 == name) {
            encode::call_procedure(out, ProcedureNumber(*number), args);
            return Ok(vec![result.known().unwrap_or(self.kind(Kind::Null))]);
        }
        let number = numbering.find_routine(name);
        let number = number.ok_or_else(|| bad(format!("there is no routine or procedure `{name}`")))?;
        let routine = numbering.routine(number).ok_or_else(|| bad(format!("no routine `{name}`")))?;
        check(routine)?;
        encode::call_routine(out, number, args);
        Ok(results(routine))
    }

    fn flush(&mut self, exprs: &[Expr], out: &mut Vec<u8>) -> Translated<Due> {
        if !self.open.is_empty() {
            return Err(LineError::new(1, "a structure is open: `end` it first"));
        }
        let mut asked = Asked::default();
        for expr in exprs {
            // A compound that is made here may have results of this batch.
            let made = matches!(expr.kind, ExprKind::Items(..));
            for typed in self.results(expr, TypeNumber::NONE, out, made)? {
                let label = match (&expr.kind, &typed.known) {
                    (ExprKind::Variable(name), _) => format!("${name}"),
                    (_, Known::Ref(r)) if r.position().is_some() => format!("@{}", r.position().unwrap_or(0)),
                    (_, Known::Ref(r)) => format!("h{}", r.0),
                    _ => "value".to_owned(),
                };
                asked.shown.push((label, typed));
            }
        }
        if exprs.is_empty() {
            asked.shown = self.bindings.iter().map(|b| (format!("${}", b.name), b.typed.clone())).collect();
        }
        self.end_batch(asked, out);
        Ok(Due::Reply)
    }

    /// Ends the batch: the values that have names are wanted, and those that were asked for.
    pub(super) fn end_batch(&mut self, mut asked: Asked, out: &mut Vec<u8>) {
        let named = self.bindings.iter().map(|b| &b.typed).chain(asked.shown.iter().map(|s| &s.1));
        let wanted = named.filter_map(|t| match t.known {
            Known::Ref(r) => r.position(),
            _ => None,
        });
        asked.wanted = wanted.chain(asked.listing.iter().flat_map(Listing::positions)).collect();
        asked.wanted.sort_unstable();
        asked.wanted.dedup();
        if !self.frees.is_empty() {
            encode::free(out, &std::mem::take(&mut self.frees), 0);
        }
        encode::flush(out, asked.wanted.iter().copied(), false);
        self.explained.end();
        self.stage = Stage::Flush(asked);
    }

    fn free(&mut self, names: &[String]) -> Translated<()> {
        for name in names {
            let found = self.bindings.iter().rposition(|b| b.name == *name);
            let index =
                found.ok_or_else(|| LineError::new(1, format!("no result has the name `${name}`")))?;
            let old = self.bindings.remove(index);
            for (_, count) in &mut self.open {
                *count -= usize::from(*count > index);
            }
            self.unname(&old.typed);
        }
        Ok(())
    }

    /// Ends a condition.
    fn test(
        &mut self,
        test: &Expr,
        from: Open,
        to: Open,
        mark: fn(&mut Vec<u8>, Ref),
        out: &mut Vec<u8>,
    ) -> Translated<()> {
        if self.open.last().map(|o| o.0) != Some(from) {
            return Err(LineError::new(1, "no condition is open here"));
        }
        let typed = self.expression(test, out)?;
        let reference = self.reference(typed, out);
        mark(out, reference);
        if let Some(open) = self.open.last_mut() {
            open.0 = to;
        }
        Ok(())
    }

    /// Begins another block of the innermost structure; names of the last one end.
    fn next_block(&mut self, from: &[Open], to: Open, bad: &str) -> Translated<()> {
        match self.open.last_mut() {
            Some((open, count)) if from.contains(open) => {
                *open = to;
                let count = *count;
                self.truncate_bindings(count);
                Ok(())
            }
            _ => Err(LineError::new(1, bad)),
        }
    }

    fn foreach(&mut self, names: &[String], iterator: &Expr, out: &mut Vec<u8>) -> Translated<()> {
        let ExprKind::Call(receiver, name, args) = &iterator.kind else {
            return Err(LineError::new(iterator.column, "the call of an iterator was expected"));
        };
        let start = self.futures.len();
        let values = self.call(iterator.column, receiver.as_deref(), name, args, op::FOREACH, out)?;
        self.open.push((Open::Foreach, self.bindings.len()));
        debug_assert!(self.futures.len() >= start + values.len());
        for (name, typed) in names.iter().zip(values) {
            self.bind(name, typed);
        }
        Ok(())
    }

    fn procedure(
        &mut self,
        name: String,
        params: &[(String, String)],
        result: Option<String>,
        out: &mut Vec<u8>,
    ) -> Translated<()> {
        if !self.open.is_empty() {
            return Err(LineError::new(1, "a procedure cannot be defined inside a structure"));
        }
        let types = self.types(params)?;
        let result = result.map(|t| self.ty(&t)).transpose()?;
        encode::procedure(out, &name, types.iter().copied(), result);
        let result = result.unwrap_or(TypeNumber::NONE);
        self.procedures.push((name, self.procedure_count, types.clone(), result));
        self.procedure_count += 1;
        self.open.push((Open::Procedure, self.bindings.len()));
        self.variables(params, &types);
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Translated<()> {
        let Some((open, count)) = self.open.pop() else {
            return Err(LineError::new(1, "no structure is open"));
        };
        let code = match open {
            Open::While | Open::If => {
                self.open.push((open, count));
                let word = if open == Open::While { "do" } else { "then" };
                return Err(LineError::new(1, format!("the condition must be ended first: `{word} $test`")));
            }
            Open::Do => op::END_WHILE,
            Open::Then | Open::Else => op::END_IF,
            Open::Foreach => op::END_FOREACH,
            Open::Except => op::END_EXCEPT,
            Open::Procedure => op::END_PROCEDURE,
        };
        encode::plain(out, code);
        self.truncate_bindings(count);
        Ok(())
    }
}
