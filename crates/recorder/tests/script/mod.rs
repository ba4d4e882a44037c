//! An interpreter of the scripts in `vectors/recorder/`: untyped operations of a recorder.
//!
//! [`Machine`] is the type to read first. It has a recorder, a table of stubs by their names in the
//! script, and a queue of replies. It moves bytes as a client's connection does. The format is
//! described in `vectors/recorder/README.md`.

mod arguments;
mod crossing;
pub mod json;
pub mod print;
pub mod rounds;
mod rows;
mod waits;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bifrost_recorder::{
    Block, Closed, Due, Ended, Error, Greeting, Heading, Iteration, Jump, Known, Operand, Recorded, Recorder,
    Settings, Slot, Structure, Stubs,
};
use bifrost_wire::encode;
use bifrost_wire::interface::{Interface, Numbering};
use bifrost_wire::operator::{self, Operator};
use bifrost_wire::{BatchName, Command, Decoded, FRAME_BYTES_MAX, Limit, decode};
use serde_json::{Value as Json, json};

use arguments::{Argument, Items};
use json::{field, text, whole};

/// The place of a call in the source: the number of a step, from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step(pub u32);

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "step {}", self.0)
    }
}

/// The pieces in which a reply comes.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    /// In one piece.
    Whole,
    /// In pieces of so many bytes.
    Every(usize),
    /// In two pieces, of which the first has so many bytes.
    At(usize),
    /// In one piece, with one byte of all replies changed.
    Changed(usize),
}

/// The interface that the stubs of all scripts were made from.
pub struct Client {
    pub stubs: &'static Stubs,
    pub numbering: Numbering,
}

impl Client {
    /// Reads `vectors/interface.json`.
    pub fn new() -> Client {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/interface.json");
        Client::of(std::fs::read_to_string(path).unwrap())
    }

    /// Reads an interface from JSON.
    pub fn of(json: String) -> Client {
        let json: &'static str = Box::leak(json.into_boxed_str());
        let interface = Interface::from_json(json.as_bytes()).unwrap();
        let none = bifrost_recorder::CellNumbers::NONE;
        let builtin = [bifrost_recorder::BuiltinNumbers::NONE; bifrost_wire::builtin::COUNT];
        let mut operators = [u32::MAX; operator::COUNT];
        for (place, number) in operators.iter_mut().zip(operator::numbers(&interface)) {
            *place = number.0;
        }
        let stubs =
            Stubs { digest: interface.digest(), json, basic: [(u32::MAX, none); 6], builtin, operators };
        Client { stubs: Box::leak(Box::new(stubs)), numbering: Numbering::new(interface) }
    }

    fn method(&self, name: &str) -> u32 {
        let (ty, method) = name.rsplit_once('.').unwrap();
        let ty = self.numbering.find_type(ty).unwrap_or_else(|| panic!("no type `{ty}`"));
        self.numbering.find_method(ty, method).unwrap_or_else(|| panic!("no method `{name}`")).0
    }

    fn ty(&self, name: &str) -> u32 {
        self.numbering.find_type(name).unwrap_or_else(|| panic!("no type `{name}`")).0
    }

    fn routine(&self, name: &str) -> u32 {
        self.numbering.find_routine(name).unwrap_or_else(|| panic!("no routine `{name}`")).0
    }
}

/// The server's interface: the client's with changes.
pub fn server_interface(client: &Client, changes: &Json) -> Interface {
    let mut interface = client.numbering.interface().clone();
    for (name, change) in changes.as_object().unwrap() {
        let (ty, method) = name.rsplit_once('.').unwrap();
        let ty = interface.types.iter_mut().find(|t| t.name == ty).unwrap();
        let at = ty.methods.iter().position(|m| m.name == method).unwrap();
        match change.as_str().unwrap() {
            "removed" => drop(ty.methods.remove(at)),
            "without parameters" => ty.methods[at].heading.params.clear(),
            "last" => ty.methods[at..].rotate_left(1),
            new => ty.methods[at].name = new.to_owned(),
        }
    }
    interface
}

