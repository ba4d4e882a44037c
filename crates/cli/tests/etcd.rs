//! Several traders over one etcd, in real processes: they list the same offers, an exclusive name
//! has one exporter, and nothing is lost when a trader is killed or etcd stops for a while.
#![cfg(feature = "etcd")]

mod support;
mod traders;

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bifrost_veneer::trader::stubs::Lease;
use support::{Server, bifrost, kill, stderr};
use tempfile::TempDir;
use traders::{Client, PATIENT, trader};

/// A trader's lease, which is that of its keys in etcd, too.
const LEASE_MS: u64 = 4_000;

/// A server of etcd, which ends with its test.
struct Etcd {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a free port.
fn free() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Etcd {
    /// Starts a server, at other ports if somebody else has taken one meanwhile.
    fn start() -> Etcd {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < PATIENT, "etcd does not start");
            if let Some(etcd) = Etcd::try_start(free(), free()) {
                return etcd;
            }
        }
    }

    fn try_start(port: u16, peers: u16) -> Option<Etcd> {
        let folder = tempfile::tempdir().unwrap();
        let [clients, peers] = [port, peers].map(|port| format!("http://127.0.0.1:{port}"));
        let mut command = Command::new("etcd");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ETCD_") {
                command.env_remove(name);
            }
        }
        command.args(["--name", "test", "--data-dir"]).arg(folder.path().join("data"));
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("test={peers}"), "--log-level", "error"]);
        command.env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.expect("the program `etcd` of the package etcd-server");
        let mut etcd = Etcd { child, port, _folder: folder };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if etcd.child.try_wait().unwrap().is_some() || start.elapsed() > PATIENT {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(etcd)
    }

    /// Starts a trader over it.
    fn trader(&self) -> Server {
        let board = format!("etcd://127.0.0.1:{}", self.port);
        let [min, default] = ["min", "default"].map(|name| format!("trader.lease_ms_{name}={LEASE_MS}"));
        trader(&["--trust-addresses", "--board", &board, "--set", &min, "--set", &default])
    }
}

/// Waits until an import has so many offers.
#[track_caller]
fn names(client: &Client, count: usize) -> Vec<String> {
    let mut names: Vec<String> = client.found("", count).into_iter().map(|offer| offer.name).collect();
    names.sort();
    names
}

fn exporter(client: &Client, name: &str, exporter: u32, more: &str) -> Result<Lease, String> {
    let lease = client.advertise(name, "tcp://192.0.2.1:1", &format!("incarnation={exporter}{more}"), 0);
    match client.session.resolve(&lease) {
        Ok(()) => Ok(lease),
        Err(why) => {
            client.session.clear_exceptions();
            Err(why.to_string())
        }
    }
}

/// Claims an exclusive name as soon as the trader has reached etcd.
fn claimed(client: &Client, name: &str, number: u32) -> Result<Lease, String> {
    let start = Instant::now();
    loop {
        match exporter(client, name, number, "&exclusive=true") {
            Err(why) if why.contains("out of reach") => {
                assert!(start.elapsed() < PATIENT, "{why}");
                std::thread::sleep(Duration::from_millis(50));
            }
            done => return done,
        }
    }
}

#[test]
fn two_traders_list_the_same_offers() {
    let etcd = Etcd::start();
    let (first, second) = (etcd.trader(), etcd.trader());
    let [first, second] = [&first, &second].map(Client::new);
    let lease = exporter(&first, "a", 1, "&region=eu").unwrap();
    let _b = exporter(&second, "b", 2, "").unwrap();
    for client in [&first, &second] {
        assert_eq!(names(client, 2), ["a", "b"]);
    }
    // Conformance holds for the offers of others: the interface comes with them.
    let own = second.teach(traders::DATABASE);
    let found = second.trader.find("DataBase", own, "region=eu", 0, "").get().claim().unwrap();
    assert_eq!(found.offers[0].addresses, ["tcp://192.0.2.1:1"]);
    // A renewal with other properties, and the end of an offer, are known everywhere.
    lease.renew("region=us&load=0.5").claim().unwrap();
    assert_eq!(second.found("region=us&load=0.5", 1)[0].name, "a");
    lease.withdraw().claim().unwrap();
    assert_eq!(names(&second, 1), ["b"]);
    // An exporter that exports to both is listed once by each.
    let _c = [&first, &second].map(|client| exporter(client, "c", 3, "").unwrap());
    for client in [&first, &second] {
        assert_eq!(names(client, 2), ["b", "c"]);
    }
    // A trader that comes later learns of all.
    let third = etcd.trader();
    assert_eq!(names(&Client::new(&third), 2), ["b", "c"]);
}

