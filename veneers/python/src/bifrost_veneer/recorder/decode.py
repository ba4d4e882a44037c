"""Reading replies, of which no byte is trusted.

:func:`decode_reply` is the function to read first. It takes a whole reply from the front of the
bytes and checks its form: lengths, tags, counts, padding, UTF-8. The parts are plain tuples and
small classes; nothing refers to the bytes any more, except compounds, which are kept as bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NoReturn

from .. import _tables as t
from .wire import Value

_WORD: Final = struct.Struct("<Q")
_SIGNED: Final = struct.Struct("<q")
_REAL: Final = struct.Struct("<d")
_PAIR: Final = struct.Struct("<Qq")


class Need(Exception):
    """More bytes are needed."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length


class Bad(Exception):
    """The bytes have another form: the stream cannot be read any further."""

    def __init__(self, number: int, offset: int, what: str) -> None:
        super().__init__(f"{t.ERRORS[number].name}: {what} (at byte {offset} of the command)")
        self.number = number
        self.offset = offset
        self.what = what

    @property
    def name(self) -> str:
        """The name of the error."""
        return t.ERRORS[self.number].name


class Reader:
    """Bytes of one message, read from the front."""

    __slots__ = ("at", "bytes_max", "data", "end")

    def __init__(
        self, data: bytes | bytearray | memoryview, at: int, end: int, bytes_max: int
    ) -> None:
        self.data = data
        self.at = at
        self.end = end
        #: The greatest place that a length may reach.
        self.bytes_max = bytes_max

    def bad(self, what: str, number: int = t.ERROR_BAD_WORD) -> NoReturn:
        """Refuses the bytes."""
        raise Bad(number, max(self.at - 8, 0), what)

    def check(self, holds: bool, what: str) -> None:
        """Refuses the bytes unless something holds."""
        if not holds:
            self.bad(what)

    def word(self) -> int:
        """Returns the next word, unsigned."""
        at = self.at
        if at + 8 > self.end:
            raise Need(at + 8)
        self.at = at + 8
        return _WORD.unpack_from(self.data, at)[0]  # type: ignore[no-any-return]

    def signed(self) -> int:
        """Returns the next word, signed."""
        word = self.word()
        return word - (1 << 64) if word >> 63 else word

    def take(self, length: int) -> int:
        """Passes over bytes and returns their place; refuses a length beyond the limit first."""
        if length > self.bytes_max - self.at:
            self.bad("a command within the length limit", t.ERROR_FRAME_TOO_LONG)
        start, end = self.at, self.at + length
        if end > self.end:
            raise Need(end)
        self.at = end
        return start

    def words(self, count: int) -> list[int]:
        """Returns so many words, unsigned."""
        at = self.take(8 * count)
        return list(struct.unpack_from(f"<{count}Q", self.data, at))

    def byte_string(self) -> bytes:
        """Returns a byte string."""
        length = self.word()
        at = self.take((length + 7) & ~7)
        taken = bytes(self.data[at : self.at])
        if length & 7:
            self.check(not any(taken[length:]), "zeros after a string")
            return taken[:length]
        return taken

    def string(self) -> str:
        """Returns a text."""
        data = self.byte_string()
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.bad("a string in UTF-8", t.ERROR_BAD_TEXT)


def read_value(reader: Reader, tag: int, depth: int = 1) -> Value:
    """Reads the word, string, bytes or compound that a tag announces."""
    if tag == t.TAG_INT:
        return (tag, reader.signed())
    if tag == t.TAG_STRING:
        return (tag, reader.string())
    if tag == t.TAG_BYTES:
        return (tag, reader.byte_string())
    if tag == t.TAG_COMPOUND:
        return (tag, read_compound(reader, depth))
    word = reader.word()
    if tag == t.TAG_NIL:
        reader.check(word == 0, "a word that its tag allows")
        return (tag, None)
    if tag == t.TAG_BOOL:
        reader.check(word <= 1, "a word that its tag allows")
        return (tag, word == 1)
    if tag == t.TAG_REAL:
        return (tag, _REAL.unpack_from(reader.data, reader.at - 8)[0])
    if tag == t.TAG_CHAR:
        reader.check(word < 0x11_0000 and not 0xD800 <= word < 0xE000, "a word that its tag allows")
        return (tag, chr(word))
    reader.bad("a tag")


