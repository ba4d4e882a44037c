//! The program's part of a random script: steps that a typed layer could make, and misuses.
//!
//! The steps are made while they are run, so that they name stubs that exist. Types are plausible
//! most of the time; the recorder does not know them.

use bifrost_wire::Operator;
use bifrost_wire::interface::{Kind, Method};
use serde_json::{Value as Json, json};

use crate::dice::Dice;
use crate::replies::value;
use crate::script::{Client, Machine};

/// An open block.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Open {
    /// The calls of a condition.
    Condition(&'static str),
    /// The body of a structure, of a kind that may go on or not.
    Body(&'static str),
    Procedure(String),
}

/// The types that random scripts have objects of.
const OBJECTS: &[&str] = &["DataBase", "DataElem", "NamedElem", "point", "array[int]", "list[int]"];

/// The types of cells and columns.
const VALUES: &[&str] = &["int", "bool", "real", "char", "string", "DataElem", "point", "sequence[int]"];

const SIGNALS: &[&str] = &["not_found", "not_possible", "exists", "bounds", "failure"];

pub struct Author<'c> {
    dice: Dice,
    client: &'c Client,
    /// The stubs, each with its type in Theta; empty for nil.
    stubs: Vec<(String, String)>,
    open: Vec<Open>,
    /// For each open block, the number of the first name that was made in it.
    starts: Vec<usize>,
    /// Structures that have ended and may go on: label, kind.
    ended: Vec<(String, &'static str)>,
    /// The procedures: name, types of parameters, type of the result.
    procedures: Vec<(String, Vec<&'static str>, Option<&'static str>)>,
    transaction: Option<String>,
    numbers: usize,
}

impl<'c> Author<'c> {
    pub fn new(dice: Dice, client: &'c Client) -> Author<'c> {
        Author {
            dice,
            client,
            stubs: Vec::new(),
            open: Vec::new(),
            starts: Vec::new(),
            ended: Vec::new(),
            procedures: Vec::new(),
            transaction: None,
            numbers: 0,
        }
    }

    /// Makes the settings of a case.
    pub fn settings(&mut self, case: &mut Json) {
        let dice = &mut self.dice;
        if dice.percent(25) {
            case["remap_futures"] = json!(dice.between(3, 12));
        }
        let mut limits = json!({});
        if dice.percent(12) {
            limits["batch_commands_max"] = json!(dice.between(8, 30));
        }
        if dice.percent(8) {
            limits["futures_max"] = json!(dice.between(6, 20));
        }
        if dice.percent(15) {
            limits["depth_max"] = json!(dice.between(1, 3));
        }
        if dice.percent(10) {
            limits["frame_bytes_max"] = json!(8 * dice.between(5, 60));
            limits["batch_bytes_max"] = json!(dice.between(1200, 9000));
        }
        if dice.percent(30) {
            limits["batches_under_way_max"] = json!(dice.between(1, 4));
        }
        if dice.percent(20) {
            limits["wait_ms_max"] = json!(50);
        }
        if dice.percent(50) {
            limits["profile_entries_max"] = json!(8);
        }
        if limits != json!({}) {
            case["limits"] = limits;
        }
        if dice.percent(12) {
            let mut server = json!({});
            for (method, changes) in [
                ("DataBase.fetch", &["removed", "last", "without parameters", "find"][..]),
                ("DataElem.touch", &["removed", "last", "poke"]),
                ("point.set_x", &["last", "without parameters"]),
                ("int.add", &["removed", "last"]),
            ] {
                if dice.percent(60) {
                    server[method] = json!(*dice.pick(changes));
                }
            }
            if server != json!({}) {
                case["server"] = server;
            }
        }
    }

    /// Makes the next step.
    pub fn step(&mut self, machine: &Machine<'_>) -> Json {
        let depth = self.open.len();
        let recorder = machine.recorder();
        let behind = self.ended.len();
        let inside = usize::from(depth > 0);
        let outside = 1 - inside;
        let ends_now = matches!(self.open.last(), Some(Open::Condition(_)));
        // After a structure its further blocks, else that structure is over most of the time.
        if behind > 0 && self.dice.percent(55) {
            return self.reopen();
        }
        if self.dice.percent(92) {
            self.ended.clear();
        }
        let in_procedure = self.open.iter().any(|open| matches!(open, Open::Procedure(_)));
        let in_loop = self.open.iter().any(|open| matches!(open, Open::Body("while" | "foreach")));
        let shipping = self.transaction.is_some();
        // Wrong steps refuse the whole structure or transaction, so they are rare in one.
        let free = usize::from(depth == 0 && !shipping);
        let seldom = usize::from(self.dice.percent(12));
        let if_free = |weight: usize| weight * free.max(seldom);
        let if_outside = |weight: usize| weight * outside.max(seldom);
        let step = self.dice.weighted(&[
            (40, "call"),
            (8, "operator"),
            (6, "routine"),
            (2, "send"),
            (5, "value"),
            (5, "cell"),
            (if_outside(3), "rows"),
            (4, "emit"),
            (1, "read_rows"),
            (if_outside(3), "get"),
            (2, "cast"),
            (2, "test_type"),
            (6, "drop"),
            (2, "clone"),
            (if_outside(if self.stubs.len() < 5 { 30 } else { 5 }), "lookup"),
            (if depth < 4 { 7 } else { 0 }, "open"),
            (if depth < 4 { 4 } else { 0 }, "foreach"),
            (if ends_now { 40 } else { 0 }, "condition"),
            (if ends_now { 0 } else { 20 * inside }, "end"),
            (if in_loop { 4 } else { seldom }, "jump"),
            (inside + 12 * inside * seldom, "abandon"),
            (seldom, "odd"),
            (if_outside(3), "procedure"),
            (4 * usize::from(!self.procedures.is_empty()), "call_procedure"),
            (1, "find_procedure"),
            (if in_procedure { 6 } else { seldom }, "return"),
            (if_free(5), "flush"),
            (if_free(6), "begin_flush"),
            (if recorder.is_under_way() { 6 } else { 0 }, "finish_flush"),
            (if_free(8), "claim"),
            (if_free(4), "commit"),
            (if_free(2), "abort"),
            (if_free(2), "wait"),
            (1, "is_same"),
            (1, "look"),
            (2, "exceptions"),
            (if_free(2), "clear_exceptions"),
            (if_free(2), "profile"),
            (1, "read_profile"),
            (if_free(3), "transaction"),
            (if shipping && depth == 0 { 14 } else { 0 }, "end_transaction"),
        ]);
        match step {
            "open" | "foreach" | "condition" | "end" | "jump" | "abandon" | "procedure" | "return" => {
                self.structure(step)
            }
            _ => self.plain(step),
        }
    }

    /// Returns steps that end what is open, so that the last of them is outside.
    pub fn close(&mut self) -> Option<Json> {
        match self.open.last() {
            Some(Open::Condition(_)) => Some(self.structure("condition")),
            Some(_) => Some(self.structure("end")),
            None if self.transaction.is_some() => Some(self.plain("end_transaction")),
            None => None,
        }
    }

    /// Takes note of a step that was run: forgets stubs that it has not made.
    pub fn ran(&mut self, machine: &Machine<'_>) {
        // Stubs of a block that has ended are used seldom.
        self.starts.resize(self.starts.len().max(self.open.len()), self.numbers);
        while self.starts.len() > self.open.len() {
            let start = self.starts.pop().unwrap_or_default();
            let dice = &mut self.dice;
            self.stubs.retain(|(name, _)| {
                let number = name.trim_start_matches('$').parse().unwrap_or(0);
                number <= start || dice.percent(6)
            });
        }
        self.stubs.retain(|(name, _)| machine.has(name));
        if self.transaction.as_ref().is_some_and(|name| !machine.has(name)) {
            self.transaction = None;
        }
    }

    fn plain(&mut self, step: &str) -> Json {
        match step {
            "call" => self.call(),
            "operator" => {
                let operator = *self.dice.pick(Operator::ALL);
                let (kind, method) = operator.method();
                let ty = format!("{kind:?}").to_lowercase();
                let Some(on) = self.stub_of(&ty) else { return self.plain("value") };
                let method = self.find(&ty, method);
                let args = self.arguments(&method);
                let iterator = method.heading.yields.is_some();
                if iterator {
                    return self.plain("value");
                }
                let results = self.results(&method);
                json!({"operator": format!("{operator:?}"), "on": on, "args": args, "as": results})
            }
            "routine" => {
                let routines = &self.client.numbering.interface().routines;
                let calls: Vec<&Method> = routines.iter().filter(|r| r.heading.yields.is_none()).collect();
                let routine = (*self.dice.pick(&calls)).clone();
                let args = self.arguments(&routine);
                let results = self.results(&routine);
                without_one(json!({"routine": routine.name, "args": args, "as": results}), &mut self.dice)
            }
            "send" => {
                let Some(on) = self.any_stub() else { return self.plain("value") };
                json!({"send": "DataElem.touch", "on": on})
            }
            "value" => {
                let kind = *self.dice.pick(&[
                    Kind::Int,
                    Kind::Int,
                    Kind::Bool,
                    Kind::Real,
                    Kind::Char,
                    Kind::String,
                    Kind::Bytes,
                    Kind::Null,
                ]);
                let ty = format!("{kind:?}").to_lowercase();
                let value = value(&mut self.dice, kind);
                json!({"value": value, "as": self.new_stub(&ty)})
            }
            "lookup" => {
                let ty = *self.dice.pick(OBJECTS);
                let name = *self.dice.pick(&["database", "a", "a name that is rather long for a name"]);
                json!({"lookup": name, "type": ty, "as": self.new_stub(ty)})
            }
            "cell" => {
                let ty = *self.dice.pick(VALUES);
                json!({"cell": ty, "as": self.new_stub(&format!("cell[{ty}]"))})
            }
            "rows" => {
                let count = 1 + self.dice.below(3);
                let types: Vec<&str> = (0..count).map(|_| *self.dice.pick(VALUES)).collect();
                let table = format!("rows {}", types.join("|"));
                json!({"rows": types, "as": self.new_stub(&table)})
            }
            "emit" => {
                let tables: Vec<_> =
                    self.stubs.iter().filter(|(_, ty)| ty.starts_with("rows ")).cloned().collect();
                match tables.is_empty() || self.dice.percent(5) {
                    true => {
                        let Some(stub) = self.any_stub() else { return self.plain("value") };
                        json!({"emit": stub, "args": [{"int": "1"}]})
                    }
                    false => {
                        let (name, ty) = self.dice.pick(&tables).clone();
                        let args: Vec<Json> = ty[5..].split('|').map(|ty| self.argument(ty)).collect();
                        json!({"emit": name, "args": args})
                    }
                }
            }
            "read_rows" | "clone" | "get" => {
                let Some(stub) = self.any_stub() else { return self.plain("value") };
                let ty = self.type_of(&stub);
                let name = self.new_stub(if step == "read_rows" { "DataElem" } else { &ty });
                json!({step: stub, "as": name})
            }
            "cast" | "test_type" => {
                let Some(on) = self.any_stub() else { return self.plain("value") };
                let ty = *self.dice.pick(OBJECTS);
                let of = if step == "cast" { ty } else { "bool" };
                json!({step: ty, "on": on, "as": self.new_stub(of)})
            }
            "drop" => {
                let count = 1 + self.dice.below(3);
                let mut names = Vec::new();
                for _ in 0..count.min(self.stubs.len()) {
                    let at = self.dice.below(self.stubs.len());
                    let name = self.stubs[at].0.clone();
                    // The transaction's own stub has its outcome.
                    if self.transaction.as_ref() != Some(&name) {
                        self.stubs.swap_remove(at);
                        names.push(name);
                    }
                }
                if names.is_empty() { self.plain("value") } else { json!({"drop": names}) }
            }
            "odd" => match self.dice.below(3) {
                0 if self.open.is_empty() => json!({"end": true}),
                0 | 1 => json!({"jump": *self.dice.pick(&["break", "continue"])}),
                _ => json!({"return": {"int": "1"}}),
            },
            "call_procedure" => {
                let (name, params, result) = self.dice.pick(&self.procedures).clone();
                let args: Vec<Json> = params.iter().map(|ty| self.argument(ty)).collect();
                json!({"call_procedure": name, "args": args, "as": self.new_stub(result.unwrap_or(""))})
            }
            "find_procedure" => {
                let (name, params, result) = match self.procedures.as_slice() {
                    [] => ("none".to_owned(), vec![], None),
                    some => self.dice.pick(some).clone(),
                };
                match result {
                    Some(ty) if self.dice.percent(80) => {
                        json!({"find_procedure": name, "params": params, "result": ty})
                    }
                    _ => json!({"find_procedure": name, "params": params}),
                }
            }
            "flush" | "abort" | "commit" | "exceptions" | "clear_exceptions" => match step {
                "abort" | "commit" => json!({step: true, "as": self.new_stub("")}),
                _ => json!({step: true}),
            },
            "profile" => json!({"profile": self.dice.percent(70)}),
            "read_profile" => json!({"read_profile": true}),
            "begin_flush" => match self.dice.percent(75) {
                true => json!({"begin_flush": "kept"}),
                false => json!({"begin_flush": true}),
            },
            "finish_flush" => json!({"finish_flush": true}),
            "claim" => {
                let Some(stub) = self.any_stub() else { return self.plain("value") };
                json!({"claim": stub})
            }
            "wait" => {
                let ms = self.dice.between(0, 100);
                json!({"wait": ms, "as": self.new_stub("bool")})
            }
            "is_same" => match (self.any_stub(), self.any_stub()) {
                (Some(one), Some(other)) => json!({"is_same": [one, other]}),
                _ => self.plain("value"),
            },
            "look" => match self.dice.percent(50) {
                true => json!({"wait_ms": true}),
                false => json!({"transaction_ends": true}),
            },
            "transaction" => {
                let name = self.fresh_stub("");
                let mut settings = json!({"tries": self.dice.below(4)});
                if self.dice.percent(30) {
                    settings["batch"] =
                        json!({"client": "00112233445566778899aabbccddeeff", "number": self.dice.below(9)});
                }
                if self.transaction.is_none() {
                    self.transaction = Some(name.clone());
                }
                json!({"transaction": settings, "as": name})
            }
            "end_transaction" => {
                let name = self.transaction.take().unwrap_or_default();
                match self.dice.percent(20) {
                    // Its block was left by a panic or its like.
                    true => json!({"abandon_transaction": true}),
                    false => json!({"end_transaction": name}),
                }
            }
            other => panic!("there is no step `{other}`"),
        }
    }

    fn structure(&mut self, step: &str) -> Json {
        match step {
            "open" => {
                let kind = *self.dice.pick(&["while", "if", "except"]);
                let open = if kind == "except" { Open::Body(kind) } else { Open::Condition(kind) };
                self.open.push(open);
                json!({"open": kind})
            }
            "condition" => {
                if let Some(Open::Condition(kind)) = self.open.pop() {
                    self.open.push(Open::Body(kind));
                }
                json!({"condition": self.argument("bool")})
            }
            "foreach" => {
                self.open.push(Open::Body("foreach"));
                let iterators: Vec<(String, Method)> = self.methods(true);
                let (ty, method) = self.dice.pick(&iterators).clone();
                let args = self.arguments(&method);
                match self.dice.below(10) {
                    0 => {
                        let results = self.results(&method);
                        let name = format!("{ty}.{}", method.name);
                        json!({"foreach": name, "on": {"foreign": true}, "args": args, "as": results})
                    }
                    1..3 => {
                        let (value, args) = (self.argument("int"), [self.argument("int")]);
                        let on = self.as_stub(value);
                        let name = if on.is_string() { "IntTo" } else { "int.to" };
                        json!({"foreach": name, "on": on, "args": args, "as": self.new_stub("int")})
                    }
                    3 => {
                        json!({"foreach": "primes", "args": [self.argument("int")], "as": self.new_stub("int")})
                    }
                    _ => match self.stub_of(&ty) {
                        Some(on) => {
                            let results = self.results(&method);
                            json!({"foreach": format!("{ty}.{}", method.name), "on": on, "args": args, "as": results})
                        }
                        None => {
                            json!({"foreach": "primes", "args": [self.argument("int")], "as": self.new_stub("int")})
                        }
                    },
                }
            }
            "jump" => json!({"jump": *self.dice.pick(&["break", "continue"])}),
            "abandon" => {
                // A definition that was left is no procedure.
                if let Some(Open::Procedure(name)) = self.open.pop() {
                    self.procedures.retain(|(of, ..)| *of != name);
                }
                json!({"abandon": true})
            }
            "procedure" => {
                let count = self.dice.below(3);
                let params: Vec<&str> =
                    (0..count).map(|_| *self.dice.pick(&["int", "DataElem", "string"])).collect();
                let result = self.dice.percent(60).then(|| *self.dice.pick(&["int", "DataElem"]));
                let name = (*self.dice.pick(&["p", "q"])).to_owned();
                self.procedures.retain(|(of, ..)| *of != name);
                self.procedures.push((name.clone(), params.clone(), result));
                self.open.push(Open::Procedure(name.clone()));
                let names: Vec<String> = params.iter().map(|ty| self.new_stub(ty)).collect();
                let mut step = json!({"procedure": name, "params": params, "as": names});
                if let Some(result) = result {
                    step["result"] = json!(result);
                }
                step
            }
            "return" => match self.dice.percent(20) {
                true => json!({"return": null}),
                false => json!({"return": self.argument("int")}),
            },
            _ => match self.open.pop() {
                Some(Open::Procedure(name)) => json!({"end_procedure": name}),
                Some(Open::Body(kind)) => {
                    self.numbers += 1;
                    let label = format!("L{}", self.numbers);
                    self.ended = vec![(label.clone(), kind)];
                    if !matches!(kind, "if" | "except" | "when") {
                        self.ended.clear();
                    }
                    json!({"end": true, "as": label})
                }
                _ => json!({"abandon": true}),
            },
        }
    }

    fn reopen(&mut self) -> Json {
        let (label, kind) = self.ended.pop().expect("a structure");
        if kind == "if" {
            self.open.push(Open::Body("else"));
            return json!({"reopen": "else", "of": label});
        }
        match self.dice.percent(65) {
            true => {
                self.open.push(Open::Body("when"));
                let count = self.dice.below(3);
                let types: Vec<&str> =
                    (0..count).map(|_| *self.dice.pick(&["string", "int", "DataElem"])).collect();
                let names: Vec<String> = types.iter().map(|ty| self.new_stub(ty)).collect();
                let name = *self.dice.pick(SIGNALS);
                json!({"reopen": "when", "of": label, "name": name, "types": types, "as": names})
            }
            false => {
                self.open.push(Open::Body("others"));
                match self.dice.percent(50) {
                    true => json!({"reopen": "others", "of": label, "as": self.new_stub("string")}),
                    false => json!({"reopen": "others", "of": label}),
                }
            }
        }
    }

    fn call(&mut self) -> Json {
        let methods = self.methods(false);
        let (ty, method) = self.dice.pick(&methods).clone();
        let on = match self.dice.percent(90) {
            true => self.stub_of(&ty),
            false => self.any_stub(),
        };
        let Some(on) = on.or_else(|| self.any_stub()) else { return self.plain("value") };
        let mut args = self.arguments(&method);
        if self.dice.percent(2) {
            let count = *self.dice.pick(&[3, 4, 5, 6, 20, 21, 37, 255, 256]);
            args = (0..count).map(|_| self.argument("int")).collect();
        }
        let results = self.results(&method);
        let step = json!({"call": format!("{ty}.{}", method.name), "on": on, "args": args, "as": results});
        without_one(step, &mut self.dice)
    }

    fn find(&self, ty: &str, method: &str) -> Method {
        let types = &self.client.numbering.interface().types;
        let ty = types.iter().find(|t| t.name == ty).expect("a basic type");
        ty.methods.iter().find(|m| m.name == method).expect("a method of an operator").clone()
    }

    /// Returns the methods, or iterators, of the types of objects that are often there.
    fn methods(&self, iterators: bool) -> Vec<(String, Method)> {
        let types = self.client.numbering.interface().types.iter();
        let some = types.filter(|ty| OBJECTS.contains(&ty.name.as_str()) || ty.kind == Kind::Cell);
        some.flat_map(|ty| ty.methods.iter().map(|m| (ty.name.clone(), m.clone())))
            .filter(|(_, m)| m.heading.yields.is_some() == iterators)
            .collect()
    }

    fn type_name(&self, number: bifrost_wire::TypeNumber) -> String {
        self.client.numbering.interface().type_name(number).to_owned()
    }

    fn arguments(&mut self, method: &Method) -> Vec<Json> {
        let types: Vec<String> = method.heading.params.iter().map(|p| self.type_name(p.ty)).collect();
        types.iter().map(|ty| self.argument(ty)).collect()
    }

    /// Makes the names of a call's results: a list, which is empty for no results.
    fn results(&mut self, method: &Method) -> Json {
        let types: Vec<String> = method.heading.futures().iter().map(|ty| self.type_name(*ty)).collect();
        match types.as_slice() {
            [] => json!(self.new_stub("")),
            [one] => json!(self.new_stub(one)),
            many => many.iter().map(|ty| self.new_stub(ty)).collect(),
        }
    }

    fn argument(&mut self, ty: &str) -> Json {
        if self.dice.below(300) == 0 {
            return json!({"foreign": true});
        }
        if self.dice.percent(2) {
            return self.items(1);
        }
        if self.dice.percent(4)
            && let Some(stub) = self.any_stub()
        {
            return json!(stub);
        }
        if self.dice.percent(60)
            && let Some(stub) = self.stub_of(ty)
        {
            return json!(stub);
        }
        let kind = match ty {
            "int" => Kind::Int,
            "bool" => Kind::Bool,
            "real" => Kind::Real,
            "char" => Kind::Char,
            "string" => Kind::String,
            "sequence[int]" => return self.items(1),
            _ => match self.any_stub() {
                Some(stub) => return json!(stub),
                None => Kind::Null,
            },
        };
        if kind == Kind::String && self.dice.percent(4) {
            return json!({"string": {"text": "x", "times": self.dice.between(100, 900)}});
        }
        value(&mut self.dice, kind)
    }

    fn items(&mut self, depth: usize) -> Json {
        if self.dice.percent(3) {
            return json!({"nested": *self.dice.pick(&[2, 64, 65])});
        }
        let count = self.dice.below(4);
        let items: Vec<Json> = (0..count)
            .map(|_| {
                if depth < 3 && self.dice.percent(25) { self.items(depth + 1) } else { self.argument("int") }
            })
            .collect();
        json!({"items": items})
    }

    // Stubs.

    /// Returns the name of a stub that is an operand where only stubs can stand.
    fn as_stub(&mut self, argument: Json) -> Json {
        match argument {
            Json::String(_) => argument,
            _ => self.any_stub().map_or(json!({"foreign": true}), Json::from),
        }
    }

    fn new_stub(&mut self, ty: &str) -> String {
        // A name that is given again drops its old stub.
        if self.dice.percent(6)
            && let Some(name) = self.any_stub()
            && self.transaction.as_ref() != Some(&name)
        {
            self.stubs.retain(|(of, _)| *of != name);
            self.stubs.push((name.clone(), ty.to_owned()));
            return name;
        }
        self.fresh_stub(ty)
    }

    fn fresh_stub(&mut self, ty: &str) -> String {
        self.numbers += 1;
        let name = format!("${}", self.numbers);
        self.stubs.push((name.clone(), ty.to_owned()));
        name
    }

    fn any_stub(&mut self) -> Option<String> {
        // Later ones more often.
        let count = self.stubs.len();
        let from = if self.dice.percent(60) { count.saturating_sub(6) } else { 0 };
        (count > 0).then(|| self.stubs[from + self.dice.below(count - from)].0.clone())
    }

    fn stub_of(&mut self, ty: &str) -> Option<String> {
        let all: Vec<String> =
            self.stubs.iter().filter(|(_, of)| of == ty).map(|(name, _)| name.clone()).collect();
        (!all.is_empty()).then(|| self.dice.pick(&all).clone())
    }

    fn type_of(&self, name: &str) -> String {
        self.stubs.iter().find(|(of, _)| of == name).map(|(_, ty)| ty.clone()).unwrap_or_default()
    }
}

/// Leaves the name of a single result out now and then: its stub is dropped at once.
fn without_one(mut step: Json, dice: &mut Dice) -> Json {
    if step["as"].is_string() && dice.percent(20) {
        step.as_object_mut().expect("a step").remove("as");
    }
    step
}
