//! The place where a server listens, as a URL: `shm:///path`, `unix:///path`, `tcp://host:port`,
//! `tls://host:port`, `quic://host:port`, `ws://host:port/path`, `wss://host:port/path`.
//!
//! Read [`Address`] first; [`AddressError`] names the faults of a text that is none. Paths are
//! taken as they are written: there are no percent escapes. [`Address::is_loopback`] and
//! [`Address::may_ask_for_token`] say how far an address can be reached. Nothing is opened here:
//! `crate::stream` connects, `crate::listener` listens.

use std::fmt;
use std::fs::Metadata;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

use crate::pin::{Pin, PinError};

/// The place where a server listens and a client connects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// Shared memory, handed over by a unix socket at this path.
    Shm(PathBuf),
    /// A unix stream socket at this path.
    Unix(PathBuf),
    /// A TCP socket.
    Tcp {
        /// A name, an IPv4 address, or an IPv6 address without brackets.
        host: String,
        /// The port; a listener that asks for 0 is given a free one.
        port: u16,
    },
    /// TLS over a TCP socket.
    Tls {
        /// As for TCP. A client expects the name in the server's certificate, unless there is a
        /// pin.
        host: String,
        /// As for TCP.
        port: u16,
        /// The key that the server must have. A listener takes none.
        pin: Option<Pin>,
    },
    /// A stream of QUIC, with the calls of REX, over a UDP socket.
    Quic {
        /// As for TLS.
        host: String,
        /// As for TCP.
        port: u16,
        /// As for TLS.
        pin: Option<Pin>,
    },
    /// A websocket over a TCP socket, which browsers can open.
    Ws {
        /// As for TCP.
        host: String,
        /// As for TCP; 80 if the text has none.
        port: u16,
        /// The path of the URL, with its slash.
        path: Box<str>,
    },
    /// A websocket over TLS.
    Wss {
        /// As for TLS.
        host: String,
        /// As for TCP; 443 if the text has none.
        port: u16,
        /// The path of the URL, with its slash.
        path: Box<str>,
        /// As for TLS. Browsers know no pins.
        pin: Option<Pin>,
    },
}

/// The reason why a text is no [`Address`], and the form of a right one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// There is no `://` in the text.
    #[error(
        "`{text}` is not an address: add a scheme, as in `shm:///path`, `unix:///path`, `tcp://host:port`, \
         `tls://host:port`, `quic://host:port`, `ws://host:port` or `wss://host:port`"
    )]
    NoScheme {
        /// The text as given.
        text: String,
    },
    /// The scheme is none of the seven.
    #[error(
        "`{scheme}` is not a transport: an address is `shm:///path`, `unix:///path`, `tcp://host:port`, \
         `tls://host:port`, `quic://host:port`, `ws://host:port` or `wss://host:port`"
    )]
    UnknownScheme {
        /// The text before `://`.
        scheme: String,
    },
    /// The path of a shm or unix address does not start with a slash.
    #[error("`{path}` is not an absolute path: write three slashes, as in `{scheme}:///run/bifrost/main`")]
    RelativePath {
        /// `shm` or `unix`.
        scheme: &'static str,
        /// The text after `://`.
        path: String,
    },
    /// The path of a shm or unix address names no file.
    #[error("`{path}` names no file: write the path of a socket, as in `{scheme}:///run/bifrost/main`")]
    NoFile {
        /// `shm` or `unix`.
        scheme: &'static str,
        /// The text after `://`.
        path: String,
    },
    /// There is no port.
    #[error("`{rest}` has no port: write `{scheme}://host:port`, as in `{scheme}://localhost:7447`")]
    NoPort {
        /// `tcp`, `tls` or `quic`.
        scheme: &'static str,
        /// The text after `://`.
        rest: String,
    },
    /// The port is no number from 0 to 65535.
    #[error("`{port}` is not a port: write a number from 0 to 65535, as in `tcp://localhost:7447`")]
    BadPort {
        /// The text after the last colon.
        port: String,
    },
    /// An IPv6 address without brackets.
    #[error("an IPv6 address, such as `{host}`, needs brackets, as in `tcp://[::1]:7447`")]
    NoBrackets {
        /// The text before the last colon.
        host: String,
    },
    /// The host is empty, or has characters that no host has.
    #[error(
        "`{host}` is not a host: write a name, an IPv4 address or an IPv6 address in brackets, as in \
         `tcp://localhost:7447` or `tcp://[::1]:7447`"
    )]
    BadHost {
        /// The text in the host's place.
        host: String,
    },
    /// The text after `#` is no pin.
    #[error("`{pin}` cannot follow `#` in a `{scheme}://` address: {PinError}")]
    BadPin {
        /// `tls`, `quic` or `wss`.
        scheme: &'static str,
        /// The text after `#`.
        pin: String,
    },
    /// The path of a websocket has a character that a URL cannot have there.
    #[error(
        "`{path}` is not the path of a URL: write letters, digits and `-._~!$&'()*+,;=:@%/`, as in \
         `ws://localhost:7449/bifrost`"
    )]
    BadPath {
        /// The text in the path's place.
        path: String,
    },
}

