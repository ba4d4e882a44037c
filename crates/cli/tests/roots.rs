//! The root directory from each client: bytes, lines, JSON, the shell and Rust stubs.

mod player;
mod support;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
#[path = "conformance/bifrost_stubs.rs"]
mod stubs;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use bifrost_veneer::wire::ErrorNumber;
use bifrost_veneer::{Directory, Error, Session};
use bifrost_wire::interface::{Interface, Numbering};
use bifrost_wire::{
    DecodedReply, ExceptionKind, Hello, REPLY_BYTES_MAX, Ref, Reply, VERSION, Value, decode_reply, encode, op,
};
use player::{Cut, converse};
use stubs::{Item, Probe};
use support::{Server, bifrost, stderr, stdout};

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases/programs/conformance.theta")
}

fn names(s: &Session) -> Vec<(String, String)> {
    s.collect(stubs::root(s).list(), |(name, ty)| (name, ty)).claim().unwrap()
}

/// The setting of a server whose clients change names.
const READ_WRITE: [&str; 2] = ["--root-names", "read-write"];

fn pair(name: &str, ty: &str) -> (String, String) {
    (name.to_owned(), ty.to_owned())
}

#[test]
fn stubs_look_up_list_name_and_unname() {
    for arguments in [&[][..], &["--interpret"]] {
        let server = Server::serve(&program(), &[&READ_WRITE, arguments].concat());
        let (s, other) = (stubs::connect(&server.urls[0]).unwrap(), stubs::connect(&server.urls[0]).unwrap());
        assert_eq!(names(&s), [pair("counter", "Counter"), pair("probe", "Probe")]);
        let root: Directory = stubs::root(&s);
        root.insert("item", stubs::new_item(&s, "lamp"));
        // All of it crosses at once.
        let crossings = s.counters().crossings;
        let lamp: Item = root.lookup("item").as_::<Item>();
        let (name, none) = (lamp.name(), root.lookup("none").is_::<Probe>());
        assert_eq!(name.claim().unwrap(), "lamp");
        assert!(matches!(none.claim(), Err(Error::Unhandled { .. })));
        assert_eq!(s.counters().crossings, crossings + 1);
        assert_eq!(names(&s), [pair("counter", "Counter"), pair("item", "Item"), pair("probe", "Probe")]);
        // A change is a part of the transaction: others see it when it is committed.
        assert_eq!(names(&other), [pair("counter", "Counter"), pair("probe", "Probe")]);
        s.clear_exceptions();
        s.commit().claim().unwrap();
        other.abort().claim().unwrap();
        assert_eq!(names(&other), [pair("counter", "Counter"), pair("item", "Item"), pair("probe", "Probe")]);
        let found: Item = other.lookup("item");
        assert_eq!(found.name().claim().unwrap(), "lamp");
        root.remove("item");
        s.abort().claim().unwrap();
        assert_eq!(names(&s).len(), 3);
        // Names that both of them change are one object.
        stubs::root(&other).remove("item");
        root.insert("second", stubs::new_item(&s, "two"));
        other.commit().claim().unwrap();
        let lost = s.commit().claim();
        assert!(
            matches!(lost, Err(Error::Refused { number, .. }) if number == ErrorNumber::Conflict as u32),
            "{lost:?}"
        );
        assert_eq!(names(&s), [pair("counter", "Counter"), pair("probe", "Probe")]);
    }
}

#[test]
fn lines_and_json_list_the_names() {
    let server = Server::serve(&program(), &READ_WRITE);
    let said = |lines: &str| converse(server.urls[0].clone(), lines, Cut::Whole);
    let plain = said(
        "hello 2\nnames\n$r := root()\n$r.insert(\"one\", new_item(\"lamp\"))\n? $r.lookup(\"one\") as Item.name()\nforeach $n in $r.names() do\n\
         end\n? commit\nlist root().names()\n$r.remove(\"one\")\n? $r.lookup(\"one\")\nclear\n? commit\nnames\nbye\n",
    );
    let lines: Vec<&str> = plain.lines().skip(1).collect();
    assert_eq!(lines[..3], ["\"counter\", \"Counter\"", "\"probe\", \"Probe\"", "ok 2 values"], "{plain}");
    assert!(
        plain.contains(" = \"lamp\"\n") && plain.contains("\"one\"\n\"probe\"\nok 3 values\n"),
        "{plain}"
    );
    assert!(plain.contains("lookup ! not_found"), "{plain}");
    assert!(plain.ends_with("\"probe\", \"Probe\"\nok 2 values\nbye\n"), "{plain}");
    let json = said("hello 2 json\nnames\n? root().lookup(\"probe\")\nbye\n");
    let lines: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[1]["more"], false, "{json}");
    let values = lines[1]["values"].to_string();
    assert!(values.contains("\"probe\"") && values.contains("\"Probe\""), "{json}");
    assert_eq!(lines[2]["results"][0]["type"], "Probe", "{json}");
}

