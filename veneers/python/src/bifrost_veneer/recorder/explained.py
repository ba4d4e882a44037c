"""Explanations: the recorded batch as text, accounts of the last batches, advice that saves
crossings.

:class:`Explained` is the type to read first. ``crates/recorder/src/explain.rs`` writes the same
texts.

Cost: at a flush the bytes of the batch are copied, at most ``EXPLAINED_BYTES``, and the list of at
most :data:`LOOKED_AT` calls. Calls are counted by their places when advice is asked for.
"""

from __future__ import annotations

import time
from array import array
from collections import Counter, deque
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from .decode import Flushed, Profile
from .numbers import Numbers
from .printer import Kept
from .state import COMMIT, Bounds, Info, Settings, Slot, place_of
from .structures import Structures

#: The number of batches whose accounts are kept.
ACCOUNTS: Final = 32
#: The number of calls of a batch that are counted by their places.
LOOKED_AT: Final = 512
#: The number of times that a place has to repeat a call before it is told.
_REPEATED: Final = 64
#: The most places of calls that are counted.
_PLACES: Final = 16
#: A batch of so many commands or fewer has hardly been worth its crossing.
_FEW: Final = 8
#: The number of batches that have to end at one claim before it is told.
_AGAIN: Final = 3


@dataclass(frozen=True, slots=True)
class Advice:
    """Something to write otherwise, in words by ``str``."""

    kind: Literal["claim_again", "claims_apart", "repeated"]
    #: The call that was claimed or repeated.
    call: str
    #: The place of the claim or of the repeated call; of two claims the second.
    place: object
    #: The batches that ended with the claim, or the times that the call was repeated, at least; of
    #: two claims 1.
    times: int
    #: The place of the first of two claims.
    first: object
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(slots=True)
class BatchAccount:
    """The account of a batch that was sent."""

    #: Its number in the session, from 1.
    number: int
    commands: int
    #: The place of the program's call that has sent it, in a tuple; None for a limit, or for the
    #: end of a transaction or session.
    asked: tuple[object] | None
    #: The call whose claimed result has sent it.
    claimed: Info | None
    #: Its first calls, if one may be repeated very often.
    calls: list[Info]
    #: The time at which it was sent.
    begun: float
    #: The calls that the server ran, those of loops each time; the fuel; the failures.
    ran: tuple[int, int, int] | None = None
    #: The time at the server and the fetches, if the answer has a profile.
    totals: str | None = None
    #: The seconds up to the answer.
    took: float | None = None

    def claim(self) -> tuple[object, int] | None:
        """Returns the place of the claim that has sent a small batch, and the maker of its result."""
        if self.asked is None or self.claimed is None or self.commands > _FEW:
            return None
        return self.asked[0], self.claimed[0]

    def repeated(self) -> tuple[int, object, int] | None:
        """Returns the call that one place has made most often, if it has very often."""
        counts: dict[tuple[int, object], int] = {}
        for call in self.calls:
            key = (call[0], place_of(call))
            if key in counts or len(counts) < _PLACES:
                counts[key] = counts.get(key, 0) + 1
        often = [
            (times, at, *key)
            for at, (key, times) in enumerate(counts.items())
            if times >= _REPEATED and key[0] < COMMIT
        ]
        if not often:
            return None
        # Of equal counts the last one.
        times, _, made, place = max(often, key=lambda one: one[:2])
        return made, place, times


