//! A scripted server: keeps what it is told, and answers each flush as the test says.

#![allow(dead_code, reason = "each test file uses what it needs")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use bifrost_veneer::wire::encode::{self, Counters, Flushed};
use bifrost_veneer::wire::{
    Command, Decoded, FRAME_BYTES_MAX, Limit, Outcome, Ref, TypeNumber, Value, decode,
};
use bifrost_veneer::{Connection, ConnectionError, Session};

#[rustfmt::skip]
#[path = "../stubs/bifrost_stubs.rs"]
pub mod stubs;

/// Writes the reply to a flush that wants these futures.
pub type Answer = Box<dyn FnOnce(&[u32], &mut Vec<u8>)>;

#[derive(Default)]
pub struct Server {
    /// Commands as they came, `flush` and `free` included.
    pub log: Vec<String>,
    answers: VecDeque<Answer>,
    pending: Vec<u8>,
    pub out: Vec<u8>,
    pub limits: Vec<(Limit, u64)>,
    pub digest: Option<[u8; 32]>,
    pub interface: Option<Vec<u8>>,
    pub writes: usize,
    /// Nothing more can be written; what was answered before can be read.
    pub closed: bool,
}

#[derive(Clone, Default)]
pub struct Script(pub Rc<RefCell<Server>>);

impl Script {
    /// A session with this server.
    pub fn connect(&self) -> Session {
        let session = Session::builder(&stubs::INTERFACE).over(Box::new(self.clone())).unwrap();
        self.0.borrow_mut().log.clear();
        session
    }

    /// Answers the next flush.
    pub fn answer(&self, answer: impl FnOnce(&[u32], &mut Vec<u8>) + 'static) {
        self.0.borrow_mut().answers.push_back(Box::new(answer));
    }

    /// Answers the next flush with these outcomes and no exceptions.
    pub fn outcomes(&self, outcomes: Vec<Outcome<'static>>) {
        self.answer(move |wanted, out| {
            assert_eq!(wanted.len(), outcomes.len(), "wanted: {wanted:?}");
            let mut writer = Flushed::begin(out);
            outcomes.iter().for_each(|o| writer.outcome(o));
            writer.finish(Counters::default(), 0);
        });
    }

    /// What came since the last time, one command a line.
    pub fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.0.borrow_mut().log)
    }
}

pub fn handle(n: i64) -> Outcome<'static> {
    Outcome::Handle { handle: Ref(n), ty: TypeNumber(7) }
}

pub fn int(i: i64) -> Outcome<'static> {
    Outcome::Value(Value::Int(i))
}

impl Connection for Script {
    fn write(&mut self, bytes: &[u8], _: Duration) -> Result<(), ConnectionError> {
        let server = &mut *self.0.borrow_mut();
        if server.closed {
            return Err(ConnectionError::Ended);
        }
        server.writes += 1;
        server.pending.extend_from_slice(bytes);
        let pending = std::mem::take(&mut server.pending);
        let mut rest = &pending[..];
        while let Ok(Decoded::Command(command, length)) = decode(rest, FRAME_BYTES_MAX) {
            server.take(&command);
            rest = &rest[length..];
        }
        assert!(rest.is_empty(), "the veneer publishes whole commands: {rest:?}");
        Ok(())
    }

    fn flush(&mut self) {}

    fn read(&mut self, into: &mut Vec<u8>, _: usize, _: Duration) -> Result<(), ConnectionError> {
        let out = std::mem::take(&mut self.0.borrow_mut().out);
        if out.is_empty() {
            return Err(ConnectionError::Ended);
        }
        into.extend_from_slice(&out);
        Ok(())
    }
}

impl Server {
    fn take(&mut self, command: &Command<'_>) {
        self.log.push(show(command));
        match command {
            Command::Hello(_) => {
                let digest = self.digest.unwrap_or(stubs::INTERFACE.digest);
                encode::welcome(&mut self.out, &digest, &self.limits, 1, "script");
            }
            Command::Describe => {
                encode::interface(&mut self.out, self.interface.as_deref().unwrap_or_default());
            }
            Command::Flush { wanted, .. } => {
                let wanted: Vec<u32> = wanted.positions().collect();
                match self.answers.pop_front() {
                    Some(answer) => answer(&wanted, &mut self.out),
                    None => {
                        let mut writer = Flushed::begin(&mut self.out);
                        wanted.iter().for_each(|_| writer.outcome(&Outcome::Value(Value::Nil)));
                        writer.finish(Counters::default(), 0);
                    }
                }
            }
            _ => {}
        }
    }
}

/// A command in few words: methods by name.
fn show(command: &Command<'_>) -> String {
    use bifrost_veneer::wire::interface::{Interface, Numbering};
    thread_local! {
        static NAMES: Numbering =
            Numbering::new(Interface::from_json(stubs::INTERFACE.json.as_bytes()).unwrap());
    }
    NAMES.with(|names| match command {
        Command::Call { method, receiver, args } => {
            let name = names.method(*method).map_or("?", |(_, m)| &m.name);
            format!("{}.{name}{}", receiver.0, list(args.iter()))
        }
        Command::CallRoutine { routine, args } => {
            let name = names.routine(*routine).map_or("?", |r| &r.name);
            format!("{name}{}", list(args.iter()))
        }
        Command::CallProcedure { procedure, args } => {
            format!("procedure{}{}", procedure.0, list(args.iter()))
        }
        Command::Lookup { name, .. } => format!("lookup {name}"),
        Command::Free { handles, .. } => {
            format!("free {:?}", handles.iter().map(|h| h.0).collect::<Vec<_>>())
        }
        Command::Flush { wanted, .. } => format!("flush {:?}", wanted.positions().collect::<Vec<_>>()),
        Command::Do { test } => format!("do {}", test.0),
        Command::Then { test } => format!("then {}", test.0),
        Command::Cell { element } => format!("cell {}", names.interface().type_name(*element)),
        Command::When { name, values } => format!("when {name}/{}", values.len()),
        Command::Procedure { name, params, .. } => format!("procedure {name}/{}", params.len()),
        Command::Constant(value) => format!("constant {value:?}"),
        Command::Return(value) => match value {
            Some(value) => format!("return {}", arg(value)),
            None => "return".to_owned(),
        },
        other => format!("{other:?}"),
    })
}

fn arg(arg: &bifrost_veneer::wire::Arg<'_>) -> String {
    match arg {
        bifrost_veneer::wire::Arg::Ref(r) => format!("@{}", r.0),
        bifrost_veneer::wire::Arg::Value(Value::Int(i)) => i.to_string(),
        bifrost_veneer::wire::Arg::Value(Value::Str(s)) => format!("{s:?}"),
        bifrost_veneer::wire::Arg::Value(v) => format!("{v:?}"),
    }
}

fn list<'a>(args: impl Iterator<Item = bifrost_veneer::wire::Arg<'a>>) -> String {
    format!("({})", args.map(|a| arg(&a)).collect::<Vec<_>>().join(", "))
}
