//! Servers that keep their objects: over the end of the process, whoever ends it, and apart for each session.

mod support;

use std::path::{Path, PathBuf};

use support::{Server, bifrost, stderr, stdout, without_commits};

const COUNTERS: &str = "
Counter = type   value () returns (int)   add (n: int) returns (int) signals (too_many)   end Counter
module counters exports new_counter
  C = class implements Counter
    value: int
    add (n: int) returns (int) signals (too_many)
      if value + n > 100 then signal too_many end
      value := value + n
      return (value)
    end add
  end C
  new_counter () returns (Counter) return (C{value := 0}) end new_counter
end counters
setup () root().insert(\"counter\", new_counter()) end setup
";

fn program(folder: &Path) -> PathBuf {
    let path = folder.join("counters.theta");
    std::fs::write(&path, COUNTERS).unwrap();
    path
}

#[track_caller]
fn said(server: &Server, script: &str) -> String {
    let output = server.shell(&server.urls[0], &[], script);
    assert_eq!(stderr(&output), "");
    stdout(&output).to_owned()
}

/// The same for a script that leaves without a commit, which the shell tells.
#[track_caller]
fn said_in_vain(server: &Server, script: &str) -> String {
    let output = server.shell(&server.urls[0], &[], script);
    let note = "note: the changes that were not committed are lost; use `commit`\n";
    assert_eq!(stderr(&output), note);
    stdout(&output).to_owned()
}

#[test]
fn what_was_committed_is_there_after_the_server_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let store = folder.path().join("store").display().to_string();
    let start = || Server::serve(&program, &["--store", &store]);
    let mut server = start();
    for round in 1..=5 {
        let script = "$c := lookup counter: Counter\n? $c.add(3)\ncommit\n? $c.add(50)\nflush\n";
        let expected = format!(
            "@2 = {}\nok 1 calls\n@2 = {}\nok 1 calls\n$c = h1: Counter\nok 0 calls\n",
            3 * round,
            3 * round + 50
        );
        assert_eq!(said_in_vain(&server, script), expected);
        // Without a word to anybody: what was not committed is gone.
        server.end("KILL");
        server = start();
        assert_eq!(
            said(&server, "$c := lookup counter: Counter\n? $c.value()\n"),
            format!("@2 = {}\nok 1 calls\n", 3 * round)
        );
    }
    assert_eq!(server.end("TERM").0, Some(0));
}

#[test]
fn sessions_see_what_others_have_committed() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let folder = folder.path().join("store").display().to_string();
    // A server that is told nothing has its store in memory.
    for store in [&[][..], &["--store", "memory:"], &["--store", &folder]] {
        let server = Server::serve(&program, store);
        said_in_vain(&server, "$c := lookup counter: Counter\n$c.add(7)\nflush\n");
        assert_eq!(said(&server, "$c := lookup counter: Counter\n? $c.value()\n"), "@2 = 0\nok 1 calls\n");
        said(&server, "$c := lookup counter: Counter\n$c.add(7)\ncommit\nflush\n");
        assert_eq!(said(&server, "$c := lookup counter: Counter\n? $c.value()\n"), "@2 = 7\nok 1 calls\n");
    }
}

#[test]
fn the_standard_generator_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("dice.theta");
    let text = "import std.random
setup () root().insert(\"dice\", new_generator(7)) end setup
remote first () returns (int) signals (bounds)
  return (new_generator(7).next(1000000))
end first
";
    std::fs::write(&program, text).unwrap();
    let store = folder.path().join("store").display().to_string();
    let rolled = |server: &Server, end: &str| {
        let script = format!("$d := lookup dice: Generator\n? $d.next(1000000), first()\n{end}\nflush\n");
        let said = said(server, &script);
        let values: Vec<&str> =
            said.lines().filter_map(|line| line.split_once(" = ")).map(|(_, value)| value).collect();
        (values[0].to_owned(), values[1].to_owned())
    };
    let server = Server::serve(&program, &["--store", &store]);
    let (one, first) = rolled(&server, "abort");
    assert_eq!(one, first);
    assert_eq!(rolled(&server, "commit").0, first, "what was aborted was not drawn");
    let (two, _) = rolled(&server, "commit");
    server.end("KILL");
    let server = Server::serve(&program, &["--store", &store]);
    let (three, _) = rolled(&server, "commit");
    assert!(first != two && two != three && three != first, "{first} {two} {three}");
}

