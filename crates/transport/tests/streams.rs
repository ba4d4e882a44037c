//! The same bytes over every transport; deadlines, stops and ends.

mod common;

use std::time::{Duration, Instant};

use bifrost_transport::{ReadError, Stream, TlsError, WriteError};
use common::{Numbers, STREAMS, connected, far, read_exact, read_to_end, while_asleep};

#[test]
fn echoes_come_back_byte_for_byte() {
    let seed = 1;
    for medium in STREAMS {
        println!("{medium}, seed {seed}");
        let (mut client, mut server) = connected(medium);
        let echo = std::thread::spawn(move || {
            let mut numbers = Numbers(seed + 1);
            loop {
                let mut length = Vec::new();
                while length.len() < 4 {
                    let limit = numbers.below(4 - length.len()) + 1;
                    if server.read(&mut length, limit, far()).unwrap() == 0 {
                        return;
                    }
                }
                let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
                let mut bytes = Vec::new();
                while bytes.len() < length {
                    let limit = numbers.length(14).min(length - bytes.len());
                    let count = server.read(&mut bytes, limit, far()).unwrap();
                    assert!((1..=limit).contains(&count));
                }
                server.write(&bytes, far()).unwrap();
                server.flush();
            }
        });
        let mut numbers = Numbers(seed);
        for round in 0..2000 {
            let length = numbers.length(if round % 50 == 0 { 17 } else { 7 });
            let bytes = numbers.bytes(length);
            client.write(&(length as u32).to_le_bytes(), far()).unwrap();
            let cut = numbers.below(length + 1);
            client.write(&bytes[..cut], far()).unwrap();
            client.write(&bytes[cut..], far()).unwrap();
            client.flush();
            assert!(read_exact(&mut client, length) == bytes, "{medium}, round {round}");
        }
        drop(client);
        echo.join().unwrap();
    }
}

#[test]
fn a_slow_reader_gets_everything_in_order() {
    let seed = 7;
    for medium in STREAMS {
        println!("{medium}, seed {seed}");
        let (mut writer, mut reader) = connected(medium);
        let total = 3 << 20;
        let sent = Numbers(seed).bytes(total);
        let expected = sent.clone();
        let writing = std::thread::spawn(move || {
            let mut numbers = Numbers(seed + 1);
            let mut rest = &sent[..];
            while !rest.is_empty() {
                let count = numbers.length(16).min(rest.len());
                writer.write(&rest[..count], far()).unwrap();
                rest = &rest[count..];
            }
            // Dropped without a flush: the end wakes the reader as well.
        });
        let mut numbers = Numbers(seed + 2);
        let mut received = Vec::new();
        while reader.read(&mut received, numbers.length(16), far()).unwrap() > 0 {}
        assert!(received == expected, "{medium}");
        writing.join().unwrap();
    }
}

#[test]
fn a_read_waits_no_longer_than_its_deadline() {
    for medium in STREAMS {
        let (mut client, mut server) = connected(medium);
        let mut into = vec![1, 2, 3];
        for deadline in [Instant::now(), Instant::now() + Duration::from_millis(20)] {
            let answer = server.read(&mut into, 10, Some(deadline));
            assert!(matches!(answer, Err(ReadError::TimedOut)), "{medium}: {answer:?}");
            assert!(Instant::now() >= deadline);
        }
        assert!(server.try_read(&mut into, 10).unwrap().is_none());
        assert_eq!(into, [1, 2, 3]);
        client.write(b"late", None).unwrap();
        client.flush();
        assert_eq!(read_exact(&mut server, 4), b"late");
        // What is there is read even if the deadline has passed.
        client.write(b"there", None).unwrap();
        client.flush();
        while server.try_read(&mut into, 1).unwrap().is_none() {}
        server.read(&mut into, 10, Some(Instant::now())).unwrap();
        assert_eq!(into, b"\x01\x02\x03there");
    }
}

