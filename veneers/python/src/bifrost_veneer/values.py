"""Promises for values, and stubs of built-in objects.

:class:`Int` is the type to read first: its operators are calls that the server runs. The classes
above are in :mod:`bifrost_veneer.stubs`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, TypeVar, cast

from . import _tables as t
from . import kinds as k
from .recorder.calls import Operand
from .recorder.numbers import NO_NUMBER
from .stubs import Iter, Promise, Stub, place_of, refuse

V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


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
        refuse(
            "`&` would run both sides: write `a.and_(lambda: b)`, whose other side runs only if it must"
        )

    def __or__(self, other: object) -> NoReturn:
        refuse(
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
        refuse("integers are divided with `//`; for a real write `a.to_real() / b`")

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