#[test]
fn a_changed_class_is_refused_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let store = folder.path().join("store").display().to_string();
    Server::serve(&program, &["--store", &store]).end("TERM");
    std::fs::write(
        &program,
        COUNTERS
            .replace("value: int\n", "value: int   step: int\n")
            .replace("value := 0", "value := 0, step := 1"),
    )
    .unwrap();
    let output = bifrost().args(["serve", "--store", &store]).arg(&program).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("the class `C` has changed since its objects were stored: `step` added"), "{said}");
}

/// Two private classes with the same name and the same instance variables.
const NAMESAKES: &str = "
Named = type say () returns (string) end Named
module ones exports one
  C = class implements Named
    n: int
    say () returns (string) return (\"one \" || n.unparse()) end say
  end C
  one () returns (Named) return (C{n := 1}) end one
end ones
module twos exports two
  C = class implements Named
    n: int
    say () returns (string) return (\"two \" || n.unparse()) end say
  end C
  two () returns (Named) return (C{n := 2}) end two
end twos
setup ()
  root().insert(\"one\", one())
  root().insert(\"two\", two())
end setup
main () signals (not_found, aborted (string))
  transaction
    for name: string in root().names() do
      typecase root().lookup(name)
        when Named (x): print(name || \": \" || x.say())
        others: print(\"another type\")
      end
    end
  end resignal not_found, aborted
end main
";

#[test]
fn classes_of_one_name_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("namesakes.theta");
    std::fs::write(&program, NAMESAKES).unwrap();
    let store = folder.path().join("store");
    for _ in 0..2 {
        let output = bifrost().args(["run", "--store"]).arg(&store).arg(&program).output().unwrap();
        assert_eq!((stdout(&output), stderr(&output)), ("one: one 1\ntwo: two 2\n", ""));
    }
}

#[test]
fn a_store_has_one_server() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let store = folder.path().join("store").display().to_string();
    let first = Server::serve(&program, &["--store", &store]);
    let output = bifrost().args(["serve", "--store", &store]).arg(&program).output().unwrap();
    assert!(stderr(&output).contains("has the store open: end that process"), "{}", stderr(&output));
    drop(first);
}

#[test]
fn a_store_can_be_looked_into() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let store = folder.path().join("store").display().to_string();
    let tool = |arguments: &[&str]| {
        let output = bifrost().arg("store").args(arguments).output().unwrap();
        (output.status.code(), format!("{}{}", stdout(&output), stderr(&output)))
    };
    let (status, said) = tool(&["info", &store]);
    assert_eq!(status, Some(1));
    assert!(said.contains("there is no store in"), "{said}");
    let server = Server::serve(&program, &["--store", &store]);
    let script = "$c := lookup counter: Counter\n$c.add(7)\ncommit\nflush\n";
    assert!(self::said(&server, script).contains("ok 1 calls"));
    assert!(tool(&["info", &store]).1.contains("has the store open: end that process"));
    server.end("TERM");
    let (_, said) = tool(&["info", &store, "--json"]);
    assert!(said.contains("\"objects\":2"), "{said}");
    assert_eq!(tool(&["check", &store]).0, Some(0));
    let (_, said) = tool(&["dump", &store]);
    // Two classes, two objects, and the end.
    assert_eq!(said.lines().count(), 5, "{said}");
    assert!(said.contains('7'), "{said}");
    let (status, said) = tool(&["gc", &store]);
    assert_eq!((status, said.as_str()), (Some(0), "2 objects live, 0 were freed, 0 bytes\n"));
}

/// A program that adds to a counter until it is killed, one commit for each line that it says.
const ADDING: &str = "
import counters (Counter)
add (n: int) returns (int) signals (not_found, too_many)
  typecase root().lookup(\"counter\")
    when Counter (c): return (c.add(n))
    others: signal not_found
  end resignal not_found, too_many
end add
main (args: sequence[string]) signals (not_found, aborted (string))
  while true do
    n: int := 0
    transaction n := add(1) end except when too_many: n := 0 end resignal not_found, aborted
    print(n.unparse())
    if args.length() > 0 then return end
  end
end main
";

#[test]
fn what_a_program_has_committed_is_there_after_it_was_killed() {
    use std::io::{BufRead, BufReader};
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("counters.theta"), COUNTERS.replace("> 100", "> 1_000_000_000"))
        .unwrap();
    let adding = folder.path().join("adding.theta");
    std::fs::write(&adding, ADDING).unwrap();
    let store = folder.path().join("store").display().to_string();
    let run = |mode: &[&str]| {
        let mut command = bifrost();
        command.arg("run").args(mode).args(["--store", &store]).arg(&adding);
        command
    };
    let mut seen = 0;
    for mode in [&[][..], &["--interpret"], &[]] {
        let mut child = run(mode).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for _ in 0..5 {
            let line: i64 = lines.next().unwrap().unwrap().parse().unwrap();
            assert_eq!(line, seen + 1, "{mode:?}");
            seen = line;
        }
        // It holds the store, and says so.
        let output = run(mode).arg("once").output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let holder = format!("another process ({}) has the store open", child.id());
        assert!(stderr(&output).contains(&holder), "{}", stderr(&output));
        support::kill(&child, "KILL");
        child.wait().unwrap();
        // What it has said is committed; it may have been about to say more.
        let rest: Vec<i64> = lines.map(|line| line.unwrap().parse().unwrap()).collect();
        seen += rest.len() as i64;
        let output = run(mode).arg("once").output().unwrap();
        let found: i64 = stdout(&output).trim_end().parse().unwrap_or_else(|_| panic!("{}", stderr(&output)));
        assert!(found == seen + 1 || found == seen + 2, "{found} after {seen}");
        seen = found;
    }
}

#[test]
fn a_program_without_a_store_runs_the_same_and_keeps_nothing() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path());
    let adding = folder.path().join("adding.theta");
    std::fs::write(&adding, ADDING).unwrap();
    for arguments in [&[][..], &["--store", "memory:"], &["--interpret"]] {
        for _ in 0..2 {
            let output = bifrost().arg("run").args(arguments).arg(&adding).arg("once").output().unwrap();
            assert_eq!((stdout(&output), stderr(&output)), ("1\n", ""), "{arguments:?}");
        }
    }
    // One that has no transactions has a directory like others, unless there is a store.
    let plain = folder.path().join("plain.theta");
    std::fs::write(&plain, "main ()\n  root().insert(\"a\", 1)\n  print(\"there\")\nend main\n").unwrap();
    let output = bifrost().arg("run").arg(&plain).output().unwrap();
    assert_eq!((stdout(&output), stderr(&output)), ("there\n", ""));
    let output = bifrost().args(["run", "--store", "memory:"]).arg(&plain).output().unwrap();
    assert!(stderr(&output).contains("failure(\"no transaction\")"), "{}", stderr(&output));
}

#[test]
fn a_store_is_copied_and_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let program = program(folder.path());
    let (store, dump) = (path("store"), path("dump"));
    let tool = |arguments: &[&str]| {
        let output = bifrost().arg("store").args(arguments).output().unwrap();
        (output.status.code(), format!("{}{}", stdout(&output), stderr(&output)))
    };
    let server = Server::serve(&program, &["--store", &store]);
    said(&server, "$c := lookup counter: Counter\n$c.add(7)\ncommit\nflush\n");
    // What is in the log only is copied, too.
    server.end("KILL");
    assert_eq!(tool(&["backup", &store, &path("copy")]), (Some(0), String::new()));
    let (_, lines) = tool(&["dump", &store]);
    assert_eq!(tool(&["dump", &path("copy")]).1, lines);
    let (status, told) = tool(&["backup", &store, &path("copy")]);
    assert_eq!(status, Some(1));
    assert!(told.contains("is not empty"), "{told}");

    std::fs::write(&dump, &lines).unwrap();
    assert_eq!(tool(&["load", &path("made"), &dump]), (Some(0), "2 objects\n".to_owned()));
    assert_eq!(without_commits(&tool(&["dump", &path("made")]).1), without_commits(&lines));
    assert_eq!(tool(&["load", &path("made"), &dump]).0, Some(1));
    let server = Server::serve(&program, &["--store", &path("made")]);
    assert_eq!(said(&server, "$c := lookup counter: Counter\n? $c.value()\n"), "@2 = 7\nok 1 calls\n");
    drop(server);

    // A wrong dump makes nothing; what an attempt has left is no hindrance, anything else is.
    for (text, wrong) in [
        (
            lines.replace("\"oref\":2,\"record\"", "\"oref\":3,\"record\""),
            "object 1 refers to 2, which does not exist",
        ),
        (lines.replacen("descriptor", "descriptions", 1), "line 1: expected the descriptor"),
        (lines.lines().take(4).collect::<Vec<_>>().join("\n"), "line 5: the dump ends here"),
    ] {
        std::fs::write(&dump, text).unwrap();
        let (status, told) = tool(&["load", &path("not"), &dump]);
        assert_eq!(status, Some(1));
        assert!(told.contains(wrong), "{told}");
        assert!(!folder.path().join("not").exists() && !folder.path().join("not.partial").exists());
    }
    std::fs::create_dir(path("later.partial")).unwrap();
    std::fs::write(path("later.partial/mine"), "").unwrap();
    assert!(tool(&["backup", &store, &path("later")]).1.contains("exists already"));
    std::fs::write(path("later.partial/lock"), "").unwrap();
    assert!(tool(&["backup", &store, &path("later")]).1.contains("exists already"));
    std::fs::remove_file(path("later.partial/mine")).unwrap();
    assert_eq!(tool(&["backup", &store, &path("later")]).0, Some(0));
    assert_eq!(tool(&["check", &path("later")]).0, Some(0));
}

