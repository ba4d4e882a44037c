//! Dial-back: says `hello` at the addresses of an offer, and compares the digest of the interface.
//!
//! The exporter chooses the addresses, so each answer is bounded in bytes and in time, and nothing
//! secret is sent. A server that asks for a token or a role is not found. A capsule is no server:
//! it is found by the greeting of capsules, which needs no token.

use std::time::{Duration, Instant};

use bifrost_capsule::capsules::find_capsule;
use bifrost_trader::Offer;
use bifrost_transport::{Address, ConnectOptions, Stream};
use bifrost_wire::{DecodedReply, Digest, Hello, Reply, VERSION, decode_reply, encode, op};

/// Most bytes of a welcome.
const WELCOME_BYTES_MAX: usize = 64 << 10;

/// Returns the addresses at which a server with the digest has answered, within a time for all.
pub(super) fn found(offer: &Offer, within: Duration) -> Vec<&str> {
    let end = Instant::now() + within;
    let mut found = Vec::new();
    for (at, address) in offer.addresses.iter().enumerate() {
        // The last addresses have their part of the time, however slow the first ones are.
        let part = end.saturating_duration_since(Instant::now()) / (offer.addresses.len() - at) as u32;
        if *offer.service == *crate::exports::capsule::SERVICE {
            let parsed: Result<Address, _> = address.parse();
            match parsed
                .map_err(|why| why.to_string())
                .and_then(|address| find_capsule(&address, part).map_err(|why| why.to_string()))
            {
                Ok(()) => found.push(&**address),
                Err(why) => tracing::info!(%address, %why, "trader.not_proved"),
            }
            continue;
        }
        match digest_at(address, Instant::now() + part) {
            Ok(digest) if digest == offer.digest => found.push(&**address),
            Ok(_) => tracing::info!(%address, "trader.not_proved: another interface"),
            Err(why) => tracing::info!(%address, %why, "trader.not_proved"),
        }
    }
    found
}

/// Returns the digest of the interface of the server at an address.
fn digest_at(address: &str, end: Instant) -> Result<Digest, String> {
    let address: Address = address.parse().map_err(|why| format!("{why}"))?;
    let timeout = end.saturating_duration_since(Instant::now());
    let options = ConnectOptions { timeout, ..ConnectOptions::default() };
    let mut stream = Stream::connect(&address, &options).map_err(|why| why.to_string())?;
    let mut hello = Vec::new();
    let asks = Hello { version: VERSION, digest: [0; 32], token: "", client: "bifrost-trader", trace: None };
    encode::hello(&mut hello, &asks);
    stream.write(&hello, Some(end)).map_err(|why| why.to_string())?;
    stream.flush();
    let mut input = Vec::new();
    loop {
        match decode_reply(&input, WELCOME_BYTES_MAX).map_err(|why| why.to_string())? {
            DecodedReply::Reply(Reply::Welcome(welcome), _) => {
                let mut bye = Vec::new();
                encode::plain(&mut bye, op::BYE);
                // The server ends the session by itself if it does not hear this.
                let _ = stream.write(&bye, Some(end));
                stream.flush();
                return Ok(welcome.digest);
            }
            DecodedReply::Reply(Reply::Error { text, .. }, _) => return Err(text.to_owned()),
            DecodedReply::Reply(..) => return Err("it answers `hello` with another reply".to_owned()),
            _ if input.len() >= WELCOME_BYTES_MAX => return Err("its welcome is too long".to_owned()),
            _ => {}
        }
        let room = WELCOME_BYTES_MAX - input.len();
        if stream.read(&mut input, room, Some(end)).map_err(|why| why.to_string())? == 0 {
            return Err("it has closed the connection".to_owned());
        }
    }
}
