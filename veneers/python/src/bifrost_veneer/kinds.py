"""The types of values: how arguments are encoded by the declared type, and how results are read.

:class:`Kind` is the type to read first. The kind of a parameter turns an argument into an operand,
and refuses what the declared type does not have: ``True`` is no int, ``1`` is a fine real, a text
of one letter can be a char. The kind of a result takes the value that came.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from . import _tables as t
from . import native
from .recorder.calls import ItemList, Operand, WordList
from .recorder.decode import Handle, compound_items
from .recorder.numbers import NO_NUMBER, Stubs
from .recorder.state import Slot
from .recorder.wire import Value, real_word

if TYPE_CHECKING:
    from .recorder.crossing import Recorder

T = TypeVar("T")

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1

_NO_CELL: Final = (NO_NUMBER, NO_NUMBER, NO_NUMBER, NO_NUMBER)

Items = Iterator[Value | Handle]
CellNumbers = tuple[int, int, int, int]


class Mismatch(Exception):
    """A value that came does not have the type of its heading."""


class Kind:
    """A type of values."""

    #: Its name in Theta, for messages.
    name = "?"
    #: The class of the stubs of its values.
    stub: type[Slot] = Slot

    def number(self, stubs: Stubs) -> int:
        """Returns its number in the stubs."""
        raise NotImplementedError

    def cell(self, stubs: Stubs) -> CellNumbers:
        """Returns the numbers of its cells."""
        raise NotImplementedError

    def operand(self, value: Any) -> Operand:
        """Returns an argument as an operand. Raises TypeError or ValueError."""
        raise NotImplementedError

    def take(self, items: Items, core: Recorder) -> Any:
        """Takes the next item as a plain value; an object is a new stub. Raises
        :class:`Mismatch`.
        """
        raise NotImplementedError

    def take_all(self, items: Sequence[Value | Handle], core: Recorder) -> list[Any]:
        """Takes all items."""
        source = iter(items)
        return [self.take(source, core) for _ in range(len(items))]

    def wrong(self, value: object) -> TypeError:
        """Returns the error of an argument that has another type."""
        if isinstance(value, Slot):
            kind: Kind | None = getattr(type(value), "_kind", None)
            came = f"`{type(value).__name__}`" if kind is None else f"`{kind.name}`"
        else:
            came = f"`{type(value).__name__}`"
        return TypeError(f"an argument of type `{self.name}` was expected, not {came}")


class Basic(Kind):
    """A basic type, text or bytes."""

    def __init__(self, name: str, tag: int, row: int) -> None:
        self.name = name
        self.tag = tag
        self._row = row

    def number(self, stubs: Stubs) -> int:
        return stubs.basic[self._row][0] if self._row < len(stubs.basic) else NO_NUMBER

    def cell(self, stubs: Stubs) -> CellNumbers:
        return stubs.basic[self._row][1] if self._row < len(stubs.basic) else _NO_CELL

    def take(self, items: Items, core: Recorder) -> Any:
        item = next(items, None)
        if item is None or isinstance(item, Handle) or item[0] != self.tag:
            raise Mismatch
        return item[1]

    def operand(self, value: Any) -> Operand:
        if isinstance(value, self.stub):
            return value
        return (self.tag, self.check(value))

    def check(self, value: Any) -> object:
        """Returns the payload of a value of the program. Raises TypeError or ValueError."""
        raise NotImplementedError


class _Null(Basic):
    def check(self, value: Any) -> object:
        if value is not None:
            raise self.wrong(value)
        return None


class _Bool(Basic):
    def check(self, value: Any) -> object:
        if type(value) is not bool:
            raise self.wrong(value)
        return value


class _Int(Basic):
    def operand(self, value: Any) -> Operand:
        if type(value) is int and INT_MIN <= value <= INT_MAX:
            return value
        return super().operand(value)

    def check(self, value: Any) -> object:
        if isinstance(value, int) and not isinstance(value, bool):
            if not INT_MIN <= value <= INT_MAX:
                raise OverflowError(f"{value} does not fit into an int of 64 bits")
            return int(value)
        raise self.wrong(value)


class _Real(Basic):
    def check(self, value: Any) -> object:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        raise self.wrong(value)


class _Char(Basic):
    def check(self, value: Any) -> object:
        if not isinstance(value, str):
            raise self.wrong(value)
        if len(value) != 1 or 0xD800 <= ord(value) < 0xE000:
            raise ValueError(f"{value!r} is not one character")
        return value

    def operand(self, value: Any) -> Operand:
        if isinstance(value, self.stub):
            return value
        return (self.tag, self.check(value))


class _Str(Basic):
    def operand(self, value: Any) -> Operand:
        if type(value) is str:
            # What cannot be encoded is found when it is recorded.
            return value
        return super().operand(value)

    def check(self, value: Any) -> object:
        if not isinstance(value, str):
            raise self.wrong(value)
        # Halves of pairs cannot cross: say so here.
        value.encode()
        return str(value)


class _Bytes(Basic):
    def number(self, stubs: Stubs) -> int:
        return stubs.builtin[t.BUILTIN_BYTES][0] if stubs.builtin else NO_NUMBER

    def cell(self, stubs: Stubs) -> CellNumbers:
        return stubs.builtin[t.BUILTIN_BYTES][1] if stubs.builtin else _NO_CELL

    def check(self, value: Any) -> object:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise self.wrong(value)
        return bytes(value)


NULL: Final = _Null("null", t.TAG_NIL, 0)
BOOL: Final = _Bool("bool", t.TAG_BOOL, 1)
INT: Final = _Int("int", t.TAG_INT, 2)
REAL: Final = _Real("real", t.TAG_REAL, 3)
CHAR: Final = _Char("char", t.TAG_CHAR, 4)
STR: Final = _Str("string", t.TAG_STRING, 5)
BYTES: Final = _Bytes("bytes", t.TAG_BYTES, 0)

int_operand, real_operand, str_operand = INT.operand, REAL.operand, STR.operand
if native.module is not None:
    # They leave to those above what is not of the usual class.
    INT.operand = native.module.int_operand  # type: ignore[method-assign]
    REAL.operand = native.module.real_operand  # type: ignore[method-assign]
    STR.operand = native.module.str_operand  # type: ignore[method-assign]


class ObjectKind(Kind):
    """A type of objects, whose stubs have a class of their own."""

    def __init__(
        self,
        stub: type[Slot],
        name: str,
        stubs: Stubs | None,
        number: int,
        cell: CellNumbers = _NO_CELL,
    ) -> None:
        self.stub = stub
        self.name = name
        self.stubs = stubs
        self._number = number
        self._cell = cell
        #: The kind of its contents; None if it has none that cross by value.
        self.contents: Kind | None = None
        #: True if the contents can be given where the object is wanted, and stand for it inside
        #: others.
        self.by_value = False

    def number(self, stubs: Stubs) -> int:
        # Numbers of another interface are refused with the command that has them.
        return self._number if self.stubs is stubs else NO_NUMBER

    def cell(self, stubs: Stubs) -> CellNumbers:
        return self._cell if self.stubs is stubs else _NO_CELL

    def operand(self, value: Any) -> Operand:
        if isinstance(value, self.stub):
            return value
        if self.by_value and self.contents is not None:
            return self.contents.operand(value)
        raise self.wrong(value)

    def take(self, items: Items, core: Recorder) -> Any:
        if self.by_value and self.contents is not None:
            return self.contents.take(items, core)
        return self.take_object(items, core)

    def take_object(self, items: Items, core: Recorder) -> Any:
        """Takes the next item, which is an object."""
        item = next(items, None)
        if not isinstance(item, Handle):
            raise Mismatch
        held = core.handles.get(item.number)
        if held is None or held.holders == 0:
            # Of an exception whose stub is gone, and with it the object.
            raise Mismatch
        return core.new_object(self.stub.__new__(self.stub), item.number)


class BuiltinKind(ObjectKind):
    """A built-in type of objects, whose numbers are in the table of the session's stubs."""

    def __init__(self, stub: type[Slot], name: str, row: int) -> None:
        super().__init__(stub, name, None, NO_NUMBER)
        self.row = row

    def number(self, stubs: Stubs) -> int:
        return stubs.builtin[self.row][0] if stubs.builtin else NO_NUMBER

    def cell(self, stubs: Stubs) -> CellNumbers:
        return stubs.builtin[self.row][1] if stubs.builtin else _NO_CELL


