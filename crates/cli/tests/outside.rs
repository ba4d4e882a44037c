//! Promises of a server to unknown clients: bare sockets, and commands as bytes.

mod document;
mod player;
mod support;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bifrost_wire::interface::Interface;
use bifrost_wire::{
    DecodedReply, ErrorNumber, ExceptionKind, Hello, REPLY_BYTES_MAX, Ref, Reply, RoutineNumber, VERSION,
    Value, decode_reply, encode, op,
};
use player::{Cut, converse};
use support::{Server, bifrost, feed, stderr, stdout};

/// A program with all routines that run it itself, a migration, and routines with and without the
/// word `remote`. A migration that ran, or `change`, would set the box to 1000.
const ENTRIES: &str = "
box = type   value () returns (int)   set (v: int)   end box
shape = record[x: int, y: int]
Clock = actor   m: int   new () make {m := 0} end new   now () returns (int) reply (m) end now end Clock
module boxes exports new_box, shape_of, migrate_B_2
  B = class implements box   value: int   set (v: int) value := v end set   end B
  remote new_box () returns (box) return (B{value := 0}) end new_box
  remote shape_of (b: box) returns (shape) return (shape{x: b.value(), y: 7}) end shape_of
  migrate_B (value: int, old: int) returns (B) change() return (B{value := value + old}) end migrate_B
  migrate_B_2 () returns (B) change() return (B{value := 0}) end migrate_B_2
