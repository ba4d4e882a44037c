//! Sessions driven by scripts.
//!
//! A [`World`] is a program with its objects in a repository; a [`Client`] has a session over it and plays scripts. A line of a script is
//! a command; [`Client::play`] answers with what was sent back, as text:
//!
//! ```text
//! db = lookup db DataBase          % name = command; future numbers are kept here
//! e = DataBase.fetch db "ann"      % method of a type, receiver, arguments
//! d = new_database()               % routine: name and `()`, then arguments
//! p = proc 0 e                     % batched procedure number 0
//! c = cell int
//! n = int.add 1 2                  % a value as receiver is a constant made first; not after `foreach`
//! ...
//! flush e d                        % what is wanted; names of handles stay known afterwards
//! ```
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use bifrost_cache::{Cache, Options as CacheOptions, Schema};
use bifrost_engine::{Engine, LoadError, Mode, Nodes, Run};
use bifrost_repository::Repository;
use bifrost_repository::memory::Memory;
use bifrost_runtime::cx::Limits as CxLimits;
use bifrost_runtime::{Collect, Cx};
use bifrost_session::{Limits, Session, Tables, Welcome};
use bifrost_theta::{Colour, Options, Sources, compile, render_all};
use bifrost_wire::command::Hello;
use bifrost_wire::interface::{Heading, Numbering};
use bifrost_wire::{
    Arg, BatchName, DecodedReply, Earlier, ErrorNumber, MethodNumber, ModuleNumber, Outcome, OwnedCompound,
    OwnedProfile, OwnedValue, ProcedureNumber, Ref, Reply, RoutineNumber, TypeNumber, VERSION, decode_reply,
    encode, op,
};

pub mod bodies;
pub mod random;
pub mod show;
mod words;

use show::{exception, show};
use words::{Operand, split, tokens};

/// Functions of a module that tests call.
pub const GUEST: &str = include_str!("guest.wat");

/// The program that most tests use.
pub const WORLD: &str = include_str!("world.theta");

/// The ways to run a program: all interpreted, with compiled methods and interpreted structures (as special nodes, and as
/// general ones), with structures that become code while they run, and all compiled.
pub fn modes() -> Vec<Run> {
    let compiled = |hot_steps| Run { hot_steps, ..Mode::Compiled.into() };
    let general = Run { nodes: Nodes::General, ..compiled(u64::MAX) };
    vec![Mode::Interpreted.into(), compiled(u64::MAX), general, compiled(1), compiled(0)]
}

/// A program ready to run, whose objects may be kept; `None` if the mode is not linked into this build.
pub fn load(text: &str, run: impl Into<Run>) -> Option<&'static Tables> {
    let mut sources = Sources::new();
    sources.add("test.theta", text);
    let compilation = compile(&sources, &Options::default());
    let rendered = render_all(&sources, &compilation.diagnostics, Colour::Plain);
    let program = compilation.program.unwrap_or_else(|| panic!("{rendered}"));
    match Engine::new(program, Run { kept: true, ..run.into() }) {
        Ok(engine) => Some(Tables::new(engine)),
        Err(LoadError::Compiler(why)) if why == "not linked" => None,
        Err(e) => panic!("{e}"),
    }
}

/// The tables of [`WORLD`], made once for each way to run it, as a server does.
pub fn tables(run: impl Into<Run>) -> Option<&'static Tables> {
    static MADE: Mutex<Vec<(Run, Option<&'static Tables>)>> = Mutex::new(Vec::new());
    let run = run.into();
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, tables)) = made.iter().find(|(made, _)| *made == run) {
        return *tables;
    }
    let tables = load(WORLD, run);
    made.push((run, tables));
    tables
}

/// A program, and a repository with its objects.
pub struct World {
    pub tables: &'static Tables,
    pub limits: CxLimits,
    pub caching: CacheOptions,
    schema: Arc<Schema>,
    sessions: u64,
}

/// When heaps are collected: as usual, and at every allocation; or as `BIFROST_GC` says.
pub fn collections() -> Vec<Collect> {
    match std::env::var("BIFROST_GC") {
        Ok(asked) => vec![asked.parse().expect("a way to collect")],
        Err(_) => vec![Collect::Checked, Collect::Zeal(1)],
    }
}

/// Enough for the tests' own threads, which have 2 MiB of stack.
pub const STACK_BYTES: usize = 512 << 10;

