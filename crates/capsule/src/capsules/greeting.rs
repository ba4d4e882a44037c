//! The greeting of capsules, by which they find and recognise each other before a run.
//!
//! Read `join` (`joining.rs`) and [`Waiting::take_part`] first: the two sides. [`Terms`] is the
//! common knowledge that both must prove; [`Joined`] is the result, a capsule's place in a run with
//! its connections. The traffic of the run is in `link.rs`.
//!
//! 1. The first capsule has `main` and a list of addresses. It connects to each and tells it the
//!    run, its number in the run, and the addresses of the others (`join`).
//! 2. Each of these listens ([`Waiting::take_part`]), connects to those of lower numbers, and waits
//!    for those of higher ones.
//! 3. It says that it is ready. So between any two there is one connection.
//!
//! A run that does not begin, because one of the others is missing, leaves a listening capsule as
//! it was: it waits for the next one. So `join_some` can replace a capsule that refuses.
//!
//! ```text
//! who connects        who listens
//! CONNECT  nonce  ->
//!                 <-  CHALLENGE  nonce, proof     keyed hash of both nonces
//! HELLO  proof, body  ->                          keyed hash of both nonces and the body
//!                 <-  WELCOME, or REFUSED  why
//!                 <-  READY                       to the first capsule only, once all are joined
//! ```
//!
//! The key is made of the token, which so never leaves the capsules. The frames after the greeting
//! are encrypted over `tls://` alone.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bifrost_ir::Program;
use bifrost_transport::{
    Address, ConnectError, ListenError, ListenOptions, Listener, ReadError, Stopper, Stream, TlsOptions,
    TlsServer,
};
use parking_lot::Mutex;

use super::joining::{Greeted, check_counts};
use super::{ANSWER_MS_MAX, GREETING_MS_MAX, MESH_MS_MAX, SILENCE_MS_MAX};
use crate::mesh::{CAPSULES_MAX, Decoder, Digest, Frame, GREETING_BYTES_MAX, VERSION, put, take, take_u32};
use crate::newcomers::{Bounds, HANDSHAKES_MAX, Newcomers, tell_shortage};
use crate::shared::NODES_MAX;

/// Most connections that greet at once. With one more, the oldest silent one is closed.
const GREETINGS_MAX: usize = 64;

/// The longest time for an answer to be written.
const SAY_MAX: Duration = Duration::from_millis(GREETING_MS_MAX);

/// The time for which a first capsule that may have given up is waited for, when another one comes.
const END_MAX: Duration = Duration::from_millis(500);

/// The time after which a capsule that waits for others looks whether the first one has given up.
const LOOK: Duration = Duration::from_millis(50);

/// The terms that all capsules of a run must agree on. A capsule without the token is refused, and
/// so is another program. Besides, the certificates by which a capsule connects to others.
#[derive(Clone)]
pub struct Terms {
    key: Digest,
    pub(super) program: Digest,
    pub(super) tls: TlsOptions,
}

impl std::fmt::Debug for Terms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terms").finish_non_exhaustive()
    }
}

impl Terms {
    /// Makes the terms for a program; without a token it is empty.
    pub fn new(program: &Program, token: &str) -> Terms {
        Terms {
            key: blake3::derive_key("bifrost capsules 1 token", token.as_bytes()),
            program: digest(program),
            tls: TlsOptions::default(),
        }
    }

    /// Returns the digest of the program, by which capsules with the same one are found.
    pub fn program(&self) -> &Digest {
        &self.program
    }

    /// Sets the trust in others at `tls://`, and the own certificate.
    pub fn with_tls(mut self, tls: TlsOptions) -> Terms {
        self.tls = tls;
        self
    }

    /// Makes a proof. `pin` is that of the listener's certificate, over TLS: a process between the
    /// two, with another certificate, cannot pass proofs on.
    pub(super) fn proof(&self, who: &[u8], nonces: [&Digest; 2], pin: &str, body: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(who).update(nonces[0]).update(nonces[1]);
        hasher.update(&[pin.len() as u8]).update(pin.as_bytes()).update(body);
        hasher.finalize()
    }
}

