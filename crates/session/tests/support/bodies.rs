//! The bodies of the fuzz targets, which ordinary tests run for a few seconds too.

use std::collections::VecDeque;

use bifrost_session::Limits;
use bifrost_wire::interface::{Interface, Kind};
use bifrost_wire::{
    Arg, Command, Decoded, DecodedReply, Earlier, ErrorNumber, ExceptionKind, Limit, MethodNumber, Outcome,
    OwnedCompound, ProcedureNumber, Ref, Reply, RoutineNumber, TypeNumber, Value, decode, decode_call,
    decode_reply, encode, op,
};

use super::{Client, World};
use bifrost_engine::Run;

/// Where choices come from: a fuzzer's bytes, and zeros when they are used up.
#[derive(Debug)]
pub struct Choices<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Choices<'a> {
    pub fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices { bytes, at: 0 }
    }

    fn over(&self) -> bool {
        self.at >= self.bytes.len()
    }

    fn byte(&mut self) -> u8 {
        self.at += 1;
        self.bytes.get(self.at - 1).copied().unwrap_or(0)
    }

    fn below(&mut self, n: usize) -> usize {
        let word = usize::from(self.byte()) | usize::from(if n > 256 { self.byte() } else { 0 }) << 8;
        word % n.max(1)
    }

    /// True once in `n` times, and never when the bytes are used up.
    fn rarely(&mut self, n: usize) -> bool {
        !self.over() && self.below(n) == n - 1
    }
}

/// Whatever the bytes are: what decodes is encoded to the same bytes, and what is not whole says so.
pub fn wire_decode(data: &[u8]) {
    let mut at = 0;
    while at < data.len() {
        let found = decode(&data[at..], 1 << 16);
        let call = match found {
            Ok(Decoded::Command(Command::Call { method, receiver, args }, used)) => {
                Some((method, receiver, args, used))
            }
            _ => None,
        };
        // As text: NaN is not equal to itself.
        assert_eq!(format!("{:?}", decode_call(&data[at..], 1 << 16)), format!("{call:?}"));
        match found {
            Ok(Decoded::Command(command, used)) => {
                let mut again = Vec::new();
                encode::command(&mut again, &command);
                assert_eq!(again, data[at..at + used], "{command:?}");
                for shorter in [0, used / 2, used - 1] {
                    let Ok(Decoded::NeedMore(n)) = decode(&data[at..at + shorter], 1 << 16) else {
                        panic!("a part of {command:?} is something else")
                    };
                    assert!(shorter < n && n <= used);
                }
                at += used;
            }
            Ok(Decoded::NeedMore(n)) => {
                assert!(n > data.len() - at);
                break;
            }
            Err(_) => break,
        }
    }
    match decode_reply(data, 1 << 16) {
        Ok(DecodedReply::Reply(reply, used)) => {
            let mut again = Vec::new();
            encode::reply(&mut again, &reply);
            // Limits of later versions are read and not written.
            if !matches!(reply, Reply::Welcome(_)) {
                assert_eq!(again, data[..used], "{reply:?}");
            }
        }
        Ok(DecodedReply::NeedMore(n)) => assert!(n > data.len()),
        Err(_) => {}
    }
}

/// Small enough that nothing takes long.
fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.set(Limit::Fuel, 500);
    limits.set(Limit::BatchCommands, 400);
    limits.set(Limit::Futures, 300);
    limits.set(Limit::Handles, 30);
    limits.set(Limit::ReplyBytes, 4000);
    limits.set(Limit::Exceptions, 20);
    limits.set(Limit::Depth, 8);
    limits.set(Limit::Rows, 100);
    limits.set(Limit::ProcedureDepth, 200);
    limits
}

fn world(run: Run) -> Option<World> {
    let limits = bifrost_runtime::cx::Limits {
        heap_bytes: 32 << 20,
        batch_heap_bytes: 1 << 20,
        stack_bytes: STACK_BYTES,
        ..Default::default()
    };
    super::tables(run).map(|tables| World::of(tables, limits))
}

/// What takes long on purpose.
const TOO_LONG: &[&str] = &["forever", "eat", "swallow", "deep", "text_of", "shout"];

