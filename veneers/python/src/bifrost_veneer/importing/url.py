"""URLs that name a trader and a question: ``trader://host/DataBase?region=eu&prefer=min(load)``.

    trader://HOST[:PORT]/SERVICE[?QUERY][#PIN]          a trader over TLS
    trader+tcp://HOST[:PORT]/SERVICE[?QUERY]            over TCP
    trader+unix:///PATH?service=SERVICE[&QUERY]         at a socket of this machine
    trader:///SERVICE[?QUERY]                           the traders that the program knows

The path of a socket and the name of a service may have percent-escapes. The trader checks the
query, and says where it is wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from ..io.address import AddressError

#: The port of a trader, if a URL names none.
PORT = 7450
#: The most bytes of a URL.
URL_BYTES_MAX = 4096
#: The most bytes of the name of a service.
SERVICE_BYTES_MAX = 256

#: How the trader of a host is reached, by the scheme of the URL.
_TRANSPORTS = {"trader": "tls", "trader+quic": "quic", "trader+tcp": "tcp"}

_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def is_trader(url: str) -> bool:
    """True if a text has the scheme of a trader's URL."""
    scheme, colon, _ = url.partition("://")
    return bool(colon) and (scheme == "trader" or scheme.startswith("trader+"))


def split_addresses(text: str) -> list[str]:
    """Returns the addresses in a list that spaces or commas separate."""
    return [one for one in re.split(r"[\s,]+", text) if one]


@dataclass(frozen=True)
class TraderUrl:
    """A URL of a service at a trader."""

    #: The address of the trader; None for those in the environment.
    trader: str | None
    service: str
    query: str

    @property
    def prefer(self) -> str:
        """The preferred order of offers, as the query has it; empty if it has none."""
        parts = [part for part in self.query.split("&") if part.startswith("prefer=")]
        return parts[0].removeprefix("prefer=") if parts else ""


def parse_trader_url(text: str) -> TraderUrl:
    """Reads a URL. Raises :class:`AddressError`."""
    size = len(text.encode(errors="replace"))
    if size > URL_BYTES_MAX:
        raise AddressError(f"the URL has {size} bytes; it may have {URL_BYTES_MAX}")
    if re.search(r"[\s\x00-\x1f\x7f]", text):
        raise AddressError("the URL has a space or a control character; write `%20` for a space")
    scheme, _, rest = text.partition("://")
    rest, hash_sign, pin = rest.partition("#")
    place, _, query = rest.partition("?")
    if hash_sign and scheme not in ("trader", "trader+quic"):
        raise AddressError(
            f"`#{pin}` is a pin, which `trader://` and `trader+quic://` have: other traders have no certificate"
        )
    if scheme == "trader+unix":
        return _at_socket(text, place, query)
    if scheme not in _TRANSPORTS:
        raise AddressError(
            f"`{text}` is no URL of a trader: write `trader://host/Service?query`, "
            "`trader+quic://host/Service?query`, `trader+tcp://host/Service?query` or "
            "`trader+unix:///path?service=Service&query`"
        )
    host, _, service = place.partition("/")
    if not service:
        raise AddressError(
            f"`{text}` names no service: write the type of the object, as in `trader://host/DataBase`"
        )
    service = _service(service)
    if not host:
        if scheme != "trader":
            raise AddressError(f"`{text}` names no host: write `{scheme}://host:port/Service`")
        if hash_sign:
            raise AddressError(
                f"`#{pin}` is a pin, and the URL names no trader: write pins where the traders are named"
            )
        return TraderUrl(None, service, query)
    host = host if ":" in host.rpartition("]")[2] else f"{host}:{PORT}"
    return TraderUrl(f"{_TRANSPORTS[scheme]}://{host}{hash_sign}{pin}", service, query)


def _at_socket(text: str, place: str, query: str) -> TraderUrl:
    path = _unescape(place)
    if path is None or not path.startswith("/"):
        raise AddressError(
            f"`{place}` is no absolute path: write three slashes, as in "
            "`trader+unix:///run/trader?service=DataBase`"
        )
    parts = query.split("&")
    services = [part.removeprefix("service=") for part in parts if part.startswith("service=")]
    if len(services) > 1:
        raise AddressError("`service` is there twice; leave one out")
    if not services or not services[0]:
        raise AddressError(
            f"`{text}` names no service: write the type of the object, as in "
            "`trader+unix:///run/trader?service=DataBase`"
        )
    rest = "&".join(part for part in parts if not part.startswith("service="))
    return TraderUrl(f"unix://{path}", _service(services[0]), rest)


def _unescape(text: str) -> str | None:
    """Returns a text without percent-escapes; None if one of them is none, or hides a control
    character.
    """
    if _ESCAPE.search(text):
        return None
    try:
        found = unquote(text, errors="strict")
    except UnicodeDecodeError:
        return None
    return None if re.search(r"[\x00-\x1f\x7f]", found) else found


def _service(text: str) -> str:
    name = None if "/" in text else _unescape(text)
    if name is None or len(name.encode(errors="replace")) > SERVICE_BYTES_MAX:
        raise AddressError(
            f"`{text}` is no name of a type: write it as the program has it, with `%25` for `%`"
        )
    return name
