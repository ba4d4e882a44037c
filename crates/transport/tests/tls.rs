//! Streams over TLS: handshakes, records, peers that misbehave, idle connections.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_transport::{
    Address, Clients, ConnectError, ConnectOptions, Identity, ReadError, Stream, TlsError, WriteError,
};
use common::office::{Office, listen, port_of, trusting};
use common::{Numbers, connected, far, read_exact, shake_hands};
use rustls::pki_types::ServerName;

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
