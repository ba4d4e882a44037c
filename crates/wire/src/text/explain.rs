//! Commands as lines of the text form, for people who ask what was recorded.

use std::collections::HashMap;
use std::fmt::Write;

use crate::FRAME_BYTES_MAX;
use crate::command::{Command, Decoded, decode};
use crate::encode::Counters;
use crate::ids::{Ref, TypeNumber};
use crate::interface::{Heading, Interface, Numbering, Shape};
use crate::module::ModuleRun;
use crate::profile::{Cost, Entry, OwnedProfile, Rest, Subject};
use crate::value::{Arg, Args, Compound, Value};

use super::print;

/// Writes commands as lines of the text form, one for each command, indented by structures.
///
/// A result is named by its place in its batch, as in `@2 := @1.fetch("eve")`, and variables of
/// structures as `$x5`. Lines can be given to a server in the text form again; what that has no
/// words for is in comments: handles given back, futures that are wanted, results of earlier
/// batches (`@3^1` is the third of the last one).
///
/// ```
/// # use std::sync::Arc;
/// # use bifrost_wire::{interface::{Interface, Numbering}, text::{Explainer, Translator}};
/// # let json = std::fs::read("../../vectors/interface.json").unwrap();
/// # let numbering = Numbering::new(Interface::from_json(&json).unwrap());
/// # let mut bytes = Vec::new();
/// # let mut translator = Translator::new(Arc::new(numbering.clone()));
/// translator.line("$e := lookup database: DataBase", &mut bytes, &mut String::new()).unwrap();
/// translator.line("$e.fetch(\"eve\").touch()", &mut bytes, &mut String::new()).unwrap();
/// let lines = Explainer::new(&numbering, &[]).lines(&bytes);
/// let mut lines = lines.lines();
/// assert_eq!(lines.next(), Some("@1 := lookup database: DataBase"));
/// assert_eq!(lines.next(), Some("@2 := @1.fetch(\"eve\")"));
/// assert_eq!(lines.next(), Some("@3 := @2.touch()"));
/// ```
pub struct Explainer<'n> {
    numbering: &'n Numbering,
    /// The names of the session's procedures, by number.
    procedures: Vec<String>,
    /// The results of the batch so far.
    futures: u32,
    /// The results that are variables of structures.
    variables: HashMap<u32, String>,
    /// The blocks that are open.
    depth: usize,
    /// True if the next call is that of a `foreach`.
    iterates: bool,
    /// The entries of the batch's profile whose commands have not come yet.
    entries: &'n [Entry],
}

