//! The first capsule's side of the greeting: it connects to others, and begins a run with them.

use std::time::{Duration, Instant};

use bifrost_transport::{Address, ConnectError, ConnectOptions, Identity, Stream};

use super::greeting::{Connection, Hello, JoinError, Joined, Terms, random};
use super::{ANSWER_MS_MAX, MESH_MS_MAX, OFFERED_MS_MAX};
use crate::mesh::{CAPSULES_MAX, Digest, Frame, VERSION};
use crate::shared::NODES_MAX;

/// The pause before a capsule that was started, and does not listen yet, is tried again.
const AGAIN: Duration = Duration::from_millis(5);

/// Begins a run with capsules that listen, or will soon. `alive` says if there is hope of the one
/// at this place of the list.
///
/// # Errors
/// [`JoinError`]
pub fn join(
    addresses: &[Address],
    nodes: u32,
    traced: bool,
    terms: &Terms,
    mut alive: impl FnMut(usize) -> bool,
) -> Result<Joined, JoinError> {
    check_counts(addresses.len() as u32 + 1, nodes)?;
    let timeout = Duration::from_millis(ANSWER_MS_MAX);
    let greeted = |at: usize| Greeted::new(&addresses[at], terms, timeout, || alive(at));
    begin(addresses, nodes, traced, terms, greeted).map_err(|(_, why)| *why)
}

/// Begins a run with `count` of the capsules that listen at these addresses, the first ones if they
/// take part. The next one replaces a capsule that does not answer within [`OFFERED_MS_MAX`] ms,
/// that refuses, or that has a run already; `left_out` is told of it. All are greeted at once.
///
/// # Errors
/// [`JoinError::TooFew`] if there are too few, [`JoinError::Count`].
pub fn join_some(
    addresses: &[Address],
    count: usize,
    nodes: u32,
    traced: bool,
    terms: &Terms,
    mut left_out: impl FnMut(&Address, &JoinError),
) -> Result<Joined, JoinError> {
    check_counts(u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1), nodes)?;
    let timeout = Duration::from_millis(OFFERED_MS_MAX);
    let mut candidates: Vec<Address> = addresses.to_vec();
    loop {
        let answers = std::thread::scope(|scope| {
            let greet = |address| scope.spawn(move || Greeted::new(address, terms, timeout, || false));
            let threads: Vec<_> = candidates.iter().map(greet).collect();
            threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
        });
        let mut greeted = Vec::new();
        let mut chosen = Vec::new();
        for (address, answer) in std::mem::take(&mut candidates).into_iter().zip(answers) {
            let answer = answer.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            match answer {
                Ok(one) if chosen.len() < count => {
                    greeted.push(Some(one));
                    chosen.push(address.clone());
                    candidates.push(address);
                }
                Ok(_) => candidates.push(address),
                Err(why) => left_out(&address, &why),
            }
        }
        if chosen.len() < count {
            return Err(JoinError::TooFew { wanted: count, found: chosen.len() });
        }
        let take = |at: usize| greeted[at].take().ok_or(JoinError::GivenUp);
        match begin(&chosen, nodes, traced, terms, take) {
            Ok(joined) => return Ok(joined),
            Err((at, why)) => {
                left_out(&chosen[at], &why);
                candidates.retain(|address| *address != chosen[at]);
            }
        }
    }
}

/// A capsule that has the token, and has not been told of a run.
#[derive(Debug)]
pub(super) struct Greeted {
    address: Address,
    connection: Connection,
    /// The nonces: the own one, and that of the other side.
    nonces: [Digest; 2],
    /// The pin of its certificate, over TLS.
    pin: String,
    timeout: Duration,
}

/// Tells capsules of the run, and waits until they are ready. An error names the one at fault by
/// its place.
fn begin(
    addresses: &[Address],
    nodes: u32,
    traced: bool,
    terms: &Terms,
    mut greeted: impl FnMut(usize) -> Result<Greeted, JoinError>,
) -> Result<Joined, (usize, Box<JoinError>)> {
    let capsules = addresses.len() as u32 + 1;
    let run = random().map_err(|error| (0, Box::new(error.into())))?;
    let mut connections = vec![None];
    for at in 0..addresses.len() {
        let hello = Hello {
            program: terms.program,
            run,
            from: 0,
            to: at as u32 + 1,
            capsules,
            nodes,
            traced,
            addresses: addresses.iter().map(ToString::to_string).collect(),
        };
        let connection = greeted(at).and_then(|greeted| greeted.hello(&hello, terms));
        connections.push(Some(connection.map_err(|why| (at, Box::new(why)))?));
    }
    let deadline = Instant::now() + Duration::from_millis(MESH_MS_MAX);
    for (at, (connection, address)) in connections.iter_mut().flatten().zip(addresses).enumerate() {
        let ready = connection.hear(deadline, |frame| match frame {
            Frame::Ready => Ok(Ok(())),
            Frame::Refused(why) => Ok(Err(why.to_owned())),
            other => Err(format!("it sent {other:?}")),
        });
        let address = address.clone();
        match ready {
            Ok(Ok(())) => connection.decoder.trust(),
            Ok(Err(why)) => return Err((at, Box::new(JoinError::Refused { address, why }))),
            Err(why) => return Err((at, Box::new(JoinError::NoCapsule { address, why }))),
        }
    }
    Ok(Joined::new(0, capsules, nodes, traced, connections))
}

