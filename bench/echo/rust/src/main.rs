//! Peers of `bifrost bench echo` over QUIC: `echo-rust quinn-proto|quinn serve ADDRESS`,
//! `echo-rust quinn-proto|quinn client WHERE`, `echo-rust quinn-proto|quinn version`. Behind
//! `quinn-proto` the most bytes of a datagram may stand: `--mtu 65000`.
//!
//! The README of `bench/echo` has the lines that they read and print. [`message`] has the form of a
//! message, [`machine`] the state machine of quinn-proto with one thread, [`quinn_side`] quinn.

mod certificate;
mod machine;
mod message;
mod quinn_side;

use message::Failed;

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["quinn-proto", "serve", address] => machine::serve(address, None),
        ["quinn-proto", "client", place] => machine::client(place, None),
        ["quinn-proto", "--mtu", mtu, "serve", address] => machine::serve(address, Some(mtu.parse()?)),
        ["quinn-proto", "--mtu", mtu, "client", place] => machine::client(place, Some(mtu.parse()?)),
        ["quinn", "serve", address] => quinn_side::serve(address),
        ["quinn", "client", place] => quinn_side::client(place),
        [name @ ("quinn-proto" | "quinn"), "version"] => message::say(&version(name)),
        _ => Err("usage: echo-rust quinn-proto|quinn serve ADDRESS | client WHERE | version".into()),
    }
}

/// Returns the name and version of a package, as `Cargo.lock` has it.
fn version(name: &str) -> String {
    let heading = format!("name = \"{name}\"\nversion = \"");
    let found = include_str!("../Cargo.lock").split_once(&heading).and_then(|(_, rest)| rest.split_once('"'));
    format!("{name} {}", found.map_or("?", |(version, _)| version))
}
