"""Carries out the actions of :class:`.importer.Importer` on threads.

A search polls the importer, starts a thread for each question and each address, and takes what they
report:

| action | thread | reports |
| --- | --- | --- |
| ``Ask`` | a session with the trader, ``find`` | offers, or a failure |
| ``Dial`` | connection, greeting, the object | a session, or a failure |
| ``Use`` | | the session is returned |
| ``Fail`` | | the error, with the last failure of each place |

A thread whose result is not needed any more ends by itself, within the patience of the importer,
and closes its session. :class:`Account` is the part that :mod:`.asearch` has in common.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..errors import BifrostError, ConnectError
from ..recorder.numbers import Stubs
from ..session import Options, Session
from ..stubs import Stub
from .dial import ATTEMPTS_MAX, SCHEMES, Attempt, Imported, Search, is_final
from .importer import Ask, Cancel, Dial, Fail, Importer, Next, Use
from .offers import Offer

P = TypeVar("P", bound=Stub[Any])
S = TypeVar("S")


@dataclass(frozen=True)
class Asked:
    """The report of a question."""

    ask: Ask
    outcome: list[Offer] | Exception


@dataclass(frozen=True)
class Dialled(Generic[S]):
    """The report of an address: ``outcome`` is the session with the object, or a failure."""

    dial: Dial
    outcome: S | Exception


class Account(Generic[S]):
    """The reports of one search: sessions that were opened, and failures."""

    def __init__(self, search: Search, importer: Importer) -> None:
        self._search = search
        self._importer = importer
        #: The sessions that were opened, each with its object, by the numbers of their dials.
        self.opened: dict[int, S] = {}
        #: The offers of the last answer.
        self.seen: list[Offer] = []
        self.attempts: list[Attempt] = []
        #: The traders that will answer the same the next time: not at all.
        self._refusing: set[int] = set()
        # The failures of servers since the last pause: those that the next try has too, and others.
        self._finals = 0
        self._others = 0

    def take(self, report: Asked | Dialled[S], now: float) -> None:
        """Hands a report to the importer."""
        if isinstance(report, Asked):
            self._asked(report.ask, report.outcome, now)
            return
        dial, outcome = report.dial, report.outcome
        if isinstance(outcome, Exception):
            if is_final(outcome):
                self._finals += 1
            else:
                self._others += 1
            self._note(dial.address, outcome)
            self._importer.dial_failed(dial.id, now)
        else:
            self.opened[dial.id] = outcome
            self._importer.opened(dial.id)

    def _asked(self, ask: Ask, outcome: list[Offer] | Exception, now: float) -> None:
        if isinstance(outcome, list):
            self._refusing.discard(ask.trader)
            self.seen = outcome
            self._importer.found(ask.id, outcome, now)
            return
        if is_final(outcome):
            self._refusing.add(ask.trader)
        self._note(str(self._search.traders[ask.trader]), outcome)
        self._importer.ask_failed(ask.id, now)

    def _note(self, place: str, why: Exception) -> None:
        """Notes the last failure of a place."""
        others = [attempt for attempt in self.attempts if attempt.place != place]
        self.attempts = [*others[-(ATTEMPTS_MAX - 1) :], Attempt(place, why)]

    def is_vain(self) -> bool:
        """True if no later round can have another end."""
        if len(self._refusing) >= len(self._search.traders):
            return True
        if not self._importer.is_pausing:
            return False
        finals, others, self._finals, self._others = self._finals, self._others, 0, 0
        return finals > 0 and others == 0

    def failed(self, step: str) -> ConnectError:
        """Returns the error of the search."""
        return self._search.failed(step, self.attempts)


def new_importer(search: Search, now: float) -> Importer:
    """Makes the importer of a search."""
    return Importer(search.timing, len(search.traders), search.host, SCHEMES, now)


_Opened = tuple[Session, P | None]


class _Round(Generic[P]):
    """The threads of one search. What is reported behind its end is closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_over = False
        self.reports: queue.SimpleQueue[Asked | Dialled[_Opened[P]]] = queue.SimpleQueue()

    def start(self, work: Callable[[], Asked | Dialled[_Opened[P]]]) -> None:
        """Starts a thread."""

        def run() -> None:
            report = work()
            with self._lock:
                if not self._is_over:
                    self.reports.put(report)
                    return
            _close(report)

        threading.Thread(target=run, name="bifrost-import", daemon=True).start()

    def end(self) -> None:
        """Ends the round."""
        with self._lock:
            self._is_over = True
        while not self.reports.empty():
            _close(self.reports.get())


def _close(report: Asked | Dialled[_Opened[P]]) -> None:
    if isinstance(report, Dialled) and not isinstance(report.outcome, Exception):
        report.outcome[0]._leave()


class Searcher(Generic[P]):
    """A search with the server that it has found."""

    def __init__(self, search: Search, cls: type[P] | None) -> None:
        self.settings = search
        #: The type of the object to be looked up; None for the session alone.
        self.cls = cls
        self.importer = new_importer(search, time.monotonic())
        #: The offers that the last search has had to choose from.
        self.seen: list[Offer] = []

    def search(self, step: Next | None) -> tuple[Session, P | None]:
        """Finds a server and connects to it; after a loss, as the step says. Not again after an
        error. Raises :class:`ConnectError`.
        """
        importer, search = self.importer, self.settings
        if step is not None:
            importer.lost(step, time.monotonic())
        round_: _Round[P] = _Round()
        account: Account[_Opened[P]] = Account(search, importer)
        try:
            while True:
                now = time.monotonic()
                match importer.poll(now):
                    case None:
                        if account.is_vain():
                            importer.give_up()
                        else:
                            self._wait(round_, account, now)
                    case Ask() as ask:
                        round_.start(lambda ask=ask: self._ask(ask))  # type: ignore[misc]
                    case Dial() as dial:
                        round_.start(lambda dial=dial: self._dial(dial))  # type: ignore[misc]
                    case Cancel(number):
                        _drop(account.opened.pop(number, None))
                    case Use(dial):
                        return self._use(account, dial)
                    case Fail(why):
                        raise account.failed(why)
        finally:
            self.seen = account.seen
            round_.end()
            for opened in account.opened.values():
                _drop(opened)

    def _wait(self, round_: _Round[P], account: Account[_Opened[P]], now: float) -> None:
        until = self.importer.next_deadline()
        try:
            report = round_.reports.get(timeout=None if until is None else max(until - now, 0))
        except queue.Empty:
            return
        account.take(report, time.monotonic())

    def _use(self, account: Account[_Opened[P]], dial: Dial) -> tuple[Session, P | None]:
        session, made = account.opened.pop(dial.id)
        session._adopt(self.settings.options.timeout)
        session.service = Imported(dial.offer, dial.address)
        return session, made

    def _ask(self, ask: Ask) -> Asked:
        try:
            return Asked(ask, self.settings.ask(ask.trader))
        except (BifrostError, OSError) as error:
            return Asked(ask, error)

    def _dial(self, dial: Dial) -> Dialled[_Opened[P]]:
        try:
            return Dialled(dial, self.settings.dial(dial.offer, dial.address, self.cls))
        except (BifrostError, OSError) as error:
            return Dialled(dial, error)


def _drop(opened: tuple[Session, Any] | None) -> None:
    if opened is not None:
        opened[0]._leave()


def import_session(stubs: Stubs, url: str, options: Options) -> Session:
    """Opens a session with a server that traders know. Raises :class:`ConnectError`."""
    searcher: Searcher[Any] = Searcher(Search.of(stubs, url, options), None)
    return searcher.search(None)[0]