impl<'n> Explainer<'n> {
    /// Begins a batch of a session that has defined these procedures, in the order of their
    /// numbers.
    pub fn new(numbering: &'n Numbering, procedures: &[&str]) -> Explainer<'n> {
        Explainer {
            numbering,
            procedures: procedures.iter().map(|name| (*name).to_owned()).collect(),
            futures: 0,
            variables: HashMap::new(),
            depth: 0,
            iterates: false,
            entries: &[],
        }
    }

    /// Returns the lines of whole commands, each with its line feed. What is no command ends them
    /// with a comment.
    pub fn lines(&mut self, bytes: &[u8]) -> String {
        let mut out = String::new();
        let rest = self.whole(bytes, &mut out);
        if rest > 0 {
            let _ = writeln!(out, "# {rest} bytes that are no whole command");
        }
        out
    }

    /// Returns the lines of a batch of which as much was kept, and the number of bytes that were
    /// not, as a comment. With a profile, each line ends with the cost of its command, and that of
    /// the commands without an entry is a line of its own.
    pub fn kept(&mut self, batch: &Kept, profile: Option<&'n OwnedProfile>) -> String {
        let mut out = String::new();
        self.entries = profile.map_or(&[], |profile| &profile.entries);
        let more = self.whole(&batch.bytes, &mut out) + batch.more;
        if more > 0 {
            let _ = writeln!(out, "# {more} more bytes, which are not kept");
        }
        if let Some(Rest { omitted, cost }) = profile.and_then(|profile| profile.rest) {
            let _ = writeln!(out, "# {omitted} more: {cost}");
        }
        out
    }

    /// Appends the lines of whole commands, and returns the number of bytes behind them.
    fn whole(&mut self, bytes: &[u8], out: &mut String) -> usize {
        let mut rest = bytes;
        while let Ok(Decoded::Command(command, length)) = decode(rest, FRAME_BYTES_MAX) {
            self.command(&command, out);
            rest = &rest[length..];
        }
        rest.len()
    }

    /// Appends the line of a command.
    pub fn command(&mut self, command: &Command<'_>, out: &mut String) {
        if matches!(command, Command::Foreach) {
            self.iterates = true;
            return;
        }
        // Markers of blocks stand at the depth of their structure.
        let (before, after) = match command {
            Command::While | Command::If | Command::Except | Command::Procedure { .. } => (0, 1),
            Command::Do { .. }
            | Command::Then { .. }
            | Command::Else
            | Command::When { .. }
            | Command::Others { .. } => (1, 1),
            Command::EndWhile
            | Command::EndIf
            | Command::EndForeach
            | Command::EndExcept
            | Command::EndProcedure => (1, 0),
            _ => (0, usize::from(self.iterates)),
        };
        self.depth = self.depth.saturating_sub(before);
        let (indent, first) = (self.depth, self.futures + 1);
        let begins = self.iterates || before == 0 && after == 1;
        let text = self.text(command);
        let cost = match before + indent == 0 && (begins || self.futures >= first) {
            true => self.cost(if begins { Subject::Structure } else { Subject::Command }, first),
            false => None,
        };
        let mut cost = cost.map_or(String::new(), |cost| format!("  # {cost}"));
        for line in text.lines() {
            let _ = writeln!(out, "{:1$}{line}{cost}", "", 2 * indent);
            cost.clear();
        }
        self.depth += after;
    }

    /// Takes the cost of a command or structure from the profile, if it has an entry.
    fn cost(&mut self, subject: Subject, call: u32) -> Option<Cost> {
        let (entry, rest) = self.entries.split_first()?;
        if (entry.subject, entry.call) != (subject, call) {
            return None;
        }
        self.entries = rest;
        Some(entry.cost)
    }

    fn interface(&self) -> &'n Interface {
        self.numbering.interface()
    }

