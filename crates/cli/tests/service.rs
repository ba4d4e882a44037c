//! Services that stay: a server is lost by `kill -9`, by a stop or in order, and another one goes on; a run that may
//! not be repeated is not, named batches over one store run once, and new servers are used.
//!
//! `BIFROST_KILLS=100 cargo test --workspace --test service kills` kills more often.

#[path = "../../repository/tests/support/cluster.rs"]
mod cluster;
mod support;
mod traders;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
#[path = "../../../examples/database/rust/src/bifrost_stubs.rs"]
mod stubs;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use bifrost_veneer::import::RUNS_MAX;
use bifrost_veneer::{BatchName, Error, How, Imported, Ran, Service, ServiceError, Session};
use cluster::cluster;
use stubs::{DataBase, INTERFACE};
use support::{Server, kill};
use tempfile::TempDir;
use traders::{Client as Exporter, database, database_at, trader, url};

/// The longest time until a service goes on with another server.
const BACK: Duration = Duration::from_secs(5);

fn kills() -> usize {
    std::env::var("BIFROST_KILLS").map_or(3, |kills| kills.parse().expect("a number"))
}

fn service(url: &str, timeout: Duration) -> Service<DataBase> {
    Session::builder(&INTERFACE).timeout(timeout).service(url)
}

fn address(service: &Service<DataBase>) -> String {
    service.server().map(|imported| imported.address().to_owned()).unwrap_or_default()
}

/// The server of an address.
fn at<'s>(servers: &'s [Server], address: &str) -> &'s Server {
    servers.iter().find(|server| server.urls.iter().any(|url| url == address)).expect(address)
}

/// The number of visits, by a run.
fn visits(service: &mut Service<DataBase>, user: &str) -> Result<i64, ServiceError> {
    service.run(|_, db| db.fetch(user).visits().claim())
}

/// A visit, by a named batch.
fn visit(service: &mut Service<DataBase>, user: &str) -> Result<i64, ServiceError> {
    let visits = service.run_named(|_, db| {
        let elem = db.fetch(user);
        elem.touch();
        elem.visits()
    })?;
    Ok(visits.claim().expect("the batch was answered"))
}

/// Two servers of one store, and exports that are renewed.
struct Twins {
    listen: [String; 2],
    store: String,
    folder: TempDir,
}

impl Twins {
    fn over_sockets() -> Twins {
        let folder = tempfile::tempdir().unwrap();
        let listen = ["a", "b"].map(|name| format!("unix://{}", folder.path().join(name).display()));
        Twins { listen, store: cluster().fresh(), folder }
    }

    /// At ports that nobody has now: a server that is started again has its port and its key again.
    fn over_quic() -> Twins {
        let sockets = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        let listen = sockets.map(|socket| format!("quic://{}", socket.local_addr().unwrap()));
        Twins { listen, store: cluster().fresh(), folder: tempfile::tempdir().unwrap() }
    }

    fn start(&self, number: usize) -> Server {
        let state = self.folder.path().join(format!("state {number}"));
        database_at(&self.listen[number], &state, &["--store", &self.store])
    }

    /// The number of the server with this address.
    fn number(&self, address: &str) -> usize {
        let place = address.split('#').next();
        self.listen.iter().position(|listen| Some(listen.as_str()) == place).expect(address)
    }

    /// Exports both until the end of the sender.
    fn export(&self, trader: &Server, addresses: &[String; 2], end: &mpsc::Receiver<()>) {
        let exports = Exporter::new(trader);
        let host = bifrost_transport::host().unwrap();
        let leases = [0, 1].map(|number| {
            let properties = format!("number={number}&host={host}&store=twins");
            exports.database("database", &[&addresses[number]], &properties)
        });
        while end.recv_timeout(Duration::from_secs(5)) == Err(mpsc::RecvTimeoutError::Timeout) {
            for lease in &leases {
                lease.renew("").claim().unwrap();
            }
        }
    }
}

/// The work of one client under kills.
#[derive(Default)]
struct Client {
    acknowledged: AtomicU64,
    address: Mutex<String>,
    /// The end of the last batch that was acknowledged.
    last: Mutex<Option<Instant>>,
    /// The longest time from one acknowledged batch to the next, in milliseconds.
    longest: AtomicU64,
}

