"""A service that stays: runs with a server of it, and with another one when that is lost.

:class:`Service` is the type to read first; :class:`.aservice.AsyncService` is the same for asyncio.
A run goes through these steps::

    take a newer server, if the watch has one
      |
    is the session open? -- no --> search  -- none found --> ConnectError
      |                              ^
    the body                         |
      |-- the session is lost ---> the rule: again, or ServerLost
      +-- otherwise: its result, or its exception

Nothing runs twice. A loss is known to have run nothing if no byte of the run was sent. The state of
a session is looked at before a run, so that a server that was lost between two runs costs none of
them.

| the server is lost, and | then |
| --- | --- |
| nothing of the run was sent | the body is called again, with another server |
| the run is one of ``run_named`` | as above, with a server of the same store |
| otherwise | :class:`ServerLost`, which says what is known |
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import Any, Final, Generic, NoReturn, Self, TypeVar, Unpack

from .. import _tables as t
from ..asession import AsyncSession
from ..errors import BifrostError, ConnectError, Refused
from ..generated import ConnectOptions
from ..recorder import errors as e
from ..recording import BatchName
from ..session import Options, Session
from ..stubs import Stub, place_of
from .dial import Imported, Search, stubs_of
from .importer import Next
from .search import Searcher
from .watch import Watch

P = TypeVar("P", bound=Stub[Any])
R = TypeVar("R")

#: The most times that a run is begun: a batch that ends every server must not end all of them.
RUNS_MAX: Final = 16


class Ran(Enum):
    """The account of a run whose result is missing."""

    NO = "nothing of the run was done"
    BEGAN = "a part of the run was done"
    UNKNOWN = "nobody knows if the run was done"

    @staticmethod
    def of(error: BaseException) -> Ran:
        """Returns what is known of a run of a service that has raised this."""
        if isinstance(error, ServerLost):
            return error.ran
        if isinstance(error, ConnectError):
            return Ran.NO
        if isinstance(error, Refused) and error.number == t.ERROR_STORE_FAILED:
            return Ran.UNKNOWN
        return Ran.BEGAN


class ServerLost(BifrostError, ConnectionError):
    """The server was lost in a run, which must not be begun again."""

    def __init__(self, ran: Ran, why: BifrostError, search: ConnectError | None = None) -> None:
        also = "" if search is None else f"; {search}"
        super().__init__(f"the server is lost, and {ran.value}: {why}{also}")
        self.ran = ran
        #: The end of the session.
        self.why = why
        #: The reason why no other server could be asked, for a named transaction.
        self.search = search
        self.failure = why.failure


def is_loss(error: BaseException) -> bool:
    """True for the error of a session that was lost, and that the program has not closed itself."""
    failure = error.failure if isinstance(error, BifrostError) else None
    root = None if failure is None else failure.root()
    return isinstance(root, e.Ended) and not isinstance(root.why, e.ByClient)


class Run:
    """The losses of one run, and the rule after each."""

    def __init__(self, is_named: bool) -> None:
        self._is_named = is_named
        self._count = 0
        self._ran = Ran.NO
        self._why: BifrostError | None = None
        self._mark = (0, 0)

    def begin(self, session: Session | AsyncSession) -> None:
        """Notes the counts of the session before the run."""
        self._mark = session._mark()

    def step(self, session: Session | AsyncSession, error: BifrostError) -> Next:
        """Returns the step after the loss of the session. Raises :class:`ServerLost` if the run
        must not be begun again.
        """
        (writes, executed), (now, executed_now) = self._mark, session._mark()
        if now == writes:
            ran = Ran.NO
        elif executed_now > executed:
            ran = Ran.BEGAN
        else:
            ran = Ran.UNKNOWN
        self._count += 1
        self._why = error
        # What an earlier loss has left unknown stays unknown.
        self._ran = ran if self._ran is Ran.NO else self._ran
        if (ran is not Ran.NO and not self._is_named) or self._count >= RUNS_MAX:
            raise ServerLost(self._ran, error) from error
        return Next.AGAIN if ran is Ran.NO else Next.SAME_STORE

    def without_server(self, error: ConnectError) -> NoReturn:
        """Raises the error of a run for which there is no other server."""
        if self._why is not None and self._ran is not Ran.NO:
            raise ServerLost(self._ran, self._why, error) from error
        raise error


class Names:
    """The names of a service's batches."""

    def __init__(self) -> None:
        self._last: BatchName | None = None

    def next(self) -> BatchName:
        """Returns the next name."""
        self._last = BatchName.new() if self._last is None else self._last.next()
        return self._last


