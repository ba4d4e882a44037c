"""The place where a server listens, as a URL: ``unix:///path``, ``tcp://host:port``,
``tls://host:port``, ``ws://host:port/path``, ``wss://host:port/path``; with the native library also
``shm:///path`` and ``quic://host:port``.

A ``tls``, ``quic`` or ``wss`` address may end with a pin, ``#sha256-...``: the key that the server must
have.
"""

from __future__ import annotations

import base64
import ipaddress
import re
import socket
from dataclasses import dataclass

from .. import native

_SCHEMES = ("unix", "shm", "tcp", "tls", "quic", "ws", "wss")
#: Those whose place is a file.
_LOCAL = ("unix", "shm")
#: What to do instead of an address that needs the native library.
_WITHOUT_NATIVE = {
    "shm": "shared memory needs the package bifrost_native: install it, or connect to `unix:///path`",
    "quic": "QUIC needs the package bifrost_native: install it, or connect to `tls://host:port` or "
    "`wss://host:port`, if the server listens there too",
}
_FORMS = (
    f"`unix:///path`, {'`shm:///path`, ' if native.module else ''}`tcp://host:port`, `tls://host:port`, "
    f"{'`quic://host:port`, ' if native.module else ''}`ws://host:port` or `wss://host:port`, or "
    "`trader://host/Service` for a server that traders know"
)
_PORTS = {"ws": 80, "wss": 443}
_HOST = re.compile(r"[A-Za-z0-9._-]+")
_PATH = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@%/]*")


class AddressError(ValueError):
    """A text is no address."""


@dataclass(frozen=True)
class Address:
    """The place where a server listens."""

    scheme: str
    #: The path of a socket's file, or of the URL of a websocket.
    path: str = ""
    host: str = ""
    port: int = 0
    #: The SHA-256 of the key that the server must have.
    pin: bytes | None = None

    @property
    def is_tls(self) -> bool:
        """True if it is one of TLS over a socket of TCP."""
        return self.scheme in ("tls", "wss")

    @property
    def is_web(self) -> bool:
        """True if it is a websocket."""
        return self.scheme in ("ws", "wss")

    @property
    def is_native(self) -> bool:
        """True if the native library makes its connections."""
        return self.scheme in _WITHOUT_NATIVE

    @property
    def may_ask_for_token(self) -> bool:
        """True if a server there may ask for a token: over unix sockets the kernel tells it the
        user.
        """
        return self.scheme not in _LOCAL

    @property
    def is_private(self) -> bool:
        """True if bytes are encrypted between the client and the server, or do not leave the
        machine.
        """
        is_encrypted = self.is_tls or self.scheme == "quic"
        return self.scheme in _LOCAL or is_encrypted or self._is_loopback()

    def _is_loopback(self) -> bool:
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            # No host, or a name that none can have.
            return False
        return bool(found) and all(ipaddress.ip_address(one[4][0]).is_loopback for one in found)

    def __str__(self) -> str:
        if self.scheme in _LOCAL:
            return f"{self.scheme}://{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        pin = ""
        if self.pin is not None:
            pin = "#sha256-" + base64.urlsafe_b64encode(self.pin).decode().rstrip("=")
        return f"{self.scheme}://{host}:{self.port}{self.path}{pin}"


def parse_address(text: str) -> Address:
    """Reads an address. Raises :class:`AddressError`."""
    scheme, colon, rest = text.partition("://")
    if not colon:
        raise AddressError(f"`{text}` is not an address: add a scheme, as in {_FORMS}")
    if scheme in _WITHOUT_NATIVE and native.module is None:
        raise AddressError(_WITHOUT_NATIVE[scheme])
    if scheme not in _SCHEMES:
        raise AddressError(f"`{scheme}` is not a transport: an address is {_FORMS}")
    if scheme in _LOCAL:
        if not rest.startswith("/"):
            raise AddressError(
                f"`{rest}` is not an absolute path: write three slashes, as in `{scheme}:///run/bifrost/main`"
            )
        if rest.endswith("/"):
            raise AddressError(
                f"`{rest}` names no file: write the path of a socket, as in `{scheme}:///run/bifrost/main`"
            )
        return Address(scheme, path=rest)
    pin = None
    if scheme in ("tls", "quic", "wss"):
        rest, hash_sign, fragment = rest.partition("#")
        pin = _parse_pin(scheme, fragment) if hash_sign else None
    path = ""
    if scheme in ("ws", "wss"):
        rest, slash, more = rest.partition("/")
        path = slash + more or "/"
        if not _PATH.fullmatch(path):
            raise AddressError(f"`{path}` is not the path of a URL")
    host, port = _host_and_port(scheme, rest)
    return Address(scheme, path, host, port, pin)


def _parse_pin(scheme: str, fragment: str) -> bytes:
    digits = fragment.removeprefix("sha256-")
    try:
        pin = base64.b64decode(digits + "=", altchars=b"-_", validate=True)
    except ValueError:
        pin = b""
    if not fragment.startswith("sha256-") or len(digits) != 43 or len(pin) != 32:
        raise AddressError(
            f"`{fragment}` cannot follow `#` in a `{scheme}://` address: a pin is `sha256-` and 43 characters"
        )
    return pin


def _host_and_port(scheme: str, rest: str) -> tuple[str, int]:
    if rest.startswith("["):
        host, bracket, behind = rest[1:].partition("]")
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            bracket = ""
        if not bracket or (behind and not behind.startswith(":")):
            raise AddressError(f"`{rest}` is not a host: write an IPv6 address in brackets")
        colon, port = behind[:1], behind[1:]
    else:
        host, colon, port = rest.rpartition(":")
        if not colon:
            host, port = rest, ""
        if ":" in host:
            raise AddressError(
                f"an IPv6 address, such as `{host}`, needs brackets, as in `tcp://[::1]:7447`"
            )
        if not _HOST.fullmatch(host):
            raise AddressError(
                f"`{host}` is not a host: write a name, an IPv4 address or an IPv6 address in brackets"
            )
    if not colon and scheme in _PORTS:
        return host, _PORTS[scheme]
    if not colon:
        raise AddressError(
            f"`{rest}` has no port: write `{scheme}://host:port`, as in `{scheme}://localhost:7447`"
        )
    # Python refuses to read very long numbers.
    digits = port.lstrip("0") or port[:1]
    if not digits.isascii() or not digits.isdigit() or len(digits) > 5 or int(digits) > 0xFFFF:
        raise AddressError(f"`{port}` is not a port: write a number from 0 to 65535")
    return host, int(digits)
