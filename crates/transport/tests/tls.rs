//! Streams over TLS: trust of clients and servers, errors, peers that misbehave, idle connections.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_transport::{
    Address, Clients, ConnectError, ConnectOptions, Identity, KeyFiles, ListenError, ListenOptions, Listener,
    Pin, ReadError, Stream, TlsError, TlsOptions, TlsServer, WriteError,
};
use common::{Numbers, address_of, connected, far, open_websocket, read_exact, self_signed, shake_hands};
use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::pki_types::ServerName;

/// A folder with an authority, and certificates that it signs.
struct Office {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Office {
    fn new() -> Office {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Office { folder, issuer: Issuer::new(params, key) }
    }

    fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Makes the files of a certificate that the authority signs.
    fn sign(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> KeyFiles {
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

fn listen(files: KeyFiles, clients: Clients) -> (Listener, ListenOptions) {
    let tls = Some(TlsServer::load(files, clients).unwrap());
    let options = ListenOptions { tls, ..ListenOptions::default() };
    let address = Address::Tls { host: "127.0.0.1".to_owned(), port: 0, pin: None };
    (Listener::bind(&address, &options).unwrap(), options)
}

fn port_of(listener: &Listener) -> u16 {
    match listener.local_address() {
        Address::Tls { port, .. } | Address::Tcp { port, .. } => *port,
        other => panic!("{other} has no port"),
    }
}

fn localhost(listener: &Listener) -> Address {
    Address::Tls { host: "localhost".to_owned(), port: port_of(listener), pin: None }
}

/// Trusts an authority.
fn trusting(authority: &Path) -> ConnectOptions {
    let tls = TlsOptions { authorities: Some(authority.to_owned()), certificate: None };
    ConnectOptions { tls, ..ConnectOptions::default() }
}

/// Connects while the listener's side reads until it knows that the handshake is over or has failed.
fn connect(
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

fn refused(listener: &Listener, address: Address, options: ConnectOptions) -> TlsError {
    let (client, served) = connect(listener, address, options);
    // It is told, and not only cut off.
    let told = served.map(|_| ()).unwrap_err();
    assert!(!matches!(told, ReadError::Tls(TlsError::Cut)), "{told}");
    match client.map(|_| ()).unwrap_err() {
        ConnectError::Tls { source, .. } => *source,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_trusts_an_authority_and_the_name() {
    let office = Office::new();
    let (listener, _) = listen(office.sign("localhost", |_| {}), Clients::Any);
    let (client, server) = connect(&listener, localhost(&listener), trusting(&office.authority()));
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    client.write(b"hello", far()).unwrap();
    assert_eq!(read_exact(&mut server, 5), b"hello");
    let Identity::Certificate { names, pin } = client.identity() else { panic!() };
    assert_eq!(names, ["dns:localhost"]);
    assert!(pin.starts_with("sha256-"), "{pin}");
    assert_eq!(server.identity(), Identity::None);
    assert!(server.describe_peer().starts_with("tls 127.0.0.1:"));
    assert!(server.peer_ip().is_some_and(|ip| ip.is_loopback()));
}

#[test]
fn an_expired_certificate_is_named() {
    let office = Office::new();
    let old = office.sign("localhost", |params| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    });
    let (listener, _) = listen(old, Clients::Any);
    let error = refused(&listener, localhost(&listener), trusting(&office.authority()));
    assert!(matches!(error, TlsError::Expired { days } if days > 8000), "{error:?}");
    assert!(error.to_string().contains("renew it there"), "{error}");
    let early = office.sign("localhost", |params| params.not_before = rcgen::date_time_ymd(2999, 1, 1));
    let (listener, _) = listen(early, Clients::Any);
    let error = refused(&listener, localhost(&listener), trusting(&office.authority()));
    assert!(matches!(error, TlsError::NotYetValid), "{error:?}");
}

#[test]
fn a_certificate_of_another_host_is_named() {
    let office = Office::new();
    let (listener, _) = listen(office.sign("db1.example", |_| {}), Clients::Any);
    let error = refused(&listener, localhost(&listener), trusting(&office.authority()));
    let TlsError::WrongName { host, names } = &error else { panic!("{error:?}") };
    assert_eq!((host.as_str(), names.contains("db1.example")), ("localhost", true), "{names}");
    assert!(error.to_string().contains("bifrost certificate --name localhost"), "{error}");
}

#[test]
fn an_unknown_authority_tells_the_pin_that_was_seen() {
    let (office, other) = (Office::new(), Office::new());
    let (listener, options) = listen(office.sign("localhost", |_| {}), Clients::Any);
    let error = refused(&listener, localhost(&listener), trusting(&other.authority()));
    let TlsError::UnknownAuthority { pin } = &error else { panic!("{error:?}") };
    assert_eq!(*pin, options.tls.unwrap().pin());
    assert!(error.to_string().contains(&format!("#{pin}")) && error.to_string().contains("--ca FILE"));
    // The authorities of the system do not know it either.
    let error = refused(&listener, localhost(&listener), ConnectOptions::default());
    assert!(matches!(error, TlsError::UnknownAuthority { .. }), "{error:?}");
}

#[test]
fn a_pin_is_the_only_trust_and_a_wrong_one_is_named() {
    let office = Office::new();
    // Neither its name nor its dates fit.
    let files = office.sign("db1.example", |params| params.not_after = rcgen::date_time_ymd(2002, 1, 1));
    let (listener, options) = listen(files, Clients::Any);
    let address = address_of(&listener, &options);
    let (client, server) = connect(&listener, address.clone(), ConnectOptions::default());
    let Identity::Certificate { names, .. } = client.unwrap().identity() else { panic!() };
    // Nobody has verified the name.
    assert_eq!((names.len(), server.is_ok()), (0, true));

    let wrong: Pin = "sha256-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8".parse().unwrap();
    let error = refused(&listener, address.clone().with_pin(wrong), ConnectOptions::default());
    let TlsError::WrongPin { expected, seen } = error else { panic!("{error:?}") };
    assert_eq!((expected, seen), (wrong, options.tls.unwrap().pin()));

    let error = Stream::connect(&address, &trusting(&office.authority())).unwrap_err();
    assert!(matches!(error, ConnectError::TwoTrusts { .. }), "{error:?}");
}

#[test]
fn certificates_of_clients_are_verified_and_told() {
    let (office, other) = (Office::new(), Office::new());
    let own = |files: &KeyFiles| {
        let tls = TlsOptions { authorities: Some(office.authority()), certificate: Some(files.clone()) };
        ConnectOptions { tls, ..ConnectOptions::default() }
    };
    let clients = Clients::Authorities { file: office.authority(), required: true };
    let (listener, _) = listen(office.sign("localhost", |_| {}), clients);
    let reader = office.sign("reader.example", |_| {});
    let (client, server) = connect(&listener, localhost(&listener), own(&reader));
    let Identity::Certificate { names, pin } = server.unwrap().identity() else { panic!() };
    assert_eq!(names, ["dns:reader.example"]);
    client.unwrap();

    // A client learns at its first read that it is refused.
    let (client, server) = connect(&listener, localhost(&listener), trusting(&office.authority()));
    assert!(server.is_err());
    let error = client.unwrap().read(&mut Vec::new(), 1, far()).unwrap_err();
    assert!(matches!(error, ReadError::Tls(TlsError::CertificateRequired)), "{error:?}");
    assert!(error.to_string().contains("--certificate FILE --key FILE"), "{error}");
    let stranger = other.sign("stranger.example", |_| {});
    let (client, server) = connect(&listener, localhost(&listener), own(&stranger));
    assert!(server.is_err());
    let error = client.unwrap().read(&mut Vec::new(), 1, far()).unwrap_err();
    assert!(matches!(error, ReadError::Tls(TlsError::CertificateRefused { .. })), "{error:?}");

    // By their pins: the names do not count.
    let pins = Clients::Pins(vec![pin.parse().unwrap()]);
    let (listener, _) = listen(office.sign("localhost", |_| {}), pins);
    let (client, server) = connect(&listener, localhost(&listener), own(&reader));
    let expected = Identity::Certificate { names: Vec::new(), pin: pin.clone() };
    assert_eq!(server.unwrap().identity(), expected);
    client.unwrap();
    let (_client, server) = connect(&listener, localhost(&listener), own(&stranger));
    assert!(server.is_err());
    // Anybody, whose proof is told.
    let (listener, _) = listen(office.sign("localhost", |_| {}), Clients::Any);
    let (client, server) = connect(&listener, localhost(&listener), own(&stranger));
    assert!(matches!(server.unwrap().identity(), Identity::Certificate { names, .. } if names.is_empty()));
    client.unwrap();
}

/// Browsers that are asked for a certificate, and have none, open no websocket.
#[test]
fn a_websocket_asks_for_certificates_only_by_authority() {
    let office = Office::new();
    let reader = office.sign("reader.example", |_| {});
    let identity = |clients: Clients| {
        let tls = Some(TlsServer::load(office.sign("localhost", |_| {}), clients).unwrap());
        let address =
            |host: &str, port| Address::Wss { host: host.to_owned(), port, path: "/".into(), pin: None };
        let options = ListenOptions { tls, ..ListenOptions::default() };
        let listener = Listener::bind(&address("127.0.0.1", 0), &options).unwrap();
        let address = address("localhost", listener.local_address().port().unwrap());
        let mut options = trusting(&office.authority());
        options.tls.certificate = Some(reader.clone());
        let client = std::thread::spawn(move || Stream::connect(&address, &options).unwrap());
        let mut server = listener.accept().unwrap().unwrap();
        let read = shake_hands(&mut server);
        open_websocket(&mut server, read);
        client.join().unwrap();
        server.identity()
    };
    assert_eq!(identity(Clients::Any), Identity::None);
    let file = office.authority();
    match identity(Clients::Authorities { file, required: false }) {
        Identity::Certificate { names, .. } => assert_eq!(names, ["dns:reader.example"]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let office = Office::new();
    let files = office.sign("localhost", |_| {});
    let other = office.sign("other", |_| {});
    let load = |files: KeyFiles| TlsServer::load(files, Clients::Any).map(|_| ()).unwrap_err().to_string();
    let missing = load(KeyFiles { certificate: "/nowhere.pem".into(), ..files.clone() });
    assert!(missing.contains("cannot use `/nowhere.pem`"), "{missing}");
    let swapped = load(KeyFiles { certificate: files.key.clone(), ..files.clone() });
    assert!(swapped.contains("it has no certificate in PEM form"), "{swapped}");
    let no_key = load(KeyFiles { key: files.certificate.clone(), ..files.clone() });
    assert!(no_key.contains("it has no private key in PEM form"), "{no_key}");
    let mixed = load(KeyFiles { key: other.key, ..files.clone() });
    assert!(mixed.contains("is the key of another certificate"), "{mixed}");
    let long = office.folder.path().join("long.pem");
    std::fs::write(&long, vec![b'x'; (1 << 20) + 1]).unwrap();
    let long = load(KeyFiles { certificate: long, ..files });
    assert!(long.contains("more than 1048576 bytes"), "{long}");
    let address = Address::Tls { host: "127.0.0.1".to_owned(), port: 0, pin: None };
    let error = Listener::bind(&address, &ListenOptions::default()).unwrap_err();
    assert!(matches!(error, ListenError::NoCertificate { .. }), "{error:?}");
    let pinned = format!("{address}#sha256-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8").parse().unwrap();
    let error = Listener::bind(&pinned, &ListenOptions::default()).unwrap_err();
    assert!(matches!(error, ListenError::Pin { .. }), "{error:?}");
    let error = Stream::connect(&address, &trusting(Path::new("/nowhere.pem"))).unwrap_err();
    assert!(matches!(error, ConnectError::Certificates(_)), "{error:?}");
}

#[test]
fn a_certificate_is_read_again_and_a_bad_one_is_not() {
    let office = Office::new();
    let files = office.sign("localhost", |_| {});
    let (listener, options) = listen(files.clone(), Clients::Any);
    let tls = options.tls.unwrap();
    let before = tls.pin();
    let (old, old_server) =
        connect(&listener, listener.local_address().clone().with_pin(before), ConnectOptions::default());
    std::fs::write(&files.certificate, "nothing").unwrap();
    assert!(tls.reload().is_err());
    assert_eq!(tls.pin(), before);
    office.sign("localhost", |_| {});
    let after = tls.reload().unwrap();
    assert!(after != before && tls.pin() == after);
    let address = listener.local_address().clone();
    let (new, served) = connect(&listener, address.clone().with_pin(after), ConnectOptions::default());
    assert!(new.is_ok() && served.is_ok());
    let error = refused(&listener, address.with_pin(before), ConnectOptions::default());
    assert!(matches!(error, TlsError::WrongPin { .. }), "{error:?}");
    // Connections that are there stay.
    old.unwrap().write(b"still", far()).unwrap();
    assert_eq!(read_exact(&mut old_server.unwrap(), 5), b"still");
}

/// Answers the first bytes of one client with these bytes, and closes.
fn answering(answer: &'static [u8]) -> (Address, std::thread::JoinHandle<()>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        assert!(client.read(&mut [0; 4096]).unwrap() > 0);
        client.write_all(answer).unwrap();
    });
    (Address::Tls { host: "localhost".to_owned(), port, pin: None }, thread)
}

#[test]
fn servers_of_other_kinds_are_told_apart() {
    let options = || ConnectOptions { timeout: Duration::from_secs(2), ..ConnectOptions::default() };
    let failed = |answer| {
        let (address, thread) = answering(answer);
        let error = Stream::connect(&address, &options()).unwrap_err();
        thread.join().unwrap();
        error
    };
    let reason = |error: ConnectError| match error {
        ConnectError::Tls { source, .. } => *source,
        other => panic!("{other:?}"),
    };
    let error = reason(failed(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    assert!(matches!(error, TlsError::NotTls), "{error:?}");
    assert!(error.to_string().contains("`tcp://`"), "{error}");
    // The alert of a server that has only TLS 1.2: `protocol_version`.
    let error = reason(failed(b"\x15\x03\x03\x00\x02\x02\x46"));
    assert!(matches!(error, TlsError::OldVersion), "{error:?}");
    let error = failed(b"");
    assert!(matches!(error, ConnectError::Closed { .. }), "{error:?}");
    // One that says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let address = Address::Tls { host: "localhost".to_owned(), port, pin: None };
    let short = ConnectOptions { timeout: Duration::from_millis(100), ..ConnectOptions::default() };
    let error = Stream::connect(&address, &short).unwrap_err();
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error:?}");
}

/// A client of rustls alone, which trusts the authority.
fn bare_client(
    office: &Office,
    alpn: &[&[u8]],
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> rustls::ClientConnection {
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(rustls::pki_types::CertificateDer::from_pem_file(office.authority()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    rustls::ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap()
}

/// Reads until the read fails.
fn failure(server: &mut Stream) -> ReadError {
    loop {
        match server.read(&mut Vec::new(), 1 << 20, far()) {
            Ok(count) => assert_ne!(count, 0, "a clean end"),
            Err(error) => return error,
        }
    }
}

#[test]
fn clients_of_other_kinds_are_refused() {
    let office = Office::new();
    let (listener, _) = listen(office.sign("localhost", |_| {}), Clients::Any);
    let port = port_of(&listener);
    let serve = |sent: &[u8]| {
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut server = listener.accept().unwrap().unwrap();
        client.write_all(sent).unwrap();
        let error = failure(&mut server);
        let answer = server.try_write(b"secret");
        drop(server);
        let mut told = Vec::new();
        client.read_to_end(&mut told).unwrap();
        assert!(!told.windows(6).any(|bytes| bytes == b"secret"));
        assert!(matches!(answer, Err(WriteError::Closed)), "{answer:?}");
        error
    };
    let error = serve(b"hello 2\n");
    assert!(matches!(error, ReadError::Tls(TlsError::NotTls)), "{error:?}");
    let mut numbers = Numbers(5);
    for length in [5, 100, 20_000] {
        let mut garbage = numbers.bytes(length);
        garbage[0] = 0x80;
        let error = serve(&garbage);
        assert!(matches!(error, ReadError::Tls(TlsError::NotTls)), "{error:?}");
    }
    // A record of a handshake that is none.
    let error = serve(b"\x16\x03\x01\x00\x04\x01\x00\x00\x00");
    assert!(matches!(error, ReadError::Tls(TlsError::Protocol(_))), "{error:?}");
    let error = serve(b"\x16\x03\x01\xff\xff");
    assert!(matches!(error, ReadError::Tls(TlsError::Protocol(_))), "{error:?}");

    let mut hello = Vec::new();
    bare_client(&office, &[b"bifrost/1"], &[&rustls::version::TLS12]).write_tls(&mut hello).unwrap();
    let error = serve(&hello);
    assert!(matches!(error, ReadError::Tls(TlsError::OldVersion)), "{error:?}");
    let mut hello = Vec::new();
    bare_client(&office, &[b"h2", b"http/1.1"], &[&rustls::version::TLS13]).write_tls(&mut hello).unwrap();
    let error = serve(&hello);
    assert!(matches!(error, ReadError::Tls(TlsError::NotBifrost)), "{error:?}");
}

#[test]
fn a_handshake_byte_by_byte_succeeds_and_half_of_one_times_out() {
    let office = Office::new();
    let (listener, _) = listen(office.sign("localhost", |_| {}), Clients::Any);
    let mut hello = Vec::new();
    let mut client = bare_client(&office, &[], &[&rustls::version::TLS13]);
    client.write_tls(&mut hello).unwrap();

    let mut socket = TcpStream::connect(("127.0.0.1", port_of(&listener))).unwrap();
    let mut server = listener.accept().unwrap().unwrap();
    socket.write_all(&hello[..hello.len() / 2]).unwrap();
    let deadline = Instant::now() + Duration::from_millis(50);
    let error = server.read(&mut Vec::new(), 1, deadline).unwrap_err();
    assert!(matches!(error, ReadError::TimedOut) && Instant::now() >= deadline, "{error:?}");
    assert!(!server.is_established() && !server.stopper().is_established());
    assert_eq!(server.try_write(b"early").unwrap(), 0);
    assert_eq!(server.identity(), Identity::None);
    drop(server);

    let mut socket = TcpStream::connect(("127.0.0.1", port_of(&listener))).unwrap();
    socket.set_nodelay(true).unwrap();
    let mut server = listener.accept().unwrap().unwrap();
    let mut into = Vec::new();
    for byte in &hello {
        socket.write_all(&[*byte]).unwrap();
        assert_eq!(server.try_read(&mut into, 10).unwrap(), None);
    }
    client.complete_io(&mut HalfAndHalf(&mut socket, &mut server)).unwrap();
    client.writer().write_all(b"hello").unwrap();
    client.write_tls(&mut socket).unwrap();
    assert_eq!(read_exact(&mut server, 5), b"hello");
    assert!(server.stopper().is_established());
}

/// The socket of a client whose server is this thread's as well.
struct HalfAndHalf<'s>(&'s mut TcpStream, &'s mut Stream);

impl Read for HalfAndHalf<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while self.1.try_read(&mut Vec::new(), 1).map_err(std::io::Error::other)?.is_some() {}
        self.0.read(into)
    }
}

impl Write for HalfAndHalf<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// A client of rustls alone and its server, after the handshake.
fn bare_pair(office: &Office) -> (rustls::ClientConnection, TcpStream, Stream) {
    let (listener, _) = listen(office.sign("localhost", |_| {}), Clients::Any);
    let mut client = bare_client(office, &[b"bifrost/1"], &[&rustls::version::TLS13]);
    let mut socket = TcpStream::connect(("127.0.0.1", port_of(&listener))).unwrap();
    let mut server = listener.accept().unwrap().unwrap();
    client.complete_io(&mut HalfAndHalf(&mut socket, &mut server)).unwrap();
    shake_hands(&mut server);
    (client, socket, server)
}

#[test]
fn a_stream_that_is_cut_off_is_no_clean_end() {
    let office = Office::new();
    for close in [false, true] {
        let (mut client, mut socket, mut server) = bare_pair(&office);
        client.writer().write_all(b"all of it").unwrap();
        if close {
            client.send_close_notify();
        }
        while client.wants_write() {
            client.write_tls(&mut socket).unwrap();
        }
        drop(socket);
        assert_eq!(read_exact(&mut server, 9), b"all of it");
        let end = server.read(&mut Vec::new(), 1, far());
        match close {
            true => assert_eq!(end.unwrap(), 0),
            false => assert!(matches!(end, Err(ReadError::Tls(TlsError::Cut))), "{end:?}"),
        }
        // It stays so.
        assert_eq!(server.read(&mut Vec::new(), 1, far()).is_ok(), close);
    }
    // In the middle of a record.
    let (mut client, mut socket, mut server) = bare_pair(&office);
    client.writer().write_all(&[7; 1000]).unwrap();
    let mut record = Vec::new();
    client.write_tls(&mut record).unwrap();
    socket.write_all(&record[..500]).unwrap();
    drop(socket);
    let error = failure(&mut server);
    assert!(matches!(error, ReadError::Tls(TlsError::Cut)), "{error:?}");
    // A byte was changed on the way.
    let (mut client, mut socket, mut server) = bare_pair(&office);
    client.writer().write_all(&[7; 1000]).unwrap();
    let mut record = Vec::new();
    client.write_tls(&mut record).unwrap();
    record[100] ^= 1;
    socket.write_all(&record).unwrap();
    let error = failure(&mut server);
    assert!(matches!(error, ReadError::Tls(TlsError::Protocol(_))), "{error:?}");
}

#[test]
fn keys_change_but_not_without_end() {
    let office = Office::new();
    let (mut client, mut socket, mut server) = bare_pair(&office);
    for round in 0..3_u8 {
        client.refresh_traffic_keys().unwrap();
        client.writer().write_all(&[round]).unwrap();
        while client.wants_write() {
            client.write_tls(&mut socket).unwrap();
        }
        assert_eq!(read_exact(&mut server, 1), [round]);
        server.write(&[round], far()).unwrap();
        let mut answer = [9];
        while client.reader().read(&mut answer).is_err() {
            client.read_tls(&mut socket).unwrap();
            client.process_new_packets().unwrap();
        }
        assert_eq!(answer, [round]);
    }
    let flooding = std::thread::spawn(move || {
        for _ in 0..100_000 {
            client.refresh_traffic_keys().unwrap();
            while client.wants_write() {
                if client.write_tls(&mut socket).is_err() {
                    return;
                }
            }
        }
        panic!("the server has taken all of it");
    });
    let error = failure(&mut server);
    assert!(matches!(error, ReadError::Tls(TlsError::Protocol(_))), "{error:?}");
    drop(server);
    flooding.join().unwrap();
}

#[test]
fn records_without_content_have_a_limit() {
    use rustls::pki_types::pem::PemObject;
    let office = Office::new();
    let files = office.sign("localhost", |_| {});
    let ending = |tickets: usize| {
        let chain = vec![rustls::pki_types::CertificateDer::from_pem_file(&files.certificate).unwrap()];
        let key = rustls::pki_types::PrivateKeyDer::from_pem_file(&files.key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        config.alpn_protocols = vec![b"bifrost/1".to_vec()];
        config.send_tls13_tickets = tickets;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut server = rustls::ServerConnection::new(Arc::new(config)).unwrap();
            // It ends with an error if the client does not take all tickets.
            let _ = server.complete_io(&mut socket);
            server.send_close_notify();
            while server.wants_write() && server.write_tls(&mut socket).is_ok() {}
        });
        let address = Address::Tls { host: "localhost".to_owned(), port, pin: None };
        let mut client = Stream::connect(&address, &trusting(&office.authority())).unwrap();
        let end = client.read(&mut Vec::new(), 1, far());
        drop(client);
        serving.join().unwrap();
        end
    };
    assert_eq!(ending(2).unwrap(), 0);
    let end = ending(5_000);
    assert!(matches!(end, Err(ReadError::Tls(TlsError::Empty { limit: 131_072 }))), "{end:?}");
}

#[test]
fn a_try_write_keeps_what_it_has_accepted() {
    let (mut client, mut server) = connected("tls");
    let bytes = Numbers(9).bytes(40_000);
    let mut accepted = 0;
    // Until the socket is full, and a little more.
    loop {
        let from = accepted % bytes.len();
        match client.try_write(&bytes[from..]).unwrap() {
            0 => break,
            count => accepted += count,
        }
    }
    assert!(client.wants_write() && !client.try_flush().unwrap());
    let mut received = Vec::new();
    while received.len() < accepted {
        // The reader's half sends what is left, too.
        assert!(client.try_read(&mut Vec::new(), 1).unwrap().is_none());
        match server.try_read(&mut received, usize::MAX).unwrap() {
            Some(count) => assert_ne!(count, 0),
            None => assert!(server.wait_ready(far().unwrap())),
        }
    }
    assert!(!client.wants_write() && client.try_flush().unwrap());
    assert!(received.iter().eq(bytes.iter().cycle().take(accepted)));
}

#[test]
fn a_try_read_that_finds_nothing_leaves_nothing_in_the_socket() {
    let (mut client, mut server) = connected("tls");
    for length in [1, 16_384, 16_385, 100_000] {
        let bytes = Numbers(length as u64).bytes(length);
        client.write(&bytes, far()).unwrap();
        let mut received = Vec::new();
        loop {
            match server.try_read(&mut received, 1000).unwrap() {
                Some(count) => assert!((1..=1000).contains(&count)),
                None if received.len() == length => break,
                None => {
                    assert!(server.stopper().is_silent());
                    assert!(server.wait_ready(far().unwrap()));
                }
            }
        }
        assert!(received == bytes);
    }
}

#[test]
fn halves_read_and_write_at_once() {
    let (client, server) = connected("tls");
    let total = 2 << 20;
    let sides = [client, server].map(|side| {
        let (mut reading, mut writing) = side.split();
        let bytes = Numbers(3).bytes(total);
        let expected = bytes.clone();
        let writes = std::thread::spawn(move || {
            for piece in bytes.chunks(50_000) {
                writing.write(piece, far()).unwrap();
            }
            writing
        });
        let reads = std::thread::spawn(move || {
            let mut received = Vec::new();
            while received.len() < total {
                assert_ne!(reading.read(&mut received, 1 << 16, far()).unwrap(), 0);
            }
            assert!(received == expected);
            reading
        });
        (reads, writes)
    });
    let mut halves = sides.map(|(reads, writes)| (reads.join().unwrap(), writes.join().unwrap()));
    // One half alone keeps the stream; both end it.
    let (mut reading, writing) = (halves[0].0.try_read(&mut Vec::new(), 1), &mut halves[1].1);
    assert!(matches!(reading, Ok(None)));
    writing.write(b"x", far()).unwrap();
    let [mut one, other] = halves;
    drop(other);
    let mut into = Vec::new();
    assert_eq!(one.0.read(&mut into, 1, far()).unwrap(), 1);
    reading = one.0.read(&mut into, 1, far()).map(Some);
    assert!(matches!(reading, Ok(Some(0))), "{reading:?}");
}

#[test]
fn a_server_certificate_of_its_own_is_pinned() {
    let folder = tempfile::tempdir().unwrap();
    let options = self_signed(folder.path());
    let address = Address::Tls { host: "127.0.0.1".to_owned(), port: 0, pin: None };
    let listener = Listener::bind(&address, &options).unwrap();
    let (client, server) = connect(&listener, address_of(&listener, &options), ConnectOptions::default());
    assert!(client.is_ok() && server.is_ok());
    // Without the pin nobody trusts it, and an address has no name in it.
    let error = refused(&listener, listener.local_address().clone(), ConnectOptions::default());
    assert!(matches!(error, TlsError::UnknownAuthority { .. }), "{error:?}");
}