impl World {
    pub fn new(run: impl Into<Run>) -> Option<World> {
        World::collected(run, collections()[0])
    }

    pub fn collected(run: impl Into<Run>, collect: Collect) -> Option<World> {
        let limits = CxLimits { stack_bytes: STACK_BYTES, collect, ..CxLimits::default() };
        tables(run).map(|t| World::of(t, limits))
    }

    /// With a repository of its own, which has what `setup` makes.
    pub fn of(tables: &'static Tables, limits: CxLimits) -> World {
        let world = World::over_limited(tables, Arc::new(Memory::new()), limits);
        world.set_up();
        world
    }

    /// Runs `setup`, if there is one, and commits what it makes.
    pub fn set_up(&self) {
        let engine = self.tables.engine();
        let Some(setup) = engine.find_entry("setup", 0) else { return };
        let (mut cx, cache) = self.context();
        // SAFETY: the context runs the engine's image; `setup` takes nothing.
        unsafe { engine.call(&mut cx, setup, &[]) }.expect("setup runs");
        cache.commit(&mut cx, None).expect("what can be stored");
    }

    /// Over a repository, with what it has.
    pub fn over(tables: &'static Tables, repository: Arc<dyn Repository>, collect: Collect) -> World {
        let limits = CxLimits { stack_bytes: STACK_BYTES, collect, ..CxLimits::default() };
        World::over_limited(tables, repository, limits)
    }

    /// The same, within limits.
    pub fn over_limited(tables: &'static Tables, repository: Arc<dyn Repository>, limits: CxLimits) -> World {
        let schema = Schema::new(tables.engine().image().clone(), repository).expect("classes as they were");
        World { tables, limits, caching: CacheOptions::default(), schema, sessions: 0 }
    }

    /// The classes of the repository.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// A context of its own over the repository.
    pub fn context(&self) -> (Box<Cx>, Cache) {
        let mut cx = Cx::new(self.tables.engine().image().clone(), self.limits, 1, || 0);
        cx.set_output(bifrost_runtime::cx::Output::Buffer(String::new()));
        let cache = Cache::open_with(&mut cx, self.schema.clone(), &self.caching);
        (cx, cache)
    }

    /// A client that has said `hello`.
    pub fn client(&mut self) -> Client {
        self.client_with(Limits::default())
    }

    pub fn client_with(&mut self, limits: Limits) -> Client {
        let mut client = self.stranger(limits);
        client.hello(VERSION);
        client
    }

    /// A client that has said nothing.
    pub fn stranger(&mut self, limits: Limits) -> Client {
        self.sessions += 1;
        let welcome = Welcome { server: "test".to_owned(), session: self.sessions };
        let (cx, cache) = self.context();
        Client {
            session: Session::new(self.tables, limits, welcome, cache),
            cx,
            numbering: self.tables.numbering(),
            names: HashMap::new(),
            next: 1,
            split: None,
            silent: matches!(self.limits.collect, Collect::Zeal(_)),
            pauses: 0,
            bytes: Vec::new(),
            profiles: Vec::new(),
            wanted: Vec::new(),
        }
    }
}

/// Runs a test in a fresh world of each mode, collected in each way.
pub fn each_mode(test: impl Fn(&mut World)) {
    for mode in modes() {
        for collect in collections() {
            if let Some(mut world) = World::collected(mode, collect) {
                test(&mut world);
            }
        }
    }
}

/// Plays a script in a fresh session of a fresh world of each mode, whole and byte by byte and collected in each way, and compares
/// what is sent back.
#[track_caller]
pub fn check(script: &str, expected: &str) {
    let usual = collections()[0];
    let ways = [None, Some(1), Some(7)].map(|split| (split, usual)).into_iter();
    let ways: Vec<_> = ways.chain(collections().into_iter().skip(1).map(|collect| (None, collect))).collect();
    for mode in modes() {
        for (split, collect) in &ways {
            let Some(mut world) = World::collected(mode, *collect) else { continue };
            let mut client = world.client();
            client.split = *split;
            let found = client.play(script);
            assert_text(&found, expected, &format!("{mode:?}, split {split:?}, {collect:?}"));
        }
    }
}

#[track_caller]
pub fn assert_text(found: &str, expected: &str, what: &str) {
    let lines =
        |t: &str| t.lines().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty()).collect::<Vec<_>>();
    let (f, e) = (lines(found), lines(expected));
    assert!(f == e, "({what})\nfound:\n{}\n\nexpected:\n{}\n", f.join("\n"), e.join("\n"));
}

