//! A trader, the directory of services, as a client sees it.
//!
//! [`stubs`] are those of `crates/trader/trader.theta`, for exporters and for programs that choose
//! among offers themselves. Programs that only import need none of them: see [`crate::import()`].

use std::sync::Arc;

use bifrost_client::trader::Listed;

/// The stubs of `crates/trader/trader.theta`.
#[rustfmt::skip]
#[allow(clippy::all, reason = "generated")]
#[path = "bifrost_stubs.rs"]
pub mod stubs;

pub use bifrost_client::trader::{TRADER, hex};
pub use bifrost_trader::Offer;

/// Makes the offer of its form in the stubs. A digest that cannot be read is all zeros.
pub fn offer(listed: stubs::Offer) -> Offer {
    bifrost_client::trader::offer(Listed {
        id: listed.id,
        service: listed.service.into(),
        digest: listed.digest,
        name: listed.name.into(),
        addresses: listed.addresses.into_iter().map(Arc::from).collect(),
        names: listed.names,
        values: listed.values,
        load: listed.load,
        doubtful: listed.doubtful,
    })
}
