"""The session as its stubs know it: the functions that they call.

:class:`Owner` turns the calls of stubs into commands of the recorder, and its knowledge into values
and exceptions. Only :meth:`Owner._do` and the functions of the two kinds of sessions move bytes.
"""

from __future__ import annotations

import os
import threading
from typing import Any, NoReturn, TypeVar, cast

from . import _tables as t
from . import kinds as k
from .errors import Signal, SourcePlace, make_exception
from .recorder import errors as e
from .recorder.calls import Due, Operand
from .recorder.crossing import Recorder
from .recorder.state import FAILED, Slot
from .stubs import Iter, Stub, place_of
from .values import Bool, Nothing, Plain

P = TypeVar("P", bound=Stub[Any])

_new: Any = Slot.__new__

_DEBUG = os.environ.get("BIFROST_DEBUG") == "1"


class Owner:
    """A session, to which stubs belong."""

    #: The recorder: tables of stubs, futures and handles.
    core: Recorder

    def __init__(self, core: Recorder) -> None:
        self.core = core
        core.owner = self
        # A place in the source is found by code and offset; it becomes a text only for messages.
        core.show_place = _show_place  # type: ignore[method-assign]
        self._thread = threading.get_ident()

    # What the stubs call.

    def _admit(self) -> e.Failure | None:
        """Admits a command: sends or flushes first, if that is due."""
        if _DEBUG:
            self._check_thread()
        if self.core.is_ready:
            return None
        try:
            self._do(self.core.due())
        except e.Told as told:
            return told.failure
        return None

    def _do(self, due: Due) -> None:
        raise NotImplementedError

    def _check_thread(self) -> None:
        if threading.get_ident() != self._thread:
            raise RuntimeError("a session belongs to the thread that has opened it")

    def _results(
        self, recorded: int | e.Failure, results: tuple[type, ...], place: object
    ) -> list[Any]:
        core = self.core
        stubs: list[Any] = []
        for result in results:
            stub: Any = _new(result)
            if isinstance(recorded, e.Failure):
                core.new_failed(stub, recorded)
            else:
                core.new_result(stub, recorded, place)
            stubs.append(stub)
        return stubs

    def _one(self, recorded: int | e.Failure, result: type[P], place: object) -> P:
        return cast(P, self._results(recorded, (result,), place)[0])

    def call(
        self,
        receiver: Slot,
        method: int,
        result: type[P],
        operands: tuple[Operand, ...],
        place: object,
    ) -> P:
        """Records a call of a method, by its number in the stubs. Used by stubs."""
        admitted = self._admit()
        return self._one(self.core.call(admitted, receiver, method, operands, place), result, place)

    def call_many(
        self,
        receiver: Slot,
        method: int,
        results: tuple[type, ...],
        operands: tuple[Operand, ...],
        place: object,
    ) -> tuple[Any, ...]:
        """As :meth:`call`, with several results."""
        admitted = self._admit()
        recorded = self.core.call(admitted, receiver, method, operands, place)
        return tuple(self._results(recorded, results, place))

    def refused(self, stub: Slot, method: int, failure: e.Failure, frame: Any) -> Slot:
        """Makes the stub of a call that cannot be recorded."""
        core = self.core
        place = (frame.f_code, frame.f_lasti)
        return core.new_failed(stub, core.refuse_call(method, place, failure))

    def call_routine(self, stubs: Any, routine: int, result: type[P], *operands: Operand) -> P:
        place = place_of(2)
        admitted = self._admit()
        recorded = self.core.call_routine(admitted, stubs, routine, operands, place)
        return self._one(recorded, result, place)

    def call_routine_many(
        self, stubs: Any, routine: int, results: tuple[type, ...], *operands: Operand
    ) -> tuple[Any, ...]:
        place = place_of(2)
        admitted = self._admit()
        recorded = self.core.call_routine(admitted, stubs, routine, operands, place)
        return tuple(self._results(recorded, results, place))

    def iterate_routine(
        self, stubs: Any, routine: int, variables: tuple[type, ...], *operands: Operand
    ) -> Iter[Any]:
        return Iter(self.core, None, stubs, routine, variables, operands, place_of(2))

    def send(
        self, receiver: Slot, method: int, operands: tuple[Operand, ...], place: object
    ) -> None:
        """Records a message that nobody awaits. Used by stubs of actors."""
        admitted = self._admit()
        self._one(self.core.send(admitted, receiver, method, operands, place), Nothing, place)

    def emit(self, rows: Slot, operands: list[Operand], place: object) -> None:
        """Appends a row. Used by tables."""
        admitted = self._admit()
        self._one(self.core.emit(admitted, rows, operands, place), Nothing, place)

    def get(self, target: Slot, place: object) -> Plain[Any]:
        """Takes the contents of an object. Used by stubs."""
        admitted = self._admit()
        plain: Plain[Any] = self._one(self.core.get(admitted, target, place), Plain, place)
        kind = cast(Any, type(target))._kind
        plain._kind = kind.contents or kind
        return plain

    def cast(self, target: Slot, cls: type[P], place: object) -> P:
        """Sees an object as one of a type. Used by stubs."""
        admitted = self._admit()
        kind = cls._kind
        number = kind.number(self.core.numbers.stubs)
        return self._one(self.core.cast(admitted, target, number, kind.name, place), cls, place)

    def test_type(self, target: Slot, cls: type[Stub[Any]], place: object) -> Bool:
        """Tests if an object has a type. Used by stubs."""
        admitted = self._admit()
        kind = cls._kind
        number = kind.number(self.core.numbers.stubs)
        return self._one(
            self.core.test_type(admitted, target, number, kind.name, place), Bool, place
        )

    # Knowledge.

    def _raise(self, told: e.Told) -> NoReturn:
        raise make_exception(told.failure, self.core) from None

    def take(self, stub: Stub[Any], kind: k.Kind) -> Any:
        """Returns the value of a stub that is known, or raises its failure. Used by promises."""
        core, known = self.core, stub._known
        tag = known[0]
        if tag == FAILED:
            core.tell(known[1])
            raise make_exception(known[1], core)
        if not core.is_all_told:
            try:
                core.surface(False)
            except e.Told as told:
                error: e.Told | None = told
            else:
                error = None
            if error is not None:
                self._raise(error)
        try:
            if isinstance(kind, k.Basic):
                if tag != kind.tag:
                    raise k.Mismatch
                return known[1]
            if tag == t.TAG_ROWS:
                return self._take_rows(known[1], kind)
            return kind.take(iter(((tag, known[1]),)), core)
        except k.Mismatch:
            self._nonsense()

    def caught(self, stub: Stub[Any], signal: type[Signal[Any]]) -> Signal[Any] | None:
        """Returns the exception that a call has signalled, if it is this one. Used by stubs."""
        failure = self.core.failure_of(stub)
        if not isinstance(failure, e.Signal) or failure.name != signal.theta:
            return None
        error = make_exception(failure, self.core)
        if not isinstance(error, signal):
            return None
        self.core.tell(failure)
        return error

    def _take_rows(self, table: Any, kind: k.Kind) -> Any:
        columns = getattr(kind, "columns", ())
        if len(table.columns) != len(columns):
            raise k.Mismatch
        return kind.take(iter(table.cells), self.core)

    def _nonsense(self) -> NoReturn:
        failure = self.core.close(e.ByWrongReply("a result does not have the type of its heading"))
        raise make_exception(failure, self.core)


def _show_place(place: object) -> object:
    return SourcePlace(*place) if isinstance(place, tuple) else place
