//! Keys of a simulated world: quick, the same for a seed, and secret only from the simulated
//! attacker. Packets carry a keyed hash; nothing is encrypted.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use quinn_proto::crypto::{
    self, AeadKey, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, KeyPair, Keys,
    PacketKey, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

const TAG: usize = 16;

/// A key that marks packets with a hash.
struct Marks(u64);

impl Marks {
    fn tag(&self, number: u64, header: &[u8], payload: &[u8]) -> [u8; TAG] {
        let seed = xxh3_64_with_seed(header, self.0 ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        xxh3_128_with_seed(payload, seed).to_le_bytes()
    }
}

impl PacketKey for Marks {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        let (header, rest) = buf.split_at_mut(header_len);
        let (payload, tag) = rest.split_at_mut(rest.len() - TAG);
        tag.copy_from_slice(&self.tag(packet, header, payload));
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let length = payload.len().checked_sub(TAG).ok_or(CryptoError)?;
        if self.tag(packet, header, &payload[..length])[..] != payload[length..] {
            return Err(CryptoError);
        }
        payload.truncate(length);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        1 << 36
    }
}

/// Headers are open.
struct Open;

impl HeaderKey for Open {
    fn decrypt(&self, _: usize, _: &mut [u8]) {}
    fn encrypt(&self, _: usize, _: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        TAG
    }
}

fn packet_keys(secret: u64, side: Side) -> KeyPair<Box<dyn PacketKey>> {
    let key = |side: Side| Box::new(Marks(xxh3_64_with_seed(&[side as u8], secret)));
    KeyPair { local: key(side), remote: key(!side) }
}

fn keys(secret: u64, side: Side) -> Keys {
    let header = KeyPair { local: Box::new(Open) as Box<dyn HeaderKey>, remote: Box::new(Open) as _ };
    Keys { header, packet: packet_keys(secret, side) }
}

fn retry_tag(first: &ConnectionId, parts: &[&[u8]]) -> [u8; TAG] {
    xxh3_128_with_seed(&[&first[..], &parts.concat()].concat(), 7).to_le_bytes()
}

/// The keys of a world, as the configuration of both sides.
pub(super) struct WorldKeys {
    /// In place of an exchange of keys: all of the world know it, and the attacker does not.
    secret: u64,
    random: Mutex<fastrand::Rng>,
}

impl WorldKeys {
    pub(super) fn new(seed: u64) -> Arc<WorldKeys> {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x6b65_7973);
        Arc::new(WorldKeys { secret: random.u64(..), random: Mutex::new(random) })
    }

    fn session(&self, side: Side, parameters: &TransportParameters) -> Box<Handshake> {
        let mut ours = Vec::new();
        parameters.write(&mut ours);
        let random = self.random.lock().unwrap_or_else(PoisonError::into_inner).u64(..);
        let (secret, name, read, theirs) = (self.secret, 0, Vec::new(), None);
        let step = if side.is_client() { Step::Greet } else { Step::Wait };
        Box::new(Handshake { side, step, ours, theirs, random, secret, name, read })
    }
}

impl crypto::ClientConfig for WorldKeys {
    fn start_session(
        self: Arc<Self>,
        _: u32,
        _: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(self.session(Side::Client, parameters))
    }
}

impl crypto::ServerConfig for WorldKeys {
    fn initial_keys(&self, _: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys(xxh3_64_with_seed(id, 1), Side::Server))
    }

    fn retry_tag(&self, _: u32, first: &ConnectionId, packet: &[u8]) -> [u8; TAG] {
        retry_tag(first, &[packet])
    }

    fn start_session(self: Arc<Self>, _: u32, parameters: &TransportParameters) -> Box<dyn Session> {
        self.session(Side::Server, parameters)
    }
}

impl HandshakeTokenKey for WorldKeys {
    fn aead_from_hkdf(&self, random: &[u8]) -> Box<dyn AeadKey> {
        Box::new(Marks(xxh3_64_with_seed(random, self.secret)))
    }
}

impl AeadKey for Marks {
    fn seal(&self, data: &mut Vec<u8>, more: &[u8]) -> Result<(), CryptoError> {
        let tag = self.tag(0, more, data);
        data.extend(tag);
        Ok(())
    }

    fn open<'a>(&self, data: &'a mut [u8], more: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        let (data, tag) = data.split_at_mut(data.len().checked_sub(TAG).ok_or(CryptoError)?);
        if self.tag(0, more, data)[..] == *tag { Ok(data) } else { Err(CryptoError) }
    }
}