#[test]
fn the_shell_prints_the_names() {
    let server = Server::serve(&program(), &READ_WRITE);
    let output = server.shell(&server.urls[0], &[], "names\n");
    assert_eq!(
        stdout(&output),
        "\"counter\", \"Counter\"\n\"probe\", \"Probe\"\nok 2 values\n",
        "{}",
        stderr(&output)
    );
}

/// The refusals of calls as bytes, `insert` and `remove` alone and in a structure.
fn refusals(server: &Server) -> Vec<Option<ErrorNumber>> {
    let replies = |commands: &[u8]| {
        let mut socket = UnixStream::connect(server.urls[0].strip_prefix("unix://").unwrap()).unwrap();
        let mut out = Vec::new();
        encode::hello(
            &mut out,
            &Hello { version: VERSION, digest: [0; 32], token: "", client: "roots", trace: None },
        );
        out.extend_from_slice(commands);
        encode::plain(&mut out, op::BYE);
        socket.write_all(&out).unwrap();
        let mut came = Vec::new();
        socket.read_to_end(&mut came).unwrap();
        came
    };
    let mut out = Vec::new();
    encode::plain(&mut out, op::DESCRIBE);
    let came = replies(&out);
    let (mut rest, mut numbering) = (&came[..], None);
    while let Ok(DecodedReply::Reply(reply, length)) = decode_reply(rest, REPLY_BYTES_MAX) {
        if let Reply::Interface(json) = reply {
            numbering = Some(Numbering::new(Interface::from_json(json).unwrap()));
        }
        rest = &rest[length..];
    }
    let numbering = numbering.expect("`describe` is answered");
    let directory = numbering.find_type("directory").unwrap();
    let method = |name: &str| numbering.find_method(directory, name).unwrap();
    let mut out = Vec::new();
    encode::call_routine(&mut out, numbering.find_routine("root").unwrap(), &[]);
    let (root, name) = (Ref::future(1), Value::Str("n"));
    encode::call(&mut out, method("insert"), root, &[name.into(), root.into()]);
    encode::call(&mut out, method("remove"), root, &[Value::Str("n").into()]);
    encode::plain(&mut out, op::EXCEPT);
    encode::call(&mut out, method("insert"), root, &[Value::Str("m").into(), root.into()]);
    encode::plain(&mut out, op::END_EXCEPT);
    encode::call(&mut out, method("equal"), root, &[root.into()]);
    encode::flush(&mut out, [], false);
    let came = replies(&out);
    let (mut rest, mut found) = (&came[..], Vec::new());
    while let Ok(DecodedReply::Reply(reply, length)) = decode_reply(rest, REPLY_BYTES_MAX) {
        if let Reply::Flushed(flushed) = reply {
            found.extend(flushed.exceptions().map(|e| match e.kind {
                ExceptionKind::Refused { number, .. } => ErrorNumber::from_number(number),
                _ => None,
            }));
        }
        rest = &rest[length..];
    }
    found
}

#[test]
fn clients_change_names_only_where_the_server_says_so() {
    assert_eq!(refusals(&Server::serve(&program(), &READ_WRITE)), []);
    // The last is the default.
    for arguments in [&["--root-names", "read-only"][..], &["--set", "root_names=read-only"], &[]] {
        let server = Server::serve(&program(), arguments);
        assert_eq!(refusals(&server), [Some(ErrorNumber::NotAllowed); 3], "{arguments:?}");
        let s = stubs::connect(&server.urls[0]).unwrap();
        assert_eq!(names(&s), [pair("counter", "Counter"), pair("probe", "Probe")]);
        let refused = stubs::root(&s).remove("probe").claim();
        assert!(
            matches!(refused, Err(Error::Refused { number, .. }) if number == ErrorNumber::NotAllowed as u32),
            "{refused:?}"
        );
        let p: Probe = s.lookup("probe");
        s.resolve(&p).unwrap();
    }
    let mut wrong = bifrost();
    wrong.args(["serve", "--set", "root_names=all", "--print-config"]);
    let output = wrong.output().unwrap();
    assert!(!output.status.success() && stderr(&output).contains("root_names"), "{}", stderr(&output));
    let output = bifrost().args(["serve", "--root-names", "read-only", "--print-config"]).output().unwrap();
    assert!(stdout(&output).contains("root_names = \"read-only\""), "{}", stdout(&output));
}
