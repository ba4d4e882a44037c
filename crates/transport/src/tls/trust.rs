//! Certificates and their authorities: [`TlsOptions`] of a client, [`TlsServer`] of a listener.
//!
//! A client trusts a server by exactly one of these, the first that is there:
//!
//! 1. the pin of the address: the key must be that one; names and dates do not count;
//! 2. the authorities of the options, or of the file that `BIFROST_CA` names;
//! 3. the authorities of the system.
//!
//! A server trusts certificates of clients as its [`Clients`] say. Verification, signatures and
//! chains are rustls's; only the comparison of pins is here.
//!
//! There are no tickets and no early data: each connection proves itself anew, so a certificate
//! that is not trusted any more opens none.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig,
    SignatureScheme,
};
use thiserror::Error;

use super::machine::Machine;
use crate::pin::Pin;

/// The protocol inside TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// The forms of bytes of this system.
    #[default]
    Bifrost,
    /// HTTP, of which a websocket may come.
    Http,
    /// REX on the streams of QUIC, each with the forms of bytes of this system.
    Rex,
}

impl Protocol {
    /// The name that a handshake agrees on.
    pub(crate) fn name(self) -> &'static [u8] {
        match self {
            Protocol::Bifrost => b"bifrost/1",
            Protocol::Http => b"http/1.1",
            Protocol::Rex => b"bifrost-rex/1",
        }
    }
}

/// The variable with the file of authorities, for clients that were told none.
pub(crate) const AUTHORITIES: &str = "BIFROST_CA";

/// The longest file of certificates or keys that is read. Default: 1 MiB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The TLS options of a client.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct TlsOptions {
    /// The file of the authorities that are trusted for servers, in PEM. Default: that of
    /// `BIFROST_CA`, or else the system's. An address with a pin needs none.
    pub authorities: Option<PathBuf>,
    /// The files of the client's own certificate and key, for servers that ask for one.
    pub certificate: Option<KeyFiles>,
}

/// A certificate and its private key, as files in PEM.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KeyFiles {
    /// The certificate, before those that lead to its authority.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// The clients whose certificates a server accepts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Clients {
    /// Clients with and without certificates. Of a certificate only the pin counts.
    #[default]
    Any,
    /// A certificate must be signed by an authority of a file, whose names then count.
    Authorities {
        /// The file, in PEM.
        file: PathBuf,
        /// True if a client without a certificate is refused.
        required: bool,
    },
    /// Only clients with a key that has one of these pins.
    Pins(Vec<Pin>),
}

/// The reason why a file of certificates or keys cannot be used.
#[derive(Debug, Error)]
#[error("cannot use `{}`: {why}", path.display())]
pub struct CertificateFileError {
    /// The file.
    pub path: PathBuf,
    /// The fault in it.
    pub why: String,
}

/// The certificate of a listener, which can be read again while it listens.
#[derive(Clone)]
pub struct TlsServer(Arc<Own>);

struct Own {
    files: KeyFiles,
    clients: Clients,
    now: Mutex<Now>,
}

/// The certificate in use.
#[derive(Clone)]
struct Now {
    config: Arc<ServerConfig>,
    /// The same for HTTP.
    web: Arc<ServerConfig>,
    /// The same for QUIC.
    rex: Arc<ServerConfig>,
    pin: Pin,
    /// A secret that every process with this key has.
    reset_key: [u8; 32],
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsServer").field("files", &self.0.files).finish_non_exhaustive()
    }
}

impl TlsServer {
    /// Reads the files of a server's certificate and of its clients' authorities.
    ///
    /// # Errors
    /// [`CertificateFileError`]
    pub fn load(files: KeyFiles, clients: Clients) -> Result<TlsServer, CertificateFileError> {
        let now = Mutex::new(read_server(&files, &clients)?);
        Ok(TlsServer(Arc::new(Own { files, clients, now })))
    }

