"""The session as programs know it: the functions that blocking and awaited sessions share.

:class:`Recording` is the type to read first. Cells, tables, structures, procedures and transactions
become commands of the recorder; the functions that stubs call are in :mod:`bifrost_veneer.owner`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar, overload

from . import _tables as t
from . import kinds as k
from .blocks import (
    Block,
    BlockError,
    ElseBlockOf,
    ExceptOf,
    ForeachOf,
    IfOf,
    OthersOf,
    WhenOf,
    WhileOf,
)
from .cells import Cell, Rows
from .errors import BifrostError, Closed, Misuse, Signal, make_exception
from .owner import Owner
from .procedures import Procedure, make_heading
from .recorder import errors as e
from .recorder.calls import Operand
from .recorder.crossing import Recorder
from .recorder.decode import Profile
from .recorder.explained import Advice
from .recorder.state import Counters
from .recorder.structures import Ending
from .stubs import Iter, Stub, place_of
from .values import (
    AnyObject,
    Bool,
    BoolArg,
    Bytes,
    BytesArg,
    Char,
    Int,
    IntArg,
    Nothing,
    Null,
    Real,
    RealArg,
    Str,
    StrArg,
)

P = TypeVar("P", bound=Stub[Any])
V = TypeVar("V")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
T = TypeVar("T")

#: The most milliseconds of a wait; the server's limit counts if it is lower.
_WAIT_MS_MAX = 0xFFFF_FFFF


class BatchName:
    """The name of a batch that is done once: 128 random bits that the client keeps secret, and a
    number that grows with each of its batches.
    """

    __slots__ = ("client", "number")

    def __init__(self, client: int, number: int) -> None:
        if not 0 <= client < 1 << 128 or not 0 <= number < 1 << 64:
            raise ValueError("a client has 128 bits, and a number 64")
        self.client = client
        self.number = number

    @classmethod
    def new(cls) -> BatchName:
        """Makes the name of a new client's first batch."""
        return cls(int.from_bytes(os.urandom(16), "little"), 1)

    def next(self) -> BatchName:
        """Returns the name of the client's next batch."""
        return BatchName(self.client, self.number + 1)

    def __repr__(self) -> str:
        return f"<batch {self.number}>"