/// Replies as text, a line for each.
pub fn replies(mut output: &[u8]) -> String {
    let mut text = String::new();
    while let Ok(DecodedReply::Reply(reply, used)) = decode_reply(output, usize::MAX) {
        let _ = writeln!(text, "{reply:?}");
        output = &output[used..];
    }
    text
}

/// A client: it records commands as a veneer does, and plays them into its session.
pub struct Client {
    pub session: Session,
    /// Where the session runs.
    pub cx: Box<Cx>,
    pub numbering: &'static Numbering,
    pub names: HashMap<String, Ref>,
    /// The next future's position.
    pub next: u32,
    /// Hands the session this many bytes more at a time; `None` for all at once.
    pub split: Option<usize>,
    /// Is silent for long after each batch.
    pub silent: bool,
    /// How often the session asked for a pause.
    pub pauses: u32,
    pub bytes: Vec<u8>,
    /// The profiles of the batches that were answered.
    pub profiles: Vec<Option<OwnedProfile>>,
    /// For each `flush` recorded, the names that are wanted with their positions.
    wanted: Vec<Vec<(String, u32)>>,
}

impl Client {
    pub fn hello(&mut self, version: u32) -> String {
        encode::hello(
            &mut self.bytes,
            &Hello { version, digest: [0; 32], token: "", client: "test", trace: None },
        );
        self.send()
    }

    /// Records a script, sends it, and tells the replies.
    #[track_caller]
    pub fn play(&mut self, script: &str) -> String {
        // Names of handles are known only after a reply, so each batch is sent before the next is recorded.
        let mut told = String::new();
        for line in script.lines() {
            let line = line.split('%').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            self.record(line);
            if line.starts_with("flush") || line == "bye" || line == "history" {
                told += &self.send();
            }
        }
        told += &self.send();
        told
    }

    /// Records a script without sending it.
    #[track_caller]
    pub fn record_all(&mut self, script: &str) {
        script.lines().map(str::trim).filter(|l| !l.is_empty()).for_each(|l| self.record(l));
    }

    /// Has the session execute the commands that are whole; returns the number of their bytes.
    pub fn handle(&mut self, bytes: &[u8]) -> usize {
        let mut done = self.session.handle(&mut self.cx, bytes);
        while self.session.has_more() {
            done += self.session.handle(&mut self.cx, &bytes[done..]);
        }
        done
    }

    /// Sends what was recorded and tells the replies.
    pub fn send(&mut self) -> String {
        let bytes = std::mem::take(&mut self.bytes);
        let step = self.split.unwrap_or(bytes.len()).max(1);
        let (mut done, mut end) = (0, 0);
        while end < bytes.len() {
            end = (end + step).min(bytes.len());
            // A copy of exactly what came, so that a read beyond it is found.
            let came = bytes[done..end].to_vec();
            done += self.handle(&came);
            while self.session.pause().is_some() {
                self.pauses += 1;
                done += self.handle(&bytes[done..end]);
            }
            assert!(done <= end);
        }
        let output = self.session.output().to_vec();
        self.session.clear_output();
        if self.silent {
            self.be_silent();
        }
        self.tell(&output)
    }

    /// Has the session let go of all that it can, and run in another context if it can.
    pub fn be_silent(&mut self) {
        self.session.let_go(&mut self.cx);
        if self.session.leave(&self.cx) {
            let printed = self.cx.take_output();
            self.cx = Cx::new(self.cx.image().clone(), *self.cx.limits(), 1, || 0);
            self.cx.set_output(bifrost_runtime::cx::Output::Buffer(printed));
            self.session.cache().enter(&mut self.cx);
        }
    }

    /// The replies as text; learns the handles in them.
    pub fn tell(&mut self, mut output: &[u8]) -> String {
        let mut told = String::new();
        while !output.is_empty() {
            match decode_reply(output, usize::MAX).expect("the session's replies are well formed") {
                DecodedReply::Reply(reply, used) => {
                    self.tell_one(&reply, &mut told);
                    output = &output[used..];
                }
                DecodedReply::NeedMore(_) => panic!("half a reply"),
            }
        }
        told
    }