#[test]
fn an_exclusive_name_has_one_exporter() {
    let etcd = Etcd::start();
    let (first, second) = (etcd.trader(), etcd.trader());
    let [first, second] = [&first, &second].map(Client::new);
    let lease = claimed(&first, "only", 1).unwrap();
    let refused = claimed(&second, "only", 2).unwrap_err();
    assert!(refused.contains("`only`"), "{refused}");
    let refused = claimed(&first, "only", 2).unwrap_err();
    assert!(refused.contains("`only`"), "{refused}");
    // The same exporter has it at all traders, and other names are free.
    let at_second = claimed(&second, "only", 1).unwrap();
    let _other = claimed(&second, "other", 2).unwrap();
    let nobody = first.advertise("only", "tcp://192.0.2.1:1", "exclusive=true", 0);
    let nobody = first.session.resolve(&nobody).unwrap_err().to_string();
    assert!(nobody.contains("incarnation"), "{nobody}");
    first.session.clear_exceptions();
    // When it has withdrawn it everywhere, the next one may have it.
    for lease in [lease, at_second] {
        lease.withdraw().claim().unwrap();
    }
    let start = Instant::now();
    while let Err(why) = claimed(&second, "only", 2) {
        assert!(start.elapsed() < PATIENT, "{why}");
        std::thread::sleep(Duration::from_millis(50));
    }
    // A trader alone cannot promise it.
    let alone = trader(&["--trust-addresses"]);
    let refused = exporter(&Client::new(&alone), "only", 1, "&exclusive=true").unwrap_err();
    assert!(refused.contains("a board that all traders share"), "{refused}");
}

#[test]
fn offers_survive_the_trader_that_is_killed() {
    let etcd = Etcd::start();
    let (first, second) = (etcd.trader(), etcd.trader());
    let [at_first, at_second] = [&first, &second].map(Client::new);
    let _only = exporter(&at_first, "only at the first", 1, "").unwrap();
    let _both = exporter(&at_first, "both", 2, "").unwrap();
    let both = exporter(&at_second, "both", 2, "").unwrap();
    assert_eq!(names(&at_second, 2), ["both", "only at the first"]);
    kill(&first.child, "KILL");
    // What was only there goes with its lease, and the other never does.
    let start = Instant::now();
    loop {
        let left = at_second.find("");
        assert!(left.iter().any(|offer| offer.name == "both"), "it is lost");
        if left.len() == 1 {
            break;
        }
        assert!(start.elapsed() < PATIENT, "the offers of a trader that was killed stay");
        both.renew("").claim().unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    // A trader that is there again learns what it has not seen.
    let again = etcd.trader();
    let again = Client::new(&again);
    both.renew("").claim().unwrap();
    assert_eq!(names(&again, 1), ["both"]);
}

#[test]
fn a_stop_of_etcd_for_longer_than_a_lease_loses_nothing() {
    let etcd = Etcd::start();
    let (first, second) = (etcd.trader(), etcd.trader());
    let [first, second] = [&first, &second].map(Client::new);
    let leases = [("a", &first, 1), ("b", &second, 2)];
    let leases = leases.map(|(name, client, number)| exporter(client, name, number, "").unwrap());
    let only = claimed(&first, "only", 3).unwrap();
    // No offer is missing at any time; one may be renewed, and be exported, meanwhile.
    let all_there = |names: &[&str]| {
        for client in [&first, &second] {
            let found = client.find("");
            for name in names {
                assert!(found.iter().any(|offer| offer.name == *name), "`{name}` is lost");
            }
        }
        for lease in leases.iter().chain([&only]) {
            lease.renew("").claim().unwrap();
        }
    };
    let all = ["a", "b", "only"];
    for client in [&first, &second] {
        assert_eq!(names(client, 3), all);
    }
    let watched = |time: Duration| {
        let start = Instant::now();
        while start.elapsed() < time {
            all_there(&all);
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    kill(&etcd.child, "STOP");
    watched(Duration::from_millis(2 * LEASE_MS));
    // Imports and exports go on; only names that all must agree on are refused.
    let new = exporter(&first, "new", 4, "").unwrap();
    let refused = exporter(&first, "another", 4, "&exclusive=true").unwrap_err();
    assert!(refused.contains("out of reach"), "{refused}");
    kill(&etcd.child, "CONT");
    // What was exported meanwhile is soon known everywhere, and so is the exclusive name.
    let start = Instant::now();
    while !second.find("").iter().any(|offer| offer.name == "new") {
        assert!(start.elapsed() < PATIENT, "the export of meanwhile is not known");
        all_there(&all);
        new.renew("").claim().unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    watched(Duration::from_millis(2 * LEASE_MS));
    let refused = claimed(&second, "only", 5).unwrap_err();
    assert!(refused.contains("`only`"), "{refused}");
}

#[test]
fn a_board_that_is_none_is_refused() {
    for board in ["etcd://", "etcd://host", "redis://host:1"] {
        let output = bifrost().args(["trader", "--board", board]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(board), "{}", stderr(&output));
    }
}
