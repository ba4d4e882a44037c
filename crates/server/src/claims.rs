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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_below_the_least_one_is_refused() {
        let claims = |claim_ms| Config { claim_ms, ..Config::default() }.claims();
        claims(CLAIM_MS_MIN).unwrap();
        let why = claims(CLAIM_MS_MIN - 1).unwrap_err().to_string();
        assert_eq!(why, "the setting `claim_ms` is 9: it is at least 10");
    }
}
