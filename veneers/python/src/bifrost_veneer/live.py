"""Live batches: a batch that is run again whenever its answer may have changed.

A step of the iterator is one crossing: a wait, while nothing that the last run has read was changed
(not before the first run); the batch of the function; a flush. The server knows all that a run has
read, so it misses no change between a run and its wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _tables as t
from .errors import BifrostError, Closed, make_exception
from .recorder import errors as e
from .recorder.state import FAILED
from .stubs import Promise, Stub
from .values import Bool

if TYPE_CHECKING:
    from .asession import AsyncSession
    from .recording import Recording
    from .session import Session

_OVERTAKEN = (t.ERROR_CONFLICT, t.ERROR_TRANSACTION_EXPIRED)


@dataclass
class _Run:
    """A run that was recorded."""

    #: The order of its first failure.
    mark: int
    waited: Bool | None
    results: Any


class Outcome:
    """The result of a run: a value, or the failure of one of its calls."""

    def __init__(self, value: Any = None, error: BifrostError | None = None) -> None:
        self._value = value
        self.error = error

    def get(self) -> Any:
        """Returns the value, or raises the failure."""
        if self.error is not None:
            raise self.error
        return self._value


class _Live:
    """The part of live batches that blocking and awaited ones have in common."""

    def __init__(self, session: Recording, body: Callable[[], Any], place: object) -> None:
        self._session = session
        self._body = body
        self._place = place
        #: The results of the last run, or the text of its failure.
        self._last: Any = None
        #: The number of ends of transactions when it was there; None if the server does not know
        #: the objects that it has read.
        self._read_at: int | None = None
        self._is_over = False

    def _record(self) -> _Run | None:
        if self._is_over:
            return None
        core = self._session.core
        core.take_batch_end()
        mark = core.order
        waited = None
        if self._read_at == core.transaction_ends:
            waited = self._session._wait(None, self._place)
        return _Run(mark, waited, self._body())

    def _finish(self, run: _Run, flushed: e.Failure | None) -> Outcome | None:
        """Returns the result of a run whose batch was answered; None if there is to be another run
        first."""
        core = self._session.core
        self._read_at = core.transaction_ends
        end = flushed
        if end is None:
            end = core.take_batch_end()
            if end is not None:
                core.tell_since(run.mark)
        if end is None and run.waited is not None and run.waited._ref == 0:
            known = run.waited._known
            if known[0] == FAILED:
                end = known[1]
                core.tell(known[1])
        if end is not None:
            root = end.root()
            if isinstance(root, e.Refused) and root.number in _OVERTAKEN:
                # The transaction is gone, and so is all that it has read.
                self._read_at = None
                return None
            self._is_over = True
            return Outcome(error=make_exception(end, core))
        return self._claimed(run)

    def _claimed(self, run: _Run) -> Outcome | None:
        core = self._session.core
        try:
            outcome = Outcome(self._claim(run.results))
            last: Any = run.results
        except BifrostError as error:
            # The error stands for all failures of the run.
            core.tell_since(run.mark)
            self._is_over = isinstance(error, Closed)
            outcome, last = Outcome(error=error.with_traceback(None)), str(error)
        is_last = self._is_same(self._last, last)
        self._last = last
        return None if is_last else outcome

    def _claim(self, results: Any) -> Any:
        if isinstance(results, (tuple, list)):
            return type(results)([self._claim(one) for one in results])
        if isinstance(results, Promise):
            return self._session.take(results, results._kind)
        if isinstance(results, Stub):
            failure = self._session.core.failure_of(results)
            if failure is not None:
                self._session.core.tell(failure)
                raise make_exception(failure, self._session.core)
            return results
        return results

    def _is_same(self, one: Any, other: Any) -> bool:
        if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
            return len(one) == len(other) and all(map(self._is_same, one, other))
        if isinstance(one, Stub) and isinstance(other, Stub):
            return self._session.core.is_same(one, other)
        if one is None or isinstance(one, Stub) or isinstance(other, Stub):
            return False
        return bool(one == other)


class LiveBatch(_Live):
    """The results of a live batch, one after the other.

    - The function is called for each run. A run is one crossing, if the function claims nothing itself.
    - A run has a transaction of its own, and sees one moment. It waits until another session has
      committed a change to an object that the last one has read. None is missed.
    - A run whose results are those of the last one is passed over. So is one whose failure is.
    - A call that fails is raised; the next step goes on with the next change. The iterator ends behind an
      error of the whole batch, such as a limit, and behind the end of the session.

    Changes must be committed or aborted before the next result is asked for.
    """

    _session: Session

    def __iter__(self) -> LiveBatch:
        return self

    def __next__(self) -> Any:
        session = self._session
        while True:
            failure = None
            if session.core.is_under_way:
                # Failures of batches before are not those of the run.
                failure = self._flush()
            if failure is not None:
                self._is_over = True
                raise make_exception(failure, session.core)
            run = self._record()
            if run is None:
                raise StopIteration
            outcome = self._finish(run, self._flush())
            if outcome is not None:
                return outcome.get()

    def _flush(self) -> e.Failure | None:
        try:
            self._session._synchronize("live", self._place)
        except e.Told as told:
            return told.failure
        return None


class AsyncLiveBatch(_Live):
    """As :class:`LiveBatch`, for ``async for``."""

    _session: AsyncSession

    def __aiter__(self) -> AsyncLiveBatch:
        return self

    async def __anext__(self) -> Any:
        session = self._session
        while True:
            failure = None
            if session.core.is_under_way:
                failure = await self._flush()
            if failure is not None:
                self._is_over = True
                raise make_exception(failure, session.core)
            run = self._record()
            if run is None:
                raise StopAsyncIteration
            outcome = self._finish(run, await self._flush())
            if outcome is not None:
                return outcome.get()

    async def _flush(self) -> e.Failure | None:
        try:
            await self._session._synchronize("live", self._place)
        except e.Told as told:
            return told.failure
        return None
