//! The facts about a server that the claims of persistent actors need.

use std::sync::{Arc, LazyLock};

use crate::{Cx, Registry, theta_routine};

/// The milliseconds that a server waits before it takes a claim that another server has, by
/// default.
pub const CLAIM_MS: i64 = 200;

/// The settings of claims. [`Registry::set`] enters them; without them the store is that of one
/// process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The identity of this server, which no other run of a server has.
    pub server: Arc<str>,
    /// True if other servers may have the same store.
    pub shared: bool,
    /// The milliseconds that a server waits before it takes a claim that another server has.
    pub claim_ms: i64,
}

impl Claims {
    /// Makes the settings of a server with an identity of its own.
    pub fn new(shared: bool, claim_ms: i64) -> Claims {
        Claims { server: identity(), shared, claim_ms }
    }
}

/// Returns 16 random bytes as text.
fn identity() -> Arc<str> {
    let number = u128::from(fresh()) << 64 | u128::from(fresh());
    Arc::from(format!("{number:032x}"))
}

/// Returns 8 random bytes. The keys of hash tables are from the operating system's generator.
fn fresh() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::time::Instant::now())
}

/// The settings of a process that has given none.
static ALONE: LazyLock<Claims> = LazyLock::new(|| Claims::new(false, CLAIM_MS));

/// Returns the settings of the server that runs this code.
fn claims(cx: &Cx) -> Claims {
    cx.settings().unwrap_or_else(|| ALONE.clone())
}

/// Adds the natives of `std/persistent.theta`.
pub(super) fn add_to(registry: Registry) -> Registry {
    registry
        .with_routine(server_id::native())
        .with_routine(store_is_shared::native())
        .with_routine(claim_ms::native())
        .with_text("std/persistent.theta", include_str!("../../theta/std/persistent.theta"))
}

#[theta_routine("std::server_id")]
fn server_id(cx: &mut Cx) -> String {
    claims(cx).server.to_string()
}

#[theta_routine("std::store_is_shared")]
fn store_is_shared(cx: &mut Cx) -> bool {
    claims(cx).shared
}

#[theta_routine("std::claim_ms")]
fn claim_ms(cx: &mut Cx) -> i64 {
    claims(cx).claim_ms
}
