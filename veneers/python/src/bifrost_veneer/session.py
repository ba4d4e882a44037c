"""Blocking sessions: opening, flushing, transactions, closing.

:class:`Session` is the type to read first. It belongs to one thread. Recording is in
:mod:`bifrost_veneer.recording`.

Failures that were told
-----------------------

A failure is one of these: a call that signalled an exception or was refused; a structure that ended
with one; a call that was never sent because the client refused it. The program is *told* of a
failure when a claim fails with it or with a consequence of it, when :meth:`Session.exceptions`
lists it, or when an
:class:`Unseen` names it. A failure is *lost* when no stub is left whose claim would tell it.

:class:`Unseen` is raised by these, if there are failures that were not told before:

- a claim of a stub that did not fail itself: lost failures;
- :meth:`Session.flush` and :meth:`Session.close`: lost failures, and calls that were not sent;
- :meth:`Session.commit` and :meth:`Session.transaction`: any failures of the transaction, which is
  aborted.

It names all of them, and they are told with it.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar

from . import _tables as t
from . import kinds as k
from .errors import BadToken, BifrostError, ConnectError, make_exception
from .io.address import Address, AddressError, parse_address
from .io.connection import Connection, NoConnection, open_connection
from .io.tls import TlsOptions
from .io.wire import Wire
from .live import LiveBatch
from .native import module as library
from .recorder import errors as e
from .recorder.calls import Due
from .recorder.commands import parse_trace
from .recorder.crossing import Recorder
from .recorder.greeting import Greeting, Known
from .recorder.numbers import Stubs
from .recorder.state import UNDER_WAY, Settings
from .recording import BatchName, Recording
from .stubs import Stub, place_of
from .values import Nothing

if TYPE_CHECKING:
    from .importing import Imported

R = TypeVar("R")


class Options:
    """The settings with which a session is opened."""

    def __init__(
        self,
        token: str = "",
        name: str = "",
        timeout: float = 30.0,
        authorities: str | os.PathLike[str] | None = None,
        certificate: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        reply_bytes_max: int = t.REPLY_BYTES_MAX,
        remap_futures: int = t.REMAP_FUTURES,
        trace_parent: str | None = None,
        trader_token: str | None = None,
        native: bool | None = None,
    ) -> None:
        self.token = token
        self.name = name
        self.timeout = timeout
        self.tls = TlsOptions(authorities, certificate, key)
        trace = None
        if trace_parent is not None:
            trace = parse_trace(trace_parent)
            if trace is None:
                raise ConnectError(f"`{trace_parent}` is no `traceparent` of W3C Trace Context")
        if native and library is None:
            raise ConnectError(
                "`native=True` needs the package bifrost_native, which is not installed or switched off"
            )
        self.settings = Settings(reply_bytes_max, remap_futures, trace, use_native=native)
        self.trader_token = trader_token


def greet_error(error: e.GreetError) -> ConnectError:
    """Returns the exception for a greeting of which no session came."""
    why = error.why
    if isinstance(why, e.ByServer):
        refused = (BadToken if why.number == t.ERROR_BAD_TOKEN else ConnectError)(str(why))
        refused.number = why.number
        return refused
    return ConnectError(str(error))


class Session(Recording):
    """A connection to a server whose claims wait, and the batch being recorded for it.

    Use it in a ``with`` statement: at its end the recorded commands are flushed and the session
    ends. Without one, :meth:`close` it.
    """

    def __init__(self, core: Recorder, wire: Wire) -> None:
        super().__init__(core)
        self._wire = wire
        #: The server that a trader has named; None if the session was not imported.
        self.service: Imported | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._leave()

    def __del__(self) -> None:
        core = self.__dict__.get("core")
        if core is not None and not core.is_closed:
            warnings.warn("a session was not closed", ResourceWarning, stacklevel=2)
            try:
                self._wire.close()
            except OSError:
                pass

    # Bytes.

    def _adopt(self, timeout: float) -> None:
        """Moves the session to the calling thread, with the longest time for an answer."""
        self._thread = threading.get_ident()
        self._wire.timeout = timeout

    def _mark(self) -> tuple[int, int]:
        """The counts of writes, and of calls that the server ran, up to now."""
        return self._wire.writes, self.core.counters().executed

    def _is_open(self) -> bool:
        """True if the server has not ended the session, as far as is known without waiting."""
        return not self.core.is_closed and self._wire.look(self.core)

    def _give_back(self) -> Session | None:
        """Ends the program's work with the session. Returns the one that goes on with it; None if
        there is none, and the session is ended.
        """
        try:
            if not self._is_in_work():
                self._end_work()
                self._flush()
                if self.core.handles:
                    # Of batches that were under way.
                    self.core.end_work()
                    self._flush()
        except (BifrostError, e.Told):
            pass
        if self._is_in_work() or self.core.handles:
            self._leave()
            return None
        wire, self._wire = self._wire, Wire(NoConnection(), 0)
        other = type(self)(self.core.succeed(), wire)
        other.service = self.service
        other._go_on_with(self)
        return other

    def _do(self, due: Due) -> None:
        if due is Due.SEND:
            self._wire.send(self.core)
        elif due is Due.FLUSH:
            self._flush()

    def _answer_while(self, waiting: Callable[[], bool]) -> None:
        while waiting():
            self._wire.answer(self.core)

    def _flush(self) -> None:
        """Ends the batch: sends it, and waits for the answers of all batches."""
        core = self.core
        self._check_thread()
        self._answer_while(lambda: core.is_crowded)
        core.begin_flush(False)
        self._answer_while(lambda: core.is_under_way)

    def _synchronize(self, name: str, place: object) -> None:
        """Flushes for the program, which cannot while a batch that is a transaction is recorded."""
        core = self.core
        if threading.get_ident() != self._thread:
            self._check_thread()
        if core.under_way:
            self._answer_while(lambda: core.is_crowded)
        core.begin_flush_for(name, False, place)
        wire = self._wire
        while core.under_way:
            wire.answer(core)

    def know(self, stub: Stub[Any], name: str, place: object) -> None:
        """Waits until a stub is known: flushes if it must. Used by promises."""
        core = self.core
        try:
            if stub._ref < 0:
                core.note_claim(stub)
                self._synchronize(name, place)
            elif stub._ref == 0 and stub._known[0] == UNDER_WAY:
                number = stub._known[1]
                self._check_thread()
                self._answer_while(lambda: core.is_unanswered(number))
        except e.Told as told:
            error = told
        else:
            return
        self._raise(error)

    def awaited(self, stub: Stub[Any], kind: k.Kind, place: object) -> NoReturn:
        """Refuses to wait for a promise. Used by promises."""
        raise TypeError(
            "the session was opened with `connect`: claim its promises, or open it with `aconnect`"
        )

    # For the program.

    def flush(self) -> None:
        """Sends the recorded commands, and waits until they have run: one pair of crossings, or
        none if there is nothing to send. Every stub then has its object, value or failure.
        """
        place = place_of(1)
        try:
            self._synchronize("flush", place)
            self.core.surface(True)
        except e.Told as told:
            error = told
        else:
            return
        self._raise(error)

    def send_batch(self) -> None:
        """Ends the batch and sends it, without waiting for its answer. Calls that are recorded from
        then on are the next batch; stubs of this one are operands there as any other. So a slow
        link costs one delay, and not one for each batch.
        """
        place = place_of(1)
        core = self.core
        try:
            self._check_thread()
            self._answer_while(lambda: core.is_crowded)
            core.begin_flush_for("send_batch", True, place)
            self._wire.send(core)
        except e.Told as told:
            error = told
        else:
            return
        self._raise(error)

    def resolve(self, stub: Stub[Any]) -> None:
        """Flushes if an object is not known yet. Raises the failure of the call that makes it."""
        place = place_of(1)
        self.know(stub, "claim", place)
        self._check(stub)

    def _check(self, stub: Stub[Any]) -> None:
        core = self.core
        failure = core.failure_of(stub)
        if failure is not None:
            core.tell(failure)
            raise make_exception(failure, core)
        try:
            core.surface(False)
        except e.Told as told:
            error = told
        else:
            return
        self._raise(error)

    def commit(self) -> Nothing:
        """Commits the transaction, when the batch is sent. The promise is kept when all changes are
        durable; otherwise the transaction is aborted. Failures of which the program was not told
        prevent it: :class:`Unseen`. Not inside a structure.
        """
        place = place_of(1)
        return self._commit(self._admit_commit(), place)

    def _admit_commit(self) -> e.Failure | None:
        admitted = self._admit()
        if admitted is None:
            try:
                due = self.core.commit_due()
                if due is not Due.NOTHING:
                    self._do(due)
            except e.Told as told:
                return told.failure
        return admitted

    def transaction(
        self, body: Callable[[], R], *, tries: int = 0, name: BatchName | None = None
    ) -> R:
        """Records a batch that is a transaction of its own, sends it, and waits until it is
        committed. If other transactions conflict with it, the server runs it again by itself, at
        most ``tries`` times; nothing of ``body`` is run again. Promises of its result have their
        values then.

        Nothing can be claimed in ``body``. An exception that no structure handles aborts the
        transaction, and so does a call of ``body`` that was not sent. With a ``name`` the batch is
        done once, however often it is sent, and by any session."""
        return self._transaction_at(body, tries, name, place_of(1))

    def _transaction_at(
        self, body: Callable[[], R], tries: int, name: BatchName | None, place: object
    ) -> R:
        try:
            return self._transaction(body, tries, name, place)
        except e.Told as told:
            error = told
        self._raise(error)

    def _transaction(
        self, body: Callable[[], R], tries: int, name: BatchName | None, place: object
    ) -> R:
        core = self.core
        if not 0 <= tries <= 0xFFFF:
            raise ValueError("a transaction is tried from 0 (as the server likes) to 65535 times")
        self._synchronize("transaction", place)
        batch = None if name is None else (name.client, name.number)
        done = core.begin_transaction(Nothing.__new__(Nothing), tries, batch, place)
        try:
            result = body()
        except BaseException:
            while core.depth:
                core.abandon()
            core.abandon_transaction()
            try:
                self._flush()
            except e.Told:
                pass
            core.tell_transaction()
            raise
        refusals = core.end_transaction_batch()
        self._synchronize("transaction", place)
        outcome = core.failure_of(done)
        if outcome is not None:
            core.tell(outcome)
        failure = core.finish_transaction(outcome, refusals, place)
        if failure is not None:
            raise e.Told(failure)
        return result

    def live(self, body: Callable[[], R]) -> LiveBatch:
        """Makes a live batch: ``body`` records a batch and returns its results, and is run again
        whenever they may have changed. ``for rows in s.live(lambda: s.collect(...))`` is a view of
        the objects that the batch reads, now and after each change; see :class:`LiveBatch`.
        """
        return LiveBatch(self, body, place_of(1))

    def close(self) -> None:
        """Flushes, and ends the session. Raises as :meth:`flush`; the session is ended in any
        case.
        """
        if self.core.is_closed:
            return
        try:
            self.flush()
        finally:
            self._leave()

    def _leave(self) -> None:
        """Ends the session without waiting. Commands that were recorded are sent, and run."""
        core = self.core
        if core.leave():
            try:
                self._wire.send(core)
            except e.Told:
                pass
            core.close(e.ByClient())
        self._wire.close()


S = TypeVar("S", bound=Session)


def open_at(
    cls: type[S],
    stubs: Stubs | None,
    address: Address,
    options: Options,
    known: Known | None = None,
) -> S:
    """Opens a session with the server at an address. Raises :class:`ConnectError`."""
    open_one = _Opening(cls, stubs, options, known)

    def connected() -> Connection:
        return open_connection(address, options.tls, options.timeout)

    with told(str(address)):
        try:
            return open_one.greet(connected(), "")
        except e.GreetError as error:
            # A server asks for the token by refusing a client without.
            asks = isinstance(error.why, e.ByServer) and error.why.number == t.ERROR_BAD_TOKEN
            if not (asks and address.may_ask_for_token and options.token):
                raise
        return open_one.greet(connected(), options.token)


def open_over(
    cls: type[S],
    stubs: Stubs | None,
    connection: Connection,
    options: Options,
    known: Known | None = None,
) -> S:
    """Opens a session over a connection that is there already. The token is shown at once, since
    there is no second connection to show it on when the server asks. Raises
    :class:`ConnectError`.
    """
    with told("the connection"):
        return _Opening(cls, stubs, options, known).greet(connection, options.token)


def open_session(
    cls: type[S],
    stubs: Stubs | None,
    url: str,
    options: Options,
    known: Known | None = None,
) -> S:
    """Opens a session with the server at a URL. Raises :class:`ConnectError`."""
    with told(url):
        address = parse_address(url)
    return open_at(cls, stubs, address, options, known)


class _Opening(Generic[S]):
    """Greets over connections."""

    def __init__(
        self,
        cls: type[S],
        stubs: Stubs | None,
        options: Options,
        known: Known | None,
    ) -> None:
        self._cls = cls
        self._stubs = stubs
        self._options = options
        self._known = known

    def greet(self, connection: Connection, token: str) -> S:
        """Exchanges greetings. Raises :class:`GreetError`."""
        options = self._options
        wire = Wire(connection, options.timeout)
        greeting = Greeting(self._stubs, token, options.name, options.settings, self._known)
        try:
            return self._cls(wire.greet(greeting), wire)
        except BaseException:
            connection.close()
            raise


@contextmanager
def told(place: str) -> Iterator[None]:
    """Turns what goes wrong into :class:`ConnectError`."""
    try:
        yield
    except e.GreetError as error:
        failure = greet_error(error)
        raise failure from error.__cause__
    except AddressError as error:
        raise ConnectError(str(error)) from None
    except ConnectError:
        raise
    except (OSError, ValueError) as error:
        raise ConnectError(f"no connection to {place}: {error}") from error
