//! Traders under test, and their clients.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use bifrost_veneer::Session;
use bifrost_veneer::trader::stubs::{INTERFACE, Lease, Offer, Trader};

use crate::support::{Server, bifrost};

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
    command.args(arguments).current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Server::ready(command.spawn().unwrap(), folder)
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

    pub fn find(&self, query: &str) -> Vec<Offer> {
        self.trader.find("DataBase", "", query, 0, "").get().claim().unwrap().offers
    }

    /// Waits until an import has so many offers, and returns them.
    #[track_caller]
    pub fn found(&self, query: &str, count: usize) -> Vec<Offer> {
        let start = Instant::now();
        loop {
            let found = self.find(query);
            if found.len() == count {
                return found;
            }
            assert!(start.elapsed() < PATIENT, "there are {} offers", found.len());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
