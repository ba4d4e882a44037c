"""The way of a batch to the server, and its answer back.

Read :meth:`Recorder.begin_flush` and :meth:`Recorder.handle_bytes` first. A flush has these steps:

1. the caller sends the rest of the batch;
2. it hands in the bytes of the reply;
3. the slots of the futures are filled;
4. failures go to the history and to the account.

A wrong reply closes the session. A batch is *under way* from ``begin_flush`` until ``handle_bytes``
is true for it; answers come in order. The next batch is recorded meanwhile, and may use the stubs
of those under way if their flush was kept.

Bytes of the server are not trusted: they are decoded and checked, positions and counts are compared
with those of the batch, and no more than ``reply_bytes_max`` are kept.
"""

from __future__ import annotations

import re

from .. import _tables as t
from .decode import (
    Bad,
    CameException,
    CameRefused,
    CameSignal,
    CameUnhandled,
    ErrorReply,
    Flushed,
    Handle,
    Need,
    Outcome,
    Reply,
    Table,
    decode_reply,
    each_reference,
)
from .errors import (
    ByBadReply,
    ByServer,
    ByWrongReply,
    CallName,
    Closed,
    Ended,
    Failure,
    GivenBack,
    Misused,
    NotReached,
    Refused,
    Signal,
    Told,
    Unhandled,
    Unseen,
)
from .explained import Explained
from .numbers import Numbers
from .state import (
    COMMIT,
    KIND_BITS,
    REFUSED,
    TRANSACTION,
    UNDER_WAY,
    Batch,
    Bounds,
    Holder,
    Info,
    Settings,
    Slot,
)
from .wire import Value, flush_flags, head, new_words, put_flush, to_bytes

#: The tags of values that are held by nothing else.
_WORDS = frozenset(
    (t.TAG_NIL, t.TAG_BOOL, t.TAG_INT, t.TAG_REAL, t.TAG_CHAR, t.TAG_STRING, t.TAG_BYTES)
)

_HANDLE = re.compile(r"handle h([0-9]*)")


class Replies:
    """The bytes of replies, in whatever pieces they come."""

    __slots__ = ("_bytes_max", "_kept")

    def __init__(self, bytes_max: int) -> None:
        #: The bytes of a reply that is not whole yet, and those behind one that was taken.
        self._kept = bytearray()
        self._bytes_max = bytes_max

    @property
    def is_empty(self) -> bool:
        """True if nothing follows the last reply."""
        return not self._kept

    def next(self, data: bytes) -> Reply | None:
        """Takes further bytes. Returns the reply at the front, if it is whole. Raises
        :class:`Bad`.
        """
        kept = self._kept
        if not kept:
            if not data:
                return None
            # Most replies come whole, and alone.
            try:
                reply, length = decode_reply(data, self._bytes_max)
            except Need:
                kept += data
                return None
            if length < len(data):
                kept += data[length:]
            return reply
        kept += data
        try:
            reply, length = decode_reply(kept, self._bytes_max)
        except Need:
            return None
        del kept[:length]
        return reply

    def last_words(self, data: bytes) -> Closed | bool:
        """Looks for the reason that a server gives before it closes a session: the reason, False if
        there is none, True if more bytes are needed."""
        try:
            reply = self.next(data)
        except Bad:
            return False
        match reply:
            case None:
                return True
            case ErrorReply(number, position, text):
                return ByServer(number, position, text)
        return False