/// The next act of a handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The client's first message is to be written.
    Greet,
    /// A message of the peer is awaited.
    Wait,
    /// The server's first message is to be written, of a client: has come.
    Agree,
    /// The server's second message is to be written, of a client: has come.
    Finish,
    Done,
}

/// A handshake with the messages of TLS, in their packet spaces:
///
/// ```text
/// client: 1 random parameters -->
///                                 <-- 2 random; 3 proof parameters
///                    4 proof  -->
/// ```
struct Handshake {
    side: Side,
    step: Step,
    ours: Vec<u8>,
    theirs: Option<TransportParameters>,
    random: u64,
    secret: u64,
    /// The same for both sides of a connection, and for no other one.
    name: u64,
    read: Vec<u8>,
}

fn message(into: &mut Vec<u8>, kind: u8, word: u64, rest: &[u8]) {
    into.push(kind);
    into.extend((rest.len() as u16).to_le_bytes());
    into.extend(word.to_le_bytes());
    into.extend(rest);
}

const HEAD: usize = 11;

impl Handshake {
    fn proof(&self, side: Side) -> u64 {
        xxh3_64_with_seed(&[9, side as u8], self.name)
    }

    fn agree(&mut self, client: u64, server: u64) {
        self.secret = xxh3_64_with_seed(&[client, server].map(u64::to_le_bytes).concat(), self.secret);
        self.name = xxh3_64_with_seed(b"name", self.secret);
        self.step = Step::Agree;
    }

    fn take(&mut self, kind: u8, word: u64, rest: &[u8]) -> Result<bool, TransportError> {
        let wrong = || TransportError {
            code: TransportErrorCode::crypto(47),
            frame: None,
            reason: "a message of the handshake is wrong".to_owned(),
        };
        let parameters = |mut rest: &[u8]| TransportParameters::read(self.side, &mut rest);
        match (self.side, kind) {
            (Side::Server, 1) => {
                self.theirs = Some(parameters(rest).map_err(|_| wrong())?);
                self.agree(word, self.random);
                Ok(true)
            }
            (Side::Client, 2) => {
                self.agree(self.random, word);
                Ok(false)
            }
            (Side::Client, 3) if word == self.proof(Side::Server) => {
                self.theirs = Some(parameters(rest).map_err(|_| wrong())?);
                self.step = Step::Finish;
                Ok(true)
            }
            (Side::Server, 4) if word == self.proof(Side::Client) => {
                self.step = Step::Done;
                Ok(false)
            }
            _ => Err(wrong()),
        }
    }
}

impl Session for Handshake {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        keys(xxh3_64_with_seed(id, 1), side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.step != Step::Done
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        self.read.extend(bytes);
        let mut is_known = false;
        while let Some((head, rest)) = self.read.split_first_chunk::<HEAD>() {
            let [kind, low, high, word @ ..] = *head;
            let length = usize::from(u16::from_le_bytes([low, high]));
            if rest.len() < length {
                break;
            }
            let (rest, after) = (rest[..length].to_vec(), rest[length..].to_vec());
            self.read = after;
            is_known |= self.take(kind, u64::from_le_bytes(word), &rest)?;
        }
        Ok(is_known)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.theirs)
    }

    fn write_handshake(&mut self, into: &mut Vec<u8>) -> Option<Keys> {
        let early = keys(self.secret ^ 0xff, self.side);
        match (self.side, self.step) {
            (Side::Client, Step::Greet) => {
                message(into, 1, self.random, &self.ours);
                self.step = Step::Wait;
                None
            }
            (Side::Server, Step::Agree) => {
                message(into, 2, self.random, &[]);
                self.step = Step::Finish;
                Some(early)
            }
            (Side::Client, Step::Agree) => {
                self.step = Step::Wait;
                Some(early)
            }
            (Side::Server, Step::Finish) => {
                message(into, 3, self.proof(Side::Server), &self.ours);
                self.step = Step::Wait;
                Some(keys(self.secret, self.side))
            }
            (Side::Client, Step::Finish) => {
                message(into, 4, self.proof(Side::Client), &[]);
                self.step = Step::Done;
                Some(keys(self.secret, self.side))
            }
            _ => None,
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.secret = xxh3_64_with_seed(b"next", self.secret);
        Some(packet_keys(self.secret, self.side))
    }

    fn is_valid_retry(&self, first: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        let Some(length) = payload.len().checked_sub(TAG) else { return false };
        retry_tag(first, &[header, &payload[..length]])[..] == payload[length..]
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        _: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        let bytes = xxh3_64_with_seed(label, self.name).to_le_bytes();
        output.iter_mut().zip(bytes.iter().cycle()).for_each(|(to, from)| *to = *from);
        Ok(())
    }
}
