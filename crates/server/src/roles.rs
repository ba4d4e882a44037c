//! [`Roles`]: from the identity of a connection and the token of its `hello` to a role.
//!
//! Read [`Roles::admit`] first. [`RoleSettings`] is a table `[roles.NAME]` of the settings;
//! [`check`] finds the mistakes of all tables together, before a program is loaded;
//! [`Roles::new`] joins them with the program.
//!
//! | the client shows | its role |
//! | --- | --- |
//! | a token | the role with its hash; none if the token is wrong, whatever else the client shows |
//! | no token, a certificate | the role with its pin; with its name; with `*` for a label |
//! | no token, no certificate, a user of this machine | the role with the number of the user |
//! | nothing | none: the client is asked for a token |
//!
//! No two roles share a token, a user or an entry for certificates. A certificate that fits two
//! roles equally well has none.
//!
//! Tokens are stored as hashes ([`hash`]). All hashes are compared, each in constant time, so the
//! time of the answer is the same for each token.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bifrost_session::{Limits, Names, Policy, Tables};
use bifrost_transport::Identity;
use bifrost_wire::Limit;
use documented::DocumentedFields;
use serde::{Deserialize, Serialize};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use crate::config::{Config, ConfigError, RootNames, limits};

/// The context of the hashes of tokens, which keeps them apart from other uses of BLAKE3.
const CONTEXT: &str = "bifrost 1 token of a role";
/// The beginning of the entry of a token in the settings.
const SCHEME: &str = "blake3:";
/// Most bytes of a role's name.
const NAME_BYTES_MAX: usize = 64;
/// Most roles. Each login looks through all of them.
pub const ROLES_MAX: usize = 1_000;
/// Most tokens of all roles together, for the same reason.
pub const TOKENS_MAX: usize = 10_000;

/// The settings of a role. It may do only what they say.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, DocumentedFields)]
#[serde(default, deny_unknown_fields)]
pub struct RoleSettings {
    /// The hashes of its tokens, as `bifrost token` prints them: `blake3:` and 64 digits.
    pub tokens: Vec<String>,
    /// Certificates of its clients: `dns:NAME`, `dns:*.NAME`, or the pin of a key as `sha256-PIN`.
    pub certificates: Vec<String>,
    /// The users of this machine, by number, whose processes have it over unix sockets and shared
    /// memory.
    pub uids: Vec<u32>,
    /// The names of the root directory that its clients may use: names, or beginnings with `*`.
    pub roots: Vec<String>,
    /// The routines that its clients may call: names, or beginnings with `*`.
    pub routines: Vec<String>,
    /// At a trader: the services that its clients may export, as names or beginnings with `*`.
    pub exports: Vec<String>,
    /// At a trader: the services that its clients may import, as names or beginnings with `*`.
    pub imports: Vec<String>,
    /// Its rights to the names; absent: those of the setting `root_names`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_names: Option<RootNames>,
    /// The limits of its sessions; those that are absent are as in the setting `limits`.
    pub limits: BTreeMap<String, u64>,
    /// Most sessions of the role at a time; absent: no more than `sessions_max` of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions_max: Option<usize>,
}

/// The reason why a role in the settings cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RoleError {
    /// Its name.
    #[error("its name must be 1 to {NAME_BYTES_MAX} letters, digits, `-` and `_`")]
    Name,
    /// A token that is no hash. The text has only its position: it may be the token itself.
    #[error(
        "`tokens`, entry {at}: it must be `{SCHEME}` and 64 hexadecimal digits, as \
         `bifrost token --role {role}` prints"
    )]
    Token {
        /// The role.
        role: String,
        /// The position, from 1.
        at: usize,
    },
    /// An entry for certificates.
    #[error("`certificates`: `{entry}` is not `dns:NAME`, `dns:*.NAME` or `sha256-PIN`")]
    Certificate {
        /// The entry.
        entry: String,
    },
    /// A pattern for names.
    #[error("`{setting}`: `{pattern}` is not a name, nor a beginning of names with a `*` at its end")]
    Pattern {
        /// `roots`, `routines`, `exports` or `imports`.
        setting: &'static str,
        /// The pattern.
        pattern: String,
    },
    /// A way to a role that leads to another one as well.
    #[error("`{setting}`: {entry} is in the role `{other}`, too, and a client has one role")]
    Shared {
        /// `tokens`, `certificates` or `uids`.
        setting: &'static str,
        /// The entry.
        entry: String,
        /// The other role.
        other: String,
    },
    /// A limit that does not exist.
    #[error("`limits`: {0}")]
    Limit(String),
    /// More than there may be.
    #[error("there are more than {most} {what}, and that is the limit")]
    TooMany {
        /// `roles` or `tokens of roles`.
        what: &'static str,
        /// The limit.
        most: usize,
    },
}

