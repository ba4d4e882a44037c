//! The shell as a process: with commands as arguments, with a script, and at a terminal.

mod support;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use support::{Server, bifrost, stderr, stdout};

/// A program whose objects show their contents.
const KINDS: &str = "
point = record[x: int, y: int]
named = struct[name: string, at: point]
item = type   number () returns (int)   set (v: int)   end item
held = struct[what: item, count: int]
Shop = type
  point () returns (point)
  named () returns (named)
  held () returns (held)
  numbers () returns (sequence[int])
  many () returns (array[int])
  items () returns (sequence[item])
  points () returns (sequence[point])
  all () yields (item)
  pairs () yields (int, string)
  failing () yields (int) signals (bad)
  first () returns (item)
end Shop
module shops exports new_shop
  I = class implements item   number: int   set (v: int) number := v end set   end I
  S = class implements Shop
    kept: array[item]
    point () returns (point) return (point{x: 1, y: 2}) end point
    named () returns (named) return (named{name: \"a \\\"b\\\"\", at: point{x: 3, y: 4}}) end named
    held () returns (held) return (held{what: kept.bottom(), count: 5}) except when bounds: end
      signal failure(\"none\") end held
    numbers () returns (sequence[int]) return (self.many().to_sequence().subseq(1, 3)) except when bounds: end
      signal failure(\"none\") end numbers
    many () returns (array[int])
      a: array[int] := array_new[int]()
      for i: int in 1.to(25) do a.append(i) end
      return (a)
    end many
    items () returns (sequence[item]) return (kept.to_sequence()) end items
    points () returns (sequence[point])
      a: array[point] := array_new[point]()
      a.append(point{x: 1, y: 2})
      return (a.to_sequence())
    end points
    all () yields (item) for i: item in kept.elements() do yield (i) end end all
    pairs () yields (int, string) for i: int in 1.to(3) do yield (i, i.unparse() || \"!\") end end pairs
    failing () yields (int) signals (bad) yield (1) yield (2) signal bad end failing
    first () returns (item) return (kept.bottom()) except when bounds: end signal failure(\"none\") end first
  end S
  new_shop () returns (Shop)
    a: array[item] := array_new[item]()
    for i: int in 1.to(3) do a.append(I{number := i}) end
    return (S{kept := a})
  end new_shop
end shops
setup () root().insert(\"shop\", new_shop()) end setup
";

fn kinds() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kinds.theta");
    std::fs::write(&file, KINDS).unwrap();
    let server = Server::serve(&file, &[]);
    (folder, server)
}

/// The answer of a shell with these arguments.
#[track_caller]
fn asked(server: &Server, arguments: &[&str]) -> (String, String, Option<i32>) {
    let output = bifrost().arg("shell").arg(&server.urls[0]).args(arguments).output().unwrap();
    (stdout(&output).to_owned(), stderr(&output).to_owned(), output.status.code())
}

#[test]
fn commands_can_be_arguments() {
    let (_folder, server) = kinds();
    let (said, complaint, status) =
        asked(&server, &["-c", "$s := lookup shop: Shop\n$i := $s.first()", "-c", "? $i.number(), 7"]);
    assert_eq!((said.as_str(), complaint.as_str(), status), ("@3 = 1\nvalue = 7\nok 2 calls\n", "", Some(0)));
    let (said, complaint, status) = asked(&server, &["--command", "frob"]);
    assert_eq!((said.as_str(), status), ("", Some(1)));
    assert!(complaint.contains("line 1, column 1: `frob` is not a command or value"), "{complaint}");
}

#[test]
fn objects_show_their_contents() {
    let (_folder, server) = kinds();
    let script = "$s := lookup shop: Shop\n? $s.point(), $s.named(), $s.numbers(), $s.many(), $s.points()\n";
    let output = server.shell(&server.urls[0], &[], script);
    let said = stdout(&output);
    let line = |at: usize| said.lines().nth(at).unwrap_or_default().split_once(' ').unwrap_or_default().1;
    assert!(line(0).ends_with("record[x: int, y: int] {x: 1, y: 2}"), "{said}");
    assert!(line(1).contains("name: \"a \\\"b\\\"\"") && line(1).contains("{x: 3, y: 4}"), "{said}");
    assert!(line(2).ends_with("sequence[int] [1, 2, 3]"), "{said}");
    assert!(line(3).ends_with("18, 19, 20, ... 5 more]"), "{said}");
    assert!(line(4).contains("{x: 1, y: 2}]"), "{said}");
    assert!(said.ends_with("ok 5 calls\n"), "{said}");
    // What cannot write itself shows its fields, and objects as such.
    let output =
        server.shell(&server.urls[0], &[], "$s := lookup shop: Shop\n$h := $s.held()\n$l := $s.items()\n?\n");
    let said = stdout(&output);
    assert!(said.contains("{what: h"), "{said}");
    assert!(said.contains(": item, count: 5}"), "{said}");
    assert!(
        said.lines().any(|line| line.starts_with("$l = ") && line.matches(": item").count() == 3),
        "{said}"
    );
}

#[test]
fn iterators_can_be_listed() {
    let (_folder, server) = kinds();
    let script = "$s := lookup shop: Shop\nlist $s.all()\nlist 2 $s.pairs()\nlist $s.failing()\nlist 1000 1.to(1000)\n\
                  list 3.to(1)\n$n := 4\nlist 1.to($n)\n? $n\n";
    let output = server.shell(&server.urls[0], &[], script);
    let said = stdout(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[..3].iter().all(|line| line.ends_with(": item")), "{said}");
    assert_eq!(lines[3..7], ["ok 3 values", "1, \"1!\"", "2, \"2!\"", "ok 2 values, and more exist"]);
    assert_eq!(lines[7..9], ["1", "2"]);
    assert!(lines[9].ends_with("! bad") && lines[10] == "ok 2 values", "{said}");
    assert_eq!((lines[11], lines[1010], lines[1011]), ("1", "1000", "ok 1000 values"));
    assert_eq!(lines[1012..], ["ok 0 values", "1", "2", "3", "4", "ok 4 values", "$n = 4", "ok 0 calls"]);
    assert_eq!((stderr(&output), output.status.code()), ("", Some(0)));
}

#[test]
fn answers_can_be_json() {
    let (_folder, server) = kinds();
    let commands = [
        "$s := lookup shop: Shop\n$p := $s.point()\n$x := $s.frob()",
        "$s := lookup shop: Shop\n$p := $s.named()\n? $p, $s.first(), 1.5, 'c', nil, \"t\"",
        "list 2 1.to(3)",
        "$e := 1.div(0)\n? $e.add(1)\nhistory",
        "describe point",
    ];
    let answers = |command: &str| -> Vec<serde_json::Value> {
        let (said, _, _) = asked(&server, &["--json", "-c", command]);
        said.lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
            .collect()
    };
    let bad = &answers(commands[0])[0];
    assert_eq!((&bad["error"], &bad["line"], &bad["column"]), (&"BadLine".into(), &3.into(), &10.into()));
    let answer = &answers(commands[1])[0];
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results[0]["name"], "$p");
    assert!(
        results[0]["handle"].is_i64() && results[0]["contents"].as_str().unwrap().contains("x: 3"),
        "{answer}"
    );
    assert_eq!(results[1]["type"], "item");
    let values: Vec<&serde_json::Value> = results[2..].iter().map(|result| &result["value"]).collect();
    assert_eq!(serde_json::json!(values), serde_json::json!([1.5, "c", null, "t"]));
    let listed = &answers(commands[2])[0];
    assert_eq!(listed["values"], serde_json::json!([{"value": 1}, {"value": 2}]));
    assert_eq!(listed["more"], true);
    let failed = answers(commands[3]);
    assert_eq!(failed[0]["results"][0]["failed"], true);
    assert_eq!(failed[0]["exceptions"][0]["signal"], "zero");
    assert_eq!(failed[0]["exceptions"][1]["unhandled"]["argument"], 0);
    assert_eq!(failed[1]["history"].as_array().unwrap().len(), 2);
    assert!(
        answers(commands[4])[0]["text"]
            .as_str()
            .unwrap()
            .starts_with("point = record[x: int, y: int] = type")
    );
}

#[test]
fn equates_can_be_described_and_used() {
    let (_folder, server) = kinds();
    let (said, complaint, _) = asked(&server, &["-c", "describe named", "-c", "$c := cell point\ndescribe"]);
    assert!(said.starts_with("named = struct[name: string, at: record[x: int, y: int]] = type\n"), "{said}");
    assert!(said.contains("\npoint = record[x: int, y: int]\n"), "{said}");
    assert_eq!(complaint, "");
}

#[test]
fn a_command_in_the_wrong_place_is_blamed_itself() {
    let (_folder, server) = kinds();
    let cases = [
        ("$n := 1\nbreak\n$m := 2\n", "line 2, column 1: `break` is allowed only inside a loop"),
        ("if true then\ncontinue\nend\n", "line 2, column 1: `continue` is allowed only inside a loop"),
        ("\nreturn 3\n", "line 2, column 1: `return` is allowed only inside a `procedure`"),
        (
            "while true do\n$c := commit\nend\n",
            "line 2, column 7: `commit` is not allowed inside a structure",
        ),
        ("while true do\nhistory\nend\n", "line 2, column 1: `history` is not allowed inside a structure"),
    ];
    for (script, expected) in cases {
        let output = server.shell(&server.urls[0], &[], script);
        assert!(stderr(&output).contains(expected), "{script}: {}", stderr(&output));
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn a_script_that_leaves_changes_behind_is_told() {
    let (_folder, server) = kinds();
    let change = "$i := lookup shop: Shop.first()\n$i.set(9)\n";
    let note = "note: the changes that were not committed are lost; use `commit`\n";
    for script in [change.to_owned(), format!("{change}bye\n"), format!("{change}?\n")] {
        let output = server.shell(&server.urls[0], &[], &script);
        assert_eq!((stderr(&output), output.status.code()), (note, Some(0)), "{script}");
    }
    for script in [format!("{change}abort\n"), "$s := lookup shop: Shop\n? $s.first().number()\n".to_owned()]
    {
        let output = server.shell(&server.urls[0], &[], &script);
        assert_eq!((stderr(&output), output.status.code()), ("", Some(0)), "{script}");
        assert!(!stdout(&output).contains("= 9"), "{}", stdout(&output));
    }
    let output = server.shell(&server.urls[0], &[], &format!("{change}commit\n"));
    assert_eq!(stderr(&output), "");
    let (said, _, _) = asked(&server, &["-c", "? lookup shop: Shop.first().number()"]);
    assert!(said.contains("= 9\n"), "{said}");
}

/// A shell at a terminal.
struct Terminal {
    child: Child,
    keys: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn open(url: &str) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let end = || Stdio::from(OwnedFd::from(slave.try_clone().unwrap()));
        let mut shell = bifrost();
        shell
            .arg("shell")
            .arg(url)
            .env("TERM", "xterm")
            .env("HOME", "/nonexistent")
            .env_remove("XDG_STATE_HOME");
        let child = shell.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        drop(slave);
        let keys = File::from(master);
        let mut screen = keys.try_clone().unwrap();
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // It ends with an error when nobody has the other end any more.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal { child, keys, screen: receiver, seen: String::new() }
    }

    /// Waits for a text, and forgets what was shown up to its end.
    #[track_caller]
    fn expect(&mut self, text: &str) {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(left) {
                Ok(bytes) => self.seen += &String::from_utf8_lossy(&bytes),
                Err(_) => panic!("`{text}` does not come; on the screen: {:?}", self.seen),
            }
        }
    }

    /// Waits until a line can be typed: keys that come before are thrown away.
    #[track_caller]
    fn prompt(&mut self) {
        self.expect("\x1b[?2004h");
        self.expect("> ");
    }

    fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    #[track_caller]
    fn ends(mut self) {
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{:?}", self.seen);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_person_who_leaves_changes_behind_is_asked() {
    const QUESTION: &str = "commit them, drop them, or stay? [c/d/s] ";
    let (_folder, server) = kinds();
    let begin = |number: u32| {
        let mut terminal = Terminal::open(&server.urls[0]);
        terminal.prompt();
        for line in ["$i := lookup shop: Shop.first()".to_owned(), format!("$i.set({number})")] {
            terminal.keys(&format!("{line}\r"));
            terminal.prompt();
        }
        terminal.keys("? $i.number()\r");
        terminal.expect(&format!("= {number}"));
        terminal.prompt();
        terminal
    };
    let stored = |number: &str| {
        let (said, _, _) = asked(&server, &["-c", "? lookup shop: Shop.first().number()"]);
        assert!(said.contains(&format!("= {number}\n")), "{said}");
    };
    // Stays, and then drops them.
    let mut terminal = begin(7);
    terminal.keys("bye\r");
    terminal.expect(QUESTION);
    terminal.keys("what\r");
    terminal.expect("\x1b[?2004h");
    terminal.expect(QUESTION);
    terminal.keys("s\r");
    terminal.prompt();
    terminal.keys("? $i.number()\r");
    terminal.expect("= 7");
    terminal.prompt();
    terminal.keys("\x04");
    terminal.expect(QUESTION);
    terminal.keys("d\r");
    terminal.ends();
    stored("1");
    // Commits them.
    let mut terminal = begin(8);
    terminal.keys("\x04");
    terminal.expect(QUESTION);
    terminal.keys("c\r");
    terminal.ends();
    stored("8");
    // What is committed is no matter.
    let mut terminal = begin(9);
    terminal.keys("? commit\r");
    terminal.expect("= nil");
    terminal.prompt();
    terminal.keys("\x04");
    terminal.ends();
    stored("9");
}

#[test]
fn a_live_line_is_answered_again_after_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("kinds.theta");
    std::fs::write(&program, KINDS).unwrap();
    let server = Server::serve(&program, &[]);
    let mut command = bifrost();
    command.args(["shell", &server.urls[0], "-c", "$s := lookup shop: Shop", "-c", "$i := $s.first()"]);
    command.args(["-c", "live 3 ? $i.number()", "-c", "live 1 list 1 $s.all()"]);
    let mut shell = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (sender, said) = channel();
    let mut stdout_of = BufReader::new(shell.stdout.take().unwrap());
    std::thread::spawn(move || {
        let mut line = String::new();
        while stdout_of.read_line(&mut line).is_ok_and(|count| count > 0) {
            sender.send(std::mem::take(&mut line)).unwrap();
        }
    });
    let until = |end: &str| {
        let mut found = String::new();
        while !found.contains(end) {
            found += &said.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("only {found}"));
        }
    };
    let set = |value: &str| {
        let script = format!("$s := lookup shop: Shop\n$i := $s.first()\n$i.set({value})\ncommit\nflush\n");
        assert!(server.shell(&server.urls[0], &[], &script).status.success());
    };
    until("@1 = 1\n");
    set("1");
    set("7");
    until("@1 = 7\n");
    set("8");
    until("@1 = 8\n");
    until(": item\n");
    assert!(shell.wait().unwrap().success());
    // It waits only where nothing was changed, and stands in no structure.
    let script = "$s := lookup shop: Shop\n$i := $s.first()\n$i.set(9)\nlive ? $i.number()\n";
    let output = server.shell(&server.urls[0], &[], script);
    assert!(stderr(&output).contains("commit or abort it before `wait`"), "{}", stderr(&output));
    let output = server.shell(&server.urls[0], &[], "while\nlive ? true\n");
    assert!(stderr(&output).contains("`live` cannot stand inside a structure"), "{}", stderr(&output));
}
