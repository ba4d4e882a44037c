//! The limit for the objects of all sessions of a server: what it ends, and what goes on.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use support::Server;

const PROGRAM: &str = "
Counter = type   add (n: int) returns (int) end Counter
Ballast = type   megabytes () returns (int) end Ballast
module all exports new_counter, take
  C = class implements Counter
    value: int
    add (n: int) returns (int)
      value := value + n
      return (value)
    end add
  end C
  B = class implements Ballast
    parts: array[array[int]]
    megabytes () returns (int) return (parts.length()) end megabytes
  end B
  new_counter () returns (Counter) return (C{value := 0}) end new_counter
  % So many megabytes.
  remote take (n: int) returns (Ballast)
    parts: array[array[int]] := array_new[array[int]]()
    for i: int in 1.to(n) do parts.append(array_fill[int](1, 131072, i)) except when bounds: end end
    return (B{parts := parts})
  end take
end all
setup () root().insert(\"counter\", new_counter()) end setup
";

/// The limit of the server, and what each greedy session wants.
const LIMIT_MB: usize = 96;
const EACH_MB: usize = 30;
const GREEDY: usize = 12;

/// A session that speaks the text form.
struct Talk(BufReader<UnixStream>);

impl Talk {
    fn begin(socket: &Path) -> Talk {
        let mut talk = Talk(BufReader::new(UnixStream::connect(socket).unwrap()));
        talk.0.get_mut().write_all(b"hello 2 name \"test\"\n").unwrap();
        talk
    }

    /// Sends lines that end with a flush, and returns the answer; the first one with the welcome.
    fn ask(&mut self, lines: &str) -> String {
        self.0.get_mut().write_all(lines.as_bytes()).unwrap();
        let mut answer = String::new();
        while self.0.read_line(&mut answer).unwrap() > 0 {
            if answer.lines().last().is_some_and(|line| line.starts_with("ok") || line.starts_with("error")) {
                break;
            }
        }
        answer
    }

    fn take(&mut self) -> String {
        self.ask(&format!("$b := take({EACH_MB})\n? $b.megabytes()\n"))
    }
}

/// The most memory that a process has had, in megabytes.
fn peak_mb(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() / 1024
}

#[test]
fn many_greedy_sessions_do_not_pass_the_limit_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program.theta");
    std::fs::write(&program, PROGRAM).unwrap();
    let limit = (LIMIT_MB << 20).to_string();
    let server = Server::serve(&program, &["--server-heap-bytes-max", &limit]);
    let socket = server.folder.path().join("socket");

    let mut old = Talk::begin(&socket);
    assert!(old.ask("$c := lookup counter: Counter\n? $c.add(1)\n").contains("= 1\n"));
    let before = peak_mb(server.child.id());
    let mut greedy: Vec<(Talk, String)> = std::thread::scope(|scope| {
        let take = || {
            let mut talk = Talk::begin(&socket);
            let answer = talk.take();
            (talk, answer)
        };
        let threads: Vec<_> = (0..GREEDY).map(|_| scope.spawn(take)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let grown = peak_mb(server.child.id()) - before;
    let good = greedy.iter().filter(|(_, answer)| answer.contains(&format!("= {EACH_MB}\n"))).count();
    assert!((1..=LIMIT_MB / EACH_MB).contains(&good), "{good} of {GREEDY}");
    // The sessions' threads and buffers come on top.
    assert!(grown < LIMIT_MB + 3 * GREEDY, "{grown} MB");
    for (talk, answer) in &mut greedy {
        if answer.contains(&format!("= {EACH_MB}\n")) {
            continue;
        }
        let refused = answer.contains(&format!("{limit} bytes is the limit (server_heap_bytes_max)"));
        assert!(refused && answer.contains("HeapLimit"), "{answer}");
        // The session goes on, but not its transaction.
        let answer = talk.ask("clear\n$d := commit\n? $d\n");
        assert!(answer.contains("Doomed") && answer.contains("all sessions"), "{answer}");
        let answer = talk.ask("$a := abort\n? $a\n");
        assert!(answer.contains("$a = nil\n"), "{answer}");
    }

    // Others fill the server; the session with little goes on as before, and so does a new one.
    for count in 2..100 {
        let answer = old.ask("? $c.add(1)\n");
        assert!(answer.contains(&format!("= {count}\n")), "{answer}");
    }
    let mut young = Talk::begin(&socket);
    let answer = young.ask("$c := lookup counter: Counter\n? $c.add(1)\n");
    assert!(answer.contains("= 1\n"), "{answer}");

    // What they held is there for others when they have gone.
    drop(greedy);
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = young.take();
        if answer.contains(&format!("= {EACH_MB}\n")) {
            break;
        }
        assert!(Instant::now() < until, "{answer}");
        young.ask("$a := abort\n? $a\n");
    }
}
