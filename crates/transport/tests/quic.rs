//! Streams over QUIC: calls and their states, losses, peers that start again, hostile datagrams.

mod common;
#[allow(dead_code)]
#[path = "../../cli/src/bench/echo/proxy.rs"]
mod proxy;

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use bifrost_transport::{
    Address, CallState, Clients, ConnectError, ConnectOptions, Identity, LinkError, ListenOptions, Listener,
    QuicLimits, Ran, ReadError, Stream, TlsError, TlsServer,
};
use common::quic::{Office, SOON, any, connect, echo, first_datagram, say};
use common::{address_of, far, read_exact, read_to_end};
use proxy::{Proxy, Weather};

/// Waits until the server has told so much of the call that waits.
fn wait_for(client: &Stream, wanted: CallState) {
    let (watch, start) = (client.watch().unwrap(), Instant::now());
    loop {
        let call = watch.call().expect("a call waits");
        if call.state == Some(wanted) {
            return;
        }
        assert!(start.elapsed() < SOON, "{call:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The loss of a stream of a client.
fn lost(client: &mut Stream) -> (LinkError, Ran) {
    match client.read(&mut Vec::new(), 100, Instant::now() + SOON) {
        Err(ReadError::Lost { why, ran }) => (why, ran),
        other => panic!("{other:?}"),
    }
}

#[test]
fn calls_have_states_while_they_wait() {
    let office = Office::new();
    let (mut client, mut server) = office.pair(&office.address());
    let watch = client.watch().unwrap();
    assert_eq!(watch.call(), None);
    assert!(server.watch().unwrap().call().is_none());
    say(&mut client, b"call");
    assert_eq!(watch.call().unwrap().bytes, 1..5);
    wait_for(&client, CallState::Arrived);
    assert_eq!(read_exact(&mut server, 2), b"ca");
    wait_for(&client, CallState::Begun);
    assert_eq!(read_exact(&mut server, 2), b"ll");
    say(&mut server, b"answer");
    assert_eq!(read_exact(&mut client, 6), b"answer");
    assert_eq!(watch.call(), None);
    // A call behind bytes that were not read: it waits for them.
    say(&mut client, b"one");
    wait_for(&client, CallState::Arrived);
    assert_eq!(watch.call().unwrap().before, 0);
}

#[test]
fn a_call_that_is_never_read_has_not_run() {
    let office = Office::new();
    for (read, ran) in [(0, Ran::No), (1, Ran::Began), (4, Ran::Began)] {
        let (mut client, mut server) = office.pair(&office.address());
        say(&mut client, b"call");
        wait_for(&client, CallState::Arrived);
        assert_eq!(read_exact(&mut server, read).len(), read);
        drop(server);
        let (why, told) = lost(&mut client);
        assert_eq!(
            (&why, told),
            (&LinkError::Ended("the server has ended the session".into()), ran),
            "{read}"
        );
        // It says so again, and takes no more.
        assert_eq!(lost(&mut client).1, ran);
        assert!(client.write(b"more", far()).is_err());
    }
}

#[test]
fn the_end_of_a_stream_without_a_call_is_an_end() {
    let office = Office::new();
    let (mut client, server) = office.pair(&office.address());
    drop(server);
    assert_eq!(read_to_end(&mut client), b"");
    let (client, mut server) = office.pair(&office.address());
    drop(client);
    assert_eq!(read_to_end(&mut server), b"");
}

#[test]
fn streams_of_a_process_share_a_connection() {
    let office = Office::new();
    let mut proxy = Proxy::start(office.socket(), Weather::default()).unwrap();
    let address = office.through(proxy.address().port());
    let mut pairs: Vec<_> = (0..50).map(|_| office.pair(&address)).collect();
    // One socket of the proxy for all of them: they go on when it moves.
    proxy.move_client().unwrap();
    for (client, server) in &mut pairs {
        say(client, b"on");
        assert_eq!(read_exact(server, 2), b"on");
        say(server, b"and on");
        assert_eq!(read_exact(client, 6), b"and on");
    }
    assert_eq!(pairs[0].1.describe_peer(), pairs[49].1.describe_peer());
}

#[test]
fn all_bytes_arrive_through_bad_networks() {
    let ms = Duration::from_millis;
    let bad = |loss, delay| Weather { loss, delay, repeat: 0.05, reorder: 0.05, damage: 0.02, seed: 7 };
    for (number, weather) in
        [bad(0.01, ms(1)), bad(0.05, ms(1)), bad(0.3, ms(1)), bad(0.05, ms(50))].into_iter().enumerate()
    {
        let office = Office::new();
        let mut proxy = Proxy::start(office.socket(), weather).unwrap();
        let address = office.through(proxy.address().port());
        let (mut client, server) = office.pair(&address);
        let echoing = std::thread::spawn(move || echo(server));
        let mut random = fastrand::Rng::with_seed(number as u64);
        for round in 0..40 {
            let length = if round % 8 == 7 { random.usize(1..100_000) } else { random.usize(1..200) };
            let bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            say(&mut client, &bytes);
            assert!(read_exact(&mut client, length) == bytes, "{weather:?} {round}");
            if round == 20 {
                proxy.move_client().unwrap();
            }
        }
        drop(client);
        echoing.join().unwrap();
        let lost = proxy.counts().lost.load(std::sync::atomic::Ordering::Relaxed);
        assert!(lost > 0, "{weather:?}");
    }
}

#[test]
fn wrong_keys_and_no_server_are_told_with_a_remedy() {
    let (office, other) = (Office::new(), Office::new());
    let wrong = any(office.socket().port()).with_pin(other.options.tls.as_ref().unwrap().pin());
    let options = ConnectOptions::default();
    match Stream::connect(&wrong, &options) {
        Err(ConnectError::Tls { source, .. }) => assert!(matches!(*source, TlsError::WrongPin { .. })),
        other => panic!("{other:?}"),
    }
    match Stream::connect(&any(office.socket().port()), &options) {
        Err(ConnectError::Tls { source, .. }) => {
            assert!(matches!(*source, TlsError::UnknownAuthority { .. }), "{source}");
        }
        other => panic!("{other:?}"),
    }
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let nobody = office.through(silent.local_addr().unwrap().port());
    let start = Instant::now();
    let short = ConnectOptions { timeout: Duration::from_millis(300), ..options };
    assert!(matches!(Stream::connect(&nobody, &short), Err(ConnectError::TimedOut { .. })));
    assert!(start.elapsed() < SOON);
}

#[test]
fn a_listener_without_a_certificate_is_refused() {
    let refused = Listener::bind(&any(0), &ListenOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("needs a certificate"), "{refused}");
}

#[test]
fn peers_have_no_identity_without_a_certificate() {
    let office = Office::new();
    let (client, server) = office.pair(&office.address());
    assert!(matches!(client.identity(), Identity::Certificate { .. }));
    assert_eq!(server.identity(), Identity::None);
    assert!(server.describe_peer().starts_with("quic 127.0.0.1:"));
    assert_eq!(server.peer_ip().unwrap().to_string(), "127.0.0.1");
}

#[test]
fn datagrams_of_strangers_disturb_nobody() {
    let office = Office::new();
    let (mut client, mut server) = office.pair(&office.address());
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..3_000_u32 {
        let length = random.usize(0..1500);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        // Some look like the first packet of version 1.
        if round % 3 == 0 && length > 30 {
            bytes[..5].copy_from_slice(&[0xc0 | random.u8(0..16), 0, 0, 0, 1]);
            bytes[5] = 8;
        }
        let _ = stranger.send_to(&bytes, office.socket());
        if round % 500 == 0 {
            say(&mut client, b"still");
            assert_eq!(read_exact(&mut server, 5), b"still");
            say(&mut server, b"here");
            assert_eq!(read_exact(&mut client, 4), b"here");
        }
    }
    office.pair(&office.address());
}

#[test]
fn networks_that_begin_too_many_handshakes_are_not_answered() {
    let office = Office::with(QuicLimits { handshakes_per_second: 3, ..QuicLimits::default() });
    let mut proxies = Vec::new();
    let mut refused = 0;
    for _ in 0..8 {
        // Each address of a server is a connection of its own.
        let proxy = Proxy::start(office.socket(), Weather::default()).unwrap();
        let address = office.through(proxy.address().port());
        let options = ConnectOptions { timeout: Duration::from_millis(50), ..ConnectOptions::default() };
        refused += u32::from(Stream::connect(&address, &options).is_err());
        proxies.push(proxy);
    }
    assert!(refused > 0, "none of eight");
    // A second later there is room again: clients repeat their first packet until then.
    office.pair(&office.address());
}

#[test]
fn half_done_handshakes_do_not_keep_others_out() {
    let limits = QuicLimits { handshakes_max: 4, handshakes_per_second: 1000, ..QuicLimits::default() };
    let office = Office::with(limits);
    // Proxies that carry the first packets only: their clients never end the handshake.
    let blocked: Vec<_> = (0..8)
        .map(|seed| {
            let weather = Weather { loss: 0.5, seed, ..Weather::default() };
            let proxy = Proxy::start(office.socket(), weather).unwrap();
            let address = office.through(proxy.address().port());
            std::thread::spawn(move || {
                let options = ConnectOptions { timeout: Duration::from_secs(2), ..ConnectOptions::default() };
                let _ = Stream::connect(&address, &options);
                drop(proxy);
            })
        })
        .collect();
    // It shows that it receives at its address, and is let in.
    let start = Instant::now();
    office.pair(&office.address());
    assert!(start.elapsed() < SOON);
    blocked.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_handshake_that_never_goes_on_makes_room_again() {
    let handshake_time = Duration::from_millis(500);
    let limits = QuicLimits { connections_max: 1, handshake_time, ..QuicLimits::default() };
    let office = Office::with(limits);
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.set_read_timeout(Some(SOON)).unwrap();
    stranger.send_to(&first_datagram(&office), office.socket()).unwrap();
    // The server has begun its part of it.
    stranger.recv_from(&mut [0; 65_536]).unwrap();
    let begun = Instant::now();
    let options = ConnectOptions { timeout: SOON, ..ConnectOptions::default() };
    let refused = Stream::connect(&office.address(), &options);
    match refused {
        Err(ConnectError::Quic { source, .. }) => {
            assert!(matches!(*source, LinkError::Refused(_)), "{source}")
        }
        other => panic!("{other:?}"),
    }
    while let Err(error) = Stream::connect(&office.address(), &options) {
        assert!(begun.elapsed() < SOON, "{error}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let took = begun.elapsed();
    assert!((handshake_time / 2..Duration::from_secs(10)).contains(&took), "{took:?}");
}

#[test]
fn a_slow_reader_holds_its_own_stream_back_alone() {
    let office = Office::new();
    let (mut slow, slow_server) = office.pair(&office.address());
    let (mut quick, quick_server) = office.pair(&office.address());
    let echoing = std::thread::spawn(move || echo(quick_server));
    // More than all windows of a stream: nobody reads.
    let written = slow.write(&vec![5; 32 << 20], Instant::now() + Duration::from_millis(500));
    assert!(written.is_err());
    for _ in 0..20 {
        say(&mut quick, b"quick");
        assert_eq!(read_exact(&mut quick, 5), b"quick");
    }
    drop((slow, slow_server, quick));
    echoing.join().unwrap();
}

#[test]
fn names_of_a_server_are_told_if_an_authority_vouches_for_them() {
    let authority = common::office::Office::new();
    let tls = TlsServer::load(authority.sign("localhost", |_| {}), Clients::Any).unwrap();
    let options = ListenOptions { tls: Some(tls), ..ListenOptions::default() };
    let listener = Listener::bind(&any(0), &options).unwrap();
    let port = listener.local_address().port().unwrap();
    let by_name: Address = format!("quic://localhost:{port}").parse().unwrap();
    let client = Stream::connect(&by_name, &common::office::trusting(&authority.authority())).unwrap();
    assert!(
        matches!(client.identity(), Identity::Certificate { names, .. } if names == ["dns:localhost"]),
        "{client:?}"
    );
    // A pin vouches for a key alone.
    let client = connect(&address_of(&listener, &options));
    assert!(matches!(client.identity(), Identity::Certificate { names, .. } if names.is_empty()));
}
