"""A search for a server, as a state machine. It moves no bytes, and knows no clock and no threads.

It asks the traders in random order, the next one after 250 ms, and dials the addresses of the
offers that they find, the next one after 250 ms. :meth:`Importer.poll` returns actions, and the
program that carries them out hands in events. Call ``poll`` until it returns None, after each event
and at :meth:`Importer.next_deadline`. Times are seconds.

States::

    searching -- a server answered: Use --> using -- lost: again, same store --> searching
      |    ^                                  |
      |    +-- pause over -- pausing          +----- lost: give up ------------> failed
      +-- all have failed: ----^                                                   ^
      +-- the time is over --------------------------------------------------------+

A search has these steps; the first one that can be done is done:

1. Dial the next address of the offer under way, then of the next offer.
2. Without offers, ask the next trader.
3. When nothing is under way, pause: a second at first, doubled each time.

An offer is dialled once in a search, until the next pause. The offer that was lost comes last.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from .offers import Offer, is_among, usable_addresses


@dataclass(frozen=True)
class Timing:
    """The times of a search, in seconds."""

    #: Before the next trader is asked.
    ask: float = 0.25
    #: Before the next address is dialled.
    dial: float = 0.25
    #: After which a trader, or a server that is dialled, is given up.
    patience: float = 5.0
    #: Of the first pause, and of the longest one.
    pause_min: float = 1.0
    pause_max: float = 30.0
    #: Of the search; None lets it go on.
    timeout: float | None = None


class Next(Enum):
    """The step after the loss of a server."""

    #: Run again at the next offer.
    AGAIN = auto()
    #: Run again at the next offer of the same store.
    SAME_STORE = auto()


@dataclass(frozen=True)
class Ask:
    """Ask a trader, by its position among the traders."""

    id: int
    trader: int


@dataclass(frozen=True)
class Dial:
    """Connect to a server, greet it, and look the object up."""

    id: int
    offer: Offer
    address: str


@dataclass(frozen=True)
class Cancel:
    """Close a connection that is not needed, or give it up."""

    id: int


@dataclass(frozen=True)
class Use:
    """Use the connection to a server."""

    dial: Dial


@dataclass(frozen=True)
class Fail:
    """Raise the error."""

    why: str


Action = Ask | Dial | Cancel | Use | Fail

NO_TRADER = "no trader has answered"
NO_OFFER = "no trader knows an offer that matches"
NO_ADDRESS = "no offer has an address that this process can use"
NO_STORE = "the server is lost, and its offer names no store that another server could share"


class _Phase(Enum):
    SEARCHING = auto()
    PAUSING = auto()
    USING = auto()
    FAILED = auto()


class Importer:
    """A search, with the server in use."""

    def __init__(
        self,
        timing: Timing,
        traders: int,
        host: str,
        schemes: Sequence[str],
        now: float,
        seed: int | None = None,
    ) -> None:
        self._timing = timing
        self._random = random.Random(seed)
        self._traders = traders
        self._host = host
        self._schemes = tuple(schemes)
        self._phase = _Phase.SEARCHING
        self._pause_until = 0.0
        #: The traders that are still to be asked, the next one at the end.
        self._order: list[int] = []
        #: The questions under way, and the time until which each is waited for.
        self._asks: dict[int, float] = {}
        self._offers: deque[Offer] = deque()
        #: The offers that were dialled since the last pause, or wait for it.
        self._known: list[Offer] = []
        #: The offer under way, with the addresses that are left.
        self._current: tuple[Offer, deque[str]] | None = None
        self._dials: dict[int, tuple[Dial, float]] = {}
        self._cancelled: list[int] = []
        self._opened: Dial | None = None
        self._using: Offer | None = None
        self._last_id = 0
        self._deadline: float | None = None
        #: The offer that was lost, which comes last.
        self._lost: Offer | None = None
        #: The store that an offer must have.
        self._store: str | None = None
        #: The worst that is known of the search, for its error.
        self._failure = NO_TRADER
        self._is_told = False
        self._begin_search(now)

    # The program's side.

    @property
    def is_pausing(self) -> bool:
        """True while it waits until all traders are asked again: all that was tried has failed."""
        return self._phase is _Phase.PAUSING

    @property
    def is_bound(self) -> bool:
        """True while only servers of one store are taken."""
        return self._store is not None

    def moved(self, offer: Offer) -> None:
        """Takes an offer as the one in use: the program has connected to its server by itself."""
        self._use(offer)

    def release_store(self) -> None:
        """Lifts the bound to one store, when the batch that needed it is done."""
        self._store = None

    def give_up(self) -> None:
        """Ends the search with the worst that is known: the program knows that no later round can
        have another end.
        """
        self._fail(self._failure)

    # Events.

    def found(self, ask: int, offers: Iterable[Offer], now: float) -> None:
        """Notes the answer of a trader."""
        if self._end_ask(ask, now):
            self._take(offers)

    def ask_failed(self, ask: int, now: float) -> None:
        """Notes that a trader was not reached, or has refused the question."""
        self._end_ask(ask, now)

    def opened(self, dial: int) -> None:
        """Notes that a server has answered, and has the object."""
        known = self._dials.pop(dial, None)
        if known is not None:
            self._use(known[0].offer)
            self._opened = known[0]

    def dial_failed(self, dial: int, now: float) -> None:
        """Notes that a server was not reached, refuses, or does not have the object."""
        if self._dials.pop(dial, None) is not None:
            self._next_dial = now

    def lost(self, step: Next, now: float) -> None:
        """Notes that the server in use is lost."""
        offer = self._using
        if offer is None:
            return
        self._opened = None
        if step is Next.SAME_STORE:
            if offer.store is None:
                self._fail(NO_STORE)
                return
            self._store = offer.store
        if self._store is not None:
            self._offers = deque(one for one in self._offers if one.store == self._store)
        self._lost = offer
        self._using = None
        self._begin_search(now)

    def _end_ask(self, ask: int, now: float) -> bool:
        """Ends a question; False if it was given up before. The next trader is asked at once if it
        found nothing.
        """
        if self._asks.pop(ask, None) is None:
            return False
        self._next_ask = now
        return True

    def _take(self, offers: Iterable[Offer]) -> None:
        if self._failure == NO_TRADER:
            self._failure = NO_OFFER
        for offer in offers:
            wrong_store = self._store is not None and offer.store != self._store
            if wrong_store or is_among(offer, self._known):
                continue
            self._known.append(offer)
            if not usable_addresses(offer, self._host, self._schemes):
                if self._failure == NO_OFFER:
                    self._failure = NO_ADDRESS
                continue
            self._offers.append(offer)
        if self._offers:
            self._failure = f"no server of {len(self._known)} offers was reached"
        lost = self._lost
        if lost is not None:
            self._offers = deque(sorted(self._offers, key=lost.is_same))

    # The states.

    def _use(self, offer: Offer) -> None:
        self._drop_dials()
        self._current = None
        self._opened = None
        self._phase = _Phase.USING
        self._using = offer

    def _drop_dials(self) -> None:
        self._cancelled.extend(self._dials)
        self._dials.clear()
        self._asks.clear()

    def _fail(self, why: str) -> None:
        self._failure = why
        self._phase = _Phase.FAILED
        self._is_told = False
        self._drop_dials()

    def _begin_search(self, now: float) -> None:
        timeout = self._timing.timeout
        self._deadline = None if timeout is None else now + timeout
        self._failure = NO_TRADER
        self._pause = self._timing.pause_min
        self._begin_round(now)

    def _begin_round(self, now: float) -> None:
        """Asks all traders anew."""
        self._phase = _Phase.SEARCHING
        self._order = list(range(self._traders))
        self._random.shuffle(self._order)
        self._known = list(self._offers)
        self._next_ask = self._next_dial = now

    # Actions.

    def poll(self, now: float) -> Action | None:
        """Returns the next action, if one is due."""
        if self._cancelled:
            return Cancel(self._cancelled.pop())
        if self._phase is _Phase.USING:
            dial, self._opened = self._opened, None
            return None if dial is None else Use(dial)
        is_late = self._deadline is not None and self._deadline <= now
        if is_late and self._phase is not _Phase.FAILED:
            self._fail(self._failure)
        if self._phase is _Phase.FAILED:
            told, self._is_told = self._is_told, True
            return None if told else Fail(self._failure)
        if self._phase is _Phase.PAUSING:
            if now < self._pause_until:
                return None
            self._begin_round(now)
        return self._search(now)

    def _search(self, now: float) -> Action | None:
        self._asks = {ask: until for ask, until in self._asks.items() if now < until}
        for id_, (_, until) in self._dials.items():
            if until <= now:
                del self._dials[id_]
                self._next_dial = now
                return Cancel(id_)
        if not self._dials or self._next_dial <= now:
            dial = self._dial(now)
            if dial is not None:
                return dial
        if self._dials or self._current is not None or self._offers:
            return None
        if self._order and (not self._asks or self._next_ask <= now):
            self._last_id += 1
            self._asks[self._last_id] = now + self._timing.patience
            self._next_ask = now + self._timing.ask
            return Ask(self._last_id, self._order.pop())
        if not self._asks and not self._order:
            # Not all clients of a server that is gone ask again at the same moment.
            self._phase = _Phase.PAUSING
            self._pause_until = now + self._random.uniform(self._pause / 2, self._pause)
            self._pause = min(self._pause * 2, self._timing.pause_max)
        return None

    def _dial(self, now: float) -> Dial | None:
        """Dials the next address."""
        while self._current is None or not self._current[1]:
            self._current = None
            if not self._offers:
                return None
            offer = self._offers.popleft()
            left = usable_addresses(offer, self._host, self._schemes)
            self._current = (offer, deque(left))
        offer, addresses = self._current
        self._last_id += 1
        dial = Dial(self._last_id, offer, addresses.popleft())
        self._dials[dial.id] = (dial, now + self._timing.patience)
        self._next_dial = now + self._timing.dial
        return dial

    def next_deadline(self) -> float | None:
        """Returns the time at which ``poll`` is to be called next; None if only events matter."""
        if self._phase in (_Phase.USING, _Phase.FAILED):
            return None
        times = [] if self._deadline is None else [self._deadline]
        if self._phase is _Phase.PAUSING:
            return min([*times, self._pause_until])
        times.extend(self._asks.values())
        times.extend(until for _, until in self._dials.values())
        has_addresses = bool(self._offers) or (self._current is not None and bool(self._current[1]))
        if has_addresses:
            times.append(self._next_dial)
        elif not self._dials and self._order:
            times.append(self._next_ask)
        return min(times, default=None)