    fn type_name(&self, ty: TypeNumber) -> &'n str {
        self.interface().type_name(ty)
    }

    fn text(&mut self, command: &Command<'_>) -> String {
        match *command {
            Command::Hello(hello) => {
                let name = print::value(self.interface(), &Value::Str(hello.client));
                format!("hello {} name {name}", hello.version)
            }
            Command::Call { method, receiver, args } => match self.numbering.method(method) {
                Some((_, method)) => {
                    let call = self.call(Some(receiver), &method.name, Some(&method.heading), args);
                    self.results(method.heading.numbers(), call)
                }
                None => {
                    self.results(1, format!("{}.? # method {} is none", self.reference(receiver), method.0))
                }
            },
            Command::Send { method, receiver, args } => {
                // Its one result is nil.
                self.futures += 1;
                match self.numbering.method(method) {
                    Some((_, method)) => {
                        format!(
                            "send {}",
                            self.call(Some(receiver), &method.name, Some(&method.heading), args)
                        )
                    }
                    None => format!("# send of method {}, which is none", method.0),
                }
            }
            Command::CallRoutine { routine, args } => match self.numbering.routine(routine) {
                Some(routine) => {
                    let call = self.call(None, &routine.name, Some(&routine.heading), args);
                    self.results(routine.heading.numbers(), call)
                }
                None => self.results(1, format!("? # routine {} is none", routine.0)),
            },
            Command::CallProcedure { procedure, args } => {
                let name =
                    self.procedures.get(procedure.0 as usize).cloned().unwrap_or_else(|| "?".to_owned());
                let call = self.call(None, &name, None, args);
                self.results(1, call)
            }
            Command::Lookup { name, expected } => {
                // A name that is no word is quoted.
                let is_word = name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
                    && name.bytes().next().is_some_and(|c| c.is_ascii_alphabetic());
                let name = match is_word {
                    true => name.to_owned(),
                    false => print::value(self.interface(), &Value::Str(name)),
                };
                let ty = expected.map_or(String::new(), |ty| format!(": {}", self.type_name(ty)));
                self.results(1, format!("lookup {name}{ty}"))
            }
            Command::Constant(value) => {
                let value = match value {
                    Value::Compound(compound) => {
                        let ty = self.type_name(compound.ty());
                        format!("value {ty} {}", self.compound(&compound, compound.ty()))
                    }
                    value => print::value(self.interface(), &value),
                };
                self.results(1, value)
            }
            Command::Cell { element } => self.results(1, format!("cell {}", self.type_name(element))),
            Command::Rows { columns } => {
                let columns: Vec<&str> = columns.iter().map(|ty| self.type_name(ty)).collect();
                self.results(1, format!("rows {}", columns.join(", ")))
            }
            Command::Emit { rows, values } => {
                let table = self.reference(rows);
                let values = values.iter().map(|value| self.argument(&value, TypeNumber::NONE));
                let items: Vec<String> = std::iter::once(table).chain(values).collect();
                self.futures += 1;
                format!("emit {}", items.join(", "))
            }
            Command::As { ty, object } => {
                let text = format!("{} as {}", self.reference(object), self.type_name(ty));
                self.results(1, text)
            }
            Command::Is { ty, object } => {
                let text = format!("{} is {}", self.reference(object), self.type_name(ty));
                self.results(1, text)
            }
            Command::Get { object } => self.results(1, format!("get {}", self.reference(object))),
            Command::Module { number, bytes } => format!("# module {}, {} bytes", number.0, bytes.len()),
            Command::Run(ModuleRun { module, export, expected, args }) => {
                let name = print::value(self.interface(), &Value::Str(export));
                let call = self.call(None, "", None, args);
                let ty = expected.map_or(String::new(), |ty| format!(": {}", self.type_name(ty)));
                self.futures += 1;
                format!("# @{} is module {} {name}{call}{ty}", self.futures, module.0)
            }
            Command::Free { handles, .. } => {
                let handles: Vec<String> = handles.iter().map(|handle| self.reference(handle)).collect();
                format!("# gives back {}", handles.join(", "))
            }
            Command::Flush { wanted, .. } => {
                let ranges: Vec<String> = wanted
                    .ranges()
                    .map(|(first, count)| match count {
                        1 => format!("@{first}"),
                        _ => format!("@{first} to @{}", first.saturating_add(count - 1)),
                    })
                    .collect();
                (self.futures, self.depth) = (0, 0);
                self.variables.clear();
                match ranges.is_empty() {
                    true => "flush".to_owned(),
                    false => format!("flush # wants {}", ranges.join(", ")),
                }
            }
            Command::Describe => "describe".to_owned(),
            Command::History => "history".to_owned(),
            Command::ClearHistory => "clear".to_owned(),
            Command::Transaction { tries, batch } => {
                let tries = if tries == 0 { String::new() } else { format!(" {tries}") };
                // The client's bits of the name are a secret.
                let batch = batch.map_or(String::new(), |batch| format!(" # batch {}", batch.number));
                self.results(1, format!("transaction{tries}{batch}"))
            }
            Command::Commit => self.results(1, "commit".to_owned()),
            Command::Abort => self.results(1, "abort".to_owned()),
            Command::Wait { ms } => self.results(1, format!("wait {ms}")),
            Command::Bye => "bye".to_owned(),
            Command::Profile { on: true } => "profile on".to_owned(),
            Command::Profile { on: false } => "profile off".to_owned(),
            Command::While => "while".to_owned(),
            Command::Do { test } => format!("do {}", self.reference(test)),
            Command::If => "if".to_owned(),
            Command::Then { test } => format!("then {}", self.reference(test)),
            Command::Else => "else".to_owned(),
            Command::Foreach => String::new(),
            Command::Break => "break".to_owned(),
            Command::Continue => "continue".to_owned(),
            Command::Except => "except".to_owned(),
            Command::When { name, values } => {
                let typed = self.typed(values.iter());
                if typed.is_empty() { format!("when {name}") } else { format!("when {name} ({typed})") }
            }
            Command::Others { named: true } => format!("others {}", self.variable()),
            Command::Others { named: false } => "others".to_owned(),
            Command::Procedure { name, params, result } => {
                if !self.procedures.iter().any(|known| known == name) {
                    self.procedures.push(name.to_owned());
                }
                let typed = self.typed(params.iter());
                let typed = if typed.is_empty() { typed } else { format!(" ({typed})") };
                let result = result.map_or(String::new(), |ty| format!(" returns {}", self.type_name(ty)));
                format!("procedure {name}{typed}{result}")
            }
            Command::Return(None) => "return".to_owned(),
            Command::Return(Some(value)) => format!("return {}", self.argument(&value, TypeNumber::NONE)),
            Command::EndWhile
            | Command::EndIf
            | Command::EndForeach
            | Command::EndExcept
            | Command::EndProcedure => "end".to_owned(),
        }
    }

    /// Returns a line that makes so many results, or the head of a loop over them.
    fn results(&mut self, count: u32, text: String) -> String {
        if std::mem::take(&mut self.iterates) {
            let variables: Vec<String> = (0..count).map(|_| self.variable()).collect();
            return format!("foreach {} in {text} do", variables.join(", "));
        }
        let first = self.futures + 1;
        self.futures += count;
        let targets: Vec<String> = (first..=self.futures).map(|position| format!("@{position}")).collect();
        format!("{} := {text}", targets.join(", "))
    }

    /// Names the next result as a variable.
    fn variable(&mut self) -> String {
        self.futures += 1;
        let name = format!("$x{}", self.futures);
        self.variables.insert(self.futures, name.clone());
        name
    }

    fn typed(&mut self, types: impl Iterator<Item = TypeNumber>) -> String {
        let typed: Vec<String> =
            types.map(|ty| format!("{}: {}", self.variable(), self.type_name(ty))).collect();
        typed.join(", ")
    }

    fn call(&self, receiver: Option<Ref>, name: &str, heading: Option<&Heading>, args: Args<'_>) -> String {
        let param =
            |at: usize| heading.and_then(|heading| heading.params.get(at)).map_or(TypeNumber::NONE, |p| p.ty);
        let args = args.iter().enumerate().map(|(at, arg)| self.argument(&arg, param(at)));
        let receiver = receiver.map_or(String::new(), |receiver| format!("{}.", self.reference(receiver)));
        format!("{receiver}{name}({})", args.collect::<Vec<_>>().join(", "))
    }

    fn reference(&self, reference: Ref) -> String {
        if let Some(earlier) = reference.as_earlier() {
            return format!("@{}^{}", earlier.position, earlier.back);
        }
        match reference.position() {
            Some(position) => {
                self.variables.get(&position).cloned().unwrap_or_else(|| format!("@{position}"))
            }
            None if reference.is_handle() => format!("h{}", reference.0),
            // It stands for a stub whose call was refused or has failed.
            None => "@0".to_owned(),
        }
    }

    /// Returns an argument for a place of a type.
    fn argument(&self, argument: &Arg<'_>, ty: TypeNumber) -> String {
        match argument {
            Arg::Ref(reference) => self.reference(*reference),
            Arg::Value(Value::Compound(compound)) => self.compound(compound, ty),
            Arg::Value(value) => print::value(self.interface(), value),
        }
    }

    /// Returns a compound of its own type, or else of that of its place.
    fn compound(&self, compound: &Compound<'_>, place: TypeNumber) -> String {
        let own = compound.ty();
        let ty = self.interface().ty(own).or_else(|| self.interface().ty(place));
        let items: Vec<Arg<'_>> = compound.iter().collect();
        let labelled = |at: usize, item: &Arg<'_>| match ty.and_then(|ty| ty.fields.get(at)) {
            Some(field) => format!("{}: {}", field.name, self.argument(item, field.ty)),
            None => self.argument(item, TypeNumber::NONE),
        };
        let items: Vec<String> = match (ty.and_then(|ty| ty.kind.shape()), items.as_slice()) {
            (Some(Shape::Choice), [Arg::Value(Value::Int(tag)), value]) => {
                vec![labelled(usize::try_from(*tag).unwrap_or(usize::MAX), value)]
            }
            (Some(Shape::Fields), items) => {
                items.iter().enumerate().map(|(at, item)| labelled(at, item)).collect()
            }
            (_, items) => {
                let element = ty.and_then(|ty| ty.element).unwrap_or(TypeNumber::NONE);
                items.iter().map(|item| self.argument(item, element)).collect()
            }
        };
        format!("{{{}}}", items.join(", "))
    }
}

