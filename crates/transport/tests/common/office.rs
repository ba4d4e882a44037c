//! [`Office`]: certificates for the tests of streams over TLS, and listeners and clients that use them.

use std::path::{Path, PathBuf};

use bifrost_transport::{
    Address, Clients, ConnectError, ConnectOptions, KeyFiles, ListenOptions, Listener, ReadError, Stream,
    TlsError, TlsOptions, TlsServer,
};
use rcgen::{CertificateParams, Issuer, KeyPair};

use super::far;

/// A folder with an authority, and certificates that it signs.
pub struct Office {
    pub folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Office {
    pub fn new() -> Office {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Office { folder, issuer: Issuer::new(params, key) }
    }

    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Makes the files of a certificate that the authority signs.
    pub fn sign(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> KeyFiles {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let path = |suffix: &str| self.folder.path().join(format!("{name}{suffix}"));
        let files = KeyFiles { certificate: path(".pem"), key: path("-key.pem") };
        std::fs::write(&files.certificate, certificate.pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }
}

pub fn listen(files: KeyFiles, clients: Clients) -> (Listener, ListenOptions) {
    let tls = Some(TlsServer::load(files, clients).unwrap());
    let options = ListenOptions { tls, ..ListenOptions::default() };
    let address = Address::Tls { host: "127.0.0.1".to_owned(), port: 0, pin: None };
    (Listener::bind(&address, &options).unwrap(), options)
}

pub fn port_of(listener: &Listener) -> u16 {
    match listener.local_address() {
        Address::Tls { port, .. } | Address::Tcp { port, .. } => *port,
        other => panic!("{other} has no port"),
    }
}

pub fn localhost(listener: &Listener) -> Address {
    Address::Tls { host: "localhost".to_owned(), port: port_of(listener), pin: None }
}

/// Trusts an authority.
pub fn trusting(authority: &Path) -> ConnectOptions {
    let tls = TlsOptions { authorities: Some(authority.to_owned()), certificate: None };
    ConnectOptions { tls, ..ConnectOptions::default() }
}

/// Connects while the listener's side reads until it knows that the handshake is over or has failed.
pub fn connect(
    listener: &Listener,
    address: Address,
    options: ConnectOptions,
) -> (Result<Stream, ConnectError>, Result<Stream, ReadError>) {
    let client = std::thread::spawn(move || Stream::connect(&address, &options));
    let mut server = listener.accept().unwrap().unwrap();
    let served = loop {
        if server.is_established() {
            break Ok(server);
        }
        match server.try_read(&mut Vec::new(), 1) {
            Ok(None) => assert!(server.wait_ready(far().unwrap())),
            Ok(Some(_)) => panic!("nothing was written"),
            Err(error) => break Err(error),
        }
    };
    (client.join().unwrap(), served)
}

pub fn refused(listener: &Listener, address: Address, options: ConnectOptions) -> TlsError {
    let (client, served) = connect(listener, address, options);
    // It is told, and not only cut off.
    let told = served.map(|_| ()).unwrap_err();
    assert!(!matches!(told, ReadError::Tls(TlsError::Cut)), "{told}");
    match client.map(|_| ()).unwrap_err() {
        ConnectError::Tls { source, .. } => *source,
        other => panic!("{other:?}"),
    }
}