#[test]
fn only_folders_are_copied_and_nothing_is_made_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, told) in [
        (&["backup", "postgres://nobody:s3cret@127.0.0.1:1/nothing", "copy"][..], "`bifrost store dump`"),
        (&["backup", "store", "postgres://nobody:s3cret@127.0.0.1:1/nothing"], "`pg_dump`"),
        (&["backup", "store", "memory:"], "name a folder"),
        (&["load", "memory:"], "name a folder"),
    ] {
        let output = bifrost().arg("store").args(arguments).current_dir(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains(told) && !said.contains("s3cret"), "{arguments:?}: {said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_batch_can_be_a_transaction_from_the_shell() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let server = Server::serve(&program, &["--store", "memory:"]);
    let named = "$t := transaction batch \"00112233445566778899aabbccddeeff\" 1\n$c := lookup counter: Counter\n? $t, $c.add(7)\n";
    assert_eq!(said(&server, named), "$t = nil\n@3 = 7\nok 1 calls\n");
    let again = said(&server, named);
    assert!(again.starts_with("$t = nil\n@3 = 7\n@2 lookup ! refused, Repeated (45)"), "{again}");
    let other = "$t := transaction 3\n$c := lookup counter: Counter\nexcept\n  $c.add(1000)\nwhen too_many\nend\n? $t, $c.add(1)\n";
    assert!(said(&server, other).starts_with("$t = nil\n@4 = 8\n"));
}