impl Address {
    /// True if only processes of this machine can reach it: true for shm and unix, and for others
    /// if the host resolves to loopback addresses only. A host that does not resolve is not
    /// loopback.
    ///
    /// May ask the resolver, and so may wait, if the host is a name.
    pub fn is_loopback(&self) -> bool {
        match self {
            Address::Shm(_) | Address::Unix(_) => true,
            Address::Tcp { host, port }
            | Address::Tls { host, port, .. }
            | Address::Quic { host, port, .. }
            | Address::Ws { host, port, .. }
            | Address::Wss { host, port, .. } => match (host.as_str(), *port).to_socket_addrs() {
                Ok(resolved) => {
                    let mut count = 0;
                    let all = resolved.inspect(|_| count += 1).all(|one| is_loopback_ip(one.ip()));
                    all && count > 0
                }
                Err(_) => false,
            },
        }
    }

    /// True if a server here may ask clients for a token. The mode of a socket file says which
    /// users may connect: a listener that asks for a token there is to be told none.
    pub fn may_ask_for_token(&self) -> bool {
        self.path().is_none()
    }

    /// True if bytes are encrypted between the client and the server, or do not leave the machine.
    pub fn is_private(&self) -> bool {
        !matches!(self, Address::Tcp { .. } | Address::Ws { .. }) || self.is_loopback()
    }

    /// True if a listener here speaks HTTP, and then websocket.
    pub fn is_web(&self) -> bool {
        matches!(self, Address::Ws { .. } | Address::Wss { .. })
    }

    /// Returns the path of the URL of a websocket.
    pub fn web_path(&self) -> Option<&str> {
        match self {
            Address::Ws { path, .. } | Address::Wss { path, .. } => Some(path),
            _ => None,
        }
    }

    /// True if it is one of TLS, which QUIC contains.
    pub fn is_tls(&self) -> bool {
        matches!(self, Address::Tls { .. } | Address::Wss { .. } | Address::Quic { .. })
    }

    /// True if it stands for all addresses of a machine: a listener can have it, and no client can
    /// connect to it from elsewhere.
    pub fn is_wildcard(&self) -> bool {
        match self {
            Address::Shm(_) | Address::Unix(_) => false,
            Address::Tcp { host, .. }
            | Address::Tls { host, .. }
            | Address::Quic { host, .. }
            | Address::Ws { host, .. }
            | Address::Wss { host, .. } => {
                host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_unspecified())
            }
        }
    }

    /// Returns the port, if it has one.
    pub fn port(&self) -> Option<u16> {
        match self {
            Address::Shm(_) | Address::Unix(_) => None,
            Address::Tcp { port, .. }
            | Address::Tls { port, .. }
            | Address::Quic { port, .. }
            | Address::Ws { port, .. }
            | Address::Wss { port, .. } => Some(*port),
        }
    }

    /// Returns the address with another port, and without a pin: that of a listener.
    pub(crate) fn bound_to(mut self, bound: u16) -> Address {
        match &mut self {
            Address::Shm(_) | Address::Unix(_) => {}
            Address::Tcp { port, .. } | Address::Ws { port, .. } => *port = bound,
            Address::Tls { port, pin, .. }
            | Address::Quic { port, pin, .. }
            | Address::Wss { port, pin, .. } => {
                (*port, *pin) = (bound, None);
            }
        }
        self
    }

    /// Returns the address with the pin of the server's key, if it is one of TLS.
    pub fn with_pin(self, key: Pin) -> Address {
        match self {
            Address::Tls { host, port, .. } => Address::Tls { host, port, pin: Some(key) },
            Address::Quic { host, port, .. } => Address::Quic { host, port, pin: Some(key) },
            Address::Wss { host, port, path, .. } => Address::Wss { host, port, path, pin: Some(key) },
            other => other,
        }
    }

    /// Returns the pin of the server's key, if the address has one.
    pub fn pin(&self) -> Option<Pin> {
        match self {
            Address::Tls { pin, .. } | Address::Quic { pin, .. } | Address::Wss { pin, .. } => *pin,
            _ => None,
        }
    }

    /// Returns the path of the socket file, if this address has one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Address::Shm(path) | Address::Unix(path) => Some(path),
            Address::Tcp { .. }
            | Address::Tls { .. }
            | Address::Quic { .. }
            | Address::Ws { .. }
            | Address::Wss { .. } => None,
        }
    }
}

