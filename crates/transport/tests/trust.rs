//! Trust over TLS: authorities, names, pins, certificates of clients, files, and what is told when it fails.

mod common;

use std::path::Path;

use bifrost_transport::{
    Address, Clients, ConnectError, ConnectOptions, Identity, KeyFiles, ListenError, ListenOptions, Listener,
    Pin, ReadError, Stream, TlsError, TlsOptions, TlsServer,
};
use common::office::{Office, connect, listen, localhost, refused, trusting};
use common::{address_of, far, open_websocket, read_exact, self_signed, shake_hands};

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