    fn tell_one(&mut self, reply: &Reply<'_>, told: &mut String) {
        let interface = self.numbering.interface();
        match reply {
            Reply::Welcome(w) => {
                let _ = writeln!(told, "welcome {}", w.session);
            }
            Reply::Farewell => told.push_str("farewell\n"),
            Reply::Interface(json) => {
                assert_eq!(*json, interface.to_json());
                told.push_str("interface\n");
            }
            Reply::Error { number, position, text } => {
                let name = ErrorNumber::from_number(*number).map_or("?", ErrorNumber::name);
                let _ = writeln!(told, "error {name} at {position}: {text}");
            }
            Reply::Exceptions(list) => {
                for (batch, e) in list.iter() {
                    let rounds: Vec<u32> = e.iterations().collect();
                    let _ =
                        writeln!(told, "history {batch}, {}", exception(interface, e.call, &rounds, &e.kind));
                }
                if list.omitted > 0 {
                    let _ = writeln!(told, "omitted {}", list.omitted);
                }
            }
            Reply::Flushed(f) => {
                self.profiles.push(f.profile.map(OwnedProfile::from));
                let wanted = if self.wanted.is_empty() { Vec::new() } else { self.wanted.remove(0) };
                self.names.retain(|_, r| r.is_handle());
                self.next = 1;
                let exceptions: Vec<_> = f.exceptions().collect();
                let mut positions: Vec<u32> = wanted.iter().map(|(_, p)| *p).collect();
                positions.sort_unstable();
                positions.dedup();
                let outcomes: Vec<_> = f.outcomes().collect();
                assert_eq!(outcomes.len(), positions.len(), "one outcome for each wanted future");
                for (name, position) in &wanted {
                    let outcome = outcomes[positions.binary_search(position).expect("it is there")];
                    if let Outcome::Handle { handle, .. } = outcome {
                        self.names.insert(name.clone(), handle);
                    }
                    let text = match outcome {
                        Outcome::Exception(i) => format!("exception of -{}", exceptions[i as usize].call),
                        other => show(interface, &other),
                    };
                    let _ = writeln!(told, "{name} = {text}");
                }
                for e in &exceptions {
                    let rounds: Vec<u32> = e.iterations().collect();
                    let _ = writeln!(told, "{}", exception(interface, e.call, &rounds, &e.kind));
                }
                if f.omitted > 0 {
                    let _ = writeln!(told, "omitted {}", f.omitted);
                }
                if wanted.is_empty() && exceptions.is_empty() {
                    told.push_str("done\n");
                }
            }
        }
    }

    /// Records one line.
    #[track_caller]
    pub fn record(&mut self, line: &str) {
        let line = line.split('%').next().unwrap_or("").trim();
        if line.is_empty() {
            return;
        }
        let (targets, command) = match line.split_once(" = ") {
            Some((names, rest)) => (names.split(',').map(|n| n.trim().to_owned()).collect(), rest),
            None => (Vec::new(), line),
        };
        let tokens = tokens(command);
        let first = tokens[0].as_str();
        let rest: Vec<&str> = tokens[1..].iter().map(String::as_str).collect();
        let made = self.command(first, &rest);
        for (i, name) in targets.iter().enumerate() {
            let position = self.next + i as u32;
            self.names.insert(name.clone(), Ref::future(position));
        }
        self.next += made;
    }

