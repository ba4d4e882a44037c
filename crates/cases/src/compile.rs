//! Lines of the text form to steps of a script.
//!
//! Names and types are checked against the interface of the client. A result without a name is
//! dropped behind its line, the names of a block at its end, as a language with scopes does it.

mod expressions;

use std::collections::BTreeMap;

use bifrost_wire::TypeNumber;
use bifrost_wire::interface::Numbering;
use bifrost_wire::text::tree::{Expr, Line, Target, parse};
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
    /// Actions that are repeated: the step of the script, and the actions of its steps.
    Loop { step: Json, actions: Vec<Action> },
}

impl Action {
    /// Returns the step of the script.
    pub(crate) fn step(&self) -> Option<&Json> {
        match self {
            Action::Step(step) | Action::Loop { step, .. } => Some(step),
            Action::Expect { step, .. } => step.as_ref(),
        }
    }

    /// Notes the session of its step.
    fn name_session(&mut self, session: &str) {
        match self {
            Action::Step(step) | Action::Loop { step, .. } | Action::Expect { step: Some(step), .. } => {
                step["session"] = json!(session);
            }
            Action::Expect { step: None, .. } => {}
        }
    }
}

/// The end of names that have the number of their round in a loop.
const NUMBERED: &str = "_n";

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
    /// True in a step that is repeated.
    in_loop: bool,
}

type Compiled<T> = Result<T, String>;

impl Case {
    /// Makes the steps of its script, with the expectations in between. Each has the number of its
    /// session.
    pub(crate) fn compile(&self, client: &Numbering) -> Result<Vec<(usize, Action)>, String> {
        let mut compilers: Vec<Compiler<'_>> =
            (0..self.sessions.len().max(1)).map(|_| Compiler::new(client)).collect();
        let mut all = Vec::new();
        for step in &self.steps {
            for index in self.sessions_of(step)? {
                let mut actions = compilers[index].whole(step)?;
                if let Some(name) = self.sessions.get(index) {
                    actions.iter_mut().for_each(|action| action.name_session(name));
                }
                all.extend(actions.into_iter().map(|action| (index, action)));
            }
        }
        Ok(all)
    }

    /// Returns the numbers of the sessions that take a step.
    fn sessions_of(&self, step: &serde_json::Map<String, Json>) -> Result<Vec<usize>, String> {
        let names = step.get("session").map(names).unwrap_or_default();
        match (names.as_slice(), self.sessions.as_slice()) {
            ([], []) => return Ok(vec![0]),
            ([], _) => return Err("a step names its session".into()),
            _ => {}
        }
        let number = |name: &String| {
            let found = self.sessions.iter().position(|session| session == name);
            found.ok_or_else(|| format!("there is no session `{name}`"))
        };
        names.iter().map(number).collect()
    }

    /// True if steps of it are repeated: its crossings are long.
    pub(crate) fn has_loops(&self) -> bool {
        self.steps.iter().any(|step| step.contains_key("loop"))
    }
}

/// The keys of a step that are no parts of it.
const AROUND: [&str; 2] = ["session", "loop"];

/// The keys of its parts, in the order in which they count.
const KEYS: [&str; 11] =
    ["run", "keep", "drop", "flush", "claim", "fails", "rows", "objects", "counters", "history", "closed"];

fn in_order(step: &serde_json::Map<String, Json>) -> Compiled<Vec<(&'static str, &Json)>> {
    if let Some(unknown) = step.keys().find(|key| ![&KEYS[..], &AROUND[..]].concat().contains(&key.as_str()))
    {
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

impl<'n> Compiler<'n> {
    fn new(client: &'n Numbering) -> Compiler<'n> {
        Compiler {
            client,
            names: BTreeMap::new(),
            procedures: BTreeMap::new(),
            open: Vec::new(),
            actions: Vec::new(),
            temporary: Vec::new(),
            numbers: 0,
            in_loop: false,
        }
    }
}

impl Compiler<'_> {
    /// Returns the actions of a step of the file.
    fn whole(&mut self, step: &serde_json::Map<String, Json>) -> Compiled<Vec<Action>> {
        let times = step.get("loop").map(|times| times.as_u64().ok_or("`loop` has a number"));
        self.in_loop = times.is_some();
        for (key, value) in in_order(step)? {
            self.part(key, value)?;
        }
        let actions = std::mem::take(&mut self.actions);
        let Some(times) = times.transpose()? else { return Ok(actions) };
        if !self.open.is_empty() {
            return Err("a structure ends in the loop in which it began".into());
        }
        let steps: Vec<&Json> = actions.iter().filter_map(Action::step).collect();
        Ok(vec![Action::Loop { step: json!({"loop": times, "steps": steps}), actions }])
    }

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
                self.forget(dropped)?;
            }
            "drop" => self.forget(names(value))?,
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

    fn forget(&mut self, names: Vec<String>) -> Compiled<()> {
        if let Some(name) = names.iter().find(|name| name.ends_with(NUMBERED) && !self.in_loop) {
            return Err(format!("{name} are dropped in a loop"));
        }
        self.names.retain(|name, _| !names.contains(name));
        if !names.is_empty() {
            self.step(json!({"drop": names}));
        }
        Ok(())
    }

    /// Returns the type of a name; outside loops, `$x_7` is one of the names `$x_n`.
    fn known(&self, name: &str) -> Compiled<Option<TypeNumber>> {
        let one_of = |name: &str| {
            let (name, round) = name.rsplit_once('_')?;
            round.parse::<u64>().ok().and_then(|_| self.names.get(&format!("{name}{NUMBERED}")))
        };
        if name.ends_with(NUMBERED) && !self.in_loop {
            return Err(format!("{name} has a number only in a loop"));
        }
        let found = self.names.get(name).or_else(|| one_of(name));
        found.copied().ok_or_else(|| format!("there is no {name}"))
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
            "transmit" => self.step(json!({"transmit": true})),
            "end_transaction" => {
                self.known(rest)?;
                self.expect(Some(json!({"end_transaction": rest})), Check::Flush(json!("ok")));
            }
            "ship" => {
                self.known(rest)?;
                self.step(json!({"ship": rest}));
            }
            // Its outcome is a failure, which a claim of its name tells.
            "failed_transaction" => {
                self.known(rest)?;
                self.step(json!({"end_transaction": rest}));
            }
            "abandon" => {
                let open = self.open.pop().ok_or("no structure is open")?;
                self.leave(&open.names)?;
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
            Line::Free(names) => self.forget(names.into_iter().map(|name| format!("${name}")).collect())?,
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
    fn leave(&mut self, before: &[String]) -> Compiled<()> {
        let inside: Vec<String> = self.names.keys().filter(|name| !before.contains(name)).cloned().collect();
        self.forget(inside)
    }

    fn next_block(&mut self, kind: &'static str, mut step: Json) -> Compiled<()> {
        let open =
            self.open.pop().filter(|open| open.kind == kind).ok_or_else(|| format!("no `{kind}` is open"))?;
        self.leave(&open.names)?;
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
        self.leave(&open.names)?;
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
}
