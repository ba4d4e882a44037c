//! Sessions without threads of their own: those that rest or wait hold no worker, and a long batch
//! holds up nobody. All servers here have a single worker.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bifrost_engine::{Mode, Run};
use bifrost_server::{Config, Server, program};
use bifrost_theta::{Options, Sources};

const PATIENT: Duration = Duration::from_secs(30);

const PROGRAM: &str = "
Counter = type
  add (n: int) returns (int)
  value () returns (int)
end Counter
module counters exports new_counter
  C = class implements Counter
    count: int
    add (n: int) returns (int)
      count := count + n
      return (count)
    end add
    value () returns (int) return (count) end value
  end C
  new_counter () returns (Counter) return (C{count := 0}) end new_counter
end counters
Gate = actor
  waiting: array[replier[int]]
  new () make {waiting := array_new[replier[int]](), ticks := 0} end new
  enter () returns (int) waiting.append(replyto) end enter
  waiters () returns (int) reply (waiting.length()) end waiters
  open () returns (int)
    for one: replier[int] in waiting.elements() do one.deliver(7) end
    reply (waiting.length())
  end open
  gone (why: string) end gone
  ticks: int
  count () returns (int) reply (ticks) end count
  tick () ticks := ticks + 1 end tick
  begin_ticks () returns (bool)
    t: int := every(1, send self.tick())
    reply (true)
  end begin_ticks
  leave () stop() end leave
end Gate
remote quick (n: int) returns (int) return (n + 1) end quick
remote spin (n: int) returns (int)
  x: int := 0
  for i: int in 1.to(n) do x := x + i / 3 end
  return (x)
end spin
remote long (n: int) returns (string)
  s: string := \"x\"
  for i: int in 1.to(n) do s := s || s end
  return (s)