/// Returns a digest of all that nodes of a program must have in common: its text, and the numbers
/// of its types and exceptions.
fn digest(program: &Program) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(bifrost_ir::text::print_program(program).as_bytes());
    for (_, def) in program.types.iter() {
        hasher.update(def.name.as_bytes()).update(&[0]);
    }
    *hasher.finalize().as_bytes()
}

/// The reason why there is no run with other capsules.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// There cannot be so many capsules or nodes.
    #[error(
        "{capsules} capsules with {nodes} nodes each are too many: {CAPSULES_MAX} capsules and {NODES_MAX} nodes in all"
    )]
    Count {
        /// The number of capsules.
        capsules: u32,
        /// The number of nodes that each would have.
        nodes: u32,
    },
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The capsule cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The other capsule refuses.
    #[error("{address} refuses: {why}")]
    Refused {
        /// The other's address.
        address: Address,
        /// Its reason.
        why: String,
    },
    /// The other has another token.
    #[error("{0} has another token")]
    Token(Address),
    /// The other speaks another version.
    #[error("{address} has version {version} of the protocol, and this capsule version {VERSION}")]
    Version {
        /// The other's address.
        address: Address,
        /// Its version.
        version: u32,
    },
    /// The process that listens there is no capsule, or it has ended.
    #[error("{address} is no capsule, or has ended: {why}")]
    NoCapsule {
        /// The other's address.
        address: Address,
        /// The fault of its answer.
        why: String,
    },
    /// Of the offered capsules too few can take part.
    #[error("{wanted} capsules are needed, and {found} of those offered can take part")]
    TooFew {
        /// The number of capsules that are needed beside the first.
        wanted: usize,
        /// The number of those that could take part.
        found: usize,
    },
    /// No capsule has come.
    #[error("no run began within {0} ms")]
    Waited(u128),
    /// The first capsule has given the run up before it began.
    #[error("the capsule with `main` has given up")]
    GivenUp,
    /// Not all others have come.
    #[error("not all capsules of the run have connected within {MESH_MS_MAX} ms")]
    Missing,
    /// The system has no means.
    #[error("capsules cannot be started: {0}")]
    System(#[from] std::io::Error),
}

/// A connection with a capsule.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) decoder: Decoder,
}

impl Connection {
    pub(crate) fn new(stream: Stream) -> Connection {
        Connection { stream, decoder: Decoder::new() }
    }

    /// True if the other has closed the connection, or says something before it is its turn.
    fn has_ended(&mut self) -> bool {
        !matches!(self.stream.try_read(self.decoder.room(), GREETING_BYTES_MAX), Ok(None))
    }

    /// Waits until the other has closed the connection, and returns false at the deadline. The end
    /// of one connection may be seen later than the beginning of the next.
    fn ends_by(&mut self, deadline: Instant) -> bool {
        let read = self.stream.read(self.decoder.room(), GREETING_BYTES_MAX, deadline);
        !matches!(read, Err(ReadError::TimedOut))
    }

    pub(super) fn say(&mut self, frame: &Frame<'_>, deadline: Instant) -> Result<(), String> {
        let mut out = Vec::new();
        put(&mut out, frame);
        let written = self.stream.write(&out, deadline).map_err(|why| why.to_string());
        self.stream.flush();
        written
    }

    /// Hands the next frame to a function.
    pub(super) fn hear<T>(
        &mut self,
        deadline: Instant,
        mut taken: impl FnMut(Frame<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        loop {
            match self.decoder.next() {
                Ok(Some(frame)) => return taken(frame),
                Ok(None) => {}
                Err(wrong) => return Err(wrong.to_string()),
            }
            let read = self.stream.read(self.decoder.room(), GREETING_BYTES_MAX, deadline);
            match read {
                Ok(0) => return Err("it closed the connection".to_owned()),
                Ok(_) => {}
                Err(why) => return Err(why.to_string()),
            }
        }
    }
}

/// The claims of a capsule about itself and the run when it connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) program: Digest,
    pub(super) run: [u8; 16],
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) capsules: u32,
    pub(super) nodes: u32,
    pub(super) traced: bool,
    /// The addresses of the capsules from number 1 on; only the first capsule sends them.
    pub(super) addresses: Vec<String>,
}