fn is_loopback_ip(ip: IpAddr) -> bool {
    // `::ffff:127.0.0.1` reaches the same socket as `127.0.0.1`.
    ip.to_canonical().is_loopback()
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Shm(path) => write!(out, "shm://{}", path.display()),
            Address::Unix(path) => write!(out, "unix://{}", path.display()),
            Address::Tcp { host, port } => write_host(out, "tcp", host, *port),
            Address::Tls { host, port, pin } => {
                write_host(out, "tls", host, *port)?;
                pin.iter().try_for_each(|pin| write!(out, "#{pin}"))
            }
            Address::Quic { host, port, pin } => {
                write_host(out, "quic", host, *port)?;
                pin.iter().try_for_each(|pin| write!(out, "#{pin}"))
            }
            Address::Ws { host, port, path } => {
                write_host(out, "ws", host, *port)?;
                out.write_str(shown_path(path))
            }
            Address::Wss { host, port, path, pin } => {
                write_host(out, "wss", host, *port)?;
                out.write_str(shown_path(path))?;
                pin.iter().try_for_each(|pin| write!(out, "#{pin}"))
            }
        }
    }
}

/// Returns the path of a URL, as it is shown: the root is left out.
fn shown_path(path: &str) -> &str {
    if path == "/" { "" } else { path }
}

fn write_host(out: &mut fmt::Formatter<'_>, scheme: &str, host: &str, port: u16) -> fmt::Result {
    match host.contains(':') {
        true => write!(out, "{scheme}://[{host}]:{port}"),
        false => write!(out, "{scheme}://{host}:{port}"),
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(AddressError::NoScheme { text: text.to_owned() });
        };
        match scheme {
            "shm" => Ok(Address::Shm(expect_path("shm", rest)?)),
            "unix" => Ok(Address::Unix(expect_path("unix", rest)?)),
            "tcp" => {
                let (host, port) = expect_host_and_port("tcp", rest)?;
                Ok(Address::Tcp { host, port })
            }
            "tls" => {
                let (rest, pin) = split_pin("tls", rest)?;
                let (host, port) = expect_host_and_port("tls", rest)?;
                Ok(Address::Tls { host, port, pin })
            }
            "quic" => {
                let (rest, pin) = split_pin("quic", rest)?;
                let (host, port) = expect_host_and_port("quic", rest)?;
                Ok(Address::Quic { host, port, pin })
            }
            "ws" => {
                let (rest, path) = split_path(rest)?;
                let (host, port) = expect_host_and_port("ws", &with_port(rest, 80))?;
                Ok(Address::Ws { host, port, path })
            }
            "wss" => {
                let (rest, pin) = split_pin("wss", rest)?;
                let (rest, path) = split_path(rest)?;
                let (host, port) = expect_host_and_port("wss", &with_port(rest, 443))?;
                Ok(Address::Wss { host, port, path, pin })
            }
            _ => Err(AddressError::UnknownScheme { scheme: scheme.to_owned() }),
        }
    }
}

fn expect_path(scheme: &'static str, path: &str) -> Result<PathBuf, AddressError> {
    if !path.starts_with('/') {
        return Err(AddressError::RelativePath { scheme, path: path.to_owned() });
    }
    let names_file = !path.ends_with('/') && !path.contains('\0') && Path::new(path).file_name().is_some();
    if !names_file {
        return Err(AddressError::NoFile { scheme, path: path.to_owned() });
    }
    Ok(PathBuf::from(path))
}

/// Splits the pin off.
fn split_pin<'t>(scheme: &'static str, rest: &'t str) -> Result<(&'t str, Option<Pin>), AddressError> {
    let Some((rest, pin)) = rest.split_once('#') else { return Ok((rest, None)) };
    match pin.parse() {
        Ok(pin) => Ok((rest, Some(pin))),
        Err(PinError) => Err(AddressError::BadPin { scheme, pin: pin.to_owned() }),
    }
}

