//! Ordered maps and lists of `std.trees` in a store: a change of one entry among 100,000 writes few small objects,
//! sessions that change different leaves of a map do not conflict, and the trees outlive their server.

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::Value;
use support::{Server, bifrost, stderr, stdout};

/// The keys of the maps are the even numbers up to 200,000, in an order that leaves no leaf full; the list has as many
/// elements.
const TREES: &str = "
import std.trees
Trees = type
  map () returns (tree_map[int, int])
  counted () returns (tree_map[int, int])
  list () returns (tree_list[int])
end Trees
module stored exports setup
  T = class implements Trees
    map, counted: tree_map[int, int]
    list: tree_list[int]
  end T
  setup ()
    t: Trees := T{
      map := new_tree_map[int, int](), counted := new_counted_map[int, int](), list := new_tree_list[int]()
    }
    for i: int in 1.to(100002) do
      k: int := i * 61 // 100003 * 2
      if k <= 200000 then
        t.map()[k] := i
        t.counted()[k] := i
      end
      if i <= 100000 then t.list().append(i) end
    end
    root().insert(\"trees\", t)
  end setup
end stored
";
const LOOKUP: &str = "$t := lookup trees: Trees\n";

fn serve(folder: &Path) -> Server {
    let program = folder.join("trees.theta");
    std::fs::write(&program, TREES).unwrap();
    Server::serve(&program, &["--store", &folder.join("store").display().to_string()])
}

/// The answers to a script about the trees `$t`.
#[track_caller]
fn said(server: &Server, script: &str) -> String {
    let output = server.shell(&server.urls[0], &[], &format!("{LOOKUP}{script}"));
    assert_eq!(stderr(&output), "");
    stdout(&output).to_owned()
}

/// The objects that each commit wrote last and the bytes of their lines in a dump, in the order of commits.
fn written(folder: &Path) -> Vec<(usize, usize)> {
    let output = bifrost().args(["store", "dump"]).arg(folder.join("store")).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let mut commits: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
    for line in stdout(&output).lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        if let Some(commit) = value["commit"].as_u64() {
            let (objects, bytes) = commits.entry(commit).or_default();
            *objects += 1;
            *bytes += line.len();
        }
    }
    commits.into_values().collect()
}

#[test]
fn a_changed_entry_writes_few_objects_and_outlives_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    // Each change is in another leaf, and is a commit of its own. An overwritten value is an array of values. A key
    // is in two arrays, and in those of two levels that count; the list counts in two levels and in itself.
    let changes = [
        ("$t.map().store(100000, 7)", 1),
        ("$t.map().insert(50001, 8)", 2),
        ("$t.map().remove(150000)", 2),
        ("$t.counted().store(100000, 7)", 1),
        ("$t.counted().insert(50001, 8)", 4),
        ("$t.list().store(50000, 7)", 1),
        ("$t.list().remove_at(80000)", 4),
    ];
    for (change, _) in changes {
        said(&server, &format!("{change}\ncommit\nflush\n"));
    }
    server.end("KILL");
    let written = written(folder.path());
    assert_eq!(written.len(), changes.len() + 1, "{written:?}");
    // Of what `setup` made: some 2,000 leaves of three objects for each map, and 1,600 for the list.
    assert!((10_000..25_000).contains(&written[0].0), "{written:?}");
    for ((change, objects), (found, bytes)) in changes.iter().zip(&written[1..]) {
        assert_eq!(found, objects, "{change}: {written:?}");
        assert!(*bytes < 4_000, "{change}: {bytes} bytes");
    }
    let server = serve(folder.path());
    let script =
        "? $t.map().fetch(100000), $t.map().fetch(50001), $t.map().contains(150000), $t.map().length()
? $t.counted().fetch(100000), $t.counted().rank(50001), $t.counted().nth(25001), $t.counted().length()
? $t.list().fetch(50000), $t.list().fetch(80000), $t.list().top(), $t.list().length()
";
    let said = said(&server, script);
    let answers: Vec<&str> =
        said.lines().filter_map(|line| line.split_once(" = ")).map(|(_, answer)| answer).collect();
    let map = ["7", "8", "false", "100000"];
    let counted = ["7", "25000", "50001", "100001"];
    let list = ["7", "80001", "100000", "99999"];
    assert_eq!(answers, [map, counted, list].concat(), "{said}");
}

