//! The settings of QUIC, and its keys: those of `crate::tls`.

use std::sync::Arc;
use std::time::Duration;

use quinn_proto::congestion::CubicConfig;
use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, EndpointConfig, HashedConnectionIdGenerator, IdleTimeout,
    MtuDiscoveryConfig, ServerConfig, TransportConfig, VarInt,
};

/// The silence after which a peer is taken for dead.
pub(crate) const SILENCE: Duration = Duration::from_secs(30);
/// The silence after which a client with open streams asks for a sign of life.
pub(crate) const PING_EVERY: Duration = Duration::from_secs(15);
/// Most streams of a connection at a time.
pub(crate) const STREAMS_MAX: u32 = 1024;
/// The same at first: quinn-proto reserves some 70 bytes for each that may be opened.
pub(crate) const STREAMS_FIRST: u32 = 64;
/// Bytes of a stream that may be under way before they are read.
const STREAM_WINDOW: u32 = 1 << 20;
/// The same within this machine, where a round trip takes 50 us: short messages of other streams
/// wait for what is under way, and not for long (docs/internals/rex.md).
const STREAM_WINDOW_LOCAL: u32 = 160 << 10;
/// Bytes of a connection that may be under way before they are read.
const WINDOW: u32 = 16 << 20;
/// The same within this machine.
const WINDOW_LOCAL: u32 = 4 << 20;
/// Bytes of a connection that are written and not acknowledged.
const SEND_WINDOW: u64 = 8 << 20;
/// The time of a round trip, until one was measured.
const TRIP: Duration = Duration::from_millis(100);
/// The same on this machine.
const TRIP_LOCAL: Duration = Duration::from_millis(1);
/// The longest time for which acknowledgements wait. A peer with `ack-frequency` keeps it.
const ACK_DELAY: Duration = Duration::from_millis(1);
/// The packets of a path within this machine: three of them are the most bytes that the system
/// takes in a call, and a few have room in the buffer of a socket.
const PACKET_BYTES_LOCAL: u16 = 21_800;
/// The first window of congestion on such a path: a window must have room for a packet.
const CONGESTION_LOCAL: u64 = 10 * PACKET_BYTES_LOCAL as u64;
/// The largest packets that are tried elsewhere: jumbo frames.
const PACKET_BYTES_MAX: u16 = 8_952;
/// Bytes of messages of REX that wait.
const DATAGRAM_BYTES: usize = 16 << 10;

/// Returns the settings of connections with peers of this machine, or of others, of which the peer
/// may open so many streams at first.
pub(crate) fn transport(is_local: bool, streams_max: u32) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    let mut acks = AckFrequencyConfig::default();
    acks.max_ack_delay(Some(ACK_DELAY));
    let idle = IdleTimeout::from(VarInt::from_u32(SILENCE.as_millis() as u32));
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(streams_max))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .max_idle_timeout(Some(idle))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(SEND_WINDOW)
        .datagram_receive_buffer_size(Some(DATAGRAM_BYTES))
        .datagram_send_buffer_size(DATAGRAM_BYTES)
        .initial_rtt(if is_local { TRIP_LOCAL } else { TRIP })
        .ack_frequency_config(Some(acks));
    if is_local {
        let mut congestion = CubicConfig::default();
        congestion.initial_window(CONGESTION_LOCAL);
        config
            .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_LOCAL))
            .receive_window(VarInt::from_u32(WINDOW_LOCAL))
            .initial_mtu(PACKET_BYTES_LOCAL)
            .mtu_discovery_config(None)
            .congestion_controller_factory(Arc::new(congestion));
    } else {
        let mut mtu = MtuDiscoveryConfig::default();
        mtu.upper_bound(PACKET_BYTES_MAX);
        config.mtu_discovery_config(Some(mtu));
    }
    Arc::new(config)
}

/// Returns the settings of a socket. With `reset_key` a process that has started again tells peers
/// of the one before it that their connections are gone.
pub(crate) fn endpoint(reset_key: Option<&[u8; 32]>) -> Arc<EndpointConfig> {
    let mut config = match reset_key {
        Some(key) => {
            let hmac = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key);
            let mut config = EndpointConfig::new(Arc::new(hmac));
            // It knows the names that the process before it gave: others get no answer.
            let names = u64::from_le_bytes(*key.last_chunk().unwrap_or(&[0; 8]));
            config.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(names)));
            config
        }
        None => EndpointConfig::default(),
    };
    // All that a datagram may have: paths within this machine carry it.
    let _ = config.max_udp_payload_size(u16::MAX - 8);
    Arc::new(config)
}

/// Returns the server's settings for a certificate: for clients of this machine, and for others.
///
/// # Errors
/// The algorithms have none that QUIC begins with.
pub(crate) fn server(
    config: Arc<rustls::ServerConfig>,
) -> Result<[Arc<ServerConfig>; 2], NoInitialCipherSuite> {
    let crypto = QuicServerConfig::try_from(config)?;
    // Both have the key of tokens in common.
    let config = ServerConfig::with_crypto(Arc::new(crypto));
    Ok([true, false].map(|is_local| {
        let mut config = config.clone();
        config.transport_config(transport(is_local, STREAMS_FIRST));
        Arc::new(config)
    }))
}

/// Returns the client's settings for a server.
///
/// # Errors
/// The algorithms have none that QUIC begins with.
pub(crate) fn client(
    config: rustls::ClientConfig,
    is_local: bool,
) -> Result<ClientConfig, NoInitialCipherSuite> {
    let crypto = QuicClientConfig::try_from(config)?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport(is_local, 0));
    Ok(config)
}