impl Hello {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.program);
        out.extend_from_slice(&self.run);
        for number in [self.from, self.to, self.capsules, self.nodes, u32::from(self.traced)] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&(self.addresses.len() as u32).to_le_bytes());
        for address in &self.addresses {
            out.extend_from_slice(&(address.len() as u32).to_le_bytes());
            out.extend_from_slice(address.as_bytes());
        }
        out
    }

    fn parse(mut bytes: &[u8]) -> Option<Hello> {
        let bytes = &mut bytes;
        let (program, run) = (take(bytes)?, take(bytes)?);
        let [from, to, capsules, nodes, traced, count] = [(); 6].map(|()| take_u32(bytes));
        let mut hello = Hello {
            program,
            run,
            from: from?,
            to: to?,
            capsules: capsules?,
            nodes: nodes?,
            traced: traced? != 0,
            addresses: Vec::new(),
        };
        for _ in 0..count? {
            let length = take_u32(bytes)?;
            let (address, rest) = bytes.split_at_checked(length as usize)?;
            *bytes = rest;
            hello.addresses.push(std::str::from_utf8(address).ok()?.to_owned());
        }
        bytes.is_empty().then_some(hello)
    }
}

/// A capsule's place in a run, with its connections to all others.
#[derive(Debug)]
pub struct Joined {
    /// Its number; the one with `main` has 0.
    pub(crate) own: u32,
    pub(crate) capsules: u32,
    /// The number of nodes that each has.
    pub(crate) nodes: u32,
    /// True if the events of the run are to be kept.
    pub(crate) traced: bool,
    /// By number; none to itself.
    pub(crate) connections: Vec<Option<Connection>>,
    /// The receiver, in the first capsule, of the text that programs print in the others.
    pub(crate) output: fn(&str),
    /// A capsule from which nothing has come for so long is lost.
    pub(crate) silence: Duration,
}

impl Joined {
    pub(crate) fn new(
        own: u32,
        capsules: u32,
        nodes: u32,
        traced: bool,
        connections: Vec<Option<Connection>>,
    ) -> Joined {
        let silence = Duration::from_millis(SILENCE_MS_MAX);
        Joined { own, capsules, nodes, traced, connections, output: |_| {}, silence }
    }

    /// True if the events of the run are to be kept, for the first capsule.
    pub fn is_traced(&self) -> bool {
        self.traced
    }
}

pub(super) fn random<const N: usize>() -> Result<[u8; N], std::io::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes)
}

/// A capsule that listens, for one run.
#[derive(Debug)]
pub struct Waiting {
    listener: Arc<Listener>,
    /// The pin of its certificate, over TLS.
    pin: Arc<str>,
}

/// A capsule that has shown that it has the token and runs the same program.
type Guest = (Hello, Connection);

impl Waiting {
    /// Listens; at `tls://` with a certificate. Greetings are answered by [`Waiting::take_part`].
    ///
    /// # Errors
    /// [`JoinError`]
    pub fn listen(address: &Address, tls: Option<TlsServer>) -> Result<Waiting, JoinError> {
        let pin = tls.as_ref().map(|tls| tls.pin().to_string()).unwrap_or_default();
        let listener = Listener::bind(address, &ListenOptions { tls, ..ListenOptions::default() })?;
        Ok(Waiting { listener: Arc::new(listener), pin: pin.into() })
    }

    /// Returns the address where others connect to, with the port.
    pub fn address(&self) -> &Address {
        self.listener.local_address()
    }