#[test]
fn clients_have_stubs_of_the_trees_of_a_program() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("trees.theta");
    std::fs::write(&program, TREES).unwrap();
    let output = bifrost().arg("veneer").arg(&program).arg("-o").arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let stubs = std::fs::read_to_string(folder.path().join("bifrost_stubs.rs")).unwrap();
    for part in [
        "pub fn counted(&self) -> TreeMapOfIntAndInt {",
        "impl TreeMapOfIntAndInt {",
        "pub fn values(&self) -> bf::Iter<(i64,)> {",
        "impl TreeListOfInt {",
    ] {
        assert!(stubs.contains(part), "{part}");
    }
    assert!(!stubs.contains("BTree"), "a client sees no classes");
}

/// A session with a transaction that has not ended.
struct Session {
    shell: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Session {
    /// Runs a change without a commit.
    fn start(server: &Server, change: &str) -> Session {
        let mut command = bifrost();
        command.arg("shell").arg(&server.urls[0]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut shell = command.spawn().unwrap();
        let mut input = shell.stdin.take().unwrap();
        let mut output = BufReader::new(shell.stdout.take().unwrap());
        write!(input, "{LOOKUP}{change}\nflush\n").unwrap();
        let mut heard = String::new();
        while !heard.contains("\nok ") {
            assert!(output.read_line(&mut heard).unwrap() > 0, "{heard}");
        }
        Session { shell, input, output }
    }

    /// Commits; true if it is done, false after a conflict.
    fn commits(mut self) -> bool {
        self.input.write_all(b"commit\nflush\n").unwrap();
        drop(self.input);
        let mut heard = String::new();
        self.output.read_to_string(&mut heard).unwrap();
        assert!(self.shell.wait().unwrap().code().is_some());
        assert!(!heard.contains('!') || heard.contains("Conflict"), "{heard}");
        !heard.contains('!')
    }
}

#[test]
fn sessions_that_change_different_leaves_of_a_map_do_not_conflict() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let cases = [
        // Another leaf, the same leaf, a key that only the other one reads.
        ("$t.map().insert(50001, 1)", "$t.map().insert(150001, 2)", true),
        ("$t.map().remove(40000)", "$t.map().store(140001, 2)", true),
        ("$t.map().insert(70001, 1)", "$t.map().insert(70003, 2)", false),
        ("$t.map().fetch(70000)", "$t.map().insert(170001, 2)", true),
        ("$t.map().store(80000, 1)", "$t.map().fetch(180000)", true),
        // The counts of the root are those of all keys, but values are not counted.
        ("$t.counted().insert(50001, 1)", "$t.counted().insert(150001, 2)", false),
        ("$t.counted().store(50000, 1)", "$t.counted().store(150000, 2)", true),
        ("$t.list().append(1)", "$t.list().append_low(2)", false),
        ("$t.list().store(20000, 1)", "$t.list().store(80000, 2)", true),
    ];
    for (first, second, both) in cases {
        let session = Session::start(&server, first);
        let other = Session::start(&server, second);
        assert!(other.commits(), "{second}");
        assert_eq!(session.commits(), both, "{first}, {second}");
    }
    assert_eq!(said(&server, "? $t.map().count(50001, 50001), $t.map().fetch(150001)\n").lines().count(), 3);
}

/// The program that measures commits runs over a store, and again over the filled one.
#[test]
fn commits_are_measured() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/trees/commits.theta");
    for _ in 0..2 {
        let output =
            bifrost().args(["run", "--store"]).arg(&store).arg(&program).arg("1000").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let lines: Vec<&str> = stdout(&output).lines().collect();
        assert!(lines.len() == 6 && lines.iter().all(|line| line.ends_with(" us")), "{lines:?}");
    }
}