def nibbles(words: list[int], count: int) -> list[int]:
    """Returns tags of four bits."""
    tags = []
    for word in words:
        for shift in range(0, 64, 4):
            tags.append(word >> shift & 15)
    return tags[:count]


def read_compound(reader: Reader, depth: int) -> bytes:
    """Reads and checks a compound; returns its bytes behind the length."""
    reader.check(depth <= t.COMPOUND_DEPTH_MAX, "compounds that nest at most 64 levels deep")
    length = reader.word()
    reader.check(length % 8 == 0 and length > 0, "a length in whole words")
    at = reader.take(length)
    data = bytes(reader.data[at : reader.at])
    inner = Reader(data, 0, length, length)
    try:
        _check_compound(inner, depth)
    except Need:
        reader.bad("a compound of the length in its first word")
    reader.check(inner.at == length, "a compound no longer than its items")
    return data


def _check_compound(reader: Reader, depth: int) -> None:
    count = reader.word() >> 32
    words = reader.words((count + 15) // 16)
    last = count % 16
    reader.check(last == 0 or words[-1] >> (4 * last) == 0, "no tags beyond the items")
    for tag in nibbles(words, count):
        if tag == t.TAG_REF:
            reader.word()
        elif tag == t.TAG_COMPOUND:
            read_compound(reader, depth + 1)
        else:
            read_value(reader, tag)


class Handle:
    """A reference among the items of a compound, the cells of a row, or the values of an
    exception.
    """

    __match_args__ = ("number", "type")
    __slots__ = ("number", "type")

    def __init__(self, number: int, type: int = t.NO_NUMBER) -> None:
        self.number = number
        self.type = type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and (self.number, self.type) == (other.number, other.type)

    def __hash__(self) -> int:
        return hash((self.number, self.type))

    def __repr__(self) -> str:
        return f"Handle({self.number}, {self.type})"


def compound_type(data: bytes) -> int:
    """Returns the number of a compound's type."""
    return _WORD.unpack_from(data)[0] & 0xFFFF_FFFF  # type: ignore[no-any-return]


def compound_items(data: bytes) -> list[Value | Handle]:
    """Returns the items of a checked compound: values and handles."""
    reader = Reader(data, 0, len(data), len(data))
    count = reader.word() >> 32
    tags = nibbles(reader.words((count + 15) // 16), count)
    if tags and tags.count(t.TAG_INT) == count:
        at = reader.take(8 * count)
        return [(t.TAG_INT, word) for word in struct.unpack_from(f"<{count}q", data, at)]
    items: list[Value | Handle] = []
    for tag in tags:
        items.append(Handle(reader.signed()) if tag == t.TAG_REF else read_value(reader, tag))
    return items


def each_reference(data: bytes) -> Iterator[int]:
    """Yields each reference in a checked compound, at any depth."""
    for item in compound_items(data):
        if isinstance(item, Handle):
            yield item.number
        elif item[0] == t.TAG_COMPOUND:
            yield from each_reference(item[1])  # type: ignore[arg-type]


@dataclass(slots=True)
class Table:
    """A table of rows: its columns, each by the tag of its cells and its type; its cells, row by
    row.
    """

    count: int
    columns: list[tuple[int, int]]
    cells: list[Value | Handle]

    def handles(self) -> Iterator[int]:
        """Yields the handle of each object in it."""
        for cell in self.cells:
            if isinstance(cell, Handle):
                yield cell.number
            elif cell[0] == t.TAG_COMPOUND:
                yield from each_reference(cell[1])  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the program of the server: a routine, its file and line, both empty if not
    known.
    """

    routine: str
    file: str
    line: int

    def __str__(self) -> str:
        match (self.file, self.line):
            case ("", _):
                return self.routine
            case (file, 0):
                return f"{self.routine} ({file})"
            case (file, line):
                return f"{self.routine} ({file}:{line})"


@dataclass(frozen=True, slots=True)
class CameSignal:
    """An exception that a call signalled."""

    name: str
    values: list[Value | Handle]
    places: list[Place]
    more: int


@dataclass(frozen=True, slots=True)
class CameUnhandled:
    """A call that was not run, because an argument is the result of a call that failed."""

    argument: int
    back: int
    cause: int


@dataclass(frozen=True, slots=True)
class CameRefused:
    """A call or structure that was refused before it ran."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class CameException:
    """An exception, the position of its call, and the rounds of the loops around it."""

    call: int
    rounds: tuple[int, ...]
    kind: CameSignal | CameUnhandled | CameRefused


#: An outcome: a value; a handle; or one of the tags below with its payload.
Outcome = Value | Handle


@dataclass(frozen=True, slots=True)
class Welcome:
    """The server's description of itself."""

    version: int
    session: int
    digest: bytes
    server: str
    limits: list[tuple[int, int]]


def _microseconds(nanoseconds: int) -> str:
    # Tenths of a microsecond, rounded.
    tenths = (nanoseconds + 50) // 100
    return f"{tenths // 10}.{tenths % 10} us"


def _fetched(fetches: int, objects: int) -> str:
    text = f", {fetches} fetches" if fetches else ""
    return text + (f", {objects} objects" if objects else "")


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a command, a structure, or several of them."""

    nanoseconds: int
    calls: int
    fuel: int
    fetches: int
    objects: int

    def __str__(self) -> str:
        text = _microseconds(self.nanoseconds)
        text += f", {self.calls} calls" if self.calls else ""
        text += f", fuel {self.fuel}" if self.fuel else ""
        return text + _fetched(self.fetches, self.objects)


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """The cost of one command outside structures, or of one structure, by its first position."""

    call: int
    is_structure: bool
    cost: Cost


@dataclass(frozen=True, slots=True)
class Profile:
    """The time of a batch, and the cost of its commands. ``rest`` is that of the commands without
    an entry, ``omitted`` their number."""

    nanoseconds: int
    fetches: int
    objects: int
    runs: int
    entries: list[ProfileEntry]
    omitted: int
    rest: Cost | None

    @property
    def totals(self) -> str:
        """The time of the batch and its fetches, as a text."""
        runs = f", {self.runs} runs" if self.runs > 1 else ""
        return _microseconds(self.nanoseconds) + _fetched(self.fetches, self.objects) + runs


@dataclass(frozen=True, slots=True)
class Flushed:
    """The answer to ``flush``. Outcomes beside values and handles: ``(TAG_EXCEPTION, place in the
    list)``, ``(TAG_ABSENT, None)``, ``(TAG_ROWS, table)``."""

    outcomes: list[Outcome]
    exceptions: list[CameException]
    omitted: int
    calls: int
    fuel: int
    profile: Profile | None = None


@dataclass(frozen=True, slots=True)
class InterfaceReply:
    """The answer to ``describe``."""

    json: bytes


@dataclass(frozen=True, slots=True)
class History:
    """The answer to ``history``: exceptions, each with the number of its batch."""

    exceptions: list[tuple[int, CameException]]
    omitted: int


@dataclass(frozen=True, slots=True)
class Farewell:
    """The answer to ``bye``."""


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """The end of the session."""

    number: int
    position: int
    text: str


Reply = Welcome | Flushed | InterfaceReply | History | Farewell | ErrorReply

_REPLIES: Final = frozenset(
    (t.OP_WELCOME, t.OP_FLUSHED, t.OP_INTERFACE, t.OP_EXCEPTIONS, t.OP_FAREWELL, t.OP_ERROR)
)


def decode_reply(data: bytes | bytearray, bytes_max: int) -> tuple[Reply, int]:
    """Reads the reply at the front of the bytes; returns it with its length.

    Raises :class:`Need` with the length that it has at least, and :class:`Bad` if it is none.
    """
    stream = Reader(data, 0, len(data), bytes_max)
    word = stream.word()
    code = word & 0xFF
    flags = word >> 8 & 0xFF_FFFF
    profiled = code == t.OP_FLUSHED and flags == t.FLUSHED_PROFILED
    stream.check(code in _REPLIES and (flags == 0 or profiled), "the code of a reply")
    length = stream.word()
    stream.check(length % 8 == 0, "a length in whole words")
    stream.take(length)
    end = stream.at
    reader = Reader(data, 16, end, end)
    try:
        reply = _body(reader, code, word >> 32, profiled)
    except Need:
        reader.bad("a reply of the length in its header")
    reader.check(reader.at == end, "a reply no longer than its parts")
    return reply, end


def _body(reader: Reader, code: int, number: int, profiled: bool) -> Reply:
    if code == t.OP_FLUSHED:
        return _flushed(reader, number, profiled)
    if code == t.OP_WELCOME:
        session = reader.word()
        at = reader.take(32)
        digest = bytes(reader.data[at : at + 32])
        server = reader.string()
        words = reader.words(2 * reader.word())
        limits = [(words[i] & 0xFFFF_FFFF, words[i + 1]) for i in range(0, len(words), 2)]
        return Welcome(number, session, digest, server, limits)
    if code == t.OP_INTERFACE:
        reader.check(number == 0, "zeros after the code")
        return InterfaceReply(reader.byte_string())
    if code == t.OP_EXCEPTIONS:
        omitted = reader.word()
        exceptions: list[tuple[int, CameException]] = []
        for _ in range(number):
            batch = reader.word()
            exceptions.append((batch, _exception(reader)))
        return History(exceptions, omitted)
    if code == t.OP_FAREWELL:
        reader.check(number == 0, "zeros after the code")
        return Farewell()
    return ErrorReply(number, reader.word(), reader.string())


def _flushed(reader: Reader, count: int, profiled: bool) -> Flushed:
    counts = reader.word()
    listed, omitted = counts & 0xFFFF_FFFF, counts >> 32
    cost = reader.word()
    outcomes: list[Outcome] = []
    for _ in range(count):
        at = reader.at
        if at + 16 <= reader.end:
            # The usual outcomes are two words: an integer, or an object.
            first, second = _PAIR.unpack_from(reader.data, at)
            if first == t.TAG_INT:
                outcomes.append((t.TAG_INT, second))
                reader.at = at + 16
                continue
            if first & 0xFFFF_FFFF == t.TAG_REF and second > 0:
                outcomes.append(Handle(second, first >> 32))
                reader.at = at + 16
                continue
        outcome = _outcome(reader)
        outcomes.append(outcome)
        if not isinstance(outcome, Handle) and outcome[0] == t.TAG_EXCEPTION:
            reader.check(outcome[1] < listed, "an exception of the list")  # type: ignore[operator]
    exceptions: list[CameException] = []
    for _ in range(listed):
        exceptions.append(_exception(reader))
    profile = _profile(reader) if profiled else None
    return Flushed(outcomes, exceptions, omitted, cost & 0xFFFF_FFFF, cost >> 32, profile)


def _profile(reader: Reader) -> Profile:
    nanoseconds, fetched, runs = reader.word(), reader.word(), reader.word()
    reader.check(runs >> 32 == 0, "zeros behind the number of runs")
    counts = reader.word()
    omitted = counts >> 32
    entries: list[ProfileEntry] = []
    for _ in range(counts & 0xFFFF_FFFF):
        word = reader.word()
        reader.check(word >> 32 > 0, "the position of a call")
        kind = word & 0xFFFF_FFFF
        reader.check(kind in (t.PROFILE_COMMAND, t.PROFILE_STRUCTURE), "the kind of an entry")
        entries.append(ProfileEntry(word >> 32, kind == t.PROFILE_STRUCTURE, _cost(reader)))
    rest = None
    if omitted:
        reader.check(reader.word() == t.PROFILE_REST, "the rest of a profile")
        rest = _cost(reader)
    fetches, objects = fetched & 0xFFFF_FFFF, fetched >> 32
    return Profile(nanoseconds, fetches, objects, runs, entries, omitted, rest)


def _cost(reader: Reader) -> Cost:
    nanoseconds, ran, fetched = reader.word(), reader.word(), reader.word()
    return Cost(nanoseconds, ran & 0xFFFF_FFFF, ran >> 32, fetched & 0xFFFF_FFFF, fetched >> 32)


def _handle(reader: Reader, type_number: int) -> Handle:
    number = reader.signed()
    reader.check(number > 0, "a handle")
    return Handle(number, type_number)


def _value(reader: Reader, tag: int) -> Value:
    """Reads a value, in which all references are handles."""
    value = read_value(reader, tag)
    if tag == t.TAG_COMPOUND:
        good = all(number > 0 for number in each_reference(value[1]))  # type: ignore[arg-type]
        reader.check(good, "a handle")
    return value


def _outcome(reader: Reader) -> Outcome:
    word = reader.word()
    tag, number = word & 0xFF, word >> 32
    reader.check(word >> 8 & 0xFF_FFFF == 0, "zeros after a tag")
    if tag == t.TAG_REF:
        return _handle(reader, number)
    if tag == t.TAG_EXCEPTION:
        return (tag, number)
    if tag == t.TAG_ROWS:
        return (tag, _table(reader, number))
    reader.check(number == 0, "zeros after a tag")
    if tag == t.TAG_ABSENT:
        return (tag, None)
    return _value(reader, tag)


_COLUMN_TAGS: Final = frozenset((*range(t.TAG_REF, t.TAG_STRING + 1), t.TAG_BYTES, t.TAG_COMPOUND))


def _table(reader: Reader, count: int) -> Table:
    length = reader.word()
    reader.check(length % 8 == 0, "a length in whole words")
    at = reader.take(length)
    inner = Reader(reader.data, at, reader.at, reader.at)
    try:
        table = _table_parts(inner, count)
    except Need:
        reader.bad("a table of the length in its header")
    reader.check(inner.at == reader.at, "a table no longer than its cells")
    return table


def _table_parts(reader: Reader, count: int) -> Table:
    width = reader.word()
    reader.check(1 <= width <= 0xFF, "a count of columns")
    columns = []
    for word in reader.words(width):
        good = word & 0xFF in _COLUMN_TAGS and word >> 8 & 0xFF_FFFF == 0
        reader.check(good, "the tag of a column, and zeros after it")
        columns.append((word & 0xFF, word >> 32))
    cells: list[Value | Handle] = []
    for _ in range(count):
        for tag, type_number in columns:
            cells.append(_handle(reader, type_number) if tag == t.TAG_REF else _value(reader, tag))
    return Table(count, columns, cells)


def _exception(reader: Reader) -> CameException:
    word = reader.word()
    code, values, rounds, places = (word >> shift & 0xFF for shift in (0, 8, 16, 24))
    signals = code == t.EXCEPTION_SIGNAL
    reader.check((values == 0 and places == 0) or signals, "zeros for the counts")
    iterations = tuple(reader.words(rounds))
    reader.check(all(n <= 0xFFFF_FFFF for n in iterations), "the number of a round")
    kind: CameSignal | CameUnhandled | CameRefused
    if signals:
        name = reader.string()
        came: list[Value | Handle] = []
        for _ in range(values):
            value = _outcome(reader)
            good = isinstance(value, Handle) or value[0] not in _NO_VALUES
            reader.check(good, "a value of an exception")
            came.append(value)
        kind = CameSignal(name, came, *_places(reader, places))
    elif code == t.EXCEPTION_UNHANDLED:
        cause = reader.word()
        kind = CameUnhandled(cause & 0xFF_FFFF, cause >> 24 & 0xFF, cause >> 32)
    elif code == t.EXCEPTION_REFUSED:
        number = reader.word()
        reader.check(number <= 0xFFFF_FFFF, "the number of an error")
        kind = CameRefused(number, reader.string())
    else:
        reader.bad("the kind of an exception")
    return CameException(word >> 32, iterations, kind)


_NO_VALUES: Final = frozenset((t.TAG_EXCEPTION, t.TAG_ABSENT, t.TAG_ROWS))


def _places(reader: Reader, count: int) -> tuple[list[Place], int]:
    if count == 0:
        return [], 0
    reader.check(count <= t.PLACES_MAX, "a count of places")
    more = reader.word()
    places = []
    for _ in range(count):
        line = reader.word()
        reader.check(line <= 0xFFFF_FFFF, "the number of a line")
        names = []
        for _ in range(2):
            names.append(reader.byte_string())
            reader.check(
                len(names[-1]) <= t.PLACE_BYTES_MAX, "a name of a place no longer than its limit"
            )
        try:
            places.append(Place(names[0].decode(), names[1].decode(), line))
        except UnicodeDecodeError:
            reader.bad("a string in UTF-8", t.ERROR_BAD_TEXT)
    return places, more