/// True if a role may have a name.
pub fn is_name(name: &str) -> bool {
    let in_name = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(in_name)
}

/// Returns the hash of a token: BLAKE3's key derivation, which no one can turn round for a random
/// token of 128 bits.
pub fn hash(token: &str) -> [u8; 32] {
    blake3::derive_key(CONTEXT, token.as_bytes())
}

/// Returns the entry of a token for the setting `tokens`.
pub fn token_entry(token: &str) -> String {
    format!("{SCHEME}{}", hexadecimal(&hash(token)))
}

/// Returns a token: 128 random bits in hexadecimal.
///
/// # Errors
/// The system has no random numbers.
pub fn random_token() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(hexadecimal(&bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn read_hash(entry: &str) -> Option<[u8; 32]> {
    let digits = entry.strip_prefix(SCHEME)?;
    if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
    }
    Some(hash)
}

/// An entry for certificates, from the one that wins.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Certificate {
    /// `sha256-PIN`
    Pin(String),
    /// `dns:NAME`, in small letters.
    Name(String),
    /// `dns:*.NAME`: the names with one more label. `.NAME`, in small letters.
    Under(String),
}

impl Certificate {
    fn read(entry: &str) -> Option<Certificate> {
        if let Some(pin) = entry.strip_prefix("sha256-") {
            return (!pin.is_empty()).then(|| Certificate::Pin(entry.to_owned()));
        }
        let name = entry.strip_prefix("dns:")?.to_ascii_lowercase();
        let (name, is_under) = match name.strip_prefix('*') {
            Some(rest) => (rest.strip_prefix('.')?.to_owned(), true),
            None => (name, false),
        };
        let is_label = |label: &str| {
            !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        if !name.split('.').all(is_label) {
            return None;
        }
        Some(if is_under { Certificate::Under(format!(".{name}")) } else { Certificate::Name(name) })
    }

    /// Returns the rank at which it fits a certificate; 0 is the best.
    fn rank(&self, names: &[String], pin: &str) -> Option<u8> {
        let any = |fits: &dyn Fn(&str) -> bool| {
            let names = names.iter().filter_map(|name| name.strip_prefix("dns:"));
            names.into_iter().any(|name| fits(&name.to_ascii_lowercase()))
        };
        match self {
            Certificate::Pin(known) => (known == pin).then_some(0),
            Certificate::Name(known) => any(&|name| name == known).then_some(1),
            Certificate::Under(end) => {
                let fits = |name: &str| {
                    name.strip_suffix(end.as_str())
                        .is_some_and(|label| !label.is_empty() && !label.contains('.') && label != "*")
                };
                any(&fits).then_some(2)
            }
        }
    }
}

/// A role that was checked.
#[derive(Clone, Debug)]
pub struct Checked {
    tokens: Vec<[u8; 32]>,
    certificates: Vec<Certificate>,
    uids: Vec<u32>,
    roots: Names,
    routines: Names,
    services: ServiceNames,
    /// The patterns of the routines, as they were written.
    patterns: Vec<String>,
    root_names: bifrost_session::RootNames,
    limits: Limits,
    sessions_max: Option<usize>,
}

/// The services of a role at a trader.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServiceNames {
    /// Those that its clients may export.
    pub exports: Names,
    /// Those that its clients may import.
    pub imports: Names,
}