/// Splits the path of a URL off, which is `/` if there is none.
fn split_path(rest: &str) -> Result<(&str, Box<str>), AddressError> {
    let at = rest.find('/').unwrap_or(rest.len());
    let (rest, path) = rest.split_at(at);
    let allowed = |one: char| one.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@%/".contains(one);
    match path.chars().all(allowed) {
        true if path.is_empty() => Ok((rest, "/".into())),
        true => Ok((rest, path.into())),
        false => Err(AddressError::BadPath { path: path.to_owned() }),
    }
}

/// Returns a host with the usual port of its scheme, if it has none.
fn with_port(rest: &str, usual: u16) -> String {
    let after_host = rest.rsplit(']').next().unwrap_or(rest);
    match after_host.contains(':') {
        true => rest.to_owned(),
        false => format!("{rest}:{usual}"),
    }
}

fn expect_host_and_port(scheme: &'static str, rest: &str) -> Result<(String, u16), AddressError> {
    let (host, port) = match rest.strip_prefix('[') {
        Some(bracketed) => {
            let Some((host, after)) = bracketed.split_once(']') else {
                return Err(AddressError::BadHost { host: rest.to_owned() });
            };
            if host.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(AddressError::BadHost { host: format!("[{host}]") });
            }
            let Some(port) = after.strip_prefix(':') else {
                return Err(AddressError::NoPort { scheme, rest: rest.to_owned() });
            };
            (host, port)
        }
        None => {
            let Some((host, port)) = rest.rsplit_once(':') else {
                return Err(AddressError::NoPort { scheme, rest: rest.to_owned() });
            };
            check_plain_host(host)?;
            (host, port)
        }
    };
    let all_digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(port) if all_digits => Ok((host.to_owned(), port)),
        _ => Err(AddressError::BadPort { port: port.to_owned() }),
    }
}

fn check_plain_host(host: &str) -> Result<(), AddressError> {
    if host.contains(':') {
        return Err(AddressError::NoBrackets { host: host.to_owned() });
    }
    let allowed = |one: char| one.is_alphanumeric() || matches!(one, '.' | '-' | '_');
    if host.is_empty() || !host.chars().all(allowed) {
        return Err(AddressError::BadHost { host: host.to_owned() });
    }
    Ok(())
}

/// Returns the directory where servers of this user put their sockets unless told otherwise:
/// `$XDG_RUNTIME_DIR/bifrost`, or `bifrost-<uid>` in the directory for temporary files.
///
/// It need not exist: the listener creates it, open to this user only.
pub fn default_directory() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(runtime) if runtime.is_absolute() => runtime.join("bifrost"),
        _ => std::env::temp_dir().join(format!("bifrost-{}", rustix::process::getuid().as_raw())),
    }
}

