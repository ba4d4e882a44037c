"""Stubs: what all results of calls have in common, and the recording of a call.

:class:`Stub` is the type to read first. A call makes a stub at once; nothing has crossed then. A
promise can be an argument or a receiver of further calls before it is known; :meth:`Promise.claim`
it, or await it, when the program itself needs the value. The classes below are in
:mod:`bifrost_veneer.values`.

Coercions of Python that would need the value raise a :class:`TypeError` that says what to write
instead.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NoReturn, TypeVar, cast

from . import _tables as t
from . import kinds as k
from . import native
from .recorder.calls import Operand, as_value
from .recorder.numbers import Stubs
from .recorder.state import FAILED, UNDER_WAY, Slot

if TYPE_CHECKING:
    from typing import Self

    from .recorder.crossing import Recorder
    from .values import Bool

P = TypeVar("P", bound="Stub[Any]")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)
S = TypeVar("S")
T = TypeVar("T")

_frame = sys._getframe
_CALL: Final = t.OP_CALL
_ONE: Final = t.OP_CALL | 1 << 8
#: The first words of calls by the numbers of their methods: without argument, and with one of a tag.
_HEADS: Final[list[int]] = []
_REF_HEADS: Final[list[int]] = []
_INT_HEADS: Final[list[int]] = []
_STRING_HEADS: Final[list[int]] = []
#: The most methods that have such words.
_HEADS_MAX: Final = 1 << 16
_HEADS_LOCK: Final = threading.Lock()
#: Longer texts are compared with the server's limit first; words of texts are little-endian.
_TEXT_BYTES_MAX: Final = 256 if sys.byteorder == "little" else -1
#: Zeros up to a whole word, by the bytes in the last one.
_ZEROS: Final = [b"", *(b"\0" * (8 - count) for count in range(1, 8))]


def place_of(depth: int) -> tuple[Any, int]:
    """Returns the place of a call: the code and the offset in it of a frame above the caller's."""
    frame = _frame(depth + 1)
    return (frame.f_code, frame.f_lasti)


def refuse(what: str) -> NoReturn:
    """Refuses an operation that needs the value."""
    raise TypeError(what)


def _add_heads(method: int) -> None:
    """Makes the first words of calls up to a method."""
    tagged = ((_REF_HEADS, t.TAG_REF), (_INT_HEADS, t.TAG_INT), (_STRING_HEADS, t.TAG_STRING))
    with _HEADS_LOCK:
        for number in range(len(_HEADS), method + 1):
            for heads, tag in tagged:
                heads.append(number << 32 | _ONE | tag << 16)
            _HEADS.append(number << 32 | _CALL)


def _call_slowly(
    stub: Stub[Any],
    method: int,
    result: type[Stub[Any]],
    operand: Operand | None,
    more: tuple[Operand, ...],
    frame: Any,
) -> Stub[Any]:
    """Records a call for which something comes first, or whose receiver is a value."""
    if len(_HEADS) <= method < _HEADS_MAX:
        _add_heads(method)
    operands = () if operand is None else (operand, *more)
    made: Stub[Any] = stub._core.owner.call(
        stub, method, result, operands, (frame.f_code, frame.f_lasti)
    )
    return made