/// One reply of the queue, with the loss of the stream as the other possibility.
enum Coming {
    Reply(Vec<u8>),
    Lost,
}

/// Makes the step with the answer to a batch, given as the bytes of its commands.
pub type Answerer = Box<dyn FnMut(&[u8]) -> Json>;

/// Takes each piece that is sent.
pub type Sender = Box<dyn FnMut(&[u8])>;

/// Writes down a crossing: the pieces that were sent, and the answer.
pub type Writer = fn(&[Vec<u8>], Option<&[u8]>) -> Json;

/// A batch that is a transaction and was ended: its calls that were refused, and the outcome of its
/// end.
type Shipped = (Vec<Arc<Error<Step>>>, Result<(), Error<Step>>);

/// A procedure: its number, and the error if its definition was refused.
type Procedure = (u32, Option<Arc<Error<Step>>>);

/// A script that is being run.
pub struct Machine<'c> {
    client: &'c Client,
    recorder: Recorder<Step>,
    place: Step,
    stubs: BTreeMap<String, Slot>,
    ended: BTreeMap<String, Ended>,
    procedures: BTreeMap<String, Procedure>,
    shipped: Option<Shipped>,
    replies: VecDeque<Coming>,
    cut: Cut,
    /// The bytes of all replies so far.
    answered: usize,
    /// The bytes that were sent since the last answer, as they were sent.
    sent: Vec<Vec<u8>>,
    /// The bytes of each batch that was sent whole and is not answered, then those of the next.
    batches: VecDeque<Vec<u8>>,
    crossings: Vec<Json>,
    results: Vec<Json>,
    /// Makes the replies for which the script has none; the steps that it has made.
    answerer: Option<Answerer>,
    given: Vec<Json>,
    sender: Option<Sender>,
    writer: Writer,
}