impl Checked {
    /// Returns the services that clients of the role may export and import at a trader.
    pub(crate) fn services(&self) -> &ServiceNames {
        &self.services
    }
}

/// Checks the roles of the settings; none if there are none.
///
/// # Errors
/// [`ConfigError::Role`] names the role and the setting; [`ConfigError::BesideRoles`]
pub fn check(config: &Config) -> Result<Option<BTreeMap<String, Checked>>, ConfigError> {
    if config.roles.is_empty() {
        return Ok(None);
    }
    if !config.token.is_empty() {
        return Err(ConfigError::BesideRoles("token"));
    }
    if config.anonymous_loopback {
        return Err(ConfigError::BesideRoles("anonymous_loopback"));
    }
    let mut known = Known::default();
    let mut checked = BTreeMap::new();
    for (name, settings) in &config.roles {
        let wrong = |source| ConfigError::Role { role: name.clone(), source };
        let role = check_role(name, settings, config, &mut known).map_err(wrong)?;
        checked.insert(name.clone(), role);
    }
    Ok(Some(checked))
}

/// The ways to the roles so far, each with its role.
#[derive(Default)]
struct Known {
    roles: usize,
    tokens: BTreeMap<[u8; 32], String>,
    certificates: BTreeMap<Certificate, String>,
    uids: BTreeMap<u32, String>,
}

fn check_role(
    name: &str,
    settings: &RoleSettings,
    config: &Config,
    known: &mut Known,
) -> Result<Checked, RoleError> {
    if !is_name(name) {
        return Err(RoleError::Name);
    }
    known.roles += 1;
    if known.roles > ROLES_MAX {
        return Err(RoleError::TooMany { what: "roles", most: ROLES_MAX });
    }
    let mut tokens = Vec::new();
    for (at, entry) in (1..).zip(&settings.tokens) {
        let hash = read_hash(entry).ok_or_else(|| RoleError::Token { role: name.to_owned(), at })?;
        enter(&mut known.tokens, hash, name, "tokens", || format!("entry {at}"))?;
        tokens.push(hash);
    }
    if known.tokens.len() > TOKENS_MAX {
        return Err(RoleError::TooMany { what: "tokens of roles", most: TOKENS_MAX });
    }
    let mut certificates = Vec::new();
    for entry in &settings.certificates {
        let read = Certificate::read(entry);
        let read = read.ok_or_else(|| RoleError::Certificate { entry: entry.clone() })?;
        enter(&mut known.certificates, read.clone(), name, "certificates", || format!("`{entry}`"))?;
        certificates.push(read);
    }
    for uid in &settings.uids {
        enter(&mut known.uids, *uid, name, "uids", || uid.to_string())?;
    }
    let names = |setting, patterns: &[String]| {
        Names::of(patterns.iter().map(String::as_str))
            .map_err(|pattern| RoleError::Pattern { setting, pattern: pattern.to_owned() })
    };
    let mut limits_of_role = config.session_limits().map_err(|wrong| RoleError::Limit(wrong.to_string()))?;
    limits(&mut limits_of_role, &settings.limits).map_err(|wrong| RoleError::Limit(wrong.to_string()))?;
    Ok(Checked {
        tokens,
        certificates,
        uids: settings.uids.clone(),
        roots: names("roots", &settings.roots)?,
        routines: names("routines", &settings.routines)?,
        services: ServiceNames {
            exports: names("exports", &settings.exports)?,
            imports: names("imports", &settings.imports)?,
        },
        patterns: settings.routines.clone(),
        root_names: settings.root_names.unwrap_or(config.root_names).into(),
        limits: limits_of_role,
        sessions_max: settings.sessions_max,
    })
}

/// Enters a way to a role. The same way may be written twice for one role.
fn enter<K: Ord>(
    known: &mut BTreeMap<K, String>,
    way: K,
    role: &str,
    setting: &'static str,
    entry: impl FnOnce() -> String,
) -> Result<(), RoleError> {
    match known.insert(way, role.to_owned()).filter(|other| other != role) {
        None => Ok(()),
        Some(other) => Err(RoleError::Shared { setting, entry: entry(), other }),
    }
}

