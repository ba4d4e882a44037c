//! Streams over QUIC.

mod common;

use bifrost_transport::{Address, ConnectOptions, Listener, Stream};
use common::{address_of, self_signed};

#[test]
fn hello() {
    let directory = tempfile::tempdir().unwrap();
    let options = self_signed(directory.path());
    let any = Address::Quic { host: "127.0.0.1".to_owned(), port: 0, pin: None };
    let listener = Listener::bind(&any, &options).unwrap();
    let address = address_of(&listener, &options);
    let client = Stream::connect(&address, &ConnectOptions::default());
    println!("{client:?}");
    client.unwrap();
}