class Contents(Kind):
    """The contents of an object, which cross as a compound."""

    def _items(self, items: Items) -> list[Value | Handle]:
        item = next(items, None)
        if item is None or isinstance(item, Handle) or item[0] != t.TAG_COMPOUND:
            raise Mismatch
        return compound_items(item[1])  # type: ignore[arg-type]


class SequenceKind(Contents):
    """The elements of a sequence, array, vector or list: a list of Python."""

    def __init__(self, element: Kind) -> None:
        self.element = element
        self.name = f"sequence of {element.name}"

    def operand(self, value: Any) -> Operand:
        if isinstance(value, (str, bytes, bytearray)) or not isinstance(value, Sequence):
            raise self.wrong(value)
        words = self._words(value)
        if words is not None:
            return words
        return ItemList([self.element.operand(item) for item in value])

    def _words(self, value: Sequence[Any]) -> WordList | None:
        """Returns the words of numbers, if all are."""
        if self.element is INT and all(type(item) is int for item in value):
            try:
                return WordList(t.TAG_INT, array("q", value))
            except OverflowError:
                raise OverflowError("a number does not fit into an int of 64 bits") from None
        if self.element is REAL and all(type(item) is float for item in value):
            return WordList(t.TAG_REAL, array("q", [real_word(item) for item in value]))
        return None

    def take(self, items: Items, core: Recorder) -> Any:
        return self.element.take_all(self._items(items), core)


