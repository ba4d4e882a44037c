//! [`Mask`]: TLS of a client that lies to its own QUIC, so that its QUIC breaks the rules.
//!
//! The handshake is rustls's, and true. Two things are changed: the server's transport parameters,
//! so that the client takes its windows for larger, and the plain text of packets just before they
//! are encrypted, so that a packet carries any frames.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use quinn_proto::coding::Codec;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, VarInt};

/// The changes, which their owner may make at any time.
#[derive(Default)]
pub struct Changes {
    /// Transport parameters of the server (RFC 9000 section 18.2) that the client takes for others.
    pub parameters: Vec<(u64, u64)>,
    /// Frames that take the places of all frames in the next packets with room for them.
    pub frames: VecDeque<Vec<u8>>,
}

/// A configuration of TLS with changes.
pub struct Mask {
    pub inner: Arc<QuicClientConfig>,
    pub changes: Arc<Mutex<Changes>>,
}

impl ClientConfig for Mask {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = self.inner.clone().start_session(version, server_name, params)?;
        Ok(Box::new(Masked { inner, changes: self.changes.clone(), levels: 0 }))
    }
}

struct Masked {
    inner: Box<dyn Session>,
    changes: Arc<Mutex<Changes>>,
    /// The number of key sets that the handshake has made: the second one is for streams.
    levels: u32,
}

impl Masked {
    fn mask(&self, key: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        Box::new(Key { inner: key, changes: self.changes.clone() })
    }
}

/// Returns parameters with other values.
fn changed(parameters: &TransportParameters, values: &[(u64, u64)]) -> TransportParameters {
    let (mut written, mut bytes) = (Vec::new(), Vec::new());
    parameters.write(&mut written);
    let mut rest = &written[..];
    while !rest.is_empty() {
        let id = VarInt::decode(&mut rest).unwrap();
        let length = VarInt::decode(&mut rest).unwrap().into_inner() as usize;
        let (value, behind) = rest.split_at(length);
        rest = behind;
        if !values.iter().any(|(of, _)| *of == id.into_inner()) {
            id.encode(&mut bytes);
            VarInt::from_u32(length as u32).encode(&mut bytes);
            bytes.extend_from_slice(value);
        }
    }
    for (id, value) in values {
        let mut encoded = Vec::new();
        VarInt::from_u64(*value).unwrap().encode(&mut encoded);
        VarInt::from_u64(*id).unwrap().encode(&mut bytes);
        VarInt::from_u32(encoded.len() as u32).encode(&mut bytes);
        bytes.extend(encoded);
    }
    TransportParameters::read(Side::Client, &mut &bytes[..]).unwrap()
}

impl Session for Masked {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(dst_cid, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_handshake(buf)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let parameters = self.inner.transport_parameters()?;
        let values = self.changes.lock().unwrap().parameters.clone();
        Ok(parameters.map(|parameters| changed(&parameters, &values)))
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let keys = self.inner.write_handshake(buf)?;
        self.levels += 1;
        if self.levels < 2 {
            return Some(keys);
        }
        let packet = KeyPair { local: self.mask(keys.packet.local), remote: keys.packet.remote };
        Some(Keys { header: keys.header, packet })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.inner.next_1rtt_keys()?;
        Some(KeyPair { local: self.mask(keys.local), remote: keys.remote })
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

struct Key {
    inner: Box<dyn PacketKey>,
    changes: Arc<Mutex<Changes>>,
}

impl PacketKey for Key {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        let mut changes = self.changes.lock().unwrap();
        let end = buf.len() - self.inner.tag_len();
        let payload = &mut buf[header_len..end];
        if changes.frames.front().is_some_and(|frames| frames.len() <= payload.len()) {
            let frames = changes.frames.pop_front().unwrap_or_default();
            // Zeros are PADDING; the frames are the last ones, so that they may be cut off.
            let padding = payload.len() - frames.len();
            payload[..padding].fill(0);
            payload[padding..].copy_from_slice(&frames);
        }
        drop(changes);
        self.inner.encrypt(packet, buf, header_len);
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        self.inner.decrypt(packet, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.inner.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}