class Recorder(Explained):
    """The recorder of one session: calls become a batch, the reply becomes knowledge about stubs.

    It does no input or output, and knows no threads or sockets; accounts of batches have times.
    """

    def __init__(
        self, numbers: Numbers, bounds: Bounds, settings: Settings, replies: Replies
    ) -> None:
        super().__init__(numbers, bounds, settings)
        self._replies = replies

    # Bytes out.

    @property
    def has_flushed_bytes(self) -> bool:
        """True if there are bytes of flushed batches that were not sent."""
        return bool(self.unsent)

    @property
    def has_bytes(self) -> bool:
        """True if there are bytes that can be sent now: whole commands."""
        return bool(self.unsent) or (bool(self.batch) and not self.scopes and not self.shipping)

    def take_bytes(self, flushed: bool = False) -> bytes:
        """Takes the bytes that can be sent now, and counts them as sent: those of flushed batches,
        or else, unless ``flushed``, those of the recorded one. None of the latter while a structure
        is open or a batch that is a transaction is recorded.
        """
        if self.unsent:
            data = to_bytes(self.unsent)
            self.unsent = new_words()
        elif self.scopes or self.shipping or flushed:
            return b""
        else:
            data = to_bytes(self.batch)
            self.keep_sent(self.batch)
            self.published += len(self.batch)
            del self.batch[:]
        self.sent_bytes += len(data)
        return data

    # The end of a session.

    def close(self, why: Closed) -> Failure:
        """Closes the session, and returns the failure that every stub without a result has now, and
        every later one."""
        if self.broken is not None:
            return self.broken
        failure = Ended(why)
        self._end_all(failure)
        del self.batch[:]
        self.extra = 0
        self.broken = failure
        self.attend()
        return failure

    def _end_all(self, failure: Failure) -> None:
        batches = [Batch(0), *self.under_way]
        batches[0].futures = self.futures
        for batch in batches:
            for slot in batch.futures:
                if slot is not None:
                    self.settle_failed(slot, failure)
        self.futures = []
        self.infos = []
        self.under_way.clear()
        self.answered.clear()
        self.unsent = new_words()
        self.wanted = 0

    @property
    def is_closed(self) -> bool:
        """True if the session is closed."""
        return self.broken is not None

    def leave(self) -> bool:
        """Ends the session without an answer: commands that were recorded and never flushed are to
        be sent, and run. False if the session is closed already; otherwise the caller sends the
        bytes and closes the session.
        """
        if self.broken is not None:
            return False
        while self.scopes:
            self.abandon()
        self.shipping = False
        self.batch.append(t.OP_BYE)
        return True

    def end_work(self) -> None:
        """Gives all stubs up: the results of the recorded batch, and the handles, which go back
        with it.
        """
        failure = Ended(GivenBack())
        for position, slot in enumerate(self.futures):
            if slot is not None:
                self.settle_failed(slot, failure)
                self.futures[position] = None
        for handle, held in self.handles.items():
            held.holders = 0
            self.frees.append(handle)

    def succeed(self) -> Recorder:
        """Ends this recorder, and returns the one that goes on with the session, in which nothing
        is recorded and nothing under way. Procedures, counts and the wish for profiles stay, as
        the server has them.
        """
        other = Recorder(self.numbers, self.bounds, self.settings, self._replies)
        other.procedures = self.procedures
        other.procedures_by_name = self.procedures_by_name
        other.procedure_names = self.procedure_names
        other.crossings, other.calls, other.executed = self.crossings, self.calls, self.executed
        other.batch_number, other.sent_bytes = self.batch_number, self.sent_bytes
        other.transaction_ends = self.transaction_ends
        other.profiled = self.profiled
        self.close(GivenBack())
        return other

    # Flushing.

    @property
    def is_under_way(self) -> bool:
        """True while the answer to a flush is due."""
        return bool(self.under_way)

    def is_unanswered(self, batch: int) -> bool:
        """True if a batch was not answered yet, by its number."""
        return batch >= (self.under_way[0].number if self.under_way else self.batch_number)

    @property
    def is_crowded(self) -> bool:
        """True if a flush has to wait for an answer first: too many batches are under way, or their
        results and those of this batch are too many."""
        batches = len(self.under_way)
        return batches > 0 and (
            batches >= self.bounds.under_way
            or self.wanted + len(self.futures) > self.bounds.futures
        )

    @property
    def wait_ms(self) -> int:
        """The milliseconds that the batches under way may wait for changes of others: a client
        waits so much longer for the answers.
        """
        return sum(batch.wait_ms for batch in self.under_way) + self.batch_wait_ms

    def begin_flush(self, kept: bool) -> bool:
        """Ends the batch: records the frees and the flush. False if there is nothing to send;
        otherwise the batch is under way: the bytes are to be sent, and the answer is to be handed
        in. With ``kept``, batches that are recorded before the answer may use the stubs of this
        one. Raises :class:`Told`.
        """
        return self._begin_flush(kept, None)

    def _begin_flush(self, kept: bool, asked: tuple[object] | None) -> bool:
        claimed = self.take_claim()
        if self.broken is not None:
            raise Told(self.broken)
        if self.scopes:
            raise Told(Misused(t.MISUSE_OPEN_STRUCTURE))
        if self.dropped or self.frees:
            self.prune_frees()
        if self.commands == 0 and not self.frees:
            return False
        if self.is_crowded:
            raise Told(Misused(t.MISUSE_UNDER_WAY))
        if self.frees:
            self._append_frees()
        self._put_under_way(kept, asked, claimed)
        self.attend()
        return True

    def begin_flush_for(self, name: str, kept: bool, place: object) -> bool:
        """Begins a flush for the program, which cannot while a batch that is a transaction is
        recorded. ``name`` is the program's call: ``claim``, ``flush``. Raises :class:`Told`.
        """
        if self.shipping and self.broken is None and not self.scopes:
            self.take_claim()
            failure = self.refuse(name, place, Misused(t.MISUSE_IN_TRANSACTION))
            self.tell(failure)
            raise Told(failure)
        return self._begin_flush(kept, (place,))

    def _append_frees(self) -> None:
        # An answer under way may name a handle again: then the server does not take it back.
        unanswered = len(self.under_way)
        # Leaves room for the first word.
        most = max(self.bounds.frame_bytes // 8 - 1, 1)
        frees, self.frees = self.frees, []
        for start in range(0, len(frees), most):
            some = frees[start : start + most]
            self.batch.append(head(t.OP_FREE, unanswered, len(some)))
            self.batch.extend(some)
        for handle in frees:
            del self.handles[handle]

    def _put_under_way(self, kept: bool, asked: tuple[object] | None, claimed: Info | None) -> None:
        number = self.batch_number
        batch = Batch(number)
        commands = self.commands
        wanted = self.keep_wanted()
        batch.futures, self.futures = self.futures, []
        batch.infos, self.infos = self.infos, []
        batch.error_handles, self.error_handles = self.error_handles, []
        batch.structures, self.structures = self.structures, []
        batch.kept = kept
        batch.transactions = (self.first_transaction, self.transaction)
        self.first_transaction = self.transaction
        batch.forgiven, self.forgiven = self.forgiven, 0
        batch.wait_ms, self.batch_wait_ms = self.batch_wait_ms, 0
        batch.wanted = len(wanted)
        futures = batch.futures
        for position in wanted:
            slot = futures[position - 1]
            if slot is not None:
                slot._ref = 0
                slot._known = (UNDER_WAY, number, position)
        unanswered = min(len(self.under_way), 0xFF) if kept else None
        put_flush(self.batch, wanted, flush_flags(False, unanswered))
        self.note_end(commands, batch.infos, asked, claimed)
        if not kept:
            # Such a flush ends what the server has kept of earlier batches.
            for earlier in self.under_way:
                earlier.kept = False
        self.published = 0
        self.tables = 0
        self.extra = 0
        self.crossings += 1
        self.calls += commands
        self.batch_number += 1
        if self.unsent:
            self.unsent.extend(self.batch)
            del self.batch[:]
        else:
            self.unsent, self.batch = self.batch, new_words()
        batch.ends_at = self.sent_bytes + 8 * len(self.unsent)
        self.wanted += batch.wanted
        self.under_way.append(batch)

    # Bytes in.

    def handle_bytes(self, data: bytes) -> bool:
        """Takes bytes of the server, cut anywhere. True if the oldest batch under way has been
        answered with them; its stubs then have their objects, values or failures. Bytes behind the
        answer are kept: if more batches are under way, hand in no bytes for the next answer. Raises
        :class:`Told` if the session is closed.
        """
        if self.broken is not None:
            raise Told(self.broken)
        try:
            reply = self._replies.next(data)
        except Bad as error:
            raise Told(self.close(ByBadReply(error))) from None
        match reply:
            case None:
                return False
            case ErrorReply(number, position, text):
                why: Closed | None = ByServer(number, position, text)
            case Flushed():
                why = self._apply(reply)
            case _:
                why = ByWrongReply("an answer to `flush` was expected")
        if why is not None:
            raise Told(self.close(why))
        return True

    def handle_last_bytes(self, data: bytes) -> Closed | bool:
        """Looks for the reason that a server gives before it closes a session, in bytes that can
        still be read when none can be written. The caller then closes the session with it.
        """
        return self._replies.last_words(data)

    def _apply(self, reply: Flushed) -> Closed | None:
        """Fills the slots of a batch's futures from its answer."""
        if not self.under_way or self.under_way[0].ends_at > self.sent_bytes:
            return ByWrongReply("no reply was expected")
        batch = self.under_way.popleft()
        self.wanted -= batch.wanted
        why = self._fill(batch, reply)
        if why is not None:
            # Its stubs get the failure with which the session is closed.
            self.under_way.appendleft(batch)
            return why
        if self.answered:
            self.answered = [entry for entry in self.answered if entry[1] > batch.number]
        del batch
        if self.untold:
            self.bound_untold()
        self.attend()
        return None

    def _fill(self, batch: Batch, reply: Flushed) -> Closed | None:
        failures: list[Failure] = []
        end: Failure | None = None
        signalled: list[Holder] = []
        has_failures = bool(reply.exceptions) or reply.omitted > 0
        if has_failures:
            failures, end = self._take_exceptions(batch, reply, signalled)
        self.note_answer(has_failures)
        self.executed += reply.calls
        self.note_answer_of(batch.number, reply)
        outcomes = iter(reply.outcomes)
        futures, infos = batch.futures, batch.infos
        for index in range(len(futures)):
            slot = futures[index]
            if slot is None:
                continue
            try:
                outcome = next(outcomes)
            except StopIteration:
                return _SHORT
            if isinstance(outcome, Handle):
                slot._known = self.hold(outcome.number, infos[index])
                slot._ref = outcome.number
                self.handles[outcome.number].type = outcome.type
            elif outcome[0] in _WORDS:
                slot._known = outcome
            else:
                wrong = self._settle(slot, outcome, batch, index, failures, end)
                if wrong is not None:
                    return wrong
        return None if next(outcomes, None) is None else _SHORT

    def _settle(
        self,
        slot: Slot,
        outcome: Value,
        batch: Batch,
        index: int,
        failures: list[Failure],
        end: Failure | None,
    ) -> Closed | None:
        tag, payload = outcome
        if tag == t.TAG_ROWS and isinstance(payload, Table):
            made = batch.infos[index]
            slot._ref = 0
            slot._known = (tag, payload, self.hold_all(payload.handles(), made))
        elif tag == t.TAG_EXCEPTION and isinstance(payload, int):
            if payload >= len(failures):
                return ByWrongReply("an exception that is not listed")
            self.settle_failed(slot, failures[payload])
        elif tag == t.TAG_ABSENT:
            call = self.call_name(batch, index + 1, ())
            self.settle_failed(slot, NotReached(end, call))
        else:
            self.settle_value(slot, outcome)
        return None

    # Exceptions.

    def _take_exceptions(
        self, batch: Batch, reply: Flushed, signalled: list[Holder]
    ) -> tuple[list[Failure], Failure | None]:
        """Returns the batch's exceptions as failures, which go into the history, and the one that
        ended the batch.
        """
        failures: list[Failure] = []
        end: Failure | None = None
        self.untold_omitted += reply.omitted
        by_call: dict[int, Failure] = {}
        for exception in reply.exceptions:
            position = exception.call
            made = batch.infos[position - 1][0] if 0 < position <= len(batch.infos) else None
            failure, is_unseen = self._failure(batch, exception, made, by_call, signalled)
            if isinstance(exception.kind, CameRefused):
                row = t.ERRORS.get(exception.kind.number)
                if row is not None and row.scope == "batch":
                    end = failure
                    self.transaction_ends += 1
                    self.batch_end = end
            by_call[position] = failure
            failures.append(failure)
            if made == REFUSED:
                # The calls that it stands for are noted.
                continue
            if is_unseen:
                self.note_unseen(failure, batch, position)
            else:
                self.note_failure(failure, batch, position)
            self.remember(failure, batch.number)
        self.history_omitted += reply.omitted
        if by_call:
            self.answered.append((batch.number, self.batch_number, by_call))
        return failures, end

    def _failure(
        self,
        batch: Batch,
        exception: CameException,
        made: int | None,
        by_call: dict[int, Failure],
        signalled: list[Holder],
    ) -> tuple[Failure, bool]:
        position = exception.call
        call = self.call_name(batch, position, exception.rounds)
        kind = exception.kind
        if isinstance(kind, CameSignal):
            values = tuple(self._exception_value(value, signalled) for value in kind.values)
            places = tuple(kind.places) if kind.places else None
            return Signal(kind.name, values, places, kind.more, call), False
        # A structure that is not run has the position of its first call, and none of its calls is
        # to blame.
        call = batch.structure_name(position) or call
        if isinstance(kind, CameUnhandled):
            return self._unhandled(batch, position, kind, by_call, call), False
        if kind.number == t.ERROR_UNSEEN and made is not None:
            unseen: Unseen | None = None
            if made >> KIND_BITS == COMMIT >> KIND_BITS:
                unseen = self.unseen(call, made & 0xFFFF_FFFF)
            elif made == TRANSACTION:
                unseen = self.unseen(call, float("inf"))
            if unseen is not None:
                return unseen, True
        return Refused(kind.number, self._with_names(kind.text), call), False

    def _unhandled(
        self,
        batch: Batch,
        position: int,
        kind: CameUnhandled,
        by_call: dict[int, Failure],
        call: CallName,
    ) -> Failure:
        known: Failure | None = None
        if kind.back == 0:
            known = by_call.get(kind.cause)
        else:
            for number, _, failures in self.answered:
                if number == batch.number - kind.back:
                    known = failures.get(kind.cause)
                    break
        cause = (
            known.as_cause() if known is not None else batch.error_handle(position, kind.argument)
        )
        return Unhandled(kind.argument, cause, call)

    def _exception_value(self, value: Outcome, signalled: list[Holder]) -> Outcome:
        # Objects are given back when all stubs of the batch have what they hold.
        if isinstance(value, Handle):
            signalled.append(self.hold(value.number, None))
        elif value[0] == t.TAG_COMPOUND:
            references = each_reference(value[1])  # type: ignore[arg-type]
            signalled.extend(self.hold_all(references))
        return value

    def _with_names(self, text: str) -> str:
        """Returns a text of the server with names for the handles in it."""

        def name(found: re.Match[str]) -> str:
            number = found.group(1)
            return (self.name_of(int(number)) if 0 < len(number) < 20 else None) or found.group(0)

        return _HANDLE.sub(name, text)


_SHORT = ByWrongReply("the number of outcomes is not that of the requested futures")
