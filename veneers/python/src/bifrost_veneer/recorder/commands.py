"""Reading commands, for the text of a batch and for tests.

:func:`decode_command` takes one command from the front of the bytes and returns it as plain data,
in the form of ``vectors/commands.json``: ``{"call": {...}}``, or the name alone for a command
without parts.
"""

from __future__ import annotations

import re
from typing import Any, Final

from .. import _tables as t
from .decode import Handle, Need, Reader, compound_items, compound_type, nibbles, read_value
from .wire import Value

_PLAIN: Final = {
    t.OP_DESCRIBE: "describe",
    t.OP_COMMIT: "commit",
    t.OP_ABORT: "abort",
    t.OP_BYE: "bye",
    t.OP_WHILE: "while",
    t.OP_END_WHILE: "end_while",
    t.OP_IF: "if",
    t.OP_ELSE: "else",
    t.OP_END_IF: "end_if",
    t.OP_FOREACH: "foreach",
    t.OP_END_FOREACH: "end_foreach",
    t.OP_BREAK: "break",
    t.OP_CONTINUE: "continue",
    t.OP_EXCEPT: "except",
    t.OP_END_EXCEPT: "end_except",
    t.OP_END_PROCEDURE: "end_procedure",
}
_CALLS: Final = {
    t.OP_CALL: "method",
    t.OP_SEND: "method",
    t.OP_CALL_ROUTINE: "routine",
    t.OP_CALL_PROCEDURE: "procedure",
}
_CALL_NAMES: Final = {
    t.OP_CALL: "call",
    t.OP_SEND: "send",
    t.OP_CALL_ROUTINE: "call_routine",
    t.OP_CALL_PROCEDURE: "call_procedure",
}
_TRACE: Final = re.compile(
    r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL
)


def parse_trace(text: str) -> str | None:
    """Returns the trace context of a ``traceparent`` in the form of version 00; None if it is
    none.
    """
    found = _TRACE.fullmatch(text)
    if found is None:
        return None
    version, trace, parent, flags, rest = found.groups()
    if int(trace, 16) == 0 or int(parent, 16) == 0 or (rest is not None and version == "00"):
        return None
    return f"00-{trace}-{parent}-{flags}"


def show(value: Value | Handle) -> dict[str, Any]:
    """Returns a value or reference as plain data."""
    if isinstance(value, Handle):
        return {"ref": value.number}
    tag, payload = value
    match tag:
        case t.TAG_NIL:
            return {"nil": None}
        case t.TAG_BOOL:
            return {"bool": payload}
        case t.TAG_INT:
            return {"int": str(payload)}
        case t.TAG_REAL:
            return {"real": show_real(payload)}  # type: ignore[arg-type]
        case t.TAG_CHAR:
            return {"char": payload}
        case t.TAG_STRING:
            return {"string": payload}
        case t.TAG_BYTES:
            return {"bytes": payload.hex()}  # type: ignore[attr-defined]
    data: bytes = payload  # type: ignore[assignment]
    number = compound_type(data)
    items = [show(item) for item in compound_items(data)]
    return {"compound": {"type": None if number == t.NO_NUMBER else number, "items": items}}


def show_real(value: float) -> str:
    """Returns a real in the shortest digits that read back as it."""
    if value != value:
        return "NaN"
    text = repr(value)
    if "e" in text:
        mantissa, _, exponent = text.partition("e")
        text = f"{mantissa}e{int(exponent)}"
    return text