pub(super) fn check_counts(capsules: u32, nodes: u32) -> Result<u32, JoinError> {
    let fits = (1..=CAPSULES_MAX).contains(&capsules) && (1..=NODES_MAX / capsules).contains(&nodes);
    if fits { Ok(capsules) } else { Err(JoinError::Count { capsules, nodes }) }
}

impl Greeted {
    /// Connects to a capsule, and proves that both have the token. One that does not listen yet is
    /// tried again while it is alive.
    pub(super) fn new(
        address: &Address,
        terms: &Terms,
        timeout: Duration,
        mut alive: impl FnMut() -> bool,
    ) -> Result<Greeted, JoinError> {
        let deadline = Instant::now() + timeout;
        let stream = loop {
            let options = ConnectOptions { timeout, tls: terms.tls.clone(), ..ConnectOptions::default() };
            match Stream::connect(address, &options) {
                Ok(stream) => break stream,
                Err(ConnectError::Refused { .. }) if alive() && Instant::now() < deadline => {
                    std::thread::sleep(AGAIN);
                }
                Err(why) => return Err(why.into()),
            }
        };
        let mut connection = Connection::new(stream);
        let deadline = Instant::now() + timeout;
        let no_capsule = |why: String| JoinError::NoCapsule { address: address.clone(), why };
        let own: Digest = random()?;
        connection.say(&Frame::Connect { version: VERSION, nonce: own }, deadline).map_err(no_capsule)?;
        let challenge = connection.hear(deadline, |frame| match frame {
            Frame::Challenge { version, nonce, proof } => Ok((version, nonce, proof)),
            other => Err(format!("it sent {other:?}")),
        });
        let (version, nonce, proof) = challenge.map_err(no_capsule)?;
        if version != VERSION {
            return Err(JoinError::Version { address: address.clone(), version });
        }
        // Hashes are compared in constant time.
        let pin = match connection.stream.identity() {
            Identity::Certificate { pin, .. } => pin,
            Identity::Local { .. } | Identity::None => String::new(),
        };
        if terms.proof(b"listens", [&own, &nonce], &pin, &[]) != blake3::Hash::from_bytes(proof) {
            return Err(JoinError::Token(address.clone()));
        }
        Ok(Greeted { address: address.clone(), connection, nonces: [own, nonce], pin, timeout })
    }

    /// Tells the capsule of a run.
    pub(super) fn hello(self, hello: &Hello, terms: &Terms) -> Result<Connection, JoinError> {
        let Greeted { address, mut connection, nonces: [own, nonce], pin, timeout } = self;
        let deadline = Instant::now() + timeout;
        let no_capsule = |why: String| JoinError::NoCapsule { address: address.clone(), why };
        let body = hello.to_bytes();
        let proof = *terms.proof(b"connects", [&own, &nonce], &pin, &body).as_bytes();
        connection.say(&Frame::Hello { proof, body: &body }, deadline).map_err(no_capsule)?;
        let answer = connection.hear(deadline, |frame| match frame {
            Frame::Welcome => Ok(None),
            Frame::Refused(why) => Ok(Some(why.to_owned())),
            other => Err(format!("it sent {other:?}")),
        });
        match answer.map_err(no_capsule)? {
            None => Ok(connection),
            Some(why) => Err(JoinError::Refused { address, why }),
        }
    }
}

/// Asks whether a capsule listens at an address: says CONNECT, and hears CHALLENGE. This needs no
/// token, and tells none.
///
/// # Errors
/// [`JoinError`]: none listens there, or one of another version.
pub fn find_capsule(address: &Address, timeout: Duration) -> Result<(), JoinError> {
    let deadline = Instant::now() + timeout;
    let options = ConnectOptions { timeout, ..ConnectOptions::default() };
    let mut connection = Connection::new(Stream::connect(address, &options)?);
    let no_capsule = |why: String| JoinError::NoCapsule { address: address.clone(), why };
    let nonce: Digest = random()?;
    connection.say(&Frame::Connect { version: VERSION, nonce }, deadline).map_err(no_capsule)?;
    let version = connection.hear(deadline, |frame| match frame {
        Frame::Challenge { version, .. } => Ok(version),
        other => Err(format!("it sent {other:?}")),
    });
    match version.map_err(no_capsule)? {
        VERSION => Ok(()),
        version => Err(JoinError::Version { address: address.clone(), version }),
    }
}
