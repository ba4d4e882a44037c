//! The rights of roles at a trader.

use std::collections::BTreeMap;
use std::sync::Arc;

use bifrost_session::Names;
use bifrost_trader::Right;
use parking_lot::RwLock;

use crate::config::{Config, ConfigError};
use crate::roles::ServiceNames;

/// The services that each role may export and import; nothing without roles, where all may. Clones
/// are the same rights, so they can be set anew while a trader runs.
#[derive(Clone, Debug, Default)]
pub struct Rights(Arc<RwLock<Option<BTreeMap<String, ServiceNames>>>>);

impl Rights {
    /// Sets the rights anew, for all further calls.
    ///
    /// # Errors
    /// A mistake in the roles; then the rights stay as they are.
    pub fn set(&self, config: &Config) -> Result<(), ConfigError> {
        let roles = config.checked_roles()?;
        let services = roles.map(|roles| {
            let services = roles.into_iter().map(|(name, role)| (name, role.services().clone()));
            services.collect()
        });
        *self.0.write() = services;
        Ok(())
    }

    /// Returns the rights of a role.
    pub(super) fn of(&self, role: String) -> Caller {
        let services = match &*self.0.read() {
            None => ServiceNames { exports: Names::all(), imports: Names::all() },
            Some(roles) => roles.get(&role).cloned().unwrap_or_default(),
        };
        Caller { role, services }
    }
}

/// The rights of a role.
pub(super) struct Caller {
    role: String,
    services: ServiceNames,
}

impl Right for Caller {
    fn role(&self) -> &str {
        &self.role
    }

    fn may_export(&self, service: &str) -> bool {
        self.services.exports.contains(service)
    }

    fn may_import(&self, service: &str) -> bool {
        self.services.imports.contains(service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles::RoleSettings;

    #[test]
    fn a_role_exports_and_imports_what_its_settings_say() {
        let rights = Rights::default();
        assert!(rights.of(String::new()).may_export("DataBase"));
        let role = |exports: &[&str]| RoleSettings {
            exports: exports.iter().map(|name| (*name).to_owned()).collect(),
            imports: vec!["Data*".to_owned()],
            ..RoleSettings::default()
        };
        let roles = [("data".to_owned(), role(&["DataBase", "log.*"])), ("reader".to_owned(), role(&[]))];
        rights.set(&Config { roles: roles.into(), ..Config::default() }).unwrap();
        let may = |role: &str, service| rights.of(role.to_owned()).may_export(service);
        assert!(may("data", "DataBase") && may("data", "log.Errors") && !may("data", "DataBases"));
        assert!(!may("reader", "DataBase") && !may("gone", "DataBase"));
        let imports = |role: &str, service| rights.of(role.to_owned()).may_import(service);
        assert!(
            imports("reader", "DataBase") && !imports("reader", "Scores") && !imports("gone", "DataBase")
        );
        let wrong = Config { roles: [("data".to_owned(), role(&["a*b"]))].into(), ..Config::default() };
        let why = rights.set(&wrong).unwrap_err().to_string();
        assert!(why.contains("exports") && why.contains("a*b"), "{why}");
        assert!(may("data", "DataBase"), "the rights stay");
    }
}