/// Plays batches made of `data` in a session. Whatever they are: the session answers each flush well, keeps the
/// client's numbering, works afterwards, and does not care how the bytes were cut. Gives what the session said.
///
/// Runs on a stack of its own, so that the limits of recursion are reached in the same way everywhere.
pub fn batch_check(data: &[u8], run: Run) -> Option<Vec<u8>> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(2 * STACK_BYTES);
        let thread = thread.spawn_scoped(scope, || batch_check_here(data, run)).expect("a thread");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Enough for all the batched procedures that may call each other, in debug builds too.
const STACK_BYTES: usize = 32 << 20;

fn batch_check_here(data: &[u8], run: Run) -> Option<Vec<u8>> {
    let mut world = world(run)?;
    let mut choices = Choices::new(data);
    let mut client = world.client_with(limits());
    let mut maker = Maker::new(&client);
    let mut sent = Vec::new();
    let mut said = Vec::new();
    while !choices.over() && !client.session.ended() {
        let marker = maker.batch(&mut choices);
        let bytes = std::mem::take(&mut maker.out);
        sent.extend_from_slice(&bytes);
        let used = client.handle(&bytes);
        assert!(used == bytes.len() || client.session.ended(), "{used} of {}", bytes.len());
        let output = client.session.output().to_vec();
        client.session.clear_output();
        said.extend_from_slice(&output);
        maker.learn(&output, marker);
    }
    let mut other = world.client_with(limits());
    assert_eq!(deliver(&mut other, &sent, &mut choices), said, "cut into pieces, it is another");
    for client in [&mut client, &mut other, &mut world.client_with(limits())] {
        probe(client);
    }
    Some(said)
}

fn deliver(client: &mut Client, sent: &[u8], choices: &mut Choices<'_>) -> Vec<u8> {
    let mut said = Vec::new();
    let (mut done, mut end, mut step) = (0, 0, 3);
    while end < sent.len() && !client.session.ended() {
        step = (step * 7 + 1 + choices.below(9)) % 61 + 1;
        end = (end + step).min(sent.len());
        // A copy of its own: reading beyond it is found by tools that watch allocations.
        let piece: Box<[u8]> = sent[done..end].into();
        done += client.handle(&piece);
        said.extend_from_slice(client.session.output());
        client.session.clear_output();
    }
    said
}

fn probe(client: &mut Client) {
    if client.session.ended() {
        return;
    }
    client.next = 1;
    let script = "t = lookup tally Tally\n x = Tally.reset t\n y = Tally.add t 2\n if\n c = int.gt y 1\n then c\n b = Tally.bump t\n end_if\n v = Tally.value t\n z = int.mul v 14\n flush z";
    // Objects stay in the heap: a world that is full says so, and is not broken.
    let told = client.play(script);
    assert!(told == "z = 42\n" || told.contains("out of memory") || told.contains("HeapLimit"), "{told}");
}

/// What is open in the batch being made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Open {
    While,
    WhileBody,
    If,
    Then,
    Else,
    Foreach,
    Except,
    Handler,
    Procedure,
}

/// Makes batches that are mostly right.
struct Maker {
    interface: Interface,
    methods: Vec<(TypeNumber, usize)>,
    out: Vec<u8>,
    /// The next future's position.
    next: u32,
    /// What can be named, and its type.
    known: Vec<(Ref, TypeNumber)>,
    handles: Vec<(Ref, TypeNumber)>,
    open: Vec<(Open, usize)>,
    procedures: Vec<Vec<TypeNumber>>,
    defining: Option<Vec<TypeNumber>>,
    /// The tables of the batch.
    tables: Vec<(Ref, Vec<TypeNumber>)>,
    /// Results of the last five batches, the newest first, kept by the server or not.
    earlier: VecDeque<Vec<(u32, TypeNumber)>>,
}

const MARK: i64 = 0x5eed;

impl Maker {
    fn new(client: &Client) -> Maker {
        let interface = client.numbering.interface().clone();
        let all = interface.types.iter().enumerate();
        let methods =
            all.flat_map(|(t, ty)| (0..ty.methods.len()).map(move |m| (TypeNumber(t as u32), m))).collect();
        Maker {
            interface,
            methods,
            out: Vec::new(),
            next: 1,
            known: Vec::new(),
            handles: Vec::new(),
            open: Vec::new(),
            procedures: Vec::new(),
            defining: None,
            tables: Vec::new(),
            earlier: VecDeque::new(),
        }
    }

    fn ty(&self, name: &str) -> TypeNumber {
        self.interface.find_type(name).expect("the world has it")
    }

