//! Batches that are sent before the ones before them are answered: a client in Rust and a bare
//! socket, against a server in a process of its own.

mod support;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
#[path = "../../../examples/database/rust/src/bifrost_stubs.rs"]
mod bifrost_stubs;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use bifrost_stubs::{DataBase, DataElem};
use bifrost_veneer::wire::{self, Hello, Ref, VERSION, encode};
use bifrost_veneer::{Error, Session};
use support::{Server, example};

/// A server of the example over all transports.
fn server() -> Server {
    server_with(&[])
}

/// The same with other settings, as `limits.futures_max=50`.
fn server_with(settings: &[&str]) -> Server {
    let listen = [
        "--store",
        "memory:",
        "--anonymous-loopback",
        "--listen",
        "tcp://127.0.0.1:0",
        "--listen",
        "shm://FOLDER/ring",
    ];
    let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    Server::serve(&example("database"), &[&listen, &settings[..]].concat())
}

fn each_url(server: &Server, test: impl Fn(&Session, DataBase)) {
    for url in &server.urls {
        println!("{url}");
        let session = bifrost_stubs::connect(url).unwrap();
        let db = session.lookup("database");
        test(&session, db);
    }
}

#[test]
fn each_batch_uses_the_results_of_those_before() {
    let server = server();
    each_url(&server, |s, db| {
        let eve = db.fetch("eve");
        let before = eve.visits();
        s.send_batch().unwrap();
        for _ in 0..40 {
            // The object is a result of a batch further and further back, and then a handle.
            eve.touch();
            s.send_batch().unwrap();
        }
        let after = eve.visits();
        s.send_batch().unwrap();
        let both = &after - &before;
        assert_eq!(both.claim().unwrap(), 40);
        assert_eq!(after.claim().unwrap(), before.claim().unwrap() + 40);
        assert!(s.exceptions().is_empty());
        s.abort().claim().unwrap();
    });
}

#[test]
fn loops_and_conditions_take_results_that_are_not_there_yet() {
    let server = server();
    each_url(&server, |s, db| {
        let (eve, least) = (db.fetch("eve"), s.value(0) + 0);
        s.send_batch().unwrap();
        let rows = s.collect(db.users(), |user| (user.clone(), user.name()));
        s.if_(eve.visits().ge(&least), || {
            eve.touch();
        });
        let sum = s.cell_with(&least);
        s.foreach(db.users(), |user| {
            sum.put(sum.get() + user.visits());
        });
        s.send_batch().unwrap();
        let total = sum.get();
        let rows = rows.claim().unwrap();
        assert!(rows.iter().any(|(_, name)| name == "eve"), "{rows:?}");
        let visits: i64 = rows.iter().map(|(user, _)| user.visits()).map(|v| v.claim().unwrap()).sum();
        assert_eq!(total.claim().unwrap(), visits);
        s.abort().claim().unwrap();
    });
}

#[test]
fn failures_name_their_cause_across_batches_under_way() {
    let server = server();
    each_url(&server, |s, db| {
        let zoe: DataElem = db.fetch("zoe");
        s.send_batch().unwrap();
        let visits = zoe.visits();
        s.send_batch().unwrap();
        let more = &visits + 1;
        s.send_batch().unwrap();
        let Err(error) = more.claim() else { panic!("there is no zoe") };
        assert_eq!(error.root().signal(), Some("not_found"), "{error}");
        assert!(error.to_string().contains("DataElem.visits"), "{error}");
        s.flush().unwrap();
        s.commit().claim().unwrap();
        // A commit that is on the way with the failure is refused for it.
        drop(db.fetch("zoe").name());
        s.send_batch().unwrap();
        let done = s.commit();
        s.send_batch().unwrap();
        assert!(matches!(done.claim(), Err(Error::Unseen { .. })));
        s.flush().unwrap();
    });
}

#[test]
fn long_batches_and_long_answers_pass_each_other() {
    let server = server();
    each_url(&server, |s, db| {
        // Both ways are full: neither end may wait for the other.
        let long = "z".repeat(800_000);
        let names: Vec<_> = (0..60)
            .map(|n| {
                let name = db.new_user(format!("{n}{long}")).name();
                s.send_batch().unwrap();
                name
            })
            .collect();
        for (n, name) in names.into_iter().enumerate() {
            assert_eq!(name.claim().unwrap().len(), long.len() + n.to_string().len());
        }
        s.abort().claim().unwrap();
    });
}

