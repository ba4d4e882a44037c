//! Lines of the text form to steps of a script.
//!
//! Names and types are checked against the interface of the client. A result without a name is
//! dropped behind its line, the names of a block at its end, as a language with scopes does it.

use std::collections::BTreeMap;

use bifrost_wire::interface::{Kind, Method, Numbering, Shape};
use bifrost_wire::text::tree::{Expr, ExprKind, Line, Target, parse};
use bifrost_wire::{TypeNumber, Value, json as wire_json};
use serde_json::{Value as Json, json};

use crate::expect::Check;
use crate::file::Case;

/// A step of a case.
#[derive(Debug)]
pub(crate) enum Action {
    /// A step of the script.
    Step(Json),
    /// A comparison, of the result of a step if there is one.
    Expect { step: Option<Json>, check: Check },
}

impl Action {
    /// Returns the step of the script.
    pub(crate) fn step(&self) -> Option<&Json> {
        match self {
            Action::Step(step) => Some(step),
            Action::Expect { step, .. } => step.as_ref(),
        }
    }
}

/// An open structure.
struct Open {
    kind: &'static str,
    /// The names that are known when its block begins.
    names: Vec<String>,
    /// True while its condition is missing.
    conditional: bool,
    procedure: String,
}

struct Compiler<'n> {
    client: &'n Numbering,
    names: BTreeMap<String, Option<TypeNumber>>,
    procedures: BTreeMap<String, (Vec<TypeNumber>, Option<TypeNumber>)>,
    open: Vec<Open>,
    actions: Vec<Action>,
    /// Names of results that are dropped behind the line.
    temporary: Vec<String>,
    numbers: usize,
}

type Compiled<T> = Result<T, String>;

impl Case {
    /// Makes the steps of its script, with the expectations in between.
    pub(crate) fn compile(&self, client: &Numbering) -> Result<Vec<Action>, String> {
        let mut compiler = Compiler {
            client,
            names: BTreeMap::new(),
            procedures: BTreeMap::new(),
            open: Vec::new(),
            actions: Vec::new(),
            temporary: Vec::new(),
            numbers: 0,
        };
        for step in &self.steps {
            for (key, value) in in_order(step)? {
                compiler.part(key, value)?;
            }
        }
        Ok(compiler.actions)
    }
}

/// The keys of a step, in the order in which they count.
const KEYS: [&str; 11] =
    ["run", "keep", "drop", "flush", "claim", "fails", "rows", "objects", "counters", "history", "closed"];

fn in_order(step: &serde_json::Map<String, Json>) -> Compiled<Vec<(&'static str, &Json)>> {
    if let Some(unknown) = step.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("there are no steps `{unknown}`"));
    }
    Ok(KEYS.iter().filter_map(|key| Some((*key, step.get(*key)?))).collect())
}

fn names(value: &Json) -> Vec<String> {
    match value {
        Json::Array(all) => all.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        one => one.as_str().map(str::to_owned).into_iter().collect(),
    }
}