def _args(reader: Reader, word: int) -> list[dict[str, Any]]:
    count, first = word >> 8 & 0xFF, word >> 16 & 0xFFFF
    if count == 0:
        reader.check(first == 0, "no tags without arguments")
        return []
    reader.check(count >= 4 or first >> (4 * count) == 0, "no tags beyond the arguments")
    words = reader.words((count - 4 + 15) // 16) if count > 4 else []
    last = (count - 4) % 16
    if words:
        reader.check(last == 0 or words[-1] >> (4 * last) == 0, "no tags beyond the arguments")
    tags = [*nibbles([first], 4), *nibbles(words, 16 * len(words))][:count]
    return [_operand(reader, tag) for tag in tags]


def _operand(reader: Reader, tag: int) -> dict[str, Any]:
    if tag == t.TAG_REF:
        return {"ref": reader.signed()}
    return show(read_value(reader, tag))


def _types(reader: Reader, count: int) -> list[int]:
    types = reader.words(count)
    reader.check(all(number < t.NO_NUMBER for number in types), "numbers of types")
    return types


def _hello(reader: Reader, word: int) -> dict[str, Any]:
    reader.check(word == t.MAGIC, "the magic word of hello")
    version = reader.word()
    reader.check(version >> 32 <= t.HELLO_TRACED, "a version")
    at = reader.take(32)
    hello = {"version": version & 0xFFFF_FFFF, "digest": bytes(reader.data[at : at + 32]).hex()}
    hello |= {"token": reader.string(), "client": reader.string()}
    if version >> 32:
        trace = parse_trace(reader.string())
        reader.check(trace is not None, "a `traceparent` of W3C")
        hello["trace"] = trace
    return {"hello": hello}


def decode_command(data: bytes, at: int = 0, bytes_max: int = t.FRAME_BYTES_MAX) -> tuple[Any, int]:
    """Reads the command at a place; returns it, and the place behind it.

    Raises :class:`Need` if it is not whole, and :class:`Bad` if it is none.
    """
    reader = Reader(memoryview(data)[at:], 0, len(data) - at, bytes_max)
    return _command(reader), at + reader.at


def decode_commands(data: bytes) -> list[Any]:
    """Reads all commands."""
    at, commands = 0, []
    while at < len(data):
        command, at = decode_command(data, at)
        commands.append(command)
    return commands


def _command(reader: Reader) -> Any:
    word = reader.word()
    code, flags, number = word & 0xFF, word >> 8 & 0xFF_FFFF, word >> 32
    if code in _CALLS:
        parts: dict[str, Any] = {_CALLS[code]: number}
        if code in (t.OP_CALL, t.OP_SEND):
            parts["receiver"] = reader.signed()
        parts["args"] = _args(reader, word)
        return {_CALL_NAMES[code]: parts}
    if code == t.OP_HELLO:
        return _hello(reader, word)
    if code in _PLAIN:
        reader.check(word == code, "zeros after the code")
        return _PLAIN[code]
    return _other(reader, word, code, flags, number)


def _other(reader: Reader, word: int, code: int, flags: int, number: int) -> Any:
    optional = None if number == t.NO_NUMBER else number
    match code:
        case t.OP_LOOKUP:
            reader.check(flags == 0, "zeros between code and number")
            return {"lookup": {"name": reader.string(), "expected": optional}}
        case t.OP_CONSTANT:
            reader.check(number == 0 and flags <= 0xFF, "zeros after the tag")
            reader.check(flags != t.TAG_REF, "the tag of a value")
            return {"constant": show(read_value(reader, flags))}
        case t.OP_CELL:
            reader.check(flags == 0, "zeros between code and number")
            return {"cell": {"element": number}}
        case t.OP_ROWS:
            reader.check(number == 0 and 1 <= flags <= 0xFF, "a count of columns")
            return {"rows": {"columns": _types(reader, flags)}}
        case t.OP_EMIT:
            rows = reader.signed()
            values = _args(reader, word)
            reader.check(number == 0, "zeros after the tags")
            return {"emit": {"rows": rows, "values": values}}
        case t.OP_AS | t.OP_IS:
            reader.check(flags == 0, "zeros between code and number")
            name = "as" if code == t.OP_AS else "is"
            return {name: {"type": number, "object": reader.signed()}}
        case t.OP_GET:
            reader.check(word == code, "zeros after the code")
            return {"get": {"object": reader.signed()}}
        case t.OP_FREE:
            reader.check(flags <= 0xFF, "a number of batches")
            handles = [_signed(n) for n in reader.words(number)]
            return {"free": {"handles": handles, "unanswered": flags} if flags else handles}
        case t.OP_FLUSH:
            return _flush(reader, flags, number)
        case t.OP_HISTORY:
            reader.check(number == 0 and flags <= 1, "a flag")
            return "clear_history" if flags else "history"
        case t.OP_PROFILE:
            reader.check(number == 0 and flags <= 1, "a flag")
            return {"profile": {"on": flags == t.PROFILE_ON}}
        case t.OP_TRANSACTION:
            reader.check(number == 0 and flags & 0xFF <= 1, "a flag and a number of tries")
            batch = None
            if flags & 0xFF:
                low, high, count = reader.words(3)
                batch = {"client": f"{high << 64 | low:032x}", "number": count}
            return {"transaction": {"tries": flags >> 8, "batch": batch}}
        case t.OP_WAIT:
            reader.check(flags == 0, "zeros between code and number")
            return {"wait": {"ms": number}}
        case t.OP_DO | t.OP_THEN:
            reader.check(word == code, "zeros after the code")
            return {"do" if code == t.OP_DO else "then": {"test": reader.signed()}}
        case t.OP_WHEN:
            reader.check(number == 0 and flags <= 0xFF, "a count")
            signal = reader.string()
            return {"when": {"name": signal, "values": _types(reader, flags)}}
        case t.OP_OTHERS:
            reader.check(number == 0 and flags <= 1, "a flag")
            return {"others": {"named": flags == 1}}
        case t.OP_PROCEDURE:
            reader.check(flags <= 0xFF, "a count")
            procedure = reader.string()
            return {
                "procedure": {
                    "name": procedure,
                    "params": _types(reader, flags),
                    "result": optional,
                }
            }
        case t.OP_RETURN:
            reader.check(number == 0, "zeros after the tag")
            return {"return": _returned(reader, flags)}
    reader.bad("the code of a command")


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _returned(reader: Reader, flags: int) -> Any:
    count, tag, rest = flags & 0xFF, flags >> 8 & 0xFF, flags >> 16
    if count == 1 and rest == 0:
        return _operand(reader, tag)
    reader.check(flags == 0, "a count and a tag")
    return None


def _flush(reader: Reader, flags: int, number: int) -> Any:
    keeps, unanswered = flags & t.FLUSH_KEPT != 0, flags >> 8
    good = flags & 0xFC == 0 and unanswered <= 0xFF and (keeps or unanswered == 0)
    reader.check(good, "flags and a number of batches")
    ranges, least = [], 1
    for range_word in reader.words(number):
        first, count = range_word & 0xFFFF_FFFF, range_word >> 32
        in_order = first >= least and count > 0 and first + count - 1 <= 0xFFFF_FFFF
        reader.check(in_order, "ranges in order")
        # One more than touching, so that a set of futures has one encoding.
        least = first + count + 1
        ranges.append([first, count])
    flush: dict[str, Any] = {"wanted": ranges, "quiet": flags & t.FLUSH_QUIET != 0}
    if keeps:
        flush["kept"] = unanswered
    return {"flush": flush}


__all__ = ["Need", "decode_command", "decode_commands", "parse_trace", "show"]