class Service(Generic[P]):
    """A service at traders, and a session with one server of it.

    It belongs to one thread. Objects belong to their session, so they are not kept from one run to
    the next; changes that a run has not committed are lost with its server. After a run that has
    failed, its transaction is aborted.

    A thread for each trader waits for changes there. A server that is new, or that the query
    prefers, is used from the next run on. Use a service in a ``with`` statement, or
    :meth:`close` it.
    """

    def __init__(self, cls: type[P], url: str, **options: Unpack[ConnectOptions]) -> None:
        """Makes a service of a URL such as ``trader://host/DataBase?region=eu``. Nothing is
        connected before the first run. ``timeout`` bounds each search for a server, and each
        answer.
        """
        self._cls = cls
        self._url = url
        self._options = Options(**options)
        self._stubs = stubs_of(cls)
        self._searcher: Searcher[P] | None = None
        self._current: tuple[Session, P] | None = None
        #: The step after the last loss.
        self._step = Next.AGAIN
        self._watch: Watch[P] | None = None
        self._names = Names()

    @property
    def server(self) -> Imported | None:
        """The server of the session, if there is one."""
        return None if self._current is None else self._current[0].service

    def run(self, body: Callable[[Session, P], R]) -> R:
        """Calls ``body`` with a session and the object, and returns its result.

        If the server is lost before anything of the run was sent, ``body`` is called again with
        another one. If anything was sent, it is not: :class:`ServerLost`. Raises
        :class:`ConnectError` if there is no server, and what ``body`` raises; :meth:`Ran.of` says
        what is known of the run then.
        """
        return self._run(body, False)

    def run_named(self, body: Callable[[Session, P], R]) -> R:
        """Runs a batch that is a transaction, as :meth:`Session.transaction` does, under a name of
        its own: if the server is lost, the batch is sent again to another one of the same store,
        which knows whether it was done. So it is done once.

        The result of ``body`` may hold promises, which have their values then. Objects in it are
        not there if the answer is given again.
        """
        return self._run_transaction(body, 0, None, place_of(1))

    def run_transaction(
        self, body: Callable[[Session, P], R], *, tries: int = 0, name: BatchName | None = None
    ) -> R:
        """As :meth:`run_named`, with the number of tries, and with a name of the caller's: so a
        program that was started again can send a batch that an earlier process has sent.
        """
        return self._run_transaction(body, tries, name, place_of(1))

    def _run_transaction(
        self, body: Callable[[Session, P], R], tries: int, name: BatchName | None, place: object
    ) -> R:
        name = self._names.next() if name is None else name

        def attempt(session: Session, made: P) -> R:
            return session._transaction_at(lambda: body(session, made), tries, name, place)

        return self._run(attempt, True)

    def _run(self, body: Callable[[Session, P], R], is_named: bool) -> R:
        run = Run(is_named)
        while True:
            try:
                session, made = self._ready()
            except ConnectError as error:
                run.without_server(error)
            run.begin(session)
            try:
                result = body(session, made)
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

    def _lose(self, session: Session, run: Run, error: BifrostError) -> None:
        try:
            self._step = run.step(session, error)
        except ServerLost:
            self._release_store()
            raise

    def _release_store(self) -> None:
        self._step = Next.AGAIN
        if self._searcher is not None:
            self._searcher.importer.release_store()

    # The session.

    def _ready(self) -> tuple[Session, P]:
        """Sees to it that there is a session."""
        self._take_newer()
        if self._current is not None:
            if self._current[0]._is_open():
                return self._current
            self._drop()
        searcher, step = self._searcher, None
        if searcher is None:
            searcher = Searcher(Search.of(self._stubs, self._url, self._options), self._cls)
        else:
            # After an error the search begins anew.
            self._searcher, step, self._step = None, self._step, Next.AGAIN
        session, made = searcher.search(step)
        assert made is not None and session.service is not None
        self._searcher = searcher
        self._current = (session, made)
        if self._watch is None:
            self._watch = Watch(searcher.settings, self._cls, session.service, searcher.seen)
        else:
            self._watch.use_server(session.service)
        return self._current

    def _take_newer(self) -> None:
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
        session._adopt(self._options.timeout)
        if not session._is_open() or session.service is None:
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

    def close(self) -> None:
        """Ends the session and the watch. Changes that were not committed are lost."""
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        self._drop()
        self._searcher = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        watch = self.__dict__.get("_watch")
        if watch is not None:
            watch.stop()

    def __repr__(self) -> str:
        return f"<service {self._url}>"