impl Compiler<'_> {
    fn step(&mut self, step: Json) {
        self.actions.push(Action::Step(step));
    }

    fn expect(&mut self, step: Option<Json>, check: Check) {
        self.actions.push(Action::Expect { step, check });
    }

    fn part(&mut self, key: &str, value: &Json) -> Compiled<()> {
        match key {
            "run" => {
                let text = value.as_str().ok_or("`run` has a text")?;
                for line in text.lines() {
                    self.line(line).map_err(|why| format!("`{}`: {why}", line.trim()))?;
                }
            }
            "keep" => {
                let kept = names(value);
                let dropped: Vec<String> =
                    self.names.keys().filter(|name| !kept.contains(name)).cloned().collect();
                self.forget(dropped);
            }
            "drop" => self.forget(names(value)),
            "flush" => {
                let step = Some(json!({"flush": true}));
                self.expect(step, Check::Flush(value.clone()));
            }
            "closed" => self.expect(None, Check::Closed(value.as_bool().ok_or("`closed` is a bool")?)),
            "counters" => self.expect(None, Check::Counters(value.clone())),
            "history" => self.expect(Some(json!({"exceptions": true})), Check::History(value.clone())),
            _ => {
                if let Json::Array(all) = value {
                    for name in all.iter().filter_map(Json::as_str) {
                        self.known(name)?;
                        self.expect(None, Check::Object(name.to_owned()));
                    }
                    return Ok(());
                }
                let named = value.as_object().ok_or_else(|| format!("`{key}` has names"))?;
                // In the order of the names, whichever order the map has.
                let named: BTreeMap<&String, &Json> = named.iter().collect();
                for (name, expected) in named {
                    self.known(name)?;
                    let (claim, read) = (json!({"claim": name}), json!({"read_rows": name}));
                    match key {
                        "claim" => self.expect(Some(claim), Check::Value(expected.clone())),
                        "fails" => self.expect(Some(claim), Check::Fails(expected.clone())),
                        _ => self.expect(Some(read), Check::Rows(expected.clone())),
                    }
                }
            }
        }
        Ok(())
    }

    fn forget(&mut self, names: Vec<String>) {
        self.names.retain(|name, _| !names.contains(name));
        if !names.is_empty() {
            self.step(json!({"drop": names}));
        }
    }

    fn known(&self, name: &str) -> Compiled<Option<TypeNumber>> {
        self.names.get(name).copied().ok_or_else(|| format!("there is no {name}"))
    }

    fn fresh(&mut self) -> String {
        self.numbers += 1;
        let name = format!("$_{}", self.numbers);
        self.temporary.push(name.clone());
        name
    }

    fn drop_temporary(&mut self) {
        let names = std::mem::take(&mut self.temporary);
        if !names.is_empty() {
            self.step(json!({"drop": names}));
        }
    }

    fn line(&mut self, line: &str) -> Compiled<()> {
        let line = line.trim();
        if let Some(directive) = line.strip_prefix('!') {
            return self.directive(directive.trim());
        }
        let is_routine = |name: &str| self.client.find_routine(name).is_some();
        let parsed = parse(line, &is_routine).map_err(|why| why.to_string())?;
        self.parsed(parsed)?;
        self.drop_temporary();
        Ok(())
    }

    /// A line that only clients have.
    fn directive(&mut self, directive: &str) -> Compiled<()> {
        if directive.starts_with('{') {
            let step: Json = serde_json::from_str(directive).map_err(|why| why.to_string())?;
            for name in step.get("as").map(names).unwrap_or_default() {
                self.names.insert(name, None);
            }
            self.step(step);
            return Ok(());
        }
        let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
        match word {
            // A line that the client refuses.
            "misuse" => {
                let (name, line) = rest.split_once(':').ok_or("`!misuse NAME: line`")?;
                self.line(line)?;
                self.expect(None, Check::Named("misuse", name.trim().to_owned()));
            }
            // A method or routine that the server lacks.
            "missing" => {
                let (name, line) = rest.split_once(':').ok_or("`!missing NAME: line`")?;
                self.line(line)?;
                self.expect(None, Check::Named("name", name.trim().to_owned()));
            }
            "begin_flush" => {
                self.step(json!({"begin_flush": if rest == "kept" { json!("kept") } else { json!(true) }}))
            }
            "finish_flush" => self.step(json!({"finish_flush": true})),
            "end_transaction" => {
                self.known(rest)?;
                self.expect(Some(json!({"end_transaction": rest})), Check::Flush(json!("ok")));
            }
            // Its outcome is a failure, which a claim of its name tells.
            "failed_transaction" => {
                self.known(rest)?;
                self.step(json!({"end_transaction": rest}));
            }
            "abandon" => {
                let open = self.open.pop().ok_or("no structure is open")?;
                self.leave(&open.names);
                self.step(json!({"abandon": true}));
            }
            "repeat" => {
                let (count, line) = rest.split_once(':').ok_or("`!repeat N: line`")?;
                let count: usize = count.trim().parse().map_err(|_| "`!repeat N: line`")?;
                (0..count).try_for_each(|_| self.line(line))?;
            }
            "lose" => self.step(json!({"lose": true})),
            "leave" => self.step(json!({"leave": true})),
            _ => return Err(format!("there is no directive `!{word}`")),
        }
        Ok(())
    }

    fn parsed(&mut self, line: Line) -> Compiled<()> {
        match line {
            Line::Empty => {}
            Line::Let(targets, expression) => {
                let targets: Compiled<Vec<String>> = targets
                    .into_iter()
                    .map(|target| match target {
                        Target::Variable(name) => Ok(format!("${name}")),
                        Target::Future(_) => Err("positions are no targets here".to_owned()),
                    })
                    .collect();
                self.results(targets?, expression)?;
            }
            Line::Flush(all) if all.is_empty() => {
                self.expect(Some(json!({"flush": true})), Check::Flush(json!("ok")))
            }
            Line::Free(names) => self.forget(names.into_iter().map(|name| format!("${name}")).collect()),
            Line::While(test) => self.conditional("while", test)?,
            Line::If(test) => self.conditional("if", test)?,
            Line::Do(test) | Line::Then(test) => self.condition(test)?,
            Line::Else => self.next_block("if", json!({"reopen": "else"}))?,
            Line::Foreach(names, call) => self.foreach(names, call)?,
            Line::Send(call) => {
                let (mut step, _) = self.call(call)?;
                let object = step.as_object_mut().ok_or("a call of a method")?;
                let method = object.remove("call").ok_or("a call of a method")?;
                object.insert("send".to_owned(), method);
                self.step(step);
            }
            Line::Emit(all) => {
                let mut all = all.into_iter();
                let table = all.next().ok_or("a table")?;
                let (table, _) = self.stub(table)?;
                let args: Compiled<Vec<Json>> = all.map(|cell| self.operand(cell, None)).collect();
                self.step(json!({"emit": table, "args": args?}));
            }
            Line::Break => self.step(json!({"jump": "break"})),
            Line::Continue => self.step(json!({"jump": "continue"})),
            Line::Except => {
                self.step(json!({"open": "except"}));
                self.enter("except", false);
            }
            Line::When(name, values) => {
                let (names, types) = self.typed(values)?;
                let shown = self.type_names(&types);
                self.next_block(
                    "except",
                    json!({"reopen": "when", "name": name, "types": shown, "as": names}),
                )?;
                self.bind(&names, &types);
            }
            Line::Others(name) => {
                let name = name.map(|name| format!("${name}"));
                let step = match &name {
                    Some(name) => json!({"reopen": "others", "as": name}),
                    None => json!({"reopen": "others"}),
                };
                self.next_block("except", step)?;
                if let Some(name) = name {
                    let string = self.client.find_type("string").unwrap_or_default();
                    self.bind(&[name], &[string]);
                }
            }
            Line::Procedure(name, params, result) => self.procedure(name, params, result)?,
            Line::Return(value) => {
                let value = match value {
                    None => Json::Null,
                    Some(value) => {
                        let result = self.open.iter().rev().find(|open| open.kind == "procedure");
                        let result = result.and_then(|open| self.procedures.get(&open.procedure)?.1);
                        self.operand(value, result)?
                    }
                };
                self.step(json!({"return": value}));
            }
            Line::End => self.end()?,
            Line::History => self.step(json!({"exceptions": true})),
            Line::Clear => self.step(json!({"clear_exceptions": true})),
            other => return Err(format!("{other:?} is no line of a case")),
        }
        Ok(())
    }

    // Structures.

    fn enter(&mut self, kind: &'static str, conditional: bool) {
        let names = self.names.keys().cloned().collect();
        self.open.push(Open { kind, names, conditional, procedure: String::new() });
    }

    fn conditional(&mut self, kind: &'static str, test: Option<Expr>) -> Compiled<()> {
        self.step(json!({"open": kind}));
        self.enter(kind, true);
        match test {
            Some(test) => self.condition(test),
            None => Ok(()),
        }
    }

    fn condition(&mut self, test: Expr) -> Compiled<()> {
        let bool = self.client.find_type("bool");
        let test = self.operand(test, bool)?;
        match self.open.last_mut() {
            Some(open) if open.conditional => open.conditional = false,
            _ => return Err("no condition is missing".into()),
        }
        self.step(json!({"condition": test}));
        Ok(())
    }

    fn foreach(&mut self, names: Vec<String>, call: Expr) -> Compiled<()> {
        let (mut step, types) = self.call(call)?;
        let object = step.as_object_mut().expect("a step");
        let called = object.remove("call").or_else(|| object.remove("routine")).ok_or("an iterator")?;
        let names: Vec<String> = names.into_iter().map(|name| format!("${name}")).collect();
        if names.len() != types.len() {
            return Err(format!("it yields {} values", types.len()));
        }
        object.insert("foreach".to_owned(), called);
        object.insert("as".to_owned(), json!(names));
        self.step(step);
        self.enter("foreach", false);
        self.bind(&names, &types);
        Ok(())
    }

    fn procedure(
        &mut self,
        name: String,
        params: Vec<(String, String)>,
        result: Option<String>,
    ) -> Compiled<()> {
        let (names, types) = self.typed(params)?;
        let result = result.map(|ty| self.ty(&ty)).transpose()?;
        let mut step = json!({"procedure": name, "params": self.type_names(&types), "as": names});
        if let Some(result) = result {
            step["result"] = json!(self.client.interface().type_name(result));
        }
        self.step(step);
        self.enter("procedure", false);
        if let Some(open) = self.open.last_mut() {
            open.procedure.clone_from(&name);
        }
        self.procedures.insert(name, (types.clone(), result));
        self.bind(&names, &types);
        Ok(())
    }

    /// Drops the names of a block.
    fn leave(&mut self, before: &[String]) {
        let inside: Vec<String> = self.names.keys().filter(|name| !before.contains(name)).cloned().collect();
        self.forget(inside);
    }

    fn next_block(&mut self, kind: &'static str, mut step: Json) -> Compiled<()> {
        let open =
            self.open.pop().filter(|open| open.kind == kind).ok_or_else(|| format!("no `{kind}` is open"))?;
        self.leave(&open.names);
        self.numbers += 1;
        let label = format!("L{}", self.numbers);
        self.step(json!({"end": true, "as": label}));
        step["of"] = json!(label);
        self.step(step);
        self.enter(kind, false);
        Ok(())
    }

    fn end(&mut self) -> Compiled<()> {
        let open = self.open.pop().ok_or("no structure is open")?;
        if open.conditional {
            return Err("the condition is missing".into());
        }
        self.leave(&open.names);
        match open.kind {
            "procedure" => self.step(json!({"end_procedure": open.procedure})),
            _ => self.step(json!({"end": true})),
        }
        Ok(())
    }

    // Names and types.

    fn ty(&self, name: &str) -> Compiled<TypeNumber> {
        self.client.find_type(name).ok_or_else(|| format!("there is no type `{name}`"))
    }

    fn type_names(&self, types: &[TypeNumber]) -> Vec<&str> {
        types.iter().map(|ty| self.client.interface().type_name(*ty)).collect()
    }

    fn typed(&self, list: Vec<(String, String)>) -> Compiled<(Vec<String>, Vec<TypeNumber>)> {
        let types: Compiled<Vec<TypeNumber>> = list.iter().map(|(_, ty)| self.ty(ty)).collect();
        Ok((list.into_iter().map(|(name, _)| format!("${name}")).collect(), types?))
    }

    fn bind(&mut self, names: &[String], types: &[TypeNumber]) {
        for (name, ty) in names.iter().zip(types) {
            self.names.insert(name.clone(), Some(*ty));
        }
    }

    // Expressions.

    /// Records an expression, and gives its results these names.
    fn results(&mut self, targets: Vec<String>, expression: Expr) -> Compiled<()> {
        if let ([target], Some(value)) = (targets.as_slice(), literal(&expression.kind)) {
            let kind = value.as_object().and_then(|value| value.keys().next()).cloned().unwrap_or_default();
            let ty = self.client.find_type(if kind == "nil" { "null" } else { &kind });
            self.step(json!({"value": value, "as": target}));
            self.names.insert(target.clone(), ty);
            return Ok(());
        }
        if let ([target], ExprKind::Variable(name)) = (targets.as_slice(), &expression.kind) {
            let name = format!("${name}");
            let ty = self.known(&name)?;
            self.step(json!({"clone": name, "as": target}));
            self.names.insert(target.clone(), ty);
            return Ok(());
        }
        let (mut step, types) = self.call(expression)?;
        if targets.len() > types.len().max(1) {
            return Err(format!("it has {} results", types.len()));
        }
        let mut names = targets.clone();
        // Several results have names, so that each has a stub.
        while types.len() > 1 && names.len() < types.len() {
            names.push(self.fresh());
        }
        match names.as_slice() {
            [] => {}
            [one] => step["as"] = json!(one),
            several => step["as"] = json!(several),
        }
        self.step(step);
        match types.as_slice() {
            [] => self.names.extend(targets.into_iter().map(|name| (name, None))),
            types => self.bind(&targets, types),
        }
        Ok(())
    }

    /// Returns an operand, recording the calls inside. `ty` is the type of its place.
    fn operand(&mut self, expression: Expr, ty: Option<TypeNumber>) -> Compiled<Json> {
        if let Some(value) = literal(&expression.kind) {
            return Ok(value);
        }
        match expression.kind {
            ExprKind::Items(None, items) => self.items(items, ty),
            _ => Ok(json!(self.stub(expression)?.0)),
        }
    }

    /// Returns the items of a compound of a type.
    fn items(&mut self, items: Vec<(Option<String>, Expr)>, ty: Option<TypeNumber>) -> Compiled<Json> {
        let ty = ty.and_then(|ty| self.client.interface().ty(ty)).cloned();
        let (shape, fields) = match &ty {
            Some(ty) => (ty.kind.shape(), ty.fields.clone()),
            None => (None, Vec::new()),
        };
        let mut parts = Vec::new();
        if shape == Some(Shape::Choice) {
            let [(Some(tag), value)] = <[_; 1]>::try_from(items).map_err(|_| "one tag")? else {
                return Err("a tag".into());
            };
            let at = fields.iter().position(|field| field.name == tag).ok_or("a tag of the type")?;
            parts.push(json!({"int": at.to_string()}));
            parts.push(self.operand(value, Some(fields[at].ty))?);
        } else {
            let mut ordered: Vec<Option<Json>> = items.iter().map(|_| None).collect();
            for (index, (name, value)) in items.into_iter().enumerate() {
                let at = match &name {
                    Some(name) => {
                        fields.iter().position(|field| field.name == *name).ok_or("a field of the type")?
                    }
                    None => index,
                };
                let of = fields.get(at).map(|field| field.ty).or_else(|| ty.as_ref()?.element);
                let value = self.operand(value, of)?;
                *ordered.get_mut(at).ok_or("all fields")? = Some(value);
            }
            parts.extend(ordered.into_iter().map(|part| part.unwrap_or(Json::Null)));
        }
        Ok(json!({"items": parts}))
    }

    /// Returns the name of a stub, and its type. A call is recorded; a literal becomes a value.
    fn stub(&mut self, expression: Expr) -> Compiled<(String, Option<TypeNumber>)> {
        if let ExprKind::Variable(name) = &expression.kind {
            let name = format!("${name}");
            let ty = self.known(&name)?;
            return Ok((name, ty));
        }
        let before = self.temporary.len();
        if let Some(value) = literal(&expression.kind) {
            let name = self.fresh();
            let kind = value.as_object().and_then(|value| value.keys().next()).cloned().unwrap_or_default();
            self.step(json!({"value": value, "as": name}));
            return Ok((name, self.client.find_type(&kind)));
        }
        let (mut step, types) = self.call(expression)?;
        let names: Vec<String> = (0..types.len().max(1)).map(|_| self.fresh()).collect();
        step["as"] = if names.len() == 1 { json!(names[0]) } else { json!(names) };
        self.step(step);
        debug_assert!(self.temporary.len() > before, "it is dropped behind the line");
        Ok((names[0].clone(), types.first().copied()))
    }

    /// Returns the step of a call without the names of its results, and their types.
    fn call(&mut self, expression: Expr) -> Compiled<(Json, Vec<TypeNumber>)> {
        let bool = self.client.find_type("bool").unwrap_or_default();
        Ok(match expression.kind {
            ExprKind::Lookup(name, ty) => {
                let ty = self.ty(&ty.ok_or("a `lookup` has a type here")?)?;
                (json!({"lookup": name, "type": self.client.interface().type_name(ty)}), vec![ty])
            }
            ExprKind::Cell(ty) => {
                let element = self.ty(&ty)?;
                let cell =
                    self.client.interface().find_kind(Kind::Cell, Some(element)).ok_or("such a cell")?;
                (json!({"cell": self.client.interface().type_name(element)}), vec![cell])
            }
            ExprKind::Rows(types) => {
                let types: Compiled<Vec<TypeNumber>> = types.iter().map(|ty| self.ty(ty)).collect();
                (json!({"rows": self.type_names(&types?)}), Vec::new())
            }
            ExprKind::As(object, ty) => {
                let ty = self.ty(&ty)?;
                let object = self.stub(*object)?.0;
                (json!({"cast": self.client.interface().type_name(ty), "on": object}), vec![ty])
            }
            ExprKind::Is(object, ty) => {
                let ty = self.ty(&ty)?;
                let object = self.stub(*object)?.0;
                (json!({"test_type": self.client.interface().type_name(ty), "on": object}), vec![bool])
            }
            ExprKind::Get(object) => (json!({"get": self.stub(*object)?.0}), Vec::new()),
            ExprKind::Commit => (json!({"commit": true}), Vec::new()),
            ExprKind::Abort => (json!({"abort": true}), Vec::new()),
            ExprKind::Wait(ms) => (json!({"wait": ms}), vec![bool]),
            ExprKind::Transaction(tries, batch) => {
                let mut settings = json!({"tries": tries});
                if let Some(batch) = batch {
                    settings["batch"] =
                        json!({"client": format!("{:032x}", batch.client), "number": batch.number});
                }
                (json!({"transaction": settings}), Vec::new())
            }
            ExprKind::Call(Some(receiver), name, args) => {
                let (on, ty) = self.stub(*receiver)?;
                let ty = ty.ok_or_else(|| format!("the type of {on} is not known"))?;
                let number = self.client.find_method(ty, &name);
                let (owner, method) =
                    number.and_then(|number| self.client.method(number)).ok_or_else(|| {
                        format!("{} has no method `{name}`", self.client.interface().type_name(ty))
                    })?;
                let (owner, method) = (self.client.interface().type_name(owner).to_owned(), method.clone());
                let args = self.arguments(&method, args)?;
                let called = format!("{owner}.{name}");
                (json!({"call": called, "on": on, "args": args}), method.heading.futures().to_vec())
            }
            ExprKind::Call(None, name, args) => match self.procedures.get(&name).cloned() {
                Some((params, result)) => {
                    if params.len() != args.len() {
                        return Err(format!("`{name}` has {} parameters", params.len()));
                    }
                    let args: Compiled<Vec<Json>> =
                        args.into_iter().zip(params).map(|(arg, ty)| self.operand(arg, Some(ty))).collect();
                    (json!({"call_procedure": name, "args": args?}), result.into_iter().collect())
                }
                None => {
                    let number = self.client.find_routine(&name);
                    let routine = number.and_then(|number| self.client.routine(number)).cloned();
                    let routine = routine.ok_or_else(|| format!("there is no routine `{name}`"))?;
                    let args = self.arguments(&routine, args)?;
                    (json!({"routine": name, "args": args}), routine.heading.futures().to_vec())
                }
            },
            other => return Err(format!("{other:?} is no call")),
        })
    }

    fn arguments(&mut self, method: &Method, args: Vec<Expr>) -> Compiled<Vec<Json>> {
        let params = &method.heading.params;
        if params.len() != args.len() {
            return Err(format!("`{}` has {} parameters", method.name, params.len()));
        }
        args.into_iter().zip(params).map(|(arg, param)| self.operand(arg, Some(param.ty))).collect()
    }
}

/// Returns the value of a literal.
fn literal(kind: &ExprKind) -> Option<Json> {
    let value = match kind {
        ExprKind::Nil => Value::Nil,
        ExprKind::Bool(is) => Value::Bool(*is),
        ExprKind::Int(number) => Value::Int(*number),
        ExprKind::Real(number) => Value::Real(*number),
        ExprKind::Char(c) => Value::Char(*c),
        ExprKind::Str(text) => Value::Str(text),
        ExprKind::Bytes(bytes) => Value::Bytes(bytes),
        _ => return None,
    };
    Some(wire_json::value(&value))
}
