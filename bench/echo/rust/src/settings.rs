//! The settings of QUIC, and the certificate of a server. A client finds and trusts it by a place:
//! `ADDRESS#CERTIFICATE`, the certificate in hexadecimal digits.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, EndpointConfig, MtuDiscoveryConfig, ServerConfig, TransportConfig,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use crate::message::Failed;

/// The name in the certificate.
pub const NAME: &str = "localhost";

/// Settings of a connection that differ from the defaults.
#[derive(Clone, Copy, Default)]
pub struct Tuning {
    /// The most bytes of a datagram; probes find the largest one that arrives.
    pub mtu: Option<u16>,
    /// The longest time until the other side acknowledges a packet. It is a part of the time after
    /// which a lost one is sent again.
    pub ack_delay: Option<Duration>,
}

impl Tuning {
    /// Reads a setting.
    ///
    /// # Errors
    /// It is none.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Failed> {
        match name {
            "--mtu" => self.mtu = Some(value.parse()?),
            "--ack-delay-us" => self.ack_delay = Some(Duration::from_micros(value.parse()?)),
            _ => return Err(format!("there is no setting `{name}`").into()),
        }
        Ok(())
    }

    /// Returns the settings of a socket.
    ///
    /// # Errors
    /// A datagram cannot have so many bytes.
    pub fn endpoint(self) -> Result<EndpointConfig, Failed> {
        let mut config = EndpointConfig::default();
        if let Some(mtu) = self.mtu {
            config.max_udp_payload_size(mtu)?;
        }
        Ok(config)
    }

    /// Returns the settings of a connection. Nobody hangs up while others are measured.
    fn transport(self) -> Arc<TransportConfig> {
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout(None);
        if let Some(mtu) = self.mtu {
            let mut discovery = MtuDiscoveryConfig::default();
            discovery.upper_bound(mtu);
            transport.mtu_discovery_config(Some(discovery));
        }
        if let Some(delay) = self.ack_delay {
            let mut frequency = AckFrequencyConfig::default();
            frequency.max_ack_delay(Some(delay));
            transport.ack_frequency_config(Some(frequency));
        }
        Arc::new(transport)
    }
}

/// Makes the settings of a server, and its certificate in hexadecimal digits.
///
/// # Errors
/// The certificate cannot be made.
pub fn server(tuning: Tuning) -> Result<(ServerConfig, String), Failed> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let certificate: CertificateDer<'static> = made.cert.into();
    let digits = certificate.iter().map(|byte| format!("{byte:02x}")).collect();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())?;
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(tuning.transport());
    Ok((config, digits))
}

/// Reads a place: the address and the settings of a client that trusts the certificate.
///
/// # Errors
/// It is none.
pub fn client(place: &str, tuning: Tuning) -> Result<(SocketAddr, ClientConfig), Failed> {
    let (address, digits) = place.split_once('#').ok_or("a place is ADDRESS#CERTIFICATE")?;
    let byte = |at: usize| digits.get(at..at + 2).map(|two| u8::from_str_radix(two, 16));
    let bytes =
        (0..digits.len()).step_by(2).map(|at| byte(at).ok_or("an odd digit")?.map_err(|_| "a wrong digit"));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(bytes.collect::<Result<Vec<u8>, _>>()?))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(tuning.transport());
    Ok((address.parse()?, config))
}

/// Returns where the socket of a client is, which the system chooses.
pub fn local(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}
