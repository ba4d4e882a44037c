"""Control structures that are open while their blocks are recorded, and that go to the server when
they are whole; batched procedures; transactions.

``open`` opens a structure, ``end`` ends the innermost one, and ``reopen`` goes on with another
block of one that has just ended: it takes the end marker back. A structure in which a call or
marker is refused leaves nothing in the batch.

| structure | steps |
| --- | --- |
| while | ``open``, calls, ``condition``, calls, ``end`` |
| if | ``open``, calls, ``condition``, calls, ``end``; ``reopen`` with else |
| foreach | ``foreach``, a ``variable`` for each value, calls, ``end`` |
| except | ``open``, calls, ``end``; ``reopen`` with when, others |
| procedure | ``open_procedure``, a ``variable`` for each parameter, calls, ``return_``, ``close_procedure`` |
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .. import _tables as t
from .calls import Calls, Due, ItemList, Operand, WordList, as_value
from .errors import CallName, Failure, Missing, Misused, Told, Unseen
from .numbers import NO_NUMBER, Heading, Stubs
from .state import (
    ABORT,
    COMMIT,
    ROUTINE,
    TRANSACTION,
    VARIABLE,
    WAIT,
    Admission,
    Recorded,
    Scope,
    Sent,
    Slot,
)
from .wire import head, new_words, put_bytes, put_types, put_value, signed

WHILE: Final = "while"
IF: Final = "if"
FOREACH: Final = "foreach"
EXCEPT: Final = "except"
PROCEDURE: Final = "procedure"

_BEGINS: Final = {WHILE: t.OP_WHILE, IF: t.OP_IF, EXCEPT: t.OP_EXCEPT}
_ENDS: Final = {
    WHILE: t.OP_END_WHILE,
    IF: t.OP_END_IF,
    FOREACH: t.OP_END_FOREACH,
    EXCEPT: t.OP_END_EXCEPT,
    PROCEDURE: t.OP_END_PROCEDURE,
}


@dataclass(frozen=True, slots=True)
class Ending:
    """A structure that has just ended and may go on with another block."""

    kind: str
    batch: int
    published: int = 0
    #: The length of the unpublished batch after its end marker; 0 for one that was refused.
    batch_length: int = 0
    batch_start: int = 0
    futures_start: int = 0
    commands_start: int = 0

    @property
    def is_kept(self) -> bool:
        """True if it will be sent."""
        return self.batch_length > 0


@dataclass(frozen=True, slots=True)
class ElseBlock:
    """The other case of a choice."""


@dataclass(frozen=True, slots=True)
class WhenBlock:
    """The handler of an exception. Each value is a variable, by the client's number of its type."""

    name: str
    values: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OthersBlock:
    """The handler of all other exceptions; if it is named, its variable is the exception's name."""

    named: bool


Block = ElseBlock | WhenBlock | OthersBlock


