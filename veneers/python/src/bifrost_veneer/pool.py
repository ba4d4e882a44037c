"""Pools of sessions, for programs with several threads or with many tasks.

A session is one conversation: its transaction is that of all that use it. A pool lends a session to
one thread or task; it comes back at the end of the ``with`` statement. Then its transaction is
aborted, and its failures count as told::

    pool = Pool(connect, "tls://db.example:7447", sessions_max=8)
    with pool.get() as s:
        s.lookup("database", DataBase).fetch("eve").touch()
        s.commit().claim()

Stubs end with the loan, and so does the session as an object: the connection goes on with a new
one. A session that has ended, or in which a structure was left open, is not used again: another one
is opened in its place. :class:`AsyncPool` is the same for asyncio.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, cast

from .asession import AsyncSession, Connecting
from .errors import ConnectError
from .session import Session

S = TypeVar("S", bound=Session)

#: The most sessions of a pool, if its program says nothing.
SESSIONS_MAX: Final = 10


def _none_free(most: int, timeout: float | None) -> ConnectError:
    return ConnectError(
        f"all {most} sessions of the pool are lent, and none came back in {timeout} s: make "
        "`sessions_max` higher, or lend them for a shorter time"
    )


class Pool(Generic[S]):
    """Sessions with one server, opened when they are needed and used again. Threads share it.

    ``connect`` is the function of the stubs, or that of this package; it gets the URL and the
    options. Nothing is connected before a session is asked for. Use a pool in a ``with`` statement,
    or :meth:`close` it.
    """

    def __init__(
        self,
        connect: Callable[..., S],
        url: str,
        *,
        sessions_max: int = SESSIONS_MAX,
        **options: Any,
    ) -> None:
        if sessions_max < 1:
            raise ValueError("a pool has at least one session")
        self._connect: Callable[[], S] = lambda: connect(url, **options)
        self._sessions_max = sessions_max
        self._freed = threading.Condition()
        #: The sessions that are not lent, the last one used at the end.
        self._idle: list[S] = []
        self._lent = 0
        self._is_closed = False

    @property
    def idle(self) -> int:
        """The number of open sessions that are not lent."""
        return len(self._idle)

    @contextmanager
    def get(self, timeout: float | None = None) -> Iterator[S]:
        """Lends a session; waits while all are lent, for so many seconds. The session begins a
        transaction, and has no untold failures. At its end changes that were not committed are
        undone. Raises :class:`ConnectError`.
        """
        session = self._take(timeout)
        try:
            yield session
        finally:
            self._give_back(session)

    def _take(self, timeout: float | None) -> S:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._freed:
            while self._lent >= self._sessions_max and not self._is_closed:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise _none_free(self._sessions_max, timeout)
                self._freed.wait(left)
            if self._is_closed:
                raise ConnectError("the pool is closed")
            self._lent += 1
        try:
            while (idle := self._next_idle()) is not None:
                idle._adopt(idle._wire.timeout)
                if idle._is_open():
                    return idle
                idle._leave()
            return self._connect()
        except BaseException:
            self._leave()
            raise

    def _next_idle(self) -> S | None:
        with self._freed:
            return self._idle.pop() if self._idle else None

    def _give_back(self, session: S) -> None:
        try:
            other = cast("S | None", session._give_back())
            with self._freed:
                if other is not None and not self._is_closed:
                    self._idle.append(other)
                    other = None
            if other is not None:
                other._leave()
        finally:
            self._leave()

    def _leave(self) -> None:
        with self._freed:
            self._lent -= 1
            self._freed.notify()

    def close(self) -> None:
        """Ends all sessions that are not lent; others end when they come back."""
        with self._freed:
            self._is_closed = True
            idle, self._idle = self._idle, []
            self._freed.notify_all()
        for session in idle:
            session._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncPool:
    """As :class:`Pool`, for the tasks of one loop; ``connect`` is ``aconnect``."""

    def __init__(
        self,
        connect: Callable[..., Connecting],
        url: str,
        *,
        sessions_max: int = SESSIONS_MAX,
        **options: Any,
    ) -> None:
        if sessions_max < 1:
            raise ValueError("a pool has at least one session")
        self._connect: Callable[[], Connecting] = lambda: connect(url, **options)
        self._sessions_max = sessions_max
        self._permits = asyncio.Semaphore(sessions_max)
        self._idle: list[AsyncSession] = []
        self._is_closed = False

    @property
    def idle(self) -> int:
        """The number of open sessions that are not lent."""
        return len(self._idle)

    @asynccontextmanager
    async def get(self, timeout: float | None = None) -> AsyncIterator[AsyncSession]:
        """As :meth:`Pool.get`, for ``async with``."""
        try:
            async with asyncio.timeout(timeout):
                await self._permits.acquire()
        except TimeoutError:
            raise _none_free(self._sessions_max, timeout) from None
        try:
            session = await self._take()
            try:
                yield session
            finally:
                other = await session._give_back()
                if other is not None:
                    if self._is_closed:
                        other._leave()
                    else:
                        self._idle.append(other)
        finally:
            self._permits.release()

    async def _take(self) -> AsyncSession:
        while not self._is_closed and self._idle:
            idle = self._idle.pop()
            try:
                if await idle._is_open():
                    return idle
            except BaseException:
                idle._leave()
                raise
            idle._leave()
        if self._is_closed:
            raise ConnectError("the pool is closed")
        return await self._connect()

    async def close(self) -> None:
        """Ends all sessions that are not lent; others end when they come back."""
        self._is_closed = True
        idle, self._idle = self._idle, []
        for session in idle:
            session._leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