    fn define(&mut self, ty: TypeNumber) {
        self.known.push((Ref::future(self.next), ty));
        self.next += 1;
    }

    /// A batch with its flush; gives the position of a marker that the reply must have at this number.
    fn batch(&mut self, choices: &mut Choices<'_>) -> (u32, Vec<u32>) {
        self.next = 1;
        self.known = self.handles.clone();
        for (back, results) in (1..).zip(&self.earlier) {
            let named = results.iter().map(|(position, ty)| (Earlier { back, position: *position }, *ty));
            self.known.extend(named.map(|(earlier, ty)| (Ref::earlier(earlier), ty)));
        }
        self.open.clear();
        self.tables.clear();
        for (name, ty) in [
            ("tally", "Tally"),
            ("db", "DataBase"),
            ("square", "Square"),
            ("values", "Values"),
            ("rectangle", "Shape"),
        ] {
            let ty = self.ty(ty);
            encode::lookup(&mut self.out, name, Some(ty));
            self.define(ty);
        }
        for _ in 0..4 + choices.below(40) {
            self.command(choices);
        }
        while !self.open.is_empty() {
            if choices.rarely(60) {
                break;
            }
            self.close();
        }
        self.open.clear();
        let marker = self.next;
        encode::constant(&mut self.out, &Value::Int(MARK));
        let tables: Vec<u32> = self.tables.iter().filter_map(|(table, _)| table.position()).collect();
        let mut wanted: Vec<u32> = (1..marker).filter(|p| choices.rarely(8) || tables.contains(p)).collect();
        wanted.push(marker);
        wanted.retain(|p| *p <= 300);
        if choices.rarely(3) {
            encode::flush_kept(&mut self.out, wanted.iter().copied(), choices.below(4) as u8);
        } else {
            encode::flush(&mut self.out, wanted.iter().copied(), choices.rarely(4));
        }
        let result = |(reference, ty): &(Ref, TypeNumber)| Some((reference.position()?, *ty));
        let results = self.known.iter().filter_map(result).filter(|(at, _)| wanted.contains(at));
        self.earlier.push_front(results.collect());
        self.earlier.truncate(5);
        (marker, wanted)
    }

    /// Ends the innermost structure.
    fn close(&mut self) {
        let Some((open, known)) = self.open.pop() else { return };
        let truth = |maker: &mut Maker| {
            encode::constant(&mut maker.out, &Value::Bool(false));
            maker.next += 1;
            Ref::future(maker.next - 1)
        };
        match open {
            Open::While => {
                let test = truth(self);
                encode::loop_body(&mut self.out, test);
                encode::plain(&mut self.out, op::END_WHILE);
            }
            Open::If => {
                let test = truth(self);
                encode::then(&mut self.out, test);
                encode::plain(&mut self.out, op::END_IF);
            }
            Open::WhileBody => encode::plain(&mut self.out, op::END_WHILE),
            Open::Then | Open::Else => encode::plain(&mut self.out, op::END_IF),
            Open::Foreach => encode::plain(&mut self.out, op::END_FOREACH),
            Open::Except | Open::Handler => encode::plain(&mut self.out, op::END_EXCEPT),
            Open::Procedure => {
                encode::return_(&mut self.out, Some(&Arg::Value(Value::Int(1))));
                encode::plain(&mut self.out, op::END_PROCEDURE);
                let params = self.defining.take().unwrap_or_default();
                self.procedures.push(params);
            }
        }
        self.known.truncate(known);
    }

    fn open(&mut self, open: Open) {
        self.open.push((open, self.known.len()));
    }

