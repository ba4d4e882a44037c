//! `bifrost store backup` of a store that a server has open: one commit, while others go on; and nothing is left
//! where it fails.

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::{Server, bifrost, stderr, stdout};

/// Two counters whose sum is always 0, beside objects that make a copy long.
const PAIR: &str = "
Pair = type   move () returns (int)   sum () returns (int)   moved () returns (int)   end Pair
Counter = type   add (by: int)   value () returns (int)   end Counter
module pairs exports new_pair
  C = class implements Counter
    n: int
    add (by: int) n := n + by end add
    value () returns (int) return (n) end value
  end C
  P = class implements Pair
    a: Counter   b: Counter   rest: array[Counter]
    move () returns (int)
      a.add(1)
      b.add(-1)
      return (a.value())
    end move
    sum () returns (int) return (a.value() + b.value()) end sum
    moved () returns (int) return (a.value()) end moved
  end P
  new_pair () returns (Pair)
    rest: array[Counter] := array_new[Counter]()
    a: Counter := C{n := 0}
    for i: int in 1.to(40000) do rest.append(C{n := i}) end
    return (P{a := a, b := C{n := 0}, rest := rest})
  end new_pair
end pairs
setup () root().insert(\"pair\", new_pair()) end setup
";

struct Stored {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Stored {
    fn new() -> Stored {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("pairs.theta");
        std::fs::write(&program, PAIR).unwrap();
        Stored { folder, program }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn serve(&self, store: &Path) -> Server {
        Server::serve(&self.program, &["--store", store.to_str().unwrap()])
    }

    fn backup(&self, target: &str) -> Output {
        backup_of(&self.path("store"), &self.path(target))
    }

    fn is_gone(&self, target: &str) -> bool {
        !self.path(target).exists() && !self.path(&format!("{target}.partial")).exists()
    }
}

fn backup_of(store: &Path, target: &Path) -> Output {
    bifrost().args(["store", "backup", "--json"]).args([store, target]).output().unwrap()
}

fn said(server: &Server, script: &str) -> String {
    let output = server.shell(&server.urls[0], &[], script);
    assert_eq!(stderr(&output), "");
    stdout(&output).to_owned()
}

/// The values of `sum` and `moved` that a server of this store tells.
fn told(server: &Server) -> (i64, i64) {
    let said = said(server, "$p := lookup pair: Pair\n? $p.sum(), $p.moved()\n");
    let values: Vec<i64> = said.lines().filter_map(|line| line.split_once(" = ")?.1.parse().ok()).collect();
    (values[0], values[1])
}

const MOVE: &str = "$p := lookup pair: Pair\n? $p.move()\ncommit\nflush\n";

#[test]
fn a_copy_is_one_commit_and_commits_go_on() {
    let all = Stored::new();
    let server = all.serve(&all.path("store"));
    said(&server, MOVE);
    let is_over = AtomicBool::new(false);
    let moves = std::thread::scope(|threads| {
        let mover = threads.spawn(|| {
            let script =
                format!("$p := lookup pair: Pair\n{}", "$n := $p.move()\ncommit\nflush\n".repeat(50));
            let mut moves = 1;
            while !is_over.load(Ordering::Relaxed) {
                said(&server, &script);
                moves += 50;
            }
            moves
        });
        for copy in ["one", "two", "three"] {
            let output = all.backup(copy);
            assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{}", stdout(&output));
            let figures: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
            assert!(figures["objects"].as_u64().unwrap() >= 40_004, "{figures}");
            assert!(figures["commit"].as_u64().unwrap() > 2, "{figures}");
        }
        is_over.store(true, Ordering::Relaxed);
        mover.join().unwrap()
    });
    assert_eq!(told(&server), (0, moves));
    let mut last = 0;
    for copy in ["one", "two", "three"] {
        let output = bifrost().args(["store", "check"]).arg(all.path(copy)).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
        let server = all.serve(&all.path(copy));
        let (sum, moved) = told(&server);
        assert!(sum == 0 && moved >= last && moved <= moves, "{copy}: {sum}, {moved} of {moves}");
        last = moved;
    }
    // The socket is its owner's, and goes with the server.
    let socket = all.path("store/backup");
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(server.end("TERM").0, Some(0));
    assert!(!socket.exists());
}

#[test]
fn a_copy_whose_command_is_killed_is_none_and_the_server_goes_on() {
    let all = Stored::new();
    let server = all.serve(&all.path("store"));
    for _ in 0..3 {
        let mut child = bifrost();
        let mut child =
            child.args(["store", "backup"]).args([all.path("store"), all.path("copy")]).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while !all.path("copy.partial/base").exists() && Instant::now() < until {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!all.path("copy").exists(), "the copy has its name when it is whole");
        said(&server, MOVE);
    }
    // What was left is no hindrance.
    assert_eq!(all.backup("copy").status.code(), Some(0));
    assert!(!all.path("copy.partial").exists());
    assert_eq!(told(&all.serve(&all.path("copy"))), (0, 3));
}

#[test]
fn a_server_that_dies_leaves_no_copy() {
    let all = Stored::new();
    drop(all.serve(&all.path("store")));
    // In the place of a server: one that holds the lock, and ends in the middle.
    let lock = File::options().write(true).open(all.path("store/lock")).unwrap();
    lock.lock().unwrap();
    std::fs::remove_file(all.path("store/backup")).unwrap();
    let listener = UnixListener::bind(all.path("store/backup")).unwrap();
    let begin = [4, 0, 0, 0, 1, 1, 3, 9, 1];
    for (bytes, why) in [
        (&begin[..], "broken off"),
        (&begin[..3], "broken off"),
        (&[&begin[..], &[3, 0, 0, 0, 6], b"why"].concat(), "broken off: why"),
        (&[&begin[..], &[0, 0, 0, 0, 77]].concat(), "kind 77"),
    ] {
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 9];
                stream.read_exact(&mut request).unwrap();
                assert_eq!(&request, b"backup 1\n");
                stream.write_all(bytes).unwrap();
            });
            let output = all.backup("copy");
            assert_eq!(output.status.code(), Some(1));
            assert!(stderr(&output).contains(why), "{}", stderr(&output));
        });
        assert!(all.is_gone("copy"));
    }
    // A process that gives no backups, as `bifrost run`.
    drop(listener);
    let output = all.backup("copy");
    assert!(stderr(&output).contains("has the store open: end that process"), "{}", stderr(&output));
    assert!(all.is_gone("copy"));
}

