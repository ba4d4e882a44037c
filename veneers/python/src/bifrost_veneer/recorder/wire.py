"""Words, strings and values as they are appended to a batch.

A batch is an ``array('q')``: one entry for each word of 64 bits. :func:`to_bytes` gives the bytes
of the wire, which are little-endian on every machine.

A value is a pair of a tag and a payload: ``(TAG_INT, 3)``. The payload of a compound is the bytes
behind its length, as they cross.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Final

from .. import _tables as t

Words = array  # array('q')

#: A value: its tag and its payload.
Value = tuple[int, object]

NIL: Final[Value] = (t.TAG_NIL, None)

_IS_BIG: Final = sys.byteorder == "big"
_REAL: Final = struct.Struct("<d")
_WORD: Final = struct.Struct("<q")
_ZEROS: Final = [b"\0" * count for count in range(8)]


def new_words() -> array[int]:
    """Returns an empty batch."""
    return array("q")


def to_bytes(words: array[int]) -> bytes:
    """Returns the bytes of words as they cross."""
    if _IS_BIG:
        words = array("q", words)
        words.byteswap()
    return words.tobytes()


def signed(word: int) -> int:
    """Returns an unsigned word of 64 bits as a batch holds it."""
    return word - (1 << 64) if word >> 63 else word


def head(code: int, flags: int, number: int) -> int:
    """Returns the first word of a command: its code, 24 bits of counts, tags or flags, a number."""
    return signed(code | flags << 8 | number << 32)


def put_raw(words: array[int], data: bytes) -> None:
    """Appends bytes, filled with zeros up to a whole word."""
    data += _ZEROS[-len(data) & 7]
    if _IS_BIG:
        more = array("q", data)
        more.byteswap()
        words.extend(more)
    else:
        words.frombytes(data)


def put_bytes(words: array[int], data: bytes) -> None:
    """Appends a byte string: its length, its bytes, zeros up to a whole word."""
    words.append(len(data))
    put_raw(words, data)


def real_word(value: float) -> int:
    """Returns the word of a real."""
    return _WORD.unpack(_REAL.pack(value))[0]  # type: ignore[no-any-return]


def word_real(word: int) -> float:
    """Returns the real of a signed word."""
    return _REAL.unpack(_WORD.pack(word))[0]  # type: ignore[no-any-return]


def put_value(words: array[int], value: Value) -> None:
    """Appends a value, whose tag stands elsewhere."""
    tag, payload = value
    if tag == t.TAG_INT or tag == t.TAG_BOOL:
        words.append(payload)  # type: ignore[arg-type]
    elif tag == t.TAG_STRING:
        put_bytes(words, payload.encode())  # type: ignore[attr-defined]
    elif tag == t.TAG_REAL:
        words.append(real_word(payload))  # type: ignore[arg-type]
    elif tag == t.TAG_CHAR:
        words.append(ord(payload))  # type: ignore[arg-type]
    elif tag == t.TAG_NIL:
        words.append(0)
    else:
        # Bytes, and compounds by the bytes behind their length.
        put_bytes(words, payload)  # type: ignore[arg-type]


class Items:
    """Writes a compound: :meth:`tag` and the words of each item, then :meth:`end`."""

    __slots__ = ("_start", "_tags", "_words")

    def __init__(self, words: array[int], type_number: int, count: int) -> None:
        self._words = words
        self._start = len(words)
        self._tags: list[int] = []
        words.append(0)
        words.append(signed(type_number | count << 32))
        words.extend([0] * ((count + 15) // 16))

    def tag(self, tag: int) -> None:
        """Notes the tag of the next item, whose words the caller appends."""
        self._tags.append(tag)

    def end(self) -> None:
        """Ends the compound, which has all its items."""
        words, start = self._words, self._start
        put_tags(words, start + 2, self._tags)
        words[start] = 8 * (len(words) - start - 1)


def put_tags(words: array[int], at: int, tags: Sequence[int]) -> None:
    """Writes tags of four bits into the words from a place on."""
    for first in range(0, len(tags), 16):
        word = 0
        for index, tag in enumerate(tags[first : first + 16]):
            word |= tag << (4 * index)
        words[at + first // 16] = signed(word)


def put_uniform(words: array[int], type_number: int, tag: int, items: array[int]) -> None:
    """Appends a compound of a type whose items are words with one tag."""
    count = len(items)
    full, rest = divmod(count, 16)
    words.append(8 * (1 + (count + 15) // 16 + count))
    words.append(signed(type_number | count << 32))
    pattern = tag * 0x1111_1111_1111_1111
    words.extend([signed(pattern)] * full)
    if rest:
        words.append(pattern & ((1 << 4 * rest) - 1))
    words.extend(items)


def put_flush(words: array[int], wanted: Iterable[int], flags: int) -> None:
    """Appends ``flush``. The positions ascend; equal ones count once."""
    start = len(words)
    words.append(0)
    first = count = ranges = 0
    for position in wanted:
        if count and position - first <= count:
            if position - first == count:
                count += 1
            continue
        if count:
            words.append(signed(first | count << 32))
            ranges += 1
        first, count = position, 1
    if count:
        words.append(signed(first | count << 32))
        ranges += 1
    words[start] = head(t.OP_FLUSH, flags, ranges)


def flush_flags(quiet: bool, kept: int | None) -> int:
    """Returns the flags of ``flush``; ``kept`` is the number of unanswered batches, if it is
    kept.
    """
    return int(quiet) | (0 if kept is None else t.FLUSH_KEPT | kept << 8)


def put_hello(
    words: array[int],
    digest: bytes,
    token: str,
    client: str,
    trace: str | None,
    version: int = t.VERSION,
) -> None:
    """Appends ``hello``."""
    words.append(signed(t.MAGIC))
    words.append(version | (0 if trace is None else t.HELLO_TRACED) << 32)
    put_raw(words, digest)
    put_bytes(words, token.encode())
    put_bytes(words, client.encode())
    if trace is not None:
        put_bytes(words, trace.encode())


def put_types(words: array[int], numbers: Iterable[int]) -> None:
    """Appends the numbers of types, a word each."""
    words.extend(numbers)