    fn command(&mut self, choices: &mut Choices<'_>) {
        let innermost = self.open.last().map(|(o, _)| *o);
        match choices.below(45) {
            42..=44 if innermost.is_none() || choices.rarely(20) => {
                // The result can only be wanted.
                let (object, _) = self.known[choices.below(self.known.len())];
                encode::get(&mut self.out, object);
                self.next += 1;
            }
            0..=11 => self.call(choices, None),
            12 | 13 => self.routine(choices),
            14 => {
                let ty = ["int", "bool", "string", "DataElem", "Shape"][choices.below(5)];
                let ty = self.ty(ty);
                encode::cell(&mut self.out, ty);
                let cell = self.interface.find_kind(Kind::Cell, Some(ty)).expect("cells of what is seen");
                self.define(cell);
            }
            15 | 16 => {
                let (value, ty) = self.basic(choices);
                encode::constant(&mut self.out, &value);
                self.define(ty);
            }
            17 if innermost.is_none() => {
                let params: Vec<TypeNumber> = (0..choices.below(3))
                    .map(|i| self.ty(["int", "Shape", "Tally"][(i + choices.below(3)) % 3]))
                    .collect();
                let int = self.ty("int");
                encode::procedure(&mut self.out, "p", params.iter().copied(), Some(int));
                self.open(Open::Procedure);
                params.iter().for_each(|p| self.define(*p));
                self.defining = Some(params);
            }
            18 => {
                let recursive = usize::from(self.defining.is_some());
                let number = choices.below(self.procedures.len() + recursive + 1);
                let params =
                    self.procedures.get(number).or(self.defining.as_ref()).cloned().unwrap_or_default();
                let args: Vec<Arg<'static>> = params.iter().map(|p| self.operand(*p, choices)).collect();
                encode::call_procedure(&mut self.out, ProcedureNumber(number as u32), &args);
                let int = self.ty("int");
                self.define(int);
            }
            19 => {
                encode::plain(&mut self.out, op::WHILE);
                self.open(Open::While);
            }
            20 => {
                encode::plain(&mut self.out, op::IF);
                self.open(Open::If);
            }
            21 | 22 => {
                encode::plain(&mut self.out, op::FOREACH);
                self.open(Open::Foreach);
                self.call(choices, Some(()));
            }
            23 => {
                encode::plain(&mut self.out, op::EXCEPT);
                self.open(Open::Except);
            }
            24..=28 => match innermost {
                Some(Open::While | Open::If) => {
                    let bool = self.ty("bool");
                    let test = self.find(bool, choices).unwrap_or(Ref::future(self.next.saturating_sub(1)));
                    let top = self.open.len() - 1;
                    if innermost == Some(Open::While) {
                        encode::loop_body(&mut self.out, test);
                        self.open[top].0 = Open::WhileBody;
                    } else {
                        encode::then(&mut self.out, test);
                        self.open[top].0 = Open::Then;
                    }
                }
                Some(Open::Then) if choices.rarely(2) => {
                    encode::plain(&mut self.out, op::ELSE);
                    let top = self.open.len() - 1;
                    self.open[top].0 = Open::Else;
                }
                Some(Open::Except | Open::Handler) if choices.rarely(2) => {
                    let top = self.open.len() - 1;
                    self.known.truncate(self.open[top].1);
                    self.open[top].0 = Open::Handler;
                    match choices.below(5) {
                        4 => encode::when(&mut self.out, "wrong_type", [].into_iter()),
                        0 => {
                            let int = self.ty("int");
                            encode::when(&mut self.out, "negative", [int].into_iter());
                            self.define(int);
                        }
                        1 => encode::when(&mut self.out, "zero", [].into_iter()),
                        2 => encode::when(&mut self.out, "not_possible", [].into_iter()),
                        _ => {
                            encode::others(&mut self.out, true);
                            let string = self.ty("string");
                            self.define(string);
                        }
                    }
                }
                _ => self.close(),
            },
            29 => {
                let inside = self.open.iter().any(|(o, _)| matches!(o, Open::WhileBody | Open::Foreach));
                if inside || choices.rarely(20) {
                    encode::plain(&mut self.out, if choices.rarely(2) { op::BREAK } else { op::CONTINUE });
                }
            }
            30 if !self.handles.is_empty() && choices.rarely(3) => {
                let (handle, _) = self.handles.swap_remove(choices.below(self.handles.len()));
                encode::free(&mut self.out, &[handle], choices.below(3) as u8);
            }
            32 | 33 if innermost.is_none() || choices.rarely(20) => self.rows(choices),
            34..=37 => self.emit(choices),
            38..=40 => {
                let (object, _) = self.known[choices.below(self.known.len())];
                let seen = ["Shape", "Square", "Tally", "int", "any", "string"][choices.below(6)];
                let seen = self.ty(seen);
                let bool = self.ty("bool");
                if choices.rarely(3) {
                    encode::test_type(&mut self.out, seen, object);
                    self.define(bool);
                } else {
                    encode::cast(&mut self.out, seen, object);
                    self.define(seen);
                }
            }
            31 if choices.rarely(10) => {
                let codes = [
                    op::END_WHILE,
                    op::END_IF,
                    op::ELSE,
                    op::END_FOREACH,
                    op::DESCRIBE,
                    op::HISTORY,
                    op::END_PROCEDURE,
                ];
                encode::plain(&mut self.out, codes[choices.below(codes.len())]);
            }
            _ => {}
        }
    }

