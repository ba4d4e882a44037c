"""Carries out the actions of :class:`.importer.Importer` by tasks of asyncio; see
:mod:`.search`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from ..asession import AsyncSession
from ..errors import BifrostError, ConnectError
from ..recorder.numbers import Stubs
from ..session import Options
from ..stubs import Stub
from .dial import Imported, Search
from .importer import Ask, Cancel, Dial, Fail, Next, Use
from .offers import Offer
from .search import Account, Asked, Dialled, new_importer

P = TypeVar("P", bound=Stub[Any])

_Opened = tuple[AsyncSession, P | None]


class _Round(Generic[P]):
    """The tasks of one search."""

    def __init__(self) -> None:
        self.reports: asyncio.Queue[Asked | Dialled[_Opened[P]]] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, Asked | Dialled[_Opened[P]]]) -> None:
        """Starts a task."""

        async def run() -> None:
            self.reports.put_nowait(await work)

        task = asyncio.get_running_loop().create_task(run(), name="bifrost-import")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Ends the round: cancels its tasks, and closes what they have opened meanwhile."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while not self.reports.empty():
            report = self.reports.get_nowait()
            if isinstance(report, Dialled) and not isinstance(report.outcome, Exception):
                report.outcome[0]._leave()


class AsyncSearcher(Generic[P]):
    """A search with the server that it has found, to be awaited."""

    def __init__(self, search: Search, cls: type[P] | None) -> None:
        self.settings = search
        #: The type of the object to be looked up; None for the session alone.
        self.cls = cls
        self._loop = asyncio.get_running_loop()
        self.importer = new_importer(search, self._loop.time())
        #: The offers that the last search has had to choose from.
        self.seen: list[Offer] = []

    async def search(self, step: Next | None) -> tuple[AsyncSession, P | None]:
        """Finds a server and connects to it; after a loss, as the step says. Not again after an
        error. Raises :class:`ConnectError`.
        """
        importer, search, loop = self.importer, self.settings, self._loop
        if step is not None:
            importer.lost(step, loop.time())
        round_: _Round[P] = _Round()
        account: Account[_Opened[P]] = Account(search, importer)
        try:
            while True:
                now = loop.time()
                match importer.poll(now):
                    case None:
                        if account.is_vain():
                            importer.give_up()
                        else:
                            await self._wait(round_, account, now)
                    case Ask() as ask:
                        round_.start(self._ask(ask))
                    case Dial() as dial:
                        round_.start(self._dial(dial))
                    case Cancel(number):
                        _drop(account.opened.pop(number, None))
                    case Use(dial):
                        return self._use(account, dial)
                    case Fail(why):
                        raise account.failed(why)
        finally:
            self.seen = account.seen
            for opened in account.opened.values():
                _drop(opened)
            await round_.end()

    async def _wait(self, round_: _Round[P], account: Account[_Opened[P]], now: float) -> None:
        until = self.importer.next_deadline()
        try:
            async with asyncio.timeout(None if until is None else max(until - now, 0)):
                report = await round_.reports.get()
        except TimeoutError:
            return
        account.take(report, self._loop.time())

    def _use(self, account: Account[_Opened[P]], dial: Dial) -> tuple[AsyncSession, P | None]:
        session, made = account.opened.pop(dial.id)
        session._timeout = self.settings.options.timeout
        session.service = Imported(dial.offer, dial.address)
        return session, made

    async def _ask(self, ask: Ask) -> Asked:
        try:
            return Asked(ask, await self.settings.aask(ask.trader))
        except (BifrostError, OSError) as error:
            return Asked(ask, error)

    async def _dial(self, dial: Dial) -> Dialled[_Opened[P]]:
        try:
            return Dialled(dial, await self.settings.adial(dial.offer, dial.address, self.cls))
        except (BifrostError, OSError) as error:
            return Dialled(dial, error)


def _drop(opened: tuple[AsyncSession, Any] | None) -> None:
    if opened is not None:
        opened[0]._leave()


async def connect_imported(stubs: Stubs | None, url: str, options: Options) -> AsyncSession:
    """Opens a session with a server that traders know. Raises :class:`ConnectError`."""
    if stubs is None:
        raise ConnectError("a service is imported with generated stubs")
    searcher: AsyncSearcher[Any] = AsyncSearcher(Search.of(stubs, url, options), None)
    return (await searcher.search(None))[0]
