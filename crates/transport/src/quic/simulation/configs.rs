//! The settings of both sides of a world: those of the product, with keys for a simulation or
//! of TLS.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quinn_proto::{ClientConfig, ConnectionId, ServerConfig, TimeSource};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::super::settings;
use super::keys::WorldKeys;

/// The settings of a world.
pub(super) struct Configs {
    keys: Arc<WorldKeys>,
    is_local: bool,
    has_tls: bool,
    /// For the first names of connections.
    seed: u64,
    count: u64,
}

/// The time by which tokens are judged. They do not grow old here.
struct Fixed;

impl TimeSource for Fixed {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000_000)
    }
}

fn tls() -> &'static (Arc<rustls::ServerConfig>, rustls::ClientConfig) {
    static TLS: OnceLock<(Arc<rustls::ServerConfig>, rustls::ClientConfig)> = OnceLock::new();
    TLS.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let certificate: CertificateDer<'static> = made.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let only = &[&rustls::version::TLS13];
        let server = rustls::ServerConfig::builder_with_provider(provider.clone());
        let server = server.with_protocol_versions(only).expect("TLS 1.3").with_no_client_auth();
        let server = server.with_single_cert(vec![certificate.clone()], key.into()).expect("a key");
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).expect("an authority");
        let client = rustls::ClientConfig::builder_with_provider(provider);
        let client = client.with_protocol_versions(only).expect("TLS 1.3");
        (Arc::new(server), client.with_root_certificates(roots).with_no_client_auth())
    })
}

impl Configs {
    pub(super) fn new(seed: u64, is_local: bool, has_tls: bool) -> Configs {
        Configs { keys: WorldKeys::new(seed), is_local, has_tls, seed, count: 0 }
    }

    pub(super) fn server(&self) -> Arc<ServerConfig> {
        if self.has_tls {
            let [local, remote] = settings::server(tls().0.clone()).expect("keys of QUIC");
            return if self.is_local { local } else { remote };
        }
        let mut config = ServerConfig::new(self.keys.clone(), self.keys.clone());
        config.time_source(Arc::new(Fixed));
        config.transport_config(settings::transport(self.is_local, settings::STREAMS_MAX));
        Arc::new(config)
    }

    pub(super) fn client(&mut self) -> ClientConfig {
        self.count += 1;
        let seed = self.seed.wrapping_mul(1_000_003) ^ self.count << 32;
        let mut config = if self.has_tls {
            settings::client(tls().1.clone(), self.is_local).expect("keys of QUIC")
        } else {
            let mut config = ClientConfig::new(self.keys.clone());
            config.transport_config(settings::transport(self.is_local, 0));
            config
        };
        config.initial_dst_cid_provider(Arc::new(move || {
            let mut bytes = [0; 20];
            fastrand::Rng::with_seed(seed).fill(&mut bytes);
            ConnectionId::new(&bytes)
        }));
        config
    }
}
