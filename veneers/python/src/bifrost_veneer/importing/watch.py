"""Watches the traders of a service, so that new servers are used before old ones are lost.

A thread for each trader (:class:`Watch`), or a task (:class:`AsyncWatch`), waits in ``changes`` and
asks again after each change. It connects to another server for one of these reasons, and the next
run takes it:

| reason | server |
| --- | --- |
| the first offer is new, and so no run has had the choice | that of the first offer |
| the query orders offers by a property or by age, and another one is the first now | the same |
| the offer in use was listed by this trader, and is not any more | the same |

A load alone is no change at a trader, and moves nobody. So clients spread over a new server by the
query's order, and otherwise stay where they are.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from ..asession import AsyncSession
from ..errors import BifrostError
from ..session import Session
from ..stubs import Stub
from .dial import PATIENCE, SCHEMES, Imported, Search
from .offers import Offer, is_among, usable_addresses

P = TypeVar("P", bound=Stub[Any])

#: The seconds of one call of ``changes``, and so the longest time until a thread ends.
_WITHIN = 5.0
#: The seconds of the first and of the longest pause before a trader that was lost is asked again.
_PAUSES = (1.0, 30.0)
#: The most offers that are remembered as known.
KNOWN_MAX = 256


def is_ordered(prefer: str) -> bool:
    """True if the preference names the same best offer for all clients. A load does not: it differs
    from call to call.
    """
    by_number = re.fullmatch(r"(min|max)\((.*)\)", prefer)
    return prefer == "first" or (by_number is not None and by_number[2] != "load")


class Knowledge:
    """The offers that a service knows, and the choice of another server."""

    def __init__(self, in_use: Imported, seen: Sequence[Offer], prefer: str) -> None:
        self.in_use = in_use
        #: The offers that were seen at any trader, the last ones at the end.
        self.known = list(seen)
        self._is_ordered = is_ordered(prefer)

    def consider(
        self, offers: Sequence[Offer], are_all: bool, listed: Sequence[Offer]
    ) -> Offer | None:
        """Notes the offers of a trader, which has listed others before. Returns the one whose
        server is to be used instead of that in use; None if there is no reason.
        """
        chosen = self._choose(offers, are_all, listed)
        self.known += [offer for offer in offers if not is_among(offer, self.known)]
        del self.known[:-KNOWN_MAX]
        return chosen

    def _choose(
        self, offers: Sequence[Offer], are_all: bool, listed: Sequence[Offer]
    ) -> Offer | None:
        in_use = self.in_use.offer
        if not offers or offers[0].doubtful or offers[0].is_same(in_use):
            return None
        first = offers[0]
        is_gone = are_all and is_among(in_use, listed) and not is_among(in_use, offers)
        is_new = not is_among(first, self.known)
        return first if is_new or self._is_ordered or is_gone else None


class Watch(Generic[P]):
    """The watch of a service, by threads. They end soon after :meth:`stop`."""

    def __init__(
        self, search: Search, cls: type[P], in_use: Imported, seen: Sequence[Offer]
    ) -> None:
        self._search = search
        self._cls = cls
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._knowledge = Knowledge(in_use, seen, search.url.prefer)
        #: A server for the next run.
        self._ready: tuple[Session, P] | None = None
        for trader in range(len(search.traders)):
            threading.Thread(
                target=self._watch, args=(trader,), name="bifrost-watch", daemon=True
            ).start()

    # For the service.

    def take_ready(self) -> tuple[Session, P] | None:
        """Takes the server for the next run, if there is one."""
        with self._lock:
            ready, self._ready = self._ready, None
        return ready

    def use_server(self, imported: Imported) -> None:
        """Notes the server in use."""
        with self._lock:
            self._knowledge.in_use = imported
        # It was made for another one.
        self._replace(None)

    def stop(self) -> None:
        """Ends the watch."""
        self._stop.set()
        self._replace(None)

    def _replace(self, ready: tuple[Session, P] | None) -> None:
        with self._lock:
            if self._stop.is_set():
                old = ready
            else:
                old, self._ready = self._ready, ready
        if old is not None:
            old[0]._leave()

    # The threads.

    def _watch(self, trader: int) -> None:
        pause = _PAUSES[0]
        while not self._stop.is_set():
            try:
                session = self._search.trader(trader, _WITHIN + PATIENCE)
                try:
                    pause = _PAUSES[0]
                    self._follow(session)
                    return
                finally:
                    session._leave()
            except (BifrostError, OSError):
                # It is told by the next search, if that needs this trader.
                self._stop.wait(pause)
                pause = min(2 * pause, _PAUSES[1])

    def _follow(self, session: Session) -> None:
        """Follows the changes at a trader until the watch ends."""
        counter, listed = 0, list[Offer]()
        while True:
            before = counter
            counter = self._search.changes(session, before, _WITHIN)
            if self._stop.is_set():
                return
            if counter != before:
                offers, are_all = self._search.find(session)
                with self._lock:
                    chosen = self._knowledge.consider(offers, are_all, listed)
                listed = offers
                if chosen is not None:
                    self._connect(chosen)

    def _connect(self, offer: Offer) -> None:
        for address in usable_addresses(offer, self._search.host, SCHEMES):
            try:
                session, made = self._search.dial(offer, address, self._cls)
            except (BifrostError, OSError):
                continue
            assert made is not None
            session.service = Imported(offer, address)
            self._replace((session, made))
            return


class AsyncWatch(Generic[P]):
    """The watch of a service, by tasks."""

    def __init__(
        self, search: Search, cls: type[P], in_use: Imported, seen: Sequence[Offer]
    ) -> None:
        self._search = search
        self._cls = cls
        self._knowledge = Knowledge(in_use, seen, search.url.prefer)
        self._ready: tuple[AsyncSession, P] | None = None
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._watch(trader), name="bifrost-watch")
            for trader in range(len(search.traders))
        ]

    def take_ready(self) -> tuple[AsyncSession, P] | None:
        """Takes the server for the next run, if there is one."""
        ready, self._ready = self._ready, None
        return ready

    def use_server(self, imported: Imported) -> None:
        """Notes the server in use."""
        self._knowledge.in_use = imported
        self._replace(None)

    async def stop(self) -> None:
        """Ends the watch."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._replace(None)

    def _replace(self, ready: tuple[AsyncSession, P] | None) -> None:
        old, self._ready = self._ready, ready
        if old is not None:
            old[0]._leave()

    async def _watch(self, trader: int) -> None:
        pause = _PAUSES[0]
        while True:
            try:
                session = await self._search.atrader(trader, _WITHIN + PATIENCE)
                try:
                    pause = _PAUSES[0]
                    await self._follow(session)
                finally:
                    session._leave()
            except (BifrostError, OSError):
                # It is told by the next search, if that needs this trader.
                await asyncio.sleep(pause)
                pause = min(2 * pause, _PAUSES[1])

    async def _follow(self, session: AsyncSession) -> None:
        counter, listed = 0, list[Offer]()
        while True:
            before = counter
            counter = await self._search.achanges(session, before, _WITHIN)
            if counter != before:
                offers, are_all = await self._search.afind(session)
                chosen = self._knowledge.consider(offers, are_all, listed)
                listed = offers
                if chosen is not None:
                    await self._connect(chosen)

    async def _connect(self, offer: Offer) -> None:
        for address in usable_addresses(offer, self._search.host, SCHEMES):
            try:
                session, made = await self._search.adial(offer, address, self._cls)
            except (BifrostError, OSError):
                continue
            assert made is not None
            session.service = Imported(offer, address)
            self._replace((session, made))
            return
