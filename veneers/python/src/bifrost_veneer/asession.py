"""Awaited sessions, for asyncio.

:class:`AsyncSession` is the type to read first. ``await promise`` schedules one flush at the end of
the loop's turn, so tasks that run together share a crossing; batches overlap on the way. Recording
never waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from . import _tables as t
from . import kinds as k
from .errors import BifrostError
from .io.address import Address, parse_address
from .io.connection import TimedOut
from .io.link import Link, open_link
from .io.native_link import NativeLink, open_native_link
from .live import AsyncLiveBatch
from .recorder import errors as e
from .recorder.calls import Due
from .recorder.crossing import Recorder
from .recorder.greeting import Greeting, Known
from .recorder.numbers import Stubs
from .recorder.state import UNDER_WAY
from .recording import BatchName, Recording
from .session import Options, told
from .stubs import Promise, Stub, place_of
from .values import Nothing

if TYPE_CHECKING:
    from .importing import Imported

R = TypeVar("R")

#: The seconds after which a flush is tried again that a structure of another task has prevented.
_AGAIN = 0.001
#: The most turns of the loop in which bytes that have come are waited for.
_TURNS = 16
V = TypeVar("V")


class AsyncSession(Recording):
    """A connection to a server whose claims are awaited, and the batch being recorded for it.

    Failures that were told are those of :mod:`bifrost_veneer.session`.
    """

    def __init__(self, core: Recorder, link: Link | NativeLink, timeout: float) -> None:
        super().__init__(core)
        self._link = link
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        #: Tasks that wait for the answer of a batch, by its number.
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._is_scheduled = False
        #: The batch that ends for a promise which is awaited, and the place of the `await`.
        self._awaited: tuple[int, object] = (0, None)
        #: True if a flush waits for room.
        self._is_delayed = False
        #: The number of times that bytes were to be written.
        self._writes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timed_batch = 0
        #: The server that a trader has named; None if the session was not imported.
        self.service: Imported | None = None
        link.start(self._on_bytes, self._on_end)

    # Bytes.

    def _on_bytes(self, data: bytes) -> None:
        core = self.core
        if core.is_closed:
            return
        try:
            while core.handle_bytes(data) and core.under_way:
                data = b""
        except e.Told:
            self._link.close()
        self._look()

    def _on_end(self, error: Exception) -> None:
        if not self.core.is_closed:
            self.core.close(e.ByConnection(error))
        self._look()

    def _look(self) -> None:
        """Wakes tasks whose batch is answered, and sets the time limit of the oldest one."""
        core = self.core
        waiters, self._waiters = self._waiters, []
        for number, future in waiters:
            if future.done():
                continue
            if core.is_closed or not core.is_unanswered(number):
                future.set_result(None)
            else:
                self._waiters.append((number, future))
        if self._is_delayed and not core.is_crowded:
            self._is_delayed = False
            self._schedule()
        oldest = core.under_way[0].number if core.under_way else 0
        if oldest != self._timed_batch:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._timed_batch = oldest
            if oldest:
                self._timer = self._loop.call_later(
                    self._timeout + core.wait_ms / 1000, self._time_out
                )

    def _time_out(self) -> None:
        if not self.core.is_closed:
            self.core.close(e.ByConnection(TimedOut("the server did not answer in time")))
            self._link.close()
        self._look()

    def _mark(self) -> tuple[int, int]:
        """The counts of writes, and of calls that the server ran, up to now."""
        return self._writes, self.core.counters().executed

    async def _is_open(self) -> bool:
        """True if the server has not ended the session, as far as is known without waiting."""
        # Bytes that have come, or the end, reach the link in the next turns of the loop.
        for _ in range(_TURNS):
            if self.core.is_closed or self._link.is_quiet:
                break
            await asyncio.sleep(0)
        return not self.core.is_closed

    async def _give_back(self) -> AsyncSession | None:
        """As :meth:`Session._give_back`."""
        try:
            if not self._is_in_work():
                self._end_work()
                await self.flush()
                if self.core.handles:
                    # Of batches that were under way.
                    self.core.end_work()
                    await self.flush()
        except BifrostError:
            pass
        except BaseException:
            self._leave()
            raise
        if self._is_in_work() or self.core.handles:
            self._leave()
            return None
        link, self._link = self._link, Link()
        other = AsyncSession(self.core.succeed(), link, self._timeout)
        self._look()
        other.service = self.service
        other._go_on_with(self)
        return other

    def _write(self) -> None:
        self._put()
        self._look()

    def _put(self) -> None:
        while self.core.has_bytes:
            self._writes += 1
            self._link.write(self.core.take_bytes())

    def _do(self, due: Due) -> None:
        if due is Due.SEND:
            self._put()
        elif due is Due.FLUSH and not self.core.is_crowded and self.core.begin_flush(True):
            # Nothing waits while calls are recorded: the batch goes on if it cannot end.
            self._write()

    async def _answered(self, number: int) -> None:
        """Waits until a batch is answered."""
        if self.core.is_closed or not self.core.is_unanswered(number):
            return
        future = self._loop.create_future()
        self._waiters.append((number, future))
        await future

    async def _room(self) -> None:
        while self.core.is_crowded and not self.core.is_closed:
            await self._answered(self.core.under_way[0].number)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._flush_soon)

    def _flush_soon(self) -> None:
        self._is_scheduled = False
        core = self.core
        if core.is_closed:
            self._look()
            return
        if core.is_crowded:
            # The next answer makes room.
            self._is_delayed = True
        elif core.scopes or core.shipping:
            # Another task awaits something in the middle of a structure.
            self._is_scheduled = True
            self._loop.call_later(_AGAIN, self._flush_soon)
        elif self._begin_flush():
            self._write()

    def _begin_flush(self) -> bool:
        number, place = self._awaited
        if number == self.core.batch_number:
            return self.core.begin_flush_for("claim", True, place)
        return self.core.begin_flush(True)

    def _expect_flushable(self, name: str, place: object) -> None:
        """Raises :class:`Told` where the batch cannot end."""
        core = self.core
        if core.broken is not None:
            raise e.Told(core.broken)
        if core.scopes:
            raise e.Told(e.Misused(t.MISUSE_OPEN_STRUCTURE))
        if core.shipping:
            core.begin_flush_for(name, True, place)

    async def _synchronize(self, name: str, place: object) -> None:
        """Ends the batch, and waits for the answers of all batches."""
        self._expect_flushable(name, place)
        await self._room()
        core = self.core
        core.begin_flush_for(name, True, place)
        self._write()
        while core.under_way and not core.is_closed:
            await self._answered(core.under_way[-1].number)
        if core.broken is not None:
            raise e.Told(core.broken)

    async def _know(self, stub: Stub[Any], name: str, place: object) -> None:
        if stub._ref < 0:
            self._expect_flushable(name, place)
            number = self.core.batch_number
            if self._awaited[0] != number:
                self._awaited = (number, place)
                self.core.note_claim(stub)
            self._schedule()
            await self._answered(number)
        while stub._ref == 0 and stub._known[0] == UNDER_WAY:
            await self._answered(stub._known[1])

    def know(self, stub: Stub[Any], name: str, place: object) -> NoReturn:
        """Refuses to block. Used by promises."""
        raise TypeError(
            "the session was opened with `aconnect`: write `await promise`, not `promise.claim()`"
        )

    async def awaited(self, stub: Promise[V], kind: k.Kind, place: object) -> V:
        """Waits for the value of a promise. Used by promises."""
        error: e.Told | None = None
        try:
            await self._know(stub, "claim", place)
        except e.Told as told:
            error = told
        if error is not None:
            self._raise(error)
        value: V = self.take(stub, kind)
        return value

    # For the program.

    async def flush(self) -> None:
        """Sends the recorded commands, and waits until they have run. See :meth:`Session.flush`."""
        place = place_of(1)
        error: e.Told | None = None
        try:
            await self._synchronize("flush", place)
            self.core.surface(True)
        except e.Told as told:
            error = told
        if error is not None:
            self._raise(error)

    def send_batch(self) -> None:
        """Ends the batch and sends it, without waiting for its answer."""
        place = place_of(1)
        error: e.Told | None = None
        try:
            self._expect_flushable("send_batch", place)
            if self.core.is_crowded:
                raise e.Told(e.Misused(t.MISUSE_UNDER_WAY))
            self.core.begin_flush_for("send_batch", True, place)
            self._write()
        except e.Told as told:
            error = told
        if error is not None:
            self._raise(error)

    async def resolve(self, stub: Stub[Any]) -> None:
        """Flushes if an object is not known yet. Raises the failure of the call that makes it."""
        place = place_of(1)
        error: e.Told | None = None
        try:
            await self._know(stub, "claim", place)
            failure = self.core.failure_of(stub)
            if failure is None:
                self.core.surface(False)
            else:
                self.core.tell(failure)
                raise e.Told(failure)
        except e.Told as told:
            error = told
        if error is not None:
            self._raise(error)

    async def commit(self) -> None:
        """Commits the transaction: flushes, and waits until all changes are durable. See
        :meth:`Session.commit`."""
        place = place_of(1)
        error: e.Told | None = None
        admitted: e.Failure | None = None
        try:
            if self.core.commit_due() is Due.FLUSH:
                await self._synchronize("commit", place)
        except e.Told as told:
            admitted = told.failure
        done = self._commit(admitted or self._admit(), place)
        try:
            await self._know(done, "claim", place)
        except e.Told as told:
            error = told
        if error is not None:
            self._raise(error)
        self.take(done, k.NULL)

    async def transaction(
        self, body: Callable[[], R], *, tries: int = 0, name: BatchName | None = None
    ) -> R:
        """Records a batch that is a transaction of its own, sends it, and waits until it is
        committed. ``body`` is a plain function, which awaits nothing. See
        :meth:`Session.transaction`.
        """
        return await self._transaction_at(body, tries, name, place_of(1))

    async def _transaction_at(
        self, body: Callable[[], R], tries: int, name: BatchName | None, place: object
    ) -> R:
        error: e.Told | None = None
        try:
            return await self._transaction(body, tries, name, place)
        except e.Told as told:
            error = told
        self._raise(error)

    async def _transaction(
        self, body: Callable[[], R], tries: int, name: BatchName | None, place: object
    ) -> R:
        core = self.core
        if not 0 <= tries <= 0xFFFF:
            raise ValueError("a transaction is tried from 0 (as the server likes) to 65535 times")
        await self._synchronize("transaction", place)
        while not core.is_idle and not core.is_closed:
            # Another task was faster.
            await self._synchronize("transaction", place)
        batch = None if name is None else (name.client, name.number)
        done = core.begin_transaction(Nothing.__new__(Nothing), tries, batch, place)
        try:
            result = body()
            if asyncio.iscoroutine(result):
                result.close()
                raise TypeError(
                    "the body of a transaction is a plain function, which awaits nothing"
                )
        except BaseException:
            while core.depth:
                core.abandon()
            core.abandon_transaction()
            if core.begin_flush(True):
                self._write()
            core.tell_transaction()
            raise
        refusals = core.end_transaction_batch()
        number = core.batch_number
        core.begin_flush_for("transaction", True, place)
        self._write()
        await self._answered(number)
        outcome = core.failure_of(done)
        if outcome is not None:
            core.tell(outcome)
        failure = core.finish_transaction(outcome, refusals, place)
        if failure is not None:
            raise e.Told(failure)
        return result

    def live(self, body: Callable[[], Any]) -> AsyncLiveBatch:
        """Makes a live batch, for ``async for``. See :class:`LiveBatch`."""
        return AsyncLiveBatch(self, body, place_of(1))

    async def close(self) -> None:
        """Flushes, and ends the session. Raises as :meth:`flush`; the session is ended in any
        case.
        """
        if self.core.is_closed:
            self._leave()
            return
        try:
            await self.flush()
        finally:
            self._leave()

    def _leave(self) -> None:
        core = self.core
        if core.leave():
            while core.has_bytes:
                self._link.write(core.take_bytes())
            core.close(e.ByClient())
        self._link.close()
        self._look()


class Connecting:
    """A session that is being opened: await it, or use it in ``async with``."""

    def __init__(
        self,
        stubs: Stubs | None,
        url: str,
        options: Options,
        known: Known | None = None,
    ) -> None:
        self._stubs = stubs
        self._url = url
        self._options = options
        self._known = known
        self._session: AsyncSession | None = None

    def __await__(self) -> Generator[Any, None, AsyncSession]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncSession:
        self._session = await self._open()
        return self._session

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._session is not None
        if kind is None:
            await self._session.close()
        else:
            self._session._leave()

    async def _open(self) -> AsyncSession:
        from .importing.asearch import connect_imported
        from .importing.url import is_trader

        if is_trader(self._url):
            return await connect_imported(self._stubs, self._url, self._options)
        with told(self._url):
            address = parse_address(self._url)
        return await aopen_at(self._stubs, address, self._options, self._known)


async def aopen_at(
    stubs: Stubs | None,
    address: Address,
    options: Options,
    known: Known | None = None,
) -> AsyncSession:
    """Opens a session with the server at an address. Raises :class:`ConnectError`."""

    async def greet(token: str) -> AsyncSession:
        link: Link | NativeLink
        if address.is_native:
            link = await open_native_link(address, options.tls, options.timeout)
        else:
            link = await open_link(address, options.tls)
        greeting = Greeting(stubs, token, options.name, options.settings, known)
        try:
            while True:
                link.write(greeting.take_bytes())
                core = greeting.handle_bytes(await link.read())
                if core is not None:
                    return AsyncSession(core, link, options.timeout)
        except BaseException:
            link.close()
            raise

    with told(str(address)):
        try:
            async with asyncio.timeout(options.timeout):
                try:
                    return await greet("")
                except e.GreetError as error:
                    # A server asks for the token by refusing a client without.
                    asks = isinstance(error.why, e.ByServer) and (
                        error.why.number == t.ERROR_BAD_TOKEN
                    )
                    if not (asks and address.may_ask_for_token and options.token):
                        raise
                return await greet(options.token)
        except TimeoutError:
            raise TimedOut("the server did not answer in time") from None