class Structures(Calls):
    """Records structures, procedures and transactions."""

    @property
    def depth(self) -> int:
        """The number of open structures."""
        return len(self.scopes)

    def _in_loop(self) -> bool:
        """True if the innermost loop, within the innermost procedure, is open."""
        for scope in reversed(self.scopes):
            if scope.kind == PROCEDURE:
                return False
            if scope.kind in (WHILE, FOREACH):
                return True
        return False

    def _in_procedure(self) -> bool:
        return any(scope.kind == PROCEDURE for scope in self.scopes)

    def open(self, admitted: Admission, kind: str, place: object) -> None:
        """Opens a loop with a condition, a choice, or a block whose exceptions are handled. Always
        opens a scope, to be ended."""
        self._open_with(kind, place, admitted, [_BEGINS[kind]])

    def _open_with(
        self, kind: str, place: object, admitted: Admission, marker: Sequence[int] | array[int]
    ) -> None:
        start, futures, commands = len(self.batch), len(self.futures), self.commands
        self.scopes.append(Scope(kind, place, start, futures, commands, self.batch_number))
        if admitted is None and len(self.scopes) > self.bounds.depth:
            admitted = Misused(t.MISUSE_TOO_DEEP)
        if admitted is not None:
            self.refuse(kind, place, admitted)
        self._mark(marker)

    def foreach(
        self,
        admitted: Admission,
        receiver: Operand | None,
        iterator: int,
        stubs: Stubs | None,
        arguments: Sequence[Operand],
        place: object,
        call_place: object,
    ) -> Recorded:
        """Opens a loop over an iterator and records the iterator's call: a method of a receiver, or
        without one a routine of ``stubs``; None for the routine of another session. Always opens a
        scope, to be ended; take a result for each value that the iterator yields."""
        reference: int | Failure = 0
        foreign = isinstance(receiver, Slot) and receiver._core is not self
        # A constant receiver is recorded before the marker, because the call must follow it.
        if admitted is None and receiver is not None and not foreign:
            reference = self.operand_reference(receiver, call_place)
        self._open_with(FOREACH, place, admitted, [t.OP_FOREACH])
        if foreign:
            wrong = Misused(t.MISUSE_OTHER_SESSION)
            return self.record_method(t.OP_CALL, iterator, wrong, arguments, call_place)
        inside = self.admit_inside()
        if receiver is not None:
            return self.record_method(
                t.OP_CALL, iterator, inside or reference, arguments, call_place
            )
        if inside is not None:
            first: int | Failure = inside
        elif stubs is None:
            first = Misused(t.MISUSE_OTHER_SESSION)
        else:
            first = self.routine_head(stubs, iterator)
        return self.record_plain(ROUTINE | iterator, first, arguments, call_place)

    def condition(self, test: Operand, place: object) -> None:
        """Appends the marker between the condition of the innermost loop or choice and the commands
        that depend on it."""
        is_loop = bool(self.scopes) and self.scopes[-1].kind == WHILE
        reference: int | Failure
        if isinstance(test, Slot) and test._core is not self:
            # Comes before the failure of a refused structure.
            reference = Misused(t.MISUSE_OTHER_SESSION)
        else:
            reference = self.admit_inside() or self.operand_reference(test, place)
        if isinstance(reference, Failure):
            self.refuse("condition", place, reference)
        else:
            self._mark([t.OP_DO if is_loop else t.OP_THEN, reference])

    def jump(self, name: str, place: object) -> None:
        """Leaves a round of the innermost loop: ``break`` or ``continue``. Refused outside
        loops.
        """
        if self._in_loop():
            self._mark([t.OP_BREAK if name == "break" else t.OP_CONTINUE])
        else:
            self.refuse(name, place, Misused(t.MISUSE_NO_LOOP))

    def variable(self, slot: Slot, place: object) -> Slot:
        """Makes a slot a number that the last marker has taken: a value of an exception, its name,
        or a parameter.
        """
        return self.new_result(slot, VARIABLE, place)

    def _is_kept(self) -> bool:
        return self.poison is None and self.broken is None

    def _mark(self, marker: Sequence[int] | array[int]) -> None:
        """Appends a marker, unless the structure will not be sent."""
        if self._is_kept():
            self.batch.extend(marker)
            self.extra += 1

    def end_futures(self, start: int, failure: Failure) -> None:
        """Gives the stubs of the futures from a place on a failure."""
        futures = self.futures
        for index in range(start, len(futures)):
            slot = futures[index]
            if slot is not None:
                futures[index] = None
                self.settle_failed(slot, failure)

    def end(self) -> Ending:
        """Ends the innermost structure. If it was refused, nothing of the outermost one remains."""
        if not self.scopes:
            return Ending(IF, self.batch_number)
        kind = self.scopes[-1].kind
        self._mark([_ENDS[kind]])
        return self._close_scope(kind)

    def _close_scope(self, kind: str) -> Ending:
        scope = self.scopes.pop()
        self.end_futures(scope.futures_start, self.poison or self.out_of_scope)
        if self.poison is not None:
            if scope.batch == self.batch_number:
                del self.batch[scope.batch_start :]
                del self.futures[scope.futures_start :]
                del self.infos[scope.futures_start :]
                self.extra = scope.commands_start - scope.futures_start
                start = scope.futures_start
                self.error_handles = [entry for entry in self.error_handles if entry[0] <= start]
            if not self.scopes:
                self.poison = None
                self.attend()
            return Ending(kind, self.batch_number)
        if not self.scopes:
            position = scope.futures_start + 1
            # A structure that went on with another block is one with its first.
            if not (self.structures and self.structures[-1].position >= position):
                self.structures.append(Sent(position, kind, self.show_place(scope.place)))
        return Ending(
            kind,
            self.batch_number,
            self.published,
            len(self.batch),
            scope.batch_start,
            scope.futures_start,
            scope.commands_start,
        )

    def reopen(self, ended: Ending, block: Block, place: object) -> None:
        """Takes back the end marker of a structure that has just ended, so that it goes on with
        another block. Always opens a scope; if the structure cannot go on, the scope is one that
        will not be sent.
        """
        name = {ElseBlock: "else", WhenBlock: "when", OthersBlock: "others"}[type(block)]
        self._reopen_scope(ended, name, place)
        if not self._is_kept():
            return
        match block:
            case ElseBlock():
                self.batch.append(t.OP_ELSE)
            case WhenBlock(signal, values):
                self.batch.append(head(t.OP_WHEN, len(values), 0))
                put_bytes(self.batch, signal.encode())
                put_types(self.batch, [self.numbers.type(number) or 0 for number in values])
            case OthersBlock(named):
                self.batch.append(head(t.OP_OTHERS, int(named), 0))
        self.extra += 1

    def _reopen_scope(self, ended: Ending, name: str, place: object) -> None:
        adjacent = (
            ended.batch == self.batch_number
            and ended.published == self.published
            and ended.batch_length > 0
            and ended.batch_length == len(self.batch)
        )
        if adjacent:
            # The end marker is one word.
            del self.batch[ended.batch_length - 1 :]
            self.extra -= 1
            starts = (ended.batch_start, ended.futures_start, ended.commands_start)
        else:
            starts = (len(self.batch), len(self.futures), self.commands)
        self.scopes.append(Scope(ended.kind, place, *starts, self.batch_number))
        if not adjacent:
            if ended.batch_length > 0 or ended.batch != self.batch_number:
                self.refuse(name, place, Misused(t.MISUSE_NOT_ADJACENT))
            elif self.poison is None:
                # Its first block was refused and is in the history; the others go the same way.
                self.poison = Misused(t.MISUSE_ABANDONED)
                self.attend()

    def abandon(self) -> None:
        """Ends the innermost structure, whose block was left by an exception: it is refused."""
        if self.scopes:
            scope = self.scopes[-1]
            self.refuse(scope.kind, scope.place, Misused(t.MISUSE_ABANDONED))
            if scope.kind == PROCEDURE:
                self.procedures_open.pop()
        self.end()

    # Procedures.

    def open_procedure(
        self, admitted: Admission, name: str, heading: Heading, place: object
    ) -> int:
        """Opens the definition of a procedure, and returns the number that it will have. Always
        opens a scope, to be ended.
        """
        nested = bool(self.scopes)
        params = [self.numbers.type(number) for number in heading.params]
        result = NO_NUMBER if heading.result is None else self.numbers.type(heading.result)
        lacks = None in params or result is None
        data = name.encode()
        marker = new_words()
        marker.append(
            head(t.OP_PROCEDURE, min(len(params), 0xFF), NO_NUMBER if result is None else result)
        )
        put_bytes(marker, data)
        put_types(marker, [number or 0 for number in params])
        self._open_with(PROCEDURE, place, admitted, marker)
        self.procedures_open.append((name, heading))
        wrong: Failure | None = None
        if nested:
            wrong = Misused(t.MISUSE_NESTED_PROCEDURE)
        elif lacks:
            wrong = Missing(name)
        elif len(data) + t.MARKER_BYTES > self.bounds.frame_bytes:
            wrong = Misused(t.MISUSE_TOO_LONG)
        if wrong is not None:
            self.refuse(name, place, wrong)
        return self.procedures

    def close_procedure(self) -> Failure | None:
        """Ends the definition; returns the reason if it is not sent."""
        refused = self.refusal()
        defined = self.procedures_open.pop() if self.procedures_open else None
        if self.end().is_kept and defined is not None:
            name, heading = defined
            self.procedures_by_name[name] = (self.procedures, heading)
            self.procedure_names.append(name)
            self.procedures += 1
        return refused

    def find_procedure(self, name: str, heading: Heading) -> int | None:
        """Returns the number of a procedure defined earlier in this session, if it has this
        heading.
        """
        number, known = self.procedures_by_name.get(name, (None, None))
        return number if known == heading else None

    def return_(self, value: Operand | None, place: object) -> None:
        """Ends a run of the procedure being defined, with its result if it has one. Refused outside
        a procedure.
        """
        if not self._in_procedure():
            self.refuse("return", place, Misused(t.MISUSE_NO_PROCEDURE))
            return
        marker = new_words()
        if value is None:
            marker.append(t.OP_RETURN)
        elif isinstance(value, Slot):
            reference: int | Failure
            if value._core is not self:
                # Comes before the failure of a refused structure.
                reference = Misused(t.MISUSE_OTHER_SESSION)
            else:
                reference = self.admit_inside() or self.operand_reference(value, place)
            if isinstance(reference, Failure):
                self.refuse("return", place, reference)
                return
            marker.extend((head(t.OP_RETURN, 1 | t.TAG_REF << 8, 0), reference))
        else:
            if isinstance(value, (ItemList, WordList)):
                composed = self.admit_inside() or self.compose(value)
                if isinstance(composed, Failure):
                    self.refuse("return", place, composed)
                    return
                value = composed
            value = as_value(value)
            marker.append(head(t.OP_RETURN, 1 | value[0] << 8, 0))
            put_value(marker, value)
        if self._is_kept() and 8 * len(marker) > self.bounds.frame_bytes:
            self.refuse("return", place, Misused(t.MISUSE_TOO_LONG))
            return
        self._mark(marker)

    # Transactions.

    def commit_due(self) -> Due:
        """Checks that a transaction can end here, and returns the work that a commit needs before
        it is recorded. Raises :class:`Told` if it cannot.
        """
        if self.scopes:
            raise Told(Misused(t.MISUSE_OPEN_STRUCTURE))
        if self.shipping:
            raise Told(Misused(t.MISUSE_IN_TRANSACTION))
        return Due.FLUSH if self.commit_needs_flush() else Due.NOTHING

    def _may_end(self, admitted: Admission) -> Admission:
        if admitted is None:
            try:
                self.commit_due()
            except Told as told:
                return told.failure
        return admitted

    def commit(self, admitted: Admission, place: object) -> Recorded:
        """Records the commit of the transaction, which has one result. Do the work that is due
        before.
        """
        wrong = self._may_end(admitted)
        if wrong is not None:
            return self.refuse("commit", place, wrong)
        self.before_commit(place)
        self.transaction_ends += 1
        ended = self.next_transaction()
        self.batch.append(t.OP_COMMIT)
        self.extra += 1
        return COMMIT | ended

    def abort(self, admitted: Admission, place: object) -> Recorded:
        """Records the abort of the transaction, which has one result."""
        wrong = self._may_end(admitted)
        if wrong is not None:
            return self.refuse("abort", place, wrong)
        self.transaction_ends += 1
        ended = self.next_transaction()
        self.batch.append(t.OP_ABORT)
        self.extra += 1
        return ABORT | ended

    def wait(self, admitted: Admission, ms: int, place: object) -> Recorded:
        """Records a wait of at most so many milliseconds, which has one result: true if others have
        changed an object that the transaction has read."""
        wrong = self._may_end(admitted)
        if wrong is not None:
            return self.refuse("wait", place, wrong)
        ms = min(ms, self.bounds.wait_ms)
        self.batch_wait_ms += ms
        self.batch.append(head(t.OP_WAIT, 0, ms))
        self.extra += 1
        return WAIT

    def take_batch_end(self) -> Failure | None:
        """Returns the last failure that has ended a batch since the last call."""
        end, self.batch_end = self.batch_end, None
        return end

    @property
    def is_idle(self) -> bool:
        """True if nothing is recorded, and no batch is under way."""
        return self.commands == 0 and not self.under_way

    def begin_transaction(
        self, slot: Slot, tries: int, batch: tuple[int, int] | None, place: object
    ) -> Slot:
        """Begins a batch that is a transaction; ``slot`` is its result. The caller has flushed
        before. ``batch`` is its name: 128 bits of the client's, and a number. Raises
        :class:`Told`.
        """
        if self.broken is not None:
            raise Told(self.broken)
        if not self.is_idle:
            raise Told(Misused(t.MISUSE_UNDER_WAY))
        self.surface(True)
        unseen = self.unseen_now(self._transaction_name(place))
        if unseen is not None:
            raise Told(unseen)
        self.clear_told()
        self.transaction_ends += 1
        self.batch.append(head(t.OP_TRANSACTION, tries << 8 | int(batch is not None), 0))
        if batch is not None:
            client, number = batch
            words = (client & 0xFFFF_FFFF_FFFF_FFFF, client >> 64, number)
            self.batch.extend([signed(word) for word in words])
        self.extra += 1
        self.shipping = True
        done = self.new_result(slot, TRANSACTION, place)
        self.shipped_from = self.order
        return done

    def _transaction_name(self, place: object) -> CallName:
        return CallName("transaction", 1, self.show_place(place), ())

    def end_transaction_batch(self) -> tuple[Failure, ...]:
        """Ends the recording of the batch; returns the calls that were not sent, for which the
        server refuses the batch.
        """
        self.shipping = False
        refusals = self.take_shipped_refusals()
        if refusals:
            self._refuse_batch()
        return refusals

    def abandon_transaction(self) -> None:
        """Ends the recording of a batch that was left by an exception: the server refuses it. The
        caller flushes, and calls :meth:`tell_transaction`.
        """
        self.shipping = False
        self.take_shipped_refusals()
        self._refuse_batch()
        # The exception tells that nothing of the batch was done. Commands recorded behind it are a
        # batch of their own.
        self.shipped_from = self.order

    def tell_transaction(self) -> None:
        """Tells the program of the failures of the last batch that was a transaction."""
        self.tell_since(self.shipped_from)

    def finish_transaction(
        self, done: Failure | None, refusals: tuple[Failure, ...], place: object
    ) -> Failure | None:
        """Returns the outcome of a transaction whose batch was answered. ``done`` is that of its
        slot, ``refusals`` are those of its calls that were not sent.
        """
        if done is None and not refusals:
            return None
        # Nothing of it was done, and so no failure of it is left to be told.
        self.tell_transaction()
        return Unseen(refusals, 0, self._transaction_name(place)) if refusals else done

    def _refuse_batch(self) -> None:
        """Has the server refuse a batch that is a transaction: none has an ``abort``."""
        self.batch.append(t.OP_ABORT)
        self.extra += 1