impl<'c> Machine<'c> {
    /// Opens the session of a case.
    pub fn new(client: &'c Client, case: &Json, cut: Cut) -> Machine<'c> {
        Machine::over(client, Machine::greeted(client, case), cut)
    }

    /// Returns the recorder of a session of a case.
    pub fn greeted(client: &Client, case: &Json) -> Recorder<Step> {
        let mut settings = Settings::default();
        if let Some(n) = case.get("remap_futures") {
            settings.remap_futures = whole(n) as usize;
        }
        if let Some(n) = case.get("reply_bytes_max") {
            settings.reply_bytes_max = whole(n) as usize;
        }
        let mut limits = Vec::new();
        for (name, value) in case.get("limits").and_then(Json::as_object).into_iter().flatten() {
            let limit =
                Limit::ALL.iter().find(|l| l.name() == name).unwrap_or_else(|| panic!("limit {name}"));
            limits.push((*limit, whole(value)));
        }
        let server = match (case.get("server"), case.get("server_interface")) {
            (Some(changes), _) => Some(server_interface(client, changes)),
            (None, Some(interface)) => Some(Interface::from_json(text(interface).as_bytes()).unwrap()),
            (None, None) => None,
        };
        let digest = server.as_ref().map_or(client.stubs.digest, Interface::digest);
        let mut greeting = Greeting::new(client.stubs, "", "", settings);
        let mut reply = Vec::new();
        encode::welcome(&mut reply, &digest, &limits, 1, "script");
        let mut recorder = greeting.handle_bytes(&reply).unwrap();
        if let Some(server) = server {
            assert!(recorder.is_none(), "another interface is asked for");
            reply.clear();
            encode::interface(&mut reply, &server.to_json());
            recorder = greeting.handle_bytes(&reply).unwrap();
        }
        recorder.expect("the greeting is over")
    }

    /// Begins a script in a session that was greeted.
    pub fn over(client: &'c Client, recorder: Recorder<Step>, cut: Cut) -> Machine<'c> {
        Machine {
            client,
            recorder,
            place: Step(0),
            stubs: BTreeMap::new(),
            ended: BTreeMap::new(),
            procedures: BTreeMap::new(),
            shipped: None,
            replies: VecDeque::new(),
            cut,
            answered: 0,
            sent: Vec::new(),
            batches: VecDeque::from([Vec::new()]),
            crossings: Vec::new(),
            results: Vec::new(),
            answerer: None,
            given: Vec::new(),
            sender: None,
            writer: crossing::write,
        }
    }

    /// Returns the recorder.
    pub fn recorder(&self) -> &Recorder<Step> {
        &self.recorder
    }

    /// True if there is a stub of this name.
    pub fn has(&self, name: &str) -> bool {
        self.stubs.contains_key(name)
    }

    /// Flushes between two steps, if a flush is possible there. Tells nobody of failures.
    pub fn flush_between(&mut self) {
        let outside = self.recorder.depth() == 0 && !self.recorder.is_shipping();
        if outside && !self.recorder.is_closed() {
            let _ = self.flush();
        }
    }

    /// Returns the knowledge about a stub.
    pub fn known_of(&self, name: &str) -> Option<Json> {
        self.stubs.get(name).map(|slot| self.known(*slot))
    }

    /// Runs all steps, and returns the outputs of the case.
    pub fn run(mut self, steps: &[Json]) -> Json {
        steps.iter().for_each(|step| drop(self.take(step)));
        self.finish()
    }

    /// Returns the outputs of the steps that were run.
    pub fn finish(mut self) -> Json {
        let is_changed = matches!(self.cut, Cut::Changed(_));
        assert!(self.replies.is_empty() || is_changed, "replies that nobody asked for");
        if !self.sent.is_empty() {
            self.cross(None);
        }
        let known: serde_json::Map<String, Json> =
            self.stubs.iter().map(|(name, slot)| (name.clone(), self.known(*slot))).collect();
        let counters = self.recorder.counters();
        let closed = self.recorder.is_closed();
        let omitted = self.recorder.exceptions_omitted();
        let history = self.recorder.exceptions().iter();
        let history: Vec<Json> =
            history.map(|e| json!({"batch": e.batch, "error": json::error(&e.error)})).collect();
        json!({
            "crossings": self.crossings,
            "results": self.results,
            "known": known,
            "history": history,
            "history_omitted": omitted,
            "counters": {"crossings": counters.crossings, "calls": counters.calls},
            "closed": closed,
        })
    }

    // Stubs.

    fn slot(&self, name: &Json) -> Slot {
        *self.stubs.get(text(name)).unwrap_or_else(|| panic!("there is no stub {name} at {}", self.place))
    }

    fn name(&mut self, name: &str, slot: Slot) {
        if let Some(old) = self.stubs.insert(name.to_owned(), slot) {
            self.recorder.release(old);
        }
    }

    fn known(&self, slot: Slot) -> Json {
        match self.recorder.known(slot) {
            Known::Future(position) => json!({"future": position}),
            Known::UnderWay(batch) => json!({"under_way": batch}),
            Known::Handle(handle) => json!({"handle": handle.0}),
            Known::Value(value) => json!({"value": bifrost_wire::json::value(&value)}),
            Known::Rows(rows) => json!({"rows": rows.len()}),
            Known::Failed(error) => json!({"failed": json::error(error)}),
            Known::Free => json!("free"),
        }
    }

    /// Takes the stubs of a call's results; without names there is one result, which is dropped.
    fn results(&mut self, step: &Json, recorded: Recorded<Step>) {
        let names = json::names(step.get("as"));
        for name in names.iter().map(Some).chain(names.is_empty().then_some(None)) {
            let slot = match &recorded {
                Ok(made) => self.recorder.new_result(*made, self.place),
                Err(error) => self.recorder.new_failed(error.clone()),
            };
            match name {
                Some(name) => self.name(name, slot),
                None => self.recorder.release(slot),
            }
        }
    }

    fn variables(&mut self, step: &Json) {
        for name in json::names(step.get("as")) {
            let slot = self.recorder.variable(self.place);
            self.name(&name, slot);
        }
    }

    // Steps.

    fn step(&mut self, step: &Json) -> Option<Json> {
        let place = self.place;
        let arguments: Vec<Argument> = self.arguments(step);
        let operands: Vec<Operand<'_>> = arguments.iter().map(Argument::operand).collect();
        let operands = operands.into_iter();
        let (op, what) = json::operation(step);
        match op {
            "lookup" => {
                let admitted = self.admit();
                let (name, ty) = (text(what), text(field(step, "type")));
                let number = self.client.ty(ty);
                let recorded =
                    self.recorder.lookup(admitted, Some(self.client.stubs), name, number, ty, place);
                self.results(step, recorded);
            }
            "call" | "operator" => {
                let method = match op {
                    "call" => self.client.method(text(what)),
                    _ => {
                        let all = Operator::ALL.iter();
                        let found =
                            all.copied().find(|o| format!("{o:?}") == text(what)).expect("an operator");
                        self.recorder.numbers().operator(found)
                    }
                };
                let admitted = self.admit();
                let receiver = self.slot(field(step, "on"));
                let recorded = self.recorder.call(admitted, receiver, method, operands, place);
                self.results(step, recorded);
            }
            "send" => {
                let admitted = self.admit();
                let (receiver, method) = (self.slot(field(step, "on")), self.client.method(text(what)));
                let recorded = self.recorder.send(admitted, receiver, method, operands, place);
                self.results(step, recorded);
            }
            "routine" => {
                let admitted = self.admit();
                let (stubs, routine) = (self.client.stubs, self.client.routine(text(what)));
                let recorded = self.recorder.call_routine(admitted, stubs, routine, operands, place);
                self.results(step, recorded);
            }
            "call_procedure" => {
                let admitted = self.admit();
                let (number, refused) = self.procedures[text(what)].clone();
                let recorded =
                    self.recorder.call_procedure(admitted, number, refused.as_ref(), operands, place);
                self.results(step, recorded);
            }
            "value" => {
                let value = json::value(what);
                let slot = self.recorder.new_value(value.view());
                self.name(text(field(step, "as")), slot);
            }
            "cell" => {
                let admitted = self.admit();
                let number = self.client.ty(text(what));
                let recorded = self.recorder.cell(admitted, number, text(what), place);
                self.results(step, recorded);
            }
            "rows" | "emit" | "cast" | "test_type" | "read_rows" | "get" => {
                return self.rows_and_types(step, op, what, operands);
            }
            "drop" => {
                for name in json::names(Some(what)) {
                    let slot = self.stubs.remove(&name).unwrap_or_else(|| panic!("no stub {name}"));
                    self.recorder.release(slot);
                }
            }
            "clone" => {
                let slot = self.slot(what);
                self.recorder.retain(slot);
                self.name(text(field(step, "as")), slot);
            }
            "open" | "condition" | "foreach" | "jump" | "end" | "reopen" | "abandon" => {
                self.structure(step, op, what, operands);
            }
            "procedure" | "return" | "end_procedure" | "find_procedure" => {
                return self.procedure(step, op, what);
            }
            "reply" => {
                let mut bytes = Vec::new();
                json::encode_reply(what, &mut bytes);
                self.replies.push_back(Coming::Reply(bytes));
            }
            "lose" => self.replies.push_back(Coming::Lost),
            _ => return self.crossing(step, op, what),
        }
        None
    }

    /// Steps that cross, or that tell knowledge.
    fn crossing(&mut self, step: &Json, op: &str, what: &Json) -> Option<Json> {
        let place = self.place;
        let result = match op {
            "flush" => self.synchronize("flush").and_then(|()| self.recorder.surface(true)),
            "begin_flush" => {
                let kept = what.as_str() == Some("kept");
                self.recorder.begin_flush_for("flush", kept, place).map(drop)
            }
            "finish_flush" => self.answer().and_then(|()| self.recorder.surface(true)),
            "transmit" => {
                self.send(true);
                return None;
            }
            "claim" => {
                let slot = self.slot(what);
                let known = match self.recorder.known(slot) {
                    Known::Future(_) => self.synchronize("claim"),
                    Known::UnderWay(batch) => self.answer_to(batch),
                    _ => Ok(()),
                };
                match known.and_then(|()| self.recorder.claim(slot)) {
                    Ok(()) => return Some(self.known(slot)),
                    failed => failed,
                }
            }
            "commit" | "abort" => {
                let mut admitted = self.admit();
                if op == "commit" && admitted.is_ok() {
                    admitted = match self.recorder.commit_due() {
                        Ok(Due::Nothing) => Ok(()),
                        Ok(_) => self.flush().map_err(Arc::new),
                        Err(error) => Err(error),
                    };
                }
                let recorded = match op {
                    "commit" => self.recorder.commit(admitted, place),
                    _ => self.recorder.abort(admitted, place),
                };
                self.results(step, recorded);
                return None;
            }
            "wait" | "wait_ms" | "is_same" | "transaction_ends" => return self.wait(step, op, what),
            "transaction" => {
                let tries = what.get("tries").map_or(0, whole) as u16;
                let batch = what.get("batch").map(|batch| BatchName {
                    client: u128::from_str_radix(text(field(batch, "client")), 16).unwrap(),
                    number: whole(field(batch, "number")),
                });
                let begun = self
                    .synchronize("transaction")
                    .and_then(|()| self.recorder.begin_transaction(tries, batch, place));
                begun.map(|slot| self.name(text(field(step, "as")), slot))
            }
            "end_transaction" => {
                // There is none if its begin was refused.
                let slot = *self.stubs.get(text(what))?;
                let (refusals, begun) = self.shipped.take().unwrap_or_else(|| self.ship());
                begun.and_then(|()| self.answer_all()).and_then(|()| {
                    let outcome = self.recorder.claim(slot);
                    self.recorder.finish_transaction(outcome, refusals, place)
                })
            }
            "ship" => {
                self.shipped = Some(self.ship());
                self.send(true);
                return None;
            }
            "abandon_transaction" => {
                self.recorder.abandon_transaction();
                let flushed = self.flush();
                self.recorder.tell_transaction();
                flushed
            }
            "exceptions" => {
                let exceptions = self.recorder.exceptions().iter();
                return Some(exceptions.map(|e| json::error(&e.error)).collect());
            }
            "clear_exceptions" => {
                if self.recorder.clear_exceptions(place) {
                    let admitted = self.admit();
                    self.recorder.clear_server(admitted);
                }
                return None;
            }
            "profile" => {
                let on = what.as_bool().expect("true or false");
                self.recorder.profile_due(on).and_then(|changes| match changes {
                    true => {
                        let admitted = self.admit();
                        self.recorder.profile(admitted, on)
                    }
                    false => Ok(()),
                })
            }
            "read_profile" => {
                let profile = self.recorder.profile_of_last();
                return Some(profile.map_or(Json::Null, bifrost_wire::json::profile));
            }
            "leave" => {
                if self.recorder.leave() {
                    self.send(false);
                    self.recorder.close(Closed::ByClient);
                }
                return None;
            }
            other => panic!("there is no step `{other}`"),
        };
        Some(match result {
            Ok(()) => json!("ok"),
            Err(error) => json!({"error": json::error(&Arc::new(error))}),
        })
    }

    fn structure<'a>(
        &mut self,
        step: &Json,
        op: &str,
        what: &Json,
        arguments: impl ExactSizeIterator<Item = Operand<'a>>,
    ) {
        let place = self.place;
        match op {
            "open" => {
                let admitted = self.admit();
                let structure = match text(what) {
                    "while" => Structure::While,
                    "if" => Structure::If,
                    "except" => Structure::Except,
                    other => panic!("there is no structure `{other}`"),
                };
                self.recorder.open(admitted, structure, place);
            }
            "condition" => {
                let test = self.argument(what);
                self.recorder.condition(test.operand(), place);
            }
            "foreach" => {
                let admitted = self.admit();
                let name = text(what);
                let iteration = match step.get("on") {
                    Some(_) if field(step, "on").is_object() => {
                        Iteration::Method { receiver: Operand::Foreign, method: self.client.method(name) }
                    }
                    Some(receiver) => {
                        let receiver = Operand::Stub(self.slot(receiver));
                        let method = match Operator::ALL.iter().find(|o| format!("{o:?}") == name) {
                            Some(operator) => self.recorder.numbers().operator(*operator),
                            None => self.client.method(name),
                        };
                        Iteration::Method { receiver, method }
                    }
                    None => {
                        Iteration::Routine { stubs: self.client.stubs, routine: self.client.routine(name) }
                    }
                };
                let recorded = self.recorder.foreach(admitted, iteration, arguments, place, place);
                self.results(step, recorded);
            }
            "jump" => {
                let jump = if text(what) == "break" { Jump::Break } else { Jump::Continue };
                self.recorder.jump(jump, place);
            }
            "end" => {
                let ended = self.recorder.end();
                if let Some(name) = step.get("as") {
                    self.ended.insert(text(name).to_owned(), ended);
                }
            }
            "reopen" => {
                let ended = self.ended[text(field(step, "of"))];
                let types: Vec<u32> =
                    json::names(step.get("types")).iter().map(|t| self.client.ty(t)).collect();
                let block = match text(what) {
                    "else" => Block::Else,
                    "when" => Block::When { name: text(field(step, "name")), values: &types },
                    _ => Block::Others { named: step.get("as").is_some() },
                };
                self.recorder.reopen(ended, block, place);
                self.variables(step);
            }
            _ => self.recorder.abandon(),
        }
    }

    fn procedure(&mut self, step: &Json, op: &str, what: &Json) -> Option<Json> {
        let place = self.place;
        let heading = |client: &Client| Heading {
            params: json::names(step.get("params")).iter().map(|t| client.ty(t)).collect(),
            result: step.get("result").map(|t| client.ty(text(t))),
        };
        match op {
            "procedure" => {
                let admitted = self.admit();
                let heading = heading(self.client);
                let number = self.recorder.open_procedure(admitted, text(what), heading, place);
                self.procedures.insert(text(what).to_owned(), (number, None));
                self.variables(step);
            }
            "return" => {
                let value = (!what.is_null()).then(|| self.argument(what));
                self.recorder.return_(value.as_ref().map(Argument::operand), place);
            }
            "end_procedure" => {
                let refused = self.recorder.close_procedure();
                self.procedures.get_mut(text(what)).unwrap().1 = refused;
            }
            _ => {
                let number = self.recorder.find_procedure(text(what), &heading(self.client));
                return Some(number.map_or(Json::Null, Json::from));
            }
        }
        None
    }

    fn arguments(&self, step: &Json) -> Vec<Argument> {
        let all = step.get("args").and_then(Json::as_array).into_iter().flatten();
        all.map(|argument| self.argument(argument)).collect()
    }

    fn argument(&self, argument: &Json) -> Argument {
        match argument {
            Json::String(_) => Argument::Stub(self.slot(argument)),
            object if object.get("foreign").is_some() => Argument::Foreign,
            object if object.get("nested").is_some() => {
                let outer = |inner, _| Argument::Items(Items(vec![inner]));
                (1..json::whole(&object["nested"])).fold(Argument::Items(Items(Vec::new())), outer)
            }
            object if object.get("items").is_some() => {
                let items = object["items"].as_array().into_iter().flatten();
                Argument::Items(Items(items.map(|item| self.argument(item)).collect()))
            }
            value => Argument::Value(json::value(value)),
        }
    }
}

/// The bytes of each command; all are whole.
pub fn split(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut rest, mut all) = (bytes, Vec::new());
    while !rest.is_empty() {
        match decode(rest, FRAME_BYTES_MAX) {
            Ok(Decoded::Command(_, length)) => {
                let (command, behind) = rest.split_at(length);
                all.push(command);
                rest = behind;
            }
            other => panic!("whole commands are sent: {other:?}"),
        }
    }
    all
}

/// The commands in the bytes.
pub fn commands<T>(bytes: &[u8], mut show: impl FnMut(&Command<'_>) -> T) -> Vec<T> {
    let shown = split(bytes).into_iter().map(|command| match decode(command, FRAME_BYTES_MAX) {
        Ok(Decoded::Command(command, _)) => show(&command),
        other => panic!("whole commands are sent: {other:?}"),
    });
    shown.collect()
}