    /// Appends a command, and says how many future numbers it takes.
    #[track_caller]
    fn command(&mut self, first: &str, rest: &[&str]) -> u32 {
        let plain = |client: &mut Client, code| {
            encode::plain(&mut client.bytes, code);
            0
        };
        match first {
            "lookup" => {
                let expected = rest.get(1).map(|t| self.ty(t));
                encode::lookup(&mut self.bytes, rest[0], expected);
                1
            }
            "const" => {
                let Operand::Value(value) = self.operand(rest[0]) else { panic!("a value: {}", rest[0]) };
                encode::constant(&mut self.bytes, &value.view());
                1
            }
            "get" => {
                let object = self.reference(rest[0]);
                encode::get(&mut self.bytes, object);
                1
            }
            "cell" => {
                let ty = self.ty(rest[0]);
                encode::cell(&mut self.bytes, ty);
                1
            }
            // `transaction`, `transaction TRIES` or `transaction TRIES batch NUMBER`.
            "transaction" => {
                let tries = rest.first().map_or(0, |tries| tries.parse().expect("a number of tries"));
                let number = rest.get(2).map(|number| number.parse().expect("a number of a batch"));
                let batch = number.map(|number| BatchName { client: 7, number });
                encode::transaction(&mut self.bytes, tries, batch);
                1
            }
            "commit" | "abort" => {
                plain(self, if first == "commit" { op::COMMIT } else { op::ABORT });
                1
            }
            "rows" => {
                let types: Vec<TypeNumber> = rest.iter().map(|t| self.ty(t)).collect();
                encode::rows(&mut self.bytes, types.into_iter());
                1
            }
            "emit" => {
                let table = self.reference(rest[0]);
                let operands: Vec<Operand> = rest[1..].iter().map(|t| self.operand(t)).collect();
                let args: Vec<Arg<'_>> = operands.iter().map(Operand::arg).collect();
                encode::emit(&mut self.bytes, table, &args);
                1
            }
            // `as OBJECT TYPE`
            "as" => {
                let (object, ty) = (self.reference(rest[0]), self.ty(rest[1]));
                encode::cast(&mut self.bytes, ty, object);
                1
            }
            "is" => {
                let (object, ty) = (self.reference(rest[0]), self.ty(rest[1]));
                encode::test_type(&mut self.bytes, ty, object);
                1
            }
            "free" => {
                let refs: Vec<Ref> = rest.iter().map(|n| self.reference(n)).collect();
                encode::free(&mut self.bytes, &refs, 0);
                0
            }
            "flush" => {
                // `flush quiet`, or `flush kept` with a number of unanswered batches.
                let quiet = rest.first() == Some(&"quiet");
                let kept: Option<u8> = match rest {
                    ["kept", unanswered, ..] => Some(unanswered.parse().expect("a number of batches")),
                    _ => None,
                };
                let names = &rest[usize::from(quiet) + 2 * usize::from(kept.is_some())..];
                let wanted: Vec<(String, u32)> = names
                    .iter()
                    .map(|n| ((*n).to_owned(), self.reference(n).position().expect("a future")))
                    .collect();
                let mut positions: Vec<u32> = wanted.iter().map(|(_, p)| *p).collect();
                positions.sort_unstable();
                match kept {
                    Some(unanswered) => encode::flush_kept(&mut self.bytes, positions, unanswered),
                    None => encode::flush(&mut self.bytes, positions, quiet),
                }
                self.wanted.push(wanted);
                0
            }
            "describe" => plain(self, op::DESCRIBE),
            "bye" => plain(self, op::BYE),
            "history" => {
                encode::history(&mut self.bytes, false);
                0
            }
            "clear_history" => {
                encode::history(&mut self.bytes, true);
                0
            }
            "profile" => {
                encode::profile(&mut self.bytes, rest[0] == "on");
                0
            }
            "while" => plain(self, op::WHILE),
            "end_while" => plain(self, op::END_WHILE),
            "if" => plain(self, op::IF),
            "else" => plain(self, op::ELSE),
            "end_if" => plain(self, op::END_IF),
            "foreach" => plain(self, op::FOREACH),
            "end_foreach" => plain(self, op::END_FOREACH),
            "break" => plain(self, op::BREAK),
            "continue" => plain(self, op::CONTINUE),
            "except" => plain(self, op::EXCEPT),
            "end_except" => plain(self, op::END_EXCEPT),
            "end_procedure" => plain(self, op::END_PROCEDURE),
            "do" => {
                let test = self.reference(rest[0]);
                encode::loop_body(&mut self.bytes, test);
                0
            }
            "then" => {
                let test = self.reference(rest[0]);
                encode::then(&mut self.bytes, test);
                0
            }
            "when" => {
                let types: Vec<TypeNumber> = rest[1..].iter().map(|t| self.ty(t)).collect();
                encode::when(&mut self.bytes, rest[0], types.iter().copied());
                types.len() as u32
            }
            "others" => {
                let named = rest.first() == Some(&"named");
                encode::others(&mut self.bytes, named);
                u32::from(named)
            }
            "procedure" => {
                let arrow = rest.iter().position(|t| *t == "->").unwrap_or(rest.len());
                let types: Vec<TypeNumber> = rest[1..arrow].iter().map(|t| self.ty(t)).collect();
                let result = rest.get(arrow + 1).map(|t| self.ty(t));
                encode::procedure(&mut self.bytes, rest[0], types.iter().copied(), result);
                types.len() as u32
            }
            "return" => {
                let value = rest.first().map(|t| self.operand(t));
                let arg = value.as_ref().map(Operand::arg);
                encode::return_(&mut self.bytes, arg.as_ref());
                0
            }
            "proc" => {
                let number = ProcedureNumber(rest[0].parse().expect("a number"));
                let operands: Vec<Operand> = rest[1..].iter().map(|t| self.operand(t)).collect();
                let args: Vec<Arg<'_>> = operands.iter().map(Operand::arg).collect();
                encode::call_procedure(&mut self.bytes, number, &args);
                1
            }
            // The number of the module, the name of the function, the type of its result or `-`.
            "run" => {
                let operands: Vec<Operand> = rest[3..].iter().map(|t| self.operand(t)).collect();
                let args: Vec<Arg<'_>> = operands.iter().map(Operand::arg).collect();
                let expected = (rest[2] != "-").then(|| self.ty(rest[2]));
                let module = ModuleNumber(rest[0].parse().expect("a number"));
                encode::run(&mut self.bytes, module, rest[1], expected, &args);
                1
            }
            _ => self.call(first, rest),
        }
    }