class Recording(Owner):
    """A connection to a server, and the batch being recorded for it."""

    def __init__(self, core: Recorder) -> None:
        super().__init__(core)
        #: The structure that has just ended, which may go on with `else_` or a handler.
        self._ended: Ending | None = None

    # Pools.

    def _is_in_work(self) -> bool:
        """True if something of the program is open: then the session cannot be lent again."""
        core = self.core
        return core.is_closed or bool(core.scopes) or core.shipping

    def _end_work(self) -> None:
        """Records the end of the program's work: the transaction is aborted, failures count as
        told, and all stubs are given up.
        """
        self.abort()
        self.clear_exceptions()
        self.core.end_work()

    def _go_on_with(self, other: Recording) -> None:
        """Takes what the session keeps for all who work with it."""
        remotes = other.__dict__.get("_remotes", {})
        self.__dict__["_remotes"] = {one: made.moved(self) for one, made in remotes.items()}

    def decide(self, one: Bool, other: Callable[[], Bool], both: bool, place: object) -> Bool:
        """Records ``and`` and ``or``: the value, or the other one if a test holds. Used by
        promises.
        """
        not_ = self.core.numbers.stubs.operators[t.OPERATOR_BOOL_NOT]
        test = one if both else self.call(one, not_, Bool, (), place)
        result: Cell[Bool, BoolArg] = self._new_cell(k.BOOL, place)
        numbers = k.BOOL.cell(self.core.numbers.stubs)
        self.call(result, numbers[1], Nothing, (one,), place)
        with IfOf(self, test, place):
            del test
            self.call(result, numbers[1], Nothing, (k.BOOL.operand(other()),), place)
        return self.call(result, numbers[3], Bool, (), place)

    def is_same(self, one: Stub[Any], other: Stub[Any], /) -> bool:
        """True if two stubs are known to have the same result: one object, equal values or
        tables.
        """
        return self.core.is_same(one, other)

    @property
    def counters(self) -> Counters:
        """The counts of the session up to now."""
        return self.core.counters()

    @property
    def native(self) -> bool:
        """True if the native library records the session."""
        return not isinstance(self.core, Recorder)

    @property
    def is_closed(self) -> bool:
        """True if the session has ended."""
        return self.core.is_closed

    def exceptions(self) -> list[BifrostError]:
        """Returns all failures of flushed batches, and all calls that were not sent, since the
        history was last cleared, oldest first; the first thousand. The program is told of them with
        it, so they do not prevent a commit any more.
        """
        return [make_exception(entry.failure, self.core) for entry in self.core.exceptions()]

    def exception_group(self) -> ExceptionGroup[BifrostError] | None:
        """Returns the failures of :meth:`exceptions` as one group, for ``except*``; None if there
        are none.
        """
        failures = self.exceptions()
        return ExceptionGroup("failures of the session", failures) if failures else None

    @property
    def exceptions_omitted(self) -> int:
        """The number of failures beyond those that :meth:`exceptions` lists."""
        return self.core.history_omitted

    def clear_exceptions(self) -> None:
        """Clears the exception history, here and at the server: the failures of the calls up to now
        count as told. Not inside a structure.
        """
        if self.core.clear_exceptions(place_of(1)):
            self.core.clear_server(self._admit())

    # Values.

    def lookup(self, name: str, cls: type[P]) -> P:
        """Returns a well-known object. Not inside a structure: look it up before."""
        place = place_of(1)
        admitted = self._admit()
        kind = cls._kind
        stubs = getattr(kind, "stubs", None)
        number = kind.number(self.core.numbers.stubs if stubs is None else stubs)
        return self._one(
            self.core.lookup(admitted, stubs, name, number, kind.name, place), cls, place
        )

    @overload
    def value(self, value: bool) -> Bool: ...  # type: ignore[overload-overlap]
    @overload
    def value(self, value: int) -> Int: ...
    @overload
    def value(self, value: float) -> Real: ...
    @overload
    def value(self, value: str) -> Str: ...
    @overload
    def value(self, value: bytes) -> Bytes: ...
    @overload
    def value(self, value: None) -> Null: ...
    @overload
    def value(self, value: Any, of: type[P]) -> P: ...
    def value(self, value: Any, of: type[Any] | None = None) -> Any:
        """Makes a promise that is kept already: a value that can be a receiver, as in
        ``s.value(1).to(100)``. It crosses only when it is used. ``of=Char`` makes a character."""
        kind = k.kind_of_value(value) if of is None else of._kind
        if not isinstance(kind, k.Basic):
            raise TypeError(f"a value of type `{kind.name}` is made by an argument, not by `value`")
        cls = kind.stub
        return self.core.new_value(cls.__new__(cls), (kind.tag, kind.check(value)))

    @overload
    def cell(self, value: BoolArg) -> Cell[Bool, BoolArg]: ...  # type: ignore[overload-overlap]
    @overload
    def cell(self, value: IntArg) -> Cell[Int, IntArg]: ...
    @overload
    def cell(self, value: RealArg) -> Cell[Real, RealArg]: ...
    @overload
    def cell(self, value: StrArg) -> Cell[Str, StrArg]: ...
    @overload
    def cell(self, value: BytesArg) -> Cell[Bytes, BytesArg]: ...
    @overload
    def cell(self, value: P) -> Cell[P, P]: ...
    @overload
    def cell(self, value: Any = ..., *, of: type[Bool]) -> Cell[Bool, BoolArg]: ...  # pyright: ignore[reportOverlappingOverload]
    @overload
    def cell(self, value: Any = ..., *, of: type[Int]) -> Cell[Int, IntArg]: ...
    @overload
    def cell(self, value: Any = ..., *, of: type[Real]) -> Cell[Real, RealArg]: ...
    @overload
    def cell(self, value: Any = ..., *, of: type[Char]) -> Cell[Char, str | Char]: ...
    @overload
    def cell(self, value: Any = ..., *, of: type[Str]) -> Cell[Str, StrArg]: ...
    @overload
    def cell(self, value: Any = ..., *, of: type[Bytes]) -> Cell[Bytes, BytesArg]: ...
    @overload
    def cell(self, value: Any = ..., *, of: type[P]) -> Cell[P, P]: ...
    def cell(self, value: Any = ..., *, of: type[Stub[Any]] | None = None) -> Any:
        """Makes a cell: with its first value, ``s.cell(0)``, or empty, ``s.cell(of=DataElem)``."""
        place = place_of(1)
        if of is not None:
            kind = of._kind
        elif value is ...:
            raise TypeError(
                "a cell needs its first value, `s.cell(0)`, or its type, `s.cell(of=bf.Int)`"
            )
        elif isinstance(value, Stub):
            kind = type(value)._kind
        else:
            kind = k.kind_of_value(value)
        operand = None if value is ... else kind.operand(value)
        cell: Cell[Any, Any] = self._new_cell(kind, place)
        if operand is not None:
            self.call(cell, kind.cell(self.core.numbers.stubs)[1], Nothing, (operand,), place)
        return cell

    def _new_cell(self, kind: k.Kind, place: object) -> Cell[Any, Any]:
        admitted = self._admit()
        number = kind.number(self.core.numbers.stubs)
        recorded = self.core.cell(admitted, number, kind.name, place)
        cell: Cell[Any, Any] = self._one(recorded, Cell, place)
        cell._element = kind
        return cell

    # Tables of rows.

    @overload
    def rows(self, a: type[Stub[A]], /) -> Rows[A]: ...
    @overload
    def rows(self, a: type[Stub[A]], b: type[Stub[B]], /) -> Rows[tuple[A, B]]: ...
    @overload
    def rows(
        self, a: type[Stub[A]], b: type[Stub[B]], c: type[Stub[C]], /
    ) -> Rows[tuple[A, B, C]]: ...
    @overload
    def rows(
        self, a: type[Stub[A]], b: type[Stub[B]], c: type[Stub[C]], d: type[Stub[D]], /
    ) -> Rows[tuple[A, B, C, D]]: ...
    @overload
    def rows(
        self,
        a: type[Stub[A]],
        b: type[Stub[B]],
        c: type[Stub[C]],
        d: type[Stub[D]],
        e: type[Stub[E]],
        /,
    ) -> Rows[tuple[A, B, C, D, E]]: ...
    @overload
    def rows(self, *columns: type[Stub[Any]]) -> Rows[Any]: ...
    def rows(self, *columns: type[Stub[Any]]) -> Rows[Any]:
        """Makes an empty table with columns of these types. Not inside a structure. A row of one
        column is the cell itself; of several it is a tuple.
        """
        place = place_of(1)
        admitted = self._admit()
        kinds = tuple(column._kind for column in columns)
        numbers = [(kind.number(self.core.numbers.stubs), kind.name) for kind in kinds]
        rows: Rows[Any] = self._one(self.core.rows(admitted, numbers, place), Rows, place)
        rows._columns = kinds
        return rows

    @overload
    def collect(self, iterator: Iter[T], row: Callable[[T], Stub[A]]) -> Rows[A]: ...
    @overload
    def collect(
        self, iterator: Iter[T], row: Callable[[T], tuple[Stub[A], Stub[B]]]
    ) -> Rows[tuple[A, B]]: ...
    @overload
    def collect(
        self, iterator: Iter[T], row: Callable[[T], tuple[Stub[A], Stub[B], Stub[C]]]
    ) -> Rows[tuple[A, B, C]]: ...
    @overload
    def collect(
        self, iterator: Iter[T], row: Callable[[T], tuple[Stub[A], Stub[B], Stub[C], Stub[D]]]
    ) -> Rows[tuple[A, B, C, D]]: ...
    @overload
    def collect(
        self, iterator: Iter[T], row: Callable[[T], tuple[Stub[Any], ...]]
    ) -> Rows[Any]: ...
    def collect(self, iterator: Iter[Any], row: Callable[[Any], Any]) -> Rows[Any]:
        """Collects a row for each step of an iterator, in one crossing: ``s.collect(db.users(),
        lambda e: (e, e.name()))`` is a table of users and their names. ``row`` is called once.
        """
        place = place_of(1)
        core = self.core
        rows: Rows[Any] = self._one(core.open_table(self._admit(), place), Rows, place)
        rows._columns = ()
        # The table stands directly before the loop, and gets its columns when they are known.
        with ForeachOf(self, iterator, place, admitted=self._refusal()) as variables:
            cells = row(variables)
            del variables
            cells = cells if isinstance(cells, tuple) else (cells,)
            kinds = tuple(_kind_of(cell) for cell in cells)
            numbers = [(kind.number(core.numbers.stubs), kind.name) for kind in kinds]
            operands = [kind.operand(cell) for kind, cell in zip(kinds, cells, strict=True)]
            core.set_columns(numbers, place)
            rows._columns = kinds
            self.emit(rows, operands, place)
            del cells, operands
        return rows

    def _refusal(self) -> e.Failure | None:
        return self.core.refusal()

    # Structures.

    def if_(self, condition: Bool | Callable[[], Bool]) -> AbstractContextManager[None]:
        """Runs the block at the server if the condition holds. Follow it with :meth:`else_` for the
        other case.
        """
        return IfOf(self, condition, place_of(1))

    def else_(self) -> AbstractContextManager[None]:
        """Runs the block at the server if the condition of the ``if_`` directly before does not
        hold.
        """
        return ElseBlockOf(self, place_of(1))

    def while_(self, condition: Callable[[], Bool]) -> AbstractContextManager[None]:
        """Repeats the block at the server while the promise that ``condition`` records is true."""
        if not callable(condition):
            raise TypeError(
                "a loop tests its condition again and again: write `s.while_(lambda: ...)`"
            )
        return WhileOf(self, condition, place_of(1))

    def foreach(self, iterator: Iter[T]) -> AbstractContextManager[T]:
        """Runs the block at the server for each step of an iterator: ``with s.foreach(db.users())
        as e:``.
        """
        if not isinstance(iterator, Iter):
            raise TypeError(
                f"`foreach` iterates over a call of an iterator, not a `{type(iterator).__name__}`"
            )
        return ForeachOf(self, iterator, place_of(1))

    def break_(self) -> None:
        """Leaves the innermost loop at the server. Recording goes on."""
        self.core.jump("break", place_of(1))

    def continue_(self) -> None:
        """Goes on with the next step of the innermost loop at the server. Recording goes on."""
        self.core.jump("continue", place_of(1))

    def except_(self) -> AbstractContextManager[None]:
        """Runs the block at the server. Exceptions of its calls go to the handlers that follow, as
        far as these name them.
        """
        return ExceptOf(self, place_of(1))

    @overload
    def when(self, signal: type[Signal[V]], /) -> AbstractContextManager[V]: ...
    @overload
    def when(self, signal: str, /, *values: type[Stub[Any]]) -> AbstractContextManager[Any]: ...
    def when(self, signal: Any, /, *values: type[Stub[Any]]) -> AbstractContextManager[Any]:
        """Runs the block at the server when a call of the ``except_`` before signals the exception,
        with the tuple of its values: ``with s.when(NotFound) as (name, count):``. An exception that
        no stub declares is given by its name and the types of its values.
        """
        if isinstance(signal, str):
            return WhenOf(self, signal, tuple(value._kind for value in values), place_of(1))
        headings = signal._headings
        kinds = headings[0] if len(headings) == 1 else ()
        return WhenOf(self, signal.theta, kinds, place_of(1))

    def others(self) -> AbstractContextManager[Str]:
        """Runs the block at the server when a call of the ``except_`` before signals any exception
        that no handler before takes; with the exception's name: ``with s.others() as name:``.
        """
        return OthersOf(self, place_of(1))

    def return_(self, value: Any = None) -> None:
        """Ends a run of the procedure being defined, with its result."""
        self._return(value, place_of(1))

    def _return(self, value: Any, place: object) -> None:
        operand: Operand | None = None
        if isinstance(value, Stub):
            operand = None if isinstance(value, Nothing) else value
        elif value is not None:
            kinds = self._procedure_results
            kind = kinds[-1] if kinds and kinds[-1] is not None else k.kind_of_value(value)
            operand = kind.operand(value)
        self.core.return_(operand, place)

    @property
    def _procedure_results(self) -> list[k.Kind | None]:
        results: list[k.Kind | None] = self.__dict__.setdefault("_results_open", [])
        return results

    @overload
    def procedure(
        self,
        name: str,
        params: tuple[type[Stub[Any]], ...],
        result: type[P],
        body: Callable[..., Any],
    ) -> Procedure[P]: ...
    @overload
    def procedure(
        self, name: str, params: tuple[type[Stub[Any]], ...], result: None, body: Callable[..., Any]
    ) -> Procedure[Nothing]: ...
    def procedure(
        self,
        name: str,
        params: tuple[type[Stub[Any]], ...],
        result: type[Any] | None,
        body: Callable[..., Any],
    ) -> Procedure[Any]:
        """Defines a procedure that the session keeps: ``s.procedure("sum", (Int, Int), Int, lambda
        this, a, b: a + b)``. ``body`` is called once, with the procedure itself for recursive calls
        and with its parameters; its value is the result, None for none.
        """
        place = place_of(1)
        core = self.core
        heading = make_heading(params, result, core.numbers.stubs)
        admitted = self._admit()
        number = core.open_procedure(admitted, name, heading, place)
        this: Procedure[Any] = Procedure(self, number, params, result)
        results = self._procedure_results
        results.append(None if result is None else result._kind)
        try:
            variables = [core.variable(param.__new__(param), place) for param in params]
            value = body(this, *variables)
            del variables
            if result is not None or value is not None:
                self._return(value if result is not None else None, place)
            else:
                core.return_(None, place)
            del value
        except BaseException:
            core.abandon()
            raise
        finally:
            results.pop()
        this._refused = core.close_procedure()
        return this

    def find_procedure(
        self, name: str, params: tuple[type[Stub[Any]], ...], result: type[P] | None
    ) -> Procedure[P] | None:
        """Returns a procedure defined earlier in this session, if it takes and returns these
        types.
        """
        number = self.core.find_procedure(
            name, make_heading(params, result, self.core.numbers.stubs)
        )
        return None if number is None else Procedure(self, number, params, result)

    # Transactions.

    def _commit(self, admitted: e.Failure | None, place: object) -> Nothing:
        return self._one(self.core.commit(admitted, place), Nothing, place)

    def abort(self) -> Nothing:
        """Aborts the transaction, when the batch is sent: everything becomes as it was when it
        began.
        """
        place = place_of(1)
        return self._one(self.core.abort(self._admit(), place), Nothing, place)

    def wait(self, seconds: float | None = None) -> Bool:
        """Waits, when the batch is sent, until another session has committed a change to an object
        that the transaction has read. The promise is true then, and the next transaction begins; it
        is false when the time is over. The server's limit counts if it is lower.
        """
        return self._wait(seconds, place_of(1))

    def _wait(self, seconds: float | None, place: object) -> Bool:
        ms = _WAIT_MS_MAX if seconds is None else max(0, int(min(seconds * 1000, _WAIT_MS_MAX)))
        return self._one(self.core.wait(self._admit(), ms, place), Bool, place)

    # Explanations.

    def explain(self) -> str:
        """Returns the recorded batch, a line for each command in the text form. Nothing crosses for
        it.
        """
        return self.core.explain()

    def explain_last(self) -> str | None:
        """Returns the batch that was sent last, below a line with its account: the calls that the
        server ran, the fuel, the time of the answer, and the claim that sent it; None if none was.
        After :meth:`profile` each line has the cost of its command.
        """
        return self.core.explain_last()

    def explain_batches(self) -> list[str]:
        """Returns the accounts of the last 32 batches, a line for each, oldest first."""
        return self.core.explain_batches()

    def advice(self) -> list[Advice]:
        """Returns what would have saved crossings in the last 32 batches, each once: claims that
        forced a crossing again and again, claims that could share one, and calls that a loop of the
        program recorded many times.
        """
        return self.core.advice()

    def profile(self, on: bool = True) -> None:
        """Has the server measure this batch and all later ones, or no more: :attr:`profile_of_last`
        has the figures. Nothing crosses for it at once. :class:`Misuse` inside a structure or a
        shipped transaction, and if the server makes no profiles; nothing has changed then.
        """
        try:
            if self.core.profile_due(on):
                self.core.profile(self._admit(), on)
        except e.Told as told:
            raise make_exception(told.failure, self.core) from None

    @property
    def profile_of_last(self) -> Profile | None:
        """The profile of the batch that was sent last, if its answer has come and has one."""
        return self.core.profile_of_last

    def _repr_html_(self) -> str:
        counters = self.counters
        state = "closed" if self.is_closed else "open"
        return (
            f"<b>session</b>, {state}: {counters.calls} calls in {counters.crossings} crossings, "
            f"{counters.batching_factor:.1f} for each; one by one it would be {counters.calls} crossings"
        )


def _kind_of(cell: object) -> k.Kind:
    if isinstance(cell, Stub):
        return type(cell)._kind
    return k.kind_of_value(cell)


__all__ = ["AnyObject", "BatchName", "Block", "BlockError", "Closed", "Misuse", "Recording"]
