"""Sessions with servers that a trader knows: ``trader://host/DataBase?region=eu``.

    trader://HOST[:PORT]/SERVICE[?QUERY][#PIN]          a trader over TLS
    trader+tcp://HOST[:PORT]/SERVICE[?QUERY]            over TCP
    trader+unix:///PATH?service=SERVICE[&QUERY]         at a socket of this machine
    trader:///SERVICE[?QUERY]                           the traders in BIFROST_TRADER

The traders are asked in turn until one has answered; its offers are tried in their order, addresses
of this machine first. The token for traders is the option ``trader_token`` or BIFROST_TRADER_TOKEN.
The token for the server is shown only where nobody can read it on the way.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

from .errors import BifrostError, ConnectError
from .io.address import Address, AddressError, parse_address
from .io.tls import TlsOptions
from .recorder.numbers import Stubs
from .runtime import DynamicSession, make_stubs
from .session import Options, Session, open_at

#: The variables with the addresses of traders, and with the token for them.
TRADERS = "BIFROST_TRADER"
TRADER_TOKEN = "BIFROST_TRADER_TOKEN"
#: The port of a trader, if a URL names none.
PORT = 7450
#: The most traders that are asked, and the most seconds for one trader or server.
TRADERS_MAX = 16
_PATIENCE = 5.0
#: The name of the trader's object at its server.
_TRADER = "trader"
_URL_BYTES_MAX = 4096

S = TypeVar("S", bound=Session)


def is_trader(url: str) -> bool:
    """True if a text has the scheme of a trader's URL."""
    scheme = url.partition("://")[0]
    return "://" in url and (scheme == "trader" or scheme.startswith("trader+"))


@dataclass(frozen=True)
class TraderUrl:
    """A URL of a service at a trader."""

    #: The address of the trader; None for those in the environment.
    trader: str | None
    service: str
    query: str


def parse_trader_url(text: str) -> TraderUrl:
    """Reads a URL. Raises :class:`AddressError`."""
    if len(text) > _URL_BYTES_MAX:
        raise AddressError(f"the URL has {len(text)} bytes; it may have {_URL_BYTES_MAX}")
    if re.search(r"[\s\x00-\x1f\x7f]", text):
        raise AddressError("the URL has a space or a control character; write `%20` for a space")
    scheme, _, rest = text.partition("://")
    rest, hash_sign, pin = rest.partition("#")
    place, _, query = rest.partition("?")
    if hash_sign and scheme != "trader":
        raise AddressError(
            f"`#{pin}` is a pin, and only `trader://` has one: its trader is reached over TLS"
        )
    if scheme == "trader+unix":
        path = unquote(place, errors="strict")
        if not path.startswith("/"):
            raise AddressError(f"`{place}` is no absolute path: write three slashes")
        parts = query.split("&")
        services = [part.removeprefix("service=") for part in parts if part.startswith("service=")]
        if len(services) != 1 or not services[0]:
            raise AddressError(
                f"`{text}` names no service, or two: write `trader+unix:///run/trader?service=DataBase`"
            )
        rest = "&".join(part for part in parts if not part.startswith("service="))
        return TraderUrl(f"unix://{path}", unquote(services[0]), rest)
    if scheme not in ("trader", "trader+tcp"):
        raise AddressError(f"`{text}` is no URL of a trader: write `trader://host/Service?query`")
    host, _, service = place.partition("/")
    if not service or "/" in service:
        raise AddressError(
            f"`{text}` names no service: write the type of the object, as in `trader://host/DataBase`"
        )
    if not host:
        if hash_sign or scheme == "trader+tcp":
            raise AddressError(f"`{text}` names no host")
        return TraderUrl(None, unquote(service), query)
    host = host if ":" in host.rpartition("]")[2] else f"{host}:{PORT}"
    transport = "tls" if scheme == "trader" else "tcp"
    return TraderUrl(f"{transport}://{host}{hash_sign}{pin}", unquote(service), query)


@dataclass(frozen=True)
class Imported:
    """The server of a session that was imported."""

    #: The name under which the object is found there.
    name: str
    #: The type that it was exported as.
    service: str
    address: str


def _traders(url: TraderUrl) -> list[Address]:
    """Returns the addresses of the traders."""
    if url.trader is not None:
        return [parse_address(url.trader)]
    named = [one for one in re.split(r"[\s,]+", os.environ.get(TRADERS, "")) if one]
    if not named:
        raise ConnectError(
            f"the URL names no trader, and {TRADERS} is not set: write `trader://host/Service`, or set it to the "
            "addresses of traders, as in `tls://trader.example:7450`"
        )
    if len(named) > TRADERS_MAX:
        raise ConnectError(f"{TRADERS} names {len(named)} traders; at most {TRADERS_MAX} are asked")
    return [parse_address(one) for one in named]