    #[track_caller]
    fn call(&mut self, first: &str, rest: &[&str]) -> u32 {
        let numbering = self.numbering;
        let count = |h: &Heading| (h.yields.as_ref().unwrap_or(&h.results).len() as u32).max(1);
        if let Some(name) = first.strip_suffix("()") {
            let number = match name.strip_prefix('#') {
                Some(raw) => RoutineNumber(raw.parse().expect("a number")),
                None => numbering.find_routine(name).unwrap_or_else(|| panic!("no routine `{name}`")),
            };
            let operands: Vec<Operand> = rest.iter().map(|t| self.operand(t)).collect();
            let args: Vec<Arg<'_>> = operands.iter().map(Operand::arg).collect();
            encode::call_routine(&mut self.bytes, number, &args);
            return numbering.routine(number).map_or(1, |r| count(&r.heading));
        }
        let number = match first.strip_prefix('#') {
            Some(raw) => MethodNumber(raw.parse().expect("a number")),
            None => {
                let (ty, method) =
                    first.rsplit_once('.').unwrap_or_else(|| panic!("`{first}` is no command"));
                let ty = self.ty(ty);
                numbering.find_method(ty, method).unwrap_or_else(|| panic!("no method `{first}`"))
            }
        };
        let receiver = match words::value(rest[0]) {
            Some(value) => {
                encode::constant(&mut self.bytes, &value.view());
                self.next += 1;
                Ref::future(self.next - 1)
            }
            None => self.reference(rest[0]),
        };
        let operands: Vec<Operand> = rest[1..].iter().map(|t| self.operand(t)).collect();
        let args: Vec<Arg<'_>> = operands.iter().map(Operand::arg).collect();
        encode::call(&mut self.bytes, number, receiver, &args);
        numbering.method(number).map_or(1, |(_, m)| count(&m.heading))
    }

    #[track_caller]
    pub fn ty(&self, name: &str) -> TypeNumber {
        match name.strip_prefix('#') {
            Some(raw) => TypeNumber(raw.parse().expect("a number")),
            None => self.numbering.find_type(name).unwrap_or_else(|| panic!("no type `{name}`")),
        }
    }

    /// A name's reference; `#n` is the number n itself.
    #[track_caller]
    pub fn reference(&self, name: &str) -> Ref {
        // `@1.3` is the third result of the batch before.
        if let Some((back, position)) = name.strip_prefix('@').and_then(|name| name.split_once('.')) {
            let number = |text: &str| text.parse::<u32>().expect("a number");
            return Ref::earlier(Earlier { back: number(back) as u8, position: number(position) });
        }
        match name.strip_prefix('#') {
            Some(raw) => Ref(raw.parse().expect("a number")),
            None => *self.names.get(name).unwrap_or_else(|| panic!("nothing is called `{name}`")),
        }
    }

    #[track_caller]
    fn operand(&self, token: &str) -> Operand {
        // `{1; {2; x}}`, or `point{1; 2}` with a type.
        if let Some((ty, items)) = token.strip_suffix('}').and_then(|token| token.split_once('{')) {
            let ty = if ty.is_empty() { TypeNumber::NONE } else { self.ty(ty) };
            let items: Vec<Operand> = split(items).iter().map(|item| self.operand(item)).collect();
            let items: Vec<Arg<'_>> = items.iter().map(Operand::arg).collect();
            return Operand::Value(OwnedValue::Compound(OwnedCompound::new(ty, &items)));
        }
        match words::value(token) {
            Some(value) => Operand::Value(value),
            None => Operand::Ref(self.reference(token)),
        }
    }
}
