"""Recording calls: receivers, arguments, and the commands that are no structures.

Each function takes the :data:`Admission` that the caller got, and returns the maker of the results,
whose slots the caller takes with ``new_result``; or the failure of a call that was refused, of
which it makes slots with ``new_failed``.

An operand is a :class:`Slot`; a value ``(tag, payload)``, or the int or text itself; or an
:class:`ItemList`: a compound that has the type of its place.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

from .. import _tables as t
from .account import Account
from .errors import Failure, Missing, Misused, Told
from .numbers import NO_NUMBER, Stubs
from .state import (
    AS,
    CELL,
    CONSTANT,
    EMIT,
    FAILED,
    GET,
    IS,
    LOOKUP,
    PROCEDURE,
    ROUTINE,
    ROWS,
    UNDER_WAY,
    Admission,
    Recorded,
    Slot,
)
from .wire import (
    Items,
    Value,
    head,
    new_words,
    put_bytes,
    put_tags,
    put_types,
    put_uniform,
    put_value,
    signed,
    to_bytes,
)


class ItemList:
    """The items of a compound, each an operand."""

    __slots__ = ("items",)

    def __init__(self, items: Sequence[Operand]) -> None:
        self.items = items


class WordList:
    """The items of a compound of numbers: their words, and the tag that all have."""

    __slots__ = ("tag", "words")

    def __init__(self, tag: int, words: array[int]) -> None:
        self.tag = tag
        self.words = words


Operand = Slot | Value | int | str | ItemList | WordList

_INT_MIN: Final = -(1 << 63)
_INT_MAX: Final = (1 << 63) - 1


def as_value(operand: Value | int | str) -> Value:
    """Returns an operand that is a value, with its tag. Raises OverflowError."""
    if isinstance(operand, int):
        if not _INT_MIN <= operand <= _INT_MAX:
            raise OverflowError(f"{operand} does not fit into an int of 64 bits")
        return (t.TAG_INT, operand)
    return (t.TAG_STRING, operand) if isinstance(operand, str) else operand


class Due(Enum):
    """The work to be done before the next command is recorded."""

    NOTHING = 0
    #: Send the bytes that are there.
    SEND = 1
    #: Send all, and wait for the answer. All futures become handles and values.
    FLUSH = 2


#: The first position behind which references are of this batch only.
_BACK_BITS: Final = 32


class Calls(Account):
    """Records calls."""

    #: The place in the batch of the table whose columns are not told yet; None if it was refused.
    _table_at: int | None = None

    # Admission.

    @property
    def is_ready(self) -> bool:
        """True if a command can be recorded at once. Otherwise :meth:`due` says what comes
        first.
        """
        return len(self.batch) < self.attention_words and len(self.futures) < self.attention_futures

    def due(self) -> Due:
        """Returns the work to be done before the next command is recorded, if that is one outside
        structures. Raises :class:`Told` if no command can be recorded."""
        refusal = self.refusal()
        if refusal is not None:
            raise Told(refusal)
        self.clear_told()
        bounds = self.bounds
        size = 8 * (self.published + len(self.batch))
        if self.scopes or self.shipping:
            over = (
                size > bounds.batch_bytes
                or len(self.futures) >= bounds.futures
                or self.commands >= bounds.commands
            )
            if over:
                raise Told(Misused(t.MISUSE_TOO_LONG))
            return Due.NOTHING
        remap = bounds.futures if self.tables > 0 else self.attention_futures
        if (
            len(self.futures) >= remap
            or self.commands + 1 >= bounds.commands
            or size + bounds.frame_bytes > bounds.batch_bytes
        ):
            return Due.FLUSH
        return Due.SEND if 8 * len(self.batch) >= t.PUBLISH_BYTES else Due.NOTHING

    def admit_inside(self) -> Admission:
        """Admits a command inside an open structure, where nothing is sent and nothing is due."""
        if self.is_ready:
            return None
        try:
            self.due()
        except Told as told:
            return told.failure
        return None

    # Calls.

    def call(
        self,
        admitted: Admission,
        receiver: Slot,
        method: int,
        arguments: Sequence[Operand],
        place: object,
    ) -> Recorded:
        """Records a call of a method, by its number in the stubs."""
        return self.call_as(t.OP_CALL, admitted, receiver, method, arguments, place)

    def send(
        self,
        admitted: Admission,
        receiver: Slot,
        method: int,
        arguments: Sequence[Operand],
        place: object,
    ) -> Recorded:
        """Records a message to an actor that nobody awaits. Its one result is nil."""
        return self.call_as(t.OP_SEND, admitted, receiver, method, arguments, place)

    def call_as(
        self,
        code: int,
        admitted: Admission,
        receiver: Slot,
        method: int,
        arguments: Sequence[Operand],
        place: object,
    ) -> Recorded:
        """Records a call or a message."""
        if admitted is not None:
            return self.refuse_call(method, place, admitted)
        reference = self.expect_reference(receiver, place)
        return self.record_method(code, method, reference, arguments, place)

    def record_method(
        self,
        code: int,
        method: int,
        receiver: int | Failure,
        arguments: Sequence[Operand],
        place: object,
    ) -> Recorded:
        """Records a method's call, with the knowledge about its receiver."""
        if isinstance(receiver, Failure):
            return self.refuse_call(method, place, receiver)
        number = self.numbers.method(method)
        if number is None:
            return self.refuse_call(method, place, Missing(self.made_name(method)))
        failure = self._record(head(code, 0, number), receiver, arguments)
        return method if failure is None else self.refuse_call(method, place, failure)

    def call_routine(
        self,
        admitted: Admission,
        stubs: Stubs,
        routine: int,
        arguments: Sequence[Operand],
        place: object,
    ) -> Recorded:
        """Records a call of a routine, by the number that ``stubs`` give it."""
        made = ROUTINE | routine
        first = self.routine_head(stubs, routine) if admitted is None else admitted
        return self.record_plain(made, first, arguments, place)

    def routine_head(self, stubs: Stubs, routine: int) -> int | Failure:
        """Returns the first word of a routine's call."""
        if stubs is not self.numbers.stubs:
            return Misused(t.MISUSE_OTHER_INTERFACE)
        number = self.numbers.routine(routine)
        if number is None:
            return Missing(self.numbers.routine_name(routine))
        return head(t.OP_CALL_ROUTINE, 0, number)

    def call_procedure(
        self,
        admitted: Admission,
        procedure: int,
        refused: Failure | None,
        arguments: Sequence[Operand],
        place: object,
    ) -> Recorded:
        """Records a call of a batched procedure. ``refused`` is the failure of a definition that
        was not sent: another procedure has its number.
        """
        made = PROCEDURE | (procedure if refused is None else NO_NUMBER)
        first = admitted or refused or head(t.OP_CALL_PROCEDURE, 0, procedure)
        return self.record_plain(made, first, arguments, place)

    def record_plain(
        self, made: int, first: int | Failure, arguments: Sequence[Operand], place: object
    ) -> Recorded:
        """Records a call without receiver."""
        failure = first if isinstance(first, Failure) else self._record(first, None, arguments)
        return made if failure is None else self.refuse_call(made, place, failure)

    def lookup(
        self,
        admitted: Admission,
        stubs: Stubs | None,
        name: str,
        type_number: int | None,
        type_name: str,
        place: object,
    ) -> Recorded:
        """Records the lookup of a well-known object. ``type_number`` is the number that ``stubs``
        give its type, None for any; a built-in type has no stubs. Refused inside a structure.
        """
        wrong = admitted
        data = name.encode()
        if wrong is None:
            if stubs is not None and stubs is not self.numbers.stubs:
                wrong = Misused(t.MISUSE_OTHER_INTERFACE)
            elif self.scopes:
                wrong = Misused(t.MISUSE_LOOKUP_INSIDE)
            elif len(data) + 16 > self.bounds.frame_bytes:
                wrong = Misused(t.MISUSE_TOO_LONG)
        number: int | None = NO_NUMBER
        if wrong is None and type_number is not None:
            number = self.numbers.type(type_number)
        if wrong is not None or number is None:
            return self.refuse("lookup", place, wrong or Missing(type_name))
        self.batch.append(head(t.OP_LOOKUP, 0, number))
        put_bytes(self.batch, data)
        self.extra += 1
        return LOOKUP

    def cell(
        self, admitted: Admission, type_number: int, type_name: str, place: object
    ) -> Recorded:
        """Records the making of an empty cell, which has one result."""
        number = self.numbers.type(type_number) if admitted is None else None
        if number is None:
            return self.refuse("cell", place, admitted or Missing(f"cell of {type_name}"))
        self.batch.append(head(t.OP_CELL, 0, number))
        self.extra += 1
        return CELL

    def rows(
        self, admitted: Admission, types: Sequence[tuple[int, str]], place: object
    ) -> Recorded:
        """Records the making of an empty table of rows, which has one result. ``types`` are the
        client's numbers of the types of its columns, each with a name. Refused inside a
        structure.
        """
        wrong = admitted
        numbers: list[int] = []
        if wrong is None and self.scopes:
            wrong = Misused(t.MISUSE_TABLE_INSIDE)
        if wrong is None and not 1 <= len(types) <= t.ARGUMENTS_MAX:
            wrong = Misused(t.MISUSE_TOO_LONG)
        if wrong is None:
            for type_number, type_name in types:
                number = self.numbers.type(type_number)
                if number is None:
                    wrong = Missing(type_name)
                    break
                numbers.append(number)
        if wrong is not None:
            return self.refuse("rows", place, wrong)
        self.batch.append(head(t.OP_ROWS, len(numbers), 0))
        put_types(self.batch, numbers)
        self.extra += 1
        self.tables += 1
        return ROWS

    def open_table(self, admitted: Admission, place: object) -> Recorded:
        """Records the making of a table whose columns are not known yet, directly before the loop
        that fills it: :meth:`set_columns` in the loop tells them. Its one result is the table.
        """
        wrong = admitted
        if wrong is None and self.scopes:
            wrong = Misused(t.MISUSE_TABLE_INSIDE)
        if wrong is not None:
            self._table_at = None
            return self.refuse("rows", place, wrong)
        self._table_at = len(self.batch)
        # A column of nil, unless others are told.
        basic = self.numbers.stubs.basic
        number = self.numbers.type(basic[0][0]) if basic else 0
        self.batch.extend((head(t.OP_ROWS, 1, 0), number or 0))
        self.extra += 1
        self.tables += 1
        return ROWS

    def set_columns(self, types: Sequence[tuple[int, str]], place: object) -> None:
        """Tells the columns of the table that stands before the open loop. Nothing is done if the
        loop or the table was refused.
        """
        at, self._table_at = self._table_at, None
        if self.refusal() is not None or at is None:
            return
        numbers: list[int] = []
        wrong: Failure | None = None
        if not 1 <= len(types) <= t.ARGUMENTS_MAX:
            wrong = Misused(t.MISUSE_TOO_LONG)
        for type_number, type_name in types:
            number = self.numbers.type(type_number)
            if number is None:
                wrong = wrong or Missing(type_name)
            else:
                numbers.append(number)
        if wrong is not None:
            self.refuse("rows", place, wrong)
            return
        self.batch[at] = head(t.OP_ROWS, len(numbers), 0)
        self.batch[at + 1 : at + 2] = array("q", numbers)
        for scope in self.scopes:
            scope.batch_start += len(numbers) - 1

    def emit(
        self, admitted: Admission, rows: Slot, cells: Sequence[Operand], place: object
    ) -> Recorded:
        """Records a row of a table. Its one result is nil."""
        table: int | Failure
        if admitted is not None:
            table = admitted
        elif rows._ref > 0 or (rows._ref == 0 and rows._known[0] != FAILED):
            table = Misused(t.MISUSE_ENDED_TABLE)
        else:
            table = self.expect_reference(rows, place)
        failure = (
            table
            if isinstance(table, Failure)
            else self._record(head(t.OP_EMIT, 0, 0), table, cells)
        )
        return EMIT if failure is None else self.refuse_call(EMIT, place, failure)

    def cast(
        self, admitted: Admission, target: Slot, type_number: int, type_name: str, place: object
    ) -> Recorded:
        """Records that an object is seen as one of another type, which has one result."""
        return self._with_type(AS, t.OP_AS, admitted, target, type_number, type_name, place)

    def test_type(
        self, admitted: Admission, target: Slot, type_number: int, type_name: str, place: object
    ) -> Recorded:
        """Records the test if an object has a type, which has one result: a bool."""
        return self._with_type(IS, t.OP_IS, admitted, target, type_number, type_name, place)

    def get(self, admitted: Admission, target: Slot, place: object) -> Recorded:
        """Records that the contents of an object are taken, which has one result: a value."""
        reference = self.expect_reference(target, place) if admitted is None else admitted
        if not isinstance(reference, Failure) and self.scopes:
            reference = Misused(t.MISUSE_CONTENTS_INSIDE)
        if isinstance(reference, Failure):
            return self.refuse_call(GET, place, reference)
        self.batch.extend((t.OP_GET, reference))
        self.extra += 1
        return GET

    def _with_type(
        self,
        made: int,
        code: int,
        admitted: Admission,
        target: Slot,
        type_number: int,
        type_name: str,
        place: object,
    ) -> Recorded:
        wrong = admitted
        number = None
        if wrong is None:
            number = self.numbers.type(type_number)
            if number is None:
                wrong = Missing(type_name)
        reference = wrong or self.expect_reference(target, place)
        if isinstance(reference, Failure) or number is None:
            assert isinstance(reference, Failure)
            return self.refuse_call(made, place, reference)
        self.batch.extend((head(code, 0, number), reference))
        self.extra += 1
        return made

    def refuse_call(self, made: int, place: object, why: Failure) -> Failure:
        """Refuses a call. The next call takes its position, and has other arguments."""
        position = len(self.futures) + 1
        while self.error_handles and self.error_handles[-1][0] == position:
            self.error_handles.pop()
        return self.refuse(self.made_name(made), place, why)

    # References.

    def earlier_reference(self, slot: Slot) -> int | Failure:
        """Returns the reference to a stub that is a result of a batch under way."""
        _, number, position = slot._known
        for batch in self.under_way:
            if batch.number == number:
                if not batch.kept:
                    break
                return -int((self.batch_number - number) << _BACK_BITS | position)
        return Misused(t.MISUSE_UNDER_WAY)

    def _note_error_handle(self, slot: Slot, argument: int) -> None:
        failure = self.failure_of(slot)
        if failure is not None:
            self.error_handles.append((len(self.futures) + 1, argument, failure.as_cause()))

    def expect_reference(self, slot: Slot, place: object) -> int | Failure:
        """Returns a reference to a stub, for a marker or a receiver; records a constant if the stub
        is a value. The caller was admitted: a flush in between would end the reference.
        """
        if bool(slot._core is not self):
            return Misused(t.MISUSE_OTHER_SESSION)
        reference: int = slot._ref
        if reference:
            return reference
        unusable = self.unusable(slot)
        if unusable is not None:
            return unusable
        known: Any = slot._known
        if known[0] == UNDER_WAY:
            return self.earlier_reference(slot)
        if known[0] == FAILED or known[0] == t.TAG_ROWS:
            # The error-handle of Bogle and Liskov 1994, 7.1.
            self._note_error_handle(slot, 0)
            return 0
        return self._constant(known, place)

    def _constant(self, value: Value, place: object) -> int | Failure:
        start = len(self.batch)
        self.batch.append(head(t.OP_CONSTANT, value[0], 0))
        put_value(self.batch, value[:2])
        if 8 * (len(self.batch) - start) > self.bounds.frame_bytes:
            del self.batch[start:]
            return Misused(t.MISUSE_TOO_LONG)
        self.extra += 1
        # Only this use needs it.
        return self.skip_result(CONSTANT, place)

    def operand_reference(self, operand: Operand, place: object) -> int | Failure:
        """Returns a reference to an operand that stands where only a reference can: a value is
        recorded as a constant."""
        if isinstance(operand, Slot):
            return self.expect_reference(operand, place)
        if isinstance(operand, (tuple, int, str)):
            return self._constant(as_value(operand), place)
        # Such a place gives it no type.
        return Misused(t.MISUSE_UNTYPED)

    # Arguments.

    def record_call(
        self, first: int, receiver: int, arguments: Sequence[Operand]
    ) -> Failure | None:
        """Records a method's call whose future the caller appends."""
        failure = self._record(first, receiver, arguments)
        if failure is None:
            self.extra -= 1
        return failure

    def _record(
        self, first: int, receiver: int | None, arguments: Sequence[Operand]
    ) -> Failure | None:
        """Records a call: its first word with the tags of the arguments, the receiver, the
        arguments. Leaves nothing of it when it cannot be recorded, and returns the failure.
        """
        count = len(arguments)
        if count > t.ARGUMENTS_MAX:
            return Misused(t.MISUSE_TOO_LONG)
        batch = self.batch
        start = len(batch)
        batch.append(first)
        if receiver is not None:
            batch.append(receiver)
        tags_at = len(batch)
        if count > 4:
            batch.extend([0] * ((count - 4 + 15) // 16))
        tags = []
        try:
            for index, argument in enumerate(arguments):
                tag = self._append(argument, index + 1, 1)
                if isinstance(tag, Failure):
                    del batch[start:]
                    return tag
                tags.append(tag)
        except BaseException:
            # A text that cannot be encoded, or an interruption.
            del batch[start:]
            raise
        if 8 * (len(batch) - start) > self.bounds.frame_bytes:
            del batch[start:]
            return Misused(t.MISUSE_TOO_LONG)
        bits = count << 8
        for index, tag in enumerate(tags[:4]):
            bits |= tag << (16 + 4 * index)
        batch[start] = signed((first & 0xFFFF_FFFF_FFFF_FFFF) | bits)
        put_tags(batch, tags_at, tags[4:])
        self.extra += 1
        return None

    def _append(self, operand: Operand, argument: int, depth: int) -> int | Failure:
        """Appends the words of an operand; returns its tag."""
        if isinstance(operand, Slot):
            return self._append_stub(operand, argument)
        if isinstance(operand, (tuple, int, str)):
            value = as_value(operand)
            put_value(self.batch, value)
            return value[0]
        if isinstance(operand, WordList):
            put_uniform(self.batch, NO_NUMBER, operand.tag, operand.words)
            return t.TAG_COMPOUND
        if depth > t.COMPOUND_DEPTH_MAX:
            return Misused(t.MISUSE_VALUE_TOO_DEEP)
        items = Items(self.batch, NO_NUMBER, len(operand.items))
        for item in operand.items:
            tag = self._append(item, argument, depth + 1)
            if isinstance(tag, Failure):
                return tag
            items.tag(tag)
        items.end()
        return t.TAG_COMPOUND

    def _append_stub(self, slot: Slot, argument: int) -> int | Failure:
        if bool(slot._core is not self):
            return Misused(t.MISUSE_OTHER_SESSION)
        if slot._ref:
            self.batch.append(slot._ref)
            return t.TAG_REF
        unusable = self.unusable(slot)
        if unusable is not None:
            return unusable
        known = slot._known
        if known[0] == UNDER_WAY:
            reference = self.earlier_reference(slot)
            if isinstance(reference, Failure):
                return reference
            self.batch.append(reference)
            return t.TAG_REF
        if known[0] == FAILED or known[0] == t.TAG_ROWS:
            self._note_error_handle(slot, argument)
            self.batch.append(0)
            return t.TAG_REF
        put_value(self.batch, known[:2])
        tag: int = known[0]
        return tag

    def compose(self, operand: ItemList | WordList) -> Value | Failure:
        """Returns the compound of an operand that has items."""
        batch, self.batch = self.batch, new_words()
        try:
            tag = self._append(operand, 1, 1)
            if isinstance(tag, Failure):
                return tag
            return (t.TAG_COMPOUND, to_bytes(self.batch[1:]))
        finally:
            self.batch = batch
