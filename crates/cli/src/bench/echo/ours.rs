//! The sides of ours: the transports at the level of [`Stream`], and a call of an object of
//! `bench/echo/echo.theta` over a session.
//!
//! A transport is a variant of [`Over`], with its address in [`Over::listen`]: a new medium of
//! streams is added there, and nowhere else.

use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

use bifrost_engine::{Engine, Mode, Run};
use bifrost_native::Registry;
use bifrost_server::{Config, Server, program};
use bifrost_transport::{
    Address, Clients, ConnectOptions, Deadline, KeyFiles, ListenOptions, Listener, Stream, TlsServer,
};
use bifrost_veneer::Session;
use clap::ValueEnum;

use super::bifrost_stubs::{Echo, INTERFACE};
use super::message::{
    Carrier, Failed, Order, Turn, answer_counts, follow_orders, order, pattern, say, serve,
};
use super::peers::LOOPBACK;
use crate::common::certificates::{make_self_signed, write_new};

/// The program of the call.
const PROGRAM: &str = include_str!("../../../../../bench/echo/echo.theta");
/// The most bytes of a read.
pub const READ_BYTES: usize = 1 << 20;
/// The number of bytes wanted that asks for those that were sent.
const SENT: i64 = -1;

/// A transport of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Over {
    /// TCP on the loopback address
    Tcp,
    /// The same with TLS
    Tls,
    /// QUIC with the calls of REX
    Quic,
    /// Unix sockets
    Unix,
    /// Shared memory
    Shm,
}

impl Over {
    /// Returns its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Over::Tcp => "tcp",
            Over::Tls => "tls",
            Over::Quic => "quic",
            Over::Unix => "unix",
            Over::Shm => "shm",
        }
    }

    /// True if it has hosts and ports.
    pub fn has_hosts(self) -> bool {
        matches!(self, Over::Tcp | Over::Tls | Over::Quic)
    }

    /// Returns the address of a listener at a host, whose files go to a folder.
    fn listen(self, folder: &Path, host: &str) -> String {
        match self {
            Over::Tcp | Over::Tls | Over::Quic => format!("{}://{host}:0", self.name()),
            Over::Unix => format!("unix://{}/unix", folder.display()),
            Over::Shm => format!("shm://{}/shm", folder.display()),
        }
    }
}

impl Carrier for Stream {
    fn send(&mut self, message: &[u8]) -> Result<(), Failed> {
        self.write(message, Deadline::Never)?;
        self.flush();
        Ok(())
    }

    fn receive(&mut self, inbox: &mut Vec<u8>) -> Result<bool, Failed> {
        Ok(self.read(inbox, READ_BYTES, Deadline::Never)? > 0)
    }
}

/// Listens on a transport, and returns the address with the pin.
///
/// # Errors
/// It cannot.
pub fn listen(over: Over, folder: &Path, host: &str) -> Result<(Listener, Address), Failed> {
    let address: Address = over.listen(folder, host).parse()?;
    let mut options = ListenOptions::default();
    if address.is_tls() {
        let certificate = folder.join("tls.pem");
        write_new(&certificate, 0o600, &make_self_signed()?)?;
        let files = KeyFiles { key: certificate.clone(), certificate };
        options.tls = Some(TlsServer::load(files, Clients::Any)?);
    }
    let listener = Listener::bind(&address, &options)?;
    let address = listener.local_address().clone();
    let address = options.tls.iter().map(TlsServer::pin).fold(address, Address::with_pin);
    Ok((listener, address))
}

/// Runs the server of a transport: prints where it is, and answers one client.
///
/// # Errors
/// It cannot listen, or the stream is broken.
pub fn serve_stream(over: Over, folder: &Path, host: &str) -> Result<(), Failed> {
    let (listener, address) = listen(over, folder, host)?;
    say(&format!("ready {address}"))?;
    answer_counts(|| None);
    let mut stream = listener.accept()?.ok_or("the listener was stopped")?;
    serve(&mut stream)
}

/// Runs the client of a transport.
///
/// # Errors
/// It cannot connect, or an answer is wrong.
pub fn call_stream(place: &str) -> Result<(), Failed> {
    follow_orders(&mut Stream::connect(&place.parse()?, &ConnectOptions::default())?)
}

/// Runs the server with the object, over TCP.
///
/// # Errors
/// It cannot listen.
pub fn serve_object(folder: &Path) -> Result<(), Failed> {
    let listen = vec![Over::Tcp.listen(folder, LOOPBACK)];
    let config = Config { listen, anonymous_loopback: true, ..Config::default() };
    let source = folder.join("echo.theta");
    std::fs::write(&source, PROGRAM)?;
    let registry = Registry::standard();
    let engine: Arc<Engine> = program::load_with(&[source], None, Run::kept(Mode::Compiled), &registry)?;
    let mut server = Server::start(engine, &config)?;
    let address = server.addresses().first().ok_or("it listens nowhere")?.clone();
    say(&format!("ready {address}"))?;
    for line in std::io::stdin().lock().lines() {
        line?;
        say(&format!("{} -", super::message::processor_ns()))?;
    }
    server.stop();
    Ok(())
}

/// Runs the client that calls the object.
///
/// # Errors
/// It cannot connect, or an answer is wrong.
pub fn call_object(place: &str) -> Result<(), Failed> {
    let session = Session::builder(&INTERFACE).connect(place)?;
    let echo: Echo = session.lookup("echo");
    session.flush()?;
    say("ready")?;
    for line in std::io::stdin().lock().lines() {
        let order = order(&line?)?;
        let mut message = Vec::new();
        let (received, exchanges) = order.write(&mut message);
        let (sent, wanted) = match order {
            Order::Check => (received, SENT),
            Order::Turn { sent, received, .. } => (sent, i64::try_from(received)?),
        };
        let bytes = pattern(sent);
        let mut turn = Turn::new(received);
        for _ in 0..exchanges {
            turn.begin();
            let answer = echo.exchange(&bytes[..], wanted).claim()?;
            turn.end(&answer)?;
        }
        match order {
            Order::Check => say("checked")?,
            Order::Turn { .. } => say(&turn.line(None))?,
        }
    }
    Ok(())
}
