//! Peers of `bifrost bench echo` over QUIC: `echo-rust quinn-proto|quinn serve ADDRESS`,
//! `echo-rust quinn-proto|quinn client WHERE`, `echo-rust quinn-proto|quinn version`.
//!
//! The README of `bench/echo` has the lines that they read and print. [`message`] has the form of a
//! message, [`machine`] the state machine of quinn-proto with one thread, [`tokio_side`] quinn.

mod certificate;
mod machine;
mod message;
mod tokio_side;

pub type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["quinn-proto", "serve", address] => machine::serve(address),
        ["quinn-proto", "client", place] => machine::client(place),
        ["quinn", "serve", address] => tokio_side::serve(address),
        ["quinn", "client", place] => tokio_side::client(place),
        ["quinn-proto" | "quinn", "version"] => {
            println!("{}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        _ => Err("usage: echo-rust quinn-proto|quinn serve ADDRESS | client WHERE | version".into()),
    }
}