class Explained(Structures):
    """Keeps the bytes and the accounts of the last batches."""

    def __init__(self, numbers: Numbers, bounds: Bounds, settings: Settings) -> None:
        super().__init__(numbers, bounds, settings)
        #: The part of the recorded batch that was sent.
        self._sent = Kept()
        self._last = Kept()
        self._accounts: deque[BatchAccount] = deque(maxlen=ACCOUNTS)
        #: The call whose result is claimed.
        self._claimed: Info | None = None
        #: The profile of the batch that was sent last.
        self.profile_of_last: Profile | None = None

    # Notes.

    def keep_sent(self, words: array[int]) -> None:
        """Keeps words of the batch that are sent before its end."""
        self._sent.keep(words)

    def note_claim(self, slot: Slot) -> None:
        """Notes that the stub's future is going to be claimed, which ends the batch."""
        self._claimed = self.infos[~slot._ref] if slot._ref < 0 else None

    def take_claim(self) -> Info | None:
        """Returns the call whose result is claimed, which is noted no more."""
        claimed, self._claimed = self._claimed, None
        return claimed

    def note_end(
        self, commands: int, infos: list[Info], asked: tuple[object] | None, claimed: Info | None
    ) -> None:
        """Notes the end of the batch."""
        self._sent.keep(self.batch)
        self._last, self._sent = self._sent, Kept()
        self.profile_of_last = None
        calls = infos[:LOOKED_AT] if len(infos) >= _REPEATED else []
        begun = time.perf_counter()
        self._accounts.append(
            BatchAccount(self.batch_number, commands, asked, claimed, calls, begun)
        )

    def note_answer_of(self, number: int, reply: Flushed) -> None:
        """Notes the answer to a batch."""
        if number == self.batch_number - 1:
            self.profile_of_last = reply.profile
        for account in reversed(self._accounts):
            if account.number == number:
                failures = len(reply.exceptions) + reply.omitted
                account.ran = (reply.calls, reply.fuel, failures)
                account.totals = None if reply.profile is None else reply.profile.totals
                account.took = time.perf_counter() - account.begun

    # Texts.

    def explain(self) -> str:
        """Returns the batch that is recorded, a line for each command in the text form: what the
        next crossing will bring to the server. Handles are ``h5``, results ``@3``.
        """
        number, commands = self.batch_number, self.commands
        if commands == 0:
            return f"# batch {number}: nothing is recorded\n"
        batch = self._sent.copy()
        batch.keep(self.batch)
        head = f"# batch {number}: {commands} commands, not sent\n"
        return head + batch.lines(self.numbers, self.procedure_names)

    def explain_last(self) -> str | None:
        """Returns the batch that was sent last, a line for each command, below its account; None if
        none was. If its answer has a profile, the account has the time at the server, and each line
        the cost of its command.
        """
        if not self._accounts:
            return None
        head = f"# {self._line(self._accounts[-1])}\n"
        return head + self._last.lines(self.numbers, self.procedure_names, self.profile_of_last)

    def explain_batches(self) -> list[str]:
        """Returns the accounts of the last batches in words, oldest first."""
        return [self._line(account) for account in self._accounts]

    def _line(self, account: BatchAccount) -> str:
        line = f"batch {account.number}: {account.commands} commands"
        if account.ran is None:
            line += ", not answered"
        else:
            calls, fuel, failures = account.ran
            line += f", {calls} calls run, fuel {fuel}"
            line += f", {failures} failures" if failures else ""
        line += "" if account.totals is None else f", at the server {account.totals}"
        line += "" if account.took is None else f", answered in {account.took * 1e6:.1f} us"
        if account.asked is None:
            return line
        place = self.show_place(account.asked[0])
        if account.claimed is None:
            return f"{line}; sent by the call at {place}"
        call = self.made_name(account.claimed[0])
        recorded = self.show_place(place_of(account.claimed))
        return f"{line}; sent by the claim at {place} of `{call}`, recorded at {recorded}"

    # Advice.

    def advice(self) -> list[Advice]:
        """Returns what would have saved crossings in the last batches, each once; the most frequent
        first.

        It compares places and numbers of commands. It cannot know if a program needs a value before
        it makes the next call.
        """
        claims = [account.claim() for account in self._accounts]
        batches = Counter(claim[0] for claim in claims if claim is not None)
        # In the order of their first batches, where they are equal.
        again = {place: times for place, times in batches.most_common() if times >= _AGAIN}
        makers = {claim[0]: claim[1] for claim in reversed(claims) if claim is not None}
        advice = [self._claim_again(place, makers[place], again[place]) for place in again]
        known = set()
        for one, other in pairwise(claims):
            if one is None or other is None or one[0] == other[0]:
                continue
            (first, _), (second, made) = one, other
            if (first in again and second in again) or (first, second, made) in known:
                continue
            known.add((first, second, made))
            advice.append(self._claims_apart(first, second, made))
        places = set()
        for account in self._accounts:
            repeated = account.repeated()
            if repeated is not None and repeated[1] not in places:
                places.add(repeated[1])
                advice.append(self._repeated(*repeated))
        return advice

    def _claim_again(self, at: object, made: int, batches: int) -> Advice:
        call, place = self.made_name(made), self.show_place(at)
        text = (
            f"{batches} of the last {len(self._accounts)} batches ended with the claim of `{call}` "
            f"at {place}, after {_FEW} commands or fewer: record the calls of all rounds before the "
            "first claim, or have the server loop with `foreach`, `while` or a procedure and bring "
            "the values back as rows of a table"
        )
        return Advice("claim_again", call, place, batches, None, text)

    def _claims_apart(self, one: object, other: object, made: int) -> Advice:
        call, first, second = self.made_name(made), self.show_place(one), self.show_place(other)
        text = (
            f"the claims at {first} and {second} crossed one after the other, after {_FEW} commands "
            f"or fewer each: record `{call}` before the first claim; if it needs the claimed value, "
            "pass it the promise"
        )
        return Advice("claims_apart", call, second, 1, first, text)

    def _repeated(self, made: int, at: object, times: int) -> Advice:
        call, place = self.made_name(made), self.show_place(at)
        text = (
            f"`{call}` was recorded {times} times or more at {place} in one batch: a `foreach` or "
            "`while` is recorded and sent once"
        )
        return Advice("repeated", call, place, times, None, text)
