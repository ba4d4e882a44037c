//! `bifrost trader` as a process, with real servers as exporters: offers are found and listed when
//! they are proved, and end with their leases; lies, quotas and bad queries are refused.

mod support;
mod traders;

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bifrost_veneer::trader::stubs::Lease;
use serde_json::Value;
use support::{Server, bifrost, stderr, stdout};
use traders::{Client, DATABASE, PATIENT, trader};

/// The interface of the server of another example.
const SCORES: &str = include_str!("../../../examples/scores/rust/src/bifrost_stubs.interface.json");

/// Starts a server that strangers may greet, and returns it with its address.
fn database() -> (Server, String) {
    let server = Server::start("database", &["--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"]);
    let url = server.urls[1].clone();
    (server, url)
}

/// Runs `bifrost trader list`.
fn list(server: &Server, arguments: &[&str]) -> String {
    let output =
        bifrost().args(["trader", "list", "--trader", &server.urls[0]]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output).to_owned()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_server_is_found_and_listed_and_can_be_called() {
    let trader = trader(&[]);
    let (_server, url) = database();
    let client = Client::new(&trader);
    client.advertised("database", &url, "region=eu&tier=2&load=0.5");
    let offer = client.found("region=eu&tier>=2&load<0.75", 1).remove(0);
    assert_eq!((offer.service.as_str(), offer.name.as_str()), ("DataBase", "database"));
    assert_eq!(offer.addresses, [url.as_str()]);
    assert_eq!(
        (offer.names, offer.values),
        (vec!["region".into(), "tier".into()], vec!["eu".into(), "2".into()])
    );
    assert_eq!((offer.load, offer.doubtful), (0.5, false));
    assert!(client.find("region=us").is_empty());
    // The address of the offer leads to the object of its name.
    let shell = trader.shell(&offer.addresses[0], &[], "$d := lookup database: DataBase\n");
    assert!(shell.status.success(), "{}", stderr(&shell));

    // Conformance: by the interface of the database, and not by another one.
    let (own, other) = (client.teach(DATABASE), client.teach(SCORES));
    assert_eq!(offer.digest, own);
    let find = |digest: &str| client.trader.find("DataBase", digest, "", 0, "").get().claim();
    assert_eq!(find(&own).unwrap().offers.len(), 1);
    assert!(find(&other).unwrap().offers.is_empty());
    assert!(find(&"0".repeat(64)).unwrap_err().to_string().contains("unknown_interface"));

    let table = list(&trader, &["tier=2"]);
    let rows: Vec<&str> = table.lines().collect();
    assert!(rows[0].starts_with("ID") && rows.len() == 2, "{table}");
    assert!(rows[1].contains("DataBase") && rows[1].contains(&url) && rows[1].contains("region=eu tier=2"));
    let json = lines(&list(&trader, &["--json", "--service", "DataBase"]));
    assert_eq!(json.len(), 1);
    assert_eq!((&json[0]["properties"]["tier"], &json[0]["load"]), (&2.into(), &0.5.into()));
    assert!(list(&trader, &["--json", "tier=3"]).is_empty());
    assert!(list(&trader, &["--json", "--service", "Other"]).is_empty());
}

#[test]
fn a_list_has_all_pages_and_a_withdrawn_offer_is_gone() {
    let trader = trader(&["--trust-addresses", "--set", "trader.most_max=2"]);
    let client = Client::new(&trader);
    let leases: Vec<Lease> =
        (0..5).map(|n| client.advertised(&format!("n{n}"), "tcp://192.0.2.1:1", "")).collect();
    let names = || -> Vec<String> {
        let listed = lines(&list(&trader, &["--json"]));
        listed.iter().map(|line| line["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(), ["n0", "n1", "n2", "n3", "n4"]);
    assert!(client.trader.find("DataBase", "", "", 0, "").get().claim().unwrap().more);
    leases[2].withdraw().claim().unwrap();
    assert_eq!(names(), ["n0", "n1", "n3", "n4"]);
    assert!(leases[2].renew("").claim().unwrap_err().to_string().contains("gone"));
}

#[test]
fn a_lease_ends_without_renewals_and_outlives_its_session() {
    let trader = trader(&["--trust-addresses", "--set", "trader.lease_ms_min=4000"]);
    let client = Client::new(&trader);
    let exporter = Client::new(&trader);
    drop(exporter.advertised("short", "tcp://192.0.2.1:1", "of=session"));
    exporter.session.close().unwrap();
    let start = Instant::now();
    let renewed = client.advertise("renewed", "tcp://192.0.2.1:1", "of=renewed", 4_000);
    client.session.resolve(&renewed).unwrap();
    let forgotten = client.advertise("forgotten", "tcp://192.0.2.1:1", "of=forgotten", 4_000);
    client.session.resolve(&forgotten).unwrap();
    while !client.find("of=forgotten").is_empty() {
        assert!(start.elapsed() < PATIENT, "the lease does not end");
        assert_eq!(renewed.renew("load=0.25").claim().unwrap(), 4_000 / 3);
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(start.elapsed() >= Duration::from_millis(3_900), "{:?}", start.elapsed());
    assert_eq!(client.find("of=renewed")[0].load, 0.25);
    // Its lease is the default of 15 s; its session and its lease object are gone.
    assert_eq!(client.find("of=session").len(), 1);
    assert!(forgotten.renew("").claim().unwrap_err().to_string().contains("gone"));
    // The properties stay in a renewal without any, and change in one with some.
    renewed.renew("of=renewed&tier=3").claim().unwrap();
    assert_eq!(client.find("of=renewed&tier=3").len(), 1);
}

#[test]
fn a_lying_address_is_never_listed() {
    let trader = trader(&[]);
    let (_server, honest) = database();
    let other = Server::start("scores", &["--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"]);
    // A victim: no server of ours, and it never answers.
    let victim = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("tcp://{}", victim.local_addr().unwrap());
    let nobody = {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("tcp://{}", closed.local_addr().unwrap())
    };
    let client = Client::new(&trader);
    let _silent = client.advertised("silent", &silent, "lie=true");
    let _other = client.advertised("other", &other.urls[1], "lie=true");
    let _nobody = client.advertised("nobody", &nobody, "lie=true");
    // No stranger may have the trader look at its own files of sockets.
    let local = client.advertised("local", &other.urls[0], "lie=true");
    client.advertised("honest", &honest, "");
    client.found("", 1);
    // The trader has greeted the victim, and nothing more.
    let (mut stream, _) = victim.accept().unwrap();
    stream.set_read_timeout(Some(PATIENT)).unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    assert!((1..200).contains(&said.len()), "{} bytes", said.len());
    assert_eq!(client.find("").len(), 1);
    assert!(client.find("lie=true").is_empty());
    // A renewal has it tried again, and it is still a lie.
    local.renew("").claim().unwrap();
    assert_eq!(lines(&list(&trader, &["--json"])).len(), 1);
}

#[test]
fn only_the_addresses_that_answer_are_told() {
    let trader = trader(&[]);
    let (_server, url) = database();
    let client = Client::new(&trader);
    let digest = client.teach(DATABASE);
    let nobody = "tcp://127.0.0.1:1";
    let lease = client.trader.advertise("DataBase", digest, "database", vec![nobody, url.as_str()], "", 0);
    client.session.resolve(&lease).unwrap();
    assert_eq!(client.found("", 1)[0].addresses, [url]);
}

#[test]
fn quotas_are_named_and_hold_for_one_session() {
    let trader = trader(&["--trust-addresses", "--set", "trader.offers_session_max=2"]);
    let client = Client::new(&trader);
    let _leases = [0, 1].map(|n| client.advertised(&format!("n{n}"), "tcp://192.0.2.1:1", ""));
    let third = client.advertise("n2", "tcp://192.0.2.1:1", "", 0);
    let refused = client.session.resolve(&third).unwrap_err().to_string();
    assert!(refused.contains("trader.offers_session_max"), "{refused}");
    client.session.clear_exceptions();
    let other = Client::new(&trader);
    other.advertised("n2", "tcp://192.0.2.1:1", "");
    assert_eq!(client.find("").len(), 3);
}

#[test]
fn mistakes_are_refused_with_their_place() {
    let trader = trader(&[]);
    let client = Client::new(&trader);
    let found = client.trader.find("DataBase", "", "region=eu&tier!3", 0, "");
    let bad = found.get().claim().unwrap_err().to_string();
    assert!(bad.contains("bad_query") && bad.contains("at byte 10 of the query"), "{bad}");
    client.session.clear_exceptions();
    for (properties, why) in [("region", "region"), ("load=much", "load"), ("service=a", "service")] {
        let lease = client.advertise("n", "tcp://192.0.2.1:1", properties, 0);
        let refused = client.session.resolve(&lease).unwrap_err().to_string();
        assert!(refused.contains("refused") && refused.contains(why), "{refused}");
        client.session.clear_exceptions();
    }
    let taught = client.trader.teach("{}").claim().unwrap_err().to_string();
    assert!(taught.contains("refused"), "{taught}");
    let output = bifrost().args(["trader", "list", "--trader", &trader.urls[0], "a=1&b?2"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("at byte 4 of the query"), "{}", stderr(&output));
    let output = bifrost().args(["trader", "--set", "trader.offer_max=1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("trader.offer_max"), "{}", stderr(&output));
}

#[test]
fn changes_answers_when_an_offer_comes_and_when_the_time_is_over() {
    let trader = trader(&["--trust-addresses", "--set", "trader.waits_max=1", "--tasks", "1"]);
    let client = Client::new(&trader);
    let before = client.trader.changes("DataBase", 0, 0).claim().unwrap();
    let start = Instant::now();
    assert_eq!(client.trader.changes("DataBase", before, 300).claim().unwrap(), before);
    assert!(start.elapsed() >= Duration::from_millis(300));

    std::thread::scope(|scope| {
        let url = &trader;
        let (sender, answered) = mpsc::channel();
        scope.spawn(move || {
            let waiting = Client::new(url);
            // The call below may have the only place for a moment.
            let answer = loop {
                match waiting.trader.changes("DataBase", before, 60_000).claim() {
                    Ok(answer) => break answer,
                    Err(why) => assert!(why.to_string().contains("trader.waits_max"), "{why}"),
                }
            };
            waiting.session.clear_exceptions();
            sender.send(answer).unwrap();
        });
        // The place of the only wait is taken: the call is there, and holds no task of one.
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < PATIENT, "the other call does not wait");
            let refused = client.trader.changes("DataBase", before, 1).claim();
            if refused.is_err_and(|why| why.to_string().contains("trader.waits_max")) {
                break;
            }
        }
        client.session.clear_exceptions();
        assert!(answered.try_recv().is_err());
        client.advertised("n", "tcp://192.0.2.1:1", "");
        assert!(answered.recv_timeout(PATIENT).unwrap() > before);
    });
}

#[test]
fn a_client_that_hangs_up_waits_no_more() {
    let trader = trader(&["--set", "trader.waits_max=1"]);
    let client = Client::new(&trader);
    let before = client.trader.changes("DataBase", 0, 0).claim().unwrap();
    let waiting = Client::new(&trader);
    let refused = || client.trader.changes("DataBase", before, 1).claim().is_err();
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < PATIENT, "the other call does not wait");
        // It is refused if the call of this test has the only place.
        let _wait = waiting.trader.changes("DataBase", before, 60_000);
        waiting.session.send_batch().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        if refused() {
            break;
        }
    }
    drop(waiting);
    let start = Instant::now();
    while refused() {
        assert!(start.elapsed() < PATIENT, "the wait of a client that is gone stays");
        std::thread::sleep(Duration::from_millis(50));
    }
    client.session.clear_exceptions();
}

#[test]
fn watch_prints_offers_as_they_come_and_go() {
    let trader = trader(&["--trust-addresses"]);
    let client = Client::new(&trader);
    let first = client.advertised("first", "tcp://192.0.2.1:1", "region=eu");
    client.advertised("elsewhere", "tcp://192.0.2.1:1", "region=us");
    let mut watch = bifrost();
    watch.args(["trader", "watch", "DataBase", "region=eu", "--json", "--trader", &trader.urls[0]]);
    let mut child = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut next = || -> (String, String) {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        (line["event"].as_str().unwrap().to_owned(), line["name"].as_str().unwrap().to_owned())
    };
    let told = |event: &str, name: &str| (event.to_owned(), name.to_owned());
    assert_eq!(next(), told("listed", "first"));
    client.advertised("second", "tcp://192.0.2.1:1", "region=eu");
    assert_eq!(next(), told("listed", "second"));
    first.renew("region=eu&tier=1").claim().unwrap();
    assert_eq!(next(), told("changed", "first"));
    first.withdraw().claim().unwrap();
    assert_eq!(next(), told("gone", "first"));
    child.kill().unwrap();
    child.wait().unwrap();
}