#[test]
fn a_write_waits_no_longer_than_its_deadline() {
    for medium in STREAMS {
        let (mut client, mut server) = connected(medium);
        let bytes = Numbers(3).bytes(1 << 20);
        let answer = loop {
            if let Err(error) = client.write(&bytes, Some(Instant::now() + Duration::from_millis(20))) {
                break error;
            }
        };
        assert!(matches!(answer, WriteError::TimedOut), "{medium}: {answer:?}");
        drop(client);
        let received = match medium {
            // The last record is cut off, unless there was room for it at last.
            "tls" | "wss" => read_to_any_end(&mut server),
            _ => read_to_end(&mut server),
        };
        let repeated = bytes.iter().cycle().take(received.len());
        assert!(!received.is_empty() && received.iter().eq(repeated), "{medium}");
        if medium == "shm-small" {
            assert_eq!(received.len(), 4096, "a full ring is full");
        }
    }
}

/// Reads until the end, or until the stream is found cut off.
fn read_to_any_end(stream: &mut Stream) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        match stream.read(&mut bytes, usize::MAX, far()) {
            Ok(0) | Err(ReadError::Tls(TlsError::Cut)) => return bytes,
            Ok(_) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[test]
fn a_stop_ends_a_sleeping_read_and_the_stream() {
    for medium in STREAMS {
        let (mut client, mut server) = connected(medium);
        let stopper = server.stopper();
        let reading = move || {
            let first = server.read(&mut Vec::new(), 1, None);
            (first, server)
        };
        let (answer, mut server) = while_asleep(reading, || stopper.stop());
        assert!(matches!(answer, Err(ReadError::Stopped)), "{medium}: {answer:?}");
        assert!(matches!(server.try_read(&mut Vec::new(), 1), Err(ReadError::Stopped)));
        assert!(matches!(server.write(b"x", None), Err(WriteError::Stopped)));
        assert_eq!(client.read(&mut Vec::new(), 1, far()).unwrap(), 0, "{medium}: the peer sees the end");
    }
}

#[test]
fn a_stop_of_reading_leaves_time_for_a_last_word() {
    for medium in STREAMS {
        let (mut client, mut server) = connected(medium);
        let stopper = server.stopper();
        let reading = move || {
            let first = server.read(&mut Vec::new(), 1, None);
            (first, server)
        };
        let (answer, mut server) = while_asleep(reading, || stopper.stop_reading());
        assert!(matches!(answer, Err(ReadError::Stopped)), "{medium}: {answer:?}");
        assert!(matches!(server.try_read(&mut Vec::new(), 1), Err(ReadError::Stopped)));
        server.write(b"farewell", None).unwrap();
        drop(server);
        assert_eq!(read_to_end(&mut client), b"farewell", "{medium}");
    }
}

#[test]
fn a_stop_ends_a_sleeping_write() {
    for medium in STREAMS {
        for deadline in [None, far()] {
            let (client, mut server) = connected(medium);
            let stopper = server.stopper();
            let writing = move || {
                loop {
                    if let Err(error) = server.write(&[7; 1 << 16], deadline) {
                        break error;
                    }
                }
            };
            let answer = while_asleep(writing, || stopper.stop());
            assert!(matches!(answer, WriteError::Stopped), "{medium}: {answer:?}");
            drop(client);
        }
    }
}

#[test]
fn a_close_ends_a_sleeping_read_and_a_sleeping_write() {
    for medium in STREAMS {
        let (client, mut server) = connected(medium);
        let answer = while_asleep(move || server.read(&mut Vec::new(), 1, None).unwrap(), || drop(client));
        assert_eq!(answer, 0, "{medium}");

        let (client, mut server) = connected(medium);
        let writing = move || {
            loop {
                if let Err(error) = server.write(&[7; 1 << 16], None) {
                    break error;
                }
            }
        };
        let answer = while_asleep(writing, || drop(client));
        assert!(matches!(answer, WriteError::Closed), "{medium}: {answer:?}");
    }
}

#[test]
fn bytes_written_before_a_close_are_read_before_the_end() {
    for medium in STREAMS {
        let (mut client, mut server) = connected(medium);
        client.write(&[5; 3000], None).unwrap();
        drop(client);
        assert_eq!(read_to_end(&mut server), [5; 3000], "{medium}");
        assert_eq!(server.try_read(&mut Vec::new(), 1).unwrap(), Some(0), "{medium}: the end stays");
        // A socket notices at the second write at the latest.
        let write =
            |server: &mut Stream| server.write(&[1; 100], far()).and_then(|()| server.write(b"x", far()));
        while write(&mut server).is_ok() {}
        assert!(matches!(write(&mut server), Err(WriteError::Closed)), "{medium}");
    }
}

/// All that a stream had room for, though its listener is gone and no other stream is left. The
/// end of TLS over TCP has no room then, and the reader is told that bytes may be missing.
#[test]
fn many_bytes_written_before_a_close_are_read_before_the_end() {
    for medium in ["shm-small", "shm", "unix", "tcp", "quic"] {
        for _ in 0..5 {
            let (mut client, mut server) = connected(medium);
            let (bytes, mut written) = ([7; 1 << 16], 0);
            while written < 1 << 22 {
                match server.try_write(&bytes).unwrap() {
                    0 => break,
                    count => written += count,
                }
            }
            server.flush();
            drop(server);
            let came = read_to_end(&mut client);
            assert!(came.len() == written && came.iter().all(|byte| *byte == 7), "{medium}: {written}");
        }
    }
}

#[test]
fn a_read_wakes_the_peer_that_it_waits_for() {
    let (mut client, mut server) = Stream::shm_pair(4096, Duration::ZERO).unwrap();
    let answering = move || {
        let asked = read_exact(&mut server, 3);
        server.write(&asked, None).unwrap();
        server.flush();
        server
    };
    let _server = while_asleep(answering, || {
        client.write(b"abc", None).unwrap();
        // No flush here.
        assert_eq!(read_exact(&mut client, 3), b"abc");
    });
}

#[test]
fn pairs_are_streams() {
    let pairs = [Stream::pair(), Stream::shm_pair(4096, Duration::ZERO)];
    for (one, other) in pairs.into_iter().map(Result::unwrap) {
        let [mut one, mut other] = [one, other];
        one.write(b"to and", None).unwrap();
        other.write(b" fro", None).unwrap();
        one.flush();
        other.flush();
        assert_eq!(read_exact(&mut other, 6), b"to and");
        assert_eq!(read_exact(&mut one, 4), b" fro");
        drop(one);
        assert_eq!(other.read(&mut Vec::new(), 1, far()).unwrap(), 0);
    }
}

/// Ping-pongs with sides that sleep at once, spin a little, or spin long, and that take their time at
/// random: any wake-up that is lost ends in the deadline. `BIFROST_TRANSPORT_ROUNDS` makes it longer.
#[test]
fn no_wake_up_is_lost() {
    let rounds = std::env::var("BIFROST_TRANSPORT_ROUNDS").map_or(20_000, |text| text.parse().unwrap());
    for (seed, spin_us) in [(11, 0), (12, 1), (13, 3), (14, 10), (15, 50)] {
        println!("seed {seed}, spin {spin_us} us");
        let (mut client, mut server) = Stream::shm_pair(4096, Duration::from_micros(spin_us)).unwrap();
        let echo = std::thread::spawn(move || {
            let mut numbers = Numbers(seed + 100);
            let mut bytes = Vec::new();
            while server.read(&mut bytes, 100, far()).unwrap() > 0 {
                idle(numbers.length(10));
                server.write(&bytes, far()).unwrap();
                server.flush();
                bytes.clear();
            }
        });
        let mut numbers = Numbers(seed);
        for round in 0..rounds {
            let message = [round as u8; 16];
            client.write(&message, far()).unwrap();
            client.flush();
            idle(numbers.length(10));
            assert_eq!(read_exact(&mut client, 16), message);
        }
        drop(client);
        echo.join().unwrap();
    }
}

/// The same for writers that sleep because the ring is full.
#[test]
fn no_wake_up_of_a_writer_is_lost() {
    for (seed, spin_us) in [(21, 0), (22, 2), (23, 50)] {
        println!("seed {seed}, spin {spin_us} us");
        let (mut client, mut server) = Stream::shm_pair(4096, Duration::from_micros(spin_us)).unwrap();
        let total = 8 << 20;
        let reading = std::thread::spawn(move || {
            let mut numbers = Numbers(seed + 100);
            let (mut bytes, mut count) = (Vec::new(), 0);
            while count < total {
                count += server.read(&mut bytes, numbers.length(13), far()).unwrap();
                bytes.clear();
                idle(numbers.length(8));
            }
        });
        let mut numbers = Numbers(seed);
        let mut left = total;
        while left > 0 {
            let count = numbers.length(13).min(left);
            client.write(&[0; 1 << 13][..count], far()).unwrap();
            left -= count;
        }
        client.flush();
        reading.join().unwrap();
    }
}

fn idle(turns: usize) {
    for _ in 0..turns {
        std::hint::spin_loop();
    }
}

#[test]
fn both_ends_may_send_more_than_the_other_has_read() {
    const BYTES: usize = 6 << 20;
    /// Sends and reads in turn, as far as there is room and bytes are there.
    fn exchange(mut stream: Stream, byte: u8, other: u8) {
        let (sent, mut left) = (vec![byte; BYTES], BYTES);
        let mut came = Vec::new();
        while left > 0 || came.len() < BYTES {
            // Once all was sent, the other end may have read it, and closed.
            let written = if left > 0 { stream.try_write(&sent[..left]).unwrap() } else { 0 };
            left -= written;
            let read = stream.try_read(&mut came, 1 << 16).unwrap();
            assert_ne!(read, Some(0), "the end came early");
            if left > 0 && written == 0 && read.is_none() {
                assert!(stream.wait_ready(Instant::now() + Duration::from_secs(60)));
            } else if left == 0 && read.is_none() && came.len() < BYTES {
                stream.read(&mut came, 1 << 16, far()).unwrap();
            }
        }
        assert!(came.len() == BYTES && came.iter().all(|found| *found == other));
    }
    for medium in STREAMS {
        println!("{medium}");
        let (one, two) = connected(medium);
        assert_eq!(one.socket().is_some(), !medium.starts_with("shm"));
        let there = std::thread::spawn(move || exchange(two, 2, 1));
        exchange(one, 1, 2);
        there.join().unwrap();
    }
}

/// A writer that waits for room goes on as soon as there is some, though the reader says nothing
/// else: a window that has moved is told by itself.
#[test]
fn a_reader_that_begins_late_and_reads_little_lets_the_writer_go_on() {
    const BYTES: usize = 6 << 20;
    for medium in STREAMS {
        println!("{medium}");
        let (mut one, mut two) = connected(medium);
        let writer = std::thread::spawn(move || {
            one.write(&vec![7; BYTES], far()).unwrap();
            one.flush();
            one
        });
        // By then it waits, and all that has room has arrived.
        std::thread::sleep(Duration::from_millis(100));
        let (start, mut came) = (Instant::now(), Vec::new());
        while came.len() < BYTES {
            two.read(&mut came, 4096, far()).unwrap();
        }
        assert!(start.elapsed() < Duration::from_secs(8), "{medium}: {:?}", start.elapsed());
        assert!(came.iter().all(|byte| *byte == 7));
        writer.join().unwrap();
    }
}

#[test]
fn a_wait_for_either_direction_ends_at_its_deadline() {
    for medium in STREAMS {
        println!("{medium}");
        let (mut one, _two) = connected(medium);
        while one.try_write(&[0; 1 << 16]).unwrap() > 0 {}
        let start = Instant::now();
        while one.wait_ready(start + Duration::from_millis(50)) {
            assert!(start.elapsed() < Duration::from_secs(60), "it never ends");
            // The peer of QUIC takes some bytes before they are read.
            one.try_write(&[0; 1 << 16]).unwrap();
        }
        assert!(start.elapsed() >= Duration::from_millis(45), "{:?}", start.elapsed());
    }
}
