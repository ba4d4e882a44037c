//! Native actors of a server: sessions that ask them hold no worker, independent requests fill the
//! tasks, what nobody waits for does not run, and the figures of the paper are metrics.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bifrost_engine::{Mode, Run};
use bifrost_native::{Registry, Task, theta_actor};
use bifrost_server::{Config, Server, metrics, program};

const PATIENT: Duration = Duration::from_secs(30);

const PROGRAM: &str = "
Slow = actor native \"test::Slow\"
  new ()
  rest (ms: int) returns (int)
  nothing () returns (int)
  forever () returns (int)
  left () returns (int)
  caller () returns (string)
  boom ()
end Slow
remote quick (n: int) returns (int) return (n + 1) end quick
remote new_slow () returns (Slow) return (Slow.new()) end new_slow
start () publish(\"slow\", Slow.new()) end start
";

/// What the methods have counted.
#[derive(Clone, Default)]
struct Counted {
    began: Arc<AtomicU32>,
    /// Methods that were told to end.
    told: Arc<AtomicU32>,
    dropped: Arc<AtomicU32>,
}

struct Slow(Counted);

impl Drop for Slow {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[theta_actor("test::Slow", concurrency = 0)]
impl Slow {
    fn new(task: &Task) -> Slow {
        Slow(task.settings().unwrap_or_default())
    }

    fn rest(&self, _task: &Task, ms: i64) -> i64 {
        self.0.began.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(ms as u64));
        ms
    }

    fn nothing(&self, _task: &Task) -> i64 {
        1
    }

    fn forever(&self, task: &Task) -> i64 {
        self.0.began.fetch_add(1, Ordering::SeqCst);
        while !task.must_end() {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.0.told.fetch_add(1, Ordering::SeqCst);
        0
    }

    fn left(&self, task: &Task) -> i64 {
        let left = task.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.map_or(-1, |left| left.as_millis() as i64)
    }

    fn caller(&self, task: &Task) -> String {
        task.caller()
    }

    fn boom(&self, _task: &Task) {
        panic!("boom");
    }
}

struct World {
    server: Server,
    socket: PathBuf,
    counted: Counted,
    folder: tempfile::TempDir,
}

fn world(change: impl FnOnce(&mut Config)) -> World {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let mut config = Config {
        listen: vec![format!("unix://{}", socket.display())],
        workers: Some(1),
        ..Config::default()
    };
    change(&mut config);
    let counted = Counted::default();
    let registry = Registry::standard().with_actor::<Slow>().with(counted.clone());
    let registry = registry.with(config.task_settings().unwrap());
    let file = folder.path().join("tasks.theta");
    std::fs::write(&file, PROGRAM).unwrap();

    let engine = program::load_with(&[file], None, Run::kept(Mode::Compiled), &registry).unwrap();
    let server = Server::start(engine, &config).unwrap();
    World { server, socket, counted, folder }
}

/// A client of the text form.
struct Client {
    lines: BufReader<UnixStream>,
}

impl Client {
    fn with_token(world: &World, hello: &str) -> Client {
        let stream = UnixStream::connect(&world.socket).unwrap();
        stream.set_read_timeout(Some(PATIENT)).unwrap();
        let mut client = Client { lines: BufReader::new(stream) };
        client.say(&format!("{hello}\n"));
        let welcome = client.line();
        assert!(welcome.starts_with("welcome"), "{welcome}");
        client
    }

    fn new(world: &World) -> Client {
        Client::with_token(world, "hello 2")
    }

    fn say(&mut self, lines: &str) {
        self.lines.get_mut().write_all(lines.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    /// The answer to a batch, up to its `ok`.
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

#[track_caller]
fn until(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENT, "it takes too long");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The value of a line of the metrics.
fn metric(world: &World, name: &str) -> Option<f64> {
    let text = metrics::text(&world.server.measured());
    let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')))?;
    line.rsplit(' ').next()?.parse().ok()
}

const SLOW: &str = "{actor=\"test::Slow\"}";

#[test]
fn a_session_that_asks_holds_no_worker_and_no_node() {
    let world = world(|config| config.tasks.threads = 2);
    let mut waits: Vec<Client> = (0..2).map(|_| Client::new(&world)).collect();
    for client in &mut waits {
        client.say("$s := lookup slow: Slow\n? $s.forever()\n");
    }
    until(|| world.counted.began.load(Ordering::SeqCst) == 2);
    // The one worker, the node and all tasks but none are free: others go on.
    let mut other = Client::new(&world);
    for n in 0..20 {
        assert!(other.call(&format!("? quick({n})")).contains(&format!("= {}", n + 1)));
    }
    // A client that hangs up is told to its method, which makes room for the next one.
    drop(waits);
    until(|| world.counted.told.load(Ordering::SeqCst) == 2);
    assert!(other.call("$s := lookup slow: Slow\n? $s.rest(1)").contains("= 1"));
}

#[test]
fn requests_of_one_batch_fill_the_tasks() {
    let world = world(|config| config.tasks.threads = 8);
    let mut client = Client::new(&world);
    let batch: String = (0..8).map(|at| format!("$a{at} := $s.rest(1000)\n")).collect();
    let start = Instant::now();
    let answer = client.call(&format!("$s := lookup slow: Slow\n{batch}? $a0, $a7"));
    assert!(answer.contains("= 1000"), "{answer}");
    assert!(start.elapsed() < Duration::from_secs(6), "eight at once: {:?}", start.elapsed());
    let taken = metric(&world, &format!("bifrost_invocations_taken_total{SLOW}")).unwrap();
    let active = metric(&world, &format!("bifrost_active_sum_total{SLOW}")).unwrap();
    // The creator is one; the others found 0, 1, ... 7 running.
    assert_eq!((taken, active), (9.0, 28.0));
    let central = metric(&world, "bifrost_tasks_active_sum_total").unwrap();
    assert_eq!(central, 28.0);
}

#[test]
fn a_batch_whose_time_is_over_cancels_what_it_has_asked() {
    let world = world(|config| {
        config.tasks.threads = 1;
        config.limits.insert("batch_time_ms_max".into(), 300);
    });
    let mut client = Client::new(&world);
    let left = client.call("$s := lookup slow: Slow\n? $s.left()");
    let left: i64 = left.split("= ").nth(1).unwrap().lines().next().unwrap().trim().parse().unwrap();
    assert!((1..=300).contains(&left), "{left} ms are left of 300");
    // The second waits behind the first, for the only task.
    let answer = client.call("$a := $s.forever()\n$b := $s.rest(1)\n? $a, $b");
    assert!(answer.contains("batch_time_ms_max"), "{answer}");
    until(|| world.counted.told.load(Ordering::SeqCst) == 1);
    assert!(client.call("? $s.nothing()").contains("= 1"), "the session goes on");
    assert_eq!(world.counted.began.load(Ordering::SeqCst), 1, "what nobody waits for does not run");
    let ends =
        |end| metric(&world, &format!("bifrost_invocations_total{{actor=\"test::Slow\",end=\"{end}\"}}"));
    assert_eq!(ends("cancelled").unwrap() + ends("expired").unwrap(), 1.0);
}

#[test]
fn messages_that_nobody_awaits_run_although_the_client_is_gone() {
    let world = world(|config| config.tasks.threads = 1);
    let mut client = Client::new(&world);
    assert!(client.call("$s := lookup slow: Slow\nsend $s.rest(100)\nsend $s.rest(1)\nflush").contains("ok"));
    drop(client);
    until(|| world.counted.began.load(Ordering::SeqCst) == 2);
}

#[test]
fn a_queue_that_is_full_answers_busy() {
    let world = world(|config| {
        config.tasks.threads = 1;
        config.tasks.queue_max = 3;
    });
    let mut client = Client::new(&world);
    let batch: String = (0..6).map(|at| format!("$a{at} := $s.rest(50)\n")).collect();
    let answer = client.call(&format!("$s := lookup slow: Slow\n{batch}? $a0, $a5"));
    assert!(answer.contains("busy"), "{answer}");
    assert!(client.call("? $s.rest(2)").contains("= 2"));
    let name = "bifrost_invocations_total{actor=\"test::Slow\",end=\"refused\"}";
    assert!(metric(&world, name).unwrap() >= 1.0);
}

#[test]
fn actors_of_a_session_end_with_it() {
    let world = world(|_| {});
    let mut client = Client::new(&world);
    assert!(client.call("$s := new_slow()\n? $s.rest(1)").contains("= 1"));
    assert_eq!(metric(&world, "bifrost_native_actors"), Some(2.0));
    drop(client);
    until(|| world.counted.dropped.load(Ordering::SeqCst) == 1);
    until(|| metric(&world, "bifrost_native_actors") == Some(1.0));
}

#[test]
fn the_role_of_the_client_is_known() {
    let world = world(|config| {
        let uid = rustix::process::getuid().as_raw();
        let role = bifrost_server::roles::RoleSettings {
            uids: vec![uid],
            roots: vec!["*".into()],
            routines: vec!["*".into()],
            ..bifrost_server::roles::RoleSettings::default()
        };
        config.roles.insert("reader".into(), role);
    });
    let mut client = Client::new(&world);
    let answer = client.call("$s := lookup slow: Slow\n? $s.caller()");
    assert!(answer.contains("\"reader\""), "{answer}");
}

#[test]
fn a_server_that_stops_tells_methods_to_end() {
    let world = world(|config| config.tasks.threads = 1);
    let mut client = Client::new(&world);
    client.say("$s := lookup slow: Slow\n? $s.forever()\n");
    until(|| world.counted.began.load(Ordering::SeqCst) == 1);
    let World { mut server, counted, folder, .. } = world;
    let start = Instant::now();
    server.stop();
    assert!(start.elapsed() < PATIENT, "{:?}", start.elapsed());
    until(|| counted.told.load(Ordering::SeqCst) == 1);
    drop(folder);
}
