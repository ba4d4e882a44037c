//! The certificate of a server, and the place by which a client finds and trusts it:
//! `ADDRESS#CERTIFICATE`, the certificate in hexadecimal digits.

use std::net::SocketAddr;
use std::sync::Arc;

use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{ClientConfig, MtuDiscoveryConfig, ServerConfig, TransportConfig};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use crate::message::Failed;

/// The name in the certificate.
pub const NAME: &str = "localhost";

/// Returns the default settings, except that nobody hangs up while others are measured. Datagrams
/// get up to `mtu` bytes, if it is given; probes find the largest one that arrives.
fn transport(mtu: Option<u16>) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(None);
    if let Some(mtu) = mtu {
        let mut discovery = MtuDiscoveryConfig::default();
        discovery.upper_bound(mtu);
        transport.mtu_discovery_config(Some(discovery));
    }
    Arc::new(transport)
}

/// Makes the settings of a server, and its certificate in hexadecimal digits.
///
/// # Errors
/// The certificate cannot be made.
pub fn server(mtu: Option<u16>) -> Result<(ServerConfig, String), Failed> {
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
    config.transport_config(transport(mtu));
    Ok((config, digits))
}

/// Reads a place: the address and the settings of a client that trusts the certificate.
///
/// # Errors
/// It is none.
pub fn client(place: &str, mtu: Option<u16>) -> Result<(SocketAddr, ClientConfig), Failed> {
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
    config.transport_config(transport(mtu));
    Ok((address.parse()?, config))
}