    /// Waits for a run, and for connections with all that take part in it. Without a time it waits
    /// for ever.
    ///
    /// # Errors
    /// [`JoinError`]
    pub fn take_part(self, terms: &Terms, wait: Option<Duration>) -> Result<Joined, JoinError> {
        let (sender, guests) = channel();
        let stopper = StopAtEnd(self.listener.stopper());
        let (listener, pin, there) = (self.listener.clone(), self.pin.clone(), terms.clone());
        let accepting = std::thread::Builder::new()
            .name("bifrost-greet".to_owned())
            .spawn(move || accept(&listener, &pin, &there, &sender))?;
        let joined = receive(&guests, terms, wait);
        drop(stopper);
        // It holds the listener, whose socket file goes with it.
        let _ = accepting.join();
        joined
    }
}

/// Stops the accepting when dropped.
struct StopAtEnd(Stopper);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Takes connections. Each is greeted on a thread of its own, so that no capsule waits for a silent
/// one.
fn accept(listener: &Listener, pin: &Arc<str>, terms: &Terms, guests: &Sender<Guest>) {
    let bounds = Bounds { all: GREETINGS_MAX, of_origin: GREETINGS_MAX, handshakes: HANDSHAKES_MAX };
    let greeting = Arc::new(Mutex::new(Newcomers::new(bounds)));
    let told = |shortage| tell_shortage(listener.local_address(), &shortage);
    listener.serve(told, |stream| {
        let Ok(number) = greeting.lock().enter(&stream) else {
            tracing::warn!(greetings_max = GREETINGS_MAX, "capsule.refused");
            return;
        };
        let (terms, pin) = (terms.clone(), pin.clone());
        let (guests, entered) = (guests.clone(), greeting.clone());
        let started = std::thread::Builder::new().name("bifrost-greet".to_owned()).spawn(move || {
            let peer = stream.describe_peer();
            let greeted = greet(Connection::new(stream), &pin, &terms);
            // A guest that waits for its answer is silent, and none that makes way.
            entered.lock().leave(number);
            match greeted {
                // Perhaps no thread waits for guests any more.
                Ok(guest) => drop(guests.send(guest)),
                Err(why) => tracing::warn!(%peer, %why, "capsule.refused"),
            }
        });
        if let Err(error) = started {
            greeting.lock().leave(number);
            tracing::warn!(%error, "capsule.refused");
        }
    });
}

/// Greets a process that has connected, and returns its claims.
fn greet(mut connection: Connection, pin: &str, terms: &Terms) -> Result<Guest, String> {
    let deadline = Instant::now() + Duration::from_millis(GREETING_MS_MAX);
    let (version, theirs) = connection.hear(deadline, |frame| match frame {
        Frame::Connect { version, nonce } => Ok((version, nonce)),
        other => Err(format!("it sent {other:?}")),
    })?;
    let own: Digest = random().map_err(|error| error.to_string())?;
    let proof = *terms.proof(b"listens", [&theirs, &own], pin, &[]).as_bytes();
    connection.say(&Frame::Challenge { version: VERSION, nonce: own, proof }, deadline)?;
    if version != VERSION {
        return Err(format!("it has version {version} of the protocol, and this capsule version {VERSION}"));
    }
    let heard = connection.hear(deadline, |frame| match frame {
        Frame::Hello { proof, body } => {
            let expected = terms.proof(b"connects", [&theirs, &own], pin, body);
            let proven = expected == blake3::Hash::from_bytes(proof);
            match Hello::parse(body) {
                _ if !proven => Ok(Err("the token differs")),
                None => Ok(Err("it sent no HELLO")),
                Some(hello) if hello.program != terms.program => {
                    Ok(Err("it runs another program: all capsules of a run need the same files"))
                }
                Some(hello) => Ok(Ok(hello)),
            }
        }
        other => Err(format!("it sent {other:?}")),
    })?;
    match heard {
        Ok(hello) => Ok((hello, connection)),
        Err(why) => {
            connection.say(&Frame::Refused(why), deadline)?;
            Err(why.to_owned())
        }
    }
}

