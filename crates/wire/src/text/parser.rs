//! Lines as trees. See the grammar in `docs/spec/wire.md`.
//!
//! Read [`parse`] and [`Line`] first. A [`Parser`] has the tokens of one line and no other state.
//! It does not know which names are defined; a function of its caller tells it which ones are
//! routines.

use super::lexer::{Token, tokens};
use super::look::LISTED_MAX;
use super::translate::LineError;
use crate::trace::{self, TraceContext};
use crate::{BatchName, COMPOUND_DEPTH_MAX};

/// A line.
#[derive(Clone, PartialEq, Debug)]
pub enum Line {
    /// Nothing, or a comment.
    Empty,
    /// `$a, $b := expression`, or the expression alone.
    Let(Vec<Target>, Expr),
    /// `? a, b` or `flush a, b`
    Flush(Vec<Expr>),
    /// `list 10 $db.users()`
    List(Option<i64>, Expr),
    /// `free $a, $b`
    Free(Vec<String>),
    /// `while`, or `while expression do`
    While(Option<Expr>),
    /// `do expression`
    Do(Expr),
    /// `if`, or `if expression then`
    If(Option<Expr>),
    /// `then expression`
    Then(Expr),
    /// `else`
    Else,
    /// `foreach $a, $b in call do`
    Foreach(Vec<String>, Expr),
    /// `send call`
    Send(Expr),
    /// `emit $t, $x, 1`
    Emit(Vec<Expr>),
    /// `break`
    Break,
    /// `continue`
    Continue,
    /// `except`
    Except,
    /// `when exists($who: string)`: the values, each with its type.
    When(String, Vec<(String, String)>),
    /// `others $name`
    Others(Option<String>),
    /// `procedure p($x: int) returns int`: the parameters, each with its type.
    Procedure(String, Vec<(String, String)>, Option<String>),
    /// `return expression`
    Return(Option<Expr>),
    /// `end`
    End,
    /// `hello 2`
    Hello {
        /// The version.
        version: u32,
        /// True if answers are to be JSON.
        json: bool,
        /// The token.
        token: String,
        /// The client's name.
        client: String,
        /// The client's place in a trace.
        trace: Option<TraceContext>,
    },
    /// `describe type`
    Describe(Option<String>),
    /// `history`
    History,
    /// `clear`
    Clear,
    /// `limits`
    Limits,
    /// `explain`
    Explain,
    /// `profile on`, or `profile off`
    Profile(bool),
    /// `help`
    Help,
    /// `bye`
    Bye,
}

/// The target of a result.
#[derive(Clone, PartialEq, Debug)]
pub enum Target {
    /// A name, without its `$`.
    Variable(String),
    /// A position, to be checked.
    Future(u32),
}

/// Something that makes a future or a value.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// Its column in the line, from 1.
    pub column: usize,
    /// The form of it.
    pub kind: ExprKind,
}

/// The forms of expressions.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// A name, without its `$`.
    Variable(String),
    /// `@3`
    Future(u32),
    /// `h5`
    Handle(i64),
    /// `nil`
    Nil,
    /// `true`, `false`
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Real(f64),
    /// A character.
    Char(char),
    /// A text.
    Str(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// `lookup name: type`
    Lookup(String, Option<String>),
    /// `cell type`
    Cell(String),
    /// `rows DataElem, string`
    Rows(Vec<String>),
    /// `$x as point`
    As(Box<Expr>, String),
    /// `$x is point`
    Is(Box<Expr>, String),
    /// `get $x`
    Get(Box<Expr>),
    /// `{1, 2}`, `{x: 1}`, and `value point {x: 1}` with the type.
    Items(Option<String>, Vec<(Option<String>, Expr)>),
    /// `transaction 3`: the runs, and the name of the batch.
    Transaction(u16, Option<BatchName>),
    /// `commit`
    Commit,
    /// `abort`
    Abort,
    /// `wait 1000`
    Wait(u32),
    /// A call: its receiver, if it is one of a method; the name; the arguments.
    Call(Option<Box<Expr>>, String, Vec<Expr>),
}

/// The deepest nesting of parentheses and braces, and longest chain of calls, in a line.
const NESTING_MAX: usize = COMPOUND_DEPTH_MAX;