    fn rows(&mut self, choices: &mut Choices<'_>) {
        let names = [
            "int",
            "string",
            "Shape",
            "DataElem",
            "bool",
            "any",
            "real",
            "cell[int]",
            "struct[x: int, name: string]",
            "sequence[int]",
        ];
        let columns: Vec<TypeNumber> =
            (0..1 + choices.below(3)).map(|_| self.ty(names[choices.below(names.len())])).collect();
        encode::rows(&mut self.out, columns.iter().copied());
        self.tables.push((Ref::future(self.next), columns));
        self.next += 1;
    }

    fn emit(&mut self, choices: &mut Choices<'_>) {
        let Some((table, columns)) = self.tables.last().cloned() else { return };
        let cells: Vec<Arg<'static>> = columns.iter().map(|ty| self.operand(*ty, choices)).collect();
        encode::emit(&mut self.out, table, &cells);
        self.next += 1;
    }

    fn basic(&self, choices: &mut Choices<'_>) -> (Value<'static>, TypeNumber) {
        let int = choices.below(12) as i64 - 3;
        match choices.below(9) {
            0..=4 => (Value::Int(int), self.ty("int")),
            5 => (Value::Bool(int > 2), self.ty("bool")),
            6 => (Value::Str(["", "ann", "zoë"][choices.below(3)]), self.ty("string")),
            7 => (Value::Real(int as f64 / 2.0), self.ty("real")),
            _ => (Value::Int([i64::MAX, i64::MIN][choices.below(2)]), self.ty("int")),
        }
    }

    /// Something of that type that can be named here.
    fn find(&self, ty: TypeNumber, choices: &mut Choices<'_>) -> Option<Ref> {
        let basic = |t: TypeNumber| {
            matches!(
                self.interface.ty(t).map(|t| t.kind),
                Some(Kind::Null | Kind::Bool | Kind::Int | Kind::Real | Kind::Char)
            )
        };
        let all: Vec<Ref> = self
            .known
            .iter()
            .filter(|(_, t)| *t == ty || (!basic(*t) && self.interface.is_subtype(*t, ty)))
            .map(|(r, _)| *r)
            .collect();
        (!all.is_empty()).then(|| all[choices.below(all.len())])
    }

