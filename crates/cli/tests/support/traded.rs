//! Traders, servers that strangers may greet, and exports of them.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use bifrost_veneer::Session;
use bifrost_veneer::trader::stubs::{self, Lease, Trader};

use crate::support::{Server, bifrost, example};

const PATIENT: Duration = Duration::from_secs(30);

/// The interface of the example `database`.
pub const DATABASE: &str =
    include_str!("../../../../examples/database/rust/src/bifrost_stubs.interface.json");

/// Starts a trader at a socket, and wherever the arguments say.
pub fn trader(arguments: &[&str]) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let mut command = bifrost();
    command.args(["trader", "--listen"]).arg(format!("unix://{}/trader", folder.path().display()));
    command.env("XDG_STATE_HOME", folder.path());
    command.args(arguments).current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Server::ready(command.spawn().unwrap(), folder)
}

/// Starts a server of databases, at a socket and over TCP.
pub fn database(arguments: &[&str]) -> Server {
    let listen = ["--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"];
    Server::serve(&example("database"), &[&listen, arguments].concat())
}

/// Starts a server of databases at this socket only.
pub fn database_at(socket: &Path, arguments: &[&str]) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let mut command = bifrost();
    command.args(["serve", "--listen"]).arg(format!("unix://{}", socket.display())).args(arguments);
    command.arg(example("database")).current_dir(folder.path());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Server::ready(command.spawn().unwrap(), folder)
}

/// The URL of databases at a trader.
pub fn url(trader: &Server, query: &str) -> String {
    format!("trader+{}?service=DataBase&{query}", trader.urls[0]).trim_end_matches('&').to_owned()
}

/// A session with a trader that exports.
pub struct Exports {
    session: Session,
    trader: Trader,
}

impl Exports {
    pub fn new(trader: &Server) -> Exports {
        let session = Session::builder(&stubs::INTERFACE).timeout(PATIENT).connect(&trader.urls[0]).unwrap();
        let trader = session.lookup("trader");
        Exports { session, trader }
    }

    /// Exports a database, for a minute unless it is renewed.
    pub fn database(&self, name: &str, addresses: &[&str], properties: &str) -> Lease {
        self.object(DATABASE, name, addresses, properties)
    }

    /// Exports a database of another interface.
    pub fn object(&self, interface: &str, name: &str, addresses: &[&str], properties: &str) -> Lease {
        let digest = self.trader.teach(interface).claim().unwrap();
        let lease = self.trader.advertise("DataBase", digest, name, addresses, properties, 60_000);
        self.session.resolve(&lease).unwrap();
        lease
    }

    /// Waits until so many offers are listed.
    pub fn listed(&self, query: &str, count: usize) {
        let (start, host) = (Instant::now(), bifrost_transport::host().unwrap());
        while self.trader.find("DataBase", "", query, 0, host.as_str()).get().claim().unwrap().offers.len()
            != count
        {
            assert!(start.elapsed() < PATIENT, "there are not {count} offers of `{query}`");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