/// Receives the first capsule, connects to those of lower numbers, and receives the others. When a
/// run does not begin, it waits for the next one.
fn receive(guests: &Receiver<Guest>, terms: &Terms, wait: Option<Duration>) -> Result<Joined, JoinError> {
    let until = wait.map(|wait| Instant::now() + wait);
    let mut come = None;
    loop {
        let guest = come.take().or_else(|| next_guest(guests, until));
        let (run, mut first) =
            guest.ok_or_else(|| JoinError::Waited(wait.unwrap_or_default().as_millis()))?;
        let fits = run.from == 0
            && (1..run.capsules).contains(&run.to)
            && run.addresses.len() == run.capsules as usize - 1
            && check_counts(run.capsules, run.nodes).is_ok();
        let answer = if fits { Frame::Welcome } else { Frame::Refused("this run is not allowed here") };
        let said = first.say(&answer, Instant::now() + SAY_MAX);
        if said.is_err() || !fits {
            tracing::warn!(?said, from = run.from, "capsule.refused");
            continue;
        }
        let why = match meet(guests, terms, &run, &mut first, &mut come) {
            Ok(mut connections) => match first.say(&Frame::Ready, Instant::now() + SAY_MAX) {
                Ok(()) => {
                    first.decoder.trust();
                    connections[0] = Some(first);
                    let Hello { to: own, capsules, nodes, traced, .. } = run;
                    return Ok(Joined::new(own, capsules, nodes, traced, connections));
                }
                Err(_) => JoinError::GivenUp,
            },
            Err(why) => why,
        };
        // It does not go on, with or without that answer.
        let _ = first.say(&Frame::Refused(&why.to_string()), Instant::now() + SAY_MAX);
        tracing::warn!(%why, "capsule.waits_again");
    }
}

/// Returns connections with all capsules of a run but the first. `come` is another first capsule,
/// if it has come when this one has given up.
fn meet(
    guests: &Receiver<Guest>,
    terms: &Terms,
    run: &Hello,
    first: &mut Connection,
    come: &mut Option<Guest>,
) -> Result<Vec<Option<Connection>>, JoinError> {
    let mut connections: Vec<Option<Connection>> = (0..run.capsules).map(|_| None).collect();
    for other in 1..run.to {
        let address = &run.addresses[other as usize - 1];
        let address: Address = address
            .parse()
            .map_err(|why: bifrost_transport::AddressError| std::io::Error::other(why.to_string()))?;
        let hello = Hello { from: run.to, to: other, addresses: Vec::new(), ..run.clone() };
        let timeout = Duration::from_millis(ANSWER_MS_MAX);
        let mut connection =
            Greeted::new(&address, terms, timeout, || !first.has_ended())?.hello(&hello, terms)?;
        connection.decoder.trust();
        connections[other as usize] = Some(connection);
    }
    let until = Instant::now() + Duration::from_millis(MESH_MS_MAX);
    while connections[run.to as usize + 1..].iter().any(Option::is_none) {
        let guest = next_guest(guests, Some(until.min(Instant::now() + LOOK)));
        if first.has_ended() {
            *come = guest;
            return Err(JoinError::GivenUp);
        }
        let Some((hello, mut connection)) = guest else {
            match Instant::now() < until {
                true => continue,
                false => return Err(JoinError::Missing),
            }
        };
        if hello.from == 0 && first.ends_by(Instant::now() + END_MAX) {
            *come = Some((hello, connection));
            return Err(JoinError::GivenUp);
        }
        let fits = (hello.run, hello.to, hello.capsules) == (run.run, run.to, run.capsules)
            && (run.to + 1..run.capsules).contains(&hello.from)
            && connections[hello.from as usize].is_none();
        let answer = if fits { Frame::Welcome } else { Frame::Refused("this capsule has a run already") };
        match connection.say(&answer, Instant::now() + SAY_MAX) {
            Ok(()) if fits => {
                connection.decoder.trust();
                connections[hello.from as usize] = Some(connection);
            }
            said => tracing::warn!(?said, from = hello.from, "capsule.refused"),
        }
    }
    Ok(connections)
}

fn next_guest(guests: &Receiver<Guest>, until: Option<Instant>) -> Option<Guest> {
    match until {
        None => guests.recv().ok(),
        Some(until) => guests.recv_timeout(until.saturating_duration_since(Instant::now())).ok(),
    }
}
