//! The facts about a server that the claims of persistent actors need.

use std::sync::{Arc, OnceLock};

use crate::{Cx, Raised, Registry, theta_routine};

/// The milliseconds that a server waits before it takes a claim that another server has, by
/// default.
pub const CLAIM_MS: u32 = 200;

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
    /// Makes the settings of a server with an identity of its own: 16 random bytes.
    ///
    /// # Errors
    /// The operating system gives no random bytes.
    pub fn new(shared: bool, claim_ms: u32) -> std::io::Result<Claims> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
        let server = format!("{:032x}", u128::from_le_bytes(bytes));
        Ok(Claims { server: server.into(), shared, claim_ms: claim_ms.into() })
    }
}

/// Returns the settings of the server that runs this code.
fn claims(cx: &Cx) -> Result<Claims, Raised> {
    /// The settings of a process that has given none: its store is not shared.
    static ALONE: OnceLock<Claims> = OnceLock::new();
    if let Some(claims) = cx.settings() {
        return Ok(claims);
    }
    if let Some(alone) = ALONE.get() {
        return Ok(alone.clone());
    }
    let made = Claims::new(false, CLAIM_MS).map_err(|error| Raised::failure(error.to_string()))?;
    Ok(ALONE.get_or_init(|| made).clone())
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
fn server_id(cx: &mut Cx) -> Result<String, Raised> {
    Ok(claims(cx)?.server.to_string())
}

#[theta_routine("std::store_is_shared")]
fn store_is_shared(cx: &mut Cx) -> Result<bool, Raised> {
    Ok(claims(cx)?.shared)
}

#[theta_routine("std::claim_ms")]
fn claim_ms(cx: &mut Cx) -> Result<i64, Raised> {
    Ok(claims(cx)?.claim_ms)
}
