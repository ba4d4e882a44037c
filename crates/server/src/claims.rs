//! The settings of the claims of persistent actors.

use bifrost_native::standard::Claims;
use bifrost_repository::Place;

use crate::config::Config;
use crate::config_error::ConfigError;

/// The fewest milliseconds that a server waits before it takes a claim.
pub const CLAIM_MS_MIN: u32 = 10;

impl Config {
    /// Returns the settings of claims, with an identity for this run of the server.
    ///
    /// # Errors
    /// [`ConfigError`]: the store has no such name, `claim_ms` is too small, or the operating
    /// system gives no random bytes.
    pub fn claims(&self) -> Result<Claims, ConfigError> {
        if self.claim_ms < CLAIM_MS_MIN {
            return Err(ConfigError::ClaimMs(self.claim_ms));
        }
        let shared = matches!(self.place()?, Place::Database(_));
        Claims::new(shared, self.claim_ms).map_err(ConfigError::NoIdentity)
    }
}