def _settings(options: Options, address: Address, timeout: float, token: str) -> Options:
    """Returns the settings for a trader or a server; a pin needs no authorities."""
    tls = options.tls
    if address.pin is not None:
        tls = TlsOptions(None, tls.certificate, tls.key)
    changed = Options(token, options.name, timeout)
    changed.tls, changed.settings = tls, options.settings
    return changed


def _ask(
    address: Address, url: TraderUrl, stubs: Stubs, options: Options, timeout: float
) -> list[Any]:
    """Asks a trader; teaches it the client's interface if it does not know it."""
    token = (
        options.trader_token
        if options.trader_token is not None
        else os.environ.get(TRADER_TOKEN, "")
    )
    settings = _settings(options, address, timeout, token)
    session = open_at(DynamicSession, None, address, settings, make_stubs)
    try:
        trader: Any = session.lookup(_TRADER, session.stubs.Trader)

        def find() -> Any:
            return trader.find(url.service, stubs.digest.hex(), url.query, 0, host()).get().claim()

        try:
            found = find()
        except session.stubs.UnknownInterface:
            text = stubs.load()
            trader.teach(text if isinstance(text, str) else text.decode()).claim()
            found = find()
        return list(found.offers)
    finally:
        session._leave()


def _places(offers: list[Any]) -> Iterator[tuple[Any, Address]]:
    """Yields the addresses of offers: those of this machine first, then the others as listed."""
    for offer in offers:
        addresses = []
        for text in offer.addresses:
            try:
                addresses.append(parse_address(text))
            except AddressError:
                # Of a transport that this client has not.
                continue
        for address in sorted(addresses, key=lambda one: one.scheme != "unix"):
            yield offer, address


@dataclass
class Search:
    """A search for servers of a service: what was asked, found, and tried."""

    url: TraderUrl
    deadline: float
    failures: list[str]
    places: list[tuple[Imported, Address]]

    @property
    def within(self) -> float:
        """The longest time of the next step."""
        return min(_PATIENCE, self.deadline - time.monotonic())

    def settings(self, options: Options, address: Address) -> Options:
        """Returns the settings for a server. Where others could read it, the token is not shown to
        a server that a trader has named.
        """
        return _settings(options, address, self.within, options.token if address.is_private else "")

    def note(self, address: Address, error: Exception, options: Options) -> None:
        """Notes a server that was tried in vain."""
        hidden = options.token and not address.is_private
        plain = "; the token is not shown without encryption" if hidden else ""
        self.failures.append(f"{address}: {error}{plain}")

    def failed(self) -> ConnectError:
        """Returns the failure of a search whose places were tried in vain."""
        what = "no server has answered" if self.places else "the traders know no server of it"
        return _failure(self.url, what, self.failures)


def search(stubs: Stubs, url: str, options: Options) -> Search:
    """Asks the traders of a URL for servers. Raises :class:`ConnectError`."""
    try:
        parsed = parse_trader_url(url)
        traders = _traders(parsed)
    except (AddressError, UnicodeDecodeError) as error:
        raise ConnectError(str(error)) from None
    found = Search(parsed, time.monotonic() + options.timeout, [], [])
    for address in traders:
        if found.within <= 0:
            break
        try:
            offers = _ask(address, parsed, stubs, options, found.within)
        except (BifrostError, OSError) as error:
            found.failures.append(f"{address}: {error}")
            continue
        places = _places(offers)
        found.places = [(Imported(o.name, o.service, str(place)), place) for o, place in places]
        return found
    raise _failure(parsed, "no trader has answered", found.failures)


def import_session(cls: type[S], stubs: Stubs, url: str, options: Options) -> S:
    """Opens a session with a server that traders know. Raises :class:`ConnectError`."""
    found = search(stubs, url, options)
    for imported, address in found.places:
        if found.within <= 0:
            break
        try:
            session = open_at(cls, stubs, address, found.settings(options, address))
        except (BifrostError, OSError) as error:
            found.note(address, error, options)
            continue
        session._wire.timeout = options.timeout
        session.service = imported
        return session
    raise found.failed()


def host() -> str:
    """Returns the identity of this machine until its next boot, if the system has one."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


def _failure(url: TraderUrl, what: str, failures: list[str]) -> ConnectError:
    return ConnectError("; ".join([f"cannot import `{url.service}`: {what}", *failures]))