    /// Reads the files again. New connections get the new certificate; after an error the old one
    /// stays.
    ///
    /// # Errors
    /// [`CertificateFileError`]
    pub fn reload(&self) -> Result<Pin, CertificateFileError> {
        let now = read_server(&self.0.files, &self.0.clients)?;
        let pin = now.pin;
        *self.0.now.lock().unwrap_or_else(PoisonError::into_inner) = now;
        Ok(pin)
    }

    /// Returns the pin of the certificate in use.
    pub fn pin(&self) -> Pin {
        self.now().pin
    }

    fn now(&self) -> Now {
        self.0.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes the server's side of a connection.
    pub(crate) fn accept(&self, protocol: Protocol) -> Result<Machine, rustls::Error> {
        let Now { config, web, .. } = self.now();
        let config = if protocol == Protocol::Http { web } else { config };
        let connection = UnbufferedServerConnection::new(config)?;
        Ok(Machine::server(connection, self.trusts_names()))
    }

    /// Returns the settings for QUIC. They are the same ones until the files are read again.
    pub(crate) fn quic(&self) -> Arc<ServerConfig> {
        self.now().rex
    }

    /// Returns the key of the tokens with which a process that has started again tells peers so.
    pub(crate) fn reset_key(&self) -> [u8; 32] {
        self.now().reset_key
    }

    /// True if names in certificates of clients are verified.
    pub(crate) fn trusts_names(&self) -> bool {
        matches!(self.0.clients, Clients::Authorities { .. })
    }
}

/// Returns the algorithms, once for the process.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())).clone()
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    provider().signature_verification_algorithms
}

fn read_server(files: &KeyFiles, clients: &Clients) -> Result<Now, CertificateFileError> {
    let (chain, key) = read_key(files)?;
    let wrong = |why: &dyn fmt::Display| file_error(&files.certificate, why);
    let pin = chain.first().and_then(Pin::of).ok_or_else(|| wrong(&"its certificate is malformed"))?;
    let verifier: Arc<dyn ClientCertVerifier> = match clients {
        Clients::Any => Arc::new(PinnedClients(None)),
        Clients::Pins(pins) => Arc::new(PinnedClients(Some(pins.clone()))),
        Clients::Authorities { file, required } => {
            let roots = Arc::new(read_roots(file)?);
            let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider());
            if !required {
                builder = builder.allow_unauthenticated();
            }
            builder.build().map_err(|why| file_error(file, &why))?
        }
    };
    // Browsers that are asked for a certificate, and have none, open no websocket.
    let asks_browsers = !matches!(clients, Clients::Any);
    let config = |protocol: Protocol| {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|why| wrong(&why))?;
        let builder = match protocol {
            Protocol::Http if !asks_browsers => builder.with_no_client_auth(),
            _ => builder.with_client_cert_verifier(verifier.clone()),
        };
        let own = builder.with_single_cert(chain.clone(), key.clone_key());
        let mut config = own.map_err(|why| match why {
            rustls::Error::InconsistentKeys(_) => {
                wrong(&format_args!("`{}` is the key of another certificate", files.key.display()))
            }
            why => wrong(&why),
        })?;
        config.alpn_protocols = vec![protocol.name().to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    };
    let reset_key = {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.secret_der());
        let tag = ring::hmac::sign(&key, b"bifrost quic reset 1");
        tag.as_ref().try_into().unwrap_or_default()
    };
    let [bifrost, web, rex] = [Protocol::Bifrost, Protocol::Http, Protocol::Rex].map(config);
    Ok(Now { config: bifrost?, web: web?, rex: rex?, pin, reset_key })
}

fn file_error(path: &Path, why: &dyn fmt::Display) -> CertificateFileError {
    CertificateFileError { path: path.to_owned(), why: why.to_string() }
}

