//! A session of unit tests: greeted by a server that does nothing else.

use std::time::Duration;

use bifrost_client::{Greeted, Options, Wire};
use bifrost_recorder::{BuiltinNumbers, CellNumbers, Slot, Stubs};
use bifrost_transport::Stream;
use bifrost_wire::{Value, builtin, encode, operator};

use crate::abi::Ref;
use crate::session::Session;

pub(crate) static STUBS: Stubs = Stubs {
    digest: [0; 32],
    json: "{}",
    basic: [(u32::MAX, CellNumbers::NONE); 6],
    builtin: [BuiltinNumbers::NONE; builtin::COUNT],
    operators: [u32::MAX; operator::COUNT],
};

const SECOND: Duration = Duration::from_secs(1);

/// Opens a session. Returns it with the stub of a value, and the server's end of the connection.
pub(crate) fn session() -> (&'static mut Session, Slot, Stream) {
    let (client, mut server) = Stream::pair().unwrap();
    let mut welcome = Vec::new();
    encode::welcome(&mut welcome, &STUBS.digest, &[], 1, "test");
    server.write(&welcome, SECOND).unwrap();
    let mut wire = Wire::new(Box::new(client), SECOND);
    let mut recorder = wire.greet(Options::new(&STUBS).greeting("")).unwrap();
    let object = recorder.new_value(Value::Int(1));
    let session = Session::of(Greeted { recorder, wire, object: None }, &STUBS, None).place();
    let session = Ref::new(Some(session), 0, 0).session().unwrap();
    (session, object, server)
}
