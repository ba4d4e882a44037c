"""Stubs: promises for values, objects, cells, iterators, tables of rows.

:class:`Stub` is the type to read first. A call makes a stub at once; nothing has crossed then. A
promise can be an argument or a receiver of further calls before it is known; :meth:`Promise.claim`
it, or await it, when the program itself needs the value.

Coercions of Python that would need the value raise a :class:`TypeError` that says what to write
instead.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NoReturn, TypeVar, cast

from . import _tables as t
from . import kinds as k
from . import native
from .recorder.calls import Operand, as_value
from .recorder.errors import Failure
from .recorder.numbers import NO_NUMBER, Stubs
from .recorder.state import FAILED, UNDER_WAY, Slot

if TYPE_CHECKING:
    from typing import Self

    from .recorder.crossing import Recorder

P = TypeVar("P", bound="Stub[Any]")
A = TypeVar("A", bound="Stub[Any]")
B = TypeVar("B", bound="Stub[Any]")
C = TypeVar("C", bound="Stub[Any]")
D = TypeVar("D", bound="Stub[Any]")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)
R = TypeVar("R")
S = TypeVar("S")
Arg = TypeVar("Arg")
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


def _refuse(what: str) -> NoReturn:
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
        _refuse(
            "the value is not here: use `with s.if_(promise):` for a choice at the server, `promise.and_(lambda: "
            "...)` for `and`, or `if promise.claim():`"
        )

    def __iter__(self) -> Any:
        _refuse(
            "the value is not here: iterate at the server with `with s.foreach(iterator) as x:`, or over "
            "`claim()`"
        )

    def __len__(self) -> int:
        _refuse("the value is not here: `len` needs `claim()`; at the server it is `.length()`")

    def __contains__(self, item: object) -> bool:
        _refuse("the value is not here: `in` needs `claim()`")

    def __index__(self) -> int:
        _refuse("the value is not here: an index needs `claim()`")

    def __int__(self) -> int:
        _refuse("the value is not here: `int` needs `claim()`")

    def __float__(self) -> float:
        _refuse("the value is not here: `float` needs `claim()`; at the server it is `.to_real()`")

    def __str__(self) -> str:
        _refuse(
            "the value is not here: a text needs `claim()`; at the server it is `.unparse()`, and `+`"
        )

    def __format__(self, spec: str) -> str:
        _refuse(
            "the value is not here: an f-string needs `claim()`; at the server it is `.unparse()`, and `+`"
        )

    def __hash__(self) -> int:
        _refuse("a stub is no key of a dict or set: take `claim()`")

    def __eq__(self, other: object) -> Any:
        _refuse("objects are compared with their method `equal`, or with `s.is_same(one, other)`")

    def __ne__(self, other: object) -> Any:
        _refuse("objects are compared with their method `equal`, or with `s.is_same(one, other)`")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        _refuse("a stub belongs to its session and cannot be pickled")

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
        return cast(Bool, self._core.owner.test_type(self, cls, place_of(1)))

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


class Nothing(Promise[None]):
    """The end of a call without result."""

    __slots__ = ()
    _kind = k.NULL


class Null(Promise[None]):
    """A promise for ``nil``."""

    __slots__ = ()
    _kind = k.NULL


class Bool(Promise[bool]):
    """A promise for a truth value."""

    __slots__ = ()
    _kind = k.BOOL

    def __invert__(self) -> Bool:
        return self._call(self._operator(t.OPERATOR_BOOL_NOT), Bool)

    def __eq__(self, other: BoolArg) -> Bool:  # type: ignore[override]
        return self._call(self._operator(t.OPERATOR_BOOL_EQUAL), Bool, k.BOOL.operand(other))

    def __ne__(self, other: BoolArg) -> Bool:  # type: ignore[override]
        equal = self._call(self._operator(t.OPERATOR_BOOL_EQUAL), Bool, k.BOOL.operand(other))
        return equal._call(self._operator(t.OPERATOR_BOOL_NOT), Bool)

    __hash__ = Stub.__hash__

    def __and__(self, other: object) -> NoReturn:
        _refuse(
            "`&` would run both sides: write `a.and_(lambda: b)`, whose other side runs only if it must"
        )

    def __or__(self, other: object) -> NoReturn:
        _refuse(
            "`|` would run both sides: write `a.or_(lambda: b)`, whose other side runs only if it must"
        )

    __rand__ = __and__
    __ror__ = __or__

    def and_(self, other: Callable[[], Bool]) -> Bool:
        """True if both hold. The other is computed at the server, and only if this one holds."""
        return cast(Bool, self._core.owner.decide(self, other, True, place_of(1)))

    def or_(self, other: Callable[[], Bool]) -> Bool:
        """True if either holds. The other is computed at the server, and only if this one does
        not.
        """
        return cast(Bool, self._core.owner.decide(self, other, False, place_of(1)))


class Int(Promise[int]):
    """A promise for an integer of 64 bits. ``//`` and ``%`` leave a remainder that is never
    negative.
    """

    __slots__ = ()
    _kind = k.INT

    def __add__(self, other: IntArg) -> Int:
        return self._call(self._operator(t.OPERATOR_INT_ADD), Int, k.INT.operand(other))

    def __radd__(self, other: int) -> Int:
        return self._call(self._operator(t.OPERATOR_INT_ADD), Int, k.INT.operand(other))

    def __sub__(self, other: IntArg) -> Int:
        return self._call(self._operator(t.OPERATOR_INT_SUB), Int, k.INT.operand(other))

    def __rsub__(self, other: int) -> Int:
        return self._reversed(t.OPERATOR_INT_SUB, other)

    def __mul__(self, other: IntArg) -> Int:
        return self._call(self._operator(t.OPERATOR_INT_MUL), Int, k.INT.operand(other))

    def __rmul__(self, other: int) -> Int:
        return self._call(self._operator(t.OPERATOR_INT_MUL), Int, k.INT.operand(other))

    def __floordiv__(self, other: IntArg) -> Int:
        return self._call(self._operator(t.OPERATOR_INT_DIV), Int, k.INT.operand(other))

    def __rfloordiv__(self, other: int) -> Int:
        return self._reversed(t.OPERATOR_INT_DIV, other)

    def __mod__(self, other: IntArg) -> Int:
        return self._call(self._operator(t.OPERATOR_INT_MOD), Int, k.INT.operand(other))

    def __rmod__(self, other: int) -> Int:
        return self._reversed(t.OPERATOR_INT_MOD, other)

    def _reversed(self, row: int, other: int) -> Int:
        place = place_of(2)
        owner = self._core.owner
        receiver = owner.value(other)
        return cast(Int, owner.call(receiver, self._operator(row), Int, (self,), place))

    def __truediv__(self, other: object) -> NoReturn:
        _refuse("integers are divided with `//`; for a real write `a.to_real() / b`")

    __rtruediv__ = __truediv__

    def __neg__(self) -> Int:
        return self._call(self._operator(t.OPERATOR_INT_NEGATE), Int)

    def __lt__(self, other: IntArg) -> Bool:
        return self._call(self._operator(t.OPERATOR_INT_LT), Bool, k.INT.operand(other))

    def __le__(self, other: IntArg) -> Bool:
        return self._call(self._operator(t.OPERATOR_INT_LE), Bool, k.INT.operand(other))

    def __gt__(self, other: IntArg) -> Bool:
        return self._call(self._operator(t.OPERATOR_INT_GT), Bool, k.INT.operand(other))

    def __ge__(self, other: IntArg) -> Bool:
        return self._call(self._operator(t.OPERATOR_INT_GE), Bool, k.INT.operand(other))

    def __eq__(self, other: IntArg) -> Bool:  # type: ignore[override]
        return self._call(self._operator(t.OPERATOR_INT_EQUAL), Bool, k.INT.operand(other))

    def __ne__(self, other: IntArg) -> Bool:  # type: ignore[override]
        equal = self._call(self._operator(t.OPERATOR_INT_EQUAL), Bool, k.INT.operand(other))
        return equal._call(self._operator(t.OPERATOR_BOOL_NOT), Bool)

    __hash__ = Stub.__hash__

    def to(self, limit: IntArg) -> Iter[Int]:
        """Returns the numbers from this one up to a limit, for :meth:`Session.foreach`."""
        return self._iterate(self._operator(t.OPERATOR_INT_TO), (Int,), k.INT.operand(limit))

    def to_by(self, limit: IntArg, step: IntArg) -> Iter[Int]:
        """As :meth:`to`, in steps."""
        number = self._operator(t.OPERATOR_INT_TO_BY)
        return self._iterate(number, (Int,), k.INT.operand(limit), k.INT.operand(step))

    def to_real(self) -> Real:
        """Returns the number as a real."""
        return self._call(self._operator(t.OPERATOR_INT_TO_REAL), Real)

    def unparse(self) -> Str:
        """Returns the number as a text."""
        return self._call(self._operator(t.OPERATOR_INT_UNPARSE), Str)


class Real(Promise[float]):
    """A promise for a floating-point number."""

    __slots__ = ()
    _kind = k.REAL

    def __add__(self, other: RealArg) -> Real:
        return self._call(self._operator(t.OPERATOR_REAL_ADD), Real, k.REAL.operand(other))

    def __radd__(self, other: float) -> Real:
        return self._call(self._operator(t.OPERATOR_REAL_ADD), Real, k.REAL.operand(other))

    def __sub__(self, other: RealArg) -> Real:
        return self._call(self._operator(t.OPERATOR_REAL_SUB), Real, k.REAL.operand(other))

    def __rsub__(self, other: float) -> Real:
        return self._reversed(t.OPERATOR_REAL_SUB, other)

    def __mul__(self, other: RealArg) -> Real:
        return self._call(self._operator(t.OPERATOR_REAL_MUL), Real, k.REAL.operand(other))

    def __rmul__(self, other: float) -> Real:
        return self._call(self._operator(t.OPERATOR_REAL_MUL), Real, k.REAL.operand(other))

    def __truediv__(self, other: RealArg) -> Real:
        return self._call(self._operator(t.OPERATOR_REAL_DIV), Real, k.REAL.operand(other))

    def __rtruediv__(self, other: float) -> Real:
        return self._reversed(t.OPERATOR_REAL_DIV, other)

    def _reversed(self, row: int, other: float) -> Real:
        place = place_of(2)
        owner = self._core.owner
        receiver = owner.value(float(other))
        return cast(Real, owner.call(receiver, self._operator(row), Real, (self,), place))

    def __neg__(self) -> Real:
        return self._call(self._operator(t.OPERATOR_REAL_NEGATE), Real)

    def __lt__(self, other: RealArg) -> Bool:
        return self._call(self._operator(t.OPERATOR_REAL_LT), Bool, k.REAL.operand(other))

    def __le__(self, other: RealArg) -> Bool:
        return self._call(self._operator(t.OPERATOR_REAL_LE), Bool, k.REAL.operand(other))

    def __gt__(self, other: RealArg) -> Bool:
        return self._call(self._operator(t.OPERATOR_REAL_GT), Bool, k.REAL.operand(other))

    def __ge__(self, other: RealArg) -> Bool:
        return self._call(self._operator(t.OPERATOR_REAL_GE), Bool, k.REAL.operand(other))

    def __eq__(self, other: RealArg) -> Bool:  # type: ignore[override]
        return self._call(self._operator(t.OPERATOR_REAL_EQUAL), Bool, k.REAL.operand(other))

    def __ne__(self, other: RealArg) -> Bool:  # type: ignore[override]
        equal = self._call(self._operator(t.OPERATOR_REAL_EQUAL), Bool, k.REAL.operand(other))
        return equal._call(self._operator(t.OPERATOR_BOOL_NOT), Bool)

    __hash__ = Stub.__hash__

    def unparse(self) -> Str:
        """Returns the number as a text."""
        return self._call(self._operator(t.OPERATOR_REAL_UNPARSE), Str)


class Char(Promise[str]):
    """A promise for a character: a text of one."""

    __slots__ = ()
    _kind = k.CHAR

    def __eq__(self, other: CharArg) -> Bool:  # type: ignore[override]
        return self._call(self._operator(t.OPERATOR_CHAR_EQUAL), Bool, k.CHAR.operand(other))

    def __ne__(self, other: CharArg) -> Bool:  # type: ignore[override]
        equal = self._call(self._operator(t.OPERATOR_CHAR_EQUAL), Bool, k.CHAR.operand(other))
        return equal._call(self._operator(t.OPERATOR_BOOL_NOT), Bool)

    __hash__ = Stub.__hash__


class Str(Promise[str]):
    """A promise for a text."""

    __slots__ = ()
    _kind = k.STR

    def __add__(self, other: StrArg) -> Str:
        return self._call(self._operator(t.OPERATOR_STRING_CONCAT), Str, k.STR.operand(other))

    def __radd__(self, other: str) -> Str:
        place = place_of(1)
        owner = self._core.owner
        number = self._operator(t.OPERATOR_STRING_CONCAT)
        return cast(Str, owner.call(owner.value(other), number, Str, (self,), place))

    def __lt__(self, other: StrArg) -> Bool:
        return self._call(self._operator(t.OPERATOR_STRING_LT), Bool, k.STR.operand(other))

    def __le__(self, other: StrArg) -> Bool:
        return self._call(self._operator(t.OPERATOR_STRING_LE), Bool, k.STR.operand(other))

    def __gt__(self, other: StrArg) -> Bool:
        return self._call(self._operator(t.OPERATOR_STRING_GT), Bool, k.STR.operand(other))

    def __ge__(self, other: StrArg) -> Bool:
        return self._call(self._operator(t.OPERATOR_STRING_GE), Bool, k.STR.operand(other))

    def __eq__(self, other: StrArg) -> Bool:  # type: ignore[override]
        return self._call(self._operator(t.OPERATOR_STRING_EQUAL), Bool, k.STR.operand(other))

    def __ne__(self, other: StrArg) -> Bool:  # type: ignore[override]
        equal = self._call(self._operator(t.OPERATOR_STRING_EQUAL), Bool, k.STR.operand(other))
        return equal._call(self._operator(t.OPERATOR_BOOL_NOT), Bool)

    __hash__ = Stub.__hash__

    def length(self) -> Int:
        """Returns the number of characters."""
        return self._call(self._operator(t.OPERATOR_STRING_LENGTH), Int)


class Plain(Promise[V]):
    """A promise for the contents of an object."""

    __slots__ = ("_kind",)  # pyright: ignore[reportIncompatibleVariableOverride]
    _kind: k.Kind  # type: ignore[misc]


class Object(Stub[V_co]):
    """A stub of an object. Generated classes are below it."""

    __slots__ = ()

    def _get(self) -> Plain[Any]:
        """Records that the contents are taken."""
        return cast("Plain[Any]", self._core.owner.get(self, place_of(2)))


class BuiltinStub(Object[V_co]):
    """A stub of a built-in type."""

    __slots__ = ()
    _row: ClassVar[int]

    def _method(self, place: int) -> int:
        builtin = self._core.numbers.stubs.builtin
        first = builtin[self._row][2] if builtin else NO_NUMBER
        return NO_NUMBER if first == NO_NUMBER else first + place


class AnyObject(BuiltinStub["AnyObject"]):
    """An object of any type.

    Theta: ``any``
    """

    __slots__ = ()
    _row = t.BUILTIN_ANY


class _AnyKind(k.BuiltinKind):
    """The type above all others: takes every object, and bytes."""

    def operand(self, value: Any) -> Operand:
        if isinstance(value, (Object, Bytes)):
            return value
        raise self.wrong(value)


class Bytes(Promise[bytes]):
    """A promise for bytes."""

    __slots__ = ()
    _kind = k.BYTES

    def _method(self, place: int) -> int:
        builtin = self._core.numbers.stubs.builtin
        first = builtin[t.BUILTIN_BYTES][2] if builtin else NO_NUMBER
        return NO_NUMBER if first == NO_NUMBER else first + place

    def length(self) -> Int:
        """Theta: ``length () returns (int)``"""
        return self._call(self._method(0), Int)

    def fetch(self, i: IntArg) -> Int:
        """Theta: ``fetch (i: int) returns (int) signals (bounds)``"""
        return self._call(self._method(1), Int, k.INT.operand(i))

    def concat(self, x: BytesArg) -> Bytes:
        """Theta: ``concat (x: bytes) returns (bytes)``"""
        return self._call(self._method(2), Bytes, k.BYTES.operand(x))

    def slice(self, at: IntArg, count: IntArg) -> Bytes:
        """Theta: ``slice (at: int, count: int) returns (bytes) signals (bounds)``"""
        return self._call(self._method(3), Bytes, k.INT.operand(at), k.INT.operand(count))

    def to_string(self) -> Str:
        """Theta: ``to_string () returns (string) signals (bad_format)``"""
        return self._call(self._method(4), Str)

    def equal(self, x: BytesArg) -> Bool:
        """Theta: ``equal (x: bytes) returns (bool)``"""
        return self._call(self._method(5), Bool, k.BYTES.operand(x))

    def similar(self, x: BytesArg) -> Bool:
        """Theta: ``similar (x: bytes) returns (bool)``"""
        return self._call(self._method(6), Bool, k.BYTES.operand(x))

    def copy(self) -> Bytes:
        """Theta: ``copy () returns (bytes)``"""
        return self._call(self._method(7), Bytes)

    def unparse(self) -> Str:
        """Theta: ``unparse () returns (string)``"""
        return self._call(self._method(8), Str)

    def hash(self) -> Int:
        """Theta: ``hash () returns (int)``"""
        return self._call(self._method(9), Int)

    def __add__(self, other: BytesArg) -> Bytes:
        return self._call(self._method(2), Bytes, k.BYTES.operand(other))

    def __eq__(self, other: BytesArg) -> Bool:  # type: ignore[override]
        return self._call(self._method(5), Bool, k.BYTES.operand(other))

    def __ne__(self, other: BytesArg) -> Bool:  # type: ignore[override]
        equal = self._call(self._method(5), Bool, k.BYTES.operand(other))
        return equal._call(self._operator(t.OPERATOR_BOOL_NOT), Bool)

    __hash__ = Stub.__hash__


AnyObject._kind = _AnyKind(AnyObject, "any", t.BUILTIN_ANY)


class Directory(BuiltinStub["Directory"]):
    """Objects by their names.

    Theta: ``directory``
    """

    __slots__ = ()
    _row = t.BUILTIN_DIRECTORY

    def lookup(self, name: StrArg) -> AnyObject:
        """Theta: ``lookup (name: string) returns (any) signals (not_found)``"""
        return self._call(self._method(0), AnyObject, k.STR.operand(name))

    def insert(self, name: StrArg, v: AnyArg) -> Nothing:
        """Theta: ``insert (name: string, v: any)``"""
        return self._call(self._method(1), Nothing, k.STR.operand(name), AnyObject._kind.operand(v))

    def remove(self, name: StrArg) -> Nothing:
        """Theta: ``remove (name: string) signals (not_found)``"""
        return self._call(self._method(2), Nothing, k.STR.operand(name))

    def names(self) -> Iter[Str]:
        """Theta: ``names () yields (string)``"""
        return self._iterate(self._method(3), (Str,))

    def list(self) -> Iter[tuple[Str, Str]]:
        """Each name with the name of its object's type.

        Theta: ``list () yields (string, string)``
        """
        return self._iterate(self._method(4), (Str, Str))

    def equal(self, x: Directory) -> Bool:
        """Theta: ``equal (x: directory) returns (bool)``"""
        return self._call(self._method(5), Bool, Directory._kind.operand(x))


Directory._kind = k.BuiltinKind(Directory, "directory", t.BUILTIN_DIRECTORY)

for _stub in (Bool, Int, Real, Char, Str, Bytes):
    _stub._kind.stub = _stub
k.NULL.stub = Null

#: Arguments of these types.
NullArg = None | Null | Nothing
BoolArg = bool | Bool
IntArg = int | Int
RealArg = float | Real
CharArg = str | Char
StrArg = str | Str
BytesArg = bytes | Bytes
AnyArg = Object[Any] | Bytes


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
        _refuse(
            "the elements are at the server: write `with s.foreach(iterator) as x:`, or `s.collect(...)`"
        )


def failure_of(stub: Stub[Any]) -> Failure | None:
    """Returns the failure of a stub, if it has one."""
    failure: Failure | None = stub._core.failure_of(stub)
    return failure