class Stub(Slot, Generic[V_co]):
    """A result that is at the server. ``V_co`` is its type in rows and contents."""

    __slots__ = ()

    _kind: ClassVar[k.Kind]

    # What Python would need the value for.

    def __bool__(self) -> bool:
        refuse(
            "the value is not here: use `with s.if_(promise):` for a choice at the server, `promise.and_(lambda: "
            "...)` for `and`, or `if promise.claim():`"
        )

    def __iter__(self) -> Any:
        refuse(
            "the value is not here: iterate at the server with `with s.foreach(iterator) as x:`, or over "
            "`claim()`"
        )

    def __len__(self) -> int:
        refuse("the value is not here: `len` needs `claim()`; at the server it is `.length()`")

    def __contains__(self, item: object) -> bool:
        refuse("the value is not here: `in` needs `claim()`")

    def __index__(self) -> int:
        refuse("the value is not here: an index needs `claim()`")

    def __int__(self) -> int:
        refuse("the value is not here: `int` needs `claim()`")

    def __float__(self) -> float:
        refuse("the value is not here: `float` needs `claim()`; at the server it is `.to_real()`")

    def __str__(self) -> str:
        refuse(
            "the value is not here: a text needs `claim()`; at the server it is `.unparse()`, and `+`"
        )

    def __format__(self, spec: str) -> str:
        refuse(
            "the value is not here: an f-string needs `claim()`; at the server it is `.unparse()`, and `+`"
        )

    def __hash__(self) -> int:
        refuse("a stub is no key of a dict or set: take `claim()`")

    def __eq__(self, other: object) -> Any:
        refuse("objects are compared with their method `equal`, or with `s.is_same(one, other)`")

    def __ne__(self, other: object) -> Any:
        refuse("objects are compared with their method `equal`, or with `s.is_same(one, other)`")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        refuse("a stub belongs to its session and cannot be pickled")

    def __repr__(self) -> str:
        name = type(self).__name__
        if not hasattr(self, "_core"):
            return f"<{name}>"
        if self._ref:
            return f"<{name}, not yet claimed>" if self._ref < 0 else f"<{name} h{self._ref}>"
        known = self._known
        if known[0] == FAILED:
            return f"<{name} failed: {known[1]}>"
        if known[0] == UNDER_WAY:
            return f"<{name}, under way>"
        return f"<{name} {known[1]!r}>" if isinstance(self, Promise) else f"<{name}>"

    def _repr_html_(self) -> str:
        text = repr(self).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return f"<code>{text}</code>"

    # Calls. The caller of each is a method of a stub, whose caller is the program.

    def _call(
        self, method: int, result: type[P], operand: Operand | None = None, *more: Operand
    ) -> P:
        """Records a call with one result. It is written for speed: several appends cost less than
        one `extend`, and one default less than a tuple of operands.
        """
        core = self._core
        batch = core.batch
        futures = core.futures
        start = len(batch)
        position = len(futures)
        reference = self._ref
        frame = _frame(2)
        if not (start < core.attention_words and position < core.hot_futures and reference):
            return cast(P, _call_slowly(self, method, result, operand, more, frame))
        try:
            stub = result()
            stub._core = core
            # What is known of it is looked at when it is no future any more.
            stub._ref = ~position
            if operand is None:
                batch.append(_HEADS[method])
                batch.append(reference)
            elif more:
                failure = core.record_call(method << 32 | _CALL, reference, (operand, *more))
                if failure is not None:
                    return cast(P, core.owner.refused(stub, method, failure, frame))
            elif type(operand) is int:
                batch.append(_INT_HEADS[method])
                batch.append(reference)
                batch.append(operand)
            elif type(operand) is str and len(data := operand.encode()) <= _TEXT_BYTES_MAX:
                batch.append(_STRING_HEADS[method])
                batch.append(reference)
                batch.append(len(data))
                batch.frombytes(data + _ZEROS[len(data) & 7])
            elif isinstance(operand, Slot) and operand._core is core and operand._ref:
                batch.append(_REF_HEADS[method])
                batch.append(reference)
                batch.append(operand._ref)
            else:
                failure = core.record_call(method << 32 | _CALL, reference, (operand,))
                if failure is not None:
                    return cast(P, core.owner.refused(stub, method, failure, frame))
            futures.append(stub)
            core.infos.append((method, frame.f_code, frame.f_lasti))
        except (IndexError, OverflowError):
            # The first call of a method, one that there is not, or an int of more than 64 bits.
            core.roll_back(start, position)
            return cast(P, _call_slowly(self, method, result, operand, more, frame))
        except BaseException:
            # Interrupted, or an argument that is none: leaves nothing of the call.
            core.roll_back(start, position)
            raise
        return stub

    def _call_many(
        self, method: int, results: tuple[type, ...], *operands: Operand
    ) -> tuple[Any, ...]:
        """Records a call with several results."""
        stubs: tuple[Any, ...] = self._core.owner.call_many(
            self, method, results, operands, place_of(2)
        )
        return stubs

    def _iterate(self, method: int, variables: tuple[type, ...], *operands: Operand) -> Iter[Any]:
        """Makes a call of an iterator, for ``foreach``."""
        return Iter(self._core, self, None, method, variables, operands, place_of(2))

    def _operator(self, row: int) -> int:
        number: int = self._core.numbers.stubs.operators[row]
        return number

    def as_(self, cls: type[P]) -> P:
        """Returns the same object, seen as one of a type; :class:`WrongType` if it has another."""
        return cast(P, self._core.owner.cast(self, cls, place_of(1)))

    def is_(self, cls: type[Stub[Any]]) -> Bool:
        """Returns a promise that says if the object has a type."""
        return cast("Bool", self._core.owner.test_type(self, cls, place_of(1)))

    def caught(self, signal: type[S]) -> S | None:
        """Returns the exception that the call has signalled, if it is this one and its batch was
        answered. Its objects are stubs. The program is told with it.
        """
        return cast("S | None", self._core.owner.caught(self, signal))

    def release(self) -> None:
        """Gives the stub up. CPython does this by itself when the last reference to it is gone."""
        self._core.release(self)


