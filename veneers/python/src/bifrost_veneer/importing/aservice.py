"""A service that stays, for asyncio: see :mod:`.service`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

from ..asession import AsyncSession
from ..errors import BifrostError, ConnectError
from ..generated import ConnectOptions
from ..recording import BatchName
from ..session import Options
from ..stubs import Stub, place_of
from .asearch import AsyncSearcher
from .dial import Imported, Search, stubs_of
from .importer import Next
from .service import Names, Run, ServerLost, is_loss
from .watch import AsyncWatch

P = TypeVar("P", bound=Stub[Any])
R = TypeVar("R")


class AsyncService(Generic[P]):
    """As :class:`.service.Service`, to be awaited. It is used by one task at a time: runs of others
    wait for its end.
    """

    def __init__(self, cls: type[P], url: str, **options: Unpack[ConnectOptions]) -> None:
        """See :class:`.service.Service`."""
        self._cls = cls
        self._url = url
        self._options = Options(**options)
        self._stubs = stubs_of(cls)
        self._searcher: AsyncSearcher[P] | None = None
        self._current: tuple[AsyncSession, P] | None = None
        #: The step after the last loss.
        self._step = Next.AGAIN
        self._watch: AsyncWatch[P] | None = None
        self._names = Names()
        self._turn = asyncio.Lock()

    @property
    def server(self) -> Imported | None:
        """The server of the session, if there is one."""
        return None if self._current is None else self._current[0].service

    async def run(self, body: Callable[[AsyncSession, P], Awaitable[R]]) -> R:
        """As :meth:`.service.Service.run`; ``body`` is a function to be awaited."""
        return await self._run(body, False)

    async def run_named(self, body: Callable[[AsyncSession, P], R]) -> R:
        """As :meth:`.service.Service.run_named`; ``body`` awaits nothing."""
        return await self._run_transaction(body, 0, None, place_of(1))

    async def run_transaction(
        self,
        body: Callable[[AsyncSession, P], R],
        *,
        tries: int = 0,
        name: BatchName | None = None,
    ) -> R:
        """As :meth:`.service.Service.run_transaction`; ``body`` awaits nothing."""
        return await self._run_transaction(body, tries, name, place_of(1))

    async def _run_transaction(
        self,
        body: Callable[[AsyncSession, P], R],
        tries: int,
        name: BatchName | None,
        place: object,
    ) -> R:
        name = self._names.next() if name is None else name

        async def attempt(session: AsyncSession, made: P) -> R:
            return await session._transaction_at(lambda: body(session, made), tries, name, place)

        return await self._run(attempt, True)

    async def _run(self, body: Callable[[AsyncSession, P], Awaitable[R]], is_named: bool) -> R:
        async with self._turn:
            run = Run(is_named)
            while True:
                try:
                    session, made = await self._ready()
                except ConnectError as error:
                    run.without_server(error)
                run.begin(session)
                try:
                    result = await body(session, made)
                except BaseException as error:
                    del made
                    if session.core.is_closed:
                        self._drop()
                        if is_loss(error) and isinstance(error, BifrostError):
                            self._lose(session, run, error)
                            continue
                    else:
                        # What is left of the run must not be committed by the next one.
                        session.abort()
                        session.clear_exceptions()
                    self._release_store()
                    raise
                if session.core.is_closed:
                    self._drop()
                self._release_store()
                return result

    def _lose(self, session: AsyncSession, run: Run, error: BifrostError) -> None:
        try:
            self._step = run.step(session, error)
        except ServerLost:
            self._release_store()
            raise

    def _release_store(self) -> None:
        self._step = Next.AGAIN
        if self._searcher is not None:
            self._searcher.importer.release_store()

    async def _ready(self) -> tuple[AsyncSession, P]:
        """Sees to it that there is a session."""
        await self._take_newer()
        if self._current is not None:
            if await self._current[0]._is_open():
                return self._current
            self._drop()
        searcher, step = self._searcher, None
        if searcher is None:
            searcher = AsyncSearcher(Search.of(self._stubs, self._url, self._options), self._cls)
        else:
            # After an error the search begins anew.
            self._searcher, step, self._step = None, self._step, Next.AGAIN
        session, made = await searcher.search(step)
        assert made is not None and session.service is not None
        self._searcher = searcher
        self._current = (session, made)
        if self._watch is None:
            self._watch = AsyncWatch(searcher.settings, self._cls, session.service, searcher.seen)
        else:
            self._watch.use_server(session.service)
        return self._current

    async def _take_newer(self) -> None:
        """Goes on with a server that the watch has found, if it is still there."""
        if self._watch is None or self._searcher is None:
            return
        # A named batch stays with its store until it is done.
        if self._step is not Next.AGAIN or self._searcher.importer.is_bound:
            return
        ready = self._watch.take_ready()
        if ready is None:
            return
        session = ready[0]
        session._timeout = self._options.timeout
        if not await session._is_open() or session.service is None:
            session._leave()
            return
        self._searcher.importer.moved(session.service.offer)
        self._drop()
        self._current = ready
        self._watch.use_server(session.service)

    def _drop(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            current[0]._leave()

    async def close(self) -> None:
        """Ends the session and the watch. Changes that were not committed are lost."""
        watch, self._watch = self._watch, None
        if watch is not None:
            await watch.stop()
        self._drop()
        self._searcher = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<service {self._url}>"