end boxes
hidden () returns (box) return (new_box()) end hidden
change () typecase root().lookup(\"box\") when box (b): b.set(1000) end except when not_found: end end change
setup () root().insert(\"box\", new_box()) end setup
start () publish(\"clock\", Clock.new()) end start
main () print(\"main\") end main
";

/// The routines that clients must not see.
const OURS: &[&str] =
    &["setup", "start", "main", "hidden", "change", "migrate_B", "boxes.migrate_B", "migrate_B_2"];

fn entries() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("entries.theta");
    std::fs::write(&file, ENTRIES).unwrap();
    let server = Server::serve(&file, &["--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"]);
    (folder, server)
}

/// The answers to lines behind `hello 2`, up to the end, in each way of cutting and over each
/// socket; the same each time.
#[track_caller]
fn said(server: &Server, lines: &str) -> String {
    let script = format!("hello 2\n{lines}bye\n");
    let mut all = Vec::new();
    for url in &server.urls {
        for cut in Cut::ALL {
            let said = converse(url.clone(), &script, cut);
            let (welcome, rest) = said.split_once('\n').unwrap();
            assert!(welcome.starts_with("welcome "), "{said}");
            all.push(rest.strip_suffix("bye\n").unwrap_or_else(|| panic!("{said}")).to_owned());
        }
    }
    assert!(all.iter().all(|said| *said == all[0]), "{all:#?}");
    all.remove(0)
}

/// The replies to commands behind `hello`; each as its text for debugging, since they borrow what
/// came.
fn replies<T>(server: &Server, commands: &[u8], take: impl Fn(&Reply<'_>) -> Option<T>) -> Vec<T> {
    let mut socket = UnixStream::connect(server.urls[0].strip_prefix("unix://").unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut out = Vec::new();
    encode::hello(
        &mut out,
        &Hello { version: VERSION, digest: [0; 32], token: "", client: "outside", trace: None },
    );
    out.extend_from_slice(commands);
    encode::plain(&mut out, op::BYE);
    socket.write_all(&out).unwrap();
    let mut came = Vec::new();
    socket.read_to_end(&mut came).unwrap();
    let mut taken = Vec::new();
    let mut rest = &came[..];
    while let Ok(DecodedReply::Reply(reply, length)) = decode_reply(rest, REPLY_BYTES_MAX) {
        taken.extend(take(&reply));
        rest = &rest[length..];
    }
    taken
}

#[test]
fn clients_call_remote_routines_and_no_others() {
    let (folder, server) = entries();
    let file = folder.path().join("entries.theta");
    // In words, plain and as JSON.
    let calls: String = OURS.iter().map(|name| format!("{name}()\n{name}(1)\n")).collect();
    let answers = said(&server, &format!("{calls}describe setup\ndescribe\n"));
    let lines: Vec<&str> = answers.lines().collect();
    for (line, name) in lines.iter().zip(OURS.iter().flat_map(|name| [name, name])) {
        assert_eq!(*line, format!("error: column 1: there is no routine or procedure `{name}`"));
    }
    let lines = &lines[2 * OURS.len()..];
    assert_eq!(lines[0], "error: column 1: no type or routine has this name; try `describe`");
    for shown in ["new_box () returns (box)", "shape_of (b: box) returns (", "root () returns (directory)"] {
        assert!(lines.iter().any(|line| line.starts_with(shown)), "{answers}");
    }
    assert!(!OURS.iter().any(|name| answers.contains(&format!("\n{name} ("))), "{answers}");
    let json =
        converse(server.urls[0].clone(), "hello 2 json\nhidden()\n? new_box().value()\nbye\n", Cut::Whole);
    assert!(json.contains("\"text\":\"there is no routine or procedure `hidden`\""), "{json}");
    assert!(json.contains("\"value\":0"), "{json}");
    // In bytes: what has no number cannot be called.
    let mut out = Vec::new();
    encode::plain(&mut out, op::DESCRIBE);
    let interface = replies(&server, &out, |reply| match reply {
        Reply::Interface(json) => Some(Interface::from_json(json).unwrap()),
        _ => None,
    });
    let mut names: Vec<&str> = interface[0].routines.iter().map(|routine| routine.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["new_box", "root", "shape_of"]);
    let (mut out, mut calls) = (Vec::new(), 0);
    for number in (names.len() as u32..names.len() as u32 + 30).chain([1 << 31, u32::MAX - 1, u32::MAX]) {
        for arguments in [&[][..], &[Value::Int(1).into()], &[Value::Int(1).into(), Value::Int(2).into()]] {
            encode::call_routine(&mut out, RoutineNumber(number), arguments);
            calls += 1;
        }
    }
    // The same in a structure, which is refused as a whole.
    encode::plain(&mut out, op::EXCEPT);
    encode::call_routine(&mut out, RoutineNumber(names.len() as u32), &[Value::Int(1).into()]);
    encode::plain(&mut out, op::END_EXCEPT);
    encode::flush(&mut out, [], false);
    let numbers = replies(&server, &out, |reply| match reply {
        Reply::Flushed(flushed) => Some(flushed.exceptions().map(|e| refused(&e.kind)).collect::<Vec<u32>>()),
        _ => None,
    });
    assert_eq!(numbers, [vec![ErrorNumber::NoSuchRoutine as u32; calls + 1]]);
    // Nothing has run.
    let answers = said(&server, "$b := lookup box\nflush\n? $b.value()\n");
    assert!(answers.contains(" = 0\n"), "{answers}");
    // In the shell, its completion included, which has its words from the same interface.
    let output = server.shell(&server.urls[0], &[], "setup()\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("there is no routine or procedure `setup`"), "{}", stderr(&output));
    // In stubs.
    let output = bifrost().args(["veneer", "-o"]).arg(folder.path()).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let stubs = std::fs::read_to_string(folder.path().join("bifrost_stubs.rs")).unwrap();
    assert!(stubs.contains("fn new_box(") && stubs.contains("fn root("), "{stubs}");
    for name in OURS {
        assert!(!stubs.contains(&format!("fn {name}(")) && !stubs.contains(&format!("\"{name}\"")), "{name}");
    }
}

fn refused(kind: &ExceptionKind<'_>) -> u32 {
    match kind {
        ExceptionKind::Refused { number, .. } => *number,
        _ => 0,
    }
}

#[test]
fn references_of_more_than_32_bits_are_no_futures() {
    let (_folder, server) = entries();
    let mut out = Vec::new();
    encode::plain(&mut out, op::DESCRIBE);
    let method = replies(&server, &out, |reply| match reply {
        Reply::Interface(json) => {
            let numbering = bifrost_wire::interface::Numbering::new(Interface::from_json(json).unwrap());
            numbering.find_method(numbering.find_type("box").unwrap(), "value")
        }
        _ => None,
    })[0];
    let mut out = Vec::new();
    for reference in [-1 << 32, -(1 << 32) - 5, i64::MIN, -(u32::MAX as i64), -1_000] {
        encode::call(&mut out, method, Ref(reference), &[]);
        encode::plain(&mut out, op::WHILE);
        encode::loop_body(&mut out, Ref(reference));
        encode::plain(&mut out, op::END_WHILE);
    }
    encode::flush(&mut out, [1], false);
    let numbers = replies(&server, &out, |reply| match reply {
        Reply::Flushed(flushed) => Some(flushed.exceptions().map(|e| refused(&e.kind)).collect::<Vec<u32>>()),
        _ => None,
    });
    assert_eq!(numbers, [vec![ErrorNumber::BadFuture as u32; 10]]);
}

#[test]
fn what_an_aborted_transaction_made_cannot_be_used() {
    let (_folder, server) = entries();
    let answers = said(
        &server,
        "$b := new_box()\n$c := cell int\n$b.set(5)\n$s := shape_of($b)\n? $b.value()\nabort\n? $b.value()\n\
         $n := new_box()\nabort\n? $n\nclear\n$old := lookup box\n? $old\n$old.set(3)\n$x := $b.value()\n? $old.value(), $x\n",
    );
    let gone = "refused, NoSuchHandle (1): the object of `$b` was made in a transaction that was aborted";
    assert!(answers.starts_with("@5 = 5\nok 4 calls\n"), "{answers}");
    assert!(answers.contains(&format!("@2 = failed\n@2 value ! {gone}\nok 0 calls\n")), "{answers}");
    let made = "refused, NoSuchHandle (1): the object was made in a transaction that was aborted";
    assert!(answers.contains(&format!("$n = failed\n@1 new_box ! {made}\n")), "{answers}");
    assert!(answers.ends_with(&format!("@3 = 3\n$x = failed\n@2 value ! {gone}\nok 2 calls\n")), "{answers}");
}

#[test]
fn the_history_has_what_has_gone_wrong_before_the_flush() {
    let server = Server::start("database", &["--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"]);
    let answers = said(
        &server,
        "$db := lookup database: DataBase\n$x := $db.fetch(\"nobody\")\nhistory\n$c := commit\n? $c\n\
         $y := $db.fetch(\"nobody\")\n$c := commit\n? $c\n",
    );
    assert!(
        answers.starts_with("batch 1: @2 ! not_found\nok 1 exceptions\n$c = nil\n@2 fetch ! not_found\n"),
        "{answers}"
    );
    assert!(answers.contains("$c = failed\n@1 fetch ! not_found\n@2 commit ! refused, Unseen"), "{answers}");
}

/// A server that ends with this value.
struct Limited(Child);

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_the_system_says_of_a_failure_is_in_the_log_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display();
    let program = support::example("database").display().to_string();
    // No file may be longer: what is committed does not fit at some time.
    let commands = format!(
        "trap '' XFSZ; ulimit -f 8192; exec '{}' serve --store '{path}/store' --listen 'unix://{path}/socket' '{program}'",
        env!("CARGO_BIN_EXE_bifrost")
    );
    let mut bash = Command::new("bash");
    bash.args(["-c", &commands]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = Limited(bash.spawn().unwrap());
    let mut ready = [0; 6];
    server.0.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"ready ");
    let mut script = "hello 2\n$db := lookup database: DataBase\n?\n".to_owned();
    for round in 0..60 {
        let name = format!("{round}{}", "x".repeat(200_000));
        script += &format!("$e := $db.new_user(\"{name}\")\n$c := commit\n? $c\nfree $e\n");
    }
    script += "bye\n";
    let said = converse(format!("unix://{path}/socket"), &script, Cut::Whole);
    let failed: Vec<&str> = said.lines().filter(|line| line.contains("StoreFailed")).collect();
    assert!(!failed.is_empty(), "nothing has failed: {}", &said[..said.len().min(2_000)]);
    for line in failed {
        for word in ["os error", "too large", "offset", "byte", &path.to_string()] {
            assert!(!line.contains(word), "`{word}` in {line}");
        }
        assert!(line.ends_with("; see the server's log"), "{line}");
    }
    server.0.kill().unwrap();
    let mut log = String::new();
    server.0.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(log.contains("store.failed") && log.contains("os error"), "{log}");
}

#[test]
fn handles_in_messages_have_the_names_of_the_conversation() {
    let server = Server::start("database", &[]);
    let one = "$db := lookup database: DataBase\n$e := $db.fetch(\"ann\")\n? $e.visits()\n";
    let mut shell = bifrost();
    shell.arg("shell").arg(&server.urls[0]);
    let mut slow = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = slow.stdin.take().unwrap();
    input.write_all(one.as_bytes()).unwrap();
    let mut first = [0; 6];
    slow.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    let mut quick = bifrost();
    quick.arg("shell").arg(&server.urls[0]);
    let other =
        feed(quick, "$db := lookup database: DataBase\n$db.fetch(\"ann\").touch()\n$c := commit\n? $c\n");
    assert!(stdout(&other).contains("$c = nil"), "{}", stdout(&other));
    input.write_all(b"$e.touch()\n$c := commit\n? $c\n").unwrap();
    drop(input);
    let output = slow.wait_with_output().unwrap();
    let expected = "another session has changed `DataElem` (`$e`), which the transaction has read; the transaction is aborted";
    assert!(stdout(&output).contains(expected), "{}", stdout(&output));
}
