//! A trader, the directory of services, as a client sees it.
//!
//! [`stubs`] are those of `crates/trader/trader.theta`, for exporters and for programs that choose
//! among offers themselves. Programs that only import need none of them: see [`crate::import()`].

use std::fmt::Write;
use std::sync::Arc;

use bifrost_trader::{OfferId, Properties, Value};
use bifrost_wire::Digest;

/// The stubs of `crates/trader/trader.theta`.
#[rustfmt::skip]
#[allow(clippy::all, reason = "generated")]
#[path = "bifrost_stubs.rs"]
pub mod stubs;

pub use bifrost_trader::Offer;

/// The name of the trader's object at its server.
pub const TRADER: &str = "trader";

/// Makes the offer of its form in the stubs. A digest that cannot be read is all zeros.
pub fn offer(listed: stubs::Offer) -> Offer {
    let mut properties = Properties::new();
    for (name, value) in listed.names.iter().zip(&listed.values) {
        // A text that is no value of this version is shown as it is.
        properties.set(name, Value::from_text(value).unwrap_or_else(|_| Value::String(value.clone())));
    }
    Offer {
        id: OfferId(u64::try_from(listed.id).unwrap_or(0)),
        service: listed.service.into(),
        digest: digest(&listed.digest).unwrap_or_default(),
        name: listed.name.into(),
        addresses: listed.addresses.into_iter().map(Arc::from).collect(),
        properties,
        load: Some(listed.load).filter(|load| *load >= 0.0),
        doubtful: listed.doubtful,
    }
}

/// Returns a digest as 64 hexadecimal digits, as traders take it.
pub fn hex(digest: &Digest) -> String {
    digest.iter().fold(String::with_capacity(2 * digest.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads 64 hexadecimal digits.
fn digest(text: &str) -> Option<Digest> {
    let mut digest = [0; 32];
    if text.len() != 2 * digest.len() {
        return None;
    }
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_read_as_they_are_written() {
        let some: Digest = std::array::from_fn(|n| n as u8 * 7);
        assert_eq!(digest(&hex(&some)), Some(some));
        for wrong in ["", "ab", &"0".repeat(63), &"0".repeat(65), &"x".repeat(64), &"é".repeat(32)] {
            assert_eq!(digest(wrong), None, "{wrong}");
        }
    }
}