/// Reads a line; `is_routine` tells if a name is that of a routine, where that makes a difference.
///
/// # Errors
/// The line is not one of the grammar.
pub fn parse(line: &str, is_routine: &dyn Fn(&str) -> bool) -> Result<Line, LineError> {
    let tokens = tokens(line)?;
    let mut parser = Parser { tokens: &tokens, at: 0, end: line.chars().count() + 1, depth: 0, is_routine };
    if tokens.is_empty() {
        return Ok(Line::Empty);
    }
    let parsed = parser.line()?;
    match parser.peek() {
        None => Ok(parsed),
        Some(_) => Err(parser.bad("the end of the line was expected")),
    }
}

struct Parser<'t> {
    tokens: &'t [(usize, Token)],
    at: usize,
    end: usize,
    depth: usize,
    is_routine: &'t dyn Fn(&str) -> bool,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|t| &t.1)
    }

    fn column(&self) -> usize {
        self.tokens.get(self.at).map_or(self.end, |t| t.0)
    }

    fn bad(&self, what: impl Into<String>) -> LineError {
        LineError::new(self.column(), what)
    }

    fn take(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    fn take_mark(&mut self, mark: char) -> bool {
        self.take(&Token::Mark(mark))
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Name(n)) if n == word);
        self.at += usize::from(found);
        found
    }

    fn expect_mark(&mut self, mark: char) -> Result<(), LineError> {
        if self.take_mark(mark) { Ok(()) } else { Err(self.bad(format!("`{mark}` was expected"))) }
    }

    fn expect_word(&mut self, word: &str) -> Result<(), LineError> {
        if self.take_word(word) { Ok(()) } else { Err(self.bad(format!("`{word}` was expected"))) }
    }

    fn name(&mut self, what: &str) -> Result<String, LineError> {
        match self.peek() {
            Some(Token::Name(name)) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.bad(format!("{what} was expected"))),
        }
    }

    fn variable(&mut self) -> Result<String, LineError> {
        match self.peek() {
            Some(Token::Variable(name)) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.bad("a name like `$e` was expected")),
        }
    }

    fn ty(&mut self) -> Result<String, LineError> {
        self.ty_within(0)
    }

    /// Returns the token that stands so many tokens ahead.
    fn ahead(&self, count: usize) -> Option<&Token> {
        self.tokens.get(self.at + count).map(|t| &t.1)
    }

    /// Takes the rest of a name that goes on with the path of a file. It goes up to the last part
    /// or, with `before_call`, to the last but one if the last is a method that is called.
    fn path(&mut self, name: &mut String, before_call: bool) {
        while let (Some(Token::Mark('.')), Some(Token::Name(part))) = (self.ahead(0), self.ahead(1)) {
            if before_call && self.ahead(2) == Some(&Token::Mark('(')) {
                return;
            }
            name.push('.');
            name.push_str(part);
            self.at += 2;
        }
    }

    /// Reads the arguments of a routine whose name begins with the word `first`, which was read;
    /// `None` if it does not begin one.
    fn routine(&mut self, first: &str) -> Result<Option<ExprKind>, LineError> {
        let start = self.at;
        let mut name = first.to_owned();
        self.path(&mut name, false);
        // A word for a value may have a method called.
        let value = matches!(first, "nil" | "true" | "false") || handle(first).is_some();
        let called = self.peek() == Some(&Token::Mark('('));
        if !called || value && self.at == start + 2 && !(self.is_routine)(&name) {
            self.at = start;
            return Ok(None);
        }
        Ok(Some(ExprKind::Call(None, name, self.arguments()?)))
    }

    /// `pair[int, array[string]]`
    fn ty_within(&mut self, depth: usize) -> Result<String, LineError> {
        if depth > NESTING_MAX {
            return Err(self.bad(format!("types are nested deeper than {NESTING_MAX} levels")));
        }
        let mut name = self.name("a type")?;
        // `struct[x: int]`
        if depth > 0 && self.take_mark(':') {
            return Ok(format!("{name}: {}", self.ty_within(depth + 1)?));
        }
        self.path(&mut name, true);
        if self.take_mark('[') {
            name.push('[');
            name += &self.ty_within(depth + 1)?;
            while self.take_mark(',') {
                name += ", ";
                name += &self.ty_within(depth + 1)?;
            }
            self.expect_mark(']')?;
            name.push(']');
        }
        Ok(name)
    }

    /// `$p: point, $n: int`
    fn typed(&mut self) -> Result<Vec<(String, String)>, LineError> {
        let mut list = Vec::new();
        if !self.take_mark('(') || self.take_mark(')') {
            return Ok(list);
        }
        loop {
            let name = self.variable()?;
            self.expect_mark(':')?;
            list.push((name, self.ty()?));
            if self.take_mark(')') {
                return Ok(list);
            }
            self.expect_mark(',')?;
        }
    }

    fn line(&mut self) -> Result<Line, LineError> {
        if self.take_mark('?') {
            return Ok(Line::Flush(self.expressions()?));
        }
        let Some(Token::Name(word)) = self.peek() else { return self.assignment() };
        // A word before `(` is a routine, whatever it is called, and so is one before a dot.
        if matches!(self.ahead(1), Some(Token::Mark('(' | '.'))) && word != "when" {
            return self.assignment();
        }
        let word = word.clone();
        self.at += 1;
        Ok(match word.as_str() {
            "flush" => Line::Flush(self.expressions()?),
            "list" => {
                let limit = match self.peek() {
                    Some(Token::Int(limit)) if self.ahead(1) != Some(&Token::Mark('.')) => Some(*limit),
                    _ => None,
                };
                self.at += usize::from(limit.is_some());
                Line::List(limit, self.expression()?)
            }
            "free" => {
                let mut names = vec![self.variable()?];
                while self.take_mark(',') {
                    names.push(self.variable()?);
                }
                Line::Free(names)
            }
            "while" => Line::While(self.condition("do")?),
            "do" => Line::Do(self.expression()?),
            "if" => Line::If(self.condition("then")?),
            "then" => Line::Then(self.expression()?),
            "else" => Line::Else,
            "foreach" => {
                let mut names = vec![self.variable()?];
                while self.take_mark(',') {
                    names.push(self.variable()?);
                }
                self.expect_word("in")?;
                let iterator = self.expression()?;
                self.expect_word("do")?;
                Line::Foreach(names, iterator)
            }
            "send" => Line::Send(self.expression()?),
            "emit" => Line::Emit(self.expressions()?),
            "break" => Line::Break,
            "continue" => Line::Continue,
            "except" => Line::Except,
            "when" => Line::When(self.name("the name of an exception")?, self.typed()?),
            "others" => Line::Others(if self.peek().is_some() { Some(self.variable()?) } else { None }),
            "procedure" => {
                let name = self.name("a name")?;
                let params = self.typed()?;
                let result = if self.take_word("returns") { Some(self.ty()?) } else { None };
                Line::Procedure(name, params, result)
            }
            "return" => Line::Return(if self.peek().is_some() { Some(self.expression()?) } else { None }),
            "end" => Line::End,
            "hello" => self.hello()?,
            "describe" => Line::Describe(if self.peek().is_some() { Some(self.ty()?) } else { None }),
            "history" => Line::History,
            "clear" => Line::Clear,
            // A routine may have this name: its call has arguments.
            "limits" if self.peek().is_none() => Line::Limits,
            "explain" if self.peek().is_none() => Line::Explain,
            "profile" => {
                let on = self.take_word("on");
                if !on && !self.take_word("off") {
                    return Err(self.bad("`on` or `off` was expected"));
                }
                Line::Profile(on)
            }
            "names" if self.peek().is_none() => Line::List(Some(LISTED_MAX), self.names_of_root()),
            "help" => Line::Help,
            "bye" => Line::Bye,
            _ => {
                self.at -= 1;
                return self.assignment();
            }
        })
    }

    /// `root().list()`, which `names` stands for.
    fn names_of_root(&self) -> Expr {
        let call = |receiver: Option<Expr>, name: &str| Expr {
            column: 1,
            kind: ExprKind::Call(receiver.map(Box::new), name.to_owned(), Vec::new()),
        };
        call(Some(call(None, "root")), "list")
    }

    fn hello(&mut self) -> Result<Line, LineError> {
        let version = match self.peek() {
            Some(Token::Int(v)) => u32::try_from(*v).ok(),
            _ => None,
        };
        let version = version.ok_or_else(|| self.bad("a version was expected, as in `hello 2`"))?;
        self.at += 1;
        let json = self.take_word("json");
        let (mut token, mut client, mut trace) = (String::new(), String::new(), None);
        while let Some(Token::Name(word)) = self.peek() {
            let word = word.clone();
            if !matches!(word.as_str(), "token" | "name" | "trace") {
                return Err(self.bad("`token`, `name` or `trace` was expected, or `json` before them"));
            }
            self.at += 1;
            let text = match self.tokens.get(self.at).map(|t| &t.1) {
                Some(Token::Str(s) | Token::Name(s)) => s.clone(),
                _ => return Err(self.bad("a text was expected")),
            };
            match word.as_str() {
                "token" => token = text,
                "name" => client = text,
                _ => match TraceContext::parse(&text) {
                    None => return Err(self.bad(format!("expected {}", trace::FORM))),
                    context => trace = context,
                },
            }
            self.at += 1;
        }
        Ok(Line::Hello { version, json, token, client, trace })
    }

    /// `expression then`, or nothing.
    fn condition(&mut self, word: &str) -> Result<Option<Expr>, LineError> {
        if self.peek().is_none() {
            return Ok(None);
        }
        let condition = self.expression()?;
        self.expect_word(word)?;
        Ok(Some(condition))
    }

    fn assignment(&mut self) -> Result<Line, LineError> {
        let assigns = self.tokens.iter().any(|t| t.1 == Token::Assign);
        let mut targets = Vec::new();
        if !assigns {
            return Ok(Line::Let(targets, self.expression()?));
        }
        loop {
            targets.push(match self.peek() {
                Some(Token::Future(position)) => {
                    let position = *position;
                    self.at += 1;
                    Target::Future(position)
                }
                _ => Target::Variable(self.variable()?),
            });
            if self.take(&Token::Assign) {
                break;
            }
            self.expect_mark(',')?;
        }
        Ok(Line::Let(targets, self.expression()?))
    }

    fn expressions(&mut self) -> Result<Vec<Expr>, LineError> {
        let mut list = Vec::new();
        if self.peek().is_none() {
            return Ok(list);
        }
        loop {
            list.push(self.expression()?);
            if !self.take_mark(',') {
                return Ok(list);
            }
        }
    }

    fn expression(&mut self) -> Result<Expr, LineError> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(self.bad("the line is nested too deeply"));
        }
        let mut expr = self.primary()?;
        let mut chain = 0;
        loop {
            let mut column = self.column();
            let kind = if self.take_mark('.') {
                column = self.column();
                let name = self.name("the name of a method")?;
                ExprKind::Call(Some(Box::new(expr)), name, self.arguments()?)
            } else if self.take_word("as") {
                ExprKind::As(Box::new(expr), self.ty()?)
            } else if self.take_word("is") {
                ExprKind::Is(Box::new(expr), self.ty()?)
            } else {
                break;
            };
            chain += 1;
            if chain > NESTING_MAX {
                return Err(self.bad("the chain of calls is too long"));
            }
            expr = Expr { column, kind };
        }
        self.depth -= 1;
        Ok(expr)
    }

    fn arguments(&mut self) -> Result<Vec<Expr>, LineError> {
        self.expect_mark('(')?;
        let mut args = Vec::new();
        if self.take_mark(')') {
            return Ok(args);
        }
        loop {
            args.push(self.expression()?);
            if self.take_mark(')') {
                return Ok(args);
            }
            self.expect_mark(',')?;
        }
    }

    /// Reads the items of a compound up to its end: `1, 2}` or `x: 1, y: 2}`.
    fn items(&mut self) -> Result<Vec<(Option<String>, Expr)>, LineError> {
        let mut items = Vec::new();
        if self.take_mark('}') {
            return Ok(items);
        }
        loop {
            let label = match (self.ahead(0), self.ahead(1)) {
                (Some(Token::Name(label)), Some(Token::Mark(':'))) => Some(label.clone()),
                _ => None,
            };
            if label.is_some() {
                self.at += 2;
            }
            items.push((label, self.expression()?));
            if self.take_mark('}') {
                return Ok(items);
            }
            self.expect_mark(',')?;
        }
    }

    /// Reads `transaction`, the greatest number of tries, and the name of the batch.
    fn transaction(&mut self) -> Result<ExprKind, LineError> {
        let tries = match self.peek() {
            Some(Token::Int(tries)) => {
                let tries = u16::try_from(*tries).ok().filter(|tries| *tries > 0);
                let tries =
                    tries.ok_or_else(|| self.bad("a number of tries from 1 to 65535 was expected"))?;
                self.at += 1;
                tries
            }
            _ => 0,
        };
        if !self.take_word("batch") {
            return Ok(ExprKind::Transaction(tries, None));
        }
        let client = match self.peek() {
            Some(Token::Str(hex)) if hex.len() == 32 => u128::from_str_radix(hex, 16).ok(),
            _ => None,
        };
        let client = client.ok_or_else(|| self.bad("32 hexadecimal digits were expected"))?;
        self.at += 1;
        let number = match self.peek() {
            Some(Token::Int(number)) => u64::try_from(*number).ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| self.bad("the number of the batch was expected"))?;
        self.at += 1;
        Ok(ExprKind::Transaction(tries, Some(BatchName { client, number })))
    }

    /// Reads the time of a `wait`.
    fn milliseconds(&mut self) -> Result<u32, LineError> {
        let ms = match self.peek() {
            Some(Token::Int(ms)) => u32::try_from(*ms).ok(),
            _ => None,
        };
        let ms = ms.ok_or_else(|| self.bad("a number of milliseconds was expected"))?;
        self.at += 1;
        Ok(ms)
    }

    fn primary(&mut self) -> Result<Expr, LineError> {
        let column = self.column();
        let Some(token) = self.peek().cloned() else { return Err(self.bad("an expression was expected")) };
        self.at += 1;
        let kind = match token {
            Token::Variable(name) => ExprKind::Variable(name),
            Token::Future(position) => ExprKind::Future(position),
            Token::Int(i) => ExprKind::Int(i),
            Token::Real(r) => ExprKind::Real(r),
            Token::Str(s) => ExprKind::Str(s),
            Token::Bytes(b) => ExprKind::Bytes(b),
            Token::Char(c) => ExprKind::Char(c),
            Token::Name(name) => match name.as_str() {
                word if matches!(self.peek(), Some(Token::Mark('(' | '.')))
                    && let Some(call) = self.routine(word)? =>
                {
                    call
                }
                "nil" => ExprKind::Nil,
                "true" => ExprKind::Bool(true),
                "false" => ExprKind::Bool(false),
                "lookup" => {
                    let object = match self.peek() {
                        Some(Token::Str(s) | Token::Name(s)) => s.clone(),
                        _ => return Err(self.bad("the name of a well-known object was expected")),
                    };
                    self.at += 1;
                    let ty = if self.take_mark(':') { Some(self.ty()?) } else { None };
                    ExprKind::Lookup(object, ty)
                }
                "cell" => ExprKind::Cell(self.ty()?),
                "rows" => {
                    let mut columns = vec![self.ty()?];
                    while self.take_mark(',') {
                        columns.push(self.ty()?);
                    }
                    ExprKind::Rows(columns)
                }
                "transaction" => self.transaction()?,
                "commit" => ExprKind::Commit,
                "abort" => ExprKind::Abort,
                "wait" => ExprKind::Wait(self.milliseconds()?),
                "constant" => return self.primary(),
                "get" => ExprKind::Get(Box::new(self.expression()?)),
                "value" => {
                    let ty = self.ty()?;
                    self.expect_mark('{')?;
                    ExprKind::Items(Some(ty), self.items()?)
                }
                word => match handle(word) {
                    Some(handle) => ExprKind::Handle(handle),
                    None => {
                        return Err(LineError::new(
                            column,
                            format!("`{word}` is not a command or value; try `help`"),
                        ));
                    }
                },
            },
            Token::Mark('{') => ExprKind::Items(None, self.items()?),
            Token::Assign | Token::Mark(_) => {
                return Err(LineError::new(column, "an expression was expected"));
            }
        };
        Ok(Expr { column, kind })
    }
}

/// Returns the number of a handle: 5 for `h5`.
fn handle(word: &str) -> Option<i64> {
    word.strip_prefix('h').and_then(|n| n.parse().ok()).filter(|n| *n > 0)
}