end long
remote open_later () returns (int)
  g: Gate := published[Gate](\"gate\") except when not_found: return (0) end
  return (later(1, send g.open()))
end open_later
remote watch_gate () returns (int)
  g: Gate := published[Gate](\"gate\") except when not_found: return (0) end
  return (monitor(g, send g.gone()))
end watch_gate
setup () root().insert(\"counter\", new_counter()) end setup
start () publish(\"gate\", Gate.new()) end start
";

struct World {
    server: Server,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

fn world_in(mode: Mode, change: impl FnOnce(&mut Config, &std::path::Path)) -> World {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let mut sources = Sources::new();
    sources.add("sessions.theta", PROGRAM);
    let engine = program::load_sources(sources, &Options::default(), Run::kept(mode)).unwrap();
    let mut config = Config {
        listen: vec![format!("unix://{}", socket.display())],
        workers: Some(1),
        ..Config::default()
    };
    change(&mut config, folder.path());
    let server = Server::start(engine, &config).unwrap();
    World { server, socket, _folder: folder }
}

fn world() -> World {
    world_in(Mode::Compiled, |_, _| {})
}

/// A client of the text form.
struct Client {
    lines: BufReader<UnixStream>,
}

impl Client {
    fn new(world: &World) -> Client {
        let stream = UnixStream::connect(&world.socket).unwrap();
        stream.set_read_timeout(Some(PATIENT)).unwrap();
        let mut client = Client { lines: BufReader::new(stream) };
        assert!(client.ask("hello 2").starts_with("welcome"));
        client
    }

    fn say(&mut self, lines: &str) {
        self.lines.get_mut().write_all(lines.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    fn ask(&mut self, line: &str) -> String {
        self.say(&format!("{line}\n"));
        self.line()
    }

    /// The answer to a batch of one call, up to its `ok`.
    fn call(&mut self, line: &str) -> String {
        self.say(&format!("{line}\n"));
        self.answer()
    }

    fn answer(&mut self) -> String {
        let mut all = String::new();
        loop {
            let line = self.line();
            assert!(!line.is_empty(), "the stream has ended: {all}");
            all += &line;
            if line.starts_with("ok") || line.starts_with("error") {
                return all;
            }
        }
    }
}

/// The number of threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[track_caller]
fn until(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENT, "it takes too long");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn idle_sessions_have_no_threads() {
    let world = world();
    let before = threads();
    let mut clients: Vec<Client> = (0..300).map(|_| Client::new(&world)).collect();
    assert_eq!(world.server.sessions(), 300);
    for client in &mut clients {
        assert!(client.call("? quick(4)").contains("= 5"));
    }
    // Tests run side by side, each with some threads.
    assert!(threads() < before + 100, "{before} threads, then {}", threads());
    until(|| world.server.workers().fibers == 0);
    drop(clients);
    until(|| world.server.sessions() == 0 && world.server.workers().jobs == 1);
}

#[test]
fn a_long_batch_holds_up_nobody() {
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let world = world_in(mode, |_, _| {});
        let mut long = Client::new(&world);
        let mut quick = Client::new(&world);
        long.say("? spin(100000000000)\n");
        until(|| world.server.workers().fibers > 0);
        for n in 0..20 {
            let start = Instant::now();
            assert!(quick.call(&format!("? quick({n})")).contains(&format!("= {}", n + 1)));
            assert!(start.elapsed() < Duration::from_secs(2), "{mode:?} {:?}", start.elapsed());
        }
        until(|| world.server.workers().fibers == 1);
        assert_eq!(world.server.sessions(), 2, "the long one goes on");
    }
}

/// The time limit of a batch counts while others run, too.
#[test]
fn time_limits_stay() {
    let world = world_in(Mode::Compiled, |config, _| {
        config.limits.insert("batch_time_ms_max".into(), 100);
    });
    let mut clients: Vec<Client> = (0..3).map(|_| Client::new(&world)).collect();
    clients.iter_mut().for_each(|client| client.say("? spin(100000000000)\n"));
    for client in &mut clients {
        assert!(client.answer().contains("batch_time_ms_max"));
        assert!(client.call("? quick(1)").contains("= 2"));
    }
}

#[test]
fn sessions_have_no_timers_and_actors_of_a_server_do() {
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let world = world_in(mode, |_, _| {});
        let mut client = Client::new(&world);
        for call in ["? open_later()", "? watch_gate()"] {
            let answer = client.call(call);
            assert!(answer.contains("a session has no timers and monitors"), "{answer}");
        }
        assert!(client.call("$g := lookup gate: Gate\n? $g.begin_ticks()").contains("true"));
        until(|| !client.call("? $g.count()").contains("= 0\n"));
        // Clients hear of its end by their next request.
        client.call("send $g.leave()\nflush");
        let answer = client.call("? $g.count()");
        assert!(answer.contains("actor ended"), "{answer}");
    }
}

#[test]
fn waiting_for_actors_holds_no_worker() {
    let world = world();
    let mut waiting: Vec<Client> = (0..100).map(|_| Client::new(&world)).collect();
    for client in &mut waiting {
        client.say("$g := lookup gate: Gate\n? $g.enter()\n");
    }
    let mut other = Client::new(&world);
    other.call("$g := lookup gate: Gate\nflush");
    until(|| other.call("? $g.waiters()").contains("= 100"));
    assert!(world.server.workers().fibers >= 100);
    assert!(other.call("? quick(1)").contains("= 2"));
    // One whose client dies waits no more.
    drop(waiting.pop());
    until(|| world.server.sessions() == 100);
    assert!(other.call("? $g.open()").contains("= 100"));
    for client in &mut waiting {
        assert!(client.answer().contains("= 7"));
    }
}

#[test]
fn clients_that_wait_for_changes_or_do_not_read_hold_no_worker() {
    let world = world();
    let mut waiting: Vec<Client> = (0..50).map(|_| Client::new(&world)).collect();
    for client in &mut waiting {
        client.call("$c := lookup counter: Counter\n? $c.value()");
        client.say("? wait 20000\n");
    }
    let mut deaf: Vec<Client> = (0..5).map(|_| Client::new(&world)).collect();
    for client in &mut deaf {
        client.say(&"? long(20)\n".repeat(8));
    }
    let mut other = Client::new(&world);
    assert!(other.call("? quick(1)").contains("= 2"));
    until(|| world.server.workers().fibers == 0);
    other.call("$c := lookup counter: Counter\n? $c.add(3)");
    other.call("commit\nflush");
    for client in &mut waiting {
        assert!(client.answer().contains("true"));
    }
    // Those that read at last have missed nothing.
    for client in &mut deaf {
        for _ in 0..8 {
            let length = client.answer().len();
            assert!(length > 1 << 20, "{length}");
        }
    }
}

/// Commits of many sessions wait for the disk together.
#[test]
fn commits_that_wait_for_the_disk_hold_no_worker() {
    let world = world_in(Mode::Compiled, |config, folder| {
        config.store = folder.join("store").display().to_string();
    });
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            let (tell, world) = (tell.clone(), &world);
            scope.spawn(move || {
                let mut client = Client::new(world);
                let mut done = 0;
                while done < 20 {
                    client.call("$c := lookup counter: Counter\n? $c.add(1)");
                    let committed = client.call("commit\nflush");
                    done += u32::from(!committed.contains("onflict"));
                }
                tell.send(done).unwrap();
            });
        }
    });
    drop(tell);
    assert_eq!(told.iter().sum::<u32>(), 320);
    let mut client = Client::new(&world);
    assert!(client.call("$c := lookup counter: Counter\n? $c.value()").contains("= 320"));
}

/// A server that stops tells all clients, whatever they wait for.
#[test]
fn a_stop_reaches_all() {
    let mut world = world();
    let mut idle = Client::new(&world);
    let mut spins = Client::new(&world);
    let mut waits = Client::new(&world);
    let mut asks = Client::new(&world);
    spins.say("? spin(100000000000)\n");
    waits.say("$c := lookup counter: Counter\n? $c.value()\n? wait 20000\n");
    asks.say("$g := lookup gate: Gate\n? $g.enter()\n");
    let mut other = Client::new(&world);
    other.call("$g := lookup gate: Gate\nflush");
    until(|| other.call("? $g.waiters()").contains("= 1"));
    assert_eq!(world.server.stop(), 0);
    for client in [&mut idle, &mut spins, &mut waits, &mut asks] {
        let mut last = String::new();
        // A stream whose bytes the server has not read ends with an error, behind the last word.
        let _ = client.lines.read_to_string(&mut last);
        assert!(last.lines().last().is_some_and(|line| line.contains("shutting down")), "{last}");
    }
}

/// A session whose client is silent lets go of its objects; its transaction goes on, and sees the
/// commits of others as before.
#[test]
fn silent_sessions_let_go_of_memory_and_lose_nothing() {
    let world = world();
    let mut silent = Client::new(&world);
    let mut other = Client::new(&world);
    silent.call("$c := lookup counter: Counter\n? $c.value()");
    let mut overtaken = Client::new(&world);
    overtaken.call("$c := lookup counter: Counter\n? $c.value()");
    let mut changed = Client::new(&world);
    assert!(changed.call("$c := lookup counter: Counter\n? $c.add(100)").contains("= 100"));
    std::thread::sleep(Duration::from_millis(1500));
    // What it has changed and not committed is its own, and still there.
    assert!(changed.call("? $c.value()").contains("= 100"));
    assert!(silent.call("? $c.value()").contains("= 0"));
    let evicted = world.server.cached().evicted;
    assert!(evicted >= 2, "{evicted} objects were let go of");
    assert!(other.call("$c := lookup counter: Counter\n? $c.add(3)").contains("= 3"));
    other.call("commit\nflush");
    // It has read what was changed since, although the object was let go of.
    std::thread::sleep(Duration::from_millis(1500));
    for client in [&mut overtaken, &mut changed] {
        let answer = client.call("? $c.add(1)") + &client.call("commit\nflush");
        assert!(answer.contains("onflict"), "{answer}");
    }
    assert!(other.call("? $c.value()").contains("= 3"));
    assert!(silent.call("abort\n? $c.value()").contains("= 3"));
}

/// A session whose client is silent, and names persistent objects alone, keeps their orefs and no
/// heap; also when its transaction has expired meanwhile.
#[test]
fn silent_sessions_have_no_heap() {
    let world = world_in(Mode::Compiled, |config, _| {
        config.limits.insert("transaction_idle_ms_max".to_owned(), 700);
    });
    let held = || world.server.heap_stats().usage.held_bytes;
    let mut silent = Client::new(&world);
    silent.call("$c := lookup counter: Counter\n? $c.add(2)");
    silent.call("commit\nflush");
    assert!(held() > 0);
    let before = world.server.heap_stats().usage.allocated_bytes;
    until(|| held() == 0);
    assert!(world.server.heap_stats().usage.allocated_bytes >= before);
    let mut other = Client::new(&world);
    assert!(other.call("$c := lookup counter: Counter\n? $c.add(3)").contains("= 5"));
    other.call("commit\nflush");
    drop(other);
    // The handle stands for the same object, as it is now.
    for _ in 0..2 {
        assert!(silent.call("$d := lookup counter: Counter\n? $d.add(1)").contains("= 6"));
        assert!(silent.call("? $c.value()").contains("= 6"));
        silent.call("abort\nflush");
        until(|| held() == 0);
    }
    assert!(silent.call("? $c.add(10)").contains("= 15"));
    until(|| held() == 0);
    let answer = silent.call("? $c.value()");
    assert!(answer.contains("transaction"), "{answer}");
    assert!(silent.call("? $c.value()").contains("= 5"));
}

/// The context that a silent session gets again has its settings: its limits, the way to the
/// actors, and the turns that it leaves to others.
#[test]
fn a_context_that_is_made_again_is_furnished() {
    let world = world_in(Mode::Compiled, |config, _| {
        config.nodes = 1;
        config.limits.insert("batch_time_ms_max".to_owned(), 300);
    });
    let held = || world.server.heap_stats().usage.held_bytes;
    let mut silent = Client::new(&world);
    silent.call("$c := lookup counter: Counter\n? $c.value()");
    silent.call("commit\nflush");
    until(|| held() == 0);
    // It is a guest of the nodes again: the actor answers.
    let answer = silent.call("$g := lookup gate: Gate\n? $g.waiters()");
    assert!(answer.contains("= 0"), "{answer}");
    // Another job runs while a long batch of the session does, which has its limit.
    silent.say("? spin(300000000000)\n");
    let mut other = Client::new(&world);
    assert!(other.call("? quick(1)").contains("= 2"));
    let answer = silent.answer();
    assert!(answer.contains("batch_time_ms_max"), "{answer}");
}
