//! Peers of `bifrost bench echo` over QUIC: `echo-rust NAME serve ADDRESS`, `echo-rust NAME client
//! WHERE`, `echo-rust NAME version`, where NAME is `quinn-proto` or `quinn`. Settings may stand
//! behind the name: `--mtu 65000`, `--ack-delay-us 1000`.
//!
//! `echo-rust net ...` is a [network](net) that loses packets.
//!
//! The README of `bench/echo` has the lines that they read and print. [`message`] has the form of a
//! message, [`machine`] the state machine of quinn-proto with one thread, [`quinn_side`] quinn.

mod machine;
mod message;
mod net;
#[allow(dead_code, reason = "the command drives a proxy with it")]
#[path = "../../../../crates/cli/src/bench/echo/proxy.rs"]
mod proxy;
mod quinn_side;
mod settings;

use message::Failed;
use settings::Tuning;

const USAGE: &str =
    "usage: echo-rust quinn-proto|quinn [SETTING VALUE]... serve ADDRESS | client WHERE | version";

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["net", weather @ ..] = &words[..] {
        return net::run(weather);
    }
    let Some((name @ ("quinn-proto" | "quinn"), mut words)) =
        words.split_first().map(|(name, rest)| (*name, rest))
    else {
        return Err(USAGE.into());
    };
    let mut tuning = Tuning::default();
    while let [setting, value, rest @ ..] = words
        && setting.starts_with("--")
    {
        tuning.set(setting, value)?;
        words = rest;
    }
    match (name, words) {
        ("quinn-proto", ["serve", address]) => machine::serve(address, tuning),
        ("quinn-proto", ["client", place]) => machine::client(place, tuning),
        (_, ["serve", address]) => quinn_side::serve(address, tuning),
        (_, ["client", place]) => quinn_side::client(place, tuning),
        (_, ["version"]) => message::say(&version(name)),
        _ => Err(USAGE.into()),
    }
}

/// Returns the name and version of a package, as `Cargo.lock` has it.
fn version(name: &str) -> String {
    let heading = format!("name = \"{name}\"\nversion = \"");
    let found = include_str!("../Cargo.lock").split_once(&heading).and_then(|(_, rest)| rest.split_once('"'));
    format!("{name} {}", found.map_or("?", |(version, _)| version))
}
