//! Attacks on traders and tasks, against real processes. Offers that lie or are not renewed are in
//! `trader.rs`, circles of links in `links.rs`.

mod support;
mod traders;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use bifrost_server::roles::token_entry;
use bifrost_veneer::Session;
use bifrost_veneer::trader::stubs::INTERFACE;
use support::{Server, kill, stdout};
use traders::{Client, DATABASE, PATIENT, trader};

/// The reason why the trader has refused an export.
fn refused(client: &Client, name: &str, properties: &str) -> Option<String> {
    let lease = client.advertise(name, "tcp://192.0.2.1:1", properties, 0);
    let why = client.session.resolve(&lease).err().map(|why| why.to_string());
    client.session.clear_exceptions();
    why
}

/// The settings of a trader with two roles, each with its token.
fn roles(of_other: &str) -> String {
    let role = |name: &str, exports: &str| {
        let token = token_entry(name);
        format!(
            "[roles.{name}]\ntokens = [\"{token}\"]\nroots = [\"trader\"]\nexports = [{exports}]\nimports = [\"*\"]\n"
        )
    };
    role("data", "\"DataBase\"") + &role("other", of_other)
}

/// A session with the token of a role, which is its name.
fn client_of(server: &Server, role: &str) -> Client {
    let url = server.urls.iter().find(|url| url.starts_with("tcp://")).unwrap();
    let session = Session::builder(&INTERFACE).timeout(PATIENT).token(role).connect(url).unwrap();
    let trader = session.lookup("trader");
    Client { session, trader }
}

