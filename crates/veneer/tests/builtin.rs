//! The stubs of built-in types call the methods of the table in `wire::builtin`.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bifrost_veneer::wire::builtin::TABLE;
use bifrost_veneer::wire::encode::{self, Flushed};
use bifrost_veneer::wire::{Command, Decoded, FRAME_BYTES_MAX, Outcome, Value, decode};
use bifrost_veneer::{
    Any, BuiltinNumbers, CellNumbers, Connection, ConnectionError, Directory, Session, Stubs,
};

const fn numbers(ty: u32) -> BuiltinNumbers {
    let cell = CellNumbers { ty: ty + 1, put: ty + 2, full: ty + 3, get: ty + 4 };
    BuiltinNumbers { ty, cell, first: ty + 10 }
}

static STUBS: Stubs = Stubs {
    digest: [7; 32],
    json: r#"{"types":[],"routines":[]}"#,
    basic: [(0, CellNumbers::NONE); 6],
    builtin: [numbers(100), numbers(200), numbers(300)],
    operators: [0; bifrost_veneer::wire::operator::COUNT],
};

/// Keeps the numbers of types and methods that it is sent, and answers with nil.
#[derive(Clone, Default)]
struct Server(Rc<RefCell<(Vec<u32>, Vec<u8>)>>);

impl Connection for Server {
    fn write(&mut self, bytes: &[u8], _: Duration) -> Result<(), ConnectionError> {
        let (numbers, out) = &mut *self.0.borrow_mut();
        let mut rest = bytes;
        while let Ok(Decoded::Command(command, length)) = decode(rest, FRAME_BYTES_MAX) {
            rest = &rest[length..];
            match command {
                Command::Hello(_) => encode::welcome(out, &STUBS.digest, &[], 1, "test"),
                Command::Lookup { expected, .. } => numbers.extend(expected.map(|ty| ty.0)),
                Command::Cell { element } => numbers.push(element.0),
                Command::As { ty, .. } => numbers.push(ty.0),
                Command::Call { method, .. } => numbers.push(method.0),
                Command::Flush { wanted, .. } => {
                    let mut writer = Flushed::begin(out);
                    wanted.positions().for_each(|_| writer.outcome(&Outcome::Value(Value::Nil)));
                    writer.finish(encode::Counters::default(), 0);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn flush(&mut self) {}

    fn read(&mut self, into: &mut Vec<u8>, _: usize, _: Duration) -> Result<(), ConnectionError> {
        into.append(&mut self.0.borrow_mut().1);
        Ok(())
    }
}

#[test]
fn methods_have_their_places_in_the_table() {
    let server = Server::default();
    let s = Session::builder(&STUBS).over(Box::new(server.clone())).unwrap();
    let any: Any = s.lookup("any");
    let directory: Directory = s.lookup("directory");
    let bytes = any.as_::<Vec<u8>>();
    let cell = s.cell_with::<Vec<u8>>(&bytes);
    directory.lookup("a");
    directory.insert("a", &bytes);
    directory.remove("a");
    s.foreach(directory.names(), |name| drop(directory.lookup(name)));
    s.foreach(directory.list(), |_| ());
    directory.equal(&directory);
    bytes.length();
    bytes.fetch(1);
    bytes.concat(cell.get());
    bytes.slice(1, 2);
    drop(bytes.to_string());
    bytes.equal(&bytes);
    bytes.similar(&bytes);
    bytes.copy();
    bytes.unparse();
    bytes.hash();
    directory.insert("any", any);
    s.flush().unwrap();
    let sent = server.0.borrow().0.clone();
    let [_, of_directory, of_bytes] = TABLE.map(|row| row.methods.len() as u32);
    let in_order = |first: u32, count: u32| first..first + count;
    let mut expected = vec![100, 200, 300, 300, 302];
    expected.extend(in_order(210, of_directory));
    expected.insert(9, 210);
    expected.extend(in_order(310, of_bytes));
    expected.insert(14, 304);
    expected.push(211);
    assert_eq!(sent, expected);
}