impl Client {
    fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    fn acknowledge(&self, visits: u64, address: String) {
        // A batch that is lost or done twice would be another number.
        assert_eq!(visits, self.acknowledged() + 1);
        *self.address.lock().unwrap() = address;
        let now = Instant::now();
        if let Some(last) = self.last.lock().unwrap().replace(now) {
            self.longest.fetch_max((now - last).as_millis() as u64, Ordering::Relaxed);
        }
        self.acknowledged.store(visits, Ordering::Relaxed);
    }
}

/// Two clients with named batches, while `hit` does something to the server of one of them: so many times. Returns
/// the longest time that a client was without an answer.
fn named_batches_run_once(
    twins: &Twins,
    timeout: Duration,
    hit: impl Fn(usize, &mut Option<Server>),
) -> Duration {
    let trader = trader(&["--trust-addresses"]);
    let mut servers = [0, 1].map(|number| Some(twins.start(number)));
    let addresses = [0, 1].map(|number: usize| servers[number].as_ref().unwrap().urls[0].clone());
    let clients = [Client::default(), Client::default()];
    let over = AtomicBool::new(false);
    let url = url(&trader, "prefer=random");
    std::thread::scope(|scope| {
        let (end, ended) = mpsc::channel::<()>();
        scope.spawn(|| twins.export(&trader, &addresses, &{ ended }));
        Exporter::new(&trader).listed("", 2);
        let work = |number: usize| {
            let (client, user) = (&clients[number], format!("user {number}"));
            let mut service = service(&url, timeout);
            service.run_named(|_, db| db.new_user(user.as_str()).visits()).unwrap();
            while !over.load(Ordering::Relaxed) {
                let visits = visit(&mut service, &user).unwrap();
                client.acknowledge(visits as u64, address(&service));
            }
        };
        let workers = [0, 1].map(|number| scope.spawn(move || work(number)));
        let next = |client: &Client, more: u64| {
            let (start, before) = (Instant::now(), client.acknowledged());
            while client.acknowledged() < before + more {
                assert!(start.elapsed() < Duration::from_secs(60), "a client does not go on");
                assert!(!workers.iter().any(|worker| worker.is_finished()), "a client has ended");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        for round in 0..kills() {
            // In the middle of the work of one of them.
            let client = &clients[round % 2];
            next(client, 3);
            let number = twins.number(&client.address.lock().unwrap());
            hit(round, &mut servers[number]);
            clients.iter().for_each(|client| next(client, 1));
            servers[number].get_or_insert_with(|| twins.start(number));
        }
        over.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().unwrap();
        }
        drop(end);
    });
    let session = Session::builder(&INTERFACE).connect(&addresses[0]).unwrap();
    let db: DataBase = session.lookup("database");
    for (number, client) in clients.iter().enumerate() {
        let stored = db.fetch(format!("user {number}")).visits().claim().unwrap();
        assert_eq!(stored as u64, client.acknowledged());
    }
    let acknowledged: u64 = clients.iter().map(Client::acknowledged).sum();
    let longest = clients.iter().map(|client| client.longest.load(Ordering::Relaxed)).max().unwrap();
    println!("{} times, {acknowledged} batches acknowledged, {longest} ms without one at most", kills());
    Duration::from_millis(longest)
}

#[test]
fn named_batches_run_once_over_kills_of_their_servers() {
    let twins = Twins::over_sockets();
    let longest = named_batches_run_once(&twins, Duration::from_secs(20), |_, server| {
        server.take().expect("it runs").end("KILL");
    });
    assert!(longest < BACK, "a client was back after {longest:?}");
}

/// A server that was killed says nothing until it has started again: then its client learns of it with the next
/// packet. One that is stopped for a second loses nothing; one that is stopped for longer than a client waits is left,
/// and what it does with the batch later is not a second time.
#[test]
fn named_batches_run_once_over_kills_and_stops_over_quic() {
    let twins = Twins::over_quic();
    let patience = Duration::from_secs(4);
    let longest = named_batches_run_once(&twins, patience, |round, server| match round % 3 {
        0 => {
            let killed = server.take().expect("it runs");
            let number = twins.number(&killed.urls[0]);
            killed.end("KILL");
            *server = Some(twins.start(number));
        }
        how => {
            let server = server.as_ref().expect("it runs");
            stop(server);
            std::thread::sleep(if how == 1 { Duration::from_secs(1) } else { patience + patience / 2 });
            kill(&server.child, "CONT");
        }
    });
    assert!(longest < patience + 2 * BACK, "a client was back after {longest:?}");
}

/// Runs without a name, each with a record of its own: a run that the service begins again, because it has not run, has
/// left nothing; one that is acknowledged has left its record, and nobody knows of the others.
#[test]
fn a_run_that_is_begun_again_has_not_run_over_quic() {
    let trader = trader(&["--trust-addresses"]);
    let twins = Twins::over_quic();
    let mut servers = [0, 1].map(|number| Some(twins.start(number)));
    let addresses = [0, 1].map(|number: usize| servers[number].as_ref().unwrap().urls[0].clone());
    let over = AtomicBool::new(false);
    let url = url(&trader, "prefer=random");
    let (address_in_use, done) = (Mutex::new(String::new()), AtomicU64::new(0));
    let (mut there, mut gone, mut unknown) = (Vec::new(), Vec::new(), 0);
    std::thread::scope(|scope| {
        let (end, ended) = mpsc::channel::<()>();
        scope.spawn(|| twins.export(&trader, &addresses, &{ ended }));
        Exporter::new(&trader).listed("", 2);
        let worker = scope.spawn(|| {
            let mut service = service(&url, Duration::from_secs(20));
            let mut number = 0;
            while !over.load(Ordering::Relaxed) {
                let first = number + 1;
                let result = service.run(|session, db| {
                    number += 1;
                    db.new_user(format!("run {number}"));
                    session.commit().claim()
                });
                gone.extend(first..number);
                match result {
                    Ok(_) => there.push(number),
                    Err(error) if error.ran() == Ran::Unknown => unknown += 1,
                    Err(error) => panic!("{error}"),
                }
                *address_in_use.lock().unwrap() = address(&service);
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        let next = |more: u64| {
            let (start, before) = (Instant::now(), done.load(Ordering::Relaxed));
            while done.load(Ordering::Relaxed) < before + more {
                assert!(start.elapsed() < Duration::from_secs(60), "the client does not go on");
                assert!(!worker.is_finished(), "the client has ended");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        for round in 0..kills() {
            next(3);
            let number = twins.number(&address_in_use.lock().unwrap());
            let server = servers[number].take().expect("it runs");
            if round % 2 == 0 {
                // In order, with a run before it that it may not have read: it tells of each session how far it has.
                stop(&server);
                std::thread::sleep(Duration::from_millis(20));
                kill(&server.child, "TERM");
                server.end("CONT");
            } else {
                server.end("KILL");
            }
            servers[number] = Some(twins.start(number));
            next(1);
        }
        over.store(true, Ordering::Relaxed);
        worker.join().unwrap();
        drop(end);
    });
    let session = Session::builder(&INTERFACE).connect(&addresses[0]).unwrap();
    let db: DataBase = session.lookup("database");
    let is_there = |number: &i64| db.fetch(format!("run {number}")).visits().claim().is_ok();
    assert!(there.iter().all(is_there), "a run that was acknowledged has left nothing");
    assert!(!gone.iter().any(is_there), "a run that was begun again had run");
    println!("{} were acknowledged, {} begun again, of {unknown} nobody knows", there.len(), gone.len());
}

#[test]
fn a_server_that_is_stopped_is_left_for_another_of_its_store() {
    let trader = trader(&["--trust-addresses"]);
    let twins = Twins::over_sockets();
    let servers = [0, 1].map(|number| twins.start(number));
    let addresses = [0, 1].map(|number: usize| servers[number].urls[0].clone());
    std::thread::scope(|scope| {
        let (end, ended) = mpsc::channel::<()>();
        scope.spawn(|| twins.export(&trader, &addresses, &{ ended }));
        Exporter::new(&trader).listed("", 2);
        let mut service = service(&url(&trader, "prefer=min(number)"), Duration::from_secs(2));
        service.run_named(|_, db| db.new_user("zoe").visits()).unwrap();
        assert_eq!(visit(&mut service, "zoe").unwrap(), 1);
        let stopped = address(&service);
        assert_eq!(stopped, servers[0].urls[0]);
        stop(at(&servers, &stopped));
        let start = Instant::now();
        assert_eq!(visit(&mut service, "zoe").unwrap(), 2);
        assert!(start.elapsed() < Duration::from_secs(2) + BACK, "{:?}", start.elapsed());
        assert_eq!(address(&service), servers[1].urls[0]);
        // What the first one has read by then does nothing more.
        kill(&at(&servers, &stopped).child, "CONT");
        let session = Session::builder(&INTERFACE).connect(&stopped).unwrap();
        let db: DataBase = session.lookup("database");
        db.new_user("una");
        session.commit().claim().unwrap();
        assert_eq!(db.fetch("zoe").visits().claim().unwrap(), 2);
        // The name is the caller's: a batch that an earlier process has sent is not done again.
        let how = How::default().named(BatchName { client: 7, number: 1 });
        for _ in 0..2 {
            service.run_transaction(how, |_, db| db.fetch("zoe").touch()).unwrap();
        }
        assert_eq!(visits(&mut service, "zoe").unwrap(), 3);
        drop(end);
    });
}

#[test]
fn a_named_batch_is_not_sent_to_another_store() {
    let trader = trader(&["--trust-addresses"]);
    let servers = [database(&[]), database(&[])];
    let exports = Exporter::new(&trader);
    for (server, store) in servers.iter().zip(["&store=one", "&store=two"]) {
        exports.database("database", &[&server.urls[1]], &format!("of=stores{store}"));
        exports.database("nameless", &[&server.urls[1]], "of=none");
    }
    let mut service = service(&url(&trader, "of=stores&prefer=first"), Duration::from_secs(1));
    let make = |service: &mut Service<DataBase>| {
        let made = service.run(|session, db| {
            db.new_user("zoe");
            session.commit().claim()
        });
        made.unwrap();
    };
    make(&mut service);
    assert_eq!(address(&service), servers[0].urls[1]);
    stop(&servers[0]);
    let error = visit(&mut service, "zoe").unwrap_err();
    assert_eq!(error.ran(), Ran::Unknown, "{error}");
    let told = error.to_string();
    assert!(told.contains("nobody knows if the run was done") && told.contains("cannot import"), "{told}");
    // The next run is another one, and may have any server.
    make(&mut service);
    assert_eq!(address(&service), servers[1].urls[1]);
    kill(&servers[0].child, "CONT");
}

#[test]
fn only_a_run_that_did_not_begin_is_begun_again() {
    let trader = trader(&["--trust-addresses"]);
    let servers: Vec<Server> = (0..5).map(|_| database(&[])).collect();
    let exports = Exporter::new(&trader);
    for server in &servers {
        exports.database("database", &[&server.urls[1]], "");
    }
    let mut service = service(&url(&trader, "prefer=first"), Duration::from_secs(2));
    service.run(|_, db| db.new_user("zoe").visits().claim()).unwrap();
    let used = |service: &Service<DataBase>| at(&servers, &address(service));

    // Lost between two runs, by a kill and in order: nothing was sent, and the body is called once.
    for signal in ["KILL", "TERM"] {
        let lost = used(&service);
        kill(&lost.child, signal);
        wait_until_ended(lost);
        let mut calls = 0;
        let names = service.run(|_, db| {
            calls += 1;
            db.new_user("zoe").name().claim()
        });
        assert_eq!((names.unwrap().as_str(), calls), ("zoe", 1), "{signal}");
        assert_ne!(address(&service), lost.urls[1]);
    }

    // The answer does not come: nobody knows, and a read is not run again either.
    let silent = used(&service);
    stop(silent);
    let mut calls = 0;
    let error = service.run(|_, db| {
        calls += 1;
        db.fetch("zoe").visits().claim()
    });
    let error = error.unwrap_err();
    assert_eq!((error.ran(), calls), (Ran::Unknown, 1), "{error}");
    assert!(error.to_string().contains("did not answer within"), "{error}");
    kill(&silent.child, "CONT");

    // A part was answered.
    let mut calls = 0;
    let error = service.run(|session, db| {
        calls += 1;
        db.new_user("una").visits().claim()?;
        let address = session.service().map(Imported::address).unwrap().to_owned();
        let server = at(&servers, &address);
        kill(&server.child, "KILL");
        wait_until_ended(server);
        db.fetch("una").visits().claim()
    });
    let error = error.unwrap_err();
    assert_eq!((error.ran(), calls), (Ran::Began, 1), "{error}");
    assert!(error.to_string().contains("a part of the run was done"), "{error}");

    // A failure of the body is no loss, and the next run does not commit what it has left.
    let before = {
        let made = service.run(|session, db| {
            db.new_user("ida");
            session.commit().claim()
        });
        made.unwrap();
        address(&service)
    };
    let failed = service.run(|_, db| {
        db.fetch("ida").touch();
        db.fetch("nobody").visits().claim()
    });
    assert!(
        matches!(failed, Err(ServiceError::Call(Error::Unhandled { .. } | Error::Signal { .. }))),
        "{failed:?}"
    );
    assert_eq!(address(&service), before);
    assert_eq!(visits(&mut service, "ida").unwrap(), 0);

    // Nobody is left: nothing has run.
    servers.iter().for_each(kill_quietly);
    wait_until_ended(at(&servers, &before));
    let error = visits(&mut service, "ida").unwrap_err();
    assert!(matches!(error, ServiceError::Import(_)) && error.ran() == Ran::No, "{error}");
}

/// Stops a server, and waits until it has stopped.
fn stop(server: &Server) {
    kill(&server.child, "STOP");
    let start = Instant::now();
    let path = format!("/proc/{}/status", server.child.id());
    while !std::fs::read_to_string(&path).is_ok_and(|status| status.contains("State:\tT")) {
        assert!(start.elapsed() < Duration::from_secs(20), "a server does not stop");
    }
}

/// Kills a server that may be gone.
fn kill_quietly(server: &Server) {
    let mut command = std::process::Command::new("kill");
    let _ =
        command.arg("-KILL").arg(server.child.id().to_string()).stderr(std::process::Stdio::null()).status();
}

/// Waits until the process of a server has ended: its last thread has closed all sockets.
fn wait_until_ended(server: &Server) {
    let start = Instant::now();
    let process = PathBuf::from(format!("/proc/{}", server.child.id()));
    let threads = || std::fs::read_dir(process.join("task")).map_or(0, Iterator::count);
    let is_over = || std::fs::read_to_string(process.join("status")).is_ok_and(|it| it.contains("State:\tZ"));
    while !(is_over() && threads() <= 1) {
        assert!(start.elapsed() < Duration::from_secs(20), "a server does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn new_servers_are_used_when_they_come() {
    let trader = trader(&["--trust-addresses"]);
    let servers = [database(&[]), database(&[]), database(&[])];
    let exports = Exporter::new(&trader);
    exports.database("database", &[&servers[0].urls[1]], "tier=2");
    let mut service = service(&url(&trader, "prefer=min(tier)"), Duration::from_secs(5));
    let uses = |service: &mut Service<DataBase>, server: &Server| {
        let start = Instant::now();
        loop {
            service.run(|session, _| session.flush()).unwrap();
            if address(service) == server.urls[1] {
                break;
            }
            assert!(start.elapsed() < Duration::from_secs(15), "it stays at {}", address(service));
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    uses(&mut service, &servers[0]);
    // One that is preferred, while the first one lives.
    let preferred = exports.database("database", &[&servers[1].urls[1]], "tier=1");
    uses(&mut service, &servers[1]);
    // One that is not preferred is not used, until that in use is withdrawn.
    exports.database("database", &[&servers[2].urls[1]], "tier=3");
    preferred.withdraw().claim().unwrap();
    uses(&mut service, &servers[0]);
    assert!(servers.iter().all(|server| Session::builder(&INTERFACE).connect(&server.urls[0]).is_ok()));
}

/// Passes greeting and look-up of each client to a server, and ends the connection at the next words. Returns its
/// address, and the number of the connections that were ended so.
fn broken(server: &str) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    let (place, ended) = (server.strip_prefix("tcp://").unwrap().to_owned(), Arc::new(AtomicU64::new(0)));
    let count = ended.clone();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) = (client.unwrap(), TcpStream::connect(&place).unwrap());
            let mut words = vec![0; 1 << 16];
            for _ in 0..2 {
                let said = client.read(&mut words).unwrap();
                server.write_all(&words[..said]).unwrap();
                let answered = server.read(&mut words).unwrap();
                client.write_all(&words[..answered]).unwrap();
            }
            if client.read(&mut words).unwrap() > 0 {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    (address, ended)
}

#[test]
fn a_batch_that_ends_each_server_is_not_sent_for_ever() {
    let trader = trader(&["--trust-addresses"]);
    let server = database(&[]);
    let (address, ended) = broken(&server.urls[1]);
    Exporter::new(&trader).database("database", &[&address], "store=one");
    let mut service = service(&url(&trader, ""), Duration::from_secs(5));
    let error = visit(&mut service, "bob").unwrap_err();
    assert!(matches!(error, ServiceError::Lost { ran: Ran::Unknown, search: None, .. }), "{error:?}");
    assert_eq!(ended.load(Ordering::Relaxed), u64::from(RUNS_MAX));
    // A batch without a name is sent once.
    let error = visits(&mut service, "bob").unwrap_err();
    assert_eq!((error.ran(), ended.load(Ordering::Relaxed)), (Ran::Unknown, u64::from(RUNS_MAX) + 1));
}