    fn operand(&self, ty: TypeNumber, choices: &mut Choices<'_>) -> Arg<'static> {
        if choices.rarely(120) {
            let odd = [0, 1, -1, i64::MIN, i64::MAX, -200, 1 << 32 | 3, -i64::from(self.next)];
            return Arg::Ref(Ref(odd[choices.below(odd.len())]));
        }
        if let Some(found) = self.find(ty, choices)
            && !choices.rarely(4)
        {
            return Arg::Ref(found);
        }
        let kind = self.interface.ty(ty).map(|t| t.kind);
        if kind.is_some_and(Kind::is_compound) {
            return self.compound(ty, choices);
        }
        let int = choices.below(12) as i64 - 3;
        match kind {
            Some(Kind::Int) => Arg::Value(Value::Int(int)),
            Some(Kind::Bool) => Arg::Value(Value::Bool(int > 3)),
            Some(Kind::Real) => Arg::Value(Value::Real(0.5)),
            Some(Kind::Char) => Arg::Value(Value::Char('q')),
            Some(Kind::String) => Arg::Value(Value::Str("bob")),
            Some(Kind::Null) => Arg::Value(Value::Nil),
            _ => match self.known.len() {
                0 => Arg::Ref(Ref::NONE),
                n => Arg::Ref(self.known[choices.below(n)].0),
            },
        }
    }

    /// A value with items, which is of another type or has other items once in a while.
    fn compound(&self, ty: TypeNumber, choices: &mut Choices<'_>) -> Arg<'static> {
        let def = self.interface.ty(ty).expect("a type");
        let mut items: Vec<Arg<'static>> = match def.kind {
            Kind::Sequence => {
                let element = def.element.expect("sequences have one");
                (0..choices.below(5)).map(|_| self.operand(element, choices)).collect()
            }
            Kind::Struct => def.fields.iter().map(|field| self.operand(field.ty, choices)).collect(),
            _ => {
                let tag = choices.below(def.fields.len());
                vec![Arg::Value(Value::Int(tag as i64)), self.operand(def.fields[tag].ty, choices)]
            }
        };
        if choices.rarely(60) {
            items.pop();
        }
        let ty = match choices.below(40) {
            0..=9 => ty,
            10 => TypeNumber(choices.below(self.interface.types.len()) as u32),
            _ => TypeNumber::NONE,
        };
        // The tests run for a while, and not for ever.
        let compound = Box::leak(Box::new(OwnedCompound::new(ty, &items)));
        Arg::Value(Value::Compound(compound.view()))
    }

    fn call(&mut self, choices: &mut Choices<'_>, iterator: Option<()>) {
        // A method of something that is there, most of the time.
        let number = if choices.rarely(10) || self.known.is_empty() {
            choices.below(self.methods.len())
        } else {
            let (_, ty) = self.known[choices.below(self.known.len())];
            let first = self.interface.first_method(ty).0 as usize;
            let count = self.interface.ty(ty).map_or(0, |t| t.methods.len());
            let wanted: Vec<usize> = (first..first + count)
                .filter(|m| {
                    let (t, m) = self.methods[*m];
                    self.interface.types[t.index()].methods[m].heading.yields.is_some() == iterator.is_some()
                })
                .collect();
            match wanted.as_slice() {
                [] => choices.below(self.methods.len()),
                some => some[choices.below(some.len())],
            }
        };
        let (ty, m) = self.methods[number];
        let method = self.interface.types[ty.index()].methods[m].clone();
        if TOO_LONG.contains(&method.name.as_str()) {
            return;
        }
        let receiver = match self.find(ty, choices) {
            Some(found) => found,
            None => self.known.first().map_or(Ref::NONE, |(r, _)| *r),
        };
        let mut args: Vec<Arg<'static>> =
            method.heading.params.iter().map(|p| self.operand(p.ty, choices)).collect();
        if choices.rarely(80) {
            args.pop();
        }
        encode::call(&mut self.out, MethodNumber(number as u32), receiver, &args);
        self.results(&method.heading);
    }

    fn routine(&mut self, choices: &mut Choices<'_>) {
        let number = choices.below(self.interface.routines.len());
        let routine = self.interface.routines[number].clone();
        if TOO_LONG.contains(&routine.name.as_str())
            || (routine.heading.yields.is_some() && !choices.rarely(10))
        {
            return;
        }
        let args: Vec<Arg<'static>> =
            routine.heading.params.iter().map(|p| self.operand(p.ty, choices)).collect();
        encode::call_routine(&mut self.out, RoutineNumber(number as u32), &args);
        self.results(&routine.heading);
    }

    fn results(&mut self, heading: &bifrost_wire::interface::Heading) {
        let results = heading.yields.as_ref().unwrap_or(&heading.results);
        results.iter().for_each(|ty| self.define(*ty));
        self.next += u32::from(results.is_empty());
    }

    /// Reads the replies to a batch: they are well formed, and the marker is where the client counted it.
    fn learn(&mut self, mut output: &[u8], (marker, wanted): (u32, Vec<u32>)) {
        while !output.is_empty() {
            let (reply, used) = match decode_reply(output, usize::MAX) {
                Ok(DecodedReply::Reply(reply, used)) => (reply, used),
                other => panic!("{other:?}"),
            };
            let mut again = Vec::new();
            encode::reply(&mut again, &reply);
            assert_eq!(again, output[..used]);
            output = &output[used..];
            let Reply::Flushed(f) = reply else { continue };
            assert_eq!(f.outcomes().len(), wanted.len());
            for (position, outcome) in wanted.iter().zip(f.outcomes()) {
                if *position == marker {
                    let unfinished = |i: u32| {
                        let kind = f.exceptions().nth(i as usize).map(|e| e.kind);
                        matches!(kind, Some(ExceptionKind::Refused { number, .. }) if number == ErrorNumber::MissingEnd as u32)
                    };
                    let good = match outcome {
                        Outcome::Value(Value::Int(MARK)) | Outcome::Absent => true,
                        Outcome::Exception(i) => unfinished(i),
                        _ => false,
                    };
                    // A batch that was refused from some place on has nothing there.
                    assert!(good, "-{marker} is {outcome:?}: {f:?}");
                }
                if let Outcome::Handle { handle, ty } = outcome
                    && !self.handles.contains(&(handle, ty))
                {
                    self.handles.push((handle, ty));
                }
            }
        }
    }
}