#[test]
fn a_full_disk_is_told_and_leaves_nothing() {
    let all = Stored::new();
    let server = all.serve(&all.path("store"));
    // No file may be larger than a megabyte; the signal of it is ignored, so that the system says so.
    let script = format!(
        "trap '' XFSZ; ulimit -f 1024; exec '{}' store backup '{}' '{}'",
        env!("CARGO_BIN_EXE_bifrost"),
        all.path("store").display(),
        all.path("copy").display()
    );
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("File too large"), "{}", stderr(&output));
    assert!(all.is_gone("copy"));
    said(&server, MOVE);
    assert_eq!(all.backup("copy").status.code(), Some(0));
}

#[test]
fn one_backup_at_a_time_and_none_holds_up_the_end() {
    let all = Stored::new();
    let server = all.serve(&all.path("store"));
    let ask = |request: &[u8]| {
        let mut stream = UnixStream::connect(all.path("store/backup")).unwrap();
        stream.write_all(request).unwrap();
        stream
    };
    let mut answer = Vec::new();
    ask(b"backup 9\n").read_to_end(&mut answer).unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("is not `backup 1`"));
    // One that takes nothing: others are refused, sessions go on, and the server ends in time.
    let stalled = ask(b"backup 1\n");
    let until = Instant::now() + Duration::from_secs(20);
    let refused = loop {
        let output = all.backup("copy");
        if output.status.code() == Some(1) || Instant::now() > until {
            break output;
        }
        std::fs::remove_dir_all(all.path("copy")).unwrap();
    };
    assert!(stderr(&refused).contains("another backup is under way"), "{}", stderr(&refused));
    assert!(all.is_gone("copy"));
    said(&server, MOVE);
    let since = Instant::now();
    assert_eq!(server.end("TERM").0, Some(0));
    assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
    drop(stalled);
}

#[test]
fn a_path_longer_than_that_of_a_socket_is_no_hindrance() {
    let all = Stored::new();
    let store = all.path(&"a folder with a long name/".repeat(6)).join("store");
    let server = all.serve(&store);
    assert!(store.as_os_str().len() > 150 && store.join("backup").exists());
    let output = backup_of(&store, &all.path("copy"));
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    assert_eq!(server.end("TERM").0, Some(0));
    assert!(!store.join("backup").exists());
}

#[test]
fn a_killed_server_leaves_a_socket_that_nobody_minds() {
    let all = Stored::new();
    let server = all.serve(&all.path("store"));
    said(&server, MOVE);
    server.end("KILL");
    assert!(all.path("store/backup").exists());
    // Its files are copied, with what is in the log only.
    assert_eq!(all.backup("copy").status.code(), Some(0));
    assert_eq!(told(&all.serve(&all.path("copy"))), (0, 1));
    let server = all.serve(&all.path("store"));
    assert_eq!(all.backup("again").status.code(), Some(0));
    assert_eq!(told(&server), (0, 1));
}