/// The most bytes of a batch that are kept to be explained.
pub const EXPLAINED_BYTES: usize = 65_536;

/// The begin of a batch, at most [`EXPLAINED_BYTES`] of it.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    bytes: Vec<u8>,
    /// The number of bytes behind them.
    more: usize,
}

impl Kept {
    /// True if the batch has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds bytes of the batch.
    pub fn keep(&mut self, bytes: &[u8]) {
        let room = EXPLAINED_BYTES.saturating_sub(self.bytes.len());
        let some = bytes.get(..room).unwrap_or(bytes);
        self.bytes.extend_from_slice(some);
        self.more += bytes.len() - some.len();
    }

    /// Forgets the batch; its memory serves the next one.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.more = 0;
    }
}

/// The commands of a conversation's batch, and of the one before.
#[derive(Debug, Default)]
pub(super) struct Explained {
    now: Kept,
    last: Kept,
    /// The work and the failures of the last batch, if it is answered.
    ran: Option<(Counters, usize)>,
    /// The profile of the last batch, if its answer has one.
    profile: Option<OwnedProfile>,
    /// True if the line that is said ends the batch.
    ends: bool,
    /// The batches that were ended.
    number: u64,
}

impl Explained {
    /// Keeps the commands of a line.
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        self.now.keep(bytes);
        if std::mem::take(&mut self.ends) {
            self.number += 1;
            std::mem::swap(&mut self.now, &mut self.last);
            self.now.clear();
            (self.ran, self.profile) = (None, None);
        }
    }

    /// Notes that the line that is said ends the batch.
    pub(super) fn end(&mut self) {
        self.ends = true;
    }

    /// Notes the answer to the last batch.
    pub(super) fn ran(&mut self, counters: Counters, failures: usize, profile: Option<OwnedProfile>) {
        self.ran = Some((counters, failures));
        self.profile = profile;
    }

    /// Returns the batch, or the last one if it is empty.
    pub(super) fn text<'e>(&'e self, explainer: &mut Explainer<'e>) -> String {
        if self.now.is_empty() && self.number == 0 {
            return "# batch 1: nothing is recorded\n".to_owned();
        }
        let (number, batch, ran, profile) = match self.now.is_empty() {
            true => (self.number, &self.last, self.ran, self.profile.as_ref()),
            false => (self.number + 1, &self.now, None, None),
        };
        let mut ran = match ran {
            None => String::new(),
            Some((Counters { calls, fuel }, 0)) => format!(": {calls} calls run, fuel {fuel}"),
            Some((Counters { calls, fuel }, n)) => format!(": {calls} calls run, fuel {fuel}, {n} failures"),
        };
        if let Some(profile) = profile {
            let _ = write!(ran, ", {}", profile.totals);
        }
        format!("# batch {number}{ran}\n{}", explainer.kept(batch, profile))
    }
}
