"""The failures that the program was not told of yet, and the points where it is told.

Every failure is *untold* at first: a signal, a call that the server refused or did not run, a call
or structure that was not sent. It is told by a claim that fails with it or with its consequence,
and by the list of exceptions; its consequences up to then are told with it. A failure is *lost*
when no stub is left whose claim would tell it.

| point | tells, as :class:`Unseen` |
| --- | --- |
| a claim that has a value | lost failures |
| a flush | lost failures, and calls and structures that were not sent |
| a commit, a batch that is a transaction | all untold failures of it; it is not committed |

The server keeps the same account for one bit, ``Unseen``: any failure since the history was cleared
prevents a commit. Two commands keep both accounts equal. The first command of a batch is ``history
clear`` when all failures before it were told. A call of the error-handle before ``commit`` stands
for calls that were not sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .. import _tables as t
from .errors import CallName, Ended, Failure, HistoryEntry, Misused, NotSent, Told, Unseen
from .numbers import Numbers
from .state import REFUSED, Admission, Batch, Bounds, Settings, State
from .wire import head


class Untold:
    """A failure that was not told."""

    __slots__ = ("claimable", "failure", "inside", "order", "refused", "transaction")

    def __init__(
        self, failure: Failure, order: int, transaction: int, refused: bool, inside: bool
    ) -> None:
        self.failure = failure
        self.order = order
        self.transaction = transaction
        #: True if it was not sent.
        self.refused = refused
        #: True if it was inside a structure, whose stubs nobody can claim.
        self.inside = inside
        #: True if a stub is left that tells it.
        self.claimable = True


class Account(State):
    """The account of failures, and the refusal of calls."""

    def __init__(self, numbers: Numbers, bounds: Bounds, settings: Settings) -> None:
        super().__init__(numbers, bounds, settings)
        #: The untold failures by their identities, which are no others' while they are here.
        self.untold: dict[int, Untold] = {}
        #: The consequences of an untold failure, which are told with it.
        self.consequences: dict[int, list[Failure]] = {}
        #: Untold failures beyond those.
        self.untold_omitted = 0
        #: The number of the next failure.
        self.order = 0
        #: The number of failures at which lost ones are looked for.
        self.untold_most = 0
        #: The transaction being recorded, and that at the begin of the batch.
        self.transaction = 0
        self.first_transaction = 0
        #: True if failures of batches that were answered would prevent a commit.
        self.server_unseen = False
        #: The calls up to this position need not be told.
        self.forgiven = 0
        #: Calls that were not sent, of the batch that is a transaction.
        self.shipped: list[Failure] = []

    # Telling.

    def _tell(self, failure: Failure) -> None:
        for one in failure.chain():
            self.untold.pop(id(one), None)
            for consequence in self.consequences.pop(id(one), ()):
                self.untold.pop(id(consequence), None)

    def tell(self, failure: Failure) -> None:
        """Tells the program of a failure, and so of all that it follows from and that followed."""
        if self.untold:
            self._tell(failure)
            self.attend()

    def tell_all(self) -> None:
        """Tells the program of everything."""
        self.untold.clear()
        self.consequences.clear()
        self.untold_omitted = 0
        self.attend()

    def forgive(self) -> None:
        """Marks the failures of the calls up to now as told, and those that are still to come of
        them."""
        self.tell_all()
        self.forgiven = len(self.futures)
        for batch in self.under_way:
            batch.forgiven = math.inf

    def _take(self, which: Callable[[Untold], bool]) -> tuple[Failure, ...]:
        """Takes some of the failures out, oldest first. Consequences of others among them are not
        named."""
        taken = sorted((u for u in self.untold.values() if which(u)), key=lambda u: u.order)
        named = []
        for untold in taken:
            if id(untold.failure) in self.untold:
                named.append(untold.failure)
            self._tell(untold.failure)
        return tuple(named)

    # Noting.

    def _note(self, failure: Failure, transaction: int, refused: bool, inside: bool) -> None:
        self.untold[id(failure)] = Untold(failure, self.order, transaction, refused, inside)
        self.order += 1
        self.stale = True

    def bound_untold(self) -> None:
        """Keeps the number of lost failures bounded, when the stubs of all failures are there."""
        if len(self.untold) > max(self.untold_most, 2 * t.HISTORY_MAX):
            self._find_lost()
            self.untold_most = 2 * len(self.untold)

    def _note_refusal(self, failure: Failure) -> None:
        self.bound_untold()
        if self.shipping:
            self.shipped.append(failure)
        self._note(failure, self.transaction, True, bool(self.scopes))

    def note_failure(self, failure: Failure, batch: Batch, position: int) -> None:
        """Notes a failure that the server has told of, by the position of its call."""
        if position <= batch.forgiven:
            return
        first = None
        for cause in list(failure.chain())[1:]:
            if id(cause) in self.untold:
                first = cause
        if first is not None:
            self.consequences.setdefault(id(first), []).append(failure)
        self._note(failure, batch.transaction_at(position), False, False)

    def note_unseen(self, failure: Failure, batch: Batch, position: int) -> None:
        """Notes an error of a commit, which stands for the failures that it names."""
        self._note(failure, batch.transaction_at(position), True, False)

    # Lost failures.

    def _find_lost(self) -> None:
        """Finds the failures that no stub is left to tell. Keeps as many of them as the history
        has."""
        if not self.stale:
            return
        self.stale = False
        untold = self.untold
        for entry in untold.values():
            entry.claimable = False
        for reference in list(self.failed.values()):
            slot = reference()
            failure = None if slot is None else self.failure_of(slot)
            if failure is None:
                continue
            for one in failure.chain():
                found = untold.get(id(one))
                if found is not None:
                    found.claimable = not found.inside
        lost = sorted(entry.order for entry in untold.values() if not entry.claimable)
        if len(lost) > t.HISTORY_MAX:
            first = lost[t.HISTORY_MAX]
            self.untold = {k: u for k, u in untold.items() if u.claimable or u.order < first}
            self.untold_omitted += len(lost) - t.HISTORY_MAX

    @property
    def is_all_told(self) -> bool:
        """True if there is no failure of which the program was not told."""
        return not self.untold and self.untold_omitted == 0

    def surface(self, refused: bool) -> None:
        """Tells of the failures that are lost, and, with ``refused``, of all that was not sent:
        raises
        :class:`Told` with :class:`Unseen`, if there are some."""
        if self.is_all_told:
            return
        self._find_lost()
        # A consequence of a failure that a stub tells is lost all the same: its effects are
        # missing.
        failures = self._take(lambda u: not u.claimable or (refused and u.refused))
        omitted, self.untold_omitted = self.untold_omitted, 0
        self.attend()
        if failures or omitted:
            raise Told(Unseen(failures, omitted, None))

    def unseen(self, call: CallName, through: float) -> Unseen | None:
        """Returns the failure of a commit or transaction that the server refused for unseen
        failures: it names them. They are told with it.
        """
        failures = self._take(lambda u: u.transaction <= through)
        omitted, self.untold_omitted = self.untold_omitted, 0
        return Unseen(failures, omitted, call) if failures or omitted else None

    def unseen_now(self, call: CallName) -> Unseen | None:
        """As :meth:`unseen`, of the transaction being recorded."""
        if self.server_unseen and not self._all_told():
            return self.unseen(call, self.transaction)
        return None

    # The server's part of the account.

    def _all_told(self) -> bool:
        """True if the program was told of all failures that the server knows of the transaction
        being recorded.
        """
        return self.untold_omitted == 0 and all(
            u.refused or u.transaction != self.transaction for u in self.untold.values()
        )

    def must_clear(self) -> bool:
        """True if the next command is to be ``history clear``."""
        return (
            self.server_unseen
            and self.commands == 0
            and not self.scopes
            and not self.shipping
            # Failures of batches under way are not told yet.
            and not self.under_way
            and self._all_told()
        )

    def clear_told(self) -> None:
        """Records ``history clear``, if it is due."""
        if self.must_clear():
            self.record_clear()

    def record_clear(self) -> None:
        """Records ``history clear``."""
        self.batch.append(head(t.OP_HISTORY, t.HISTORY_CLEAR, 0))
        self.extra += 1
        self.server_cleared()

    def server_cleared(self) -> None:
        """Notes that the server's history is cleared with the next command."""
        self.server_unseen = False
        self.attend()

    def _is_prevented(self) -> bool:
        """True if calls that were not sent prevent the commit of the transaction being recorded."""
        return any(u.refused and u.transaction == self.transaction for u in self.untold.values())

    def commit_needs_flush(self) -> bool:
        """True if a flush is due before a commit is recorded."""
        if self._is_prevented():
            # The call and the commit belong into one batch.
            return (
                len(self.futures) + 2 > self.attention_futures
                or self.commands + 3 > self.bounds.commands
            )
        # Told in the middle of a batch, whose own failures must not be cleared with them.
        return self.server_unseen and self._all_told()

    def before_commit(self, place: object) -> None:
        """Makes sure that a commit behind the recorded commands is refused if any failure was not
        seen, and only then."""
        if self._is_prevented():
            self.batch.append(t.OP_CALL)
            self.batch.append(0)
            self.extra += 1
            self.skip_result(REFUSED, place)
        else:
            self.clear_told()

    def next_transaction(self) -> int:
        """Ends the transaction at the current place of recording; returns its number."""
        ended = self.transaction
        self.transaction += 1
        return ended

    def note_answer(self, failures: bool) -> None:
        """Notes that a batch was answered."""
        self.server_unseen = self.server_unseen or failures
        self.stale = True

    def take_shipped_refusals(self) -> tuple[Failure, ...]:
        """Takes out the calls of the batch that is a transaction that were not sent; the program is
        told of them."""
        refusals, self.shipped = tuple(self.shipped), []
        for failure in refusals:
            self.tell(failure)
        return refusals

    def tell_since(self, mark: int) -> None:
        """Tells the program of all failures since :attr:`order` was this."""
        self._take(lambda u: u.order >= mark)
        self.attend()

    # Refusals.

    def attend(self) -> None:
        """Sets the size at which recording is to be looked at more closely."""
        now = self.broken is not None or self.poison is not None or self.must_clear()
        self.attention_words = 0 if now else t.PUBLISH_BYTES // 8

    def refuse(self, name: str, place: object, why: Failure) -> Failure:
        """Notes a call, a marker or a structure that cannot be recorded, and returns the failure of
        its stubs. Inside a structure the outermost one is refused with it, if it is another."""
        # All calls of a refused structure have its failure, which is noted once.
        if self.poison is why:
            return why
        failure = why
        if not isinstance(why, Ended):
            failure = self._not_sent(name, place, failure)
            if self.scopes:
                outermost = self.scopes[0]
                if (outermost.kind, outermost.place) != (name, place):
                    around = self.unsent_name(outermost.kind, outermost.place)
                    failure = NotSent(around, failure)
            self.remember(failure, self.batch_number)
            self._note_refusal(failure)
        if self.scopes:
            self.poison = failure
            self.attend()
        return failure

    def _not_sent(self, name: str, place: object, why: Failure) -> Failure:
        # A stub that was not made itself stands for the first that was not.
        cause = why
        for one in why.chain():
            if isinstance(one, NotSent):
                cause = one
        return NotSent(self.unsent_name(name, place), cause)

    def refusal(self) -> Failure | None:
        """Returns the reason why the open structure will not be sent, or the session is closed."""
        return self.broken or self.poison

    def remember(self, failure: Failure, batch: int) -> None:
        """Enters a failure into the history."""
        if len(self.history) < t.HISTORY_MAX:
            self.history.append(HistoryEntry(batch, failure))
        else:
            self.history_omitted += 1

    def exceptions(self) -> list[HistoryEntry]:
        """Returns all failures of flushed batches, and all calls that were not sent, since the
        history was last cleared, oldest first. The program is told of them.
        """
        self.tell_all()
        return self.history

    def clear_exceptions(self, place: object) -> bool:
        """Clears the history: the failures of the calls up to now count as told. True if the
        server's is to be cleared too, with :meth:`clear_server`. Refused inside a structure.
        """
        self.history = []
        self.history_omitted = 0
        self.forgive()
        if self.shipping:
            wrong = t.MISUSE_IN_TRANSACTION
        elif self.scopes:
            wrong = t.MISUSE_OPEN_STRUCTURE
        else:
            self.server_cleared()
            return True
        self.refuse("history", place, Misused(wrong))
        return False

    def clear_server(self, admitted: Admission) -> None:
        """Clears the server's history, as the second half of :meth:`clear_exceptions`."""
        if admitted is None:
            self.record_clear()

    def profile_due(self, on: bool) -> bool:
        """Checks a program's wish for the profiles of its batches, or for no more of them. True if
        it changes anything: then :meth:`profile` records it. Raises :class:`Told`; nothing has
        changed then.
        """
        if self.broken is not None:
            raise Told(self.broken)
        if self.scopes:
            raise Told(Misused(t.MISUSE_OPEN_STRUCTURE))
        if self.shipping:
            raise Told(Misused(t.MISUSE_IN_TRANSACTION))
        if not self.bounds.profiles:
            raise Told(Misused(t.MISUSE_NO_PROFILES))
        return on != self.profiled

    def profile(self, admitted: Admission, on: bool) -> None:
        """Has the server measure this batch and all later ones, or no more, as the second half of
        :meth:`profile_due`. Raises :class:`Told`.
        """
        if admitted is not None:
            raise Told(admitted)
        self.batch.append(head(t.OP_PROFILE, t.PROFILE_ON if on else 0, 0))
        self.extra += 1
        self.profiled = on