#[test]
fn no_role_exports_the_service_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("roles.toml");
    let write = |path: &Path, of_other: &str| std::fs::write(path, roles(of_other)).unwrap();
    write(&settings, "\"Scores\", \"log.*\"");
    let config = settings.to_str().unwrap();
    let server = trader(&["--trust-addresses", "--listen", "tcp://127.0.0.1:0", "--config", config]);
    let (data, other) = (client_of(&server, "data"), client_of(&server, "other"));
    assert_eq!(refused(&data, "database", ""), None);
    let why = refused(&other, "database", "").expect("it is refused");
    assert!(why.contains("the role `other` may not export `DataBase`"), "{why}");
    // Who may not export may import.
    assert_eq!(other.find("").len(), 1);
    // The rights are read again, and hold for sessions that are open.
    write(&settings, "\"DataBase\"");
    kill(&server.child, "HUP");
    let start = Instant::now();
    while let Some(why) = refused(&other, "other", "") {
        assert!(start.elapsed() < PATIENT, "{why}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(data.find("").len(), 2);
}

#[test]
fn a_flood_of_offers_ends_at_the_quotas() {
    let quotas = ["offers_session_max=3", "offers_role_max=5", "interfaces_bytes_max=40000"];
    let quotas: Vec<String> = quotas.iter().map(|quota| format!("trader.{quota}")).collect();
    let sets = quotas.iter().flat_map(|quota| ["--set", quota.as_str()]);
    let trader = trader(&["--trust-addresses"].into_iter().chain(sets).collect::<Vec<_>>());
    let flood = |client: &Client, from: usize| -> (usize, String) {
        let mut answers = (from..from + 20).map(|n| refused(client, &format!("n{n}"), ""));
        let entered = answers.by_ref().take_while(Option::is_none).count();
        // The first refusal was taken.
        (entered, answers.next().flatten().expect("the flood goes on"))
    };
    let (first, second) = (Client::new(&trader), Client::new(&trader));
    let (entered, why) = flood(&first, 0);
    assert_eq!(entered, 3);
    assert!(why.contains("trader.offers_session_max"), "{why}");
    let (entered, why) = flood(&second, 100);
    assert_eq!(entered, 2);
    assert!(why.contains("trader.offers_role_max"), "{why}");
    // Interfaces that no offer has make room for others, and those of offers stay.
    let mut interface: serde_json::Value = serde_json::from_str(DATABASE).unwrap();
    for n in 0..50 {
        interface["types"][0]["name"] = format!("null{n}").into();
        // Refused or not, it takes no room for good.
        let _ = second.trader.teach(interface.to_string()).claim();
        second.session.clear_exceptions();
    }
    let own = first.teach(DATABASE);
    let found = first.trader.find("DataBase", own, "", 0, "").get().claim().unwrap();
    assert_eq!(found.offers.len(), 5);
}

#[test]
fn queries_that_are_bombs_are_refused_or_bounded() {
    let trader = trader(&["--trust-addresses", "--set", "trader.looked_at_max=4"]);
    let client = Client::new(&trader);
    for n in 0..10 {
        assert_eq!(refused(&client, &format!("n{n}"), "region=eu"), None);
    }
    let many = |count: usize| (0..count).map(|n| format!("p{n}=1")).collect::<Vec<_>>().join("&");
    let bombs = [many(17), format!("a={}", "x".repeat(1_023)), "&".repeat(1_000), "%25".repeat(300)];
    for bomb in bombs {
        let why = client.trader.find("DataBase", "", bomb.as_str(), 0, "").get().claim().unwrap_err();
        assert!(why.to_string().contains("bad_query"), "{why}");
        client.session.clear_exceptions();
    }
    // An import looks at so many offers, and says that there are others.
    let found = client.trader.find("DataBase", "", "region=eu", i64::MAX, "").get().claim().unwrap();
    assert_eq!((found.offers.len(), found.more), (4, true));
    let found = client.trader.find("DataBase", "", "region=us", 0, "").get().claim().unwrap();
    assert_eq!((found.offers.len(), found.more), (0, true));
    assert!(client.find(&many(16)).is_empty());
}

/// A server with two native actors, whose requests go to a host that never answers.
struct Tasks {
    server: Server,
    silent: TcpListener,
}

impl Tasks {
    fn start(settings: &[&str]) -> Tasks {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap().to_string();
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("tasks.theta");
        let text = "import std.http (Http, Answer)
start ()
  publish(\"slow\", Http.new())
  publish(\"quick\", Http.new())
end start";
        std::fs::write(&program, text).unwrap();
        let hosts = ["--tasks", "1", "--allow-http", &address, "--allow-http", "127.0.0.1:1"];
        let server = Server::serve(&program, &[&hosts, settings].concat());
        Tasks { server, silent }
    }

    fn shell(&self, script: &str) -> String {
        let output = self.server.shell(&self.server.urls[0], &[], script);
        stdout(&output).to_owned()
    }

    /// Sends so many requests that never end, and awaits nothing.
    fn hang(&self, count: usize) {
        let url = format!("http://{}/", self.silent.local_addr().unwrap());
        let sends = format!("send $s.get(\"{url}\")\n").repeat(count);
        let said = self.shell(&format!("$s := lookup slow: Http\n{sends}flush\n"));
        assert!(said.contains("ok"), "{said}");
    }

    /// Waits until a request runs.
    fn asked(&self) -> TcpStream {
        self.silent.accept().unwrap().0
    }

    /// The answer of an actor to a request that fails at once.
    fn ask(&self, actor: &str) -> String {
        self.shell(&format!("$a := lookup {actor}: Http\n? $a.get(\"http://127.0.0.1:1/\")\n"))
    }
}

/// Answers a request.
fn answer(mut stream: TcpStream) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).unwrap(), 1);
        request.push(byte[0]);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
}

#[test]
fn invocations_in_masses_are_refused_and_others_are_served() {
    let tasks = Tasks::start(&["--set", "tasks.queue_max=2", "--set", "tasks.stuck_ms=3600000"]);
    tasks.hang(1);
    let running = tasks.asked();
    // Two wait for the only task, and all the others are refused.
    tasks.hang(50);
    let said = tasks.ask("slow");
    assert!(said.contains("busy"), "{said}");
    // When those that wait have ended, the other actor is served: no more than two have come.
    answer(running);
    (0..2).for_each(|_| answer(tasks.asked()));
    let said = tasks.ask("quick");
    assert!(said.contains("not_possible"), "{said}");
    tasks.silent.set_nonblocking(true).unwrap();
    assert_eq!(tasks.silent.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn invocations_that_never_end_are_replaced_and_then_refused() {
    let tasks = Tasks::start(&["--set", "tasks.queue_max=1", "--set", "tasks.stuck_ms=100"]);
    tasks.hang(1);
    let _first = tasks.asked();
    // The only task is in it; another one takes its place.
    let said = tasks.ask("quick");
    assert!(said.contains("not_possible"), "{said}");
    tasks.hang(1);
    let _second = tasks.asked();
    // As many are replaced as there are tasks. Now the queue is full, for all actors that have one.
    tasks.hang(1);
    let said = tasks.ask("slow");
    assert!(said.contains("busy"), "{said}");
}
