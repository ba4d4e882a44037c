//! Traders under test, their clients, and servers that they find.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use bifrost_veneer::Session;
use bifrost_veneer::trader::stubs::{INTERFACE, Lease, Offer, Trader};

use crate::support::{Server, bifrost, example};

/// The longest time until something that must come.
pub const PATIENT: Duration = Duration::from_secs(30);
/// The interface of the server of an example.
pub const DATABASE: &str =
    include_str!("../../../../examples/database/rust/src/bifrost_stubs.interface.json");

/// Starts a trader at a socket.
pub fn trader(arguments: &[&str]) -> Server {
    let folder = tempfile::tempdir().unwrap();
    trader_in(folder.path().join("trader").as_path(), arguments, folder)
}

/// Starts a trader at a socket of a place that is known before.
pub fn trader_at(socket: &Path, arguments: &[&str]) -> Server {
    trader_in(socket, arguments, tempfile::tempdir().unwrap())
}

fn trader_in(socket: &Path, arguments: &[&str], folder: tempfile::TempDir) -> Server {
    let mut command = bifrost();
    command.args(["trader", "--listen"]).arg(format!("unix://{}", socket.display()));
    command.env("XDG_STATE_HOME", folder.path());
    command.args(arguments).current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Server::ready(command.spawn().unwrap(), folder)
}

/// Starts a server of databases, at a socket and over TCP.
pub fn database(arguments: &[&str]) -> Server {
    let listen = ["--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"];
    Server::serve(&example("database"), &[&listen, arguments].concat())
}

/// Starts a server of databases that listens here only, with a certificate of this folder if it needs one.
pub fn database_at(listen: &str, state: &Path, arguments: &[&str]) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let mut command = bifrost();
    command.args(["serve", "--listen", listen, "--anonymous-loopback"]).args(arguments);
    command.env("XDG_STATE_HOME", state).arg(example("database")).current_dir(folder.path());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Server::ready(command.spawn().unwrap(), folder)
}

/// The URL of databases at a trader.
pub fn url(trader: &Server, query: &str) -> String {
    format!("trader+{}?service=DataBase&{query}", trader.urls[0]).trim_end_matches('&').to_owned()
}

/// A session with a trader.
pub struct Client {
    pub session: Session,
    pub trader: Trader,
}

impl Client {
    pub fn new(server: &Server) -> Client {
        let session = Session::builder(&INTERFACE).timeout(PATIENT).connect(&server.urls[0]).unwrap();
        let trader = session.lookup("trader");
        Client { session, trader }
    }

    pub fn teach(&self, interface: &str) -> String {
        self.trader.teach(interface).claim().unwrap()
    }

    /// Exports the database of a server.
    pub fn advertise(&self, name: &str, url: &str, properties: &str, lease_ms: i64) -> Lease {
        let digest = self.teach(DATABASE);
        self.trader.advertise("DataBase", digest, name, vec![url], properties, lease_ms)
    }

    /// Exports it, and claims the lease.
    pub fn advertised(&self, name: &str, url: &str, properties: &str) -> Lease {
        let lease = self.advertise(name, url, properties, 0);
        self.session.resolve(&lease).unwrap();
        lease
    }

    /// Exports a database at several addresses, for a minute unless it is renewed.
    pub fn database(&self, name: &str, addresses: &[&str], properties: &str) -> Lease {
        self.object(DATABASE, name, addresses, properties)
    }

    /// Exports a database of another interface.
    pub fn object(&self, interface: &str, name: &str, addresses: &[&str], properties: &str) -> Lease {
        let digest = self.teach(interface);
        let lease = self.trader.advertise("DataBase", digest, name, addresses, properties, 60_000);
        self.session.resolve(&lease).unwrap();
        lease
    }

    pub fn find(&self, query: &str) -> Vec<Offer> {
        self.find_from(query, "")
    }

    /// Returns the offers for a client on some machine.
    fn find_from(&self, query: &str, host: &str) -> Vec<Offer> {
        self.trader.find("DataBase", "", query, 0, host).get().claim().unwrap().offers
    }

    /// Waits until so many offers are listed for clients of this machine.
    #[track_caller]
    pub fn listed(&self, query: &str, count: usize) {
        let host = bifrost_transport::host().unwrap();
        wait_for(count, || self.find_from(query, &host));
    }

    /// Waits until an import has so many offers, and returns them.
    #[track_caller]
    pub fn found(&self, query: &str, count: usize) -> Vec<Offer> {
        wait_for(count, || self.find(query))
    }
}

/// Finds offers until there are so many.
#[track_caller]
fn wait_for(count: usize, find: impl Fn() -> Vec<Offer>) -> Vec<Offer> {
    let start = Instant::now();
    loop {
        let found = find();
        if found.len() == count {
            return found;
        }
        assert!(start.elapsed() < PATIENT, "there are {} offers", found.len());
        std::thread::sleep(Duration::from_millis(10));
    }
}