fn read_file(path: &Path) -> Result<Vec<u8>, CertificateFileError> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let mut file = std::fs::File::open(path).map_err(|why| file_error(path, &why))?;
    let read = file.by_ref().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    match read {
        Ok(count) if count as u64 > FILE_BYTES_MAX => {
            Err(file_error(path, &format_args!("it has more than {FILE_BYTES_MAX} bytes")))
        }
        Ok(_) => Ok(bytes),
        Err(why) => Err(file_error(path, &why)),
    }
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateFileError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read_file(path)?).collect();
    match chain {
        Ok(chain) if chain.is_empty() => Err(file_error(path, &"it has no certificate in PEM form")),
        Ok(chain) => Ok(chain),
        Err(why) => Err(file_error(path, &why)),
    }
}

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn read_key(files: &KeyFiles) -> Result<Pair, CertificateFileError> {
    let chain = read_chain(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&read_file(&files.key)?)
        .map_err(|_| file_error(&files.key, &"it has no private key in PEM form"))?;
    Ok((chain, key))
}

fn read_roots(path: &Path) -> Result<RootCertStore, CertificateFileError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_chain(path)? {
        roots.add(certificate).map_err(|why| file_error(path, &why))?;
    }
    Ok(roots)
}

/// Returns the authorities of the system, which are read once.
fn system_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let read = || {
        let mut roots = RootCertStore::empty();
        // Those that cannot be read are trusted by none: the verification says so.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    };
    ROOTS.get_or_init(read).clone()
}

/// The means for clients of other protocols over TLS.
pub struct TlsMeans {
    /// The algorithms.
    pub provider: Arc<CryptoProvider>,
    /// The authorities of the system, as DER.
    pub authorities: Vec<Vec<u8>>,
}

impl fmt::Debug for TlsMeans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsMeans").field("authorities", &self.authorities.len()).finish_non_exhaustive()
    }
}

/// Returns the means for clients of other protocols over TLS, which trust the authorities of the
/// system.
pub fn tls_means() -> TlsMeans {
    let authorities = rustls_native_certs::load_native_certs().certs;
    TlsMeans { provider: provider(), authorities: authorities.iter().map(|one| one.to_vec()).collect() }
}

/// Returns the names of a certificate, as `dns:db1.example`.
pub(crate) fn names_of(certificate: &CertificateDer<'_>) -> Vec<String> {
    match webpki::EndEntityCert::try_from(certificate) {
        Ok(parsed) => parsed.valid_dns_names().map(|name| format!("dns:{name}")).collect(),
        Err(_) => Vec::new(),
    }
}

/// The trust of a client in one server, and the pin that this has shown.
#[derive(Debug)]
pub(crate) struct Witness {
    host: String,
    trust: Trust,
    seen: OnceLock<Pin>,
    /// The reason why its certificate was refused.
    refused: OnceLock<rustls::Error>,
}

#[derive(Debug)]
enum Trust {
    Pin(Pin),
    Authorities(Arc<WebPkiServerVerifier>),
    /// No authority is known: all servers are those of unknown ones.
    Nobody,
}

/// The settings of a client for a server, and the witness of its certificate.
pub(crate) struct Trusting {
    pub config: ClientConfig,
    pub witness: Arc<Witness>,
}

/// Makes the client's side of a connection with a host.
///
/// # Errors
/// [`CertificateFileError`]; the host's name cannot be one of a certificate.
pub(crate) fn connect(
    host: &str,
    pin: Option<Pin>,
    options: &TlsOptions,
    protocol: Protocol,
) -> Result<Machine, CertificateFileError> {
    let Trusting { config, witness } = trusting(host, pin, options, protocol)?;
    let wrong = |why: &dyn fmt::Display| client_error(options, why);
    // A name that no certificate can have is no secret to be sent, and none of a pinned server.
    let name = ServerName::try_from(host.to_owned()).or_else(|_| ServerName::try_from(PINNED));
    let name = name.map_err(|why| wrong(&why))?;
    let connection = UnbufferedClientConnection::new(Arc::new(config), name).map_err(|why| wrong(&why))?;
    Ok(Machine::client(connection, witness, protocol))
}

