//! Offers that several traders share in etcd: `Etcd` is a `bifrost_trader::shared::Shared`.
//!
//! The crate is empty without the feature `etcd`, whose client needs `protoc` to be built.
//!
//! | key | value |
//! | --- | --- |
//! | `/bifrost/offers/TRADER/NUMBER` | an offer that the trader has listed, as JSON (`json.rs`) |
//! | `/bifrost/interfaces/DIGEST/TRADER` | the interface of offers of the trader, as JSON |
//! | `/bifrost/names/[SERVICE,NAME]` | the exporter that has an exclusive name, and its trader |
//!
//! `TRADER` is a random number of the process. All keys of a trader have its lease, which it keeps
//! alive; exporters renew at the trader, whose board in memory judges them. So the keys of a trader
//! that has died go with its lease, and those of an exporter that has died are deleted by the
//! trader.
//!
//! Everything is done on one thread, in epochs (`epoch.rs`):
//!
//! ```text
//!   connect --> lease --> read all offers --> write the own ones --> watch --> an error, silence
//!      ^                                                               reachable         |
//!      +--------------------------------------------- a pause ---------------------------+
//! ```

#![forbid(unsafe_code)]

#[cfg(feature = "etcd")]
mod epoch;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "etcd")]
pub mod json;

#[cfg(feature = "etcd")]
pub use etcd::{BadUrl, Etcd};
