//! Streams over websockets: frames of peers that keep and break the rules, pings, requests that fail.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bifrost_transport::{
    Address, CONTROL_FRAMES_PER_SECOND_MAX, ConnectError, ConnectOptions, ListenOptions, Listener,
    MESSAGE_BYTES_MAX, ReadError, Stream, WebError, WriteError,
};
use common::{Numbers, connected, far, open_websocket, read_exact};

const BINARY: u8 = 0x82;
const CONTINUED: u8 = 0x02;
const LAST: u8 = 0x80;
const TEXT: u8 = 0x81;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;

/// A frame as clients send it.
fn masked(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let mask = [7, 1, 255, 128];
    let mut frame = head(kind, 0x80, bytes.len());
    frame.extend(mask);
    frame.extend(bytes.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// A frame as servers send it.
fn plain(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [head(kind, 0, bytes.len()), bytes.to_vec()].concat()
}

fn head(kind: u8, masked: u8, length: usize) -> Vec<u8> {
    match length {
        0..126 => vec![kind, masked | length as u8],
        126..65536 => [&[kind, masked | 126][..], &(length as u16).to_be_bytes()].concat(),
        _ => [&[kind, masked | 127][..], &(length as u64).to_be_bytes()].concat(),
    }
}

/// A bare socket on which a websocket is open, and the server's end of it.
fn opened() -> (TcpStream, Stream) {
    let address = Address::Ws { host: "127.0.0.1".to_owned(), port: 0, path: "/".into() };
    let listener = Listener::bind(&address, &ListenOptions::default()).unwrap();
    let mut client = TcpStream::connect(("127.0.0.1", listener.local_address().port().unwrap())).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    client
        .write_all(
            b"GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
            Sec-WebSocket-Protocol: bifrost.1\r\n\r\n",
        )
        .unwrap();
    let mut server = listener.accept().unwrap().unwrap();
    assert!(server.describe_peer().starts_with("ws 127.0.0.1:"));
    open_websocket(&mut server, Vec::new());
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    let answer = String::from_utf8(answer).unwrap();
    // The key of RFC 6455, section 1.3, and its answer.
    assert!(answer.to_lowercase().contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{answer}");
    (client, server)
}

fn expect(client: &mut TcpStream, frame: &[u8]) {
    let mut read = vec![0; frame.len()];
    client.read_exact(&mut read).unwrap();
    assert_eq!(read, frame);
}

/// The code and the words of the close frame that comes next, and the end.
fn closed(client: &mut TcpStream) -> (u16, String) {
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest);
    let at = rest.iter().position(|byte| *byte == CLOSE).expect("a close frame");
    let content = &rest[at + 2..][..usize::from(rest[at + 1])];
    (u16::from_be_bytes([content[0], content[1]]), String::from_utf8(content[2..].to_vec()).unwrap())
}

/// Sends bytes, and returns the failure that the server finds, and the close that the client gets.
fn failure(bytes: &[u8]) -> (WebError, u16, String) {
    let (mut client, mut server) = opened();
    // The server may close before all is written.
    let _ = client.write_all(bytes);
    let mut read = Vec::new();
    let error = loop {
        match server.read(&mut read, 1 << 20, far()) {
            Ok(count) => assert!(count > 0, "the stream ended without a failure"),
            Err(ReadError::Web(error)) => break error,
            Err(other) => panic!("{other:?}"),
        }
    };
    // It stays so, and nothing more is sent.
    assert!(matches!(server.try_read(&mut read, 1), Err(ReadError::Web(again)) if again == error));
    assert!(matches!(server.write(b"x", far()), Err(WriteError::Closed)));
    let reading = std::thread::spawn(move || closed(&mut client));
    drop(server);
    let (code, words) = reading.join().unwrap();
    assert_eq!(words, error.to_string().chars().take(120).collect::<String>());
    (error, code, words)
}

#[test]
fn the_borders_of_messages_mean_nothing() {
    let (mut client, mut server) = opened();
    let long = vec![5; 70_000];
    for frame in [masked(BINARY, b"he"), masked(BINARY, b""), masked(BINARY, b"llo"), masked(BINARY, &long)] {
        client.write_all(&frame).unwrap();
    }
    assert_eq!(read_exact(&mut server, 5), b"hello");
    assert_eq!(read_exact(&mut server, long.len()), long);
}

#[test]
fn fragments_are_one_message_and_pings_are_answered() {
    let (mut client, mut server) = opened();
    let frames = [
        masked(CONTINUED, b"one "),
        masked(PING, b"there?"),
        masked(0, b"message"),
        masked(LAST, b" in three frames"),
    ];
    let bytes = frames.concat();
    let (last, before) = bytes.split_last().unwrap();
    for byte in before {
        client.write_all(&[*byte]).unwrap();
        assert_eq!(server.try_read(&mut Vec::new(), 1).unwrap(), None);
    }
    client.write_all(&[*last]).unwrap();
    assert_eq!(read_exact(&mut server, 27), b"one message in three frames");
    expect(&mut client, &plain(PONG, b"there?"));
    server.write(b"answer", far()).unwrap();
    expect(&mut client, &plain(BINARY, b"answer"));
}

#[test]
fn peers_that_break_the_rules_are_told_why() {
    let long = vec![0; MESSAGE_BYTES_MAX + 1];
    // A frame that claims too much is refused by its head alone.
    let claims = [head(BINARY, 0x80, usize::MAX >> 1), vec![0; 4]].concat();
    let halves = [masked(CONTINUED, &long[1..]), masked(LAST, b"x")].concat();
    for bytes in [masked(BINARY, &long), claims, halves] {
        let (error, code, words) = failure(&bytes);
        assert_eq!((error, code), (WebError::TooLong, 1009));
        assert!(words.contains("1048576 bytes"), "{words}");
    }
    let (error, code, words) = failure(&masked(TEXT, b"hello 2\n"));
    assert_eq!((error, code), (WebError::Text, 1003));
    assert!(words.contains("send binary messages"), "{words}");
    let reserved = 0x40 | BINARY;
    let wrong = [
        plain(BINARY, b"not masked"),
        masked(reserved, b"compressed"),
        masked(0x83, b"no such kind"),
        masked(0x8b, b"no such control"),
        masked(PING, &[0; 126]),
        masked(0x09, b"a ping in fragments"),
        masked(LAST, b"goes on with nothing"),
        [masked(CONTINUED, b"begins"), masked(BINARY, b"and begins")].concat(),
        masked(CLOSE, b"x"),
    ];
    for bytes in wrong {
        let (error, code, _) = failure(&bytes);
        assert!(matches!(error, WebError::Protocol(_)), "{error:?}");
        assert_eq!(code, 1002, "{error}");
    }
}

#[test]
fn what_came_before_a_fault_is_read() {
    let (mut client, mut server) = opened();
    client.write_all(&[masked(BINARY, b"good"), plain(BINARY, b"bad")].concat()).unwrap();
    assert_eq!(read_exact(&mut server, 4), b"good");
    assert!(matches!(server.read(&mut Vec::new(), 1, far()), Err(ReadError::Web(WebError::Protocol(_)))));
}

#[test]
fn a_flood_of_frames_without_content_ends_the_stream() {
    for frame in [masked(PING, b""), masked(PONG, b"x"), masked(BINARY, b"")] {
        let flood = frame.repeat(2 * CONTROL_FRAMES_PER_SECOND_MAX as usize + 1);
        let (error, code, _) = failure(&flood);
        assert_eq!((error, code), (WebError::Flood, 1008));
    }
    let (mut client, mut server) = opened();
    let many = masked(PING, b"").repeat(CONTROL_FRAMES_PER_SECOND_MAX as usize / 2);
    client.write_all(&[many, masked(BINARY, b"x")].concat()).unwrap();
    assert_eq!(read_exact(&mut server, 1), b"x");
}

#[test]
fn a_close_is_answered_and_is_the_end() {
    let (mut client, mut server) = opened();
    client.write_all(&[masked(BINARY, b"last"), masked(CLOSE, &1001u16.to_be_bytes())].concat()).unwrap();
    assert_eq!(read_exact(&mut server, 4), b"last");
    assert_eq!(server.read(&mut Vec::new(), 1, far()).unwrap(), 0);
    assert_eq!(server.read(&mut Vec::new(), 1, far()).unwrap(), 0);
    drop(server);
    assert_eq!(closed(&mut client).0, 1001);
    // A server that ends says so.
    let (mut client, server) = opened();
    drop(server);
    assert_eq!(closed(&mut client), (1000, String::new()));
    // A client that is cut off.
    let (client, mut server) = opened();
    drop(client);
    assert_eq!(server.read(&mut Vec::new(), 1, far()).unwrap(), 0);
    // A stop.
    let (mut client, mut server) = opened();
    let stopper = server.stopper();
    let reading = std::thread::spawn(move || server.read(&mut Vec::new(), 1, far()));
    stopper.stop();
    assert!(matches!(reading.join().unwrap(), Err(ReadError::Stopped)));
    assert_eq!(closed(&mut client).0, 1000);
}

#[test]
fn random_frames_are_read_or_refused() {
    let mut refused = 0;
    for seed in 0..400 {
        let mut numbers = Numbers(seed);
        let (mut client, mut server) = opened();
        let mut bytes = Vec::new();
        for _ in 0..numbers.below(20) + 1 {
            let kind = match numbers.below(8) {
                0 => numbers.below(256) as u8,
                1 => PING,
                2 => CONTINUED,
                3 => 0,
                4 => LAST,
                _ => BINARY,
            };
            let content_length = numbers.below(300);
            let content = numbers.bytes(content_length);
            bytes.extend(masked(kind, &content));
        }
        for _ in 0..numbers.below(3) {
            let at = numbers.below(bytes.len());
            bytes[at] ^= 1 << numbers.below(8);
        }
        // The server may have closed before.
        let _ = client.write_all(&bytes);
        let _ = client.shutdown(std::net::Shutdown::Write);
        let mut read = Vec::new();
        loop {
            match server.read(&mut read, 1 + numbers.below(1000), far()) {
                Ok(0) => break,
                Ok(_) => assert!(read.len() <= bytes.len(), "seed {seed}"),
                Err(ReadError::Web(_)) => {
                    refused += 1;
                    break;
                }
                Err(error) => panic!("seed {seed}: {error:?}"),
            }
        }
    }
    assert!((20..400).contains(&refused), "{refused}");
}

#[test]
fn a_ping_is_not_sent_before_its_time() {
    let (_client, mut server) = opened();
    let next = server.beat().unwrap().unwrap();
    let left = next.duration_since(Instant::now());
    assert!(left > Duration::from_secs(20) && left <= bifrost_transport::PING_EVERY, "{left:?}");
    let (_client, mut server) = connected("tcp");
    assert_eq!(server.beat().unwrap(), None);
}

/// Answers the request of one client with these bytes, and closes.
fn failed(answer: &'static [u8]) -> ConnectError {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("ws://{}/some/path", listener.local_addr().unwrap()).parse().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = vec![0; 4096];
        let count = client.read(&mut request).unwrap();
        client.write_all(answer).unwrap();
        String::from_utf8(request[..count].to_vec()).unwrap()
    });
    let options = ConnectOptions { timeout: Duration::from_secs(5), ..ConnectOptions::default() };
    let error = Stream::connect(&address, &options).unwrap_err();
    let request = thread.join().unwrap();
    assert!(request.starts_with("GET /some/path HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("Sec-WebSocket-Protocol: bifrost.1\r\n"), "{request}");
    error
}

#[test]
fn servers_of_other_kinds_are_told_apart() {
    let web = |error| match error {
        ConnectError::Web { source, .. } => *source,
        other => panic!("{other:?}"),
    };
    let error = web(failed(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 14\r\n\r\nnot for you\x07\nx"));
    assert_eq!(error, WebError::Refused { status: 403, text: "not for you".to_owned() });
    let error = web(failed(b"HTTP/1.1 200 OK\r\n\r\n<html>"));
    assert_eq!(error.to_string(), "the server refused the websocket with status 200: <html>");
    assert!(matches!(web(failed(b"bifrost 1\n")), WebError::NotWeb(_)));
    // Another server of websockets: it is none that knows the protocol.
    let wrong_key = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    assert!(matches!(web(failed(wrong_key)), WebError::NotWeb(_)));
    assert!(matches!(failed(b""), ConnectError::Closed { .. } | ConnectError::Web { .. }));
    // One that says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("ws://{}", silent.local_addr().unwrap()).parse().unwrap();
    let short = ConnectOptions { timeout: Duration::from_millis(100), ..ConnectOptions::default() };
    let error = Stream::connect(&address, &short).unwrap_err();
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error:?}");
}