/// True if a directory belongs to this user alone. The name of the default one can be guessed, and
/// its parent may be writable by all: another user may have made it first.
pub(crate) fn is_private(directory: &Metadata) -> bool {
    directory.uid() == rustix::process::geteuid().as_raw() && directory.mode() & 0o077 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIN: &str = "sha256-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

    fn tls(host: &str, port: u16, pin: Option<Pin>) -> Address {
        Address::Tls { host: host.to_owned(), port, pin }
    }

    fn ws(host: &str, port: u16, path: &str) -> Address {
        Address::Ws { host: host.to_owned(), port, path: path.into() }
    }

    fn wss(host: &str, path: &str, pin: Option<Pin>) -> Address {
        Address::Wss { host: host.to_owned(), port: 443, path: path.into(), pin }
    }

    #[test]
    fn wildcards_are_known_by_their_host() {
        let is_wildcard = |text: &str| text.parse::<Address>().unwrap().is_wildcard();
        for text in ["tcp://0.0.0.0:1", "tls://[::]:1", "ws://0.0.0.0", "wss://[::ffff:0.0.0.0]/x"] {
            assert!(is_wildcard(text), "{text}");
        }
        for text in ["tcp://127.0.0.1:1", "tls://[::1]:1", "ws://db1.example", "unix:///0.0.0.0", "shm:///x"]
        {
            assert!(!is_wildcard(text), "{text}");
        }
    }

    #[test]
    fn websockets_have_the_ports_of_the_web() {
        let table = [
            ("ws://db1.example", ws("db1.example", 80, "/")),
            ("ws://[::1]/x", ws("::1", 80, "/x")),
            ("wss://db1.example/", wss("db1.example", "/", None)),
        ];
        for (text, address) in table {
            assert_eq!(text.parse(), Ok(address), "{text}");
        }
    }

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.to_owned(), port }
    }

    #[test]
    fn right_addresses_parse_and_print_as_themselves() {
        let table = [
            ("shm:///run/bifrost/main", Address::Shm("/run/bifrost/main".into())),
            ("unix:///tmp/with space:and%20colon", Address::Unix("/tmp/with space:and%20colon".into())),
            ("tcp://localhost:7447", tcp("localhost", 7447)),
            ("tcp://127.0.0.1:0", tcp("127.0.0.1", 0)),
            ("tcp://[::1]:65535", tcp("::1", 65535)),
            ("tcp://my-host_1.example.org:80", tcp("my-host_1.example.org", 80)),
            ("tls://db1.example:7448", tls("db1.example", 7448, None)),
            ("tls://[::1]:1", tls("::1", 1, None)),
            ("ws://localhost:7449", ws("localhost", 7449, "/")),
            ("ws://[::1]:1/a/b-c", ws("::1", 1, "/a/b-c")),
            ("wss://db1.example:443", wss("db1.example", "/", None)),
            (&format!("wss://db1.example:443/x#{PIN}"), wss("db1.example", "/x", PIN.parse().ok())),
            (&format!("tls://db1.example:7448#{PIN}"), tls("db1.example", 7448, PIN.parse().ok())),
        ];
        for (text, address) in table {
            assert_eq!(text.parse(), Ok(address.clone()), "{text}");
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn wrong_addresses_say_what_a_right_one_looks_like() {
        let table = [
            ("", "add a scheme"),
            ("/run/bifrost", "add a scheme"),
            ("localhost:80", "add a scheme"),
            ("http://x:1", "`http` is not a transport"),
            ("SHM:///x", "`SHM` is not a transport"),
            ("://", "`` is not a transport"),
            ("shm://relative", "write three slashes, as in `shm:///"),
            ("unix://", "write three slashes, as in `unix:///"),
            ("shm:///", "names no file"),
            ("unix:///dir/", "names no file"),
            ("unix:///dir/..", "names no file"),
            ("unix:///nul\0", "names no file"),
            ("tcp://localhost", "has no port"),
            ("tcp://[::1]", "has no port"),
            ("tcp://[::1]80", "has no port"),
            ("tcp://localhost:", "`` is not a port"),
            ("tcp://localhost:65536", "`65536` is not a port"),
            ("tcp://localhost:+80", "`+80` is not a port"),
            ("tcp://localhost:80/", "`80/` is not a port"),
            ("tcp://::1:80", "needs brackets"),
            ("tcp://[::1:80", "is not a host"),
            ("tcp://[localhost]:80", "`[localhost]` is not a host"),
            ("tcp://:80", "`` is not a host"),
            ("tcp://user@host:80", "`user@host` is not a host"),
            ("tcp://a b:80", "`a b` is not a host"),
            ("tcp://localhost:80#sha256-x", "`80#sha256-x` is not a port"),
            ("tls://localhost", "write `tls://host:port`"),
            ("tls://localhost:80#", "`` cannot follow `#` in a `tls://` address"),
            ("tls://localhost:80#sha256-x", "`sha256-x` cannot follow `#`"),
            ("wss://localhost/#sha256-x", "`sha256-x` cannot follow `#` in a `wss://` address"),
            ("ws://localhost:/", "`` is not a port"),
            ("ws://localhost/a b", "`/a b` is not the path of a URL"),
            ("ws://localhost/a?b", "`/a?b` is not the path of a URL"),
            ("ws:///a", "`` is not a host"),
        ];
        for (text, expected) in table {
            let message = text.parse::<Address>().expect_err(text).to_string();
            assert!(message.contains(expected), "{text}: {message}");
            let shown =
                ["tcp://", "tls://", "ws://", "wss://", ":///"].iter().any(|form| message.contains(form));
            assert!(shown, "{message}");
        }
    }

    #[test]
    fn loopback_is_decided_by_every_resolved_address() {
        let table = [
            ("shm:///a", true),
            ("unix:///a", true),
            ("tcp://127.9.9.9:1", true),
            ("tcp://[::1]:1", true),
            ("tcp://[::ffff:127.0.0.1]:1", true),
            ("tcp://0.0.0.0:1", false),
            ("tcp://[::]:1", false),
            ("tcp://192.0.2.1:1", false),
            ("tls://127.0.0.1:1", true),
            ("tls://192.0.2.1:1", false),
            ("ws://127.0.0.1:1/x", true),
            ("wss://192.0.2.1", false),
        ];
        for (text, expected) in table {
            assert_eq!(text.parse::<Address>().unwrap().is_loopback(), expected, "{text}");
        }
    }
}