#: Records a call in Python.
record_call = Stub._call

if native.module is not None:
    # That of the native library; for sessions that it does not record it calls the other one.
    del Stub._call


class Promise(Stub[V]):
    """The value that a call will have returned."""

    __slots__ = ()

    def claim(self) -> V:
        """Returns the value. Flushes the session if it is not known yet. Raises the failure of the
        call, or failures that no other claim can tell.
        """
        owner = self._core.owner
        if self._ref or self._known[0] == UNDER_WAY:
            owner.know(self, "claim", place_of(1))
        return cast(V, owner.take(self, self._kind))

    def __await__(self) -> Generator[Any, None, V]:
        """Waits until the value is known: one flush for all that is awaited in a turn of the
        loop.
        """
        return self._core.owner.awaited(self, self._kind, place_of(1)).__await__()  # type: ignore[no-any-return]

    def peek(self) -> V | None:
        """Returns the value, if it is known without flushing; else None. Raises as
        :meth:`claim`.
        """
        if self._ref or self._known[0] == UNDER_WAY:
            return None
        return cast(V, self._core.owner.take(self, self._kind))

    @property
    def is_known(self) -> bool:
        """True if the value, or the failure, is here."""
        return not (self._ref or self._known[0] == UNDER_WAY)


class Iter(Generic[T]):
    """A call of an iterator, which :meth:`Session.foreach` makes. ``T`` are its loop variables."""

    __slots__ = ("core", "number", "operands", "place", "receiver", "stubs", "variables")

    def __init__(
        self,
        core: Recorder,
        receiver: Stub[Any] | None,
        stubs: Stubs | None,
        number: int,
        variables: tuple[type, ...],
        operands: Sequence[Operand],
        place: object,
    ) -> None:
        for operand in operands:
            if type(operand) is int:
                # An int that does not fit is told here, and not where the loop is recorded.
                as_value(operand)
        self.core = core
        self.receiver = receiver
        self.stubs = stubs
        self.number = number
        self.variables = variables
        self.operands = operands
        self.place = place

    def __iter__(self) -> Iterator[T]:
        # It has this type for loops in remote functions.
        refuse(
            "the elements are at the server: write `with s.foreach(iterator) as x:`, or `s.collect(...)`"
        )