/// The name that is sent to a server whose host no certificate can have.
pub(crate) const PINNED: &str = "pinned.invalid";

fn client_error(options: &TlsOptions, why: &dyn fmt::Display) -> CertificateFileError {
    let path = options.certificate.as_ref().map(|files| files.certificate.clone());
    CertificateFileError { path: path.unwrap_or_default(), why: why.to_string() }
}

/// Makes the settings of a client for a host.
///
/// # Errors
/// [`CertificateFileError`]
pub(crate) fn trusting(
    host: &str,
    pin: Option<Pin>,
    options: &TlsOptions,
    protocol: Protocol,
) -> Result<Trusting, CertificateFileError> {
    let authorities = || {
        let named = || std::env::var_os(AUTHORITIES).filter(|path| !path.is_empty()).map(PathBuf::from);
        options.authorities.clone().or_else(named)
    };
    let trust = match pin {
        Some(pin) => Trust::Pin(pin),
        None => {
            let file = authorities();
            let roots = match &file {
                Some(file) => Arc::new(read_roots(file)?),
                None => system_roots(),
            };
            match WebPkiServerVerifier::builder_with_provider(roots, provider()).build() {
                Ok(verifier) => Trust::Authorities(verifier),
                Err(_) => Trust::Nobody,
            }
        }
    };
    let witness =
        Arc::new(Witness { host: host.to_owned(), trust, seen: OnceLock::new(), refused: OnceLock::new() });
    let wrong = |why: &dyn fmt::Display| client_error(options, why);
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|why| wrong(&why))?
        .dangerous()
        .with_custom_certificate_verifier(witness.clone());
    let mut config = match &options.certificate {
        None => builder.with_no_client_auth(),
        Some(files) => {
            let (chain, key) = read_key(files)?;
            builder.with_client_auth_cert(chain, key).map_err(|why| wrong(&why))?
        }
    };
    config.alpn_protocols = vec![protocol.name().to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Trusting { config, witness })
}

impl Witness {
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Returns the pin of the address.
    pub(crate) fn expected(&self) -> Option<Pin> {
        match self.trust {
            Trust::Pin(pin) => Some(pin),
            Trust::Authorities(_) | Trust::Nobody => None,
        }
    }

    /// Returns the pin that the server has shown.
    pub(crate) fn seen(&self) -> Option<Pin> {
        self.seen.get().copied()
    }

    /// Returns the reason why the server's certificate was refused.
    pub(crate) fn refused(&self) -> Option<rustls::Error> {
        self.refused.get().cloned()
    }

    /// True if names in the server's certificate were verified.
    pub(crate) fn trusts_names(&self) -> bool {
        matches!(self.trust, Trust::Authorities(_))
    }
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let seen = Pin::of(end_entity).ok_or(CertificateError::BadEncoding)?;
        let seen = *self.seen.get_or_init(|| seen);
        let verified = match &self.trust {
            // Keys are public, so the comparison needs no constant time.
            Trust::Pin(pin) if *pin == seen => Ok(ServerCertVerified::assertion()),
            Trust::Pin(_) => Err(CertificateError::ApplicationVerificationFailure.into()),
            Trust::Authorities(verifier) => {
                verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            Trust::Nobody => Err(CertificateError::UnknownIssuer.into()),
        };
        verified.inspect_err(|why| drop(self.refused.set(why.clone())))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        algorithms().supported_schemes()
    }
}

/// Clients with these pins, and no others; without pins, all clients.
#[derive(Debug)]
struct PinnedClients(Option<Vec<Pin>>);

impl ClientCertVerifier for PinnedClients {
    fn client_auth_mandatory(&self) -> bool {
        self.0.is_some()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let pin = Pin::of(end_entity).ok_or(CertificateError::BadEncoding)?;
        match &self.0 {
            Some(pins) if !pins.contains(&pin) => {
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
            _ => Ok(ClientCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        algorithms().supported_schemes()
    }
}