/// A role of a server.
#[derive(Debug)]
pub(crate) struct Role {
    name: String,
    checked: Checked,
    policy: Arc<Policy>,
    /// The open sessions of the role. A role of the same name that replaces it counts on.
    open: Arc<AtomicUsize>,
}

/// The place of a session of a role, until dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    open: Arc<AtomicUsize>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Role {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    pub(crate) fn limits(&self) -> Limits {
        self.checked.limits
    }

    /// Takes a place for a session.
    ///
    /// # Errors
    /// The reason in words: the role has as many sessions as it may.
    pub(crate) fn take_seat(&self) -> Result<Seat, String> {
        let most = self.checked.sessions_max.unwrap_or(usize::MAX);
        let taken = self
            .open
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| (open < most).then_some(open + 1));
        match taken {
            Ok(_) => Ok(Seat { open: self.open.clone() }),
            Err(_) => Err(format!(
                "{most} sessions of the role `{0}` are open, and that is its limit (roles.{0}.sessions_max)",
                self.name
            )),
        }
    }
}

/// The reason why a client has no role.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NoRole {
    /// It has shown nothing.
    Nothing,
    /// Its token is wrong.
    Token,
    /// Its user has none.
    User(u32),
    /// Its certificate has none.
    Certificate,
    /// Its certificate has two.
    Two(String, String),
}

impl NoRole {
    /// Returns the text for the client, which names only what it has shown.
    pub(crate) fn text(&self) -> String {
        match self {
            NoRole::Nothing | NoRole::Token => WRONG_TOKEN.to_owned(),
            NoRole::User(uid) => format!("the user with the number {uid} has no role here"),
            NoRole::Certificate | NoRole::Two(..) => "the certificate has no role here".to_owned(),
        }
    }
}

impl std::fmt::Display for NoRole {
    /// For the log: without the thing that was shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoRole::Nothing => f.write_str("nothing was shown"),
            NoRole::Token => f.write_str("wrong token"),
            NoRole::User(uid) => write!(f, "no role of uid {uid}"),
            NoRole::Certificate => f.write_str("no role of the certificate"),
            NoRole::Two(one, other) => write!(f, "the certificate fits the roles {one} and {other}"),
        }
    }
}

/// The text of an error for a client without the token that is wanted.
pub(crate) const WRONG_TOKEN: &str = "the token is missing or wrong";

/// The roles of a server.
#[derive(Debug)]
pub(crate) struct Roles {
    roles: Vec<Arc<Role>>,
}

impl Roles {
    /// Makes the roles of a program, in the place of others whose sessions go on.
    pub(crate) fn new(checked: BTreeMap<String, Checked>, tables: &Tables, before: Option<&Roles>) -> Roles {
        let role = |(name, checked): (String, Checked)| {
            let policy =
                Policy::of_role(tables, &name, checked.root_names, checked.roots.clone(), &checked.routines);
            let before = before.and_then(|roles| roles.roles.iter().find(|role| role.name == name));
            let open = before.map_or_else(Arc::default, |role| role.open.clone());
            Arc::new(Role { policy: Arc::new(policy), name, checked, open })
        };
        Roles { roles: checked.into_iter().map(role).collect() }
    }

    /// Returns the role of a client.
    ///
    /// # Errors
    /// [`NoRole`]
    pub(crate) fn admit(&self, identity: &Identity, token: &str) -> Result<&Arc<Role>, NoRole> {
        if !token.is_empty() {
            return self.of_token(token).ok_or(NoRole::Token);
        }
        match identity {
            Identity::None => Err(NoRole::Nothing),
            Identity::Local { uid } => {
                let found = self.roles.iter().find(|role| role.checked.uids.contains(uid));
                found.ok_or(NoRole::User(*uid))
            }
            Identity::Certificate { names, pin } => self.of_certificate(names, pin),
        }
    }

    /// Compares all tokens, whether one has fitted or not.
    fn of_token(&self, token: &str) -> Option<&Arc<Role>> {
        let shown = hash(token);
        let mut found = u32::MAX;
        for (at, role) in (0u32..).zip(&self.roles) {
            for known in &role.checked.tokens {
                found.conditional_assign(&at, shown.ct_eq(known));
            }
        }
        self.roles.get(found as usize)
    }

