"""The settings of a search, and the sessions that it opens: with traders, and with servers.

:class:`Search` is the type to read first. :mod:`.search` and :mod:`.asearch` say when a trader is
asked and when a server is dialled.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar, Unpack

from .. import native
from ..asession import AsyncSession, aopen_at
from ..errors import BadToken, BifrostError, Closed, ConnectError
from ..generated import ConnectOptions
from ..io.address import Address, AddressError, parse_address
from ..io.tls import TlsOptions
from ..kinds import ObjectKind
from ..recorder.numbers import Stubs
from ..session import Options, Session, open_at
from ..stubs import Stub
from ..values import Plain
from .importer import Timing
from .offers import Offer, host, parse_property
from .trader import bifrost_stubs as trader_stubs
from .url import TraderUrl, parse_trader_url, split_addresses

#: The variables with the addresses of traders, and with the token for them.
TRADERS = "BIFROST_TRADER"
TRADER_TOKEN = "BIFROST_TRADER_TOKEN"
#: The most traders of a search.
TRADERS_MAX = 16
#: The most failures that a :class:`NotImported` lists: the last one of each place.
ATTEMPTS_MAX = 8
#: The most seconds for which one trader or one server is waited for.
PATIENCE = 5.0
#: The name of the trader's object at its server.
_TRADER = "trader"
#: The schemes of servers that sessions can use.
SCHEMES = (*(["shm", "quic"] if native.module else []), "unix", "tls", "tcp", "wss", "ws")

P = TypeVar("P", bound=Stub[Any])


@dataclass(frozen=True)
class Imported:
    """The server of a session that was imported."""

    offer: Offer
    address: str

    @property
    def name(self) -> str:
        """The name under which the object is found there."""
        return self.offer.name

    @property
    def service(self) -> str:
        """The type under which it was exported."""
        return self.offer.service


@dataclass(frozen=True)
class Attempt:
    """A trader or server that was tried in vain."""

    #: Its address.
    place: str
    #: Its last failure.
    why: Exception


class NotImported(ConnectError):
    """No server of a service was reached. Nothing has run."""

    def __init__(self, service: str, step: str, attempts: Sequence[Attempt]) -> None:
        parts = [f"cannot import `{service}`: {step}"]
        parts += [f"{attempt.place}: {attempt.why}" for attempt in attempts]
        super().__init__("; ".join(parts))
        self.service = service
        #: The places that were tried, each with its last failure; the last ``ATTEMPTS_MAX``.
        self.attempts = tuple(attempts)


class _Final(ConnectError):
    """A failure that the next try has too: a refusal, or a setting."""


def is_final(error: Exception) -> bool:
    """True for a failure that the next try has too: a refusal, a setting, a server of another
    kind.
    """
    if isinstance(error, (_Final, BadToken)):
        return True
    cause = error.__cause__
    if isinstance(cause, ssl.SSLError):
        return not isinstance(cause, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
    # A path that is too long has no number.
    return isinstance(cause, ValueError) or (type(cause) is OSError and cause.errno is None)


@contextmanager
def _refusals(what: str) -> Iterator[None]:
    """Turns the failure of a call into that of the search; the end of a session is none."""
    try:
        yield
    except (ConnectError, Closed):
        raise
    except BifrostError as error:
        raise _Final(f"{what}: {error}") from error


@dataclass(frozen=True)
class Search:
    """A search for servers of a service: what is asked, and with which settings."""

    url: TraderUrl
    traders: tuple[Address, ...]
    #: The client's interface, to which that of a server conforms.
    stubs: Stubs
    options: Options
    host: str

    @classmethod
    def of(cls, stubs: Stubs, url: str, options: Options) -> Search:
        """Makes the search of a URL. Raises :class:`ConnectError`."""
        try:
            parsed = parse_trader_url(url)
            named = [parsed.trader] if parsed.trader is not None else _named_traders()
            traders = tuple(parse_address(one) for one in named)
        except AddressError as error:
            raise ConnectError(str(error)) from None
        return cls(parsed, traders, stubs, options, host())

    @property
    def timing(self) -> Timing:
        """The times of the importer."""
        timeout = self.options.timeout
        return Timing(patience=min(timeout, PATIENCE), timeout=timeout)

    @property
    def patience(self) -> float:
        """The longest time for one trader or one server."""
        return min(self.options.timeout, PATIENCE)

    def failed(self, step: str, attempts: Sequence[Attempt]) -> NotImported:
        """Returns the error of a search."""
        return NotImported(self.url.service, step, attempts)

    def _settings(self, address: Address, timeout: float, token: str) -> Options:
        """Returns the settings for a trader or a server; a pin needs no authorities."""
        tls = self.options.tls
        if address.pin is not None:
            tls = TlsOptions(None, tls.certificate, tls.key)
        changed = Options(token, self.options.name, timeout)
        changed.tls, changed.settings = tls, self.options.settings
        return changed

    # Traders.

    def trader_settings(self, trader: int, timeout: float) -> tuple[Address, Options]:
        """Returns the address of a trader, and the settings for it."""
        token = self.options.trader_token
        if token is None:
            token = os.environ.get(TRADER_TOKEN, "")
        address = self.traders[trader]
        return address, self._settings(address, timeout, token)

    def _find(self, trader: trader_stubs.Trader) -> Plain[trader_stubs.Found]:
        digest = self.stubs.digest.hex()
        return trader.find(self.url.service, digest, self.url.query, 0, self.host).get()

    def _interface(self) -> str:
        text = self.stubs.load()
        return text if isinstance(text, str) else text.decode()

    def find(self, session: Session) -> tuple[list[Offer], bool]:
        """Asks a trader, and teaches it the client's interface if it does not know it. True if
        these are all offers.
        """
        trader = session.lookup(_TRADER, trader_stubs.Trader)
        with _refusals("the trader"):
            try:
                found = self._find(trader).claim()
            except trader_stubs.UnknownInterface:
                session.clear_exceptions()
                trader.teach(self._interface()).claim()
                found = self._find(trader).claim()
        return _offers(found), not found.more

    async def afind(self, session: AsyncSession) -> tuple[list[Offer], bool]:
        """As :meth:`find`, to be awaited."""
        trader = session.lookup(_TRADER, trader_stubs.Trader)
        with _refusals("the trader"):
            try:
                found = await self._find(trader)
            except trader_stubs.UnknownInterface:
                session.clear_exceptions()
                await trader.teach(self._interface())
                found = await self._find(trader)
        return _offers(found), not found.more

    def trader(self, trader: int, timeout: float) -> Session:
        """Opens a session with a trader."""
        address, settings = self.trader_settings(trader, timeout)
        return open_at(Session, trader_stubs.INTERFACE, address, settings)

    async def atrader(self, trader: int, timeout: float) -> AsyncSession:
        """As :meth:`trader`, to be awaited."""
        address, settings = self.trader_settings(trader, timeout)
        return await aopen_at(trader_stubs.INTERFACE, address, settings)

    def changes(self, session: Session, since: int, within: float) -> int:
        """Waits for a change at a trader; returns the counter of changes."""
        with _refusals("the trader"):
            trader = session.lookup(_TRADER, trader_stubs.Trader)
            return trader.changes(self.url.service, since, int(within * 1000)).claim()

    async def achanges(self, session: AsyncSession, since: int, within: float) -> int:
        """As :meth:`changes`, to be awaited."""
        with _refusals("the trader"):
            trader = session.lookup(_TRADER, trader_stubs.Trader)
            return await trader.changes(self.url.service, since, int(within * 1000))

    def ask(self, trader: int) -> list[Offer]:
        """Asks a trader for offers."""
        session = self.trader(trader, self.patience)
        try:
            return self.find(session)[0]
        finally:
            session._leave()

    async def aask(self, trader: int) -> list[Offer]:
        """As :meth:`ask`, to be awaited."""
        session = await self.atrader(trader, self.patience)
        try:
            return (await self.afind(session))[0]
        finally:
            session._leave()

    # Servers.

    def _server(self, address: Address) -> tuple[Options, bool]:
        """Returns the settings for a server, and True if the token is not shown to it: a trader
        has named it, and others could read the token on the way.
        """
        token = self.options.token
        is_hidden = bool(token) and not address.is_private
        return self._settings(address, self.patience, "" if is_hidden else token), is_hidden

    def dial(self, offer: Offer, text: str, cls: type[P] | None) -> tuple[Session, P | None]:
        """Connects to a server, greets it, and looks the object up."""
        address = _address(text)
        settings, is_hidden = self._server(address)
        with _hides(is_hidden, address):
            session = open_at(Session, self.stubs, address, settings)
        try:
            made = None
            if cls is not None:
                with _refusals("the server does not have the object"):
                    made = session.lookup(offer.name, cls)
                    session.resolve(made)
        except BaseException:
            session._leave()
            raise
        return session, made

    async def adial(
        self, offer: Offer, text: str, cls: type[P] | None
    ) -> tuple[AsyncSession, P | None]:
        """As :meth:`dial`, to be awaited."""
        address = _address(text)
        # Looks the name of a host up.
        settings, is_hidden = await asyncio.to_thread(self._server, address)
        with _hides(is_hidden, address):
            session = await aopen_at(self.stubs, address, settings)
        try:
            made = None
            if cls is not None:
                with _refusals("the server does not have the object"):
                    made = session.lookup(offer.name, cls)
                    await session.resolve(made)
        except BaseException:
            session._leave()
            raise
        return session, made


def _address(text: str) -> Address:
    try:
        return parse_address(text)
    except AddressError as error:
        raise _Final(str(error)) from None


@contextmanager
def _hides(is_hidden: bool, address: Address) -> Iterator[None]:
    try:
        yield
    except BadToken as error:
        if not is_hidden:
            raise
        raise _Final(
            f"{address} asks for the token, which is not shown without encryption"
        ) from error


def _named_traders() -> list[str]:
    """Returns the traders of the environment."""
    named = split_addresses(os.environ.get(TRADERS, ""))
    if not named:
        raise AddressError(
            f"the URL names no trader, and {TRADERS} is not set: write `trader://host/Service`, or set it to the "
            "addresses of traders, as in `tls://trader.example:7450`"
        )
    if len(named) > TRADERS_MAX:
        raise AddressError(f"{TRADERS} names {len(named)} traders; at most {TRADERS_MAX} are asked")
    return named


def _offers(found: trader_stubs.Found) -> list[Offer]:
    return [
        Offer(
            listed.id,
            listed.service,
            listed.digest,
            listed.name,
            tuple(listed.addresses),
            MappingProxyType(
                {
                    name: parse_property(value)
                    for name, value in zip(listed.names, listed.values, strict=False)
                }
            ),
            listed.load if listed.load >= 0.0 else None,
            listed.doubtful,
        )
        for listed in found.offers
    ]


def stubs_of(cls: type[Stub[Any]]) -> Stubs:
    """Returns the stubs that a type was generated with. A built-in type has none, and is no
    service.
    """
    kind = getattr(cls, "_kind", None)
    if not isinstance(kind, ObjectKind) or kind.stubs is None:
        raise TypeError(
            f"`{cls.__name__}` is no type of generated stubs: a service is imported with one"
        )
    return kind.stubs


def import_service(cls: type[P], url: str, **options: Unpack[ConnectOptions]) -> tuple[Session, P]:
    """Imports a service: connects to a server that the traders of a URL know, and returns the
    session and the object: ``session, db = bf.import_service(DataBase, url)``.
    """
    from .search import Searcher

    search = Search.of(stubs_of(cls), url, Options(**options))
    session, made = Searcher(search, cls).search(None)
    assert made is not None
    return session, made


async def aimport_service(
    cls: type[P], url: str, **options: Unpack[ConnectOptions]
) -> tuple[AsyncSession, P]:
    """As :func:`import_service`, with a session to be awaited."""
    from .asearch import AsyncSearcher

    search = Search.of(stubs_of(cls), url, Options(**options))
    session, made = await AsyncSearcher(search, cls).search(None)
    assert made is not None
    return session, made