class MapKind(Contents):
    """The pairs of a map: a dict of Python, or a list of pairs if objects are keys."""

    def __init__(self, key: Kind, value: Kind) -> None:
        self.key = key
        self.value = value
        self.name = f"map of {key.name} to {value.name}"

    def operand(self, value: Any) -> Operand:
        if not isinstance(value, Mapping):
            raise self.wrong(value)
        items: list[Operand] = []
        for key, one in value.items():
            items += [self.key.operand(key), self.value.operand(one)]
        return ItemList(items)

    def take(self, items: Items, core: Recorder) -> Any:
        inner = self._items(items)
        if len(inner) % 2:
            raise Mismatch
        source = iter(inner)
        pairs = [
            (self.key.take(source, core), self.value.take(source, core))
            for _ in range(len(inner) // 2)
        ]
        return dict(pairs) if isinstance(self.key, Basic) else pairs


@dataclass(frozen=True, slots=True)
class Some(Generic[T]):
    """What is there in a ``maybe`` whose value may be None itself."""

    value: T


class MaybeKind(Contents):
    """A ``maybe``: None, or the value. ``maybe[maybe[T]]`` has :class:`Some` around what is
    there.
    """

    def __init__(self, some: Kind) -> None:
        self.some = some
        self.name = f"maybe of {some.name}"

    @property
    def is_nested(self) -> bool:
        """True if what is there can be None itself."""
        inner = self.some.contents if isinstance(self.some, ObjectKind) else self.some
        return inner is NULL or isinstance(inner, MaybeKind)

    def operand(self, value: Any) -> Operand:
        if value is None:
            return ItemList([(t.TAG_INT, 0), (t.TAG_NIL, None)])
        if self.is_nested and isinstance(value, Some):
            value = value.value
        return ItemList([(t.TAG_INT, 1), self.some.operand(value)])

    def take(self, items: Items, core: Recorder) -> Any:
        inner = self._items(items)
        if len(inner) != 2:
            raise Mismatch
        source = iter(inner)
        match INT.take(source, core):
            case 0:
                return NULL.take(source, core)
            case 1:
                some = self.some.take(source, core)
                return Some(some) if self.is_nested else some
        raise Mismatch


class StructKind(Contents):
    """The fields of a struct or record: a dataclass, or a tuple of the fields."""

    def __init__(self, shape: type, kinds: Sequence[Kind], name: str) -> None:
        assert is_dataclass(shape)
        self.shape = shape
        self.kinds = kinds
        self.names = [field.name for field in fields(shape)]
        self.name = name

    def operand(self, value: Any) -> Operand:
        if isinstance(value, self.shape):
            parts = [getattr(value, name) for name in self.names]
        elif isinstance(value, tuple):
            parts = list(value)
        else:
            raise self.wrong(value)
        if len(parts) != len(self.kinds):
            raise TypeError(f"`{self.name}` has {len(self.kinds)} fields, not {len(parts)}")
        return ItemList([kind.operand(part) for kind, part in zip(self.kinds, parts, strict=True)])

    def take(self, items: Items, core: Recorder) -> Any:
        inner = self._items(items)
        if len(inner) != len(self.kinds):
            raise Mismatch
        source = iter(inner)
        return self.shape(*[kind.take(source, core) for kind in self.kinds])


class OneofKind(Contents):
    """The tag of a oneof with its value: an instance of one of several dataclasses."""

    def __init__(self, tags: Sequence[tuple[type, Kind]], name: str) -> None:
        self.tags = tags
        self.name = name

    def operand(self, value: Any) -> Operand:
        for number, (tag, kind) in enumerate(self.tags):
            if type(value) is tag:
                one = None if kind is NULL else getattr(value, "value", None)
                return ItemList([(t.TAG_INT, number), kind.operand(one)])
        raise self.wrong(value)

    def take(self, items: Items, core: Recorder) -> Any:
        inner = self._items(items)
        if len(inner) != 2:
            raise Mismatch
        source = iter(inner)
        number = INT.take(source, core)
        if not 0 <= number < len(self.tags):
            raise Mismatch
        tag, kind = self.tags[number]
        value = kind.take(source, core)
        return tag() if kind is NULL else tag(value)


def kind_of_value(value: object) -> Basic:
    """Returns the kind of a value of the program, where no type is declared."""
    match value:
        case bool():
            return BOOL
        case int():
            return INT
        case float():
            return REAL
        case str():
            return STR
        case bytes() | bytearray() | memoryview():
            return BYTES
        case None:
            return NULL
    raise TypeError(f"a `{type(value).__name__}` is no value that crosses")