    fn of_certificate(&self, names: &[String], pin: &str) -> Result<&Arc<Role>, NoRole> {
        let rank = |role: &Role| role.checked.certificates.iter().filter_map(|c| c.rank(names, pin)).min();
        let ranked: Vec<(u8, &Arc<Role>)> =
            self.roles.iter().filter_map(|role| Some((rank(role)?, role))).collect();
        let best = ranked.iter().map(|(rank, _)| *rank).min().ok_or(NoRole::Certificate)?;
        let mut fitting = ranked.into_iter().filter(|(rank, _)| *rank == best).map(|(_, role)| role);
        match (fitting.next(), fitting.next()) {
            (Some(one), None) => Ok(one),
            (Some(one), Some(other)) => Err(NoRole::Two(one.name.clone(), other.name.clone())),
            (None, _) => Err(NoRole::Certificate),
        }
    }

    /// True if a user of this machine other than this one has a role.
    pub(crate) fn has_other_users(&self, own: u32) -> bool {
        self.roles.iter().any(|role| role.checked.uids.iter().any(|uid| *uid != own))
    }

    /// Returns the lines about the roles for the start of a server: one for each, and one for each
    /// pattern that no routine of the program fits.
    pub(crate) fn lines(&self, tables: &Tables) -> Vec<String> {
        let routines = &tables.numbering().interface().routines;
        let mut lines = Vec::new();
        for role in &self.roles {
            lines.push(format!("role {}: {}", role.name, role.checked.ways()));
            for pattern in &role.checked.patterns {
                let fits = |names: Names| routines.iter().any(|routine| names.contains(&routine.name));
                if pattern != "*" && !Names::of([pattern.as_str()]).is_ok_and(fits) {
                    let name = &role.name;
                    lines.push(format!("role {name}: the program has no remote routine `{pattern}`"));
                }
            }
        }
        lines
    }
}

impl Checked {
    /// Returns the ways to the role, in words.
    fn ways(&self) -> String {
        let count = |count: usize, one: &str, many: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            count => Some(format!("{count} {many}")),
        };
        let uids: BTreeSet<String> = self.uids.iter().map(u32::to_string).collect();
        let users =
            (!uids.is_empty()).then(|| format!("uid {}", uids.into_iter().collect::<Vec<_>>().join(", ")));
        let ways = [
            count(self.tokens.len(), "token", "tokens"),
            count(self.certificates.len(), "certificate", "certificates"),
            users,
        ];
        match ways.into_iter().flatten().collect::<Vec<_>>() {
            ways if ways.is_empty() => "no token, certificate or uid leads to it".to_owned(),
            ways => ways.join(", "),
        }
    }
}

/// The condition under which a listener lets clients in.
#[derive(Clone, Debug)]
pub(crate) enum Door {
    /// None.
    Open,
    /// They show this token.
    Token(Arc<str>),
    /// They have a role.
    Roles,
}

/// The logins that have failed, by the thing that was shown.
#[derive(Debug, Default)]
pub(crate) struct FailedLogins {
    tokens: AtomicU64,
    users: AtomicU64,
    certificates: AtomicU64,
}

impl FailedLogins {
    /// Counts a failed login. A client that has shown nothing has not tried.
    pub(crate) fn count(&self, why: &NoRole) {
        match why {
            NoRole::Nothing => return,
            NoRole::Token => &self.tokens,
            NoRole::User(_) => &self.users,
            NoRole::Certificate | NoRole::Two(..) => &self.certificates,
        }
        .fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts: tokens, users, certificates.
    pub(crate) fn get(&self) -> [u64; 3] {
        [&self.tokens, &self.users, &self.certificates].map(|count| count.load(Ordering::Relaxed))
    }
}

/// Returns the time of a batch of a session.
pub(crate) fn batch_time(limits: &Limits) -> std::time::Duration {
    std::time::Duration::from_millis(limits.get(Limit::BatchTimeMs))
}

#[cfg(test)]
mod tests;