#[test]
fn the_servers_limit_is_that_of_the_client() {
    let server = server_with(&["limits.batches_under_way_max=2", "limits.futures_max=50"]);
    each_url(&server, |s, db| {
        let eve = db.fetch("eve");
        let names: Vec<_> = (0..200)
            .map(|n| {
                let name = eve.name();
                if n % 7 == 0 {
                    s.send_batch().unwrap();
                }
                name
            })
            .collect();
        for name in names {
            assert_eq!(name.claim().unwrap(), "eve");
        }
        assert!(s.exceptions().is_empty());
    });
}

#[test]
fn a_killed_server_ends_all_that_is_under_way() {
    let server = server();
    let session = bifrost_stubs::connect(&server.urls[0]).unwrap();
    let db: DataBase = session.lookup("database");
    session.flush().unwrap();
    let waited = session.wait(std::time::Duration::from_secs(60));
    session.send_batch().unwrap();
    let name = db.fetch("eve").name();
    session.send_batch().unwrap();
    let behind = db.fetch("eve");
    drop(server);
    assert!(matches!(waited.claim(), Err(Error::Closed(_))));
    assert!(matches!(name.claim(), Err(Error::Closed(_))));
    assert!(matches!(session.resolve(&behind), Err(Error::Closed(_))));
}

/// A client without a library: three batches in one send, each of which names the one before.
#[test]
fn a_bare_socket_sends_batches_together() {
    let server = server();
    let path = server.urls.iter().find_map(|url| url.strip_prefix("unix://")).unwrap();
    let mut socket = UnixStream::connect(path).unwrap();
    let mut bytes = Vec::new();
    encode::hello(
        &mut bytes,
        &Hello { version: VERSION, digest: [0; 32], token: "", client: "bare", trace: None },
    );
    encode::lookup(&mut bytes, "database", None);
    encode::flush_kept(&mut bytes, [1], 0);
    let interface = wire::Interface::from_json(bifrost_stubs::INTERFACE.json.as_bytes()).unwrap();
    let numbering = wire::interface::Numbering::new(interface);
    let method =
        |ty: &str, name: &str| numbering.find_method(numbering.find_type(ty).unwrap(), name).unwrap();
    let earlier = |back, position| Ref::earlier(wire::Earlier { back, position });
    let eve = wire::Arg::Value(wire::Value::Str("eve"));
    encode::call(&mut bytes, method("DataBase", "fetch"), earlier(1, 1), &[eve]);
    encode::flush_kept(&mut bytes, [1], 1);
    encode::call(&mut bytes, method("DataElem", "name"), earlier(1, 1), &[]);
    encode::call(&mut bytes, method("DataBase", "fetch"), earlier(2, 1), &[wire::Arg::Ref(Ref::future(1))]);
    // Of a batch that is not there, and of no batch.
    encode::call(&mut bytes, method("DataElem", "name"), earlier(9, 1), &[]);
    encode::call(&mut bytes, method("DataElem", "name"), Ref(i64::MIN), &[]);
    encode::flush(&mut bytes, 1..=4, false);
    encode::plain(&mut bytes, wire::op::BYE);
    socket.write_all(&bytes).unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    let (mut rest, mut replies) = (&answer[..], Vec::new());
    while let Ok(wire::DecodedReply::Reply(reply, used)) = wire::decode_reply(rest, usize::MAX) {
        if let wire::Reply::Flushed(flushed) = &reply {
            replies.push(wire::json::reply(&reply));
            assert!(flushed.counters.calls <= 4);
        }
        rest = &rest[used..];
    }
    assert_eq!(replies.len(), 3, "{replies:?}");
    let last = &replies[2]["flushed"];
    assert_eq!(last["outcomes"][0]["string"], "eve", "{last}");
    assert_eq!(last["outcomes"][1]["handle"], replies[1]["flushed"]["outcomes"][0]["handle"], "{last}");
    let refused: Vec<_> = (0..2).map(|n| last["exceptions"][n]["refused"]["number"].clone()).collect();
    assert_eq!(refused, [2, 2], "{last}");
}
