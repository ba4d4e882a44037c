//! [`Office`]: listeners over QUIC, and clients and sessions of them.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use bifrost_transport::{Address, ConnectOptions, ListenOptions, Listener, QuicLimits, Stream};

use super::{address_of, far, read_exact, self_signed};

/// Nothing here takes longer, on a busy machine either.
pub const SOON: Duration = Duration::from_secs(30);

/// A listener with a certificate of its own.
pub struct Office {
    // Dropped after the listener.
    _folder: tempfile::TempDir,
    pub listener: Listener,
    pub options: ListenOptions,
}

impl Office {
    pub fn new() -> Office {
        Office::with(QuicLimits { handshakes_per_second: 1000, ..QuicLimits::default() })
    }

    pub fn with(quic: QuicLimits) -> Office {
        let folder = tempfile::tempdir().unwrap();
        let options = ListenOptions { quic, ..self_signed(folder.path()) };
        let listener = Listener::bind(&any(0), &options).unwrap();
        Office { _folder: folder, listener, options }
    }

    pub fn address(&self) -> Address {
        address_of(&self.listener, &self.options)
    }

    /// The address with another port: that of a proxy.
    pub fn through(&self, port: u16) -> Address {
        any(port).with_pin(self.options.tls.as_ref().unwrap().pin())
    }

    pub fn socket(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.listener.local_address().port().unwrap()))
    }

    /// A client and its stream here; the first byte was read.
    pub fn pair(&self, address: &Address) -> (Stream, Stream) {
        let mut client = connect(address);
        say(&mut client, b"?");
        let mut server = loop {
            // Streams of clients that went without a byte have ended.
            let (mut server, mut first) = (self.listener.accept().unwrap().unwrap(), Vec::new());
            if server.read(&mut first, 1, far()).unwrap() > 0 {
                assert_eq!(first, b"?");
                break server;
            }
        };
        say(&mut server, b"!");
        assert_eq!(read_exact(&mut client, 1), b"!");
        (client, server)
    }
}

pub fn any(port: u16) -> Address {
    Address::Quic { host: "127.0.0.1".to_owned(), port, pin: None }
}

pub fn connect(address: &Address) -> Stream {
    Stream::connect(address, &ConnectOptions { timeout: SOON, ..ConnectOptions::default() }).unwrap()
}

pub fn say(stream: &mut Stream, bytes: &[u8]) {
    stream.write(bytes, far()).unwrap();
    stream.flush();
}

/// Echoes until its client ends.
pub fn echo(mut server: Stream) {
    let mut bytes = Vec::new();
    while server.read(&mut bytes, 1 << 16, far()).unwrap() > 0 {
        say(&mut server, &bytes);
        bytes.clear();
    }
}

/// The first datagram of a client.
pub fn first_datagram(office: &Office) -> Vec<u8> {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = office.through(silent.local_addr().unwrap().port());
    let options = ConnectOptions { timeout: Duration::from_millis(50), ..ConnectOptions::default() };
    assert!(Stream::connect(&address, &options).is_err());
    let mut bytes = vec![0; 65_536];
    let (length, _) = silent.recv_from(&mut bytes).unwrap();
    bytes.truncate(length);
    bytes
}
